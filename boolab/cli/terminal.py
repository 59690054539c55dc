"""Text on a stream while a run is under way: a terminal with a status line below, or a pipe without.

Text arrives in pieces, as a model streams it, and is wrapped and indented. Control characters never reach the stream:
texts of models and tools are untrusted input.

The status line is the line below the text. It is erased before anything is written and drawn again after it, in one
write, with the cursor left where the text continues; so only a few of the oldest escape sequences are needed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from typing import Final, TextIO

from boolab.core.text import clip, replace_controls
from boolab.display.text import columns_of
from boolab.display.transcript import WIDTH

ERASE_BELOW: Final = "\x1b[J"
"""Takes the status line away: all from the cursor on."""
_CURSOR_UP: Final = "\x1b[A"
_STYLES: Final = {"dim": "2", "bold": "1", "red": "31", "yellow": "33"}
_TAB: Final = "    "
MIN_COLUMNS: Final = 20
_WIDE: Final = "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\U0001f300-\U0001faff"
_PIECES: Final = re.compile(rf"\n|[^\S\n]+|[{_WIDE}]|[^\s{_WIDE}]+")
"""Ends of lines, spaces, characters of scripts that have no spaces, and words."""


def is_terminal(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a stream supports styles and a status line: a terminal without NO_COLOR (no-color.org) and TERM=dumb."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def clip_columns(line: str, room: int) -> str:
    """A line, cut to this many columns; an ellipsis stands for a missing end."""
    if columns_of(line) <= room:
        return line
    line = clip(line, room)
    while columns_of(line) > room:
        line = f"{line[:-2]}…"
    return line


class Sheet:
    """Text on a stream, wrapped and indented, above a status line. Each call is one write, followed by a flush."""

    def __init__(self, stream: TextIO, *, terminal: bool, columns: Callable[[], int] | None = None) -> None:
        self.stream = stream
        self.terminal = terminal
        self._columns = columns or (lambda: shutil.get_terminal_size((WIDTH, 24)).columns if stream.isatty() else WIDTH)
        self._out: list[str] = []
        self._status = ""
        self._shown = False
        self._style = ""
        self._rest = ""
        self._next = ""
        """What the next line of the open text begins with."""
        self._column = 0
        self._fresh = True
        """Whether nothing but its beginning stands on the current line."""
        self._breaks = 0
        """Line ends that were not written yet: those after the last word never are."""
        self._space = ""
        self._word = ""

    @property
    def room(self) -> int:
        """How many columns a line has. The last is left free: terminals differ in when they wrap there."""
        return max(self._columns() - 1, MIN_COLUMNS)

    def begin(self, first: str, rest: str, style: str = "") -> None:
        """Open a text: how its first line begins, and all others; its style is one of dim, bold, red and yellow."""
        self._end()
        self._next, self._rest, self._style = first, rest, style

    def write(self, text: str) -> None:
        """Continue the open text. An unfinished word waits for its end, so that it can be wrapped."""
        for piece in _PIECES.findall(replace_controls(text).replace("\t", _TAB)):
            if piece == "\n":
                self._put_word()
                self._breaks += 1
                self._space = ""
            elif piece.isspace():
                self._put_word()
                self._space += piece if self._column else ""
            elif len(piece) == 1 and columns_of(piece) > 1:
                self._put_word()
                self._word = piece
                self._put_word()
            else:
                self._word += piece
        self._flush()

    def line(self, text: str, style: str = "") -> None:
        """Write a line by itself, cut to the sheet's width; it ends the open text."""
        self.copyable_line(clip_columns(replace_controls(text).replace("\t", _TAB), self.room), style)

    def copyable_line(self, text: str, style: str = "") -> None:
        """Write a line by itself, however long it is: one to be copied."""
        self._end()
        self._out.append(self._add_style(replace_controls(text), style) + "\n")
        self._flush()

    def status(self, text: str) -> None:
        """Show a status in place of the one before; nothing where the sheet is no terminal."""
        if self.terminal and text != self._status:
            self._status = text
            self._flush()

    def end(self) -> None:
        """End the open text and take the status away."""
        self._end()
        self._status = ""
        self._flush()

    def _end(self) -> None:
        self._put_word()
        if self._column:
            self._out.append("\n")
        self._column = self._breaks = 0
        self._next = self._rest = self._space = ""

    def _put_word(self) -> None:
        word, self._word = self._word, ""
        while word:
            if self._column and self._breaks:
                self._new_line(min(self._breaks, 2))
            self._breaks = 0
            if not self._column:
                self._out.append(self._add_style(self._next, self._style))
                self._column, self._next, self._fresh = columns_of(self._next), self._rest, True
            space = self._space[: self.room // 2]
            room_left = self.room - self._column - len(space)
            if columns_of(word) > room_left and not self._fresh:
                self._new_line()
                self._space = ""
                continue
            part = _head(word, max(room_left, 2))
            self._out.append(self._add_style(space + part, self._style))
            self._column += len(space) + columns_of(part)
            self._fresh, self._space, word = False, "", word[len(part) :]
            if word:
                self._new_line()

    def _new_line(self, breaks: int = 1) -> None:
        self._out.append("\n" * breaks)
        self._column = 0

    def _add_style(self, text: str, style: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and self.terminal else text

    def _flush(self) -> None:
        """Write what there is to write, with the status line below it."""
        output, self._out = "".join(self._out), []
        if self._shown:
            output = ERASE_BELOW + output
            self._shown = False
        if self._status:
            cursor_back = f"\x1b[{self._column}C" if self._column else ""
            status = self._add_style(clip_columns(replace_controls(self._status), self.room), "dim")
            output += f"\n{status}\r{_CURSOR_UP}{cursor_back}"
            self._shown = True
        if output:
            self.stream.write(output)
            self.stream.flush()


def _head(word: str, room: int) -> str:
    """As much of a word as fits, at least one character."""
    head = word[:room]
    while columns_of(head) > room and len(head) > 1:
        head = head[:-1]
    return head
