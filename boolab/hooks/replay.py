"""Folds a journal through a `Monitor`: where the agent stands, and the verdict there."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any, Final, cast

from boolab.core.redacted import BEGINNING, RedactedArguments, redacted_result
from boolab.core.types import Scope, ToolCall, ToolResult
from boolab.errors import SettingError, near
from boolab.hooks.journal import Journal, records
from boolab.hooks.options import Options
from boolab.rules.limits import RULES
from boolab.rules.monitor import Action, Monitor, Verdict

IDENTITIES: Final = ("canonical", "ordered", "call+result", "tool")
"""What a hook can compare calls by: it never sees their text as it was sent."""


def monitor_for(options: Options) -> Monitor:
    """The monitor of these options, before the first step.

    Args:
        options: The limits, and what happens at them.

    Raises:
        SettingError: if there is no limit, or an option is not accepted.

    Example:
        >>> monitor_for(Options.parse(["--max-steps", "56", "--doom-loop", "5"])).rule.verdict({"steps": 56,
        ... "repeat_streak:canonical": 1}).rule
        'max_steps(56)'
    """
    if options.identity not in IDENTITIES:
        why = " (a hook gets arguments parsed, not as sent)" if options.identity == "raw" else ""
        raise SettingError(f"identity {options.identity!r} is not accepted{why}{near(options.identity, IDENTITIES)}")
    if options.exempt and "doom_loop" not in options.limits:
        msg = "--exempt names tools whose repeats are no loop: it needs --doom-loop"
        raise SettingError(msg)
    same = {"doom_loop": {"identity": options.identity, "exempt": options.exempt}}
    rules = [RULES[name](value, **same.get(name, {})) for name, value in options.limits.items()]
    if not rules:
        msg = "there is no limit: expected --max-steps, --tool-budget, --doom-loop, --error-streak or --max-time"
        raise SettingError(msg)
    rule = rules[0]
    for other in rules[1:]:
        rule |= other
    return Monitor(rule, cast("Action", options.action), scope=cast("Scope", options.scope))


class Boundary:
    """Where an agent stands.

    Args:
        monitor: The monitor that counts its steps.

    Attributes:
        verdict: The verdict.
        is_new: Whether the rule became true with the latest step that counted.
    """

    __slots__ = ("_asked", "_began_ms", "_blocked", "_failed", "_monitor", "_ran", "_seen", "_step", "is_new")

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._asked: set[object] = set()
        self._blocked: set[object] = set()
        self._ran: set[object] = set()
        self._failed: set[object] = set()
        self._seen: set[object] = set()
        self._step: list[object] = []
        self._began_ms: int | None = None
        self.is_new = False

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        return self._monitor.verdict

    def apply(self, record: dict[str, Any]) -> None:
        """Count what happened next.

        Args:
            record: A record of a journal.
        """
        kind, time_ms = record.get("e"), record.get("t")
        if self._began_ms is None and isinstance(time_ms, int):
            self._began_ms = time_ms
        if kind == "turn":
            self._monitor.open_turn()
            if self._monitor.scope == "turn":
                self._began_ms = time_ms
        elif kind == "compact":
            self._monitor.compacted()
        elif kind == "step":
            self._count(record.get("calls") or [], time_ms)
        elif kind in ("asked", "blocked", "ran", "failed"):
            getattr(self, f"_{kind}").add(record.get("id"))

    def _count(self, calls: list[list[Any]], time_ms: int | None) -> None:
        """Count a step, unless it was counted before or none of its calls was executed."""
        calls = [call for call in calls if len(call) == len(_FIELDS) and (call[0] is None or call[0] not in self._seen)]
        self._seen.update(call[0] for call in calls)
        results = [self._result(call) for call in calls]
        if not any(results):
            return
        had_stop = self.verdict.stop is not None
        elapsed = None if time_ms is None or self._began_ms is None else max(0, time_ms - self._began_ms)
        self._monitor.after([_call(*call) for call in calls], results, elapsed_ms=elapsed)
        self._step = [call[0] for call in calls]
        self.is_new = not had_stop and self.verdict.stop is not None

    def _result(self, call: list[Any]) -> ToolResult | None:
        """What a call gave; None if it was denied."""
        call_id, *_, number, begins, chars = call
        is_denied = call_id in self._asked or call_id in self._blocked
        if call_id in self._failed or not (is_denied or call_id in self._ran):
            failed = True  # it failed, or Claude Code refused it: no such tool, or arguments that do not fit
        elif call_id in self._ran:
            failed = False
        else:
            return None
        content = redacted_result(number, begins, chars, timed_out=False)
        return ToolResult(str(call_id), content, is_error=failed)

    def record(self, options: Options) -> dict[str, object]:
        """The verdict as a record of the journal.

        Args:
            options: The options that it is of.
        """
        action, stop, message = self.verdict
        found: dict[str, object] = {"e": "verdict", "of": str(options), "action": action}
        if stop is None:
            return found
        return found | {"rule": stop.rule, "reason": stop.reason, "step": stop.step, "message": message}

    def is_at(self, calls: list[list[object]]) -> bool:
        """Whether these calls are the latest step that counted."""
        return bool(calls) and [call[0] for call in calls] == self._step

    def was_denied(self, calls: list[list[object]]) -> bool:
        """Whether this hook has denied a call of these, and none was executed."""
        ids = {call[0] for call in calls}
        return not ids.isdisjoint(self._blocked) and ids.isdisjoint(self._ran | self._failed)

    def counted(self) -> dict[str, int | None]:
        """How many steps and calls were counted."""
        counters = self._monitor.counters
        return {"steps": counters["steps"], "tool_calls": counters["tool_calls"]}


def replay(journal: Journal, options: Options) -> Boundary:
    """Where an agent stands by its journal.

    Args:
        journal: Its journal.
        options: The limits, and what happens at them.

    Raises:
        SettingError: if the options do not make a rule.
    """
    boundary = Boundary(monitor_for(options))
    for record in records(journal.of_turn() if options.scope == "turn" else journal.data):
        boundary.apply(record)
    return boundary


_FIELDS: Final = ("id", "tool", "sorted", "ordered", "argument chars", "result", "beginning of the result", "chars")


def call_record(call: dict[str, Any]) -> list[object]:
    """What a journal keeps of a call: its id, its tool, and numbers in place of its arguments and its result.

    Args:
        call: The call, as an event has it.

    Returns:
        The values, in the order of `_FIELDS`.

    Example:
        >>> one = call_record({"tool_use_id": "1", "tool_name": "ls", "tool_input": {"a": 1, "b": 2}})
        >>> two = call_record({"tool_use_id": "2", "tool_name": "ls", "tool_input": {"b": 2, "a": 1}})
        >>> one[2] == two[2], one[3] == two[3]
        (True, False)
    """
    arguments, response = call.get("tool_input"), call.get("tool_response")
    ordered = _text(arguments)
    text = response if isinstance(response, str) else _text(response)
    numbers = (_number(_text(arguments, sort=True)), _number(ordered), len(ordered))
    return [
        call.get("tool_use_id"),
        str(call.get("tool_name", "")),
        *numbers,
        _number(text),
        _number(text[:BEGINNING]),
        len(text),
    ]


def _call(call_id: object, tool: str, canonical: int, ordered: int, chars: int, *_: object) -> ToolCall:
    return ToolCall(str(call_id), tool, str(RedactedArguments(canonical, ordered, ordered, chars)))


def _text(value: object, *, sort: bool = False) -> str:
    return json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=False)


def _number(text: str) -> int:
    """A number that stands for a text: of at most 15 digits, as placeholders have it."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).digest(), "big")
