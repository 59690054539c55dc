"""Folders are opened one below the other, through no link."""

import os
from pathlib import Path

import pytest

from boolab.io.folders import folder_handle, read_below


def test_folder_below_is_opened_and_made(tmp_path: Path) -> None:
    with folder_handle(tmp_path) as top, folder_handle("a/b", top, make=True) as below:
        assert os.path.samestat(os.fstat(below), (tmp_path / "a/b").stat())
        with pytest.raises(FileNotFoundError), folder_handle("a/c", top):
            pass


@pytest.mark.parametrize("name", ["link", "link/b", "file"])
def test_link_and_file_on_the_way_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "file").touch()
    before = len([*Path("/dev/fd").iterdir()])
    for make in (False, True):
        with folder_handle(tmp_path) as top, pytest.raises(NotADirectoryError), folder_handle(name, top, make=make):
            pass
    assert len([*Path("/dev/fd").iterdir()]) == before


def test_file_below_is_read_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_bytes(b"12345")
    (tmp_path / "a/link").symlink_to("file")
    os.mkfifo(tmp_path / "a/pipe")
    with folder_handle(tmp_path) as top:
        assert read_below(top, "a/file", 5) == b"12345"
        for name, message in {"a/file": "more than the 4 bytes", "a/link": "a link", "a/pipe": "a pipe"}.items():
            with pytest.raises(OSError, match=message):
                read_below(top, name, 4)
