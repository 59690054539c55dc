"""The records as JSON values and back, exactly: their types define how each is written.

NamedTuples are objects without their defaults; a message's parts and a step's calls and results name which `part` they
are; times are ISO 8601. What a setting or an event holds may be anything that JSON knows, and tuples.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from functools import cache
from typing import Any, Final, Literal, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic_core import PydanticSerializationError, to_json

from boolab.core.messages import Reasoning, Sentinel, StepStart, Text
from boolab.core.run import Run
from boolab.core.types import IDENTITIES, JSON, Image, ToolCall, ToolResult
from boolab.errors import SettingError

_Kind = TypeVar("_Kind")
_Read: TypeAlias = Callable[[JSON], JSON]
_Hint: TypeAlias = Any
"""An annotation of a field: a class, a union, a generic alias."""

_PARTS: Final[dict[str, type]] = {
    "step_start": StepStart,
    "text": Text,
    "reasoning": Reasoning,
    "tool_call": ToolCall,
    "tool_result": ToolResult,
    "sentinel": Sentinel,
    "image": Image,
}
_NAMES: Final = {kind: name for name, kind in _PARTS.items()}
MAX_COLUMN_INT: Final = 2**63 - 1
"""The largest figure that a column of a table holds."""
_TUPLE, _PAIRS = "$tuple", "$pairs"


def run_fields(run: Run, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """The fields of a run as JSON values: without those that have their default, and those to `leave_out`."""
    row = {}
    for name, default in _FIELDS.items():
        value = getattr(run, name)
        if name not in leave_out and (default is MISSING or not _is_default(value, default)):
            row[name] = encode(value, f"{name} of run {run.run_id}")
    return row


def run_of(row: Mapping[str, Any], **rest: object) -> Run:
    """The run that these fields, as JSON values, and the `rest`, as they are, make."""
    unknown = row.keys() - _FIELDS.keys()
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))}: not fields of a run")
    missing = [name for name, default in _FIELDS.items() if default is MISSING and name not in row and name not in rest]
    if missing:
        raise ValueError(f"{', '.join(missing)}: missing")
    readers = _hints(Run)
    run = Run(**{name: _read_field(name, readers[name], value) for name, value in row.items()} | rest)
    for number, step in enumerate(run.steps, 1):
        if step.index != number or len(step.results) != len(step.response.tool_calls):
            raise ValueError(
                f"steps: step {number} is numbered {step.index}, or has not one result for each of its calls"
            )
    if run.identity not in IDENTITIES:
        raise ValueError(f"identity: {run.identity!r} is not one of {', '.join(IDENTITIES)}")
    return run


def decode(kind: type[_Kind], value: object) -> _Kind:
    """The record of this kind that a JSON value stands for."""
    hint: Any = kind  # a type of any kind is hashable, which mypy does not see
    read: Callable[[object], _Kind] = _reader(hint)
    return read(value)


def dumps(value: object) -> bytes:
    """A JSON value as compact text; lone surrogates are escaped."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


_FIELDS_APART: Final = frozenset({"continuation", "log_id", "path", "subagents"})
"""What is no part of a record: subagents have rows of their own."""


def _defaults() -> dict[str, Any]:
    out = {}
    for field in fields(Run):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if field.name not in _FIELDS_APART:
            out[field.name] = default
    return out


_FIELDS: Final = _defaults()


def encode(value: JSON, label: str) -> JSON:
    """A value of the records as JSON has it: a NamedTuple without its defaults, other tuples as lists."""
    if isinstance(value, tuple):
        kind = type(value)
        if kind is tuple:
            return [encode(item, label) for item in value]
        row: dict[str, Any] = {"part": _NAMES[kind]} if kind in _NAMES else {}
        for (name, usual), item in zip(_field_defaults(kind), value, strict=True):
            if item is None or type(item) is str:  # most of them, so they are spared the rest
                if item is not usual and item != usual:
                    row[name] = item
            elif not _is_default(item, usual):
                row[name] = _tag(item, label) if name == "payload" else encode(item, label)
        return row
    if isinstance(value, datetime):
        return value.isoformat()
    return _tag(value, label)


@cache
def _field_defaults(kind: type) -> list[tuple[str, Any]]:
    """The fields of a NamedTuple, each with its default."""
    usual: Mapping[str, Any] = kind._field_defaults  # type: ignore[attr-defined]
    return [(name, usual.get(name, MISSING)) for name in kind._fields]  # type: ignore[attr-defined]


def _tag(value: object, label: str) -> JSON:
    """A value of a setting or of an event: what JSON cannot distinguish is marked."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    if type(value) is tuple:
        return {_TUPLE: [_tag(item, label) for item in value]}
    if isinstance(value, list):
        return [_tag(item, label) for item in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value) and not value.keys() & {_TUPLE, _PAIRS}:
            return {key: _tag(item, label) for key, item in value.items()}
        return {_PAIRS: [[_tag(key, label), _tag(item, label)] for key, item in value.items()]}
    msg = f"{label} holds {value!r}, a {type(value).__name__}: only what JSON knows can be saved"
    raise SettingError(msg)


def _is_default(value: object, usual: object) -> bool:
    """Whether a value is the default, and not only equal to it as 0 is to False."""
    return type(value) is type(usual) and value == usual


def _untag(value: JSON) -> JSON:
    """The value of a setting or of an event, as it was."""
    if isinstance(value, list):
        return [_untag(item) for item in value]
    if isinstance(value, dict):
        try:
            if value.keys() == {_TUPLE}:
                return tuple(_untag(item) for item in value[_TUPLE])
            if value.keys() == {_PAIRS}:
                return {_untag(key): _untag(item) for key, item in value[_PAIRS]}
        except TypeError as error:
            raise ValueError(f"{value!r:.80} stands for nothing: {error}") from None
        return {key: _untag(item) for key, item in value.items()}
    return value


def _read_field(name: str, read: _Read, value: object) -> JSON:
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


@cache
def _hints(kind: type) -> dict[str, _Read]:
    return {name: _read_seed if name == "seed" else _reader(hint) for name, hint in get_type_hints(kind).items()}


@cache
def _reader(hint: _Hint) -> _Read:
    """What reads a value of this type."""
    origin: _Hint = get_origin(hint)
    args = get_args(hint)
    if hint is Any:
        return _untag
    if origin in (Union, types.UnionType):
        return _union(args)
    if origin is Literal:
        return _check(lambda value: value in args, f"one of {', '.join(map(str, args))}")
    if origin is tuple:
        return _tuple_reader(_reader(args[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(_reader(args[1]))
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _record(hint)
    if hint is datetime:
        return _time
    if hint is int:
        return _check(
            lambda value: _is_whole(value) and -MAX_COLUMN_INT - 1 <= value <= MAX_COLUMN_INT,
            "a whole number of 64 bits",
        )
    return _check(lambda value: isinstance(value, hint), f"a {hint.__name__}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _read_seed(value: object) -> object:
    """A seed, which is no figure: nothing is reckoned with it, and it may have any number of digits."""
    return _check(lambda seed: seed is None or _is_whole(seed), "a whole number")(value)


def _value_error(value: object, expected: str) -> ValueError:
    return ValueError(f"{value!r:.80} is not {expected}")


def _check(fits: Callable[[Any], bool], expected: str) -> _Read:
    def read(value: object) -> object:
        if not fits(value):
            raise _value_error(value, expected)
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
        raise _value_error(value, f"a part of a message ({', '.join(_PARTS)})")
    return _record(kind)(value)


def _tuple_reader(read: _Read) -> _Read:
    def tuple_of(value: JSON) -> tuple[JSON, ...]:
        if not isinstance(value, list):
            raise _value_error(value, "a list")
        return tuple([read(item) for item in value])

    return tuple_of


def _mapping(read: _Read) -> _Read:
    def mapping_of(value: object) -> dict[str, Any]:
        free = _untag(value)
        if not isinstance(free, dict):
            raise _value_error(value, "an object")
        return free if read is _untag else {key: read(item) for key, item in free.items()}

    return mapping_of


@cache
def _record(kind: type) -> _Read:
    readers = _hints(kind)
    required = readers.keys() - getattr(kind, "_field_defaults", {}).keys()
    field_names = readers.keys() | ({"part"} if kind in _NAMES else set())

    def record(value: object) -> object:
        if not isinstance(value, dict) or not required <= value.keys() <= field_names:
            raise _value_error(value, f"a {kind.__name__} ({', '.join(readers)})")
        return kind(**{name: _read_field(name, readers[name], item) for name, item in value.items() if name != "part"})

    return record


def _time(value: object) -> datetime:
    if not isinstance(value, str):
        raise _value_error(value, "an ISO 8601 time")
    return datetime.fromisoformat(value)
