"""Two texts as the rows of a diff: lines kept, removed and added, with the changed parts of a line apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import chain
from typing import Final, Literal, NamedTuple, TypeAlias

Sign: TypeAlias = Literal[" ", "-", "+"]

MAX_LINES: Final = 4_000
"""Of longer texts, only the equal lines at the beginning and at the end are found."""
_MAX_PAIRED: Final = 24  # lines of one change that are compared with each other
_MAX_PARTS: Final = 200  # words and signs of a line whose changes are marked
_MIN_RATIO: Final = 0.5
_PART: Final = re.compile(r"\w+|\s+|[^\w\s]")


class DiffRow(NamedTuple):
    """A line of a diff: " ", "-" or "+", and its text in parts, of which every second one is changed."""

    sign: Sign
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole line, without its end."""
        return "".join(self.parts)


def diff_rows(old: str, new: str) -> list[DiffRow]:
    """The rows of the diff of two texts: those without "+" are the old lines, those without "-" the new ones."""
    old_lines, new_lines = (text.split("\n") if text else [] for text in (old, new))
    rows: list[DiffRow] = []
    for tag, i, j, k, m in _changes(old_lines, new_lines):
        if tag == "equal":
            rows += [DiffRow(" ", (line,)) for line in old_lines[i:j]]
        else:
            rows += _changed_rows(old_lines[i:j], new_lines[k:m])
    return rows


def _changes(old_lines: Sequence[str], new_lines: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    if len(old_lines) + len(new_lines) <= MAX_LINES:
        yield from SequenceMatcher(None, old_lines, new_lines).get_opcodes()
        return
    start = _count_common_start(old_lines, new_lines)
    end = _count_common_start(old_lines[start:][::-1], new_lines[start:][::-1])
    n, m = len(old_lines), len(new_lines)
    yield "equal", 0, start, 0, start
    yield "replace", start, n - end, start, m - end
    yield "equal", n - end, n, m - end, m


def _count_common_start(left_lines: Sequence[str], right_lines: Sequence[str]) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(left_lines, right_lines, strict=False)) if a != b),
        min(len(left_lines), len(right_lines)),
    )


def _changed_rows(removed: Sequence[str], added: Sequence[str]) -> list[DiffRow]:
    """Lines that took the place of others; a line that is like one of those is compared with it."""
    minus = [DiffRow("-", (line,)) for line in removed]
    plus = [DiffRow("+", (line,)) for line in added]
    if max(len(removed), len(added)) > _MAX_PAIRED:
        return minus + plus
    first = 0
    for i, line in enumerate(removed):
        for k in range(first, len(added)):
            compared = _compare_lines(line, added[k])
            if compared:
                minus[i], plus[k] = DiffRow("-", compared[0]), DiffRow("+", compared[1])
                first = k + 1
                break
    return minus + plus


def _compare_lines(old: str, new: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Two lines in parts, of which every second one is changed; None if they are not alike."""
    a, b = _PART.findall(old), _PART.findall(new)
    if max(len(a), len(b)) > _MAX_PARTS:
        return None
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    if matcher.real_quick_ratio() < _MIN_RATIO or matcher.ratio() < _MIN_RATIO:
        return None
    codes = matcher.get_opcodes()
    return _merge_pieces([(tag == "equal", "".join(a[i:j])) for tag, i, j, _, _ in codes]), _merge_pieces(
        [(tag == "equal", "".join(b[k:m])) for tag, _, _, k, m in codes]
    )


def _merge_pieces(pieces: Sequence[tuple[bool, str]]) -> tuple[str, ...]:
    """Pieces one after another, joined so that they are in turn unchanged and changed."""
    parts = [""]
    for is_equal, text in pieces:
        if not text:
            continue
        if is_equal == (len(parts) % 2 == 1):
            parts[-1] += text
        else:
            parts.append(text)
    return tuple(parts)


_CONTEXT: Final = 2


class DiffLine(NamedTuple):
    """A line: its number in the old and the new file, None where it is not in that file, and its text in parts.

    Every second part is changed.
    """

    old: int | None
    new: int | None
    parts: tuple[str, ...]


def diff_of(old: str, new: str) -> list[DiffLine]:
    """The lines that are removed and added, in order, each with two unchanged lines around it."""
    lines = [*_number_lines("\n".join(old.splitlines()), "\n".join(new.splitlines()))]
    changed = [index for index, line in enumerate(lines) if line.old is None or line.new is None]
    near = {*chain.from_iterable(range(index - _CONTEXT, index + _CONTEXT + 1) for index in changed)}
    return [line for index, line in enumerate(lines) if index in near]


def _number_lines(old: str, new: str) -> Iterator[DiffLine]:
    old_number = new_number = 0
    for sign, parts in diff_rows(old, new):
        old_number += sign != "+"
        new_number += sign != "-"
        yield DiffLine(None if sign == "+" else old_number, None if sign == "-" else new_number, parts)
