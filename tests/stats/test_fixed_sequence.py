"""Paths that are fixed in advance: hand computations, a second implementation, and the promise in a simulation."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom  # type: ignore[import-untyped] # scipy has no types

from benchmarks import recommendations as bench
from boolab.stats.kept_share import shares_of
from boolab.stats.recommend.fixed_sequence import (
    JOINT_AXES,
    OFF,
    Path,
    Successes,
    accept_values,
    errors_of,
    ladder,
    missing,
    paths_of,
)
from boolab.stats.recommend.recommend import recommend
from tests.support.cases import first


def test_first_path_gets_half_of_the_error_and_others_the_rest() -> None:
    assert shares_of(1) == [1]
    assert shares_of(2) == [0.5, 0.5]
    assert shares_of(4) == pytest.approx([1 / 2, 1 / 6, 1 / 6, 1 / 6])


@pytest.mark.parametrize(
    ("runs", "tasks", "errors"),
    [(1, 45, [0.05, 0, 0, 0]), (1, 46, [0.05 / 2, *[0.05 / 6] * 3]), (3, 50, [0.05, 0, 0, 0]),
     (3, 51, [0.05 / 2, *[0.05 / 6] * 3])],
)  # fmt: skip
def test_paths_that_cannot_pass_give_their_share_to_the_first(runs: int, tasks: int, errors: list[float]) -> None:
    sizes = np.append(np.full(tasks, runs), 0)  # tasks without a success make no difference
    paths = [Path(name, 1, np.zeros(tasks, dtype=int), share) for name, share in zip("abcd", shares_of(4), strict=True)]
    assert errors_of(paths, sizes, 0.9, 0.05) == pytest.approx(errors)


def test_joint_path_is_a_ladder_of_caps_thresholds_and_budgets() -> None:
    rungs = ladder(1000)
    caps = rungs[:, 0].tolist()
    assert caps[0] >= 1000
    assert caps[-1] == 1
    assert {400, 380, 361, 343} <= set(caps)
    assert (np.diff(rungs, axis=0) <= 0).all()
    assert rungs[caps.index(380)].tolist() == [380, 63, 570]
    assert rungs[caps.index(12)].tolist() == [12, 3, 18]


def test_with_a_grid_the_joint_path_holds_its_values_only() -> None:
    thresholds = {"max_steps": np.array([5, 20, 90]), "tool_budget": np.array([10, 50])}
    peaks = {"max_steps": np.array([30, 8]), "tool_budget": np.array([40, 9])}
    paths, rungs = paths_of(thresholds, peaks, all_integers=False)
    assert [path.name for path in paths] == ["max_steps", "tool_budget", "joint"]
    assert [path.share for path in paths] == [0.5, 0.25, 0.25]
    assert set(rungs[:, 0].tolist()) <= {5, 20, 90, OFF}
    assert set(rungs[:, 1].tolist()) == {OFF}
    assert set(rungs[:, 2].tolist()) <= {10, 50, OFF}
    assert rungs[-1].tolist() == [5, OFF, 10]
    for path, caps in ((paths[0], [90, 20, 5]),):
        assert path.lost_at.tolist() == [sum(cap > peak for cap in caps) for peak in (30, 8)]


# --- A second implementation, value by value --------------------------------------------------------------------------


def by_brute_force(values: dict[str, list[int]], peaks: dict[str, list[int]], tasks: list[int], keep: float) -> Any:
    """The procedure, as its description says it, with loops: the tightest accepted setting of each path."""
    n = len(tasks)
    top = max(*values["max_steps"], *(6 * value for value in values["doom_loop"]), *values["tool_budget"]) + 1
    k = -400
    joint: list[tuple[int, ...]] = []
    while (cap := int(400 * 0.95**k + 0.5)) >= 1:
        if cap <= 10 * top:
            joint.append((cap, max(3, int(cap / 6 + 0.5)), int(1.5 * cap + 0.5)))
        k += 1
    paths: dict[str, list[tuple[int, ...]]] = {
        name: [tuple(value if other == name else OFF for other in JOINT_AXES) for value in reversed(values[name])]
        for name in JOINT_AXES
    }
    paths["joint"] = joint

    def lost(setting: tuple[int, ...]) -> list[int]:
        return [i for i in range(n) if any(peaks[a][i] >= v for a, v in zip(JOINT_AXES, setting, strict=True))]

    sizes = {t: tasks.count(t) for t in tasks}
    most = max(sizes.values())

    def passes(gone: list[int], error: float) -> bool:
        if most == 1:
            return bool(error and binom.cdf(len(gone), n, 1 - keep) <= error)
        wealth = [0.5, 0.3, 0.2]
        for t, size in sizes.items():
            gain = (sum(tasks[i] == t for i in gone) - (1 - keep) * size) / (keep * most)
            wealth = [w * (1 - bet * gain) for w, bet in zip(wealth, (0.998, 0.75, 0.4), strict=True)]
        return sum(wealth) * error >= 1

    def could_pass(error: float) -> bool:
        if most == 1:
            return bool(keep ** len(sizes) <= error)
        growth = [part * (1 + bet * (1 - keep) / keep) ** len(sizes)
                  for part, bet in ((0.5, 0.998), (0.3, 0.75), (0.2, 0.4))]  # fmt: skip
        return sum(growth) * error >= 1

    errors = {"max_steps": 0.025, **dict.fromkeys(("doom_loop", "tool_budget", "joint"), 0.05 / 6)}
    for name in ("doom_loop", "tool_budget", "joint"):
        if not could_pass(0.05 / 6):
            errors["max_steps"] += errors[name]
            errors[name] = 0
    accepted: dict[str, tuple[int, ...] | None] = {}
    for name, path in paths.items():
        accepted[name] = None
        for setting in path:
            if not passes(lost(setting), errors[name]):
                break
            accepted[name] = setting
    return errors, accepted


@pytest.mark.parametrize("seed", first(10, range(30)))
@pytest.mark.parametrize("keep", [0.8, 0.9])
def test_a_second_implementation_accepts_the_same(seed: int, keep: float) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, rng.integers(20, 120)) if seed % 3 else np.ones(60, dtype=int)
    tasks = np.repeat(np.arange(len(sizes)), sizes)
    hard = rng.normal(0, 0.7, len(sizes))[tasks]
    steps = np.maximum(1, np.exp(1.8 + hard + rng.normal(0, 0.3, len(tasks)))).astype(np.int64)
    peaks = {"max_steps": steps, "doom_loop": np.minimum(rng.geometric(0.5, len(tasks)), steps),
             "tool_budget": steps + rng.poisson(2, len(tasks))}  # fmt: skip
    values = {name: np.arange(2 if name == "doom_loop" else 1, peak.max() + 2) for name, peak in peaks.items()}
    paths, rungs = paths_of(values, peaks, all_integers=True)
    found = accept_values(paths, Successes(tasks), keep, 0.05)
    errors, accepted = by_brute_force(
        {name: column.tolist() for name, column in values.items()},
        {name: column.tolist() for name, column in peaks.items()},
        tasks.tolist(),
        keep,
    )
    for result in found:
        name = result.path.name
        assert result.error == pytest.approx(errors[name])
        setting = accepted[name]
        if not result.error:
            assert setting is None
        elif name == "joint":
            assert setting == (tuple(rungs[result.accepted - 1].tolist()) if result.accepted else None)
        else:
            value = int(values[name][-result.accepted]) if result.accepted else None
            assert value == (None if setting is None else setting[JOINT_AXES.index(name)])


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize(("tasks", "n_lost"), [(20, 0), (30, 2), (60, 6)])
def test_adding_the_missing_tasks_gives_an_answer(runs: int, tasks: int, n_lost: int) -> None:
    """The tightest of two values loses all, and the loosest the first `n_lost` successes."""

    def accepts(extra: int) -> bool:
        clusters = np.repeat(np.arange(tasks + extra), runs)
        lost_at = np.where(np.arange(len(clusters)) < n_lost, 0, 1)
        successes = Successes(clusters)
        found = accept_values([Path(name, 2, lost_at, 0.5) for name in "ab"], successes, 0.9, 0.05)
        short.append(missing(found, successes, 0.9, 0.05))
        return any(result.accepted for result in found)

    short: list[int] = []
    assert accepts(0) == (short[0] == 0)
    if short[0]:
        assert accepts(short[0])
        assert not accepts(short[0] - 1)


# --- The promise, and the benchmark that measures it ------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["own tasks, 130", "80 tasks x 5, tail by task", "three limits matter, 400", "null, 100 tasks x 5, cost grows",
     "3 models, up to 4 times as long"],
)  # fmt: skip
@pytest.mark.parametrize("seeds", first(1, [range(1), range(1, 3)]), ids=str)
def test_the_benchmark_decides_as_recommend_does(name: str, seeds: range) -> None:
    world = next(world for world in bench.WORLDS if world.name == name)
    for seed in seeds:
        runs = world.draw(np.random.default_rng(seed), world.tasks)
        frame = bench.frame_of(runs, grows=world.measure == "cost")
        found = recommend(frame, 0.9, 0.95, world.measure)  # type: ignore[arg-type] # one of the literals
        expected = [
            (
                tuple(zip(found.keys, map(str, group.names), strict=True)),
                tuple((group.candidate.setting if group.candidate else {}).get(axis, OFF) for axis in JOINT_AXES),
                group.action == "set",
            )
            for group in found.groups
            if group.choice.qualifies
        ]
        answers = bench.decide(runs.units, 0.9, "tasks", None, world.measure)
        assert [*map(tuple, answers)] == expected
        if world.measure == "steps":
            shares = [runs.of(group).saved(setting) / len(frame) for group, setting, _ in expected]
            assert sum(shares) == pytest.approx(float(found.frame["saved"].sum()) / len(frame))


def test_acceptance_keeps_its_error_rate_for_dependent_runs() -> None:
    """A cap that truly loses a little more than a tenth; of 400 records, 33 or more have a chance of 0.3%, at 5%."""
    rng = np.random.default_rng(5)
    accepted = {"tasks": 0, "same_tasks": 0}
    for _ in range(400):
        sizes = rng.integers(1, 13, 150)
        clusters = np.repeat(np.arange(150), sizes)
        alike = (rng.random(150) < 0.101)[clusters]
        alone = rng.random(len(clusters)) < 0.101
        lost = np.where(rng.random(len(clusters)) < 0.7, alike, alone)
        cap = Path("max_steps", 2, np.where(lost, 1, 2), 1.0)
        for how in accepted:
            successes = Successes(clusters, how)  # type: ignore[arg-type] # one of the literals
            accepted[how] += accept_values([cap], successes, 0.9, 0.05)[0].accepted == 2
    assert accepted["tasks"] < 33
    assert accepted["same_tasks"] > 66


def test_benchmark_judges_both_dependences_on_the_same_records() -> None:
    world = next(world for world in bench.WORLDS if world.name == "40 tasks x 5")
    whole = world.draw(np.random.default_rng(0), 2000)
    verdicts = bench.judge(world.name, world.draw, world.tasks, whole, 5)
    assert [(one.keep, one.dependence) for one in verdicts] == [
        (keep, how) for keep in bench.KEEPS for how in ("tasks", "same_tasks")
    ]
    assert {one.records for one in verdicts} == {5}
    assert verdicts[0].answers <= verdicts[1].answers
    assert [row.what for row in bench.rows_of(verdicts)] == ["40 tasks x 5, keep=0.9", "40 tasks x 5, keep=0.95"]


def test_benchmark_has_a_row_for_how_often_limits_are_set() -> None:
    verdict = bench.Verdict("null, 100 tasks x 5", 0.9, "tasks", 200, 150, 9, 2, 0.01)
    broken, is_set = bench.rows_of([verdict, verdict._replace(dependence="same_tasks", broken=30)])
    assert broken.detail == "answers 75%, sets 4%, saves 1.0%; ignored: 15.0 %, answers 75%"
    assert (is_set.what, is_set.figure, is_set.at_most) == (
        "null, 100 tasks x 5, keep=0.9: limits are set", 4.5, 5.0,
    )  # fmt: skip
