"""How things look that have one meaning in all plots: stop reasons, results of calls, groups; on light and dark.

`IN_DARK` is what colours of a light figure become in a dark one. At the end are the colour scales of cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from matplotlib.colors import (
    Colormap,
    LinearSegmentedColormap,
    ListedColormap,
    LogNorm,
    Normalize,
    TwoSlopeNorm,
    to_hex,
    to_rgb,
)

from boolab.display.colours import DARK, LIGHT

Color: TypeAlias = tuple[float, float, float]
Ink: TypeAlias = str | Color | tuple[float, float, float, float]

KEPT, SAVED, WRONG = LIGHT["kept"], LIGHT["saved"], LIGHT["wrong"]


class Look(NamedTuple):
    """How one meaning looks: the colours of its area and of its edge, its marker.

    An area of colour "none" is filled with the background.
    """

    fill: str
    ink: str
    marker: str = "o"


UNKNOWN: Final = "unknown"
"""Shown where a source has no value: it is never left out, and never counted as something else."""

_UNKNOWN_LOOK = Look("none", "#8b95a3", "$?$")

STOP_LOOKS: Final[Mapping[str, Look]] = {
    "finished": Look(KEPT, "#00466d", "o"),
    "synthesis": Look("#b4d6f0", "#3f7ea8", "P"),
    "paused": Look("#e6ebf2", "#8b95a3", "h"),
    "step_cap": Look("#d79a5c", "#8a5a26", "s"),
    "tool_budget": Look("#a9742a", "#694512", "D"),
    "doom_loop": Look("#2d1160", "#1b0a3c", "X"),
    "token_budget": Look("#cfc0a4", "#85775a", "^"),
    "cost_budget": Look("#412c0c", "#261a07", "v"),
    "time_budget": Look("#f0dcb0", "#9a8450", "<"),
    "error_streak": Look("#9180de", "#54459c", "*"),
    "stuck": Look("#b78fc0", "#70497a", "p"),
    "aborted": Look("#757c84", "#454b52", "d"),
    "error": Look(WRONG, "#6d150f", ">"),
    UNKNOWN: _UNKNOWN_LOOK,
}
"""By stop reason, in their fixed order. Blue: done; brown: a budget; violet: repetition; red: an error.

Within a hue they differ in lightness, so that readers with deuteranopia or protanopia can distinguish all."""

TURN_LOOKS: Final[Mapping[str, Look]] = {
    **{name: look for name, look in STOP_LOOKS.items() if name != UNKNOWN},
    "interrupted": Look("#b3b9c0", "#646b73", "H"),
    UNKNOWN: _UNKNOWN_LOOK,
}
"""The same for turns, of which some end because the user's next message came."""

CALL_LOOKS: Final[Mapping[str, Look]] = {
    "failed": Look(WRONG, "#7a1a14", "X"),
    "ok": Look("#c5ccd5", "#8b95a3"),
    UNKNOWN: _UNKNOWN_LOOK,
    "dropped": Look("#757c84", "#454b52", "d"),
}
"""By the result of a call, in the order in which bars are stacked: failures start at the axis, to be compared."""

PIECE_LOOKS: Final[Mapping[str, Look]] = {
    "output": Look("#56595f", "#2f3236"),
    "first": Look(KEPT, "#00466d"),
    "reread": Look("#e69f00", "#8a5f00"),
    "rewrite": Look("#d55e00", "#7f3800"),
}
"""By what a bill pays for: text that the model wrote, that was sent the first time, or again, from the cache or not.

Of the colours of Okabe and Ito, which readers with each kind of colour blindness can distinguish."""

GROUP_LOOKS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("#332288", "-", "o"),
    ("#44aa99", (0, (5, 1.5)), "s"),
    ("#882255", (0, (1.5, 1)), "^"),
    ("#999933", (0, (6, 1.5, 1.5, 1.5)), "D"),
    ("#cc6677", (0, (3, 1)), "v"),
    ("#117733", (0, (8, 2)), "P"),
)
"""Colour, line and marker by group, where a plot has a line for each: Paul Tol's muted colours, in none of the hues
above that mean something. There are no more, because more lines cannot be distinguished."""


def mix(upper: Color, lower: Color, strength: float) -> Color:
    """One colour over another, with a strength from 0 to 1."""
    r, g, b = (strength * o + (1 - strength) * u for o, u in zip(upper, lower, strict=True))
    return (r, g, b)


def is_dark(color: Color) -> bool:
    """Whether white is easier to read on a colour than black, by its luminance in the contrast rules of the web."""
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color)  # noqa: PLR2004 - sRGB
    return 0.2126 * r + 0.7152 * g + 0.0722 * b < 0.3  # noqa: PLR2004 - sRGB


def light_edge(look: Look) -> str:
    """The colour of edges on a dark background."""
    return look.ink if look.fill == "none" else to_hex(mix(to_rgb(look.fill), (1.0, 1.0, 1.0), 0.6))


def lighten(color: str) -> str:
    """A colour of lines on a dark background."""
    return DARK[_MEANINGS[color]] if color in _MEANINGS else to_hex(mix(to_rgb(color), (1.0, 1.0, 1.0), 0.6))


_MEANINGS: Final = {color: name for name, color in LIGHT.items()}
IN_DARK: Final[Mapping[str, str]] = {
    **{look.ink: light_edge(look) for look in (*TURN_LOOKS.values(), *CALL_LOOKS.values())},
    **{color: lighten(color) for color in (*(color for color, _, _ in GROUP_LOOKS), *_MEANINGS)},
}
"""What colours of lines, letters and edges become on a dark background; those of most areas do not change."""


def ink_on(fill: Ink, *, themed: bool = False) -> str:
    """The colour of a number on an area: one that a theme does not change; or one that it changes with the area."""
    dark = is_dark(to_rgb(fill))
    if themed and to_hex(fill) in IN_DARK:
        return LIGHT["bg"] if dark else LIGHT["ink"]
    return "#fffffe" if dark else DARK["bg"]


BROKEN_COLOURS: Final = ("#a63c00", "#c8661f", "#f6e2d3")
"""Below the promise: orange, the stronger the worse."""
WHITE: Final = (1.0, 1.0, 1.0)
HELD_COLOURS: Final = ("#d3e6f2", "#a9cfe6")
"""At the promise and above it: a light blue, because more than enough is no news."""

BROKEN_IN_DARK: Final = ("#f08030", "#96501f", "#3b2d25")
HELD_IN_DARK: Final = ("#1d3347", "#2c5c83")
"""The same for a dark page, where what is near the promise is dark."""


def diverging_colours(keep: float, low: float, *, dark: bool = False) -> tuple[Colormap, Normalize]:
    """Two ranges that meet at the share that is to be kept, from the lowest share on."""
    broken_colours, held_colours = (BROKEN_IN_DARK, HELD_IN_DARK) if dark else (BROKEN_COLOURS, HELD_COLOURS)
    below_colours, above = (
        LinearSegmentedColormap.from_list(name, colours)(np.linspace(0, 1, 128))
        for name, colours in (("below", broken_colours), ("above", held_colours))
    )
    centre = min(keep, 0.999)
    return ListedColormap(np.concatenate((below_colours, above))), TwoSlopeNorm(centre, min(low, centre - 0.01), 1)


def sequential_colours(
    color: str, low: float, high: float, ground: Color = WHITE, *, log: bool = False
) -> tuple[Colormap, Normalize]:
    """One range, from near the background to a colour."""
    ground_rgb = np.array(ground)
    end = np.array(to_rgb(color))
    first = tuple(0.92 * ground_rgb + 0.08 * end)
    colours = LinearSegmentedColormap.from_list("rising", [first, tuple(0.35 * ground_rgb + 0.65 * end), color])
    return colours, (LogNorm if log else Normalize)(low, high)
