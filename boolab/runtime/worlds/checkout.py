"""The files of a commit, written into an empty folder: each object is compared with its name, no name leads out.

A ref for each run keeps its commits. The last line of a commit's text is a note of what its tree does not hold: empty
folders, and what was left out.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, Final

from boolab.errors import WorldError
from boolab.io.folders import folder_handle
from boolab.io.git.command import decode_name
from boolab.io.git.objects import TreeEntry, tree_entries
from boolab.io.git.reading import ObjectReader, open_git
from boolab.io.git.repository import Repository
from boolab.runtime.worlds.scan import MAX_DEPTH

REFS: Final = "refs/boolab"
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
MAX_FILES: Final = 1_000_000
"""How many files and folders are written."""
_MAX_LINK: Final = 2**12
_SUBMODULE: Final = 0o160000
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def check_out(repository: Repository, commit: str, into: Path) -> Mapping[str, Any]:
    """Write the files of a commit."""
    with objects_of(repository) as reader:
        text = commit_text(reader, repository, commit)
        with folder_handle(into) as folder:
            try:
                _Checkout(reader, len(commit) // 2).folder(folder, tree_in(text), b"", 0)
            except (KeyError, ValueError) as error:
                msg = f"the commit {commit} in {str(repository.common)!r} is damaged, or parts of it are gone: {error}"
                raise WorldError(msg) from error
            except FileExistsError as error:
                raise WorldError(f"the commit {commit} has two files of one name: {error.filename!r}") from error
            note = note_in(text)
            for name in note.get("folders", ()):
                _make_folder(folder, name)
    return note


@contextmanager
def objects_of(repository: Repository) -> Iterator[ObjectReader]:
    """What reads the objects of a repository, until the block ends."""
    with open_git(repository, refs=False) as git, git.conversation("cat-file", "--batch") as answers:
        yield ObjectReader(answers, repository.object_format)


def commit_text(reader: ObjectReader, repository: Repository, commit: str) -> bytes:
    """What a commit holds."""
    try:
        return reader.read(commit, "commit")
    except KeyError as error:
        msg = (
            f"the commit {commit} is not in {str(repository.common)!r}: it was forgotten, or the run was kept in "
            "another repository"
        )
        raise WorldError(msg) from error


def tree_in(commit: bytes) -> str:
    """The tree that a commit names."""
    return commit.partition(b"\n")[0].removeprefix(b"tree ").decode("ascii", "replace")


class _Checkout:
    """Writes trees."""

    def __init__(self, reader: ObjectReader, size: int) -> None:
        self._reader = reader
        self._size = size
        self._left = MAX_FILES

    def folder(self, handle: int, tree: str, path: bytes, depth: int) -> None:
        """Write a tree into an empty folder."""
        if depth > MAX_DEPTH:
            raise WorldError(f"{decode_name(path)!r} is more than {MAX_DEPTH} folders deep")
        entries = list(tree_entries(self._reader.read(tree, "tree"), self._size))
        self._left -= len(entries)
        if self._left < 0:
            raise WorldError(f"the commit has more than the {MAX_FILES:,} files that are written")
        files: list[tuple[str, Callable[[], Any]]] = []
        for name, entry in entries:
            _check(name, entry, path)
            kind = stat.S_IFMT(entry.mode)
            if kind in (stat.S_IFREG, stat.S_IFLNK):
                writer = _link if kind == stat.S_IFLNK else partial(_file, is_program=bool(entry.mode & stat.S_IXUSR))
                files.append((entry.oid.hex(), partial(writer, handle, os.fsdecode(name))))
        self._reader.files(files)
        for name, entry in entries:
            if stat.S_IFMT(entry.mode) in (stat.S_IFDIR, _SUBMODULE):
                os.mkdir(os.fsdecode(name), dir_fd=handle)
            if stat.S_ISDIR(entry.mode):
                with folder_handle(os.fsdecode(name), handle) as child:
                    self.folder(child, entry.oid.hex(), path + name + b"/", depth + 1)


def _check(name: bytes, entry: TreeEntry, path: bytes) -> None:
    """Refuse what git refuses: a name that leads out of its folder, or that git would take for its own."""
    lower = name.lower()
    is_link = stat.S_ISLNK(entry.mode)
    if not name or b"/" in name or lower in (b".", b"..", b".git") or (is_link and lower == b".gitmodules"):
        raise WorldError(f"the commit holds a file of the name {decode_name(path + name)!r}, which git refuses")
    if stat.S_IFMT(entry.mode) not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR, _SUBMODULE):
        raise ValueError(f"{decode_name(path + name)!r} has the mode {entry.mode:o}")


@contextmanager
def _file(folder: int, name: str, *, is_program: bool) -> Iterator[BinaryIO]:
    with os.fdopen(os.open(name, _NEW, 0o777 if is_program else 0o666, dir_fd=folder), "wb") as file:
        yield file


class _Target:
    """The target of a link, as it is read."""

    def __init__(self) -> None:
        self.text = b""

    def write(self, piece: bytes) -> None:
        self.text += piece
        if len(self.text) > _MAX_LINK:
            msg = "a link that is too long"
            raise ValueError(msg)


@contextmanager
def _link(folder: int, name: str) -> Iterator[_Target]:
    target = _Target()
    yield target
    os.symlink(target.text, name, dir_fd=folder)


def _make_folder(root: int, name: str) -> None:
    """Make an empty folder, and never through a link."""
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or {"..", ".git"} & set(parts):
        return
    with suppress(OSError, ValueError), folder_handle(name, root, make=True):
        pass


def name_of(run_id: str) -> str:
    """The id of a run as the last part of its ref: itself, or a digest if it has other characters."""
    return run_id if _SAFE_NAME.fullmatch(run_id) else blake2b(os.fsencode(run_id), digest_size=16).hexdigest()


def note_text(folders: Iterable[bytes], left_out: Mapping[bytes, str]) -> str:
    """What a tree does not hold of a state, for the text of its commit: JSON, of ASCII alone."""
    names = {os.fsdecode(name): reason for name, reason in sorted(left_out.items())}
    return json.dumps({"folders": [os.fsdecode(name) for name in folders], "left_out": names})


def note_in(commit: bytes) -> dict[str, Any]:
    """The note in a commit; empty if the commit has none."""
    with suppress(ValueError, RecursionError):
        note = json.loads(commit.rstrip().rsplit(b"\n", 1)[-1])
        folders, left_out = (note.get(key) if isinstance(note, dict) else None for key in ("folders", "left_out"))
        if isinstance(folders, list) and isinstance(left_out, dict) and all(isinstance(name, str) for name in folders):
            return {"folders": folders, "left_out": left_out}
    return {}
