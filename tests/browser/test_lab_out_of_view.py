"""Widgets in a real JupyterLab that change while their cell is out of view, or get data that cannot be drawn.

JupyterLab does not lay out a cell that is out of view, unless a rule of boolab's says so.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Lab
from tests.browser.test_lab import CELLS as WIDGETS
from tests.support.project import ROOT

pytestmark = pytest.mark.slow
LONG: Final = "from IPython.display import HTML\nHTML('<p style=\"height: 2400px\">far away</p>')"
"""A cell that moves the next one out of view."""
CELLS: Final = {
    "runs": f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import boolab as bl
from boolab.sweeps.progress import Begun, CellResult
runs = bl.load_runs({str(ROOT / "datasets/runs")!r})[:50]
longest = max(runs, key=lambda run: run.n_steps)
""",
    **{name: WIDGETS[name] for name in ("Replay", "CapLab", "Heatmap", "Compare", "AgentEditor")},
    "SweepView": """
view = bl.SweepView()
view.begin(Begun(4, {"agents": ["a"], "tasks": ["go"], "grid": {"max_steps": [1, 2, 3, 4]}, "repeats": 1}))
view
""",
    "WatchView": WIDGETS["watch"],
    "card": "longest",
    "figure": WIDGETS["figure"],
}


class Change(NamedTuple):
    """A change that Python makes, and where the page shows which text after it."""

    statement: str
    place: str
    text: str


_RESULT: Final = 'CellResult("a", "a", "go", "go", "r1", {"max_steps": 1}, "step_cap", 1, None, None, "")'
CHANGES: Final = {
    "Replay": Change("setattr(replay, 'step', 9)", ".step-number", "step 9 of"),
    "CapLab": Change("setattr(lab, 'setting', {'max_steps': 5})", ".label strong", "5"),
    "Heatmap": Change(
        "setattr(heatmap, 'selected', {'max_steps': 8, 'tool_budget': 12})", ".runs h4", "Step cap 8, tool budget 12"
    ),
    "SweepView": Change(f"(view.add({_RESULT}), view._draw())", "h3", "1 of 4 runs"),
    "Compare": Change(
        "setattr(compared, 'opened', {'run': longest.run_id, 'step': 3})", ".boolab-replay .step-number", "step 3 of"
    ),
    "AgentEditor": Change("setattr(editor.fields['max_steps'], 'value', '57')", ".limits li", "step cap: at most 57"),
    "WatchView": Change("log.write_bytes(b''.join(growing))", "tbody .steps", "4"),
}
VIEWS: Final = {
    "Replay": "replay", "CapLab": "lab._figure", "Heatmap": "heatmap._view", "SweepView": "view._view",
    "Compare": "compared._view", "AgentEditor": "editor._under", "WatchView": "watched._view",
}  # fmt: skip
"""What holds the data of each widget."""
CLOCK: Final = re.compile(r"^\d+(\.\d+)? m?s$|/s$|/min$|left$")
"""What SweepView's clock shows."""
BOXES: Final = """(area) => {
  const boxes = () => {
    const texts = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
    const found = [];
    const range = document.createRange();
    while (texts.nextNode()) {
      if (texts.currentNode.parentElement.closest(".only-read")) continue; // it is for screen readers, and comes later
      range.selectNodeContents(texts.currentNode);
      const { width, height } = range.getBoundingClientRect();
      if (width && height) found.push(texts.currentNode.data.trim());
    }
    return found.filter(Boolean);
  };
  const before = boxes();
  area.style.display = "none";
  area.getBoundingClientRect();
  area.style.display = "";
  return [before, boxes()];
}"""
"""The texts that are laid out as the page is, and those that are when all of it is laid out anew."""


@pytest.fixture(scope="module")
def book(lab: Lab) -> Iterator[Lab]:
    """A notebook with every widget in it, each far below the one before, run from top to bottom."""
    lab.open(lab.write("out_of_view.ipynb", [cell for one in CELLS.values() for cell in (one, LONG)]))
    lab.run_all()
    yield lab
    lab.ask("[watched.stop()]")
    assert lab.watch.seen == []


def cell(book: Lab, name: str) -> Locator:
    """The output of a widget's cell, scrolled to."""
    return book.cell(2 * [*CELLS].index(name))


def all_of_it_is_laid_out(shown: Locator) -> None:
    """What is in view has all its texts, not only the place for them."""
    expect(shown).to_be_in_viewport()
    as_it_is, anew = shown.evaluate(BOXES)
    assert as_it_is
    assert as_it_is == anew


@pytest.mark.parametrize("name", CHANGES)
def test_widget_changed_out_of_view_shows_its_new_numbers(name: str, book: Lab) -> None:
    change = CHANGES[name]
    shown = cell(book, name)
    expect(shown.locator(".boolab").first).to_be_in_viewport()
    cell(book, "runs")
    expect(shown).not_to_be_in_viewport()
    book.ask(f"[{change.statement}] and 0")
    expect(shown.locator(change.place).first).to_contain_text(change.text)
    cell(book, name)
    expect(shown.locator(change.place).first).to_be_visible()
    all_of_it_is_laid_out(shown)


@pytest.mark.parametrize("name", ["card", "figure"])
def test_card_or_figure_is_whole_when_it_is_back_in_view(name: str, book: Lab) -> None:
    shown = cell(book, name)
    cell(book, "runs")
    expect(shown).not_to_be_in_viewport()
    cell(book, name)
    expect(shown).to_be_in_viewport()
    if name == "card":
        all_of_it_is_laid_out(shown)
    expect(shown.locator(".boolab-card, .boolab-figure img").first).to_be_in_viewport()


@pytest.mark.parametrize("name", VIEWS)
def test_a_widget_recovers_from_data_that_could_not_be_drawn(name: str, book: Lab) -> None:
    book.watch.expect("This widget could not be drawn")
    shown, view = cell(book, name), VIEWS[name]
    before = texts(shown)
    book.ask(f"[globals().update(kept={view}._data), setattr({view}, '_data', b'no data')] and 0")
    failed = shown.locator(".not-drawn").first
    expect(failed.locator(".drawing-error")).to_contain_text("This widget could not be drawn")
    assert failed.evaluate("(one) => [...one.children].filter((child) => child.getClientRects().length).length") == 1
    book.ask(f"[setattr({view}, '_data', kept)] and 0")
    expect(shown.locator(".drawing-error")).to_have_count(0)
    assert texts(shown) == before
    all_of_it_is_laid_out(shown)


def texts(shown: Locator) -> list[str]:
    """The texts of a widget that are laid out, but for those of a clock."""
    found: list[str] = shown.evaluate(BOXES)[1]
    return [text for text in found if not CLOCK.search(text)]
