"""What `GitWorld` cannot keep, and what it prints then: each with what to do."""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from tests.support.git_worlds import branched, edited, files_after, files_of, git, kept, repository, write
from tests.support.project import ROOT

MIB = 2**20


def refused(message: str, root: Path, **options: Any) -> None:
    with pytest.raises(bl.SettingError, match=message):
        bl.GitWorld(root, **options)


def test_without_git_on_the_path_it_asks_for_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "r")
    monkeypatch.setenv("PATH", str(tmp_path))
    refused("there is no git on the PATH: install git 2.31 or newer", root)


def test_a_folder_in_no_repository_is_refused(tmp_path: Path) -> None:
    refused(r"cannot be kept \(.*not a git repository.*\): run `git init` there, or choose another folder", tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    refused("is not a folder", tmp_path / "none")


def test_a_bare_repository_and_a_git_directory_are_refused(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "bare")
    refused("is in a bare repository, or in a git directory: choose a folder of a working tree", tmp_path / "bare")
    refused("is in a bare repository, or in a git directory", repository(tmp_path / "r") / ".git")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_file_mb": 0}, "max_file_mb=0: expected MiB, more than 0"),
        ({"max_file_mb": True}, "max_file_mb=True: expected MiB"),
        ({"include": "build/"}, "expected a list of files and folders"),
        ({"include": ["../x"]}, "expected a path below root, without '..' and '.git'"),
        ({"include": [".git/config"]}, "expected a path below root"),
        ({"include": ["/etc"]}, "expected a path relative to root"),
        ({"into": "."}, "overlap: choose a folder beside"),
    ],
)
def test_values_that_are_not_accepted_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "r")
    monkeypatch.chdir(root)
    refused(re.escape(message), root, **options)


def test_a_folder_for_a_branch_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    refused("is not empty: name a new folder, or remove it", root, into=tmp_path / "full")


def test_second_branch_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    edits = [write("x", "1")]
    run = edited(bl.GitWorld(root), edits)
    world = bl.GitWorld(root, into=tmp_path / "branch")
    branched(run, 1, world, edits)
    before = files_of(tmp_path / "branch")
    with pytest.raises(bl.SettingError, match="is not empty: name a new folder, or remove it"):
        branched(run, 1, world, edits)
    assert files_of(tmp_path / "branch") == before


def test_root_and_world_are_not_accepted_together(tmp_path: Path) -> None:
    world = bl.GitWorld(repository(tmp_path / "r"))
    with pytest.raises(bl.SettingError, match="leave root out"):
        bl.run_sync(None, "go", model=bl.ScriptedModel(["Hi."]), root=tmp_path, world=world)


def test_nested_repositories_are_named_before_the_first_request(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    repository(root / "nested")
    model = bl.ScriptedModel([])
    with pytest.raises(bl.errors.WorldError, match=r"submodules, .*: nested/\. Add them to \.gitignore, or choose"):
        bl.run_sync(None, "go", model=model, world=bl.GitWorld(root))
    (root / ".gitignore").write_text("nested/\n")
    assert edited(bl.GitWorld(root), [write("x", "1")]).events[0].payload["ignored"] == 1


def test_a_submodule_is_named(tmp_path: Path) -> None:
    root, other = repository(tmp_path / "r"), repository(tmp_path / "other")
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "lib/other")
    with pytest.raises(bl.errors.WorldError, match="lib/other/"):
        edited(bl.GitWorld(root), [write("x", "1")])


@pytest.mark.parametrize("where", ["new/one", "sub"])
def test_repository_made_by_a_tool_is_a_fault_and_run_continues(tmp_path: Path, where: str) -> None:
    root = repository(tmp_path / "r")
    git_dir = root / where

    def make(root: Path) -> None:
        git_dir.mkdir(exist_ok=True, parents=True)
        git(git_dir, "init", "--quiet")

    edits = [write("x", "1"), make, lambda _: shutil.rmtree(git_dir / ".git"), write("x", "2")]
    run = edited(bl.GitWorld(root), edits)
    assert run.stop_reason == "finished"
    assert where in kept(run)[2]["fault"]
    assert ["fault" in facts for facts in kept(run).values()] == [False, False, True, False, False]
    assert [event.payload["after_step"] for event in run.events if event.kind == "fault"] == [2]
    with pytest.raises(bl.SettingError, match=rf"after step 2 were not kept: .*{where}.* kept after: 0, 1, 3, 4"):
        branched(run, 2, bl.GitWorld(root), edits)


def test_ignored_files_are_counted_and_kept_only_if_included(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    (root / ".gitignore").write_text("build/\n*.log\n")
    for name in ("build/out/a", "x.log", "y.log"):
        write(name, "1")(root)
    (root / ".git/info/exclude").write_text("y.log\nprivate\n")
    write("private", "1")(root)
    edits = [write("build/b", "2"), write("build/out/a", "3")]
    run = edited(bl.GitWorld(root), edits)
    facts = kept(run)[0]
    assert (facts["ignored"], facts["ignored_names"]) == (4, ["build/", "private", "x.log", "y.log"])
    assert kept(run)[1]["changed"] == 0
    world = bl.GitWorld(root, include=["build/", "x.log", "not there"])
    run = edited(world, edits)
    assert kept(run)[0]["ignored"] == 2
    found = files_after(world, run, 2)
    assert {b"build/b", b"build/out/a", b"x.log"} < set(found)
    assert not {b"y.log", b"private"} & set(found)
    assert found[b"build/out/a"] == ("file", b"3")


def test_an_ignored_file_that_the_user_tracks_is_kept(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    (root / ".gitignore").write_text("*.cfg\n")
    write("own.cfg", "1")(root)
    write("other.cfg", "1")(root)
    git(root, "add", "--force", "own.cfg")
    run = edited(bl.GitWorld(root), [write("own.cfg", "2")])
    found = files_after(bl.GitWorld(root), run, 1)
    assert found[b"own.cfg"] == ("file", b"2")
    assert b"other.cfg" not in found


def test_patterns_above_the_folder_hold_in_it_and_in_a_branch(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    (root / ".gitignore").write_text("*.log\n/sub/out/\n/other\n")
    edits = [write("x.log"), write("out/y"), write("z"), write("other")]
    run = edited(bl.GitWorld(root / "sub"), edits)
    branch = branched(run, 0, bl.GitWorld(root / "sub", into=tmp_path / "branch"), edits)
    assert [facts["changed"] for facts in kept(run).values()] == [1, 0, 0, 1, 1]
    assert [facts["changed"] for facts in kept(branch).values()] == [1, 0, 0, 1, 1]


def test_large_file_is_left_out_recorded_and_reported_in_branch(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    edits = [write("big", b"x" * (MIB + 1)), write("big", b"x"), write("big", b"y" * 3 * MIB)]
    run = edited(bl.GitWorld(root, max_file_mb=1), edits)
    left_out = [facts.get("left_out") for facts in kept(run).values()]
    assert left_out == [None, {"big": "1.0 MiB"}, None, {"big": "3.0 MiB"}]
    branch = branched(run, 3, bl.GitWorld(root, into=tmp_path / "branch"), edits)
    assert not (tmp_path / "branch/big").exists()
    (fault,) = (event.payload["what"] for event in branch.events if event.kind == "fault")
    assert fault.startswith("big (3.0 MiB) was not kept, and is missing in ")
    shutil.rmtree(tmp_path / "branch")
    branch = branched(run, 2, bl.GitWorld(root, into=tmp_path / "branch"), edits)
    assert not any(event.kind == "fault" for event in branch.events)
    assert (tmp_path / "branch/big").read_bytes() == b"y" * 3 * MIB


def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        _as_another_user(tmp_path)
        return
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root), [write("secret", "x", 0)])
    assert kept(run)[1]["left_out"] == {"secret": "permission denied"}


def _as_another_user(tmp_path: Path) -> None:
    """The same as a user who is not root, in a process of its own."""
    code = (
        "import os, sys; from pathlib import Path; from tests.runtime.worlds import test_limits as t; "
        "root = Path(sys.argv[1]); "
        "t.edited(t.bl.GitWorld(t.repository(root / 'first')), [t.write('x')]); "  # it imports all that is needed
        "os.setgid(65534); os.setuid(65534); "
        "os.environ['XDG_STATE_HOME'] = str(root / 'state'); "
        "t.test_a_file_that_cannot_be_read_is_left_out(root); print('tested')"
    )
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()).resolve():
            break
        folder.chmod(0o755)
    own = tmp_path / "own"
    own.mkdir()
    os.chown(own, 65534, 65534)
    env = os.environ | {"HOME": str(own), "XDG_STATE_HOME": str(own / "first state")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(own)], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout == "tested\n", done.stderr


def test_a_folder_that_is_gone_is_a_fault_and_the_run_continues(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    world = bl.GitWorld(root / "sub")
    edits = [write("x"), lambda _: shutil.rmtree(root / "sub")]
    run = edited(world, edits)
    assert (run.stop_reason, kept(run)[2]) == (
        "finished",
        {"after_step": 2, "fault": f"the folder '{root}/sub' is gone"},
    )
    with pytest.raises(bl.errors.WorldError, match="is gone"):
        edited(world, edits)


def test_a_full_disk_is_a_fault_and_the_next_run_works(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    world = bl.GitWorld(root)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def large(root: Path) -> None:
        write("big", os.urandom(3 * MIB))(root)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, limits[1]))  # git inherits it: the object does not fit

    def freed(_: Path) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    try:
        run = edited(world, [write("x"), large, freed])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert run.stop_reason == "finished"
    assert ["fault" in facts for facts in kept(run).values()] == [False, False, True, False]
    assert git(root, "fsck", "--strict", "--full") == b""
    assert "commit" in kept(edited(world, [write("y")]))[1]


def test_a_run_without_a_world_has_no_files_to_branch_from(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    run = bl.run_sync(None, "go", model=bl.ScriptedModel([{"tool_calls": [{"name": "look"}]}, "Done."]))
    message = r"recorded without a world, .*: run it again with world=bl.GitWorld\(root\), or put the files in place"
    with pytest.raises(bl.SettingError, match=message):
        branched(run, 1, bl.GitWorld(root), [])


def test_into_folder_is_removed_if_the_branch_cannot_begin(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root), [write("x")])
    world = bl.GitWorld(root, into=tmp_path / "branch")
    bl.GitWorld(root).forget(run)
    git(root, "prune", "--expire=now")
    with pytest.raises(bl.errors.WorldError, match="it was forgotten"):
        branched(run, 1, world, [])
    assert not (tmp_path / "branch").exists()


def test_folder_of_a_killed_checkout_is_removed_by_the_next(tmp_path: Path, state: Path) -> None:
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root), [write("x", "1")])
    (state / "r.0123-4567/objects").mkdir(parents=True)
    (state / "r.0123-4567.lock").touch()
    assert files_after(bl.GitWorld(root), run, 1) == files_of(root)
    assert list(state.iterdir()) == []


def test_failed_branch_folder_leaves_the_files_of_the_user(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root), [write("x", "1")])
    before = files_of(root)
    (tmp_path / "file").write_text("")
    with pytest.raises(bl.errors.WorldError, match="cannot be written"):
        branched(run, 1, bl.GitWorld(root, into=tmp_path / "file/branch"), [write("x", "1")])
    assert files_of(root) == before
