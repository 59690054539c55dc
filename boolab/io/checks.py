"""Checks of a user's settings."""

from __future__ import annotations

import functools
from collections.abc import Collection, Hashable
from numbers import Integral
from typing import Literal, TypeGuard, get_args, get_origin, get_type_hints

from boolab.errors import SettingError, near

MAX_COUNT = 2**63 - 1
"""The largest threshold: counters, frames and stores hold integers of 64 bits."""


def is_whole(n: object) -> TypeGuard[int]:
    """Whether n is an integer, numpy's included, and no bool."""
    return type(n) is int or (isinstance(n, Integral) and not isinstance(n, bool))


def whole(n: object, what: str, least: int) -> int:
    """A setting as an integer from `least` to `MAX_COUNT`; a `SettingError` if it is none."""
    if not is_whole(n) or n < least:
        msg = f"{what}({n!r}): expected an integer >= {least}"
        raise SettingError(msg)
    if n > MAX_COUNT:
        raise too_large(what, MAX_COUNT)
    return int(n)


def too_large(what: str, most: int) -> SettingError:
    """The error about a number that is larger than `most`."""
    return SettingError(f"{what}: the number is too large: expected at most {most:,}")


def check_literals(value: Hashable, what: str) -> None:
    """Raise `SettingError` unless each field with a `Literal` type has one of its values."""
    for name, accepted in _literals(value.__class__):
        given = getattr(value, name)
        if given not in accepted:
            expected = f"expected one of {', '.join(accepted)}"
            msg = f"{what}: {name}={given!r} is not accepted{near(given, accepted) or f'; {expected}'}"
            raise SettingError(msg)


@functools.cache
def _literals(kind: type) -> tuple[tuple[str, tuple[str, ...]], ...]:
    hints = get_type_hints(kind)
    return tuple((name, get_args(hint)) for name, hint in hints.items() if get_origin(hint) is Literal)


def check_name(name: object, known: Collection[object], message: str) -> None:
    """Raise `SettingError` with this message, and the nearest name or all names, for a name that is not known."""
    if name not in known:
        raise SettingError(message + near(name, known, "accepted"))
