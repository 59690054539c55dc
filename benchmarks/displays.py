"""How long the first look takes on real logs: each widget in a real JupyterLab, and a report on the whole atlas.

A widget's time is that from the command that runs its cell to the second frame after it is drawn, kernel and all. It
stands beside a bare slider in the same notebook, which is the least that a widget can take.

    python -m benchmarks.displays [PART ...] [--tries N] [--write]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import boolab as bl
from benchmarks.results import Row, argument_parser, publish, ratio
from benchmarks.widgets import HEIGHT
from boolab.logs.shipped import atlas_sets
from tests.browser.chromium import HOW_TO_GET_IT, program, started
from tests.browser.lab import lab_in

SETUP: Final = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parent.parent)!r})
import asyncio, shutil
import boolab as bl
from boolab.io.resources import data_path
from ipywidgets import IntSlider
runs = bl.load_dataset("atlas/swebench-verified")
longest = max(runs, key=lambda run: run.n_steps)
second = max((run for run in runs if run is not longest), key=lambda run: run.n_steps)
grid = {{"max_steps": range(5, 65, 5), "doom_loop": range(2, 11)}}
cells = {{"max_steps": [10, 20, 40, None], "doom_loop": [3, 5, None]}}
file = shutil.copy(data_path("agents") / "AGENTS.md", "AGENTS.md")
async def swept():
    view = bl.SweepView()
    agent, model = bl.Agent("coder", tool_budget=None), bl.SimulatedModel.load("coder")
    await bl.sweep(agent, ["one", "two"], model, grid=cells, repeats=5, progress=view)
    return view
"""
WIDGETS: Final[dict[str, tuple[str, str, str]]] = {
    "a bare slider": ("IntSlider(40)", ".noUi-handle", "the least"),
    "Replay": (
        "bl.Replay(longest)",
        ".boolab-replay .step-number",
        "the longest run, 85 steps; the first import of widgets",
    ),
    "CapLab": ("bl.CapLab(runs)", ".boolab-caplab .figure", "499 runs"),
    "Heatmap": (
        "bl.Heatmap(bl.counterfactual(runs, grid=grid, aggregate=True, progress=False), runs)",
        ".boolab-heatmap .cell",
        "108 cells, 499 runs; with the evaluation of the grid",
    ),
    "Compare": ("bl.Compare(longest, second)", ".boolab-compare table", "the two longest runs"),
    "SweepView": ("await swept()", ".boolab-sweep_view table", "a simulated sweep, 12 settings; with the sweep"),
    "AgentEditor": ("bl.AgentEditor(file)", ".boolab-agent_editor .results", "agents/AGENTS.md"),
}
"""Each widget's expression, what is there once it is drawn, and what it shows."""
SHOWN: Final = """async ([number, selector]) => {
  const app = window.jupyterapp;
  const content = app.shell.currentWidget.content;
  await content.scrollToItem(number, "start");
  content.activeCellIndex = number;
  content.deselectAll();
  const frame = () => new Promise(requestAnimationFrame);
  const output = () => document.querySelector(
    `.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell[data-windowed-list-index='${number}'] .jp-Cell-outputArea`);
  const drawn = () => [...(output()?.querySelectorAll(selector) ?? [])].some((one) => one.getClientRects().length);
  await app.commands.execute("notebook:clear-cell-output");
  while (drawn()) await frame();
  const began = performance.now();
  const ended = app.commands.execute("notebook:run-cell");
  while (!drawn()) {
    if (performance.now() - began > 60_000) throw new Error(`${selector}: ${output()?.textContent.slice(-2000)}`);
    await frame();
  }
  await frame();
  await frame();
  const took = performance.now() - began;
  await ended;
  return took;
}"""
"""Clears a cell, runs it, and gives the milliseconds until what it shows is drawn."""


def cell_of(name: str) -> str:
    """A cell that shows a widget, and notes how long Python took to make it."""
    return f"began = time.perf_counter()\nshown = {WIDGETS[name][0]}\nmade = time.perf_counter() - began\nshown"


def measure_lab(tries: int) -> Iterator[Row]:
    """Each widget in JupyterLab: the first display, and the next ones."""
    least = 0.0
    with (
        tempfile.TemporaryDirectory(prefix="boolab-displays-") as folder,
        started() as browser,
        lab_in(browser, Path(folder)) as lab,
    ):
        lab.page.set_viewport_size({"width": 1280, "height": HEIGHT})
        lab.open(lab.write("first.ipynb", ["import time\n" + SETUP, *map(cell_of, WIDGETS)]))
        lab.page.evaluate("async () => { await window.jupyterapp.commands.execute('notebook:run-cell'); }")
        for number, (name, (_, selector, what)) in enumerate(WIDGETS.items(), start=1):
            first = lab.page.evaluate(SHOWN, [number, selector])
            made = 1000 * lab.ask("made")
            again = statistics.median(lab.page.evaluate(SHOWN, [number, selector]) for _ in range(tries))
            least = least or again
            detail = f"{what}; made in {made:.0f} ms; again {again:.0f} ms, {again / least:.1f} times a bare slider"
            yield Row(f"{name}, first display in JupyterLab", first, "ms", detail=detail)


def measure_report(tries: int) -> Iterator[Row]:
    """The report on the whole atlas: to make beside `boolab whatif` on the same logs, and to open."""
    logs = [str(one) for one in atlas_sets()]
    many = sum(len(bl.load_dataset(name)) for name in logs)
    with tempfile.TemporaryDirectory(prefix="boolab-displays-") as folder:
        path = Path(folder) / "report.html"
        took = []
        for command in (["whatif", *logs], ["report", *logs, "-o", str(path)]):
            before = time.perf_counter()
            subprocess.run([sys.executable, "-m", "boolab", *command], check=True, capture_output=True)
            took.append(time.perf_counter() - before)
        bare, full = took
        what = f"boolab report of {many:,} runs ({path.stat().st_size / 1e6:.1f} MB) / boolab whatif"
        yield ratio(what, [(full, bare)], "s")
        opened = []
        for _ in range(tries):
            with started() as browser:
                page = browser.new_page(viewport={"width": 1280, "height": HEIGHT})
                page.goto(path.as_uri(), wait_until="commit")
                page.locator("h1").first.wait_for()
                page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
                opened.append(page.evaluate("() => performance.now()") / 1000)
        detail = f"median of {tries}; worst {max(opened):.2f} s; a fresh browser each time"
        yield Row("page requested, to its answer", statistics.median(opened), "s", at_most=2, detail=detail)


def main() -> None:
    """Measure the parts that were asked for."""
    parser = argument_parser(__doc__, ("lab", "report"))
    parser.add_argument("--tries", type=int, default=5, metavar="N", help="displays after the first (default: 5)")
    options = parser.parse_args()
    if program() is None:
        sys.exit(HOW_TO_GET_IT)
    publish(__doc__, {"lab": measure_lab(options.tries), "report": measure_report(options.tries)}, options)


if __name__ == "__main__":
    main()
