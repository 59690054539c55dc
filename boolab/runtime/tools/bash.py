"""The `bash` tool: runs a model's commands within limits. Only agents to which you give it have it.

It prevents accidents: a command that never ends, fills the memory or the disk, prints without end, leaves processes
behind, or reads a key from the environment. It is no sandbox: see `bash_tool` and docs/security.md.
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
from boolab.io.checks import repr_of
from boolab.io.files import user_path
from boolab.runtime.tools.tool import ToolContext, ToolSpec, tool

INHERITED: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
"""The variables of boolab's own environment that a command has. HOME and TMPDIR are its folder."""
MAX_COMMAND_BYTES: Final = 100_000
"""The longest command: Linux takes 128 KiB in one argument (MAX_ARG_STRLEN of execve(2))."""

_SUPERVISOR: Final = Path(__file__).with_name("bash_supervisor.py")
_CHUNK: Final = 2**16
_MIB: Final = 2**20
_VERDICT_BYTES: Final = 2**16
_MAX_SECONDS: Final = 10**9
_SHUTDOWN_TIMEOUT_S: Final = 10.0
"""How long the supervisor may take to end all processes before it is killed; its own timeout is 5 s."""
_DRAIN_TIMEOUT_S: Final = 1.0
"""How long to read the output after the supervisor has ended: a process that escaped may keep the pipe open."""
_IN_ITS_FOLDER: Final = "The folder that it starts in is kept from one command to the next."
_IN_NO_FOLDER: Final = "Each command starts in an empty folder of its own, which is removed afterwards."


def bash_tool(
    folder: str | Path | None = None,
    *,
    in_root: bool = False,
    timeout: float = 60.0,
    cpu_seconds: float | None = None,
    memory_mib: int = 2048,
    processes: int = 64,
    file_mib: int = 256,
    output_bytes: int = 30_000,
    env: Mapping[str, str] | None = None,
) -> ToolSpec:
    r"""A tool `bash(command)`, which runs a model's commands on this machine.

    A command has no input, an environment of five variables and `env`, and none of boolab's open files. The result is
    its exit code and its output, of long output the beginning and the end. It is an error result if the exit code is
    not 0 or a limit was exceeded. When a command ends, is killed, or its run is cancelled, all processes that it has
    started are killed, also those in the background and in other sessions.

    **It is no sandbox.** A command may read and write every file that you can, use the network, signal your other
    processes, and let services run something outside of these limits (cron, docker, systemd-run). As root it can remove
    any limit. Each file is limited, not all together. On macOS memory and processes are not limited, and a process that
    leaves its session is not found. For a model that you do not trust, run all of boolab in a container or a virtual
    machine: docs/security.md.

    Under virtual time (a scripted or simulated model) a command runs in real time, which is not recorded.

    Args:
        folder: Where commands start; HOME and TMPDIR are there too. It must exist, and is not removed. Without one,
            each command has a new temporary folder, which only you can read, and which is removed when it ends.
        in_root: Whether commands start in the folder of their run instead: its `root`, or that of its `world`. A branch
            in a world has a folder of its own.
        timeout: Seconds of real time for one command.
        cpu_seconds: Seconds of the CPU for each process; by default as many as `timeout`.
        memory_mib: MiB of address space for each process, and of resident memory for all together. Programs that
            reserve more than they use (node, java, Go's race detector) need a larger limit.
        processes: How many processes a command may have at once. The system starts no more (RLIMIT_NPROC), except for
            root; so they are also counted every 50 ms, and a command that has more is killed.
        file_mib: MiB for each file that is written.
        output_bytes: How much of the output is kept: half from its beginning, half from its end.
        env: Further variables.

    Returns:
        The tool, which works in any run, on the wall's clock.

    Raises:
        SettingError: if a limit is not positive, there is no such folder or no bash, or the system is Windows.

    Example:
        >>> import boolab as bl
        >>> bash = bl.bash_tool(timeout=5)
        >>> asyncio.run(bash("echo $((6 * 7)); echo $HOME | cut -c 1"))
        'exit code 0\n42\n/\n'
    """
    shell = _shell()
    cpu_seconds = timeout if cpu_seconds is None else cpu_seconds
    _check_options(
        {"timeout": timeout, "cpu_seconds": cpu_seconds},
        {"memory_mib": memory_mib, "processes": processes, "file_mib": file_mib, "output_bytes": output_bytes},
    )
    cpu, memory, file = math.ceil(cpu_seconds), memory_mib * _MIB, file_mib * _MIB
    limits = {
        "timeout": float(timeout), "cpu": cpu, "memory": memory, "processes": processes, "file": file,
        "output": output_bytes,
    }  # fmt: skip
    place = None if folder is None else _folder(folder)
    if in_root and folder is not None:
        msg = "bash_tool: folder= and in_root=True both name the folder: leave one out"
        raise SettingError(msg)
    variables = _variables(env)

    async def bash(command: str) -> str:
        """Run a command with bash, and give its exit code and its output (stdout and stderr together).

        Args:
            command: The command, as it would be typed. It has no input, and is killed when it takes too long.
        """
        _check_command(command)
        order = {"shell": shell, "command": command, **limits}
        if place is not None:
            return await _run(order, place, variables)
        fresh = tempfile.mkdtemp(prefix="boolab-bash-")
        try:
            return await _run(order, fresh, variables)
        finally:
            _remove(fresh)

    async def bash_in_root(command: str, context: ToolContext) -> str:
        _check_command(command)
        if context.root is None:
            msg = "this run has no folder: give it root= or world="
            raise ToolError(msg)
        return await _run({"shell": shell, "command": command, **limits}, _folder(context.root), variables)

    bash_in_root.__doc__ = bash.__doc__
    spec = tool(name="bash")(bash_in_root) if in_root else tool(bash)
    scope = _IN_NO_FOLDER if place is None and not in_root else _IN_ITS_FOLDER
    return replace(spec, description=f"{spec.description} {scope}")


def _remove(folder: str) -> None:
    """Remove a folder, however deep: `shutil.rmtree` is recursive."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", folder], check=False, stderr=subprocess.DEVNULL)  # noqa: S603, S607 - of the system


def _shell() -> str:
    if sys.platform == "win32":
        msg = "bash_tool: on Windows none of its limits can be set: run boolab in WSL or in a container"
        raise SettingError(msg)
    shell = shutil.which("bash")
    if shell is None:
        msg = "bash_tool: there is no bash on the PATH: install it"
        raise SettingError(msg)
    return shell


def _check_options(seconds: Mapping[str, float], counts: Mapping[str, int]) -> None:
    for name, value in seconds.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MAX_SECONDS:
            msg = f"bash_tool: {name}={repr_of(value)}: expected seconds > 0, and less than {_MAX_SECONDS:,}"
            raise SettingError(msg)
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**40:
            msg = f"bash_tool: {name}={repr_of(value)}: expected a whole number of at least 1"
            raise SettingError(msg)


def _folder(path: str | Path) -> str:
    try:
        folder = user_path(path).resolve()
    except (TypeError, RuntimeError, ValueError) as error:
        msg = f"bash_tool: folder={path!r}: expected the path of a folder ({error})"
        raise SettingError(msg) from error
    if not folder.is_dir():
        msg = f"bash_tool: folder={str(path)!r} is not a folder"
        raise SettingError(msg)
    return str(folder)


def _variables(env: Mapping[str, str] | None) -> dict[str, str]:
    variables = {name: os.environ[name] for name in INHERITED if name in os.environ}
    names: Any = {} if env is None else env
    if not isinstance(names, Mapping):
        msg = "bash_tool: env: expected a mapping from names to texts"
        raise SettingError(msg)
    for name, value in names.items():
        if (
            not (isinstance(name, str) and isinstance(value, str) and name and not set("=\0") & set(name))
            or "\0" in value
            or (name + value).encode(errors="ignore").decode() != name + value
        ):
            # without the value, which may be a key
            msg = f"bash_tool: env: {name!r}: expected a name without '=' and a text, both without NUL, and Unicode"
            raise SettingError(msg)
    return variables | dict(names)


def _check_command(command: str) -> None:
    try:
        size = len(command.encode())
    except UnicodeEncodeError as error:
        msg = f"the command is no Unicode text: {error.reason} at {error.start}"
        raise ToolError(msg) from error
    if "\0" in command or size > MAX_COMMAND_BYTES:
        msg = f"the command is not accepted: expected at most {MAX_COMMAND_BYTES:,} bytes, and no NUL; it has {size:,}"
        raise ToolError(msg)


async def _run(order: Mapping[str, Any], folder: str, variables: Mapping[str, str]) -> str:
    """Let the supervisor run a command, and return its result; a `ToolError` with the result if it failed."""
    output = _Ends(order["output"])
    reader, pipe, write = await _pipe()
    try:
        supervisor = await _started(folder, variables, write)
        assert supervisor.stdin is not None  # noqa: S101 - it was started with pipes
        ending = asyncio.create_task(_ending(supervisor, asyncio.create_task(output.take(reader)), pipe))
        try:
            supervisor.stdin.write(json.dumps(order).encode() + b"\n")
            late = order["timeout"] + _SHUTDOWN_TIMEOUT_S
            await asyncio.wait([ending], timeout=late)  # unlike wait_for, it cancels nothing
            if not ending.done():
                _kill(supervisor)  # a command may have stopped it
            verdict = await asyncio.shield(ending)
        finally:
            supervisor.stdin.close()  # when its input ends, the supervisor ends everything
            await _let_end(supervisor, ending)
    finally:
        pipe.close()
    return _result(verdict, output)


async def _pipe() -> tuple[asyncio.StreamReader, asyncio.ReadTransport, int]:
    """A pipe for the output, which can be closed while other processes hold its end, unlike asyncio's own."""
    reader = asyncio.StreamReader()
    read, write = os.pipe()
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb", 0))
    return reader, pipe, write


async def _started(folder: str, variables: Mapping[str, str], write: int) -> Process:
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_SUPERVISOR)),
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


async def _ending(supervisor: Process, draining: asyncio.Task[None], pipe: asyncio.ReadTransport) -> _Verdict:
    """Wait for the end of the supervisor and of the output."""
    assert supervisor.stderr is not None  # noqa: S101 - it was started with pipes
    report = _Ends(_VERDICT_BYTES)
    await asyncio.gather(report.take(supervisor.stderr), supervisor.wait())
    verdict = _verdict(supervisor, report)
    await asyncio.wait([draining], timeout=_DRAIN_TIMEOUT_S)
    pipe.close()
    await draining
    return verdict


async def _let_end(supervisor: Process, ending: asyncio.Task[_Verdict]) -> None:
    """Wait until no process is left, also if this is cancelled: it does not take long."""
    cancelled: asyncio.CancelledError | None = None
    kill = asyncio.get_running_loop().call_later(_SHUTDOWN_TIMEOUT_S, _kill, supervisor)
    while not ending.done():
        try:
            await asyncio.wait([ending])
        except asyncio.CancelledError as error:
            cancelled = error
    kill.cancel()
    if cancelled is not None:
        raise cancelled


def _kill(supervisor: Process) -> None:
    with suppress(ProcessLookupError):
        supervisor.kill()


class _Verdict(NamedTuple):
    """How a command ended: its exit code, or minus the signal that ended it; and why it was killed."""

    status: int | None
    why: str


class _Ends:
    """Up to `kept` bytes of a stream, from its beginning and its end; those between are counted."""

    def __init__(self, head: int) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._head_room = head - head // 2
        self._tail_room = head // 2
        self._left_out = 0

    async def take(self, stream: asyncio.StreamReader) -> None:
        while piece := await stream.read(_CHUNK):
            self.add(piece)

    def add(self, piece: bytes) -> None:
        room = self._head_room - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        excess = len(self._tail) - self._tail_room
        if excess > 0:
            del self._tail[:excess]
            self._left_out += excess

    def text(self) -> str:
        if not self._left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = (part.decode("utf-8", "replace") for part in (self._head, self._tail))
        return f"{head}\n[... {self._left_out:,} bytes left out ...]\n{tail}"


def _verdict(supervisor: Process, report: _Ends) -> _Verdict:
    """How the command ended, from the supervisor's report."""
    facts: dict[str, Any] = {}
    for line in report.text().splitlines():
        with suppress(ValueError, TypeError):  # a line that was cut off, or an error of Python
            facts |= json.loads(line)
    if facts.keys() >= {"status", "why"}:
        return _Verdict(facts["status"], facts["why"])
    if facts.get("pid", 0) > 1:  # the supervisor could not end the command
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(facts["pid"], signal.SIGKILL)
    return _Verdict(
        None, f"the process that watches it was gone before its end ({_describe_exit(supervisor.returncode or 0)})"
    )


def _result(verdict: _Verdict, output: _Ends) -> str:
    status, reason = verdict
    ending = ", ".join(
        [*([] if status is None else [_describe_exit(status)]), *([f"killed: {reason}"] if reason else [])]
    )
    msg = f"{ending}\n{output.text()}"
    if status != 0 or reason:
        raise ToolError(msg)
    return msg


def _describe_exit(status: int) -> str:
    if status >= 0:
        return f"exit code {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by {-status}"
