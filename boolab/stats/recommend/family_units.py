"""What limits lose in families, where success belongs to the root.

A lead and its scouts have limits of their own, and each agent's are tested by themselves. A limit on an agent loses a
family's success as soon as it stops any of that agent's runs in the family: how the others would have used its answer
is not known. So the runs of one agent in one family are one unit, and its success is the family's. Where groups do not
separate agents, all runs of a family are one unit: one limit applies to each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from boolab.core.run_tree import Kin, roots_of
from boolab.frames.recording import PARENT
from boolab.whatif.step_table import UNKNOWN, Flags, Ints, Ledger

_HOME: Final = "\0home"
"""A column that no run has: the row of the root's run or turn."""


def family_units(runs: Ledger, kin: Kin, by: Sequence[str], *, by_turn: bool) -> Ledger:
    """The runs with the unit of each: the runs of one family and of one agent, or another value of `by`.

    Its `success` is that of the family, once for each unit, and unknown in its other runs. Its `run_id` and `task` are
    the root's, so that a family is one cluster; `parent_run_id` is NA for roots only. With `by_turn` each span is a run
    of its own (see `Ledger.by_span`): then the subagents that a turn of the root started belong to that turn.
    """
    each = runs.by_span() if by_turn else runs
    owner, before = _owners(runs, by_turn=by_turn)
    roots, steps = np.array(roots_of(kin.parent), dtype=np.int64), _steps_of_roots(kin)
    rows = np.arange(len(owner))
    first = np.searchsorted(owner, np.arange(runs.n_runs))
    home = rows.copy()
    for row in np.flatnonzero(roots[owner] != owner).tolist():
        root = int(roots[owner[row]])
        spans = before[owner == root]
        step = steps[int(owner[row])]
        place = np.searchsorted(spans, step - 1, side="right") - 1 if step else len(spans) - 1
        home[row] = first[root] + place
    apart = each.runs[list(by)].assign(**{_HOME: home})
    unit = apart.groupby([_HOME, *by], sort=False, dropna=False).ngroup()
    # The root's row has the success, whether its run is listed before or after those of its subagents.
    roots_first = np.argsort(home != rows, kind="stable")
    again = np.empty(len(rows), dtype=bool)
    again[roots_first] = unit.iloc[roots_first].duplicated().to_numpy()
    top = roots[owner]
    about = {name: runs.runs[name].array.take(top) for name in ("run_id", "task") if name in runs.runs}
    about[PARENT] = each.runs[PARENT].mask(top == owner)
    return replace(
        each,
        runs=each.runs.assign(**about),
        success=np.where(again, UNKNOWN, each.success[home]),
        unit=unit.to_numpy().astype(np.int64),
        starts={},
    )


def is_root(units: Ledger) -> Flags:
    """R: whether the run is the root of its family; all of them, where there are no families."""
    if units.unit is None:
        return np.ones(units.n_runs, dtype=bool)
    return units.runs[PARENT].isna().to_numpy(dtype=bool)


def _owners(runs: Ledger, *, by_turn: bool) -> tuple[Ints, Ints]:
    """The run of each row, and the number of its steps before the row."""
    if not by_turn:
        return np.arange(runs.n_runs), np.zeros(runs.n_runs, dtype=np.int64)
    first, owner = runs.spans()
    some = np.diff(first) > 0
    owner = owner[some]
    return owner, first[:-1][some] - runs.first[owner]


def _steps_of_roots(kin: Kin) -> list[int]:
    """For each run the step of its root from which it descends; 0 for a root, and where that is not known."""
    steps = []
    for run in range(len(kin.parent)):
        at, seen = run, {run}
        step = 0
        while kin.parent[at] >= 0 and kin.parent[at] not in seen:
            step, at = kin.step[at], kin.parent[at]
            seen.add(at)
        steps.append(step)
    return steps
