"""The view of a sweep, in a browser."""

import pytest

from boolab.sweeps.progress import Begun, CellResult
from boolab.widgets.sweep_view.widget import SweepView
from tests.browser.conftest import PageOf

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
    runs = page.locator(".its-runs li")
    assert runs.count() == 2
    assert "success" in runs.nth(1).inner_text()
    page.locator("button.choose").press("Enter")
    assert runs.count() == 0
