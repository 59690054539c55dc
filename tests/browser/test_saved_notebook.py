"""A notebook that is saved with widgets in it, and opened again without the kernel that made them."""

from math import ceil
from typing import Final

import pytest
from playwright.sync_api import expect

from boolab.widgets._base.standalone_html import MIN_HEIGHT, saved_view
from tests.browser.conftest import PageOf
from tests.browser.lab import Lab
from tests.browser.test_lab_out_of_view import BOXES
from tests.support.project import ROOT

pytestmark = pytest.mark.slow
CELLS: Final = (
    f"import boolab as bl\nruns = bl.load_runs({str(ROOT / 'datasets/runs')!r})[:20]",
    "bl.Replay(runs[0])",
    "bl.CapLab(runs)",
    """
table = bl.counterfactual(runs, grid={"max_steps": [4, 8, None], "tool_budget": [6, None]}, aggregate=True)
bl.Heatmap(table, runs)
""",
    "bl.Compare(runs[0], runs[1])",
    "bl.SweepView()",
)
WIDGETS: Final = {1: "replay", 2: "caplab", 3: "heatmap", 4: "compare", 5: "sweep"}
ERROR: Final = "Error displaying widget"


def test_saved_notebook_shows_its_widgets_without_a_kernel(lab: Lab) -> None:
    path = lab.write("saved.ipynb", CELLS)
    lab.open(path)
    lab.run_all()
    for number in WIDGETS:
        shown = lab.cell(number)
        shown.locator(".boolab").first.wait_for()
        expect(shown.locator(".boolab-saved")).to_be_hidden()  # the live widget alone
        inside = shown.locator(".boolab-saved iframe").content_frame.locator("body.boolab-page")
        expect(inside).to_have_count(0)  # not even loaded
    lab.open_again(path)
    for number in WIDGETS:
        shown = lab.cell(number)
        expect(shown.locator(".boolab-saved")).not_to_have_css("height", "0px")
        expect(shown.get_by_text("Run the cell to make it live.")).to_be_in_viewport()
        expect(shown.locator(".untrusted")).to_be_hidden()
        expect(shown.locator(".boolab-saved iframe").content_frame.locator(".boolab").first).to_be_in_viewport()
        expect(shown.get_by_text(ERROR)).to_be_hidden()
        body = shown.locator(".boolab-saved iframe").content_frame.locator("body")
        height = body.evaluate("(body) => body.getBoundingClientRect().height")
        expect(shown.locator(".boolab-saved iframe")).to_have_css("height", f"{max(MIN_HEIGHT, ceil(height))}px")
        assert not body.evaluate("(body) => body.ownerDocument.documentElement.scrollHeight > innerHeight")
    for number in WIDGETS:  # again: each was out of view since
        inside = lab.cell(number).locator(".boolab-saved iframe").content_frame.locator("body")
        expect(inside.locator(".boolab").first).to_be_in_viewport()
        as_it_is, anew = inside.evaluate(BOXES)
        assert as_it_is == anew != []


def test_a_saved_view_has_the_theme_of_the_notebook(lab: Lab) -> None:
    path = lab.write("themed.ipynb", CELLS[:2])
    lab.open(path)
    lab.run_all()
    lab.open_again(path)
    body = lab.cell(1).locator(".boolab-saved iframe").content_frame.locator("body")
    for theme, ground in (("Dark", "rgb(18, 22, 27)"), ("Light", "rgb(255, 255, 255)")):
        lab.theme(f"JupyterLab {theme}")
        expect(body).to_have_css("background-color", ground)
        expect(body.locator(".boolab-replay")).to_have_css("background-color", ground)


def test_a_link_to_a_step_opens_the_saved_view_there(lab: Lab) -> None:
    path = lab.write("linked.ipynb", CELLS[:2])
    lab.open(path)
    lab.run_all()
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    replay = lab.cell(1).locator(".boolab-replay")
    replay.press("ArrowRight")
    replay.press("c")
    expect(replay.locator(".notice")).to_have_text("link copied")
    link = lab.page.evaluate("navigator.clipboard.readText()")
    assert link.endswith("%3A2")
    replay.press("End")
    lab.command("docmanager:save")
    lab.page.evaluate("(link) => history.replaceState(null, '', link)", link)
    lab.open_again(path)
    shown = lab.cell(1).locator(".boolab-saved iframe").content_frame
    expect(shown.locator(".step-number")).to_contain_text("step 2 of")


@pytest.mark.parametrize("scripts", [True, False])
def test_saved_view_without_scripts_explains_the_missing_frame(page_of: PageOf, *, scripts: bool) -> None:
    shown = page_of(f"<!doctype html>{saved_view('Replay', '<p>one run</p>')}", javascript=scripts)
    expect(shown.get_by_text("No script runs here")).to_be_visible(visible=not scripts)
    expect(shown.locator("iframe")).to_be_visible(visible=scripts)
