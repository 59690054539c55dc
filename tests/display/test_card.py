"""The displays of single values: short, safe, and with the numbers of the value."""

import re
from dataclasses import replace
from typing import Any, Final

import pytest

import boolab as bl
from boolab.display.cards import MAX_MARKS
from boolab.io.resources import data_path
from tests.browser.hostile import MARKUP, hostile_run

LOOK: Final = {"tool_calls": [{"name": "grep", "arguments": {"pattern": "x"}}]}


def run_of(n: int, **changes: Any) -> bl.Run:
    run = bl.run_sync(None, "Find $x$", model=bl.ScriptedModel([{**LOOK, "repeat": n}, "Done."]), tools=[grep])
    return replace(run, **changes)


def grep(pattern: str) -> str:
    """Search."""
    if pattern == "no":
        raise bl.ToolError("no")
    return "found"


@pytest.mark.parametrize(("success", "words"), [(True, "✓ success"), (False, "✕ failure"), (None, "not labelled")])
def test_a_run_has_its_outcome_its_task_and_its_counts(success: bool | None, words: str) -> None:
    run = run_of(2, success=success)
    shown = run._repr_html_()
    assert words in shown
    for part in (run.run_id, "Find $x$", "3 steps", "2 calls", "mathjax_ignore"):
        assert part in shown


@pytest.mark.parametrize("steps", [1, MAX_MARKS, MAX_MARKS + 1, 500])
def test_the_strip_has_a_mark_for_each_step_or_for_several(steps: int) -> None:
    run = run_of(1)
    long = replace(run, steps=run.steps[:1] * steps)
    marks = re.findall(r'height="13"', long._repr_html_())
    assert len(marks) == -(-steps // -(-steps // MAX_MARKS)) <= MAX_MARKS


def test_a_failed_call_is_marked_below_its_step() -> None:
    failing = {"tool_calls": [{"name": "grep", "arguments": {"pattern": "no"}}]}
    run = bl.run_sync(None, "Find", model=bl.ScriptedModel([LOOK, failing, "Done."]), tools=[grep])
    assert run._repr_html_().count('fill="var(--wrong)"') == 1
    assert "1 error" in run._repr_html_()


def test_texts_of_a_log_are_no_markup() -> None:
    assert MARKUP not in hostile_run()._repr_html_()


def test_an_agent_has_its_limits_under_its_policy() -> None:
    shown = bl.load_agents(data_path("agents") / "AGENTS.md")["refactorer"]._repr_html_()
    assert "step cap: at most 5" in shown
    assert "list_files, read_file, search_text" in shown


@pytest.mark.parametrize("name", sorted(bl.policies))
def test_a_policy_has_its_limits_and_stands_in_the_table_of_all(name: str) -> None:
    policy = bl.policies[name]
    shown = policy._repr_html_()
    for setting in policy.effective({}).values():
        assert setting is None or f"{setting:,}" in shown
    assert f"<td>{name}</td>" in bl.policies._repr_html_()
    assert name in repr(bl.policies)
