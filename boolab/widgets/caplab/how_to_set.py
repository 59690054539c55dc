"""A setting of the sliders as the settings of each harness."""

from __future__ import annotations

from boolab.agents.setting import ALL, Setting, as_front_matter
from boolab.exports.export import TARGETS, export, target_of
from boolab.exports.values import Limits
from boolab.harness.policy import Policy


def how_to_set(setting: Setting, policy: str | Policy | None = None) -> list[dict[str, str]]:
    """A setting as text for each harness: its name as an export target, its title, and the text.

    Args:
        setting: The setting. Without any limit, only boolab has a text for it.
        policy: The policy under which its numbers hold.

    Example:
        >>> [one["name"] for one in how_to_set(Setting())]
        ['boolab']
    """
    texts = [{"name": "boolab", "title": "boolab", "text": as_front_matter(setting, policy)}]
    if not any(value is not None for value in setting.limits.values()):
        return texts
    limits = Limits(
        max_steps=setting.max_steps,
        tool_budget=setting.tool_budget,
        doom_loop=setting.doom_loop,
        identity=setting.identity,
        scope="run" if setting.scope == "run" else "turn",
        agent=None if setting.agent == ALL else setting.agent,
        policy=policy,
    )
    return texts + [
        {"name": name, "title": target_of(name).title, "text": str(export(name, limits))}
        for name in TARGETS
        if name != "boolab"
    ]
