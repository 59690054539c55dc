"""Intervals from the branches so far: the gain in successes, what it costs, and the cost of one more success.

The open runs are the population, and their tasks come in one random order. All open runs of a task are branched before
the next task counts, and a task counts only when all tasks before it are complete. So the order is all that is random,
and `boolab.stats.finite_totals` gives intervals that hold at every look.

Where the outcome of a branch is not known (it broke off, or reached the trial's own limit), both ends are kept: the
lower end of an interval counts it as the worst that it can be, the upper end as the best.

What branches cost is what they cost under the trial's own limit. A branch completes the step in which it reaches the
limit, and may ask for a summary, so that the most that it can cost is not known exactly: the limit, and room for a step
and a summary (`_room`). What a branch cost beyond that is known and is part of both ends; then there is no upper end
before all open runs are branched.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from boolab.core.types import MICRO, Run
from boolab.frames.costs import micro_cost, own_cost
from boolab.stats.finite_totals import TotalSequence, total_sequence
from boolab.stats.intervals import Array, Interval
from boolab.trials.openings import Opening, success_of

_COST: Final = "extra_cost_usd"
_ROUNDING: Final = 1e-9
MEASURES: Final = ("gain", "extra_steps", _COST)
BROKEN: Final = frozenset({"error", "aborted", "paused"})
"""How a branch ends that broke off."""


class OpenTask(NamedTuple):
    """The open runs of one task, which are branched together."""

    task: str
    openings: tuple[Opening, ...]


def openings_in(tasks: Iterable[OpenTask]) -> list[Opening]:
    """The open runs of tasks, in their order."""
    return list(chain.from_iterable(task.openings for task in tasks))


class Spread(NamedTuple):
    """The least and the most that a value can be."""

    low: float
    high: float


class Limits(NamedTuple):
    """The most that one branch may add to its run; None where no maximum is known.

    Attributes:
        steps: The step cap under the change.
        cost: The dollars at which a branch is stopped.
        room: The most that a step and a summary are taken to cost, in dollars; None where no cost is known.
    """

    steps: int | None
    cost: float | None
    room: float | None = None


class Looks(NamedTuple):
    """The branches so far.

    Attributes:
        frame: A row for each look, after each task: `tasks`, `branches`, and for each measure that is bounded its
            estimate for all open runs, with `_low` and `_high`. The first row is before any branch.
        unknown: How many branches have an outcome that is not known, by why (see `unknown_because`).
        error: What broke off the first branch that did; "" if none did.
        beyond: How many values went beyond a stated maximum.
        done: How many tasks count.
        gains: The gain of each task that counts, at least and at most.
    """

    frame: pd.DataFrame
    unknown: Counter[str]
    error: str
    beyond: int
    done: int
    gains: tuple[Spread, ...]


def tasks_in_order(openings: Sequence[Opening], seed: int) -> list[OpenTask]:
    """The tasks with open runs, in the one random order of a trial.

    `seed`: the seed of the order; neither the order of the runs nor anything else changes it.
    """
    groups: dict[str, list[Opening]] = {}
    for one in openings:
        if one.outcome == "open":
            groups.setdefault(one.cluster, []).append(one)
    tasks = [
        OpenTask(name, tuple(sorted(group, key=lambda one: one.run.run_id))) for name, group in sorted(groups.items())
    ]
    random.Random(f"boolab trial {seed}").shuffle(tasks)  # noqa: S311 - a draw, not a secret
    return tasks


def looks_of(
    tasks: Sequence[OpenTask],
    branches: Mapping[str, Run],
    limits: Limits,
    *,
    labelled: bool,
    confidence: float,
) -> Looks:
    """What the finished branches show at each look."""
    done = 0
    while done < len(tasks) and all(one.run.run_id in branches for one in tasks[done].openings):
        done += 1
    complete = tasks[:done]
    counts = np.cumsum([0, *(len(task.openings) for task in complete)])
    columns: dict[str, object] = {"tasks": range(done + 1), "branches": counts}
    counted = [(opening, branches[opening.run.run_id]) for opening in openings_in(complete)]
    unknown = Counter(unknown_because(one, branch, limits, labelled=labelled) for one, branch in counted)
    del unknown[""]
    error = next((str(branch.error) for _, branch in counted if branch.stop.reason in BROKEN and branch.error), "")
    beyond = 0
    gains: list[Spread] = []
    record = [opening.run for opening in openings_in(tasks)]
    limits = limits._replace(room=_room([*record, *(branch for _, branch in counted)]))
    for name in MEASURES:
        bounds = [_sum(_range(name, one, limits) for one in task.openings) for task in tasks]
        if any(bound is None for bound in bounds):
            continue
        found: list[Spread] = []
        excess = [0.0]
        for task in complete:
            parts = [_value(name, one, branches[one.run.run_id], limits, labelled=labelled) for one in task.openings]
            beyond += sum(over > _ROUNDING for _, over in parts)
            excess.append(excess[-1] + sum(over for _, over in parts))
            found.append(Spread(sum(part.low for part, _ in parts), sum(part.high for part, _ in parts)))
        gains = found if name == "gain" else gains
        least, most = (np.array([getattr(bound, end) for bound in bounds], float) for end in ("low", "high"))
        low, high = (np.array([getattr(one, end) for one in found], float) for end in ("low", "high"))
        sequence = total_sequence(low, high, least=least, most=most, confidence=confidence, whole=name != _COST)
        middle = _projected(low, high, sequence, len(tasks))
        over = np.array(excess)
        columns[name] = [
            None if value is None else value + more / max(place, 1) * len(tasks)
            for place, (value, more) in enumerate(zip(middle, excess, strict=True))
        ]
        no_end = np.full(len(over), name == _COST) & ((over > _ROUNDING) | (limits.room is None))
        no_end[len(tasks) :] = False
        columns[f"{name}_low"] = sequence.low + over
        columns[f"{name}_high"] = np.where(no_end, np.inf, sequence.high + over)
    frame = pd.DataFrame(columns).astype({name: "Float64" for name in columns if name not in ("tasks", "branches")})
    return Looks(frame.astype({"tasks": "Int64", "branches": "Int64"}), unknown, error, beyond, done, tuple(gains))


def unknown_because(one: Opening, branch: Run, limits: Limits, *, labelled: bool) -> str:
    """Why it is not known what a branch made of a success.

    Returns `broke off`, `no label` (of the branch), `cost_limit` (reached without a success), or `no label on record`;
    "" where it is known.
    """
    success = success_of(branch, labelled=labelled)
    if branch.stop.reason in BROKEN:
        return "broke off"
    if success is None:
        return "no label"
    if _is_cut_short(branch, limits) and not success:
        return "cost_limit"
    return "no label on record" if one.success is None else ""


def _is_cut_short(branch: Run, limits: Limits) -> bool:
    """Whether a branch would have continued under the change: it broke off, or the trial's own limit stopped it."""
    return branch.stop.reason in BROKEN or (branch.stop.reason == "cost_budget" and limits.cost is not None)


def known_success(one: Opening, branch: Run, limits: Limits, *, labelled: bool) -> bool | None:
    """Whether a branch is a success; None where it is not known what it made of one. Arguments as for the reason."""
    unknown = unknown_because(one, branch, limits, labelled=labelled)
    return None if unknown else success_of(branch, labelled=labelled)


def _projected(low: Array, high: Array, sequence: TotalSequence, size: int) -> list[float | None]:
    """The total of all tasks, if the others are on average like those so far, within its interval.

    None before the first task. Tasks may have more open runs than others, so that the mean of a few of them may be more
    than all of them together can have.
    """
    middle = (np.cumsum(low) + np.cumsum(high)) / 2
    seen = np.arange(1, len(middle) + 1)
    return [None, *np.clip(middle / seen * size, sequence.low[1:], sequence.high[1:]).tolist()]


def _sum(parts: object) -> Spread | None:
    listed = list(parts)  # type: ignore[call-overload] # an iterator of spreads
    if None in listed:
        return None
    return Spread(sum(part.low for part in listed), sum(part.high for part in listed))


def _range(measure: str, one: Opening, limits: Limits) -> Spread | None:
    """What a branch can add at least and at most."""
    run = one.run
    if measure == "gain":
        return Spread(one.low, one.high)
    if measure == "extra_steps":
        return (
            None
            if limits.steps is None
            else Spread(one.at - run.n_steps, max(0, limits.steps - one.at) + one.at - run.n_steps)
        )
    dropped = _dropped_cost(one)
    if limits.cost is None or dropped is None:
        return None
    return Spread(-dropped, limits.cost + (limits.room or 0.0) - dropped)


def _room(runs: Sequence[Run]) -> float | None:
    """Dollars for a step, with what its subagents cost, and a summary: twice the dearest so far, as requests grow."""
    costs: list[list[int]] = [[], [], []]
    for run in runs:
        costs[0] += [step.response.usage.cost or 0 for step in run.steps]
        costs[1] += [usage.cost or 0 for usage in run.outside]
        costs[2] += [micro_cost(child) or 0 for child in run.subagents]
    step, summary, child = (max(listed, default=0) for listed in costs)
    return 2 * (step + max(step, summary) + child) / MICRO if step else None


def _dropped_cost(one: Opening) -> float | None:
    """The dollars of what a run has after the steps that its branch keeps; none where it keeps all."""
    run = one.run
    if one.at == run.n_steps and not any(run.outside) and not run.subagents:
        return 0.0
    whole, kept = micro_cost(run), micro_cost(run, one.at)
    return None if whole is None or kept is None else (whole - kept) / MICRO


def _added_cost(one: Opening, branch: Run) -> float | None:
    """The dollars that a branch adds to its run; the record may not have the costs of the steps that both have."""
    whole, before = micro_cost(branch), micro_cost(one.run)
    if whole is not None and before is not None:
        return (whole - before) / MICRO
    own, dropped = own_cost(branch), _dropped_cost(one)
    return None if own is None or dropped is None else own / MICRO - dropped


def _value(measure: str, one: Opening, branch: Run, limits: Limits, *, labelled: bool) -> tuple[Spread, float]:
    """What a branch added, within its bounds, and by how much it went beyond them."""
    bounds = _range(measure, one, limits)
    assert bounds is not None  # noqa: S101 - asked by the caller
    if measure == "gain":
        return _gain(one, branch, limits, labelled=labelled), 0.0
    if measure == "extra_steps":
        added: float = branch.n_steps - one.run.n_steps
    else:
        cost = _added_cost(one, branch)
        if cost is None:
            return bounds, 0.0
        added = cost
    value = min(max(added, bounds.low), bounds.high)
    goes_on = branch.stop.reason in BROKEN or (measure == "extra_steps" and _is_cut_short(branch, limits))
    return Spread(value, bounds.high if goes_on else value), max(0.0, added - bounds.high)


def _gain(one: Opening, branch: Run, limits: Limits, *, labelled: bool) -> Spread:
    success = known_success(one, branch, limits, labelled=labelled)
    if one.success is None or success is None:
        return Spread(one.low, one.high)
    gain = int(success) - int(one.success)
    return Spread(gain, gain)


def ratio_of(cost: Interval, gain: Interval) -> Interval:
    """The interval of a ratio from those of its two parts, each at half the error.

    Returns the ends; infinite above where the gain may be 0 and the branches may add some, NaN where the gain cannot be
    above 0.

    Example:
        >>> ratio_of(Interval(10, 20), Interval(2, 5)), ratio_of(Interval(10, 20), Interval(0, 5)).high
        (Interval(low=2.0, high=10.0), inf)
    """
    if gain.high <= 0:
        return Interval(float("nan"), float("nan"))
    no_gain = gain.low <= 0
    low = cost.low / gain.high if cost.low >= 0 else -math.inf if no_gain else cost.low / gain.low
    high = cost.high / gain.high if cost.high <= 0 else math.inf if no_gain else cost.high / gain.low
    return Interval(low, high)


_DRAWS: Final = 15
_SEED: Final = 0


class Forecast(NamedTuple):
    """How many branches in all an interval of some width is likely to take.

    Attributes:
        width: The width, in successes.
        branches: The median over possible outcomes; None if even all of them do not suffice.
        tasks: Likewise.
    """

    width: float
    branches: int | None
    tasks: int | None


def forecast(
    tasks: Sequence[OpenTask],
    low: Sequence[float],
    high: Sequence[float],
    share: float,
    width: float,
    *,
    other: float,
    confidence: float,
) -> Forecast:
    """How many branches it is likely to take until the interval of the gain is narrow enough.

    `share`: the share of the open runs of other tasks whose outcome differs from the record.
    """
    least = np.array([sum(one.low for one in task.openings) for task in tasks], float)
    most = np.array([sum(one.high for one in task.openings) for task in tasks], float)
    sizes = np.array([len(task.openings) for task in tasks])
    seen = len(low)
    rng = np.random.default_rng(_SEED)
    needed = []
    for _ in range(_DRAWS):
        drawn = _drawn(tasks[seen:], share, rng)
        lows, highs = (np.concatenate((np.asarray(part, float), drawn)) for part in (low, high))
        found = total_sequence(lows, highs, least=least, most=most, confidence=confidence)
        narrow = np.flatnonzero(found.high - found.low + other <= width + 1e-9)
        needed.append(int(narrow[0]) if len(narrow) else len(tasks) + 1)
    middle = int(np.median(needed))
    if middle > len(tasks):
        return Forecast(width, None, None)
    return Forecast(width, int(sizes[:middle].sum()), middle)


def _drawn(tasks: Sequence[OpenTask], share: float, rng: np.random.Generator) -> Array:
    """Gains of tasks: in each open run the success differs from the record with that probability."""
    sizes = np.array([len(task.openings) for task in tasks], int)
    if not len(sizes):
        return np.zeros(0)
    signs = np.array([1.0 if opening.high > 0 else -1.0 for opening in openings_in(tasks)])
    changed = signs * (rng.random(len(signs)) < share)
    return np.asarray(np.add.reduceat(changed, np.concatenate(([0], np.cumsum(sizes)[:-1]))), float)
