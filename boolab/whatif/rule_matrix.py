"""What each of many rules makes of each of many runs, as arrays: R runs x S rules.

`counterfactual(rules=...)` gives the same as a frame with a row for each run and rule, which is too slow for hundreds
of rules and thousands of runs. Here all thresholds on one counter are found in one pass over the steps (see
`boolab.whatif.first_crossing`), and a rule `a | b` stops where the first of its members does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from boolab.core.types import MICRO
from boolab.errors import SettingError
from boolab.limits.stop import StopRule, Threshold
from boolab.whatif.first_crossing import RANKS, UNDECIDED, Keys, Places, fires_of, first_fires, key_type
from boolab.whatif.grid import GridAxis
from boolab.whatif.outcomes import first_true
from boolab.whatif.question import Question
from boolab.whatif.step_table import Flags, Ints, Ledger, split_for_stops
from boolab.whatif.tables import rows_of

Rule: TypeAlias = StopRule | None
"""A stop rule; None for no limit."""
Floats: TypeAlias = npt.NDArray[np.float64]

MAX_CELLS: Final = 30_000_000
"""How many pairs of a run and a rule there may be: with intervals they take about 70 bytes each, 2 GB in all."""


@dataclass(frozen=True, slots=True)
class RuleMatrix:
    """What rules make of runs, R x S each."""

    kept_lower: Flags  # whether the run is a success, and certainly stays one: the rule does not stop it
    kept_upper: Flags  # whether it is a success and may stay one: no call follows the stop
    unknown: Flags  # whether a counter that the rule needs is unknown, so that where it stops is not known
    saved_steps: npt.NDArray[np.int32]  # the steps of the run after the stop
    saved_cost: Floats  # their cost in dollars; NaN for a run that does not report the cost of all its steps

    def rows(self, indices: Ints) -> RuleMatrix:
        """Some of the runs, by their places."""
        return RuleMatrix(*(getattr(self, name)[indices] for name in self.__slots__))


def rule_matrix(ledger: Ledger, rules: Sequence[Rule]) -> RuleMatrix:
    """What rules make of the runs of a ledger whose own limits are in force (see `Ledger.apply_own_limits`).

    The ledger has the counters of all detectors of the rules. Where subagents are recorded, a stop of one changes what
    its caller gets, so each rule is evaluated over whole families.
    """
    if ledger.n_runs * len(rules) > MAX_CELLS:
        raise SettingError(
            f"{ledger.n_runs:,} runs under {len(rules):,} settings are too many at once: expected at most "
            f"{MAX_CELLS:,} pairs, so {MAX_CELLS // ledger.n_runs:,} settings"
        )
    if ledger.kin() is not None:
        return _family_matrix(ledger, rules)
    positions = Places(ledger)
    boundary, stopped, undecided = stops_of_rules(ledger, positions, rules)
    success = (ledger.success == 1)[:, None]
    last_turn, last_call = positions.last_turn[:, None], positions.last_call[:, None]
    in_last_turn = (boundary > last_turn) | (last_turn == 0)
    certainly_lost = stopped & ~undecided & in_last_turn & (boundary < last_call)
    saved_steps, saved_cost = _saved_amounts(ledger, rules, boundary, stopped)
    return RuleMatrix(success & ~stopped, success & ~certainly_lost, undecided, saved_steps, saved_cost)


def _saved_amounts(
    ledger: Ledger, rules: Sequence[Rule], boundary: Ints, stopped: Flags
) -> tuple[npt.NDArray[np.int32], Floats]:
    """R x S: the steps after the stop, and their cost; where counters start again, of each span limited by itself."""
    spans = split_for_stops(ledger)
    if spans is not ledger:
        boundary, stopped, _ = stops_of_rules(spans, Places(spans), rules)
    end = spans.first[1:, None]
    stop = np.where(stopped, spans.first[:-1, None] + boundary, end)
    total = _running_sum(np.maximum(ledger.used["cost"], 0))
    steps, cost = (end - stop).astype(np.int32), np.asarray((total[end] - total[stop]) / MICRO, dtype=np.float64)
    if spans is not ledger:  # the spans of a run are together, and every run has one at least
        begins = np.searchsorted(ledger.spans()[1], np.arange(ledger.n_runs))
        steps, cost = np.add.reduceat(steps, begins, axis=0), np.add.reduceat(cost, begins, axis=0)
    cost[np.isnan(run_costs(ledger))] = np.nan
    return steps, cost


def run_costs(ledger: Ledger) -> Floats:
    """R: the cost of each run's steps in dollars; NaN where it is not known for all of them."""
    costs = ledger.used["cost"]
    total, gaps = _running_sum(np.maximum(costs, 0)), _running_sum(costs < 0)
    first, last = ledger.first[:-1], ledger.first[1:]
    return np.where(gaps[last] > gaps[first], np.nan, (total[last] - total[first]) / MICRO)


def _running_sum(values: Ints | Flags) -> Ints:
    """The sum of all values before each place, one more than there are values."""
    return np.concatenate(([0], np.cumsum(values, dtype=np.int64)))


def stops_of_rules(ledger: Ledger, positions: Places, rules: Sequence[Rule]) -> tuple[Ints, Flags, Flags]:
    """How many steps are complete at the stop, whether there is one, and whether it is undecided: R x S each."""
    kind = key_type(ledger, RANKS)
    never = np.iinfo(kind).max
    keys: Keys = np.full((ledger.n_runs, len(rules)), never, dtype=kind)
    plain = [_thresholds(rule) for rule in rules]
    first = _first_crossings(ledger, positions, itertools.chain.from_iterable(plain))
    for column, (rule, members) in enumerate(zip(rules, plain, strict=True)):
        for member in members:
            np.minimum(keys[:, column], first[_key(member)], out=keys[:, column])
        if rule is not None and not members:
            boundary, stopped, undecided = first_true(ledger, rule)
            keys[:, column] = np.where(stopped, boundary * RANKS + np.where(undecided, UNDECIDED, 0), never)
    stopped = keys != never
    boundary = np.where(stopped, keys // RANKS, 0).astype(np.int64)
    return boundary, stopped, stopped & (keys % RANKS == UNDECIDED)


def _thresholds(rule: Rule) -> tuple[Threshold, ...]:
    """The members of `a | b | c`, if all are plain thresholds; else none."""
    members = () if rule is None else rule.alternatives
    plain_members = tuple(member for member in members if isinstance(member, Threshold))
    return plain_members if len(plain_members) == len(members) else ()


def _key(rule: Threshold) -> tuple[str, str, int]:
    return rule.counter, rule.on_unknown, rule.threshold


def _first_crossings(
    ledger: Ledger, positions: Places, thresholds: Iterable[Threshold]
) -> dict[tuple[str, str, int], Keys]:
    """R: the key of each run's first crossing of each threshold, by one pass for each counter."""
    by_counter: dict[tuple[str, str], dict[int, Threshold]] = {}
    for threshold in thresholds:
        by_counter.setdefault((threshold.counter, threshold.on_unknown), {})[threshold.threshold] = threshold
    first_keys: dict[tuple[str, str, int], Keys] = {}
    for (counter, on_unknown), by_threshold in by_counter.items():
        ascending = sorted(by_threshold)
        axis = GridAxis(counter, tuple(by_threshold[n] for n in ascending), tuple(ascending))
        table = first_fires(ledger, fires_of(ledger, axis, positions), positions, 0)
        first_keys |= {(counter, on_unknown, n): table[:, column] for column, n in enumerate(ascending)}
    return first_keys


def _family_matrix(ledger: Ledger, rules: Sequence[Rule]) -> RuleMatrix:
    """The same from the rows of `counterfactual`, rule by rule."""
    shape = (ledger.n_runs, len(rules))
    kept_lower, may, unknown = (np.zeros(shape, dtype=bool) for _ in range(3))
    matrix = RuleMatrix(kept_lower, may, unknown, np.zeros(shape, dtype=np.int32), np.zeros(shape))
    for column, rule in enumerate(rules):
        if rule is None:
            matrix.kept_lower[:, column] = matrix.kept_upper[:, column] = ledger.success == 1
            continue
        rows = rows_of(ledger, Question(None, (rule,), "auto", (), "kept"))
        for name in ("kept_lower", "kept_upper", "saved_steps"):
            getattr(matrix, name)[:, column] = rows[name].fillna(0)
        matrix.unknown[:, column] = rows["outcome"] == "unknown"
        matrix.saved_cost[:, column] = rows["saved_cost_usd"].to_numpy(np.float64, na_value=np.nan)
    matrix.saved_cost[np.isnan(run_costs(ledger))] = np.nan
    return matrix
