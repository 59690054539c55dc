"""Runs of shell commands and other calls, for the tests of evidence."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from boolab.core.messages import Input, Message, Text
from boolab.core.run import Run
from boolab.core.types import Response, Step, Stop, ToolCall, ToolResult

STARTED = datetime(2026, 1, 1, tzinfo=UTC)


class Shell(NamedTuple):
    """A command of a case, what it printed, and its exit code."""

    command: str | Sequence[str]
    output: str = ""
    code: int | None = None


class Tool(NamedTuple):
    """A call of another tool."""

    name: str
    arguments: dict[str, Any]
    content: str = "ok"
    is_error: bool = False


class Answer(NamedTuple):
    """A response without a call."""

    text: str = "Done."


EDIT = Tool("Edit", {"file_path": "/p/src/a.py", "old_string": "a", "new_string": "b"})


def make_run(
    *calls: Shell | Tool | Answer,
    turns: Sequence[int] = (),
    source: str = "mini_swe_agent",
    messages: Sequence[str] = (),
    reason: Any = "finished",
    **more: Any,
) -> Run:
    """A run whose steps make one call each; `messages` are the prompt and those that open the later turns."""
    steps: list[Step] = []
    inputs: list[Input] = []
    for index, call in enumerate(calls, 1):
        turn = turns[index - 1] if turns else 1
        if steps and turn != steps[-1].turn and messages:
            inputs.append(Input(index, Message("user", (Text(messages[turn - 1]),))))
        steps.append(_step(index, turn, call))
    inputs += [Input(len(steps) + 1, Message("user", (Text(text),))) for text in messages[turn:]]
    prompt = tuple(Message("user", (Text(text),)) for text in messages[:1])
    fields = {"run_id": "r", "agent": "", "model": "m", "policy": "naive", "task": "t", "started_at": STARTED, **more}
    return Run(
        stop=Stop(reason, len(steps)), steps=tuple(steps), source=source, inputs=tuple(inputs), prompt=prompt, **fields
    )


def _step(index: int, turn: int, call: Shell | Tool | Answer) -> Step:
    if isinstance(call, Answer):
        return Step(index, turn, 1000 * index, 500, 400, Response(call.text))
    name, arguments = ("bash", {"command": call.command}) if isinstance(call, Shell) else call[:2]
    if isinstance(call, Shell):
        head = "" if call.code is None else f"<returncode>{call.code}</returncode>\n"
        result = ToolResult(str(index), head + call.output, None if call.code is None else call.code != 0)
    else:
        result = ToolResult(str(index), call.content, call.is_error)
    response = Response("", (ToolCall(str(index), name, json.dumps(arguments)),))
    return Step(index, turn, 1000 * index, 500, 400, response, (result,))
