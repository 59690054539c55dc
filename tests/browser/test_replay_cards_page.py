"""Replay's cards and timeline in a page: diffs, results that were there before, tooltips, and marks that open runs."""

from typing import Any, Final

import pytest
from playwright.sync_api import Page, expect

import boolab as bl
from boolab.widgets._base.standalone_html import PagePart, page
from boolab.widgets.replay.data import replay_data
from tests.browser.conftest import PageOf
from tests.browser.test_replay_page import STOP, call, played, row

pytestmark = pytest.mark.pages

EDIT: Final = call("edit", path="a.py", old_str="def f():\n\tpass\n", new_str="def f():\n\treturn 1\n")


def opened(page_of: PageOf, data: dict[str, Any], step: int = 1) -> Page:
    """A run's page."""
    traits = {"step": step, "playing": False, "speed": 1, "axis": "count", "query": ""}
    shown = page_of(page("Replay", [PagePart("replay", data, traits)]))
    shown.locator(".boolab-replay .play").first.wait_for()
    return shown


def edited() -> dict[str, Any]:
    """What Replay is given of a run that edits a file twice in the same way, and compacts before it ends."""
    model = bl.ScriptedModel([{"tool_calls": [EDIT], "repeat": 2}, "Done."], tools={"edit": "E999\n" * 9})
    made = replay_data(bl.run_sync(None, "Edit", model=model), [])
    made["between"].insert(
        0,
        {
            "kind": "compaction",
            "after": 2,
            "title": "Compaction",
            "text": "",
            "name": "c",
            "details": "What was done.",
            "about": "its summary",
            "child": None,
        },
    )
    return made


def test_edit_is_a_diff_with_line_numbers_and_json_on_demand(page_of: PageOf) -> None:
    card = row(opened(page_of, edited()), 1).locator(".call")
    lines = [line.locator("td").all_text_contents() for line in card.locator(".diff tr").all()]
    assert lines == [["1", "1", " ", "def f():"], ["2", "", "\N{MINUS SIGN}", "\tpass"], ["", "2", "+", "\treturn 1"]]
    expect(card.locator(".about")).to_have_text("a.py")
    expect(card.locator(".json")).to_be_hidden()
    card.get_by_role("button", name="JSON").click()
    expect(card.locator(".json")).to_contain_text('"old_str"')


def test_a_path_stands_once_on_a_card_with_several_edits(page_of: PageOf) -> None:
    edits = [{"file_path": path, "old_string": "x", "new_string": "y"} for path in ("a.py", "a.py", "b.py", "b.py")]
    calls = [{"name": "MultiEdit", "arguments": {"file_path": "a.py", "edits": edits}}]
    run = bl.run_sync(None, "Edit", model=bl.ScriptedModel([{"tool_calls": calls}, "Done."], tools={"MultiEdit": "ok"}))
    card = row(opened(page_of, replay_data(run, [])), 1).locator(".call")
    expect(card.locator(".diff")).to_have_count(4)
    expect(card.get_by_text("a.py", exact=True)).to_have_count(1)
    expect(card.get_by_text("b.py", exact=True)).to_have_count(1)


def test_a_result_that_was_there_before_is_a_link_to_its_step(page_of: PageOf) -> None:
    shown = opened(page_of, edited(), step=2)
    card = row(shown, 2).locator(".call")
    expect(card).to_contain_text("= same result as step 1, byte for byte")
    expect(card.locator(".flag")).to_have_text("↻ same call as step 1")
    card.get_by_role("button", name="Show 45 B").click()
    expect(card.locator(".result")).to_contain_text("E999")
    card.locator(".folded .to-step").click()
    expect(shown.locator(".timeline")).to_have_attribute("aria-valuenow", "1")


@pytest.mark.parametrize("place", [".opener.compaction", ".outline .compaction"])
def test_a_compaction_leads_to_its_step_and_opens_what_it_did(page_of: PageOf, place: str) -> None:
    shown = opened(page_of, edited())
    expect(shown.get_by_text("What was done.")).to_be_hidden()
    shown.locator(place).click()
    expect(shown.get_by_text("What was done.")).to_be_visible()
    expect(shown.locator(".timeline")).to_have_attribute("aria-valuenow", "2")


def test_a_subagent_on_the_timeline_opens_its_run(page_of: PageOf) -> None:
    shown = opened(page_of, replay_data(played()))
    shown.locator(".opener.subagent").click()
    expect(shown.locator(".level:visible .trail")).to_contain_text("back to step 4")


def test_the_tooltip_of_a_step_stays_inside_the_frame(page_of: PageOf) -> None:
    shown = opened(page_of, replay_data(played()))
    box = shown.locator(".timeline").bounding_box()
    assert box is not None
    for x in (95, box["width"] - 120):
        shown.mouse.move(box["x"] + x, box["y"] + box["height"] - 4)
        tooltip = shown.locator(".hover").bounding_box()
        assert tooltip is not None
        assert box["x"] <= tooltip["x"]
        assert tooltip["x"] + tooltip["width"] <= box["x"] + box["width"]
        assert box["y"] <= tooltip["y"]
        assert tooltip["y"] + tooltip["height"] <= box["y"] + box["height"] + 1
    expect(shown.locator(".hover")).to_contain_text(f"step {STOP}")
