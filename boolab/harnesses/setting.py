"""A setting of three limits: in words, as code, and as the front matter of an agent file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from boolab.core.text import clean
from boolab.core.types import Identities, Scope
from boolab.display.numbers import percent, rounded_down, span
from boolab.harnesses.front_matter import yaml_text
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy, policies
from boolab.limits.call_identity import identity_of
from boolab.limits.table import AGENT_LIMITS, LIMITS

Limits: TypeAlias = Mapping[str, int | None]
"""A cap, a budget and a threshold, by `AGENT_LIMITS`; None is off."""

ALL: Final = "all"
"""In place of an agent's name: all agents."""
SAME_CALL: Final[Mapping[str, str]] = {
    "raw": "same tool, arguments letter by letter",
    "ordered": "same tool and arguments, in the same order",
    "canonical": "same tool and arguments, in any order",
    "call+result": "same tool, arguments and result",
    "tool": "same tool",
}
"""By identity, when two calls are the same, in plain words."""


class Setting(NamedTuple):
    """The limits, and how they are counted."""

    max_steps: int | None = None
    tool_budget: int | None = None
    doom_loop: int | None = None
    identity: Identities = "canonical"
    scope: Scope = "turn"
    agent: str = ALL

    @property
    def limits(self) -> dict[str, int | None]:
        """The limits by name."""
        return {name: getattr(self, name) for name in AGENT_LIMITS}


def identity_words(identity: Identities) -> str:
    """An identity on one line."""
    if isinstance(identity, str):
        return identity
    return ", ".join(f"{tool}: {one or 'exempt'}" for tool, one in identity.items())


def identity_arguments(identity: Identities) -> str:
    """An identity as arguments of `doom_loop` and the like: the identity, and the tools that are exempt.

    Example:
        >>> print(identity_arguments({"*": "ordered", "poll": None}))
        'ordered', exempt=['poll']
    """
    same, by_tool = identity_of(identity)
    exempt = [tool for tool, one in by_tool if one is None]
    others = {tool: one for tool, one in by_tool if one is not None and one != same}
    shown = repr({"*": same, **others} if others else same)
    return f"{shown}, exempt={exempt!r}" if exempt else shown


def as_code(setting: Setting, policy: str | Policy | None = None) -> str:
    """A setting as Python code: an agent with these limits and this policy, and a stop rule with the same limits.

    Example:
        >>> names = {}
        >>> exec(as_code(Setting(max_steps=18, doom_loop=3)), names)
        >>> names["agent"].max_steps, names["agent"].identity, str(names["rule"])
        (18, 'canonical', 'max_steps(18) | doom_loop(3, canonical)')
    """
    base, known = _named(policy)
    identity, exempt = _by_agent(setting.identity)
    changes = ["cap={'ceiling': None}"] if _beyond_ceiling(setting, base) else []
    changes += [] if identity is not None else [f"detectors={{'identity': {setting.identity!r}}}"]
    lines = ["import boolab as bl", ""]
    lines += [] if known else ["# Put your own policy in place of this preset."]
    lines += [f"# {line}" for line in (*_unknown_limits(setting, base), *_per_turn(setting))]
    lines += ["agent = bl.Agent(", f"    {_name(setting)!r},"]
    lines += [f"    {axis}={value}," for axis, value in setting.limits.items()]
    lines += [] if identity is None else [f"    identity={identity!r},"]
    lines += [f"    exempt={exempt!r},"] if exempt and identity is not None else []
    own = f"bl.policies[{base!r}].vary({', '.join(changes)})" if changes else repr(base)
    lines += [f"    policy={own},", ")"]
    rules = {
        "max_steps": "bl.max_steps({})",
        "doom_loop": f"bl.doom_loop({{}}, {identity_arguments(setting.identity)})",
        "tool_budget": "bl.tool_budget({})",
    }
    parts = [rules[axis].replace("{}", str(setting.limits[axis])) for axis in rules if setting.limits[axis] is not None]
    if parts:
        lines += ["", f"# The same for bl.counterfactual(runs, rules=rule, scope={setting.scope!r}):"]
        lines.append(f"rule = {' | '.join(parts)}")
    return "\n".join(lines) + "\n"


def as_front_matter(setting: Setting, policy: str | Policy | None = None, notes: Sequence[str] = ()) -> str:
    """A setting as the front matter of an agent file, which `load_agents` reads, with `notes` as comments.

    Further comments name what an agent file cannot express, so that its runs differ from the numbers of the setting.

    Example:
        >>> identity = {"*": "canonical", "wait_for_build": None}
        >>> print(as_front_matter(Setting(max_steps=18, doom_loop=3, agent="coder", identity=identity)), end="")
        ---
        name: coder
        max_steps: 18
        tool_budget: none
        doom_loop: 3
        identity: canonical
        exempt: [wait_for_build]
        policy: boocode
        ---
    """
    base, known = _named(policy)
    identity, exempt = _by_agent(setting.identity)
    lines = ["---", f"name: {yaml_text(_name(setting))}", *(f"# {line}" for line in notes)]
    lines += [f"{axis}: {'none' if value is None else value}" for axis, value in setting.limits.items()]
    if identity is None:
        lines.append(
            f"# Counted with calls compared by {identity_words(setting.identity)}, which no agent file can express."
        )
    else:
        lines.append(f"identity: {identity}")
        lines += [f"exempt: [{', '.join(map(yaml_text, exempt))}]"] if exempt else []
    lines.append(f"policy: {base}" + ("" if known else "  # put your own policy in place of this preset"))
    lines += [f"# {line}" for line in (*_unknown_limits(setting, base), *_per_turn(setting))]
    if _beyond_ceiling(setting, base):
        ceiling = get_policy(base).cap.ceiling
        lines.append(
            f"# Policy {base} ends a run at {ceiling:,} steps too; the numbers are those without that ceiling."
        )
    return "\n".join([*lines, "---"]) + "\n"


def _name(setting: Setting) -> str:
    return "agent" if setting.agent in (ALL, "") else setting.agent


def _by_agent(identity: Identities) -> tuple[str | None, list[str]]:
    """An identity as agents have it: one for all tools, and the exempt tools; None if no agent can have it."""
    same, by_tool = identity_of(identity)
    exempt = [tool for tool, one in by_tool if one is None]
    return (same, exempt) if len(exempt) == sum(one != same for _, one in by_tool) else (None, [])


def _beyond_ceiling(setting: Setting, policy: str) -> bool:
    """Whether the policy's ceiling would stop runs that the setting lets continue."""
    most = get_policy(policy).cap.ceiling
    return most is not None and (setting.max_steps is None or setting.max_steps > most)


def _per_turn(setting: Setting) -> list[str]:
    """A comment if the numbers count in another way than an agent does."""
    if setting.scope != "run":
        return []
    return [
        "The numbers count limits through whole runs. The limits of an agent start at zero in each turn, so runs of",
        "several turns do not give these numbers.",
    ]


def _named(policy: str | Policy | None) -> tuple[str, bool]:
    """The preset that is equal to a policy, else the default; and whether there is one."""
    if policy is None:
        return "boocode", True
    chosen = get_policy(policy)
    known = policies.get(chosen.name) == chosen
    return (chosen.name, True) if known else ("boocode", False)


def _unknown_limits(setting: Setting, policy: str) -> list[str]:
    order = get_policy(policy).order
    missing = [axis for axis, value in setting.limits.items() if value is not None and axis not in order]
    return [f"Policy {policy} knows no {LIMITS[axis].label}: the numbers are not reached by it." for axis in missing]


def in_words(setting: Setting) -> str:
    """A setting in words.

    Example:
        >>> in_words(Setting(max_steps=18)).split(". ")[0]
        'step cap 18, no tool budget, no doom-loop threshold'
    """
    limits = [
        f"no {LIMITS[axis].label}" if value is None else f"{LIMITS[axis].label} {value}"
        for axis, value in setting.limits.items()
    ]
    return f"{', '.join(limits)}. {counted_by(setting)}"


def counted_by(setting: Setting) -> str:
    """How the limits of a setting are counted, in words.

    Example:
        >>> counted_by(Setting(identity="tool", scope="run", agent="a"))
        'Calls are repeats if they have the same tool. Limits hold for the whole run. The runs are those of agent a.'
    """
    scope = "Limits start at zero in each turn" if setting.scope == "turn" else "Limits hold for the whole run"
    name = clean(setting.agent)
    whose = f"agent {name}" if name else "an agent without a name"
    agent = "" if setting.agent == ALL else f" The runs are those of {whose}."
    return f"{_compared(setting.identity)} {scope}.{agent}"


def _compared(identity: Identities) -> str:
    """When two calls are the same.

    Example:
        >>> _compared({"*": "tool", "ls": "call+result"})
        'Calls are repeats if they have the same tool (ls: same tool, arguments and result).'
    """
    same, by_tool = identity_of(identity)
    own = [f"{clean(tool)}: {SAME_CALL[one]}" for tool, one in by_tool if one not in (None, same)]
    exempt = [clean(tool) for tool, one in by_tool if one is None]
    others = f" ({'; '.join(own)})" if own else ""
    without = f" Repeats of {', '.join(exempt)} do not count." if exempt else ""
    return f"Calls are repeats if they have the {SAME_CALL[same]}{others}.{without}"


def kept_in_words(kept: Mapping[str, int]) -> str:
    """How many runs are kept, of how many.

    Example:
        >>> kept_in_words({"lower": 81, "upper": 83, "of": 84})
        '81-83 of 84 (96.4% to 98.8%)'
    """
    lower, upper, base = kept["lower"], kept["upper"], kept["of"]
    if not base:
        return "none of none"
    shares = list(dict.fromkeys([rounded_down(lower / base), rounded_down(upper / base)]))
    return f"{span(lower, upper)} of {base:,} ({' to '.join(shares)})"


def saved_in_words(saved: Mapping[str, Any]) -> str:
    """How much is saved, of how much.

    Example:
        >>> saved_in_words({"measure": "steps", "label": "steps", "saved": 370, "of": 2454, "share": 0.1508})
        '370 of 2,454 steps (15%)'
    """
    if saved["share"] is None:
        return f"unknown {saved['label']}" if saved["left_out"] else f"no {saved['label']}"
    share = f" ({percent(saved['share'])})"
    if saved["measure"] == "cost":
        return f"${saved['saved']:,.2f} of ${saved['of']:,.2f}{share}"
    label = saved["label"].removesuffix("s") if saved["of"] == 1 else saved["label"]
    return f"{saved['saved']:,.0f} of {saved['of']:,.0f} {label}{share}"
