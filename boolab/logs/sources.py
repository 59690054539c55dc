"""Where records come from, and where the harness of each source counts its limits.

A harness either counts steps and calls anew from each message of the user on (`turn`: what `--max-turns` and its like
mean in an interactive agent), or through the whole run (`run`: what benchmarks do, where a simulated user's messages
are part of one task). The `SCOPE` of each reader says which.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, cast

from boolab.logs.load import readers

SourceScope: TypeAlias = Literal["turn", "run"]

DEFAULT_SCOPE: Final[SourceScope] = "turn"
"""The scope of boolab's own runs, and of sources whose harness is not known."""


def scope_of(source: str | None) -> SourceScope:
    """Where the harness of a source counts its limits.

    Args:
        source: The source of runs, as `Run.source` gives it; None where it is not known.

    Returns:
        `run` if its limits hold for the whole run, `turn` if they start anew in each turn. `turn` for boolab's own
        runs, and for sources that no reader of boolab has.

    Example:
        >>> scope_of("tau_bench"), scope_of("claude_code"), scope_of("boolab"), scope_of(None)
        ('run', 'turn', 'turn', 'turn')
    """
    reader = readers().get(source) if isinstance(source, str) else None
    return cast("SourceScope", getattr(reader, "SCOPE", DEFAULT_SCOPE))
