"""What one sees of a sweep under way: a bar by default, or whatever else was given to look on."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self, cast

from boolab.core.types import Run, StopReason
from boolab.errors import SettingError, StoreError
from boolab.frames.tables import RUN_COLUMNS

_SHOWN = 4
_COST: Final = next(column.get for column in RUN_COLUMNS if column.name == "cost_usd")


class CellResult(NamedTuple):
    """What became of a cell, in few values: cheap to send from one process to another, whatever the run's length.

    Attributes:
        run_id: The run.
        agent: Who ran.
        model: By what name.
        policy: The policy's name.
        task: What was asked.
        settings: The axes of the grid, policies by name; None where the policy has no such setting.
        reason: Why the run stopped.
        n_steps: How many steps it has.
        cost_usd: What it cost, in dollars; None if unknown.
        success: Whether it was one; None if nobody said.
        error: What broke it, if something did.
    """

    run_id: str
    agent: str
    model: str
    policy: str
    task: str
    settings: Mapping[str, Any]
    reason: StopReason
    n_steps: int
    cost_usd: float | None
    success: bool | None
    error: str | None


def result_of(run: Run) -> CellResult:
    """What a run says of its cell: the values that `runs_df` has for it.

    Args:
        run: The run.

    Example:
        >>> import boolab as bl
        >>> result = result_of(bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."])))
        >>> result.reason, result.n_steps, result.success
        ('finished', 1, None)
    """
    return CellResult(
        run.run_id,
        run.agent,
        run.model,
        run.policy,
        run.task,
        run.settings,
        run.stop.reason,
        len(run.steps),
        _COST(run),
        run.success,
        run.error,
    )


class Begun(NamedTuple):
    """A sweep that begins.

    Attributes:
        total: How many cells it has.
        about: What it is made of: `agents`, `tasks`, `models`, `grid` (values by axis) and `repeats`.
        reasons: How the cells ended that were done before, in the store.
        earlier: What became of them: read from the store as it is iterated.
        store: Where the runs are kept, if they are.
    """

    total: int
    about: Mapping[str, Any]
    reasons: Mapping[str, int] = {}
    earlier: Iterable[CellResult] = ()
    store: Path | None = None


class Watcher(Protocol):
    """Looks on while a sweep runs. All calls come from the sweep's own event loop, which waits for them.

    An exception in one of them ends the sweep, as an interrupt would.
    """

    def begin(self, begun: Begun) -> None:
        """The plan is checked, and the first cell is about to run.

        Args:
            begun: The sweep.
        """

    def add(self, result: CellResult) -> None:
        """One more cell is done.

        Args:
            result: What became of it.
        """

    def end(self, error: BaseException | None) -> None:
        """The sweep is over.

        Args:
            error: What ended it before all cells were done: an interrupt, or what went wrong; None for nothing.
        """


class Progress:
    """Counts the cells of a sweep, and tells whoever looks on.

    Args:
        begun: The sweep.
        shown: Whether there is a bar, or what looks on in its place.
    """

    def __init__(self, begun: Begun, shown: bool | Watcher) -> None:
        self.total = begun.total
        self.done = sum(begun.reasons.values())
        self._begun = begun
        self._watcher: Watcher | None = (Bar() if shown else None) if isinstance(shown, bool) else shown

    def __enter__(self) -> Self:
        if self._watcher is not None:
            self._watcher.begin(self._begun)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What a failing store has lost of those that are done, its own error says.
        if error is not None and self._begun.store is not None and not isinstance(error, StoreError):
            error.add_note(kept_in(self.done, self._begun))
        if self._watcher is not None:
            self._watcher.end(error)

    def add(self, result: CellResult) -> None:
        """One more cell is done.

        Args:
            result: What became of it.
        """
        self.done += 1
        if self._watcher is not None:
            self._watcher.add(result)


def kept_in(done: int, begun: Begun) -> str:
    """What is left of a sweep that came to an early end.

    Args:
        done: How many of its cells are done.
        begun: The sweep, which has a store.
    """
    return f"{done:,} of {begun.total:,} runs are kept in {begun.store}; the same call goes on from there"


def check_watcher(progress: object) -> bool | Watcher:
    """Pass on what `progress=` was given.

    Raises:
        SettingError: if it is neither a flag nor something that can look on.
    """
    if isinstance(progress, bool):
        return progress
    methods = (getattr(progress, name, None) for name in ("begin", "add", "end"))
    if isinstance(progress, type) or not all(map(callable, methods)):
        msg = (
            f"progress={progress!r}: expected True, False, or what looks on, such as bl.SweepView(): "
            "an object with begin, add and end"
        )
        raise SettingError(msg)
    return cast("Watcher", progress)


class Bar:
    """A progress bar, in a notebook or in a terminal: cells done, the rate, the time left, and why runs stopped."""

    def begin(self, begun: Begun) -> None:
        from tqdm.auto import tqdm

        self._begun = begun
        self._reasons = Counter(begun.reasons)
        self._bar: Any = tqdm(total=begun.total, initial=self._reasons.total(), unit="run", desc="sweep", smoothing=0.1)
        self._tell()

    def add(self, result: CellResult) -> None:
        self._reasons[result.reason] += 1
        self._tell()
        self._bar.update()

    def end(self, error: BaseException | None) -> None:
        self._tell(refresh=True)
        self._bar.close()
        if error is not None and self._begun.store is not None and not isinstance(error, StoreError):
            self._bar.write(f"sweep: {kept_in(self._reasons.total(), self._begun)}", file=sys.stderr)

    def _tell(self, *, refresh: bool = False) -> None:
        common = self._reasons.most_common()
        told = [f"{number:,} {reason}" for reason, number in common[:_SHOWN]]
        rest = sum(number for _, number in common[_SHOWN:])
        self._bar.set_postfix_str(", ".join([*told, *([f"{rest:,} others"] if rest else [])]), refresh=refresh)
