"""Where an agent stands by its journal, and the verdict of the options there."""

from __future__ import annotations

from typing import Final, cast

from boolab.core.types import Scope, Stop
from boolab.errors import SettingError, near
from boolab.limits.call_identity import exempting
from boolab.limits.catalog import RULES
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.monitor import CONTINUE, Action, Monitor, Verdict, verdict_at
from boolab.limits.stop import StopRule
from boolab.live.hooks.counts import IDENTITIES, Counts, Place, State
from boolab.live.hooks.journal import JournalError, records
from boolab.live.hooks.options import Options

_TURN: Final = b'{"e":"turn"'


def monitor_for(options: Options) -> Monitor:
    """The monitor of these options, before the first step.

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
    if zero := next((name for name, value in options.limits.items() if not value > 0), None):
        raise SettingError(f"--{zero.replace('_', '-')} {options.limits[zero]:g}: expected a number above 0")
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
    """Where an agent stands, under the options of a hook."""

    __slots__ = ("_counts", "_options", "_rule", "_state")

    def __init__(self, state: State, options: Options) -> None:
        monitor = monitor_for(options)
        self._rule = cast("StopRule", monitor.rule)
        self._state = state
        self._counts: Counts = state.run if monitor.scope == "run" else state.turn
        self._options = options

    @property
    def verdict(self) -> Verdict:
        """The verdict. A rule that depends on a counter that is not known is not true."""
        stop = self._stop(self._counts.place)
        if stop is None:
            return CONTINUE
        return verdict_at(stop, cast("Action", self._options.action), was_true=not self.is_new)

    @property
    def is_new(self) -> bool:
        """Whether the rule became true with the latest step that counted."""
        before = self._counts.before
        return self._stop(self._counts.place) is not None and (before is None or self._stop(before) is None)

    def record(self, on: str) -> dict[str, object]:
        """The verdict as a record of the journal."""
        action, stop, message = self.verdict
        record: dict[str, object] = {"e": "verdict", "on": on, "of": str(self._options), "action": action}
        about = {} if stop is None else {"rule": stop.rule, "reason": stop.reason, "step": stop.step}
        return record | about | {"message": message}

    def is_at(self, step: list[object] | None) -> bool:
        """Whether the latest step that counted is of the calls with these ids."""
        return bool(step) and step == self._state.step

    def counted(self) -> dict[str, int | None]:
        """How many steps and calls were counted."""
        counters = self._counts.place.counters
        return {"steps": counters["steps"], "tool_calls": counters["tool_calls"]}

    def _stop(self, place: Place) -> Stop | None:
        counters = dict(place.counters)
        exempt = place.last is not None and place.last[0] in self._options.exempt
        same = counters[RepeatStreak(self._options.identity).name]
        # Only calls of one tool are the same, so an exempt tool has a streak of its own, and it is 1.
        counters[_repeats(self._options).name] = 1 if exempt else same
        return self._rule.verdict(counters) if self._rule(counters) else None


def _repeats(options: Options) -> RepeatStreak:
    return RepeatStreak.of(exempting(options.identity, options.exempt))


def state_after(data: bytes) -> State:
    """What was counted by the lines of a journal.

    `data`: the lines, from the first on.
    """
    header, _, lines = data.partition(b"\n")
    first = records(header)
    if not first:
        msg = "the first line is damaged"
        raise JournalError(msg)
    try:
        state = State.of(first[0]["state"]) if "state" in first[0] else State()
    except ValueError as error:
        raise JournalError(str(error)) from error
    for line in filter(None, lines.split(b"\n")):
        read = records(line)
        state.apply(read[0] if read else {"e": "turn" if line.startswith(_TURN) else "lost"})
    return state
