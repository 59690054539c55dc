"""Where the sliders have ticks: the limits that harnesses have by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from boolab.harnesses.policy import default_settings
from boolab.harnesses.presets import policies

HARNESSES: Final[Mapping[str, str]] = {
    "openai_agents": "OpenAI Agents",
    "smolagents": "smolagents",
    "ai_sdk": "AI SDK",
    "gemini_subagent": "Gemini CLI subagent",
    "pydantic_ai": "Pydantic AI",
    "boocode": "BooCode",
    "openhands": "OpenHands",
    "goose": "Goose",
}
"""The presets whose defaults are shown, and what they are called. All of them count steps as runs do."""


def ticks_of(axis: str, largest: int) -> list[dict[str, Any]]:
    """The defaults of harnesses on an axis, ascending, up to the largest value that the slider has.

    Example:
        >>> ticks_of("max_steps", 20)[-1]
        {'value': 20, 'label': 'smolagents, AI SDK'}
        >>> ticks_of("doom_loop", 5)
        [{'value': 3, 'label': 'BooCode'}]
    """
    named: dict[int, list[str]] = {}
    for preset, title in HARNESSES.items():
        policy = policies[preset]
        value = default_settings(policy, policy.budgets.no_agent)[axis]
        if value is not None and value <= largest:
            named.setdefault(value, []).append(title)
    return [{"value": value, "label": ", ".join(titles)} for value, titles in sorted(named.items())]
