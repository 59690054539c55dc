"""Every preset, on random scripts: a recording played again is the same run, and all ways to look at a run agree."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import boolab as bl
from boolab.core import events
from boolab.core.codec import dumps, run_fields, run_of
from boolab.core.endings import has_boundary
from boolab.core.events import run_events
from boolab.core.messages import Message
from boolab.core.types import Event, ToolResult
from boolab.harnesses.presets import get_policy
from boolab.logs.atif_format import run_of_trajectory, trajectory
from boolab.runtime.models.base import Emit
from tests.support.cases import cases
from tests.support.helpers import TOOLS, call, without_ids

MANY = cases(70, suppress_health_check=[HealthCheck.too_slow])
LIMITED = (*bl.policies.values(), bl.fixed_turns(4), bl.dynamic_turns(2, 2))
OFTEN = (*LIMITED, *(get_policy(name) for name in ("boocode", "openhands_classic", "opencode_v2") * 3), *LIMITED[-2:])
KINDS = set(re.findall(r"`(\w+)`(?=[^|]*\|[^|]*\|$)", events.__doc__ or "", re.MULTILINE))
"""The kinds of events that the documentation knows."""
COMPACTING = bl.Compaction(at_tokens=20, keep_steps=1)


class Watched:
    """A model that passes everything on, and keeps what each request held."""

    virtual = True

    def __init__(self, model: Any) -> None:
        self._model = model
        self.name = model.name
        self.summarises, self.compacts = model.summarises, model.compacts
        self.context_window = model.context_window
        self.reply = model.reply
        self.seen: list[list[Message]] = []

    async def respond(self, request: bl.models.Request, emit: Emit | None = None) -> bl.models.Response:
        self.seen.append(list(request.messages))
        response: bl.models.Response = await self._model.respond(request, emit)
        return response


class Case:
    """A script and everything else that a run is given; it can be played any number of times."""

    def __init__(self, draw: st.DrawFn, policy: bl.Policy) -> None:
        self.policy = policy.vary(**_smaller(draw, policy))
        names = ["look"] * 5 + ["look"] * 2 + ["fail", "nowhere", "ask", *policy.finish.tools]
        calls = st.builds(lambda name, what: call(name, what=what) if name == "look" else {"name": name},
                          st.sampled_from(names), st.sampled_from("AAB"))  # fmt: skip
        known = draw(st.booleans())
        items = []
        for _ in range(draw(st.one_of(st.integers(4, 9), st.integers(0, 9)))):
            item: dict[str, Any] = {"text": draw(st.sampled_from(["", "", "Thinking. " * 8]))}
            item["tool_calls"] = draw(st.lists(calls, max_size=3, min_size=draw(st.sampled_from([0, 1, 1, 1]))))
            item["latency_ms"] = draw(st.sampled_from([0, 7]))
            if draw(st.integers(0, 5)) == 0:
                item["finish_reason"] = draw(st.sampled_from(["stop", "length", "content_filter", "unknown"]))
            if known:
                item["usage"] = {"input_tokens": draw(st.integers(0, 90)), "output_tokens": 9, "cost_usd": 0.4}
            items.append(item)
        self.items = [*items, draw(st.sampled_from(["done"] * 5 + [{"error": {"status": 500}}]))]
        paid = {"text": "So far.", "latency_ms": 3, "usage": {"input_tokens": 5}}
        broken = {"error": {"reset": True}, "latency_ms": 2}
        asides = st.sampled_from(["So far.", "So far.", None, paid, broken, {"tool_calls": [call()]}])
        self.summary, self.aside = draw(asides), draw(asides)
        self.window = draw(st.sampled_from([None, 20_040, 100]))
        self.compaction = draw(st.sampled_from([COMPACTING, replace(COMPACTING, keep_steps=0), None]))
        self.sends = draw(st.lists(st.integers(1, 6), max_size=2))
        self.allows = draw(st.booleans())
        self.continues = draw(st.sampled_from([2, 1, 0]))

    def model(self) -> bl.ScriptedModel:
        """The model as it was at first."""
        return bl.ScriptedModel(self.items, summary=self.summary, compaction=self.aside, context_window=self.window)

    def play(self, model: Any, watch: Callable[[Event], object] = lambda _: None) -> bl.Run:
        """Run it, and go on where it can be gone on with."""
        inbox = bl.Inbox()
        options = self.options(inbox, self._sender(inbox, watch))
        run = bl.run_sync(self.agent(), "go", model=model, **options)
        for _ in range(self.continues):
            if run.stop_reason == "paused" or (run.stop_reason == "step_cap" and self.policy.continues.by != "loop"):
                if run.stop_reason == "step_cap" and self.policy.continues.times == 0:
                    break
                run = asyncio.run(bl.resume(run, "Go on."))
        return run

    def agent(self) -> bl.Agent:
        """Who runs."""
        return bl.Agent("a", tools=(*TOOLS, *map(_finishing, self.policy.finish.tools)), policy=self.policy)

    def options(self, inbox: bl.Inbox, on_event: Callable[[Event], object]) -> dict[str, Any]:
        """What a run is given besides."""
        return {"inbox": inbox, "ask": self._answer, "compaction": self.compaction, "on_event": on_event}

    def _answer(self, _question: bl.Question) -> bool:
        return self.allows

    def _sender(self, inbox: bl.Inbox, watch: Callable[[Event], object]) -> Callable[[Event], object]:
        def on_event(event: Event) -> None:
            watch(event)
            if event.kind == "step_start":
                for _ in range(self.sends.count(event.payload["step_number"])):
                    inbox.send("By the way.")

        return on_event


def _smaller(draw: st.DrawFn, policy: bl.Policy) -> dict[str, Any]:
    """Limits that short scripts reach."""
    if "max_steps" not in policy.order or draw(st.integers(0, 4)) == 4:
        return {"cap": {"ceiling": 30}}
    return {"cap": {"ceiling": 30, "max_steps": draw(st.integers(1, 3))}}


def _finishing(name: str) -> Any:
    def finish() -> str:
        """Finish."""
        return "Finished."

    return bl.tool(name=name, read_only=True)(finish)


def same(run: bl.Run) -> bl.Run:
    """A run without what differs between two runs of the same thing."""
    return replace(without_ids(run), started_at=None, continuation=None)


CASES = st.composite(lambda draw: Case(draw, draw(st.sampled_from(OFTEN))))


def test_the_table_of_events_is_read_as_it_stands() -> None:
    assert {"step_start", "delta", "text", "sentinel", "compaction", "stop_before_call", "stop"} <= KINDS


def test_every_preset_is_among_the_cases() -> None:
    assert {policy.name for policy in LIMITED} >= set(bl.policies)


@pytest.mark.parametrize("policy", LIMITED, ids=str)
@settings(MANY, max_examples=cases(15).max_examples)
@given(data=st.data())
def test_replayed_recording_is_the_same_run_under_each_preset(policy: bl.Policy, data: Any) -> None:
    case = data.draw(st.composite(lambda draw: Case(draw, policy))())
    first = case.play(case.model())
    assert same(case.play(bl.RecordedModel(first))) == same(first)


@MANY
@given(CASES())
def test_the_events_that_were_told_are_those_of_the_record(case: Case) -> None:
    told: list[Event] = []
    run = case.play(case.model(), told.append)
    parts = [event for event in told if event.kind != "delta"]
    # A run that was gone on with told of its ends as well: its record has but one.
    ends = [i for i, event in enumerate(parts) if event.kind == "stop"]
    assert [event for i, event in enumerate(parts) if i not in ends[:-1]] == run_events(run)
    assert {event.kind for event in told} <= KINDS
    frame = bl.events_df(run)
    assert [json.loads(payload) for payload in frame["payload"]] == [
        json.loads(json.dumps(event.payload)) for event in run_events(run)
    ]


@MANY
@given(CASES())
def test_a_saved_run_comes_back_as_it_was(case: Case) -> None:
    run = replace(case.play(case.model()), continuation=None)
    assert run_of_trajectory(json.loads(dumps(trajectory(run)))) == run
    assert run_of(json.loads(dumps(run_fields(run)))) == run


@MANY
@given(CASES())
def test_every_request_pairs_calls_with_results(case: Case) -> None:
    model = Watched(case.model())
    case.play(model)
    for messages in model.seen:
        assert unanswered(messages) == []


def unanswered(messages: Sequence[Message]) -> list[str]:
    """The ids of calls that the next message does not answer, and of results to no call before them."""
    faults = []
    for message, then in zip(messages, [*messages[1:], None], strict=True):
        asked = [part.id for part in message.parts if isinstance(part, bl.models.ToolCall)]
        given = [part.call_id for part in then.parts if isinstance(part, ToolResult)] if then is not None else []
        if asked != given:
            faults += asked or given
    return faults


@MANY
@given(CASES())
def test_boundary_counters_equal_those_of_the_live_run(case: Case) -> None:
    async def live() -> tuple[bl.Run, list[tuple[int, dict[str, int | None]]]]:
        inbox = bl.Inbox()
        options = case.options(inbox, case._sender(inbox, lambda _: None))
        async with bl.start(case.agent(), "go", model=case.model(), **options) as run:
            seen = [(step.turn, dict(run.progress)) async for step in run]
        return run.run, seen

    run, seen = asyncio.run(live())
    frame = bl.boundaries_df(run)
    for step, (turn, counters) in zip(run.steps, seen, strict=False):  # one that broke is not handed out
        if has_boundary(run, step):
            row = frame[(frame["turn"] == turn) & (frame["boundary"] == counters["steps"])]
            assert len(row) == 1
            for name in ("tool_calls", "tokens", "cost", "elapsed"):
                value = row[name].iloc[0]
                assert (None if pd.isna(value) else int(value)) == counters[name]
