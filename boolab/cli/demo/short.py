"""What `boolab demo` shows at first: the answer on recorded public runs, and two figures."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from boolab.cli.demo.demo import folder_of
from boolab.cli.demo.recordings import figures_of, public_recording
from boolab.core.text import count, wrapped
from boolab.harnesses.exports.command import as_command
from boolab.stats.trade import BETTER_OFF

FIGURES: Final = ("caps.png", "heatmap.png")


def short_demo(out: str | Path) -> str:
    """The answer on recorded public runs, as text; two figures are written into the folder.

    Raises:
        SettingError: if the folder cannot be written to.
    """
    from matplotlib.figure import Figure

    folder, recording = folder_of(out), public_recording()
    found = recording.recommend()
    steps = count(sum(run.n_steps for run in recording.runs), "step")
    size = f"{count(len(recording.runs), 'recorded run')} with {steps}"
    head = f"boolab demo: {recording.name}, {size}. Which limits would have kept the successes, and what do they save?"
    draw = figures_of(recording, found)
    for name in FIGURES:
        figure = Figure(figsize=(9, 5), layout="constrained")
        draw[name](figure.add_subplot())
        figure.savefig(folder / name, dpi=150)
    limits = found.limits()
    blocks = [
        wrapped(head),
        "\n".join(map(wrapped, found.verdict)),
        f"How to set it{f' ({BETTER_OFF})' if found.better_off() else ''}:\n  {as_command(limits, 'claude-code')}",
        "\n".join(["Written:", *(f"  {folder / name}" for name in FIGURES)]),
        wrapped("--full runs every shipped agent on every shipped script too, and prints and writes all tables."),
    ]
    return "\n\n".join(block for block in blocks if block)
