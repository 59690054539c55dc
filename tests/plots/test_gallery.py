"""The gallery has every plot, and a picture for each; tests/docs/test_pages.py runs its code."""

import runpy

import boolab as bl
from tests.support.project import ROOT

BLOCKS = [*runpy.run_path(str(ROOT / "docs/pictures/make_gallery.py"))["blocks"]()]
PICTURES = [name for _, name in BLOCKS if name]


def test_the_gallery_has_every_plot() -> None:
    code = "\n".join(code for code, name in BLOCKS if name)
    assert [name for name in dir(bl.plots) if name.startswith("plot_") and f".{name}(" not in code] == []


def test_each_picture_of_the_gallery_is_made_by_its_page() -> None:
    made = {path.stem for path in (ROOT / "docs/pictures/gallery").glob("*.png")}
    assert len(set(PICTURES)) == len(PICTURES)
    assert made == set(PICTURES)
