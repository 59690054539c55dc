"""Small JSON and YAML files that stand beside logs and tell of all of them: read once, not once for each log."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from boolab.documents import DocumentError, read_yaml
from boolab.files import no_file
from boolab.readers.lines import parse

_LARGEST: Final = 16 * 2**20
_YAML: Final = (".yaml", ".yml")


def sidecar(path: Path) -> Any:  # noqa: ANN401 - any JSON value
    """The value of the file, which is YAML if its name says so, else JSON.

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
def _value(path: Path, changed: int, size: int) -> Any:  # noqa: ANN401, ARG001 - any JSON value; a changed file is another
    try:
        data = path.read_bytes()
        return read_yaml(data.decode()).data if path.suffix in _YAML else parse(data)
    except (OSError, ValueError, DocumentError):
        return None
