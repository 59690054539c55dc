"""The figures, against a computation in plain Python that knows only the definitions of docs/stoprulebench.md."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.stoprulebench.metrics import FIGURES, Figure, Samples, SetWeights, area, mean_of, mixed
from benchmarks.stoprulebench.recordings import Recordings, recordings_of
from tests.support.bench_cases import run_of, some_recordings


def some_stops(data: Recordings, seed: int) -> np.ndarray:
    """Stops by chance at each level: 0 for none."""
    chance = random.Random(seed)  # noqa: S311 - made data
    levels = 1 + len(data.fixed.levels)
    return np.array(
        [[chance.choice([0, 0, *range(1, n)]) if n > 1 else 0 for n in data.lengths.tolist()] for _ in range(levels)]
    )


def plain(data: Recordings, rows: list[int], stops: np.ndarray) -> dict[str, float]:
    """The figures of some runs, run by run."""
    kept, saved = [], []
    for level in stops.tolist():
        wins = lost = steps = left = 0
        for row in rows:
            run, k = data.runs[row], level[row]
            steps += len(run.steps)
            left += len(run.steps) - k if k else 0
            wins += bool(run.success)
            lost += bool(run.success) and k > 0
        kept.append(1 - lost / wins)
        saved.append(left / steps)
    total = unspent = 0.0
    for row in rows:
        costs = [step.response.usage.cost for step in data.runs[row].steps]
        if None not in costs:
            k = int(stops[0, row]) or len(costs)
            total += sum(costs)  # type: ignore[arg-type]
            unspent += sum(costs[k:])  # type: ignore[arg-type]
    heights = [
        max(s * (1.0 if 1 - k <= 1 - x + 1e-9 else (1 - x) / (1 - k)) for k, s in zip(kept, saved, strict=True))
        for x in [0.8 + n / 100 for n in range(21)]
    ]
    return {
        "kept": kept[0],
        "saved_steps": saved[0],
        "saved_cost": unspent / total if total else math.nan,
        "score": saved[0] * min(1.0, 0.05 / (1 - kept[0])) if kept[0] < 1 else saved[0],
        "area": sum((a + b) / 2 for a, b in pairwise(heights)) / 20,
    }


@pytest.mark.parametrize("seed", range(8))
def test_set_figures_and_their_mean_equal_a_plain_computation(seed: int) -> None:
    data = some_recordings(seed)
    stops = some_stops(data, seed)
    samples, expected = [], []
    for number in range(len(data.sets)):
        weights = SetWeights(data, number)
        samples.append(weights.samples(stops[:, weights.rows]))
        expected.append(plain(data, weights.rows.tolist(), stops))
        found = samples[-1].figures()
        for name in FIGURES:
            value = found[name].value
            assert (math.nan if value is None else value) == pytest.approx(expected[-1][name], abs=2e-6, nan_ok=True)
    for name, figure in mean_of(samples).figures().items():
        known = [values[name] for values in expected if not math.isnan(values[name])]
        assert figure.value == pytest.approx(sum(known) / len(known), abs=2e-6)


def test_intervals_contain_their_value_and_narrow_with_tasks() -> None:
    widths = []
    for tasks in (10, 160):
        data = some_recordings(1, tasks=tasks, sets=["sql"])
        stops = np.where(data.lengths > 6, 6, 0)[None].repeat(1 + len(data.fixed.levels), axis=0)
        figures = SetWeights(data, 0).samples(stops).figures()
        for figure in figures.values():
            assert figure.low <= figure.value <= figure.high  # type: ignore[operator]
        widths.append(figures["saved_steps"].high - figures["saved_steps"].low)  # type: ignore[operator]
    assert widths[1] < widths[0] / 2


def test_mean_over_sets_that_differ_has_a_wide_interval() -> None:
    data = some_recordings(1, tasks=160, sets=["sql", "tau-airline", "tau2-airline"])
    weights = [SetWeights(data, number) for number in range(3)]
    stops = np.where(data.lengths > 6, 6, 0) * (data.set_of == 0)  # all is saved in one of three sets
    samples = [each.samples(stops[None, each.rows].repeat(8, axis=0)) for each in weights]
    value, low, high = mean_of(samples).figures()["saved_steps"]
    there = samples[0].figures()["saved_steps"].value
    assert value == pytest.approx(there / 3, abs=1e-6)  # type: ignore[operator]
    assert low == 0  # none of three draws is that set
    assert high > 0.6 * there  # type: ignore[operator]


def test_mean_over_equal_sets_is_as_narrow_as_their_tasks() -> None:
    values = {name: np.array([0.4, *np.linspace(0.3, 0.5, 1000)]) for name in FIGURES}
    one = Samples(values, Figure(0.4, 0.3, 0.5))
    low, high = mean_of([one] * 4).figures()["score"][1:]
    assert 0.08 < high - low < 0.12  # type: ignore[operator] # the width of one, 0.19, over the root of four


def test_mean_kept_is_never_surer_than_that_over_tasks() -> None:
    data = some_recordings(0, tasks=30)
    sets = [SetWeights(data, number) for number in range(len(data.sets))]
    kept = mean_of(each.samples(np.zeros((8, len(each.rows)), dtype=np.int32)) for each in sets).figures()["kept"]
    assert kept.value == kept.high == 1
    assert 0.9 < kept.low < 0.99  # type: ignore[operator]


def test_copies_of_a_task_are_one_task() -> None:
    runs = [run_of("abab", run_id=f"{n}", success=True, task="same") for n in range(50)]
    runs += [run_of("abababab", run_id=f"x{n}", success=False, task="other") for n in range(50)]
    data = recordings_of(runs, "made")
    weights = SetWeights(data, 0)
    figures = weights.samples(np.where(data.lengths > 6, 6, 0)[None].repeat(8, axis=0)).figures()
    assert weights.n_tasks == 2
    assert figures["kept"].low < 0.2  # type: ignore[operator] # one task with successes shows next to nothing


def test_kept_interval_without_a_lost_success_has_a_lower_bound() -> None:
    data = some_recordings(0, tasks=30, sets=["sql"])
    weights = SetWeights(data, 0)
    kept = weights.samples(np.zeros((8, len(data.runs)), dtype=np.int32)).figures()["kept"]
    assert kept.value == kept.high == 1
    assert 0.8 < kept.low < 0.96  # type: ignore[operator]


def test_rule_that_keeps_too_little_is_on_in_a_share_of_runs() -> None:
    # On in one run of four, a rule that loses 20% of the successes loses 5%.
    assert (0.4 * mixed(np.array([0.8]), 0.95)).tolist() == pytest.approx([0.1])
    assert mixed(np.array([0.95, 0.951, 1.0]), 0.95).tolist() == [1, 1, 1]
    assert mixed(np.array([0.0]), 0.95).tolist() == pytest.approx([0.05])


def test_area_of_a_rule_that_keeps_everything_is_its_savings() -> None:
    assert area(np.array([[1.0, 0.5]]), np.array([[0.3, 0.2]])).tolist() == pytest.approx([0.3])


def test_a_figure_without_data_is_not_defined() -> None:
    data = some_recordings(0, sets=["code"])
    weights = SetWeights(data, 0)
    figures = weights.samples(np.zeros((8, len(data.runs)), dtype=np.int32)).figures()
    assert figures["saved_cost"] == Figure(None, None, None)
    assert figures["saved_steps"] == Figure(0.0, 0.0, 0.0)
