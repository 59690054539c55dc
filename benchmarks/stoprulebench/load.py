"""What the command line names: entries, and the recordings that they are judged on."""

# ruff: noqa: A002 - `format` is the name of the user's option
from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from glob import has_magic
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from benchmarks.stoprulebench.baselines import baselines
from benchmarks.stoprulebench.entries import About, Entry, FunctionEntry, ListEntry, RuleEntry
from benchmarks.stoprulebench.first_stops import Scoped
from benchmarks.stoprulebench.hidden import read_hidden
from benchmarks.stoprulebench.learned import LearnedEntry
from benchmarks.stoprulebench.recordings import SET, Recordings, hashed, recordings_of, set_of
from benchmarks.stoprulebench.rule_file import read_rules
from benchmarks.stoprulebench.stop_list import read_stops
from boolab.core.run import Run
from boolab.core.text import shorten
from boolab.errors import SettingError, near
from boolab.io.files import user_path
from boolab.limits.stop import StopRule
from boolab.logs.load import iterate_logs
from boolab.logs.outcomes.labels import label_by_file

BASELINES: Final = "baselines"
MAX_NAME: Final = 80
_ONE: Final = "baseline:"
_ACCEPTED: Final = "expected a file .yaml or .csv, module:function, file.py:function, baselines, or baseline:NAME"


# --- Entries ----------------------------------------------------------------------------------------------------------


def entries_of(text: str) -> list[Entry]:
    """The entries that a word of the command line means.

    Args:
        text: A file of rules or of stops, `module:function`, `file.py:function`, `baselines` or `baseline:NAME`.

    Returns:
        The entries: several for `baselines` alone.

    Raises:
        FileError: if a file cannot be read, or something in it is not accepted.
        SettingError: if there is no such module, function or baseline, or the word is none of these.

    Example:
        >>> [entry.about.name for entry in entries_of("baseline:a coin")]
        ['a coin']
    """
    if text == BASELINES:
        return baselines()
    if text.startswith(_ONE):
        known = {entry.about.name: entry for entry in baselines()}
        name = text.removeprefix(_ONE)
        if name not in known:
            raise SettingError(f"there is no baseline {name!r}{near(name, known, 'accepted')}")
        return [known[name]]
    suffix = Path(text).suffix.lower()
    if suffix in (".yaml", ".yml"):
        return [read_rules(text)]
    if suffix == ".csv":
        return [read_stops(text)]
    module, colon, name = text.rpartition(":")
    if colon and module and name:
        return [_function_entry(module, name, text)]
    raise SettingError(f"{text!r} is no entry: {_ACCEPTED}")


def about_with(entries: Sequence[Entry], given: Mapping[str, str]) -> list[Entry]:
    """The entries with the description that the user gives.

    Raises:
        SettingError: if several entries would get the same name.
    """
    if "name" in given and len(entries) > 1:
        raise SettingError(f"--name is for one entry, and there are {len(entries)}")
    return [_renamed(entry, replace(entry.about, **given)) for entry in entries]


def _renamed(entry: Entry, about: About) -> Entry:
    if not isinstance(entry, RuleEntry | ListEntry | FunctionEntry | LearnedEntry):
        return entry
    return replace(entry, about=about)


def _function_entry(module: str, name: str, text: str) -> FunctionEntry | RuleEntry:
    found = _module(module)
    target: Any = found
    for part in name.split("."):
        if not hasattr(target, part):
            raise SettingError(f"{text}: {module} has no {part!r}{near(part, _public(target), 'accepted')}")
        target = getattr(target, part)
    if isinstance(target, type):
        target = target()
    is_rule = isinstance(target, StopRule)
    if not is_rule and not callable(target) and not hasattr(target, "fit"):
        msg = f"{text}: expected a function of a prefix, a stop rule, or an object with `fit`, and not {target!r}"
        raise SettingError(msg)
    source = getattr(found, "__file__", None)
    written = f", SHA-256 {sha256(Path(source).read_bytes()).hexdigest()}" if source else ""
    shown = f"{Path(module).name}:{name}"
    about = About(name=shown, definition=f"{shown}{written}")
    if is_rule:
        return RuleEntry(about=replace(about, definition=f"{target}: {about.definition}"), settings=[(Scoped(target),)])
    return FunctionEntry(about=about, target=target)


def _public(target: object) -> list[str]:
    return [name for name in vars(target) if not name.startswith("_")] if hasattr(target, "__dict__") else []


def _module(name: str) -> ModuleType:
    """The module of that name, or in that file; the current folder is looked in too, as `python -m` does."""
    try:
        if not name.endswith(".py"):
            here = str(Path.cwd())
            if here not in sys.path:
                sys.path.insert(0, here)
            return import_module(name)
        path = user_path(name)
        spec = spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            return import_module(name)
        module = module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)  # dataclasses look their module up
        spec.loader.exec_module(module)
    except FileNotFoundError as error:
        raise SettingError(f"{name}: there is no such file") from error
    except Exception as error:  # - whatever the user's module raises
        raise SettingError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    return module


# --- Recordings -------------------------------------------------------------------------------------------------------


def recordings_from(
    given: Sequence[str],
    *,
    format: str | None = None,
    labels: str | None = None,
    trust: Sequence[str] = (),
    hidden: str | None = None,
    progress: bool = True,
) -> Recordings:
    """The recordings that the command line names.

    Args:
        given: A shipped data set such as `atlas`, or files and folders of runs.
        format: The format of the files; with hidden sets, that of theirs.
        labels: A file with labels; with hidden sets, theirs.
        trust: Sources of evidence that count as labels.
        hidden: A folder with hidden sets, which are judged; entries are then chosen and fitted on the other runs.
        progress: Show a progress bar on a terminal.

    Returns:
        The recordings. The set of a run is its setting `set`, or else the name of its file.

    Raises:
        RunFormatError: if nothing is there, or it cannot be read.
        SettingError: if there is no labelled run, or a hidden set has the name of another.
    """
    found = list(_runs_of(given, format=format if hidden is None else None, trust=trust, progress=progress))
    runs = [run for _, run in found]
    if labels is not None and hidden is None:
        runs = label_by_file(runs, labels, trust).runs
    named = [Path(one).name if has_magic(one) or user_path(one).exists() else one for one in given]
    name, files = shorten(", ".join(named), MAX_NAME), hashed(sorted({path for path, _ in found}))
    if hidden is None:
        return recordings_of(runs, name, files)
    sets = read_hidden(hidden, format=format, labels=labels, trust=trust, progress=progress)
    for run in runs:
        if set_of(run) in sets.kinds:
            raise SettingError(f"{hidden}: {set_of(run)!r} is an open set: a hidden set has a name of its own")
    return recordings_of([*runs, *sets.runs], name, [*files, *sets.files], hidden=sets.kinds)


def _runs_of(
    given: Sequence[str], *, format: str | None, trust: Sequence[str], progress: bool
) -> Iterator[tuple[Path, Run]]:
    for row, runs in iterate_logs(given, format=format, trust=trust, progress=progress):
        path = Path(row.path)
        for run in runs:
            in_set = run.settings.get(SET) is not None
            yield path, run if in_set else replace(run, settings={**run.settings, SET: path.name.partition(".")[0]})
