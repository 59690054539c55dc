"""Texts that are not UTF-8: UTF-16 is read, others are named in the refusal."""

import codecs
import json
from pathlib import Path

import pytest

from boolab.errors import ReadWarning, RunFormatError
from boolab.io.packed import encoding_of
from boolab.logs.load import load_runs, read_logs
from tests.support.samples import own

SESSION = "claude_code/3a3a3a3a-1111-4222-8333-555555555555.jsonl"
JSON_SAMPLES = (
    SESSION,
    "codex/rollout-commands.jsonl",
    "gemini/chats",
    "inspect/stocktake.json",
    "mini_swe_agent/text.traj.json",
    "openai_chat/list.json",
    "opencode/run.jsonl",
    "pi/branches.jsonl",
    "tau_bench/tau-bench-tiny-airline.json",
)


def sample(name: str) -> Path:
    path = own(name)
    return min(path.glob("*.json")) if path.is_dir() else path


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be-mark", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", JSON_SAMPLES)
def test_utf_16_gives_the_runs_of_utf_8(tmp_path: Path, name: str, encoding: str) -> None:
    source = sample(name)
    text = source.read_text("utf-8").replace("\n", "\r\n")  # as PowerShell ends its lines
    path = tmp_path / source.name
    mark = codecs.BOM_UTF16_BE if encoding.endswith("mark") else b""
    path.write_bytes(mark + text.encode(encoding.removesuffix("-mark")))
    assert [run.steps for run in load_runs(path)] == [run.steps for run in load_runs(source)]


def test_truncated_utf_16_with_long_lines_loses_the_last_line(tmp_path: Path) -> None:
    text = "".join(json.dumps({"role": role, "content": "ä€𐍈" * 200_000}) + "\n" for role in ("user", "assistant"))
    path = tmp_path / "chat.jsonl"
    path.write_bytes((text + '{"role": "user", "content": "half').encode("utf-16")[:-1])
    with pytest.warns(ReadWarning, match=r"chat\.jsonl:3: the file ends in the middle of a value"):
        (run,) = load_runs(path)
    assert run.text == "ä€𐍈" * 200_000


@pytest.mark.parametrize("encoding", ["utf-32", "utf-32-le", "utf-32-be"])
def test_utf_32_is_named_in_the_refusal(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_bytes('{"role": "user", "content": "a"}'.encode(encoding))
    with pytest.raises(RunFormatError, match="UTF-32"):
        load_runs(path)
    with pytest.warns(ReadWarning, match="UTF-32"):
        assert "UTF-32" in str(read_logs(tmp_path).files[0].skipped)


@pytest.mark.parametrize("name", ["chat.jsonl", "chat.json"])
def test_latin_1_is_named_in_the_refusal(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes('{"messages": [{"role": "user", "content": "Café am Fluß"}]}'.encode("latin-1"))
    with pytest.raises(RunFormatError, match=r"not UTF-8 \(byte 0xe9\): the file may be Latin-1 or Windows-1252"):
        load_runs(path)


def test_utf_8_is_left_as_it_is() -> None:
    assert {encoding_of(start) for start in (b"", b"{", b'{"a"', b"[\n", b"\xef\xbb\xbf{", b"PK\x03\x04", b"\x00")} == {
        ""
    }


NOTES = (b"// an excerpt\n// of two lines\n", b"$ claude -p\n[INFO] started\nwarn: x\n", b"[2026-01-01 10:00:00] go\n")


@pytest.mark.parametrize("notes", [*NOTES, b"# " + b"x" * 100_000 + b"\n"])
@pytest.mark.parametrize("size", [10, 70_000, 300_000])
def test_notes_before_a_long_first_record_do_not_hide_the_format(tmp_path: Path, notes: bytes, size: int) -> None:
    lines = own(SESSION).read_bytes().splitlines(keepends=True)
    first = json.loads(lines[0])
    padded = {"padding": "x" * size, **first}
    path = tmp_path / "3a3a3a3a-1111-4222-8333-555555555555.jsonl"
    path.write_bytes(notes + (json.dumps(padded) + "\n").encode() + b"".join(lines[1:]))
    with pytest.warns(ReadWarning) as caught:
        runs = load_runs(path)
    assert [str(one.message).partition(" (")[0] for one in caught] == [
        f"{path}:{number}: not valid JSON" for number in range(1, notes.count(b"\n") + 1)
    ]
    assert [run.steps for run in runs] == [run.steps for run in load_runs(own(SESSION))]
