"""Each feature against a computation of its own over the whole list of steps, and what all features have in common."""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given

import boolab as bl
from boolab.core.types import Response, ToolCall, ToolResult, Usage
from boolab.limits.call_identity import ObservedCall
from boolab.limits.learned.features import DEFAULT, FEATURES, MEMORY, RECENT, FeatureReader, check_features
from tests.limits.test_detector_folds import STEPS, Call, Steps, blocks, canonical, flat, run_length, trailing
from tests.support.cases import cases


def log(n: float) -> float:
    return math.log1p(n)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def old(keys: Sequence[object]) -> list[bool]:
    """Whether each key came before."""
    return [key in keys[:place] for place, key in enumerate(keys)]


def repeats(name: str, keys: Sequence[object]) -> dict[str, float]:
    flags = old(keys)
    cycle = max(blocks(keys, period) for period in range(2, 6)) if keys else 1
    return {
        f"{name}_streak": log(run_length(keys)),
        f"{name}_old_streak": log(trailing(flags) or 0),
        f"{name}_old_recent": sum(flags[-RECENT:]) / RECENT,
        f"{name}_new_share": 1 - mean(flags),
        f"{name}_cycle": log(max(cycle, 1) - 1),
    }


def errors(calls: Sequence[Call]) -> dict[str, float | None]:
    known = [call.error for call in calls if call.error is not None]
    streak = trailing([call.error for call in calls])
    share = None if calls and not known else mean([bool(error) for error in known])
    recent = None if calls and not known else mean([bool(error) for error in known[-RECENT:]])
    return {"error_streak": None if streak is None else log(streak), "error_share": share, "error_recent": recent}


def expected(steps: Steps) -> dict[str, float | None]:
    """All features after these steps, written out."""
    calls = flat(steps)
    keys = [canonical(call) for call in calls]
    # An object that equals nothing stays so beside its result.
    both = [key if type(key) is object else (key, call.content) for key, call in zip(keys, calls, strict=True)]
    sent, got = ([len(getattr(call, part)) for call in calls] for part in ("arguments", "content"))
    texts = [len(response.text) for response, _ in steps]
    idle = trailing([not any(results) for _, results in steps])
    tools = [call.name for call in calls]
    used = [response.usage for response, _ in steps]
    unknown = any(one.output_tokens is None for one in used)
    return {
        "steps": len(steps),
        "log_steps": log(len(steps)),
        "calls_per_step": log(len(calls) / len(steps)),
        "idle_streak": log(idle or 0),
        **repeats("calls", keys),
        **repeats("results", [call.content for call in calls]),
        **repeats("both", both),
        **errors(calls),
        "arguments_last": log(sent[-1] if sent else 0),
        "arguments_mean": log(mean(sent)),
        "result_last": log(got[-1] if got else 0),
        "result_mean": log(mean(got)),
        "result_recent": log(mean(got[-RECENT:])),
        "result_growth": log(got[-1] if got else 0) - log(mean(got)),
        "empty_streak": log(trailing([not n for n in got]) or 0),
        "text_last": log(texts[-1]),
        "text_mean": log(mean(texts)),
        "tool_streak": log(run_length(tools)),
        "tool_changes": mean([a != b for a, b in zip(tools, [*tools[:1], *tools], strict=False)]),
        "distinct_tools": log(len({*tools})),
        "input_tokens": None if used[-1].input_tokens is None else log(used[-1].input_tokens),
        "output_tokens": None if used[-1].output_tokens is None else log(used[-1].output_tokens),
        "all_output_tokens": None if unknown else log(sum(one.output_tokens or 0 for one in used)),
    }


def folded(steps: Steps, reader: FeatureReader) -> list[list[float | None]]:
    """The values after each step."""
    state, out = reader.start, []
    for number, (response, results) in enumerate(steps, 1):
        for call, result in zip(response.tool_calls, results, strict=True):
            if result is not None:
                state = reader.fold(state, ObservedCall(call, result, number))
        state = reader.close(state, response)
        out.append(reader.values(state))
    return out


@cases(120)
@given(STEPS)
def test_each_feature_is_what_a_walk_over_all_steps_counts(steps: Steps) -> None:
    names = [*FEATURES]
    for n, values in enumerate(folded(steps, FeatureReader(names)), 1):
        plain = expected(steps[:n])
        assert dict(zip(names, values, strict=True)) == pytest.approx(plain), n
        assert plain.keys() == FEATURES.keys()


@cases(40)
@given(STEPS, STEPS)
def test_a_state_can_be_folded_further_twice(steps: Steps, others: Steps) -> None:
    reader = FeatureReader([*FEATURES])
    state = reader.start
    for number, (response, results) in enumerate(steps, 1):
        for call, result in zip(response.tool_calls, results, strict=True):
            if result is not None:
                state = reader.fold(state, ObservedCall(call, result, number))
        state = reader.close(state, response)
    before = copy.deepcopy(reader.values(state))
    for response, results in others:
        branch = state
        for call, result in zip(response.tool_calls, results, strict=True):
            if result is not None:
                branch = reader.fold(branch, ObservedCall(call, result))
        reader.close(branch, response)
    assert reader.values(state) == before


def same_call(n: int, arguments: str, content: str = "x", error: bool | None = False) -> tuple[Response, list[Any]]:
    return Response("", (ToolCall(str(n), "t", arguments),)), [ToolResult(str(n), content, is_error=error)]


def test_a_call_is_new_again_once_it_is_out_of_memory() -> None:
    between = [same_call(n, f'{{"n":{n}}}') for n in range(MEMORY)]
    reader = FeatureReader(["calls_old_streak"])
    assert folded([same_call(-1, "{}"), *between[1:], same_call(-1, "{}")], reader)[-1] == [log(1)]
    assert folded([same_call(-1, "{}"), *between, same_call(-1, "{}")], reader)[-1] == [log(0)]


def test_the_state_does_not_grow_with_the_run() -> None:
    reader = FeatureReader([*FEATURES])

    def size(n: int) -> int:
        state = reader.start
        for place in range(n):
            state = reader.fold(state, ObservedCall(ToolCall("", f"tool{place}", f'"{place}"'), ToolResult("", "x")))
            state = reader.close(state, Response())
        return sum(len(part) for family in state for part in family if isinstance(part, tuple))

    assert size(3 * MEMORY) == size(2 * MEMORY)


NO_STATUS: Steps = [same_call(1, "{}", error=None)]
UNKNOWN: Mapping[str, Steps] = {
    "error_streak": NO_STATUS,
    "error_share": NO_STATUS,
    "error_recent": NO_STATUS,
    "input_tokens": NO_STATUS,
    "output_tokens": NO_STATUS,
    "all_output_tokens": [*NO_STATUS, (Response(usage=Usage(3, 4)), [])],
}


@pytest.mark.parametrize("name", FEATURES)
def test_only_errors_and_tokens_can_be_unknown(name: str) -> None:
    assert (folded(UNKNOWN.get(name, NO_STATUS), FeatureReader([name]))[-1] == [None]) == (name in UNKNOWN)


def test_error_share_counts_only_calls_of_known_status() -> None:
    steps = [same_call(n, "{}", error=error) for n, error in enumerate([True, None, False, True])]
    assert folded(steps, FeatureReader(["error_share", "error_streak"]))[-1] == [pytest.approx(2 / 3), log(1)]


def test_a_detector_is_a_feature_too() -> None:
    streak, idle = bl.detectors.RepeatStreak("raw"), bl.detectors.IdleStreak()
    steps = [same_call(1, "{}"), same_call(2, "{}"), (Response("?"), [])]
    values = folded(steps, FeatureReader(["steps", streak.name, idle.name], [streak, idle]))
    assert values == [[1, log(1), 0], [2, log(2), 0], [3, log(2), log(1)]]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "expected at least one name"),
        (["stepz"], "feature 'stepz' is not known; did you mean 'steps'?"),
        (["steps", "steps"], "feature 'steps' is here twice"),
    ],
)
def test_features_that_do_not_exist_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(bl.SettingError, match=message.replace("?", "[?]")):
        check_features(names)


def test_the_default_needs_no_tokens() -> None:
    assert {*FEATURES} - {*DEFAULT} == {"input_tokens", "output_tokens", "all_output_tokens"}
    assert all(feature.meaning and feature.source for feature in FEATURES.values())
