"""Where agent harnesses keep their logs on a machine, and what is there. Files are counted, not opened."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from boolab.logs.log_files import all_places, matching, readers

_VARIABLE: Final = re.compile(r"^\$(\w+)")


class Found(NamedTuple):
    """The logs of one harness: where they are looked for, what is there, and whether boolab can read them.

    `unread` are folders and files that cannot be looked at, each with the reason.
    """

    format: str
    places: tuple[str, ...]
    files: int
    bytes: int
    newest: datetime | None
    readable: bool
    unread: tuple[str, ...] = ()


def found_logs(
    home: str | Path | None = None, since: datetime | None = None, environ: Mapping[str, str] | None = None
) -> list[Found]:
    """The logs of agent harnesses on this machine.

    Returns one entry for each known harness, in the order of their names, also without any files.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as empty:
        ...     logs = found_logs(home=empty, environ={})
        >>> [(found.format, found.readable) for found in logs if found.format.startswith("c")][:2]
        [('claude_code', True), ('cline', True)]
    """
    folder = Path.home() if home is None else Path(home)
    variables = os.environ if environ is None else environ
    places = all_places()
    after = 0.0 if since is None else since.timestamp()
    found = []
    for name in sorted(places):
        patterns = [pattern for place in places[name] if (pattern := _pattern(place, folder, variables)) is not None]
        unread: dict[str, None] = {}
        stats = [stat for stat in _stats(patterns, unread) if stat.st_mtime >= after]
        times = [time for stat in stats if (time := time_of(stat)) is not None]
        size = sum(stat.st_size for stat in stats)
        newest = max(times, default=None)
        found.append(Found(name, tuple(patterns), len(stats), size, newest, name in readers(), tuple(unread)))
    return found


def _pattern(place: str, home: Path, variables: Mapping[str, str]) -> str | None:
    """The glob of a place; None if it begins with a variable that is not set."""
    found = _VARIABLE.match(place)
    if found is None:
        return str(home) + place.removeprefix("~")
    value = variables.get(found[1])
    return value + place[found.end() :] if value else None


def _stats(patterns: list[str], unread: dict[str, None]) -> Iterator[os.stat_result]:
    """Each file that matches a pattern, once, also if two patterns match it or a link leads to it.

    `unread` receives what cannot be looked at.
    """
    seen = set()
    for pattern in patterns:
        for path in _matches(pattern, unread):
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue
            except OSError as error:
                unread[f"{path}: {error.strerror}"] = None
                continue
            if (stat.st_dev, stat.st_ino) not in seen:
                seen.add((stat.st_dev, stat.st_ino))
                yield stat


def _matches(pattern: str, unread: dict[str, None]) -> Iterator[Path]:
    """What a pattern matches; where its folder cannot be searched, nothing."""
    root = os.path.dirname(pattern.partition("*")[0])  # noqa: PTH120 - a path that ends in / is its own
    try:
        os.scandir(root).close()  # a glob ignores folders that it may not open
        yield from matching(pattern)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        unread[f"{error.filename or root}: {error.strerror}"] = None


def time_of(stat: os.stat_result) -> datetime | None:
    """When a file was changed; None where its file system has a time that no calendar has."""
    try:
        return datetime.fromtimestamp(stat.st_mtime, UTC)
    except (ValueError, OverflowError, OSError):
        return None
