"""The units of a recommendation: runs by their labels, turns by the proxy, or families of runs.

In a family success belongs to the root. A lead and its scouts have limits of their own, and each agent's are tested by
themselves. A limit on an agent loses a family's success as soon as it stops any of that agent's runs in the family: how
the others would have used its answer is not known. So the runs of one agent in one family are one unit, and its success
is the family's. Where groups do not separate agents, all runs of a family are one unit: one limit applies to each of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np
import pandas as pd

from boolab.core.run_tree import Kin, roots_of
from boolab.errors import SettingError
from boolab.frames.dtypes import TEXT
from boolab.frames.recording import PARENT
from boolab.stats.intervals import Labels
from boolab.whatif.step_table import LABEL, PROXY, UNKNOWN, Flags, Ints, Ledger, UnitNoun
from boolab.whatif.success_kinds import flags_of

_HOME: Final = "\0home"
"""A column that no run has: the row of the root's run or turn."""


def units_of_ledger(runs: Ledger, success_by: Literal["label", "ended"] | None, keys: Sequence[str] = ()) -> Ledger:
    """The units: runs by their labels; turns where turns have labels, or by the proxy, if the scope is the turn.

    Families are units, unless `keys` separates their runs: see `boolab.stats.recommend.units`. The recorded limits
    stay in force.
    """
    is_labelled = bool(runs.labelled_runs().any()) or runs.success_by == LABEL
    if success_by == "label" and not is_labelled and runs.n_runs:
        msg = "success='label': no run has a label; see bl.label, or success='ended' for the proxy"
        raise SettingError(msg)
    by_proxy = success_by == "ended" or not is_labelled
    by_turn = by_proxy or runs.judges_turns
    if by_turn:  # a run without steps has no turn: the subagents that it started are on record without it
        runs = runs.take(np.diff(runs.first) > 0)
    kin = runs.kin()
    if kin is not None and kin.calls:
        return family_units(runs, kin, keys, by_turn=by_turn, by_label=not by_proxy).apply_own_limits()
    return (runs.split_spans(by_label=not by_proxy) if by_turn else runs).apply_own_limits()


def clusters_of_ledger(units: Ledger) -> pd.Series[Any]:
    """R: the cluster of each unit: its task, or its run where no task is named.

    Where all successes are of one task, statements are about that task, and its runs are the clusters.
    """
    cluster = named_clusters(units)
    return units.runs["run_id"].astype(TEXT) if len(set(cluster[base_of(units)])) == 1 else cluster


def named_clusters(units: Ledger) -> pd.Series[Any]:
    """R: the task of each unit, or its run where no task is named."""
    run = units.runs["run_id"].astype(TEXT)
    if "task" not in units.runs:
        return run
    task = units.runs["task"].astype(TEXT).fillna("")
    return ("task " + task).mask(task == "", "run " + run)


def cluster_noun(units: Ledger, clusters: Labels) -> str:
    """What a cluster of units is called: "task", or "run" where no task is named, or all successes are of one."""
    return "run" if pd.Series(clusters).equals(units.runs["run_id"].astype(TEXT)) else "task"


def group_numbers(units: Ledger, keys: Sequence[str]) -> Ints:
    """R: the group of each unit by some columns, from 0, as `grouped_units` has them."""
    if not keys:
        return np.zeros(units.n_runs, dtype=np.int64)
    return units.runs.groupby(list(keys), dropna=False, sort=False).ngroup().to_numpy().astype(np.int64)


def split_by_label(
    runs: Ledger,
    success_by: Literal["label", "ended"] | None,
    keys: Sequence[str],
    unlabelled: Literal["bounds", "proxy"] = "bounds",
) -> list[Ledger]:
    """The runs of the groups that have labels, and those of the groups that have none, for which the proxy stands.

    `unlabelled`: "proxy" takes it for groups that have some runs without a label too.
    """
    is_labelled = runs.labelled_runs()
    if success_by is not None or not is_labelled.any() or not (keys or unlabelled == "proxy"):
        return [runs]
    by_label = flags_of(runs, keys, labelled=is_labelled) if keys else np.ones(runs.n_runs, dtype=bool)
    if unlabelled == "proxy":
        by_label &= ~_partly_unlabelled(runs, keys)
    if by_label.all():
        return [runs]
    proxy_runs = runs.take(~by_label)
    proxy_runs = replace(proxy_runs, success_by=PROXY, judged=np.full(proxy_runs.n_steps, UNKNOWN))
    return [runs.take(by_label), proxy_runs] if by_label.any() else [proxy_runs]


def _partly_unlabelled(runs: Ledger, keys: Sequence[str]) -> Flags:
    """R: whether a run of the same group has no label, or its root has none."""
    kin = runs.kin()
    roots = np.arange(runs.n_runs) if kin is None else np.array(roots_of(kin.parent), dtype=np.int64)
    units = units_of_ledger(runs, None, keys)
    is_open = runs.runs["run_id"].isin(units.runs["run_id"][open_units(units)]).to_numpy()
    group = group_numbers(runs, keys)
    return np.asarray(np.bincount(group, weights=is_open[roots])[group] > 0)


def grouped_units(units: Ledger, keys: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], Ledger]]:
    """The groups of units by some columns, each with its values of them."""
    if not keys:
        yield (), units
        return
    for values, rows in units.runs.groupby(list(keys), dropna=False, sort=False):
        is_member = np.zeros(units.n_runs, dtype=bool)
        is_member[rows.index] = True
        yield values if isinstance(values, tuple) else (values,), units.take(is_member)


def unit_of_ledger(units: Ledger) -> UnitNoun:
    """What a unit of `units_of_ledger` is: see `unit_of`. It is the same in each group of them."""
    return "turn" if units.by_turn else "run"


def base_of(units: Ledger) -> Flags:
    """R: which units are successes: what a setting keeps or loses."""
    return np.asarray(units.success == 1)


def family_units(runs: Ledger, kin: Kin, keys: Sequence[str], *, by_turn: bool, by_label: bool = False) -> Ledger:
    """The runs with the unit of each: the runs of one family and of one agent, or another value of `keys`.

    Its `success` is that of the family, once for each unit, and unknown in its other runs. Its `run_id` and `task` are
    the root's, so that a family is one cluster; `parent_run_id` is NA for roots only. With `by_turn` each span is a run
    of its own (see `Ledger.split_spans`): then the subagents that a turn of the root started belong to that turn.
    """
    unit_runs = runs.split_spans(by_label=by_label) if by_turn else runs
    owner, steps_before = _owners(runs, by_turn=by_turn)
    roots, steps = np.array(roots_of(kin.parent), dtype=np.int64), _steps_of_roots(kin)
    rows = np.arange(len(owner))
    first = np.searchsorted(owner, np.arange(runs.n_runs))
    home = rows.copy()
    for row in np.flatnonzero(roots[owner] != owner).tolist():
        root = int(roots[owner[row]])
        spans = steps_before[owner == root]
        step = steps[int(owner[row])]
        span_index = np.searchsorted(spans, step - 1, side="right") - 1 if step else len(spans) - 1
        home[row] = first[root] + span_index
    group_columns = unit_runs.runs[list(keys)].assign(**{_HOME: home})
    unit = group_columns.groupby([_HOME, *keys], sort=False, dropna=False).ngroup()
    # The root's row has the success, whether its run is listed before or after those of its subagents.
    roots_first = np.argsort(home != rows, kind="stable")
    is_repeated = np.empty(len(rows), dtype=bool)
    is_repeated[roots_first] = unit.iloc[roots_first].duplicated().to_numpy()
    top = roots[owner]
    root_columns = {name: runs.runs[name].array.take(top) for name in ("run_id", "task") if name in runs.runs}
    root_columns[PARENT] = unit_runs.runs[PARENT].mask(top == owner)
    return replace(
        unit_runs,
        runs=unit_runs.runs.assign(**root_columns),
        success=np.where(is_repeated, UNKNOWN, unit_runs.success[home]),
        unit=unit.to_numpy().astype(np.int64),
        starts={},
    )


def open_units(units: Ledger) -> Flags:
    """R: which units have no label, where success is a label: one row of each."""
    if units.success_by != LABEL:
        return np.zeros(units.n_runs, dtype=bool)
    is_unknown = np.asarray(units.success < 0)
    if units.unit is None:
        return is_unknown
    is_known = np.zeros(int(units.unit.max(initial=-1)) + 1, dtype=bool)
    is_known[units.unit[~is_unknown]] = True
    return is_first_of_unit(units) & ~is_known[units.unit]


def is_first_of_unit(units: Ledger) -> Flags:
    """R: one row of each unit."""
    is_first = np.full(units.n_runs, units.unit is None)
    if units.unit is not None:
        is_first[np.unique(units.unit, return_index=True)[1]] = True
    return is_first


def assume_success(units: Ledger) -> Ledger:
    """The units as if those without a label were successes."""
    return replace(units, success=np.where(open_units(units), 1, units.success))


def is_root(units: Ledger) -> Flags:
    """R: whether the run is the root of its family; all of them, where there are no families."""
    if units.unit is None:
        return np.ones(units.n_runs, dtype=bool)
    return units.runs[PARENT].isna().to_numpy(dtype=bool)


def success_of_units(units: Ledger) -> Ints:
    """R: the success of the unit of each row: 1, 0, or -1 where it is not known."""
    if units.unit is None:
        return units.success
    success = np.full(int(units.unit.max(initial=-1)) + 1, UNKNOWN)
    np.maximum.at(success, units.unit, units.success)
    return success[units.unit]


def _owners(runs: Ledger, *, by_turn: bool) -> tuple[Ints, Ints]:
    """The run of each row, and the number of its steps before the row."""
    if not by_turn:
        return np.arange(runs.n_runs), np.zeros(runs.n_runs, dtype=np.int64)
    first, owner = runs.spans()
    has_steps = np.diff(first) > 0
    owner = owner[has_steps]
    return owner, first[:-1][has_steps] - runs.first[owner]


def _steps_of_roots(kin: Kin) -> list[int]:
    """For each run the step of its root from which it descends; 0 for a root, and where that is not known."""
    steps = []
    for run in range(len(kin.parent)):
        ancestor, visited = run, {run}
        step = 0
        while kin.parent[ancestor] >= 0 and kin.parent[ancestor] not in visited:
            step, ancestor = kin.step[ancestor], kin.parent[ancestor]
            visited.add(ancestor)
        steps.append(step)
    return steps
