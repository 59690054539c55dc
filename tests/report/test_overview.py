"""Few or unlabelled runs are a finding: what they show, which to open, what to label next, and what may be asked."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.logs.outcomes.label_file import append_lines, make_header
from boolab.report.limit_rows import informative_rows
from boolab.report.overview import overview_of
from boolab.report.question import Question
from boolab.report.snippets import LogInputs, label_command
from boolab.report.study import Study, study_of
from boolab.report.text import text
from boolab.stats.recommend.recommend import recommend
from tests.support.caplab_cases import Told, runs_of


def study(folder: Path, told: Sequence[Told], **how: float) -> Study:
    path = folder / "runs.jsonl"
    bl.save_runs(runs_of(*told), path)
    return study_of([str(path)], Question(**how))  # type: ignore[arg-type] # a test's own keywords


def few(success: bool | None = True) -> list[Told]:
    told = [Told(("A B C -",), success=success, task=f"t{n}") for n in range(20)]
    told += [Told(("A A A A A -",), success=None if success is None else False, task="loops")]
    return [*told, Told(("A B C D E F G H " * 3 + "-",), success=None, task="open")]


def test_few_runs_show_their_lengths_repeats_and_runs_to_open(tmp_path: Path) -> None:
    found = overview_of(study(tmp_path, few()))
    assert found is not None
    lengths, repeats, *_ = found.sentences()
    assert lengths == "Lengths of 22 runs: half end within 4 steps, 90% within 4, the longest takes 25."
    assert repeats == "Repeats: 1 of 22 runs makes the same call 3 times in a row or more; the most is 5."
    why = {found.study.tasks[found.study.units[unit].of]: reason for unit, reason in found.to_open}
    assert "the longest" in why["open"]
    assert why["loops"] == "5 equal calls in a row"


def test_what_to_label_next_is_what_a_limit_would_stop(tmp_path: Path) -> None:
    made = study(tmp_path, few())
    found = overview_of(made)
    assert found is not None
    limit, units = found.to_label
    assert limit == "a step cap of 4"
    assert [made.tasks[made.units[unit].of] for unit in units] == ["open"]
    assert "--labels labels.csv" in found.label_sentence()


@pytest.mark.parametrize("labels", [(), ("--labels", "answers.jsonl", "--scope", "run", "--since", "30d")])
def test_command_that_asks_for_labels_works_as_printed(
    labels: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my logs").mkdir()
    bl.save_runs(runs_of(*few(success=None)), tmp_path / "my logs" / "runs.jsonl")
    append_lines(tmp_path / "answers.jsonl", [make_header("tests pass")])
    assert main(["whatif", "my logs", *labels]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if " label 'my logs'" in line]
    words = shlex.split(line)
    assert {"label", "my logs", *labels} <= {*words}
    assert main(words[1:]) == 1
    assert "there is no terminal for the questions: 22 tasks or sessions to ask about" in capsys.readouterr().err


def test_logs_that_cannot_be_asked_about_have_no_command(tmp_path: Path) -> None:
    made = study(tmp_path, few(success=None))
    inputs = LogInputs(["runs.jsonl"])
    assert label_command(made, inputs).startswith("boolab label runs.jsonl")
    assert label_command(made, inputs._replace(format="atif")) == label_command(made, LogInputs()) == ""
    two = [replace(told, agent="b") if n % 2 else told for n, told in enumerate(few(success=None))]
    assert label_command(study(tmp_path, two), inputs) == ""
    assert label_command(study(tmp_path, [few()[0]] * 5), inputs) == ""


def test_without_labels_the_longest_runs_are_labelled_first(tmp_path: Path) -> None:
    made = study(tmp_path, few(success=None))
    found = overview_of(made)
    assert found is not None
    _, units = found.to_label
    assert made.tasks[made.units[units[0]].of] == "open"


def test_the_smaller_share_that_is_offered_gets_an_answer(tmp_path: Path) -> None:
    made = study(tmp_path, few())
    found = overview_of(made)
    assert found is not None
    offered = [float(keep) for one in found.sentences() for keep in re.findall(r"--keep ([\d.]+)\)", one)]
    assert len(offered) == 1
    assert recommend(made.runs, offered[0]).evidence["reason"] not in ("too_few", "no_success")


@pytest.mark.parametrize("success", [True, None])
def test_whatif_shows_tables_where_nothing_is_sure_yet(success: bool | None, tmp_path: Path) -> None:
    shown = text(study(tmp_path, few(success)))
    assert "What these runs do show" in shown
    caps = shown[shown.index("Step cap:") : shown.index("Tool budget:")]
    shown_caps = [int(cap) for cap in re.findall(r"^ +(\d+) +\d", caps, re.MULTILINE)]
    assert {5, 10, 15, 20} <= {*shown_caps}
    assert len(shown_caps) <= 14


def test_where_limits_are_set_for_all_there_is_no_overview(tmp_path: Path) -> None:
    told = [Told(("A B C -",), success=True, task=f"t{n}") for n in range(60)]
    told += [Told(("A B " * 10 + "-",), success=False, task=f"f{n}") for n in range(12)]
    made = study(tmp_path, told, keep=0.9)
    assert made.found.action == "set"
    assert overview_of(made) is None


def test_tables_show_round_values_and_those_that_are_asked_for(tmp_path: Path) -> None:
    made = study(tmp_path, [Told(("A B C D E " * 40 + "-",), success=True, task=f"t{n}") for n in range(3)])
    rows = informative_rows(made.margins["max_steps"], "max_steps", {77: "left"}, [123])
    shown = [row.value for row in rows]
    assert {77, 123} < {*shown}
    assert {5, 10, 100} <= {*shown}
    assert next(row.mark for row in rows if row.value == 77) == "left"
