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
def test_agent_editor_shows_fields_faults_and_resulting_limits(page_of: PageOf, tmp_path: Path, theme: str) -> None:
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


def test_unset_fields_name_the_default_and_paragraphs_stay_whole(page_of: PageOf) -> None:
    page = page_of(AgentEditor(data_path("agents") / "AGENTS.md"))
    field = {name: page.locator(f"[data-field={name}]") for name in ("policy", "tool_budget", "exempt", "prompt")}
    expect(field["policy"]).to_have_text("not set: boocode applies")
    expect(field["tool_budget"]).to_have_text("not set: at most 50, the policy's default")
    expect(field["exempt"]).to_have_text("not set: all repeats of a call count")
    expect(page.locator("dt", has_text="equal calls")).to_be_visible()
    assert "If the change needs" in field["prompt"].inner_text()
    assert "\n\n" in field["prompt"].inner_text()


def test_lists_and_code_of_a_prompt_keep_their_lines(page_of: PageOf, tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    for prompt in ("Steps:\n- one\n- two\nThen stop.", "Run\n```\nls\npwd\n```"):
        path.write_text(f"---\nname: a\n---\n{prompt}\n")
        page = page_of(AgentEditor(path))
        expect(page.locator("[data-field=prompt]")).to_be_visible()
        assert page.locator("[data-field=prompt]").inner_text() == prompt
