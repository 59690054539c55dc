"""The atlas: recordings that come with boolab, a file for each set.

Those of public runs, as facts, are in `datasets/atlas`; those of a small model, with texts, in `datasets/local`.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Final

from boolab.errors import SettingError, near
from boolab.io.resources import SET_FOLDERS, data_path

ATLAS: Final = "atlas"
"""The name of all sets together; that of one is `atlas/` and its own."""
SUFFIX: Final = ".jsonl.bz2"
BY_NAME_ONLY: Final = (
    "atlas/coding-sessions",
    "atlas/local-fix",
    "atlas/local-maze",
    "atlas/sentinel-booking",
    "atlas/sentinel-faults",
)
"""The sets of later editions: `atlas` alone is the first one, on which the study and the leaderboard rest."""


def atlas_sets() -> dict[str, Path]:
    """The file of each set by its full name, in the order of these, those of `BY_NAME_ONLY` included."""
    folders = (data_path("datasets") / folder for folder in SET_FOLDERS)
    files = sorted(chain.from_iterable(folder.glob(f"*{SUFFIX}") for folder in folders), key=lambda path: path.name)
    return {f"{ATLAS}/{path.name.removesuffix(SUFFIX)}": path for path in files}


def atlas_files(name: str) -> list[Path]:
    """The files of `atlas` (those of the first edition) or of one of its sets; none if this is no such name."""
    sets = atlas_sets()
    if name == ATLAS:
        return [path for one, path in sets.items() if one not in BY_NAME_ONLY]
    if name in sets:
        return [sets[name]]
    if name.startswith(f"{ATLAS}/"):
        raise SettingError(f"there is no {name!r}, neither a path nor a set of the atlas{near(name, sets, 'sets')}")
    return []
