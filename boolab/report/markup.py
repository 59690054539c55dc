"""HTML that escapes by itself: what is not `Markup` already is text, and text from logs is untrusted."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final

from boolab.stats.finding import clean

_VOID: Final = ("br", "hr", "meta")


class Markup(str):
    """A text that is HTML."""

    __slots__ = ()


def safe(part: str) -> Markup:
    r"""Markup as it is, text escaped and without control characters.

    Example:
        >>> safe("<script>\x1b"), safe(Markup("<b>"))
        ('&lt;script&gt;', '<b>')
    """
    if isinstance(part, Markup):
        return part
    said = html.escape(clean(part))
    return Markup(f"{' ' if part[:1] == ' ' else ''}{said}{' ' if said and part[-1:] == ' ' else ''}")


def join(parts: Iterable[str], between: str = "") -> Markup:
    """Parts one after another."""
    return Markup(safe(between).join(safe(part) for part in parts))


def el(name: str, /, *parts: str, **attributes: str | None) -> Markup:
    """An element. Attributes that are None are left out; `class_` is class, `aria_label` is aria-label.

    Example:
        >>> el("a", "a & b", href="#x", class_=None)
        '<a href="#x">a &amp; b</a>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{safe(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>" if name in _VOID else f"<{name}{given}>{join(parts)}</{name}>")


def paragraphs(texts: Iterable[str]) -> Markup:
    """Each text a paragraph."""
    return join(el("p", text) for text in texts)


def items(texts: Iterable[str]) -> Markup:
    """Each text an item of a list; nothing, if there is none."""
    listed = [el("li", text) for text in texts]
    return el("ul", *listed) if listed else Markup()


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = (), **attributes: str) -> Markup:
    """A table that scrolls by itself where it is too wide; columns of `numbers` are right-aligned."""
    kinds = ["n" if place in numbers else None for place in range(len(head))]
    top = el("tr", *(el("th", cell, scope="col", class_=kind) for cell, kind in zip(head, kinds, strict=True)))
    body = [
        el("tr", *(el("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)),
           class_=getattr(row, "look", None))
        for row in rows
    ]  # fmt: skip
    return el("div", el("table", el("thead", top), el("tbody", *body), **attributes), class_="wide")


class Cells(list[str]):
    """A row of a table with a class of its own."""

    def __init__(self, cells: Iterable[str], look: str | None = None) -> None:
        super().__init__(cells)
        self.look = look


def code(text: str) -> Markup:
    """Lines as they are."""
    lines = [html.escape(_line(line)) for line in text.split("\n")]
    return Markup("<pre>" + "\n".join(lines) + "</pre>")


def _line(line: str) -> str:
    return "".join(char if char.isprintable() else "\ufffd" for char in line)
