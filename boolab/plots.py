"""Frames as pictures: `plot_steps`, `plot_tools`, `plot_stop_reasons`, and the style that every plot shares.

A plot draws a frame and computes no more than counts. It takes the frame, or runs, and an `ax`; it returns the Axes and
leaves matplotlib's settings alone: text keeps the colour and font of the user's own style, and greys are that colour
faded towards the background, so that dark styles work too. Figures that it makes itself use the constrained layout;
give your own the same (`plt.subplots(2, 2, layout="constrained")`), or long names and small lines may overlap.

One colour has one meaning in all of boolab, and never stands alone: a hatch or a shape and a word go with it. What a
stop reason looks like is `STOP_LOOKS`, what became of a call `CALL_LOOKS`.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

import matplotlib as mpl
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator, StrMethodFormatter
from matplotlib.transforms import ScaledTranslation

from boolab.errors import SettingError
from boolab.frames import Runs, calls_df, runs_df
from boolab.types import StopReason

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase

Data: TypeAlias = "Runs | pd.DataFrame"
Color: TypeAlias = tuple[float, float, float]

# --- What things look like --------------------------------------------------------------------------------------------

KEPT: Final = "#0072b2"
SAVED: Final = "#d55e00"
WRONG: Final = "#b3261e"
TOOL_COLOURS: Final = {
    "execute": SAVED,
    "write": "#e69f00",
    "search": "#009e73",
    "read": "#56b4e9",
    "subagent": "#cc79a7",
}
"""What a tool does, by colour. Stop reasons use none of these hues, so that one figure can show both."""


class Look(NamedTuple):
    """How one meaning looks: the colour that fills it, that of its edge and hatch, its hatch, its marker.

    What is "none" is filled with the background.
    """

    fill: str
    ink: str
    hatch: str = ""
    marker: str = "o"


UNKNOWN: Final = "unknown"
"""What is shown where a source does not say: never left out, never counted as something else."""

_UNKNOWN_LOOK = Look("none", "#8b95a3", "///", "$?$")

STOP_LOOKS: Final[Mapping[str, Look]] = {
    "finished": Look(KEPT, "#00466d", "", "o"),
    "synthesis": Look("#a6cbe3", KEPT, "///", "P"),
    "paused": Look("#e4e7eb", "#8b95a3", "...", "h"),
    "step_cap": Look("#f0e442", "#8a7a00", "", "s"),
    "tool_budget": Look("#b39a1b", "#5e4d00", "", "D"),
    "doom_loop": Look("#3b2a63", "#1f1638", "", "X"),
    "token_budget": Look("#faf3b8", "#a08300", "///", "^"),
    "cost_budget": Look("#d9c25a", "#6b5800", "\\\\\\", "v"),
    "time_budget": Look("#faf3b8", "#6b5800", "...", "<"),
    "error_streak": Look("#9d8fc4", "#3b2a63", "xxx", "*"),
    "stuck": Look("#d6cfe8", "#3b2a63", "---", "p"),
    "aborted": Look("#6b7480", "#c5ccd5", "\\\\\\", "d"),
    "error": Look(WRONG, "#6d150f", "xx", ">"),
    UNKNOWN: _UNKNOWN_LOOK,
}
"""By stop reason, in their one order. Blue got done, yellow met a budget, violet repeated itself, red broke."""

CALL_LOOKS: Final[Mapping[str, Look]] = {
    "failed": Look(WRONG, "#7a1a14"),
    "ok": Look("#c5ccd5", "#8b95a3"),
    UNKNOWN: _UNKNOWN_LOOK,
    "dropped": Look("none", "#5b6675", "...."),
}
"""By what became of a call, in the order in which bars are stacked: failures start at the axis, to be compared."""

_VERBS: Final[Mapping[str, tuple[str, str, str]]] = {
    "finished": ("finishes", "finish", ""),
    "synthesis": ("ends", "end", " with a synthesis"),
    "paused": ("waits", "wait", " for an answer"),
    "step_cap": ("ends", "end", " at the step cap"),
    "tool_budget": ("ends", "end", " at the tool budget"),
    "doom_loop": ("ends", "end", " in a doom loop"),
    "token_budget": ("ends", "end", " at the token budget"),
    "cost_budget": ("ends", "end", " at the cost budget"),
    "time_budget": ("ends", "end", " at the time budget"),
    "error_streak": ("ends", "end", " in an error streak"),
    "stuck": ("gets", "get", " stuck"),
    "aborted": ("is", "are", " aborted"),
    "error": ("breaks", "break", " with an error"),
    UNKNOWN: ("ends", "end", " for an unknown reason"),
}
"""How a title says that one run, or several, ended that way."""

_PLAIN: Final[Mapping[str, Any]] = {"parse_math": False, "usetex": False}
"""For texts that hold names from the data: a `$` or a `_` in them is a character, not markup."""

_NAME_CHARS, _SMALL_NAME_CHARS = 32, 16
_MAX_GROUPS = 200  # rows; more are counted in the note
_FEW_RUNS = 40  # in a group: each is a dot
_MAX_PARTS = 400  # of bars: with more, none is labelled
_DARK = 0.3  # the luminance below which white is easier to read than black
_WIDTH, _HEIGHT = 7.2, 4.2  # inches


# --- The plots --------------------------------------------------------------------------------------------------------


def plot_steps(data: Data, *, by: str | None = None, ax: Axes | None = None) -> Axes:
    """How many steps runs take, by stop reason.

    Without `by`, a histogram: a bar is as high as it has runs. Its bins hold whole numbers of steps and end at round
    ones, where caps are; where the longest run is more than ten times the lower quartile, bins widen to the right and
    each says its range. With `by`, a row for each group: a dot is a run, or, where a group has more than 40 runs, a
    small histogram of the group's shares.

    Args:
        data: A run, runs, or a frame like `runs_df`.
        by: A column of that frame, such as "agent", "policy" or a setting that was swept.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes.

    Raises:
        SettingError: if the frame lacks a column or holds an unknown stop reason.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from boolab.models.scripted import ScriptedModel
        >>> from boolab.runner import run_sync
        >>> run = run_sync(None, "Hello", model=ScriptedModel(["Hi."]))
        >>> plot_steps(run, ax=Figure().subplots()).get_title(loc="left")
        'The one run takes 1 step'
    """
    runs = _table(data, runs_df, ["n_steps", "stop_reason"], by)
    known = runs[runs["n_steps"].notna()].reset_index(drop=True)
    if known.empty:
        return _say_nothing(ax, "no runs" if runs.empty else "no runs with a known number of steps")
    steps, reasons = known["n_steps"].astype("int64"), _reasons(known)
    notes = [_sample(runs), *_missing(len(runs) - len(known), "run", "not shown: number of steps unknown")]
    notes += [*_censored(known), *_unknown_reasons(reasons)]
    if by is None:
        ax = _axes(ax, _HEIGHT)
        bins = _bins(steps, _room(ax))
        _draw_histogram(ax, steps, reasons, bins)
        _label_bins(ax, bins, bins.hint)
        key = _key(ax, reasons, STOP_LOOKS)
        _finish(ax, title=_steps_title(steps), ylabel="runs", grid="y", notes=notes, key=key)
        return ax
    groups = _groups(known, by)
    dots = max(groups.sizes) <= _FEW_RUNS
    ax = _axes(ax, _rows_height(groups.labels, reasons, 0.34 if dots else 0.6))
    _label_rows(ax, [f"{label} ({size:,})" for label, size in zip(groups.labels, groups.sizes, strict=True)], by)
    bins = _bins(steps, _room(ax))
    draw = _draw_dots if dots else _draw_small_histograms
    draw(ax, steps, reasons, bins, groups)
    _draw_medians(ax, steps, bins, groups)
    _label_bins(ax, bins, bins.hint if bins.names or not dots else "")
    notes += [
        "" if dots else "Heights: shares of a row's runs.",
        "Triangles: medians; in brackets: runs.",
        *groups.notes,
    ]
    key = _key(ax, reasons, STOP_LOOKS, markers=dots)
    _finish(ax, title=_medians_title(steps, groups, by), grid="x", notes=notes, key=key)
    return ax


def plot_tools(data: Data, *, top: int = 12, ax: Axes | None = None) -> Axes:
    """Calls by tool: which failed, which did not, of which nobody knows, and which were dropped.

    Args:
        data: A run, runs, or a frame like `calls_df`.
        top: How many tools to show, those with most calls first. The note under the figure counts the others.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes.

    Raises:
        SettingError: if the frame lacks a column, or `top` is not a number of tools.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from boolab.models.scripted import ScriptedModel
        >>> from boolab.runner import run_sync
        >>> script = ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": 2}, "Done."], tools={"ls": "a.py"})
        >>> plot_tools(run_sync(None, "Look", model=script), ax=Figure().subplots()).get_title(loc="left")
        'None of 2 calls failed'
    """
    if not isinstance(top, int) or isinstance(top, bool) or top < 1:
        msg = f"top={top!r}: expected an integer >= 1"
        raise SettingError(msg)
    calls = _table(data, calls_df, ["tool", "is_error", "dropped"])
    if calls.empty:
        return _say_nothing(ax, "no tool calls")
    outcomes = _outcomes(calls)
    tools = _tool_table(calls, outcomes)
    shown, rest = tools.iloc[:top], tools.iloc[top:]
    labels = [_shorten(str(name)) for name in shown.index]
    ax = _axes(ax, _rows_height(labels, outcomes))
    _draw_stacks(ax, shown, CALL_LOOKS)
    _label_rows(ax, labels, "")
    _label_ends(ax, shown, [_failures(row) for row in shown.to_dict("records")])
    total = tools.sum()
    notes = [_calls_sample(calls, len(tools)), *_missing(total[UNKNOWN], "call", "of unknown error status")]
    notes += _missing(total["dropped"], "call", "dropped: paid for, never executed")
    if len(rest):
        calls_of_rest = _count(int(rest.to_numpy().sum()), "call")
        failures = _failures(rest.sum().to_dict())
        notes.append(f"Not shown: {_count(len(rest), 'further tool')} with {calls_of_rest} ({failures}).")
    key = _key(ax, outcomes, CALL_LOOKS)
    _finish(ax, title=_tools_title(tools), xlabel="tool calls", grid="x", notes=notes, key=key)
    return ax


def plot_stop_reasons(data: Data, *, by: str | None = None, ax: Axes | None = None) -> Axes:
    """Why runs end: a bar for each group, divided by stop reason.

    Args:
        data: A run, runs, or a frame like `runs_df`.
        by: A column of that frame, "agent" by default; or "policy", a setting that was swept, ... Runs without a value
            are the group "none", which comes last.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes.

    Raises:
        SettingError: if the frame lacks a column or holds an unknown stop reason.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from boolab.models.scripted import ScriptedModel
        >>> from boolab.runner import run_sync
        >>> run = run_sync(None, "Hello", model=ScriptedModel(["Hi."]))
        >>> plot_stop_reasons(run, ax=Figure().subplots()).get_title(loc="left")
        'The one run finishes'
    """
    by = "agent" if by is None else by
    runs = _table(data, runs_df, ["stop_reason"], by)
    if runs.empty:
        return _say_nothing(ax, "no runs")
    reasons = _reasons(runs)
    groups = _groups(runs, by)
    table = _cross(groups.codes, reasons, STOP_LOOKS).loc[lambda counts: counts.index >= 0]
    ax = _axes(ax, _rows_height(groups.labels, reasons))
    bars = _draw_stacks(ax, table, STOP_LOOKS)
    _label_rows(ax, groups.labels, by)
    _label_inside(ax, bars)
    _label_ends(ax, table, [f"{size:,}" for size in groups.sizes])
    notes = [_sample(runs), *_unknown_reasons(reasons), *groups.notes]
    key = _key(ax, reasons, STOP_LOOKS)
    _finish(ax, title=_reasons_title(reasons), xlabel="runs", grid="x", notes=notes, key=key)
    return ax


# --- Data: checked, grouped, counted ----------------------------------------------------------------------------------


class _Groups(NamedTuple):
    """Rows of a plot: the row of each run (-1: not shown), the rows' labels and sizes, and what to say about them."""

    codes: pd.Series[int]
    labels: list[str]
    sizes: list[int]
    notes: list[str]


def _table(
    data: Data, make: Callable[[Runs], pd.DataFrame], needed: Sequence[str], by: str | None = None
) -> pd.DataFrame:
    """The frame that was given, or the one that `make` makes of runs; checked, and with an index of its own."""
    import pandas as pd  # noqa: PLC0415 - slow to import

    frame = data if isinstance(data, pd.DataFrame) else make(data)
    columns = list(frame.columns)
    for name in needed:
        if name not in columns:
            msg = f"the frame has no column {name!r}: expected one like {make.__name__} makes, or runs"
            raise SettingError(msg)
    if by is not None and by not in columns and len(frame):
        msg = f"by={by!r}: there is no such column; columns: {', '.join(map(str, columns))}"
        raise SettingError(msg)
    return frame.reset_index(drop=True)


def _reasons(runs: pd.DataFrame) -> pd.Series[str]:
    """The stop reason of each run, `UNKNOWN` where there is none."""
    reasons = runs["stop_reason"].astype("string").fillna(UNKNOWN)
    strange = sorted(set(reasons) - set(STOP_LOOKS))
    if strange:
        msg = f"stop_reason {strange[0]!r} is not one that boolab knows: expected {', '.join(get_args(StopReason))}"
        raise SettingError(msg)
    return reasons


def _groups(frame: pd.DataFrame, by: str) -> _Groups:
    """Numbers ascend, names stand as they first appear, and what has no value comes last, as "none".

    Of more groups than a figure can hold, those with most runs are kept.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    values = frame[by]
    if not pd.api.types.is_numeric_dtype(values):
        values = values.astype("string")
        values = values.mask(values == "")
    codes, names = pd.factorize(values, sort=pd.api.types.is_numeric_dtype(values))
    code = pd.Series(codes, index=frame.index)
    code = code.where(code >= 0, len(names))
    sizes = code.value_counts()
    kept = sorted(sizes.nlargest(_MAX_GROUPS).index)
    labels = [_shorten(_value(names[place])) if place < len(names) else "none" for place in kept]
    shown = code.map({place: row for row, place in enumerate(kept)}).fillna(-1).astype("int64")
    hidden = len(sizes) - len(kept)
    notes = _missing(hidden, "further group", f"not shown, with {_count(int((shown < 0).sum()), 'run')}")
    return _Groups(shown, labels, [int(sizes[place]) for place in kept], notes)


def _cross(rows: pd.Series[Any], columns: pd.Series[str], looks: Mapping[str, Look]) -> pd.DataFrame:
    """How often each pair occurs, with a column for each look, in their order."""
    import pandas as pd  # noqa: PLC0415 - slow to import

    return pd.crosstab(rows, columns).reindex(columns=list(looks), fill_value=0)


def _outcomes(calls: pd.DataFrame) -> pd.Series[str]:
    """What became of each call, as in `CALL_LOOKS`."""
    failed = calls["is_error"].astype("boolean")
    names = failed.map({True: "failed", False: "ok"}).astype("string").fillna(UNKNOWN)
    return names.mask(calls["dropped"].astype("boolean").fillna(value=False).astype(bool), "dropped")


def _tool_table(calls: pd.DataFrame, outcomes: pd.Series[str]) -> pd.DataFrame:
    """A row for each tool, those with most calls first."""
    tools = calls["tool"].astype("string").fillna("").replace("", "no name")
    table = _cross(tools, outcomes, CALL_LOOKS)
    return table.loc[table.sum(axis=1).sort_values(ascending=False, kind="stable").index]


# --- Words ------------------------------------------------------------------------------------------------------------


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,.1f}"


def _steps(value: float) -> str:
    return f"{_number(value)} step{'' if value == 1 else 's'}"


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _shorten(name: str, most: int = _NAME_CHARS) -> str:
    """A name in one line; of a long one, its ends, because names of tools often start alike."""
    name = " ".join(name.split())
    if len(name) <= most:
        return name
    tail = (most - 1) // 2
    return f"{name[: most - 1 - tail]}…{name[-tail:]}"


def _steps_title(steps: pd.Series[int]) -> str:
    if int(steps.min()) == int(steps.max()):
        return f"{_all(len(steps), 'run')} {'takes' if len(steps) == 1 else 'take'} {_steps(steps.max())}"
    median = _steps(float(steps.median()))
    return f"The median of {_count(len(steps), 'run')} is {median}, the longest takes {int(steps.max()):,}"


def _medians_title(steps: pd.Series[int], groups: _Groups, by: str) -> str:
    shown = groups.codes >= 0
    medians = steps[shown].groupby(groups.codes[shown]).median()
    if len(medians) == 1:
        return _steps_title(steps)
    least, most = float(medians.min()), float(medians.max())
    if least == most:
        return f"The median run takes {_steps(least)} with each {by}"
    rows = list(medians.index)
    low, high = (_shorten(groups.labels[rows[place]], 20) for place in (medians.argmin(), medians.argmax()))
    return f"The median run takes {_steps(least)} ({by}={low}) to {_number(most)} ({by}={high})"


def _reasons_title(reasons: pd.Series[str]) -> str:
    total = len(reasons)
    counts = reasons.value_counts()
    ranked = sorted((name for name in STOP_LOOKS if name in counts), key=lambda name: -counts[name])
    first = int(counts[ranked[0]])
    if first == total:
        return f"{_all(total, 'run')} {_ends(ranked[0], total)}"
    half = total > 2 and 2 * first == total  # noqa: PLR2004 - one half, and "1 of 2" is as short
    title = f"{'Half' if half else f'{first:,}'} of {total:,} runs {_ends(ranked[0], first)}"
    second = int(counts[ranked[1]])
    return f"{title}, {second:,} {_ends(ranked[1], second)}"


def _tools_title(tools: pd.DataFrame) -> str:
    failed, ok, unknown, dropped = (int(tools[name].sum()) for name in ("failed", "ok", UNKNOWN, "dropped"))
    known = failed + ok
    if not known and unknown:
        return f"Nobody knows how many of {_count(unknown, 'call')} failed"
    if not known:
        return f"{_all(dropped, 'call')} {'was' if dropped == 1 else 'were'} dropped"
    which = " of known outcome" if unknown or dropped else ""
    if failed == known:
        return f"{_all(known, 'call')}{which} failed"
    if not failed:
        return f"The one call{which} did not fail" if known == 1 else f"None of {known:,} calls{which} failed"
    title = f"{failed:,} of {known:,} calls{which} failed"
    if len(tools) == 1:
        return title
    most, worst = int(tools["failed"].max()), _shorten(str(tools["failed"].idxmax()))
    return f"{title}, all in {worst}" if most == failed else f"{title}, {most:,} of them in {worst}"


def _all(n: int, noun: str) -> str:
    return {1: f"The one {noun}", 2: f"Both {noun}s"}.get(n, f"All {n:,} {noun}s")


def _ends(reason: str, n: int) -> str:
    one, several, rest = _VERBS[reason]
    return f"{one if n == 1 else several}{rest}"


def _failures(row: Mapping[Any, int]) -> str:
    """What became of the calls of a bar: failures with their base, and what the base leaves out."""
    known = row["failed"] + row["ok"]
    parts = [f"{row['failed']:,} of {known:,} failed"] if known else []
    parts += [f"{row[name]:,} {name}" for name in (UNKNOWN, "dropped") if row[name]]
    return ", ".join(parts)


def _sample(runs: pd.DataFrame) -> str:
    """What a figure is drawn from."""
    parts = [_count(len(runs), "run")]
    for name in ("agent", "task"):
        if name in runs:
            values = runs[name].dropna()
            n = values[values != ""].nunique()
            parts += [_count(n, name)] if n else []
    return f"{', '.join(parts)}."


def _calls_sample(calls: pd.DataFrame, n_tools: int) -> str:
    text = f"{_count(len(calls), 'call')} of {_count(n_tools, 'tool')}"
    return f"{text} in {_count(calls['run_id'].nunique(), 'run')} with calls." if "run_id" in calls else f"{text}."


def _missing(n: int, noun: str, what: str) -> list[str]:
    return [f"{_count(int(n), noun)} {what}."] if n else []


def _censored(runs: pd.DataFrame) -> list[str]:
    if "censored" not in runs:
        return []
    n = int(runs["censored"].astype("boolean").sum())
    return _missing(n, "run", "cut short: full length unknown")


def _unknown_reasons(reasons: pd.Series[str]) -> list[str]:
    return _missing(int((reasons == UNKNOWN).sum()), "run", "of unknown stop reason")


# --- Bins of steps ----------------------------------------------------------------------------------------------------


class _Bins(NamedTuple):
    """Bins of whole numbers: their edges, between the numbers, and where on the axis these edges stand.

    `names` is empty where the axis is a plain number line; else bins stand side by side, each under its name.
    """

    edges: list[float]
    places: list[float]
    names: list[str]
    hint: str = ""


def _bins(steps: pd.Series[int], room: float) -> _Bins:
    """Bins from 1 (or 0) to the largest number: as wide as there is room for, or, with a long tail, widening."""
    high, zero = int(steps.max()), bool((steps == 0).any())
    most = max(10, min(60, int(room / 5)))
    if high > most and float(steps.quantile(0.25)) * 10 < high:
        return _widening_bins(high, zero=zero)
    width = next(width for width in _round_numbers((1, 2, 5)) if width * most >= high)
    edges = [-0.5] * zero + [0.5 + width * k for k in range(math.ceil(high / width) + 1)]
    return _Bins(edges, edges, [], f"bins of {width}" if width > 1 else "")


def _widening_bins(high: int, *, zero: bool) -> _Bins:
    """1, 2, ..., 10, 11-15, 16-20, 21-30, 31-50, 51-100, ...: round numbers, where caps are, end their bins."""
    ends = [*range(0 if zero else 1, 11), 15]
    for end in _round_numbers((20, 30, 50, 100)):
        ends.append(end)
        if end >= high:
            break
    starts = [ends[0], *(end + 1 for end in ends)]
    names = [str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=False)]
    edges = [starts[0] - 0.5, *(end + 0.5 for end in ends)]
    return _Bins(edges, [float(place) for place in range(len(edges))], names, "bins widen to the right")


def _round_numbers(leading: Sequence[int]) -> Iterator[int]:
    return (digit * 10**power for power in itertools.count() for digit in leading)


# --- Marks ------------------------------------------------------------------------------------------------------------


def _draw_histogram(ax: Axes, steps: pd.Series[int], reasons: pd.Series[str], bins: _Bins) -> None:
    """A stacked bar for each bin."""
    table = _cross(_binned(steps, bins), reasons, STOP_LOOKS)
    filled: list[int] = table.index.tolist()
    bottom = dict.fromkeys(filled, 0)
    for name in table.columns[table.any()]:
        heights = {i: int(n) for i, n in zip(filled, table[name], strict=True) if n}
        ax.bar(
            [bins.places[i] for i in heights],
            list(heights.values()),
            [bins.places[i + 1] - bins.places[i] for i in heights],
            [bottom[i] for i in heights],
            align="edge",
            label=name,
            **_paint(ax, STOP_LOOKS[name]),
        )
        bottom |= {i: bottom[i] + n for i, n in heights.items()}
    ax.yaxis.set_tick_params(labelsize=_sizes(ax).text)
    ax.yaxis.set_major_locator(MaxNLocator(4 if _is_small(ax) else 8, integer=True, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _draw_small_histograms(
    ax: Axes, steps: pd.Series[int], reasons: pd.Series[str], bins: _Bins, groups: _Groups
) -> None:
    """A histogram on each row, as high as its shares; all rows to one scale."""
    import pandas as pd  # noqa: PLC0415 - slow to import

    order = reasons.map({name: i for i, name in enumerate(STOP_LOOKS)})
    runs = pd.DataFrame({"row": groups.codes, "bin": _binned(steps, bins), "order": order})
    cells = runs[runs["row"] >= 0].value_counts().rename("share").reset_index().sort_values(["row", "bin", "order"])
    cells["share"] /= cells["row"].map(dict(enumerate(groups.sizes)))
    cells["top"] = cells.groupby(["row", "bin"])["share"].cumsum()
    foot, scale = 0.42, 0.86 / cells["top"].max()
    for place, (name, look) in enumerate(STOP_LOOKS.items()):
        boxes = [
            [(left, low), (right, low), (right, high), (left, high)]
            for row, i, share, top in cells.loc[cells["order"] == place, ["row", "bin", "share", "top"]].to_numpy()
            for left, right in [bins.places[int(i) : int(i) + 2]]
            for low, high in [(row + foot - (top - share) * scale, row + foot - top * scale)]
        ]
        if boxes:
            paint = _paint(ax, look, _thin(ax, len(groups.labels)))
            ax.add_collection(PolyCollection(boxes, label=name, **paint), autolim=False)
    ends = ax.get_yaxis_transform()
    feet = [row + foot for row in range(len(groups.labels))]
    ax.hlines(feet, 0, 1, colors=[_fade(ax, 0.3)], linewidth=0.6, transform=ends)


def _draw_dots(ax: Axes, steps: pd.Series[int], reasons: pd.Series[str], bins: _Bins, groups: _Groups) -> None:
    """A dot for each run; runs of the same row and number of steps are piled up, by stop reason."""
    import numpy as np  # noqa: PLC0415 - slow to import
    import pandas as pd  # noqa: PLC0415 - slow to import

    dots = pd.DataFrame({"row": groups.codes, "steps": steps, "reason": reasons})
    dots["order"] = dots["reason"].map({name: i for i, name in enumerate(STOP_LOOKS)})
    dots = dots[dots["row"] >= 0].sort_values("order", kind="stable")
    piles = dots.groupby(["row", "steps"])["order"]
    place, height = piles.cumcount(), piles.transform("size")
    across = max(3.0, min(6.5, _row_height(ax, len(groups.labels)) * 0.45))
    gap = (0.8 / (height - 1).clip(lower=1)).clip(upper=across / _row_height(ax, len(groups.labels)))
    dots["y"] = dots["row"] + (place - (height - 1) / 2) * gap
    dots["x"] = np.interp(dots["steps"], bins.edges, bins.places)
    for name, look in STOP_LOOKS.items():
        some = dots[dots["reason"] == name]
        if len(some):
            ax.scatter(some["x"], some["y"], s=across**2, marker=look.marker, facecolors=look.fill,
                       edgecolors=[_edge(ax, look)], linewidths=0.6, label=name, zorder=3)  # fmt: skip


def _draw_medians(ax: Axes, steps: pd.Series[int], bins: _Bins, groups: _Groups) -> None:
    """A triangle under each row."""
    import numpy as np  # noqa: PLC0415 - slow to import

    medians = steps.groupby(groups.codes).median().loc[lambda values: values.index >= 0]
    ax.plot(
        np.interp(medians, bins.edges, bins.places),
        medians.index + 0.47,
        linestyle="",
        marker=6,  # CARETUP: its tip is at the point
        markersize=max(2.0, min(5.0, _row_height(ax, len(groups.labels)) * 0.25)),
        markeredgewidth=0,
        color=_fade(ax, 0.85),
        label="median",
        zorder=4,
        clip_on=False,
    )


def _binned(steps: pd.Series[int], bins: _Bins) -> pd.Series[int]:
    """The bin of each number."""
    import pandas as pd  # noqa: PLC0415 - slow to import

    return pd.cut(steps, bins.edges, labels=False)


def _draw_stacks(ax: Axes, table: pd.DataFrame, looks: Mapping[str, Look]) -> list[tuple[Rectangle, str]]:
    """A horizontal bar for each row of a table of counts, divided by column; the parts, each with its column's name."""
    parts: list[tuple[Rectangle, str]] = []
    left = [0] * len(table)
    for name in table.columns[table.any()]:
        widths = table[name].tolist()
        rows = [row for row, width in enumerate(widths) if width]
        bars = ax.barh(
            rows,
            [widths[row] for row in rows],
            height=0.72,
            left=[left[row] for row in rows],
            label=name,
            **_paint(ax, looks[name], _thin(ax, len(table))),
        )
        parts += [(bar, name) for bar in bars]
        left = [a + b for a, b in zip(left, widths, strict=True)]
    return parts


class _Inside(Text):
    """A text in a bar: the first of several that fits when the figure is drawn, or none."""

    def __init__(self, bar: Rectangle, choices: Sequence[str], **style: Any) -> None:  # noqa: ANN401 - Text's own
        x, y = bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height() / 2
        super().__init__(x, y, choices[0], ha="center", va="center", **style)
        self._bar = bar
        self._choices = choices
        self.set_in_layout(False)

    def draw(self, renderer: RendererBase) -> None:
        """Draw the text that fits."""
        room = self._bar.get_window_extent(renderer)
        for choice in self._choices:
            self.set_text(choice)
            box = self.get_window_extent(renderer)
            if box.width + 2 <= room.width and box.height <= room.height:
                super().draw(renderer)
                return


def _label_inside(ax: Axes, bars: Sequence[tuple[Rectangle, str]]) -> None:
    """Name and number in each part of a bar where they fit, else the number, else nothing."""
    if len(bars) > _MAX_PARTS:
        return
    for bar, name in bars:
        look, number = STOP_LOOKS[name], f"{bar.get_width():,.0f}"
        fill = _ground(ax) if look.fill == "none" else to_rgb(look.fill)
        color = "#ffffff" if _luminance(fill) < _DARK else "#1c2430"
        halo = [withStroke(linewidth=2.5, foreground=fill)] if look.hatch else []
        text = _Inside(bar, [f"{name} {number}", number], color=color, size=_sizes(ax).note, path_effects=halo)
        ax.add_artist(text)


# --- Style ------------------------------------------------------------------------------------------------------------


class _Sizes(NamedTuple):
    """Font sizes in points."""

    title: float
    text: float
    note: float


def _axes(ax: Axes | None, height: float) -> Axes:
    """The user's Axes, or those of a new figure."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt  # noqa: PLC0415 - picks a backend, and somebody who passes an Axes needs none

    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.1)
    return plt.figure(figsize=(_WIDTH, height), layout=layout).add_subplot()


def _rows_height(rows: Sized, key: pd.Series[str], each: float = 0.34) -> float:
    """The height, in inches, of a figure with so many rows and so many values in its key."""
    return max(2.2, min(24.0, 1.4 + 0.04 * key.nunique() + each * len(rows)))


def _room(ax: Axes) -> float:
    """About how wide the Axes will be, in points: less what its left margin cannot hold of its row labels."""
    size, margin = _sizes(ax).text, 25.0 if _is_small(ax) else 40.0
    longest = max((_text_width(label.get_text(), size) for label in ax.get_yticklabels()), default=0.0)
    gain = 1.12 if _fills_figure(ax) else 1.0
    return max(40.0, gain * ax.get_window_extent().width / ax.figure.dpi * 72 - max(0.0, longest - margin))


def _fills_figure(ax: Axes) -> bool:
    """Whether a layout will widen the Axes: it takes of the margins of a figure what it can."""
    figure = ax.figure.figure  # that of a subfigure
    return figure is not None and figure.get_layout_engine() is not None and figure.axes == [ax]


def _row_height(ax: Axes, rows: int) -> float:
    """About how high a row is, in points."""
    return ax.get_window_extent().height / ax.figure.dpi * 72 / rows


def _thin(ax: Axes, rows: int) -> float:
    """The width of edges that leave something of the bars between them."""
    return min(0.5, 0.05 * _row_height(ax, rows))


def _text_width(text: str, size: float) -> float:
    return max(map(len, text.splitlines()), default=0) * size * 0.58


def _is_small(ax: Axes) -> bool:
    return ax.get_window_extent().width / ax.figure.dpi < 3  # noqa: PLR2004 - inches


def _sizes(ax: Axes) -> _Sizes:
    """Sizes from the user's own font size, smaller in small Axes."""
    base = float(mpl.rcParams["font.size"]) * (0.8 if _is_small(ax) else 1)
    return _Sizes(base * 1.1, base * 0.9, base * 0.8)


def _fade(ax: Axes, strength: float) -> Color:
    """The colour of the user's own text, faded towards the background."""
    return _mix(to_rgb(ax.title.get_color()), _ground(ax), strength)


def _ground(ax: Axes) -> Color:
    for color in (ax.get_facecolor(), ax.figure.get_facecolor()):
        *rgb, alpha = to_rgba(color)
        if alpha:
            r, g, b = rgb
            return (r, g, b)
    return (1.0, 1.0, 1.0)


def _luminance(color: Color) -> float:
    """How light a colour is, from 0 to 1, as the contrast rules of the web count it."""
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color)  # noqa: PLR2004 - sRGB
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def _paint(ax: Axes, look: Look, linewidth: float = 0.5) -> dict[str, Any]:
    """How matplotlib is told of a look."""
    return {"facecolor": look.fill, "edgecolor": _edge(ax, look), "hatch": look.hatch, "linewidth": linewidth}


def _edge(ax: Axes, look: Look) -> str | Color:
    """The colour of edges; on a dark background, plain areas get a light one to stand out."""
    if look.hatch or _luminance(_ground(ax)) > _DARK:
        return look.ink
    return _mix(to_rgb(look.fill), (1.0, 1.0, 1.0), 0.6)


def _mix(over: Color, under: Color, strength: float) -> Color:
    r, g, b = (strength * o + (1 - strength) * u for o, u in zip(over, under, strict=True))
    return (r, g, b)


def _key(ax: Axes, values: pd.Series[str], looks: Mapping[str, Look], *, markers: bool = False) -> list[Artist]:
    """What each colour means and how often it occurs, in the order of `looks`."""
    counts = values.value_counts()
    handles: list[Artist] = []
    for name, look in looks.items():
        if name in counts:
            label = f"{name} {counts[name]:,}"
            if markers:
                handles.append(Line2D([], [], linestyle="", marker=look.marker, markerfacecolor=look.fill,
                                      markeredgecolor=_edge(ax, look), markeredgewidth=0.6, label=label))  # fmt: skip
            else:
                handles.append(Patch(label=label, **_paint(ax, look)))
    return handles


def _finish(
    ax: Axes,
    *,
    title: str,
    grid: Literal["x", "y"],
    notes: Iterable[str],
    key: Sequence[Artist] = (),
    xlabel: str | None = None,
    ylabel: str | None = None,
) -> None:
    """What every plot has: the finding as its title, a key, axes with units, a light grid, the sample under it."""
    sizes, grey = _sizes(ax), _fade(ax, 0.65)
    if xlabel is not None:
        ax.set_xlabel(xlabel, **_PLAIN)
    if ylabel is not None:
        ax.set_ylabel(ylabel, **_PLAIN)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set(size=sizes.text, color=grey)
        axis.labelpad = 3
        axis.set_tick_params(labelcolor=_fade(ax, 0.85), color=_fade(ax, 0.4))
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set(color=_fade(ax, 0.4), linewidth=0.8)
    ax.grid(visible=False)
    ax.grid(visible=True, axis=grid, color=_fade(ax, 0.12), linewidth=0.8, linestyle="-")
    ax.set_axisbelow(True)
    lines = _draw_key(ax, key)
    ax.set_title(
        _wrap(ax, title, sizes.title),
        loc="left",
        size=sizes.title,
        weight="bold",
        pad=6 + lines * sizes.note * 1.45,
        **_PLAIN,
    )
    _footnote(ax, " ".join(filter(None, notes)))


def _draw_key(ax: Axes, key: Sequence[Artist]) -> int:
    """The key in lines between title and Axes, read line by line; how many lines it takes."""
    if not key:
        return 0
    size = _sizes(ax).note
    widths = [_text_width(str(handle.get_label()), size) + 2.9 * size for handle in key]
    fitting = (n for n in range(len(key), 1, -1) if sum(max(widths[i::n]) for i in range(n)) <= _room(ax))
    columns = next(fitting, 1)
    by_column = [handle for first in range(columns) for handle in key[first::columns]]
    ax.legend(
        handles=by_column,
        ncols=columns,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        bbox_transform=ax.transAxes + ScaledTranslation(0, 4 / 72, ax.figure.dpi_scale_trans),
        frameon=False,
        fontsize=size,
        labelcolor=[_fade(ax, 0.85)] * len(key),
        borderpad=0,
        borderaxespad=0,
        handlelength=1.1,
        handleheight=0.9,
        handletextpad=0.5,
        columnspacing=1.3,
        labelspacing=0.35,
    )
    return math.ceil(len(key) / columns)


def _footnote(ax: Axes, text: str) -> None:
    """A small grey line under the label of the x axis: the sample, and what is missing."""
    size = _sizes(ax).note
    ax.annotate(
        _wrap(ax, text, size),
        xy=(0, 0),
        xycoords=("axes fraction", ax.xaxis.label),
        xytext=(0, -3),
        textcoords="offset points",
        va="top",
        size=size,
        color=_fade(ax, 0.6),
        annotation_clip=False,
        gid="footnote",
        **_PLAIN,
    )


def _wrap(ax: Axes, text: str, size: float) -> str:
    return textwrap.fill(text, max(16, int(_room(ax) / (size * 0.56))))


def _label_rows(ax: Axes, labels: Sequence[str], title: str) -> None:
    """Names on the rows of the y axis, the first on top; where rows are too low for that, only on some."""
    height = _row_height(ax, len(labels))
    size = max(5.0, min(_sizes(ax).text, height * 0.9))
    rows = range(0, len(labels), math.ceil(size * 1.15 / height))
    most = _SMALL_NAME_CHARS if _is_small(ax) else _NAME_CHARS
    ax.set_yticks(rows, [_shorten(labels[row], most) for row in rows], **_PLAIN)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.set_ylabel(title, **_PLAIN)
    ax.yaxis.set_tick_params(labelsize=size, length=0)


def _label_ends(ax: Axes, table: pd.DataFrame, texts: Sequence[str]) -> None:
    """A text at the end of each bar, and an axis long enough to hold it."""
    size, room = _sizes(ax).note, _room(ax)
    ends = table.sum(axis=1).tolist()
    shares = [min(0.75, (_text_width(text, size) + 10) / room) for text in texts]
    ax.xaxis.set_tick_params(labelsize=_sizes(ax).text)
    ax.set_xlim(0, max(end / (1 - share) for end, share in zip(ends, shares, strict=True)))
    ax.xaxis.set_major_locator(MaxNLocator(4 if _is_small(ax) else 8, integer=True, steps=[1, 2, 5, 10]))
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if _row_height(ax, len(texts)) < size * 0.7:
        return
    for row, (end, text) in enumerate(zip(ends, texts, strict=True)):
        ax.annotate(
            text,
            (end, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            size=size,
            color=_fade(ax, 0.85),
            gid="end",
            **_PLAIN,
        ).set_in_layout(False)


def _label_bins(ax: Axes, bins: _Bins, hint: str) -> None:
    """Numbers on the x axis, or the names of the bins."""
    ax.set_xlabel(f"steps per run ({hint})" if hint else "steps per run", **_PLAIN)
    if not bins.names:
        ax.xaxis.set_tick_params(labelsize=_sizes(ax).text)
        ax.set_xlim(bins.places[0], max(bins.places[-1], 10.5))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        return
    ax.set_xlim(bins.places[0], bins.places[-1] + 0.2)
    names = [name.replace("-", "-\n") for name in bins.names]
    size = _sizes(ax).note
    widest = max(_text_width(name, size) for name in names) + 2
    every = math.ceil(widest / (_room(ax) / len(names)))
    shown = range((len(names) - 1) % every, len(names), every)
    ax.set_xticks([(bins.places[i] + bins.places[i + 1]) / 2 for i in shown], [names[i] for i in shown], **_PLAIN)
    ax.xaxis.set_tick_params(labelsize=size, length=0)


def _say_nothing(ax: Axes | None, text: str) -> Axes:
    """Axes that say why they are empty."""
    ax = _axes(ax, 2.2)
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=_fade(ax, 0.6), **_PLAIN)
    return ax
