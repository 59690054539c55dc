"""Whole runs on a server that others wrote: llmock (github.com/JulienRabault/LLMock), for both protocols.

With tools it first answers with a call that fits the tool's schema and, once it sees a result, with text.
"""

import asyncio
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.run import Run
from boolab.core.types import Event
from boolab.runtime.models.base import Model
from tests.support.canary import CANARY, KEYS
from tests.support.helpers import look
from tests.support.model_server import PATIENCE_S, closed_port

POLL_S: Final = 0.05

MODELS: Final[dict[str, Callable[..., Model]]] = {
    "openai": lambda url, **options: bl.OpenAIModel("gpt-4o", base_url=f"{url}/v1", **options),
    "anthropic": lambda url, **options: bl.AnthropicModel("claude-x", base_url=f"{url}/anthropic/v1", **options),
}
both = pytest.mark.parametrize("protocol", MODELS)


@contextmanager
def llmock(folder: Path, *options: str) -> Iterator[str]:
    """A server of one's own on a free port; its address."""
    with closed_port() as port:
        pass
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-W", "ignore", "-m", "llmock.cli", "serve", "-p", str(port), "-h", "127.0.0.1"]
    environ = {name: value for name, value in os.environ.items() if name not in KEYS}
    with (folder / "llmock.log").open("wb") as log:
        server = subprocess.Popen([*command, *options], stdout=log, stderr=log, cwd=folder, env=environ)
        try:
            _wait_for(url, server, folder)
            yield url
        finally:
            server.kill()
            server.wait(PATIENCE_S)


def _wait_for(url: str, server: subprocess.Popen[bytes], folder: Path) -> None:
    patience = time.monotonic() + PATIENCE_S
    while time.monotonic() < patience and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/v1/models", timeout=PATIENCE_S):  # noqa: S310 - it is a local one
                return
        except OSError:
            time.sleep(POLL_S)
    msg = f"llmock did not start:\n{(folder / 'llmock.log').read_text()}"
    raise RuntimeError(msg)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llmock(tmp_path_factory.mktemp("llmock"), "--response-style", "varied") as url:
        yield url


def go(model: Model, **options: Any) -> Run:
    agent = bl.Agent("tester", tools=(look,), prompt="Look, then tell.")
    return asyncio.run(bl.run(agent, "What is there?", model=model, **options))


@both
def test_a_whole_tool_loop_streams(server: str, protocol: str) -> None:
    heard: list[Event] = []
    run = go(MODELS[protocol](server, api_key=CANARY), on_event=heard.append)
    assert (run.stop_reason, run.n_steps, run.n_tool_calls) == ("finished", 2, 1), run.error
    first, last = run.steps
    assert [call.name for call in first.response.tool_calls] == ["look"]
    assert [result is not None and not result.is_error for result in first.results] == [True]
    assert (first.response.finish_reason, last.response.finish_reason) == ("tool_calls", "stop")
    deltas = Counter(event.payload["of"] for event in heard if event.kind == "delta")
    assert deltas["text"] > 1
    assert deltas["tool_call"] == 1
    told = "".join(event.payload["text"] for event in heard if event.kind == "delta" and event.payload["of"] == "text")
    assert told == first.response.text + last.response.text != ""
    for step in run.steps:
        assert step.response.usage.input_tokens
        assert step.response.usage.output_tokens
        assert step.response.ttft_ms is not None
    assert CANARY not in repr(run)


@pytest.mark.slow
@both
def test_a_run_without_tools_is_one_step_of_text(server: str, protocol: str) -> None:
    run = asyncio.run(bl.run(None, "Say something.", model=MODELS[protocol](server)))
    assert (run.stop_reason, run.n_steps) == ("finished", 1), run.error
    assert run.text


@pytest.mark.slow
@both
def test_a_sweep_of_runs_shares_the_server_and_the_model(server: str, protocol: str) -> None:
    model = MODELS[protocol](server, rate_limit=bl.models.RateLimit(concurrency=3))
    agent = bl.Agent("tester", tools=(look,))
    runs = asyncio.run(bl.sweep(agent, ["one", "two"], model, repeats=4, progress=False))
    assert [(run.stop_reason, run.n_steps) for run in runs] == [("finished", 2)] * 8


@pytest.mark.slow
@both
def test_errors_at_random_are_retried(protocol: str, tmp_path: Path) -> None:
    with llmock(tmp_path, "--error-rate", "429=0.3", "--error-rate", "503=0.3") as url:
        model = MODELS[protocol](url, retry=bl.models.Retry(attempts=50, seconds=100_000))
        runs = [go(model, clock=VirtualClock()) for _ in range(8)]
    assert [(run.stop_reason, run.n_steps) for run in runs] == [("finished", 2)] * 8
    statuses = Counter(e.payload["status"] for run in runs for e in run.events if e.kind == "retry")
    assert set(statuses) == {429, 503}


@pytest.mark.slow
@both
def test_server_rate_limit_is_waited_for(protocol: str, tmp_path: Path) -> None:
    """On a virtual clock the wait is over at once, so that the server refuses again: each time it says how long."""
    with llmock(tmp_path, "--rpm", "2") as url:
        model = MODELS[protocol](url, api_key="sk-test", retry=bl.models.Retry(attempts=3, seconds=100_000))
        assert go(model, clock=VirtualClock()).stop_reason == "finished"
        clock = VirtualClock()
        run = go(model, clock=clock)
    assert run.stop_reason == "error"
    assert "429" in (run.error or "")
    waits = [event.payload["wait_ms"] for event in run.events if event.kind == "retry"]
    assert len(waits) == 2
    assert all(1_000 <= wait <= 61_000 for wait in waits)
    assert clock.now() == sum(waits)


@pytest.mark.slow
@both
def test_spoiled_streams_break_runs_and_keep_records(protocol: str, tmp_path: Path) -> None:
    """Where it spoils a stream is chance: after the finish reason there is nothing left to break."""
    faults = [
        option for kind in ("truncate", "disconnect", "malformed") for option in ("--stream-fault", f"{kind}=0.3")
    ]
    with llmock(tmp_path, *faults) as url:
        model = MODELS[protocol](url, retry=bl.models.Retry(attempts=2))
        runs = [go(model, clock=VirtualClock()) for _ in range(20)]
    assert {run.stop_reason for run in runs} <= {"error", "finished"}
    broken = [run for run in runs if run.stop_reason == "error"]
    assert broken
    for run in broken:
        last = run.steps[-1]
        assert last.error == run.error
        assert "ModelError" in last.error
        assert not any(last.results)
    for step in (step for run in runs for step in run.steps if not step.error):
        assert [result is not None and not result.is_error for result in step.results] == [True] * len(step.results)
