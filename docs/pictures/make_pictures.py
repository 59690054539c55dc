"""Draws the pictures of the README that are about recordings, from the simulated one that comes with boolab.

Usage: python docs/pictures/make_pictures.py [FOLDER]
"""  # noqa: INP001 - a script beside its pictures

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure

import boolab as bl
from boolab.data import data_path

POLLS = {"wait_for_build": None}


def main(folder: Path) -> None:
    """Draw them."""
    runs = bl.load_runs(data_path("datasets") / "runs")
    found = bl.recommend(runs, keep=0.9, identity=POLLS)
    table = bl.counterfactual(runs, grid={"steps": range(1, 81)}, identity=POLLS, tally=True)
    figure = Figure(figsize=(9, 4), layout="constrained")
    bl.plot_caps(table, recommended=int(found.setting["steps"]), ax=figure.add_subplot())
    figure.savefig(folder / "caps.png", dpi=150)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    bl.plot_timeline(max(runs, key=lambda run: run.n_steps), ax=figure.add_subplot())
    figure.savefig(folder / "stuck_run.png", dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
