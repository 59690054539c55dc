"""What the tests of sweeps run: tools, models and agents that every process can import, and a book of who was asked.

The book is a file to which each call of `note`, and each request to `Instant`, adds a line of one length. A number in
the file `<book>.end` makes the process that writes that line kill itself: a moment that no clock decides.
"""

import asyncio
import multiprocessing
import os
import random
import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

import boolab as bl
from boolab.runtime.models.base import Emit
from tests.support.helpers import QUIET, TOOLS, call

forks = multiprocessing.get_context("forkserver")
"""Starts processes that can be killed and limited, in a few milliseconds: they are forked from one that is ready."""
forks.set_forkserver_preload(["pytest", "encodings.ascii", "psutil", "tests.support.sweeping"])

_LINE = re.compile(rb"([0-9a-f]{32}) (\d{6})\n")
_LENGTH = 40


class Frames(NamedTuple):
    """All that a notebook sees of runs."""

    runs: pd.DataFrame
    steps: pd.DataFrame
    calls: pd.DataFrame
    events: pd.DataFrame


def frames(runs: Any) -> Frames:
    return Frames(bl.runs_df(runs), bl.steps_df(runs), bl.calls_df(runs), bl.events_df(runs))


def assert_equal(left: Frames, right: Frames) -> None:
    """Fail unless the frames are equal bit for bit: values, dtypes, order of rows and columns, and as Parquet."""
    for name, one, other in zip(Frames._fields, left, right, strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True, check_column_type=True, obj=name)
        assert one.to_parquet() == other.to_parquet(), name


def write_down(book: str, run_id: str, number: int) -> None:
    """Add a line to the book; die, as at a power cut, if it is the one to die at."""
    descriptor = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, b"%s %06d\n" % (run_id.encode(), number))
        lines = os.fstat(descriptor).st_size // _LENGTH
    finally:
        os.close(descriptor)
    end = Path(f"{book}.end")
    if end.exists() and lines >= int(end.read_text()):
        os.kill(os.getpid(), signal.SIGKILL)


def die_at(book: Path, line: int) -> None:
    """Let whoever writes that line of the book die; 0 for nobody."""
    end = Path(f"{book}.end")
    if line:
        end.write_text(str(line))
    else:
        end.unlink(missing_ok=True)


def entries(book: Path, start: int = 0) -> list[tuple[str, int]]:
    """The lines of the book from that byte on: who asked, and which of its requests or steps it was."""
    if not book.exists():
        return []
    return [(run_id.decode(), int(number)) for run_id, number in _LINE.findall(book.read_bytes()[start:])]


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@bl.tool(read_only=True)
def note(book: str, what: str, context: bl.ToolContext) -> str:
    """Write down that it was called."""
    write_down(book, context.run_id, context.step)
    return f"noted {what}"


@bl.tool(read_only=True)
def die(marker: str) -> str:
    """Take the whole process along, unless somebody did before."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "alive"
    os.kill(os.getpid(), signal.SIGKILL)
    return "dead"


@bl.tool(read_only=True)
def die_always(marker: str) -> str:
    """Take the whole process along, unless the marker says that it is enough."""
    with Path(marker).open("a") as file:
        file.write(".")
    os.kill(os.getpid(), signal.SIGKILL)
    return "dead"


class Instant:
    """A model of real time that answers at once: its runs are committed step by step.

    Each run has one to six steps with up to two calls, some of which fail, all drawn from the request's seed and index.
    """

    name = "instant"

    def __init__(self, book: str) -> None:
        self.book = book

    async def respond(self, request: bl.models.Request, emit: Emit | None = None) -> bl.models.Response:
        write_down(self.book, request.run_id, request.index)
        await asyncio.sleep(0)
        draw = random.Random(f"{request.seed} {request.index}")  # noqa: S311 - a draw, no secret
        usage = bl.models.Usage(draw.randrange(100), draw.randrange(100))
        if request.index and draw.random() < 0.3:
            return bl.models.Response("done \ud83d", (), "stop", usage)
        calls = tuple(
            bl.models.ToolCall(
                f"c{request.index}_{n}", draw.choice(["look", "fail"]), f'{{"what": "{draw.randrange(9)}"}}'
            )
            for n in range(draw.randint(1, 2))
        )
        return bl.models.Response("", calls, "tool_calls", usage, "I wonder")


def said_done(run: bl.Run) -> bool:
    """A score."""
    return run.text.startswith("done")


BUSY = bl.ScriptedModel(
    [
        {"text": "Let me see.", "tool_calls": [call("look", what="a"), call("write", what="b")]},
        {"tool_calls": [call("fail", what="x"), call("nothing"), {"name": "look", "arguments": "{broken"}]},
        {"tool_calls": [call("task", agent="scout", prompt="Where is it?"), call("look", what="ä \ud83d")]},
        {"tool_calls": [call("look", what="same")], "repeat": 4, "usage": {"input_tokens": 9, "cost_usd": 0.001}},
        {"text": "done", "latency_ms": 700, "usage": {"input_tokens": 7, "output_tokens": 3}},
    ],
    summary={"text": "So far, so good.", "usage": {"output_tokens": 5}},
    name="busy",
)
FAILING = bl.ScriptedModel([{"tool_calls": [call("look")]}, {"text": "half", "error": {"status": 500, "after": 2}}])
SCOUT = bl.Agent("scout", tools=TOOLS, model=bl.ScriptedModel([{"tool_calls": [call("look", what="it")]}, "In a.py."]))
LEAD = bl.Agent("lead", description="leads", prompt="You lead.", tools=(*TOOLS, bl.task_tool(SCOUT)))
SOLO = bl.Agent("solo", tools=(*TOOLS,), max_steps=6)
PROFILE = bl.models.Profile.of(
    {
        "name": "simulated",
        "tools": {
            "look": {"next": {"look": 2, "write": 1}, "calls": {1: 3, 3: 1}, "latency_ms": {"median": 80, "sigma": 1}},
            "write": {"next": {"look": 1}, "error_rate": 0.3, "finish_factor": 3},
        },
        "finish": {"hazard": [{"from_step": 1, "probability": 0}, {"from_step": 3, "probability": 0.2}]},
        "loop": {"rate": 0.15, "period": {1: 3, 2: 1}, "again": 0.7},
        "after_error": {"retry": 1, "vary": 1, "switch": 1, "give_up": 0.2},
        "revisit": {"rate": 0.2, "same_result": 0.5},
        "tokens": {"prompt": 900, "output": {"median": 50, "sigma": 0.8}, "cached_share": 0.9},
        "price": {"input": 3, "cached": 0.3, "output": 15},
        "latency": {"response_ms": {"median": 900, "sigma": 0.5}},
        "difficulties": {"easy": {"share": 1, "finished": 0.9, "cut": 0.3}, "hard": {"finished": 0.2, "cut": 0.1}},
    }
)
SIMULATED = bl.SimulatedModel(PROFILE)

EVERYTHING: Mapping[str, Any] = {
    "agents": [LEAD, SOLO],
    "tasks": ["fix it", "löse es"],
    "model": {"busy": BUSY, "failing": FAILING, "simulated": SIMULATED},
    "grid": {
        "policy": ["boocode", QUIET.vary(name="quiet"), "opencode_3631", "naive"],
        "max_steps": [2, None],
        "tool_budget": [3, None],
        "doom_loop": [2, None],
    },
    "repeats": 2,
}
"""Agents x tasks x models x policies x steps x tool_budget x doom_loop x repeats, with most that a run can meet."""


def swept(agents: Any, tasks: Any, model: Any, **options: Any) -> Any:
    """What a sweep gives, without a progress bar."""
    return asyncio.run(bl.sweep(agents, tasks, model, **{"progress": False, **options}))


def shuffled(cells: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The same cells in another order."""
    draw = random.Random(seed)  # noqa: S311 - an order, no secret

    def mixed(values: Iterable[Any]) -> list[Any]:
        return draw.sample(list(values), len(list(values)))

    return {
        **cells,
        "agents": mixed(cells["agents"]),
        "tasks": mixed(cells["tasks"]),
        "model": dict(mixed(cells["model"].items())),
        "grid": {axis: mixed(values) for axis, values in mixed(cells["grid"].items())},
    }


def without_times(run: bl.Run) -> bl.Run:
    """A run as it would be if no time passed: what a real clock cannot change."""
    steps = tuple(
        step._replace(
            start_ms=0,
            duration_ms=0,
            model_ms=0,
            results=tuple(result and result._replace(duration_ms=0) for result in step.results),
        )
        for step in run.steps
    )
    events = tuple(event._replace(t_ms=0) for event in run.events)
    return replace(run, started_at=None, duration_ms=None, steps=steps, events=events, subagents=(), continuation=None)
