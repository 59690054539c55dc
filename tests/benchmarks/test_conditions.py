"""Where the findings of the study hold: what is measured on each set, and the sentences that follow from it."""

import re
from itertools import groupby

import pandas as pd
import pytest

from benchmarks import conditions
from benchmarks.conditions import SetRow, measure, sentences, table_of
from benchmarks.learned_rule import kept_in_division
from benchmarks.stoprulebench.kinds import KIND_OF
from benchmarks.stoprulebench.recordings import recordings_of
from benchmarks.stoprulebench.submission import read_submission
from boolab.core.run import Run
from tests.support.bench_cases import run_of, some_runs
from tests.support.project import ROOT
from tests.support.samples import atlas


def row(name: str, kind: str, *, succeed: float, at_limit: float, p75: float, lift: float | None = None) -> SetRow:
    kept = dict.fromkeys(conditions.DETECTORS, 0.4 if kind == "games" else 1.0)
    return SetRow(name, kind, 100, succeed, at_limit, p75, 20 if lift else 0, lift, kept)


ROWS = [
    row("a", "coding", succeed=0.4, at_limit=0.1, p75=0.8, lift=1.5),
    row("b", "coding", succeed=0.1, at_limit=0.1, p75=1.0, lift=2.5),
    row("c", "games", succeed=0.6, at_limit=0.7, p75=1.0, lift=1.01),
]
PAIRS = pd.DataFrame(
    [
        {"chosen_on": "a", "judged_on": "b", "holds": True, "held_out": False},
        {"chosen_on": "a", "judged_on": "a", "holds": True, "held_out": True},
        {"chosen_on": "a", "judged_on": "c", "holds": False, "held_out": False},
        {"chosen_on": "c", "judged_on": "b", "holds": True, "held_out": False},
    ]
)


def test_sentences_name_the_condition_of_each_finding() -> None:
    p75, _, lift, _, pairs, _, detectors = sentences(ROWS, PAIRS)
    assert "95% of the successes in 1 of the 1 sets in which more than a quarter" in p75
    assert "In the 2 others it keeps 95% in 2:" in p75
    assert "1.50 to 2.50 in the 2 sets without games" in lift
    assert "of 1.01 to 1.01 in the 1 sets of games" in lift
    assert "in 1 of 1 pairs of other sets; between games and other sets in 1 of 2 pairs" in pairs
    assert "BooCode's 100% (in games 40%)" in detectors


def test_sentences_without_games_say_nothing_of_them() -> None:
    text = "\n".join(sentences(ROWS[:2], PAIRS[:1]))
    assert "in games " not in text
    assert "sets of games" not in text


def longest_repeat(run: Run) -> int:
    names = [step.response.tool_calls[0].name for step in run.steps[:-1]]
    return max((len([*group]) for _, group in groupby(names)), default=0)


def test_measured_rows_equal_a_plain_count() -> None:
    runs = some_runs(3, tasks=30, sets=["sql", "code"])
    data = recordings_of(runs, "made")
    for found in measure(data):
        here = [run for run in runs if run.settings["set"] == found.name]
        stopped = {run.run_id for run in here if longest_repeat(run) >= 3}
        wins = [run for run in here if run.success]
        assert found.runs == len(here)
        assert found.succeed == pytest.approx(len(wins) / len(here))
        assert found.alarms == len(stopped)
        assert found.kept["BooCode"] == pytest.approx(
            1 - sum(run.run_id in stopped for run in wins) / len(wins), abs=1e-6
        )
        failed = sum(run.run_id in stopped for run in here if not run.success)
        assert found.lift == pytest.approx(failed / len(stopped) / (1 - found.succeed))


def test_lift_of_few_alarms_is_not_shown() -> None:
    runs = [run_of("aaaa" if n == 0 else "ab", run_id=str(n), success=n > 5, task=str(n)) for n in range(40)]
    (found,) = measure(recordings_of(runs, "made"))
    assert (found.alarms, found.lift) == (1, None)
    assert "| 1 |  |" in [*table_of([found])][-1]


def test_page_has_the_rows_of_all_sets_of_the_atlas_and_of_games() -> None:
    page = (ROOT / "docs" / "conditions.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| ([a-z0-9-]+) \| [\w ]+ \| [\d,]+ \|", page, re.MULTILINE)
    others = {"mini-swebench", "multi-swe-bench-java", "sentinel-booking", "sentinel-faults"}
    assert sorted(names) == sorted(KIND_OF.keys() - others)


def test_first_division_is_that_of_the_leaderboard() -> None:
    board = read_submission(ROOT / "docs" / "leaderboard" / "learn-stop-on-average.json")
    kept = kept_in_division(atlas("tau2-airline"), 0)["tau2-airline"]
    assert kept == pytest.approx(board.tracks["within"].sets["tau2-airline"].kept.value, abs=1e-6)
