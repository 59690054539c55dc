"""A failure of the hook stops no agent: whatever fails, the process ends with 0 and answers nothing."""

import errno
import fcntl
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boolab.live.hooks import entry, journal
from boolab.live.hooks.counts import state_after
from boolab.live.hooks.journal import VERSION
from tests.live.hooks.test_entry import errors
from tests.support.hook_events import Did, Session, answered

OPTIONS = ["--error-streak", "2", "--max-steps", "4"]


def event(name: str, number: int, **more: object) -> str:
    call = {"tool_use_id": f"t{number}", "tool_name": "Bash", "tool_input": {"c": number}, "tool_response": "ok"}
    return json.dumps({"hook_event_name": name, "session_id": "s", **call, "tool_calls": [call], **more})


def step(number: int, folder: Path) -> list[bytes]:
    """What the hook answers to the events of one successful call."""
    names = ("PreToolUse", "PostToolUse", "PostToolBatch")
    return [answered(event(name, number), OPTIONS, folder) for name in names]


def steps_until_stop(folder: Path) -> int:
    """How many steps the hook lets an agent make that never stops, each with another call."""
    return next((number for number in range(20) if any(step(number, folder))), 20)


def test_lock_held_by_another_process_delays_and_loses_nothing(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_MAX_WAIT_S", 0.001)
    assert step(-1, tmp_path) == [b""] * 3
    with (state / "sessions/s/main.jsonl").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert steps_until_stop(tmp_path) == 2
    assert errors(state) == [None]


def test_a_full_disk_counts_nothing_and_stops_nobody(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    assert step(-1, tmp_path) == [b""] * 3
    with monkeypatch.context() as patch:
        patch.setattr(journal, "_write", full)
        assert steps_until_stop(tmp_path) == 20
    assert steps_until_stop(tmp_path) == 2
    assert "No space left" in str(errors(state))


@pytest.mark.parametrize("name", ["PreToolUse", "PostToolUse", "PostToolBatch", "UserPromptSubmit"])
def test_a_process_that_may_write_no_byte_ends_with_0(name: str, state: Path) -> None:
    limit = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); sys.argv[0] = 'boolab'; "
    command = [sys.executable, "-c", limit + "runpy.run_module('boolab', run_name='__main__')"]
    done = subprocess.run(
        [*command, "hook", "claude-code", *OPTIONS], input=event(name, 1).encode(), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not list(state.rglob("main.jsonl"))


def test_a_turn_that_a_full_disk_lost_begins_with_the_next_event(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session("--max-steps 3")
    assert [session.step(Did(arguments=number)) for number in range(2)] == [""] * 2

    def full(fd: int, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journal, "_write", full)
        for name in ("UserPromptSubmit", "PreToolUse"):
            with pytest.raises(OSError, match="No space"):
                session.event(name, prompt="Go on.", tool_use_id="toolu_lost")
    assert [bool(session.step(Did(arguments=number))) for number in range(3)] == [False, False, True]


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_link(path: Path) -> None:
    path.rename(path.with_suffix(".other"))
    path.symlink_to(path.with_suffix(".other"))


@pytest.mark.parametrize("make", [make_fifo, make_folder, make_link])
@pytest.mark.parametrize("name", ["main.jsonl", "key"])
def test_a_journal_or_a_key_that_is_no_file_gives_no_decision(
    make: Callable[[Path], None], name: str, state: Path, tmp_path: Path
) -> None:
    assert step(-1, tmp_path) == [b""] * 3
    make(state / "sessions/s" / name)
    assert steps_until_stop(tmp_path) == 20
    assert errors(state)[-1]


def lines_of(state: Path) -> list[bytes]:
    return (state / "sessions/s/main.jsonl").read_bytes().split(b"\n")


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "noise": lambda data: random.Random(1).randbytes(len(data)),  # noqa: S311 - no secret
    "no first line": lambda data: data.partition(b"\n")[2],
    "another version": lambda data: data.replace(b'"v":%d' % VERSION, b'"v":%d1' % VERSION, 1),
    "an older form": lambda data: b'{"e":"turn","t":17}\n{"e":"step","t":18,"calls":[]}\n',
    "a state of another form": lambda data: data.replace(b'"v":%d' % VERSION, b'"v":%d,"state":{"run":7}' % VERSION, 1),
    "a state that is none": lambda data: data.replace(b'"v":%d' % VERSION, b'"v":%d,"state":[]' % VERSION, 1),
    "a first line cut off": lambda data: data[:20],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_unreadable_journal_restarts_counts_and_is_logged(damage: str, state: Path, tmp_path: Path) -> None:
    assert step(-2, tmp_path) == step(-1, tmp_path) == [b""] * 3
    path = state / "sessions/s/main.jsonl"
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert steps_until_stop(tmp_path) == 3  # the fourth step since
    assert [text for text in errors(state) if text] == [errors(state)[0]]
    assert "counts begin anew" in errors(state)[0]


POISON: list[dict[str, Any]] = [
    {"e": "step", "calls": "x"},
    {"e": "step", "b": 7, "calls": [[["t"], "Bash", 1, 1, 1, ""], [None] * 6, 7, {}]},
    {"e": "step", "t": ["a", {}], "calls": [["t", "Bash", 1.5, True, None, ""]]},
    {"e": "ran", "id": {"a": 1}},
    {"e": "failed", "id": None},
    {"e": ["turn"], "t": 7},
    {"e": "verdict", "on": "", "of": "--error-streak 2 --max-steps 4", "action": "stop"},
    {"e": "verdict", "on": [], "of": {}, "action": "end", "message": 7},
]


def test_poisoned_lines_of_a_journal_count_nowhere(state: Path, tmp_path: Path) -> None:
    assert step(-1, tmp_path) == [b""] * 3
    with (state / "sessions/s/main.jsonl").open("ab") as file:
        for record in POISON:
            file.write(json.dumps(record).encode() + b"\n")
        file.write(b"[" * 100_000 + b'\n{"e":"step"\n\xff\n')
    assert steps_until_stop(tmp_path) == 2
    assert errors(state) == [None]


@pytest.mark.parametrize("line", range(1, 9))
def test_a_damaged_line_is_passed_over_and_makes_no_stop(line: int, state: Path, tmp_path: Path) -> None:
    failed = [event(name, -2) for name in ("PreToolUse", "PostToolUseFailure", "PostToolBatch")]
    assert [answered(text, OPTIONS, tmp_path) for text in failed] == [b""] * 3
    assert step(-1, tmp_path) == [b""] * 3
    lines = lines_of(state)
    lines[line] = b'{"e":"s' + os.urandom(9).replace(b"\n", b"")
    (state / "sessions/s/main.jsonl").write_bytes(b"\n".join(lines))
    failed = [event(name, -3) for name in ("PreToolUse", "PostToolUseFailure", "PostToolBatch")]
    assert [answered(text, OPTIONS, tmp_path) for text in failed] == [b""] * 3  # one error at most in a row
    assert steps_until_stop(tmp_path) in (0, 1)  # with a step that was lost, one later


def test_a_damaged_turn_is_a_turn(state: Path) -> None:
    session = Session("--max-steps 2", session="s")
    session.step(Did(arguments=1))
    session.prompt()
    path = state / "sessions/s/main.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    assert session.step(Did(arguments=2)) == ""
    assert session.step(Did(arguments=3)) != ""


@pytest.mark.parametrize(
    "more",
    [
        {"session_id": ""},
        {"session_id": None},
        {"agent_id": 7},
        {"agent_id": {}},
        {"tool_use_id": None, "tool_calls": [{"tool_name": "Bash"}]},
        {"tool_use_id": "", "tool_calls": [{"tool_use_id": ""}, {"tool_use_id": 7}]},
        {"tool_use_id": ["t"], "tool_calls": []},
        {"tool_use_id": 7, "tool_calls": "x"},
    ],
    ids=json.dumps,
)
def test_events_without_ids_give_no_decision(more: dict[str, object], tmp_path: Path) -> None:
    for number in range(8):
        for name in ("PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch"):
            assert answered(event(name, number, **more), ["--max-steps", "1", "--error-streak", "1"], tmp_path) == b""


def test_sessions_without_an_id_share_no_counts(state: Path, tmp_path: Path) -> None:
    for number in range(3):
        answered(event("PostToolBatch", number, session_id=""), OPTIONS, tmp_path)
    assert not (state / "sessions").exists()


def test_a_log_that_cannot_be_written_changes_no_answer(state: Path, tmp_path: Path) -> None:
    (state / "log.jsonl").mkdir(parents=True)
    assert steps_until_stop(tmp_path) == 3


def test_a_second_error_ends_with_0_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(entry, "_report", fail)
    assert answered("{", OPTIONS, tmp_path) == b""
    monkeypatch.setattr(entry, "_answer", fail)
    assert answered(event("Stop", 1), OPTIONS, tmp_path) == b""


def test_an_answer_that_nobody_reads_is_no_error(tmp_path: Path) -> None:
    source, sink = os.pipe()
    os.close(source)
    (tmp_path / "event").write_text(event("PostToolBatch", 1))
    with (tmp_path / "event").open("rb") as given:
        assert entry.main(["--max-steps", "1"], given.fileno(), sink) == 0
    os.close(sink)


def test_a_journal_that_is_far_too_long_begins_anew(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert step(-1, tmp_path) == [b""] * 3
    monkeypatch.setattr(journal, "MAX_BYTES", 200)
    assert step(-2, tmp_path) == [b""] * 3
    assert "counts begin anew" in errors(state)[0]


@pytest.mark.slow
def test_100_processes_at_once_lose_no_record(state: Path) -> None:
    command = [sys.executable, "-P", "-m", "boolab", "hook", "claude-code", "--max-steps", "1000"]
    running = []
    for number in range(100):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert process.stdin is not None
        process.stdin.write(event("PostToolBatch", number).encode())
        process.stdin.close()
        running.append(process)
    answers = set()
    for process in running:
        assert process.stdout is not None
        with process.stdout as output:
            answers.add((output.read(), process.wait(timeout=120)))
    assert answers == {(b"", 0)}
    counters = state_after((state / "sessions/s/main.jsonl").read_bytes()).run.place.counters
    assert (counters["steps"], counters["error_streak"]) == (100, None)
