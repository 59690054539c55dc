"""The hook in Claude Code's settings: in, in again, and out, with every other byte as it was."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.errors import ConfigFileError
from boolab.hooks.claude_code import EVENTS
from boolab.hooks.options import Options
from boolab.hooks.settings import command_of, commands_in, read_settings, settings_path, with_hook, without_hook

COMMAND = command_of(Options.parse(["--max-steps", "56", "--exempt", "Task Output", "--shadow"]))
OTHER = command_of(Options.parse(["--doom-loop", "5"]))
MINE = """{
    "model": "opus",   
    "hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "~/check.sh"}]}
        ],
        "Notification": [{"hooks": [{"type": "command", "command": "beep"}]}]
    },
    "env": {"A": "1"}
}
"""  # noqa: W291 - a byte that stays


def entries(text: str) -> dict[str, int]:
    """How many commands of the hook each event has."""
    found = {}
    for event, groups in json.loads(text.removeprefix("\ufeff"))["hooks"].items():
        found[event] = [hook["command"] for group in groups for hook in group["hooks"]].count(COMMAND)
    return found


@pytest.mark.parametrize(
    "text", ["", "{}\n", "{}", MINE, MINE.replace("\n", "\r\n"), '{"env": {"A": "1"}}', "\ufeff{}"]
)
def test_it_is_put_in_at_each_event_once_and_taken_out_with_every_byte_as_it_was(text: str) -> None:
    changed = with_hook(text, COMMAND)
    assert {event: n for event, n in entries(changed).items() if n} == dict.fromkeys(EVENTS, 1)
    assert with_hook(changed, COMMAND) == changed
    assert commands_in(changed) == [COMMAND]
    assert without_hook(changed) == (text or "{}\n")


def test_other_options_replace_those_before_and_other_hooks_stay() -> None:
    changed = with_hook(with_hook(MINE, OTHER), COMMAND)
    assert commands_in(changed) == [COMMAND]
    assert json.loads(changed)["hooks"]["PreToolUse"][0] == json.loads(MINE)["hooks"]["PreToolUse"][0]
    assert without_hook(MINE) == MINE


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "model": st.text(max_size=5),
        "env": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
        "hooks": st.dictionaries(
            st.sampled_from(["PreToolUse", "Stop", "Notification"]),
            st.lists(
                st.fixed_dictionaries(
                    {"hooks": st.lists(st.fixed_dictionaries({"command": st.text(max_size=9)}), min_size=1, max_size=2)}
                ),
                min_size=1,
                max_size=2,
            ),
            min_size=1,
        ),
    },
)


@pytest.mark.slow
@given(SETTINGS, st.sampled_from([None, 2, "\t"]), st.booleans())
def test_any_settings_are_as_they_were_after_it_is_taken_out(
    settings: object, indent: int | str | None, ascii_only: bool
) -> None:
    text = json.dumps(settings, indent=indent, ensure_ascii=ascii_only) + "\n"
    assert without_hook(with_hook(text, COMMAND)) == text


def test_a_hook_that_was_written_by_hand_is_known_by_its_command() -> None:
    by_hand = '{"hooks": {"Stop": [{"hooks": [{"command": "/usr/bin/boolab hook claude-code --max-steps 3"}]}]}}'
    assert without_hook(by_hand) == "{}"
    others = by_hand.replace("boolab hook claude-code", "boolab export claude-code")
    assert without_hook(others) == others


@pytest.mark.parametrize("text", ["[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"hooks": 1}', "{", '{"a" 1}'])
def test_settings_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ConfigFileError):
        with_hook(text, COMMAND)
    with pytest.raises(ConfigFileError):
        without_hook(text)


def test_settings_are_read_from_where_claude_code_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    assert settings_path("user") == tmp_path / ".claude/settings.json"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "own"))
    assert settings_path("user") == tmp_path / "own/settings.json"
    assert settings_path("local") == Path(".claude/settings.local.json")
    assert read_settings(tmp_path / "none.json") is None
    (tmp_path / "bad.json").write_bytes(b"\xff")
    with pytest.raises(ConfigFileError, match="UTF-8"):
        read_settings(tmp_path / "bad.json")
