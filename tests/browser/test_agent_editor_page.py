"""The form of an agent's file, as a page to read."""

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import expect

from boolab.io.resources import data_path
from boolab.widgets.agent_editor.widget import AgentEditor
from tests.browser.conftest import PageOf

pytestmark = pytest.mark.pages

HOSTILE = "<img src=x onerror='document.title=1'>"
TEXT = f"""---
name: a
steps: 5
policy: opencode_3631
mode: "{HOSTILE}"
---
Look. {HOSTILE} \u202egnp.exe
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_shows_the_fields_what_is_wrong_and_the_limits_that_follow(
    page_of: PageOf, tmp_path: Path, theme: str
) -> None:
    path = tmp_path / "a.md"
    path.write_text(TEXT)
    editor = AgentEditor(path)
    editor.fields["max_steps"].value = "7"
    editor.fields["doom_loop"].value = "many"
    page = page_of(editor, theme, width=500)
    page.locator("[data-field=max_steps]").wait_for()
    assert page.locator("[data-field=max_steps]").inner_text() == "7"
    diff = [page.locator(f".diff tr.{kind}") for kind in ("removed", "added")]
    assert [one.inner_text().split() for one in diff] == [["3", "\u2212", "steps:", "5"], ["3", "+", "steps:", "7"]]
    assert page.locator(".diff .changed").all_inner_texts() == ["5", "7"]
    assert "'many' is not accepted" in page.locator("[data-field=doom_loop] [role=alert]").inner_text()
    assert page.locator(".limits h4").inner_text() == "Limits under policy opencode_3631"
    assert page.locator(".limits li").all_inner_texts() == editor.effective
    assert page.locator(".extra li").all_inner_texts() == [f"mode: {HOSTILE!r}"]
    assert page.locator("[data-field=prompt]").inner_text() == f"Look. {HOSTILE} ⟨U+202E⟩gnp.exe"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_diff_is_seen_without_scrolling(page_of: PageOf, tmp_path: Path) -> None:
    path = Path(shutil.copy(data_path("agents") / "AGENTS.md", tmp_path))
    editor = AgentEditor(path)
    editor.fields["max_steps"].value = "7"
    editor.fields["tools"].value = "read_file"
    page = page_of(editor, width=1280)
    expect(page.locator(".diff")).to_be_in_viewport(ratio=1)
