"""The hook in Claude Code's settings: put in and taken out, with all else as it was.

The form is that of https://code.claude.com/docs/en/hooks: below `hooks`, a list for each event, of groups with a list
of commands each. An entry of boolab's is known by its command, which has to be the hook and nothing else: one program
with its arguments, `boolab hook claude-code ...`. A command in which the hook is a part belongs to the user.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from boolab.errors import ConfigFileError
from boolab.io.file_edit import UserFile
from boolab.io.files import user_path
from boolab.io.json_edit import JsonText, fill_blank, read_json
from boolab.live.hooks.claude_code import EVENTS
from boolab.live.hooks.entry import is_hook
from boolab.live.hooks.journal import state_folder
from boolab.live.hooks.options import Options

Place: TypeAlias = Literal["user", "project", "local"]
_KeyPath: TypeAlias = tuple[Any, ...]
"""The place of a value in the settings: keys of objects, and places in lists."""

TIMEOUT_S: Final = 10
"""Claude Code ends a hook after this time; the hook itself ends sooner."""
MAX_ENTRIES: Final = 100
_EMPTY: Final = re.compile(r"(?<![^\ufeff\s])\{\s+\}(?=\s*\Z)")
"""Settings that hold nothing, on several lines."""
_HOOK_WORDS: Final = ["boolab", "hook", "claude-code"]
_QUOTED: Final = r"""\\[^\n]|'[^']*'|[\w@%+=:,./~-]"""
_WORD: Final = rf"""(?:{_QUOTED}|"(?:[^"\\$`]|\\[^\n])*")+"""
_PROGRAM: Final = rf"""(?:{_QUOTED}|"(?:[^"\\$`]|\\[^\n]|\$\w+|\$\{{\w+\}})*"|\$\w+|\$\{{\w+\}})+"""
_SIMPLE: Final = re.compile(rf"\s*{_PROGRAM}(?:[ \t]+{_WORD})*\s*")
"""One program with its arguments. Only the program may have a variable, such as that of the project's folder."""
_ASSIGNMENT: Final = re.compile(r"\w+\+?=")
_PYTHON: Final = re.compile(r"python[\d.]*")
_PYTHON_FLAGS: Final = re.compile(r"-[bBdEIOPqsSuv]+")


def settings_path(place: Place) -> Path:
    """Where Claude Code keeps settings: of the user, of a project for all, or of a project for the user alone."""
    if place == "user":
        config_folder = os.environ.get("CLAUDE_CONFIG_DIR")
        return (Path(config_folder) if config_folder else user_path("~/.claude")) / "settings.json"
    return Path(".claude", "settings.json" if place == "project" else "settings.local.json")


def command_of(options: Options, *, shared: bool = False) -> str:
    """The command of the hook: this Python, which does not look for modules in the folder of the agent (`-P`).

    `shared`: whether other machines read the settings too. The command is then `boolab`, which each finds on its own
    `PATH`; like `-P`, a program that is found there does not look for modules in the folder of the agent.
    """
    start = [] if shared else [sys.executable, "-P", "-m"]
    return shlex.join([*start, *_HOOK_WORDS, *options.words()])


def with_hook(text: str, command: str) -> str:
    """Settings with the hook at each of its events, in place of one that is there."""
    document = JsonText.read(fill_blank(text))
    hooks_by_event = _hooks(document.value)
    key_paths = _hook_paths(hooks_by_event)
    for key_path in key_paths:
        document = document.with_value([*key_path, "command"], command)
    group = {"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_S}]}
    if "hooks" not in document.value:
        return document.with_value(["hooks"], {event: [group] for event in EVENTS}).text
    for event in (event for event in EVENTS if all(key_path[1] != event for key_path in key_paths)):
        if event in hooks_by_event:
            document = document.with_value(["hooks", event, len(hooks_by_event[event])], group)
        else:
            document = document.with_value(["hooks", event], [group])
    return document.text


def without_hook(text: str) -> str:
    """Settings without the hook; lists and objects that hold nothing else, and no comment, go with it."""
    document = JsonText.read(fill_blank(text))
    hooks_by_event = _hooks(document.value)
    key_paths = _hook_paths(hooks_by_event)
    for key_path in _removed_paths(document, hooks_by_event, key_paths):
        document = document.without_value(key_path)
    return _EMPTY.sub("{}", document.text) if key_paths else text


def _removed_paths(document: JsonText, hooks_by_event: dict[str, Any], key_paths: list[_KeyPath]) -> list[_KeyPath]:
    """What is removed with the hook, from the last to the first: a list or an object in place of all that it holds."""
    entries = set(key_paths)
    groups = {
        key_path
        for key_path in dict.fromkeys(entry_path[:3] for entry_path in key_paths)
        if hooks_by_event[key_path[1]][key_path[2]].keys() <= {"hooks", "matcher"}
        and all(
            (*key_path, "hooks", i) in entries for i in range(len(hooks_by_event[key_path[1]][key_path[2]]["hooks"]))
        )
        and not document.has_comment(key_path)
    }
    whole_events = {
        key_path
        for key_path in dict.fromkeys(group[:2] for group in groups)
        if all((*key_path, g) in groups for g in range(len(hooks_by_event[key_path[1]])))
        and not document.has_comment(key_path)
    }
    if len(whole_events) == len(hooks_by_event) > 0 and not document.has_comment(["hooks"]):
        return [("hooks",)]
    removed = (
        key_path[:2] if key_path[:2] in whole_events else key_path[:3] if key_path[:3] in groups else key_path
        for key_path in reversed(key_paths)
    )
    return list(dict.fromkeys(removed))


def commands_in(text: str) -> list[str]:
    """The commands of the hook in some settings, each once."""
    return list(dict.fromkeys(command for _, command in _commands(text) if hook_arguments(command) is not None))


def mentions_in(text: str) -> list[tuple[str, str]]:
    """The commands of which the hook is only a part, each with its event: they are the user's, and stay."""
    return [
        (event, command)
        for event, command in _commands(text)
        if hook_arguments(command) is None and "boolab hook claude-code" in " ".join(command.split())
    ]


def hook_arguments(command: object) -> list[str] | None:
    """The arguments of the hook, if a command is the hook and nothing else.

    It has to be one program with its arguments, `boolab` or a Python with `-m boolab`: no other program that starts it,
    no second command, no pipe or redirection, no variable that is set.

    Returns what follows `hook claude-code`; None for any other command.
    """
    if not isinstance(command, str) or not _SIMPLE.fullmatch(command):
        return None
    program, *words = shlex.split(command)
    name = program.rpartition("/")[2]
    if program == sys.executable or _PYTHON.fullmatch(name):
        while words and _PYTHON_FLAGS.fullmatch(words[0]):
            del words[0]
        start, words = words[:2], words[2:]
    else:
        start = ["-m", name]
    is_boolab = start == ["-m", "boolab"] and not _ASSIGNMENT.match(program)
    return words[2:] if is_boolab and is_hook(words) else None


def options_in(text: str) -> list[Options]:
    """The options of the hook in some settings; none if the settings or the options are not understood."""
    try:
        return [Options.parse(hook_arguments(command) or []) for command in commands_in(text)]
    except (ConfigFileError, ValueError):
        return []


def _hooks(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """What is below `hooks`."""
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        msg = 'expected an object with "hooks", an object of lists, as Claude Code has it'
        raise ConfigFileError(msg)
    return hooks


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of all hooks, each with its event."""
    for event, _, _, entry in _entries(_hooks(read_json(fill_blank(text)))):
        command = entry.get("command")
        if isinstance(command, str):
            yield event, command


def _hook_paths(hooks_by_event: dict[str, Any]) -> list[_KeyPath]:
    """The places of all entries of the hook."""
    key_paths = [
        ("hooks", event, g, "hooks", i)
        for event, g, i, entry in _entries(hooks_by_event)
        if hook_arguments(entry.get("command")) is not None
    ]
    if len(key_paths) > MAX_ENTRIES:
        raise ConfigFileError(
            f"has the hook {len(key_paths):,} times: expected it at most {MAX_ENTRIES} times; remove the others by hand"
        )
    return key_paths


def _entries(hooks_by_event: dict[str, Any]) -> Iterator[tuple[str, int, int, dict[str, Any]]]:
    """All hooks: their event, the places of their group and of themselves in it, and their settings."""
    for event, groups in hooks_by_event.items():
        for g, group in enumerate(groups):
            hooks = group.get("hooks") if isinstance(group, dict) else None
            for i, entry in enumerate(hooks) if isinstance(hooks, list) else ():
                if isinstance(entry, dict):
                    yield event, g, i, entry


def note_installed(file: UserFile, new: bytes, original: bytes | None = None) -> None:
    """Note that the hook was installed into a file: the digest of its new content, if the file is boolab's alone."""
    mark = _mark(file.target)
    with suppress(OSError):  # the removal then leaves an empty object in place of no file
        if file.data is None or is_made(file) or original is not None:
            mark.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            mark.unlink(missing_ok=True)
            with os.fdopen(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as note:
                note.write(_digest(new).encode() + (b"" if original is None else b"\n" + original))
        else:
            mark.unlink(missing_ok=True)


def original_of(file: UserFile) -> bytes | None:
    """What a file held before the installation, if that was noted and the file was not written since."""
    with suppress(OSError):
        digest, line_end, original = _mark(file.target).read_bytes().partition(b"\n")
        if line_end and file.data is not None and digest.decode("ascii", "replace") == _digest(file.data):
            return original
    return None


def is_made(file: UserFile) -> bool:
    """Whether the installation made a file, and it was not written since."""
    with suppress(OSError, UnicodeDecodeError):
        return file.data is not None and _mark(file.target).read_text() == _digest(file.data)
    return False


def forget(file: UserFile) -> None:
    """Forget a file from which the hook was removed."""
    with suppress(OSError):
        _mark(file.target).unlink(missing_ok=True)


def _mark(target: Path) -> Path:
    return Path(state_folder(), "made", _digest(os.fsencode(target)))


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
