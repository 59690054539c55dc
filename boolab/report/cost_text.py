"""What `boolab cost` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pandas as pd

from boolab.core.text import count, shorten
from boolab.core.types import MICRO
from boolab.display.numbers import duration
from boolab.display.text import align_columns, wrap_text
from boolab.frames.dtypes import is_missing
from boolab.frames.runs import own_part
from boolab.stats.cost.allocated import PIECE_NAMES, AllocatedRun, cause_name, facts_of_bill, pieces_usd
from boolab.stats.cost.bills import Bill, bill_of

_N_CAUSES: Final = 5
_MAX_ROWS: Final = 40
_MAX_LINES: Final = 20


def overview_text(
    allocated: Sequence[AllocatedRun], causes: pd.DataFrame, misses: pd.DataFrame, threshold: str = ""
) -> str:
    """The bill in at most 20 lines: its pieces, the dearest causes, the misses, and what is not on record.

    `threshold` is a sentence about the cheapest compaction threshold.
    """
    facts = facts_of_bill(allocated)
    runs = count(len(allocated), "run")
    if facts.bill_usd:
        lines = [wrap_text(bill_sentence(allocated)), *align_columns(piece_rows(allocated)), ""]
        lines += [*_cause_lines(causes.head(_N_CAUSES), ["tool"]), ""]
        lines += [wrap_text(sentence) for sentence in (miss_sentence(misses), threshold) if sentence]
    elif len(causes) and facts.totals_only_runs:
        ranked = [cause_name(cause) for cause in causes["tool"].head(_N_CAUSES)]
        lines = [wrap_text(f"No dollars for {runs}. Causes by rank: {'; '.join(ranked)}.")]
    else:
        lines = [f"No cost on record for {runs}."]
    return _with_notes(lines, facts.notes())


def _with_notes(lines: Sequence[str], notes: Sequence[str]) -> str:
    """The lines and notes; where that is too long without empty lines, and with the notes for which there is room."""
    text = _split_lines(lines, notes)
    if len(text) <= _MAX_LINES:
        return "\n".join(text)
    filled = [line for line in _split_lines(lines, ()) if line]
    kept: list[str] = []
    for note in notes:
        if len(_split_lines(filled, _kept_notes([*kept, note], len(notes)))) <= _MAX_LINES:
            kept.append(note)
    return "\n".join(_split_lines(filled, _kept_notes(kept, len(notes))))


def _split_lines(lines: Sequence[str], notes: Sequence[str]) -> list[str]:
    return "\n".join([*lines, wrap_text(" ".join(notes))]).rstrip().splitlines()


def _kept_notes(kept: Sequence[str], n_notes: int) -> list[str]:
    n_left = n_notes - len(kept)
    return [*kept, *([f"--by tool has {count(n_left, 'more note')}."] if n_left else [])]


def bill_sentence(allocated: Sequence[AllocatedRun]) -> str:
    """The bill of runs, and what their logs state themselves."""
    parts = [own_part(row.run) for row in allocated]
    n_requests = sum(part.n_steps + len(part.outside) for part in parts)
    runs = f"{count(len(allocated), 'run')} with {count(n_requests, 'request')}"
    bill = f"${facts_of_bill(allocated).bill_usd:,.2f} for {runs}, from the logs or at list prices"
    stated = _stated_sentence([bill_of(row.run) for row in allocated])
    return f"{bill}; a plan's allowance is counted otherwise.{stated}"


def causes_text(causes: pd.DataFrame, names: Sequence[str]) -> str:
    """The rows of `bl.cost_by`, the dearest first."""
    n_left = len(causes) - _MAX_ROWS
    lines = _cause_lines(causes.head(_MAX_ROWS), names)
    lines += [f"and {count(n_left, 'cause')} more: --csv FILE writes all"] if n_left > 0 else []
    return "\n".join([*lines, *map(wrap_text, causes.attrs["notes"])])


def misses_text(misses: pd.DataFrame) -> str:
    """The rows of `bl.cache_misses_df`, the dearest first."""
    rows = miss_rows(misses, _MAX_ROWS)
    lines = align_columns([MISS_HEAD, *rows]) if rows else []
    n_left = len(misses) - len(rows)
    lines += [f"and {count(n_left, 'miss', 'misses')} more: --csv FILE writes all"] if n_left else []
    return "\n".join([wrap_text(miss_sentence(misses)), *lines])


MISS_HEAD: Final = ["run", "step", "tokens", "extra", "idle", "cause"]


def miss_rows(misses: pd.DataFrame, n: int) -> list[list[str]]:
    """The `n` dearest rows of `bl.cache_misses_df` as text, in the columns of `MISS_HEAD`."""
    dearest: list[dict[str, Any]] = misses.sort_values("extra_usd", ascending=False).head(n).to_dict("records")  # type: ignore[assignment]
    return [
        [shorten(row["run_id"], 12), f"{row['step']:,}", f"{row['missed']:,}", _dollars(row["extra_usd"]),
         "" if is_missing(row["idle_s"]) else duration(round(row["idle_s"] * 1000)), row["cause"]]
        for row in dearest
    ]  # fmt: skip


def units_text(units: pd.DataFrame) -> str:
    """The rows of `bl.compare_units`, that which saves most first."""
    rows: list[dict[str, Any]] = units.to_dict("records")  # type: ignore[assignment]
    n_units, noun = max(row["n_units"] for row in rows), rows[0]["unit"]
    share = f"{units.attrs['stopped']:.0%}"
    head = f"{count(n_units, noun)} that cost ${units.attrs['bill_usd']:,.2f}. A budget that stops at most {share}:"
    cells = [
        [row["budget"], _limit(row), str(row["n_stopped"]), f"{row['saved_share']:.0%}",
         f"{row['saved_share_low']:.0%} to {row['saved_share_high']:.0%}", _dollars(row["largest_bill_usd"])]
        for row in rows if not is_missing(row["saved_share"])
    ]  # fmt: skip
    refusal = (
        f"No budget stops at most {share} of {count(n_units, noun)}." if n_units else f"No {noun} has a known cost."
    )
    lines = [wrap_text(head if cells else refusal)]
    lines += (
        align_columns([["budget", "limit", "stopped", "saves", "95% interval", "largest bill"], *cells])
        if cells
        else []
    )
    unknown = [row["budget"] for row in rows if is_missing(row["limit"]) and row["n_units"] < n_units]
    notes = [f"Not known: {', '.join(unknown)}."] if unknown and cells else []
    return "\n".join([*lines, *map(wrap_text, [*notes, *units.attrs["notes"]])])


def _limit(row: Mapping[str, Any]) -> str:
    """A limit as the table has it, in the budget's own unit."""
    limit = row["limit"]
    return (
        _dollars(limit)
        if row["budget"] == "cost"
        else f"{limit:,.1f}"
        if row["budget"] == "minutes"
        else f"{limit:,.0f}"
    )


def miss_sentence(misses: pd.DataFrame) -> str:
    """How many misses of the cache there are, what they cost, and their causes."""
    if misses.empty:
        return "No miss of the provider's cache above 2,000 tokens is on record."
    causes = misses.groupby("cause").agg(n=("step", "size"), usd=("extra_usd", "sum")).sort_values("usd")[::-1]
    n_misses = f"{count(len(misses), 'miss', 'misses')} of the cache"
    if misses["extra_usd"].isna().all():
        return f"{n_misses}: {'; '.join(f'{row.n:,} {cause}' for cause, row in causes.iterrows())}."
    parts = [f"{row.n:,} {cause} {_dollars(row.usd)}" for cause, row in causes.iterrows()]
    return f"{n_misses} cost {_dollars(misses['extra_usd'].sum())} extra: {'; '.join(parts)}."


def _stated_sentence(bills: Sequence[Bill]) -> str:
    """What the logs state themselves, beside the same runs at list prices."""
    stated = [bill.stated.cost for bill in bills if bill.stated is not None]
    computed = [bill.computed for bill in bills if bill.stated is not None]
    if not stated:
        return ""
    list_costs = [cost for cost in computed if cost is not None]
    list_prices = f"; list prices give ${sum(list_costs) / MICRO:,.2f}" if len(list_costs) == len(stated) else ""
    return f" The logs of {count(len(stated), 'run')} state ${sum(stated) / MICRO:,.2f}{list_prices}."


def piece_rows(allocated: Sequence[AllocatedRun]) -> list[list[str]]:
    """What is paid for: its name, its share of the bill, and its dollars."""
    pieces = pieces_usd(allocated)
    bill_usd = sum(pieces.values())
    return [[PIECE_NAMES[piece], f"{usd / bill_usd:.0%}", _dollars(usd)] for piece, usd in pieces.items()]


def _cause_lines(causes: pd.DataFrame, names: Sequence[str]) -> list[str]:
    if len(causes) and causes["requests"].isna().all():  # totals only: their order is all there is
        rows = causes.to_dict("records")
        cells = [[*(_cell(row[name]) for name in names), str(row["rank"])] for row in rows]
        return align_columns([[*names, "rank"], *cells])
    return align_columns([[*names, *CAUSE_HEAD], *cause_rows(causes, names)])


CAUSE_HEAD: Final = ("cost", "share", "measured")


def cause_rows(causes: pd.DataFrame, names: Sequence[str]) -> list[list[str]]:
    """The rows of `bl.cost_by` as text: the columns of the names, and those of `CAUSE_HEAD`."""
    records: list[dict[str, Any]] = causes.to_dict("records")  # type: ignore[assignment]
    return [
        [
            *(_cell(row[name]) for name in names),
            _dollars(row["total_usd"]),
            _share(row["share"]),
            _share(row["share_measured"]),
        ]
        for row in records
    ]


def _cell(value: object) -> str:
    return "" if is_missing(value) else cause_name(value) if isinstance(value, str) else str(value)


def _share(value: Any) -> str:  # noqa: ANN401 - a cell
    return "" if is_missing(value) else f"{value:.0%}"


def _dollars(value: Any) -> str:  # noqa: ANN401 - a cell
    return "" if is_missing(value) else f"${value:,.2f}"
