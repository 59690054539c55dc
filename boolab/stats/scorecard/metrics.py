"""Which runs are positive, which alarms are true, and the numbers of a scorecard for a group of runs.

Sources: Wilks, Ann. Math. Stat. 12 (1941) 91-96 (the share beyond the largest of a sample).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from boolab.core.run import Run
from boolab.core.run_labels import has_turn_labels
from boolab.core.types import MICRO, Scope
from boolab.errors import SettingError
from boolab.frames.labels import check_keys, flag_of, mapping_of
from boolab.frames.runs import as_runs, distinct_runs
from boolab.frames.tables import runs_df, tools_called
from boolab.frames.turn_runs import turns_as_runs
from boolab.limits.call_identity import uncalled_note
from boolab.limits.detector import named_tools
from boolab.limits.stop import StopRule
from boolab.logs.outcomes.labels import label
from boolab.stats.intervals import Array, ClusterBootstrap, Estimate, expand_tail, percentiles
from boolab.stats.kept_share import kept_bound
from boolab.stats.scorecard.alarms import NOT_REPORTED, SAVED, Alarms, FalseAlarmPeaks, alarms_of, false_alarm_peaks_of
from boolab.stats.trade import TRADE, trade_of
from boolab.stats.units import clusters_of, group_name, units_of_table
from boolab.store.connection import begins_as_sqlite
from boolab.whatif.first_crossing import Places
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.grid import detectors_of
from boolab.whatif.recordings import Recorded, as_recorded, ledgers_of
from boolab.whatif.rule_matrix import Floats, run_costs
from boolab.whatif.step_table import LABEL, Flags, Ints, Ledger, UnitNoun, scopes_of
from boolab.whatif.success_kinds import decide_by_group

Positive: TypeAlias = "str | Mapping[str, Any] | pd.Series[Any] | Callable[[Run], bool | None]"
"""Which runs are positive: the name of a setting, labels by run id, or a callable; None is unknown."""

FAILED: Final = "failed"
NOT_ENDED: Final = "did not end by itself"
"""What is positive by default: a label of failure, or, where no run has a label, this proxy."""

UNNAMED: Final = "positive"
COUNTS: Final = ("n_runs", "n_positive", "alarms", "true_alarms", "false_alarms", "missed")
RATIOS: Final = ("precision", "recall", "false_alarm_rate")
LIFT: Final = ("lift", "lift_low", "lift_high")
CAP: Final = ("same_kept_cap", "same_kept_cap_saved_steps")
LOST_COLUMNS: Final = ("successes", "successes_lost_lower", "successes_lost_upper")
CLEAN: Final = ("clean_threshold", "clean_threshold_low", "clean_threshold_high")


class Truth(NamedTuple):
    """In which runs the class is known, which are positive, and the name of the class.

    `by_label` is, for each run, whether its group has labels, where others have the proxy; None where all are alike.
    """

    known: Flags
    positive: Flags
    name: str
    proxy: bool = False
    user: bool = False
    by_label: Flags | None = None

    def of_group(self, runs: Ints) -> Truth:
        """That of the runs of one group."""
        if self.by_label is None:
            return self
        by_proxy = not self.by_label[runs].any()
        return self._replace(name=NOT_ENDED if by_proxy else FAILED, proxy=by_proxy, by_label=None)


class Material(NamedTuple):
    """The judged recordings as columns, and the runs; None where there are only columns, from a table of steps.

    `notes` are about tools that the rules name and that were never called, and about runs that are there twice.
    """

    ledger: Ledger
    runs: Sequence[Run] | None
    notes: tuple[str, ...] = ()


def material_of(
    recorded: Recorded,
    rules: Sequence[StopRule],
    *,
    scope: Scope,
    keys: Sequence[str] = (),
    positive: Positive | None = None,
) -> Material:
    """Read what is judged: runs, a table with a row for each step, or the path of such a table or of a store."""
    detectors = detectors_of(rules)
    recorded = as_recorded(recorded)
    if isinstance(recorded, pd.DataFrame) or (isinstance(recorded, str | Path) and not begins_as_sqlite(recorded)):
        label_columns = [positive] if isinstance(positive, str) else []
        try:
            ledger = Ledger.concat([*ledgers_of(recorded, detectors, scope, [*keys, *label_columns])])
        except SettingError as error:
            if not (label_columns and str(error).startswith(f"by={positive!r}: ") and positive not in keys):
                raise
            raise SettingError(str(error).replace("by=", "positive=", 1)) from None
        if positive is None and ledger.judges_turns:
            ledger = ledger.take(np.diff(ledger.first) > 0).split_spans(by_label=True)
        return Material(ledger.apply_own_limits(), None)
    runs, repeats = distinct_runs(as_runs(recorded))
    named_identities = named_tools(detectors)
    uncalled = uncalled_note(named_identities, tools_called(runs) if named_identities else ())
    scopes = scopes_of([run.source for run in runs], scope)
    by_turn = [run_scope == "turn" for run_scope in scopes]
    if positive is None and any(has_turn_labels(run) and turns for run, turns in zip(runs, by_turn, strict=True)):
        parts = (_units_of(run, by_turn=turns) for run, turns in zip(runs, by_turn, strict=True))
        runs = [*chain.from_iterable(parts)]
        ledger = replace(ledger_of(runs, detectors, scope), by_turn=True)
    else:
        ledger = ledger_of(runs, detectors, scope)
    return Material(ledger.apply_own_limits(), runs, (*repeats, *uncalled))


def _units_of(run: Run, *, by_turn: bool) -> list[Run]:
    """The turns of a run, or itself; none without a step, which has no turn."""
    if not by_turn:
        return [run] if run.steps else []
    return [turn_run for _, turn_run in turns_as_runs(run)]


def unit_of_material(material: Material) -> UnitNoun:
    """What is judged: turns where turns have labels of their own, else runs."""
    return "turn" if material.ledger.by_turn else "run"


def units_in(material: Material, keys: Sequence[str]) -> pd.DataFrame:
    """One row for each run: the columns of `keys`, run_id, task and cluster."""
    table = material.ledger.runs.drop(columns="scope")
    if material.runs is not None and not {*keys} <= {*table.columns}:
        table = runs_df(material.runs)
    return units_of_table(table, keys)


def decide_material(
    material: Material, units: pd.DataFrame, keys: Sequence[str], positive: Positive | None
) -> Material:
    """The same, where each group by itself has labels or the proxy, unless the user gives what is positive."""
    if positive is not None:
        return material
    return material._replace(ledger=decide_by_group(material.ledger, keys, rows=units))


def truth_of(material: Material, positive: Positive | None) -> Truth:
    """Which runs are positive: by what the user gives; else failure by label; else, where no run has one, the proxy."""
    if positive is not None:
        try:
            flags = _flags(material, positive)
        except SettingError as error:
            raise SettingError(f"positive: {error}") from None
        name = positive if isinstance(positive, str) else str(getattr(positive, "__name__", UNNAMED))
        unlabelled, true = (np.array([flag is truth_value for flag in flags], bool) for truth_value in (None, True))
        return Truth(~unlabelled, true, UNNAMED if name == "<lambda>" else name, user=True)
    ledger = material.ledger
    if ledger.success_by == LABEL:
        return Truth(ledger.success >= 0, ledger.success == 0, FAILED, by_label=ledger.by_label)
    return Truth(np.ones(ledger.n_runs, dtype=bool), ledger.success == 0, NOT_ENDED, proxy=True)


def _flags(material: Material, positive: Positive) -> list[bool | None]:
    """What the user gives for each run."""
    if material.runs is not None:
        # A callable may look at the label of success; a mapping or a setting must not fall back on it.
        bare = material.runs if callable(positive) else [replace(run, success=None) for run in material.runs]
        return [run.success for run in label(bare, positive)]
    table = material.ledger.runs
    ids = table["run_id"].tolist()
    if isinstance(positive, str):
        return [flag_of(cell, f"of run {run_id}") for cell, run_id in zip(table[positive], ids, strict=True)]
    if callable(positive):
        msg = "a callable takes runs, and a table with a row per step has none: pass runs, or labels by run id"
        raise SettingError(msg)
    labels = mapping_of(positive)
    check_keys(labels, {*ids}, "run_id")
    return [flag_of(labels[run_id], f"of {run_id!r}") if run_id in labels else None for run_id in ids]


class RuleAlarms(NamedTuple):
    """The alarms of a rule, and which of them are true; an entry for each run."""

    alarms: Alarms
    true: Flags
    false_alarm_peaks: FalseAlarmPeaks | None


@dataclass(frozen=True, slots=True)
class Scores:
    """All rules, and what is known of each run."""

    rules: list[RuleAlarms]
    positive: Flags  # whether the run is positive
    success: Ints | None  # 1, 0 or -1; None where no run has a label and the proxy is not used
    cost: Floats  # in dollars; NaN where it is not known
    peak: Ints  # the most steps at a boundary: a plain cap stops the run if it is no larger
    first: Ints  # the steps of run r are `first[r]` to `first[r + 1]`
    # how many counted steps of its scope come before each step: a plain cap saves the step if it is no larger
    before: Ints
    converged_is_false: bool  # whether an alarm that converged is false
    unit: UnitNoun = "run"  # what is judged


def scores_of(material: Material, rules: Sequence[StopRule], truth: Truth, *, converged_is_false: bool) -> Scores:
    """Each rule on each run; with `converged_is_false`, an alarm that converged is false."""
    ledger, runs = material.ledger, material.runs
    positions = Places(ledger)
    negative = truth.known & ~truth.positive
    scores = []
    for rule, alarms in zip(rules, alarms_of(ledger, runs, rules, positions), strict=True):
        work = alarms.converged if converged_is_false else None
        true = alarms.raised & truth.positive & (True if work is None else ~work)
        maybe = truth.known & truth.positive & converged_is_false
        false_alarm_peaks = false_alarm_peaks_of(ledger, runs, rule, negative, positions, converged=maybe)
        scores.append(RuleAlarms(alarms, true, false_alarm_peaks))
    labelled = truth.proxy or ledger.success_by == LABEL
    counted_before = np.append(0, ledger.counters["steps"][:-1])[: ledger.n_steps]
    return Scores(
        scores,
        truth.positive,
        ledger.success if labelled else None,
        run_costs(ledger),
        ledger.peak("steps"),
        ledger.first,
        np.where(ledger.opens(), 0, counted_before),
        converged_is_false,
        unit_of_material(material),
    )


class GroupScores:
    """The runs of one group, and a row for each rule."""

    def __init__(
        self,
        values: tuple[Any, ...],
        units: pd.DataFrame,
        keys: Sequence[str],
        scores: Scores,
        truth: Truth,
        confidence: float,
    ) -> None:
        self.keys = values
        self.name = group_name(values)
        self.runs = units.index.to_numpy()
        self.truth = truth.of_group(self.runs)
        self.scores = scores
        self.confidence = confidence
        clusters, self.word = clusters_of(units, keys)
        self.bootstrap = ClusterBootstrap(clusters.to_numpy())
        first = scores.first[self.runs]
        self._lengths = scores.first[self.runs + 1] - first
        so_far = np.cumsum(self._lengths)
        steps = np.arange(self._lengths.sum()) + np.repeat(first - so_far + self._lengths, self._lengths)
        self._before = scores.before[steps]
        self._succeeds = np.zeros(len(self.runs), bool) if scores.success is None else scores.success[self.runs] == 1
        self.rows = self._rows()

    def _rows(self) -> list[dict[str, Any]]:
        rules = self.scores.rules
        is_judged = np.stack([~score.alarms.unknown[self.runs] for score in rules], axis=1)
        positive = self.scores.positive[self.runs][:, None] & is_judged
        raised = np.stack([score.alarms.raised[self.runs] for score in rules], axis=1)
        true = np.stack([score.true[self.runs] for score in rules], axis=1)
        saved = np.stack([score.alarms.saved["steps"][self.runs] for score in rules], axis=1)
        steps = self._lengths[:, None] * is_judged
        (*ratios, saved_share), lift = rates_of(
            self.bootstrap, is_judged, positive, raised, true, self.confidence, [(saved, steps)]
        )
        rows = []
        for rule_index, score in enumerate(rules):
            row: dict[str, Any] = {"rule": str(score.alarms.rule)}
            flags = (is_judged, positive, raised, true, raised & ~true, positive & ~true)
            row |= zip(COUNTS, (int(flag[:, rule_index].sum()) for flag in flags), strict=True)
            for name, ratio in zip(RATIOS, ratios, strict=True):
                row |= name_columns(name, ratio, rule_index)
            row |= lift_of(row, *(float(end[rule_index]) for end in lift))
            row |= self._saved_columns(
                score,
                raised[:, rule_index],
                (float(saved_share.low[rule_index]), float(saved_share.high[rule_index])),
                int(steps[:, rule_index].sum()),
            )
            row |= self._lost_columns(raised[:, rule_index], is_judged[:, rule_index], score)
            row |= self._cap(row, is_judged[:, rule_index])
            row |= self._trade(row, is_judged[:, rule_index], score)
            row |= self._clean(score.false_alarm_peaks)
            work = score.alarms.converged
            row["converged"] = None if work is None else int(work[self.runs].sum())
            row["n_unknown"] = int((~is_judged[:, rule_index]).sum())
            if row["n_unknown"] and not row["n_runs"]:
                row |= dict.fromkeys(("alarms", "true_alarms", "false_alarms", "missed", "converged"))
                row |= dict.fromkeys(name for name in row if name.startswith(("saved_", "successes_lost_")))
            rows.append(row | {"unit": self.scores.unit, "positive_is": self.truth.name, "confidence": self.confidence})
        return rows

    def _saved_columns(self, score: RuleAlarms, raised: Flags, share: tuple[float, ...], steps: int) -> dict[str, Any]:
        """Totals over alarms. The interval is that of the share of all steps, times their number."""
        out: dict[str, Any] = {}
        for name in SAVED:
            amounts = score.alarms.saved[name][self.runs][raised]
            known_amounts = amounts[amounts != NOT_REPORTED]
            total = int(known_amounts.sum()) if len(known_amounts) or not len(amounts) else None
            out["saved_cost_usd" if name == "cost" else f"saved_{name}"] = (
                total / MICRO if name == "cost" and total is not None else total
            )
        ends = [end * steps if raised.any() else None for end in share]
        out |= dict(zip(("saved_steps_low", "saved_steps_high"), ends, strict=True))
        out["saved_steps_on_true_alarms"] = int(score.alarms.saved["steps"][self.runs][score.true[self.runs]].sum())
        return out

    def _lost_columns(self, raised: Flags, is_judged: Flags, score: RuleAlarms) -> dict[str, Any]:
        if self.scores.success is None:
            return dict.fromkeys(LOST_COLUMNS)
        stopped = (is_judged, score.alarms.cut_off[self.runs], raised)
        return dict(zip(LOST_COLUMNS, (int((self._succeeds & flags).sum()) for flags in stopped), strict=True))

    def _cap(self, row: Mapping[str, Any], is_judged: Flags) -> dict[str, Any]:
        """The smallest plain cap that keeps as many successes as the rule, and the steps that it saves."""
        if not row["successes"]:
            return dict.fromkeys(CAP)
        runs = self.runs[is_judged]
        peaks = np.sort(self.scores.peak[runs][self._succeeds[is_judged]])
        n_kept = row["successes"] - row["successes_lost_upper"]
        cap = max(1, int(peaks[n_kept - 1]) + 1) if n_kept else 1
        counted_before = self._before if is_judged.all() else self._before[np.repeat(is_judged, self._lengths)]
        return dict(zip(CAP, (cap, int((counted_before >= cap).sum())), strict=True))

    def _trade(self, row: Mapping[str, Any], is_judged: Flags, score: RuleAlarms) -> dict[str, Any]:
        if row["successes"] is None:
            return dict.fromkeys(TRADE)
        cost = self.scores.cost[self.runs[is_judged]]
        saved = score.alarms.saved["cost"][self.runs[is_judged]]
        cost_known = len(cost) > 0 and not np.isnan(cost).any()
        return trade_of(
            steps=int(self._lengths[is_judged].sum()),
            saved_steps=row["saved_steps"],
            successes=row["successes"],
            kept=row["successes"] - row["successes_lost_upper"],
            cost=float(cost.sum()) if cost_known else None,
            saved_cost=float(saved.sum() / MICRO) if cost_known else None,
        )

    def _clean(self, false_alarm_peaks: FalseAlarmPeaks | None) -> dict[str, Any]:
        if (
            false_alarm_peaks is None
            or false_alarm_peaks.unknown[self.runs].any()
            or (false_alarm_peaks.false[self.runs] == NOT_REPORTED).all()
        ):
            return dict.fromkeys(CLEAN)
        false, codes = false_alarm_peaks.false[self.runs], self.bootstrap.codes
        largest = np.full(self.bootstrap.n_clusters, NOT_REPORTED, dtype=np.int64)
        np.maximum.at(largest, codes, false)
        samples = self.bootstrap.largest_values(largest)
        level = expand_tail((1 - self.confidence) / 2, [int((largest != NOT_REPORTED).sum())])
        samples[samples == NOT_REPORTED] = np.nan
        ends = percentiles(samples[:, None], np.stack([level, 1 - level]))[:, 0]
        values = [float(false.max()), *ends.tolist()]
        clean = [None if np.isnan(value) else max(int(value) + 1, false_alarm_peaks.least) for value in values]
        return dict(zip(CLEAN, clean, strict=True))

    def upper_bound(self, false_alarm_peaks: FalseAlarmPeaks) -> float:
        """The upper bound of the share of runs like the negative ones that reach the clean threshold.

        Wilks: the largest of n leaves at most 1 - (1 - confidence)^(1/n) beyond it, and the clean threshold is above.
        Of tasks with several such runs it is the bound of a share of whole tasks, none of which reaches the threshold.
        """
        sizes = np.bincount(self.bootstrap.codes[false_alarm_peaks.false[self.runs] != NOT_REPORTED])
        return 1 - float(kept_bound(np.zeros(len(sizes)), sizes, 1 - self.confidence))


def rates_of(
    bootstrap: ClusterBootstrap,
    is_judged: Flags,
    positive: Flags,
    raised: Flags,
    true: Flags,
    confidence: float,
    extra_shares: Sequence[tuple[npt.ArrayLike, npt.ArrayLike]] = (),
) -> tuple[list[Estimate], tuple[Array, Array]]:
    """The `RATIOS` of many rules over some runs with their intervals, and both ends of the intervals of their lifts.

    `is_judged`: whether each rule is judged on each run; shape (runs, rules), as all others. `extra_shares`: further
    ones: what is counted, and of what.
    """
    parts = [(true, raised), (true, positive), (raised & ~positive, is_judged & ~positive), *extra_shares]
    numerators, denominators = (np.concatenate([part[end] for part in parts], axis=1) for end in (0, 1))
    estimate = bootstrap.share(numerators, denominators, confidence)
    split = zip(*(np.split(field, len(parts)) for field in estimate), strict=True)
    return [Estimate(*columns) for columns in split], bootstrap.quotient(
        (true, raised), (positive, is_judged), confidence
    )


def lift_of(row: Mapping[str, Any], low: float, high: float) -> dict[str, Any]:
    """The share of positives, and the precision over it: the interval is no narrower than that of the precision."""
    base = row["n_positive"] / row["n_runs"] if row["n_runs"] else None
    if not base or math.isnan(row["precision"]):
        return {"base_rate": base} | dict.fromkeys(LIFT)
    value, lowest, highest = (row[name] / base for name in ("precision", "precision_low", "precision_high"))
    ends = (value, float(np.fmin(low, lowest)), float(np.fmax(high, highest)))
    return {"base_rate": base} | dict(zip(LIFT, ends, strict=True))


def name_columns(name: str, estimate: Estimate, column: int) -> dict[str, float]:
    """One of several estimates with its interval, as columns."""
    ends = zip(("", "_low", "_high"), estimate[:3], strict=True)
    return {f"{name}{end}": float(values[column]) for end, values in ends}
