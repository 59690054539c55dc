"""Where the harnesses disagree about a cap of three, a budget and a limit that is met exactly.

Each expected figure is that of the harness itself: measured by running its released package with a scripted model, or
read in its source.
"""

from typing import NamedTuple

import pytest

import boolab as bl
from boolab.errors import SettingError
from tests.support.harness_cases import TOKENS_PER_CALL, observe, play, preset

ALWAYS = "T " * 40
"""A model that calls one tool in each response, each time with other arguments, and never stops by itself."""


class Row(NamedTuple):
    """One row: what a cap of three makes of a model that never stops. `end` stands in the harness's own word."""

    inside: int
    tools: int
    wrap_up: int
    end: str


CAP_OF_THREE = {
    "opencode_v2": Row(3, 2, 0, "done"),
    "boocode": Row(3, 3, 1, "step_cap"),
    "inspect_react": Row(4, 3, 0, "success"),
    "pydantic_ai": Row(3, 3, 0, "UsageLimitExceeded"),
    "mini_swe_agent": Row(3, 3, 0, "LimitsExceeded"),
    "swe_agent": Row(4, 3, 0, "exit_cost"),
    "openhands": Row(3, 3, 0, "MaxIterationsReached"),
    "openhands_classic": Row(3, 3, 0, ""),
    "gemini_subagent": Row(3, 3, 1, "MAX_TURNS"),
    "smolagents": Row(3, 3, 1, "max_steps_error"),
    "ai_sdk": Row(3, 3, 0, "tool-calls"),
    "openai_agents": Row(3, 3, 0, "MaxTurnsExceeded"),
    "autogen": Row(3, 3, 0, "normal response"),
    "cline": Row(3, 3, 0, "failed"),
}


@pytest.mark.parametrize("name", CAP_OF_THREE)
def test_what_a_cap_of_three_makes_of_a_model_that_never_stops(name: str) -> None:
    row = CAP_OF_THREE[name]
    played = play(preset(name, max_steps=3), ALWAYS)
    model_calls, tools, wrap_up, reason, end = played.observation
    assert (model_calls, tools, wrap_up, reason) == (row.inside + row.wrap_up, row.tools, row.wrap_up, "step_cap")
    assert row.end in end
    assert played.run.n_steps == row.inside + len(played.events("grace"))


def test_boocode_marks_the_cap_and_requests_a_toolless_summary() -> None:
    played = play(preset("boocode", max_steps=3), ALWAYS)
    assert played.run.sentinel is not None
    assert played.run.sentinel.kind == "cap_hit"
    assert [request.tools for request in played.model.requests] == [("work",)] * 3 + [()]
    assert played.model.requests[-1].purpose == "summary"


def test_boocode_never_exceeds_200_steps_for_any_agent() -> None:
    policy = preset("boocode", max_steps=300, tool_budget=1000)
    assert observe(policy, "T " * 250)[:3] == (201, 200, 1)


def test_opencode_v1_cap_is_soft_and_prompts_from_call_three() -> None:
    played = play(preset("opencode_v1", max_steps=3), "T " * 20 + "X")
    assert played.observation[:4] == (21, 20, 0, "finished")
    prompted = ["maximum steps" in request.last_word.lower() for request in played.model.requests]
    assert prompted == [False] * 2 + [True] * 19
    assert {request.tools for request in played.model.requests} == {("work",)}


def test_inspect_generates_once_beyond_its_limit_and_drops_it() -> None:
    run = play(preset("inspect_react", max_steps=3), ALWAYS).run
    assert run.stop.value == 4
    assert [len(step.dropped) for step in run.steps] == [0, 0, 0, 1]


def test_swe_agent_drops_the_paid_call_that_crosses_its_limit() -> None:
    run = play(preset("swe_agent", max_steps=3), ALWAYS).run
    assert [len(step.dropped) for step in run.steps] == [0, 0, 0, 1]


def test_smolagents_asks_for_its_last_answer_without_tools() -> None:
    played = play(preset("smolagents", max_steps=3), ALWAYS)
    assert [bool(request.tools) for request in played.model.requests] == [True, True, True, False]


def test_gemini_subagent_completing_in_grace_turn_reaches_goal() -> None:
    played = play(preset("gemini_subagent", max_steps=3), "T T T D T T")
    assert played.observation[:2] == (4, 3)
    assert "GOAL" in played.observation.end


@pytest.mark.parametrize(
    ("limit", "model_calls", "tools"), [(3, 2, 1), (4, 2, 1), (5, 3, 2), (6, 3, 2), (7, 4, 3)], ids=str
)
def test_langgraph_counts_supersteps_and_odd_limit_is_an_error(limit: int, model_calls: int, tools: int) -> None:
    played = play(preset("langgraph_react", max_steps=limit), ALWAYS)
    assert played.observation[:4] == (model_calls, tools, 0, "step_cap")
    if limit % 2:
        assert "GraphRecursionError" in played.observation.end
    else:
        assert played.observation.end == "success"
        assert "more steps" in played.run.text


@pytest.mark.parametrize(
    ("limit", "model_calls", "tools"), [(1, 1, 0), (2, 1, 1), (3, 2, 1), (4, 2, 2), (5, 3, 2), (8, 4, 4)], ids=str
)
def test_langchain_agent_odd_limit_costs_one_more_response(limit: int, model_calls: int, tools: int) -> None:
    played = play(preset("langchain_agent", max_steps=limit), ALWAYS)
    assert played.observation[:4] == (model_calls, tools, 0, "step_cap")
    assert "GraphRecursionError" in played.observation.end


@pytest.mark.parametrize("rounds", [0, 1, 2, 3], ids="{} rounds of tools".format)
def test_langgraph_needs_one_superstep_more_than_the_work_takes(rounds: int) -> None:
    work = "T " * rounds + "X"
    supersteps = 2 * rounds + 1
    enough = observe(preset("langgraph_react", max_steps=supersteps + 1), work)
    assert enough[:4] == (rounds + 1, rounds, 0, "finished")
    short = observe(preset("langgraph_react", max_steps=supersteps), work)
    assert short[:4] == (rounds + 1, rounds, 0, "step_cap")
    assert "GraphRecursionError" in short.end


@pytest.mark.parametrize(
    "name",
    [
        "inspect_react", "pydantic_ai", "mini_swe_agent", "smolagents", "openai_agents", "openhands", "opencode_v2",
        "boocode",
    ],
)  # fmt: skip
def test_finishing_exactly_on_step_three_of_three_succeeds(name: str) -> None:
    assert observe(preset(name, max_steps=3), "T T D")[:4] == (3, 2, 0, "finished")


# Zero.


def test_boocode_with_zero_steps_requests_one_text_without_tools() -> None:
    played = play(preset("boocode", max_steps=0), "T T T")
    assert played.observation[:4] == (1, 0, 0, "finished")
    assert played.model.requests[0].tools == ()


@pytest.mark.parametrize("name", ["pydantic_ai", "openai_agents"])
def test_zero_steps_are_no_model_call_at_all(name: str) -> None:
    assert observe(preset(name, max_steps=0), ALWAYS)[:4] == (0, 0, 0, "step_cap")


def test_smolagents_with_zero_steps_uses_its_default_of_twenty() -> None:
    assert observe(preset("smolagents"), ALWAYS, agent=bl.Agent("a", max_steps=0))[:4] == (21, 20, 1, "step_cap")


@pytest.mark.parametrize("name", ["mini_swe_agent", "swe_agent", "roo"])
def test_zero_steps_are_no_limit(name: str) -> None:
    assert observe(preset(name, max_steps=0), "T " * 60 + "D")[:4] == (61, 60, 0, "finished")


@pytest.mark.parametrize("name", ["opencode_3631", "opencode_v1", "opencode_v2", "langgraph_react"])
def test_zero_steps_are_rejected_before_the_model_is_asked(name: str) -> None:
    with pytest.raises(SettingError, match="max_steps"):
        play(preset(name, max_steps=0), ALWAYS)


# Batches.


def test_pydantic_ai_rejects_the_batch_that_exceeds_tool_limit() -> None:
    played = play(preset("pydantic_ai", tool_budget=3), "TT TT TT")
    assert played.observation[:4] == (2, 2, 0, "tool_budget")
    assert "UsageLimitExceeded" in played.observation.end
    assert [len(step.dropped) for step in played.run.steps] == [0, 2]


def test_pydantic_ai_tool_limit_three_raises_at_the_fourth_call() -> None:
    assert observe(preset("pydantic_ai", tool_budget=3), ALWAYS)[:4] == (4, 3, 0, "tool_budget")


def test_boocode_checks_budget_first_so_last_batch_overshoots() -> None:
    played = play(preset("boocode", tool_budget=3), "TT TT TT")
    assert played.observation[:4] == (3, 4, 1, "tool_budget")
    assert (played.run.stop_step, played.run.stop.overshoot) == (2, 1)


def test_a_budget_that_boocode_meets_exactly_is_spent() -> None:
    assert observe(preset("boocode", tool_budget=3), ALWAYS)[:4] == (4, 3, 1, "tool_budget")


def test_cline_runs_one_tool_per_message_and_refuses_the_others() -> None:
    played = play(preset("cline"), "TT D")
    assert played.ran == ("t0.0",)
    refused = played.run.steps[0].results[1]
    assert refused is not None
    assert refused.is_error is True


# A limit met exactly. Each response costs a dollar, or has 100 tokens.


@pytest.mark.parametrize(
    ("name", "dollars", "model_calls", "tools"),
    [
        ("mini_swe_agent", 3.0, 3, 3),
        ("mini_swe_agent", 2.5, 3, 3),
        ("openhands", 3.0, 3, 3),
        ("openhands", 2.5, 3, 3),
        ("swe_agent", 3.0, 4, 3),
        ("swe_agent", 2.5, 3, 2),
        ("pydantic_ai", 3.0, 4, 3),
        ("pydantic_ai", 2.5, 3, 2),
    ],
)
def test_where_a_cost_limit_stops_dollar_calls(name: str, dollars: float, model_calls: int, tools: int) -> None:
    observed = observe(preset(name, cost_budget=dollars), ALWAYS, cost=1.0)
    assert observed[:4] == (model_calls, tools, 0, "cost_budget")


@pytest.mark.parametrize(
    ("name", "tokens", "model_calls", "tools"),
    [
        ("inspect_react", 3 * TOKENS_PER_CALL, 3, 3),
        ("inspect_react", 3 * TOKENS_PER_CALL - 1, 3, 2),
        ("pydantic_ai", 3 * TOKENS_PER_CALL, 4, 3),
        ("pydantic_ai", 3 * TOKENS_PER_CALL - 1, 3, 2),
    ],
)
def test_where_a_token_limit_stops(name: str, tokens: int, model_calls: int, tools: int) -> None:
    played = play(preset(name, token_budget=tokens), ALWAYS)
    assert played.observation[:4] == (model_calls, tools, 0, "token_budget")
    assert sum(len(step.dropped) for step in played.run.steps) == model_calls - tools


def test_mini_swe_agent_looks_at_the_time_before_it_asks() -> None:
    assert observe(preset("mini_swe_agent", time_budget=3), ALWAYS, latency_ms=1000)[:4] == (3, 3, 0, "time_budget")


def test_gemini_subagent_out_of_time_gets_its_grace_turn() -> None:
    played = play(preset("gemini_subagent"), ALWAYS, latency_ms=50_000)
    assert (played.observation.summary_calls, played.run.stop_reason) == (1, "time_budget")
    assert "TIMEOUT" in played.observation.end


def test_claude_code_reports_error_max_budget_usd_for_cost() -> None:
    observed = observe(preset("claude_code", cost_budget=2.5), ALWAYS, cost=1.0)
    assert observed.reason == "cost_budget"
    assert "error_max_budget_usd" in observed.end


# What is counted.


@pytest.mark.parametrize(
    ("name", "cap"),
    [
        ("pydantic_ai", 50),
        ("openai_agents", 10),
        ("smolagents", 20),
        ("autogen", 1),
        ("gemini_subagent", 30),
        ("openhands", 500),
        ("openhands_classic", 500),
    ],
)
def test_the_cap_of_an_agent_that_sets_none(name: str, cap: int) -> None:
    played = play(preset(name), "T " * (cap + 5))
    assert (len(played.ran), played.run.stop_reason) == (cap, "step_cap")


def test_autogpt_counts_executed_actions_not_unparsable_output() -> None:
    assert observe(preset("autogpt", max_steps=2), "T X T T T")[:4] == (3, 2, 0, "step_cap")


def test_smolagents_counts_a_step_that_the_model_got_wrong() -> None:
    assert observe(preset("smolagents", max_steps=3), "X T T T")[:4] == (4, 2, 1, "step_cap")


def test_a_cap_on_rounds_of_tools_does_not_count_the_final_text() -> None:
    rounds = preset("claude_code", max_steps=2).vary(cap={"counts": "tool_steps", "check": "response"})
    assert observe(rounds, "T T X")[:4] == (3, 2, 0, "finished")
    assert observe(rounds, ALWAYS)[:4] == (3, 2, 0, "step_cap")


def test_claude_code_counts_all_responses_before_next_request() -> None:
    assert observe(preset("claude_code", max_steps=2), "T T X")[:4] == (2, 2, 0, "step_cap")
    capped = play(preset("claude_code", max_steps=2), ALWAYS)
    assert (len(capped.ran), capped.run.stop_reason) == (2, "step_cap")
    assert "error_max_turns" in capped.observation.end
