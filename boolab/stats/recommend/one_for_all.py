"""One limit for all groups beside a limit for each: what both save and keep, held out.

This compares, and chooses nothing. Which runs are separated is decided by their lengths alone (`groups`), so that the
promises of the groups are as valid as if their runs had been given alone. The comparison looks at outcomes: a choice by
it would need a part of the error for the promise of one limit for all, taken from those of the groups.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from boolab.stats.recommend.candidates import Candidates
from boolab.stats.recommend.decide import GroupDecision
from boolab.stats.recommend.evidence import LEAST_SUCCESSES, Broken, OneForAll, stops_and_savings
from boolab.stats.recommend.groups import Kind
from boolab.stats.recommend.question import Question
from boolab.stats.recommend.units import base_of, clusters_of_ledger, group_numbers
from boolab.stats.units import group_name


def compare_with_one(
    kinds: Sequence[Kind], groups: Sequence[GroupDecision], keys: Sequence[str], question: Question
) -> OneForAll | None:
    """One limit for all groups, beside a limit for each.

    Args:
        kinds: The runs whose successes are labels, and those with the proxy.
        groups: The decisions on the groups.
        keys: The columns that separate them.
        question: What is asked, with the whole error.

    Returns:
        The comparison; None where there are no groups, no success, or where one limit for all means nothing: successes
        are labels in some groups and the proxy in others, limits count turns in some and runs in others, or groups are
        agents of one family.
    """
    units = kinds[0].units
    good = base_of(units)
    separate = len(kinds) > 1 or units.unit is not None or units.has_mixed_scopes
    if len(groups) < 2 or separate or not good.any():  # noqa: PLR2004 - two groups
        return None
    candidates = Candidates(units, clusters_of_ledger(units), question)
    best = candidates.choose().best
    setting = {} if best is None else best.setting
    folds, measure = candidates.held_out(), question.measure
    n_good = int(good.sum())
    is_kept = good & ~stops_and_savings(units, setting, question)[0]
    number = group_numbers(units, keys)
    n_successes, n_kept = (np.bincount(number[flags], minlength=len(groups)).tolist() for flags in (good, is_kept))
    names = [group_name(names) for names, _ in kinds[0].groups]
    rows = [Broken(", ".join(keys), *row) for row in zip(names, n_kept, n_successes, strict=True)]
    sums_of_groups = [group.folds for group in groups if group.folds is not None]
    untouched = sum(group.choice.successes for group in groups if group.folds is None)
    return OneForAll(
        setting=setting,
        saved=0 if folds is None else folds[f"saved_{measure}"],
        each_saved=sum(sums[f"saved_{measure}"] for sums in sums_of_groups),
        total=sum(group.spent for group in groups),
        kept_successes=n_good if folds is None else folds["kept_lower"],
        each_kept=untouched + sum(sums["kept_lower"] for sums in sums_of_groups),
        successes=n_good,
        broken_groups=tuple(
            sorted(
                (row for row in rows if row.successes >= LEAST_SUCCESSES and row.kept < question.keep * row.successes),
                key=lambda row: row.kept / row.successes,
            )
        ),
    )
