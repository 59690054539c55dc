"""The hidden track: entries of each kind, fitted on open runs and judged on sets that their authors never had."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.stoprulebench.leaderboard import FOLDER, HIDDEN_FOLDER, write_board
from benchmarks.stoprulebench.load import recordings_from
from benchmarks.stoprulebench.submission import Submission, read_submission
from benchmarks.stoprulebench.tracks import HIDDEN, TRACKS, parts_of
from boolab.cli.main import main
from boolab.core.run import Run
from boolab.errors import SettingError
from tests.support.bench_cases import saved, some_runs

ENTRIES = """
from dataclasses import dataclass
from typing import ClassVar

import boolab as bl


@dataclass(frozen=True)
class SameTool:
    name: ClassVar = "same_tool"
    reason: ClassVar = "stuck"
    least: ClassVar = 2
    start: ClassVar = ("", 0)

    def fold(self, state, call):
        streak = state[1] + 1 if call.name == state[0] else 1
        return (call.name, streak), streak


RULE = bl.detectors.stop_when(SameTool(), 3)


def late(prefix):
    return len(prefix.steps) >= 6


class Longest:
    def fit(self, runs):
        assert {run.settings["set"] for run in runs} == {"sql", "code"}
        longest = max(len(run.steps) for run in runs if run.success)
        return lambda prefix: len(prefix.steps) >= longest


class Cap:
    def fit(self, runs):
        return bl.max_steps(max(len(run.steps) for run in runs if run.success))
"""


def hidden_runs(seed: int, name: str) -> list[Run]:
    runs = some_runs(seed, sets=["tau-airline"])
    return [replace(run, run_id=f"{name}-{run.run_id}", task=f"{name}/{run.task}", settings={}) for run in runs]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with open runs, entries, and hidden sets: a Parquet file, and a folder with two files."""
    monkeypatch.chdir(tmp_path)
    saved(some_runs(1, sets=["sql", "code"]), tmp_path / "open.jsonl")
    (tmp_path / "entered.py").write_text(ENTRIES)
    (tmp_path / "rules.yaml").write_text("name: a cap\nrules: [{max_steps: '2:20'}]\n")
    games, coding = tmp_path / "hidden/games", tmp_path / "hidden/coding/two"
    games.mkdir(parents=True)
    coding.mkdir(parents=True)
    saved(hidden_runs(2, "one"), games / "one.parquet")
    runs = hidden_runs(3, "two")
    saved(runs[:5], coding / "a.jsonl")
    saved(runs[5:], coding / "b.jsonl")
    return tmp_path


def judged(*entries: str) -> dict[str, Submission]:
    words = ["bench", *entries, "--data", "open.jsonl", "--hidden", "hidden", "-o", "out"]
    assert main(words) == 0
    return {one.name: one for path in Path("out").glob("*.json") for one in [read_submission(path)]}


def test_hidden_sets_judge_rules_functions_and_objects_with_fit(home: Path) -> None:
    found = judged(
        "rules.yaml", "entered.py:RULE", "entered.py:late", "entered.py:Longest", "entered.py:Cap", "baseline:a coin"
    )
    assert len(found) == 6
    for one in found.values():
        assert list(one.tracks) == [HIDDEN]
        sets = one.tracks[HIDDEN].sets
        assert {name: result.kind for name, result in sets.items()} == {"one": "games", "two": "coding"}
        assert list(one.data.files) == ["open.jsonl", "coding/two", "games/one"]
    runs = hidden_runs(2, "one")
    saved_steps = sum(max(0, len(run.steps) - 6) for run in runs) / sum(len(run.steps) for run in runs)
    late = found["entered.py:late"].tracks[HIDDEN].sets["one"]
    assert late.saved_steps.value == pytest.approx(saved_steps, abs=1e-6)
    assert late.n_runs == len(runs)


def test_hidden_entry_is_chosen_on_open_runs_alone(home: Path) -> None:
    longest = max(len(run.steps) for run in some_runs(1, sets=["sql", "code"]) if run.success)
    (home / "same_entry.py").write_text(f"def longest(prefix):\n    return len(prefix.steps) >= {longest}\n")
    found = judged("entered.py:Longest", "entered.py:Cap", "same_entry.py:longest")
    sets = [one.tracks[HIDDEN].sets.values() for one in found.values()]
    figures = [[(one.score, one.kept, one.saved_steps, one.scores) for one in found_sets] for found_sets in sets]
    assert len(figures) == 3
    assert figures[0] == figures[1] == figures[2]


def test_hidden_track_trains_on_no_hidden_run(home: Path) -> None:
    data = recordings_from(["open.jsonl"], hidden="hidden", progress=False)
    (part,) = parts_of(data, HIDDEN)
    names = [cell.set_name for cell in data.cells]
    assert {name for name, judged in zip(names, part.test, strict=True) if judged} == {"one", "two"}
    assert {name for name, used in zip(names, part.train, strict=True) if used} == {"sql", "code"}
    assert not (part.tune & ~part.train).any()


def test_hidden_labels_come_from_a_file(home: Path) -> None:
    runs = hidden_runs(2, "one")
    saved([replace(run, success=None) for run in runs], home / "hidden/games/one.parquet")
    rows = "".join(f"{run.run_id},{int(bool(run.success))}\n" for run in runs)
    (home / "labels.csv").write_text(f"run_id,success\n{rows}")
    words = ["bench", "entered.py:late", "--data", "open.jsonl", "--hidden", "hidden", "--labels", "labels.csv"]
    assert main([*words, "-o", "late.json"]) == 0
    assert read_submission("late.json").tracks[HIDDEN].sets["one"].n_runs == len(runs)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("x.jsonl", "is not in a folder .*hidden/KIND: expected as KIND one of coding, "),
        ("poems/x.jsonl", "is not in a folder .*hidden/KIND"),
        ("coding/one.jsonl", "the set 'one' is of two kinds"),
        ("coding/sql.jsonl", "'sql' is an open set: a hidden set has a name of its own"),
    ],
)
def test_hidden_file_in_a_wrong_place_is_refused(home: Path, place: str, message: str) -> None:
    (home / "hidden" / place).parent.mkdir(exist_ok=True)
    saved(hidden_runs(4, "x"), home / "hidden" / place)
    with pytest.raises(SettingError, match=message):
        recordings_from(["open.jsonl"], hidden="hidden", progress=False)


def test_list_of_stops_cannot_be_judged_on_hidden_sets(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "stops.csv").write_text("run_id,stop_step\nr1,\n")
    assert main(["bench", "stops.csv", "--data", "open.jsonl", "--hidden", "hidden"]) == 1
    assert "a list of stops needs the runs" in capsys.readouterr().err


def test_page_has_the_hidden_track_beside_the_open_ones(home: Path) -> None:
    docs = home / "docs"
    (docs / FOLDER / HIDDEN_FOLDER).mkdir(parents=True)
    words = ["bench", "entered.py:late", "--data", "open.jsonl"]
    assert main([*words, "-o", str(docs / FOLDER)]) == 0
    assert main([*words, "--hidden", "hidden", "-o", str(docs / FOLDER / HIDDEN_FOLDER)]) == 0
    page = write_board(docs).read_text()
    assert all(f"\n## {name.capitalize()}\n" in page for name in TRACKS.values() if name != "new set")
    rows = page.partition("\n## Hidden sets\n")[2].partition("\n## ")[0]
    assert "| 1 (1-1) | 1 coding, 1 games | [entered.py:late](leaderboard/hidden/entered-py-late.json) |" in rows
