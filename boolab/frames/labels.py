"""Values that are labels, from users and from files."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

from boolab.core.text import first_of
from boolab.errors import SettingError
from boolab.frames.dtypes import Cell, is_missing
from boolab.io.checks import repr_of

_TRUE: Final = ("true", "yes", "1", "1.0", "success", "pass", "passed")
_FALSE: Final = ("false", "no", "0", "0.0", "failure", "fail", "failed")
FLAGS: Final = "True, False, 1, 0, yes, no, pass, fail, or None"
"""What is accepted as a label."""
_UNKNOWN: Final = ("", "none", "null", "na", "nan", "unknown")
_MAX_NAMES: Final = 5


def check_keys(labels: Iterable[Any], present: Container[Any], key: str) -> None:
    """Raise `SettingError` if there are labels for what is not there."""
    unknown = [name for name in labels if name not in present]
    if unknown:
        raise SettingError(f"labels for a {key} that no run has: {first_of([*map(repr, unknown)], _MAX_NAMES)}")


def mapping_of(labels: object) -> Mapping[Any, Any]:
    """Labels by key, from a mapping or a Series."""
    if isinstance(labels, Mapping):
        return labels
    index = getattr(labels, "index", None)
    to_dict = getattr(labels, "to_dict", None)
    if index is None or to_dict is None or getattr(labels, "ndim", 0) != 1:
        raise SettingError(
            f"labels are a mapping, a Series, a callable or a setting's name, not a {type(labels).__name__}"
        )
    if not index.is_unique:
        repeated_keys = index[index.duplicated()].unique()[:_MAX_NAMES]
        raise SettingError(f"labels given more than once: {', '.join(map(repr, repeated_keys))}")
    label_by_key: Mapping[Any, Any] = to_dict()
    return label_by_key


def flag_of(value: Cell, origin: str) -> bool | None:
    """A label as True, False or None (also pandas' NA, and NaN); words such as `yes` and `fail` are accepted."""
    if is_missing(value):
        return None
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, int | float) and number in (0, 1):
        return bool(number)
    word = value.strip().lower() if isinstance(value, str) else None
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    if word in _UNKNOWN:
        return None
    raise SettingError(f"the label {origin} is {repr_of(value)}; accepted: {FLAGS}")
