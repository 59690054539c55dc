"""The learned baseline: it is learned on the training runs alone, and is what `bl.learn_stop` gives there."""

from dataclasses import replace

import numpy as np

import boolab as bl
from benchmarks.stoprulebench.entries import Prepared
from benchmarks.stoprulebench.first_stops import NEVER, RuleTables, Scoped
from benchmarks.stoprulebench.judge import judge
from benchmarks.stoprulebench.learned import learned_baselines
from benchmarks.stoprulebench.recordings import Recordings, recordings_of
from benchmarks.stoprulebench.tracks import parts_of
from tests.support.bench_cases import some_recordings, some_runs

DATA = some_recordings(3, tasks=150, sets=["tau-airline"])
ON_AVERAGE, CONFIDENT = learned_baselines("me")


def prepared(data: Recordings = DATA) -> Prepared:
    return ON_AVERAGE.prepare(data, RuleTables(data.runs))


def test_learned_entry_stops_like_learn_stop_on_training_runs() -> None:
    part = next(parts_of(DATA, "within"))
    train, test = ([DATA.runs[row] for row in np.flatnonzero(side[DATA.cell])] for side in (part.train, part.test))
    rule = bl.learn_stop(train, confidence=None, scope="run", folds=0)
    expected = RuleTables(test).stops([(Scoped(rule),)])[:, 0]
    assert prepared().stops(part)[0].tolist() == expected.tolist()
    assert (expected != NEVER).sum() > 10


def test_labels_of_judged_runs_change_nothing() -> None:
    part = next(parts_of(DATA, "within"))
    judged = {DATA.runs[row].run_id for row in np.flatnonzero(part.test[DATA.cell])}
    other = recordings_of(
        [replace(run, success=not run.success) if run.run_id in judged else run for run in DATA.runs], "made"
    )
    assert prepared(other).stops(part).tolist() == prepared().stops(part).tolist()


def test_both_promises_are_judged_and_the_stronger_stops_less() -> None:
    average, confident = judge([ON_AVERAGE, CONFIDENT], DATA)
    assert list(average.tracks) == ["within"]  # one set and one model, so there is no other to learn from
    within = [one.tracks["within"].mean for one in (average, confident)]
    assert within[0].saved_steps.value >= within[1].saved_steps.value  # type: ignore[operator]
    assert all(mean.kept.value > 0.9 for mean in within)  # type: ignore[operator]


def test_with_too_few_tasks_for_its_promise_it_stops_nothing() -> None:
    few = recordings_of(some_runs(3, tasks=10, sets=["sql"]), "made")
    for part in parts_of(few, "within"):
        assert (prepared(few).stops(part) == NEVER).all()
