"""docs/tables/measured.md is what the benchmarks saved, and the pages that cite it have its figures."""

import re
from typing import Final

import pytest

from benchmarks.results import FOLDER, PAGE, SECTIONS, page
from tests.support.pages import pages

CITED: Final = re.compile(r"\]\((?:[./]*|docs/)(?:tables/)?measured\.md")
CODE: Final = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)
NUMBER: Final = re.compile(r"\d+(?:[,.]\d+)*")


def statements_that_cite(name: str) -> str:
    """What a page states of the figures: all of docs/measured.md, and the sentences of others that link to it."""
    text = pages()[name].read_text(encoding="utf-8")
    parts = [text] if name == "measured" else [part for part in re.split(r"\n\n|(?<=\.)\s", text) if CITED.search(part)]
    return CODE.sub("", "\n\n".join(parts))


CITING: Final = [name for name in pages() if name != "tables/measured" and statements_that_cite(name)]


def test_measured_tables_are_those_of_the_saved_figures() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m benchmarks.results"


def test_each_saved_file_is_a_section() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(SECTIONS)


@pytest.mark.parametrize("name", CITING)
def test_numbers_that_cite_measurements_are_in_the_tables(name: str) -> None:
    measured = set(NUMBER.findall(PAGE.read_text(encoding="utf-8")))
    assert set(NUMBER.findall(statements_that_cite(name))) - measured == set()


def test_readme_and_measured_are_among_the_citing_pages() -> None:
    assert {"README", "measured"} <= {*CITING}
