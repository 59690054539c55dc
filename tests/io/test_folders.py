"""Folders are opened one below the other, through no link."""

import os
from pathlib import Path
from typing import Any

import pytest

from boolab.io.folders import folder_handle, match_paths, read_below


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


def test_glob_matches_as_pathlib_does(tmp_path: Path) -> None:
    for name in ("a.jsonl", ".h/a.jsonl", "x/[z]/a.jsonl", "x/y/b.json", "x/y/z/a.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "linked").symlink_to(tmp_path / "x")
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    patterns = (
        "*",
        "**",
        "**/*.jsonl",
        "*/*/*",
        "x/**/z/a.jsonl",
        "x/[[]z]/*",
        "[!a]*",
        "li*/y/*",
        "**/y/**",
        "*/gone",
        "loop/*",
    )
    for pattern in patterns:
        unread: dict[str, str] = {}
        expected = sorted({*tmp_path.glob(f"{pattern}/*" if pattern.endswith("**") else pattern)})
        assert sorted(match_paths(tmp_path / pattern, unread)) == expected, pattern
        assert unread == {}, pattern
    assert [*match_paths(tmp_path / "gone.jsonl", {})] == []


@pytest.mark.parametrize("pattern", ["*/a.jsonl", "*/*", "**/*.jsonl", "private/a.*"])
def test_glob_names_folders_that_cannot_be_searched(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/a.jsonl").write_text("")
    (tmp_path / "a.jsonl").write_text("")
    scandir, stat = os.scandir, os.stat

    def refuse(path: Any, *args: Any, **options: Any) -> Any:
        if str(path).startswith(str(tmp_path / "private")) and (str(path).endswith("jsonl") or options.get("search")):
            raise PermissionError(13, "Permission denied", str(path))
        return (scandir if options.pop("search", False) else stat)(path, *args, **options)

    monkeypatch.setattr(os, "stat", refuse)
    monkeypatch.setattr(os, "scandir", lambda path: refuse(path, search=True))
    unread: dict[str, str] = {}
    assert str(tmp_path / "private/a.jsonl") not in map(str, match_paths(tmp_path / pattern, unread))
    assert unread == {str(tmp_path / "private"): "the folder cannot be searched: Permission denied"}
