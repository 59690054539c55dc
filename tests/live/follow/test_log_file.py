"""A log that is followed has, after each change, the runs that a fresh read of the file gives."""

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.live.follow.log_file import LogFile
from boolab.logs.fields import follow_of
from boolab.logs.log_files import reader_for
from tests.logs.readers.test_written_again import SESSION, again
from tests.support.growing import BRANCHED, LOGS, claude_lines, encoded, fresh
from tests.support.samples import FOLDER, shared


@given(st.sampled_from(sorted(LOGS)), st.integers(0, 6), st.data())
def test_after_any_bytes_the_runs_are_those_of_a_fresh_read(name: str, steps: int, data: st.DataObject) -> None:
    content = b"".join(map(encoded, LOGS[name](steps)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=12)))
    with TemporaryDirectory() as folder:
        path = Path(folder, "s1.jsonl")
        path.write_bytes(b"")
        log = LogFile(path)
        for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
            with path.open("ab") as file:
                file.write(content[start:end])
            log.update()
            assert log.runs == (fresh(path) or [])


@given(st.sets(st.integers(0, len(SESSION) - 1)), st.integers(1, len(SESSION)), st.sampled_from([0, 3_600]))
def test_resumed_session_line_by_line_is_a_fresh_read(unnamed: set[int], n_copied: int, seconds: int) -> None:
    session = [
        {**line, "message": {name: fact for name, fact in line["message"].items() if name != "id" or n not in unnamed}}
        for n, line in enumerate(SESSION)
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder, "s1.jsonl")
        path.write_bytes(b"")
        log = LogFile(path)
        for line in [*session, *again(session[:n_copied], seconds=seconds)]:
            with path.open("ab") as file:
                file.write(encoded(line))
            log.update()
            assert log.runs == (fresh(path) or [])
    assert log.runs[0].n_steps == len([line for line in session if line["type"] == "assistant"]) or seconds


@pytest.mark.parametrize("name", sorted(LOGS))
def test_log_of_lines_is_read_from_where_the_last_read_ended(name: str, tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    path.write_bytes(b"")
    log = LogFile(path)
    for line in LOGS[name](20):
        with path.open("ab") as file:
            file.write(encoded(line))
        log.update()
    assert follow_of(reader_for(path)) is not None
    assert log.bytes_read <= (3 if name in BRANCHED else 1) * path.stat().st_size + 2_000
    assert log.runs == fresh(path)
    assert log.runs[0].source == name


def _written(path: Path, steps: int, *, session: str = "s1") -> bytes:
    content = b"".join(map(encoded, claude_lines(steps, session=session)))
    path.write_bytes(content)
    return content


def test_a_log_that_was_truncated_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    content = _written(path, 30)
    log = LogFile(path)
    log.update()
    path.write_bytes(content[: len(content) // 2])
    log.update()
    assert log.runs == fresh(path)
    assert 0 < log.runs[0].n_steps < 30


def test_replaced_log_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    _written(path, 5)
    log = LogFile(path)
    log.update()
    _written(tmp_path / "new", 40)
    (tmp_path / "new").replace(path)
    log.update()
    assert log.runs == fresh(path)
    assert log.runs[0].n_steps == 40


def test_log_rewritten_in_place_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    _written(path, 25, session="old")
    log = LogFile(path)
    log.update()
    _written(path, 40, session="s1")  # the same file, longer than before
    log.update()
    assert log.runs == fresh(path)
    assert [run.run_id for run in log.runs] == ["s1"]


@pytest.mark.parametrize("more", [b"{}\n", b"]\n", b"{"])
def test_a_line_that_seemed_complete_and_went_on_is_read_again(more: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    content = _written(path, 22)
    path.write_bytes(content[:-1])  # the last line has no end, and is JSON
    log = LogFile(path)
    log.update()
    assert log.runs == fresh(path)
    path.write_bytes(content[:-1] + more)
    log.update()
    assert log.runs == fresh(path)


def test_half_written_document_keeps_the_earlier_runs(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}]
    path.write_text(json.dumps({"messages": messages}))
    log = LogFile(path)
    log.update()
    before = log.runs
    path.write_text('{"messa')
    log.update()
    assert log.runs == before
    path.write_text(json.dumps({"messages": messages * 2}))
    log.update()
    assert log.runs[0].n_steps == 2


def test_a_log_that_did_not_change_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    _written(path, 3)
    log = LogFile(path)
    assert log.update()
    read = log.bytes_read
    assert not log.update()
    assert log.bytes_read == read


def test_a_log_that_is_gone_is_an_error_of_the_system(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "s1.jsonl")
    with pytest.raises(FileNotFoundError):
        log.update()
    os.mkfifo(tmp_path / "s2.jsonl")
    with pytest.raises(OSError, match="pipe|file"):
        LogFile(tmp_path / "s2.jsonl").update()


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER.exists(), reason="there is no ../shared/data")
@pytest.mark.parametrize("name", ["claude-code/spotter/tool_heavy.jsonl", "agtrace/samples/claude_session.jsonl"])
def test_real_logs_line_by_line_are_those_of_a_fresh_read(name: str, tmp_path: Path) -> None:
    content = shared(name).read_bytes()
    path = tmp_path / Path(name).name
    path.write_bytes(b"")
    log = LogFile(path)
    for line in content.splitlines(keepends=True):
        for part in (line[: len(line) // 2], line[len(line) // 2 :]):
            with path.open("ab") as file:
                file.write(part)
            log.update()
            assert log.runs == (fresh(path) or [])
