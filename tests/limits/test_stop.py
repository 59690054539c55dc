"""The algebra of stop rules."""

import functools
import math
import operator
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from boolab.core.types import Response, Step, ToolCall, ToolResult, Usage
from boolab.errors import SettingError, UnknownCounter
from boolab.limits.catalog import (
    ceiling,
    doom_loop,
    error_streak,
    max_cost,
    max_steps,
    max_time,
    max_tokens,
    tool_budget,
)
from boolab.limits.ladder import LadderState, Progress
from boolab.limits.stop import MAX_DEPTH, StopRule


def verdict(rule: StopRule, **counters: int | None) -> Any:
    return rule.verdict(Progress(**counters))


def test_a_rule_fires_from_its_threshold_on() -> None:
    assert verdict(max_steps(3), steps=2) is None
    assert verdict(max_steps(3), steps=3).value == 3
    assert verdict(max_steps(3), steps=4).overshoot == 1


def test_the_stop_tells_rule_threshold_value_and_boundary() -> None:
    stop = verdict(max_steps(9) | tool_budget(5), steps=2, tool_calls=7)
    assert stop == ("tool_budget", 2, "tool_budget(5)", 5, 7, ())
    assert stop.overshoot == 2


def test_or_rule_names_first_true_member_and_lists_the_others() -> None:
    rule = tool_budget(5) | max_steps(2) | max_cost(1)
    stop = verdict(rule, steps=2, tool_calls=5, cost=2_000_000)
    assert (stop.reason, stop.also_fired) == ("tool_budget", ("step_cap", "cost_budget"))
    stop = verdict(rule, steps=2, tool_calls=4)
    assert (stop.reason, stop.also_fired) == ("step_cap", ())


def test_and_gives_the_reason_of_its_first_member() -> None:
    rule = tool_budget(5) & max_steps(2)
    assert verdict(rule, steps=1, tool_calls=5) is None
    assert verdict(rule, steps=2, tool_calls=5).reason == "tool_budget"


def test_or_inside_and_gives_the_reason_of_the_true_alternative() -> None:
    rule = (tool_budget(5) | max_steps(2)) & max_time(1)
    assert verdict(rule, steps=2, elapsed=1000).reason == "step_cap"


def test_operators_flatten_and_print_as_they_were_written() -> None:
    a, b, c = max_steps(1), tool_budget(2), max_cost(0.5)
    assert (a | b) | c == a | (b | c)
    assert str(a | (b & c)) == "max_steps(1) | tool_budget(2) & max_cost(0.5)"
    assert str((a | b) & c) == "(max_steps(1) | tool_budget(2)) & max_cost(0.5)"
    assert (a & b) & c == a & b & c
    assert str(ceiling(200)) == "ceiling(200)"


@pytest.mark.parametrize(
    ("tokens", "steps", "expected"),
    [(None, 5, True), (None, 4, None), (9, 5, True), (9, 4, False), (10, 4, True)],
)
def test_or_rule_with_an_unknown_is_true_or_unknown(tokens: int | None, steps: int, expected: bool | None) -> None:
    rule = max_tokens(10) | max_steps(5)
    assert rule(Progress(tokens=tokens, steps=steps)) is expected
    flipped = max_steps(5) | max_tokens(10)
    assert flipped(Progress(tokens=tokens, steps=steps)) is expected


@pytest.mark.parametrize(
    ("tokens", "steps", "expected"),
    [(None, 5, None), (None, 4, False), (9, 5, False), (10, 5, True)],
)
def test_and_rule_with_an_unknown_is_false_or_unknown(tokens: int | None, steps: int, expected: bool | None) -> None:
    assert (max_tokens(10) & max_steps(5))(Progress(tokens=tokens, steps=steps)) is expected
    assert (max_steps(5) & max_tokens(10))(Progress(tokens=tokens, steps=steps)) is expected


def test_an_unknown_that_decides_is_named() -> None:
    with pytest.raises(UnknownCounter, match=r"max_tokens\(10\) \| max_cost\(1\) cannot be decided: cost, tokens"):
        verdict(max_tokens(10) | max_cost(1), tokens=None, cost=None)


def test_an_unknown_may_be_ignored() -> None:
    assert verdict(max_tokens(10, on_unknown="ignore"), tokens=None) is None
    frame = pd.DataFrame({"tokens": pd.array([5, None, 10], dtype="Int64")})
    assert max_tokens(10, on_unknown="ignore")(frame).tolist() == [False, False, True]
    assert max_tokens(10)(frame).tolist() == [False, pd.NA, True]


def test_the_same_predicate_takes_a_number_or_a_column() -> None:
    rule = max_steps(3) | (tool_budget(4) & max_tokens(10))
    rows = [(s, t, k) for s in (2, 3) for t in (3, 4) for k in (None, 9, 10)]
    frame = pd.DataFrame(rows, columns=["steps", "tool_calls", "tokens"]).astype("Int64")
    column = rule(frame)
    for i, (s, t, k) in enumerate(rows):
        expected = rule(Progress(steps=s, tool_calls=t, tokens=k))
        assert (column[i] is pd.NA and expected is None) or column[i] == expected


def test_rules_are_combined_by_operators_and_by_nothing_else() -> None:
    with pytest.raises(TypeError, match="combine rules with | and &, not with `or` and `and`"):
        _ = max_steps(2) and max_cost(1)
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = max_steps(2) | cast("Any", 3)
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = max_steps(2) & cast("Any", 3)


def test_a_tiny_budget_is_not_none() -> None:
    assert [next(rule.leaves()).threshold for rule in (max_cost(1e-9), max_time(1e-9))] == [1, 1]
    assert [next(rule.leaves()).threshold for rule in (max_cost(0), max_time(0))] == [0, 0]
    assert str(max_cost(0.1234567)) == "max_cost(0.1234567)"


def test_money_and_time_are_integers_inside() -> None:
    assert next(max_cost(0.1 + 0.2).leaves()).threshold == 300_000
    assert next(max_time(1.5).leaves()).threshold == 1500


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: max_steps(-1), r"max_steps\(-1\): expected an integer >= 0"),
        (lambda: max_steps(True), r"max_steps\(True\): expected an integer >= 0"),
        (lambda: max_steps(cast("Any", 2.0)), "expected an integer"),
        (lambda: doom_loop(1), r"doom_loop\(1\): expected an integer >= 2"),
        (lambda: doom_loop(3, "hash"), "identity 'hash' is not known; accepted: raw, ordered, canonical"),
        (lambda: error_streak(0), r"error_streak\(0\): expected an integer >= 1"),
        (lambda: max_cost(float("nan")), "expected a number >= 0"),
        (lambda: max_time(-1), "expected a number >= 0"),
        (lambda: max_cost(1e308), "max_cost: the number is too large: expected at most 9,223,372,036,854"),
        (lambda: max_cost(10**400), "max_cost: the number is too large"),
        (lambda: max_time(math.inf), "max_time: the number is too large"),
        (lambda: max_steps(10**30), "max_steps: the number is too large: expected at most 9,223,372,036,854,775,807"),
        (lambda: max_tokens(5, of=cast("Any", "words")), "accepted: tokens, input_tokens, output_tokens, fresh, weigh"),
        (lambda: max_tokens(5, of="weighted"), "weights=None: expected weights such as"),
        (lambda: max_tokens(5, of="fresh", weights={"output": 1}), "weights are for of='weighted', not for of='fresh'"),
        (lambda: max_tokens(5, of="weighted", weights={"outputs": 1}), "no weight 'outputs'; did you mean 'output'"),
        (lambda: max_tokens(5, of="weighted", weights={"output": -1}), "output=-1: expected a number from 0"),
        (lambda: max_tokens(5, of="weighted", weights={"input": 1e-9}), "input=1e-09: expected .* 6 decimals at most"),
        (lambda: max_tokens(5, on_unknown=cast("Any", "maybe")), "accepted: error, ignore"),
    ],
)
def test_a_bad_limit_is_an_error_that_says_what_is_accepted(make: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make()


def test_any_number_of_alternatives_is_one_level() -> None:
    rule = functools.reduce(operator.or_, map(max_steps, range(3_000, 0, -1)))
    assert rule.depth == 1
    verdict = rule.verdict(Progress(steps=2_999))
    assert verdict is not None
    assert (verdict.rule, len(verdict.also_fired)) == ("max_steps(2999)", 2_998)


@pytest.mark.parametrize(
    "nest",
    [
        lambda rule: max_steps(9) | (tool_budget(9) & rule),
        lambda rule: max_steps(9) & rule,
    ],
)
def test_rules_nested_too_deep_are_refused_when_they_are_made(nest: Any) -> None:
    rule = max_steps(1)
    while rule.depth < MAX_DEPTH - 1:
        rule = nest(rule)
    assert rule(Progress(steps=9, tool_calls=9))
    assert str(rule)
    assert list(rule.leaves())
    with pytest.raises(SettingError, match="levels of rules nested in one another: expected at most 100"):
        functools.reduce(lambda rule, _: nest(rule), range(3_000), rule)


def test_numpy_integers_are_integers() -> None:
    assert max_steps(cast("int", np.int64(3))) == max_steps(3)


def test_progress_counts_only_what_got_a_result() -> None:
    ladder = LadderState(doom_loop(3).detectors())
    calls = tuple(ToolCall(str(i), "ls", "{}") for i in range(3))
    response = Response("", calls, usage=Usage(10, 2, cost=5))
    ladder.apply(Step(1, 1, 0, 40, 40, response, (ToolResult("0", "x"), None, ToolResult("2", "x"))))
    assert ladder.counters == {
        "steps": 1,
        "tool_calls": 2,
        "input_tokens": 10,
        "output_tokens": 2,
        "tokens": 12,
        "cost": 5,
        "elapsed": 40,
        "repeat_streak:canonical": 2,
    }


def test_an_unknown_amount_makes_the_sum_unknown_for_good() -> None:
    ladder = LadderState()
    for usage in (Usage(10, 2, cost=5), Usage(10, None, cost=5), Usage(10, 2, cost=5)):
        ladder.apply(Step(1, 1, 0, 1, 1, Response(usage=usage)))
    progress = ladder.counters
    assert (progress["input_tokens"], progress["output_tokens"], progress["tokens"]) == (30, None, None)
    assert progress["cost"] == 15
    ladder.apply(Step(4, 1, None, None, None, Response()))
    assert [progress[name] for name in ("input_tokens", "cost", "elapsed")] == [None, None, None]
