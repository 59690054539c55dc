"""docs/study.md is what its notebook gives."""

import re

import pytest

from tests.docs import study_page
from tests.support.notebooks import execute
from tests.support.project import ROOT

pytestmark = [
    # ipykernel and zmq leave sockets to the garbage collector when a notebook's kernel ends.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.slow
def test_every_sentence_table_and_figure_of_the_page_is_what_the_notebook_gives() -> None:
    page = study_page.page_of(execute(study_page.NOTEBOOK))
    assert page.text == study_page.PAGE.read_text(encoding="utf-8"), "run: make study"
    assert list(page.figures) == list(study_page.FIGURES)


def test_the_figures_of_the_page_exist() -> None:
    shown = re.findall(r"\(pictures/(\w+)\.png\)", study_page.PAGE.read_text(encoding="utf-8"))
    assert shown == list(study_page.FIGURES)
    assert all((study_page.PICTURES / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in shown)


def test_what_the_readme_has_from_the_study_is_in_the_study() -> None:
    readme, page = (_words(path.read_text(encoding="utf-8")) for path in (ROOT / "README.md", study_page.PAGE))
    quoted = readme.partition("<!-- from docs/study.md -->")[2].partition("<!-- until here -->")[0]
    sentences = [sentence for sentence in re.split(r"(?<=\.) (?=[A-Z-])", quoted) if sentence.strip(" -")]
    assert len(sentences) > 4
    # "There 66% of all runs fail." ends a clause of the page, which goes on.
    assert [one for one in sentences if one.strip(" -").removesuffix(".") not in page] == []


def _words(text: str) -> str:
    return re.sub(r"\s+", " ", text)
