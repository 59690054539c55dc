"""A declared compaction threshold, beside the compactions of a log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import Event, Response, Step, Stop, ToolCall, ToolResult, Usage

CODEX = "model_auto_compact_token_limit"
CLAUDE = "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"


def recorded(contexts: list[int], compactions: dict[int, int | None], source: str = "claude_code", **more: Any) -> Run:
    """A run with so many tokens in each request, and the compactions before steps with the tokens on record."""
    steps = [
        Step(
            index, 1, None, None, None,
            Response("", (ToolCall(f"c{index}", "Read", "{}"),), usage=Usage(tokens, 100)),
            (ToolResult(f"c{index}", "x"),),
        )
        for index, tokens in enumerate(contexts, 1)
    ]  # fmt: skip
    events = [
        Event(None, "compaction", {"trigger": "auto", "tokens": tokens, "after_step": before - 1})
        for before, tokens in compactions.items()
    ]
    return Run(
        run_id="r", agent="", model="claude-opus-4-6", policy="", task="t", stop=Stop("finished", len(steps)),
        steps=tuple(steps), source=source, events=tuple(events), **more,
    )  # fmt: skip


def row(run: Run, name: str, value: float) -> dict[str, Any]:
    (only,) = bl.audit(run, {name: value}).frame.to_dict("records")
    return {str(key): cell for key, cell in only.items()}


def test_a_threshold_that_was_ignored_is_exceeded() -> None:
    found = row(recorded([60_000, 80_000, 120_000, 167_500, 30_000], {5: 167_800}), CLAUDE, 38)
    assert (found["verdict"], found["declared"], found["counted"]) == ("exceeded", 68_400, 167_800)
    assert (found["first_step_beyond"], found["steps_beyond"]) == (3, 2)
    assert "compacted 1 time, at 167,800 tokens" in found["note"]


def test_the_request_that_crosses_a_threshold_is_within_its_rule() -> None:
    found = row(recorded([60_000, 70_000, 30_000], {3: 70_300}), CLAUDE, 38)
    assert (found["verdict"], found["counted"]) == ("kept", 70_300)
    assert found["note"].endswith("compacted 1 time, at 70,300 tokens")
    sentences = " ".join(bl.audit(recorded([60_000, 70_000, 30_000], {3: 70_300}), {CLAUDE: 38}).sentences)
    assert f"{CLAUDE} 68,400 was not exceeded: at most 70,300 of 68,400 tokens of the context in 1 run." in sentences


@pytest.mark.parametrize(("contexts", "verdict"), [([10_000, 20_000], "never near"), ([10_000, 60_000], "kept")])
def test_a_run_below_the_threshold_is_not_beyond_it(contexts: list[int], verdict: str) -> None:
    assert row(recorded(contexts, {}), CLAUDE, 38)["verdict"] == verdict


def test_codex_compactions_have_the_tokens_of_the_step_before() -> None:
    run = recorded([60_000, 70_500, 20_000], {3: None}, "codex")
    found = row(run, CODEX, 70_000)
    assert (found["verdict"], found["counted"]) == ("kept", 70_600)
    assert found["note"].endswith("compacted 1 time, at 70,600 tokens")
    window = recorded([60_000, 95_000, 20_000], {3: None}, "codex", context_window=100_000)
    assert row(window, CODEX, 120_000)["declared"] == 90_000


def test_opencode_needs_the_window_on_record() -> None:
    run = recorded([60_000, 75_000, 90_000], {}, "opencode", context_window=200_000)
    found = row(run, "compaction.reserved", 130_000)
    assert (found["verdict"], found["declared"], found["first_step_beyond"]) == ("exceeded", 70_000, 3)
    assert bl.audit(recorded([1], {}, "opencode"), {"compaction.reserved": 130_000}).frame.empty


def test_a_large_window_shows_by_the_prompts() -> None:
    assert row(recorded([300_000, 20_000], {2: 395_000}), CLAUDE, 40)["declared"] == 392_000


def test_thresholds_are_read_from_the_files_of_a_project(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text(f'{{"env": {{"{CLAUDE}": "38"}}}}')
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(f"{CODEX} = 70000\n")
    run = recorded([60_000, 80_000, 100_000], {})
    found = bl.audit(run, config=tmp_path).frame
    assert found[["limit", "declared", "verdict"]].to_numpy().tolist() == [[CLAUDE, 68_400, "exceeded"]]


def test_a_manual_compaction_shows_no_threshold() -> None:
    run = recorded([60_000, 20_000], {})
    manual = Event(None, "compaction", {"trigger": "manual", "tokens": 60_100, "after_step": 1})
    assert row(replace(run, events=(manual,)), CLAUDE, 38)["note"] == ""
