"""The table of running agents, in a browser."""

from pathlib import Path

import pytest

import boolab as bl
from tests.browser.conftest import PageOf
from tests.support.growing import claude_lines, encoded

pytestmark = pytest.mark.pages

HOSTILE = "<img src=x onerror='document.title=1'>\u202egnp.exe \x1b[31m"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_shows_the_agents_and_opens_one(page_of: PageOf, theme: str, tmp_path: Path) -> None:
    lines = [*claude_lines(4, same=True)]
    lines[0]["message"]["content"] = HOSTILE
    (tmp_path / "s1.jsonl").write_bytes(b"".join(map(encoded, lines)))
    (tmp_path / "s1" / "subagents").mkdir(parents=True)
    agent = claude_lines(2, agent="abc")
    (tmp_path / "s1" / "subagents" / "agent-abc.jsonl").write_bytes(b"".join(map(encoded, agent)))
    view = bl.watch(tmp_path, bl.max_steps(8) | bl.doom_loop(3), prices=False)
    view.stop()
    page = page_of(view, theme)
    page.locator(".boolab-watch_view tbody tr").first.wait_for()
    assert page.locator("h3").inner_text() == "2 running agents; ✕ a limit would stop 1 of them"
    rows = page.locator("tbody tr")
    assert rows.count() == 2
    assert rows.nth(0).locator(".steps").inner_text() == "4"
    assert rows.nth(0).locator(".limit").inner_text().strip() == "would stop: doom loop, 1 step ago"
    assert rows.nth(1).locator(".limit").inner_text().strip() == "2 of 8 steps"
    assert "doom loop after step 3 of turn 1" in page.locator(".alerts").inner_text()
    assert page.title() != "1"
    rows.nth(0).locator("button").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.run") == "s1/abc"
    page.keyboard.press("Enter")
    page.locator(".boolab-replay").wait_for()
    assert page.locator('button[aria-current="true"]').get_attribute("data-run") == "s1/abc"
