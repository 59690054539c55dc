"""What a learned rule sees of a run: numbers that are known after each step, from that step and those before it.

Features are read from folds like a detector's: `start` is its first state, `fold(state, call)` gives the next one
after each call that got a result, and `close(state, response)` at the end of each step. `read` gives a feature's value
from the state. States are tuples that are never changed, so a state can be folded further twice. The live loop and the
offline tables use the same folds in the same order, so they agree.

A value is None where the source does not record what it needs: see `LinearModel` for what a model makes of that.

All amounts without a bound (counts, characters, tokens) are read as `log(1 + x)`, because the step from 1 repeat to 2
means more than the step from 21 to 22, and no single huge result should decide a score. A share is between 0 and 1.

Calls are compared as `boolab.limits.call_identity` does. Whether a call or a result is new is decided on the last
`MEMORY` ones, so that the state and the time of a step have a bound, however long the run is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from boolab.core.redacted import chars_of
from boolab.core.types import REDACTED, Response
from boolab.errors import SettingError, near
from boolab.limits.call_identity import ObservedCall
from boolab.limits.detector import Detector, close_method

MEMORY: Final = 100
"""How many calls and results are remembered to find out whether one is new."""
RECENT: Final = 5
"""How many of the latest calls `recent` features look at."""
MAX_PERIOD: Final = 5
"""The longest cycle that is looked for, as in `boolab.limits.detectors.cycles`."""

State: TypeAlias = tuple[Any, ...]


class FeatureFold(Protocol):
    """A fold over the calls and responses of a run, from whose state several features are read."""

    @property
    def start(self) -> State:
        """The state before the first step."""
        ...

    def fold(self, state: State, call: ObservedCall) -> State:
        """The state after one more call and its result."""
        ...

    def close(self, state: State, response: Response) -> State:
        """The state at the end of the step that began with this response."""
        ...


_Read: TypeAlias = Callable[[State], float | None]

BOOLAB: Final = "own"
"""The source of a feature that was thought of here."""


class Feature(NamedTuple):
    """A number that is known after each step."""

    name: str  # its name in tables and in a rule's file
    fold: str  # the name of the fold that it is read from: a key of `FOLDS`
    read: _Read  # its value, from the state of the fold; None where it is not known
    meaning: str  # what it is, in words
    source: str  # the harness that has a limit on it, in its own words; `BOOLAB` if none is known


class _Pace:
    """Steps, calls, and responses without a call. State: steps, calls, calls of this step, steps without a call."""

    start: State = (0, 0, 0, 0)

    def fold(self, state: State, call: ObservedCall) -> State:  # noqa: ARG002 - as all folds
        steps, calls, step_calls, idle = state
        return steps, calls + 1, step_calls + 1, idle

    def close(self, state: State, response: Response) -> State:  # noqa: ARG002 - as all folds
        steps, calls, step_calls, idle = state
        return steps + 1, calls, 0, 0 if step_calls else idle + 1


class _Repeats:
    """How often the same comes again. `key` is what is compared; None for what equals nothing.

    State: the latest `MEMORY` keys (latest last), all calls, those that were new, how many in a row equal the last,
    how many in a row were not new, whether each of the `RECENT` latest was not new, and for each period from 1 to
    `MAX_PERIOD` how many in a row equal the one that many before.
    """

    start: State = ((), 0, 0, 0, 0, (), (0,) * MAX_PERIOD)

    def __init__(self, key: Callable[[ObservedCall], object]) -> None:
        self._key = key

    def fold(self, state: State, call: ObservedCall) -> State:
        keys, n, new, streak, stale, recent, matches = state
        key = self._key(call)
        is_old = key is not None and key in keys
        if not is_old:
            return (*keys[1 - MEMORY :], key), n + 1, new + 1, 1, 0, (*recent[1 - RECENT :], False), self.start[6]
        streak = streak + 1 if key == keys[-1] else 1
        last_keys = keys[-MAX_PERIOD:]
        length = len(last_keys)
        matches = tuple(
            run + 1 if period <= length and key == last_keys[-period] else 0 for period, run in enumerate(matches, 1)
        )
        return (*keys[1 - MEMORY :], key), n + 1, new, streak, stale + 1, (*recent[1 - RECENT :], True), matches

    def close(self, state: State, response: Response) -> State:  # noqa: ARG002 - as all folds
        return state


class _Errors:
    """Failures. State: calls of known status, those that failed, how many in a row, the latest few, calls."""

    start: State = (0, 0, 0, (), 0)

    def fold(self, state: State, call: ObservedCall) -> State:
        n_known, failed, streak, recent, n = state
        if call.is_error is None:
            return n_known, failed, None, recent, n + 1
        if not call.is_error:
            streak = 0
        elif streak is not None:
            streak += 1
        return n_known + 1, failed + call.is_error, streak, (*recent[1 - RECENT :], call.is_error), n + 1

    def close(self, state: State, response: Response) -> State:  # noqa: ARG002 - as all folds
        return state


class _Lengths:
    """Characters of arguments, results and texts.

    State: for each of them the latest and the sum; calls, steps, the latest few results, and how many results in a row
    were empty.
    """

    start: State = (0, 0, 0, 0, 0, 0, 0, 0, (), 0)

    def fold(self, state: State, call: ObservedCall) -> State:
        _, arguments, _, results, text, texts, calls, steps, recent, empty = state
        argument, result = chars_of(call.arguments), chars_of(call.content)
        empty = 0 if result else empty + 1
        recent = (*recent[1 - RECENT :], result)
        arguments, results = arguments + argument, results + result
        return argument, arguments, result, results, text, texts, calls + 1, steps, recent, empty

    def close(self, state: State, response: Response) -> State:
        argument, arguments, result, results, _, texts, calls, steps, recent, empty = state
        text = chars_of(response.text)
        return argument, arguments, result, results, text, texts + text, calls, steps + 1, recent, empty


class _Tools:
    """Which tools are called. State: the latest tool, calls, changes, how many in a row, the tools so far."""

    start: State = (None, 0, 0, 0, ())

    def fold(self, state: State, call: ObservedCall) -> State:
        last, calls, changes, streak, tools = state
        name = call.name
        if name == last:
            return last, calls + 1, changes, streak + 1, tools
        if name not in tools:
            tools = (*tools, name)[-MEMORY:]
        return name, calls + 1, changes + (last is not None), 1, tools

    def close(self, state: State, response: Response) -> State:  # noqa: ARG002 - as all folds
        return state


class _Tokens:
    """What responses consumed. State: input of the latest, its output, all input, all output; None if unknown."""

    start: State = (0, 0, 0, 0)

    def fold(self, state: State, call: ObservedCall) -> State:  # noqa: ARG002 - as all folds
        return state

    def close(self, state: State, response: Response) -> State:
        _, _, all_in, all_out = state
        input_tokens, output_tokens = response.usage.input_tokens, response.usage.output_tokens
        return (
            input_tokens,
            output_tokens,
            None if all_in is None or input_tokens is None else all_in + input_tokens,
            None if all_out is None or output_tokens is None else all_out + output_tokens,
        )


def _call_key(call: ObservedCall) -> object:
    return None if call.arguments == REDACTED else (call.name, call.normalised(sort=True))


def _both_key(call: ObservedCall) -> object:
    return None if call.arguments == REDACTED else (call.name, call.normalised(sort=True), call.content)


def _result_key(call: ObservedCall) -> object:
    return call.content


FOLDS: Final[Mapping[str, FeatureFold]] = {
    "pace": _Pace(),
    "calls": _Repeats(_call_key),
    "results": _Repeats(_result_key),
    "both": _Repeats(_both_key),
    "errors": _Errors(),
    "lengths": _Lengths(),
    "tools": _Tools(),
    "tokens": _Tokens(),
}
"""The folds, by name."""


def _log(n: float | None) -> float | None:
    return None if n is None else math.log1p(n)


def _mean(total: float, n: int) -> float:
    return total / n if n else 0.0


def _known_share(part: int, n_known: int, calls: int) -> float | None:
    """A share of the calls of known status; None if there are calls and none of them has one."""
    return part / n_known if n_known else None if calls else 0.0


def _amount(name: str, fold: str, read: _Read, meaning: str, source: str = BOOLAB) -> Feature:
    """A feature without an upper bound, read as a log."""
    return Feature(name, fold, lambda state: _log(read(state)), f"log(1 + {meaning})", source)


def _repeats(fold: str, noun: str) -> list[Feature]:
    """The features of what comes again: of calls, results or both."""
    return [
        _amount(f"{fold}_streak", fold, lambda s: s[3], f"{noun} in a row that are the same", "BooCode, opencode"),
        _amount(f"{fold}_old_streak", fold, lambda s: s[4], f"{noun} in a row that are not new"),
        Feature(
            f"{fold}_old_recent",
            fold,
            lambda s: sum(s[5]) / RECENT,
            f"not new, of the last {RECENT} {noun}",
            "crush",
        ),
        Feature(f"{fold}_new_share", fold, lambda s: s[2] / s[1] if s[1] else 1.0, f"new, of all {noun}", BOOLAB),
        _amount(
            f"{fold}_cycle",
            fold,
            lambda s: max(n // p for p, n in enumerate(s[6][1:], 2)),
            f"equal blocks of 2 to {MAX_PERIOD} {noun}, but one",
            "Gemini CLI",
        ),
    ]


_FEATURES: Final = [
    Feature("steps", "pace", lambda s: float(s[0]), "steps so far", "step caps"),
    _amount("log_steps", "pace", lambda s: s[0], "steps so far", "step caps"),
    _amount("calls_per_step", "pace", lambda s: _mean(s[1], s[0]), "calls in a step, on average", "tool budgets"),
    _amount("idle_streak", "pace", lambda s: s[3], "steps in a row without a call", "OpenHands"),
    *_repeats("calls", "calls"),
    *_repeats("results", "results"),
    *_repeats("both", "calls with their results"),
    _amount("error_streak", "errors", lambda s: s[2], "calls in a row that failed", "BooCode"),
    Feature(
        "error_share",
        "errors",
        lambda s: _known_share(s[1], s[0], s[4]),
        "failed, of all calls of known status",
        BOOLAB,
    ),
    Feature(
        "error_recent",
        "errors",
        lambda s: _known_share(sum(s[3]), len(s[3]), s[4]),
        f"failed, of the last {RECENT} calls of known status",
        BOOLAB,
    ),
    _amount("arguments_last", "lengths", lambda s: s[0], "characters of the latest arguments"),
    _amount("arguments_mean", "lengths", lambda s: _mean(s[1], s[6]), "characters of arguments, on average"),
    _amount("result_last", "lengths", lambda s: s[2], "characters of the latest result"),
    _amount("result_mean", "lengths", lambda s: _mean(s[3], s[6]), "characters of results, on average"),
    _amount(
        "result_recent",
        "lengths",
        lambda s: _mean(sum(s[8]), len(s[8])),
        f"characters of the last {RECENT} results, on average",
    ),
    Feature(
        "result_growth",
        "lengths",
        lambda s: math.log1p(s[2]) - math.log1p(_mean(s[3], s[6])),
        "result_last - result_mean",
        BOOLAB,
    ),
    _amount("empty_streak", "lengths", lambda s: s[9], "results in a row that are empty"),
    _amount("text_last", "lengths", lambda s: s[4], "characters of the latest response's text"),
    _amount("text_mean", "lengths", lambda s: _mean(s[5], s[7]), "characters of a response's text, on average"),
    _amount("tool_streak", "tools", lambda s: s[3], "calls in a row of one tool", "opencode"),
    Feature(
        "tool_changes",
        "tools",
        lambda s: _mean(s[2], s[1]),
        "of another tool than the call before, of all calls",
        BOOLAB,
    ),
    _amount("distinct_tools", "tools", lambda s: len(s[4]), "tools that have been called"),
    _amount("input_tokens", "tokens", lambda s: s[0], "input tokens of the latest response"),
    _amount("output_tokens", "tokens", lambda s: s[1], "output tokens of the latest response"),
    _amount("all_output_tokens", "tokens", lambda s: s[3], "output tokens so far"),
]

FEATURES: Final[Mapping[str, Feature]] = {feature.name: feature for feature in _FEATURES}
"""All features, by name."""

DEFAULT: Final[tuple[str, ...]] = tuple(feature.name for feature in _FEATURES if feature.fold != "tokens")
"""The features that a rule learns from if none are named: all that need no token counts."""


class _Counted:
    """A detector as a fold of features: its state, and its count."""

    def __init__(self, detector: Detector) -> None:
        self._fold, self._close = detector.fold, close_method(detector)
        self.start: State = (detector.start, 0)

    def fold(self, state: State, call: ObservedCall) -> State:
        return self._fold(state[0], call)

    def close(self, state: State, response: Response) -> State:
        return state if self._close is None else self._close(state[0], response)


class FeatureReader:
    """The folds that some features need, and the values of these features.

    `detectors`: detectors that are features too, by their names: the log of 1 + their count.
    """

    __slots__ = ("_folds", "_reads", "start")

    def __init__(self, names: Sequence[str], detectors: Iterable[Detector] = ()) -> None:
        detector_by_name = {detector.name: detector for detector in detectors}
        folds: dict[str, FeatureFold] = {}
        reads: list[tuple[str, _Read]] = []
        for name in check_features(names, detector_by_name):
            if name in detector_by_name:
                folds[name] = _Counted(detector_by_name[name])
                reads.append((name, lambda state: _log(state[1])))
            else:
                feature = FEATURES[name]
                folds[feature.fold] = FOLDS[feature.fold]
                reads.append((feature.fold, feature.read))
        indices = {name: index for index, name in enumerate(folds)}
        self._folds = tuple(folds.values())
        self._reads = tuple((indices[fold], read) for fold, read in reads)
        self.start: State = tuple(fold.start for fold in self._folds)

    def fold(self, state: State, call: ObservedCall) -> State:
        """The states of all folds after one more call."""
        return tuple([fold.fold(part, call) for fold, part in zip(self._folds, state, strict=True)])

    def close(self, state: State, response: Response) -> State:
        """The states of all folds at the end of a step."""
        return tuple([fold.close(part, response) for fold, part in zip(self._folds, state, strict=True)])

    def values(self, state: State) -> list[float | None]:
        """The value of each feature at the end of a step; None where it is not known."""
        return [read(state[index]) for index, read in self._reads]


def check_features(names: Sequence[str], detectors: Container[str] = ()) -> tuple[str, ...]:
    """The names of features, each of which exists, once."""
    features = (names,) if isinstance(names, str) else tuple(names)
    if not features:
        msg = "features=(): expected at least one name, such as 'calls_streak'"
        raise SettingError(msg)
    for name in features:
        if name not in FEATURES and name not in detectors:
            msg = f"feature {name!r} is not known{near(name, [*FEATURES]) or '; see bl.stats.features_df()'}"
            raise SettingError(msg)
        if features.count(name) > 1:
            msg = f"feature {name!r} is here twice"
            raise SettingError(msg)
    return features
