"""Pieces of work for tests of executors: workers import this module, so that it imports little itself."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn


def worker() -> int:
    """Which process works on it."""
    return os.getpid()


def die() -> NoReturn:
    """Be killed, as by a system without memory."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def die_once(trace: Path) -> str:
    """Be killed at the first attempt, of which `trace` is left."""
    try:
        trace.touch(exist_ok=False)
    except FileExistsError:
        return "done"
    die()


def wait() -> None:
    """Never be done."""
    threading.Event().wait()


def read_and_print() -> str:
    """What a tool might do that knows nothing of pipes."""
    print("seen")  # noqa: T201
    return sys.stdin.read()


def interrupt() -> str:
    """Get what Ctrl-C sends to all processes of a terminal."""
    os.kill(os.getpid(), signal.SIGINT)
    return "done"


def leave() -> NoReturn:
    """End the process, as a tool may do by mistake."""
    os._exit(3)


def lock() -> object:
    """Return what cannot be sent."""
    return threading.Lock()


class MoodError(Exception):
    """An error that cannot be made again from what pickle keeps of it."""

    def __init__(self, mood: str, degree: int) -> None:
        super().__init__(f"{mood}!")
        self.lock = threading.Lock()
        self.degree = degree


def sulk() -> NoReturn:
    """Raise what cannot be sent."""
    mood = "sulky"
    raise MoodError(mood, 3)


def die_once_before(trace: Path, piece: Callable[..., Any], *args: Any) -> Any:
    """A piece of work whose worker is killed at the first attempt."""
    die_once(trace)
    return piece(*args)
