"""A thousand runs stream at once in one process: none fails, and each takes little memory."""

import asyncio
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import Event
from boolab.runtime.models.base import Model
from tests.support.helpers import QUIET, TOOLS
from tests.support.model_protocols import CHAT, PROTOCOLS, Said, Speaks
from tests.support.model_server import Act, Asked, Gate, ModelServer, stream
from tests.support.project import ROOT

RUNS: Final = 1_000
FILES: Final = RUNS + 500
"""Each run has a connection, and the process some files."""
LIMIT_S: Final = 100
MOST_KB: Final = 300
"""Memory per run while all of them stream: several times what was measured."""
PAGE_KB: Final = resource.getpagesize() / 1024


def serve_together(speaks: Speaks, n: int) -> None:
    """Answer each of n first requests with half a text, and with the rest once all of them have got so far."""
    everyone = Gate()

    def reply(asked: Asked) -> list[Act]:
        if b"call_1" in asked.body:
            return stream(*speaks.events(Said("All done.")))
        if server.under_way == n:
            everyone.open()
        first, *rest = speaks.events(Said("I look around. ", [("call_1", "look", '{"what": "x"}')]))
        half = len(rest) // 2
        return stream(first, *rest[:half], everyone, *rest[half:])

    with ModelServer(reply=reply) as server:
        print(server.url, flush=True)  # noqa: T201 - that is how it is found
        sys.stdin.read()


@contextmanager
def server_of(speaks: Speaks, n: int) -> Iterator[str]:
    """Such a server in a process of its own, whose memory is not ours."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.runtime.models.remote.test_many_streams", speaks.name, str(n)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()
            server.wait(LIMIT_S)


def allow_files(n: int) -> None:
    """Raise the limit on open files, as far as it is soft."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < n:
        most = n if hard == resource.RLIM_INFINITY else min(n, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def resident_kb() -> float:
    """How much memory this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_KB


async def run_all(model: Model, n: int) -> tuple[list[Run], float]:
    """N runs at once; and the memory that each took when all of them were in mid-stream, in KB."""
    agent = bl.Agent("tester", tools=TOOLS, policy=QUIET)
    streaming: set[int] = set()
    before, held = resident_kb(), 0.0

    def watch(number: int, event: Event) -> None:
        nonlocal held
        if event.kind == "delta" and number not in streaming:
            streaming.add(number)
            if len(streaming) == n:
                held = resident_kb()

    async with asyncio.timeout(LIMIT_S):
        runs = await asyncio.gather(
            *(bl.run(agent, "go", model=model, on_event=partial(watch, number)) for number in range(n))
        )
    return runs, (held - before) / n


@pytest.mark.alone
def test_a_thousand_runs_stream_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """None of them gets its second half before all have got the first: they are really there together."""
    allow_files(FILES)
    with server_of(CHAT, RUNS) as url:
        runs, each_kb = asyncio.run(run_all(CHAT.model(url), RUNS))
    assert [run.error for run in runs if run.error] == []
    assert [(run.stop_reason, run.n_steps, run.text) for run in runs] == [("finished", 2, "All done.")] * RUNS
    assert [event.kind for run in runs for event in run.events if event.kind == "retry"] == []
    with capsys.disabled():
        print(f"\n{RUNS:,} runs streaming at once: {each_kb:.0f} KB each ", end="")  # noqa: T201
    assert 0 < each_kb < MOST_KB


if __name__ == "__main__":
    allow_files(FILES)
    serve_together(next(one for one in PROTOCOLS if one.name == sys.argv[1]), int(sys.argv[2]))
