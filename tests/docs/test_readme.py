"""The README is short, its code runs, its numbers are those of the runs, its settings are those that are exported."""

import re
import runpy
from typing import Any, Final

import pandas as pd
import pytest

import boolab as bl
from boolab.harnesses.exports.export import export, target_of
from boolab.harnesses.exports.values import Limits
from boolab.harnesses.registry import TARGETS
from boolab.stats.kept_share import tasks_missing
from tests.support.pages import blocks_of, run_cell
from tests.support.project import ROOT

README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
MAX_WORDS: Final = 900
SETS: Final = {
    "InterCode SQL": "intercode-sql",
    "InterCode Bash": "intercode-bash",
    "SWE-bench Verified": "swebench-verified",
    "tau2-bench airline": "tau2-airline",
}


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
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "InterCode SQL")) for name in SETS]
)
def test_a_row_of_the_answer_is_what_the_runs_give(name: str) -> None:
    frame = bl.runs_df(runs := bl.load_dataset(f"atlas/{SETS[name]}"))
    means = frame.groupby("success")["n_steps"].mean()
    decided = bl.recommend(runs, objective="steps").frame
    on = decided[decided["action"] == "set"]
    kept = int(on["kept_lower"].sum() + decided.loc[decided["action"] != "set", "successes"].sum())
    cells = (
        f"{len(frame):,}", f"{means[False] / means[True]:.2f} times", _decision_in_words(decided),
        f"{kept:,} of {decided['successes'].sum():,}", f"{on['saved'].sum() / frame['n_steps'].sum():.1%}",
    )  # fmt: skip
    row = next(line for line in README.splitlines() if line.startswith(f"| {name} |"))
    shown = [cell.strip(" *").removesuffix(" as long") for cell in row.split("|")[2:-1]]
    assert shown == list(cells)


def _decision_in_words(decided: pd.DataFrame) -> str:
    """The decision as the table has it."""
    if len(decided) > 1:
        return f"set limits for {(decided['action'] == 'set').sum()} of {len(decided)} models"
    row = decided.iloc[0]
    if row["action"] == "not_yet":
        return f"not yet: {row['more_needed']} more tasks needed"
    assert (row["action"], row["reason"]) == ("leave", "stops_as_many_successes")
    return "set none: not shown to stop failures"


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
