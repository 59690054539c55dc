"""The refs of a repository: read, set and deleted as git does it, but through no link and without hooks.

A ref is a file with the name of a commit, below `refs/`, or a line of `packed-refs`. Both are changed under a lock: a
file beside it that only one process can make.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Final

from boolab.errors import WorldError
from boolab.io.files import read_file
from boolab.io.folders import folder_handle
from boolab.io.git.repository import Repository, unusable_error

MAX_PACKED_REFS: Final = 2**26
"""The largest file of packed refs that is read, in bytes."""
_MAX_REF: Final = 2**12
_MAX_DEPTH: Final = 32
_WAIT_S: Final = 1.0
_LOCK: Final = ".lock"
_OBJECT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PART: Final = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]+")
"""A part of the name of a ref, without the characters that git refuses."""
_PACKED: Final = "packed-refs"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def read_refs(repository: Repository, prefix: str = "refs") -> dict[str, str]:
    """The refs of a repository, each with the object that it names. What is no ref is left out."""
    refs = {name: target for name, target in _read_packed(repository) if name.startswith(f"{prefix}/")}
    with repository.open_folder() as common, suppress(FileNotFoundError):
        try:
            with folder_handle(prefix, common) as folder:  # a loose ref is newer than the packed one
                refs |= _read_loose(folder, f"{prefix}/", 0)
        except NotADirectoryError as error:
            raise unusable_error(repository.common / prefix, error) from error
    return dict(sorted(refs.items()))


def set_ref(folder: int, name: str, target: str) -> None:
    """Point a ref to an object."""
    _replace(folder, name, [f"{target}\n".encode()])


def delete_refs(repository: Repository, prefix: str, deleted: Collection[str]) -> None:
    """Delete refs in one folder, all or none."""
    locked = []
    with repository.open_folder() as common, repository.open_folder(prefix, make=True) as folder:
        try:
            for name in deleted:
                os.close(_lock(folder, name))
                locked.append(name)
            _delete_packed(repository, common, {f"{prefix}/{name}" for name in deleted})
            for name in deleted:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
        except OSError as error:
            raise unusable_error(repository.common / prefix, error) from error
        finally:
            for name in locked:
                remove_lock(folder, name)


def locks_in(folder: int) -> list[str]:
    """The files in an open folder that have a lock beside them, or would have one if they were there."""
    with os.scandir(folder) as entries:
        return [entry.name.removesuffix(_LOCK) for entry in entries if entry.name.endswith(_LOCK)]


def remove_lock(folder: int, name: str) -> None:
    """Remove the lock that this process, or one that was killed, has put beside a file."""
    with suppress(OSError):
        os.unlink(name + _LOCK, dir_fd=folder)


def _lock(folder: int, name: str) -> int:
    """Make the lock of a file, which replaces it in the end or is removed; return its descriptor."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            return os.open(name + _LOCK, _NEW, 0o666, dir_fd=folder)
        except FileExistsError as error:
            if time.monotonic() > deadline:
                msg = f"{name!r} is locked: if no git works in the repository, remove the file {name + _LOCK!r}"
                raise WorldError(msg) from error
            time.sleep(0.01)


def _replace(folder: int, name: str, lines: Iterable[bytes]) -> None:
    """Replace a file under its lock."""
    handle = _lock(folder, name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(handle)
        os.rename(name + _LOCK, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        remove_lock(folder, name)
        raise


def _read_packed(repository: Repository) -> list[tuple[str, str]]:
    with repository.open_folder() as common:
        try:
            text = read_file(_PACKED, MAX_PACKED_REFS, dir_fd=common)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise WorldError(f"{str(repository.common / _PACKED)!r} cannot be read: {error.strerror}") from error
    parts = (os.fsdecode(line).split(" ", 1) for line in text.splitlines() if line[:1] not in (b"#", b"^"))
    return [(part[1], part[0]) for part in parts if len(part) > 1 and _OBJECT.fullmatch(part[0])]


def _delete_packed(repository: Repository, common: int, names: AbstractSet[str]) -> None:
    """Take refs out of `packed-refs`."""
    if not names & {name for name, _ in _read_packed(repository)}:
        return

    def remaining_lines() -> Iterator[bytes]:
        is_left = True
        for line in read_file(_PACKED, MAX_PACKED_REFS, dir_fd=common).splitlines(keepends=True):
            if line[:1] != b"^":  # that line belongs to the ref above it
                is_left = os.fsdecode(line.rstrip(b"\n")).partition(" ")[2] not in names
            if is_left:
                yield line

    _replace(common, _PACKED, remaining_lines())


def _read_loose(folder: int, prefix: str, depth: int) -> dict[str, str]:
    refs: dict[str, str] = {}
    with os.scandir(folder) as entries:
        children = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in children:
        with suppress(OSError):  # it is gone, or it is no file, so that git made no ref of it
            if not _PART.fullmatch(name):
                continue
            if not is_folder:
                target = os.fsdecode(read_file(name, _MAX_REF, dir_fd=folder)).strip()
                if _OBJECT.fullmatch(target) and not name.endswith(_LOCK):
                    refs[prefix + name] = target
            elif depth < _MAX_DEPTH:
                with folder_handle(Path(name), folder) as subfolder:
                    refs |= _read_loose(subfolder, f"{prefix}{name}/", depth + 1)
    return refs
