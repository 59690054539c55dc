"""The runs of the benchmark, with the set, the model, the task and the fold of each, and what each step cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import file_digest
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.stoprulebench.kinds import kind_of
from benchmarks.stoprulebench.splits import Splits, splits
from boolab.core.run import Run
from boolab.core.run_labels import has_turn_labels
from boolab.core.text import count
from boolab.errors import SettingError
from boolab.io.files import open_file
from boolab.logs.log_files import scope_of
from boolab.whatif.step_table import Flags, Ints

Floats = npt.NDArray[np.float64]

SET: Final = "set"
"""The entry of `Run.settings` that names the set of a run."""


class DataFile(NamedTuple):
    """A file that runs were read from: its name, without folders, and the SHA-256 of its bytes."""

    name: str
    sha256: str


class Cell(NamedTuple):
    """The runs that are in the same parts of every track: of one set, one model and one fold."""

    set_name: str
    model: str
    fold: int


@dataclass(frozen=True)
class Recordings:
    """R labelled runs, those of a set together, and in a set those of a cell.

    Attributes:
        name: What the data are called.
        files: The files that they were read from.
        runs: The runs.
        cells: The cells, in order.
        cell: R: the place of each run's cell in `cells`.
        task: R: a number for each task, the same for all runs of a task; a run without a task is one of its own.
        n_left_out: How many runs were left out because they have no label or no step.
        fixed: The splits.
        hidden: The kind of each hidden set, by its name: such sets are judged, and never trained on.
    """

    name: str
    files: tuple[DataFile, ...]
    runs: tuple[Run, ...]
    cells: tuple[Cell, ...]
    cell: Ints
    task: Ints
    n_left_out: int
    fixed: Splits
    hidden: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def sets(self) -> tuple[str, ...]:
        """The names of the sets, in order."""
        return tuple(dict.fromkeys(cell.set_name for cell in self.cells))

    @property
    def kinds(self) -> list[str]:
        """The kind of each of `sets`."""
        return [self.hidden.get(name) or kind_of(name) for name in self.sets]

    @cached_property
    def set_of_cell(self) -> Ints:
        """The place of each cell's set in `sets`."""
        place = {name: n for n, name in enumerate(self.sets)}
        return np.array([place[cell.set_name] for cell in self.cells], dtype=np.int64)

    @cached_property
    def set_of(self) -> Ints:
        """R: the place of each run's set in `sets`."""
        return self.set_of_cell[self.cell]

    @cached_property
    def lengths(self) -> Ints:
        """R: the number of steps."""
        return np.array([len(run.steps) for run in self.runs], dtype=np.int64)

    @cached_property
    def first(self) -> Ints:
        """R + 1: the place of each run's first step among all steps."""
        return np.concatenate(([0], np.cumsum(self.lengths)))

    @cached_property
    def success(self) -> Flags:
        """R: whether the run was a success."""
        return np.array([run.success for run in self.runs], dtype=bool)

    @cached_property
    def cost_so_far(self) -> Floats:
        """The dollars of all steps before each place among all steps, one more than there are steps."""
        costs = (step.response.usage.cost for run in self.runs for step in run.steps)
        micro = np.fromiter((-1 if cost is None else cost for cost in costs), dtype=np.int64)
        return np.concatenate(([0.0], np.cumsum(np.maximum(micro, 0)) / 1e6))

    @cached_property
    def has_cost(self) -> Flags:
        """R: whether the cost of all steps is known."""
        return np.array([all(step.response.usage.cost is not None for step in run.steps) for run in self.runs])

    def tasks(self) -> list[tuple[str, str]]:
        """The set and the name of each run's task."""
        return [(set_of(run), _task(run)) for run in self.runs]

    def digest(self) -> str:
        """The SHA-256 of the splits of these runs."""
        return self.fixed.digest(self.tasks())


def set_of(run: Run) -> str:
    """The set of a run: its setting `set`, or else the source that it comes from."""
    return str(run.settings.get(SET) or run.source)


def _task(run: Run) -> str:
    return run.task or f"run {run.run_id}"


def recordings_of(
    runs: Iterable[Run],
    name: str,
    files: Iterable[DataFile] = (),
    at: Splits | None = None,
    hidden: Mapping[str, str] | None = None,
) -> Recordings:
    """The recordings of these runs. Those without a label or without a step are left out and counted.

    Args:
        runs: The runs; the setting `set` of each, or else its source, is its set.
        name: What the data are called.
        files: The files that they were read from.
        at: The splits; by default those of this version.
        hidden: The kind of each hidden set, by its name; no set is hidden by default.

    Raises:
        SettingError: if no run has a label, or none of those that have is a success, two runs have the same id, or
            turns of sessions have labels of their own.
    """
    fixed = at or splits()
    given = list(runs)
    judged_by_turn = [run for run in given if has_turn_labels(run) and scope_of(run.source) == "turn"]
    if judged_by_turn:
        msg = (
            f"{name}: turns of {count(len(judged_by_turn), 'run')} have labels of their own, and StopRuleBench judges "
            "whole runs: label the runs (bl.label), or leave these out"
        )
        raise SettingError(msg)
    used = [run for run in given if run.success is not None and run.steps]
    if not any(run.success for run in used):
        what = "no successful run" if used else "no run with a success label and a step"
        msg = f"{name}: there is {what} among {count(len(given), 'run')}: expected labelled runs (see --labels)"
        raise SettingError(msg)
    twice = [run_id for run_id, n in Counter(run.run_id for run in used).items() if n > 1]
    if twice:
        raise SettingError(f"{name}: {count(len(twice), 'run id')} occur more than once, such as {twice[0]!r}")
    place = {name: n for n, name in enumerate(dict.fromkeys(map(set_of, used)))}
    cell_of = {run.run_id: Cell(set_of(run), run.model, fixed.fold_of(set_of(run), _task(run))) for run in used}
    used.sort(key=lambda run: (place[set_of(run)], cell_of[run.run_id]))
    cells = tuple(dict.fromkeys(cell_of[run.run_id] for run in used))
    number = {cell: n for n, cell in enumerate(cells)}
    task: dict[tuple[str, str], int] = {}
    tasks = [task.setdefault((set_of(run), _task(run)), len(task)) for run in used]
    return Recordings(
        name,
        tuple(files),
        tuple(used),
        cells,
        np.array([number[cell_of[run.run_id]] for run in used], dtype=np.int64),
        np.array(tasks, dtype=np.int64),
        len(given) - len(used),
        fixed,
        hidden or {},
    )


def hashed(paths: Iterable[Path]) -> list[DataFile]:
    """These files, in this order."""
    return [DataFile(path.name, _digest(path)) for path in paths]


def _digest(path: Path) -> str:
    with open_file(path) as file:
        return file_digest(file, "sha256").hexdigest()
