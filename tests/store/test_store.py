"""The store: what is read is what was written, whichever way it was committed and whatever happened in between."""

import gc
import json
import os
import pickle
import random
import re
import sqlite3
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.messages import Input, Message, Part, StepStart, Text
from boolab.core.run import Run, WrapUp
from boolab.core.types import Image, Response, Step, Stop, ToolCall, ToolResult, Usage
from boolab.errors import RunFormatError, SettingError, StoreError
from boolab.store import connection as connection_module
from boolab.store import schema, writer
from boolab.store.connection import PAGE_BYTES
from boolab.store.rows import records_of, run_of_record
from boolab.store.schema import select_from
from boolab.store.select import INTERRUPTED
from boolab.store.stored_runs import stored_runs
from boolab.store.writer import Store
from boolab.whatif import recordings
from tests.logs.test_save import assert_same, live, runs
from tests.support.cases import cases
from tests.support.helpers import distinct, play
from tests.support.project import ROOT

NUMBERS = count()
FEW = cases(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
several = st.lists(runs(), max_size=3, unique_by=lambda run: run.run_id)


def named(name: str, n_steps: int = 2, **change: Any) -> Run:
    return replace(play(distinct(n_steps)), run_id=name, **change)


def ids(path: Path, **which: Any) -> list[str]:
    return [run.run_id for run in stored_runs(path, **which)]


def asked(path: Path, question: str, *values: Any) -> list[Any]:
    """What anybody's SQLite says."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question, values).fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


# --- Exactness --------------------------------------------------------------------------------------------------------


def as_it_grew(run: Run) -> Iterator[Run]:
    """The run as it stood after each of its steps."""
    for n in range(len(run.steps) + 1):
        came = tuple(one for one in run.inputs if one.before <= n + 1)
        yield replace(run, steps=run.steps[:n], inputs=came)


def put_stepwise(store: Store, run: Run) -> None:
    for grown in as_it_grew(run):
        store.step(grown)
    store.finish(run)


@cases(50)
@given(run=runs(), shared=st.integers(0, 3))
def test_record_round_trips_with_shared_steps(run: Run, shared: int) -> None:
    (record,) = records_of(run)
    assert_same(run_of_record(pickle.loads(pickle.dumps(record))), run)  # noqa: S301 - its own
    cut = replace(run, run_id=f"{run.run_id} cut", steps=run.steps[:shared], success=None)
    (derived,) = records_of(cut, run)
    assert (derived.base, derived.steps, derived.calls) == (run.run_id, (), ())
    for base in (record, run):
        assert_same(run_of_record(derived, base), cut)


@FEW
@given(some=several, cells=st.booleans())
def test_runs_that_were_committed_in_batches_come_back_exactly(some: list[Run], cells: bool, tmp_path: Path) -> None:
    path = tmp_path / f"{next(NUMBERS)}.db"
    with Store(path) as store:
        for n, run in enumerate(some):
            store.put(records_of(run), f"cell {n} \udcff" if cells else None)
            store.put(records_of(replace(run, run_id=f"{run.run_id} cut", steps=run.steps[:1]), run))
    read = list(stored_runs(path))
    assert len(read) == 2 * len(some)
    for n, run in enumerate(some):
        assert_same(read[2 * n], run)
        assert_same(read[2 * n + 1], replace(run, run_id=f"{run.run_id} cut", steps=run.steps[:1]))


@FEW
@given(some=several)
def test_runs_that_were_committed_step_by_step_come_back_exactly(some: list[Run], tmp_path: Path) -> None:
    path = tmp_path / f"{next(NUMBERS)}.db"
    with Store(path) as store:
        for run in some:
            put_stepwise(store, run)
    for read, run in zip(stored_runs(path), some, strict=True):
        assert_same(read, run)


def test_store_steps_write_messages_without_repeated_calls(path: Path) -> None:
    inputs = tuple(Input(n, Message("user", (Text(f"before {n}"),))) for n in (1, 2, 2, 4))
    some = [*live(), replace(named("talk", 2), inputs=inputs, wrap_up=WrapUp("In short."), synthesis="All.")]
    with Store(path) as store:
        for run in some:
            put_stepwise(store, run)
    question = """
        SELECT m.role, p.kind, coalesce(p.text, CASE p.kind
            WHEN 'step_start' THEN m.step WHEN 'tool_call' THEN c.arguments WHEN 'tool_result' THEN c.result END)
        FROM messages m JOIN parts p ON p.run = m.run AND p.message = m.seq
        LEFT JOIN calls c ON c.run = m.run AND c.step = m.step AND c.call = p.call
        WHERE m.run = ? ORDER BY m.seq, p.seq
    """
    for row, run in enumerate(some, 1):
        held = [(*rest, _text(text)) for *rest, text in asked(path, question, row)]
        assert held == [(message.role, *_spoken(part)) for message in run.messages for part in message.parts]
        assert [seq for (seq,) in asked(path, "SELECT seq FROM messages WHERE run = ?", row)] == [
            *range(len(run.messages))
        ]


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value


def _spoken(part: Part) -> tuple[str, Any]:
    match part:
        case StepStart():
            return "step_start", part.step_number
        case ToolCall():
            return "tool_call", part.arguments
        case ToolResult():
            return "tool_result", part.content
        case Image():
            return "image", part.width
        case _:
            return type(part).__name__.lower(), part.text


def test_integers_and_texts_that_sqlite_cannot_hold_come_back(path: Path) -> None:
    usage = Usage(2**70, -(2**63), 2**63 - 1, 0, 2**64)
    response = Response("\ud83d", (ToolCall("\udc00", "a\0b", "\ud83d"),), None, usage, "\udfff")
    odd = replace(named("\ud800", 1), seed=2**99, steps=(Step(1, 1, 2**65, None, None, response, (None,)),))
    plain = named("plain")
    with Store(path) as store:
        store.add([odd, plain])
        put_stepwise(store, replace(odd, run_id="\udc01", parent_run_id="\ud800"))
        store.put(records_of(replace(odd, success=True)), "cell \ud800")
    assert [run.run_id for run in stored_runs(path)] == ["plain", "\udc01", "\ud800"]
    for read, run in zip(
        stored_runs(path), [plain, replace(odd, run_id="\udc01", parent_run_id="\ud800"), replace(odd, success=True)],
        strict=True,
    ):  # fmt: skip
        assert_same(read, run)


def test_what_json_cannot_hold_is_refused_and_the_store_goes_on(path: Path) -> None:
    with Store(path) as store:
        for write in (store.add, store.step, store.finish):
            with pytest.raises(SettingError, match="settings of run bad holds"):
                write(named("bad", settings={"deep": [object()]}))
        store.add(named("good"))
    assert ids(path) == ["good"]


# --- Who takes whose place --------------------------------------------------------------------------------------------


def test_store_run_replaces_earlier_attempts(path: Path) -> None:
    with Store(path) as store:
        store.put(records_of(named("old")), "cell")
        store.put(records_of(named("again")))
        store.put(records_of(named("again", 3)))
        assert ids(path) == ["old", "again"]
        store.put(records_of(named("new")), "cell")
        assert ids(path) == ["old", "again"]  # what waits is not there yet
        store.flush()
        assert ids(path) == ["again", "new"]
    assert [run.n_steps for run in stored_runs(path)] == [4, 3]
    assert ids(path, states=["replaced"]) == ["old", "again"]
    assert asked(path, "SELECT attempt FROM runs WHERE run_id = 'again'") == [(1,), (2,)]


@pytest.mark.parametrize("cell", [None, "cell"])
def test_store_keeps_a_finished_run_until_the_next_finishes(path: Path, cell: str | None) -> None:
    run = named("r", 1)
    with Store(path) as store:
        store.put(records_of(replace(run, success=False)), cell)
        store.step(run, cell)
        assert [run.success for run in stored_runs(path)] == [False]
        store.finish(run, cell, state="interrupted")
        assert [run.success for run in stored_runs(path)] == [False]
        store.step(run, cell)
    assert [run.success for run in stored_runs(path)] == [False]
    with Store(path) as store:
        store.step(run, cell)
        assert [run.success for run in stored_runs(path)] == [False]
        store.finish(run, cell)
    assert [(run.success, run.n_steps) for run in stored_runs(path)] == [(None, 2)]
    assert asked(path, "SELECT state FROM runs ORDER BY attempt") == [("replaced",)] * 3 + [("finished",)]


def test_store_keeps_a_finished_run_beside_an_interrupted_family(path: Path) -> None:
    run = named("r", 1)
    with Store(path) as store:
        store.put(records_of(run))
        store.step(replace(run, subagents=(named("child", 1, parent_run_id="r"),)))
    assert ids(path) == ["r"]
    states = asked(path, "SELECT run_id, state FROM runs ORDER BY id")
    assert states == [("r", "finished"), ("r", "replaced"), ("child", "replaced")]


def test_store_replaces_an_interrupted_run_that_restarts(path: Path) -> None:
    run = named("r", 3)
    with Store(path) as store:
        store.step(replace(run, steps=run.steps[:2]), "cell")
        assert ids(path) == []
        assert [found.error for found in stored_runs(path, states=["running"])] == [INTERRUPTED]
    (read,) = stored_runs(path)
    assert read == replace(run, steps=run.steps[:2], error=INTERRUPTED)
    with Store(path) as store:
        assert ids(path) == ["r"]
        store.step(replace(run, steps=run.steps[:1]), "cell")
        assert ids(path) == []
        store.finish(run, "cell")
    assert list(stored_runs(path)) == [run]


def test_an_interrupt_that_was_recorded_keeps_its_own_words(path: Path) -> None:
    run = named("r", error="KeyboardInterrupt: ")
    with Store(path) as store:
        store.step(run)
        store.finish(run, state="interrupted")
    assert list(stored_runs(path)) == [run]
    assert asked(path, "SELECT state FROM runs") == [("interrupted",)]


def test_store_treats_a_different_run_as_a_new_attempt(path: Path) -> None:
    with Store(path) as store:
        store.step(named("r", 2))
        store.step(named("r", 3))
        store.finish(named("r", 1))
    assert [run.n_steps for run in stored_runs(path)] == [2]
    assert asked(path, "SELECT count(*) FROM runs") == [(3,)]


def with_children(name: str, *children: Run) -> Run:
    return named(name, 2, subagents=tuple(replace(child, parent_run_id=name) for child in children))


def test_store_orders_subagents_by_their_calls(path: Path) -> None:
    grandchild = named("aa")
    a, b = with_children("a", grandchild), named("b")
    whole = with_children("root", a, b)
    with Store(path) as store:
        store.step(replace(whole, subagents=whole.subagents[1:]))  # the second call was done first
        store.finish(whole)
    assert list(stored_runs(path)) == bl.with_subagents(whole)
    assert ids(path) == ["root", "a", "aa", "b"]
    assert asked(path, "SELECT count(*) FROM runs") == [(4,)]


def test_families_that_are_added_flat_or_nested_are_the_same(tmp_path: Path) -> None:
    nested = with_children("root", with_children("a", named("aa")), named("b"))
    flat = bl.with_subagents(nested)
    for name, given_ in (("nested", nested), ("flat", flat), ("both", [nested, *flat[1:]])):
        with Store(tmp_path / name) as store:
            store.add(given_)
        assert list(stored_runs(tmp_path / name)) == flat
        assert asked(tmp_path / name, "SELECT count(*) FROM runs") == [(4,)]


# --- Sweeps -----------------------------------------------------------------------------------------------------------


@cases(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(6)), stepwise=st.integers(0, 63))
def test_store_orders_runs_by_the_plan(order: list[int], stepwise: int, tmp_path: Path) -> None:
    path = tmp_path / f"{next(NUMBERS)}.db"
    with Store(path) as store:
        store.add(named("loose"))
        store.begin_sweep(((f"cell {n}", f"{n}") for n in range(4)), {})
        second = store.begin_sweep([(f"cell {n}", f"{n}") for n in (5, 3, 4)], {})
        for n in order:
            run = with_children(f"{n}", named(f"{n} child"))
            if stepwise >> n & 1:
                store.step(run, f"cell {n}")
                store.finish(run, f"cell {n}")
            else:
                store.put(records_of(run), f"cell {n}")
    expected = [f"{n}{child}" for n in (0, 1, 2, 5, 3, 4) for child in ("", " child")]
    assert ids(path) == [*expected, "loose"]
    assert ids(path, sweep=second) == expected[-6:]
    assert ids(path, sweep=second + 1) == []


def test_store_identifies_a_sweep_by_its_cells(path: Path) -> None:
    with Store(path) as store:
        first = store.begin_sweep([("a", "1"), ("b", "2")], {"note": "x"})
        other = store.begin_sweep([("b", "2"), ("a", "1")], {})
        store.put(records_of(named("1")), "a")
        store.put(records_of(named("2", stop=Stop("error", 0))), "b")
        assert list(store.finished(first)) == [(0, "finished"), (1, "error")]
        assert list(store.finished(other, again=["error"])) == [(1, "finished")]
        assert store.run("1").run_id == "1"
        with pytest.raises(StoreError, match="no finished run 9 in it"):
            store.run("9")
    with Store(path) as store:
        assert store.begin_sweep([("a", "1"), ("b", "changed")], {"note": "y"}) == first
        assert list(store.finished(first)) == [(0, "finished")]
        store.end_sweep(first)
    assert asked(path, "SELECT id, about, ended_at NOT NULL FROM sweeps") == [
        (first, '{"note":"y"}', 1),
        (other, "{}", 0),
    ]


def test_a_plan_that_breaks_off_leaves_no_trace(path: Path) -> None:
    def broken() -> Iterator[tuple[str, str]]:
        yield "a", "1"
        raise RuntimeError("no more")

    with Store(path) as store:
        with pytest.raises(RuntimeError, match="no more"):
            store.begin_sweep(broken(), {})
        store.add(named("r"))
    assert asked(path, "SELECT (SELECT count(*) FROM sweeps), (SELECT count(*) FROM cells)") == [(0, 0)]


# --- Killed, damaged, full --------------------------------------------------------------------------------------------

KILLED = """
import os, sys
from dataclasses import replace
from boolab.store.rows import records_of
from boolab.store.writer import Store
from tests.support.helpers import distinct, play

store = Store(sys.argv[1])
run = play(distinct(3))
for n in range(5):
    store.put(records_of(replace(run, run_id=f"batch {n}")))
    store.flush()
store.put(records_of(replace(run, run_id="waiting")))
store.step(replace(run, run_id="under way", steps=run.steps[:2]))
print("ready", flush=True)
sys.stdin.read() if len(sys.argv) > 2 else os.kill(os.getpid(), 9)
"""


def killed(path: Path) -> None:
    """A store whose writer was killed: its latest transactions stand in the log beside it."""
    subprocess.run([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, check=False)
    assert Path(f"{path}-wal").stat().st_size > 0


def test_store_keeps_committed_steps_after_a_kill(path: Path) -> None:
    killed(path)
    expected = [*(f"batch {n}" for n in range(5)), "waiting", "under way"]  # a step is committed after what waits
    assert ids(path) == expected
    read = stored_runs(path)[-1]
    assert (read.n_steps, read.error) == (2, INTERRUPTED)
    assert asked(path, "SELECT state, error FROM runs WHERE run_id = 'under way'") == [("running", None)]
    Store(path).close()
    assert asked(path, "SELECT state, error FROM runs WHERE run_id = 'under way'") == [("interrupted", INTERRUPTED)]
    assert ids(path) == expected


def test_store_with_a_damaged_log_loses_the_last_commits(path: Path) -> None:
    """Each frame of the log has a checksum of all before it: SQLite takes what is whole."""
    killed(path)
    log = Path(f"{path}-wal")
    content = log.read_bytes()
    expected = ids(path)
    kept = set()
    draw = random.Random(5)  # noqa: S311 - damage, no secret
    for at in [*(draw.randrange(32, len(content)) for _ in range(6)), 40, len(content) - 1]:
        damaged = bytearray(content)
        damaged[at] ^= 0x10
        log.write_bytes(damaged)
        Path(f"{path}-shm").unlink(missing_ok=True)
        read = ids(path)
        assert read == expected[: len(read)]
        kept.add(len(read))
    assert kept > {0}
    assert max(kept) < len(expected)


@pytest.mark.slow
def test_readers_in_other_processes_read_while_a_writer_writes(path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", KILLED, path, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    assert writer.stdin is not None
    try:
        assert writer.stdout.readline() == "ready\n"
        with pytest.raises(
            StoreError, match=f"it is being written by the process {writer.pid}; a store has one writer"
        ):
            Store(path)
        assert ids(path) == [*(f"batch {n}" for n in range(5)), "waiting"]
        assert ids(path, states=["running"]) == ["under way"]
        code = f"import boolab as bl; print(len(bl.runs_df({str(path)!r})), len(bl.load_runs({str(path)!r})))"
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert told == "6 6\n"
    finally:
        writer.stdin.close()
        writer.wait()
        writer.stdout.close()
    assert ids(path)[-1] == "under way"


@pytest.mark.slow
def test_a_second_writer_in_the_same_process_is_told_so(path: Path) -> None:
    with Store(path) as store:
        with pytest.raises(StoreError, match=rf"by this very process \(pid {os.getpid()}\)"):
            Store(path)
        store.close()
        store.close()
        Store(path).close()


def test_what_was_looked_up_stays_while_more_is_written(path: Path) -> None:
    with Store(path) as store:
        store.add([named("a"), named("b")])
        seen = stored_runs(path)
        assert len(seen) == 2
        store.add([named("c"), named("a", 3)])
        assert [(run.run_id, run.n_steps) for run in seen] == [("a", 3), ("b", 3)]
        assert ids(path) == ["b", "c", "a"]


def test_a_full_disk_is_told_and_what_was_committed_stays(path: Path) -> None:
    with Store(path) as store:
        store.add(named("first"))
        store._connection.execute("PRAGMA max_page_count = 1")  # as many as there are
        with pytest.raises(StoreError, match=r"runs.db: .*full.*; what was committed before is intact") as caught:
            store.step(named("s", task="x" * 99_999))
        assert caught.value.path == str(path)
        with pytest.raises(StoreError, match=r"full.* is intact. 9 runs that waited were not written"):
            store.add([named(f"{n}", task="x" * 9999) for n in range(9)])
        store._connection.execute("PRAGMA max_page_count = 1000000")
        store.step(named("s"))
        store.finish(named("s"))
    assert ids(path) == ["first", "s"]


def test_store_schema_enforces_unique_runs(path: Path) -> None:
    with Store(path) as store:
        put_stepwise(store, named("r"))
        put_stepwise(store, named("s"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        for statement, broken in (
            ("UPDATE runs SET run_id = 'r'", "UNIQUE"),
            ("UPDATE runs SET run_id = 'r', attempt = id", "UNIQUE"),
            ("UPDATE runs SET state = 'done'", "CHECK"),
            ("UPDATE messages SET role = 'narrator'", "CHECK"),
            ("UPDATE parts SET kind = 'sound'", "CHECK"),
            ("INSERT INTO messages SELECT * FROM messages LIMIT 1", "UNIQUE"),
            ("INSERT INTO parts SELECT * FROM parts LIMIT 1", "UNIQUE"),
            ("INSERT INTO steps (run, step, turn, counted) VALUES (99, 1, 1, 1)", "FOREIGN KEY"),
            ("INSERT INTO parts (run, message, seq, kind) VALUES (1, 99, 0, 'text')", "FOREIGN KEY"),
        ):
            with pytest.raises(sqlite3.IntegrityError, match=broken):
                connection.execute(statement)


# --- Versions ---------------------------------------------------------------------------------------------------------


def test_store_migrates_an_older_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(path) as store:
        store.add(named("r"))

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE runs SET mood = 'calm; so far'")

    newer = [*schema.MIGRATIONS, "ALTER TABLE runs ADD COLUMN mood TEXT; -- a note;\n", fill]
    monkeypatch.setattr("boolab.store.connection.VERSION", 3)
    monkeypatch.setattr("boolab.store.connection._new_statements", connection_module._new_statements.__wrapped__)
    monkeypatch.setattr("boolab.store.connection.migrate", lambda connection: schema.migrate(connection, newer))
    with pytest.raises(StoreError, match=r"its schema is version 1, older than 3: open it to write once"):
        stored_runs(path)
    Store(path).close()
    assert asked(path, "SELECT mood FROM runs") == [("calm; so far",)]
    assert asked(path, "PRAGMA user_version") == [(3,)]
    assert ids(path) == ["r"]


def test_a_migration_that_fails_leaves_the_version_before_it() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as memory:
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            schema.migrate(memory, [*schema.MIGRATIONS, "CREATE TABLE more (n);\nINSERT INTO nowhere VALUES (1);\n"])
        assert schema.version_of(memory) == 1
        assert memory.execute("SELECT count(*) FROM sqlite_master WHERE name = 'more'").fetchone() == (0,)


def test_a_new_file_says_what_it_is(path: Path) -> None:
    with Store(path):
        head = path.read_bytes()[:100]
    assert head[68:72] == b"bool"
    assert int.from_bytes(head[60:64], "big") == schema.VERSION
    assert int.from_bytes(head[16:18], "big") == PAGE_BYTES


# --- Reading ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Run]]:
    """A store, and its runs: labelled in part, with settings that not all of them have."""
    path = tmp_path_factory.mktemp("swept") / "runs.db"
    made = []
    for n in range(12):
        swept_: dict[str, Any] = {"mood": n % 3 or None, "policy": "p"} if n < 8 else {}
        made.append(named(f"{n:02}", 1 + n % 5, settings=swept_, success=bool(n % 2) if n > 5 else None))
    with Store(path) as store:
        store.add(made)
    return path, made


@pytest.mark.parametrize("table", [bl.runs_df, bl.steps_df, bl.calls_df, bl.events_df, bl.boundaries_df])
def test_frames_of_a_store_are_those_of_its_runs(swept: tuple[Path, list[Run]], table: Any) -> None:
    path, made = swept
    pd.testing.assert_frame_equal(table(path), table(made))
    pd.testing.assert_frame_equal(table(str(path)), table(stored_runs(path)))


@pytest.mark.parametrize("batch", [2000, 5])
@pytest.mark.parametrize(
    "options", [{}, {"aggregate": True}, {"aggregate": True, "by": ["mood", "policy"]}, {"by": "task"}]
)
def test_counterfactuals_of_a_store_are_those_of_its_runs(
    swept: tuple[Path, list[Run]], options: dict[str, Any], batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, made = swept
    monkeypatch.setattr(recordings, "STORED_RUNS", batch)
    grid: dict[str, Any] = {"tool_budget": [1, 2, None], "doom_loop": [2, 3]}
    found = bl.counterfactual(path, grid=grid, **options)
    pd.testing.assert_frame_equal(found, bl.counterfactual(made, grid=grid, **options), check_like=True)


def test_counterfactuals_of_a_store_are_made_here(swept: tuple[Path, list[Run]]) -> None:
    with pytest.raises(SettingError, match=r"is a store: leave client out, or export it first \(boolab store export"):
        bl.counterfactual(swept[0], grid={"max_steps": [1]}, client="processes")


def test_all_that_takes_runs_takes_a_store(swept: tuple[Path, list[Run]], tmp_path: Path) -> None:
    path, made = swept
    assert bl.load_runs(path) == bl.load_runs(path.parent) == bl.with_subagents(path) == made
    assert [run.success for run in bl.label(path, lambda run: run.n_steps > 2)] == [run.n_steps > 2 for run in made]
    assert bl.recommend(path).frame.equals(bl.recommend(made).frame)
    assert bl.survival(path).frame.equals(bl.survival(made).frame)
    for name in ("runs.parquet", "runs.jsonl"):
        bl.save_runs(path, tmp_path / name)
        assert bl.load_runs(tmp_path / name) == made


def test_a_store_without_runs_is_no_error(path: Path) -> None:
    Store(path).close()
    assert len(stored_runs(path)) == 0
    assert bl.runs_df(path).empty
    assert bl.counterfactual(path, grid={"max_steps": [1]}).empty


def test_stored_runs_are_a_sequence(swept: tuple[Path, list[Run]]) -> None:
    path, made = swept
    found = stored_runs(path)
    assert repr(found) == "<StoredRuns runs.db: 12 runs>"
    assert (found[0], found[-1], found[3:5], found[::-5]) == (made[0], made[-1], made[3:5], made[::-5])
    with pytest.raises(IndexError):
        found[12]
    assert found + made[:1] == [*made, made[0]]
    assert made[:1] + found == [made[0], *made]
    assert list(reversed(found)) == made[::-1]
    assert made[3] in found
    assert [len(some) for some in found.batches(5)] == [5, 5, 2]
    again = pickle.loads(pickle.dumps(found))  # noqa: S301 - its own
    assert list(again) == made
    assert len(pickle.dumps(found)) < 1000


def test_stored_runs_refuse_states_that_are_not_known(path: Path) -> None:
    Store(path).close()
    with pytest.raises(SettingError, match="states: 'done' is not one of finished, interrupted, running, replaced"):
        stored_runs(path, states=("done",))  # type: ignore[arg-type]


def test_a_run_that_was_removed_since_is_told(path: Path) -> None:
    with Store(path) as store:
        store.add(named("r"))
    found = stored_runs(path)
    assert len(found) == 1
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM runs")
        connection.commit()
    with pytest.raises(StoreError, match="1 of these runs were removed from it after they were looked up"):
        list(found)


def test_load_runs_reports_an_unreadable_store(path: Path) -> None:
    with Store(path) as store:
        store.add(named("r"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE steps SET duration_ms = 'long'")
        connection.commit()
    with pytest.raises(RunFormatError, match=r"runs.db: it is damaged: a run in it cannot be read"):
        bl.load_runs(path)


@pytest.mark.alone
def test_memory_does_not_grow_with_what_was_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_BATCH_S", float("inf"))  # a slow machine's clock would make some batches smaller
    run = play(distinct(3))

    def peak(store: Store, first: int, n: int) -> int:
        tracemalloc.start()
        for k in range(first, first + n):
            store.put(records_of(replace(run, run_id=f"{k}")), f"cell {k}")
            if k % 100 == 99:
                store.flush()
                gc.collect()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    gc.freeze()  # what other tests left need not be looked through each time
    with Store(path) as store:
        peak(store, 0, 200)
        # The least of three: a table of the interpreter's own that happens to grow meanwhile is none of the store's.
        few = min(peak(store, first, 200) for first in (1000, 2000, 3000))
        many = min(peak(store, first, 1000) for first in (4000, 5000, 6000))
    gc.unfreeze()
    assert many < 1.3 * few
    assert json.loads(asked(path, "SELECT json_group_array(n) FROM (SELECT count(*) AS n FROM runs)")[0][0]) == [3800]


# --- The page ---------------------------------------------------------------------------------------------------------

PAGE = (ROOT / "docs" / "store.md").read_text(encoding="utf-8")


def test_the_code_and_the_questions_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {})  # noqa: S102 - the project's own page
    path = tmp_path / "runs.db"
    with Store(path) as store:
        store.begin_sweep([("c", "3f9a")], {})
        store.finish(named("3f9a", settings={"max_steps": 3}), "c")
    answers = [asked(path, question) for question in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)]
    assert answers[0] == [(None, "finished", 1, 3.0), (3, "finished", 1, 3.0)]
    assert answers[1] == [("look", 4, 0.0)]
    assert [kind for _, kind, _ in answers[2]].count("tool_result") == 2
    assert answers[2][-1] == ("assistant", "text", "done")
    assert answers[3] == [(1, None)]


def test_the_page_names_every_table_and_column(path: Path) -> None:
    Store(path).close()
    for (table,) in asked(path, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"):
        (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{table}` |")]
        named_ = set(re.findall(r"\w+", row))
        assert {column for _, column, *_ in asked(path, f"PRAGMA table_info({table})")} <= named_


def test_runs_of_a_store_equal_the_same_runs_in_a_list(tmp_path: Path) -> None:
    runs = [bl.run_sync(None, f"Task {n}", model=bl.ScriptedModel(["Hi."])) for n in range(2)]
    with bl.Store(tmp_path / "runs.db") as store:
        for run in runs:
            store.add(run)
    stored = bl.stored_runs(tmp_path / "runs.db")
    assert stored == list(stored) == stored
    assert stored == bl.stored_runs(tmp_path / "runs.db")
    assert stored != runs[:1]
    assert stored != "runs.db"


def test_select_has_condition_and_order() -> None:
    assert (
        select_from(("id", "cell"), "runs", "state = ?", "id")
        == "SELECT id, cell FROM runs WHERE state = ? ORDER BY id"
    )
