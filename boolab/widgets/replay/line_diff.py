"""What is not the same in two texts: numbered lines, with some of those around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from boolab.widgets.replay.diffs import diff_rows

_CONTEXT: Final = 2


class DiffLine(NamedTuple):
    """A line: its number in the old and the new file, None where it is not in that file, and its text in parts.

    Every second part is changed.
    """

    old: int | None
    new: int | None
    parts: tuple[str, ...]


def diff_of(old: str, new: str) -> list[DiffLine]:
    r"""The lines that are removed and added, in order, each with two unchanged lines around it.

    Example:
        >>> [tuple(line) for line in diff_of("a\nb: 1\n", "a\nb: 2\n")]
        [(1, 1, ('a',)), (2, None, ('b: ', '1')), (None, 2, ('b: ', '2'))]
    """
    lines = [*_numbered("\n".join(old.splitlines()), "\n".join(new.splitlines()))]
    changed = [place for place, line in enumerate(lines) if line.old is None or line.new is None]
    near = {place + k for place in changed for k in range(-_CONTEXT, _CONTEXT + 1)}
    return [line for place, line in enumerate(lines) if place in near]


def _numbered(old: str, new: str) -> Iterator[DiffLine]:
    before = after = 0
    for sign, parts in diff_rows(old, new):
        before += sign != "+"
        after += sign != "-"
        yield DiffLine(None if sign == "+" else before, None if sign == "-" else after, parts)
