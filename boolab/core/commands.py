"""Commands of boolab within texts: `boolab ...` in all that is shared, as it has to be typed here in a terminal."""

from __future__ import annotations

import re
from typing import Final

from boolab.errors import program

_COMMAND: Final = re.compile(r"(?m)(^[ ]*|type: |For another harness: )boolab (?=[a-z]+ )")


def insert_program(text: str) -> str:
    """A text for a terminal, whose lines that are commands of boolab, or are to be typed, run as they stand."""
    word = program()
    return text if word == "boolab" else _COMMAND.sub(lambda match: f"{match[1]}{word} ", text)
