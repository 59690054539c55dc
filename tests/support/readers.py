"""Readers as the loader uses them, for tests of one format."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path

from boolab.core.run import Run
from boolab.errors import ReadWarning
from boolab.logs.load import read_file
from boolab.logs.log_files import readers


def _warn(message: str) -> None:
    warnings.warn(message, ReadWarning, stacklevel=2)


def reader_of(name: str) -> Callable[..., list[Run]]:
    """A function that reads a file in this format. Warnings are `ReadWarning`s, or go to its second argument."""

    def read(path: Path, warn: Callable[[str], None] = _warn) -> list[Run]:
        return read_file(readers()[name], path, warn)

    return read


def only(runs: list[Run]) -> Run:
    """The one run that was read."""
    (run,) = runs
    return run


def fates(run: Run) -> list[list[bool | str | None]]:
    """What the log says of each call by step: whether it failed, or that it was dropped."""
    return [["dropped" if result is None else result.is_error for result in step.results] for step in run.steps]


def write_lines(path: Path, *lines: object) -> Path:
    """A file with a line of JSON for each value."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
