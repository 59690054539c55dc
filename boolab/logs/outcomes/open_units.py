"""Which unit each person looks at now: a file beside the file of labels, so that each gets another one.

It is no part of the labels. What cannot be read, or is older than half an hour, holds nothing back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from boolab.io.files import read_file
from boolab.io.json_input import mapping, parse

SUFFIX: Final = ".open"
SECONDS: Final = 1_800
"""After so long a unit is given to others too: whoever had it may have been killed."""
_MAX_BYTES: Final = 2**20


def take_unit(labels: Path, prints: Sequence[str], who: str) -> str:
    """Take the first open unit that no other person looks at; the first of all where each has one.

    The file of labels has to be locked. `prints`: the open units in their order, at least one.
    """
    file = labels.with_name(labels.name + SUFFIX)
    now = time.time()
    other_units = {name: unit for name, unit in _read(file).items() if name != who and abs(now - unit["at"]) < SECONDS}
    taken_prints = {unit["print"] for unit in other_units.values()}
    print_ = next((print_ for print_ in prints if print_ not in taken_prints), prints[0])
    with suppress(OSError):  # then others may get it too
        file.write_text(json.dumps({**other_units, who: {"print": print_, "at": now}}), encoding="utf-8")
    return print_


def _read(file: Path) -> dict[str, dict[str, Any]]:
    """The unit of each person, and since when."""
    try:
        people = mapping(parse(read_file(file, _MAX_BYTES)))
    except (OSError, ValueError):
        return {}
    units = {str(who): mapping(unit) for who, unit in people.items()}
    return {who: dict(unit) for who, unit in units.items() if isinstance(unit.get("at"), int | float)}
