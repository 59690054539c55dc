"""Limits as the settings of a harness, by the name of the target; and the command that prints them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, cast

from boolab.display.text import capitalize
from boolab.errors import SettingError, near
from boolab.harnesses.exports.values import Export, Limits, Part, Target
from boolab.harnesses.presets import get_policy
from boolab.harnesses.registry import TARGETS, harness
from boolab.limits.call_identity import exclude_tools, split_identity
from boolab.limits.table import LIMITS

TARGET: Final = "TARGET"
"""The target in a command that serves any."""


def target_of(name: str) -> Target:
    """A target by its name."""
    if name not in TARGETS:
        raise SettingError(f"there is no export target {name!r}{near(name, sorted(TARGETS), 'targets')}")
    return cast("Target", harness(TARGETS[name]).target)


def export(target: str, limits: Limits) -> Export:
    """The settings of a harness that enforce these limits, ready to paste.

    `limits`: the limits. Those that the harness cannot express are named in the notes. Returns what to paste where;
    `write` sets it in files.

    Example:
        >>> export("boolab", Limits(max_steps=56, max_cost=2.5)).notes[0].partition(";")[0]
        'A cost budget of $2.5 is not set. An agent file has none'
    """
    destination = target_of(target)
    if not limits.given and limits.compact_at is None:
        raise SettingError(f"there is nothing to export: no limit is on; expected one of {', '.join(LIMITS)}")
    reasons = {name: destination.lacks[name] for name in limits.given if name in destination.lacks}
    if limits.token_weights is not None and (reason := destination.lacks_weights(limits.token_weights)):
        reasons.setdefault("max_tokens", reason)
    missing = tuple(f"{capitalize(limits.limit_in_words(name))} is not set. {text}" for name, text in reasons.items())
    if limits.compact_at is not None and not limits.given and not destination.compaction:
        msg = f"there is nothing to export: no setting of {destination.title} for a compaction threshold is known"
        raise SettingError(msg)
    if limits.compact_at is not None and not destination.compaction:
        missing += (f"The compaction threshold is not set: no setting of {destination.title} for it is known.",)
    settable = limits
    if "max_tokens" in reasons:
        settable = replace(limits, max_tokens=None, token_weights=None)
    parts, notes = destination.build(settable, missing)
    return Export(
        target=target,
        title=f"{capitalize(limits.in_words())} for {destination.title}",
        parts=parts,
        notes=(*notes, *missing),
        source=destination.source,
        no_file="" if any(part.path for part in parts) else _no_file(limits, destination, parts),
    )


def _no_file(limits: Limits, target: Target, parts: Sequence[Part]) -> str:
    """What to type where no part of an export is a file."""
    lines = chain.from_iterable(part.text.splitlines() for part in parts)
    commands = [line for line in lines if line and not line.startswith("#")]
    if not commands:
        options = dict.fromkeys(LIMITS[row.limit].option for row in target.sets)
        if limits.compact_at is not None and target.compaction:
            return f"the compaction threshold of {target.title} is as low already, or needs --window"
        return f"{target.title} has none of these limits; it has {', '.join(options)}"
    command = as_command(limits, target.name)
    if parts[0].language != "shell":
        return f"these are lines for your own program or command; to print them, type: {command}"
    ways = [f"for all sessions, type: {line}" for line in commands if line.startswith("boolab ")]
    agent_limits = replace(limits, agent="coder")
    if limits.agent is None and any(part.path for part in target.build(agent_limits, ())[0]):
        ways.append(f"for a subagent, such as coder, type: {as_command(agent_limits, target.name)} --write")
    ways += [f"for one start, type: {line}" for line in commands if not line.startswith("boolab ")]
    return "; ".join(ways)


def as_command(limits: Limits, target: str = TARGET) -> str:
    """The `boolab export` command that gives the export of these limits."""
    words = ["export", target]
    words += limit_words(limits.given)
    for option, value in (
        ("--compact-at", limits.compact_at), ("--window", limits.window), ("--max-output", limits.max_output)
    ):  # fmt: skip
        words += [] if value is None else [option, str(value)]
    default, _, exempt = split_identity(exclude_tools(limits.identity, limits.exempt))
    if default != ("canonical" if limits.policy is None else get_policy(limits.policy).detectors.identity):
        words += ["--identity", default]
    tools = dict.fromkeys([*limits.exempt, *exempt])
    words += chain.from_iterable(option_words("--exempt", tool) for tool in tools)
    if limits.token_weights is not None:
        words += ["--token-weights", ",".join(f"{name}={weight}" for name, weight in limits.token_weights.items())]
    words += ["--scope", "run"] if limits.scope == "run" else []
    words += [] if limits.agent is None else option_words("--agent", limits.agent)
    words += [] if limits.policy is None else ["--policy", str(limits.policy)]
    return f"boolab {shlex.join(words)}"


def option_words(name: str, value: str) -> list[str]:
    """An option with its value, which may begin with a dash."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def limit_words(limits: Mapping[str, float]) -> list[str]:
    """The options of limits with their values."""
    return [*chain.from_iterable((LIMITS[name].option, f"{value:.12g}") for name, value in limits.items())]
