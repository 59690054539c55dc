"""Rows and changes of a fleet, as values, as text and as plain data.

Texts of logs are untrusted input, and cleaned here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from boolab.core.text import clip, count, shorten
from boolab.display.numbers import duration, money, short_number
from boolab.display.text import align_columns
from boolab.limits.table import LIMITS
from boolab.live.follow.rule_state import Fired

TASK_CHARS: Final = 40
_ID_CHARS: Final = 8
_FACT_CHARS: Final = 4096
"""How long a text is in an environment variable at most: the system allows 128 KiB for one, and 2 MiB for all."""
_INDENTS: Final = 8
"""How many agents above one are shown by indenting it; a chain of subagents may have any length."""
_TWO: Final = 2
_REASONS: Final = {limit.reason: limit.short_label for limit in LIMITS.values()}

Kind: TypeAlias = Literal["begins", "step", "fires", "withdrawn", "gone"]
Values = tuple[Callable[[int], str], str]
_PLAIN: Final[Values] = (lambda value: f"{value:,}", "")
_UNITS: Final[Mapping[str, Values]] = {
    "steps": (_PLAIN[0], "steps"),
    "tool_calls": (_PLAIN[0], "calls"),
    "tokens": (short_number, "tokens"),
    "input_tokens": (short_number, "input tokens"),
    "output_tokens": (short_number, "output tokens"),
    "cost": (lambda value: money(value / 1e6), ""),
    "elapsed": (duration, ""),
    "error_streak": (_PLAIN[0], "errors in a row"),
}
"""By counter: how its values are written, and what they count."""


class RowLimit(NamedTuple):
    """How far an agent is from one threshold of the rule; `value` is None where its log does not record it."""

    counter: str
    reason: str
    value: int | None
    threshold: int

    @property
    def share(self) -> float:
        """The share of the threshold that is reached; 0 where it is not known, and for a streak of one call."""
        if self.value is not None and self.counter.startswith("repeat_streak"):
            return max(self.value - 1, 0) / (self.threshold - 1)
        return 0.0 if self.value is None else 1.0 if not self.threshold else self.value / self.threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRow:
    """One agent, as its log stands."""

    run_id: str  # the run
    agent: str  # the agent's name
    source: str  # the format of the log
    path: str  # the log
    parent_run_id: str | None  # the run that started it, if it is a subagent
    task: str  # the first message of the user
    model: str
    turn: int  # the number of the turn, from 1
    steps: int  # how many responses of the model the run has
    tool_calls: int  # how many calls have a result
    tokens: int | None  # input and output; None where the log lacks them
    cost: int | None  # Micro-dollars; None where they are not known
    repeat_streak: int | None  # how many equal calls in a row there were last
    error_streak: int | None  # how many failed calls in a row there were last; None where the log lacks errors
    limits: tuple[RowLimit, ...]  # the thresholds of the rule, the one that is nearest first
    fired: Fired | None  # where the rule was true in this turn (or run), if it was
    undecided: tuple[str, ...]  # counters that the rule needs and the log lacks
    finished: bool  # whether the last response makes no calls: the agent waits for its user
    changed: float  # when the log was changed for the last time, in seconds since 1970
    depth: int = 0  # how many agents are above it


class AgentChange(NamedTuple):
    """What happened to one agent."""

    # `begins`: its log was opened. `step`: it did something. `fires`: the rule is true now. `withdrawn`: the log
    # changed a step at which the rule was true, and now it is not. `gone`: its log was deleted
    kind: Kind
    row: AgentRow  # the agent
    fired: Fired | None = None  # where the rule is true, or was


def name_of(row: AgentRow) -> str:
    """An agent and the beginning of its run's id, in one line; of a subagent the end, because ids begin alike."""
    run_id = row.run_id.rpartition("/")[2] if row.parent_run_id is not None else row.run_id
    return f"{shorten(row.agent or row.source, 24)} {clip(shorten(run_id, 60), _ID_CHARS + 1)}".strip()


def reason_of(reason: str) -> str:
    """A stop reason in words."""
    return _REASONS.get(reason, reason.replace("_", " "))


def limit_text(limit: RowLimit) -> str:
    """How far an agent is from a limit."""
    if limit.counter.startswith("repeat_streak"):
        return f"streak {'unknown' if limit.value is None else limit.value} of {limit.threshold}"
    write, unit = _UNITS.get(limit.counter, (_PLAIN[0], reason_of(limit.reason)))
    unit = unit.removesuffix("s") if limit.threshold == 1 else unit
    value = "unknown" if limit.value is None else write(limit.value)
    return f"{value} of {write(limit.threshold)} {unit}".rstrip()


def next_limits(row: AgentRow, maximum: int = _TWO) -> str:
    """The limits that an agent is nearest to."""
    return "; ".join(limit_text(limit) for limit in row.limits[:maximum])


def state_of(row: AgentRow) -> str:
    """What is worth knowing of an agent besides its numbers."""
    if row.fired is not None:
        n_steps = row.steps - row.fired.number
        steps_ago = f", {count(n_steps, 'step')} ago" if n_steps > 0 else ""
        return f"would stop: {reason_of(row.fired.stop.reason)}{steps_ago}"
    return "waits for its user" if row.finished else ""


def line_of(row: AgentRow) -> str:
    """An agent in one line, for a pipe."""
    parts = [next_limits(row)] if row.limits else []
    if not any(limit.counter == "steps" for limit in row.limits[:_TWO]):
        parts.append(count(row.steps, "step"))
    parts += [count(row.tool_calls, "call")]
    parts += [] if row.tokens is None else [f"{short_number(row.tokens)} tokens"]
    parts += [] if row.cost is None else [_cost(row)]
    if row.undecided:
        parts.append(f"its log lacks {', '.join(row.undecided)}")
    state = state_of(row)
    parts += [state] if state else []
    return f"{_indent(row)}{name_of(row)}: {'; '.join(parts)}"


def alert_line(change: AgentChange) -> str:
    """A rule that became true, or that is not true after all, in one line."""
    row, fired = change.row, change.fired
    if fired is None:
        return line_of(row)
    stop = fired.stop
    step_text = f"after step {stop.step} of turn {fired.turn}"
    if change.kind == "withdrawn":
        return f"{name_of(row)}: not {reason_of(stop.reason)} {step_text}: the log has more of that step now"
    other_reasons = f", and {', '.join(map(reason_of, stop.also_fired))}" if stop.also_fired else ""
    return f"{name_of(row)}: {reason_of(stop.reason)} {step_text}: {shorten(stop.rule or '', 80)}{other_reasons}"


HEAD: Final = ("agent", "next limit", "state", "turn", "steps", "calls", "tokens", "cost", "streak", "task")
"""A narrow terminal has no room for the last of them, so the limit and the state stand in front."""
_ALWAYS: Final = 3
"""So many columns are shown in any width."""


def turn_note(rows: Sequence[AgentRow]) -> str:
    """What the limits count, where that is less than the other columns; else ""."""
    pairs = chain.from_iterable(zip(row.limits, repeat(row.steps)) for row in rows)
    of_turn = any(
        limit.counter == "steps" and limit.value is not None and limit.value < steps for limit, steps in pairs
    )
    return "A limit counts in the agent's current turn; steps, calls, tokens and cost are of the whole run." * of_turn


def table(rows: Sequence[AgentRow], width: int | None = None) -> list[str]:
    """The agents as an aligned table, its head first, without the last columns that do not fit the width."""
    body = [
        [
            f"{_indent(row)}{name_of(row)}",
            next_limits(row, 1),
            state_of(row),
            f"{row.turn:,}",
            f"{row.steps:,}",
            f"{row.tool_calls:,}",
            _format_known(row.tokens, short_number),
            _cost(row),
            _format_known(row.repeat_streak, str),
            shorten(row.task, TASK_CHARS),
        ]
        for row in rows
    ]
    cells = [[*HEAD], *body]
    for columns in range(len(HEAD), _ALWAYS, -1):
        lines = align_columns([row[:columns] for row in cells], left={0, 1, 2, 9})
        if width is None or max(map(len, lines)) <= width:
            return lines
    return align_columns([row[:_ALWAYS] for row in cells], left={0, 1, 2})


def data_of(change: AgentChange) -> dict[str, Any]:
    """A change as plain data, for one line of JSON."""
    return {"kind": change.kind, **row_data(change.row), **fired_data(change)}


def row_data(row: AgentRow) -> dict[str, Any]:
    """A row as plain data. Money is in dollars."""
    return {
        "run_id": row.run_id,
        "agent": row.agent,
        "source": row.source,
        "path": row.path,
        "parent_run_id": row.parent_run_id,
        "task": row.task,
        "model": row.model,
        "turn": row.turn,
        "steps": row.steps,
        "tool_calls": row.tool_calls,
        "tokens": row.tokens,
        "cost_usd": None if row.cost is None else row.cost / 1e6,
        "repeat_streak": row.repeat_streak,
        "error_streak": row.error_streak,
        "limits": [limit._asdict() for limit in row.limits],
        "undecided": [*row.undecided],
        "finished": row.finished,
        "changed": row.changed,
    }


def fired_data(change: AgentChange) -> dict[str, Any]:
    """Where the rule is true, as plain data; empty where it is not."""
    fired = change.fired or change.row.fired
    if fired is None:
        return {}
    stop = fired.stop
    return {
        "fired": {
            "turn": fired.turn,
            "stop_step": stop.step,
            "run_step": fired.number,
            "stop_reason": stop.reason,
            "rule": stop.rule,
            "threshold": stop.threshold,
            "value": stop.value,
            "also_fired": [*stop.also_fired],
        }
    }


def environment_of(change: AgentChange) -> dict[str, str]:
    """The facts of a change as environment variables for a command: numbers, names and paths, no text of the log."""
    row, fired = change.row, change.fired
    facts: dict[str, object] = {
        "RUN_ID": row.run_id,
        "AGENT": row.agent,
        "SOURCE": row.source,
        "PATH": row.path,
        "PARENT_RUN_ID": row.parent_run_id,
        "TURN": row.turn,
        "STEPS": row.steps,
        "TOOL_CALLS": row.tool_calls,
        "TOKENS": row.tokens,
        "COST_USD": None if row.cost is None else f"{row.cost / 1e6:.6f}",
    }
    if fired is not None:
        stop = fired.stop
        facts |= {
            "TURN": fired.turn,
            "STOP_REASON": stop.reason,
            "STOP_STEP": stop.step,
            "RULE": stop.rule,
            "VALUE": stop.value,
            "THRESHOLD": stop.threshold,
        }
    return {
        f"BOOLAB_{name}": ""
        if value is None
        else clip(str(value).replace("\0", ""), _FACT_CHARS).encode("utf-8", "replace").decode()
        for name, value in facts.items()
    }


def _indent(row: AgentRow) -> str:
    return "  " * min(row.depth, _INDENTS)


def _format_known(value: int | None, write: Callable[[int], str]) -> str:
    return "?" if value is None else write(value)


def _cost(row: AgentRow) -> str:
    return "?" if row.cost is None else money(row.cost / 1e6)
