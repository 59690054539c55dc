"""Which repository a folder is in, and what of it is read: without git, through no link, up to a size.

A working tree has its git directory in `.git`, or names it there: in a file that anyone can write. So a git directory
elsewhere counts only if it names this working tree in turn, as those of linked worktrees and of submodules do.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from boolab.errors import SettingError, WorldError
from boolab.io.files import read_file
from boolab.io.folders import folder_handle, read_below
from boolab.io.git.command import Git, find_git, users_settings
from boolab.io.git.scratch import remove_leftovers, scratch_folder
from boolab.io.state import private_state_folder, state_folder

MAX_SETTINGS: Final = 2**20
"""The largest file of settings that is read, in bytes."""
_MAX_POINTER: Final = 2**14
_OLDEST: Final = (2, 31)
_CONFIG: Final = """[core]
\trepositoryFormatVersion = {version}
\tbare = false
\tlogAllRefUpdates = false
"""
_HEAD: Final = "ref: refs/heads/none\n"
"""A branch that does not exist: git takes a folder without HEAD for no repository."""


class Repository(NamedTuple):
    """A repository."""

    top: Path  # the top of the working tree
    git_dir: Path  # the git directory of this working tree: HEAD and the index are in it
    common: Path  # that of the repository: objects and refs are in it. For a linked worktree it is another one
    object_format: str  # how objects are named: "sha1" or "sha256"
    excludes_file: str  # the file of patterns that its settings name for what is ignored; "" for none
    remotes: tuple[str, ...] = ()  # the addresses of its remotes

    @property
    def name(self) -> str:
        """The name of its folders in boolab's state folder: the same for the same path, and for no other."""
        digest = blake2b(os.fsencode(self.common), digest_size=8).hexdigest()
        return re.sub(r"[^A-Za-z0-9_]", "_", self.top.name)[:32] + "." + digest

    @contextmanager
    def open_folder(self, path: str = "", *, make: bool = False) -> Iterator[int]:
        """A folder of the common git directory, open."""
        try:
            with folder_handle(self.common) as top, folder_handle(path, top, make=make) as folder:
                handle = os.dup(folder)
        except OSError as error:
            raise unusable_error(self.common / path, error) from error
        try:
            yield handle
        finally:
            os.close(handle)


def unusable_error(path: Path, error: OSError) -> WorldError:
    """The error for a part of a repository that is not as git makes it, or cannot be written."""
    if isinstance(error, NotADirectoryError):
        return WorldError(f"{str(path)!r} is a link or no folder, so boolab stays out of it: put a folder there")
    return WorldError(f"{str(path)!r} cannot be used: {error.strerror}")


def find_repository(folder: Path) -> Repository:
    """The repository that a folder is in, whose path has no links."""
    check_git()
    for top in (folder, *folder.parents):
        if _is_git_dir(top):
            msg = (
                f"GitWorld: root={str(folder)!r} is in a bare repository, or in a git directory: choose a folder of a "
                "working tree (`git worktree add FOLDER` makes one)"
            )
            raise SettingError(msg)
        try:
            status = (top / ".git").lstat()
        except OSError:
            continue
        try:
            if stat.S_ISLNK(status.st_mode):
                raise _repository_error(top, "is a link: put the folder itself there")
            if stat.S_ISREG(status.st_mode):
                return _read_linked(top)
            if _is_git_dir(top / ".git"):
                return _repository(top, top / ".git", top / ".git")
        except WorldError as error:
            msg = f"GitWorld: root={str(folder)!r} cannot be kept: {error}"
            raise SettingError(msg) from error
    msg = (
        f"GitWorld: root={str(folder)!r} cannot be kept (not a git repository): run `git init` there, or choose "
        "another folder"
    )
    raise SettingError(msg)


@contextmanager
def scratch_git(name: str, object_format: str = "sha1", *, exclusive: bool = False) -> Iterator[Path]:
    """A new, empty git directory of boolab's own, in the state folder, until the block ends."""
    parent = scratch_place()
    remove_leftovers(parent=parent)
    with scratch_folder(name, parent, exclusive=exclusive) as folder:
        make_git_dir(folder, object_format)
        yield folder


def scratch_place() -> Path:
    """The folder that git directories of boolab's own are made in."""
    try:
        return Path(private_state_folder("git"))
    except OSError as error:
        path = error.filename or state_folder("git")
        msg = f"boolab's state folder {str(path)!r} cannot be used: {error.strerror}. XDG_STATE_HOME names another one"
        raise WorldError(msg) from error


def make_git_dir(folder: Path, object_format: str) -> None:
    """Make a folder an empty git directory."""
    config = _CONFIG.format(version=0 if object_format == "sha1" else 1)
    if object_format != "sha1":
        config += f"[extensions]\n\tobjectFormat = {object_format}\n"
    for name in ("objects/pack", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "config").write_text(config)
    (folder / "HEAD").write_text(_HEAD)


def check_git() -> None:
    """Raise `SettingError` if there is no git, or an old one."""
    with scratch_git_for_settings() as git:
        printed = git("version")
    version = re.search(rb"(\d+)\.(\d+)", printed)
    if version is None or (int(version[1]), int(version[2])) < _OLDEST:
        msg = f"GitWorld: git 2.31 or newer is needed; {find_git()} is {printed.decode(errors='replace').strip()}"
        raise SettingError(msg)


@contextmanager
def scratch_git_for_settings() -> Iterator[Git]:
    """Git in an empty git directory, to read files of settings."""
    try:
        with scratch_git("settings") as folder:
            yield Git(folder)
    except WorldError as error:
        raise SettingError(f"GitWorld: {error}") from error


def _is_git_dir(path: Path) -> bool:
    """Whether a folder has what a git directory has, by name."""
    return all(os.path.lexists(path / name) for name in ("HEAD", "objects", "refs"))


def _repository_error(top: Path, reason: str) -> WorldError:
    return WorldError(f"{str(top / '.git')!r} {reason}")


def _read_linked(top: Path) -> Repository:
    """The repository of a working tree whose `.git` is a file."""
    pointer = _pointer(top, ".git")
    if not pointer.startswith("gitdir: "):
        raise _repository_error(top, "is a file that names no git directory")
    git_dir = Path(os.path.realpath(top / pointer.removeprefix("gitdir: ")))
    if not git_dir.is_dir():
        raise _repository_error(top, f"names {str(git_dir)!r}, which is gone: `git worktree repair` may help")
    if not os.path.lexists(git_dir / "commondir"):
        if not _is_git_dir(git_dir):
            raise _repository_error(top, f"names {str(git_dir)!r}, which is no git directory")
        target = _settings(git_dir).get("core.worktree", "")
        if not target or Path(os.path.realpath(git_dir / target)) != top:
            raise _repository_error(
                top,
                f"names {str(git_dir)!r}, whose settings do not name this folder in turn: if both are yours, "
                f"`git config core.worktree {top}` in there",
            )
        return _repository(top, git_dir, git_dir)
    common = Path(os.path.realpath(git_dir / _pointer(git_dir, "commondir")))
    target = os.path.realpath(git_dir / _pointer(git_dir, "gitdir"))
    if git_dir.parent != common / "worktrees" or Path(target) != top / ".git":
        raise _repository_error(
            top, f"names {str(git_dir)!r}, which does not name this folder in turn: `git worktree repair` may help"
        )
    return _repository(top, git_dir, common)


def _pointer(folder: Path, name: str) -> str:
    """The line of a file that names another folder."""
    try:
        with folder_handle(folder) as handle:
            return os.fsdecode(read_file(name, _MAX_POINTER, dir_fd=handle).rstrip(b"\r\n"))
    except OSError as error:
        raise WorldError(f"{str(folder / name)!r} cannot be read: {error.strerror}") from error


def _repository(top: Path, git_dir: Path, common: Path) -> Repository:
    for name in ("objects", "refs"):
        if (common / name).is_symlink():
            raise unusable_error(common / name, NotADirectoryError())
    _check_owner(top, common)
    settings = _settings(common)
    if settings.get("extensions.refstorage", "files") != "files":
        raise _repository_error(
            top, "keeps its refs as a reftable: `git refs migrate --ref-format=files` makes files of them"
        )
    object_format = settings.get("extensions.objectformat", "sha1")
    if object_format not in ("sha1", "sha256"):
        raise _repository_error(top, f"has objects in the format {object_format!r}: sha1 and sha256 are supported")
    remotes = [url for name, url in settings.items() if name.startswith("remote.") and name.endswith(".url")]
    return Repository(top, git_dir, common, object_format, settings.get("core.excludesfile", ""), tuple(remotes))


def _check_owner(top: Path, common: Path) -> None:
    """Refuse a repository of another user, as git does: what is written there would no longer be that user's."""
    owner = common.stat().st_uid
    if owner == os.geteuid():
        return
    with scratch_git("settings") as folder:
        safe = users_settings(folder).get("safe.directory", [])
    if str(top) not in safe and "*" not in safe:
        raise _repository_error(
            top, f"belongs to the user {owner}: if you trust it, `git config --global --add safe.directory {top}`"
        )


def _settings(common: Path) -> dict[str, str]:
    """The settings of a repository, by name; files that they include are not read, and no program is run."""
    try:
        with folder_handle(common) as handle:
            text = read_below(handle, "config", MAX_SETTINGS)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise WorldError(f"{str(common / 'config')!r} cannot be read: {error.strerror}") from error
    with scratch_git("settings") as folder:
        printed = Git(folder)("config", "--file", "-", "--no-includes", "-z", "--list", stdin=text)
    pairs = (os.fsdecode(entry).partition("\n") for entry in printed.split(b"\0")[:-1])
    return {name: value for name, _, value in pairs}
