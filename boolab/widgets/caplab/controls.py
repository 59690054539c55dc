"""What the controls show: the values of each slider and their ticks, and how calls are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from boolab.core.run import Run
from boolab.core.run_tree import tool_calls
from boolab.core.text import clean
from boolab.errors import SettingError, near
from boolab.harnesses.policy import default_settings
from boolab.harnesses.presets import policies
from boolab.harnesses.setting import SAME_CALL, Setting
from boolab.limits.call_identity import exclude_tools, identity_of
from boolab.limits.table import AGENT_LIMITS, LIMITS
from boolab.whatif.step_table import Ints

_MAX_VALUES: Final = dict.fromkeys(AGENT_LIMITS, 120) | {"doom_loop": 16}
"""How many values an axis has at most: with all three, 250,000 settings, 50 MB."""
MAX_BARS: Final = 60  # of the distribution
FAR: Final = 1.25  # so many times as far as the axis, the longest run is beyond it
_LOG: Final = 0.2  # an axis is logarithmic if the lower half of its values takes a smaller share of it


class Values(NamedTuple):
    """The values of an axis, ascending, and whether they are all that make a difference."""

    numbers: list[int]
    complete: bool


def values_of(name: str, peak: int, extra_values: Collection[int] = ()) -> Values:
    """The values of an axis up to the largest count: all whole numbers, or ever fewer; and `extra_values`."""
    min_value, max_values = LIMITS[name].min_useful, _MAX_VALUES[name]
    top = max(peak, min_value)
    if top - min_value < max_values:
        return Values(sorted({*range(min_value, top + 1), *extra_values}), complete=True)
    head = max_values // 2
    tail = np.geomspace(min_value + head, top, max_values - head).round().astype(int)
    return Values(sorted({*range(min_value, min_value + head), *tail.tolist(), *extra_values}), complete=False)


def end_of(lengths: Ints, min_end: int) -> int:
    """Where the axis of a figure ends: at the longest run, or, if a few are much longer, where 99.5% have ended.

    Example:
        >>> end_of(np.array([3] * 400 + [100]), 5), end_of(np.array([3, 4, 100]), 5)
        (5, 100)
    """
    longest = int(lengths.max(initial=1))
    usual = int(np.percentile(lengths, 99.5, method="higher")) if len(lengths) else 1
    end = max(usual, min_end)
    return end if longest > FAR * end else longest


def edges_of(end: int, longest: int) -> tuple[Ints, int]:
    """The edges of the bars of a distribution of lengths, and where the axis ends: the last bar may be beyond it."""
    width = -(-max(end, 1) // MAX_BARS)
    edges = np.arange(0, end + width + 1, width, dtype=np.int64)
    last = int(edges[-1])
    return (edges if longest < last else np.append(edges, longest + 1)), last


def is_log(caps: Sequence[int]) -> bool:
    """Whether the axis of the caps is logarithmic: half of them are close to its beginning."""
    lowest, highest = caps[0], caps[-1]
    return highest > lowest + 1 and bool((np.median(caps) - lowest) / (highest - lowest) < _LOG)


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
    """The defaults of harnesses on an axis, ascending, up to the largest value that the slider has."""
    titles_by_value: dict[int, list[str]] = {}
    for preset, title in HARNESSES.items():
        policy = policies[preset]
        value = default_settings(policy, policy.budgets.no_agent)[axis]
        if value is not None and value <= largest:
            titles_by_value.setdefault(value, []).append(title)
    return [{"value": value, "label": ", ".join(titles)} for value, titles in sorted(titles_by_value.items())]


MAX_TOOLS: Final = 40
"""How many tools a control lists."""


def counting_of(setting: Setting, tools: Sequence[str]) -> dict[str, Any]:
    """What controls show of how a setting counts calls, as plain data."""
    default_identity, by_tool = identity_of(setting.identity)
    exempt = [tool for tool, identity in by_tool if identity is None]
    tool_texts = [
        f"{clean(tool)}: {SAME_CALL[identity]}"
        for tool, identity in by_tool
        if identity is not None and identity != default_identity
    ]
    return {
        "same": default_identity,
        "choices": [{"name": name, "words": words} for name, words in SAME_CALL.items()],
        "own": tool_texts,
        "scope": setting.scope,
        "exempt": exempt,
        "tools": [*tools, *(tool for tool in exempt if tool not in tools)],
    }


def change_counting(setting: Setting, request: Mapping[str, Any]) -> Setting:
    """A setting whose calls are compared by another identity (`same`), or with other exempt tools (`exempt`)."""
    if not request:
        return setting
    default_identity, by_tool = identity_of(setting.identity)
    exempt = request.get("exempt", [tool for tool, identity in by_tool if identity is None])
    default_identity = request.get("same", default_identity)
    if default_identity not in SAME_CALL:
        raise SettingError(f"same={default_identity!r}{near(default_identity, SAME_CALL, 'accepted')}")
    tool_identities = {tool: identity for tool, identity in by_tool if identity is not None}
    return setting._replace(
        identity=exclude_tools(
            {"*": default_identity, **tool_identities} if tool_identities else default_identity, exempt
        )
    )


def tools_by_calls(runs: Iterable[Run]) -> list[str]:
    """The tools that runs call most, by how often."""
    calls = Counter(call.name for call in tool_calls(*runs))
    return [name for name, _ in calls.most_common(MAX_TOOLS) if name]
