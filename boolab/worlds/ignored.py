"""Which files the user's git ignores in a folder.

Git is asked, but in a working tree of boolab's own, which holds copies of the `.gitignore` files alone: git would wait
for a pipe of that name, and read one of any size. Where the folder is below the repository's top, the patterns above it
are rewritten for the folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from boolab.errors import WorldError
from boolab.git.command import Conversation, Git, names, users_settings
from boolab.git.repository import Repository
from boolab.io.files import read_file
from boolab.io.folders import folder_handle, read_below

MAX_PATTERNS: Final = 2**20
"""The largest file of patterns that is read, in bytes."""
MAX_INDEX: Final = 2**28
"""The largest index of the user that is read, in bytes."""
_QUESTION: Final = 2**14
"""How much is asked at once, in bytes: less than a pipe holds."""
_FILE: Final = ".gitignore"
_SHARED_INDEX: Final = re.compile(r"sharedindex\.([0-9a-f]{40,64})")


class Ignored:
    """Answers which names in a folder are ignored.

    Args:
        git_dir: A git directory of boolab's own, for this alone.
        repository: The user's repository.
        origin: The folder of the user's working tree whose patterns hold.

    Attributes:
        unread: The files of patterns that are there and were not read, and why not.
    """

    def __init__(self, git_dir: Path, repository: Repository, origin: Path) -> None:
        self.unread: dict[str, str] = {}
        self._tree = git_dir / "tree"
        self._tree.mkdir()
        (git_dir / "info").mkdir()
        (git_dir / "info/exclude").write_bytes(self._general(git_dir, repository, origin))
        self._git = Git(git_dir, {"GIT_WORK_TREE": str(self._tree)})
        self._texts: dict[bytes, bytes] = {}
        self._verdicts: dict[bytes, bool] = {}
        self._at_end = ExitStack()
        self._answers: Conversation | None = None

    def cancel(self) -> None:
        """Kill the git command under way."""
        self._git.cancel()

    @contextmanager
    def asked(self) -> Iterator[None]:
        """The time in which it is asked: git knows nothing of a file of patterns that changes after it was read."""
        with ExitStack() as self._at_end:
            yield
        self._answers = None

    def read(self, folder: int, path: bytes, entry: os.DirEntry[str] | None) -> None:
        """Take in the patterns in a folder, before it is asked about names in there.

        Args:
            folder: The open folder.
            path: Its path, with a slash at the end.
            entry: Its file of patterns, if it has one.
        """
        text = b""
        if entry is not None:
            text = self._read(os.fsdecode(path) + _FILE, lambda: read_file(_FILE, MAX_PATTERNS, within=folder))
        if text == self._texts.get(path, b""):
            return
        self._texts[path] = text
        self._verdicts.clear()
        place = self._tree / os.fsdecode(path)
        place.mkdir(parents=True, exist_ok=True)
        (place / _FILE).write_bytes(text)

    def of(self, path: bytes, listed: Collection[str], folders: Collection[str]) -> set[str]:
        """Those of these names that are ignored.

        Args:
            path: The folder that they are in, with a slash at the end.
            listed: The names.
            folders: Which names are of folders.
        """
        full = {name: path + os.fsencode(name) + (b"/" if name in folders else b"") for name in listed}
        unknown = [name for name in full.values() if name not in self._verdicts]
        for name in unknown:
            if name.endswith(b"/"):  # git looks whether it is one
                (self._tree / os.fsdecode(name)).mkdir(parents=True, exist_ok=True)
        for batch in _batches(unknown):
            self._ask(batch)
        return {name for name, asked in full.items() if self._verdicts[asked]}

    def _ask(self, batch: list[bytes]) -> None:
        if self._answers is None:
            options = ("-z", "--stdin", "--verbose", "--non-matching", "--no-index")
            self._answers = self._at_end.enter_context(self._git.conversation("check-ignore", *options, codes=(0, 1)))
        self._answers.ask(b"".join(b"./" + name.removesuffix(b"/") + b"\0" for name in batch))
        for name in batch:
            _source, _line, pattern, _name = [self._answers.until(b"\0") for _ in range(4)]
            self._verdicts[name] = bool(pattern) and not pattern.startswith(b"!")

    def _read(self, name: str, read: Callable[[], bytes]) -> bytes:
        """What a file of patterns holds; nothing if it is not there, or is not read."""
        self.unread.pop(name, None)
        try:
            return read()
        except FileNotFoundError:
            return b""
        except OSError as error:
            self.unread[name] = error.strerror or type(error).__name__
            return b""

    def _general(self, git_dir: Path, repository: Repository, origin: Path) -> bytes:
        """The patterns that hold in the folder, but for those in its own files."""
        folder = origin.relative_to(repository.top).parts
        sources = [(0, self._users(git_dir, repository)), (0, self._of_repository(repository))]
        for depth in range(len(folder)):
            with folder_handle(repository.top) as top, folder_handle(Path(*folder[:depth]), top) as above:
                name = str(Path(*folder[:depth], _FILE))
                text = self._read(
                    f"{'../' * (len(folder) - depth)}{name}", lambda: read_below(above, _FILE, MAX_PATTERNS)
                )
            sources.append((depth, text))
        return patterns_for(folder, sources)

    def _users(self, git_dir: Path, repository: Repository) -> bytes:
        """The user's own patterns, which hold in all repositories, or those that this one has in their place."""
        named = repository.excludes_file or users_settings(git_dir).get("core.excludesfile", [""])[-1]
        config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        path = repository.top / os.path.expanduser(named) if named else config / "git/ignore"  # noqa: PTH111 - as git does
        if not repository.excludes_file:
            return self._read(str(path), lambda: read_file(path, MAX_PATTERNS))

        def read() -> bytes:
            with folder_handle(path.parent.resolve()) as above:
                return read_file(path.name, MAX_PATTERNS, within=above)

        return self._read(str(path), read)

    def _of_repository(self, repository: Repository) -> bytes:
        def read() -> bytes:
            with folder_handle(repository.common) as common:
                return read_below(common, "info/exclude", MAX_PATTERNS)

        return self._read(".git/info/exclude", read)


def tracked_files(git_dir: Path, repository: Repository, origin: Path) -> list[bytes]:
    """The files in a folder that the user's git tracks.

    Args:
        git_dir: A git directory of boolab's own, for this alone. It gets a copy of the index.
        repository: The user's repository.
        origin: The folder of its working tree.

    Raises:
        WorldError: if the index cannot be read.
    """
    try:
        with folder_handle(repository.git_dir) as folder:
            index = read_file("index", MAX_INDEX, within=folder)
            with os.scandir(folder) as entries:
                shared = [match for entry in entries if (match := _SHARED_INDEX.fullmatch(entry.name))]
            for match in shared:
                if bytes.fromhex(match[1]) in index:
                    (git_dir / match[0]).write_bytes(read_file(match[0], MAX_INDEX, within=folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise WorldError(f"the index in {str(repository.git_dir)!r} cannot be read: {error.strerror}") from error
    (git_dir / "index").write_bytes(index)
    sparse = ("--sparse",) if b"sdir" in index else ()
    above = "".join(f"{part}/" for part in origin.relative_to(repository.top).parts).encode(errors="surrogateescape")
    listed = names(Git(git_dir)("ls-files", "-z", "--cached", *sparse))
    return [name.removeprefix(above) for name in listed if name.startswith(above)]


def _batches(listed: Iterable[bytes]) -> Iterator[list[bytes]]:
    """A list in parts that are asked at once."""
    batch: list[bytes] = []
    size = 0
    for name in listed:
        if batch and size + len(name) > _QUESTION:
            yield batch
            batch, size = [], 0
        batch.append(name)
        size += len(name) + 3
    if batch:
        yield batch


def patterns_for(folder: tuple[str, ...], sources: Iterable[tuple[int, bytes]]) -> bytes:
    r"""The patterns that hold in a folder, lowest precedence first.

    Args:
        folder: The names that lead from the repository's top to the folder.
        sources: How many of these names lead to a file of patterns, and what it holds; lowest precedence first.

    Example:
        >>> patterns_for(("src", "app"), [(0, b"*.log\n/src/app/out\n/docs\n"), (1, b"!keep.log\napp/tmp/")])
        b'*.log\n/out\n!keep.log\n/tmp/\n'
    """
    lines = []
    for depth, text in sources:
        for line in text.splitlines():
            kept = _rewritten(line, folder[depth:])
            if kept:
                lines.append(kept + b"\n")
    return b"".join(lines)


def _rewritten(line: bytes, names: tuple[str, ...]) -> bytes:
    """One line, for a folder that these names lead to; empty if it holds for nothing in there."""
    if not names:
        return line
    bare = re.sub(rb"(?<!\\)\s+$", b"", line)
    if not bare or bare.startswith(b"#"):
        return b""
    negated, pattern = (b"!", bare[1:]) if bare.startswith(b"!") else (b"", bare)
    if b"/" not in pattern.rstrip(b"/") or pattern.startswith(b"**/"):
        return bare  # it holds at any depth
    parts = pattern.strip(b"/").split(b"/")
    for place, name in enumerate(names):
        if place >= len(parts) - 1 and parts[-1] != b"**":
            return b""  # it names the folder itself, or one above it: the folder was chosen all the same
        if parts[place] == b"**":
            return negated + b"/".join(parts[place:]) + (b"/" if pattern.endswith(b"/") else b"")
        if not fnmatchcase(name, parts[place].decode("utf-8", "surrogateescape")):
            return b""
    rest = b"/".join(parts[len(names) :])
    return negated + b"/" + rest + (b"/" if pattern.endswith(b"/") else b"")
