"""A setting of the sliders as the settings of each harness."""

from __future__ import annotations

import re
from typing import Any

from boolab.agents.setting import ALL, Setting, as_code, as_front_matter
from boolab.exports.export import TARGETS, export, target_of
from boolab.exports.values import Limits, Part
from boolab.harness.policy import Policy

SHORT = {"max_steps": "cap", "tool_budget": "budget", "doom_loop": "doom loop"}
"""What limits are called where there is little room."""
LONG = 40  # letters of a line that finds no place beside a harness


def how_to_set(setting: Setting, policy: str | Policy | None = None) -> list[dict[str, Any]]:
    """A setting as text for each harness, and as Python.

    Args:
        setting: The setting. Without any limit, only boolab has texts for it.
        policy: The policy under which its numbers hold.

    Returns:
        For each: `name` (an export target, or "python"), `title`, `where` (where the text belongs), `text` (ready to
        paste), `line` (the lines of the text with the limits), `sets` (whether the harness has any of them), `others`
        (further texts, each with `where` and `text`) and `notes` (what the texts have no comment for).

    Example:
        >>> [one["name"] for one in how_to_set(Setting())]
        ['boolab', 'python']
        >>> ways = {one["name"]: one for one in how_to_set(Setting(max_steps=68))}
        >>> ways["claude-code"]["line"], ways["codex"]["sets"]
        ('claude -p --max-turns 68 PROMPT', False)
    """
    own = as_front_matter(setting, policy)
    python = as_code(setting, policy)
    texts = [
        _way("boolab", "boolab agent file", "an agent file; the prompt goes below it", own, setting),
        _way("python", "boolab in Python", "an agent, and the same as a stop rule", python, setting),
    ]
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
    made = [(name, export(name, limits)) for name in TARGETS if name != "boolab"]
    ways = [
        _way(name, target_of(name).title.removeprefix("the "), _where(one.parts[0]), one.parts[0].text, setting)
        | {
            "others": [{"where": _where(part), "text": part.text} for part in one.parts[1:]],
            "notes": [*one.notes] if all(part.language == "json" for part in one.parts) else [],
        }
        for name, one in made
    ]
    return sorted([*ways, *texts], key=lambda way: not way["sets"])


def short_of(limits: dict[str, int | None]) -> str:
    """Limits in a few words.

    Example:
        >>> short_of({"max_steps": 68, "tool_budget": None, "doom_loop": 3}), short_of({"max_steps": None})
        ('cap 68, doom loop 3', 'no limit')
    """
    return ", ".join(f"{SHORT[name]} {value:,}" for name, value in limits.items() if value is not None) or "no limit"


def _where(part: Part) -> str:
    return f"{part.path}: {part.how}" if part.path else part.how


def _way(name: str, title: str, where: str, text: str, setting: Setting) -> dict[str, Any]:
    values = [str(value) for value in setting.limits.values() if value is not None]
    hits = _lines_with(text, values)
    sets = bool(hits) or not values
    way = {"name": name, "title": title, "where": where, "text": text, "line": " ".join(hits), "sets": sets}
    return way | {"others": [], "notes": []}


def _lines_with(text: str, values: list[str]) -> list[str]:
    """The lines of a text, without comments, that have one of these values; else those that have any number.

    Of a long line, what is set and its value.
    """
    lines = (line.strip().rstrip(",") for line in text.splitlines())
    code = [line for line in lines if line and not line.startswith(("#", "//", "-"))]
    own = [line for line in code if any(re.search(rf"(?<!\d){value}(?!\d)", line) for value in values)]
    hits = own or [line for line in code if values and re.search(r"\d", line)]
    short = (re.search(r"[\w\"]+\s?[=:]\s?\d+", line) if len(line) > LONG else None for line in hits)
    return [*dict.fromkeys(found[0] if found else line for found, line in zip(short, hits, strict=True))]
