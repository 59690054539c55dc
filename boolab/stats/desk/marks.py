"""The test of one value at the desk: a binomial test of losses among the successes that were asked for.

The desk asks for all units that a value would stop (long ones), and for a share pi of the others, drawn by chance. If
the value keeps a share `keep` of the successes or less, a success that was asked for is long with a chance of at least

    q = (1 - keep) / ((1 - keep) + keep pi)

independently of the others, whatever the share of successes and the lengths of failures are. So the number x of losses
among M successes is tested as a binomial one, and no evidence has a part in it.

- *Yes, at marks.* M_k is the least M at which the chance of "at most k losses, and no earlier yes" is at most what has
  been released, less what is spent; k releases error / (2 (k + 1) (k + 2)), half of the error in all. Marks alone are
  looked at, so one may answer, look and stop as one likes.
- *Yes, at the end* of the record, once: all of the error that is left.
- *No* (the value keeps less): at each M the least x whose chance of "x or more, and no earlier no" is at most
  error M / (M + 10), less what is spent; an error of its own.

All chances are exact: a recursion over M holds the chance of each x without an earlier answer.

Sources: Clopper and Pearson, Biometrika 26 (1934) 404 (the binomial test); Lan and DeMets, Biometrika 70 (1983) 659
(spending the error along the way).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from boolab.whatif.step_table import Flags, Ints

FAILURE: Final = 0
SUCCESS: Final = 1
UNSURE: Final = 2
"""The answers, as numbers; any other number is a unit without an answer."""
SHARES: Final = (*(n / 100 for n in range(50, 100)), 0.995)
"""The shares to keep that a bound may be."""
_NO_DELAY: Final = 10
"""Half of the error of "no" is released at so many successes."""
_ROUNDING: Final = 1e-12
_FEWEST: Final = 64


class Marks(NamedTuple):
    """The numbers of losses that decide, for each number M of successes that were asked for, from 0.

    Attributes:
        yes_losses: The most losses for a yes at M; -1 where M is no mark.
        end_losses: The most losses for a yes at the end of the record; -1 if there is none.
        no_losses: The least losses for a no.
    """

    yes_losses: Ints
    end_losses: Ints
    no_losses: Ints


class Verdicts(NamedTuple):
    """The verdicts on records at marks: arrays without the last axis of the record.

    Attributes:
        is_yes: Whether a mark gave a yes, before a no.
        is_no: Whether there was a no, before a yes.
        position: The position of the unit whose answer decided; the last one where nothing did.
        is_end_yes: Whether the whole record gives a yes at its end, where no mark and no "no" did.
    """

    is_yes: Flags
    is_no: Flags
    position: Ints
    is_end_yes: Flags


def loss_chance(keep: float, pi: float) -> float:
    """The least chance that a success that was asked for is long, if a value keeps `keep` or less.

    Args:
        keep: The share of successes to keep.
        pi: The share of the short units that are asked for.

    Returns:
        The chance.

    Example:
        >>> [round(loss_chance(0.95, pi), 3) for pi in (0.25, 0.1, 1)]
        [0.174, 0.345, 0.05]
    """
    return (1 - keep) / ((1 - keep) + keep * pi)


def marks_up_to(n_max: int, keep: float, pi: float, error: float) -> Marks:
    """The marks for up to `n_max` successes, and for as many more as were computed with them.

    Args:
        n_max: How many successes may be asked for.
        keep: The share of successes to keep.
        pi: The share of the short units that are asked for.
        error: The chance of a wrong yes, and that of a wrong no.

    Returns:
        The marks.

    Example:
        >>> yes_losses = marks_up_to(81, 0.95, 0.25, 0.05).yes_losses
        >>> [(int(m), int(yes_losses[m])) for m in np.flatnonzero(yes_losses >= 0)[:4]]
        [(23, 0), (37, 1), (49, 2), (61, 3)]
    """
    size = max(_FEWEST, 1 << max(n_max, 1).bit_length())
    return _marks(round(loss_chance(keep, pi), 15), error, size)


@lru_cache(maxsize=512)
def _marks(q: float, error: float, n_max: int) -> Marks:
    """The marks for a chance of loss, by the recursion over M."""
    yes_losses, end_losses, no_losses = (np.full(n_max + 1, fill, dtype=np.int64) for fill in (-1, -1, n_max + 1))
    open_yes, open_no = np.zeros(n_max + 2), np.zeros(n_max + 2)  # the chance of each x without an earlier answer
    open_yes[0] = open_no[0] = 1.0
    spent_yes = spent_no = 0.0
    losses = 0
    for m in range(1, n_max + 1):
        for chances in (open_yes, open_no):
            chances[1 : m + 1] = chances[1 : m + 1] * (1 - q) + chances[:m] * q
            chances[0] *= 1 - q
        at_most = np.cumsum(open_yes[: m + 1])
        if at_most[losses] <= error * _released(losses) - spent_yes + _ROUNDING * error:
            spent_yes += float(at_most[losses])
            open_yes[: losses + 1] = 0.0
            at_most = np.maximum(at_most - at_most[losses], 0.0)
            yes_losses[m] = losses
            losses += 1
        end_losses[m] = np.searchsorted(at_most, error - spent_yes + _ROUNDING * error, side="right") - 1
        at_least = np.cumsum(open_no[m::-1])[::-1]
        budget = error * m / (m + _NO_DELAY) - spent_no
        no_losses[m] = int(np.argmax(at_least <= budget)) if at_least[m] <= budget else m + 1
        spent_no += float(open_no[no_losses[m] : m + 1].sum())
        open_no[no_losses[m] :] = 0.0
    for table in (yes_losses, end_losses, no_losses):
        table.flags.writeable = False
    return Marks(yes_losses, end_losses, no_losses)


def _released(losses: int) -> float:
    """The share of the error that may be spent on marks of up to so many losses: 1/4, 1/4 + 1/12, ..., 1/2."""
    return 0.5 * (losses + 1) / (losses + 2)


def judge_records(
    outcomes: npt.ArrayLike, is_long: npt.ArrayLike, is_asked: npt.ArrayLike, keep: float, pi: float, error: float
) -> Verdicts:
    """What the answers of records show of a value, each record by itself.

    An unsure answer is the worst case of each verdict: for a yes a success if long and none if short, for a no
    the reverse.

    Args:
        outcomes: The outcome of each unit, in the drawn order: `FAILURE`, `SUCCESS` or `UNSURE`; shape (..., units).
        is_long: Whether the value would stop it.
        is_asked: Whether it was asked for.
        keep: The share of successes to keep.
        pi: The share of the short units that are asked for.
        error: The chance of a wrong yes, and that of a wrong no.

    Returns:
        The verdicts; after the first one a record is not looked at.

    Example:
        >>> is_long = np.zeros((2, 23), dtype=bool)
        >>> is_long[1, 4] = True
        >>> judge_records(np.full((2, 23), SUCCESS), is_long, True, 0.95, 0.25, 0.05).is_yes.tolist()
        [True, False]
    """
    for_yes, for_no = (_counts(outcomes, is_long, is_asked, unsure_if_long=long) for long in (True, False))
    units = for_yes.is_success.shape[-1]
    if not units:
        empty = np.zeros(for_yes.is_success.shape[:-1], dtype=bool)
        return Verdicts(empty, empty, empty.astype(np.int64) - 1, empty)
    marks = marks_up_to(int(max(counts.n[..., -1].max(initial=0) for counts in (for_yes, for_no))), keep, pi, error)
    yes_position = _first(for_yes.is_success & (for_yes.n_lost <= marks.yes_losses[for_yes.n]))
    no_position = _first(for_no.is_success & (for_no.n_lost >= marks.no_losses[for_no.n]))
    is_yes, is_no = yes_position < no_position, no_position < yes_position
    is_end_yes = ~(is_yes | is_no) & (for_yes.n_lost[..., -1] <= marks.end_losses[for_yes.n[..., -1]])
    return Verdicts(is_yes, is_no, np.minimum(np.minimum(yes_position, no_position), units - 1), is_end_yes)


class _SuccessCounts(NamedTuple):
    """The successes that were asked for: whether each unit is one, how many there were, and how many of them long."""

    is_success: Flags
    n: Ints
    n_lost: Ints


def _counts(
    outcomes: npt.ArrayLike, is_long: npt.ArrayLike, is_asked: npt.ArrayLike, *, unsure_if_long: bool
) -> _SuccessCounts:
    """The counts along the order; an unsure answer is a success of long units, or else of short ones."""
    outcome, long = np.asarray(outcomes), np.asarray(is_long, dtype=bool)
    is_success = np.asarray(is_asked, dtype=bool) & (
        (outcome == SUCCESS) | ((outcome == UNSURE) & (long == unsure_if_long))
    )
    n, n_lost = (np.cumsum(flags, axis=-1, dtype=np.int64) for flags in (is_success, is_success & long))
    return _SuccessCounts(is_success, n, n_lost)


def kept_so_far(
    outcomes: npt.ArrayLike, is_long: npt.ArrayLike, is_asked: npt.ArrayLike, pi: float, error: float
) -> float:
    """The lower bound of the share that a value keeps, by the answers so far; it holds at all looks together.

    Args:
        outcomes: See `judge_records`; of one record.
        is_long: See `judge_records`.
        is_asked: See `judge_records`.
        pi: See `judge_records`.
        error: The chance that a bound is ever too high.

    Returns:
        The largest of `SHARES` such that each test with a share to keep up to it has passed at a mark; 0 if none.

    Example:
        >>> [kept_so_far(np.full(n, SUCCESS), [False] * n, True, 0.25, 0.05) for n in (5, 22, 23)]
        [0.74, 0.94, 0.95]
    """
    counts = _counts(outcomes, is_long, is_asked, unsure_if_long=True)
    n, n_lost = counts.n[counts.is_success], counts.n_lost[counts.is_success]
    share_bound = 0.0
    for share in SHARES:
        if not (n_lost <= marks_up_to(len(n), share, pi, error).yes_losses[n]).any():
            break
        share_bound = share
    return share_bound


def _first(flags: Flags) -> Ints:
    """The position of the first flag along the last axis; their number if there is none."""
    first: Ints = np.where(flags.any(axis=-1), flags.argmax(axis=-1), flags.shape[-1]).astype(np.int64)
    return first
