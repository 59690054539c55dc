"""What is run: the scripts under limits of 1, 3 and 10 in each way, and without a limit."""

from __future__ import annotations

from typing import Final, NamedTuple


class Case(NamedTuple):
    """One run.

    Attributes:
        harness: Which.
        script: The name of the script.
        way: How the limit is set; None for no limit.
        limit: The limit, in the harness's own unit; None for none.
    """

    harness: str
    script: str
    way: str | None = None
    limit: float | None = None

    @property
    def name(self) -> str:
        """Its name among those of its harness."""
        return f"{self.script} {self.way} {self.limit:g}" if self.way else self.script


def _each(harness: str, script: str, way: str, *limits: float) -> list[Case]:
    return [Case(harness, script, way, limit) for limit in limits]


def _edges(harness: str, way: str) -> list[Case]:
    """Limits of 1, 3 and 10, and what happens near 3."""
    return [
        *_each(harness, "different", way, 1, 3, 10),
        *(Case(harness, script, way, 3) for script in ("same", "batch", "finish-3", "finish-4")),
    ]


CASES: Final = (
    Case("claude-code", "different"),
    Case("claude-code", "same"),
    Case("claude-code", "delegate"),
    *_edges("claude-code", "flag"),
    Case("claude-code", "different", "flag", 0),
    *_each("claude-code", "different", "environment", 1, 3, 10),
    *_each("claude-code", "different", "user-settings", 1, 3, 10),
    *_each("claude-code", "different", "settings", 3),
    *_each("claude-code", "different", "agent", 3),
    *_each("claude-code", "different", "budget", 0.0023, 0.0024, 0.0025),
    Case("claude-code", "finish-3", "budget", 0.0024),
    *_each("claude-code", "delegate", "subagent", 1, 3, 10),
    *_each("claude-code", "delegate", "subagent-json", 1, 3, 10),
    *_each("claude-code", "delegate", "main-flag-subagent", 3),
    Case("opencode", "different"),
    Case("opencode", "same"),
    Case("opencode", "delegate"),
    *_edges("opencode", "steps"),
    Case("opencode", "different", "steps", 0),
    *_each("opencode", "different", "maxSteps", 3),
    *_each("opencode", "delegate", "subagent", 1, 3, 10),
    *_each("opencode", "delegate", "main-steps-subagent", 3),
    Case("gemini-cli", "different"),
    Case("gemini-cli", "same"),
    Case("gemini-cli", "delegate"),
    *_edges("gemini-cli", "session"),
    Case("gemini-cli", "different", "session", 0),
    *_each("gemini-cli", "delegate", "subagent", 1, 3, 10),
    *_each("gemini-cli", "delegate", "overrides", 3),
    *_each("gemini-cli", "delegate", "main-session-subagent", 3),
    Case("codex", "different"),
    Case("codex", "same"),
    *_each("codex", "different", "budget", 120, 300, 360, 1200),
    Case("codex", "batch", "budget", 300),
    Case("codex", "finish-3", "budget", 360),
)
"""All that is run. A response of the scripted model costs $0.0008 in Claude Code and has 120 tokens everywhere."""
