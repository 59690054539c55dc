"""The values that the fields of an agent file are known to take; each field accepts others too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from boolab.core.types import IDENTITIES
from boolab.harnesses.agent_edit import AgentText
from boolab.harnesses.presets import policies
from boolab.runtime.tools.workspace import BUILT_IN

LISTS: Final = ("tools", "exempt")
"""The fields that hold several names."""


def menus_of(agents: Sequence[AgentText], models: Iterable[str], tools: Iterable[str]) -> dict[str, list[str]]:
    """By field, its known values: given ones, those of the file's agents, and those that boolab has itself.

    Example:
        >>> menus = menus_of([], ["small"], ["grep"])
        >>> menus["model"], menus["tools"][:2], menus["identity"][:2]
        (['small'], ['grep', 'list_files'], ['raw', 'ordered'])
    """
    named = [*tools, *BUILT_IN, *(name for agent in agents for key in LISTS for name in _names(agent.data, key))]
    answering = [*models, *(name for agent in agents for name in _names(agent.data, "model"))]
    return {
        "model": list(dict.fromkeys(answering)),
        **{key: list(dict.fromkeys(named)) for key in LISTS},
        "policy": sorted(policies),
        "identity": list(IDENTITIES),
    }


def names_in(typed: str) -> list[str]:
    """The names in a field that holds several.

    Example:
        >>> names_in(" ls, grep,")
        ['ls', 'grep']
    """
    return [one.strip() for one in typed.split(",") if one.strip()]


def _names(data: Mapping[Any, Any], key: str) -> list[str]:
    value = data.get(key)
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]
