"""The outline of a run: its turns, and in each what was done; neighbours that do the same share a line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any, Final

from boolab.core.text import clean, shorten

_ANSWER: Final = "final answer"
_NOTHING: Final = "no text"
_UNRECORDED: Final = "text not on record"
_PEEK: Final = 200
_WORDS: Final = 48
_TEXT: Final = "text"
_TIMES: Final = "\N{MULTIPLICATION SIGN}"


def outline_of(
    turns: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]], between: Collection[int] = ()
) -> list[dict[str, Any]]:
    """The outline of a run.

    `between`: the steps that something follows in the transcript: no item continues after one of them. Returns for each
    turn `turn`, `title` and `items`: each of them `label`, `kind` (of tools; "text" where nothing is called), `first`
    and `last` step, `errors` (how many of its calls failed), and `repeats` (how many steps repeat the call before
    them).

    Example:
        >>> call = {"label": "ls src", "tool": "ls", "kind": "read", "error": False, "streak": 1}
        >>> steps = [{"calls": [call], "text": "", "error": ""}, {"calls": [], "text": "Done.", "error": ""}]
        >>> [item["label"] for item in outline_of([{"title": "Look", "first": 1, "last": 2}], steps)[0]["items"]]
        ['ls src', 'final answer']
    """
    return [
        {"turn": number, "title": turn["title"], "items": items}
        for number, turn in enumerate(turns, 1)
        for items in [_items(steps, turn["first"], turn["last"], between, ends=number == len(turns))]
    ]


def _items(
    steps: Sequence[Mapping[str, Any]], first: int, last: int, between: Collection[int], *, ends: bool
) -> list[dict[str, Any]]:
    """The items of a turn; `ends`: whether it is the last one, so that its last text is the answer."""
    numbers = range(first, last + 1)
    parts = accumulate((number - 1 in between for number in numbers), initial=0)  # how many rows came before
    numbered = [(number, steps[number - 1], part) for number, part in zip(numbers, [*parts][1:], strict=True)]
    items = []
    for _, group in groupby(numbered, lambda one: (one[2], *_sameness(one[1]))):
        members = [(number, step) for number, step, _ in group]
        inside = [step for _, step in members]
        calls = [call for step in inside for call in step["calls"]]
        repeats = sum(any(call["streak"] > 1 for call in step["calls"]) for step in inside)
        items.append(
            {
                "label": _label(inside, calls, repeats, closes=ends and members[-1][0] == last),
                "kind": calls[0]["kind"] if calls else _TEXT,
                "first": members[0][0],
                "last": members[-1][0],
                "errors": sum(call["error"] is True for call in calls) + sum(bool(step["error"]) for step in inside),
                "repeats": repeats,
            }
        )
    return items


def _sameness(step: Mapping[str, Any]) -> tuple[str, ...]:
    """What makes neighbours one item: the same calls, or reads by the same tool, all carried out or all refused."""
    calls = step["calls"]
    if not calls:
        return (_TEXT, step["text"], step["error"], str(step.get("missing")))
    tools = {(call["tool"], call["kind"]) for call in calls}
    refused = str(any(call.get("refused") for call in calls))
    if len(tools) == 1 and calls[0]["kind"] == "read":
        return ("read", calls[0]["tool"], refused)
    return (*sorted({call["label"] for call in calls}), refused)


def _label(
    steps: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]], repeats: int, *, closes: bool
) -> str:
    if not calls:
        if steps[-1]["error"]:
            return "failed"
        text = clean(steps[0]["text"][:_PEEK])
        if steps[0].get("missing"):
            return _ANSWER if closes else _UNRECORDED
        label = _ANSWER if closes and text else f'"{shorten(text, _WORDS)}"' if text else _NOTHING
        return label if len(steps) == 1 else f"{label} {_TIMES}{len(steps)}"
    labels = list(dict.fromkeys(call["label"] for call in calls))
    if len(labels) == 1:
        return str(labels[0]) if repeats + 1 >= len(calls) else f"{labels[0]} {_TIMES}{len(calls)}"
    tools = list(dict.fromkeys(call["tool"] for call in calls))
    if len(tools) == 1:
        return f"{tools[0]} {_TIMES}{len(calls)}"
    return f"{labels[0]} and {len(calls) - 1} more"
