"""The bill of one run: who pays for what, the context by step, and the cents of each step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from boolab.core.allocation import PIECES, UNITS, RequestBill
from boolab.core.run import Run
from boolab.core.text import count, shorten
from boolab.core.types import MICRO
from boolab.display.numbers import duration
from boolab.frames.runs import one_run
from boolab.plots import style
from boolab.plots._panels import name_figure, strip
from boolab.plots.palette import PIECE_LOOKS
from boolab.plots.themed import new_figure
from boolab.stats.cost.allocated import PIECE_NAMES, AllocatedRun, allocate_runs, cause_name, facts_of_bill
from boolab.stats.cost.causes import causes_frame
from boolab.stats.cost.misses import CacheMiss, cache_misses

_MAX_CAUSES: Final = 9
_MAX_LABELLED: Final = 4
_LEAST_LABELLED: Final = 0.02
"""The share of the bill from which on a miss is named."""
_OUTLIERS: Final = 0.97
"""The share of steps whose bars are seen whole, but for misses, which always are."""
_ORDER: Final = ("reread", "rewrite", "first", "output")
"""The pieces of a step from the ground up: the largest, which changes least, is the lowest."""


def plot_bill(run: Run, *, title: str | None = style.AUTO) -> Axes:
    """Draw the bill of a run: the dearest causes, and by step the context and the cents, in four colours.

    The colours are what is paid for: written by the model, sent the first time, sent again from the cache, and sent
    again because the cache missed. Misses that cost at least 2% of the bill are named with their dollars and the pause
    before them, compactions are dotted lines.

    Args:
        run: The run.
        title: The title: by default the finding; None or "" for none, or a text of yours.

    Returns:
        The Axes of the causes; those of the context and of the cents are the others of its figure.

    Raises:
        SettingError: if there is more or less than one run.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> bl.plots.plot_bill(run).texts[0].get_text()
        'no cost by step is on record'
    """
    (allocated,) = allocate_runs(one_run(run, "plot_bill", "bl.plots.{}(bl.load_runs(path)[0])"))
    facts = facts_of_bill([allocated])
    if not facts.bill_usd or not allocated.allocation.requests:
        return style.empty_axes(None, "no cost by step is on record")
    figure = new_figure(10.8, 5.2, pad=0.06)
    grid = figure.add_gridspec(2, 2, width_ratios=[1, 1.25], height_ratios=[1.5, 1])
    causes_ax, context_ax = figure.add_subplot(grid[:, 0]), figure.add_subplot(grid[0, 1])
    cents_ax = figure.add_subplot(grid[1, 1], sharex=context_ax)
    misses = cache_misses(allocated)
    _draw_causes(causes_ax, causes_frame([allocated], ["tool"]).dropna(subset=["total_usd"]))
    _draw_context(context_ax, allocated.allocation.requests)
    _draw_cents(cents_ax, allocated.allocation.requests, _dearest(misses, facts.bill_usd))
    for ax in (causes_ax, context_ax, cents_ax):
        strip(ax)
    handles = [Patch(facecolor=style.area(causes_ax, PIECE_LOOKS[piece]), label=PIECE_NAMES[piece]) for piece in PIECES]
    finding = style.choose_title(title, _finding(allocated, misses, facts.bill_usd))
    name_figure(figure, causes_ax, finding, _sample(allocated), handles)
    return causes_ax


def _finding(allocated: AllocatedRun, misses: Sequence[CacheMiss], bill_usd: float) -> str:
    """The verdict: how much of the bill is for text that was sent again, and for misses."""
    units = [sum(charge.units[index] for charge in allocated.allocation.charges) for index in range(len(PIECES))]
    again = (units[2] + units[3]) / sum(units)
    extra = sum(miss.extra_usd or 0 for miss in misses)
    steps = count(len(allocated.allocation.requests), "step")
    verdict = f"${bill_usd:,.2f} for {steps}: {again:.0%} is for sending text again"
    return verdict + (f", ${extra:,.2f} of it for cache misses" if extra >= 0.01 else "")  # noqa: PLR2004 - a cent


def _sample(allocated: AllocatedRun) -> str:
    run = allocated.run
    models = [*dict.fromkeys(shorten(request.served.model) for request in allocated.allocation.requests)]
    named = f", {models[0]}" if len(models) == 1 and models[0] else f", {len(models)} models" if len(models) > 1 else ""
    source = f" of {shorten(run.source)}" if run.source else ""
    sentences = [f"One run{source}{named}. Each token of a request is charged to what put it there."]
    return " ".join([*sentences, *facts_of_bill([allocated]).notes()[:1]])


def _draw_causes(ax: Axes, causes: pd.DataFrame) -> None:
    """Bars of the dearest causes, the others as one."""
    columns = [f"{piece}_usd" for piece in PIECES]
    shown_causes = len(causes) if len(causes) <= _MAX_CAUSES + 1 else _MAX_CAUSES
    amounts = causes[columns].to_numpy(dtype=float)
    names = [cause_name(cause) for cause in causes["tool"].iloc[:shown_causes]]
    if shown_causes < len(causes):
        names.append(f"{len(causes) - shown_causes} others")
        amounts = np.vstack([amounts[:shown_causes], amounts[shown_causes:].sum(axis=0)])
    totals, bill = amounts.sum(axis=1), amounts.sum()
    rows, edge = np.arange(len(names)), np.zeros(len(names))
    for index, piece in enumerate(PIECES):
        ax.barh(rows, amounts[:, index], left=edge, height=0.72, color=style.area(ax, PIECE_LOOKS[piece]), gid=piece)
        edge = edge + amounts[:, index]
    size = style.sizes(ax).text
    for row, total in enumerate(totals):
        style.annotate(ax, f"${total:,.2f}  {total / bill:.0%}", (total, row), (4, 0), va="center", size=size)
    ax.set_yticks(rows, names, **style.PLAIN)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(0, totals.max() * 1.34)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("dollars")


def _draw_context(ax: Axes, requests: Sequence[RequestBill]) -> None:
    """The tokens of each prompt, by what is paid for them."""
    tokens = np.array([[getattr(request.tokens, piece) for piece in _ORDER[:3]] for request in requests]) / 1000
    steps = np.array([request.step.index for request in requests])
    _draw_layers(ax, steps, tokens)
    context = tokens.sum(axis=1)
    ax.plot(steps, context, color=style.fade(ax, 0.9), linewidth=0.9, drawstyle="steps-mid")
    ax.set_ylim(0, max(context.max(), 0.001) * 1.22)
    ax.set_ylabel("context, thousand tokens")
    ax.tick_params(labelbottom=False)
    compacted = [request for request in requests if request.change.event == "compaction"]
    for request in compacted:
        ax.axvline(request.step.index - 0.5, color=style.fade(ax, 0.9), linewidth=0.8, linestyle=":", gid="compaction")
    if compacted:
        is_late = compacted[0].step.index > (steps[0] + steps[-1]) / 2
        style.annotate(ax, "compaction" if len(compacted) == 1 else f"{len(compacted)} compactions",
                       (compacted[0].step.index - 0.5, context.max() * 1.14), (-4 if is_late else 4, 0),
                       ha="right" if is_late else "left", size=style.sizes(ax).note)  # fmt: skip


def _draw_cents(ax: Axes, requests: Sequence[RequestBill], misses: Sequence[CacheMiss]) -> None:
    """The cents of each step, by what is paid for, with the dearest misses."""
    to_cents = UNITS * MICRO / 100
    cents = np.array(
        [[getattr(request.units, piece) / to_cents if request.units else 0 for piece in _ORDER] for request in requests]
    )
    _draw_layers(ax, np.array([request.step.index for request in requests]), cents)
    totals = cents.sum(axis=1)
    missed_cents = [
        cents[index].sum() for index, request in enumerate(requests) if request.extra_units and request.missed_tokens
    ]
    top = max(float(np.quantile(totals, _OUTLIERS)) * 1.6, max(missed_cents, default=0) * 1.12, 1e-9)
    ax.set_ylim(0, min(top, totals.max() * 1.12) or 1)
    ax.set_ylabel("cents a step")
    ax.set_xlabel("step")
    ax.locator_params(axis="x", integer=True, min_n_ticks=1)
    top = ax.get_ylim()[1]
    n_steps = requests[-1].step.index
    for level, miss in enumerate(sorted(misses, key=lambda miss: miss.request.step.index)):
        is_late = miss.request.step.index > 0.55 * n_steps
        style.annotate(ax, _miss_label(miss), (miss.request.step.index, top * (0.99 - 0.2 * level)),
                       (-4 if is_late else 4, 0), ha="right" if is_late else "left", va="top",
                       size=style.sizes(ax).note, color=style.edge(ax, PIECE_LOOKS["rewrite"]), gid="miss")  # fmt: skip


def _draw_layers(ax: Axes, steps: npt.NDArray[np.int64], layers: npt.NDArray[np.float64]) -> None:
    """A band for each piece, on top of each other, as wide as a step."""
    edges = np.append(steps - 0.5, steps[-1] + 0.5)
    lower = np.zeros(len(steps))
    for piece, upper in zip(_ORDER, accumulate(layers.T), strict=False):
        ax.stairs(
            upper, edges, baseline=lower, fill=True, color=style.area(ax, PIECE_LOOKS[piece]), linewidth=0, gid=piece
        )
        lower = upper
    ax.set_xlim(edges[0], edges[-1])
    style.count_ticks(ax, ax.xaxis)


def _dearest(misses: Sequence[CacheMiss], bill_usd: float) -> list[CacheMiss]:
    """The misses that are named: few, and only such as matter."""
    dear = [miss for miss in misses if (miss.extra_usd or 0) >= _LEAST_LABELLED * bill_usd]
    return sorted(dear, key=lambda miss: -(miss.extra_usd or 0))[:_MAX_LABELLED]


def _miss_label(miss: CacheMiss) -> str:
    idle = "" if miss.request.idle_ms is None else f", after a pause of {duration(miss.request.idle_ms)}"
    return f"miss: ${miss.extra_usd or 0:,.2f}{idle}"
