"""What `GitWorld` keeps comes back byte for byte, at every step."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from tests.support.cases import cases
from tests.support.git_worlds import (
    Edit,
    Files,
    all_of,
    branched,
    edited,
    files_after,
    files_of,
    git,
    kept,
    repository,
    users_own,
    write,
)


def assert_restored(root: Path, run: bl.Run, states: list[Files]) -> None:
    """Each state comes back: the first is that before step 1."""
    for at, state in enumerate(states):
        assert files_after(bl.GitWorld(root), run, at) == state


def test_renamed_binary_deleted_and_linked_files_are_restored(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    edits: list[Edit] = [
        lambda root: (root / "a.txt").rename(root / "renamed.txt"),
        write("data.bin", bytes(range(256)) * 9),
        lambda root: (root / "renamed.txt").unlink(),
        write("run.sh", "#!/bin/sh\n", 0o755),
        lambda root: (root / "run.sh").chmod(0o644),
        lambda root: (root / "link").symlink_to("sub/b.txt"),
        lambda root: (root / "gone").symlink_to("/no such file"),
        lambda root: (root / "empty/in/it").mkdir(parents=True),
        lambda root: shutil.rmtree(root / "empty/in"),
        lambda root: shutil.rmtree(root / "sub"),
        write("sub", "a file where a folder was"),
        all_of([lambda root: (root / "sub").unlink(), write("sub/c/d")]),
        all_of([lambda root: (root / "sub").rename(root / "other"), lambda root: (root / "sub").symlink_to("other")]),
    ]
    before = files_of(root)
    seen: list[Files] = []
    run = edited(bl.GitWorld(root), edits, seen)
    assert run.stop_reason == "finished"
    assert_restored(root, run, [before, *seen])


NAMES = [
    "a", "A", "b c", " ", "new\nline", "tab\t", "\udcff\udc80", "é", "e\u0301", "back\\slash", "-rf", "--", ":(glob)*",
    "*", "?", "[ab]", "#x", "!x", "x ", "git~1", "con", ".gitattributes", "x.up", "x.u16", "日本", '"q"',
]  # fmt: skip
CONTENTS = [b"", b"a\r\nb\n", b"\r", b"$Id$ $Id: x $\n", b"\xff\xfeh\0", bytes(range(256)), b"abc\n", b"xyz\n"]
NAME = st.sampled_from(NAMES)
PATH = st.lists(NAME, min_size=1, max_size=3).map("/".join)


def attempt(action: Callable[[], object]) -> None:
    """Make an edit that the state of the folder may not allow."""
    try:
        action()
    except OSError:
        return


def removed(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def an_edit(kind: str, path: str, other: str, content: bytes, mode: int) -> Edit:
    """One random edit."""

    def make(root: Path) -> None:
        first, second = root / path, root / other
        actions: dict[str, Callable[[], object]] = {
            "write": lambda: write(path, content)(root),
            "in place": lambda: first.write_bytes(content),
            "remove": lambda: removed(first),
            "move": lambda: first.rename(second),
            "copy": lambda: shutil.copy2(first, second),
            "mode": lambda: first.chmod(mode) if first.is_file() and not first.is_symlink() else None,
            "link": lambda: first.symlink_to(other),
            "folder": lambda: first.mkdir(parents=True),
            "replace": lambda: all_of([lambda _: removed(first), write(path, content)])(root),
        }
        attempt(actions[kind])

    return make


KINDS = ["write", "write", "write", "in place", "remove", "move", "copy", "mode", "link", "folder", "replace"]
EDITS = st.builds(
    an_edit,
    st.sampled_from(KINDS),
    PATH,
    PATH,
    st.sampled_from(CONTENTS),
    st.sampled_from([0o644, 0o755, 0o600, 0o700]),
)


@cases(12, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(EDITS, min_size=1, max_size=6).map(all_of), min_size=1, max_size=4), st.booleans())
def test_any_edits_come_back_byte_for_byte_at_every_step(edits: list[Edit], hostile: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = repository(Path(folder) / "r", hostile=hostile)
        outside = {name: value for name, value in users_own(root).items() if not name.startswith(b"worktree/")}
        before = files_of(root)
        seen: list[Files] = []
        run = edited(bl.GitWorld(root), edits, seen)
        assert run.stop_reason == "finished"
        assert [event.kind for event in run.events] == ["world"] * (len(edits) + 1)
        assert_restored(root, run, [before, *seen])
        now = users_own(root)
        assert {name: value for name, value in now.items() if not name.startswith(b"worktree/")} == outside
        assert not (Path(folder) / "hook-ran").exists()


@pytest.mark.parametrize(("linked", "kinds"), [(False, ["world", "world"]), (True, ["world", "fault", "world"])])
def test_gitmodules_file_is_kept_and_a_link_is_a_fault(tmp_path: Path, linked: bool, kinds: list[str]) -> None:
    root = repository(tmp_path / "r")

    def edit(folder: Path) -> None:
        path = folder / ".gitmodules"
        path.symlink_to("a") if linked else path.write_bytes(b"")

    run = edited(bl.GitWorld(root), [edit])
    assert [event.kind for event in run.events] == kinds
    assert run.stop_reason == "finished"


def test_settings_attributes_and_filters_change_no_byte(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", hostile=True)
    contents = {"x.up": b"MiXed\r\n", "y.u16": "é".encode("utf-16"), "z.txt": b"$Id$\r\nno end", "w": b"\r\n\n\r"}
    edits = [write(name, content) for name, content in contents.items()]
    run = edited(bl.GitWorld(root), edits)
    branch = branched(run, 4, bl.GitWorld(root), edits)
    folder = bl.GitWorld.folder_of(branch)
    assert folder is not None
    assert {name: (folder / name).read_bytes() for name in contents} == contents
    assert not (tmp_path / "hook-ran").exists()
    shutil.rmtree(folder)


def test_a_file_changed_within_the_second_with_its_size_is_seen(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    before = files_of(root)
    seen: list[Files] = []
    run = edited(bl.GitWorld(root), [write("n", str(number)) for number in range(6)], seen)
    assert len({facts["commit"] for facts in kept(run).values()}) == 7
    assert_restored(root, run, [before, *seen])


def test_a_folder_below_the_top_is_kept_alone(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root / "sub"), [write("new", "x")])
    assert files_after(bl.GitWorld(root / "sub"), run, 1) == {b"b.txt": ("file", b"$Id$\n"), b"new": ("file", b"x")}


def test_a_linked_worktree_works(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    git(root, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "linked"))
    linked = tmp_path / "linked"
    seen: list[Files] = []
    run = edited(bl.GitWorld(linked), [write("new", "x")], seen)
    assert files_after(bl.GitWorld(linked), run, 1) == seen[0]
    assert git(root, "rev-parse", f"refs/boolab/{run.run_id}").decode().strip() == kept(run)[1]["commit"]
    assert bl.GitWorld(root).kept() == [run.run_id]


def test_a_repository_of_sha256_works(tmp_path: Path) -> None:
    root = tmp_path / "r"
    root.mkdir()
    git(root, "init", "--quiet", "--object-format=sha256")
    seen: list[Files] = []
    run = edited(bl.GitWorld(root), [write("new", "x")], seen)
    assert len(kept(run)[1]["commit"]) == 64
    assert_restored(root, run, [{}, *seen])


def test_kept_files_survive_garbage_collection_until_forgotten(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    seen: list[Files] = []
    run = edited(bl.GitWorld(root), [write("new", "x"), write("new", "y")], seen)
    git(root, "gc", "--quiet", "--prune=now")
    world = bl.GitWorld(root)
    assert files_after(world, run, 1) == seen[0]
    assert world.forget(run, "unknown") == [run.run_id]
    assert world.kept() == []
    git(root, "gc", "--quiet", "--prune=now")
    with pytest.raises(bl.errors.WorldError, match=r"is not in .*: it was forgotten, or the run was kept in another"):
        world.restored(kept(run)[1])


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".db"])
def test_a_saved_run_still_has_what_was_kept(tmp_path: Path, suffix: str) -> None:
    root = repository(tmp_path / "r")
    seen: list[Files] = []
    edits = [write("new", "x"), write("new", "y")]
    run = edited(bl.GitWorld(root), edits, seen)
    path = tmp_path / f"runs{suffix}"
    if suffix == ".db":
        with bl.Store(path) as store:
            store.add([run])
        (loaded,) = bl.stored_runs(path)
    else:
        bl.save_runs([run], path)
        (loaded,) = bl.load_runs(path)
    assert kept(loaded) == kept(run)
    branch = branched(loaded, 1, bl.GitWorld(root, into=tmp_path / "branch"), edits)
    assert branch.n_steps == 3
    assert files_of(tmp_path / "branch") == files_of(root)


def test_a_hostile_record_reaches_nothing_outside_of_the_folder(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    world = bl.GitWorld(root)
    for commit in ("--output=x", "HEAD", "main", "../x", "", None, "0" * 40):
        facts: dict[str, Any] = {"commit": commit}
        with pytest.raises(bl.errors.WorldError):
            world.restored(facts)
    (root / "out").symlink_to(tmp_path)
    git(root, "add", "out")
    tree = git(root, "write-tree").decode().strip()
    note = '{"folders": ["out/made", "../made", "/made-by-a-record", ".git/made", "fine"], "left_out": {}}'
    commit = git(root, "commit-tree", tree, "-m", "boolab x", "-m", note).decode().strip()
    restored = world.restored({"commit": commit})
    assert (restored.root / "fine").is_dir()
    assert not (tmp_path / "made").exists()
    assert not Path("/made-by-a-record").exists()
    assert not (restored.root / ".git").exists()
    restored.discard()
