"""Evidence from git: the truth table of the specification, and cases of ours, in scripted histories."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.io.git.command import Git
from boolab.io.git.reading import open_git
from boolab.io.git.repository import Repository
from boolab.logs.outcomes.changes import FileChange
from boolab.logs.outcomes.evidence import Evidence
from boolab.logs.outcomes.git import GitOptions, evidence_of_git
from boolab.logs.outcomes.git_work import GitWork, own_lines, work_by_unit
from tests.support.evidence_runs import STARTED, Answer, Shell, Tool, make_run
from tests.support.git_histories import DAY, NOW, Case, Days, History, Script, body, play

OPTIONS = GitOptions(now=NOW)
SHARED: dict[str, tuple[str, Script]] = {}
OWN: dict[str, tuple[str, Callable[[Path], GitWork]]] = {}
SPECIFICATION: list[str] = []


def shared(outcome: str, *, own: bool = False) -> Callable[[Script], Script]:
    """A case in the repository of many cases."""

    def add(script: Script) -> Script:
        SHARED[script.__name__] = (outcome, script)
        if not own:
            SPECIFICATION.append(script.__name__)
        return script

    return add


def alone(outcome: str, *, own: bool = False) -> Callable[[Callable[[Path], GitWork]], Callable[[Path], GitWork]]:
    """A case with a repository of its own."""

    def add(make: Callable[[Path], GitWork]) -> Callable[[Path], GitWork]:
        OWN[make.__name__] = (outcome, make)
        if not own:
            SPECIFICATION.append(make.__name__)
        return make

    return add


# --- Landed


@shared("success")
def direct(c: Case) -> Days:
    yield -40
    c.write()


@shared("success")
def merge_commit(c: Case) -> Days:
    yield -40
    c.work()
    yield -38
    c.history.merge(c.feature)


@shared("success")
def fast_forward(c: Case) -> Days:
    yield -40
    c.work()
    c.history.point("main", c.history.tip(c.feature))


@shared("success")
def squash_branch_deleted(c: Case) -> Days:
    yield -40
    c.work(2)
    yield -39
    c.history.squash(c.feature)
    c.history.delete(c.feature)


@shared("success")
def squash_after_main_moved(c: Case) -> Days:
    yield -40
    c.work(2)
    yield -39.5
    c.history.commit("main", {"moved.py": body("moved")})
    yield -39
    c.history.squash(c.feature)


@shared("success")
def squash_no_edits_on_record(c: Case) -> Days:
    yield -40
    c.work(2)
    c.changes.clear()  # it wrote with sed
    yield -39
    c.history.squash(c.feature)
    c.history.delete(c.feature)


@shared("success")
def rebase_merge(c: Case) -> Days:
    yield -40
    c.work(2)
    yield -38
    for number in (0, 1):
        c.history.commit("main", {c.file(number): c.text(number)})
    c.history.delete(c.feature)


@shared("success")
def cherry_picked(c: Case) -> Days:
    yield -40
    c.work()
    c.changes.clear()
    yield -38
    c.history.commit("main", {c.file(): c.text()}, "picked")


@shared("success")
def branch_renamed(c: Case) -> Days:
    yield -40
    c.work()
    c.history.rename(c.feature, "better-name")
    yield -38
    c.history.merge("better-name")


@shared("success")
def amended_by_person(c: Case) -> Days:
    yield -40
    c.work()
    yield -39.9
    above = [c.history.commits_above(c.feature)]
    c.history.commit(c.feature, {c.file(): c.text(), "notes.md": "a note by hand\n"}, "better", parents=above)
    yield -38
    c.history.merge(c.feature)


@shared("success")
def conflict_resolved(c: Case) -> Days:
    yield -41
    c.history.commit("main", {c.file(): c.text()})
    yield -40
    c.history.branch(c.feature)
    text = c.text() + body(f"{c.tag}more", 8)
    c.edit(c.file(), text)
    c.commits.append(c.history.commit(c.feature, {c.file(): text}))
    yield -39
    c.history.commit("main", {c.file(): c.text() + "x_constant_of_theirs = 1\n"})
    c.history.merge(c.feature, changes={c.file(): c.text() + "x_constant_of_theirs = 1\n" + body(f"{c.tag}more", 8)})


@shared("success")
def merged_40_days_later(c: Case) -> Days:
    yield -70
    c.work()
    yield -30
    c.history.squash(c.feature)


@shared("success")
def first_of_two_sessions(c: Case) -> Days:
    yield -40
    c.edit(c.file(), c.text())
    yield -39.8
    c.history.commit("main", {c.file(): c.text(), c.file(1): c.text(1)}, "both")


@shared("success")
def the_session_that_rewrote(c: Case) -> Days:
    yield -40
    c.write(number=1)


@shared("success")
def person_commits_later(c: Case) -> Days:
    yield -40
    c.edit(c.file(), c.text())
    yield -37
    c.history.commit("main", {c.file(): c.text()}, "by hand")


@shared("success")
def odd_dates(c: Case) -> Days:
    yield -40
    c.write(author_day=-400)


@shared("success")
def renamed_after(c: Case) -> Days:
    yield -40
    c.write()
    yield -38
    c.history.commit("main", {c.file(): None, f"pkg/{c.tag}.py": c.text()})


@shared("success")
def reformatted_after(c: Case) -> Days:
    yield -40
    c.write()
    yield -38
    c.history.commit("main", {c.file(): c.text().replace("    ", "\t").replace(", ", ",")})


@shared("success")
def crlf(c: Case) -> Days:
    yield -40
    c.edit(c.file(), c.text().replace("\n", "\r\n"))
    c.history.commit("main", {c.file(): c.text()})


# --- Reverted, and held


@shared("failure")
def reverted(c: Case) -> Days:
    yield -40
    oid = c.write()
    yield -38
    c.history.revert(oid, {c.file(): None})


@shared("failure")
def squash_commit_reverted(c: Case) -> Days:
    yield -40
    c.work(2)
    yield -39
    oid = c.history.squash(c.feature)
    yield -38
    c.history.revert(oid, {c.file(0): None, c.file(1): None})


@shared("failure")
def merge_commit_reverted(c: Case) -> Days:
    yield -40
    c.work()
    yield -39
    oid = c.history.merge(c.feature)
    yield -38
    c.history.revert(oid, {c.file(): None})


@shared("failure")
def revert_without_a_hash(c: Case) -> Days:
    yield -40
    c.work(2)
    yield -39
    c.history.squash(c.feature)
    yield -37
    c.history.commit("main", {c.file(0): None, c.file(1): None}, 'Revert "Feature (#12)" (#13)')


@shared("failure")
def removed_by_hand(c: Case) -> Days:
    yield -40
    c.write()
    yield -37
    c.history.commit("main", {c.file(): None}, "clean up")


@shared("failure")
def force_pushed_away(c: Case) -> Days:
    yield -40
    c.work()
    c.history.delete(c.feature)


@shared("failure")
def reverted_after_the_window(c: Case) -> Days:
    yield -60
    oid = c.write()
    yield -20
    c.history.revert(oid, {c.file(): None})


@shared("success")
def revert_reverted(c: Case) -> Days:
    yield -40
    oid = c.write()
    yield -38
    again = c.history.revert(oid, {c.file(): None})
    yield -37
    c.history.revert(again, {c.file(): c.text()})


@shared("success")
def subject_says_revert(c: Case) -> Days:
    yield -40
    c.edit(c.file(), c.text())
    c.commits.append(c.history.commit("main", {c.file(): c.text()}, "Add revert button; reverts nothing"))


@shared("success")
def the_session_that_reverts(c: Case) -> Days:
    yield -42
    oid = c.history.commit("main", {c.file(): c.text()})
    yield -40
    c.begin()
    c.commits.append(c.history.revert(oid, {c.file(): None}))


@shared("unknown")
def partly_rewritten(c: Case) -> Days:
    yield -40
    c.write()
    yield -37
    kept = "".join(c.text().splitlines(keepends=True)[:4])
    c.history.commit("main", {c.file(): kept + body(f"{c.tag}new", 4)})


@shared("unknown")
def landed_yesterday(c: Case) -> Days:
    yield -1
    c.write()


# --- Not landed


@shared("failure")
def abandoned_branch(c: Case) -> Days:
    yield -40
    c.work()


@shared("failure")
def branch_deleted_unmerged(c: Case) -> Days:
    yield -40
    c.work()
    yield -30
    c.history.delete(c.feature)


@shared("failure")
def left_in_the_stash(c: Case) -> Days:
    yield -40
    c.edit("README.md", c.text())


@shared("failure")
def detached_and_lost(c: Case) -> Days:
    yield -40
    c.work()
    c.history.delete(c.feature)


@shared("failure")
def discarded(c: Case) -> Days:
    yield -40
    c.edit("README.md", c.text())


@shared("failure")
def parallel_other_branch_abandoned(c: Case) -> Days:
    yield -40
    c.work()
    c.history.commit("main", {c.file(1): c.text(1)}, "of the other session, in the same hour")


@shared("success", own=True)
def parallel_branch_that_shipped(c: Case) -> Days:
    yield -40
    c.history.branch(f"other-{c.tag}")
    c.history.commit(f"other-{c.tag}", {c.file(1): c.text(1)})
    c.work()
    yield -39
    c.history.merge(c.feature)


@shared("unknown")
def open_branch(c: Case) -> Days:
    yield -3
    c.work()


@shared("unknown")
def branch_still_active(c: Case) -> Days:
    yield -40
    c.work()
    yield -3
    c.history.commit(c.feature, {c.file(5): c.text(5)}, "more")


@shared("unknown")
def parallel_reader_on_the_branch(c: Case) -> Days:
    yield -40
    c.begin()
    c.history.branch(c.feature)
    c.history.commit(c.feature, {c.file(): c.text()}, "of another session")
    c.history.merge(c.feature)


@shared("unknown")
def parked_on_old_main(c: Case) -> Days:
    yield -40
    c.begin()
    c.history.branch(c.feature)


@shared("unknown")
def rewritten_by_the_next_session(c: Case) -> Days:
    yield -40
    c.edit(c.file(), body(f"{c.tag}draft"))
    yield -39.8
    c.history.commit("main", {c.file(): body(f"{c.tag}final")}, "final")


@shared("unknown")
def a_third_accepted(c: Case) -> Days:
    yield -40
    for number in range(3):
        c.edit(c.file(number), c.text(number))
    yield -39.9
    c.history.commit("main", {c.file(0): c.text(0)}, "one of three")


@shared("unknown")
def generic_lines_only(c: Case) -> Days:
    yield -40
    c.edit("g.py", "    return None\n}\n    pass\nelse:\n")


@shared("unknown")
def lines_were_there_before(c: Case) -> Days:
    yield -45
    c.history.commit("main", {c.file(): c.text()})
    yield -40
    c.edit(c.file(), c.text())


@shared("unknown")
def only_deletes(c: Case) -> Days:
    yield -45
    c.history.commit("main", {c.file(): c.text()})
    yield -40
    c.begin()
    c.history.commit("main", {c.file(): None}, "rm")


@shared("unknown")
def only_outside_or_ignored(c: Case) -> Days:
    yield -40
    c.edit("/elsewhere/scratch_file.py", c.text(0))
    c.edit("build/out.py", c.text(1))


@shared("unknown")
def on_develop_only(c: Case) -> Days:
    yield -40
    c.history.branch("develop")
    c.work()
    yield -39
    c.history.merge(c.feature, into="develop")


@shared("success")
def monorepo_subfolder(c: Case) -> Days:
    yield -40
    c.folder = str(c.history.folder / "svc")
    c.edit("a.py", c.text())
    c.commits.append(c.history.commit("main", {"svc/a.py": c.text()}))


@shared("success")
def worktree_removed(c: Case) -> Days:
    yield -40
    c.folder = str(c.history.folder / ".claude/worktrees/x")
    c.work()
    yield -39
    c.history.squash(c.feature)


@shared("success")
def worktree_still_there(c: Case) -> Days:
    yield -40
    tree = c.history.folder.parent / "elsewhere"
    inner = c.history.git_dir / "worktrees/elsewhere"
    inner.mkdir(parents=True)
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {inner}\n")
    (inner / "gitdir").write_text(f"{tree}/.git\n")
    (inner / "commondir").write_text("../..\n")
    (inner / "HEAD").write_text(f"ref: refs/heads/{c.feature}\n")
    c.folder = str(tree)
    c.work()
    yield -39
    c.history.squash(c.feature)


# --- Repositories of their own


def one(folder: Path, script: Script, main: str = "main") -> tuple[History, GitWork]:
    history = History(folder, main)
    (work,) = play(history, {"x": script}).values()
    return history, work


@alone("unknown")
def repository_gone(folder: Path) -> GitWork:
    history, work = one(folder / "r", merge_commit)
    shutil.rmtree(history.folder)
    return work


@alone("unknown")
def parent_is_another_repository(folder: Path) -> GitWork:
    History(folder / "outer")
    history, work = one(folder / "outer/inner", merge_commit)
    shutil.rmtree(history.folder)
    return work


@alone("unknown")
def no_git(folder: Path) -> GitWork:
    return GitWork(str(folder), NOW - 10**6, NOW - 10**6, (), (FileChange("x.py", body("plain")),))


@alone("unknown")
def empty_repository(folder: Path) -> GitWork:
    history, work = one(folder / "r", direct)
    history.delete("main")
    return work


@alone("unknown", own=True)
def shallow(folder: Path) -> GitWork:
    history, work = one(folder / "r", abandoned_branch)
    (history.git_dir / "shallow").write_text(history.tip("main") + "\n")
    return work


@alone("unknown")
def clone_is_older(folder: Path) -> GitWork:
    return one(folder / "r", abandoned_branch)[1]._replace(commits=())


@alone("success")
def default_branch_is_trunk(folder: Path) -> GitWork:
    return one(folder / "r", direct, "trunk")[1]


@alone("success")
def both_main_and_master(folder: Path) -> GitWork:
    history = History(folder / "r")
    history.branch("master")
    return play(history, {"x": squash_branch_deleted})["x"]


@alone("success")
def pushed_from_elsewhere(folder: Path) -> GitWork:
    def script(c: Case) -> Days:
        yield -40
        c.work()
        c.history.branch("remotes/origin/main")
        (c.history.git_dir / "refs/remotes/origin/HEAD").write_text("ref: refs/remotes/origin/main\n")
        yield -39
        c.history.commit("remotes/origin/main", {c.file(): c.text()}, "squash")

    return one(folder / "r", script)[1]


@alone("success")
def submodule(folder: Path) -> GitWork:
    outer = History(folder / "outer")
    modules = outer.git_dir / "modules/sub"
    inner = History(folder / "outer/sub", git_dir=modules)
    (inner.folder / ".git").write_text("gitdir: ../.git/modules/sub\n")
    (modules / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tworktree = ../../../sub\n")
    return play(inner, {"x": direct})["x"]


@alone("unknown")
def judged_elsewhere(folder: Path) -> GitWork:
    return one(folder / "r", merge_commit)[1]._replace(folder="/nowhere/else/repo")


@alone("unknown")
def session_of_two_repositories(folder: Path) -> GitWork:
    here = History(folder / "here")
    history, work = one(folder / "there", direct)
    path = str(history.folder / work.changes[0].path)
    return work._replace(folder=str(here.folder), commits=(), changes=(work.changes[0]._replace(path=path),))


@alone("success")
def hostile_settings(folder: Path) -> GitWork:
    history, work = one(folder / "r", squash_branch_deleted)
    canary = f"touch {folder}/ran"
    settings = {
        "core": ["fsmonitor", "pager", "sshCommand", "editor", "askPass", "alternateRefsCommand"],
        "diff": ["external"], 'diff "x"': ["textconv", "command"], "gpg": ["program"],
        'filter "x"': ["clean", "smudge", "process"], "alias": ["log", "diff-tree", "ls-tree", "cat-file"],
    }  # fmt: skip
    lines = [
        f"[{section}]\n" + "".join(f"\t{name} = {canary};\n" for name in names) for section, names in settings.items()
    ]
    config = history.git_dir / "config"
    config.write_text(config.read_text() + "".join(lines) + "[log]\n\tshowSignature = true\n")
    (history.git_dir / "info").mkdir()
    (history.git_dir / "info/attributes").write_text("*.py diff=x filter=x\n")
    (history.folder / ".gitattributes").write_text("*.py diff=x filter=x\n")
    (history.git_dir / "hooks").mkdir()
    for hook in ("reference-transaction", "post-index-change", "fsmonitor-watchman", "post-checkout"):
        path = history.git_dir / "hooks" / hook
        path.write_text(f"#!/bin/sh\n{canary}\n")
        path.chmod(0o755)
    return work


# --- Cases of ours


@shared("failure", own=True)
def reverted_three_times(c: Case) -> Days:
    yield -40
    oid = c.write()
    for day in (-39, -38, -37):
        yield day
        oid = c.history.revert(oid, {c.file(): None if day != -38 else c.text()})


@shared("failure", own=True)
def merge_of_lines_without_commits_reverted(c: Case) -> Days:
    yield -40
    c.work()
    c.commits.clear()
    yield -39
    oid = c.history.merge(c.feature)
    yield -38
    c.history.revert(oid, {c.file(): None})


@shared("success", own=True)
def revert_on_another_branch(c: Case) -> Days:
    yield -40
    oid = c.write()
    yield -39
    c.history.branch(c.feature)
    c.history.revert(oid, {c.file(): None}, c.feature)


@shared("success", own=True)
def two_commits_one_of_them_lost(c: Case) -> Days:
    yield -40
    c.work(1)
    c.history.delete(c.feature)
    c.write(number=0)


@shared("unknown", own=True)
def commit_of_another_repository(c: Case) -> Days:
    yield -40
    c.begin()
    c.commits.append("0123abcd")


@shared("success", own=True)
def absolute_paths(c: Case) -> Days:
    yield -40
    c.edit(str(c.history.folder / "src" / c.file()), c.text())
    yield -39
    c.history.commit("main", {f"src/{c.file()}": c.text()})


@shared("success", own=True)
def edit_in_a_worktree_of_the_session(c: Case) -> Days:
    yield -40
    c.edit(str(c.history.folder / ".claude/worktrees/y" / c.file()), c.text())
    yield -39
    c.history.commit("main", {c.file(): c.text()})


@shared("unknown", own=True)
def without_any_time(c: Case) -> Days:
    yield -40
    c.edit(c.file(), c.text())
    c.start = c.end = None


@shared("success", own=True)
def time_of_its_commit(c: Case) -> Days:
    yield -40
    c.write()
    c.start = c.end = None


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evidence]:
    folder = tmp_path_factory.mktemp("shared") / "r"
    history = History(folder)
    (folder / ".gitignore").write_text("build/\n.claude/\n")
    (folder / "svc").mkdir()
    works = play(history, {name: script for name, (_, script) in SHARED.items()})
    before = snapshot(folder)
    evidence = dict(zip(works, evidence_of_git([*works.values()], OPTIONS), strict=True))
    assert snapshot(folder) == before
    return evidence


def snapshot(folder: Path) -> dict[str, int]:
    """The files of a repository, with the times of their last change: no lock comes and no file changes."""
    return {str(path): path.lstat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("name", SHARED)
def test_shared_repository_shows_the_outcome(found: dict[str, Evidence], name: str) -> None:
    assert (found[name].outcome, found[name].why) == (SHARED[name][0], found[name].why)


@pytest.mark.parametrize("name", OWN)
def test_repository_of_its_own_shows_the_outcome(tmp_path: Path, name: str) -> None:
    outcome, make = OWN[name]
    work = make(tmp_path)
    before = snapshot(tmp_path)
    (evidence,) = evidence_of_git([work], OPTIONS)
    assert (evidence.outcome, evidence.why) == (outcome, evidence.why)
    assert snapshot(tmp_path) == before
    assert not (tmp_path / "ran").exists()


def test_git_table_has_63_cases() -> None:
    assert len(SPECIFICATION) == 63


def test_evidence_names_the_landing_its_time_and_the_share(found: dict[str, Evidence]) -> None:
    evidence = found["direct"]
    assert evidence.why == "landed, and 100% of its lines were there 14 days later"
    assert evidence.detail.keys() == {"landed", "share"}
    assert (evidence.source, evidence.detail["share"]) == ("git", 1.0)
    assert evidence.at is not None
    assert int(evidence.at.timestamp()) == NOW - 26 * DAY
    assert found["reverted"].why == "reverted after 2 days"


def test_branch_and_days_of_the_user_decide(tmp_path: Path) -> None:
    _, work = one(tmp_path / "r", on_develop_only)
    outcomes = {
        options: evidence_of_git([work], options)[0].outcome
        for options in (OPTIONS, OPTIONS._replace(into="develop"), OPTIONS._replace(into="none"))
    }
    assert [*outcomes.values()] == ["unknown", "success", "unknown"]
    history, work = one(tmp_path / "s", open_branch)
    history.day = -1
    history.commit("main", {"later.py": body("later")})
    assert evidence_of_git([work], OPTIONS._replace(days=2))[0].outcome == "failure"


def test_given_repository_is_that_of_sessions_elsewhere(tmp_path: Path) -> None:
    history, work = one(tmp_path / "project", direct)
    moved = work._replace(folder="/home/ann/project/sub")
    assert evidence_of_git([moved], OPTIONS)[0].outcome == "unknown"
    assert evidence_of_git([moved], OPTIONS, history.folder)[0].outcome == "success"
    assert evidence_of_git([moved._replace(commits=())], OPTIONS, history.folder)[0].outcome == "success"


# --- A repository of another name


def elsewhere(history: History, work: GitWork, **facts: Any) -> Evidence:
    """The evidence for work in a folder of another name, in a repository that the user names."""
    moved = work._replace(**{"folder": "/home/ann/other", "commits": (), **facts})
    (evidence,) = evidence_of_git([moved], OPTIONS, history.folder)
    return evidence


def test_repository_of_another_name_is_recognised_by_a_commit(tmp_path: Path) -> None:
    history, work = one(tmp_path / "project", direct)
    (oid,) = work.commits
    found = elsewhere(history, work, commits=(oid,))
    assert found.outcome == "success"
    assert found.why.startswith("landed, and 100% of its lines were there 14 days later (the repository is recognised")
    assert found.why.endswith(f" by the commit {oid[:7]})")
    started = elsewhere(history, work, head=history.tip("main"))
    assert (started.outcome, started.why.endswith(f"the commit {history.tip('main')[:7]})")) == ("success", True)


@pytest.mark.parametrize(
    "url", ["https://ann:secret@example.org/team/other.git", "git@example.org:team/other.git", "/srv/git/other/"]
)
def test_repository_of_another_name_is_recognised_by_its_remote(tmp_path: Path, url: str) -> None:
    history, work = one(tmp_path / "project", direct)
    config = history.git_dir / "config"
    config.write_text(f'{config.read_text()}[remote "origin"]\n\turl = {url}\n')
    found = elsewhere(history, work, folder="/home/ann/other/src")
    assert (found.outcome, "recognised by its remote, other)" in found.why) == ("success", True)
    assert "secret" not in found.why
    assert elsewhere(history, work, folder="/home/ann/further").outcome == "unknown"


def in_folders(c: Case) -> Days:
    for name in ("app/core.py", "app/web/routes.py"):
        c.history.commit("main", {name: body(name[4:8].replace("/", "_"))})
    yield -40
    c.write()


def test_repository_of_another_name_is_recognised_by_its_files(tmp_path: Path) -> None:
    history, work = one(tmp_path / "project", in_folders)
    edits = tuple(FileChange(f"/home/ann/other/app/{name}", "#") for name in ("core.py", "web/routes.py"))
    found = elsewhere(history, work, changes=(*work.changes, *edits))
    assert (found.outcome, "recognised by 2 of 3 files that it changed)" in found.why) == ("success", True)
    inside = (FileChange("core.py", "#"), FileChange("web/routes.py", "#"))  # of a session below the top: app/
    assert elsewhere(history, work, changes=(*work.changes, *inside)).outcome == "unknown"  # one has a folder


@pytest.mark.parametrize("path", ["README.md", "app/core.py", "/etc/app/core.py"])
def test_repository_that_nothing_shows_to_be_the_same_is_refused(tmp_path: Path, path: str) -> None:
    history, work = one(tmp_path / "project", in_folders)
    found = elsewhere(history, work, changes=(FileChange(path, body("lost")),), head="0123456")
    assert found.outcome == "unknown"
    assert found.why.startswith("it ran in the folder of another project: this repository has another name, no remote")


def test_commit_that_a_run_began_on_is_no_command_of_git() -> None:
    run = make_run(Tool("edit", {"file_path": "a.py", "new_string": "compute_total(value)"}), Answer("Done."))
    for commit, head in (("ABCDEF1", "abcdef1"), ("HEAD", ""), ("abcdef1\nHEAD", ""), (None, "")):
        assert work_by_unit(replace(run, git_commit=commit), by_turn=False)[None].head == head


def test_history_that_takes_too_long_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, work = one(tmp_path / "r", squash_branch_deleted)
    monkeypatch.setattr("boolab.logs.outcomes.git.SECONDS", -1.0)
    (evidence,) = evidence_of_git([work], OPTIONS)
    assert evidence.outcome == "unknown"
    assert "too large to be read" in evidence.why


def test_commit_of_an_impossible_time_has_no_date(tmp_path: Path) -> None:
    def script(c: Case) -> Days:
        yield 10**9
        c.write()

    (evidence,) = evidence_of_git([one(tmp_path / "r", script)[1]], OPTIONS)
    assert (evidence.outcome, evidence.at) == ("unknown", None)


def test_damaged_repository_is_unknown(tmp_path: Path) -> None:
    history, work = one(tmp_path / "r", direct)
    for path in history.git_dir.glob("objects/*/*"):
        path.write_bytes(b"")
    assert evidence_of_git([work], OPTIONS)[0].outcome == "unknown"


def test_objects_of_another_repository_are_named_and_not_read(tmp_path: Path) -> None:
    history, work = one(tmp_path / "r", direct)
    elsewhere = tmp_path / "elsewhere"
    shutil.move(history.git_dir / "objects", elsewhere)
    (history.git_dir / "objects" / "info").mkdir(parents=True)
    (history.git_dir / "objects" / "pack").mkdir()
    (history.git_dir / "objects" / "info" / "alternates").write_text(f"{elsewhere}\n")
    (evidence,) = evidence_of_git([work], OPTIONS)
    assert evidence.outcome == "unknown"
    assert evidence.why.endswith("which is not read: clone it without --shared or --reference")


def test_pipe_among_the_objects_is_unknown_and_no_wait(tmp_path: Path) -> None:
    history, work = one(tmp_path / "r", direct)
    os.mkfifo(next(history.git_dir.glob("objects/*")) / ("0" * 38))
    (evidence,) = evidence_of_git([work], OPTIONS)
    assert evidence.outcome == "unknown"
    assert "a link, a pipe or a device" in evidence.why


def test_commits_and_lines_of_a_run_are_its_work() -> None:
    run = make_run(
        Tool(
            "Edit",
            {"file_path": "a.py", "old_string": "the_old_line = 1", "new_string": "the_old_line = 1\nnew_line = 2"},
        ),
        Shell("cat > b.py <<'E'\nother_line = 3\nE\ngit commit -qam x", "[main 1a2b3c4] x\n 1 file changed", 0),
        Shell("git log", "[main 5555555] of a log", 0),
        turns=(1, 1, 2),
        cwd="/p",
    )
    works = work_by_unit(run, by_turn=True)
    assert works[1].commits == ("1a2b3c4",)
    assert own_lines(works[1].changes) == [b"new_line=2", b"other_line=3"]
    assert (works[2].commits, works[2].changes) == ((), ())
    assert works[1].end is not None
    assert works[1].start == int(STARTED.timestamp()) + 1


@pytest.mark.parametrize("line", ["return None", "    else:", "}", "import os", "x = 1", "# ---------", "#!/bin/sh"])
def test_line_that_anybody_may_write_is_not_specific(line: str) -> None:
    assert own_lines([FileChange("a.py", line)]) == []


def test_frame_has_the_evidence_of_git(tmp_path: Path) -> None:
    history = History(tmp_path / "r")
    history.day = -40
    edit = Tool("Write", {"file_path": str(history.folder / "a.py"), "content": body("framed")})
    started = datetime.fromtimestamp(history.time - 60, UTC)
    run = make_run(edit, Answer(), source="claude_code", cwd=str(history.folder), started_at=started)
    history.commit("main", {"a.py": body("framed")})
    now = datetime.fromtimestamp(NOW, UTC)
    for git in (True, history.folder):
        frame = bl.outcomes(run, git=git, tests=False, reaction=False, now=now)
        assert frame[["run_id", "turn", "outcome", "source"]].values.tolist() == [["r", 1, "success", "git"]]
    with pytest.raises(bl.SettingError, match="is no folder"):
        bl.outcomes(run, git=tmp_path / "nowhere")


# --- What was found before


@pytest.fixture
def history_of_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[History, list[GitWork]]:
    """A repository with work that landed and held, and work that is not landed; what is found is kept in a folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    history, landed = one(tmp_path / "r", direct)
    lost = GitWork(str(history.folder), NOW - 40 * DAY, NOW - 40 * DAY, (), (FileChange("b.py", body("lost")),))
    return history, [landed, lost]


def reads_of(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The repositories that git reads from now on."""
    reads: list[object] = []

    def read(repository: Repository) -> AbstractContextManager[Git]:
        reads.append(repository)
        return open_git(repository)

    monkeypatch.setattr("boolab.logs.outcomes.git.open_git", read)
    return reads


def kept_file(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "state" / "boolab" / "evidence").iterdir()
    return path


def test_what_was_found_is_not_looked_for_again(
    history_of_two: tuple[History, list[GitWork]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, works = history_of_two
    first = evidence_of_git(works, OPTIONS)
    assert [evidence.outcome for evidence in first] == ["success", "failure"]
    reads = reads_of(monkeypatch)
    assert evidence_of_git(works, OPTIONS) == first
    assert evidence_of_git(works[:1], OPTIONS) == first[:1]
    assert not reads
    assert str(history.folder) not in kept_file(tmp_path).read_text()  # no path, and no text of a run
    assert kept_file(tmp_path).stat().st_size < 2000


def test_a_new_commit_or_option_or_work_is_looked_at(
    history_of_two: tuple[History, list[GitWork]], monkeypatch: pytest.MonkeyPatch
) -> None:
    history, works = history_of_two
    evidence_of_git(works, OPTIONS)
    reads = reads_of(monkeypatch)
    other = works[1]._replace(changes=(FileChange("c.py", body("other")),))
    evidence_of_git([*works, other], OPTIONS)
    assert len(reads) == 1
    evidence_of_git(works, OPTIONS._replace(days=3))
    assert len(reads) == 2
    history.day = -1
    history.commit("main", {"b.py": body("lost")})
    assert [evidence.outcome for evidence in evidence_of_git(works, OPTIONS)] == ["success", "unknown"]
    assert len(reads) == 3


def test_time_that_passes_is_no_stale_finding(history_of_two: tuple[History, list[GitWork]]) -> None:
    _, works = history_of_two
    early, late = (GitOptions(now=NOW + n * DAY) for n in (-38, 0))
    for options in (early, late, early, late):
        outcomes = [evidence.outcome for evidence in evidence_of_git(works, options)]
        assert outcomes == (["unknown", "unknown"] if options is early else ["success", "failure"])


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"state": 1}', "[" * 100_000, '{"state": "X", "findings": []}']
)
def test_kept_findings_that_cannot_be_read_are_made_anew(
    history_of_two: tuple[History, list[GitWork]], tmp_path: Path, text: str
) -> None:
    _, works = history_of_two
    first = evidence_of_git(works, OPTIONS)
    path = kept_file(tmp_path)
    state = json.loads(path.read_text())["state"]
    path.write_text(text.replace("X", state))
    assert evidence_of_git(works, OPTIONS) == first
    assert json.loads(path.read_text())["state"] == state


@pytest.mark.parametrize(
    "finding",
    [None, [], ["success"], ["won", "x", None, None, None, None, False], ["success", 3, None, None, None, None, False],
     ["success", "x", [], None, None, None, False], ["success", "x", None, None, None, "soon", False]],
)  # fmt: skip
def test_kept_finding_that_is_none_is_made_anew(
    history_of_two: tuple[History, list[GitWork]], tmp_path: Path, finding: object
) -> None:
    _, works = history_of_two
    first = evidence_of_git(works, OPTIONS)
    content = json.loads(kept_file(tmp_path).read_text())
    content["findings"] = dict.fromkeys(content["findings"], finding)
    kept_file(tmp_path).write_text(json.dumps(content))
    assert evidence_of_git(works, OPTIONS) == first


def test_folder_that_cannot_be_written_is_no_error(
    history_of_two: tuple[History, list[GitWork]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, works = history_of_two
    first = evidence_of_git(works, OPTIONS)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("boolab.logs.outcomes.evidence_cache.FOLDER", "../../../file")
    assert evidence_of_git(works, OPTIONS) == first


def test_what_takes_too_long_is_not_kept(
    history_of_two: tuple[History, list[GitWork]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, works = history_of_two
    with monkeypatch.context() as patch:
        patch.setattr("boolab.logs.outcomes.git.SECONDS", -1.0)
        assert {evidence.outcome for evidence in evidence_of_git(works, OPTIONS)} == {"unknown"}
    assert [evidence.outcome for evidence in evidence_of_git(works, OPTIONS)] == ["success", "failure"]


def test_other_code_and_old_files_are_left_behind(
    history_of_two: tuple[History, list[GitWork]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, works = history_of_two
    evidence_of_git(works, OPTIONS)
    folder = kept_file(tmp_path).parent
    reads = reads_of(monkeypatch)
    monkeypatch.setattr("boolab.logs.outcomes.evidence_cache.code_digest", lambda: "other")
    monkeypatch.setattr("boolab.logs.outcomes.evidence_cache.MAX_FILES", 2)
    for number in range(3):
        (folder / f"{number}.json").write_text("")
        os.utime(folder / f"{number}.json", (number, number))
    evidence_of_git(works, OPTIONS)
    assert len(reads) == 1
    assert {path.name for path in folder.iterdir()} >= {"2.json"}
    assert len([*folder.iterdir()]) == 2
