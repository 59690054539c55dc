"""Folders of branches: those of dead processes are removed, and no other."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from boolab.errors import WorldError
from boolab.io.git import scratch
from boolab.io.git.scratch import remove_leftovers, scratch_folder
from tests.support.project import ROOT

HELD = """
import sys
from boolab.io.git.scratch import scratch_folder

with scratch_folder(sys.argv[1]) as folder:
    (folder / "sub").mkdir()
    (folder / "sub/file").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of temporary folders."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def holder(owner: str) -> "subprocess.Popen[str]":
    """A process that holds a folder."""
    return subprocess.Popen(
        [sys.executable, "-c", HELD, owner], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_remove_leftovers_deletes_only_folders_of_dead_processes(place: Path) -> None:
    with holder("a1") as dead, holder("a1") as alive, holder("b2") as other:
        folders = []
        for process in (dead, alive, other):
            assert process.stdout is not None
            folders.append(Path(process.stdout.readline().strip()))
        os.kill(dead.pid, signal.SIGKILL)
        dead.wait()
        remove_leftovers({"a1"})
        assert [folder.is_dir() for folder in folders] == [False, True, True]
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
        remove_leftovers({"a1"})
        assert folders[2].is_dir()  # of another owner
        remove_leftovers({"a1", "b2"})
        assert [folder.is_dir() for folder in folders] == [False, True, False]
        alive.communicate()
    assert list(place.iterdir()) == []


def test_what_has_no_lock_is_never_removed(place: Path) -> None:
    kept = place / "boolab-branch-a1-0123"
    kept.mkdir()
    remove_leftovers({"a1"})
    assert kept.is_dir()


def test_nothing_that_a_link_leads_to_is_removed(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    precious = tmp_path_factory.mktemp("precious") / "file"
    precious.write_text("x")
    (place / "boolab-branch-a1-0123").symlink_to(precious.parent)
    (place / "boolab-branch-a1-0123.lock").touch()
    remove_leftovers({"a1"})
    assert precious.read_text() == "x"


def test_a_place_that_cannot_be_written_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(place / "gone"))
    with pytest.raises(WorldError, match="no folder can be made in .*gone': No such file"), scratch_folder("a1"):
        pass


def test_an_error_removes_the_folder(place: Path) -> None:
    with pytest.raises(ZeroDivisionError), scratch_folder("a1"):
        1 / 0  # noqa: B018 - the error
    assert list(place.iterdir()) == []


def test_where_no_folder_can_be_made_the_lock_is_given_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, mode: int = 0o777) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "mkdir", full)
        with pytest.raises(WorldError, match="No space left"), scratch_folder("a1"):
            pass
    assert list(place.iterdir()) == []
    held = [one.readlink() for one in Path("/proc/self/fd").iterdir() if os.path.lexists(one)]
    assert not [path for path in held if path.is_relative_to(place)]


def test_folder_is_taken_once_a_probe_of_its_lock_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = scratch._take(tmp_path / "a1.lock", make=True)
    assert probe is not None
    monkeypatch.setattr(time, "sleep", lambda _: os.close(probe))
    with scratch.scratch_folder("a1", tmp_path, exclusive=True) as folder:
        assert folder.is_dir()


def test_folder_that_another_process_holds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with scratch.scratch_folder("a1", tmp_path, exclusive=True), pytest.raises(scratch.HeldError, match="in use"):
        scratch.scratch_folder("a1", tmp_path, exclusive=True).__enter__()
