"""Where counters start again: at each user message (`turn`), or never (`run`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from boolab.core.types import Scope
from boolab.errors import SettingError
from boolab.logs.log_files import scope_of

OwnLimits: TypeAlias = Literal["kept", "lifted"]


def check_scope(scope: str) -> None:
    """Raise `SettingError` unless `scope` is known."""
    if scope not in ("auto", "turn", "run"):
        msg = (
            f"scope={scope!r} is not known; accepted: turn (counters start anew at each user message), run, auto (as "
            "the harness of each source counts)"
        )
        raise SettingError(msg)


def check_own_limits(own_limits: str) -> None:
    """Raise `SettingError` unless `own_limits` is known."""
    if own_limits not in ("kept", "lifted"):
        msg = (
            f"own_limits={own_limits!r} is not known; accepted: kept (the limits of the recording stay in force), "
            "lifted (they are gone)"
        )
        raise SettingError(msg)


def scopes_of(sources: Sequence[str | None], scope: Scope) -> list[str]:
    """The scope of each run, "turn" or "run", by its source; "auto" is as the harness of each source counts."""
    if scope != "auto":
        return [scope] * len(sources)
    known = {source: scope_of(source) for source in set(sources)}
    return [known[source] for source in sources]


def one_scope(sources: Sequence[str | None], scope: Scope) -> str:
    """The scope of runs that have one answer, which must not mix two."""
    check_scope(scope)
    named: dict[str, dict[str, None]] = {"turn": {}, "run": {}}
    for source, one in zip(sources, scopes_of(sources, scope), strict=True):
        named[one][source or "unknown"] = None
    if named["turn"] and named["run"]:
        turn, run = (", ".join(names) for names in named.values())
        msg = (
            f"limits start anew in each turn in the harness of {turn}, and count through the run in that of {run}, so "
            'one answer for all of them would blend two meanings: expected by="source", one source at a time, or '
            'scope="turn" or scope="run" for all'
        )
        raise SettingError(msg)
    return "run" if named["run"] else "turn" if named["turn"] or scope == "auto" else scope
