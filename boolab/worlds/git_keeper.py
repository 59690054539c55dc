"""`GitKeeper`: the snapshots of one run, as commits in the user's repository."""

from __future__ import annotations

import fcntl
import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from boolab.errors import WorldError
from boolab.worlds.git_command import GitFailedError, joined, shown, undone_on_error
from boolab.worlds.git_note import note_text
from boolab.worlds.repository import Repository, name_of, ref_of
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

_ATTEMPTS: Final = 3
"""How often a snapshot is tried: files may vanish while git reads them, if another process works in the folder."""
_SHOWN: Final = 10
"""How many of the ignored names the record has."""


class GitKeeper:
    """Makes the snapshots of one run; see `boolab.worlds.protocol.Keeper`.

    Args:
        root: The folder whose files are kept.
        repository: Where they are kept.
        run_id: The run.
        before: The commit that it continues from; None at a beginning.
        origin: The folder in the user's working tree, whose patterns of what is ignored hold: another one than `root`
            where that was restored.
        include: Ignored files and folders that are kept all the same.
        max_bytes: The largest file that is kept.

    Raises:
        WorldError: if the folder is gone, or holds other repositories, or git cannot write.
    """

    def __init__(
        self,
        root: Path,
        repository: Repository,
        run_id: str,
        before: str | None,
        *,
        origin: Path,
        include: Sequence[bytes],
        max_bytes: int,
    ) -> None:
        if not root.is_dir():
            raise WorldError(f"the folder {str(root)!r} is gone")
        self._root, self._repository = root, repository
        self._run_id, self._ref = run_id, ref_of(run_id)
        self._is_restored = origin != root
        self._max_bytes = max_bytes
        self._latest = before
        self._note = ""
        self._tree = ""
        self._first = True
        self._folders: set[bytes] = set()
        self._busy = threading.Lock()
        repository.prepare()
        self._own = repository.own / "runs" / name_of(run_id)
        self._lock: IO[bytes] | None = None
        with undone_on_error(self.close, self._own):
            self._take_folder()
            (self._own / "excludes").write_bytes(repository.excludes(origin))
            self._git = repository.git_in(root, self._own / "index", self._own / "excludes")
            self._include = [*include, *repository.tracked_and_ignored(origin)]
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
        found = scan(git, root, self._include, self._max_bytes)
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
        note = note_text(folders, found.left_out)
        tree = git("write-tree").decode().strip()
        if self._latest is None or (tree, note) != (self._tree, self._note):
            self._commit(tree, note)
        self._tree, self._note, self._first = tree, note, False
        facts = {"commit": self._latest, "changed": len(found.changed), **facts}
        if found.left_out:
            facts["left_out"] = {shown(name): why for name, why in sorted(found.left_out.items())}
        if self._is_restored:
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


def _is_among(name: bytes, include: Iterable[bytes]) -> bool:
    return any(name.rstrip(b"/") == one.rstrip(b"/") for one in include)
