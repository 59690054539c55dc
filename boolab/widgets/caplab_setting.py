"""A setting of three limits: what it is, in words, as code and as the front matter of an agent file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from boolab.detectors import IDENTITIES, Identities
from boolab.ledger import Scope
from boolab.policy import Policy
from boolab.presets import get_policy, policies
from boolab.stats.finding import clean, percent

Limits: TypeAlias = Mapping[str, int | None]
"""A cap, a budget and a threshold, by `AXES`; None is off."""

AXES: Final = ("steps", "tool_budget", "doom_loop")
LABELS: Final = {"steps": "step cap", "tool_budget": "tool budget", "doom_loop": "doom loop"}
ALL: Final = "all"
"""What stands for all agents."""


class Setting(NamedTuple):
    """All that can be set: the limits, and what they are counted by."""

    steps: int | None = None
    tool_budget: int | None = None
    doom_loop: int | None = None
    identity: Identities = "canonical"
    scope: Scope = "turn"
    agent: str = ALL

    @property
    def limits(self) -> dict[str, int | None]:
        """The limits alone."""
        return {name: getattr(self, name) for name in AXES}


def identity_names(identity: Identities) -> list[tuple[str, Identities]]:
    """What can be chosen as identity: the ones that have a name, and the given one.

    Args:
        identity: The one to begin with.

    Returns:
        Label and value of each.
    """
    named: list[tuple[str, Identities]] = [(name, name) for name in IDENTITIES]
    return named if identity in IDENTITIES else [*named, (identity_words(identity), identity)]


def identity_words(identity: Identities) -> str:
    """An identity in one line."""
    return (
        identity
        if isinstance(identity, str)
        else ", ".join(f"{tool}: {one or 'exempt'}" for tool, one in identity.items())
    )


def as_code(setting: Setting, policy: str | Policy | None = None) -> str:
    """A setting as Python code that runs: an agent with these limits, and the same as a stop rule.

    Args:
        setting: The setting.
        policy: The policy that the agent gets; None for the default.

    Returns:
        Some lines.

    Example:
        >>> names = {}
        >>> exec(as_code(Setting(steps=18, doom_loop=3)), names)
        >>> names["agent"].steps, names["agent"].tool_budget, str(names["rule"])
        (18, None, 'max_steps(18) | doom_loop(3, canonical)')
    """
    name = "agent" if setting.agent in (ALL, "") else setting.agent
    base, known = _named(policy)
    own = get_policy(base).identity == setting.identity or not isinstance(setting.identity, str)
    lines = [] if own else ["from dataclasses import replace", ""]
    lines += ["import boolab as bl", ""]
    if not known:
        lines.append("# Put your own policy in place of this preset.")
    lines.append(
        f"policy = bl.policies[{base!r}]"
        if own
        else f"policy = replace(bl.policies[{base!r}], identity={setting.identity!r})"
    )
    if not isinstance(setting.identity, str):
        counted = identity_words(setting.identity)
        lines.append(f"# Counted with calls compared by {counted!r}; a policy has one identity for all tools.")
    if setting.scope == "run":
        lines.append("# The numbers are for limits on whole runs; those of an agent count anew in each turn.")
    lines += [f"# {line}" for line in _unheard(setting, base)]
    limits = [f"    {axis}={value}," for axis, value in setting.limits.items()]
    lines += ["agent = bl.Agent(", f"    {name!r},", *limits, "    policy=policy,", ")"]
    rules = {
        "steps": "bl.max_steps({})",
        "doom_loop": "bl.doom_loop({}, " + repr(setting.identity) + ")",
        "tool_budget": "bl.tool_budget({})",
    }
    parts = [rules[axis].replace("{}", str(setting.limits[axis])) for axis in rules if setting.limits[axis] is not None]
    if parts:
        lines += ["", f"# The same for bl.counterfactual(runs, rules=rule, scope={setting.scope!r}):"]
        lines.append(f"rule = {' | '.join(parts)}")
    return "\n".join(lines) + "\n"


def as_front_matter(setting: Setting, policy: str | Policy | None = None) -> str:
    """A setting as the front matter of an agent file: what `load_agents` reads.

    Args:
        setting: The setting.
        policy: The policy that the agent gets; None for the default.

    Returns:
        Some lines, from `---` to `---`.

    Example:
        >>> print(as_front_matter(Setting(steps=18, doom_loop=3, agent="coder", identity="ordered")), end="")
        ---
        name: coder
        steps: 18
        tool_budget: none
        doom_loop: 3
        policy: boocode
        ---
    """
    name = "agent" if setting.agent in (ALL, "") else setting.agent
    base, known = _named(policy)
    lines = ["---", f"name: {_yaml(name)}"]
    lines += [f"{axis}: {'none' if value is None else value}" for axis, value in setting.limits.items()]
    lines.append(f"policy: {base}" + ("" if known else "  # put your own policy in place of this preset"))
    same = get_policy(base).identity
    if same != setting.identity and setting.doom_loop is not None:
        counted = identity_words(setting.identity)
        lines.append(f"# Counted with calls compared by {counted}; this policy compares by {identity_words(same)}.")
    lines += [f"# {line}" for line in _unheard(setting, base)]
    if setting.scope == "run":
        lines.append("# Counted over whole runs; an agent's limits count anew in each turn.")
    return "\n".join([*lines, "---"]) + "\n"


def _named(policy: str | Policy | None) -> tuple[str, bool]:
    """The preset that a policy is, and whether it is one; else the default."""
    if policy is None:
        return "boocode", True
    chosen = get_policy(policy)
    known = policies.get(chosen.name) == chosen
    return (chosen.name, True) if known else ("boocode", False)


def _unheard(setting: Setting, policy: str) -> list[str]:
    """What a policy does not have of what is set."""
    order = get_policy(policy).order
    missing = [axis for axis, value in setting.limits.items() if value is not None and axis not in order]
    return [f"Policy {policy} knows no {LABELS[axis]}: there it has no effect." for axis in missing]


def _yaml(name: str) -> str:
    """A name as YAML reads it back; half characters, which it cannot hold, are replaced."""
    if re.fullmatch(r"[A-Za-z][A-Za-z_-]*", name) and name.lower() not in (
        "null",
        "true",
        "false",
        "yes",
        "no",
        "on",
        "off",
        "y",
        "n",
    ):
        return name
    return json.dumps(name.encode("utf-8", "replace").decode())


def said(setting: Setting) -> str:
    """A setting in words.

    Example:
        >>> for line in said(Setting(steps=18)).split(". "):
        ...     print(line)
        step cap 18, no tool budget, no doom loop
        Same call: canonical identity · limits start anew each turn · all agents
    """
    limits = [
        f"no {LABELS[axis]}" if value is None else f"{LABELS[axis]} {value}" for axis, value in setting.limits.items()
    ]
    return f"{', '.join(limits)}. {counted_by(setting)}"


def counted_by(setting: Setting) -> str:
    """What the limits of a setting are counted by, in words.

    Example:
        >>> counted_by(Setting(identity="raw", scope="run", agent="coder"))
        'Same call: raw identity · limits go on through the whole run · agent coder'
    """
    scope = "limits start anew each turn" if setting.scope == "turn" else "limits go on through the whole run"
    agent = "all agents" if setting.agent == ALL else f"agent {clean(setting.agent) or 'without a name'}"
    return f"Same call: {identity_words(setting.identity)} identity · {scope} · {agent}"


def kept_said(kept: Mapping[str, int]) -> str:
    """What is kept, with its base.

    Example:
        >>> kept_said({"lower": 81, "upper": 83, "of": 84, "censored": 0})
        '81-83 of 84 (96.4% to 98.8%)'
    """
    lower, upper, base = kept["lower"], kept["upper"], kept["of"]
    span = f"{lower:,}" if lower == upper else f"{lower:,}-{upper:,}"
    if not base:
        return "none of none"
    shares = list(dict.fromkeys([percent(lower / base), percent(upper / base)]))
    return f"{span} of {base:,} ({' to '.join(shares)})"


def saved_said(saved: Mapping[str, Any]) -> str:
    """What is saved, with its base.

    Example:
        >>> saved_said({"measure": "steps", "label": "steps", "saved": 370, "of": 2454, "share": 0.1508})
        '370 of 2,454 steps (15%)'
    """
    if saved["share"] is None:
        return f"unknown {saved['label']}" if saved["left_out"] else f"no {saved['label']}"
    share = f" ({percent(saved['share'])})"
    if saved["measure"] == "cost":
        return f"${saved['saved']:,.2f} of ${saved['of']:,.2f}{share}"
    return f"{saved['saved']:,.0f} of {saved['of']:,.0f} {saved['label']}{share}"
