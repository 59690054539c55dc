"""Simulated agents: the same run wherever and however it is played, and every figure of the profile obeyed.

Figures are held by tests of fit over runs with fixed seeds: a right program passes always, since nothing is left to
chance, and a wrong figure makes the p-value vanish.
"""

from __future__ import annotations

import asyncio
import pickle
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats  # type: ignore[import-untyped] # scipy has no types

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.messages import History
from boolab.core.types import Event, ToolResult
from boolab.runtime.engine.runner import run as run_async
from boolab.runtime.models.base import Emit, validate_response
from boolab.runtime.models.simulated import NO_TOOLS
from boolab.runtime.tools.tool import open_tool
from tests.support.cases import cases
from tests.support.helpers import QUIET
from tests.support.project import ROOT

LIVELY: dict[str, Any] = {
    "name": "lively",
    "start": {"list": 3, "search": 1},
    "tools": {
        "list": {"next": {"read": 3, "search": 1}, "latency_ms": {"median": 20, "sigma": 0.5}},
        "search": {"next": {"read": 3, "search": 1}, "calls": {1: 3, 2: 2, 3: 1}, "error_rate": 0.1},
        "read": {"next": {"read": 2, "edit": 2, "search": 1}, "calls": {1: 4, 2: 1}, "finish_factor": 0.5},
        "edit": {"next": {"read": 1, "test": 3}, "error_rate": 0.2, "result_chars": {"median": 400, "sigma": 1}},
        "test": {"next": {"read": 1, "edit": 3}, "error_rate": 0.4, "finish_factor": 2, "latency_ms": 3000},
    },
    "finish": {"hazard": [{"from_step": 1, "probability": 0}, {"from_step": 4, "probability": 0.06}]},
    "loop": {"rate": 0.03, "period": {1: 2, 2: 1, 3: 1}, "again": 0.7},
    "after_error": {"retry": 3, "vary": 4, "switch": 2, "give_up": 1, "fails_again": 0.6},
    "revisit": {"rate": 0.15, "same_result": 0.4},
    "tokens": {"prompt": {"median": 4000, "sigma": 0.2}, "output": {"median": 150, "sigma": 0.8}, "cached_share": 0.9},
    "price": {"input": 3, "cached": 0.3, "output": 15},
    "latency": {"response_ms": {"median": 2000, "sigma": 0.5}, "first_token_ms": 300},
    "text_chars": {"median": 60, "sigma": 1, "zeros": 0.5},
    "difficulties": {
        "easy": {"share": 2, "hazard_factor": 1.5, "finished": 0.9, "cut": 0.3},
        "hard": {"share": 1, "hazard_factor": 0.5, "finished": 0.4, "cut": 0.1},
    },
}
MODEL = bl.SimulatedModel(bl.models.Profile.of(LIVELY))
FREE = bl.Agent("free", policy=QUIET.vary(cap={"ceiling": None}), max_steps=None, tool_budget=None, doom_loop=None)
LEAST = 1e-4
"""The least p-value that is taken for chance."""


def simple(**figures: Any) -> bl.SimulatedModel:
    """An agent with two tools that never ends by itself, and with these figures."""
    usual: dict[str, Any] = {"tools": {"a": {}, "b": {}}, "finish": {"hazard": 0}}
    return bl.SimulatedModel(bl.models.Profile.of(usual | figures))


def capped(steps: int | None, **options: Any) -> bl.Agent:
    return replace(FREE, max_steps=steps, **options)


async def play_all(
    model: bl.SimulatedModel, plays: Iterable[tuple[str, int]], agent: bl.Agent, **options: Any
) -> list[bl.Run]:
    return [await run_async(agent, task, model=model, seed=seed, **options) for task, seed in plays]


def many(model: bl.SimulatedModel, n: int, agent: bl.Agent = FREE, **options: Any) -> list[bl.Run]:
    """Runs with seeds from 0 on, each on a task of its own."""
    return asyncio.run(play_all(model, [(f"task {seed}", seed) for seed in range(n)], agent, **options))


def one(model: bl.models.Model, seed: int = 0, agent: bl.Agent = FREE, task: str = "go", **options: Any) -> bl.Run:
    return bl.run_sync(agent, task, model=model, seed=seed, **options)


def bare(run: bl.Run) -> bl.Run:
    """The record without its id, the only thing that chance may give it."""
    return replace(run, run_id="")


def results_of(step: bl.Step) -> list[ToolResult]:
    return [result for result in step.results if result is not None]


def arguments_of(step: bl.Step) -> tuple[str, ...]:
    return tuple(call.arguments for call in step.response.tool_calls)


def fits(observed: Mapping[Any, int], shares: Mapping[Any, float]) -> bool:
    """Whether counts are ones that the shares give; a value that has no share must not occur."""
    assert observed.keys() <= shares.keys(), observed
    total, whole = sum(observed.values()), sum(shares.values())
    names = [name for name, share in shares.items() if share]
    expected = [total * shares[name] / whole for name in names]
    assert min(expected) > 5, "too few to tell"
    return bool(stats.chisquare([observed.get(name, 0) for name in names], expected).pvalue > LEAST)


def likely(hits: int, trials: int, probability: float) -> bool:
    """Whether so many hits are ones that the probability gives."""
    assert trials * min(probability, 1 - probability) > 5 or probability in (0, 1), "too few to tell"
    return bool(stats.binomtest(hits, trials, probability).pvalue > LEAST)


# --- The same run -----------------------------------------------------------------------------------------------------


@cache
def lively_runs() -> tuple[bl.Run, ...]:
    return tuple(bare(run) for run in many(MODEL, 60))


def test_simulated_run_does_not_depend_on_other_runs() -> None:
    order = list(range(60))
    random.Random(1).shuffle(order)  # noqa: S311 - no secret

    async def together() -> list[bl.Run]:
        told: list[Event] = []
        runs = (
            run_async(FREE, f"task {seed}", model=MODEL, seed=seed, on_event=told.append if seed % 3 == 0 else None)
            for seed in order
        )
        return await asyncio.gather(*runs)

    assert {seed: bare(run) for seed, run in zip(order, asyncio.run(together()), strict=True)} == dict(
        enumerate(lively_runs())
    )
    assert len({run.steps for run in lively_runs()}) == 60


def test_simulated_run_is_the_same_in_another_process() -> None:
    code = (
        "import sys, pickle; from boolab.runtime.engine.runner import run_sync\n"
        "model, agent = pickle.loads(sys.stdin.buffer.read())\n"
        "runs = [run_sync(agent, f'task {seed}', model=model, seed=seed) for seed in (4, 2, 0)]\n"
        "sys.stdout.buffer.write(pickle.dumps(runs))"
    )
    given = pickle.dumps((MODEL, FREE))
    done = subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, check=True, cwd=ROOT)
    there = pickle.loads(done.stdout)  # noqa: S301 - our own
    assert [bare(run) for run in there] == [lively_runs()[seed] for seed in (4, 2, 0)]


def test_simulated_run_depends_on_seeds_and_task() -> None:
    other = bl.SimulatedModel(MODEL.profile, seed=1)
    runs = [one(MODEL), one(MODEL, seed=1), one(MODEL, task="come"), one(other)]
    assert len({run.steps for run in runs}) == 4
    assert one(MODEL, seed=1).steps == runs[1].steps


def test_a_recording_of_a_run_plays_it_again() -> None:
    for run in lively_runs()[:10]:
        again = bl.run_sync(FREE, run.task, model=bl.RecordedModel(run), seed=run.seed, score=MODEL.score)
        assert bare(again) == run


@given(seed=st.integers(0, 10_000), at=st.integers(0, 30))
@cases(100)
def test_a_branch_of_a_run_goes_on_as_the_run_did(seed: int, at: int) -> None:
    run = one(MODEL, seed=seed)
    if at < run.n_steps:
        fresh = bl.SimulatedModel(MODEL.profile)
        assert asyncio.run(bl.branch(run, at, model=fresh, agent=FREE, seed=seed)).steps == run.steps


def test_simulated_answer_needs_no_earlier_requests() -> None:
    run = lively_runs()[0]
    history = list(History(run.prompt, run.steps))
    for step in (run.steps[-1], run.steps[3], run.steps[0]):
        request = bl.models.Request(step.index - 1, history, (open_tool("read"),), VirtualClock(), seed=run.seed)
        assert asyncio.run(bl.SimulatedModel(MODEL.profile).respond(request)) == step.response


def test_two_seeds_in_one_history_are_two_runs() -> None:
    model, history, said = simple(), History(lively_runs()[0].prompt, []), []
    for seed in (1, 2, 1, 2):
        request = bl.models.Request(0, history, (open_tool("a"),), VirtualClock(), seed=seed)
        said.append(asyncio.run(model.respond(request)))
    assert said[0] == said[2] != said[1] == said[3]


def test_a_result_is_found_by_the_id_of_its_call_alone() -> None:
    fresh = bl.SimulatedModel(MODEL.profile)
    run = next(run for run in lively_runs() if any(len(step.results) > 1 for step in run.steps))
    for step in run.steps:
        for place, (call, result) in enumerate(zip(step.response.tool_calls, step.results, strict=True), 1):
            context = bl.ToolContext("", step.index, place, VirtualClock())
            replying = fresh.reply(call, context)
            assert replying is not None
            assert asyncio.run(take(replying)) == result


async def take(replying: Any) -> Any:
    return await replying


def test_a_call_that_is_not_its_own_has_no_result() -> None:
    call = lively_runs()[0].steps[0].response.tool_calls[0]
    context = bl.ToolContext("", 1, 1, VirtualClock())
    for strange in (
        bl.models.ToolCall("call_1_1", "read", "{}"),
        call._replace(arguments="{}"),
        call._replace(name="write"),
        call._replace(id=call.id[:-1] + "9"),
        call._replace(id=call.id.replace("_1_", "_2_")),
    ):
        assert MODEL.reply(strange, context) is None
    to_come = lively_runs()[0].steps[1].response.tool_calls[0]
    assert MODEL.reply(to_come, context) is None
    assert asyncio.run(take(MODEL.reply(to_come, context._replace(step=2)))) is not None


@given(
    seed=st.integers(0, 10_000),
    caps=st.tuples(*[st.none() | st.integers(1, 40)] * 2),
    budgets=st.tuples(*[st.none() | st.integers(1, 60)] * 2),
    loops=st.tuples(*[st.none() | st.integers(2, 5)] * 2),
)
@cases(150)
def test_simulated_run_under_tight_limits_is_a_prefix(
    seed: int, caps: tuple[Any, ...], budgets: tuple[Any, ...], loops: tuple[Any, ...]
) -> None:
    def limit(values: tuple[Any, ...], which: Any) -> Any:
        known = [value for value in values if value is not None]
        return None if which is max and len(known) < 2 else which(known, default=None)

    tight, loose = (
        one(MODEL, seed, capped(limit(caps, which), tool_budget=limit(budgets, which), doom_loop=limit(loops, which)))
        for which in (min, max)
    )
    assert tight.steps == loose.steps[: tight.n_steps]
    assert tight.stop_reason != "finished" or bare(tight).steps == loose.steps


def test_what_a_run_is_told_changes_only_when_it_finishes() -> None:
    told = simple(loop={"rate": 0.1}, reminders=[{"turns_left": 5, "least": 0.3}])
    for seed in range(20):
        free = one(simple(loop={"rate": 0.1}), seed, capped(12))
        run = one(told, seed, bl.Agent("free", policy=bl.fixed_turns(12)))
        assert [arguments_of(step) for step in run.steps[: run.stop_step]] == [
            arguments_of(step) for step in free.steps[: run.stop_step]
        ]


# --- What policies ask ------------------------------------------------------------------------------------------------


class Watching:
    """Passes requests on to a model, and sees to it that every response is what was asked for."""

    def __init__(self, model: bl.SimulatedModel) -> None:
        self.model = model
        self.asked: list[bl.models.Request] = []
        self.said: list[bl.models.Response] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    async def respond(self, request: bl.models.Request, emit: Emit | None = None) -> bl.models.Response:
        self.asked.append(request)
        response = await self.model.respond(request, emit)
        self.said.append(response)
        assert validate_response(response) == ""
        if not request.tools or request.tool_choice == "none" or request.purpose != "step":
            assert response.text
            assert not response.tool_calls
        return response


@pytest.mark.parametrize("name", sorted(bl.policies))
def test_simulated_model_answers_under_each_policy(name: str) -> None:
    policy = bl.policies[name]
    ends = {**LIVELY, "finish": {"hazard": 0.08, "tool": next(iter(policy.finish.tools), None)}}
    for model in (MODEL, bl.SimulatedModel(bl.models.Profile.of(ends))):
        for seed in range(4):
            cap = 12 if "max_steps" in policy.order else None
            agent = bl.Agent("free", policy=policy) if cap is None else bl.Agent("free", policy=policy, max_steps=cap)
            watching = Watching(model)
            run = one(watching, seed, agent, stop=None if cap else bl.max_steps(40))
            assert run.stop_reason not in ("error", "aborted"), run.error
            assert run.n_steps <= len(watching.said)
            assert bare(run) == bare(one(model, seed, agent, stop=None if cap else bl.max_steps(40)))


def test_where_no_tool_may_be_called_it_answers_in_text() -> None:
    run = one(MODEL, agent=capped(0))
    assert (run.n_steps, run.n_tool_calls, run.stop_reason) == (1, 0, "finished")
    assert run.steps[0].response.native_finish_reason == NO_TOOLS
    for last_step in ("no_tools", "tool_choice_none"):
        agent = replace(capped(6), policy=QUIET.vary(last_step={"action": last_step}))
        run = one(simple(), agent=agent)
        assert [len(step.response.tool_calls) for step in run.steps] == [1, 1, 1, 1, 1, 0]
        assert run.steps[:5] == one(simple(), agent=capped(5)).steps
        assert run.text


def test_its_own_tools_are_offered_where_nobody_names_any() -> None:
    watching = Watching(simple(finish={"hazard": 0, "tool": "submit"}))
    run = bl.run_sync(None, "go", model=watching, policy=QUIET.vary(order=("max_steps",), cap={"max_steps": 3}))
    assert [[tool.name for tool in request.tools] for request in watching.asked] == [["a", "b", "submit"]] * 3
    assert run.n_tool_calls == 3
    named = bl.Agent("named", tools=("look", "b"), policy=QUIET, max_steps=3)
    bl.run_sync(named, "go", model=watching)
    assert [tool.name for tool in watching.asked[-1].tools] == ["look", "b"]


def test_a_summary_is_written_where_a_policy_asks_for_one() -> None:
    model = simple(
        tokens={"prompt": 100, "output": 10, "summary": 77}, summary_chars=123, price={"input": 1, "output": 2}
    )
    run = one(model, agent=replace(capped(3), policy=bl.policies["boocode"]))
    assert run.wrap_up is not None
    assert run.wrap_up.response is not None
    assert (len(run.wrap_up.text), run.wrap_up.response.usage.output_tokens) == (123, 77)
    assert run.wrap_up.response.text == run.wrap_up.text


def test_simulated_reminders_change_the_hazard() -> None:
    agent = bl.Agent("free", policy=bl.fixed_turns(10))
    reminders = [{"turns_left": 6, "factor": 4}, {"turns_left": 2, "least": 1}]
    runs = many(simple(finish={"hazard": 0.05}, reminders=reminders), 1500, agent)
    at_risk, ended = Counter[int](), Counter[int]()
    for run in runs:
        at_risk.update(range(1, run.n_steps + 1))
        ended[run.n_steps] += run.stop_reason == "finished"
    assert at_risk[10] == 0
    for step in range(1, 10):
        left = 10 - step + 1
        assert likely(ended[step], at_risk[step], 1 if left <= 2 else 0.2 if left <= 6 else 0.05), step


def test_simulated_last_step_counts_as_one_turn_left() -> None:
    model = simple(reminders=[{"turns_left": 1, "least": 1}])
    policy = QUIET.vary(last_step={"action": "prompt"})
    runs = [one(model, seed, replace(capped(7), policy=policy)) for seed in range(5)]
    assert {(run.n_steps, run.stop_reason) for run in runs} == {(7, "finished")}


def test_simulated_compaction_shortens_requests_alone() -> None:
    tokens = {"prompt": 2000, "output": 300, "growth": 700, "summary": 100, "cached_share": 1}
    model = simple(tokens=tokens, context_window=8000, summary_chars=400)
    plain = one(model, agent=capped(30))
    run = one(model, agent=capped(30), compaction=bl.Compaction(reserve=1000, keep_steps=2))
    assert [arguments_of(step) for step in run.steps] == [arguments_of(step) for step in plain.steps]
    places = [compacted.before for compacted in run.compactions]
    assert places == [7, 11, 15, 19, 23, 27]
    inputs = [step.response.usage.input_tokens or 0 for step in run.steps]
    for before in places:
        shown = 2000 + 2 * 1000 + 400 // 4
        assert shown <= inputs[before - 1] <= shown + 50  # and the words around the summary
        assert run.steps[before - 1].response.usage.cached_tokens == inputs[before - 1] - 1000
    asked = [compacted.response for compacted in run.compactions]
    assert all(response is not None and (response.usage.input_tokens or 0) <= 8200 for response in asked)
    assert [b - a for a, b in pairwise(inputs) if b > a] == [1000] * (29 - len(places))


def test_simulated_finish_call_is_followed_by_a_text() -> None:
    model = simple(finish={"hazard": 0.3, "tool": "submit", "text_chars": 40})
    run = one(model)
    assert [call.name for call in run.steps[-2].response.tool_calls] == ["submit"]
    assert results_of(run.steps[-2])[0].content == "Submitted."
    assert (run.stop_reason, len(run.text)) == ("finished", 40)
    ending = replace(capped(None), policy=QUIET.vary(finish={"tools": ("submit",)}))
    assert one(model, agent=ending).steps == run.steps[:-1]
    turns = [{"turns_left": 4, "least": 1}]
    told = one(
        simple(finish={"hazard": 0, "tool": "submit"}, reminders=turns),
        agent=bl.Agent("free", policy=bl.fixed_turns(9)),
    )
    assert [len(step.response.tool_calls) for step in told.steps] == [1, 1, 1, 1, 1, 1, 0]


def test_a_run_that_is_gone_on_with_has_the_same_course() -> None:
    continuing = QUIET.vary(order=("max_steps",), continues={"times": 3, "by": "loop", "adds": 4})
    agent = bl.Agent("free", policy=continuing, max_steps=4)
    long = one(simple(), agent=capped(16))
    run = one(simple(), agent=agent)
    assert [arguments_of(step) for step in run.steps] == [arguments_of(step) for step in long.steps]


@pytest.mark.parametrize("tokens", [None, {"prompt": 10, "output": 1}])
def test_time_passes_alike_whether_a_run_is_watched_or_not(tokens: Any) -> None:
    model = simple(
        latency={"response_ms": 1000, "first_token_ms": 300},
        text_chars=12,
        tools={"a": {"latency_ms": 250, "calls": {2: 1}}},
    )
    told: list[Event] = []
    agent = capped(3)
    watched = one(model, agent=agent, on_event=told.append)
    assert watched.steps == one(model, agent=agent).steps == one(model, agent=agent, clock=Giving()).steps
    assert (watched.duration_ms, watched.steps[0].model_ms, watched.started_at) == (3 * 1250, 1000, None)
    deltas = [(event.t_ms, event.payload["of"]) for event in told if event.kind == "delta"]
    assert deltas[:4] == [(300, "text"), (300, "tool_call"), (300, "tool_call"), (1550, "text")]


class Giving(VirtualClock):
    """A clock of somebody's own, that only knows how to sleep."""

    def advance(self, milliseconds: int) -> None:
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        VirtualClock.advance(self, round(seconds * 1000))

    def fork(self, timeout: float | None = None) -> Giving:
        assert timeout is None
        return Giving(self.now())


# --- The figures ------------------------------------------------------------------------------------------------------


def test_simulated_tools_follow_the_shares() -> None:
    start = {"a": 5, "b": 3, "c": 2}
    rows = {"a": {"a": 1, "b": 3}, "b": {"a": 2, "b": 2, "c": 1}, "c": start}
    tools = {name: {"next": row, "calls": {1: 1, 2: 1}} for name, row in rows.items() if name != "c"} | {"c": {}}
    runs = many(simple(start=start, tools=tools), 250, capped(12))
    first, moves = Counter[str](), defaultdict[str, Counter[str]](Counter)
    for run in runs:
        names = [call.name for step in run.steps for call in step.response.tool_calls]
        first[names[0]] += 1
        for before, after in pairwise(names):
            moves[before][after] += 1
    assert fits(first, start)
    assert all(fits(moves[name], row) for name, row in rows.items())


def test_simulated_calls_follow_the_shares_of_the_first_tool() -> None:
    own = {1: 0.5, 2: 0.3, 5: 0.2}
    runs = many(simple(tools={"a": {"calls": own}, "b": {}}, calls={1: 3, 4: 1}), 200, capped(20))
    sizes = defaultdict[str, Counter[int]](Counter)
    for step in (step for run in runs for step in run.steps):
        sizes[step.response.tool_calls[0].name][len(step.response.tool_calls)] += 1
    assert fits(sizes["a"], own)
    assert fits(sizes["b"], {1: 3, 4: 1})
    assert len({arguments for run in runs[:1] for step in run.steps for arguments in arguments_of(step)}) == (
        runs[0].n_tool_calls
    )


def test_it_finishes_with_the_hazard_of_step_tool_and_difficulty() -> None:
    hazard = [{"from_step": 1, "probability": 0.02}, {"from_step": 3, "probability": 0.1}]
    model = simple(
        finish={"hazard": [*hazard, {"from_step": 9, "probability": 0.4}]},
        tools={"a": {}, "b": {"finish_factor": 2}},
        difficulties={"easy": {"hazard_factor": 1.5}, "hard": {"hazard_factor": 0.5, "share": 2}},
    )
    at_risk, ended = Counter[float](), Counter[float]()
    runs = many(model, 1800)
    for run in runs:
        kind = {"easy": 1.5, "hard": 0.5}[model.profile.difficulty_of(run.task) or ""]
        assert run.stop_reason == "finished"
        for place, step in enumerate(run.steps):
            last = 1 if not place else {"a": 1, "b": 2}[run.steps[place - 1].response.tool_calls[-1].name]
            base = 0.02 if step.index < 3 else 0.1 if step.index < 9 else 0.4
            chance = min(base * last * kind, 1.0)
            at_risk[chance] += 1
            ended[chance] += step is run.steps[-1]
    assert len(at_risk) >= 9
    assert all(likely(ended[chance], at_risk[chance], chance) for chance in at_risk if at_risk[chance] * chance > 10)
    assert fits(Counter(model.profile.difficulty_of(run.task) for run in runs), {"easy": 1, "hard": 2})


def same_step(one: bl.Step, other: bl.Step) -> bool:
    return (
        [call[1:] for call in one.response.tool_calls] == [call[1:] for call in other.response.tool_calls]
        and [result[1:] for result in results_of(one)] == [result[1:] for result in results_of(other)]
        and (one.response.text, one.duration_ms) == (other.response.text, other.duration_ms)
    )


@pytest.mark.parametrize("same_result", [0, 1])
def test_simulated_revisit_skips_the_latest_call(same_result: int) -> None:
    model = simple(
        revisit={"rate": 0.6, "same_result": same_result},
        loop={"rate": 0.1, "again": 0.5, "period": {2: 1}},
        tools={"a": {"error_rate": 0.2}, "b": {}},
        calls={1: 1, 2: 1},
        after_error={"retry": 1, "vary": 1, "fails_again": 0.5},
        latency={"response_ms": {"median": 10_000, "sigma": 1}},
    )
    revisits = 0
    for run in many(model, 100, capped(30)):
        latest: dict[str, str] = {}
        last: tuple[str, ...] = ()
        for place, step in enumerate(run.steps):
            looping = any(same_step(step, run.steps[place - back]) for back in (1, 2) if back <= place)
            after_error = place > 0 and any(result.is_error for result in results_of(run.steps[place - 1]))
            for n, (call, result) in enumerate(zip(step.response.tool_calls, results_of(step), strict=True)):
                if not (looping or (after_error and not n)) and call.arguments in latest:
                    revisits += 1
                    assert (result.content == latest[call.arguments]) == bool(same_result)
                    assert call[1:] != last
                latest[call.arguments], last = result.content, call[1:]
    assert revisits > 1000


def test_tokens_and_cost_add_up() -> None:
    for run in lively_runs()[:10]:
        before = 0
        for step, after in zip(run.steps, [*run.steps[1:], None], strict=True):
            inputs, outputs, cached, reasoning, cost, *_ = step.response.usage
            assert inputs is not None
            assert outputs is not None
            assert (cached, reasoning) == (int(0.9 * before), None)
            assert cost == pytest.approx(3 * (inputs - cached) + 0.3 * cached + 15 * outputs, abs=0.5)  # type: ignore[operator] # known
            before = inputs
            if after is not None:
                grown = sum(len(result.content) for result in results_of(step)) // 4
                assert after.response.usage.input_tokens == inputs + outputs + grown


def test_what_a_profile_does_not_say_is_unknown() -> None:
    run = one(simple(), agent=capped(2))
    assert set(run.steps[0].response.usage) == {None}
    assert (run.success, run.steps[0].response.ttft_ms) == (None, None)
    priceless = one(simple(tokens={"prompt": 10, "output": 5}), agent=capped(2))
    assert priceless.steps[0].response.usage == bl.models.Usage(10, 5, 0)


# --- Success ----------------------------------------------------------------------------------------------------------

SCORED = {
    "finish": {"hazard": 0.2},
    "success": {"finished": 0.6, "cut": 0.12, "cut_from_step": 3},
    "difficulties": {"easy": {"finished": 0.9}, "hard": {"finished": 0.3, "cut": 0.05}, "usual": {}},
}
CHANCES = {
    ("easy", True): 0.9, ("hard", True): 0.3, ("usual", True): 0.6,
    ("easy", False): 0.12, ("hard", False): 0.05, ("usual", False): 0.12,
}  # fmt: skip


def test_simulated_success_depends_on_difficulty_and_end() -> None:
    model = simple(**SCORED)
    runs, hits = Counter[tuple[str, bool]](), Counter[tuple[str, bool]]()
    for run in many(model, 1000, capped(4)):
        kind = (model.profile.difficulty_of(run.task) or "", run.stop_reason == "finished")
        runs[kind] += 1
        hits[kind] += run.success is True
    assert all(likely(hits[kind], runs[kind], chance) for kind, chance in CHANCES.items())
    for cap, known in ((2, {False}), (3, {False, True})):
        cut = [run.success for run in many(model, 200, capped(cap)) if run.stop_reason == "step_cap"]
        assert set(cut) == known


def test_simulated_cut_run_succeeds_only_if_the_whole_does() -> None:
    model = simple(**SCORED)
    for cut, whole in zip(many(model, 400, capped(4)), many(model, 400), strict=True):
        assert whole.success or not cut.success


def by_step(*pairs: tuple[int, float]) -> list[dict[str, float]]:
    return [{"from_step": start, "probability": chance} for start, chance in pairs]


@pytest.mark.slow
def test_success_depends_on_the_step_at_which_a_run_ended() -> None:
    profile = {"finished": by_step((1, 0.9), (3, 0.5), (6, 0.2)), "cut": by_step((1, 0), (2, 0.15))}
    model = simple(finish={"hazard": 0.25}, success=profile)
    for cap in (None, 4):
        runs, hits = Counter[tuple[bool, int]](), Counter[tuple[bool, int]]()
        for run in many(model, 2000, capped(cap)):
            finished = run.stop_reason == "finished"
            piece = max(start for start in ((1, 3, 6) if finished else (1, 2)) if start <= run.n_steps)
            runs[finished, piece] += 1
            hits[finished, piece] += run.success is True
        chances = {(True, 1): 0.9, (True, 3): 0.5, (True, 6): 0.2, (False, 1): 0, (False, 2): 0.15}
        assert all(likely(hits[end], n, chances[end]) for end, n in runs.items())


@pytest.mark.parametrize("cut", [0.3, by_step((1, 0.1), (4, 0.3))])
def test_simulated_limits_never_help_if_the_profile_says_so(cut: Any) -> None:
    model = simple(finish={"hazard": 0.2}, success={"finished": by_step((1, 0.9), (6, 0.3)), "cut": cut})
    assert model.profile.limits_never_help
    loose = many(model, 300)
    for cap in (6, 4, 2):
        tight = many(model, 300, capped(cap))
        assert all(after.success or not before.success for before, after in zip(tight, loose, strict=True))
        loose = tight


def test_simulated_limits_help_where_long_runs_fail_more() -> None:
    model = simple(finish={"hazard": 0.2}, success={"finished": by_step((1, 0.9), (6, 0.3)), "cut": 0.6})
    assert not model.profile.limits_never_help
    pairs = zip(many(model, 300, capped(4)), many(model, 300), strict=True)
    assert any(cut.success and not whole.success for cut, whole in pairs)


def test_simulated_finish_call_counts_at_its_own_step() -> None:
    model = simple(
        finish={"hazard": 0.3, "tool": "submit"}, success={"finished": by_step((1, 1), (2, 0), (3, 1), (4, 0))}
    )
    ends_by_call = replace(FREE, policy=QUIET.vary(finish={"tools": ("submit",)}))
    for short, long in zip(many(model, 60, ends_by_call), many(model, 60), strict=True):
        assert (long.n_steps, long.success) == (short.n_steps + 1, short.success)
        assert short.success is (short.n_steps in (1, 3))


def test_simulated_answer_without_tools_counts_as_cut() -> None:
    model = simple(finish={"hazard": 0}, success={"finished": 1, "cut": 0})
    agent = replace(capped(4), policy=QUIET.vary(last_step={"action": "no_tools", "text_finishes": True}))
    run = one(model, agent=agent)
    assert (run.stop_reason, run.success) == ("finished", False)


def test_the_success_of_a_run_that_broke_off_is_unknown() -> None:
    model = simple(success={"finished": 1})
    fired = bl.Abort()
    fired.abort()
    assert one(model, abort=fired).success is None
    assert one(model, agent=capped(2)).success is None
    assert one(simple(success={"finished": 1}, finish={"hazard": 1})).success is True


def test_tasks_may_be_given_a_difficulty_by_name() -> None:
    model = simple(
        difficulties={"easy": {"share": 0, "finished": 1}, "hard": {"finished": 0}},
        tasks={"go": "easy"},
        finish={"hazard": 1},
    )
    assert (one(model).success, one(model, task="come").success) == (True, False)


# --- What it is -------------------------------------------------------------------------------------------------------


def test_simulated_fingerprint_is_that_of_the_behaviour() -> None:
    turned = {key: dict(reversed(value.items())) if isinstance(value, dict) else value for key, value in LIVELY.items()}
    other = bl.SimulatedModel(bl.models.Profile.of({**turned, "name": "other", "sources": {"tools": "somewhere"}}))
    assert other.fingerprint == MODEL.fingerprint
    assert other.name == "other"
    assert one(other).steps == one(MODEL).steps
    changed = {**LIVELY, "revisit": {"rate": 0.151, "same_result": 0.4}}
    assert (
        len(
            {
                MODEL.fingerprint,
                bl.SimulatedModel(bl.models.Profile.of(changed)).fingerprint,
                bl.SimulatedModel(MODEL.profile, 1).fingerprint,
            }
        )
        == 3
    )
    assert repr(MODEL) == "<SimulatedModel lively: 5 tools, seed 0>"


def test_a_model_forgets_a_run_with_its_history() -> None:
    model = simple()
    many(model, 5, capped(3))
    assert len(model._played) == 0
