"""The tables of `counterfactual`: a row for each run and setting, and sums over runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, get_args

import numpy as np
import pandas as pd

from boolab.core.run_tree import Kin
from boolab.core.types import MICRO, Scope, StopReason
from boolab.errors import SettingError
from boolab.frames.dtypes import INT, TEXT, Cells, axis_dtype, cells, text
from boolab.limits.stop import Threshold
from boolab.limits.table import MEASURES
from boolab.whatif.aggregate import SPENT_MEASURES, aggregate_of
from boolab.whatif.family_stops import depends_on_results, family_stops
from boolab.whatif.first_crossing import Places, Stops
from boolab.whatif.grid import GridAxis, Settings
from boolab.whatif.outcomes import grid_stops, outcome_columns, rule_stops, stops_of_spans
from boolab.whatif.question import OUTCOMES, Question
from boolab.whatif.step_table import Flags, Ints, Ledger, UnitNoun

BATCH_ROWS: Final = 500_000
COUNTED_MEASURES: Final = tuple(name for name in MEASURES if name != "cost")
"""What is summed in whole numbers; cost is summed in micro-dollars."""
_MAX_SUMS: Final = 5_000_000
SUCCESS_BY: Final = "success_by"
_OF_ROWS: Final = ("run_id", "outcome", "scope", "success_by", "kept_lower", "saved_steps", "saved_is")


def pieces(ledger: Ledger, kin: Kin | None, size: int) -> Iterator[Ledger]:
    """A ledger in parts of about `size` runs, each of whole families; one part if there are no runs."""
    if kin is None:
        for start in range(0, max(ledger.n_runs, 1), size):
            yield ledger.take(slice(start, start + size))
        return
    first_run = _first_runs(ledger.n_runs, kin)
    order = np.argsort(first_run, kind="stable")
    start = 0
    while start < len(order):
        stop = min(start + size, len(order))
        while stop < len(order) and first_run[order[stop]] == first_run[order[stop - 1]]:
            stop += 1
        yield ledger.take(order[start:stop])
        start = stop


def _first_runs(n_runs: int, kin: Kin) -> Ints:
    """R: the first run of each run's family, by union of the runs that called each other."""
    nearer = list(range(n_runs))  # for each run the first of its family, or one nearer to it

    def first_of(run: int) -> int:
        while nearer[run] != run:
            nearer[run] = run = nearer[nearer[run]]  # halves the way for the next question
        return run

    for caller, _, child in kin.calls:
        low, high = sorted((first_of(caller), first_of(child)))
        nearer[high] = low
    return np.array([first_of(run) for run in range(n_runs)], dtype=np.int64)


def rows_of(ledger: Ledger, question: Question, *, grid: bool = True) -> pd.DataFrame:
    """A row for each run and setting; without those of the grid unless `grid`."""
    positions, kin, settings = Places(ledger), ledger.kin(), question.settings
    frames: list[pd.DataFrame] = []
    success_kinds = text(ledger.success_kinds().tolist())

    def add(
        rule: str | None,
        find: Callable[[Ledger, Places], Stops],
        limits: Sequence[Threshold],
        holds_for: Callable[[str], Flags],
        values: Callable[[GridAxis], Cells],
    ) -> None:
        stops, spans = stops_of_spans(ledger, positions, find)
        if kin is not None:
            by_results = {limit.reason for limit in limits if depends_on_results(limit.counter, limit.detector)}
            stops, spans = family_stops(ledger, kin, stops, spans, by_results, holds_for)
        names = ("run_id", *(("turn",) if ledger.by_turn else ()), *question.by)
        data = {name: ledger.runs[name].array.take(stops.run) for name in names}
        data |= {axis.key: values(axis) for axis in question.axes}
        data |= {"rule": repeat_text(rule, len(stops.run))} if question.rules else {}
        data |= outcome_columns(ledger, positions, stops, spans)
        data["scope"] = ledger.runs["scope"].array.take(stops.run)
        frames.append(pd.DataFrame(data | {"success_by": success_kinds.take(stops.run)}))

    if settings is not None and grid:
        places_by_axis = {
            axis.key: value_places for axis, value_places in zip(settings.axes, settings.places, strict=True)
        }
        add(
            None,
            lambda part, part_positions: grid_stops(part, settings, part_positions),
            settings.first_rules(),
            lambda agent: _limited_flags(settings, agent),
            lambda axis: _values(axis, np.tile(places_by_axis[axis.key], ledger.n_runs)),
        )
    for rule in question.rules:
        add(
            str(rule),
            lambda part, _, rule=rule: rule_stops(part, rule),  # type: ignore[misc] # the rule of this turn
            list(rule.leaves()),
            lambda _: np.ones(1, dtype=bool),
            lambda axis: _off_cells(axis, ledger.n_runs),
        )
    return pd.concat(frames, ignore_index=True) if len(frames) > 1 else frames[0]


def _limited_flags(settings: Settings, agent: str) -> Flags:
    """For each setting, whether any of its limits applies to an agent."""
    limited = np.full(settings.count, settings.intervenes)
    for axis, value_places in zip(settings.axes, settings.places, strict=True):
        if not agent or axis.holds_for([agent])[0]:
            limited |= value_places < max(axis.size, len(axis.responses))  # off is the last value
    return limited


def _values(axis: GridAxis, indices: Ints) -> Cells:
    """The values of an axis at these places."""
    return cells(axis.values, axis_dtype(axis.name)).take(indices)


def _off_cells(axis: GridAxis, n: int) -> Cells:
    return cells([None] * n, axis_dtype(axis.name))


def repeat_text(value: str | None, n: int) -> Cells:
    """The same text n times."""
    return text([value]).take(np.zeros(n, dtype=np.int64))


def sums_of(ledger: Ledger, question: Question) -> pd.DataFrame:
    """Sums over the runs of a ledger, a row for each setting and group."""
    settings, kin, keys = question.settings, ledger.kin(), [*question.keys, SUCCESS_BY]
    by_steps = settings is not None and kin is None and settings.is_plain and settings.is_silent
    parts = [_sums_over_steps(ledger, question, settings)] if by_steps and settings is not None else []
    if question.rules or not by_steps:
        count = len(question.rules) + (0 if by_steps or settings is None else settings.count)
        batches = pieces(ledger, kin, max(1, BATCH_ROWS // count))
        parts += [_sums(rows_of(part, question, grid=not by_steps), keys) for part in batches]
    return add_parts(parts, keys)


def sum_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The sums of a table with a row for each run and setting, as `counterfactual(..., aggregate=True)` has them."""
    missing = [name for name in _OF_ROWS if name not in table]
    if missing:
        msg = f"the frame has no column {missing[0]!r}: expected one like counterfactual(...) makes, a row for each run"
        raise SettingError(msg)
    names = [str(name) for name in table.columns]
    keys = [*(name for name in names[: names.index("outcome")] if name not in ("run_id", "turn")), "scope"]
    success_kinds = table.groupby(keys, dropna=False, sort=False)[SUCCESS_BY]
    kinds = [kinds[0] if len(kinds) == 1 else "mixed" for kinds in (of.dropna().unique() for _, of in success_kinds)]
    unit: UnitNoun = "turn" if "turn" in names else "run"
    return finish_sums(_sums(table, keys).assign(**{SUCCESS_BY: kinds}), keys, unit)


def finish_sums(frame: pd.DataFrame, keys: Sequence[str], unit: UnitNoun = "run") -> pd.DataFrame:
    """Sums as the columns of an aggregate: NA for what is not reported or has no bound, money in dollars."""
    sums = {name: frame[name].to_numpy(np.int64) for name in frame.columns if name not in (*keys, SUCCESS_BY)}
    never = np.zeros(len(frame), dtype=bool)
    measures: dict[str, Any] = {}
    bounds: dict[str, Any] = {}
    for name in SPENT_MEASURES:
        is_counted = name in ("steps", "tool_calls")
        unreported = never if is_counted else sums[f"n_unknown_{name}"] >= np.maximum(sums["n_runs"], 1)
        open_above = unreported if is_counted else unreported | (sums[f"unreported_{name}"] > 0)
        column = "cost_usd" if name == "cost" else name
        for columns, label, values, missing in (
            (measures, column, sums[name], unreported),
            (measures, f"saved_{column}", sums[f"saved_{name}"], unreported),
            (bounds, f"saved_{column}_lower", sums[f"saved_{name}_lower"], unreported | (sums["n_censored"] > 0)),
            (bounds, f"saved_{column}_upper", sums[f"saved_{name}"], open_above),
        ):
            array: Any = pd.arrays.FloatingArray if name == "cost" else pd.arrays.IntegerArray
            columns[label] = array(values / MICRO if name == "cost" else values, missing)
    counts = [f"n_{name}" for name in ("runs", *OUTCOMES, *get_args(StopReason), "unknown_tokens", "unknown_cost")]
    kept_columns = ["successes", "successes_censored", "kept_lower", "kept_upper"]
    data: dict[str, Any] = {key: frame[key].array for key in keys if key != "scope"}
    data |= {name: pd.arrays.IntegerArray(sums[name], never) for name in (*counts, *kept_columns) if name in sums}
    data |= {name: measures[name] for name in sorted(measures, key=lambda name: name.startswith("saved_"))}
    end = {"scope": frame["scope"].astype(TEXT).array, "unit": repeat_text(unit, len(frame))}
    end[SUCCESS_BY] = frame[SUCCESS_BY].astype(TEXT).array
    return pd.DataFrame(data | bounds | end)


def add_parts(parts: Sequence[pd.DataFrame], keys: Sequence[str]) -> pd.DataFrame:
    """Sums over different runs, added up."""
    if len(parts) == 1:
        return parts[0]
    joined = pd.concat(parts, ignore_index=True)
    sums = [name for name in joined.columns if name not in keys]
    joined[sums] = joined[sums].fillna(0)
    return _grouped_sums(joined, keys)


def _grouped_sums(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """The sums of all other columns for each group of rows."""
    if not keys:
        return rows.sum().to_frame().T
    return rows.groupby(list(keys), dropna=False, sort=False).sum().reset_index()


def _sums_over_steps(ledger: Ledger, question: Question, settings: Settings) -> pd.DataFrame:
    """The sums of a grid, without a row for each run."""
    codes, groups = _groups(ledger, question.by, question.scope)
    if len(groups) * settings.count > _MAX_SUMS:
        msg = f"{len(groups):,} groups with {settings.count:,} settings each: expected {_MAX_SUMS:,} sums at most"
        raise SettingError(msg)
    sums = aggregate_of(ledger, settings, groups=codes, n_groups=len(groups))
    present = (slice(None), *(slice(len(axis.values)) for axis in settings.axes))
    axes = question.axes
    axis_positions = [settings.axes.index(axis) + 1 for axis in axes]
    policy_axes = [n for n in range(1, len(settings.axes) + 1) if n not in axis_positions]
    group, *axis_indices = np.indices((len(groups), *(len(axis.values) for axis in axes))).reshape(len(axes) + 1, -1)
    data: dict[str, Any] = {name: groups[name].array.take(group) for name in (*question.by, "scope", SUCCESS_BY)}
    data |= {axis.key: _values(axis, indices) for axis, indices in zip(axes, axis_indices, strict=True)}
    if question.rules:
        data["rule"] = repeat_text(None, len(group))
    for name, values in (sums | {f"saved_{name}_lower": sums[f"saved_{name}"] for name in SPENT_MEASURES}).items():
        data[name] = pd.array(values[present].transpose(0, *axis_positions, *policy_axes).reshape(-1), dtype=INT)
    return pd.DataFrame(data)


def _groups(ledger: Ledger, group_by: Sequence[str], scope: Scope) -> tuple[Ints | None, pd.DataFrame]:
    """The group of each run, and one row for each group. No group has runs of two scopes."""
    if not group_by and not ledger.has_mixed_scopes:
        scopes = ledger.runs["scope"].head(1).tolist() or ["run" if scope == "run" else "turn"]
        return None, pd.DataFrame({"scope": text(scopes), SUCCESS_BY: text([ledger.success_by])})
    keys = [*group_by, "scope"]
    grouped = ledger.runs.groupby(keys, dropna=False, sort=False)
    codes: Ints = grouped.ngroup().to_numpy().astype(np.int64)
    groups = grouped.head(1)[keys]
    return codes, groups.assign(**{SUCCESS_BY: text(ledger.success_kinds()[groups.index].tolist())}).reset_index(
        drop=True
    )


def _sums(rows: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """The sums of a table with a row per run and setting, by these columns; cost in micro-dollars."""
    sums = rows[list(keys)].copy()
    sums["n_runs"] = 1
    for outcome in OUTCOMES:
        sums[f"n_{outcome}"] = (rows["outcome"] == outcome).astype(INT)
    is_known = rows["outcome"] != "unknown"
    for reason in get_args(StopReason):
        sums[f"n_{reason}"] = ((rows["stop_reason"] == reason) & is_known).fillna(value=False).astype(INT)
    sums["n_unknown_tokens"] = rows["tokens"].isna().astype(INT)
    sums["n_unknown_cost"] = rows["cost_usd"].isna().astype(INT)
    sums["successes"] = rows["success"].astype(INT).fillna(0)
    sums["successes_censored"] = sums["successes"] * sums["n_censored"]
    for name in ("kept_lower", "kept_upper", *COUNTED_MEASURES):
        sums[name] = rows[name].fillna(0)
    for name in COUNTED_MEASURES:
        sums[f"saved_{name}"] = rows[f"saved_{name}"].fillna(0)
    for name in ("cost", "saved_cost"):
        sums[name] = (rows[f"{name}_usd"].fillna(0) * MICRO).round().astype(INT)
    certain = (rows["saved_is"] != "at most").astype(INT)
    for name in SPENT_MEASURES:
        sums[f"saved_{name}_lower"] = sums[f"saved_{name}"] * certain
    for name, column in (("tokens", "tokens"), ("cost", "cost_usd")):
        sums[f"unreported_{name}"] = sums["saved_steps"] * rows[column].isna().astype(INT)
    return _grouped_sums(sums, keys)
