"""boolab's own records on disk: JSON Lines, one run a line, exactly as it was.

Each line is an object: `boolab_run` (the version of the format), then the fields of `Run`, without `continuation` and
without those that have their default value. The records' types say how each value is written: NamedTuples as objects
(without their defaults), a message's parts and a step's calls and results as objects with a `part`, times as ISO 8601.
"""

from __future__ import annotations

import json
import os
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from boolab.detectors import IDENTITIES
from boolab.errors import SettingError
from boolab.types import Reasoning, Run, Sentinel, StepStart, Text, ToolCall, ToolResult

VERSION: Final = 1
KEY: Final = "boolab_run"

_PARTS: Final[dict[str, type]] = {
    "step_start": StepStart,
    "text": Text,
    "reasoning": Reasoning,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "sentinel": Sentinel,
}
_NAMES: Final = {kind: name for name, kind in _PARTS.items()}
_TUPLE, _PAIRS = "$tuple", "$pairs"

_Read: TypeAlias = Callable[[Any], Any]


def save_runs(runs: Run | Iterable[Run], path: str | Path) -> None:
    """Write runs to a `.jsonl` file, which `load_runs` reads back exactly. An old file of that name is replaced.

    Args:
        runs: A run, or runs.
        path: Where to; `~` is expanded.

    Raises:
        SettingError: if the suffix is another one, or a setting or an event holds what JSON cannot.

    Example:
        >>> from boolab.models.scripted import ScriptedModel
        >>> from boolab.readers.boolab_records import read
        >>> from boolab.runner import run_sync
        >>> import tempfile
        >>> run = run_sync(None, "Hello", model=ScriptedModel(["Hi."]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_runs(run, f"{folder}/runs.jsonl")
        ...     read(Path(folder) / "runs.jsonl") == [run]
        True
    """
    path = Path(path).expanduser()
    if path.suffix != ".jsonl":
        msg = f"{path.name!r}: runs are saved as .jsonl (JSON Lines); {path.suffix or 'no suffix'} is not accepted"
        raise SettingError(msg)
    listed = [runs] if isinstance(runs, Run) else list(runs)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            for run in listed:
                file.write(encode_run(run) + b"\n")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def encode_run(run: Run) -> bytes:
    """One run as one line of JSON, without its end."""
    row: dict[str, Any] = {KEY: VERSION}
    for name, default in _FIELDS.items():
        value = getattr(run, name)
        if default is MISSING or not _same(value, default):
            row[name] = _plain(value, f"{name} of run {run.run_id}")
    try:
        return json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:  # half surrogates
        return json.dumps(row, separators=(",", ":"), allow_nan=False).encode()


def decode_run(row: object) -> Run:
    """The run of one parsed line.

    Raises:
        ValueError: if it is not one, or of a version that is not known.
    """
    if not isinstance(row, dict):
        raise ValueError(f"{row!r:.80} is not a record")  # noqa: TRY004 - of what was read, all faults are alike
    if row.get(KEY) != VERSION or isinstance(row.get(KEY), bool):
        raise ValueError(f"a record of version {row.get(KEY)!r}; version {VERSION} can be read")
    unknown = row.keys() - _FIELDS.keys() - {KEY}
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))}: not fields of a run")
    missing = [name for name, default in _FIELDS.items() if default is MISSING and name not in row]
    if missing:
        raise ValueError(f"{', '.join(missing)}: missing")
    readers = _hints(Run)
    run = Run(**{name: _named(name, readers[name], value) for name, value in row.items() if name != KEY})
    for place, step in enumerate(run.steps, 1):
        if step.index != place or len(step.results) != len(step.response.tool_calls):
            raise ValueError(
                f"steps: step {place} is numbered {step.index}, or has not one result for each of its calls"
            )
    if run.identity not in IDENTITIES:
        raise ValueError(f"identity: {run.identity!r} is not one of {', '.join(IDENTITIES)}")
    return run


def _named(name: str, read: _Read, value: object) -> Any:  # noqa: ANN401 - any field
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _defaults() -> dict[str, Any]:
    out = {}
    for field in fields(Run):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if field.name != "continuation":
            out[field.name] = default
    return out


_FIELDS: Final = _defaults()


def _plain(value: Any, where: str) -> Any:  # noqa: ANN401 - any value of a record
    """A value of the records as JSON has it: a NamedTuple without its defaults, other tuples as lists."""
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        if names is None:
            return [_plain(item, where) for item in value]
        row = {"part": _NAMES[type(value)]} if type(value) in _NAMES else {}
        usual: Mapping[str, Any] = getattr(value, "_field_defaults", {})
        for name, item in zip(names, value, strict=True):
            if name not in usual or not _same(item, usual[name]):
                row[name] = _tagged(item, where) if name == "payload" else _plain(item, where)
        return row
    if isinstance(value, datetime):
        return value.isoformat()
    return _tagged(value, where)


def _tagged(value: Any, where: str) -> Any:  # noqa: ANN401 - any value of a record
    """A value of a setting or of an event: what JSON cannot tell apart is written so that it can."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    if type(value) is tuple:
        return {_TUPLE: [_tagged(item, where) for item in value]}
    if isinstance(value, list):
        return [_tagged(item, where) for item in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value) and not value.keys() & {_TUPLE, _PAIRS}:
            return {key: _tagged(item, where) for key, item in value.items()}
        return {_PAIRS: [[_tagged(key, where), _tagged(item, where)] for key, item in value.items()]}
    msg = f"{where} holds {value!r}, a {type(value).__name__}: only what JSON knows can be saved"
    raise SettingError(msg)


def _same(value: object, usual: object) -> bool:
    """Whether a value is the default, and not only equal to it as 0 is to False."""
    return type(value) is type(usual) and value == usual


def _free(value: Any) -> Any:  # noqa: ANN401 - any value of a record
    """The value of a setting or of an event, as it was."""
    if isinstance(value, list):
        return [_free(item) for item in value]
    if isinstance(value, dict):
        if value.keys() == {_TUPLE}:
            return tuple(_free(item) for item in value[_TUPLE])
        if value.keys() == {_PAIRS}:
            return {_free(key): _free(item) for key, item in value[_PAIRS]}
        return {key: _free(item) for key, item in value.items()}
    return value


@cache
def _hints(kind: type) -> dict[str, _Read]:
    return {name: _reader(hint) for name, hint in get_type_hints(kind).items()}


@cache
def _reader(hint: Any) -> _Read:  # noqa: ANN401 - any type hint
    """What reads a value of this type."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return _free
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is Literal:
        return _check(lambda value: value in args, f"one of {', '.join(map(str, args))}")
    if origin is tuple:
        return _tuple(_reader(args[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_reader(args[1]))
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _record(hint)
    if hint is datetime:
        return _time
    if hint is int:
        return _check(lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number")
    return _check(lambda value: isinstance(value, hint), f"a {hint.__name__}")


def _check(fits: Callable[[Any], bool], what: str) -> _Read:
    def read(value: object) -> object:
        if not fits(value):
            raise ValueError(f"{value!r:.80} is not {what}")
        return value

    return read


def _union(args: tuple[Any, ...]) -> _Read:
    inner = [arg for arg in args if arg is not types.NoneType]
    if set(inner) == set(_NAMES):
        return _part
    read = _reader(inner[0])
    return lambda value: None if value is None else read(value)


def _part(value: object) -> object:
    kind = _PARTS.get(str(value.get("part"))) if isinstance(value, dict) else None
    if kind is None:
        raise ValueError(f"{value!r:.80} is not a part of a message ({', '.join(_PARTS)})")
    return _record(kind)(value)


def _tuple(read: _Read) -> _Read:
    def tuple_of(value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - checked here
        if not isinstance(value, list):
            raise ValueError(f"{value!r:.80} is not a list")  # noqa: TRY004 - as above
        return tuple([read(item) for item in value])

    return tuple_of


def _mapping(read: _Read) -> _Read:
    def mapping_of(value: object) -> dict[str, Any]:
        free = _free(value) if read is _free else value
        if not isinstance(free, dict):
            raise ValueError(f"{value!r:.80} is not an object")  # noqa: TRY004 - as above
        return free if read is _free else {key: read(item) for key, item in free.items()}

    return mapping_of


@cache
def _record(kind: type) -> _Read:
    readers = _hints(kind)
    required = readers.keys() - getattr(kind, "_field_defaults", {}).keys()
    known = readers.keys() | ({"part"} if kind in _NAMES else set())

    def record(value: object) -> object:
        if not isinstance(value, dict) or not required <= value.keys() <= known:
            raise ValueError(f"{value!r:.80} is not a {kind.__name__} ({', '.join(readers)})")
        return kind(**{name: _named(name, readers[name], item) for name, item in value.items() if name != "part"})

    return record


def _time(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is not an ISO 8601 time")  # noqa: TRY004 - as above
    return datetime.fromisoformat(value)
