"""A widget of each kind, on what is in the repository."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Final

import boolab as bl
from boolab.io.resources import data_path
from boolab.widgets._base.standalone_html import PagePart
from boolab.widgets._base.widget import Shown
from boolab.widgets.live.widget import Live
from tests.support.growing import claude_lines, encoded
from tests.support.project import ROOT


@cache
def runs() -> list[bl.Run]:
    """Some of the runs of a simulated agent."""
    return list(bl.load_runs(ROOT / "datasets/runs"))[:50]


@cache
def failing() -> bl.Run:
    """One with many failed calls."""
    return max(runs(), key=lambda run: sum(bool(one and one.is_error) for step in run.steps for one in step.results))


def caplab() -> Shown:
    """At a cap that cuts some."""
    lab = bl.CapLab(runs())
    lab.setting = {"max_steps": 6}
    return lab


def heatmap() -> Shown:
    """Caps and budgets."""
    grid = {"max_steps": [4, 8, 12, 16, None], "tool_budget": [6, 12, None]}
    some = runs()[:12]  # as many as a page holds
    return bl.Heatmap(bl.counterfactual(some, grid=grid, aggregate=True, progress=False), some)


def compare() -> Shown:
    """Two runs."""
    one = failing()
    other = next(run for run in runs() if run.run_id != one.run_id)
    return bl.Compare(one, other)


def sweep_view() -> Shown:
    """A sweep that has ended; in a thread of its own, since a browser keeps this one's event loop: see `started`."""
    view = bl.SweepView()
    stuck = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": "forever"}])
    grid: dict[str, list[int | None]] = {"max_steps": [3, 5], "doom_loop": [None, 2]}
    swept = bl.sweep(bl.Agent("walker"), "go", stuck, grid=grid, progress=view)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, swept).result()
    return view


def watch_view() -> Shown:
    """Two agents and a subagent, of which one is in a loop."""
    folder = Path(mkdtemp())
    logs = {"s1": claude_lines(6, same=True), "s2": claude_lines(3, session="s2", final=True)}
    for name, lines in logs.items():
        (folder / f"{name}.jsonl").write_bytes(b"".join(map(encoded, lines)))
    view = bl.watch(folder, bl.max_steps(56) | bl.doom_loop(5), prices=False)
    view.stop()
    rmtree(folder)
    return view


def labeler() -> Shown:
    """A desk with some answers."""
    folder = Path(mkdtemp())
    unlabelled = [replace(run, success=None, labels=()) for run in runs()]
    desk = bl.Labeler(unlabelled, {"max_steps": [30, 20]}, labels=folder / "labels.jsonl", criterion="tests pass")
    for outcome in "sfssf":
        desk.answer(outcome)
    rmtree(folder)
    return desk


class ShownLive(Shown):
    """A live run between two of its steps, as it is where a kernel runs: a page of it has no controls."""

    def __init__(self, live: Live, **changes: object) -> None:
        self._live, self._data = live, {**live.data, **changes}

    def _title(self) -> str:
        return self._live._title()

    def _text(self) -> str:
        return self._live._text()

    def _picture(self) -> bytes:
        return self._live._picture()

    def __repr__(self) -> str:
        return repr(self._live)

    def _parts(self) -> list[PagePart]:
        return [PagePart("live", self._data, {"opened": None})]

    def _runs(self) -> dict[str, PagePart]:
        return self._live._runs()


async def make_step(live: Live, number: int) -> None:
    """Run the step of that number, and no further one."""
    live.step()
    while live.state != "paused" or live.data["n_steps"] < number:  # noqa: ASYNC110 - another thread runs it
        await asyncio.sleep(0.002)


def live() -> Shown:
    """A run that repeats itself, paused before a step that has another cap; in a thread, as a sweep."""

    async def drive() -> Shown:
        look = {"text": "Looking.", "tool_calls": [{"name": "ls", "arguments": {"path": "src"}}], "repeat": "forever"}
        agent = bl.Agent("walker", max_steps=12, doom_loop=5, policy="boocode")
        shown = bl.Live(agent, "Look around.", model=bl.ScriptedModel([look]), paused=True)
        for number in (1, 2, 3):
            await make_step(shown, number)
        shown.set_limits(max_steps=9)
        shown.send("Look elsewhere.")
        picture = ShownLive(shown)
        shown.stop()
        await shown.wait()
        return picture

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, drive()).result()


EXAMPLES: Final[dict[str, Callable[[], Shown]]] = {
    "Replay": lambda: bl.Replay(failing()),
    "CapLab": caplab,
    "Heatmap": heatmap,
    "Compare": compare,
    "SweepView": sweep_view,
    "WatchView": watch_view,
    "Labeler": labeler,
    "Live": live,
    "AgentEditor": lambda: bl.AgentEditor(data_path("agents") / "AGENTS.md"),
}


@cache
def example(name: str) -> Shown:
    """An example, made once."""
    return EXAMPLES[name]()


@cache
def page_with(name: str) -> str:
    """The page of an example, made once."""
    return example(name).to_html()
