"""The plot of a cross-validation: held-out tasks beside the tasks that the rule was chosen by."""

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import boolab as bl
from boolab.errors import SettingError
from tests.plots.test_plots import UGLY, ends, note, rows, title
from tests.support.lengths import group_of_runs, random_group

RUNS = [run for seed, name in enumerate("abc", 5) for run in random_group(seed, prefix=name, model=name)]
FOUND = bl.stats.crossval(RUNS, bl.stats.smallest_cap(0.9), by="model")
ONE = bl.stats.crossval(RUNS, bl.stats.smallest_cap(0.9), 3)


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(9, 5), layout="constrained").subplots()


def points(ax: Axes, label: str) -> Any:
    return np.concatenate([np.asarray(one.get_xdata(), dtype=float) for one in ax.lines if one.get_label() == label])


def test_each_group_is_a_row_with_its_figures(ax: Axes) -> None:
    bl.plots.plot_crossval(FOUND, ax=ax)
    held_out, same = (FOUND.frame[FOUND.frame["part"] == part] for part in ("held out", "same tasks"))
    assert rows(ax) == [f"{name} ({n})" for name, n in zip("abc", held_out["successes"], strict=True)]
    assert points(ax, "held out").tolist() == held_out["kept_share"].tolist()
    assert points(ax, "same tasks").tolist() == same["kept_share"].tolist()
    assert points(ax, "keep").tolist() == [0.9, 0.9]
    expected = (
        f"Chosen to keep 90%, a rule does so in {held_out['holds'].sum()} of 3 groups on held-out tasks, and in 3"
    )
    assert title(ax).startswith(expected)
    assert [text.split("(")[0] for text in ends(ax)] == [f"saves {share:.0%} " for share in held_out["saved_share"]]
    assert "5 folds by task. Lines: 95% intervals over tasks." in note(ax)


def test_of_one_group_the_folds_are_drawn_too(ax: Axes) -> None:
    bl.plots.plot_crossval(ONE, ax=ax)
    assert [row.rpartition(" ")[0] for row in rows(ax)] == ["fold 1", "fold 2", "fold 3", "held out"]
    assert sorted(points(ax, "held out").tolist()) == sorted(ONE.frame["kept_share"].iloc[:-1].tolist())
    share = ONE.frame["kept_share"].iloc[-2]
    assert f"it keeps {share:.0%}"[:10] in title(ax)


def test_without_a_promise_there_is_no_line(ax: Axes) -> None:
    bl.plots.plot_crossval(bl.stats.crossval(RUNS, bl.stats.percentile_cap(), by="model"), ax=ax)
    assert not any(line.get_label() == "keep" for line in ax.lines)
    assert "groups keep" in title(ax)


def test_crossval_plot_says_if_no_success_or_too_few_tasks(ax: Axes) -> None:
    failed = bl.stats.crossval(group_of_runs([3, 4], [False, False]), bl.stats.smallest_cap(), 2)
    bl.plots.plot_crossval(failed, ax=ax)
    assert title(ax) == "There is no success to keep"
    alone = bl.stats.crossval(group_of_runs([3], [True]), bl.stats.smallest_cap())
    drawn = bl.plots.plot_crossval(alone, ax=Figure().subplots())
    assert [text.get_text() for text in drawn.texts] == ["too few tasks to hold some out"]
    assert [text.get_text() for text in bl.plots.plot_crossval(FOUND.frame.iloc[:0], ax=Figure().subplots()).texts] == [
        "no groups"
    ]


def test_names_are_no_markup_and_a_missing_column_is_named(ax: Axes) -> None:
    bl.plots.plot_crossval(FOUND.frame.replace({"a": UGLY}), ax=ax)
    assert ax.figure is not None
    ax.figure.canvas.draw()
    assert rows(ax)[0].startswith(UGLY)
    with pytest.raises(SettingError, match="no column 'part': expected one like crossval makes"):
        bl.plots.plot_crossval(FOUND.frame.drop(columns="part"), ax=ax)
