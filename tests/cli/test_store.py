"""`boolab store`: what it says of a store, and what it removes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.store.rows import records_of
from boolab.store.stored_runs import stored_runs
from boolab.store.writer import Store
from tests.support.helpers import distinct, play

RUNS = [replace(play(distinct(n)), run_id=f"{n}{n}abc") for n in range(1, 5)]


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Two sweeps of two cells, one of them done; a run of none, a replaced one, and an interrupted one."""
    path = tmp_path / "runs.db"
    with Store(path) as store:
        first = store.begin_sweep([("a", "11abc"), ("b", "22abc")], {"agents": ["x"], "tasks": ["look around"]})
        store.put(records_of(replace(RUNS[0], run_id="old")), "a")
        store.put(records_of(RUNS[0]), "a")
        store.put(records_of(RUNS[1]), "b")
        store.end_sweep(first)
        store.begin_sweep([("b", "22abc"), ("c", "33abc")], {"agents": ["x"]})
        store.step(RUNS[2], "c")
        store.add(RUNS[3])
    return str(path)


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["store", *arguments]) == code
    shown = capsys.readouterr()
    return shown.err if code else shown.out


def ids(file: str, **which: object) -> list[str]:
    return [run.run_id for run in stored_runs(file, **which)]  # type: ignore[arg-type]


def test_ls_tells_the_sweeps_and_the_runs_by_state(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, "ls", file).splitlines()
    assert lines[0].startswith(f"{file}: ")
    assert lines[0].endswith("schema 1")
    assert lines[1] == "runs: 3 finished, 1 interrupted, 1 replaced"
    assert lines[2].startswith("sweep 1: 2 of 2 cells finished, begun 2")
    assert ", done 2" in lines[2]
    assert lines[3].startswith("sweep 2: 1 of 2 cells finished, begun 2")
    assert lines[3].endswith(", not done")
    assert lines[4:] == ["of no sweep: 1 run"]


def test_ls_as_json_is_one_object(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capsys, "ls", file, "--json"))
    assert (found["schema"], found["version"], found["being_written"], found["loose"]) == (1, 1, False, 1)
    assert found["states"] == {"finished": 3, "interrupted": 1, "replaced": 1}
    assert [(sweep["sweep"], sweep["n_cells"], sweep["finished"]) for sweep in found["sweeps"]] == [
        (1, 2, 2),
        (2, 2, 1),
    ]
    assert found["sweeps"][0]["about"] == {"agents": ["x"], "tasks": ["look around"]}


def test_ls_says_that_a_store_is_being_written(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(file):
        assert told(capsys, "ls", file).splitlines()[0].endswith(", being written now")


def test_store_show_takes_a_sweep_number_or_a_run_id_prefix(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = told(capsys, "show", file, "1")
    assert 'tasks: ["look around"]' in shown
    assert shown.splitlines()[-2:] == ["stop reasons:", "  finished  2"]
    assert told(capsys, "show", file, "44").strip() == str(RUNS[3]).strip()
    assert "replaced" not in told(capsys, "show", file, "33abc")


def test_show_names_what_is_not_there_or_not_alone(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no run's id begins like this, and no sweep has this number" in told(capsys, "show", file, "9", code=1)
    with Store(file) as store:
        store.add(replace(RUNS[3], run_id="44abd"))
    assert "several runs' ids begin like this: 44abc, 44abd" in told(capsys, "show", file, "44", code=1)
    assert str(RUNS[3]).strip() == told(capsys, "show", file, "44abc").strip()


@pytest.mark.parametrize("name", ["runs.parquet", "runs.jsonl"])
def test_export_writes_what_load_runs_reads(
    file: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / name)
    assert told(capsys, "export", file, target, "--sweep", "1") == f"Wrote 2 runs to {target}\n"
    assert bl.load_runs(target) == RUNS[:2]
    assert told(capsys, "export", file, target) == f"Wrote 4 runs to {target}\n"
    assert bl.load_runs(target) == list(stored_runs(file))


def test_export_refuses_other_files_and_sweeps(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "saved as .jsonl (ATIF), .jsonl.bz2 or .parquet" in told(capsys, "export", file, "runs.csv", code=1)
    target = str(tmp_path / "missing" / "runs.jsonl")
    assert "No such file or directory" in told(capsys, "export", file, target, code=1)
    assert "there is no sweep 7; its sweeps: 1, 2" in told(capsys, "export", file, "runs.jsonl", "--sweep", "7", code=1)


def test_store_prune_removes_replaced_and_interrupted_runs(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ids(file, states=("replaced",)) == ["old"]
    shown = told(capsys, "prune", file, "--replaced", "--yes")
    assert shown.startswith(f"{file}: 1 run with 2 steps would be removed\nRemoved; the file has ")
    assert ids(file, states=("replaced",)) == []
    assert ids(file) == ["11abc", "22abc", "33abc", "44abc"]
    told(capsys, "prune", file, "--interrupted", "--yes")
    assert ids(file) == ["11abc", "22abc", "44abc"]
    assert "0 runs with 0 steps" in told(capsys, "prune", file, "--interrupted")
    assert [run for run in stored_runs(file) if run.run_id == "44abc"] == [RUNS[3]]


def test_prune_removes_a_sweep_and_leaves_what_another_has(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "prune", file, "--sweep", "1", "--yes")
    assert ids(file) == ["22abc", "33abc", "44abc"]
    assert "sweep 1" not in told(capsys, "ls", file)
    told(capsys, "prune", file, "--sweep", "2", "--yes")
    assert ids(file) == ["44abc"]


def test_prune_leaves_runs_whose_steps_others_share(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    cut = replace(RUNS[1], run_id="cut", steps=RUNS[1].steps[:1])
    with Store(file) as store:
        store.put(records_of(cut, RUNS[1]))
    assert "would stay" not in told(capsys, "prune", file, "--sweep", "2", "--yes")
    shown = told(capsys, "prune", file, "--sweep", "1", "--yes")
    assert "1 run would stay, because runs that are kept share their steps" in shown
    assert next(run for run in stored_runs(file) if run.run_id == "cut") == cut


def test_prune_wants_to_be_told_what_and_asks(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "name what to remove: --replaced, --interrupted, --sweep N" in told(capsys, "prune", file, code=1)
    assert "--yes answers it with yes" in told(capsys, "prune", file, "--replaced", code=1)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert told(capsys, "prune", file, "--replaced", code=1) == "boolab: nothing was removed\n"
    monkeypatch.setattr("builtins.input", lambda _: "Y")
    told(capsys, "prune", file, "--replaced")
    assert ids(file, states=("replaced",)) == []


def test_a_pruned_store_gives_the_space_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "big.db"
    long = replace(RUNS[0], task="x" * 200_000)
    with Store(path) as store:
        store.add(long)
        store.put(records_of(replace(long, success=True)))
    before = path.stat().st_size
    told(capsys, "prune", str(path), "--replaced", "--yes")
    assert path.stat().st_size < before - 190_000


@pytest.mark.parametrize("action", [["ls"], ["show", "1"], ["export", "x.jsonl"], ["prune", "--replaced", "--yes"]])
def test_what_is_no_store_is_told_in_one_line(
    action: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.db"
    path.write_text("notes")
    shown = told(capsys, action[0], str(path), *action[1:], code=1)
    assert shown == f"boolab: {path}: it is no store: not a SQLite file\n"


def test_without_an_action_it_shows_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["store"])
    assert left.value.code == 2
    assert "ACTION" in capsys.readouterr().err
