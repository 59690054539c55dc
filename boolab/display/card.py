"""How a notebook shows a single value: a title, a line of facts, a small picture, and the next step.

A card is a fragment of HTML without scripts and without anything from elsewhere. It takes the notebook's own colour of
text, so that it fits every theme; where a notebook's styles are removed, its text stays.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Final

from boolab.core.text import clean
from boolab.display.colours import DARK, LIGHT
from boolab.display.text import NO_MATH

_USED: Final = ("ink3", "line", "kept", "wrong", "idle", *(name for name in LIGHT if name.startswith("tool-")))


def _variables(colours: dict[str, str]) -> str:
    return ";".join(f"--{name}:{colours[name]}" for name in _USED)


_STYLE: Final = (
    f"<style>.boolab-card{{{_variables(dict(LIGHT))}}}"
    f'[data-jp-theme-light="false"] .boolab-card{{{_variables(dict(DARK))}}}'
    ".boolab-card{max-width:60em;color:inherit;font-variant-numeric:tabular-nums;line-height:1.5;margin:.2em 0}"
    ".boolab-card p{margin:0;color:inherit}.boolab-card .quiet{color:var(--ink3)}"
    ".boolab-card .yes{color:var(--kept);font-weight:600}.boolab-card .no{color:var(--wrong);font-weight:600}"
    ".boolab-card svg{display:block;margin:.35em 0}"
    ".boolab-card table{border-collapse:collapse;margin:.3em 0}"
    ".boolab-card :is(th,td){text-align:left;vertical-align:top;padding:.15em 1.2em .15em 0;white-space:normal;"
    "border-bottom:1px solid var(--line);color:inherit;font-weight:400}"
    ".boolab-card th{color:var(--ink3)}</style>"
)


def escaped(text: object) -> str:
    """A text of a log as text of a page: no markup, no control characters."""
    return html.escape(clean(text))


def facts(parts: Iterable[str]) -> str:
    """A quiet line of short facts; empty ones are left out."""
    return f'<p class="quiet">{escaped(" · ".join(part for part in parts if part))}</p>'


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table; the first cell of each row is its name."""
    top = "".join(f'<th scope="col">{escaped(name)}</th>' for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def card(*parts: str, then: str = "") -> str:
    """Parts of HTML as one display.

    `parts`: the parts, from top to bottom; their texts are escaped already.

    Example:
        >>> "bl.Replay(run)" in card("<p>A run</p>", then="bl.Replay(run) shows each step")
        True
    """
    last = f'<p class="quiet">{escaped(then)}</p>' if then else ""
    return f'<div class="boolab-card {NO_MATH}">{_STYLE}{"".join(parts)}{last}</div>'
