"""What a trial knows after each branch: the interval of the gain, beside bounds and hazards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from boolab.core.text import count
from boolab.display.text import capitalize
from boolab.plots import palette, style
from boolab.plots._frames import add_set_name, floats
from boolab.plots._labels import Line, label_lines

if TYPE_CHECKING:
    from boolab.trials.result import TrialResult
    from boolab.trials.trial import Trial


def plot_trial(result: TrialResult | Trial, *, title: str | None = style.AUTO, ax: Axes | None = None) -> Axes:
    """The gain in successes over all runs, after each branch of a trial.

    The band is the interval of the branches, which holds at every look; the line in it is their estimate. Dashed lines
    are the bounds by the record alone. The mark on the left is what hazards suggest, with its interval. They are three
    kinds of evidence and are not mixed.

    Args:
        result: What `bl.trial` makes, or what its `run` returns.
        title: The title: by default the finding, with the sample under it; None or "" for none, or a text of yours.
        ax: The Axes to draw in; a new figure by default.

    Returns:
        The Axes.

    Example:
        >>> import boolab as bl
        >>> from matplotlib.figure import Figure
        >>> model = bl.SimulatedModel.load("coder")
        >>> agent = bl.Agent("coder", max_steps=20, tool_budget=None, doom_loop=None)
        >>> runs = [bl.run_sync(agent, f"Task {i}", model=model, seed=i) for i in range(9)]
        >>> plan = bl.trial(runs, {"max_steps": 60}, model=model)
        >>> bl.plots.plot_trial(plan, ax=Figure(figsize=(9, 4)).subplots()).get_title(loc="left")
        'A step cap of 60 adds 0 to 9 successes, as far as the record shows'
    """
    outcome: TrialResult = result.result if hasattr(result, "result") else result
    if not outcome.n_open:
        return style.empty_axes(ax, "the change leaves no run open: the record answers it")
    ax = style.axes_for(ax)
    looks, end = outcome.looks, outcome.n_open
    x, low, high, middle = (floats(looks[name]) for name in ("branches", "gain_low", "gain_high", "gain"))
    has_branches = len(x) > 1
    x, low, high, middle = (np.append(column, column[-1]) for column in (x, low, high, middle))
    x[-1] = min(end, x[-1] + 0.02 * end)  # so that the last look has a width
    kept_color, grey = palette.KEPT, style.fade(ax, 0.6)
    if has_branches:
        ax.fill_between(x, low, high, step="post", color=kept_color, alpha=0.16, linewidth=0, zorder=2)
        ax.plot(x, middle, color=kept_color, linewidth=1.8, drawstyle="steps-post", zorder=3)
    bounds = [float(outcome.bounds.low), float(outcome.bounds.high)]
    for value in bounds:
        ax.axhline(value, color=grey, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    ax.axhline(0, color=style.fade(ax, 0.8), linewidth=1, zorder=1)
    lines = [Line([0, end], [bounds[1]] * 2, "at most, by the record", grey)]
    if bounds[0] < 0:
        lines.append(Line([0, end], [bounds[0]] * 2, "at least, by the record", grey))
    if has_branches:
        lines.append(Line(x, middle, "branches", kept_color))
    hazards = outcome.evidence.iloc[1]
    if outcome.hazards.gain is not None:
        hazard_x = -0.03 * end
        ends = [[float(hazards["gain"] - hazards["low"])], [float(hazards["high"] - hazards["gain"])]]
        ax.errorbar(
            [hazard_x], [float(hazards["gain"])], ends, fmt="D", color=palette.SAVED, markersize=6, capsize=4, zorder=4
        )
        lines.append(Line([hazard_x, 0.02 * end], [float(hazards["gain"])] * 2, "hazards", palette.SAVED))
    ax.set_xlim(-0.06 * end, end * 1.02)
    span = max(1.0, bounds[1] - bounds[0])
    ax.set_ylim(bounds[0] - 0.06 * span, bounds[1] + 0.08 * span)
    label_lines(ax, lines)
    style.count_ticks(ax, ax.xaxis)
    style.count_ticks(ax, ax.yaxis)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:+,.0f}" if value else "0"))
    return style.finish(
        ax,
        title=style.choose_title(title, _title(outcome)),
        xlabel="branches",
        ylabel=f"{outcome.success} added",
        grid=ax.yaxis,
        key=[],
        notes=_notes(outcome),
        subject=f"Gain under {outcome.change}",
    )


def _title(outcome: TrialResult) -> str:
    if outcome.n_branches:
        return outcome.claim.replace("by -", "by \N{MINUS SIGN}").replace("to -", "to \N{MINUS SIGN}")
    change, (_, low, high) = capitalize(outcome.change), outcome.gain
    return f"{change} adds {_number(low)} to {_number(high)} {outcome.success}, as far as the record shows"


def _number(value: float) -> str:
    return f"{value:,.0f}".replace("-", "\N{MINUS SIGN}")


def _notes(outcome: TrialResult) -> Iterator[str]:
    continued = f"{outcome.n_branches:,} of {outcome.n_open:,} open runs continued"
    yield add_set_name(outcome.looks, f"{count(outcome.n_runs, 'run')}, {continued}.")
    if outcome.n_branches:
        yield f"Band: {100 * outcome.confidence:.4g}% at all looks together; only the order of the tasks is random."
    if outcome.hazards.gain is not None:
        yield "Hazards: if open runs continue like those on record that went further."
    elif outcome.hazards.why:
        yield f"No hazards: {outcome.hazards.why[0].lower()}{outcome.hazards.why[1:]}"
