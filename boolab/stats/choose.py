"""How a setting is chosen: axes tested in a fixed order, each from loose to tight, stopping at the first failure.

The first bad value of an axis is accepted with a probability of at most 1 - level (fixed-sequence testing: Maurer,
Hothorn and Lehmacher 1995). Each axis is a sequence of its own, so they share the error that is allowed: with A axes
the level of each test is 1 - (1 - confidence) / A (Bonferroni).

An axis that is set after another starts from a value that the same data chose, which has to be paid for. The tightest
value that loses k of n successes truly loses a share that is distributed as Beta(k + 1, n - k) (Wilks 1941); a further
axis, tightened to lose no more of them, makes that Beta(k + 2, n - k - 1), and so on: each axis beyond the first costs
as much as one more lost success. So every test counts one loss more for each of them, and how many axes can be set at
all follows from the number of successes alone, before anything is looked at. (Campi and Garatti, SIAM J. Optim. 19
(2008) 1211-1230, bound the general case in the same way.)

All of this takes it that tasks to come are like those on record: nobody can promise anything for a kind of task that
is rare and long, and that the record has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from boolab.detectors import Identities
from boolab.grid import Grid, Settings, settings_of
from boolab.ledger import Flags, Ledger
from boolab.stats.intervals import ClusterBootstrap, lower_bound
from boolab.tally import tally_of


class Trial(NamedTuple):
    """One test: that a value of an axis keeps enough, on top of the values that were chosen before."""

    axis: str
    value: Any
    lost: int
    share: float
    low: float
    passed: bool


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        keep: The share of successes to keep.
        confidence: One-sided.
        measure: What to save: steps, tool_calls, tokens or cost.
        order: The axes in the order in which they are set.
        grid: The values of each axis; None for all whole numbers.
        identity: What makes two calls the same.
        seed: Of the bootstrap.
    """

    keep: float
    confidence: float
    measure: str
    order: tuple[str, ...]
    grid: Grid | None
    identity: Identities | None
    seed: int

    def settings(self, values: dict[str, Sequence[Any]]) -> Settings:
        """The settings of a grid; without any axis, the one that limits nothing."""
        return settings_of(values or {self.order[0]: [None]}, identity=self.identity)


@dataclass(slots=True)
class Choice:
    """What was chosen, and on what grounds.

    Attributes:
        setting: The value of each axis, None for off.
        qualifies: Whether there is a setting at all.
        low: The lower bound of its retained share; where there is none, the bound of losing nothing at all.
        axes: How many axes could be set.
        level: The confidence of each test.
        successes: How many there are.
        lost: How many of them it loses; where there is no setting, the best value that was tried.
        effective: How many independent successes the bound rests on.
        tasks: In how many clusters the successes are.
        tests: All tests, in order.
    """

    setting: dict[str, Any]
    qualifies: bool
    low: float
    axes: int
    level: float
    effective: float
    tasks: int
    successes: int = 0
    lost: int = 0
    tests: list[Trial] = field(default_factory=list)


def choose(units: Ledger, clusters: Any, question: Question) -> Choice:  # noqa: ANN401 - labels of any type
    """The setting of least expected use among those that are shown to keep enough.

    Args:
        units: Runs, or turns as runs.
        clusters: R: what makes units dependent, such as their task.
        question: What is asked.

    Returns:
        The choice.
    """
    good = base_of(units)
    bootstrap = ClusterBootstrap(pd.Series(clusters).array[good], seed=question.seed)
    ones = np.ones(int(good.sum()))
    nothing_lost = bootstrap.retained(ones, ones, question.confidence)
    n = nothing_lost.effective
    axes = axes_that_can_be_set(n, question)
    level = level_of(axes, question)
    setting: dict[str, Any] = dict.fromkeys(question.order)
    low = float(lower_bound(max(n - max(axes - 1, 0), 0), n, level)) if n else float("nan")
    choice = Choice(setting, axes > 0, low, axes, level, n, nothing_lost.clusters, len(ones))
    alive = np.ones(len(ones), dtype=bool)
    for name in question.order[:axes]:
        alive = _set(name, alive, units, good, bootstrap, choice, question)
    choice.lost = int((~alive).sum())
    if choice.tests and not any(test.passed for test in choice.tests):
        best = max(choice.tests, key=lambda test: test.low)
        choice.qualifies, choice.low, choice.lost = False, best.low, best.lost
    return choice


def level_of(axes: int, question: Question) -> float:
    """The confidence of each test, so that all axes together keep to the error that is allowed."""
    return 1 - (1 - question.confidence) / max(axes, 1)


def base_of(units: Ledger) -> Flags:
    """R: which units are successes that ended by themselves: what a setting keeps or loses."""
    return np.asarray((units.success == 1) & units.ended)


def axes_that_can_be_set(effective: float, question: Question) -> int:
    """How many axes can be set, by the number of independent successes alone."""
    count = 0
    while count < len(question.order) and effective > count:
        if not lower_bound(effective - count, effective, level_of(count + 1, question)) >= question.keep:
            break
        count += 1
    return count


def _set(
    name: str, alive: Flags, units: Ledger, good: Flags, bootstrap: ClusterBootstrap, choice: Choice, question: Question
) -> Flags:
    """Set one axis: which successes are still kept."""
    values = candidates(name, units, question)
    settings = question.settings({name: values})
    axis = settings.axes[0]
    peak = units.peak(axis.counter)[good]
    accepted: list[Any] = []
    last: Trial | None = None
    tight_to_loose = axis.values[: axis.size]  # noqa: PD011 - no pandas
    for rule, value in zip(reversed(axis.rules), reversed(tight_to_loose), strict=True):
        kept = alive & (peak < rule.threshold)
        lost = int((~kept).sum())
        if last is None or lost != last.lost:
            share, low = _bound(bootstrap, kept, choice)
            last = Trial(name, value, lost, share, low, low >= question.keep)
        else:
            last = last._replace(value=value)
        choice.tests.append(last)
        if not last.passed:
            break
        accepted.append(value)
    if not accepted:
        return alive
    chosen = {other: [value] for other, value in choice.setting.items() if value is not None}
    wanted = question.settings({**chosen, name: [*accepted, None]})
    place = next(n for n, axis in enumerate(wanted.axes) if axis.name == name)
    sums = tally_of(units, wanted, only=[question.measure])[question.measure][0]
    options = wanted.axes[place].values  # noqa: PD011 - no pandas
    spent = np.moveaxis(sums, place, 0).reshape(len(options), -1)[:, 0]
    best = int(np.flatnonzero(spent == spent.min())[-1])  # of those that save as much, the loosest; off is the last
    value = options[best]
    if value is None:
        return alive
    choice.setting[name] = value
    rule = wanted.axes[place].rules[best]
    kept = alive & (peak < rule.threshold)
    choice.low = _bound(bootstrap, kept, choice)[1]
    return kept


def _bound(bootstrap: ClusterBootstrap, kept: Flags, choice: Choice) -> tuple[float, float]:
    """The share that is kept, and its lower bound, with a loss more for each axis beyond the first."""
    found = bootstrap.retained(kept.astype(float), np.ones(len(kept)), choice.level)
    n, extra = choice.effective, choice.axes - 1
    exact = lower_bound(max(n * float(found.share) - extra, 0), n, choice.level)
    return float(found.share), min(float(exact), float(found.low) - extra / n)


def candidates(name: str, units: Ledger, question: Question) -> list[Any]:
    """The values that an axis may take."""
    if question.grid is not None:
        return list(question.grid[name])
    least = 2 if name == "doom_loop" else 1
    counter = question.settings({name: [least]}).axes[0].counter
    highest = int(units.peak(counter).max(initial=0))
    return list(range(least, max(least, highest + 1) + 1))  # the last of them never fires


def sums_of(units: Ledger, setting: dict[str, Any], question: Question) -> dict[str, int]:
    """The tally of one setting."""
    settings = question.settings({name: [value] for name, value in setting.items() if value is not None})
    place = (0, *(0 for _ in settings.axes))
    return {name: int(values[place]) for name, values in tally_of(units, settings).items()}


def held_out(units: Ledger, clusters: Any, question: Question, folds: int) -> dict[str, int] | None:  # noqa: ANN401
    """How settings do on units that were not used to choose them: sums over folds of whole clusters.

    Returns:
        The sums of `sums_of` over all folds, each under the setting chosen without it, and `chosen`, in how many folds
        there was one; None if there are too few clusters to split.
    """
    codes = pd.factorize(pd.Series(clusters))[0]
    count = int(codes.max(initial=-1)) + 1
    if count < folds:
        return None
    fold = np.random.default_rng(question.seed).permutation(count) % folds
    total: dict[str, int] = {"chosen": 0}
    for number in range(folds):
        out: Flags = np.asarray(fold[codes] == number)
        rest = choose(units.where(~out), pd.Series(clusters).array[~out], question)
        total["chosen"] += rest.qualifies
        for name, value in sums_of(units.where(out), rest.setting, question).items():
            total[name] = total.get(name, 0) + value
    return total
