"""What each limit would have done by itself, and the lists of the runs that it stops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from boolab.core.text import count
from boolab.display.numbers import span
from boolab.frames.dtypes import axis_value, is_missing
from boolab.io.resources import shared_path
from boolab.limits.table import LIMITS
from boolab.live.audits.audit import audit_files
from boolab.live.audits.wording import figure
from boolab.report.html import PageCell, PageTable
from boolab.report.limit_rows import MARKS, LimitRow
from boolab.report.study import UNITS, Cut, Study
from boolab.report.text import measures, saved_cells


class Listed(NamedTuple):
    """A list of runs on the page: those that a limit stops (`cuts`), or some units; `group` is the key of theirs."""

    title: str
    cuts: Sequence[Cut] = ()
    unit: str = ""
    units: Sequence[int] = ()
    group: str = ""


class GroupRows(NamedTuple):
    """The rows of a limit for one group, and what each of them stops."""

    key: str
    rows: list[LimitRow]
    cuts: Mapping[Any, list[Cut]]


class LimitTables:
    """The tables of all limits; `lists` has the runs behind their counts, `stops` the same by row."""

    def __init__(self, study: Study, keys: Sequence[str]) -> None:
        self._study = study
        self._keys = keys
        self.lists: dict[str, Listed] = {}
        self.stops: list[tuple[LimitRow, list[Cut]]] = []
        self.rows = {axis: list(self._rows(axis)) for axis in study.margins}

    def _rows(self, axis: str) -> Iterator[GroupRows]:
        groups = {key: self._study.limit_rows(axis, key, part) for key, part in self._study.groups(axis)}
        group_rows = [(key, groups[key]) for key in self._keys if key in groups]
        cuts = self._study.cuts(axis, [row.value for _, rows in group_rows for row in rows])
        for key, rows in group_rows:
            yield GroupRows(key, rows, self._own(cuts, key))

    def _own(self, cuts: Mapping[Any, list[Cut]], key: str) -> Mapping[Any, list[Cut]]:
        if not self._study.keys:
            return cuts
        keys = self._study.unit_keys
        return {value: [stop for stop in value_cuts if keys[stop.unit] == key] for value, value_cuts in cuts.items()}

    def tables(self, axis: str) -> list[tuple[str, PageTable]]:
        """The tables of a limit, each with its title."""
        name = LIMITS[axis].label
        return [
            (f"{name} for {group.key}" if group.key else "", self._table(axis, group, number))
            for number, group in enumerate(self.rows[axis])
        ]

    def _table(self, axis: str, group: GroupRows, number: int) -> PageTable:
        study, rows, unit_kind = self._study, group.rows, self._study.counted_units_of(group.key)
        columns = measures(study, rows)
        undecided = any(row.undecided for row in rows)
        kept = f"{'ended by themselves' if unit_kind.proxy else 'successes'}: kept"
        head = [LIMITS[axis].unit, kept, "stopped", f"all {unit_kind.noun}s stopped",
                *(["not decided"] if undecided else []), *(f"{UNITS[name]} saved" for name in columns), ""]  # fmt: skip
        cells: list[list[str | PageCell]] = []
        for row, saves in zip(rows, saved_cells(columns, rows), strict=True):
            stopped = group.cuts.get(row.value, [])
            n_lost = sum(stop.success is True for stop in stopped)
            anchor = self._list(axis, row, stopped, number, group.key)
            kept_text = span(*row.kept) + f" of {row.successes:,}" if row.successes else "none to keep"
            cells.append([
                axis_value(axis, row.value), kept_text, linked(n_lost, anchor), linked(row.stopped, anchor),
                *([f"{row.undecided:,}"] if undecided else []),
                *saves,
                MARKS[row.mark],
            ])  # fmt: skip
        return PageTable(head, cells, range(len(head) - 1), "limit", [row.mark for row in rows])

    def _list(self, axis: str, row: LimitRow, cuts: list[Cut], number: int, key: str) -> str:
        """Keep the list of the runs that a value stops; return its name on the page, empty if there is none."""
        if not cuts or row.value is None:
            return ""
        value = axis_value(axis, row.value)
        anchor = f"cut-{axis}-{value.strip('$').replace(',', '')}" + (f"-{number}" if number else "")
        self.stops.append((row, cuts))
        self.lists[anchor] = listed_cuts(self._study, f"{LIMITS[axis].label} {value}", cuts, LIMITS[axis].unit, key)
        return anchor


def listed_cuts(study: Study, name: str, cuts: Sequence[Cut], unit: str = "", group: str = "") -> Listed:
    """The list of the runs that a setting stops, with its title."""
    n_lost, unit_kind = sum(stop.success is True for stop in cuts), study.counted_units_of(group)
    title = f"{name}: {count(len(cuts), unit_kind.noun)} stopped"
    if any(stop.success is not None for stop in cuts):
        title += f", {_lost(n_lost, len(cuts), proxy=unit_kind.proxy)}"
    return Listed(title, cuts, unit, group=group)


def _lost(n: int, n_stopped: int, *, proxy: bool) -> str:
    """How many of those that are stopped are successes."""
    if n_stopped == 1:
        text = ("which ended by itself" if n else "which did not end by itself") if proxy else ""
        return text or ("a success" if n else "no success")
    singular = "ended by itself" if proxy else "a success"
    plural = "ended by themselves" if proxy else "successes"
    return f"{f'{n:,}' if n else 'none'} of them {singular if n <= 1 else plural}"


def linked(n: int, anchor: str) -> PageCell:
    """A number that links to the list of what it counts."""
    return PageCell(f"{n:,}", anchor if n else "")


MAX_ROWS: Final = 20
_COLUMNS: Final = {
    "verdict": "verdict",
    "run_id": "run",
    "agent": "agent",
    "limit": "limit",
    "declared": "declared",
    "counted": "counted",
    "unit": "unit",
    "first_step_beyond": "beyond from step",
    "where": "declared in",
    "note": "note",
}
_NUMBERS: Final = ("declared", "counted", "first_step_beyond")


def declared_limits(study: Study) -> dict[str, object] | None:
    """The notes, the sentences and the table of the audit, without empty columns; None where no limit was declared."""
    pairs = zip(study.homes, study.runs, strict=True)
    files = [(Path(home) if home else None, [run for _, run in part]) for home, part in groupby(pairs, lambda p: p[0])]
    audit = audit_files(files)
    if not len(audit.frame):
        return None
    head = audit.frame[list(_COLUMNS)].head(MAX_ROWS)
    names = [name for name in _COLUMNS if any(_cell(name, value) for value in head[name])]
    rows = [[_cell(name, value) for name, value in zip(names, row, strict=True)] for row in head[names].to_numpy()]
    n_left_out = len(audit.frame) - len(head)
    note = f"{count(n_left_out, 'further row')}: boolab audit LOGS --json has all." if n_left_out else ""
    numbers = [index for index, name in enumerate(names) if name in _NUMBERS]
    return {
        "notes": audit.notes,
        "sentences": [_share_paths(sentence, audit.frame["where"]) for sentence in audit.sentences],
        "table": PageTable([_COLUMNS[name] for name in names], rows, numbers, note=note),
    }


def _share_paths(text: str, paths: Iterable[object]) -> str:
    """A text with the paths of settings as others may read them."""
    for path in {str(path) for path in paths if not is_missing(path)}:
        text = text.replace(path, shared_path(path))
    return text


def _cell(name: str, value: object) -> str:
    if is_missing(value):
        return ""
    if name == "where":
        return shared_path(str(value))
    return figure(float(str(value))) if name in _NUMBERS else str(value)
