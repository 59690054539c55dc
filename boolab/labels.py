"""Success labels from elsewhere, joined to runs."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from boolab.errors import SettingError
from boolab.frames import Runs, as_runs
from boolab.types import Run

if TYPE_CHECKING:
    import pandas as pd

Labels: TypeAlias = "Mapping[str, Any] | pd.Series[Any] | Callable[[Run], Any] | str"

_NAMED: Final = 5


def label(runs: Runs, by: Labels, *, key: Literal["run_id", "task"] = "run_id") -> list[Run]:
    """Fill in which runs were successes.

    Args:
        runs: A run, runs, or the path of a store. They stay as they are; copies are returned.
        by: A mapping or a Series from run ids (or tasks, see `key`) to labels; a callable that takes a run and gives
            its label; or the name of a setting that holds it. A label is True, False, 1, 0, or None for unknown.
        key: What the keys of a mapping are: `run_id` or `task`.

    Returns:
        The runs in their order. Those that a mapping does not name, or that lack the setting, keep what they had.

    Raises:
        SettingError: if a mapping names runs or tasks that are not there, no run has the setting, or a label is none.

    Example:
        >>> from boolab.models.scripted import ScriptedModel
        >>> from boolab.runner import run_sync
        >>> run = run_sync(None, "Hello", model=ScriptedModel(["Hi."]))
        >>> [labelled.success for labelled in label(run, {run.run_id: 1})]
        [True]
        >>> [labelled.success for labelled in label(run, lambda run: "Hi" in run.text)]
        [True]
    """
    listed = as_runs(runs)
    if isinstance(by, str):
        return _by_setting(listed, by)
    if callable(by):
        return [replace(run, success=flag_of(by(run), f"of run {run.run_id}")) for run in listed]
    if key not in ("run_id", "task"):
        raise SettingError(f"key={key!r} is not known; accepted: run_id, task")
    return _by_key(listed, mapping_of(by), key)


def _by_setting(runs: list[Run], name: str) -> list[Run]:
    if runs and not any(name in run.settings for run in runs):
        names = sorted({name for run in runs for name in run.settings})
        raise SettingError(f"no run has the setting {name!r}; there are: {', '.join(names) or 'none'}")
    return [
        replace(run, success=flag_of(run.settings[name], f"of run {run.run_id}")) if name in run.settings else run
        for run in runs
    ]


def _by_key(runs: list[Run], labels: Mapping[Any, Any], key: str) -> list[Run]:
    check_keys(labels, {getattr(run, key) for run in runs}, key)
    return [
        replace(run, success=flag_of(labels[value], f"of {value!r}")) if (value := getattr(run, key)) in labels else run
        for run in runs
    ]


def check_keys(labels: Mapping[Any, Any], present: Container[Any], key: str) -> None:
    """Raise `SettingError` if there are labels for what is not there."""
    strangers = [name for name in labels if name not in present]
    if strangers:
        named = ", ".join(repr(name) for name in strangers[:_NAMED])
        more = f" and {len(strangers) - _NAMED} more" if len(strangers) > _NAMED else ""
        raise SettingError(f"labels for what is no run's {key}: {named}{more}")


def mapping_of(by: object) -> Mapping[Any, Any]:
    """Labels by key, from a mapping or a Series.

    Raises:
        SettingError: if it is neither, or has a key twice.
    """
    if isinstance(by, Mapping):
        return by
    index = getattr(by, "index", None)
    to_dict = getattr(by, "to_dict", None)
    if index is None or to_dict is None or getattr(by, "ndim", 0) != 1:
        raise SettingError(f"labels are a mapping, a Series, a callable or a setting's name, not a {type(by).__name__}")
    if not index.is_unique:
        twice = index[index.duplicated()].unique()[:_NAMED]
        raise SettingError(f"labels given more than once: {', '.join(map(repr, twice))}")
    found: Mapping[Any, Any] = to_dict()
    return found


def flag_of(value: Any, whose: str) -> bool | None:  # noqa: ANN401 - from users, from numpy, from pandas
    """A label as True, False or None (also pandas' NA, and NaN).

    Raises:
        SettingError: if it is something else; `whose` says of what.
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value):  # noqa: PLR0124 - NaN
        return None
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, int | float) and number in (0, 1):
        return bool(number)
    raise SettingError(f"the label {whose} is {value!r}; accepted: True, False, 1, 0, None")
