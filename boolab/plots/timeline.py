"""One run, from its first step to its stop."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from boolab.core.run import Run, stop_place
from boolab.core.text import count, shorten
from boolab.core.types import MICRO
from boolab.display.numbers import duration
from boolab.display.text import NO_NAME
from boolab.errors import SettingError
from boolab.frames.runs import as_runs
from boolab.frames.tables import boundaries_df, calls_df, steps_df
from boolab.limits.catalog import doom_loop
from boolab.limits.table import COUNTERS
from boolab.plots import style
from boolab.plots._frames import format_missing
from boolab.plots.bars import ends, outcomes_of
from boolab.plots.palette import CALL_LOOKS, STOP_LOOKS, UNKNOWN, Ink

_TEXT, _REPEATS, _OTHER_TOOLS = "model text", "same call", "other tools"
MAX_NAME: Final = 24
_MAX_EACH_TICK: Final = 10  # steps: each has a tick
_DENSE: Final = 2.8  # points: smaller marks are strokes
MAX_LANES: Final = 14  # of tools; the others share one
MAX_TURNS: Final = 40  # with more, turns are not separated


_OUTLIER: Final = 20.0  # times the median: such a step would leave the others no room
_XLABELS: Final = {"steps": "step", "time": "seconds from the start", "log time": "time from the start"}


class _StepAxis(NamedTuple):
    """Where steps stand: the middle of each step, the boundaries before the first and after each, the unit."""

    middles: Any
    edges: Any
    calls: Any
    unit: str
    note: str
    seconds: Any = None


def plot_timeline(
    run: Run, *, axis: Literal["steps", "time"] = "steps", title: str | None = style.AUTO, ax: Axes | None = None
) -> Axes:
    """What a run did, step by step: a lane for each tool, a mark for each call, and where and why it stopped.

    The lane "model text" has a dot for each step with text. The height of the lane "same call" is the number
    of repetitions in a row after the step, as the run's own detector counts them.

    Args:
        run: The run.
        axis: "steps", or "time", from the start; where the record lacks times, steps are used. Where one step takes far
            longer than most, widths are the logarithm of times.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes.

    Raises:
        SettingError: if there is more or less than one run, or the axis is not one of those above.

    Example:
        >>> import boolab as bl
        >>> from matplotlib.figure import Figure
        >>> script = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}]}, "Done."], tools={"ls": "a.py"})
        >>> run = bl.run_sync(None, "Look", model=script)
        >>> bl.plots.plot_timeline(run, ax=Figure(figsize=(9, 4)).subplots()).get_title(loc="left")
        'The run finishes after 2 steps; its one call did not fail'
    """
    if axis not in ("steps", "time"):
        raise SettingError(f"axis={axis!r}: expected steps, time")
    runs = as_runs(run)
    if len(runs) != 1:
        raise SettingError(f"plot_timeline draws one run, not {len(runs)}: choose one, as in runs[0]")
    (run,) = runs
    steps, calls = steps_df(run), calls_df(run)
    if steps.empty:
        return style.empty_axes(ax, f"no steps: the run {ends(run.stop_reason, 1)}")
    outcomes = outcomes_of(calls)
    step_axis = _axis(run, steps, calls, axis)
    streak = _streak(run, steps)
    lanes, lane = _lanes(calls, MAX_NAME // 2 if ax is not None and style.is_small(ax) else MAX_NAME)
    if streak.max() > 1:
        lanes.append(_REPEATS)
    ax = style.rows_axes(ax, lanes, outcomes, 0.36)
    ax.set_ylim(len(lanes) - 0.5, -0.75)
    style.count_ticks(ax, ax.xaxis)
    if step_axis.unit == "steps" and len(steps) <= _MAX_EACH_TICK:
        ax.set_xticks(range(1, len(steps) + 1))
    first, last = float(step_axis.edges[0]), float(step_axis.edges[-1])
    if step_axis.unit == "log time":
        _time_ticks(ax, step_axis)
    ax.set_xlim(first - 0.005 * (last - first), last + 0.02 * (last - first))
    size = min(6.5, style.room(ax) / len(steps) * 0.8, style.row_height(ax, len(lanes)) * 0.45)
    _draw_text(ax, steps, step_axis, size)
    _draw_calls(ax, outcomes, lane, step_axis, size)
    if lanes[-1] == _REPEATS:
        _draw_streak(ax, streak, step_axis, len(lanes) - 1)
    turns = _draw_turns(ax, steps, step_axis)
    _draw_limit(ax, run, step_axis, turns)
    _draw_stop(ax, run, steps, step_axis)
    xlabel = _XLABELS[step_axis.unit]
    stop = style.marker_key(ax, STOP_LOOKS[run.stop_reason], f"stop: {run.stop_reason}")
    key = [*style.key_of(ax, outcomes, CALL_LOOKS, markers=True), stop]
    finding = _title(run, outcomes, short=style.is_small(ax))
    notes = _notes(ax, run, calls, outcomes, step_axis, streak, turns)
    return style.finish(ax, title=style.choose_title(title, finding), xlabel=xlabel, ylabel="", grid=ax.yaxis, key=key,
                        notes=notes, subject="One run, step by step")  # fmt: skip


def _axis(run: Run, steps: pd.DataFrame, calls: pd.DataFrame, axis: str) -> _StepAxis:
    """Steps by number, or by time; a call a little behind the one before it, or after its model's response."""
    step_indices = calls["step"].to_numpy(dtype=int) - 1
    note = ""
    if axis == "time":
        start, durations = steps["start_ms"], steps["duration_ms"]
        if start.notna().all() and durations.iloc[-1] is not pd.NA and float(start.iloc[-1] + durations.iloc[-1]) > 0:
            begin = start.to_numpy(dtype=float) / 1000
            model = np.array([step.model_ms or 0 for step in run.steps], dtype=float) / 1000
            end = begin[-1] + float(durations.iloc[-1]) / 1000
            return _time_axis(np.append(begin, end), model, step_indices)
        note = "Times are not on record: drawn by step."
        if start.notna().all() and durations.notna().all():
            note = "No time passed: drawn by step."
    n = len(steps)
    middles, edges = np.arange(1, n + 1, dtype=float), np.arange(n + 1) + 0.5
    sizes = calls.groupby("step")["call"].transform("size").to_numpy(dtype=float)
    spread = ((calls["call"].to_numpy(dtype=float) - 0.5) / sizes - 0.5) * 0.7 if len(calls) else np.zeros(0)
    return _StepAxis(
        middles, edges, middles[step_indices] + spread if len(step_indices) else step_indices, "steps", note
    )


def _time_axis(edges: Any, model: Any, step_indices: Any) -> _StepAxis:  # noqa: ANN401 - arrays
    """Steps by time; where one step takes far longer than most, each is as wide as the logarithm of its time."""
    durations = np.diff(edges)
    usual = float(np.median(durations[durations > 0])) if (durations > 0).any() else 0.0
    if not usual or durations.max() < _OUTLIER * usual:
        return _StepAxis(
            edges[:-1], edges, (edges[:-1] + model)[step_indices] if len(step_indices) else step_indices, "time", ""
        )
    ends = np.append(0, np.cumsum(np.log1p(np.maximum(durations, 0) / usual)))
    first = ends[:-1] + np.log1p(np.clip(model, 0, np.maximum(durations, 0)) / usual)
    longest = int(durations.argmax())
    note = (
        f"Each step is as wide as the logarithm of its time: step {longest + 1:,} takes "
        f"{duration(round(1000 * float(durations[longest])))}, and the median step {duration(round(1000 * usual))}."
    )
    return _StepAxis(
        ends[:-1], ends, first[step_indices] if len(step_indices) else step_indices, "log time", note, edges
    )


def _time_ticks(ax: Axes, step_axis: _StepAxis) -> None:
    """The time at boundaries of steps that are about evenly apart."""
    targets = np.linspace(step_axis.edges[0], step_axis.edges[-1], 4 if style.is_small(ax) else 7)
    edge_indices = np.unique(np.abs(step_axis.edges[:, None] - targets).argmin(axis=0))
    ax.set_xticks(
        step_axis.edges[edge_indices],
        [duration(round(1000 * float(step_axis.seconds[edge_index]))) for edge_index in edge_indices.tolist()],
    )


def _lanes(calls: pd.DataFrame, max_chars: int) -> tuple[list[str], Any]:
    """The lanes from the top, and the lane of each call: tools stand as they first appear."""
    names = calls["tool"].astype(object).fillna("").replace("", NO_NAME)  # a string column accepts no lone surrogates
    order = list(dict.fromkeys(names))
    if len(order) > MAX_LANES:
        frequent = set(names.value_counts().index[: MAX_LANES - 1])
        order = [name for name in order if name in frequent] + [_OTHER_TOOLS]
    lane_rows = {name: row for row, name in enumerate(order, 1)}
    return [_TEXT, *(shorten(name, max_chars) for name in order)], names.map(
        lambda name: lane_rows.get(name, len(order))
    ).to_numpy(dtype=float)


def _streak(run: Run, steps: pd.DataFrame) -> npt.NDArray[Any]:
    """For each step, how often a call was repeated in a row up to a call of it, at most."""
    rows = boundaries_df(run, doom_loop(2, run.identity))
    (name,) = [column for column in rows.columns[3:] if column not in COUNTERS]
    out = np.zeros(len(steps))
    start = steps.groupby("turn", sort=False)["step"].transform("min").groupby(steps["turn"]).first().to_dict()
    rows = rows[rows["boundary"] > 0]
    step_indices = [int(start[turn]) + int(k) - 2 for turn, k in zip(rows["turn"], rows["boundary"], strict=True)]
    out[step_indices] = rows[name].fillna(0).to_numpy(dtype=float)
    return out


def _draw_text(ax: Axes, steps: pd.DataFrame, step_axis: _StepAxis, size: float) -> None:
    """A dot for each step with text."""
    mask = (steps["text_chars"] > 0).to_numpy(dtype=bool)
    color = style.fade(ax, 0.45)
    look = _mark(ax, "o", size * 0.7, color, color, 0.3)
    ax.plot(step_axis.middles[mask], np.zeros(int(mask.sum())), linestyle="", label=_TEXT, zorder=3, **look)


def _mark(ax: Axes, marker: str, size: float, fill: Ink, edge: Ink, height: float) -> dict[str, Any]:
    """How a mark is drawn: where there is room for a point or so, as a stroke of that part of its lane's height."""
    if size >= _DENSE:
        edges = {"markeredgecolor": edge, "markeredgewidth": min(0.6, size / 6)}
        return {"marker": marker, "markersize": size, "markerfacecolor": fill, **edges}
    lane = style.row_height(ax, 1) / (ax.get_ylim()[0] - ax.get_ylim()[1])
    return {"marker": "|", "markersize": lane * height, "markeredgecolor": edge, "markeredgewidth": max(0.5, size)}


def _draw_calls(ax: Axes, outcomes: pd.Series[str], lane: npt.NDArray[Any], step_axis: _StepAxis, size: float) -> None:
    """A mark for each call: failures last, so that they stand above the others."""
    for name in ("ok", "dropped", UNKNOWN, "failed"):
        look = CALL_LOOKS[name]
        mask = (outcomes == name).to_numpy(dtype=bool)
        if mask.any():
            fill = look.ink if name == UNKNOWN else style.area(ax, look)
            dense = size < _DENSE
            edge = style.area(ax, look) if dense and look.fill != "none" else style.edge(ax, look)
            marker_style = _mark(ax, look.marker, size, fill, edge, 0.75 if name == "failed" else 0.4)
            zorder = 5 if name == "failed" else 4
            ax.plot(step_axis.calls[mask], lane[mask], linestyle="", label=name, zorder=zorder, **marker_style)


def _is_dense(ax: Axes, steps: int) -> bool:
    """Whether there are so many steps that marks are strokes."""
    return steps * _DENSE > style.room(ax) * 0.8


def _draw_streak(ax: Axes, streak: npt.NDArray[Any], step_axis: _StepAxis, row: int) -> None:
    """How often a call was repeated in a row; the longest streak is labelled."""
    color = style.edge(ax, STOP_LOOKS["doom_loop"])
    longest = float(streak.max())
    height = np.where(streak > 1, streak / longest * 0.8, 0)
    edges = np.repeat(step_axis.edges, 2)[1:-1]
    top = row + 0.4 - np.repeat(height, 2)
    ax.fill_between(edges, row + 0.4, top, top < row + 0.4, color=color, linewidth=0.7, label=_REPEATS, zorder=3)
    if _is_dense(ax, len(streak)):
        return  # the note has it
    index = int(streak.argmax())
    halo = [withStroke(linewidth=2.5, foreground=style.ground(ax))]
    side = {"ha": "right"} if index + 1 > 0.8 * len(streak) else {"ha": "left"}
    x, offset = (float(step_axis.edges[index + 1]), 3) if side["ha"] == "left" else (float(step_axis.edges[index]), -3)
    text_style: dict[str, Any] = {"va": "center", "gid": "streak", "zorder": 6, "path_effects": halo, **side}
    style.annotate(ax, f"{longest:.0f} in a row", (x, row), (offset, 0), **text_style)


def _draw_turns(ax: Axes, steps: pd.DataFrame, step_axis: _StepAxis) -> int:
    """A thin line before each turn; how many turns there are."""
    turn = steps["turn"].to_numpy(dtype=int)
    starts = [i for i, (a, b) in enumerate(pairwise(turn), 1) if a != b]
    if len(starts) + 1 > MAX_TURNS:
        return len(starts) + 1
    for i in starts:
        ax.axvline(float(step_axis.edges[i]), color=style.fade(ax, 0.3), linewidth=0.8, zorder=1.5, label="turn")
    if starts and style.row_height(ax, len(ax.get_yticks())) > 1.6 * style.sizes(ax).note:
        gap = style.text_width(f"turn {len(starts) + 1}", style.sizes(ax).note) + 6
        scale = style.room(ax) / (float(step_axis.edges[-1]) - float(step_axis.edges[0]))
        free = float("-inf")
        for i in [0, *starts]:
            x = float(step_axis.edges[i])
            if (x - free) * scale >= 0 and (float(step_axis.edges[-1]) - x) * scale >= gap:
                style.annotate(ax, f"turn {turn[i]}", (x, -0.72), (2, -1), 0.6, va="top", gid="turn")
                free = x + gap / scale
    return len(starts) + 1


def _draw_limit(ax: Axes, run: Run, step_axis: _StepAxis, turns: int) -> None:
    """The step cap, where it stands within the figure and did not stop the run."""
    cap = run.limits.get("steps")
    if cap is None or turns > 1 or step_axis.unit != "steps" or run.stop_reason == "step_cap":
        return
    if cap + 0.5 <= ax.get_xlim()[1] * 1.35:
        ax.set_xlim(right=max(ax.get_xlim()[1], cap + 0.8))
        ax.axvline(cap + 0.5, color=style.fade(ax, 0.6), linewidth=1, linestyle=(0, (4, 3)), zorder=2, label="limit")
        style.annotate(ax, f"cap {cap:,}", (cap + 0.5, -0.72), (-3, -1), 0.7, va="top", ha="right", gid="limit")


def _draw_stop(ax: Axes, run: Run, steps: pd.DataFrame, step_axis: _StepAxis) -> None:
    """A line where the run stopped, in the colour of the reason."""
    look = STOP_LOOKS[run.stop_reason]
    last = int((steps["turn"] == steps["turn"].iloc[-1]).sum())
    boundary = len(steps) if not run.censored else len(steps) - last + min(run.stop_step, last)
    x = float(step_axis.edges[boundary])
    ink = style.edge(ax, look)
    ax.axvline(x, color=ink, linewidth=2, zorder=2.3, label="stop")
    ax.plot([x], [1], transform=ax.get_xaxis_transform(), marker=look.marker, markersize=8, clip_on=False,
            markerfacecolor=style.area(ax, look), markeredgecolor=ink, markeredgewidth=0.8, zorder=7)  # fmt: skip


def _title(run: Run, outcomes: pd.Series[str], *, short: bool) -> str:
    failed, ok = (int((outcomes == name).sum()) for name in ("failed", "ok"))
    known_count = failed + ok
    calls = ""
    if known_count == 1:
        calls = f"; its one call {'failed' if failed else 'did not fail'}"
    elif known_count:
        calls = f"; {f'{failed:,}' if failed else 'none'} of {known_count:,} calls failed"
    elif len(outcomes):
        calls = f"; whether its {count(len(outcomes), 'call')} failed is not known"
    return f"The run {ends(run.stop_reason, 1)} {stop_place(run)}{'' if short else calls}"


def _notes(
    ax: Axes,
    run: Run,
    calls: pd.DataFrame,
    outcomes: pd.Series[str],
    step_axis: _StepAxis,
    streak: npt.NDArray[Any],
    turns: int,
) -> Iterable[str]:
    name = " by ".join(filter(None, [shorten(run.task, 40), shorten(run.agent, 20)]))
    small = style.is_small(ax)
    yield f"{name}." if name and not small else ""
    yield f"{count(run.n_steps, 'step')}, {count(len(calls), 'call')}{f', {turns:,} turns' if turns > 1 else ''}."
    limits = [_limit(name, value) for name, value in run.limits.items()]
    if not small:
        yield f"Limits: {', '.join(limits)}." if limits else "No limits on record."
    if not small:  # there the key has it
        yield format_missing(int((outcomes == UNKNOWN).sum()), "call", "of unknown error status")
        yield format_missing(int((outcomes == "dropped").sum()), "call", "dropped: paid for, never executed")
    if _is_dense(ax, len(run.steps)) and not small:
        yield "Long strokes: failed."
        yield f"The same call at most {max(streak):,.0f} times in a row." if max(streak) > 1 else ""
    if len(calls) > 1 and max(streak) <= 1:
        yield "No call twice in a row."
    yield step_axis.note


def _limit(name: str, value: int) -> str:
    """A limit with its unit."""
    if name == "cost":
        return f"${value / MICRO:,.2f}"
    if name == "elapsed":
        return f"{value / 1000:,.10g} s"
    return f"{value:,} {name.partition(':')[0].replace('_', ' ')}"
