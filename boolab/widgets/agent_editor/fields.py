"""The fields of an agent file: labels and texts, known values, and whether the agent is valid and saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from boolab.core.text import clean, count, shorten
from boolab.core.types import IDENTITIES
from boolab.display.text import joined
from boolab.harnesses.agent_edit import FIELDS, AgentText, read_agents
from boolab.harnesses.presets import policies
from boolab.limits.table import LIMITS
from boolab.runtime.tools.workspace import BUILT_IN

MAX_NAMED = 3
"""How many changed fields are named; of more, only how many there are."""
_LABELS = {"identity": "equal calls", "exempt": "exempt tools"}
"""What fields are called whose keys are no plain words."""


def verdict_of(agent: str, messages: Mapping[str, str], changed: Sequence[str]) -> str:
    """What is valid, what has changed, and what is saved; `messages` has what is wrong, by key, "" for the file."""
    name = clean(shorten(agent)) or "This agent"
    if messages:
        wrong = [label_of(field) if field else "the file" for field in messages]
        return f"✕ {name} cannot be saved: {joined(wrong)} {'is' if len(wrong) == 1 else 'are'} not valid."
    if not changed:
        return f"{name} is valid and saved."
    changes_text = ", ".join(changed) if len(changed) <= MAX_NAMED else count(len(changed), "field")
    return f"{name} is valid. Not saved yet: {changes_text}."


def changes_of(old_text: str, after: str, agent_index: int) -> list[str]:
    """What differs between two texts of a file, field by field: those of the agent that is shown are not named."""
    old, new = read_agents(old_text), read_agents(after)
    changes = []
    for number, (old_agent, other) in enumerate(zip(old, new, strict=False)):
        prefix = "" if number == agent_index else f"{clean(shorten(str(other.data.get('name', number + 1))))}: "
        changes += [f"{prefix}{text}" for text in _changed_fields(old_agent, other)]
    return changes if changes or old_text == after else ["the text of the file"]


def _changed_fields(old: AgentText, new: AgentText) -> Iterable[str]:
    for field in FIELDS:
        was, is_now = (shown_value(agent, field) for agent in (old, new))
        if was != is_now:
            short = field in LIMITS
            yield f"{label_of(field)} {was or 'not set'} → {is_now or 'not set'}" if short else label_of(field)
    if old.prompt != new.prompt:
        yield "prompt"


def label_of(field: str) -> str:
    """What a field is called."""
    return LIMITS[field].label if field in LIMITS else _LABELS.get(field, field.replace("_", " "))


def shown_value(agent: AgentText, field: str) -> str:
    """The text that a field's control shows; empty if the file does not have the field."""
    value = agent.data.get(agent.key_of(field))
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


LISTS: Final = ("tools", "exempt")
"""The fields that hold several names."""


def menus_of(agents: Sequence[AgentText], models: Iterable[str], tools: Iterable[str]) -> dict[str, list[str]]:
    """By field, its known values: given ones, those of the file's agents, and those that boolab has itself."""
    tool_names, model_names = [*tools, *BUILT_IN], [*models]
    for agent in agents:
        model_names += _names(agent.data, "model")
        for key in LISTS:
            tool_names += _names(agent.data, key)
    return {
        "model": list(dict.fromkeys(model_names)),
        **{key: list(dict.fromkeys(tool_names)) for key in LISTS},
        "policy": sorted(policies),
        "identity": list(IDENTITIES),
    }


def names_in(typed: str) -> list[str]:
    """The names in a field that holds several."""
    return [name.strip() for name in typed.split(",") if name.strip()]


def _names(data: Mapping[Any, Any], key: str) -> list[str]:
    value = data.get(key)
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
