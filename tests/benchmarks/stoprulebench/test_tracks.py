"""The splits: a task is never on both sides, each run is judged once, and everybody has the same folds."""

import numpy as np
import pytest

from benchmarks.stoprulebench.recordings import recordings_of
from benchmarks.stoprulebench.splits import splits
from benchmarks.stoprulebench.tracks import TRACKS, Track, parts_of
from boolab.errors import SettingError
from tests.support.bench_cases import run_of, some_recordings, some_runs


@pytest.mark.parametrize("track", TRACKS)
@pytest.mark.parametrize("seed", range(5))
def test_no_task_is_trained_on_and_judged(track: Track, seed: int) -> None:
    data = some_recordings(seed, tasks=4 + 5 * seed)
    for part in parts_of(data, track):
        train, test = part.train[data.cell], part.test[data.cell]
        assert not set(data.task[train]) & set(data.task[test])
        assert not set(data.task[part.tune[data.cell]]) - set(data.task[train])
        assert test.any()


@pytest.mark.parametrize("seed", range(5))
def test_each_run_is_judged_once_in_each_track_of_its_set(seed: int) -> None:
    data = some_recordings(seed)
    for track in TRACKS:
        times = np.sum([part.test[data.cell] for part in parts_of(data, track)], axis=0)
        names = np.array([cell.set_name for cell in data.cells])[data.cell]
        expected = np.isin(names, ["sql", "code"]) if track == "model" else np.ones(len(names), dtype=bool)
        assert times.tolist() == expected.astype(int).tolist()


def test_each_track_trains_on_what_it_says() -> None:
    data = some_recordings()
    cells = np.array(data.cells, dtype=object)
    for part in parts_of(data, "within"):
        assert {name for name, _, _ in cells[part.train]} <= {name for name, _, _ in cells[part.test]}
    for part in parts_of(data, "model"):
        assert {name for name, _, _ in cells[part.train]} == {name for name, _, _ in cells[part.test]}
        assert not {model for _, model, _ in cells[part.train]} & {model for _, model, _ in cells[part.test]}
    for part in parts_of(data, "set"):
        (judged,) = {name for name, _, _ in cells[part.test]}
        assert not splits().sharing_tasks(judged) & {name for name, _, _ in cells[part.train]}
    (everything,) = parts_of(data, "none")
    assert everything.test.all()
    assert not everything.train.any()


def test_sets_with_the_same_tasks_do_not_train_each_other() -> None:
    data = some_recordings()
    cells = np.array(data.cells, dtype=object)
    trained = {
        next(iter({name for name, _, _ in cells[part.test]})): {name for name, _, _ in cells[part.train]}
        for part in parts_of(data, "set")
    }
    assert trained["tau-airline"] == {"sql", "code"} == trained["tau2-airline"]
    assert trained["sql"] == {"code", "tau-airline", "tau2-airline"}


def test_a_fold_depends_on_the_set_and_the_task_alone() -> None:
    whole, part = some_recordings(3), some_recordings(3, sets=["sql"])
    fold = {run.run_id: whole.cells[cell].fold for run, cell in zip(whole.runs, whole.cell, strict=True)}
    mine = {run.run_id: part.cells[cell].fold for run, cell in zip(part.runs, part.cell, strict=True)}
    by_task = {run.run_id: splits().fold_of("sql", run.task) for run in part.runs}
    assert mine == by_task
    assert (
        fold.items() >= {run.run_id: splits().fold_of(str(run.settings["set"]), run.task) for run in whole.runs}.items()
    )


def test_the_folds_are_those_that_were_written_down() -> None:
    # If this fails, all figures change: raise the version in splits.json.
    assert [splits().fold_of("swebench-verified", f"swebench-verified/{n}") for n in range(8)] == [
        3,
        0,
        2,
        4,
        3,
        2,
        2,
        3,
    ]
    folds = np.array([splits().fold_of("x", str(n)) for n in range(5_000)])
    assert np.bincount(folds).min() > 900


def test_digest_depends_on_the_tasks_and_not_their_order() -> None:
    tasks = [("a", "1"), ("a", "2"), ("b", "1")]
    assert splits().digest(tasks) == splits().digest([*reversed(tasks), ("a", "1")])
    assert splits().digest(tasks) != splits().digest(tasks[:2])


def test_runs_without_a_label_or_a_step_are_left_out_and_counted() -> None:
    runs = [
        run_of("aab", run_id="1", success=True, task="t"),
        run_of("", run_id="2", success=True, task="t"),
        run_of("ab", run_id="3", success=None, task="t"),
    ]
    data = recordings_of(runs, "made")
    assert ([run.run_id for run in data.runs], data.n_left_out) == (["1"], 2)


def test_recordings_without_a_success_are_refused() -> None:
    with pytest.raises(SettingError, match=r"made: there is no successful run among 1 run"):
        recordings_of([run_of("ab", run_id="1", success=False, task="t")], "made")
    with pytest.raises(SettingError, match=r"no run with a success label and a step among 1 run"):
        recordings_of([run_of("ab", run_id="1", success=None, task="t")], "made")


def test_two_runs_with_one_id_are_refused() -> None:
    runs = [run_of("ab", run_id="1", success=True, task=f"{n}") for n in range(2)]
    with pytest.raises(SettingError, match=r"1 run id occur more than once, such as '1'"):
        recordings_of(runs, "made")


def test_run_order_does_not_change_the_recordings_of_a_set() -> None:
    runs = some_runs(2, sets=["sql"])
    one, other = recordings_of(runs, "made"), recordings_of(runs[::-1], "made")
    assert one.digest() == other.digest()
    assert one.cells == other.cells
