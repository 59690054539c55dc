"""A terminal's screen, as far as `boolab.cli.terminal` uses one; whatever else reaches it is an error."""

import re
import unicodedata

_TOKENS = re.compile(r"\x1b\[(\d*)([A-Za-z])|([^\x1b])", re.DOTALL)


class Screen:
    """What stands on a terminal after some output: lines that never scroll away, and a cursor."""

    def __init__(self, columns: int = 80) -> None:
        self.columns = columns
        self.lines: list[list[str]] = [[]]
        """A cell for each column; the second one of a wide character is empty."""
        self.row = self.column = 0

    def feed(self, text: str) -> None:
        """Take output in."""
        end = 0
        for token in _TOKENS.finditer(text):
            assert token.start() == end, f"not understood: {text[end:][:20]!r}"
            end = token.end()
            count, command, char = token.groups()
            if char is not None:
                self._put(char)
            elif command == "J":
                del self.lines[self.row + 1 :]
                self.lines[self.row] = self.lines[self.row][: self.column]
            elif command == "A":
                self.row -= int(count or 1)
            elif command == "C":
                self.column += int(count or 1)
            else:
                assert command == "m", f"not expected: {token.group()!r}"
        assert end == len(text), f"not understood: {text[end:][:20]!r}"

    def _put(self, char: str) -> None:
        if char == "\n":
            self.row += 1
            self.column = 0  # a terminal's driver makes a return of it too
            if self.row == len(self.lines):
                self.lines.append([])
        elif char == "\r":
            self.column = 0
        else:
            assert char.isprintable(), f"not expected: {char!r}"
            line = self.lines[self.row]
            line += [" "] * (self.column - len(line))
            if unicodedata.combining(char):
                line[self.column - 1] += char
                return
            cells = [char, ""] if unicodedata.east_asian_width(char) in "WF" else [char]
            line[self.column : self.column + len(cells)] = cells
            self.column += len(cells)
            assert self.column < self.columns, f"too long: {''.join(line)!r}"

    @property
    def text(self) -> str:
        """All that stands on it."""
        return "\n".join("".join(line).rstrip() for line in self.lines).rstrip("\n")
