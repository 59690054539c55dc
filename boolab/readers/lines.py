"""From bytes to values, within limits: what all readers share.

Logs are untrusted. A line longer than `MAX_LINE` is never held in memory, nesting is bounded by the JSON parser, and
what cannot be read is noted with its line instead of stopping the rest.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic_core import PydanticSerializationError, from_json, to_json

from boolab.errors import ReadWarning, RunFormatError
from boolab.files import no_file

MAX_LINE: Final = 64 * 2**20
"""The longest line that is read, in bytes."""

MAX_DOCUMENT: Final = 512 * 2**20
"""The largest file that is read as one JSON document, in bytes."""

_TOLD: Final = 10
_SNIFFED: Final = 20
_NOTHING: Final = object()
_LATEST: Final = 253_402_300_800_000  # the year 10000
_BLOCK: Final = 2**20
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(
    # The backslashes before it, because only the odd one escapes. Other escapes are no matches: there may be millions.
    rb"(?:\\\\)++|\\u(?:[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|([dD][89a-fA-F])..)",
    re.DOTALL,
)
_PLACE: Final = re.compile(r" at line (\d+) column (\d+)$")

Warn: TypeAlias = Callable[[str], None]
"""Takes one warning, with its path and line in its text."""


def warn_reader(message: str) -> None:
    """Warn with a `ReadWarning`: what `read` does unless it is told something else."""
    warnings.warn(message, ReadWarning, stacklevel=2)


class Head:
    r"""The beginning of a file: what its format is detected from.

    Args:
        data: The first bytes.
        path: The file.

    Example:
        >>> Head(b'{"a": 1}\n{"a": 2}\n{"a', Path("x.jsonl")).values
        ({'a': 1}, {'a': 2}, {})
        >>> Head(b'{"list": [1, {"b": 2}, {"c', Path("x.json")).values
        ({'list': [1, {'b': 2}, {}]},)
    """

    def __init__(self, data: bytes, path: Path) -> None:
        self.data = data
        self.path = path

    @cached_property
    def values(self) -> tuple[Any, ...]:
        """The values of the first lines; or of the one document, as far as it goes. Without what is damaged."""
        data = self.data.removeprefix(b"\xef\xbb\xbf").strip()
        lines = [line for line in data.splitlines()[:_SNIFFED] if line.strip()]
        # A document's last entry may stand alone on its line, so one such line makes no JSON Lines.
        if lines and not _is_whole(lines[0]):
            lines = lines[1:] if sum(_is_whole(line) for line in lines[1:]) > 1 else [data]
        found = (_part_of(line) for line in lines)
        return tuple(value for value in found if value is not _NOTHING)

    @cached_property
    def first(self) -> Mapping[str, Any]:
        """The first of the values if it is an object, else an empty one."""
        return mapping(self.values[0]) if self.values else {}


class Damage:
    """What could not be read of one file, by line.

    Args:
        path: The file.

    Example:
        >>> damage = Damage("a.jsonl")
        >>> damage.note(3, "not valid JSON")
        >>> damage.tell(print, readable=True)
        a.jsonl:3: not valid JSON; skipped
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.first: tuple[int, str] | None = None
        self.cut = False
        """Whether the file ends before it should, so that nobody knows how its last run ended."""
        self.line: int | None = None
        """The line that was read last, from 1; None where a file is one document."""
        self._unanswering: list[int | None] = []
        self._shown: list[tuple[int, str]] = []
        self._count = 0

    def note(self, line: int, what: str) -> None:
        """Remember that something at this line could not be read."""
        self._count += 1
        if len(self._shown) < _TOLD:
            self._shown.append((line, what))
        self.first = self.first or (line, what)

    def answers_no_call(self, line: int | None = None) -> None:
        """Remember that a tool result answers no call that is in the file, and is left out.

        Args:
            line: Where it stands; by default the line that was read last.
        """
        self._unanswering.append(self.line if line is None else line)

    def tell(self, warn: Warn, *, readable: bool) -> None:
        """Warn of each of the first few, of how many more there were, and of results that answer no call.

        Raises:
            RunFormatError: if there was damage and nothing else was `readable`.
        """
        if self.first is not None and not readable:
            line, what = self.first
            raise RunFormatError(f"{what}, and nothing else in it can be read as a run", path=self.path, line=line)
        for line, what in self._shown:
            warn(f"{self.path}:{line}: {what}; skipped")
        if self._count > _TOLD:
            warn(f"{self.path}:{self._shown[-1][0]}: {self._count - _TOLD:,} more places after this one were skipped")
        if self._unanswering:
            count, at = len(self._unanswering), self._unanswering[0]
            results = "1 tool result answers" if count == 1 else f"{count:,} tool results answer"
            first = " (this is the first)" if count > 1 and at is not None else ""
            place = self.path if at is None else f"{self.path}:{at}"
            warn(f"{place}: {results} no call that is in the file{first}; left out")


def parse(data: bytes) -> Any:  # noqa: ANN401 - any JSON value
    r"""The value of a JSON text. Half surrogates, which JavaScript writes when it cuts a text, become U+FFFD.

    Raises:
        ValueError: if it is not JSON, or nested too deeply.

    Example:
        >>> parse(b'["\\ud83d", "\\ud83d\\ude00"]')
        ['\ufffd', '\U0001f600']
    """
    try:
        return from_json(data, cache_strings="keys")
    except ValueError:
        if not _has_halves(data):
            raise
    return from_json(_ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else found[0], data), cache_strings="keys")


def parse_exactly(data: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON text, half surrogates and all.

    Raises:
        ValueError: if it is not JSON, or nested too deeply.
    """
    try:
        return from_json(data, cache_strings="keys", allow_inf_nan=False)
    except ValueError:
        if not _has_halves(data):
            raise
    try:
        return json.loads(data)
    except RecursionError:
        msg = "nested too deeply"
        raise ValueError(msg) from None


def _has_halves(data: bytes) -> bool:
    """Whether there are half surrogates in a JSON text."""
    return _SURROGATE.search(data) is not None and any(found[1] for found in _ESCAPE.finditer(data))


def json_lines(path: str | Path, damage: Damage, parse: Callable[[bytes], Any] = parse) -> Iterator[tuple[int, Any]]:
    """The number and the value of each line of a JSON Lines file; what cannot be read is noted in `damage`."""
    with Path(path).open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            damage.line = number
            if len(line) > MAX_LINE:
                damage.note(number, f"a line of more than {MAX_LINE:,} bytes")
                while line and not line.endswith(b"\n"):
                    line = file.readline(_BLOCK)
                continue
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if line.isspace() or not line:
                continue
            try:
                yield number, parse(line)
            except ValueError as error:
                damage.cut = not line.endswith(b"\n")
                damage.note(number, _not_json(error, cut=damage.cut))


def json_values(path: str | Path, damage: Damage, parse: Callable[[bytes], Any] = parse) -> Iterator[tuple[int, Any]]:
    """The line and the value of each JSON value: those of the lines, or the one document that the file is.

    Raises:
        RunFormatError: if it is one document, and too large, or nothing of it can be read.
    """
    if _has_lines(Path(path)):
        yield from json_lines(path, damage, parse)
    else:
        yield 1, json_document(path, damage, parse)


def _has_lines(path: Path) -> bool:
    """Whether the first line that is not blank is a JSON value of its own, and another line follows."""
    with path.open("rb") as file:
        first = b""
        while not first.strip():
            first = file.readline(MAX_LINE + 1)
            if not first:
                return path.suffix == ".jsonl"
        if len(first) > MAX_LINE:
            return path.suffix == ".jsonl"
        rest = first
        while rest and (rest.isspace() or rest is first):
            rest = file.readline(_BLOCK)
    if not rest:
        return path.suffix == ".jsonl"
    first = first.removeprefix(b"\xef\xbb\xbf").strip()
    return _is_whole(first) or (path.suffix == ".jsonl" and first not in (b"{", b"["))


def json_document(path: str | Path, damage: Damage, parse: Callable[[bytes], Any] = parse) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON file. Of a damaged one, what stands before the damage, without the entry that it cuts.

    Raises:
        RunFormatError: if the file is too large, or nothing of it can be read.
    """
    path = Path(path)
    size = path.stat().st_size
    if size > MAX_DOCUMENT:
        raise RunFormatError(f"{size:,} bytes, more than the {MAX_DOCUMENT:,} that are read", path=path)
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    try:
        return parse(data)
    except ValueError as error:
        line, offset = _offset(data, error)
        damage.note(line, _not_json(error, cut=str(error).startswith("EOF")))
        part = _part_of(data[:offset])
        if _cut_last(part):
            damage.cut = True
            return part
        raise RunFormatError(_not_json(error, cut=False), path=path, line=line) from None


def whole_file(path: str | Path) -> bytes:
    """What a file holds, if that is no more than a line may have.

    Raises:
        ValueError: if it is more than `MAX_LINE` bytes, or no file (`boolab.files.no_file`).
    """
    stat = os.stat(path)  # noqa: PTH116 - thousands of them
    if why := no_file(stat):
        raise ValueError(why)
    with open(path, "rb") as file:  # noqa: PTH123 - as above
        # making room for the most that there could be takes longer than reading what is there
        data = file.read(min(MAX_LINE, stat.st_size) + 1)
    if len(data) > MAX_LINE:
        msg = f"more than the {MAX_LINE:,} bytes that are read"
        raise ValueError(msg)
    return data


def _part_of(data: bytes) -> Any:  # noqa: ANN401 - any JSON value
    """What can be read of a JSON text that may end too early; `_NOTHING` if that is nothing."""
    try:
        return from_json(data, cache_strings="keys", allow_partial="trailing-strings")
    except ValueError as error:
        _, offset = _offset(data, error)
    if offset < 1:
        return _NOTHING
    try:
        return from_json(data[:offset], cache_strings="keys", allow_partial="trailing-strings")
    except ValueError:
        return _NOTHING


def _is_whole(data: bytes) -> bool:
    try:
        return isinstance(parse(data), dict | list)
    except ValueError:
        return False


def _cut_last(part: object) -> bool:
    """Remove what a document was cut in: of the first list on the way there the last entry, else the last field.

    Returns:
        Whether there is a list that still holds something.
    """
    holder, inner = part, part
    while isinstance(inner, dict) and inner:
        holder, inner = inner, inner[next(reversed(inner))]
    if isinstance(inner, list):
        inner[-1:] = []
    elif isinstance(holder, dict) and holder:
        holder.popitem()
    return any(isinstance(value, list) and value for value in (part, *mapping(part).values()))


def _not_json(error: ValueError, *, cut: bool) -> str:
    why = _PLACE.sub("", str(error))
    return "the file ends in the middle of a value" if cut else f"not valid JSON ({why})"


def _offset(data: bytes, error: ValueError) -> tuple[int, int]:
    """The line of a parser's error, and its place in the data."""
    found = _PLACE.search(str(error))
    if found is None:
        return 1, 0
    line, column = int(found[1]), int(found[2])
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


def whole(value: object) -> int | None:
    """The value if it is a number that counts something, else None.

    Example:
        >>> whole(3), whole(2.0), whole(True), whole(-1), whole("3")
        (3, 2, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        return None
    return int(value)


def json_text(value: object) -> str:
    r"""A value as compact JSON, its keys in their order. Half surrogates are escaped.

    Example:
        >>> json_text({"b": "ä", "a": [1.5, None]}) == '{"b":"ä","a":[1.5,null]}', json_text(["\ud83d"])
        (True, '["\\ud83d"]')
    """
    try:
        return to_json(value, inf_nan_mode="constants").decode()
    except PydanticSerializationError:
        return json.dumps(value, separators=(",", ":"))


def micro(dollars: object) -> int | None:
    """Dollars as micro-dollars; None if it is no amount.

    Example:
        >>> micro(0.0125), micro(None), micro(-1)
        (12500, None, None)
    """
    if isinstance(dollars, bool) or not isinstance(dollars, int | float) or not 0 <= dollars < 2**33:
        return None
    return round(dollars * 1_000_000)


def seconds_ms(seconds: object) -> int | None:
    """A length of time in seconds as milliseconds; None if it is none.

    Example:
        >>> seconds_ms(0.25), seconds_ms(None), seconds_ms(-1)
        (250, None, None)
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 2**43:
        return None
    return round(seconds * 1000)


def content_text(content: object) -> str:
    r"""The text of a message's content: a text, or a list of texts and blocks. What is not text is named in brackets.

    Example:
        >>> content_text(["a", {"type": "text", "text": "b"}, {"type": "image", "source": {}}])
        'a\nb\n[image]'
    """
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(block_text(block) for block in content)
    return "" if content is None else json_text(content)


def block_text(block: object) -> str:
    """The text of one block of a message's content."""
    if isinstance(block, str):
        return block
    if isinstance(block, dict):
        said = block.get("text")
        return said if isinstance(said, str) else f"[{block.get('type', 'unknown')}]"
    return json_text(block)


def one_line(long: str, width: int = 200) -> str:
    r"""A text on one line, shortened.

    Example:
        >>> one_line("Fix  the\n test", 8)
        'Fix the…'
    """
    line = " ".join(long[: 20 * width].split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def instant(stamp: object) -> datetime | None:
    """The time of an ISO 8601 timestamp, in UTC; None if it is none.

    Example:
        >>> instant("2026-02-01T10:00:00.250Z")
        datetime.datetime(2026, 2, 1, 10, 0, 0, 250000, tzinfo=datetime.timezone.utc)
    """
    if not isinstance(stamp, str):
        return None
    try:
        time = datetime.fromisoformat(stamp)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def epoch_ms(stamp: object) -> int | None:
    """The milliseconds since 1970 of an ISO 8601 timestamp; None if it is none.

    Example:
        >>> epoch_ms("1970-01-01T00:00:01.5Z")
        1500
    """
    time = instant(stamp)
    return None if time is None else round(time.timestamp() * 1000)


def time_ms(stamp: object, ticks: float = 1.0) -> int | None:
    """The milliseconds since 1970 of a number or of an ISO 8601 timestamp; None if it is neither, or beyond all sense.

    Args:
        stamp: The number, as a number or as its digits; or the timestamp.
        ticks: How many of the number's units make a millisecond: 1 for milliseconds, 0.001 for seconds, 1e6 for ns.

    Example:
        >>> time_ms(1_500), time_ms(1.5, 0.001), time_ms("1500000000", 1e6), time_ms("1970-01-01T00:00:01.5Z")
        (1500, 1500, 1500, 1500)
    """
    if isinstance(stamp, str):
        if not stamp.isdecimal() or len(stamp) > 20:  # noqa: PLR2004 - nanoseconds have 19 digits
            return epoch_ms(stamp)
        stamp = int(stamp)
    if isinstance(stamp, bool) or not isinstance(stamp, int | float) or not 0 < stamp < ticks * _LATEST:
        return None
    return round(stamp / ticks)
