"""How the demo writes for a terminal: paragraphs of one width, and tables."""

from __future__ import annotations

from collections.abc import Sequence

from boolab.core.text import aligned, wrapped


def wrap(text: str, indent: str = "", hang: str = "") -> str:
    """A paragraph; `hang` indents its lines but the first."""
    return wrapped(text, first=indent, rest=hang)


def paragraphs(text: str) -> str:
    """A text in triple quotes, each of its paragraphs wrapped."""
    return "\n".join(map(wrap, text.split("\n\n")))


def align(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> str:
    """A table: `left` of its columns are aligned to the left, the others to the right. Headers break at `_`."""
    broken = [header.split("_") for header in headers]
    height = max(map(len, broken))
    head = list(zip(*([""] * (height - len(words)) + words for words in broken), strict=True))
    rule = ["-" * max(map(len, column)) for column in zip(*head, *rows, strict=True)]
    return "\n".join(aligned([*head, rule, *rows], left=range(left)))
