"""`bl.Live` in a real JupyterLab: its controls, an interrupt at each moment, its cell run again, a kernel that ends."""

from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab
from tests.support.project import ROOT

pytestmark = pytest.mark.slow
SETUP: Final = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import asyncio, threading
import boolab as bl
def ls(path: str = ".") -> str:
    "List."
    return "a.py"
async def waits() -> str:
    "Wait."
    await asyncio.sleep(600)
    return "late"
released = threading.Event()
def blocks() -> str:
    "Block."
    released.wait(600)
    return "late"
def calls(name, **more):
    return bl.ScriptedModel([{{"tool_calls": [{{"name": name}}], "repeat": "forever", **more}}], realtime=True)
agent = bl.Agent("walker", max_steps=40, tool_budget=None, doom_loop=None)
def live_of(model, **more):
    return bl.Live(agent, "Look around.", model=model, tools=[ls, waits, blocks], **more)
def threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("boolab live")]
"""
CELLS: Final = {
    "setup": SETUP,
    "steps": 'live = live_of(calls("ls"), paused=True)\nlive',
    "request": 'request = live_of(calls("ls", latency_ms=600_000))\nrequest',
    "tool": 'tool = live_of(calls("waits"))\ntool',
    "blocking": 'blocking = live_of(calls("blocks"))\nblocking',
    "paused": 'paused = live_of(calls("ls"), paused=True)\npaused',
    "again": 'again = live_of(calls("ls"), paused=True)\nfirst = globals().setdefault("first", again)\nagain',
    "awaited": 'awaited = live_of(calls("ls"), paused=True)\ndisplay(awaited)\nawait awaited.wait()',
}
ENDED: Final = ("Connection lost, reconnecting", "before replies were done")
"""What JupyterLab says of a kernel that ends."""
RUN_CELL: Final = """async (number) => {
  const content = window.jupyterapp.shell.currentWidget.content;
  content.activeCellIndex = number;
  content.deselectAll();
  window.jupyterapp.commands.execute("notebook:run-cell");
}"""
INTERRUPT: Final = (
    "async () => { await window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt(); }"
)
RESTART: Final = "async () => { await window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart(); }"


@pytest.fixture(scope="module")
def book(lab: Lab) -> Iterator[Lab]:
    """A notebook whose cells run one by one."""
    lab.open(lab.write("live.ipynb", [*CELLS.values()]))
    run(lab, "setup")
    yield lab
    lab.watch.seen[:] = [one for one in lab.watch.seen if not any(part in one for part in ENDED)]
    assert lab.watch.seen == []


def run(book: Lab, name: str) -> None:
    book.page.evaluate(RUN_CELL, [*CELLS].index(name))


def shown(book: Lab, name: str) -> Locator:
    """The view of a cell, once it is drawn."""
    run(book, name)
    view = book.cell([*CELLS].index(name)).locator(".boolab-live").first
    view.wait_for()
    return view


def test_controls_by_keyboard_act_on_the_run(book: Lab) -> None:
    view = shown(book, "steps")
    expect(view.locator(".state-line")).to_contain_text("Paused before its first step")
    view.locator(".pause").focus()
    view.press("s")
    expect(view.locator(".step-row")).to_have_count(1)
    expect(view.locator(".kpi.steps b")).to_have_text("1")
    cap = view.locator("[data-limit=max_steps] input[type=range]")
    cap.focus()
    for _ in range(3):
        cap.press("ArrowLeft")
    expect(view.locator("[data-limit=max_steps] .pending")).to_have_text("37 from the next step")
    view.press("s")
    expect(view.locator(".step-row")).to_have_count(2)
    book.becomes("live.limits['steps']", 37)
    expect(view.locator("[data-limit=max_steps] .reading")).to_have_text("2 of 37 steps")
    view.press("m")
    book.page.keyboard.type("Hello.")
    book.page.keyboard.press("Enter")
    book.becomes("live.data['waiting']", 1)
    field = view.locator("[data-limit=doom_loop] input[type=number]")
    field.fill("5")
    field.press("Enter")
    book.becomes("[one['wanted'] for one in live.data['limits']]", [37, None, 5])
    view.locator(".pause").click()
    expect(view.locator(".state-line")).to_contain_text("Ended: doom loop after 5 steps, by doom_loop(5, ordered)")
    book.becomes("[message.text for _, message in live.run.inputs]", ["Hello."])
    assert book.ask("[event.payload['max_steps'] for event in live.run.events if event.kind == 'limits']") == [37, 37]
    view.locator(".replay").click()
    book.cell([*CELLS].index("steps")).locator(".boolab-replay .step-number").first.wait_for()
    assert book.notebook.locator(".jp-Cell").count() == len(CELLS)  # and the notebook took none of the keys


@pytest.mark.parametrize("moment", ["request", "tool", "blocking", "paused"])
def test_interrupt_of_the_kernel_ends_the_run(moment: str, book: Lab) -> None:
    view = shown(book, moment)
    now = {
        "request": "waits for the model",
        "tool": "runs waits",
        "blocking": "runs blocks",
        "paused": "next step waits",
    }
    expect(view.locator(".now")).to_contain_text(now[moment])
    book.becomes("__import__('signal').getsignal(2).__name__ in ('default_int_handler', '_stop_all')", True)
    book.page.evaluate("() => new Promise((done) => setTimeout(done, 600))")  # a cell's own handler has gone by then
    book.page.evaluate(INTERRUPT)
    expect(view.locator(".state-line")).to_contain_text("Ended: aborted")
    assert book.ask(f"[{moment}.run.stop_reason, {moment}.run.n_steps]") == ["aborted", 0 if moment == "paused" else 1]
    book.ask(f"[released.set() if {moment == 'blocking'} else None]")
    book.becomes("threads()", [])


def test_running_the_cell_again_ends_the_first_run(book: Lab) -> None:
    shown(book, "again")
    view = shown(book, "again")
    book.becomes("[first.state, again.state, first is again]", ["ended", "paused", False])
    expect(view.locator(".state-line")).to_contain_text("Paused")
    book.ask("[again.close()]")
    book.becomes("threads()", [])


def test_interrupt_of_an_awaited_run_ends_it(book: Lab) -> None:
    view = shown(book, "awaited")
    book.page.evaluate(INTERRUPT)
    expect(view.locator(".state-line")).to_contain_text("Ended: aborted")
    book.becomes("threads()", [])


def test_view_says_that_its_kernel_has_stopped(book: Lab) -> None:
    view = shown(book, "paused")
    view.press("s")
    expect(view.locator(".step-row")).to_have_count(1)
    book.page.evaluate(RESTART)
    expect(view.locator(".state-line")).to_contain_text(
        "The kernel has stopped, and the run with it: 1 step had been shown."
    )
    expect(view.locator(".stop")).to_be_disabled()
    expect(view.locator("[data-limit=max_steps] input[type=range]")).to_be_disabled()


def test_notebook_without_a_kernel_shows_what_was_saved(lab: Lab) -> None:
    cells = [SETUP, 'over = live_of(calls("ls"))\nover', 'held = live_of(calls("ls"), paused=True)\nheld']
    notebook = lab.write("saved.ipynb", cells)
    lab.open(notebook)
    lab.run_all()
    lab.becomes("over.state", "ended")
    said = ["Ended: step cap after 40 steps, by max_steps(40)", "Saved while the run was paused before its first step."]
    expect(lab.cell(1).locator(".boolab-live .state-line")).to_have_text(said[0])
    lab.becomes("over._cell._events is None", True)  # what a saved notebook keeps was sent after the last state
    lab.command("docmanager:save-all")
    lab.open_again(notebook)
    for number, words in enumerate(said, start=1):
        frame = lab.cell(number).locator(".boolab-saved iframe").content_frame
        expect(frame.locator(".state-line")).to_contain_text(words)
