"""Each notebook is opened in a real JupyterLab and run there: no error, none in the console, and not too long."""

import shutil
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import expect

from tests.browser.lab import Lab
from tests.browser.test_access import PALE
from tests.support.notebooks import BY_NUMBER, allow_ten_minutes
from tests.support.project import ROOT

pytestmark = pytest.mark.slow
SCREEN: Final = (1280, 800)
WIDE_SCREEN: Final = (1600, 1000)
SCREENS: Final = 12
"""How long a notebook is at most, run, in screens of that size."""
ANSWER: Final = 70
"""How much of the answer is at least on the first screen, in pixels: a heading and a row, or three lines."""
STATUS_BAR: Final = 24
"""The height of JupyterLab's, in pixels."""
_LENGTH: Final = """async () => {
  const list = window.jupyterapp.shell.currentWidget.content;
  let length = 0;
  for (let index = 0; index < list.widgets.length; index++) {
    await list.scrollToItem(index, "start");
    length += list.widgets[index].node.getBoundingClientRect().height;
  }
  await list.scrollToItem(0, "start");
  return length;
}"""


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BOOLAB_LOGS", "BOOLAB_SCOPE", "BOOLAB_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("path", BY_NUMBER.values(), ids=lambda path: path.stem)
def test_a_notebook_runs_in_jupyterlab(lab: Lab, path: Path) -> None:
    allow_ten_minutes()
    (lab.folder / "notebooks").mkdir(exist_ok=True)
    lab.page.set_viewport_size({"width": SCREEN[0], "height": SCREEN[1]})
    opened = lab.folder / "notebooks" / path.name
    shutil.copy(path, opened)
    lab.open(opened)
    lab.ask(f"__import__('sys').path.insert(0, {str(ROOT)!r})")
    lab.run_all()
    expect(lab.notebook.get_by_text("Error displaying widget")).to_have_count(0)
    answer = lab.notebook.locator(".jp-OutputArea-output").first
    expect(answer).not_to_have_text("")
    lab.cell(0)
    box = answer.bounding_box()
    assert box is not None
    assert box["y"] + min(box["height"], ANSWER) < SCREEN[1] - STATUS_BAR, "the answer is below the first screen"
    _all_cells_are_readable(lab)
    assert lab.page.evaluate(_LENGTH) / SCREEN[1] <= SCREENS
    lab.command("docmanager:save")
    assert lab.watch.seen == []


def _all_cells_are_readable(lab: Lab) -> None:
    """In both themes and two sizes: no text of a widget or a display is pale, and none runs out of its cell."""
    cells = lab.page.evaluate("window.jupyterapp.shell.currentWidget.content.widgets.length")
    for theme, (width, height) in (("JupyterLab Dark", WIDE_SCREEN), ("JupyterLab Light", SCREEN)):
        lab.page.set_viewport_size({"width": width, "height": height})
        lab.theme(theme)
        for number in range(cells):
            shown = lab.cell(number)
            assert lab.page.evaluate(PALE) == [], f"cell {number}, {theme}"
            wide = shown.evaluate_all("""(areas) => areas.flatMap((area) => [...area.querySelectorAll(".boolab")])
              .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.className)""")
            assert wide == [], f"cell {number}, {width} px"
