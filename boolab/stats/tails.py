"""`tails_df`: how dear, long and slow the worst runs are under each setting, with intervals that count whole tasks.

See `boolab.stats.tail_bounds` for the intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final

import numpy as np
import pandas as pd

from boolab.core.run_tree import roots_of
from boolab.core.types import Identities, Scope
from boolab.display.text import joined
from boolab.errors import SettingError
from boolab.frames.dtypes import FLOAT, INT, TEXT, cells, text
from boolab.frames.runs import distinct_runs
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import identity_under
from boolab.limits.function_rule import AnyRule
from boolab.stats.intervals import check_confidence
from boolab.stats.recommend.units import named_clusters
from boolab.stats.tail_bounds import TaskAmounts, quantile_interval, shortfall_interval, tasks_missing
from boolab.whatif.evaluate import MAX_ROWS
from boolab.whatif.grid import Grid
from boolab.whatif.question import Question, question_of
from boolab.whatif.recordings import Recorded, as_recorded, ledgers_of
from boolab.whatif.step_table import ELAPSED, Ledger, unit_of
from boolab.whatif.tables import BATCH_ROWS, pieces, rows_of

TAIL_MEASURES: Final[Mapping[str, tuple[str, float]]] = {
    "cost_usd": ("cost_usd", 1),
    "steps": ("steps", 1),
    "minutes": (ELAPSED, 60_000),
}
"""What has a tail: its column of rows by run and setting, and how many of that are one."""
SHARE: Final = 0.95
"""The quantile above which units are in the tail."""
_TASK: Final = "\0task"
_UNIT: Final = "\0unit"


def tails_df(
    recorded: Recorded,
    grid: Grid | None = None,
    *,
    rules: Sequence[AnyRule] | AnyRule | None = None,
    scope: Scope = "auto",
    policy: str | Policy | None = None,
    identity: Identities | None = None,
    exempt: Sequence[str] = (),
    by: str | Sequence[str] | None = None,
    confidence: float = 0.95,
    bounds: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Describe the tails of cost, steps and minutes under each setting: the median, the 95th percentile, and beyond.

    What is counted is what a limit counts: each turn where the harness counts by turn, else each run, a subagent's
    too. One that a setting stops counts what it had spent until then. Intervals count whole tasks, in any dependence of
    their runs: see `boolab.stats.tail_bounds`.

    Args:
        recorded: Runs, a frame with a row per step, or a path: see `counterfactual`.
        grid: Values by axis: see `counterfactual`. Without it and `rules`, the record as it is.
        rules: Stop rules, each a setting of its own.
        scope: Where counters start again: see `counterfactual`.
        policy: The harness whose limits are evaluated: see `counterfactual`.
        identity: What makes two calls the same: see `counterfactual`.
        exempt: The tools whose repeats are no loop.
        by: A column of the runs, or several, to separate groups.
        confidence: Of the intervals.
        bounds: What no run to come exceeds, because a hard limit stops it before: by measure, such as
            `{"cost_usd": 0.50}` under `max_cost(0.50, hard=True)`. The mean of the dearest has an interval only with a
            bound, because without one a run that is dear beyond the record may raise it by any amount.

    Returns:
        A row for each group, setting and measure: `by`, the axes and `rule`; measure (`cost_usd`, `steps` or
        `minutes`); unit, n_units, n_unknown (without the measure: left out), tasks; p50 and p95, each with _low and
        _high; max; shortfall (the mean of the dearest 5%), shortfall_low and shortfall_high; more_needed: how many more
        tasks like these, none of them dearer, until p95 has an upper end. An end that the record does not show is NA.

    Raises:
        SettingError: if an argument is not one of those above, or a run exceeds its bound.

    Example:
        >>> import boolab as bl
        >>> tails = bl.tails_df(bl.load_dataset("atlas/swebench-verified"), grid={"max_steps": [40, None]})
        >>> tails[tails["measure"] == "steps"][["p95", "p95_low", "p95_high", "max"]].values.tolist()
        [[40.0, 40.0, 40.0, 40.0], [75.0, 72.0, 77.0, 85.0]]
    """
    check_confidence(confidence)
    limits = dict(bounds or {})
    unknown = [name for name in limits if name not in TAIL_MEASURES]
    if unknown:
        raise SettingError(f"bounds: {unknown[0]!r}: accepted are {joined([*TAIL_MEASURES], 'or')}")
    as_it_is: Grid | None = {"max_steps": [None]} if grid is None and rules is None and policy is None else grid
    call_identity = identity_under(policy, identity, exempt) if exempt else identity
    question = question_of(rules, as_it_is, scope, policy, call_identity, by, "kept")
    recorded = as_recorded(recorded)
    if isinstance(recorded, list):
        recorded = distinct_runs(recorded)[0]
    rows = pd.concat(_rows(recorded, question), ignore_index=True)
    keys = [key for key in question.keys if key != "scope" and (as_it_is is grid or key != "max_steps")]
    tails = [
        (names, name, _tail(part, name, confidence, limits.get(name)))
        for (names, part), name in product(_groups(rows, keys), TAIL_MEASURES)
    ]
    heads = pd.DataFrame([names for names, _, _ in tails], columns=keys)
    data: dict[str, Any] = {key: cells(heads[key].tolist(), str(rows[key].dtype)) for key in keys}
    data["measure"] = cells([name for _, name, _ in tails], TEXT)
    data |= {column: cells([row[column] for _, _, row in tails], kind) for column, kind in _COLUMNS.items()}
    return pd.DataFrame(data)


_COLUMNS: Final = {
    "unit": TEXT, "n_units": INT, "n_unknown": INT, "tasks": INT,
    "p50": FLOAT, "p50_low": FLOAT, "p50_high": FLOAT, "p95": FLOAT, "p95_low": FLOAT, "p95_high": FLOAT, "max": FLOAT,
    "shortfall": FLOAT, "shortfall_low": FLOAT, "shortfall_high": FLOAT, "more_needed": INT,
}  # fmt: skip


def _rows(recorded: Recorded, question: Question) -> Iterator[pd.DataFrame]:
    """A row for each unit and setting, with the task of each."""
    with_task = replace(question, by=(*question.by, _TASK))
    for runs in ledgers_of(recorded, question.detectors, question.scope, question.by, question.policy):
        named_runs = replace(runs, runs=runs.runs.assign(**{_TASK: text(_tasks_of(runs))}))
        unit = unit_of(runs.span)
        units = named_runs.split_spans() if unit == "turn" else named_runs
        units = units.apply_own_limits().with_time()
        if units.n_runs * question.count > MAX_ROWS:
            msg = f"{question.count:,} settings make more than {MAX_ROWS:,} rows with these runs: expected fewer values"
            raise SettingError(msg)
        for part in pieces(units, units.kin(), max(1, BATCH_ROWS // question.count)):
            yield rows_of(part, with_task).assign(**{_UNIT: unit})


def _tasks_of(runs: Ledger) -> list[str]:
    """R: the task of each run, or its run where no task is named; of a subagent, that of its root."""
    names, kin = named_clusters(runs), runs.kin()
    return names.tolist() if kin is None else names.take(roots_of(kin.parent)).tolist()


def _groups(rows: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """The rows of each group and setting, in the order of the table."""
    if not keys:
        yield (), rows
        return
    for values, part in rows.groupby(list(keys), dropna=False, sort=False):
        yield values if isinstance(values, tuple) else (values,), part


def _tail(rows: pd.DataFrame, measure: str, confidence: float, bound: float | None) -> dict[str, Any]:
    """The numbers of one measure under one setting; None for what is not known."""
    column, per_unit = TAIL_MEASURES[measure]
    is_known = rows[column].notna() & (rows["outcome"] != "unknown")
    known_rows = rows[is_known]
    # Where all are of one task, statements are about that task, and its runs are the clusters.
    cluster = _TASK if len(known_rows[_TASK].unique()) > 1 else "run_id"
    tasks = pd.factorize(known_rows[cluster])[0]
    numbers: dict[str, Any] = dict.fromkeys(_COLUMNS) | {
        "unit": rows[_UNIT].max() if len(rows) else "run",  # a turn, if there are any
        "n_units": len(rows),
        "n_unknown": len(rows) - len(known_rows),
        "tasks": int(tasks.max(initial=-1)) + 1,
        "more_needed": tasks_missing([], SHARE, (1 - confidence) / 2),
    }
    if known_rows.empty:
        return numbers
    amounts = TaskAmounts(known_rows[column].to_numpy(np.float64) / per_unit, tasks)
    for name, share in (("p50", 0.5), ("p95", SHARE)):
        low, high, numbers["more_needed"] = quantile_interval(amounts, share, confidence)
        numbers |= {name: amounts.quantile(share), f"{name}_low": low, f"{name}_high": high}
    low, high = shortfall_interval(amounts, SHARE, bound, confidence)
    numbers |= {"shortfall": amounts.shortfall(SHARE), "shortfall_low": low, "shortfall_high": high}
    return numbers | {"max": amounts.quantile(1)}
