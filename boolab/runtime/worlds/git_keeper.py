"""`GitKeeper`: the snapshots of one run, as commits in the user's repository."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from boolab.errors import WorldError
from boolab.io.git.command import decode_name
from boolab.io.git.objects import ObjectWriter
from boolab.io.git.refs import locks_in, remove_lock, set_ref
from boolab.io.git.repository import Repository, scratch_git, unusable_error
from boolab.io.git.scratch import HeldError, is_held
from boolab.runtime.worlds.checkout import REFS, commit_text, name_of, note_text, objects_of
from boolab.runtime.worlds.ignored import Ignored, tracked_files
from boolab.runtime.worlds.scan import Kept, Scan, Wanted, refuse

_MAX_NAMES: Final = 10
"""How many of the ignored names the record has."""
_CANCELLED: Final = "cancelled"
_COMMIT: Final = "tree {tree}\n{parent}author {who}\ncommitter {who}\n\nboolab {run}\n\n{note}\n"


class GitKeeper:
    """Makes the snapshots of one run; see `boolab.runtime.worlds.protocol.Keeper`.

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
        WorldError: if the folder is gone, or holds other repositories, or the repository or boolab's state folder
            cannot be written.
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
        self._root, self._repository, self._run_id = root, repository, run_id
        self._is_restored = origin != root
        self._max_bytes = max_bytes
        self._latest = before
        self._note = self._tree = b""
        self._first = True
        self._kept = Kept()
        self._busy, self._cancelled = threading.Lock(), threading.Event()
        self._at_end = ExitStack()
        with undo_on_error(self.close, repository.common):
            folder_id = self._take_folder()
            self._writer = ObjectWriter(repository)
            self._at_end.callback(self._writer.close)
            if before is not None:
                with objects_of(repository) as reader:
                    commit_text(reader, repository, before)
            self._ignored = Ignored(folder_id, repository, origin)
            self._wanted = Wanted.from_names(include, tracked_files(folder_id, repository, origin))
            refuse(root, self._scan(None).repositories)

    def _take_folder(self) -> Path:
        """Take the run's own git directory, and remove the locks of runs whose process was killed."""
        repository = self._repository
        begin = f"{repository.name}."
        try:
            folder_id = self._at_end.enter_context(
                scratch_git(begin + name_of(self._run_id), repository.object_format, exclusive=True)
            )
        except HeldError as error:
            raise WorldError(
                f"the run {self._run_id!r} is being kept already: each run needs an id of its own"
            ) from error
        self._refs = self._at_end.enter_context(repository.open_folder(REFS, make=True))
        for name in locks_in(self._refs):
            if not is_held(begin + name, folder_id.parent) or name == name_of(self._run_id):
                remove_lock(self._refs, name)
        return folder_id

    def snapshot(self) -> Mapping[str, Any]:
        """Keep the files as they are now.

        Returns:
            The `commit`; how many files were `changed` since the snapshot before; those that were `left_out`; at the
            first, how many files and folders are `ignored`; the files of patterns that were `unread`; for a branch,
            its `folder`.

        Raises:
            WorldError: if that failed.
        """
        with self._busy, undo_on_error(lambda: None, self._root, "read"):
            return self._snapshot()

    def cancel(self) -> None:
        """End the snapshot under way."""
        self._cancelled.set()

    def close(self) -> None:
        """Remove the run's own git directory; what was kept stays."""
        with self._busy:
            self._at_end.close()

    def _scan(self, writer: ObjectWriter | None) -> Scan:
        return Scan(self._root, self._ignored, self._wanted, self._max_bytes, self._kept, writer, self._check)

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise WorldError(_CANCELLED)

    def _snapshot(self) -> dict[str, Any]:
        self._check()
        scan = self._scan(self._writer)
        refuse(self._root, scan.repositories)
        self._writer.forget_packs()
        note = note_text(sorted(scan.folders), scan.left_out).encode()
        if self._latest is None or (scan.tree, note) != (self._tree, self._note):
            self._commit(scan.tree, note)
        facts: dict[str, Any] = {"commit": self._latest, "changed": scan.n_changed}
        if self._first:
            ignored = sorted(scan.ignored)
            facts |= {"ignored": len(ignored), "ignored_names": [decode_name(name) for name in ignored[:_MAX_NAMES]]}
        self._tree, self._note, self._kept, self._first = scan.tree, note, scan.kept, False
        if scan.left_out:
            facts["left_out"] = {decode_name(name): reason for name, reason in sorted(scan.left_out.items())}
        if self._ignored.unread_files:
            facts["unread"] = self._ignored.unread_files
        if self._is_restored:
            facts["folder"] = str(self._root)
        return facts

    def _commit(self, tree: bytes, note: bytes) -> None:
        """Add a commit to the run's chain, and point its ref to it."""
        text = _COMMIT.format(
            tree=tree.hex(),
            parent="" if self._latest is None else f"parent {self._latest}\n",
            who=f"boolab <boolab@localhost> {int(time.time())} +0000",
            run=self._run_id.replace("\0", ""),
            note=note.decode(),
        )
        commit = self._writer.put(b"commit", text.encode("utf-8", "backslashreplace")).hex()
        try:
            set_ref(self._refs, name_of(self._run_id), commit)
        except OSError as error:
            raise unusable_error(self._repository.common / REFS / name_of(self._run_id), error) from error
        self._latest = commit


@contextmanager
def undo_on_error(undo: Callable[[], None], folder: Path, action: str = "written") -> Iterator[None]:
    """Undo what was begun if an error follows; one of the file system becomes a `WorldError`."""
    try:
        yield
    except BaseException as error:
        undo()
        if isinstance(error, OSError):
            label = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes | Path) else str(folder)
            raise WorldError(f"{label!r} cannot be {action}: {error.strerror}") from error
        raise
