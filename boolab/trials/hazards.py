"""What longer runs on record suggest for the open ones: the second kind of evidence, which rests on an assumption.

An open run was stopped after some amount of what its limit counts. Others on record used more of it. If the open run
would have continued like those that came as far (independent censoring), its chance to succeed until the new limit is
the cumulative incidence of success among them, counted from where it stopped. The assumption fails where a limit stops
runs that differ from the others: of harder tasks, or of weaker models. `pool` separates such groups.

Source: Aalen and Johansen, Scand. J. Stat. 5 (1978) 141-150, from a later start ("landmark": Anderson, Cain and Gelber,
J. Clin. Oncol. 1 (1983) 710-719).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from boolab.core.endings import is_terminated
from boolab.core.run import Run
from boolab.core.text import count
from boolab.frames.runs import sum_usage
from boolab.limits.table import LIMITS
from boolab.stats.intervals import Array, ClusterBootstrap, Interval, clopper_pearson, percentiles
from boolab.trials.openings import Opening

_REPETITIONS: Final = 500

AMOUNTS: Final[Mapping[str, Callable[[Run], int | None]]] = {
    "max_steps": lambda run: run.n_steps,
    "tool_budget": lambda run: run.n_tool_calls,
    "max_tokens": lambda run: sum_usage(run, "input_tokens", "output_tokens"),
    "max_cost": lambda run: sum_usage(run, "cost"),
    "max_time": lambda run: run.duration_ms,
}
"""How much a run used of what each limit counts, in whole numbers."""

_AMOUNT: Final = {
    "max_tokens": "a known number of tokens in each request",
    "max_cost": "a known cost of each request (bl.priced computes it for logs of Claude Code and Codex)",
    "max_time": "a known duration",
}
"""What a run may lack; a record always has its steps and calls."""


class HazardEstimate(NamedTuple):
    """What longer runs suggest."""

    gain: float | None  # the expected gain in successes over the open runs that are covered; None where there are none
    interval: Interval | None  # its interval, if the assumption holds
    covered: int  # how many of the open runs have others on record that continued from where they stopped
    longer: int  # how many runs on record continued from where an open one stopped, at most
    # the smallest amount beyond which no run is on record, where that is below the new limit; else None
    reach: float | None
    why: str  # why there is no estimate; "" if there is one
    # which runs are left out, in words, because the record lacks what their estimate needs; "" for none
    left_out: str = ""


def hazards_of(
    openings: Sequence[Opening], settings: Mapping[str, Any], groups: Sequence[object], confidence: float
) -> HazardEstimate:
    """What the longer runs on record suggest for the open ones, of the same group of runs."""
    axis = next(iter(settings), "") if len(settings) == 1 else ""
    if axis not in AMOUNTS:
        return _no_estimate(
            "Longer runs are evidence for a change of one limit alone: on steps, calls, tokens, cost or time."
        )
    amounts = [AMOUNTS[axis](opening.run) for opening in openings]
    left_out = _describe_left_out(
        axis, [amount is None for amount in amounts], [opening.success is None for opening in openings]
    )
    usable = [
        (opening, amount, group)
        for opening, amount, group in zip(openings, amounts, groups, strict=True)
        if amount is not None and opening.success is not None
    ]
    if not usable:
        return _no_estimate(f"No run on record can be used: {left_out}.")
    used_openings, used_amounts, kinds = zip(*usable, strict=True)
    new = settings[axis]
    limit = np.iinfo(np.int64).max if new is None else round(new * LIMITS[axis].per_unit)
    bootstrap = ClusterBootstrap([opening.cluster for opening in used_openings], repetitions=_REPETITIONS)
    pool = _Pool(used_openings, np.array(used_amounts, dtype=np.int64), kinds, bootstrap)
    estimate = pool.estimate(
        [index for index, opening in enumerate(used_openings) if opening.outcome == "open"], limit, axis, confidence
    )
    return estimate._replace(left_out=left_out)


def _describe_left_out(axis: str, without_amount: Sequence[bool], without_label: Sequence[bool]) -> str:
    """How many runs lack what, and what to do; "" if none does."""
    n, m = sum(without_amount), sum(without_label)
    parts = [
        f"{count(n, 'run')} without {_AMOUNT[axis]}" if n else "",
        f"{count(m, 'run')} without a label (set Run.success)" if m else "",
    ]
    return " and ".join(filter(None, parts))


class _Pool:
    """All runs with how much they used, their ends, and the weights of their tasks in each sample."""

    def __init__(
        self,
        openings: Sequence[Opening],
        used_amounts: npt.NDArray[np.int64],
        groups: Sequence[object],
        draws: ClusterBootstrap,
    ) -> None:
        self.used_amounts = used_amounts
        self.succeeded = np.array([bool(opening.success) and is_terminated(opening.run) for opening in openings])
        self.ended = np.array([is_terminated(opening.run) for opening in openings])
        self.recorded = np.array([bool(opening.success) for opening in openings])
        codes = {group: code for code, group in enumerate(dict.fromkeys(map(str, groups)))}
        self.group = np.array([codes[str(group)] for group in groups])
        self.clusters = draws.codes
        self.weights = np.concatenate(list(draws.weights())).astype(float)

    def estimate(self, indexes: Sequence[int], limit: int, axis: str, confidence: float) -> HazardEstimate:
        gain = 0.0
        samples = np.zeros(len(self.weights))
        covered, longer, tasks, reach = 0, 0, 0, None
        lowest, highest = 0.0, 0.0
        for group, start in sorted({(int(self.group[index]), int(self.used_amounts[index])) for index in indexes}):
            members = [index for index in indexes if self.group[index] == group and self.used_amounts[index] == start]
            later = (self.group == group) & (self.used_amounts > start)
            if not later.any():
                continue
            chance, sample_chances, end = self._incidence(later, limit)
            recorded_successes = int(self.recorded[members].sum())
            gain += len(members) * chance - recorded_successes
            samples += len(members) * sample_chances - recorded_successes
            covered += len(members)
            longer = max(longer, int(later.sum()))
            tasks = len(np.unique(self.clusters[later]))
            exact = clopper_pearson(chance * tasks, tasks, confidence)
            lowest += len(members) * exact.low - recorded_successes
            highest += len(members) * exact.high - recorded_successes
            if end < limit:
                reach = end if reach is None else min(reach, end)
        if not covered:
            return _no_estimate(f"No run on record used more {LIMITS[axis].unit} than those that were stopped.")
        tail = (1 - confidence) / 2
        low, high = percentiles(samples[:, None], [tail, 1 - tail])[:, 0].tolist()
        reach_in_units = None if reach is None else reach / LIMITS[axis].per_unit
        return HazardEstimate(gain, Interval(min(low, lowest), max(high, highest)), covered, longer, reach_in_units, "")

    def _incidence(self, later: npt.NDArray[np.bool_], limit: int) -> tuple[float, Array, int]:
        """The incidence of success up to a limit: as recorded, in each sample, and how far it is known."""
        times, time_index = np.unique(self.used_amounts[later], return_inverse=True)
        ended, succeeded = self.ended[later], self.succeeded[later]
        # Row 0 is the recording itself; each other row is one resampling of its tasks.
        weights = np.vstack([np.ones(len(self.used_amounts)), self.weights[:, self.clusters]])[:, later]
        shape = (len(weights), len(times))
        leaving, endings, successes = (np.zeros(shape) for _ in range(3))
        for n in range(len(times)):
            at_time = time_index == n
            leaving[:, n] = weights[:, at_time].sum(axis=1)
            endings[:, n] = weights[:, at_time & ended].sum(axis=1)
            successes[:, n] = weights[:, at_time & succeeded].sum(axis=1)
        # Weights are whole: 0 only where nothing is left.
        risk = np.maximum(leaving[:, ::-1].cumsum(axis=1)[:, ::-1], 1.0)
        is_within = times <= limit
        alive = np.cumprod(1 - endings / risk, axis=1)
        alive_before = np.hstack([np.ones((len(alive), 1)), alive[:, :-1]])
        sums = np.where(is_within, alive_before * successes / risk, 0.0).sum(axis=1)
        incidence = np.minimum(sums, 1.0)  # rounding may exceed 1
        return float(incidence[0]), incidence[1:], int(times[-1])


def _no_estimate(reason: str) -> HazardEstimate:
    return HazardEstimate(None, None, 0, 0, None, reason)
