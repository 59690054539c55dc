"""Where caps that the loop lets grow stop recordings.

A cap of n that grows by m stops a run at n only where its condition is true there, and otherwise at n + m. If the model
gets no message, the run continues as it was recorded. If it gets one, nothing is identified from that boundary on.
While a cap may grow it stops nothing, as in `boolab.runtime.engine.decide`: so these stops do not depend on other
limits.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np

from boolab.limits.stop import StopRule
from boolab.whatif.first_crossing import (
    MESSAGES,
    UNDECIDED,
    Keys,
    Places,
    fires_of,
    first_fires,
    key_type,
    truth_of,
)
from boolab.whatif.grid import GridAxis
from boolab.whatif.step_table import Flags, Ints, Ledger, spanned

_TRUE: Final = 1
_UNKNOWN: Final = -1


def extended_fires(ledger: Ledger, axis: GridAxis, rank: int, ranks: int) -> Keys:
    """The key of each run's stop, or of its message, on each value of an axis whose caps grow; as `first_fires`."""
    extension = axis.extension
    if extension is None:
        msg = f"the axis {axis.name} has no extension"
        raise ValueError(msg)
    each, (_, owner) = spanned(ledger), ledger.spans()
    top = int(each.counters[axis.counter].max(initial=0))
    levels = [extension.levels(rule.threshold, top) for rule in axis.rules]
    every = sorted({level for some in levels for level in some})
    steps = replace(
        axis, rules=tuple(replace(axis.rules[0], threshold=t) for t in every), values=tuple(every), extension=None
    )
    places = Places(each)
    found = first_fires(each, fires_of(each, steps, places), places, 0, ranks=ranks)
    reached = found != np.iinfo(found.dtype).max
    at = np.where(reached, found // ranks, 0).astype(np.int64)
    never = np.iinfo(np.int64).max
    keys = np.full((len(owner), len(axis.values)), never)
    held = _truth(each, extension.unless)
    for column, some in enumerate(levels):
        undecided = np.ones(len(owner), dtype=bool)  # spans that no cap has stopped yet
        *growing, last = (every.index(level) for level in some)
        for place, following in pairwise([*growing, last]):
            here, there = at[:, place], undecided & reached[:, place]
            stuck = there & reached[:, following] & (at[:, following] == here)  # the larger cap is reached as well
            truth = held(here)
            by_cap, unknown = stuck | (there & (truth == _TRUE)), there & ~stuck & (truth == _UNKNOWN)
            announced = there & ~by_cap & ~unknown & extension.message
            for which, of_rank in ((by_cap, rank), (unknown, UNDECIDED), (announced, MESSAGES)):
                keys[which, column] = here[which] * ranks + of_rank
                undecided &= ~which
        stopped = undecided & reached[:, last]
        keys[stopped, column] = at[stopped, last] * ranks + rank
    return _of_runs(ledger, keys, ranks).astype(key_type(ledger, ranks))


def _of_runs(ledger: Ledger, keys: Ints, ranks: int) -> Ints:
    """The first of the keys of each run's spans, counted from the beginning of the run."""
    first, owner = ledger.spans()
    never = np.iinfo(np.int64).max
    before = (first[:-1] - ledger.first[owner])[:, None] * ranks
    of_runs = np.full((ledger.n_runs, keys.shape[1]), never)
    np.minimum.at(of_runs, owner, np.where(keys == never, never, keys + np.where(keys == never, 0, before)))
    return np.where(of_runs == never, np.iinfo(key_type(ledger, ranks)).max, of_runs)


class _Truth:
    """Whether a rule is true (1), false (0) or unknown (-1) after so many steps of each run of a ledger."""

    def __init__(self, ledger: Ledger, rule: StopRule) -> None:
        true = truth_of(ledger, rule)
        self._after = np.where(
            np.asarray(true.isna(), dtype=bool), _UNKNOWN, np.asarray(true.fillna(value=False), dtype=np.int64)
        )
        self._start = int(rule({leaf.counter: 0 for leaf in rule.leaves()}) is True)
        self._first = ledger.first

    def __call__(self, steps: Ints) -> Ints:
        """The truth after so many steps of each run."""
        after = np.full(len(steps), self._start, dtype=np.int64)
        inside: Flags = steps > 0
        after[inside] = self._after[self._first[:-1][inside] + steps[inside] - 1]
        return after


class _Never:
    """The truth of a rule that is never true."""

    def __call__(self, steps: Ints) -> Ints:
        """Zeros."""
        return np.zeros(len(steps), dtype=np.int64)


def _truth(ledger: Ledger, rule: StopRule | None) -> _Truth | _Never:
    return _Never() if rule is None else _Truth(ledger, rule)
