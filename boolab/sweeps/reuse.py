"""Cells whose run follows from another cell's run.

Under a plain policy the model is never informed of its cap, its budget and its doom-loop threshold. The run of a
tighter setting is then the beginning of the run of a looser one, up to the first boundary at which a rule of the
tighter one is true; how it ends there (reason, sentinel, summary, score) is decided by the live rules. Where anything
in the run might depend on the setting, the cell does not follow, and is run.
"""

from __future__ import annotations

import asyncio
import copy
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import Final

from boolab.core.run import Run
from boolab.core.types import Stop
from boolab.errors import BoolabError, UnknownCounter
from boolab.harnesses.policy import Policy
from boolab.limits.detector import Detector
from boolab.limits.ladder import LadderState, Progress
from boolab.limits.stop import Threshold
from boolab.limits.table import AGENT_LIMITS
from boolab.runtime.engine.loop import as_success, close, wrap_up
from boolab.runtime.engine.plan import TurnOptions, TurnPlan, plan_of
from boolab.runtime.engine.turn import Turn
from boolab.sweeps.cells import Cell, PlannedCell

_RUN_EVENTS: Final = frozenset({"ignored", "retry", "throttled"})
_END_EVENTS: Final = frozenset({"sentinel"})
_YIELD_EVERY: Final = 50


def is_plain(policy: Policy) -> bool:
    """Whether the model is never informed of its cap, its budget and its doom-loop threshold."""
    return (
        policy.cap.kind == "hard"
        and policy.cap.counts == "steps"
        and policy.cap.check == "boundary"
        and policy.last_step.action == "tools"
        and policy.last_step.reminder == "none"
        and policy.budgets.batch == "overshoot"
        and policy.continues.by != "loop"
    )


def group_cells(cells: Iterable[PlannedCell], answers: Callable[[Cell], object]) -> Iterator[list[PlannedCell]]:
    """Groups of cells that may follow from their first, the loosest; all others alone."""
    groups: dict[object, list[PlannedCell]] = {}
    for entry in cells:
        group = _group_key(entry.cell)
        groups.setdefault(entry.position if group is None else (group, answers(entry.cell)), []).append(entry)
    for group in groups.values():
        loosest = max(group, key=lambda entry: _looseness(entry.cell))
        if all(_is_within(entry.cell, loosest.cell) for entry in group):
            yield [loosest, *(entry for entry in group if entry is not loosest)]
        else:
            yield from ([entry] for entry in group)


async def derive_runs(
    turn: Turn, base: Run, cells: Sequence[PlannedCell], options_of: Callable[[Cell, str], TurnOptions]
) -> AsyncGenerator[tuple[PlannedCell, Run | None], None]:
    """Each cell with its run, cut from `base`, the run of a looser cell; None if it does not follow."""
    if not cells:
        return
    model = turn.plan.model
    plans = [plan_of({**options_of(entry.cell, entry.run_id), "model": model}) for entry in cells]
    path = _Path(turn.plan, base, plans) if _is_plain_run(base) else None
    for number, (entry, plan) in enumerate(zip(cells, plans, strict=True), 1):
        yield entry, None if path is None else await path.run_under(plan)
        if number % _YIELD_EVERY == 0:
            await asyncio.sleep(0)


def _group_key(cell: Cell) -> object:
    """The key that cells share if they may follow from each other; None for a cell that follows from none."""
    if not is_plain(cell.policy) or cell.settings.get("max_steps") == 0:
        return None
    swept = [name for name in AGENT_LIMITS if cell.settings.get(name) is not None or name in cell.settings]
    if not any(name in cell.policy.order for name in swept):
        return None
    return cell.policy.name, repr(cell.settings.get("temperature")), cell.repeat


def _looseness(cell: Cell) -> tuple[float, ...]:
    values = (cell.settings.get(name) for name in AGENT_LIMITS)
    return tuple(float("inf") if value is None else value for value in values)


def _is_within(cell: Cell, other: Cell) -> bool:
    """Whether no limit of a cell is looser than the other's."""
    return all(limit <= other_limit for limit, other_limit in zip(_looseness(cell), _looseness(other), strict=True))


def _is_plain_run(run: Run) -> bool:
    """Whether nothing in a run may depend on its limits, except its end."""
    has_plain_events = {event.kind for event in run.events} <= _RUN_EVENTS | _END_EVENTS
    kept_apart = not (run.subagents or run.inputs or run.compactions or run.earlier_wrap_ups)
    timed = all(step.start_ms is not None and step.duration_ms is not None for step in run.steps)
    is_complete = not any(step.error for step in run.steps[: run.stop.step]) and len(run.steps) >= run.stop.step
    return has_plain_events and kept_apart and timed and is_complete and run.stop.reason not in ("aborted", "paused")


class _Path:
    """The boundaries of a run, with the counters at each."""

    def __init__(self, base: TurnPlan, run: Run, plans: Sequence[TurnPlan]) -> None:
        self._run = run
        detectors = dict.fromkeys(chain.from_iterable(plan.detectors for plan in plans))
        self._counters = list(_counters(run, tuple(detectors)))
        self._follows = _rules_were_evaluated(base, run, self._counters[-1])
        if not self._follows and run.stop.reason in ("finished", "synthesis"):
            self._counters.pop()
            self._follows = True
        self._peaks: dict[tuple[str, float], list[float]] = {}

    async def run_under(self, plan: TurnPlan) -> Run | None:
        """The run under other limits; None if it does not follow."""
        rule = plan.limits.rule
        if (
            not self._follows
            or plan.text_only
            or not all(
                isinstance(alternative, Threshold) for alternative in (() if rule is None else rule.alternatives)
            )
        ):
            return None
        leaves = [] if rule is None else list(rule.leaves())
        index = min(map(self._first_boundary, leaves), default=len(self._counters))
        try:
            if index == len(self._counters):
                return self._whole_run(plan)
            stop = plan.verdict(plan.limits, self._counters[index])
            return None if stop is None else await _cut_short(plan, self._run, index, stop)
        except BoolabError:
            return None

    def _first_boundary(self, rule: Threshold) -> int:
        """The first boundary at which a rule is true, or cannot be decided; their number, if there is none."""
        unknown = float("-inf" if rule.on_unknown == "ignore" else "inf")
        peaks = self._peaks.get((rule.counter, unknown))
        if peaks is None:
            values = (counters[rule.counter] for counters in self._counters)
            peaks = list(accumulate((unknown if value is None else value for value in values), max))
            self._peaks[rule.counter, unknown] = peaks
        return bisect_left(peaks, rule.threshold)

    def _whole_run(self, plan: TurnPlan) -> Run | None:
        """The whole run: no limit is reached in it."""
        if {event.kind for event in self._run.events} & _END_EVENTS:
            return None
        options, score = plan.options, plan.score
        run = replace(
            self._run,
            run_id=options["run_id"] or "",
            settings=dict(options["settings"]),
            limits=plan.recorded_limits(plan.limits),
            identity=plan.identity,
            success=None,
        )
        if score is None:
            return run
        try:
            return replace(run, success=as_success(score(run)))
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - then it is run, and its record has the error
            return None


async def _cut_short(plan: TurnPlan, run: Run, n_steps: int, stop: Stop) -> Run:
    """The record of a run as it would be, had another limit stopped it after its first steps."""
    steps = run.steps[:n_steps]
    start_ms = 0 if not steps else (steps[-1].start_ms or 0) + (steps[-1].duration_ms or 0)
    turn = Turn(plan, run.prompt, start_ms=start_ms)
    turn.history.steps.extend(steps)
    # Those of the base's own summary, which came after its last step, have no number of a step.
    turn.record.events = [e for e in run.events if e.payload.get("step_number", n_steps + 1) <= n_steps]
    turn.record.started_at = run.started_at
    turn.step.move("limit")
    cancelled = await wrap_up(turn, stop)
    if cancelled is not None:
        raise cancelled
    return close(turn, stop)


def _rules_were_evaluated(plan: TurnPlan, run: Run, last: Progress) -> bool:
    """Whether the rules were evaluated at the last boundary of a run: not where a step ended it from within."""
    if len(run.steps) > run.stop.step:
        return True
    try:
        return plan.verdict(plan.limits, last) == run.stop
    except UnknownCounter:
        return run.stop.reason == "error"


def _counters(run: Run, detectors: Sequence[Detector]) -> Iterator[Progress]:
    """The counters at each boundary of a run of one turn."""
    ladder = LadderState(detectors)
    yield copy.copy(ladder.counters)
    for step in run.steps[: run.stop.step]:
        ladder.apply(step)
        yield copy.copy(ladder.counters)
