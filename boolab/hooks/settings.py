"""The hook in Claude Code's settings: put in and taken out, with all else as it was.

The form is that of https://code.claude.com/docs/en/hooks: below `hooks`, a list for each event, of groups with a list
of commands each. An entry of boolab's is known by its command: `... boolab hook claude-code ...`.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from boolab.errors import ConfigFileError
from boolab.hooks.claude_code import EVENTS
from boolab.hooks.options import Options
from boolab.io.files import read_file
from boolab.io.json_edit import read_json, with_json, without_json

Place: TypeAlias = Literal["user", "project", "local"]

TIMEOUT_S: Final = 10
"""Claude Code ends a hook after this time; the hook itself ends sooner."""
MAX_FILE_BYTES: Final = 4_000_000
_EMPTY: Final = re.compile(r"(?<![^\ufeff\s])\{\s+\}(?=\s*\Z)")
"""Settings that hold nothing, on several lines."""
_OWN: Final = ["boolab", "hook", "claude-code"]


def settings_path(place: Place) -> Path:
    """Where Claude Code keeps settings: of the user, of a project for all who work on it, or of a project for the user.

    Example:
        >>> settings_path("project").as_posix()
        '.claude/settings.json'
    """
    if place == "user":
        own = os.environ.get("CLAUDE_CONFIG_DIR")
        return (Path(own) if own else Path.home() / ".claude") / "settings.json"
    return Path(".claude", "settings.json" if place == "project" else "settings.local.json")


def read_settings(path: Path) -> str | None:
    """The text of a settings file; None if there is none.

    Raises:
        ConfigFileError: if it cannot be read.
    """
    try:
        return read_file(path, MAX_FILE_BYTES).decode("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigFileError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise ConfigFileError(f"is not UTF-8 text (byte {error.start})", path=path) from error


def command_of(options: Options, *, shared: bool = False) -> str:
    """The command of the hook: this Python, which does not look for modules in the folder of the agent (`-P`).

    Args:
        options: The limits, and what happens at them.
        shared: Whether other machines read the settings too. The command is then `boolab`, which each finds on its own
            `PATH`; like `-P`, a program that is found there does not look for modules in the folder of the agent.

    Example:
        >>> command_of(Options({"max_steps": 56})).partition(" -P ")[2]
        '-m boolab hook claude-code --max-steps 56'
        >>> command_of(Options({"max_steps": 56}), shared=True)
        'boolab hook claude-code --max-steps 56'
    """
    start = [] if shared else [sys.executable, "-P", "-m"]
    return shlex.join([*start, *_OWN, *options.words()])


def with_hook(text: str, command: str) -> str:
    """Settings with the hook at each of its events, in place of one that is there.

    Args:
        text: The text of the settings; blank text is that of a new file.
        command: The command of the hook.

    Raises:
        ConfigFileError: if the text is not understood; it then has to stay as it is.
    """
    text = text or "{}\n"
    entry = {"type": "command", "command": command, "timeout": TIMEOUT_S}
    for event in EVENTS:
        there = [place for place in _entries(text) if place[1] == event]
        for place in there:
            text = with_json(text, [*place, "command"], command)
        if not there:
            groups = _hooks(read_json(text)).get(event)
            where: list[str | int] = ["hooks", event] if groups is None else ["hooks", event, len(groups)]
            group = {"hooks": [entry]}
            text = with_json(text, where, [group] if groups is None else group)
    return text


def without_hook(text: str) -> str:
    """Settings without the hook; lists and objects that hold nothing else go with it.

    Args:
        text: The text of the settings.

    Raises:
        ConfigFileError: if the text is not understood.
    """
    while places := _entries(text):
        _, event, group, _, place = places[0]
        events = _hooks(read_json(text))
        path: list[str | int] = ["hooks", event, group, "hooks", place]
        if len(events[event][group]["hooks"]) == 1:
            path = path[:3]
            if len(events[event]) == 1:
                path = path[: 2 if len(events) > 1 else 1]
        text = without_json(text, path)
        text = _EMPTY.sub("{}", text)
    return text


def commands_in(text: str) -> list[str]:
    """The commands of the hook in some settings, each once.

    Args:
        text: The text of the settings.

    Raises:
        ConfigFileError: if the text is not understood.
    """
    events = _hooks(read_json(text)) if text.strip() else {}
    return list(dict.fromkeys(events[event][g]["hooks"][i]["command"] for _, event, g, _, i in _entries(text)))


def options_in(text: str) -> list[Options]:
    """The options of the hook in some settings; none if the settings or the options are not understood.

    Args:
        text: The text of the settings.

    Example:
        >>> [str(options) for options in options_in(with_hook("", command_of(Options({"max_steps": 56}))))]
        ['--max-steps 56']
    """
    found = []
    try:
        for command in commands_in(text):
            words = shlex.split(command)
            found.append(Options.parse(words[words.index(_OWN[-1]) + 1 :]))
    except (ConfigFileError, ValueError):
        return []
    return found


def _hooks(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """What is below `hooks`.

    Raises:
        ConfigFileError: if it has another form.
    """
    hooks = settings.get("hooks", {}) if isinstance(settings, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        msg = 'expected an object with "hooks", an object of lists, as Claude Code has it'
        raise ConfigFileError(msg)
    return hooks


def _entries(text: str) -> list[tuple[str, str, int, str, int]]:
    """The places of all entries of the hook."""
    return [
        ("hooks", event, g, "hooks", i)
        for event, groups in (_hooks(read_json(text)) if text.strip() else {}).items()
        for g, group in enumerate(groups)
        if isinstance(group, dict) and isinstance(group.get("hooks"), list)
        for i, entry in enumerate(group["hooks"])
        if isinstance(entry, dict) and _is_own(entry.get("command"))
    ]


def _is_own(command: object) -> bool:
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    names = [word.rsplit("/", 1)[-1] for word in words]
    return any(names[start : start + len(_OWN)] == _OWN for start in range(len(names)))
