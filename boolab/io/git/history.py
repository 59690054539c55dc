"""The history of a repository, read for the fate of some lines: which commits add them, and which trees have them.

Git works in a directory of boolab's own (`open_git`), so nothing of the repository is run. Lines are compared without
whitespace. All is bounded: the commits, the bytes of their patches, the files of a tree, and the time for a repository,
after which `HistoryTooLargeError` is raised.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Final, NamedTuple

from boolab.errors import WorldError
from boolab.io.folders import folder_handle, read_below
from boolab.io.git.command import Git
from boolab.io.git.refs import read_refs
from boolab.io.git.repository import Repository

MAX_COMMITS: Final = 200_000
"""So many commits are read, the newest."""
MAX_PATCH: Final = 2**26
"""The largest patch of a commit that is read, in bytes."""
MAX_BLOB: Final = 2**21
"""The largest file that is read, in bytes."""
_CHUNK: Final = 100
_MAX_MESSAGE: Final = 2**16
_MAX_REF: Final = 2**12
_DEFAULTS: Final = ("main", "master", "trunk")
_HEADS: Final = "refs/heads/"
_ORIGIN: Final = "refs/remotes/origin/"
_REVERTS: Final = re.compile(r"This reverts commit ([0-9a-f]{7,64})")
_OID: Final = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_HUNK: Final = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_SPACES: Final = b" \t\r\v\f"
_FILES: Final = (b"100644", b"100755")
_DIFF: Final = (
    "diff-tree", "--stdin", "-r", "--root", "-p", "-U0", "-M", "-l400", "--no-color", "--no-ext-diff", "--no-textconv",
    "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip


class HistoryTooLargeError(WorldError):
    """Reading a history took longer than it may."""


class Commit(NamedTuple):
    """A commit.

    `reverts` has the beginnings of the names of the commits that it reverts by its message.
    """

    oid: str
    parents: tuple[str, ...]
    time: int
    reverts: tuple[str, ...]


class CommitChange(NamedTuple):
    """What a commit changes.

    Attributes:
        added: The lines that it adds, of those that are looked for.
        files: The last parts of the names of the files that it changes.
        patch: A digest of what it adds and removes, file by file; the same where it was picked or rebased. Empty if it
            changes nothing.
    """

    added: frozenset[bytes]
    files: frozenset[bytes]
    patch: bytes


class Branch:
    """A branch: its commits, and where on its main line each of them landed.

    Attributes:
        name: Its name, such as `main` or `origin/main`.
        main_line: Its tip with all first parents, the oldest first.
        landings: For each commit in it, the one of the main line with which it came.
    """

    def __init__(self, name: str, main_line: Sequence[Commit], commits: dict[str, Commit]) -> None:
        self.name = name
        self.main_line = main_line
        self.landings: dict[str, Commit] = {}
        for landing in main_line:
            stack = [landing.oid]
            while stack:
                oid = stack.pop()
                if oid not in self.landings and oid in commits:
                    self.landings[oid] = landing
                    stack += commits[oid].parents

    @property
    def tip(self) -> Commit:
        """Its newest commit."""
        return self.main_line[-1]

    def newest_before(self, seconds: int) -> Commit | None:
        """The last commit of the main line that is not newer than a time; None if all are."""
        return next((commit for commit in reversed(self.main_line) if commit.time <= seconds), None)


class GitHistory:
    """Reads the history of a repository."""

    def __init__(self, git: Git, repository: Repository, seconds: float) -> None:
        self._git = git
        self._deadline = time.monotonic() + seconds
        self._refs = read_refs(repository)
        self._origin_head = _read_origin_head(repository)
        self._wanted: frozenset[bytes] = frozenset()
        self._blob_lines: dict[bytes, frozenset[bytes]] = {}
        self._tree_lines: dict[str, frozenset[bytes]] = {}
        self.commits: dict[str, Commit] = {}
        """The commits of the default branch."""

    @property
    def is_shallow(self) -> bool:
        """Whether the repository was cloned without its older commits."""
        return self._git("rev-parse", "--is-shallow-repository").strip() == b"true"

    def default_branches(self, branch: str | None = None) -> list[Branch]:
        """The branch that work lands on, here and at its origin; empty if there is none."""
        name = branch or self._default_name() or ""
        refs = {f"{_HEADS}{name}": name, f"{_ORIGIN}{name}": f"origin/{name}"}
        tips = {short: self._refs[ref] for ref, short in refs.items() if ref in self._refs}
        if not tips:
            return []
        self.commits = {commit.oid: commit for commit in self._read_commits(set(tips.values()))}
        return [Branch(short, self._main_line(tip), self.commits) for short, tip in tips.items() if tip in self.commits]

    def _default_name(self) -> str | None:
        if f"{_ORIGIN}{self._origin_head}" in self._refs:
            return self._origin_head
        names = [name for name in _DEFAULTS if f"{_HEADS}{name}" in self._refs]
        names += [name for name in _DEFAULTS if f"{_ORIGIN}{name}" in self._refs]
        return names[0] if names else None

    def _read_commits(self, tips: Collection[str]) -> Iterator[Commit]:
        printed = self._git("log", "-z", f"--max-count={MAX_COMMITS}", "--format=%H%n%P%n%ct%n%B", *sorted(tips), "--")
        self.check_time()
        for record in printed.split(b"\0"):
            oid, parents, seconds, message = [*record.split(b"\n", 3), b"", b"", b""][:4]
            if _OID.fullmatch(oid) and seconds.isdigit():
                text = message[:_MAX_MESSAGE].decode("utf-8", "replace")
                yield Commit(oid.decode(), tuple(parents.decode().split()), int(seconds), tuple(_REVERTS.findall(text)))

    def _main_line(self, tip: str) -> list[Commit]:
        main_line: list[Commit] = []
        oid = tip
        while oid in self.commits:
            main_line.append(self.commits[oid])
            oid = self.commits[oid].parents[0] if self.commits[oid].parents else ""
        return main_line[::-1]

    def check_time(self) -> None:
        """Raise `HistoryTooLargeError` once the time for the repository is over."""
        if time.monotonic() > self._deadline:
            msg = "the history is too large to be read in the time for it"
            raise HistoryTooLargeError(msg)

    def find_commits(self, names: Collection[str]) -> dict[str, str]:
        """The full names of the commits that are there, by the names given."""
        ordered = sorted(names)
        if not ordered:
            return {}
        request = "".join([f"{name}^{{commit}}\n" for name in ordered]).encode()
        lines = self._git("cat-file", "--batch-check", stdin=request).split(b"\n")
        pairs = zip(ordered, (line.split(b" ") for line in lines), strict=False)
        return {name: words[0].decode() for name, words in pairs if words[1:2] == [b"commit"]}

    def commit_times(self, oids: Collection[str]) -> dict[str, int]:
        """When commits were made, by their full names."""
        printed = self._git("log", "--no-walk=unsorted", "--format=%H %ct", *oids, "--") if oids else b""
        pairs = (line.decode().split(" ") for line in printed.splitlines())
        return {oid: int(seconds) for oid, seconds in pairs}

    def branches_with(self, oid: str) -> dict[str, str]:
        """The branches that have a commit, each with its tip."""
        try:
            printed = self._git(
                "for-each-ref", f"--contains={oid}", "--format=%(objectname) %(refname)", "refs/heads", "refs/remotes"
            )
        except WorldError:  # a ref may lead to a commit that is not there
            return {}
        pairs = (line.decode("utf-8", "replace").split(" ", 1) for line in printed.splitlines())
        return {_short_name(ref): tip for tip, ref in pairs}

    def branches(self) -> dict[str, str]:
        """All branches, each with its tip."""
        prefixes = (_HEADS, "refs/remotes/")
        return {_short_name(ref): oid for ref, oid in self._refs.items() if ref.startswith(prefixes)}

    def look_for(self, lines: Collection[bytes]) -> None:
        """Set the lines that are looked for from now on."""
        self._wanted = frozenset(lines)
        self._blob_lines.clear()
        self._tree_lines.clear()

    def changes(self, oids: Sequence[str], *, merges: bool = False) -> dict[str, CommitChange]:
        """What commits change; nothing for merges, unless they are to be compared with their first parent."""
        changes: dict[str, CommitChange] = {}
        for start in range(0, len(oids), _CHUNK):
            self.check_time()
            changes |= self._changes_of_chunk(oids[start : start + _CHUNK], merges=merges)
        return changes

    def added_lines(self, oids: Sequence[str]) -> list[bytes]:
        """The lines that commits add, merges in comparison with their first parent."""
        lines: list[bytes] = []
        for oid in oids:
            self.check_time()
            with suppress(WorldError):
                for _, patch in _split_commits(self._diff([oid], merges=True)):
                    lines += [line for is_added, line in _changed_lines(patch) if is_added]
        return lines

    def _diff(self, oids: Sequence[str], *, merges: bool) -> bytes:
        request = "".join([f"{oid}\n" for oid in oids]).encode()
        options = ("--diff-merges=first-parent",) if merges else ()
        return self._git(*_DIFF, *options, stdin=request, max_bytes=MAX_PATCH)

    def _changes_of_chunk(self, oids: Sequence[str], *, merges: bool) -> dict[str, CommitChange]:
        try:
            printed = self._diff(oids, merges=merges)
        except WorldError:
            self.check_time()
            if len(oids) == 1:  # too large, or parts of it are not there
                return {}
            middle = len(oids) // 2
            return self._changes_of_chunk(oids[:middle], merges=merges) | self._changes_of_chunk(
                oids[middle:], merges=merges
            )
        return {oid.decode(): self._change(patch) for oid, patch in _split_commits(printed)}

    def _change(self, patch: Sequence[bytes]) -> CommitChange:
        digest = blake2b(digest_size=16)
        added: list[bytes] = []
        files: set[bytes] = set()
        is_empty = True
        for is_added, line in _changed_lines(patch, files):
            is_empty = False
            digest.update((b"+" if is_added else b"-") + line + b"\n")
            if is_added:
                added.append(line)
        for name in sorted(files):
            digest.update(name + b"\0")
        return CommitChange(self._wanted.intersection(added), frozenset(files), b"" if is_empty else digest.digest())

    def lines_in(self, oid: str) -> frozenset[bytes]:
        """Which of the lines that are looked for the tree of a commit has, in whichever file."""
        if oid not in self._tree_lines and self._wanted:
            blobs = list(self._blobs(oid))
            self._read_blobs([blob for blob in blobs if blob not in self._blob_lines])
            self._tree_lines[oid] = frozenset().union(*[self._blob_lines[blob] for blob in blobs])
        return self._tree_lines.get(oid, frozenset())

    def paths_in(self, oid: str) -> list[str]:
        """The files of the tree of a commit."""
        printed = self._git("ls-tree", "-r", "-z", "--name-only", "--full-tree", oid)
        return [path.decode("utf-8", "replace") for path in printed.split(b"\0") if path]

    def _blobs(self, oid: str) -> Iterator[bytes]:
        """The files of a tree that are not too large."""
        for entry in self._git("ls-tree", "-r", "-l", "-z", "--full-tree", oid).split(b"\0"):
            words = entry.partition(b"\t")[0].split()
            if len(words) == 4 and words[0] in _FILES and words[3].isdigit() and int(words[3]) <= MAX_BLOB:  # noqa: PLR2004
                yield words[2]

    def _read_blobs(self, oids: Sequence[bytes]) -> None:
        blobs = list(dict.fromkeys(oids))
        with self._git.conversation("cat-file", "--batch") as answers:
            for start in range(0, len(blobs), _CHUNK):
                self.check_time()
                chunk = blobs[start : start + _CHUNK]
                answers.ask(b"".join([blob + b"\n" for blob in chunk]))
                for blob in chunk:
                    words = answers.read_until(b"\n").split(b" ")
                    data = b"".join(answers.pieces(int(words[2]))) if words[2:] else b""
                    if words[2:]:
                        answers.read_until(b"\n")
                    self._blob_lines[blob] = self._wanted.intersection(split_lines(data))


def split_lines(data: bytes) -> list[bytes]:
    """The lines of a text, without whitespace."""
    return data.translate(None, _SPACES).split(b"\n")


def _short_name(ref: str) -> str:
    return ref.removeprefix(_HEADS).removeprefix("refs/remotes/")


def state_of(repository: Repository) -> list[object]:
    """All that decides what `GitHistory` reads of a repository, as JSON values: objects never change."""
    shallow = ""
    with suppress(OSError), folder_handle(repository.common) as common:
        shallow = read_below(common, "shallow", MAX_BLOB).decode("latin-1")
    return [repository.object_format, read_refs(repository), _read_origin_head(repository), shallow]


def _read_origin_head(repository: Repository) -> str:
    """The name of the branch that the origin has as its default; "" if that is not known."""
    try:
        with folder_handle(repository.common) as common:
            text = read_below(common, f"{_ORIGIN}HEAD", _MAX_REF).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return text.removeprefix(f"ref: {_ORIGIN}") if text.startswith(f"ref: {_ORIGIN}") else ""


def _split_commits(printed: bytes) -> Iterator[tuple[bytes, list[bytes]]]:
    """The commits that `diff-tree` printed, each with the lines of its patch."""
    oid, patch = b"", list[bytes]()
    n_rest = 0
    for line in printed.split(b"\n"):
        if n_rest and line[:1] in (b"+", b"-"):
            n_rest -= 1
        elif match := _HUNK.match(line):
            n_rest = sum(1 if number is None else int(number) for number in match.groups())
        elif _OID.fullmatch(line):
            if oid:
                yield oid, patch
            oid, patch = line, []
            continue
        patch.append(line)
    if oid:
        yield oid, patch


def _changed_lines(patch: Sequence[bytes], files: set[bytes] | None = None) -> Iterator[tuple[bool, bytes]]:
    """The lines that a patch adds (True) and removes, without whitespace; `files` gets the names of its files."""
    n_rest = 0
    for line in patch:
        if n_rest and line[:1] in (b"+", b"-"):
            n_rest -= 1
            yield line[:1] == b"+", line[1:].translate(None, _SPACES)
        elif match := _HUNK.match(line):
            n_rest = sum(1 if number is None else int(number) for number in match.groups())
        elif files is not None and line.startswith((b"+++ b/", b"--- a/")):
            files.add(line.rstrip(b'\t\r"').rpartition(b"/")[2])
