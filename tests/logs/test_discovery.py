"""Where harnesses keep their logs."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from boolab.cli.doctor import as_json, text
from boolab.logs.discovery import HarnessLogs, found_logs, time_of


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


def logs(home: Path, **options: object) -> dict[str, HarnessLogs]:
    return {found.format: found for found in found_logs(home, environ={}, **options)}  # type: ignore[arg-type]


def test_each_harness_is_counted_and_missing_readers_are_marked(home: Path) -> None:
    found = logs(home)
    claude, codex = found["claude_code"], found["codex"]
    assert claude[2:6] == (2, 15, datetime.fromtimestamp(200, UTC), True)
    assert codex[2:6] == (1, 7, datetime.fromtimestamp(300, UTC), True)
    assert found["qwen"][2:6] == (1, 9, datetime.fromtimestamp(300, UTC), True)
    assert found["opencode"].files == 1
    assert found["pi"][2:6] == (0, 0, None, True)
    assert claude.places == (f"{home}/.claude/projects/**/*.jsonl",)
    assert [*found] == sorted(found)


def test_only_files_changed_since(home: Path) -> None:
    assert logs(home, since=datetime.fromtimestamp(150, UTC))["claude_code"].files == 1


def test_folder_variable_is_used_and_no_file_counts_twice(home: Path, tmp_path: Path) -> None:
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


def test_projects_that_crush_lists_are_places(home: Path, tmp_path: Path) -> None:
    put(tmp_path / "one/.crush/crush.db", 8, 100)
    put(tmp_path / "two/data/crush.db", 9, 200)
    data = [
        f"{tmp_path}/one/.crush",
        f"{tmp_path}/two/data",
        f"{tmp_path}/one/.crush",
        f"{tmp_path}/*",
        "one",
        "/\0",
        7,
    ]
    projects = {
        "projects": [{"path": "/x", "data_dir": path, "last_accessed": "2026-03-01T00:00:00Z"} for path in data]
    }
    for folder in (home / ".local/share/crush", tmp_path / "given"):
        folder.mkdir(parents=True)
        (folder / "projects.json").write_text(json.dumps(projects))
    found = logs(home)["crush"]
    assert found[2:6] == (2, 17, datetime.fromtimestamp(200, UTC), True)
    assert found.places[-2:] == (f"{tmp_path}/one/.crush/crush.db", f"{tmp_path}/two/data/crush.db")
    assert not found.unread
    (home / ".local/share/crush/projects.json").write_text("[[")
    assert logs(home)["crush"].files == 0
    given = found_logs(home, environ={"CRUSH_GLOBAL_DATA": str(tmp_path / "given")})
    assert next(found for found in given if found.format == "crush").files == 2


def test_unsearchable_folder_is_reported_and_others_are_counted(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codex = home / ".codex" / "sessions"
    real = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).startswith(str(codex)):
            raise OSError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = {one.format: one for one in found_logs(home, environ={})}
    assert found["codex"].unread == (f"{codex}: the folder cannot be searched: Permission denied",)
    assert found["codex"].files == 0
    assert found["claude_code"].files > 0
    assert "Permission denied" in text(list(found.values()))
    assert "Permission denied" in as_json(list(found.values()))


@pytest.mark.parametrize("fault", [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")])
def test_unreadable_file_is_reported_and_others_are_counted(
    fault: OSError, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {one.format: one.files for one in found_logs(home, environ={})}
    real = Path.stat

    def stat(path: Path, **options: Any) -> os.stat_result:
        if failing and path.suffix == ".jsonl" and ".claude" in str(path):
            failing.pop()
            raise fault
        return real(path, **options)

    failing = [True]
    monkeypatch.setattr(Path, "stat", stat)
    found = {one.format: one for one in found_logs(home, environ={})}["claude_code"]
    assert (found.files, len(found.unread)) == (before["claude_code"] - 1, 1)


def test_time_that_no_calendar_has_is_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in home.rglob("*.jsonl"):
        real = path.stat()
    far = os.stat_result((*real[:7], 2**62, 2**62, 2**62))
    assert time_of(real) is not None
    assert time_of(far) is None


def test_log_size_is_the_sum_over_all_its_folders(home: Path) -> None:
    storage = home / ".local/share/opencode/storage"
    put(storage / "message/ses_1/msg_1.json", 50, 500)
    put(storage / "part/msg_1/prt_1.json", 1_000, 600)
    found = logs(home)["opencode"]
    assert found[2:5] == (1, 1_053, datetime.fromtimestamp(600, UTC))
