"""The repository that holds what is kept, and the git directory of boolab's own in it.

Objects go to the repository's objects, and one ref for each run, below `refs/boolab/`, keeps them from garbage
collection. All else is in `boolab/` in the repository's git directory: a git directory with settings of its own, so
that neither the user's index, HEAD and hooks are used, nor settings or attributes change a byte of a file.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from boolab.errors import SettingError, WorldError
from boolab.worlds.git_command import Git, GitFailedError, bare_environment, find_git, joined, names, users_environment
from boolab.worlds.ignored import pattern_files, patterns_for, read

REFS: Final = "refs/boolab/"
_OLDEST: Final = (2, 31)
_ATTRIBUTES: Final = b"* -text -filter -ident -working-tree-encoding\n"
_CONFIG: Final = """[core]
\trepositoryFormatVersion = {version}
\tbare = false
\tfileMode = true
\tsymlinks = true
\tignoreCase = false
\tprecomposeUnicode = false
\tprotectNTFS = false
\tprotectHFS = false
\tautocrlf = false
\tsafecrlf = false
\thooksPath = {nothing}
\tattributesFile = {nothing}
\tlogAllRefUpdates = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
"""
_HEAD: Final = b"ref: refs/heads/none\n"
_NO_HOOKS: Final = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.logAllRefUpdates=false")
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


class Repository(NamedTuple):
    """Where a folder's files are kept.

    Attributes:
        git: The path of git.
        top: The top of the working tree that the folder is in.
        common: The repository's git directory; that of the main working tree, for a linked one.
        objects: Its objects.
        object_format: How they are named.
        own: boolab's git directory in it.
    """

    git: str
    top: Path
    common: Path
    objects: Path
    object_format: str
    own: Path

    def prepare(self) -> None:
        """Make boolab's git directory, if it is not there.

        Raises:
            WorldError: if that is not possible.
        """
        sha256 = self.object_format != "sha1"
        config = _CONFIG.format(version=int(sha256), nothing=os.devnull)
        if sha256:
            config += f"[extensions]\n\tobjectFormat = {self.object_format}\n"
        files = {"config": config.encode(), "info/attributes": _ATTRIBUTES, "info/exclude": b"", "HEAD": _HEAD}
        try:
            for folder in ("info", "refs", "runs"):
                (self.own / folder).mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                _write(self.own / name, content)
        except OSError as error:
            msg = f"{str(self.own)!r} cannot be written ({error.strerror}): a run can only be kept where git can write"
            raise WorldError(msg) from error

    def git_in(self, root: Path, index: Path, excludes: Path) -> Git:
        """Git with an index and settings of boolab's own, for the files of a folder.

        Args:
            root: The folder.
            index: The index.
            excludes: Patterns of what is ignored.
        """
        variables = {
            "GIT_DIR": str(self.own),
            "GIT_WORK_TREE": str(root),
            "GIT_OBJECT_DIRECTORY": str(self.objects),
            "GIT_INDEX_FILE": str(index),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.excludesFile",
            "GIT_CONFIG_VALUE_0": str(excludes),
            "GIT_AUTHOR_NAME": "boolab",
            "GIT_AUTHOR_EMAIL": "boolab@localhost",
            "GIT_COMMITTER_NAME": "boolab",
            "GIT_COMMITTER_EMAIL": "boolab@localhost",
        }
        return Git(self.git, root, bare_environment(self.own) | variables)

    def set_ref(self, git: Git, ref: str, commit: str) -> None:
        """Point a run's ref to its latest commit, without hooks and without a log.

        Args:
            git: What runs the command.
            ref: The ref.
            commit: The commit.
        """
        git(*_NO_HOOKS, "update-ref", ref, commit, variables={"GIT_DIR": str(self.common)})

    def refs(self) -> list[str]:
        """The refs of all kept runs."""
        printed = self._plain()("for-each-ref", "--format=%(refname)", REFS)
        return printed.decode().splitlines()

    def delete(self, refs: Sequence[str]) -> None:
        """Delete refs, all or none.

        Raises:
            WorldError: if git refused to.
        """
        orders = joined([part.encode() for ref in refs for part in (f"delete {ref}", "")])
        self._plain()(*_NO_HOOKS, "update-ref", "--no-deref", "-z", "--stdin", given=orders)

    def excludes(self, root: Path) -> bytes:
        """The patterns of what the user's git ignores in a folder, but for the `.gitignore` files in there."""
        own = Git(self.git, root, users_environment())
        with suppress(GitFailedError):
            everywhere = own("config", "--type=path", "--get", "core.excludesFile").removesuffix(b"\n")
            general = Path(os.fsdecode(everywhere))
            return self._excludes(root, general)
        config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
        return self._excludes(root, config / "git/ignore")

    def _excludes(self, root: Path, general: Path) -> bytes:
        folder = root.relative_to(self.top).parts
        sources = [(0, read(general)), (0, read(self.common / "info/exclude")), *pattern_files(self.top, folder)]
        return patterns_for(folder, sources)

    def tracked_and_ignored(self, root: Path) -> list[bytes]:
        """The files in a folder that the user's git tracks although they match a pattern of what is ignored."""
        own = Git(self.git, root, users_environment())
        return names(own("ls-files", "-z", "-c", "-i", "--exclude-standard"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock under which folders of runs are made and removed."""
        with (self.own / "lock").open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def remove_leftovers(self) -> None:
        """Remove what runs left behind whose process was killed. Call it under `locked`."""
        for folder in (self.own / "runs").iterdir():
            try:
                with (folder / "lock").open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # it runs
            except OSError:
                pass
            shutil.rmtree(folder, ignore_errors=True)
            (self.common / f"{REFS}{folder.name}.lock").unlink(missing_ok=True)

    def _plain(self) -> Git:
        return Git(self.git, self.common, bare_environment(self.own) | {"GIT_DIR": str(self.common)})


def repository_of(root: Path) -> Repository:
    """The repository that a folder is in.

    Args:
        root: The folder.

    Raises:
        SettingError: if there is no git, the folder is in no repository, or in a bare one.
    """
    path = find_git()
    git = Git(path, root, users_environment())
    version = re.search(rb"(\d+)\.(\d+)", git("version"))
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        msg = f"GitWorld: git 2.31 or newer is needed; {path} is {git('version').decode(errors='replace').strip()}"
        raise SettingError(msg)
    try:
        inside = git("rev-parse", "--is-inside-work-tree").strip() == b"true"
    except WorldError as error:
        msg = f"GitWorld: root={str(root)!r} cannot be kept ({error}): run `git init` there, or choose another folder"
        raise SettingError(msg) from error
    if not inside:
        msg = (
            f"GitWorld: root={str(root)!r} is in a bare repository, or in a git directory: choose a folder of a "
            "working tree (`git worktree add FOLDER` makes one)"
        )
        raise SettingError(msg)

    def asked(*what: str) -> str:
        return os.fsdecode(git("rev-parse", "--path-format=absolute", *what).removesuffix(b"\n"))

    common = Path(asked("--git-common-dir"))
    return Repository(
        path,
        Path(asked("--show-toplevel")),
        common,
        Path(asked("--git-path", "objects")),
        asked("--show-object-format"),
        common / "boolab",
    )


def ref_of(run_id: str) -> str:
    """The ref that keeps a run.

    Example:
        >>> ref_of("a1b2")
        'refs/boolab/a1b2'
    """
    return REFS + name_of(run_id)


def name_of(run_id: str) -> str:
    """The id of a run as the name of a file: itself, or a digest if it has other characters."""
    return run_id if _SAFE_NAME.fullmatch(run_id) else blake2b(os.fsencode(run_id), digest_size=16).hexdigest()


def _write(file: Path, content: bytes) -> None:
    """Write a file that another process may be writing or reading, if it does not hold that already."""
    if read(file) == content and file.exists():
        return
    fresh = file.with_name(f"{file.name}.{os.getpid()}.{os.urandom(4).hex()}")
    fresh.write_bytes(content)
    fresh.replace(file)
