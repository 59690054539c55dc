"""What an agent's limits mean under its policy, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from boolab.display.card import card, escaped, facts
from boolab.harnesses.describe import axes
from boolab.limits.table import AGENT_LIMITS, LIMITS
from boolab.runtime.tools.tool import as_tool
from boolab.runtime.tools.workspace import BUILT_IN

if TYPE_CHECKING:
    from boolab.harnesses.policy import Policy
    from boolab.runtime.agents.agent import Agent


def limits_of(agent: Agent, policy: Policy) -> list[str]:
    """What an agent's limits mean under its policy (`policy_of(agent)`), one sentence each.

    Example:
        >>> import boolab as bl
        >>> limits_of(bl.Agent("a", max_steps=0), bl.policies["boocode"])[0]
        'step cap: one response without tools'
    """
    words = {axis.field: axis.of(policy) for axis in axes()}
    reading = bool(agent.tools) and all(tool in BUILT_IN for tool in agent.tools)
    settings = policy.effective(agent.settings, read_only=reading)
    sentences = []
    for name in AGENT_LIMITS:
        value, label = settings.get(name), LIMITS[name].label
        if name not in policy.order:
            sentences.append(f"{label}: {policy} has no such setting; the file's value changes nothing")
        elif name == "max_steps" and agent.max_steps == 0:
            sentences.append(f"{label}: {words['cap.zero']}")
        elif value is None:
            most = f", but at most {policy.cap.ceiling:,} steps" if name == "max_steps" and policy.cap.ceiling else ""
            sentences.append(f"{label}: no limit{most}")
        else:
            default = ", the policy's default" if agent.settings[name] is not value else ""
            alike = f" ({words['detectors.identity']})" if agent.identity or agent.exempt else ""
            most = f"stops at {value} identical calls in a row{alike}" if name == "doom_loop" else f"at most {value:,}"
            sentences.append(f"{label}: {most}{default}")
    if policy.last_step.action != "tools" and settings.get("max_steps"):
        sentences.append(f"last step under the cap: {words['last_step.action']}")
    for name, first in policy.never_fires(agent.settings, read_only=reading).items():
        sentences.append(f"{LIMITS[name].label}: it never fires, because {first.why}")
    return sentences


def agent_card(agent: Agent, policy: Policy) -> str:
    """The display of an agent in a notebook: what it is for, its limits under its policy, and its tools.

    Example:
        >>> import boolab as bl
        >>> "at most 5" in agent_card(bl.Agent("refactorer", max_steps=5), bl.policies["boocode"])
        True
    """
    tools = ", ".join(tool if isinstance(tool, str) else as_tool(tool).name for tool in agent.tools)
    limits = "".join(f"<p>{escaped(line)}</p>" for line in limits_of(agent, policy))
    return card(
        f"<p><b>{escaped(agent.name)}</b> {escaped(agent.description)}</p>",
        limits,
        facts([f"policy {policy}", f"tools: {tools or 'all that are given to the run'}"]),
        then="bl.AgentEditor(path) edits its file",
    )
