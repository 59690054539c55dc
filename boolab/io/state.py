"""The folder in which boolab keeps what outlives a process: `boolab` in `XDG_STATE_HOME`, or in `~/.local/state`.

It imports `os` alone, because the hook, which has no time for more, uses it.
"""

from __future__ import annotations

import errno
import os
import stat


def state_folder(*names: str) -> str:
    """The path of a folder for state, whether it is there or not."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117 - pathlib takes as long to import as all else of the hook; so below
        base = os.path.join(os.path.expanduser("~"), ".local", "state")  # noqa: PTH111, PTH118
    return os.path.join(base, "boolab", *names)  # noqa: PTH118


def private_state_folder(*names: str) -> str:
    """A folder for state that is there, belongs to this user, and is neither a link nor open to others."""
    top = os.path.dirname(state_folder())  # noqa: PTH120
    os.makedirs(top, mode=0o700, exist_ok=True)  # noqa: PTH103
    path = os.path.realpath(top)  # what leads to the state folder is the user's choice; what is in it is boolab's
    for name in ("boolab", *names):
        path = os.path.join(path, name)  # noqa: PTH118
        try:
            os.mkdir(path, 0o700)  # noqa: PTH102
        except FileExistsError:
            _check(path)
    os.chmod(path, 0o700)  # noqa: PTH101
    return path


def _check(path: str) -> None:
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.ENOTDIR, "not a folder, or a link: remove it", path)
    if status.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "it belongs to another user: set XDG_STATE_HOME to a folder of your own", path)
    if status.st_mode & 0o022:
        raise OSError(
            errno.EPERM, "others can write in it: chmod it to 700, once you have looked at what it holds", path
        )
