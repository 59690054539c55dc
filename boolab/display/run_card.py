"""A run as a card: its outcome, its task, a strip of its steps by kind of tool, and what it used."""

from __future__ import annotations

import json
from typing import Final

from boolab.core.text import count, shorten
from boolab.core.types import Run, Step, ToolCall, stop_place
from boolab.display.card import card, escaped, facts
from boolab.display.numbers import duration, money, short_number
from boolab.display.tool_kinds import KINDS, Kind, kind_of

MAX_MARKS: Final = 160
"""The strip has at most so many marks; with more steps, each mark is several of them."""
_MARK_PX, _GAP_PX, _TALL_PX, _ERROR_PX = 5, 1, 14, 4
_TASK_CHARS: Final = 160
_MICRO: Final = 1_000_000


def run_card(run: Run) -> str:
    """The display of a run in a notebook.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Look", model=bl.ScriptedModel(["Done."]))
        >>> "1 step" in run_card(run)
        True
    """
    names = dict.fromkeys((run.agent, run.model, run.policy))
    task = f"<p>{escaped(shorten(run.task, _TASK_CHARS))}</p>" if run.task else ""
    ended = f"{run.stop.reason} {stop_place(run)}"
    return card(
        f"<p>{_outcome(run)} <b>{escaped(run.run_id)}</b></p>",
        task,
        strip(run),
        facts([*names, *_amounts(run), ended]),
        then="bl.Replay(run) shows each step; print(run) has the transcript",
    )


def _outcome(run: Run) -> str:
    if run.success is None:
        return '<span class="quiet">not labelled</span>'
    return '<span class="yes">✓ success</span>' if run.success else '<span class="no">✕ failure</span>'


def _amounts(run: Run) -> list[str]:
    results = [result for step in run.steps for result in step.results if result is not None]
    errors = sum(result.is_error is True for result in results)
    used = [step.response.usage for step in run.steps] + list(run.outside)
    tokens = _sum([None if None in (one.input_tokens, one.output_tokens) else
                   (one.input_tokens or 0) + (one.output_tokens or 0) for one in used])  # fmt: skip
    cost = _sum([one.cost for one in used])
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
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def strip(run: Run) -> str:
    """The steps from left to right, each in the colour of its first tool call; a mark below is a failed call."""
    each = -(-len(run.steps) // MAX_MARKS)
    groups = [run.steps[at : at + each] for at in range(0, len(run.steps), max(1, each))]
    if not groups:
        return ""
    wide = len(groups) * (_MARK_PX + _GAP_PX)
    marks = "".join(_mark(group, at * (_MARK_PX + _GAP_PX)) for at, group in enumerate(groups))
    name = f"{count(len(run.steps), 'step')} by kind of tool, failed calls marked below"
    size = f'width="{wide}" height="{_TALL_PX + _GAP_PX + _ERROR_PX}"'
    return f'<svg role="img" aria-label="{escaped(name)}" {size}>{marks}</svg>'


def _mark(steps: tuple[Step, ...], x: int) -> str:
    kinds: list[Kind] = [_kind(step.response.tool_calls[0]) for step in steps if step.response.tool_calls]
    fill = "none" if not kinds else f"var(--{_colour(max(KINDS, key=kinds.count))})"
    stroke = ' stroke="var(--idle)"' if not kinds else ""
    failed = any(result is not None and result.is_error for step in steps for result in step.results)
    below = (
        f'<rect x="{x}" y="{_TALL_PX + _GAP_PX}" width="{_MARK_PX}" height="{_ERROR_PX}" fill="var(--wrong)"/>'
        if failed
        else ""
    )
    return f'<rect x="{x}" y="0.5" width="{_MARK_PX}" height="{_TALL_PX - 1}" rx="1" fill="{fill}"{stroke}/>{below}'


def _kind(call: ToolCall) -> Kind:
    try:
        arguments: object = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = None
    return kind_of(call.name, arguments)


def _colour(kind: Kind) -> str:
    return "idle" if kind == "other" else f"tool-{kind}"
