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


def settings_in_page(table: CapTable, setting: Setting, also: Limits | None, rows: int, *, others: bool) -> Held:
    """The answers to some settings, in columns of a tool budget and a doom-loop threshold each.

    The columns without these two limits, with those of `setting` and with those of `also` have all caps.

    `also`: further limits that are held: those of the recommended setting. Returns `values` (by axis, what the columns
    have), `columns` (each with its limits, its `caps`, their `answers`, and the `curve` of all caps), `patterns` (see
    `how` in the answers), `some` (which limits are held in part) and a `note` of what the page cannot do.
    """
    shown = [one for one in (setting.limits, also) if one]
    full = {(one["tool_budget"], one["doom_loop"]) for one in shown} | {(None, None)}
    values = {
        name: sampled(table.options[name], SAMPLED[name] if others else 0, (pair[n] for pair in full))
        for n, name in enumerate(("tool_budget", "doom_loop"))
    }
    some = sampled(table.options["max_steps"], SAMPLED["max_steps"], (one["max_steps"] for one in shown))
    patterns: dict[str, int] = {}
    columns = []
    for doom in values["doom_loop"]:
        for budget in values["tool_budget"]:
            caps = table.options["max_steps"] if (budget, doom) in full else some
            at = setting._replace(tool_budget=budget, doom_loop=doom)
            answers = [table.answer_at(at._replace(max_steps=cap), rows) for cap in caps]
            for answer in answers:
                answer["how"] = _with_pattern(answer["how"], patterns)
            limits = {"tool_budget": budget, "doom_loop": doom}
            curve = table.curve({"max_steps": None, **limits})
            columns.append({**limits, "caps": caps, "answers": answers, "curve": curve})
    return {"values": values, "columns": columns, "patterns": [*patterns], "some": _some(table, values), "note": NOTE}


Held = dict[str, Any]


def _with_pattern(how: object, patterns: dict[str, int]) -> list[Any]:
    """Texts as the place of a pattern and the numbers in it: the texts of most settings differ in numbers only."""
    parts = _NUMBER.split(json.dumps(how, ensure_ascii=False))
    return [patterns.setdefault("\0".join(parts[::2]), len(patterns)), parts[1::2]]


def _some(table: CapTable, values: Mapping[str, Sequence[int | None]]) -> str:
    """Which limits are held in part; "" if all are."""
    some = [
        f"{len(held) - 1} of {count(len(table.options[name]) - 1, LIMITS[name].label)}"
        for name, held in values.items()
        if 1 < len(held) < len(table.options[name])
    ]
    return f"This page holds {' and '.join(some)}: a notebook has all." if some else ""


def sampled(values: Sequence[int | None], most: int, also: Iterable[int | None] = ()) -> list[int | None]:
    """Some of the ascending values of an axis: its ends, `most` at most in between, and those of `also`.

    `values`: the values; the last one is None, which is off. `most`: how many to take; 0 for those of `also` and the
    last one alone.

    Example:
        >>> sampled([1, 2, 3, 4, 5, 6, None], 3, also=[5])
        [1, 5, 6, None]
        >>> sampled([1, 2, 3, 4, 5, 6, None], 0, also=[5])
        [5, None]
    """
    places = {*_places(len(values), most)} if most else {len(values) - 1}
    wanted = set(also)
    return [value for place, value in enumerate(values) if place in places or value in wanted]


def _places(n: int, most: int) -> Iterator[int]:
    """Places that are evenly apart, with the last two: the loosest limit, and none."""
    places = {round(place) for place in np.linspace(0, n - 1, min(most, n))} - {n - 1}
    places |= {n - 1, max(n - 2, 0)}
    if len(places) > most:
        places.discard(sorted(places)[1])
    yield from places
