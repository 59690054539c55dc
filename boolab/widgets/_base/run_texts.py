"""Short texts of a run: its calls, what it used, and texts that are not on record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from boolab.core.redacted import chars_of, is_redacted
from boolab.core.run import Run
from boolab.core.text import clean, clip, count, shorten
from boolab.core.types import MICRO, REDACTED, ToolCall
from boolab.display.text import NO_NAME
from boolab.display.tool_kinds import Kind, kind_of
from boolab.frames.runs import sum_usage


def tokens_of(run: Run) -> int | None:
    """Input and output tokens of all requests; None if unknown, or if there was no request."""
    return sum_usage(run, "input_tokens", "output_tokens") if run.steps or run.outside else None


def calls_of(run: Run) -> Iterator[ToolCall]:
    """The tool calls of all steps."""
    return chain.from_iterable(step.response.tool_calls for step in run.steps)


def dollars_of(run: Run) -> float | None:
    """The cost of all requests in dollars; None if unknown, or if there was no request."""
    cost = sum_usage(run, "cost") if run.steps or run.outside else None
    return None if cost is None else cost / MICRO


def visible_text(text: str) -> str:
    """A text as it is shown: empty if it is a placeholder."""
    return "" if is_redacted(text) else text


def sizes_of(**texts: str) -> dict[str, int]:
    """The characters of each text that is not on record, by its name."""
    return {name: chars_of(text) for name, text in texts.items() if is_redacted(text)}


def describe_text(text: str) -> str:
    """A text, or how long it is where it is not on record."""
    return f"not on record, {count(chars_of(text), 'character')}" if is_redacted(text) else text


MAX_CHARS: Final = 60
_MAX_LABEL_SOURCE: Final = 400  # characters of a text that its label can come from

_COMMAND_KEYS: Final = ("command", "cmd", "commands", "script", "code", "input")
_PATTERN_KEYS: Final = ("pattern", "query", "regex", "search_term", "search", "q", "glob")
_PATH_KEYS: Final = ("file_path", "path", "filename", "file_name", "file", "target_file", "paths", "files", "url")
_TASK_KEYS: Final = ("description", "prompt", "task", "agent", "subagent_type")


class Labelled(NamedTuple):
    """A call as it is shown: its kind, its label, and its arguments; None where they are not JSON or redacted."""

    kind: Kind
    label: str
    value: object


def label_call(call: ToolCall) -> Labelled:
    """A call with its label.

    Example:
        >>> import boolab as bl
        >>> label_call(bl.models.ToolCall("1", "grep", '{"pattern": "old_name"}')).label
        'grep "old_name"'
    """
    value = _parse_arguments(call.arguments)
    kind = kind_of(call.name, value)
    return Labelled(kind, label_of(call.name, kind, call.arguments, value), value)


def _parse_arguments(arguments: str) -> object:
    """The arguments of a call; None where they are not JSON, or redacted."""
    if arguments == REDACTED:
        return None
    try:
        value: object = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return value


def label_of(tool: str, kind: Kind, arguments: str, value: object) -> str:
    """A call in one line of at most `MAX_CHARS`; `value` is the parsed form of its arguments, if they have one."""
    name = shorten(tool[:_MAX_LABEL_SOURCE], 32) or NO_NAME
    subject = _call_subject(kind, arguments, value)
    if not subject:
        return name
    if kind == "execute" and isinstance(value, dict) and any(key in value for key in _COMMAND_KEYS):
        return clip(subject, MAX_CHARS)
    if subject.split(" ", 1)[0] == name:  # a command line, which begins with the tool
        return clip(subject, MAX_CHARS)
    return clip(f"{name}: {subject}" if kind == "subagent" else f"{name} {subject}", MAX_CHARS)


def _call_subject(kind: Kind, arguments: str, value: object) -> str:
    if value is None:
        return "" if arguments == REDACTED or is_redacted(arguments) else clean(arguments[:_MAX_LABEL_SOURCE])
    if not isinstance(value, dict):
        return _summarise_value(value)
    for keys in _order(kind):
        for key in keys:
            text = _summarise_value(value.get(key))
            if text:
                return _place(text) if keys is _PATH_KEYS else f'"{text}"' if keys is _PATTERN_KEYS else text
    return next(filter(None, map(_summarise_value, value.values())), "")


def _order(kind: Kind) -> tuple[tuple[str, ...], ...]:
    """Where to look for what a call is about."""
    if kind == "execute":
        return _COMMAND_KEYS, _PATH_KEYS, _PATTERN_KEYS
    if kind == "search":
        return _PATTERN_KEYS, _PATH_KEYS
    if kind == "subagent":
        return (_TASK_KEYS,)
    return _PATH_KEYS, _PATTERN_KEYS, _COMMAND_KEYS, _TASK_KEYS


def _summarise_value(value: object) -> str:
    """A value in a few words; of several values, the first and how many more there are."""
    if isinstance(value, str):
        return clean(value[:_MAX_LABEL_SOURCE])
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list) and value:
        first = _summarise_value(value[0])
        return f"{first} and {len(value) - 1} more" if first and len(value) > 1 else first
    if isinstance(value, dict):
        return next(filter(None, map(_summarise_value, value.values())), "")
    return ""


def _place(path: str) -> str:
    """The end of a long path, which identifies a file better than its beginning."""
    parts = path.rstrip("/").split("/")
    return path if len(path) <= MAX_CHARS // 2 else "/".join(parts[-2:])
