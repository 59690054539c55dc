"""What each format gives: a table of format against column, computed from the samples in tests/data.

python -m tests.logs.readers.given          prints the table
python -m tests.logs.readers.given --write  puts it into docs/formats.md
"""

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import pandas as pd

import boolab as bl
from boolab.io.resources import data_path
from boolab.logs.log_files import readers
from tests.support.project import ROOT
from tests.support.samples import OWN

PAGE: Final = ROOT / "docs" / "formats.md"
START, END = "<!-- {}: made by tests/logs/readers/given.py -->\n", "\n<!-- until here -->"

COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "model": ("runs", "model"),
    "task": ("runs", "task"),
    "start": ("runs", "started_at"),
    "success": ("runs", "success"),
    "version": ("runs", "harness_version"),
    "effort": ("runs", "effort"),
    "subagents": ("runs", "parent_run_id"),
    "step start": ("steps", "start_ms"),
    "step duration": ("steps", "duration_ms"),
    "first token": ("steps", "ttft_ms"),
    "finish reason": ("steps", "finish_reason"),
    "input tokens": ("steps", "input_tokens"),
    "output tokens": ("steps", "output_tokens"),
    "cached tokens": ("steps", "cached_tokens"),
    "cost": ("steps", "cost_usd"),
    "arguments": ("calls", "arguments"),
    "failed": ("calls", "is_error"),
    "call duration": ("calls", "duration_ms"),
}
"""What is asked of each format: the words of the table, and the frame and column that they stand for."""

QUESTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "step cap": (),
    "tool budget": (),
    "doom loop": ("arguments",),
    "error streak": ("failed",),
    "token budget": ("input tokens", "output tokens"),
    "cost budget": ("cost",),
    "time budget": ("step start", "step duration"),
    "labels": ("success",),
}
"""The limits that can be asked about, and what a log has to give for it."""

WHOLE, PART, NONE = "yes", "some", "-"


def samples() -> dict[str, list[bl.Run]]:
    """The runs of all samples by format."""
    found: dict[str, list[bl.Run]] = {name: [] for name in readers()}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", bl.errors.ReadWarning)
        own = bl.load_runs(data_path("datasets") / "runs" / "coder.jsonl")[:12]
        bl.save_runs(own, Path(folder) / "own.parquet")
        with bl.Store(Path(folder) / "own.db") as store:
            store.add(own)
        for place in (OWN, Path(folder)):
            for row in bl.read_logs(place).files:
                if row.format is not None and row.skipped is None:
                    found[row.format] += bl.read_logs(row.path, prices=False).runs
    return found


def given(runs: list[bl.Run]) -> Iterator[str]:
    """For each of `COLUMNS`, whether it is there in all rows, in some, or in none."""
    frames: dict[str, pd.DataFrame] = {"runs": bl.runs_df(runs), "steps": bl.steps_df(runs), "calls": bl.calls_df(runs)}
    frames["calls"] = frames["calls"][~frames["calls"]["dropped"]]
    for frame, name in COLUMNS.values():
        known = frames[frame][name].notna()
        yield WHOLE if known.all() else PART if known.any() else NONE


def columns_table(found: Mapping[str, list[bl.Run]]) -> str:
    """Which columns each format fills, in Markdown."""
    return _table(["format", *COLUMNS], [[name, *given(runs)] for name, runs in found.items()])


def questions_table(found: Mapping[str, list[bl.Run]]) -> str:
    """Which limits each format can be asked about, in Markdown."""
    rows = []
    for name, runs in found.items():
        there = dict(zip(COLUMNS, given(runs), strict=True))
        rows.append([name, *(_least(there[column] for column in needed) for needed in QUESTIONS.values())])
    return _table(["format", *QUESTIONS], rows)


def _least(said: Iterable[str]) -> str:
    return min(said, key=(NONE, PART, WHOLE).index, default=WHOLE)


def _table(head: list[str], body: list[list[str]]) -> str:
    widths = [max(len(row[place]) for row in (head, *body)) for place in range(len(head))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in (head, *body)]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


TABLES: Final[Mapping[str, Callable[[Mapping[str, list[bl.Run]]], str]]] = {
    "questions": questions_table,
    "columns": columns_table,
}


def written(name: str) -> str:
    """The table of that name that stands in the documentation."""
    return PAGE.read_text().partition(START.format(name))[2].partition(END)[0]


if __name__ == "__main__":
    runs_of = samples()
    for title, make in TABLES.items():
        if "--write" in sys.argv:
            old, new = (START.format(title) + text for text in (written(title), make(runs_of)))
            PAGE.write_text(PAGE.read_text().replace(old, new))
        else:
            print(make(runs_of), end="\n\n")  # noqa: T201 - what it is for
