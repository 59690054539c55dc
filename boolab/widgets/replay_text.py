"""A run as text to read where nothing can be drawn: a line for each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from boolab.stats.finding import clean
from boolab.transcript import short

_MOST: Final = 48
_LAST: Final = 12
"""Of a long run's steps so many are shown, and so many of them from its end."""


def replay_text(data: Mapping[str, Any]) -> str:
    """The steps of a run, a line each, in turns, with its stop and what other policies would have done.

    Args:
        data: What `replay_data` gives.

    Returns:
        About 60 lines at most; it says how many steps it leaves out.

    Example:
        >>> from boolab import ScriptedModel, run_sync
        >>> from boolab.widgets.replay_data import replay_data
        >>> script = ScriptedModel([{"tool_calls": [{"name": "ls"}]}, "Done."], tools={"ls": "a.py"})
        >>> run = run_sync(None, "Look", model=script, policy="opencode_3631")
        >>> print(replay_text(replay_data(run, policies=[])))
        2 steps · 1 call
        Look
           1. ls
           2. "Done."
        finished after 2 steps
    """
    return "\n".join(short(line.rstrip()) for line in _lines(data))


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    yield clean(" · ".join(data["pills"]))
    steps = data["steps"]
    shown = _shown(len(steps))
    opens = {turn["first"]: turn["title"] for turn in data["turns"]}
    if not steps:
        yield from filter(None, map(_flat, opens.values()))
    last = 0
    for number in shown:
        if number > last + 1:
            yield f"      {number - last - 1:,} steps are left out"
        if number in opens:
            yield _flat(opens[number])
        yield f"{number:4}. {_said(steps[number - 1])}"
        last = number
    yield _flat(data["stop"]["text"])
    if data["finding"]:
        yield _flat(data["finding"])
    yield from _marked(data["marks"])
    if data["children"]:
        yield _flat("subagents: " + ", ".join(child["run"]["title"] for child in data["children"][:_LAST]))


def _shown(n: int) -> Sequence[int]:
    """The numbers of the steps that are shown: of a long run the beginning and the end."""
    if n <= _MOST:
        return range(1, n + 1)
    return [*range(1, _MOST - _LAST + 1), *range(n - _LAST + 1, n + 1)]


def _said(step: Mapping[str, Any]) -> str:
    parts = [call["label"] + _outcome(call) for call in step["calls"]]
    if not parts and step["text"]:
        parts = [f'"{_flat(step["text"])}"']
    if step["error"]:
        parts.append(f"broke off: {_flat(step['error'])}")
    return ", ".join(parts) or "nothing"


def _outcome(call: Mapping[str, Any]) -> str:
    if call["dropped"]:
        return " (never ran)"
    failed = " (failed)" if call["error"] else ""
    return f"{failed} (same call, {call['streak']} in a row)" if call["streak"] > 1 else failed


def _marked(marks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    others = [mark for mark in marks if not mark["own"] and mark["step"] is not None]
    for mark in sorted(others, key=lambda mark: int(mark["step"]))[:6]:
        yield _flat(f"{mark['label']}: after step {mark['step']:,}")


def _flat(text: str) -> str:
    return clean(text[:400])
