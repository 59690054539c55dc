"""Folders that are opened one below the other, through no link.

What was looked at is what is used, whatever another process puts in its place meanwhile (CWE-367).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from boolab.io.files import read_file

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def folder_handle(path: str | Path, within: int | None = None, *, make: bool = False) -> Iterator[int]:
    """A folder, open.

    `path`: the folder; below `within`, none of its names may be a link. Without it, only the last one.

    Example:
        >>> with folder_handle("/") as top:
        ...     os.fstat(top) == os.stat("/")
        True
    """
    handle = open_folder(path, within, make=make)
    try:
        yield handle
    finally:
        os.close(handle)


def open_folder(path: str | Path, within: int | None = None, *, make: bool = False) -> int:
    """A descriptor of a folder, which the caller closes; see `folder_handle`."""
    if within is None:
        return os.open(path, _FOLDER)
    handle = os.dup(within)
    for name in Path(path).parts:
        above = handle
        try:
            if make:
                _make(name, above)
            handle = os.open(name, _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return handle


def read_below(folder: int, path: str, most: int) -> bytes:
    """What a file below an open folder holds, read as `read_file` does, through no link."""
    above, _, name = path.rpartition("/")
    with folder_handle(above, folder) as handle:
        return read_file(name, most, within=handle)


def _make(name: str, within: int) -> None:
    try:
        os.mkdir(name, dir_fd=within)
    except FileExistsError:
        return
