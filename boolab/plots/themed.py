"""Figures that follow a notebook's theme by themselves: one SVG, whose colours change with it.

A notebook shows a figure of boolab's own as an image, with a style rule that passes on whether the theme
is dark. Where a notebook is not trusted, the rule is removed: the image then follows the reader's system, and has a
ground of its own, on which it can be read. Other programs find a PNG, as of every figure.
"""

from __future__ import annotations

import base64
import io
import re
from typing import Any, Final

import matplotlib as mpl
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from boolab.display.colours import DARK, LIGHT
from boolab.display.html import render_template
from boolab.plots.palette import IN_DARK, mix

VECTOR: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",  # text is text, in the reader's font
    "svg.hashsalt": "boolab",  # the same figure is the same file
    "pdf.fonttype": 42,  # TrueType: journals refuse the default, Type 3
    "ps.fonttype": 42,
}
"""The settings of matplotlib for files of vectors."""

_COLOUR: Final = re.compile(r"(?<=fill: )#[0-9a-f]{6}|(?<=stroke: )#[0-9a-f]{6}")
_HEAD: Final = re.compile(r"^.*?(<svg [^>]*>)", re.DOTALL)
_NUMBER: Final = re.compile(r"(?<!\d)-?\d+\.\d{3,}")


class ThemedFigure(Figure):
    """The figure that a plot makes itself."""

    def _repr_html_(self) -> str | None:
        """What a notebook shows; None for a figure with a ground of the user's own, which stays as it is."""
        if to_hex(self.get_facecolor(), keep_alpha=True) != f"{LIGHT['bg']}ff":
            return None
        file = io.StringIO()
        with mpl.rc_context(VECTOR):
            self.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
        name = next((text for ax in self.axes if (text := ax.get_title(loc="left"))), "") or self.get_suptitle()
        image = base64.b64encode(theme_svg(file.getvalue()).encode()).decode()
        return render_template("figure.html", alt=name, image=image)


def new_figure(width: float, height: float, pad: float = 0.1) -> Figure:
    """A figure of this size in inches, known to pyplot, that follows the notebook's theme."""
    from matplotlib import pyplot as plt

    layout = ConstrainedLayoutEngine(w_pad=pad, h_pad=pad)
    return plt.figure(figsize=(width, height), layout=layout, FigureClass=ThemedFigure)


def theme_svg(svg: str) -> str:
    """An SVG for light and dark: each colour that differs becomes a variable, set by the reader's theme."""
    names: dict[str, str] = {}

    def variable(match: re.Match[str]) -> str:
        color = match[0]
        if dark_colour(color) == color:
            return color
        return f"var(--{names.setdefault(color, f'c{len(names)}')})"

    body = _NUMBER.sub(lambda found: f"{float(found[0]):.2f}", _COLOUR.sub(variable, svg))
    light = "".join(f"--{name}:{color};" for color, name in names.items())
    dark = "".join(f"--{name}:{dark_colour(color)};" for color, name in names.items())
    light, dark = (f"svg{{{variables}fill:{ink}}}" for variables, ink in ((light, "#000000"), (dark, DARK["ink"])))
    rules = f"<style>{light}@media (prefers-color-scheme: dark){{{dark}}}</style>"
    return _HEAD.sub(lambda found: found[1] + rules, body, count=1)


def dark_colour(color: str) -> str:
    """A colour of a light figure as a dark one has it: what means something, greys, edges; filled areas stay."""
    red, green, blue = to_rgb(color)
    if red == green == blue:  # black, faded towards white
        return to_hex(mix(to_rgb(DARK["ink"]), to_rgb(DARK["bg"]), 1 - red))
    return IN_DARK.get(color, color)
