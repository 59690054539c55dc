"""What a heat map can be made of: an aggregate, a table with a row for each run and setting, or the runs of a sweep.

Each becomes an aggregate, whose cells are drawn, and, where runs are known, a row for each run of each cell. If the two
do not agree, it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from boolab.core.endings import proxy_success
from boolab.core.run import Run
from boolab.core.types import MICRO, Identities, Scope
from boolab.errors import SettingError
from boolab.frames.dtypes import INT, axis_dtype, is_missing
from boolab.frames.runs import known_sum, sum_usage
from boolab.harnesses.policy import Policy
from boolab.limits.table import LIMITS
from boolab.plots._grid import setting
from boolab.plots._grid_cells import Square
from boolab.whatif.evaluate import counterfactual
from boolab.whatif.step_table import LABEL, PROXY
from boolab.whatif.tables import sum_rows

CUT, MAY_BE_KEPT, STOPPED, NOT_STOPPED = range(4)
"""The ranks of the runs of a cell, in which they are listed: lost successes come first."""

_STOPPED: Final = ("truncated", "not_identified", "unknown")
_COMPARED: Final = ("n_runs", "n_truncated", "kept_lower", "kept_upper", "steps")
SHARE: Final = "success_share"
"""What is shown of a sweep by default."""


class Origin(NamedTuple):
    """How an aggregate was made: the arguments of `counterfactual` besides its grid."""

    scope: Scope
    policy: str | Policy | None
    identity: Identities | None


class Source(NamedTuple):
    """An aggregate, and what gives the rows of its runs for the drawn cells; None where the runs are not known.

    Each row has the columns x, y (places of the cell), run_id, steps (until the stop), rank, outcome, stop_reason and
    success.
    """

    tally: pd.DataFrame
    rows: Callable[[Square, str, str], Iterator[pd.DataFrame]] | None


def source_of(table: object, runs: Sequence[Run] | None, origin: Origin) -> Source:
    """An aggregate, or a table with a row for each run and setting, with the runs that it was made of."""
    if not isinstance(table, pd.DataFrame):
        msg = f"table: expected what counterfactual(...) returns, or a sweep's runs, not {type(table).__name__}"
        raise SettingError(msg)
    if "scope" in table and len(set(table["scope"])) > 1:
        msg = (
            "table: counters start at zero in each turn of some of these runs, and continue through others: "
            'expected a table of one scope, such as table[table["scope"] == "run"]'
        )
        raise SettingError(msg)
    if "run_id" in table:
        return Source(sum_rows(table), lambda square, x, y: _of_table(table, square, x, y))
    if runs is None:
        return Source(table, None)
    return Source(table, lambda square, x, y: _evaluated(runs, origin, square, x, y))


# --- A table, or an aggregate -----------------------------------------------------------------------------------------


def _of_table(table: pd.DataFrame, square: Square, x: str, y: str) -> Iterator[pd.DataFrame]:
    rows = table[table["rule"].isna()] if "rule" in table else table
    keys = [str(name) for name in table.columns[: table.columns.get_loc("outcome")]]
    for name in keys:
        if name not in ("run_id", "rule", x, y):
            value = square.rows[name].iloc[0]
            rows = rows[rows[name].isna() if is_missing(value) else rows[name] == value]
    yield _reduced(rows, square, x, y)


def _evaluated(
    runs: Sequence[Run], origin: Origin, square: Square, x: str, y: str
) -> Iterator[pd.DataFrame]:  # fmt: skip
    """The rows that an aggregate is the sum of, evaluated for the cells that are drawn."""
    first = square.rows.iloc[0]
    axes = [name for name in LIMITS if name in square.rows]
    names = [str(name) for name in square.rows.columns]
    groups = names[: min(names.index(name) for name in axes)]
    values = {x: square.across, y: square.up_values}
    grid = {name: values.get(name, [None if is_missing(first[name]) else first[name]]) for name in axes}
    frames = counterfactual(
        runs, grid=grid, scope=origin.scope, policy=origin.policy, identity=origin.identity, by=groups, batches=True
    )
    seen = []
    for frame in frames:
        rows = frame
        for name in groups:
            rows = rows[rows[name].isna() if is_missing(first[name]) else rows[name] == first[name]]
        reduced = _reduced(rows, square, x, y)
        sums = rows[["kept_lower", "kept_upper", "steps"]].fillna(0)
        sums = sums.assign(n_runs=1, n_truncated=(rows["outcome"] == "truncated").astype(INT))
        seen.append(sums.groupby([reduced["y"].to_numpy(), reduced["x"].to_numpy()]).sum())
        yield reduced
    _check(square, x, y, seen)


def _check(square: Square, x: str, y: str, seen: Sequence[pd.DataFrame]) -> None:
    """Raise `SettingError` if the runs do not give the numbers of the table."""
    sums = pd.concat(seen).groupby(level=[0, 1]).sum()
    found = dict(zip(sums.index.tolist(), sums.to_dict("records"), strict=True))
    places = _places(square.rows, square, x, y)
    for row, at in zip(
        square.rows.to_dict("records"), zip(*(side.tolist() for side in places), strict=True), strict=True
    ):
        for name in _COMPARED:
            mine = found[at][name] if at in found else 0
            if name in row and not pd.isna(row[name]) and row[name] != mine:
                where = " and ".join(setting(axis, row[axis]) for axis in (x, y))
                raise SettingError(
                    f"runs: at {where} they give {name} {int(mine):,}, the table has {int(row[name]):,}: expected the "
                    "runs that the table was made of, and the scope=, policy= and identity= that it was made with"
                )


def _reduced(rows: pd.DataFrame, square: Square, x: str, y: str) -> pd.DataFrame:
    up, across = _places(rows, square, x, y)
    stopped = rows["outcome"].isin(_STOPPED).to_numpy(dtype=bool)
    success = rows["success"].fillna(value=False).to_numpy(dtype=bool)
    lost = (rows["kept_upper"].fillna(1) == 0).to_numpy(dtype=bool)
    rank = np.select([stopped & success & lost, stopped & success, stopped], [CUT, MAY_BE_KEPT, STOPPED], NOT_STOPPED)
    named = {name: rows[name].array for name in ("run_id", "steps", "outcome", "stop_reason", "success")}
    return pd.DataFrame({"x": across, "y": up, **named, "rank": rank})


def _places(rows: pd.DataFrame, square: Square, x: str, y: str) -> tuple[Any, Any]:
    """The row and the column of each row's cell."""
    out = []
    for name, values in ((y, square.up_values), (x, square.across)):
        known = np.array([value for value in values if value is not None], dtype=float)
        given = rows[name].to_numpy(dtype=float, na_value=np.inf)  # off stands last
        out.append(np.searchsorted(known, given))
    return out[0], out[1]


# --- A sweep ----------------------------------------------------------------------------------------------------------


def source_of_sweep(runs: Sequence[Run]) -> Source:
    """The runs of a sweep by setting: how many succeed, how they end, and their mean use."""
    names = list(dict.fromkeys(name for run in runs for name in run.settings))
    axes = [name for name in names if name in LIMITS]
    if runs and not axes:
        msg = (
            "table: these runs were recorded under no settings, so there is no grid to show: expected the runs of a "
            "sweep of two settings or more, or for recorded runs "
            "bl.Heatmap(bl.counterfactual(runs, grid={'max_steps': [...], 'tool_budget': [...]}, aggregate=True), runs)"
        )
        raise SettingError(msg)
    if len(axes) <= 1:
        raise SettingError(
            f"table: these {len(runs):,} runs were made under {', '.join(axes) or 'no settings'}: expected the runs of "
            "a sweep of two settings or more, such as grid={'max_steps': [...], 'tool_budget': [...]}"
        )
    for name in names:
        kinds = list(dict.fromkeys(run.settings.get(name) for run in runs))
        if name not in axes and len(kinds) > 1:
            raise SettingError(
                f"table: the runs differ in {name} ({', '.join(map(str, kinds[:4]))}): choose those of one, as in "
                f"[run for run in runs if run.settings[{name!r}] == {kinds[0]!r}]"
            )
    labelled = any(run.success is not None for run in runs)
    cells: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        cells.setdefault(tuple(run.settings.get(name) for name in axes), []).append(run)
    data = [
        {**dict(zip(axes, values, strict=True)), **_means(some, labelled=labelled)} for values, some in cells.items()
    ]
    frame = pd.DataFrame(data)
    kinds_of = {name: axis_dtype(name) for name in axes}
    floats = {name: "Float64" for name in frame if str(name).startswith("mean_") or name == SHARE}
    frame = frame.astype({**kinds_of, **floats, "unit": "string", "success_by": "string"})
    return Source(frame, lambda square, x, y: _of_sweep(runs, axes, square, (x, y), labelled=labelled))


def success_of(run: Run, *, labelled: bool) -> bool | None:
    """Whether a run succeeds: by its label; where no run has one, by the proxy, as in counterfactuals."""
    return run.success if labelled else proxy_success(run)


def _means(runs: Sequence[Run], *, labelled: bool) -> dict[str, Any]:
    known = [success for run in runs if (success := success_of(run, labelled=labelled)) is not None]
    reasons: dict[str, int] = {}
    for run in runs:
        reasons[f"n_{run.stop_reason}"] = reasons.get(f"n_{run.stop_reason}", 0) + 1
    return {
        "n_runs": len(runs),
        "unit": "run",
        "success_by": LABEL if labelled else PROXY,
        "n_labelled": len(known),
        "n_succeeded": sum(known),
        SHARE: sum(known) / len(known) if known else None,
        "mean_steps": sum(run.n_steps for run in runs) / len(runs),
        "mean_tool_calls": sum(run.n_tool_calls for run in runs) / len(runs),
        "mean_tokens": _mean([sum_usage(run, "input_tokens", "output_tokens") for run in runs]),
        "mean_cost_usd": _mean([sum_usage(run, "cost") for run in runs], MICRO),
        **reasons,
    }


def _mean(values: Sequence[int | None], scale: int = 1) -> float | None:
    total = known_sum(values)
    return None if total is None else total / scale / len(values)


def _of_sweep(
    runs: Sequence[Run], axes: Sequence[str], square: Square, drawn: tuple[str, str], *, labelled: bool
) -> Iterator[pd.DataFrame]:  # fmt: skip
    first = square.rows.iloc[0]
    fixed = {name: first[name] for name in axes if name not in drawn}
    rows = []
    for run in runs:
        if any(_differ(run.settings.get(name), value) for name, value in fixed.items()):
            continue
        at = {name: run.settings.get(name) for name in axes}
        rows.append(
            {
                "x": square.across.index(at[drawn[0]]),
                "y": square.up_values.index(at[drawn[1]]),
                "run_id": run.run_id,
                "steps": run.n_steps,
                "outcome": "made",
                "stop_reason": run.stop_reason,
                "success": success_of(run, labelled=labelled),
                "rank": STOPPED if run.censored else NOT_STOPPED,
            }
        )
    yield pd.DataFrame(rows).astype({"success": "boolean"})


def _differ(one: Any, other: Any) -> bool:  # noqa: ANN401 - numbers, None or NA
    return is_missing(one) != is_missing(other) or (not is_missing(one) and one != other)
