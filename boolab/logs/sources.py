"""The scope in which the harness of each source counts its limits.

A harness counts steps and calls anew from each message of the user on (`turn`, as `--max-turns` in an interactive
agent), or through the whole run (`run`, as in benchmarks, where a simulated user's messages are part of one task). The
`SCOPE` of each reader is one of these.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, cast

from boolab.logs.load import readers

SourceScope: TypeAlias = Literal["turn", "run"]

DEFAULT_SCOPE: Final[SourceScope] = "turn"
"""The scope of boolab's own runs, and of sources whose harness is not known."""


def scope_of(source: str | None) -> SourceScope:
    """`run` if the limits of a source's harness hold for the whole run, `turn` if they start anew in each turn.

    `source`: the source of runs, as `Run.source` gives it; None if it is not known. Returns the scope; `DEFAULT_SCOPE`
    for sources without a reader.

    Example:
        >>> scope_of("tau_bench"), scope_of("claude_code"), scope_of("boolab"), scope_of(None)
        ('run', 'turn', 'turn', 'turn')
    """
    reader = readers().get(source) if isinstance(source, str) else None
    return cast("SourceScope", getattr(reader, "SCOPE", DEFAULT_SCOPE))
