"""The sentences of a result: they agree with the numbers, in plain English."""

from dataclasses import replace
from typing import Any

import pytest

from boolab.stats.intervals import Interval
from boolab.trials.estimates import Forecast
from boolab.trials.result import Effects, TrialEstimate, TrialResult
from tests.trials.test_trial import plan

BEFORE = plan().result


def after(**fields: Any) -> TrialResult:
    """A result after ten of 34 branches, with other numbers."""
    given: dict[str, Any] = {
        "n_runs": 40,
        "successes": 20,
        "n_open": 34,
        "n_branches": 10,
        "spent": 2.0,
        "simulated": False,
        "forecast": lambda width: Forecast(width, 17, 12),
        "gain": TrialEstimate(6.0, 2.0, 9.0),
        "per_success": None,
        "effects": Effects(0, 0, 0, 0),
        "bounds": Interval(-3.0, 30.0),
    }
    return replace(BEFORE, **{**given, **fields})


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (2, 9, "A step cap of 24 adds 2 to 9 successes (on record: 20 of 40 runs), at 95% confidence."),
        (4, 4, "A step cap of 24 adds 4 successes (on record: 20 of 40 runs)."),
        (-9, -2, "A step cap of 24 loses 2 to 9 successes (on record: 20 of 40 runs), at 95% confidence."),
        (
            -3,
            0,
            "A step cap of 24 adds no successes, and may lose up to 3 (on record: 20 of 40 runs), at 95% confidence.",
        ),
        (1, 1, "A step cap of 24 adds 1 success (on record: 20 of 40 runs)."),
        (-1, -1, "A step cap of 24 loses 1 success (on record: 20 of 40 runs)."),
        (0, 0, "A step cap of 24 leaves the number of successes as it is (on record: 20 of 40 runs)."),
        (-1, 5, "Not yet decided: a step cap of 24 changes the number of successes by -1 to +5 (on record: "),
        (0, 5, "Not yet decided: a step cap of 24 changes the number of successes by 0 to +5 (on record: "),
    ],
)
def test_trial_verdict_is_a_sentence_for_each_interval(low: int, high: int, words: str) -> None:
    assert after(gain=TrialEstimate((low + high) / 2, low, high)).sentences[0].startswith(words)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (TrialEstimate(3.0, 1.0, 8.0), "An additional success costs about 3 steps (1 to 8 steps)"),
        (TrialEstimate(3.0, 3.0, 3.0), "An additional success costs 3 steps"),
        (TrialEstimate(None, 1.0, 8.0), "An additional success costs 1 to 8 steps"),
        (TrialEstimate(-2.0, -4.0, 5.0), "An additional success costs at most 5 steps, and may cost nothing"),
        (
            TrialEstimate(-2.0, float("-inf"), float("inf")),
            "costs between nothing and any amount, because the gain may be 0",
        ),
        (TrialEstimate(3.0, 0.0, float("inf")), "costs between nothing and any amount, because the gain may be 0"),
        (
            TrialEstimate(3.0, 2.0, float("inf")),
            "costs at least 2 steps, without an upper bound, because the gain may be 0",
        ),
    ],
)
def test_the_price_of_a_success_has_its_interval(found: TrialEstimate, words: str) -> None:
    shown = after(per_success=found, extra_cost=None, recorded_per_success=7.0).sentences[1]
    assert words in shown
    assert shown.endswith("; on record a success costs 7 steps.")


def test_trial_has_no_price_if_the_change_saves_steps() -> None:
    shown = after(per_success=TrialEstimate(-2.0, -4.0, -1.0), extra_cost=None).sentences[1]
    assert shown == "Additional successes cost nothing: the change also saves steps."


def test_a_single_run_is_not_several() -> None:
    one = replace(BEFORE, n_open=1, forecast=lambda width: Forecast(width, None, None))
    assert "the outcome of 1 run is open" in one.sentences[0]
    assert one.sentences[-1].startswith("Even the only branch is not likely to narrow")


def test_what_no_branch_can_find_is_not_called_an_answer() -> None:
    assert after(n_open=0, bounds=Interval(-3.0, 5.0)).sentences[0] == (
        "The record does not answer this, and no branch can: a step cap of 24 changes the number of successes by -3 to "
        "+5 (on record: 20 of 40 runs)."
    )
    assert "loses 2 to 3 successes" in after(n_open=0, bounds=Interval(-3.0, -2.0)).sentences[0]


def test_trial_price_is_that_of_the_open_runs() -> None:
    found = after(per_success=TrialEstimate(3.0, 1.0, 8.0), extra_cost=None, other=Interval(-2.0, -1.0)).sentences[1]
    assert found.startswith("An additional success in the open runs costs about 3 steps")


def test_what_more_it_takes_has_its_price() -> None:
    assert "About 7 more branches, for about $1.40, are likely to narrow the interval to a width of 3 successes." in (
        after().sentences
    )
    one = after(forecast=lambda width: Forecast(width, 11, 9), spent=0.0)
    assert one.sentences[-1].startswith("About 1 more branch is likely")
    none = after(forecast=lambda width: Forecast(width, None, None), budget_stopped=True)
    assert none.sentences[-1].startswith("Even all 34 branches are not likely to narrow the interval to a width of 3")
    assert none.sentences[-1].endswith("successes. max_cost does not cover one more branch.")


def test_trial_names_the_threshold_share_of_failures() -> None:
    last = after(effects=Effects(failures=40, recovered=12, successes=10, lost=2)).sentences[-1]
    assert last.startswith(
        "Of 40 failures that were continued, 12 became successes (r = 0.30); of 10 successes, 2 were "
    )
    assert last.endswith(
        "So the change gains more than it loses if more than 40% of the runs that it reaches fail, which is "
        "d / (r + d); on record 80% of them failed."
    )


def test_trial_without_losses_names_no_share() -> None:
    last = after(effects=Effects(failures=11, recovered=5, successes=4, lost=0)).sentences[-1]
    assert "of 4 successes, none was lost" in last
    assert "lost nothing here" in last
    assert "d / (r + d)" not in last


def test_one_of_a_kind_is_one() -> None:
    last = after(effects=Effects(failures=1, recovered=1, successes=4, lost=1)).sentences[-1]
    assert last.startswith(
        "Of 1 failure that was continued, 1 became a success (r = 1.00); of 4 successes, 1 was lost ("
    )
