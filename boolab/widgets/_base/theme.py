"""What things look like in a browser: the colours of the plots, as variables of CSS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from boolab.plots.style import DARK, LIGHT, STOP_LOOKS

_HATCHED = "repeating-linear-gradient({angle}deg, {ink} 0 1px, {fill} 1px 4px)"
_DARK = '[data-jp-theme-light="false"] .boolab, .boolab-page.dark .boolab'
_ANGLES = {"/": 135, "\\": 45, "-": 0, "x": 45, ".": 90}


GREYS = {
    "bg": "layout-color1", "surface": "layout-color2", "line": "border-color2",
    "ink": "ui-font-color0", "ink2": "ui-font-color1", "ink3": "ui-font-color2",
}  # fmt: skip
"""The greys that a notebook has too, and the name of its own."""


def stylesheet() -> str:
    """The variables that all stylesheets use: `--ink`, `--kept`, `--tool-read`, `--stop-step_cap`.

    Greys are those of the notebook, so that its themes hold in a widget. A stop reason has three variables: its
    background with the hatch of the plots (`--stop-...`), its plain colour (`--fill-...`) and the colour of its edge
    (`--ink-...`).
    """
    shared = [f"--{name}: {_grey(name, LIGHT)};" for name in LIGHT]
    for reason, look in STOP_LOOKS.items():
        fill = "transparent" if look.fill == "none" else look.fill
        hatch = _HATCHED.format(angle=_ANGLES[look.hatch[0]], ink=look.ink, fill=fill) if look.hatch else fill
        shared += [f"--fill-{reason}: {fill};", f"--ink-{reason}: {look.ink};", f"--stop-{reason}: {hatch};"]
    dark = [f"--{name}: {_grey(name, DARK)};" for name in DARK]
    return f"{_rule('.boolab', shared)}{_rule(_DARK, dark)}"


def _grey(name: str, colours: Mapping[str, str]) -> str:
    return f"var(--jp-{GREYS[name]}, {colours[name]})" if name in GREYS else colours[name]


def _rule(selector: str, lines: Sequence[str]) -> str:
    return f"{selector} {{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"
