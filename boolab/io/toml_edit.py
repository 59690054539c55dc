r"""Edits of TOML text: one value changes, and no other byte.

Comments, the order of tables and keys, indentation, and the end of each line stay, mixed ones too. Each edited text is
read again: if anything else has changed, the edit is refused.

    text = with_toml('# mine\n[a]\nb = 1  # one\n', ["a", "b"], 2)
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from boolab.errors import ConfigFileError
from boolab.io.text_edit import Replacement, edit_text, is_same

MAX_DEPTH: Final = 100
_BOM: Final = "\ufeff"
_BASIC: Final = r'"(?:[^"\\\n]|\\.)*"'
_LITERAL: Final = r"'[^'\n]*'"
_PART: Final = re.compile(rf"[A-Za-z0-9_-]+|{_BASIC}|{_LITERAL}")
_DOT: Final = re.compile(r"[ \t]*\.[ \t]*")
_EQUALS: Final = re.compile(r"[ \t]*=[ \t]*")
_BLANKS: Final = re.compile(r"[ \t]*")
_BLANK_LINES: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_STRING: Final = re.compile(rf'"""(?:[^\\]|\\.)*?"{{3,5}}|\'\'\'.*?\'{{3,5}}|{_BASIC}|{_LITERAL}', re.DOTALL)
_SCALAR: Final = re.compile(r"""[^\[\]{},#"'\r\n]+""")
_ABOUT_FILE: Final = re.compile(r"(?:#[^\n]*\n)+(?=\r?\n|\Z)")
"""Comments at the top that belong to no table: an empty line follows."""
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")

Keys: TypeAlias = tuple[str, ...]

_MISSING: Final = object()
"""In place of a value: there is none."""


@dataclass(slots=True)
class _Table:
    """A table in braces, one that a header opens, or the top of the text."""

    path: Keys | None  # its keys from the top; None below a list, where keys alone lead nowhere
    start: int  # where its header or its brace begins
    end: int  # the end of its header, or the place of its closing brace
    header: Keys = ()  # the keys of its header
    inline: bool = False  # whether it is in braces
    entries: list[_KeyValue] = field(default_factory=list)  # its entries; those of tables in braces below it are theirs


class _KeyValue(NamedTuple):
    """A key with its value: the keys from the top, and the places of the key and of the value."""

    path: Keys | None
    key: int
    start: int
    end: int


class _Document(NamedTuple):
    """A text with its values and its tables."""

    text: str
    data: dict[str, Any]
    tables: list[_Table]

    def entries(self) -> Iterator[_KeyValue]:
        return chain.from_iterable(table.entries for table in self.tables)


def with_toml(text: str, keys: Sequence[str], value: object) -> str:
    """The text with another text, number, truth value or list at a place; tables that lead to it are made."""
    document = _read(text)
    path = tuple(keys)
    value = [*value] if isinstance(value, tuple) else value
    old: Any = document.data
    for n, key in enumerate(path):
        if not isinstance(old, dict):
            kind = "a list" if isinstance(old, list) else repr(old)[:40]
            _refuse(document, path[:n], f"{'.'.join(path[:n])} is {kind}; expected a table")
        old = old.get(key, _MISSING)
        if old is _MISSING:
            break
    if is_same(old, value):
        return text
    new_text, expected = _format_value(value), _edit_data(document.data, path, value)
    for replacement in _candidates(document, path, new_text, is_new=old is _MISSING):
        result = edit_text(text, [replacement], _read, lambda new: is_same(new.data, expected))
        if result is not None:
            return result[0]
    msg = f"{'.'.join(path)} cannot be changed without changing more of the file: edit it by hand"
    return _refuse(document, path, msg)


# --- Reading ----------------------------------------------------------------------------------------------------------


def _read(text: str) -> _Document:
    try:
        data = tomllib.loads(text.removeprefix(_BOM))
    except ValueError as error:  # also a number of too many digits
        line = str(error).rpartition("line ")[2].split(",")[0]
        raise ConfigFileError(f"is not TOML: {error}", line=int(line) if line.isdecimal() else None) from error
    except RecursionError:
        raise ConfigFileError(f"is nested more than {MAX_DEPTH} deep") from None
    return _Document(text, data, _TomlReader(text).tables())


class _TomlReader:
    """Finds the places of keys and values in a text that is TOML."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = int(text.startswith(_BOM))
        self._tables = [_Table((), self._place, self._place)]
        self._lists: set[Keys] = set()

    def tables(self) -> list[_Table]:
        table = self._tables[0]
        while True:
            self._skip(_BLANK_LINES)
            if self._place == len(self._text):
                return self._tables
            if self._text.startswith("[", self._place):
                table = self._header()
            else:
                self._entry(table, 0)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._place)
        if match is None:
            msg = "cannot be changed: its form here is not known"
            raise ConfigFileError(msg, line=_line(self._text, self._place))
        self._place = match.end()

    def _header(self) -> _Table:
        start = self._place
        is_list = self._text.startswith("[[", start)
        self._place += 1 + is_list
        self._skip(_BLANKS)
        keys = self._key()
        self._skip(_BLANKS)
        self._place += 1 + is_list
        if is_list:
            self._lists.add(keys)
        below_list = any(keys[:n] in self._lists for n in range(1, len(keys) + 1))
        table = _Table(None if below_list else keys, start, self._place, keys)
        self._tables.append(table)
        return table

    def _entry(self, table: _Table, depth: int) -> None:
        key = self._place
        path = self._key()
        self._skip(_EQUALS)
        start = self._place
        full = None if table.path is None else table.path + path
        self._value(full, depth)
        table.entries.append(_KeyValue(full, key, start, self._place))

    def _key(self) -> Keys:
        keys = []
        while True:
            start = self._place
            self._skip(_PART)
            part = self._text[start : self._place]
            keys.append(_key_of(part))
            match = _DOT.match(self._text, self._place)
            if match is None:
                return tuple(keys)
            self._place = match.end()

    def _value(self, path: Keys | None, depth: int) -> None:
        if depth > MAX_DEPTH:
            msg = f"is nested more than {MAX_DEPTH} deep"
            raise ConfigFileError(msg, line=_line(self._text, self._place))
        char = self._text[self._place : self._place + 1]
        if char in ("{", "["):
            self._members(path, depth, "}" if char == "{" else "]")
        elif char in ('"', "'"):
            self._skip(_STRING)
        else:
            start = self._place
            self._skip(_SCALAR)
            self._place = start + len(self._text[start : self._place].rstrip())

    def _members(self, path: Keys | None, depth: int, close: str) -> None:
        table = _Table(path, self._place, 0, inline=True)
        self._place += 1
        while True:
            self._skip(_BLANK_LINES)
            if self._text.startswith(close, self._place):
                break
            if close == "}":
                self._entry(table, depth + 1)
            else:
                self._value(None, depth + 1)
            self._skip(_BLANK_LINES)
            if self._text.startswith(",", self._place):
                self._place += 1
        table.end = self._place
        self._place += 1
        if close == "}":
            self._tables.append(table)


def _key_of(part: str) -> str:
    if part.startswith("'"):
        return part[1:-1]
    return next(iter(tomllib.loads(f"{part} = 0"))) if part.startswith('"') else part


# --- Writing ----------------------------------------------------------------------------------------------------------


def _candidates(document: _Document, path: Keys, value: str, *, is_new: bool) -> Iterator[Replacement]:
    """The ways to write a value at a place, the best one first."""
    if not is_new:
        yield from (Replacement(entry.start, entry.end, value) for entry in document.entries() if entry.path == path)
        return
    for n in range(len(path) - 1, -1, -1):  # beside what shares most of its keys
        for table in document.tables:
            if table.path is None or table.path != path[:n][: len(table.path)]:
                continue
            keys = path[len(table.path) :]
            siblings = [entry for entry in table.entries if entry.path is not None and entry.path[:n] == path[:n]]
            line, is_of_table = f"{_join_keys(keys)} = {value}", len(table.path) == n
            if table.inline and (siblings or is_of_table):
                yield _insert_in_braces(table, siblings, line)
            elif not table.inline and (len(keys) == 1 if is_of_table else siblings):
                yield _insert_line(document.text, table, siblings, line)
    if len(path) > 1:
        yield _append_table(document.text, f"[{_join_keys(path[:-1])}]", f"{_join_keys(path[-1:])} = {value}")


def _insert_in_braces(table: _Table, siblings: Sequence[_KeyValue], line: str) -> Replacement:
    if siblings:
        return Replacement(siblings[-1].end, siblings[-1].end, f", {line}")
    return Replacement(table.start + 1, table.end, f" {line} ")


def _insert_line(text: str, table: _Table, siblings: Sequence[_KeyValue], line: str) -> Replacement:
    """A new line after the last one of the entries, or after the header of the table."""
    if siblings:
        offset, indent = siblings[-1].end, _indent(text, siblings[-1].key)
    elif table.path:
        offset, indent = table.end, _indent(text, table.start)
    else:
        match = _ABOUT_FILE.match(text, table.start)
        offset = table.start if match is None else match.end()
        return Replacement(offset, offset, f"{line}{_ends(text, 0)}")
    end = text.find("\n", offset)
    if end < 0:
        return Replacement(len(text), len(text), f"{_ends(text, len(text))}{indent}{line}")
    return Replacement(end + 1, end + 1, f"{indent}{line}{_ends(text, end)}")


def _append_table(text: str, header: str, line: str) -> Replacement:
    ends = _ends(text, len(text))
    lead = "" if not text.removeprefix(_BOM) else ends if text.endswith("\n") else ends * 2
    return Replacement(len(text), len(text), f"{lead}{header}{ends}{line}{ends}")


def _ends(text: str, offset: int) -> str:
    """The end of the line at a place; of the line before, if it has none."""
    end = text.find("\n", offset)
    end = end if end >= 0 else text.rfind("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def _indent(text: str, offset: int) -> str:
    """The blanks that begin the line of a place."""
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _join_keys(keys: Sequence[str]) -> str:
    return ".".join(key if _BARE.fullmatch(key) else _format_value(key) for key in keys)


def _format_value(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ConfigFileError(f"cannot hold {value!r}: TOML has no lone surrogates") from error
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else repr(value)


def _edit_data(data: dict[str, Any], path: Keys, value: object) -> dict[str, Any]:
    """The values that a text has after an edit."""
    inner = data.get(path[0])
    new_value = value if len(path) == 1 else _edit_data(inner if isinstance(inner, dict) else {}, path[1:], value)
    return data | {path[0]: new_value}


def _refuse(document: _Document, path: Keys, problem: str) -> NoReturn:
    """Raise an error at the line of a value, or of the nearest one around it."""
    for n in range(len(path), 0, -1):
        offset = next((item.key for item in document.entries() if item.path == path[:n]), None)
        if offset is None:
            offset = next((item.start for item in document.tables if item.header[:n] == path[:n]), None)
        if offset is not None:
            raise ConfigFileError(problem, line=_line(document.text, offset))
    raise ConfigFileError(problem)


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1
