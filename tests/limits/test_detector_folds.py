"""Each detector against a count of its own that walks the whole list of steps anew, and live against offline."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.core.types import REDACTED, Response, ToolCall, ToolResult, Usage
from boolab.limits.detector import Detector
from boolab.limits.detectors.context import CompactionThrash, ContextGrowth
from boolab.limits.detectors.cycles import Cycle
from boolab.limits.detectors.openhands import ActionStreak
from boolab.limits.detectors.similar import SimilarStreak
from boolab.limits.detectors.streaks import (
    ErrorStreak,
    FinishStreak,
    IdleStreak,
    RepeatStreak,
    RoundStreak,
    SameError,
    ToolErrors,
)
from boolab.limits.detectors.text import RepeatedText
from boolab.limits.detectors.windows import CallWindow, StepRepeats, ToolWindow
from boolab.limits.detectors.wrappers import Detections, PerMessage, Rearmed
from boolab.limits.ladder import Watch
from tests.support.cases import cases


class Call(NamedTuple):
    """A call that got a result, flat."""

    step: int
    name: str
    arguments: str
    content: str
    error: bool | None
    thought: str


Steps = Sequence[tuple[Response, Sequence[ToolResult | None]]]

ARGUMENTS = ('{"a":1,"b":2}', '{"b":2, "a":1}', '{"a":true}', '{"a":1}', '{"a":', REDACTED)
CALLS = st.builds(
    lambda name, arguments, result: (ToolCall("", name, arguments), result),
    st.sampled_from("ttu"),
    st.sampled_from((*ARGUMENTS[:1] * 4, *ARGUMENTS)),
    st.none() | st.builds(ToolResult, st.just(""), st.sampled_from("xxy"), st.sampled_from((False, True, True, None))),
)
STEPS = st.lists(
    st.builds(
        lambda text, finish, tokens, calls: (
            Response(text, tuple(c for c, _ in calls), finish, Usage(tokens)),
            tuple(r for _, r in calls),
        ),
        st.sampled_from(("", "", "so")),
        st.sampled_from(("stop", "length", "length", None)),
        st.sampled_from((100, 130, 200, 240, None)),
        st.lists(CALLS, max_size=3),
    ),
    max_size=14,
)


def flat(steps: Steps) -> list[Call]:
    """All calls that got a result."""
    out = []
    for number, (response, results) in enumerate(steps, 1):
        first = True
        for call, result in zip(response.tool_calls, results, strict=True):
            if result is not None:
                thought = response.text if first else ""
                out.append(Call(number, call.name, call.arguments, result.content, result.is_error, thought))
                first = False
    return out


def canonical(call: Call) -> object:
    """What the call is, written out; an object of its own where nobody knows."""
    if call.arguments == REDACTED:
        return object()
    try:
        return call.name, json.dumps(json.loads(call.arguments), sort_keys=True)
    except ValueError:
        return call.name, "not JSON", call.arguments


def ordered(call: Call) -> object:
    """As `canonical`, in the order of the keys."""
    if call.arguments == REDACTED:
        return object()
    try:
        return call.name, json.dumps(json.loads(call.arguments))
    except ValueError:
        return call.name, "not JSON", call.arguments


def blocks(keys: Sequence[object], period: int) -> int:
    """How many equal blocks of a period stand at the end."""
    count = 0
    while (count + 1) * period <= len(keys):
        start = len(keys) - (count + 1) * period
        if keys[start : start + period] != keys[len(keys) - period :]:
            break
        count += 1
    return count


def run_length(keys: Sequence[object]) -> int:
    return blocks(keys, 1)


def trailing(flags: Sequence[bool | None]) -> int | None:
    """How many at the end are true; None where an unknown stands before the last false one."""
    count = 0
    for flag in reversed(flags):
        if flag is None:
            return None
        if not flag:
            return count
        count += 1
    return count


def step_repeats(steps: Steps, window: int) -> int:
    signed = []
    for number in range(1, len(steps) + 1):
        calls = [call for call in flat(steps) if call.step == number]
        kept_back = any(call.arguments == REDACTED for call in calls)
        signed.append(object() if kept_back else tuple((c.name, c.arguments, c.content) for c in calls))
    last = signed[-window:]
    return max((last.count(one) for one in last if one != ()), default=0) if len(last) == window else 0


def tool_window(steps: Steps, window: int, tool: str | None) -> int:
    names = [call.name for call in flat(steps)][-window:]
    return max((names.count(name) for name in names if tool in (None, name)), default=0)


def round_streak(steps: Steps) -> int:
    """Of the last step that called anything: each tool's streak of equal sets, the largest."""
    keyed = [(call.step, call.name, canonical(call)) for call in flat(steps)]
    last = max((number for number, _, _ in keyed), default=0)
    streaks = [0]
    for tool in {name for number, name, _ in keyed if number == last}:
        numbers = sorted({number for number, name, _ in keyed if name == tool})
        streaks.append(run_length([frozenset(k for n, name, k in keyed if name == tool and n == at) for at in numbers]))
    return max(streaks)


def same_error(steps: Steps) -> int | None:
    calls = flat(steps)
    mine = [call for call in calls if call.name == calls[-1].name] if calls else []
    count = 0
    for place in range(len(mine) - 1, -1, -1):
        call = mine[place]
        if call.error is None and place == len(mine) - 1:
            return None
        if call.error is False or call.content[:100] != mine[-1].content[:100]:
            return count
        if call.error is None:
            return None
        count += 1
    return count


def tool_errors(steps: Steps) -> int | None:
    """In how many steps the same tool failed, the largest of all tools."""
    calls = flat(steps)
    failed = {(call.name, call.step) for call in calls if call.error}
    count = max(Counter(name for name, _ in failed).values(), default=0)
    return None if any(call.error is None for call in calls) else count


def events(steps: Steps) -> list[tuple[str, object, object]]:
    """What OpenHands would have on record, each action with its call and observation."""
    out: list[tuple[str, object, object]] = []
    for number, (response, _) in enumerate(steps, 1):
        calls = [call for call in flat(steps) if call.step == number]
        out += [("action", (canonical(c), c.thought), (c.content, c.error)) for c in calls]
        out += [("observation", None, None)] * len(calls)
        if not response.tool_calls:
            out.append(("message", None, None))
    return out


def actions(steps: Steps, pattern: str) -> int | None:
    recorded = events(steps)
    acted = [event for event in recorded if event[0] == "action"]
    if pattern == "repeating":
        count: int | None = run_length(acted)
    elif pattern == "alternating":
        count = min(len(acted), 2)
        while 2 <= count < len(acted) and acted[-count - 1] == acted[-count + 1]:
            count += 1
    else:
        length = run_length([action for _, action, _ in acted])
        count = trailing([outcome[1] for _, _, outcome in acted[len(acted) - length :]])  # type: ignore[index]
    window = [kind for kind, _, _ in recorded[-20:]]
    return count and min(count, window.count("action"), window.count("observation"))


def per_message(steps: Steps) -> int:
    """The most equal calls in a row within the last step."""
    keys = [ordered(call) for call in flat(steps) if call.step == len(steps)]
    return max((run_length(keys[:end]) for end in range(1, len(keys) + 1)), default=0)


def rearmed(steps: Steps, threshold: int) -> int:
    """The streak of the calls since it last was at the threshold; at the end of a step in which it was, that."""
    calls = flat(steps)
    keys = [canonical(call) for call in calls]
    start = fired = 0
    for end in range(1, len(keys) + 1):
        if run_length(keys[start:end]) >= threshold:
            start, fired = end, calls[end - 1].step
    return threshold if fired == len(steps) and fired else run_length(keys[start:])


def detections(steps: Steps, repeats: int) -> int:
    calls = flat(steps)
    keys = [ordered(call) for call in calls]
    found = {
        calls[end - 1].step
        for end, period in product(range(1, len(keys) + 1), range(1, 6))
        if blocks(keys[:end], period) >= repeats
    }
    return len(found)


def common(one: str, other: str) -> int:
    """The length of the longest sequence of characters that is found in both, with gaps."""
    row = [0] * (len(other) + 1)
    for a in one:
        before = row
        row = [0]
        for place, b in enumerate(other):
            row.append(before[place] + 1 if a == b else max(before[place + 1], row[-1]))
    return row[-1]


def alike(one: str, other: str, tenths: int) -> bool:
    return one == other or 20 * common(one, other) >= tenths * (len(one) + len(other))


def compact(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return arguments


def similar(call: Call, other: Call, tenths: int, results: bool) -> bool | None:
    """Whether a call is similar to another one; None where arguments are kept back."""
    if call.name != other.name or (results and not alike(call.content, other.content, tenths)):
        return False
    if REDACTED in (call.arguments, other.arguments):
        return None
    return alike(compact(call.arguments), compact(other.arguments), tenths)


def similar_streak(steps: Steps, tenths: int, *, results: bool = False) -> int | None:
    calls = flat(steps)
    streak = trailing([similar(*pair, tenths, results) for pair in pairwise(calls)])
    return streak if streak is None else streak + (calls != [])


def call_window(steps: Steps, window: int, key: Callable[[Call], object]) -> int:
    keys = [key(call) if call.arguments != REDACTED else None for call in flat(steps)[-window:]]
    return max((keys.count(one) for one in keys if one is not None), default=0)


def context_growth(steps: Steps, key: Callable[[Call], object], exempt: str = "") -> int | None:
    """What the input tokens rose by among the steps since the last one with a call that was not made before."""
    made: set[object] = set()
    news: list[bool | None] = []
    for number in range(1, len(steps) + 1):
        calls = [call for call in flat(steps) if call.step == number and call.name != exempt]
        keys = {key(call) for call in calls if call.arguments != REDACTED}
        unknown = any(call.arguments == REDACTED for call in calls)
        news.append(True if keys - made else None if unknown else False)
        made |= keys
    since = len(news) - news[::-1].index(True) if True in news else 0
    if None in news[since:]:
        return None
    pairs = list(pairwise(response.usage.input_tokens for response, _ in steps[since:]))
    if any(None in pair for pair in pairs):
        return None
    return sum(max(0, (b or 0) - (a or 0)) for a, b in pairs)


def keys_of(steps: Steps, key: Callable[[Call], object]) -> list[object]:
    return [key(call) for call in flat(steps)]


Naive = Callable[[Steps], int | None]


def largest_of(detector: Detector, naive: Naive) -> Naive:
    """A count after the latest call as rules read it: the largest count after a call of the last step."""
    if not isinstance(detector, OF_CALLS) or detector in AT_THE_LAST_CALL:
        return naive

    def largest(steps: Steps) -> int | None:
        response, results = steps[-1]
        places = [place for place, result in enumerate(results) if result is not None] or [len(results)]
        counts = []
        for place in places:
            step = response, [*results[: place + 1], *(None for _ in results[place + 1 :])]
            counts.append(naive([*steps[:-1], step]))
        known = [count for count in counts if count is not None]
        return max(known) if len(known) == len(counts) else None

    return largest


OF_CALLS = (RepeatStreak, ErrorStreak, SameError, Cycle, ToolWindow, CallWindow, SimilarStreak)
AT_THE_LAST_CALL = [RepeatStreak("canonical", last_call=True)]
COUNTS_AFTER_A_CALL: list[tuple[Detector, Naive]] = [
    (RepeatStreak("raw"), lambda s: run_length(keys_of(s, lambda c: c[1:3] if c.arguments != REDACTED else object()))),
    (RepeatStreak("ordered"), lambda s: run_length(keys_of(s, ordered))),
    (RepeatStreak("canonical"), lambda s: run_length(keys_of(s, canonical))),
    (AT_THE_LAST_CALL[0], lambda s: run_length(keys_of(s, canonical))),
    (RepeatStreak("call+result"), lambda s: run_length(keys_of(s, lambda c: (canonical(c), c.content)))),
    (RepeatStreak("tool"), lambda s: run_length(keys_of(s, lambda c: c.name))),
    (
        RepeatStreak.of({"*": "ordered", "u": None}),
        lambda s: run_length(keys_of(s, lambda c: ordered(c) if c.name != "u" else object())),
    ),
    (ErrorStreak(), lambda s: trailing([call.error for call in flat(s)])),
    *((Cycle.of(p, "canonical"), lambda s, p=p: blocks(keys_of(s, canonical), p)) for p in (1, 2, 3, 7)),
    (Cycle.of(None, "ordered"), lambda s: max(blocks(keys_of(s, ordered), p) for p in range(1, 6))),
    (Cycle.of(2, {"u": "tool"}), lambda s: blocks(keys_of(s, lambda c: c.name if c.name == "u" else canonical(c)), 2)),
    (StepRepeats(4), lambda s: step_repeats(s, 4)),
    (StepRepeats(10), lambda s: step_repeats(s, 10)),
    (ToolWindow(5), lambda s: tool_window(s, 5, None)),
    (ToolWindow(5, "u"), lambda s: tool_window(s, 5, "u")),
    (RoundStreak(), round_streak),
    (SameError(), same_error),
    (ToolErrors(), tool_errors),
    (FinishStreak("length"), lambda s: trailing([r.finish_reason and r.finish_reason == "length" for r, _ in s])),  # type: ignore[misc]
    (IdleStreak(), lambda s: trailing([not any(given) for _, given in s])),
    (ActionStreak("repeating"), lambda s: actions(s, "repeating")),
    (ActionStreak("failing"), lambda s: actions(s, "failing")),
    (ActionStreak("alternating"), lambda s: actions(s, "alternating")),
    (PerMessage(RepeatStreak("ordered")), per_message),
    (Rearmed(RepeatStreak(), 3), lambda s: rearmed(s, 3)),
    (Detections(Cycle("ordered"), 2), lambda s: detections(s, 2)),
    (SimilarStreak(similarity=0.7), lambda s: similar_streak(s, 7)),
    (SimilarStreak("call+result", similarity=0.6), lambda s: similar_streak(s, 6, results=True)),
    (CallWindow(window=5), lambda s: call_window(s, 5, canonical)),
    (CallWindow("call+result", window=3), lambda s: call_window(s, 3, lambda c: (canonical(c), c.content))),
    (ContextGrowth(), lambda s: context_growth(s, lambda c: (canonical(c), c.content))),
    (ContextGrowth("ordered", (("u", None),)), lambda s: context_growth(s, ordered, "u")),
    (CompactionThrash(), lambda _: 0),  # tests/limits/test_compactions.py compacts
]
FOLDS = [(detector, largest_of(detector, naive)) for detector, naive in COUNTS_AFTER_A_CALL]
ALL = [*(detector for detector, _ in FOLDS), RepeatedText()]


@cases(100)
@given(STEPS)
def test_each_fold_counts_what_a_walk_over_all_steps_counts(steps: Any) -> None:
    watch, counts = Watch([detector for detector, _ in FOLDS]), {d.name: 0 for d, _ in FOLDS}
    for end, (response, results) in enumerate(steps, 1):
        watch.complete(response, results, counts)  # type: ignore[arg-type] # an int is an int or None
        expected = {detector.name: naive(steps[:end]) for detector, naive in FOLDS}
        assert counts == expected


def counts_of(detector: Detector, steps: Steps) -> list[int | None]:
    watch, counts = Watch([detector]), {detector.name: 0}
    out = []
    for response, results in steps:
        watch.complete(response, results, counts)  # type: ignore[arg-type] # an int is an int or None
        out.append(counts[detector.name])
    return list(out)


def one_call(arguments: str = "{}", content: str = "x", text: str = "") -> tuple[Response, list[ToolResult | None]]:
    return Response(text, (ToolCall("", "t", arguments),)), [ToolResult("", content)]


def test_step_repeats_takes_no_redacted_step_for_another() -> None:
    for texts in product(["{}", "[]", REDACTED], repeat=5):
        steps = [one_call(text) for text in texts]
        assert counts_of(StepRepeats(4), steps) == [step_repeats(steps[:end], 4) for end in range(1, 6)]


SAID: tuple[Response, list[ToolResult | None]] = (Response("I think."), [])


def test_openhands_looks_at_the_last_twenty_events() -> None:
    near, far = [one_call(), SAID], [one_call(), SAID, SAID, SAID]
    assert counts_of(ActionStreak("alternating"), near * 9)[::2] == [1, 2, 3, 4, 5, 6, 7, 7, 7]
    assert counts_of(ActionStreak("repeating"), far * 6)[::4] == [1, 2, 3, 4, 4, 4]


CHANT = "The same old words, over and over and over again and again. "
AT_250 = "".join(f"w{i:04}" for i in range(50))
"""A text of 250 characters in which no chunk occurs twice: the largest mean distance of a chunk that repeats."""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (CHANT * 10, 1),
        (CHANT * 9, 0),
        (CHANT * 9 + CHANT[:50], 1),
        (CHANT * 9 + CHANT[:49], 0),
        (AT_250 * 10, 1),
        (f"{AT_250}." * 10, 0),
        ((CHANT + "".join(f"{i:04}" for i in range(60))) * 12, 0),
        ("".join(f"{CHANT}{i}" for i in range(10, 30)), 0),
        ("".join(f"{CHANT}{i % 4}" for i in range(20)), 1),
        (f"```\n{CHANT * 12}\n```", 0),
        (f"{CHANT * 6}\n# And now\n{CHANT * 6}", 0),
        (f"{CHANT * 6}\nAnd now\n{CHANT * 6}", 1),
        ("\n".join(f"* {CHANT}" for _ in range(20)), 0),
        ("ab" * 40, 1),
        ("", 0),
    ],
)
def test_repeated_text_needs_ten_close_copies_of_a_chunk(text: str, found: int) -> None:
    assert counts_of(RepeatedText(), [(Response(text), [])]) == [found]


def test_chanting_goes_on_over_responses_until_a_call() -> None:
    half: tuple[Response, list[ToolResult | None]] = (Response(CHANT * 5), [])
    assert counts_of(RepeatedText(), [half] * 4) == [0, 1, 1, 2]
    assert counts_of(RepeatedText(), [one_call(text=CHANT * 5)] * 4) == [0, 0, 0, 0]
    long: tuple[Response, list[ToolResult | None]] = (Response("".join(f"{i:>7}" for i in range(1000))), [])
    assert counts_of(RepeatedText(), [half, long, half]) == [0, 0, 0]


def test_every_detector_has_a_name_of_its_own() -> None:
    assert len({detector.name for detector in ALL}) == len(ALL)


@cases(50)
@given(STEPS, STEPS)
def test_detectors_can_be_shared_because_they_remember_nothing(one: Any, other: Any) -> None:
    def alone(steps: Any) -> list[dict[str, int | None]]:
        watch, out = Watch(ALL), []
        for response, results in steps:
            out.append(dict[str, int | None]())
            watch.complete(response, results, out[-1])
        return out

    expected = alone(one), alone(other)
    watches, got = (Watch(ALL), Watch(ALL)), ([], [])  # type: ignore[var-annotated]
    for at in range(max(len(one), len(other))):
        for watch, steps, out in zip(watches, (one, other), got, strict=True):
            if at < len(steps):
                out.append({})
                watch.complete(steps[at][0], steps[at][1], out[-1])
    assert got == expected


@pytest.mark.parametrize("detector", ALL, ids=lambda detector: detector.name)
def test_the_smallest_threshold_is_not_reached_by_a_single_call(detector: Detector) -> None:
    counts: dict[str, int | None] = {detector.name: 0}
    Watch([detector]).complete(Response("", (ToolCall("", "t", "{}"),), "stop"), [ToolResult("", "x")], counts)
    count = counts[detector.name]
    assert count is not None
    assert count < max(detector.least, 1)
