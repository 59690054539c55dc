"""Running git: the one place where it is started, with boolab's settings and nothing of the user's environment."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Final

from boolab.errors import SettingError, WorldError

MAX_PRINTED: Final = 2**28
"""How much of what a command prints is read, in bytes."""
_SILENT_S: Final = 120
"""How long a command may print nothing. It may wait for a pipe that took the place of a file after it was checked."""
_CHUNK: Final = 2**16
_SETTINGS: Final = {
    # what would start a program
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.sshCommand": "false",
    "core.gitProxy": "false",
    "core.askPass": "false",
    "core.editor": "false",
    "core.pager": "cat",
    "core.alternateRefsCommand": "false",
    "credential.helper": "",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "log.showSignature": "false",
    "protocol.allow": "never",
    "gc.auto": "0",
    "maintenance.auto": "false",
    # what would read further files
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.commitGraph": "false",
    "core.multiPackIndex": "false",
    "submodule.recurse": "false",
    # what would take much memory
    "core.bigFileThreshold": "32m",
    "core.packedGitWindowSize": "32m",
    "core.packedGitLimit": "512m",
}
_ENVIRONMENT: Final = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOC_LIMIT": "1g",
}


class GitFailedError(WorldError):
    """A git command ended with another exit code than 0."""


def find_git() -> str:
    """The path of git."""
    path = shutil.which("git", path=_path())
    if path is None:
        msg = "GitWorld: there is no git on the PATH: install git 2.31 or newer"
        raise SettingError(msg)
    return path


def _path() -> str:
    """The PATH without folders that depend on where a process is: a repository may hold a program called git."""
    return os.pathsep.join(part for part in os.get_exec_path() if Path(part).is_absolute())


def users_settings(git_dir: Path) -> dict[str, list[str]]:
    """The settings of the user and of the machine, which no repository has a part in."""
    files = _inherited_variables("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
    defaults = {"XDG_CONFIG_HOME": "", "GIT_CONFIG_NOSYSTEM": "0", "HOME": str(Path.home())}
    git = Git(git_dir, defaults | files, is_users=True)
    parts = git("config", "-z", "--list", "--show-scope").split(b"\0")
    settings: dict[str, list[str]] = {}
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        if scope in (b"system", b"global"):
            name, _, value = os.fsdecode(entry).partition("\n")
            settings.setdefault(name, []).append(value)
    return settings


def _inherited_variables(*variables: str) -> dict[str, str]:
    return {name: os.environ[name] for name in variables if name in os.environ}


@cache
def _config_arguments() -> tuple[str, ...]:
    return tuple(part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}"))


class Git:
    """Runs git commands in one git directory, which is boolab's own; git takes it for the home folder."""

    def __init__(self, git_dir: Path, variables: Mapping[str, str] | None = None, *, is_users: bool = False) -> None:
        self._program = find_git()
        self._folder = git_dir
        paths = {"PATH": _path(), "HOME": str(git_dir), "XDG_CONFIG_HOME": str(git_dir), "GIT_DIR": str(git_dir)}
        self._environment = _inherited_variables("TMPDIR", "SYSTEMROOT") | _ENVIRONMENT | paths
        if is_users:
            del self._environment["GIT_CONFIG_GLOBAL"]
        self._environment |= variables or {}

    def __call__(self, *arguments: str, stdin: bytes = b"", max_bytes: int = MAX_PRINTED) -> bytes:
        """Run a command that may print `max_bytes` bytes."""
        with tempfile.TemporaryFile() as source:
            source.write(stdin)
            source.seek(0)
            with self._started(arguments, source) as command:
                printed = command.read_rest(max_bytes)
        return printed

    @contextmanager
    def conversation(self, *arguments: str) -> Iterator[Conversation]:
        """A command that answers what it is asked, until the block ends."""
        with self._started(arguments, subprocess.PIPE) as command:
            yield command

    @contextmanager
    def _started(self, arguments: tuple[str, ...], source: IO[bytes] | int) -> Iterator[Conversation]:
        with tempfile.TemporaryFile() as errors:
            process = self._start(arguments, source, errors)
            has_answered = True
            try:
                yield Conversation(process, arguments[0])
            except _EndedError:
                has_answered = False
            except BaseException:
                process.kill()
                raise
            finally:
                if process.stdin is not None:
                    process.stdin.close()
                code = process.wait()
                assert process.stdout is not None  # noqa: S101 - it is a pipe
                process.stdout.close()
            if code or not has_answered:
                errors.seek(0)
                warned = errors.read(_CHUNK).decode("utf-8", "backslashreplace").strip()
                raise GitFailedError(f"git {arguments[0]}: {_shorten(warned) or f'exit code {code}'}")

    def _start(self, arguments: tuple[str, ...], source: IO[bytes] | int, errors: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(  # noqa: S603 - the user's git
                [self._program, *_config_arguments(), *arguments],
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                cwd=self._folder,
                env=self._environment,
            )
        except OSError as error:
            raise WorldError(f"git: {error.strerror}") from error


class _EndedError(Exception):
    """A command ended before it had answered."""


class Conversation:
    """The input and the output of a command that runs."""

    def __init__(self, process: subprocess.Popen[bytes], name: str) -> None:
        self._process = process
        self._name = name
        self._read = b""
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        self._output = process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN)

    def ask(self, text: bytes) -> None:
        """Write to the command: at most what a pipe holds, or both sides would wait."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        try:
            self._process.stdin.write(text)
        except BrokenPipeError as error:
            raise _EndedError from error

    def read_until(self, end: bytes) -> bytes:
        """What the command prints before a mark, which is one byte."""
        while end not in self._read:
            self._read += self._read_more()
        answer, _, self._read = self._read.partition(end)
        return answer

    def pieces(self, size: int) -> Iterator[bytes]:
        """The next bytes that the command prints, in pieces."""
        while size:
            if not self._read:
                self._read = self._read_more()
            piece, self._read = self._read[:size], self._read[size:]
            size -= len(piece)
            yield piece

    def read_rest(self, max_bytes: int) -> bytes:
        """All that the command prints until it ends."""
        pieces: list[bytes] = []
        size = 0
        while True:
            try:
                piece = self._read_more()
            except _EndedError:
                return b"".join(pieces)
            size += len(piece)
            if size > max_bytes:
                raise WorldError(f"git {self._name} printed more than {max_bytes:,} bytes")
            pieces.append(piece)

    def _read_more(self) -> bytes:
        if not self._poll.poll(_SILENT_S * 1000):
            raise WorldError(f"git {self._name} printed nothing for {_SILENT_S} seconds")
        piece = os.read(self._output, _CHUNK)
        if not piece:
            raise _EndedError
        return piece


def names(printed: bytes) -> list[bytes]:
    """The names in a list that git printed with `-z`."""
    return printed.split(b"\0")[:-1]


def decode_name(name: bytes) -> str:
    """A name of a file as text for people."""
    return name.decode("utf-8", "backslashreplace")


def _shorten(text: str) -> str:
    lines = text.splitlines()
    return "; ".join(lines[:3]) + (f"; and {len(lines) - 3} more lines" if lines[3:] else "")
