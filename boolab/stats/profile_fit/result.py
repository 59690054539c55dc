"""A fitted profile: its figures with intervals, notes on the data, and how far recorded turns are from simulated ones.

A distance alone means little: with few turns even the true profile differs. So each distance stands beside that of as
many turns of the simulation itself from the simulation: a parametric bootstrap. The simulation was fitted to these
turns, so a good fit here is no evidence for a good fit to others.

Sources: Stute, Gonzalez Manteiga and Presedo Quindimil, Metrika 40 (1993) 243-256 (a distance from a fitted
distribution by bootstrap); Kaplan and Meier, JASA 53 (1958) 457-481 (the length of turns, some of them cut).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from boolab.core.displayable import Displayable
from boolab.core.run import Run
from boolab.core.text import count
from boolab.display.document import Document
from boolab.errors import SettingError
from boolab.frames.data_set import attach_set
from boolab.frames.dtypes import FLAG, FLOAT, INT, TEXT, cells
from boolab.limits.catalog import max_steps
from boolab.runtime.engine.abort import Abort
from boolab.runtime.engine.portal import wait_for
from boolab.runtime.engine.runner import run
from boolab.runtime.models.profile import Profile
from boolab.runtime.models.simulated import SimulatedModel
from boolab.stats.finding import Finding, pairs
from boolab.stats.intervals import Array, Estimated
from boolab.stats.profile_fit.parameters import Figures
from boolab.stats.profile_fit.step_kinds import TurnMoves, turns
from boolab.whatif.step_table import Flags, Ints


@dataclass(frozen=True, eq=False, repr=False)
class Fit(Displayable):
    """A fitted profile, with the intervals of its figures and how well it fits. Shown by itself in a notebook.

    Args:
        profile: The profile.
        intervals: A row for each figure: `parameter` (its place in the profile; shares add up to 1), `estimate`, `low`,
            `high`, `n` (observations), `clusters` (tasks, runs or turns).
        goodness: A row for each comparison with simulated runs, which are cut at the longest recorded length:
            `measure`, `recorded`, `simulated` (medians for steps, the steps of successes and streaks), the `distance`
            between the distributions (Kolmogorov-Smirnov; total variation for tools; the difference of ratios),
            `by_chance` (which the share
            `confidence` of samples from the profile itself does not exceed), `fits`.
        bands: What `plot_fit` draws: `of`, `x`, `recorded`, `simulated`, and the band of samples from the profile.
        notes: What the record lacks, and what was left out.
        turns: The number of recorded turns.
        confidence: Of intervals and bands.

    Example:
        >>> import boolab as bl
        >>> coder = bl.models.Profile.of({"name": "tiny", "tools": {"look": {}}, "finish": {"hazard": 0.25}})
        >>> fit = bl.fit_profile(play(coder, 40, ["Look."], 20), simulated=20)
        >>> fit.estimate("finish.hazard.0.probability").n > 40
        True
    """

    profile: Profile
    intervals: pd.DataFrame
    goodness: pd.DataFrame
    bands: pd.DataFrame
    notes: tuple[str, ...] = ()
    turns: int = 0
    confidence: float = 0.95
    _rows: Mapping[str, Estimated] = field(default_factory=dict)

    def estimate(self, parameter: str) -> Estimated:
        """One figure with its interval.

        Args:
            parameter: Its place in the profile, such as `finish.hazard`: one of the column `parameter` of `intervals`.

        Returns:
            The estimate, its interval, and the numbers of observations and clusters.

        Raises:
            SettingError: if it was not estimated.
        """
        if parameter not in self._rows:
            near = [name for name in self._rows if name.partition(".")[0] == parameter.partition(".")[0]]
            raise SettingError(f"{parameter!r} was not estimated; estimated: {', '.join(near or self._rows)}")
        return self._rows[parameter]

    @property
    def finding(self) -> Finding:
        """The same as a `Finding`."""
        misfits = self.goodness.loc[~self.goodness["fits"].fillna(value=True), "measure"].tolist()
        n_compared = int(self.goodness["fits"].notna().sum())
        sentence = (
            f"In {n_compared - len(misfits)} of {n_compared} comparisons it is no further from the record than chance "
            f"would put it{'' if not misfits else '; not in ' + ', '.join(misfits)}."
        )
        title = f"Profile {self.profile.name}, fitted to {count(self.turns, 'turn')}"
        return Finding(title, self.intervals, (sentence,), self.notes, self.goodness)

    def __repr__(self) -> str:
        return f"<Fit of {self.profile.name}: {count(len(self._rows), 'figure')} from {count(self.turns, 'turn')}>"

    def __str__(self) -> str:
        return str(self.finding)

    def _document_(self) -> Document:
        return self.finding._document_()


def fit_of(
    profile: Profile, figures: Figures, recorded: Sequence[TurnMoves], finish_tool: str | None, simulated: int = 1000
) -> Fit:
    """The fit of a profile to turns: it is played `simulated` times, and compared with them."""
    if simulated < 2:  # noqa: PLR2004 - one run has no distribution
        raise SettingError(f"simulated={simulated!r}: expected at least 2")
    longest = max(len(turn.moves) for turn in recorded)  # beyond it there is nothing to compare with
    played = turns(play(profile, simulated, [turn.run.task for turn in recorded], longest), finish_tool)
    goodness, bands = compare_turns(recorded, played, figures.confidence)
    bands = attach_set(bands, [turn.run for turn in recorded])
    rows = figures.rows
    intervals = {
        "parameter": cells([*rows], TEXT),
        "estimate": cells([row.value for row in rows.values()], FLOAT),
    }
    for column, dtype in (("low", FLOAT), ("high", FLOAT), ("n", INT), ("clusters", INT)):
        intervals[column] = cells([getattr(row, column) for row in rows.values()], dtype)
    return Fit(
        profile, pd.DataFrame(intervals), goodness, bands, tuple(figures.notes), len(recorded), figures.confidence, rows
    )


def play(profile: Profile, n: int, tasks: Sequence[str] = (), max_steps_each: int = 1000) -> list[Run]:
    """Runs of a profile under no limit but one of steps; `tasks` are taken in turn, and decide the difficulty."""
    task_list = [*dict.fromkeys(task for task in tasks if task)] or ["Go"]
    abort = Abort()
    options: dict[str, Any] = {"model": SimulatedModel(profile), "policy": "naive", "stop": max_steps(max_steps_each)}

    async def play_all() -> list[Run]:
        return [await run(None, task_list[i % len(task_list)], seed=i, abort=abort, **options) for i in range(n)]

    return wait_for(play_all(), abort)


STEPS: Final = "steps"
SUCCESS: Final = "success_steps"
STREAK: Final = "repeat_streak"
TOOLS: Final = "tools"
RATES: Final = {
    "calls_per_step": "calls per step",
    "repeats": "calls made before",
    "errors": "failed calls",
    "loops": "steps in loops",
    "output_tokens": "output tokens per step",
    "success": "successes per finished turn",
}
"""What is compared as a ratio: its name in tables, and in words."""

_DRAWS: Final = 400
_SEED: Final = 0
MIN_STREAK: Final = 5  # the longest streak that is always shown
_ROUNDING: Final = 1e-12


class _TurnFacts(NamedTuple):
    """What is compared of some turns: one entry each; tools and rates have a column each."""

    steps: Ints
    ended: Flags
    won: Flags
    streak: Ints
    tools: Array
    parts: Array
    wholes: Array


class _Comparison(NamedTuple):
    """Something compared at some `xs`: recorded, simulated, and of `own` and `other` draws from the simulation."""

    of: str
    xs: Sequence[object]
    recorded: Array
    simulated: Array
    own: Array
    other: Array

    def distance(self, differences: Array) -> Array:
        """A distance: Kolmogorov and Smirnov's largest difference; for tools, the total variation."""
        differences = np.abs(differences)
        return np.asarray(differences.sum(axis=-1) / 2 if self.of == TOOLS else differences.max(axis=-1), float)


def compare_turns(
    recorded: Sequence[TurnMoves], played: Sequence[TurnMoves], confidence: float = 0.95
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Recorded turns beside simulated ones, at least one of each: the tables `Fit.goodness` and `Fit.bands`."""
    tools = sorted(set(chain.from_iterable(map(_tools_of, (*recorded, *played)))))
    data, pool = _facts(recorded, tools), _facts(played, tools)
    rng = np.random.default_rng(_SEED)
    record_draws = rng.integers(len(played), size=(_DRAWS, len(recorded)))
    profile_draws = rng.integers(len(played), size=(_DRAWS, len(played)))
    cuts = rng.permuted(
        np.broadcast_to(np.where(data.ended, np.iinfo(np.int64).max, data.steps), record_draws.shape), axis=1
    )

    last, streaks = int(data.steps.max()), np.arange(1, max(int(data.streak.max()), MIN_STREAK) + 1)
    measures: list[tuple[str, Sequence[object], Callable[[_TurnFacts], Array]]] = [
        (STEPS, range(last + 1), lambda facts: continuation_shares(facts.steps, facts.ended, last)),
        (SUCCESS, range(last + 1), lambda facts: success_within(facts.steps, facts.ended, facts.won, last)),
        (STREAK, streaks.tolist(), lambda facts: (facts.streak[:, None] >= streaks).mean(axis=0)),
        (TOOLS, tools, lambda facts: facts.tools.sum(axis=0) / max(facts.tools.sum(), 1)),
        *((name, [words], partial(_rate, rate_index)) for rate_index, (name, words) in enumerate(RATES.items())),
    ]
    cut_like_the_record = (
        _cut_turns(facts, longest) for facts, longest in zip(_resample(pool, record_draws), cuts, strict=True)
    )
    sample_pairs = (cut_like_the_record, _resample(pool, profile_draws))
    draws = ([[get(facts) for _, _, get in measures] for facts in samples] for samples in sample_pairs)
    columns = [[np.array(values) for values in zip(*rows, strict=True)] for rows in draws]
    comparisons = [
        _Comparison(measure, xs, get(data), get(pool), *values)
        for (measure, xs, get), *values in zip(measures, *columns, strict=True)
    ]
    return _goodness(comparisons, data, pool, confidence), _bands(comparisons, confidence)


def _tools_of(turn: TurnMoves) -> Iterator[str]:
    """The tool of each call of a turn."""
    return (call.tool for call in chain.from_iterable(move.calls for move in turn.moves))


def _resample(facts: _TurnFacts, draws: Ints) -> Iterator[_TurnFacts]:
    """Turns that are drawn from others, again and again."""
    return (_TurnFacts(*(values[indices] for values in facts)) for indices in draws)


def _cut_turns(facts: _TurnFacts, longest: Ints) -> _TurnFacts:
    """Turns with so many steps each at most; those that are longer did not end."""
    return facts._replace(
        steps=np.minimum(facts.steps, longest),
        ended=facts.ended & (facts.steps <= longest),
        won=facts.won & (facts.steps <= longest),
    )


def _rate(rate_index: int, facts: _TurnFacts) -> Array:
    """One of `RATES` over all turns; shape (1,)."""
    denominator = facts.wholes[:, rate_index].sum(keepdims=True)
    numerator = facts.parts[:, rate_index].sum(keepdims=True)
    return np.asarray(np.divide(numerator, denominator, out=np.full(1, np.nan), where=denominator > 0), float)


def _facts(turn_list: Sequence[TurnMoves], tools: Sequence[str]) -> _TurnFacts:
    calls = [Counter(_tools_of(turn)) for turn in turn_list]
    rates = np.array([_parts(turn) for turn in turn_list], float)
    return _TurnFacts(
        np.array([len(turn.moves) for turn in turn_list], dtype=np.int64),
        np.array([turn.finished for turn in turn_list], dtype=bool),
        np.array([turn.finished and turn.won is True for turn in turn_list], dtype=bool),
        np.array([_streak(turn) for turn in turn_list], dtype=np.int64),
        np.array([[tool_counts.get(tool, 0) for tool in tools] for tool_counts in calls], float),
        rates[:, :, 0],
        rates[:, :, 1],
    )


def _parts(turn: TurnMoves) -> list[tuple[int, int]]:
    """Numerator and denominator of each of `RATES`."""
    calls = list(pairs(turn.moves, lambda move: move.calls))
    failures = [call.failed for _, call in calls if call.failed is not None]
    tokens = [move.source.response.usage.output_tokens for move in turn.moves]
    output_tokens = [amount for amount in tokens if amount is not None]
    acting = sum(bool(move.calls) for move in turn.moves)
    return [
        (len(calls), acting),
        (sum(call.again or move.kind in ("loop", "retry") for move, call in calls), len(calls)),
        (sum(failures), len(failures)),
        (sum(move.kind == "loop" for move in turn.moves), acting),
        (sum(output_tokens), len(output_tokens)),
        (turn.finished and turn.won is True, turn.finished and turn.won is not None),
    ]


def _streak(turn: TurnMoves) -> int:
    """The largest number of equal calls in a row."""
    longest = streak = 0
    last_call: object = None
    for call in chain.from_iterable(move.source.response.tool_calls for move in turn.moves if move.calls):
        streak = streak + 1 if (call.name, call.arguments) == last_call else 1
        last_call = (call.name, call.arguments)
        longest = max(longest, streak)
    return longest


def continuation_shares(steps: Ints, ended: Flags, last: int) -> Array:
    """The share of turns that continue beyond 0, 1, ... `last` steps, by Kaplan and Meier."""
    capped = np.minimum(steps, last + 1)
    left_at = np.bincount(capped, minlength=last + 2)
    ended_at = np.bincount(capped[ended & (steps <= last)], minlength=last + 2)
    at_risk = len(steps) - np.concatenate([[0], np.cumsum(left_at)[:-1]])
    return np.asarray(np.cumprod(1 - ended_at / np.maximum(at_risk, 1))[: last + 1], float)


def success_within(steps: Ints, ended: Flags, is_success: Flags, last: int) -> Array:
    """Of the turns that end as successes, the share that has ended within 0, 1, ... `last` steps; NaN without one.

    Ends that are no success are competing ends (Aalen and Johansen): turns that a limit cut count as long as they are
    recorded, so that a limit of the record hides no long success.
    """
    capped = np.minimum(steps, last + 1)
    left_at = np.bincount(capped, minlength=last + 2)
    at_risk = len(steps) - np.concatenate([[0], np.cumsum(left_at)[:-1]])
    good = np.bincount(capped[is_success & ended & (steps <= last)], minlength=last + 2)
    survival = np.concatenate([[1.0], continuation_shares(steps, ended, last)[:-1]])
    incidence = np.cumsum(survival * good[: last + 1] / np.maximum(at_risk[: last + 1], 1))
    return np.asarray(incidence / incidence[-1] if incidence[-1] else np.full(last + 1, np.nan), float)


def _quantile(draws: Array, level: float) -> Array:
    """A quantile over draws, without those in which there is nothing to compare."""
    usable_draws = draws[~np.isnan(draws).reshape(len(draws), -1).any(axis=1)]
    return np.asarray(
        np.quantile(usable_draws, level, axis=0) if len(usable_draws) else np.full(draws.shape[1:], np.nan), float
    )


def _median(share: Array) -> float:
    """The number of steps after which no more than half continue; NaN where more do at the end."""
    reached_half = np.flatnonzero(share <= 0.5 + _ROUNDING)
    return float(reached_half[0]) if len(reached_half) else np.nan


def _goodness(
    comparisons: Sequence[_Comparison], data: _TurnFacts, pool: _TurnFacts, confidence: float
) -> pd.DataFrame:
    def median_of(comparison: _Comparison, values: Array, facts: _TurnFacts) -> float:
        if comparison.of == TOOLS:
            return math.nan
        medians = {STEPS: _median(values), SUCCESS: _median(1 - values), STREAK: float(np.median(facts.streak))}
        return medians.get(comparison.of, float(values[0]))

    distance = [float(comparison.distance(comparison.recorded - comparison.simulated)) for comparison in comparisons]
    chance = [
        float(_quantile(comparison.distance(comparison.own - comparison.other), confidence))
        for comparison in comparisons
    ]
    columns = {
        "recorded": [median_of(comparison, comparison.recorded, data) for comparison in comparisons],
        "simulated": [median_of(comparison, comparison.simulated, pool) for comparison in comparisons],
        "distance": distance,
        "by_chance": [
            np.nan if math.isnan(distance_value) else chance_value
            for distance_value, chance_value in zip(distance, chance, strict=True)
        ],
    }
    table = pd.DataFrame({"measure": pd.array([comparison.of for comparison in comparisons], dtype=TEXT)})
    for name, values in columns.items():
        table[name] = pd.array([None if np.isnan(value) else value for value in values], dtype=FLOAT)
    table["fits"] = (table["distance"] <= table["by_chance"] + _ROUNDING).astype(FLAG)
    return table


def _bands(comparisons: Sequence[_Comparison], confidence: float) -> pd.DataFrame:
    tail = (1 - confidence) / 2
    parts = []
    for comparison in comparisons:
        low, high = _quantile(comparison.own, tail), _quantile(comparison.own, 1 - tail)
        columns = {"recorded": comparison.recorded, "simulated": comparison.simulated, "low": low, "high": high}
        xs = pd.Series(
            [*comparison.xs], dtype=object
        )  # names of tools may hold lone surrogates, which no text column can
        parts.append(pd.DataFrame({"of": comparison.of, "x": xs, **columns}))
    return pd.concat(parts, ignore_index=True)
