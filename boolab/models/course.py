"""The course of a simulated run: what the agent would do at each step, as long as nobody ends it.

A course is a chain of steps that a profile and a key decide alone. It knows no requests, no limits and no end: whether
the agent finishes at a step instead is decided by whoever plays it, from the step's hazard and its draw. So a run under
a tight limit is the beginning of the run under a loose one, and what changes the hazard changes nothing else.

Only `random.Random(key).random()` is drawn from, which gives the same numbers in every release of Python.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import Any, Final, Generic, NamedTuple, TypeVar

from boolab.models.profile import Distribution, Profile, Tokens, ToolProfile, normalised
from boolab.types import UNKNOWN_USAGE, Response, ToolCall, ToolResult, Usage

T = TypeVar("T")

_BITS: Final = 9
SLOTS: Final = 1 << _BITS
"""How finely a distribution is drawn from: each draw is one of so many values, all as likely."""
_SLOT: Final = SLOTS - 1
NEVER: Final = -1.0
"""The hazard of a step at which the agent cannot finish, whatever it is told."""
ALWAYS: Final = math.inf
"""The hazard of a step at which it gives up."""
LONGEST: Final = 100_000
"""The most characters that a text has."""
CHARS_PER_TOKEN: Final = 4
_FILLER: Final = "Nobody wrote this text: it stands for what a real one would say, and is about as long. "
_make: Final = tuple.__new__
"""Makes a NamedTuple from all of its fields, in less than half the time that calling its class takes."""


class Planned(NamedTuple):
    """One step of a course.

    Attributes:
        response: What the agent says unless it finishes; it always calls something.
        results: What the calls give.
        hazard: The probability that it finishes instead, before any factor of the task; or `NEVER`, or `ALWAYS`.
        draw: From 0 to 1: it finishes if this is below the hazard.
        aside: Which of `SLOTS` texts it says if it does, or when it is asked for a summary.
        duration_ms: How long the response takes.
    """

    response: Response
    results: tuple[ToolResult, ...]
    hazard: float
    draw: float
    aside: int
    duration_ms: int


class Choice(Generic[T]):
    """A draw from shares. Their order does not matter, and what has none is left out.

    Example:
        >>> Choice({"a": 3, "b": 1}).pick(0.8)
        'b'
    """

    __slots__ = ("_bounds", "_values")

    def __init__(self, shares: Mapping[Any, float], values: Mapping[Any, T] | None = None) -> None:
        rows = sorted((name, share) for name, share in normalised(shares).items() if share)
        self._values: list[T] = [name if values is None else values[name] for name, _ in rows]
        self._bounds = list(accumulate(share for _, share in rows))[:-1]

    @property
    def alone(self) -> T | None:
        """The only value that there is, if so."""
        return None if self._bounds else self._values[0]

    def pick(self, draw: float) -> T:
        """The value at a draw from 0 to 1."""
        return self._values[bisect_right(self._bounds, draw)]


class Tool:
    """A tool of a profile, made ready to draw from."""

    __slots__ = (
        "after_error",
        "argument_texts",
        "calls",
        "error_rate",
        "error_texts",
        "fails_again",
        "finish_factor",
        "latencies",
        "name",
        "next",
        "others",
        "result_texts",
    )
    next: Choice[Tool]
    others: Choice[Tool]

    def __init__(self, name: str, given: ToolProfile, profile: Profile) -> None:
        after = given.after_error or profile.after_error
        self.name = name
        calls: Choice[int] = Choice(profile.calls_of(name))
        self.calls = None if calls.alone == 1 else calls
        self.error_rate = given.error_rate
        self.after_error: Choice[str] = Choice(after.shares)
        self.fails_again = given.error_rate if after.fails_again is None else after.fails_again
        self.finish_factor = given.finish_factor
        self.latencies = given.latency_ms.table(SLOTS)
        self.argument_texts = texts(given.argument_chars, less=len('{"input": "1 "}'))
        self.result_texts = texts(given.result_chars, "{:03d} ")
        self.error_texts = texts(given.error_chars, "Error {:03d}: ")


class Rules:
    """A profile, made ready to draw from. It is never changed, and serves any number of courses."""

    def __init__(self, profile: Profile) -> None:
        tools = {name: Tool(name, given, profile) for name, given in profile.tools.items()}
        for name, tool in tools.items():
            row = profile.shares_after(name)
            tool.next = Choice(row, tools)
            tool.others = Choice(_without(name, row, profile.shares_after(None), dict.fromkeys(tools, 1.0)), tools)
        self.tools = tools
        self.start: Choice[Tool] = Choice(profile.shares_after(None), tools)
        self.from_steps = [piece.from_step for piece in profile.finish.hazard]
        self.hazards = [piece.probability for piece in profile.finish.hazard]
        self.loop_rate = profile.loop.rate
        self.loop_again = profile.loop.again
        self.periods: Choice[int] = Choice(profile.loop.period)
        self.revisit_rate = profile.revisit.rate
        self.same_result = profile.revisit.same_result
        self.texts = texts(profile.text_chars)
        latency = profile.latency
        self.durations = latency.response_ms.table(SLOTS)
        self.first_tokens = None if latency.first_token_ms is None else latency.first_token_ms.table(SLOTS)
        self.known_tokens = profile.tokens is not None
        tokens = profile.tokens or _NO_TOKENS
        self.prompts = tokens.prompt.table(SLOTS)
        self.outputs = tokens.output.table(SLOTS)
        self.growths = None if tokens.growth is None else tokens.growth.table(SLOTS)
        self.cached_share = tokens.cached_share
        self.price = profile.price

    def usage(self, inputs: int, cached: int, outputs: int) -> Usage:
        """What a response consumes, with its cost; unknown where the profile does not say.

        Args:
            inputs: The tokens of its request.
            cached: How many of them are read from a cache.
            outputs: The tokens of the response.
        """
        if not self.known_tokens:
            return UNKNOWN_USAGE
        price = self.price
        if price is None:
            return _make(Usage, (inputs, outputs, cached, None, None))
        again = price.input if price.cached is None else price.cached
        # Dollars per million tokens are micro-dollars per token.
        cost = round((inputs - cached) * price.input + cached * again + outputs * price.output)
        return _make(Usage, (inputs, outputs, cached, None, cost))


_NO_TOKENS: Final = Tokens(prompt=Distribution(median=0), output=Distribution(median=0))


def texts(chars: Distribution, head: str = "", *, less: int = 0) -> tuple[str, ...]:
    """As many texts as there are slots, of the lengths of a distribution.

    Args:
        chars: Their lengths.
        head: How each begins, with the number of its slot, as far as it is long enough.
        less: By how much each is shorter.
    """
    sizes = [max(min(size, LONGEST) - less, 0) for size in chars.table(SLOTS)]
    whole = _FILLER * (sizes[-1] // len(_FILLER) + 1)
    if not head:
        return tuple(whole[:size] for size in sizes)
    return tuple((head.format(slot) + whole[:size])[:size] for slot, size in enumerate(sizes))


def _without(name: str, *rows: Mapping[str, float]) -> Mapping[str, float]:
    """The first of some rows of shares that leaves something without `name`, without it; the last one if none does."""
    for row in rows:
        left = {other: share for other, share in row.items() if other != name and share}
        if left:
            return left
    return rows[-1]


class Course:
    """The steps of one run, made as they are asked for.

    Args:
        rules: The profile, made ready.
        key: What tells this run from all others: 16 hex digits.

    Attributes:
        luck: From 0 to 1: how likely a success may be for the run to be none.
    """

    __slots__ = (
        "_bits",
        "_failed",
        "_key",
        "_last",
        "_latest",
        "_next_input",
        "_period",
        "_place",
        "_places",
        "_random",
        "_rules",
        "_seen",
        "_steps",
        "luck",
    )

    def __init__(self, rules: Rules, key: str) -> None:
        source = Random(int(key, 16))  # noqa: S311 - a simulation, no secret
        self._random = source.random
        self._bits = source.getrandbits
        self._rules = rules
        self._key = key
        self.luck = source.random()
        self._next_input = rules.prompts[source.getrandbits(_BITS)]
        self._steps: list[Planned] = []
        self._period = 0
        self._place = 0
        self._last: tuple[Tool | None, str] = (None, "")
        """Tool and arguments of the latest call."""
        self._failed = -1
        """The place of the last call of the latest step that failed."""
        self._seen: dict[str, list[str]] = {}
        """By tool: the arguments of its calls, each once."""
        self._places: dict[str, int] = {}
        """By arguments, which no two tools share: their place among those of their tool."""
        self._latest: dict[str, ToolResult] = {}
        """By arguments: what they gave at last."""

    def at(self, index: int) -> Planned:
        """The step of that number, from 0."""
        steps = self._steps
        while len(steps) <= index:
            self._go_on()
        return steps[index]

    def _go_on(self) -> None:
        random, rules, steps = self._random, self._rules, self._steps
        draw = random()
        left = False
        if self._period and self._place == self._period:
            self._place = 0
            if random() >= rules.loop_again:
                self._period, left = 0, True
        if rules.loop_rate and not (self._period or left) and steps and random() < rules.loop_rate:
            self._period, self._place = min(rules.periods.pick(random()), len(steps)), 0
        if self._period:
            self._place += 1
            self._repeat(steps[-self._period], draw)
        else:
            self._act(draw)

    def _repeat(self, old: Planned, draw: float) -> None:
        """A step of a loop: the same again."""
        said, start = old.response, f"{self._key}_{len(self._steps) + 1}_"
        calls = tuple(call._replace(id=f"{start}{n}") for n, call in enumerate(said.tool_calls, 1))
        results = tuple(result._replace(call_id=call.id) for call, result in zip(calls, old.results, strict=True))
        usage = self._usage(said.usage.output_tokens or 0, self._bits(_BITS), results)
        self._last = (self._rules.tools[calls[-1].name], calls[-1].arguments)
        self._failed = max((place for place, result in enumerate(results) if result.is_error), default=-1)
        response = said._replace(tool_calls=calls, usage=usage)
        self._steps.append(Planned(response, results, NEVER, draw, old.aside, old.duration_ms))

    def _act(self, draw: float) -> None:
        """A step that is no loop's."""
        random, rules, steps = self._random, self._rules, self._steps
        number = len(steps) + 1
        last = self._last[0]
        start = f"{self._key}_{number}_"
        calls: tuple[ToolCall, ...] = ()
        results: tuple[ToolResult, ...] = ()
        if self._failed >= 0:
            tool, hazard, calls, results = self._after_error(start)
        elif last is None:
            tool, hazard = rules.start.pick(random()), rules.hazards[0]
        else:
            tool = last.next.pick(random())
            hazard = rules.hazards[bisect_right(rules.from_steps, number) - 1] * last.finish_factor
        if not calls:
            many = 1 if tool.calls is None else tool.calls.pick(random())
            if many == 1:
                call, result = self._call(tool, f"{start}1")
                calls, results = (call,), (result,)
                self._failed = 0 if result[2] else -1
            else:
                calls, results = self._calls(tool, many, start)
        slots = self._bits(6 * _BITS)
        duration = rules.durations[slots & _SLOT]
        usage = self._usage(rules.outputs[slots >> _BITS & _SLOT], slots >> 2 * _BITS & _SLOT, results)
        first = None
        if rules.first_tokens is not None:
            first = min(rules.first_tokens[slots >> 3 * _BITS & _SLOT], duration)
        text = rules.texts[slots >> 4 * _BITS & _SLOT]
        response = _make(Response, (text, calls, "tool_calls", usage, "", first, None, ""))
        steps.append(_make(Planned, (response, results, hazard, draw, slots >> 5 * _BITS, duration)))

    def _after_error(self, start: str) -> tuple[Tool, float, tuple[ToolCall, ...], tuple[ToolResult, ...]]:
        """What follows a failed call: the tool of the next one and the hazard, or the same call with its result.

        Args:
            start: How the ids of the step's calls begin.
        """
        random, before = self._random, self._steps[-1]
        failed, result = before.response.tool_calls[self._failed], before.results[self._failed]
        tool = self._rules.tools[failed.name]
        what = tool.after_error.pick(random())
        if what == "vary":
            return tool, NEVER, (), ()
        if what != "retry":
            return tool.others.pick(random()), ALWAYS if what == "give_up" else NEVER, (), ()
        call = failed._replace(id=f"{start}1")
        again = random() < tool.fails_again
        result = result._replace(call_id=call.id) if again else self._result(tool, call.id, fails=False)
        self._latest[call.arguments] = result
        self._last = (tool, call.arguments)
        self._failed = 0 if again else -1
        return tool, NEVER, (call,), (result,)

    def _calls(self, tool: Tool, many: int, start: str) -> tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]]:
        """The calls of a step that has several, and what they give.

        Args:
            tool: The first one's.
            many: How many.
            start: How their ids begin.
        """
        pairs = []
        self._failed = -1
        for n in range(1, many + 1):
            call, result = self._call(tool, f"{start}{n}")
            pairs.append((call, result))
            if result.is_error:
                self._failed = n - 1
            tool = tool.next.pick(self._random())
        return tuple(call for call, _ in pairs), tuple(result for _, result in pairs)

    def _call(self, tool: Tool, call_id: str) -> tuple[ToolCall, ToolResult]:
        """A call, and what it gives."""
        rules = self._rules
        seen = self._seen.setdefault(tool.name, [])
        if rules.revisit_rate and seen:
            last, arguments = self._last
            own = self._places[arguments] if last is tool else None
            others = len(seen) - (own is not None)
            if others and self._random() < rules.revisit_rate:
                place = int(self._random() * others)
                return self._revisit(tool, call_id, seen[place if own is None or place < own else place + 1])
        number = len(self._places)
        arguments = f'{{"input": "{number + 1} {tool.argument_texts[self._bits(_BITS)]}"}}'
        result = self._latest[arguments] = self._result(tool, call_id)
        self._places[arguments] = len(seen)
        seen.append(arguments)
        self._last = (tool, arguments)
        return _make(ToolCall, (call_id, tool.name, arguments)), result

    def _revisit(self, tool: Tool, call_id: str, arguments: str) -> tuple[ToolCall, ToolResult]:
        """An earlier call, made again."""
        latest = self._latest[arguments]
        if self._random() < self._rules.same_result:
            result = latest._replace(call_id=call_id)
        else:
            result = self._result(tool, call_id, unlike=latest.content)
        self._latest[arguments] = result
        self._last = (tool, arguments)
        return ToolCall(call_id, tool.name, arguments), result

    def _result(self, tool: Tool, call_id: str, *, fails: bool | None = None, unlike: str | None = None) -> ToolResult:
        """A result that is no repetition."""
        if fails is None:
            fails = self._random() < tool.error_rate
        given = tool.error_texts if fails else tool.result_texts
        slots = self._bits(2 * _BITS)
        slot = slots & _SLOT
        if given[slot] == unlike:
            slot = (slot + 1) & _SLOT
        return _make(ToolResult, (call_id, given[slot], fails, False, tool.latencies[slots >> _BITS]))

    def _usage(self, outputs: int, slot: int, results: Sequence[ToolResult]) -> Usage:
        """What the next step consumes; the request after it grows by it.

        Args:
            outputs: The tokens of its response.
            slot: Which of the growths.
            results: The results of its calls.
        """
        rules, steps, inputs = self._rules, self._steps, self._next_input
        if not rules.known_tokens:
            return UNKNOWN_USAGE
        if rules.growths is None:
            growth = sum([len(result.content) for result in results]) // CHARS_PER_TOKEN
        else:
            growth = rules.growths[slot]
        self._next_input = inputs + outputs + growth
        before = steps[-1].response.usage.input_tokens or 0 if steps else 0
        return rules.usage(inputs, int(rules.cached_share * before), outputs)
