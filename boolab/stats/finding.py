"""A statistical finding as text and HTML: the quality of its data first, then sentences, then a table.

Names in it come from logs, which are untrusted input: they are never markup, and never move a terminal's cursor.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from boolab.core.text import NO_MATH, WIDTH, aligned, clean, count, shorten, wrapped
from boolab.frames.dtypes import Cell, Cells, cells, is_missing

_ROWS = 20  # rows of a table that is shown


@dataclass(frozen=True, eq=False, repr=False)
class Finding:
    """What a statistical function found. Shown by itself in a notebook; `print` gives the same as text.

    `finding["column"]` is a column of its frame.

    Args:
        title: What it is about, in a few words.
        frame: All numbers, a row for each.
        sentences: What they show, in plain words.
        notes: The quality of the data and what limits the answer. They are shown first.
        table: What is shown of the numbers, where the whole frame would be too much.
        tests: Comparisons between groups, a row for each; empty where there are none.

    Example:
        >>> finding = Finding("Steps to finish", pd.DataFrame({"n_steps": [3, 5]}), ("Half end after 3 steps.",))
        >>> finding["n_steps"].tolist()
        [3, 5]
        >>> finding
        <Finding 'Steps to finish': 2 rows, 1 sentence>
    """

    title: str
    frame: pd.DataFrame
    sentences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    table: pd.DataFrame | None = None
    tests: pd.DataFrame = field(default_factory=pd.DataFrame)

    def __getitem__(self, key: Cell) -> Cells:
        return self.frame[key]

    def __repr__(self) -> str:
        """One short line; `print` shows all."""
        size = f"{count(len(self.frame), 'row')}, {count(len(self.sentences), 'sentence')}"
        return f"<Finding {clean(self.title)!r}: {size}>"

    def __str__(self) -> str:
        """Title, notes, sentences and table as plain text, wrapped."""
        blocks = [wrapped(self.title)]
        if self.notes:
            blocks.append("\n".join(wrapped(note, first="- ") for note in self.notes))
        blocks += [wrapped(sentence) for sentence in self.sentences]
        header, rows, rest = _cells(self._shown)
        if rows:
            blocks.append(_aligned(header, rows))
            blocks += [rest] if rest else []
        return "\n\n".join(blocks)

    def _repr_html_(self) -> str:
        """The same as a fragment of HTML: no script, nothing from elsewhere, the notebook's own colours."""
        parts = [f"<p><strong>{_escaped(self.title)}</strong></p>"]
        if self.notes:
            notes = "".join(f"<li>{_escaped(note)}</li>" for note in self.notes)
            parts.append(f'<ul style="opacity:.8;margin:.4em 0">{notes}</ul>')
        parts += [f'<p style="margin:.4em 0">{_escaped(sentence)}</p>' for sentence in self.sentences]
        header, rows, rest = _cells(self._shown)
        if rows:
            head = "".join(f'<th scope="col">{_escaped(name)}</th>' for name in header)
            body = "".join(f"<tr>{''.join(f'<td>{_escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
            parts += [f'<p style="opacity:.8">{_escaped(rest)}</p>'] if rest else []
        return f'<div class="{NO_MATH}" style="color:inherit;max-width:60em">{"".join(parts)}</div>'

    @property
    def _shown(self) -> pd.DataFrame:
        return self.frame if self.table is None else self.table


def frame_of(
    keys: Sequence[str],
    groups: Sequence[Sequence[object]],
    columns: Mapping[str, str],
    rows: Sequence[Mapping[str, object]],
) -> pd.DataFrame:
    """A row for each of `rows`, with the values of its group by key in front, and columns of these types."""
    data: dict[str, Any] = {key: [group[place] for group in groups] for place, key in enumerate(keys)}
    return pd.DataFrame(data | {name: cells([row[name] for row in rows], kind) for name, kind in columns.items()})


def _cell(value: object) -> str:
    if is_missing(value):
        return "NA"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 1000 else f"{value:,.0f}"  # noqa: PLR2004 - three digits are enough
    return shorten(value)


def _cells(frame: pd.DataFrame) -> tuple[list[str], list[list[str]], str]:
    """Column names, rows, and a sentence about rows that are not shown."""
    head = frame.head(_ROWS)
    columns = [[_cell(value) for value in head.iloc[:, place].tolist()] for place in range(head.shape[1])]
    hidden = len(frame) - len(head)
    rest = f"{count(hidden, 'further row')} not shown." if hidden else ""
    return [shorten(name) for name in frame.columns], [list(row) for row in zip(*columns, strict=True)], rest


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, as many as fit; a line below names the others."""
    columns = [[name, *cells] for name, cells in zip(header, zip(*rows, strict=True), strict=True)]
    widths = [max(map(len, column)) for column in columns]
    fit, used = 0, 0
    while fit < len(widths) and (not fit or used + widths[fit] <= WIDTH):
        used += widths[fit] + 2
        fit += 1
    words = [n for n, (_, cell, *_) in enumerate(columns) if cell != "NA" and not cell.lstrip("-")[:1].isdigit()]
    lines = aligned(zip(*columns[:fit], strict=True), left=words)
    if fit < len(columns):
        lines += ["", wrapped(f"Further columns: {', '.join(header[fit:])}.")]
    return "\n".join(lines)


def _escaped(text: object) -> str:
    return html.escape(clean(text))
