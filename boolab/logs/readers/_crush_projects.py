"""Where Crush worked: its list of projects, each with the folder of its database."""

from __future__ import annotations

from collections.abc import Mapping
from glob import has_magic
from itertools import islice
from pathlib import Path
from typing import Final

from boolab.io.files import read_file
from boolab.io.json_input import items, mapping, parse, text

_MAX_BYTES: Final = 2**20
_MAX_PROJECTS: Final = 1000


def databases(home: Path, variables: Mapping[str, str]) -> list[str]:
    """The databases of the projects in Crush's `projects.json`, those last used first; none if it cannot be read."""
    data_home = variables.get("XDG_DATA_HOME") or str(home / ".local" / "share")
    folder = variables.get("CRUSH_GLOBAL_DATA") or f"{data_home}/crush"
    try:
        listed = parse(read_file(Path(folder) / "projects.json", _MAX_BYTES))
    except (OSError, ValueError):
        return []
    folders = (text(mapping(project).get("data_dir")) for project in items(mapping(listed).get("projects")))
    # Others' paths are used as they are: none is a pattern, and none is relative to the folder of this process.
    plain = (path for path in folders if path.isprintable() and Path(path).is_absolute() and not has_magic(path))
    return [str(Path(path) / "crush.db") for path in islice(dict.fromkeys(plain), _MAX_PROJECTS)]
