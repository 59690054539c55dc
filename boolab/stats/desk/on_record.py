"""Whether a value keeps enough of the successes on record, by a few labels: a weaker sentence, "these runs only".

The units on record are fixed; only which of them are labelled is drawn, at random within the long ones and within the
short ones. Totals of successes are excluded by a likelihood ratio: how likely the labels are under a mixture of all
totals (beta-binomial), over how likely they are under these ones (hypergeometric). Under the true totals the ratio is
1 on average after each label, so it ever exceeds 1 / error with a chance of at most the error (Ville's inequality): one
may look after each label, and stop as one likes. The value passes once all totals are excluded under which it keeps too
little.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special  # type: ignore[import-untyped] # scipy has no types

_PRIORS: Final = {False: (1.0, 1.0), True: (0.5, 5.0)}
"""The mixture of short and of long units: any is valid, and these suit records in which long units seldom succeed."""
Curve = npt.NDArray[np.float64]


class Stratum(NamedTuple):
    """The long units, or the short ones.

    Attributes:
        units: How many there are.
        labelled: How many of them have a label; they were drawn at random.
        successes: How many of these are successes.
    """

    units: int
    labelled: int
    successes: int


def keeps_enough_on_record(long: Stratum, short: Stratum, keep: float, error: float) -> bool:
    """Whether the labels show that a value keeps at least `keep` of the successes on record.

    Args:
        long: The units that it would stop.
        short: The others.
        keep: The share to keep.
        error: The chance that a value that keeps less ever passes.

    Returns:
        Whether it is shown.

    Example:
        >>> [keeps_enough_on_record(Stratum(30, n, 0), Stratum(270, n, n), 0.95, 0.05) for n in (7, 8)]
        [False, True]
    """
    of_kept, of_lost = _log_ratio(short, is_long=False), _log_ratio(long, is_long=True)
    totals = np.arange(len(of_kept)) + short.successes
    least_refused = np.floor((1 - keep) / keep * totals + 1e-9).astype(np.int64) + 1 - long.successes
    least_of_more = np.append(np.minimum.accumulate(of_lost[::-1])[::-1], np.inf)
    ratios = of_kept + least_of_more[np.clip(least_refused, 0, len(of_lost))]
    return bool(ratios.min() >= -math.log(error))


def _log_ratio(stratum: Stratum, *, is_long: bool) -> Curve:
    """The logarithm of the ratio for each total of successes that is possible, from that of the labels on."""
    units, labelled, successes = stratum
    rest = np.arange(units - labelled + 1)
    totals = successes + rest
    prior_a, prior_b = _PRIORS[is_long]
    mixture = special.betaln(prior_a + successes, prior_b + labelled - successes) - special.betaln(prior_a, prior_b)
    fixed = _log_choose(units - labelled, rest) - _log_choose(units, totals)  # of the labels in their order
    return np.asarray(mixture - fixed)


def _log_choose(n: int, k: npt.NDArray[np.int64]) -> Curve:
    return np.asarray(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))
