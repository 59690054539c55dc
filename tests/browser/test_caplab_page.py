"""CapLab's page in a real Chromium, from a file, without a kernel."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import pytest
from playwright.sync_api import Page, expect

import boolab as bl
from boolab.io.resources import data_path
from boolab.trials.result import TrialResult
from boolab.widgets.caplab.widget import CapLab
from tests.browser.conftest import PageOf
from tests.browser.test_access import DRAWN
from tests.support import trial_cases
from tests.support.caplab_cases import Told, runs_of

pytestmark = pytest.mark.pages

ALIGNED = """() => {
  const names = [".thumb", ".figure line.present"];
  const [thumb, line] = names.map((one) => document.querySelector(one).getBoundingClientRect());
  return Math.abs(thumb.x + thumb.width / 2 - line.x - line.width / 2) < 1;
}"""
CLIPBOARD = """() => {
  const writeText = async (text) => { window.copied = text; };
  Object.defineProperty(navigator, "clipboard", { value: { writeText } });
}"""
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
    expect(page.locator(".cut h4")).to_have_text("\u2715 1 success that this setting stops, longest first")
    expect(page.locator(".figure")).to_have_attribute("aria-label", re.compile("It stops 2 of 5 runs"))


def test_stopped_run_opens_in_replay_at_its_stop(page_of: PageOf) -> None:
    shown = lab()
    shown.setting = {"doom_loop": 4}
    page = page_of(shown)
    row = page.locator('.run-row[data-run="r1"]')
    expect(row).to_contain_text("doom loop 4")
    row.locator("button.open").press("Enter")
    expect(page.locator(".opened .step-number")).to_contain_text("step 4 of 7")


@pytest.mark.parametrize("width", [1080, 1280, 1600])
def test_buttons_of_stopped_runs_are_in_view_at_every_width(page_of: PageOf, width: int) -> None:
    page = page_of(stopped_in_turns(), width=width)
    table = page.locator("section.cut .scroll").first
    expect(table.locator("th")).to_have_count(7)
    places = page.locator("section.cut .scroll").evaluate_all(
        "(all) => all.map((one) => one.scrollWidth - one.clientWidth)"
    )
    assert {*places} == {0}


@cache
def stopped_in_turns() -> CapLab:
    """Runs with long names that several limits stop, where some successes may be kept: a table with all columns."""
    runs = bl.load_runs(data_path("datasets") / "runs")
    shown = CapLab(runs, exempt=["wait_for_build"])
    shown.setting = {"max_steps": 24, "doom_loop": 3}
    return shown


def partly_labelled() -> CapLab:
    """Nine runs, three of them without a label, of which a cap of 4 stops two."""
    told = [Told(("A B -",), success=True)] * 4 + [Told(("A -",))]
    return CapLab(runs_of(*told, *[Told(("A B C D E -",), success=label) for label in (True, False, None, None)]))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_stopped_runs_of_unknown_outcome_are_hatched(page_of: PageOf, theme: str) -> None:
    page = page_of(partly_labelled(), theme)
    expect(page.locator(".chart .key")).to_contain_text("unknown outcome")
    expect(page.locator(".hatch")).to_have_count(0)  # nothing is stopped
    page.locator(".boolab-cap input").press("ArrowLeft")
    page.locator(".boolab-cap input").press("ArrowLeft")
    expect(page.locator(".label strong")).to_have_text("4")
    hatched = page.locator(".figure rect.unknown.cut")
    expect(hatched).to_have_count(1)
    pattern = (hatched.get_attribute("fill") or "").removeprefix("url(#").removesuffix(")")
    expect(page.locator(f'.figure pattern[id="{pattern}"] .stripe')).to_have_count(1)
    expect(page.locator(".chart .key .hatch")).to_have_count(1)
    expect(page.locator('.numbers [data-key="cut"]')).to_contain_text("2 of unknown outcome")
    expect(page.locator('.numbers [data-key="kept"]')).to_contain_text("keeps 57.1 to 83%, whatever unknown ones are")
    words = "2 of these have no known outcome and may be lost successes: it keeps 57.1 to 83% of the successes"
    expect(page.locator(".figure")).to_have_attribute("aria-label", re.compile(words))


def test_the_bar_of_losses_has_what_may_be_lost(page_of: PageOf) -> None:
    shown = partly_labelled()
    shown.setting = {"max_steps": 4}
    page = page_of(shown)
    words = "Of 4 that are stopped, 1 is a success, 2 of unknown outcome and 1 a failure"
    expect(page.locator(".losses")).to_have_attribute("aria-label", words)
    grown = page.locator(".losses span").evaluate_all("(all) => all.map((one) => [one.className, one.style.flexGrow])")
    assert grown == [["lost", "1"], ["hatch", "2"], ["failure", "1"]]
    expect(page.locator(".undecided h4")).to_have_text(
        "2 runs of unknown outcome that this setting stops, longest first"
    )
    expect(page.locator(".undecided .run-row")).to_have_count(2)
    expect(page.locator(".failures summary")).to_contain_text("1 failure that it stops")


def test_how_to_set_follows_the_setting_of_each_harness(page_of: PageOf) -> None:
    page = page_of(lab())
    page.locator(".boolab-cap input").press("Home")
    page.locator(".ways .others-place > summary").click()
    way = page.locator('.way[data-name="gemini-cli"]')
    expect(way.locator("summary")).to_contain_text('"maxSessionTurns": 1')
    expect(way.locator("button")).to_have_text("Copy")
    way.locator("summary").click()
    expect(way.locator("pre")).to_contain_text('"model": {')
    page.locator(".boolab-cap input").press("ArrowRight")
    expect(page.locator(".ways h4")).to_have_text("How to set cap 2")
    expect(way.locator("pre")).to_be_visible()  # it stays open
    expect(page.locator('.way[data-name="codex"]')).to_have_count(0)
    expect(page.locator(".ways")).to_contain_text("Cannot be set in: Codex.")


def test_what_is_copied_is_the_text_that_is_shown(page_of: PageOf) -> None:
    page = page_of(lab())
    page.evaluate(CLIPBOARD)
    expect(page.locator(".ways")).to_contain_text("Where a limit is set, what to paste")
    page.locator(".boolab-cap input").press("Home")
    way = page.locator('.way[data-name="langgraph"]')
    way.locator("button").press("Enter")
    expect(way.locator("button")).to_have_text("Copied")
    assert page.evaluate("window.copied") == way.locator("pre").first.text_content()


def test_hint_shows_without_a_limit_and_labels_do_not_overlap(page_of: PageOf) -> None:
    page = page_of(lab(), width=500)
    expect(page.locator(".hint")).to_contain_text("Move a slider")
    page.locator(".boolab-cap input").press("Home")
    expect(page.locator(".hint")).to_have_count(0)
    names = page.locator(".figure text:is(.label, .caption, .present)").all()
    places = [box for box in (name.bounding_box() for name in names) if box is not None]
    assert len(places) >= 4
    for n, a in enumerate(places):
        for b in places[n + 1 :]:
            apart = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
            assert apart or a["y"] + a["height"] <= b["y"] + 1 or b["y"] + b["height"] <= a["y"] + 1, (a, b)


def test_where_nothing_is_set_there_is_a_reason_and_no_button(page_of: PageOf) -> None:
    page = page_of(lab())
    expect(page.locator(".boolab-recommend")).to_have_count(0)
    expect(page.locator(".boolab-why")).to_have_text(f"Nothing is recommended: {lab().recommended['words']}")
    expect(page.locator(".verdict")).to_contain_text("Set no limit yet")


def test_cap_slider_is_aligned_with_the_axis_and_stays_in_view(page_of: PageOf) -> None:
    shown = lab()
    shown.setting = {"max_steps": 4}
    page = page_of(shown, width=1280)
    thumb, line = page.locator(".thumb"), page.locator(".figure line.present")
    for key in ("ArrowRight", "Home", "End"):
        page.locator(".boolab-cap input").press(key)
        page.wait_for_function(ALIGNED)
    line.wait_for(state="attached")
    page.set_viewport_size({"width": 1280, "height": 300})
    page.locator(".notes").scroll_into_view_if_needed()
    expect(thumb).to_be_in_viewport()
    expect(page.locator(".capbar .result")).to_be_visible()


def test_click_on_track_or_figure_sets_the_cap(page_of: PageOf) -> None:
    page = page_of(lab(), width=1280)
    label = page.locator(".label strong")
    for place in (".figure", ".track"):
        box = page.locator(place).bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + 46, box["y"] + 12)
        expect(label).to_have_text("1")
        page.locator(".boolab-cap input").press("End")
        expect(label).to_have_text("no limit")


def test_tooltip_in_both_figures_names_the_cap_that_a_click_sets(page_of: PageOf) -> None:
    page = page_of(CapLab(bl.load_dataset("atlas/tau-airline")), width=1280)
    for figure in (".figure", ".frontier"):
        page.evaluate(DRAWN)  # what is drawn again has no box in between
        box = page.locator(figure).bounding_box()
        assert box is not None
        x, y = (box["width"] * 0.5, 80) if figure == ".figure" else (60, 40)
        page.mouse.move(box["x"] + x, box["y"] + y)
        shown = page.locator(".tooltip")
        expect(shown).to_contain_text("stopped")
        (cap,) = re.findall(r"cap (\d+)", shown.inner_text())
        page.mouse.click(box["x"] + x, box["y"] + y)
        expect(page.locator(".hint")).to_have_count(0)
        near = int(page.locator(".label strong").inner_text())
        assert near == int(cap)  # a page has all caps


def test_controls_that_a_page_has_no_answers_for_are_disabled(page_of: PageOf) -> None:
    page = page_of(lab())
    expect(page.locator(".side input[type=range]")).to_have_count(2)
    expect(page.locator(".side").locator("select:enabled, input[type=checkbox]:enabled")).to_have_count(0)


def test_bars_of_stopped_runs_are_on_one_scale(page_of: PageOf) -> None:
    shown = CapLab(bl.load_dataset("atlas/tau-airline"))
    shown.setting = {"max_steps": 20}
    page = page_of(shown)
    rows = shown.answer["rows"]
    most = max(row["needed"] for row in rows)
    for row in rows[:4]:
        bar = page.locator(f'.run-row[data-run="{row["run"]}"] .spent')
        total = float(bar.get_attribute("width") or 0)
        spent, saved = (float(one.get_attribute("width") or 0) / total for one in bar.locator("rect").all())
        assert (spent, saved) == pytest.approx((row["at"] / most, (row["needed"] - row["at"]) / most))


def test_the_figure_is_there_as_a_table_too(page_of: PageOf) -> None:
    shown = lab()
    page = page_of(shown)
    page.locator(".caps summary").click()
    rows = page.locator(".caps tbody tr")
    expect(rows).to_have_count(len(shown.answer["curve"]["tips"]))
    expect(rows.first).to_contain_text("0 of 3, 0.0%")
    page.locator(".boolab-cap input").press("Home")
    expect(page.locator(".label strong")).to_have_text("1")
    expect(rows.first).to_be_visible()  # it stays open


def test_a_page_has_the_curves_of_all_agents(page_of: PageOf) -> None:
    agents = (("one", "A B -"), ("one", "A -"), ("two", "A -"))
    told = [Told((words,), success=True, agent=agent) for agent, words in agents]
    page = page_of(CapLab(runs_of(*told)))
    tabs = page.locator(".tabs button")
    expect(tabs).to_have_text([re.compile("one.*2 runs"), re.compile("two.*1 run"), re.compile("all together")])
    expect(tabs.first).to_have_attribute("aria-pressed", "true")
    page.locator(".boolab-cap input").press("Home")
    for tab, runs in ((1, "of 1"), (2, "of 3"), (0, "of 2")):
        tabs.nth(tab).press("Enter")
        expect(tabs.nth(tab)).to_have_attribute("aria-pressed", "true")
        expect(page.locator('.numbers [data-key="cut"]')).to_contain_text(runs)
        expect(page.locator(".label strong")).to_have_text("1")  # the cap stays


def test_a_page_of_one_agent_tells_where_the_others_are(page_of: PageOf) -> None:
    runs = runs_of(*(Told(("A B -",), success=True, agent=agent) for agent in ("one", "one", "two")))
    page = page_of(CapLab(runs).to_html(other_agents=False))
    expect(page.locator(".of")).to_contain_text("CapLab \u00b7 one, 2 runs")
    expect(page.locator(".tabs button")).to_have_count(0)
    expect(page.locator(".agents .quiet")).to_contain_text("2 more groups of runs on record: open them in a notebook")


def test_title_tick_button_and_verdict_show_the_same_cap(page_of: PageOf) -> None:
    page = page_of(CapLab([run for run in bl.load_dataset("atlas/intercode-bash") if run.model == "gpt-4"]))
    expect(page.locator(".verdict")).to_contain_text("Set a step cap of 7 and a doom-loop threshold of 3: on record")
    title = page.locator(".charts h4").first
    expect(title).to_have_text("With 95% confidence a cap of 7 keeps 95% of the successes")  # both save the 29%
    expect(page.locator(".track .ticks")).to_contain_text("7 recommended")
    expect(page.locator(".track .ticks i.on-record")).to_have_count(1)
    expect(page.locator(".boolab-recommend")).to_have_text("Recommended cap 7, doom loop 3 is set")
    expect(page.locator(".run-row button.open").first).to_have_text("Replay")


def test_what_is_left_off_is_marked_and_never_recommended(page_of: PageOf) -> None:
    shown = CapLab(bl.load_dataset("atlas/swebench-verified"))
    page = page_of(shown)
    expect(page.locator(".of")).to_contain_text("swe_agent, swebench-verified, 499 runs")
    verdict = " ".join(shown.recommended["verdict"])
    expect(page.locator(".verdict")).to_have_text(verdict)
    loop = shown.recommended["candidate"]["doom_loop"]
    expect(page.locator(".boolab-doom .ticks")).to_contain_text(f"{loop} left off")
    expect(page.locator(".ticks .recommended, line.recommended, .boolab-recommend")).to_have_count(0)
    page.locator(".boolab-cap input").press("Home")
    expect(page.locator(".elsewhere")).to_be_visible()


def test_each_group_of_a_page_has_its_own_decision(page_of: PageOf) -> None:
    shown = CapLab(bl.load_dataset("atlas/intercode-bash"))
    page = page_of(shown)
    expect(page.locator(".of .quiet")).to_have_text(" ".join(shown.recommended["overview"]))
    page.get_by_role("button", name="gpt-4").click()
    shown.setting = {"agent": "gpt-4"}
    expect(page.locator(".verdict")).to_have_text(" ".join(shown.recommended["verdict"]))


def test_a_few_long_runs_do_not_squeeze_the_axis(page_of: PageOf) -> None:
    told = [Told(("A B C D -",), success=True, task=f"t{n}") for n in range(300)]
    page = page_of(CapLab(runs_of(*told, Told(("A B " * 50 + "-",), success=False))))
    expect(page.locator(".track .ticks span.number").first).to_be_visible()
    numbers = page.locator(".track .ticks span.number").all_inner_texts()
    assert max(map(int, numbers)) <= 6
    expect(page.locator(".figure .caption")).to_contain_text("at the end 1 of 6 steps or more")


def test_main_figure_fits_the_first_screen_and_controls_stay(page_of: PageOf) -> None:
    shown = CapLab(bl.load_dataset("atlas/swebench-verified"))
    shown.setting = {"max_steps": 68}
    for width, height in ((1280, 800), (880, 680)):
        page = page_of(shown, width=width, height=height)
        expect(page.locator(".figure")).to_be_in_viewport()
        for part in (".verdict", ".side", ".capbar"):
            expect(page.locator(part)).to_be_in_viewport(ratio=1)
        page.locator(".failures").evaluate("(list) => list.scrollIntoView({ block: 'end' })")
        expect(page.locator(".side .boolab-budget")).to_be_in_viewport(ratio=1)
        assert page.evaluate("document.documentElement.scrollHeight") <= 1700


@pytest.mark.parametrize("width", [848, 1280])
def test_numbers_with_costs_and_ranges_do_not_overlap(page_of: PageOf, width: int) -> None:
    shown = CapLab(bl.load_runs(data_path("datasets") / "runs"))
    shown.setting = {"max_steps": 33, "doom_loop": 4}
    page = page_of(shown, width=width)
    places = page.locator(".numbers dd > *").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().toJSON())"
    )
    boxes = page.locator(".numbers > div").evaluate_all(
        "(all) => all.map((one) => one.getBoundingClientRect().toJSON())"
    )
    assert len(boxes) == 4
    for place in (one for one in places if one["width"]):
        assert any(box["left"] <= place["left"] and place["right"] <= box["right"] + 1 for box in boxes), place


APART = """() => {
  const names = [...document.querySelectorAll(".figure text:is(.label, .caption, .present)")];
  const marks = [...document.querySelectorAll(".trial :is(rect, path, circle)")];
  const boxes = (all) => all.map((one) => [one.textContent || one.getAttribute("class"), one.getBoundingClientRect()]);
  const across = (a, b) => a.left < b.right - 0.5 && b.left < a.right - 0.5;
  const meet = ([, a], [, b]) => across(a, b) && a.top < b.bottom - 1.5 && b.top < a.bottom - 1.5;
  const [texts, drawn] = [boxes(names), boxes(marks)];
  const met = (one, n) => [...texts.slice(n + 1), ...drawn].filter((other) => meet(one, other));
  return texts.flatMap((one, n) => met(one, n).map(([other]) => [one[0], other]));
}"""


def tried() -> tuple[list[bl.Run], TrialResult]:
    """A trial of a looser cap with some branches, and runs that went beyond a tight cap, so that there are hazards."""
    model = bl.SimulatedModel(trial_cases.profile())
    tight = trial_cases.recorded(24, model)
    longer = trial_cases.undisturbed(tight, model, trial_cases.agent(16))
    loose = [replace(run, run_id=f"loose {n}") for n, run in enumerate(longer)]
    runs = [*tight, *loose]
    plan = bl.trial(runs, {"max_steps": trial_cases.LOOSE}, model=model)
    with ThreadPoolExecutor(1) as thread:  # a browser keeps this thread's event loop
        return runs, thread.submit(asyncio.run, plan.run(8, progress=False)).result()


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 848)])
def test_trial_is_a_labelled_mark_that_overlaps_nothing(page_of: PageOf, theme: str, width: int) -> None:
    runs, found = tried()
    page = page_of(CapLab(runs, trial=found), theme, width=width)
    names = page.locator(".figure .trial text")
    label = f"trial: {found.n_branches} of {found.n_open} branches"
    expect(names).to_have_text([label, "cap 24", "hazards", "bounds"])
    assert page.evaluate(APART) == []
    expect(page.locator(".tried > p").first).to_have_text(f"Trial {found.sentences[0]}")
    dot = page.locator(".trial .dot")
    axis, mark = page.locator(".figure line.rule").first.bounding_box(), dot.bounding_box()
    assert axis is not None
    assert mark is not None
    assert abs(mark["x"] + mark["width"] / 2 - axis["x"] - axis["width"]) < 1.5
    dot.hover()
    tip = page.locator(".tooltip")
    expect(tip).to_contain_text(f"an additional success costs{found.price}")
    expect(tip).to_contain_text("95% interval")
    page.locator(".boolab-cap input").press("Home")
    present = page.locator(".figure text.present")
    expect(present).to_have_text("cap 1")
    dot.click()  # which sets no cap: what is beyond the record cannot be set
    page.locator(".boolab-cap input").press("ArrowRight")
    expect(present).to_have_text("cap 2")


def test_a_trial_of_another_change_is_a_sentence_and_a_table(page_of: PageOf) -> None:
    runs, _ = tried()
    plan = bl.trial(runs, {"tool_budget": 90})
    page = page_of(CapLab(runs, trial=plan))
    expect(page.locator(".tried > p")).to_have_text(f"Trial {plan.result.sentences[0]}")
    expect(page.locator(".tried tbody tr td:first-child")).to_have_text(["bounds", "hazards", "branches"])
    expect(page.locator(".figure .trial")).to_have_count(0)
