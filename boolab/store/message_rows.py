"""A run's messages as rows that grow with the run, and back. Calls and results are not held twice: see `calls`.

The rows are those of `Run.messages`, in order: `seq` is a message's place there, and a part's place in its message.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from boolab.core.codec import decode, dumps, encode
from boolab.core.types import (
    Input,
    Message,
    Part,
    Reasoning,
    Run,
    Sentinel,
    StepStart,
    Text,
    ToolCall,
    ToolResult,
    response_message,
    results_message,
)
from boolab.store.rows import CALL, STEP, Row

MESSAGE: Final = ("seq", "role", "origin", "step")
PART: Final = ("message", "seq", "kind", "text", "about", "call", "record")

TABLES: Final = {"steps": STEP, "calls": CALL, "messages": MESSAGE, "parts": PART}
"""The columns of the tables of a run's parts, besides `run`, the row of the run."""


class MessageRows:
    """Makes the rows of a run that grows: with each call those of what came since the last one.

    Steps and inputs are added to the run at their ends. `last` adds what stands after all steps, once.
    """

    def __init__(self) -> None:
        self._prompted = False
        self._steps = 0
        self._inputs = 0
        self._seq = itertools.count()

    def new(self, run: Run, *, last: bool = False) -> tuple[list[Row], list[Row]]:
        """The rows of messages, and those of their parts."""
        messages: list[Row] = []
        parts: list[Row] = []
        for origin, step, message in self._new(run, last=last):
            seq = next(self._seq)
            messages.append((seq, message.role, origin, step))
            if origin == "response":
                rows = _with_calls(message, itertools.count(1))
            elif origin == "results" and step is not None:
                given = run.steps[step - 1].results
                rows = _with_calls(message, (place for place, result in enumerate(given, 1) if result is not None))
            else:
                rows = map(_part, message.parts)
            parts += [(seq, place, *row) for place, row in enumerate(rows)]
        return messages, parts

    def _new(self, run: Run, *, last: bool) -> Iterator[tuple[str, int | None, Message]]:
        """The messages that are new: where each comes from, the step, and the message."""
        if not self._prompted:
            self._prompted = True
            yield from (("prompt", None, message) for message in run.prompt)
        for step in run.steps[self._steps :]:
            yield from self._came_in(run, step.index)
            yield "response", step.index, response_message(step.index, step.start_ms, step.response)
            answers = results_message(step.results)
            if answers is not None:
                yield "results", step.index, answers
            self._steps += 1
        yield from self._came_in(run, None if last else len(run.steps) + 1)
        if last:
            ends = sum(word is not None for word in (run.synthesis, run.wrap_up, run.sentinel))
            yield from (("end", None, message) for message in run.messages[-ends:] if ends)

    def _came_in(self, run: Run, step: int | None) -> Iterator[tuple[str, int | None, Message]]:
        """The inputs that stand before a step; after the last one all that are left."""
        while self._inputs < len(run.inputs) and (step is None or run.inputs[self._inputs].before <= step):
            before, message = run.inputs[self._inputs]
            self._inputs += 1
            yield "input", before, message


def texts_of_rows(
    messages: Iterable[Row], parts: Iterable[Row], n_steps: int
) -> tuple[tuple[Message, ...], tuple[Input, ...], list[tuple[str, str, str]]]:
    """What the rows of one run hold beside its calls.

    Returns:
        The prompt, the inputs, and of each step the text, the reasoning and what goes with it.
    """
    rows: dict[int, list[Row]] = {}
    for message, _, *row in parts:
        rows.setdefault(message, []).append(tuple(row))
    prompt: list[Message] = []
    inputs: list[Input] = []
    said = [("", "", "")] * n_steps
    for seq, role, origin, step in messages:
        if origin == "prompt":
            prompt.append(Message(role, tuple(map(_part_of, rows.get(seq, ())))))
        elif origin == "input":
            inputs.append(Input(step, Message(role, tuple(map(_part_of, rows.get(seq, ()))))))
        elif origin == "response":
            said[step - 1] = _said(rows.get(seq, ()))
    return tuple(prompt), tuple(inputs), said


def _with_calls(message: Message, calls: Iterator[int]) -> Iterator[Row]:
    """The rows of a step's message, whose calls and results are in the table of calls."""
    for part in message.parts:
        if isinstance(part, ToolCall | ToolResult):
            yield (_KINDS[type(part)], None, None, next(calls), None)
        elif isinstance(part, StepStart):
            yield ("step_start", None, None, None, None)
        else:
            yield _part(part)


def _part(part: Part) -> Row:
    """The row of a part that no step has."""
    kind = _KINDS[type(part)]
    if isinstance(part, Text):
        return (kind, part.text, None, None, None)
    if isinstance(part, Reasoning):
        return (kind, part.text, part.opaque, None, None)
    if isinstance(part, Sentinel):
        return (kind, part.text, part.kind, None, None)
    return (kind, None, None, None, dumps(encode(part, "a part of a message")).decode())


def _part_of(row: Row) -> Part:
    kind, text, about, _, record = row
    if kind == "text":
        return Text(text)
    if kind == "reasoning":
        return Reasoning(text, about)
    if kind == "sentinel":
        return Sentinel(about, text)
    kinds: dict[str, Any] = {name: kind for kind, name in _KINDS.items()}
    part: Part = decode(kinds[kind], json.loads(record))
    return part


def _said(rows: Sequence[Row]) -> tuple[str, str, str]:
    text, reasoning, opaque = "", "", ""
    for kind, words, about, _, _ in rows:
        if kind == "text":
            text = words
        elif kind == "reasoning":
            reasoning, opaque = words, about
    return text, reasoning, opaque


_KINDS: Final[dict[type, str]] = {
    StepStart: "step_start",
    Text: "text",
    Reasoning: "reasoning",
    ToolCall: "tool_call",
    ToolResult: "tool_result",
    Sentinel: "sentinel",
}
