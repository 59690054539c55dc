"""What the hook counts: a fold over the records of a journal.

Its state is the same for all options of a hook: it holds the counters of the turn and of the run, with the repeats by
each identity. So hooks with different limits can share a journal, and limits that change in a session hold at once,
with what was counted before. The state is kept in the first line of the journal, as JSON; it is as large at step 60,000
as at step 1,000.

What a call counts as
---------------------
By what is on record of it before its step, the first that holds:

- a result or an error: as that;
- a denial by this hook: nowhere, because the limit has stopped the agent before;
- a rejection by the words of the result: nowhere as a call. Its response is a step, as it is in the log;
- the event before the call alone: it was denied, or what came after it was lost. It counts nowhere, and streaks that it
  may have ended do not continue. So does a call without an id;
- nothing, and by the text of the result Claude Code refused the call: an error;
- nothing: a call whose status is not known (`is_error` None), so that the streak of errors is not known until a call is
  known to have succeeded.

So what was lost can delay a stop, and never makes one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

from boolab.core.types import Response, Scope, Stop, ToolCall, ToolResult
from boolab.errors import SettingError, near
from boolab.limits.call_identity import ObservedCall, exclude_tools
from boolab.limits.catalog import RULES
from boolab.limits.detector import largest_count
from boolab.limits.detectors.context import CompactionThrash
from boolab.limits.detectors.streaks import ErrorStreak, RepeatStreak
from boolab.limits.monitor import CONTINUE, Action, Monitor, Verdict, verdict_at
from boolab.limits.stop import StopRule
from boolab.live.hooks.journal import JournalError, records
from boolab.live.hooks.options import Options

IDENTITIES: Final = ("canonical", "ordered", "call+result", "tool")
"""What a hook can compare calls by: it never sees their text as it was sent."""
MAX_CALL_IDS: Final = 1000
"""How many of the newest calls are known by their ids: an event about one of them that comes again counts once."""

_REPEATS: Final = {identity: RepeatStreak(identity) for identity in IDENTITIES}
_ERRORS: Final = ErrorStreak()
_COMPACTIONS: Final = CompactionThrash()
_NAMES: Final = (
    "steps",
    "tool_calls",
    "elapsed",
    _ERRORS.name,
    *(detector.name for detector in _REPEATS.values()),
    _COMPACTIONS.name,
)
_STREAKS: Final = (_ERRORS.name, *(detector.name for detector in _REPEATS.values()))
_KINDS: Final = ("asked", "blocked", "ran", "failed")
"""What is on record of a call, the weakest first."""
_NO_RESPONSE: Final = Response("")

_FAILED: Final = {"ran": False, "failed": True}
_COUNTED_STATUSES: Final = frozenset({"ran", "failed", "unknown"})
_IN_A_STEP: Final = _COUNTED_STATUSES | {"denied"}
"""What makes a response a step: its calls were executed, or rejected by another than this hook."""

LastCall: TypeAlias = tuple[str, int, int, int]
"""What calls are compared by: the tool, and the numbers of the arguments (sorted, ordered) and of the result."""
Times: TypeAlias = tuple[int, int]


class Position(NamedTuple):
    """Where a turn or a run stands after a step.

    Attributes:
        counters: The counters by name, streaks up to the latest call; None where one is not known.
        last: The call that was counted last; None if there is none.
        largest: The largest streaks after the calls of the latest step, by name and the tool of the call. Hooks exempt
            tools of their own, so each tool is kept apart.
    """

    counters: Mapping[str, int | None]
    last: LastCall | None
    largest: Mapping[str, Mapping[str, int | None]]


START: Final = Position(dict.fromkeys(_NAMES, 0), None, {})


class Counts:
    """The counters of a turn, or of a run.

    Attributes:
        place: Where it stands.
        before: Where it stood before the latest step; None if there is none.
        began: When it began, in ms by each clock; None if that is not on record.
        compactions: The state of the detector of compactions.
    """

    __slots__ = ("before", "began", "compactions", "place")

    def __init__(self, began: Times | None = None) -> None:
        self.place = START
        self.before: Position | None = None
        self.began = began
        self.compactions = _COMPACTIONS.start

    def add(self, calls: list[LastCall], statuses: list[str], time: Times | None) -> None:
        """Count the calls of a response, and a step if one of them counts or was rejected."""
        old_position = self.place
        if not _IN_A_STEP.isdisjoint(statuses):
            self.place = old_position._replace(largest={})
        self.began = self.began or time
        for call, status in zip(calls, statuses, strict=True):
            if status == "doubtful":
                self.doubt(call)
            elif status in _COUNTED_STATUSES:
                self._count(call, failed=_FAILED.get(status))
        if not _IN_A_STEP.isdisjoint(statuses):
            self._complete(old_position, time)

    def compact(self) -> None:
        """Count a compaction of the history before the next step."""
        self.compactions = _COMPACTIONS.compact(self.compactions, 1)

    def doubt(self, call: LastCall | None = None) -> None:
        """Note that a call may have been executed that does not count; `call` is None if nothing is known of it."""
        counters, last = dict(self.place.counters), self.place.last
        counters[_ERRORS.name] = None
        for identity, detector in _REPEATS.items():
            if call is None or last is None or not _observe(call, identity).same_as(_observe(last, identity), identity):
                counters[detector.name] = 0
        self.place = Position(counters, last, {})

    def _count(self, call: LastCall, *, failed: bool | None) -> None:
        counters, last = dict(self.place.counters), self.place.last
        counters["tool_calls"] = (counters["tool_calls"] or 0) + 1
        for identity, detector in _REPEATS.items():
            state = None if last is None else _observe(last, identity), counters[detector.name] or 0
            counters[detector.name] = detector.fold(state, _observe(call, identity))[1]
        counters[_ERRORS.name] = _ERRORS.fold(counters[_ERRORS.name], _observe(call, "tool", failed=failed))[1]
        tool, largest = call[0], dict(self.place.largest)
        streaks = {name: counters[name] for name in _STREAKS}
        if tool in largest:
            streaks = {name: largest_count((count, largest[tool][name])) for name, count in streaks.items()}
        self.place = Position(counters, call, {**largest, tool: streaks})

    def _complete(self, old_position: Position, time: Times | None) -> None:
        counters = dict(self.place.counters)
        counters["steps"] = (counters["steps"] or 0) + 1
        passed = None if time is None or self.began is None else map(int.__sub__, time, self.began)
        # By the clock on which less has passed: one that is set forward stops no agent.
        counters["elapsed"] = None if passed is None else max(0, min(passed))
        self.compactions, counters[_COMPACTIONS.name] = _COMPACTIONS.close(self.compactions, _NO_RESPONSE)
        self.before = old_position
        self.place = self.place._replace(counters=counters)

    def as_json(self) -> dict[str, Any]:
        """The counters as JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Counts:
        """The counters that were written as JSON."""
        counts = cls(_times(value["began"]))
        counts.place = _place(value["place"])
        counts.before = None if value["before"] is None else _place(value["before"])
        steps, streak = value["compactions"]
        counts.compactions = _amount(steps), _amount(streak)
        return counts


class State:
    """What was counted in a session up to one place of its journal.

    Attributes:
        turn: The counters since the latest message of the user.
        run: The counters since the session began.
        step: The ids of the calls of the latest step that counted.
    """

    __slots__ = ("_compacted", "_doubted", "_earlier", "_pending", "_seen", "run", "step", "turn")

    def __init__(self) -> None:
        self.turn, self.run = Counts(), Counts()
        self.step: list[str] = []
        self._seen: dict[str, None] = {}
        self._pending: dict[str, str] = {}  # what is on record of calls whose step is not
        self._earlier: list[str] = []  # those of them that an earlier turn made
        self._doubted: list[str] = []  # those of them that were in doubt at an earlier step
        self._compacted = False

    def apply(self, record: Mapping[str, Any]) -> None:
        """Count what happened next. A record of another form counts nowhere."""
        kind, call_id, time = record.get("e"), record.get("id"), _times(record.get("t"))
        if kind in _KINDS:
            if isinstance(call_id, str) and call_id not in self._seen:
                self._pending[call_id] = max(self._pending.get(call_id, "asked"), str(kind), key=_KINDS.index)
                _forget_oldest(self._pending, MAX_CALL_IDS)
        elif kind == "turn":
            self.turn = Counts(time)
            self.run.began = self.run.began or time
            self._earlier = [*self._pending]
            self._compacted = False
        elif kind == "compact" and not self._compacted:  # two hooks on the session report one compaction
            self.turn.compact()
            self.run.compact()
            self._compacted = True
        elif kind == "lost":
            self.turn.doubt()
            self.run.doubt()
        elif kind == "step":
            self._step(record.get("calls"), time)

    def _step(self, values: object, time: Times | None) -> None:
        """Count a step, unless it was counted before or none of its calls makes it one."""
        calls = [call for call in values if _is_call(call)] if isinstance(values, list) else []
        calls = [call for call in calls if call[0] not in self._seen]
        if not calls:
            return
        statuses = [_status(call[0], self._pending.pop(call[0], None), call[5]) for call in calls]
        ids = [call[0] for call in calls]
        self._seen |= dict.fromkeys(filter(None, ids))
        _forget_oldest(self._seen, max(MAX_CALL_IDS, len(ids)))
        lost_ids = set(self._pending).difference(self._doubted)  # calls of a step that is not on record
        for counts, in_doubt in ((self.turn, lost_ids.difference(self._earlier)), (self.run, lost_ids)):
            if in_doubt:
                counts.doubt()
            counts.add([(tool, *numbers) for _, tool, *numbers, _ in calls], statuses, time)
        # A step of them may still come, where two processes of Claude Code continue one session.
        self._doubted, self._earlier, self._compacted = [*self._pending], [], False
        if not _IN_A_STEP.isdisjoint(statuses):
            self.step = ids

    def as_json(self) -> dict[str, Any]:
        """The state as JSON."""
        return {
            "turn": self.turn.as_json(),
            "run": self.run.as_json(),
            "step": self.step,
            "seen": [*self._seen],
            "pending": self._pending,
            "earlier": self._earlier,
            "doubted": self._doubted,
            "compacted": self._compacted,
        }

    @classmethod
    def from_json(cls, value: object) -> State:
        """The state that was written as JSON."""
        state = cls()
        try:
            fields = dict(cast("Mapping[str, Any]", value))
            state.turn, state.run = Counts.from_json(fields["turn"]), Counts.from_json(fields["run"])
            state.step, state._earlier = _names(fields["step"]), _names(fields["earlier"])
            state._doubted, state._seen = _names(fields["doubted"]), dict.fromkeys(_names(fields["seen"]))
            state._pending = {name: _KINDS[_KINDS.index(kind)] for name, kind in fields["pending"].items()}
            state._compacted = fields["compacted"] is True
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"no state of a hook: {error}") from error
        return state


def _forget_oldest(names: dict[str, Any], count: int) -> None:
    """Keep the newest names only, so many of them."""
    for name in [*itertools.islice(names, max(0, len(names) - count))]:
        del names[name]


def _status(call_id: str, on_record: str | None, word: str) -> str:
    """What a call counts as: see above."""
    if not call_id:
        return "doubtful"
    if on_record in _FAILED:
        return on_record
    if on_record == "blocked" or word == "denied":
        return on_record if on_record == "blocked" else word
    if on_record == "asked":
        return "doubtful"
    return "failed" if word == "refused" else "unknown"


def _observe(call: LastCall, identity: str, *, failed: bool | None = None) -> ObservedCall:
    """A call as a detector of repeats sees it: the numbers that the identity compares are all that differs."""
    tool, canonical, ordered, result = call
    number = ordered if identity == "ordered" else canonical
    return ObservedCall(ToolCall("", tool, str(number)), ToolResult("", str(result), is_error=failed))


def _is_call(value: object) -> bool:
    return isinstance(value, list) and [*map(type, value)] == [str, str, int, int, int, str]


def _times(value: object) -> Times | None:
    if isinstance(value, (list, tuple)) and [*map(type, value)] == [int, int]:
        return value[0], value[1]
    return None


def _place(value: Any) -> Position:  # noqa: ANN401 - JSON
    counters, last, largest = value
    if last is not None and [*map(type, last)] != [str, int, int, int]:
        raise ValueError(f"{last!r:.80}: expected a call")
    streaks = {tool: _amounts(of_tool, _STREAKS) for tool, of_tool in largest.items()}
    return Position(_amounts(counters, _NAMES), None if last is None else (last[0], last[1], last[2], last[3]), streaks)


def _amounts(counters: Mapping[str, object], names: Iterable[str]) -> dict[str, int | None]:
    return {name: None if counters[name] is None else _amount(counters[name]) for name in names}


def _amount(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.80}: expected a number")
    return value


def _names(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{value!r:.80}: expected a list of ids")
    return value


_TURN: Final = b'{"e":"turn"'


def monitor_for(options: Options) -> Monitor:
    """The monitor of these options, before the first step."""
    if options.identity not in IDENTITIES:
        reason = " (a hook gets arguments parsed, not as sent)" if options.identity == "raw" else ""
        raise SettingError(f"identity {options.identity!r} is not accepted{reason}{near(options.identity, IDENTITIES)}")
    if options.exempt and "doom_loop" not in options.limits:
        msg = "--exempt names tools whose repeats are no loop: it needs --doom-loop"
        raise SettingError(msg)
    if zero := next((name for name, value in options.limits.items() if not value > 0), None):
        raise SettingError(f"--{zero.replace('_', '-')} {options.limits[zero]:g}: expected a number above 0")
    loop_options = {"doom_loop": {"identity": options.identity, "exempt": options.exempt}}
    rules = [RULES[name](value, **loop_options.get(name, {})) for name, value in options.limits.items()]
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
        last_position = self._counts.before
        return self._stop(self._counts.place) is not None and (
            last_position is None or self._stop(last_position) is None
        )

    def record(self, boundary: str) -> dict[str, object]:
        """The verdict as a record of the journal."""
        action, stop, message = self.verdict
        record: dict[str, object] = {"e": "verdict", "on": boundary, "of": str(self._options), "action": action}
        facts = {} if stop is None else {"rule": stop.rule, "reason": stop.reason, "step": stop.step}
        return record | facts | {"message": message}

    def is_at(self, step: list[object] | None) -> bool:
        """Whether the latest step that counted is of the calls with these ids."""
        return bool(step) and step == self._state.step

    def step_counts(self) -> dict[str, int | None]:
        """How many steps and calls were counted."""
        counters = self._counts.place.counters
        return {"steps": counters["steps"], "tool_calls": counters["tool_calls"]}

    def _stop(self, position: Position) -> Stop | None:
        counters, repeats = dict(position.counters), RepeatStreak(self._options.identity).name
        largest = position.largest or {position.last[0] if position.last else "": counters}
        # Only calls of one tool are the same, so an exempt tool has a streak of its own, and it is 1.
        streaks = [1 if tool in self._options.exempt else of_tool[repeats] for tool, of_tool in largest.items()]
        counters[_repeats(self._options).name] = largest_count(streaks)
        counters[_ERRORS.name] = largest_count(of_tool[_ERRORS.name] for of_tool in largest.values())
        return self._rule.verdict(counters) if self._rule(counters) else None


def _repeats(options: Options) -> RepeatStreak:
    return RepeatStreak.of(exclude_tools(options.identity, options.exempt))


def state_after(data: bytes) -> State:
    """What was counted by the lines of a journal."""
    header, _, lines = data.partition(b"\n")
    first = records(header)
    if not first:
        msg = "the first line is damaged"
        raise JournalError(msg)
    try:
        state = State.from_json(first[0]["state"]) if "state" in first[0] else State()
    except ValueError as error:
        raise JournalError(str(error)) from error
    for line in filter(None, lines.split(b"\n")):
        read = records(line)
        state.apply(read[0] if read else {"e": "turn" if line.startswith(_TURN) else "lost"})
    return state
