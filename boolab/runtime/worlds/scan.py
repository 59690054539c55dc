"""One look at all files of a folder: what is new in it is written as git objects, what cannot be kept is listed.

Folders are opened one below the other and files in them, through no link: while this looks, an agent's programs may
still exchange one for another.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from boolab.core.text import first_of
from boolab.errors import WorldError
from boolab.io.files import open_file, size_of
from boolab.io.folders import folder_handle
from boolab.io.git.command import decode_name
from boolab.io.git.objects import ObjectWriter, TreeEntry, tree_bytes
from boolab.runtime.worlds.ignored import Ignored

MAX_DEPTH: Final = 256
"""How many folders deep a file may be."""
FOLDER_MODE: Final = 0o40000
_LINK_MODE: Final = 0o120000
_PROGRAM_MODE: Final = 0o100755
_FILE_MODE: Final = 0o100644
_MIB: Final = 2**20
_MAX_NAMES: Final = 5
_ATTEMPTS: Final = 3
_RECENT_NS: Final = 2 * 10**9
"""A file that was changed so shortly before it was looked at may be changed again within the same tick of its clock."""
_VANISHED_ERRORS: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.EISDIR, errno.ENXIO)
"""The errors of a file that is no longer there, or no longer a file."""


class Wanted(NamedTuple):
    """What is kept although it is ignored."""

    include: frozenset[bytes]  # files and folders that the user names
    tracked: frozenset[bytes]  # files that the user's git tracks
    above: frozenset[bytes]  # all folders above them

    @classmethod
    def from_names(cls, include: Collection[bytes], tracked: Collection[bytes]) -> Wanted:
        """Both, with the folders above them."""
        above: set[bytes] = set()
        for name in (*include, *tracked):
            while b"/" in name and (name := name.rpartition(b"/")[0]) not in above:
                above.add(name)
        return cls(frozenset(include), frozenset(tracked), frozenset(above))


class File(NamedTuple):
    """A file that is kept."""

    entry: TreeEntry  # its mode and object
    mark: tuple[int, ...]  # what changes if it changes
    is_recent: bool  # whether it may change without a change of that


class Kept:
    """What the look before has found: files by name, and the bytes and object of each folder's tree."""

    def __init__(self) -> None:
        self.files: dict[bytes, File] = {}
        self.trees: dict[bytes, tuple[bytes, bytes]] = {}


class Scan:
    """One look at all files of a folder.

    `writer`: where objects are written; None to list names only. `check`: called at each folder; it raises to end the
    look.
    """

    def __init__(
        self,
        root: Path,
        ignored: Ignored,
        wanted: Wanted,
        max_bytes: int,
        before: Kept,
        writer: ObjectWriter | None,
        check: Callable[[], None],
    ) -> None:
        self.kept = Kept()  # what is kept now
        self.left_out: dict[bytes, str] = {}  # what is not kept, and why
        self.ignored: list[bytes] = []  # the files and folders that are ignored
        self.folders: list[bytes] = []  # the folders without a file that is kept
        self.repositories: list[bytes] = []  # the folders that are repositories of their own
        self.tree = b""  # the object of the root's tree
        self._patterns, self._wanted, self._max_bytes = ignored, wanted, max_bytes
        self._before, self._writer, self._check = before, writer, check
        self._began = time.time_ns()
        try:
            with folder_handle(root) as top:
                tree = self._folder(top, b"", 0, is_ignored=False, is_forced=False)
        except (FileNotFoundError, NotADirectoryError) as error:
            if str(error.filename) != str(root):
                raise
            raise WorldError(f"the folder {str(root)!r} is gone") from error
        if writer is not None:
            self.tree = writer.put(b"tree", b"") if tree is None else tree

    @property
    def n_changed(self) -> int:
        """How many files are new, changed or gone since the look before."""
        current, earlier = self.kept.files, self._before.files
        removed = sum(name not in current and name not in self.left_out for name in earlier)
        return removed + sum(name not in earlier or earlier[name].entry != file.entry for name, file in current.items())

    def _folder(self, handle: int, path: bytes, depth: int, *, is_ignored: bool, is_forced: bool) -> bytes | None:
        """Look at a folder; its path ends with a slash. Returns its tree; None if nothing in it is kept."""
        self._check()
        with os.scandir(handle) as names:
            entries = {entry.name: entry for entry in names}
        if ".git" in entries:
            if path:
                self.repositories.append(path)
                return None
            del entries[".git"]
        if not is_ignored and not is_forced:
            self._patterns.read(handle, path, entries.get(".gitignore"))
        paths = {name: path + os.fsencode(name) for name in entries}
        folders = {name for name, entry in entries.items() if entry.is_dir(follow_symlinks=False)}
        skipped = set() if is_forced else self._skip_ignored(path, paths, entries, folders, is_ignored=is_ignored)
        children = {
            name: self._file(handle, paths[name], entry)
            for name, entry in entries.items()
            if name not in folders and name not in skipped
        }
        for name in folders:
            full = paths[name]
            is_included = is_forced or full in self._wanted.include
            if name not in skipped or is_included or full in self._wanted.above:
                ignored = not is_included and (is_ignored or name in skipped)
                children[name] = self._scan_below(
                    handle, name, full + b"/", depth, is_ignored=ignored, is_forced=is_included
                )
        prefix_length = len(path)
        nodes = [(paths[name][prefix_length:], entry) for name, entry in children.items() if entry is not None]
        if not nodes:
            if path and not is_ignored and path not in self.left_out:
                self.folders.append(path.removesuffix(b"/"))
            return None
        return self._tree(path, tree_bytes(nodes))

    def _scan_below(
        self, above: int, name: str, path: bytes, depth: int, *, is_ignored: bool, is_forced: bool
    ) -> TreeEntry | None:
        """Look at a folder in another one."""
        if depth == MAX_DEPTH:
            self.left_out[path] = f"more than {MAX_DEPTH} folders deep"
        elif name.lower() == ".git":
            self.left_out[path] = "git refuses the name"
        else:
            try:
                with folder_handle(name, above) as handle:
                    tree = self._folder(handle, path, depth + 1, is_ignored=is_ignored, is_forced=is_forced)
                return None if tree is None else TreeEntry(FOLDER_MODE, tree)
            except PermissionError as error:
                if error.filename != name:
                    raise
                self.left_out[path] = "permission denied"
            except OSError as error:
                if error.errno not in _VANISHED_ERRORS or error.filename != name:
                    raise
        return None

    def _skip_ignored(
        self,
        path: bytes,
        paths: Mapping[str, bytes],
        entries: Mapping[str, os.DirEntry[str]],
        folders: set[str],
        *,
        is_ignored: bool,
    ) -> set[str]:
        """The names in a folder that are ignored, but for those that are wanted."""
        tracked, include = self._wanted.tracked, self._wanted.include
        candidates = {name for name, full in paths.items() if name in folders or full not in tracked}
        candidates = {name for name in candidates if paths[name] not in include}
        if is_ignored:
            return candidates
        candidates = {name for name in candidates if name in folders or _can_be_kept(entries[name])}
        skipped = self._patterns.ignored_names(path, candidates, folders)
        self.ignored += [paths[name] + (b"/" if name in folders else b"") for name in skipped]
        return skipped

    def _file(self, handle: int, name: bytes, entry: os.DirEntry[str]) -> TreeEntry | None:
        """Keep a file or a link."""
        if self._writer is None:
            return None
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        file = self._before.files.get(name)
        if file is None or file.is_recent or file.mark != _mark(status):
            file = self._add_file(handle, name, entry, status)
        if file is None:
            return None
        self.kept.files[name] = file
        return file.entry

    def _add_file(self, handle: int, name: bytes, entry: os.DirEntry[str], status: os.stat_result) -> File | None:
        if not _can_be_kept(entry):
            return None
        if entry.name.lower() == ".git":
            self.left_out[name] = "git refuses the name"
            return None
        if entry.is_symlink():
            return self._link(handle, entry, status)
        return self._read(handle, name, entry)

    def _link(self, handle: int, entry: os.DirEntry[str], status: os.stat_result) -> File | None:
        if entry.name.lower() == ".gitmodules":
            raise WorldError(f"{entry.name!r} is a symbolic link, which git refuses: remove it")
        try:
            target = os.fsencode(os.readlink(entry.name, dir_fd=handle))
        except OSError as error:
            if error.errno in _VANISHED_ERRORS:
                return None
            raise
        assert self._writer is not None  # noqa: S101 - the caller has looked
        return self._make_file(_LINK_MODE, self._writer.put(b"blob", target), status)

    def _read(self, handle: int, name: bytes, entry: os.DirEntry[str]) -> File | None:
        assert self._writer is not None  # noqa: S101 - the caller has looked
        for _ in range(_ATTEMPTS):
            self._check()
            try:
                file = open_file(entry.name, dir_fd=handle)
            except PermissionError:
                self.left_out[name] = "permission denied"
                return None
            except OSError as error:
                if error.errno in _VANISHED_ERRORS:
                    return None
                raise
            with file:
                status, size = os.fstat(file.fileno()), size_of(file)
                if size > self._max_bytes:
                    self.left_out[name] = f"{size / _MIB:,.1f} MiB"
                    return None
                oid = self._writer.put_file(file, size)
            if oid is not None:
                mode = _PROGRAM_MODE if status.st_mode & stat.S_IXUSR else _FILE_MODE
                return self._make_file(mode, oid, status)
        self.left_out[name] = "it changed while it was read"
        return None

    def _make_file(self, mode: int, oid: bytes, status: os.stat_result) -> File:
        return File(TreeEntry(mode, oid), _mark(status), status.st_ctime_ns > self._began - _RECENT_NS)

    def _tree(self, path: bytes, data: bytes) -> bytes | None:
        earlier = self._before.trees.get(path)
        if earlier is None or earlier[0] != data:
            assert self._writer is not None  # noqa: S101 - without it, nothing is in a tree
            earlier = data, self._writer.put(b"tree", data)
        self.kept.trees[path] = earlier
        return earlier[1]


def refuse(root: Path, repositories: Collection[bytes]) -> None:
    """Raise `WorldError` for repositories in a folder, by name."""
    if not repositories:
        return
    names = first_of([decode_name(name) for name in sorted(repositories)], _MAX_NAMES)
    msg = (
        f"{str(root)!r} holds other repositories or submodules, whose files its own does not keep: {names}. "
        "Add them to .gitignore, or choose a folder without them"
    )
    raise WorldError(msg)


def _can_be_kept(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file or a link: pipes, sockets and devices are not kept."""
    return entry.is_file(follow_symlinks=False) or entry.is_symlink()


def _mark(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)
