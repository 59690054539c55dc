"""Stop rules.

The boundary law
----------------
A stop rule is a predicate over integer counters at a *step boundary*. Boundary k (k = 0, 1, 2, ...) is the top of the
loop after k completed tool steps. All rules are evaluated there, and only there. The step that crosses a limit is
completed, and the record holds by how much it crossed: the overshoot. A run whose model calls no more tools is
`finished` before any rule is evaluated again. So a budget that the last tool step meets exactly stops the run before
its final text, and a run that finishes on its fifth response is not stopped by a cap of five.

A rule reads counters by name and nothing else: no clock, no network, no messages. So the same predicate takes one
number in the live loop and a whole column offline, and a recording can be evaluated under settings that it never ran
with.

Counters
--------
`steps`, `tool_calls`, `input_tokens`, `output_tokens`, `tokens` (input + output), `cost` (micro-dollars), `elapsed`
(milliseconds, read once per boundary), and one for each detector that a rule watches, by the detector's name:
`repeat_streak:IDENTITY`, `error_streak`, `cycle:2:canonical`, `fresh_tokens`. They are integers, because float sums
differ between a running `+=` and a grouped cumulative sum. Every rule is `counter >= threshold`; a strict `> n` is
`>= n + 1`.

A detector of calls counts after each call that got a result, in the order of the calls, within a step and across steps.
Its counter at a boundary is the largest count after a call of the step before it; unknown if one of these counts is. If
the step has no such call, it is the count after the latest call of the turn. So a threshold that is reached within a
step stops the run at the boundary after it, even if a later call of the step has ended the streak, which then does not
continue. All calls of that step are executed: what stops a call itself is a guard with `check="call"`. A detector of
whole steps gives its counter at the end of each. The repeat detector of a policy can be set to read the count after the
last call alone (`Detectors.reached_at`), as BooCode's does.

A counter that the source does not record is None (NA in a column), and logic is three-valued: `True | unknown` is
True, `False & unknown` is False. If the result is unknown, a live run ends with `error` (`UnknownCounter`), unless the
rule has `on_unknown="ignore"`, which counts unknown as False.

Compounds
---------
`a | b` fires when one of its members is true, with the reason of the first true one from the left. `a & b` fires when
both are true, with the reason of the first.

>>> import boolab as bl
>>> from boolab.limits.ladder import Progress
>>> rule = bl.max_steps(20) | (bl.tool_budget(50) & bl.error_streak(3)) | bl.max_cost(0.50)
>>> rule.verdict(Progress(steps=20, tool_calls=64, error_streak=3, cost=0)).also_fired
('tool_budget',)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from boolab.core.types import Stop, StopReason
from boolab.errors import SettingError, UnknownCounter
from boolab.io.checks import check_whole, repr_of
from boolab.limits.detector import Detector, check_detector

Truth: TypeAlias = Any
"""Whether a rule is true: True, False or None (unknown), or a nullable boolean column of them."""
OnUnknown: TypeAlias = Literal["error", "ignore"]

MAX_DEPTH = 100
"""How deep `|` and `&` may be nested in one another."""


Counter: TypeAlias = Any
"""The value of a counter: an int, None where it is not known, or a nullable column of them."""


class Counters(Protocol):
    """Counters by name: an int or None each (`Progress`), or a nullable column each (a DataFrame)."""

    def __getitem__(self, name: str, /) -> Counter:
        """The counter of that name."""
        ...


class StopRule:
    """A predicate over counters: `max_steps(20) | tool_budget(50)`. Combine with `|` and `&`; do not subclass.

    The functions of `boolab.limits.catalog` make them.

    Example:
        >>> import boolab as bl
        >>> from boolab.limits.ladder import Progress
        >>> rule = bl.max_steps(20) | bl.tool_budget(50)
        >>> rule.verdict(Progress(steps=4, tool_calls=50)).reason
        'tool_budget'
        >>> rule.verdict(Progress(steps=4, tool_calls=3)) is None
        True
    """

    __slots__ = ()

    def __call__(self, counters: Counters) -> Truth:
        """Whether the rule is true: True, False or None (unknown), or a nullable boolean column of them."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        msg = "a stop rule is neither true nor false by itself; combine rules with | and &, not with `or` and `and`"
        raise TypeError(msg)

    def __or__(self, other: StopRule) -> AnyOf:
        if not isinstance(other, StopRule):
            raise _no_rule(self, "|", other)
        return AnyOf((*self.alternatives, *other.alternatives))

    def __and__(self, other: StopRule) -> AllOf:
        if not isinstance(other, StopRule):
            raise _no_rule(self, "&", other)
        return AllOf((self, other))

    def __ror__(self, other: object) -> AnyOf:
        raise _no_rule(self, "|", other)

    def __rand__(self, other: object) -> AllOf:
        raise _no_rule(self, "&", other)

    def __invert__(self) -> StopRule:
        msg = f"~({self}): a rule has no opposite; combine rules with | and &, as in bl.doom_loop(3) & bl.max_steps(5)"
        raise TypeError(msg)

    def __repr__(self) -> str:
        """The rule as its tables name it."""
        return str(self)

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
        """The stop at this boundary, or None to continue.

        Args:
            counters: The counters at the boundary, by name.

        Returns:
            The stop, with its reason and the other rules that were true; or None.

        Raises:
            UnknownCounter: if the result depends on a counter that is not known.
        """
        true = self(counters)
        if true is None:
            unknown = sorted({leaf.counter for leaf in self.leaves() if counters[leaf.counter] is None})
            msg = (
                f"{self} cannot be decided: {', '.join(unknown)} unknown (on_unknown='ignore' counts it as not reached)"
            )
            raise UnknownCounter(msg)
        if not true:
            return None
        first, *other_thresholds = (rule.decisive(counters) for rule in self.alternatives if rule(counters))
        return Stop(
            first.reason,
            counters["steps"],
            str(first),
            first.threshold,
            counters[first.counter],
            tuple(rule.reason for rule in other_thresholds),
        )


@dataclass(frozen=True, slots=True, repr=False)
class Threshold(StopRule):
    """`counter >= threshold`: the part that every rule is made of."""

    reason: StopReason
    counter: str
    threshold: int
    label: str
    on_unknown: OnUnknown = "error"
    detector: Detector | None = None

    def __call__(self, counters: Counters) -> Truth:
        value = counters[self.counter]
        if value is None:
            return None if self.on_unknown == "error" else False
        is_reached = value >= self.threshold
        if self.on_unknown == "ignore" and hasattr(is_reached, "fillna"):
            return is_reached.fillna(value=False)
        return is_reached

    def leaves(self) -> Iterator[Threshold]:
        yield self

    def decisive(self, counters: Counters) -> Threshold:  # noqa: ARG002 - there is but one
        return self

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True, repr=False)
class _Compound(StopRule):
    """Rules joined into one."""

    rules: tuple[StopRule, ...]
    depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", _depth_over(self.rules))

    def leaves(self) -> Iterator[Threshold]:
        for rule in self.rules:
            yield from rule.leaves()


@dataclass(frozen=True, slots=True, repr=False)
class AnyOf(_Compound):
    """True when one of `rules` is; the reason is that of the first true one."""

    def __call__(self, counters: Counters) -> Truth:
        true = self.rules[0](counters)
        for rule in self.rules[1:]:
            other = rule(counters)
            true = other if true is False else _disjunction(true, other)
        return true

    @property
    def alternatives(self) -> tuple[StopRule, ...]:
        return self.rules

    def decisive(self, counters: Counters) -> Threshold:
        return next(rule.decisive(counters) for rule in self.rules if rule(counters))

    def __str__(self) -> str:
        return " | ".join(map(str, self.rules))


@dataclass(frozen=True, slots=True, repr=False)
class AllOf(_Compound):
    """True when all of `rules` are; the reason is that of the first."""

    def __call__(self, counters: Counters) -> Truth:
        true = self.rules[0](counters)
        for rule in self.rules[1:]:
            true = _conjunction(true, rule(counters))
        return true

    def __and__(self, other: StopRule) -> AllOf:
        if not isinstance(other, StopRule):
            raise _no_rule(self, "&", other)
        return AllOf((*self.rules, other))

    def decisive(self, counters: Counters) -> Threshold:
        return self.rules[0].decisive(counters)

    def __str__(self) -> str:
        return " & ".join(f"({rule})" if isinstance(rule, AnyOf) else str(rule) for rule in self.rules)


def _no_rule(rule: StopRule, sign: str, other: object) -> TypeError:
    """The error about something that is joined with a rule."""
    right = f"expected stop rules, as in bl.doom_loop(3) {sign} bl.max_steps(5)"
    return TypeError(f"unsupported operand in {rule} {sign} {repr_of(other)}: {right}")


def _depth_over(rules: Sequence[StopRule]) -> int:
    """The depth of a compound of these rules."""
    depth = 1 + max(rule.depth for rule in rules)
    if depth > MAX_DEPTH:
        msg = (
            f"{depth} levels of rules nested in one another: expected at most {MAX_DEPTH}; "
            "`a | b | c` is one level, however many rules it has"
        )
        raise SettingError(msg)
    return depth


def _disjunction(a: Truth, b: Truth) -> Truth:
    if a is None or b is None:
        return True if a or b else None
    return a | b


def _conjunction(a: Truth, b: Truth) -> Truth:
    if a is None or b is None:
        return False if a is False or b is False else None
    return a & b


def stop_when(detector: Detector, n: int, on_unknown: OnUnknown = "error", *, label: str | None = None) -> StopRule:
    """Stop when, at a boundary, the count of a detector is n or more.

    Args:
        detector: Any detector, those of `boolab.limits.detectors.wrappers` too.
        n: The threshold.
        on_unknown: What an unknown count means: `error`, or `ignore` (not reached).
        label: The name of the rule in tables; by default it is made from the detector's name.

    Raises:
        SettingError: if n is not an integer, or smaller than makes sense for the detector, or the detector
            lacks an attribute or has a stop reason that does not exist.

    Example:
        >>> import boolab as bl
        >>> from boolab.limits.detectors.wrappers import PerMessage
        >>> str(bl.detectors.stop_when(PerMessage(bl.detectors.RepeatStreak("ordered")), 3))
        'stop_when(per_message(repeat_streak:ordered), 3)'
    """
    check_detector(detector)
    ending = unknown_option(on_unknown)
    threshold = check_whole(n, label.partition("(")[0] if label else detector.name, detector.least)
    label = label or f"stop_when({detector.name}, {n}{ending})"
    return Threshold(detector.reason, detector.name, threshold, label, on_unknown, detector)


def detector_rule(name: str, detector: Detector, n: int, *options: str, on_unknown: OnUnknown = "error") -> StopRule:
    """The rule that a function called `name` makes of a detector: `stop_when` with that name in its label."""
    label = f"{name}({', '.join((repr_of(n), *options))}{unknown_option(on_unknown)})"
    return stop_when(detector, n, on_unknown, label=label)


def unknown_option(on_unknown: OnUnknown) -> str:
    """The part of a rule's label about unknown counters; a `SettingError` if there is no such option."""
    if on_unknown not in ("error", "ignore"):
        raise SettingError(f"on_unknown={on_unknown!r} is not known; accepted: error, ignore")
    return ", on_unknown=ignore" if on_unknown == "ignore" else ""
