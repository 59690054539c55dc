"""Runs calls through the folds of detectors: the same code for the live loop and offline."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

from boolab.core.types import Response, Step, ToolCall, ToolResult
from boolab.limits.call_identity import ObservedCall
from boolab.limits.detector import Close, Compact, Detector, Extend, Fold, closing, compacting, extending


class Watch:
    """Detectors, and their states at one place of a turn.

    Example:
        >>> import boolab as bl
        >>> watch, counts = Watch([bl.detectors.RepeatStreak()]), {}
        >>> calls = (bl.models.ToolCall("1", "ls", "{}"), bl.models.ToolCall("2", "ls", "{ }"))
        >>> watch.complete(bl.models.Response("", calls), [ToolResult("1", "x"), ToolResult("2", "x")], counts)
        2
        >>> counts
        {'repeat_streak:canonical': 2}
    """

    __slots__ = ("_closes", "_compacts", "_extends", "_folds", "_of_steps", "_states", "_step")

    def __init__(self, detectors: Sequence[Detector] = ()) -> None:
        self._folds: list[tuple[int, str, Fold]] = []
        self._closes: list[tuple[int, str, Close]] = []
        self._compacts: list[tuple[int, Compact]] = []
        self._extends: list[tuple[int, str, Extend]] = []
        self._of_steps: list[tuple[int, str, Close]] = []
        self._states = [detector.start for detector in detectors]
        self._step = 0
        for i, detector in enumerate(detectors):
            name, close = detector.name, closing(detector)
            self._folds.append((i, name, detector.fold))
            if (compact := compacting(detector)) is not None:
                self._compacts.append((i, compact))
            if (extend := extending(detector)) is not None:
                self._extends.append((i, name, extend))
            if close is not None:
                self._closes.append((i, name, close))
                if getattr(detector, "of_steps", False):
                    self._of_steps.append((i, name, close))

    def compacted(self, times: int | None = 1) -> None:
        """The history was compacted before the step that follows.

        No count changes before that step is complete: rules are evaluated after steps.

        `times`: how often; None where a record does not report whether it was.
        """
        if times == 0:
            return
        for i, compact in self._compacts:
            self._states[i] = compact(self._states[i], times)

    def complete(
        self,
        response: Response,
        results: Sequence[ToolResult | None],
        counts: MutableMapping[str, int | None],
        step: Step | None = None,
    ) -> int:
        """Count one completed step. A call without a result was dropped and counts nowhere."""
        folds, states, text = self._folds, self._states, response.text
        self._step += 1
        if folds:
            calls = response.tool_calls
            # Not zip(strict=True), whose keyword costs as much as a comparison of two calls.
            for place, result in enumerate(results):
                if result is not None:
                    observed = ObservedCall(calls[place], result, self._step, text)
                    text = ""
                    for i, name, fold in folds:
                        states[i], counts[name] = fold(states[i], observed)
            for i, name, close in self._closes:
                states[i], counts[name] = close(states[i], response)
            for i, name, extend in self._extends:
                whole = step or Step(self._step, 1, None, None, None, response, tuple(results))
                states[i], counts[name] = extend(states[i], whole)
        return len(results) - results.count(None)

    def after(self, response: Response) -> dict[str, int | None]:
        """The counts as they would be after a step of this response. The states do not change.

        `response`: the response. The results of its calls are not known, so detectors that need them count None.
        """
        states, _, counts = self._folded(response, response.tool_calls)
        after = counts[-1] if counts else {}
        for i, name, close in self._closes:
            after[name] = close(states[i], response)[1]
        return after

    def ahead(self, response: Response, calls: Sequence[ToolCall]) -> list[dict[str, int | None]]:
        """The counts as they would be after each of some calls, if they were executed now. The states do not change.

        The results are not known yet, so detectors that need them count None. Detectors of whole steps judge a call by
        all calls of the same tool in the response.
        """
        _, observed, counts = self._folded(response, calls)
        for i, name, close in self._of_steps:
            for this, after in zip(observed, counts, strict=True):
                state = self._states[i]
                for other in observed:
                    if other.name == this.name:
                        state, _ = self._folds[i][2](state, other)
                after[name] = close(state, response)[1]
        return counts

    def _folded(
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
