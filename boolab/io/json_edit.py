r"""Edits of JSON text: one value changes, and no other byte.

The text may have comments (`//`, `/* */`), commas before a closing bracket and a byte-order mark, as the settings of
opencode, Gemini CLI and VS Code have. Comments, the order of keys, indentation, line ends and all other values stay.
Each edited text is read again: if anything else has changed, the edit is refused.

    text = with_json('{\n  // mine\n  "a": 1,\n}\n', ["b", "c"], 2)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from json.decoder import scanstring  # type: ignore[attr-defined] # typeshed lacks it
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from boolab.errors import ConfigFileError
from boolab.io.text_edit import Replacement, edit_text, is_same

PathPart: TypeAlias = str | int
"""A key of an object, or a place in a list; the length of the list is the place after its end."""

MAX_DEPTH: Final = 100
_BOM: Final = "\ufeff"
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_LINE: Final = re.compile(r"//[^\r\n]*")
_BLOCK: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD: Final = re.compile(r"true|false|null")
_WORDS: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}
_INDENT: Final = "  "
_DELETED: Final = object()
"""In place of a value: there is none."""


@dataclass(slots=True)
class _Node:
    """A value and its place: its members, if it is an object or a list, and whether a comma follows the last."""

    start: int
    end: int
    value: Any
    members: Sequence[_Member] = ()


@dataclass(slots=True)
class _Member:
    """A value in an object or a list: where it begins with its key, and the comma after it (-1: none)."""

    key: PathPart
    start: int
    node: _Node
    comma: int = -1


def read_json(text: str) -> Any:  # noqa: ANN401 - JSON
    """The value of JSON text that may have comments and trailing commas. Of a key that is there twice, the last."""
    return _Reader(text).document().value


def line_of(text: str, path: Sequence[PathPart]) -> int:
    """The line of a value, or of the nearest value around it that there is; from 1."""
    node = _Reader(text).document()
    start = node.start
    for step in path:
        member = next((candidate for candidate in reversed(node.members) if candidate.key == step), None)
        if member is None:
            break
        node, start = member.node, member.start
    return _line(text, start)


def with_json(text: str, path: Sequence[PathPart], value: object) -> str:
    """The text with another value at a place (keys, and places in lists); objects that lead to it are made."""
    return JsonText.read(fill_blank(text)).with_value(path, value).text


def without_json(text: str, path: Sequence[PathPart]) -> str:
    """The text without one value and its key; the text itself if there is none."""
    return text if fill_blank(text) != text else JsonText.read(text).without_value(path).text


def fill_blank(text: str) -> str:
    """The text, or that of an empty object if it is blank: at most a byte-order mark, blanks and line ends."""
    is_blank = not text.removeprefix(_BOM).strip(" \t\r\n")
    return f"{text[: text.startswith(_BOM)]}{{}}\n" if is_blank else text


# --- Reading ----------------------------------------------------------------------------------------------------------


class JsonText(NamedTuple):
    """A text as it was read, for several edits: each gives another text."""

    text: str
    root: _Node  # its value, with the places of all its parts
    comments: list[tuple[int, int]]  # the places of its comments

    @classmethod
    def read(cls, text: str) -> JsonText:
        """Read a text."""
        reader = _Reader(text)
        root = reader.document()
        return cls(text, root, reader.comments)

    @property
    def value(self) -> Any:  # noqa: ANN401 - JSON
        """Its value; of a key that is there twice, the last."""
        return self.root.value

    def has_comment(self, path: Sequence[PathPart]) -> bool:
        """Whether there is a comment in the value at a place."""
        node = self.root
        for n in range(len(path)):
            member = _member(self.text, node, path[: n + 1])
            if member is None:
                return False
            node = member.node
        return any(node.start < start < node.end for start, _ in self.comments)

    def with_value(self, path: Sequence[PathPart], value: object) -> JsonText:
        """Set a value; see `with_json`."""
        text, node, n = self.text, self.root, 0
        while n < len(path):
            member = _member(text, node, path[: n + 1])
            if member is None:
                break
            node, n = member.node, n + 1
        if n == len(path):
            if is_same(node.value, value):
                return self
            parts = [_replace_value(self, node, value)]
        else:
            new_value = value
            for step in reversed(path[n + 1 :]):
                if not isinstance(step, str):
                    raise _error(text, node.start, f"there is no list for {_path(path)}")
                new_value = {step: new_value}
            parts = _insert_value(self, node, path[n], new_value)
        return self._edit(parts, node, _edit_value(self.root.value, path, value))

    def without_value(self, path: Sequence[PathPart]) -> JsonText:
        """Remove a value with its key; see `without_json`."""
        if not path:
            msg = "the whole text cannot be removed: expected at least one key"
            raise ConfigFileError(msg)
        node = above = self.root
        member = None
        for n in range(len(path)):
            member = _member(self.text, node, path[: n + 1])
            if member is None:
                return self
            node, above = member.node, node
        parts = [] if member is None else _remove_member(self, above, member)
        return self._edit(parts, above, _edit_value(self.root.value, path, _DELETED))

    def _edit(self, parts: Sequence[Replacement], node: _Node, expected: object) -> JsonText:
        result = edit_text(self.text, parts, JsonText.read, lambda new: is_same(new.root.value, expected))
        if result is None:
            msg = "this cannot be changed without changing more of the file: edit it by hand"
            raise _error(self.text, node.start, msg)
        return result[1]


class _Reader:
    def __init__(self, text: str) -> None:
        self.comments: list[tuple[int, int]] = []
        self._text = text
        self._at = int(text.startswith(_BOM))

    def document(self) -> _Node:
        self._skip()
        node = self._value(0)
        self._skip()
        if self._at < len(self._text):
            self._fail("expected the end of the text here")
        return node

    def _fail(self, problem: str) -> NoReturn:
        raise _error(self._text, self._at, problem)

    def _skip(self) -> None:
        while True:
            char = self._text[self._at : self._at + 1]
            if char and char in " \t\r\n":
                self._at = _BLANK.match(self._text, self._at).end()  # type: ignore[union-attr] # it matches nothing too
                char = self._text[self._at : self._at + 1]
            if char != "/":
                return
            comment = _LINE.match(self._text, self._at) or _BLOCK.match(self._text, self._at)
            if comment is None:
                break
            self.comments.append(comment.span())
            self._at = comment.end()
        if self._text.startswith("/*", self._at):
            self._fail("a comment begins here and has no end: expected */")

    def _value(self, depth: int) -> _Node:
        text, start = self._text, self._at
        if depth > MAX_DEPTH:
            self._fail(f"nested more than {MAX_DEPTH} deep")
        char = text[start : start + 1]
        if char == '"':
            string = self._string()
            return _Node(start, self._at, string)
        if char in ("{", "["):
            return self._members(depth, "}" if char == "{" else "]")
        match = _WORD.match(text, start) or _NUMBER.match(text, start)
        if match is None:
            self._fail(f"expected a JSON value here{f', not {char!r}' if char else ''}")
        self._at = match.end()
        word = match[0]
        if word in _WORDS:
            return _Node(start, self._at, _WORDS[word])
        try:
            return _Node(start, self._at, float(word) if "." in word or "e" in word.lower() else int(word))
        except ValueError:  # an integer of more digits than Python reads
            self._at = start
            self._fail("this number is too long to be read")

    def _string(self) -> str:
        try:
            string, self._at = scanstring(self._text, self._at + 1, True)  # noqa: FBT003 - its arguments have no names
        except ValueError as error:
            self._fail(f"this string cannot be read: {str(error).partition(':')[0]}")
        return str(string)

    def _members(self, depth: int, close: str) -> _Node:
        members: list[_Member] = []
        node = _Node(self._at, 0, {} if close == "}" else [], members)
        self._at += 1
        while True:
            self._skip()
            if self._text.startswith(close, self._at):
                break
            if members and members[-1].comma < 0:
                self._fail(f"expected ',' or {close!r} here")
            start, key = self._at, len(members)
            if close == "}":
                key = self._key()
            member = _Member(key, start, self._value(depth + 1))
            members.append(member)
            if close == "}":
                node.value[key] = member.node.value
            else:
                node.value.append(member.node.value)
            self._skip()
            if self._text.startswith(",", self._at):
                member.comma = self._at
                self._at += 1
        self._at += 1
        node.end = self._at
        return node

    def _key(self) -> Any:  # noqa: ANN401 - a text, where a number is declared
        if not self._text.startswith('"', self._at):
            self._fail('expected a key in double quotes, or "}", here')
        key = self._string()
        self._skip()
        if not self._text.startswith(":", self._at):
            self._fail(f"expected ':' after the key {key!r} here")
        self._at += 1
        self._skip()
        return key


def _skip_comments(text: str, start: int) -> tuple[int, bool]:
    """The place after the last comment on the rest of a line, and whether that comment takes the line to its end."""
    end, offset = start, start
    while True:
        while text[offset : offset + 1] in (" ", "\t"):
            offset += 1
        line = _LINE.match(text, offset)
        if line is not None:
            return line.end(), True
        block = _BLOCK.match(text, offset)
        if block is None or "\n" in block[0]:
            return end, False
        end = offset = block.end()


# --- Writing ----------------------------------------------------------------------------------------------------------


def _member(text: str, node: _Node, path: Sequence[PathPart]) -> _Member | None:
    """The last part of a path in the value before it; None if it is not there yet."""
    part = path[-1]
    expected = dict if isinstance(part, str) else list
    if not isinstance(node.value, expected):
        kinds: dict[type, str] = {dict: "an object", list: "a list"}
        kind = kinds.get(type(node.value), json.dumps(node.value)[:40])
        raise _error(text, node.start, f"{_path(path[:-1])} is {kind}; expected {kinds[expected]}")
    matches = [member for member in node.members if member.key == part]
    if len(matches) > 1:
        raise _error(text, matches[1].start, f"the key {_path(path)} is there twice: expected it once")
    if isinstance(part, int) and not 0 <= part <= len(node.members):
        raise _error(text, node.start, f"{_path(path[:-1])} has {len(node.members)} items: there is no place {part}")
    return matches[0] if matches else None


def _replace_value(document: JsonText, node: _Node, value: object) -> Replacement:
    text = document.text
    inline = "\n" not in text.strip()
    new_text = _format_value(value, "" if inline else _unit(document), _indent(text, node.start), _ends(text))
    return Replacement(node.start, node.end, new_text)


def _insert_value(document: JsonText, node: _Node, part: PathPart, value: object) -> list[Replacement]:
    text = document.text
    base, unit, ends = _indent(text, node.start), _unit(document), _ends(text)
    first = node.members[0].start if node.members else None
    inline = not _breaks(text, node.start, first) if first is not None else _is_inline(document)
    indent = _indent(text, first) if first is not None and not inline else base + unit
    key = f"{_dump_value(part)}: " if isinstance(part, str) else ""
    entry = key + _format_value(value, "" if inline else unit, indent, ends)
    if first is None:
        comment_ends = [end for start, end in document.comments if node.start < start < node.end]
        offset = max([node.start + 1, *comment_ends])
        insertion = entry if inline and not comment_ends else f"{ends}{indent}{entry}{ends}{base}"
        return [Replacement(offset, node.end - 1, insertion)]
    last = node.members[-1]
    offset, whole_line = _skip_comments(text, max(last.comma + 1, last.node.end))
    lead = f"{ends}{indent}" if whole_line or not inline else " "
    if last.comma < 0:
        return [Replacement(last.node.end, last.node.end, ","), Replacement(offset, offset, f"{lead}{entry}")]
    return [Replacement(offset, offset, f"{lead}{entry},")]


def _remove_member(document: JsonText, node: _Node, member: _Member) -> list[Replacement]:
    text = document.text
    index = node.members.index(member)
    start, end = member.start, max(member.comma + 1, member.node.end)
    line_start = text.rfind("\n", 0, start) + 1
    after, _ = _skip_comments(text, end)
    rest = re.compile(r"[ \t]*(?:\r?\n)").match(text, after)
    if not text[line_start:start].strip(" \t") and line_start > node.start and rest is not None:  # lines of its own
        start, end = line_start, rest.end()
    else:
        end = re.compile(r"[ \t]*").match(text, end).end() if member.comma >= 0 else end  # type: ignore[union-attr] # as above
    if member.comma < 0 and index:  # the comma before it would now be the last
        comma = node.members[index - 1].comma
        gap = text[comma + 1 : start]
        if gap.strip() or "\n" in gap:
            return [Replacement(comma, comma + 1, ""), Replacement(start, end, "")]
        start = comma
    return [Replacement(start, end, "")]


def _format_value(value: object, unit: str, indent: str, ends: str) -> str:
    """A value as text; on several lines if there is a unit of indentation."""
    if not unit:
        return _dump_value(value)
    return _dump_value(value, unit).replace("\n", f"{ends}{indent}")


def _dump_value(value: object, indent: str | None = None) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return text if text.isascii() or _encodes(text) else json.dumps(value, indent=indent, allow_nan=False)


def _encodes(text: str) -> bool:
    """Whether a text has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _ends(text: str) -> str:
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def _indent(text: str, offset: int) -> str:
    """The blanks that begin the line of a place."""
    line = text[text.rfind("\n", 0, offset) + 1 : offset].removeprefix(_BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(document: JsonText) -> str:
    """One level of indentation: that of the first member of the first object or list on lines of its own."""
    text, level = document.text, [document.root]
    while level:
        for node in level:
            if node.members and _breaks(text, node.start, node.members[0].start):
                inner, outer = _indent(text, node.members[0].start), _indent(text, node.start)
                if inner.startswith(outer) and inner != outer:
                    return inner.removeprefix(outer)
        level = [member.node for member in chain.from_iterable(node.members for node in level)]
    return _INDENT


def _breaks(text: str, start: int, end: int) -> bool:
    return "\n" in text[start:end]


def _is_inline(document: JsonText) -> bool:
    """Whether a text is written on one line, though it has values."""
    root = document.root
    return bool(root.members) and not _breaks(document.text, root.start, root.end)


def _edit_value(value: Any, path: Sequence[PathPart], new: object) -> Any:  # noqa: ANN401 - JSON
    """The value that a text has after an edit."""
    if not path:
        return new
    part, rest = path[0], path[1:]
    if isinstance(part, int):
        items = list(value) if isinstance(value, list) else []
        new_value = _edit_value(items[part] if part < len(items) else None, rest, new)
        return [*items[:part], *([] if new_value is _DELETED else [new_value]), *items[part + 1 :]]
    members = dict(value) if isinstance(value, dict) else {}
    new_value = _edit_value(members.get(part), rest, new)
    if new_value is _DELETED:
        members.pop(part, None)
        return members
    return members | {part: new_value}


def _path(path: Sequence[PathPart]) -> str:
    return ".".join(map(str, path)) or "the whole text"


def _error(text: str, offset: int, problem: str) -> ConfigFileError:
    return ConfigFileError(problem, line=_line(text, offset))


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1
