"""In what two agents or policies differ: limits as they are under the policies, tools and prompts; or axes."""

from __future__ import annotations

from typing import Any

from boolab.core.text import clean
from boolab.harnesses.compare import compare_policies
from boolab.harnesses.describe import NOT_APPLICABLE
from boolab.harnesses.policy import Policy
from boolab.runtime.agents.agent import Agent, limits_of, policy_of
from boolab.runtime.tools.tool import as_tool
from boolab.widgets.replay.diffs import diff_of


def agents_differ(a: Agent, b: Agent) -> dict[str, Any]:
    """The rows of what is not the same in both, and the lines in which their prompts differ."""
    both = [_facts(agent) for agent in (a, b)]
    names = dict.fromkeys(name for facts in both for name in facts)
    rows = [{"name": name, "a": both[0].get(name, "no"), "b": both[1].get(name, "no")} for name in names]
    prompt = [line._asdict() for line in diff_of(a.prompt, b.prompt)]
    return {"of": "agents", "rows": [row for row in rows if row["a"] != row["b"]], "prompt": prompt}


def policies_differ(a: str | Policy, b: str | Policy) -> dict[str, Any]:
    """The axes that are not the same in both."""
    rows = []
    for axis in compare_policies(a, b).rows:
        if axis.differs and not axis.field.startswith("about."):
            one, other = ("no such setting" if cell == NOT_APPLICABLE else clean(cell) for cell in axis.cells)
            rows.append({"name": axis.name, "a": one, "b": other})
    return {"of": "policies", "rows": rows, "prompt": []}


def _facts(agent: Agent) -> dict[str, str]:
    policy = policy_of(agent)
    tools = ", ".join(tool if isinstance(tool, str) else as_tool(tool).name for tool in agent.tools)
    facts = {
        "policy": str(policy),
        "tools": tools or "all that are given to the run",
        "exempt from the doom-loop threshold": ", ".join(agent.exempt) or "none",
        "temperature": "the model's own" if agent.temperature is None else f"{agent.temperature:g}",
    }
    for sentence in limits_of(agent, policy):
        name, _, value = sentence.partition(": ")
        facts[name] = f"{facts[name]}; {value}" if name in facts else value
    return {name: clean(value) for name, value in facts.items()}
