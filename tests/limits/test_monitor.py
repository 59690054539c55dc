"""A monitor in a loop that is not boolab's."""

import asyncio
import pickle
import subprocess
import sys
from itertools import product
from typing import Any

import pytest

import boolab as bl
from boolab.core.types import ToolCall, ToolResult, Usage
from boolab.errors import RunStopped, SettingError, UnknownCounter
from boolab.limits.monitor import Verdict

LOOK = [("look", {"what": "A"})]

ROUNDS = bl.policies["claude_code"].vary(cap={"counts": "tool_steps", "check": "response"})
"""A policy whose cap is on rounds of tool calls, evaluated at the response."""


def after(monitor: bl.Monitor, n: int = 1) -> Verdict:
    """The verdict after so many equal steps."""
    for _ in range(n):
        verdict = monitor.after(LOOK, ["seen A"])
    return verdict


def test_monitor_stops_at_the_boundary_and_names_the_rule() -> None:
    monitor = bl.Monitor(bl.max_steps(9) | bl.doom_loop(3))
    assert after(monitor, 2) == ("continue", None, "")
    verdict = after(monitor)
    assert verdict.action == "stop"
    assert verdict.stop is not None
    assert (verdict.stop.reason, verdict.stop.step, verdict.stop.value) == ("doom_loop", 3, 3)
    assert "doom_loop(3, canonical)" in verdict.message


def test_the_verdict_of_a_boundary_stands_before_the_next_calls() -> None:
    monitor = bl.Monitor(bl.max_steps(1))
    assert monitor.before(LOOK).action == "continue"
    verdict = after(monitor)
    assert monitor.before(LOOK) == monitor.before([]) == verdict == monitor.verdict
    assert monitor.steps == 1


def test_a_limit_of_zero_stops_before_the_first_step() -> None:
    verdict = bl.Monitor(bl.max_steps(0)).before(LOOK)
    assert verdict.action == "stop"
    assert "before the first step" in verdict.message


def test_a_call_that_was_not_executed_counts_nowhere() -> None:
    monitor = bl.Monitor(bl.tool_budget(2) | bl.doom_loop(2))
    assert monitor.after(LOOK * 3, ["seen", None, None]).action == "continue"
    assert monitor.counters["tool_calls"] == 1
    assert monitor.counters["repeat_streak:canonical"] == 1


def test_calls_and_results_come_in_several_forms() -> None:
    monitor = bl.Monitor(bl.doom_loop(9) | bl.error_streak(9, on_unknown="ignore"))
    monitor.after([("look", '{"a": 1}')], [ValueError("no such file")])
    monitor.after([{"name": "look", "arguments": {"a": 1}}], [("no such file", True)])
    monitor.after([{"id": "c3", "name": "look", "args": {"a": 1}}], [ToolResult("c3", "gone", is_error=True)])
    monitor.after([ToolCall("c4", "look", '{"a":1}')], [("gone", True)])
    assert monitor.counters["repeat_streak:canonical"] == 4
    assert monitor.counters["error_streak"] == 4
    monitor.after([("look", None)], [("gone", None)])
    assert monitor.counters["error_streak"] is None


@pytest.mark.parametrize(
    ("calls", "results", "usage", "message"),
    [
        (["look"], ["x"], None, "the call 'look': expected a pair"),
        ([{"arguments": {}}], ["x"], None, "with its name"),
        (LOOK, [], None, "0 results for 1 call: expected a list with one result for each call"),
        (LOOK, "x", None, "'x': expected a list"),
        (LOOK, [7], None, "the result 7: expected a text"),
        (LOOK, ["x"], {"input_token": 3}, "usage has no 'input_token'; did you mean 'input_tokens'?"),
        (LOOK, ["x"], {"input_tokens": 0.5}, "input_tokens=0.5: expected an integer"),
        (LOOK, ["x"], 7, "usage=7: expected"),
    ],
)
def test_a_value_of_another_form_is_an_error_and_counts_nothing(
    calls: Any, results: Any, usage: Any, message: str
) -> None:
    monitor = bl.Monitor(bl.max_steps(3))
    with pytest.raises(SettingError, match=message.replace("?", "\\?")):
        monitor.after(calls, results, usage)
    assert monitor.steps == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("max_steps(3)",), "is no stop rule"),
        ((None,), "there is no rule"),
        ((bl.max_steps(3), "halt"), "action='halt' is not accepted"),
    ],
)
def test_a_monitor_refuses_what_is_no_rule_or_action(arguments: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        bl.Monitor(*arguments)


def test_a_monitor_refuses_the_scope_auto_which_depends_on_a_log() -> None:
    with pytest.raises(SettingError, match="scope='auto' is not accepted; accepted: turn, run"):
        bl.Monitor(bl.max_steps(3), scope="auto")


def test_monitor_counts_usage_and_time_and_raises_on_unknown() -> None:
    monitor = bl.Monitor(bl.max_tokens(250) | bl.max_time(9, on_unknown="ignore"))
    assert monitor.after(LOOK, ["x"], {"input_tokens": 100, "output_tokens": 10}, elapsed_ms=8_000).action == "continue"
    verdict = monitor.after(LOOK, ["x"], Usage(100, 10), elapsed_ms=9_001)
    assert verdict.stop is not None
    assert (verdict.stop.reason, verdict.stop.value) == ("time_budget", 9_001)
    with pytest.raises(UnknownCounter, match="tokens unknown"):
        monitor.after(LOOK, ["x"])
    assert monitor.steps == 3


def test_shadow_never_stops_and_keeps_the_first_stop() -> None:
    monitor = bl.Monitor(bl.max_steps(2) | bl.max_tokens(1), "shadow")
    verdicts = [after(monitor) for _ in range(4)]
    assert {verdict.action for verdict in verdicts} == {"continue"}
    assert [verdict.stop is None for verdict in verdicts] == [True, False, False, False]
    assert monitor.first_stop is not None
    assert monitor.first_stop.step == 2


def test_a_nudge_comes_once_each_time_that_the_rule_becomes_true() -> None:
    monitor = bl.Monitor(bl.doom_loop(2), "nudge", nudge="Try another way.")
    others = [("look", {"what": "B"})]
    actions = [monitor.after(calls, ["x"]).action for calls in (LOOK, LOOK, LOOK, others, others)]
    assert actions == ["continue", "nudge", "continue", "continue", "nudge"]
    assert monitor.verdict.message == "Try another way."
    assert monitor.before(LOOK) == monitor.verdict


def test_a_new_turn_counts_anew_unless_the_scope_is_the_run() -> None:
    turn, run = (bl.Monitor(bl.max_steps(2), scope=scope) for scope in ("turn", "run"))
    for monitor in (turn, run):
        after(monitor)
        monitor.open_turn()
        after(monitor)
    assert (turn.steps, turn.verdict.action) == (1, "continue")
    assert (run.steps, run.verdict.action) == (2, "stop")


def test_a_monitor_counts_anew_in_each_turn_by_default() -> None:
    monitor = bl.Monitor(bl.max_steps(2))
    for _ in range(3):
        after(monitor)
        monitor.open_turn()
    assert (monitor.scope, monitor.steps, monitor.first_stop) == ("turn", 0, None)


def test_response_rule_stops_before_calls_are_executed() -> None:
    policy = ROUNDS
    monitor = bl.Monitor(policy.rule({"max_steps": 2}), at_response=policy.response_rule({"max_steps": 2}))
    after(monitor, 2)
    assert monitor.verdict.action == "continue"
    verdict = monitor.before(LOOK)
    assert verdict.stop is not None
    assert (verdict.action, verdict.stop.rule, verdict.stop.step) == ("stop", "max_tool_steps(2)", 2)
    assert monitor.before([]).action == "continue"
    assert monitor.steps == 2


def test_monitor_moves_response_rules_to_the_response() -> None:
    at_response = ROUNDS.response_rule({"max_steps": 2})
    assert at_response is not None
    monitor = bl.Monitor(bl.max_steps(9) | at_response)
    assert (str(monitor.rule), str(monitor.at_response)) == ("max_steps(9)", "max_tool_steps(2)")


def test_a_nudge_at_the_response_comes_once() -> None:
    monitor = bl.Monitor(None, "nudge", at_response=ROUNDS.response_rule({"max_steps": 1}))
    actions = []
    for _ in range(4):
        actions.append(monitor.before(LOOK).action)
        after(monitor)
    assert actions == ["continue", "nudge", "continue", "continue"]


def test_no_nudge_after_the_calls_of_a_response_that_nudged() -> None:
    for steps, rounds in product(range(1, 6), repeat=2):
        monitor = bl.Monitor(bl.max_steps(steps), "nudge", at_response=ROUNDS.response_rule({"max_steps": rounds}))
        actions = [(monitor.before(LOOK), after(monitor))[1].action for _ in range(7)]
        assert actions.count("nudge") == (steps <= rounds)


def test_a_monitor_is_the_same_after_it_was_pickled_at_any_step() -> None:
    rule = bl.doom_loop(5) | bl.error_streak(4) | bl.detectors.cycle(None, 3)
    whole, pieces = bl.Monitor(rule), bl.Monitor(rule)
    for n in range(8):
        calls = [("look", f'{{"what": {"1" if n < 4 else " 2"}, "n":{n // 7}}}')]
        verdict = whole.after(calls, ["seen"])
        pieces = pickle.loads(pickle.dumps(pieces))  # noqa: S301 - its own
        assert pieces.after(calls, ["seen"]) == verdict
        assert pieces.counters == whole.counters
        whole.before(calls)  # it counts nothing


def test_raise_if_stopped_ends_own_block_and_other_errors_pass() -> None:
    async def guarded() -> bl.Monitor:
        async with bl.Monitor(bl.max_steps(3)) as monitor:
            while True:
                after(monitor)
                monitor.raise_if_stopped()
        return monitor

    assert asyncio.run(guarded()).steps == 3
    with pytest.raises(RunStopped, match=r"stopped after step 1 by max_steps\(1\)"), bl.Monitor(bl.max_steps(9)):
        other = bl.Monitor(bl.max_steps(1))
        after(other)
        other.raise_if_stopped()


def test_decorated_step_returns_verdicts_and_ends_at_a_stop() -> None:
    monitor, made = bl.Monitor(bl.max_steps(2)), []

    @monitor.step
    async def step(name: str) -> dict[str, Any]:
        made.append(name)
        return {"calls": [(name, {})], "results": ["x"], "text": "I look."}

    async def loop() -> list[str]:
        return [(await step("look")).action for _ in range(4)]

    assert asyncio.run(loop()) == ["continue", "stop", "stop", "stop"]
    assert made == ["look", "look"]


def test_decorated_step_without_calls_finishes_the_loop() -> None:
    monitor = bl.Monitor(bl.max_steps(2))
    verdict = monitor.step(lambda: None)()
    assert (verdict.action, verdict.stop and verdict.stop.reason) == ("stop", "finished")
    with pytest.raises(SettingError, match="in the middle of a step"):
        bl.Monitor(ROUNDS.response_rule({"max_steps": 1})).step(lambda: None)


def test_lone_surrogates_count_as_the_live_loop_has_them() -> None:
    monitor = bl.Monitor(bl.doom_loop(2))
    monitor.after([("look", '"\ud800"')], ["\ud800"])
    assert monitor.after([("look", '"\ufffd"')], ["x"]).action == "stop"


def test_a_monitor_shows_its_rule_and_where_it_stands() -> None:
    monitor = bl.Monitor(bl.max_steps(1), "shadow")
    after(monitor)
    assert repr(monitor) == "<Monitor shadow max_steps(1): continue after step 1>"


def test_importing_the_monitor_needs_no_pydantic() -> None:
    heavy = ("pydantic_core", "pandas", "pathlib")
    code = f"import sys, boolab.limits.monitor; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_object_whose_call_is_async_is_a_step_too() -> None:
    class Step:
        async def __call__(self, name: str) -> Any:
            return [(name, {})], ["x"]

    monitor = bl.Monitor(bl.max_steps(2))
    step = monitor.step(Step())

    async def loop() -> list[str]:
        return [(await step("ls")).action for _ in range(3)]

    assert asyncio.run(loop()) == ["continue", "stop", "stop"]
    assert monitor.steps == 2


def test_calls_and_usage_in_the_form_of_openai_are_counted() -> None:
    monitor = bl.Monitor(bl.doom_loop(2) | bl.max_tokens(300))
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "."}'}}
    monitor.after([call], ["a.py"], usage={"prompt_tokens": 100, "completion_tokens": 20})
    assert monitor.counters["tokens"] == 120
    verdict = monitor.after([("ls", {"path": "."})], ["a.py"], usage={"input_tokens": 1, "output_tokens": 1})
    assert verdict.stop is not None
    assert verdict.stop.reason == "doom_loop"
