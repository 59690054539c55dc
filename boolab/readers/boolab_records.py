"""boolab's own records: what `save_runs` wrote. One run a line; see `boolab.records`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from boolab.readers.lines import Damage, Head, Warn, json_lines, parse_exactly, warn_reader
from boolab.records import KEY, decode_run
from boolab.types import Run

NAME: Final = "boolab"
SUFFIXES: Final = (".jsonl",)
PLACES: Final = ()
LOOKED_FOR: Final = f'JSON lines that begin with {{"{KEY}": '

_START: Final = f'{{"{KEY}":'.encode()


def sniff(head: Head) -> bool:
    """Whether one of the first lines is a record of boolab's."""
    return any(line.startswith(_START) for line in head.data.removeprefix(b"\xef\xbb\xbf").splitlines())


def read(path: Path, warn: Warn = warn_reader) -> list[Run]:
    """The runs of one file.

    Raises:
        RunFormatError: if nothing in it can be read.
    """
    damage = Damage(path)
    runs = []
    for number, row in json_lines(path, damage, parse=parse_exactly):
        try:
            runs.append(decode_run(row))
        except ValueError as error:
            damage.note(number, str(error))
    damage.tell(warn, readable=bool(runs))
    return runs
