"""Cells that follow from another one's run.

Under a plain policy the model never knows of its cap, its budget and its doom-loop threshold. The run of a tighter
setting is then the beginning of the run of a looser one, up to the first boundary at which a rule of the tighter one is
true; how it ends there (reason, sentinel, summary, score) the live rules say. Where anything in the run might depend on
the setting after all, the cell does not follow, and is run.
"""

from __future__ import annotations

import asyncio
import copy
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, Final

from boolab.bounds import Bounds
from boolab.clock import VirtualClock, WallClock
from boolab.conversation import Conversation
from boolab.errors import BoolabError, UnknownCounter
from boolab.policy import SETTINGS, Policy
from boolab.setup import Setup
from boolab.stop import Progress, Threshold
from boolab.sweeps.cells import Cell, Planned
from boolab.turn import Turn, as_success
from boolab.types import Run, Stop
from boolab.wrap_up import wrap_up

_OF_THE_RUN: Final = frozenset({"retry", "throttled"})
_OF_THE_END: Final = frozenset({"sentinel"})
_AT_ONCE: Final = 50


def is_plain(policy: Policy) -> bool:
    """Whether the model never sees how its cap, its budget and its doom-loop threshold stand.

    Example:
        >>> from boolab.presets import policies
        >>> is_plain(policies["boocode"]), is_plain(policies["opencode_v2"])
        (True, False)
    """
    return (
        policy.cap == "hard"
        and policy.cap_counts == "steps"
        and policy.cap_check == "boundary"
        and policy.last_step == "tools"
        and policy.reminder == "none"
        and policy.budget_batch == "overshoot"
        and policy.continues_by != "loop"
    )


def groups(cells: Iterable[Planned], answers: Callable[[Cell], object]) -> Iterator[list[Planned]]:
    """Cells that may follow from the first of their group, the loosest; all others alone.

    Args:
        cells: The cells of one agent, task and model.
        answers: What tells the models of two cells apart, where a function makes them.
    """
    found: dict[object, list[Planned]] = {}
    for planned in cells:
        group = _group(planned.cell)
        found.setdefault(planned.place if group is None else (group, answers(planned.cell)), []).append(planned)
    for group in found.values():
        loosest = max(group, key=lambda planned: _looseness(planned.cell))
        if all(_is_within(planned.cell, loosest.cell) for planned in group):
            yield [loosest, *(planned for planned in group if planned is not loosest)]
        else:
            yield from ([planned] for planned in group)


async def derived(
    turn: Turn, base: Run, cells: Sequence[Planned], setup: Callable[[Cell, str], Setup]
) -> AsyncGenerator[tuple[Planned, Run | None], None]:
    """The runs of cells, as far as they follow from the run of a looser one.

    Args:
        turn: A turn of the looser cell.
        base: Its run.
        cells: The cells, each with limits that are no looser.
        setup: What a cell is run with.

    Yields:
        Each cell with its run; None if it does not follow.
    """
    if not cells:
        return
    setups = [setup(planned.cell, planned.run_id) for planned in cells]
    bounds = [_bounds(one, turn) for one in setups]
    follows = _is_plain_run(base)
    path = _Path(turn, base, bounds) if follows else None
    for number, (planned, one, rules) in enumerate(zip(cells, setups, bounds, strict=True), 1):
        yield planned, None if path is None else await path.run_under(one, rules)
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)


def _bounds(setup: Setup, turn: Turn) -> Bounds:
    assert setup.agent is not None  # noqa: S101 - a cell has one
    return Bounds(setup, setup.agent, turn.policy, turn.tools)


def _group(cell: Cell) -> object:
    """What cells have in common that may follow from each other; None for one that follows from none."""
    if not is_plain(cell.policy) or cell.settings.get("steps") == 0:
        return None
    swept = [name for name in SETTINGS if cell.settings.get(name) is not None or name in cell.settings]
    if not any(name in cell.policy.order for name in swept):
        return None
    return cell.policy.name, repr(cell.settings.get("temperature")), cell.repeat


def _looseness(cell: Cell) -> tuple[float, ...]:
    values = (cell.settings.get(name) for name in SETTINGS)
    return tuple(float("inf") if value is None else value for value in values)


def _is_within(cell: Cell, other: Cell) -> bool:
    """Whether no limit of a cell is looser than the other's."""
    return all(mine <= its for mine, its in zip(_looseness(cell), _looseness(other), strict=True))


def _is_plain_run(run: Run) -> bool:
    """Whether nothing in a run may depend on its limits, but its end."""
    known = {event.kind for event in run.events} <= _OF_THE_RUN | _OF_THE_END
    kept_apart = not (run.subagents or run.inputs or run.compactions or run.earlier_wrap_ups)
    timed = all(step.start_ms is not None and step.duration_ms is not None for step in run.steps)
    whole = not any(step.error for step in run.steps[: run.stop.step]) and len(run.steps) >= run.stop.step
    return known and kept_apart and timed and whole and run.stop.reason not in ("aborted", "paused")


class _Path:
    """The boundaries of a run, with the counters at each."""

    def __init__(self, turn: Turn, run: Run, bounds: Sequence[Bounds]) -> None:
        self._turn = turn
        self._run = run
        detectors = dict.fromkeys(detector for rules in bounds for detector in rules.detectors)
        self._counters = list(_counters(run, Progress(tuple(detectors))))
        self._follows = _was_asked(turn.bounds, run, self._counters[-1])
        if not self._follows and run.stop.reason in ("finished", "synthesis"):
            self._counters.pop()
            self._follows = True
        self._peaks: dict[tuple[str, float], list[float]] = {}

    async def run_under(self, setup: Setup, bounds: Bounds) -> Run | None:
        """The run under other limits; None if it does not follow."""
        rule = bounds.rule
        if (
            not self._follows
            or bounds.text_only
            or not all(isinstance(one, Threshold) for one in (() if rule is None else rule.alternatives))
        ):
            return None
        leaves = [] if rule is None else list(rule.leaves())
        place = min(map(self._first, leaves), default=len(self._counters))
        try:
            if place == len(self._counters):
                return self._whole(setup, bounds)
            stop = bounds.verdict(self._counters[place])
            return None if stop is None else await self._cut(setup, bounds, place, stop)
        except BoolabError:
            return None

    def _first(self, rule: Threshold) -> int:
        """The first boundary at which a rule is true, or cannot be decided; their number, if there is none."""
        unknown = float("-inf" if rule.on_unknown == "ignore" else "inf")
        peaks = self._peaks.get((rule.counter, unknown))
        if peaks is None:
            values = (counters[rule.counter] for counters in self._counters)
            peaks = list(accumulate((unknown if value is None else value for value in values), max))
            self._peaks[rule.counter, unknown] = peaks
        return bisect_left(peaks, rule.threshold)

    def _whole(self, setup: Setup, bounds: Bounds) -> Run | None:
        """The whole run: no limit is reached in it."""
        if {event.kind for event in self._run.events} & _OF_THE_END:
            return None
        facts: dict[str, Any] = {"run_id": setup.run_id, "settings": dict(setup.settings), "limits": bounds.on_record()}
        run = replace(self._run, **facts, identity=bounds.identity, success=None)
        score = setup.score or getattr(self._turn.model, "score", None)
        if score is None:
            return run
        try:
            return replace(run, success=as_success(score(run)))
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - then it is run, and its record says so
            return None

    async def _cut(self, setup: Setup, bounds: Bounds, place: int, stop: Stop) -> Run:
        """The run up to a boundary, and what follows a stop there."""
        steps = self._run.steps[:place]
        now = 0 if not steps else (steps[-1].start_ms or 0) + (steps[-1].duration_ms or 0)
        turn = copy.copy(self._turn)
        turn.setup, turn.bounds, turn.run_id = setup, bounds, setup.run_id or turn.run_id
        turn.agent = setup.agent or turn.agent
        turn.talk = Conversation(tuple(turn.talk.prompt))
        turn.talk.steps.extend(steps)
        # Those of the base's own summary, which came after its last step, have no number of a step.
        turn.events = [e for e in self._run.events if e.payload.get("step_number", place + 1) <= place]
        turn.clock = VirtualClock(now) if turn.clock.virtual else WallClock(now)
        turn.now = turn.clock.now
        turn.started_at = self._run.started_at
        turn.progress = self._counters[place]
        turn.error = turn.wrap_up = turn.sentinel = turn.synthesis = None
        cancelled = await wrap_up(turn, stop)
        if cancelled is not None:
            raise cancelled
        return turn.close(stop)


def _was_asked(bounds: Bounds, run: Run, last: Progress) -> bool:
    """Whether the rules were asked at the last boundary of a run: not where a step ended it from within."""
    if len(run.steps) > run.stop.step:
        return True
    try:
        return bounds.verdict(last) == run.stop
    except UnknownCounter:
        return run.stop.reason == "error"


def _counters(run: Run, progress: Progress) -> Iterator[Progress]:
    """The counters at each boundary of a run of one turn."""
    yield copy.copy(progress)
    for step in run.steps[: run.stop.step]:
        elapsed = None if step.start_ms is None or step.duration_ms is None else step.start_ms + step.duration_ms
        progress.complete(step.response, step.results, elapsed)
        yield copy.copy(progress)
