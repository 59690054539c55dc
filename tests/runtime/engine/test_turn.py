"""How steps end: each row of the table of transitions, and what used to go wrong between them."""

import asyncio
from typing import Any, Final

import pytest

import boolab as bl
from tests.support.helpers import TOOLS, call, play

PLAIN = bl.Policy(name="plain").vary(cap={"ceiling": 20})


async def written(_calls: Any, _results: Any) -> str:
    """A synthesis that always writes."""
    return "Written."


# --- Faults, each with the run that showed it -------------------------------------------------------------------------


def test_after_a_fatal_failure_of_a_tool_no_synthesis_is_asked() -> None:
    policy = PLAIN.vary(execution={"tool_failures": "fatal"})
    run = play([{"tool_calls": [call("fail")]}], policy=policy, synthesis=written)
    assert (run.stop_reason, run.synthesis, run.text) == ("error", None, "")


def test_calls_dropped_by_an_unknown_counter_have_no_result() -> None:
    policy = PLAIN.vary(budgets={"tokens": 10, "after": "exceeded", "before": "unchecked", "on_unknown": "error"})
    run = play([{"tool_calls": [call(), call("write")]}], policy=policy)
    assert (run.stop_reason, run.n_tool_calls, run.steps[0].results) == ("error", 0, (None, None))
    assert str(run.error).startswith("UnknownCounter")


IDLE: Final = [{"tool_calls": [call()]}, "I am done.", {"tool_calls": [call("complete_task")]}]
"""A call, a response without one, and the end that a subagent of Gemini CLI has to name."""


def complete_task() -> str:
    """Complete the task."""
    return "completed"


def idle_run(**options: Any) -> bl.Run:
    """A run that falls silent once."""
    return bl.run_sync(None, "go", model=bl.ScriptedModel(IDLE), tools=[*TOOLS, complete_task], **options)


def test_idle_response_counts_live_as_in_the_counterfactual() -> None:
    run = idle_run(policy="gemini_subagent")
    offline = bl.counterfactual(run, rules=bl.max_steps(2)).iloc[0]
    live = idle_run(policy="gemini_subagent", stop=bl.max_steps(2))
    assert (run.stop_reason, run.n_steps) == ("finished", 3)
    assert (live.stop_reason, live.stop_step) == (offline["stop_reason"], offline["stop_step"]) == ("step_cap", 2)


def test_idle_response_at_the_cap_still_gets_its_grace_step() -> None:
    run = idle_run(policy=bl.policies["gemini_subagent"].vary(cap={"max_steps": 2}))
    assert (run.stop_reason, run.n_steps) == ("finished", 3)
    assert [event.kind for event in run.events] == ["grace"]


def test_grace_step_stops_at_one_boundary_however_it_ends() -> None:
    policy = bl.policies["gemini_subagent"]
    stops = [play(["Idle.", last], policy=policy).stop for last in ("Still.", {"error": {"status": 500}})]
    assert [stop[:3] for stop in stops] == [("error_streak", 1, "no call of a finishing tool")] * 2


def test_grace_step_is_last_even_if_the_last_step_is_a_prompt() -> None:
    policy = PLAIN.vary(
        last_step={"action": "prompt"}, finish={"idle": "grace", "conditions": (), "tools": ("submit",)}
    )
    run = play([{"text": "Idle.", "repeat": 3_000}], policy=policy)
    assert (run.n_steps, run.stop[:2]) == (2, ("error_streak", 1))


def test_a_run_cannot_pause_in_its_grace_step_to_get_another_one() -> None:
    policy = PLAIN.vary(
        cap={"max_steps": 1}, last_step={"action": "grace"}, finish={"conditions": (), "tools": ("ask",)}
    )
    run = play([{"tool_calls": [call()]}, {"tool_calls": [call("ask")]}], policy=policy)
    assert (run.stop[:2], run.n_steps) == (("step_cap", 1), 2)
    assert [result and result.content for result in run.steps[1].results] == [policy.last_step.refusal]


def test_endless_continuation_with_fresh_counters_is_refused() -> None:
    endless: Any = {"times": None, "by": "loop"}
    with pytest.raises(bl.SettingError, match="continues.times=None never ends"):
        PLAIN.vary(cap={"max_steps": 2}, continues={**endless, "counters": "fresh"})
    run = play(
        [{"tool_calls": [call()], "repeat": "forever"}], policy=PLAIN.vary(cap={"max_steps": 2}, continues=endless)
    )
    assert run.stop[:2] == ("step_cap", 20)


@pytest.mark.parametrize("cap", [{"check": "response"}, {"counts": "tool_steps"}, {"counts": "supersteps"}])
@pytest.mark.parametrize(
    "beyond",
    [
        {"continues": {"times": 1, "by": "loop"}},
        {"continues": {"times": 1, "by": "ask"}},
        {"last_step": {"action": "grace"}},
    ],
)
def test_what_a_cap_at_the_response_would_never_do_is_refused(cap: Any, beyond: Any) -> None:
    with pytest.raises(bl.SettingError, match="needs a cap at the boundary"):
        PLAIN.vary(cap={"max_steps": 2, **cap}, **beyond)


def test_call_guard_keeps_its_state_across_a_resume() -> None:
    """Such a guard is not evaluated in a closing step: that step's call may not move it on resume either."""
    guard = bl.Guard(detector=bl.detectors.RepeatStreak(), ladder=((2, "nudge"),), check="call")
    policy = PLAIN.vary(
        cap={"max_steps": 2},
        last_step={"action": "tool_choice_none"},
        continues={"times": 1},
        detectors={"guards": (guard,)},
    )
    run = play([{"tool_calls": [call()], "repeat": 3}, "Done."], policy=policy)
    resumed = asyncio.run(bl.resume(run, "Go on."))
    assert [event.payload["after_step"] for event in resumed.events if event.kind == "nudge"] == [3]
