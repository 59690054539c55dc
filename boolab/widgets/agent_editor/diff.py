"""What saving would change in a file, line by line."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Final, NamedTuple

_CONTEXT: Final = 2


class DiffLine(NamedTuple):
    """A line: its number in the old and the new file, None where it is not in that file, and its text."""

    old: int | None
    new: int | None
    text: str


def diff_of(old: str, new: str) -> list[DiffLine]:
    r"""The lines that are removed and added, in order, each with two unchanged lines around it.

    Example:
        >>> [tuple(line) for line in diff_of("a\nb\n", "a\nc\n")]
        [(1, 1, 'a'), (2, None, 'b'), (None, 2, 'c')]
    """
    before, after = old.splitlines(), new.splitlines()
    out: list[DiffLine] = []
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT):
        for kind, a, a_end, b, b_end in group:
            if kind == "equal":
                out += [DiffLine(a + k + 1, b + k + 1, before[a + k]) for k in range(a_end - a)]
                continue
            out += [DiffLine(k + 1, None, before[k]) for k in range(a, a_end)]
            out += [DiffLine(None, k + 1, after[k]) for k in range(b, b_end)]
    return out
