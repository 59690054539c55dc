"""A compaction threshold as the setting of a harness: the number that it really uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.cli.main import main
from boolab.harnesses.claude_code import compaction_percent, compaction_threshold_of
from boolab.harnesses.exports.export import as_command, export
from boolab.harnesses.exports.values import Export, Limits
from boolab.harnesses.registry import TARGETS
from tests.support.cases import cases


def set_threshold(target: str, compact_at: int, window: int | None = None, max_output: int | None = None) -> Export:
    return export(target, Limits(compact_at=compact_at, window=window, max_output=max_output))


def test_codex_has_the_number_itself_before_any_table() -> None:
    made = export("codex", Limits(compact_at=70_000, max_tokens=5_000))
    text = made.parts[0].text
    assert text.index("model_auto_compact_token_limit = 70000") < text.index("[features.rollout_budget]")
    assert "at most 90% of the window of 100,000" in set_threshold("codex", 95_000, 100_000).notes[0]
    assert "above 90,000 tokens" in set_threshold("codex", 95_000, 100_000).notes[0]


def test_codex_file_gets_the_number_above_its_tables(tmp_path: Path) -> None:
    folder = tmp_path / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text('model = "gpt-5.4"\n\n[features]\nweb = true\n')
    set_threshold("codex", 70_000).write(root=tmp_path)
    text = (folder / "config.toml").read_text()
    assert text.index("model_auto_compact_token_limit = 70000") < text.index("[features]")
    assert set_threshold("codex", 70_000).diff(root=tmp_path) == ""


def test_opencode_reserves_the_rest_of_the_input_limit(tmp_path: Path) -> None:
    made = set_threshold("opencode", 70_000, 200_000)
    assert made.parts[0].changes == ((("compaction", "reserved"), 130_000),)
    made.write(root=tmp_path)
    assert '"reserved": 130000' in (tmp_path / "opencode.json").read_text()


def test_opencode_needs_the_input_limit_of_the_model() -> None:
    made = set_threshold("opencode", 70_000)
    assert made.parts[0].changes == ()
    assert "--window must give that limit" in made.notes[0]


@pytest.mark.parametrize(
    ("compact_at", "window", "max_output", "percent", "used"),
    [
        (70_000, None, None, 38, 68_400),
        (70_000, 200_000, 32_000, 38, 68_400),
        (70_000, 200_000, 8_000, 36, 69_120),
        (167_000, 200_000, None, 92, 165_600),
        (500_000, 1_000_000, 64_000, 51, 499_800),
    ],
)
def test_claude_code_has_whole_percent_of_the_usable_window(
    compact_at: int, window: int | None, max_output: int | None, percent: int, used: int
) -> None:
    made = set_threshold("claude-code", compact_at, window, max_output)
    assert f"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE={percent} claude" in made.text
    assert f"compact at {used:,} tokens" in made.notes[0]


def test_claude_code_cannot_be_set_above_its_own_threshold() -> None:
    made = set_threshold("claude-code", 167_001)
    assert "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE=" not in made.text
    assert "compacts at 167,000 tokens without it" in made.notes[0]


@cases(200)
@given(st.integers(1, 1_000_000), st.integers(40_000, 1_000_000), st.one_of(st.none(), st.integers(1, 128_000)))
def test_claude_code_never_compacts_later_than_asked(compact_at: int, window: int, max_output: int | None) -> None:
    percent = compaction_percent(compact_at, window, max_output)
    used = compaction_threshold_of(percent, window, max_output)
    usable = window - min(max_output or 20_000, 20_000)
    assert used <= min(compact_at, usable - 13_000)
    assert used >= min(compact_at - usable / 100 - 1, usable - 13_000)


@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"codex", "opencode", "claude-code"}))
def test_other_harnesses_report_that_no_setting_is_known(target: str) -> None:
    with pytest.raises(bl.SettingError, match="no setting of .* for a compaction threshold is known"):
        set_threshold(target, 70_000)
    made = export(target, Limits(max_steps=5, compact_at=70_000))
    assert "The compaction threshold is not set" in " ".join(made.notes)


def test_the_command_gives_the_same_export(capsys: pytest.CaptureFixture[str]) -> None:
    limits = Limits(compact_at=70_000, window=200_000, max_output=32_000)
    words = as_command(limits, "claude-code")
    assert words == "boolab export claude-code --compact-at 70000 --window 200000 --max-output 32000"
    assert main(words.split()[1:]) == 0
    assert "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE=38 claude" in capsys.readouterr().out


def test_the_cheapest_threshold_is_exported_as_the_command_does() -> None:
    agent = bl.Agent("editor", max_steps=400, tool_budget=None, doom_loop=None)
    found = bl.compaction_threshold(bl.run_sync(agent, "t", model=bl.EditorModel(seed=1)))
    for target in ("codex", "opencode", "claude-code"):
        assert found.export(target, window=200_000).text == set_threshold(target, found.threshold, 200_000).text


@pytest.mark.parametrize("words", ["--compact-at 0", "--compact-at 300000 --window 200000", "atlas/x --compact-at 9"])
def test_the_command_refuses_a_threshold_that_cannot_be(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["export", "codex", *words.split()])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code in (1, 2)
    assert "compact" in capsys.readouterr().err
