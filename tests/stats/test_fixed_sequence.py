"""Paths that are fixed in advance: hand computations, a second implementation, and the promise in a simulation."""

from typing import Any

import numpy as np
import pytest
from scipy.special import betainc  # type: ignore[import-untyped] # scipy has no types
from scipy.stats import binom  # type: ignore[import-untyped] # scipy has no types

from benchmarks import recommendations as bench
from boolab.stats.recommend.fixed_sequence import (
    JOINT_AXES,
    OFF,
    Path,
    accept_values,
    allowance,
    design_effect,
    effect_of,
    errors_of,
    ladder,
    missing,
    paths_of,
    reference,
    shares_of,
    worst_effect,
)
from boolab.stats.recommend.recommend import recommend
from tests.support.cases import first


@pytest.mark.parametrize(("keep", "numbers"), [(0.9, [29, 36, 46]), (0.95, [59, 72, 94])])
def test_no_loss_is_allowed_at_the_needed_number_of_successes(keep: float, numbers: list[int]) -> None:
    for n, part in zip(numbers, (1, 1 / 2, 1 / 6), strict=True):
        assert allowance(n, 1.0, keep, 0.05 * part) == 0
        assert allowance(n - 1, 1.0, keep, 0.05 * part) == -1
        assert allowance(10 * n, 10.0, keep, 0.05 * part) == 0  # ten runs of each task, all alike
        assert allowance(10 * n - 10, 10.0, keep, 0.05 * part) == -1


@pytest.mark.parametrize("keep", [0.5, 0.9, 0.95])
def test_independent_successes_use_the_binomial_test(keep: float) -> None:
    for n in range(1, 200, 7):
        may = [x for x in range(n) if binom.cdf(x, n, 1 - keep) <= 0.025]
        assert allowance(n, 1.0, keep, 0.025) == max(may, default=-1)


def test_of_95_independent_successes_a_cap_may_lose_3() -> None:
    assert allowance(95, 1.0, 0.9, 0.025) == 3


def test_first_path_gets_half_of_the_error_and_others_the_rest() -> None:
    assert shares_of(1) == [1]
    assert shares_of(2) == [0.5, 0.5]
    assert shares_of(4) == pytest.approx([1 / 2, 1 / 6, 1 / 6, 1 / 6])


@pytest.mark.parametrize(("n", "errors"), [(45, [0.05, 0, 0, 0]), (46, [0.05 / 2, *[0.05 / 6] * 3])])
def test_paths_that_cannot_pass_give_their_share_to_the_first(n: int, errors: list[float]) -> None:
    paths = [
        Path(name, 1, np.zeros(n, dtype=np.int64), share) for name, share in zip("abcd", shares_of(4), strict=True)
    ]
    assert errors_of(paths, [n] * 4, 0.9, 0.05) == pytest.approx(errors)


def test_design_effect_is_the_ratio_of_between_task_variance() -> None:
    lost, sizes = np.array([4, 0, 0, 1, 2, 0, 0, 0, 3, 0, 1, 0]), np.array([4, 4, 2, 3, 4, 1, 5, 4, 3, 2, 6, 2])
    p, tasks = lost.sum() / sizes.sum(), len(sizes)

    def plain(one: Any, whole: Any) -> float:
        share = one.sum() / whole.sum()
        between = len(whole) / (len(whole) - 1) * ((one - share * whole) ** 2).sum()
        return float(between / (whole.sum() * share * (1 - share)))

    left_out = [np.log(plain(np.delete(lost, t), np.delete(sizes, t))) for t in range(tasks)]
    spread = np.sqrt((tasks - 1) / tasks * ((left_out - np.mean(left_out)) ** 2).sum())
    assert 0 < p < 1
    assert design_effect(lost, sizes) == pytest.approx(plain(lost, sizes) * np.exp(1.645 * spread))


def test_design_effect_is_largest_if_whole_tasks_are_lost() -> None:
    sizes = np.full(60, 5)
    clusters = np.repeat(np.arange(60), 5)
    together = Path("p", 2, np.where(clusters < 12, 1, 2), 1.0)
    assert worst_effect(clusters) == 5
    assert effect_of(together, clusters, 0.9) == 5
    apart = Path("p", 2, np.where(np.arange(300) % 5 == 0, 1, 2), 1.0)
    assert effect_of(apart, clusters, 0.9) == 1
    assert design_effect(np.ones(60), sizes) == 0
    for asked, effect in (("worst", 5.0), ("same_tasks", 1.0)):
        assert effect_of(together, clusters, 0.9, asked) == effect  # type: ignore[arg-type] # one of the literals
    assert effect_of(together._replace(lost_at=np.arange(300) % 2), np.arange(300), 0.9) == 1


def test_reference_is_the_value_that_loses_enough_in_ten_tasks() -> None:
    clusters = np.repeat(np.arange(50), 2)
    lost_at = np.full(100, 9)
    lost_at[:4] = 0  # 2 tasks
    lost_at[4:12] = 2  # 6 tasks, 12 successes
    lost_at[12:30] = 4  # 15 tasks, 30 successes
    lost_at[30:80] = 6  # 80 successes
    path = Path("p", 9, lost_at, 1.0)
    assert reference(path, clusters, 0.9) == 4  # 12 of 100 are lost at place 2, but in too few tasks
    assert reference(path, clusters, 0.6) == 5  # none loses 40% and at most 70%: the tightest that hits ten tasks
    assert reference(path._replace(lost_at=np.where(lost_at == 4, 6, lost_at)), clusters, 0.9) is None
    hundred = Path("p", 3, np.where(np.arange(100) < 5, 1, np.where(np.arange(100) < 10, 2, 3)), 1.0)
    assert reference(hundred, np.arange(100), 0.95) == 2  # five of a hundred are 5%, in five tasks
    assert reference(Path("p", 1, np.where(np.arange(200) < 10, 0, 1), 1.0), np.arange(200), 0.95) == 0


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
    worst = sum(size**2 for size in sizes.values()) / n

    def effect(path: list[tuple[int, ...]]) -> float:
        gone = [lost(setting) for setting in path]
        fit = [g for g in gone if len({tasks[i] for i in g}) >= 10 and len(g) <= 0.7 * n + 1e-9]
        enough = [g for g in fit if len(g) >= (1 - keep) * n - 1e-9]
        if not fit or worst == 1:
            return worst
        chosen = enough[0] if enough else fit[-1]
        gone_of = np.array([sum(tasks[i] == t for i in chosen) for t in sizes], float)
        size_of = np.array([*sizes.values()], float)

        def plain(one: Any, whole: Any) -> float:
            p = one.sum() / whole.sum()
            t = len(whole)
            with np.errstate(all="ignore"):
                return float(t / (t - 1) * ((one - p * whole) ** 2).sum() / (whole.sum() * p * (1 - p)))

        v = plain(gone_of, size_of)
        if v < 1e-9:
            return 1.0
        with np.errstate(all="ignore"):
            logs = np.log([plain(np.delete(gone_of, t), np.delete(size_of, t)) for t in range(len(size_of))])
        s = np.sqrt((len(size_of) - 1) / len(size_of) * ((logs - logs.mean()) ** 2).sum())
        return float(min(max(v * np.exp(1.645 * s), 1), worst)) if np.isfinite(s) else worst

    effects = {name: effect(path) for name, path in paths.items()}
    errors = {"max_steps": 0.025, **dict.fromkeys(("doom_loop", "tool_budget", "joint"), 0.05 / 6)}
    for name in ("doom_loop", "tool_budget", "joint"):
        if keep ** (n / effects["max_steps"]) > 0.05 / 6:
            errors["max_steps"] += errors[name]
            errors[name] = 0
    accepted: dict[str, tuple[int, ...] | None] = {}
    for name, path in paths.items():
        accepted[name] = None
        for setting in path:
            x, size = len(lost(setting)) / effects[name], n / effects[name]
            if not betainc(size - x, x + 1, keep) <= errors[name]:
                break
            accepted[name] = setting
    return effects, accepted


@pytest.mark.parametrize("seed", first(10, range(30)))
@pytest.mark.parametrize("keep", [0.8, 0.9])
def test_a_second_implementation_accepts_the_same(seed: int, keep: float) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, rng.integers(12, 60)) if seed % 3 else np.ones(60, dtype=int)
    tasks = np.repeat(np.arange(len(sizes)), sizes)
    hard = rng.normal(0, 0.7, len(sizes))[tasks]
    steps = np.maximum(1, np.exp(1.8 + hard + rng.normal(0, 0.3, len(tasks)))).astype(np.int64)
    peaks = {"max_steps": steps, "doom_loop": np.minimum(rng.geometric(0.5, len(tasks)), steps),
             "tool_budget": steps + rng.poisson(2, len(tasks))}  # fmt: skip
    values = {name: np.arange(2 if name == "doom_loop" else 1, peak.max() + 2) for name, peak in peaks.items()}
    paths, rungs = paths_of(values, peaks, all_integers=True)
    found = accept_values(paths, tasks, keep, 0.05)
    effects, accepted = by_brute_force(
        {name: column.tolist() for name, column in values.items()},
        {name: column.tolist() for name, column in peaks.items()},
        tasks.tolist(),
        keep,
    )
    for result in found:
        name = result.path.name
        assert result.design_effect == pytest.approx(effects[name])
        setting = accepted[name]
        if not result.error:
            assert setting is None
        elif name == "joint":
            assert setting == (tuple(rungs[result.accepted - 1].tolist()) if result.accepted else None)
        else:
            value = int(values[name][-result.accepted]) if result.accepted else None
            assert value == (None if setting is None else setting[JOINT_AXES.index(name)])


@pytest.mark.parametrize("runs_of_a_task", [1, 3])
def test_adding_the_missing_successes_gives_an_answer(runs_of_a_task: int) -> None:
    for tasks, first_lost in ((20, 0), (30, 2), (60, 6)):
        clusters = np.repeat(np.arange(tasks), runs_of_a_task)
        lost_at = np.where(np.arange(len(clusters)) < first_lost, 0, 2)
        paths = [Path("a", 2, lost_at, 0.5), Path("b", 2, np.minimum(lost_at, 1), 0.5)]

        def more(n: int, clusters: Any = clusters, paths: Any = paths) -> list[Path]:
            return [path._replace(lost_at=np.append(path.lost_at, np.full(n, 2))) for path in paths]

        n = len(clusters)
        found = accept_values(paths, clusters, 0.9, 0.05, "worst")
        short = missing(found, n, 0.9, 0.05)
        if any(one.accepted for one in found):
            assert short == 0
            continue
        for extra, there in ((short - runs_of_a_task, False), (short + runs_of_a_task - 1, True)):
            extra -= extra % runs_of_a_task  # noqa: PLW2901 - whole tasks
            again = np.append(clusters, np.repeat(np.arange(extra // runs_of_a_task) + tasks, runs_of_a_task))
            assert any(one.accepted for one in accept_values(more(extra), again, 0.9, 0.05, "worst")) == there


# --- The promise, and the benchmark that measures it ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["own tasks, 130", "40 tasks x 5", "three limits matter, 400"])
def test_the_benchmark_asks_for_what_recommend_gives(name: str) -> None:
    world = next(world for world in bench.WORLDS if world.name == name)
    for seed in range(3):
        runs = world.draw(np.random.default_rng(seed), world.tasks)
        found = recommend(bench.frame_of(runs), 0.9, 0.95, "steps")
        cap, doom, budget = (OFF if found.setting[axis] is None else found.setting[axis] for axis in JOINT_AXES)
        setting = (cap, doom, budget)
        theirs = bench.PROCEDURES["new"](runs, 0.9, None)
        assert theirs is not None
        assert runs.saved(setting) == pytest.approx(runs.saved(theirs))
        assert float(found["saved_share"][0]) == pytest.approx(runs.saved(setting))
        assert runs.kept(setting) >= runs.kept(theirs)  # limits that add nothing are left off


def test_acceptance_keeps_its_error_rate_for_dependent_runs() -> None:
    """A cap that truly loses a little more than a tenth; of 400 records, 33 or more have a chance of 0.3%, at 5%."""
    rng = np.random.default_rng(5)
    accepted = {"auto": 0, "worst": 0, "same_tasks": 0}
    for _ in range(400):
        sizes = rng.integers(1, 13, 150)
        clusters = np.repeat(np.arange(150), sizes)
        alike = (rng.random(150) < 0.101)[clusters]
        alone = rng.random(len(clusters)) < 0.101
        lost = np.where(rng.random(len(clusters)) < 0.7, alike, alone)
        cap = Path("max_steps", 2, np.where(lost, 1, 2), 1.0)
        for how in accepted:
            found = accept_values([cap], clusters, 0.9, 0.05, how)  # type: ignore[arg-type] # one of the literals
            accepted[how] += found[0].accepted == 2
    assert accepted["worst"] <= accepted["auto"] < 33
    assert accepted["same_tasks"] > 66


def test_benchmark_judges_every_procedure_on_the_same_records() -> None:
    world = next(world for world in bench.WORLDS if world.name == "40 tasks x 5")
    whole = world.draw(np.random.default_rng(0), 2000)
    verdicts = bench.judge(world.name, world.draw, world.tasks, whole, 0.9, 5)
    assert [one.procedure for one in verdicts] == ["new", "worst", "ignored", "former"]
    assert {one.records for one in verdicts} == {5}
    saved = {one.procedure: one.saved for one in verdicts}
    assert saved["former"] < saved["new"] <= saved["ignored"]
    assert bench.line(verdicts).startswith("40 tasks x 5")
