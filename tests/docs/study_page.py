"""docs/study.md: the texts, tables and figures that the notebook of the study gives when it is run.

python -m tests.docs.study_page          prints the page
python -m tests.docs.study_page --write  puts it into docs/study.md, and its figures into docs/pictures
"""

import base64
import html
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.notebooks import execute
from tests.support.project import ROOT

NOTEBOOK: Final = ROOT / "benchmarks" / "study" / "study.ipynb"
PAGE: Final = ROOT / "docs" / "study.md"
PICTURES: Final = ROOT / "docs" / "pictures"
FIGURES: Final = {
    "study_caps": "What the smallest cap that keeps 95% of successes saves, against how much longer failures are",
    "study_lift": "How often runs fail that make the same call three times in a row, and how often all runs fail",
    "study_transfer_sets": "What the cap of each set keeps and saves on each other set",
    "study_transfer_models": "What the cap of each model keeps and saves on each other model",
    "study_saved": "Steps saved on held-out tasks by a cap, the best of a grid, and a learned rule",
}
"""Its figures in order: the name of the file, and what it shows."""
_MADE: Final = (
    "<!-- made by tests/docs/study_page.py out of benchmarks/study/study.ipynb: change the notebook, "
    "then run make study -->"
)


class Page(NamedTuple):
    """The text of the page, and its figures as PNG by their names."""

    text: str
    figures: dict[str, bytes]


def page_of(notebook: Any) -> Page:
    """The page that a notebook gives that was run."""
    figures: dict[str, bytes] = {}
    names = iter(FIGURES)
    return Page("\n\n".join([_MADE, *_blocks(notebook, names, figures)]) + "\n", figures)


def _blocks(notebook: Any, names: Iterator[str], figures: dict[str, bytes]) -> Iterator[str]:
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            # The page is in docs, beside the pages that the notebook leads to.
            yield cell.source.strip().replace("](../../docs/", "](").replace("](../../", "](../")
            continue
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "text/markdown" in data:
                yield data["text/markdown"].strip()
            elif "<table" in data.get("text/html", ""):
                yield _table(data["text/html"])
            elif "image/png" in data:
                name = next(names)
                figures[name] = base64.b64decode(data["image/png"])
                yield f"![{FIGURES[name]}](pictures/{name}.png)"


def _table(shown: str) -> str:
    """A table of pandas as a table in Markdown; what stands over several columns is put before the name of each."""
    head, body = shown.partition("<tbody>")[::2]
    names: list[str] = []
    for line in _rows(head):
        spread = [cell for cell, width in line for _ in range(width)]
        names = [" ".join(filter(None, pair)) for pair in zip(names or [""] * len(spread), spread, strict=True)]
    rows = [[cell for cell, _ in line] for line in _rows(body)]
    rule = ["---", *["---:"] * (len(names) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (names, rule, *rows))


def _rows(shown: str) -> list[list[tuple[str, int]]]:
    """The cells of each row, with the number of columns that each takes."""
    found = []
    for row in re.findall(r"<tr.*?</tr>", shown, re.DOTALL):
        cells = re.findall(r"<t[hd]([^>]*)>(.*?)</t[hd]>", row, re.DOTALL)
        texts = [html.unescape(re.sub(r"<[^>]+>", "", text)).strip().replace("|", "\\|") for _, text in cells]
        widths = [re.search(r'colspan="(\d+)"', marks) for marks, _ in cells]
        found.append([(text, int(width[1]) if width else 1) for text, width in zip(texts, widths, strict=True)])
    return found


def write(page: Page, docs: Path) -> None:
    """Write the page and its figures below a folder."""
    (docs / PAGE.name).write_text(page.text, encoding="utf-8")
    for name, content in page.figures.items():
        (docs / PICTURES.name / f"{name}.png").write_bytes(content)


def _main() -> None:
    page = page_of(execute(NOTEBOOK))
    if "--write" in sys.argv:
        write(page, PAGE.parent)
    else:
        sys.stdout.write(page.text)


if __name__ == "__main__":
    _main()
