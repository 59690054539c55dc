"""A statistical finding as text and HTML: its table first, then sentences, then the quality of its data.

See `Finding`.

Names in it come from logs, which are untrusted input: they are never markup, and never move a terminal's cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pandas as pd

from boolab.core.displayable import Displayable
from boolab.core.text import clean, count, shorten
from boolab.display.document import Document, Table
from boolab.display.text import shorten_apart
from boolab.frames.dtypes import Cell, Cells, cells, is_missing, well_formed_cell

_ROWS = 20  # rows of a table that is shown
_IDS: Final = ("run", "run_id")  # the columns whose texts are searched for elsewhere: they are never cut


@dataclass(frozen=True, eq=False, repr=False)
class Finding(Displayable):
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
        return self._document_().text()

    def _document_(self) -> Document:
        return Document(title=self.title, table=self.table_shown(), paragraphs=self.sentences, notes=self.notes)

    def table_shown(self, *, full: bool = False) -> Table | None:
        """The table that is shown.

        Args:
            full: Whether it has all its rows and columns.

        Returns:
            The table, with a sentence on rows that it leaves out; None if there is no row.
        """
        return table_of(self.frame if self.table is None else self.table, full=full)


def table_of(frame: pd.DataFrame, *, full: bool = False) -> Table | None:
    """A frame as a table, whole if `full`, with a sentence on rows that are not shown; None if it has no row."""
    head = frame if full else frame.head(_ROWS)
    if head.empty:
        return None
    id_indices = [index for index, name in enumerate(head.columns) if name in _IDS]
    columns = [_column(head.iloc[:, index].tolist(), in_full=index in id_indices) for index in range(len(head.columns))]
    n_hidden = len(frame) - len(head)
    return Table(
        [shorten(name) for name in frame.columns],
        [*zip(*columns, strict=True)],
        left=[n for n, (cell, *_) in enumerate(columns) if cell != "NA" and not cell.lstrip("-")[:1].isdigit()],
        note=f"{count(n_hidden, 'further row')} not shown." if n_hidden else "",
        whole=id_indices,
        wide=full,
    )


_Parent = TypeVar("_Parent")
_Child = TypeVar("_Child")


def pairs(
    parents: Iterable[_Parent], children: Callable[[_Parent], Iterable[_Child]]
) -> Iterator[tuple[_Parent, _Child]]:
    """Each child with its parent, such as the rows of groups."""
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
    data: dict[str, Any] = {key: [well_formed_cell(group[index]) for group in groups] for index, key in enumerate(keys)}
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


def _column(values: Sequence[object], *, in_full: bool = False) -> list[str]:
    """The cells of a column; texts that differ are shown so that they differ, or whole."""
    texts = [value for value in values if isinstance(value, str)]
    names = {text: clean(text) for text in texts} if in_full else shorten_apart(texts)
    return [names[value] if isinstance(value, str) else _cell(value) for value in values]
