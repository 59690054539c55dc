"""The README is short, its code runs, its numbers are those of the runs, its settings are those that are exported."""

import re
import runpy
from typing import Any, Final

import pytest

import boolab as bl
from boolab.harnesses.exports.export import export, target_of
from boolab.harnesses.exports.values import Limits
from boolab.harnesses.registry import TARGETS
from boolab.stats.kept_share import tasks_missing
from tests.support.pages import blocks_of, run_cell
from tests.support.project import ROOT
from tests.support.readme import README, SET_OF_ROW, cells_of, shown_cells
from tests.support.samples import atlas

MAX_WORDS: Final = 900


def test_it_is_short() -> None:
    assert len(README.split()) <= MAX_WORDS


def test_readme_starts_with_question_command_and_answer() -> None:
    top = "\n".join(README.splitlines()[:40])
    for what in (
        "Which step cap",
        "make demo",
        "dist/boolab-*.whl",
        "| SWE-bench Verified |",
        "![What",
        "import boolab",
    ):
        assert what in top


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.startswith("InterCode")) for name in SET_OF_ROW]
)
def test_a_row_of_the_answer_is_what_the_runs_give(name: str) -> None:
    runs = atlas(SET_OF_ROW[name])
    assert shown_cells(name) == cells_of(list(runs), bl.recommend(runs, objective="steps").frame)


def test_its_first_number_has_its_caveat_below() -> None:
    """The saving on InterCode SQL stood without the reason why its successes are short."""
    table = README.partition("| agents on |")[2].partition("![")[0]
    caveat = "InterCode ends a run at its first right result, so its successes are short by construction."
    assert caveat in table
    names = re.findall(r"^\| ([A-Z]\S.*?|tau2\S.*?) +\|", table, re.MULTILINE)
    assert [name for name in names if name in SET_OF_ROW] == [*SET_OF_ROW]
    assert "atlas/tau-airline" not in README  # it was taken for the airline tasks of tau2-bench


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_its_code_runs_and_finds_the_setting_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = (one for one in blocks_of(README) if one.language == "python")
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    printed = run_cell(block.code, names)
    assert "a cap of 3" in README
    assert names["decision"].setting["max_steps"] == 3
    assert '"recursion_limit": 6' in printed


def test_its_settings_are_those_that_are_exported() -> None:
    part = README.partition("## Use the answer")[2].partition("Then:")[0]
    rows = re.findall(r"^\| ([A-Za-z ]+) \| `(.*?)` \|", part, re.MULTILINE)
    assert len(rows) == 6
    for title, setting in rows:
        (target,) = (name for name in TARGETS if target_of(name).title.endswith(title))
        assert setting in str(export(target, Limits(max_steps=3))), title


def test_the_smallest_numbers_of_tasks_are_those_of_the_test() -> None:
    ((tasks, single),) = re.findall(r"fewer than (\d+) tasks with a success.{4}(\d+) where no task has two", README)
    assert int(tasks) == tasks_missing([], [], 0.95, 0.05, largest=2)
    assert int(single) == tasks_missing([], [], 0.95, 0.05, largest=1)


def test_what_it_has_from_the_study_is_in_the_study() -> None:
    (quoted,) = re.findall(r"in (\d+ of \d+ pairs)", README)
    assert quoted in (ROOT / "docs/study.md").read_text(encoding="utf-8")


def test_its_badges_are_those_of_the_project() -> None:
    made = runpy.run_path(str(ROOT / "docs/pictures/make_badges.py"))
    assert (ROOT / "docs/pictures/badges.svg").read_text(encoding="utf-8") == made["badges"]()
