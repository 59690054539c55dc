"""Edits of files of the user: what another program writes stays, and so does what the file is."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from stat import S_IMODE

import pytest

from boolab.errors import ConfigFileError
from boolab.io import file_edit
from boolab.io.file_edit import UserFile, edit_file, edit_files, read_user_file
from boolab.io.json_edit import with_json
from tests.support.project import ROOT

HAS_LEASES = hasattr(fcntl, "F_SETLEASE")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "settings.json").write_text("{}")
    return tmp_path / "settings.json"


@pytest.fixture(params=["exchange", "no exchange"])
def exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With and without the operation in which two files change places."""
    if request.param == "no exchange":
        monkeypatch.setattr(file_edit, "_renameat2", lambda: None)
    return str(request.param)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("how", ["rename", "truncate", "update"])
def test_nothing_that_another_program_writes_is_lost(how: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a disk takes longer than the other program pauses
    command = [sys.executable, "-m", "tests.io.other_writer", str(path), how]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert other.stdout is not None
    assert other.stdout.readline() == "began\n"
    written, tries, text = 0, 0, ""
    while (written < 50 or '"k30"' not in text) and tries < 100_000:  # the other program may have to wait
        tries += 1
        try:
            file = read_user_file(path)
            text = file.text() or text
            edit_file(file, with_json(text, ["boolab"], tries).encode())
        except ConfigFileError:
            continue
        written += 1
    keys = json.loads(other.communicate("\n", timeout=60)[0])
    assert written >= 50
    assert len(keys) > 30
    left = {key for name in path.parent.iterdir() for key in json.loads(name.read_text())}
    assert left.issuperset(keys)


@pytest.mark.parametrize("new", [b"[1]", None])
@pytest.mark.usefixtures("exchange")
def test_a_file_that_changed_since_it_was_read_stays(new: bytes | None, path: Path) -> None:
    file = read_user_file(path)
    path.write_text('{"mine": 1}')
    with pytest.raises(
        ConfigFileError, match="has changed since it was read, and nothing was written: run the command"
    ):
        edit_file(file, new)
    path.unlink()
    with pytest.raises(ConfigFileError, match="has changed since it was read"):
        edit_file(file, new)
    assert names(path.parent) == []


@pytest.mark.usefixtures("exchange")
def test_a_new_file_replaces_none_that_came_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "settings.json"
    file = read_user_file(path)
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(ConfigFileError, match="has changed since it was read"):
        edit_file(file, b"{}")
    assert path.read_text() == "mine"
    path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(ConfigFileError, match="has changed since it was read"):
        edit_file(file, b"{}")
    path.unlink()
    path.parent.rmdir()
    assert edit_file(file, b"{}").data == b"{}"
    assert names(path.parent) == ["settings.json"]


def at_each_exchange(monkeypatch: pytest.MonkeyPatch, *others: Callable[[], object]) -> None:
    """Let another program do something just before each exchange."""
    rename, left = file_edit._rename_new, [*others]

    def renamed(folder: int, old: str, new: str, flags: int) -> bool:
        if left:
            left.pop(0)()
        return rename(folder, old, new, flags)

    monkeypatch.setattr(file_edit, "_rename_new", renamed)


def replaced(path: Path, text: str) -> None:
    beside = path.with_suffix(".other")
    beside.write_text(text)
    beside.replace(path)


def test_what_is_written_at_the_last_moment_is_put_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = read_user_file(path)
    at_each_exchange(monkeypatch, lambda: replaced(path, "theirs"))
    with pytest.raises(ConfigFileError, match="has changed since it was read"):
        edit_file(file, b"[]")
    assert path.read_text() == "theirs"
    assert names(path.parent) == ["settings.json"]


def test_of_two_texts_at_the_last_moment_both_are_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = read_user_file(path)
    at_each_exchange(monkeypatch, lambda: replaced(path, "first"), lambda: replaced(path, "second"))
    with pytest.raises(ConfigFileError, match="what it wrote first is now") as refused:
        edit_file(file, b"[]")
    assert path.read_text() == "second"
    assert Path(str(refused.value).rpartition(" ")[2]).read_text() == "first"


def test_a_removal_puts_back_what_was_written_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = read_user_file(path)
    rename = os.rename

    def late(old: str, new: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        replaced(path, "theirs")
        rename(old, new, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", late)
    with pytest.raises(ConfigFileError, match="has changed since it was read"):
        edit_file(file, None)
    assert path.read_text() == "theirs"
    assert names(path.parent) == ["settings.json"]


@pytest.mark.skipif(not HAS_LEASES, reason="the system has no leases")
def test_a_file_that_is_open_for_writing_elsewhere_is_refused(path: Path) -> None:
    file = read_user_file(path)
    with path.open("r+"), pytest.raises(ConfigFileError, match="is open in another program that may write it"):
        edit_file(file, b"[]")
    with path.open():
        edit_file(file, b"[]")
    assert path.read_text() == "[]"


@pytest.mark.usefixtures("exchange")
def test_an_edit_keeps_permissions_and_attributes(path: Path) -> None:
    path.chmod(0o640)
    attributes = {}
    try:
        os.setxattr(path, "user.note", b"mine")
        attributes = {"user.note": b"mine"}
    except (OSError, AttributeError):
        pass
    edit_file(edit_file(read_user_file(path), b"[1]"), b"[2]")
    assert (path.read_text(), S_IMODE(path.stat().st_mode)) == ("[2]", 0o640)
    assert attributes == {name: os.getxattr(path, name) for name in attributes}
    assert names(path.parent) == ["settings.json"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_leaves_files_to_their_owner(path: Path) -> None:
    os.chown(path, 1234, 1235)
    os.chown(path.parent, 1234, 1235)
    edit_file(read_user_file(path), b"[]")
    made = path.parent / ".claude" / "agents" / "coder.md"
    edit_file(read_user_file(made), b"-")
    for file in (path, made, made.parent, made.parent.parent):
        assert (file.stat().st_uid, file.stat().st_gid) == (1234, 1235)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_an_owner_that_cannot_be_kept_is_a_refusal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    os.chown(path, 1234, -1)
    with pytest.raises(ConfigFileError, match="belongs to another user or group"):
        edit_file(read_user_file(path), b"[]")
    assert path.read_text() == "{}"
    assert names(path.parent) == ["settings.json"]


@pytest.mark.parametrize("new", [b"[]", None])
def test_a_read_only_file_or_folder_stays(new: bytes | None, path: Path) -> None:
    path.chmod(0o444)
    with pytest.raises(ConfigFileError, match="is read-only: make it writable"):
        edit_file(read_user_file(path), new)
    path.chmod(0o644)
    path.parent.chmod(0o555)
    try:
        for file in (read_user_file(path), read_user_file(path.with_name("new")), read_user_file(path.parent / "a/b")):
            with pytest.raises(ConfigFileError, match="is in a read-only folder"):
                edit_file(file, b"[]" if file.data is None else new)
    finally:
        path.parent.chmod(0o755)
    assert path.read_text() == "{}"


def test_a_file_with_two_names_is_refused(path: Path) -> None:
    path.with_name("other").hardlink_to(path)
    with pytest.raises(ConfigFileError, match="has 2 names"):
        edit_file(read_user_file(path), b"[]")
    assert path.read_text() == "{}"


def test_a_link_is_named_and_stays(path: Path) -> None:
    link = path.with_name("link.json")
    link.symlink_to("settings.json")
    file = read_user_file(link)
    assert file.title == f"{link} -> {path}"
    edit_file(file, b"[]")
    assert (link.is_symlink(), path.read_text()) == (True, "[]")


@pytest.mark.parametrize(
    ("link", "target", "problem"),
    [
        ("x.json", "nowhere/x.json", "is a link to nowhere/x.json, where there is nothing"),
        ("x.json", "x.json", "leads back to itself"),
        ("x.json", "../outside/x.json", "outside of "),
        ("x.json", "../outside/none.json", "where there is nothing"),
        (".claude", "../outside", "outside of "),
        (".claude", ".claude", "leads back to itself"),
        (".claude", "nowhere", "where there is nothing"),
        ("x.json", "/dev/zero", "outside of "),
    ],
)
def test_a_link_that_leads_elsewhere_is_refused(link: str, target: str, problem: str, tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (outside / "x.json").write_text("{}")
    (project / link).symlink_to(target)
    path = project / link / "x.json" if link == ".claude" else project / link
    with pytest.raises(ConfigFileError, match=problem) as refused:
        read_user_file(path, project)
    assert str(refused.value).startswith(f"{path}: is ")
    assert names(outside) == ["x.json"]


def test_links_above_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "project").symlink_to("real")
    file = read_user_file(tmp_path / "project" / "x.json", tmp_path / "project")
    assert not file.is_link
    edit_file(file, b"{}")
    assert (tmp_path / "real" / "x.json").read_text() == "{}"


@pytest.mark.parametrize("name", ["inner/../x.json", "inner/../../beside/x.json"])
def test_a_path_that_goes_up_is_behind_no_link(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("project/inner", "beside"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    file = edit_file(read_user_file(Path(name)), b"{}")
    assert (file.is_link, file.title) == (False, name)
    assert (tmp_path / "project" / name).read_bytes() == b"{}"


def test_a_link_that_comes_after_reading_is_not_followed(path: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("{}")
    file = read_user_file(path)
    path.unlink()
    path.symlink_to(outside)
    with pytest.raises(ConfigFileError, match="has changed since it was read"):
        edit_file(file, b"[]")
    assert outside.read_text() == "{}"


@pytest.mark.parametrize("kind", ["pipe", "folder", "long", "zero", "below a file", "large"])
def test_what_is_no_file_is_a_sentence(kind: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_edit, "MAX_FILE_BYTES", 100)
    other = path.with_name("other")
    if kind == "pipe":
        os.mkfifo(other)
    elif kind == "folder":
        other.mkdir()
    elif kind == "large":
        other.write_bytes(b" " * 101)
    other = {"long": path.with_name("x" * 300), "zero": path.with_name("a\0b"), "below a file": path / "x"}.get(
        kind, other
    )
    with pytest.raises(ConfigFileError, match="cannot be read: "):
        read_user_file(other)


def test_a_pipe_in_the_place_of_a_file_is_not_opened_for_long(path: Path) -> None:
    file = read_user_file(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ConfigFileError, match="is a pipe or a device"):
        edit_file(file, b"[]")


def test_of_several_files_all_are_edited_or_none(tmp_path: Path) -> None:
    files: list[UserFile] = []
    for name in ("a", "b"):
        (tmp_path / name).write_text("old")
        files.append(read_user_file(tmp_path / name))
    new = read_user_file(tmp_path / "new")
    (tmp_path / "b").write_text("other")
    with pytest.raises(ConfigFileError, match="b: has changed"):
        edit_files([(new, b"new"), *((file, b"new") for file in files)])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old", "b": "other"}
