"""What a tool call changes in files, from its arguments: a text that is replaced, written or inserted, or a patch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, groupby, pairwise
from typing import Any, Final, NamedTuple

_OLD_NEW: Final = (
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("oldText", "newText"),
    ("oldString", "newString"),
    ("search", "replace"),
)
_CONTENT_KEYS: Final = ("content", "file_text", "contents", "new_source", "text")
_PATCHES: Final = ("input", "patch", "diff", "patchText", "command", "cmd")
_PATHS: Final = (
    "file_path",
    "path",
    "filePath",
    "filename",
    "file_name",
    "target_file",
    "notebook_path",
    "absolutePath",
)
_EDIT_COMMAND: Final = re.compile(r"edit(?:[ \t]+(\d+):(\d+))?[ \t]*\n(.*?)\n?end_of_edit\s*", re.DOTALL)
_WINDOW: Final = re.compile(r"^\[File: (.+?) \(\d+ lines? total\)\]$", re.MULTILINE)
_NUMBERED: Final = re.compile(r"^[ \t]*(\d+)(?:\t|→|:|\|)(.*)$", re.MULTILINE)
_FILE: Final = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$")
_HUNK: Final = re.compile(r"^@@(?: -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@)?")
_SEARCH: Final = re.compile(r"<{5,} ?SEARCH")
_DIVIDER: Final = re.compile(r"={5,}$")
_REPLACE: Final = re.compile(r">{5,} ?REPLACE")
_LINES: Final = re.compile(r"in place of lines (\d+) to (\d+)")
_MAX_NUMBERED: Final = 8  # lines of a new text that are looked for in a numbered listing


class Edit(NamedTuple):
    """A text that took the place of another one.

    `first` is the number of its first line in the file; None where it is not known. `keys` are the arguments that it
    contains. `note` is what the texts do not show.
    """

    path: str
    old: str
    new: str
    first: int | None = None
    keys: tuple[str, ...] = ()
    note: str = ""


def edits_of(kind: str, value: object, result: str = "", window: str = "") -> list[Edit]:
    """The edits of a call, in order; none if it is no edit whose texts are known."""
    if isinstance(value, str):
        return list(_patch_edits(value, ()))
    if not isinstance(value, Mapping):
        return []
    path = _text(value, *_PATHS)
    edits = (
        _text_edits(path, value)
        or _patch_list_edits(value)
        or _command_edits(value)
        or _content_edits(path, kind, value)
    )
    open_path = (_WINDOW.findall(window) or [""])[-1]
    return [_place_edit(edit._replace(path=edit.path or open_path), result, window) for edit in edits]


def _text(value: Mapping[Any, Any], *keys: str) -> str:
    return next((value[key] for key in keys if isinstance(value.get(key), str)), "")


def _text_edits(path: str, value: Mapping[Any, Any]) -> list[Edit]:
    """An old and a new text, or a list of such."""
    entries = value.get("edits")
    if isinstance(entries, list) and entries and all(isinstance(entry, Mapping) for entry in entries):
        edit_lists = [_text_edits(_text(entry, *_PATHS) or path, entry) for entry in entries]
        return [edit._replace(keys=("edits",)) for edit in chain.from_iterable(edit_lists)] if all(edit_lists) else []
    for old, new in _OLD_NEW:
        if isinstance(value.get(old), str) and isinstance(value.get(new), str):
            note = "every occurrence" if value.get("replace_all") is True else ""
            return [Edit(path, value[old], value[new], None, (old, new), note)]
    return []


def _content_edits(path: str, kind: str, value: Mapping[Any, Any]) -> list[Edit]:
    """A text that is inserted, or all of a file."""
    line_number, added = value.get("insert_line", value.get("line")), _text(value, "new_str", "insert_text", "text")
    if isinstance(line_number, int) and added:
        key = next(key for key in ("new_str", "insert_text", "text") if value.get(key) == added)
        return [Edit(path, "", added, line_number + 1, (key,), f"inserted after line {line_number}")]
    if kind != "write":
        return []
    if path:
        for key in _CONTENT_KEYS:
            if isinstance(value.get(key), str) and value[key]:
                return [Edit(path, "", value[key], 1, (key,), "the whole file")]
    return [Edit("", "", added, None, ("text",), "inserted")] if value.get("text") == added != "" else []


def _command_edits(value: Mapping[Any, Any]) -> list[Edit]:
    """A command of SWE-agent's line editor, which names the lines that are replaced by their numbers."""
    command = value.get("command")
    match = _EDIT_COMMAND.fullmatch(command) if isinstance(command, str) else None
    if match is None:
        return []
    if match[1] is None:
        return [Edit("", "", match[3], None, ("command",))]
    return [Edit("", "", match[3], int(match[1]), ("command",), f"in place of lines {match[1]} to {match[2]}")]


def _place_edit(edit: Edit, result: str, window: str) -> Edit:
    """An edit with what results show of it: where its new lines are, and which lines they replaced."""
    if edit.first is None:
        return edit._replace(first=_first_line(edit.new, result))
    lines = _LINES.fullmatch(edit.note)
    if lines is None:
        return edit
    window_lines = {int(number): line for number, line in _NUMBERED.findall(window)}
    first, last = int(lines[1]), int(lines[2])
    if last - first >= len(window_lines) or not all(number in window_lines for number in range(first, last + 1)):
        return edit
    return edit._replace(old="\n".join(window_lines[number] for number in range(first, last + 1)), note="")


def is_window(result: str) -> bool:
    """Whether a result shows lines of an open file, as SWE-agent's editor does."""
    return _WINDOW.search(result) is not None


def _patch_list_edits(value: Mapping[Any, Any]) -> list[Edit]:
    for key in _PATCHES:
        text = value.get(key)
        if isinstance(text, list) and text and all(isinstance(word, str) for word in text):
            text = text[-1]  # a command line, whose last word is the patch
        if isinstance(text, str):
            edits = list(_patch_edits(text, (key,))) or list(_block_edits(_text(value, *_PATHS), text, key))
            if edits:
                return edits
    return []


def _block_edits(path: str, text: str, key: str) -> Iterator[Edit]:
    """Blocks with the text that is searched for, and what replaces it."""
    old: list[str] | None = None
    new: list[str] | None = None
    for line in text.split("\n"):
        if _SEARCH.match(line):
            old, new = [], None
        elif old is not None and new is None and _DIVIDER.match(line):
            new = []
        elif old is not None and new is not None and _REPLACE.match(line):
            yield Edit(path, "\n".join(old), "\n".join(new), None, (key,))
            old = new = None
        elif new is not None:
            new.append(line)
        elif old is not None:
            old.append(line)


def _patch_edits(text: str, keys: tuple[str, ...]) -> Iterator[Edit]:
    """The hunks of a patch: Codex' format ("*** Update File: ...") or a unified diff."""
    if "*** Begin Patch" not in text and not re.search(r"^@@ -\d", text, re.MULTILINE):
        return
    patch_text = text.partition("*** Begin Patch")
    lines = (patch_text[2] or patch_text[0]).partition("*** End Patch")[0].split("\n")
    path, first, hunk = "", None, 0
    rows: list[tuple[tuple[str, int | None, int], str]] = []
    for line, following in pairwise([*lines, ""]):
        file, hunk_head = _FILE.match(line), _HUNK.match(line)
        if file:
            path, first, hunk = file[1].strip(), None, hunk + 1
        elif line.startswith("--- ") and following.startswith("+++ "):
            continue
        elif line.startswith("+++ ") and (not rows or rows[-1][0][2] != hunk or not path):
            path, hunk = line[4:].split("\t")[0].removeprefix("b/"), hunk + 1
        elif hunk_head:
            first, hunk = (int(hunk_head[2]) if hunk_head[2] else None), hunk + 1
        elif line[:1] in ("+", "-", " ") and path:
            rows.append(((path, first, hunk), line))
    for (edit_path, number, _), group in groupby(rows, lambda row: row[0]):
        changes = [line for _, line in group]
        old = "\n".join(line[1:] for line in changes if line[0] != "+")
        new = "\n".join(line[1:] for line in changes if line[0] != "-")
        yield Edit(edit_path, old, new, number, keys)


def _first_line(new: str, result: str) -> int | None:
    """The number of the first line of a text in a listing with numbers, if it is in it once."""
    target_lines = new.removesuffix("\n").split("\n")[:_MAX_NUMBERED]
    if not any(line.strip() for line in target_lines):
        return None
    numbered = [(int(number), line) for number, line in _NUMBERED.findall(result)]
    line_numbers = [
        numbered[i][0]
        for i in range(len(numbered) - len(target_lines) + 1)
        if [line for _, line in numbered[i : i + len(target_lines)]] == target_lines
    ]
    return line_numbers[0] if len(line_numbers) == 1 else None
