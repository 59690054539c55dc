"""The chart: CPU per step as a multiple of the bare loop's, on a logarithmic axis."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from benchmarks.peers.measuring import Measured
from benchmarks.peers.summary import figures
from boolab.plots.palette import GROUP_LOOKS, KEPT
from boolab.plots.style import fade, finish, sizes

PICTURE: Final = Path(__file__).parents[2] / "docs" / "pictures" / "peers.png"
"""Where the picture lies."""

MARKERS: Final = ("o", "s", "D")


def draw(measured: Measured, ax: Axes) -> Axes:
    """A line for each row, from its cheapest length of run to its dearest, with a marker for each length.

    Args:
        measured: What was measured.
        ax: Where to draw.
    """
    steps = [int(n) for n in measured["steps"]]
    found = {label: figures(one["samples"], steps) for label, one in measured["rows"].items()}
    shown = {label: one for label, one in found.items() if one is not None}
    for place, (label, one) in enumerate(shown.items()):
        color = KEPT if label.startswith("boolab") else GROUP_LOOKS[0][0] if label.startswith("bare") else "#5b6675"
        ratios = [one.ratio[n].middle for n in one.ratio]
        ax.plot([min(ratios), max(ratios)], [place, place], color=color, linewidth=2, solid_capstyle="round")
        for n, spread in one.ratio.items():
            marker = MARKERS[steps.index(n) % len(MARKERS)]
            ax.plot([spread.middle], [place], marker, color=color, markersize=6.5, markeredgecolor="white")
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(10))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_yticks(range(len(shown)), list(shown))
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.tick_params(labelsize=sizes(ax).text)
    ax.yaxis.set_tick_params(length=0)
    key = [
        Line2D([], [], linestyle="", marker=MARKERS[i % len(MARKERS)], color=fade(ax, 0.7), label=f"{n} steps")
        for i, n in enumerate(steps)
    ]
    return finish(
        ax,
        title="What a step of the loop costs, as a multiple of a bare loop's",
        xlabel="CPU per step / CPU per step of the bare loop in the same process (logarithmic)",
        ylabel="",
        grid=ax.xaxis,
        key=key,
        notes=[f"{measured['date']}; a model and a tool that cost nothing; medians over processes."],
    )


def save(measured: Measured, path: Path = PICTURE) -> None:
    """Draw it into a file."""
    figure = Figure(figsize=(9, 0.7 + 0.34 * len(measured["rows"])), layout="constrained")
    draw(measured, figure.add_subplot())
    figure.savefig(path, dpi=150)
