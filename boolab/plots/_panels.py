"""Small multiples: a small figure for each group, where there are too many groups for one figure."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from matplotlib.axes import Axes
from matplotlib.text import Text

from boolab.plots import style
from boolab.plots.themed import new_figure

Part = TypeVar("Part")

MAX_PANELS: Final = 30
_ACROSS: Final = 3


def draw_panels(
    parts: Sequence[tuple[str, Part]],
    draw: Callable[[Part, Axes], object],
    *,
    title: str,
    notes: Iterable[str],
    height: float = 1.7,
) -> Axes:
    """A new figure with a panel for each group, all to one scale.

    Returns the Axes of the first panel; `.figure` has them all.
    """
    across = min(_ACROSS, len(parts))
    down = math.ceil(len(parts) / across)
    figure = new_figure(7.2, 1.1 + height * down, pad=0.06)
    grid = figure.subplots(down, across, squeeze=False).ravel().tolist()
    panels: list[Axes] = grid[: len(parts)]
    for panel, (name, part) in zip(panels, parts, strict=True):
        draw(part, panel)
        panel.set_title(name, loc="left", size=style.sizes(panel).text, weight="bold", y=1.0,
                        pad=4 + 1.6 * style.sizes(panel).text, **style.PLAIN)  # fmt: skip
    for place, panel in enumerate(panels):
        _plain(panel, labelled=not place, left=not place % across, lowest=place + across >= len(parts))
    for side in ("xlim", "ylim"):
        lows, highs = zip(*(getattr(panel, f"get_{side}")() for panel in panels), strict=True)
        for panel in panels:
            getattr(panel, f"set_{side}")(min(lows), max(highs))
    for panel in grid[len(parts) :]:
        panel.set_axis_off()
    size = style.sizes(panels[0])
    wide = figure.get_figwidth() * 72 * 0.95
    wrapped = textwrap.fill(title, int(wide / (size.title * 1.25 * 0.6)))
    figure.suptitle(wrapped, x=0.01, ha="left", size=size.title * 1.25, weight="bold", **style.PLAIN)
    note = textwrap.fill(" ".join(filter(None, notes)), int(wide / (size.note * 1.15 * 0.56)))
    ink = style.fade(panels[0], 0.68)
    figure.supxlabel(note, x=0.01, ha="left", size=size.note * 1.15, color=ink, gid="footnote", **style.PLAIN)
    return panels[0]


def _plain(panel: Axes, *, labelled: bool, left: bool, lowest: bool) -> None:
    """Remove what other panels show already: names of lines are in the first panel, of axes at the edges."""
    for text in panel.findobj(Text):
        if text.get_gid() in ("footnote", "subtitle") or (text.get_gid() in ("line label", "mark") and not labelled):
            text.set_visible(False)
            text.set_in_layout(False)
    if not left:
        panel.set_ylabel("")
        panel.tick_params(labelleft=False)
    if not lowest:
        panel.set_xlabel("")
