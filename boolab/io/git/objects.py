"""Git objects: made and written to the objects of a repository by boolab itself, through no link.

An object is a kind, a size and bytes, and is named by their digest. It is written as a file of its own ("loose"). What
the repository has in packs is looked up in their lists, and not written again.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, BinaryIO, Final, NamedTuple

from boolab.io.files import read_file
from boolab.io.folders import folder_handle
from boolab.io.git.repository import Repository, unusable_error

MAX_LISTED: Final = 2**27
"""How much of the lists of packs is read, in bytes: those of some four million objects. Others are written again."""
_ATTEMPTS: Final = 20
"""How often an object is written: `git gc` removes folders of objects that are empty, in the same moment."""
_PIECE: Final = 2**20
_LIST: Final = re.compile(r"pack-[0-9a-f]+\.idx")
_VERSION_2: Final = (b"\xfftOc", 2)
_HEAD: Final = struct.Struct(">4sI256I")
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_FOLDER: Final = 0o40000


class TreeEntry(NamedTuple):
    """What a tree holds under a name."""

    mode: int  # its mode, as git has it
    oid: bytes  # the name of the object


class ObjectWriter:
    """Writes objects into a repository. Close it."""

    def __init__(self, repository: Repository) -> None:
        self.path = repository.common / "objects"
        self._digest = repository.object_format
        with repository.open_folder("objects") as folder:
            self._folder = os.dup(folder)
        self._known: set[bytes] = set()
        self._packs: list[_Pack] | None = None

    def close(self) -> None:
        """Give the open folder back."""
        os.close(self._folder)

    def put(self, kind: bytes, data: bytes) -> bytes:
        """Write an object, unless the repository has it."""
        head = b"%s %d\0" % (kind, len(data))
        oid: bytes = self._make_hash(head + data).digest()
        if not self._has(oid):
            self._write(oid, [head, data])
        return oid

    def put_file(self, file: BinaryIO, size: int) -> bytes | None:
        """Write a file as a blob, unless the repository has it, in pieces: its name; None if it changed meanwhile."""
        head = b"blob %d\0" % size
        oid = self._digest_of(head, file, size)
        if oid is None or self._has(oid):
            return oid
        file.seek(0)
        return oid if self._write(oid, chain([head], _pieces(file))) else None

    def forget_packs(self) -> None:
        """Free what is known of packs."""
        self._packs = []

    def _make_hash(self, data: bytes) -> Any:  # noqa: ANN401 - hashlib names no type
        return hashlib.new(self._digest, data, usedforsecurity=False)

    def _digest_of(self, head: bytes, file: BinaryIO, size: int) -> bytes | None:
        digest = self._make_hash(head)
        for piece in _pieces(file):
            digest.update(piece)
            size -= len(piece)
        oid: bytes = digest.digest()
        return None if size else oid

    def _has(self, oid: bytes) -> bool:
        if oid not in self._known and (self._is_packed(oid) or self._is_loose(oid.hex())):
            self._known.add(oid)
        return oid in self._known

    def _is_packed(self, oid: bytes) -> bool:
        if self._packs is None:
            self._packs = list(_packs(self._folder, len(oid)))
        return any(pack.has(oid) for pack in self._packs)

    def _is_loose(self, name: str) -> bool:
        with suppress(OSError), folder_handle(name[:2], self._folder) as folder:
            if stat.S_ISREG(os.stat(name[2:], dir_fd=folder, follow_symlinks=False).st_mode):
                os.utime(name[2:], dir_fd=folder, follow_symlinks=False)  # or `git gc` may take it for old
                return True
        return False

    def _write(self, oid: bytes, pieces: Iterable[bytes]) -> bool:
        """Write an object. False if its bytes are not those that its name is of."""
        name = oid.hex()
        is_written = False
        for attempt in range(_ATTEMPTS):
            try:
                mode = stat.S_IMODE(os.fstat(self._folder).st_mode)
                with folder_handle(name[:2], self._folder, make=True) as folder:
                    if stat.S_IMODE(os.fstat(folder).st_mode) != mode:
                        os.fchmod(folder, mode)  # where several users share the repository
                    is_written = self._write_in(folder, oid, pieces, mode & 0o444)
                break
            except OSError as error:
                if not isinstance(error, FileNotFoundError) or attempt + 1 == _ATTEMPTS:
                    raise unusable_error(self.path / name[:2], error) from error
        if is_written:
            self._known.add(oid)
        return is_written

    def _write_in(self, folder: int, oid: bytes, pieces: Iterable[bytes], mode: int) -> bool:
        temp_name = f"tmp_obj_{os.urandom(8).hex()}"  # `git prune` removes old ones
        handle = os.open(temp_name, _NEW, 0o600, dir_fd=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                digest, packer = self._make_hash(b""), zlib.compressobj(1)
                for piece in pieces:
                    digest.update(piece)
                    file.write(packer.compress(piece))
                file.write(packer.flush())
                os.fchmod(handle, mode)
            if digest.digest() != oid:
                return False
            os.rename(temp_name, oid.hex()[2:], src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temp_name, dir_fd=folder)
        return True


def tree_bytes(entries: Iterable[tuple[bytes, TreeEntry]]) -> bytes:
    """The bytes of a tree."""
    ordered = sorted(entries, key=lambda item: item[0] + b"/" if item[1].mode == _FOLDER else item[0])
    return b"".join(b"%o %s\0%s" % (entry.mode, name, entry.oid) for name, entry in ordered)


def tree_entries(data: bytes, size: int) -> Iterator[tuple[bytes, TreeEntry]]:
    """The names and entries of a tree; the name of an object has `size` bytes."""
    offset = 0
    while offset < len(data):
        end = data.index(b"\0", offset)
        mode, _, name = data[offset:end].partition(b" ")
        offset = end + 1 + size
        yield name, TreeEntry(int(mode, 8), data[end + 1 : offset])


class _Pack(NamedTuple):
    """The objects of a pack: how many begin with at most each byte, and their names in order."""

    counts: Sequence[int]
    names: bytes

    def has(self, oid: bytes) -> bool:
        size = len(oid)
        low, high = self.counts[oid[0] - 1] if oid[0] else 0, self.counts[oid[0]]
        while low < high:
            middle = (low + high) // 2
            name = self.names[middle * size : (middle + 1) * size]
            if name == oid:
                return True
            low, high = (middle + 1, high) if name < oid else (low, middle)
        return False


def _packs(objects: int, size: int) -> Iterator[_Pack]:
    """The lists of packs, largest first, as far as they are read. One that is not as git makes it is left out."""
    remaining = MAX_LISTED
    with suppress(OSError), folder_handle("pack", objects) as folder:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if _LIST.fullmatch(entry.name)]
        for name in names:
            with suppress(OSError, struct.error):
                data = read_file(name, remaining, dir_fd=folder)
                magic, version, *counts = _HEAD.unpack_from(data)
                begin = _HEAD.size
                os.stat(name.removesuffix("idx") + "pack", dir_fd=folder, follow_symlinks=False)
                if (magic, version) == _VERSION_2 and counts == sorted(counts):
                    yield _Pack(counts, data[begin : begin + counts[-1] * size])
                    remaining -= len(data)


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece
