"""What widgets cost: to make, to open, to scrub, to move a slider of, and to keep.

Pages are opened in headless Chromium, as files. CapLab runs in a real JupyterLab with a real kernel. A browser's frames
are those in which its page was asked to draw; while a page is at work for longer than a frame, there are fewer.

    python -m benchmarks.widgets [PART ...] [--quick] [--write]
"""

from __future__ import annotations

import asyncio
import gzip
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

from playwright.sync_api import Locator, Page

import boolab as bl
from benchmarks.results import Row, argument_parser, in_folders, publish, ratio
from boolab.core.codec import run_fields
from boolab.core.types import Response, ToolCall, Usage
from boolab.io.resources import data_path
from boolab.logs.shipped import atlas_sets
from boolab.runtime.models.base import Emit, Request
from boolab.widgets._base.widget import Shown, View
from tests.browser.chromium import HOW_TO_GET_IT, program, started
from tests.browser.lab import lab_in

WIDTH, HEIGHT = 1080, 800


# --- What is shown ----------------------------------------------------------------------------------------------------

CODE: Final = """
self return value error path config client session retry timeout result index token parse load render def class import
from None True False async await with open as for in if else raise yield lambda test assert data line name
"""
WORDS: Final = CODE.split()
TOOLS: Final = ("search_text", "read_file", "edit_file", "run_tests", "list_files")


def listing(random: Random, size: int) -> str:
    """Something like source code, of about so many characters."""
    lines, length = [], 0
    while length < size:
        line = " " * (4 * random.randrange(4)) + " ".join(random.choices(WORDS, k=random.randint(2, 11)))
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)


class Prepared:
    """A model that says what was prepared."""

    name = "prepared"
    virtual = True
    summarises = False

    def __init__(self, responses: Sequence[Response]) -> None:
        self.responses = responses

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:  # noqa: ARG002 - nobody listens
        await request.clock.sleep(0.4 + request.index % 7 / 2)
        return self.responses[request.index]


def long_run(steps: int) -> bl.Run:
    """A run of so many steps: a sentence and a call in each, about 1 kB of result, some repeats and some failures."""
    random = Random(8)  # noqa: S311 - no secrets here

    def look(path: str, line: int) -> str:
        """Look, or fail to."""
        if random.random() < 0.05:
            raise OSError(f"{path}:{line}: {listing(random, 200)}")
        return listing(random, random.randint(400, 1600))

    responses: list[Response] = []
    while len(responses) < steps - 1:
        name = random.choice(TOOLS)
        arguments = {"path": f"src/{random.choice(WORDS)}/{random.choice(WORDS)}.py", "line": random.randrange(900)}
        for _ in range(random.randint(3, 6) if random.random() < 0.03 else 1):
            said = " ".join(random.choices(WORDS, k=random.randint(5, 30))).capitalize() + "."
            call = ToolCall(f"call_{len(responses)}", name, json.dumps(arguments))
            responses.append(Response(said, (call,), "tool_calls", Usage(9_000, 150, 8_000, None, 2_000)))
    model = Prepared([*responses[: steps - 1], Response("Done.", (), "stop", Usage(9_000, 5, 8_000, None, 1_800))])
    tools = tuple(bl.tool(name=name)(look) for name in TOOLS)
    agent = bl.Agent("worker", tools=tools, policy=bl.Policy(name="free").vary(cap={"ceiling": None}))
    run = bl.run_sync(agent, "Move the whole package to asyncio", model=model)
    assert run.n_steps == steps, run.stop
    return run


# --- In a browser -----------------------------------------------------------------------------------------------------

OPENED: Final = """
(() => {
  const drawn = (canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(new Uint32Array(data.buffer)).size > 1;
  };
  const look = () => {
    const line = document.querySelector(".timeline");
    const step = document.querySelector(".step-number")?.textContent;
    const canvases = [...(line?.querySelectorAll("canvas") ?? [])].filter((one) => one.width && one.height);
    if (!step || !line.clientWidth || !canvases.every(drawn)) return requestAnimationFrame(look);
    requestAnimationFrame(() => requestAnimationFrame(() => { window.openedAfter = performance.now(); }));
  };
  requestAnimationFrame(look);
})();
"""
"""Notes when the timeline, canvases and all, and the first step have been on the screen: ms from the navigation."""
COUNTED: Final = """() => {
  const seen = { frames: 0, steps: new Set(), longest: 0, began: performance.now(), last: performance.now() };
  const frame = (now) => {
    seen.frames += 1;
    seen.longest = Math.max(seen.longest, now - seen.last);
    seen.last = now;
    seen.steps.add(document.querySelector(".step-number").textContent);
    if (!seen.ended) requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  window.counted = () => {
    seen.ended = true;
    const seconds = (performance.now() - seen.began) / 1000;
    return { seconds, frames: seen.frames, steps: seen.steps.size, longest: seen.longest };
  };
}"""
"""Counts frames, and the different steps that the panel shows in them."""


SCROLLED: Final = """async (seconds) => {
  const pane = document.querySelector(".transcript");
  const far = pane.scrollHeight - pane.clientHeight;
  const seen = { frames: 0, longest: 0, steps: new Set() };
  const began = performance.now();
  let last = began;
  await new Promise((done) => {
    const frame = (now) => {
      seen.frames += 1;
      seen.longest = Math.max(seen.longest, now - last);
      last = now;
      for (const row of pane.querySelectorAll("[data-step]")) seen.steps.add(row.dataset.step);
      const share = Math.min(1, (performance.now() - began) / (1000 * seconds));
      pane.scrollTop = share * far;
      if (share < 1) requestAnimationFrame(frame);
      else done();
    };
    requestAnimationFrame(frame);
  });
  return { ...seen, seconds: (performance.now() - began) / 1000, steps: seen.steps.size };
}"""
"""Scrolls from the first step to the last in so many seconds, and counts frames and the steps drawn in them."""


@contextmanager
def opened(path: Path) -> Iterator[Page]:
    """A page in a browser of its own, once it has been drawn."""
    with started() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.add_init_script(OPENED)
        page.goto(path.as_uri())
        while page.evaluate("window.openedAfter ?? null") is None:
            page.wait_for_timeout(20)
        yield page


def scrub(page: Page, line: Locator, moves: int) -> dict[str, float]:
    """Drag over the whole timeline and back."""
    box = line.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 1, y)
    page.mouse.down()
    page.evaluate(COUNTED)
    page.mouse.move(box["x"] + box["width"] - 2, y, steps=moves)
    page.mouse.move(box["x"] + 1, y, steps=moves)
    told: dict[str, float] = page.evaluate("window.counted()")
    page.mouse.up()
    return told


def press(page: Page, line: Locator, keys: Sequence[str]) -> dict[str, float]:
    """Press keys one after the other."""
    line.focus()
    page.evaluate(COUNTED)
    for key in keys:
        page.keyboard.press(key)
    told: dict[str, float] = page.evaluate("window.counted()")
    return told


# --- The parts --------------------------------------------------------------------------------------------------------


def seconds_of(work: Callable[[], object]) -> float:
    """The seconds of CPU that some work takes."""
    before = time.process_time()
    work()
    return time.process_time() - before


def frames(what: str, told: dict[str, float]) -> Row:
    """What a scrub was like."""
    detail = f"{told['steps']:,.0f} steps shown in {told['seconds']:.1f} s; longest frame {told['longest']:.0f} ms"
    return Row(what, told["frames"] / told["seconds"], "frames a second", at_least=30, detail=detail)


def measure_replay(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Replay of a long run: to make, to open, to scrub."""
    steps, times = (1_000, 3) if quick else (10_000, 7)
    run = long_run(steps)
    fields = run_fields(run)
    text = json.dumps(fields)
    replay = bl.Replay(run)
    sent_to_views(replay)
    pairs = [
        (seconds_of(lambda: sent_to_views(bl.Replay(run))), seconds_of(lambda: json.dumps(fields)))
        for _ in range(times)
    ]
    what = f"Replay of {steps:,} steps, to make / json.dumps of the run, {len(text) / 1e6:.1f} MB"
    yield ratio(what, pairs, "s of CPU")
    path = folder / "replay.html"
    before = time.perf_counter()
    size = replay.to_html(path).stat().st_size
    yield Row("Replay as a page", time.perf_counter() - before, "s", detail=f"{size / 1e6:.1f} MB")
    took = []
    for _ in range(times):
        with opened(path) as page:
            took.append(page.evaluate("window.openedAfter"))
    detail = f"median of {times}; worst {max(took) / 1000:.2f} s; a fresh browser each time"
    yield Row(
        "page requested, to timeline and first step", statistics.median(took) / 1000, "s", at_most=2, detail=detail
    )
    with opened(path) as page:
        line = page.locator(".timeline").first
        yield frames("scrolling through all steps in 20 s", page.evaluate(SCROLLED, 20))
        yield frames("scrubbing there and back with the pointer", scrub(page, line, 100 if quick else 400))
        yield frames("scrubbing with the arrow keys", press(page, line, ["ArrowRight"] * (100 if quick else 500)))
        yield frames("scrubbing by tens", press(page, line, ["Shift+ArrowLeft"] * (20 if quick else 200)))


KEYED: Final = """([root, changing]) => {
  const numbers = () => document.querySelector(changing).textContent;
  const took = [];
  let shown = numbers(), pressed = null;
  addEventListener("keydown", () => { pressed = performance.now(); }, true);
  new MutationObserver(() => {
    if (pressed === null || numbers() === shown) return;
    const began = pressed;
    shown = numbers();
    pressed = null;
    requestAnimationFrame(() => took.push(performance.now() - began));
  }).observe(document.querySelector(root), { childList: true, subtree: true, characterData: true });
  window.keyed = took;
}"""
"""Notes for each key how long it took until the numbers had changed and the next frame began, in ms."""
CAPS: Final = """
import boolab as bl

lab = bl.CapLab(bl.load_runs("runs.parquet"), objective="steps")
lab.setting = {"max_steps": 40}
lab
"""
BARE: Final = """
from ipywidgets import HTML, IntSlider, VBox

slider, told = IntSlider(40), HTML("40").add_class("bare-told")
slider.add_class("bare-slider").observe(lambda change: setattr(told, "value", str(change["new"])), "value")
VBox([slider, told]).add_class("bare")
"""
"""The least that a kernel can do about a slider."""


def simulated_runs(many: int) -> Sequence[bl.Run]:
    """Runs of a simulated agent without limits, one for each task."""
    agent = bl.Agent("coder", max_steps=None, tool_budget=None, doom_loop=None)
    tasks = [f"task {number}" for number in range(many)]
    runs: Sequence[bl.Run] = asyncio.run(bl.sweep(agent, tasks, bl.SimulatedModel.load("coder"), progress=False))
    return runs


def measure_caplab(folder: Path, *, quick: bool) -> Iterator[Row]:
    """CapLab: from a key on its slider to the changed numbers, with a kernel in between."""
    many, presses = (1_000, 10) if quick else (10_000, 40)
    runs = simulated_runs(many)
    steps = sum(run.n_steps for run in runs)
    before = time.process_time()
    lab = bl.CapLab(runs, objective="steps")
    yield Row(f"CapLab of {many:,} runs, to make", time.process_time() - before, "s of CPU", detail=f"{steps:,} steps")
    lab.setting = {"max_steps": 40}
    spent = []
    for slider in (*range(presses), *range(presses, 0, -1)):
        lab.setting = {"max_steps": 40 + slider % 2}
        before = time.perf_counter()
        lab.setting = {"max_steps": 39 - slider % 20}
        spent.append(1000 * (time.perf_counter() - before))
    detail = f"worst {max(spent):.1f} ms"
    yield Row("a move of its setting, in Python alone", statistics.median(spent), "ms", detail=detail)
    with started() as browser, lab_in(browser, folder) as jupyter:
        bl.save_runs(runs, jupyter.folder / "runs.parquet")
        jupyter.open(jupyter.write("caps.ipynb", [BARE, CAPS]))
        jupyter.run_all()
        jupyter.page.wait_for_timeout(8_000)  # the search for a recommendation has the kernel to itself, once
        bare = keyed(
            jupyter.page, ".bare-slider .noUi-handle", ".bare", ".bare .bare-told .widget-html-content", presses
        )
        took = keyed(jupyter.page, ".boolab-cap input", ".boolab-caplab", ".boolab-caplab .numbers", presses)
    for what, values, at_most in (
        ("a key on a bare slider, to its number by a kernel", bare, None),
        ("a key on CapLab's slider, to the changed numbers", took, 100),
    ):
        low, _, high = statistics.quantiles(values, n=4)
        detail = f"{len(values)} keys; quartiles {low:.0f} and {high:.0f} ms; worst {max(values):.0f} ms; in JupyterLab"
        yield Row(what, statistics.median(values), "ms", at_most=at_most, detail=detail)


LIVE: Final = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parent.parent)!r})
import asyncio, time
import boolab as bl
from IPython.display import display

def ls(path: str = ".") -> str:
    return "a.py " * 40

looks = [{{"text": "Looking further.", "tool_calls": [{{"name": "ls", "arguments": {{"path": f"src/{{n}}"}}}}],
           "usage": {{"input_tokens": 900 + n, "output_tokens": 20, "cost_usd": 0.001}}}} for n in range(1_000)]
agent = bl.Agent("walker", max_steps=None, tool_budget=None, doom_loop=None, policy="opencode_v1")

async def lags(until):
    late = []
    while not until():
        before = time.perf_counter()
        await asyncio.sleep(0.002)
        late.append(1000 * (time.perf_counter() - before) - 2)
    return late

async def idle(seconds):
    end = time.perf_counter() + seconds
    return await lags(lambda: time.perf_counter() > end)

async def shown(steps):
    model = bl.ScriptedModel([*looks[: steps - 1], "Done."])
    live = bl.Live(agent, "Look around.", model=model, tools=[ls], paused=True)
    display(live)
    await asyncio.sleep(1)  # its first drawing is that of any widget
    live.play()
    began = time.perf_counter()
    late = await lags(lambda: live._is_over)
    took = time.perf_counter() - began
    return [live.run.n_steps, took, *late, *await lags(lambda: live._drawn is not None and live.state == "ended")]
"""
LONG_TASKS: Final = """() => {
  window.longTasks = [];
  new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((one) => one.duration)))
    .observe({ type: "longtask" });
}"""


def measure_live(folder: Path, *, quick: bool) -> Iterator[Row]:
    """Live: how late the kernel's event loop is while a run of quick steps is shown, and what its page takes."""
    with started() as browser, lab_in(browser, folder) as jupyter:
        jupyter.open(jupyter.write("live.ipynb", [LIVE, "bare = await idle(2)", "short = await shown(200)",
                                                  f"long = await shown({300 if quick else 1_000})"]))  # fmt: skip
        jupyter.page.evaluate(LONG_TASKS)
        jupyter.run_all()
        jupyter.page.wait_for_timeout(1_000)  # the last drawing
        bare, short, long = jupyter.ask("[bare, short, long]")
        tasks = jupyter.page.evaluate("window.longTasks")
        rows = jupyter.page.locator(".boolab-live .step-row").count()
    yield Row("the idle kernel's event loop, late by", statistics.median(bare), "ms", detail=_worst(bare))
    for steps, took, *late in (short, long):
        what = f"the same while Live shows {steps:,} quick steps"
        detail = f"{_worst(late)}; the run took {took:.2f} s; in JupyterLab"
        yield Row(what, statistics.median(late), "ms", at_most=50, detail=detail)
    detail = f"{len(tasks)} of more than 50 ms, opening both views included; {rows} rows of steps in the page"
    yield Row("the longest task of the page meanwhile", max(tasks, default=0.0), "ms", detail=detail)


def _worst(late: Sequence[float]) -> str:
    """The tail of some delays."""
    return f"99% at most {statistics.quantiles(late, n=100)[-1]:.0f} ms, worst {max(late):.0f} ms"


def atlas_runs(many: int) -> list[bl.Run]:
    """So many runs of the atlas, as if of one agent; once there are no more, the same with other ids and tasks."""
    every = [run for name in atlas_sets() for run in bl.load_dataset(name)]
    return [
        replace(run, run_id=f"{run.run_id} {round_}", task=f"{run.task} {round_}", agent="one")
        for round_ in range(-(-many // len(every)))
        for run in every
    ][:many]


def measure_caplab_page(folder: Path, *, quick: bool) -> Iterator[Row]:
    """CapLab's page of many recorded runs: to make, to open, and a key on its slider."""
    many, presses, times = (2_000, 6, 3) if quick else (22_000, 10, 7)
    runs = atlas_runs(many)
    before = time.perf_counter()
    lab = bl.CapLab(runs, objective="steps")
    steps = sum(run.n_steps for run in runs)
    what = f"CapLab of {many:,} recorded runs, to make"
    yield Row(what, time.perf_counter() - before, "s", detail=f"{steps:,} steps")
    lab.setting = {"max_steps": 10}  # where each key changes the numbers
    before = time.perf_counter()
    path = folder / "caplab.html"
    size = lab.to_html(path).stat().st_size
    detail = f"{size / 1e6:.2f} MB; with the search for a recommendation"
    yield Row("CapLab as a page", time.perf_counter() - before, "s", detail=detail)
    took = []
    for _ in range(times):
        with started() as browser:
            page = browser.new_page(viewport={"width": 1280, "height": HEIGHT})
            page.goto(path.as_uri())
            page.locator(".boolab-caplab .figure").wait_for()
            took.append(page.evaluate("() => performance.now()"))
            if len(took) == times:
                keys = keyed(page, ".boolab-cap input", ".boolab-caplab", ".boolab-caplab .numbers", presses)
    detail = f"median of {times}; worst {max(took) / 1000:.2f} s; a fresh browser each time"
    yield Row("page requested, to figure and numbers", statistics.median(took) / 1000, "s", at_most=2, detail=detail)
    detail = f"{presses} keys; worst {max(keys):.0f} ms"
    what = "a key on its slider, to the changed numbers"
    yield Row(what, statistics.median(keys), "ms", at_most=100, detail=detail)


def keyed(page: Page, slider: str, root: str, changing: str, presses: int) -> list[float]:
    """Press an arrow key on a slider, each time when the last change has been seen: milliseconds for each."""
    handle = page.locator(slider).first
    handle.scroll_into_view_if_needed()
    page.evaluate(KEYED, [root, changing])
    handle.focus()
    for number in range(presses):
        page.keyboard.press("ArrowLeft" if number < presses // 2 else "ArrowRight")
        page.wait_for_function("number => window.keyed.length > number", arg=number, polling=5)
    took: list[float] = page.evaluate("window.keyed")
    return took


def measure_sizes(folder: Path, *, quick: bool) -> Iterator[Row]:
    """What each widget keeps: what a notebook sends to its view, and its page."""
    recorded = bl.load_runs(data_path("datasets") / "runs")
    longest = max(recorded, key=lambda run: run.n_steps)
    grid = {"max_steps": range(5, 65, 5), "doom_loop": range(2, 11)}
    view = bl.SweepView()
    cells = {"max_steps": [10, 20, 40, None], "doom_loop": [3, 5, None]}
    agent, model = bl.Agent("coder", tool_budget=None), bl.SimulatedModel.load("coder")
    asyncio.run(bl.sweep(agent, ["one", "two"], model, grid=cells, repeats=5, progress=view))
    file = folder / "AGENTS.md"
    file.write_text((data_path("agents") / "AGENTS.md").read_text())
    many = 1_000 if quick else 5_000
    widgets: dict[str, Shown] = {
        f"Replay, {longest.n_steps} steps": bl.Replay(longest),
        f"Replay, {many:,} steps": bl.Replay(long_run(many)),
        f"CapLab, {len(recorded)} runs": bl.CapLab(recorded),
        f"Heatmap, 108 cells, {len(recorded)} runs": bl.Heatmap(
            bl.counterfactual(recorded, grid=grid, aggregate=True), recorded
        ),
        "Compare, 50 and 11 steps": bl.Compare(*(run for run in recorded if run.run_id in ("coder-021", "coder-099"))),
        "SweepView, 12 settings": view,
        "AgentEditor, agents/AGENTS.md": bl.AgentEditor(file),
    }
    for name, widget in widgets.items():
        sent = sent_to_views(widget)
        plain = sum(len(gzip.decompress(data)) for data in sent)
        detail = f"{plain / 1000:,.0f} kB as JSON; its page {len(widget.to_html()) / 1000:,.0f} kB"
        yield Row(f"{name}: sent to the view", sum(map(len, sent)) / 1000, "kB", detail=detail)


def sent_to_views(widget: object) -> list[bytes]:
    """The data that a notebook sends to the views of a widget."""
    return [view.get_state("_data")["_data"] for view in _views(widget)]


def _views(widget: object) -> Iterator[View]:
    """The views in a widget, itself among them."""
    if isinstance(widget, View):
        yield widget
    for child in getattr(widget, "children", ()):
        yield from _views(child)


PARTS: Final[dict[str, Callable[..., Iterator[Row]]]] = {
    "replay": measure_replay,
    "caplab": measure_caplab,
    "caplab_page": measure_caplab_page,
    "live": measure_live,
    "sizes": measure_sizes,
}


def main() -> None:
    """Measure the parts that were asked for."""
    parser = argument_parser(__doc__, PARTS)
    parser.add_argument("--quick", action="store_true", help="less work, and rougher figures")
    options = parser.parse_args()
    if program() is None:
        sys.exit(HOW_TO_GET_IT)
    publish(__doc__, in_folders(PARTS, quick=options.quick), options)


if __name__ == "__main__":
    main()
