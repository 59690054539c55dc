"""plot_lift: what an alarm adds to the base rate."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import boolab as bl
from benchmarks.study.lift_plot import plot_lift
from boolab.errors import SettingError
from tests.plots.test_plots import RUNS, ends, note, rows, title

FRAME = pd.DataFrame({
    "set": ["a", "b", "c", "d"], "rule": "r(3)", "n_runs": [50, 60, 70, 1200], "alarms": [12, 4, 0, 1000],
    "true_alarms": [11, 2, 0, 996], "precision": [11 / 12, 0.5, None, 0.996], "precision_low": [0.7, 0.1, None, 0.98],
    "precision_high": [0.99, 0.9, None, 1], "base_rate": [0.4, 0.529, 0.1, 0.9], "lift_low": [1.7, 0.3, None, 1.05],
    "positive_is": "failed", "confidence": 0.95,
})  # fmt: skip


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(9, 4), layout="constrained").subplots()


def test_rows_are_ordered_by_difference_and_round_towards_zero(ax: Axes) -> None:
    plot_lift(FRAME, ax=ax)
    assert rows(ax) == ["a", "d", "b"]
    assert ends(ax) == ["+51 points", "11 of 12", "+9 points", "996 of 1,000", "-2 points", "2 of 4"]


def test_only_what_is_shown_to_exceed_the_base_rate_is_filled(ax: Axes) -> None:
    plot_lift(FRAME, ax=ax)
    points: list[Any] = [line for line in ax.lines if line.get_label() == "runs with an alarm"]
    assert [line.get_markerfacecolor() == line.get_markeredgecolor() for line in points] == [True, True, False]
    assert title(ax) == "Alarms of r(3) are shown to exceed the base rate in 2 of 3 groups"
    assert note(ax) == (
        "3 groups of 50-1,200 runs. Bands: 95% intervals of precision. Hollow and grey: not shown to exceed the base "
        "rate. 1 group without an alarm, not shown."
    )


def test_a_rule_without_groups_is_one_row(ax: Axes) -> None:
    plot_lift(FRAME.iloc[[1]].drop(columns="set"), ax=ax)
    assert rows(ax) == ["all runs"]
    assert title(ax) == "r(3) is right in 2 of 4 alarms, which is not shown to exceed the base rate"


def test_it_draws_what_a_scorecard_gives(ax: Axes) -> None:
    labelled = [replace(run, success=run.stop_reason == "finished") for run in RUNS]
    plot_lift(bl.scorecard(labelled, bl.max_steps(4)), ax=ax)
    assert title(ax)


def test_several_rules_are_refused_and_no_alarms_are_no_picture(ax: Axes) -> None:
    with pytest.raises(SettingError, match="2 rules: choose one"):
        plot_lift(FRAME.assign(rule=["x", "y", "x", "y"]), ax=ax)
    plot_lift(FRAME[FRAME["alarms"] == 0], ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no alarms"]
