"""What a policy adds to requests, and the rules that are watched and stop nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from boolab.core.context import Context
from boolab.core.messages import Message
from boolab.harnesses.policy import Policy
from boolab.limits.ladder import Progress
from boolab.limits.stop import StopRule
from boolab.runtime.engine.record import from_user
from boolab.runtime.models.base import NoteEvent

REMINDER: Final = (
    "<system-reminder>\nMeanwhile the user wrote:\n{}\nTake it into account, and continue.\n</system-reminder>"
)


class ShadowWatch:
    """Rules that are watched and stop nothing."""

    __slots__ = ("_state", "_thresholds", "noted", "rules", "true")

    def __init__(self, rules: Sequence[StopRule]) -> None:
        self.rules = rules
        self.true: tuple[str, ...] = ()  # the names of those that were true at the latest boundary
        leaves = chain.from_iterable(rule.leaves() for rule in rules)
        self._thresholds = tuple((index, leaf.counter, leaf.threshold) for index, leaf in enumerate(leaves))
        self._state: list[int] = []
        self.noted: set[str] = set()  # the names of those that are on record as true

    def evaluate(self, counters: Progress, note: NoteEvent) -> None:
        """Evaluate the rules at a boundary. The first time that one is true is noted."""
        # A rule depends on nothing but which of its thresholds are reached or unknown (~): mostly the same as before.
        state = [
            ~index if value is None else index
            for index, counter, threshold in self._thresholds
            if (value := counters[counter]) is None or value >= threshold
        ]
        if state == self._state:
            return
        self._state = state
        true = [rule for rule in self.rules if rule(counters)]
        self.true = tuple(map(str, true))
        for rule in true:
            label = str(rule)
            if label not in self.noted:
                self.noted.add(label)
                leaf = rule.decisive(counters)
                note("shadow", rule=label, reason=leaf.reason, value=counters[leaf.counter])


def last_words(
    policy: Policy, messages: Sequence[Message], *, completed: int, cap: int | None, last: bool
) -> Sequence[Message]:
    """The messages of a request, with what the policy adds: how many turns are left, and that the step is the last."""
    tail = []
    if policy.last_step.reminder == "turns_left" and cap is not None:
        turns = cap - completed
        tail.append(from_user(f"{turns} of {cap} turns {'is' if turns == 1 else 'are'} left, this one included."))
    if last:
        tail.append(from_user(policy.last_step.prompt))
    return Context((), messages, 0, tail) if tail else messages
