"""Where logs are looked for: files, folders and globs, also those in which there is nothing yet."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from glob import has_magic
from itertools import chain
from pathlib import Path
from typing import Final, Literal

from boolab.errors import RunFormatError
from boolab.io.files import user_path
from boolab.io.folders import match_paths
from boolab.logs.discovery import found_logs
from boolab.logs.log_files import log_names, log_suffixes, see_doctor

_PIECES: Final = re.compile(r"\*+|\?|\[!?[^\]]+\]|[^*?\[]+|\[")


@dataclass(frozen=True, slots=True)
class Place:
    """A file, a folder with all in it, or a glob."""

    kind: Literal["file", "folder", "glob"]  # which of the three
    path: str  # the file, the folder, or the glob
    root: str  # what is watched: the file, or the folder in which all of it is

    def accepts(self, path: str) -> bool:
        """Whether a file that is new may be a log of this place, by its name."""
        if self.kind == "folder":
            return path.startswith(self.path + os.sep) and path.endswith(log_suffixes())
        return path == self.path or (self.kind == "glob" and _pattern(self.path).fullmatch(path) is not None)

    def files(self, unread: dict[str, str]) -> Iterator[str]:
        """The files that may be logs, as they are now. `unread` receives the folders that are not searched."""
        if self.kind == "file":
            yield self.path
        elif self.kind == "folder":
            yield from log_names(Path(self.path), unread)
        elif Path(self.root).is_dir():
            yield from map(str, match_paths(self.path, unread))


def places_of(paths: Sequence[str | Path]) -> list[Place]:
    """The places that files, folders or globs name; a glob, and a file in a known folder, may match nothing yet."""
    log_paths: dict[Place, None] = {}
    for item in paths:
        path = user_path(item).absolute()
        if path.is_dir():
            log_path = Place("folder", str(path), str(path))
        elif path.exists() or not has_magic(str(path)):
            if not path.exists():
                raise RunFormatError(f"no such file or folder{see_doctor(path)}", path=path)
            log_path = Place("file", str(path), str(path))
        else:
            log_path = Place("glob", str(path), _root(path))
            if not Path(log_path.root).is_dir():
                raise RunFormatError(f"there is no folder {log_path.root}", path=path)
        log_paths[log_path] = None
    return [*log_paths]


def usual_places(
    home: str | Path | None = None, environ: Mapping[str, str] | None = None, formats: Collection[str] = ()
) -> list[Place]:
    """The folders in which the harnesses on this machine keep logs that boolab reads, of these formats if any."""
    logs = [found_log for found_log in found_logs(home, environ=environ) if found_log.readable]
    patterns = chain.from_iterable(found_log.places for found_log in logs if not formats or found_log.format in formats)
    log_paths = [Place("glob", pattern, root) for pattern in patterns if Path(root := _root(Path(pattern))).is_dir()]
    if not log_paths:
        folder = str(Path.home() if home is None else home)
        msg = "no harness that boolab reads keeps logs here: name a file, a folder or a glob"
        raise RunFormatError(msg, path=folder)
    return log_paths


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    """The regular expression of a glob, as `boolab.io.folders.match_paths` reads it: `**` is any folders."""
    parts = ["(?:[^/]+/)*" if part == "**" else f"{_PIECES.sub(_piece, part)}/" for part in Path(glob).parts[1:]]
    return re.compile("/" + "".join(parts).removesuffix("/"))


def _piece(match: re.Match[str]) -> str:
    piece = match[0]
    if piece.startswith("*"):
        return "[^/]*"
    if piece.startswith("["):
        return piece.replace("[!", "[^", 1)
    return "[^/]" if piece == "?" else re.escape(piece)


def _root(path: Path) -> str:
    """The last folder of a glob before its first wildcard."""
    parts = path.parts
    plain = next((index for index, part in enumerate(parts) if has_magic(part)), len(parts) - 1)
    return os.path.join(*parts[:plain])  # noqa: PTH118 - parts of a path, which may be one
