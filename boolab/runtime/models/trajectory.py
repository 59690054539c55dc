"""The steps that a simulated agent would take if nothing ended its run.

The profile and a key alone decide them: requests and limits have no influence. Whether the agent finishes at a step is
decided by the model, from the step's hazard and its draw. So a run under a tight limit is the beginning of the run
under a loose one, and a change of the hazard changes nothing else.

All draws come from `random.Random(key).random()`, which gives the same numbers in every release of Python.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import itemgetter
from random import Random
from typing import Any, Final, Generic, NamedTuple, TypeVar

from boolab.core.types import UNKNOWN_USAGE, Response, ToolCall, ToolResult, Usage
from boolab.runtime.models.profile import Profile
from boolab.runtime.models.profile_parts import Distribution, Tokens, ToolProfile, normalise

T = TypeVar("T")

_BITS: Final = 9
SLOTS: Final = 1 << _BITS
"""A draw from a distribution is one of this number of equally likely values."""
_SLOT: Final = SLOTS - 1
NEVER: Final = -1.0
"""The hazard of a step at which the agent cannot finish."""
ALWAYS: Final = math.inf
"""The hazard of a step at which the agent gives up."""
MAX_CHARS: Final = 100_000
"""The longest text."""
CHARS_PER_TOKEN: Final = 4
_FILLER: Final = "Nobody wrote this text: it stands for what a real one would say, and is about as long. "
_OPENING: Final = '{"input": "'
"""The beginning of arguments; the number of the call follows."""
_make: Final = tuple.__new__
"""Makes a NamedTuple from all of its fields, in less than half the time of a call of its class."""
_UNKNOWN: Final = Response()[6:]
"""The fields of a response after the first six, with their defaults."""


class PlannedStep(NamedTuple):
    """One step of a trajectory: the response (always with calls) and its results, unless the agent finishes.

    It finishes if `draw` is below `hazard`, the probability before any factor of the task (or `NEVER`, or `ALWAYS`).
    Then, and for a summary, it writes the text with the number `text_slot`. `duration_ms` is the time of the response.
    """

    response: Response
    results: tuple[ToolResult, ...]
    hazard: float
    draw: float
    text_slot: int
    duration_ms: int


class WeightedChoice(Generic[T]):
    """A draw from shares; their order does not matter."""

    __slots__ = ("_bounds", "_values")

    def __init__(self, shares: Mapping[Any, float], values: Mapping[Any, T] | None = None) -> None:
        rows = sorted((name, share) for name, share in normalise(shares).items() if share)
        self._values: list[T] = [name if values is None else values[name] for name, _ in rows]
        self._bounds = list(accumulate(share for _, share in rows))[:-1]

    @property
    def single_value(self) -> T | None:
        """The only possible value, if there is only one."""
        return None if self._bounds else self._values[0]

    def pick(self, draw: float) -> T:
        """The value at a draw from 0 to 1."""
        return self._values[bisect_right(self._bounds, draw)]


class SimulatedTool:
    """A tool of a profile, prepared for draws."""

    next_tools: WeightedChoice[SimulatedTool]
    other_tools: WeightedChoice[SimulatedTool]

    def __init__(self, name: str, index: int, tool: ToolProfile, profile: Profile) -> None:
        after = tool.after_error or profile.after_error
        self.name = name
        self.index = index
        calls: WeightedChoice[int] = WeightedChoice(profile.calls_of(name))
        self.calls = None if calls.single_value == 1 else calls
        self.error_rate = tool.error_rate
        self.after_error: WeightedChoice[str] = WeightedChoice(after.shares)
        self.fails_again = tool.error_rate if after.fails_again is None else after.fails_again
        self.finish_factor = tool.finish_factor
        self.latencies = tool.latency_ms.table(SLOTS)
        self.argument_texts = make_texts(tool.argument_chars, reduction=len(_OPENING + '1 "}'))
        self.result_texts = make_texts(tool.result_chars, "{:03d} ")
        self.error_texts = make_texts(tool.error_chars, "Error {:03d}: ")


class Rules:
    """A profile, prepared for draws. It never changes and serves any number of trajectories."""

    def __init__(self, profile: Profile) -> None:
        tools = {
            name: SimulatedTool(name, index, tool_profile, profile)
            for index, (name, tool_profile) in enumerate(profile.tools.items())
        }
        for name, tool in tools.items():
            row = profile.shares_after(name)
            tool.next_tools = WeightedChoice(row, tools)
            tool.other_tools = WeightedChoice(
                _exclude_tool(name, row, profile.shares_after(None), dict.fromkeys(tools, 1.0)), tools
            )
        self.tools = tools
        self.start: WeightedChoice[SimulatedTool] = WeightedChoice(profile.shares_after(None), tools)
        self.from_steps = [piece.from_step for piece in profile.finish.hazard]
        self.hazards = [piece.probability for piece in profile.finish.hazard]
        self.loop_rate = profile.loop.rate
        self.loop_again = profile.loop.again
        self.periods: WeightedChoice[int] = WeightedChoice(profile.loop.period)
        self.revisit_rate = profile.revisit.rate
        self.same_result = profile.revisit.same_result
        self.texts = make_texts(profile.text_chars)
        latency = profile.latency
        self.durations = latency.response_ms.table(SLOTS)
        self.first_tokens = None if latency.first_token_ms is None else latency.first_token_ms.table(SLOTS)
        self.known_tokens = profile.tokens is not None
        tokens = profile.tokens or _NO_TOKENS
        self.prompts = tokens.prompt.table(SLOTS)
        self.outputs = tokens.output.table(SLOTS)
        self.growths = None if tokens.growth is None else tokens.growth.table(SLOTS)
        self.cached_share = tokens.cached_share
        self.price = None if profile.price is None else profile.price.per_token

    def usage(self, inputs: int, cached: int, outputs: int) -> Usage:
        """The usage of a response with its cost; unknown if the profile has none."""
        if not self.known_tokens:
            return UNKNOWN_USAGE
        if self.price is None:
            return _make(Usage, (inputs, outputs, cached, None, None, None, None))
        input_price, cached_price, output_price = self.price
        cost = round((inputs - cached) * input_price + cached * cached_price + outputs * output_price)
        return _make(Usage, (inputs, outputs, cached, None, cost, None, None))


_NO_TOKENS: Final = Tokens(prompt=Distribution(median=0), output=Distribution(median=0))


def make_texts(chars: Distribution, head: str = "", *, reduction: int = 0) -> tuple[str, ...]:
    """A text for each slot: its length from a distribution, `reduction` shorter; `head` begins it, with its number."""
    sizes = [max(min(size, MAX_CHARS) - reduction, 0) for size in chars.table(SLOTS)]
    filler = _FILLER * (sizes[-1] // len(_FILLER) + 1)
    if not head:
        return tuple(filler[:size] for size in sizes)
    return tuple((head.format(slot) + filler[:size])[:size] for slot, size in enumerate(sizes))


def _exclude_tool(name: str, *rows: Mapping[str, float]) -> Mapping[str, float]:
    """The first row of shares that has something besides `name`, without `name`; otherwise the last row."""
    for row in rows:
        remaining = {other: share for other, share in row.items() if other != name and share}
        if remaining:
            return remaining
    return rows[-1]


class SimulatedTrajectory:
    """The steps of one run, drawn on demand; `key` (16 hex digits) identifies the run.

    `luck` is a number from 0 to 1: the run is a success if it is below the probability of success.
    """

    def __init__(self, rules: Rules, key: str) -> None:
        source = Random(int(key, 16))  # noqa: S311 - a simulation, no secret
        self._random = source.random
        self._bits = source.getrandbits
        self._rules = rules
        self._key = key
        self.luck = source.random()
        self._steps: list[PlannedStep] = []
        self._inputs = 0  # tokens of the latest request
        self._next_inputs = rules.prompts[source.getrandbits(_BITS)]
        self._period = 0  # steps of the current loop; 0 outside a loop
        self._looped = 0  # steps of the loop's current round
        self._last: SimulatedTool | None = None
        self._failed = -1  # the last call of the latest step that failed
        self._latest_results: list[ToolResult] = []
        """The latest result of each distinct call."""
        self._last_number = -1  # the latest call, as its index in `_latest_results`
        self._calls_by_tool: list[list[tuple[int, str]]] = [[] for _ in rules.tools]
        """By tool: the indexes of its calls in `_latest_results`, and their arguments."""

    def step_at(self, index: int) -> PlannedStep:
        """The step with that number, from 0."""
        steps = self._steps
        while len(steps) <= index:
            if self._rules.loop_rate and self._is_looping():
                self._repeat(steps[-self._period])
            else:
                self._act()
        return steps[index]

    def _is_looping(self) -> bool:
        """Whether the next step belongs to a loop."""
        random, rules = self._random, self._rules
        if self._period:
            if self._looped == self._period:
                self._looped = 0
                if random() >= rules.loop_again:
                    self._period = 0
                    return False
        elif self._steps and random() < rules.loop_rate:
            self._period = min(rules.periods.pick(random()), len(self._steps))
        return self._period > 0

    def _repeat(self, old: PlannedStep) -> None:
        """Repeat a step in a loop. A loop ends after whole rounds, so its latest call and failure do not change."""
        response_before, start = old.response, f"{self._key}_{len(self._steps) + 1}_"
        calls = tuple([call._replace(id=f"{start}{n}") for n, call in enumerate(response_before.tool_calls, 1)])
        results = tuple([result._replace(call_id=call.id) for call, result in zip(calls, old.results, strict=True)])
        usage = self._usage(response_before.usage.output_tokens or 0, self._bits(_BITS), results)
        self._looped += 1
        response = response_before._replace(tool_calls=calls, usage=usage)
        self._steps.append(PlannedStep(response, results, NEVER, 1.0, old.text_slot, old.duration_ms))

    def _act(self) -> None:
        """Draw a step outside a loop."""
        random, rules, steps, last = self._random, self._rules, self._steps, self._last
        number = len(steps) + 1
        start = f"{self._key}_{number}_"
        calls: tuple[ToolCall, ...] = ()
        results: tuple[ToolResult, ...] = ()
        if self._failed >= 0:
            tool, hazard, calls, results = self._step_after_error(start)
        elif last is None:
            tool, hazard = rules.start.pick(random()), rules.hazards[0]
        else:
            tool = last.next_tools.pick(random())
            hazard = rules.hazards[bisect_right(rules.from_steps, number) - 1] * last.finish_factor
        if not calls:
            n_calls = 1 if tool.calls is None else tool.calls.pick(random())
            if n_calls == 1:
                call, result = self._call(tool, start + "1")
                calls, results = (call,), (result,)
                self._failed = 0 if result[2] else -1
            else:
                calls, results = self._calls(tool, n_calls, start)
        slots = self._bits(6 * _BITS)
        duration = rules.durations[slots & _SLOT]
        usage = self._usage(rules.outputs[slots >> _BITS & _SLOT], slots >> 2 * _BITS & _SLOT, results)
        first = None
        if rules.first_tokens is not None:
            first = min(rules.first_tokens[slots >> 3 * _BITS & _SLOT], duration)
        text = rules.texts[slots >> 4 * _BITS & _SLOT]
        response = _make(Response, (text, calls, "tool_calls", usage, "", first, *_UNKNOWN))
        steps.append(_make(PlannedStep, (response, results, hazard, random(), slots >> 5 * _BITS, duration)))

    def _step_after_error(
        self, start: str
    ) -> tuple[SimulatedTool, float, tuple[ToolCall, ...], tuple[ToolResult, ...]]:
        """After a failed call: the next tool and the hazard, or the same call with its result."""
        random, previous_step = self._random, self._steps[-1]
        failed, result = previous_step.response.tool_calls[self._failed], previous_step.results[self._failed]
        tool = self._rules.tools[failed.name]
        reaction = tool.after_error.pick(random())
        if reaction == "vary":
            return tool, NEVER, (), ()
        if reaction != "retry":
            return tool.other_tools.pick(random()), ALWAYS if reaction == "give_up" else NEVER, (), ()
        call = failed._replace(id=start + "1")
        fails_again = random() < tool.fails_again
        result = result._replace(call_id=call.id) if fails_again else self._result(tool, call.id, fails=False)
        self._last, self._last_number = tool, number_of(call.arguments)
        self._latest_results[self._last_number] = result
        self._failed = 0 if fails_again else -1
        return tool, NEVER, (call,), (result,)

    def _calls(
        self, tool: SimulatedTool, n_calls: int, start: str
    ) -> tuple[tuple[ToolCall, ...], tuple[ToolResult, ...]]:
        """Several calls of one step, and their results."""
        calls, results = [], []
        for n in range(1, n_calls + 1):
            call, result = self._call(tool, f"{start}{n}")
            calls.append(call)
            results.append(result)
            tool = tool.next_tools.pick(self._random())
        self._failed = max((index for index, result in enumerate(results) if result.is_error), default=-1)
        return tuple(calls), tuple(results)

    def _call(self, tool: SimulatedTool, call_id: str) -> tuple[ToolCall, ToolResult]:
        """A call and its result."""
        tool_calls, rate = self._calls_by_tool[tool.index], self._rules.revisit_rate
        latest_results = self._latest_results
        number = len(latest_results)
        if rate and tool_calls:
            n_earlier = len(tool_calls) - (self._last is tool)
            if n_earlier and self._random() < rate:
                return self._revisit(tool, call_id, int(self._random() * n_earlier))
        arguments = f'{_OPENING}{number} {tool.argument_texts[self._bits(_BITS)]}"}}'
        result = self._result(tool, call_id)
        latest_results.append(result)
        tool_calls.append((number, arguments))
        self._last, self._last_number = tool, number
        return _make(ToolCall, (call_id, tool.name, arguments)), result

    def _revisit(self, tool: SimulatedTool, call_id: str, index: int) -> tuple[ToolCall, ToolResult]:
        """Repeat one of the tool's earlier calls; `index` does not count the latest call."""
        tool_calls = self._calls_by_tool[tool.index]
        if self._last is tool and index >= bisect_right(tool_calls, self._last_number, key=itemgetter(0)) - 1:
            index += 1
        number, arguments = tool_calls[index]
        latest = self._latest_results[number]
        if self._random() < self._rules.same_result:
            result = latest._replace(call_id=call_id)
        else:
            result = self._result(tool, call_id, unlike=latest.content)
        self._latest_results[number] = result
        self._last, self._last_number = tool, number
        return ToolCall(call_id, tool.name, arguments), result

    def _result(
        self, tool: SimulatedTool, call_id: str, *, fails: bool | None = None, unlike: str | None = None
    ) -> ToolResult:
        """A new result."""
        if fails is None:
            fails = self._random() < tool.error_rate
        texts = tool.error_texts if fails else tool.result_texts
        slots = self._bits(2 * _BITS)
        slot = slots & _SLOT
        if unlike is not None and texts[slot] == unlike:
            slot = (slot + 1) & _SLOT
        return _make(ToolResult, (call_id, texts[slot], fails, False, tool.latencies[slots >> _BITS], ()))

    def _usage(self, outputs: int, slot: int, results: Sequence[ToolResult]) -> Usage:
        """The usage of the next step; the request after it grows accordingly."""
        rules, previous_inputs = self._rules, self._inputs
        if not rules.known_tokens:
            return UNKNOWN_USAGE
        inputs = self._inputs = self._next_inputs
        if rules.growths is not None:
            growth = rules.growths[slot]
        elif len(results) == 1:
            growth = len(results[0][1]) // CHARS_PER_TOKEN
        else:
            growth = sum([len(result.content) for result in results]) // CHARS_PER_TOKEN
        self._next_inputs = inputs + outputs + growth
        return rules.usage(inputs, int(rules.cached_share * previous_inputs), outputs)


def number_of(arguments: str) -> int:
    """The number of a call among the distinct calls of its run, from 0."""
    return int(arguments[len(_OPENING) :].partition(" ")[0])
