"""What is fixed before the first question: the values, the share of short units, the order, and which units are drawn.

None of it looks at an outcome, or at evidence of one: values come from lengths, coins and positions from a seed and the
prints of the units. That is why these functions have no outcomes among their arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from boolab.errors import SettingError
from boolab.stats.desk.marks import marks_up_to
from boolab.stats.intervals import check_confidence
from boolab.stats.kept_share import shares_of
from boolab.whatif.step_table import Flags, Ints

SUCCESS_SHARE: Final = 0.6
"""The share of successes that is expected where nothing is known of it."""
_FEW_SUCCESSES: Final = 100
_MANY_UNITS: Final = 1000
_SHARE: Final = 0.25
_SMALL_SHARE: Final = 0.1
_QUANTILES: Final = (0.97, 0.93, 0.88, 0.8, 0.7, 0.55)
"""The lengths that are proposed as values; at first, 3% of the units are long."""
_MOSTLY_LONG: Final = 0.5
_LOOSER: Final = 0.75


@dataclass(frozen=True, slots=True)
class DeskDesign:
    """What is asked at the desk.

    Attributes:
        values: The values of each axis, from loose to tight; the first axis has half of the error.
        keep: The share of successes to keep.
        confidence: That of all verdicts together, but for the bounds.
        pi: The share of the short units that are asked for.
        end: The number of units at which the record ends; None for the first time that all have their answers.
    """

    values: Mapping[str, Sequence[Any]]
    keep: float = 0.95
    confidence: float = 0.95
    pi: float = 0.25
    end: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Raise `SettingError` for what cannot be asked."""
        check_confidence(self.keep, "keep")
        check_confidence(self.confidence)
        if not 0 < self.pi <= 1:
            raise SettingError(f"pi={self.pi!r}: expected the share of the short units to ask for, such as 0.25")
        if not self.values or not all(self.values.values()):
            msg = "there is no value to ask about: expected some for each axis, such as {'max_steps': [60, 45, 30]}"
            raise SettingError(msg)

    def error_of(self, axis: str) -> float:
        """The part of the error that an axis has."""
        shares = dict(zip(self.values, shares_of(len(self.values)), strict=True))
        return round(1 - self.confidence, 12) * shares[axis]

    def question(self, unit: str) -> dict[str, Any]:
        """The question as the header of a file of labels has it; `unit` is "turn" or "run"."""
        axes = {axis: list(values) for axis, values in self.values.items()}
        if len(axes) == 1:
            axis_and_values: dict[str, Any] = {"axis": next(iter(axes)), "values": next(iter(axes.values()))}
        else:
            axis_and_values = {"axis": list(axes), "values": axes}
        end = {} if self.end is None else {"end": self.end}
        shares = {"keep": float(self.keep), "confidence": float(self.confidence), "pi": float(self.pi)}
        return {**axis_and_values, **shares, "unit": unit, **end}


def design_of(question: Mapping[str, Any]) -> DeskDesign:
    """The design of a question in the header of a file of labels.

    Raises:
        SettingError: if it is none.

    Example:
        >>> design_of(DeskDesign({"max_steps": [60, 45]}).question("turn")).values
        {'max_steps': [60, 45]}
    """
    try:
        axis, values = question["axis"], question["values"]
        axes = {str(axis): list(values)} if isinstance(axis, str) else {str(name): list(values[name]) for name in axis}
        numbers = [float(question[name]) for name in ("keep", "confidence", "pi")]
        end = question.get("end")
        return DeskDesign(axes, *numbers, end=None if end is None else int(end))
    except (KeyError, TypeError, ValueError) as error:
        raise SettingError(f"question={dict(question)!r}: it is none that the desk asks ({error!r})") from error


class DeskUnits(NamedTuple):
    """The units of the desk, in its order; nothing here is an outcome.

    Attributes:
        prints: The print of each unit.
        is_long: Whether each value of an axis, from loose to tight, would stop the unit: shape (units, values).
        coin: Whether the coin of the unit fell: it is asked for although it is short.
    """

    prints: Sequence[str]
    is_long: Mapping[str, Flags]
    coin: Flags

    def is_asked(self) -> Flags:
        """Whether each unit is asked for by some value."""
        return np.asarray(self.coin | np.any([long.any(axis=1) for long in self.is_long.values()], axis=0))


class DeskPlan(NamedTuple):
    """What the first question will take, before it is put.

    Attributes:
        expected: How many answers the first value takes if nothing is lost; no more than it may take.
        max_answers: How many all values of all axes may take: all long units, and all whose coin fell.
        long_share: The share of units that the first value would stop.
        is_mostly_long: Whether that is more than half: if most of them are failures, the desk is no help.
    """

    expected: int
    max_answers: int
    long_share: float
    is_mostly_long: bool


def plan_answers(design: DeskDesign, units: DeskUnits, success_share: float = SUCCESS_SHARE) -> DeskPlan:
    """How many answers the desk takes.

    Args:
        design: What is asked.
        units: The units.
        success_share: The share of units that are expected to be short successes.

    Returns:
        The plan for the first value of the first axis.
    """
    axis = next(iter(design.values))
    long = units.is_long[axis][:, 0]
    long_share = float(long.mean()) if len(long) else 0.0
    first = first_mark(design.keep, design.pi, design.error_of(axis))
    expected = first / (design.pi * success_share) * (long_share + design.pi * (1 - long_share))
    first_most = int((long | units.coin).sum())
    return DeskPlan(
        min(round(expected), first_most), int(units.is_asked().sum()), long_share, long_share > _MOSTLY_LONG
    )


def first_mark(keep: float, pi: float, error: float) -> int:
    """The number of successes to be asked for, none of them lost, until the first yes.

    Example:
        >>> [first_mark(0.95, pi, 0.05) for pi in (0.25, 0.1, 1)]
        [23, 11, 86]
    """
    n_max = 64
    while not (marks_up_to(n_max, keep, pi, error).yes_losses >= 0).any():
        n_max *= 2
    return int(np.argmax(marks_up_to(n_max, keep, pi, error).yes_losses >= 0))


def choose_share(n_units: int, success_share: float = SUCCESS_SHARE) -> float:
    """The share of the short units to ask for: all where few successes are likely, fewer of many units.

    Example:
        >>> [choose_share(n) for n in (150, 300, 1000)]
        [1.0, 0.25, 0.1]
    """
    if n_units * success_share < _FEW_SUCCESSES:
        return 1.0
    return _SMALL_SHARE if n_units >= _MANY_UNITS else _SHARE


def propose_values(lengths: npt.ArrayLike) -> list[int]:
    """Caps to ask about, from loose to tight: quantiles of the lengths of the units, and nothing of their outcomes.

    Example:
        >>> propose_values(range(1, 101))
        [97, 93, 88, 80, 70, 55]
    """
    peaks = np.asarray(lengths, dtype=np.int64)
    quantiles = np.quantile(peaks, _QUANTILES) if len(peaks) else np.zeros(0)
    return sorted({int(value) for value in quantiles if 0 < int(value) < peaks.max()}, reverse=True)


def looser_value(lengths: npt.ArrayLike) -> int:
    """A first cap that stops at most a quarter of the units.

    Example:
        >>> looser_value([1, 2, 3, 9, 9, 9, 9, 20])
        9
    """
    return int(np.quantile(np.asarray(lengths, dtype=np.int64), _LOOSER, method="inverted_cdf"))


def draw_units(clusters: Sequence[Hashable], draws: npt.ArrayLike, drawn_clusters: Collection[Hashable] = ()) -> Ints:
    """One unit of each session, or task, drawn at random.

    The draw of a unit must not be its position in the order, else large clusters would come first, and
    the first answers would be about them.

    Args:
        clusters: The session, or task, of each unit.
        draws: A number drawn for each unit, from its print and the seed.
        drawn_clusters: Clusters of which a unit is in the order already.

    Returns:
        The rows of the units that were drawn: the least of each cluster that is not among these.

    Example:
        >>> draw_units(["a", "b", "a", "c"], [0.5, 0.1, 0.3, 0.2], drawn_clusters={"c"}).tolist()
        [1, 2]
    """
    row_of: dict[Hashable, int] = {}
    numbers = np.asarray(draws)
    for row in np.argsort(numbers, kind="stable").tolist():
        if clusters[row] not in drawn_clusters:
            row_of.setdefault(clusters[row], row)
    return np.array(sorted(row_of.values()), dtype=np.int64)


def check_order(positions: Sequence[float], lines: Sequence[int]) -> None:
    """Raise `SettingError` if the order of a file is not the one that its seed gives.

    Args:
        positions: The position of each unit by its print and the seed, in the order of the file.
        lines: How many units each line of units has.
    """
    ends = np.cumsum([0, *lines])
    for number, (start, end) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True), 1):
        if (np.diff(np.asarray(positions[start:end], dtype=float)) < 0).any():
            raise SettingError(
                f"line {number} of units is not in the order of its seed: another order than the drawn one decides "
                "what the answers show, so they show nothing. Restore the line, or begin a new file"
            )
