"""Which limits bind: how often each stopped anybody, how much room it leaves, and which can never fire."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from boolab.core.types import Run
from boolab.frames.dtypes import FLOAT, INT, TEXT, cells
from boolab.harnesses.policy import Policy
from boolab.limits.table import AGENT_LIMITS
from boolab.live.audits.count import PLAIN
from boolab.live.audits.declared import Declared, Limit, limits_of
from boolab.live.audits.verdicts import Row

COLUMNS: Final[Mapping[str, str]] = {
    "agent": TEXT,
    "source": TEXT,
    "limit": TEXT,
    "declared": FLOAT,
    "unit": TEXT,
    "n_runs": INT,
    "n_hit": INT,
    "n_at_limit": INT,
    "n_exceeded": INT,
    "n_reported_finished": INT,
    "largest": FLOAT,
    "p95": FLOAT,
    "slack": FLOAT,
    "slack_p95": FLOAT,
    "never_fires_under": TEXT,
}
_SHARE: Final = 0.95


def outranked(
    run: Run, declared: Iterable[Declared], policy: Policy | str | None, *, log: bool
) -> dict[tuple[str, float], str]:
    """Why a limit of a run can never fire, by its name and value: another one always fires first."""
    limits = limits_of(run, declared, policy, log=log)
    found: dict[tuple[str, float], str] = {}
    harness = next((one.policy for one in limits if one.policy is not None), PLAIN)
    asked: dict[str, Any] = dict.fromkeys(AGENT_LIMITS)
    named: dict[str, Limit] = {}
    for one in limits:
        axis = one.native.axis
        if axis in AGENT_LIMITS and axis not in named and float(one.value).is_integer():
            asked[axis], named[axis] = int(one.value), one
    order = (*harness.order, *(axis for axis in named if axis not in harness.order))
    free = harness.vary(order=order, cap={"ceiling": None}) if order != harness.order else harness.vary(
        cap={"ceiling": None}
    )  # fmt: skip
    for axis, first in free.never_fires(asked).items() if len(named) > 1 else ():
        if axis in named:
            found[named[axis].name, named[axis].value] = first.why
    messages = next((one for one in limits if one.native.axis == "messages"), None)
    turns = named.get("max_steps")
    if messages is not None and turns is not None and messages.value <= 2 * turns.value + 1:
        why = f"a turn makes two messages at least, so {messages.name} {messages.value:g} comes before it"
        found[turns.name, turns.value] = why
    return found


def binding_of(rows: Sequence[Row], never: Mapping[tuple[str, str, float], str]) -> pd.DataFrame:
    """A row for each agent and limit."""
    groups: dict[tuple[str, str, str, float | None, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.agent, row.source, row.limit, row.declared, row.unit), []).append(row)
    found = []
    for (agent, source, limit, declared, unit), part in groups.items():
        known = sorted(row.counted for row in part if row.counted is not None)
        largest = known[-1] if known else None
        p95 = known[math.ceil(_SHARE * len(known)) - 1] if known else None
        under = {"" if declared is None else never.get((row.run_id, limit, declared), "") for row in part}
        found.append(
            {
                "agent": agent,
                "source": source,
                "limit": limit,
                "declared": declared,
                "unit": unit,
                "n_runs": len(part),
                "n_hit": sum(row.verdict == "hit" for row in part),
                "n_at_limit": sum(row.verdict == "at limit" for row in part),
                "n_exceeded": sum(row.verdict == "exceeded" for row in part),
                "n_reported_finished": sum(row.reported_finished for row in part),
                "largest": largest,
                "p95": p95,
                "slack": None if largest is None or declared is None else declared - largest,
                "slack_p95": None if p95 is None or declared is None else declared - p95,
                "never_fires_under": under.pop() or None if len(under) == 1 else None,
            }
        )
    return pd.DataFrame({name: cells([row[name] for row in found], kind) for name, kind in COLUMNS.items()})
