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

from boolab.core.run import Run
from boolab.core.types import MICRO
from boolab.frames.runs import micro_cost, own_cost
from boolab.stats.finite_totals import TotalSequence, total_sequence
from boolab.stats.intervals import Array, Interval
from boolab.trials.openings import Opening, success_of

_COST: Final = "extra_cost_usd"
_ROUNDING: Final = 1e-9
MEASURES: Final = ("gain", "extra_steps", _COST)
BROKEN_REASONS: Final = frozenset({"error", "aborted", "paused"})
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


class BranchLimits(NamedTuple):
    """The most that one branch may add to its run; None where no maximum is known."""

    steps: int | None  # the step cap under the change
    cost: float | None  # the dollars at which a branch is stopped
    # the most that a step and a summary are taken to cost, in dollars; None where no cost is known
    room: float | None = None


class Looks(NamedTuple):
    """The branches so far."""

    # a row for each look, after each task: `tasks`, `branches`, and for each measure that is bounded its estimate for
    # all open runs, with `_low` and `_high`. The first row is before any branch
    frame: pd.DataFrame
    unknown_by_reason: Counter[
        str
    ]  # how many branches have an outcome that is not known, by why (see `unknown_reason`)
    error: str  # what broke off the first branch that did; "" if none did
    n_beyond: int  # how many values went beyond a stated maximum
    n_done: int  # how many tasks count
    gains: tuple[Spread, ...]  # the gain of each task that counts, at least and at most


def tasks_in_order(openings: Sequence[Opening], seed: int) -> list[OpenTask]:
    """The tasks with open runs, in the one random order of a trial, which only its seed changes."""
    groups: dict[str, list[Opening]] = {}
    for opening in openings:
        if opening.outcome == "open":
            groups.setdefault(opening.cluster, []).append(opening)
    tasks = [
        OpenTask(name, tuple(sorted(group, key=lambda opening: opening.run.run_id)))
        for name, group in sorted(groups.items())
    ]
    random.Random(f"boolab trial {seed}").shuffle(tasks)  # noqa: S311 - a draw, not a secret
    return tasks


def looks_of(
    tasks: Sequence[OpenTask], branches: Mapping[str, Run], limits: BranchLimits, *, labelled: bool, confidence: float
) -> Looks:
    """What the finished branches show at each look."""
    n_done = 0
    while n_done < len(tasks) and all(opening.run.run_id in branches for opening in tasks[n_done].openings):
        n_done += 1
    complete = tasks[:n_done]
    counts = np.cumsum([0, *(len(task.openings) for task in complete)])
    columns: dict[str, object] = {"tasks": range(n_done + 1), "branches": counts}
    branched = [(opening, branches[opening.run.run_id]) for opening in openings_in(complete)]
    unknown_by_reason = Counter(
        unknown_reason(opening, branch, limits, labelled=labelled) for opening, branch in branched
    )
    del unknown_by_reason[""]
    error = next(
        (str(branch.error) for _, branch in branched if branch.stop.reason in BROKEN_REASONS and branch.error), ""
    )
    n_beyond = 0
    gains: list[Spread] = []
    record = [opening.run for opening in openings_in(tasks)]
    limits = limits._replace(room=_room([*record, *(branch for _, branch in branched)]))
    for name in MEASURES:
        bounds = [_sum_spreads(_range(name, opening, limits) for opening in task.openings) for task in tasks]
        if any(task_bounds is None for task_bounds in bounds):
            continue
        spreads: list[Spread] = []
        excess = [0.0]
        for task in complete:
            parts = [
                _value(name, opening, branches[opening.run.run_id], limits, labelled=labelled)
                for opening in task.openings
            ]
            n_beyond += sum(surplus > _ROUNDING for _, surplus in parts)
            excess.append(excess[-1] + sum(surplus for _, surplus in parts))
            spreads.append(Spread(sum(part.low for part, _ in parts), sum(part.high for part, _ in parts)))
        gains = spreads if name == "gain" else gains
        minima, maxima = (
            np.array([getattr(task_bounds, end) for task_bounds in bounds], float) for end in ("low", "high")
        )
        low, high = (np.array([getattr(spread, end) for spread in spreads], float) for end in ("low", "high"))
        sequence = total_sequence(
            low, high, minima=minima, maxima=maxima, confidence=confidence, integers=name != _COST
        )
        middle = _project_total(low, high, sequence, len(tasks))
        excess_values = np.array(excess)
        columns[name] = [
            None if value is None else value + excess_value / max(index, 1) * len(tasks)
            for index, (value, excess_value) in enumerate(zip(middle, excess, strict=True))
        ]
        no_end = np.full(len(excess_values), name == _COST) & ((excess_values > _ROUNDING) | (limits.room is None))
        no_end[len(tasks) :] = False
        columns[f"{name}_low"] = sequence.low + excess_values
        columns[f"{name}_high"] = np.where(no_end, np.inf, sequence.high + excess_values)
    frame = pd.DataFrame(columns).astype({name: "Float64" for name in columns if name not in ("tasks", "branches")})
    return Looks(
        frame.astype({"tasks": "Int64", "branches": "Int64"}), unknown_by_reason, error, n_beyond, n_done, tuple(gains)
    )


def unknown_reason(opening: Opening, branch: Run, limits: BranchLimits, *, labelled: bool) -> str:
    """Why it is not known what a branch made of a success; "" where it is known."""
    success = success_of(branch, labelled=labelled)
    if branch.stop.reason in BROKEN_REASONS:
        return "broke off"
    if success is None:
        return "no label"
    if _is_cut_short(branch, limits) and not success:
        return "cost_limit"
    return "no label on record" if opening.success is None else ""


def _is_cut_short(branch: Run, limits: BranchLimits) -> bool:
    """Whether a branch would have continued under the change: it broke off, or the trial's own limit stopped it."""
    return branch.stop.reason in BROKEN_REASONS or (branch.stop.reason == "cost_budget" and limits.cost is not None)


def known_success(opening: Opening, branch: Run, limits: BranchLimits, *, labelled: bool) -> bool | None:
    """Whether a branch is a success; None where it is not known what it made of one. Arguments as for the reason."""
    unknown = unknown_reason(opening, branch, limits, labelled=labelled)
    return None if unknown else success_of(branch, labelled=labelled)


def _project_total(low: Array, high: Array, sequence: TotalSequence, size: int) -> list[float | None]:
    """The total of all tasks, if the others are on average like those so far, within its interval.

    None before the first task. Tasks may have more open runs than others, so that the mean of a few of them may be more
    than all of them together can have.
    """
    middle = (np.cumsum(low) + np.cumsum(high)) / 2
    n_seen = np.arange(1, len(middle) + 1)
    return [None, *np.clip(middle / n_seen * size, sequence.low[1:], sequence.high[1:]).tolist()]


def _sum_spreads(parts: object) -> Spread | None:
    spreads = list(parts)  # type: ignore[call-overload] # an iterator of spreads
    if None in spreads:
        return None
    return Spread(sum(part.low for part in spreads), sum(part.high for part in spreads))


def _range(measure: str, opening: Opening, limits: BranchLimits) -> Spread | None:
    """What a branch can add at least and at most."""
    run = opening.run
    if measure == "gain":
        return Spread(opening.low, opening.high)
    if measure == "extra_steps":
        return (
            None
            if limits.steps is None
            else Spread(
                opening.n_kept - run.n_steps, max(0, limits.steps - opening.n_kept) + opening.n_kept - run.n_steps
            )
        )
    dropped = _dropped_cost(opening)
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
    step, summary, child = (max(values, default=0) for values in costs)
    return 2 * (step + max(step, summary) + child) / MICRO if step else None


def _dropped_cost(opening: Opening) -> float | None:
    """The dollars of what a run has after the steps that its branch keeps; none where it keeps all."""
    run = opening.run
    if opening.n_kept == run.n_steps and not any(run.outside) and not run.subagents:
        return 0.0
    run_cost, kept_cost = micro_cost(run), micro_cost(run, opening.n_kept)
    return None if run_cost is None or kept_cost is None else (run_cost - kept_cost) / MICRO


def _added_cost(opening: Opening, branch: Run) -> float | None:
    """The dollars that a branch adds to its run; the record may not have the costs of the steps that both have."""
    branch_cost, recorded_cost = micro_cost(branch), micro_cost(opening.run)
    if branch_cost is not None and recorded_cost is not None:
        return (branch_cost - recorded_cost) / MICRO
    own_micro, dropped = own_cost(branch), _dropped_cost(opening)
    return None if own_micro is None or dropped is None else own_micro / MICRO - dropped


def _value(
    measure: str, opening: Opening, branch: Run, limits: BranchLimits, *, labelled: bool
) -> tuple[Spread, float]:
    """What a branch added, within its bounds, and by how much it went beyond them."""
    bounds = _range(measure, opening, limits)
    assert bounds is not None  # noqa: S101 - asked by the caller
    if measure == "gain":
        return _gain(opening, branch, limits, labelled=labelled), 0.0
    if measure == "extra_steps":
        added: float = branch.n_steps - opening.run.n_steps
    else:
        cost = _added_cost(opening, branch)
        if cost is None:
            return bounds, 0.0
        added = cost
    value = min(max(added, bounds.low), bounds.high)
    goes_on = branch.stop.reason in BROKEN_REASONS or (measure == "extra_steps" and _is_cut_short(branch, limits))
    return Spread(value, bounds.high if goes_on else value), max(0.0, added - bounds.high)


def _gain(opening: Opening, branch: Run, limits: BranchLimits, *, labelled: bool) -> Spread:
    success = known_success(opening, branch, limits, labelled=labelled)
    if opening.success is None or success is None:
        return Spread(opening.low, opening.high)
    gain = int(success) - int(opening.success)
    return Spread(gain, gain)


def ratio_of(cost: Interval, gain: Interval) -> Interval:
    """The interval of a ratio from those of its parts, each at half the error; infinite if the gain may be 0."""
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
    """How many branches it is likely to take until the interval of the gain is narrow enough."""
    minima = np.array([sum(opening.low for opening in task.openings) for task in tasks], float)
    maxima = np.array([sum(opening.high for opening in task.openings) for task in tasks], float)
    sizes = np.array([len(task.openings) for task in tasks])
    n_seen = len(low)
    rng = np.random.default_rng(_SEED)
    tasks_needed = []
    for _ in range(_DRAWS):
        drawn_gains = _draw_gains(tasks[n_seen:], share, rng)
        lows, highs = (np.concatenate((np.asarray(part, float), drawn_gains)) for part in (low, high))
        sequence = total_sequence(lows, highs, minima=minima, maxima=maxima, confidence=confidence)
        narrow = np.flatnonzero(sequence.high - sequence.low + other <= width + 1e-9)
        tasks_needed.append(int(narrow[0]) if len(narrow) else len(tasks) + 1)
    middle = int(np.median(tasks_needed))
    if middle > len(tasks):
        return Forecast(width, None, None)
    return Forecast(width, int(sizes[:middle].sum()), middle)


def _draw_gains(tasks: Sequence[OpenTask], share: float, rng: np.random.Generator) -> Array:
    """Gains of tasks: in each open run the success differs from the record with that probability."""
    sizes = np.array([len(task.openings) for task in tasks], int)
    if not len(sizes):
        return np.zeros(0)
    signs = np.array([1.0 if opening.high > 0 else -1.0 for opening in openings_in(tasks)])
    changed = signs * (rng.random(len(signs)) < share)
    return np.asarray(np.add.reduceat(changed, np.concatenate(([0], np.cumsum(sizes)[:-1]))), float)
