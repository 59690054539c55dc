"""Git commands that read a repository, also a hostile one.

Git works in a git directory of boolab's own. Only packs and objects of the repository are put in there, as links, and
copies of its refs. So nothing else in the repository is read: no settings, hooks, attributes, grafts, alternates.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from boolab.errors import WorldError
from boolab.io.folders import folder_handle, read_below
from boolab.io.git.command import Conversation, Git
from boolab.io.git.refs import read_refs
from boolab.io.git.repository import Repository, scratch_git, unusable_error

MAX_OBJECT: Final = 2**26
"""The largest tree or commit that is read, in bytes."""
_BATCH: Final = 100
"""How many files are asked for at once: their names fit into a pipe."""
_LOOSE_FOLDER: Final = re.compile(r"[0-9a-f]{2}")
_PACK: Final = re.compile(r"pack-[0-9a-f]+\.(?:pack|idx)")
_HEAD: Final = re.compile(r"ref: refs/[^\x00-\x20\x7f~^:?*\[\\]+|[0-9a-f]{40}|[0-9a-f]{64}")
_MAX_HEAD: Final = 2**12
_MAX_SHALLOW: Final = 2**24


@contextmanager
def open_git(repository: Repository, *, refs: bool = True) -> Iterator[Git]:
    """Git that reads a repository, until the block ends: `log`, `rev-list`, `cat-file`, `diff-tree`, `show` and others.

    What it prints is of the repository, and as hostile. The bytes of an object are not compared with its name.

    `refs`: whether its refs and HEAD are there, or its objects alone.
    """
    with scratch_git(repository.name, repository.object_format) as folder:
        _link_objects(repository, folder / "objects")
        if refs:
            _copy_refs(repository, folder)
        yield Git(folder)


def _link_objects(repository: Repository, target: Path) -> None:
    """Link packs, and folders of objects that hold files alone. A link of the repository is left out."""
    objects = repository.common / "objects"
    with repository.open_folder("objects") as handle:
        with os.scandir(handle) as entries:
            folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        for name in folders:
            if name == "pack":
                for file, is_file in _files(handle, objects, name):
                    if is_file and _PACK.fullmatch(file):
                        (target / name / file).symlink_to(objects / name / file)
            elif _LOOSE_FOLDER.fullmatch(name):
                # The folder is linked as a whole, so nothing in it can be left out.
                odd = [file for file, is_file in _files(handle, objects, name) if not is_file]
                if odd:
                    path = objects / name / odd[0]
                    msg = f"{str(path)!r} is no file that git made, but a link, a pipe or a device: remove it"
                    raise WorldError(msg)
                (target / name).symlink_to(objects / name)


def _files(above: int, path: Path, name: str) -> list[tuple[str, bool]]:
    """The names in a folder of objects, and whether each is that of a file."""
    try:
        with folder_handle(name, above) as folder, os.scandir(folder) as entries:
            return [(entry.name, entry.is_file(follow_symlinks=False)) for entry in entries]
    except OSError as error:
        raise unusable_error(path / name, error) from error


def _copy_refs(repository: Repository, folder: Path) -> None:
    lines = [f"{target} {name}\n" for name, target in read_refs(repository).items()]
    (folder / "packed-refs").write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
    with ExitStack() as at_end:
        try:
            git_dir = at_end.enter_context(folder_handle(repository.git_dir))
            head = os.fsdecode(read_below(git_dir, "HEAD", _MAX_HEAD)).strip()
            common = at_end.enter_context(folder_handle(repository.common))
        except OSError as error:
            raise WorldError(f"{str(repository.git_dir / 'HEAD')!r} cannot be read: {error.strerror}") from error
        if _HEAD.fullmatch(head):
            (folder / "HEAD").write_text(head + "\n", encoding="utf-8", errors="surrogateescape")
        try:
            (folder / "shallow").write_bytes(read_below(common, "shallow", _MAX_SHALLOW))
        except OSError:
            return  # as a rule there is none


class ObjectReader:
    """Reads objects from `git cat-file --batch`, and compares their bytes with their names."""

    def __init__(self, answers: Conversation, object_format: str) -> None:
        self._answers = answers
        self._digest = object_format

    def read(self, oid: str, kind: str) -> bytes:
        """An object other than a file."""
        self._answers.ask(f"{oid}\n".encode())
        pieces: list[bytes] = []
        self._answer(oid, kind, pieces.append, MAX_OBJECT)
        return b"".join(pieces)

    def files(self, requests: Sequence[tuple[str, Callable[[], AbstractContextManager[BinaryIO]]]]) -> None:
        """Write the bytes of files."""
        for batch in range(0, len(requests), _BATCH):
            chunk = requests[batch : batch + _BATCH]
            self._answers.ask("".join(f"{oid}\n" for oid, _ in chunk).encode())
            for oid, opener in chunk:
                with opener() as file:
                    self._answer(oid, "blob", file.write, None)

    def _answer(self, oid: str, kind: str, write: Callable[[bytes], object], max_bytes: int | None) -> None:
        words = self._answers.read_until(b"\n").decode("ascii", "replace").split(" ")
        if words[1:2] != [kind]:
            raise KeyError(oid)
        size = int(words[2])
        if max_bytes is not None and size > max_bytes:
            raise WorldError(f"the {kind} {oid} has {size:,} bytes, more than the {max_bytes:,} that are read")
        digest = hashlib.new(self._digest, f"{kind} {size}\0".encode(), usedforsecurity=False)
        for piece in self._answers.pieces(size):
            digest.update(piece)
            write(piece)
        self._answers.read_until(b"\n")
        if digest.hexdigest() != oid:
            raise WorldError(f"the {kind} {oid} is damaged: its bytes are not those that its name is of")
