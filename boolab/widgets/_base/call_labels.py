"""A tool call in one short line: the tool, and what it is about."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from boolab.core.text import clean, clip, shorten
from boolab.core.types import REDACTED, ToolCall
from boolab.widgets._base.tool_icons import Kind, kind_of

_MOST: Final = 60
_PEEK: Final = 400  # characters of a text that its label can come from

_COMMANDS: Final = ("command", "cmd", "commands", "script", "code", "input")
_SOUGHT: Final = ("pattern", "query", "regex", "search_term", "search", "q", "glob")
_PLACES: Final = ("file_path", "path", "filename", "file_name", "file", "target_file", "paths", "files", "url")
_ASSIGNED: Final = ("description", "prompt", "task", "agent", "subagent_type")


class Labelled(NamedTuple):
    """A call as it is shown: its kind, its label, and its arguments; None where they are not JSON or redacted."""

    kind: Kind
    label: str
    value: object


def labelled(call: ToolCall) -> Labelled:
    """A call with its label.

    Example:
        >>> import boolab as bl
        >>> labelled(bl.models.ToolCall("1", "grep", '{"pattern": "old_name"}')).label
        'grep "old_name"'
    """
    value = parsed(call.arguments)
    kind = kind_of(call.name, value)
    return Labelled(kind, label_of(call.name, kind, call.arguments, value), value)


def parsed(arguments: str) -> object:
    """The arguments of a call; None where they are not JSON, or redacted."""
    if arguments == REDACTED:
        return None
    try:
        value: object = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return value


def label_of(tool: str, kind: Kind, arguments: str, value: object) -> str:
    """A call in one line.

    Args:
        tool: The tool's name.
        kind: What it does.
        arguments: The raw arguments.
        value: The same, parsed; None where they cannot be.

    Returns:
        At most 60 characters, without control characters.

    Example:
        >>> label_of("grep", "search", "", {"pattern": "old_name", "path": "src"})
        'grep "old_name"'
        >>> label_of("bash", "execute", "", {"command": "pytest -q"})
        'pytest -q'
    """
    name = shorten(tool[:_PEEK], 32) or "no name"
    about = _about(kind, arguments, value)
    if not about:
        return name
    if kind == "execute" and isinstance(value, dict) and any(key in value for key in _COMMANDS):
        return clip(about, _MOST)
    if about.split(" ", 1)[0] == name:  # a command line, which begins with the tool
        return clip(about, _MOST)
    return clip(f"{name}: {about}" if kind == "subagent" else f"{name} {about}", _MOST)


def _about(kind: Kind, arguments: str, value: object) -> str:
    if value is None:
        return "" if arguments == REDACTED else clean(arguments[:_PEEK])
    if not isinstance(value, dict):
        return _said(value)
    for keys in _order(kind):
        for key in keys:
            said = _said(value.get(key))
            if said:
                return _place(said) if keys is _PLACES else f'"{said}"' if keys is _SOUGHT else said
    return next(filter(None, map(_said, value.values())), "")


def _order(kind: Kind) -> tuple[tuple[str, ...], ...]:
    """Where to look for what a call is about."""
    if kind == "execute":
        return _COMMANDS, _PLACES, _SOUGHT
    if kind == "search":
        return _SOUGHT, _PLACES
    if kind == "subagent":
        return (_ASSIGNED,)
    return _PLACES, _SOUGHT, _COMMANDS, _ASSIGNED


def _said(value: object) -> str:
    """A value in a few words: of several, the first and how many more there are."""
    if isinstance(value, str):
        return clean(value[:_PEEK])
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list) and value:
        first = _said(value[0])
        return f"{first} and {len(value) - 1} more" if first and len(value) > 1 else first
    if isinstance(value, dict):
        return next(filter(None, map(_said, value.values())), "")
    return ""


def _place(path: str) -> str:
    """The end of a path, which tells more than its beginning."""
    parts = path.rstrip("/").split("/")
    return path if len(path) <= _MOST // 2 else "/".join(parts[-2:])
