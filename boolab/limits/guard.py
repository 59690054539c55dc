"""`Guard`: a detector, and what happens as its count rises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from boolab.core.types import StopReason
from boolab.errors import SettingError
from boolab.io.checks import check_literals
from boolab.limits.detector import Detector, check_detector
from boolab.limits.detectors.wrappers import PerMessage, Rearmed
from boolab.limits.stop import StopRule, Threshold

Action: TypeAlias = Literal["shadow", "nudge", "ask", "block", "stop"]
Check: TypeAlias = Literal["boundary", "response", "call"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A detector, and what happens as its count rises.

    Attributes:
        detector: What watches; see `boolab.detectors`.
        ladder: Thresholds, ascending, each with what happens once the count has reached it. `shadow`: it is written
            down. `nudge`: the model gets a message, once each time the count gets there. `ask`: the user is asked about
            each call, or at the boundary whether to continue; without an answer it is denied. `block`: the call is not
            executed and gets an error result. `stop`.
        check: `boundary`: at the top of the loop, after the calls were executed. `response`: before they are; a stop
            drops them, and there is no other action but `shadow`. `call`: before each of them is.
        scope: Where the detector starts anew: with each `message` of the model, each `turn`, or never in a `session`.
        rearm: `break`: the count falls when the pattern breaks, and by nothing else. `fire`: it starts anew once the
            ladder's first level has been reached.
        reason: The stop reason that it gives; None for the detector's own.
        nudge: The message to the model.
        nudge_executes: Whether the call that a nudge is about is executed all the same.
        deny: What a denial does to an `ask`: it ends the turn (`stop`), or the call is not executed (`block`).
        block_asks: Whether the user is asked at each block if the turn may continue without the call.

    Raises:
        SettingError: if the values contradict each other.

    Example:
        >>> import boolab as bl
        >>> guard = bl.Guard(detector=bl.detectors.RepeatStreak("ordered"), ladder=((3, "nudge"), (5, "stop")))
        >>> guard.level(4), guard.why
        ((3, 'nudge'), 'doom_loop')
    """

    detector: Detector
    ladder: tuple[tuple[int, Action], ...]
    check: Check = "boundary"
    scope: Literal["message", "turn", "session"] = "turn"
    rearm: Literal["break", "fire"] = "break"
    reason: StopReason | None = None
    nudge: str = "You are repeating yourself without progress. Try another way, or say that you are stuck."
    nudge_executes: bool = True
    deny: Literal["stop", "block"] = "stop"
    block_asks: bool = False

    def __post_init__(self) -> None:
        check_literals(self, "guard")
        check_detector(self.detector)
        if self.reason is not None and self.reason not in get_args(StopReason):
            msg = f"guard: reason={self.reason!r}: expected one of {', '.join(get_args(StopReason))}"
            raise SettingError(msg)
        thresholds = [threshold for threshold, _ in self.ladder]
        wrong = [action for _, action in self.ladder if action not in get_args(Action)]
        if not self.ladder or wrong or thresholds != sorted(set(thresholds)) or thresholds[0] < 1:
            msg = f"guard: ladder={self.ladder!r}: expected pairs such as ((3, 'nudge'), (5, 'stop')), ascending"
            raise SettingError(msg)
        if self.check != "call" and any(action == "block" for _, action in self.ladder):
            msg = "guard: block needs check='call': there is nothing to hold back afterwards"
            raise SettingError(msg)
        if self.check == "response" and any(action not in ("shadow", "stop") for _, action in self.ladder):
            msg = f"guard: ladder={self.ladder!r}: with check='response' a guard can only stop, or be in shadow"
            raise SettingError(msg)

    @property
    def watch(self) -> Detector:
        """The detector with its scope and what re-arms it: one fold."""
        detector = PerMessage(self.detector) if self.scope == "message" else self.detector
        return Rearmed(detector, self.ladder[0][0]) if self.rearm == "fire" else detector

    @property
    def why(self) -> StopReason:
        """The stop reason that it gives."""
        return self.reason or self.detector.reason

    @property
    def rule(self) -> StopRule | None:
        """The stop rule that it is at a boundary, if need be after asking the user; None if it never stops there."""
        if self.check != "boundary":
            return None
        threshold = next((threshold for threshold, action in self.ladder if action in ("ask", "stop")), None)
        return None if threshold is None else self.at(threshold)

    @property
    def intervenes(self) -> bool:
        """Whether it can send the model a message."""
        return any(action == "nudge" for _, action in self.ladder)

    @property
    def asks_first(self) -> bool:
        """Whether the user is asked before it stops anything."""
        return next((action for _, action in self.ladder if action in ("ask", "stop")), None) == "ask"

    def at(self, threshold: int) -> Threshold:
        """The stop rule of one level.

        Args:
            threshold: The count at which the level begins.

        Returns:
            The rule, with the guard's own reason and name.
        """
        watch = self.watch
        return Threshold(self.why, watch.name, threshold, f"{watch.name} >= {threshold}", "ignore", watch)

    def level(self, count: int | None) -> tuple[int, Action] | None:
        """The highest level that a count has reached; None for none, and for an unknown count.

        Args:
            count: The detector's count; None where it is not known.

        Returns:
            The level's threshold and what happens there.

        Example:
            >>> import boolab as bl
            >>> bl.Guard(detector=bl.detectors.RepeatStreak(), ladder=((3, "nudge"), (5, "stop"))).level(4)
            (3, 'nudge')
        """
        highest = None
        for level in self.ladder:
            if count is None or count < level[0]:
                break
            highest = level
        return highest

    def __str__(self) -> str:
        steps = ", ".join(f"{action} at {threshold}" for threshold, action in self.ladder)
        check = "" if self.check == "boundary" else f", at the {self.check}"
        scope = "" if self.scope == "turn" else f", per {self.scope}"
        rearm = ", starts anew when it fires" if self.rearm == "fire" else ""
        return f"{self.detector.name}: {steps}{check}{scope}{rearm}"
