"""`make links` finds broken links in Markdown sources."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.project import ROOT


@pytest.fixture(scope="module")
def links() -> ModuleType:
    spec = importlib.util.spec_from_file_location("links", ROOT / "docs/site/links.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GOOD = """# A title: with `code`, *stress* and _more_

[own](#a-title-with-code-stress-and-more) [second](#twice-1) [page](other.md#part) ![picture](p%20q.png) [away](https://a.b/c)
<a id="mark"></a> <img src="p q.png"> [mark](#mark) `[none](none.md)`

## Twice
## Twice

    [none](none.md)
"""


def found(links: ModuleType, folder: Path, text: str, name: str = "page.md") -> list[str]:
    (folder / "other.md").write_text("# Part\n")
    (folder / "p q.png").touch()
    (folder / name).write_text(text)
    return list(links.faults(folder, [folder / name, folder / "other.md"]))


def test_links_accepts_what_leads_somewhere(links: ModuleType, tmp_path: Path) -> None:
    assert found(links, tmp_path, GOOD) == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("[x](none.md)", "does not exist"),
        ("[x](other.md#none)", "is a heading that the page does not have"),
        ("[x](#twice-2)", "is a heading that the page does not have"),
        ("[x][ref]\n\n[ref]: none.md", "does not exist"),
        ("![x](none.png)", "does not exist"),
        ('<img src="none.png">', "does not exist"),
        ('<a href="none.md">x</a>', "does not exist"),
        ("| a |\n|---|\n| [x](none.md) |", "does not exist"),
        ("[x](../../outside.md)", "leads out of the repository"),
    ],
)
def test_links_reports_a_broken_link(links: ModuleType, tmp_path: Path, link: str, why: str) -> None:
    (line,) = found(links, tmp_path, f"{GOOD}\n{link}\n")
    assert line.startswith("page.md:")
    assert line.endswith(why)


def test_links_reads_the_markdown_of_notebooks(links: ModuleType, tmp_path: Path) -> None:
    cells = [{"cell_type": "markdown", "source": ["[x](none.md)\n"]}, {"cell_type": "code", "source": ["[x](no.md)"]}]
    (line,) = found(links, tmp_path, json.dumps({"cells": cells}), "page.ipynb")
    assert line == "page.ipynb:1: none.md does not exist"
