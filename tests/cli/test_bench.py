"""`boolab bench`: entries of all kinds are judged, printed and written; what is wrong is one line."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.stoprulebench.submission import read_submission
from boolab.cli.main import main
from tests.support.bench_cases import saved, some_runs


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file of runs, beside a rule of each kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.yaml").write_text("name: loops\nauthors: Ada\nrules: [{doom_loop: 3}, {max_steps: [9, 12]}]\n")
    (tmp_path / "mine.py").write_text("def late(prefix):\n    return len(prefix.steps) >= 9\n\n\nnumber = 3\n")
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    return saved(some_runs(1), tmp_path / "runs.jsonl")


def test_bench_prints_a_row_per_figure_and_a_column_per_track(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "rules.yaml", "mine.py:late", "--data", runs]) == 0
    head, loops, late = capsys.readouterr().out.split("\n\n")
    assert head.startswith("StopRuleBench 2 on runs.jsonl: 84 runs of 48 tasks in 4 sets, ")
    assert loops.startswith("loops\n")
    assert loops.splitlines()[1].split("  ")[0] == "in percent"
    assert "no training" not in loops  # one of two caps is chosen
    assert [line.split("  ")[0] for line in late.splitlines()] == [
        "mine.py:late", "in percent", "score", "steps saved", "cost saved", "runs with a cost", "successes kept",
        "area", "sets, 95% kept",
    ]  # fmt: skip
    assert "no training" in late
    assert max(map(len, late.splitlines())) <= 88


def test_a_submission_is_written(runs: str, tmp_path: Path) -> None:
    assert (
        main(["bench", "rules.yaml", "--data", runs, "--name", "mine", "--url", "https://example.org", "-o", "m.json"])
        == 0
    )
    found = read_submission(tmp_path / "m.json")
    assert (found.name, found.authors, found.url, found.kind) == ("mine", "Ada", "https://example.org", "rules")
    assert list(found.data.files) == ["runs.jsonl"]
    assert found.definition.startswith("name: loops")


def test_several_submissions_are_written_into_a_folder(runs: str, tmp_path: Path) -> None:
    assert main(["bench", "baseline:a coin", "baseline:an oracle", "mine:late", "--data", runs, "-o", "out"]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "a-coin.json",
        "an-oracle.json",
        "mine-late.json",
    ]
    definition = json.loads((tmp_path / "out" / "mine-late.json").read_text())["definition"]
    assert definition.startswith("mine:late, SHA-256 ")


def test_labels_come_from_a_file_where_the_runs_have_none(
    runs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = "".join(f"{run.run_id},{int(n % 2)}\n" for n, run in enumerate(some_runs(1)))
    (tmp_path / "labels.csv").write_text(f"run_id,success\n{labels}")
    assert main(["bench", "mine:late", "--data", runs, "--labels", "labels.csv"]) == 0
    assert "84 runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["nothing"],
            "'nothing' is no entry: expected a file .yaml or .csv, module:function, file.py:function, baselines",
        ),
        (["none.yaml"], "none.yaml: cannot be read: No such file or directory"),
        (["none.py:f"], "none.py: there is no such file"),
        (["mine:lat"], "mine:lat: mine has no 'lat'; did you mean 'late'?"),
        (
            ["mine:number"],
            "mine:number: expected a function of a prefix, a stop rule, or an object with `fit`, and not 3",
        ),
        (["broken:f"], "broken cannot be imported: ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        (["baseline:coin"], "there is no baseline 'coin'"),
        (["mine:late", "rules.yaml", "--name", "x"], "--name is for one entry, and there are 2"),
    ],
)
def test_what_is_wrong_is_one_line(
    runs: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *words, "--data", runs]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"boolab: {message}")
    assert error.count("\n") == 1


def test_bench_without_the_benchmark_names_the_repository(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/__init__.py").write_text("raise RuntimeError('of another project')\n")
    command = [sys.executable, "-m", "boolab", "bench", "my rules.yaml"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert " ".join(ended.stderr.split()) == (
        "boolab: StopRuleBench is in boolab's repository, and not in the package: in a checkout of it, type "
        "python -m benchmarks.stoprulebench 'my rules.yaml'"
    )


def test_bench_runs_as_a_module(runs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["stoprulebench", "mine:late", "--data", runs])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("benchmarks.stoprulebench", run_name="__main__")
    assert "mine:late\n" in capsys.readouterr().out
