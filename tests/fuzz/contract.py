"""What holds of every input: it is read or refused with a `BoolabError`, in time, and in proportion to its size."""

import re
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from boolab.errors import BoolabError

SECONDS: Final = 2.0
"""How long one input may take, in seconds of CPU time: other work on the machine is not the reader's fault."""
BYTES: Final = 64 * 2**20
BYTES_PER_BYTE: Final = 200
"""One input may take `BYTES`, and so many times its own size, of memory beyond all that was ever taken before."""

_UNIT: Final = 1 if sys.platform == "darwin" else 1024
_PACKAGE: Final = str(Path(__file__).resolve().parents[2])
_PEAK: Final = re.compile(r"VmHWM:\s*(\d+) kB")
_NUMBER: Final = re.compile(r"0x[0-9a-f]+|\d+")


class TooSlowError(BaseException):
    """An input takes longer than `SECONDS`. It is no `Exception`: whoever catches those must not go on."""


class BrokenError(AssertionError):
    """What was read cannot be used, or is not what it should be."""


class Held(NamedTuple):
    """What became of one input."""

    read: bool
    seconds: float
    fault: str = ""
    place: str = ""


def hold(act: Callable[[], object], size: int) -> Held:
    """Do something with an input, and see that the contract holds. It is called in the main thread."""
    before, start = _most_memory(), time.process_time()
    read, fault, place = True, "", ""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            with _limited():
                act()
        except BoolabError:
            read = False
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - any other one is what is looked for
            read, fault, place = False, _described(error), _place(error)
    seconds = time.process_time() - start
    for warning in told if not fault else ():
        if not warning.category.__module__.startswith("boolab."):
            fault, place = f"{warning.category.__name__}: {warning.message}", f"{warning.filename}:{warning.lineno}"
    taken = _most_memory() - before
    if not fault and taken > BYTES + BYTES_PER_BYTE * size:
        fault, place = f"{taken:,} bytes of memory for an input of {size:,}", "memory"
    return Held(read, seconds, fault, place)


@contextmanager
def _limited() -> Iterator[None]:
    usual = signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, usual)


def _too_slow(_number: int, _frame: FrameType | None) -> None:
    raise TooSlowError(f"not done after {SECONDS} s of CPU time")


def _most_memory() -> int:
    """The most memory that this process ever had, in bytes.

    What getrusage(2) of Linux says would include what the process had before it became this program.
    """
    with suppress(OSError):
        return int(_PEAK.findall(Path("/proc/self/status").read_text())[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def _described(error: BaseException) -> str:
    try:
        said = str(error)
    except Exception as other:  # noqa: BLE001 - it is part of the fault
        said = f"(str of it raises {type(other).__name__})"
    return f"{type(error).__name__}: {said[:500]}"


def _place(error: BaseException) -> str:
    """The innermost line of ours that an error came through; what it says, without numbers, for broken promises."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(_PACKAGE)]
    if isinstance(error, BrokenError) or not ours:
        return f"{type(error).__name__}: {_NUMBER.sub('N', str(error))[:60]}"
    last = ours[-1]
    return f"{type(error).__name__} at {Path(last.filename).relative_to(_PACKAGE)}:{last.lineno}"
