"""Where harnesses keep their logs."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from boolab.logs.discovery import Found, found_logs


def put(path: Path, size: int, at: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    path.chmod(0)  # nothing is opened
    os.utime(path, (at, at))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    put(tmp_path / ".claude/projects/-work/a.jsonl", 10, 100)
    put(tmp_path / ".claude/projects/-work/a/subagents/agent-1.jsonl", 5, 200)
    put(tmp_path / ".claude/projects/-work/a/subagents/agent-1.meta.json", 5, 900)
    put(tmp_path / ".codex/sessions/2026/02/01/rollout-1.jsonl", 7, 300)
    put(tmp_path / ".qwen/projects/p/chats/1.jsonl", 9, 300)
    put(tmp_path / ".local/share/opencode/storage/session/p/ses_1.json", 3, 400)
    return tmp_path


def logs(home: Path, **options: object) -> dict[str, Found]:
    return {found.format: found for found in found_logs(home, environ={}, **options)}  # type: ignore[arg-type]


def test_each_harness_is_counted_and_those_without_a_reader_say_so(home: Path) -> None:
    found = logs(home)
    claude, codex = found["claude_code"], found["codex"]
    assert claude[2:] == (2, 15, datetime.fromtimestamp(200, UTC), True)
    assert codex[2:] == (1, 7, datetime.fromtimestamp(300, UTC), True)
    assert found["qwen"][2:] == (1, 9, datetime.fromtimestamp(300, UTC), False)
    assert found["opencode"].files == 1
    assert found["pi"][2:] == (0, 0, None, True)
    assert claude.places == (f"{home}/.claude/projects/**/*.jsonl",)
    assert [*found] == sorted(found)


def test_only_files_changed_since(home: Path) -> None:
    assert logs(home, since=datetime.fromtimestamp(150, UTC))["claude_code"].files == 1


def test_a_variable_that_names_the_folder_is_honoured_and_no_file_counts_twice(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    put(other / "projects/-x/b.jsonl", 100, 500)
    (claude,) = [
        found
        for found in found_logs(home, environ={"CLAUDE_CONFIG_DIR": str(other), "CODEX_HOME": str(home / ".codex")})
        if found.format == "claude_code"
    ]
    assert (claude.files, claude.bytes) == (3, 115)
    both = found_logs(home, environ={"CODEX_HOME": str(home / ".codex")})
    assert next(found for found in both if found.format == "codex").files == 1
