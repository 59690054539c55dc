"""Aggregates: sums over runs for every setting of a grid at once, without a row per run.

A setting pays for step s if and only if none of its rules has fired at the boundary before it: if on every axis the
setting's place is at least as high as the number of thresholds that have fired. So every sum over steps is a histogram
over these numbers, cumulated once along each axis. The number of runs that stop for a reason is the difference of two
such sums: those alive before the reason is evaluated, minus those alive after it.

All weights are integers, and float64 adds integers exactly up to 2**53; so aggregates of any partition of the runs add
up exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from math import prod
from typing import Final, TypeAlias, get_args

import numpy as np

from boolab.core.types import StopReason
from boolab.limits.table import MEASURES
from boolab.whatif.first_crossing import Fires, Places, fires_of
from boolab.whatif.grid import GridAxis, Settings
from boolab.whatif.step_table import Flags, Ints, Ledger, split_for_stops

Sums: TypeAlias = dict[str, Ints]
"""Sums by name, an array each: groups x values of the first axis x values of the second x ..."""

BLOCK: Final = 1 << 18
"""Steps that are worked on at a time: few enough for the columns to stay in the processor's cache."""
SPENT_MEASURES: Final = tuple(MEASURES)


def aggregate_of(
    ledger: Ledger,
    settings: Settings,
    *,
    groups: Ints | None = None,
    n_groups: int = 1,
    measures: Iterable[str] | None = None,
) -> Sums:
    """The sums of all settings over runs, each of shape groups x values of each axis, of `measures` alone if given."""
    total: Sums = {}
    start = 0
    for part in ledger.parts(BLOCK):
        part_groups = None if groups is None or n_groups == 1 else groups[start : start + part.n_runs]
        start += part.n_runs
        work = _LedgerPart(part, settings, part_groups, n_groups)
        for name, sums in (work.sum_all() if measures is None else work.sum_spent(measures)).items():
            total[name] = np.add(total[name], sums, out=total[name]) if name in total else sums
    return total


def sum_spent_along(
    ledger: Ledger, axes: Sequence[GridAxis], places: Sequence[Ints], measure: str, *, groups: Ints, n_groups: int
) -> Ints:
    """What is spent under settings of which none is looser than the one before on any axis: groups x settings.

    `places` are those of each axis, one for each setting: the number of thresholds that are tighter. A step is paid for
    under all settings up to the first one that has fired, so all of them take one histogram.
    """
    total = np.zeros((n_groups, len(places[0])), dtype=np.int64)
    start = 0
    for part in ledger.parts(BLOCK):
        part_groups = groups[start : start + part.n_runs]
        start += part.n_runs
        total += _LedgerPart(part, Settings(tuple(axes), ()), part_groups, n_groups).sum_spent_along(places, measure)
    return total


class _LedgerPart:
    """One part of a ledger under one grid."""

    def __init__(self, ledger: Ledger, settings: Settings, groups: Ints | None, n_groups: int) -> None:
        self._ledger = ledger
        self._settings = settings
        self._places = Places(ledger)
        self._fires: list[Fires] = [fires_of(ledger, axis, self._places) for axis in settings.axes]
        self._shape = (n_groups, *settings.shape)
        self._groups = groups

    def _place(self, group: Ints | None, fired: Sequence[Ints]) -> Ints:
        """One number for each combination of a group and the numbers of thresholds that have fired."""
        cell = group
        for size, count in zip(self._shape[1:], fired, strict=True):
            cell = count if cell is None else cell * size + count
        return np.zeros(0, dtype=np.int64) if cell is None else cell

    def _sum_alive(self, weights: Iterable[tuple[Ints, Ints | None, int]]) -> Ints:
        """The sum of all weights at places where the setting is alive. Each item: places, weights, sign."""
        total = np.zeros(prod(self._shape))
        for cells, weight, sign in weights:
            total += sign * np.bincount(cells, weight, minlength=len(total))
        shaped = total.reshape(self._shape)
        for axis in range(1, shaped.ndim):
            np.cumsum(shaped, axis=axis, out=shaped)
        return np.rint(shaped).astype(np.int64)

    def sum_all(self) -> Sums:
        """Every sum."""
        ledger = self._ledger
        runs = np.ones(ledger.n_runs, dtype=np.int64)
        n_runs = self._constant_sum(runs)
        end = self._count_fired(np.diff(ledger.first))
        unchanged = self._alive_runs(end, ledger.ended.astype(np.int64))
        by_itself = self._alive_runs(end, (ledger.ended & ledger.terminated).astype(np.int64))
        censored = self._alive_runs(end, (~ledger.ended).astype(np.int64))
        reasons, open_ended, unknown = self._stops()
        finished = by_itself + reasons.pop("finished", 0)
        for reason in get_args(StopReason):  # what its own limits, which stay in force, stopped
            cut_by_reason = ledger.ended & ~ledger.terminated & (ledger.reason == reason)
            if cut_by_reason.any():
                reasons[reason] = reasons.get(reason, 0) + self._alive_runs(end, cut_by_reason.astype(np.int64))
        stopped = n_runs - unchanged - censored - unknown
        sums = {
            "n_runs": n_runs,
            "n_unchanged": unchanged,
            "n_truncated": stopped - open_ended,
            "n_not_identified": open_ended,
            "n_censored": censored,
            "n_unknown": unknown,
            "n_finished": finished,
            **{f"n_{reason}": count for reason, count in reasons.items()},
            **{
                f"n_unknown_{name}": self._constant_sum((~self._reports(name)).astype(np.int64))
                for name in ("tokens", "cost")
            },
        }
        amounts = self.sum_spent(SPENT_MEASURES)
        return sums | self._count_kept(end) | amounts | self._sum_saved(amounts)

    def sum_spent(self, names: Iterable[str]) -> Sums:
        """What the steps have used that a setting pays for, where each span is limited by itself."""
        return {name: self._sum_alive([(self._paid_places, self._weights(name), 1)]) for name in names}

    def sum_spent_along(self, places: Sequence[Ints], measure: str) -> Ints:
        """See the function `sum_spent_along`."""
        n = len(places[0])
        alive = np.full(self._ledger.n_steps, n, dtype=np.int64)
        for axis_places, fired in zip(places, self._fired_before, strict=True):
            n_alive = np.searchsorted(-axis_places, -np.arange(int(axis_places.max(initial=0)) + 2), side="right")
            np.minimum(alive, n_alive.take(fired, mode="clip"), out=alive)
        cells = self._run_groups()[self._places.run] * (n + 1) + alive
        paid = np.bincount(cells, self._weights(measure), minlength=self._shape[0] * (n + 1))
        by_level = np.rint(paid).astype(np.int64).reshape(-1, n + 1)
        return np.cumsum(by_level[:, :0:-1], axis=1)[:, ::-1]

    @cached_property
    def _fired_before(self) -> list[Ints]:
        """N each: how many thresholds of each axis have fired in the span of each step before it."""
        spans = split_for_stops(self._ledger)
        if spans is self._ledger:
            return [fires.before for fires in self._fires]
        positions = Places(spans)
        return [fires_of(spans, axis, positions).before for axis in self._settings.axes]

    @cached_property
    def _paid_places(self) -> Ints:
        """N: the place of each step, by what has fired in its span before it."""
        return self._steps(self._fired_before)

    def _sum_saved(self, amounts: Sums) -> Sums:
        """What is on record and not spent; and how many steps of runs with unknown use are saved."""
        saved = {f"saved_{name}": self._sum_recorded(self._weights(name)) - amounts[name] for name in SPENT_MEASURES}
        for name in ("tokens", "cost"):
            unreported = (~self._reports(name))[self._places.run].astype(np.int64)
            unreported_spent = self._sum_alive([(self._paid_places, unreported, 1)])
            saved[f"unreported_{name}"] = self._sum_recorded(unreported) - unreported_spent
        return saved

    def _sum_recorded(self, weights: Ints | None) -> Ints:
        """The sum over all recorded steps, the same for all settings."""
        total = np.concatenate(
            ([0], np.cumsum(np.ones(self._ledger.n_steps, np.int64) if weights is None else weights))
        )
        return self._constant_sum(total[self._ledger.first[1:]] - total[self._ledger.first[:-1]])

    def _stops(self) -> tuple[Sums, Ints, Ints]:
        """How many runs stop for each reason; of them, how many are open-ended; and how many stops are undecided."""
        positions, fires = self._places, self._fires
        reasons: Sums = {}
        open_ended = self._constant_sum(np.zeros(self._ledger.n_runs, dtype=np.int64))
        in_last_turn = positions.step > positions.last_turn[positions.run]
        for n, axis_fires in enumerate(fires):
            events = np.flatnonzero(axis_fires.known > axis_fires.before)
            higher, lower = fires[:n], fires[n + 1 :]
            around = [f.known[events] for f in higher], [f.before[events] for f in lower]
            alive = self._steps([*around[0], axis_fires.before[events], *around[1]], events)
            cells_left = self._steps([*around[0], axis_fires.known[events], *around[1]], events)
            start = self._start(n, np.ones(self._ledger.n_runs, dtype=np.int64))
            stopped = self._sum_alive([(alive, None, 1), (cells_left, None, -1)])
            reason = axis_fires.axis.reason
            reasons[reason] = reasons.get(reason, 0) + stopped + start
            if axis_fires.axis.ahead:
                open_ended += stopped + start
                continue
            later = ~in_last_turn[events]
            open_ended += self._sum_alive([(alive[later], None, 1), (cells_left[later], None, -1)])
            if axis_fires.axis.is_text_only:
                reasons[reason] -= start
                reasons["finished"] = start
                open_ended += start
            elif axis_fires.start:
                open_ended += self._start(n, (positions.last_turn > 0).astype(np.int64))
        return reasons, open_ended, self._count_undecided(np.ones(len(positions.run), dtype=bool))

    def _start(self, n: int, weights: Ints) -> Ints:
        """How many runs, by their weights, the axis stops at boundary 0."""
        runs = len(weights)
        counts_before = [
            np.full(runs, fires.start if i < n else 0, dtype=np.int64) for i, fires in enumerate(self._fires)
        ]
        counts_after = [
            np.full(runs, fires.start if i <= n else 0, dtype=np.int64) for i, fires in enumerate(self._fires)
        ]
        alive, cells_left = (self._place(self._run_groups(), fired) for fired in (counts_before, counts_after))
        return self._sum_alive([(alive, weights, 1), (cells_left, weights, -1)])

    def _count_undecided(self, candidates: Flags) -> Ints:
        """How many stops depend on an unknown counter, at the boundaries after some of the steps."""
        unsure = np.zeros(len(candidates), dtype=bool)
        for fires in self._fires:
            if fires.after is not fires.known:
                unsure |= fires.after > fires.known
        events = np.flatnonzero(unsure & candidates)
        alive = self._steps([fires.known[events] for fires in self._fires], events)
        cells_left = self._steps([fires.after[events] for fires in self._fires], events)
        return self._sum_alive([(alive, None, 1), (cells_left, None, -1)])

    def _count_kept(self, end: Sequence[Ints]) -> Sums:
        """How many successes there are, and how many of them a setting keeps: at least, and at most."""
        ledger, positions = self._ledger, self._places
        success = ledger.success == 1
        complete_success = (success & ledger.ended).astype(np.int64)
        censored_success = (success & ~ledger.ended).astype(np.int64)
        # A stop in the last turn before the last call loses the success for certain: that call is never made.
        certainly_lost = success & (positions.last_call - 1 >= np.maximum(positions.last_turn, 0))
        certainly_lost &= (positions.last_call - 1 > positions.last_turn) | (positions.last_turn == 0)
        from_turn = [np.where(positions.last_turn > 0, counts, 0) for counts in self._count_fired(positions.last_turn)]
        until_call = self._count_fired(np.maximum(positions.last_call - 1, 0))
        weights = certainly_lost.astype(np.int64)
        groups = self._run_groups()
        killed = self._sum_alive(
            [(self._place(groups, from_turn), weights, 1), (self._place(groups, until_call), weights, -1)]
        )
        if any(fires.after is not fires.known for fires in self._fires):
            run = positions.run
            killed -= self._count_undecided(
                certainly_lost[run]
                & (positions.step > positions.last_turn[run])
                & (positions.step < positions.last_call[run])
            )
        censored = self._alive_runs(end, censored_success)
        successes = self._constant_sum(success.astype(np.int64))
        return {
            "successes": successes,
            "successes_censored": censored,
            "kept_lower": self._alive_runs(end, complete_success),
            "kept_upper": successes - killed - censored,
        }

    def _reports(self, name: str) -> Flags:
        """Which runs report their use for all of their steps."""
        gaps = self._places.run[self._ledger.used[name] < 0]
        reports = np.ones(self._ledger.n_runs, dtype=bool)
        reports[gaps] = False
        return reports

    def _weights(self, name: str) -> Ints | None:
        """What each step used; 0 for runs that do not report all of it. None for a weight of 1."""
        if name == "steps":
            return None
        amounts = self._ledger.used[name]
        if name == "tool_calls":
            return amounts
        reports = self._reports(name)
        return amounts if bool(reports.all()) else np.where(reports[self._places.run], amounts, 0)

    def _count_fired(self, steps: Ints) -> list[Ints]:
        """For each run and axis, how many thresholds have fired at the boundary after so many steps."""
        return [fires.count_fired(self._ledger.first, steps) for fires in self._fires]

    def _alive_runs(self, fired: Sequence[Ints], weights: Ints) -> Ints:
        return self._sum_alive([(self._place(self._run_groups(), fired), weights, 1)])

    def _constant_sum(self, weights: Ints) -> Ints:
        """A sum that is the same for all settings."""
        return self._alive_runs([np.zeros(len(weights), dtype=np.int64)] * len(self._fires), weights)

    def _run_groups(self) -> Ints:
        return np.zeros(self._ledger.n_runs, dtype=np.int64) if self._groups is None else self._groups

    def _steps(self, fired: Sequence[Ints], steps: Ints | None = None) -> Ints:
        """The place of each step, or of some steps."""
        if self._groups is None:
            group = None if fired else np.zeros(self._ledger.n_steps if steps is None else len(steps), dtype=np.int64)
        else:
            group = self._groups[self._places.run if steps is None else self._places.run[steps]]
        return self._place(group, fired)
