"""`GitWorld`: the files of a folder, kept after each step in the git repository that the folder is in."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from boolab.core.types import Run
from boolab.errors import SettingError, WorldError
from boolab.worlds.git_command import GitFailedError, joined, shown
from boolab.worlds.repository import REFS, name_of, ref_of, repository_of
from boolab.worlds.scan import (
    all_folders,
    bare_folders,
    existing,
    force_removed,
    ignored_names,
    nested,
    parents,
    refuse,
    repositories_in,
    scan,
)

_MIB: Final = 2**20
_ATTEMPTS: Final = 3
"""How often a snapshot is tried: files may vanish while git reads them, if another process works in the folder."""
_SHOWN: Final = 10
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class GitWorld:
    """The files of a folder, kept in the git repository that it is in.

    `run(..., world=GitWorld(root))` keeps the folder's files before the first step and after each step with tool calls;
    `branch(run, step, world=GitWorld(root), ...)` begins with the files as they were after that step, in a folder of
    its own. The tools work in the folder: it is the run's `root`, and `ToolContext.root`.

    What is kept is byte for byte what is in the files, with the executable bit, symbolic links and empty folders. Other
    permissions, times, pipes and sockets are not kept. The user's index, branches, HEAD, settings, hooks and files stay
    as they are. Each run has one ref, `refs/boolab/<run_id>`; `forget` removes it.

    Args:
        root: The folder: the top of a working tree, or a folder below it, which is then kept alone.
        into: Where `branch` puts the files: a folder that is not there, or is empty. By default a new temporary one.
        include: Ignored files and folders, relative to `root`, that are kept all the same, such as `("build/",)`.
        max_file_mb: The largest file that is kept, in MiB. Larger ones are listed in the record.

    Raises:
        SettingError: if there is no git, `root` is in no working tree of a repository, or a value is not accepted.

    Example:
        >>> import boolab as bl
        >>> bl.GitWorld("no such folder")
        Traceback (most recent call last):
        boolab.errors.SettingError: GitWorld: root='no such folder' is not a folder
    """

    def __init__(
        self,
        root: str | Path,
        *,
        into: str | Path | None = None,
        include: Sequence[str] = (),
        max_file_mb: float = 50,
    ) -> None:
        if isinstance(max_file_mb, bool) or not isinstance(max_file_mb, int | float) or not 0 < max_file_mb <= 2**20:
            msg = f"GitWorld: max_file_mb={max_file_mb!r}: expected MiB, more than 0"
            raise SettingError(msg)
        self._root = Path(root).expanduser().resolve()
        if not self._root.is_dir():
            msg = f"GitWorld: root={str(root)!r} is not a folder"
            raise SettingError(msg)
        self._include = tuple(_inside(name) for name in _listed(include))
        self._max_bytes = int(max_file_mb * _MIB)
        self._repository = repository_of(self._root)
        self._into = None if into is None else self._free(Path(into).expanduser().resolve(), into)
        self._source: GitWorld | None = None
        self._incomplete = ""

    def __repr__(self) -> str:
        return f"GitWorld({str(self._root)!r})"

    @property
    def root(self) -> Path:
        """The folder."""
        return self._root

    @property
    def into(self) -> Path | None:
        """Where `branch` puts the files; None for a new temporary folder each time."""
        return self._into

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """What distinguishes it from others: see `boolab.sweeps.fingerprints`."""
        return str(self._root), self._include, self._max_bytes

    @property
    def incomplete(self) -> str:
        """What is missing in a folder that was restored, and what to do; "" for nothing."""
        return self._incomplete

    def keep(self, run_id: str, before: Mapping[str, Any] | None) -> GitKeeper:
        """Begin to keep the files of a run; the engine calls this.

        Args:
            run_id: The run.
            before: What its record holds of the files that it continues from.

        Returns:
            What makes the snapshots.

        Raises:
            WorldError: if the folder is gone, or holds other repositories, or git cannot write.
        """
        return GitKeeper(self, run_id, None if before is None else _commit_of(before))

    def restored(self, kept: Mapping[str, Any], folder: Path | None = None) -> GitWorld:
        """Check out the files that were kept after a step, into a folder of their own; `branch` calls this.

        Args:
            kept: The payload of the event `world` of that step.
            folder: An empty folder for them; by default `into`, or a new temporary one.

        Returns:
            A world whose `root` is that folder.

        Raises:
            SettingError: if `into` is no longer empty.
            WorldError: if the files are no longer there, or cannot be written.
        """
        commit = _commit_of(kept)
        if commit is None:
            msg = "the event names no commit: it is not one of a GitWorld"
            raise WorldError(msg)
        self._repository.prepare()
        world = GitWorld.__new__(GitWorld)
        vars(world).update(vars(self))
        world._source, world._into = self, None  # noqa: SLF001 - it is one of this class
        if folder is None and self._into is not None:
            self._free(self._into, str(self._into))  # another branch may have filled it since
        made = folder or self._into or Path(tempfile.mkdtemp(prefix="boolab-world-")).resolve()
        world._root = made  # noqa: SLF001
        with _undone_on_error(world.discard, made):
            made.mkdir(parents=True, exist_ok=True)
            world._incomplete = self._check_out(commit, made)  # noqa: SLF001
        return world

    def discard(self) -> None:
        """Remove the folder that `restored` made; the folder of any other world stays."""
        if self._source is not None:
            shutil.rmtree(self._root, ignore_errors=True)

    @staticmethod
    def folder_of(run: Run) -> Path | None:
        """The folder that a branch worked in.

        Args:
            run: The branch.

        Returns:
            Its folder, whether it still exists or not; None for a run that worked in the user's own.

        Example:
            >>> import boolab as bl
            >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
            >>> bl.GitWorld.folder_of(run) is None
            True
        """
        folder = None
        for _, kind, facts in run.events:
            if kind == "branch":
                folder = None  # what is before it belongs to the run that it continues
            elif kind == "world":
                folder = facts.get("folder")
        return Path(folder) if isinstance(folder, str) else None

    def kept(self) -> list[str]:
        """The ids of the runs that are kept in the repository, in order."""
        return [ref.removeprefix(REFS) for ref in self._repository.refs()]

    def forget(self, *runs: Run | str) -> list[str]:
        """Remove what is kept of runs: their refs. Git frees the space at its next garbage collection (`git gc`).

        A branch keeps what it continued from, until it is forgotten itself.

        Args:
            runs: Runs, or their ids.

        Returns:
            The ids of those that were kept until now.

        Raises:
            WorldError: if git could not remove them; none is removed then.
        """
        asked = [name_of(run.run_id if isinstance(run, Run) else run) for run in runs]
        known = set(self.kept())
        found = [name for name in dict.fromkeys(asked) if name in known]
        if found:
            self._repository.delete([REFS + name for name in found])
        return found

    def _check_out(self, commit: str, folder: Path) -> str:
        """Write the files of a commit into an empty folder, and say what of the state is missing."""
        with tempfile.TemporaryDirectory(prefix="boolab-index-") as own:
            git = self._repository.git_in(folder, Path(own) / "index", Path(own) / "excludes")
            try:
                git("cat-file", "-e", f"{commit}^{{commit}}")
            except GitFailedError as error:
                msg = (
                    f"the commit {commit} is not in {str(self._repository.common)!r}: it was forgotten, or the run was "
                    "kept in another repository"
                )
                raise WorldError(msg) from error
            note = _note_of(git("cat-file", "commit", commit))
            git("read-tree", commit)
            git("checkout-index", "--all", "--quiet")
        for name in note.get("folders", ()):
            _make_folder(folder, name)
        left_out = note.get("left_out", {})
        if not left_out:
            return ""
        listed = ", ".join(f"{_readable(name)} ({why})" for name, why in list(left_out.items())[:_SHOWN])
        more = f" and {len(left_out) - _SHOWN} more" if len(left_out) > _SHOWN else ""
        return f"{listed}{more} was not kept, and is missing in {folder}: max_file_mb= sets the largest file"

    def _free(self, folder: Path, given: object) -> Path:
        """A folder for a branch, if it may be used."""
        if folder.is_relative_to(self._root) or self._root.is_relative_to(folder):
            msg = f"GitWorld: into={str(given)!r} and root overlap: choose a folder beside {str(self._root)!r}"
            raise SettingError(msg)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            msg = f"GitWorld: into={str(given)!r} is not empty: name a new folder, or remove it"
            raise SettingError(msg)
        return folder


class GitKeeper:
    """Makes the snapshots of one run; see `boolab.worlds.protocol.Keeper`."""

    def __init__(self, world: GitWorld, run_id: str, before: str | None) -> None:
        self._world = world
        self._root = root = world.root
        self._repository = repository = world._repository  # noqa: SLF001 - a world and its keepers are one thing
        self._run_id, self._ref = run_id, ref_of(run_id)
        self._latest = before
        self._note = ""
        self._tree = ""
        self._first = True
        self._folders: set[bytes] = set()
        self._busy = threading.Lock()
        origin = world if world._source is None else world._source  # noqa: SLF001
        if not root.is_dir():
            raise WorldError(f"the folder {str(root)!r} is gone")
        repository.prepare()
        self._own = repository.own / "runs" / name_of(run_id)
        self._lock: IO[bytes] | None = None
        with _undone_on_error(self.close, self._own):
            self._take_folder()
            (self._own / "excludes").write_bytes(repository.excludes(origin.root))
            self._git = repository.git_in(root, self._own / "index", self._own / "excludes")
            tracked = repository.tracked_and_ignored(origin.root)
            self._include = [*world._include, *tracked]  # noqa: SLF001
            refuse(root, repositories_in(self._git))

    def _take_folder(self) -> None:
        """Make the run's own folder, with a lock that ends with this process, and remove those of dead ones."""
        with self._repository.locked():
            self._repository.remove_leftovers()
            self._own.mkdir(parents=True, exist_ok=True)
            lock = (self._own / "lock").open("wb")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                lock.close()
                raise WorldError(
                    f"the run {self._run_id!r} is being kept already: each run needs an id of its own"
                ) from error
            self._lock = lock

    def snapshot(self) -> Mapping[str, Any]:
        """Keep the files as they are now.

        Returns:
            The `commit`; how many files were `changed` since the snapshot before; those that were `left_out`; at the
            first, how many files and folders are `ignored`; for a branch, its `folder`.

        Raises:
            WorldError: if that failed.
        """
        with self._busy:
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    return self._snapshot()
                except GitFailedError as error:
                    if not self._root.is_dir():
                        raise WorldError(f"the folder {str(self._root)!r} is gone") from error
                    if attempt == _ATTEMPTS:
                        raise
            raise AssertionError

    def cancel(self) -> None:
        """Kill the git command under way."""
        self._git.cancel()

    def close(self) -> None:
        """Remove the index of the run; what was kept stays."""
        with self._busy:
            if self._lock is not None:
                shutil.rmtree(self._own, ignore_errors=True)
                self._lock.close()
                self._lock = None

    def _snapshot(self) -> dict[str, Any]:
        git, root = self._git, self._root
        (self._own / "index.lock").unlink(missing_ok=True)  # of a command that failed
        if not root.is_dir():
            raise WorldError(f"the folder {str(root)!r} is gone")
        refuse(root, nested(root, self._folders))
        found = scan(git, root, self._include, self._world._max_bytes)  # noqa: SLF001
        facts: dict[str, Any] = {}
        if self._first:
            ignored = [name for name in ignored_names(git) if not _is_among(name, self._include)]
            facts |= {"ignored": len(ignored), "ignored_names": [shown(name) for name in ignored[:_SHOWN]]}
        force_removed(git, list(found.left_out))
        bare = found.bare_folders
        if found.changed:
            self._add(list(found.left_out))
            self._folders |= parents(found.changed)
            if found.new_folders:
                bare = bare_folders(git)
        folders = all_folders(git, root, bare)
        note = _note(folders, found.left_out)
        tree = git("write-tree").decode().strip()
        if self._latest is None or (tree, note) != (self._tree, self._note):
            self._commit(tree, note)
        self._tree, self._note, self._first = tree, note, False
        facts = {"commit": self._latest, "changed": len(found.changed), **facts}
        if found.left_out:
            facts["left_out"] = {shown(name): why for name, why in sorted(found.left_out.items())}
        if self._world._source is not None:  # noqa: SLF001
            facts["folder"] = str(root)
        return facts

    def _add(self, left_out: list[bytes]) -> None:
        """Put all changes into the index: what is new, changed or gone, but for what is left out."""
        excluded = [b":(exclude,literal)" + name for name in left_out]
        paths = ("--pathspec-from-file=-", "--pathspec-file-nul")
        self._git("add", "--all", *paths, given=joined([b".", *excluded]))
        wanted = existing(self._root, self._include)
        if wanted:
            literal = [b":(literal)" + name for name in wanted]
            self._git("add", "--all", "--force", *paths, given=joined([*literal, *excluded]))

    def _commit(self, tree: str, note: str) -> None:
        """Add a commit to the run's chain, and point its ref to it."""
        after = () if self._latest is None else ("-p", self._latest)
        text = f"boolab {self._run_id}\n\n{note}\n".encode("utf-8", "backslashreplace")
        commit = self._git("commit-tree", tree, *after, given=text).decode().strip()
        self._repository.set_ref(self._git, self._ref, commit)
        self._latest = commit


@contextmanager
def _undone_on_error(undo: Callable[[], None], place: Path) -> Iterator[None]:
    """Undo what was begun if an error follows; one of the file system becomes a `WorldError`."""
    try:
        yield
    except BaseException as error:
        undo()
        if isinstance(error, OSError):
            raise WorldError(f"{str(place)!r} cannot be written: {error.strerror}") from error
        raise


def _note(folders: Iterable[bytes], left_out: Mapping[bytes, str]) -> str:
    """What a tree does not hold of a state, for the text of its commit: JSON, of ASCII alone."""
    listed = {os.fsdecode(name): why for name, why in sorted(left_out.items())}
    return json.dumps({"folders": [os.fsdecode(name) for name in folders], "left_out": listed})


def _note_of(commit: bytes) -> dict[str, Any]:
    """The note in a commit; empty if the commit has none."""
    with suppress(ValueError):
        note = json.loads(commit.rstrip().rsplit(b"\n", 1)[-1])
        folders, left_out = note["folders"], note["left_out"]
        if isinstance(folders, list) and isinstance(left_out, dict) and all(isinstance(name, str) for name in folders):
            return {"folders": folders, "left_out": left_out}
    return {}


def _commit_of(payload: Mapping[str, Any]) -> str | None:
    """The commit in what a record holds; a recording is untrusted input."""
    commit = payload.get("commit")
    return commit if isinstance(commit, str) and _COMMIT.fullmatch(commit) else None


def _make_folder(root: Path, name: str) -> None:
    """Make an empty folder below `root`, and never through a link."""
    place = root
    for part in Path(name).parts:
        place = place / part
        if part in ("..", ".git") or place.is_symlink() or place == Path(part):
            return
        if not place.is_dir():
            place.mkdir()


def _is_among(name: bytes, include: Iterable[bytes]) -> bool:
    return any(name.rstrip(b"/") == one.rstrip(b"/") for one in include)


def _readable(name: str) -> str:
    return shown(os.fsencode(name))


def _listed(include: object) -> Sequence[str]:
    if isinstance(include, str) or not isinstance(include, Sequence):
        msg = f"GitWorld: include={include!r}: expected a list of files and folders, such as ('build/',)"
        raise SettingError(msg)
    return include


def _inside(name: object) -> bytes:
    if not isinstance(name, str) or not name or "\0" in name or Path(name).is_absolute():
        msg = f"GitWorld: include: {name!r}: expected a path relative to root"
        raise SettingError(msg)
    parts = Path(name).parts
    if not parts or ".." in parts or ".git" in parts:
        msg = f"GitWorld: include: {name!r}: expected a path below root, without '..' and '.git'"
        raise SettingError(msg)
    return os.fsencode("/".join(parts))
