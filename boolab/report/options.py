"""Values of the command line: ranges, times, labels."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from boolab.errors import SettingError
from boolab.files import read_file

Key: TypeAlias = Literal["run_id", "task"]

MOST: Final = 10_000
"""The most values that an axis can have."""

_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
MAX_LABELS: Final = 64 * 2**20
"""The largest file of labels that is read, in bytes: a million labels are some 50 MB."""

_RANGE: Final = re.compile(r"(\d+):(\d+)(?::(\d+))?")
_OFF: Final = ("none", "off")
_TRUE: Final = ("true", "yes", "1", "1.0", "success", "pass", "passed")
_FALSE: Final = ("false", "no", "0", "0.0", "failure", "fail", "failed")
_UNKNOWN: Final = ("", "none", "null", "na", "nan", "unknown")


def values_of(text: str, number: Callable[[str], float] = int) -> list[Any]:
    """The values that a text means: `20`, `1:200`, `1:200:5`, `2,3,5`, `5,10,none`; None is off.

    Args:
        text: Values and ranges, separated by commas. A range includes its end, where its steps meet it.
        number: What a single value is: an int, or a float.

    Raises:
        ValueError: if it means nothing; the message says what is accepted.

    Example:
        >>> values_of("1:3,10,none"), values_of("5:20:5")
        ([1, 2, 3, 10, None], [5, 10, 15, 20])
    """
    found: dict[Any, None] = {}
    for part in text.split(","):
        for value in _part(part.strip().lower(), text, number):
            found[value] = None
            if len(found) > MOST:
                raise ValueError(f"{text!r} has more than {MOST:,} values")
    return [*(value for value in found if value is not None), *([None] if None in found else [])]


def _part(part: str, text: str, number: Callable[[str], float]) -> Iterable[Any]:
    if part in _OFF:
        return [None]
    meant = _RANGE.fullmatch(part)
    if meant is not None:
        first, last, by = int(meant[1]), int(meant[2]), int(meant[3] or 1)
        if by and first <= last:
            return range(first, last + 1, by)
        why = "its step is 0" if not by else "it ends before it begins"
        raise ValueError(f"{part!r} is no range: {why}")
    try:
        value = number(part)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        kind = "whole numbers" if number is int else "numbers"
        raise ValueError(f"{text!r} is not understood; accepted: {kind} and ranges such as 20 or 1:200 or 1:200:5 "
                         "or 2,3,5, and none for off")  # fmt: skip
    return [value]


def since_of(text: str, now: datetime | None = None) -> datetime:
    """The time that a text means: so long ago (`30d`, `12h`, `2w`, `45m`), or a date (`2026-11-01`, local time).

    Raises:
        ValueError: if it means nothing; the message says what is accepted.

    Example:
        >>> since_of("2w", datetime(2026, 11, 15, tzinfo=UTC)).isoformat()
        '2026-11-01T00:00:00+00:00'
    """
    ago = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip().lower())
    try:
        if ago is not None:
            return (now or datetime.now(UTC)) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        moment = datetime.fromisoformat(text.strip())
        return moment if moment.tzinfo is not None else moment.astimezone()
    except (ValueError, OverflowError) as error:
        msg = f"{text!r} is no time; accepted: 30d, 12h, 2w, 45m, or a date such as 2026-11-01"
        raise ValueError(msg) from error


def labels_of(path: str | Path) -> tuple[Key, dict[str, bool | None]]:
    """The labels in a file: CSV with the columns `run_id` (or `task`) and `success`; JSON with a mapping, or rows.

    Returns:
        What its keys are, and the labels by key.

    Raises:
        SettingError: if the file cannot be read, or holds something else.
    """
    place = Path(path).expanduser()
    try:
        text = read_file(place, MAX_LABELS).decode("utf-8-sig")
        found = json.loads(text) if place.suffix.lower() == ".json" else list(csv.DictReader(text.splitlines()))
    except (OSError, ValueError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else f"not readable as labels: {error}"
        raise SettingError(f"{place}: {why}") from error
    if isinstance(found, Mapping):
        return "run_id", {str(key): _flag(value, place, str(key)) for key, value in found.items()}
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise SettingError(f"{place}: expected rows with run_id (or task) and success, or a mapping of run ids")
    key: Key = "task" if found and "run_id" not in found[0] and "task" in found[0] else "run_id"
    labels: dict[str, bool | None] = {}
    for number, row in enumerate(found, 1):
        if key not in row or "success" not in row:
            raise SettingError(f"{place}: row {number} has no {key if key not in row else 'success'}; "
                               "expected run_id (or task) and success")  # fmt: skip
        name = str(row[key])
        if name in labels:
            raise SettingError(f"{place}: row {number} labels {name!r} a second time")
        labels[name] = _flag(row["success"], place, name)
    return key, labels


def _flag(value: object, place: Path, name: str) -> bool | None:
    said = str(value).strip().lower()
    if said in _TRUE or said in _FALSE:
        return said in _TRUE
    if said in _UNKNOWN:
        return None
    raise SettingError(f"{place}: the label of {name!r} is {value!r}; accepted: true, false, 1, 0, or nothing")
