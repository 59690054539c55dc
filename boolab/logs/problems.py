"""What is wrong with logs, counted and named in one way: the files that were skipped, and warnings about the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from boolab.core.text import clean, count
from boolab.logs.load import FileRow


class Problems(NamedTuple):
    """What is wrong with logs."""

    skipped: tuple[FileRow, ...]  # the files that were not read
    warnings: tuple[str, ...]  # what could not be read in files that were, with path and line

    def __str__(self) -> str:
        """How many there are; empty if there are none."""
        skipped = [count(len(self.skipped), "skipped file")] if self.skipped else []
        warned = [count(len(self.warnings), "warning")] if self.warnings else []
        return ", ".join(skipped + warned)

    def lines(self) -> Iterator[str]:
        """A line for each, safe to print."""
        for row in self.skipped:
            yield f"{clean(row.path)}: skipped: {clean(str(row.skipped))}"
        yield from map(clean, self.warnings)


def problems_of(rows: Iterable[FileRow]) -> Problems:
    """What is wrong with the files of these rows."""
    file_rows = list(rows)
    read = [row for row in file_rows if row.skipped is None]
    skipped = tuple(row for row in file_rows if row.skipped is not None)
    return Problems(skipped, tuple(chain.from_iterable(row.warnings for row in read)))
