"""The settings that are compared: a grid as that of `counterfactual`, rules, or functions of rules with thresholds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from boolab.errors import SettingError
from boolab.io.checks import repr_of
from boolab.limits.function_rule import AnyRule, as_rules, is_function
from boolab.limits.stop import StopRule
from boolab.whatif.grid import settings_of
from boolab.whatif.rule_matrix import Rule

Rules: TypeAlias = (
    AnyRule | Iterable[AnyRule | None] | Mapping[str, Iterable[Any]] | Mapping[Callable[..., StopRule], Iterable[Any]]
)
"""Rules, or functions of the run so far; or values by axis, of which all combinations are settings; or thresholds by
the function of a rule."""
Choice: TypeAlias = StopRule | Mapping[str, Any] | None
"""A rule; or a value by axis, such as {"max_steps": 20}; or None for no limit."""

NO_LIMIT = "no limit"


class Settings(NamedTuple):
    """Settings as rules, each once; of a grid, also the value of each axis (None is off)."""

    rules: tuple[Rule, ...]
    axes: tuple[str, ...] = ()
    values: tuple[tuple[Any, ...], ...] = ()


def listed_settings(given: Rules, name: str = "rules") -> Settings:
    """Settings as they are given; `SettingError` if there are none, or one is not known."""
    if isinstance(given, Mapping):
        made = _of_mapping(given, name)
    else:
        rules: object = [given] if isinstance(given, StopRule) or is_function(given) else given
        if isinstance(rules, str) or not isinstance(rules, Iterable):
            raise _not_known(name, given)
        listed = [*rules]
        of_functions = iter(as_rules(filter(is_function, listed), name))
        made = Settings(tuple(next(of_functions) if is_function(one) else one for one in listed))
    for rule in made.rules:
        if rule is not None and not isinstance(rule, StopRule):
            raise _not_known(name, rule)
    if not made.rules:
        raise _not_known(name, given)
    first = {label_of(rule): place for place, rule in reversed([*enumerate(made.rules)])}
    kept = sorted(first.values())
    return made._replace(
        rules=tuple(made.rules[place] for place in kept),
        values=tuple(made.values[place] for place in kept) if made.values else (),
    )


def rule_of(choice: object) -> Rule:
    """What a chooser returns, as a rule; `SettingError` if it is none."""
    if choice is None or isinstance(choice, StopRule):
        return choice
    if isinstance(choice, Mapping):
        return listed_settings({name: [value] for name, value in choice.items()}, "choose").rules[0]
    msg = (
        f"choose returned {choice!r}: expected a stop rule such as bl.max_steps(20), a setting such as "
        "{'max_steps': 20}, or None for no limit"
    )
    raise SettingError(msg)


def label_of(rule: Rule) -> str:
    """A rule as text."""
    return NO_LIMIT if rule is None else str(rule)


def _not_known(name: str, given: object) -> SettingError:
    return SettingError(
        f"{name}={given!r}: expected stop rules such as [bl.max_steps(20), bl.doom_loop(3)], a grid such as "
        "{'max_steps': range(5, 50)}, or thresholds by the function of a rule such as {bl.doom_loop: [3, 4]}"
    )


def _of_mapping(given: Mapping[Any, Iterable[Any]], name: str) -> Settings:
    functions = [callable(key) for key in given]
    if functions and all(functions):
        return Settings(tuple(_made(function, value) for function, values in given.items() for value in values))
    if any(functions):
        raise _not_known(name, dict(given))
    settings = settings_of(given)
    if settings.agents:
        msg = f"{name}: limits for one agent alone are those of counterfactual; expected axes without @"
        raise SettingError(msg)
    by_name = {axis.name: axis for axis in settings.axes}
    places = itertools.product(*(range(len(by_name[axis].values)) for axis in settings.named))
    rules: list[Rule] = []
    values = []
    for place in places:
        of_axis = dict(zip(settings.named, place, strict=True))
        members = [axis.rules[of_axis[axis.name]] for axis in settings.axes if of_axis[axis.name] < axis.size]
        rules.append(_any_of(members))
        values.append(tuple(by_name[axis].values[at] for axis, at in of_axis.items()))
    return Settings(tuple(rules), settings.named, tuple(values))


def _made(function: Callable[..., StopRule], value: object) -> StopRule:
    arguments = value if isinstance(value, tuple) else (value,)
    try:
        return function(*arguments)
    except TypeError as error:
        name = getattr(function, "__name__", function)
        msg = f"{name} with {repr_of(value)}: {error}; a tuple is several arguments, such as {{bl.cycle: [(2, 3)]}}"
        raise SettingError(msg) from None


def _any_of(members: Sequence[StopRule]) -> Rule:
    found: Rule = None
    for rule in members:
        found = rule if found is None else found | rule
    return found
