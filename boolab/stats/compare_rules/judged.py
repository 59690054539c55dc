"""Runs under rules, as arrays, what they keep and save in sum, and the notes that all comparisons share.

A success is *kept* if the rule does not stop its run, so that it is certainly as recorded; it may be kept too if no
call follows the stop. What a rule *saves* are the steps after the stop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from boolab.core.text import count
from boolab.core.types import Scope
from boolab.display.numbers import level
from boolab.frames.dtypes import FLOAT, INT
from boolab.frames.runs import Runs, as_runs
from boolab.stats.intervals import ClusterBootstrap, Estimate
from boolab.stats.trade import TRADE, trade_of
from boolab.stats.units import clusters_of, units_of_table
from boolab.whatif.grid import detectors_of
from boolab.whatif.recordings import Recorded, ledgers_of
from boolab.whatif.rule_matrix import Floats, Rule, RuleMatrix, rule_matrix, run_costs
from boolab.whatif.step_files import is_step_table, read_steps
from boolab.whatif.step_table import LABEL, Ints, Ledger, check_scope
from boolab.whatif.success_kinds import decide_by_group

FIGURES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("n_runs", "n_tasks", "successes", "kept_lower", "kept_upper"), INT),
    **dict.fromkeys(("kept_share", "kept_low", "kept_high", "kept_share_upper"), FLOAT),
    **dict.fromkeys(("steps", "saved_steps"), INT),
    **dict.fromkeys(("saved_share", "saved_low", "saved_high"), FLOAT),
    **dict.fromkeys(("cost_usd", "saved_cost_usd", "saved_cost_share"), FLOAT),
    **TRADE,
    "n_unknown": INT,
}
"""The columns that say what a rule keeps and saves, and their types."""


MIXED: Final = "mixed"
"""What successes are, where they are labels in some groups and the proxy in others."""


@dataclass(frozen=True, slots=True)
class Judged:
    """R runs under S rules."""

    rules: tuple[Rule, ...]  # S: the rules; None is no limit
    units: pd.DataFrame  # r rows: run_id, task, cluster, and the columns that separate groups
    matrix: RuleMatrix  # r x S: what the rules make of the runs
    success: Ints  # R: 1, 0, or -1 where it is not known
    steps: Ints  # R: the number of steps
    peak: Ints  # R: the most steps at a place where a cap is evaluated; a cap above it does not stop the run
    cost: Floats  # R: in dollars; NaN where it is not known
    success_kinds: npt.NDArray[np.object_]  # R: what a success is: see `Ledger.success_kinds`

    @property
    def n_runs(self) -> int:
        """R."""
        return len(self.steps)

    @property
    def success_by(self) -> str:
        """What a success is: a label, or the proxy that a run ended by itself; "mixed" where groups differ."""
        kinds = set(self.success_kinds.tolist())
        return MIXED if len(kinds) > 1 else next(iter(kinds), LABEL)

    def rows(self, indices: Ints) -> Judged:
        """Some of the runs, by their places."""
        return Judged(
            self.rules,
            self.units.iloc[indices].reset_index(drop=True),
            self.matrix.rows(indices),
            self.success[indices],
            self.steps[indices],
            self.peak[indices],
            self.cost[indices],
            self.success_kinds[indices],
        )

    def select_rule(self, rule: Ints) -> Judged:
        """Each run under one rule, by the rule's place: a matrix of one column."""
        names = RuleMatrix.__slots__
        picked = (np.take_along_axis(getattr(self.matrix, name), rule[:, None], axis=1) for name in names)
        return Judged(
            (None,), self.units, RuleMatrix(*picked), self.success, self.steps, self.peak, self.cost, self.success_kinds
        )


def judge_recordings(
    recorded: Recorded, rules: Sequence[Rule], *, keys: Sequence[str] = (), scope: Scope = "auto"
) -> Judged:
    """Read recordings, and evaluate rules on them."""
    return judge_ledger(ledger_for(recorded, rules, keys=keys, scope=scope), rules, keys)


def ledger_for(recorded: Recorded, rules: Sequence[Rule], *, keys: Sequence[str] = (), scope: Scope = "auto") -> Ledger:
    """Recordings with the counters that rules need; their own limits stay in force."""
    check_scope(scope)
    ledger = Ledger.concat([*ledgers_of(recorded, detectors_of(rules), scope, keys, own_limits="kept")])
    return decide_by_group(ledger, keys)


def judge_ledger(ledger: Ledger, rules: Sequence[Rule], keys: Sequence[str] = ()) -> Judged:
    """Evaluate rules on recordings that have been read."""
    return Judged(
        tuple(rules),
        units_of_table(ledger.runs, list(keys)),
        rule_matrix(ledger, rules),
        ledger.success,
        np.diff(ledger.first),
        ledger.peak("steps"),
        run_costs(ledger),
        ledger.success_kinds(),
    )


def runs_at(recorded: Recorded, judged_runs: Judged, indices: Ints) -> Runs | pd.DataFrame:
    """Some of the recorded runs, of the kind that was given: runs, or a frame; a store gives runs, a file a frame."""
    if isinstance(recorded, pd.DataFrame):
        ids = judged_runs.units["run_id"].iloc[indices]
        return recorded[recorded["run_id"].isin(ids.tolist())]
    runs = as_runs(recorded)
    return [runs[index] for index in indices.tolist()]


def load_recordings(recorded: Recorded) -> Recorded:
    """A file or a store as the frame or the runs in it; all else as it is."""
    if not isinstance(recorded, str | Path):
        return recorded
    if not is_step_table(recorded):
        return as_runs(recorded)
    return read_steps(recorded)


class Sums:
    """What rules keep and save over some runs, with intervals over the tasks.

    `keys`: the columns that separate groups; one of them may be the task.
    """

    def __init__(self, judged_runs: Judged, keys: Sequence[str] = (), confidence: float = 0.95, seed: int = 0) -> None:
        self.judged = judged_runs
        clusters, self.word = clusters_of(judged_runs.units, keys)
        self.bootstrap = ClusterBootstrap(clusters.to_numpy(), seed=seed)
        matrix, success = judged_runs.matrix, judged_runs.success == 1
        self.success = success
        self.kept: Estimate = self.bootstrap.share(matrix.kept_lower, success, confidence)
        self.saved: Estimate = self.bootstrap.share(matrix.saved_steps, judged_runs.steps, confidence)

    def rows(self) -> list[dict[str, Any]]:
        """The columns of `FIGURES`, a row for each rule."""
        judged_runs, matrix = self.judged, self.judged.matrix
        successes, steps = int(self.success.sum()), int(judged_runs.steps.sum())
        lower, upper = matrix.kept_lower.sum(axis=0), matrix.kept_upper.sum(axis=0)
        saved, unknown = matrix.saved_steps.sum(axis=0, dtype=np.int64), matrix.unknown.sum(axis=0)
        reported = ~np.isnan(judged_runs.cost)
        cost = float(judged_runs.cost[reported].sum()) if reported.any() else None
        saved_cost = matrix.saved_cost[reported].sum(axis=0)
        rows = []
        for column in range(len(judged_runs.rules)):
            n_kept = int(lower[column])
            rows.append(
                {
                    "n_runs": judged_runs.n_runs,
                    "n_tasks": self.bootstrap.n_clusters,
                    "successes": successes,
                    "kept_lower": n_kept,
                    "kept_upper": int(upper[column]),
                    **_interval_columns("kept_share", "kept", self.kept, column),
                    "kept_share_upper": int(upper[column]) / successes if successes else None,
                    "steps": steps,
                    "saved_steps": int(saved[column]),
                    **_interval_columns("saved_share", "saved", self.saved, column),
                    "cost_usd": cost,
                    "saved_cost_usd": None if cost is None else float(saved_cost[column]),
                    "saved_cost_share": float(saved_cost[column]) / cost if cost else None,
                    **trade_of(
                        steps=steps,
                        saved_steps=int(saved[column]),
                        successes=successes,
                        kept=n_kept,
                        cost=cost if reported.all() else None,
                        saved_cost=float(saved_cost[column]),
                    ),
                    "n_unknown": int(unknown[column]),
                }
            )
        return rows


def _interval_columns(name: str, stem: str, estimate: Estimate, column: int) -> dict[str, float]:
    low, high = (float(np.atleast_1d(end)[column]) for end in (estimate.low, estimate.high))
    return {name: float(np.atleast_1d(estimate.value)[column]), f"{stem}_low": low, f"{stem}_high": high}


_ROUNDING: Final = 1e-9


def holds(figures: Mapping[str, Any], keep: float | None) -> bool | None:
    """Whether a rule keeps as much as is promised; None if nothing is, or it is not known."""
    if keep is None or not figures["successes"] or figures["kept_lower"] is None:
        return None
    return bool(figures["kept_lower"] >= keep * figures["successes"] - _ROUNDING)


def promise(rows: Sequence[Mapping[str, Any]], keep: float) -> str:
    """In how many of some rows a promise holds."""
    verdicts = [row["holds"] for row in rows if row["holds"] is not None]
    return f"at least {level(keep)} of successes is kept in {sum(verdicts):,} of {count(len(verdicts), 'group')}"


def data_notes(judged_runs: Judged) -> Iterator[str]:
    """The quality of the data."""
    if not judged_runs.n_runs:
        yield "There are no runs."
        return
    if judged_runs.success_by != LABEL:
        start = (
            "In groups in which no run has a label, a" if judged_runs.success_by == MIXED else "No run has a label. A"
        )
        yield f"{start} success is a run that ended by itself, which is a proxy: one that ended may have failed."
    unlabelled = int((judged_runs.success < 0).sum())
    if unlabelled:
        yield (
            f"{unlabelled:,} of {count(judged_runs.n_runs, 'run')} have no label: they count in what is saved, and not "
            "in what is kept."
        )
    unknown = int(judged_runs.matrix.unknown.any(axis=1).sum())
    if unknown:
        yield (
            f"In {count(unknown, 'run')} a counter that some rule needs is unknown: the run counts as stopped there, "
            "and a success as not kept."
        )
    unpriced = int(np.isnan(judged_runs.cost).sum())
    if 0 < unpriced < judged_runs.n_runs:
        total = count(judged_runs.n_runs, "run")
        yield f"{unpriced:,} of {total} do not report their cost: money is that of the others."
