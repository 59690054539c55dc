"""A mixed sweep for as long as one likes: five kinds of models, five policies, cancelled at random and taken up again.

One process sweeps into one store. Its sweeps are cancelled at random moments, and the same call goes on from there;
beside them, single runs are aborted. A server in another process fails at random, and a third process reads the store
all the time. Between two sweeps nothing is under way: what the process holds then must not grow.
"""

import asyncio
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

import boolab as bl
from boolab.store.stored_runs import State, overview
from tests.soak.reader import check, reading
from tests.soak.server import STEPS, serving
from tests.soak.vitals import Vitals, settled, vitals
from tests.support.helpers import QUIET, call, distinct, fail, look, write
from tests.support.model_protocols import CHAT, MESSAGES

POLICIES: Final = ("boocode", "opencode_v1", "claude_code", "aider", "inspect_react")
FINISHED: Final[tuple[State, ...]] = ("finished",)
EVERY_S: Final = 10.0
PATIENCE_S: Final = 30.0
"""How long a cancelled sweep may take to end, on a busy machine; the longest seen is in the table."""


@bl.tool
async def wait(what: str = "") -> str:
    """Wait for a moment of real time."""
    await asyncio.sleep(0.002)
    return f"waited for {what}"


TOOLS: Final = (look, write, fail, wait)
AGENT: Final = bl.Agent("tester", tools=TOOLS)


@dataclass
class Soaked:
    """What was seen: samples while things were under way and between sweeps, and what became of the sweeps."""

    seconds: float = 0
    amid: list[tuple[float, Vitals]] = field(default_factory=list)
    quiet: list[Vitals] = field(default_factory=list)
    most_wal_kib: int = 0
    wal_kib: int = 0
    cancelled: int = 0
    finished: int = 0
    aborted: int = 0
    slowest_cancel_s: float = 0.0
    cells: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    found: Mapping[str, Any] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    store_kib: int = 0


def models(url: str) -> dict[str, bl.models.Model]:
    """A model of each kind; two that ask a real server."""
    steps = [{"tool_calls": [call(name, what=str(n)) for name in ("look", "wait", "fail")]} for n in range(6)]
    scripted = bl.ScriptedModel([*steps, "All done."], summary="In short.", name="scripted")
    recorded = bl.run_sync(bl.Agent("a", tools=TOOLS, policy=QUIET), "go", model=bl.ScriptedModel(distinct(8)))
    profile = resources.files("boolab") / "datasets/profiles/coder.yaml"
    place = Path(str(profile)) if profile.is_file() else Path(__file__).parents[2] / "datasets/profiles/coder.yaml"
    retry = bl.models.Retry(attempts=4, first=0.01)
    timeouts = bl.models.Timeouts(connect=5, first_token=5, between=5, whole=10)
    return {
        "scripted": scripted,
        "simulated": bl.SimulatedModel.load(place),
        "recorded": bl.RecordedModel(recorded),
        "chat": CHAT.model(url, retry=retry, timeouts=timeouts, rate_limit=bl.models.RateLimit(12)),
        "messages": MESSAGES.model(url, retry=retry, timeouts=timeouts),
    }


class Mixed:
    """A soak: `Mixed(folder, seconds, seed).play()`."""

    def __init__(
        self,
        folder: Path,
        seconds: float,
        seed: int,
        repeats: int = 10,
        calm_s: float = 5.0,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._store = folder / "runs.db"
        self._seconds = seconds
        self._random = random.Random(seed)  # noqa: S311 - not for secrets
        self._repeats = repeats
        self._calm_s = calm_s
        self._tell = tell
        self._begin = time.monotonic()
        self._out = Soaked()

    def play(self) -> Soaked:
        """Do it, and look at the store when all is over."""
        bl.Store(self._store).close()
        with serving() as url, reading(self._store) as found:
            asyncio.run(self._soak(url))
        self._out.found = found
        self._out.seconds = self._now()
        self._look_at_the_store()
        return self._out

    def _now(self) -> float:
        return time.monotonic() - self._begin

    async def _soak(self, url: str) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, about: self._out.complaints.append(str(about)))
        asked, number = models(url), 0
        self._begin = time.monotonic()
        sampling = asyncio.create_task(self._sample())
        while self._now() < self._seconds:
            number += 1
            sweep = partial(self._sweep, asked, f"task {number}")
            while not await self._disturbed(sweep, calm_s=self._random.expovariate(1 / self._calm_s)):
                await self._rest(asked)
                if self._now() >= self._seconds:
                    await sweep()
                    break
            self._out.finished += 1
            await self._rest(asked)
        sampling.cancel()
        await asyncio.wait([sampling])

    def _sweep(self, asked: Mapping[str, bl.models.Model], task: str) -> Any:
        grid = {"policy": POLICIES, "max_steps": [3, STEPS + 1]}
        store = self._store
        return bl.sweep(AGENT, task, asked, grid=grid, repeats=self._repeats, store=store, progress=False)

    async def _disturbed(self, sweep: Callable[[], Any], calm_s: float) -> bool:
        """A sweep that is cancelled after a while, with a run beside it that is aborted; whether it was sooner done."""
        abort = bl.Abort()
        endless = bl.ScriptedModel([{"tool_calls": [call("wait")], "repeat": "forever"}])
        agent = bl.Agent("endless", tools=TOOLS, policy=QUIET, max_steps=None, tool_budget=None, doom_loop=None)
        aborted = asyncio.create_task(bl.run(agent, "go", model=endless, abort=abort))
        task = asyncio.create_task(sweep())
        await asyncio.wait([task], timeout=calm_s)
        abort.abort()
        check(await aborted)
        self._out.aborted += 1
        done, since = task.done(), time.monotonic()
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=PATIENCE_S)
            assert task.cancelled(), "a cancelled sweep goes on"
            self._out.cancelled += 1
            self._out.slowest_cancel_s = max(self._out.slowest_cancel_s, time.monotonic() - since)
        else:
            task.result()
        return done

    async def _rest(self, asked: Mapping[str, bl.models.Model]) -> None:
        """Look at what is held where nothing is under way. Connections are kept for the next request: they are closed
        before."""  # noqa: D205, D209 - one sentence
        for model in asked.values():
            if hasattr(model, "aclose"):
                await model.aclose()
        await asyncio.sleep(0)
        self._out.quiet.append(settled())

    async def _sample(self) -> None:
        while True:
            held = vitals()
            self._out.amid.append((self._now(), held))
            self._out.most_wal_kib = max(self._out.most_wal_kib, self._wal_kib())
            self._tell(f"{self._now():5.0f} s: {held}, {self._out.cancelled} cancelled, {self._out.finished} finished")
            await asyncio.sleep(EVERY_S)

    def _wal_kib(self) -> int:
        log = self._store.with_name(self._store.name + "-wal")
        return log.stat().st_size // 1024 if log.exists() else 0

    def _look_at_the_store(self) -> None:
        """Each cell of each sweep has one finished run, each run can be read, SQLite finds no fault with the file."""
        out = self._out
        about = overview(self._store)
        assert all(one.finished == one.n_cells and one.ended_at is not None for one in about.sweeps), about
        assert len(about.sweeps) == out.finished
        out.cells = sum(one.n_cells for one in about.sweeps)
        with closing(sqlite3.connect(self._store)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            twice = (
                "SELECT cell FROM runs WHERE state = 'finished' AND id = root AND cell IS NOT NULL "
                "GROUP BY cell HAVING count(*) != 1"
            )
            assert connection.execute(twice).fetchall() == []
            (finished,) = connection.execute(
                "SELECT count(*) FROM runs WHERE state = 'finished' AND id = root AND cell IS NOT NULL"
            ).fetchone()
            assert finished == out.cells
        for run in bl.stored_runs(self._store, states=FINISHED):
            check(run)
            out.reasons[run.stop_reason] += 1
        out.wal_kib, out.store_kib = self._wal_kib(), self._store.stat().st_size // 1024
