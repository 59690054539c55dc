"""The name of the data set that a table is made of, kept with the table for the figures that are drawn from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from boolab.core.run import Run

SET: Final = "set"
"""The entry of `Run.settings` that names the data set of a run, the column of it, and the attribute of a table."""


def set_of(runs: object) -> str:
    """The data set that all these runs, or rows, are of; empty if they name none, or several, or are not in memory."""
    if isinstance(runs, pd.DataFrame):
        names = set(runs[SET].dropna()) if SET in runs else set()
    else:
        run_list = runs if isinstance(runs, Sequence) and not isinstance(runs, str) else [runs]
        names = {run.settings.get(SET) if isinstance(run, Run) else None for run in run_list}
    return str(names.pop() or "") if len(names) == 1 else ""


def attach_set(frame: pd.DataFrame, runs: object) -> pd.DataFrame:
    """The frame, which is made of these runs; it has the name of their data set, if there is one, in `attrs`."""
    name = set_of(runs)
    if name:
        frame.attrs[SET] = name
    return frame
