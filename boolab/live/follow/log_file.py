"""One log that grows.

What a `LogFile` gives after any number of bytes is what a fresh read of these bytes gives: the same runs, by the same
reader. Logs of JSON Lines are read from where the last read ended. All others are read again when they change.

A log may end in the middle of a line. If what is there is JSON already, a fresh read would take it, so it is taken; if
more of that line follows, the log is read again from its beginning. It is also read again if the file became shorter,
if another file has its name, or if the bytes around the place of the last read are no longer those that were read.
"""

from __future__ import annotations

import os
from errno import EINVAL
from pathlib import Path
from typing import BinaryIO, Final

from boolab.core.gc_pause import pause_collection
from boolab.core.run import Run
from boolab.errors import RunFormatError
from boolab.io.files import describe_non_file, open_file
from boolab.io.json_input import MAX_LINE, Damage, line_values, parse
from boolab.io.packed import encoding_of
from boolab.logs.fields import LineLog, follow_of
from boolab.logs.log_files import HEAD, Reader, reader_for

_BLOCK: Final = 2**20
_MARK: Final = 128
"""How many bytes at the beginning, and before the place of the last read, are compared before more is read."""
_SNIFFED_LINES: Final = 20
_BOM: Final = b"\xef\xbb\xbf"


class LogFile:
    """A log, read as far as it is written.

    `format`: the name of its format, or a reader, if it is not to be detected.

    Attributes:
        runs: The runs of the log so far; none before `update`, and none if no reader recognises it.
        bytes_read: How many bytes were read by all updates: what following costs.
    """

    def __init__(self, path: Path, format: str | Reader | None = None) -> None:  # noqa: A002 - as load_runs has it
        self.path = path
        self.runs: list[Run] = []
        self.bytes_read = 0
        self._format = format
        self._seen: tuple[int, int, int, int] | None = None
        """The device, number, size and time of the file at the last update."""
        self._restart()

    def _restart(self) -> None:
        self._reader: Reader | None = None
        self._log: LineLog | None = None
        self._lines: _Lines | None = None

    @property
    def size(self) -> int:
        """The size of the file at the last update, in bytes."""
        return 0 if self._seen is None else self._seen[2]

    @property
    def mtime(self) -> float:
        """When the file was changed for the last time, in seconds since 1970; 0 before the first update."""
        return 0.0 if self._seen is None else self._seen[3] / 1e9

    def update(self, *, parts: bool = False) -> bool:
        """Read what was written since the last update."""
        stat = self.path.stat()
        if reason := describe_non_file(stat):
            raise OSError(EINVAL, reason, str(self.path))
        state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if state == self._seen and not parts:
            return False
        old_state, self._seen = self._seen, state
        if old_state is not None and (old_state[:2] != state[:2] or old_state[2] > state[2]):
            self._restart()
        try:
            with pause_collection():
                self._read(stat.st_size)
        except Exception:
            self._restart()  # what was read of it may be counted in part
            raise
        return True

    def _read(self, size: int) -> None:
        if self._reader is None or self._lines is None or self._lines.is_in_head:
            reader = reader_for(self.path, self._format)
            if reader is not self._reader:
                self._restart()
                self._reader = reader
        if self._reader is None:
            self.runs = [] if self.path.suffix == ".jsonl" else self.runs
        elif self._has_lines():
            self._follow()
        else:
            self._lines = None
            self.bytes_read += size
            self._read_again(self._reader)

    def _has_lines(self) -> bool:
        """Whether the log is JSON Lines, and its reader follows such: by its name and its first line."""
        if self._lines is not None:
            return True
        if follow_of(self._reader) is None or self.path.suffix != ".jsonl":
            return False
        with open_file(self.path) as file:
            first = next((line for line in iter(lambda: file.readline(HEAD), b"") if not line.isspace()), b"")
        if encoding_of(first):
            return False
        first = first.removeprefix(_BOM)
        if first.strip() in (b"{", b"["):  # the first line of one document
            return False
        return first.endswith(b"\n") or len(first) >= HEAD

    def _read_again(self, reader: Reader) -> None:
        """Read the whole file. If it ends in the middle, it is being written: then the runs before stay."""
        damage = Damage(self.path)
        try:
            runs = reader.read(self.path, damage)
        except OSError:
            self._seen = None  # it is tried again at the next update
            raise
        except RunFormatError:
            return
        if not (damage.truncated and self.runs):
            self.runs = runs

    def _follow(self) -> None:
        follow = follow_of(self._reader)
        if follow is None:
            return
        for _ in range(2):
            if self._log is None or self._lines is None:
                self._log = follow(self.path, Damage(self.path))
                self._lines = _Lines()
            with open_file(self.path) as file:
                if not self._lines.continues(file):
                    self._log = None
                    continue
                try:
                    self._lines.read(file, self._log)
                    new_log = self._log.again()
                    if new_log is not None:
                        self._log, self._lines = new_log, _Lines()
                        self._lines.read(file, self._log)
                    self._log.damage.inconsistencies.clear()
                    self.runs = self._log.runs()
                except RunFormatError:
                    self.runs = []
                self.bytes_read += self._lines.bytes_read
                self._lines.bytes_read = 0
            return


class _Lines:
    """The lines of a file up to a place, and the beginning of the one that is there."""

    def __init__(self) -> None:
        self.bytes_read = 0
        self._number = 0
        self._place = 0
        """Where the last read ended."""
        self._rest = b""
        """The line that has no end yet."""
        self._taken = False
        """Whether that line was taken already."""
        self._too_long = False
        self._head = b""
        self._tail = b""

    @property
    def is_in_head(self) -> bool:
        """Whether the format is detected from what is read so far, and further lines may change it."""
        return self._place < HEAD and self._number < _SNIFFED_LINES

    def continues(self, file: BinaryIO) -> bool:
        """Whether the file begins with what was read of it."""
        if not self._place:
            return True
        descriptor = file.fileno()
        start = max(0, self._place - len(self._tail))
        return (
            os.pread(descriptor, len(self._head), 0) == self._head
            and os.pread(descriptor, len(self._tail), start) == self._tail
            and not (self._taken and os.pread(descriptor, 1, self._place).strip())
        )

    def read(self, file: BinaryIO, log: LineLog) -> None:
        """Give the lines from the last place on to the log."""
        damage = log.damage
        file.seek(self._place)
        damage.truncated = False
        while data := file.read(_BLOCK):
            self.bytes_read += len(data)
            self._place += len(data)
            self._head = (self._head + data)[:_MARK] if len(self._head) < _MARK else self._head
            self._tail = (self._tail + data)[-_MARK:]
            *complete, rest = data.split(b"\n")
            for part in complete:
                self._end_line(self._rest + part, log)
                self._rest = b""
            self._rest += rest
            if len(self._rest) > MAX_LINE and not self._too_long:
                self._too_long = True
                damage.note(self._number + 1, f"a line of more than {MAX_LINE:,} bytes")
            if self._too_long:
                self._rest = b""
        self._take_rest(log)

    def _end_line(self, line: bytes, log: LineLog) -> None:
        self._number += 1
        log.damage.line = self._number
        n_taken, too_long = self._taken, self._too_long
        self._taken = self._too_long = False
        if too_long or not line or line.isspace():
            return
        try:
            values = line_values(line)
        except ValueError as error:
            if not n_taken:
                log.damage.note(self._number, f"not valid JSON ({error})")
            return
        for value in values[n_taken:]:
            log.take(self._number, value)

    def _take_rest(self, log: LineLog) -> None:
        """Take the line that has no end yet, if it is JSON; else the log is truncated."""
        rest = self._rest.removeprefix(_BOM)
        if self._taken or not rest or rest.isspace():
            return
        log.damage.line = self._number + 1
        try:
            value = parse(rest)
        except ValueError:
            log.damage.truncated = True
        else:
            self._taken = True
            log.take(self._number + 1, value)
