"""Long texts and tables as plain text: lines of a terminal's width, columns of one width."""

from __future__ import annotations

import re
import shutil
import textwrap
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import takewhile

from boolab.core.text import NAME_CHARS, clean, shorten

WIDTH = 79  # columns of plain text: a terminal of 80 wraps none
MAX_MESSAGE = 200
"""Messages of at most so many characters are one line."""
MAX_WIDTH = 100
"""The most columns of a paragraph, however wide the terminal is: longer lines are hard to read."""
NO_NAME = "no name"
"""What an agent, a model or a tool without a name is called."""
_LONG_WORD = re.compile(r"\S{501,}")
_MIN_WIDTH = 40


def capitalize(text: str) -> str:
    """A text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def joined(parts: Sequence[str], word: str = "and") -> str:
    """A list as a sentence has it."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def with_short_words(text: str) -> str:
    """A message in which no word has more than 500 characters: what a user gave may be a number of any length."""
    return _LONG_WORD.sub(lambda match: f"{match[0][:80]}… ({len(match[0]):,} in all)", text)


def shorten_apart(names: Iterable[str], length: int = NAME_CHARS) -> dict[str, str]:
    """Each name in one line; long ones that would look the same are shown from where they begin to differ."""
    lines = {name: clean(name) for name in names}
    text_by_line: dict[str, str] = {}
    groups = [_group_by_text({line: shorten(line, length) for line in lines.values()})]
    while groups:
        for text, names_of_text in groups.pop().items():
            if len(names_of_text) == 1:
                text_by_line[names_of_text[0]] = text
            else:
                groups.append(_group_by_text(_shorten_alike(names_of_text, length)))
    return {name: text_by_line[line] for name, line in lines.items()}


def _group_by_text(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """The lines that each text is shown for."""
    lines_by_text: dict[str, list[str]] = {}
    for line, text in texts.items():
        lines_by_text.setdefault(text, []).append(line)
    return lines_by_text


def _shorten_alike(lines: Sequence[str], length: int) -> dict[str, str]:
    """Lines that begin alike, by their beginning and the word in which they begin to differ."""
    head = lines[0][: length // 4]
    differ = start = sum(1 for _ in takewhile(lambda chars: len(set(chars)) == 1, zip(*lines, strict=False)))
    while start > max(len(head), differ - length // 3) and lines[0][start - 1].isalnum():
        start -= 1
    room = length - len(head) - 1
    rests = {line: line[start:] for line in lines}
    return {line: f"{head}…{rest if len(rest) <= room else f'{rest[: room - 1]}…'}" for line, rest in rests.items()}


def line_width() -> int:
    """How long a line of a paragraph may be: as the terminal, up to a limit; 80 columns without a terminal."""
    columns = shutil.get_terminal_size((WIDTH + 1, 24)).columns
    return max(_MIN_WIDTH, min(columns - 1, MAX_WIDTH))


def wrap_text(text: str, width: int | None = None, first: str = "", rest: str | None = None) -> str:
    """A paragraph in lines of at most so many characters, without control characters. No path is broken."""
    rest = " " * len(first) if rest is None else rest
    width = line_width() if width is None else width
    line = clean(text)
    endless = any(len(word) > MAX_MESSAGE for word in line.split())
    lines = textwrap.wrap(
        line, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=endless
    )
    return "\n".join(lines)


def wrap_if_long(text: str) -> str:
    """A message in one line; a long one in lines. No word is broken, such as a path."""
    if len(text) <= MAX_MESSAGE:
        return text
    return textwrap.fill(text, line_width(), subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)


def columns_of(text: str) -> int:
    """How many columns of a terminal a text without control characters takes."""
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(char) in "WF" else unicodedata.category(char) not in ("Mn", "Me", "Cf")
        for char in text
    )


def align_columns(
    rows: Iterable[Sequence[str]], *, left: Container[int] = (0,), widths: Sequence[int] | None = None
) -> list[str]:
    """The rows of a table as lines, two spaces between columns; those that are not `left` are aligned to the right."""
    table = [list(row) for row in rows]
    if widths is None:
        widths = [max(map(columns_of, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = []
        for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - columns_of(cell))
            cells.append(cell + space if index in left else space + cell)
        lines.append("  ".join(cells).rstrip())
    return lines
