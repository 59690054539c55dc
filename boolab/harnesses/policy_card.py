"""A policy as a card, and all presets as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from boolab.display.card import card, escaped, facts, table
from boolab.limits.table import LIMITS

if TYPE_CHECKING:
    from boolab.harnesses.policy import Policy


def policy_card(policy: Policy) -> str:
    """The display of a policy in a notebook.

    Example:
        >>> import boolab as bl
        >>> "doom-loop threshold 3" in policy_card(bl.policies["boocode"])
        True
    """
    about = policy.about
    rows = [("loop style", about.loop_style), ("finish guard", about.finish_guard), ("weakness", about.weakness)]
    known = [row for row in rows if row[1]]
    return card(
        f"<p><b>{escaped(policy.name)}</b></p>",
        facts(default_limits(policy)),
        table(("", "how it works"), known) if known else "",
        facts([about.source]),
        then="bl.compare_policies(policy, another) shows where two differ; policy.vary(...) makes a variant",
    )


def default_limits(policy: Policy) -> list[str]:
    """The limits that hold where an agent sets none, for an agent that writes.

    Example:
        >>> import boolab as bl
        >>> default_limits(bl.policies["naive"])
        ['step cap: no limit up to 1,000']
    """
    return [_limit(name, value, policy.cap.ceiling) for name, value in policy.effective({}).items()]


def _limit(name: str, value: int | None, ceiling: int | None) -> str:
    label = LIMITS[name].label
    if value is not None:
        return f"{label} {value:,}"
    return f"{label}: no limit up to {ceiling:,}" if name == "max_steps" and ceiling else f"{label}: no limit"


def presets_table(presets: Mapping[str, Policy]) -> str:
    """Policies as a table: name, limits, how each ends a run, and its weakness."""
    rows = [
        (name, ", ".join(default_limits(one)), one.about.finish_guard, one.about.weakness)
        for name, one in presets.items()
    ]
    head = ("policy", "limits, where the agent sets none", "finish guard", "weakness")
    return card(table(head, rows), then="bl.compare_policies(name, name) shows all that differs")
