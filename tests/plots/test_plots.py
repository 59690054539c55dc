"""Plots: what is drawn is what was counted."""

import io
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, get_args

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation, Text

from boolab.core.text import shorten
from boolab.core.types import StopReason
from boolab.display.colours import TOOL_COLOURS
from boolab.errors import SettingError
from boolab.frames.tables import calls_df, runs_df
from boolab.plots import plot_steps, plot_stop_reasons, plot_tools
from boolab.plots._grid_cells import CellMeasure, cell_text
from boolab.plots.bars import _Inside
from boolab.plots.palette import CALL_LOOKS, KEPT, STOP_LOOKS, UNKNOWN, Look
from boolab.plots.steps import bins_of
from tests.support.cases import first
from tests.support.helpers import call, distinct, play, steps

REASONS: tuple[str, ...] = get_args(StopReason)
FRAMES: dict[Any, Any] = {plot_steps: runs_df, plot_tools: calls_df, plot_stop_reasons: runs_df}
"""The plots that draw runs, each with what makes its frame of them."""
PLOTS: list[Any] = [*FRAMES]
RUNS = [
    play(distinct(3)),
    play(distinct(9)),
    play(distinct(9), max_steps=4),
    play(distinct(9), max_steps=4),
    play(steps("A A A A A"), doom_loop=3),
    play(distinct(9), tool_budget=2),
    play([{"tool_calls": [call("fail")]}, {"tool_calls": [call("look"), call("write")]}, {"error": {"status": 400}}]),
]
UGLY = r"$\bad{$ _x_"
"""Not valid as mathtext: drawing it fails where it is taken for markup."""


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(7, 5), layout="constrained").subplots()


def frame(reasons: Any, **columns: Any) -> pd.DataFrame:
    """A frame like `runs_df`, with as much as plots need."""
    data = pd.DataFrame({"stop_reason": pd.array(list(reasons), dtype="string")})
    for name, values in {"agent": "a", "n_steps": 1, **columns}.items():
        data[name] = values if isinstance(values, str | int) else pd.Series(values)
    return data


def calls(*rows: tuple[str | None, bool | None, bool]) -> pd.DataFrame:
    """A frame like `calls_df`, from (tool, is_error, dropped)."""
    data = pd.DataFrame(rows, columns=["tool", "is_error", "dropped"])
    return data.astype({"tool": "string", "is_error": "boolean", "dropped": "boolean"})


def title(ax: Axes) -> str:
    return ax.get_title(loc="left").replace("\n", " ")


def note(ax: Axes) -> str:
    """The sample, from the line under the title, and the note under the figure."""
    texts = {child.get_gid(): child.get_text().replace("\n", " ") for child in ax.texts}
    sample = texts.get("subtitle", "").partition(": ")[2]
    return f"{sample}. {texts['footnote']}".removeprefix(". ").strip()


def ends(ax: Axes) -> list[str]:
    return [child.get_text() for child in ax.texts if child.get_gid() == "end"]


def rows(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def key(ax: Axes) -> list[str]:
    """The key's labels, read line by line."""
    legend = ax.get_legend()
    if legend is None:
        return []
    assert ax.figure is not None
    draw(ax)
    return [text.get_text() for text in sorted(legend.get_texts(), key=_place)]


def _place(text: Text) -> tuple[float, float]:
    """From the top, then from the left; by the baseline, for letters reach below it by their own measure."""
    x, y = text.get_transform().transform(text.get_position())
    return -round(y), x


def bars(ax: Axes) -> Iterator[tuple[str, Rectangle]]:
    for container in ax.containers:
        assert isinstance(container, BarContainer)
        for patch in container:
            yield str(container.get_label()), patch


def drawn(ax: Axes) -> tuple[Any, ...]:
    """All that two drawings of the same data have in common."""
    shapes = [str(patch) for _, patch in bars(ax)] + [str(line.get_xydata()) for line in ax.lines]
    return title(ax), [text.get_text() for text in ax.texts], key(ax), shapes


def drawn_rows(ax: Axes) -> dict[tuple[str, str], float]:
    """The length of each part of each horizontal bar."""
    names = rows(ax)
    return {(names[round(patch.get_y() + patch.get_height() / 2)], name): patch.get_width() for name, patch in bars(ax)}


def draw(ax: Axes) -> None:
    """All of a drawing but its pixels: half of the time."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()


def save(ax: Axes) -> None:
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.savefig(io.BytesIO(), format="png")


# --- What all plots hold to -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plot", PLOTS)
def test_the_axes_that_were_given_are_drawn_in_and_returned(plot: Any, ax: Axes) -> None:
    assert plot(RUNS, ax=ax) is ax


@pytest.mark.parametrize("plot", PLOTS)
def test_no_setting_of_matplotlib_changes(plot: Any, ax: Axes) -> None:
    before = dict(mpl.rcParams)
    save(plot(RUNS, ax=ax))
    assert before == dict(mpl.rcParams)


@pytest.mark.slow
def test_pyplot_is_imported_only_when_a_figure_has_to_be_made() -> None:
    code = """
import sys
from matplotlib.figure import Figure
from boolab.plots import plot_steps
plot_steps([], ax=Figure().subplots())
print("matplotlib.pyplot" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("plot", PLOTS)
def test_without_axes_a_figure_is_made_and_not_shown(plot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot as plt

    plt.switch_backend("agg")
    plt.close("all")  # what other tests left open
    monkeypatch.setattr(plt, "show", lambda: pytest.fail("shown"))
    ax = plot(RUNS)
    try:
        draw(ax)
        assert plt.get_fignums() == [ax.figure.number]
    finally:
        plt.close(ax.figure)


@pytest.mark.parametrize("plot", PLOTS)
@pytest.mark.parametrize(
    "data",
    ["frame", iter(RUNS), *(pytest.param(data, marks=pytest.mark.slow) for data in (RUNS, tuple(RUNS), RUNS[0]))],
    ids=lambda data: type(data).__name__,
)
def test_runs_in_any_form_and_their_frame_draw_the_same(plot: Any, data: Any, ax: Axes) -> None:
    if isinstance(data, str):
        data = FRAMES[plot](RUNS)
    elif isinstance(data, Iterator):
        data = iter(RUNS)
    runs = [RUNS[0]] if data is RUNS[0] else RUNS
    other = plot(runs, ax=Figure(figsize=(7, 5), layout="constrained").subplots())
    plot(data, ax=ax)
    assert drawn(ax) == drawn(other)


@pytest.mark.parametrize("plot", PLOTS)
def test_the_frame_that_was_given_stays_as_it_was(plot: Any, ax: Axes) -> None:
    data = FRAMES[plot](RUNS)
    before = data.copy()
    plot(data, ax=ax)
    pd.testing.assert_frame_equal(data, before)


@pytest.mark.parametrize("plot", PLOTS)
def test_an_index_with_repeated_labels_does_not_matter(plot: Any, ax: Axes) -> None:
    data = FRAMES[plot](RUNS)
    twice = pd.concat([data, data])
    plot(twice, ax=ax)
    other = plot(twice.reset_index(drop=True), ax=Figure(figsize=(7, 5), layout="constrained").subplots())
    assert drawn(ax) == drawn(other)
    assert sum(int(label.split()[-1]) for label in key(ax)) in (0, 2 * len(data))


@pytest.mark.parametrize(
    ("plot", "text"), [(plot_steps, "no runs"), (plot_tools, "no tool calls"), (plot_stop_reasons, "no runs")]
)
def test_where_there_is_nothing_the_axes_say_so(plot: Any, text: str, ax: Axes) -> None:
    plot([], ax=ax)
    draw(ax)
    assert [child.get_text() for child in ax.texts] == [text]
    assert not ax.axison


def test_empty_sweep_can_be_plotted_by_a_missing_setting(ax: Axes) -> None:
    assert [child.get_text() for child in plot_steps([], by="max_steps", ax=ax).texts] == ["no runs"]


@pytest.mark.parametrize("layout", first(1, ["constrained", "tight", None]))
def test_small_axes_of_a_grid_are_drawn_without_a_warning(layout: Any) -> None:
    grid = Figure(figsize=(6, 5), layout=layout).subplots(-(-len(PLOTS) // 2), 2)
    for plot, small in zip(PLOTS, grid.flat, strict=False):
        plot(RUNS, ax=small)
    draw(grid[0, 0])


@pytest.mark.parametrize("plot", [plot_steps, plot_stop_reasons])
def test_names_are_never_taken_for_markup(plot: Any, ax: Axes) -> None:
    plot(frame(["finished", "error"], agent=[UGLY, "$x$"], n_steps=[1, 2]), by="agent", ax=ax)
    draw(ax)
    assert rows(ax)[0].startswith(UGLY)
    assert rows(ax)[1].startswith("$x$")


def test_tools_named_in_halves_of_letters_are_drawn(ax: Axes) -> None:
    run = play([{"tool_calls": [call("a\ud800"), call("look")]}, "done"])
    plot_tools(run, ax=ax)
    assert "1 of 2" in title(ax)


def test_names_of_tools_are_never_taken_for_markup(ax: Axes) -> None:
    plot_tools(calls((UGLY, True, False), ("ok_$1", False, False), ("ok_$1", False, False)), ax=ax)
    draw(ax)
    assert rows(ax) == ["ok_$1", UGLY]
    assert title(ax) == f"1 of 3 calls failed, all in {UGLY}"


@pytest.mark.parametrize("plot", [plot_steps, plot_stop_reasons])
def test_an_unknown_column_is_an_error_that_names_the_columns(plot: Any, ax: Axes) -> None:
    with pytest.raises(SettingError, match=r"by='agnet': there is no such column; did you mean 'agent'\?"):
        plot(RUNS, by="agnet", ax=ax)


@pytest.mark.parametrize(
    ("plot", "data", "missing"),
    [
        (plot_steps, calls_df(RUNS), "stop_reason"),
        (plot_tools, runs_df(RUNS), "tool"),
        (plot_stop_reasons, calls_df(RUNS), "stop_reason"),
    ],
)
def test_the_wrong_frame_is_an_error_that_names_the_right_one(plot: Any, data: Any, missing: str, ax: Axes) -> None:
    made_by = FRAMES[plot].__name__
    with pytest.raises(SettingError, match=f"no column '{missing}': expected one like {made_by} makes"):
        plot(data, ax=ax)


@pytest.mark.parametrize("plot", PLOTS)
def test_what_holds_no_runs_is_an_error(plot: Any, ax: Axes) -> None:
    with pytest.raises(TypeError, match="expected a Run"):
        plot(["run"], ax=ax)


def test_unknown_stop_reason_raises_and_lists_the_known_ones(ax: Axes) -> None:
    with pytest.raises(SettingError, match=r"'exhausted' is not one .* expected finished, synthesis, paused"):
        plot_stop_reasons(frame(["finished", "exhausted"]), ax=ax)


def test_texts_follow_a_dark_style() -> None:
    with mpl.rc_context({"text.color": "white", "axes.facecolor": "black", "figure.facecolor": "black"}):
        ax = plot_stop_reasons(RUNS, ax=Figure().subplots())
    assert all(to_rgb(label.get_color())[0] > 0.5 for label in ax.get_yticklabels())


def test_only_the_lower_spine_and_one_grid_are_drawn(ax: Axes) -> None:
    plot_steps(RUNS, ax=ax)
    assert [side for side, spine in ax.spines.items() if spine.get_visible()] == ["bottom"]
    assert not any(line.get_visible() for line in ax.get_xgridlines())
    assert all(line.get_visible() for line in ax.get_ygridlines())


# --- Colours ----------------------------------------------------------------------------------------------------------


def test_bars_are_shares_if_one_group_is_far_larger(ax: Axes) -> None:
    few, many = ["finished", "step_cap"], ["finished"] * 30
    plot_stop_reasons(frame([*few, *many], agent=["few"] * 2 + ["many"] * 30), ax=ax)
    assert ax.get_xlabel() == "% of a row's runs"
    assert sorted(ends(ax)) == ["2", "30"]
    assert {round(bar.get_x() + bar.get_width()) for _, bar in bars(ax)} == {50, 100}


def test_every_stop_reason_has_a_look_in_the_one_order() -> None:
    assert (*REASONS, UNKNOWN) == tuple(STOP_LOOKS)


def test_no_two_stop_reasons_look_alike() -> None:
    assert len({look.fill for look in STOP_LOOKS.values()}) == len(STOP_LOOKS)
    assert len({look.marker for look in STOP_LOOKS.values()}) == len(STOP_LOOKS)


def test_a_colour_has_one_meaning() -> None:
    assert STOP_LOOKS["finished"].fill == KEPT
    assert not {look.fill for look in STOP_LOOKS.values()} & set(TOOL_COLOURS.values())


def test_a_stop_reason_looks_the_same_in_every_plot() -> None:
    data = frame([*REASONS, None] * 4, agent=["a", "b"] * 28, n_steps=range(56))
    for plot in (plot_steps, plot_stop_reasons):
        ax = plot(data, ax=Figure().subplots())
        seen = {name: patch.get_facecolor() for name, patch in bars(ax)}
        assert seen == {n: to_rgba(look.fill) for n, look in STOP_LOOKS.items()}
    for runs in (data, pd.concat([data] * 3)):
        groups = [
            group
            for group in plot_steps(runs, by="agent", ax=Figure().subplots()).collections
            if group.get_label() in STOP_LOOKS
        ]
        assert [group.get_label() for group in groups] == list(STOP_LOOKS)
        for group, look in zip(groups, STOP_LOOKS.values(), strict=True):
            colors: Any = group.get_facecolor()
            assert [tuple(color) for color in colors] == [to_rgba(look.fill)][: look.fill != "none"]


@pytest.mark.parametrize("plot", [plot_steps, plot_stop_reasons])
def test_the_key_counts_every_reason_in_the_one_order(plot: Any, ax: Axes) -> None:
    plot(frame(["error", "finished", None, "step_cap", "finished"]), ax=ax)
    assert key(ax) == ["finished 2", "step_cap 1", "error 1", "unknown 1"]


def test_a_long_key_is_read_line_by_line() -> None:
    ax = plot_stop_reasons(frame(REASONS), ax=Figure(figsize=(5, 4)).subplots())
    draw(ax)
    assert key(ax) == [f"{reason} 1" for reason in REASONS]


# --- plot_steps -------------------------------------------------------------------------------------------------------


def test_bars_are_as_high_as_there_are_runs(ax: Axes) -> None:
    plot_steps(RUNS, ax=ax)
    drawn = {(name, patch.get_x() + 0.5): patch.get_height() for name, patch in bars(ax)}
    assert drawn == Counter((run.stop_reason, run.n_steps) for run in RUNS)


def test_bars_of_a_bin_stand_on_one_another(ax: Axes) -> None:
    plot_steps(RUNS, ax=ax)
    top: dict[float, float] = defaultdict(float)
    for _, patch in bars(ax):
        assert patch.get_y() == top[patch.get_x()]
        top[patch.get_x()] += patch.get_height()


@pytest.mark.parametrize("room", [60, 200, 400])
@pytest.mark.parametrize("low", [0, 1])
@pytest.mark.parametrize("high", [1, 7, 10, 11, 59, 60, 61, 200, 999, 1000, 1001, 12345])
@pytest.mark.parametrize("tail", [False, True])
def test_bins_hold_every_step_count_and_end_at_round_numbers(room: float, low: int, high: int, *, tail: bool) -> None:
    numbers: list[int] = [low] * (10 * high * tail) + [*range(low, high + 1)]
    bins = bins_of(pd.Series(numbers), room)
    assert bins.edges[0] == low - 0.5
    assert bins.edges[-1] > high
    assert all(a < b and (b - 0.5) == int(b - 0.5) for a, b in pairwise(bins.edges))
    assert len(bins.positions) == len(bins.edges)
    assert len(bins.edges) <= 61 + 2
    widths = {b - a for a, b in pairwise(edge for edge in bins.positions if edge > 0)}
    assert len(widths) <= 1
    assert all(str(int(width)).rstrip("0") in ("1", "2", "5") for width in widths)


def test_short_runs_have_bins_of_their_own_beside_a_long_tail(ax: Axes) -> None:
    plot_steps(frame(["finished"] * 20 + ["step_cap"], n_steps=[*range(1, 11)] * 2 + [1000]), ax=ax)
    heights = {round(patch.get_x() + 0.5): patch.get_height() for _, patch in bars(ax)}
    assert heights == {**dict.fromkeys(range(1, 11), 2), 11: 1}
    assert [label.get_text() for label in ax.get_xticklabels()][-1] == "11+"


def test_an_even_spread_has_even_bins(ax: Axes) -> None:
    plot_steps(frame(["finished"] * 200, n_steps=range(1, 201)), ax=ax)
    assert ax.get_xlabel() == "steps per run (bins of 5)"
    assert {patch.get_height() for _, patch in bars(ax)} == {5}


@pytest.mark.parametrize(
    ("n_steps", "expected"),
    [
        ([1], "The one run takes 1 step"),
        ([7], "The one run takes 7 steps"),
        ([7, 7], "Both runs take 7 steps"),
        ([1] * 1200, "All 1,200 runs take 1 step"),
        ([0], "The one run takes 0 steps"),
        ([2, 3], "The median of 2 runs is 2.5 steps, the longest takes 3"),
        ([1, 1, 1000], "The median of 3 runs is 1 step, the longest takes 1,000"),
    ],
)
def test_the_title_of_steps_says_the_median_and_the_longest(n_steps: list[int], expected: str, ax: Axes) -> None:
    plot_steps(frame(["finished"] * len(n_steps), n_steps=n_steps), ax=ax)
    assert title(ax) == expected


def test_few_runs_are_a_dot_each(ax: Axes) -> None:
    plot_steps(RUNS, by="stop_reason", ax=ax)
    dots = Counter(
        (str(group.get_label()), round(y), x)
        for group in ax.collections
        for x, y in group.get_offsets().tolist()  # type: ignore[union-attr]
    )
    order = list(dict.fromkeys(run.stop_reason for run in RUNS))
    assert dots == Counter((run.stop_reason, order.index(run.stop_reason), run.n_steps) for run in RUNS)


def test_dots_of_a_pile_lie_apart(ax: Axes) -> None:
    plot_steps(frame(["finished"] * 30, n_steps=[4] * 30), by="agent", ax=ax)
    (group,) = ax.collections
    heights = [y for _, y in group.get_offsets().tolist()]  # type: ignore[union-attr]
    assert len(set(heights)) == 30
    assert -0.41 < min(heights) < max(heights) < 0.41


def test_many_runs_are_a_histogram_of_shares_on_each_row(ax: Axes) -> None:
    data = frame(["finished"] * 150, agent=["a"] * 100 + ["b"] * 50, n_steps=[1] * 50 + [2] * 50 + [3] * 50)
    plot_steps(data, by="agent", ax=ax)
    (group,) = [group for group in ax.collections if group.get_label() == "finished"]
    boxes = [path.get_extents() for path in group.get_paths()]
    heights = {(round(box.y1 - 0.42), round(box.x0 + 0.5)): box.height for box in boxes}
    assert rows(ax) == ["a (100)", "b (50)"]
    assert {place: round(height / heights[1, 3], 9) for place, height in heights.items()} == {
        (0, 1): 0.5,
        (0, 2): 0.5,
        (1, 3): 1,
    }
    assert "Heights: shares of a row's runs." in note(ax)


@pytest.mark.parametrize(
    ("n_steps", "expected"),
    [
        ([1, 1, 5, 6], "The median run takes 1 step (a) to 5.5 (b)"),
        ([2, 4, 3, 3], "The median run takes 3 steps with each agent"),
        ([1, 1, 1, 1], "The median run takes 1 step with each agent"),
    ],
)
def test_the_title_by_group_says_how_far_medians_lie_apart(n_steps: list[int], expected: str, ax: Axes) -> None:
    plot_steps(frame(["finished"] * 4, agent=["a", "a", "b", "b"], n_steps=n_steps), by="agent", ax=ax)
    assert title(ax) == expected
    (medians,) = [line for line in ax.lines if line.get_label() == "median"]
    naive = [sum(n_steps[:2]) / 2, sum(n_steps[2:]) / 2]
    assert list(medians.get_xdata()) == naive  # type: ignore[arg-type]


def test_an_unknown_number_of_steps_is_left_out_and_said(ax: Axes) -> None:
    plot_steps(frame(["finished", "error", None], n_steps=pd.array([2, None, 3], dtype="Int64")), ax=ax)
    assert [patch.get_height() for _, patch in bars(ax)] == [1, 1]
    assert note(ax) == "3 runs, 1 agent. 1 run not shown: number of steps unknown. 1 run of unknown stop reason."


def test_runs_with_unknown_step_counts_give_a_message_only(ax: Axes) -> None:
    plot_steps(frame(["finished"], n_steps=pd.array([None], dtype="Int64")), by="agent", ax=ax)
    assert [child.get_text() for child in ax.texts] == ["no runs with a known number of steps"]


def test_the_note_says_how_many_runs_were_cut_short(ax: Axes) -> None:
    plot_steps(RUNS, ax=ax)
    cut = sum(run.censored for run in RUNS)
    assert note(ax) == f"{len(RUNS)} runs, 1 agent, 1 task. {cut} runs censored: full length unknown."


# --- plot_stop_reasons ------------------------------------------------------------------------------------------------


def test_parts_of_bars_are_as_long_as_there_are_runs(ax: Axes) -> None:
    data = frame([*REASONS, "finished", "step_cap", None] * 3, agent=[*"aab"] * 16)
    plot_stop_reasons(data, ax=ax)
    naive = Counter(zip(data["agent"], data["stop_reason"].fillna("unknown"), strict=True))
    assert drawn_rows(ax) == naive
    assert ends(ax) == ["32", "16"]


def test_parts_of_a_bar_follow_one_another_in_the_one_order(ax: Axes) -> None:
    plot_stop_reasons(frame(reversed(REASONS)), ax=ax)
    assert [(name, patch.get_x()) for name, patch in bars(ax)] == [(name, i) for i, name in enumerate(REASONS)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["b", None, "a", ""], ["b", "a", "no name"]),
        (pd.array([20, None, 5, 100], dtype="Int64"), ["5", "20", "100", "not known"]),
        ([0.5, 0.0, 1.0, None], ["0", "0.5", "1", "not known"]),
        (pd.array([True, None, False, True], dtype="boolean"), ["False", "True", "not known"]),
        (pd.array([None] * 4, dtype="Int64"), ["not known"]),
        (pd.array([None] * 4, dtype="string"), ["no name"]),
    ],
)
def test_numbers_ascend_names_stay_in_order_and_none_comes_last(values: Any, expected: list[str], ax: Axes) -> None:
    plot_stop_reasons(frame(["finished"] * 4, setting=values), by="setting", ax=ax)
    assert rows(ax) == expected
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["finished"], "The one run finishes"),
        (["aborted"], "The one run is aborted"),
        (["error"] * 2, "Both runs fail with an error"),
        (["paused"] * 1200, "All 1,200 runs wait for an answer"),
        ([None] * 3, "All 3 runs end for an unknown reason"),
        (["step_cap"] * 24 + ["finished"] * 20 + ["stuck"] * 4, "Half of 48 runs end at the step cap, 20 finish"),
        (["finished", "stuck"], "1 of 2 runs finishes, 1 gets stuck"),
        (["stuck"] + ["doom_loop"] * 2, "2 of 3 runs end in a doom loop, 1 gets stuck"),
        (["error", "finished", "stuck"], "1 of 3 runs finishes, 1 gets stuck"),
    ],
)
def test_the_title_of_reasons_says_the_two_most_frequent(reasons: list[str | None], expected: str, ax: Axes) -> None:
    plot_stop_reasons(frame(reasons), ax=ax)
    assert title(ax) == expected


def test_labels_in_bars_are_there_where_they_fit(ax: Axes) -> None:
    plot_stop_reasons(frame(["finished"] * 90 + ["step_cap"] * 5 + ["error"]), ax=ax)
    draw(ax)
    inside = [text for text in ax.get_children() if isinstance(text, _Inside)]
    shown = {text.get_text() for text in inside if fits(text)}
    assert "finished 90" in shown
    assert "5" in shown
    assert "step_cap 5" not in shown


def fits(text: _Inside) -> bool:
    return text.get_window_extent().width <= text._bar.get_window_extent().width


@pytest.mark.slow
def test_largest_of_many_groups_are_shown_and_others_counted(ax: Axes) -> None:
    agents = [f"agent {i}" for i in range(210)]
    data = frame(["finished"] * 410, agent=[*agents, *agents[10:]])
    plot_stop_reasons(data, ax=ax)
    assert len(list(bars(ax))) == 200
    assert note(ax) == "410 runs, 210 agents. 10 further groups not shown, with 10 runs."
    assert key(ax) == ["finished 410"]


# --- plot_tools -------------------------------------------------------------------------------------------------------

CALLS = calls(
    *[("read", False, False)] * 6,
    *[("read", True, False)] * 2,
    *[("read", None, False)] * 3,
    *[("grep", False, False)] * 2,
    *[("grep", None, True)] * 3,
    *[("run", True, False)] * 4,
    ("idle", None, True),
    (None, None, False),
)


def test_parts_of_bars_are_as_long_as_there_are_calls(ax: Axes) -> None:
    plot_tools(CALLS, ax=ax)
    assert drawn_rows(ax) == {
        ("read", "failed"): 2,
        ("read", "ok"): 6,
        ("read", "unknown"): 3,
        ("grep", "ok"): 2,
        ("grep", "dropped"): 3,
        ("run", "failed"): 4,
        ("idle", "dropped"): 1,
        ("no name", "unknown"): 1,
    }
    assert key(ax) == ["failed 6", "ok 8", "unknown 4", "dropped 4"]


def test_bars_say_their_failures_with_their_base(ax: Axes) -> None:
    plot_tools(CALLS, ax=ax)
    assert rows(ax) == ["read", "grep", "run", "idle", "no name"]
    assert ends(ax) == [
        "2 of 8 failed, 3 unknown",
        "0 of 2 failed, 3 dropped",
        "4 of 4 failed",
        "1 dropped",
        "1 unknown",
    ]


def test_the_note_says_what_is_unknown_and_what_was_dropped(ax: Axes) -> None:
    plot_tools(CALLS, ax=ax)
    assert note(ax) == (
        "22 calls of 5 tools. 4 calls of unknown error status. 4 calls dropped: paid for, never executed."
    )


def test_failures_start_at_the_axis_and_only_they_are_red(ax: Axes) -> None:
    plot_tools(CALLS, ax=ax)
    assert {patch.get_x() for name, patch in bars(ax) if name == "failed"} == {0}
    looks = {name: patch.get_facecolor() for name, patch in bars(ax)}
    assert looks == {name: to_rgba(look.fill) for name, look in CALL_LOOKS.items()}


def test_tools_beyond_the_top_are_counted_in_the_note(ax: Axes) -> None:
    plot_tools(CALLS, top=2, ax=ax)
    assert rows(ax) == ["read", "grep"]
    assert "Not shown: 3 further tools with 6 calls (4 of 4 failed, 1 unknown, 1 dropped)." in note(ax)
    assert title(ax) == "6 of 14 calls of known outcome failed, 4 of them in run"


@pytest.mark.parametrize("top", [0, -1, 2.0, True, "all", None])
def test_top_is_a_number_of_tools(top: Any, ax: Axes) -> None:
    with pytest.raises(SettingError, match="expected an integer >= 1"):
        plot_tools(CALLS, top=top, ax=ax)


OK, FAILED, WHO_KNOWS, DROPPED = ("a", False, False), ("a", True, False), ("a", None, False), ("a", None, True)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([OK], "The one call did not fail"),
        ([FAILED], "The one call failed"),
        ([DROPPED], "The one call was dropped"),
        ([DROPPED] * 3, "All 3 calls were dropped"),
        ([OK, OK, DROPPED], "None of 2 calls of known outcome failed"),
        ([OK] * 1200, "None of 1,200 calls failed"),
        ([FAILED] * 2, "Both calls failed"),
        ([OK, OK, FAILED], "1 of 3 calls failed"),
        ([OK, FAILED, ("b", False, False)], "1 of 3 calls failed, all in a"),
        ([WHO_KNOWS], "How many of 1 call failed is not known"),
        ([WHO_KNOWS, WHO_KNOWS, DROPPED], "How many of 2 calls failed is not known"),
        ([OK, FAILED, WHO_KNOWS], "1 of 2 calls of known outcome failed"),
        ([OK, WHO_KNOWS], "The one call of known outcome did not fail"),
    ],
)
def test_tools_title_counts_failures_among_known_calls(rows: Any, expected: str, ax: Axes) -> None:
    plot_tools(calls(*rows), ax=ax)
    assert title(ax) == expected


def test_long_names_keep_both_ends(ax: Axes) -> None:
    name = "mcp__filesystem_server__read_multiple_files_at_once"
    plot_tools(calls((name, False, False)), ax=ax)
    (label,) = rows(ax)
    assert len(label) == 32
    start, end = label.split("…")
    assert name.startswith(start)
    assert name.endswith(end)
    assert shorten("two\nlines") == "two lines"


def test_labels_at_the_ends_of_bars_stay_within_the_axes(ax: Axes) -> None:
    plot_tools(CALLS, ax=ax)
    draw(ax)
    labels = [text for text in ax.texts if isinstance(text, Annotation) and text.get_gid() == "end"]
    assert max(Text.get_window_extent(label).x1 for label in labels) <= ax.get_window_extent().x1 + 1


def test_a_stop_reason_can_have_another_look(ax: Axes) -> None:
    grey = Look("#a7b0bb", "#667281")
    plot_stop_reasons(frame(["finished", "step_cap"]), looks={"finished": grey}, ax=ax)
    bars = [one for one in ax.containers if isinstance(one, BarContainer)]
    fills = {one.get_label(): one.patches[0].get_facecolor() for one in bars}
    assert fills == {"finished": to_rgba(grey.fill), "step_cap": to_rgba(STOP_LOOKS["step_cap"].fill)}


def test_share_in_a_cell_is_rounded_down() -> None:
    shares = CellMeasure(pd.Series([0.949, 0.001]), "successes kept (share)", is_share=True)
    assert [cell_text(value, shares) for value in shares.numbers] == ["94%", "<1%"]
