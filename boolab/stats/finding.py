"""A statistical finding as text and HTML: its table first, then sentences, then the quality of its data.

See `Finding`.

Names in it come from logs, which are untrusted input: they are never markup, and never move a terminal's cursor.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pandas as pd

from boolab.core.text import NAME_CHARS, clean, count, shorten
from boolab.display.text import NO_MATH, WIDTH, aligned, shorten_apart, wrapped
from boolab.frames.dtypes import Cell, Cells, cells, is_missing, well_formed_cell

_ROWS = 20  # rows of a table that is shown
_IDS: Final = ("run", "run_id")  # the columns whose texts are searched for elsewhere: they are never cut


@dataclass(frozen=True, eq=False, repr=False)
class Finding:
    """What a statistical function found. Shown by itself in a notebook; `print` gives the same as text.

    `finding["column"]` is a column of its frame.

    Args:
        title: What it is about, in a few words.
        frame: All numbers, a row for each.
        sentences: What they show, in plain words.
        notes: The quality of the data and what limits the answer.
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

    def __len__(self) -> int:
        return len(self.frame)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, each as a dict by column: `pd.DataFrame(finding)` has them too."""
        return iter([{str(name): value for name, value in row.items()} for row in self.frame.to_dict("records")])

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            frame = self.__dict__.get("frame")
            hint = f"; did you mean .frame[{name!r}]?" if frame is not None and name in frame else ""
            if hint and "setting" in dir(type(self)):
                hint = f"; did you mean .setting[{name!r}]?"
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __repr__(self) -> str:
        """One short line; `print` shows all."""
        size = f"{count(len(self.frame), 'row')}, {count(len(self.sentences), 'sentence')}"
        return f"<Finding {clean(self.title)!r}: {size}>"

    def __str__(self) -> str:
        """Title, table, sentences and notes as plain text, wrapped."""
        notes = ["\n".join(wrapped(note, first="- ") for note in self.notes)] if self.notes else []
        return "\n\n".join([wrapped(self.title), *self.table_text(), *map(wrapped, self.sentences), *notes])

    def table_text(self, *, full: bool = False) -> list[str]:
        """The table as plain text, and a line on rows that are not shown.

        Args:
            full: Whether all rows are shown.

        Returns:
            Its lines; empty if it has no row.
        """
        return text_of(self._shown, full=full)

    def _repr_html_(self) -> str:
        """The same as a fragment of HTML: no script, nothing from elsewhere, the notebook's own colours."""
        title = f"<p><strong>{escaped(self.title)}</strong></p>"
        body = self.table_html() + self.sentences_html() + self.notes_html()
        return f'<div class="{NO_MATH}" style="color:inherit;max-width:60em">{title}{body}</div>'

    def notes_html(self) -> str:
        """The notes as HTML."""
        notes = "".join(f"<li>{escaped(note)}</li>" for note in self.notes)
        return f'<ul style="opacity:.8;margin:.4em 0">{notes}</ul>' if notes else ""

    def sentences_html(self) -> str:
        """The sentences as HTML."""
        return "".join(f'<p style="margin:.4em 0">{escaped(sentence)}</p>' for sentence in self.sentences)

    def table_html(self) -> str:
        """The table as HTML; "" if it has no row."""
        header, rows, rest = _cells(self._shown)
        if not rows:
            return ""
        head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in header)
        body = "".join(f"<tr>{''.join(f'<td>{escaped(cell)}</td>' for cell in row)}</tr>" for row in rows)
        below = f'<p style="opacity:.8">{escaped(rest)}</p>' if rest else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"

    @property
    def _shown(self) -> pd.DataFrame:
        return self.frame if self.table is None else self.table


def text_of(frame: pd.DataFrame, *, full: bool = False) -> list[str]:
    """A frame as a table in plain text, and a line on rows that are not shown; empty if it has no row.

    `full`: all rows and columns, however long and wide the table is.
    """
    header, rows, rest = _cells(frame, len(frame) if full else _ROWS)
    width = math.inf if full else WIDTH
    return [_aligned(header, rows, width), *([rest] if rest else [])] if rows else []


_Parent = TypeVar("_Parent")
_Child = TypeVar("_Child")


def pairs(
    parents: Iterable[_Parent], children: Callable[[_Parent], Iterable[_Child]]
) -> Iterator[tuple[_Parent, _Child]]:
    """Each child with its parent, such as the rows of groups.

    Example:
        >>> list(pairs(["ab", "c"], iter))
        [('ab', 'a'), ('ab', 'b'), ('c', 'c')]
    """
    for parent in parents:
        for child in children(parent):
            yield parent, child


def frame_of(
    keys: Sequence[str],
    groups: Sequence[Sequence[object]],
    columns: Mapping[str, str],
    rows: Sequence[Mapping[str, object]],
) -> pd.DataFrame:
    """A row for each of `rows`, with the values of its group by key in front, and columns of these types."""
    data: dict[str, Any] = {key: [well_formed_cell(group[place]) for group in groups] for place, key in enumerate(keys)}
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


def _column(values: Sequence[object], *, whole: bool = False) -> list[str]:
    """The cells of a column; texts that differ are shown so that they differ, or whole."""
    texts = [value for value in values if isinstance(value, str)]
    names = {text: clean(text) for text in texts} if whole else shorten_apart(texts)
    return [names[value] if isinstance(value, str) else _cell(value) for value in values]


def _cells(frame: pd.DataFrame, n_rows: int = _ROWS) -> tuple[list[str], list[list[str]], str]:
    """Column names, rows, and a sentence about rows that are not shown."""
    head = frame.head(n_rows)
    columns = [_column(head.iloc[:, place].tolist(), whole=name in _IDS) for place, name in enumerate(head.columns)]
    hidden = len(frame) - len(head)
    rest = f"{count(hidden, 'further row')} not shown." if hidden else ""
    return [shorten(name) for name in frame.columns], [list(row) for row in zip(*columns, strict=True)], rest


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]], width: float) -> str:
    """Columns side by side, as many as fit; a line below names the others."""
    columns = [[name, *cells] for name, cells in zip(header, zip(*rows, strict=True), strict=True)]
    widths = [max(map(len, column)) for column in columns]
    ids = sum(max(0, chars - NAME_CHARS) for name, chars in zip(header, widths, strict=True) if name in _IDS)
    fit, used = 0, 0
    while fit < len(widths) and (not fit or used + widths[fit] <= width + ids):
        used += widths[fit] + 2
        fit += 1
    words = [n for n, (_, cell, *_) in enumerate(columns) if cell != "NA" and not cell.lstrip("-")[:1].isdigit()]
    lines = aligned(zip(*columns[:fit], strict=True), left=words)
    if fit < len(columns):
        lines += ["", wrapped(f"Further columns: {', '.join(header[fit:])}.")]
    return "\n".join(lines)


def escaped(text: object) -> str:
    """A text as HTML, with no control characters."""
    return html.escape(clean(text))
