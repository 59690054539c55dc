"""What the card of a tool call shows: what it is about, its edits as diffs, and its other arguments as text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from boolab.core.redacted import is_redacted
from boolab.core.text import clean, clip
from boolab.core.types import REDACTED
from boolab.runtime.engine.decide import BLOCKED, DENIED
from boolab.widgets.replay.diffs import diff_rows
from boolab.widgets.replay.edits import Edit, edits_of

MAX_ABOUT: Final = 300
_MAX_EDITS: Final = 200
_MAX_FLAT: Final = 80  # characters of an argument with parts that stays on one line
_REFUSALS: Final = (
    BLOCKED,
    DENIED,
    "The user doesn't want to proceed with this tool use",  # Claude Code
    "Your proposed edit has introduced new syntax error",  # SWE-agent
)
"""How results begin of calls that were not carried out, as the harnesses write them."""
_FENCE: Final = "```"
_BLOCK: Final = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_MAIN_KEYS: Final = {
    "execute": ("command", "cmd", "script", "code", "input"),
    "search": ("pattern", "query", "regex", "search_term", "q", "glob", "command", "path"),
    "subagent": ("description", "prompt", "task"),
}
_PATH_KEYS: Final = ("file_path", "path", "filePath", "filename", "file_name", "file", "target_file", "url", "command")


def card_of(
    tool: str, kind: str, arguments: str, value: object, *, result: str = "", window: str = ""
) -> dict[str, Any]:
    """What a call's card shows, as plain data; `window` is the last result that showed lines of an open file."""
    if arguments == REDACTED:
        return {"about": "", "fields": [["arguments", "not in the log"]], "edits": []}
    if is_redacted(arguments):
        return {"about": "", "fields": [], "edits": []}
    edits = edits_of(kind, arguments if value is None else value, result, window)[:_MAX_EDITS]
    used_keys = {*chain.from_iterable(edit.keys for edit in edits)}
    command = value.get("command") if used_keys and isinstance(value, Mapping) else None
    if isinstance(command, str) and command.isidentifier():
        used_keys.add("command")  # what an editor with several commands does is seen in its diff
    subject, whole_keys = _main_argument(tool, kind, arguments if value is None else value, edits, used_keys)
    fields = (
        []
        if used_keys and value is None
        else list(_fields(arguments if value is None else value, used_keys | whole_keys))
    )
    fields = [field for field in fields if not whole_keys or field[1] != subject]
    return {"about": subject, "fields": fields, "edits": [_edit(edit) for edit in edits]}


def is_refused(result: str) -> bool:
    """Whether a result reports that its call was not carried out: by a guard, by the user, or by the editor's check."""
    return result.startswith(_REFUSALS)


def remove_commands(text: str, calls: Iterable[tuple[str, object]]) -> str:
    """A text without the code blocks that only repeat what its calls say."""
    if _FENCE not in text:
        return text
    commands: set[str] = set()
    for arguments, value in calls:
        values = value.values() if isinstance(value, Mapping) else [arguments]
        commands.update(item.strip() for item in values if isinstance(item, str))
    shortened = _BLOCK.sub(lambda block: "" if block[1].strip() in commands else block[0], text)
    return text if shortened == text else shortened.strip()


def _main_argument(tool: str, kind: str, value: object, edits: list[Edit], used_keys: set[str]) -> tuple[str, set[str]]:
    """The main argument in one line, and the names of those that are shown whole in it."""
    if edits and isinstance(value, Mapping) and "command" in used_keys and edits[0].path:
        path = edits[0].path
        return clip(clean(path), MAX_ABOUT), {key for key in value if value[key] == path and len(path) <= MAX_ABOUT}
    if isinstance(value, Mapping):
        for key in (*_MAIN_KEYS.get(kind, ()), *_PATH_KEYS):
            text = _command_line(value.get(key))
            if text.strip() and key not in used_keys:
                return _line(tool, key, text)
        other_keys = [key for key in value if key not in used_keys]
        if len(other_keys) == 1 and isinstance(value[other_keys[0]], str | int | float):
            return _line(tool, other_keys[0], str(value[other_keys[0]]))
    return (clip(clean(edits[0].path), MAX_ABOUT) if edits else ""), set()


def _command_line(value: object) -> str:
    """A text; of a list of words the command line; of a shell's, what it executes."""
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return value[-1] if value[1:-1] in (["-c"], ["-lc"]) else " ".join(value)
    return value if isinstance(value, str) else ""


def _line(tool: str, key: str, text: str) -> tuple[str, set[str]]:
    stripped = text.strip()
    first = stripped.split("\n", 1)[0]
    is_whole = first == stripped and len(first) <= MAX_ABOUT
    line = first.removeprefix(f"{tool} ") if key == "command" else first
    return clip(clean(line), MAX_ABOUT), {key} if is_whole else set()


def _fields(value: object, shown_keys: set[str]) -> Iterator[list[str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in shown_keys:
                yield [str(key), _argument_text(item)]
    elif value not in ("", None):
        yield ["arguments", _argument_text(value)]


def _argument_text(value: object) -> str:
    """An argument as text: a list of texts a line each, what has parts as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(item, str) and "\n" not in item for item in value):
        return "\n".join(value)
    flat = json.dumps(value, ensure_ascii=False)
    return flat if len(flat) <= _MAX_FLAT and "\\" not in flat else _outline_value(value)


def _outline_value(value: object, indent: str = "") -> str:
    """A value with parts as indented lines, its texts as they are."""
    if isinstance(value, Mapping) and value:
        return "\n".join(_entry(f"{key}:", item, indent) for key, item in value.items())
    if isinstance(value, list) and value:
        return "\n".join(_entry("-", item, indent) for item in value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "\n".join(f"{indent}{line}" for line in text.split("\n"))


def _entry(name: str, value: object, indent: str) -> str:
    inner = _outline_value(value, indent + "  ")
    flat = "\n" not in inner and not (isinstance(value, Mapping | list) and value)
    if flat or name == "-":
        return f"{indent}{name} {inner.lstrip()}"
    return f"{indent}{name}\n{inner}"


def _edit(edit: Edit) -> dict[str, Any]:
    old, new = edit.old, edit.new
    if (old.endswith("\n") or not old) and (new.endswith("\n") or not new):
        old, new = old.removesuffix("\n"), new.removesuffix("\n")  # whole lines: no empty one follows the last
    rows = diff_rows(old, new)
    return {"path": edit.path, "note": edit.note, "first": edit.first, "rows": [[row.sign, *row.parts] for row in rows]}
