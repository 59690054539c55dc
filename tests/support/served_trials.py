"""Trials whose branches are answered by servers on the loopback interface, in processes that can be killed.

The recorded runs are three steps of a script under a cap of three. A branch continues with the server of its task. The
score depends on nothing but what the branch contains.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final

import boolab as bl
from boolab.core.types import MICRO
from boolab.runtime.models.mock import ChatWriter
from boolab.trials.result import TrialResult
from boolab.trials.trial import Trial
from tests.support.helpers import QUIET, call, look
from tests.support.model_server import Answer, Asked, Gate, ModelServer, stream, whole
from tests.support.sweeping import forks, note, without_times

TIGHT: Final = 3
LOOSE: Final = 9
COST: Final = 0.01
"""What a request costs, where the server reports it."""


def script(book: Path, n_steps: int, end: Any) -> list[Any]:
    """So many steps that each write a line into the book, and an end."""
    usage = {"input_tokens": 20, "output_tokens": 5, "cost_usd": COST}
    steps = [
        {"tool_calls": [call("note", book=str(book), what=f"{n}")], "usage": usage, "latency_ms": 2}
        for n in range(n_steps)
    ]
    return [*steps, end if isinstance(end, dict) else {"text": end, "usage": usage, "latency_ms": 2}]


def recorded(book: Path, n: int, *, tasks: int | None = None, steps: int = LOOSE) -> list[bl.Run]:
    """Runs that the cap stopped, the same in each process."""
    model = bl.ScriptedModel(script(book, steps, "never"))
    runs = [bl.run_sync(KINDS["notes"]["agent"], f"Task {at % (tasks or n)}", model=model, seed=at) for at in range(n)]
    return [replace(run, run_id=f"run {at:03}", started_at=None, success=False) for at, run in enumerate(runs)]


class Billing:
    """A server that bills each request that it answers, and may be down for a while.

    A branch gets calls of `note` until it has so many steps, then text. Its requests may be held until a gate opens.
    """

    def __init__(self, book: Path, n_steps: int = LOOSE) -> None:
        self.book, self.n_steps = book, n_steps
        self.billed = 0
        self.is_down = False
        self.held: Gate | None = None
        self.held_from = 0
        self.server = ModelServer(reply=self._reply)

    def _reply(self, asked: Asked) -> Answer:
        if self.is_down:
            return whole({"error": {"message": "down"}}, 503)
        self.billed += 1
        given = sum(message["role"] == "assistant" for message in asked.json["messages"])
        usage = bl.models.Usage(20, 5, cost=round(COST * MICRO))
        note = bl.models.ToolCall(f"c{given}", "note", json.dumps({"book": str(self.book), "what": f"{given}"}))
        more = given < self.n_steps
        response = bl.models.Response("" if more else "Done.", (note,) * more, "tool_calls" if more else "stop", usage)
        pieces: list[bytes] = []
        sent = ChatWriter(pieces.append)
        if response.text:
            sent.text(response.text)
        sent.end(response)
        held = self.held if self.held is not None and self.billed > self.held_from else None
        return stream(*([held] if held is not None else []), b"".join(pieces))


def long_enough(branch: bl.Run) -> bool:
    """A score."""
    return branch.n_steps % 2 == 0 and branch.stop_reason == "finished"


class ByTask:
    """The model of a branch: that of the server of its task."""

    def __init__(self, urls: Sequence[str], protocol: str, options: Mapping[str, Any]) -> None:
        self.urls, self.protocol, self.options = tuple(urls), protocol, dict(options)

    def __call__(self, run: bl.Run) -> bl.models.Model:
        url = self.urls[int(run.task.split()[1]) % len(self.urls)]
        kind = bl.OpenAIModel if self.protocol == "openai" else bl.AnthropicModel
        return kind("mock", base_url=url, prices=False, **self.options)


LOOKER: Final = bl.Agent("tester", tools=(look,), policy="naive", max_steps=2)


def looked(n: int) -> list[bl.Run]:
    """Runs that a cap stopped after two looks."""
    looks = bl.ScriptedModel([{"tool_calls": [call("look", what=f"{at}")]} for at in range(9)])
    runs = [bl.run_sync(LOOKER, f"Task {at}", model=looks, seed=at) for at in range(n)]
    return [replace(run, run_id=f"run {at:02}", success=False) for at, run in enumerate(runs)]


def answered(branch: bl.Run) -> bool:
    """A score that no random text can change."""
    return branch.stop_reason == "finished" and branch.seed is not None and branch.seed % 3 > 0


KINDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "notes": {
        "agent": bl.Agent("a", prompt="You note.", tools=(note,), policy=QUIET, max_steps=TIGHT),
        "tools": [note],
        "score": long_enough,
    },
    "looks": {"agent": LOOKER, "tools": [look], "score": answered},
}
"""What runs are continued with, by what they do: each process makes it anew."""


def plan_of(runs: Sequence[bl.Run], model: Any, kind: str = "notes", **options: Any) -> Trial:
    """The trial of a looser cap."""
    return bl.trial(runs, {"max_steps": LOOSE}, model=model, **{"seed": 1, **KINDS[kind], **options})


def go(trial: Trial, n: int | None = None, **options: Any) -> TrialResult:
    """Run branches, without a progress bar."""
    return asyncio.run(trial.run(n, **{"progress": False, **options}))


def run_here(
    runs: Sequence[bl.Run], model: Any, kind: str, store: Path, options: Mapping[str, Any], at_once: int
) -> None:
    """What a child does."""
    go(plan_of(runs, model, kind, store=store, **options), concurrency=at_once)


def child(
    runs: Sequence[bl.Run], model: Any, store: Path, *, kind: str = "notes", at_once: int = 3, **options: Any
) -> ForkServerProcess:
    """A process that runs a trial."""
    process = forks.Process(target=run_here, args=(runs, model, kind, store, options, at_once))
    process.start()
    return process


def timeless(run: bl.Run) -> bl.Run:
    """A branch without what a real clock changes."""
    still = without_times(run)
    steps = tuple(step._replace(response=step.response._replace(ttft_ms=None)) for step in still.steps)
    events = tuple(event for event in still.events if event.kind not in ("retry", "throttled"))
    return replace(still, steps=steps, events=events)


def facts(trial: Trial) -> Any:
    """All that a trial found, but for times."""
    found = trial.result
    return (
        found.looks.to_dict("list"),
        found.gain,
        found.runs.to_dict("list"),
        [timeless(run) for run in trial.branches],
    )
