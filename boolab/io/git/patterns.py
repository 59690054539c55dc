r"""The patterns of `.gitignore` files, matched as git does it, but in linear time.

Git's own matching takes for ever for some patterns: `*a*a*a*a*b`, until version 2.41. Each pattern becomes a regular
expression, which RE2 searches in the path from the pattern's file: with a slash at the end if it is that of a folder.
Bytes are taken for characters, as git does.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from boolab.io.safe_regex import Pattern, compile_pattern

MAX_LINES: Final = 10_000
"""How many patterns a file may have."""
_GROUP_SIZE: Final = 32
"""How many patterns are searched at once, to see that none of them matches."""
_NO_MATCH: Final = r"[^\x00-\x{10FFFF}]"
_CLASSES: Final[dict[bytes, str]] = {
    b"alnum": string.ascii_letters + string.digits,
    b"alpha": string.ascii_letters,
    b"blank": " \t",
    b"cntrl": "".join(map(chr, [*range(32), 127])),
    b"digit": string.digits,
    b"graph": string.ascii_letters + string.digits + string.punctuation,
    b"lower": string.ascii_lowercase,
    b"print": string.ascii_letters + string.digits + string.punctuation + " ",
    b"punct": string.punctuation,
    b"space": " \t\n\r\v\f",
    b"upper": string.ascii_uppercase,
    b"xdigit": string.hexdigits,
}


class _IgnoreRule(NamedTuple):
    regexp: str
    pattern: Pattern
    is_negated: bool


class Patterns:
    """The patterns of a file."""

    def __init__(self, text: bytes) -> None:
        rules = [_rule(line, number) for number, line in _lines(text)]
        if len(rules) > MAX_LINES:
            msg = f"more than the {MAX_LINES:,} patterns that are read"
            raise ValueError(msg)
        valid = [rule for rule in rules if rule is not None]
        starts = range(0, len(valid), _GROUP_SIZE)
        self._groups = [*chain.from_iterable(_groups(valid[start : start + _GROUP_SIZE]) for start in starts)]

    def verdict(self, path: str) -> bool | None:
        """Whether a path from the file of patterns is ignored, by the last that matches; None if none does."""
        for any_of_them, rules in reversed(self._groups):
            if any_of_them.is_in(path):
                return next(not rule.is_negated for rule in reversed(rules) if rule.pattern.is_in(path))
        return None


def _groups(rules: list[_IgnoreRule]) -> Iterator[tuple[Pattern, list[_IgnoreRule]]]:
    """Rules with a pattern that is found where one of them is."""
    if len(rules) == 1:
        yield rules[0].pattern, rules
    elif rules:
        try:
            yield compile_pattern("|".join(rule.regexp for rule in rules)), rules
        except ValueError:  # too large
            middle = len(rules) // 2
            yield from _groups(rules[:middle])
            yield from _groups(rules[middle:])


def _lines(text: bytes) -> Iterator[tuple[int, bytes]]:
    """The patterns in a file, as git reads them, with the numbers of their lines."""
    for number, line in enumerate(text.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line and not line.startswith(b"#"):
            yield number, _trim(line.removesuffix(b"\r").partition(b"\0")[0])


def _trim(line: bytes) -> bytes:
    """A line without the spaces at its end, but for those after a backslash."""
    end = index = 0
    while index < len(line):
        if line[index : index + 1] == b"\\":
            if index + 1 == len(line):
                return line
            index += 1
            end = index + 1
        elif line[index : index + 1] != b" ":
            end = index + 1
        index += 1
    return line[:end]


def _rule(line: bytes, number: int) -> _IgnoreRule | None:
    is_negated = line.startswith(b"!")
    pattern = line[1:] if is_negated else line
    is_folder = pattern.endswith(b"/")
    pattern = pattern.removesuffix(b"/")
    if not pattern:
        return None
    has_path = b"/" in pattern
    start = "" if has_path else "(?:.*/)?"
    regexp = rf"(?s:\A{start}{_regexp(pattern.removeprefix(b'/'))}{'/' if is_folder else '/?'}\z)"
    try:
        return _IgnoreRule(regexp, compile_pattern(regexp), is_negated)
    except ValueError as error:
        msg = f"line {number} is too large a pattern"
        raise ValueError(msg) from error


def _regexp(pattern: bytes) -> str:
    """A pattern as a regular expression; `wildmatch.c` of git is the reference."""
    parts: list[str] = []
    index = 0
    while index < len(pattern):
        byte = pattern[index : index + 1]
        if byte == b"*":
            part, index = _stars(pattern, index)
        elif byte == b"?":
            part, index = "[^/]", index + 1
        elif byte == b"[":
            part, index = _class(pattern, index + 1)
        elif byte == b"\\":
            is_whole = index + 1 < len(pattern)
            part, index = (_literal(pattern[index + 1]), index + 2) if is_whole else (_NO_MATCH, index + 1)
        else:
            part, index = _literal(pattern[index]), index + 1
        parts.append(part)
    return "".join(parts)


def _stars(pattern: bytes, index: int) -> tuple[str, int]:
    """Two stars or more between slashes match over folders, others within one."""
    end = index
    while pattern[end : end + 1] == b"*":
        end += 1
    if end - index == 1 or not (index == 0 or pattern[index - 1 : index] == b"/"):
        return "[^/]*", end
    if pattern[end : end + 1] == b"/":
        return "(?:.*/)?", end + 1
    return (".*" if end == len(pattern) or pattern[end : end + 2] == b"\\/" else "[^/]*"), end


def _class(pattern: bytes, index: int) -> tuple[str, int]:
    """A set of bytes in brackets. If it has no end, or a name that is unknown, nothing matches."""
    is_negated = pattern[index : index + 1] in (b"!", b"^")
    index += is_negated
    byte_set: set[int] = set()
    start = 0
    is_first = True
    while is_first or pattern[index : index + 1] != b"]":
        is_first = False
        byte, rest = pattern[index : index + 1], pattern[index + 1 : index + 2]
        if not byte or (byte == b"\\" and not rest):
            return _NO_MATCH, len(pattern)
        if byte == b"\\":
            start, index = rest[0], index + 2
            byte_set.add(start)
        elif byte == b"-" and start and rest and rest != b"]":
            index += 2 if rest == b"\\" else 1
            if index == len(pattern):
                return _NO_MATCH, index
            byte_set |= set(range(start, pattern[index] + 1))
            start, index = 0, index + 1
        elif byte == b"[" and rest == b":":
            class_bytes, end = _parse_class(pattern, index)
            if class_bytes is None:
                return _NO_MATCH, len(pattern)
            byte_set |= class_bytes
            start, index = byte[0] if end == index + 1 else 0, end
        else:
            byte_set.add(byte[0])
            start, index = byte[0], index + 1
    if is_negated:
        byte_set = set(range(256)) - byte_set
    members = "".join(rf"\x{{{byte:x}}}" for byte in sorted(byte_set - {ord("/")}))
    return (f"[{members}]" if members else _NO_MATCH), index + 1


def _parse_class(pattern: bytes, index: int) -> tuple[set[int] | None, int]:
    """A class such as `[:alpha:]`, or the bracket alone if it has no such end; None if nothing matches."""
    end = pattern.find(b"]", index + 2)
    if end < 0:
        return None, index
    if end == index + 2 or pattern[end - 1 : end] != b":":
        return {pattern[index]}, index + 1
    members = _CLASSES.get(pattern[index + 2 : end - 1])
    return None if members is None else set(members.encode()), end + 1


def _literal(byte: int) -> str:
    return re.escape(chr(byte)) if byte < 128 and byte else rf"\x{{{byte:x}}}"  # noqa: PLR2004 - ASCII
