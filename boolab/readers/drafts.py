"""From values to steps: what all readers share.

A `Draft` is a step in the making. Its lines may come in any order, and so may the results of its calls: `Pairing`
finds the call that a result answers, by id *and* position, because ids repeat within a run in real logs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from boolab.readers.lines import Damage, parse
from boolab.types import UNKNOWN_USAGE, Response, Step, Stop, StopReason, ToolCall, ToolResult, Usage

_WITHHELD: Final = re.compile(r"\s*[<\[(*]+\s*redacted\s*[>\])*]+\s*", re.IGNORECASE)


class Draft:
    """One model response in the making, with the results of its calls. Times are milliseconds on any one clock."""

    __slots__ = (
        "calls",
        "error",
        "finish_reason",
        "model",
        "reasoning",
        "results",
        "said",
        "start",
        "text",
        "turn",
        "until",
        "usage",
    )

    def __init__(self, turn: int = 1, start: int | None = None) -> None:
        self.turn = turn
        self.start = start
        self.said: int | None = None
        """When its last own line was written."""
        self.until: int | None = None
        """When the last of its lines and results was written."""
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.calls: list[ToolCall] = []
        self.results: list[ToolResult | None] = []
        self.finish_reason: str | None = None
        self.usage: Usage = UNKNOWN_USAGE
        self.error = ""
        self.model = ""
        """Which model answers, if it is known."""

    @property
    def complete(self) -> bool:
        """Whether it asked for tools, and all of them gave a result."""
        return bool(self.calls) and None not in self.results

    def lasts_until(self, time: int | None) -> None:
        """Move its end, if that is later."""
        if time is not None:
            self.until = time if self.until is None else max(self.until, time)

    def step(self, index: int, origin: int | None, model: str = "") -> Step:
        """The step of a run of this model, with times from `origin` on."""
        start = None if self.start is None or origin is None else max(0, self.start - origin)
        response = Response(
            "\n".join(self.text),
            tuple(self.calls),
            self.finish_reason,
            self.usage,
            "\n".join(self.reasoning),
            model="" if self.model == model else self.model,
        )
        return Step(
            index,
            self.turn,
            start,
            _since(self.start, self.until),
            _since(self.start, self.said),
            response,
            tuple(self.results),
            self.error,
        )


class Pairing:
    """The calls of a run that have no result yet.

    Args:
        damage: Where results are noted that answer no call.
    """

    def __init__(self, damage: Damage | None = None) -> None:
        self._damage = damage
        self._open: dict[str, dict[Draft, list[int]]] = {}

    def ask(self, draft: Draft, call: ToolCall) -> None:
        """Add a call to a draft."""
        self._open.setdefault(call.id, {}).setdefault(draft, []).append(len(draft.calls))
        draft.calls.append(call)
        draft.results.append(None)

    def answer(self, call_id: str) -> tuple[Draft, int] | None:
        """Which call a result with this id answers: in the latest step that has an open one, its first.

        Returns:
            The step and the place of the call in it; None (and noted as damage) if it answers none.
        """
        waiting = self._open.get(call_id)
        if not waiting:
            if self._damage is not None:
                self._damage.answers_no_call()
            return None
        latest, places = waiting.popitem()
        place = places.pop(0)
        if places:
            waiting[latest] = places
        elif not waiting:
            del self._open[call_id]
        return latest, place


def unreadable(arguments: str) -> bool:
    """Whether a call's raw arguments are not a JSON object."""
    try:
        return not isinstance(parse(arguments.encode("utf-8", "surrogatepass")), dict)
    except ValueError:
        return True


def withheld(arguments: object) -> bool:
    """Whether a log keeps a call's arguments back: all of them stand as `<redacted>`, `[REDACTED]` or the like.

    Example:
        >>> withheld("<redacted>"), withheld({"path": "[REDACTED]"}), withheld({"path": "a", "text": "<redacted>"})
        (True, True, False)
    """
    if isinstance(arguments, dict):
        return bool(arguments) and all(map(withheld, arguments.values()))
    return isinstance(arguments, str) and _WITHHELD.fullmatch(arguments) is not None


def stop_at(reason: StopReason, drafts: Sequence[Draft]) -> Stop:
    """A stop at the boundary that the last turn had reached: how many of its tool steps were complete.

    A step that others of its turn follow is complete, whatever became of its calls.
    """
    if not drafts:
        return Stop(reason, 0)
    last = drafts[-1]
    before = sum(draft.turn == last.turn for draft in drafts) - 1
    return Stop(reason, before + last.complete)


def _since(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else max(0, end - start)
