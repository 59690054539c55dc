"""Success labels from elsewhere, joined to runs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from boolab.core.run import Run
from boolab.core.text import first_of
from boolab.errors import SettingError
from boolab.frames.dtypes import Cell, is_missing
from boolab.frames.runs import Runs, as_runs
from boolab.io.checks import repr_of
from boolab.io.files import read_file, user_path

if TYPE_CHECKING:
    import pandas as pd

Key: TypeAlias = Literal["run_id", "task"]
MAX_LABELS: Final = 64 * 2**20
"""The largest file of labels that is read, in bytes: a million labels are some 50 MB."""
_TRUE: Final = ("true", "yes", "1", "1.0", "success", "pass", "passed")
_FALSE: Final = ("false", "no", "0", "0.0", "failure", "fail", "failed")
FLAGS: Final = "True, False, 1, 0, yes, no, pass, fail, or None"
"""What is accepted as a label."""
_UNKNOWN: Final = ("", "none", "null", "na", "nan", "unknown")


def labels_of(path: str | Path) -> tuple[Key, dict[str, bool | None]]:
    """The labels in a file: CSV with the columns `run_id` (or `task`) and `success`; JSON with a mapping, or rows."""
    file = user_path(path)
    try:
        text = read_file(file, MAX_LABELS).decode("utf-8-sig")
        data = json.loads(text) if file.suffix.lower() == ".json" else list(csv.DictReader(text.splitlines()))
    except (OSError, ValueError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not readable as labels: {error}"
        raise SettingError(f"{file}: {reason}") from error
    if isinstance(data, Mapping):
        return "run_id", {str(key): _flag(value, file, str(key)) for key, value in data.items()}
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise SettingError(f"{file}: expected rows with run_id (or task) and success, or a mapping of run ids")
    key: Key = "task" if data and "run_id" not in data[0] and "task" in data[0] else "run_id"
    labels: dict[str, bool | None] = {}
    for number, row in enumerate(data, 1):
        if key not in row or "success" not in row:
            raise SettingError(f"{file}: row {number} has no {key if key not in row else 'success'}; "
                               "expected run_id (or task) and success")  # fmt: skip
        name = str(row[key])
        if name in labels:
            raise SettingError(f"{file}: row {number} labels {name!r} a second time")
        labels[name] = _flag(row["success"], file, name)
    return key, labels


def _flag(value: object, file: Path, name: str) -> bool | None:
    try:
        return flag_of(value, f"of {name!r}")
    except SettingError as error:
        raise SettingError(f"{file}: {error}") from None


Labels: TypeAlias = "Mapping[str, Any] | pd.Series[Any] | Callable[[Run], Any] | str"

_MAX_NAMES: Final = 5


def label(runs: Runs, by: Labels, *, key: Literal["run_id", "task"] = "run_id") -> list[Run]:
    """Fill in which runs were successes.

    Args:
        runs: A run, runs, or the path of a store or of logs. They stay as they are; copies are returned.
        by: A mapping or a Series from run ids (or tasks, see `key`) to labels; a callable that takes a run and gives
            its label; or the name of a setting that holds it. A label is True, False, 1, 0, a word such as yes, no,
            pass or fail, or None for unknown.
        key: What the keys of a mapping are: `run_id` or `task`.

    Returns:
        The runs in their order. Those that a mapping does not name, or that lack the setting, keep what they had.

    Raises:
        SettingError: if a mapping names runs or tasks that are not there, no run has the setting, or a label is
            another value.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> [labelled.success for labelled in bl.label(run, {run.run_id: 1})]
        [True]
        >>> [labelled.success for labelled in bl.label(run, lambda run: "Hi" in run.text)]
        [True]
    """
    run_list = as_runs(runs)
    if isinstance(by, str):
        return _label_by_setting(run_list, by)
    if callable(by):
        return [replace(run, success=flag_of(by(run), f"of run {run.run_id}")) for run in run_list]
    if key not in ("run_id", "task"):
        raise SettingError(f"key={key!r} is not known; accepted: run_id, task")
    return _label_by_key(run_list, mapping_of(by), key)


def _label_by_setting(runs: list[Run], name: str) -> list[Run]:
    if runs and not any(name in run.settings for run in runs):
        names = sorted({*chain.from_iterable(run.settings for run in runs)})
        raise SettingError(f"no run has the setting {name!r}; there are: {', '.join(names) or 'none'}")
    return [
        replace(run, success=flag_of(run.settings[name], f"of run {run.run_id}")) if name in run.settings else run
        for run in runs
    ]


def _label_by_key(runs: list[Run], labels: Mapping[Any, Any], key: str) -> list[Run]:
    check_keys(labels, {getattr(run, key) for run in runs}, key)
    return [
        replace(run, success=flag_of(labels[value], f"of {repr_of(value)}"))
        if (value := getattr(run, key)) in labels
        else run
        for run in runs
    ]


def check_keys(labels: Mapping[Any, Any], present: Container[Any], key: str) -> None:
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
