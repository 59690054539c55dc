"""Commands of boolab within texts, as they have to be typed where the text is read."""

from __future__ import annotations

import re
from typing import Final

from boolab.errors import program

_COMMAND: Final = re.compile(r"(?m)(^[ ]*|type: |For another harness: )boolab (?=[a-z]+ )")


def insert_program(text: str) -> str:
    """A text in which lines that are commands of boolab, and those that are to be typed, run as they stand."""
    return with_program(text, program())


def with_program(text: str, word: str) -> str:
    """A text in which lines that are commands of boolab, and those that are to be typed, begin with another word."""
    return text if word == "boolab" else _COMMAND.sub(lambda match: f"{match[1]}{word} ", text)
