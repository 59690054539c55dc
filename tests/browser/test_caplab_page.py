"""CapLab's page in a real Chromium, from a file, without a kernel."""

import re

import pytest
from playwright.sync_api import Page, expect

from boolab.widgets.caplab.widget import CapLab
from tests.browser.conftest import PageOf
from tests.support.caplab_cases import Told, runs_of

pytestmark = pytest.mark.pages

HOSTILE = "<img src=x onerror=alert(1)>\u202etxt"


def lab() -> CapLab:
    """Five runs, of which a doom-loop threshold of 3 cuts two."""
    told = [
        Told(("A B C D -",), success=True, task="one"),
        Told(("A A A A A B -",), success=True, task=HOSTILE),
        Told(("A B -",), success=True, task="three"),
        Told(("A B A B A B A",), success=False, cut=True),
        Told(("A A A -",), success=False),
    ]
    return CapLab(runs_of(*told))


def kept(page: Page) -> str:
    return page.locator('.numbers [data-key="kept"] strong').inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_sliders_change_the_numbers_the_bars_and_the_table(page_of: PageOf, theme: str) -> None:
    page = page_of(lab(), theme)
    doom = page.locator(".boolab-doom input")
    expect(page.locator(".figure")).to_be_visible()
    assert kept(page) == "3"
    doom.focus()
    page.keyboard.press("Home")
    expect(doom).to_have_attribute("aria-valuetext", "2 identical calls")
    expect(page.locator(".run-row")).to_have_count(2)
    assert kept(page) == "2"
    expect(page.locator('.stops [data-reason="doom_loop"]')).to_have_attribute("title", "doom_loop 2")
    expect(page.locator(".run-row").first.locator(".wrong")).to_have_text("success lost")
    expect(page.locator(".figure")).to_have_attribute("aria-label", re.compile("stops 2 of 5 runs"))


def test_a_run_that_is_cut_opens_in_replay_where_it_would_have_stopped(page_of: PageOf) -> None:
    shown = lab()
    shown.setting = {"doom_loop": 4}
    page = page_of(shown)
    row = page.locator('.run-row[data-run="r1"]')
    expect(row).to_contain_text("doom loop 4")
    row.locator("button.open").press("Enter")
    expect(page.locator(".opened .step-number")).to_contain_text("step 4 of 7")


def test_how_to_set_it_follows_the_setting_and_the_harness(page_of: PageOf) -> None:
    page = page_of(lab())
    page.locator("select.harness").select_option("python")
    expect(page.locator(".written")).to_have_value(re.compile("max_steps=None"))
    page.locator(".boolab-cap input").press("Home")
    expect(page.locator(".written")).to_have_value(re.compile("max_steps=1,"))
    page.locator("select.harness").select_option("boolab")
    expect(page.locator(".written")).to_have_value(re.compile("max_steps: 1\n"))
    expect(page.locator("select.harness")).to_have_value("boolab")


def test_without_a_limit_it_says_what_to_do_and_a_cap_stands_apart_from_the_names_of_curves(page_of: PageOf) -> None:
    page = page_of(lab(), width=500)
    expect(page.locator(".hint")).to_contain_text("Move a slider")
    page.locator(".boolab-cap input").press("Home")
    expect(page.locator(".hint")).to_have_count(0)
    names = page.locator(".figure :is(.label, .caption, .mark text)").all()
    places = [box for box in (name.bounding_box() for name in names) if box is not None]
    assert len(places) >= 4
    for n, a in enumerate(places):
        for b in places[n + 1 :]:
            apart = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
            assert apart or a["y"] + a["height"] <= b["y"] + 1 or b["y"] + b["height"] <= a["y"] + 1, (a, b)


def test_a_button_that_does_nothing_says_why(page_of: PageOf) -> None:
    page = page_of(lab())
    why = f"Nothing can be recommended: needs {lab().recommended['more_needed']} more successes"
    expect(page.locator(".boolab-recommend")).to_be_disabled()
    expect(page.locator(".boolab-recommend")).to_have_attribute("title", why)
    expect(page.locator(".boolab-why")).to_have_text(f"{why}.")
