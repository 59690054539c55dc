"""Event loops that are not asyncio's, and a background thread that a plain tool blocks."""

import os
import signal
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.errors import SettingError
from boolab.runtime.engine import portal
from tests.support.helpers import call

HELLO = bl.ScriptedModel(["Hi."])


async def live_run() -> None:
    async with bl.start(None, "x", model=HELLO):
        pass


@pytest.mark.parametrize(
    "work",
    [
        lambda: bl.run(None, "x", model=HELLO),
        lambda: bl.sweep(bl.Agent("a"), "x", HELLO, progress=False),
        lambda: bl.branch(bl.run_sync(None, "x", model=HELLO), 0, model=HELLO),
        live_run,
    ],
    ids=["run", "sweep", "branch", "start"],
)
def test_loop_that_is_not_asyncios_is_refused(work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    coroutine = work()
    with pytest.raises(SettingError, match=r"no event loop of asyncio is running.*bl\.run_sync in a thread"):
        coroutine.send(None)  # as trio does


def test_interrupt_returns_while_a_plain_tool_blocks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(portal, "BLOCKED_S", 0.05)
    begun, released, ended = threading.Event(), threading.Event(), threading.Event()

    def block() -> str:
        """Block."""
        begun.set()
        released.wait(60)
        ended.set()
        return "late"

    def interrupt() -> None:
        begun.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    model = bl.ScriptedModel([{"tool_calls": [call("look"), call("block")]}, "Done."])
    look = bl.tool(name="look")(lambda: "a.py")
    run = bl.run_sync(None, "x", model=model, tools=[look, block])
    thread.join()
    assert not ended.is_set()
    assert (run.stop_reason, run.n_steps) == ("aborted", 1)
    assert [result and (result.content, result.is_error) for result in run.steps[0].results] == [
        ("a.py", False),
        ("aborted", True),
    ]
    assert bl.run_sync(None, "x", model=HELLO).text == "Hi."  # in another thread, while the tool still blocks
    bl.save_runs(run, tmp_path / "run.jsonl")
    released.set()
    assert ended.wait(60)
    assert bl.load_runs(tmp_path / "run.jsonl")[0].stop_reason == "aborted"
    assert run.n_steps == 1
