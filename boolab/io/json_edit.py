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
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined] # typeshed lacks it
from typing import Any, Final, NoReturn, TypeAlias

from boolab.errors import ConfigFileError

Step: TypeAlias = str | int
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
_GONE: Final = object()
"""In place of a value: there is none."""


@dataclass(slots=True)
class _Node:
    """A value and its place: its members, if it is an object or a list, and whether a comma follows the last."""

    start: int
    end: int
    value: Any
    members: list[_Member] = field(default_factory=list)


@dataclass(slots=True)
class _Member:
    """A value in an object or a list: where it begins with its key, and the comma after it (-1: none)."""

    key: Step
    start: int
    node: _Node
    comma: int = -1


def read_json(text: str) -> Any:  # noqa: ANN401 - JSON
    r"""The value of JSON text that may have comments and trailing commas. Of a key that is there twice, the last.

    Raises:
        ConfigFileError: if it is not JSON, with the line.

    Example:
        >>> read_json('{"a": [1, 2,],  // two\n}')
        {'a': [1, 2]}
    """
    return _Reader(text).document().value


def line_of(text: str, at: Sequence[Step]) -> int:
    r"""The line of a value, or of the nearest value around it that there is; from 1.

    Example:
        >>> line_of('{\n  "a": {\n    "b": 1\n  }\n}', ["a", "b"])
        3
    """
    node = _Reader(text).document()
    start = node.start
    for step in at:
        member = next((one for one in reversed(node.members) if one.key == step), None)
        if member is None:
            break
        node, start = member.node, member.start
    return _line(text, start)


def with_json(text: str, at: Sequence[Step], value: object) -> str:
    r"""The text with another value at a place; objects that lead to it are made where they are missing.

    Args:
        text: The text; blank text is an empty object.
        at: The keys that lead to the value, and places in lists. The place after a list's end appends to it.
        value: A JSON value. An equal one leaves the text as it is.

    Returns:
        The text, with every other byte as it was.

    Raises:
        ConfigFileError: if the text is not JSON, the place leads through something that is no object or list, a key on
            the way is there twice, or the edit would change more: with the line.

    Example:
        >>> with_json('{\n  "a": 1, // one\n}\n', ["a"], 2)
        '{\n  "a": 2, // one\n}\n'
        >>> with_json('{"a": 1}', ["b", "c"], True)
        '{"a": 1, "b": {"c": true}}'
    """
    if not text.removeprefix(_BOM).strip():
        text = f"{text[: text.startswith(_BOM)]}{{}}\n"
    root = _Reader(text).document()
    if not at:
        return text if _same(root.value, value) else _replaced(text, root, value)
    node, n = root, 0
    while n < len(at):
        member = _member(text, node, at[: n + 1])
        if member is None:
            break
        node, n = member.node, n + 1
    if n == len(at):
        if _same(node.value, value):
            return text
        changed = _replaced(text, node, value)
    else:
        made = value
        for step in reversed(at[n + 1 :]):
            if not isinstance(step, str):
                raise _error(text, node.start, f"there is no list for {_path(at)}")
            made = {step: made}
        changed = _inserted(text, root, node, at[n], made)
    return _checked(text, changed, node, _after(root.value, at, value))


def without_json(text: str, at: Sequence[Step]) -> str:
    r"""The text without one value and its key; the text itself if there is none.

    Raises:
        ConfigFileError: as in `with_json`.

    Example:
        >>> without_json('{\n  "a": 1,\n  "b": 2\n}\n', ["b"])
        '{\n  "a": 1\n}\n'
    """
    if not at:
        msg = "the whole text cannot be removed: expected at least one key"
        raise ConfigFileError(msg)
    if not text.removeprefix(_BOM).strip():
        return text
    root = _Reader(text).document()
    node = root
    for n in range(len(at) - 1):
        member = _member(text, node, at[: n + 1])
        if member is None:
            return text
        node = member.node
    member = _member(text, node, at)
    if member is None:
        return text
    changed = _removed(text, node, member)
    return _checked(text, changed, node, _after(root.value, at, _GONE))


# --- Reading ----------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, text: str) -> None:
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
        self._at = _past_comments(self._text, self._at)
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
        found = _WORD.match(text, start) or _NUMBER.match(text, start)
        if found is None:
            self._fail(f"expected a JSON value here{f', not {char!r}' if char else ''}")
        self._at = found.end()
        word = found[0]
        try:
            return _Node(start, self._at, _WORDS[word] if word in _WORDS else json.loads(word))
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
        node = _Node(self._at, 0, {} if close == "}" else [])
        self._at += 1
        while True:
            self._skip()
            if self._text.startswith(close, self._at):
                break
            if node.members and node.members[-1].comma < 0:
                self._fail(f"expected ',' or {close!r} here")
            start, key = self._at, len(node.members)
            if close == "}":
                key = self._key()
            member = _Member(key, start, self._value(depth + 1))
            node.members.append(member)
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


def _past_comments(text: str, at: int) -> int:
    """The place after blanks and comments; before a comment that has no end."""
    while True:
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr] # it matches nothing too
        found = _LINE.match(text, at) or _BLOCK.match(text, at)
        if found is None:
            return at
        at = found.end()


def _past_comments_of_line(text: str, at: int) -> tuple[int, bool]:
    """The place after the last comment on the rest of a line, and whether that comment takes the line to its end."""
    end, here = at, at
    while True:
        while text[here : here + 1] in (" ", "\t"):
            here += 1
        line = _LINE.match(text, here)
        if line is not None:
            return line.end(), True
        block = _BLOCK.match(text, here)
        if block is None or "\n" in block[0]:
            return end, False
        end = here = block.end()


# --- Writing ----------------------------------------------------------------------------------------------------------


def _member(text: str, node: _Node, at: Sequence[Step]) -> _Member | None:
    """The last step of a path in the value before it; None if it is not there yet."""
    step = at[-1]
    wanted = dict if isinstance(step, str) else list
    if not isinstance(node.value, wanted):
        kinds: dict[type, str] = {dict: "an object", list: "a list"}
        found = kinds.get(type(node.value), json.dumps(node.value)[:40])
        raise _error(text, node.start, f"{_path(at[:-1])} is {found}; expected {kinds[wanted]}")
    found_all = [one for one in node.members if one.key == step]
    if len(found_all) > 1:
        raise _error(text, found_all[1].start, f"the key {_path(at)} is there twice: expected it once")
    if isinstance(step, int) and not 0 <= step <= len(node.members):
        raise _error(text, node.start, f"{_path(at[:-1])} has {len(node.members)} items: there is no place {step}")
    return found_all[0] if found_all else None


def _replaced(text: str, node: _Node, value: object) -> str:
    inline = "\n" not in text.strip()
    written = _written(value, "" if inline else _unit(text), _indent(text, node.start), _ends(text))
    return text[: node.start] + written + text[node.end :]


def _inserted(text: str, root: _Node, node: _Node, step: Step, value: object) -> str:
    base, unit, ends = _indent(text, node.start), _unit(text), _ends(text)
    first = node.members[0].start if node.members else None
    inline = not _breaks(text, node.start, first) if first is not None else _is_inline(text, root)
    indent = _indent(text, first) if first is not None and not inline else base + unit
    key = f"{_dumped(step)}: " if isinstance(step, str) else ""
    entry = key + _written(value, "" if inline else unit, indent, ends)
    if first is None:
        inner = text[node.start + 1 : node.end - 1].rstrip(" \t\r\n")
        made = f"{inner}{entry}" if inline and not inner else f"{inner}{ends}{indent}{entry}{ends}{base}"
        return text[: node.start + 1] + made + text[node.end - 1 :]
    last = node.members[-1]
    place, whole_line = _past_comments_of_line(text, max(last.comma + 1, last.node.end))
    lead = f"{ends}{indent}" if whole_line or not inline else " "
    comma = "," if last.comma < 0 else ""
    return (text[: last.node.end] + comma + text[last.node.end : place] + lead + entry + ("" if comma else ",")) + text[
        place:
    ]


def _removed(text: str, node: _Node, member: _Member) -> str:
    place = node.members.index(member)
    start, end = member.start, max(member.comma + 1, member.node.end)
    before = text.rfind("\n", 0, start) + 1
    after, _ = _past_comments_of_line(text, end)
    rest = re.compile(r"[ \t]*(?:\r?\n)").match(text, after)
    if not text[before:start].strip(" \t") and before > node.start and rest is not None:  # lines of its own
        start, end = before, rest.end()
    else:
        end = re.compile(r"[ \t]*").match(text, end).end() if member.comma >= 0 else end  # type: ignore[union-attr] # as above
    if member.comma < 0 and place:  # the comma before it would now be the last
        comma = node.members[place - 1].comma
        between = text[comma + 1 : start]
        between = between if between.strip() or "\n" in between else ""
        return text[:comma] + between + text[end:]
    return text[:start] + text[end:]


def _written(value: object, unit: str, indent: str, ends: str) -> str:
    """A value as text; on several lines if there is a unit of indentation."""
    if not unit:
        return _dumped(value)
    return _dumped(value, unit).replace("\n", f"{ends}{indent}")


def _dumped(value: object, indent: str | None = None) -> str:
    made = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return made if made.isascii() or _encodes(made) else json.dumps(value, indent=indent, allow_nan=False)


def _encodes(text: str) -> bool:
    """Whether a text has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _ends(text: str) -> str:
    return "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"


def _indent(text: str, at: int) -> str:
    """The blanks that begin the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 : at].removeprefix(_BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    """One level of indentation: that of the first member of the first object or list on lines of its own."""
    root = _Reader(text).document()
    todo = [root]
    while todo:
        node = todo.pop(0)
        if node.members and _breaks(text, node.start, node.members[0].start):
            inner, outer = _indent(text, node.members[0].start), _indent(text, node.start)
            if inner.startswith(outer) and inner != outer:
                return inner.removeprefix(outer)
        todo += [member.node for member in node.members]
    return _INDENT


def _breaks(text: str, start: int, end: int) -> bool:
    return "\n" in text[start:end]


def _is_inline(text: str, root: _Node) -> bool:
    """Whether a text is written on one line, though it has values."""
    return bool(root.members) and not _breaks(text, root.start, root.end)


def _after(value: Any, at: Sequence[Step], new: object) -> Any:  # noqa: ANN401 - JSON
    """The value that a text has after an edit."""
    if not at:
        return new
    step, rest = at[0], at[1:]
    if isinstance(step, int):
        items = list(value) if isinstance(value, list) else []
        made = _after(items[step] if step < len(items) else None, rest, new)
        return [*items[:step], *([] if made is _GONE else [made]), *items[step + 1 :]]
    members = dict(value) if isinstance(value, dict) else {}
    made = _after(members.get(step), rest, new)
    if made is _GONE:
        members.pop(step, None)
        return members
    return members | {step: made}


def _checked(text: str, changed: str, node: _Node, expected: object) -> str:
    msg = "this cannot be changed without changing more of the file: edit it by hand"
    try:
        found = read_json(changed)
    except ConfigFileError as error:
        raise _error(text, node.start, msg) from error
    if not _same(found, expected):
        raise _error(text, node.start, msg)
    return changed


def _same(one: object, other: object) -> bool:
    """Whether two values are the same JSON: 1 is not 1.0, and not true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _path(at: Sequence[Step]) -> str:
    return ".".join(map(str, at)) or "the whole text"


def _error(text: str, place: int, problem: str) -> ConfigFileError:
    return ConfigFileError(problem, line=_line(text, place))


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
