"""The limits that were set for the runs of a study, as a part of its page: see `boolab.live.audits.audit`."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Final

from boolab.core.text import count
from boolab.errors import program
from boolab.frames.dtypes import is_missing
from boolab.live.audits.audit import audit_files
from boolab.live.audits.wording import figure
from boolab.report.html import PageTable
from boolab.report.study import Study

MAX_ROWS: Final = 20
_COLUMNS: Final = {
    "verdict": "verdict",
    "run_id": "run",
    "agent": "agent",
    "limit": "limit",
    "declared": "declared",
    "counted": "counted",
    "unit": "unit",
    "first_step_beyond": "beyond from step",
    "where": "declared in",
    "note": "note",
}
_NUMBERS: Final = ("declared", "counted", "first_step_beyond")


def declared_limits(study: Study) -> dict[str, object] | None:
    """The notes, the sentences and the table of the audit, without empty columns; None where no limit was declared."""
    pairs = zip(study.homes, study.runs, strict=True)
    files = [(Path(home) if home else None, [run for _, run in part]) for home, part in groupby(pairs, lambda p: p[0])]
    found = audit_files(files)
    if not len(found.frame):
        return None
    shown = found.frame[list(_COLUMNS)].head(MAX_ROWS)
    names = [name for name in _COLUMNS if any(_cell(name, value) for value in shown[name])]
    rows = [[_cell(name, value) for name, value in zip(names, row, strict=True)] for row in shown[names].to_numpy()]
    left = len(found.frame) - len(shown)
    note = f"{count(left, 'further row')}: {program()} audit LOGS --json has all." if left else ""
    numbers = [place for place, name in enumerate(names) if name in _NUMBERS]
    return {
        "notes": found.notes,
        "sentences": found.sentences,
        "table": PageTable([_COLUMNS[name] for name in names], rows, numbers, note=note),
    }


def _cell(name: str, value: object) -> str:
    if is_missing(value):
        return ""
    return figure(float(str(value))) if name in _NUMBERS else str(value)
