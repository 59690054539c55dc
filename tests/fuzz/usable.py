"""What was read must be usable: shown, asked, and saved and read again, without an error of any kind."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from zlib import crc32

import boolab as bl
from boolab.core.run import Run
from boolab.errors import BoolabError, ReadWarning
from tests.fuzz.contract import BrokenError

FRAMES: Final = (bl.runs_df, bl.steps_df, bl.calls_df, bl.events_df, bl.recording_df)


def use(runs: Sequence[Run], data: bytes, folder: Path) -> None:
    """Look at runs, and use them in one way, or none, which the input chooses."""
    for run in runs:
        if [step.index for step in run.steps] != list(range(1, run.n_steps + 1)):
            raise BrokenError("the steps of a run are not numbered from 1")
        if any(len(step.results) != len(step.response.tool_calls) for step in run.steps):
            raise BrokenError("a step has not one result for each of its calls")
    if len({run.run_id for run in runs}) != len(runs):
        if any(run.source == "boolab" for run in runs):  # they are read as they were saved, and one may be there twice
            return
        raise BrokenError("two runs of one file have the same id")
    chosen = crc32(data) % (EVERY * len(WAYS))
    if chosen >= len(WAYS) or not runs:  # an empty file is of no format
        return
    try:
        WAYS[chosen](runs, folder)
    except BoolabError as error:
        raise BrokenError(f"what was read cannot be used: {type(error).__name__}: {error}") from error


def _shown(runs: Sequence[Run], _folder: Path) -> None:
    for run in runs:
        str(run)
        repr(run)


def _framed(runs: Sequence[Run], _folder: Path) -> None:
    for frame in FRAMES:
        frame(runs)


def _asked(runs: Sequence[Run], _folder: Path) -> None:
    bl.counterfactual(runs, grid={"max_steps": [1, 2], "tool_budget": [1, None], "doom_loop": [2]})
    bl.counterfactual(runs, grid={"max_steps": [1]}, scope="run", aggregate=True)


def _saved_as(suffix: str) -> Callable[[Sequence[Run], Path], None]:
    def saved(runs: Sequence[Run], folder: Path) -> None:
        path = folder / f"saved{suffix}"
        if suffix == ".db":
            for old in folder.glob("saved.db*"):
                old.unlink()
            with bl.Store(path) as store:
                for run in runs:
                    store.add(run)
        else:
            bl.save_runs(runs, path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReadWarning)  # that there is no run in it, for one
            found = bl.load_runs(path)
        if found != list(runs):
            raise BrokenError(f"saved as {suffix} and read again, the runs are others")

    return saved


WAYS: Final = (_shown, _framed, _asked, *(_saved_as(suffix) for suffix in (".jsonl", ".parquet", ".db")))
EVERY: Final = 3
"""One of so many inputs is used in one of the ways: they take longer than all else."""
