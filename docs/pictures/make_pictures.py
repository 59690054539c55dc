"""Makes the pictures of the README: plots of the atlas and of the simulated recording, and widgets in a real Chromium.

Usage: python -m docs.pictures.make_pictures [FOLDER]
"""  # noqa: INP001 - a script beside its pictures

from __future__ import annotations

import asyncio
import functools
import io
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd
from matplotlib.figure import Figure
from PIL import Image
from playwright.sync_api import Browser, FloatRect, Page

import boolab as bl
from benchmarks.study.length_ratio_plot import plot_length_ratio
from benchmarks.study.length_ratios import length_ratio
from boolab.cli.main import main as boolab
from boolab.io.resources import checkout, data_path
from boolab.limits.table import AGENT_LIMITS
from boolab.logs.outcomes.label_file import append_lines, make_header
from boolab.runtime.tools.workspace import workspace_tools
from boolab.stats.recommend.desk_session import Desk
from boolab.widgets._base.standalone_html import PagePart
from boolab.widgets._base.widget import Shown
from tests.browser.chromium import HOW_TO_GET_IT, program, started
from tests.browser.examples import ShownLive, make_step

POLLS: Final = ("wait_for_build",)
TASK: Final = "Find out how this program decides when to stop."
WIDTH: Final = 1080
HEIGHT: Final = 800
SCALE: Final = 2
COLOURS: Final = 256
"""Widgets have few colours: with these no edge of a letter looks different, and a file is a third as large."""
MARGIN: Final = 16


class Picture(NamedTuple):
    """A widget to be seen: its file, the widget, what is done to its page first, the theme, and pixels of its top."""

    name: str
    widget: Shown
    prepare: Callable[[Page], object] | None = None
    theme: str = "light"
    height: int | None = None
    width: int = WIDTH


def plots(folder: Path, runs: Sequence[bl.Run]) -> None:
    """Draw the caps of the tutorial, for a small model's runs, and a long run of the simulated agent."""
    local = bl.load_dataset("atlas/local-fix")
    found = bl.recommend(local, keep=0.8)
    table = bl.counterfactual(local, grid={"max_steps": range(1, 21)}, aggregate=True)
    figure = Figure(figsize=(9, 4), layout="constrained")
    bl.plots.plot_caps(table, recommended=found, ax=figure.add_subplot())
    figure.savefig(folder / "caps_fix.png", dpi=150)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    bl.plots.plot_timeline(max(runs, key=lambda run: run.n_steps), ax=figure.add_subplot())
    figure.savefig(folder / "stuck_run.png", dpi=150)


def stop_reasons_by_setting(folder: Path) -> None:
    """Draw the stop reasons of the shipped agents on the shipped scripts, under each limit by itself."""
    agents = [agent for agent in bl.load_agents(data_path("agents")).values() if agent.max_steps != 0]
    paths = sorted((data_path("datasets") / "scripts").glob("*.yaml"))
    scripts = {path.stem: bl.ScriptedModel.load(path) for path in paths}
    tools = [replace(tool, function=functools.cache(tool.function)) for tool in workspace_tools(checkout()).values()]
    limits = [("max_steps", None), ("max_steps", 10), ("max_steps", 3), ("tool_budget", 20), ("tool_budget", 3),
              ("doom_loop", 5), ("doom_loop", 3), ("doom_loop", 2)]  # fmt: skip
    frames = []
    for name, value in limits:
        grid = {"policy": ["boocode"]} | {axis: [value if axis == name else None] for axis in AGENT_LIMITS}
        runs = asyncio.run(bl.sweep(agents, TASK, scripts, grid=grid, tools=tools, progress=False))
        frames.append(bl.runs_df(runs).assign(limit="no limit" if value is None else f"{name} {value}"))
    figure = Figure(figsize=(9, 5), layout="constrained")
    bl.plots.plot_stop_reasons(pd.concat(frames, ignore_index=True), by="limit", ax=figure.add_subplot())
    figure.savefig(folder / "stop_reasons_by_setting.png", dpi=150)


def plots_of_the_atlas(folder: Path) -> None:
    """Draw the plots of the README and of docs/howto/compare_rules.md."""
    atlas = bl.load_dataset("atlas")
    coding = [run for run in atlas if run.settings["set"] == "swebench-verified"]
    rules = {bl.max_steps: range(1, 130), bl.doom_loop: range(2, 9), bl.cycle: [(2, 2), (2, 3), (3, 2)]}
    drawn = {
        "frontier.png": bl.plots.plot_frontier(bl.stats.frontier(coding, rules)),
        "length_ratio.png": plot_length_ratio(length_ratio(atlas, by="set")),
    }
    for name, ax in drawn.items():
        figure = ax.get_figure(root=True)
        if figure is not None:
            figure.savefig(folder / name, dpi=120)


class LiveDesk(Shown):
    """The desk with a question, as it is where a kernel runs: a page of it has the state alone."""

    def __init__(self, runs: Sequence[bl.Run], folder: Path) -> None:
        unlabelled = [replace(run, success=None, labels=()) for run in runs]
        path, values = folder / "boolab-labels.jsonl", {"max_steps": [70, 55, 40]}
        question = Desk(unlabelled, path, values, pi=0.25).question
        append_lines(path, [{**make_header("tests pass and I would merge it", question), "seed": "7"}])
        self._desk = bl.Labeler(unlabelled, labels=path, who="ann")
        success = {run.run_id: run.success for run in runs}
        for _ in range(14):
            if self._desk.question is not None:
                self._desk.answer("s" if success[self._desk.question.run.run_id] else "f")

    def _title(self) -> str:
        return "Labeler"

    def _text(self) -> str:
        return ""

    def _parts(self) -> list[PagePart]:
        parts = [PagePart("labeler", self._desk._live_data())]  # noqa: SLF001 - what a kernel sends
        return parts if self._desk.replay is None else [*parts, *self._desk.replay._parts()]  # noqa: SLF001 - the same


def widgets(runs: Sequence[bl.Run]) -> list[Picture]:
    """The widgets, each with something to tell."""
    by_id = {run.run_id: run for run in runs}
    replay = bl.Replay(by_id["coder-044"], step=38, policies=["boocode", "openhands", "gemini_cli", "claude_code"])
    lab = bl.CapLab(runs, exempt=POLLS)
    lab.setting = {"max_steps": 18, "doom_loop": 5}
    grid = {"max_steps": range(8, 65, 8), "doom_loop": range(2, 9)}
    table = bl.counterfactual(runs, grid=grid, exempt=POLLS, aggregate=True)
    script = data_path("datasets") / "scripts" / "polling.yaml"
    view = bl.SweepView()
    asyncio.run(sweep(view))
    return [
        Picture("replay.png", replay),
        Picture("replay_dark.png", replay, theme="dark"),
        Picture("caplab.png", lab, height=887),
        Picture("heatmap.png", bl.Heatmap(table, runs, exempt=POLLS), choose_a_cell, height=730),
        Picture("compare.png", bl.Compare("boocode", "claude_code", script=script)),
        Picture("sweep.png", view, choose_a_setting),
        Picture("labeler.png", labeler(runs), height=740),
        *live(),
    ]


def labeler(runs: Sequence[bl.Run]) -> LiveDesk:
    """A desk in the middle of its questions."""
    with tempfile.TemporaryDirectory() as folder:
        return LiveDesk(runs, Path(folder))


NARROW: Final = 420


def call(name: str, **arguments: str) -> list[dict[str, Any]]:
    """The calls of a step of the live picture."""
    return [{"name": name, "arguments": arguments}]


LIVE: Final[list[Any]] = [
    {
        "text": "I look for the place where the threshold is compared.",
        "tool_calls": call("search_text", pattern="doom_loop", path="src"),
        "latency_ms": 1200,
    },
    {"tool_calls": call("read_file", path="src/limits.py"), "latency_ms": 900},
    {
        "text": "The comparison is off by one: the third equal call must stop the run, not the fourth.",
        "tool_calls": call(
            "edit_file",
            path="src/limits.py",
            old_string="    if streak > threshold:\n",
            new_string="    if streak >= threshold:\n",
        ),
        "latency_ms": 2100,
    },
    {"tool_calls": call("run_tests", path="tests/test_limits.py"), "latency_ms": 700, "repeat": 3},
]
"""What the agent of the live picture does: it gets stuck on a test that fails for another reason."""
RESULTS: Final = {
    "search_text": {"text": "src/limits.py:14: def stop_reason(streak, threshold):  # doom_loop", "latency_ms": 120},
    "read_file": {
        "text": "def stop_reason(streak, threshold):\n    if streak > threshold:\n        return 'doom_loop'\n"
    },
    "edit_file": {"text": "src/limits.py was changed."},
    "run_tests": {
        "error": "FAILED test_limits.py::test_budget_counts_each_call\nE   assert 4 == 5\n1 failed, 11 passed",
        "latency_ms": 3400,
    },
}
MESSAGE_BEFORE: Final = 5
"""The step of the live picture before which the user's message comes."""


def live() -> list[Picture]:
    """A run that repeats itself, before its doom-loop threshold stops it: light and dark, wide and narrow."""
    usage = [
        {"input_tokens": 1800 + 320 * n, "output_tokens": 60, "cost_usd": 0.0063 + 0.001 * n} for n in range(len(LIVE))
    ]
    items = [{**item, "usage": each} for item, each in zip(LIVE, usage, strict=True)]
    task = "Fix the doom-loop threshold: it stops one call too late."

    async def drive() -> ShownLive:
        agent = bl.Agent("fixer", max_steps=14, tool_budget=20, doom_loop=4)
        shown = bl.Live(agent, task, model=bl.ScriptedModel(items, tools=RESULTS), paused=True)
        for number in range(1, 7):
            if number == MESSAGE_BEFORE:
                shown.send("The budget test is wrong on main too: leave it.")
            await make_step(shown, number)
        shown.set_limits(max_steps=10)
        now = {"step": 7, "what": "tool", "text": "run_tests tests/test_limits.py"}
        picture = ShownLive(shown, state="running", now=now)
        shown.stop()
        await shown.wait()
        return picture

    shown = asyncio.run(drive())
    return [
        Picture(f"live{name}{'' if theme == 'light' else '_dark'}.png", shown, still, theme, width=width)
        for name, width in (("", WIDTH), ("_narrow", NARROW))
        for theme in ("light", "dark")
    ]


def still(page: Page) -> None:
    """The end of its last card, with nothing that blinks."""
    page.add_style_tag(content=".boolab * { animation: none !important; }")


async def sweep(view: bl.SweepView) -> None:
    """Let the view see a sweep."""
    agent, model = bl.Agent("coder", tool_budget=None), bl.SimulatedModel.load("coder")
    grid = {"max_steps": [10, 20, 40, None], "doom_loop": [3, None]}
    await bl.sweep(agent, [f"task {number}" for number in range(20)], model, grid=grid, repeats=3, progress=view)


def choose_a_cell(page: Page) -> None:
    """List the runs of a cell, and point at nothing."""
    page.locator('.cell[data-x="48"][data-y="3"]').click()
    page.locator(".run-row").first.wait_for()
    page.mouse.move(0, 0)


def choose_a_setting(page: Page) -> None:
    """List the runs of a setting, and point at nothing."""
    page.locator("tr.setting").last.click()
    page.mouse.move(0, 0)


def take(browser: Browser, picture: Picture, folder: Path) -> None:
    """Open the widget's page, and keep what is to be seen."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "page.html"
        picture.widget.to_html(path)
        width = picture.width
        page = browser.new_page(viewport={"width": width, "height": HEIGHT}, device_scale_factor=SCALE)
        page.goto(f"{path.as_uri()}#{picture.theme}")
        page.locator("#views .boolab").first.wait_for()
        if picture.prepare is not None:
            picture.prepare(page)
        page.wait_for_timeout(300)  # for what is drawn in the next frames
        whole: int = page.evaluate("document.querySelector('#views').getBoundingClientRect().bottom")
        height = (picture.height or whole) + MARGIN
        if (
            height <= HEIGHT + MARGIN
        ):  # a screenshot of a longer page resizes the window, and its panes lose their place
            image = Image.open(io.BytesIO(page.screenshot(clip=FloatRect(x=0, y=0, width=width, height=height))))
        else:
            clip = FloatRect(x=0, y=0, width=width, height=height)
            image = Image.open(io.BytesIO(page.screenshot(clip=clip, full_page=True)))
        page.close()
    save(image, folder / picture.name)


def save(image: Image.Image, path: Path) -> None:
    """Write a screenshot with few colours."""
    few = image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def report(browser: Browser, folder: Path) -> None:
    """The first screen of the report on the atlas."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "report.html"
        boolab(["report", "atlas", "-o", str(path)])
        page = browser.new_page(viewport={"width": 1280, "height": 800}, device_scale_factor=SCALE)
        page.goto(path.as_uri())
        page.locator("table.summary").wait_for()
        save(Image.open(io.BytesIO(page.screenshot())), folder / "report.png")
        page.close()


def main(folder: Path) -> None:
    """Make all of them."""
    if program() is None:
        sys.exit(HOW_TO_GET_IT)
    runs = bl.load_runs(data_path("datasets") / "runs")
    plots(folder, runs)
    stop_reasons_by_setting(folder)
    plots_of_the_atlas(folder)
    pictures = widgets(runs)
    with started() as browser:
        for picture in pictures:
            take(browser, picture, folder)
        report(browser, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
