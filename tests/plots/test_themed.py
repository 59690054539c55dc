"""Figures in notebooks follow the theme: what an SVG becomes in the dark is what a dark figure has."""

import base64
import io
import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from boolab.plots import output, plot_steps, plot_stop_reasons, plot_survival, plot_timeline, plot_tools, themed
from tests.plots.test_plots import RUNS
from tests.support.cases import first

PLOTS: dict[str, Any] = {
    "steps": lambda **how: plot_steps(RUNS, **how),
    "stop reasons": lambda **how: plot_stop_reasons(RUNS, **how),
    "tools": lambda **how: plot_tools(RUNS, **how),
    "survival": lambda **how: plot_survival(RUNS, **how),
    "timeline": lambda **how: plot_timeline(RUNS[1], **how),
}
COLOUR = re.compile(r"(?:fill|stroke): (#[0-9a-f]{6})")
UNWRITTEN = {"#000000", "#e7ebf0"}
"""Ink, which matplotlib leaves out where it is black."""


def colours(name: str) -> list[str]:
    """The colours of a plot's SVG, in their order."""
    file = io.BytesIO()
    output.save(PLOTS[name](ax=Figure(figsize=(7, 5), layout="constrained").subplots()), file, format="svg")
    return [color for color in COLOUR.findall(file.getvalue().decode()) if color not in UNWRITTEN]


def shown(figure: Any) -> str:
    """The SVG in what a notebook shows."""
    found = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', figure._repr_html_())
    assert found is not None
    return base64.b64decode(found[1]).decode()


@pytest.mark.parametrize("name", first(3, PLOTS))
def test_dark_figure_equals_the_figure_drawn_for_dark(name: str) -> None:
    light = colours(name)
    with output.theme("dark"):
        dark = colours(name)
    pairs = {(themed.dark_colour(one), other) for one, other in zip(light, dark, strict=True)}
    close = {pair for pair in pairs if np.abs(np.subtract(to_rgb(pair[0]), to_rgb(pair[1]))).max() < 0.01}
    assert pairs - close <= {("#8b95a3", "#dce0e6")}  # the edge of a call that went well


def test_figure_colours_are_variables_that_follow_the_theme() -> None:
    figure = plot_steps(RUNS).figure
    svg = shown(figure)
    plt.close("all")
    light, dark = (dict(re.findall(r"--(c\d+):(#\w+);", part)) for part in svg.split("prefers-color-scheme: dark")[:2])
    assert light.keys() == dark.keys() == set(re.findall(r"var\(--(c\d+)\)", svg))
    assert {"#ffffff", "#0072b2"} <= set(light.values())
    assert {"#12161b", "#6f9bff"} <= set(dark.values())
    assert "<text" in svg


def test_the_image_is_named_by_the_finding() -> None:
    ax = plot_stop_reasons(RUNS, title='Ends & "reasons"')
    html = str(ax.figure._repr_html_())  # type: ignore[union-attr] # a figure that is no subfigure
    plt.close("all")
    assert 'alt="Ends &amp; &quot;reasons&quot;"' in html


def test_a_figure_of_the_user_s_own_colours_stays_as_it_is() -> None:
    grounds: list[output.Ground] = ["dark", "transparent"]
    for ground in grounds:
        with output.theme(ground):
            assert plot_steps(RUNS).figure._repr_html_() is None  # type: ignore[union-attr]
    plt.close("all")


def test_greys_stay_in_order() -> None:
    greys = [themed.dark_colour(f"#{level:02x}{level:02x}{level:02x}") for level in range(0, 256, 15)]
    assert all(one > other for one, other in pairwise(greys))


def test_colour_that_differs_becomes_a_variable() -> None:
    assert (
        themed.theme_svg('<svg width="9"><path style="fill: #ffffff"/></svg>')[-45:]
        == '</style><path style="fill: var(--c0)"/></svg>'
    )
