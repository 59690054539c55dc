"""How many units of a decision are labelled, and by whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

import numpy as np

from boolab.core.run import Run, RunLabel
from boolab.core.run_labels import LabelCounts, label_of, turn_label
from boolab.stats.recommend.units import is_root
from boolab.whatif.recordings import Recorded
from boolab.whatif.step_table import LABEL, Ledger

_UNNAMED: Final = RunLabel(success=True, source="")
"""The label of a unit of a frame, which does not have the source."""


def count_labels(parts: Iterable[Ledger], recorded: Recorded) -> LabelCounts:
    """The labels of units by their source; those of groups with the proxy are unknown."""
    runs = {run.run_id: run for run in reversed(recorded)} if isinstance(recorded, list) else {}
    return LabelCounts.of(chain.from_iterable(_labels(units, runs) for units in parts))


def _labels(units: Ledger, runs: Mapping[str, Run]) -> Iterator[RunLabel | None]:
    turns = units.runs["turn"].tolist() if units.by_turn else [None] * units.n_runs
    ids = units.runs["run_id"].tolist()
    for row in np.flatnonzero(is_root(units)).tolist():
        run, turn = runs.get(ids[row]), turns[row]
        if units.success_by != LABEL or units.success[row] < 0:
            yield None
        elif run is None:
            yield _UNNAMED
        else:
            yield (None if turn is None else turn_label(run, turn)) or label_of(run) or _UNNAMED
