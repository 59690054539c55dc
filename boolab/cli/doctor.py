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
from boolab.display.text import aligned, wrapped
from boolab.errors import program
from boolab.logs.discovery import Found, found_logs

SCHEMA: Final = "boolab/doctor/1"

_UNITS: Final = (("minute", 60, 3_600), ("hour", 3_600, 86_400), ("day", 86_400, math.inf))


def text(found: Sequence[Found], *, since: str | None = None, limit: int | None = None) -> str:
    """What `boolab doctor` prints; `since` and `limit` are options of the command to run next."""
    there = sorted((one for one in found if one.files), key=lambda one: (not one.readable, -one.files))
    window = f" changed since {clean(since)}" if since else ""
    lines = [f"boolab {version('boolab')}. Agent logs on this machine{window}; none of them was opened:", ""]
    lines += _table(there) if there else ["  none"]
    unread = [*chain.from_iterable(one.unread for one in found)]
    if unread:
        lines += ["", "Cannot be looked at:", *(f"  {clean(place)}" for place in unread)]
    absent = [one.format for one in found if not one.files]
    if absent:
        lines += ["", wrapped(f"Not found: {', '.join(absent)}.")]
    return "\n".join([*lines, "", *_next(there, since, limit)])


def _table(there: Sequence[Found]) -> list[str]:
    columns = ["", "files", "size", "newest", "boolab"]
    rows = [
        [
            one.format,
            f"{one.files:,}",
            size(one.bytes),
            ago(one.newest),
            "reads it" if one.readable else "cannot read it",
        ]
        for one in there
    ]
    head, *lines = (f"  {line}" for line in aligned([columns, *rows]))
    places = ([f"      {clean(_short(place))}" for place in one.places if Path(_root(place)).exists()] for one in there)
    return [head, *chain.from_iterable((line, *below) for line, below in zip(lines, places, strict=True))]


def _next(there: Sequence[Found], since: str | None, limit: int | None) -> list[str]:
    ready = [one for one in there if one.readable]
    if not ready:
        what = "No log here is of a format that boolab reads. " if there else ""
        elsewhere = f"{what}If you have logs elsewhere: {program()} report FOLDER -o report.html"
        return [elsewhere, f"Next: {program()} report atlas/swebench-verified -o report.html"]
    return [f"Next: {command(ready[0], since=since, limit=limit)}"]


def command(found: Found, *, since: str | None = None, limit: int | None = None) -> str:
    """The command that makes a report of what was found."""
    place = next((_short(_root(place)) for place in found.places if Path(_root(place)).exists()), found.places[0])
    quoted = place if place.startswith("~/") and shlex.quote(place[2:]) == place[2:] else shlex.quote(place)
    more = [f"--since {shlex.quote(since)}"] if since else []
    more += [f"--limit {limit}"] if limit else []
    return " ".join([program(), "report", quoted, *more, "-o report.html"])


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


def ago(moment: datetime | None, now: datetime | None = None) -> str:
    """How long ago that was.

    Example:
        >>> ago(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 4, tzinfo=UTC))
        '3 days ago'
    """
    if moment is None:
        return "never"
    seconds = max(0.0, ((now or datetime.now(UTC)) - moment).total_seconds())
    unit, one = next((unit, one) for unit, one, most in _UNITS if seconds < most)
    return f"{count(int(seconds // one), unit)} ago"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_window(parser, "the N of --limit in the command to run next (default: none there)")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of text: schema, boolab, logs, next"
    )


def run(args: argparse.Namespace) -> int:
    """Print what is found."""
    found = found_logs(since=since_time(args))
    show = as_json if args.json else text
    print(show(found, since=args.since[0] if args.since else None, limit=args.limit))
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
