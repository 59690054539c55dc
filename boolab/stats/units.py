"""The units of statistics: turns or runs, one row each, with how long each took and whether it ended by itself.

Under `scope="turn"` each turn of a session is a unit: a harness's cap starts anew at every user message. A turn ended
by itself if its last step asked for no tools; the last turn of a run if the run `finished` (or ended in a synthesis).
Every other turn was cut, and nobody knows how long it would have gone on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from boolab.endings import terminated
from boolab.errors import SettingError
from boolab.families import roots_of
from boolab.frames import FLAG, FLOAT, INT, TEXT, Runs, as_runs, known_sum, runs_df
from boolab.ledger import Scope, check_scope, is_final, scopes_of
from boolab.types import MICRO, Run, Step

Data: TypeAlias = Runs | pd.DataFrame

INTERRUPTED = "interrupted"
"""Stands as the stop reason of a turn that was cut before the last one."""

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

`n_tokens` is input and output, without what was asked outside the steps. So is `cost_usd` of runs; that of a table of
runs includes it, as there is no column to tell it apart.
"""

_SAME = ("run_id", "task")  # mean the same in a unit as in a run


def keys_of(by: str | Sequence[str] | None) -> list[str]:
    """The columns to keep apart, as a list."""
    return [] if by is None else [by] if isinstance(by, str) else list(dict.fromkeys(by))


def units_of(runs: Data, *, scope: Scope = "auto", by: str | Sequence[str] | None = None) -> pd.DataFrame:
    """One row for each turn, or each run, with the columns of `by` in front.

    Args:
        runs: Runs, or a frame like `runs_df` makes, whose rows are runs.
        scope: "turn", "run", or "auto": as the harness of each run's source counts.
        by: A column of `runs_df` (swept settings are among them), or several, to keep apart.

    Returns:
        The columns of `by`, then those of `UNIT_COLUMNS`. `cluster` is the task, or the run where no task is named,
        and for a subagent's run that of the run which its family began with: units of one cluster are not
        independent. A label judges the whole run, so `success` is NA in a turn of a
        session of many. Unknown is NA.

    Raises:
        SettingError: if scope or by is not one that exists, or a frame's rows hold several turns under scope "turn".

    Example:
        >>> units_of([]).columns.tolist()[:4]
        ['run_id', 'turn', 'task', 'cluster']
    """
    check_scope(scope)
    if isinstance(runs, pd.DataFrame):
        table = runs.reset_index(drop=True)
        units = _units_of_frame(table, scopes_of(_sources(table), scope))
        rows = list(range(len(table)))
    else:
        listed = as_runs(runs)
        table = runs_df(listed)
        scopes = scopes_of([run.source for run in listed], scope)
        pieces = [(row, unit) for row, run in enumerate(listed) for unit in _units_of_run(run, scopes[row])]
        rows = [row for row, _ in pieces]
        units = _typed({name: [unit[name] for _, unit in pieces] for name in UNIT_COLUMNS if name != "cluster"})
    return _grouped(units, table.iloc[rows], by)


def units_of_table(table: pd.DataFrame, by: str | Sequence[str] | None = None) -> pd.DataFrame:
    """One row for each run of a table that has a row for each, of which nothing is known but what names them.

    Args:
        table: `run_id`, and `task`, `agent`, `model` and others where they are.
        by: Columns of it to keep apart.

    Returns:
        The columns of `by`, then run_id, task and cluster as in `units_of`.

    Raises:
        SettingError: if there is no such column as one of `by`, or it is known only after a run.
    """
    task = table["task"] if "task" in table else [""] * len(table)
    units = pd.DataFrame({"run_id": _array(table["run_id"], TEXT), "task": _array(task, TEXT)}).fillna("")
    named = table.assign(**{name: table[name].replace("", pd.NA) for name in ("agent", "model") if name in table})
    return _grouped(units, named, by)


def _grouped(units: pd.DataFrame, table: pd.DataFrame, by: str | Sequence[str] | None) -> pd.DataFrame:
    """The units with their clusters, and the columns of `by` in front; `table` has a row for each of them."""
    head = _heads(units, table)
    units.insert([*units].index("task") + 1, "cluster", head["task"].mask(head["task"] == "", head["run_id"]))
    for place, name in enumerate(keys_of(by)):
        if name not in table:
            msg = f"by={name!r}: there is no such column; columns: {', '.join(map(str, table.columns))}"
            raise SettingError(msg)
        if name in UNIT_COLUMNS and name not in _SAME:
            msg = f"by={name!r}: this is known only after a run, so runs cannot be kept apart by it"
            raise SettingError(msg)
        if name in units:
            units = units[[name, *(other for other in units if other != name)]]
        else:
            units.insert(place, name, table[name].array)
    return units


def _heads(units: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The task and the id of the run that each unit's family began with; one that is not on record has no task."""
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
    head["run_id"] = _array(head["run_id"].map(root), TEXT)
    head["task"] = _array(head["run_id"].map(tasks), TEXT)
    return head.fillna({"task": ""})


def clusters_of(units: pd.DataFrame, by: Sequence[str] = ()) -> tuple[pd.Series[Any], str]:
    """What makes units dependent, and its name: "task", "run" or "" where each stands alone.

    Units of one task resemble each other, and so do turns of one run. Where all are of one task (or `by` keeps tasks
    apart), statements are about that task, and its runs are what repeats.

    Args:
        units: Rows of `units_of`.
        by: The columns that keep them apart.

    Returns:
        The cluster of each unit, and the word for clusters that hold more than one unit.

    Example:
        >>> clusters_of(units_of([]))[1]
        ''
    """
    if "run_id" not in by:
        for column in ("run_id",) if "task" in by else ("cluster", "run_id"):
            distinct = units[column].nunique()
            if distinct > 1:
                several = distinct < units["run_id"].nunique()
                word = "task" if several else "run" if distinct < len(units) else ""
                return units[column], word
    return pd.Series(range(len(units)), index=units.index), ""


def _sources(table: pd.DataFrame) -> list[str | None]:
    """The source of each row, None where the frame does not tell it."""
    if "source" not in table:
        return [None] * len(table)
    return [None if pd.isna(source) else str(source) for source in table["source"]]


def _units_of_run(run: Run, scope: str) -> Iterable[dict[str, Any]]:
    turns: dict[int, list[Step]] = {}
    for step in run.steps:
        turns.setdefault(1 if scope == "run" else step.turn, []).append(step)
    pieces = list((turns or {1: []}).items())
    for place, (turn, steps) in enumerate(pieces, 1):
        last = place == len(pieces)
        ended = terminated(run) if last else is_final(steps[-1])
        cost = known_sum(step.response.usage.cost for step in steps)
        yield {
            "run_id": run.run_id,
            "turn": turn,
            "task": run.task,
            "n_steps": len(steps),
            "n_tool_calls": sum(result is not None for step in steps for result in step.results),
            "n_tokens": known_sum(
                tokens
                for step in steps
                for tokens in (step.response.usage.input_tokens, step.response.usage.output_tokens)
            ),
            "cost_usd": None if cost is None else cost / MICRO,
            "ended": ended,
            "stop_reason": run.stop_reason if last else "finished" if ended else INTERRUPTED,
            "success": run.success if len(pieces) == 1 else None,
        }


def _units_of_frame(table: pd.DataFrame, scopes: Sequence[str]) -> pd.DataFrame:
    for name in ("n_steps", "stop_reason"):
        if name not in table:
            msg = f"the frame has no column {name!r}: expected one like runs_df makes, or runs"
            raise SettingError(msg)
    by_turn = np.array([scope == "turn" for scope in scopes], dtype=bool)
    if "n_turns" in table and bool((table["n_turns"] > 1).fillna(value=False)[by_turn].any()):
        msg = 'rows of the frame hold several turns, which it cannot tell apart: pass runs, or scope="run"'
        raise SettingError(msg)

    def column(name: str, dtype: str, default: object = None) -> pd.Series[Any]:
        return pd.Series(_array(table[name] if name in table else [default] * len(table), dtype))

    reasons = column("stop_reason", TEXT)
    tokens = column("input_tokens", INT) + column("output_tokens", INT)
    return _typed(
        {
            "run_id": column("run_id", TEXT).fillna(pd.Series(_array(map(str, range(len(table))), TEXT))),
            "turn": [1] * len(table),
            "task": column("task", TEXT, "").fillna(""),
            "n_steps": table["n_steps"],
            "n_tool_calls": column("n_tool_calls", INT),
            # A frame's totals hold the wrap-up, which is outside of the loop.
            "n_tokens": tokens - column("wrapup_tokens", INT, 0).fillna(0),
            "cost_usd": column("cost_usd", FLOAT),
            "ended": reasons.isin(["finished", "synthesis"]).mask(reasons.isna()),
            "stop_reason": reasons,
            "success": column("success", FLAG),
        }
    )


def _typed(values: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({name: _array(values[name], UNIT_COLUMNS[name]) for name in values})


def _array(values: Any, dtype: str) -> Any:  # noqa: ANN401 - a pandas array
    array: Callable[..., Any] = pd.array  # its stubs know no dtype that is only known at run time
    return array(values if isinstance(values, pd.Series) else list(values), dtype=dtype)
