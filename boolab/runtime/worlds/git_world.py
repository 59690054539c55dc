"""`GitWorld`: the files of a folder, kept after each step in the git repository that the folder is in."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from boolab.core.run import Run
from boolab.core.text import first_of
from boolab.errors import SettingError, WorldError
from boolab.io.files import user_path
from boolab.io.git.command import decode_name
from boolab.io.git.refs import delete_refs, read_refs
from boolab.io.git.repository import find_repository
from boolab.io.state import state_folder
from boolab.runtime.worlds.checkout import REFS, check_out, name_of
from boolab.runtime.worlds.git_keeper import GitKeeper, undo_on_error

_MIB: Final = 2**20
_MAX_NAMES: Final = 10
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
        self._root = user_path(root).resolve()
        if not self._root.is_dir():
            msg = f"GitWorld: root={str(root)!r} is not a folder"
            raise SettingError(msg)
        self._include = tuple(_encode_name(name) for name in _check_include(include))
        self._max_bytes = int(max_file_mb * _MIB)
        if Path(state_folder()).resolve().is_relative_to(self._root):
            msg = (
                f"GitWorld: root={str(root)!r} holds boolab's state folder {state_folder()!r}, where an agent must not "
                "write: set XDG_STATE_HOME to a folder elsewhere, or choose another root"
            )
            raise SettingError(msg)
        self._repository = find_repository(self._root)
        self._branch_folder = None if into is None else self._check_folder(user_path(into).resolve(), into)
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
        return self._branch_folder

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
        return GitKeeper(
            self._root,
            self._repository,
            run_id,
            None if before is None else _commit_of(before),
            origin=self._root if self._source is None else self._source.root,
            include=self._include,
            max_bytes=self._max_bytes,
        )

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
        world = GitWorld.__new__(GitWorld)
        vars(world).update(vars(self))
        world._source, world._branch_folder = self, None  # noqa: SLF001 - it is one of this class
        if folder is None and self._branch_folder is not None:
            self._check_folder(self._branch_folder, str(self._branch_folder))  # another branch may have filled it since
        target = folder or self._branch_folder or Path(tempfile.mkdtemp(prefix="boolab-world-")).resolve()
        world._root = target  # noqa: SLF001
        with undo_on_error(world.discard, target):
            target.mkdir(parents=True, exist_ok=True)
            world._incomplete = self._check_out(commit, target)  # noqa: SLF001
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
        return [ref.removeprefix(f"{REFS}/") for ref in read_refs(self._repository, REFS)]

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
        requested = [name_of(run.run_id if isinstance(run, Run) else run) for run in runs]
        names = set(self.kept())
        refs = [name for name in dict.fromkeys(requested) if name in names]
        if refs:
            delete_refs(self._repository, REFS, refs)
        return refs

    def _check_out(self, commit: str, folder: Path) -> str:
        """Write the files of a commit into an empty folder, and describe what of the state is missing."""
        left_out = check_out(self._repository, commit, folder).get("left_out", {})
        if not left_out:
            return ""
        names = first_of(
            [f"{decode_name(os.fsencode(name))} ({reason})" for name, reason in left_out.items()], _MAX_NAMES
        )
        return f"{names} was not kept, and is missing in {folder}: max_file_mb= sets the largest file"

    def _check_folder(self, folder: Path, path: object) -> Path:
        """A folder for a branch, if it may be used."""
        if folder.is_relative_to(self._root) or self._root.is_relative_to(folder):
            msg = f"GitWorld: into={str(path)!r} and root overlap: choose a folder beside {str(self._root)!r}"
            raise SettingError(msg)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            msg = f"GitWorld: into={str(path)!r} is not empty: name a new folder, or remove it"
            raise SettingError(msg)
        return folder


def _commit_of(payload: Mapping[str, Any]) -> str | None:
    """The commit in what a record holds; a recording is untrusted input."""
    commit = payload.get("commit")
    return commit if isinstance(commit, str) and _COMMIT.fullmatch(commit) else None


def _check_include(include: object) -> Sequence[str]:
    if isinstance(include, str) or not isinstance(include, Sequence):
        msg = f"GitWorld: include={include!r}: expected a list of files and folders, such as ('build/',)"
        raise SettingError(msg)
    return include


def _encode_name(name: object) -> bytes:
    if not isinstance(name, str) or not name or "\0" in name or Path(name).is_absolute():
        msg = f"GitWorld: include: {name!r}: expected a path relative to root"
        raise SettingError(msg)
    parts = Path(name).parts
    if not parts or ".." in parts or ".git" in parts:
        msg = f"GitWorld: include: {name!r}: expected a path below root, without '..' and '.git'"
        raise SettingError(msg)
    return os.fsencode("/".join(parts))
