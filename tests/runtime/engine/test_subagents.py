"""Subagents: a tool by which a model lets another agent run."""

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.events import run_events
from boolab.core.types import Event, ToolResult
from boolab.runtime.models.base import Emit
from boolab.runtime.tools.tool import ToolSpec
from tests.support.helpers import QUIET, TOOLS, Listening, ask, call, distinct, look

FREE = {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "cost_usd": 0}
SPENT = {"input_tokens": 60, "output_tokens": 40, "cached_tokens": 10, "cost_usd": 0.01}
ONE_STEP = {"calls": 1, "tokens": 100, "fresh": 90, "cost": 10_000, "elapsed": 1000}
"""What one step of `busy` spends."""


def asks(*agents: str) -> dict[str, Any]:
    """A step that lets these agents run, side by side."""
    return {"tool_calls": [call("task", agent=agent, prompt=f"for {agent}") for agent in agents]}


def busy(n: int, end: str | None = "done") -> bl.ScriptedModel:
    """N steps of one call, 100 tokens, a cent and a second each; then a text that costs nothing."""
    spent = {"usage": SPENT, "latency_ms": 1000}
    items: list[Any] = [item | spent for item in distinct(n, None)]
    return bl.ScriptedModel([*items, {"text": end, "usage": FREE}] if end else items)


def free(item: dict[str, Any]) -> dict[str, Any]:
    """An item that costs nothing, and says so."""
    return item | {"usage": FREE}


def child(name: str, model: Any = None, **settings: Any) -> bl.Agent:
    return bl.Agent(name, **{"model": model, "tools": (look,), "policy": QUIET} | settings)


def lead(items: Any, *tools: ToolSpec, policy: bl.Policy = QUIET, **options: Any) -> bl.Run:
    """Run a script under an agent that can start subagents."""
    model = items if hasattr(items, "respond") else bl.ScriptedModel(items)
    agent = bl.Agent("lead", tools=tools, policy=policy)
    return bl.run_sync(agent, "go", model=model, **options)


def given(record: bl.Run, step: int = 1, place: int = 0) -> ToolResult:
    """The result of a call."""
    result = record.steps[step - 1].results[place]
    assert result is not None
    return result


def only_child(record: bl.Run) -> bl.Run:
    (one,) = record.subagents
    return one


# What a subagent is.


def test_text_of_a_finished_subagent_is_the_result_of_the_call() -> None:
    scout = child("scout", bl.ScriptedModel([*distinct(2, None), "In a.py."]))
    record = lead([asks("scout"), "Thanks."], bl.task_tool(scout))
    assert given(record)[1:3] == ("In a.py.", False)
    assert (record.stop_reason, record.n_steps, record.n_tool_calls) == ("finished", 2, 1)
    below = only_child(record)
    assert (below.agent, below.task, below.n_steps, below.n_tool_calls) == ("scout", "for scout", 3, 2)


def test_a_subagent_is_linked_to_the_run_that_started_it() -> None:
    record = lead([asks("scout"), "x"], bl.task_tool(child("scout", bl.ScriptedModel(["y"]))))
    assert only_child(record).parent_run_id == record.run_id
    assert record.parent_run_id is None
    assert only_child(record).run_id != record.run_id


def test_what_a_finishing_tool_gave_is_the_result() -> None:
    finisher = bl.policies["smolagents"]
    (name,) = finisher.finish.tools

    @bl.tool(name=name)
    def finish(answer: str) -> str:
        """Hand in."""
        return answer

    scout = child("scout", bl.ScriptedModel([{"text": "Well,", "tool_calls": [call(name, answer="42")]}]))
    record = lead([asks("scout"), "x"], bl.task_tool(replace(scout, tools=(finish,), policy=finisher)))
    assert given(record).content == "42"


def test_what_a_finishing_tool_refused_is_not_the_result() -> None:
    finisher = bl.policies["smolagents"].vary(finish={"batch": "all"}, execution={"calls": "sequence"})
    (name,) = finisher.finish.tools

    @bl.tool(name=name)
    def finish(answer: int) -> str:
        """Hand in."""
        return str(answer)

    both = {"tool_calls": [call(name, answer="no number"), call(name, answer=42)]}
    scout = child("scout", bl.ScriptedModel([both]), tools=(finish,), policy=finisher)
    assert given(lead([asks("scout"), "x"], bl.task_tool(scout))).content == "42"


def test_each_subagent_has_a_seed_of_its_own() -> None:
    def seeds(seed: int | None) -> list[int | None]:
        items = [asks("scout", "scout"), asks("scout"), "x"]
        family = lead(items, bl.task_tool(child("scout", busy(1))), seed=seed)
        return [run.seed for run in bl.with_subagents(family)]

    assert seeds(7)[0] == 7
    assert len(set(seeds(7))) == 4
    assert not {*seeds(7)} & {*seeds(8)}
    assert seeds(7) == seeds(7)
    assert seeds(None) == [None] * 4


def test_given_tool_of_the_same_name_replaces_the_task_tool() -> None:
    @bl.tool(name="task", read_only=True)
    def other() -> str:
        """Do something else."""
        return "something else"

    scout = child("scout", bl.ScriptedModel([{"tool_calls": [call("task")]}, "done"]), tools=())
    record = lead([asks("scout"), "x"], bl.task_tool(scout, tools=[other], max_depth=2))
    assert given(only_child(record)).content == "something else"


def test_the_last_words_are_the_latest_that_are_words() -> None:
    items = [item | {"text": text} for item, text in zip(distinct(3, None), ("first", "second", ""), strict=True)]
    record = lead([asks("scout"), "x"], bl.task_tool(child("scout", bl.ScriptedModel(items), max_steps=3)))
    assert given(record).content.endswith("Its last text:\nsecond")


def test_a_subagent_that_finished_without_a_word_is_told_of() -> None:
    record = lead([asks("scout"), "x"], bl.task_tool(child("scout", bl.ScriptedModel([""]))))
    assert given(record)[1:3] == ("The subagent 'scout' finished without a word.", False)


def test_subagent_model_is_its_own_or_of_the_tool_or_the_caller() -> None:
    def named(name: str) -> bl.ScriptedModel:
        return bl.ScriptedModel(["x"], name=name)

    def model_of(agent: bl.Agent, model: Any) -> str:
        caller = bl.ScriptedModel(lambda messages: asks("a") if messages[-1].text == "go" else "x", name="callers")
        return only_child(lead(caller, bl.task_tool(agent, model=model))).model

    assert model_of(child("a", named("own")), named("tools")) == "own"
    assert model_of(child("a"), named("tools")) == "tools"
    assert model_of(child("a", "a name"), named("tools")) == "tools"
    assert model_of(child("a"), None) == "callers"


def test_the_tools_are_those_that_run_would_offer(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")

    model = Listening(["x"])
    named = child("named", model, tools=("read_file", "look"))
    lead(
        [asks("named", "open"), "x"], bl.task_tool([named, child("open", model, tools=())], tools=[look], root=tmp_path)
    )
    assert [[spec.name for spec in request.tools] for request in model.requests] == [["read_file", "look"], ["look"]]


def test_agent_and_model_that_call_themselves_share_no_counter() -> None:
    model = bl.ScriptedModel([{"tool_calls": [call("look", what="a")]}, asks("me"), *distinct(1, None), "done"])
    me = bl.Agent("me", policy=QUIET, max_steps=4, tool_budget=4)
    record = bl.run_sync(me, "go", model=model, tools=[look, bl.task_tool(me, model=model, tools=[look], max_depth=2)])
    levels = bl.with_subagents(record)
    assert [level.n_steps for level in levels] == [4, 4, 4]
    assert [level.stop_reason for level in levels] == ["finished"] * 3
    assert [level.n_tool_calls for level in levels] == [3, 3, 3]


def test_a_subagent_has_its_own_step_counter_and_its_own_cap() -> None:
    scout = child("scout", bl.ScriptedModel([*distinct(9)]), max_steps=3)
    record = lead([asks("scout"), asks("scout"), "x"], bl.task_tool(scout), policy=QUIET.vary(cap={"ceiling": 3}))
    assert [below.stop.step for below in record.subagents] == [3, 3]
    assert record.stop_reason == "finished"


# Who can be called, and how deep.


def test_an_unknown_agent_is_an_error_that_lists_the_known_ones() -> None:
    record = lead([asks("nobody"), "x"], bl.task_tool([child("scout"), child("writer")], model=bl.ScriptedModel(["y"])))
    assert given(record)[1:3] == ("there is no agent 'nobody'; known: scout, writer", True)
    assert record.subagents == ()


def test_the_model_is_told_who_can_be_called() -> None:
    spec = bl.task_tool({"a": child("a", description="reads"), "b": child("b")})
    assert spec.name == "task"
    assert spec.description.endswith("Agents: a: reads; b.")
    assert sorted(spec.parameters["properties"]) == ["agent", "prompt"]


def test_beyond_the_depth_limit_a_call_is_an_error() -> None:
    model = bl.ScriptedModel(lambda m: "y" if m[-1].role == "tool" else asks("me"))
    me = bl.Agent("me", tools=("task",), model=model, policy=QUIET)
    for deepest in (1, 2, 3):
        spec = bl.task_tool(me, max_depth=deepest)
        levels = bl.with_subagents(bl.run_sync(replace(me, tools=(spec,)), "go"))
        assert len(levels) == 1 + deepest
        assert [b.parent_run_id for b in levels[1:]] == [a.run_id for a in levels[:-1]]
        refused = given(levels[-1])
        assert refused[1:3] == (
            f"a subagent {deepest} deep cannot start another one: do the work here, or hand it back",
            True,
        )
        assert [given(level).is_error for level in levels[:-1]] == [False] * deepest


def test_task_tool_is_not_offered_at_the_depth_limit() -> None:
    model = Listening([asks("me"), "x"])
    me = bl.Agent("me", model=model, policy=QUIET)
    bl.run_sync(me, "go", tools=[bl.task_tool(me, max_depth=2)])
    assert [sum(spec.name == "task" for spec in request.tools) for request in model.requests] == [1, 1, 0, 0, 1, 1]


def test_a_tool_that_is_called_outside_of_a_run_says_so() -> None:
    spec = bl.task_tool(child("a"), model=bl.ScriptedModel(["x"]))
    context = bl.ToolContext("run", 1, 1, VirtualClock())
    with pytest.raises(bl.ToolError, match="task can only be called by an agent that runs"):
        asyncio.run(spec(agent="a", prompt="p", context=context))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"agents": []}, "there are none"),
        ({"agents": ["scout"]}, "'scout' is no agent"),
        ({"agents": "scout"}, "'scout' is no agent"),
        ({"agents": None}, "None is no agent"),
        ({"agents": child("a"), "name": ""}, "name='' cannot be a tool's name"),
        ({"agents": child("a"), "name": 3}, "name=3 cannot be a tool's name"),
        ({"agents": child("a"), "tools": "look"}, "tools: 'look' is not accepted; expected a list"),
        ({"agents": child("a"), "tools": look}, "expected a list of tools or functions"),
        ({"agents": [child("a"), child("a")]}, "'a' names two agents"),
        ({"agents": child("")}, "'' names no agent"),
        ({"agents": child("a"), "budget": "mine"}, "budget='mine' is not accepted; expected 'own' or 'root'"),
        ({"agents": child("a"), "max_depth": 0}, "expected an integer >= 1"),
        ({"agents": child("a"), "tools": [look, replace(look)]}, "two tools are called 'look'"),
        ({"agents": child("a", bl.ScriptedModel([]), tools=("grep",))}, "lists the tool 'grep'"),
        ({"agents": child("a"), "model": 3}, "model=3 is no model"),
        ({"agents": child("a"), "name": "no name"}, "'no name' cannot be a tool's name"),
    ],
)
def test_what_cannot_work_is_said_before_anything_runs(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(bl.SettingError, match=message):
        bl.task_tool(**arguments)


def test_subagent_that_cannot_start_is_an_error_with_the_reason() -> None:
    record = lead([asks("scout"), "x"], bl.task_tool(child("scout", tools=("grep",))))
    assert given(record).is_error
    assert given(record).content.startswith("The subagent 'scout' could not be started: agent 'scout' lists the tool")
    assert (record.stop_reason, record.subagents) == ("finished", ())


# How a subagent that did not finish is told of.


def test_result_of_a_stopped_subagent_names_it_and_its_limit() -> None:
    script = [{"text": "I look into it.", "tool_calls": [call(what="a")]}, *distinct(9)]
    record = lead([asks("scout"), "x"], bl.task_tool(child("scout", bl.ScriptedModel(script), max_steps=3)))
    assert given(record).is_error
    assert given(record).content == (
        "The subagent 'scout' was stopped (step_cap by max_steps(3)) after 3 steps and 3 calls. "
        "Its last text:\nI look into it."
    )


def test_the_summary_of_a_stopped_subagent_reaches_its_caller() -> None:
    scout = child("scout", bl.ScriptedModel(distinct(9), summary="Half of it is done."), max_steps=1, policy="boocode")
    record = lead([asks("scout"), "x"], bl.task_tool(scout))
    assert given(record).content == (
        "The subagent 'scout' was stopped (step_cap by max_steps(1)) after 1 step and 1 call. "
        "Its last text:\nHalf of it is done."
    )


def test_364_identical_calls_do_not_look_like_a_run_under_way() -> None:
    """Source: opencode issue 45442."""
    stuck = bl.ScriptedModel([{"tool_calls": [call(what="same")], "repeat": "forever"}])
    unbounded = {"policy": QUIET.vary(cap={"ceiling": None}), "tool_budget": None}
    record = lead([asks("scout"), "x"], bl.task_tool(child("scout", stuck, doom_loop=364, **unbounded)))
    assert given(record).content == (
        "The subagent 'scout' was stopped (doom_loop by doom_loop(364, ordered)) after 364 steps and 364 calls. "
        "It returned no text."
    )


def test_a_subagent_that_failed_says_how() -> None:
    broken = bl.ScriptedModel([*distinct(1, None), {"text": "So far", "error": {"status": 500, "after": 6}}])
    record = lead([asks("scout"), "x"], bl.task_tool(child("scout", broken)))
    assert given(record).is_error
    assert given(record).content == (
        "The subagent 'scout' failed (ModelError: HTTP 500 after 6 characters) after 2 steps and 1 call. "
        "Its last text:\nSo far"
    )
    assert record.stop_reason == "finished"


def test_a_subagent_that_pauses_is_an_error_that_says_so() -> None:
    script = [{"text": "Which?", "tool_calls": [call("ask", question="Which?")]}, "done"]
    record = lead([asks("scout"), "x"], bl.task_tool(child("scout", bl.ScriptedModel(script), tools=(ask,))))
    assert only_child(record).stop_reason == "paused"
    assert given(record).is_error
    assert given(record).content == (
        "The subagent 'scout' paused to ask the user, who cannot answer it here, after 1 step and 1 call. "
        "Its last text:\nWhich?"
    )
    assert record.stop_reason == "finished"


# Who pays.

LIMITS: dict[str, Any] = {
    "calls": bl.tool_budget,
    "tokens": bl.max_tokens,
    "fresh": lambda n: bl.max_tokens(n, of="fresh"),
    "cost": lambda n: bl.max_cost(n / 1_000_000),
    "elapsed": lambda n: bl.max_time(n / 1000),
}


@pytest.mark.parametrize("of", LIMITS)
def test_an_own_budget_charges_nobody_else(of: str) -> None:
    limit: bl.StopRule = LIMITS[of](3 * ONE_STEP[of]) if of != "elapsed" else bl.max_steps(5)
    record = lead([free(asks("scout")), "x"], bl.task_tool(child("scout", busy(5))), stop=limit)
    assert (record.stop_reason, only_child(record).stop_reason) == ("finished", "finished")


@pytest.mark.parametrize("of", LIMITS)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_limit_of_the_caller_stops_a_subagent_where_reached(of: str, n: int) -> None:
    """Exactly the limit, and one less, which the same step crosses: at both the subagent stops after step n."""
    for off in (0, 1) if of != "calls" else (0,):
        limit: bl.StopRule = LIMITS[of](n * ONE_STEP[of] - off)
        record = lead([free(asks("scout")), "x"], bl.task_tool(child("scout", busy(4)), budget="root"), stop=limit)
        below = only_child(record)
        assert (below.stop.reason, below.stop.step, below.stop.rule) == (
            record.stop.reason,
            n,
            f"{limit} of 'lead'",
        )
        assert (below.stop.value, below.stop.threshold) == (n * ONE_STEP[of], n * ONE_STEP[of] - off)
        assert given(record).is_error
        assert (record.stop.rule, record.stop.step, record.n_steps) == (str(limit), 1, 1)


@pytest.mark.parametrize("of", LIMITS)
def test_one_unit_more_than_a_subagent_spends_stops_nobody(of: str) -> None:
    own = int(of == "calls")  # the call of the tool itself
    limit: bl.StopRule = LIMITS[of](4 * ONE_STEP[of] + own + 1)
    record = lead([free(asks("scout")), "x"], bl.task_tool(child("scout", busy(4)), budget="root"), stop=limit)
    assert [level.stop_reason for level in bl.with_subagents(record)] == ["finished", "finished"]


@pytest.mark.parametrize("of", LIMITS)
def test_caller_reaches_the_limit_that_its_subagent_did_not(of: str) -> None:
    own = int(of == "calls")
    limit: bl.StopRule = LIMITS[of](2 * ONE_STEP[of] + own)
    record = lead([free(asks("scout")), "x"], bl.task_tool(child("scout", busy(2)), budget="root"), stop=limit)
    if own:
        assert (only_child(record).stop_reason, record.stop.reason) == ("finished", "tool_budget")
    else:
        assert only_child(record).stop.step == 2
    assert (record.stop.step, record.stop.value) == (1, 2 * ONE_STEP[of] + own)


@pytest.mark.parametrize("rule", [bl.tool_budget(2) & bl.max_steps(0), bl.max_steps(0) & bl.tool_budget(2)], ids=str)
def test_budget_in_a_compound_rule_binds_subagents(rule: bl.StopRule) -> None:
    never = rule & bl.max_tokens(1, on_unknown="ignore")
    for limit, steps in ((rule, 2), (never, 9)):
        scout = child("scout", bl.ScriptedModel(distinct(9, None)), max_steps=9)
        record = lead([asks("scout"), "x"], bl.task_tool(scout, budget="root"), stop=limit)
        assert only_child(record).n_steps == steps


def test_steps_are_never_charged() -> None:
    record = lead(
        [asks("scout"), asks("scout"), "x"], bl.task_tool(child("scout", busy(9)), budget="root"), stop=bl.max_steps(3)
    )
    assert (record.stop_reason, record.n_steps) == ("finished", 3)


@pytest.mark.parametrize("of", LIMITS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_two_levels_down_every_step_is_charged_to_the_root(of: str, n: int) -> None:
    worker = child("worker", busy(4))
    chief = child("chief", bl.ScriptedModel([free(asks("worker")), "so"]), tools=("task",))
    spec = bl.task_tool([worker, chief], budget="root", max_depth=2)
    limit: bl.StopRule = LIMITS[of](n * ONE_STEP[of])
    record = lead([free(asks("chief")), "x"], spec, stop=limit)
    root, middle, deepest = bl.with_subagents(record)
    assert (deepest.agent, deepest.stop.step, deepest.stop.rule) == ("worker", n, f"{limit} of 'lead'")
    assert (middle.agent, middle.stop.step, middle.stop.rule) == ("chief", 1, f"{limit} of 'lead'")
    assert (root.stop.step, root.stop.rule) == (1, str(limit))
    assert {level.stop.reason for level in (root, middle, deepest)} == {root.stop.reason}


def test_two_levels_down_an_own_budget_shields_everybody_above() -> None:
    worker = child("worker", busy(4))
    chief = child(
        "chief", bl.ScriptedModel([asks("worker"), "so"]), tools=(bl.task_tool(worker, budget="root", max_depth=2),)
    )
    record = lead([asks("chief"), "x"], bl.task_tool(chief, budget="own"), stop=bl.tool_budget(2))
    assert [level.stop_reason for level in bl.with_subagents(record)] == ["finished"] * 3
    boss = bl.task_tool(replace(chief, tool_budget=3), budget="own")
    levels = bl.with_subagents(lead([asks("chief"), "x"], boss, stop=bl.tool_budget(2)))
    assert [level.stop_reason for level in levels] == ["finished", "tool_budget", "tool_budget"]
    assert levels[2].stop.rule == "tool_budget(3) of 'chief'"


def test_the_root_trips_first_and_the_others_are_noted() -> None:
    """Source: Inspect's `util/_limit.py` checks from the root to the leaf."""
    worker = child("worker", busy(9), tool_budget=2)
    chief = child("chief", bl.ScriptedModel([asks("worker"), "so"]), tools=("task",), tool_budget=2)
    spec = bl.task_tool([worker, chief], budget="root", max_depth=2)
    levels = bl.with_subagents(lead([asks("chief"), "x"], spec, stop=bl.tool_budget(2)))
    assert levels[2].stop[:3] == ("tool_budget", 2, "tool_budget(2) of 'lead'")
    assert levels[2].stop.also_fired == ("tool_budget",)


@pytest.mark.parametrize("batch", ["overshoot", "reject", "cut"])
def test_response_budget_of_a_policy_also_limits_subagents(batch: Any) -> None:
    numbers = dict.fromkeys(("read_only", "writing", "no_agent"), 3)
    policy = QUIET.vary(budgets={"batch": batch, **numbers})
    record = lead([asks("scout"), "x"], bl.task_tool(child("scout", busy(9)), budget="root"), policy=policy)
    below = only_child(record)
    assert below.stop.reason == "tool_budget"
    assert below.stop.step == (4 if batch == "reject" else 3)


def test_unknown_subagent_tokens_cannot_be_charged_to_the_caller() -> None:
    record = lead(
        [free(asks("scout")), "x"],
        bl.task_tool(child("scout", bl.ScriptedModel(distinct(2))), budget="root"),
        stop=bl.max_tokens(5),
    )
    assert [level.stop_reason for level in bl.with_subagents(record)] == ["error", "error"]
    assert "tokens unknown" in (only_child(record).error or "")


def test_parallel_subagents_share_what_is_left() -> None:
    pair = bl.task_tool([child("a", busy(9)), child("b", busy(9))], budget="root")
    record = lead([free(asks("a", "b")), "x"], pair, stop=bl.tool_budget(6))
    made = [below.n_tool_calls for below in record.subagents]
    assert 6 <= sum(made) <= 7
    assert all(below.stop.reason == "tool_budget" for below in record.subagents)


@pytest.mark.parametrize("budget", ["own", "root"])
def test_what_was_charged_is_still_charged_after_a_pause(budget: Any) -> None:
    script = [free(asks("scout")), free({"tool_calls": [call("ask", question="?")]}), *distinct(9)]
    spec = bl.task_tool(child("scout", busy(4)), budget=budget)
    paused = lead(script, spec, ask, look, stop=bl.tool_budget(8))
    assert paused.stop_reason == "paused"
    done = asyncio.run(bl.resume(paused, "yes"))
    assert done.stop_reason == "tool_budget"
    assert done.n_tool_calls == (8 if budget == "own" else 4)
    assert done.stop.value == 8
    assert [below.run_id for below in done.subagents] == [below.run_id for below in paused.subagents]


def test_fresh_tokens_of_a_subagent_stay_charged_after_a_pause() -> None:
    script = [free(asks("scout")), free({"tool_calls": [call("ask", question="?")]}), *map(free, distinct(9, None))]
    spec = bl.task_tool(child("scout", busy(4)), budget="root")
    paused = lead(script, spec, ask, look, stop=bl.max_tokens(360, of="fresh") & bl.max_steps(3))
    done = asyncio.run(bl.resume(paused, "yes"))
    assert (paused.stop_reason, done.stop_reason, done.stop.step, done.stop.value) == ("paused", "token_budget", 3, 360)


# Side by side.


def test_twenty_subagents_run_side_by_side() -> None:
    under_way: set[str] = set()
    most: list[int] = []

    @bl.tool(read_only=True)
    async def work(context: bl.ToolContext) -> str:
        """Work for a while."""
        under_way.add(context.run_id)
        most.append(len(under_way))
        await context.sleep(2)
        under_way.discard(context.run_id)
        return "worked"

    names = [f"w{n}" for n in range(20)]
    model = bl.ScriptedModel([{"tool_calls": [call("work")], "latency_ms": 1000}, "done"])
    spec = bl.task_tool([child(name, model, tools=(work,)) for name in names])
    record = lead([asks(*names), "x"], spec)
    assert [result.content for result in record.steps[0].results if result] == ["done"] * 20
    assert [below.agent for below in record.subagents] == names
    assert {below.duration_ms for below in record.subagents} == {3000}
    assert record.duration_ms == 3000
    assert max(most) == 20


def test_subagent_time_starts_at_zero_and_passes_for_its_caller() -> None:
    record = lead([{**asks("scout"), "latency_ms": 500}, "x"], bl.task_tool(child("scout", busy(2))))
    below = only_child(record)
    assert [step.start_ms for step in below.steps] == [0, 1000, 2000]
    assert record.steps[0].duration_ms == 2500
    told = [(event.t_ms, event.payload["reason"]) for event in record.events]
    assert told == [(500, None), (2500, "finished")]


# Abort and cancel.


def check_whole(record: bl.Run) -> None:
    """Every run of the family: each call answered, everything linked, beginning and end told of."""
    for level in bl.with_subagents(record):
        assert level.stop_reason in ("aborted", "finished")
        assert all(len(step.results) == len(step.response.tool_calls) for step in level.steps)
        assert all(result is not None for step in level.steps for result in step.results)
        assert {below.parent_run_id for below in level.subagents} <= {level.run_id}
        told = [event.payload for event in level.events if event.kind == "subagent"]
        assert sorted(facts["run_id"] for facts in told) == sorted([below.run_id for below in level.subagents] * 2)
        ends = {facts["run_id"]: facts["reason"] for facts in told if facts["reason"] is not None}
        assert ends == {below.run_id: below.stop_reason for below in level.subagents}
        assert run_events(level)[-1].kind == "stop"


def test_an_aborted_subagent_is_an_error_for_its_caller() -> None:
    abort = bl.Abort()

    @bl.tool(read_only=True)
    def flip() -> str:
        """Abort everything."""
        abort.abort()
        return "flipped"

    scout = child(
        "scout", bl.ScriptedModel([{"text": "I begin.", "tool_calls": [call("flip")]}, "done"]), tools=(flip,)
    )
    record = lead([asks("scout"), "x"], bl.task_tool(scout), abort=abort)
    assert given(record).is_error
    assert given(record).content == (
        "The subagent 'scout' was aborted after 1 step and 1 call. Its last text:\nI begin."
    )
    assert record.stop_reason == "aborted"


class Slow:
    """A model from a script that waits a few times before it answers."""

    virtual, summarises = True, False

    def __init__(self, items: Any) -> None:
        self.name = "slow"
        self._script = bl.ScriptedModel(items)

    async def respond(self, request: bl.models.Request, emit: Emit | None = None) -> bl.models.Response:
        for _ in range(2):
            await asyncio.sleep(0)
        return await self._script.respond(request, emit)


@bl.tool(read_only=True)
async def slow() -> str:
    """Take a while."""
    for _ in range(2):
        await asyncio.sleep(0)
    return "at last"


@pytest.mark.parametrize("by", ["cancel", "abort", "both"])
@pytest.mark.parametrize("names", [("chief",), ("chief", "worker", "chief")], ids=["alone", "side by side"])
def test_stop_at_any_await_leaves_whole_records_of_subagents(names: tuple[str, ...], by: str) -> None:
    worker = child("worker", Slow([{"tool_calls": [call("slow"), call("slow")]}, "done"]), tools=(slow,))
    chief = child("chief", Slow([asks("worker"), asks("worker", "worker"), "so"]), tools=("task",), doom_loop=None)
    spec = bl.task_tool([worker, chief], max_depth=2)
    agent = bl.Agent("lead", tools=(spec,), policy=QUIET)
    generations: set[int] = set()
    late = 0

    async def stopped_after(ticks: int) -> tuple[bl.Run, bool]:
        abort = bl.Abort()
        outer = asyncio.ensure_future(bl.run(agent, "go", model=Slow([asks(*names), "x"]), abort=abort))
        for _ in range(ticks):
            await asyncio.sleep(0)
        if outer.done():
            return outer.result(), True
        if by != "cancel":
            abort.abort()
        if by != "abort":
            outer.cancel()
        try:
            record = await outer
        except asyncio.CancelledError as error:
            assert by != "abort"
            return error.run, False  # type: ignore[attr-defined] # what the loop put there
        assert by == "abort"
        return record, False

    for ticks in itertools.count(1):
        record, over = asyncio.run(stopped_after(ticks))
        check_whole(record)
        generations.add(len({level.agent for level in bl.with_subagents(record)}))
        if over:
            break
        late += record.stop_reason == "finished"
    assert late == 0 or by == "abort"  # it comes a tick later, when the run may be over
    assert ticks > 15
    assert generations == {1, 2, 3} if len(names) == 1 else {1, 3} <= generations


# The family.


def nested() -> bl.Run:
    worker = child("worker", bl.ScriptedModel(distinct(1)))
    chief = child("chief", bl.ScriptedModel([asks("worker", "worker"), "so"]), tools=("task",))
    return lead([asks("chief"), asks("worker"), "x"], bl.task_tool([worker, chief], max_depth=2))


def test_a_family_has_everybody_once_parents_first() -> None:
    record = nested()
    everybody = bl.with_subagents(record)
    assert [level.agent for level in everybody] == ["lead", "chief", "worker", "worker", "worker"]
    assert (
        bl.with_subagents(everybody)
        == bl.with_subagents(reversed(everybody))
        == bl.with_subagents([record, record.subagents[0]])
        == everybody
    )
    assert bl.with_subagents([]) == []
    with pytest.raises(TypeError, match="expected a Run or runs, not int"):
        bl.with_subagents([3])  # type: ignore[list-item]


def test_frames_take_a_family() -> None:
    record = nested()
    frame = bl.runs_df(bl.with_subagents(record))
    assert frame["agent"].tolist() == ["lead", "chief", "worker", "worker", "worker"]
    parents = dict(zip(frame["run_id"], frame["parent_run_id"], strict=True))
    assert [parents[level.run_id] for level in record.subagents] == [record.run_id] * 2
    assert bl.steps_df(bl.with_subagents(record)).shape[0] == sum(level.n_steps for level in bl.with_subagents(record))


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_saved_run_includes_its_subagents_and_each_loads_once(tmp_path: Path, suffix: str) -> None:
    record = nested()
    everybody = bl.with_subagents(record)
    for runs in (record, everybody, [*reversed(everybody)], iter(everybody)):
        bl.save_runs(runs, tmp_path / f"runs.{suffix}")
        back = bl.load_runs(tmp_path / f"runs.{suffix}")
        assert sorted(back, key=lambda level: level.run_id) == sorted(everybody, key=lambda level: level.run_id)
        assert [level.parent_run_id for level in back if level.run_id == record.run_id] == [None]


def test_sweep_lists_subagents_after_their_parents() -> None:
    worker = child("worker")
    boss = bl.Agent("boss", policy=QUIET)
    script = bl.ScriptedModel(lambda m: asks("worker") if m[-1].text == "go" else "done")
    own = child("own", bl.ScriptedModel(["x"], name="its own"))
    runs = asyncio.run(
        bl.sweep(
            boss, "go", {"m": script}, grid={"max_steps": [2, 3]}, tools=[bl.task_tool([worker, own])], progress=False
        )
    )
    assert [level.agent for level in runs] == ["boss", "worker", "boss", "worker"]
    assert [level.settings["max_steps"] for level in runs] == [2, 2, 3, 3]
    assert [level.parent_run_id for level in runs] == [None, runs[0].run_id, None, runs[2].run_id]
    assert {level.model for level in runs} == {"m"}
    asked = bl.ScriptedModel(lambda m: asks("own") if m[-1].text == "go" else "done")
    runs = asyncio.run(bl.sweep(boss, "go", {"m": asked}, tools=[bl.task_tool([worker, own])], progress=False))
    assert [level.model for level in runs] == ["m", "its own"]


# What is told.


def test_watchers_get_subagent_start_and_end_as_they_happen() -> None:
    told: list[Event] = []
    seen: list[list[str]] = []

    @bl.tool(read_only=True)
    def spy() -> str:
        """See what was told so far."""
        seen.append([event.kind for event in told])
        return "seen"

    scout = child("scout", bl.ScriptedModel([{"tool_calls": [call("spy")]}, "done"]), tools=(spy,))
    record = lead([asks("scout"), "x"], bl.task_tool(scout), on_event=told.append)
    assert seen[0][-1] == "subagent"
    kinds = [event for event in told if event.kind != "delta"]
    assert kinds == run_events(record)
    begins, ends = (event.payload for event in told if event.kind == "subagent")
    below = only_child(record)
    assert (begins["run_id"], begins["agent"], begins["reason"]) == (below.run_id, "scout", None)
    assert (ends["run_id"], ends["agent"], ends["reason"]) == (below.run_id, "scout", "finished")
    assert (ends["steps"], ends["calls"]) == (2, 1)
    assert begins["call_id"] == ends["call_id"] == record.steps[0].response.tool_calls[0].id


def test_printed_run_has_a_line_for_each_subagent() -> None:
    record = lead(
        [{"tool_calls": [call("look")]}, asks("scout", "scout"), "x"], look, bl.task_tool(child("scout", busy(2)))
    )
    lines = str(record).splitlines()
    told = [line for line in lines if "subagent" in line]
    assert sorted(told) == sorted(  # they end at the same moment, one or the other first
        f"     => subagent scout: finished, 3 steps, 2 calls, run {below.run_id}" for below in record.subagents
    )
    second, third = (next(i for i, line in enumerate(lines) if line.startswith(f"  {n}.")) for n in (2, 3))
    assert all(second < lines.index(line) < third for line in told)


def test_the_user_whom_a_subagents_guards_ask_is_the_callers() -> None:
    asked: list[str] = []

    def human(question: Any) -> bool:
        asked.append(question.rule)
        return True

    same = [{"tool_calls": [letter] * 3} for letter in [call(what="A")]]
    scout = child("scout", bl.ScriptedModel([*same, "done"]), policy="opencode_v1")
    record = lead([asks("scout"), "x"], bl.task_tool(scout), ask=human)
    assert len(asked) == 1
    assert only_child(record).stop_reason == "finished"


def test_a_subagent_that_is_gone_on_with_keeps_its_parent() -> None:
    script = [{"tool_calls": [call("ask", question="?")]}, "done"]
    record = lead([asks("scout"), "x"], bl.task_tool(child("scout", bl.ScriptedModel(script), tools=TOOLS)))
    done = asyncio.run(bl.resume(only_child(record), "yes"))
    assert (done.stop_reason, done.parent_run_id) == ("finished", record.run_id)
