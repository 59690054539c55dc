"""The agent logs of this machine: where they lie and which of them boolab can read. Nothing is opened."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from boolab.places import Found
from boolab.stats.finding import clean, count

SCHEMA: Final = "boolab/doctor/1"

_DAY: Final = 86_400
_HOUR: Final = 3_600


def text(found: Sequence[Found], *, since: str | None = None, limit: int | None = None) -> str:
    """What `boolab doctor` prints.

    Args:
        found: What `found_logs` returns.
        since: The time that was asked for, for the command to run next.
        limit: How many logs to read, for the same command.
    """
    there = sorted((one for one in found if one.files), key=lambda one: (not one.readable, -one.files))
    window = f" changed since {clean(since)}" if since else ""
    lines = [f"boolab {version('boolab')}. Agent logs on this machine{window}; none has been opened:", ""]
    lines += _table(there) if there else ["  none"]
    absent = [one.format for one in found if not one.files]
    if absent:
        lines += ["", f"Looked for, and not there: {', '.join(absent)}."]
    return "\n".join([*lines, "", *_next(there, since, limit)])


def _table(there: Sequence[Found]) -> list[str]:
    head = ["", "files", "size", "newest", "boolab"]
    rows = [
        [one.format, f"{one.files:,}", size(one.bytes), ago(one.newest), "reads it" if one.readable else "cannot yet"]
        for one in there
    ]
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    lines = []
    for row, one in zip([head, *rows], [None, *there], strict=True):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  " + "  ".join(cells).rstrip())
        lines += [f"      {clean(_short(place))}" for place in one.places] if one is not None else []
    return lines


def _next(there: Sequence[Found], since: str | None, limit: int | None) -> list[str]:
    ready = [one for one in there if one.readable]
    if not ready:
        what = "No log here is of a format that boolab reads. " if there else ""
        return [f"{what}If you have logs elsewhere: boolab report FOLDER -o report.html",
                "Without any: boolab demo"]  # fmt: skip
    return ["Next:", f"  {command(ready[0], since=since, limit=limit)}"]


def command(found: Found, *, since: str | None = None, limit: int | None = None) -> str:
    """The command that makes a report of what was found."""
    place = next((_short(_root(place)) for place in found.places if Path(_root(place)).exists()), found.places[0])
    quoted = place if place.startswith("~/") and shlex.quote(place[2:]) == place[2:] else shlex.quote(place)
    more = [f"--since {shlex.quote(since)}"] if since else []
    more += [f"--limit {limit}"] if limit else []
    return " ".join(["boolab report", quoted, *more, "-o report.html"])


def _root(pattern: str) -> str:
    """The folder that a pattern begins with."""
    return str(Path(pattern.partition("*")[0])) if "*" in pattern else pattern


def _short(place: str) -> str:
    home = str(Path.home())
    return f"~{place[len(home) :]}" if home != "/" and place.startswith(f"{home}/") else place


def as_json(found: Sequence[Found], *, since: str | None = None, limit: int | None = None) -> str:
    """What `boolab doctor --json` prints."""
    ready = sorted((one for one in found if one.files and one.readable), key=lambda one: -one.files)
    logs: list[dict[str, Any]] = [
        {**one._asdict(), "places": list(one.places), "newest": one.newest and one.newest.isoformat()} for one in found
    ]
    data = {
        "schema": SCHEMA,
        "boolab": version("boolab"),
        "logs": logs,
        "next": command(ready[0], since=since, limit=limit) if ready else None,
    }
    return json.dumps(data, indent=1, ensure_ascii=False)


def size(n: float) -> str:
    """A number of bytes, as people say it.

    Example:
        >>> size(900), size(1_976_708)
        ('900 B', '2.0 MB')
    """
    for unit in ("B", "kB", "MB"):
        if n < 1000:  # noqa: PLR2004 - the next unit
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} GB"


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """How long ago that was.

    Example:
        >>> ago(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 4, tzinfo=UTC))
        '3 days ago'
    """
    if moment is None:
        return "never"
    seconds = max(0.0, ((now or datetime.now(UTC)) - moment).total_seconds())
    if seconds < _HOUR:
        return f"{count(int(seconds // 60), 'minute')} ago"
    return (
        f"{count(int(seconds // _HOUR), 'hour')} ago" if seconds < _DAY else f"{count(int(seconds // _DAY), 'day')} ago"
    )
