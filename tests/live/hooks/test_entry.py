"""The process of the hook: it answers, it never stands in the way, and it starts fast."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from boolab.limits.table import LIMITS
from boolab.live.hooks import entry
from boolab.live.hooks.entry import is_hook
from boolab.live.hooks.options import NUMBERS
from tests.support.hook_events import answered

BATCH = {
    "hook_event_name": "PostToolBatch",
    "session_id": "s",
    "tool_calls": [{"tool_name": "Bash", "tool_input": {}, "tool_use_id": "t1", "tool_response": "ok"}],
}


def start(given: str | bytes, *options: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Start the hook as Claude Code does."""
    command = [sys.executable, "-m", "boolab", "hook", "claude-code", *options]
    text = given.encode() if isinstance(given, str) else given
    return subprocess.run(
        command, input=text, capture_output=True, timeout=60, check=False, env={**os.environ, **environment}
    )


def errors(state: Path) -> list[Any]:
    path = state / "log.jsonl"
    return [json.loads(line).get("error") for line in path.read_text().splitlines()] if path.exists() else []


def test_the_process_answers_in_one_line_of_json() -> None:
    done = start(json.dumps(BATCH), "--max-steps", "1")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == {
        "hookSpecificOutput": {
            "hookEventName": "PostToolBatch",
            "additionalContext": "boolab: Stopped after step 1 by max_steps(1). "
            "Call no more tools; say what is done and what is missing.",
        }
    }


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ("", ["--max-steps", "1"]),
        (b"\xff\x00", ["--max-steps", "1"]),
        ("[]", ["--max-steps", "1"]),
        ("[" * 100_000, ["--max-steps", "1"]),
        ('{"hook_event_name": "PreToolUse"}', ["--max-steps", "1"]),
        (json.dumps(BATCH), ["--max-stepz", "1"]),
        (json.dumps(BATCH), ["--max-steps", "many"]),
        (json.dumps(BATCH), []),
        (json.dumps(BATCH), ["--max-tokens", "5"]),
    ],
)
def test_hook_error_answers_nothing_exits_with_0_and_is_logged(
    given: str | bytes, options: list[str], state: Path, tmp_path: Path
) -> None:
    assert answered(given, options, tmp_path) == b""
    assert len(errors(state)) == 1
    assert errors(state)[0]


def test_a_state_that_cannot_be_kept_denies_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert answered(json.dumps(BATCH), ["--max-steps", "1"], tmp_path) == b""


def test_an_input_without_an_end_is_not_waited_for(state: Path) -> None:
    code = (
        "from boolab.live.hooks import entry; entry.TIME_LIMIT_S = 0.05; "
        "raise SystemExit(entry.main(['--max-steps', '1']))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert process.wait(timeout=60) == 0
    assert errors(state) == ["TimeoutError: no answer within 0.05 s"]


@pytest.mark.parametrize("name", ["Notification", "PreCompact", "FileChanged", "NewInAnotherVersion"])
def test_other_events_have_no_answer_and_no_state(name: str, state: Path, tmp_path: Path) -> None:
    event = json.dumps({**BATCH, "hook_event_name": name})
    assert answered(event, ["--max-steps", "1"], tmp_path) == b""
    assert not state.exists()


def test_in_a_terminal_it_says_who_starts_it(capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = os.openpty()
    assert entry.main(["--max-steps", "1"], theirs) == 2
    os.close(ours)
    os.close(theirs)
    assert "Claude Code starts this command" in capsys.readouterr().err


def test_the_hook_has_the_limits_that_its_events_show() -> None:
    assert tuple(name for name in LIMITS if name not in ("max_tokens", "max_cost")) == NUMBERS


def test_what_runs_at_every_call_imports_no_rules(tmp_path: Path) -> None:
    event = {"hook_event_name": "PostToolUse", "session_id": "s", "tool_use_id": "t1"}
    command = [sys.executable, "-X", "importtime", "-P", "-m", "boolab", "hook", "claude-code", "--max-steps", "1"]
    state = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(
        command, input=json.dumps(event).encode(), capture_output=True, timeout=60, check=False, env=state
    )
    imported = {line.rsplit("|", 1)[1].strip() for line in done.stderr.decode().splitlines() if "|" in line}
    assert "boolab.live.hooks.journal" in imported
    heavy = {
        "argparse",
        "hashlib",
        "pathlib",
        "typing",
        "dataclasses",
        "boolab.errors",
        "boolab.limits.monitor",
        "boolab.cli.main",
    }
    assert imported.isdisjoint(heavy)


def test_hook_has_the_limits_that_events_can_be_counted_for() -> None:
    assert tuple(name for name, limit in LIMITS.items() if limit.counter not in ("tokens", "cost")) == NUMBERS


def test_only_a_command_with_limits_starts_a_hook() -> None:
    assert is_hook(["hook", "claude-code", "--max-steps", "56"])
    assert not is_hook(["hook", "claude-code", "--log"])
