"""The gallery has every plot, and a picture for each; tests/docs/test_pages.py runs its code."""

import re
import runpy

import boolab as bl
from boolab.plots import style
from tests.support.notebooks import BY_NUMBER, sources
from tests.support.project import ROOT

BLOCKS = [*runpy.run_path(str(ROOT / "docs/pictures/make_gallery.py"))["blocks"]()]
PICTURES = [name for _, name in BLOCKS if name]


def test_the_gallery_has_every_plot() -> None:
    code = "\n".join(code for code, name in BLOCKS if name)
    plots = {name for name in dir(bl.plots) if name.startswith("plot_")}
    assert [name for name in sorted(plots) if f".{name}(" not in code] == []


def test_each_picture_of_the_gallery_is_made_by_its_page() -> None:
    made = {path.stem for path in (ROOT / "docs/pictures/gallery").glob("*.png")}
    assert len(set(PICTURES)) == len(PICTURES)
    assert made == set(PICTURES)


def test_notebooks_find_in_style_what_they_draw_with() -> None:
    used = {
        name
        for path in BY_NUMBER.values()
        for code in sources(path)
        for name in re.findall(r"(?<![.\w])style\.(\w+)", code)
    }
    assert len(used) > 3
    assert [name for name in sorted(used) if not hasattr(style, name)] == []
