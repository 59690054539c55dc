"""Packed files: read line by line, within limits, and as far as they are undamaged."""

import bz2
import warnings
from pathlib import Path

import pytest

import boolab as bl
from boolab.errors import ReadWarning, RunFormatError
from boolab.io import packed
from boolab.io.packed import most_unpacked, open_unpacked
from boolab.logs.load import load_runs
from tests.support.cases import first
from tests.support.helpers import play, steps


def saved(folder: Path, runs: int = 3) -> Path:
    path = folder / "runs.jsonl.bz2"
    bl.save_runs([play(steps("A B")) for _ in range(runs)], path)
    return path


def test_packed_runs_load_like_plain_ones_from_file_and_folder(tmp_path: Path) -> None:
    path = saved(tmp_path)
    (tmp_path / "plain").mkdir()
    plain = tmp_path / "plain" / "runs.jsonl"
    plain.write_bytes(bz2.decompress(path.read_bytes()))
    assert load_runs(path) == load_runs(plain)
    plain.unlink()
    assert load_runs(tmp_path) == load_runs(path)


def test_one_run_and_several_packed_pieces_are_read(tmp_path: Path) -> None:
    path = saved(tmp_path, runs=1)
    (run,) = load_runs(path)
    line = bz2.decompress(path.read_bytes())
    path.write_bytes(bz2.compress(line[:100]) + bz2.compress(line[100:]))
    assert load_runs(path) == [run]


@pytest.mark.parametrize("kept", first(1, [0.5, 0.95]))
def test_of_a_truncated_file_the_lines_before_are_read(tmp_path: Path, kept: float) -> None:
    path = saved(tmp_path, runs=400)
    runs, data = load_runs(path), path.read_bytes()
    pieces = [bz2.compress(line) for line in bz2.decompress(data).splitlines(keepends=True)]
    n = int(len(pieces) * kept)  # ids are random, and so are sizes: a share of all bytes may end between two pieces
    path.write_bytes(b"".join(pieces[:n]) + pieces[n][: len(pieces[n]) // 2])
    with pytest.warns(ReadWarning, match="the file ends in the middle of its packed data"):
        found = load_runs(path)
    assert 0 < len(found) < 400
    assert found == runs[: len(found)]


@pytest.mark.parametrize("data", [b"no bzip2 at all", b"BZh9" + b"\x00" * 100, b""], ids=["text", "zeros", "empty"])
def test_a_file_that_is_not_packed_is_refused_by_name(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "runs.jsonl.bz2"
    path.write_bytes(data)
    with pytest.raises(RunFormatError, match=r"runs\.jsonl\.bz2.*(packed data are damaged|in the middle|is empty)"):
        load_runs(path)


def test_damage_in_the_middle_ends_the_file_there(tmp_path: Path) -> None:
    path = saved(tmp_path, runs=50)
    pieces = [bz2.compress(line) for line in bz2.decompress(path.read_bytes()).splitlines(keepends=True)]
    pieces[30] = pieces[30][:40] + bytes(60) + pieces[30][100:]
    path.write_bytes(b"".join(pieces))
    with pytest.warns(ReadWarning, match="its packed data are damaged"):
        assert len(load_runs(path)) == 30


def test_more_than_the_limit_is_refused_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, runs=300)
    monkeypatch.setattr(packed, "MAX_TOTAL", 100_000)
    with warnings.catch_warnings(), pytest.raises(RunFormatError, match="it holds more than 100,000 bytes when it is"):
        warnings.simplefilter("ignore")
        load_runs(path)


def test_what_is_read_at_most_depends_on_the_size_of_the_file() -> None:
    sizes = [0, 1, packed.FREE // packed.MAX_RATIO + 1, 10**7, 10**9]
    most = [most_unpacked(size) for size in sizes]
    assert most == sorted(most)
    assert (most[0], most[-1]) == (packed.FREE, packed.MAX_TOTAL)


def test_a_file_of_another_name_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.json.bz2"
    path.write_bytes(bz2.compress(b"{}"))
    with open_unpacked(path) as file:
        assert file.read() == bz2.compress(b"{}")
