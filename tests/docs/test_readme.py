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

README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
MAX_WORDS: Final = 900
SETS: Final = {
    "InterCode SQL": "intercode-sql",
    "tau2-bench airline": "tau2-airline",
    "SWE-bench Verified": "swebench-verified",
    "tau2-bench retail": "tau2-retail",
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
    caps = range(1, int(frame["n_steps"].max()) + 1)
    table = bl.counterfactual(runs, grid={"max_steps": caps}, aggregate=True, progress=False)
    kept = table[table["kept_lower"] >= 0.95 * table["successes"]].sort_values("max_steps").iloc[0]
    means = frame.groupby("success")["n_steps"].mean()
    saved = kept["saved_steps"] / frame["n_steps"].sum()
    cells = (
        f"{len(frame):,}", f"{means[False] / means[True]:.2f} times", str(kept["max_steps"]),
        f"{kept['kept_lower']:,} of {kept['successes']:,}", f"{saved:.1%}",
    )  # fmt: skip
    row = next(line for line in README.splitlines() if line.startswith(f"| {name} |"))
    shown = [cell.strip(" *").removesuffix(" as long") for cell in row.split("|")[2:-1]]
    assert shown == list(cells)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_its_code_runs_and_finds_the_setting_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = (one for one in blocks_of(README) if one.language == "python")
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    printed = run_cell(block.code, names)
    assert "a cap of 6" in README
    assert names["found"].setting["max_steps"] == 6
    assert not names["found"].better_off()
    assert '"recursion_limit": 12' in printed


def test_its_settings_are_those_that_are_exported() -> None:
    part = README.partition("## Use the answer")[2].partition("Then:")[0]
    rows = re.findall(r"^\| ([A-Za-z ]+) \| `(.*?)` \|", part, re.MULTILINE)
    assert len(rows) == 6
    for title, setting in rows:
        (target,) = (name for name in TARGETS if target_of(name).title.endswith(title))
        assert setting in str(export(target, Limits(max_steps=6))), title


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
