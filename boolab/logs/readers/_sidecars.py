"""Small files beside logs, with facts about all of them. Each is read once, not once for each log."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

from boolab.io.files import no_file, read_file
from boolab.io.json_input import JSON, parse
from boolab.io.yaml_loader import DocumentError, read_yaml

_MAX_BYTES: Final = 16 * 2**20
_YAML: Final = (".yaml", ".yml")
_Content = TypeVar("_Content")
_Path = TypeVar("_Path", bound=str | Path)


def read_once(read: Callable[[_Path], _Content]) -> Callable[[_Path], _Content | None]:
    """The function, called once for each version of a file; None if there is no file."""

    @lru_cache(maxsize=4)
    def of_version(path: _Path, _changed: int, _size: int) -> _Content:
        return read(path)

    def of_file(path: _Path) -> _Content | None:
        try:
            stat = os.stat(path)  # noqa: PTH116 - it may be a text
        except (OSError, ValueError):
            return None
        return None if no_file(stat) else of_version(path, stat.st_mtime_ns, stat.st_size)

    return of_file


@read_once
def sidecar(path: str | Path) -> JSON:
    """The value of a YAML or JSON file; None if it is not there, not readable or too large."""
    try:
        data = read_file(path, _MAX_BYTES)
        return read_yaml(data.decode()).data if str(path).endswith(_YAML) else parse(data)
    except (OSError, ValueError, DocumentError):
        return None
