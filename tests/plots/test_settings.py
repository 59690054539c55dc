"""Plots of aggregates: what a setting keeps and saves is said with the table's own numbers."""

import itertools
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

import boolab as bl
from boolab.display.colours import TOOL_COLOURS
from boolab.display.numbers import whole_percent
from boolab.errors import SettingError
from boolab.plots import plot_caps, plot_heatmap, plot_stop_reasons, plot_survival
from boolab.plots._labels import _Label
from boolab.plots.palette import GROUP_LOOKS, KEPT, SAVED, STOP_LOOKS
from tests.plots.test_plots import UGLY, draw, note, save, title
from tests.support.cases import first

NA = pd.NA
KEPT_AT = {5: (3, 10), 10: (12, 16), 15: (17, 18), 20: (21, 21), 30: (21, 21), None: (21, 21)}
SAVED_AT = {5: 392, 10: 198, 15: 81, 20: 36, 30: 2, None: 0}


def tally(**axes: Any) -> pd.DataFrame:
    """An aggregate like that of tau-bench, where the first axis decides and the others only save."""
    rows = []
    for values in itertools.product(*axes.values()):
        lower, upper = KEPT_AT[values[0]]
        saved = SAVED_AT[values[0]] + sum(1 for value in values[1:] if value is not None)
        rows.append(
            {
                **dict(zip(axes, values, strict=True)),
                "n_runs": 50,
                "n_truncated": 50 - lower,
                "n_censored": 0,
                "success_by": "label",
                "successes": 21,
                "kept_lower": lower,
                "kept_upper": upper,
                "steps": 642 - saved,
                "tool_calls": 200,
                "tokens": NA,
                "cost_usd": 1.25,
                "saved_steps": saved,
                "saved_tool_calls": 82,
                "saved_tokens": NA,
                "saved_cost_usd": 0.75,
            }
        )
    frame = pd.DataFrame(rows)
    floats = ("cost_usd", "saved_cost_usd", "max_cost", "max_time")
    kinds = {name: "Float64" if name in floats else "Int64" for name in frame if name != "success_by"}
    return frame.astype({**kinds, "success_by": "string"})


CAPS = tally(max_steps=[5, 10, 15, 20, 30, None])
PAIRS = tally(max_steps=[5, 10, 15, 20, None], tool_budget=[3, 8, None])
THREE = tally(max_steps=[5, 20, None], tool_budget=[3, 8, None], doom_loop=[2, 3])


def grouped(*names: str) -> pd.DataFrame:
    parts = [CAPS.assign(agent=name)[["agent", *CAPS.columns]] for name in names]
    return pd.concat(parts)


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(8, 5), layout="constrained").subplots()


def line(ax: Axes, name: str) -> dict[float, float]:
    """What a stair line holds, by where each stair begins."""
    (found,) = [item for item in ax.lines if item.get_label() == name]
    x, y = (np.asarray(part)[::2].tolist() for part in found.get_data())
    return dict(zip(x, y, strict=True))


def labels(ax: Axes, gid: str = "line label") -> list[str]:
    return [text.get_text() for text in ax.get_children() if isinstance(text, Text) and text.get_gid() == gid]


def cells(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_gid() == "cell"]


# --- What both hold to ------------------------------------------------------------------------------------------------

BOTH: list[Any] = [plot_caps, plot_heatmap]


@pytest.mark.parametrize("plot", BOTH)
def test_plot_returns_its_axes_and_changes_no_settings_or_frame(plot: Any, ax: Axes) -> None:
    before, table = dict(mpl.rcParams), PAIRS.copy()
    assert plot(PAIRS, ax=ax) is ax
    save(ax)
    assert before == dict(mpl.rcParams)
    pd.testing.assert_frame_equal(PAIRS, table)


@pytest.mark.parametrize("plot", BOTH)
def test_a_missing_column_is_an_error_that_names_it(plot: Any, ax: Axes) -> None:
    with pytest.raises(
        SettingError, match=r"no column 'kept_lower': expected one like counterfactual\(..., aggregate=Tr"
    ):
        plot(PAIRS.drop(columns="kept_lower"), ax=ax)


@pytest.mark.parametrize("plot", BOTH)
@pytest.mark.parametrize("layout", first(1, ["constrained", "tight", None]))
@pytest.mark.slow
def test_small_axes_are_drawn_without_a_warning(plot: Any, layout: Any) -> None:
    grid = Figure(figsize=(6, 5), layout=layout).subplots(2, 2)
    for small in grid.flat:
        plot(PAIRS, recommended={"max_steps": 20, "tool_budget": None}, ax=small)
    draw(grid[0, 0])


@pytest.mark.parametrize("plot", BOTH)
def test_a_table_without_rows_says_so(plot: Any, ax: Axes) -> None:
    plot(PAIRS[:0], ax=ax)
    assert next(text.get_text() for text in ax.texts).startswith("no settings")


@pytest.mark.parametrize("plot", BOTH)
def test_labels_and_proxies_are_never_mixed(plot: Any, ax: Axes) -> None:
    mixed = PAIRS.assign(success_by=["label"] * 7 + ["turn ended by itself"] * 8)
    with pytest.raises(SettingError, match="labels and proxies are not drawn in one figure"):
        plot(mixed, keep=None, ax=ax) if plot is plot_heatmap else plot(mixed, at={"tool_budget": 3}, ax=ax)


@pytest.mark.parametrize("plot", BOTH)
def test_unknown_value_of_an_axis_raises_and_lists_known_values(plot: Any, ax: Axes) -> None:
    with pytest.raises(SettingError, match=r"at=\{'doom_loop': 7\} is not in the table: it has 2, 3"):
        plot(THREE, at={"doom_loop": 7}, ax=ax)
    with pytest.raises(SettingError, match="at='max_steps': expected an axis that is not drawn"):
        plot(THREE, at={"max_steps": 5}, ax=ax)


@pytest.mark.parametrize("plot", BOTH)
def test_settings_that_stand_twice_are_an_error(plot: Any, ax: Axes) -> None:
    with pytest.raises(SettingError, match="several rows for step cap 5"):
        plot(pd.concat([PAIRS, PAIRS]), ax=ax)


@pytest.mark.parametrize("plot", BOTH)
def test_rows_of_other_rules_are_left_out(plot: Any, ax: Axes) -> None:
    grid: Any = PAIRS.assign(rule=pd.array([None] * 15, dtype="string"))
    rules = grid.head(2).assign(max_steps=pd.array([None] * 2, dtype="Int64"), rule="max_steps(3)")
    plot(pd.concat([grid, rules]), ax=ax)
    with pytest.raises(SettingError, match="not an axis of the grid: it has none, only rules|no column"):
        plot(rules.drop(columns=["max_steps", "tool_budget"]), ax=ax)


def test_colours_of_groups_mean_nothing_else() -> None:
    taken = {KEPT, SAVED, *TOOL_COLOURS.values(), *(look.fill for look in STOP_LOOKS.values())}
    assert not taken & {color for color, _, _ in GROUP_LOOKS}
    assert len({str(dash) for _, dash, _ in GROUP_LOOKS}) == len({marker for _, _, marker in GROUP_LOOKS}) == 6


@pytest.mark.parametrize(
    ("part", "base", "expected"), [(1, 1, "100%"), (0, 9, "0%"), (999, 1000, "99%"), (1, 1000, "1%"), (1, 2, "50%")]
)
def test_a_share_is_all_or_nothing_only_where_it_is(part: float, base: float, expected: str) -> None:
    assert whole_percent(part, base) == expected


# --- plot_caps --------------------------------------------------------------------------------------------------------


def test_stairs_are_the_shares_of_the_table(ax: Axes) -> None:
    plot_caps(CAPS, ax=ax)
    values = [5, 10, 15, 20, 30]
    assert line(ax, "kept") == pytest.approx({x: KEPT_AT[x][0] / 21 for x in values})
    assert line(ax, "saved") == pytest.approx({x: SAVED_AT[x] / 642 for x in values})
    assert ax.get_xlabel() == "step cap (steps)"
    assert ax.get_ylabel() == "share of 21 successes, of steps"
    assert labels(ax) == ["successes kept", "steps saved"]


def test_the_title_says_from_which_value_nothing_is_lost(ax: Axes) -> None:
    plot_caps(CAPS, ax=ax)
    assert title(ax) == "Step cap 20 keeps all 21 successes and saves 36 of 642 steps"
    assert note(ax) == (
        "50 runs, 21 successes. Band: from the least to the most that are kept, where that is not on record. "
        "No step cap: keeps 21 of 21, saves 0 of 642 steps. Counts on record."
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"kept_lower": 20, "kept_upper": 21}, "Even step cap 30 keeps only 20-21 of 21 successes"),
        ({"successes": 0, "kept_lower": 0, "kept_upper": 0}, "No success to keep, whatever the step cap"),
        ({"successes": NA, "kept_lower": NA, "kept_upper": NA}, "How many successes a step cap keeps is not known"),
        ({"saved_steps": NA}, "Step cap 20 keeps all 21 successes"),
    ],
)
def test_a_title_where_there_is_less_to_say(change: Any, expected: str, ax: Axes) -> None:
    plot_caps(CAPS.assign(**change).astype(CAPS.dtypes.to_dict()), ax=ax)
    draw(ax)
    assert title(ax) == expected


def test_a_recommended_value_is_marked_with_its_numbers(ax: Axes) -> None:
    plot_caps(CAPS, recommended=15, ax=ax)
    assert title(ax) == "Step cap 15 keeps 17-18 of 21 successes and saves 81 of 642 steps"
    assert labels(ax, "mark") == ["step cap 15\nkeeps 17-18 of 21\nsaves 81 of 642 steps"]
    (mark,) = [item for item in ax.lines if item.get_label() == "recommended"]
    assert list(mark.get_xdata()) == [15, 15]  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="recommended: the table has no row for step cap 16"):
        plot_caps(CAPS, recommended=16, ax=ax)
    with pytest.raises(SettingError, match="recommended='20': expected a number, or values by axis"):
        plot_caps(CAPS, recommended="20", ax=ax)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="recommended: there is no setting 'max_step'; did you mean 'max_steps'?"):
        plot_caps(CAPS, recommended={"max_step": 20}, ax=ax)


def test_a_recommendation_by_axis_fixes_the_others(ax: Axes) -> None:
    plot_caps(THREE, recommended={"max_steps": 20, "tool_budget": 8, "doom_loop": 2}, ax=ax)
    limits = "Step cap 20 with tool budget 8 and doom-loop threshold 2"
    assert title(ax) == f"{limits} keeps 21 of 21 successes and saves 38 of 642 steps"
    assert "Tool budget 8. Doom-loop threshold 2." in note(ax)


@pytest.mark.parametrize(
    "value",
    [{"max_steps": np.int64(20)}, {"max_steps": 20}, np.int64(20), pd.Series({"max_steps": 20})],
)
def test_a_recommendation_may_use_the_names_of_the_grid(value: Any, ax: Axes) -> None:
    whole = {"max_steps": 20, "tool_budget": None, "doom_loop": 3}  # the axes that the table has are marked
    for recommended in (value, SimpleNamespace(setting=value), SimpleNamespace(setting=whole)):
        plot_caps(CAPS, recommended=recommended, ax=ax)
        assert title(ax) == "Step cap 20 keeps 21 of 21 successes and saves 36 of 642 steps"


def test_other_axes_are_off_or_loosest_and_the_note_says_so(ax: Axes) -> None:
    plot_caps(THREE, ax=ax)
    assert "No tool budget. Doom-loop threshold 3, its loosest." in note(ax)
    other = plot_caps(THREE, axis="tool_budget", at={"max_steps": 5, "doom_loop": 2}, ax=Figure().subplots())
    assert "Step cap 5. Doom-loop threshold 2." in note(other)
    assert other.get_xlabel() == "tool budget (tool calls)"


def test_a_proxy_is_named_in_title_label_and_note(ax: Axes) -> None:
    plot_caps(CAPS.assign(success_by="turn ended by itself"), ax=ax)
    assert title(ax).startswith("Step cap 20 keeps all 21 turns that ended by themselves (proxy)")
    assert labels(ax)[0] == "turns that ended by\nthemselves kept (proxy)"
    assert "21 turns that ended by themselves (proxy)" in note(ax)
    assert "success" not in title(ax) + note(ax) + ax.get_ylabel()


def test_what_is_saved_may_be_calls_or_cost_or_unknown(ax: Axes) -> None:
    assert title(plot_caps(CAPS, saved="tool_calls", ax=ax)).endswith("saves 82 of 282 tool calls")
    assert title(plot_caps(CAPS, saved="cost_usd", ax=Figure((8, 5)).subplots())).endswith("saves $0.75 of $2.00")
    other = plot_caps(CAPS, saved="tokens", ax=Figure((8, 5)).subplots())
    assert title(other) == "Step cap 20 keeps all 21 successes"
    assert "Not drawn: tokens saved, which the source does not report." in note(other)
    with pytest.raises(SettingError, match="saved='money': expected steps, tool_calls, tokens, cost_usd"):
        plot_caps(CAPS, saved="money", ax=ax)  # type: ignore[arg-type]


def test_where_nothing_is_known_the_axes_say_so(ax: Axes) -> None:
    plot_caps(CAPS.assign(successes=0, kept_lower=0, kept_upper=0), saved="tokens", ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no known successes to keep, no known tokens to save"]


def test_the_note_says_what_is_missing_where_it_is_worst(ax: Axes) -> None:
    plot_caps(CAPS.assign(n_censored=[0, 0, 1, 2, 3, 3], n_unknown=1, n_unknown_cost=4), saved="cost_usd", ax=ax)
    assert "Up to 3 runs censored: stopped by the harness's own limit." in note(ax)
    assert "Up to 1 run undecided: the source lacks the counter." in note(ax)
    assert "4 runs of unknown cost left out of what is saved." in note(ax)


def test_groups_have_a_line_each_and_their_names_are_no_markup(ax: Axes) -> None:
    plot_caps(grouped("a", UGLY), recommended=20, ax=ax)
    draw(ax)
    assert labels(ax) == ["a", UGLY]
    assert title(ax) == "Step cap 20 keeps all successes of all 2 groups"
    assert note(ax).startswith("100 runs, 42 successes.")


def test_groups_without_a_success_are_not_said_to_lose_any(ax: Axes) -> None:
    empty = grouped("none").assign(successes=0, kept_lower=0, kept_upper=0)
    plot_caps(pd.concat([grouped("a", "b"), empty]), ax=ax)
    assert title(ax) == "Step cap 20 keeps all successes of all 2 groups that have some"
    one = plot_caps(pd.concat([grouped("a"), empty]), ax=Figure(figsize=(8, 5)).subplots())
    assert title(one) == "Step cap 20 keeps all successes of the one group that has some"
    none = pd.concat([empty, empty.assign(agent="nothing")])
    assert title(plot_caps(none, ax=Figure(figsize=(8, 5)).subplots())) == "No group has successes to keep"


def test_too_many_groups_are_an_error_that_says_how_to_choose(ax: Axes) -> None:
    many = grouped(*(f"agent {i}" for i in range(200)))
    with pytest.raises(SettingError, match=r"200 groups by agent \('agent 0', .*: choose at most 6, as in table\[tab"):
        plot_caps(many, ax=ax)
    with pytest.raises(SettingError, match="choose one"):
        plot_heatmap(PAIRS.assign(x=1)[["x", *PAIRS.columns]].pipe(lambda t: pd.concat([t, t.assign(x=2)])), ax=ax)


def test_labels_stand_within_the_axes_and_apart_from_one_another(ax: Axes) -> None:
    plot_caps(CAPS, recommended=20, ax=ax)
    draw(ax)
    boxes = [text.get_window_extent() for text in ax.get_children() if isinstance(text, _Label)]
    frame = ax.get_window_extent()
    assert len(boxes) == 3
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1 for box in boxes)
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_values_far_apart_stand_on_a_logarithmic_axis(ax: Axes) -> None:
    table = CAPS.head(5).rename(columns={"max_steps": "max_tokens"}).assign(max_tokens=[10, 100, 1000, 10_000, 100_000])
    plot_caps(table, ax=ax)
    draw(ax)
    assert ax.get_xscale() == "log"


def test_one_setting_is_a_figure(ax: Axes) -> None:
    plot_caps(CAPS[CAPS["max_steps"] == 20], ax=ax)
    draw(ax)
    assert line(ax, "kept") == {20: 1.0}


def test_letters_are_lighter_on_a_dark_background() -> None:
    with mpl.rc_context({"text.color": "white", "axes.facecolor": "black", "figure.facecolor": "black"}):
        ax = plot_caps(CAPS, ax=Figure().subplots())
    (kept,) = [item for item in ax.lines if item.get_label() == "kept"]
    assert sum(to_rgb(kept.get_color())) > sum(to_rgb(KEPT))


# --- plot_heatmap -----------------------------------------------------------------------------------------------------


def test_cells_say_their_share_and_off_comes_last(ax: Axes) -> None:
    plot_heatmap(PAIRS, ax=ax)
    draw(ax)
    rows = [f"{100 * KEPT_AT[cap][0] // 21}%" for cap in (5, 10, 15, 20, None)]  # rounded down
    assert cells(ax) == rows * 3
    assert [label.get_text() for label in ax.get_xticklabels()] == ["5", "10", "15", "20", "No\nlimit"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["3", "8", "No limit"]


@pytest.mark.parametrize(
    ("options", "expected"),
    first(
        4,
        [
            [{}, "6 of 15 settings keep at least 95% of 21 successes"],
            [{"keep": None}, "Successes kept: 14% to 100%"],
            [{"value": "saved_steps"}, "Up to 37 of 642 steps are saved while at least 95% of 21 successes are kept"],
            [
                {"recommended": {"max_steps": 15, "tool_budget": 8}},
                "Step cap 15 with tool budget 8 keeps 17-18 of 21 successes and saves 82 of 642 steps",
            ],
            [{"keep": 1.0}, "6 of 15 settings keep all 21 successes"],
            [{"value": "steps", "keep": None}, "Steps spent: 249 to 642"],
            [{"value": "n_truncated", "keep": None}, "Runs truncated: 58% to 94%"],
        ],
    ),
)
def test_the_title_of_pairs_says_the_finding(options: Any, expected: str, ax: Axes) -> None:
    plot_heatmap(PAIRS, ax=ax, **options)
    draw(ax)
    assert title(ax) == expected


def test_a_decision_to_set_nothing_is_the_title_and_no_mark(ax: Axes) -> None:
    decision = bl.recommend([bl.run_sync(None, "Hi", model=bl.ScriptedModel(["Hi."]))])
    assert decision.action == "not_yet"
    for plot, table in ((plot_caps, CAPS), (plot_heatmap, PAIRS)):
        ax.clear()
        plot(table, recommended=decision, ax=ax)
        assert title(ax).replace("\n", " ") == decision.verdict[0]
        assert "recommended" not in [artist.get_label() for artist in (*ax.patches, *ax.lines)]


def test_heatmap_line_separates_cells_that_keep_enough(ax: Axes) -> None:
    plot_heatmap(PAIRS, ax=ax)
    (found,) = [c for c in ax.collections if isinstance(c, LineCollection) and c.get_label() == "keep"]
    assert {point[0] for segment in found.get_segments() for point in segment} == {3.0}
    assert "Line: up to where at least 95% of successes are kept on record." in note(ax)


def test_a_recommended_cell_is_marked(ax: Axes) -> None:
    plot_heatmap(PAIRS, recommended={"max_steps": 20, "tool_budget": None}, ax=ax)
    assert "recommended" in [artist.get_label() for artist in (*ax.patches, *ax.lines)]
    with pytest.raises(SettingError, match=r"recommended=20: expected values by axis \(max_steps, tool_budget\)"):
        plot_heatmap(PAIRS, recommended=20, ax=ax)


def test_unknown_cells_are_grey_and_counted(ax: Axes) -> None:
    plot_heatmap(PAIRS.assign(kept_lower=PAIRS["kept_lower"].mask(PAIRS["max_steps"].fillna(0) == 10)), ax=ax)
    draw(ax)
    assert title(ax) == "6 of 12 settings of known outcome keep at least 95% of 21 successes"
    assert "3 settings unknown (grey)." in note(ax)
    assert [patch.get_hatch() for patch in ax.patches if patch.get_gid() == "no value"] == [None]


@pytest.mark.parametrize(
    ("change", "options", "text"),
    [
        ({"successes": 0, "kept_lower": 0}, {}, "no successes to keep"),
        ({}, {"value": "tokens"}, "tokens spent: unknown in every setting"),
        ({}, {"value": "saved_tokens"}, "tokens saved: unknown in every setting"),
    ],
)
def test_pairs_of_which_nothing_is_known_are_no_picture(change: Any, options: Any, text: str, ax: Axes) -> None:
    plot_heatmap(PAIRS.assign(**change).astype(PAIRS.dtypes.to_dict()), ax=ax, **options)
    assert [child.get_text() for child in ax.texts] == [text]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": "tool_budget", "y": "tool_budget"}, "expected two different axes"),
        ({"keep": 95}, "keep=95: expected a share"),
        ({"keep": True}, "keep=True: expected a share"),
        ({"value": "success_by"}, "value='success_by': expected a column of numbers"),
        ({"value": "kept"}, "no column 'kept'"),
        ({"y": "doom_loop"}, "no column 'doom_loop'"),
        ({"y": "n_runs"}, "'n_runs' is not an axis of the grid: max_steps, tool_budget"),
    ],
)
def test_wrong_arguments_of_a_heatmap(options: Any, message: str, ax: Axes) -> None:
    with pytest.raises(SettingError, match=message):
        plot_heatmap(PAIRS, ax=ax, **options)


def test_a_large_grid_has_few_round_ticks_and_no_numbers(ax: Axes) -> None:
    rows = [(x, y) for x in [*range(1, 201), None] for y in [*range(1, 101), None]]
    table = pd.DataFrame(rows, columns=["max_steps", "tool_budget"]).astype("Int64")
    table = table.assign(n_runs=9, success_by="label", successes=9, kept_lower=table["max_steps"].fillna(200) // 23)
    plot_heatmap(table, ax=ax)
    draw(ax)
    texts = [label.get_text() for label in ax.get_xticklabels()]
    assert texts[-1] == "No\nlimit"
    assert 4 < len(texts) < 25
    assert all(int(text) % 10 == 0 for text in texts[:-1])
    assert cells(ax) == []
    meshes = [mesh.get_array() for mesh in ax.collections if isinstance(mesh, QuadMesh)]
    assert sum(np.size(array) for array in meshes if array is not None) == 201 * 101


def many_groups(n: int) -> pd.DataFrame:
    """An aggregate of so many groups, each with two caps."""
    rows = [
        {"team": f"team {i}", "max_steps": cap, "n_runs": 8, "success_by": "label", "successes": 6, "kept_lower": kept,
         "kept_upper": 6, "steps": 40, "saved_steps": 10}
        for i in range(n) for cap, kept in ((5, 3), (9, 6))
    ]  # fmt: skip
    return pd.DataFrame(rows).astype({"max_steps": "Int64"})


@pytest.mark.slow
def test_more_than_six_groups_have_a_panel_each_to_one_scale() -> None:
    first = plot_caps(many_groups(8))
    panels = [panel for panel in first.figure.axes if panel.get_title(loc="left")]
    assert [panel.get_title(loc="left") for panel in panels] == [f"team {i}" for i in range(8)]
    assert len({(panel.get_xlim(), panel.get_ylim()) for panel in panels}) == 1
    assert [panel.get_ylabel() for panel in panels] == ["share", "", ""] * 2 + ["share", ""]
    assert {panel.get_xlabel() for panel in panels[5:]} == {"step cap (steps)"}
    assert first.figure.get_suptitle() == "Step cap 9 keeps all successes of all 8 groups"
    curves = pd.DataFrame({"team": [f"team {i}" for i in range(7)], "of": "steps", "time": 3, "at_risk": 4, "ended": 4,
                           "censored": 0, "survival": 0.0, "low": 0.0, "high": 0.5, "confidence": 0.95})  # fmt: skip
    assert plot_survival(curves).get_title(loc="left") == "team 0 (4)"
    with pytest.raises(SettingError, match="31 groups by team"):
        plot_caps(many_groups(31))
    with pytest.raises(SettingError, match="choose at most 6.*or leave ax out, so that each has a panel of its own"):
        plot_caps(many_groups(8), ax=Figure().subplots())


def test_a_heatmap_draws_the_axes_that_the_table_has() -> None:
    table = pd.DataFrame({"max_steps": [5, 5, 9, 9], "doom_loop": [2, 3, 2, 3], "n_runs": 8, "success_by": "label",
                          "successes": 6, "kept_lower": [2, 3, 4, 6]})  # fmt: skip
    ax = plot_heatmap(table, ax=Figure(figsize=(9, 4)).subplots())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("step cap (steps)", "doom-loop threshold (identical calls)")
    turned = plot_heatmap(table, x="doom_loop", ax=Figure(figsize=(9, 4)).subplots())
    assert turned.get_ylabel() == "step cap (steps)"
    one = table[table["doom_loop"] == 2].drop(columns="doom_loop")
    with pytest.raises(SettingError, match=r"two axes, and the table has one axis, max_steps.*bl\.plot_caps\(table\)"):
        plot_heatmap(one)


def test_groups_of_stop_reasons_may_have_several_columns() -> None:
    frame = pd.DataFrame({"stop_reason": "finished", "agent": ["b", "b", "a", None], "cap": [10, 5, 5, 5]})
    ax = plot_stop_reasons(frame, by=["agent", "cap"], ax=Figure().subplots())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b, 5", "b, 10", "a, 5", "no name, 5"]
    assert ax.get_ylabel() == "agent, cap"
    with pytest.raises(SettingError, match="by='team': there is no such column"):
        plot_stop_reasons(frame, by=["agent", "team"], ax=Figure().subplots())
    with pytest.raises(SettingError, match=r"by=\[\]: expected the name of a column, or several"):
        plot_stop_reasons(frame, by=[], ax=Figure().subplots())
