"""How calls are counted: which of them are the same, and which tools are exempt. As controls show it and change it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from boolab.core.text import clean
from boolab.core.types import Run
from boolab.errors import SettingError, near
from boolab.harnesses.setting import SAME_CALL, Setting
from boolab.limits.call_identity import exempting, identity_of

MAX_TOOLS: Final = 40
"""How many tools a control lists."""


def counting_of(setting: Setting, tools: Sequence[str]) -> dict[str, Any]:
    """What controls show of how a setting counts calls, as plain data.

    Example:
        >>> shown = counting_of(Setting(identity=exempting("raw", ["poll"])), ["ls", "poll"])
        >>> shown["same"], shown["exempt"]
        ('raw', ['poll'])
    """
    same, by_tool = identity_of(setting.identity)
    exempt = [tool for tool, one in by_tool if one is None]
    own = [f"{clean(tool)}: {SAME_CALL[one]}" for tool, one in by_tool if one is not None and one != same]
    return {
        "same": same,
        "choices": [{"name": name, "words": words} for name, words in SAME_CALL.items()],
        "own": own,
        "scope": setting.scope,
        "exempt": exempt,
        "tools": [*tools, *(tool for tool in exempt if tool not in tools)],
    }


def counted_anew(setting: Setting, wanted: Mapping[str, Any]) -> Setting:
    """A setting whose calls are compared by another identity (`same`), or with other exempt tools (`exempt`).

    Example:
        >>> counted_anew(Setting(identity="raw"), {"exempt": ["poll"]}).identity
        {'*': 'raw', 'poll': None}
    """
    if not wanted:
        return setting
    same, by_tool = identity_of(setting.identity)
    exempt = wanted.get("exempt", [tool for tool, one in by_tool if one is None])
    same = wanted.get("same", same)
    if same not in SAME_CALL:
        raise SettingError(f"same={same!r}{near(same, SAME_CALL, 'accepted')}")
    own = {tool: one for tool, one in by_tool if one is not None}
    return setting._replace(identity=exempting({"*": same, **own} if own else same, exempt))


def tools_by_calls(runs: Iterable[Run]) -> list[str]:
    """The tools that runs call most, by how often."""
    calls = Counter(call.name for run in runs for step in run.steps for call in step.response.tool_calls)
    return [name for name, _ in calls.most_common(MAX_TOOLS) if name]
