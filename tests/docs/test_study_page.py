"""docs/study.md is what its notebook gives."""

import re

import pytest

from tests.docs import study_page
from tests.support.notebooks import allow_ten_minutes, execute

pytestmark = [
    # ipykernel and zmq leave sockets to the garbage collector when a notebook's kernel ends.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.slow
def test_study_page_has_the_text_and_figures_of_its_notebook() -> None:
    allow_ten_minutes()
    page = study_page.page_of(execute(study_page.NOTEBOOK))
    assert page.text == study_page.PAGE.read_text(encoding="utf-8"), "run: make study"
    assert list(page.figures) == list(study_page.FIGURES)


def test_the_figures_of_the_page_exist() -> None:
    shown = re.findall(r"\(pictures/(\w+)\.png\)", study_page.PAGE.read_text(encoding="utf-8"))
    assert shown == list(study_page.FIGURES)
    assert all((study_page.PICTURES / f"{name}.png").read_bytes().startswith(b"\x89PNG") for name in shown)
