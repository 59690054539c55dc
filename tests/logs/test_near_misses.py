"""Files that look like logs and are not read are named with the reason; files that go with logs are not."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.discovery import found_logs
from boolab.logs.load import read_logs
from boolab.logs.log_files import readers
from boolab.logs.near_misses import TABLE, UNREAD, is_companion, may_be_near_miss, near_miss_by_name
from tests.support.report_cases import draw_no_figures
from tests.support.samples import own

BY_NAME: Final = {
    ".codex/sessions/2026/06/01/rollout-1.json.zst": "packed with Zstandard",
    "s.json.gz": "packed (.gz)",
    "run.traj.json.xz": "packed (.xz)",
    "log.eval.zip": "packed (.zip)",
    "s.jsonl.bak": "a backup",
    "s.jsonl.old": "a backup",
    "s.jsonl~": "a backup",
    "s.json.backup2": "a backup",
    "s.jsonl.1": "a backup",
    ".aider.chat.history.md": "Aider's history",
    "tasks/1/ui_messages.json": "api_conversation_history.json beside it",
    "demo.cast": "a recording of a terminal",
}
BY_CONTENT: Final[dict[str, tuple[Any, ...]]] = {
    "LangChain or LangGraph": ({"messages": [{"type": "human", "data": {"content": "go"}}]},),
    "Langfuse": ({"id": "1", "traceId": "t", "type": "GENERATION", "input": {"messages": []}},),
}


def put(path: Path, content: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def skipped(folder: Path) -> dict[str, str]:
    return {Path(row.path).relative_to(folder).as_posix(): str(row.skipped) for row in read_logs(folder).files}


@pytest.mark.parametrize("name", BY_NAME)
def test_a_near_miss_by_name_is_a_row_with_its_reason(tmp_path: Path, name: str) -> None:
    path = put(tmp_path / name)
    rows = skipped(tmp_path)
    assert list(rows) == [name]
    assert BY_NAME[name] in rows[name]
    with pytest.raises(RunFormatError) as caught:
        bl.load_runs(path)
    assert BY_NAME[name] in caught.value.message


@pytest.mark.parametrize("words", BY_CONTENT)
@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_a_near_miss_by_content_is_a_row_with_its_reason(tmp_path: Path, words: str, suffix: str) -> None:
    put(tmp_path / f"log{suffix}", "\n".join(map(json.dumps, BY_CONTENT[words])))
    assert words in skipped(tmp_path)[f"log{suffix}"]


def test_no_sample_of_a_format_is_a_near_miss() -> None:
    for name in readers():
        if name in ("parquet", "store"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReadWarning)
            rows = read_logs(own(name)).files
        for row in rows:
            assert row.skipped is None, row


COMPANIONS: Final[dict[str, object]] = {
    "a/subagents/agent-1.meta.json": {"agentType": "x"},
    "a/subagents/workflows/wf_1/journal.jsonl": {"type": "started"},
    "job/config.json": {"jobs_dir": "jobs", "n_attempts": 1},
    "job/result.json": {"n_total_trials": 1, "stats": {}},
    "job/t__1/config.json": {"trial_name": "t__1", "trials_dir": "job"},
    "job/t__1/result.json": {"trial_name": "t__1", "task_name": "t", "verifier_result": None},
    "job/t__1/verifier/ctrf.json": {"results": {}},
    "e/report.json": {"repo__x-1": {"resolved": True}},
    "e/gpt.run.json": {"resolved_ids": ["repo__x-1"], "submitted_ids": []},
    "boolab-labels.jsonl": {"boolab_labels": 1},
    "labels.jsonl": {"boolab_labels": 1, "made": "2026-11-27T17:00:00Z"},
    "c/1.json": {"session_id": "1", "messages_path": "1.messages.json"},
    "job/t__1/agent/sessions/.claude.json": {"numStartups": 1},
    "job/t__1/agent/sessions/.claude.json.backup": {"numStartups": 1},
    "k/state.json": {"agents": {"main": {"type": "main", "parentAgentId": None}}},
    "d/1.settings.json": {"model": "m", "tokenUsage": {"inputTokens": 1}},
}


@pytest.mark.parametrize("name", COMPANIONS)
def test_a_file_that_goes_with_logs_is_no_skipped_file(tmp_path: Path, name: str) -> None:
    path = put(tmp_path / name, json.dumps(COMPANIONS[name]))
    labels = {"boolab-labels.jsonl": "None"} if name == "boolab-labels.jsonl" else {}  # it is read, and has a row
    assert skipped(tmp_path) == labels
    with pytest.raises(RunFormatError, match="a file that is written beside logs"):
        bl.load_runs(path)
    shutil.copyfile(own("pi/branches.jsonl"), tmp_path / "log.jsonl")
    assert skipped(tmp_path) == {"log.jsonl": "None"} | labels


def test_a_log_in_the_place_of_a_companion_is_read(tmp_path: Path) -> None:
    for name in ("verifier/run.json", "workflows/x/journal.jsonl", "sessions/todos/1.json"):
        (tmp_path / name).parent.mkdir(parents=True)
        text = own("openai_chat/list.json").read_text().replace('"Hello"', f'"Hello {name}"')
        (tmp_path / name).write_text(text)
    assert set(skipped(tmp_path).values()) == {"None"}


def test_every_command_names_a_near_miss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_no_figures(monkeypatch)
    put(tmp_path / "rollout-1.json.zst")
    shutil.copyfile(own("codex/rollout-commands.jsonl"), tmp_path / "rollout-2.jsonl")
    commands = (
        ["import", "-o", str(tmp_path.parent / "runs.jsonl")],
        ["whatif", "--json"],
        ["report", "-o", str(tmp_path.parent / "report.html")],
        ["audit", "--warnings"],
    )
    for command in commands:
        main([command[0], str(tmp_path), *command[1:]])
        said = capsys.readouterr()
        page = tmp_path.parent / "report.html"
        shown = said.out + said.err + (page.read_text() if command[0] == "report" else "")
        assert "packed with Zstandard" in shown, command
    alone = tmp_path / "alone"
    shutil.copytree(tmp_path, alone, ignore=lambda _, names: [name for name in names if name.endswith(".jsonl")])
    for command in commands:
        assert main([command[0], str(alone), *command[1:]]) == 1
        said = capsys.readouterr()
        assert "packed with Zstandard" in " ".join((said.out + said.err).split()), command


def test_doctor_finds_roo_kilo_and_what_is_not_read(tmp_path: Path) -> None:
    settings = tmp_path / ".config/Code/User/globalStorage"
    for extension in ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline", "kilocode.kilo-code"):
        put(settings / extension / "tasks/1/api_conversation_history.json")
    put(tmp_path / ".codex/sessions/2026/06/01/rollout-1.jsonl.zst")
    put(tmp_path / ".local/share/opencode/opencode.db")
    found = {one.format: one for one in found_logs(tmp_path, environ={}) if one.files}
    assert {name: (one.files, one.readable) for name, one in found.items()} == {
        "cline": (3, True),
        "codex": (1, True),
        "opencode": (1, True),
    }
    assert UNREAD.keys() >= {one.harness for one in TABLE if one.places}


@pytest.mark.parametrize("name", [".claude/projects", ".claude", ".codex/sessions", ".pi/agent/sessions/x.jsonl"])
@pytest.mark.parametrize("use", [bl.load_runs, lambda path: main(["watch", "--once", str(path)])])
def test_a_missing_place_of_a_harness_leads_to_doctor(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    use: Callable[[Path], object],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    try:
        use(tmp_path / name)
    except RunFormatError as error:
        said = error.message
    else:
        said = " ".join(capsys.readouterr().err.split())
    assert "no such file or folder: boolab doctor lists the logs of this machine" in said


def test_another_missing_path_does_not_lead_to_doctor(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError) as caught:
        bl.load_runs(tmp_path / "logs")
    assert caught.value.message == "no such file or folder"


def test_a_folder_without_logs_is_a_warning(tmp_path: Path) -> None:
    with pytest.warns(ReadWarning, match="no log was found"):
        assert bl.load_runs(tmp_path) == []
    put(tmp_path / "package.json", "{}")
    put(tmp_path / "demo.cast", "x")
    with pytest.warns(ReadWarning, match=r"no log was found.*; skipped: .*a recording of a terminal"):
        assert bl.load_runs(tmp_path) == []


OTHERS: Final = ("main.py", "a.jsonl", "a.parquet", "runs.jsonl.bz2", "archive.zip", "x.db-wal", "a.md")


@pytest.mark.parametrize("name", OTHERS)
def test_other_names_are_no_near_misses(name: str) -> None:
    assert near_miss_by_name(name) == ""
    assert not is_companion(name)
    assert name.endswith(".bz2") or not may_be_near_miss(name)
