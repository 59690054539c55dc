"""Whatever happens to a run, the user's repository stays as it was: byte for byte, and usable."""

import asyncio
import contextlib
import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path

import pytest

import boolab as bl
from boolab.io.files import open_file
from boolab.runtime.worlds import scan
from tests.support.cases import first
from tests.support.git_worlds import (
    Edit,
    Files,
    all_of,
    branched,
    edit_tool,
    edited,
    editor,
    files_after,
    files_of,
    git,
    kept,
    repository,
    users_own,
    write,
)
from tests.support.project import ROOT


def test_a_dirty_index_stays_byte_for_byte(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    for name in ("staged", "both", "untracked", "intent", "removed"):
        write(name, "1")(root)
    git(root, "add", "staged", "both", "removed")
    git(root, "add", "--intent-to-add", "intent")
    git(root, "rm", "--quiet", "--cached", "a.txt")
    git(root, "update-index", "--assume-unchanged", "sub/b.txt")
    write("both", "2")(root)
    (root / "removed").unlink()
    status, before = git(root, "status", "--porcelain=v2"), users_own(root)
    run = edited(bl.GitWorld(root), [lambda _: None, lambda _: None])
    assert users_own(root) == before
    assert git(root, "status", "--porcelain=v2") == status
    assert files_after(bl.GitWorld(root), run, 2) == files_of(root)


def test_git_hook_variables_do_not_redirect_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, other = repository(tmp_path / "r"), repository(tmp_path / "other")
    before = users_own(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    world = bl.GitWorld(root)
    run = edited(world, [write("x")])
    assert world.kept() == [run.run_id]
    assert users_own(other) == before


# Killed in mid-snapshot.

KILLED = """
import sys
from pathlib import Path
import boolab as bl
from tests.support.git_worlds import edited, write

def edit(number):
    def make(root):
        print(number, flush=True)
        for part in range(30):
            write(f"n{part}", f"{number} {part}" * 50)(root)
    return make

edited(bl.GitWorld(sys.argv[1]), [edit(number) for number in range(200)])
"""


@pytest.mark.usefixtures("_adopts_orphans")
@pytest.mark.parametrize("seed", first(1, range(30)))
def test_killed_run_leaves_a_sound_repository_and_no_lock(tmp_path: Path, state: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a moment
    root = repository(tmp_path / "r")
    git(root, "add", "--all")
    before = {name: value for name, value in users_own(root).items() if not name.startswith(b"worktree/n")}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(root)], cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        for _ in range(chance.randint(1, 4)):
            assert process.stdout.readline().strip()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0, 0.15))
        os.killpg(process.pid, signal.SIGKILL)  # git too
    assert process.returncode == -signal.SIGKILL
    orphans_end(process.pid)
    assert_sound(root, before)
    (killed,) = bl.GitWorld(root).kept()
    for commit in git(root, "rev-list", f"refs/boolab/{killed}").decode().split():
        git(root, "ls-tree", "-r", commit)
    run = edited(bl.GitWorld(root), [write("n0", "after"), write("n1", "after")])
    assert not any("fault" in facts for facts in kept(run).values())
    assert_sound(root, before)
    assert [path.name for path in (root / ".git").rglob("*.lock")] == []
    assert list(state.iterdir()) == []
    assert files_after(bl.GitWorld(root), run, 2) == files_of(root)


@pytest.fixture
def _adopts_orphans() -> Iterator[None]:
    """Children of a child that died become children of this process, so that it can wait for them."""
    if sys.platform != "linux":
        yield
        return
    prctl, set_child_subreaper = ctypes.CDLL(None).prctl, 36
    prctl(set_child_subreaper, 1)
    yield
    prctl(set_child_subreaper, 0)


def orphans_end(group: int) -> None:
    """Wait for killed processes of a group: a child that is about to become git still holds the lock of the run."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-group, 0)


def assert_sound(root: Path, before: Files) -> None:
    git(root, "fsck", "--strict", "--full", "--no-dangling")
    assert {name: value for name, value in users_own(root).items() if not name.startswith(b"worktree/n")} == before


# Cancelled in mid-snapshot.


def test_run_cancelled_during_a_snapshot_has_a_usable_record(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "r")
    before = users_own(root)
    armed, reached, cancelled = threading.Event(), threading.Event(), threading.Event()
    edits = [write("x", "1"), all_of([write("x", "2"), write("new"), lambda _: armed.set()]), write("x", "3")]

    def blocking(path: str, dir_fd: int) -> BufferedReader:
        if armed.is_set():
            reached.set()
            cancelled.wait()
        return open_file(path, dir_fd)

    async def cancel() -> bl.Run:
        run = bl.run(
            None, "Edit.", model=editor(edits), tools=[edit_tool(edits)], world=bl.GitWorld(root), policy="naive"
        )
        task = asyncio.create_task(run)
        await asyncio.to_thread(reached.wait)  # the event loop is free while files are read
        task.cancel()
        asyncio.get_running_loop().call_soon(cancelled.set)
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        found = caught.value.run  # type: ignore[attr-defined]
        assert isinstance(found, bl.Run)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(scan, "open_file", blocking)
        run = asyncio.run(cancel())
    assert (run.stop_reason, run.n_steps, list(kept(run))) == ("aborted", 2, [0, 1])
    assert users_own(root) == before | {b"worktree/x": ("file", b"2"), b"worktree/new": ("file", b"")}
    with pytest.raises(bl.SettingError, match=r"after step 2 were not kept: the run was cancelled .* after: 0, 1"):
        branched(run, 2, bl.GitWorld(root), edits)
    branch = branched(run, 1, bl.GitWorld(root, into=tmp_path / "branch"), edits)
    assert (branch.stop_reason, (tmp_path / "branch/x").read_text()) == ("finished", "3")
    assert list(state.iterdir()) == []


# Several at once.


async def together(
    worlds: Sequence[bl.GitWorld], edits: Sequence[Sequence[Edit]], seen: list[list[Files]]
) -> list[bl.Run]:
    """Runs at the same time, one for each world."""
    runs = [
        bl.run(None, "Edit.", model=editor(own), tools=[edit_tool(own, states)], world=world, policy="naive")
        for world, own, states in zip(worlds, edits, seen, strict=True)
    ]
    return list(await asyncio.gather(*runs))


@pytest.mark.slow
def test_runs_in_separate_folders_of_one_repository(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    for number in range(5):
        (root / f"w{number}").mkdir()
    worlds = [bl.GitWorld(root / f"w{number}") for number in range(5)]
    edits = [[write(f"x{step % 2}", f"{number} {step}") for step in range(4)] for number in range(5)]
    seen: list[list[Files]] = [[] for _ in worlds]
    runs = asyncio.run(together(worlds, edits, seen))
    for world, run, states in zip(worlds, runs, seen, strict=True):
        for step, state in enumerate(states, 1):
            assert files_after(world, run, step) == state
    assert sorted(worlds[0].kept()) == sorted(run.run_id for run in runs)
    git(root, "fsck", "--strict", "--full")


def test_second_run_of_one_id_is_refused_and_the_first_continues(tmp_path: Path) -> None:
    world = bl.GitWorld(repository(tmp_path / "r"))
    first_one = world.keep("same", None)
    with pytest.raises(bl.errors.WorldError, match="'same' is being kept already"):
        world.keep("same", None)
    other = world.keep("other", None)
    assert "commit" in first_one.snapshot()
    first_one.close()
    other.close()


def test_runs_in_one_folder_keep_what_is_there(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")

    def own(number: int, step: int) -> Edit:
        def make(root: Path) -> None:
            write(f"{number}/kept", f"{step}")(root)
            write(f"{number}/{step}")(root)
            (root / f"{number}/{step - 1}").unlink(missing_ok=True)

        return make

    edits = [[own(number, step) for step in range(4)] for number in range(3)]
    seen: list[list[Files]] = [[] for _ in edits]
    runs = asyncio.run(together([bl.GitWorld(root)] * 3, edits, seen))
    for number, run in enumerate(runs):
        assert not any("fault" in facts for facts in kept(run).values())
        for step in range(4):
            assert files_after(bl.GitWorld(root), run, step + 1)[b"%d/kept" % number] == ("file", b"%d" % step)
    git(root, "fsck", "--strict", "--full")
