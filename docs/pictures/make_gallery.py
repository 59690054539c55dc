"""Makes the pictures of docs/gallery.md by its own code: a picture is what the block before it draws.

Usage: python -m docs.pictures.make_gallery [FOLDER]
"""  # noqa: INP001 - a script beside its pictures

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import pyplot as plt
from PIL import Image

import boolab as bl

PAGE: Final = Path(__file__).parents[1] / "gallery.md"
FOLDER: Final = Path(__file__).parent / "gallery"
BLOCK: Final = re.compile(r"```python\n(.*?)```\n(?:\n!\[[^\]]*\]\(pictures/gallery/(\w+)\.png\))?", re.DOTALL)
DPI: Final = 120
COLOURS: Final = 128


def blocks() -> Iterator[tuple[str, str]]:
    """The code of the page, block by block, each with the name of its picture, which may be empty."""
    for found in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        yield found[1], found[2] or ""


def main(folder: Path) -> None:
    """Run the page, and keep what it draws."""
    mpl.use("Agg")
    folder.mkdir(exist_ok=True)
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        home = Path.cwd()
        os.chdir(place)  # the page saves a figure
        try:
            for code, name in blocks():
                exec(code, names)  # noqa: S102 - the project's own page
                if name:
                    take(folder.joinpath(f"{name}.png") if folder.is_absolute() else home / folder / f"{name}.png")
                plt.close("all")
        finally:
            os.chdir(home)


def take(path: Path) -> None:
    """Keep the last figure, with few colours, so that the file is small."""
    file = io.BytesIO()
    bl.plots.save(plt.gcf(), file, format="png", dpi=DPI)
    image = Image.open(file).convert("RGB")
    image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
