"""Several policies in one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from boolab.errors import SettingError
from boolab.frames.dtypes import text
from boolab.frames.runs import by_columns
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy

COLUMN = "policy"


def named_policies(policies: Sequence[str | Policy], by: str | Sequence[str] | None) -> list[Policy]:
    """The policies of a table.

    Raises:
        SettingError: if there are none, two of them have the same name, or the runs are to be grouped by a column of
            the same name.
    """
    every = [get_policy(policy) for policy in policies]
    names = [policy.name for policy in every]
    if not every:
        msg = "policy=[]: expected at least one policy"
        raise SettingError(msg)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        msg = f"two policies are called {twice!r}: give one of them another name with vary(name=...)"
        raise SettingError(msg)
    if COLUMN in by_columns(by):
        msg = "by='policy': with several policies the column has their names: rename yours in the frame"
        raise SettingError(msg)
    return every


def under_each(policies: Sequence[Policy], table: Callable[[Policy], pd.DataFrame]) -> pd.DataFrame:
    """The tables of policies below each other, with their names in the first column, or after the run."""
    frames = []
    for policy in policies:
        frame = table(policy)
        frame.insert(int("run_id" in frame), COLUMN, text([policy.name] * len(frame)))
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)
