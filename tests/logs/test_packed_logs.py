"""Packed logs: Codex packs rollouts that are a week old, and a packed log beside itself counts once."""

import bz2
import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import boolab as bl
from boolab.errors import ReadWarning, RunFormatError
from boolab.io.packed import FREE
from tests.support.samples import own


def zstd(data: bytes) -> bytes:
    module: Any = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    packed: bytes = module.compress(data)
    return packed


PACKINGS: Final[dict[str, Callable[[bytes], bytes]]] = {"bz2": bz2.compress, "gz": gzip.compress, "zst": zstd}
ROLLOUT: Final = "codex/rollout-commands.jsonl"


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("sample", [ROLLOUT, "openai_chat/conversations.jsonl", "pi/branches.jsonl"])
def test_a_packed_log_is_read_and_counts_once_beside_the_log(tmp_path: Path, sample: str, packing: str) -> None:
    data, name = own(sample).read_bytes(), Path(sample).name
    whole = bl.load_runs(own(sample))
    (tmp_path / f"{name}.{packing}").write_bytes(PACKINGS[packing](data))
    assert bl.load_runs(tmp_path / f"{name}.{packing}") == whole
    half = len(data) // 2
    (tmp_path / f"{name}.{packing}").write_bytes(PACKINGS[packing](data[:half]) + PACKINGS[packing](data[half:]))
    assert bl.load_runs(tmp_path) == whole
    (tmp_path / name).write_bytes(data)
    with pytest.warns(ReadWarning, match="counted once"):
        assert len(bl.load_runs(tmp_path)) == len(whole)


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_damaged_packed_log_is_read_up_to_the_damage(tmp_path: Path, packing: str) -> None:
    data = own("openai_chat/conversations.jsonl").read_bytes()
    path = tmp_path / f"c.jsonl.{packing}"
    path.write_bytes(PACKINGS[packing](data) + PACKINGS[packing](data * 9)[:-9])
    with pytest.warns(ReadWarning, match="packed data"):
        assert bl.load_runs(path)
    path.write_bytes(b"no packed data")
    with pytest.raises(RunFormatError, match="packed data are damaged"):
        bl.load_runs(path)


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_packed_log_that_holds_too_much_is_refused(tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"c.jsonl.{packing}"
    path.write_bytes(PACKINGS[packing](b"[" + b" " * FREE + b"]\n"))
    with pytest.raises(RunFormatError, match="when it is unpacked"):
        bl.load_runs(path, format="openai_chat")


def test_missing_zstd_package_skips_a_log_and_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rollout-1.jsonl.zst").write_bytes(zstd(own(ROLLOUT).read_bytes()))
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    with pytest.warns(ReadWarning, match=r"pip install 'boolab\[zstd\]'"):
        reading = bl.read_logs(tmp_path)
    assert "pip install 'boolab[zstd]'" in str(reading.files[0].skipped)
