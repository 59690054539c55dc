"""One model, many runs: throttles, event loops, threads, and nothing left open behind."""

import asyncio
import bisect
import gc
import subprocess
import sys
import threading
import time
import warnings
from typing import Any

import pytest

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.run import Run
from boolab.core.types import Event
from boolab.runtime.engine.abort import Abort
from tests.support.cases import first
from tests.support.helpers import QUIET, TOOLS
from tests.support.model_protocols import CHAT, PROTOCOLS, Said, Speaks, both, go, going
from tests.support.model_server import Act, Asked, Gate, Latency, ModelServer, stream, whole
from tests.support.project import ROOT

DONE = Said("All done.")


def loop_of(speaks: Speaks, steps: int, *before: Act) -> Any:
    """A server's reply: a call as long as fewer results than `steps` were sent, then a text."""

    def reply(asked: Asked) -> list[Act]:
        done = asked.body.count(b"tool_call_id" if speaks is CHAT else b"tool_use_id")
        said = Said("", [(f"call_{done}", "look", f'{{"what": "{done}"}}')]) if done < steps else DONE
        return [*before, *stream(*speaks.events(said))]

    return reply


# Throttles


@both
def test_rate_limit_holds_for_all_runs_of_a_sweep(speaks: Speaks) -> None:
    with ModelServer(reply=loop_of(speaks, 2, Latency(0.005))) as server:
        model = speaks.model(server.url, rate_limit=bl.models.RateLimit(concurrency=2))
        agent = bl.Agent("a", tools=TOOLS, policy=QUIET)
        runs = asyncio.run(bl.sweep(agent, "go", model, repeats=20, progress=False))
    assert [run.stop_reason for run in runs] == ["finished"] * 20
    assert len(server.asked) == 60
    assert server.most_under_way == 2


@both
def test_two_models_may_share_one_throttle(speaks: Speaks) -> None:
    rate_limit = bl.models.RateLimit(concurrency=1)
    with ModelServer(reply=loop_of(speaks, 1, Latency(0.005))) as server:
        models = {name: speaks.model(server.url, rate_limit=rate_limit, name=name) for name in ("one", "other")}
        runs = asyncio.run(bl.sweep(bl.Agent("a", tools=TOOLS), "go", models, repeats=5, progress=False))
    assert [run.stop_reason for run in runs] == ["finished"] * 10
    assert server.most_under_way == 1


def most_in_a_minute(times: list[int]) -> int:
    """How many requests came in the fullest window of 60 s; the end is not part of a window."""
    return max(bisect.bisect_left(times, start + 60_000) - place for place, start in enumerate(times))


def test_retries_count_among_the_requests_per_minute() -> None:
    clock = VirtualClock()
    answers = [whole(CHAT.error("Busy."), 503)] * 8
    with ModelServer(*answers, stream(*CHAT.events(DONE)), now=clock.now) as server:
        retry = bl.models.Retry(attempts=10, seconds=10_000, first=0.001, most=0.002)
        rate_limit = bl.models.RateLimit(requests_per_minute=3, clock=clock)
        run = go(CHAT.model(server.url, rate_limit=rate_limit, retry=retry), clock=clock)
    assert run.stop_reason == "finished", run.error
    assert most_in_a_minute([asked.at for asked in server.asked if asked.at is not None]) <= 3


def test_who_waits_to_ask_again_does_not_hold_a_place() -> None:
    """A backoff of a minute must not stop everybody else."""

    async def two(server: ModelServer) -> tuple[Run, str]:
        model = CHAT.model(server.url, rate_limit=bl.models.RateLimit(concurrency=1))
        patient = asyncio.ensure_future(going(model, abort=(abort := Abort())))
        await asyncio.to_thread(server.wait_for, 1)
        other = await going(model)
        abort.abort()
        return other, (await patient).stop_reason

    answers = [whole(CHAT.error("Busy."), 429, {"Retry-After": "60"}), stream(*CHAT.events(DONE))]
    started = time.monotonic()
    with ModelServer(*answers) as server:
        other, patient = asyncio.run(two(server))
    assert (other.stop_reason, patient) == ("finished", "aborted")
    assert time.monotonic() - started < 20


# Event loops and threads


@both
def test_a_model_serves_one_event_loop_after_another(speaks: Speaks) -> None:
    with ModelServer(reply=loop_of(speaks, 1)) as server:
        model = speaks.model(server.url)
        runs = [asyncio.run(going(model)) for _ in range(3)]
        runs += [bl.run_sync(bl.Agent("a", tools=TOOLS), "go", model=model) for _ in range(2)]
        runs.append(asyncio.run(going(model)))
    assert [run.stop_reason for run in runs] == ["finished"] * 6


@both
def test_a_model_serves_event_loops_in_several_threads_at_once(speaks: Speaks) -> None:
    together, runs = Gate(), list[Run]()

    def reply(asked: Asked) -> list[Act]:
        if server.under_way == 4:
            together.open()
        return [together, *loop_of(speaks, 2)(asked)]

    with ModelServer(reply=reply) as server:
        model = speaks.model(server.url, rate_limit=bl.models.RateLimit(concurrency=10))
        threads = [threading.Thread(target=lambda: runs.append(go(model))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert [(run.stop_reason, run.n_steps) for run in runs] == [("finished", 3)] * 4


SCRIPT = """
import asyncio, gc, sys
import boolab as bl

model = bl.{model}("test-model", base_url=sys.argv[1], api_key="sk-test")
for _ in range(2):
    print(asyncio.run(bl.run(None, "go", model=model)).text)

async def leave():
    abort = bl.Abort()
    watch = lambda event: event.kind == "delta" and abort.abort()
    print((await bl.run(None, "go", model=model, abort=abort, on_event=watch)).stop_reason)

asyncio.run(leave())
{end}
"""
ENDS = {
    "the model lives on": "",
    "the model is dropped": "del model; gc.collect()",
    "the model was used by run_sync too": 'bl.run_sync(None, "go", model=model); del model; gc.collect()',
}


@pytest.mark.parametrize("speaks", first(1, PROTOCOLS), ids=repr)
@pytest.mark.parametrize("end", first(1, reversed(ENDS)))
def test_a_script_leaves_no_connection_open(speaks: Speaks, end: str) -> None:
    """Python tells of every socket that nobody closed, if it is asked to."""
    name = {"openai": "OpenAIModel", "anthropic": "AnthropicModel"}[speaks.name]
    script = SCRIPT.format(model=name, end=ENDS[end])
    with ModelServer(reply=loop_of(speaks, 0)) as server:
        done = subprocess.run(
            [sys.executable, "-W", "always::ResourceWarning", "-c", script, server.url + speaks.root],
            capture_output=True, text=True, timeout=60, check=False, cwd=ROOT,
        )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["All done."] * 2 + ["aborted"]


@pytest.mark.parametrize("speaks", first(1, PROTOCOLS), ids=repr)
@pytest.mark.parametrize("virtual", first(1, [False, True]), ids=["real clock", "virtual clock"])
@pytest.mark.parametrize("form", first(1, ["both in turn", "streams", "JSON"]))
def test_abort_at_any_delta_closes_the_connection(speaks: Speaks, form: str, virtual: bool) -> None:
    """A connection that nobody closed is a ResourceWarning, and those are errors here."""

    def reply(asked: Asked) -> list[Act]:
        done = asked.body.count(b"tool_call_id" if speaks is CHAT else b"tool_use_id")
        said = Said("one two three", [(f"c{done}", "look", f'{{"what": "{done}"}}')]) if done < 3 else DONE
        plain = form == "JSON" or (form == "both in turn" and done % 2 == 0)
        return whole(speaks.whole(said)) if plain else stream(*speaks.events(said))

    async def abort_at(server: ModelServer, place: int) -> str:
        abort, heard = Abort(), 0

        def watch(event: Event) -> None:
            nonlocal heard
            heard += event.kind == "delta"
            if heard == place:
                abort.abort()

        clock = VirtualClock() if virtual else None
        return (await going(speaks.model(server.url), abort=abort, on_event=watch, clock=clock)).stop_reason

    async def abort_everywhere(server: ModelServer) -> list[str]:
        reasons = [await abort_at(server, place) for place in range(1, 18)]
        gc.collect()  # while the loop still runs: what is dropped in it is another case than what is dropped after it
        return reasons

    with warnings.catch_warnings(record=True) as left_open:
        warnings.simplefilter("always", ResourceWarning)
        with ModelServer(reply=reply) as server:
            reasons = asyncio.run(abort_everywhere(server))
        gc.collect()
    assert {"aborted", "finished"} == set(reasons)
    assert [str(warning.message) for warning in left_open] == []


@pytest.mark.slow
@both
def test_dropped_models_keep_no_connections(speaks: Speaks) -> None:
    async def make_and_drop(server: ModelServer) -> None:
        for _ in range(10):
            await going(speaks.model(server.url))
        gc.collect()
        for _ in range(100):  # what closes them may take some turns of the loop
            if len(server._open) <= 1:
                return
            await asyncio.sleep(0.01)

    with ModelServer(reply=loop_of(speaks, 0)) as server:
        asyncio.run(make_and_drop(server))
        assert len(server.asked) == 10
        assert len(server._open) <= 1
