"""How runs end, in plain words."""

from __future__ import annotations

from boolab.core.run import Run, stop_place
from boolab.limits.table import LIMIT_OF_REASON, LIMITS


def reason_words(reason: str) -> str:
    """A stop reason in words."""
    return LIMITS[LIMIT_OF_REASON[reason]].label if reason in LIMIT_OF_REASON else reason.replace("_", " ")


def end_words(run: Run) -> str:
    """How a run ended."""
    stop, place = run.stop, stop_place(run)
    if stop.reason not in LIMIT_OF_REASON:
        rule = f", by {stop.rule}" if stop.rule else ""
        return f"{reason_words(stop.reason)} {place}{rule}"
    axis = LIMITS[LIMIT_OF_REASON[stop.reason]]
    # Thresholds of costs and times are in the units of the record.
    value = "" if stop.threshold is None or axis.fractions else f" of {stop.threshold:,}"
    return f"stopped {place} by its {axis.label}{value}"
