"""The sentences of the desk: why a unit is asked for, what is shown so far, and how many more answers it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from boolab.core.text import count
from boolab.display.numbers import floor_percent, level, percent
from boolab.limits.table import LIMITS
from boolab.stats.desk.design import DeskDesign, DeskPlan
from boolab.stats.desk.state import DeskState, OpenUnit, ValueState

_QUARTER: Final = 0.25


def why_in_words(unit: OpenUnit, design: DeskDesign, noun: str) -> str:
    """Why a unit is asked for: it is shown only once it has its answer, which must not depend on it."""
    if unit.is_long:
        return f"{LIMITS[unit.axis].with_value(unit.value)} would stop it"
    if design.pi == 1:
        return f"all {noun}s are asked for"
    share = "a quarter" if design.pi == _QUARTER else percent(design.pi)
    return f"one of {share} of the shorter {noun}s, drawn by chance"


def more_in_words(state: DeskState) -> str:
    """How many more answers it takes: about, and at most."""
    if not state.max_answers:
        return "no more answers"
    return f"about {state.current.expected_answers:,} more, at most {state.max_answers:,}"


def value_in_words(value: ValueState, design: DeskDesign) -> str:
    """What the answers show of a value so far."""
    limit = LIMITS[value.axis].with_value(value.value)
    limit = limit[:1].upper() + limit[1:]
    keep, sure = level(design.keep), f"({level(design.confidence)} confidence)"
    losses = f"{count(value.successes, 'success', 'successes')}, {value.n_lost:,} of them lost"
    if value.verdict == "yes":
        return f"{limit} keeps at least {keep} {sure}: {losses}."
    if value.verdict == "no":
        return f"{limit} keeps less than {keep} {sure}: {losses}."
    if value.verdict == "undecided":
        return f"{limit} is not shown to keep {keep}: all answers are in ({losses}), and new ones cannot change it."
    if value.verdict == "waiting":
        return f"{limit} is not tested before the looser one."
    if value.kept_at_least:
        so_far = f"{limit} keeps at least {floor_percent(value.kept_at_least)} {sure}"
    else:
        so_far = f"Of {LIMITS[value.axis].with_value(value.value)} nothing is shown yet"
    if not value.max_answers:
        return f"{so_far}: {losses}; it waits for {design.end or 0:,} units."
    return f"{so_far}; to show {keep} takes about {value.expected_answers:,} more."


def plan_in_words(plan: DeskPlan, design: DeskDesign, noun: str, looser: float | None = None) -> Iterator[str]:
    """The sentences before the first question; `looser` is a first value to propose."""
    axis, values = next(iter(design.values.items()))
    first = LIMITS[axis].with_value(values[0])
    first = first[:1].upper() + first[1:]
    yield f"{first} takes about {plan.expected:,} answers; all values take at most {plan.max_answers:,}."
    if plan.is_mostly_long:
        yield (
            f"It would stop {percent(plan.long_share)} of the {noun}s. If more than half of them are long failures, "
            f"the desk is no help: begin with {'a looser value' if looser is None else LIMITS[axis].with_value(looser)}"
            ", or label by the verdicts of a benchmark."
        )
