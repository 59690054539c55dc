"""Evidence and a judge at the desk: shown after the answer, and without a part in what is asked or counted."""

import io
import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.cli.label import DeskPage
from boolab.cli.label_evidence import find_evidence
from boolab.cli.main import main
from boolab.errors import SettingError
from boolab.logs.outcomes.label_file import append_lines, make_header, read_labels
from boolab.stats.recommend.desk_evidence import add_frame, evidence_lines
from boolab.stats.recommend.desk_session import Desk
from boolab.stats.recommend.desk_status import status_lines
from tests.support.evidence_runs import EDIT, Answer, Shell, make_run
from tests.support.screen import Screen

PASSED, FAILED = "=== 2 passed in 0.1s ===", "=== 1 failed, 1 passed in 0.1s ==="
RUNS = [
    make_run(
        EDIT,
        *[Shell("ls")] * (n % 5),
        *([Shell("pytest", FAILED if n % 2 else PASSED, n % 2)] if n % 3 else []),
        Answer(),
        messages=[f"Task {n}"],
        source="claude_code",
        run_id=f"run-{n}",
    )
    for n in range(30)
]


def new_desk(folder: Path, runs: list[bl.Run] = RUNS, trust: tuple[str, ...] = ()) -> Desk:
    """A desk that has started, with a seed that is always the same."""
    path = folder / "boolab-labels.jsonl"
    desk = Desk(runs, path, {"max_steps": [6, 4]}, who="ann", pi=0.5, trust=trust)
    if not desk.file.header:
        append_lines(path, [{**make_header("tests pass", desk.question), "seed": "0"}])
    desk = Desk(runs, path, who="ann", trust=trust)
    desk.start()
    return desk


def arguments(**given: Any) -> Namespace:
    """The arguments of evidence, as the command has them."""
    options = {"evidence": (), "git": None, "judge": None, "max_cost": None, "cost_limit": None, "yes": False}
    return Namespace(**{**options, "base_url": None, "protocol": None, "key_env": None, **given})


def press(desk: Desk, keys: str) -> str:
    """What stands on the terminal after some keys."""
    stream, waiting = io.StringIO(), iter(keys)
    DeskPage(desk, stream, lambda: next(waiting), lambda _: "", show=print).ask()
    screen = Screen()
    screen.feed(stream.getvalue())
    return screen.text


def answer_some(desk: Desk) -> list[object]:
    """What is asked, and the state after each answer; longer runs are failures."""
    asked: list[object] = []
    while (question := desk.next_unit) is not None and len(asked) < 8:
        desk.answer(question, "failure" if len(question.run.steps) > 5 else "success")
        asked.append((question.print, desk.state))
    return asked


def test_evidence_changes_neither_what_is_asked_nor_counts(tmp_path: Path) -> None:
    asked = []
    for name in ("without", "with"):
        (tmp_path / name).mkdir()
        desk = new_desk(tmp_path / name)
        if name == "with":
            find_evidence(desk, arguments(evidence=("tests", "reaction", "git")))
            assert [line["source"] for line in desk.file.labels].count("tests") == len(desk.asked_units)
        asked.append((desk.plan, desk.state, answer_some(desk)))
    assert asked[0] == asked[1]


def test_runs_have_no_label_by_evidence_in_the_file(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    find_evidence(desk, arguments(evidence=("tests",)))
    assert {run.success for run in bl.label(RUNS, desk.file.path)} == {None}
    trusted = bl.label(RUNS, desk.file.path, trust=["tests"])
    assert {run.success for run in trusted} == {None, True, False}
    assert new_desk(tmp_path, trust=("tests",)).state.n_answers > 0 == new_desk(tmp_path).state.n_answers


def test_evidence_is_shown_after_the_answer_alone(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    find_evidence(desk, arguments(evidence=("tests",)))
    before = press(desk, "ewq")
    assert not any(word in before for word in ("tests success", "tests failure", "tests unknown", "tests: "))
    assert not any("agrees" in line for line in evidence_lines(desk))
    assert "Evidence: tests " in press(desk, "sq")
    assert "Of the last one: tests: " in press(desk, "seq")


def test_without_questions_evidence_of_all_units_is_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.jsonl"
    bl.save_runs(RUNS, path)
    command = ["label", str(path), "--evidence", "tests", "--no-questions"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    tested = [n for n in range(30) if n % 3]
    n_passed = sum(n % 2 == 0 for n in tested)
    row = next(line for line in printed.splitlines() if line.startswith("evidence of tests"))
    assert row.split()[3:6] == [str(n_passed), str(len(tested) - n_passed), str(30 - len(tested))]
    assert "No two sources differ." in printed
    assert "No turn has a label by hand" in " ".join(printed.split())
    file = read_labels(tmp_path / "boolab-labels.jsonl")
    assert len(file.labels) == 30
    assert not file.has_answers
    assert main(command) == 0  # nothing is written twice
    assert len(read_labels(tmp_path / "boolab-labels.jsonl").labels) == 30
    desk = Desk([*bl.load_runs(path)], tmp_path / "boolab-labels.jsonl", {"max_steps": [6, 4]}, who="ann", pi=0.5)
    desk.start("it works")
    asked = desk.next_unit
    assert asked is not None
    (evidence,) = desk.evidence_of(asked.unit)
    desk.answer(asked, "failure" if evidence["label"] == "success" else "success")
    capsys.readouterr()
    assert main(command) == 0
    differ = "Sources differ about 1 turn" in capsys.readouterr().out
    assert differ == (evidence["label"] != "unknown")
    assert all(run.success is None for run in bl.load_runs(path) if run.run_id != asked.run.run_id)


def test_table_of_evidence_counts_lines_as_loading_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.jsonl"
    bl.save_runs(RUNS, path)
    line = {"id": "1", "run_id": "run-1", "label": "success", "source": "hand", "who": "ann"}
    append_lines(tmp_path / "boolab-labels.jsonl", [make_header("it works"), line])
    assert sum(run.success is True for run in bl.load_runs(path)) == 1
    assert main(["label", str(path), "--evidence", "tests", "--no-questions"]) == 0
    printed = capsys.readouterr().out
    assert "Sources differ about 1 turn" in printed  # the tests of run-1 failed
    assert next(row for row in printed.splitlines() if row.startswith("by hand")).split()[2:5] == ["1", "0", "0"]


def test_no_questions_and_no_evidence_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bl.save_runs(RUNS, tmp_path / "runs.jsonl")
    assert main(["label", str(tmp_path), "--no-questions"]) == 1
    assert "--no-questions needs --evidence or --judge" in capsys.readouterr().err


def test_evidence_is_written_once_and_again_if_it_changed(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    for _ in range(2):
        find_evidence(desk, arguments(evidence=("tests",)))
    n_lines = len(desk.file.labels)
    assert n_lines == len(desk.asked_units)
    frame = bl.outcomes(RUNS, reaction=False)
    add_frame(desk, frame.assign(outcome="failure"))
    assert n_lines < len(desk.file.labels) < 2 * n_lines
    assert {line["label"] for _, unit in desk.asked_units for line in desk.evidence_of(unit)} == {"failure"}


def test_status_compares_evidence_with_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bl.save_runs(RUNS, tmp_path / "runs.jsonl")
    assert main(["label", str(tmp_path), "--status", "--evidence", "tests"]) == 0
    assert "no evidence to look for" in capsys.readouterr().out
    desk = new_desk(tmp_path)
    assert main(["label", str(tmp_path), "--status", "--evidence", "tests"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "no test command was run." in said
    assert "agrees" not in said
    desk.refresh()
    for _ in range(12):
        question = desk.next_unit
        assert question is not None
        desk.answer(question, "success")
    known = [line["label"] for _, unit in desk.asked_units for line in desk.evidence_of(unit)
             if line["label"] != "unknown" and unit.print in desk.answers]  # fmt: skip
    assert main(["label", str(tmp_path), "--status"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    agreeing = f"It agrees with {known.count('success')} of {len(known)} answers by hand; success for all with"
    assert f"{agreeing} {len(known)}." in said
    assert "12 by hand. " in said


def test_evidence_without_a_repository_is_one_sentence(tmp_path: Path) -> None:
    desk = new_desk(tmp_path)
    find_evidence(desk, arguments(evidence=("git",)))
    n = len(desk.asked_units)
    assert [*evidence_lines(desk)] == [
        f"Evidence of git for 0 of {n} turns; for {n} of the others: the folder that it ran in is not on record."
    ]


def test_evidence_without_git_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    desk = new_desk(tmp_path)
    find_evidence(desk, arguments(evidence=("git", "tests")))
    (line,) = [line for line in evidence_lines(desk) if "git" in line]
    assert "there is no git on the PATH" in line
    assert "git unknown" in press(desk, "sq")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--judge", "m"], "--judge needs --max-cost"),
        (["--evidence", "tests,luck"], "evidence of 'luck'"),
        (["--git", "."], "--git needs --evidence git"),
        (["--evidence", "tests", "--merge", "x.jsonl"], "--merge shows no evidence"),
    ],
)
def test_evidence_that_cannot_be_asked_for_is_refused(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bl.save_runs(RUNS[:3], tmp_path / "runs.jsonl")
    assert main(["label", str(tmp_path), *options]) == 1
    assert message in " ".join(capsys.readouterr().err.split())


class Judge:
    """A model that keeps its requests."""

    name, virtual = "judge-1", True

    def __init__(self, fails: bool = False) -> None:
        self.requests: list[str] = []
        self.fails = fails

    async def respond(self, request: bl.models.Request, emit: Any = None) -> bl.models.Response:
        self.requests.append("\n".join(message.text for message in request.messages))
        if self.fails:
            raise bl.errors.ModelError("the server is not there")
        text = json.dumps({"outcome": "success", "why": "It says so."})
        return bl.models.Response(text, finish_reason="stop", usage=bl.models.Usage(cost=10_000))


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Judge:
    """The model that --judge names."""
    model = Judge()
    monkeypatch.setattr("boolab.cli.run_agent.model_of", lambda *_: (model, "judge-1 at http://127.0.0.1"))
    return model


def judged(desk: Desk, **options: Any) -> None:
    """Ask the judge."""
    find_evidence(desk, arguments(**{"judge": "judge-1", "max_cost": 1.0, "yes": True, **options}))


def test_judge_is_asked_once_for_each_unit(tmp_path: Path, judge: Judge) -> None:
    desk = new_desk(tmp_path)
    judged(desk)
    judged(new_desk(tmp_path))
    assert len(judge.requests) == len(desk.asked_units) < len(RUNS)
    assert "Success means: tests pass" in judge.requests[0]
    last = desk.asked_units[-1][0].run_id.removeprefix("run-")
    assert f"Task {last}\n" in judge.requests[0]
    assert "judge success" in press(new_desk(tmp_path), "sq")


def test_judge_stops_at_the_maximum_and_goes_on_later(
    tmp_path: Path, judge: Judge, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = new_desk(tmp_path)
    judged(desk, max_cost=0.035, cost_limit=0.01)
    n = len(desk.asked_units)
    assert f"--max-cost was reached: {n - 3} of {n} turns were not judged." in capsys.readouterr().out
    assert len(read_labels(desk.file.path).labels) == 3
    judged(desk)
    assert len(judge.requests) == len(read_labels(desk.file.path).labels) == n


def test_judge_that_fails_is_one_sentence(tmp_path: Path, judge: Judge, capsys: pytest.CaptureFixture[str]) -> None:
    judge.fails = True
    desk = new_desk(tmp_path)
    judged(desk)
    assert len(judge.requests) == 3
    assert capsys.readouterr().out.startswith("The judge was not asked any further: the model failed: ")
    assert not desk.file.labels


def test_judge_gets_nothing_before_the_first_request_was_shown(
    tmp_path: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("boolab.cli.label_evidence.agrees", print)
    judged(new_desk(tmp_path), yes=False)
    shown = capsys.readouterr().out
    assert "Success means: tests pass" in shown
    assert "to judge-1 at http://127.0.0.1, for at most $1" in shown
    assert shown.endswith("Nothing was sent.\n")
    assert not judge.requests


@pytest.mark.parametrize("evidence", [lambda: ["tests"], lambda: bl.outcomes(RUNS), lambda: ("git", "tests")])
def test_labeler_has_the_same_evidence(tmp_path: Path, evidence: Callable[[], Any]) -> None:
    options: Any = {"labels": tmp_path / "labels.jsonl", "criterion": "tests pass", "who": "ann", "pi": 1}
    plain = bl.Labeler(RUNS, {"max_steps": [6]}, **options)
    desk = bl.Labeler(RUNS, {"max_steps": [6]}, **options, evidence=evidence())
    assert desk.state == plain.state
    assert any(note.startswith("Evidence of tests for 20 of 30 turns") for note in desk.found.notes)
    desk.answer("s")
    assert "Evidence: " in desk._live_data()["messages"][-1]


def test_labeler_takes_no_labels_as_evidence(tmp_path: Path) -> None:
    options: Any = {"labels": tmp_path / "labels.jsonl", "criterion": "tests pass"}
    frame = bl.outcomes(RUNS)
    for evidence, message in (
        (frame.assign(source="hand"), "of the source 'hand'"),
        (frame.drop(columns="why"), "has no column why"),
        ("tests", "expected a list of sources"),
        (["luck"], "evidence of 'luck'"),
    ):
        with pytest.raises(SettingError, match=message):
            bl.Labeler(RUNS, {"max_steps": [6]}, **options, evidence=evidence)


def test_status_lines_name_trusted_evidence_and_answers(tmp_path: Path) -> None:
    desk = new_desk(tmp_path, trust=("tests",))
    find_evidence(desk, arguments(evidence=("tests",)))
    text = "\n".join(status_lines(desk))
    assert f"{sum(desk.labels[row].source == 'tests' for row in desk.labels)} by evidence of tests" in text
