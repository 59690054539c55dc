"""Whether the runs that a setting stops fail more often: what the test counts, and how often it errs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats  # type: ignore[import-untyped] # scipy has no types

from boolab.stats.recommend.candidates import Levels
from boolab.stats.recommend.fixed_sequence import Dependence, Path
from boolab.stats.recommend.null_test import PERMUTATIONS, NullTest, null_tests
from boolab.stats.recommend.question import Question
from tests.support.cases import first

QUESTION = Question(0.7, 0.95, "steps", ("max_steps",), None, None, 0)


def cap_levels(lengths: np.ndarray, name: str = "max_steps") -> Levels:
    """A path of caps over runs of these lengths, from the longest on: level k stops what is longer than its cap."""
    top = int(lengths.max())
    spent = np.array([[int(np.minimum(lengths, top - level).sum()) for level in range(top)]])
    return Levels(Path(name, top - 1, top - lengths, 1.0), spent, lambda _: {})


def null_test_of(
    lengths: np.ndarray,
    success: np.ndarray,
    tasks: np.ndarray | None = None,
    *,
    within_lengths: bool = False,
    question: Question = QUESTION,
) -> NullTest:
    clusters = np.arange(len(lengths)) if tasks is None else tasks
    tested_lengths = lengths if within_lengths else None
    return null_tests([cap_levels(lengths)], [0.05], question, success, clusters, tested_lengths)["max_steps"]


def test_the_runs_that_are_stopped_are_counted_by_outcome() -> None:
    lengths = np.array([2] * 60 + [30] * 10 + [40] * 6)
    success = np.array([1] * 60 + [0] * 10 + [-1] * 6)
    result = null_test_of(lengths, success)
    assert (result.stopped, result.failed, result.within) == (10, 10, "group")
    assert result.expected == pytest.approx(10 * 10 / 70)
    assert result.p_value == 1 / (PERMUTATIONS + 1)
    assert result.is_shown


def test_failures_as_long_as_successes_show_nothing() -> None:
    lengths = np.tile(np.arange(1, 21), 10)
    success = np.repeat([1, 1, 1, 1, 0], 40)
    result = null_test_of(lengths, success)
    assert result.p_value > 0.2
    assert not result.is_shown


def test_where_nothing_is_chosen_the_p_value_is_one() -> None:
    lengths = np.where(np.arange(100) < 80, 20, 1)
    success = (np.arange(100) < 80).astype(int)  # the failures are the short ones
    assert null_test_of(lengths, success) == NullTest(0, 0, 0.0, 1.0, "group")


def test_each_path_that_is_tested_is_compared() -> None:
    rng = np.random.default_rng(2)
    success = (rng.random(200) < 0.7).astype(int)
    useless, useful = rng.integers(1, 20, 200), np.where(success, 3, 30)
    paths = [cap_levels(useless, "a"), cap_levels(useful, "b")]
    spent = np.minimum(paths[0].spent[0, 0], paths[1].spent[0, 0])
    paths = [one._replace(spent=one.spent - one.spent[0, 0] + spent) for one in paths]
    both = null_tests(paths, [0.025, 0.025], QUESTION, success, np.arange(200), None)
    failures = (success == 0).sum()
    assert (both["b"].stopped, both["b"].failed, both["b"].is_shown) == (failures, failures, True)
    assert not both["a"].is_shown
    one = null_tests(paths, [0.05, 0.0], QUESTION, success, np.arange(200), None)
    assert one == null_tests(paths[:1], [0.05], QUESTION, success, np.arange(200), None)
    assert one["a"].p_value > both["b"].p_value
    assert null_tests(paths, [0.0, 0.0], QUESTION, success, np.arange(200), None) == {}


def test_runs_that_are_stopped_anyway_are_left_out() -> None:
    lengths = np.array([2] * 80 + [30] * 10 + [60] * 4)
    success = np.array([1] * 80 + [0] * 10 + [1, 0, 0, 0])
    always_lost = lengths == 60
    tests = null_tests([cap_levels(lengths)], [0.05], QUESTION, success, np.arange(94), None, always_lost)
    result = tests["max_steps"]
    assert (result.stopped, result.failed) == (10, 10)


def test_outcomes_are_permuted_within_tasks_that_repeat() -> None:
    """Long tasks fail, and within a task the failures are as long as the successes: nothing is shown of lengths."""
    rng = np.random.default_rng(4)
    tasks = np.repeat(np.arange(60), 6)
    hard = tasks >= 40
    lengths = np.where(hard, 30, 5) + rng.integers(0, 5, 360)
    success = (rng.random(360) < np.where(hard, 0.15, 0.9)).astype(int)
    by_task = null_test_of(lengths, success, tasks)
    assert by_task.within == "task"
    assert by_task.p_value > 0.05
    pooled = null_test_of(lengths, success)
    assert pooled.within == "group"
    assert pooled.is_shown
    longer_failures = null_test_of(lengths + 4 * (success == 0), success, tasks)
    assert longer_failures.is_shown


def test_outcomes_are_permuted_within_lengths_for_loops() -> None:
    """Repeats that come with length alone are shown of all runs together, and not of runs of like length."""
    rng = np.random.default_rng(5)
    lengths = rng.permutation(np.arange(400)) // 10 + 1  # eight lengths in each of five classes
    success = (rng.random(400) < np.where(lengths > 32, 0.3, 0.9)).astype(int)
    repeats = np.maximum(1, lengths // 6)
    path = cap_levels(repeats, "doom_loop")
    question = replace(QUESTION, success_value=0.5)
    over_all = null_tests([path], [0.05], question, success, np.arange(400), None)["doom_loop"]
    of_length = null_tests([path], [0.05], question, success, np.arange(400), lengths)["doom_loop"]
    assert over_all.is_shown
    assert of_length.within == "length"
    assert of_length.p_value > over_all.p_value


@pytest.mark.parametrize("seed", first(3, range(10)))
@pytest.mark.parametrize("within_lengths", [False, True])
def test_order_of_runs_and_names_of_tasks_do_not_matter(seed: int, within_lengths: bool) -> None:
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(70), rng.integers(1, 4, 70))
    n = len(tasks)
    success = (rng.random(n) < 0.7).astype(int)
    lengths = rng.geometric(0.1, n) + np.where(success, 0, rng.geometric(0.1, n))
    here = null_test_of(lengths, success, tasks, within_lengths=within_lengths)
    order = rng.permutation(n)
    renamed = (tasks[order] * 7 + 3) % 97
    there = null_test_of(lengths[order], success[order], renamed, within_lengths=within_lengths)
    assert here == there


@pytest.mark.parametrize(
    ("tasks", "runs", "within_lengths", "dependence", "several"),
    first(2, [
        [80, 1, True, "tasks", False], [30, 3, False, "same_tasks", False], [80, 1, False, "tasks", False],
        [70, 3, False, "tasks", False], [70, 3, True, "tasks", False], [80, 1, False, "tasks", True],
    ]),
)  # fmt: skip
def test_p_values_of_exchangeable_outcomes_are_uniform_or_larger(
    tasks: int, runs: int, within_lengths: bool, dependence: Dependence, several: bool
) -> None:
    """Of 300 records, more than 25 with p of at most 5% have a chance of 0.7%, or less; likewise at 20%.

    `several`: there are three paths, and it is the least p-value of them: whichever passes is chosen.
    """
    question = replace(QUESTION, dependence=dependence)
    p_values = []
    for seed in range(300):
        rng = np.random.default_rng([seed, tasks, runs])
        clusters = np.repeat(np.arange(tasks), runs)
        lengths = rng.geometric(0.1, len(clusters))
        lengths += rng.geometric(0.1, tasks)[clusters]
        success = (rng.random(len(clusters)) < 0.75).astype(int)
        if dependence == "same_tasks":
            success = success & (rng.random(tasks) < 2)[clusters]
        if several:
            paths = [cap_levels(rng.permutation(lengths) if name else lengths, str(name)) for name in range(3)]
            tests = null_tests(paths, [0.05] * 3, question, success, clusters, None)
            p_values.append(min(test.p_value for test in tests.values()))
        else:
            p_values.append(
                null_test_of(lengths, success, clusters, within_lengths=within_lengths, question=question).p_value
            )
    for level in (0.05, 0.2):
        n_below = int((np.array(p_values) <= level).sum())
        assert stats.binom.sf(n_below - 1, 300, level) > 0.005
    assert min(p_values) < 0.1  # it is no test that never says anything
