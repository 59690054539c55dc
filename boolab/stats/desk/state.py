"""The state of the desk: the next unit to ask for, what the answers show of each value, and how many more it takes.

It is a function of the design, the units in their order, and the answers so far. Values of an axis are tested from
loose to tight on one order and one set of coins, up to the first that is not a yes (a fixed sequence, as in
`boolab.stats.recommend.fixed_sequence`). Units after one without an answer wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from boolab.errors import SettingError
from boolab.stats.desk.design import SUCCESS_SHARE, DeskDesign, DeskUnits
from boolab.stats.desk.marks import FAILURE, SUCCESS, UNSURE, judge_records, kept_so_far, marks_up_to
from boolab.whatif.step_table import Flags, Ints

Verdict: TypeAlias = Literal["yes", "no", "open", "undecided", "waiting"]
"""Of a value: it keeps enough; it keeps less; it needs answers (or units); the whole record decides nothing; a looser
value is not a yes."""
OUTCOMES: Final[Mapping[str, int]] = {"failure": FAILURE, "success": SUCCESS, "unknown": UNSURE}
MAX_SHOWN: Final = 10
"""So many units, from the first without an answer on, may be shown in any order."""
_PRIOR_ANSWERS: Final = 4
Ends: TypeAlias = Mapping[tuple[str, Any], int]
"""The number of units at which the test at the end was made, by axis and value."""


class ValueState(NamedTuple):
    """What the answers show of one value.

    Attributes:
        axis: Its axis.
        value: The value.
        verdict: See `Verdict`.
        n_answers: How many of its units have their answers, up to the first that has none.
        successes: How many of these are successes; an unsure one counts if it is long.
        n_lost: How many of those it loses.
        kept_at_least: The lower bound of the share that it keeps, at all looks together, for this value by itself, from
            the same answers.
        end: The number of units at which the test at the end was made; None if it was not.
        expected_answers: How many more answers a yes takes, if nothing more is lost; 0 if it is decided.
        max_answers: How many more answers it may take.
    """

    axis: str
    value: Any
    verdict: Verdict
    n_answers: int = 0
    successes: int = 0
    n_lost: int = 0
    kept_at_least: float = 0.0
    end: int | None = None
    expected_answers: int = 0
    max_answers: int = 0


class OpenUnit(NamedTuple):
    """A unit to ask for.

    Attributes:
        position: Its position in the order, from 0.
        print: Its print.
        axis: The axis of the value that asks for it.
        value: That value.
        is_long: Whether it is asked for because the value would stop it; else its coin fell.
    """

    position: int
    print: str
    axis: str
    value: Any
    is_long: bool


@dataclass(frozen=True, slots=True)
class DeskState:
    """The state of the desk.

    Attributes:
        design: What is asked.
        values: The state of each value, by axis, from loose to tight.
        units: The next units to ask for, in order; at most ten, and none if nothing is open.
        n_answers: How many units of the order have an answer.
        max_answers: How many more answers all values that are not decided may take together.
    """

    design: DeskDesign
    values: tuple[ValueState, ...]
    units: tuple[OpenUnit, ...]
    n_answers: int
    max_answers: int

    @property
    def unit(self) -> OpenUnit | None:
        """The next unit to ask for."""
        return self.units[0] if self.units else None

    @property
    def current(self) -> ValueState:
        """The value that the next question is about; else the last one that was tested."""
        tested = [value for value in self.values if value.verdict != "waiting"]
        unit = self.unit
        return next(
            (v for v in tested if unit is not None and (v.axis, v.value) == (unit.axis, unit.value)), tested[-1]
        )

    @property
    def setting(self) -> dict[str, Any]:
        """The tightest value of each axis that is shown to keep enough; None if there is none."""
        tight: dict[str, Any] = dict.fromkeys(self.design.values)
        return tight | {value.axis: value.value for value in self.values if value.verdict == "yes"}

    @property
    def ends(self) -> dict[tuple[str, Any], int]:
        """The values whose test at the end was made, and the number of units then."""
        return {(value.axis, value.value): value.end for value in self.values if value.end is not None}


def desk_state(design: DeskDesign, units: DeskUnits, answers: Mapping[str, str], ends: Ends | None = None) -> DeskState:
    """The state of the desk after some answers.

    Args:
        design: What is asked.
        units: The units, in the order of the desk.
        answers: The outcome of units by their print: "success", "failure", or "unknown" for an unsure answer.
        ends: The tests at the end that were made before units were appended: see `replay`.

    Returns:
        The state.

    Raises:
        SettingError: if the values of an axis do not run from loose to tight.
    """
    outcomes = np.array([OUTCOMES[answers[name]] if name in answers else -1 for name in units.prints], dtype=np.int64)
    values: list[ValueState] = []
    open_units: dict[int, OpenUnit] = {}
    is_needed = np.zeros(len(outcomes), dtype=bool)
    for axis, axis_values in design.values.items():
        is_long = units.is_long[axis]
        if (is_long[:, :-1] & ~is_long[:, 1:]).any():
            raise SettingError(f"{axis}={list(axis_values)!r}: expected values from loose to tight")
        is_open = True
        for column, value in enumerate(axis_values):
            if not is_open:
                values.append(ValueState(axis, value, "waiting"))
                continue
            end = (ends or {}).get((axis, value), design.end)
            state, positions = _value_state(design, axis, value, is_long[:, column], units.coin, outcomes, end)
            values.append(state)
            is_open = state.verdict == "yes"
            if state.verdict == "open":
                is_needed |= units.coin | is_long[:, -1]
            for position in positions.tolist():
                unit = OpenUnit(position, units.prints[position], axis, value, bool(is_long[position, column]))
                open_units.setdefault(position, unit)
    return DeskState(
        design,
        tuple(values),
        tuple(open_units[position] for position in sorted(open_units)[:MAX_SHOWN]),
        int((outcomes >= 0).sum()),
        int((is_needed & (outcomes < 0))[: design.end].sum()),
    )


def replay(design: DeskDesign, steps: Iterable[tuple[DeskUnits, Mapping[str, str]]]) -> DeskState:
    """The state of a desk to which units were appended.

    The test at the end is made once, the first time that all units of a value have their answers: units that are
    appended later are no second chance.

    Args:
        design: What is asked.
        steps: The units of the order and the answers, just before each time that units were appended, and now.

    Returns:
        The state now.
    """
    ends: dict[tuple[str, Any], int] = {}
    state = None
    for units, answers in steps:
        state = desk_state(design, units, answers, ends)
        ends |= state.ends
    if state is None:
        msg = "the desk has no units"
        raise SettingError(msg)
    return state


def _value_state(
    design: DeskDesign, axis: str, value: object, is_long: Flags, coin: Flags, outcomes: Ints, end: int | None
) -> tuple[ValueState, Ints]:
    """The state of a value, and the positions of the next units that it asks for."""
    is_long, coin, outcomes = is_long[:end], coin[:end], outcomes[:end]
    is_asked = is_long | coin
    missing = np.flatnonzero(is_asked & (outcomes < 0))
    stop = int(missing[0]) if len(missing) else len(outcomes)
    keep, pi, error = design.keep, design.pi, design.error_of(axis)
    judgement = judge_records(outcomes[:stop], is_long[:stop], is_asked[:stop], keep, pi, error)
    is_complete = not len(missing) and len(outcomes) >= (end or 1)
    verdict: Verdict = "yes" if judgement.is_yes else "no" if judgement.is_no else "open"
    made_at = None
    if verdict == "open" and is_complete:
        verdict, made_at = ("yes" if judgement.is_end_yes else "undecided"), len(outcomes)
    last = int(judgement.position) + 1 if verdict != "open" and made_at is None else stop
    is_success = is_asked[:last] & ((outcomes[:last] == SUCCESS) | ((outcomes[:last] == UNSURE) & is_long[:last]))
    n_answers, successes, n_lost = (
        int(is_asked[:last].sum()),
        int(is_success.sum()),
        int((is_success & is_long[:last]).sum()),
    )
    is_open = verdict == "open"
    max_answers = len(missing) if is_open else 0
    rate = (successes + _PRIOR_ANSWERS * _success_rate(is_long, pi)) / (n_answers + _PRIOR_ANSWERS)
    expected = _successes_to_yes(successes, n_lost, keep, pi, error) / rate if is_open else 0
    state = ValueState(
        axis=axis,
        value=value,
        verdict=verdict,
        n_answers=n_answers,
        successes=successes,
        n_lost=n_lost,
        kept_at_least=kept_so_far(outcomes[:last], is_long[:last], is_asked[:last], pi, error),
        end=made_at,
        expected_answers=min(int(np.ceil(expected)), max_answers),
        max_answers=max_answers,
    )
    window = stop + np.flatnonzero(is_asked[stop:])[:MAX_SHOWN]
    return state, window[outcomes[window] < 0] if is_open else missing[:0]


def _success_rate(is_long: Flags, pi: float) -> float:
    """The share of answers that are short successes, as it is expected before there are answers."""
    long_share = float(is_long.mean()) if len(is_long) else 0.0
    return pi * SUCCESS_SHARE / (long_share + pi * (1 - long_share))


def _successes_to_yes(successes: int, n_lost: int, keep: float, pi: float, error: float) -> int:
    """How many more successes a yes takes, if none of them is lost."""
    n_max = 2 * successes + 64
    while True:
        yes_losses = marks_up_to(n_max, keep, pi, error).yes_losses
        marks = np.flatnonzero(yes_losses[successes + 1 :] >= n_lost)
        if len(marks):
            return int(marks[0]) + 1
        n_max *= 2
