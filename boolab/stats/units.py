"""The units of statistics: turns or runs, one row each, with their length and whether they ended by themselves.

Under `scope="turn"` each turn of a session is a unit, because a harness's cap starts again at every user message. A
turn ended by itself if its last step requested no tools; the last turn of a run, if the run `finished` (or ended in a
synthesis). Every other turn is censored: its full length is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd

from boolab.core.endings import is_terminated
from boolab.core.run import Run
from boolab.core.run_tree import roots_of
from boolab.core.text import shorten
from boolab.core.types import MICRO, Scope, Step
from boolab.display.text import NO_NAME
from boolab.errors import SettingError
from boolab.frames.dtypes import FLAG, FLOAT, INT, TEXT, cells, is_missing
from boolab.frames.recording import is_final
from boolab.frames.runs import Runs, as_runs, known_sum, list_columns, no_group_column, taken_name, turns_of
from boolab.frames.tables import columns_of_runs, dollars
from boolab.stats.finding import pairs
from boolab.whatif.from_frame import check_columns
from boolab.whatif.step_table import check_scope, scopes_of

Data: TypeAlias = Runs | pd.DataFrame

INTERRUPTED = "interrupted"
"""The stop reason of a turn that is censored and is not the last one."""

UNIT_COLUMNS = {
    "run_id": TEXT,
    "turn": INT,
    "task": TEXT,
    "cluster": TEXT,
    "n_steps": INT,
    "n_tool_calls": INT,
    "n_tokens": INT,
    "cost_usd": FLOAT,
    "ended": FLAG,
    "stop_reason": TEXT,
    "success": FLAG,
}
"""The columns of a unit and their dtypes.

`n_tokens` is input and output, without requests outside the steps. So is `cost_usd` of runs; that of a table of
runs includes it, as there is no column for it.
"""

_SHARED_COLUMNS = ("run_id", "task")  # mean the same in a unit as in a run
_FEW_CLUSTERS = 10


def _tokens(step: Step) -> tuple[int | None, int | None]:
    usage = step.response.usage
    return usage.input_tokens, usage.output_tokens


MEASURES: Final[Mapping[str, Callable[[Sequence[Step]], int | float | None]]] = {
    "n_steps": len,
    "n_tool_calls": lambda steps: sum(len(step.results) - step.results.count(None) for step in steps),
    "n_tokens": lambda steps: known_sum(chain.from_iterable(map(_tokens, steps))),
    "cost_usd": lambda steps: dollars(known_sum(step.response.usage.cost for step in steps)),
}
"""How much a unit takes, from its steps."""


def units_of(
    runs: Data,
    *,
    scope: Scope = "auto",
    by: str | Sequence[str] | None = None,
    measures: Collection[str] = tuple(MEASURES),
) -> pd.DataFrame:
    """One row for each turn or run: the columns of `by`, then those of `UNIT_COLUMNS`, of `MEASURES` only `measures`.

    `cluster` is the task, or the run where no task is named; for a subagent's run, that of its root run: units of one
    cluster are not independent. A label judges the whole run, so `success` is NA in the turns of a longer session.
    """
    check_scope(scope)
    if isinstance(runs, pd.DataFrame):
        table = runs.reset_index(drop=True)
        scopes = scopes_of(sources_of(table), scope)
        if {"run_id", "step"} <= {*table} and "n_steps" not in table:
            units, table = _units_of_steps(table, scopes)
        else:
            units = _units_of_frame(table, scopes)
        units = units.drop(columns=[name for name in MEASURES if name not in measures])
        return _group_units(units, table, by)
    run_list = as_runs(runs)
    table = columns_of_runs(run_list, {*list_columns(by), "parent_run_id"})
    scopes = scopes_of([run.source for run in run_list], scope)
    pieces = list(pairs(range(len(run_list)), lambda row: _units_of_run(run_list[row], scopes[row], measures)))
    names = [name for name in UNIT_COLUMNS if name != "cluster" and (name in measures or name not in MEASURES)]
    units = _units_frame({name: [unit[name] for _, unit in pieces] for name in names})
    return _group_units(units, table.iloc[[row for row, _ in pieces]], by)


def units_of_table(table: pd.DataFrame, keys: str | Sequence[str] | None = None) -> pd.DataFrame:
    """One row for each row of a table of runs of which only names are known: `keys`, run_id, task and cluster."""
    task = table["task"] if "task" in table else [""] * len(table)
    units = pd.DataFrame({"run_id": cells(table["run_id"], TEXT), "task": cells(task, TEXT)}).fillna("")
    return _group_units(units, _clear_blanks(table), keys)


def _clear_blanks(table: pd.DataFrame) -> pd.DataFrame:
    """The table, with agents and models that have no name missing, as in `runs_df`."""
    return table.assign(**{name: table[name].replace("", pd.NA) for name in ("agent", "model") if name in table})


def _group_units(units: pd.DataFrame, table: pd.DataFrame, group_by: str | Sequence[str] | None) -> pd.DataFrame:
    """The units with their clusters, and the columns of `group_by` in front; `table` has a row for each of them."""
    head = _heads(units, table)
    units.insert([*units].index("task") + 1, "cluster", head["task"].mask(head["task"] == "", head["run_id"]))
    for position, name in enumerate(list_columns(group_by)):
        if name not in table:
            raise no_group_column(name, table.columns)
        if name in UNIT_COLUMNS and name not in _SHARED_COLUMNS:
            raise SettingError(f"by={name!r}: this is known only after a run, so runs cannot be separated by it")
        if name in units:
            units = units[[name, *(other for other in units if other != name)]]
        else:
            units.insert(position, name, table[name].array)
    return units


def _heads(units: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The task and the id of the root run of each unit; a root that is not on record has no task."""
    head = units[["run_id", "task"]].copy()
    if "parent_run_id" not in table or table["parent_run_id"].isna().all():
        return head
    above = pd.Series(table["parent_run_id"].array, index=units["run_id"]).dropna()
    above = above[~above.index.duplicated()]
    tasks = units.drop_duplicates("run_id").set_index("run_id")["task"]
    ids = units["run_id"].unique().tolist()
    rows = {run_id: row for row, run_id in enumerate([*ids, *(set(above) - set(ids))])}
    parent = [rows[above[run_id]] if run_id in above.index else -1 for run_id in rows]
    names = list(rows)
    root = dict(zip(names, (names[row] for row in roots_of(parent)), strict=True))
    head["run_id"] = cells(head["run_id"].map(root), TEXT)
    head["task"] = cells(head["run_id"].map(tasks), TEXT)
    return head.fillna({"task": ""})


def split_groups(units: pd.DataFrame, keys: list[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Groups of units: numbers ascend, names keep their order, missing values are a group of their own."""
    if not keys:
        yield (), units
        return
    numeric = [key for key in keys if pd.api.types.is_numeric_dtype(units[key])]
    ordered = units.sort_values(numeric, kind="stable") if numeric else units
    for values, part in ordered.groupby(keys, sort=False, dropna=False):
        yield values if isinstance(values, tuple) else (values,), part


def clusters_of(units: pd.DataFrame, keys: Sequence[str] = ()) -> tuple[pd.Series[Any], str]:
    """The cluster of each unit, and the name of clusters with several units: "task", "run", or "".

    Units of one task resemble each other, and so do turns of one run. Where all are of one task (or `keys` separates
    tasks), statements are about that task, and its runs are the clusters.
    """
    if "run_id" not in keys:
        for column in ("run_id",) if "task" in keys else ("cluster", "run_id"):
            distinct = units[column].nunique()
            if distinct > 1:
                has_several = distinct < units["run_id"].nunique()
                word = "task" if has_several else "run" if distinct < len(units) else ""
                return units[column], word
    return pd.Series(range(len(units)), index=units.index), ""


def keys_of(group_by: str | Sequence[str] | None, reserved: Collection[str]) -> list[str]:
    """The columns of `group_by`; `SettingError` if the result has a column of the same name."""
    keys = list_columns(group_by)
    for key in keys:
        if key in reserved:
            raise SettingError(f"by={key!r}: {taken_name(key)}")
    return keys


def group_name(values: Iterable[object]) -> str:
    """The name of a group in sentences, from its values of `by`."""
    names = []
    for value in values:
        if is_missing(value) or value == "":
            names.append(NO_NAME)
        elif isinstance(value, float):  # a column with NA in it holds whole numbers as floats: 20, not 20.0
            names.append(f"{value:g}")
        else:
            names.append(shorten(value))
    return ", ".join(names)


SET: Final = "set"
"""The setting of a run that names its data set, where it has one: the atlas does."""


def short_names(keys: Sequence[str], values: Sequence[tuple[Any, ...]]) -> list[str]:
    """The names of groups: without what is missing, where that is enough; the data set alone, if it is that of one."""
    by_set = list(keys)[-1:] == [SET]
    sets = Counter(row[-1] for row in values if by_set and not is_missing(row[-1]))
    rows = [row[-1:] if by_set and not is_missing(row[-1]) and sets[row[-1]] == 1 else row for row in values]
    present = [[value for value in row if not is_missing(value) and value != ""] for row in rows]
    names = [group_name(row) for row in present]
    return names if all(present) and len({*names}) == len(names) else [group_name(row) for row in rows]


def group_noun(keys: Iterable[str]) -> str:
    """What the groups by some columns are called."""
    return "agent" if {*keys} <= {"agent", "source"} else "group"


def cluster_notes(clusters: Iterable[tuple[str, int]], units: pd.DataFrame, noun: str = "run") -> Iterator[str]:
    """What dependent units mean for intervals, from the name and the number of the clusters of each group."""
    for word, dependent_units in (("task", "runs of a task"), ("run", "turns of a run")):
        sizes = [n for name, n in clusters if name == word]
        if sizes:
            size = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}"
            yield f"Intervals resample {size} {word}s, because {dependent_units} are not independent."
            if min(sizes) < _FEW_CLUSTERS:
                yield f"With so few {word}s the intervals are rough."
    tasks = set(units["task"])
    if len(units) > 1 and len(tasks) == 1 and tasks != {""}:
        yield f"All {noun}s are of one task: the intervals hold for this task only."


def sources_of(table: pd.DataFrame) -> list[str | None]:
    """The source of each row; None where the frame does not have it."""
    if "source" not in table:
        return [None] * len(table)
    return [None if pd.isna(source) else str(source) for source in table["source"]]


def _units_of_run(run: Run, scope: str, measures: Collection[str]) -> Iterable[dict[str, Any]]:
    pieces = [(1, list(run.steps))] if scope == "run" else list(turns_of(run))
    for number, (turn, steps) in enumerate(pieces, 1):
        last = number == len(pieces)
        ended = is_terminated(run) if last else is_final(steps[-1])
        yield {
            "run_id": run.run_id,
            "turn": turn,
            "task": run.task,
            **{name: MEASURES[name](steps) for name in measures},
            "ended": ended,
            "stop_reason": run.stop_reason if last else "finished" if ended else INTERRUPTED,
            "success": run.success if len(pieces) == 1 else None,
        }


def _units_of_frame(table: pd.DataFrame, scopes: Sequence[str]) -> pd.DataFrame:
    for name in ("n_steps", "stop_reason"):
        if name not in table:
            raise SettingError(
                f"the frame has no column {name!r}: expected runs, or a frame that bl.runs_df(runs) or "
                "bl.recording_df(runs) makes; bl.runs_from_table(frame, run=..., step=..., tool=...) makes runs of a "
                "table of steps with other columns"
            )
    by_turn = np.array([scope == "turn" for scope in scopes], dtype=bool)
    if "n_turns" in table and bool((table["n_turns"] > 1).fillna(value=False)[by_turn].any()):
        msg = 'rows of the frame hold several turns, which it cannot separate: pass runs, or scope="run"'
        raise SettingError(msg)

    def column(name: str, dtype: str, default: object = None) -> pd.Series[Any]:
        return pd.Series(cells(table[name] if name in table else [default] * len(table), dtype))

    reasons = column("stop_reason", TEXT)
    tokens = column("input_tokens", INT) + column("output_tokens", INT)
    return _units_frame(
        {
            "run_id": column("run_id", TEXT).fillna(pd.Series(cells(map(str, range(len(table))), TEXT))),
            "turn": [1] * len(table),
            "task": column("task", TEXT, "").fillna(""),
            "n_steps": table["n_steps"],
            "n_tool_calls": column("n_tool_calls", INT),
            # A frame's totals hold the wrap-up, which is outside of the loop.
            "n_tokens": tokens - column("summary_tokens", INT, 0).fillna(0),
            "cost_usd": column("cost_usd", FLOAT),
            "ended": reasons.isin(["finished", "synthesis"]).mask(reasons.isna()),
            "stop_reason": reasons,
            "success": column("success", FLAG),
        }
    )


def _units_of_steps(table: pd.DataFrame, scopes: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The units of a frame with a row for each step, as `recording_df` makes it, and the first row of each."""
    check_columns(table)
    order = np.lexsort((table["step"].fillna(0), table.groupby("run_id", sort=False).ngroup()))
    table, by_turn = table.iloc[order].reset_index(drop=True), np.array([scope == "turn" for scope in scopes])[order]
    if by_turn.any() and not {"turn", "final"} <= {*table}:
        msg = 'the frame lacks the column turn or final, which separate turns: expected them, or scope="run"'
        raise SettingError(msg)

    def column(name: str, dtype: str, default: object = None) -> pd.Series[Any]:
        return pd.Series(cells(table[name] if name in table else [default] * len(table), dtype))

    turns = column("turn", INT, 1).fillna(1).where(pd.Series(by_turn), 1)
    rows = pd.DataFrame({"run_id": column("run_id", TEXT), "turn": turns})
    is_step = table["step"].notna()
    tokens = column("input_tokens", INT) + column("output_tokens", INT)
    for name, values in (("n_tool_calls", column("n_tool_calls", INT)), ("n_tokens", tokens),
                         ("cost_usd", (column("cost_usd", FLOAT) * MICRO).round())):  # fmt: skip
        rows[name] = values.where(is_step, 0)
    groups = rows.groupby(["run_id", "turn"], sort=False, dropna=False)
    group_index = groups.ngroup()
    first, last = group_index.drop_duplicates().index, group_index.drop_duplicates(keep="last").sort_values().index
    units = rows.loc[first, ["run_id", "turn"]].reset_index(drop=True)
    sums = {name: groups[name].sum().array.copy() for name in ("n_tool_calls", "n_tokens", "cost_usd")}
    for name, values in sums.items():
        values[groups[name].count().to_numpy() < groups.size().to_numpy()] = pd.NA
    sums["cost_usd"] = sums["cost_usd"] / MICRO
    ends_run = ~units["run_id"].duplicated(keep="last")
    single_turn = ~units["run_id"].duplicated(keep=False)
    last_reasons = column("stop_reason", TEXT)[last].reset_index(drop=True)
    final = column("final", FLAG, False)[last].reset_index(drop=True)  # noqa: FBT003 - a cell
    ended = (~column("censored", FLAG)[last].reset_index(drop=True)).where(ends_run, final)
    earlier = pd.Series(cells(np.where(final.fillna(value=False), "finished", INTERRUPTED), TEXT))
    typed_units = _units_frame(
        {
            "run_id": units["run_id"],
            "turn": units["turn"],
            "task": column("task", TEXT, "").fillna("")[first],
            "n_steps": is_step.groupby(group_index).sum(),
            **sums,
            "ended": ended,
            "stop_reason": last_reasons.where(ends_run, earlier),
            "success": column("success", FLAG)[first].reset_index(drop=True).where(single_turn, pd.NA),
        }
    )
    return typed_units, _clear_blanks(table.loc[first].reset_index(drop=True))


def _units_frame(values: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({name: cells(values[name], UNIT_COLUMNS[name]) for name in values})
