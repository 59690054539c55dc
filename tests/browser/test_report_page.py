"""The report in a real Chromium, from a file, without a network: the answer first, the rest on demand, by keyboard."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from boolab.logs.shipped import atlas_files
from boolab.report.html_page import page_of as report_of
from boolab.report.question import Question
from boolab.report.study import study_of
from tests.browser.conftest import PageOf

pytestmark = pytest.mark.pages

SETS = ("atlas/intercode-python", "atlas/tau-airline", "atlas/swebench-verified")
SIZES = [(1280, 800), (1600, 1000)]


@pytest.fixture(scope="module")
def several() -> str:
    """The report of four groups: two to limit, one to leave alone, and one with too few data."""
    return report_of(study_of([str(path) for name in SETS for path in atlas_files(name)], Question(keep=0.9)))


@pytest.fixture(scope="module")
def one() -> str:
    """The report of one agent, with a title."""
    paths = [str(path) for path in atlas_files("atlas/intercode-python")]
    return report_of(study_of(paths, Question(keep=0.9)), title="Python")


def bottom(place: Locator) -> float:
    box = place.bounding_box()
    assert box is not None
    return box["y"] + box["height"]


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_answer_table_and_chart_are_on_the_first_screen(
    page_of: PageOf, several: str, theme: str, width: int, height: int
) -> None:
    page = page_of(several, theme, width=width, height=height)
    expect(page.locator(".answer li").first).to_contain_text("Set limits for")
    for part in (".answer", ".summary", ".frontier svg", "#use .head"):
        assert bottom(page.locator(part).first) <= height, part
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    table = page.locator(".summary").evaluate("e => e.scrollWidth <= e.parentElement.clientWidth")
    assert table, "the table is not cut off"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(18, 22, 27)" if theme == "dark" else "rgb(255, 255, 255)")


def test_no_table_is_cut_off_in_a_window_of_1280_pixels(page_of: PageOf, several: str) -> None:
    page = page_of(several, width=1280)
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    tables = page.locator(".wide").evaluate_all("(all) => all.map((one) => one.scrollWidth - one.clientWidth)")
    assert tables
    assert max(tables) <= 0


def test_no_part_is_wider_than_a_narrow_window(page_of: PageOf, several: str) -> None:
    page = page_of(several, width=600)
    page.evaluate("document.querySelectorAll('details.fold').forEach((one) => (one.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_count_opens_the_list_of_the_runs_behind_it(page_of: PageOf, one: str) -> None:
    page = page_of(one)
    link = page.locator(".summary td a").first
    of = re.fullmatch(r"([\d,-]+) of ([\d,]+)", link.inner_text())
    assert of is not None
    link.press("Enter")
    listed = page.locator(link.get_attribute("href") or "")
    expect(listed.locator("table")).to_be_visible()
    title = listed.locator("summary").inner_text()
    lost = re.search(r": (\d+) runs? stopped, (none of them|no success|a success|\d+ of them)", title)
    assert lost is not None, title
    count = {"none of them": "0", "no success": "0", "a success": "1"}.get(lost[2], lost[2].split()[0])
    assert int(count) == int(of[2]) - int(of[1].partition("-")[0])


def test_menu_shows_the_settings_of_an_agent_and_copies_them(page_of: PageOf, several: str) -> None:
    page = page_of(several, width=1280)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    menu = page.get_by_role("combobox", name="Whose limits")
    assert page.locator(".way:visible").count() == 1
    names = menu.locator("option").all_inner_texts()
    menu.focus()
    page.keyboard.press("ArrowDown")
    expect(menu).to_have_value(names[1])
    shown = page.locator(".way:visible")
    assert shown.count() == 1
    command = shown.locator("pre").first.inner_text()
    assert command.startswith("boolab export TARGET ")
    button = shown.get_by_role("button", name="Copy").first
    button.press("Enter")
    expect(shown.locator(".copy button").first).to_have_text(re.compile("Copied|Press Ctrl"))


def test_caplab_is_drawn_once_opened_and_its_runs_open_in_replay(page_of: PageOf, one: str) -> None:
    page = page_of(one, width=1280)
    assert page.locator("iframe").count() == 0
    page.locator("details.frame > summary").press("Enter")
    page.locator("details.frame iframe").scroll_into_view_if_needed()  # a frame out of sight is not drawn
    lab = page.frame_locator("details.frame iframe")
    expect(lab.locator(".verdict")).to_contain_text("keep")
    shown = one[one.index('class="summary"') :]
    kept = re.search(r'<a href="#stopped-0">([\d,]+)', shown)
    assert kept is not None
    expect(lab.locator('.numbers [data-key="kept"] strong')).to_have_text(kept[1])
    lab.locator(".run-row button.open").first.press("Enter")
    expect(lab.locator(".opened .step-number")).to_contain_text("step")
    page.wait_for_function("document.querySelector('iframe').style.height !== ''")
    inner = page.frames[1].evaluate("document.body.getBoundingClientRect().height")
    assert abs(page.locator("iframe").evaluate("e => e.clientHeight") - inner) <= 2, "nothing scrolls in it"


def test_print_has_the_answer_first_and_omits_closed_parts(page_of: PageOf, several: str, tmp_path: Path) -> None:
    page = page_of(several)
    page.locator("#words > summary").click()
    page.locator("#limits > summary").click()  # open where a group has too few data
    page.emulate_media(media="print")
    assert page.locator("details.fold:visible").count() == 1
    expect(page.locator("#words")).to_be_visible()
    assert page.locator(".way:visible").count() == page.locator(".way").count()
    bar = page.locator(".bar i").first
    assert bar.evaluate("e => getComputedStyle(e).printColorAdjust") == "exact"
    page.set_viewport_size({"width": 687, "height": 1016})  # A4 without its margins
    assert bottom(page.locator(".frontier svg")) <= 1016
    paper = tmp_path / "report.pdf"
    page.pdf(path=paper, format="A4")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes())) <= 4


def test_without_javascript_all_but_caplab_is_there(page_of: PageOf, several: str) -> None:
    page = page_of(several, javascript=False)
    assert page.locator(".way:visible").count() == 2  # of the groups to limit
    assert page.locator(".summary tbody tr").count() == 4
    expect(page.locator("#print")).to_be_hidden()
    page.locator("#try summary").first.press("Enter")
    expect(page.get_by_text("This part needs JavaScript.").first).to_be_visible()


def test_the_names_in_the_chart_do_not_lie_over_each_other(page_of: PageOf, several: str) -> None:
    page = page_of(several, width=1280)
    boxes = [label.bounding_box() for label in page.locator(".frontier svg text[style*='700']").all()]
    assert len(boxes) == 5  # in bold: four groups, and the even trade
    for place, box in enumerate(boxes):
        assert box is not None
        for other in boxes[:place]:
            assert other is not None
            beside = box["x"] >= other["x"] + other["width"] or other["x"] >= box["x"] + box["width"]
            below = box["y"] >= other["y"] + other["height"] - 3 or other["y"] >= box["y"] + box["height"] - 3
            assert beside or below
