"""The table of all combinations fits, and names of logs are as short as they can be."""

import math
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.errors import SettingError
from boolab.report import study
from boolab.report.question import Question
from boolab.report.study import study_of
from boolab.whatif import grid
from tests.support.labelled_runs import made_run

CALLS = [("look", str(number)) for number in range(12)]


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "-home-alice-acme"
    folder.mkdir()
    for number in range(6):
        run = made_run(f"r{number}", f"task {number}", CALLS[: 4 + number], success=number % 2 == 0)
        bl.save_runs(run, folder / f"r{number}.jsonl")
    return folder


def test_table_without_a_grid_has_a_part_of_the_values(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "MAX_COMBINATIONS", 40)
    found = study_of([str(logs)], Question())
    values = found.table_grid()
    assert math.prod(map(len, values.values())) <= 40
    assert all(None in some for some in values.values())
    assert found.left_out_of_table()
    assert len(found.table()) == math.prod(map(len, values.values()))
    asked = {"max_steps": [*range(1, 30)], "tool_budget": [*range(1, 30)]}
    given = study_of([str(logs)], Question(grid=asked))
    assert not given.left_out_of_table()
    assert len(given.table()) == 30 * 30


def test_whatif_names_what_its_table_lacks(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "MAX_COMBINATIONS", 40)
    assert main(["whatif", str(logs), "-o", str(tmp_path / "t.csv")]) == 0
    assert "to choose them: --max-steps 1:200:5" in capsys.readouterr().err
    monkeypatch.setattr(grid, "MAX_SETTINGS", 40)
    wide = ["--max-steps", "1:30", "--tool-budget", "1:5"]
    assert main(["whatif", str(logs), "-o", str(tmp_path / "t.csv"), *wide]) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "give fewer values of max_steps, which has 30" in told


def test_grid_of_too_many_settings_names_its_longest_axis() -> None:
    runs = [made_run("r", "task", CALLS, success=True)]
    many = {"max_steps@a": range(1, 3000), "tool_budget": range(1, 2000)}
    with pytest.raises(SettingError, match="give fewer values of max_steps@a, which has 2,999"):
        bl.counterfactual(runs, grid=many)


@pytest.mark.slow
def test_report_names_no_folder_where_the_file_is_enough(logs: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert main(["report", str(logs.parent), "-o", str(page)]) == 0
    text = page.read_text()
    assert text.count("r3.jsonl") > 1
    assert text.count("-home-alice-acme") <= 2


@pytest.mark.slow
def test_whatif_writes_the_table_of_the_shipped_runs(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "datasets" / "runs"
    assert main(["whatif", str(shipped), "-o", str(tmp_path / "t.csv")]) == 0
    assert len((tmp_path / "t.csv").read_text().splitlines()) > 1000
