"""Calls as columns of integers, and streaks of them.

Two calls are the same by an identity if and only if their integers are equal. Texts are compared once, when they are
numbered in order of first appearance; detectors then compare integers (see `boolab.whatif.detector_columns`). Nothing
is numbered before a detector needs it. A streak is how many in a row up to each one have a property, within a scope.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
import pandas as pd

from boolab.core.redacted import beginning_of
from boolab.core.types import REDACTED, Response, Step, ToolCall, ToolResult
from boolab.frames.recording import NO_KEY
from boolab.limits.call_identity import call_key
from boolab.whatif.step_table import UNKNOWN, Flags, Ints

_Value = TypeVar("_Value", bound=Hashable)
_WITH_OUTCOME: Final = {
    "call+result": ("contents",),
    "action": ("texts",),
    "action+result": ("texts", "contents", "errors"),
}
"""What identities compare beside the call itself, which they compare as `canonical` does."""


class CallLayout:
    """Where calls are among steps. S counted steps, M of their calls that got a result, in order.

    `calls`: S: how many calls of each step got a result. `opens`: S: whether the step is the first of its scope, where
    counts begin at 0.
    """

    def __init__(self, calls: Ints, opens: Flags) -> None:
        self.calls = calls
        self.opens = opens
        self.end: Ints = np.cumsum(calls)

    @property
    def n_calls(self) -> int:
        """M."""
        return int(self.end[-1]) if len(self.end) else 0

    @cached_property
    def step(self) -> Ints:
        """M: the step of each call, from 0."""
        return np.repeat(np.arange(len(self.calls)), self.calls)

    @cached_property
    def step_starts(self) -> Ints:
        """S: the first step of the scope of each step."""
        steps = np.arange(len(self.opens))
        return np.maximum.accumulate(np.where(self.opens, steps, 0))

    @cached_property
    def starts(self) -> Ints:
        """M: the first call of the scope of each call."""
        return (self.end - self.calls)[self.step_starts][self.step]

    def step_layout(self) -> CallLayout:
        """The same calls where each step is a scope of its own."""
        return CallLayout(self.calls, np.ones_like(self.opens))

    def counts_after_steps(self, after_calls: Ints) -> Ints:
        """S: a count after each call, M, as it stands after each step: 0 before the first call of a scope."""
        return counts_after_steps(after_calls, self.calls, self.end, self.opens)

    def largest_counts_in_steps(self, after_calls: Ints) -> Ints:
        """S: the largest count after a call of each step; as `counts_after_steps` where a step has no call."""
        return largest_counts_in_steps(after_calls, self.calls, self.end, self.opens)

    def flag_steps(self, flags: Flags) -> Flags:
        """S: whether a flag is set for any call of the step."""
        return np.bincount(self.step[flags], minlength=len(self.calls)) > 0


class CallColumns:
    """The calls of steps as columns, each made when it is first read.

    `is_counted`: whether limits count each step. The other steps are left out.
    """

    def __init__(self, steps: Sequence[Step], opens: Flags, is_counted: Flags) -> None:
        if not is_counted.all():
            scope = np.cumsum(opens)[is_counted]
            opens = np.diff(scope, prepend=0) > 0
            steps = [steps[index] for index in np.flatnonzero(is_counted).tolist()]
        self.responses: list[Response] = [step.response for step in steps]
        calls = [len(step.results) - step.results.count(None) for step in steps]
        self.layout = CallLayout(np.array(calls, dtype=np.int64), opens)
        self._calls: list[ToolCall] = []
        self._results: list[ToolResult] = []
        for step in steps:
            for call, result in zip(step.response.tool_calls, step.results, strict=True):
                if result is not None:
                    self._calls.append(call)
                    self._results.append(result)
        self._keys: dict[tuple[str | None, ...], Ints] = {}

    @cached_property
    def _tool_numbers(self) -> tuple[Ints, list[str]]:
        return number_values(call.name for call in self._calls)

    @property
    def tools(self) -> Ints:
        """M: the tool of each call, from 0."""
        return self._tool_numbers[0]

    def tool(self, name: str) -> int:
        """The number of a tool; -1 if no call is of it."""
        names = self._tool_numbers[1]
        return names.index(name) if name in names else -1

    @cached_property
    def _distinct_calls(self) -> tuple[Ints, list[ToolCall]]:
        """M: the number of the tool and argument text of each call; and the first call of each number."""
        arguments, _ = number_values(call.arguments for call in self._calls)
        codes, first = number_pairs(self.tools, arguments)
        return codes, [self._calls[index] for index in first.tolist()]

    def keys(self, identity_for: Callable[[str], str | None]) -> Ints:
        """M: the key of each call, above 0; `NO_KEY` for a call that is the same as no other."""
        return self._keys_by([identity_for(name) for name in self._tool_numbers[1]])

    def _keys_by(self, identities: Sequence[str | None]) -> Ints:
        """The keys by the identity of each tool, in the order of their numbers."""
        key = tuple(identities)
        if key not in self._keys:
            calls_alone = ["canonical" if identity in _WITH_OUTCOME else identity for identity in identities]
            if calls_alone != [*identities]:
                self._keys[key] = self._add_outcomes(self._keys_by(calls_alone), identities)
            else:
                self._keys[key] = self._keys_of_calls(identities)
        return self._keys[key]

    def _keys_of_calls(self, identities: Sequence[str | None]) -> Ints:
        identity = dict(zip(self._tool_numbers[1], identities, strict=True))
        codes, distinct = self._distinct_calls
        numbers: dict[tuple[str, ...] | None, int] = {None: NO_KEY}
        call_keys = (call_key(call, None, identity[call.name]) for call in distinct)
        keys = [numbers.setdefault(key, len(numbers)) for key in call_keys]
        return np.array(keys, dtype=np.int64)[codes]

    def _add_outcomes(self, keys: Ints, identities: Sequence[str | None]) -> Ints:
        """The keys, each of a tool whose identity compares more together with that."""
        for identity, names in _WITH_OUTCOME.items():
            has_identity = np.array([other == identity for other in identities], dtype=bool)
            for name in names if has_identity.any() else ():
                # 0 is no outcome: it stands beside the calls of tools that compare none.
                outcomes = np.where(has_identity[self.tools], getattr(self, name) + 1 - UNKNOWN, 0)
                keys = np.where(keys == NO_KEY, NO_KEY, number_pairs(keys, outcomes)[0] + 1)
        return keys

    @cached_property
    def _result_numbers(self) -> tuple[Ints, list[str]]:
        return number_values(result.content for result in self._results)

    @property
    def contents(self) -> Ints:
        """M: the content of each result, from 0."""
        return self._result_numbers[0]

    @property
    def beginnings(self) -> Ints:
        """M: the beginning of the content of each result, by which errors are compared, from 0."""
        codes, distinct = self._result_numbers
        return number_values(map(beginning_of, distinct))[0][codes]

    def contain(self, text: str) -> Flags:
        """M: whether the content of each result contains a text."""
        codes, distinct = self._result_numbers
        return np.array([text in content for content in distinct], dtype=bool)[codes]

    @cached_property
    def errors(self) -> Ints:
        """M: 1 if the call failed, 0 if it did not, -1 where that is not known."""
        return np.array(
            [UNKNOWN if result.is_error is None else int(result.is_error) for result in self._results], dtype=np.int64
        )

    @cached_property
    def texts(self) -> Ints:
        """M: the model's text before each call: that of the response for its first call, none for the others."""
        first = np.zeros(self.layout.n_calls, dtype=bool)
        first[(self.layout.end - self.layout.calls)[self.layout.calls > 0]] = True
        codes, _ = number_values(["", *(response.text for response in self.responses)])
        return np.where(first, codes[1:][self.layout.step], codes[0])

    @cached_property
    def exact_keys(self) -> Ints:
        """M: tool, argument text and result of each call as they are; redacted calls of two steps always differ."""
        codes, distinct = self._distinct_calls
        redacted = np.array([call.arguments == REDACTED for call in distinct], dtype=bool)[codes]
        with_contents, _ = number_pairs(codes, self.contents)
        by_step, _ = number_pairs(np.where(redacted, self.layout.step + 1, 0), with_contents)
        return by_step


def number_values(values: Iterable[_Value]) -> tuple[Ints, list[_Value]]:
    """A number for each value, from 0 in order of first appearance, and the distinct values."""
    numbers: dict[_Value, int] = {}  # for long texts several times as fast as pandas.factorize
    codes = [numbers.setdefault(value, len(numbers)) for value in values]
    return np.array(codes, dtype=np.int64), list(numbers)


def number_pairs(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """A number for each pair of two numbers that are not below 0, and the place where each pair comes first."""
    codes, distinct = pd.factorize(left * (int(right.max(initial=0)) + 1) + right)
    first = np.zeros(len(distinct), dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last one that is written is the first one
    return codes.astype(np.int64), first


def repeats_of(keys: Ints, calls: Ints, opens: Flags, *, last_call: bool = False) -> Ints:
    """N: the longest repeat streak of each step, from the keys of all calls in order; `NO_KEY` equals no other.

    `last_call`: the streak after the last call of each step instead.
    """
    end = np.cumsum(calls)
    is_repeat = np.zeros(len(keys) + 1, dtype=bool)
    np.equal(keys[1:], keys[:-1], out=is_repeat[1:-1])
    is_repeat[:-1][keys == NO_KEY] = False
    is_repeat[(end - calls)[opens]] = False
    repeats = run_lengths(is_repeat)
    repeats[:-1] += 1
    return (counts_after_steps if last_call else largest_counts_in_steps)(repeats[:-1], calls, end, opens)


def run_lengths(flags: Flags) -> Ints:
    """How many in a row up to each one are set."""
    # Few are set as a rule, so only those are counted.
    set_indices = np.flatnonzero(flags)
    heads = np.flatnonzero(np.diff(set_indices, prepend=-2) > 1)
    lengths = np.zeros(len(flags), dtype=np.int64)
    lengths[set_indices] = set_indices - np.repeat(set_indices[heads], np.diff(np.append(heads, len(set_indices)))) + 1
    return lengths


def counts_after_steps(after_calls: Ints, calls: Ints, end: Ints, opens: Flags) -> Ints:
    """N: a counter after each call, as it stands after each step: 0 before the first call of a scope."""
    after: Ints = after_calls[np.maximum(end, 1) - 1] if len(after_calls) else np.zeros_like(end)
    starts = np.flatnonzero(opens)
    if not calls[starts].all():
        after[end == np.repeat((end - calls)[starts], np.diff(np.append(starts, len(calls))))] = 0
    return after


def largest_counts_in_steps(after_calls: Ints, calls: Ints, end: Ints, opens: Flags) -> Ints:
    """N: the largest count after a call of each step, unknown if one is. Without calls, as `counts_after_steps`."""
    largest = counts_after_steps(after_calls, calls, end, opens)
    several = np.flatnonzero(calls > 1)
    if len(several):
        bounds = np.column_stack(((end - calls)[several], end[several])).ravel()
        counts = np.append(after_calls, 0)  # so that the last bound is a place
        is_unknown = np.minimum.reduceat(counts, bounds)[::2] < 0
        largest[several] = np.where(is_unknown, UNKNOWN, np.maximum.reduceat(counts, bounds)[::2])
    return largest


def error_streaks_of(errors: Ints, calls: Ints, opens: Flags) -> Ints:
    """N: the longest error streak of each step, from a number for each call: 1 failed, 0 did not, -1 unknown."""
    end = np.cumsum(calls)
    heads = (end - calls)[opens]
    starts = np.repeat(heads, np.diff(np.append(heads, len(errors))))
    return largest_counts_in_steps(failures_in_a_row(errors, starts), calls, end, opens)


def failures_in_a_row(failed: Ints, starts: Ints, begins: Flags | None = None) -> Ints:
    """How many in a row up to each one failed; unknown from an unknown one to the next that is known not to have.

    `failed`: 1 for what failed, 0 for what did not, -1 where that is not known. `begins`: where a failure begins a new
    streak, because it differs from the one before.
    """
    indices = np.arange(len(failed))
    ends = np.where(failed == 0, indices, -1)
    if begins is not None:
        ends = np.where((failed > 0) & begins, indices - 1, ends)
    last_end = np.maximum(np.maximum.accumulate(ends), starts - 1)
    unknown = np.maximum.accumulate(np.where(failed < 0, indices, -1))
    return np.where(unknown > last_end, UNKNOWN, indices - last_end)
