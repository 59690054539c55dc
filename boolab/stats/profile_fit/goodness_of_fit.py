"""How far recorded turns are from simulated ones, beside how far chance alone would put them.

A distance alone means little: with few turns even the true profile is some way off. So each distance stands beside that
of as many turns of the simulation itself from the simulation: a parametric bootstrap. The simulation was fitted to
these turns, so a good fit here is no evidence for a good fit to others.

Sources: Stute, Gonzalez Manteiga and Presedo Quindimil, Metrika 40 (1993) 243-256 (a distance from a fitted
distribution by bootstrap); Kaplan and Meier, JASA 53 (1958) 457-481 (the length of turns, some of them cut).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from boolab.counterfactuals.step_table import Flags, Ints
from boolab.frames.dtypes import FLAG, FLOAT, TEXT
from boolab.stats.intervals import Array
from boolab.stats.profile_fit.step_kinds import Turn

STEPS: Final = "steps"
STREAK: Final = "repeat_streak"
TOOLS: Final = "tools"
RATES: Final = {
    "calls_per_step": "calls per step",
    "repeats": "calls made before",
    "errors": "failed calls",
    "loops": "steps in loops",
    "output_tokens": "output tokens per step",
}
"""What is compared as a ratio: its name in tables, and in words."""

_DRAWN: Final = 400
_SEED: Final = 0
_SHORTEST: Final = 5  # calls in a row that are shown at least
_ROUNDING: Final = 1e-12

_Apart: TypeAlias = Callable[[Array], Array]


class _Facts(NamedTuple):
    """What is compared of some turns: one entry each; tools and rates have a column each."""

    steps: Ints
    ended: Flags
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
    apart: _Apart
    medians: tuple[float, float]


def compared(
    recorded: Sequence[Turn], played: Sequence[Turn], confidence: float = 0.95
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Recorded turns beside simulated ones.

    Args:
        recorded: The turns of the record, one at least.
        played: Turns that were simulated, one at least.
        confidence: Which share of chance's distances `by_chance` is not below, and of the bands.

    Returns:
        A row for each comparison, with the columns of `Fit.goodness`; and what is drawn of it, as in `Fit.bands`.

    Example:
        >>> import boolab as bl
        >>> from boolab.stats.profile_fit.step_kinds import turns
        >>> model = bl.SimulatedModel(bl.models.Profile.of({"tools": {"look": {}}}))
        >>> some = turns([bl.run_sync(None, "Go", model=model, seed=i) for i in range(20)])
        >>> float(compared(some, some)[0]["distance"].max())
        0.0
    """
    tools = sorted({made.tool for turn in (*recorded, *played) for move in turn.moves for made in move.calls})
    data, pool = _facts(recorded, tools), _facts(played, tools)
    rng = np.random.default_rng(_SEED)
    own = rng.integers(len(played), size=(_DRAWN, len(recorded)))
    other = rng.integers(len(played), size=(_DRAWN, len(played)))
    cuts = rng.permuted(np.broadcast_to(np.where(data.ended, np.iinfo(np.int64).max, data.steps), own.shape), axis=1)
    all_ = [
        _steps(data, pool, own, other, cuts),
        _streaks(data, pool, own, other),
        _tools(data, pool, own, other, tools),
        *_rates(data, pool, own, other),
    ]
    return _goodness(all_, confidence), _bands(all_, confidence)


def _facts(listed: Sequence[Turn], tools: Sequence[str]) -> _Facts:
    calls = [Counter(made.tool for move in turn.moves for made in move.calls) for turn in listed]
    rates = np.array([_parts(turn) for turn in listed], float)
    return _Facts(
        np.array([len(turn.moves) for turn in listed], dtype=np.int64),
        np.array([turn.finished for turn in listed], dtype=bool),
        np.array([_streak(turn) for turn in listed], dtype=np.int64),
        np.array([[one.get(tool, 0) for tool in tools] for one in calls], float),
        rates[:, :, 0],
        rates[:, :, 1],
    )


def _parts(turn: Turn) -> list[tuple[int, int]]:
    """Numerator and denominator of each of `RATES`."""
    made = [(move, one) for move in turn.moves for one in move.calls]
    known = [one.failed for _, one in made if one.failed is not None]
    tokens = [move.source.response.usage.output_tokens for move in turn.moves]
    written = [amount for amount in tokens if amount is not None]
    acting = sum(bool(move.calls) for move in turn.moves)
    return [
        (len(made), acting),
        (sum(one.again or move.kind in ("loop", "retry") for move, one in made), len(made)),
        (sum(known), len(known)),
        (sum(move.kind == "loop" for move in turn.moves), acting),
        (sum(written), len(written)),
    ]


def _streak(turn: Turn) -> int:
    """The most calls in a row that were the same."""
    longest = streak = 0
    before: object = None
    for call in (call for move in turn.moves if move.calls for call in move.source.response.tool_calls):
        streak = streak + 1 if (call.name, call.arguments) == before else 1
        before = (call.name, call.arguments)
        longest = max(longest, streak)
    return longest


# --- One comparison each ----------------------------------------------------------------------------------------------


def _steps(data: _Facts, pool: _Facts, own: Ints, other: Ints, cuts: Ints) -> _Comparison:
    last = int(data.steps.max())
    drawn = [
        going_on(np.minimum(pool.steps[those], cut), pool.ended[those] & (pool.steps[those] <= cut), last)
        for those, cut in zip(own, cuts, strict=True)
    ]
    whole = [going_on(pool.steps[those], pool.ended[those], last) for those in other]
    one, two = going_on(data.steps, data.ended, last), going_on(pool.steps, pool.ended, last)
    values = (_median(one), _median(two))
    return _Comparison(STEPS, range(last + 1), one, two, np.array(drawn), np.array(whole), _farthest, values)


def _streaks(data: _Facts, pool: _Facts, own: Ints, other: Ints) -> _Comparison:
    xs = np.arange(1, max(int(data.streak.max()), _SHORTEST) + 1)

    def at_least(streaks: Ints) -> Array:
        return np.asarray((streaks[..., None] >= xs).mean(axis=-2), float)

    values = (float(np.median(data.streak)), float(np.median(pool.streak)))
    drawn = np.array([at_least(pool.streak[those]) for those in own])
    whole = np.array([at_least(pool.streak[those]) for those in other])
    one, two = at_least(data.streak), at_least(pool.streak)
    return _Comparison(STREAK, xs.tolist(), one, two, drawn, whole, _farthest, values)


def _tools(data: _Facts, pool: _Facts, own: Ints, other: Ints, tools: Sequence[str]) -> _Comparison:
    def shares(counts: Array) -> Array:
        total = counts.sum(axis=-1, keepdims=True)
        return np.asarray(counts / np.where(total > 0, total, 1), float)

    drawn, whole = (shares(np.array([pool.tools[those].sum(axis=0) for those in draws])) for draws in (own, other))
    one, two = shares(data.tools.sum(axis=0)), shares(pool.tools.sum(axis=0))
    return _Comparison(TOOLS, tools, one, two, drawn, whole, _total_variation, (np.nan, np.nan))


def _rates(data: _Facts, pool: _Facts, own: Ints, other: Ints) -> list[_Comparison]:
    def ratio(facts: _Facts, place: int, those: Ints | slice = slice(None)) -> Array:
        below = facts.wholes[those][..., place].sum(axis=-1, keepdims=True)
        above = facts.parts[those][..., place].sum(axis=-1, keepdims=True)
        return np.asarray(np.divide(above, below, out=np.full(below.shape, np.nan), where=below > 0), float)

    out = []
    for place, (name, words) in enumerate(RATES.items()):
        one, two = ratio(data, place), ratio(pool, place)
        drawn, whole = ratio(pool, place, own), ratio(pool, place, other)
        values = (float(one[0]), float(two[0]))
        out.append(_Comparison(name, [words], one, two, drawn, whole, _farthest, values))
    return out


def going_on(steps: Ints, ended: Flags, last: int) -> Array:
    """The share of turns that go on beyond 0, 1, ... `last` steps, by Kaplan and Meier.

    Args:
        steps: How many steps were seen of each turn.
        ended: Whether it ended then, or was cut.
        last: The last number of steps.

    Example:
        >>> going_on(np.array([1, 2, 2]), np.array([True, False, True]), 2).round(2).tolist()
        [1.0, 0.67, 0.33]
    """
    capped = np.minimum(steps, last + 1)
    gone = np.bincount(capped, minlength=last + 2)
    over = np.bincount(capped[ended & (steps <= last)], minlength=last + 2)
    at_risk = len(steps) - np.concatenate([[0], np.cumsum(gone)[:-1]])
    return np.asarray(np.cumprod(1 - over / np.maximum(at_risk, 1))[: last + 1], float)


def _farthest(away: Array) -> Array:
    """The distance of Kolmogorov and Smirnov: the largest difference."""
    return np.asarray(np.abs(away).max(axis=-1), float)


def _total_variation(away: Array) -> Array:
    """How much of the one distribution would have to be moved to make it the other."""
    return np.asarray(np.abs(away).sum(axis=-1) / 2, float)


def _median(share: Array) -> float:
    """After how many steps no more than half go on; NaN where more do at the end."""
    below = np.flatnonzero(share <= 0.5 + _ROUNDING)
    return float(below[0]) if len(below) else np.nan


# --- The tables -------------------------------------------------------------------------------------------------------


def _goodness(all_: Sequence[_Comparison], confidence: float) -> pd.DataFrame:
    distance = [float(one.apart(one.recorded - one.simulated)) for one in all_]
    chance = [float(np.quantile(one.apart(one.own - one.other), confidence)) for one in all_]
    columns = {
        "recorded": [one.medians[0] for one in all_],
        "simulated": [one.medians[1] for one in all_],
        "distance": distance,
        "by_chance": [np.nan if math.isnan(few) else many for few, many in zip(distance, chance, strict=True)],
    }
    table = pd.DataFrame({"measure": pd.array([one.of for one in all_], dtype=TEXT)})
    for name, values in columns.items():
        table[name] = pd.array([None if np.isnan(value) else value for value in values], dtype=FLOAT)
    table["fits"] = (table["distance"] <= table["by_chance"] + _ROUNDING).astype(FLAG)
    return table


def _bands(all_: Sequence[_Comparison], confidence: float) -> pd.DataFrame:
    tail = (1 - confidence) / 2
    parts = []
    for one in all_:
        low, high = np.quantile(one.own, [tail, 1 - tail], axis=0)
        columns = {"recorded": one.recorded, "simulated": one.simulated, "low": low, "high": high}
        xs = pd.Series([*one.xs], dtype=object)  # names of tools may hold half surrogates, which no text column can
        parts.append(pd.DataFrame({"of": one.of, "x": xs, **columns}))
    return pd.concat(parts, ignore_index=True)
