"""Hard limits on cost: no bill is above the limit, whatever the model uses within its bounds."""

import asyncio
import random
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.prices import RATE_UNITS
from boolab.core.run import Run, WrapUp
from boolab.core.types import MICRO, Response, ToolCall, Usage
from boolab.errors import SettingError
from boolab.harnesses.compaction import Compaction
from boolab.runtime.models.base import Emit, Request
from tests.support.cases import cases
from tests.support.helpers import ask, look

RATES = (37_500, 150_000)
"""Those of claude-sonnet-4-5: a token that is written to the cache for five minutes costs $3.75 a million."""
LONGEST = 4000


def n_bytes(request: Request) -> int:
    """The bytes of the messages of a request that the model did not write: those that it wrote have its tokens."""
    sent = (message for message in request.messages if message.role != "assistant")
    parts: Any = chain.from_iterable(message.parts for message in sent)
    return sum(len(str(getattr(part, "text", getattr(part, "content", part))).encode()) for part in parts)


class Spender:
    """A model that uses tokens at random, within what its requests allow, and sometimes all of it."""

    name = "spender"
    virtual = True
    request_rates = RATES
    output_range = (1024, LONGEST)

    def __init__(self, seed: int, n_steps: int = 30) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._n_steps = n_steps
        self._last: tuple[int, int, int] = (0, 0, 0)  # of the last request: its tokens, its response's, its bytes
        self.requests: list[Request] = []

    def _usage(self, request: Request) -> Usage:
        draw, size = self._random, n_bytes(request)
        tokens_in, tokens_out, bytes_before = self._last if request.index else (0, 0, 0)
        growth = max(0, size - bytes_before)
        most = tokens_in + tokens_out + growth if bytes_before else size
        tokens = draw.choice([most, draw.randint(0, most)])
        longest = LONGEST if request.max_output is None else request.max_output
        output = draw.choice([longest, draw.randint(0, longest)])
        if request.purpose == "step":
            self._last = (tokens, output, size)
        rate_in, rate_out = draw.choice([RATES, (30_000, 150_000), (3_000, 150_000)])
        return Usage(tokens, output, 0, cost=round((tokens * rate_in + output * rate_out) / RATE_UNITS))

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:
        self.requests.append(request)
        index = len(self.requests)
        usage = self._usage(request)
        if request.purpose != "step":
            return Response("A summary.", usage=usage)
        if index >= self._n_steps:
            return Response("Done.", usage=usage)
        text = "x" * self._random.choice([0, 10, 5000])
        calls = tuple(ToolCall(f"{index}.{n}", "look", f'{{"what": "{index} {text}"}}') for n in range(2))
        return Response("", calls, usage=usage)


def bill(run: Run) -> int:
    """All that a run and its subagents cost, in micro-dollars: steps, summaries and compactions."""
    outside = [usage.cost or 0 for usage in run.outside]
    own = sum(step.response.usage.cost or 0 for step in run.steps) + sum(outside)
    return own + sum(bill(child) for child in run.subagents)


def play(model: Any, stop: bl.StopRule, **options: Any) -> Run:
    return bl.run_sync(bl.Agent("a", tools=(look,)), "Look around.", model=model, stop=stop, **options)


@cases(80)
@given(st.integers(0, 10**6), st.integers(1, 2_000_000), st.booleans())
def test_no_bill_is_above_a_hard_limit(seed: int, micro: int, compacts: bool) -> None:
    options: dict[str, Any] = {"compaction": Compaction(at_tokens=4000, keep_steps=1)} if compacts else {}
    run = play(Spender(seed), bl.max_cost(micro / MICRO, hard=True), **options)
    assert bill(run) <= micro
    assert None not in [usage.cost for usage in run.outside]  # a request that was not affordable is none
    assert not run.error  # such as one for a request that is not affordable, in place of the limit's own stop
    assert run.stop_reason in ("finished", "cost_budget")
    if run.stop_reason == "cost_budget":
        assert run.stop.rule == f"max_cost({micro / MICRO:.12g}, hard)"


@cases(40)
@given(st.integers(0, 10**6), st.integers(1, 2_000_000))
def test_without_hard_the_bill_exceeds_the_limit_by_one_request(seed: int, micro: int) -> None:
    run = play(Spender(seed), bl.max_cost(micro / MICRO), policy=bl.policies["naive"])
    before_last = sum(step.response.usage.cost or 0 for step in run.steps[:-1])
    assert before_last < micro or not run.steps
    assert bill(run) == before_last + (run.steps[-1].response.usage.cost or 0)


@cases(30)
@given(st.integers(0, 10**6), st.integers(50_000, 3_000_000))
def test_subagents_side_by_side_share_a_hard_limit(seed: int, micro: int) -> None:
    names = ["a", "b", "c"]
    spec = bl.task_tool(
        [bl.Agent(name, model=Spender(seed + n, 6), tools=(look,)) for n, name in enumerate(names)], budget="root"
    )
    asks = [ToolCall(name, "task", f'{{"agent": "{name}", "prompt": "Look."}}') for name in names]

    class Lead(Spender):
        async def respond(self, request: Request, emit: Emit | None = None) -> Response:
            response = await super().respond(request, emit)
            return response if len(self.requests) > 2 else response._replace(tool_calls=tuple(asks))

    run = bl.run_sync(
        bl.Agent("lead", tools=(spec,)), "Go.", model=Lead(seed, 4), stop=bl.max_cost(micro / MICRO, hard=True)
    )
    assert bill(run) <= micro


@cases(30)
@given(st.integers(0, 10**6), st.integers(200_000, 2_000_000))
def test_a_resumed_run_keeps_to_its_hard_limit(seed: int, micro: int) -> None:
    class Asker(Spender):
        async def respond(self, request: Request, emit: Emit | None = None) -> Response:
            response = await super().respond(request, emit)
            asks = request.purpose == "step" and request.index == 4
            return response._replace(tool_calls=(ToolCall("q", "ask", '{"question": "?"}'),)) if asks else response

    compaction = Compaction(at_tokens=4000, keep_steps=1)
    paused = bl.run_sync(
        bl.Agent("a", tools=(look, ask)), "Look.", model=Asker(seed), compaction=compaction,
        stop=bl.max_cost(micro / MICRO, hard=True),
    )  # fmt: skip
    done = asyncio.run(bl.resume(paused, "Yes.")) if paused.stop_reason == "paused" else paused
    assert bill(done) <= micro


def test_a_response_is_cut_to_what_is_left() -> None:
    model = Spender(1)
    first = -(-(RATES[0] * 2500 + RATES[1] * 2000) // RATE_UNITS)
    play(model, bl.max_cost(first / MICRO, hard=True))
    assert 1900 < (model.requests[0].max_output or 0) < 2100
    play(model, bl.max_cost(1, hard=True))
    assert model.requests[1].max_output is None


def test_a_hard_limit_stops_before_the_first_request() -> None:
    model = Spender(1)
    run = play(model, bl.max_cost(0.001, hard=True))
    assert (run.stop_reason, run.n_steps, model.requests) == ("cost_budget", 0, [])
    assert isinstance(run.wrap_up, WrapUp)


def test_a_hard_limit_needs_prices_and_a_limit_on_output() -> None:
    limit = bl.max_cost(1, hard=True)
    with pytest.raises(SettingError, match=r"max_cost\(1, hard\): no list prices are known of the model"):
        play(bl.ScriptedModel(["Done."]), limit)
    model = Spender(1)
    model.output_range = None  # type: ignore[assignment] # as a model without such a limit
    with pytest.raises(SettingError, match="the model spender has no limit on its output"):
        play(model, limit)
    with pytest.raises(SettingError, match="cannot depend on another one"):
        play(Spender(1), limit & bl.max_steps(3))
    with pytest.raises(SettingError, match="cannot ignore an unknown cost"):
        bl.max_cost(1, "ignore", hard=True)


def test_no_recording_and_no_monitor_decides_a_hard_limit() -> None:
    run = play(Spender(1, 3), bl.max_steps(5))
    with pytest.raises(SettingError, match="which no recording has: leave out hard=True"):
        bl.counterfactual(run, rules=[bl.max_cost(1, hard=True)])
    with pytest.raises(SettingError, match="which no monitor counts"):
        bl.Monitor(bl.max_cost(1, hard=True))


def test_an_unknown_cost_ends_a_run_with_a_hard_limit() -> None:
    class Silent(Spender):
        def _usage(self, request: Request) -> Usage:
            return Usage()

    run = play(Silent(1), bl.max_cost(1, hard=True))
    assert run.stop_reason == "error"
    assert "cost_ahead unknown" in (run.error or "")
