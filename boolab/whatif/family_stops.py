"""What a stop does to the rest of a family: to the parent that waits for the answer, and to subagents never started.

Each agent is limited on its own counters, so a setting stops each run of a family by itself. The consequences are:

- A run whose subagent is stopped, or diverges, gets another answer than the recorded one. So it is not identified from
  that call on, unless a limit of its own stops it at or before the end of the step with that call.
- A subagent that is not on record may have been stopped too. So everything after its call is unknown, if any limit of
  the setting applies to it.
- A subagent whose parent is stopped before its call is never started: all that it used is saved.

Where the step of the call is not known, it may be any step of any turn, but each turn has made its first step. So a
parent whose subagent is stopped is identified up to there; and that subagent has started for certain, unless a limit of
the parent's own, or another subagent's answer, may have come before its call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

import numpy as np

from boolab.core.run_tree import Call, Kin, Missing
from boolab.limits.detector import Detector
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.token_count import TokenCount
from boolab.whatif.first_crossing import Stops
from boolab.whatif.step_table import Flags, Ints, Ledger

_ERROR: Final = np.array([None, "error"], dtype=object)
"""The stop reason of a run that is not identified, and of one that is unknown."""
_NEVER: Final = np.iinfo(np.int64).max
_RUNS, _NOT_BEGUN, _NOT_IDENTIFIED, _UNKNOWN = range(4)
"""The result for a run: it starts as recorded, it never starts, or that is not known, for one of two reasons."""


def depends_on_results(counter: str, detector: Detector | None) -> bool:
    """Whether a limit on this counter depends on results of calls or their durations, as a subagent's answer."""
    if detector is None or isinstance(detector, TokenCount):
        return counter == "elapsed"
    return not (isinstance(detector, RepeatStreak) and "result" not in detector.identities)


def family_stops(
    ledger: Ledger,
    kin: Kin,
    stops: Stops,
    spans: Stops,
    by_results: Collection[str],
    holds_for: Callable[[str], Flags],
) -> tuple[Stops, Stops]:
    """Stops of runs and of their spans (the same object where each run is one span), with what families change.

    `by_results` are the stop reasons of limits that depend on results: see `depends_on_results`. `holds_for` is, for
    each setting, whether any of its limits applies to the agent of that name ("" if not known).
    """
    work = _Work(ledger, kin, spans, frozenset(by_results), holds_for)
    work.open_callers()
    work.begin_children()
    of_spans = work.span_stops()
    return (of_spans if spans is stops else work.run_stops(stops)), of_spans


_FIELDS: Final = tuple(field.name for field in fields(Stops) if field.name != "run")


def _reshape(stops: Stops, *shape: int) -> Stops:
    """A copy whose fields have this shape."""
    return replace(stops, **{name: getattr(stops, name).reshape(shape).copy() for name in _FIELDS})


def _put(table: Stops, row: int, settings: Flags, **values: object) -> None:
    """Set fields of a row for some settings, in place."""
    for name, value in values.items():
        column = getattr(table, name)[row]
        column[settings] = value[settings] if isinstance(value, np.ndarray) else value


class _Work:
    """One ledger under some settings."""

    def __init__(
        self,
        ledger: Ledger,
        kin: Kin,
        spans: Stops,
        by_results: frozenset[str],
        holds_for: Callable[[str], Flags],
    ) -> None:
        self._ledger = ledger
        self._kin = kin
        self._by_results = by_results
        self._holds_for = holds_for
        first, owner = ledger.spans()
        self._settings = len(spans.run) // len(owner)
        self._table = _reshape(spans, len(owner), self._settings)
        self._before = first[:-1] - ledger.first[owner]
        """How many steps of its run come before each span."""
        self._lengths = np.diff(first)
        rows = np.arange(ledger.n_runs)
        self._rows = np.stack((np.searchsorted(owner, rows), np.searchsorted(owner, rows, side="right")), axis=1)
        self._order = _children_first(ledger.n_runs, kin.calls)
        position = {run: number for number, run in enumerate(self._order)}
        self._calls = _group_by_caller(call for call in kin.calls if position[call.child] < position[call.caller])
        self._missing = _group_by_caller(kin.missing)
        self._diverges: dict[int, Flags] = {}
        """Of each run, under which settings its caller gets another answer."""
        self._stops_itself: dict[int, Flags] = {}
        """Of each run that may call others, under which settings a limit of its own stops it."""

    def _spans(self, run: int) -> range:
        return range(*self._rows[run].tolist())

    def _span(self, run: int, step: int) -> int:
        """The span of a step of a run."""
        low, high = self._rows[run].tolist()
        return int(low + np.searchsorted(self._before[low:high], step - 1, side="right") - 1)

    def open_callers(self) -> None:
        """End what is known of a run at a call whose subagent gives another answer, or may give one."""
        for run in self._order:
            if run in self._calls or run in self._missing:
                self._stops_itself[run] = self._stopped_flags(run)
                self._open(run)
            self._diverges[run] = self._stopped_flags(run) | ~self._ledger.ended[run : run + 1]

    def _stopped_flags(self, run: int) -> Flags:
        """Under which settings a run is stopped, or is not known to its end."""
        return np.asarray(self._table.stopped[slice(*self._rows[run].tolist())].any(axis=0))

    def _open(self, run: int) -> None:
        changed: dict[int, Ints] = {}
        unknown: dict[int, Ints] = {}
        for call in self._calls.get(run, ()):
            self._note(changed, run, call.step, self._diverges[call.child])
        for missing in self._missing.get(run, ()):
            self._note(unknown, run, missing.step, self._holds_for(missing.agent))
        never = np.full(self._settings, _NEVER)
        for row in {*changed, *unknown}:
            self._end(row, changed.get(row, never), unknown.get(row, never))

    def _note(self, ends: dict[int, Ints], run: int, step: int, settings: Flags) -> None:
        """Record that everything after a step is not known; with step 0, after the first step of each span."""
        table = self._table
        for row in [self._span(run, step)] if step else self._spans(run):
            local = step - int(self._before[row]) if step else min(1, int(self._lengths[row]))
            call_made = ~table.stopped[row] | (table.at[row] >= local)
            earliest = ends.setdefault(row, np.full(self._settings, _NEVER))
            np.minimum(earliest, np.where(settings & call_made, local, _NEVER), out=earliest)

    def _end(self, row: int, changed: Ints, unknown: Ints) -> None:
        """End what is known of a span, unless a stop of its own comes first."""
        table, end = self._table, np.minimum(changed, unknown)
        by_result = np.isin(table.reason[row].astype(str), [*self._by_results])
        in_time = table.at[row] + table.dropped[row] + by_result <= end
        ends_here = (end < _NEVER) & ~(table.stopped[row] & in_time)
        lacking = unknown < changed
        reason = _ERROR[lacking.astype(np.int64)]
        _put(table, row, ends_here, at=end, stopped=True, dropped=False, undecided=lacking, ahead=True, open=True,
             reason=reason, also_fired="")  # fmt: skip

    def begin_children(self) -> None:
        """Mark which subagents are never started, and for which that is not known."""
        table, fates = self._table, {}
        reasons: dict[int, Any] = {}
        for run in reversed(self._order):
            parent = self._kin.parent[run]
            if parent not in fates and parent >= 0:
                parent = -1  # a circle of runs, each the parent of the next
            if parent < 0:
                fates[run] = np.full(self._settings, _RUNS)
                continue
            fate, reason = self._fate(parent, self._kin.step[run], run)
            fates[run] = np.where(fates[parent] != _RUNS, fates[parent], fate)
            reasons[run] = np.where(fates[parent] != _RUNS, reasons.get(parent), reason)
            never, doubtful = fates[run] == _NOT_BEGUN, fates[run] > _NOT_BEGUN
            lacking = fates[run] == _UNKNOWN
            for row in self._spans(run):
                _put(
                    table, row, fates[run] != _RUNS, at=0, stopped=True, dropped=False, undecided=lacking,
                    ahead=doubtful, open=doubtful, begun=~never, also_fired="",
                    reason=np.where(never, reasons[run], _ERROR[lacking.astype(np.int64)]),
                )  # fmt: skip

    def _fate(self, parent: int, step: int, child: int) -> tuple[Ints, Any]:
        """The result for a subagent that a step of a run called, if the run itself starts; and the reason."""
        table = self._table
        if not step:
            return np.where(self._may_stop_before(parent, child), _NOT_IDENTIFIED, _RUNS), np.full(self._settings, None)
        row = self._span(parent, step)
        call_made = ~table.stopped[row] | (table.at[row] >= step - self._before[row])
        doubtful = np.where(table.undecided[row], _UNKNOWN, _NOT_IDENTIFIED)
        doubt = table.undecided[row] | table.ahead[row] | table.open[row]
        return np.where(call_made, _RUNS, np.where(doubt, doubtful, _NOT_BEGUN)), table.reason[row]

    def _may_stop_before(self, parent: int, child: int) -> Flags:
        """Under which settings a run may be stopped, or differ, before it calls a subagent at an unknown step."""
        if parent not in self._stops_itself:
            return self._stopped_flags(parent)
        stops = self._stops_itself[parent].copy()
        for call in self._calls.get(parent, ()):
            if call.child != child:
                stops |= self._diverges[call.child]
        for missing in self._missing.get(parent, ()):
            stops |= self._holds_for(missing.agent)
        return stops

    def span_stops(self) -> Stops:
        """The stops of all spans."""
        return _reshape(self._table, -1)

    def run_stops(self, stops: Stops) -> Stops:
        """The first stop of each run in a family; those of others stay."""
        new = _reshape(stops, self._ledger.n_runs, self._settings)
        near = {*self._calls, *self._missing, *(run for run, parent in enumerate(self._kin.parent) if parent >= 0)}
        for run in near:
            not_stopped = np.ones(self._settings, dtype=bool)
            _put(new, run, not_stopped, at=0, stopped=False, dropped=False, undecided=False, ahead=False, open=False,
                 begun=True, reason=None, also_fired="")  # fmt: skip
            for row in self._spans(run):
                first_stop = not_stopped & self._table.stopped[row]
                values = {name: getattr(self._table, name)[row] for name in _FIELDS}
                _put(new, run, first_stop, **(values | {"at": values["at"] + self._before[row]}))
                not_stopped &= ~first_stop
        return _reshape(new, -1)


_Item = TypeVar("_Item", Call, Missing)


def _group_by_caller(items: Iterable[_Item]) -> dict[int, list[_Item]]:
    by_caller: dict[int, list[_Item]] = {}
    for item in items:
        by_caller.setdefault(item.caller, []).append(item)
    return by_caller


def _children_first(n_runs: int, calls: Sequence[Call]) -> list[int]:
    """All runs, each after those that it called; in a circle, in any order."""
    children_of = {caller: [call.child for call in run_calls] for caller, run_calls in _group_by_caller(calls).items()}
    order: list[int] = []
    visited: set[int] = set()
    for root in range(n_runs):
        path = [] if root in visited else [(root, iter(children_of.get(root, ())))]
        visited.add(root)
        while path:
            run, children = path[-1]
            child = next((child for child in children if child not in visited), None)
            if child is None:
                order.append(run)
                path.pop()
            else:
                visited.add(child)
                path.append((child, iter(children_of.get(child, ()))))
    return order
