"""JSON from others: lines and documents, within limits, and as much of them as can be read.

Logs are untrusted. A line longer than `MAX_LINE` is never held in memory, nesting is bounded by the JSON parser, and
what cannot be read is recorded with its line and does not stop the rest.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import dropwhile, islice
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

from pydantic_core import PydanticSerializationError, from_json, to_json

from boolab.errors import RunFormatError
from boolab.io.files import read_file, size_of
from boolab.io.packed import DamagedFile, is_packed, open_unpacked

MAX_LINE: Final = 64 * 2**20
"""The longest line that is read, in bytes."""
MAX_DOCUMENT: Final = 512 * 2**20
"""The largest file that is read as one JSON document, in bytes."""
MAX_REPORTED: Final = 10
"""How many damaged places of a file are reported, at most."""
MAX_JOINED: Final = 100
"""So many objects in one line are read, at most."""
_SPACE: Final = re.compile(r"\s*")
_DECODER: Final = json.JSONDecoder()
_BOM: Final = b"\xef\xbb\xbf"
_NO_VALUE: Final = object()
_NUMBER: Final = (int, float)  # a union would be made anew for each number
_BLOCK: Final = 2**20
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(
    # Pairs of backslashes before it are no escape. Other escapes do not match, because there may be millions.
    rb"(?:\\\\)++|\\u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|([dD][89a-fA-F])..)",
    re.DOTALL,
)
_NO_UTF8: Final = "invalid unicode code point"
_LABEL: Final = re.compile(rb"\s*\[[\w.:+-]+(?: [\w.:+-]+)*\]\s*[^\s,\]}]")
"""A label in brackets and words after it, as programs begin the lines that they print."""
_POSITION: Final = re.compile(r" at line (\d+) column (\d+)$")
JSON: TypeAlias = Any
"""Any JSON value: None, a flag, a number, a text, a list or an object."""
Warn: TypeAlias = Callable[[str], object]
"""Called with one warning, which names the path and line."""


class Inconsistency(NamedTuple):
    """A figure that a log states about itself and that was not read, or what no correct reading of a log gives."""

    run_id: str  # the run; empty if it is about the whole file
    what: str  # a sentence with both numbers
    stated: int | None = None  # what the log states, in the figure's own unit; None if it states no figure
    read: int | None = None  # what was read

    def __str__(self) -> str:
        return f"run {self.run_id}: {self.what}" if self.run_id else self.what


class Damage:
    """What of one file could not be read, by line."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.first: tuple[int, str] | None = None
        self.truncated = False
        """Whether the file ends before its last run does."""
        self.line: int | None = None
        """The line that was read last, from 1; None for one document."""
        self.unrecognised = ""
        """The error if nothing is readable and nothing is damaged."""
        self.remarks: list[str] = []
        """Warnings about the file as a whole."""
        self.inconsistencies: list[Inconsistency] = []
        """Where what was read differs from what the log states about itself."""
        self.versions: set[str] = set()
        """The versions of the format, or of the harness that wrote it, that the log names."""
        self.unknown_kinds: Counter[str] = Counter()
        """The types of lines that the reader does not know, with how many lines have each."""
        self.n_kinds = 0
        """How many lines have a type."""
        self._unmatched: list[int | None] = []
        self._shown: list[tuple[int, str]] = []
        self._count = 0

    def note(self, line: int, what: str) -> None:
        """Record that something at this line could not be read."""
        self._count += 1
        if len(self._shown) < MAX_REPORTED:
            self._shown.append((line, what))
        self.first = self.first or (line, what)

    def note_kind(self, kind: str, kinds: Container[str]) -> None:
        """Count a line by its type, and whether the reader knows this type, also if only to leave it out."""
        self.n_kinds += 1
        if kind not in kinds:
            self.unknown_kinds[kind] += 1

    @property
    def n_unmatched(self) -> int:
        """How many results answer no call in the file."""
        return len(self._unmatched)

    def answers_no_call(self, line: int | None = None) -> int | None:
        """Record a tool result that answers no call in the file, and is left out: its line, None if unknown."""
        line = self.line if line is None else line
        self._unmatched.append(line)
        return line

    def answers_later_call(self, line: int | None) -> None:
        """Record that a tool result on this line, which answered no call so far, answers one after it."""
        self._unmatched.remove(line)

    def replace_by(self, other: Damage) -> None:
        """Record what another one has of the same file, which was read again, and nothing else."""
        vars(self).update(vars(other))

    def report(self, warn: Warn, *, readable: bool) -> None:
        """Warn of the first places, of how many follow, and of results that answer no call."""
        if not readable and self.first is not None:
            line, problem = self.first
            raise RunFormatError(f"{problem}, and nothing else in it can be read as a run", path=self.path, line=line)
        for line, problem in self._shown:
            warn(f"{self.path}:{line}: {problem}; skipped")
        if self._count > MAX_REPORTED:
            last, n_more = self._shown[-1][0], self._count - MAX_REPORTED
            warn(f"{self.path}:{last}: {n_more:,} more places after this one were skipped")
        if self._unmatched:
            count, first_line = len(self._unmatched), self._unmatched[0]
            results = "1 tool result answers" if count == 1 else f"{count:,} tool results answer"
            first = " (this is the first)" if count > 1 and first_line is not None else ""
            location = self.path if first_line is None else f"{self.path}:{first_line}"
            warn(f"{location}: {results} no call that is in the file{first}; left out")
        for remark in (*self.remarks, *self.inconsistencies):
            warn(f"{self.path}: {remark}")
        if not readable and self.unrecognised:
            raise RunFormatError(self.unrecognised, path=self.path, line=1)


def parse(data: bytes) -> JSON:
    r"""The value of a JSON text; a `ValueError` if it is none, or nested too deeply.

    Lone surrogates, which JavaScript writes when it cuts a text, become U+FFFD.
    """
    try:
        return from_json(data, cache_strings="keys")
    except ValueError:
        if not _has_lone_surrogates(data):
            raise
    return from_json(_ESCAPE.sub(lambda match: rb"\ufffd" if match[1] else match[0], data), cache_strings="keys")


def parse_exactly(data: bytes) -> JSON:
    """The value of a JSON text, with its lone surrogates; a `ValueError` if it is none, or nested too deeply."""
    try:
        return from_json(data, cache_strings="keys", allow_inf_nan=False)
    except ValueError:
        if not _has_lone_surrogates(data):
            raise
    try:
        return json.loads(data)
    except RecursionError:
        msg = "nested too deeply"
        raise ValueError(msg) from None


def _has_lone_surrogates(data: bytes) -> bool:
    return _SURROGATE.search(data) is not None and any(match[1] for match in _ESCAPE.finditer(data))


def json_lines(path: str | Path, damage: Damage, parse: Callable[[bytes], Any] = parse) -> Iterator[tuple[int, Any]]:
    """The number and the value of each line of a JSON Lines file; `damage` records what cannot be read."""
    with open_unpacked(Path(path)) as file:
        number = 0
        while line := _line(file, damage, number + 1):
            number += 1
            damage.line = number
            if len(line) > MAX_LINE:
                damage.note(number, f"a line of more than {MAX_LINE:,} bytes")
                while line and not line.endswith(b"\n"):
                    line = _line(file, damage, number, _BLOCK)
                continue
            if line.isspace() or not line:
                continue
            try:
                values = line_values(line, parse)
            except ValueError as error:
                damage.truncated = not line.endswith(b"\n")
                damage.note(number, _json_fault(error, line, truncated=damage.truncated))
                continue
            for value in values:
                yield number, value


def line_values(line: bytes, parse: Callable[[bytes], Any] = parse) -> list[Any]:
    r"""The value of a line; several if it holds several objects, none if it is blank. A `ValueError` if it is not JSON.

    Parallel writers may write an object before another one's line end, and a file that was joined to another one may
    begin with a byte order mark.
    """
    line = line.removeprefix(_BOM)
    try:
        return [parse(line)]
    except ValueError as error:
        if line.isspace() or not line:
            return []
        objects = _objects_in(line) if str(error).startswith("trailing characters") else []
        if not objects:
            raise
    return list(map(parse, objects))


def _objects_in(line: bytes) -> list[bytes]:
    """The JSON objects of a line that holds nothing else: parallel writers may write before each other's line ends."""
    objects: list[bytes] = []
    try:
        content = line.decode().rstrip()
        start = 0
        while start < len(content):
            start = _SPACE.match(content, start).end()  # type: ignore[union-attr] # it matches everywhere
            value, end = _DECODER.raw_decode(content, start)
            if not isinstance(value, dict) or len(objects) == MAX_JOINED:
                return []
            objects.append(content[start:end].encode())
            start = end
    except (ValueError, RecursionError):
        return []
    return objects


def _line(file: BinaryIO, damage: Damage, number: int, max_bytes: int = MAX_LINE + 1) -> bytes:
    """The next line, or its beginning; nothing at the end, and where the data of a packed file are damaged."""
    try:
        return file.readline(max_bytes)
    except DamagedFile as error:
        damage.truncated = True
        damage.note(number, error.message)
        return b""


def json_values(path: str | Path, damage: Damage, parse: Callable[[bytes], Any] = parse) -> Iterator[tuple[int, Any]]:
    """The line and the value of each JSON value: those of the lines, or of the one document."""
    if _has_lines(Path(path)):
        yield from json_lines(path, damage, parse)
    else:
        yield 1, json_document(path, damage, parse)


def _has_lines(path: Path) -> bool:
    """Whether the first line that is not blank is a JSON value of its own, and another line follows."""
    named_lines = path.name.endswith(".jsonl") or is_packed(path.name)
    try:
        with open_unpacked(path) as file:
            first = next((line for line in iter(lambda: file.readline(MAX_LINE + 1), b"") if not line.isspace()), b"")
            if len(first) > MAX_LINE or all(part.isspace() for part in iter(lambda: file.readline(_BLOCK), b"")):
                return named_lines
    except DamagedFile:
        return True
    first = first.removeprefix(b"\xef\xbb\xbf").strip()
    return _is_whole(first) or (named_lines and first not in (b"{", b"["))


def json_document(path: str | Path, damage: Damage, parse: Callable[[bytes], JSON] = parse) -> JSON:
    """The value of a JSON file, or what is before a damage; a `RunFormatError` if nothing of it can be read."""
    path = Path(path)
    with open_unpacked(path) as file:
        size = size_of(file)
        if size > MAX_DOCUMENT:
            raise RunFormatError(f"{size:,} bytes, more than the {MAX_DOCUMENT:,} that are read", path=path)
        data = file.read(size + 1)
        if len(data) > size:  # it is packed, or it grew
            data += file.read(MAX_DOCUMENT + 1 - len(data))
    if len(data) > MAX_DOCUMENT:
        raise RunFormatError(f"it holds more than the {MAX_DOCUMENT:,} bytes that are read", path=path)
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return parse(data)
    except ValueError as error:
        line, offset = _offset(data, error)
        damage.note(line, _json_fault(error, data, truncated=str(error).startswith("EOF")))
        part = _part_of(data[:offset])
        if _remove_last(part):
            damage.truncated = True
            return part
        raise RunFormatError(_json_fault(error, data, truncated=False), path=path, line=line) from None


def filter_objects(values: Iterable[tuple[int, Any]], damage: Damage) -> Iterator[tuple[int, dict[str, Any]]]:
    """The values that are JSON objects, each with its line. `damage` records the others."""
    for line, value in values:
        if isinstance(value, dict):
            yield line, value
        else:
            damage.note(line, f"a {type(value).__name__}; expected an object")


def whole_file(path: str | Path) -> bytes:
    """What a file holds. A `ValueError` with the reason if that is more than `MAX_LINE` bytes, or it cannot be read."""
    try:
        return read_file(path, MAX_LINE)
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error


def leading_values(data: bytes, lines: int) -> tuple[Any, ...]:
    """The undamaged values at the beginning of a file: of its first lines, or of its one document."""
    data = data.removeprefix(b"\xef\xbb\xbf").strip()
    # A shell or a person may have written lines before the first one.
    first = [*islice(dropwhile(lambda line: not begins_json(line), _lines_of(data)), lines)]
    first = first or [*islice(_lines_of(data), lines)]
    value = _parse_whole(first[0]) if first else _NO_VALUE
    if value is not _NO_VALUE:
        return (value, *_parts_of(first[1:]))
    if first:
        # The last entry of a document may be alone on its line, so one such line does not make it JSON Lines.
        first = first[1:] if sum(_is_whole(line) for line in first[1:]) > 1 else [data[data.index(first[0]) :]]
    return tuple(_parts_of(first))


def _lines_of(data: bytes) -> Iterator[bytes]:
    """The lines that are not blank."""
    return (line for lines in BytesIO(data) for line in lines.splitlines() if line and not line.isspace())


def _parts_of(lines: Iterable[bytes]) -> Iterator[JSON]:
    return (value for value in map(_part_of, lines) if value is not _NO_VALUE)


def begins_json(line: bytes) -> bool:
    """Whether an object or a list begins in this line. None does in `// notes` and `[INFO] started`."""
    return line.lstrip().startswith((b"{", b"[")) and _LABEL.match(line) is None


def _part_of(data: bytes) -> JSON:
    """What can be read of a JSON text that may be truncated; `_NO_VALUE` if that is nothing."""
    try:
        return from_json(data, cache_strings="keys", allow_partial="trailing-strings")
    except ValueError as error:
        _, offset = _offset(data, error)
    try:
        return from_json(data[:offset], cache_strings="keys", allow_partial="trailing-strings") if offset else _NO_VALUE
    except ValueError:
        return _NO_VALUE


def _is_whole(data: bytes) -> bool:
    return _parse_whole(data) is not _NO_VALUE


def _parse_whole(data: bytes) -> JSON:
    """The object or the list that a text is; `_NO_VALUE` if it is none."""
    data = data.strip()
    if not data.startswith((b"{", b"[")) or not data.endswith((b"}", b"]")):
        return _NO_VALUE
    try:
        value = parse(data)
    except ValueError:
        return _NO_VALUE
    return value if isinstance(value, dict | list) else _NO_VALUE


def _remove_last(part: object) -> bool:
    """Remove the entry in which a document ends; return whether there is a list that is not empty."""
    holder, inner = part, part
    while isinstance(inner, dict) and inner:
        holder, inner = inner, inner[next(reversed(inner))]
    if isinstance(inner, list):
        inner[-1:] = []
    elif isinstance(holder, dict) and holder:
        holder.popitem()
    return any(isinstance(value, list) and value for value in (part, *mapping(part).values()))


def _json_fault(error: ValueError, data: bytes, *, truncated: bool) -> str:
    reason = _POSITION.sub("", str(error))
    if reason == _NO_UTF8:
        try:
            data.decode()
        except UnicodeDecodeError as fault:
            byte = f"byte 0x{data[fault.start]:02x}"
            return f"not UTF-8 ({byte}): the file may be Latin-1 or Windows-1252; convert it to UTF-8"
    return "the file ends in the middle of a value" if truncated else f"not valid JSON ({reason})"


def _offset(data: bytes, error: ValueError) -> tuple[int, int]:
    """The line of a parser's error, and its offset in the data."""
    match = _POSITION.search(str(error))
    if match is None:
        return 1, 0
    line, column = int(match[1]), int(match[2])
    start = 0
    for _ in range(line - 1):
        start = data.index(b"\n", start) + 1
    return line, start + max(0, column - 1)


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> Sequence[Any]:
    """The value if it is a JSON list, else an empty one."""
    return value if isinstance(value, list) else ()


def text(value: object) -> str:
    """The value if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def flag(value: object) -> bool | None:
    """The value if it is true or false, else None."""
    return value if isinstance(value, bool) else None


def whole(value: object) -> int | None:
    """The value as an integer if it is a number that may be a count, else None.

    Example:
        >>> whole(3), whole(2.0), whole(True), whole(-1), whole("3")
        (3, 2, None, None, None)
    """
    if value is None or isinstance(value, bool) or not isinstance(value, _NUMBER) or not 0 <= value < 2**53:
        return None
    return int(value)


def json_text(value: object) -> str:
    """A value as compact JSON, its keys in their order. Lone surrogates are escaped."""
    try:
        return to_json(value, inf_nan_mode="constants").decode()
    except PydanticSerializationError:
        return json.dumps(value, separators=(",", ":"))


def json_object(content: str) -> Mapping[str, Any]:
    """The JSON object in a text; an empty one if the text is anything else."""
    try:
        return mapping(parse(content.encode("utf-8", "surrogatepass")))
    except ValueError:
        return {}


def micro(dollars: object) -> int | None:
    """Dollars as micro-dollars; None if it is no amount."""
    if isinstance(dollars, bool) or not isinstance(dollars, _NUMBER) or not 0 <= dollars < 2**33:
        return None
    return round(dollars * 1_000_000)
