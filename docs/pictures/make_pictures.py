"""Makes the pictures of the README: plots of the simulated recording, and widgets as a real Chromium shows them.

Usage: python -m docs.pictures.make_pictures [FOLDER]
"""  # noqa: INP001 - a script beside its pictures

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from matplotlib.figure import Figure
from PIL import Image
from playwright.sync_api import Browser, Page

import boolab as bl
from boolab.data import data_path
from boolab.widgets.shown import Shown
from tests.browser.chromium import HOW_TO_GET_IT, program, started

POLLS: Final = {"wait_for_build": None}
WIDTH: Final = 1080
COLOURS: Final = 128
"""Widgets have few colours: with these no edge of a letter looks different, and a file is a third as large."""


class Picture(NamedTuple):
    """A widget to be seen: its file, the widget, what is done to its page first, and the theme."""

    name: str
    widget: Shown
    prepare: Callable[[Page], object] | None = None
    theme: str = "light"


def plots(folder: Path, runs: Sequence[bl.Run]) -> None:
    """Draw the plots."""
    found = bl.recommend(runs, keep=0.9, identity=POLLS)
    table = bl.counterfactual(runs, grid={"steps": range(1, 81)}, identity=POLLS, tally=True)
    figure = Figure(figsize=(9, 4), layout="constrained")
    bl.plot_caps(table, recommended=int(found.setting["steps"]), ax=figure.add_subplot())
    figure.savefig(folder / "caps.png", dpi=150)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    bl.plot_timeline(max(runs, key=lambda run: run.n_steps), ax=figure.add_subplot())
    figure.savefig(folder / "stuck_run.png", dpi=150)


def widgets(runs: Sequence[bl.Run]) -> list[Picture]:
    """The widgets, each with something to tell."""
    by_id = {run.run_id: run for run in runs}
    replay = bl.Replay(by_id["coder-041"], step=14)
    return [Picture("replay.png", replay), Picture("replay_dark.png", replay, theme="dark")]


def take(browser: Browser, picture: Picture, folder: Path) -> None:
    """Open the widget's page, and keep what is to be seen."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "page.html"
        picture.widget.to_html(path)
        page = browser.new_page(viewport={"width": WIDTH, "height": 700}, device_scale_factor=2)
        page.goto(f"{path.as_uri()}#{picture.theme}")
        page.locator("#views .boolab").first.wait_for()
        if picture.prepare is not None:
            picture.prepare(page)
        page.wait_for_timeout(300)  # for what is drawn in the next frames
        image = Image.open(io.BytesIO(page.locator("#views").screenshot()))
        page.close()
    image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(folder / picture.name, optimize=True)


def main(folder: Path) -> None:
    """Make all of them."""
    if program() is None:
        sys.exit(HOW_TO_GET_IT)
    runs = bl.load_runs(data_path("datasets") / "runs")
    plots(folder, runs)
    pictures = widgets(runs)
    with started() as browser:
        for picture in pictures:
            take(browser, picture, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
