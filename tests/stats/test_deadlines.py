"""Deadlines, and the margins that recorded steps need."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import Usage
from boolab.errors import SettingError
from tests.support.billed_runs import billed_run, billed_step
from tests.support.cases import cases


def lasting(*durations: int | None) -> Run:
    """A run whose steps take so many milliseconds."""
    return billed_run(*(billed_step(n, Usage(), duration_ms=ms) for n, ms in enumerate(durations, 1)))


def script(*durations: int) -> list[Any]:
    steps = [{"tool_calls": [{"name": f"look_{n}"}], "latency_ms": ms} for n, ms in enumerate(durations)]
    return [*steps, "Done."]


@cases(60)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=9).filter(any), st.sampled_from([0.01, 0.1, 0.5]))
def test_the_margin_is_the_least_with_so_few_late_moments(durations: list[int], share: float) -> None:
    """Each millisecond of the recorded steps is a moment; a step is late if it takes longer than the margin from it."""
    late = {
        margin: sum(ms - at > margin for ms in durations for at in range(ms)) / sum(durations) for margin in range(301)
    }
    least = next(margin for margin in late if late[margin] <= share)
    frame = bl.deadline_margins(lasting(*durations), shares=[share], margins=[0.05])
    assert frame.set_index("margin_s")["late_share"].to_dict() == pytest.approx(
        {least / 1000: late[least], 0.05: late[50]}
    )


@cases(40)
@given(st.lists(st.integers(1, 3000), min_size=1, max_size=8), st.integers(1, 9000), st.integers(0, 4000))
def test_a_live_run_stops_where_the_recording_predicts(durations: list[int], total: int, margin: int) -> None:
    if margin >= total:
        with pytest.raises(SettingError, match="leaves no time for a step"):
            bl.deadline(total / 1000, margin=margin / 1000)
        return
    rule = bl.deadline(total / 1000, margin=margin / 1000)
    recorded = bl.run_sync(None, "go", model=bl.ScriptedModel(script(*durations)), stop=bl.max_steps(99))
    live = bl.run_sync(None, "go", model=bl.ScriptedModel(script(*durations)), stop=rule)
    row = bl.counterfactual(recorded, rules=[rule]).iloc[0]
    assert (live.stop_reason, live.stop_step) == (row["stop_reason"], row["stop_step"])
    if live.stop_reason == "time_budget":
        assert sum(durations[: live.stop_step]) >= total - margin


def test_a_stop_before_the_deadline_asks_for_the_wrap_up() -> None:
    model = bl.ScriptedModel(script(4000, 4000, 4000), summary="Two of three are done.")
    run = bl.run_sync(None, "go", model=model, stop=bl.deadline(10, margin=3))
    assert (run.stop.rule, run.stop_step) == ("deadline(10, margin=3)", 2)
    assert run.wrap_up is not None
    assert run.wrap_up.text == "Two of three are done."


def test_the_margin_of_recorded_runs_is_in_the_rule() -> None:
    runs = [lasting(*[100] * 99, 9_000), lasting(200, None)]
    margins = bl.deadline_margins(runs, shares=[0.01])
    assert margins.iloc[0][["n_steps", "n_unknown", "n_longer", "longest_s"]].tolist() == [101, 1, 1, 9.0]
    rule = bl.deadline(600, margin="auto", runs=runs)
    assert str(rule) == f"deadline(600, margin={margins['margin_s'].iloc[0]:g})"


def test_a_deadline_may_be_a_time_of_day() -> None:
    rule = bl.deadline(at=datetime.now(UTC) + timedelta(hours=1), margin=60)
    (leaf,) = rule.leaves()
    assert 3_530_000 < leaf.threshold <= 3_540_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 5}, "expected either seconds"),
        ({"seconds": 9, "at": datetime.now(UTC), "margin": 5}, "expected either seconds"),
        ({"at": datetime(2026, 1, 1), "margin": 5}, "expected a datetime with a time zone"),  # noqa: DTZ001
        ({"at": datetime(2020, 1, 1, tzinfo=UTC), "margin": 5}, "expected a number >= 0"),
        ({"seconds": 60, "margin": "auto"}, "margin='auto' needs runs="),
        ({"seconds": 60, "margin": 5, "runs": []}, "margin='auto' needs runs="),
        ({"seconds": 60, "margin": "auto", "runs": [lasting(None)]}, "of 1 step none has one on record"),
        ({"seconds": 60, "margin": 60}, "deadline(60, margin=60): the margin leaves no time"),
        ({"seconds": 60, "margin": -1}, "expected a number >= 0"),
    ],
)
def test_a_deadline_without_time_or_margin_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=re.escape(message)):
        bl.deadline(**options)
