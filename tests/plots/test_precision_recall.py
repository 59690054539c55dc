"""The plot of precision against recall: what is drawn is what was computed."""

import warnings
from typing import Any

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import boolab as bl
from boolab.errors import SettingError
from boolab.plots.precision_recall import _threshold
from tests.plots.test_plots import UGLY, draw, key, note, title
from tests.stats.test_scorecard_trade import clustered

FOUND = bl.stats.precision_recall_df(clustered(3, pull=0.6), [bl.doom_loop(3), bl.max_steps(3)])


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(7, 5), layout="constrained").subplots()


def line(ax: Axes, label: str) -> Any:
    return next(one for one in ax.lines if one.get_label() == label).get_xydata()


def grouped(n: int) -> pd.DataFrame:
    parts = [FOUND.assign(model=f"model {i}") for i in range(n)]
    frame = pd.concat(parts, ignore_index=True)
    return frame[["model", *FOUND.columns]]


def test_precision_recall_draws_points_and_the_base_rate(ax: Axes) -> None:
    assert bl.plots.plot_precision_recall(FOUND, ax=ax) is ax
    draw(ax)
    for name, rows in FOUND[FOUND["alarms"] > 0].groupby("detector"):
        assert line(ax, str(name)).tolist() == rows[["recall", "precision"]].astype(float).to_numpy().tolist()
    base = FOUND["base_rate"].iloc[0]
    assert line(ax, "base rate")[:, 1].tolist() == [base, base]
    assert f"base rate {base:.0%}" in key(ax)[-1]
    texts = [text.get_text() for text in ax.texts if text.get_gid() == "threshold"]
    assert {*texts} <= {f"{n:,.0f}" for n in FOUND["threshold"]}
    assert "95% intervals of precision" in note(ax)


def test_precision_recall_marks_the_best_separating_threshold(ax: Axes) -> None:
    bl.plots.plot_precision_recall(FOUND, ax=ax)
    apart = (FOUND["recall"] - FOUND["false_alarm_rate"]).astype(float)
    best = FOUND.iloc[int(apart.argmax())]
    assert line(ax, "best").tolist() == [[best["recall"], best["precision"]]]
    assert title(ax).startswith(f"{best['detector']} at {best['threshold']:g} separates best: it finds")
    bl.plots.plot_precision_recall(FOUND.assign(lift_low=0.9), ax=(other := Figure().subplots()))
    assert title(other).startswith("No detector is shown to be right more often than random alarms")


@pytest.mark.slow
def test_twenty_groups_have_a_panel_each_of_the_same_scale() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = bl.plots.plot_precision_recall(grouped(20))
        draw(first)
    panels = [panel for panel in first.get_figure().axes if panel.axison]  # type: ignore[union-attr] # it is in one
    assert [panel.get_title(loc="left") for panel in panels] == [f"model {i}" for i in range(20)]
    assert len({panel.get_xlim() for panel in panels}) == 1


def test_detector_without_alarms_in_a_group_keeps_the_layout() -> None:
    frame = grouped(12)
    silent = (frame["model"] == "model 3") & (frame["detector"] == "steps")
    frame.loc[silent, ["alarms", "true_alarms"]] = 0
    frame.loc[silent, ["precision", "precision_low", "precision_high"]] = pd.NA
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(bl.plots.plot_precision_recall(frame))


def test_ugly_names_and_no_points_are_drawn(ax: Axes) -> None:
    bl.plots.plot_precision_recall(FOUND.assign(detector=UGLY), ax=ax)
    draw(ax)
    assert title(ax).startswith(UGLY)
    none = FOUND.assign(alarms=0)
    other = bl.plots.plot_precision_recall(none, ax=Figure(figsize=(3, 2)).subplots())
    assert title(other) == "No threshold raises an alarm"
    empty = bl.plots.plot_precision_recall(FOUND[:0], ax=Figure().subplots())
    assert [text.get_text() for text in empty.texts] == ["no detectors"]


def test_what_cannot_be_drawn_is_refused(ax: Axes) -> None:
    many = pd.concat([FOUND.assign(detector=f"d{i}") for i in range(7)])
    with pytest.raises(
        SettingError, match=r"7 detectors: choose at most 6, as in table\[table\['detector'\] == 'd0'\]"
    ):
        bl.plots.plot_precision_recall(many, ax=ax)
    with pytest.raises(SettingError, match="the frame has 2 groups by model"):
        bl.plots.plot_precision_recall(grouped(2), ax=ax)
    with pytest.raises(SettingError, match="no column 'lift_low': expected one like precision_recall_df makes"):
        bl.plots.plot_precision_recall(FOUND.drop(columns="lift_low"), ax=ax)


def test_large_threshold_has_commas() -> None:
    assert _threshold(12_000.0) == "12,000"
    assert _threshold(0.5) == "0.5"
