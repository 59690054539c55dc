"""Stores where it is narrow: rows that readers keep, steps shared by many, names that few files have, links, locks."""

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.run import Run
from boolab.errors import StoreError
from boolab.store import connection as opening
from boolab.store import writer
from boolab.store.changes import Unwanted
from boolab.store.rows import records_of
from boolab.store.stored_runs import stored_runs
from boolab.store.writer import Store
from tests.store.test_faults import as_nobody, in_child, public_folder
from tests.support.helpers import call, distinct, play


def named(name: str, n_steps: int = 2) -> Run:
    return replace(play(distinct(n_steps)), run_id=name)


def cut(run: Run, name: str, n_steps: int) -> Run:
    return replace(run, run_id=name, steps=run.steps[:n_steps])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def test_who_looked_runs_up_never_reads_others_in_their_place(path: Path) -> None:
    with Store(path) as store:
        store.add([named("stays"), named("goes")])
        store.finish(named("goes too"), state="interrupted")
    found = stored_runs(path)
    assert len(found) == 3
    with Store(path) as store:
        store.prune(Unwanted(interrupted=True))
    with Store(path) as store:  # another one, which knows of the removed rows from the file alone
        store.add(named("comes"))
    assert [run.run_id for run in stored_runs(path)] == ["stays", "goes", "comes"]
    with pytest.raises(StoreError, match="1 of these runs were removed"):
        list(found)


@pytest.mark.parametrize("batches", [1, 3])
def test_runs_may_share_the_steps_of_one_that_shares_anothers(path: Path, batches: int) -> None:
    whole = named("whole", 6)
    some, few = cut(whole, "some", 4), cut(whole, "few", 2)
    with Store(path) as store:
        for records in (records_of(whole), records_of(some, whole), records_of(few, some)):
            store.put(records)
            if batches > 1:
                store.flush()
    assert list(stored_runs(path)) == [whole, some, few]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT DISTINCT run FROM steps").fetchall() == [(1,)]


def test_store_refuses_a_base_that_is_not_finished(path: Path) -> None:
    whole = named("whole", 6)
    with Store(path) as store:
        store.finish(cut(whole, "whole", 2), state="interrupted")
        store.put(records_of(cut(whole, "some", 4), whole))
        with pytest.raises(StoreError, match="run whole, of which the store has no finished one: put that one first"):
            store.flush()
        store.put(records_of(cut(whole, "some", 4), whole))
        store.put(records_of(whole))  # the same run again: in a batch of its own, and too late
        with pytest.raises(StoreError, match="put that one first"):
            store.flush()
        store.add(named("another"))
    assert [run.run_id for run in stored_runs(path)] == ["whole", "another"]


def test_store_prune_keeps_a_run_with_shared_steps(path: Path) -> None:
    whole = named("whole", 6)
    with Store(path) as store:
        store.put(records_of(whole), "a")
        store.put(records_of(cut(whole, "some", 4), whole), "b")
        store.put(records_of(named("whole, changed")), "a")
        store.flush()
        assert store.prunable(Unwanted(replaced=True)) == (0, 0, 1)
        store.prune(Unwanted(replaced=True))
        assert cut(whole, "some", 4) in stored_runs(path)
        store.put(records_of(named("some, changed")), "b")
        store.flush()
        assert store.prunable(Unwanted(replaced=True)) == (2, 7, 0)
        store.prune(Unwanted(replaced=True))
    assert [run.run_id for run in stored_runs(path)] == ["whole, changed", "some, changed"]


def test_store_replaces_a_whole_family_of_a_cell(path: Path) -> None:
    with Store(path) as store:
        for version in ("old", "new"):
            family = replace(named(version), subagents=(named(f"{version} child"),))
            store.put(records_of(family), "cell")
            store.flush()
    assert [run.run_id for run in stored_runs(path)] == ["new", "new child"]
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT run_id, cell, state FROM runs ORDER BY id").fetchall()
    assert found == [
        ("old", "cell", "replaced"), ("old child", None, "replaced"),
        ("new", "cell", "finished"), ("new child", None, "finished"),
    ]  # fmt: skip


def test_a_child_that_another_family_has_too_is_replaced_alone(path: Path) -> None:
    with Store(path) as store:
        for name in ("a", "b"):
            store.finish(replace(named(name), subagents=(named("child"), named(f"child of {name}"))))
    assert [run.run_id for run in stored_runs(path)] == ["a", "child of a", "b", "child", "child of b"]


def test_store_keeps_a_finished_run_after_an_interrupt(path: Path) -> None:
    after = named("after", 3)
    with Store(path) as store:
        store.put(records_of(named("before")), "cell")
        store.step(cut(after, "after", 1), "cell")
        assert [run.run_id for run in stored_runs(path)] == ["before"]
        store.finish(cut(after, "after", 2), "cell", state="interrupted")
    assert [run.run_id for run in stored_runs(path)] == ["before"]
    assert [run.run_id for run in stored_runs(path, states=["replaced"])] == ["after"]


def test_a_run_that_grows_keeps_what_sqlite_cannot_hold(path: Path) -> None:
    run = play([{"text": "\ud800", "tool_calls": [call("look", what="\udcff")]}, *distinct(2)])
    with Store(path) as store:
        for n in range(1, len(run.steps) + 1):
            store.step(cut(run, run.run_id, n))
        store.finish(run)
    assert list(stored_runs(path)) == [run]


@pytest.mark.parametrize("limit", [("_BATCH_RUNS", 2), ("_BATCH_STEPS", 6), ("_BATCH_BYTES", 60), ("_BATCH_S", 0.0)])
def test_a_batch_is_committed_when_it_is_full_in_any_way(
    path: Path, limit: tuple[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_BATCH_RUNS", "_BATCH_STEPS", "_BATCH_BYTES", "_BATCH_S"):
        monkeypatch.setattr(writer, name, float("inf"))
    with Store(path) as store:
        store.put(records_of(named("a")))
        store.put(records_of(named("b")))
        assert len(stored_runs(path)) == 0
        store.flush()
        monkeypatch.setattr(writer, *limit)
        store.put(records_of(named("c")))
        store.put(records_of(named("d")))
        assert len(stored_runs(path)) == 4


def test_store_syncs_steps_to_disk_but_not_batches(path: Path) -> None:
    with Store(path) as store:

        def synchronous() -> str:
            (value,) = store._connection.execute("PRAGMA synchronous").fetchone()
            return ("off", "normal", "full")[value]

        store.add(named("a"))
        assert synchronous() == "normal"
        store.step(named("b"))
        assert synchronous() == "full"
        store.add(named("c"))
        assert synchronous() == "normal"
        store.finish(named("d"))
        assert synchronous() == "full"


def test_store_keeps_integers_beyond_64_bits(path: Path) -> None:
    run = replace(named("r"), seed=2**64)
    with Store(path) as store:
        store.add(run)
        store.finish(replace(run, run_id="s"))
    assert list(stored_runs(path)) == [run, replace(run, run_id="s")]


def states(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT run_id, state FROM runs ORDER BY id").fetchall()


@pytest.mark.parametrize("end", ["closed", "killed"])
def test_store_reads_interrupted_runs_the_same_once_marked(path: Path, end: str) -> None:
    store = Store(path)
    store.put(records_of(named("cell's, before")), "cell")
    store.put(records_of(named("twice")))
    for name, cell in (("cell's, after", "cell"), ("twice", None), ("once", None)):
        store.step(named(name), cell)
    if end == "closed":
        store.close()
        marked = [("cell's, after", "replaced"), ("twice", "replaced"), ("once", "interrupted")]
        assert states(path)[2:] == marked
    else:
        store._release()
        assert {state for _, state in states(path)[2:]} == {"running"}
    expected = {"finished": ["cell's, before", "twice"], "interrupted": ["once"]}
    for _ in range(2):
        assert {state: [run.run_id for run in stored_runs(path, states=[state])] for state in expected} == expected  # type: ignore[list-item]
        Store(path).close()


NAMES = ["a b", "a#b", "a?b", "a%41", "a&mode=rw", "ünï", "a'b\"c", "file:a", ":memory:", "-a", "a\nb", "a\udcff"]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_store_may_be_called_anything_that_a_file_may(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store(name) as store:
        store.add(named("r"))
        monkeypatch.chdir("/")  # a store is where it was opened
        store.add(named("s"))
    monkeypatch.chdir(tmp_path)
    assert {one for one in os.listdir() if not one.endswith(("-wal", "-shm"))} == {name, f"{name}.lock"}  # noqa: PTH208 - names
    assert [run.run_id for run in stored_runs(name)] == ["r", "s"]
    assert [run.run_id for run in bl.load_runs(name)] == ["r", "s"]


def test_a_run_may_be_called_anything(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(path) as store:
        store.add([named("a\udcff"), named("b")])
        assert store.run("a\udcff") == named("a\udcff")
    for beginning, code in (("a\udcff", 0), ("a", 0), ("b", 0), ("\udcff", 1), ("", 1)):
        assert main(["store", "show", str(path), beginning]) == code
    errors = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("Next: ")]
    unknown, several = errors
    assert "no run's id begins like this" in unknown
    assert "several runs' ids begin like this" in several


def committed(path: Path) -> list[str]:
    """The ids that are in a store; or why they cannot be told."""
    try:
        return [run.run_id for run in stored_runs(path)]
    except StoreError as error:
        return [str(error)]


def test_the_log_of_a_store_is_seen_through_a_link_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that is read-only the log cannot be read: then nothing is, in place of what it was before."""
    monkeypatch.setattr(opening, "WAIT_S", 0.05)
    with public_folder() as folder:
        real, link = folder / "real.db", folder / "link.db"
        link.symlink_to(real)
        with Store(real) as store:
            store.add(named("first"))
        store = Store(link)
        store.add(named("second"))
        files = {one.name: one.read_bytes() for one in folder.iterdir() if one.name in ("real.db", "real.db-wal")}
        store.close()
        for name, data in files.items():  # as a kill leaves them, had nobody read since
            (folder / name).write_bytes(data)
        (folder / "real.db-shm").unlink(missing_ok=True)
        assert len(files["real.db-wal"]) > 0
        folder.chmod(0o555)
        for called in (real, link):
            (said,) = in_child(as_nobody, committed, called)
            assert "cannot be read" in said
        folder.chmod(0o755)
        assert committed(link) == ["first", "second"]


def test_store_respects_a_lock_of_another_program(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "WAIT_S", 0.05)
    with Store(path) as store:
        store.add(named("r"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="locked"):
            stored_runs(path)
    assert committed(path) == ["r"]


@pytest.mark.parametrize("name", ["~nobody_of_that_name/runs.db", "a\0b.db"])
def test_a_name_that_no_file_can_have_is_a_store_error(name: str) -> None:
    with pytest.raises(StoreError, match="is no path"):
        Store(name)
    with pytest.raises(StoreError, match="is no path"):
        bl.runs_df(name)
