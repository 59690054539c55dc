"""Heatmap in a page: a grid for mouse and keyboard, whose cells list their runs, each opening where it stops."""

import pytest
from playwright.sync_api import Page, expect

from boolab.widgets.heatmap.widget import Heatmap
from tests.browser.conftest import PageOf
from tests.widgets.test_heatmap_widget import RUNS, TALLY

pytestmark = pytest.mark.pages


def cell(page: Page, x: str, y: str) -> str:
    return f'.boolab-heatmap .cell[data-x="{x}"][data-y="{y}"]'


def test_click_on_cell_then_run_opens_replay_at_its_step(page_of: PageOf) -> None:
    page = page_of(Heatmap(TALLY, RUNS))
    page.click(cell(page, "4", "No limit"))
    row = page.locator(".run-row", has_text="success, lost").first
    step = row.get_attribute("data-step")
    assert step == "4"
    row.locator("td.task").click()  # anywhere in the row
    expect(page.locator(".boolab-replay .step-number").first).to_contain_text("4 of")
    expect(row).to_have_attribute("aria-current", "true")


def test_no_mark_is_hatched_and_an_unknown_cell_has_its_own(page_of: PageOf) -> None:
    unknown = TALLY.assign(kept_lower=TALLY["kept_lower"].where(TALLY["max_steps"] != 4))
    page = page_of(Heatmap(unknown))
    assert "repeating-linear-gradient" not in page.content()
    expect(page.locator(cell(page, "4", "No limit"))).to_have_text("?")
    expect(page.locator(cell(page, "4", "No limit"))).to_have_css("border-top-style", "dashed")
    expect(page.locator(".key .swatch.unknown")).to_have_count(1)


def test_readout_is_beside_the_hovered_cell_and_inside_the_frame(page_of: PageOf) -> None:
    page = page_of(Heatmap(TALLY, RUNS))
    readout, hint = page.locator(".readout"), page.locator(".hint")
    expect(readout).to_be_hidden()
    expect(hint).to_have_text("Point at a cell for its numbers; choose it to see its runs here.")
    for x in ("4", "No limit"):
        page.hover(cell(page, x, "No limit"))
        expect(readout).to_contain_text("of 9 successes")
        mine, its, frame = (
            page.locator(one).bounding_box() for one in (".readout", cell(page, x, "No limit"), ".boolab-heatmap")
        )
        assert mine is not None
        assert its is not None
        assert frame is not None
        assert 0 <= mine["y"] - its["y"] - its["height"] < 12
        assert frame["x"] <= mine["x"]
        assert mine["x"] + mine["width"] <= frame["x"] + frame["width"]
    page.hover(".finding")
    expect(readout).to_be_hidden()
    page.click(cell(page, "4", "No limit"))
    expect(hint).to_be_hidden()
    expect(page.locator(".runs .facts")).to_contain_text("of 9 successes")


def test_a_metric_is_chosen_and_keeps_the_focus(page_of: PageOf) -> None:
    page = page_of(Heatmap(TALLY, RUNS))
    expect(page.locator(".metrics button")).to_have_text(["successes kept", "steps saved", "runs stopped", "frontier"])
    page.locator(".metrics [data-value=n_truncated]").press("Enter")
    expect(page.locator(".metrics [data-value=n_truncated]")).to_be_focused()
    row = TALLY[(TALLY["max_steps"] == 4) & TALLY["tool_budget"].isna()].iloc[0]
    expect(page.locator(cell(page, "4", "No limit"))).to_contain_text(f"{row['n_truncated']}/{row['n_runs']}")
    page.click(".metrics [data-value=frontier]")
    expect(page.locator(".finding")).to_contain_text("in both successes kept and steps saved")


def test_the_grid_is_worked_by_keys_alone(page_of: PageOf) -> None:
    page = page_of(Heatmap(TALLY, RUNS), "dark")
    focused = page.locator(":focus")
    expect(page.locator(".cell[tabindex='0']")).to_be_visible()  # drawn: there is something to tab to
    page.locator(".metrics button").last.focus()
    page.keyboard.press("Tab")
    expect(focused).to_have_attribute("role", "gridcell")
    expect(page.locator(".readout")).to_be_visible()
    page.keyboard.press("Shift+Home")
    expect(focused).to_have_attribute("data-x", "2")
    expect(focused).to_have_attribute("data-y", "No limit")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(focused).to_have_attribute("data-x", "4")
    expect(focused).to_have_attribute("data-y", "8")
    assert page.locator('.cell[tabindex="0"]').count() == 1
    page.keyboard.press("Enter")
    expect(focused).to_have_attribute("aria-selected", "true")
    expect(page.locator(".runs h4")).to_have_text("Step cap 4, tool budget 8")
    page.keyboard.press("Escape")
    expect(page.locator(".runs h4")).to_have_count(0)
    expect(page.locator('[aria-selected="true"]')).to_have_count(0)


def test_each_cell_says_its_number_and_what_it_is_of(page_of: PageOf) -> None:
    page = page_of(Heatmap(TALLY, RUNS, recommended={"max_steps": 6, "tool_budget": None}))
    row = TALLY[(TALLY["max_steps"] == 4) & TALLY["tool_budget"].isna()].iloc[0]
    name = page.locator(cell(page, "4", "No limit")).get_attribute("aria-label") or ""
    assert name.startswith("step cap 4, no tool budget")
    assert f"of {row['successes']} successes" in name
    assert f"stops {row['n_truncated']} of {row['n_runs']} runs" in name
    assert "recommended" in (page.locator(cell(page, "6", "No limit")).get_attribute("aria-label") or "")
