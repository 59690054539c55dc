"""A worker process: it reads tasks from one pipe and writes their outcomes to another.

`boolab.core.process_pool` starts it. A frame in a pipe is its length, 8 bytes, and a pickle: a function and
its arguments; and back whether it returned, and what it returned or raised.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from typing import IO, Any, Final, TypeAlias

import cloudpickle

from boolab.errors import BoolabError, describe

Tasks: TypeAlias = "queue.SimpleQueue[bytes]"

_LENGTH: Final = 8


def serve() -> None:
    """Work until the driver is gone."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # Input and output of tools must not mix with the frames.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115 - as it is in a terminal
    # Ctrl-C goes to all processes of a terminal; the driver decides what to do with the work.
    signal.signal(signal.SIGINT, lambda *_: None)
    tasks: Tasks = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, tasks), daemon=True).start()
    while True:
        put_frame(answers, _outcome(tasks.get()))


def _listen(requests: IO[bytes], tasks: Tasks) -> None:
    """Queue tasks, and end the process with its driver: unfinished work is lost, but may cost money."""
    while (frame := get_frame(requests)) is not None:
        tasks.put(frame)
    os._exit(0)


def _outcome(frame: bytes) -> bytes:
    try:
        function, args = pickle.loads(frame)  # noqa: S301 - from the driver
        return dump_value((True, function(*args)))
    except BaseException as error:  # noqa: BLE001 - the driver raises it again
        error.add_note(f"In worker process {os.getpid()}:\n{traceback.format_exc()}")
        try:
            return dump_value((False, error))
        except Exception:  # noqa: BLE001 - pickling runs code of the exception
            return dump_value((False, BoolabError(f"in a worker process: {describe(error)}")))


def dump_value(value: object) -> bytes:
    """A value as bytes, with the definitions of functions and classes from `__main__`."""
    data: bytes = cloudpickle.dumps(value)
    return data


def put_frame(pipe: IO[bytes], frame: bytes) -> None:
    """Write a frame."""
    pipe.write(len(frame).to_bytes(_LENGTH))
    pipe.write(frame)
    pipe.flush()


def get_frame(pipe: IO[bytes]) -> bytes | None:
    """Read a frame; None if the other side is gone."""
    length = pipe.read(_LENGTH)
    if len(length) < _LENGTH:
        return None
    size = int.from_bytes(length)
    frame = pipe.read(size)
    return frame if len(frame) == size else None


def load_outcome(frame: bytes) -> tuple[bool, Any]:
    """The outcome of a task: whether it returned, and what it returned or raised."""
    outcome: tuple[bool, Any] = pickle.loads(frame)  # noqa: S301 - from a worker of our own
    return outcome
