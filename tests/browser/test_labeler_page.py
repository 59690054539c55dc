"""The desk in a real JupyterLab, by keyboard alone, with a kernel that is killed; and its page without one."""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

import boolab as bl
from boolab.logs.outcomes.label_file import read_labels
from boolab.widgets._base.standalone_html import PagePart, page
from boolab.widgets.labeler.widget import Labeler
from tests.browser.conftest import PageOf
from tests.browser.hostile import MARKUP, hostile_runs
from tests.browser.lab import Lab
from tests.support.project import ROOT

CELLS = (
    f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import os
from dataclasses import replace
import boolab as bl
runs = [replace(run, success=None, labels=()) for run in bl.load_runs({str(ROOT / "datasets/runs")!r})]
""",
    "desk = bl.Labeler(runs, {'max_steps': [60, 45, 30]}, labels='labels.jsonl', who='ann')\ndesk",
)


def labels(lab: Lab) -> list[str]:
    """The answers in the file of the notebook."""
    return [line["label"] for line in read_labels(lab.folder / "labels.jsonl").labels]


def desk_of(lab: Lab) -> Locator:
    """The desk, drawn."""
    desk = lab.cell(1).locator(".boolab-labeler").first
    desk.wait_for()
    return desk


@pytest.mark.slow
def test_labels_by_keyboard_alone_survive_a_killed_kernel(lab: Lab) -> None:
    notebook = lab.write("labels.ipynb", CELLS)
    lab.open(notebook)
    lab.run_all()
    desk, keyboard = desk_of(lab), lab.page.keyboard
    desk.locator(".criterion input").focus()
    keyboard.type("tests pass")
    keyboard.press("Enter")
    expect(desk.locator(".about")).to_contain_text("a success is: tests pass")
    so_far, title = desk.locator(".so-far"), desk.locator(".card h4")
    desk.focus()
    for number, key in enumerate("fsf", 1):
        before = title.inner_text()
        keyboard.press(key)
        expect(so_far).to_contain_text(f"{number} answer")
        expect(title).not_to_have_text(before)
    assert labels(lab) == ["failure", "success", "failure"]
    expect(desk.locator(".messages")).to_contain_text("The last one, failure: ")
    keyboard.press("z")
    expect(so_far).to_contain_text("2 answers")
    keyboard.press("n")
    keyboard.type("fsuzq: keys are letters in a note")
    keyboard.press("Enter")
    expect(desk.locator(".note dd")).to_have_text("fsuzq: keys are letters in a note")
    keyboard.press("w")
    expect(desk.locator(".messages")).to_contain_text("Why this one: ")
    keyboard.press("o")
    replay = lab.cell(1).locator(".boolab-replay").first
    expect(replay).to_be_focused()
    keyboard.press("Escape")
    expect(desk).to_be_focused()
    keyboard.press("o")
    keyboard.press("u")  # the answer from within Replay, which is then about the next run
    expect(so_far).to_contain_text("3 answers")
    expect(desk).to_be_focused()
    assert labels(lab) == ["failure", "success", "unknown"]
    keyboard.press("q")
    expect(desk.locator(".done")).to_contain_text("Paused")
    keyboard.press("q")
    expect(title).to_be_visible()
    assert lab.notebook.locator(".jp-Cell").count() == len(CELLS)  # and the notebook took none of the keys
    if sys.platform != "win32":
        lab.watch.expect("Kernel")
        os.kill(lab.ask("os.getpid()"), signal.SIGKILL)
    lab.open_again(notebook)
    assert labels(lab) == ["failure", "success", "unknown"]
    saved = lab.cell(1).locator(".boolab-saved iframe").content_frame.locator(".boolab-labeler")
    expect(saved.locator(".card")).to_contain_text("A saved view")


def questioned(desk: Labeler) -> str:
    """A page with the data that a live view has."""
    return page("Labeler", [PagePart("labeler", desk._live_data())])


@pytest.fixture
def of_runs(tmp_path: Path) -> Callable[[list[bl.Run]], Labeler]:
    """A desk of runs whose outcomes are not known."""
    return lambda runs: Labeler(
        [replace(run, success=None, labels=()) for run in runs],
        {"max_steps": [30, 20]},
        labels=tmp_path / "labels.jsonl",
        criterion="tests pass",
        who="ann",
    )


@pytest.mark.pages
def test_page_without_a_kernel_shows_the_state_and_no_key(
    page_of: PageOf, of_runs: Callable[[list[bl.Run]], Labeler]
) -> None:
    desk = of_runs(list(bl.load_runs(ROOT / "datasets/runs"))[:20])
    desk.answer("f")
    shown = page_of(desk)
    expect(shown.locator(".so-far")).to_contain_text("1 answer")
    expect(shown.locator(".side li")).to_have_count(2)
    expect(shown.locator(".bar")).to_be_hidden()
    expect(shown.locator(".boolab-replay")).to_have_count(0)


@pytest.mark.pages
@pytest.mark.parametrize("width", [480, 880, 1600])
def test_keys_fit_and_texts_of_runs_are_texts(
    page_of: PageOf, of_runs: Callable[[list[bl.Run]], Labeler], width: int
) -> None:
    shown = page_of(questioned(of_runs(hostile_runs())), width=width)
    shown.locator(".bar button").first.wait_for()
    assert shown.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert shown.locator(f".boolab :is({MARKUP})").count() == 0
    tops = shown.locator(".bar button").evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().top)")
    assert len({*tops}) == 1 or width < 880
