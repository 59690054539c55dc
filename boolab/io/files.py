"""Files that a user names: read whole, if they are files and not too large; replaced whole or not at all."""

from __future__ import annotations

import errno
import getpass
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import BufferedReader, FileIO
from pathlib import Path
from stat import S_IMODE, S_ISDIR, S_ISLNK, S_ISREG, S_IWUSR
from typing import BinaryIO, Final

from boolab.errors import SettingError
from boolab.io.checks import repr_of

_FLAGS: Final = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"))
_BUFFER: Final = 2**16
"""How many bytes of a file are read at once, at least: logs have long lines."""
_KERNEL: Final = ("/proc", "/sys")


def describe_non_file(stat: os.stat_result) -> str:
    """Why something is no file of a user; empty if it is one.

    To read a pipe may block, and a device may have no end. The kernel's files describe the machine, and reading some of
    them has effects; a link in a folder of logs may lead there.
    """
    if S_ISDIR(stat.st_mode):
        return "a folder, not a file"
    if not S_ISREG(stat.st_mode):
        return "a pipe or a device, not a file"
    return "a file of the kernel (/proc or /sys), not one of a user" if stat.st_dev in _kernels() else ""


@cache
def _kernels() -> frozenset[int]:
    """The devices of the kernel's file systems, if they are file systems of their own."""
    devices = set()
    for name in _KERNEL:
        with suppress(OSError):
            devices.add(os.stat(name).st_dev)  # noqa: PTH116 - no path is needed
    with suppress(OSError):
        devices.discard(os.stat("/").st_dev)  # noqa: PTH116 - as above
    return frozenset(devices)


def user_path(path: str | Path) -> Path:
    """The path that a user named, with `~` expanded."""
    try:
        expanded = Path(path).expanduser()
        expanded.lstat()
    except (RuntimeError, ValueError) as error:  # there is no such user; a NUL character, or half of one of two
        raise SettingError(f"{repr_of(str(path))} is no path: {error}") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise SettingError(f"{repr_of(str(path))} is no path: {error.strerror}") from error
    return expanded


def user_name() -> str:
    """The name of the user; empty if the system has none."""
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return ""


def open_file(path: str | Path, dir_fd: int | None = None) -> BufferedReader:
    """Open a file of a user to read it, without waiting for anything.

    What is there is checked before it is opened, because to open a device may have effects, and once it is open,
    because another program may have put a pipe in its place meanwhile.

    `dir_fd`: the open folder that holds it; a link is refused then.
    """
    is_followed = dir_fd is None
    _refuse(os.stat(path, dir_fd=dir_fd, follow_symlinks=is_followed), path)
    handle = os.open(path, _FLAGS if is_followed else _FLAGS | os.O_NOFOLLOW, dir_fd=dir_fd)
    try:
        _refuse(os.fstat(handle), path)
        return BufferedReader(FileIO(handle), _BUFFER)
    except BaseException:
        os.close(handle)
        raise


def size_of(file: BinaryIO) -> int:
    """The size of an open file, in bytes."""
    return os.fstat(file.fileno()).st_size


def _refuse(stat: os.stat_result, path: str | Path) -> None:
    if reason := "a link" if S_ISLNK(stat.st_mode) else describe_non_file(stat):
        raise OSError(errno.EISDIR if S_ISDIR(stat.st_mode) else errno.EINVAL, reason, str(path))


def read_file(path: str | Path, max_bytes: int, dir_fd: int | None = None) -> bytes:
    """What a file of a user holds, at most `max_bytes` bytes; see `open_file`."""
    with open_file(path, dir_fd) as file:
        size = size_of(file)
        data = file.read(min(max_bytes, size) + 1)  # to allocate `max_bytes` costs more than to read
        if len(data) == size + 1:  # it grew
            data += file.read(max_bytes)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"more than the {max_bytes:,} bytes that are read", str(path))
    return data


def output_file(path: Path) -> Path:
    """The file that is written where a user names a path, or a link leads; an `OSError` with why, if none."""
    try:
        is_link = S_ISLNK(path.lstat().st_mode)
    except FileNotFoundError:
        return path
    try:
        stat = path.stat()
    except FileNotFoundError as error:
        reason = f"a link to {path.readlink()}, where there is nothing: make that file, or remove the link"
        raise FileNotFoundError(errno.ENOENT, reason, str(path)) from error
    _refuse(stat, path)
    return path.resolve() if is_link else path


def write_output(path: Path, text: str) -> None:
    """Write a text to a file that a user named; see `replace_file`."""
    with replace_file(path) as file:
        file.write(text.encode("utf-8"))


@contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """A new file that replaces `path` once all is written; if the block raises, the old one stays.

    It has the permissions of the old one from its first byte on, and its owner where that is possible. The
    target of a link is replaced, and the link stays. For a file that the user writes too there is
    `boolab.io.file_edit`.
    """
    path = output_file(path)
    old = path.stat() if path.exists() else None
    if old is not None and not old.st_mode & S_IWUSR:
        raise PermissionError(errno.EACCES, "the file is read-only", str(path))
    temp_path = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")  # a name that cannot be guessed
    new_file = temp_path.open("xb")
    try:
        with new_file as file:
            if old is not None:
                if hasattr(os, "chown"):
                    with suppress(OSError):  # root alone gives files away, as under sudo
                        os.chown(temp_path, old.st_uid, old.st_gid)
                temp_path.chmod(S_IMODE(old.st_mode))
            yield file
        temp_path.replace(path)
    finally:
        temp_path.unlink(missing_ok=True)
