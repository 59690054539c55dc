"""The interval of a trial beside one computed by hand: each candidate of the total by itself, without arrays."""

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.types import Stop
from boolab.trials.estimates import OpenTask
from boolab.trials.summary import summary_of
from boolab.trials.trial import Trial
from tests.support.cases import cases
from tests.support.helpers import distinct, play
from tests.support.trial_cases import agent

CAP = 4
STOPPED = play(distinct(CAP + 3), max_steps=CAP)
SHARES = [0.05 + 0.1 * n for n in range(10)]


class Case(NamedTuple):
    """A run of a population: its task, its labels on record and in its branch, and whether the branch broke off."""

    task: int
    before: bool | None
    after: bool | None
    broken: bool


CASES = st.builds(
    Case,
    st.integers(0, 6),
    st.sampled_from([False, False, True, None]),
    st.sampled_from([False, True, True, None]),
    st.sampled_from([False, False, False, True]),
)


def planned(population: list[Case], seed: int, confidence: float) -> Trial:
    runs = [
        replace(STOPPED, run_id=f"{place:02}", task=f"Task {case.task}", success=case.before)
        for place, case in enumerate(population)
    ]
    return bl.trial(runs, {"max_steps": 9}, seed=seed, confidence=confidence, agent=agent(CAP))


def branches_of(population: list[Case], tasks: list[OpenTask]) -> dict[str, bl.Run]:
    """The branches of these tasks."""
    cases = [(one.run, population[int(one.run.run_id)]) for task in tasks for one in task.openings]
    return {
        run.run_id: replace(
            run, run_id=f"branch {run.run_id}", success=case.after, stop=Stop("error" if case.broken else "finished", 6)
        )
        for run, case in cases
    }


def ends_of(case: Case, *, seen: bool, labelled: bool) -> tuple[int, int]:
    """The gain of a run at least and at most."""
    if not labelled:  # a run that the cap stopped is no success, and a branch that finished is one
        case = case._replace(before=False, after=True)
    if seen and None not in (case.before, case.after) and not case.broken:
        gain = int(bool(case.after)) - int(bool(case.before))
        return gain, gain
    return {None: (-1, 1), True: (-1, 0), False: (0, 1)}[case.before]


def least_total(values: list[int], rooms: list[int], n: int, alpha: float) -> int:
    """The least total that no bet on larger values has excluded after n of them; each lies between 0 and its room."""

    def is_excluded(total: int) -> bool:
        capital = [1.0] * len(SHARES)
        known = 0
        for place, value in enumerate(values[:n]):
            mean = (total - known) / (len(rooms) - place)
            known += value
            if known > total:
                return True
            if mean > 0:
                capital = [one * (1 + share * (value / mean - 1)) for one, share in zip(capital, SHARES, strict=True)]
            if sum(capital) / len(capital) >= 1 / alpha:
                return True
        return False

    left = [total for total in range(sum(rooms) + 1) if not is_excluded(total)]
    possible = sum(values[:n]) + sum(rooms[n:])
    return min(min(left) if left else least_total(values, rooms, n - 1, alpha), possible)


def interval(population: list[Case], tasks: list[OpenTask], n: int, confidence: float) -> tuple[int, int]:
    """The interval of the gain after n tasks."""
    labelled = any(case.before is not None for case in population)

    def total(task: OpenTask, *, seen: bool) -> tuple[int, int]:
        ends = [ends_of(population[int(one.run.run_id)], seen=seen, labelled=labelled) for one in task.openings]
        return sum(low for low, _ in ends), sum(high for _, high in ends)

    bounds, found = ([total(task, seen=seen) for task in tasks] for seen in (False, True))
    rooms = [most - least for least, most in bounds]
    over = [low - least for (low, _), (least, _) in zip(found, bounds, strict=True)]
    under = [most - high for (_, high), (_, most) in zip(found, bounds, strict=True)]
    alpha = (1 - confidence) / 2
    low = sum(least for least, _ in bounds) + least_total(over, rooms, n, alpha)
    high = sum(most for _, most in bounds) - least_total(under, rooms, n, alpha)
    return low, high


@cases(40)
@given(st.lists(CASES, min_size=1, max_size=14), st.integers(0, 9), st.sampled_from([0.5, 0.8, 0.95]))
def test_interval_after_each_task_matches_the_betting_bound(
    population: list[Case], seed: int, confidence: float
) -> None:
    trial = planned(population, seed, confidence)
    tasks = [*trial.design.tasks]
    assert sum(len(task.openings) for task in tasks) == len(population)
    for n in range(len(tasks) + 1):
        result = summary_of(trial.design, branches_of(population, tasks[:n]), None, simulated=False)
        low, high = interval(population, tasks, n, confidence)
        assert (result.gain.low, result.gain.high) == (low, max(low, high))
        assert len(result.looks) == n + 1
        assert [result.looks[name].iloc[-1] for name in ("gain_low", "gain_high")] == [low, max(low, high)]
        assert result.gain.value is None or low <= result.gain.value <= max(low, high)
    assert result.claim in " ".join(str(result).split())


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_a_population_without_unknown_outcomes_ends_at_its_gain(confidence: float) -> None:
    population = [Case(place % 5, place % 3 == 0, place % 2 == 0, broken=False) for place in range(12)]
    trial = planned(population, 3, confidence)
    result = summary_of(trial.design, branches_of(population, [*trial.design.tasks]), None, simulated=False)
    gain = sum(bool(case.after) - bool(case.before) for case in population)
    assert [*result.gain] == [gain, gain, gain]
