"""A setting of three limits: in words, as code, and as the front matter of an agent file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from boolab.core.text import clean
from boolab.core.types import Identities, Scope
from boolab.display.numbers import floor_percent, percent, span
from boolab.harnesses.front_matter import yaml_text
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy, policies
from boolab.limits.call_identity import split_identity
from boolab.limits.table import AGENT_LIMITS, LIMITS

Limits: TypeAlias = Mapping[str, int | None]
"""A cap, a budget and a threshold, by `AGENT_LIMITS`; None is off."""

ALL_AGENTS: Final = "all"
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
    agent: str = ALL_AGENTS

    @property
    def limits(self) -> dict[str, int | None]:
        """The limits by name."""
        return {name: getattr(self, name) for name in AGENT_LIMITS}


def identity_words(identity: Identities) -> str:
    """An identity on one line."""
    if isinstance(identity, str):
        return identity
    return ", ".join(f"{tool}: {tool_identity or 'exempt'}" for tool, tool_identity in identity.items())


def identity_arguments(identity: Identities) -> str:
    """An identity as arguments of `doom_loop` and the like: the identity, and the tools that are exempt."""
    default, by_tool, exempt = split_identity(identity)
    exceptions = {tool: tool_identity for tool, tool_identity in by_tool.items() if tool_identity != default}
    argument = repr({"*": default, **exceptions} if exceptions else default)
    return f"{argument}, exempt={exempt!r}" if exempt else argument


def as_code(setting: Setting, policy: str | Policy | None = None) -> str:
    """A setting as Python code: an agent with these limits and this policy, and a stop rule with the same limits."""
    base, is_preset = _preset_of(policy)
    identity, exempt = _agent_identity(setting.identity)
    changes = ["cap={'ceiling': None}"] if _exceeds_ceiling(setting, base) else []
    changes += [] if identity is not None else [f"detectors={{'identity': {setting.identity!r}}}"]
    lines = ["import boolab as bl", ""]
    lines += [] if is_preset else ["# Put your own policy in place of this preset."]
    lines += [f"# {line}" for line in (*_unknown_limits(setting, base), *_scope_comment(setting))]
    lines += ["agent = bl.Agent(", f"    {_name(setting)!r},"]
    lines += [f"    {axis}={value}," for axis, value in setting.limits.items()]
    lines += [] if identity is None else [f"    identity={identity!r},"]
    lines += [f"    exempt={exempt!r},"] if exempt and identity is not None else []
    policy_code = f"bl.policies[{base!r}].vary({', '.join(changes)})" if changes else repr(base)
    lines += [f"    policy={policy_code},", ")"]
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
    """A setting as front matter that `load_agents` reads, with comments on what that cannot express."""
    base, is_preset = _preset_of(policy)
    identity, exempt = _agent_identity(setting.identity)
    lines = ["---", f"name: {yaml_text(_name(setting))}", *(f"# {line}" for line in notes)]
    lines += [f"{axis}: {'none' if value is None else value}" for axis, value in setting.limits.items()]
    if identity is None:
        lines.append(
            f"# Counted with calls compared by {identity_words(setting.identity)}, which no agent file can express."
        )
    else:
        lines.append(f"identity: {identity}")
        lines += [f"exempt: [{', '.join(map(yaml_text, exempt))}]"] if exempt else []
    lines.append(f"policy: {base}" + ("" if is_preset else "  # put your own policy in place of this preset"))
    lines += [f"# {line}" for line in (*_unknown_limits(setting, base), *_scope_comment(setting))]
    if _exceeds_ceiling(setting, base):
        ceiling = get_policy(base).cap.ceiling
        lines.append(
            f"# Policy {base} ends a run at {ceiling:,} steps too; the numbers are those without that ceiling."
        )
    return "\n".join([*lines, "---"]) + "\n"


def _name(setting: Setting) -> str:
    return "agent" if setting.agent in (ALL_AGENTS, "") else setting.agent


def _agent_identity(identity: Identities) -> tuple[str | None, list[str]]:
    """An identity as agents have it: one for all tools, and the exempt tools; None if no agent can have it."""
    default, by_tool, exempt = split_identity(identity)
    return (default, exempt) if {*by_tool.values()} <= {default} else (None, [])


def _exceeds_ceiling(setting: Setting, policy: str) -> bool:
    """Whether the policy's ceiling would stop runs that the setting lets continue."""
    ceiling = get_policy(policy).cap.ceiling
    return ceiling is not None and (setting.max_steps is None or setting.max_steps > ceiling)


def _scope_comment(setting: Setting) -> list[str]:
    """A comment if the numbers count in another way than an agent does."""
    if setting.scope != "run":
        return []
    return [
        "The numbers count limits through whole runs. The limits of an agent start at zero in each turn, so runs of",
        "several turns do not give these numbers.",
    ]


def _preset_of(policy: str | Policy | None) -> tuple[str, bool]:
    """The preset that is equal to a policy, else the default; and whether there is one."""
    if policy is None:
        return "boocode", True
    policy_value = get_policy(policy)
    is_preset = policies.get(policy_value.name) == policy_value
    return (policy_value.name, True) if is_preset else ("boocode", False)


def _unknown_limits(setting: Setting, policy: str) -> list[str]:
    order = get_policy(policy).order
    missing = [axis for axis, value in setting.limits.items() if value is not None and axis not in order]
    return [f"Policy {policy} knows no {LIMITS[axis].label}: the numbers are not reached by it." for axis in missing]


def format_setting(setting: Setting) -> str:
    """A setting in words."""
    limits = [
        f"no {LIMITS[axis].label}" if value is None else f"{LIMITS[axis].label} {value}"
        for axis, value in setting.limits.items()
    ]
    return f"{', '.join(limits)}. {describe_counting(setting)}"


def describe_counting(setting: Setting) -> str:
    """How the limits of a setting are counted, in words."""
    scope = "Limits start at zero in each turn" if setting.scope == "turn" else "Limits hold for the whole run"
    name = clean(setting.agent)
    agent_text = f"agent {name}" if name else "an agent without a name"
    agent = "" if setting.agent == ALL_AGENTS else f" The runs are those of {agent_text}."
    return f"{_describe_identity(setting.identity)} {scope}.{agent}"


def _describe_identity(identity: Identities) -> str:
    """When two calls are the same."""
    default, by_tool, exempt = split_identity(identity)
    tool_words = [f"{clean(tool)}: {SAME_CALL[rule]}" for tool, rule in by_tool.items() if rule != default]
    exceptions = f" ({'; '.join(tool_words)})" if tool_words else ""
    exempt_sentence = f" Repeats of {', '.join(map(clean, exempt))} do not count." if exempt else ""
    return f"Calls are repeats if they have the {SAME_CALL[default]}{exceptions}.{exempt_sentence}"


def format_kept(counts: Mapping[str, int]) -> str:
    """How many runs are kept, of how many."""
    lower, upper, base = counts["lower"], counts["upper"], counts["of"]
    if not base:
        return "none of none"
    shares = list(dict.fromkeys([floor_percent(lower / base), floor_percent(upper / base)]))
    return f"{span(lower, upper)} of {base:,} ({' to '.join(shares)})"


def format_saved(saved: Mapping[str, Any]) -> str:
    """How much is saved, of how much."""
    if saved["share"] is None:
        return f"unknown {saved['label']}" if saved["left_out"] else f"no {saved['label']}"
    share = f" ({percent(saved['share'])})"
    if saved["measure"] == "cost":
        return f"${saved['saved']:,.2f} of ${saved['of']:,.2f}{share}"
    label = saved["label"].removesuffix("s") if saved["of"] == 1 else saved["label"]
    return f"{saved['saved']:,.0f} of {saved['of']:,.0f} {label}{share}"
