"""Converts a growing run's messages to rows and back. Calls and results are in the table `calls` only.

The rows are those of `Run.messages`, in order: `seq` is a message's place there, and a part's place in its message.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from boolab.core.codec import decode, dumps, encode
from boolab.core.messages import (
    Input,
    Message,
    Part,
    Reasoning,
    Sentinel,
    StepStart,
    Text,
    response_message,
    results_message,
)
from boolab.core.run import Run
from boolab.core.types import Image, ToolCall, ToolResult
from boolab.store.rows import CALL_COLUMNS, STEP_COLUMNS, Row

MESSAGE_COLUMNS: Final = ("seq", "role", "origin", "step")
PART_COLUMNS: Final = ("message", "seq", "kind", "text", "about", "call", "record")

TABLES: Final = {"steps": STEP_COLUMNS, "calls": CALL_COLUMNS, "messages": MESSAGE_COLUMNS, "parts": PART_COLUMNS}
"""The columns of the tables of a run's parts, besides `run`, the row of the run."""


class MessageRows:
    """Makes the rows of a growing run: `new_rows` those since its last call; with `last` also the end of the run."""

    def __init__(self) -> None:
        self._prompted = False
        self._steps = 0
        self._inputs = 0
        self._seq = itertools.count()

    def new_rows(self, run: Run, *, last: bool = False) -> tuple[list[Row], list[Row]]:
        messages: list[Row] = []
        parts: list[Row] = []
        for origin, step, message in self._new_messages(run, last=last):
            seq = next(self._seq)
            messages.append((seq, message.role, origin, step))
            if origin == "response":
                rows = _message_rows(message, itertools.count(1))
            elif origin == "results" and step is not None:
                results = run.steps[step - 1].results
                rows = _message_rows(message, (index for index, result in enumerate(results, 1) if result is not None))
            else:
                rows = map(_part, message.parts)
            parts += [(seq, index, *row) for index, row in enumerate(rows)]
        return messages, parts

    def _new_messages(self, run: Run, *, last: bool) -> Iterator[tuple[str, int | None, Message]]:
        """The origin, the step and the message of each new message."""
        if not self._prompted:
            self._prompted = True
            yield from (("prompt", None, message) for message in run.prompt)
        for step in run.steps[self._steps :]:
            yield from self._new_inputs(run, step.index)
            yield "response", step.index, response_message(step.index, step.start_ms, step.response)
            answers = results_message(step.results)
            if answers is not None:
                yield "results", step.index, answers
            self._steps += 1
        yield from self._new_inputs(run, None if last else len(run.steps) + 1)
        if last:
            ends = sum(word is not None for word in (run.synthesis, run.wrap_up, run.sentinel))
            yield from (("end", None, message) for message in run.messages[-ends:] if ends)

    def _new_inputs(self, run: Run, step: int | None) -> Iterator[tuple[str, int | None, Message]]:
        """The inputs before a step; all that are left if it is None."""
        while self._inputs < len(run.inputs) and (step is None or run.inputs[self._inputs].before <= step):
            step_number, message = run.inputs[self._inputs]
            self._inputs += 1
            yield "input", step_number, message


def texts_of_rows(
    messages: Iterable[Row], parts: Iterable[Row], n_steps: int
) -> tuple[tuple[Message, ...], tuple[Input, ...], list[tuple[str, str, str]]]:
    """The prompt, the inputs, and the text, reasoning and opaque part of each step, from the rows of one run."""
    rows: dict[int, list[Row]] = {}
    for message, _, *row in parts:
        rows.setdefault(message, []).append(tuple(row))
    prompt: list[Message] = []
    inputs: list[Input] = []
    texts = [("", "", "")] * n_steps
    for seq, role, origin, step in messages:
        if origin == "prompt":
            prompt.append(Message(role, tuple(map(_part_of, rows.get(seq, ())))))
        elif origin == "input":
            inputs.append(Input(step, Message(role, tuple(map(_part_of, rows.get(seq, ()))))))
        elif origin == "response":
            texts[step - 1] = _texts_of(rows.get(seq, ()))
    return tuple(prompt), tuple(inputs), texts


def _message_rows(message: Message, calls: Iterator[int]) -> Iterator[Row]:
    """The rows of a step's message; those of its calls and results refer to the table of calls."""
    for part in message.parts:
        if isinstance(part, ToolCall | ToolResult):
            yield (_KINDS[type(part)], None, None, next(calls), None)
        elif isinstance(part, StepStart):
            yield ("step_start", None, None, None, None)
        else:
            yield _part(part)


def _part(part: Part) -> Row:
    kind = _KINDS[type(part)]
    if isinstance(part, Text | Reasoning | Sentinel):
        detail = part.opaque if isinstance(part, Reasoning) else part.kind if isinstance(part, Sentinel) else None
        return (kind, part.text, detail, None, None)
    return (kind, None, None, None, dumps(encode(part, "a part of a message")).decode())


def _part_of(row: Row) -> Part:
    kind, text, detail, _, record = row
    if kind == "text":
        return Text(text)
    if kind == "reasoning":
        return Reasoning(text, detail)
    if kind == "sentinel":
        return Sentinel(detail, text)
    kinds: dict[str, Any] = {name: kind for kind, name in _KINDS.items()}
    part: Part = decode(kinds[kind], json.loads(record))
    return part


def _texts_of(rows: Sequence[Row]) -> tuple[str, str, str]:
    text, reasoning, opaque = "", "", ""
    for kind, words, detail, _, _ in rows:
        if kind == "text":
            text = words
        elif kind == "reasoning":
            reasoning, opaque = words, detail
    return text, reasoning, opaque


_KINDS: Final[dict[type, str]] = {
    StepStart: "step_start",
    Text: "text",
    Reasoning: "reasoning",
    ToolCall: "tool_call",
    ToolResult: "tool_result",
    Sentinel: "sentinel",
    Image: "image",
}
