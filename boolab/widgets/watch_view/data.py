"""A fleet as plain data for the widget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from boolab.core.text import clean, shorten
from boolab.live.follow.fleet import AgentRow, Change, Fleet
from boolab.live.follow.row_text import alert_line, limit_text, name_of, row_data, state_of

MAX_ROWS: Final = 200
"""How many agents are shown at most."""
MAX_ALERTS: Final = 20
"""How many of the latest alerts are shown."""


def watch_data(fleet: Fleet, alerts: Sequence[dict[str, Any]], *, following: bool) -> dict[str, Any]:
    """What the widget shows: the agents that run, and the latest alerts, the newest first."""
    rows = fleet.rows(running=fleet.since is None)
    return {
        "rule": None if fleet.rule is None else str(fleet.rule),
        "following": following,
        "files": fleet.files,
        "n_rows": len(rows),
        "n_fired": sum(row.fired is not None for row in rows),
        "rows": [_row(row) for row in rows[:MAX_ROWS]],
        "alerts": [*alerts[-MAX_ALERTS:]][::-1],
        "n_alerts": sum(alert["kind"] == "fires" for alert in alerts),
    }


def alert_of(change: Change, at: float) -> dict[str, Any]:
    """An alert, or that one is withdrawn; `at` is when it came, in seconds since 1970."""
    fired = change.fired
    return {
        "kind": change.kind,
        "at": at,
        "run": change.row.run_id,
        "step": 1 if fired is None else fired.number,
        "reason": "" if fired is None else fired.stop.reason,
        "text": alert_line(change),
    }


def _row(row: AgentRow) -> dict[str, Any]:
    fired = row.fired
    return {
        **{name: value for name, value in row_data(row).items() if name not in ("limits", "path")},
        "name": name_of(row),
        "title": clean(f"{row.run_id} in {row.path}"),
        "task": shorten(row.task, 90),
        "depth": row.depth,
        "limits": [
            {"text": limit_text(limit), "share": min(limit.share, 1.0), "reason": limit.reason} for limit in row.limits
        ],
        "state": state_of(row),
        "reason": None if fired is None else fired.stop.reason,
        "step": row.steps if fired is None else fired.number,
    }
