"""Folders that are opened one below the other, through no link, and globs that say which folders they cannot search.

What was looked at is what is used, whatever another process puts in its place meanwhile (CWE-367).
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import ELOOP, ENOENT, ENOTDIR
from functools import partial
from glob import has_magic
from pathlib import Path
from typing import Final

from boolab.io.files import read_file

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK
_STARS: Final = re.compile(r"\*\*+")


@contextmanager
def folder_handle(path: str | Path, dir_fd: int | None = None, *, make: bool = False) -> Iterator[int]:
    """A folder, open; below `dir_fd`, none of the names in its path may be a link, else not the last one."""
    handle = open_folder(path, dir_fd, make=make)
    try:
        yield handle
    finally:
        os.close(handle)


def open_folder(path: str | Path, dir_fd: int | None = None, *, make: bool = False) -> int:
    """A descriptor of a folder, which the caller closes; see `folder_handle`."""
    if dir_fd is None:
        return os.open(path, _FOLDER)
    handle = os.dup(dir_fd)
    for name in Path(path).parts:
        above = handle
        try:
            if make:
                _make(name, above)
            handle = os.open(name, _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return handle


def read_below(folder: int, path: str, max_bytes: int) -> bytes:
    """What a file below an open folder holds, read as `read_file` does, through no link."""
    above, _, name = path.rpartition("/")
    with folder_handle(above, folder) as handle:
        return read_file(name, max_bytes, dir_fd=handle)


def _make(name: str, dir_fd: int) -> None:
    try:
        os.mkdir(name, dir_fd=dir_fd)
    except FileExistsError:
        return


def match_paths(pattern: str | Path, unread: dict[str, str]) -> Iterator[Path]:
    """What a glob matches, hidden or not. `**` follows no links, because they may form a circle."""
    path = Path(pattern)
    paths: Iterable[str] = [path.anchor]
    parts = path.parts[1:] if path.anchor else path.parts
    for part in (*parts, "*") if parts[-1:] == ("**",) else parts:
        paths = _expand(paths, part, unread)
    return map(Path, dict.fromkeys(paths))


def _expand(folders: Iterable[str], part: str, unread: dict[str, str]) -> Iterator[str]:
    """What one part of a glob matches in folders: themselves and all below for `**`."""
    name = re.compile(fnmatch.translate(_STARS.sub("*", part)))
    for folder in folders:
        try:
            if part == "**":
                yield from (subdir for subdir, _, _ in os.walk(folder or ".", onerror=partial(note_unsearched, unread)))
            elif has_magic(part):
                with os.scandir(folder or ".") as entries:
                    names = [entry.name for entry in entries]
                yield from (os.path.join(folder, entry) for entry in names if name.match(entry))  # noqa: PTH118
            else:
                os.stat(path := os.path.join(folder, part))  # noqa: PTH116, PTH118 - thousands of them
                yield path
        except OSError as error:
            note_unsearched(unread, error)


def note_unsearched(unread: dict[str, str], error: OSError) -> None:
    """Note a folder that cannot be searched; what is not there, or no folder, is none."""
    if error.errno not in (ENOENT, ENOTDIR, ELOOP):
        folder = error.filename if os.path.isdir(error.filename) else os.path.dirname(error.filename)  # noqa: PTH112, PTH120
        unread[str(folder)] = f"the folder cannot be searched: {error.strerror}"
