"""What in a folder differs from an index, and what of that git cannot keep.

`git ls-files` finds it with one look at each file. What it lists is checked before `git add` reads a byte: a file that
is too large or cannot be read is left out, a repository in the folder is an error.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from boolab.core.text import first_of
from boolab.errors import WorldError
from boolab.worlds.git_command import Git, joined, names, shown

LITERAL: Final = {"GIT_LITERAL_PATHSPECS": "1"}
_UNREAD_FOLDER: Final = re.compile(r"could not open directory '(.*)': (.*)")
_MIB: Final = 2**20
_SHOWN: Final = 5


class Scan(NamedTuple):
    """What differs.

    Attributes:
        changed: The files to be read again, or removed: those that are new, changed or gone.
        left_out: What is not kept, and why.
        new_folders: Whether there are new folders with files in them, or files are gone.
        bare_folders: The folders that git does not keep: the topmost without a file that is kept.
    """

    changed: list[bytes]
    left_out: dict[bytes, str]
    new_folders: bool
    bare_folders: list[bytes]


def scan(git: Git, root: Path, include: Sequence[bytes], max_bytes: int) -> Scan:
    """Look at all files of a folder.

    Args:
        git: Git in that folder.
        root: The folder.
        include: Files and folders that are kept although they are ignored.
        max_bytes: The largest file that is kept.

    Raises:
        WorldError: if there are repositories in the folder.
    """
    listed = names(git("ls-files", "-z", "-t", "-o", "-m", "--exclude-standard", "--directory"))
    left_out = {os.fsencode(name): why.lower() for name, why in _UNREAD_FOLDER.findall(git.warnings)}
    changed = [name[2:] for name in listed if not name.endswith(b"/")]
    gone = any(name[:2] == b"C " and not os.path.lexists(_at(root, name[2:])) for name in listed)
    folders = [name[2:] for name in listed if name.endswith(b"/")]
    refuse(root, nested(root, folders))
    new, bare = _expanded(git, folders)
    changed += new
    wanted = existing(root, include)
    if wanted:
        changed += names(git("ls-files", "-z", "-o", "--", *map(os.fsdecode, wanted), variables=LITERAL))
    refuse(root, [name for name in changed if name.endswith(b"/")])
    left_out |= {name: why for name in changed if (why := _fault(_at(root, name), max_bytes))}
    kept = [name for name in changed if name not in left_out]
    return Scan(kept, left_out, bool(new) or gone, bare)


def _expanded(git: Git, folders: Sequence[bytes]) -> tuple[list[bytes], list[bytes]]:
    """The files in folders that are new, and the folders without any."""
    if not folders:
        return [], []
    asked = [os.fsdecode(name) for name in folders]
    files = names(git("ls-files", "-z", "-o", "--exclude-standard", "--", *asked, variables=LITERAL))
    full = parents(files)
    return files, [folder for folder in folders if folder not in full]


def repositories_in(git: Git) -> list[bytes]:
    """The repositories in a folder of which the index holds nothing yet."""
    return [name for name in names(git("ls-files", "-z", "-o", "--exclude-standard")) if name.endswith(b"/")]


def bare_folders(git: Git) -> list[bytes]:
    """The topmost folders without a file in the index."""
    listed = names(git("ls-files", "-z", "-o", "--exclude-standard", "--directory"))
    return [name for name in listed if name.endswith(b"/")]


def all_folders(git: Git, root: Path, topmost: Sequence[bytes]) -> list[bytes]:
    """These folders and all in them, but for ignored ones.

    Args:
        git: Git in the folder above.
        root: That folder.
        topmost: The folders.
    """
    if not topmost:
        return []
    asked = [os.fsdecode(name) for name in topmost]
    ignored = names(
        git("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory", "--", *asked, variables=LITERAL)
    )
    skipped = {name for name in ignored if name.endswith(b"/")}
    found, waiting = [], list(topmost)
    while waiting:
        folder = waiting.pop()
        if folder in skipped:
            continue
        found.append(folder.removesuffix(b"/"))
        try:
            with os.scandir(_at(root, folder)) as entries:
                waiting += [folder + entry.name + b"/" for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
    return sorted(found)


def ignored_names(git: Git) -> list[bytes]:
    """The ignored files and folders; of a folder that is ignored as a whole, the folder alone."""
    return names(git("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory"))


def existing(root: Path, listed: Iterable[bytes]) -> list[bytes]:
    """Those of these files and folders that are there."""
    return [name for name in listed if os.path.lexists(_at(root, name))]


def parents(files: Iterable[bytes]) -> set[bytes]:
    """All folders above these files, with a slash at the end."""
    found: set[bytes] = set()
    for name in files:
        while b"/" in name.rstrip(b"/"):
            name = name.rstrip(b"/")[: name.rstrip(b"/").rindex(b"/") + 1]  # noqa: PLW2901 - one level up
            if name in found:
                break
            found.add(name)
    return found


def nested(root: Path, folders: Collection[bytes]) -> list[bytes]:
    """Those of these folders that are repositories of their own."""
    return [name for name in folders if os.path.lexists(_at(root, name + b".git"))]


def refuse(root: Path, repositories: Sequence[bytes]) -> None:
    """Raise `WorldError` for repositories in the folder, by name."""
    if not repositories:
        return
    listed = first_of([shown(name) for name in repositories], _SHOWN)
    msg = (
        f"{str(root)!r} holds other repositories or submodules, whose files its own does not keep: {listed}. "
        "Add them to .gitignore, or choose a folder without them"
    )
    raise WorldError(msg)


def force_removed(git: Git, files: Sequence[bytes]) -> None:
    """Take files out of the index; they stay in the folder."""
    if files:
        git("update-index", "-z", "--force-remove", "--stdin", given=joined(files))


def _at(root: Path, name: bytes) -> bytes:
    return os.fsencode(root) + b"/" + name


def _fault(path: bytes, max_bytes: int) -> str:
    """Why a file is not kept, in words; "" if it is."""
    try:
        status = os.lstat(path)
    except OSError:
        return ""  # it is gone
    if not stat.S_ISREG(status.st_mode):
        return ""
    if status.st_size > max_bytes:
        return f"{status.st_size / _MIB:,.1f} MiB"
    return "" if os.access(path, os.R_OK) else "permission denied"
