"""Edits of texts: some parts are replaced, and the result is checked before it is used.

The editors of JSON, TOML and YAML say which parts of a text change. Whatever is outside of these parts stays, character
by character, and the result has to have exactly the values that are expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from boolab.errors import FileError

_Document = TypeVar("_Document")


class Replacement(NamedTuple):
    """A part of a text, from `start` to before `end`, and the text in its place."""

    start: int
    end: int
    text: str


def edit_text(
    text: str,
    replacements: Iterable[Replacement],
    read: Callable[[str], _Document],
    is_expected: Callable[[_Document], bool],
) -> tuple[str, _Document] | None:
    """Replace parts of a text: the new text, as it is and as it is read; None if its values are not those expected."""
    parts, offset = [], 0
    for start, end, new in sorted(replacements, key=lambda part: part[:2]):  # the order of two at one place stays
        if not offset <= start <= end:
            return None
        parts += [text[offset:start], new]
        offset = end
    changed = "".join([*parts, text[offset:]])
    try:
        document = read(changed)
    except FileError:
        return None
    return (changed, document) if is_expected(document) else None


def is_same(first: Any, other: Any) -> bool:  # noqa: ANN401 - values of JSON, TOML or YAML
    """Whether two values are the same, with the types of all their parts: 1 is neither 1.0 nor true."""
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        return first.keys() == other.keys() and all(is_same(value, other[key]) for key, value in first.items())
    if type(first) is not type(other):
        return False
    if isinstance(first, list | tuple):
        return len(first) == len(other) and all(map(is_same, first, other))
    return bool(first == other) if not isinstance(first, float) else repr(first) == repr(other)
