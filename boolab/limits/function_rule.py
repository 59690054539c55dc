"""Stop rules that are Python functions of the beginning of a run, as `boolab bench` takes them.

A function is asked after each step that counts, with all steps since the counters started, and its rule stops the run
at the next boundary once it has answered True. A step holds all that is on record of it, so a live run and its
recording give the same answers. What is no part of the steps, the names of the agent and of the model, is not given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Final, NoReturn, TypeAlias

from boolab.core.types import Step, StopReason
from boolab.errors import SettingError
from boolab.io.checks import repr_of
from boolab.limits.call_identity import ObservedCall
from boolab.limits.stop import StopRule, Threshold


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of a run: all that a function sees when it is asked whether to stop.

    Attributes:
        agent: The agent's name.
        model: The model's name.
        steps: Steps 1 to k, complete, with the results of their calls.
    """

    agent: str
    model: str
    steps: tuple[Step, ...]


StopFunction: TypeAlias = Callable[[Prefix], bool | float]
"""Called after each step but the last one of a run, with a prefix that grows by one step. True stops the run there, and
it is not called for the run again. A number is a score: the threshold on it is chosen on training runs."""


AnyRule: TypeAlias = StopRule | Callable[[Any], bool]
"""A stop rule, or a function of the beginning of a run that decides whether to stop it."""


def as_rule(candidate: object, option: str) -> StopRule:
    """A stop rule, also of a function of a prefix that answers True or False."""
    if isinstance(candidate, StopRule):
        return candidate
    if is_function(candidate):
        detector = FunctionAnswer(candidate)  # type: ignore[arg-type] # it is callable
        return Threshold(detector.reason, detector.name, 1, detector.label, detector=detector)
    raise SettingError(f"{option}: {repr_of(candidate)} is not a stop rule: expected {_describe_expected(candidate)}")


def as_rules(candidates: Iterable[object], option: str) -> list[StopRule]:
    """Stop rules, also of functions; `SettingError` if one is neither, or two functions have one name."""
    rules = [as_rule(candidate, option) for candidate in candidates]
    functions: dict[str, object] = {}
    for detector in chain.from_iterable(rule.detectors() for rule in rules):
        if isinstance(detector, FunctionAnswer) and functions.setdefault(detector.name, detector) != detector:
            raise SettingError(f"{option}: two functions are called {detector.label}: give each a name, with def")
    return rules


def is_function(candidate: object) -> bool:
    """Whether this is a function that can be asked: not a class, a learner or a coroutine function."""
    if (
        isinstance(candidate, StopRule | type)
        or not callable(candidate)
        or hasattr(candidate, "fit")
        or _makes_rules(candidate)
    ):
        return False
    return not inspect.iscoroutinefunction(candidate)


def _makes_rules(candidate: object) -> bool:
    module = str(getattr(candidate, "__module__", ""))
    return module.startswith("boolab.limits.") and module != __name__


def _describe_expected(candidate: object) -> str:
    if isinstance(candidate, str) and ":" in candidate:
        module, _, name = candidate.rpartition(":")
        module = module.removesuffix(".py").replace("/", ".")
        return f"the rule or function itself: from {module} import {name}"
    if _makes_rules(candidate) and not isinstance(candidate, type):
        return f"what it makes, such as {getattr(candidate, '__name__', 'max_steps')}(20)"
    if hasattr(candidate, "fit"):
        learner = f"{candidate.__name__}()" if isinstance(candidate, type) else "it"
        return f"what {learner} learned, as in {learner}.fit(runs)"
    if inspect.iscoroutinefunction(candidate):
        return "a plain function, not an async one"
    if isinstance(candidate, type):
        return f"one of its instances, or a function, such as {candidate.__name__}()"
    return (
        "such as bl.max_steps(20) | bl.tool_budget(50), or a function of the run so far, such as "
        "lambda prefix: len(prefix.steps) >= 20"
    )


class _Beginning:
    """The steps since the counters started, as a `Prefix` without names."""

    __slots__ = ("_name", "steps")

    def __init__(self, name: str, steps: tuple[Step, ...]) -> None:
        self._name = name
        self.steps = steps

    def __getattr__(self, attribute: str) -> NoReturn:
        if attribute in ("agent", "model"):
            raise SettingError(
                f"{self._name} reads prefix.{attribute}, which a rule is not given: it sees prefix.steps alone. Keep "
                f"runs apart instead, as in by={attribute!r}"
            )
        raise AttributeError(f"a prefix has no attribute {attribute!r}; it has: steps")


_START: Final[tuple[Any, bool]] = ((), False)


@dataclass(frozen=True)
class FunctionAnswer:
    """Whether a function has answered True: 1, else 0."""

    function: StopFunction

    reason: ClassVar[StopReason] = "stuck"
    least: ClassVar[int] = 1
    start: ClassVar[tuple[tuple[Step, ...], bool]] = _START

    @property
    def label(self) -> str:
        """The function's name."""
        qualified_name = getattr(self.function, "__qualname__", "") or type(self.function).__name__
        return str(qualified_name).replace("<locals>.", "")

    @property
    def name(self) -> str:
        """The name of its counter: that of the function."""
        return f"function:{getattr(self.function, '__module__', '')}.{self.label}"

    def fold(self, state: tuple[tuple[Step, ...], bool], call: ObservedCall) -> tuple[Any, int | None]:  # noqa: ARG002
        """The state as it is: the answer is not known before the step is complete."""
        return state, 1 if state[1] else None

    def extend(self, state: tuple[tuple[Step, ...], bool], step: Step) -> tuple[Any, int]:
        """The state and the count after a step."""
        steps, stopped = state
        if stopped:
            return state, 1
        steps = (*steps, step)
        beginning: Any = _Beginning(self.label, steps)
        try:
            answer: Any = self.function(beginning)
        except SettingError:
            raise
        except Exception as error:
            raise SettingError(f"{self.label} after step {step.index}: {type(error).__name__}: {error}") from error
        answer = answer.item() if hasattr(answer, "item") else answer  # of NumPy
        if not isinstance(answer, bool):
            hint = ""
            if isinstance(answer, int | float):
                hint = ": a rule needs a threshold on a score, as in lambda prefix: score(prefix) >= 0.9"
            answer_text = f"{self.label}: it gave {answer!r} after step {step.index}"
            raise SettingError(f"{answer_text}: expected True or False{hint}")
        return ((), True) if answer else (steps, False), int(answer)
