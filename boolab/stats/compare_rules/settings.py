"""The settings that are compared, and ready-made choices of one of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from boolab.core.types import Scope
from boolab.errors import SettingError
from boolab.io.checks import repr_of
from boolab.limits.catalog import max_steps
from boolab.limits.function_rule import AnyRule, as_rules, is_function
from boolab.limits.stop import StopRule
from boolab.stats.compare_rules.judged import Judged, judge_recordings
from boolab.stats.finding import pairs
from boolab.stats.intervals import check_confidence
from boolab.whatif.grid import settings_of
from boolab.whatif.recordings import Recorded, as_recorded
from boolab.whatif.rule_matrix import Rule

Rules: TypeAlias = (
    AnyRule | Iterable[AnyRule | None] | Mapping[str, Iterable[Any]] | Mapping[Callable[..., StopRule], Iterable[Any]]
)
"""Rules, or functions of the run so far; or values by axis, of which all combinations are settings; or thresholds by
the function of a rule."""
Choice: TypeAlias = StopRule | Mapping[str, Any] | None
"""A rule; or a value by axis, such as {"max_steps": 20}; or None for no limit."""

NO_LIMIT = "no limit"


class RuleSettings(NamedTuple):
    """Settings as rules, each once; of a grid, also the value of each axis (None is off)."""

    rules: tuple[Rule, ...]
    axes: tuple[str, ...] = ()
    values: tuple[tuple[Any, ...], ...] = ()


def listed_settings(source: Rules, name: str = "rules") -> RuleSettings:
    """Settings as they are given; `SettingError` if there are none, or one is not known."""
    if isinstance(source, Mapping):
        settings = _settings_of_mapping(source, name)
    else:
        rules: object = [source] if isinstance(source, StopRule) or is_function(source) else source
        if isinstance(rules, str) or not isinstance(rules, Iterable):
            raise _unknown_rules_error(name, source)
        entries = [*rules]
        of_functions = iter(as_rules(filter(is_function, entries), name))
        settings = RuleSettings(tuple(next(of_functions) if is_function(entry) else entry for entry in entries))
    for rule in settings.rules:
        if rule is not None and not isinstance(rule, StopRule):
            raise _unknown_rules_error(name, rule)
    if not settings.rules:
        raise _unknown_rules_error(name, source)
    first = {label_of(rule): index for index, rule in reversed([*enumerate(settings.rules)])}
    indices = sorted(first.values())
    return settings._replace(
        rules=tuple(settings.rules[index] for index in indices),
        values=tuple(settings.values[index] for index in indices) if settings.values else (),
    )


def rule_of(choice: object) -> Rule:
    """What a chooser returns, as a rule; `SettingError` if it is none."""
    if choice is None or isinstance(choice, StopRule):
        return choice
    if isinstance(choice, Mapping):
        return listed_settings({name: [value] for name, value in choice.items()}, "choose").rules[0]
    raise SettingError(
        f"choose returned {choice!r}: expected a stop rule such as bl.max_steps(20), a setting such as "
        "{'max_steps': 20}, or None for no limit"
    )


def label_of(rule: Rule) -> str:
    """A rule as text."""
    return NO_LIMIT if rule is None else str(rule)


def _unknown_rules_error(name: str, source: object) -> SettingError:
    return SettingError(
        f"{name}={source!r}: expected stop rules such as [bl.max_steps(20), bl.doom_loop(3)], a grid such as "
        "{'max_steps': range(5, 50)}, or thresholds by the function of a rule such as {bl.doom_loop: [3, 4]}"
    )


def _settings_of_mapping(source: Mapping[Any, Iterable[Any]], name: str) -> RuleSettings:
    functions = [callable(key) for key in source]
    if functions and all(functions):
        calls = pairs(source, lambda function: source[function])
        return RuleSettings(tuple(_make_rule(function, value) for function, value in calls))
    if any(functions):
        raise _unknown_rules_error(name, dict(source))
    settings = settings_of(source)
    if settings.agents:
        raise SettingError(f"{name}: limits for one agent alone are those of counterfactual; expected axes without @")
    by_name = {axis.name: axis for axis in settings.axes}
    combinations = itertools.product(*(range(len(by_name[axis].values)) for axis in settings.named))
    rules: list[Rule] = []
    values = []
    for combination in combinations:
        of_axis = dict(zip(settings.named, combination, strict=True))
        members = [axis.rules[of_axis[axis.name]] for axis in settings.axes if of_axis[axis.name] < axis.size]
        rules.append(_combine_rules(members))
        values.append(tuple(by_name[axis].values[value_index] for axis, value_index in of_axis.items()))
    return RuleSettings(tuple(rules), settings.named, tuple(values))


def _make_rule(function: Callable[..., StopRule], value: object) -> StopRule:
    arguments = value if isinstance(value, tuple) else (value,)
    try:
        return function(*arguments)
    except TypeError as error:
        name = getattr(function, "__name__", function)
        msg = f"{name} with {repr_of(value)}: {error}; a tuple is several arguments, such as {{bl.cycle: [(2, 3)]}}"
        raise SettingError(msg) from None


def _combine_rules(members: Sequence[StopRule]) -> Rule:
    combined: Rule = None
    for rule in members:
        combined = rule if combined is None else combined | rule
    return combined


Chooser: TypeAlias = Callable[[Any], Choice]
"""A function that takes recorded runs, as they were given (runs, or a frame), and returns a rule or a setting."""

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class ReadyChooser:
    """A chooser that needs only what rules make of each run, so that it is evaluated once for all parts of the data."""

    name: str  # what it does, in a few words
    candidates: tuple[Rule, ...]  # the rules that it chooses from, if they do not depend on the runs
    pick: Callable[[Judged], Rule]  # the choice, from runs under the candidates
    keep: float | None = None  # the share of successes that it is to keep; None if it promises none

    def __call__(self, runs: Recorded, scope: Scope = "auto") -> Rule:
        """The choice by these runs."""
        return self.pick(judge_recordings(as_recorded(runs), self.candidates, scope=scope))


def smallest_cap(keep: float = 0.95) -> ReadyChooser:
    """A chooser of the smallest step cap that keeps a share of the successes.

    The cap is that of the runs that it is given: on other runs it may keep less. `bl.recommend` gives a cap that keeps
    so much of future successes at a confidence.

    Args:
        keep: The share of successes to keep, between 0 and 1.

    Returns:
        A function of recorded runs that returns `max_steps(n)`; None, no limit, where no run succeeded.

    Raises:
        SettingError: if keep is not between 0 and 1.

    Example:
        >>> import boolab as bl
        >>> looks = [{"tool_calls": [{"name": "ls", "arguments": {"page": n}}]} for n in range(20)]
        >>> models = [bl.ScriptedModel([*looks[:n], "Done."]) for n in range(1, 11)]
        >>> runs = [bl.run_sync(None, "Look", model=model) for model in models]
        >>> [str(bl.stats.smallest_cap(keep)(runs)) for keep in (0.8, 0.95)]
        ['max_steps(9)', 'max_steps(11)']
    """
    check_confidence(keep, "keep")

    def pick(judged_runs: Judged) -> Rule:
        least_caps = np.sort(judged_runs.peak[judged_runs.success == 1]) + 1
        if not len(least_caps):
            return None
        return max_steps(max(1, int(least_caps[math.ceil(keep * len(least_caps) - _ROUNDING) - 1])))

    return ReadyChooser(f"the smallest cap that keeps {keep:.0%}", (), pick, keep)


def percentile_cap(share: float = 0.75) -> ReadyChooser:
    """A chooser of the step cap at a percentile of the steps of all runs, whether they succeed or not.

    At 0.75 it is the blind truncation of arXiv 2510.16786: the whole number at or below the linear 75th percentile.

    Args:
        share: The share of the runs, between 0 and 1.

    Returns:
        A function of recorded runs that returns `max_steps(n)`; None, no limit, where there is no run.

    Raises:
        SettingError: if share is not between 0 and 1.

    Example:
        >>> import boolab as bl
        >>> looks = [{"tool_calls": [{"name": "ls", "arguments": {"page": n}}]} for n in range(20)]
        >>> models = [bl.ScriptedModel([*looks[:n], "Done."]) for n in range(1, 11)]
        >>> runs = [bl.run_sync(None, "Look", model=model) for model in models]
        >>> str(bl.stats.percentile_cap()(runs))
        'max_steps(8)'
    """
    check_confidence(share, "share")

    def pick(judged_runs: Judged) -> Rule:
        return max_steps(max(1, math.floor(np.quantile(judged_runs.steps, share)))) if judged_runs.n_runs else None

    return ReadyChooser(f"the cap at the {100 * share:g}th percentile of the steps", (), pick)


def best_rule(rules: Rules, keep: float = 0.95) -> ReadyChooser:
    """A chooser of the setting that saves most steps of those that keep a share of the successes.

    No limit is always one of the settings. Of settings that save the same, it takes the one that keeps more; of those,
    the first.

    Args:
        rules: Rules; a grid such as `{"max_steps": range(5, 50), "doom_loop": [3, None]}`; or thresholds by the
            function of a rule: see `frontier`.
        keep: The share of successes to keep, between 0 and 1.

    Returns:
        A function of recorded runs that returns one of the rules; None, no limit, where no run succeeded, or no rule
        keeps so much and saves a step.

    Raises:
        SettingError: if keep is not between 0 and 1, or there is no rule.

    Example:
        >>> import boolab as bl
        >>> looks = [{"tool_calls": [{"name": "ls", "arguments": {"page": n}}]} for n in range(20)]
        >>> models = [bl.ScriptedModel([*looks[:n], "Done."]) for n in range(1, 11)]
        >>> runs = [bl.run_sync(None, "Look", model=model) for model in models]
        >>> str(bl.stats.best_rule({bl.max_steps: range(5, 12), bl.doom_loop: [3, 4, 5]}, keep=0.8)(runs))
        'max_steps(9)'
    """
    check_confidence(keep, "keep")
    rule_list = (None, *(rule for rule in listed_settings(rules).rules if rule is not None))

    def pick(judged_runs: Judged) -> Rule:
        kept_sums = judged_runs.matrix.kept_lower.sum(axis=0)
        saved = judged_runs.matrix.saved_steps.sum(axis=0, dtype=np.int64)
        successes = int((judged_runs.success == 1).sum())
        fine = np.flatnonzero(kept_sums >= keep * successes - _ROUNDING) if successes else np.array([0])
        return judged_runs.rules[int(min(fine, key=lambda column: (-saved[column], -kept_sums[column], column)))]

    return ReadyChooser(f"the best of {len(rule_list):,} settings that keep {keep:.0%}", rule_list, pick, keep)
