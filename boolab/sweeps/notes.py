"""What decided the numbers of a sweep besides its grid, in sentences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from boolab.core.text import clean, count, first_of
from boolab.limits.table import AGENT_LIMITS, LIMIT_OF_REASON, LIMITS

if TYPE_CHECKING:
    from boolab.sweeps.progress import CellResult

_NUMBER: Final = re.compile(r"\D*(\d+)\D*")
_CEILING: Final = "ceiling("
_MAX_NAMES: Final = 5


class Notes:
    """Counts the runs of a sweep that a limit outside of the grid stopped, and the tools that were called.

    A sweep whose grid has no limit compares no limits, so what its agents' own limits stop needs no note.

    `about`: what the sweep is made of, as `Plan.about`: `grid`, and `tools` by agent.

    Example:
        >>> from boolab.sweeps.progress import CellResult
        >>> notes = Notes({"grid": {"max_steps": [5, 20]}, "tools": {"a": ["search"]}})
        >>> facts = ("m", "boocode", "t", {"max_steps": 20}, "tool_budget", 10, None, None, None, None)
        >>> notes.add(CellResult("r", "a", *facts, "tool_budget(10)", ("ls",)))
        >>> first, second = notes.sentences(); print(first); print(second)
        1 of 1 run was stopped by a tool budget of 10, which is not in the grid: "tool_budget": [None] takes it off.
        No tool of agent a (search) was called in its 1 run, only others: ls.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        grid = about.get("grid", {})
        self._axes = {*grid} if {*grid} & {*AGENT_LIMITS, "temperature"} else None
        self._tools: Mapping[str, list[str]] = about.get("tools", {})
        self._stops: Counter[tuple[str, str, str]] = Counter()
        self._runs: Counter[str] = Counter()
        self._called: dict[str, dict[str, None]] = {}

    def add(self, result: CellResult) -> None:
        """Count a run."""
        self._runs[result.agent] += 1
        if result.agent in self._tools:
            self._called.setdefault(result.agent, {}).update(dict.fromkeys(result.tools))
        axis = LIMIT_OF_REASON.get(result.reason)
        if axis is None or self._axes is None or not result.rule:
            return
        if result.rule.startswith(_CEILING) or axis not in self._axes:
            self._stops[axis, result.rule, result.policy] += 1

    def sentences(self) -> Iterator[str]:
        """The notes: on limits, the most frequent first, then on tools."""
        limits: Counter[tuple[str, str]] = Counter()
        for (axis, rule, policy), n in self._stops.items():
            limits[_limit(axis, rule, policy)] += n
        total = self._runs.total()
        for (limit, advice), n in limits.most_common():
            yield f"{n:,} of {count(total, 'run')} {'was' if n == 1 else 'were'} stopped by {limit}: {advice}."
        for agent, names in self._tools.items():
            called = self._called.get(agent, {})
            if self._runs[agent] and not called.keys() & {*names}:
                listed = first_of([*map(clean, names)], _MAX_NAMES)
                others = f", only others: {first_of([*map(clean, called)], _MAX_NAMES)}" if called else ""
                runs = f"its {count(self._runs[agent], 'run')}"
                yield f"No tool of agent {clean(agent)} ({listed}) was called in {runs}{others}."


def _limit(axis: str, rule: str, policy: str) -> tuple[str, str]:
    """A limit outside of the grid, and how it is put into the grid or taken off."""
    number = _NUMBER.match(rule)
    value = None if number is None or axis not in AGENT_LIMITS else int(number[1])
    if rule.startswith(_CEILING):
        return f"the ceiling of {value} steps of policy {clean(policy)}", (
            f"bl.policies[{policy!r}].vary(name=..., cap={{'ceiling': None}}) is that policy without it"
        )
    label = f"{LIMITS[axis].label}" if value is None else f"{LIMITS[axis].label} of {value}"
    limit = f"a{'n' if label[0] in 'aeiou' else ''} {label}, which is not in the grid"
    return limit, f'"{axis}": [None] takes it off' if axis in AGENT_LIMITS else f"it is one of policy {clean(policy)}"
