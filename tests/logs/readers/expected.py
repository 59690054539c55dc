"""What a correct reader reports for each of the sample trajectories, counted apart from the readers.

The numbers were counted from the files by plain code that shares none with the readers; where a note says so, what is
right was chosen by reading the file, and the note names the alternative (the doubtful ones begin with AMBIGUOUS).

- A step is one response of a model. A call with a result is in `calls`, one without is in `dropped`.
- A turn begins at a message of the user's own that at least one step answers; steps before any message are a turn too.
- `errors` counts the calls that failed: flagged as an error, or left with an exit code other than 0. It is None if the
  log does not say of some call; where an exit code stands only in text, at the head of which the harness put it, the
  text is read unless there is a flag as well.
- Input is with everything cached, output with the reasoning, summed over the steps; None if a step has no usage.
- Sums over nothing are 0. `successes` is None if no run has a label.
- Without a format there is nothing to read: the note begins with `refused` (an error), `belongs to` (a part of another
  log) or `no log` (neither a log nor an error).
"""

import csv
from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.support.project import ROOT


class Expected(NamedTuple):
    """What to expect of one file, a row of tests/data/expected.csv: the numbers are over all of its runs."""

    path: str
    format: str | None
    runs: int | None = None
    steps: int | None = None
    calls: int | None = None
    errors: int | None = None
    dropped: int | None = None
    turns: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    successes: int | None = None
    note: str = ""


def _row(said: Mapping[str, str]) -> Expected:
    numbers = {name: int(said[name]) if said[name] else None for name in Expected._fields[2:-1]}
    return Expected(said["path"], said["format"] or None, **numbers, note=said["note"])


with (ROOT / "tests/data/expected.csv").open(encoding="utf-8", newline="") as _file:
    EXPECTED: Final = tuple(map(_row, csv.DictReader(_file)))
