"""The settings that a page without a kernel holds answers to: all caps where it matters, some of the others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from boolab.core.text import count
from boolab.harnesses.setting import Limits, Setting
from boolab.limits.table import AGENT_LIMITS, LIMITS
from boolab.widgets.caplab.table import CapTable

SAMPLED: Final = dict(zip(AGENT_LIMITS, (8, 5, 4), strict=True))
"""How many values of each limit are combined with all others; least of the doom-loop threshold."""
NOTE: Final = (
    "This page works without Python: it holds all step caps, and some values of the other limits. To keep another "
    "share, to count calls in another way, to exempt tools, or to see more runs, make a CapLab in a notebook."
)
"""What a page can do, and what it cannot."""
_NUMBER: Final = re.compile(r"(\d+)")


def settings_in_page(
    table: CapTable, setting: Setting, extra_limits: Limits | None, rows: int, *, all_columns: bool
) -> HeldSettings:
    """The answers to some settings, in columns of a tool budget and a doom-loop threshold, and what they lack."""
    shown_limits = [limit_values for limit_values in (setting.limits, extra_limits) if limit_values]
    full = {(limit_values["tool_budget"], limit_values["doom_loop"]) for limit_values in shown_limits} | {(None, None)}
    values = {
        name: sample_values(table.options[name], SAMPLED[name] if all_columns else 0, (pair[n] for pair in full))
        for n, name in enumerate(("tool_budget", "doom_loop"))
    }
    sampled_caps = sample_values(
        table.options["max_steps"], SAMPLED["max_steps"], (limit_values["max_steps"] for limit_values in shown_limits)
    )
    patterns: dict[str, int] = {}
    columns = []
    for doom in values["doom_loop"]:
        for budget in values["tool_budget"]:
            caps = table.options["max_steps"] if (budget, doom) in full else sampled_caps
            column_setting = setting._replace(tool_budget=budget, doom_loop=doom)
            answers = [table.answer_at(column_setting._replace(max_steps=cap), rows) for cap in caps]
            for answer in answers:
                answer["how"] = _split_pattern(answer["how"], patterns)
            limits = {"tool_budget": budget, "doom_loop": doom}
            curve = table.curve({"max_steps": None, **limits})
            columns.append({**limits, "caps": caps, "answers": answers, "curve": curve})
    return {
        "values": values,
        "columns": columns,
        "patterns": [*patterns],
        "some": _partial_note(table, values),
        "note": NOTE,
    }


HeldSettings = dict[str, Any]


def _split_pattern(texts: object, patterns: dict[str, int]) -> list[Any]:
    """Texts as the place of a pattern and the numbers in it: the texts of most settings differ in numbers only."""
    parts = _NUMBER.split(json.dumps(texts, ensure_ascii=False))
    return [patterns.setdefault("\0".join(parts[::2]), len(patterns)), parts[1::2]]


def _partial_note(table: CapTable, values: Mapping[str, Sequence[int | None]]) -> str:
    """Which limits are held in part; "" if all are."""
    texts = [
        f"{len(held_values) - 1} of {count(len(table.options[name]) - 1, LIMITS[name].label)}"
        for name, held_values in values.items()
        if 1 < len(held_values) < len(table.options[name])
    ]
    return f"This page holds {' and '.join(texts)}: a notebook has all." if texts else ""


def sample_values(
    values: Sequence[int | None], max_values: int, extra_values: Iterable[int | None] = ()
) -> list[int | None]:
    """Some of the ascending values of an axis: its ends, `max_values` at most in between, and `extra_values`."""
    indices = {*_places(len(values), max_values)} if max_values else {len(values) - 1}
    wanted_values = set(extra_values)
    return [value for index, value in enumerate(values) if index in indices or value in wanted_values]


def _places(n: int, max_values: int) -> Iterator[int]:
    """Places that are evenly apart, with the last two: the loosest limit, and none."""
    indices = {round(position) for position in np.linspace(0, n - 1, min(max_values, n))} - {n - 1}
    indices |= {n - 1, max(n - 2, 0)}
    if len(indices) > max_values:
        indices.discard(sorted(indices)[1])
    yield from indices
