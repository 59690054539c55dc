"""The how-to of the hook: its commands run, and what it shows is what they print."""

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from boolab.cli.main import main
from tests.support.hook_events import Did, Session
from tests.support.project import ROOT

PAGE = (ROOT / "docs/howto/guard_claude_code.md").read_text(encoding="utf-8")
COMMANDS = [shlex.split(block.strip())[1:] for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)]
LOG, SENTENCE = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)


def options_in(settings: Path) -> str:
    """The options of the hook that is in some settings."""
    command = json.loads(settings.read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
    return str(command.partition("claude-code ")[2])


def calls(n: int) -> list[Did]:
    return [Did(arguments=number) for number in range(n)]


def test_the_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CLAUDE_CONFIG_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))  # boolab is there, and no claude
    settings = tmp_path / ".claude/settings.json"
    shadow, log, limits, remove = COMMANDS

    assert main([*shadow, "--yes"]) == 0
    main_agent = Session(options_in(settings), "9bc1ed78-8b64")
    for _ in range(5):
        assert main_agent.step(Did()) == ""
    for call in calls(7):
        main_agent.step(call)
    main_agent.event("Stop")
    explorer = Session(options_in(settings), "9bc1ed78-8b64", agent="a1")
    explorer.step(*calls(2))
    for call in calls(2):
        explorer.step(call)
    explorer.event("SubagentStop")
    capsys.readouterr()
    assert main(log) == 0
    printed = capsys.readouterr()
    times = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", re.MULTILINE)
    assert times.sub("", printed.out + printed.err) == times.sub("", LOG)

    assert main([*limits, "--yes"]) == 0
    session = Session(options_in(settings), "another")
    told = [session.step(Did()) for _ in range(6)]
    assert told[:4] == [""] * 4
    assert told[4] == SENTENCE.strip()
    assert told[5].startswith("ended")

    assert main([*remove, "--yes"]) == 0
    assert not settings.exists()
