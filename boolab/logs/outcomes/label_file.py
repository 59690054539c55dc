"""The file of labels: JSON Lines that are only ever appended, with what a person answered and what was found.

A line is the header (`boolab_labels`: criterion, seed, question), the order of units that are asked (`units`), a label
(`label`, of the unit with the fingerprint `print`), or the withdrawal of one (`undo`). Keys that are not known are
kept. No text of a run is in it, except notes.

Two people's files may be joined by any means, in any order: lines that are there twice count once, marks of a merge
conflict are skipped, and what decides is the time of a line, not its place. A line that a kill or a full disk cut off
is left out, and ended with a mark before the next one is appended.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, cast

from boolab.errors import SettingError, StoreError
from boolab.io.checks import repr_of
from boolab.io.files import output_file, read_file, user_path
from boolab.io.json_input import line_values, parse_exactly
from boolab.logs.fields import instant
from boolab.logs.units import LabelUnit

Line: TypeAlias = Mapping[str, Any]
OutcomeWord: TypeAlias = Literal["success", "failure", "unknown"]
OUTCOMES: Final = ("success", "failure", "unknown")
NAME: Final = "boolab-labels.jsonl"
"""The name of the file that `load_runs` finds beside logs."""
HAND: Final = "hand"
BENCHMARK: Final = "benchmark"
"""The sources whose outcomes are labels: a person, and the benchmark that ran the agent."""
HEADER: Final = "boolab_labels"
VERSION: Final = 1
MAX_BYTES: Final = 64 * 2**20
"""The largest file that is read: a hundred thousand labels are some 20 MB."""
_TORN: Final = b" #torn"
"""The end of a line that was cut off while it was written."""
_MARKS: Final = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")
_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_BITS: Final = 80
_MAX_NAMES: Final = 5


@dataclass(frozen=True)
class LabelFile:
    """What a file of labels holds, each line once.

    Attributes:
        path: Where it is.
        lines: Its lines, in the order of the file.
        torn: The number of a last line that was cut off, and so is left out; None if there is none.
        fault: Why it cannot be read, if it was skipped.

    Example:
        >>> LabelFile(Path("labels.jsonl"), ({"id": "1", "print": "5be1", "steps": 3, "label": "success"},)).labels
        ({'id': '1', 'print': '5be1', 'steps': 3, 'label': 'success'},)
    """

    path: Path
    lines: tuple[Line, ...] = ()
    torn: int | None = None
    fault: str = ""

    @cached_property
    def header(self) -> Line:
        """Its header; empty if it has none. `SettingError` if two questions are in it: they are two files."""
        headers = [line for line in self.lines if HEADER in line]
        replaced = {line.get("replaces") for line in headers}
        current = [line for line in headers if line.get("seed") not in replaced]
        questions = {_canonical([line.get("seed"), line.get("question")]): line for line in current}
        if len(questions) > 1:
            seeds = " and ".join(sorted(repr_of(line.get("seed")) for line in current))
            raise SettingError(
                f"{self.path}: files of two questions were joined (seeds {seeds}): each has an order of its own. Keep "
                "them apart; labels of the one count in the other once they are merged with boolab label --merge"
            )
        return min(current, key=_canonical) if current else {}

    @cached_property
    def labels(self) -> tuple[Line, ...]:
        """The lines of labels and evidence that count: those that were not withdrawn, the earliest first."""
        undone = {line["undo"] for line in self.lines if "undo" in line}
        lines = [line for line in self.lines if "label" in line and line.get("id") not in undone]
        return tuple(sorted(lines, key=time_order))

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The fingerprints of its units in the order in which they are asked."""
        return tuple(dict.fromkeys(chain.from_iterable([line["units"] for line in self.order_lines])))

    @cached_property
    def order_lines(self) -> tuple[Line, ...]:
        """Its lines of units, the earliest first, but for those of a seed that was replaced."""
        seed = self.header.get("seed")
        lines = [line for line in self.lines if "units" in line and line.get("seed", seed) == seed]
        return tuple(sorted(lines, key=time_order))

    @property
    def has_answers(self) -> bool:
        """Whether a person has answered, so that seed and question stay as they are."""
        return any(line.get("source") == HAND for line in self.lines if "label" in line)


def read_labels(path: str | Path) -> LabelFile:
    """Read a file of labels; one that is not there yet is empty.

    Raises:
        SettingError: if a line is broken, with its number, unless it is a last one that was cut off.
    """
    file = user_path(path)
    try:
        data = read_file(file, MAX_BYTES)
    except FileNotFoundError:
        return LabelFile(file)
    except OSError as error:
        raise SettingError(f"{file}: {error.strerror}") from error
    return parse_labels(data, file)


def file_beside(place: str | Path) -> Path:
    """The file of labels of a log or of a folder of logs: in that folder; for a glob, in the current one."""
    path = user_path(place)
    if path.is_dir():
        return path / NAME
    return path.parent / NAME if path.is_file() else Path(NAME)


def parse_labels(data: bytes, path: Path) -> LabelFile:
    """The lines of a file of labels, each once: see `read_labels`."""
    lines: dict[str, Line] = {}
    rows = data.split(b"\n")
    for number, row in enumerate(rows, 1):
        if row.startswith(_MARKS) or row.rstrip().endswith(_TORN):
            continue
        try:
            for value in line_values(row, parse_exactly):
                line = _check_line(value)
                key = line["id"] if "id" in line else _canonical(line)
                earlier_line = lines.get(key)
                lines[key] = line if earlier_line is None else max(earlier_line, line, key=_canonical)
        except ValueError as error:
            if number == len(rows) and not isinstance(error, _LineError):
                return LabelFile(path, tuple(lines.values()), number)
            raise SettingError(f"{path}: line {number:,} is broken: {error}") from error
    return LabelFile(path, tuple(lines.values()))


class _LineError(ValueError):
    """What is wrong with a line of JSON that is not cut off."""


_KINDS: Final = {
    "id": str, "print": str, "run_id": str, "undo": str, "source": str, "at": str, "seed": str, "replaces": str,
    "question": dict, "units": list,
}  # fmt: skip


def _check_line(value: object) -> Line:
    """A line as it is; a `_LineError` if it is none of those that a file of labels has."""
    if fault := _fault_of(value):
        raise _LineError(fault)
    return cast("Line", value)


def _fault_of(value: object) -> str:
    if not isinstance(value, dict):
        return f"expected an object, not {repr_of(value)}"
    for key, kind in _KINDS.items():
        if key in value and not isinstance(value[key], kind):
            return f"{key!r} is {repr_of(value[key])}"
    if not all(isinstance(print_, str) for print_ in value.get("units", ())):
        return "'units' holds what is no text"
    if "label" in value and value["label"] not in OUTCOMES:
        return f"the label is {repr_of(value['label'])}; accepted: {', '.join(OUTCOMES)}"
    if "label" in value and "print" not in value and not isinstance(value.get("run_id"), str):
        return "a label needs the print of a unit, or a run_id"
    if value.get(HEADER, VERSION) != VERSION:
        return f"version {repr_of(value[HEADER])} of the format; this boolab reads version {VERSION}"
    return ""


def append_lines(path: str | Path, lines: Iterable[Line], wait_s: float = 10.0) -> None:
    """Append lines to a file of labels, which is made if there is none; they are on the disk when this returns.

    A line that was cut off before is ended first, so that the next one is not lost with it.

    Args:
        path: The file.
        lines: What to append.
        wait_s: How long to wait for another program that writes it, in seconds.

    Raises:
        SettingError: if it cannot be written.
    """
    with locked(path, wait_s) as target:
        append_locked(target, lines)


@contextmanager
def locked(path: str | Path, wait_s: float = 10.0) -> Iterator[Path]:
    """Be the one who writes a file of labels, until the block ends: its place, with links followed.

    Raises:
        SettingError: if it cannot be written, or another program writes it for longer than `wait_s` seconds.
    """
    from boolab.store.connection import lock  # SQLite comes with it, which reading does not need

    file = user_path(path)
    try:
        target = output_file(file)
        if not target.parent.is_dir():
            raise SettingError(f"{file}: there is no folder {target.parent}")
        with lock(target, wait_s, "a file of labels"):
            yield target
    except StoreError as error:
        raise SettingError(f"{file}: {error.message}") from error
    except OSError as error:
        raise SettingError(f"{file}: it cannot be written: {error.strerror}") from error


def append_locked(target: Path, lines: Iterable[Line]) -> None:
    """Append lines to a file that is `locked`."""
    _append(target, b"".join([_encode(line) + b"\n" for line in lines]))


def _append(path: Path, data: bytes) -> None:
    with path.open("a+b", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        rest = memoryview(_end_of(file.readall().rpartition(b"\n")[2]) + data)
        try:
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):  # as much as fits on a full disk would be a line that was cut off
                file.truncate(size)
            raise
    if not size and hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_DIRECTORY)
        with suppress(OSError):
            os.fsync(folder)
        os.close(folder)


def _end_of(last: bytes) -> bytes:
    """What ends a last line that has no line end: the mark of one that was cut off, if it is none of JSON."""
    if not last:
        return b""
    try:
        line_values(last, parse_exactly)
    except ValueError:
        return _TORN + b"\n"
    return b"\n"


def _encode(line: Line) -> bytes:
    text = json.dumps(line, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")  # a lone surrogate becomes its escape


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def time_order(line: Line) -> tuple[float, str]:
    """The order of lines in time, the same wherever they stand."""
    moment = instant(line.get("at"))
    return 0.0 if moment is None else moment.timestamp(), str(line.get("id") or _canonical(line))


# --- Lines to append


def make_header(criterion: str, question: Mapping[str, Any] | None = None, replaces: str | None = None) -> Line:
    """The header of a new file, with a seed of its own."""
    line = {HEADER: VERSION, "criterion": criterion, "made": time_stamp(), "seed": secrets.token_hex(8)}
    optional = {"question": None if question is None else dict(question), "replaces": replaces}
    return line | {key: value for key, value in optional.items() if value is not None}


def make_label(
    unit: LabelUnit,
    label: OutcomeWord,
    source: str = HAND,
    facts: Mapping[str, Any] = MappingProxyType({}),
    *,
    after: Sequence[Line] = (),
) -> Line:
    """The line of a label or of a piece of evidence; `facts` are `who`, `why`, `note`, `asked`, `detail` and others.

    It is later than the lines `after`, those of the file, also if the clock was set back.
    """
    if label not in OUTCOMES:
        raise SettingError(f"label={label!r}: expected one of {', '.join(OUTCOMES)}")
    last = max((line for line in after if "label" in line), key=time_order, default=cast("Line", {}))
    written_at = max(time_stamp(), str(last.get("at", "")))
    turn = {} if unit.turn is None else {"turn": unit.turn}
    return {
        "id": make_id(str(last.get("id", ""))),
        "run_id": unit.run_id,
        **turn,
        "print": unit.print,
        "steps": unit.steps,
        "label": label,
        "source": source,
        "at": written_at,
        **facts,
    }


def make_undo(id_: str, who: str = "") -> Line:
    """The line that withdraws a label."""
    return {"undo": id_, "who": who, "at": time_stamp()}


def make_order(prints: Iterable[str], seed: str | None = None) -> Line:
    """The line with units in the order in which they are asked, which follows from the seed."""
    return {"units": list(prints), "at": time_stamp(), **({} if seed is None else {"seed": seed})}


def time_stamp() -> str:
    """The time now as files of labels have it."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def make_id(after: str = "") -> str:
    """An id that no other line has, and that sorts after those that this process made before (a ULID)."""
    number = (time.time_ns() // 1_000_000) << _BITS | secrets.randbits(_BITS)
    for earlier in (after, *_newest_ids):
        if len(earlier) == _ID_CHARS and set(earlier) <= set(_DIGITS):
            number = max(number, _number_of(earlier) + 1 + secrets.randbits(_BITS // 2))
    _newest_ids[:] = ["".join([_DIGITS[number >> 5 * power & 31] for power in reversed(range(_ID_CHARS))])]
    return _newest_ids[0]


_ID_CHARS: Final = 26
_newest_ids: Final[list[str]] = []


def _number_of(id_: str) -> int:
    number = 0
    for digit in id_:
        number = number << 5 | _DIGITS.index(digit)
    return number


# --- The draw


def coin_of(seed: str, print_: str) -> float:
    """The coin of a unit, from 0 to less than 1: it follows from the seed, so that it cannot be drawn again."""
    return _draw(seed, "coin", print_)


def place_of(seed: str, print_: str) -> float:
    """What a unit is ordered by."""
    return _draw(seed, "order", print_)


def draw_of(seed: str, print_: str, kind: str = "draw") -> float:
    """What decides which unit of a session, or of a task, is asked about; not its place, see `draw_units`."""
    return _draw(seed, kind, print_)


def _draw(seed: str, kind: str, print_: str) -> float:
    digest = blake2b(f"{seed}\x1f{kind}\x1f{print_}".encode("utf-8", "surrogatepass"), digest_size=7).digest()
    return int.from_bytes(digest, "big") / 2**56


def new_units(file: LabelFile, prints: Iterable[str]) -> list[str]:
    """The units that are not in the file's order yet, in the order in which they follow: they get a line of their own.

    `prints`: those by which the file knows the units, see `boolab.logs.outcomes.resolve.match_units`.
    """
    seed, listed_prints = str(file.header.get("seed", "")), set(file.order)
    return sorted({*prints} - listed_prints, key=lambda print_: (place_of(seed, print_), print_))


def check_question(file: LabelFile, question: Mapping[str, Any]) -> None:
    """Raise `SettingError` if a file with answers is about another question."""
    fixed_question = file.header.get("question")
    if file.has_answers and fixed_question is not None and _canonical(fixed_question) != _canonical(dict(question)):
        differing = sorted(key for key in {*fixed_question, *question} if fixed_question.get(key) != question.get(key))
        fixed = ", ".join([f"{key} is {repr_of(fixed_question.get(key))}" for key in differing])
        raise SettingError(
            f"{file.path}: its question is fixed, because there are answers to it: {fixed}. Begin a new file for "
            "another question; its answer is then a second look at the same units"
        )
