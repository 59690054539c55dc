"""What each harness does, sentence by sentence: exits, last steps, retries and reflections."""

from typing import Any

import pytest

from boolab.core.types import Response, ToolCall, Usage
from boolab.runtime.tools.tool import ToolContext, tool
from boolab.runtime.tools.workspace import pause_tools
from tests.support.harness_cases import observe, play, preset, said, script

USAGE = Usage(60, 40, cost=1000)


def called(finish_reason: str | None, text: str = "") -> Response:
    """A response with one call of which the provider says something odd, or nothing (None)."""
    return Response(text, (ToolCall("call_1", "work", '{"what": "once"}'),), finish_reason, USAGE)


# BooCode 1.14.


def test_boocode_ends_a_doom_loop_after_three_steps_and_summary() -> None:
    played = play(preset("boocode"), "A A A A")
    assert played.observation[:4] == (4, 3, 1, "doom_loop")
    assert played.run.sentinel is not None
    assert played.run.sentinel.kind == "doom_loop"
    assert played.model.requests[-1].tools == ()


def test_boocode_checks_the_cap_before_the_doom_loop() -> None:
    stop = play(preset("boocode", max_steps=3), "A A A A").run.stop
    assert (stop.reason, stop.step, stop.also_fired) == ("step_cap", 3, ("doom_loop",))


def test_boocode_requests_no_summary_at_finish_or_pause() -> None:
    pause = {"tool_calls": [{"name": "ask_user_input", "arguments": {"question": "Which?"}}]}
    policy = preset("boocode", max_steps=1)
    assert play(policy, "X T").observation[:4] == (1, 0, 0, "finished")
    assert play(policy, [pause], tools=[pause_tools()["ask_user_input"]]).observation[:4] == (1, 0, 0, "paused")


# opencode, issue 3631.


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_opencode_3631_sends_its_last_request_without_tools(n: int) -> None:
    played = play(preset("opencode_3631", max_steps=n), "T " * (n - 1) + "X T")
    assert played.observation[:4] == (n, n - 1, 0, "step_cap")
    assert [bool(request.tools) for request in played.model.requests] == [True] * (n - 1) + [False]


def test_3631_unset_is_unlimited_and_every_request_has_tools() -> None:
    played = play(preset("opencode_3631"), "T " * 300 + "X")
    assert played.observation[:4] == (301, 300, 0, "finished")
    assert all(request.tools for request in played.model.requests)


@pytest.mark.parametrize("n", [1, 2, 10])
def test_3631_gives_an_error_to_each_call_of_the_last_step(n: int) -> None:
    played = play(preset("opencode_3631", max_steps=n), "TT " * (n + 3))
    assert played.observation[:4] == (n, 2 * (n - 1), 0, "step_cap")
    assert [result is not None and result.is_error for result in played.run.steps[-1].results] == [True, True]


@pytest.mark.parametrize("n", [2, 10])
def test_3631_is_finished_only_if_the_model_ended_earlier(n: int) -> None:
    assert observe(preset("opencode_3631", max_steps=n), "X")[:4] == (1, 0, 0, "finished")


def test_opencode_3631_names_the_cap_after_a_broken_last_stream() -> None:
    policy = preset("opencode_3631", max_steps=2)
    broken: Any = {"text": "In the mid", "error": {"reset": True, "after": 4}}
    run = play(policy, [*script("T", policy), broken]).run
    assert (run.stop_reason, run.stop.value) == ("step_cap", 2)


# opencode V1: the four guards of its exit, and its soft cap.


def test_v1_guard_1_goes_on_until_there_is_a_finish_reason() -> None:
    assert observe(preset("opencode_v1"), [said("Hm.", None), said("Hm.", None), said("Done.", "stop")])[:4] == (
        3,
        0,
        0,
        "finished",
    )


def test_opencode_v1_continues_at_tool_calls_without_a_call() -> None:
    assert observe(preset("opencode_v1"), [said("Hm.", "tool_calls"), said("Done.", "stop")])[:4] == (
        2,
        0,
        0,
        "finished",
    )


@pytest.mark.parametrize("finish_reason", ["stop", "length", "content_filter"])
def test_opencode_v1_executes_calls_whatever_the_finish_reason(finish_reason: str) -> None:
    observed = observe(preset("opencode_v1"), [called(finish_reason, "Let me look."), said("Done.", "stop")])
    assert observed[:4] == (2, 1, 0, "finished")


def test_opencode_v1_ignores_an_answer_to_an_earlier_message() -> None:
    task = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello. What can I do?"},
        {"role": "user", "content": "Go on"},
    ]
    assert observe(preset("opencode_v1"), "X X", task=task)[:4] == (1, 0, 0, "finished")


@pytest.mark.parametrize("finish_reason", ["stop", "length"])
def test_v1_leaves_when_all_four_guards_allow_it(finish_reason: str) -> None:
    assert observe(preset("opencode_v1"), [said("Done.", finish_reason), said("More.", "stop")]).model_calls == 1


# finish_aware.


@pytest.mark.parametrize("finish_reason", ["stop", "length", None])
def test_finish_aware_executes_all_calls_whatever_the_reason(finish_reason: str | None) -> None:
    observed = observe(preset("finish_aware"), [called(finish_reason), said("Done.", "stop")])
    assert observed[:4] == (2, 1, 0, "finished")


@pytest.mark.parametrize(
    ("finish_reason", "model_calls"), [("tool_calls", 2), ("stop", 1), ("length", 1), (None, 1)], ids=str
)
def test_finish_aware_stops_after_text_unless_reason_tool_calls(finish_reason: str | None, model_calls: int) -> None:
    observed = observe(preset("finish_aware"), [said("Hm.", finish_reason), said("Done.", "stop")])
    assert observed[:4] == (model_calls, 0, 0, "finished")


def test_finish_aware_gives_up_at_fifty_steps() -> None:
    assert observe(preset("finish_aware"), "T " * 60)[:4] == (50, 50, 0, "step_cap")


# opencode V2.


def test_opencode_v2_refuses_the_call_of_its_last_step_and_ends() -> None:
    played = play(preset("opencode_v2", max_steps=2), "T T T")
    assert played.observation[:3] == (2, 1, 0)
    (result,) = played.run.steps[-1].results
    assert result is not None
    assert (result.is_error, result.content) == (True, "Tools are disabled after the maximum agent steps")
    first, last = played.model.requests
    assert len(last.told) == len(first.told) + 1
    assert (first.tool_choice, last.tool_choice) == ("auto", "none")


def test_opencode_v2_treats_unknown_finish_as_a_broken_stream() -> None:
    assert observe(preset("opencode_v2"), [said("Half a", "unknown"), said("Done.", "stop")]).reason == "error"


def test_v2_unset_is_unlimited() -> None:
    assert observe(preset("opencode_v2"), "T " * 60 + "X")[:4] == (61, 60, 0, "finished")


# Inspect.


def test_inspect_continues_after_a_text_and_ends_on_submit() -> None:
    played = play(preset("inspect_react"), "T X D T")
    assert played.observation[:4] == (3, 1, 0, "finished")
    assert played.events("continuation") == [("continuation", 2)]
    assert [len(request.told) for request in played.model.requests] == [1, 1, 2]


def test_inspect_ends_where_the_context_is_full() -> None:
    full = [said("Too lo", "model_length"), said("More.", "stop")]
    assert observe(preset("inspect_react"), full).model_calls == 1


def test_inspect_ends_after_three_filtered_responses_in_a_row() -> None:
    filtered = said("", "content_filter")
    assert observe(preset("inspect_react"), [filtered] * 9).model_calls == 3


# pydantic-ai.


def test_pydantic_ai_raises_on_an_empty_response_cut_by_length() -> None:
    assert observe(preset("pydantic_ai"), [said("", "length"), said("Done.", "stop")])[:4] == (1, 0, 0, "error")


# mini-swe-agent.


def test_mini_swe_agent_stops_after_three_format_errors_in_a_row() -> None:
    observed = observe(preset("mini_swe_agent"), "X X X X")
    assert observed[:4] == (3, 0, 0, "error_streak")
    assert "RepeatedFormatError" in observed.end


def test_mini_swe_agent_resets_format_errors_at_a_clean_step() -> None:
    assert observe(preset("mini_swe_agent"), "X X T X X T X X D")[:4] == (9, 2, 0, "finished")
    assert observe(preset("mini_swe_agent"), "X X F X X X X")[:4] == (6, 1, 0, "error_streak")


# SWE-agent.


def test_swe_agent_requeries_three_times_for_a_readable_action() -> None:
    observed = observe(preset("swe_agent"), "T X X X X X")
    assert observed[:4] == (4, 1, 0, "error_streak")
    assert "exit_format" in observed.end
    assert observe(preset("swe_agent"), "X X T X X D")[:4] == (6, 1, 0, "finished")


def test_swe_agent_stops_after_three_command_timeouts_in_a_row() -> None:
    @tool(timeout=1)
    async def wait(seconds: float, context: ToolContext) -> str:
        """Wait."""
        await context.sleep(seconds)
        return "waited"

    def waits(*seconds: float) -> list[Any]:
        return [
            Response("", (ToolCall(f"call_{i}", "wait", f'{{"seconds": {s}}}'),), "tool_calls", USAGE)
            for i, s in enumerate(seconds)
        ]

    played = play(preset("swe_agent"), waits(2, 2, 0, 2, 2, 2, 2), tools=[wait])
    assert (len(played.model.requests), played.run.stop_reason) == (6, "error_streak")
    assert "exit_command_timeout" in played.observation.end


@pytest.mark.parametrize(
    ("pattern", "limit"),
    [("T T T", {"max_steps": 1}), ("X X X X", {}), ("T T", {"cost_budget": 0.0005})],
    ids=["calls", "format", "cost"],
)
def test_every_exit_of_swe_agent_submits_what_is_there(pattern: str, limit: dict[str, Any]) -> None:
    assert "submitted" in observe(preset("swe_agent", **limit), pattern).end


# OpenHands.


@pytest.mark.parametrize("name", ["openhands", "openhands_classic"])
def test_openhands_waits_for_a_confirmation(name: str) -> None:
    question = {"tool_calls": [{"name": "ask_user_input", "arguments": {"question": "Which?"}}]}
    assert play(preset(name), [question], tools=[pause_tools()["ask_user_input"]]).run.stop_reason == "paused"


# Gemini CLI's subagents.


def test_gemini_subagent_without_calls_gets_its_grace_turn() -> None:
    completes = observe(preset("gemini_subagent"), "T X D")
    assert completes[:3] == (3, 1, 1)
    assert "GOAL" in completes.end
    assert observe(preset("gemini_subagent"), "T X X X")[:3] == (3, 1, 1)


# AutoGen.


def test_autogen_answers_with_results_of_its_first_tool_round() -> None:
    assert observe(preset("autogen"), "TT X")[:3] == (1, 2, 0)
    assert observe(preset("autogen"), "X T")[:4] == (1, 0, 0, "finished")


# smolagents.


def test_smolagents_gives_up_when_the_model_cannot_be_reached() -> None:
    unreachable = {"error": {"status": 500}}
    assert observe(preset("smolagents"), [unreachable] * 9)[:4] == (1, 0, 0, "error")


# Vercel's AI SDK.


def test_ai_sdk_continues_while_every_call_has_a_result() -> None:
    policy = preset("ai_sdk", max_steps=5)
    assert observe(policy, [called("stop"), said("Done.", "stop")])[:4] == (2, 1, 0, "finished")
    assert observe(policy, [said("Hm.", "tool_calls"), said("Done.", "stop")]).model_calls == 1


# Cline and Roo.


def test_cline_treats_a_text_cut_by_length_as_an_error() -> None:
    assert observe(preset("cline"), [said("Half a", "length"), said("Done.", "stop")])[:4] == (1, 0, 0, "error")


# Aider.


def test_aider_reflects_three_times_on_an_edit_that_fails() -> None:
    assert observe(preset("aider"), "F " * 10)[:3] == (4, 4, 0)
    assert observe(preset("aider"), "F F X F")[:4] == (3, 2, 0, "finished")


def test_aider_does_not_ask_again_after_an_edit_that_succeeds() -> None:
    assert observe(preset("aider"), "T T T")[:3] == (1, 1, 0)


# AutoGPT.


def test_autogpt_stops_after_three_unparsable_outputs_in_a_row() -> None:
    assert observe(preset("autogpt"), "X X X X")[:4] == (3, 0, 0, "error_streak")
    assert observe(preset("autogpt"), "X X T X X X X")[:4] == (6, 1, 0, "error_streak")


# All of them.
