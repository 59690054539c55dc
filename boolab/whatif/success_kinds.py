"""Whether successes are labels or the proxy: decided for each group by itself, in one place for all tables.

A group has labels if one of its runs has one, or is in the family of a run that has. In all others the proxy stands in
for a label. So a label anywhere does not switch off the proxy in a group that has none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from boolab.core.run_tree import flag_labelled_groups, roots_of
from boolab.frames.dtypes import is_missing
from boolab.whatif.step_table import LABEL, Flags, Ledger

Group: TypeAlias = tuple[Hashable, ...]
"""The values of a group; None where one is missing."""


def labelled_groups(ledgers: Iterable[Ledger], keys: Sequence[str]) -> frozenset[Group]:
    """The groups whose successes are labels.

    Args:
        ledgers: The recordings, in parts of whole families.
        keys: The columns that separate groups.

    Returns:
        The groups, by their values.
    """
    groups: list[Group] = []
    roots: list[int] = []
    labelled: list[bool] = []
    for ledger in ledgers:
        kin = ledger.kin()
        parents = range(ledger.n_runs) if kin is None else roots_of(kin.parent)
        roots += [len(groups) + root for root in parents]
        groups += groups_of(ledger, keys)
        labelled += (ledger.success >= 0).tolist() if ledger.success_by == LABEL else [False] * ledger.n_runs
    flags = flag_labelled_groups(groups, roots, labelled)
    return frozenset(group for group, flag in zip(groups, flags, strict=True) if flag)


def groups_of(ledger: Ledger, keys: Sequence[str]) -> list[Group]:
    """The group of each run."""
    rows: Iterable[Sequence[Any]] = ledger.runs[list(keys)].itertuples(index=False, name=None)
    return [tuple(None if is_missing(value) else value for value in row) for row in rows]


def flags_of(
    ledger: Ledger, keys: Sequence[str], rows: pd.DataFrame | None = None, labelled: Flags | None = None
) -> Flags:
    """R: whether the successes of a run's group are labels, of all the recordings that there are.

    `rows` has the columns of `keys` for each run, where the recordings do not. `labelled` is which runs have labels; by
    default those whose success is one.
    """
    labelled = ledger.success >= 0 if labelled is None else labelled
    kin = ledger.kin()
    roots = list(range(ledger.n_runs)) if kin is None else roots_of(kin.parent)
    groups = (ledger.runs if rows is None else rows).groupby(list(keys), dropna=False, sort=False).ngroup().tolist()
    return np.array(flag_labelled_groups(groups, roots, labelled.tolist()), dtype=bool)


def decide_by_group(
    ledger: Ledger,
    keys: Sequence[str],
    labelled: frozenset[Group] | None = None,
    rows: pd.DataFrame | None = None,
) -> Ledger:
    """The recordings, whose successes are labels in the groups that have any, and the proxy in the others.

    Args:
        ledger: The recordings.
        keys: The columns that separate groups.
        labelled: The `labelled_groups`, where these recordings are a part of more.
        rows: The columns of `keys` for each run, where the recordings do not have them.

    Returns:
        The recordings.
    """
    if not keys or ledger.success_by != LABEL or not ledger.n_runs:
        return ledger
    if labelled is None:
        return ledger.with_proxy(~flags_of(ledger, keys, rows))
    return ledger.with_proxy(np.array([group not in labelled for group in groups_of(ledger, keys)], dtype=bool))
