"""Hostile repositories: nothing of them is run, followed or waited for, and nothing outside of them is changed.

A repository may come from an archive, and an agent can write into the one in which it works, before and during a run.
Whatever is planted, either the run keeps its files as ever, or an error names what is wrong.
"""

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import boolab as bl
from boolab.io.files import open_file
from boolab.io.folders import folder_handle
from boolab.io.git import command
from boolab.io.git.command import find_git
from boolab.io.git.objects import ObjectWriter, TreeEntry, tree_bytes
from boolab.io.git.reading import open_git
from boolab.io.git.repository import find_repository
from boolab.runtime.worlds import checkout, scan
from boolab.runtime.worlds.checkout import check_out
from tests.support.git_worlds import (
    Edit,
    Files,
    edited,
    files_after,
    files_of,
    git,
    kept,
    repository,
    users_own,
    write,
)
from tests.support.project import PACKAGE

TIB: Final = 2**40
HOOKS: Final = """pre-commit post-commit post-checkout reference-transaction post-index-change pre-auto-gc
    fsmonitor-watchman post-merge post-rewrite"""
PROGRAMS: Final = """core.sshCommand core.pager pager.log pager.config pager.ls-files pager.check-ignore core.editor
    credential.helper gpg.program alias.ls-files alias.cat-file alias.check-ignore core.gitProxy diff.external
    core.alternateRefsCommand uploadpack.packObjectsHook sequence.editor core.askPass"""
Plant = Callable[[Path, Path], object]
"""Makes a repository hostile: its folder, and a program that leaves a trace when it runs."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where boolab keeps git directories of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield tmp_path / "state/boolab/git"
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.stat().st_size == TIB:
            path.unlink()  # whoever looks into all files of the tests would read it


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the user, to which nothing may happen."""
    folder = tmp_path / "home"
    for name in ("Documents/thesis", ".ssh/id", "notes", "config", "HEAD", "lock"):
        write(name, "precious")(folder)
    return folder


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that leaves a trace."""
    path = tmp_path / "program.sh"
    path.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    path.chmod(0o755)
    return path


def settings(*names: str) -> Plant:
    """Settings whose value is the program."""
    return lambda root, program: [git(root, "config", name, str(program)) for name in names]


def hooks(root: Path, program: Path) -> None:
    for name in HOOKS.split():
        shutil.copy(program, root / ".git/hooks" / name)
    git(root, "config", "core.hooksPath", str(root / ".git/hooks"))


def filters(root: Path, program: Path) -> None:
    names = ("filter.e.clean", "filter.e.smudge", "filter.e.process", "diff.e.textconv", "merge.e.driver")
    settings(*names)(root, program)
    (root / ".gitattributes").write_text("* filter=e diff=e merge=e\n")
    write(".git/info/attributes", "* filter=e\n")(root)


def monitored_index(root: Path, program: Path) -> None:
    git(root, "config", "core.fsmonitor", str(program))
    git(root, "update-index", "--fsmonitor")
    git(root, "status")
    (program.parent / "ran").unlink()


def promisor(root: Path, program: Path) -> None:
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": f"ext::{program} x",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
    }.items():
        git(root, "config", name, value)
    blob = git(root, "rev-parse", "HEAD:a.txt").decode().strip()
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink()


def former_folder(root: Path, program: Path) -> None:
    """A git directory as an older version made it, whose settings are those of the repository."""
    filters(root, program)
    git(root, "config", "core.fsmonitor", str(program))
    write(".git/boolab/commondir", "..\n")(root)


def linked(name: str, target: str) -> Plant:
    def plant(root: Path, program: Path) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(program.parent / target)

    return plant


def piped(name: str) -> Plant:
    def plant(root: Path, program: Path) -> None:
        (root / name).unlink(missing_ok=True)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(root / name)

    return plant


def piped_excludes(root: Path, program: Path) -> None:
    os.mkfifo(root / ".git/pipe")
    git(root, "config", "core.excludesFile", str(root / ".git/pipe"))


def endless_pattern(root: Path, program: Path) -> None:
    (root / ".gitignore").write_text("/" + "*a" * 40 + "b/x\n" + ("/" + "p*" * 30 + "x/y\n") * 50)
    write("a" * 200 + "/z")(root)


PLANTED: Final[dict[str, Plant]] = {
    "hooks": hooks,
    "filters": filters,
    "fsmonitor": settings("core.fsmonitor"),
    "monitored index": monitored_index,
    "other programs": settings(*PROGRAMS.split()),
    "promisor": promisor,
    "git directory of an older version": former_folder,
    ".git/boolab/lock is a link": linked(".git/boolab/lock", "home/notes"),
    ".git/boolab/runs is a link": linked(".git/boolab/runs", "home"),
    ".git/boolab is a link": linked(".git/boolab", "home"),
    ".gitignore is a link to a device": linked(".gitignore", "/dev/zero"),
    "core.excludesFile is a pipe": piped_excludes,
    ".git/info/exclude is a pipe": piped(".git/info/exclude"),
    "pattern that takes for ever": endless_pattern,
    "includes a pipe": lambda root, program: [
        piped(".git/more")(root, program),
        git(root, "config", "include.path", "more"),
    ],
    "config of the working tree": lambda root, program: [
        git(root, "config", "extensions.worktreeConfig", "true"),
        write(".git/config.worktree", f"[core]\nfsmonitor = {program}\n")(root),
    ],
    "core.worktree leads out": lambda root, program: git(root, "config", "core.worktree", str(program.parent / "home")),
    "commondir leads out": lambda root, program: write(".git/commondir", str(program.parent / "other/.git"))(root),
    "alternates lead out": lambda root, program: write(
        ".git/objects/info/alternates", f"{program.parent}/other/.git/objects\n"
    )(root),
    "a list of a pack that lies": lambda root, program: write(
        ".git/objects/pack/pack-00.idx", b"\xfftOc\0\0\0\2" + b"\xff" * 2000
    )(root) or write(".git/objects/pack/pack-00.pack")(root),
}  # fmt: skip


def keeps_as_ever(root: Path, folder: Path) -> None:
    """A run in a folder of a repository is kept, and all of its states come back."""
    seen: list[Files] = []
    run = edited(bl.GitWorld(folder), [write("new", "1"), write("c/d", "2")], seen)
    assert [event.kind for event in run.events] == ["world"] * 3
    for at, state in enumerate(seen, 1):
        expected = {name: value for name, value in state.items() if name != b"secret"}
        assert files_after(bl.GitWorld(folder), run, at) == expected
    assert git(root, "cat-file", "-t", f"refs/boolab/{run.run_id}") == b"commit\n"


@pytest.mark.parametrize("name", PLANTED)
def test_hostile_repository_runs_nothing_and_changes_nothing(
    name: str, tmp_path: Path, outside: Path, program: Path
) -> None:
    root, other = repository(tmp_path / "r"), repository(tmp_path / "other")
    PLANTED[name](root, program)
    before = users_own(root), files_of(outside), files_of(other / ".git")
    below = root / "sub" if ".gitignore is" in name else root
    seen: list[Files] = []
    world = bl.GitWorld(below)
    run = edited(world, [write("new", "1"), write("c/d", "2")], seen)
    assert [event.kind for event in run.events] == ["world"] * 3
    for at, state in enumerate(seen, 1):
        assert files_after(world, run, at) == state
    assert world.kept() == [run.run_id]
    assert world.forget(run) == [run.run_id]
    after = {key: value for key, value in users_own(root).items() if not key.endswith((b"/new", b"/c", b"/c/d"))}
    assert (after, files_of(outside), files_of(other / ".git")) == before
    assert not (tmp_path / "ran").exists()


def test_agent_that_plants_files_in_git_runs_and_deletes_nothing(tmp_path: Path, outside: Path, program: Path) -> None:
    root = repository(tmp_path / "r")

    def planting(plant: Plant) -> Edit:
        return lambda root: plant(root, program)

    plants = (hooks, filters, settings("core.fsmonitor"), former_folder, piped(".git/config"))
    edits = [*map(planting, plants), planting(linked(".git/boolab/runs", "home")), write("x", "1")]
    run = edited(bl.GitWorld(root), edits)
    assert [event.kind for event in run.events] == ["world"] * 8
    assert not (tmp_path / "ran").exists()
    before = files_of(outside)
    with pytest.raises(bl.SettingError, match=r"config' cannot be read: a pipe or a device"):
        bl.GitWorld(root)
    (root / ".git/config").unlink()
    keeps_as_ever(root, root)
    assert files_of(outside) == before


# What stands in the place of a file.


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, TIB)


KINDS: Final[dict[str, Callable[[Path], object]]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "folder": lambda path: path.mkdir(),
    "huge file": huge,
}


def replaced(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    KINDS[kind](path)


NOT_NEEDED: Final = (
    ".gitignore", "sub/.gitignore", ".gitattributes", "sub/.gitattributes", "sub/x/.gitignore", ".git/info/exclude",
    ".git/info/attributes", ".git/HEAD", ".git/ORIG_HEAD", ".git/packed-refs", ".git/shallow", ".git/commondir",
    ".git/config.worktree", ".git/objects/info/alternates", ".git/objects/info/commit-graph",
    ".git/info/grafts", ".git/info/sparse-checkout", ".git/hooks/post-commit", ".git/boolab/commondir",
    ".git/logs", ".git/gc.pid", ".git/sharedindex." + "0" * 40, ".git/objects/pack/multi-pack-index",
    ".git/objects/pack/pack-00.idx", ".git/index.lock",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_run_is_kept_whatever_stands_for_files_it_does_not_need(kind: str, tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    for name in NOT_NEEDED:
        replaced(root / name, kind)
    run = edited(bl.GitWorld(root), [write("new", "1")])
    first, last = kept(run).values()
    assert [event.kind for event in run.events] == ["world"] * 2
    assert {".gitignore", ".git/info/exclude"} <= set(last["unread"])
    assert first["changed"] >= 2
    restored = bl.GitWorld(root).restored(last)
    assert (restored.root / "new").read_text() == "1"
    restored.discard()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [".git/config", ".git/index", ".git/packed-refs", ".git/refs/boolab", ".git"])
def test_what_stands_for_a_needed_file_is_named(name: str, kind: str, tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    replaced(root / name, kind)
    if (name, kind) == (".git/refs/boolab", "folder"):
        keeps_as_ever(root, root)
        return
    message = (
        "not a git repository|is a link|names no git directory|more than the 16,384 bytes"
        if name == ".git"
        else name.removeprefix(".git/")
    )
    with pytest.raises(bl.errors.BoolabError, match=message) as caught:
        edited(bl.GitWorld(root), [write("x")])
        bl.GitWorld(root).kept()
    assert isinstance(caught.value, bl.SettingError | bl.errors.WorldError)


@pytest.mark.parametrize("name", ["objects", "refs", "refs/boolab"])
def test_folder_of_git_that_is_a_link_is_left_alone(name: str, tmp_path: Path, outside: Path) -> None:
    root = repository(tmp_path / "r")
    if (root / ".git" / name).exists():
        (root / ".git" / name).rename(outside / "moved")
    (root / ".git" / name).symlink_to(outside)
    before = files_of(outside)
    with pytest.raises(bl.errors.BoolabError, match=rf"{name}' is a link or no folder, so boolab stays out of it"):
        edited(bl.GitWorld(root), [write("x")])
    assert files_of(outside) == before


def test_folder_of_objects_that_becomes_a_link_is_left_alone(tmp_path: Path, outside: Path) -> None:
    root = repository(tmp_path / "r")

    def link(root: Path) -> None:
        for number in range(256):
            folder = root / f".git/objects/{number:02x}"
            if not folder.exists():
                folder.symlink_to(outside)

    before = files_of(outside)
    run = edited(bl.GitWorld(root), [link, write("x", "1"), write("x", "2"), write("y", "3")])
    assert any(event.kind == "fault" for event in run.events)
    assert files_of(outside) == before


# Names and links in the folder.


def test_nested_repository_is_refused_before_it_is_read(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    for name in ("HEAD", "commondir", "config", "index"):
        replaced(root / "nested/.git" / name, "pipe")
    with pytest.raises(bl.errors.WorldError, match="holds other repositories or submodules.*nested/"):
        edited(bl.GitWorld(root), [write("x")])


def test_names_that_git_refuses_and_deep_folders_are_left_out(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")

    def deep(root: Path) -> None:
        write("/".join(["d"] * (scan.MAX_DEPTH + 1)) + "/file")(root)

    run = edited(bl.GitWorld(root), [write(".GIT/config", "x"), write("c/.Git", "x"), deep, write("y")])
    assert [event.kind for event in run.events] == ["world"] * 5
    left_out = kept(run)[4]["left_out"]
    assert {name: why for name, why in left_out.items() if "d/" not in name} == {
        ".GIT/": "git refuses the name",
        "c/.Git": "git refuses the name",
    }
    assert [why for name, why in left_out.items() if "d/" in name] == ["more than 256 folders deep"]
    git(root, "fsck", "--strict", "--full")


@pytest.mark.parametrize("name", ["sub", "sub/b.txt"])
def test_what_becomes_a_link_after_it_was_listed_is_not_followed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "r")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/b.txt").write_text("secret of the user")
    world = bl.GitWorld(root)
    keeper = world.keep("a", None)
    last = Path(name).name
    target = tmp_path / "outside" / name.removeprefix("sub").removeprefix("/")

    def swapping(function: Callable[..., Any]) -> Callable[..., Any]:
        def swapped(path: str | Path, dir_fd: int | None = None, **options: Any) -> Any:
            if path == last and not (root / name).is_symlink():
                (root / name).rename(tmp_path / "moved")
                (root / name).symlink_to(target)
            return function(path, dir_fd, **options)

        return swapped

    monkeypatch.setattr(scan, "folder_handle", swapping(folder_handle))
    monkeypatch.setattr(scan, "open_file", swapping(open_file))
    facts = keeper.snapshot()
    keeper.close()
    assert (root / name).is_symlink()
    restored = world.restored(facts)
    assert not (restored.root / "sub/b.txt").exists()
    restored.discard()


def test_folder_that_is_exchanged_all_the_time_is_never_followed(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/b.txt").write_text("secret of the user")
    (tmp_path / "link").symlink_to(tmp_path / "outside")
    ended = threading.Event()

    def exchange() -> None:
        while not ended.is_set():
            (root / "sub").rename(tmp_path / "folder")
            (tmp_path / "link").rename(root / "sub")
            (root / "sub").rename(tmp_path / "link")
            (tmp_path / "folder").rename(root / "sub")

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        keeper = bl.GitWorld(root).keep("a", None)
        for _ in range(20):
            keeper.snapshot()
        keeper.close()
    finally:
        ended.set()
        thread.join()
    objects = git(root, "cat-file", "--batch-all-objects", "--batch", "--unordered")
    assert b"$Id$" in objects
    assert b"secret of the user" not in objects


# Where a repository is.


def test_git_directory_outside_of_its_repository_is_refused(tmp_path: Path) -> None:
    other, linked = repository(tmp_path / "other"), tmp_path / "linked"
    git(other, "worktree", "add", "--quiet", str(linked))
    own = tmp_path / "own"
    (other / ".git/worktrees/linked").rename(own)
    (own / "commondir").write_text(f"{other / '.git'}\n")
    (linked / ".git").write_text(f"gitdir: {own}\n")
    assert (own / "gitdir").read_text() == f"{linked / '.git'}\n"
    with pytest.raises(bl.SettingError, match="does not name this folder in turn"):
        bl.GitWorld(linked)


def test_file_that_names_a_repository_elsewhere_is_refused(tmp_path: Path) -> None:
    other = repository(tmp_path / "other")
    git(other, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    before = users_own(other)
    for pointer in (".git", ".git/worktrees/linked"):
        root = tmp_path / pointer.replace("/", "_") / "r"
        write(".git", f"gitdir: {other / pointer}\n")(root)
        with pytest.raises(bl.SettingError, match="do(es)? not name this folder in turn"):
            bl.GitWorld(root)
    write(".git", f"gitdir: {tmp_path / 'gone'}\n")(tmp_path / "r")
    with pytest.raises(bl.SettingError, match="which is gone"):
        bl.GitWorld(tmp_path / "r")
    write(".git", "other text")(tmp_path / "r")
    with pytest.raises(bl.SettingError, match="names no git directory"):
        bl.GitWorld(tmp_path / "r")
    (tmp_path / "r/.git").unlink()
    (tmp_path / "r/.git").symlink_to(other / ".git")
    with pytest.raises(bl.SettingError, match="is a link"):
        bl.GitWorld(tmp_path / "r")
    assert users_own(other) == before


def test_submodule_is_a_repository_of_its_own(tmp_path: Path) -> None:
    root, other = repository(tmp_path / "r"), repository(tmp_path / "other")
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "lib/other")
    run = edited(bl.GitWorld(root / "lib/other"), [write("x")])
    assert bl.GitWorld(root / "lib/other").kept() == [run.run_id]
    assert bl.GitWorld(root).kept() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_repository_of_another_user_is_refused_unless_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "r")
    os.chown(root / ".git", 65534, 65534)
    git(root, "config", "--file", ".git/config", "safe.directory", "*")
    with pytest.raises(bl.SettingError, match=r"belongs to the user 65534: .*safe\.directory"):
        bl.GitWorld(root)
    write("gitconfig", f"[safe]\ndirectory = {root}\n")(tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    assert bl.GitWorld(root).kept() == []


def test_kept_runs_move_with_the_repository_and_leave_nothing(tmp_path: Path, state: Path) -> None:
    root, same_name = repository(tmp_path / "r"), repository(tmp_path / "x/r")
    seen: list[Files] = []
    run = edited(bl.GitWorld(root), [write("x", "1")], seen)
    keepers = [bl.GitWorld(folder).keep("same", None) for folder in (root, same_name)]
    assert len(list(state.iterdir())) == 4
    for keeper in keepers:
        keeper.close()
    root.rename(tmp_path / "moved")
    assert files_after(bl.GitWorld(tmp_path / "moved"), run, 1) == seen[0]
    shutil.rmtree(tmp_path / "moved")
    assert list(state.iterdir()) == []


def test_state_folder_writable_by_agents_or_others_is_refused(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "r")
    state.parent.mkdir(parents=True)
    state.symlink_to(tmp_path)
    with pytest.raises(bl.SettingError, match=r"state folder .*git' cannot be used: not a folder, or a link"):
        bl.GitWorld(root)
    state.unlink()
    state.mkdir()
    state.chmod(0o777)
    with pytest.raises(bl.SettingError, match=r"others can write in it.*XDG_STATE_HOME names another one"):
        bl.GitWorld(root)
    monkeypatch.setenv("XDG_STATE_HOME", str(root / "sub"))
    with pytest.raises(bl.SettingError, match="holds boolab's state folder .*, where an agent must not write"):
        bl.GitWorld(root)
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/state")
    with pytest.raises(bl.SettingError, match=r"state folder .* cannot be used: Not a directory"):
        bl.GitWorld(root)


# Objects and refs.


def objects(root: Path) -> Iterator[Path]:
    """The loose objects of a repository."""
    return (root / ".git/objects").glob("??/*")


def test_object_whose_bytes_were_exchanged_is_not_restored(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root), [write("x", "mine"), write("y", "other")])
    blobs = [git(root, "rev-parse", f"{kept(run)[2]['commit']}:{name}").decode().strip() for name in "xy"]
    first, second = (root / ".git/objects" / blob[:2] / blob[2:] for blob in blobs)
    second.replace(first)
    with pytest.raises(bl.errors.WorldError, match=f"the blob {blobs[0]} is damaged"):
        bl.GitWorld(root).restored(kept(run)[1])
    with pytest.raises(bl.errors.WorldError, match="is damaged, or parts of it are gone"):
        first.unlink()
        bl.GitWorld(root).restored(kept(run)[1])


def test_pipe_among_the_objects_is_an_error_and_no_wait(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root), [write("x", "1")])
    path = next(objects(root))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(bl.errors.WorldError, match=rf"{path.name}' is no file that git made, but a link, a pipe"):
        bl.GitWorld(root).restored(kept(run)[1])


def test_pipe_that_replaces_an_object_ends_in_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root), [write("x", "1")])
    commit = kept(run)[1]["commit"]
    path = root / ".git/objects" / commit[:2] / commit[2:]
    monkeypatch.setattr(command, "_SILENT_S", 0.1)
    with open_git(find_repository(root)) as reader:
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(bl.errors.WorldError, match="git cat-file printed nothing for 0.1 seconds"):
            reader("cat-file", "commit", commit)


def test_tree_that_grows_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "r")
    monkeypatch.setattr(checkout, "MAX_FILES", 50)
    writer = ObjectWriter(find_repository(root))
    tree = writer.put(b"tree", b"")
    for _ in range(12):
        tree = writer.put(b"tree", tree_bytes((b"%d" % number, TreeEntry(0o40000, tree)) for number in range(10)))
    writer.close()
    commit = git(root, "commit-tree", tree.hex(), "-m", "bomb").decode().strip()
    with pytest.raises(bl.errors.WorldError, match="more than the 50 files that are written"):
        bl.GitWorld(root).restored({"commit": commit})


EVIL: Final = {
    "a folder above": (0o100644, b"..", b""),
    "a path": (0o100644, b"../x", b""),
    "an absolute path": (0o100644, b"/x", b""),
    "the git directory": (0o40000, b".git", b"tree"),
    "the git directory, written differently": (0o40000, b".GiT", b"tree"),
    "a link for .gitmodules": (0o120000, b".gitmodules", b""),
    "a file of a link's name": (0o120000, b"a", b""),
    "an unknown mode": (0o10644, b"pipe", b""),
}


@pytest.mark.parametrize("name", EVIL)
def test_tree_of_untrusted_names_writes_nothing_outside(name: str, tmp_path: Path, outside: Path) -> None:
    root = repository(tmp_path / "r")
    writer = ObjectWriter(find_repository(root))
    mode, path, kind = EVIL[name]
    made = writer.put(kind or b"blob", b"" if kind else os.fsencode(outside))
    tree = writer.put(b"tree", tree_bytes([(path, TreeEntry(mode, made)), (b"a", TreeEntry(0o100644, made))]))
    writer.close()
    commit = git(root, "commit-tree", tree.hex(), "-m", "evil").decode().strip()
    before = files_of(outside)
    (tmp_path / "into/into").mkdir(parents=True)
    with pytest.raises(bl.errors.WorldError, match="which git refuses|two files of one name|has the mode 10644"):
        check_out(find_repository(root), commit, tmp_path / "into/into")
    assert files_of(outside) == before
    assert [path.name for path in (tmp_path / "into").iterdir()] == ["into"]


def test_packed_objects_and_refs_are_used_and_locks_respected(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    git(root, "gc", "--quiet")
    world = bl.GitWorld(root)
    for name in "ab":
        keeper = world.keep(name, None)
        keeper.snapshot()
        write("x", "1")(root)
        keeper.snapshot()
        keeper.close()
    assert len(list(objects(root))) == 5  # two commits of the first run, and one of the second; the file and its folder
    git(root, "pack-refs", "--all")
    (root / ".git/refs/boolab/b.lock").touch()
    with pytest.raises(bl.errors.WorldError, match="'b' is locked"):
        world.forget(*"ab")
    assert world.kept() == ["a", "b"]
    (root / ".git/refs/boolab/b.lock").unlink()
    branches = git(root, "show-ref", "--heads")
    assert world.forget("a") == ["a"]
    assert world.kept() == ["b"]
    assert git(root, "show-ref", "--heads") == branches
    git(root, "fsck", "--strict", "--full")


# Git itself.


def test_git_reads_a_hostile_repository_for_others(tmp_path: Path, program: Path) -> None:
    root = repository(tmp_path / "r")
    git(root, "tag", "-a", "v1", "-m", "tag")
    expected = git(root, "log", "-p", "--format=%H %s %D")
    for plant in (
        filters,
        settings("core.fsmonitor", "diff.external", "core.pager", "gpg.program", "alias.log"),
        hooks,
    ):
        plant(root, program)
    git(root, "config", "log.showSignature", "true")
    for name in (".git/info/grafts", ".git/objects/info/alternates", ".git/shallow", ".git/objects/info/commit-graph"):
        replaced(root / name, "pipe")
    with open_git(find_repository(root)) as reader:
        assert reader("log", "-p", "--format=%H %s %D") == expected
        assert reader("show", "--format=", "HEAD:a.txt") == b"one\r\ntwo\n"
        with pytest.raises(bl.errors.WorldError, match="git log printed more than 10 bytes"):
            reader("log", max_bytes=10)
    assert not (tmp_path / "ran").exists()


def test_variables_and_programs_around_git_are_not_used(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "r")
    shutil.copy(program, root / "git")
    monkeypatch.chdir(root)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    variables = {"TRACE": f"{tmp_path}/ran", "EXTERNAL_DIFF": str(program), "SSH_COMMAND": str(program)}
    variables |= {"CONFIG_COUNT": "1", "CONFIG_KEY_0": "core.fsmonitor", "CONFIG_VALUE_0": str(program)}
    variables |= {"EXEC_PATH": str(root), "ALTERNATE_OBJECT_DIRECTORIES": str(root), "CONFIG": str(root)}
    for name, value in variables.items():
        monkeypatch.setenv(f"GIT_{name}", value)
    assert Path(find_git()).is_absolute()
    assert edited(bl.GitWorld(root), [write("x")]).stop_reason == "finished"
    assert not (tmp_path / "ran").exists()


STARTS: Final = re.compile(
    r"subprocess\.(run|Popen|call|check_\w+)\(|\.create_subprocess_\w+\(|\bos\.(exec|spawn|popen|posix_spawn|system)\w*\("
)


def test_programs_are_started_by_few_modules_and_git_by_one() -> None:
    texts = {str(path.relative_to(PACKAGE)): path.read_text() for path in PACKAGE.rglob("*.py")}
    starting = {name for name, text in texts.items() if STARTS.search(text)}
    others = {"cli/hook.py", "cli/lab.py", "live/follow/watch.py", "core/process_pool.py", "runtime/tools/bash.py"}
    others |= {"runtime/models/local/weights.py"}  # pip, for `boolab model`
    assert starting - others == {"io/git/command.py", "runtime/tools/bash_supervisor.py"}
