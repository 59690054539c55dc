"""Logs that are read line by line, as they grow.

A reader of JSON Lines may have a function `follow(path, damage)` that returns a `LineLog`. Its `read` uses the same
function, so that a log that was followed gives the same runs as one that is read when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from boolab.core.types import Run
from boolab.io.json_input import Damage

Again: TypeAlias = Callable[[], "LineLog | None"]
Follow: TypeAlias = Callable[[Path, Damage], "LineLog"]
"""Given a file, and what records the damage in it, a log without any lines yet."""


def _never() -> None:
    return None


@dataclass(frozen=True, slots=True)
class LineLog:
    """The lines of one log so far.

    Attributes:
        damage: What could not be read. Who reads the lines sets its `line` and its `truncated`.
        take: Called with the number and the value of each line, in order.
        runs: The runs by the lines so far. It may be called after any line, and changes nothing.
        again: Called when all lines so far are taken: a log that has to be given all of them once more, because the
            last ones changed what the first ones mean; None if it does not.
    """

    damage: Damage
    take: Callable[[int, Any], object]
    runs: Callable[[], list[Run]]
    again: Again = _never


def follow_of(reader: object) -> Follow | None:
    """The function `follow` of a reader; None if it cannot follow logs."""
    found: Follow | None = getattr(reader, "follow", None)
    return found


def read_lines(log: LineLog, lines: Iterable[tuple[int, Any]]) -> list[Run]:
    """The runs of a log that is complete."""
    for number, value in lines:
        log.take(number, value)
    return log.runs()
