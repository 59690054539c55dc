"""Checks of a user's settings."""

from __future__ import annotations

import functools
from collections.abc import Collection, Hashable
from numbers import Integral, Real
from typing import Literal, TypeGuard, get_args, get_origin, get_type_hints

from boolab.errors import SettingError, near

MAX_COUNT = 2**63 - 1
"""The largest threshold: counters, frames and stores hold integers of 64 bits."""
MAX_DIGITS = 4300
"""Python reads and writes no integer with more digits: its time grows with their square."""
_MAX_CHARS = 80  # of a value in an error


def is_share(value: object) -> bool:
    """Whether a value is a number between 0 and 1, without these two."""
    return isinstance(value, Real) and 0 < float(value) < 1


def is_whole(n: object) -> TypeGuard[int]:
    """Whether n is an integer, numpy's included, and no bool."""
    return type(n) is int or (isinstance(n, Integral) and not isinstance(n, bool))


def check_whole(n: object, name: str, minimum: int) -> int:
    """A setting as an integer from `minimum` to `MAX_COUNT`; a `SettingError` if it is none."""
    if not is_whole(n) or n < minimum:
        msg = f"{name}({repr_of(n)}): expected an integer >= {minimum}"
        raise SettingError(msg)
    if n > MAX_COUNT:
        raise number_size_error(name, MAX_COUNT)
    return int(n)


def check_count(n: object, name: str) -> None:
    """Raise `SettingError` unless an option is None or an integer from 0 to `MAX_COUNT`."""
    if n is None or (is_whole(n) and 0 <= n <= MAX_COUNT):
        return
    raise SettingError(f"{name}={repr_of(n)}: expected an integer from 0 to {MAX_COUNT:,}, or None")


def is_amount(n: object) -> TypeGuard[int | float]:
    """Whether n is a number from 0 on, numpy's included, up to `MAX_COUNT`, and no bool."""
    return not isinstance(n, bool) and isinstance(n, int | float | Real) and bool(0 <= n <= MAX_COUNT)  # type: ignore[operator]


def repr_of(value: object) -> str:
    """A user's value in an error, as Python writes it; a number that is too long to be written as its size."""
    try:
        text = str(value) if is_whole(value) else repr(value)
    except ValueError:  # Python writes only so many digits
        return f"a number of more than {MAX_DIGITS:,} digits"
    return text if len(text) <= _MAX_CHARS else f"{text[: _MAX_CHARS - 1]}…"


def number_size_error(name: str, maximum: int) -> SettingError:
    """The error about a number that is larger than `maximum`."""
    return SettingError(f"{name}: the number is too large: expected at most {maximum:,}")


def check_literals(instance: Hashable, owner: str) -> None:
    """Raise `SettingError` unless each field with a `Literal` type has one of its values."""
    for name, choices in _literals(instance.__class__):
        choice = getattr(instance, name)
        if choice not in choices:
            expected = f"expected one of {', '.join(choices)}"
            msg = f"{owner}: {name}={choice!r} is not accepted{near(choice, choices) or f'; {expected}'}"
            raise SettingError(msg)


@functools.cache
def _literals(kind: type) -> tuple[tuple[str, tuple[str, ...]], ...]:
    hints = get_type_hints(kind)
    return tuple((name, get_args(hint)) for name, hint in hints.items() if get_origin(hint) is Literal)


def check_name(name: object, names: Collection[object], message: str) -> None:
    """Raise `SettingError` with this message, and the nearest name or all names, for a name that is not known."""
    if name not in names:
        raise SettingError(message + near(name, names, "accepted"))
