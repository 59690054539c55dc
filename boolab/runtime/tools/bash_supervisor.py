"""A process between a `bash` tool and its command: it sets the limits, and ends all that the command has started.

`boolab.runtime.tools.bash` starts this file as a script, so it imports nothing of boolab. It is a process of its own,
because only a parent knows its children: on Linux a process that loses its parent, in any session, becomes a child of
this one (`PR_SET_CHILD_SUBREAPER` of prctl(2)). So no process is left when no child is left.

The first line of input is the order, as JSON. The end of the input, also when boolab was killed, ends the command. The
error output has two lines of JSON: the command's process id, and at the end its status.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from typing import Any, Final, NoReturn

_TICK_S: Final = 0.05
"""How often processes and their memory are measured."""
_SHUTDOWN_TIMEOUT_S: Final = 5.0
"""How long killed processes may take to end. One that waits for a disk or a network share may take longer."""
_SET_PDEATHSIG: Final = 1
_SET_DUMPABLE: Final = 4
_SET_CHILD_SUBREAPER: Final = 36
_SET_NO_NEW_PRIVS: Final = 38
_LINUX: Final = sys.platform == "linux"
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Read an order, run its command, and report how it ended."""
    order = json.loads(sys.stdin.readline())
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # or this process would end, and not the command
    _prctl(_SET_CHILD_SUBREAPER, 1)
    _prctl(_SET_DUMPABLE, 0)  # the command cannot write to this process through /proc, unless it is root
    parent = os.getpid()
    command = os.fork()
    if command == 0:
        _become(order, parent)
    _report(pid=command)
    os.close(1)  # or the output would not end
    status, reason = _watch(command, order, woken)
    remaining = _end_all(command)
    _report(status=status, why=reason or ("some of its processes could not be killed" if remaining else ""))


def _watch(command: int, order: dict[str, Any], woken: int) -> tuple[int | None, str]:
    """Wait for the end of the command: its status, or why it is to be ended."""
    deadline = time.monotonic() + order["timeout"]
    while True:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return None, f"it did not end within {order['timeout']:g} s"
        ready, _, _ = select.select([0, woken], [], [], min(remaining, _TICK_S))
        if woken in ready:
            os.read(woken, 4096)
        for pid, status in _reap_children():
            if pid == command:
                return os.waitstatus_to_exitcode(status), ""
        if 0 in ready and not os.read(0, 4096):
            return None, "it was cancelled"
        if reason := _exceeded_limit(order):
            return None, reason


def _exceeded_limit(order: dict[str, Any]) -> str:
    """The exceeded limit on all processes together, if any."""
    running = descendants(os.getpid())
    if len(running) > order["processes"]:
        return f"it had more than {order['processes']:,} processes"
    if sum(map(_resident_bytes, running)) > order["memory"]:
        return f"its processes held more than {order['memory'] // 2**20:,} MiB"
    return ""


def descendants(pid: int) -> list[int]:
    """The processes below a process, from Linux's /proc/PID/task/TID/children; none on other systems."""
    processes: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        processes += children
        waiting += children
    return processes


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        children: list[int] = []
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - pathlib would cost more than all the rest
            with suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:  # noqa: PTH123 - as above
                children += map(int, file.read().split())
        return children
    return []


def _resident_bytes(pid: int) -> int:
    with suppress(OSError), open(f"/proc/{pid}/statm") as file:  # noqa: PTH123 - as above
        return int(file.read().split()[1]) * _PAGE
    return 0


def _reap_children() -> list[tuple[int, int]]:
    statuses = []
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            statuses.append(ended)
    return statuses


def _end_all(command: int) -> bool:
    """Kill the command and all that it started. Returns whether a process is left."""
    deadline = time.monotonic() + _SHUTDOWN_TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(command, signal.SIGKILL)  # at once, so that none of the group can fork in between
        for pid in descendants(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap_children()
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        time.sleep(0.002)
    return True


def _become(order: dict[str, Any], guard: int) -> NoReturn:
    try:
        os.setsid()
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        _prctl(_SET_NO_NEW_PRIVS, 1)  # after sudo, it could not be killed
        if os.getppid() != guard:
            os._exit(1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(1, 2)
        for ignored in (signal.SIGPIPE, signal.SIGINT):  # which would be inherited
            signal.signal(ignored, signal.SIG_DFL)
        for name, value in _rlimits(order).items():
            _limit(getattr(resource, name), value)
        os.execv(order["shell"], [order["shell"], "--noprofile", "--norc", "-c", order["command"]])  # noqa: S606 - a shell
    except OSError as error:
        os.write(1, f"{order['shell']}: {error.strerror}\n".encode())
    finally:
        os._exit(126)


def _rlimits(order: dict[str, Any]) -> dict[str, int]:
    limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": order["file"], "RLIMIT_CPU": order["cpu"]}
    if _LINUX:  # macOS refuses RLIMIT_AS, and cannot count a user's threads
        limits["RLIMIT_AS"] = order["memory"]
        limits["RLIMIT_NPROC"] = order["processes"] + _tasks_of_user()
    return limits


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    # The CPU's soft limit sends SIGXCPU, which can be caught; the hard one, a second later, cannot.
    resource.setrlimit(kind, (value, value + 1 if kind == resource.RLIMIT_CPU and hard != value else value))


def _tasks_of_user() -> int:
    """How many threads the user has, which RLIMIT_NPROC counts."""
    user, tasks = os.getuid(), 0
    with os.scandir("/proc") as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.isdecimal() and entry.stat().st_uid == user:
                    tasks += os.stat(f"{entry.path}/task").st_nlink - 2  # noqa: PTH116 - as above
    return tasks


def _prctl(option: int, value: int) -> None:
    if _LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _report(**facts: object) -> None:
    with suppress(BrokenPipeError):  # boolab is gone
        os.write(2, json.dumps(facts).encode() + b"\n")


if __name__ == "__main__":
    main()
