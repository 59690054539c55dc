"""Placeholders: what stands for a text that a recording does not hold, and what of the text boolab still compares.

A recording of facts (`boolab.logs.facts`) has a placeholder in place of every text. Each names the text by a number,
dense from 1 in order of first appearance in the file, so that equal texts have one number and nothing else can be read
from it, and gives the characters of the text:

- `<redacted text 5: 80 chars>`: a text. `<redacted result 31: 1204 chars>`: a result.
- `<redacted result 31/12: 1204 chars>`: a result that begins as result 12 does: see `BEGINNING`. The result of a
  call that exceeded its time limit is marked: `<redacted result 31: 90 chars, did not finish within its time>`.
- `<redacted arguments 9: 340 chars>`: the arguments of a call. `<redacted arguments 9/9/2: 340 chars>`: arguments that
  are the same as 9 with the keys in their order (here: as no others before), and the same as 2 with the keys sorted.

An empty text stays empty. A text is a placeholder only if it has this form from its first character to its last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

TIMED_OUT: Final = "did not finish within"
"""Part of the error text of a call that exceeded its time limit."""

BEGINNING: Final = 100
"""How many characters of a result are its beginning, by which errors are compared."""

_MARK: Final = "<redacted "
_PLACEHOLDER: Final = re.compile(
    r"<redacted (text|result|arguments) ([0-9]{1,15})(?:/([0-9]{1,15}))?(?:/([0-9]{1,15}))?: ([0-9]{1,15}) chars"
    rf"(?:, {TIMED_OUT} its time)?>"
)


@dataclass(frozen=True, slots=True)
class RedactedArguments:
    """What is known of arguments behind a placeholder. They are equal if they are the same with their keys sorted."""

    canonical: int  # the number of the first arguments that are the same with the keys sorted
    ordered: int = field(compare=False)  # the number of the first that are the same with the keys in their order
    sent: int = field(compare=False)  # the number of the text as sent
    chars: int = field(compare=False)  # how many characters the text has

    def normalised(self, *, sort: bool) -> str:
        """What stands for the arguments as compact JSON, with the keys sorted or in their order."""
        return f"<redacted arguments {self.canonical if sort else self.ordered}>"

    def __str__(self) -> str:
        digest_text = self.sent == self.ordered == self.canonical
        numbers = f"{self.sent}" if digest_text else f"{self.sent}/{self.ordered}/{self.canonical}"
        return f"<redacted arguments {numbers}: {self.chars} chars>"


def redacted_arguments(arguments: str) -> RedactedArguments | None:
    """What a placeholder of arguments holds; None if they are no placeholder."""
    match = _match(arguments)
    if match is None or match[1] != "arguments":
        return None
    as_sent, ordered, canonical = (int(match[group] or match[2]) for group in (2, 3, 4))
    return RedactedArguments(canonical, ordered, as_sent, int(match[5]))


def redacted_text(number: int, chars: int) -> str:
    """The placeholder of a text."""
    return f"<redacted text {number}: {chars} chars>"


def redacted_result(number: int, begins: int, chars: int, *, timed_out: bool) -> str:
    """The placeholder of a result."""
    numbers = f"{number}" if begins == number else f"{number}/{begins}"
    return f"<redacted result {numbers}: {chars} chars{f', {TIMED_OUT} its time' if timed_out else ''}>"


def is_redacted(text: str) -> bool:
    """Whether a text is a placeholder, so that what it stands for is not known."""
    return _match(text) is not None


def chars_of(text: str) -> int:
    """How many characters a text has, or the text that a placeholder stands for."""
    match = _match(text)
    return len(text) if match is None else int(match[5])


def beginning_of(content: str) -> str:
    """The beginning of a result: two results begin the same if and only if these are equal."""
    match = _match(content)
    return content[:BEGINNING] if match is None else f"<redacted result {match[3] or match[2]}>"


def _match(text: str) -> re.Match[str] | None:
    return _PLACEHOLDER.fullmatch(text) if text.startswith(_MARK) else None
