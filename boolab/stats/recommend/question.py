"""The checked arguments of a recommendation, and what savings are counted in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from boolab.core.run import Run
from boolab.core.types import MICRO, Identities
from boolab.display.numbers import level, money
from boolab.errors import SettingError
from boolab.harnesses.policy import Policy
from boolab.limits.table import MEASURES, MeasureName
from boolab.stats.recommend.fixed_sequence import JOINT_AXES, Dependence
from boolab.whatif.grid import Grid, GridAxis, Settings, settings_of
from boolab.whatif.policy_limits import AXIS_OF, LIMIT_OF
from boolab.whatif.step_table import Ledger

Amounts: TypeAlias = npt.NDArray[np.int64]
MOSTLY: Final = 0.5
"""The share of steps that have to report what is to be saved: the savings of few are not those of all."""


@dataclass(frozen=True)
class DeskAnswer:
    """What the desk shows.

    Attributes:
        runs: The runs, with the labels of the units that were asked about, and no others.
        values: The values of each axis, from loose to tight.
        shown: How many values of each axis, from the loosest, are shown to keep enough.
        keep: The share of successes to keep.
        confidence: That of all verdicts together.
        successes_per_label: For how many successes on record a labelled one stands: short ones were drawn.
        sentences: The verdict on each value that was tested, and how many answers there are.
    """

    runs: Sequence[Run]
    values: Mapping[str, Sequence[Any]]
    shown: Mapping[str, int]
    keep: float
    confidence: float
    successes_per_label: float
    sentences: tuple[str, ...]


class Budget(NamedTuple):
    """What a unit may cost in micro-dollars, and the share of units that are to cost no more."""

    amount: int
    share: float

    @property
    def in_words(self) -> str:
        """The amount, such as "$0.50"."""
        return money(self.amount / MICRO)


@dataclass(frozen=True, slots=True)
class Question:
    """The checked arguments of `recommend`, for one group.

    `measure` is what to save: steps, tool_calls, tokens or cost. `order` are the axes; the first has half of the error.
    `grid` has the values of each axis; None for all whole numbers. `policy` is the harness whose limits are set, where
    it evaluates them; its further limits are in force too. `error` is the group's part of the error: all parts add up
    to 1 - `confidence`. `success_value` is what a lost success costs, in the unit of `measure`; None for what a success
    costs on record. `desk` is what was shown there, in place of tests here. `budget` is what is asked in place of a
    share of successes to keep.
    """

    keep: float
    confidence: float
    measure: str
    order: tuple[str, ...]
    grid: Grid | None
    identity: Identities | None
    seed: int
    dependence: Dependence = "tasks"
    policy: Policy | None = None
    error: float = 0.05
    success_value: float | None = None
    desk: DeskAnswer | None = None
    budget: Budget | None = None

    @property
    def plural(self) -> str:
        """What is saved, in the plural."""
        return "cost" if self.measure == "cost" else MEASURES[self.measure].plural

    @property
    def per_unit(self) -> int:
        """The whole units in one of the measure: a dollar has a million, all else one."""
        return MICRO if self.measure == "cost" else 1

    def settings(self, values: dict[str, Iterable[Any]]) -> Settings:
        """The settings of a grid; without any axis, the one with no limits except the policy's own."""
        return settings_of(values or {self.order[0]: [None]}, self.policy, self.identity)

    def axis(self, name: str, values: Iterable[Any]) -> GridAxis:
        """One axis with these values."""
        return next(axis for axis in self.settings({name: values}).axes if axis.name == name)

    def net_gain(self, saved: Amounts, lost: Amounts, spent: int, successes: int) -> Amounts:
        """What settings gain: above 0 if they save more than the successes that they lose are worth.

        By default a success is worth what it costs on record, the even trade: then a setting gains if it saves a larger
        share of what is spent than it loses of the successes. Of settings along a frontier, the one with the largest
        gain is the last one whose step from the one before it beats the trade.

        Args:
            saved: What each saves, in whole units of `measure` (cost in micro-dollars).
            lost: How many successes each loses.
            spent: What all units use without a limit.
            successes: How many successes are on record.

        Returns:
            The gains, in any unit.
        """
        if self.desk is not None:
            estimated = np.rint(successes * self.desk.successes_per_label).astype(np.int64)
            return np.asarray(saved * estimated - lost * spent)
        if self.success_value is None:
            return saved * successes - lost * spent
        value = self.success_value * self.per_unit
        return saved - np.asarray(np.rint(lost * value), dtype=np.int64)


def axes_of(policy: Policy) -> tuple[str, ...]:
    """The axes of a policy that can be recommended, in the order in which they are set."""
    return tuple(name for name in JOINT_AXES if name in policy.order)


def check_policy(policy: Policy, grid: Grid) -> None:
    """Raise `SettingError` if a recording does not show what these limits would do under a policy."""
    limits = {LIMIT_OF.get(name, name): name for name in grid}
    lacks = [axis for limit, axis in limits.items() if limit not in (*policy.order, *AXIS_OF)]
    policy_limits = ", ".join(AXIS_OF.get(name, name) for name in policy.order if name != "guards") or "none"
    if not grid or lacks:
        missing_limit = f"{lacks[0]!r}" if lacks else "a cap, a doom-loop threshold or a tool budget"
        msg = f"policy {policy.name}: it has no limit such as {missing_limit}; its limits: {policy_limits}"
        raise SettingError(msg)
    settings = settings_of({name: [*values, None] for name, values in grid.items()}, policy)
    if not settings.is_ordered:
        raise SettingError(
            f"policy {policy.name}: its cap grows unless {policy.continues.unless}, so a larger cap may stop a run "
            "earlier, and no value can be tested before the next: compare its values with counterfactual(grid=...)"
        )
    if not settings.is_silent:
        raise SettingError(
            f"policy {policy.name}: it sends the model messages or changes its request before it stops, so a recording "
            "does not show what its limits would keep: expected a policy that the model does not notice, or none"
        )


def measure_of(parts: Iterable[Ledger], objective: MeasureName) -> str:
    """What savings are counted in: the objective; where fewer than half of a group's steps have it, tokens or steps."""
    with_steps = [part for part in parts if part.n_steps]
    return next(
        name
        for name in (objective, "tokens", "steps")
        if name == "steps" or all((part.used[name] >= 0).mean() >= MOSTLY for part in with_steps)
    )


def title_of(question: Question) -> str:
    """What a decision is about."""
    confidence = f"at {level(question.confidence)} confidence"
    if question.budget is None:
        return f"Which limits keep {level(question.keep)} of the successes, {confidence}"
    budget = question.budget
    return f"Which limit keeps {level(budget.share)} within {budget.in_words}, {confidence}"
