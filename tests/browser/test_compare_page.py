"""Compare in a page: equal steps fold, the difference is in view, steps open in Replay."""

import pytest
from playwright.sync_api import expect

from boolab.core.run import Run
from boolab.runtime.agents.agent import Agent
from boolab.widgets.compare.widget import Compare
from tests.browser.conftest import PageOf
from tests.widgets.test_compare_widget import LS, OPEN, STUCK, long_run, run_of, talking

pytestmark = pytest.mark.pages


def two_runs() -> tuple[Run, Run]:
    one = long_run("a", list(range(120)))
    return one, long_run("b", [*range(60), *range(1_000, 1_003), *range(61, 120)])


def test_first_difference_is_in_view_and_equal_steps_are_folded(page_of: PageOf) -> None:
    shown = Compare(*two_runs()).to_html()
    for theme, width, zoom in (("light", 1080, 1), ("dark", 500, 1), ("dark", 1080, 2)):
        page = page_of(shown, theme, width=width, zoom=zoom)
        expect(page.locator(".divergence")).to_be_in_viewport()
        expect(page.locator(".divergence")).to_have_text("First difference")
        expect(page.locator(".finding")).to_contain_text("at step 61: the model gives another answer")
        expect(page.locator(".row.different")).to_have_count(3)
        expect(page.locator(".bar")).to_contain_text("119 equal steps \u00b7 1 differs \u00b7 2 only in b")
        folds = page.locator("button.fold")
        expect(folds.first).to_contain_text("58 equal steps steps 1–58")  # noqa: RUF001
        folds.first.click()
        expect(page.locator('.row[data-a="40"][data-b="40"]')).to_have_count(1)
        expect(folds.first).to_contain_text("18 equal steps")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        rows = "document.querySelector('.boolab-compare .rows')"
        assert page.evaluate(f"{rows}.scrollHeight <= {rows}.clientHeight")  # only the page scrolls


def test_any_step_of_either_side_opens_there(page_of: PageOf) -> None:
    page = page_of(Compare(*two_runs()))
    page.locator('.head[data-side="b"] .open').click()
    expect(page.locator(".boolab-replay .step-number").first).to_contain_text("61")
    page.locator('.row[data-a="61"] .number-of').first.click()
    expect(page.locator(".boolab-replay .step-number").first).to_contain_text("of 120")


def test_keys_walk_through_the_differences(page_of: PageOf) -> None:
    page = page_of(Compare(run_of("A B A C A B"), run_of("A C A C A A", "b")))
    page.locator(".rows").focus()
    page.keyboard.press("n")
    current = page.locator(".rows [aria-current]")
    expect(current).to_have_count(1)
    first = current.get_attribute("data-a")
    page.keyboard.press("n")
    expect(current).not_to_have_attribute("data-a", first or "none")
    page.keyboard.press("d")
    expect(current).to_have_class("divergence")


def test_two_agents_are_shown_with_what_differs_in_them(page_of: PageOf) -> None:
    one, other = Agent("one", prompt="Look.", doom_loop=2), Agent("other", prompt="Look well.", doom_loop=4)
    page = page_of(Compare(one, other, script=STUCK), "dark")
    differences = page.locator(".differences")
    expect(differences.locator("tbody th")).to_have_text(["doom-loop threshold"])
    differences.locator("summary").click()
    expect(differences.locator(".line-diff .added")).to_contain_text("Look well.")
    expect(page.locator(".stop").first).to_have_text("Stopped after 2 steps by its doom-loop threshold of 2.")
    shown = page.locator("#views").inner_text()
    assert "doom_loop" not in shown
    assert shown.count("threshold of 2") == 1
    page.locator('.head[data-side="b"] .open').click()
    expect(page.locator(".boolab-replay .step-number").first).to_contain_text("step 3 of 4")


def test_different_words_are_marked_and_equal_calls_are_named(page_of: PageOf) -> None:
    one = talking("a", ["I look at it now.", "Same."], [LS, OPEN])
    other = talking("b", ["I look at them now.", "Same."], [LS, LS])
    page = page_of(Compare(one, other))
    rows = page.locator(".row.different")
    expect(rows).to_have_count(2)
    expect(page.locator("mark")).to_have_text(["it", "them"])
    expect(rows.nth(0).locator(".gutter .only-read")).to_have_text("the same calls, other text")
    expect(rows.nth(1).locator(".gutter .only-read")).to_have_text("not the same")
    expect(rows.nth(0).locator(".step").first).to_have_css("background-color", "rgba(0, 0, 0, 0)")
