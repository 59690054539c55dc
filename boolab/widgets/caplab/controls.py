"""What the controls show: the values of each slider and their ticks, and how calls are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from boolab.core.text import clean
from boolab.core.types import Run
from boolab.errors import SettingError, near
from boolab.harnesses.policy import default_settings
from boolab.harnesses.presets import policies
from boolab.harnesses.setting import SAME_CALL, Setting
from boolab.limits.call_identity import exempting, identity_of
from boolab.limits.table import AGENT_LIMITS, LIMITS
from boolab.whatif.step_table import Ints

_MAX_VALUES: Final = dict.fromkeys(AGENT_LIMITS, 120) | {"doom_loop": 16}
"""How many values an axis has at most: with all three, 250,000 settings, 50 MB."""
MAX_BARS: Final = 60  # of the distribution
FAR: Final = 1.25  # so many times as far as the axis, the longest run is beyond it
_LOG: Final = 0.2  # an axis is logarithmic if the lower half of its values takes a smaller share of it


class Values(NamedTuple):
    """The values of an axis, ascending, and whether they are all that make a difference."""

    listed: list[int]
    whole: bool


def values_of(name: str, peak: int, also: Collection[int] = ()) -> Values:
    """The values of an axis up to the largest count: all whole numbers, or, of a long range, ever fewer; and `also`."""
    least, most = LIMITS[name].min_useful, _MAX_VALUES[name]
    top = max(peak, least)
    if top - least < most:
        return Values(sorted({*range(least, top + 1), *also}), whole=True)
    head = most // 2
    tail = np.geomspace(least + head, top, most - head).round().astype(int)
    return Values(sorted({*range(least, least + head), *tail.tolist(), *also}), whole=False)


def end_of(lengths: Ints, least: int) -> int:
    """Where the axis of a figure ends: at the longest run, or, if a few are much longer, where 99.5% have ended.

    Example:
        >>> end_of(np.array([3] * 400 + [100]), 5), end_of(np.array([3, 4, 100]), 5)
        (5, 100)
    """
    longest = int(lengths.max(initial=1))
    usual = int(np.percentile(lengths, 99.5, method="higher")) if len(lengths) else 1
    end = max(usual, least)
    return end if longest > FAR * end else longest


def edges_of(end: int, longest: int) -> tuple[Ints, int]:
    """The edges of the bars of a distribution of lengths, and where the axis ends: the last bar may be beyond it.

    Example:
        >>> edges_of(3, 3), edges_of(3, 100)
        ((array([0, 1, 2, 3, 4]), 4), (array([  0,   1,   2,   3,   4, 101]), 4))
    """
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
    calls: Counter[str] = Counter()
    for run in runs:
        for step in run.steps:
            calls.update(call.name for call in step.response.tool_calls)
    return [name for name, _ in calls.most_common(MAX_TOOLS) if name]
