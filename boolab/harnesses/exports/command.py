"""The command that prints an export."""

from __future__ import annotations

import shlex
from typing import Final

from boolab.harnesses.exports.values import Limits
from boolab.harnesses.presets import get_policy
from boolab.limits.call_identity import exempting, identity_of
from boolab.limits.table import LIMITS

TARGET: Final = "TARGET"


def as_command(limits: Limits, target: str = TARGET) -> str:
    """The `boolab export` command that gives the export of these limits.

    Example:
        >>> as_command(Limits(max_steps=56, doom_loop=5, exempt=("wait",)), "claude-code")
        'boolab export claude-code --max-steps 56 --doom-loop 5 --exempt wait'
    """
    words = ["boolab", "export", target]
    words += [word for axis, value in limits.given.items() for word in (LIMITS[axis].option, f"{value:.12g}")]
    same, by_tool = identity_of(exempting(limits.identity, limits.exempt))
    if same != ("canonical" if limits.policy is None else get_policy(limits.policy).detectors.identity):
        words += ["--identity", same]
    exempt = dict.fromkeys([*limits.exempt, *(tool for tool, one in by_tool if one is None)])
    words += [word for tool in exempt for word in _option("--exempt", tool)]
    words += ["--scope", "run"] if limits.scope == "run" else []
    words += [] if limits.agent is None else _option("--agent", limits.agent)
    words += [] if limits.policy is None else ["--policy", str(limits.policy)]
    return shlex.join(words)


def _option(name: str, value: str) -> list[str]:
    """An option with its value, which may begin with a dash."""
    return [f"{name}={value}"] if value.startswith("-") else [name, value]
