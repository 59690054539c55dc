"""Policies side by side: a table of the axes in which they differ."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, NamedTuple

import pandas as pd

from boolab.core.displayable import Displayable
from boolab.core.text import clean, count
from boolab.display.document import Document, Heading, Table
from boolab.display.text import align_columns
from boolab.harnesses.describe import HEAD, NOT_APPLICABLE, axes
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy
from boolab.harnesses.presets import policies as presets

WIDTH: Final = 100
"""Columns of plain text."""
_NAMES: Final = 26  # columns for the names of axes
_MIN_WIDTH: Final = 16  # with narrower columns a table is hard to read
_MAX_COLUMNS: Final = 6  # with more policies, an HTML table lists them by value on each axis


class AxisRow(NamedTuple):
    """One axis: its group, field and name, and each policy's value."""

    group: str
    field: str
    name: str
    cells: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether the policies differ."""
        return len(set(self.cells)) > 1


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Displayable):
    """The result of `compare_policies`: a table in a notebook, the same as text with `print`.

    Attributes:
        names: The policies.
        rows: The axes that are shown.
        equal: The number of axes that are not shown because all policies are equal there.
        by_policy: Whether the table has a row for each policy instead of each axis.
    """

    names: tuple[str, ...]
    rows: tuple[AxisRow, ...]
    equal: int = 0
    by_policy: bool = False

    @property
    def frame(self) -> pd.DataFrame:
        """The same as a DataFrame: a row for each axis, named as the field of `Policy`; a column for each policy."""
        index = pd.Index([row.field for row in self.rows], name="axis")
        return pd.DataFrame([row.cells for row in self.rows], index=index, columns=[*self.names], dtype="string")

    def __repr__(self) -> str:
        return f"<Comparison of {count(len(self.names), 'policy', 'policies')}: {count(len(self.rows), 'row')}>"

    def __str__(self) -> str:
        """Plain text, wrapped to 100 columns."""
        return "\n".join(line.rstrip() for line in self._lines())

    def _lines(self) -> Iterator[str]:
        if self.by_policy:
            yield from _table(["harness", *(row.name for row in self.rows)], self._policy_rows(), [20, 26, 24, 24])
            return
        wide = (WIDTH - _NAMES) // max(1, len(self.names)) - 2
        if wide >= _MIN_WIDTH:
            yield from _table(["", *self.names], [], [_NAMES, *[wide] * len(self.names)])
        for group, rows in self._groups():
            yield ""
            yield group.upper()
            if wide >= _MIN_WIDTH:
                yield from _table([], [[row.name, *row.cells] for row in rows], [_NAMES, *[wide] * len(self.names)])
            else:
                for row in rows:
                    yield from _list_policies(row, self.names)
        if self._note:
            yield ""
            yield from textwrap.wrap(self._note, WIDTH)

    def _document_(self) -> Document:
        rows: list[Sequence[str] | Heading] = []
        hints: list[str] = []
        columns: list[str] = []
        if self.by_policy:
            columns = ["harness", *(row.name for row in self.rows)]
            rows += self._policy_rows()
            hints += [""] * len(rows)
        else:
            columns = ["", *self.names] if len(self.names) <= _MAX_COLUMNS else []
            for group, axes_of_group in self._groups():
                rows.append(Heading(group))
                hints.append("")
                for row in axes_of_group:
                    lines = [[row.name, *row.cells]] if columns else _group_by_value(row, self.names)
                    rows += lines
                    hints += [row.field, *[""] * (len(lines) - 1)]
        table = Table(columns, rows, left=range(len(self.names) + 1), hints=hints)
        return Document(table=table, paragraphs=[self._note] if self._note else [])

    @property
    def _note(self) -> str:
        notes = []
        if any(NOT_APPLICABLE in row.cells for row in self.rows):
            notes.append(f"{NOT_APPLICABLE} means that the axis has no effect under that policy.")
        if self.equal:
            are = "axis is" if self.equal == 1 else "axes are"
            notes.append(f"{self.equal} more {are} the same in all of them; all_axes=True shows them too.")
        return " ".join(notes)

    def _policy_rows(self) -> list[list[str]]:
        return [[name, *(row.cells[index] for row in self.rows)] for index, name in enumerate(self.names)]

    def _groups(self) -> Iterator[tuple[str, list[AxisRow]]]:
        for group in dict.fromkeys(row.group for row in self.rows):
            yield group, [row for row in self.rows if row.group == group]


def compare_policies(*policies: str | Policy, all_axes: bool = False) -> Comparison:
    """Policies side by side: loop style, finish guard and weakness first, then the axes in which they differ.

    Source: the comparison of harnesses in the study of opencode's runLoop, whose three columns come first.

    Args:
        *policies: Policies, or names of presets. Without any: all presets, with the first three columns only.
        all_axes: Whether to show the axes in which they are equal too.

    Returns:
        A table for a notebook and for `print`; its `frame` has a row for each axis and a column for each policy.

    Raises:
        SettingError: if there is no preset with that name.

    Example:
        >>> import boolab as bl
        >>> compared = bl.compare_policies("boocode", "naive")
        >>> compared.frame.loc["detectors.doom_loop"].tolist()
        ['3', '-']
        >>> compared
        <Comparison of 2 policies: 21 rows>
    """
    overview = not policies
    compared = [get_policy(policy) for policy in policies or presets.values()]
    names = distinct_names(clean(policy.name) for policy in compared)
    rows = [AxisRow(a.group, a.field, a.name, tuple(clean(a.describe(p)) for p in compared)) for a in axes()]
    if overview and not all_axes:
        return Comparison(names, tuple(row for row in rows if row.field in HEAD), by_policy=True)
    everything = all_axes or len(compared) == 1
    selected_rows = [row for row in rows if everything or row.differs or row.group == "in short"]
    return Comparison(names, tuple(selected_rows), len(rows) - len(selected_rows))


def distinct_names(policy_names: Iterable[str]) -> tuple[str, ...]:
    """The names of policies, made distinct (`cline`, `cline (2)`): a variant may have the name of its original."""
    counts: dict[str, int] = {}
    names = []
    for name in policy_names:
        counts[name] = counts.get(name, 0) + 1
        names.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return tuple(names)


# --- Plain text -------------------------------------------------------------------------------------------------------


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """Cells wrapped in columns."""
    if header:
        yield from _wrap_cells(header, widths)
        yield "  ".join("-" * width for width in widths)
    for row in rows:
        yield from _wrap_cells(row, widths)


def _wrap_cells(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    columns = [textwrap.wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    yield from align_columns(zip_longest(*columns, fillvalue=""), left=range(len(widths)), widths=widths)


def _list_policies(row: AxisRow, names: Sequence[str]) -> Iterator[str]:
    """The policies by value, for a comparison with too many for columns."""
    yield f"  {row.name}"
    for _, who, cell in _group_by_value(row, names):
        yield from textwrap.wrap(f"{who}: {cell}", WIDTH, initial_indent="    ", subsequent_indent="      ")


def _group_by_value(row: AxisRow, names: Sequence[str]) -> list[list[str]]:
    """The name of an axis, with each value and its policies, the most frequent first; the name is in the first row."""
    policies: dict[str, list[str]] = {}
    for name, cell in zip(names, row.cells, strict=True):
        policies.setdefault(cell, []).append(name)
    frequent = sorted(policies.items(), key=lambda pair: -len(pair[1]))
    return [
        ["" if index else row.name, "all" if len(policies) == 1 else ", ".join(names), cell]
        for index, (cell, names) in enumerate(frequent)
    ]
