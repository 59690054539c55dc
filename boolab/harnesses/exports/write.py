"""The files of an export: what is set in them, as a diff and on the disk.

A new file gets the text of the part. In a file that is there, only the values of the part's changes are set, by editors
that keep the format: comments, the order of keys, indentation, line ends and a byte-order mark. What they do not
understand is refused, and all files stay as they were.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from boolab.core.text import replace_controls
from boolab.errors import ConfigFileError, FileError, SettingError
from boolab.harnesses.agent_edit import AgentText, read_agents, set_field
from boolab.harnesses.front_matter import ALIASES, agent_name
from boolab.io.file_edit import MAX_FILE_BYTES, UserFile, edit_files, read_user_file
from boolab.io.files import read_file, user_path
from boolab.io.json_edit import with_json
from boolab.io.toml_edit import with_toml

if TYPE_CHECKING:
    from boolab.harnesses.exports.values import Change, Export, Part


class PlannedFile(NamedTuple):
    """A file before and after: as it was read, and its new text."""

    read: UserFile
    new: str


def plan_files(export: Export, path: str | Path | None = None, root: str | Path = ".") -> list[PlannedFile]:
    """The files of an export, as they are and as they would be; no link in the project may lead out of it."""
    parts = [part for part in export.parts if part.path is not None]
    if not parts:
        raise SettingError(f"export to {export.target}: no file has these settings: {export.no_file}")
    folder = user_path(root)
    destination = None if path is None else user_path(path)
    if destination is not None and (_is_folder(destination) or (not destination.suffix and not _exists(destination))):
        folder, destination = destination, None
    if destination is not None:
        fits = [part for part in parts if destination.suffix in _suffixes(part)]
        if len(fits) != 1:
            names = ", ".join(str(part.path) for part in parts)
            msg = f"{destination}: expected a folder, or a file in place of one of {names}, with the same ending"
            raise SettingError(msg)
        return [_plan_file(fits[0], read_user_file(destination))]
    return [_plan_file(part, read_user_file(_find_file(part, folder), folder)) for part in parts]


def format_diff(files: Sequence[PlannedFile]) -> str:
    """The changes as a unified diff, safe for a terminal; "" if there are none. It names the target of a link."""
    lines: list[str] = []
    for read, new in files:
        old = read.text()
        old_title = "/dev/null" if old is None else read.title
        old_lines, new_lines = (replace_controls(text).splitlines() for text in (old or "", new))
        lines += difflib.unified_diff(old_lines, new_lines, old_title, read.title, lineterm="")
    return "\n".join(map(replace_controls, lines))


def replace_files(files: Sequence[PlannedFile]) -> None:
    """Write the files that change, all or none, if each still is what was read."""
    edit_files([(read, new.encode("utf-8")) for read, new in files])


def _suffixes(part: Part) -> tuple[str, ...]:
    """The endings of a file that may take a part."""
    return (".json", ".jsonc") if part.language in ("json", "jsonc") else (Path(part.path or "").suffix,)


def _find_file(part: Part, root: Path) -> Path:
    """The file of a part in a project: the usual one, or what the project has in its place.

    opencode reads opencode.jsonc too (opencode.ai/docs/config). An agent is known by the name in its file, whatever the
    file is called (code.claude.com/docs/en/sub-agents).
    """
    path = root / str(part.path)
    if part.path == "opencode.json" and not _exists(path) and _exists(path.with_suffix(".jsonc")):
        return path.with_suffix(".jsonc")
    if part.language != "markdown":
        return path
    names = _read_names(path)
    if any(_is_meant(name, part) for name in names):
        return path
    for other in sorted(path.parent.rglob("*.md")):
        if any(name is not None and _is_meant(name, part) for name in _read_names(other)):
            return other
    if not names:
        return path
    names_text = ", ".join(map(str, names))
    raise ConfigFileError(
        f"holds the agent {names_text}, and none is named {path.stem!r}: expected that name", path=path
    )


def _read_names(path: Path) -> list[object]:
    """The names of the agents in a file, None for one without; nothing if it cannot be read."""
    try:
        return [agent.data.get("name") for agent in read_agents(read_file(path, MAX_FILE_BYTES).decode("utf-8"))]
    except (OSError, UnicodeDecodeError, FileError):
        return []


def _is_meant(name: object, part: Part) -> bool:
    """Whether an agent of this name, or of none, is that of the part."""
    return name is None or agent_name(str(name)) == Path(part.path or "").stem


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # it may not be looked at, or its name is too long: reading it gives the reason
        return False


def _exists(path: Path) -> bool:
    """Whether there is something of this name; a link that leads nowhere is something."""
    return os.path.lexists(path)


def _plan_file(part: Part, read: UserFile) -> PlannedFile:
    old, path = read.text(), read.path
    if old is None:
        return PlannedFile(read, part.text)
    edit = _EDITORS.get(part.language)
    if edit is None or not part.changes:
        msg = f"is there already, and boolab does not change {part.language} in place: paste what is printed"
        raise ConfigFileError(msg, path=path)
    try:
        return PlannedFile(read, edit(old, part.changes, part))
    except FileError as error:
        raise type(error)(error.message, path=path, line=error.line) from error


def _edit_markdown(text: str, changes: Sequence[Change], part: Part) -> str:
    index = _agent_index(read_agents(text), part)
    for (key, *_), value in changes:
        field = ALIASES.get(key, key)
        yaml_value: Any = "none" if value is None else value
        text = set_field(text, index, field, yaml_value, key=key if key != field else None)
    return text


def _agent_index(agents: Sequence[AgentText], part: Part) -> int:
    """The agent of a file that is meant: the one of that name, or the only one."""
    if len(agents) == 1:
        return 0
    name = Path(part.path or "").stem
    for index, agent in enumerate(agents):
        if _is_meant(agent.data.get("name", ""), part):
            return index
    names = ", ".join(str(agent.data.get("name")) for agent in agents)
    raise ConfigFileError(f"holds {len(agents)} agents ({names}), and none is named {name!r}: expected one of them")


def _edit_json(text: str, changes: Sequence[Change], _: Part) -> str:
    for path, value in changes:
        text = with_json(text, path, value)
    return text


def _edit_toml(text: str, changes: Sequence[Change], _: Part) -> str:
    for path, value in changes:
        text = with_toml(text, path, value)
    return text


_EDITORS: Final[Mapping[str, Callable[[str, Sequence[Change], Part], str]]] = {
    "json": _edit_json,
    "jsonc": _edit_json,
    "markdown": _edit_markdown,
    "toml": _edit_toml,
}
