"""What things look like in a browser: the colours of the plots, as variables of CSS."""

from __future__ import annotations

from boolab.plots.style import KEPT, SAVED, STOP_LOOKS, TOOL_COLOURS

_HATCHED = "repeating-linear-gradient({angle}deg, {ink} 0 1px, {fill} 1px 4px)"
_ANGLES = {"/": 135, "\\": 45, "-": 0, "x": 45, ".": 90}


def stylesheet() -> str:
    """The variables that all stylesheets use, as one rule for `.boolab`: `--tool-read`, `--stop-step_cap`, `--kept`.

    A stop reason has three: its background with the hatch of the plots (`--stop-...`), its plain colour (`--fill-...`)
    and the colour of its edge (`--ink-...`).
    """
    lines = [f"--kept: {KEPT};", f"--saved: {SAVED};"]
    lines += [f"--tool-{kind}: {colour};" for kind, colour in TOOL_COLOURS.items()]
    for reason, look in STOP_LOOKS.items():
        fill = "transparent" if look.fill == "none" else look.fill
        hatch = _HATCHED.format(angle=_ANGLES[look.hatch[0]], ink=look.ink, fill=fill) if look.hatch else fill
        lines += [f"--fill-{reason}: {fill};", f"--ink-{reason}: {look.ink};", f"--stop-{reason}: {hatch};"]
    return ".boolab {\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"
