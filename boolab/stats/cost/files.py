"""The files that calls name, and those that they read: by the arguments of tools, and by the commands of a shell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from boolab.core.redacted import redacted_arguments
from boolab.core.types import REDACTED, ToolCall

PATHS: Final = ("file_path", "path", "notebook_path", "absolute_path", "filename", "file")
"""The arguments that name a file."""
_COMMANDS: Final = ("command", "cmd", "script")
_READERS: Final = frozenset(
    {
        "read",
        "read_file",
        "view",
        "view_file",
        "open_file",
        "cat",
        "notebookread",
        "read_many_files",
        "str_replace_editor",
    }
)
"""The tools that read a file, by their names in lower case."""
_VIEW: Final = "view"
"""What a tool that also edits is asked to do when it reads."""
_WORD: Final = re.compile(r"[\w./@~-]+")
_MAX_SUFFIX: Final = 5
"""The most letters of a suffix, by which a word of a command is a file: `notes.md`."""
_LEAST_CHARS: Final = 6
"""The least characters of a path in a command: shorter ones are mostly no files."""
_SHELL_READERS: Final = frozenset({"cat", "sed", "head", "tail", "nl", "less"})
_NEXT_COMMAND: Final = re.compile(r"&&|\|\|?|;|\n")
_WRITES: Final = re.compile(r"^sed\s+-\S*i|>(?!&)")
"""Signs that a command writes a file, though its name is that of a reader."""


class NamedFiles(NamedTuple):
    """The files that a call reads, and the others that it names."""

    reads: tuple[str, ...]
    uses: tuple[str, ...]


def arguments_known(call: ToolCall) -> bool:
    """Whether the arguments of a call are on record."""
    return call.arguments != REDACTED and redacted_arguments(call.arguments) is None


def arguments_of(call: ToolCall) -> Mapping[str, Any]:
    """The arguments of a call by name; none where they are no object."""
    try:
        values = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def named_files(call: ToolCall, folder: str | None) -> NamedFiles:
    """The files that a call reads, and the others that it names, relative to the folder of its run."""
    arguments = arguments_of(call)
    files = [arguments[name] for name in PATHS if isinstance(arguments.get(name), str)]
    if files:
        is_read = call.name.lower() in _READERS and arguments.get("command", _VIEW) == _VIEW
        reads = files if is_read else []
    else:
        command = next((_command_of(arguments[name]) for name in _COMMANDS if name in arguments), "")
        files, reads = _paths_in(command), [*chain.from_iterable(map(_paths_in, _reading(command)))]
    all_reads = dict.fromkeys(_relative(path, folder) for path in reads)
    all_files = dict.fromkeys(_relative(path, folder) for path in files)
    return NamedFiles((*all_reads,), tuple([path for path in all_files if path not in all_reads]))


def _reading(command: str) -> Iterator[str]:
    """The commands of a line that print a file: `head` behind a pipe prints what comes through it."""
    for part in _NEXT_COMMAND.split(command):
        words = part.split(maxsplit=1)
        if words and words[0] in _SHELL_READERS and not _WRITES.search(part.strip()):
            yield part


def _paths_in(command: str) -> list[str]:
    words = [word.rstrip(".") for word in _WORD.findall(command)]
    return [word for word in words if len(word) >= _LEAST_CHARS and _is_path(word)]


def _is_path(word: str) -> bool:
    """Whether a word of a command has a folder or a suffix."""
    stem, _, suffix = word.rpartition(".")
    has_suffix = bool(stem) and len(suffix) <= _MAX_SUFFIX and suffix.isascii() and suffix.isalpha()
    return has_suffix or "/" in word[:-1]


def _command_of(value: object) -> str:
    """The text of a command, which may be a list: Codex sends one."""
    if isinstance(value, list):
        return " ".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _relative(path: str, folder: str | None) -> str:
    relative = path.removeprefix(f"{folder.rstrip('/')}/") if folder else path
    return relative.removeprefix("./")
