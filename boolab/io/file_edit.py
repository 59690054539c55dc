"""Edits of files that belong to the user, such as a harness's settings: all of them go through `edit_file`.

A file is replaced as a whole, and only while it holds what was read before, which is what the user was shown. It keeps
its owner, group, permissions and extended attributes. What would lose something is refused: a file that changed
meanwhile, one that is read-only (for root too), one with several names, a link that leads nowhere or out of the folder.

On Linux, a lease makes each program wait that opens the file for writing while it is compared. The new file and the
old one then change places in one operation, and what was taken away is compared once more; if it is not what was read,
both change places again.

What remains: between these two operations, some 50 microseconds, another program can read the new text, and write a
file that is based on it. The version that it did not see is then kept beside the file, and the error names it. Without
leases (another system, NFS), what a program writes through a handle that it opened before is not seen. Where two files
cannot change places, what is written between the last comparison and the replacement is lost.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import signal
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from stat import S_IMODE, S_ISLNK, S_IWUSR
from typing import Any, Final, NamedTuple

from boolab.errors import ConfigFileError
from boolab.io.files import describe_non_file, read_file

MAX_FILE_BYTES: Final = 4_000_000
RUN_AGAIN: Final = "run the command again"
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_REPLACE: Final = 1
_EXCHANGE: Final = 2
_UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})
_WRITE_BITS: Final = 0o222


class UserFile(NamedTuple):
    """A file of the user, as it was read."""

    path: Path  # the path, as the user named it
    absolute: Path  # the path from the root on
    target: Path  # the file itself, without links on the way
    data: bytes | None  # its content; None if there is no file
    is_link: bool  # whether the path leads to another file by a link

    @property
    def title(self) -> str:
        """The path, with the file that it leads to where that is another."""
        return f"{self.path} -> {self.target}" if self.is_link else str(self.path)

    def text(self) -> str | None:
        """Decode the content; None if there is no file."""
        try:
            return None if self.data is None else self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigFileError(f"is not UTF-8 text (byte {error.start})", path=self.path) from error


class _Refusal(Exception):
    """Why a file cannot be edited: a sentence without its subject, the file."""


def read_user_file(path: Path, boundary: Path | None = None) -> UserFile:
    """Read a file that is to be edited, if there is one; no link may lead out of `boundary`, its folder by default."""
    try:
        absolute, target, is_link = _follow_links(path, boundary)
        data = read_file(target, MAX_FILE_BYTES)
    except _Refusal as error:
        raise ConfigFileError(str(error), path=path) from error
    except FileNotFoundError:
        data = None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigFileError(f"cannot be read: {reason}", path=path) from error
    return UserFile(path, absolute, target, data, is_link)


def edit_file(file: UserFile, new: bytes | None, advice: str = RUN_AGAIN) -> UserFile:
    """Replace, make or remove (None) a file of the user, if it still is what was read."""
    if new == file.data:
        return file
    try:
        _replace_file(file, new, f"has changed since it was read, and nothing was written: {advice}")
    except _Refusal as error:
        raise ConfigFileError(str(error), path=file.path) from error
    except OSError as error:
        raise ConfigFileError(f"cannot be written: {error.strerror}", path=file.path) from error
    return file._replace(data=new)


def _replace_file(file: UserFile, new: bytes | None, changed: str) -> None:
    if os.path.realpath(file.absolute) != str(file.target):
        raise _Refusal(changed)
    folder = _open_folder(file.target.parent, make=file.data is None)
    try:
        if file.data is None:
            _make(folder, file.target.name, new or b"", changed)
        else:
            _Edit(folder, file.target, file.data, changed).apply(new)
    finally:
        os.close(folder)


def edit_files(edits: Sequence[tuple[UserFile, bytes | None]]) -> None:
    """Edit several files, all or none; see `edit_file`."""
    edited_files: list[tuple[UserFile, bytes | None]] = []
    try:
        for file, new in edits:
            edited_files.append((edit_file(file, new), file.data))
    except ConfigFileError as error:
        for file, old in reversed(edited_files):
            try:
                edit_file(file, old)
            except ConfigFileError as other:
                msg = f"{error.message}; {file.path} was written before that, and {other.message}"
                raise ConfigFileError(msg, path=error.path) from error
        raise


# --- Links ------------------------------------------------------------------------------------------------------------


def _follow_links(path: Path, boundary: Path | None) -> tuple[Path, Path, bool]:
    """The absolute path, the file that it leads to, and whether a link leads there."""
    absolute = path.absolute()
    for part in [*reversed(absolute.parents), absolute]:
        try:
            is_link = S_ISLNK(os.lstat(part).st_mode)
        except FileNotFoundError:
            break
        if is_link:
            _check_link(part, path)
    target = Path(os.path.realpath(absolute))
    base = (boundary or Path()).absolute()
    rest = absolute.relative_to(base).parts if absolute.is_relative_to(base) else ("..",)
    if ".." in rest:
        base, rest = absolute.parent, (absolute.name,)
    root = Path(os.path.realpath(base))
    is_link = target != root.joinpath(*rest)
    if is_link and not target.is_relative_to(root):
        msg = f"is behind a link: it is {target}, outside of {root}; to edit that file, name it by this path"
        raise _Refusal(msg)
    return absolute, target, is_link


def _check_link(link: Path, path: Path) -> None:
    name = "is" if link == path.absolute() else f"is behind {link},"
    try:
        link.stat()
    except FileNotFoundError as error:
        msg = f"{name} a link to {link.readlink()}, where there is nothing: make that file, or remove the link"
        raise _Refusal(msg) from error
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _Refusal(f"{name} a link that leads back to itself: remove the link") from error


def _open_folder(path: Path, *, make: bool) -> int:
    """Open a folder by a path without links, so that no folder on the way can become one; make what is missing."""
    handle = os.open("/", _FOLDER)
    for name in path.parts[1:]:
        above = handle
        try:
            try:
                handle = os.open(name, _FOLDER, dir_fd=above)
            except FileNotFoundError:
                if not make:
                    raise
                _check_writable(above)
                os.mkdir(name, dir_fd=above)
                handle = os.open(name, _FOLDER, dir_fd=above)
                _give_to_owner(above, name)
        finally:
            os.close(above)
    return handle


def _check_writable(folder: int) -> None:
    if not os.fstat(folder).st_mode & _WRITE_BITS:
        msg = "is in a read-only folder: make it writable, then try again"
        raise _Refusal(msg)


def _give_to_owner(folder: int, name: str) -> None:
    """Give what root made to the owner of the folder around it: under sudo, it would belong to root."""
    if os.geteuid() == 0:
        owner = os.fstat(folder)
        os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)


# --- A new file -------------------------------------------------------------------------------------------------------


def _make(folder: int, name: str, new: bytes, changed: str) -> None:
    """Make a file that is there as a whole or not at all, unless another program made one."""
    _check_writable(folder)
    temp_name = _temporary_name(name)
    try:
        with os.fdopen(os.open(temp_name, _NEW, 0o666, dir_fd=folder), "wb") as file:
            _give_to_owner(folder, temp_name)
            _write(file.fileno(), new)
        _move(folder, temp_name, name)
    except FileExistsError as error:
        raise _Refusal(changed) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temp_name, dir_fd=folder)


def _temporary_name(name: str) -> str:
    """A name that cannot be guessed, for a file that is moved at once."""
    return f".{name[:200]}.{secrets.token_hex(8)}.part"


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
    os.fsync(handle)


# --- A file that is there ---------------------------------------------------------------------------------------------


class _Edit:
    """An edit of a file that is there: the file open and, on Linux, held by a lease."""

    def __init__(self, folder: int, target: Path, data: bytes, changed: str) -> None:
        self._folder = folder
        self._name = target.name
        self._target = target
        self._data = data
        self._changed = changed
        self._is_held = False

    def apply(self, new: bytes | None) -> None:
        """Replace the file; None removes it."""
        try:
            self._handle = os.open(self._name, _READ, dir_fd=self._folder)
        except FileNotFoundError as error:
            raise _Refusal(self._changed) from error
        try:
            self._old = os.fstat(self._handle)
            self._check()
            self._check_as_read()
            if new is None:
                self._remove()
            else:
                self._replace(new)
        finally:
            os.close(self._handle)  # this ends the lease

    def _check(self) -> None:
        """Refuse what cannot be replaced without a loss."""
        old, name = self._old, self._name
        if problem := describe_non_file(old):
            raise _Refusal(f"is {problem}")
        if not old.st_mode & S_IWUSR or not os.access(name, os.W_OK, dir_fd=self._folder):
            rights = f"uid {old.st_uid}, permissions {S_IMODE(old.st_mode):03o}"
            msg = f"is read-only: make it writable for you, then try again ({rights})"
            raise _Refusal(msg)
        _check_writable(self._folder)
        if old.st_nlink > 1:
            msg = f"has {old.st_nlink} names (hard links), of which only one would get the new text: edit it by hand"
            raise _Refusal(msg)

    def _is_as_read(self, name: str) -> bool:
        """Whether the file that now has this name is the one that is open, with its content as it was read."""
        if _identity(self._folder, name) != (self._old.st_dev, self._old.st_ino):
            return False
        if os.pread(self._handle, len(self._data) + 1, 0) != self._data:
            return False
        return not self._is_held or fcntl.fcntl(self._handle, fcntl.F_GETLEASE) == fcntl.F_RDLCK

    def _check_as_read(self) -> None:
        if not self._is_as_read(self._name):
            raise _Refusal(self._changed)

    def _replace(self, new: bytes) -> None:
        temp_name, keep = _temporary_name(self._name), False
        try:
            identity = self._copy(temp_name, new)
            self._is_held = _hold(self._handle)
            self._check_as_read()
            if not _rename_new(self._folder, temp_name, self._name, _EXCHANGE):
                os.replace(temp_name, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            elif not self._is_as_read(temp_name):
                keep = True
                keep = not self._is_given_back(temp_name, identity, new)
                raise _Refusal(self._kept_message(temp_name) if keep else self._changed)
        finally:
            if not keep:
                with suppress(FileNotFoundError):
                    os.unlink(temp_name, dir_fd=self._folder)

    def _is_given_back(self, temp_name: str, identity: tuple[int, int], new: bytes) -> bool:
        """Put back what another program wrote; False if it wrote once more meanwhile, and the first is now beside."""
        while True:
            previous = _identity(self._folder, temp_name)
            if not _rename_new(self._folder, temp_name, self._name, _EXCHANGE):
                return False
            if _identity(self._folder, temp_name) == identity:
                break
            identity = previous
        return _read_content(self._folder, temp_name, len(new) + 1) == new

    def _remove(self) -> None:
        temp_name = _temporary_name(self._name)
        self._is_held = _hold(self._handle)
        self._check_as_read()
        os.rename(self._name, temp_name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        if not self._is_as_read(temp_name):
            try:
                _move(self._folder, temp_name, self._name)
            except OSError as error:
                raise _Refusal(self._kept_message(temp_name)) from error
            raise _Refusal(self._changed)
        os.unlink(temp_name, dir_fd=self._folder)

    def _kept_message(self, temp_name: str) -> str:
        path = self._target.with_name(temp_name)
        return f"was written twice by another program at this moment: what it wrote first is now {path}"

    def _copy(self, temp_name: str, new: bytes) -> tuple[int, int]:
        """Make a file with the owner, the permissions and the attributes of the old one."""
        old = self._old
        handle = os.open(temp_name, _NEW, 0o600, dir_fd=self._folder)
        try:
            status = os.fstat(handle)
            if (status.st_uid, status.st_gid) != (old.st_uid, old.st_gid):
                try:
                    os.fchown(handle, old.st_uid, old.st_gid)
                except PermissionError as error:
                    msg = (
                        f"belongs to another user or group (uid {old.st_uid}, gid {old.st_gid}), and a file in its "
                        "place would not: edit it as that user"
                    )
                    raise _Refusal(msg) from error
            _copy_attributes(self._handle, handle)
            os.fchmod(handle, S_IMODE(old.st_mode))
            _write(handle, new)
        finally:
            os.close(handle)
        return status.st_dev, status.st_ino


def _hold(handle: int) -> bool:
    """Let programs wait that open a file for writing; False where that is not possible."""
    lease: int | None = getattr(fcntl, "F_SETLEASE", None)
    if lease is None:
        return False
    try:
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)  # sent if one waits; it is ignored, unlike SIGIO
        fcntl.fcntl(handle, lease, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno != errno.EAGAIN:
            return False
        msg = "is open in another program that may write it, and nothing was written: close it there, then try again"
        raise _Refusal(msg) from error
    return True


def _copy_attributes(old: int, new: int) -> None:
    """Copy extended attributes, of which access lists are some; those of the system's security modules if it may."""
    if not hasattr(os, "listxattr"):
        return
    try:
        names = set(os.listxattr(old))
    except OSError:
        return
    for name in names:
        try:
            os.setxattr(new, name, os.getxattr(old, name))
        except OSError as error:
            if not name.startswith("security."):
                raise _Refusal(f"has an attribute that cannot be kept ({name}): edit it by hand") from error
    for name in set(os.listxattr(new)) - names:  # a folder may give some to new files
        with suppress(OSError):
            os.removexattr(new, name)


def _identity(folder: int, name: str) -> tuple[int, int]:
    stat = os.stat(name, dir_fd=folder, follow_symlinks=False)
    return stat.st_dev, stat.st_ino


def _read_content(folder: int, name: str, max_bytes: int) -> bytes:
    handle = os.open(name, _READ, dir_fd=folder)
    try:
        return os.pread(handle, max_bytes, 0)
    finally:
        os.close(handle)


def _move(folder: int, old: str, new: str) -> None:
    """Rename a file; a `FileExistsError` if there is one of the new name."""
    if not _rename_new(folder, old, new, _NO_REPLACE):
        os.link(old, new, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        os.unlink(old, dir_fd=folder)


def _rename_new(folder: int, old: str, new: str, flags: int) -> bool:
    """Rename a file in one operation that replaces none; False where the system has no such operation."""
    rename = _renameat2()
    if rename is None:
        return False
    if rename(folder, os.fsencode(old), folder, os.fsencode(new), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), new)


@cache
def _renameat2() -> Any:  # noqa: ANN401 - a function of C
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
