"""plot_length_ratio: what a cap saves where failures are longer than successes."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.study.length_ratio_plot import plot_length_ratio
from benchmarks.study.length_ratios import length_ratio
from boolab.errors import SettingError
from tests.plots.test_plots import RUNS, draw, note, title

FRAME = pd.DataFrame({
    "set": [*"abcdef"], "rule": "max_steps(9)", "length_ratio": [1.1, 1.4, 1.9, 4.0, 6.0, None], "n_runs": [50] * 6,
    "saved_share": [0.01, 0.04, 0.03, 0.3, 0.4, 0.2], "saved_low": 0.0, "saved_high": 0.5, "keep": 0.95,
    "confidence": 0.95,
})  # fmt: skip


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(9, 4), layout="constrained").subplots()


def texts(ax: Axes, gid: str) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_gid() == gid]


def names(ax: Axes) -> list[str]:
    return [artist.get_text() for artist in ax.texts if artist.get_gid() == "point label"]


def test_each_group_is_a_point_with_its_name(ax: Axes) -> None:
    plot_length_ratio(FRAME, ax=ax)
    [points] = [line for line in ax.lines if line.get_label() == "groups"]
    assert np.asarray(points.get_xdata()).tolist() == [1.1, 1.4, 1.9, 4.0, 6.0]
    assert names(ax) == ["a", "b", "c", "d", "e"]
    assert texts(ax, "close") == ["below 2\N{MULTIPLICATION SIGN}: 4.0% at most"]
    assert texts(ax, "subtitle")[0].startswith("Steps saved by the smallest cap that keeps 95% of successes: 5 groups")
    assert note(ax) == (
        "5 groups of 50 runs. "
        "Rank correlation (Spearman) 0.90. Line: least squares, to guide the eye. Thin lines: 95% intervals of what "
        "this cap saves. Counted on the runs that the cap was chosen by. 1 group without both successes and failures, "
        "not shown."
    )


@pytest.mark.parametrize(
    ("saved", "finding"),
    [
        ([0.01, 0.04, 0.03, 0.3, 0.4], "The longer failures are than successes, the more a cap saves"),
        ([0.4, 0.3, 0.03, 0.04, 0.01], "The longer failures are than successes, the less a cap saves"),
        ([0.4, 0.1, 0.3, 0.2, 0.4], "What a cap saves hardly depends on how much longer failures are than successes"),
    ],
)
def test_the_title_goes_by_the_rank_correlation(saved: list[float], finding: str, ax: Axes) -> None:
    plot_length_ratio(FRAME.head(5).assign(saved_share=saved), ax=ax)
    assert title(ax) == finding


def test_few_groups_have_no_line(ax: Axes) -> None:
    plot_length_ratio(FRAME.iloc[[0, 3]], ax=ax)
    assert "fit" not in [line.get_label() for line in ax.lines]
    assert title(ax) == "A cap saves 1.0% where the ratio is 1.1, and 30% where it is 4.0"


def test_it_draws_what_length_ratio_gives(ax: Axes) -> None:
    plot_length_ratio(length_ratio(RUNS), ax=ax)
    assert ax.lines


def test_empty_plot_has_no_lines_and_too_many_groups_are_refused(ax: Axes) -> None:
    plot_length_ratio(FRAME.tail(1), ax=ax)
    assert not ax.lines
    many: Any = pd.concat([FRAME.head(1).assign(set=str(n)) for n in range(70)])
    with pytest.raises(SettingError, match="60"):
        plot_length_ratio(many, ax=ax)


def test_labels_without_room_are_omitted_instead_of_overlapping(ax: Axes) -> None:
    plot_length_ratio(pd.concat([FRAME.head(1).assign(set=f"a rather long name {n}") for n in range(20)]), ax=ax)
    draw(ax)
    drawn: list[Any] = [text for text in ax.texts if text.get_gid() == "point label" and text.fits]  # type: ignore[attr-defined]
    boxes = [text.get_window_extent() for text in drawn]
    assert 1 <= len(boxes) < 20
    assert not any(one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[:place])
