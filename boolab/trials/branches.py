"""Runs the branches of a trial with the driver of sweeps: in one event loop or on workers, into a store or not.

The first branch runs alone until one has a label: a `score=` that fails ends the trial before more is paid. A branch
that was paid is kept. Under another score it is scored again, from its record, instead of being run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from boolab.core.executors import Executor
from boolab.core.run import Run
from boolab.core.run_tree import tool_calls
from boolab.core.text import first_of
from boolab.errors import SettingError, StoreError, describe
from boolab.io.git.scratch import remove_leftovers
from boolab.runtime.engine.keep import kept_state
from boolab.runtime.engine.loop import SCORE_FAILED, as_success
from boolab.runtime.engine.turn import Turn
from boolab.store.connection import path_of
from boolab.sweeps.cells import PlannedCell, Task
from boolab.sweeps.driver import Work, run_work
from boolab.sweeps.fingerprints import fingerprint
from boolab.sweeps.progress import Begun, CellResult, Watcher
from boolab.trials.estimates import BROKEN_REASONS
from boolab.trials.job import MARK, BranchCell, BranchJob
from boolab.trials.spending import Spending

if TYPE_CHECKING:
    from boolab.store.writer import Store

REPEATED_REASONS: Final = ("error", "aborted")
"""How a branch ends that shows nothing about the change: it is run again."""
_MAX_TOOLS: Final = 5
"""How many names of tools an error has."""


async def run_branches(
    cells: Sequence[BranchCell],
    job: BranchJob,
    *,
    ids: Sequence[str],
    n: int,
    store: str | Path | None,
    executor: Executor | None,
    concurrency: int | None,
    spending: Spending,
    finished: dict[str, Run],
    labelled: bool,
) -> None:
    """Run branches in their order, as far as the maximum goes; `finished` gets them, also if the trial ends early."""
    if job.score is not None:
        job = replace(job, score_digest=fingerprint(job.score))
    # With replay_tools, the record will not have the missing result another time either.
    repeated_reasons = () if job.replay_tools else REPEATED_REASONS
    records = {run_id: cell.run.run_id for cell, run_id in zip(cells, ids, strict=True)}
    completed = (run for run in finished.values() if run.stop.reason not in repeated_reasons)
    finished_ids = () if store is not None else {run.run_id for run in completed}
    chosen_cells = list(zip(cells, ids, strict=True))[:n]

    labels = labelled and job.score is not None
    if store is not None and path_of(store).exists():
        stored = _read_finished(store, ids, spending)
        finished.update((records[run.run_id], run) for run in stored if run.run_id in records)
    if labels:
        finished.update(zip(finished, _label_earlier(job, [*finished.values()]), strict=True))
    earlier = {run.run_id: run.success for run in finished.values()} if labels else {}
    settled = any(label is not None for label in earlier.values())
    first = FirstLabel(spending, labelled=labels, settled=settled)

    def list_unfinished(finished_cells: Sequence[int] | None, _store: Store | None) -> Iterator[Task | None]:
        todo = (
            Task((PlannedCell(index, cast("Any", cell), run_id),))
            for index, (cell, run_id) in enumerate(chosen_cells)
            if run_id not in finished_ids and not (finished_cells is not None and finished_cells[index])
        )
        return _allowed_tasks(todo, first, spending)

    _check(chosen_cells, job, labelled=labelled)
    if job.world is not None:
        remove_leftovers(set(ids))
    names = [(run_id, run_id) for _, run_id in chosen_cells]  # so that no branch replaces that of another trial
    plan_facts = {
        "trial": True,
        "agents": sorted({cell.agent.name for cell, _ in chosen_cells}),
        "tasks": [],
        "models": [],
        "grid": {},
        "repeats": 1,
    }
    work = Work(job, names, plan_facts, list_unfinished)
    runs: Iterable[Run] = ()
    try:
        runs = await run_work(
            work, store=store, executor=executor, concurrency=concurrency, again=repeated_reasons, watcher=first
        )  # fmt: skip
        runs = runs if store is None else _read_finished(store, ids, spending)
    except BaseException as interruption:
        runs = _find_finished(interruption, store, ids, spending)
        raise
    finally:
        finished_runs = [
            replace(run, success=earlier.get(run.run_id, run.success)) for run in runs if run.run_id in records
        ]
        finished.update((records[run.run_id], run) for run in finished_runs)
    if labels:
        check_labels(finished.values())


def _allowed_tasks(todo: Iterable[Task], first: FirstLabel, spending: Spending) -> Iterator[Task | None]:
    """The branches to run, as far as the maximum goes and the score labels them; None while others are waited for."""
    for task in todo:
        while not first.settled and spending.under_way:
            yield None
        if first.failed:
            return
        while not spending.may_start():
            if not spending.under_way:
                return
            yield None  # those under way may cost less than they may
        yield task


def _check(chosen_cells: Iterable[tuple[BranchCell, str]], job: BranchJob, *, labelled: bool) -> None:
    """Raise `SettingError` for the first branch that is not accepted, before anything is spent."""
    for cell, run_id in chosen_cells:
        try:
            turn = job.turn(cell, run_id)
            _check_tools(turn, cell.run)
            if labelled:
                _check_score(turn)
            if job.world is not None:
                kept_state(cell.run, cell.n_kept)
        except SettingError as error:
            raise SettingError(f"{cell}: {error}") from error


def _check_tools(turn: Turn, run: Run) -> None:
    """Raise `SettingError` if a run called tools and its branch has none at all: the model could only write text."""
    called_tools = list(dict.fromkeys(call.name for call in tool_calls(run)))
    replies = turn.plan.traits.replies_to
    if not called_tools or turn.plan.tools or turn.plan.text_only or any(map(replies, called_tools)):
        return
    raise SettingError(
        f"the run called {first_of(called_tools, _MAX_TOOLS)}, and the branch has no tools: pass tools=, an agent= "
        "that has them, or replay_tools=True"
    )


def _check_score(turn: Turn) -> None:
    """Raise `SettingError` if nothing labels a branch."""
    profile = turn.plan.traits.profile
    undecided = profile is not None and profile.success is None
    if turn.plan.options.get("score") is None and (undecided or turn.plan.traits.score is None):
        explanation = " (the profile of the simulated model has no success)" if undecided else ""
        raise SettingError(
            f"runs on record have labels, and the branch would have none{explanation}, so that its outcome would be "
            "unknown: pass score=, a function from a branch to whether it is a success"
        )


def _find_finished(
    interruption: BaseException, store: str | Path | None, ids: Sequence[str], spending: Spending
) -> Iterable[Run]:
    """The finished branches after an interrupt or an error."""
    if store is not None:
        with suppress(StoreError):  # the first error is the one to report
            return _read_finished(store, ids, spending)
    for run in getattr(interruption, "interrupted", ()):
        spending.count([run])
    runs: Iterable[Run] = getattr(interruption, "runs", ())
    return runs


def _read_finished(store: str | Path, ids: Sequence[str], spending: Spending) -> list[Run]:
    """The finished branches in a store, and their subagents; all attempts there are counted as spent."""
    from boolab.store.stored_runs import attempts

    spending.count_store(store)
    return [_nest_subagents(runs) for state, runs in attempts(store, ids) if state == "finished"]


def _label_earlier(job: BranchJob, branches: list[Run]) -> list[Run]:
    """Branches of an earlier run as this score labels them; with a world, as it did, because its files are gone."""
    if job.world is None and job.score is not None:
        return score_branches(branches, job.score, job.score_digest)
    check_labels(branches)
    return branches


def _nest_subagents(family: Sequence[Run]) -> Run:
    """A run with those of its subagents inside, each with its own."""

    def nest(run: Run) -> Run:
        subagents = [nest(child) for child in family[1:] if child.parent_run_id == run.run_id]
        return replace(run, subagents=tuple(subagents)) if subagents else run

    return nest(family[0])


_NO_LABEL: Final = "it returned None"


def score_branches(branches: Sequence[Run], score: Callable[[Run], Any], digest: str) -> list[Run]:
    """Branches with labels: those that the score of this digest has labelled as they are, the others scored again."""
    return [
        run
        if run.stop.reason in BROKEN_REASONS or (run.success is not None and _recorded_digest(run) == digest)
        else _score_again(run, score)
        for run in branches
    ]


def check_labels(branches: Iterable[Run]) -> None:
    """Raise `SettingError` if the score gave one of these branches no label, with what it did."""
    for run in branches:
        if run.success is None and run.stop.reason not in BROKEN_REASONS:
            faults = [event.payload for event in run.events if event.payload.get("code") == "score"]
            explanation = str(faults[-1]["what"]).removeprefix(SCORE_FAILED) if faults else ""
            raise _score_error(run, explanation or _NO_LABEL)


def _score_error(run: Run, explanation: str) -> SettingError:
    return SettingError(
        f"score= failed on branch {run.run_id}: {explanation}; expected True or False. No further branch was run, and "
        "this one is kept: correct the function and run the trial again; without a world= it is scored from its record"
    )


def _recorded_digest(run: Run) -> object:
    """The digest of the score that labelled a branch."""
    return next((event.payload.get(MARK) for event in reversed(run.events) if event.kind == "branch"), None)


def _score_again(run: Run, score: Callable[[Run], Any]) -> Run:
    """A branch with the label that a score gives it."""
    try:
        success = as_success(score(run))
    except Exception as error:
        raise _score_error(run, describe(error)) from error
    if success is None:
        raise _score_error(run, _NO_LABEL)
    return replace(run, success=success)


class FirstLabel:
    """Watches a trial until one of its branches has a label."""

    def __init__(self, watcher: Watcher, *, labelled: bool, settled: bool) -> None:
        self._watcher = watcher
        self._labelled = labelled
        self.settled = settled or not labelled
        self.failed = False
        """Whether a branch that did not break off has no label."""

    def begin(self, beginning: Begun) -> None:
        """Pass the begin on."""
        self._watcher.begin(beginning)

    def add(self, result: CellResult) -> None:
        """Look at the label of a branch."""
        self._watcher.add(result)
        if result.success is not None:
            self.settled = True
        elif result.reason not in BROKEN_REASONS:
            self.failed = self.failed or self._labelled

    def end(self, error: BaseException | None) -> None:
        """Pass the end on."""
        self._watcher.end(error)
