"""Steering: what is said between the steps of a turn, by its policy and by the user, and what is watched in shadow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from boolab.compaction import Context
from boolab.conversation import from_user
from boolab.inbox import Inbox
from boolab.models.base import Note
from boolab.policy import Guard, LadderState, Policy
from boolab.stop import Progress, StopRule
from boolab.types import Message, Response, Step, ToolCall

REMINDER: Final = "<system-reminder>\nMeanwhile the user wrote:\n{}\nMind it, and go on.\n</system-reminder>"


class Steering:
    """What is to be said before the next step, and what has been said before.

    Args:
        policy: The policy.
        inbox: Where the user's messages wait.

    Attributes:
        says: What the policy says before the next step: the kind of event, and the text.
    """

    def __init__(self, policy: Policy, inbox: Inbox | None) -> None:
        self._policy = policy
        self._inbox = inbox
        self._ladders = LadderState()
        self.says: list[tuple[str, str]] = []

    def forget(self) -> None:
        """Begin a turn anew."""
        self._ladders = LadderState()

    def nudge(self, guards: Sequence[Guard], progress: Progress) -> None:
        """Have the guards say at the next boundary what they have to say at this one.

        Args:
            guards: The guards that speak at a boundary.
            progress: The counters there.
        """
        for guard in guards:
            self.reach(guard, progress[guard.watch.name])

    def reach(self, guard: Guard, count: int | None) -> bool:
        """Take in a guard's count; one that nudges speaks when the count gets to the rung.

        Returns:
            Whether it speaks.
        """
        speaks = self._ladders.speaks(guard, count)
        if speaks:
            self.says.append(("nudge", guard.nudge))
        return speaks

    def retrace(self, guards: Sequence[Guard], response: Response, progress: Progress, steps: Sequence[Step]) -> None:
        """Bring the guards at calls to where they stood once they had been asked about a response on record.

        Args:
            guards: The guards.
            response: The response.
            progress: The counters before it.
            steps: The steps before it.
        """
        if not guards:
            return
        calls = response.tool_calls[: 1 if self._policy.execution == "one_per_message" else None]
        for call, ahead in zip(calls, progress.ahead(response, calls), strict=True):
            for guard in guards:
                self.reach(guard, count_at(guard, call, ahead, progress, steps))

    def input_waits(self) -> bool:
        """Whether a message of the user waits that the policy lets in."""
        return self._policy.queued != "kept" and bool(self._inbox)

    def let_in(self, say: Callable[[str, Message], None], steps_completed: int) -> None:
        """Put before the next step what the policy says, and then the user's messages that wait.

        At a boundary at which a turn stops nothing is let in: nobody would read it, and the user's messages still wait.

        Args:
            say: Puts a message there.
            steps_completed: How many steps of the turn are complete.
        """
        for kind, text in self.says:
            say(kind, from_user(text))
        self.says.clear()
        if self._inbox is None or not self.input_waits():
            return
        late = self._policy.queued == "reminder" and steps_completed > 0
        for message in self._inbox.take():
            say("reminder" if late else "input", from_user(REMINDER.format(message.text)) if late else message)


class Shadow:
    """Rules that are watched and change nothing.

    Args:
        rules: The rules.
        told: The names of those that were noted before.

    Attributes:
        rules: The rules.
        true: The names of those that were true at the latest boundary.
    """

    def __init__(self, rules: Sequence[StopRule], told: Iterable[str] = ()) -> None:
        self.rules = rules
        self.true: tuple[str, ...] = ()
        watched = (leaf for rule in rules for leaf in rule.leaves())
        self._thresholds = tuple((place, leaf.counter, leaf.threshold) for place, leaf in enumerate(watched))
        self._state: list[int] = []
        self._told = set(told)

    def look(self, progress: Progress, note: Note) -> None:
        """See which of the rules are true at a boundary; the first time of each is noted.

        Args:
            progress: The counters there.
            note: Puts an event on record.
        """
        # A rule hangs on nothing but which of its thresholds are reached or unknown (~): mostly the same as before.
        state = [
            ~place if value is None else place
            for place, counter, threshold in self._thresholds
            if (value := progress[counter]) is None or value >= threshold
        ]
        if state == self._state:
            return
        self._state = state
        true = [rule for rule in self.rules if rule(progress)]
        self.true = tuple(map(str, true))
        for rule in true:
            label = str(rule)
            if label not in self._told:
                self._told.add(label)
                leaf = rule.decisive(progress)
                note("shadow", rule=label, reason=leaf.reason, value=progress[leaf.counter])


def count_at(
    guard: Guard, call: ToolCall, ahead: Mapping[str, int | None], progress: Progress, steps: Sequence[Step]
) -> int | None:
    """A guard's count at a call: with the call in it or, where that hangs on what the call gives, before it.

    Args:
        guard: The guard.
        call: The call.
        ahead: The counts as they would be after it.
        progress: The counters before its response.
        steps: The steps before it.
    """
    name = guard.watch.name
    if ahead.get(name) is not None or not steps:
        return ahead.get(name)
    last = next((c.name for c in reversed(steps[-1].response.tool_calls)), None)
    return progress[name] if call.name == last else None


def last_words(
    policy: Policy, messages: Sequence[Message], *, completed: int, cap: int | None, last: bool
) -> Sequence[Message]:
    """What is sent, with what the policy adds to a request: how many turns are left, and that the step is the last.

    Args:
        policy: The policy.
        messages: What would be sent.
        completed: How many steps of the turn are complete.
        cap: The cap on steps.
        last: Whether the step is the last.
    """
    tail = []
    if policy.reminder == "turns_left" and cap is not None:
        left = cap - completed
        tail.append(from_user(f"{left} of {cap} turns {'is' if left == 1 else 'are'} left, this one included."))
    if last:
        tail.append(from_user(policy.last_prompt))
    return Context((), messages, 0, tail) if tail else messages
