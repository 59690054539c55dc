"""When the history of a run was compacted: a summary took the place of what came first."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from boolab.core.types import Run

RECORDED_BY: Final = frozenset(
    ("boolab", "claude_code", "cline", "codex", "gemini", "inspect", "opencode", "openhands", "openhands_sdk", "pi")
)
"""The formats whose readers report compactions as events. Others hold none, or do not report them."""


def compactions_of(run: Run) -> dict[int, int] | None:
    """How often the history was compacted before each step.

    Returns how often, by the number of the step that followed; without the steps before which it was not. None if the
    record does not report whether it was.

    Example:
        >>> import boolab as bl
        >>> from boolab.core.types import Event
        >>> from dataclasses import replace
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> compactions_of(run), compactions_of(replace(run, source="tau_bench"))
        ({}, None)
        >>> compactions_of(replace(run, events=(Event(None, "compaction", {"after_step": 2}),)))
        {3: 1}
    """
    found: defaultdict[int, Counter[bool]] = defaultdict(Counter)
    for _, kind, payload in run.events:
        if kind == "compaction":
            after: object = payload.get("after_step")
            found[after + 1 if isinstance(after, int) else 1]["auto" in payload] += 1
    if not found and run.source not in RECORDED_BY:
        return None
    # opencode writes two messages for one compaction: what requested it (`auto`), and the summary.
    return {step: max(kinds.values()) for step, kinds in found.items()}
