"""Small JSON and YAML files beside logs, with facts about all of them. Each is read once, not once for each log."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from boolab.io.files import no_file
from boolab.io.json_input import JSON, parse
from boolab.io.yaml_loader import DocumentError, read_yaml

_LARGEST: Final = 16 * 2**20
_YAML: Final = (".yaml", ".yml")


def sidecar(path: Path) -> JSON:
    """The value of the file: YAML if its name ends so, else JSON.

    Returns:
        None if it is not there, not readable or too large to be one.
    """
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return None
    fits = not no_file(stat) and stat.st_size <= _LARGEST
    return _value(path, stat.st_mtime_ns, stat.st_size) if fits else None


@lru_cache(maxsize=4)
def _value(path: Path, _changed: int, _size: int) -> JSON:  # a file that was changed is read again
    try:
        data = path.read_bytes()
        return read_yaml(data.decode()).data if path.suffix in _YAML else parse(data)
    except (OSError, ValueError, DocumentError):
        return None
