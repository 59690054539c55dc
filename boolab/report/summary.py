"""The table of the report: what is recommended to each agent, what that keeps and saves, and its trade."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pandas as pd

from boolab.core.text import count, shorten
from boolab.display.numbers import floor_percent, level, span
from boolab.frames.dtypes import axis_value, is_missing
from boolab.limits.table import LIMITS
from boolab.report.study import UNITS, CountedUnits, Study, column_name
from boolab.report.units import key_of
from boolab.stats.trade import BETTER_OFF, Trade
from boolab.stats.units import group_name

MAX_ROWS: Final = 20
"""So many agents are listed."""


class SummaryRow(NamedTuple):
    """A row of the table: the recommendation to a group, or one of its limits by itself."""

    key: str  # which group it is: see `boolab.report.study.key_of`; "" if there is one only
    name: str  # the agent, or the group; of a limit by itself, that limit
    limits: Mapping[str, Any]  # by axis, the value that is recommended; None is off
    runs: int  # the number of runs, or of turns where each is limited by itself
    successes: int  # how many successes are on record, or runs that ended by themselves
    kept: tuple[int, int]  # at least and at most so many of them are kept
    # what is saved, and of how much, in the unit of the study; None if that is not on record
    saved: tuple[float, float] | None
    trade: Trade | None  # what is saved for what may be lost; None where nothing is recommended
    lacks: str = ""  # why nothing is recommended; "" if something is
    recommended: bool = True  # whether it is the recommendation, and not a limit by itself
    names: tuple[str, ...] = ()  # the group's values of the columns that keep groups apart
    # the data set of its runs, or the format of their logs; "" if it is in the name, or there are several
    data: str = ""

    @property
    def title(self) -> str:
        """The name without the data set."""
        return self.name.removesuffix(f", {self.data}") if self.data else self.name

    @property
    def is_poor(self) -> bool:
        """Whether its limits are better left off."""
        return self.trade is not None and self.trade.is_poor

    @property
    def is_on(self) -> bool:
        """Whether any limit is set."""
        return any(value is not None for value in self.limits.values())

    @property
    def kept_words(self) -> str:
        """What is kept, with its base."""
        return f"{span(*self.kept)} of {self.successes:,}" if self.successes else "no success on record"

    @property
    def saved_share(self) -> float | None:
        """What is saved, as a share of what was used."""
        return None if self.saved is None or not self.saved[1] else self.saved[0] / self.saved[1]


def summary_rows(study: Study) -> list[SummaryRow]:
    """A row for each group; if there is one group only, then one for each of its limits by itself too.

    Main agents come before subagents. Of each, groups with a good trade come first, those without a recommendation
    last; of each, those that save most, else in the order of `order_agents`.
    """
    rows = [_row(study, row) for row in study.found.frame.to_dict("records")]
    if len(rows) == 1:
        return [*rows, *_by_themselves(study, rows[0])]
    mains = {key for key, run in zip(study.run_keys, study.runs, strict=True) if run.parent_run_id is None}
    return sorted(rows, key=lambda row: (row.key not in mains, not row.is_on, row.is_poor, -(row.saved_share or 0)))


def axes_of_rows(study: Study, rows: Sequence[SummaryRow]) -> list[str]:
    """The limits that have a column: those that a row sets; one where none does."""
    frame = study.found.frame
    tried = [name for name in LIMITS if name in frame]
    on = [name for name in tried if any(row.limits.get(name) is not None for row in rows)]
    return on or tried[:1]


def summary_head(study: Study) -> str:
    """What the first column of the table is."""
    return column_name(study.question.by[0]) if study.question.by else "agent"


def summary_frame(study: Study, rows: Sequence[SummaryRow]) -> pd.DataFrame:
    """The table for a spreadsheet: the same rows, its numbers in cells of their own, under names that people read."""
    axes = axes_of_rows(study, rows)
    kept, unit = f"{study.success_noun(2)} kept", UNITS[study.measure]
    return pd.DataFrame(
        {
            summary_head(study): row.title,
            "data set or log format": row.data,
            study.nouns: row.runs,
            **{LIMITS[axis].label: _csv_limit(row, axis) for axis in axes},
            f"{kept}, at least": row.kept[0],
            f"{kept}, at most": row.kept[1],
            study.success_noun(2): row.successes,
            f"{unit} saved": _csv_amount(study, row.saved[0] if row.saved and row.is_on else None),
            f"{unit} on record": _csv_amount(study, row.saved[1] if row.saved else None),
            "trade": " ".join(filter(None, (f"{word}:" if note else word, note))),
            "remark": row.lacks or (BETTER_OFF if row.is_poor else "recommended" if row.recommended else ""),
        }
        for row in rows
        for word, note in [trade_words(row)]
    )


def _csv_amount(study: Study, amount: float | None) -> str:
    """An amount without a thousands separator: dollars in cents, else a whole number; "" if it is not known."""
    return "" if amount is None else f"{amount:.2f}" if study.measure == "cost_usd" else f"{amount:.0f}"


def _csv_limit(row: SummaryRow, axis: str) -> object:
    """A limit as the table has it."""
    limit = limit_cell(row, axis)
    if row.lacks:
        return "none"
    return "off" if not limit else f"none ({limit} is safe)" if row.is_poor else row.limits[axis]


def _row(study: Study, row: Mapping[Any, Any]) -> SummaryRow:
    on = bool(row["qualifies"])
    limits = {name: None if is_missing(row[name]) or not on else row[name] for name in LIMITS if name in row}
    kept = (int(row["kept_lower"]), int(row["kept_upper"]))
    successes = int(row["successes"])
    known = not is_missing(row["saved"])
    saved = (float(row["saved"]), float(row["saved"]) + float(row["spent"])) if known else None
    set_ = any(value is not None for value in limits.values())
    trade = Trade(saved[0], successes - kept[0], saved[1], successes, _unit(study)) if saved and set_ else None
    values = [row[column] for column in study.question.by]
    name = group_name(values) if values else _whose(study)
    key = key_of(values)
    lacks = "" if set_ else _lacks(row, study, study.counted_units_of(key))
    return SummaryRow(
        key, name, limits, int(row["n_units"]), successes, kept, saved, trade, lacks,
        names=tuple(group_name([value]) for value in values), data=_data(study, key, values),
    )  # fmt: skip


def _data(study: Study, key: str, values: Sequence[Any]) -> str:
    """The data set of a group, as its row has it below the agent."""
    found = shorten(study.data_of(key))
    alone = found == (group_name(values) if values else _whose(study))
    return "" if alone else found


def _whose(study: Study) -> str:
    """The agent of these runs, if there is one."""
    return group_name([study.agent_counts[0].agent]) if len(study.agent_counts) == 1 else "all agents"


def _unit(study: Study) -> str:
    return "cost" if study.measure == "cost_usd" else UNITS[study.measure]


def _lacks(row: Mapping[Any, Any], study: Study, counted: CountedUnits) -> str:
    if row["qualifies"]:
        return f"none would have saved any {_unit(study)}"
    if is_missing(row["more_needed"]) or not row["more_needed"]:
        return "none is sure to keep enough"
    more = int(row["more_needed"])
    if row["largest_task"] > 1:
        cluster = row["cluster"]
        return f"{count(more, f'more {cluster}')} like these needed"
    what = count(more, f"more such {counted.noun}") if counted.proxy else count(more, "more success", "more successes")
    return f"{what} needed"


def _by_themselves(study: Study, whole: SummaryRow) -> Iterator[SummaryRow]:
    """The best value of each limit by itself, except those that are the recommendation."""
    for path in study.found.paths.to_dict("records"):
        limits = {name: path[name] for name in LIMITS if name in path and not is_missing(path[name])}
        if path["path"] == "joint" or not path["accepted"] or not limits or limits == _on(whole):
            continue
        kept = whole.successes - int(path["lost"])
        saved = None if whole.saved is None else (float(path["saved"]), whole.saved[1])
        trade = None if saved is None else Trade(saved[0], int(path["lost"]), saved[1], whole.successes, _unit(study))
        name = f"{LIMITS[next(iter(limits))].label} by itself"
        yield whole._replace(
            name=name, limits=limits, kept=(kept, kept), saved=saved, trade=trade, lacks="", recommended=False, data=""
        )


def _on(row: SummaryRow) -> dict[str, Any]:
    return {name: value for name, value in row.limits.items() if value is not None}


def limit_cell(row: SummaryRow, axis: str) -> str:
    """The value of a limit as the table shows it; "" where it is off."""
    value = row.limits.get(axis)
    return "" if value is None else axis_value(axis, value)


def trade_words(row: SummaryRow) -> tuple[str, str]:
    """The trade of a row in a word, and the numbers that are compared."""
    trade = row.trade
    if trade is None or trade.costs is None:
        return "", ""
    if trade.each is None:
        return "loses none", ""
    word = "even" if trade.is_even else "poor" if trade.is_poor else "good"
    took = str(trade.costs).removesuffix(f" {trade.unit}")
    return (
        word,
        f"{trade.each} for each lost success; a success {'costs' if trade.unit == 'cost' else 'takes'} {took}",
    )


def kept_note(row: SummaryRow, keep: float) -> str:
    """The share that is kept on record, and of the future ones, if it is a recommendation."""
    if not row.successes:
        return ""
    share = floor_percent(row.kept[0] / row.successes)
    return f"{share}, at least {level(keep)}" if row.is_on else share
