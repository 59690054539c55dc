"""The command `boolab doctor`: where the agent logs of this machine are, and which of them boolab can read."""

from __future__ import annotations

import argparse
import json
import math
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Final

from boolab.cli.arguments import add_window, since_time
from boolab.cli.help import Command
from boolab.core.text import clean, count
from boolab.display.numbers import size
from boolab.display.text import align_columns, wrap_text
from boolab.errors import program
from boolab.logs.discovery import HarnessLogs, found_logs

SCHEMA: Final = "boolab/doctor/1"

_UNITS: Final = (("minute", 60, 3_600), ("hour", 3_600, 86_400), ("day", 86_400, math.inf))


def text(harness_logs: Sequence[HarnessLogs], *, since: str | None = None, limit: int | None = None) -> str:
    """What `boolab doctor` prints; `since` and `limit` are options of the command to run next."""
    counted_logs = sorted((log for log in harness_logs if log.files), key=lambda log: (not log.readable, -log.files))
    window = f" changed since {clean(since)}" if since else ""
    lines = [f"boolab {version('boolab')}. Agent logs on this machine{window}; none of them was opened:", ""]
    lines += _table(counted_logs) if counted_logs else ["  none"]
    unread = [*chain.from_iterable(log.unread for log in harness_logs)]
    if unread:
        lines += ["", "Cannot be looked at:", *(f"  {clean(path)}" for path in unread)]
    absent = [log.format for log in harness_logs if not log.files]
    if absent:
        lines += ["", wrap_text(f"Not found: {', '.join(absent)}.")]
    return "\n".join([*lines, "", *_next_lines(counted_logs, since, limit)])


def _table(counted_logs: Sequence[HarnessLogs]) -> list[str]:
    columns = ["", "files", "size", "newest", "boolab"]
    rows = [
        [
            log.format,
            f"{log.files:,}",
            size(log.bytes),
            format_age(log.newest),
            "reads it" if log.readable else "cannot read it",
        ]
        for log in counted_logs
    ]
    head, *lines = (f"  {line}" for line in align_columns([columns, *rows]))
    path_lines = (
        [f"      {clean(_shorten_home(path))}" for path in log.places if Path(_root(path)).exists()]
        for log in counted_logs
    )
    return [
        head,
        *chain.from_iterable((line, *lines_below) for line, lines_below in zip(lines, path_lines, strict=True)),
    ]


def _next_lines(counted_logs: Sequence[HarnessLogs], since: str | None, limit: int | None) -> list[str]:
    ready = [log for log in counted_logs if log.readable]
    if not ready:
        opening = "No log here is of a format that boolab reads. " if counted_logs else ""
        elsewhere = f"{opening}If you have logs elsewhere: {program()} report FOLDER -o report.html"
        return [elsewhere, f"Next: {program()} report atlas/swebench-verified -o report.html"]
    return [f"Next: {command(ready[0], since=since, limit=limit)}"]


def command(log: HarnessLogs, *, since: str | None = None, limit: int | None = None) -> str:
    """The command that makes a report of what was found."""
    path = next((_shorten_home(_root(path)) for path in log.places if Path(_root(path)).exists()), log.places[0])
    quoted = path if path.startswith("~/") and shlex.quote(path[2:]) == path[2:] else shlex.quote(path)
    options = [f"--since {shlex.quote(since)}"] if since else []
    options += [f"--limit {limit}"] if limit else []
    return " ".join([program(), "report", quoted, *options, "-o report.html"])


def _root(pattern: str) -> str:
    """The folder that a pattern begins with."""
    return str(Path(pattern.partition("*")[0])) if "*" in pattern else pattern


def _shorten_home(path: str) -> str:
    home = str(Path.home())
    return f"~{path[len(home) :]}" if home != "/" and path.startswith(f"{home}/") else path


def as_json(harness_logs: Sequence[HarnessLogs], *, since: str | None = None, limit: int | None = None) -> str:
    """What `boolab doctor --json` prints."""
    ready = sorted((log for log in harness_logs if log.files and log.readable), key=lambda log: -log.files)
    logs: list[dict[str, Any]] = [
        {**log._asdict(), "places": list(log.places), "newest": log.newest and log.newest.isoformat()}
        for log in harness_logs
    ]
    data = {
        "schema": SCHEMA,
        "boolab": version("boolab"),
        "logs": logs,
        "next": command(ready[0], since=since, limit=limit) if ready else None,
    }
    return json.dumps(data, indent=1, ensure_ascii=False)


def format_age(moment: datetime | None, current_time: datetime | None = None) -> str:
    """How long ago that was."""
    if moment is None:
        return "never"
    seconds = max(0.0, ((current_time or datetime.now(UTC)) - moment).total_seconds())
    unit, unit_seconds = next((unit, unit_seconds) for unit, unit_seconds, maximum in _UNITS if seconds < maximum)
    return f"{count(int(seconds // unit_seconds), unit)} ago"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_window(parser, "the N of --limit in the command to run next (default: none there)")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of text: schema, boolab, logs, next"
    )


def run(args: argparse.Namespace) -> int:
    """Print what is found."""
    harness_logs = found_logs(since=since_time(args))
    show = as_json if args.json else text
    print(show(harness_logs, since=args.since[0] if args.since else None, limit=args.limit))
    return 0


COMMAND: Final = Command(
    run,
    add,
    "Counts the files in the places where agents keep their logs, and opens none of them. Ends with the command to run "
    "next.",
    """
    examples:
      boolab doctor
      boolab doctor --since 30d
      boolab doctor --json | jq '.logs[] | select(.readable and .files > 0)'
    """,
)
