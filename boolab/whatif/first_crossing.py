"""First crossings: the boundary of a recording at which each threshold of a setting is first reached.

Every rule `counter >= threshold` fires first where the running maximum of its counter first reaches the threshold. So
one pass over the steps gives, for each run and each threshold, the boundary at which it fires. A setting stops where
the first of its rules does, in their order of precedence. No setting is simulated.

The running maximum covers the whole run, even where counters start again in each turn: what stops one turn stays
stopped in the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from boolab.limits.stop import StopRule
from boolab.whatif.grid import GridAxis
from boolab.whatif.policy_limits import AT_RESPONSE as ACTED
from boolab.whatif.step_table import Flags, Ints, Ledger, bound_counter, split_for_stops

Keys = npt.NDArray[np.unsignedinteger[Any]]
RANKS: Final = 16
"""A key is boundary * RANKS + rank: the smaller of two keys is the stop that comes first, or has precedence."""
UNDECIDED: Final = RANKS - 1
"""The rank of a rule that needs an unknown counter: last at its boundary."""
WIDE_RANKS: Final = 2 * RANKS
"""The RANKS of keys where something may happen between a boundary and the next: further ranks follow."""
MESSAGES: Final = RANKS
"""The rank of a message to the model before the next response."""
AT_RESPONSE: Final = RANKS + 1
"""The rank of the first rule that is evaluated at the next response, whose calls are dropped."""
UNDECIDED_AT_RESPONSE: Final = WIDE_RANKS - 2
ACTS: Final = WIDE_RANKS - 1
"""The rank of an action on the calls of the next response."""
_ALL_STEPS: Final = slice(None)
INTERVENED: Final = "intervened"
"""The counter of what a policy would have done that the recording does not hold: see `interventions`."""


class Places:
    """The positions of a ledger's steps: N each, the run, the number in the run from 1, and whether it is the first."""

    def __init__(self, ledger: Ledger) -> None:
        lengths = np.diff(ledger.first)
        self._ledger = ledger
        self.run: Ints = np.repeat(np.arange(ledger.n_runs), lengths)
        self.step: Ints = np.arange(1, ledger.n_steps + 1) - np.repeat(ledger.first[:-1], lengths)
        self.opens: Flags = self.step == 1

    @cached_property
    def last_turn(self) -> Ints:
        """R: how many steps of the run come before its last span; 0 if a stop leaves no turn open."""
        steps_before = np.zeros(self._ledger.n_runs, dtype=np.int64)
        new = np.flatnonzero(self._ledger.span[1:] != self._ledger.span[:-1]) + 1
        new = new[~self.opens[new]]
        steps_before[self.run[new]] = self.step[new] - 1  # steps ascend, so the last one stays
        return steps_before

    @cached_property
    def last_call(self) -> Ints:
        """R: the number of the last step with a call that has a result; 0 if there is none."""
        last = np.zeros(self._ledger.n_runs, dtype=np.int64)
        with_calls = np.flatnonzero(self._ledger.used["tool_calls"] > 0)
        last[self.run[with_calls]] = self.step[with_calls]
        return last


@dataclass(frozen=True, slots=True)
class Fires:
    """How many thresholds of one axis have fired, at each step."""

    axis: GridAxis
    start: int  # how many have fired at boundary 0
    before: Ints  # N: at the boundary before the step, or earlier
    known: Ints  # N: also at the boundary after it, if the counter is known there
    # N: as `known`, and once the counter is unknown at a boundary all that it may have reached there: these cannot be
    # decided
    after: Ints

    def count_fired(self, first: Ints, steps: Ints) -> Ints:
        """For each run, how many have fired at the boundary after so many of its steps."""
        has_steps = steps > 0
        out = np.full(len(steps), self.start, dtype=np.int64)
        out[has_steps] = self.after[first[:-1][has_steps] + steps[has_steps] - 1]
        return out


def fires_of(ledger: Ledger, axis: GridAxis, positions: Places) -> Fires:
    """The fires of one axis in a ledger."""
    counts = ledger.counters[axis.counter]
    start = int(axis.count_reached(np.zeros(1, dtype=np.int64))[0])
    counts_reached = axis.count_reached(counts)
    counts_reached[~ledger.boundary] = 0
    unknown = ledger.boundary & (counts < 0)
    any_unknown = axis.size > 0 and axis.rules[0].on_unknown == "error" and bool(unknown.any())
    after = counts_reached.copy() if any_unknown else counts_reached
    if any_unknown:
        bounds = ledger.counters.get(bound_counter(axis.counter))
        after[unknown] = axis.size if bounds is None else axis.count_reached(bounds[unknown])
    if start:
        after[positions.opens & (after < start)] = start
    # The running maximum of each run: what comes before is lifted below all that follows.
    lift = positions.run * (axis.size + 1)
    after += lift
    np.maximum.accumulate(after, out=after)
    after -= lift
    count_before = np.empty_like(after)
    count_before[1:] = after[:-1]
    count_before[positions.opens] = start
    return Fires(axis, start, count_before, np.maximum(count_before, counts_reached) if any_unknown else after, after)


def truth_of(ledger: Ledger, rule: StopRule, steps: slice | Ints = _ALL_STEPS) -> Any:  # noqa: ANN401 - a nullable column
    """Whether a rule is true after steps, as a nullable boolean column: unknown where an unknown counter decides.

    Rules have no opposite, so one that is false where each unknown counter has its largest value is false.
    """
    names = {leaf.counter for leaf in rule.leaves()}
    counts = {name: ledger.counters[name][steps] for name in names}
    true = rule({name: pd.arrays.IntegerArray(np.maximum(values, 0), values < 0) for name, values in counts.items()})
    unknown = np.asarray(true.isna(), dtype=bool)
    if unknown.any():
        bounds = {name: ledger.counters.get(bound_counter(name), ledger.counters[name])[steps] for name in names}
        at_most = rule(
            {name: pd.arrays.IntegerArray(np.maximum(values, 0), values < 0) for name, values in bounds.items()}
        )
        true[unknown & ~np.asarray(at_most.fillna(value=True), dtype=bool)] = False
    return true


def first_fires(
    ledger: Ledger, fires: Fires, positions: Places, rank: int, *, ranks: int = RANKS, at_response: bool = False
) -> Keys:
    """The key of each run's first fire on each value of an axis: R x values, off last; the largest number for never.

    Args:
        ledger: The recordings; for rules that are evaluated at the response, as they stand there.
        fires: The fires of the axis.
        positions: The positions of the steps.
        rank: The axis' place in the order of precedence.
        ranks: The number of ranks from a boundary to the next.
        at_response: Whether the rules are evaluated at the response: what fires at step s stops at boundary s - 1.
    """
    kind = key_type(ledger, ranks)
    size = fires.axis.size
    table = np.full((ledger.n_runs, size + 1), np.iinfo(kind).max, dtype=kind)
    undecided, shift = (UNDECIDED_AT_RESPONSE, 1) if at_response else (UNDECIDED, 0)
    for fired_counts, earlier, of_rank in ((fires.after, fires.known, undecided), (fires.known, fires.before, rank)):
        events = np.flatnonzero(fired_counts > earlier)
        fresh = (fired_counts - earlier)[events]
        rows = np.repeat(positions.run[events], fresh)
        offsets = np.arange(fresh.sum()) - np.repeat(np.cumsum(fresh) - fresh, fresh)
        columns = np.repeat(earlier[events], fresh) + offsets
        table[rows, columns] = np.repeat((positions.step[events] - shift) * ranks + of_rank, fresh)
    if not at_response:
        table[:, : fires.start] = rank
    return table[:, : len(fires.axis.values)]


def first_interventions(ledger: Ledger, intervened: Ints, positions: Places) -> Keys:
    """The key of the first intervention in each run that the recording does not hold: R x 1."""
    kind = key_type(ledger, WIDE_RANKS)
    keys = np.full(ledger.n_runs, np.iinfo(kind).max, dtype=kind)
    events = np.flatnonzero(intervened)
    acts = intervened[events] == ACTED
    of_event = (positions.step[events] - acts) * WIDE_RANKS + np.where(acts, ACTS, MESSAGES)
    np.minimum.at(keys, positions.run[events], of_event.astype(kind))
    return keys[:, None]


def key_type(ledger: Ledger, ranks: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that holds the keys of a ledger."""
    longest = int(np.diff(ledger.first).max(initial=0))
    return np.uint16 if (longest + 2) * ranks <= np.iinfo(np.uint16).max else np.uint32


def keys_of(tables: Sequence[Keys], out: Keys | None = None) -> Keys:
    """The key of each run's stop under each setting: the minimum over the axes.

    Args:
        tables: R x values each.
        out: An array for the result: R x values of the first x values of the second x ...
    """
    keys = tables[0]
    for number, table in enumerate(tables[1:], 2):
        wide = table.reshape(len(table), *(1,) * (number - 1), table.shape[1])
        keys = np.minimum(keys[..., None], wide, out=out if number == len(tables) else None)
    return keys


@dataclass(frozen=True, slots=True)
class Stops:
    """Where settings stop runs, a row for each run and setting."""

    run: Ints  # the run of the row
    at: Ints  # how many steps of the run are complete at the stop; 0 where there is none
    dropped: Flags  # whether the stop came at the next response: it has been paid for, and its calls count nowhere
    stopped: Flags  # whether there is a stop; else the recording is played to its end
    undecided: Flags  # whether the stop depends on an unknown counter
    ahead: Flags  # whether the policy changes the request from there on
    open: Flags  # whether the turn continues nevertheless, and may make the calls that the recording makes later
    reason: Any  # the stop reason; None where there is no stop, or the policy has only added a message
    also_fired: Any  # the reasons of the other rules that are true there
    begun: Flags  # whether the run begins at all: a subagent does not, where its parent is stopped before


# --- Caps that the loop lets grow -------------------------------------------------------------------------------------
#
# A cap of n that grows by m stops a run at n only where its condition is true there, and otherwise at n + m. If the
# model gets no message, the run continues as it was recorded. If it gets one, nothing is identified from that boundary
# on. While a cap may grow it stops nothing, as in `boolab.runtime.engine.decide`: so these stops do not depend on other
# limits.

_TRUE: Final = 1
_UNKNOWN: Final = -1


def extended_fires(ledger: Ledger, axis: GridAxis, rank: int, ranks: int) -> Keys:
    """The key of each run's stop, or of its message, on each value of an axis whose caps grow; as `first_fires`.

    Each cap of the axis is a chain of levels, such as 10, 20, 30. All levels of all caps are found in one pass, as if
    they were values of an axis of their own; then each chain is walked from its first level up, for all spans at once.
    The cost is spans x caps x levels. A cap of 1 that grows by 1 without an end has as many levels as the longest run
    has steps, so a fine grid of such caps is quadratic in that: slow, but no preset grows so.
    """
    extension = axis.extension
    if extension is None:
        raise ValueError(f"the axis {axis.name} has no extension")
    spans_ledger, (_, owner) = split_for_stops(ledger), ledger.spans()
    top = int(spans_ledger.counters[axis.counter].max(initial=0))
    chains = [extension.levels(rule.threshold, top) for rule in axis.rules]
    levels = sorted(set(chain.from_iterable(chains)))
    plain = replace(
        axis,
        rules=tuple(replace(axis.rules[0], threshold=level) for level in levels),
        values=tuple(levels),
        extension=None,
    )
    positions = Places(spans_ledger)
    table = first_fires(spans_ledger, fires_of(spans_ledger, plain, positions), positions, 0, ranks=ranks)
    is_reached = table != np.iinfo(table.dtype).max
    boundary = np.where(is_reached, table // ranks, 0).astype(np.int64)
    never = np.iinfo(np.int64).max
    keys = np.full((len(owner), len(axis.values)), never)
    truth = _Never() if extension.unless is None else _Truth(spans_ledger, extension.unless)
    for column, chain_levels in enumerate(chains):
        undecided = np.ones(len(owner), dtype=bool)  # spans that no level has stopped yet
        columns = [levels.index(level) for level in chain_levels]
        for smaller, larger in pairwise(columns):
            steps = boundary[:, smaller]
            at_cap = undecided & is_reached[:, smaller]
            # One step may pass several levels at once, such as a batch of calls: then the larger one stops it too.
            passes_both = at_cap & is_reached[:, larger] & (boundary[:, larger] == steps)
            condition = truth(steps)
            stops = passes_both | (at_cap & (condition == _TRUE))
            unknown = at_cap & ~passes_both & (condition == _UNKNOWN)
            announced = at_cap & ~stops & ~unknown & extension.message
            for which_spans, key_rank in ((stops, rank), (unknown, UNDECIDED), (announced, MESSAGES)):
                keys[which_spans, column] = steps[which_spans] * ranks + key_rank
                undecided &= ~which_spans
        stopped = undecided & is_reached[:, columns[-1]]
        keys[stopped, column] = boundary[stopped, columns[-1]] * ranks + rank
    return _first_of_runs(ledger, keys, ranks).astype(key_type(ledger, ranks))


def _first_of_runs(ledger: Ledger, keys: Ints, ranks: int) -> Ints:
    """The first of the keys of each run's spans, counted from the beginning of the run."""
    first, owner = ledger.spans()
    never = np.iinfo(np.int64).max
    keys_before = (first[:-1] - ledger.first[owner])[:, None] * ranks
    of_runs = np.full((ledger.n_runs, keys.shape[1]), never)
    np.minimum.at(of_runs, owner, np.where(keys == never, never, keys + np.where(keys == never, 0, keys_before)))
    return np.where(of_runs == never, np.iinfo(key_type(ledger, ranks)).max, of_runs)


class _Truth:
    """Whether a rule is true (1), false (0) or unknown (-1) after so many steps of each run of a ledger."""

    def __init__(self, ledger: Ledger, rule: StopRule) -> None:
        true = truth_of(ledger, rule)
        self._after = np.where(
            np.asarray(true.isna(), dtype=bool), _UNKNOWN, np.asarray(true.fillna(value=False), dtype=np.int64)
        )
        self._start = int(rule({leaf.counter: 0 for leaf in rule.leaves()}) is True)
        self._first = ledger.first

    def __call__(self, steps: Ints) -> Ints:
        """The truth after so many steps of each run."""
        after = np.full(len(steps), self._start, dtype=np.int64)
        has_steps: Flags = steps > 0
        after[has_steps] = self._after[self._first[:-1][has_steps] + steps[has_steps] - 1]
        return after


class _Never:
    """The truth of a rule that is never true."""

    def __call__(self, steps: Ints) -> Ints:
        """Zeros."""
        return np.zeros(len(steps), dtype=np.int64)
