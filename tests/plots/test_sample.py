"""The line below the title names the data set and how many runs there are, also of tables of statistics."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import boolab as bl
from boolab.frames.data_set import set_of
from tests.support.caplab_cases import Told, runs_of

RUNS: Final = [
    replace(run, settings={"set": "mine"})
    for run in runs_of(*(Told(("A B " * (1 + n % 7) + "-",), success=n % 3 > 0, task=f"t{n}") for n in range(40)))
]
GRID: Final = {"max_steps": [3, 6, None], "doom_loop": [2, None]}
DRAWN: Final[dict[str, Callable[[list[bl.Run], Axes], Axes]]] = {
    "caps": lambda runs, ax: bl.plots.plot_caps(table(runs, {"max_steps": [3, 6, 9]}), ax=ax),
    "heatmap": lambda runs, ax: bl.plots.plot_heatmap(table(runs, GRID), ax=ax),
    "survival": lambda runs, ax: bl.plots.plot_survival(bl.survival(runs), ax=ax),
    "incidence": lambda runs, ax: bl.plots.plot_survival(bl.survival(runs).frame, incidence=True, ax=ax),
    "frontier": lambda runs, ax: bl.plots.plot_frontier(bl.stats.frontier(runs, {"max_steps": [3, 6, None]}), ax=ax),
    "scorecard": lambda runs, ax: bl.plots.plot_scorecard(bl.scorecard(runs, [bl.max_steps(6)]), ax=ax),
    "precision_recall": lambda runs, ax: bl.plots.plot_precision_recall(
        bl.stats.precision_recall_df(runs, [bl.max_steps(6)]), ax=ax
    ),
    "fit": lambda runs, ax: bl.plots.plot_fit(bl.fit_profile(runs, simulated=40), ax=ax),
    "steps": lambda runs, ax: bl.plots.plot_steps(runs, ax=ax),
}


def table(runs: list[bl.Run], grid: Any) -> Any:
    """What settings keep and save."""
    return bl.counterfactual(runs, grid=grid, aggregate=True)


def subtitle(plot: str, runs: list[bl.Run]) -> str:
    """The line below the title."""
    ax = DRAWN[plot](runs, Figure(figsize=(9, 5)).subplots())
    (text,) = [one.get_text() for one in ax.texts if one.get_gid() == "subtitle"]
    return str(text)


@pytest.mark.parametrize("plot", DRAWN)
def test_plot_names_the_data_set_before_the_number_of_runs(plot: str) -> None:
    assert ": mine, 40 " in subtitle(plot, RUNS)


@pytest.mark.parametrize("plot", ["caps", "survival", "scorecard"])
def test_a_plot_of_several_data_sets_names_none(plot: str) -> None:
    several = [RUNS[0], *(replace(run, settings={"set": "yours"}) for run in RUNS[1:])]
    assert ": 40 runs" in subtitle(plot, several)


def test_runs_that_name_no_data_set_are_of_none() -> None:
    assert set_of([RUNS[0], replace(RUNS[1], settings={})]) == set_of([]) == set_of(iter(RUNS)) == ""
    assert set_of(RUNS[0]) == "mine"
