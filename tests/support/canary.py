"""A key that is in the environment of the whole test-suite, and must turn up nowhere.

Each session has its own, so that what an earlier one left behind does not count, and hands it on to the processes that
it starts.
"""

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from uuid import uuid4

_NAME: Final = "BOOLAB_TEST_CANARY"
CANARY: Final = os.environ.setdefault(_NAME, f"sk-canary-{uuid4().hex}")
KEYS: Final = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")


def sing() -> None:
    """Put the canary where keys are looked for, for this process and for those that it starts."""
    os.environ.update(dict.fromkeys(KEYS, CANARY))


def files_with(canary: str, folders: Iterable[Path]) -> list[Path]:
    """The files under some folders that hold it, in their names included."""
    sought = canary.encode()
    # A link holds nothing: what it leads to may be a file of the kernel, which has this very environment.
    found = [
        path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()
    ]
    return [path for path in found if canary in path.name or sought in _content(path)]


def _content(path: Path) -> bytes:
    """All of a file, also of one that a test took its own right to read away from; nothing of one that is gone."""
    try:
        return path.read_bytes()
    except FileNotFoundError:  # of another process, which works in the same folder meanwhile
        return b""
    except PermissionError:
        path.chmod(0o600)
        return path.read_bytes()


class Listening(logging.Handler):
    """Listens to all log records of the process and keeps the names of the loggers whose records hold the canary."""

    def __init__(self, canary: str) -> None:
        super().__init__(logging.NOTSET)
        self._canary = canary
        self._plain = logging.Formatter()
        self.sung_by: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if self._canary in self._plain.format(record) or self._canary in repr(record.args):
            self.sung_by.append(record.name)
