"""What readers share: the beginning and the lines of a log, small files beside it, and values as texts and times.

A value of another kind is unknown.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from boolab.core.run import Run, Score
from boolab.io.files import describe_non_file, read_file
from boolab.io.json_input import (
    JSON,
    Damage,
    filter_objects,
    items,
    json_text,
    json_values,
    leading_values,
    mapping,
    parse,
    text,
    whole,
)
from boolab.io.packed import unpacked_name

_Result = TypeVar("_Result")
_Content = TypeVar("_Content")
_Path = TypeVar("_Path", bound=str | Path)

_MAX_SIDECAR: Final = 16 * 2**20
_YAML: Final = (".yaml", ".yml")
_SNIFFED_LINES: Final = 20
MAX_NAMED_CHARS: Final = 1_000
_UNNAMED: Final = frozenset({"", "unknown", "<redacted>", "[redacted]"})
MAX_SCORE_CHARS: Final = 200
TOLERANCE: Final = 1e-6
MAX_DIGITS: Final = 20  # nanoseconds have 19
MAX_TIME_MS: Final = 253_402_300_800_000  # the year 10000


class Head:
    """The first bytes of a file, from which its format is detected."""

    def __init__(self, data: bytes, path: Path) -> None:
        self.data = data
        self.path = path
        self._results: dict[Callable[[Head], Any], Any] = {}

    def compute_once(self, function: Callable[[Head], _Result]) -> _Result:
        """The result of a function of this head that several readers call, computed once."""
        if function not in self._results:
            self._results[function] = function(self)
        result: _Result = self._results[function]
        return result

    @cached_property
    def values(self) -> tuple[Any, ...]:
        """The undamaged values of the first lines; or the beginning of the one document."""
        return leading_values(self.data, _SNIFFED_LINES)

    @cached_property
    def first(self) -> Mapping[str, Any]:
        """The first value if it is an object, else an empty one."""
        return mapping(self.values[0]) if self.values else {}

    @cached_property
    def signs(self) -> set[str | bytes]:
        """What readers can be ruled out by: the first bytes, the suffix, and keys at the top and of messages."""
        signs: set[str | bytes] = {self.data[:4], self.path.suffix}
        objects = [*self.values]
        if not self.values[1:]:
            objects += self.first.values()
        for value in objects:  # it grows by the items of lists
            if isinstance(value, dict):
                signs.update(value)
                signs.add(f"type={text(value.get('type'))}")
                signs.update(f"message.{name}" for name in mapping(value.get("message")))
            elif isinstance(value, list):
                objects += value
        return signs


Restart: TypeAlias = Callable[[], "LineLog | None"]
Follow: TypeAlias = Callable[[Path, Damage], "LineLog"]
"""Given a file, and what records the damage in it, a log without any lines yet."""
Lines: TypeAlias = Callable[[Path, Damage], Iterable[tuple[int, Any]]]
"""Given the same, the number and the value of each line."""


@dataclass(frozen=True, slots=True)
class LineLog:
    """The lines of one log so far, as it grows.

    A reader of JSON Lines may have a function `follow(path, damage)` that returns one. Its `read` uses the same
    function, by `read_followed`, so that a log that was followed gives the same runs as one that is complete.
    """

    damage: Damage  # what could not be read. Who reads the lines sets its `line` and its `truncated`
    take: Callable[[int, Any], object]  # called with the number and the value of each line, in order
    runs: Callable[[], list[Run]]  # the runs by the lines so far. It may be called after any line, and changes nothing
    # called when all lines so far are taken: a log that has to be given all of them once more, because the last ones
    # changed what the first ones mean; None if it does not
    again: Restart = lambda: None


def follow_objects(damage: Damage, take: Callable[[dict[str, Any]], object], runs: Callable[[], list[Run]]) -> LineLog:
    """A log each line of which is an object for `take`."""

    def take_line(number: int, value: object) -> None:
        for _, line in filter_objects([(number, value)], damage):
            take(line)

    return LineLog(damage, take_line, runs)


def follow_of(reader: object) -> Follow | None:
    """The function `follow` of a reader; None if it cannot follow logs."""
    follow: Follow | None = getattr(reader, "follow", None)
    return follow


def read_followed(path: Path, damage: Damage, follow: Follow, lines: Lines = json_values) -> list[Run]:
    """The runs of a complete file, by the function that follows it; `lines` gives its values."""
    log: LineLog | None = follow(path, damage)
    while log is not None:
        latest = log
        for number, value in lines(path, latest.damage):
            latest.take(number, value)
        log = latest.again()
    runs = latest.runs()
    damage.replace_by(latest.damage)
    return runs


def read_once(read: Callable[[_Path], _Content]) -> Callable[[_Path], _Content | None]:
    """The function, called once for each version of a file; None if there is no file."""

    @lru_cache(maxsize=4)
    def read_version(path: _Path, _changed: int, _size: int) -> _Content:
        return read(path)

    def read_current(path: _Path) -> _Content | None:
        try:
            stat = os.stat(path)  # noqa: PTH116 - it may be a text
        except (OSError, ValueError):
            return None
        return None if describe_non_file(stat) else read_version(path, stat.st_mtime_ns, stat.st_size)

    return read_current


@read_once
def sidecar(path: str | Path) -> JSON:
    """The value of a small YAML or JSON file beside logs; None if it is not there, not readable or too large."""
    from boolab.io.yaml_loader import DocumentError, read_yaml

    try:
        data = read_file(path, _MAX_SIDECAR)
        return read_yaml(data.decode()).data if str(path).endswith(_YAML) else parse(data)
    except (OSError, ValueError, DocumentError):
        return None


def seconds_ms(seconds: object) -> int | None:
    """A duration in seconds as milliseconds; None if it is none."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 2**43:
        return None
    return round(seconds * 1000)


def content_text(content: object) -> str:
    """The text of a message's content: a text, or a list of texts and blocks. Other blocks are named in brackets."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(block_text(block) for block in content)
    return "" if content is None else json_text(content)


def name_or_none(value: object) -> str | None:
    """A version, a branch or the like, one short line; None where there is none, or a word for an unknown one."""
    return _word(value) if isinstance(value, str) and len(value) <= MAX_NAMED_CHARS else None


@lru_cache(maxsize=256)
def _word(value: str) -> str | None:
    word = value.strip()
    return None if not value.isprintable() or word.lower() in _UNNAMED else word


def effort_of(*values: object) -> str | None:
    """The reasoning effort: the first that is a word, or a largest count of thinking tokens; None if there is none."""
    for value in values:
        effort = value.get("effort") if isinstance(value, dict) else value
        if effort is None:
            continue
        word = str(number) if (number := whole(effort)) is not None else name_or_none(effort)
        if word is not None:
            return word
    return None


def all_input(counted: int | None, *cached: int | None) -> int | None:
    """The input with what was read from the cache and written to it: if it is less than these, they are not in it."""
    n_cached = sum(tokens or 0 for tokens in cached)
    return counted + n_cached if counted is not None and counted < n_cached else counted


def first_choice(response: object) -> Mapping[str, Any]:
    """The first of a response's `choices` in OpenAI's form; an empty object if there is none."""
    return mapping(next(iter(items(mapping(response).get("choices"))), None))


def stem_of(path: Path) -> str:
    """The name of a log's file without its suffix, and without that of its packing."""
    return Path(unpacked_name(path.name)).stem


def make_unique(run_id: str, counts: Counter[str]) -> str:
    """The id, with a number after it if it was seen before."""
    counts[run_id] += 1
    return run_id if counts[run_id] == 1 else f"{run_id}#{counts[run_id]}"


def blocks_of(content: object) -> Sequence[Any]:
    """The blocks of a message's content: those of a list, or the text alone."""
    return [content] if isinstance(content, str) else items(content)


def block_text(block: object) -> str:
    """The text of one block of a message's content."""
    if isinstance(block, str):
        return block
    if isinstance(block, dict):
        content = block.get("text")
        return content if isinstance(content, str) else f"[{block.get('type', 'unknown')}]"
    return json_text(block)


def one_line(long: str, width: int = 200) -> str:
    """A text on one line, shortened."""
    line = " ".join(long[: 20 * width].split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def instant(stamp: object) -> datetime | None:
    """The time of an ISO 8601 timestamp, in UTC; None if it is none."""
    if not isinstance(stamp, str):
        return None
    try:
        time = datetime.fromisoformat(stamp)
        zone = time.tzinfo
        return time if zone is UTC else time.replace(tzinfo=UTC) if zone is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def epoch_ms(stamp: object) -> int | None:
    """The milliseconds since 1970 of an ISO 8601 timestamp; None if it is none."""
    time = instant(stamp)
    return None if time is None else round(time.timestamp() * 1000)


def time_ms(stamp: object, ticks: float = 1.0) -> int | None:
    """The milliseconds since 1970 of a number (or its digits) or of an ISO 8601 timestamp; None if it is neither.

    `ticks` is how many units of the number are a millisecond: 1 for milliseconds, 0.001 for seconds, 1e6 for ns.
    """
    if isinstance(stamp, str):
        if not stamp.isdecimal() or len(stamp) > MAX_DIGITS:
            return epoch_ms(stamp)
        stamp = int(stamp)
    if isinstance(stamp, bool) or not isinstance(stamp, int | float) or not 0 < stamp < ticks * MAX_TIME_MS:
        return None
    return round(stamp / ticks)


def scores_of(values: Mapping[str, object]) -> tuple[Score, ...]:
    """The scores among some values, by their names: finite numbers, flags and short texts."""
    return tuple(Score(name, value) for name, value in values.items() if _is_score(value))


def _is_score(value: object) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= MAX_SCORE_CHARS
    return isinstance(value, int | float) and abs(value) < 2**53


def reward_of(value: object) -> float | None:
    """A reward: a number, or 1 and 0 for true and false. None for anything else, such as a text, null or NaN."""
    return float(value) if isinstance(value, int | float) and abs(value) < 2**53 else None


def full_reward(value: object) -> bool | None:
    """Whether a reward is full, at least 1, which is a success; None if there is none: see `reward_of`."""
    reward = reward_of(value)
    return None if reward is None else reward >= 1 - TOLERANCE
