"""Plots of survival, scorecards and one run: titles and notes say the frame's own numbers."""

import dataclasses
import warnings
from typing import Any, cast

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text

from boolab.core.types import Response, Step, Stop, ToolCall, ToolResult
from boolab.errors import SettingError
from boolab.plots import plot_scorecard, plot_survival, plot_timeline
from boolab.plots.palette import CALL_LOOKS, STOP_LOOKS
from tests.plots.test_plots import RUNS, UGLY, draw, ends, note, rows, save, title
from tests.support.cases import first
from tests.support.helpers import call, distinct, play, steps

NA = pd.NA


@pytest.fixture
def ax() -> Axes:
    return Figure(figsize=(9, 5), layout="constrained").subplots()


def curve(of: str = "steps", **columns: Any) -> pd.DataFrame:
    """Ten runs: four end at 3, three at 8, one is censored at 5, two at 9."""
    data: dict[str, Any] = {
        "of": of,
        "time": [3, 5, 8, 9],
        "at_risk": [10, 6, 5, 2],
        "ended": [4, 0, 3, 0],
        "censored": [0, 1, 0, 2],
        "survival": [0.6, 0.6, 0.24, 0.24],
        "low": [0.3, 0.3, 0.05, 0.05],
        "high": [0.8, 0.8, 0.5, 0.5],
        "success": [0.1, 0.1, 0.4, 0.4],
        "success_low": 0.05,
        "success_high": 0.7,
        "failure": [0.3, 0.3, 0.36, 0.36],
        "failure_low": 0.1,
        "failure_high": 0.6,
        "confidence": 0.95,
        "success_by": "label",
        **columns,
    }
    return pd.DataFrame(data).astype({"success": "Float64", "failure": "Float64"})


def by_agent(*names: str, **columns: Any) -> pd.DataFrame:
    return pd.concat([curve(**columns).assign(agent=name)[["agent", *curve().columns]] for name in names])


def labels(ax: Axes, gid: str = "line label") -> list[str]:
    return [text.get_text() for text in ax.get_children() if isinstance(text, Text) and text.get_gid() == gid]


def drawn(ax: Axes, name: str) -> tuple[list[float], list[float]]:
    """Where the marks of one kind stand."""
    (line,) = [item for item in ax.lines if item.get_label() == name]
    x, y = line.get_data()
    return np.asarray(x).tolist(), np.asarray(y).tolist()


# --- plot_survival ----------------------------------------------------------------------------------------------------


def test_survival_is_drawn_as_stairs_from_one(ax: Axes) -> None:
    before = dict(mpl.rcParams)
    assert plot_survival(curve(), ax=ax) is ax
    save(ax)
    assert before == dict(mpl.rcParams)
    x, y = drawn(ax, "all")
    assert (x[::2], y[::2]) == ([0, 3, 5, 8, 9], [1, 0.6, 0.6, 0.24, 0.24])
    assert drawn(ax, "all censored") == ([5, 9], [0.6, 0.24])
    assert title(ax) == "Half of 10 runs end within 8 steps"
    assert note(ax) == (
        "10 runs. 3 runs censored (strokes): they count as running until then. Bands: pointwise 95% intervals. "
        "Under the ticks: runs still observed."
    )


def test_under_each_tick_stands_how_many_runs_are_still_observed(ax: Axes) -> None:
    plot_survival(curve(), ax=ax)
    found = {text.xy[0]: text.get_text() for text in ax.texts if text.get_gid() == "at risk"}  # type: ignore[attr-defined]
    assert {x: int(text) for x, text in found.items()} == {
        x: next((n for t, n in zip([3, 5, 8, 9], [10, 6, 5, 2], strict=True) if t >= x), 0) for x in found
    }


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (curve(of="tokens", survival=[0.5, 0.5, 0.4, 0.4]), "Half of 10 runs end within 3 tokens"),
        (curve(of="tool_calls", survival=0.6), "More than half of 10 runs take more than 9 tool calls"),
        (
            curve(ended=0, censored=[1, 1, 0, 0], survival=1.0),
            "Both runs are censored: how long they take is not known",
        ),
        (curve(ended=[1, 0, 0, 0], censored=0)[:1], "The one run ends after 3 steps"),
        (curve(ended=0, censored=[1, 0, 0, 0])[:1], "The one run is censored after 3 steps"),
        (by_agent("a", "b"), "In each of 2 groups half of the runs end within 8 steps"),
        (
            pd.concat([by_agent("a"), by_agent("b", survival=0.4)]),
            "Half of the runs end within 3 steps (b) to 8 (a)",
        ),
        (by_agent("a", "b", survival=0.9), "In none of 2 groups half of the runs end"),
    ],
)
def test_the_title_of_survival_says_when_half_have_ended(data: pd.DataFrame, expected: str, ax: Axes) -> None:
    plot_survival(data, ax=ax)
    draw(ax)
    assert title(ax) == expected


def test_groups_are_labelled_with_their_size_and_are_no_markup(ax: Axes) -> None:
    plot_survival(by_agent("a", UGLY), ax=ax)
    draw(ax)
    assert labels(ax) == ["a (10)", f"{UGLY} (10)"]
    with pytest.raises(SettingError, match="40 groups by agent"):
        plot_survival(by_agent(*map(str, range(40))), ax=ax)


def test_incidence_draws_success_and_failure(ax: Axes) -> None:
    plot_survival(curve(), incidence=True, ax=ax)
    assert drawn(ax, "success")[1][::2] == [0, 0.1, 0.1, 0.4, 0.4]
    assert drawn(ax, "failure")[1][::2] == [0, 0.3, 0.3, 0.36, 0.36]
    assert title(ax) == "40% of 10 runs end in success, 36% in failure, the rest unknown"
    assert labels(ax) == ["success", "failure"]
    assert "Success by label." in note(ax)


def test_without_labels_there_is_no_incidence(ax: Axes) -> None:
    data = curve(success=pd.array([None] * 4, dtype="Float64"), failure=pd.array([None] * 4, dtype="Float64"))
    plot_survival(data, incidence=True, ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no labels: which runs succeeded is not known"]


def test_runs_are_counted_by_survival_itself(ax: Axes) -> None:
    plot_survival(RUNS, ax=ax)
    other = plot_survival(RUNS[:1], ax=Figure(figsize=(9, 5)).subplots())
    assert note(ax).startswith("7 runs. 5 runs censored")
    assert title(other) == "The one run ends after 4 steps"
    assert [text.get_text() for text in plot_survival([], ax=Figure().subplots()).texts] == ["no runs"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (curve().drop(columns="at_risk"), "no column 'at_risk': expected one like survival makes"),
        (pd.concat([curve(), curve(of="tokens")]), "of=steps, tokens: expected one of steps, tool_calls, tokens"),
        (curve(of="miles"), "of=miles"),
    ],
)
def test_the_wrong_frame_of_survival_is_an_error(data: Any, message: str, ax: Axes) -> None:
    with pytest.raises(SettingError, match=message):
        plot_survival(data, ax=ax)


# --- plot_scorecard ---------------------------------------------------------------------------------------------------

SCORES = ("rule", "alarms", "true_alarms", "precision", "recall", "clean_threshold", "lost")


def scores(*data: tuple[Any, ...], **columns: Any) -> pd.DataFrame:
    frame: Any = pd.DataFrame(data, columns=SCORES)
    frame = frame.assign(n_runs=50, n_positive=29, false_alarms=frame["alarms"] - frame["true_alarms"])
    frame = frame.assign(missed=29 - frame["true_alarms"], positive_is="failed", confidence=0.9, saved_steps=310)
    frame = frame.assign(saved_cost_usd=NA, successes_lost_lower=0, successes_lost_upper=frame.pop("lost"))
    for name in ("precision", "recall"):
        frame[name] = frame[name].astype("Float64")
        frame = frame.assign(**{f"{name}_low": frame[name] - 0.1, f"{name}_high": frame[name] + 0.05})
    return frame.assign(**columns)  # type: ignore[no-any-return]


LOUD = ("loud", 12, 9, 0.75, 9 / 29, NA, 1)
SURE = ("sure", 6, 6, 1.0, 6 / 29, 3, 0)
MUTE = ("mute", 0, 0, NA, 0.0, NA, 0)


def test_a_row_says_its_counts_with_their_bases(ax: Axes) -> None:
    before = dict(mpl.rcParams)
    assert plot_scorecard(scores(LOUD, SURE, MUTE), ax=ax) is ax
    draw(ax)
    assert before == dict(mpl.rcParams)
    assert rows(ax) == ["loud", "sure", "mute"]
    assert ends(ax) == [
        "12 alarms, 9 true\nlost 0-1 of 21 successes\nsaved 310 steps",
        "6 alarms, 6 true; none false from 3 up\nlost 0 of 21 successes\nsaved 310 steps",
        "no alarms",
    ]
    assert note(ax) == "50 runs. To find: 29 (failed). Lines: 90% intervals. 1 rule without a known precision."


def test_points_are_the_ratios_and_na_is_said_and_not_drawn(ax: Axes) -> None:
    plot_scorecard(scores(LOUD, MUTE), ax=ax)
    assert drawn(ax, "precision")[0] == pytest.approx([0.75, float("nan")], nan_ok=True)
    assert drawn(ax, "recall")[0] == pytest.approx([9 / 29, 0])
    assert labels(ax, "undefined") == ["no alarms"]
    markers = {item.get_label(): item.get_marker() for item in ax.lines}
    assert markers["precision"] != markers["recall"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (scores(LOUD), "loud is right in 9 of 12 alarms and finds 9 of 29 failed runs"),
        (scores(MUTE), "mute raises no alarm"),
        (scores(MUTE, MUTE), "None of 2 rules raises an alarm"),
        (scores(LOUD, SURE, MUTE), "sure raises no false alarm and finds 6 of 29 failed runs"),
        (scores(SURE, SURE), "2 of 2 rules raise alarms and no false one; sure finds most, 6 of 29 failed runs"),
        (scores(LOUD, LOUD), "No rule is without false alarms; loud is right most often, in 9 of 12"),
        (
            scores(LOUD, LOUD, alarms=pd.array([None] * 2, dtype="Int64")),
            "How often 2 rules raise an alarm is not known",
        ),
    ],
)
def test_the_title_of_a_scorecard_says_which_rule_does_best(data: pd.DataFrame, expected: str, ax: Axes) -> None:
    plot_scorecard(data, ax=ax)
    draw(ax)
    assert title(ax) == expected


def test_groups_and_ugly_names_and_many_rules_are_drawn(ax: Axes) -> None:
    data = scores(LOUD, SURE).assign(agent=["a", UGLY])
    plot_scorecard(data[["agent", *(name for name in data if name != "agent")]], ax=ax)
    draw(ax)
    assert rows(ax) == ["loud, a", f"sure, {UGLY}"]
    plot_scorecard(scores(*[LOUD, MUTE] * 100), ax=Figure(figsize=(3, 2), layout="constrained").subplots())
    draw(ax)


def many_groups(n: int, *, rules: int = 2) -> pd.DataFrame:
    """Groups with different base rates, each with the same rules; lift is known to be above 1 in half of them."""
    parts = [
        scores(LOUD, SURE, MUTE)
        .iloc[:rules]
        .assign(
            agent=f"agent {i} with a name",
            n_positive=10 + i,
            lift_low=[1.2 if i % 2 else 0.8, 0.5, float("nan")][:rules],
        )
        for i in range(n)
    ]
    frame = pd.concat(parts, ignore_index=True)
    return frame[["agent", *(name for name in frame if name != "agent")]]


@pytest.mark.slow
def test_twenty_groups_have_a_row_each_in_a_panel_for_each_rule() -> None:
    data = many_groups(20, rules=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = plot_scorecard(data)
        draw(first)
    panels = [panel for panel in first.get_figure().axes if panel.axison]  # type: ignore[union-attr] # it is in one
    assert [panel.get_title(loc="left") for panel in panels] == ["loud", "sure", "mute"]
    assert rows(first) == [f"agent {i} with a name" for i in reversed(range(20))]  # by their base rates
    base = next(one for one in first.collections if one.get_label() == "base rate")
    assert [segment[0][0] for segment in base.get_segments()] == [(10 + i) / 50 for i in reversed(range(20))]  # type: ignore[attr-defined]
    assert drawn(first, "precision")[0] == pytest.approx([0.75] * 20)
    assert "loud is right more often than random alarms in 10 of 20 groups" in first.get_figure().get_suptitle()  # type: ignore[union-attr]


def test_a_group_that_lacks_a_rule_has_an_empty_row_there() -> None:
    data = many_groups(12)
    first = plot_scorecard(data.drop(index=[1]).drop(columns="lift_low"))  # the second rule of the first group
    draw(first)
    panels = [panel for panel in first.get_figure().axes if panel.axison]  # type: ignore[union-attr]
    assert pd.isna(drawn(panels[1], "precision")[0][-1])
    assert pd.notna(drawn(panels[0], "precision")[0]).all()
    assert "What 2 rules find in 12 groups" in first.get_figure().get_suptitle()  # type: ignore[union-attr]
    none = plot_scorecard(many_groups(12).assign(lift_low=0.5))
    assert "In none of 12 groups" in none.get_figure().get_suptitle()  # type: ignore[union-attr]


@pytest.mark.slow
def test_given_axes_hold_all_rows_and_too_many_rules_are_refused(ax: Axes) -> None:
    assert len(plot_scorecard(many_groups(6), ax=ax).get_yticks()) == 12
    many = pd.concat([many_groups(2).assign(rule=f"rule {i}") for i in range(31)])
    with pytest.raises(SettingError, match="31 rules: choose at most 30"):
        plot_scorecard(many)


def test_a_scorecard_of_nothing_and_a_wrong_one(ax: Axes) -> None:
    with pytest.raises(SettingError, match="no column 'precision_low': expected one like scorecard makes"):
        plot_scorecard(scores(LOUD).drop(columns="precision_low"), ax=ax)
    with pytest.raises(SettingError, match="expected what scorecard returns, or its frame, not list"):
        plot_scorecard(cast("Any", [1]), ax=ax)
    plot_scorecard(scores(LOUD)[:0], ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no rules"]


# --- plot_timeline ----------------------------------------------------------------------------------------------------

MIXED = play([{"tool_calls": [call("look"), call("fail")], "text": "I look."}, *steps("A A A A", None)], doom_loop=4)


def long(n: int, turns: int = 1, *, times: bool = True, dropped: bool = False) -> Any:
    """A run of n steps with a call each, some of which failed, are unknown or were dropped."""
    made = []
    for i in range(n):
        result = None if dropped and i % 7 == 0 else ToolResult(str(i), "", [True, False, False, None][i % 4])
        asked = ToolCall(str(i), f"tool {i % 30}", f'{{"x": {i // 3}}}')
        step = Step(i + 1, 1 + i * turns // n, i * 1000, 900, 400, Response("", (asked,)), (result,))
        made.append(step if times else step._replace(start_ms=None, duration_ms=None, model_ms=None))
    stop = Stop("finished", n)
    return dataclasses.replace(MIXED, steps=tuple(made), stop=stop, limits={}, sentinel=None, wrap_up=None)


def test_every_call_is_a_mark_in_the_lane_of_its_tool(ax: Axes) -> None:
    before = dict(mpl.rcParams)
    assert plot_timeline(MIXED, ax=ax) is ax
    draw(ax)
    assert before == dict(mpl.rcParams)
    assert rows(ax) == ["model text", "look", "fail", "same call"]
    assert drawn(ax, "model text") == ([1], [0])
    assert drawn(ax, "failed")[1] == [2]
    assert [round(x) for x in drawn(ax, "ok")[0]] == [1, 2, 3, 4, 5]
    assert labels(ax, "streak") == ["4 in a row"]
    assert title(ax) == "The run ends in a doom loop after 5 steps; 1 of 6 calls failed"


def test_stop_mark_has_its_reason_colour_and_its_boundary(ax: Axes) -> None:
    plot_timeline(MIXED, ax=ax)
    (stop,) = [item for item in ax.lines if item.get_label() == "stop"]
    assert list(stop.get_xdata()) == [5.5, 5.5]  # type: ignore[arg-type]
    assert to_rgba(stop.get_color()) == to_rgba(STOP_LOOKS["doom_loop"].ink)


def test_marks_have_the_looks_of_calls(ax: Axes) -> None:
    plot_timeline(long(40, dropped=True), ax=ax)
    markers = {item.get_label(): item.get_marker() for item in ax.lines}
    assert {name: markers[name] for name in CALL_LOOKS} == {name: look.marker for name, look in CALL_LOOKS.items()}
    assert rows(ax)[-1] == "other tools"
    assert "6 calls dropped: paid for, never executed." in note(ax)


def test_time_is_in_seconds_and_unknown_times_fall_back_to_steps(ax: Axes) -> None:
    plot_timeline(long(4), axis="time", ax=ax)
    assert drawn(ax, "failed")[0] == [0.4]
    assert ax.get_xlabel() == "seconds from the start"
    other = plot_timeline(long(4, times=False), axis="time", ax=Figure().subplots())
    assert other.get_xlabel() == "step"
    assert "Times are not on record: drawn by step." in note(other)


def test_very_long_step_leaves_room_for_the_others(ax: Axes) -> None:
    run = long(40)
    later = 3_600_000
    steps = [*run.steps[:20], *(step._replace(start_ms=step.start_ms + later) for step in run.steps[20:])]
    plot_timeline(dataclasses.replace(run, steps=tuple(steps)), axis="time", ax=ax)
    assert ax.get_xlabel() == "time from the start"
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert (labels[0], labels[-1]) == ("0 ms", "1 h 0 min")
    assert "step 20 takes 1 h 0 min, and the median step 1.0 s." in note(ax)
    places = np.sort(np.concatenate([drawn(ax, name)[0] for name in ("ok", "failed")]))
    assert np.diff(places).max() < 0.25 * (ax.get_xlim()[1] - ax.get_xlim()[0])


def test_turns_are_set_apart(ax: Axes) -> None:
    plot_timeline(long(30, turns=3), ax=ax)
    assert labels(ax, "turn") == ["turn 1", "turn 2", "turn 3"]
    assert [item.get_xdata()[0] for item in ax.lines if item.get_label() == "turn"] == [10.5, 20.5]  # type: ignore[index]
    assert "30 steps, 30 calls, 3 turns." in note(ax)


def test_a_step_cap_that_was_not_met_is_shown(ax: Axes) -> None:
    plot_timeline(play(distinct(3), max_steps=5), ax=ax)
    assert labels(ax, "limit") == ["cap 5"]
    assert "Limits: 5 steps" in note(ax)


@pytest.mark.slow
def test_five_thousand_steps_are_strokes(ax: Axes) -> None:
    plot_timeline(long(5000, turns=60), ax=ax)
    draw(ax)
    assert {item.get_marker() for item in ax.lines if item.get_label() in CALL_LOOKS} == {"|"}
    assert "Long strokes: failed." in note(ax)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (play(["Hi."]), "The run finishes after 1 step"),
        (play(distinct(1)), "The run finishes after 2 steps; its one call did not fail"),
        (play(distinct(9), max_steps=4), "The run ends at the step cap after 4 steps; none of 4 calls failed"),
    ],
)
def test_the_title_of_a_run_says_how_it_ended(run: Any, expected: str, ax: Axes) -> None:
    plot_timeline(run, ax=ax)
    assert title(ax) == expected


@pytest.mark.parametrize("run", first(2, [*RUNS, long(3, times=False)]), ids=lambda run: run.stop_reason)
def test_every_run_is_drawn_small_and_dark(run: Any) -> None:
    with mpl.rc_context({"text.color": "white", "axes.facecolor": "black", "figure.facecolor": "black"}):
        for axis in ("steps", "time"):
            draw(plot_timeline(run, axis=axis, ax=Figure(figsize=(3, 2), layout="constrained").subplots()))


def test_wrong_arguments_of_a_timeline(ax: Axes) -> None:
    with pytest.raises(SettingError, match=r"draws one run, not 7: choose one, as in runs\[0\]"):
        plot_timeline(RUNS, ax=ax)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="axis='step': expected steps, time"):
        plot_timeline(RUNS[0], axis="step", ax=ax)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a Run"):
        plot_timeline(pd.DataFrame({"a": [1]}), ax=ax)  # type: ignore[arg-type]
