"""Stores where it is narrow: rows that readers keep, steps shared by many, names that few files have, links, locks."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli import main
from boolab.errors import StoreError
from boolab.store import opening
from boolab.store.prune import Unwanted
from boolab.store.records import records_of
from boolab.store.stored import stored_runs
from boolab.store.writer import Store
from boolab.types import Run
from tests.helpers import distinct, play
from tests.test_store_faults import as_nobody, in_child, public_folder


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


def test_no_run_shares_the_steps_of_one_that_is_not_there_or_was_interrupted(path: Path) -> None:
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


def test_a_run_that_others_share_steps_with_stays_as_long_as_one_of_them(path: Path) -> None:
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
    unknown, several = capsys.readouterr().err.splitlines()
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


def test_what_another_program_keeps_to_itself_is_not_read_past_its_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "WAIT_S", 0.05)
    with Store(path) as store:
        store.add(named("r"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="locked"):
            stored_runs(path)
    assert committed(path) == ["r"]
