"""A setting of the sliders as the settings of each harness."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from boolab.harnesses.exports.export import export, target_of
from boolab.harnesses.exports.values import Limits, Part
from boolab.harnesses.policy import Policy
from boolab.harnesses.registry import TARGETS
from boolab.harnesses.setting import ALL_AGENTS, Setting, as_code, as_front_matter

SHORT: Final = {"max_steps": "cap", "tool_budget": "budget", "doom_loop": "doom loop"}
"""What limits are called where there is little room."""
LONG: Final = 40  # letters of a line that finds no place beside a harness


def how_to_set(setting: Setting, policy: str | Policy | None = None) -> list[dict[str, Any]]:
    """A setting as text for each harness, and as Python; one whose limits are set in two places has two."""
    limit_values = {name: value for name, value in setting.limits.items() if value is not None}
    front = as_front_matter(setting, policy)
    boolab_ways = [
        _way("boolab", "boolab agent file", "an agent file; the prompt goes below it", front, limit_values),
        _way(
            "python",
            "boolab in Python",
            "an agent, and the same as a stop rule",
            as_code(setting, policy),
            limit_values,
        ),
    ]
    if not limit_values:
        return boolab_ways
    limits = Limits(
        max_steps=setting.max_steps,
        tool_budget=setting.tool_budget,
        doom_loop=setting.doom_loop,
        identity=setting.identity,
        scope="run" if setting.scope == "run" else "turn",
        agent=None if setting.agent == ALL_AGENTS else setting.agent,
        policy=policy,
    )
    ways = chain.from_iterable(_ways(name, limits, limit_values) for name in TARGETS if name != "boolab")
    return sorted([*ways, *boolab_ways], key=lambda entry: not entry["short"])


def short_of(limits: Mapping[str, int | None]) -> str:
    """Limits in a few words."""
    return ", ".join(f"{SHORT[name]} {value:,}" for name, value in limits.items() if value is not None) or "no limit"


def _ways(name: str, limits: Limits, limit_values: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """An export: its first part, and each further part that sets what the parts before it do not."""
    exported = export(name, limits)
    title = target_of(name).title.removeprefix("the ")
    ways: list[dict[str, Any]] = []
    done_limits: set[str] = set()
    for part in exported.parts:
        if ways and part.sets <= done_limits:
            ways[-1]["others"].append({"where": _location(part), "text": part.text})
            continue
        done_limits |= part.sets
        part_limits = {axis: value for axis, value in limit_values.items() if axis in part.sets}
        ways.append(_way(name, title, _location(part), part.text, part_limits))
        ways[-1]["notes"] = [*exported.notes] if part.language == "json" else []
    yield from ways


def _location(part: Part) -> str:
    return f"{part.path}: {part.how}" if part.path else part.how


def _way(name: str, title: str, location: str, text: str, limit_values: Mapping[str, int]) -> dict[str, Any]:
    line = "\n".join(_lines_with(text, [str(value) for value in limit_values.values()]))
    short = short_of(limit_values) if limit_values or name in ("boolab", "python") else ""
    entry = {"name": name, "title": title, "where": location, "text": text, "line": line, "short": short}
    return entry | {"others": [], "notes": []}


def _code(text: str) -> list[str]:
    """The lines of a text without comments."""
    lines = (line.strip().rstrip(",") for line in text.splitlines())
    return [line for line in lines if line and not line.startswith(("#", "//", "-"))]


def _lines_with(text: str, values: list[str]) -> list[str]:
    """The lines with one of these values; else those with any number. Of a long line, what is set and its value."""
    code = _code(text)
    matched_lines = [line for line in code if any(re.search(rf"(?<!\d){value}(?!\d)", line) for value in values)]
    hits = matched_lines[: len(values)] or [line for line in code if values and re.search(r"\d", line)]
    short = (re.search(r"(?<![\w\"])[\w\"]+\s?[=:]\s?\d+", line) if len(line) > LONG else None for line in hits)
    return [*dict.fromkeys(match[0] if match else line for match, line in zip(short, hits, strict=True))]
