"""What limits of one agent lose in families, where success belongs to the root.

A lead and its scouts have limits of their own, and each agent's are tested by themselves. A family's success counts as
lost by a limit on an agent as soon as it stops any of that agent's runs in the family: nobody knows what the others
would have made of the answer. So the runs of one agent in one family are one unit, and its success is the family's.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from boolab.families import Kin, roots_of
from boolab.ledger import UNKNOWN, Ints, Ledger


def agent_units(runs: Ledger, kin: Kin, *, by_turn: bool) -> Ledger:
    """The runs with the unit of each: the runs of one agent in one family.

    Args:
        runs: The recordings.
        kin: Who among them started whom.
        by_turn: Whether each span is a run of its own (see `Ledger.by_span`): then the subagents that a turn of the
            root started belong to that turn.

    Returns:
        A ledger whose `success` is that of the family, once for each unit, and not known in its other runs. Its
        `run_id` and `task` are the root's, so that a family is one cluster.
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
    agent = each.runs["agent"].fillna("") if "agent" in each.runs else pd.Series([""] * each.n_runs)
    unit = pd.DataFrame({"home": home, "agent": agent.to_numpy(object)}).groupby(["home", "agent"], sort=False).ngroup()
    again = unit.duplicated().to_numpy()
    top = roots[owner]
    about = {name: runs.runs[name].array.take(top) for name in ("run_id", "task") if name in runs.runs}
    return replace(
        each,
        runs=each.runs.assign(**about),
        success=np.where(again, UNKNOWN, each.success[home]),
        unit=unit.to_numpy().astype(np.int64),
        starts={},
    )


def _owners(runs: Ledger, *, by_turn: bool) -> tuple[Ints, Ints]:
    """The run of each row, and how many of its steps come before it."""
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
