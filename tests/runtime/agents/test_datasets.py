"""The shipped agents and scripts: each loads, all go together, and each script does what its description says."""

import asyncio
import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.types import ToolResult
from boolab.harnesses.policy import DEFAULT
from boolab.io.resources import checkout, data_path
from boolab.runtime.tools.tool import ToolSpec
from boolab.runtime.tools.workspace import BUILT_IN, workspace_tools
from tests.support.cases import first

SCRIPTS = sorted((data_path("datasets") / "scripts").glob("*.yaml"))
AGENTS = bl.load_agents(data_path("agents"))
PACKAGE = data_path("agents").parent / "boolab" if (checkout() / "pyproject.toml").is_file() else checkout()
"""What an installed boolab, which has no checkout, takes for the workspace; it is quicker to search."""

RULES = (bl.max_tokens(100_000), bl.max_cost(0.25), bl.max_time(30), bl.error_streak(3))
REACHED = {
    "finished", "paused", "step_cap", "tool_budget", "doom_loop", "error",
    "token_budget", "cost_budget", "time_budget", "error_streak",
}  # fmt: skip
"""All stop reasons but `aborted` and `synthesis`, which come from outside the script, and `stuck`."""

SEARCHING = ("long_audit", "parallel_calls")
"""They search the whole package several times."""
FAULTY = ("alternating", "asks_access", "bad_arguments", "key_order", "slow_tool", "stuck")
"""The scripts whose point is that a call finds nothing, or fails."""


def play(name: str, agent: bl.Agent | str = "auditor", root: Path | None = None, **options: Any) -> bl.Run:
    model = bl.ScriptedModel.load(data_path("datasets") / "scripts" / f"{name}.yaml")
    chosen = AGENTS[agent] if isinstance(agent, str) else agent
    return bl.run_sync(chosen, "go", model=model, root=root or PACKAGE, **options)


def results(run: bl.Run) -> list[ToolResult]:
    return [result for step in run.steps for result in step.results if result is not None]


def cached_tools(root: Path) -> list[ToolSpec]:
    """Tools that read the folder, which does not change meanwhile: each distinct call is made once."""
    return [replace(tool, function=functools.cache(tool.function)) for tool in workspace_tools(root).values()]


@pytest.fixture(scope="module")
def everything() -> Mapping[tuple[str, str], bl.Run]:
    """A run of each agent, under its own limits, on each script."""
    scripts = {path.stem: bl.ScriptedModel.load(path) for path in SCRIPTS}
    runs = asyncio.run(bl.sweep(AGENTS.values(), "go", scripts, tools=cached_tools(checkout()), progress=False))
    return {(run.agent, run.model): run for run in runs}


# Agents.


def test_origin_agents_have_the_step_caps_of_the_origin() -> None:
    caps = {name: AGENTS[name].max_steps for name in ("refactorer", "architect", "explorer", "answerer")}
    assert caps == {"refactorer": 5, "architect": 20, "explorer": DEFAULT, "answerer": 0}


@pytest.mark.parametrize("agent", AGENTS.values(), ids=lambda agent: agent.name)
def test_every_agent_lists_built_in_tools_and_a_description(agent: bl.Agent) -> None:
    assert set(agent.tools) <= set(BUILT_IN)
    assert agent.name == agent.name.lower()
    assert agent.description.endswith(".")
    assert len(agent.prompt) > 100
    assert not agent.extra


def test_one_agent_has_a_file_of_its_own() -> None:
    assert list(bl.load_agents(data_path("agents") / "scout.md")) == ["scout"]


# All agents on all scripts.


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_loads_under_its_file_name_and_description(path: Path) -> None:
    model = bl.ScriptedModel.load(path)
    assert model.name == path.stem
    assert model.description.endswith(".")
    assert len(model)


@pytest.mark.slow
def test_every_agent_runs_on_every_script(everything: Mapping[tuple[str, str], bl.Run]) -> None:
    assert len(everything) == len(AGENTS) * len(SCRIPTS)
    assert {run.stop_reason for run in everything.values()} <= REACHED
    assert all(run.n_steps for run in everything.values())


@pytest.mark.slow
def test_every_script_is_stopped_by_a_ceiling_if_by_nothing_else() -> None:
    for path in SCRIPTS:
        assert play(path.stem, policy="naive").n_steps <= 1000


@pytest.mark.slow
def test_scripts_reach_every_reachable_stop_reason(
    everything: Mapping[tuple[str, str], bl.Run],
) -> None:
    by_rule = {
        play(name, stop=rule).stop_reason for rule in RULES for name in ("expensive", "slow_tool", "bad_arguments")
    }
    assert {run.stop_reason for run in everything.values()} | by_rule == REACHED


@pytest.mark.parametrize("root", first(1, [PACKAGE, checkout()]), ids=["package", "checkout"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=[pytest.mark.slow] * (path.stem in SEARCHING))
        for path in SCRIPTS
        if path.stem not in FAULTY
    ],
)
def test_what_a_script_looks_for_is_there(name: str, root: Path) -> None:
    pauses = {"ask_user_input", "request_read_access"}
    for step in play(name, root=root).steps:
        for call, result in zip(step.response.tool_calls, step.results, strict=True):
            if call.name not in pauses:
                assert result is not None
                assert not result.is_error, result.content
                assert "(no match" not in result.content, call.arguments


# What each script is for.


@pytest.mark.parametrize(
    ("script", "options", "stop", "at"),
    [
        ("clean_finish", {"agent": "explorer"}, "finished", 3),
        ("parallel_calls", {"agent": bl.Agent("a", tools=("search_text",), tool_budget=20)}, "tool_budget", 4),
        ("stuck", {"policy": "naive"}, "step_cap", 1000),
        ("stuck", {"agent": "explorer"}, "doom_loop", 3),
        ("polling", {"stop": bl.doom_loop(3)}, "doom_loop", 3),
        ("polling", {"stop": bl.doom_loop(2, "call+result")}, "finished", 8),
        ("key_order", {"stop": bl.doom_loop(2, "ordered")}, "finished", 6),
        ("key_order", {"stop": bl.doom_loop(3, "canonical")}, "doom_loop", 3),
        ("triple_call", {"agent": "explorer"}, "doom_loop", 2),
        ("always_stop", {"policy": "naive"}, "finished", 0),
        ("always_stop", {"policy": "boocode"}, "finished", 2),
        ("cut_off_answer", {"policy": "naive"}, "finished", 2),
        ("cut_off_answer", {"policy": "boocode"}, "finished", 1),
        ("clean_finish", {"agent": "answerer"}, "finished", 0),
    ],
)
def test_a_script_ends_as_it_is_meant_to(script: str, options: dict[str, Any], stop: str, at: int) -> None:
    run = play(script, **options)
    assert (run.stop_reason, run.stop_step) == (stop, at)


@pytest.mark.slow
def test_a_long_audit_is_cut_by_a_cap_of_20_and_summarises() -> None:
    run = play("long_audit", "architect")
    assert (run.stop_reason, run.n_steps) == ("step_cap", 20)
    assert run.text.startswith("The audit is not complete")


def test_alternating_calls_pass_doom_loop_and_show_as_a_cycle() -> None:
    run = play("alternating", stop=bl.doom_loop(2))
    assert (run.stop_reason, run.n_steps) == ("finished", 25)
    assert bl.steps_df(run)["cycle_period"].max() == 2


def test_an_early_exit_drops_the_pending_calls_under_naive_only() -> None:
    naive, boocode = play("early_exit", policy="naive"), play("early_exit")
    assert (naive.stop_reason, len(naive.steps[-1].dropped)) == ("finished", 2)
    assert (boocode.stop_reason, boocode.n_tool_calls) == ("finished", 4)


@pytest.mark.parametrize(
    ("name", "steps", "words"),
    [
        ("outage", 4, "HTTP 503 after 24 characters"),
        ("server_error", 2, "HTTP 500"),
        ("garbage", 3, "cannot be parsed"),
        ("runs_out", 4, "holds 3 responses"),
    ],
)
def test_broken_response_ends_in_an_error_and_keeps_its_steps(name: str, steps: int, words: str) -> None:
    run = play(name)
    assert (run.stop_reason, run.n_steps, run.stop_step) == ("error", steps, steps - 1)
    assert words in str(run.error)


def test_a_retry_after_the_outage_starts_with_its_whole_cap() -> None:
    agent = bl.Agent("a", tools=("search_text",), max_steps=5)
    broken, retried = play("outage", agent), play("after_the_outage", agent)
    assert (broken.stop_reason, broken.stop_step) == ("error", 3)
    assert bl.steps_df(retried)["steps_left"].iloc[0] == 5
    assert (retried.stop_reason, retried.stop_step) == ("finished", 4)


@pytest.mark.parametrize("name", ["asks_user", "asks_access"])
def test_a_question_pauses_who_can_ask_and_an_answer_goes_on(name: str) -> None:
    paused = play(name, "architect")
    assert paused.stop_reason == "paused"
    resumed = asyncio.run(bl.resume(paused, "Yes."))
    assert resumed.stop_reason == "finished"
    assert resumed.text.startswith("Thank you.")


def test_who_cannot_ask_says_what_it_assumed() -> None:
    assert play("asks_user", "explorer").text.startswith("I could not ask")


def test_each_faulty_call_gets_an_error_of_its_own() -> None:
    got = results(play("bad_arguments"))
    assert [result.is_error for result in got] == [True, True, True, True, False]
    assert [result.parse_error for result in got] == [True, False, False, False, False]
    assert len({result.content for result in got}) == 5


def test_slow_tool_takes_the_time_and_the_call_beside_it_none() -> None:
    run = play("slow_tool")
    tool_ms = [(step.duration_ms or 0) - (step.model_ms or 0) for step in run.steps]
    assert tool_ms[0] == 41_200
    assert sum(tool_ms) > 0.9 * (run.duration_ms or 0)


@pytest.mark.parametrize("root", [checkout(), PACKAGE], ids=["checkout", "package"])
def test_a_file_is_read_where_it_was_found(root: Path) -> None:
    run = play("find_then_read", root=root)
    assert run.n_steps == 3
    assert run.text.startswith("The loop is in loop.py.")


def test_a_provider_without_usage_leaves_a_token_rule_undecided() -> None:
    run = play("no_usage", stop=bl.max_tokens(1000))
    assert run.stop_reason == "error"
    assert "tokens unknown" in str(run.error)
