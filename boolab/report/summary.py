"""The table of the report: what to set for each group, and what that, or what comes closest to it, keeps and saves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pandas as pd

from boolab.core.text import shorten
from boolab.core.types import MICRO
from boolab.display.numbers import floor_percent, level, percent, span
from boolab.display.text import NO_NAME, capitalize
from boolab.frames.dtypes import axis_value
from boolab.limits.table import LIMITS
from boolab.report.study import UNITS, Study, column_name
from boolab.report.units import key_of
from boolab.stats.recommend.decide import GroupDecision
from boolab.stats.recommend.fixed_sequence import JOINT
from boolab.stats.recommend.words import compare_in_words, limits_in_words, reason_in_words
from boolab.stats.units import group_name

MAX_ROWS: Final = 20
"""So many agents are listed."""
_RANK: Final = {"set": 0, "leave": 1, "not_yet": 2}


class SummaryRow(NamedTuple):
    """A row of the table: the decision on a group, or a limit by itself."""

    key: str  # which group it is: see `boolab.report.study.key_of`; "" if there is one only
    name: str  # the agent, or the group; of a limit by itself, that limit
    group: GroupDecision
    limits: Mapping[str, Any]  # by axis, the value to set, or of the limit by itself; empty where none is to be set
    evidence: Mapping[str, Any]  # the limits that the numbers are about
    kept: tuple[int, int]  # at least and at most so many successes are kept
    # what is saved, and of how much, in the unit of the study; None if that is not on record
    saved: tuple[float, float] | None
    by_itself: bool = False  # whether it is a limit by itself, and not the decision
    names: tuple[str, ...] = ()  # the group's values of the columns that separate groups
    # the data set of its runs, or the format of their logs; "" if it is in the name, or there are several
    data: str = ""

    @property
    def title(self) -> str:
        """The name without the data set, and without what is missing."""
        if self.by_itself:
            return self.name
        return ", ".join(name for name in self.names if name not in {self.data, NO_NAME}) or self.name

    @property
    def is_set(self) -> bool:
        """Whether it has limits to set."""
        return self.group.action == "set" and not self.by_itself

    @property
    def reason(self) -> str:
        """Why nothing is set, in a few words; "" where something is."""
        return "" if self.group.action == "set" or self.by_itself else reason_in_words(self.group)

    @property
    def successes(self) -> int:
        """How many successes are on record, or units that ended by themselves."""
        return self.group.choice.successes

    @property
    def kept_words(self) -> str:
        """What is kept, with its base."""
        return f"{span(*self.kept)} of {self.successes:,}" if self.successes else "no success on record"

    @property
    def saved_share(self) -> float | None:
        """What is saved, as a share of what was used."""
        return None if self.saved is None or not self.saved[1] else self.saved[0] / self.saved[1]

    @property
    def interval(self) -> str:
        """The 95% interval of the share that is saved, such as "35% to 58%"; "" if there is none."""
        low, high = self.group.saving.low, self.group.saving.high
        return "" if self.by_itself or not self.evidence or low is None else f"{percent(low)} to {percent(high or 0)}"


def summary_rows(study: Study) -> list[SummaryRow]:
    """A row for each group; if there is one group only, then one for each of its limits by itself too.

    Main agents come before subagents. Of each, groups with limits to set come first, those with too few data last; of
    each, those that save most.
    """
    rows = [_row(study, group) for group in study.found.groups]
    if len(rows) == 1:
        return [*rows, *_by_themselves(rows[0])]
    mains = {key for key, run in zip(study.run_keys, study.runs, strict=True) if run.parent_run_id is None}
    return sorted(rows, key=lambda row: (row.key not in mains, _RANK[row.group.action], -(row.saved_share or 0)))


def axes_of_rows(study: Study, rows: Sequence[SummaryRow]) -> list[str]:
    """The limits that have a column: those that a row sets; one where none does."""
    tried = [name for name in LIMITS if any(name in group.question.order for group in study.found.groups)]
    on = [name for name in tried if any(row.limits.get(name) is not None for row in rows)]
    return on or tried[:1]


def limit_heads(rows: Sequence[SummaryRow], axes: Sequence[str]) -> list[str]:
    """What the columns of the limits are called: that of "none" is of no limit in particular."""
    is_any_on = any(row.limits.get(axis) is not None for row in rows for axis in axes)
    return [LIMITS[axis].label for axis in axes] if is_any_on else ["limit to set"]


def summary_head(study: Study) -> str:
    """What the first column of the table is."""
    return column_name(study.keys[0]) if study.keys else "agent"


def summary_frame(study: Study, rows: Sequence[SummaryRow]) -> pd.DataFrame:
    """The table for a spreadsheet: the same rows, its numbers in cells of their own, under names that people read."""
    axes = axes_of_rows(study, rows)
    kept, unit = f"{study.success_noun(2)} kept", UNITS[study.measure]
    return pd.DataFrame(
        {
            summary_head(study): row.title,
            "data set or log format": row.data,
            study.nouns: row.group.units.n_runs,
            **{head: _csv_limit(row, axis) for head, axis in zip(limit_heads(rows, axes), axes, strict=True)},
            "why none": row.reason,
            "limits that the numbers are of": limits_in_words(row.evidence) or "none",
            f"{kept}, at least": row.kept[0],
            f"{kept}, at most": row.kept[1],
            study.success_noun(2): row.successes,
            f"{unit} saved": _csv_amount(study, row.saved[0] if row.saved else None),
            f"{unit} on record": _csv_amount(study, row.saved[1] if row.saved else None),
            "95% interval": row.interval,
            "held out": "" if row.by_itself else held_out_words(row.group),
            "stops": "" if row.by_itself else whom_words(row.group),
            "trade": row.group.trade.sentence if row.is_set else "",
        }
        for row in rows
    )


def _csv_amount(study: Study, amount: float | None) -> str:
    """An amount without a thousands separator: dollars in cents, else a whole number; "" if it is not known."""
    return "" if amount is None else f"{amount:.2f}" if study.measure == "cost_usd" else f"{amount:.0f}"


def _csv_limit(row: SummaryRow, axis: str) -> object:
    """A limit as the table has it."""
    value = row.limits.get(axis)
    return value if value is not None else "off" if row.is_set or row.by_itself else "none"


def _row(study: Study, group: GroupDecision) -> SummaryRow:
    name = group_name(group.names) if group.names else _whose(study)
    key = key_of(group.names)
    measure = group.question.measure
    known = bool((group.units.used[measure] >= 0).any()) if measure != "steps" else True
    unit = MICRO if measure == "cost" else 1
    return SummaryRow(
        key, name, group, group.setting_on, {} if group.candidate is None else group.candidate.setting,
        (group.sums["kept_lower"], group.sums["kept_upper"]),
        (group.saved / unit, group.spent / unit) if known else None,
        names=tuple(group_name([value]) for value in group.names), data=_data(study, key, group.names),
    )  # fmt: skip


def _data(study: Study, key: str, values: Sequence[Any]) -> str:
    """The data set of a group, as its row has it below the agent."""
    found = shorten(study.data_of(key))
    alone = found == (group_name(values) if values else _whose(study))
    return "" if alone else found


def _whose(study: Study) -> str:
    """The agent of these runs, if there is one."""
    if len(study.agent_counts) != 1:
        return "all agents"
    agent = study.agent_counts[0].agent
    return group_name([agent]) if agent else shorten(study.data_of("")) or group_name([agent])


def _by_themselves(whole: SummaryRow) -> Iterator[SummaryRow]:
    """The best value of each limit by itself, except those that the decision is about."""
    choice = whole.group.choice
    for path in choice.paths:
        limits = {name: value for name, value in (path.setting or {}).items() if value is not None}
        if path.tests.path.name == JOINT or not limits or limits == whole.evidence:
            continue
        kept = whole.successes - path.lost
        share = whole.group.share_of(path)
        saved = None if whole.saved is None or share is None else (share * whole.saved[1], whole.saved[1])
        name = f"{LIMITS[next(iter(limits))].label} by itself"
        yield whole._replace(
            name=name, limits=limits, evidence=limits, kept=(kept, kept), saved=saved, by_itself=True, data=""
        )


def limit_cell(row: SummaryRow, axis: str) -> str:
    """The value of a limit as the table shows it; "" where it is off."""
    value = row.limits.get(axis)
    return "" if value is None else axis_value(axis, value)


def kept_note(row: SummaryRow, keep: float) -> str:
    """The share that is kept on record, and of the future ones, if it is to be set."""
    if not row.successes or not row.evidence:
        return ""
    share = floor_percent(row.kept[0] / row.successes)
    return f"{share}, at least {level(keep)}" if row.is_set and row.group.budget is None else share


def whom_words(group: GroupDecision) -> str:
    """Whom the candidate stops: "97 of 100 fail, 87 expected"; "" where it stops none."""
    stopped = group.stopped
    if not stopped.n:
        return ""
    unknown = f"; {stopped.unknown:,} unknown" if stopped.unknown else ""
    return f"{compare_in_words(group, stopped.failures, stopped.n)}{unknown}"


def held_out_words(group: GroupDecision) -> str:
    """What settings kept and saved on tasks that they were not chosen on; "" if that was not tested."""
    if group.folds is None or not group.folds["chosen"]:
        return ""
    saved = "" if group.heldout_saved_share is None else f", saved {percent(group.heldout_saved_share)}"
    return capitalize(f"kept {group.folds['kept_lower']:,} of {group.choice.successes:,}{saved}")
