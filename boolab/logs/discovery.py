"""Where agent harnesses keep their logs on a machine, and what is there. Logs are counted, not opened."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from boolab.io.folders import match_paths
from boolab.logs.log_files import all_places, readers

_VARIABLE: Final = re.compile(r"^\$(\w+)")


class HarnessLogs(NamedTuple):
    """The logs of one harness: where they are looked for, what is there, and whether boolab can read them.

    `files` are the logs; `bytes` are those of their further files too, where a log is spread over several.

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
) -> list[HarnessLogs]:
    """The logs of each known agent harness on this machine, also without any files."""
    folder = Path.home() if home is None else Path(home)
    variables = os.environ if environ is None else environ
    globs = all_places()
    after = 0.0 if since is None else since.timestamp()
    logs = []
    for name in sorted(globs):
        patterns = [pattern for glob in globs[name] if (pattern := _pattern(glob, folder, variables)) is not None]
        reader: Any = readers().get(name)
        patterns += reader.listed(folder, variables) if hasattr(reader, "listed") else []
        unread: dict[str, str] = {}
        stats = [stat for stat in _stats(patterns, unread) if stat.st_mtime >= after]
        all_stats = stats + [stat for stat in _stats(_parts(name, patterns), unread) if stat.st_mtime >= after]
        newest = max((time for stat in all_stats if (time := time_of(stat)) is not None), default=None)
        size = sum(stat.st_size for stat in all_stats)
        reasons = tuple(f"{path}: {reason}" for path, reason in unread.items())
        logs.append(HarnessLogs(name, tuple(patterns), len(stats), size, newest, name in readers(), reasons))
    return logs


def _pattern(glob: str, home: Path, variables: Mapping[str, str]) -> str | None:
    """The glob of a place; None if it begins with a variable that is not set."""
    match = _VARIABLE.match(glob)
    if match is None:
        return str(home) + glob.removeprefix("~")
    value = variables.get(match[1])
    return value + glob[match.end() :] if value else None


def _parts(name: str, patterns: Sequence[str]) -> Iterator[str]:
    """Globs of the further files of logs that are spread over several folders."""
    reader: Any = readers().get(name)
    for pattern in patterns if hasattr(reader, "inner") else ():
        above = Path(pattern.partition("*")[0]).parent
        folders = [path.name for path in above.iterdir()] if above.is_dir() else []
        yield from (str(above / folder / "**/*.json") for folder in sorted(reader.inner(folders)))


def _stats(patterns: Iterable[str], unread: dict[str, str]) -> Iterator[os.stat_result]:
    """Each file that matches a pattern, once; `unread` receives what cannot be looked at."""
    inodes = set()
    for pattern in patterns:
        for path in match_paths(pattern, unread):
            try:
                stat = path.stat()
            except FileNotFoundError:
                continue
            except OSError as error:
                unread[str(path)] = str(error.strerror)
                continue
            if (stat.st_dev, stat.st_ino) not in inodes:
                inodes.add((stat.st_dev, stat.st_ino))
                yield stat


def time_of(stat: os.stat_result) -> datetime | None:
    """When a file was changed; None where its file system has a time that no calendar has."""
    try:
        return datetime.fromtimestamp(stat.st_mtime, UTC)
    except (ValueError, OverflowError, OSError):
        return None
