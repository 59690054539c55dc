"""The progress of a sweep: a bar by default, or the user's own watcher; and what else decided its numbers."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol, Self, cast

from boolab.core.run import Run
from boolab.core.run_tree import tool_calls
from boolab.core.text import clean, count, first_of
from boolab.core.types import MICRO, StopReason
from boolab.errors import SchedulerLost, SettingError, StoreError
from boolab.frames.runs import own_cost
from boolab.frames.tables import RUN_COLUMNS
from boolab.limits.table import AGENT_LIMITS, LIMIT_OF_REASON, LIMITS

_MAX_REASONS: Final = 4
_COST: Final = next(column.get for column in RUN_COLUMNS if column.name == "cost_usd")


class CellResult(NamedTuple):
    """The result of a cell in few values: cheap to send from one process to another, whatever the run's length.

    `settings` are the axes of the grid, policies by name; None where the policy has no such setting. `reason` is the
    stop reason, and `error` what broke the run, if anything did. `cost_usd` and `success` are None if unknown; so is
    `own_cost_usd`, the cost without the steps that a branch kept. `rule` is the stop rule that fired, and
    `called_tools` are the names of all tools that were called.
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
    own_cost_usd: float | None = None
    rule: str | None = None
    called_tools: tuple[str, ...] = ()


def result_of(run: Run) -> CellResult:
    """The result of a cell, from its run: the values of `runs_df`."""
    names = (run.run_id, run.agent, run.model, run.policy, run.task)
    cost, own_micro = _COST(run), own_cost(run)
    own_usd = None if own_micro is None else own_micro / MICRO
    called_tools = dict.fromkeys(call.name for call in tool_calls(run))
    measured = (len(run.steps), cost, run.success, run.error, own_usd)
    return CellResult(*names, run.settings, run.stop.reason, *measured, run.stop.rule, tuple(called_tools))


class Begun(NamedTuple):
    """A sweep that begins: the number of its cells, its parts (as `Plan.about`) and its store.

    `reasons` is how many cells of the store ended before, by stop reason; `earlier` reads their results when it is
    iterated. `find` returns a finished run by its id, then those of its subagents that it does not hold itself; nothing
    if there is no such run yet.
    """

    total: int
    about: Mapping[str, Any]
    reasons: Mapping[str, int] = {}
    earlier: Iterable[CellResult] = ()
    store: Path | None = None
    find: Callable[[str], Sequence[Run]] = lambda _run_id: ()


class Watcher(Protocol):
    """Observes a sweep while it runs. All calls come from the sweep's own event loop, which waits for them.

    An exception in one of them ends the sweep, as an interrupt would.
    """

    def begin(self, beginning: Begun) -> None:
        """The plan is checked, and the first cell is about to run."""

    def add(self, result: CellResult) -> None:
        """One more cell is finished."""

    def end(self, error: BaseException | None) -> None:
        """The sweep is over; `error` is what ended it early, such as an interrupt, or None."""


class SweepProgress:
    """Counts the finished cells of a sweep, and informs its watcher: a bar, or the user's own."""

    def __init__(self, beginning: Begun, watcher: bool | Watcher) -> None:
        self.total = beginning.total
        self.done = sum(beginning.reasons.values())
        self.notes = Notes(beginning.about)
        self._beginning = beginning
        self._watcher: Watcher | None = (Bar() if watcher else None) if isinstance(watcher, bool) else watcher

    def __enter__(self) -> Self:
        if self._watcher is not None:
            self._watcher.begin(self._beginning)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The error of a failing store reports what it has lost, and that of a lost scheduler what is kept.
        if (
            error is not None
            and self._beginning.store is not None
            and not isinstance(error, StoreError | SchedulerLost)
        ):
            error.add_note(describe_kept(self.done, self._beginning))
        if self._watcher is not None:
            self._watcher.end(error)

    def add(self, result: CellResult) -> None:
        """One more cell is finished."""
        self.done += 1
        self.notes.add(result)
        if self._watcher is not None:
            self._watcher.add(result)


def describe_kept(n_finished: int, beginning: Begun) -> str:
    """What remains of a sweep with a store that ended early, after so many cells."""
    return f"{n_finished:,} of {beginning.total:,} runs are kept in {beginning.store}; the same call resumes"


def check_watcher(progress: object) -> bool | Watcher:
    """Return the value of `progress=`; `SettingError` if it is neither a flag nor a watcher."""
    if isinstance(progress, bool):
        return progress
    methods = (getattr(progress, name, None) for name in ("begin", "add", "end"))
    if isinstance(progress, type) or not all(map(callable, methods)):
        msg = (
            f"progress={progress!r}: expected True, False, or a watcher such as bl.SweepView(): "
            "an object with begin, add and end"
        )
        raise SettingError(msg)
    return cast("Watcher", progress)


class Bar:
    """A progress bar, in a notebook or in a terminal: finished cells, the rate, the time left, and why runs stopped."""

    def begin(self, beginning: Begun) -> None:
        from tqdm.auto import tqdm

        self._beginning = beginning
        self._reasons = Counter(beginning.reasons)
        self._bar: Any = tqdm(
            total=beginning.total, initial=self._reasons.total(), unit="run", desc="sweep", smoothing=0.1
        )
        self._show()

    def add(self, result: CellResult) -> None:
        self._reasons[result.reason] += 1
        self._show()
        self._bar.update()

    def end(self, error: BaseException | None) -> None:
        self._show(refresh=True)
        self._bar.close()
        if error is not None and self._beginning.store is not None and not isinstance(error, StoreError):
            self._bar.write(f"sweep: {describe_kept(self._reasons.total(), self._beginning)}", file=sys.stderr)

    def _show(self, *, refresh: bool = False) -> None:
        common = self._reasons.most_common()
        texts = [f"{number:,} {reason}" for reason, number in common[:_MAX_REASONS]]
        rest = sum(number for _, number in common[_MAX_REASONS:])
        self._bar.set_postfix_str(", ".join([*texts, *([f"{rest:,} others"] if rest else [])]), refresh=refresh)


_NUMBER: Final = re.compile(r"\D*(\d+)\D*")
_CEILING: Final = "ceiling("
_MAX_NAMES: Final = 5


class Notes:
    """Counts the runs of a sweep that a limit outside of the grid stopped, and the tools that were called.

    A sweep whose grid has no limit compares no limits, so what its agents' own limits stop needs no note.

    `plan_facts`: what the sweep is made of, as `Plan.about`: `grid`, and `tools` by agent.
    """

    def __init__(self, plan_facts: Mapping[str, Any]) -> None:
        grid = plan_facts.get("grid", {})
        self._axes = {*grid} if {*grid} & {*AGENT_LIMITS, "temperature"} else None
        self._tools: Mapping[str, list[str]] = plan_facts.get("tools", {})
        self._stops: Counter[tuple[str, str, str]] = Counter()
        self._runs: Counter[str] = Counter()
        self._called_tools: dict[str, dict[str, None]] = {}

    def add(self, result: CellResult) -> None:
        """Count a run."""
        self._runs[result.agent] += 1
        if result.agent in self._tools:
            self._called_tools.setdefault(result.agent, {}).update(dict.fromkeys(result.called_tools))
        axis = LIMIT_OF_REASON.get(result.reason)
        if axis is None or self._axes is None or not result.rule:
            return
        if result.rule.startswith(_CEILING) or axis not in self._axes:
            self._stops[axis, result.rule, result.policy] += 1

    def sentences(self) -> Iterator[str]:
        """The notes: on limits, the most frequent first, then on tools."""
        limits: Counter[tuple[str, str]] = Counter()
        for (axis, rule, policy), n in self._stops.items():
            limits[_limit(axis, rule, policy)] += n
        total = self._runs.total()
        for (limit, advice), n in limits.most_common():
            yield f"{n:,} of {count(total, 'run')} {'was' if n == 1 else 'were'} stopped by {limit}: {advice}."
        for agent, names in self._tools.items():
            called_tools = self._called_tools.get(agent, {})
            if self._runs[agent] and not called_tools.keys() & {*names}:
                tool_list = first_of([*map(clean, names)], _MAX_NAMES)
                other_tools = (
                    f", only others: {first_of([*map(clean, called_tools)], _MAX_NAMES)}" if called_tools else ""
                )
                runs = f"its {count(self._runs[agent], 'run')}"
                yield f"No tool of agent {clean(agent)} ({tool_list}) was called in {runs}{other_tools}."


def _limit(axis: str, rule: str, policy: str) -> tuple[str, str]:
    """A limit outside of the grid, and how it is put into the grid or taken off."""
    number = _NUMBER.match(rule)
    value = None if number is None or axis not in AGENT_LIMITS else int(number[1])
    if rule.startswith(_CEILING):
        return f"the ceiling of {value} steps of policy {clean(policy)}", (
            f"bl.policies[{policy!r}].vary(name=..., cap={{'ceiling': None}}) is that policy without it"
        )
    label = f"{LIMITS[axis].label}" if value is None else f"{LIMITS[axis].label} of {value}"
    limit = f"a{'n' if label[0] in 'aeiou' else ''} {label}, which is not in the grid"
    return limit, f'"{axis}": [None] takes it off' if axis in AGENT_LIMITS else f"it is one of policy {clean(policy)}"
