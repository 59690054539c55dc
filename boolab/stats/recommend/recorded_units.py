"""The units of recorded runs as the desk counts them: their fingerprints, their lengths, and their clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from boolab.core.run import Run
from boolab.core.types import Identities, Scope
from boolab.limits.table import LIMITS
from boolab.logs.units import LabelUnit, units_of_run
from boolab.stats.recommend.fixed_sequence import NOT_KNOWN
from boolab.stats.recommend.units import clusters_of_ledger, is_root, units_of_ledger
from boolab.whatif.grid import settings_of
from boolab.whatif.recordings import ledgers_of
from boolab.whatif.step_table import Flags, Ints, Ledger, scopes_of


@dataclass(frozen=True, eq=False)
class RecordedUnits:
    """The units of runs that can be asked about, in the order of the record.

    Attributes:
        runs: The run of each.
        units: What is asked about.
        clusters: The task of each, or its run where no task is named.
        peaks: By axis, the largest count of each at a boundary.
        identity: Which calls are repeats.
    """

    runs: Sequence[Run]
    units: Sequence[LabelUnit]
    clusters: Sequence[str]
    peaks: Mapping[str, Ints]
    identity: Identities | None = None

    @property
    def noun(self) -> str:
        """What a unit is called."""
        return "turn" if any(unit.turn is not None for unit in self.units) else "run"

    def is_run(self, row: int) -> bool:
        """Whether a unit is the whole of its run, so that a label of the run is its own."""
        run, unit = self.runs[row], self.units[row]
        return unit.turn is None or (self._n_units[unit.run_id] == 1 and unit.last_step == len(run.steps))

    @cached_property
    def _n_units(self) -> Counter[str]:
        return Counter(unit.run_id for unit in self.units)

    def lengths(self, axis: str) -> Ints:
        """The least whole value of an axis that would not stop each unit."""
        return np.minimum(self.peaks[axis], NOT_KNOWN) + 1

    def is_long(self, values: Mapping[str, Sequence[Any]]) -> dict[str, Flags]:
        """By axis, whether each value would stop each unit: shape (units, values)."""
        thresholds = {}
        for axis in settings_of({name: list(of_axis) for name, of_axis in values.items()}, None, self.identity).axes:
            by_value = {value: rule.threshold for value, rule in zip(axis.values, axis.rules, strict=False)}
            thresholds[axis.name] = np.array([by_value[value] for value in values[axis.name]], dtype=np.int64)
        return {name: self.peaks[name][:, None] >= thresholds[name] for name in values}


def recorded_units(
    runs: Sequence[Run], axes: Sequence[str], scope: Scope = "auto", identity: Identities | None = None
) -> RecordedUnits:
    """The units of runs, with the counts that `recommend` has of them.

    A unit of a family is its root's, and its count is the largest of any run of it. A turn that may still grow is no
    unit.

    Args:
        runs: The runs.
        axes: The limits that are asked about.
        scope: See `counterfactual`.
        identity: See `counterfactual`.

    Returns:
        The units.
    """
    scopes = scopes_of([run.source for run in runs], scope)
    recorded = []
    for run, scope_of_run in zip(runs, scopes, strict=True):
        recorded += [(run, unit) for unit in units_of_run(run, "turn" if scope_of_run == "turn" else "run")]
    settings = settings_of({axis: [LIMITS[axis].min_useful] for axis in axes}, None, identity)
    ledger = units_of_ledger(Ledger.concat(list(ledgers_of(list(runs), settings.detectors(), scope))), "ended")
    rows = _rows_of(ledger)
    recorded = [(run, unit) for run, unit in recorded if (unit.run_id, unit.turn or 0) in rows]
    row = np.array([rows[unit.run_id, unit.turn or 0] for _, unit in recorded], dtype=np.int64)
    return RecordedUnits(
        [run for run, _ in recorded],
        [unit for _, unit in recorded],
        clusters_of_ledger(ledger).to_numpy()[row].tolist(),
        {axis.name: ledger.peak(axis.counter)[row] for axis in settings.axes},
        identity,
    )


def _rows_of(ledger: Ledger) -> dict[tuple[str, int], int]:
    """The row of each root's turn, by its run and its number; 0 where the unit is the run."""
    turns = np.where(ledger.runs["scope"].eq("turn").to_numpy(), ledger.runs["turn"].to_numpy(), 0).tolist()
    ids = ledger.runs["run_id"].tolist()
    return {(ids[row], turns[row]): row for row in np.flatnonzero(is_root(ledger)).tolist()}
