"""The view of a sweep, in a browser."""

from itertools import product

import pytest
from playwright.sync_api import expect

from boolab.sweeps.progress import Begun, CellResult
from boolab.widgets.sweep_view.widget import SweepView
from tests.browser.conftest import PageOf
from tests.browser.examples import page_with

pytestmark = pytest.mark.pages

HOSTILE = "<img src=x onerror='document.title=1'>\u202egnp.exe \x1b[31m"


def a_view() -> SweepView:
    view = SweepView()
    view.begin(Begun(8, {"agents": ["a"], "tasks": ["t", "u"], "grid": {"max_steps": [5, None]}, "repeats": 2}))
    done = CellResult("r" * 16, HOSTILE, "m", "boocode", HOSTILE, {"max_steps": 5}, "step_cap", 5, 0.25, False, None)
    for one in (
        done,
        done._replace(task="u", success=True, reason="finished"),
        done._replace(settings={"max_steps": None}, reason="error", error=HOSTILE, success=None, cost_usd=None),
    ):
        view._board.add(one)
    view._draw()
    return view


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_shows_what_python_counted(page_of: PageOf, theme: str) -> None:
    page = page_of(a_view(), theme)
    root = page.locator(".boolab-sweep_view")
    root.wait_for()
    assert root.get_attribute("data-state") == "running"
    assert page.locator("h3").inner_text() == "3 of 8 runs"
    bar = page.get_by_role("progressbar")
    assert [bar.get_attribute(f"aria-value{name}") for name in ("min", "now", "max")] == ["0", "3", "8"]
    assert page.locator(".key li").all_inner_texts() == ["finished 1", "step cap 1", "error 1"]
    rows = page.locator("tbody tr")
    assert rows.count() == 2
    assert rows.nth(0).locator(".runs").inner_text() == "2 of 4"
    assert "1 of 2" in rows.nth(0).locator(".shares").inner_text()
    assert rows.nth(0).locator(".cost").inner_text() == "$0.25"
    assert rows.nth(1).locator(".shares").inner_text() == "no label"
    assert rows.nth(1).locator(".cost").inner_text() == "?"
    assert not page.locator(".refresh").is_visible()


def test_rows_are_sorted_and_filtered_and_lead_to_their_runs(page_of: PageOf) -> None:
    page = page_of(a_view())
    first = page.locator("tbody tr").first
    first.wait_for()
    for expected in ("5", "No limit"):
        page.locator("button.sort", has_text="step cap").press("Enter")
        assert expected in first.locator("td").first.inner_text()
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    page.locator(".filter").fill("step cap 5")
    assert page.locator("tbody tr").count() == 1
    assert page.locator(".by-setting h4").inner_text().startswith("1 of 2 settings")
    page.locator("button.choose").press("Enter")
    runs = page.locator(".its-runs tr.run")
    assert runs.count() == 2
    assert "success" in runs.nth(1).inner_text()
    assert page.locator("button.open").count() == 0
    page.locator("button.choose").press("Enter")
    assert runs.count() == 0


def test_click_on_setting_lists_runs_and_on_run_opens_replay(page_of: PageOf) -> None:
    page = page_of(page_with("SweepView"), height=500)
    setting = page.locator("tr.setting").nth(2)
    setting.locator("td.number").first.click()
    expect(setting).to_have_class("setting chosen")
    run = page.locator("tr.run.opens").first
    run.locator("td.task").click()
    replay = page.locator(".opened .boolab-replay")
    expect(replay.locator(".step-number").first).to_contain_text("step 5 of 5")
    expect(replay).to_be_in_viewport()
    expect(run).to_have_attribute("aria-current", "true")
    run.locator("button.open").press("Enter")
    expect(replay).to_have_count(0)
    expect(run.locator("button.open")).to_be_focused()
    expect(page.locator("footer")).to_contain_text("This page holds the steps of 4 runs")


def test_all_runs_of_a_setting_are_listed_by_task_and_outcome(page_of: PageOf) -> None:
    view = SweepView()
    view.begin(Begun(30, {"grid": {"max_steps": [5]}}))
    for n in range(30):
        success = n % 2 == 0
        names = (f"r{n:02}", "a", "m", "p", f"t{n // 3:02}", {"max_steps": 5})
        view._board.add(CellResult(*names, "step_cap", 5, 0.1, success, None))
    view.end(None)
    page = page_of(view)
    expect(page.get_by_role("progressbar")).to_have_count(0)
    page.locator("button.choose").press("Enter")
    runs = page.locator("tr.run")
    expect(runs).to_have_count(12)
    expect(runs.nth(4).locator("td")).to_have_text(["t01", "2", "step cap", "5", "✓ success", "$0.10", ""])
    more = page.locator(".its-runs button.more")
    for left in ("+ 18 runs", "+ 6 runs"):
        expect(more).to_have_text(left)
        more.click()
    expect(runs).to_have_count(30)
    expect(more).to_be_hidden()


def test_finished_sweep_shows_verdict_and_folds_equal_settings(page_of: PageOf) -> None:
    view = SweepView()
    view.begin(Begun(4, {"grid": {"max_steps": [3, 6], "doom_loop": [2, None]}}))
    for cap, loop in product((3, 6), (2, None)):
        limits = {"max_steps": cap, "doom_loop": loop}
        done = CellResult(f"{cap} {loop}", "a", "m", "p", "t", limits, "step_cap", cap, None, cap == 6, None)
        view._board.add(done)
    view.end(None)
    page = page_of(view)
    expect(page.locator(".verdict")).to_have_text(
        "Most successes: step cap 6, 1 of 1 run for 6.0 steps a run. Settings that take less have no success."
    )
    rows = page.locator("tr.setting")
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="+ 2 settings with the same numbers").click()
    expect(rows).to_have_count(4)


def test_heads_name_the_units_of_their_columns(page_of: PageOf) -> None:
    page = page_of(a_view())
    expect(page.locator("thead .unit")).to_have_text(["steps", "share of runs", "0%50%100%", "per run", "per run"])


def test_the_first_settings_are_shown_and_the_others_on_request(page_of: PageOf) -> None:
    view = SweepView()
    view.begin(Begun(30, {}))
    for cap in range(1, 31):
        view._board.add(
            CellResult(f"r{cap}", "a", "m", "p", "t", {"max_steps": cap}, "step_cap", cap, None, None, None)
        )
    view.end(None)
    page = page_of(view)
    rows = page.locator("tr.setting")
    expect(rows).to_have_count(24)
    page.get_by_role("button", name="+ 6 settings").click()
    expect(rows).to_have_count(30)
