"""What compaction at other lengths would have cost: a band with an estimate, and a map of thresholds and kept steps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from textwrap import fill
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_rgb
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from boolab.core.text import count, shorten
from boolab.errors import SettingError
from boolab.frames.runs import Runs
from boolab.plots import style
from boolab.plots._panels import name_figure, strip
from boolab.plots.palette import PIECE_LOOKS, Color, ink_on, mix
from boolab.plots.themed import new_figure
from boolab.stats.cost.allocated import allocate_runs, dollars_of
from boolab.stats.cost.context_costs import PolicyTotal, describe_change, describe_range, total_under, unlogged_notes
from boolab.stats.cost.context_policy import ContextPolicy
from boolab.stats.cost.policy_costs import Basis, basis_of
from boolab.stats.cost.threshold import threshold_finding

_KEEP_STEPS: Final = (0, 1, 3, 5, 8, 12)
_N_THRESHOLDS: Final = 26
_N_COLUMNS: Final = 8
_STRIDES: Final = (500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
_FULL_COLOUR: Final = 0.4
"""The change of the bill from which on a cell has the whole colour."""
_HIGHEST: Final = 1.5
"""The highest cost that is drawn, as a multiple of the recorded one: below some threshold it has no end."""
_CHEAPER, _EVEN, _DEARER = "#00588f", "#f1efec", "#b34700"
_CHARS: Final = 165

Floats: TypeAlias = npt.NDArray[np.float64]


def plot_context_policy(
    runs: Runs,
    *,
    thresholds: Iterable[int] = (),
    keep_steps: Sequence[int] = _KEEP_STEPS,
    title: str | None = style.AUTO,
) -> Axes:
    """Draw what compaction at other lengths of the context would have cost, if the steps stay the same.

    On the left a band from nothing that is read again to the most, a line for the estimate in which each removed file
    that is named again is read once more, the recorded cost, and the cheapest threshold. On the right the change of the
    bill by the threshold and the steps that are kept.

    Args:
        runs: A run, runs, or the path of a store or of logs.
        thresholds: Lengths in tokens; by default some 25 from the base with a summary to the longest prompt.
        keep_steps: The numbers of kept steps in the map; the first is that of the band.
        title: The title: by default the finding; None or "" for none, or a text of yours.

    Returns:
        The Axes of the band; those of the map are the other of its figure.

    Raises:
        SettingError: if a threshold or a number of steps is not valid.

    Example:
        >>> import boolab as bl
        >>> model = bl.EditorModel(seed=3, files=60, edits=120)
        >>> agent = bl.Agent("editor", max_steps=400, tool_budget=None, doom_loop=None)
        >>> ax = bl.plots.plot_context_policy(bl.run_sync(agent, "t", model=model), thresholds=[50_000, 90_000])
        >>> ax.get_xlabel()
        'compact at, thousand tokens'
    """
    basis = basis_of(allocate_runs(runs))
    if all(basis.refusals):
        reasons = [*dict.fromkeys(basis.refusals)]
        return style.empty_axes(None, f"no cost can be computed: {reasons[0]}" if reasons else "there are no runs")
    values = sorted({*thresholds}) or _default_thresholds(basis)
    if not values or not keep_steps:
        return style.empty_axes(None, "the prompts are too short for a compaction")
    totals = [_total(basis, threshold, keep_steps[0]) for threshold in values]
    columns = values if len(values) <= _N_COLUMNS else [values[round(n)] for n in np.linspace(0, len(values) - 1, 8)]
    cells = [[_total(basis, threshold, keep) for threshold in columns] for keep in keep_steps]
    figure = new_figure(11, 4.8, pad=0.06)
    grid = figure.add_gridspec(1, 2, width_ratios=[1.25, 1])
    band_ax, map_ax = figure.add_subplot(grid[0]), figure.add_subplot(grid[1])
    best = min(totals, key=lambda total: total.estimate)
    _draw_band(band_ax, totals, best)
    _draw_map(map_ax, cells)
    for ax in (band_ax, map_ax):
        strip(ax)
    map_ax.spines[:].set_visible(False)
    name_figure(figure, band_ax, style.choose_title(title, _finding(best)), _sample(basis, best))
    return band_ax


def _total(basis: Basis, threshold: int, keep: int) -> PolicyTotal:
    return total_under(basis, ContextPolicy(compact_at=threshold, keep_steps=keep))


def _default_thresholds(basis: Basis) -> list[int]:
    """Lengths between a prompt just after a compaction and the longest on record, a round number apart."""
    try:
        law = threshold_finding(basis).frame.set_index("quantity")["value"]
    except SettingError:
        return []
    longest = max(record.longest for record in basis.records)
    shortest = 1.25 * float(law["start"])
    stride = next((s for s in _STRIDES if (longest - shortest) / s <= _N_THRESHOLDS), _STRIDES[-1])
    return [*range(math.ceil(shortest / stride) * stride, math.ceil(longest / stride) * stride + 1, stride)]


def _finding(best: PolicyTotal) -> str:
    """The verdict: what the cheapest threshold would have cost."""
    change = best.estimate / best.recorded - 1
    ends = describe_range((best.lower or 0) / best.recorded - 1, (best.upper or 0) / best.recorded - 1, change)
    bound = "" if best.cost is not None else "at least " if change < 0 else "at most "
    verdict = f"Compacting at {best.policy.compact_at:,} tokens would have cost"
    return f"{verdict} {bound}{describe_change(change)} ({ends}), if the steps stay the same"


def _sample(basis: Basis, best: PolicyTotal) -> str:
    sources = sorted({row.record.run.source or "an unknown source" for row in best.rows})
    left_out = sum(map(bool, basis.refusals))
    lengths = sorted(chain.from_iterable(row.record.compacted_lengths for row in best.rows))
    compacted = f"compacted at {_range_of(lengths)} tokens" if lengths else "never compacted"
    prices = "at the prices of the log or list prices."
    sentences = [
        f"{count(len(best.rows), 'run')} of {shorten(' and '.join(sources))}, {compacted}, {prices}",
        "Exact up to the first change; then the recorded steps are assumed. The outcome is not on record.",
    ]
    sentences += unlogged_notes(row.record for row in best.rows)
    if left_out:
        sentences.append(f"{count(left_out, 'run')} left out.")
    return fill(" ".join(sentences), _CHARS)


def _draw_band(ax: Axes, totals: Sequence[PolicyTotal], best: PolicyTotal) -> None:
    """The bounds, the estimate between them, and the recorded cost."""
    lengths_k = np.array([total.policy.compact_at for total in totals]) / 1000
    lower, upper, estimate = (
        np.array([dollars_of(value or 0) for value in values])
        for values in (
            [total.lower for total in totals],
            [total.upper for total in totals],
            [total.estimate for total in totals],
        )
    )
    look, size = PIECE_LOOKS["reread"], style.sizes(ax)
    ink = style.edge(ax, look)
    ax.fill_between(lengths_k, lower, upper, color=_pale(ax), linewidth=0, gid="range")
    if best.cost is not None:
        ax.plot(lengths_k, estimate, color=ink, linewidth=2, gid="by reference")
    recorded = dollars_of(best.recorded)
    ax.axhline(recorded, color=style.fade(ax, 0.9), linewidth=1, gid="recorded")
    top = min(float(upper.max()), _HIGHEST * recorded)
    top = max(top, recorded) * 1.06
    bottom = float(min(lower.min(), recorded)) * 0.9
    ax.set_ylim(bottom, top)
    ax.set_xlim(lengths_k[0], lengths_k[-1])
    _label_lines(ax, lengths_k, (lower, upper, estimate), recorded, by_reference=best.cost is not None)
    spot = (best.policy.compact_at or 0) / 1000
    cost = dollars_of(best.estimate)
    ax.plot([spot], [cost], "o", color=style.fade(ax, 0.95), markersize=6, gid="cheapest")
    ends = f"${dollars_of(best.lower or 0):,.2f} to ${dollars_of(best.upper or 0):,.2f}"
    share = (spot - lengths_k[0]) / max(lengths_k[-1] - lengths_k[0], 1e-9)
    side = "left" if share < 0.3 else "right" if share > 0.7 else "center"  # noqa: PLR2004
    text_height = float(
        lower[np.abs(lengths_k - spot) <= 0.3 * (lengths_k[-1] - lengths_k[0])].min()
    )  # about as wide as the text
    style.annotate(ax, f"{spot:g} thousand: ${cost:,.2f} ({ends})", (spot, text_height),
                           (0, -7), ha=side, va="top", size=size.text, weight="bold")  # fmt: skip
    ax.set_xlabel("compact at, thousand tokens")
    ax.set_ylabel(f"dollars, {count(len(best.rows), 'run')}")
    ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}" if top - bottom > 6 else "{x:,.2f}"))  # noqa: PLR2004
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))


def _pale(ax: Axes) -> Color:
    return mix(to_rgb(PIECE_LOOKS["reread"].fill), style.ground(ax), 0.38)


def _range_of(lengths: Sequence[int]) -> str:
    first, last = (f"{length / 1000:,.0f}" for length in (lengths[0], lengths[-1]))
    return f"{first} thousand" if first == last else f"{first} to {last} thousand"


def _label_lines(
    ax: Axes, lengths_k: Floats, lines: tuple[Floats, Floats, Floats], recorded: float, *, by_reference: bool
) -> None:
    """Name the ends of the range, the line in it and the recorded cost, each where the others leave room."""
    lower, upper, estimate = lines
    note = style.sizes(ax).note
    look: dict[str, Any] = {"size": note, "color": style.edge(ax, PIECE_LOOKS["reread"])}
    visible = np.flatnonzero(upper < ax.get_ylim()[1])
    spot = int(np.argmax(recorded - estimate))
    is_under = bool(estimate[spot] > recorded)
    share = spot / max(len(lengths_k) - 1, 1)
    side = "left" if share < 0.15 else "right" if share > 0.85 else "center"  # noqa: PLR2004
    style.annotate(ax, f"as recorded: ${recorded:,.2f}", (lengths_k[spot], recorded), (0, -3 if is_under else 3),
                   ha=side, va="top" if is_under else "bottom", size=note)  # fmt: skip
    if not len(visible):
        return
    # Both ends rise to the right, so a text above goes to the left, and one below to the right.
    low, *candidates = (visible[round(share * (len(visible) - 1))] for share in (0.7, 0.97, 0.85, 0.6, 0.4))
    near = 0.06 * (ax.get_ylim()[1] - ax.get_ylim()[0])
    high = next((index for index in candidates if abs(upper[index] - recorded + near / 2) > near), candidates[0])
    style.annotate(ax, "nothing read again", (lengths_k[low], lower[low]), (4, -4), ha="left", va="top", **look)
    style.annotate(ax, "the most read again", (lengths_k[high], upper[high]), (-4, 3), ha="right", va="bottom", **look)
    steep = np.flatnonzero((estimate > recorded) & (estimate < ax.get_ylim()[1]))
    if by_reference and len(steep) and steep[0] < len(lengths_k) // 3:
        text = "line: a removed file that\nis named again is read once more"
        style.annotate(ax, text, (lengths_k[steep[0]], estimate[steep[0]]), (12, 2), ha="left", va="center", **look)


def _draw_map(ax: Axes, cells: Sequence[Sequence[PolicyTotal]]) -> None:
    """The change of the bill by threshold and kept steps; a star where some run compacts at every step."""
    changes = np.array([[total.estimate / total.recorded - 1 for total in row] for row in cells])
    colours = LinearSegmentedColormap.from_list("change", [_CHEAPER, _EVEN, _DEARER])
    scale = Normalize(-_FULL_COLOUR, _FULL_COLOUR, clip=True)
    ax.imshow(changes, cmap=colours, norm=scale, aspect="auto", origin="lower")
    size = style.sizes(ax).note
    for (row, column), change in np.ndenumerate(changes):
        fill_colour = to_rgb(colours(scale(change)))
        text = f"x{1 + change:.1f}" if change >= 1 else f"{change:+.0%}" if abs(change) >= 0.005 else "0%"  # noqa: PLR2004
        crowded = cells[row][column].sum_of("is_crowded")
        ax.text(column, row, text + ("*" if crowded else ""), ha="center", va="center", size=size,
                color=ink_on(fill_colour), **style.PLAIN)  # fmt: skip
    thousands = [(total.policy.compact_at or 0) / 1000 for total in cells[0]]
    ax.set_xticks(range(len(thousands)), [f"{value:g}" for value in thousands], **style.PLAIN)
    ax.set_yticks(range(len(cells)), [str(row[0].policy.keep_steps) for row in cells], **style.PLAIN)
    ax.tick_params(length=0)
    ax.set_xlabel("compact at, thousand tokens")
    ax.set_ylabel("steps kept as they are")
    has_crowded = any(total.sum_of("is_crowded") for total in chain.from_iterable(cells))
    ax.set_title("change of the bill" + (" (*: some run compacts at every step)" if has_crowded else ""), loc="left",
                 size=style.sizes(ax).text, color=style.fade(ax, 0.85), **style.PLAIN)  # fmt: skip
