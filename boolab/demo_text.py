"""How the demo writes for a terminal: paragraphs of one width, and tables."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

WIDTH: Final = 100


def wrap(text: str, indent: str = "", hang: str = "") -> str:
    """A paragraph; `hang` indents its lines but the first."""
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=hang, break_on_hyphens=False)


def paragraphs(text: str) -> str:
    """A text in triple quotes, each of its paragraphs wrapped."""
    return "\n".join(wrap(" ".join(paragraph.split())) for paragraph in text.split("\n\n"))


def align(headers: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> str:
    """Columns two spaces apart: `left` of them aligned to the left, the others to the right. Headers break at `_`."""
    broken = [header.split("_") for header in headers]
    height = max(map(len, broken))
    head = list(zip(*([""] * (height - len(words)) + words for words in broken), strict=True))
    widths = [max(map(len, column)) for column in zip(*head, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(w) if n < left else cell.rjust(w) for n, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in (*head, ["-" * width for width in widths], *rows)
    ]
    return "\n".join(line.rstrip() for line in lines)
