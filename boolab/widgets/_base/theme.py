"""What things look like in a browser: the colours of the plots, as variables of CSS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from boolab.display.colours import DARK, LIGHT
from boolab.plots.palette import STOP_LOOKS, light_edge

_DARK = '[data-jp-theme-light="false"] .boolab, .boolab-page.dark .boolab'


GREYS = {
    "bg": "layout-color0", "line": "border-color2", "ink": "ui-font-color0", "ink2": "ui-font-color1",
}  # fmt: skip
"""The greys that a notebook has too, and the name of its own. The ground is that of the notebook's cells."""
MIXED = {
    "ink3": "color-mix(in srgb, var(--jp-ui-font-color0, {ink}) 64%, var(--jp-layout-color0, {bg}))",
    "surface": "color-mix(in srgb, var(--jp-layout-color2, {surface}) 50%, var(--jp-layout-color0, {bg}))",
    "sunk": "color-mix(in srgb, var(--jp-layout-color2, {sunk}) 60%, var(--jp-layout-color0, {bg}))",
}
"""Those that are mixed: a notebook's palest text is too pale to be read on all of its grounds, and its greys for
surfaces stand out more than what is on them."""


def stylesheet() -> str:
    """The variables that all stylesheets use: `--ink`, `--kept`, `--tool-read`, `--stop-step_cap`.

    Greys are those of the notebook, so that its themes hold in a widget. A stop reason has its colour in the plots
    (`--stop-...`) and that of its edge (`--ink-...`), which is light on a dark background.
    """
    shared = [f"--{name}: {_grey(name, LIGHT)};" for name in LIGHT]
    for reason, look in STOP_LOOKS.items():
        fill = "transparent" if look.fill == "none" else look.fill
        shared += [f"--stop-{reason}: {fill};", f"--ink-{reason}: {look.ink};"]
    dark = [f"--{name}: {_grey(name, DARK)};" for name in DARK]
    dark += [f"--ink-{reason}: {light_edge(look)};" for reason, look in STOP_LOOKS.items()]
    return f"{_rule('.boolab', shared)}{_rule(_DARK, dark)}"


def _grey(name: str, colours: Mapping[str, str]) -> str:
    if name in MIXED:
        return MIXED[name].format(**colours)
    return f"var(--jp-{GREYS[name]}, {colours[name]})" if name in GREYS else colours[name]


def _rule(selector: str, lines: Sequence[str]) -> str:
    return f"{selector} {{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"
