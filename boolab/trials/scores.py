"""The labels of branches by the `score=` of a trial: one that fails ends the trial before more is paid.

The first branch runs alone until one has a label. A branch that was paid is kept. Under another score it is scored
again, from its record, instead of being run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from boolab.core.types import Run
from boolab.errors import SettingError, describe
from boolab.runtime.engine.record import SCORE_FAILED, as_success
from boolab.runtime.engine.turn import Turn
from boolab.sweeps.progress import Begun, CellResult, Watcher
from boolab.trials.estimates import BROKEN

_MARK: Final = "score"
_NO_LABEL: Final = "it returned None"


def mark(turn: Turn, digest: str) -> Turn:
    """The turn of a branch, with the digest of the score that labels it in its event `branch`; "" for none."""
    if digest:
        events = turn.record.events
        place = max(number for number, event in enumerate(events) if event.kind == "branch")
        events[place] = events[place]._replace(payload={**events[place].payload, _MARK: digest})
    return turn


def scored(branches: Sequence[Run], score: Callable[[Run], Any], digest: str) -> list[Run]:
    """Branches with labels: those that the score of this digest has labelled as they are, the others scored again."""
    return [
        run if run.stop.reason in BROKEN or (run.success is not None and _marked(run) == digest) else _anew(run, score)
        for run in branches
    ]


def check_labels(branches: Iterable[Run]) -> None:
    """Raise `SettingError` if the score gave one of these branches no label, with what it did."""
    for run in branches:
        if run.success is None and run.stop.reason not in BROKEN:
            faults = [event.payload for event in run.events if event.payload.get("code") == "score"]
            why = str(faults[-1]["what"]).removeprefix(SCORE_FAILED) if faults else ""
            raise _failed(run, why or _NO_LABEL)


def _failed(run: Run, why: str) -> SettingError:
    return SettingError(
        f"score= failed on branch {run.run_id}: {why}; expected True or False. No further branch was run, and this one "
        "is kept: correct the function and run the trial again; without a world= it is scored from its record"
    )


def _marked(run: Run) -> object:
    """The digest of the score that labelled a branch."""
    return next((event.payload.get(_MARK) for event in reversed(run.events) if event.kind == "branch"), None)


def _anew(run: Run, score: Callable[[Run], Any]) -> Run:
    """A branch with the label that a score gives it."""
    try:
        success = as_success(score(run))
    except Exception as error:
        raise _failed(run, describe(error)) from error
    if success is None:
        raise _failed(run, _NO_LABEL)
    return replace(run, success=success)


class FirstLabel:
    """Watches a trial until one of its branches has a label."""

    def __init__(self, watcher: Watcher, *, labels: bool, settled: bool) -> None:
        self._watcher = watcher
        self._labels = labels
        self.settled = settled or not labels
        self.failed = False
        """Whether a branch that did not break off has no label."""

    def begin(self, begun: Begun) -> None:
        """Pass the begin on."""
        self._watcher.begin(begun)

    def add(self, result: CellResult) -> None:
        """Look at the label of a branch."""
        self._watcher.add(result)
        if result.success is not None:
            self.settled = True
        elif result.reason not in BROKEN:
            self.failed = self.failed or self._labels

    def end(self, error: BaseException | None) -> None:
        """Pass the end on."""
        self._watcher.end(error)
