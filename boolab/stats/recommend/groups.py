"""Which columns separate runs, and how their groups share the error.

A limit is for one agent and one kind of task, so agents and data sets are always separated. A model, an effort or a
version of the harness is separated where its runs differ in length. Outcomes decide nothing of it, so that a promise
to a group is as valid as if its runs had been given alone; the groups share the error, so that all promises of one
answer hold together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from scipy import special  # type: ignore[import-untyped] # scipy has no types

from boolab.core.types import Scope
from boolab.frames.dtypes import is_missing
from boolab.stats.kept_share import keeps_enough
from boolab.stats.recommend.units import (
    base_of,
    group_numbers,
    grouped_units,
    is_first_of_unit,
    named_clusters,
    open_units,
    split_by_label,
    units_of_ledger,
)
from boolab.stats.units import SET
from boolab.whatif.step_table import Ints, Ledger, scopes_of

MEASURED: Final = ("model", "effort", "harness_version")
"""Columns that separate runs if their lengths differ."""
_FEWEST_UNITS: Final = 20
"""The lengths of fewer units of a value are not compared."""
_MOST_VALUES: Final = 12
_LEVEL: Final = 0.01
_QUANTILES: Final = (0.5, 0.9)
_LEAST_RATIO: Final = 1.25
"""So far apart the medians or the 90th percentiles have to be: a difference may be sure, and too small to matter."""


Basis: TypeAlias = Literal["successes", "units"]
"""What a promise is about: successes that are kept, or units that stay within a budget."""


class Kind(NamedTuple):
    """Runs whose successes are all labels, or all the proxy.

    Attributes:
        runs: The runs.
        units: What is counted of them.
        groups: Their groups: the values of the columns that separate them, and their units.
    """

    runs: Ledger
    units: Ledger
    groups: list[tuple[tuple[Any, ...], Ledger]]


def kinds_of(
    runs: Ledger,
    keys: Sequence[str],
    success: Literal["label", "ended"] | None,
    unlabelled: Literal["bounds", "proxy"] = "bounds",
) -> list[Kind]:
    """The runs whose successes are labels, and those with the proxy, in groups by some columns."""
    parts = [(part, units_of_ledger(part, success, keys)) for part in split_by_label(runs, success, keys, unlabelled)]
    parts = [part for part in parts if part[1].n_runs] or parts[:1]  # by the proxy, a run without steps is no unit
    return [Kind(part, units, [*grouped_units(units, keys)]) for part, units in parts]


def name_of(values: Iterable[object]) -> tuple[object, ...]:
    """The values of a group such that missing ones are equal."""
    return tuple(None if is_missing(value) else value for value in values)


def default_keys(
    runs: Ledger,
    scope: Scope,
    success: Literal["label", "ended"] | None,
    keep: float,
    alpha: float,
    basis: Basis = "successes",
) -> list[str]:
    """The columns that separate runs where none are asked for."""
    kin = runs.kin()
    if kin is not None and kin.calls:
        return ["agent"] if "agent" in runs.runs else []
    return agent_columns(runs.runs, scope) + split_columns(units_of_ledger(runs, success), keep, alpha, basis)


def agent_columns(runs: pd.DataFrame, scope: Scope = "auto") -> list[str]:
    """The columns that separate agents and data sets, of runs with the columns of `runs_df`; [] if there is one."""
    values = {
        name: runs[name].astype("object").fillna("").tolist() for name in ("source", "agent", SET) if name in runs
    }
    if "agent" not in values:
        return []
    sources = values.get("source", [""] * len(runs))
    several_sources, several_agents = len({*sources}) > 1, len({*values["agent"]}) > 1
    agents_of_one_source = len({*values["agent"]}) == len({*zip(sources, values["agent"], strict=True)})
    columns = ["source"] if several_sources and not agents_of_one_source else []
    if "source" not in columns and len({*scopes_of(sources, scope)}) > 1:
        columns = ["source"]  # two meanings of a limit are never mixed
    return [*columns, *(["agent"] if several_agents else []), *([SET] if len({*values.get(SET, [])}) > 1 else [])]


def split_columns(units: Ledger, keep: float, alpha: float, basis: Basis = "successes") -> list[str]:
    """The columns of `MEASURED` whose values differ in the length of their runs, if a group of them can be tested.

    The test is that of Kruskal and Wallis at 1%, shared among the columns; and the medians or the 90th percentiles have
    to differ by a quarter. So many values that each has few runs are not separated.
    """
    lengths = np.diff(units.first)
    columns = []
    for name in MEASURED:
        if name not in units.runs:
            continue
        values = units.runs[name].fillna("")
        parts = [lengths[(values == value).to_numpy()] for value in values.unique()]
        large = [part for part in parts if len(part) >= _FEWEST_UNITS]
        if not 1 < len(parts) <= _MOST_VALUES or len(large) < 2 or len(set(lengths.tolist())) < 2:  # noqa: PLR2004
            continue
        quantiles = np.array([np.quantile(part, _QUANTILES) for part in large])
        ratio = float((quantiles.max(axis=0) / np.maximum(quantiles.min(axis=0), 1)).max())
        if chance_of_equal_lengths(large) <= _LEVEL / len(MEASURED) and ratio >= _LEAST_RATIO:
            columns.append(name)
    sizes = task_sizes(units, columns, basis) if columns else []
    return columns if any(_can_pass(group_sizes, keep, alpha) for group_sizes in sizes) else []


def chance_of_equal_lengths(parts: Sequence[Ints]) -> float:
    """The p-value of the test of Kruskal and Wallis; as `scipy.stats.kruskal`, which takes half a second to import."""
    lengths = np.concatenate(parts)
    n = len(lengths)
    ranks = np.split(pd.Series(lengths).rank().to_numpy(), np.cumsum([len(part) for part in parts])[:-1])
    ties = np.unique(lengths, return_counts=True)[1].astype(float)
    between = sum(part.sum() ** 2 / len(part) for part in ranks)
    statistic = (12 / (n * (n + 1)) * between - 3 * (n + 1)) / (1 - (ties**3 - ties).sum() / (float(n) ** 3 - n))
    return float(special.chdtrc(len(parts) - 1, statistic))


def shared_errors(sizes: Sequence[Ints], keep: float, alpha: float) -> list[float]:
    """The part of the error of each group: an equal one for all that could pass with it without a loss.

    A group with too few tasks gets the part that it would have with enough of them: it cannot pass with that. This uses
    the number of tasks with a success alone: given that number, the tests are as valid as before.

    Args:
        sizes: The `task_sizes` of the groups.
        keep: The share to keep.
        alpha: The error of all of them together.

    Returns:
        The parts.
    """
    for n_tested in range(len(sizes), 0, -1):
        passing = [_can_pass(group_sizes, keep, alpha / n_tested) for group_sizes in sizes]
        if sum(passing) >= n_tested:
            return [alpha / (sum(passing) + (not passes)) for passes in passing]
    return [alpha] * len(sizes)


def task_sizes(units: Ledger, keys: Sequence[str], basis: Basis = "successes") -> list[Ints]:
    """Of each group by some columns, how many successes each task with one has, or may have where some are unknown.

    With `basis="units"`, how many units each task has.
    """
    good, number = base_of(units) | open_units(units), group_numbers(units, keys)
    if basis == "units":
        good = is_first_of_unit(units)
    cluster = pd.factorize(named_clusters(units))[0][good]
    sizes = []
    for group in range(int(number.max(initial=-1 if keys else 0)) + 1):
        counts = np.unique(cluster[number[good] == group], return_counts=True)[1]
        if len(counts) == 1:  # of one task its runs are the clusters: see `clusters_of_ledger`
            runs = units.runs["run_id"][good & (number == group)]
            counts = np.unique(runs.to_numpy(), return_counts=True)[1]
        sizes.append(counts)
    return sizes


def _can_pass(sizes: Ints, keep: float, error: float) -> bool:
    """Whether a setting without a loss would pass, if all tasks had as many successes as the largest."""
    return bool(keeps_enough(np.zeros(len(sizes)), np.full(len(sizes), sizes.max(initial=0)), keep, error))
