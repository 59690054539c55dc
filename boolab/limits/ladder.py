"""Where a turn stands: its counters, the states of its detectors, and the level that each guard has reached.

The live loop, a resumed run, and the boundaries and guards of a recording all count steps with `LadderState.apply`. It
reads the step and nothing else: no clock, no policy, no options. So they cannot count differently. Only the columns of
`boolab.whatif.step_table` are sums over all runs at once; their detectors are folded by the same `Watch`.
The history that is compacted between two steps is noted beside them (`add_compaction`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from boolab.core.types import UNKNOWN_USAGE, Response, Step, ToolCall, ToolResult, Usage
from boolab.limits.call_identity import ObservedCall
from boolab.limits.detector import (
    Charge,
    Close,
    Compact,
    Detector,
    Extend,
    State,
    charge_method,
    close_method,
    compact_method,
    extend_method,
    largest_count,
    reads_largest,
)
from boolab.limits.table import COUNTERS

if TYPE_CHECKING:
    from boolab.limits.guard import Action, Guard

_AT_START = dict.fromkeys(COUNTERS, 0)
_NOTHING_KNOWN = dict.fromkeys(("input_tokens", "output_tokens", "tokens", "cost"))

Fold: TypeAlias = Callable[[State, ObservedCall], tuple[State, int | None]]


class Progress(dict[str, int | None]):
    """The counters of a running turn, by name, 0 at its start. Rules read it; only the loop moves it on."""

    __slots__ = ()

    def __init__(self, **counters: int | None) -> None:
        super().__init__(_AT_START)
        self.update(counters)

    def charge(self, usage: Usage, calls: int) -> None:
        """Count what was spent, by a step or a subagent; `calls`: how many calls received a result."""
        if usage is UNKNOWN_USAGE:
            if self["cost"] is not None or self["input_tokens"] is not None or self["output_tokens"] is not None:
                self.update(_NOTHING_KNOWN)
        else:
            tokens_in, tokens_out = usage.input_tokens, usage.output_tokens
            self["input_tokens"] = _sum(self["input_tokens"], tokens_in)
            self["output_tokens"] = _sum(self["output_tokens"], tokens_out)
            self["tokens"] = _sum(self["tokens"], _sum(tokens_in, tokens_out))
            self["cost"] = _sum(self["cost"], usage.cost)
        self["tool_calls"] += calls  # type: ignore[operator] # always known


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def projected(counters: Mapping[str, int | None], response: Response) -> Progress:
    """The counters at a response, those of `RESPONSE_COUNTERS` too: as they would be, were its calls executed."""
    n, calls = counters["steps"] or 0, len(response.tool_calls)
    response_counters = {"responses": n + 1, "tool_steps": n + (calls > 0), "supersteps": 2 * n + 2 + (calls > 0)}
    after = Progress(**counters, **response_counters)
    after.charge(response.usage, calls)
    return after


def response_counter(counter: str) -> str:
    """The name of a detector's counter at each response, as if all its calls had been executed."""
    return f"{counter} at the response"


class Watch:
    """Detectors, and their states at one place of a turn."""

    __slots__ = (
        "_charges",
        "_closes",
        "_compacts",
        "_extends",
        "_folds",
        "_largest",
        "_latest",
        "_states",
        "_step",
        "_step_closes",
    )

    def __init__(self, detectors: Sequence[Detector] = ()) -> None:
        self._folds: list[tuple[int, str, Fold]] = []
        self._closes: list[tuple[int, str, Close]] = []
        self._charges: list[tuple[int, str, Charge]] = []
        self._compacts: list[tuple[int, Compact]] = []
        self._extends: list[tuple[int, str, Extend]] = []
        self._step_closes: list[tuple[int, str, Close]] = []
        self._largest: list[str] = []  # the counters that are the largest count of a step
        self._latest: dict[str, int | None] = {}  # their counts after the latest call, where that is another one
        self._states = [detector.start for detector in detectors]
        self._step = 0
        for i, detector in enumerate(detectors):
            name, close = detector.name, close_method(detector)
            self._folds.append((i, name, detector.fold))
            if (charge := charge_method(detector)) is not None:
                self._charges.append((i, name, charge))
            if (compact := compact_method(detector)) is not None:
                self._compacts.append((i, compact))
            if (extend := extend_method(detector)) is not None:
                self._extends.append((i, name, extend))
            if reads_largest(detector):
                self._largest.append(name)
            if close is not None:
                self._closes.append((i, name, close))
                if getattr(detector, "of_steps", False):
                    self._step_closes.append((i, name, close))

    def add_compaction(self, times: int | None = 1) -> None:
        """Note that the history was compacted before the next step: how often, None where that is not known."""
        if times == 0:
            return
        for i, compact in self._compacts:
            self._states[i] = compact(self._states[i], times)

    def charge(self, usage: Usage, counts: MutableMapping[str, int | None]) -> None:
        """Count what a subagent used."""
        for i, name, charge in self._charges:
            self._states[i], counts[name] = charge(self._states[i], usage)

    def complete(
        self,
        response: Response,
        results: Sequence[ToolResult | None],
        counts: MutableMapping[str, int | None],
        step: Step | None = None,
    ) -> int:
        """Count one completed step. A call without a result was dropped and counts nowhere."""
        folds, states, text = self._folds, self._states, response.text
        n_executed = len(results) - results.count(None)
        self._step += 1
        if folds:
            calls = response.tool_calls
            counts_by_call: list[list[int | None]] = []
            if self._latest:
                counts.update(self._latest)
                self._latest = {}
            # Not zip(strict=True), whose keyword costs as much as a comparison of two calls.
            for index, result in enumerate(results):
                if result is not None:
                    observed = ObservedCall(calls[index], result, self._step, text)
                    text = ""
                    for i, name, fold in folds:
                        states[i], counts[name] = fold(states[i], observed)
                    if n_executed > 1:
                        counts_by_call.append([counts[name] for name in self._largest])
            if counts_by_call:
                self._read_largest(counts_by_call, counts)
            for i, name, close in self._closes:
                states[i], counts[name] = close(states[i], response)
            for i, name, extend in self._extends:
                whole_step = step or Step(self._step, 1, None, None, None, response, tuple(results))
                states[i], counts[name] = extend(states[i], whole_step)
        return n_executed

    def _read_largest(
        self, counts_by_call: Sequence[Sequence[int | None]], counts: MutableMapping[str, int | None]
    ) -> None:
        """Replace the counts after the last call of a step by the largest of it, and keep them for the next step."""
        for name, of_calls in zip(self._largest, zip(*counts_by_call, strict=True), strict=True):
            largest = largest_count(of_calls)
            if largest != counts[name]:
                self._latest[name], counts[name] = counts[name], largest

    def count_after_call(self, name: str, count: int | None) -> int | None:
        """A count after the latest call, where `count` is the counter at the boundary."""
        return self._latest.get(name, count)

    def counts_after(self, response: Response) -> dict[str, int | None]:
        """The counts as they would be after a step of this response. The states do not change.

        `response`: the response. The results of its calls are not known, so detectors that need them count None.
        """
        states, _, counts = self._fold_calls(response, response.tool_calls)
        after = {**self._latest, **(counts[-1] if counts else {})}
        if len(counts) > 1:
            after |= {name: largest_count(count[name] for count in counts) for name in self._largest}
        for i, name, close in self._closes:
            after[name] = close(states[i], response)[1]
        return after

    def counts_ahead(self, response: Response, calls: Sequence[ToolCall]) -> list[dict[str, int | None]]:
        """The counts as they would be after each of some calls, if they were executed now. The states do not change.

        The results are not known yet, so detectors that need them count None. Detectors of whole steps judge a call by
        all calls of the same tool in the response.
        """
        _, observed, counts = self._fold_calls(response, calls)
        for i, name, close in self._step_closes:
            for call, after in zip(observed, counts, strict=True):
                state = self._states[i]
                for other in observed:
                    if other.name == call.name:
                        state, _ = self._folds[i][2](state, other)
                after[name] = close(state, response)[1]
        return counts

    def _fold_calls(
        self, response: Response, calls: Sequence[ToolCall]
    ) -> tuple[list[Any], list[ObservedCall], list[dict[str, int | None]]]:
        """The states after some calls whose results are not known, the calls, and the counts after each of them."""
        states, text = list(self._states), response.text
        observed: list[ObservedCall] = []
        counts: list[dict[str, int | None]] = []
        for call in calls:
            observed.append(ObservedCall(call, ToolResult(call.id, "", is_error=None), self._step + 1, text))
            text = ""
            after: dict[str, int | None] = {}
            for i, name, fold in self._folds:
                states[i], after[name] = fold(states[i], observed[-1])
            counts.append(after)
        return states, observed, counts


class Reached(NamedTuple):
    """The level of its ladder at which a guard stands."""

    threshold: int  # the count at which the level begins
    action: Action  # what happens there
    value: int  # the detector's count
    nudges: bool  # whether the model gets a message now: the guard has just reached a level that nudges


class LadderState:
    """The counters of a turn, or of all of them if not `per_turn`, and the levels of its guards, at one place."""

    __slots__ = (
        "_at_boundary",
        "_at_call",
        "_detectors",
        "_last_tool",
        "_levels",
        "_per_turn",
        "_watch",
        "counters",
        "messages",
        "opened_ms",
        "turn",
    )

    def __init__(
        self,
        detectors: Sequence[Detector] = (),
        at_call: Sequence[Guard] = (),
        at_boundary: Sequence[Guard] = (),
        *,
        per_turn: bool = True,
    ) -> None:
        self._detectors = detectors
        self._at_call = [(guard, guard.watch.name) for guard in at_call]
        self._at_boundary = [(guard, guard.watch.name) for guard in at_boundary]
        self._per_turn = per_turn
        self.messages: list[tuple[str, str]] = []  # those of the policy before the next step: kind of event, text
        self.open_turn(1, 0)

    def open_turn(self, number: int, start_ms: int | None) -> None:
        """Count from zero from `start_ms` on, which is None if it is not known."""
        self.turn = number
        self.opened_ms = start_ms  # in ms from the start of the run; None where a log does not record it
        self.counters = Progress()
        for detector in self._detectors:
            self.counters[detector.name] = 0
        self._watch = Watch(self._detectors)
        self._levels: dict[Guard, int] = {}
        self._last_tool: str | None = None

    def enter(self, step: Step) -> None:
        """Open the turn of a step on record, unless it is open. The first turn begins with the run."""
        if step.turn != self.turn and self._per_turn:
            self.open_turn(step.turn, step.start_ms if step.index > 1 else 0)

    def add_compaction(self, times: int | None = 1) -> None:
        """Note that the history was compacted before the next step: how often, None where that is not known."""
        self._watch.add_compaction(times)

    def add_recorded_compactions(self, step: Step, compacted: Mapping[int, int] | None) -> None:
        """Note how often the history was compacted before a step on record, whose turn is opened first."""
        if compacted is None or step.index in compacted:
            self.enter(step)
            self._watch.add_compaction(None if compacted is None else compacted[step.index])

    def charge(self, usage: Usage, calls: int) -> None:
        """Count what a subagent used, and how many of its calls received a result."""
        self.counters.charge(usage, calls)
        self._watch.charge(usage, self.counters)

    def apply(self, step: Step) -> None:
        """Count one completed step, in its turn. A call without a result was dropped and counts nowhere."""
        if step.turn != self.turn:
            self.enter(step)
        start, duration, response = step.start_ms, step.duration_ms, step.response
        counters, opened_ms = self.counters, self.opened_ms
        counters["steps"] += 1  # type: ignore[operator] # always known
        counters["elapsed"] = (
            None if start is None or duration is None or opened_ms is None else start + duration - opened_ms
        )
        counters.charge(response.usage, self._watch.complete(response, step.results, counters, step))
        if self._at_call:
            self._last_tool = response.tool_calls[-1].name if response.tool_calls else None
        for guard, name in self._at_boundary:
            self.reach(guard, counters[name])

    def reach(self, guard: Guard, count: int | None) -> Reached | None:
        """Move a guard to the level of a count, and add its nudge to `messages`; None if it reaches none."""
        level = guard.level(count)
        if level is None or count is None:
            self._levels.pop(guard, None)
            return None
        threshold, action = level
        nudges = action == "nudge" and self._levels.get(guard) != threshold
        self._levels[guard] = threshold
        if nudges:
            self.messages.append(("nudge", guard.nudge))
        return Reached(threshold, action, count, nudges)

    def evaluate_calls(
        self, response: Response, indices: Sequence[int]
    ) -> Iterator[tuple[int, Iterator[tuple[Guard, Reached]]]]:
        """Evaluate the guards at calls, call by call, as if the calls before had been executed.

        Guards move as the iterators are read: those after the last call that is read stay where they are.

        Yields:
            The place of each call, and each guard that has reached a level there, with that level.
        """
        calls = response.tool_calls
        counts = self._watch.counts_ahead(response, [calls[index] for index in indices])
        for index, count_by_name in zip(indices, counts, strict=True):
            yield index, self._evaluate_call(calls[index].name, count_by_name)

    def _evaluate_call(self, tool: str, counts: Mapping[str, int | None]) -> Iterator[tuple[Guard, Reached]]:
        for guard, name in self._at_call:
            count = counts[name]
            if count is None and tool == self._last_tool:
                # It depends on what the call gives: then the count before it holds.
                count = self._watch.count_after_call(name, self.counters[name])
            level = self.reach(guard, count)
            if level is not None:
                yield guard, level

    def replay_calls(self, response: Response, indices: Sequence[int]) -> list[Reached]:
        """Move the guards at calls as the live loop did it when it evaluated these calls of a response on record."""
        if not self._at_call:
            return []
        levels = chain.from_iterable(levels for _, levels in self.evaluate_calls(response, indices))
        return [level for _, level in levels]

    def counters_after(self, response: Response) -> dict[str, int | None]:
        """The counters as they would be after a response, were its calls executed.

        `response`: the response. Detectors that depend on what its calls give know no count.
        """
        return dict(self.counters) | self._watch.counts_after(response)
