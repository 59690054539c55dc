"""The counts of detectors as columns: the numbers that their folds give, from arrays of integers.

Each function takes a detector, the columns of the calls, and where scopes begin. `_OF_CALLS` give a count after each
call, `_OF_STEPS` one after each step; -1 is unknown. Detectors without such a function are folded over the calls, as
in the live loop. A property test compares each function with the fold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from boolab.core.redacted import TIMED_OUT, is_redacted
from boolab.frames.recording import NO_KEY
from boolab.limits.detector import Detector, reads_largest
from boolab.limits.detectors.cycles import MAX_PERIOD, Cycle
from boolab.limits.detectors.openhands import EVENTS, ActionStreak
from boolab.limits.detectors.streaks import (
    ErrorStreak,
    FinishStreak,
    IdleStreak,
    RepeatStreak,
    RoundStreak,
    SameError,
    TimeoutStreak,
    ToolErrors,
)
from boolab.limits.detectors.text import TextContains
from boolab.limits.detectors.windows import CallWindow, StepRepeats, ToolWindow
from boolab.limits.detectors.wrappers import Detections, PerMessage
from boolab.whatif.call_columns import CallColumns, CallLayout, failures_in_a_row, run_lengths
from boolab.whatif.step_table import UNKNOWN, Flags, Ints

Count: TypeAlias = Callable[[Any, CallColumns, CallLayout], Ints]


def is_columnar(detector: object) -> bool:
    """Whether a detector can be counted from columns. One of another type, a subclass too, may fold in its own way."""
    if type(detector) is PerMessage:
        return type(detector.detector) in _OF_CALLS
    if type(detector) is Detections:
        return is_columnar(detector.detector)
    return type(detector) in _OF_CALLS or type(detector) in _OF_STEPS


def counts_of(detector: Detector, columns: CallColumns) -> Ints:
    """S: the count of a columnar detector after each step."""
    return _counts_after_steps(detector, columns, columns.layout)


def _counts_after_steps(detector: Detector, columns: CallColumns, layout: CallLayout) -> Ints:
    of_calls = _OF_CALLS.get(type(detector))
    if of_calls is not None:
        read = layout.largest_counts_in_steps if reads_largest(detector) else layout.counts_after_steps
        return read(of_calls(detector, columns, layout))
    return _OF_STEPS[type(detector)](detector, columns, layout)


def _same_flags(keys: Ints, layout: CallLayout, lag: int = 1) -> Flags:
    """M: whether the call is the same as the one so many calls before it in its scope."""
    is_repeat = np.zeros(len(keys), dtype=bool)
    np.equal(keys[lag:], keys[:-lag], out=is_repeat[lag:])
    is_repeat &= keys != NO_KEY
    is_repeat &= np.arange(-lag, len(keys) - lag) >= layout.starts
    return is_repeat


def _repeats(detector: RepeatStreak, columns: CallColumns, layout: CallLayout) -> Ints:
    return run_lengths(_same_flags(columns.keys(detector.identity_for), layout)) + 1


def _errors(_: ErrorStreak, columns: CallColumns, layout: CallLayout) -> Ints:
    return failures_in_a_row(columns.errors, layout.starts)


def _timeouts(_: TimeoutStreak, columns: CallColumns, layout: CallLayout) -> Ints:
    return failures_in_a_row(np.where(columns.contain(TIMED_OUT), columns.errors, 0), layout.starts)


def _cycles(detector: Cycle, columns: CallColumns, layout: CallLayout) -> Ints:
    keys = columns.keys(detector.identity_for)
    if detector.period is None:
        of_periods = (run_lengths(_same_flags(keys, layout, lag)) // lag for lag in range(1, MAX_PERIOD + 1))
        largest = np.zeros(len(keys), dtype=np.int64)
        for count in of_periods:
            np.maximum(largest, count, out=largest)
        return largest + 1
    count = 1 + run_lengths(_same_flags(keys, layout, detector.period)) // detector.period
    so_far = np.arange(1, len(keys) + 1) - layout.starts
    return np.where(so_far < detector.period, 0, count)


def _same_errors(_: SameError, columns: CallColumns, layout: CallLayout) -> Ints:
    """By tool: the calls of a tool are put together, in order."""
    text = columns.beginnings
    order, starts = _sort_by_scope(columns.tools, layout.starts)
    differs = np.append(True, text[order][1:] != text[order][:-1])[: len(order)]
    count = np.empty(len(order), dtype=np.int64)
    count[order] = failures_in_a_row(columns.errors[order], starts, differs)
    return count


def _sort_by_scope(codes: Ints, scopes: Ints) -> tuple[Ints, Ints]:
    """An order in which equal codes of a scope are together, as they came; and for each place the first of its kind."""
    order = np.lexsort((codes, scopes))
    indices = np.arange(len(order))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(codes[order]) != 0) | (np.diff(scopes[order]) != 0)
    return order, np.maximum.accumulate(np.where(new, indices, 0))


def _tool_window(detector: ToolWindow, columns: CallColumns, layout: CallLayout) -> Ints:
    if detector.tool is None:
        return _most_in_window(columns.tools + 1, layout.starts, detector.window)
    so_far: Ints = np.append(0, np.cumsum(columns.tools == columns.tool(detector.tool)))
    ends = np.arange(1, len(columns.tools) + 1)
    count_before: Ints = so_far[np.maximum(ends - detector.window, layout.starts)]
    return so_far[1:] - count_before


def _call_window(detector: CallWindow, columns: CallColumns, layout: CallLayout) -> Ints:
    return _most_in_window(columns.keys(detector.identity_for), layout.starts, detector.window)


def _most_in_window(codes: Ints, starts: Ints, window: int) -> Ints:
    """The largest number of equal codes among the last `window` of the scope; those that are 0 do not count.

    There are n equal codes up to place i if, up to there, the last place with n - 1 equal codes before it in its scope
    has the first of these n inside the window. So each n takes one running maximum of such first places.
    """
    indices = np.arange(len(codes))
    oldest = np.maximum(starts, indices - window + 1)
    order, firsts = _sort_by_scope(codes, starts)
    largest = np.zeros(len(codes), dtype=np.int64)
    for n in range(window):
        has_earlier = indices - n >= firsts
        first = np.full(len(codes), -1)
        first[order[has_earlier]] = order[indices[has_earlier] - n]
        first[codes == 0] = -1
        in_window = np.maximum.accumulate(first) >= oldest
        if not in_window.any():
            break
        largest[in_window] = n + 1
    return largest


def _actions(detector: ActionStreak, columns: CallColumns, layout: CallLayout) -> Ints:
    """The streak after each step, at most the number of actions, and of observations, among the last events."""
    identity = "action" if detector.pattern == "failing" else "action+result"
    keys = columns.keys(lambda _: identity)
    if detector.pattern == "failing":
        count = failures_in_a_row(columns.errors, layout.starts, ~_same_flags(keys, layout))
    elif detector.pattern == "repeating":
        count = run_lengths(_same_flags(keys, layout)) + 1
    else:
        first = np.arange(len(keys)) == layout.starts
        count = np.where(first, 1, run_lengths(_same_flags(keys, layout, 2)) + 2)
    streak, calls = layout.counts_after_steps(count), layout.calls
    silent = np.array([not response.tool_calls for response in columns.responses], dtype=bool)
    events = np.where(calls > 0, 2 * calls, silent)
    end = np.cumsum(events)
    event_index = np.arange(int(events.sum())) - np.repeat(end - events, events)  # the number of the event in its step
    of_step = np.repeat(calls, events)
    oldest = np.maximum(end - EVENTS, (end - events)[layout.step_starts])
    for kind in (event_index < of_step, (event_index >= of_step) & (of_step > 0)):
        so_far = np.append(0, np.cumsum(kind))
        streak = np.where(streak > 0, np.minimum(streak, so_far[end] - so_far[oldest]), streak)
    return streak


def _rounds(detector: RoundStreak, columns: CallColumns, layout: CallLayout) -> Ints:
    """The calls of a tool in a step are a set: one key, or the number of a tuple of keys."""
    keys, tools = columns.keys(detector.identity_for), columns.tools
    order = np.lexsort((keys, tools, layout.step))
    key, tool, step = keys[order], tools[order], layout.step[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(step) != 0) | (np.diff(tool) != 0)
    distinct = new.copy()
    distinct[1:] |= key[1:] != key[:-1]
    key, heads = key[distinct], np.flatnonzero(new[distinct])
    tool, step = tool[new], step[new]
    sizes = np.diff(np.append(heads, len(key)))
    code = key[heads]
    several_calls = np.flatnonzero(sizes > 1)
    sets: dict[tuple[int, ...], int] = {}
    for index, first, size in zip(
        several_calls.tolist(), heads[several_calls].tolist(), sizes[several_calls].tolist(), strict=True
    ):
        members = tuple(key[first : first + size].tolist())
        code[index] = NO_KEY if NO_KEY in members else sets.setdefault(members, len(sets) + 1)
    order, firsts = _sort_by_scope(tool, layout.step_starts[step])
    code, sizes, indices = code[order], sizes[order], np.arange(len(order))
    is_repeat = (indices > firsts) & (code != NO_KEY)
    is_repeat[1:] &= (code[1:] == code[:-1]) & (sizes[1:] == sizes[:-1])
    longest = np.zeros(len(layout.calls), dtype=np.int64)
    np.maximum.at(longest, step[order], run_lengths(is_repeat) + 1)
    last_called = np.maximum.accumulate(np.where(layout.calls > 0, np.arange(len(longest)), -1))
    return np.where(last_called >= layout.step_starts, longest[last_called], 0)


def _step_repeats(detector: StepRepeats, columns: CallColumns, layout: CallLayout) -> Ints:
    exact, calls, indices = columns.exact_keys, layout.calls, np.arange(len(layout.calls))
    first = layout.end - calls
    codes = np.zeros(len(calls), dtype=np.int64)
    codes[calls == 1] = exact[first[calls == 1]] + 1
    lists: dict[tuple[int, ...], int] = {}
    for step in np.flatnonzero(calls > 1).tolist():
        call_codes = tuple(exact[first[step] : layout.end[step]].tolist())
        codes[step] = -1 - lists.setdefault(call_codes, len(lists))
    full = indices - layout.step_starts + 1 >= detector.window
    return np.where(full, _most_in_window(codes, layout.step_starts, detector.window), 0)


def _idle_streaks(_: IdleStreak, __: CallColumns, layout: CallLayout) -> Ints:
    return failures_in_a_row((layout.calls == 0).astype(np.int64), layout.step_starts)


def _finishes(detector: FinishStreak, columns: CallColumns, layout: CallLayout) -> Ints:
    reasons = [detector.is_reason(response.finish_reason) for response in columns.responses]
    flags = [UNKNOWN if matches is None else int(matches) for matches in reasons]
    return failures_in_a_row(np.array(flags, dtype=np.int64), layout.step_starts)


def _contains(detector: TextContains, columns: CallColumns, layout: CallLayout) -> Ints:
    texts = [response.text for response in columns.responses]
    unknown = np.array(list(map(is_redacted, texts)), dtype=bool)
    contains = np.array([detector.text in text for text in texts], dtype=bool)
    return np.where(_count_so_far(unknown, layout) > 0, UNKNOWN, _count_so_far(contains, layout))


def _count_so_far(flags: Flags, layout: CallLayout) -> Ints:
    """S: how many steps of the scope up to each have a flag."""
    total: Ints = np.append(0, np.cumsum(flags))
    count_before: Ints = total[layout.step_starts]
    return total[1:] - count_before


def _tool_errors(_: ToolErrors, columns: CallColumns, layout: CallLayout) -> Ints:
    failed = columns.errors > 0
    n_tools = int(columns.tools.max(initial=0)) + 1
    step, tool = np.divmod(np.unique(layout.step[failed] * n_tools + columns.tools[failed]), n_tools)
    order, firsts = _sort_by_scope(tool, layout.step_starts[step])
    steps = np.zeros(len(layout.calls), dtype=np.int64)
    np.maximum.at(steps, step[order], np.arange(len(order)) - firsts + 1)
    lift = layout.step_starts * (len(steps) + 1)  # what is before the scope is lifted below all that is in it
    largest = np.maximum.accumulate(steps + lift) - lift
    return np.where(_count_so_far(layout.flag_steps(columns.errors < 0), layout) > 0, UNKNOWN, largest)


def _per_message(detector: PerMessage, columns: CallColumns, layout: CallLayout) -> Ints:
    count = _OF_CALLS[type(detector.detector)](detector.detector, columns, layout.step_layout())
    largest = np.zeros(len(layout.calls), dtype=np.int64)
    np.maximum.at(largest, layout.step, count)
    return np.where(layout.flag_steps(count < 0), UNKNOWN, largest)


def _detections(detector: Detections, columns: CallColumns, layout: CallLayout) -> Ints:
    of_calls = _OF_CALLS.get(type(detector.detector))
    if of_calls is None:
        count = _counts_after_steps(detector.detector, columns, layout)
        fires, unknown = count >= detector.threshold, count < 0
    else:
        count = of_calls(detector.detector, columns, layout)
        fires, unknown = (layout.flag_steps(flags) for flags in (count >= detector.threshold, count < 0))
    return np.where(_count_so_far(unknown, layout) > 0, UNKNOWN, _count_so_far(fires, layout))


_OF_CALLS: Final[Mapping[type, Count]] = {
    CallWindow: _call_window,
    Cycle: _cycles,
    ErrorStreak: _errors,
    RepeatStreak: _repeats,
    SameError: _same_errors,
    TimeoutStreak: _timeouts,
    ToolWindow: _tool_window,
}
_OF_STEPS: Final[Mapping[type, Count]] = {
    ActionStreak: _actions,
    Detections: _detections,
    FinishStreak: _finishes,
    IdleStreak: _idle_streaks,
    PerMessage: _per_message,
    RoundStreak: _rounds,
    StepRepeats: _step_repeats,
    TextContains: _contains,
    ToolErrors: _tool_errors,
}
