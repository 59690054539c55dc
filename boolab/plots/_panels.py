"""Figures of several panels: their plain axes, and a title, a key and a footnote for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch

from boolab.plots import style


def strip(ax: Axes) -> None:
    """Leave the left and the lower spine, and fade what names the axes."""
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set(color=style.fade(ax, 0.4), linewidth=0.8)
    ax.tick_params(labelsize=style.sizes(ax).text, labelcolor=style.fade(ax, 0.85), color=style.fade(ax, 0.4))
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set(size=style.sizes(ax).text, color=style.fade(ax, 0.65), **style.PLAIN)


def name_figure(figure: Figure, ax: Axes, title: str, sample: str, handles: Sequence[Patch] = ()) -> None:
    """The title, the key under it, and what is drawn, at the foot. A layout knows no key between a title and panels."""
    size, height = style.sizes(ax), figure.get_figheight() * 72
    under_title = 1 - (size.title * 2.1 if title else 2) / height
    layout = figure.get_layout_engine()
    if isinstance(layout, ConstrainedLayoutEngine):
        layout.set(rect=(0, 0, 1, under_title - (size.text * 2 / height if handles else 0)))
    if handles:
        figure.legend(handles=handles, ncol=len(handles), loc="upper left", bbox_to_anchor=(0, under_title),
                      frameon=False, fontsize=size.text, handlelength=1, columnspacing=1.4,
                      borderaxespad=0)  # fmt: skip
    widest = 0.97 * figure.get_figwidth() * 72 / (0.65 * max(len(title), 1))
    heading = figure.suptitle(title, x=0.008, y=0.985, ha="left", va="top", size=min(size.title * 1.15, widest),
                              weight="bold", **style.PLAIN)  # fmt: skip
    heading.set_in_layout(False)
    figure.supxlabel(sample, x=0.008, ha="left", size=size.note, color=style.fade(ax, 0.68), gid="footnote",
                     **style.PLAIN)  # fmt: skip
