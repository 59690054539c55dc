"""Running git: one command at a time, with nothing of the user's environment but the path."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from boolab.errors import SettingError, WorldError

_CANCELLED: Final = "cancelled"
_PASSED_ON: Final = ("PATH", "TMPDIR", "SYSTEMROOT")


class GitFailedError(WorldError):
    """A git command ended with another exit code than 0."""


def find_git() -> str:
    """The path of git.

    Raises:
        SettingError: if there is none.
    """
    found = shutil.which("git")
    if found is None:
        msg = "GitWorld: there is no git on the PATH: install git 2.31 or newer"
        raise SettingError(msg)
    return found


def bare_environment(home: Path | str) -> dict[str, str]:
    """An environment in which git reads no settings of the user or of the machine.

    Args:
        home: What git takes for the home folder.
    """
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return passed_on | {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
    }


def users_environment() -> dict[str, str]:
    """The user's own environment, without the variables that name another repository: a hook of git sets them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


class Git:
    """Runs git commands in one folder and environment. `cancel`, from another thread, kills the one under way.

    Args:
        path: The path of git.
        folder: Where it runs.
        environment: All its variables.
    """

    def __init__(self, path: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._path = path
        self._folder = folder
        self._environment = dict(environment)
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._cancelled = False
        self.warnings = ""
        """What the latest command printed to stderr."""

    def __call__(self, *arguments: str, given: bytes = b"", variables: Mapping[str, str] | None = None) -> bytes:
        """Run a command.

        Args:
            arguments: The command and its arguments.
            given: Its input.
            variables: Further variables of its environment.

        Returns:
            What it printed.

        Raises:
            GitFailedError: if it failed.
            WorldError: if it could not be started, or was cancelled.
        """
        try:
            with self._lock:
                if self._cancelled:
                    raise WorldError(_CANCELLED)
                process = self._running = subprocess.Popen(  # noqa: S603 - the user's git
                    [self._path, *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=self._folder,
                    env=self._environment | dict(variables or {}),
                )
        except OSError as error:
            gone = (
                f"the folder {str(self._folder)!r} is gone" if not self._folder.is_dir() else f"git: {error.strerror}"
            )
            raise WorldError(gone) from error
        with process:
            printed, warned = process.communicate(given)
        with self._lock:
            self._running = None
            if self._cancelled:
                raise WorldError(_CANCELLED)
        self.warnings = warned.decode("utf-8", "backslashreplace").strip()
        if process.returncode:
            raise GitFailedError(
                f"git {arguments[0]}: {_shortened(self.warnings) or f'exit code {process.returncode}'}"
            )
        return printed

    def cancel(self) -> None:
        """Kill the command under way, and refuse further ones."""
        with self._lock:
            self._cancelled = True
            if self._running is not None:
                self._running.kill()


@contextmanager
def undone_on_error(undo: Callable[[], None], place: Path) -> Iterator[None]:
    """Undo what was begun if an error follows; one of the file system becomes a `WorldError`."""
    try:
        yield
    except BaseException as error:
        undo()
        if isinstance(error, OSError):
            raise WorldError(f"{str(place)!r} cannot be written: {error.strerror}") from error
        raise


def names(printed: bytes) -> list[bytes]:
    """The names in a list that git printed with `-z`."""
    return printed.split(b"\0")[:-1]


def joined(listed: Sequence[bytes]) -> bytes:
    """A list of names, as git reads it with `-z`."""
    return b"".join(name + b"\0" for name in listed)


def shown(name: bytes) -> str:
    """A name of a file as text for people."""
    return name.decode("utf-8", "backslashreplace")


def _shortened(text: str) -> str:
    lines = text.splitlines()
    return "; ".join(lines[:3]) + (f"; and {len(lines) - 3} more lines" if lines[3:] else "")
