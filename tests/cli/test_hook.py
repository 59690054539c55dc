"""`boolab hook`: nothing is written that was not shown, and what a hook cannot hold is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from boolab.cli.main import main
from boolab.errors import program
from boolab.live.hooks.journal import append_log
from boolab.live.hooks.settings import commands_in
from tests.support.hook_events import Did, Session

INSTALL = ["hook", "claude-code", "--install", "--max-steps", "3", "--doom-loop", "2"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without Claude Code."""
    for name in ("CLAUDE_CONFIG_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_hook_install_shows_its_change_and_remove_undoes_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{\n  "model": "opus"\n}\n')
    assert main([*INSTALL, "--yes"]) == 0
    shown = capsys.readouterr().out
    assert f"+++ {settings}" in shown
    added = sum(line.startswith("+") and not line.startswith("+++") for line in shown.splitlines())
    assert shown.startswith(f"Changes {settings}: {added} lines added, ")
    for line in set(settings.read_text().splitlines()) - {"{", "}", '  "model": "opus"'}:
        assert f"+{line}" in shown
    assert main([*INSTALL, "--yes"]) == 0
    assert capsys.readouterr().err.endswith(f"settings.json has it already\nNext: {program()} hook claude-code --log\n")
    assert main(["hook", "claude-code", "--remove", "--yes"]) == 0
    assert settings.read_text() == '{\n  "model": "opus"\n}\n'
    assert main(["hook", "claude-code", "--remove", "--yes"]) == 0
    assert "no hook of boolab is in" in capsys.readouterr().err


def test_a_file_that_the_install_made_is_removed_with_the_hook(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = home / ".claude/settings.json"
    assert main([*INSTALL, "--yes"]) == 0
    assert settings.exists()
    capsys.readouterr()
    assert main(["hook", "claude-code", "--remove", "--yes"]) == 0
    assert not settings.exists()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        f"boolab: removed {settings}, which held nothing but this hook",
        f"Next: {program()} doctor",
    ]


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("no", 1)])
def test_it_asks_before_it_removes_the_file(
    answer: str, code: int, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = home / ".claude/settings.json"
    assert main([*INSTALL, "--yes"]) == 0
    assert main(["hook", "claude-code", "--remove"]) == 1  # no terminal
    assert "--yes answers it with yes" in capsys.readouterr().err
    asked: list[str] = []

    def reply(question: str) -> str:
        asked.append(question)
        return answer

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", reply)
    assert main(["hook", "claude-code", "--remove"]) == code
    assert asked == [f"Remove {settings}, which holds nothing but this hook? [y/N] "]
    assert settings.exists() is (code == 1)


MINE = '{\n  "permissions": {"allow": ["Bash(ls)"]}\n}\n'
"""What Claude Code writes while the question stands: the user allows a tool."""


@pytest.mark.parametrize("before", [None, "{}\n", '{\n  "model": "opus"\n}\n'])
@pytest.mark.parametrize("what", ["--install", "--remove"])
def test_what_is_written_while_it_asks_is_not_lost(
    before: str | None, what: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = home / ".claude/settings.json"
    settings.parent.mkdir()
    if before is not None:
        settings.write_text(before)
    if what == "--remove":
        assert main([*INSTALL, "--yes"]) == 0

    def reply(_: str) -> str:
        settings.write_text(MINE)
        return "y"

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", reply)
    assert main(INSTALL if what == "--install" else ["hook", "claude-code", "--remove"]) == 1
    assert settings.read_text() == MINE
    assert "has changed since it was read, and nothing was written: run the command again" in " ".join(
        capsys.readouterr().err.split()
    )


@pytest.mark.parametrize("change", ["before", "options", "by hand"])
def test_a_file_that_the_install_did_not_make_is_not_removed(change: str, home: Path) -> None:
    settings = home / ".claude/settings.json"
    settings.parent.mkdir()
    if change == "before":
        settings.write_text("{}\n")
    assert main([*INSTALL, "--yes"]) == 0
    if change == "options":  # it is boolab's alone all the same
        assert main([*INSTALL[:3], "--max-steps", "7", "--yes"]) == 0
    elif change == "by hand":
        text = settings.read_text()
        settings.write_text(MINE)
        settings.write_text(text.replace(": 10", ": 20"))
    assert main(["hook", "claude-code", "--remove", "--yes"]) == 0
    assert settings.exists() == (change != "options")
    assert change == "options" or settings.read_text() == "{}\n"


def test_a_command_that_contains_the_hook_is_pointed_out(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "timeout 5 boolab hook claude-code --max-steps 9 2>>log"
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}, indent=2)
    (home / "mine.json").write_text(text)
    for what in (INSTALL, ["hook", "claude-code", "--remove"]):
        assert main([*what, "--settings", "mine.json", "--yes"]) == 0
        told = " ".join(capsys.readouterr().err.split())
        assert f"mine.json: Stop has a command that is not the hook alone, so it stays as it is: {command}" in told
    assert (home / "mine.json").read_text() == text


def test_a_link_is_followed_to_the_file_that_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".claude").mkdir()
    (home / "dotfiles").mkdir()
    real = home / "dotfiles/settings.json"
    real.write_text("{}\n")
    (home / ".claude/settings.json").symlink_to(real)
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)

    def reply(question: str) -> str:
        asked.append(question)
        return "y"

    monkeypatch.setattr("builtins.input", reply)
    assert main(INSTALL) == 0
    assert asked == [f"Write {real}? [y/N] "]
    assert f"+++ {home}/.claude/settings.json -> {real}" in capsys.readouterr().out
    assert main(["hook", "claude-code", "--remove", "--yes"]) == 0
    assert real.read_text() == "{}\n"
    assert (home / ".claude/settings.json").is_symlink()


def test_remove_through_a_link_leaves_the_file_that_it_leads_to(home: Path) -> None:
    (home / ".claude").mkdir()
    real, link = home / "dotfiles/settings.json", home / ".claude/settings.json"
    assert main([*INSTALL, "--settings", str(real), "--yes"]) == 0
    link.symlink_to(real)
    assert main(["hook", "claude-code", "--remove", "--yes"]) == 0
    assert (link.is_symlink(), json.loads(real.read_text())) == (True, {})


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("settings.local.json", "leads back to itself"),
        ("nowhere/settings.json", "where there is nothing"),
        ("../../outside/settings.json", "outside of"),
        ("/dev/zero", "outside of"),
    ],
)
def test_a_link_that_leads_away_is_refused(
    target: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/settings.json").write_text("{}")
    settings = tmp_path / "project/.claude/settings.local.json"
    settings.parent.mkdir(parents=True)
    settings.symlink_to(target)
    monkeypatch.chdir(tmp_path / "project")
    for what in (INSTALL, ["hook", "claude-code", "--remove"]):
        assert main([*what, "--local", "--yes"]) == 1
        assert said in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "outside/settings.json").read_text() == "{}"
    assert not (tmp_path / "project/.claude/nowhere").exists()


def test_a_read_only_file_is_not_written(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = home / "mine.json"
    settings.write_text("{}")
    settings.chmod(0o444)
    assert main([*INSTALL, "--settings", "mine.json", "--yes"]) == 1
    assert "mine.json: is read-only: make it writable" in capsys.readouterr().err
    assert settings.read_text() == "{}"


@pytest.mark.parametrize("path", ["~no-such-user/settings.json", "x" * 300, "bad.json/settings.json", "a\nb/.."])
def test_a_path_that_is_none_is_a_sentence(path: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "bad.json").write_text("{}")
    for what in (INSTALL, ["hook", "claude-code", "--remove"]):
        code = main([*what, f"--settings={path}", "--yes"])
        told = capsys.readouterr().err
        assert told.startswith("boolab:")
        assert code == 1


def test_an_unknown_harness_is_told_the_known_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["hook", "claude"])
    told = " ".join(capsys.readouterr().err.split())
    assert "argument HARNESS: 'claude' is not known; did you mean claude-code?" in told


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 1), ("no", 1)])
def test_it_asks_before_it_writes(answer: str, code: int, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    assert main(INSTALL) == code
    assert (home / ".claude/settings.json").exists() is (code == 0)


def test_without_a_terminal_it_writes_nothing_unless_told_to(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(INSTALL) == 1
    told = capsys.readouterr()
    assert "+++" in told.out
    assert "--yes answers it with yes" in told.err
    assert not (home / ".claude").exists()


@pytest.mark.parametrize(
    ("option", "path"),
    [
        ("--user", ".claude/settings.json"),
        ("--project", "project/.claude/settings.json"),
        ("--local", "project/.claude/settings.local.json"),
        ("--settings=mine.json", "project/mine.json"),
    ],
)
def test_it_writes_where_claude_code_reads(option: str, path: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "project").mkdir()
    (home / "bin").mkdir()
    (home / "bin/boolab").symlink_to(Path(sys.executable).with_name("boolab"))
    monkeypatch.chdir(home / "project")
    assert main([*INSTALL, option, "--yes"]) == 0
    assert "PostToolBatch" in json.loads((home / path).read_text())["hooks"]


def test_the_command_that_it_installs_is_the_hook(home: Path) -> None:
    assert main([*INSTALL, "--exempt", "Task Output", "--yes"]) == 0
    command = json.loads((home / ".claude/settings.json").read_text())["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    event = {"hook_event_name": "PostToolBatch", "session_id": "s", "tool_calls": []}
    done = subprocess.run(
        ["/bin/sh", "-c", command], input=json.dumps(event), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (home / ".local/state/boolab/hook/claude-code/sessions/s/main.jsonl").exists()
    assert command.startswith(sys.executable)


def test_the_hook_of_a_shared_file_names_no_path_of_this_machine(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = home / "project/.claude/settings.json"
    settings.parent.mkdir(parents=True)
    monkeypatch.chdir(home / "project")
    assert main([*INSTALL, "--project", "--yes"]) == 1
    assert "not on the PATH here" in capsys.readouterr().err
    assert not settings.exists()
    (home / "bin").mkdir()
    (home / "bin/boolab").symlink_to(Path(sys.executable).with_name("boolab"))
    assert main([*INSTALL, "--project", "--yes"]) == 0
    assert "each needs boolab on the PATH" in capsys.readouterr().err
    (command,) = commands_in(settings.read_text())
    assert command == "boolab hook claude-code --max-steps 3 --doom-loop 2"
    event = {"hook_event_name": "PostToolBatch", "session_id": "s", "tool_calls": []}
    (home / "project/json.py").write_text("raise SystemExit('a module of the project was run')")
    done = subprocess.run(
        ["/bin/sh", "-c", command], input=json.dumps(event), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (home / ".local/state/boolab/hook/claude-code/sessions/s/main.jsonl").exists()
    assert main(["hook", "claude-code", "--remove", "--project", "--yes"]) == 0
    assert not settings.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--max-tokens", "5000"], "no tokens and no costs"),
        (["--max-steps", "3", "--max-cost", "1.5"], "no tokens and no costs"),
        (["--max-steps", "0"], "expected a whole number, 1 or more"),
        (["--max-time", "never"], "expected a number of seconds"),
    ],
)
def test_a_limit_that_a_hook_cannot_hold_is_refused(
    options: list[str], said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["hook", "claude-code", "--install", "--yes", *options])
    assert left.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (home / ".claude").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "there is no limit"),
        (["--max-steps", "3", "--exempt", "x"], "needs --doom-loop"),
        (["--doom-loop", "1"], "2"),
    ],
)
def test_options_that_make_no_rule_are_refused(
    options: list[str], said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hook", "claude-code", "--install", "--yes", *options]) == 1
    assert said in capsys.readouterr().err
    assert not (home / ".claude").exists()


@pytest.mark.parametrize(("version", "code"), [("2.1.117", 1), ("2.1.118", 0), ("3.0.0", 0), ("odd", 0)])
def test_a_claude_code_without_the_event_is_refused(version: str, code: int, home: Path) -> None:
    program = home / "bin/claude"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{version} (Claude Code)'\n")
    program.chmod(0o700)
    assert main([*INSTALL, "--yes"]) == code


def test_settings_that_switch_all_hooks_off_are_pointed_out(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "off.json").write_text('{"disableAllHooks": true}')
    assert main([*INSTALL, "--settings", "off.json", "--yes"]) == 0
    assert "no hook runs while it is true" in capsys.readouterr().err


def test_settings_that_are_not_understood_stay_as_they_are(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "bad.json").write_text('{"hooks": ')
    assert main([*INSTALL, "--settings", "bad.json", "--yes"]) == 1
    assert capsys.readouterr().err.startswith("boolab: bad.json")
    assert (home / "bad.json").read_text() == '{"hooks": '


def test_hook_log_is_printed_without_terminal_controls(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["hook", "claude-code", "--log"]) == 0
    assert "the log is empty" in capsys.readouterr().err
    session = Session("--doom-loop 2 --shadow", "0123456789", agent="a1")
    for _ in range(3):
        session.step(Did())
    session.event("SubagentStop")
    append_log({"did": "failed", "error": "bad\x1b[31m\nend", "at": "2026-11-23T20:00:00Z"})
    assert main(["hook", "claude-code", "--log"]) == 0
    told = capsys.readouterr()
    first, second, third = told.out.splitlines()
    assert "01234567 explorer  would have stopped it  after step 2 by doom_loop(2, canonical)" in first
    assert "it finished" in second
    assert second.endswith("after 3 steps and 3 calls")
    assert third.startswith("2026-11-23 20:00:00")
    assert "\x1b" not in third
    assert told.err == f"boolab: 1 turn finished, 1 limit reached\nNext: {program()} doctor\n"


def test_without_a_task_in_a_terminal_it_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(theirs) as terminal:
        done = subprocess.run(
            [sys.executable, "-m", "boolab", "hook", "claude-code", "--max-steps", "3"],
            stdin=terminal,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    os.close(ours)
    assert done.returncode == 2
    assert "see --help" in done.stderr


@pytest.mark.parametrize("text", ['{"hooks": {}}', '{"hooks": {"Stop": []}, "model": "x"}\n', "", "\n", "{ }"])
def test_install_and_remove_leave_empty_settings_as_they_were(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", "")
    settings = tmp_path / "settings.json"
    settings.write_text(text)
    hook = ["hook", "claude-code", "--settings", str(settings), "--yes"]
    for steps in ("3", "4"):
        assert main([*hook, "--install", "--max-steps", steps]) == 0
    assert main([*hook, "--remove"]) == 0
    assert settings.read_text() == text
