"""Lone surrogates: replaced once where text comes in, so that whatever is behind it can be written and drawn."""

from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.messages import Message, Reasoning, Text
from boolab.core.run import Run
from boolab.core.surrogates import whole_message, whole_response, whole_text
from boolab.core.types import Response, ToolCall, ToolResult
from boolab.limits.catalog import max_steps
from boolab.logs.save import save_runs
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.runner import run_sync
from boolab.runtime.models.scripted import ScriptedModel
from boolab.runtime.tools.tool import tool

HALF, WHOLE = "a\ud83d", "a\ufffd"


@tool
def look(what: str = "") -> str:
    """Look."""
    return HALF


@tool
def fail() -> str:
    """Fail."""
    raise RuntimeError(HALF)


ASKS = Response(
    HALF,
    (
        ToolCall("1\udc00", f"look{HALF}", f'{{"what":"{HALF}"}}'),
        ToolCall("2", "look", "{}"),
        ToolCall("3", "fail", "{}"),
    ),
    "tool_calls",
    reasoning=HALF,
    native_finish_reason=HALF,
)


def live(task: Any = HALF, **options: Any) -> Run:
    agent = Agent(HALF, prompt=HALF, description=HALF, tools=(look, fail), policy=options.pop("policy", "boocode"))
    return run_sync(agent, task, model=ScriptedModel([ASKS, HALF], summary=HALF), **options)


def texts(value: Any) -> list[str]:
    """All texts in a record, however deep."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for one in pair for text in texts(one)]
    if isinstance(value, tuple | list):
        return [text for one in value for text in texts(one)]
    if isinstance(value, Run):
        return [
            text for name in Run.__dataclass_fields__ if name != "continuation" for text in texts(getattr(value, name))
        ]
    return []


@pytest.mark.parametrize("stop", [None, max_steps(1)], ids=["to its end", "with a summary"])
def test_the_record_of_a_live_run_holds_none(stop: Any) -> None:
    run = live(**({} if stop is None else {"stop": stop}))
    assert [text for text in texts(run) if whole_text(text) != text] == []
    first = run.steps[0]
    assert (run.task, run.agent, first.response.text, first.response.reasoning) == (WHOLE, WHOLE, WHOLE, WHOLE)
    assert [call.name for call in first.response.tool_calls] == [f"look{WHOLE}", "look", "fail"]
    assert first.results[1] is not None
    assert first.results[1].content == WHOLE
    assert first.results[2] is not None
    assert WHOLE in first.results[2].content
    assert [result and result.call_id for result in first.results] == ["1\ufffd", "2", "3"]


@pytest.mark.parametrize(
    "task", [[{"role": "user", "content": HALF}], [Message("user", (Text(HALF),))]], ids=["mapping", "message"]
)
def test_tasks_of_messages_hold_none(task: Any) -> None:
    assert live(task).prompt[-1] == Message("user", (Text(WHOLE),))


def test_messages_on_the_way_hold_none() -> None:
    inbox = bl.Inbox()
    inbox.send(HALF)
    assert inbox.take() == [Message("user", (Text(WHOLE),))]


@pytest.mark.slow
def test_a_report_of_a_live_made_recording_is_written(tmp_path: Path) -> None:
    save_runs([live() for _ in range(3)], tmp_path / "runs.jsonl")
    assert main(["report", str(tmp_path / "runs.jsonl"), "-o", str(tmp_path / "report.html")]) == 0
    assert WHOLE in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_recorded_run_that_held_some_is_replayed(tmp_path: Path) -> None:
    agent = Agent("a", tools=(look, fail))
    run = run_sync(agent, HALF, model=bl.record(ScriptedModel([ASKS, HALF]), tmp_path / "model.jsonl"))
    again = run_sync(agent, HALF, model=bl.RecordedModel(tmp_path / "model.jsonl"))
    assert [step.response for step in again.steps] == [step.response for step in run.steps]
    assert [step.results for step in again.steps] == [step.results for step in run.steps]


def test_pairs_are_joined_and_whole_values_are_themselves() -> None:
    pair, joined = "\ud83d\ude00", "\U0001f600"
    response = Response(pair, (ToolCall("1", pair, pair),), opaque=pair)
    assert whole_response(response) == Response(joined, (ToolCall("1", joined, joined),), opaque=joined)
    good = Response("ä", (ToolCall("1", "look", "{}"),))
    assert whole_response(good) is good
    message = Message("tool", (ToolResult("\ud83d", pair), Reasoning(HALF), Text("x")))
    assert whole_message(message).parts == (ToolResult("\ufffd", joined), Reasoning(WHOLE), Text("x"))
    plain = Message("user", (Text("x"),))
    assert whole_message(plain) is plain
