"""`bl.outcomes`: a row for each unit and source."""

from dataclasses import replace

import pytest

import boolab as bl
from boolab.logs.fingerprint import fingerprint
from tests.support.evidence_runs import EDIT, Answer, Shell, make_run

PASSED = "=== 2 passed in 0.1s ==="


def test_frame_has_a_row_for_each_unit_and_source() -> None:
    run = make_run(EDIT, Shell("pytest", PASSED, 0), EDIT, turns=(1, 1, 2), messages=["a", "b"], source="claude_code")
    frame = bl.outcomes([run, replace(run, run_id="child", parent_run_id="r")])
    assert frame[["run_id", "turn", "source", "outcome"]].values.tolist() == [
        ["r", 1, "tests", "success"],
        ["r", 2, "tests", "unknown"],
        ["r", 1, "reaction", "unknown"],
        ["r", 2, "reaction", "unknown"],
    ]
    expected = fingerprint(run, 2)
    assert (frame["print"][0], frame["steps"][0]) == (expected.print, expected.steps)
    assert frame["detail"][0] == '{"command": "pytest", "step": 2, "failed": 0, "passed": 2}'


def test_run_is_the_unit_where_limits_count_so() -> None:
    frame = bl.outcomes(make_run(EDIT, Shell("pytest", PASSED, 0)))
    assert frame["turn"].isna().tolist() == [True]
    assert frame["outcome"].tolist() == ["success"]


def test_sources_that_are_off_have_no_rows() -> None:
    run = make_run(Answer(), source="claude_code")
    assert bl.outcomes(run, tests=False)["source"].tolist() == ["reaction"]
    assert bl.outcomes(run, tests=False, reaction=False).empty
    assert bl.outcomes([])["outcome"].tolist() == []


def test_labels_of_runs_stay_as_they_are() -> None:
    run = make_run(EDIT, Shell("pytest", PASSED, 0))
    bl.outcomes(run)
    assert run.success is None


def test_pattern_of_the_user_is_a_test_command() -> None:
    run = make_run(EDIT, Shell("./suite", "", 0))
    assert bl.outcomes(run, test_commands=[r"^\./suite$"])["outcome"].tolist() == ["success"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scope": "session"}, "accepted: turn, run, auto"),
        ({"test_commands": "make all"}, "pass a list of regular expressions"),
        ({"test_commands": ["("]}, "not a regular expression"),
    ],
)
def test_wrong_option_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(bl.SettingError, match=message):
        bl.outcomes(make_run(Answer()), **options)  # type: ignore[arg-type]
