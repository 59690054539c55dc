"""Evidence from the user's next message, and from interrupted turns."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from boolab.core.messages import Input, Message, Text
from boolab.core.types import Event
from boolab.logs.outcomes.reaction import evidence_of_reaction
from boolab.logs.units import units_of_run
from boolab.stats.desk.card import card_of
from tests.support.evidence_runs import EDIT, STARTED, Answer, Shell, Tool, make_run

PROMPT = "Make the parser of dates accept two digits of a year"


ABORTED = Tool("Bash", {"command": "sleep 99"}, is_error=True)


def outcomes(
    messages: Sequence[str], *calls: Shell | Tool | Answer, turns: Sequence[int], reason: str = "finished"
) -> list[str]:
    events = (Event(None, "abort", {"after_step": len(calls)}),) if reason == "aborted" else ()
    run = make_run(*calls, turns=turns, messages=messages, reason=reason, source="claude_code", events=events)
    steps = [
        step._replace(results=(None,)) if call is ABORTED else step for step, call in zip(run.steps, calls, strict=True)
    ]
    run = replace(run, steps=tuple(steps))
    return [found.outcome for found in evidence_of_reaction(run).values()]


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        ("Make the parser of dates accept two digits of the year!", "failure"),
        ("git checkout -- src/a.py", "failure"),
        ("<bash-input>git restore .</bash-input>", "failure"),
        ("/rewind", "failure"),
        ("No, please revert that and try again", "failure"),
        ("Undo all of it.", "failure"),
        ("Thanks! Now revert the last commit", "failure"),
        ("Add a button to revert the changes", "unknown"),
        ("git checkout -b next", "unknown"),
        ("Undo is missing in the editor: add it", "unknown"),
        ("What does revert this button do?", "unknown"),
        ("Great, thanks.", "unknown"),
        ("continue", "unknown"),
        ("Now make the writer of dates do the same, with tests and a page", "unknown"),
    ],
)
def test_next_message_is_evidence_of_failure_at_most(message: str, outcome: str) -> None:
    assert outcomes([PROMPT, message], EDIT, Answer(), Answer(), turns=(1, 1, 2)) == [outcome, "unknown"]


def test_short_prompt_is_repeated_by_habit() -> None:
    assert outcomes(["continue", "continue"], Answer(), Answer(), turns=(1, 2)) == ["unknown", "unknown"]


def test_message_after_the_last_turn_counts_for_it() -> None:
    assert outcomes([PROMPT, "git reset --hard"], Answer(), turns=(1,)) == ["failure"]


def test_turn_interrupted_for_a_detail_and_finished_is_unknown() -> None:
    assert outcomes([PROMPT, "also the tests"], ABORTED, Answer(), turns=(1, 2)) == ["unknown", "unknown"]


def test_turn_interrupted_and_never_finished_is_a_failure() -> None:
    calls = (ABORTED, EDIT)
    assert outcomes([PROMPT, "also the tests"], *calls, turns=(1, 2), reason="aborted") == ["failure", "failure"]
    assert outcomes([PROMPT], EDIT, turns=(1,), reason="aborted") == ["failure"]


@pytest.mark.parametrize(
    ("after", "outcome"), [(["run it", "[stopped]"], "unknown"), (["[stopped]", "run it"], "failure")]
)
def test_message_broken_off_is_no_interruption_of_the_turn(after: list[str], outcome: str) -> None:
    events = (Event(None, "abort", {"after_step": 1, "what": "[stopped]"}),)
    run = make_run(
        Answer(), turns=(1,), messages=[PROMPT, *after], reason="aborted", source="claude_code", events=events
    )
    assert evidence_of_reaction(run)[1].outcome == outcome


def test_message_while_the_agent_works_is_no_interruption() -> None:
    assert outcomes([PROMPT, "also the tests", "and the page"], EDIT, EDIT, EDIT, turns=(1, 2, 3)) == ["unknown"] * 3


def test_time_is_that_of_the_next_turn() -> None:
    run = make_run(Answer(), Answer(), turns=(1, 2), messages=[PROMPT, "/undo"])
    found = evidence_of_reaction(run)[1]
    assert found.at is not None
    assert (found.at - STARTED).total_seconds() == 2
    assert found.why == "the next message asks to take the work back"


def test_notice_of_the_harness_is_no_message_of_the_user() -> None:
    notice = '<task-notification>\n<summary>"git checkout -- a.py" was stopped, revert that</summary>'
    run = make_run(Answer(), Answer(), turns=[1, 2], messages=["Fix it", "and b.py"], source="claude_code")
    printed = "<local-command-stdout>revert that</local-command-stdout>"
    messages = [Input(2, Message("user", (Text(text),))) for text in (notice, printed)]
    with_notice = replace(run, inputs=(*messages, *run.inputs))
    assert evidence_of_reaction(with_notice) == evidence_of_reaction(run)
    unit = units_of_run(with_notice, "turn")[1]
    assert card_of(with_notice, unit).prompt == "and b.py"


def test_request_after_a_reminder_of_the_harness_is_read() -> None:
    message = "<system-reminder>be brief</system-reminder>\nplease revert that"
    assert outcomes([PROMPT, message], EDIT, Answer(), Answer(), turns=(1, 1, 2)) == ["failure", "unknown"]
