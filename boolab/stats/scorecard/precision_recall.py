"""Precision against recall: what a detector finds at each of its thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from boolab.core.types import Scope
from boolab.errors import SettingError
from boolab.frames.data_set import attach_set
from boolab.frames.dtypes import FLOAT, INT, TEXT
from boolab.io.checks import check_whole
from boolab.limits.stop import StopRule, Threshold
from boolab.limits.table import LIMITS
from boolab.stats.finding import frame_of, pairs
from boolab.stats.intervals import ClusterBootstrap, check_confidence, interval_columns
from boolab.stats.scorecard.alarms import count_saved
from boolab.stats.scorecard.metrics import (
    COUNTS,
    LIFT,
    RATIOS,
    Positive,
    decide_material,
    lift_of,
    material_of,
    name_columns,
    rates_of,
    truth_of,
    unit_of_material,
    units_in,
)
from boolab.stats.units import clusters_of, keys_of, split_groups
from boolab.whatif.first_crossing import Places
from boolab.whatif.grid import settings_of
from boolab.whatif.question import listed_rules
from boolab.whatif.recordings import Recorded
from boolab.whatif.rule_matrix import MAX_CELLS, stops_of_rules
from boolab.whatif.step_table import LABEL, Flags, Ints, Ledger, check_scope

Swept: TypeAlias = "StopRule | Iterable[StopRule] | Mapping[Any, Sequence[float]]"
"""Rules whose thresholds are varied, or the thresholds by the name of an axis or by rule."""

_SHARES: Final = ("saved_share", "kept_share")
_COLUMNS: Final[Mapping[str, str]] = {
    "detector": TEXT,
    "threshold": FLOAT,
    "rule": TEXT,
    **dict.fromkeys(COUNTS, INT),
    **dict.fromkeys(interval_columns(*RATIOS), FLOAT),
    **dict.fromkeys(("base_rate", *LIFT), FLOAT),
    **dict.fromkeys(("saved_steps", "successes", "kept_lower"), INT),
    **dict.fromkeys(interval_columns(*_SHARES), FLOAT),
    "n_unknown": INT,
    **dict.fromkeys(("unit", "positive_is"), TEXT),
    "confidence": FLOAT,
}
_UNITS: Final = {limit.counter: limit.per_unit for limit in LIMITS.values()}
"""How many units of a counter make one of a threshold as users give it."""


def precision_recall_df(
    runs: Recorded,
    rules: Swept,
    *,
    positive: Positive | None = None,
    by: str | Sequence[str] | None = None,
    scope: Scope = "auto",
    points: int = 30,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """What detectors find, save and lose at each of their thresholds.

    A rule is a detector with one threshold, and one row of `scorecard`. Here all thresholds are varied, in one pass
    over the steps for each counter, so that detectors can be compared at the same recall, or with the same successes
    kept.

    Args:
        runs: A run, or runs; or a table with a row for each step, or the path of one, or of a store: see `scorecard`.
        rules: Rules of one threshold each, such as `[bl.doom_loop(3), bl.max_steps(20)]`: each is evaluated at its own
            threshold, and at the values that its counter reaches in these runs. Or the thresholds of each, by rule or
            by the name of an axis of `counterfactual`: `{"doom_loop": [2, 3, 5], bl.error_streak(3): range(1, 9)}`.
        positive: What is to be found: see `scorecard`.
        by: A column of the runs, or several, to separate groups.
        scope: Where counters start anew: see `counterfactual`.
        points: About how many thresholds a detector gets at most, if they are not given: they are quantiles of the
            largest values in the runs.
        confidence: Of the two-sided intervals.

    Returns:
        A frame with a row for each group, detector and threshold, ascending; NA where something is undefined:

        - the columns of `by`; `detector`, the name of the counter or of the axis; `threshold`, in dollars for a cost
          and in seconds for a time; `rule`, the rule that was given, or that of the axis.
        - `n_runs`, `n_positive`, `alarms`, `true_alarms`, `false_alarms`, `missed`; `precision`, `recall`,
          `false_alarm_rate`, `base_rate` and `lift`, as in `scorecard`, with intervals that resample tasks: `_low` and
          `_high`.
        - `saved_steps`, and `saved_share` of the steps of all these runs; `successes`, how many of them the rule
          certainly keeps (`kept_lower`), and `kept_share`; NA without labels where `positive` is given.
        - `n_unknown`: runs that are left out because the counter is unknown. `unit` ("run"), `positive_is`,
          `confidence`.

    Raises:
        SettingError: if a rule is not one of a single threshold, a threshold is not accepted, or an argument is not
            one of those above.

    Example:
        >>> import boolab as bl
        >>> from dataclasses import replace
        >>> look = {"tool_calls": [{"name": "ls"}]}
        >>> stuck = bl.run_sync(None, "Look", model=bl.ScriptedModel([{**look, "repeat": 5}]), stop=bl.max_steps(5))
        >>> fine = bl.run_sync(None, "Look", model=bl.ScriptedModel([{**look, "repeat": 2}, "Done."]))
        >>> found = bl.stats.precision_recall_df(
        ...     [replace(stuck, success=False), replace(fine, success=True)], {"doom_loop": [2, 3]})
        >>> found[["threshold", "alarms", "precision", "recall", "lift"]].values.tolist()
        [[2.0, 2, 0.5, 1.0, 1.0], [3.0, 1, 1.0, 1.0, 2.0]]
    """
    check_confidence(confidence)
    check_scope(scope)
    check_whole(points, "points", 1)
    keys = keys_of(by, _COLUMNS)
    sweeps = _sweeps(rules)
    material = material_of(runs, [sweep.rule for sweep in sweeps], scope=scope, keys=keys, positive=positive)
    all_units = units_in(material, keys)
    material = decide_material(material, all_units, keys, positive)
    truth, ledger = truth_of(material, positive), material.ledger
    positions = Places(ledger)
    sweeps = [
        sweep
        if sweep.thresholds
        else sweep._replace(thresholds=_reached_values(ledger, sweep.rule, positions, truth.known, points))
        for sweep in sweeps
    ]
    each_threshold = pairs(sweeps, lambda sweep: sweep.thresholds)
    settings = [(sweep, replace(sweep.rule, threshold=n)) for sweep, n in each_threshold]
    if ledger.n_runs * len(settings) > MAX_CELLS:
        msg = f"{ledger.n_runs:,} runs at {len(settings):,} thresholds are too many at once: expected at most "
        raise SettingError(f"{msg}{MAX_CELLS:,} pairs; use a smaller points=, or fewer rules")
    threshold_rules = [rule for _, rule in settings]
    boundary, stopped, unknown = stops_of_rules(ledger, positions, threshold_rules)
    saved = count_saved(ledger, threshold_rules, boundary, stopped, ["steps"])["steps"]
    labelled = truth.proxy or ledger.success_by == LABEL
    judged_units = all_units[truth.known]
    groups, rows = [], []
    for values, units in split_groups(judged_units, keys):
        run_rows = units.index.to_numpy()
        group_stops = _Stops(
            stopped[run_rows] & ~unknown[run_rows], unknown[run_rows], saved[run_rows], np.diff(ledger.first)[run_rows]
        )
        success = ledger.success[run_rows] == 1 if labelled else None
        clusters, _ = clusters_of(units, keys)
        bootstrap = ClusterBootstrap(clusters.to_numpy())
        for (sweep, rule), row in zip(
            settings, _rows(bootstrap, group_stops, truth.positive[run_rows], success, confidence), strict=True
        ):
            threshold = rule.threshold / _UNITS.get(rule.counter, 1)
            head = {"detector": sweep.name, "threshold": threshold, "rule": str(sweep.rule)}
            name = truth.of_group(run_rows).name
            rows.append(
                head | row | {"unit": unit_of_material(material), "positive_is": name, "confidence": confidence}
            )
            groups.append(values)
    return attach_set(frame_of(keys, groups, _COLUMNS, rows), runs)


class _Sweep(NamedTuple):
    """A rule, and the thresholds at which it is evaluated, in the units of its counter; none to take those reached."""

    name: str
    rule: Threshold
    thresholds: Sequence[int] = ()


class _Stops(NamedTuple):
    """Of some runs and all rules: alarms, where they are not known, the steps saved; and the steps of each run."""

    raised: Flags
    unknown: Flags
    saved: Ints
    steps: Ints


def _sweeps(rules: Swept) -> list[_Sweep]:
    """The rules, each once, with the thresholds that are given."""
    if isinstance(rules, Mapping):
        sweeps = [_make_sweep(key, thresholds) for key, thresholds in rules.items()]
    else:
        sweeps = [_Sweep(rule.counter, rule) for rule in map(_check_threshold, listed_rules(rules))]
    if not sweeps:
        raise SettingError(f"rules={rules!r}: expected rules such as [bl.doom_loop(3)], or {{'doom_loop': [2, 3, 5]}}")
    return [*{(sweep.name, sweep.rule.counter, sweep.rule.on_unknown): sweep for sweep in sweeps}.values()]


def _make_sweep(key: str | StopRule, thresholds: Sequence[float]) -> _Sweep:
    values = sorted({*thresholds})
    if not values:
        raise SettingError(f"rules: {key}: expected thresholds such as [2, 3, 5]")
    if isinstance(key, str):
        (axis,) = settings_of({key: values}).axes
        return _Sweep(key, axis.rules[0], [rule.threshold for rule in axis.rules])
    rule = _check_threshold(key)
    least_threshold = 0 if rule.detector is None else rule.detector.least
    scale = _UNITS.get(rule.counter, 1)
    whole_values = [
        check_whole(n, f"rules: {rule}", least_threshold) if scale == 1 else round(n * scale) for n in values
    ]
    return _Sweep(rule.counter, rule, whole_values)


def _check_threshold(rule: object) -> Threshold:
    if not isinstance(rule, Threshold):
        raise SettingError(f"rules: {rule} has several thresholds: expected rules of one, such as bl.doom_loop(3)")
    return rule


def _reached_values(ledger: Ledger, rule: Threshold, positions: Places, is_known: Flags, points: int) -> list[int]:
    """The rule's own threshold, and the largest values of its counter in the runs, or quantiles of them."""
    boundary_steps = np.flatnonzero(ledger.boundary)
    peak = np.zeros(ledger.n_runs, dtype=np.int64)
    np.maximum.at(peak, positions.run[boundary_steps], ledger.counters[rule.counter][boundary_steps])
    peak = np.sort(peak[is_known])
    peak = peak[peak >= max(1, 0 if rule.detector is None else rule.detector.least)]
    values = np.unique(peak)
    if len(values) > points:
        values = np.unique(peak[np.linspace(0, len(peak) - 1, points).round().astype(int)])
    return sorted({*values.tolist(), rule.threshold})


def _rows(
    bootstrap: ClusterBootstrap, stops: _Stops, positive_runs: Flags, success: Flags | None, confidence: float
) -> Iterable[dict[str, Any]]:
    """A row for each rule."""
    is_judged, raised = ~stops.unknown, stops.raised
    positive = is_judged & positive_runs[:, None]
    true = raised & positive
    is_success = is_judged & (np.zeros(len(is_judged), dtype=bool) if success is None else success)[:, None]
    saved = np.where(raised, stops.saved, 0)
    extra_shares = [(saved, is_judged * stops.steps[:, None]), (is_success & ~raised, is_success)]
    (*ratios, saved_share, kept_share), lift = rates_of(
        bootstrap, is_judged, positive, raised, true, confidence, extra_shares
    )
    flags = (is_judged, positive, raised, true, raised & ~true, positive & ~true)
    counts = [flag.sum(axis=0) for flag in (*flags, saved, is_success, is_success & ~raised)]
    for rule_index in range(is_judged.shape[1]):
        *run_counts, saved_steps, successes, n_kept = (int(count[rule_index]) for count in counts)
        row: dict[str, Any] = dict(zip(COUNTS, run_counts, strict=True))
        for name, ratio in zip(RATIOS, ratios, strict=True):
            row |= name_columns(name, ratio, rule_index)
        row |= lift_of(row, *(float(end[rule_index]) for end in lift))
        row |= {"saved_steps": saved_steps, **name_columns("saved_share", saved_share, rule_index)}
        labels = {"successes": successes, "kept_lower": n_kept}
        row |= labels if success is not None else dict.fromkeys(labels)
        yield (
            row
            | name_columns("kept_share", kept_share, rule_index)
            | {"n_unknown": int((~is_judged[:, rule_index]).sum())}
        )
