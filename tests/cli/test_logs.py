"""What the commands say about logs: whatif, report, doctor."""

import json
import os
import re
import subprocess
import sys
from argparse import ArgumentTypeError
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import boolab as bl
from boolab.cli import doctor
from boolab.cli.arguments import since_of, values_of
from boolab.cli.main import main
from boolab.core.types import Usage
from boolab.errors import SettingError
from boolab.io.resources import data_path
from boolab.logs.discovery import HarnessLogs
from boolab.logs.outcomes.labels import labels_of
from boolab.report.question import Question
from boolab.report.study import study_of
from tests.support.cases import first
from tests.support.project import ROOT
from tests.support.report_cases import write_log, write_sessions

LENGTHS = [1, 2, 2, 3, 4, 6]


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(write_log(tmp_path / "airline.json", LENGTHS, rewards=[1, 1, 1, 1, 0, 1]))


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["whatif", *arguments, "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    found: dict[str, Any] = json.loads(shown.out)
    return found


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("20", [20]),
        ("1:4", [1, 2, 3, 4]),
        ("1:10:4", [1, 5, 9]),
        ("2, 3,3,5", [2, 3, 5]),
        ("none,5,10:11", [5, 10, 11, None]),
        ("off", [None]),
    ],
)
def test_values_are_ranges_and_lists(text: str, values: list[int | None]) -> None:
    assert values_of(text) == values


@pytest.mark.parametrize(
    "text", ["", "1:", ":5", "5:1", "1:5:0", "a", "1,,2", "-1", "1.5", "1:20000", "nan", "1:2:3:4"]
)
def test_other_values_are_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="accepted|not a range|more than"):
        values_of(text)


@pytest.mark.parametrize("command", ["whatif", "report", "export"])
def test_a_cap_below_1_is_refused_with_the_least_one(
    command: str, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in ("-1", "0"):
        with pytest.raises(SystemExit):
            main([command, *(["boolab"] if command == "export" else []), log, "--max-steps", value])
        assert f"'{value}' is not accepted; expected whole numbers, 1 or more, and" in " ".join(
            capsys.readouterr().err.split()
        )


def test_dollars_need_not_be_whole() -> None:
    assert values_of("0.5,2", float) == [0.5, 2.0]
    with pytest.raises(ArgumentTypeError, match="accepted"):
        values_of("inf", float)


def test_since_is_a_time_ago_or_a_date() -> None:
    now = datetime(2026, 11, 22, 12, tzinfo=UTC)
    assert [since_of(text, now) for text in ("30d", "12h", "2w")] == [
        now - timedelta(days=30), now - timedelta(hours=12), now - timedelta(weeks=2)
    ]  # fmt: skip
    assert since_of("2026-11-01").astimezone().day == 1
    for text in ("soon", "3y", "", "2026-13-01", "999999w"):
        with pytest.raises(ArgumentTypeError, match="accepted"):
            since_of(text)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--max-steps", "5:1"], ["--max-steps", "x"], ["--doom-loop", "1:3"], ["--tool-budget", ""], ["--keep", "1.5"],
        ["--limit", "0"], ["--since", "soon"], ["--scope", "step"], ["-o", "table.txt"],
        ["--identity", "same"], ["--max-cost", "-1"], ["--max-cost", "0"], ["--max-cost", "0:5"],
        ["--max-steps", "0"], ["--tool-budget", "0:5"],
    ],
)  # fmt: skip
def test_what_an_option_does_not_accept_is_wrong_usage(
    arguments: list[str], log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["whatif", log, *arguments])
    assert left.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"argument {arguments[0]}" in shown.err


@pytest.mark.parametrize("arguments", [["--by", "nothing"], ["--labels", "/nowhere.csv"], ["--success", "label"]])
def test_what_the_data_cannot_answer_is_one_line(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["whatif", str(write_sessions(tmp_path)), *arguments]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("boolab: ")
    assert shown.err.count("\n") == 1


def test_no_logs_and_no_runs_are_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.json").write_text('{"what": "is this"}')
    for place in (tmp_path / "nowhere", tmp_path):
        assert main(["whatif", str(place)]) == 1
        shown = capsys.readouterr()
        assert shown.err.startswith("boolab: ")
        assert shown.err.count("\n") == 1


def test_a_file_of_another_format_is_not_said_to_be_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.json").write_text('{"what": "is this"}')
    assert main(["whatif", str(tmp_path / "other.json"), "--format", "claude_code"]) == 1
    assert capsys.readouterr().err == f"boolab: {tmp_path / 'other.json'}: there is no run in 1 file\n"


def test_two_counts_of_tokens_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each step has 120 input tokens, 20 of them cached, and 10 output tokens."""
    logs = write_sessions(tmp_path)
    for path in sorted(logs.glob("*.jsonl")):
        path.write_text(
            path.read_text().replace('"input_tokens": 100', '"input_tokens": 100, "cache_read_input_tokens": 20')
        )
    whatif = ["whatif", str(logs), "--scope", "run", "--success", "ended", "--no-prices", "--max-steps", "1:9"]
    assert main(whatif) == 0
    shown = " ".join(capsys.readouterr().out.split())
    steps = sum(run.n_steps for run in bl.load_runs(logs))
    assert f"{120 * steps:,} input tokens in {steps} steps, 16.7% of them cached" in shown
    assert "Tokens saved are input and output together. " in shown
    assert f"of {130 * steps:,} (" in shown
    last = logs / "session2.jsonl"
    last.write_text(last.read_text().replace('"usage": {', '"unused": {', 1))
    assert main(whatif) == 0
    shown = " ".join(capsys.readouterr().out.split())
    with_all = sum(run.n_steps for run in bl.load_runs(logs)[:2])
    assert f"{120 * (steps - 1):,} input tokens in {steps - 1} steps" in shown
    assert "together, in the 2 of 3 runs in which no step lacks tokens. " in shown
    assert f"of {130 * with_all:,} (" in shown


def test_whatif_shows_the_answer_then_limits_then_the_data(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", log, "--scope", "run"]) == 0
    shown = capsys.readouterr().out
    order = ("Set no limit yet", "What these runs do show", "Step cap:", "Tool budget:", "What this rests on")
    places = [shown.index(text) for text in order]
    assert places == sorted(places)
    assert "6 labelled: 6 by the benchmark" in shown
    assert re.search(r"^ +7 +5 of 5 +0 of 6 [^<]*$", shown, re.MULTILINE)  # what stops no run has no mark
    assert max(map(len, shown.splitlines())) < 120


def test_what_is_to_be_set_is_marked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "many.json", [*range(1, 6)] * 16, rewards=[1, 1, 1, 0, 0] * 16)
    assert main(["whatif", str(log), "--scope", "run", "--keep", "0.9"]) == 0
    shown = capsys.readouterr().out
    assert "<- to set" in shown
    assert "Set a step cap of" in shown


def test_all_values_that_were_asked_for_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", str(ROOT / "datasets" / "runs"), "--max-steps", "1,2,3,4,5,6,7,8,9"]) == 0
    lines = [line.split()[0] for line in capsys.readouterr().out.splitlines() if re.match(r" +\d+ ", line)]
    assert lines[:9] == [*"123456789"]


def test_whatif_marks_the_advised_cap_and_lists_long_thresholds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["whatif", str(ROOT / "datasets" / "runs"), "--keep", "0.9"]) == 0
    shown = capsys.readouterr().out
    caps, _, _ = shown.partition("Doom-loop threshold:")
    cap = re.match(r"Set a step cap of (\d+)", shown)
    assert cap is not None
    assert re.search(rf"^ +{cap[1]} +\d+ of 95 .*<- to set$", caps, re.MULTILINE)
    assert main(["whatif", str(ROOT / "datasets" / "runs"), "--keep", "0.9", "--full"]) == 0
    table = capsys.readouterr().out.partition("Doom-loop threshold:")[2]
    assert re.search(r"^ +364 +95 of 95 +0 of 132 ", table, re.MULTILINE)  # a limit of its own stopped it at 364 greps


def test_whatif_refuses_an_uncalled_exempt_tool_with_near_names(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", log, "--exempt", "search"]) == 0
    assert main(["whatif", log, "--exempt", "serch", "--exempt", "search"]) != 0
    assert "no call of the tool 'serch' is on record; did you mean 'search'?" in capsys.readouterr().err


def test_json_is_one_object_and_nothing_else(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, log, "--scope", "run", "--max-steps", "1:7,none", "--tool-budget", "3")
    assert found["schema"] == "boolab/whatif/2"
    assert found["data"]["runs"] == 6
    assert found["data"]["success_by"] == "label"
    kept = {row["max_steps"]: (row["kept_lower"], row["kept_upper"]) for row in found["axes"]["max_steps"]}
    assert kept == {1: (0, 1), 2: (1, 3), 3: (3, 4), 4: (4, 4), 5: (4, 4), 6: (4, 5), 7: (5, 5), None: (5, 5)}
    assert [row["tool_budget"] for row in found["axes"]["tool_budget"]] == [3, None]
    (group,) = found["recommendation"]["groups"]
    assert (group["action"], group["reason"], group["max_steps"]) == ("not_yet", "too_few", None)
    assert found["recommendation"]["verdict"][0].startswith("Set no limit yet:")


def test_turns_are_the_units_of_tables_and_recommendation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, str(write_sessions(tmp_path)))
    assert (found["data"]["unit"], found["data"]["units"]) == ("turn", 6)
    off = found["axes"]["max_steps"][-1]
    group = found["recommendation"]["groups"][0]
    assert off["max_steps"] is None
    assert (off["n_runs"], off["kept_lower"], off["successes"]) == (6, 6, 6)
    assert (group["n_units"], group["kept_lower"], group["successes"]) == (6, 6, 6)
    by_cap = {row["max_steps"]: row["kept_lower"] for row in found["axes"]["max_steps"]}
    assert by_cap[1] == 1
    assert by_cap[2] == 2
    assert by_cap[3] == 6


def test_groups_are_kept_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path / "airline.json", [1, 2])
    write_log(tmp_path / "retail.json", [3])
    found = asked(capsys, str(tmp_path), "--by", "task")
    assert {row["task"] for row in found["axes"]["max_steps"]} == {"airline/0", "airline/1", "retail/0"}
    assert len(found["recommendation"]["groups"]) == 3


@pytest.mark.parametrize("suffix", first(1, ["csv", "parquet"]))
def test_half_of_a_surrogate_pair_in_a_name_stops_no_command(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = bl.run_sync(None, "x", model=bl.ScriptedModel(["Done."]))
    logs = tmp_path / "runs.jsonl"
    bl.save_runs([replace(run, agent="\ud800x"), replace(run, run_id="b")], logs)
    table = tmp_path / f"table.{suffix}"
    assert main(["whatif", str(logs), "--by", "agent", "--max-steps", "1,none", "-o", str(table)]) == 0
    if suffix == "parquet":  # a page takes long to make
        assert main(["report", str(logs), "--by", "agent", "-o", str(tmp_path / "report.html")]) == 0
    assert "?x" in (table.read_text() if suffix == "csv" else str(bl.read_steps(table)))


def test_labels_come_from_a_file(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("run_id,success\n" + "".join(f"airline/{n}/0,{'yes' if n < 2 else 'no'}\n" for n in range(6)))
    assert asked(capsys, log, "--labels", str(labels))["data"]["labelled_success"] == 2
    by_task = tmp_path / "labels.json"
    by_task.write_text(json.dumps([{"task": "airline/0", "success": None}, {"task": "airline/1", "success": False}]))
    assert labels_of(by_task) == ("task", {("airline/0", None): None, ("airline/1", None): False})
    assert asked(capsys, log, "--labels", str(by_task))["data"]["labelled_success"] == 3
    assert asked(capsys, log, "--success", "ended")["data"]["success_by"] == "run ended by itself"


def test_labels_are_by_task_only_in_a_file_without_run_ids(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    for columns, key in (("run_id,task", "run_id"), ("task,run_id", "run_id"), ("task,other", "task")):
        path.write_text(f"{columns},success\na,a,1\nb,b,0\n")
        assert labels_of(path) == (key, {("a", None): True, ("b", None): False})


@pytest.mark.parametrize(
    "text", ["run_id,success\na,maybe\n", "run,success\na,1\n", "run_id,success\na,1\na,0\n", "[1]", "{"]
)
def test_labels_that_cannot_be_read_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / ("labels.json" if text[0] in "[{" else "labels.csv")
    path.write_text(text)
    with pytest.raises(SettingError, match="labels"):
        labels_of(path)


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_all_combinations_go_to_a_table(
    name: str, log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / name
    assert main(["whatif", log, "--max-steps", "2,5", "--tool-budget", "1:3", "-o", str(out)]) == 0
    assert str(out) in capsys.readouterr().err
    table = pd.read_csv(out) if out.suffix == ".csv" else pd.read_parquet(out)
    assert len(table) == 3 * 4  # off is a value of each
    assert {"max_steps", "tool_budget", "kept_lower", "saved_steps"} <= set(table.columns)


def test_parquet_output_without_pyarrow_says_what_to_install(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["whatif", log, "-o", str(tmp_path / "table.parquet")]) == 1
    assert "pip install 'boolab[parquet]'" in capsys.readouterr().err
    assert not (tmp_path / "table.parquet").exists()


def test_a_table_that_cannot_be_written_is_one_line(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", log, "-o", "/nowhere/table.csv"]) == 1
    assert capsys.readouterr().err.startswith("boolab: /nowhere/table.csv: ")


@pytest.mark.parametrize(
    ("command", "out", "said"),
    [
        ("report", "missing/folder/x.html", "missing/folder/x.html: there is no folder missing/folder"),
        ("report", "x.txt", "x.txt: expected a name that ends with .html or .htm"),
        ("report", ".", "expected a name that ends with .html"),
        ("report", "page.html", "page.html: it is a folder; expected the name of a file"),
        ("whatif", "missing/x.csv", "missing/x.csv: there is no folder missing"),
        ("import", "missing/x.jsonl", "missing/x.jsonl: there is no folder missing"),
    ],
)
def test_unwritable_output_is_refused_before_logs_are_read(
    command: str,
    out: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.html").mkdir()
    assert main([command, "no such logs", "-o", out]) == 1  # an error about the logs would come from reading them
    assert said in capsys.readouterr().err


def test_each_row_counts_the_runs_that_it_lists(log: str) -> None:
    study = study_of([log], Question(scope="run"))
    for axis in study.margins:
        for key, part in study.groups(axis):
            rows = study.limit_rows(axis, key, part)
            cuts = study.cuts(axis, [row.value for row in rows])
            for row in rows:
                listed = cuts.get(row.value, [])
                assert len(listed) == row.stopped
                assert sum(cut.success is True for cut in listed) == row.n_cut


def test_needed_value_of_a_run_is_the_least_that_spares_it(log: str) -> None:
    study = study_of([log], Question(scope="run"))
    for axis in ("max_steps", "tool_budget"):
        for cut in study.cuts(axis, [1])[1]:
            assert cut.needed is not None
            spared = study.cuts(axis, [cut.needed - 1, cut.needed])
            assert cut.unit in {other.unit for other in spared[cut.needed - 1]}
            assert cut.unit not in {other.unit for other in spared[cut.needed]}


def test_the_doctor_finds_what_lies_there_and_says_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    assert main(["doctor"]) == 0
    assert "boolab report FOLDER" in capsys.readouterr().out
    folder = tmp_path / ".claude" / "projects" / "a b"
    folder.mkdir(parents=True)
    write_sessions(folder)
    assert main(["doctor", "--since", "30d", "--limit", "5"]) == 0
    shown = capsys.readouterr().out
    assert "claude_code" in shown
    assert shown.splitlines()[-1] == "Next: boolab report ~/.claude/projects --since 30d --limit 5 -o report.html"
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["next"] == "boolab report ~/.claude/projects -o report.html"
    assert next(log["files"] for log in found["logs"] if log["format"] == "claude_code") == 3


def test_the_command_to_run_next_is_quoted() -> None:
    found = HarnessLogs("own", ("/no such/$place/*.json",), 1, 10, None, True)
    assert doctor.command(found, since="2w") == "boolab report '/no such/$place/*.json' --since 2w -o report.html"


@pytest.mark.parametrize("command", ["whatif", "report", "doctor"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    assert f"  boolab {command}" in capsys.readouterr().out


@pytest.mark.slow
def test_it_works_as_a_command(log: str, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    command = [sys.executable, "-m", "boolab", "report", log, "--scope", "run", "-o", str(out)]
    found = {**os.environ, "PATH": str(Path(sys.executable).parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=found)
    assert (done.returncode, done.stderr) == (0, f"Next: boolab audit {log}\n")
    assert out.read_text().startswith("<!doctype html>")


def test_groups_with_partly_unknown_costs_are_compared_by_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = bl.load_runs(data_path("datasets") / "runs")[:12]
    without = [
        replace(
            run,
            run_id=f"x-{run.run_id}",
            source="other",
            steps=tuple(step._replace(response=step.response._replace(usage=Usage())) for step in run.steps),
        )
        for run in runs
    ]
    bl.save_runs([*runs, *without], tmp_path / "runs.jsonl")
    assert main(["whatif", str(tmp_path / "runs.jsonl"), "--by", "source", "--max-steps", "5,10", "--full"]) == 0
    printed = capsys.readouterr().out
    assert "The cost of some steps of a group is not known: savings are counted in steps." in printed
    assert printed.count("steps saved") == 2  # of each group
    assert "cost saved" not in printed
