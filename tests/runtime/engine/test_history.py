"""What is sent to a model: whatever happens, no call stands without its result, and no result without its call.

Providers refuse such a list of messages, so that a run could never go on after it. Every request is looked at where the
model gets it: steps, summaries and compactions, of a run, of its subagents, and of what is gone on with.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.messages import Message, StepStart, Text
from boolab.core.run import Compacted, Run
from boolab.core.types import Response, ToolCall, ToolResult, Usage
from boolab.errors import ModelError, ScriptExhausted, SettingError
from boolab.frames.runs import with_subagents
from boolab.harnesses.compaction import Compaction
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import dynamic_turns, fixed_turns, policies
from boolab.limits.catalog import doom_loop, error_streak, max_steps, max_tokens, tool_budget
from boolab.limits.stop import StopRule
from boolab.runtime.engine.record import TurnHistory
from boolab.runtime.engine.runner import resume, run
from boolab.runtime.engine.subagents import task_tool
from boolab.runtime.models.base import Emit, Request
from boolab.runtime.tools.tool import ToolSpec, tool
from tests.support.cases import cases
from tests.support.helpers import grouped

CASES = cases(
    300,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.reuse, Phase.generate),  # to make a case smaller takes longer than the suite lets a test take
    print_blob=True,
)
KNOWN_ROLES = ("system", "user", "assistant", "tool")
EXPECTED = ("", "ModelError", "ScriptExhausted", "RuntimeError", "ToolError", "UnknownCounter")
"""The errors that a case can hold: all others would be boolab's own."""
REASONS = (None, "stop", "tool_calls", "length", "content_filter", "unknown", "error")


def faults_of(messages: Sequence[Message]) -> list[str]:
    """What a provider would refuse in a list of messages."""
    faults: list[str] = []
    waiting: list[str] = []
    for place, message in enumerate(messages):
        calls = [part.id for part in message.parts if isinstance(part, ToolCall)]
        results = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        if message.role not in KNOWN_ROLES:
            faults.append(f"message {place} has the role {message.role}")
        if (calls and message.role != "assistant") or (results and message.role != "tool"):
            faults.append(f"message {place} of the {message.role} holds calls {calls} or results {results}")
        if results != waiting:
            faults.append(f"message {place} has the results {results} where {waiting} were called for")
        waiting = calls
    if waiting:
        faults.append(f"the list ends with calls that have no results: {waiting}")
    return faults


class Item(NamedTuple):
    """What a model does when it is asked: it answers, or it breaks with a part of the answer."""

    response: Response
    breaks: bool = False


class Plan(NamedTuple):
    """One case: all that can happen in it."""

    policy: Policy
    limits: Mapping[str, int | None]
    items: Sequence[Item]
    child: Sequence[Item]
    child_policy: Policy
    outside: Sequence[Item]
    stop: StopRule | None
    compaction: Compaction | None
    abort_at: int | None
    inbox_at: frozenset[int]
    asked: bool | None
    synthesis_at: int | None
    resumes: int


class Watching:
    """A model that looks at every request, answers from a plan and lets happen what is to happen meanwhile."""

    virtual = True

    def __init__(self, items: Sequence[Item], outside: Sequence[Item], world: World) -> None:
        self.name = "watching"
        self.summarises = self.compacts = True
        self._items, self._outside, self._world = items, outside, world
        self._asked_outside = 0

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        self._world.look(request)
        await asyncio.sleep(0)
        if request.purpose != "step":
            item = self._outside[self._asked_outside % len(self._outside)]
            self._asked_outside += 1
        elif request.index < len(self._items):
            item = self._items[request.index]
        else:
            msg = "the plan ends here"
            raise ScriptExhausted(msg)
        if item.breaks:
            msg = "the connection was reset"
            raise ModelError(msg, partial=item.response)
        return item.response


class World:
    """What surrounds a case: the switch, the user, and what was seen."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.abort = bl.Abort()
        self.inbox = bl.Inbox()
        self.faults: list[str] = []
        self.seen: dict[str, int] = {}
        self._moments = 0

    def look(self, request: Request) -> None:
        """Note what is wrong with a request."""
        self.seen[request.purpose] = self.seen.get(request.purpose, 0) + 1
        messages = list(request.messages)
        self.faults += [f"{request.purpose} {request.index}: {fault}" for fault in faults_of(messages)]
        if len(messages) != len(request.messages):
            self.faults.append(f"{request.purpose} {request.index}: its length is not that of its messages")
        self.passes()

    def passes(self) -> None:
        """A moment passes, in a model or in a tool."""
        if self._moments in self.plan.inbox_at:
            self.inbox.send(f"and {self._moments}")
        if self._moments == self.plan.abort_at:
            self.abort.abort()
        self._moments += 1

    def tools(self, policy: Policy) -> list[ToolSpec]:
        """Tools of every kind, and those that finish a run under this policy."""

        @tool(read_only=True)
        async def look(what: str = "") -> str:
            """Look."""
            self.passes()
            await asyncio.sleep(0)
            return what

        @tool
        def fail() -> str:
            """Fail."""
            raise RuntimeError("no")

        @tool(read_only=True, pauses=True)
        def ask(question: str = "") -> str:
            """Ask the user."""
            return question

        def finish() -> str:
            """Finish."""
            return "42"

        return [look, fail, ask, *(tool(name=name)(finish) for name in policy.finish.tools)]


async def play(plan: Plan) -> tuple[World, Run]:
    """Run a case to its end, and go on with it as often as it can be gone on with."""
    world = World(plan)
    # Settings that a policy does not have, or does not accept, are left at their defaults.
    agent = bl.Agent("lead", prompt="You lead.", policy=plan.policy)
    for name, value in plan.limits.items():
        setting: dict[str, Any] = {name: value}
        if name in plan.policy.order:
            with contextlib.suppress(SettingError):
                agent = replace(agent, **setting)
    worker = bl.Agent(
        "worker",
        policy=plan.child_policy,
        model=Watching(plan.child, plan.outside, world),
        tools=tuple(world.tools(plan.child_policy)),
    )
    calls = 0

    async def synthesis(_calls: Sequence[ToolCall], _results: Sequence[ToolResult]) -> str | None:
        nonlocal calls
        calls += 1
        return "synthesised" if calls == plan.synthesis_at else None

    options: dict[str, Any] = {
        "model": Watching(plan.items, plan.outside, world),
        "tools": [*world.tools(plan.policy), task_tool(worker, budget="root")],
        "stop": plan.stop,
        "compaction": plan.compaction,
        "abort": world.abort,
        "inbox": world.inbox,
        "ask": None if plan.asked is None else lambda _question: plan.asked,
        "synthesis": synthesis,
    }
    record = await run(agent, "go", **options)
    for _ in range(plan.resumes):
        if record.stop_reason not in ("paused", "step_cap"):
            break
        try:
            record = await resume(record, "go on")
        except SettingError:  # its policy lets it go on no more, or a rule and not the cap stopped it
            break
    return world, record


TASK = '{"agent": "worker", "prompt": "p"}'
ARGUMENTS = st.sampled_from(['{"what": "a"}', "{}", "", "{", "[1]", '{"nope": 1}', TASK])


def some_calls(names: Sequence[str]) -> st.SearchStrategy[ToolCall]:
    ids = st.one_of(st.just("same"), st.integers(0, 999).map("c{}".format))
    asks = st.just(ToolCall("t", "task", TASK))
    return st.one_of(st.builds(ToolCall, ids, st.sampled_from(names), ARGUMENTS), asks)


@st.composite
def some_items(draw: st.DrawFn, policy: Policy, least: int, most: int) -> list[Item]:
    """What a model says: mostly calls, so that runs go on; now and then a text or a break, and often an end."""
    names = ("look", "look", "look", "fail", "ask", "task", "nope", *policy.finish.tools)
    items = []
    for _ in range(draw(st.integers(least, most))):
        kind = draw(st.integers(0, 39))
        calls = draw(st.lists(some_calls(names), min_size=int(kind not in (18, 19, 20)), max_size=3))
        text = draw(st.sampled_from(["", "Well.", "A longer text. " * 20]))
        usage = draw(st.sampled_from([Usage(), Usage(50, 10, cost=100), Usage(900, 100, cost=100)]))
        reason = draw(st.sampled_from([*REASONS, "tool_calls", "tool_calls"]))
        items.append(Item(Response(text, tuple(calls), reason, usage), breaks=kind == 17))
    return [*items, Item(Response("Done.", (), "stop", Usage(50, 10, cost=100)))] if draw(st.booleans()) else items


def some_compactions() -> st.SearchStrategy[Compaction | None]:
    def shorten(messages: Sequence[Message]) -> str:
        return f"{len(messages)} messages"

    async def shorten_later(messages: Sequence[Message]) -> str:
        await asyncio.sleep(0)
        return shorten(messages)

    def break_off(messages: Sequence[Message]) -> str:
        raise RuntimeError("no")

    by: st.SearchStrategy[Any] = st.sampled_from(["model", "model", shorten, shorten_later, break_off])
    kinds = st.builds(
        Compaction,
        at_tokens=st.integers(1, 60),
        keep_steps=st.integers(0, 3),
        by=by,
        clear_at=st.one_of(st.none(), st.integers(1, 60)),
        clear_keep=st.integers(0, 2),
        cut_results=st.one_of(st.none(), st.integers(0, 60)),
    )
    return st.one_of(st.none(), kinds, kinds)


VARIANTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "budgets.batch": st.sampled_from(["overshoot", "reject", "cut"]),
        "wrap_up.summary": st.sampled_from(["model", "static"]),
        "wrap_up.sentinel": st.booleans(),
        "budgets.tokens": st.none() | st.integers(1, 3000),
        "budgets.after": st.sampled_from(["exceeded", "unchecked"]),
    }
)
"""What lets a policy drop calls, and ask or tell the model something afterwards all the same."""


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    turns = st.builds(fixed_turns, st.integers(1, 4)) | st.builds(dynamic_turns, st.integers(1, 3), st.integers(1, 2))
    preset = st.sampled_from([*policies.values()])
    continuing = st.sampled_from([policy for policy in policies.values() if policy.continues.times != 0])
    policy, child_policy = draw(preset | preset | turns | continuing), draw(preset | turns)
    if draw(st.booleans()):
        policy = policy.vary(**grouped(draw(VARIANTS)))
    if "max_steps" in policy.order and draw(st.booleans()):
        policy = policy.vary(continues={"times": None, "by": "user"})
    rules = [max_steps(3), tool_budget(5), doom_loop(2), max_tokens(1500, on_unknown="ignore"), error_streak(2)]
    chosen = draw(st.lists(st.sampled_from(rules), max_size=2, unique=True)) if draw(st.booleans()) else []
    stop: StopRule | None = None
    for rule in chosen:
        stop = rule if stop is None else stop | rule
    few = st.sampled_from([None, 3, 4, 6, 9])
    limits = {"max_steps": few | st.integers(0, 2), "tool_budget": few | st.integers(0, 2), "doom_loop": few}
    outside = draw(some_items(policy, 1, 2)) if draw(st.integers(0, 3)) == 0 else []
    moments = st.integers(0, 12)
    return Plan(
        policy,
        draw(st.fixed_dictionaries({}, optional=limits)),
        draw(some_items(policy, 4, 9)),
        draw(some_items(child_policy, 1, 4)),
        child_policy,
        [Item(Response("Summed up.")), *outside],
        stop,
        draw(some_compactions()),
        draw(st.none() | st.none() | moments),
        frozenset(draw(st.sets(moments, max_size=4))),
        draw(st.sampled_from([None, True, False])),
        draw(st.none() | st.none() | st.integers(1, 4)),
        draw(st.integers(0, 3)),
    )


@CASES
@given(plans())
def test_requests_pair_each_call_with_its_result(plan: Plan) -> None:
    world, record = asyncio.run(play(plan))
    assert world.faults == []
    for member in with_subagents(record):
        assert [step.index for step in member.steps] == [*range(1, member.n_steps + 1)]
        assert (member.error or "").partition(":")[0] in EXPECTED


def _said(*parts: Any) -> Message:
    return Message("assistant", (StepStart(1, 0), *parts))


A, B = ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}")
TO_A, TO_B = ToolResult("a", "seen"), ToolResult("b", "seen")


@pytest.mark.parametrize(
    ("messages", "number"),
    [
        ([Message("user", (Text("go"),)), _said(A, B), Message("tool", (TO_A, TO_B)), _said(Text("done"))], 0),
        ([_said(A)], 1),
        ([_said(A), Message("user", (Text("go"),))], 1),
        ([_said(A, B), Message("tool", (TO_A,))], 1),
        ([_said(A, B), Message("tool", (TO_B, TO_A))], 1),
        ([_said(A), Message("tool", (TO_A, TO_A))], 1),
        ([Message("tool", (TO_A,))], 1),
        ([_said(A), Message("user", (Text("wait"),)), Message("tool", (TO_A,))], 2),
        ([Message("user", (A,))], 2),
        ([Message("sentinel", ())], 1),
    ],
)
def test_the_watcher_sees_what_a_provider_would_refuse(messages: list[Message], number: int) -> None:
    assert len(faults_of(messages)) == number


@pytest.mark.parametrize("by", ["model", len])
def test_every_purpose_is_looked_at(by: Any) -> None:
    """A case in which steps, a compaction, a subagent and a summary are asked for, and a pause is gone on with."""
    steps = [("look", '{"what": "a"}'), ("task", '{"agent": "worker", "prompt": "p"}'), ("ask", "{}"), ("look", "{}")]
    items = [Item(Response("", (ToolCall(f"c{n}", *what),), "tool_calls")) for n, what in enumerate(steps)]
    compaction = Compaction(at_tokens=1, by=by if by == "model" else lambda messages: str(by(messages)))
    plan = Plan(
        policies["boocode"], {"max_steps": 4, "tool_budget": None}, items, items[:1], policies["boocode"],
        [Item(Response("Summed up."))], None, compaction, None, frozenset({1}), None, None, 1,
    )  # fmt: skip
    world, record = asyncio.run(play(plan))
    assert world.faults == []
    assert record.stop_reason == "step_cap"
    assert record.inputs
    assert len(record.subagents) == 1
    assert world.seen["step"] == 4 + 2
    assert world.seen["summary"] == 1
    assert world.seen.get("compaction", 0) == (len(record.compactions) if by == "model" else 0)
    assert record.compactions


def test_history_is_summarised_up_to_the_last_good_compaction() -> None:
    history = TurnHistory(())
    assert history.summary_end == 1
    history.compactions += [Compacted(4, 2, "a", 9), Compacted(6, 4, "b", 9), Compacted(8, 6, "", 9, fault="no text")]
    assert history.summary_end == 4
