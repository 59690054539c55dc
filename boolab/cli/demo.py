"""The command `boolab demo`: the answer on recorded public runs, and two figures."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from boolab.cli.help import Command
from boolab.core.commands import insert_program
from boolab.core.run import Run
from boolab.core.text import count
from boolab.display.numbers import level
from boolab.display.text import wrap_text
from boolab.errors import SettingError
from boolab.frames.tables import runs_df
from boolab.harnesses.exports.export import as_command
from boolab.io.files import user_path
from boolab.logs.datasets import load_dataset
from boolab.stats.recommend.decision import Decision
from boolab.stats.recommend.recommend import recommend
from boolab.whatif.evaluate import counterfactual

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PUBLIC: Final = "atlas/intercode-python"
"""Public runs that come with boolab."""
KEEP: Final = 0.9


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "-o", "--out", metavar="FOLDER", default="out/demo", help="the folder for the figures (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the answer on recorded runs."""
    print(insert_program(demo(args.out)))
    return 0


def demo(out: str | Path) -> str:
    """The answer on recorded public runs, as text; two figures are written into the folder."""
    folder, runs = user_path(out), load_dataset(PUBLIC)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(f"{folder} cannot be written to: {error.strerror}") from error
    decision = recommend(runs, KEEP, scope="run")
    size = f"{count(len(runs), 'recorded run')} with {count(sum(run.n_steps for run in runs), 'step')}"
    command = as_command(decision.limits(), "claude-code")
    question = f"Which limits keep {level(KEEP)} of the successes, and what do they save?"
    blocks = [
        wrap_text(f"boolab demo: {PUBLIC} (public runs), {size}. {question}"),
        "\n".join(map(wrap_text, decision.verdict)),
        f"How to set it:\n  {command}",
        "\n".join(["Written:", *(f"  {path}" for path in _draw(folder, runs, decision))]),
    ]
    return "\n\n".join(block for block in blocks if block)


def _draw(folder: Path, runs: Sequence[Run], decision: Decision) -> Iterator[Path]:
    """Draw the step caps, and pairs of step caps and tool budgets, up to the 97th percentile of what runs use."""
    from matplotlib.figure import Figure

    from boolab.plots import plot_caps, plot_heatmap

    frame = runs_df(runs)
    setting = decision.setting
    grid = {
        axis: range(1, 1 + max(int(frame[column].quantile(0.97)), setting.get(axis) or 1))
        for axis, column in (("max_steps", "n_steps"), ("tool_budget", "n_tool_calls"))
    }
    caps = counterfactual(runs, grid={"max_steps": grid["max_steps"]}, aggregate=True, scope="run")
    pairs = counterfactual(runs, grid=grid, aggregate=True, scope="run")
    figures: dict[str, Callable[[Axes], object]] = {
        "caps.png": lambda ax: plot_caps(caps, recommended=setting.get("max_steps"), ax=ax),
        "heatmap.png": lambda ax: plot_heatmap(pairs, keep=float(decision["keep"].iloc[0]), ax=ax),
    }
    for name, draw in figures.items():
        figure = Figure(figsize=(9, 5), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(folder / name, dpi=150)
        yield folder / name


COMMAND: Final = Command(
    run,
    add,
    "Decides on limits for 236 public runs that come with boolab, shows how to set it, and draws two figures.",
    """
    examples:
      boolab demo
      boolab demo -o out/python
    """,
)
