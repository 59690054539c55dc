"""What was declared: in the log itself, in configuration files, or by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias

from boolab.core.types import Run, Scope
from boolab.errors import SettingError, near
from boolab.harnesses.harness import Native
from boolab.harnesses.native_limits import every_name, find, harness_of, logged, names_of
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy, policies
from boolab.harnesses.registry import harness_of_source
from boolab.io.checks import repr_of

Given: TypeAlias = Mapping[str, float | Mapping[str, float]]
"""Limits by name, and by agent: `{"max_turns": 10, "explore": {"max_turns": 5}}`."""

ANY: Final = "*"
"""The agent that stands for all."""
THE_LOG: Final = "the log"
BY_HAND: Final = "by hand"


@dataclass(frozen=True, slots=True)
class Declared:
    """A limit that was declared somewhere.

    Attributes:
        name: Its name there.
        value: Its value, in the unit of that name.
        where: Where: a file with its line, `the log`, or `by hand`.
        agent: The agent that it is for; None for every run that no other run started, `*` for all runs.
        source: The source whose runs it is for; empty for any.
        changed: When the file was changed; None where there is none.
        weights: See `Native`.
        policy: The rules by which it is counted, where they are not those of the harness.
        scope: See `Native`.
    """

    name: str
    value: float
    where: str
    agent: str | None = None
    source: str = ""
    changed: datetime | None = None
    weights: tuple[float, float] = (1.0, 1.0)
    policy: Policy | None = None
    scope: Scope = "auto"

    def is_for(self, run: Run) -> bool:
        """Whether it is for a run."""
        if self.source and self.source != run.source:
            return False
        if self.agent is None:
            return run.parent_run_id is None
        # Claude Code names the agents of a plugin `plugin:agent`.
        names = [ANY, run.agent, run.agent.rpartition(":")[2]]
        if run.parent_run_id is None and run.agent in ("", run.source):
            writer = harness_of_source(run.source)
            names.append("" if writer is None else writer.default_agent)
        return self.agent in names


class Limit(NamedTuple):
    """A limit of one run, ready to be counted."""

    name: str
    value: float
    where: str
    native: Native
    policy: Policy | None
    changed: datetime | None


def by_hand(limits: Given) -> list[Declared]:
    """The limits of a mapping.

    Example:
        >>> [(one.name, one.value, one.agent) for one in by_hand({"max_turns": 10, "explore": {"max_turns": 5}})]
        [('max_turns', 10, None), ('max_turns', 5, 'explore')]
    """
    unchecked: object = limits
    if not isinstance(unchecked, Mapping):
        msg = f'limits: {limits!r} is not accepted; expected "auto", or a mapping such as {{"max_turns": 10}}'
        raise SettingError(msg)
    known = every_name()
    found = []
    for agent, name, value in _flat(limits):
        where = f"limits[{agent!r}]" if agent is not None else "limits"
        unchecked = value
        if isinstance(unchecked, bool) or not isinstance(unchecked, int | float) or not 0 <= unchecked < 2**53:
            msg = f"{where}: {name}={repr_of(value)} is not accepted; expected a number >= 0"
            raise SettingError(msg)
        if find(name, known) is None:
            raise SettingError(f"{where}: no harness has a limit {name!r}{near(name, sorted(known))}")
        found.append(Declared(name, value, BY_HAND, agent))
    if not found:
        msg = 'limits: it has no limit; expected "auto", or a mapping such as {"max_turns": 10}'
        raise SettingError(msg)
    return found


def _flat(limits: Given) -> Iterator[tuple[str | None, str, float]]:
    for name, value in limits.items():
        if isinstance(value, Mapping):
            for inner, amount in value.items():
                yield name, str(inner), amount
        else:
            yield None, str(name), value


def limits_of(run: Run, declared: Iterable[Declared], policy: Policy | str | None, *, log: bool) -> list[Limit]:
    """The limits of a run: those in its record, if `log`, and the declared ones that are for it.

    One that stands in several places with the same value is one limit, and the file is named. Of an agent's own limits
    and those for all agents, its own hold.
    """
    harness = harness_of(run.source, run.policy) if policy is None else get_policy(policy)
    mine = [one for one in declared if one.is_for(run)]
    own = {one.name for one in mine if one.agent not in (None, ANY)}
    mine = [one for one in mine if one.agent != ANY or one.name not in own]
    recorded = logged(run.source, run.limits) if log else ()
    found: dict[tuple[str, str, float], Limit] = {}
    for one in (*mine, *(Declared(name, value, THE_LOG) for name, value in recorded)):
        limit = _resolved(one, run, harness)
        if limit is not None:
            found.setdefault((limit.native.axis, limit.native.scope, limit.value * limit.native.factor), limit)
    return list(found.values())


def _resolved(one: Declared, run: Run, harness: Policy | None) -> Limit | None:
    """The limit under the run's harness; None if that has none of this name, or the value switches it off."""
    harness = harness if one.policy is None else one.policy
    known = names_of(run.source, harness)
    name = find(one.name, known)
    if name is None and harness is None:
        every = every_name()
        owners = every.get(find(one.name, every) or "", [])
        owner = "langgraph_react" if "langgraph_react" in owners else owners[0] if len(owners) == 1 else ""
        if owner in policies:
            harness = get_policy(owner)
            known = names_of(run.source, harness)
            name = find(one.name, known)
    if name is None:
        return None
    native = known[name]._replace(weights=one.weights)
    native = native if one.scope == "auto" else native._replace(scope=one.scope)
    if native.policy and (run.parent_run_id is not None or one.agent is not None):
        harness = get_policy(native.policy)
    zero = harness.cap.zero if harness is not None else "plain"
    if native.axis == "max_steps" and one.value == 0 and zero in ("unlimited", "default", "invalid"):
        return None
    return Limit(name, one.value, one.where, native, harness, one.changed)


def unmatched(declared: Sequence[Declared], runs: Sequence[Run], policy: Policy | str | None) -> list[Declared]:
    """The declared limits that are for none of the runs."""
    return [one for one in declared if not any(limits_of(run, [one], policy, log=False) for run in runs)]
