"""The hook in Claude Code's settings: in, in again, and out, with every other byte as it was."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.errors import ConfigFileError
from boolab.harnesses.exports.export import export
from boolab.harnesses.exports.values import Limits
from boolab.io.json_edit import JsonText
from boolab.live.hooks.claude_code import EVENTS
from boolab.live.hooks.counts import monitor_for
from boolab.live.hooks.options import Options
from boolab.live.hooks.settings import (
    command_of,
    commands_in,
    hook_arguments,
    mentions_in,
    options_in,
    settings_path,
    with_hook,
    without_hook,
)

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
def test_hook_is_added_once_per_event_and_removed_completely(text: str) -> None:
    changed = with_hook(text, COMMAND)
    assert {event: n for event, n in entries(changed).items() if n} == dict.fromkeys(EVENTS, 1)
    assert with_hook(changed, COMMAND) == changed
    assert commands_in(changed) == [COMMAND]
    assert without_hook(changed) == (text or "{}\n")


@pytest.mark.parametrize("text", ["", "\n", " \t\r\n", "\ufeff", "\ufeff\n"])
def test_blank_settings_are_those_of_a_new_file(text: str) -> None:
    assert without_hook(text) == text
    assert commands_in(text) == []
    changed = with_hook(text, COMMAND)
    assert changed == text[: text.startswith("\ufeff")] + with_hook("", COMMAND)


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


@pytest.mark.parametrize(
    "command",
    [
        COMMAND,
        "boolab hook claude-code",
        "/opt/my/boolab hook claude-code --max-steps=9",
        "~/bin/boolab hook claude-code --max-steps 9",
        "  boolab\thook  claude-code --max-steps 9 \n",
        '"$CLAUDE_PROJECT_DIR"/.venv/bin/boolab hook claude-code --max-steps 9',
        "$HOME/.venv/bin/python3.11 -m boolab hook claude-code --max-steps 9",
        "'/opt/my tools/python' -P -Es -m boolab hook claude-code --exempt 'a; b && c | d > e'",
        "/opt/my\\ tools/boolab hook claude-code --exempt \"a; 'b' #c\"",
        f"{shlex.quote(sys.executable)} -m boolab hook claude-code --exempt=--max-steps",
    ],
)
def test_a_command_that_is_the_hook_is_known(command: str) -> None:
    assert hook_arguments(command) == shlex.split(command)[shlex.split(command).index("claude-code") + 1 :]
    text = json.dumps({"hooks": {"Stop": [{"matcher": "*", "hooks": [{"command": command}]}]}})
    assert commands_in(text) == [command]
    assert mentions_in(text) == []
    assert without_hook(text) == "{}"
    assert commands_in(with_hook(text, OTHER)) == [OTHER]


@pytest.mark.parametrize(
    "command",
    [
        "notify-send done; boolab hook claude-code --max-steps 9",
        "boolab hook claude-code --max-steps 9; notify-send done",
        "boolab hook claude-code --max-steps 9\nnotify-send done",
        "boolab hook claude-code --max-steps 9 && x",
        "boolab hook claude-code --max-steps 9&",
        "boolab hook claude-code --max-steps 9 || true",
        "cd /x && FOO=1 /opt/my/boolab hook claude-code --max-steps 9 | tee -a log",
        "boolab hook claude-code --max-steps 9 |tee log",
        "boolab hook claude-code --max-steps 9 2>>log",
        "boolab hook claude-code --max-steps 9>log",
        "boolab hook claude-code <event",
        "timeout 5 boolab hook claude-code --max-steps 9",
        "env FOO=1 boolab hook claude-code",
        "uv run boolab hook claude-code",
        "exec boolab hook claude-code",
        "! boolab hook claude-code",
        "(boolab hook claude-code)",
        "{ boolab hook claude-code; }",
        "FOO=1 boolab hook claude-code",
        "FOO=/bin/boolab hook claude-code",
        "boolab hook claude-code --max-steps $N",
        'boolab hook claude-code --max-steps "$N"',
        "boolab hook claude-code --max-steps $(cat n)",
        "boolab hook claude-code --max-steps `cat n`",
        'boolab hook claude-code --exempt "`id`"',
        "boolab hook claude-code --exempt *",
        "boolab hook claude-code --max-steps 9 # mine",
        "boolab hook claude-code --log",
        "boolab hook claude-code --install --max-steps 9",
        "my-audit --note boolab hook claude-code",
        "python audit.py -m boolab hook claude-code",
        "python -c x -m boolab hook claude-code",
        "bash -c 'boolab hook claude-code --max-steps 9'",
        "echo 'see boolab hook claude-code'",
        "boolab hook claude-code 'no end",
        "boolab hook claude-code \\\n--max-steps 9",
    ],
)
def test_a_command_that_contains_the_hook_stays(command: str) -> None:
    assert hook_arguments(command) is None
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"command": command}]}]}}, indent=2)
    assert mentions_in(text) == [("Stop", command)]
    assert options_in(text) == []
    assert commands_in(text) == []
    assert without_hook(text) == text
    changed = with_hook(text, COMMAND)
    assert json.loads(changed)["hooks"]["Stop"][0] == json.loads(text)["hooks"]["Stop"][0]
    assert without_hook(changed) == text


@pytest.mark.parametrize("command", [None, 1, "", " ", "boolab", "boolab hook", "boolab hooks claude-code", "'", "\0"])
def test_other_commands_are_not_the_hook(command: object) -> None:
    assert hook_arguments(command) is None
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"command": command}, 1]}, 2]}})
    assert (mentions_in(text), without_hook(text)) == ([], text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            '{"hooks": {\n  // mine\n  "Stop": [{"hooks": [{"command": "boolab hook claude-code"}]}]\n}}',
            '{"hooks": {\n  // mine\n}}',
        ),
        (
            '{"hooks": {"Stop": [\n  {"note": "mine", "hooks": [{"command": "boolab hook claude-code"}]}\n]}}',
            '{"hooks": {"Stop": [\n  {"note": "mine", "hooks": []}\n]}}',
        ),
        (
            '{"hooks": {"Stop": [{"hooks": [{"command": "boolab hook claude-code"}]}], "Notification": []}}',
            '{"hooks": {"Notification": []}}',
        ),
        (
            '{"hooks": {"Stop": [{"hooks": [{"command": "boolab hook claude-code"}, {"command": "beep"}]}]}}',
            '{"hooks": {"Stop": [{"hooks": [{"command": "beep"}]}]}}',
        ),
    ],
)
def test_a_removal_takes_nothing_but_the_hook(text: str, left: str) -> None:
    assert without_hook(text) == left


def test_settings_with_many_keys_take_no_quadratic_time(monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    read = JsonText.read.__func__  # type: ignore[attr-defined]

    def counted(cls: type, text: str) -> JsonText:
        reads.append(len(text))
        made: JsonText = read(cls, text)
        return made

    monkeypatch.setattr(JsonText, "read", classmethod(counted))
    text = json.dumps({f"k{number}": number for number in range(2_000)}, indent=2) + "\n"
    assert without_hook(with_hook(text, COMMAND)) == text
    assert len(reads) == 4  # each text once, before and after its edit


def test_more_entries_than_anybody_installs_are_refused() -> None:
    entries = [{"command": "boolab hook claude-code"}, {"command": "x"}] * 101
    text = json.dumps({"hooks": {"Stop": [{"hooks": entries}]}})
    for edit in (without_hook, lambda text: with_hook(text, COMMAND)):
        with pytest.raises(ConfigFileError, match="has the hook 101 times: expected it at most 100 times"):
            edit(text)


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


@pytest.mark.parametrize(
    "tool", ["mcp__my-server__do", "-x", "--log", "--max-steps", "a b", "-", "--exempt=x", "'", "ü"]
)
def test_an_exempt_tool_may_have_any_name(tool: str) -> None:
    options = Options({"doom_loop": 5}, exempt=(tool,))
    monitor_for(options)
    (read,) = options_in(with_hook("", command_of(options)))
    assert read.exempt == (tool,)
    assert read.words() == options.words()
    (part,) = export("claude-code", Limits(doom_loop=5, exempt=(tool,))).parts
    (line,) = [line for line in part.text.splitlines() if line.startswith("boolab hook")]
    assert Options.parse(shlex.split(line)[4:]).exempt == (tool,)
