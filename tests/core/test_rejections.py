"""The answers of harnesses to calls that were never executed, in logs of each of them."""

from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.rejections import is_rejection
from tests.support.claude_logs import Session, call

ANSWERS = [
    "The user doesn't want to proceed with this tool use. The tool use was rejected.",
    "The user doesn't want to take this action right now.",
    "Permission to use Bash with command rm\n x has been denied.",
    "Permission for this action has been denied. Reason: no",
    "Claude requested permissions to write to a.py, but you haven't granted it yet.",
    "PreToolUse:Bash hook error: [guard.py]: no",
    "exec command rejected by user",
    'exec_command failed for `ls`: CreateProcess { message: "Rejected(\\"rejected by user\\")" }',
    "approval policy is Never; reject command — you cannot ask for escalated permissions",
    "The user rejected permission to use this specific tool call.",
    "Tool execution was blocked",
]
PRINTED = [
    "Permission to use the lab: ask Ann",
    "He said: The user doesn't want to go",
    "a command rejected by user",
    "",
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_of_a_harness_is_a_rejection_unless_no_error(answer: str) -> None:
    assert [is_rejection("codex", answer, is_error=flag) for flag in (True, None, False)] == [True, True, False]


@pytest.mark.parametrize("printed", PRINTED)
def test_other_errors_are_no_rejections(printed: str) -> None:
    assert not is_rejection("claude_code", printed, is_error=True)


def test_cline_gives_no_flag_with_a_denial() -> None:
    assert is_rejection("cline", "The user denied this operation.", is_error=False)


@pytest.mark.parametrize(
    ("answer", "more"),
    [*((answer, {}) for answer in ANSWERS[:6]), ("no", {"toolDenialKind": "user-rejected"}),
     ("no", {"toolUseResult": "User rejected tool use"})],
)  # fmt: skip
def test_rejected_calls_are_steps_and_no_calls(tmp_path: Path, answer: str, more: dict[str, Any]) -> None:
    session = Session()
    session.user("the task")
    for number in range(4):
        session.say(f"m{number}", call(f"t{number}"))
        session.answer(f"t{number}", answer, is_error=True, **more)
    run = session.run(tmp_path)
    assert (run.n_steps, run.n_tool_calls, len(run.steps[0].dropped)) == (4, 0, 1)
    assert [(event.kind, event.payload["what"]) for event in run.events] == [("rejected", answer)] * 4
    rules = [bl.max_steps(2), bl.tool_budget(2), bl.doom_loop(3), bl.error_streak(2)]
    frame = bl.counterfactual(run, rules=rules)
    assert frame["stop_reason"].tolist() == ["step_cap", "aborted", "aborted", "aborted"]
    assert frame["stop_step"].tolist()[0] == 2


def test_a_rejection_that_is_written_again_changes_nothing(tmp_path: Path) -> None:
    session = Session()
    session.user("the task")
    session.say("m1", call("t1"))
    session.answer("t1", ANSWERS[0], is_error=True)
    once = session.run(tmp_path)
    session.answer("t1", ANSWERS[0], is_error=True)
    assert session.run(tmp_path).steps == once.steps
    bl.save_runs(once, tmp_path / "runs.jsonl")
    assert bl.load_runs(tmp_path / "runs.jsonl") == [once]
