"""The three failures of a loop that must be visible: under the policies that have them, and under those that do not."""

import logging

import pytest

import boolab as bl
from tests.support.cases import first
from tests.support.harness_cases import TOKENS_PER_CALL, CountingModel, play, preset, script

UNGUARDED = ("naive", "opencode_3631", "opencode_v1", "opencode_v2", "claude_code")
"""Harnesses that have neither a cap of their own nor a guard that sees a call repeated across messages."""


def test_each_preset_has_the_name_of_its_policy() -> None:
    assert {name: policy.name for name, policy in bl.policies.items()} == {name: name for name in bl.policies}


# 1. An early exit with tool calls pending.


def test_naive_believes_the_finish_reason_and_drops_the_calls(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "boolab.loop"):
        played = play(preset("naive"), "TT X", finish_reason="stop")
    assert played.observation[:4] == (1, 0, 0, "finished")
    assert [call.name for call in played.run.steps[0].dropped] == ["work", "work"]
    assert played.run.n_tool_calls == 0
    assert "dropped" in caplog.text


@pytest.mark.parametrize("name", sorted(set(bl.policies) - {"naive"}))
def test_policies_except_naive_execute_calls_at_reason_stop(name: str) -> None:
    played = play(preset(name), "T D", finish_reason="stop")
    assert played.ran == ("t0.0",)
    assert played.run.steps[0].dropped == ()


# 2. No doom-loop guard.


@pytest.mark.parametrize("name", first(1, UNGUARDED))
def test_stuck_model_reaches_the_ceiling_and_tokens_are_recorded(name: str) -> None:
    played = play(preset(name), "A " * 1001)
    run = played.run
    assert played.observation[:4] == (1000, 1000, 0, "step_cap")
    assert "ceiling" in str(run.stop.rule)
    assert sum(_tokens(run)) == 1000 * TOKENS_PER_CALL


def _tokens(run: bl.Run) -> list[int]:
    return [(s.response.usage.input_tokens or 0) + (s.response.usage.output_tokens or 0) for s in run.steps]


# 3. A counter that survives.


@pytest.mark.parametrize("name", bl.policies)
def test_second_run_of_an_agent_and_model_equals_the_first(name: str) -> None:
    policy = preset(name)
    model, agent = CountingModel(script("F F X A A T D", policy)), bl.Agent("a")
    first = play(policy, [], model=model, agent=agent)
    asked = len(model.requests)
    second = play(policy, [], model=model, agent=agent)
    assert second.ran == first.ran
    assert second.run.stop == first.run.stop
    assert model.requests[asked:] == model.requests[:asked]


@pytest.mark.parametrize("name", bl.policies)
@pytest.mark.parametrize("pattern", ["T T D", "F F F F F F D", "X X X X D", "A A A A A A A D", "TT AAA D"])
def test_every_call_of_a_model_is_a_step_or_the_wrap_up(name: str, pattern: str) -> None:
    played = play(preset(name), pattern)
    model_calls, tools_run, summary_calls, *_ = played.observation
    assert model_calls == played.run.n_steps + summary_calls - len(played.events("grace"))
    answered = [result for step in played.run.steps for result in step.results if result is not None]
    assert tools_run <= len(answered)
    assert [step.index for step in played.run.steps] == list(range(1, played.run.n_steps + 1))
