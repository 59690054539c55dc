"""The document of a value, by its type; a notebook shows it as a card.

A value of a package above this one makes its document itself, by a method `_document_`. Values of core know no display:
their documents are here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import singledispatch
from typing import Any, Final

from boolab.core.run import Run, stop_place
from boolab.core.text import count, shorten
from boolab.core.types import Step, ToolCall, results_in
from boolab.display.document import Document, Facts, Mark, Status, Strip
from boolab.display.numbers import duration, money, short_number
from boolab.display.tool_kinds import KINDS, Kind, kind_of

MAX_MARKS: Final = 160
"""The strip has at most so many marks; with more steps, each mark is several of them."""
_TASK_CHARS: Final = 160
_MICRO: Final = 1_000_000
_STATUS: Final = {
    True: Status("✓ success", success=True),
    False: Status("✕ failure", success=False),
    None: Status("not labelled", success=None),
}


@singledispatch
def document_of(value: Any) -> Document:  # noqa: ANN401 - any value with the method
    """Make the document of a value."""
    document: Document = value._document_()
    return document


@document_of.register
def _(run: Run) -> Document:
    """A run: its outcome, its task, a strip of its steps by kind of tool, and what it used."""
    names = dict.fromkeys(filter(None, (run.agent, run.model, run.policy)))
    facts = [*names, *_amounts(run), f"{run.stop.reason} {stop_place(run)}"]
    task = [shorten(run.task, _TASK_CHARS)] if run.task else []
    strip = [_strip(run.steps)] if run.steps else []
    return Document(
        title=run.run_id,
        status=_STATUS[run.success],
        lead=[*task, *strip, Facts(facts)],
        footer="bl.Replay(run) shows each step; print(run) has the transcript",
        card=True,
    )


def _amounts(run: Run) -> list[str]:
    results = [*results_in(run.steps)]
    errors = sum(result.is_error is True for result in results)
    usages = [step.response.usage for step in run.steps] + list(run.outside)
    tokens = _sum([None if None in (usage.input_tokens, usage.output_tokens) else
                   (usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in usages])  # fmt: skip
    cost = _sum([usage.cost for usage in usages])
    return [
        count(run.n_steps, "step"),
        count(run.n_tool_calls, "call"),
        count(errors, "error") if errors else "",
        "" if tokens is None else f"{short_number(tokens)} tokens",
        "" if cost is None else money(cost / _MICRO),
        "" if run.duration_ms is None else duration(run.duration_ms),
    ]


def _sum(values: list[int | None]) -> int | None:
    """The sum; None where one of the values is unknown, or there is none."""
    amounts = [value for value in values if value is not None]
    return sum(amounts) if amounts and len(amounts) == len(values) else None


def _strip(steps: Sequence[Step]) -> Strip:
    """The steps from left to right, each in the colour of its first tool call; a mark below is a failed call."""
    size = -(-len(steps) // MAX_MARKS)
    marks = [_mark(steps[index : index + size]) for index in range(0, len(steps), size)]
    return Strip(f"{count(len(steps), 'step')} by kind of tool, failed calls marked below", marks)


def _mark(steps: Sequence[Step]) -> Mark:
    kinds = [_kind(step.response.tool_calls[0]) for step in steps if step.response.tool_calls]
    kind = max(KINDS, key=kinds.count)
    colour = "" if not kinds else "idle" if kind == "other" else f"tool-{kind}"
    return Mark(colour, any(result.is_error for result in results_in(steps)))


def _kind(call: ToolCall) -> Kind:
    try:
        arguments: object = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = None
    return kind_of(call.name, arguments)
