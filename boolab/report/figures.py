"""Figures for a page without scripts: one inline SVG for light and dark, whose colours are the page's variables.

A figure is drawn twice, in light and in dark. The two differ in nothing but colours, so that they become one: a
colour that differs becomes a variable, which the page's style sets for each scheme.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import Any, Final

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from boolab.core.text import clean
from boolab.display import colours

Draw = Callable[..., Axes]
"""Draws into the Axes `ax`; or, for None, into panels of a figure of its own, and returns the first of them."""

LIGHT: Final = (colours.LIGHT["ink"], colours.LIGHT["bg"])
DARK: Final = (colours.DARK["ink"], colours.DARK["bg"])
"""The colours of text and of the background, which are those of the page."""

_COLOUR: Final = re.compile(r"#[0-9a-f]{6}\b")
_ID: Final = re.compile(r'\sid="([^"]+)"')
_REFERENCE: Final = re.compile(r'(?<=["(])#([A-Za-z][^")]*)(?=[")])')
_JUNK: Final = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>|(?<!\s)\s+xmlns:\w+=\"[^\"]*\"",
    re.DOTALL,
)
_LINK: Final = re.compile(r'xlink:href="([^"]*)"')
_NUMBER: Final = re.compile(r"(?<!\d)-?\d+\.\d{3,}")
_FONT: Final = re.compile(r"(font:[^;\"]*?px|font-family:)\s[^;\"]*")


class PageFigures:
    """The figures of one page."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str], str] = {}
        self._count = 0

    def draw(
        self, draw: Draw, caption: str, width: float = 7.6, height: float = 3.8, *, panels: bool = False
    ) -> Markup:
        """A figure in inches, as an element that screen readers name by its caption; panels choose their own size."""
        self._count += 1
        boxes: list[Any] = []
        light, dark = (self._svg(draw, None if panels else (width, height), looks, boxes) for looks in (LIGHT, DARK))
        svg = self._together(light, dark)
        labelled = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(clean(caption))}" ', 1)
        return Markup("<figure>{}</figure>").format(Markup(labelled))  # noqa: S704 - Matplotlib escapes its texts

    def style(self) -> str:
        """The variables of all figures, for light and for dark."""
        light = "".join(f"--{name}:{pair[0]};" for pair, name in self._pairs.items())
        dark = "".join(f"--{name}:{pair[1]};" for pair, name in self._pairs.items())
        return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"

    def _svg(self, draw: Draw, size: tuple[float, float] | None, colours: tuple[str, str], boxes: list[Any]) -> str:
        """One drawing. The first leaves the places of its Axes, so that the second need not compute them again."""
        file = io.StringIO()
        settings: Any = {**mpl.rcParamsDefault, **_look(*colours)}  # its stubs name every key
        settings.pop("backend")
        with mpl.rc_context(settings), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")  # the page's font is the reader's, and has them
            figure = _figure(draw, size)
            if boxes:
                figure.set_layout_engine("none")
                for ax, box in zip(figure.axes, boxes, strict=True):
                    ax.set_position(box)
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
            boxes[:] = [ax.get_position() for ax in figure.axes]
        svg = "".join(char for char in _JUNK.sub("", file.getvalue()).strip() if char.isprintable() or char == "\n")
        svg = self._named(svg)
        svg = _LINK.sub(r'href="\1"', svg)
        svg = _NUMBER.sub(lambda match: f"{float(match[0]):.2f}", svg)
        svg = _FONT.sub(r"\1 var(--font)", svg)
        return re.sub(
            r'(<svg [^>]*?) width="[^"]*"|(<svg [^>]*?) height="[^"]*"', r"\1\2", re.sub(r"(?<!\s)\s*\n\s*", "\n", svg)
        )

    def _named(self, svg: str) -> str:
        """The names in an SVG made the page's own, each given once, and only those that are referred to."""
        names = {name: f"fig{self._count}-{n}" for n, name in enumerate(dict.fromkeys(_REFERENCE.findall(svg)))}
        used_ids: set[str] = set()

        def name(match: re.Match[str]) -> str:
            if match[1] not in names or match[1] in used_ids:
                return ""
            used_ids.add(match[1])
            return f' id="{names[match[1]]}"'

        return _REFERENCE.sub(lambda match: f"#{names[match[1]]}", _ID.sub(name, svg))

    def _together(self, light: str, dark: str) -> str:
        """One SVG for both; where they differ in more than colours, both, each shown in its scheme."""
        if _COLOUR.split(light) != _COLOUR.split(dark):
            return f'<div class="light">{light}</div><div class="dark">{dark}</div>'
        colours = iter(zip(_COLOUR.findall(light), _COLOUR.findall(dark), strict=True))
        return _COLOUR.sub(lambda _: self._colour(*next(colours)), light)

    def _colour(self, light: str, dark: str) -> str:
        if light == dark:
            return light
        name = self._pairs.setdefault((light, dark), f"f{len(self._pairs)}")
        return f"var(--{name})"


def _figure(draw: Draw, size: tuple[float, float] | None) -> Figure:
    if size is not None:
        figure = Figure(figsize=size, layout="constrained")
        draw(ax=figure.add_subplot())
        return figure
    from matplotlib import pyplot as plt

    root_figure = draw(ax=None).get_figure(root=True)
    assert root_figure is not None  # noqa: S101 - what is drawn is in a figure
    plt.close(root_figure)  # pyplot would keep it
    return root_figure


def _look(text: str, ground: str) -> dict[str, Any]:
    """Matplotlib's settings in these colours."""
    text_keys = ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color")
    return {
        **dict.fromkeys(text_keys, text),
        "figure.facecolor": ground,
        "axes.facecolor": ground,
        "savefig.facecolor": ground,
        "font.size": 10,
        "svg.fonttype": "none",
        "svg.hashsalt": "boolab",
    }
