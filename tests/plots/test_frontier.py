"""The plot of a frontier: what is drawn is what was computed."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import boolab as bl
from boolab.errors import SettingError
from tests.plots.test_plots import UGLY, key, note, title
from tests.support.lengths import group_of_runs, random_group

RUNS = random_group(3)
RULES: Any = {bl.max_steps: range(1, 25), bl.doom_loop: [2, 3]}
FOUND = bl.stats.frontier(RUNS, RULES)
SEVERAL = bl.stats.frontier(
    [run for seed, name in enumerate("abcdefgh") for run in random_group(seed, prefix=name, model=name)],
    {"max_steps": range(1, 20)}, by="model",
)  # fmt: skip


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(7, 5), layout="constrained").subplots()


def line(ax: Axes, label: str) -> Any:
    return next(one for one in ax.lines if one.get_label() == label).get_xydata()


def test_frontier_line_is_the_front_and_band_is_of_the_result(ax: Axes) -> None:
    bl.plots.plot_frontier(FOUND, least=0, ax=ax)
    front = FOUND.front.sort_values("saved_steps")
    expected = [[0, 1], *front[["saved_share", "kept_share"]].astype(float).to_numpy().tolist()]
    assert line(ax, "front").tolist() == expected
    drawn = next(one for one in ax.lines if one.get_label() == "front")
    assert drawn.get_drawstyle() == "steps-pre"  # what is kept at a share saved holds up to there
    beaten = FOUND.frame[~FOUND.frame["on_front"]]
    assert len(line(ax, "beaten")) == len(beaten)
    band: Any = next(one for one in ax.collections if one.get_label() == "band").get_paths()[0].vertices
    assert np.isclose(band[:, 0].max(), FOUND.band["saved_share"].max())
    assert {*FOUND.band["kept_high"].round(9)} <= {*band[:, 1].round(9)}


def test_frontier_title_and_mark_show_the_best_that_keeps_enough(ax: Axes) -> None:
    bl.plots.plot_frontier(FOUND, keep=0.9, ax=ax)
    front = FOUND.front
    best = front[front["kept_share"] >= 0.9].sort_values("saved_steps").iloc[-1]
    saved = f"{best['saved_share']:.0%}"
    assert title(ax) == f"{best['rule']} saves {saved} of steps and keeps {best['kept_lower']} of 25 successes"
    assert line(ax, "best").tolist() == [[best["saved_share"], best["kept_share"]]]
    names = [text.get_text() for text in ax.texts if text.get_gid() == "setting"]
    assert best["rule"] in names
    assert {*names} <= {*front["rule"]}
    assert "95% of the fronts of resampled tasks" in note(ax)
    assert "Settings that keep less than 50% are not shown." in note(ax)
    assert f"beaten by another {(~FOUND.frame['on_front']).sum()}" in key(ax)


def test_names_of_settings_do_not_overlap(ax: Axes) -> None:
    bl.plots.plot_frontier(FOUND, least=0, ax=ax)
    assert ax.figure is not None
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts if text.get_gid() == "setting"]
    assert len(boxes) > 3
    assert not any(one.overlaps(other) for place, one in enumerate(boxes) for other in boxes[:place])


def test_several_groups_have_a_panel_each_to_one_scale() -> None:
    first = bl.plots.plot_frontier(SEVERAL)
    assert first.figure is not None
    panels = [panel for panel in first.figure.axes if panel.axison]
    assert [panel.get_title(loc="left").split(" ")[0] for panel in panels] == [*"abcdefgh"]
    assert len({(panel.get_xlim(), panel.get_ylim()) for panel in panels}) == 1
    for name, panel in zip("abcdefgh", panels, strict=True):
        front = SEVERAL.front[SEVERAL.front["model"] == name].sort_values("saved_steps")
        assert line(panel, "front")[1:, 1].tolist() == front["kept_share"].tolist()


def test_frontier_of_a_frame_has_no_band_and_escapes_names(ax: Axes) -> None:
    frame = FOUND.frame.assign(rule=UGLY)
    bl.plots.plot_frontier(frame, ax=ax)
    assert not ax.collections
    assert ax.figure is not None
    ax.figure.canvas.draw()
    assert UGLY in title(ax)


def test_frontier_says_if_nothing_keeps_enough_or_succeeds(ax: Axes) -> None:
    bl.plots.plot_frontier(bl.stats.frontier(RUNS, [bl.max_steps(2), bl.max_steps(3)]), ax=ax)
    assert title(ax) == "None of 2 settings keeps 95% of 25 successes"
    none = bl.plots.plot_frontier(bl.stats.frontier(group_of_runs([3], [False]), RULES), ax=Figure().subplots())
    assert [text.get_text() for text in none.texts] == ["no successes, so no front"]
    empty = bl.plots.plot_frontier(FOUND.frame.iloc[:0], ax=Figure().subplots())
    assert [text.get_text() for text in empty.texts] == ["no runs"]


def test_what_cannot_be_drawn_is_named(ax: Axes) -> None:
    with pytest.raises(SettingError, match="8 groups by model .*leave ax out|8 groups by model"):
        bl.plots.plot_frontier(SEVERAL, ax=ax)
    with pytest.raises(SettingError, match="no column 'on_front': expected one like frontier makes"):
        bl.plots.plot_frontier(pd.DataFrame(FOUND.frame.drop(columns="on_front")), ax=ax)
    with pytest.raises(SettingError, match="least=1: expected a number between 0 and 1"):
        bl.plots.plot_frontier(FOUND, least=1, ax=ax)


BESIDE = {
    "learned": pd.DataFrame({"saved_share": [0.4, 0.1], "kept_share": [0.6, 0.9]}),
    "careful": pd.DataFrame({"saved_share": [0.05], "kept_share": [0.99]}),
}


def test_frontier_draws_other_rules_and_reads_their_savings(ax: Axes) -> None:
    bl.plots.plot_frontier(FOUND, keep=0.8, beside=BESIDE, least=0, ax=ax)
    lines = [one.get_xydata() for one in ax.lines if one.get_label() == "beside"]
    assert [np.asarray(one).tolist() for one in lines] == [[[0, 1], [0.1, 0.9], [0.4, 0.6]], [[0, 1], [0.05, 0.99]]]
    assert [text.get_text() for text in ax.texts if text.get_gid() == "line label"] == ["learned", "careful"]
    assert "20%" in [text.get_text() for text in ax.texts if text.get_gid() == "saved"]
    assert "learned" in title(ax).removeprefix("At 80% of successes kept, ")
    assert "Other lines (learned, careful): straight between the points that are given." in note(ax)


def test_lines_that_stay_above_the_share_leave_the_title_alone(ax: Axes) -> None:
    bl.plots.plot_frontier(FOUND, keep=0.9, beside={"careful": BESIDE["careful"]}, ax=ax)
    assert " saves " in title(ax)
    assert not title(ax).startswith("At ")


def test_lines_beside_need_their_columns_and_a_single_group() -> None:
    with pytest.raises(SettingError, match="saved_share"):
        bl.plots.plot_frontier(FOUND, beside={"odd": pd.DataFrame({"kept_share": [1.0]})})
    with pytest.raises(SettingError, match="3 at most"):
        bl.plots.plot_frontier(FOUND, beside=dict.fromkeys("abcd", BESIDE["learned"]))
    with pytest.raises(SettingError, match="group"):
        bl.plots.plot_frontier(SEVERAL, beside=BESIDE)
