"""Results that are cleared or cut for the model: each call keeps its result, and the record keeps all text."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.codec import run_fields, run_of
from boolab.core.messages import Message, StepStart
from boolab.core.run import Run
from boolab.core.types import ToolCall, ToolResult
from boolab.harnesses.compaction import CLEARED, cut_text
from boolab.limits.detectors.context import compaction_thrash
from boolab.runtime.models.base import Emit, OfflineModel, Request
from boolab.runtime.tools.tool import ToolContext
from tests.runtime.engine.test_history import faults_of
from tests.support.cases import cases
from tests.support.helpers import QUIET

AGENT = bl.Agent("worker", policy=QUIET, max_steps=None, tool_budget=None, doom_loop=None)


class Worker(OfflineModel):
    """Makes calls whose results have given numbers of characters; a token has so many, and the prompt 100 more."""

    name = "worker"
    virtual = True
    own_tools = ("look", "list")

    def __init__(self, chars_by_step: Sequence[Sequence[int]], chars_per_token: float = 4, usage: bool = True) -> None:
        self.chars_by_step = chars_by_step
        self.chars_per_token = chars_per_token
        self.usage = usage
        self.requests: list[tuple[int, str, list[Message]]] = []

    async def respond(self, request: Request, emit: Emit | None = None) -> bl.models.Response:
        messages = [*request.messages]
        self.requests.append((request.index, request.purpose, messages))
        tokens = bl.models.Usage(self.tokens(messages), 10, 0) if self.usage else bl.models.Usage()
        if request.purpose == "compaction":
            return bl.models.Response(f"Summary after {request.index}.", (), "stop", tokens)
        if request.index == len(self.chars_by_step):
            return bl.models.Response("Done.", (), "stop", tokens)
        lengths = self.chars_by_step[request.index]
        calls = [ToolCall(f"c{place}", "list" if chars % 2 else "look", "{}") for place, chars in enumerate(lengths)]
        return bl.models.Response("", tuple(calls), "tool_calls", tokens)

    def tokens(self, messages: Sequence[Message]) -> int:
        contents = [part.content for message in messages for part in message.parts if isinstance(part, ToolResult)]
        answers = sum(message.role == "assistant" for message in messages)
        return 100 + 10 * answers + round(sum(map(len, contents)) / self.chars_per_token)

    def replies_to(self, tool: str) -> bool:
        return tool in self.own_tools

    async def reply(self, call: ToolCall, context: ToolContext) -> ToolResult:
        chars = self.chars_by_step[context.step - 1][context.call - 1]
        return ToolResult(call.id, f"{context.step}.{context.call} ".ljust(chars, "x")[:chars])


def work(model: bl.models.Model, **options: Any) -> Run:
    return bl.run_sync(AGENT, "go", model=model, **options)


def events_of(run: Run, kind: str) -> list[dict[str, Any]]:
    return [dict(event.payload) for event in run.events if event.kind == kind]


def results_sent(messages: Sequence[Message]) -> dict[tuple[int, int], str]:
    """The text of each result in a request, by its step and its place."""
    step, texts = 0, {}
    for message in messages:
        if message.parts and isinstance(message.parts[0], StepStart):
            step = message.parts[0].step_number
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                texts[step, place] = part.content
    return texts


SOME_STEPS = st.lists(st.lists(st.integers(0, 800), max_size=3), max_size=10)
SOME_COMPACTIONS = st.builds(
    bl.Compaction,
    at_tokens=st.one_of(st.none(), st.integers(100, 900)),
    keep_steps=st.integers(0, 3),
    clear_at=st.one_of(st.none(), st.integers(100, 700)),
    clear_keep=st.integers(0, 4),
    clear_at_least=st.sampled_from([0, 0, 60, 200]),
    clear_exclude=st.sampled_from([(), ("list",)]),
    cut_results=st.one_of(st.none(), st.integers(0, 400)),
)


@cases(150, suppress_health_check=[HealthCheck.too_slow])
@given(SOME_STEPS.map(lambda steps: [lengths or [5] for lengths in steps]), SOME_COMPACTIONS, st.booleans())
def test_a_shortened_request_has_each_result_as_events_report(
    steps: list[list[int]], compaction: bl.Compaction, usage: bool
) -> None:
    model = Worker(steps, usage=usage)
    run = work(model, compaction=compaction)
    assert run.messages == work(Worker(steps)).messages
    cuts = {(facts["after_step"], facts["call"] - 1): facts["sent"] for facts in events_of(run, "cut")}
    for index, _, messages in model.requests:
        assert faults_of(messages) == []
        cleared: set[tuple[int, ...]] = set()
        for facts in events_of(run, "clearing"):
            if facts["after_step"] < index or (facts["after_step"] == index and messages[-1].role != "user"):
                cleared |= {tuple(place) for place in facts["results"]}
        for (step, place), text in results_sent(messages).items():
            result = run.steps[step - 1].results[place]
            assert result is not None
            sent = cut_text(result.content, cuts[step, place]) if (step, place) in cuts else result.content
            assert text == (CLEARED if (step, place) in cleared else sent)
    assert run_of(run_fields(run)) == run


@cases(100, suppress_health_check=[HealthCheck.too_slow])
@given(SOME_STEPS.map(lambda steps: [lengths or [5] for lengths in steps]), SOME_COMPACTIONS)
def test_clearing_keeps_the_latest_results_and_excluded_tools(
    steps: list[list[int]], compaction: bl.Compaction
) -> None:
    run = work(Worker(steps), compaction=compaction)
    cleared: set[tuple[int, ...]] = set()
    for facts in events_of(run, "clearing"):
        places = {tuple(place) for place in facts["results"]}
        assert places
        assert not places & cleared
        cleared |= places
        assert facts["tokens"] >= compaction.clear_at_least
        left = [
            (step.index, place)
            for step in run.steps[: facts["after_step"]]
            for place, result in enumerate(step.results)
            if result is not None
            and len(compaction.cut_result(result.content) or result.content) > len(CLEARED)
            and step.response.tool_calls[place].name not in compaction.clear_exclude
            and (step.index, place) not in cleared
        ]
        assert len(left) >= min(compaction.clear_keep, len(left))
        assert max(places) < min(left[-compaction.clear_keep :], default=(len(steps) + 1, 0))
        names = {run.steps[step - 1].response.tool_calls[place].name for step, place in places}
        assert not names & set(compaction.clear_exclude)


@cases(100, suppress_health_check=[HealthCheck.too_slow])
@given(SOME_STEPS.map(lambda steps: [lengths or [5] for lengths in steps]), SOME_COMPACTIONS, st.data())
def test_a_replay_and_a_branch_send_what_the_run_sent(
    steps: list[list[int]], compaction: bl.Compaction, data: Any
) -> None:
    model = Worker(steps, chars_per_token=3)
    run = work(model, compaction=compaction)
    again = work(bl.RecordedModel(run), compaction=compaction)
    assert replace(again, run_id=run.run_id) == run
    at = data.draw(st.integers(0, run.n_steps - 1))
    other = Worker(steps, chars_per_token=3)
    branch = asyncio.run(bl.branch(run, at, model=other, agent=AGENT, compaction=compaction))
    assert other.requests == [request for request in model.requests if request[0] >= at]
    assert branch.steps == run.steps
    assert branch.compactions == run.compactions
    kept = tuple(event for event in branch.events if event.kind != "branch")
    assert kept == run.events


def test_old_results_become_a_line_and_the_record_keeps_them() -> None:
    model = Worker([[400]] * 6)
    run = work(model, compaction=bl.Compaction(clear_at=500, clear_keep=2))
    assert [facts["results"] for facts in events_of(run, "clearing")] == [[[1, 0], [2, 0]], [[3, 0], [4, 0]]]
    assert [*results_sent(model.requests[-1][2]).values()].count(CLEARED) == 4
    assert {len(result.content) for step in run.steps for result in step.results if result is not None} == {400}
    assert "cleared" in str(run)


def test_clearing_waits_until_it_removes_at_least_so_much() -> None:
    results = [[400]] * 8
    patient = work(Worker(results), compaction=bl.Compaction(clear_at=300, clear_keep=1, clear_at_least=300))
    eager = work(Worker(results), compaction=bl.Compaction(clear_at=300, clear_keep=1))
    assert [len(facts["results"]) for facts in events_of(patient, "clearing")] == [4]
    assert len(events_of(eager, "clearing")) > 3


def test_a_simulated_agent_has_fewer_tokens_after_clearing() -> None:
    agent = bl.Agent("coder", max_steps=30, tool_budget=None, doom_loop=None)
    model = bl.SimulatedModel.load("coder")
    plain = bl.run_sync(agent, "t", model=model, seed=3)
    run = bl.run_sync(agent, "t", model=model, seed=3, compaction=bl.Compaction(clear_at=8000))
    first = events_of(run, "clearing")[0]
    tokens = [(step.response.usage.input_tokens or 0) - (other.response.usage.input_tokens or 0)
              for step, other in zip(plain.steps, run.steps, strict=True)]  # fmt: skip
    assert tokens[: first["after_step"]] == [0] * first["after_step"]
    assert abs(tokens[first["after_step"]] - first["tokens"]) <= 1
    assert all(later >= earlier for earlier, later in pairwise(tokens))


def test_a_long_result_is_sent_with_its_beginning_and_its_end() -> None:
    model = Worker([[100], [10]])
    run = work(model, compaction=bl.Compaction(cut_results=11))
    sent = results_sent(model.requests[-1][2])
    assert sent[1, 0] == "1.1 xx\n[89 characters were cut]\nxxxxx"
    assert sent[2, 0] == "2.1 xxxxxx"
    expected = {"after_step": 1, "call_id": "c0", "tool": "look", "call": 1, "chars": 100, "sent": 11}
    assert events_of(run, "cut") == [expected]


def test_compacting_at_every_step_is_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    agent = bl.Agent("coder", max_steps=60, tool_budget=None, doom_loop=None)
    compaction = bl.Compaction(at_tokens=4500, keep_steps=1)
    options: dict[str, Any] = {"model": bl.SimulatedModel.load("coder"), "compaction": compaction, "seed": 3}
    with caplog.at_level(logging.WARNING, "boolab.loop"):
        run = bl.run_sync(agent, "t", **options)
    (note,) = events_of(run, "compaction_thrash")
    assert len(run.compactions) > 30
    assert note["value"] == 3
    assert note["what"] in caplog.text
    assert run.compactions[2].before == note["after_step"] + 1
    stopped = bl.run_sync(agent, "t", stop=compaction_thrash(3), **options)
    assert stopped.n_steps == note["after_step"] + 1
    resumed = asyncio.run(bl.branch(run, 20, agent=agent, **options))
    assert len(events_of(resumed, "compaction_thrash")) == 1


def test_compactions_with_work_in_between_are_not_noted() -> None:
    run = bl.run_sync(AGENT, "t", model=bl.EditorModel(), compaction=bl.Compaction(at_tokens=60_000))
    assert len(run.compactions) == 4
    assert events_of(run, "compaction_thrash") == []


@pytest.mark.parametrize(("chars_per_token", "first"), [(2.0, 10), (3.0, 15), (4.0, 20), (6.0, 29)])
def test_the_estimate_follows_the_usage_of_the_run(chars_per_token: float, first: int) -> None:
    # Results of 4,000 characters: the request after the limit of 20,000 tokens is compacted, in any tokens.
    model = Worker([[4000]] * 40, chars_per_token)
    run = work(model, compaction=bl.Compaction(at_tokens=20_000))
    sent = [model.tokens(messages) for _, purpose, messages in model.requests if purpose == "step"]
    assert max(sent) <= 20_000
    assert run.compactions[0].before == first + 1


def test_without_usage_a_token_has_four_characters() -> None:
    run = work(Worker([[4000]] * 30, chars_per_token=2, usage=False), compaction=bl.Compaction(at_tokens=20_000))
    assert run.compactions[0].before == 21


@pytest.mark.parametrize(
    "option",
    [{"clear_at": 0}, {"clear_keep": -1}, {"clear_at_least": None}, {"clear_exclude": "look"}, {"cut_results": -1}],
)
def test_settings_that_are_not_valid_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(bl.SettingError, match=f"compaction: {next(iter(option))}="):
        bl.Compaction(**option)
