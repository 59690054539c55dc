"""Which files the user's git ignores in a folder.

Git is not asked: it would wait for a pipe called `.gitignore`, and read one of any size.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from boolab.errors import WorldError
from boolab.io.files import read_file
from boolab.io.folders import folder_handle, read_below
from boolab.io.git.command import Git, names, users_settings
from boolab.io.git.patterns import Patterns
from boolab.io.git.repository import Repository

MAX_PATTERNS: Final = 2**18
"""The largest file of patterns that is read, in bytes."""
MAX_INDEX: Final = 2**28
"""The largest index of the user that is read, in bytes."""
_FILE: Final = ".gitignore"
_SHARED_INDEX: Final = re.compile(r"sharedindex\.([0-9a-f]{40,64})")


class Ignored:
    """Answers which names in a folder are ignored."""

    def __init__(self, git_dir: Path, repository: Repository, origin: Path) -> None:
        self._unread: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        self._general = self._patterns_above(git_dir, repository, origin)
        self._texts: dict[bytes, bytes] = {}
        self._files: dict[bytes, Patterns] = {}
        self._verdicts: dict[bytes, bool] = {}

    @property
    def unread_files(self) -> dict[str, str]:
        """The files of patterns that are there and were not read, and why not."""
        return dict(sorted((self._unread | self._refused).items()))

    def read(self, folder: int, path: bytes, entry: os.DirEntry[str] | None) -> None:
        """Take in the patterns in a folder, before it is asked about names in there."""
        text = b""
        name = os.fsdecode(path) + _FILE
        if entry is not None:
            text = self._read(name, lambda: read_file(_FILE, MAX_PATTERNS, dir_fd=folder))
        if text != self._texts.get(path, b""):
            self._texts[path] = text
            self._files[path] = self._patterns(name, text)
            self._verdicts.clear()

    def ignored_names(self, path: bytes, files: Collection[str], folders: Collection[str]) -> set[str]:
        """Those of these names that are ignored."""
        patterns = set()
        for name in files:
            full = path + os.fsencode(name) + (b"/" if name in folders else b"")
            if full not in self._verdicts:
                self._verdicts[full] = self._is_ignored(path, full)
            if self._verdicts[full]:
                patterns.add(name)
        return patterns

    def _is_ignored(self, folder: bytes, full: bytes) -> bool:
        """Whether a name is ignored: the nearest file of patterns that is about it decides."""
        text = full.decode("latin-1")
        for above in _folders_upwards(folder):
            patterns = self._files.get(above)
            verdict = None if patterns is None else patterns.verdict(text[len(above) :])
            if verdict is not None:
                return verdict
        return next(
            (match for parents, patterns in self._general if (match := patterns.verdict(parents + text)) is not None),
            False,
        )

    def _patterns(self, name: str, text: bytes) -> Patterns:
        self._refused.pop(name, None)
        try:
            return Patterns(text)
        except ValueError as error:
            self._refused[name] = str(error)
            return Patterns(b"")

    def _read(self, name: str, read: Callable[[], bytes]) -> bytes:
        """What a file of patterns holds; nothing if it is not there, or is not read."""
        self._unread.pop(name, None)
        try:
            return read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            self._unread[name] = error.strerror or type(error).__name__
            return b""

    def _patterns_above(self, git_dir: Path, repository: Repository, origin: Path) -> list[tuple[str, Patterns]]:
        """The patterns above a folder that hold in it, highest precedence first, with the path from their file."""
        folder = origin.relative_to(repository.top).parts
        parents = ["".join(f"{part}/" for part in folder[depth:]) for depth in range(len(folder) + 1)]
        sources = [
            ("core.excludesFile", parents[0], self._users(git_dir, repository)),
            (".git/info/exclude", parents[0], self._repository_patterns(repository)),
        ]
        with folder_handle(repository.top) as top:
            for depth in range(len(folder)):
                name = f"{'../' * (len(folder) - depth)}{_FILE}"
                path = str(Path(*folder[:depth], _FILE))
                text = self._read(name, lambda path=path: read_below(top, path, MAX_PATTERNS))  # type: ignore[misc]
                sources.append((name, parents[depth], text))
        return [(os.fsencode(rest).decode("latin-1"), self._patterns(name, text)) for name, rest, text in sources[::-1]]

    def _users(self, git_dir: Path, repository: Repository) -> bytes:
        """The user's own patterns, which hold in all repositories, or those that this one has in their place."""
        configured = repository.excludes_file or users_settings(git_dir).get("core.excludesfile", [""])[-1]
        config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        path = repository.top / os.path.expanduser(configured) if configured else config / "git/ignore"  # noqa: PTH111 - as git does
        if not repository.excludes_file:
            return self._read(str(path), lambda: read_file(path, MAX_PATTERNS))

        def read() -> bytes:
            with folder_handle(path.parent.resolve()) as above:
                return read_file(path.name, MAX_PATTERNS, dir_fd=above)

        return self._read(str(path), read)

    def _repository_patterns(self, repository: Repository) -> bytes:
        def read() -> bytes:
            with folder_handle(repository.common) as common:
                return read_below(common, "info/exclude", MAX_PATTERNS)

        return self._read(".git/info/exclude", read)


def tracked_files(git_dir: Path, repository: Repository, origin: Path) -> list[bytes]:
    """The files in a folder that the user's git tracks; `git_dir` gets a copy of the index."""
    try:
        with folder_handle(repository.git_dir) as folder:
            index = read_file("index", MAX_INDEX, dir_fd=folder)
            with os.scandir(folder) as entries:
                shared = [match for entry in entries if (match := _SHARED_INDEX.fullmatch(entry.name))]
            for match in shared:
                if bytes.fromhex(match[1]) in index:
                    (git_dir / match[0]).write_bytes(read_file(match[0], MAX_INDEX, dir_fd=folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise WorldError(f"the index in {str(repository.git_dir)!r} cannot be read: {error.strerror}") from error
    (git_dir / "index").write_bytes(index)
    sparse = ("--sparse",) if b"sdir" in index else ()
    above = "".join(f"{part}/" for part in origin.relative_to(repository.top).parts).encode(errors="surrogateescape")
    output = names(Git(git_dir)("ls-files", "-z", "--cached", *sparse))
    return [name.removeprefix(above) for name in output if name.startswith(above)]


def _folders_upwards(folder: bytes) -> list[bytes]:
    """A folder and all above it, each with a slash at its end; the last one is empty."""
    folders = [folder]
    while folder:
        folder = folder[: folder[:-1].rfind(b"/") + 1]
        folders.append(folder)
    return folders
