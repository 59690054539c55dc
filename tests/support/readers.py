"""Readers as the loader uses them, for tests of one format."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

from boolab.core.types import Run
from boolab.errors import ReadWarning
from boolab.logs.load import read_file, readers


def _warn(message: str) -> None:
    warnings.warn(message, ReadWarning, stacklevel=2)


def reader_of(name: str) -> Callable[..., list[Run]]:
    """A function that reads a file in this format. Warnings are `ReadWarning`s, or go to its second argument."""

    def read(path: Path, warn: Callable[[str], None] = _warn) -> list[Run]:
        return read_file(readers()[name], path, warn)

    return read
