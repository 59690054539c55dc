"""The limits of each harness by its own names, and what of them is in a log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from boolab.harnesses.front_matter import ALIASES
from boolab.harnesses.harness import STEPS, Native
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy, policies
from boolab.harnesses.registry import PRESETS, all_harnesses, harness, harness_of_source
from boolab.limits.table import LIMITS

_COUNTER_AXES: Final[Mapping[str, tuple[str, float, str]]] = {
    limit.counter: (limit.name, limit.per_unit, limit.name) for limit in LIMITS.values()
} | {"messages": ("messages", 1, "message_limit"), "working": ("working", 1000, "working_limit")}
"""By counter of `Run.limits`: its axis, how many of its units one of the axis's is, and a name for it."""


def harness_of(source: str, policy: str) -> Policy | None:
    """The preset by which the limits of a run are counted; None where the harness is not known."""
    if source == "boolab":
        return policies.get(policy)
    writer = harness_of_source(source)
    name = writer.sources[source] if writer is not None else ""
    return get_policy(name) if name else None


def native_names(source: str, policy: Policy | None) -> dict[str, Native]:
    """The limits that the runs of a source can have, by name: the harness's own names, then boolab's axes."""
    if policy is None:
        writer = harness_of_source(source)
        limits = dict(writer.limits.get(source, {}) if writer is not None else {})
        limits |= {alias: STEPS for alias in ALIASES if alias not in limits}
    else:
        limits = dict(harness(PRESETS[policy.name]).limits.get(policy.name, {}) if policy.name in PRESETS else {})
    return limits | {axis: Native(axis) for axis in LIMITS if axis not in limits}


def find_limit(name: str, limits: Mapping[str, object]) -> str | None:
    """The limit that is meant by a name: in any case, with hyphens or underscores, with or without `--`."""
    plain = name.removeprefix("--").replace("-", "_").lower()
    return name if name in limits else next((limit for limit in limits if limit.lower() == plain), None)


def logged_limits(source: str, limits: Mapping[str, int]) -> Iterator[tuple[str, float]]:
    """The limits on record, by the harness's name, in its unit."""
    writer = harness_of_source(source)
    native = {} if writer is None else writer.limits.get(writer.sources[source] or source, {})
    for counter, threshold in limits.items():
        plain = counter.partition(":")[0]
        if plain in _COUNTER_AXES:
            axis, per_unit, default = _COUNTER_AXES[plain]
            own_names = (
                (name, limit.factor) for name, limit in native.items() if limit.axis == axis and not limit.policy
            )
            name, factor = next(own_names, (default, 1))
            value = threshold / per_unit / factor
            yield name, int(value) if value.is_integer() else value


def owners_by_name() -> dict[str, list[str]]:
    """All names of limits, each with the presets, or else sources, that have it."""
    owners: dict[str, list[str]] = {axis: [] for axis in LIMITS}
    for harness_value in all_harnesses():
        for owner, names in harness_value.limits.items():
            for name in names:
                owners.setdefault(name, []).append(owner)
    return owners
