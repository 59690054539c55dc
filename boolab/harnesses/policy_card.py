"""What a notebook shows of a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from boolab.display.document import Document, Facts, Table
from boolab.harnesses.groups import About
from boolab.limits.table import LIMITS


def policy_document(name: str, about: About, limits: Sequence[str]) -> Document:
    """A policy: its limits where an agent sets none, how it works, and where that is from."""
    rows = [("loop style", about.loop_style), ("finish guard", about.finish_guard), ("weakness", about.weakness)]
    known = [row for row in rows if row[1]]
    return Document(
        title=name,
        lead=[Facts(limits)],
        table=Table(["", "how it works"], known) if known else None,
        paragraphs=[Facts([about.source])],
        footer="bl.compare_policies(policy, another) shows where two differ; policy.vary(...) makes a variant",
        card=True,
    )


def default_limits(settings: Mapping[str, int | None], ceiling: int | None) -> list[str]:
    """Limits in words: those that hold where an agent sets none are `policy.effective({})`."""
    return [_limit(name, value, ceiling) for name, value in settings.items()]


def _limit(name: str, value: int | None, ceiling: int | None) -> str:
    label = LIMITS[name].label
    if value is not None:
        return f"{label} {value:,}"
    return f"{label}: no limit up to {ceiling:,}" if name == "max_steps" and ceiling else f"{label}: no limit"
