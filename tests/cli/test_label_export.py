"""`boolab label --export`: the file that it writes has the same labels for `bl.label` as the file of labels."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.cli.label import export_labels
from boolab.errors import SettingError
from boolab.logs.outcomes.label_file import OutcomeWord, append_lines, make_header, make_label
from boolab.logs.units import units_of_run
from boolab.stats.recommend.desk_session import Desk
from tests.support.evidence_runs import Answer, make_run

NAMES = st.text(st.sampled_from("ab=+-@,;\"' \t\r\n\x0b\x85\u2028é"), min_size=1, max_size=6)
NOTES = st.text(st.sampled_from("ok=,;\"'\n\r\u2028\x1c"), max_size=6)
OUTCOMES: list[OutcomeWord] = ["success", "failure", "unknown"]
ANSWERS = st.lists(st.tuples(st.sampled_from(OUTCOMES), st.sampled_from(["ann", "bob"]), NOTES), max_size=3)


def session(run_id: str, n_turns: int) -> bl.Run:
    """A session with so many turns."""
    turns = range(1, n_turns + 1)
    texts = [f"{run_id} {turn}" for turn in turns]
    return make_run(*[Answer()] * n_turns, turns=turns, messages=texts, source="claude_code", run_id=run_id)


def successes(runs: list[bl.Run]) -> dict[tuple[str, int | None], bool]:
    """The outcome of each run and each turn that is known."""
    known = {(run.run_id, label.turn): label.success for run in runs for label in run.labels}
    return {unit: success for unit, success in known.items() if success is not None}


@pytest.mark.filterwarnings("ignore:.*people disagree:boolab.errors.ReadWarning")
@given(st.data())
def test_exported_labels_are_those_of_the_file(data: st.DataObject) -> None:
    names = data.draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=lambda name: "".join(name.split()).strip("'")))
    runs = [session(name, data.draw(st.integers(1, 3))) for name in names]
    lines = [make_header("tests pass")]
    for run in runs:
        for unit in units_of_run(run, "turn"):
            for outcome, who, note in data.draw(ANSWERS):
                lines.append(make_label(unit, outcome, facts={"who": who, "note": note}, after=lines))
    with tempfile.TemporaryDirectory() as folder:
        append_lines(f"{folder}/labels.jsonl", lines)
        desk = Desk(runs, f"{folder}/labels.jsonl", {"max_steps": [5]})
        export_labels(desk, f"{folder}/labels.csv")
        expected = successes(bl.label(runs, f"{folder}/labels.jsonl")) if len(lines) > 1 else {}
        assert successes(bl.label(runs, f"{folder}/labels.csv")) == expected


def test_labels_of_turns_in_a_table_are_checked(tmp_path: Path) -> None:
    runs = [session("a", 2), session("b", 1)]
    file = tmp_path / "labels.csv"
    file.write_text("run_id,turn,success\na,2,0\nb,1,yes\na,,1\n")
    labelled = bl.label(runs, file)
    assert successes(labelled) == {("a", 2): False, ("a", None): True, ("b", None): True}
    file.write_text("run_id,turn,success\na,2,\n")
    assert successes(bl.label(labelled, file)) == {("a", None): True, ("b", None): True}
    for rows, message in (
        ("a,3,1", "a label of turn 3, which run a does not have"),
        ("a,x,1", "row 1 has the turn 'x'"),
        ("a,2,1\na,2,0", "labels turn 2 of 'a' a second time"),
        ("c,2,1", "labels for a run_id that no run has: 'c'"),
    ):
        file.write_text(f"run_id,turn,success\n{rows}\n")
        with pytest.raises(SettingError, match=message):
            bl.label(runs, file)


def test_verdict_in_the_logs_comes_before_trusted_evidence(tmp_path: Path) -> None:
    (run,) = bl.label([session("a", 1)], lambda _: True)
    append_lines(tmp_path / "labels.jsonl", [make_label(units_of_run(run, "turn")[0], "failure", "tests")])
    desk = Desk([run], tmp_path / "labels.jsonl", {"max_steps": [5]}, trust=["tests"])
    assert [*desk.answers.values()] == ["success"]
    assert not desk.labels
