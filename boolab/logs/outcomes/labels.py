"""Success labels from elsewhere, joined to runs: what a user passes, and files of labels."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from boolab.core.caller import warn
from boolab.core.run import Run, RunLabel
from boolab.core.run_labels import BENCHMARK, HAND, USER, add_label, has_one_turn, unit_label
from boolab.core.text import count, first_of, shorten
from boolab.errors import ReadWarning, SettingError
from boolab.frames.labels import check_keys, flag_of, mapping_of
from boolab.frames.runs import Runs, as_runs
from boolab.io.checks import repr_of
from boolab.io.files import read_file, user_path
from boolab.logs.log_files import scope_of
from boolab.logs.outcomes.label_file import MAX_BYTES, LabelFile, Line, read_labels, time_order
from boolab.logs.outcomes.resolve import agreements, match_lines, resolve
from boolab.logs.units import LabelUnit, units_of_run

if TYPE_CHECKING:
    import pandas as pd

Key: TypeAlias = Literal["run_id", "task"]
UnitLabels: TypeAlias = Mapping[tuple[str, int | None], bool | None]
"""Labels by the name of a run, or a task, and the number of a turn; None is the whole run."""
Labels: TypeAlias = "Mapping[str, Any] | pd.Series[Any] | Callable[[Run], Any] | str | Path"
LINES: Final = ".jsonl"
_TABLES: Final = (".csv", ".json")
_MAX_NAMES: Final = 5
_MAX_CHARS: Final = 200


def label(runs: Runs, by: Labels, *, key: Key = "run_id", trust: Sequence[str] = ()) -> list[Run]:
    """Fill in which runs were successes.

    Args:
        runs: A run, runs, or the path of a store or of logs. They stay as they are; copies are returned.
        by: A mapping or a Series from run ids (or tasks, see `key`) to labels; a callable that takes a run and gives
            its label; the name of a setting that holds it; or a file: `.jsonl` as in docs/labels.md, `.csv` with the
            columns run_id (or task), success and, where a label is that of a turn, turn, `.json` with a mapping or such
            rows. A label is True, False, 1, 0, a word such as yes, no, pass or fail, or None for unknown.
        key: What the keys of a mapping are: `run_id` or `task`.
        trust: Sources of evidence in a `.jsonl` file that count as labels, such as `["tests"]`: after a person and a
            benchmark, the first one that has an outcome.

    Returns:
        The runs in their order. Those that are not named, or that lack the setting, keep what they had. A label by hand
        comes before the verdict of a benchmark; where the two differ, it is a `ReadWarning`.

    Raises:
        SettingError: if there are labels for runs or tasks that are not there, no run has the setting, or a label is
            another value. Labels of a `.jsonl` file may be about units that are gone, but not all of them.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> [labelled.success for labelled in bl.label(run, {run.run_id: 1})]
        [True]
        >>> [labelled.success for labelled in bl.label(run, lambda run: "Hi" in run.text)]
        [True]
    """
    run_list = as_runs(runs)
    if isinstance(by, Path) or (isinstance(by, str) and by.lower().endswith((LINES, *_TABLES))):
        labelled = label_by_file(run_list, by, trust)
        for note in labelled.notes:
            if note.is_problem:
                warn(str(note), ReadWarning)
        return labelled.runs
    if isinstance(by, str):
        return _label_by_setting(run_list, by)
    if callable(by):
        name = getattr(by, "__name__", "")
        return [_add_flag(run, by(run), f"of run {run.run_id}", f"function {name}".strip()) for run in run_list]
    if key not in ("run_id", "task"):
        raise SettingError(f"key={key!r} is not known; accepted: run_id, task")
    return _label_by_key(run_list, mapping_of(by), key, "")


def _add_flag(run: Run, value: object, origin: str, why: str) -> Run:
    """The run with a user's label; without one if it is unknown."""
    success = flag_of(value, origin)
    return _without_label(run, None) if success is None else add_label(run, RunLabel(success, USER, why))


def _without_label(run: Run, turn: int | None) -> Run:
    """The run without the label of a turn, or without its own."""
    labels = tuple([label for label in run.labels if label.turn != turn])
    return replace(run, success=None if turn is None else run.success, labels=labels)


def _label_by_setting(runs: list[Run], name: str) -> list[Run]:
    if runs and not any(name in run.settings for run in runs):
        names = sorted({*chain.from_iterable(run.settings for run in runs)})
        raise SettingError(f"no run has the setting {name!r}; there are: {', '.join(names) or 'none'}")
    return [
        _add_flag(run, run.settings[name], f"of run {run.run_id}", f"setting {name}") if name in run.settings else run
        for run in runs
    ]


def _label_by_key(runs: list[Run], labels: Mapping[Any, Any], key: str, why: str) -> list[Run]:
    check_keys(labels, {getattr(run, key) for run in runs}, key)
    return [
        _add_flag(run, labels[value], f"of {repr_of(value)}", why) if (value := getattr(run, key)) in labels else run
        for run in runs
    ]


# --- Files


class LabelledRuns(NamedTuple):
    """Runs with the labels of a file, what is to be known of these, such as people who disagree, and the lines."""

    runs: list[Run]
    notes: Sequence[LabelNote] = ()
    unit_lines: Sequence[UnitLines] = ()


def label_by_file(runs: Sequence[Run], path: str | Path, trust: Sequence[str] = ()) -> LabelledRuns:
    """The runs with the labels of a file."""
    file = user_path(path)
    check_trust(trust)
    if file.suffix.lower() != LINES:
        key, labels = labels_of(path)
        return LabelledRuns(_label_units(runs, labels, key, file))
    if not file.exists():
        raise SettingError(f"{file}: there is no such file")
    joined = JoinedLabels([read_labels(file)], trust)
    labelled = joined.apply(runs)
    if joined.lines and not joined.n_matched:
        names = [repr_of(line.get("run_id", line.get("print"))) for line in joined.lines]
        raise SettingError(
            f"{file}: labels for units that are not there, all {len(names):,} of them: {first_of(names, _MAX_NAMES)}"
        )
    nameless = [line for line in joined.missing if "print" not in line]
    if nameless:
        names = [repr_of(line["run_id"]) for line in nameless]
        raise SettingError(f"{file}: labels for a run_id that no run has: {first_of(names, _MAX_NAMES)}")
    notes = [note._replace(text=f"{file}: {note.text}") for note in joined.notes()]
    return LabelledRuns(labelled, notes, joined.unit_lines)


def _label_units(runs: Sequence[Run], labels: UnitLabels, key: Key, file: Path) -> list[Run]:
    """The runs with labels of theirs, or of their turns."""
    from boolab.io.csv_export import escape_formula

    names = {str(escape_formula(name)): name for name in [getattr(run, key) for run in runs]}
    names |= {name: name for name in names.values()}  # a file that boolab wrote has names without formulas
    check_keys(dict.fromkeys(name for name, _ in labels), names, key)
    by_name: defaultdict[str, dict[int | None, bool | None]] = defaultdict(dict)
    for (name, turn), success in labels.items():
        by_name[names[name]][turn] = success
    labelled = []
    for run in runs:
        turns = {step.turn for step in run.steps}
        labelled_run = run
        for turn, success in by_name.get(getattr(run, key), {}).items():
            if turn is not None and turn not in turns:
                raise SettingError(f"{file}: a label of turn {turn:,}, which run {run.run_id} does not have")
            label = RunLabel(success, USER, file.name, None if has_one_turn(run) else turn)
            labelled_run = (
                _without_label(labelled_run, label.turn) if success is None else add_label(labelled_run, label)
            )
        labelled.append(labelled_run)
    return labelled


def labels_of(path: str | Path) -> tuple[Key, UnitLabels]:
    """The labels in a file: CSV with the columns `run_id` (or `task`) and `success`; JSON with a mapping, or rows.

    A column `turn` has the number of a turn, or nothing where the label is that of the run.
    """
    file = user_path(path)
    try:
        text = read_file(file, MAX_BYTES).decode("utf-8-sig")
        data = json.loads(text) if file.suffix.lower() == ".json" else list(csv.DictReader(StringIO(text, newline="")))
    except (OSError, ValueError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not readable as labels: {error}"
        raise SettingError(f"{file}: {reason}") from error
    if isinstance(data, Mapping):
        return "run_id", {(str(key), None): _flag(value, file, str(key)) for key, value in data.items()}
    if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
        raise SettingError(f"{file}: expected rows with run_id (or task) and success, or a mapping of run ids")
    key: Key = "task" if data and "run_id" not in data[0] and "task" in data[0] else "run_id"
    labels: dict[tuple[str, int | None], bool | None] = {}
    for number, row in enumerate(data, 1):
        if key not in row or "success" not in row:
            raise SettingError(f"{file}: row {number} has no {key if key not in row else 'success'}; "
                               "expected run_id (or task) and success")  # fmt: skip
        name, turn = str(row[key]), row.get("turn")
        if turn not in (None, "") and not str(turn).isdecimal():
            raise SettingError(f"{file}: row {number} has the turn {repr_of(turn)}; expected its number, or nothing")
        unit = (name, None if turn in (None, "") else int(str(turn)))
        if unit in labels:
            which = "" if unit[1] is None else f"turn {unit[1]:,} of "
            raise SettingError(f"{file}: row {number} labels {which}{name!r} a second time")
        labels[unit] = _flag(row["success"], file, name)
    return key, labels


def _flag(value: object, file: Path, name: str) -> bool | None:
    try:
        return flag_of(value, f"of {name!r}")
    except SettingError as error:
        raise SettingError(f"{file}: {error}") from None


def check_trust(trust: Sequence[str]) -> None:
    """Raise `SettingError` unless `trust` is a list of sources."""
    if isinstance(trust, str) or not all(isinstance(source, str) for source in trust):
        raise SettingError(f"trust={trust!r}: expected a list of sources, such as ['tests']")


class LabelNote(NamedTuple):
    """What is to be known of labels. A problem is warned about; else it is in the table of files."""

    text: str
    is_problem: bool = False

    def __str__(self) -> str:
        return self.text


class UnitLines(NamedTuple):
    """A unit, and the lines about it, the earliest first; before them the verdict of its log, where it has one."""

    unit: LabelUnit
    lines: Sequence[Line]


class _Conflict(NamedTuple):
    """A unit about which sources do not agree."""

    unit: LabelUnit
    why: str

    def __str__(self) -> str:
        turn = "" if self.unit.turn is None else f" turn {self.unit.turn}"
        return f"{shorten(self.unit.run_id)}{turn} ({shorten(self.why, _MAX_CHARS)})"


class JoinedLabels:
    """Files of labels, and which runs they are about. Runs may come in parts."""

    def __init__(self, files: Sequence[LabelFile], trust: Sequence[str] = ()) -> None:
        check_trust(trust)
        self.files = files
        self.lines: list[Line] = sorted(chain.from_iterable(file.labels for file in files), key=time_order)
        self._trust = trust
        self._by_print: defaultdict[str, list[int]] = defaultdict(list)
        self._by_run_id: defaultdict[str, list[int]] = defaultdict(list)
        for number, line in enumerate(self.lines):
            if "print" in line:
                self._by_print[line["print"]].append(number)
            else:
                self._by_run_id[line["run_id"]].append(number)
        self._matched: set[int] = set()
        self._grown: set[int] = set()
        self._conflicts: list[_Conflict] = []
        self._disputes: list[_Conflict] = []
        self._copies: list[str] = []
        self.unit_lines: list[UnitLines] = []
        """The units that lines are about."""

    @property
    def n_matched(self) -> int:
        """How many lines are about units of the runs so far, or about what these were before they continued."""
        return len(self._matched | self._grown)

    @property
    def missing(self) -> list[Line]:
        """The lines that are about none of the runs so far."""
        present = self._matched | self._grown
        return [line for number, line in enumerate(self.lines) if number not in present]

    def apply(self, runs: Sequence[Run]) -> list[Run]:
        """The runs with their labels."""
        if not self.lines:
            return list(runs)
        units = [(row, unit) for row, run in enumerate(runs) for unit in units_of_run(run, scope_of(run.source))]
        numbers = sorted({*chain.from_iterable(self._lines_about(unit) for _, unit in units)})
        number_of = {id(self.lines[number]): number for number in numbers}
        matched = match_lines([self.lines[number] for number in numbers], [unit for _, unit in units])
        self._grown |= {number_of[id(line)] for lines in matched.grown.values() for line in lines}
        self._copies += [
            ", ".join([shorten(units[index][1].run_id) for index in copies[:_MAX_NAMES]]) for copies in matched.copies
        ]
        labelled = list(runs)
        for index, lines in matched.lines.items():
            self._matched |= {number_of[id(line)] for line in lines}
            row, unit = units[index]
            labelled[row] = self._add(labelled[row], unit, lines)
        return labelled

    def _lines_about(self, unit: LabelUnit) -> Iterator[int]:
        for print_ in (unit.print, *unit.beginnings):
            yield from self._by_print.get(print_, ())
        yield from self._by_run_id.get(unit.run_id, ())

    def _add(self, run: Run, unit: LabelUnit, lines: Sequence[Line]) -> Run:
        """The run with a label of one unit, unless it has one that comes before it."""
        resolved = resolve(lines, self._trust)
        turn = None if has_one_turn(run) else unit.turn
        present = unit_label(run, turn)
        self.unit_lines.append(UnitLines(unit, [*verdict_of(present), *lines]))
        if resolved is None or (resolved.source != HAND and present is not None and _comes_first(present)):
            return run
        if resolved.disputed:
            self._disputes.append(_Conflict(unit, resolved.why))
        elif (
            present is not None and present.source == BENCHMARK and {present.success, resolved.success} == {True, False}
        ):
            verdict = "success" if present.success else "failure"
            self._conflicts.append(_Conflict(unit, f"by hand {resolved.outcome}, by the benchmark {verdict}"))
        return add_label(run, RunLabel(resolved.success, resolved.source, resolved.why, turn))

    def notes(self) -> Iterator[LabelNote]:
        """What is to be known of the labels, a sentence each."""
        for file in self.files:
            if file.torn is not None:
                yield LabelNote(
                    f"line {file.torn:,} was cut off while it was written, and is left out", is_problem=True
                )
        if self._conflicts:
            text = f"by hand and by the benchmark differ, and the label by hand counts: {_list(self._conflicts)}"
            yield LabelNote(text, is_problem=True)
        if self._disputes:
            yield LabelNote(f"people disagree, so the outcome is unknown: {_list(self._disputes)}", is_problem=True)
        yield from (
            LabelNote(str(agreement)) for agreement in agreements(lines for _, lines in self.unit_lines)[:_MAX_NAMES]
        )
        only_grown = self._grown - self._matched
        if only_grown:
            labels = count(len(only_grown), "label")
            yield LabelNote(f"{labels} of sessions that have continued since: unknown until confirmed")
        if self.missing:
            yield LabelNote(f"{count(len(self.missing), 'label')} of units that are not among these runs")
        if self._copies:
            yield LabelNote(f"a label counts for all runs with the same texts: {first_of(self._copies, _MAX_NAMES)}")


def _comes_first(label: RunLabel) -> bool:
    """Whether a label comes before evidence that is trusted: it has an outcome, or people disagree."""
    return label.success is not None or label.source == HAND


def verdict_of(label: RunLabel | None) -> list[Line]:
    """The line of a label that the log itself has, and no person gave."""
    if label is None or label.success is None or label.source == HAND:
        return []
    return [{"label": "success" if label.success else "failure", "source": label.source}]


def _list(conflicts: Iterable[_Conflict]) -> str:
    return first_of([str(conflict) for conflict in conflicts], _MAX_NAMES)
