"""Caps that the loop lets grow: the caps that a run has in turn. `first_crossing` has where they stop recordings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from boolab.limits.stop import StopRule


@dataclass(frozen=True, slots=True)
class Extension:
    """How a cap grows: see `boolab.harnesses.groups.Continues`.

    Attributes:
        times: How often; None for any number of times.
        adds: By how many steps; None: by as many as it had at first.
        message: Whether the model gets a message.
        unless: It grows only where this rule is false; None: everywhere.
        ceiling: No cap is above it.
    """

    times: int | None
    adds: int | None
    message: bool
    unless: StopRule | None
    ceiling: int | None

    def levels(self, cap: int, top: int) -> list[int]:
        """The caps that a run may have in turn, up to the first above `top`, the largest count on record.

        Example:
            >>> Extension(times=2, adds=3, message=False, unless=None, ceiling=None).levels(4, 100)
            [4, 7, 10]
        """
        return list(self._levels(cap, top))

    def _levels(self, cap: int, top: int) -> Iterator[int]:
        adds = cap if self.adds is None else self.adds
        for time in count():
            level = cap + time * adds
            yield level if self.ceiling is None else min(level, self.ceiling)
            if time == self.times or level > top or not adds or (self.ceiling is not None and level >= self.ceiling):
                return
