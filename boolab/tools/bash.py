"""The `bash` tool: commands of a model, run within limits. Nothing offers it by itself.

It holds off accidents: a command that never ends, fills the memory or the disk, prints without end, leaves processes
behind, or reads a key from the environment. It is no sandbox. A command runs as you: it reads and writes every file
that you can, reaches the network, other processes of yours, and services that run commands for you (cron, docker). For
commands of a model that you do not trust, run all of boolab in a container or a virtual machine: docs/security.md.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from boolab.errors import SettingError, ToolError
from boolab.tools.tool import ToolSpec, tool

INHERITED: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""The variables of boolab's own environment that a command sees. HOME and TMPDIR are its folder."""
MOST_COMMAND_BYTES: Final = 100_000
"""The longest command: Linux takes 128 KiB in one argument (MAX_ARG_STRLEN of execve(2))."""

_GUARD: Final = Path(__file__).with_name("bash_supervisor.py")
_CHUNK: Final = 2**16
_MIB: Final = 2**20
_VERDICT_BYTES: Final = 2**16
_MOST_SECONDS: Final = 10**9
_SHUTDOWN_TIMEOUT_S: Final = 10.0
"""How long the guard may take to end everything before it is killed itself; it gives up after 5 s."""
_LINGER_S: Final = 1.0
"""How long the output is listened to when the guard is gone: something out of reach may hold its pipe for ever."""
_IN_ITS_FOLDER: Final = "The folder that it starts in is kept from one command to the next."
_IN_NO_FOLDER: Final = "Each command starts in an empty folder of its own, which is removed afterwards."


class _Limits(NamedTuple):
    """What a command may use; `memory` and `file` in bytes, `timeout` and `cpu` in seconds, `output` in bytes."""

    timeout: float
    cpu: int
    memory: int
    processes: int
    file: int
    output: int


def bash_tool(
    folder: str | Path | None = None,
    *,
    timeout: float = 60.0,
    cpu_seconds: float | None = None,
    memory_mib: int = 2048,
    processes: int = 64,
    file_mib: int = 256,
    output_bytes: int = 30_000,
    env: Mapping[str, str] | None = None,
) -> ToolSpec:
    r"""A tool `bash(command)`, which runs a model's commands on this machine. Only agents that you give it have it.

    A command gets no input, an environment of five variables and `env`, and none of boolab's open files. The result is
    its exit code and what it printed, of long output the beginning and the end; an exit code other than 0 and a limit
    that was passed make it an error result. When a command ends, is cut off, or its run is cancelled, all processes
    that it has started are killed, those in the background and in other sessions included.

    **What it does not protect from.** It is no sandbox: a command may read and write every file that you can, use the
    network, signal your other processes, and ask services to run something outside of these limits (cron, docker,
    systemd-run). As root it may undo any limit. Files are limited each, not together. On macOS memory and processes are
    not limited, and a process that leaves its session is not found. For what you do not trust: a container.

    Under virtual time (a scripted or simulated model) a command still runs, in real time, and takes none on the record.

    Args:
        folder: Where commands start, with HOME and TMPDIR there: yours to make and to remove. Without one, each command
            gets a fresh temporary folder, which only you can read, and which is removed when the command ends.
        timeout: Seconds of real time for one command.
        cpu_seconds: Seconds of the CPU for each process; by default as many as `timeout`.
        memory_mib: MiB of address space for each process, and of resident memory for all together. Programs that
            reserve more than they use (node, java, Go's race detector) need a larger limit.
        processes: How many processes a command may have at once. Where you are not root, the system itself starts no
            more; root is exempt from that limit (RLIMIT_NPROC), so they are counted too, every 50 ms, and a command
            that has more is killed.
        file_mib: MiB for each file that is written.
        output_bytes: How much of the output is kept: half from its beginning, half from its end.
        env: Further variables. No key of yours is among them unless you put it there.

    Returns:
        The tool, which works in any run, on the wall's clock.

    Raises:
        SettingError: if a limit is not positive, there is no such folder or no bash, or this is Windows.

    Example:
        >>> import boolab as bl
        >>> bash = bl.bash_tool(timeout=5)
        >>> asyncio.run(bash("echo $((6 * 7)); echo $HOME | cut -c 1"))
        'exit code 0\n42\n/\n'
    """
    shell = _shell()
    limits = _checked(timeout, cpu_seconds, memory_mib, processes, file_mib, output_bytes)
    place = None if folder is None else _folder(folder)
    variables = _variables(env)

    async def bash(command: str) -> str:
        """Run a command with bash, and give its exit code and its output (stdout and stderr together).

        Args:
            command: The command, as it would be typed. It has no input, and is killed when it takes too long.
        """
        _check_command(command)
        order = {"shell": shell, "command": command, **limits._asdict()}
        if place is not None:
            return await _run(order, place, variables)
        fresh = tempfile.mkdtemp(prefix="boolab-bash-")
        try:
            return await _run(order, fresh, variables)
        finally:
            _remove(fresh)

    spec = tool(bash)
    return replace(spec, description=f"{spec.description} {_IN_NO_FOLDER if place is None else _IN_ITS_FOLDER}")


def _remove(folder: str) -> None:
    """Remove a folder, however deep: Python's own way is one call within another, folder within folder."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", folder], check=False, stderr=subprocess.DEVNULL)  # noqa: S603, S607 - of the system


def _shell() -> str:
    if sys.platform == "win32":
        msg = "bash_tool: on Windows none of its limits can be set: run boolab in WSL or in a container"
        raise SettingError(msg)
    found = shutil.which("bash")
    if found is None:
        msg = "bash_tool: there is no bash on the PATH: install it"
        raise SettingError(msg)
    return found


def _checked(
    timeout: object, cpu_seconds: object, memory_mib: object, processes: object, file_mib: object, output_bytes: object
) -> _Limits:
    seconds = {"timeout": timeout, "cpu_seconds": timeout if cpu_seconds is None else cpu_seconds}
    for name, value in seconds.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST_SECONDS:
            msg = f"bash_tool: {name}={value!r}: expected seconds > 0, and less than {_MOST_SECONDS:,}"
            raise SettingError(msg)
    counts = {"memory_mib": memory_mib, "processes": processes, "file_mib": file_mib, "output_bytes": output_bytes}
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**40:
            msg = f"bash_tool: {name}={value!r}: expected a whole number of at least 1"
            raise SettingError(msg)
    given: Any = {**seconds, **counts}
    return _Limits(
        float(given["timeout"]),
        math.ceil(given["cpu_seconds"]),
        given["memory_mib"] * _MIB,
        given["processes"],
        given["file_mib"] * _MIB,
        given["output_bytes"],
    )


def _folder(given: str | Path) -> str:
    try:
        place = Path(given).expanduser().resolve()
    except (TypeError, RuntimeError, ValueError) as error:
        msg = f"bash_tool: folder={given!r}: expected the path of a folder ({error})"
        raise SettingError(msg) from error
    if not place.is_dir():
        msg = f"bash_tool: folder={str(given)!r} is not a folder"
        raise SettingError(msg)
    return str(place)


def _variables(env: Mapping[str, str] | None) -> dict[str, str]:
    """What a command finds in its environment, besides its folder."""
    own = {name: os.environ[name] for name in INHERITED if name in os.environ}
    given: Any = {} if env is None else env
    if not isinstance(given, Mapping):
        msg = "bash_tool: env: expected a mapping from names to texts"
        raise SettingError(msg)
    for name, value in given.items():
        if (
            not (isinstance(name, str) and isinstance(value, str) and name and not set("=\0") & set(name))
            or "\0" in value
            or (name + value).encode(errors="ignore").decode() != name + value
        ):
            # not the value
            msg = f"bash_tool: env: {name!r}: expected a name without '=' and a text, both without NUL, and Unicode"
            raise SettingError(msg)
    return own | dict(given)


def _check_command(command: str) -> None:
    try:
        size = len(command.encode())
    except UnicodeEncodeError as error:
        msg = f"the command is no Unicode text: {error.reason} at {error.start}"
        raise ToolError(msg) from error
    if "\0" in command or size > MOST_COMMAND_BYTES:
        msg = f"the command is not accepted: expected at most {MOST_COMMAND_BYTES:,} bytes, and no NUL; it has {size:,}"
        raise ToolError(msg)


async def _run(order: Mapping[str, Any], folder: str, variables: Mapping[str, str]) -> str:
    """Have the guard run a command, and put what became of it into words.

    Raises:
        ToolError: if it failed, with the same words, or could not be started.
        asyncio.CancelledError: if it was cancelled; nothing of the command is left then.
    """
    output = _Ends(order["output"])
    reader, pipe, write = await _pipe()
    try:
        guard = await _started(folder, variables, write)
        assert guard.stdin is not None  # noqa: S101 - it was started with pipes
        ending = asyncio.create_task(_ending(guard, asyncio.create_task(output.take(reader)), pipe))
        try:
            guard.stdin.write(json.dumps(order).encode() + b"\n")
            late = order["timeout"] + _SHUTDOWN_TIMEOUT_S
            await asyncio.wait([ending], timeout=late)  # which leaves it as it is, whoever is cancelled
            if not ending.done():
                _kill(guard)  # a command may stop the one that watches it
            verdict = await asyncio.shield(ending)
        finally:
            guard.stdin.close()  # the guard ends everything when its input does
            await _let_end(guard, ending)
    finally:
        pipe.close()
    return _told(verdict, output)


async def _pipe() -> tuple[asyncio.StreamReader, asyncio.ReadTransport, int]:
    """A pipe for the output. One that asyncio makes stays open as long as anybody holds its other end."""
    reader = asyncio.StreamReader()
    read, write = os.pipe()
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb", 0))
    return reader, pipe, write


async def _started(folder: str, variables: Mapping[str, str], write: int) -> Process:
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_GUARD)),
            stdin=PIPE,
            stdout=write,
            stderr=PIPE,
            cwd=folder,
            env={"HOME": folder, "TMPDIR": folder, **variables},
            start_new_session=True,
        )
    except OSError as error:
        msg = f"the command cannot be started in {folder}: {error.strerror}"
        raise ToolError(msg) from error
    finally:
        os.close(write)


async def _ending(guard: Process, listening: asyncio.Task[None], pipe: asyncio.ReadTransport) -> _Verdict:
    """Wait for the guard's end and for that of the output, which comes at the same time unless the guard was killed."""
    assert guard.stderr is not None  # noqa: S101 - it was started with pipes
    heard = _Ends(_VERDICT_BYTES)
    await asyncio.gather(heard.take(guard.stderr), guard.wait())
    verdict = _verdict(guard, heard)
    await asyncio.wait([listening], timeout=_LINGER_S)
    pipe.close()
    await listening
    return verdict


async def _let_end(guard: Process, ending: asyncio.Task[_Verdict]) -> None:
    """Wait until nothing is left, whoever cancels the waiting: it is over soon."""
    cancelled: asyncio.CancelledError | None = None
    kill = asyncio.get_running_loop().call_later(_SHUTDOWN_TIMEOUT_S, _kill, guard)
    while not ending.done():
        try:
            await asyncio.wait([ending])
        except asyncio.CancelledError as error:
            cancelled = error
    kill.cancel()
    if cancelled is not None:
        raise cancelled


def _kill(guard: Process) -> None:
    with suppress(ProcessLookupError):
        guard.kill()


class _Verdict(NamedTuple):
    """What became of a command: its exit code, or minus the signal that ended it, and why it was killed otherwise."""

    status: int | None
    why: str


class _Ends:
    """The beginning and the end of a stream of bytes; what is between is counted, and not kept.

    Args:
        most: How many bytes to keep.
    """

    def __init__(self, most: int) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._head_room = most - most // 2
        self._tail_room = most // 2
        self._left_out = 0

    async def take(self, stream: asyncio.StreamReader) -> None:
        """Read a stream to its end."""
        while piece := await stream.read(_CHUNK):
            self.add(piece)

    def add(self, piece: bytes) -> None:
        """Take in what comes next."""
        room = self._head_room - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        over = len(self._tail) - self._tail_room
        if over > 0:
            del self._tail[:over]
            self._left_out += over

    def text(self) -> str:
        """What was kept, as text whatever the bytes are."""
        if not self._left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n[... {self._left_out:,} bytes left out ...]\n{tail}"


def _verdict(guard: Process, heard: _Ends) -> _Verdict:
    """What the guard said last."""
    said: dict[str, Any] = {}
    for line in heard.text().splitlines():
        with suppress(ValueError, TypeError):  # it was killed in the middle of a line, or Python says why it ended
            said |= json.loads(line)
    if said.keys() >= {"status", "why"}:
        return _Verdict(said["status"], said["why"])
    if said.get("pid", 0) > 1:  # what the guard does itself, if it can
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(said["pid"], signal.SIGKILL)
    return _Verdict(None, f"the process that watches it was gone before its end ({_ended(guard.returncode or 0)})")


def _told(verdict: _Verdict, output: _Ends) -> str:
    status, why = verdict
    words = [] if status is None else [_ended(status)]
    words += [f"killed: {why}"] if why else []
    msg = f"{', '.join(words)}\n{output.text()}"
    if status != 0 or why:
        raise ToolError(msg)
    return msg


def _ended(status: int) -> str:
    return f"exit code {status}" if status >= 0 else f"killed by {_signal(-status)}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
