"""Runs that a page opens below a view: one at a time, and none that it does not hold."""

from dataclasses import replace
from typing import Final

import pytest
from playwright.sync_api import expect

from boolab.whatif.evaluate import counterfactual
from boolab.widgets._base.standalone_html import page
from boolab.widgets.heatmap.widget import Heatmap
from boolab.widgets.replay.widget import Replay, replay_parts
from tests.browser.conftest import PageOf
from tests.support.helpers import distinct, play

pytestmark = pytest.mark.pages

NOTED: Final = """
globalThis.pending = new Set();
const [started, ended] = [setTimeout, clearTimeout];
globalThis.setTimeout = (act, wait) => {
  const id = started(() => { pending.delete(id); act(); }, wait);
  pending.add(id);
  return id;
};
globalThis.clearTimeout = (id) => { pending.delete(id); ended(id); };
"""
"""Notes which timers run."""


def test_a_run_that_plays_ends_when_another_one_is_opened(page_of: PageOf) -> None:
    run = play(distinct(60), policy="naive")
    runs = [replace(run, run_id=name) for name in ("long", "next", "constructor")]
    heatmap = Heatmap(
        counterfactual(runs, grid={"max_steps": [60, None], "tool_budget": [2, None]}, aggregate=True), runs
    )
    shown = page_of(page("Heatmap", heatmap._parts(), runs=replay_parts(runs[:2])))
    shown.evaluate(NOTED)
    shown.click('.boolab-heatmap .cell[data-x="60"][data-y="No limit"]')

    def open_run(name: str) -> None:
        shown.locator(f".run-row[data-run='{name}'] button.open").click()

    open_run("long")
    replay = shown.locator(".boolab-replay")
    replay.press("Home")
    replay.locator(".play").click()
    expect(replay.locator(".step-number")).to_contain_text("step 2 of")
    open_run("next")
    expect(replay.locator(".step-number")).to_contain_text("60 of 61")
    assert replay.count() == 1
    shown.wait_for_function("() => pending.size === 0")
    open_run("constructor")
    expect(shown.locator(".opened")).to_have_text(
        "This file does not contain the steps of constructor: open it where the runs are."
    )
    assert replay.count() == 0


def test_a_page_of_a_run_that_was_playing_stands_still(page_of: PageOf) -> None:
    replay = Replay(play(distinct(60), policy="naive"), step=7)
    replay.playing = True
    shown = page_of(replay)
    expect(shown.locator(".play")).to_have_attribute("aria-pressed", "false")
    expect(shown.locator(".step-number")).to_have_text("step 7 of 61")
