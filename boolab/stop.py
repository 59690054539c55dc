"""Stop rules.

The boundary law
----------------
A stop rule is a predicate over integer counters at a *step boundary*. Boundary k (k = 0, 1, 2, ...) is the top of the
loop after k completed tool steps. All rules are asked there, and only there; the step that crosses a limit is
completed, and by how much it crossed is recorded as the overshoot. A run whose model stopped asking for tools is
`finished` before any rule is asked again. So a budget that the last tool step meets exactly stops the run before its
final text, and a run that finishes on its fifth response is not stopped by a cap of five.

A rule reads counters by name and nothing else: no clock, no network, no messages. That is why the same predicate
answers live with one number and offline with a whole column, and why a recording can be scored under settings that
it never ran with.

Counters
--------
`steps`, `tool_calls`, `input_tokens`, `output_tokens`, `tokens` (input + output), `cost` (micro-dollars), `elapsed`
(milliseconds, read once per boundary), and one for each detector that a rule watches, by the detector's name:
`repeat_streak:IDENTITY`, `error_streak`, `cycle:2:canonical`. They are integers, because float sums differ between a
running `+=` and a grouped cumulative sum. Every rule is `counter >= threshold`; a strict `> n` is `>= n + 1`.

A counter whose value the source does not give is None (NA in a column), and logic is three-valued: `True | unknown` is
True, `False & unknown` is False. Where an unknown decides, a live run ends with `error` (`UnknownCounter`), unless the
rule says `on_unknown="ignore"`, which takes it for False.

Compounds
---------
`a | b` fires when one of them is true and gives the reason of its first true member, left to right; `a & b` when both
are, with the reason of its first member.

>>> rule = max_steps(20) | (tool_budget(50) & error_streak(3)) | max_cost(0.50)
>>> rule.verdict(Progress(steps=20, tool_calls=64, error_streak=3, cost=0)).also_true
('tool_budget',)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

from boolab.detectors import Detector, ErrorStreak, Identities, RepeatStreak
from boolab.errors import SettingError, UnknownCounter
from boolab.types import MICRO, UNKNOWN_USAGE, Response, Stop, StopReason, ToolCall, ToolResult, Usage
from boolab.watch import Watch


class Counters(Protocol):
    """Counters by name: an int or None each (`Progress`), or a nullable column each (a DataFrame)."""

    def __getitem__(self, name: str, /) -> Any:  # noqa: ANN401 - a number or a column
        """The counter of that name."""
        ...


OnUnknown: TypeAlias = Literal["error", "ignore"]

COUNTERS = ("steps", "tool_calls", "input_tokens", "output_tokens", "tokens", "cost", "elapsed")
MAX_DEPTH = 100
"""How deep `|` and `&` may be nested in one another."""
MAX_COUNT = 2**63 - 1
"""The largest threshold: counters, frames and stores hold integers of 64 bits."""
_AT_START = dict.fromkeys(COUNTERS, 0)
_NOTHING_KNOWN = dict.fromkeys(("input_tokens", "output_tokens", "tokens", "cost"))


class Progress(dict[str, int | None]):
    """The counters of a running turn, by name. Rules read it; only the loop moves it on.

    Args:
        counters: Starting values; all others of `COUNTERS` start at 0.

    Example:
        >>> Progress(steps=2)["steps"]
        2
    """

    __slots__ = ("_watch",)

    def __init__(self, detectors: Sequence[Detector] = (), **counters: int | None) -> None:
        super().__init__(_AT_START)
        for detector in detectors:
            self[detector.name] = 0
        self.update(counters)
        self._watch = Watch(detectors)

    def complete(self, response: Response, results: Sequence[ToolResult | None], elapsed: int | None) -> None:
        """Count one completed step. A call without a result was dropped and counts nowhere.

        Args:
            response: What the model said.
            results: What became of its calls, in order.
            elapsed: Milliseconds since the start of the turn; None where a log does not tell.
        """
        self["steps"] += 1  # type: ignore[operator] # always known
        self["elapsed"] = elapsed
        self.charge(response.usage, self._watch.complete(response, results, self))

    def charge(self, usage: Usage, calls: int) -> None:
        """Count what was spent: by a step, or by a subagent.

        Args:
            usage: What the response consumed.
            calls: How many calls received a result.
        """
        if usage is UNKNOWN_USAGE:
            self.update(_NOTHING_KNOWN)
        else:
            tokens_in, tokens_out, _, _, cost, _, _ = usage
            both = None if tokens_in is None or tokens_out is None else tokens_in + tokens_out
            amounts = ("input_tokens", tokens_in), ("output_tokens", tokens_out), ("tokens", both), ("cost", cost)
            for name, amount in amounts:
                so_far = self[name]
                self[name] = None if so_far is None or amount is None else so_far + amount
        self["tool_calls"] += calls  # type: ignore[operator] # always known

    def after(self, response: Response) -> dict[str, int | None]:
        """The counts of all detectors as they would be after this response: see `boolab.watch.Watch.after`."""
        return dict(self) | self._watch.after(response)

    def ahead(self, response: Response, calls: Sequence[ToolCall]) -> list[dict[str, int | None]]:
        """The counts of all detectors as they would be after each of these calls: see `boolab.watch.Watch.ahead`."""
        return self._watch.ahead(response, calls)


class StopRule:
    """A predicate over counters: `max_steps(20) | tool_budget(50)`. Combine with `|` and `&`; do not subclass.

    Made by `max_steps, tool_budget, doom_loop, max_tokens, max_cost, max_time, error_streak`.

    Example:
        >>> rule = max_steps(20) | tool_budget(50)
        >>> rule.verdict(Progress(steps=4, tool_calls=50)).reason
        'tool_budget'
        >>> rule.verdict(Progress(steps=4, tool_calls=3)) is None
        True
    """

    __slots__ = ()

    def __call__(self, counters: Counters) -> Any:  # noqa: ANN401 - bool | None, or a nullable boolean column
        """Whether the rule is true: True, False or None (unknown), or a nullable boolean column of them."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        msg = "a stop rule is neither true nor false by itself; combine rules with | and &, not with `or` and `and`"
        raise TypeError(msg)

    def __or__(self, other: StopRule) -> AnyOf:
        if not isinstance(other, StopRule):
            return NotImplemented
        return AnyOf((*self.alternatives, *other.alternatives))

    def __and__(self, other: StopRule) -> AllOf:
        if not isinstance(other, StopRule):
            return NotImplemented
        return AllOf((self, other))

    @property
    def alternatives(self) -> tuple[StopRule, ...]:
        """The members of the outermost `|`, in order of precedence; the rule itself if there is none."""
        return (self,)

    @property
    def depth(self) -> int:
        """How deep compounds are nested in it: 0 for a plain threshold, 1 for `a | b | c`."""
        return 0

    def leaves(self) -> Iterator[Threshold]:
        """All the plain thresholds in the rule, left to right."""
        raise NotImplementedError

    def decisive(self, counters: Counters) -> Threshold:
        """The plain threshold that gives the reason, for counters at which the rule is true.

        Args:
            counters: Counters by name, at which the rule is true.

        Returns:
            The first plain threshold that is true, in order of precedence.
        """
        raise NotImplementedError

    def detectors(self) -> tuple[Detector, ...]:
        """The detectors whose counters the rule reads, each once."""
        return tuple(dict.fromkeys(leaf.detector for leaf in self.leaves() if leaf.detector is not None))

    def verdict(self, counters: Counters) -> Stop | None:
        """The stop at this boundary, or None to go on.

        Args:
            counters: The counters at the boundary, by name.

        Returns:
            The stop, with its reason and what else was true; or None.

        Raises:
            UnknownCounter: if the answer hangs on a counter that is not known.
        """
        true = self(counters)
        if true is None:
            unknown = sorted({leaf.counter for leaf in self.leaves() if counters[leaf.counter] is None})
            msg = (
                f"{self} cannot be decided: {', '.join(unknown)} unknown (on_unknown='ignore' takes it for not reached)"
            )
            raise UnknownCounter(msg)
        if not true:
            return None
        first, *others = (rule.decisive(counters) for rule in self.alternatives if rule(counters))
        return Stop(
            first.reason,
            counters["steps"],
            str(first),
            first.threshold,
            counters[first.counter],
            tuple(rule.reason for rule in others),
        )


@dataclass(frozen=True, slots=True)
class Threshold(StopRule):
    """`counter >= threshold`: what every rule is made of."""

    reason: StopReason
    counter: str
    threshold: int
    label: str
    on_unknown: OnUnknown = "error"
    detector: Detector | None = None

    def __call__(self, counters: Counters) -> Any:  # noqa: ANN401 - see StopRule
        value = counters[self.counter]
        if value is None:
            return None if self.on_unknown == "error" else False
        reached = value >= self.threshold
        if self.on_unknown == "ignore" and hasattr(reached, "fillna"):
            return reached.fillna(value=False)
        return reached

    def leaves(self) -> Iterator[Threshold]:
        yield self

    def decisive(self, counters: Counters) -> Threshold:  # noqa: ARG002 - there is but one
        return self

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True)
class AnyOf(StopRule):
    """True when one of `rules` is; the reason is that of the first true one."""

    rules: tuple[StopRule, ...]
    depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _depth_over(self.rules))

    def __call__(self, counters: Counters) -> Any:  # noqa: ANN401 - see StopRule
        true = self.rules[0](counters)
        for rule in self.rules[1:]:
            other = rule(counters)
            true = other if true is False else _either(true, other)
        return true

    @property
    def alternatives(self) -> tuple[StopRule, ...]:
        return self.rules

    def leaves(self) -> Iterator[Threshold]:
        for rule in self.rules:
            yield from rule.leaves()

    def decisive(self, counters: Counters) -> Threshold:
        return next(rule.decisive(counters) for rule in self.rules if rule(counters))

    def __str__(self) -> str:
        return " | ".join(map(str, self.rules))


@dataclass(frozen=True, slots=True)
class AllOf(StopRule):
    """True when all of `rules` are; the reason is that of the first."""

    rules: tuple[StopRule, ...]
    depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _depth_over(self.rules))

    def __call__(self, counters: Counters) -> Any:  # noqa: ANN401 - see StopRule
        true = self.rules[0](counters)
        for rule in self.rules[1:]:
            true = _both(true, rule(counters))
        return true

    def __and__(self, other: StopRule) -> AllOf:
        return AllOf((*self.rules, other))

    def leaves(self) -> Iterator[Threshold]:
        for rule in self.rules:
            yield from rule.leaves()

    def decisive(self, counters: Counters) -> Threshold:
        return self.rules[0].decisive(counters)

    def __str__(self) -> str:
        return " & ".join(f"({rule})" if isinstance(rule, AnyOf) else str(rule) for rule in self.rules)


def max_steps(n: int) -> StopRule:
    """Stop with `step_cap` at boundary n: after n completed steps. Source: BooCode 1.14, opencode issue 3631.

    Args:
        n: How many steps, 0 or more.

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 0.

    Example:
        >>> str(max_steps(20))
        'max_steps(20)'
    """
    return Threshold("step_cap", "steps", whole(n, "max_steps", 0), f"max_steps({n})")


def ceiling(n: int) -> StopRule:
    """A policy's own bound on steps, for agents that set none: `step_cap` too, but it names itself as the rule."""
    return Threshold("step_cap", "steps", whole(n, "ceiling", 0), f"ceiling({n})")


def tool_budget(n: int) -> StopRule:
    """Stop with `tool_budget` once n calls have a result. The batch that crosses n is completed. Source: BooCode 1.14.

    Args:
        n: How many calls, 0 or more.

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 0.

    Example:
        >>> str(tool_budget(50))
        'tool_budget(50)'
    """
    return Threshold("tool_budget", "tool_calls", whole(n, "tool_budget", 0), f"tool_budget({n})")


def doom_loop(n: int, identity: Identities = "canonical") -> StopRule:
    """Stop with `doom_loop` when, at a boundary, the last n calls of the turn are the same call.

    Args:
        n: How many in a row, at least 2.
        identity: What "the same" means, for all tools or by tool: see `boolab.detectors`. BooCode and opencode use
            `ordered`, with n = 3.

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 2 or the identity is not known.

    Example:
        >>> str(doom_loop(3, "ordered"))
        'doom_loop(3, ordered)'
    """
    watch = RepeatStreak.of(identity)
    label = f"doom_loop({n}, {watch.identities})"
    return Threshold("doom_loop", watch.name, whole(n, "doom_loop", 2), label, detector=watch)


def max_tokens(
    n: int, of: Literal["tokens", "input_tokens", "output_tokens"] = "tokens", on_unknown: OnUnknown = "error"
) -> StopRule:
    """Stop with `token_budget` once the turn has used n tokens.

    Args:
        n: The limit.
        of: What is counted: `tokens` (input + output), `input_tokens` or `output_tokens`.
        on_unknown: What a source that does not tell tokens means: `error`, or `ignore` (never reached).

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 0, or an option is not one of those above.

    Example:
        >>> str(max_tokens(100_000)), str(max_tokens(5_000, of="output_tokens", on_unknown="ignore"))
        ('max_tokens(100000)', 'max_tokens(5000, output_tokens, on_unknown=ignore)')
    """
    if of not in ("tokens", "input_tokens", "output_tokens"):
        msg = f"max_tokens: of={of!r} is not known; accepted: tokens, input_tokens, output_tokens"
        raise SettingError(msg)
    unless = unless_known(on_unknown)
    label = f"max_tokens({n}{unless})" if of == "tokens" else f"max_tokens({n}, {of}{unless})"
    return Threshold("token_budget", of, whole(n, "max_tokens", 0), label, on_unknown)


def max_cost(usd: float, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `cost_budget` once the turn has cost that many dollars (kept as whole micro-dollars).

    Args:
        usd: How many dollars, 0 or more; fractions are fine.
        on_unknown: What a source that does not tell costs means: `error`, or `ignore` (never reached).

    Returns:
        The rule.

    Raises:
        SettingError: if usd is not a number >= 0.

    Example:
        >>> str(max_cost(0.5)), max_cost(0.5).threshold
        ('max_cost(0.5)', 500000)
    """
    micro = _units(usd, MICRO, "max_cost")
    return Threshold("cost_budget", "cost", micro, f"max_cost({usd:.12g}{unless_known(on_unknown)})", on_unknown)


def max_time(seconds: float, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `time_budget` at the first boundary at which that much time has passed since the start of the turn.

    Args:
        seconds: How many seconds, 0 or more; fractions are fine.
        on_unknown: What a source that does not tell times means: `error`, or `ignore` (never reached).

    Returns:
        The rule.

    Raises:
        SettingError: if seconds is not a number >= 0.

    Example:
        >>> str(max_time(90)), max_time(90).threshold
        ('max_time(90)', 90000)
    """
    ms = _units(seconds, 1000, "max_time")
    return Threshold("time_budget", "elapsed", ms, f"max_time({seconds:.12g}{unless_known(on_unknown)})", on_unknown)


def error_streak(n: int, on_unknown: OnUnknown = "error") -> StopRule:
    """Stop with `error_streak` when, at a boundary, the last n calls all failed.

    Args:
        n: How many calls, 1 or more.
        on_unknown: What a source that does not tell errors means: `error`, or `ignore` (never reached).

    Returns:
        The rule.

    Raises:
        SettingError: if n is not an integer >= 1.

    Example:
        >>> str(error_streak(3))
        'error_streak(3)'
    """
    watch = ErrorStreak()
    label = f"error_streak({n}{unless_known(on_unknown)})"
    return Threshold("error_streak", watch.name, whole(n, "error_streak", 1), label, on_unknown, watch)


def _depth_over(rules: Sequence[StopRule]) -> int:
    """The depth of a compound of these rules.

    Raises:
        SettingError: if it is more than `MAX_DEPTH`.
    """
    depth = 1 + max(rule.depth for rule in rules)
    if depth > MAX_DEPTH:
        msg = (
            f"{depth} levels of rules nested in one another: expected at most {MAX_DEPTH}; "
            "`a | b | c` is one level, however many rules it has"
        )
        raise SettingError(msg)
    return depth


def _either(a: Any, b: Any) -> Any:  # noqa: ANN401 - scalars or columns
    if a is None or b is None:
        return True if a or b else None
    return a | b


def _both(a: Any, b: Any) -> Any:  # noqa: ANN401 - scalars or columns
    if a is None or b is None:
        return False if a is False or b is False else None
    return a & b


def is_whole(n: object) -> TypeGuard[int]:
    """Whether n is an integer, numpy's included, and no bool."""
    return type(n) is int or (isinstance(n, Integral) and not isinstance(n, bool))


def whole(n: object, what: str, least: int) -> int:
    """A setting as an integer.

    Raises:
        SettingError: if it is none, smaller than the least, or larger than `MAX_COUNT`.
    """
    if not is_whole(n) or n < least:
        msg = f"{what}({n!r}): expected an integer >= {least}"
        raise SettingError(msg)
    if n > MAX_COUNT:
        raise _too_large(what, MAX_COUNT)
    return int(n)


def _units(n: Any, in_one: int, what: str) -> int:  # noqa: ANN401 - checked here
    """A number as whole units; a positive one is at least one unit, or it would be reached before anything began."""
    real = isinstance(n, Real) and not isinstance(n, bool)
    if not real or not n >= 0:
        msg = f"{what}({n!r}): expected a number >= 0"
        raise SettingError(msg)
    if n > MAX_COUNT // in_one:
        raise _too_large(what, MAX_COUNT // in_one)
    return max(round(float(n) * in_one), 1) if n > 0 else 0


def _too_large(what: str, most: int) -> SettingError:
    return SettingError(f"{what}: the number is too large: expected at most {most:,}")


def unless_known(on_unknown: OnUnknown) -> str:
    """What a rule's name says of unknown counters, checked."""
    if on_unknown not in ("error", "ignore"):
        msg = f"on_unknown={on_unknown!r} is not known; accepted: error, ignore"
        raise SettingError(msg)
    return ", on_unknown=ignore" if on_unknown == "ignore" else ""
