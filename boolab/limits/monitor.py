"""`Monitor`: a stop rule in a loop that is not boolab's.

It counts with `LadderState`, as the live loop does, so the rule that was scored offline is the rule that runs: the
same counters, at the same boundaries (see `boolab.limits.stop`), with the same reason. It does no I/O and reads no
clock. It holds plain values alone, so it can be pickled between any two calls: a process that lives for one call of a
tool loads it, asks it, and saves it again.

A loop of another package offers one of two places to stop, or both: after the calls of a step were executed (`after`)
and before those of the next one are (`before`). The verdict at a boundary stands from one to the other, so either will
do.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType, TracebackType
from typing import Any, Final, Literal, NamedTuple, ParamSpec, Self, TypeAlias, get_args, overload

from boolab.core.types import Response, Scope, Step, Stop
from boolab.errors import RunStopped, SettingError, near
from boolab.io.checks import check_count, check_whole, repr_of
from boolab.limits.ladder import LadderState, Progress, projected
from boolab.limits.monitor_input import GivenCall, GivenResult, GivenUsage, response_of, results_of
from boolab.limits.stop import StopRule
from boolab.limits.table import COUNTERS, RESPONSE_COUNTERS

Action: TypeAlias = Literal["stop", "nudge", "shadow"]
StepParts: TypeAlias = tuple[Any, ...] | Mapping[str, Any] | None
"""What a function under `Monitor.step` returns: the arguments of `after`, in order or by name; None if the agent made
no calls, so that it is done."""

_P = ParamSpec("_P")


class Verdict(NamedTuple):
    """The answer of a monitor at one place of a loop.

    Attributes:
        action: `continue`; `nudge`: send the model `message`, and continue; or `stop`.
        stop: The rule that is true, with its reason; also in shadow, and beside a nudge. None where none is.
        message: One sentence for the model; "" where there is nothing to say.
    """

    action: Literal["continue", "nudge", "stop"]
    stop: Stop | None = None
    message: str = ""


CONTINUE: Final = Verdict("continue")


class Monitor:
    """A stop rule for any loop: it counts the steps of one run, and decides when to stop.

    Args:
        rule: The rule, such as `bl.max_steps(56) | bl.doom_loop(5)`. An alternative that reads `responses`,
            `tool_steps` or `supersteps` is evaluated at the response.
        action: What happens when the rule is true. `stop`: the verdict is `stop`. `nudge`: it is `nudge` once each
            time that the rule becomes true, with a message for the model. `shadow`: it is always `continue`;
            `first_stop` keeps what would have been the first stop.
        scope: Whether the counters start again with each message of the user (`turn`), or never (`run`).
        at_response: A rule that is evaluated at a response, before its calls are executed, such as
            `policy.response_rule(settings)`. Its counters include the response, as if its calls were executed;
            those of detectors that need the results are unknown there.
        nudge: The message of a nudge; by default a sentence that names the rule.

    Attributes:
        rule: The rule at a boundary; None if there is none.
        at_response: The rule at a response; None if there is none.
        action: What happens when one of them is true.
        scope: Where the counters start again.
        verdict: The verdict at the latest boundary.
        first_stop: The first stop of the run, whatever the action; None if no rule has been true.

    Raises:
        SettingError: if the rule is none, or an option is not one of those above.

    Example:
        >>> import boolab as bl
        >>> monitor = bl.Monitor(bl.max_steps(20) | bl.doom_loop(3))
        >>> for _ in range(4):
        ...     verdict = monitor.after([("grep", {"pattern": "TODO"})], ["no match"])
        ...     if verdict.action == "stop":
        ...         break
        >>> verdict.stop.reason, verdict.stop.step, monitor.counters["tool_calls"]
        ('doom_loop', 3, 3)
        >>> verdict.message
        'Stopped after step 3 by doom_loop(3, canonical). Call no more tools; say what is done and what is missing.'
    """

    __slots__ = (
        "_ladder",
        "_nudge",
        "_thresholds",
        "_true",
        "action",
        "at_response",
        "first_stop",
        "rule",
        "scope",
        "verdict",
    )

    def __init__(
        self,
        rule: StopRule | None,
        action: Action = "stop",
        *,
        scope: Scope = "turn",
        at_response: StopRule | None = None,
        nudge: str = "",
    ) -> None:
        for name, value, choices in (("action", action, get_args(Action)), ("scope", scope, ("turn", "run"))):
            if value not in choices:
                msg = f"Monitor: {name}={repr_of(value)} is not accepted{near(value, choices, 'accepted')}"
                raise SettingError(msg)
        text: object = nudge
        if not isinstance(text, str):
            raise SettingError(f"Monitor: nudge={repr_of(text)}: expected a text")
        self.rule, self.at_response = _split_by_check(rule, at_response)
        self.action = action
        self.scope = scope
        self.first_stop: Stop | None = None
        self._nudge = nudge
        self._thresholds = (
            () if self.rule is None else tuple((leaf.counter, leaf.threshold) for leaf in self.rule.leaves())
        )
        rules = (rule for rule in (self.rule, self.at_response) if rule is not None)
        detectors = dict.fromkeys(chain.from_iterable(rule.detectors() for rule in rules))
        self._ladder = LadderState(tuple(detectors))
        self._begin()

    @property
    def counters(self) -> Mapping[str, int | None]:
        """The counters at the latest boundary, by name; None where one is not known."""
        return MappingProxyType(self._ladder.counters)

    @property
    def steps(self) -> int:
        """How many steps were completed, in the turn or in the run by `scope`: the number of the boundary."""
        return self._ladder.counters["steps"] or 0

    def open_turn(self) -> None:
        """Begin a new turn: a message of the user has come. With `scope="run"` it changes nothing."""
        if self.scope == "turn":
            self._ladder.open_turn(self._ladder.turn + 1, 0)
            self._begin()

    def compacted(self, times: int = 1) -> None:
        """Note that the history was compacted before the next step, for `bl.detectors.compaction_thrash`.

        No counter changes before that step is counted.

        Args:
            times: How often.

        Example:
            >>> import boolab as bl
            >>> monitor = bl.Monitor(bl.detectors.compaction_thrash(2))
            >>> for _ in range(2):
            ...     monitor.compacted()
            ...     verdict = monitor.after([("read", {"path": "a.py"})], ["..."])
            >>> verdict.action, verdict.stop.reason
            ('stop', 'stuck')
        """
        check_whole(times, "Monitor.compacted", 0)
        self._ladder.add_compaction(times)

    def before(self, calls: Iterable[GivenCall], usage: GivenUsage = None) -> Verdict:
        """Evaluate at a response, before its calls are executed. Nothing is counted: `after` does that.

        A request that failed brings no response: then do not call this.

        Args:
            calls: The calls of the response; any that may not run are still among them.
            usage: What the response consumed, for limits on tokens and cost that hold at the response.

        Returns:
            The verdict of the boundary if a rule is true there, that of the rules at the response otherwise. So at a
            nudge, act on this verdict or on that of `after`, not on both.

        Raises:
            UnknownCounter: if a rule depends on a counter that is not known. Not in shadow.
            SettingError: if a call has another form.
        """
        if self.verdict.stop is not None or self.at_response is None:
            return self.verdict
        stop = self._stop(self.at_response, self._project(self.at_response, response_of(calls, usage)))
        return CONTINUE if stop is None else self._verdict(stop, was_true=self._true)

    def after(
        self,
        calls: Iterable[GivenCall],
        results: Sequence[GivenResult],
        usage: GivenUsage = None,
        text: str | None = None,
        elapsed_ms: int | None = None,
    ) -> Verdict:
        """Count a completed step: a response of the model, and the results of its calls.

        Args:
            calls: All calls of the response: `("ls", {"path": "."})`, or a mapping with `name` and `arguments`.
            results: One result for each call: a text, an error, or a pair of text and whether it is an error. None is a
                call that was not executed: it counts nowhere.
            usage: What the response consumed: `{"input_tokens": 1200, "output_tokens": 80}`, `cost` in micro-dollars.
                None is unknown.
            text: What the model wrote before the calls, for detectors that read it.
            elapsed_ms: Milliseconds since the message of the user (with `scope="run"`: since the start of the run);
                None is unknown.

        Returns:
            The verdict at the boundary after this step.

        Raises:
            UnknownCounter: if the rule depends on a counter that is not known. The step is counted all the same. Not in
                shadow.
            SettingError: if a value has another form. The step is not counted then.
        """
        response = response_of(calls, usage, text)
        check_count(elapsed_ms, "Monitor.after: elapsed_ms")
        parsed_results = results_of(results, response)
        self._take(response, parsed_results, elapsed_ms)
        return self.verdict

    def raise_if_stopped(self) -> None:
        """End the block `with monitor:` or `async with monitor:` if the verdict at the latest boundary is `stop`.

        Raises:
            RunStopped: if it is; the block of this monitor takes it in.

        Example:
            >>> import boolab as bl
            >>> with bl.Monitor(bl.max_steps(2)) as monitor:
            ...     while True:
            ...         _ = monitor.after([("ls", {})], ["a.py"])
            ...         monitor.raise_if_stopped()
            >>> monitor.verdict.stop.rule, monitor.steps
            ('max_steps(2)', 2)
        """
        if self.verdict.action == "stop" and self.verdict.stop is not None:
            raise RunStopped(self.verdict.stop, self)

    @overload
    def step(self, function: Callable[_P, Awaitable[StepParts]]) -> Callable[_P, Awaitable[Verdict]]: ...
    @overload
    def step(self, function: Callable[_P, StepParts]) -> Callable[_P, Verdict]: ...
    def step(self, function: Callable[_P, Any]) -> Callable[_P, Any]:
        """Decorate the function that makes one step of a loop, plain or async: it then returns the verdict.

        Where the verdict is `stop` already, the function is not called, so no step can follow a stop.

        Args:
            function: It asks the model, executes the calls, and returns the arguments of `after` as a tuple or a
                dict; None where the model made no calls.

        Returns:
            A function with the same parameters that returns the verdict after the step. Where the step was the last
            one by itself, that is `stop` with the reason `finished`.

        Raises:
            SettingError: if a rule is evaluated at the response, in the middle of a step: ask `before` for it.

        Example:
            >>> import boolab as bl
            >>> monitor = bl.Monitor(bl.max_steps(3))
            >>> @monitor.step
            ... def look(path):
            ...     return [("ls", {"path": path})], ["a.py"]
            >>> while (verdict := look(".")).action != "stop":
            ...     pass
            >>> verdict.stop.reason, monitor.steps
            ('step_cap', 3)
        """
        if self.at_response is not None:
            msg = f"Monitor.step: {self.at_response} is evaluated in the middle of a step: call before() and after()"
            raise SettingError(msg)
        call_method = getattr(function, "__call__", None)  # noqa: B004 - it is looked at: an object may have an async one
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call_method):

            @functools.wraps(function)
            async def asynchronous(*args: _P.args, **kwargs: _P.kwargs) -> Verdict:
                return self.verdict if self.verdict.action == "stop" else self._count(await function(*args, **kwargs))

            return asynchronous

        @functools.wraps(function)
        def plain(*args: _P.args, **kwargs: _P.kwargs) -> Verdict:
            return self.verdict if self.verdict.action == "stop" else self._count(function(*args, **kwargs))

        return plain

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return isinstance(error, RunStopped) and error.monitor is self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return self.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        """One short line."""
        rules = " | ".join(str(rule) for rule in (self.rule, self.at_response) if rule is not None)
        return f"<Monitor {self.action} {rules}: {self.verdict.action} after step {self.steps}>"

    def _count(self, parts: StepParts) -> Verdict:
        if parts is None:
            return Verdict("stop", Stop("finished", self.steps))
        return self.after(**parts) if isinstance(parts, Mapping) else self.after(*parts)

    def _begin(self) -> None:
        self._true = False
        self.verdict = CONTINUE
        self._evaluate(was_true=False)

    def _take(self, response: Response, results: tuple[Any, ...], elapsed_ms: int | None) -> None:
        ladder, rule = self._ladder, self.at_response
        true_before = rule is not None and rule(self._project(rule, response)) is True
        start = None if elapsed_ms is None else 0
        ladder.apply(Step(self.steps + 1, ladder.turn, start, elapsed_ms, None, response, results))
        self._evaluate(was_true=self._true or true_before)
        self._true = true_before or self.verdict.stop is not None

    def _evaluate(self, *, was_true: bool) -> None:
        """Set the verdict at this boundary."""
        self.verdict = CONTINUE
        counters = self._ladder.counters
        # Rules have no negation: while no threshold in it is reached or unknown, the whole rule is false.
        for counter, threshold in self._thresholds:
            value = counters[counter]
            if value is None or value >= threshold:
                stop = None if self.rule is None else self._stop(self.rule, counters)
                if stop is not None:
                    self.verdict = self._verdict(stop, was_true=was_true)
                return

    def _stop(self, rule: StopRule, counters: Progress) -> Stop | None:
        """The stop that a rule gives; in shadow an unknown result is none, as in the live loop."""
        return None if self.action == "shadow" and not rule(counters) else rule.verdict(counters)

    def _verdict(self, stop: Stop, *, was_true: bool) -> Verdict:
        if self.first_stop is None:
            self.first_stop = stop
        return verdict_at(stop, self.action, was_true=was_true, nudge=self._nudge)

    def _project(self, rule: StopRule, response: Response) -> Progress:
        """The counters as they would be, were this response counted and its calls executed."""
        counters = self._ladder.counters_after(response) if rule.detectors() else dict(self._ladder.counters)
        return projected(counters, response)


def verdict_at(stop: Stop, action: Action, *, was_true: bool, nudge: str = "") -> Verdict:
    """The verdict at a boundary where a rule is true, with the message of a nudge."""
    if action == "shadow" or (action == "nudge" and was_true):
        return Verdict("continue", stop)
    if action == "nudge":
        return Verdict("nudge", stop, nudge or f"A limit is reached: {stop.rule}. Finish, or try another way.")
    return Verdict("stop", stop, f"{reason_of(stop)} Call no more tools; say what is done and what is missing.")


def reason_of(stop: Stop) -> str:
    """Why a run was stopped, in one sentence."""
    return f"Stopped {f'after step {stop.step}' if stop.step else 'before the first step'} by {stop.rule}."


def _split_by_check(rule: StopRule | None, at_response: StopRule | None) -> tuple[StopRule | None, StopRule | None]:
    """The rule at a boundary and the one at a response."""
    for candidate in (rule, at_response):
        if candidate is not None and not isinstance(candidate, StopRule):
            raise SettingError(f"Monitor: {candidate!r:.80} is no stop rule: expected one such as bl.max_steps(20)")
    if rule is None and at_response is None:
        msg = "Monitor: there is no rule: expected one such as bl.max_steps(20)"
        raise SettingError(msg)
    boundary: list[StopRule] = []
    response = [] if at_response is None else [*at_response.alternatives]
    for rule_part in () if rule is None else rule.alternatives:
        reads = {leaf.counter for leaf in rule_part.leaves()}
        (response if reads & {*RESPONSE_COUNTERS} else boundary).append(rule_part)
    counters = {*COUNTERS, *RESPONSE_COUNTERS}
    for rule_part in (*boundary, *response):
        for leaf in rule_part.leaves():
            if leaf.detector is None and leaf.counter not in counters:
                raise SettingError(f"Monitor: {leaf} reads {leaf.counter!r}, which no monitor counts")
    return _join_rules(boundary), _join_rules(response)


def _join_rules(rules: list[StopRule]) -> StopRule | None:
    return functools.reduce(lambda first, other: first | other, rules) if rules else None
