"""Runs with those of their subagents: a family in one stream, and who started whom at which step.

Where in a run its subagents were started stands in the run itself: its events of kind `subagent` name the run that was
started and the step whose call did it, in live runs and in those of logs alike. A subagent names its parent
(`parent_run_id`). A branch (`bl.branch`) is no subagent and has no parent: its event `branch` names the run whose
first steps it shares, and with these steps it shares the subagents that they started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from boolab.core.run import Run
from boolab.core.types import ToolCall


def iterate_with_subagents(runs: Iterable[Run]) -> Iterator[Run]:
    """The runs as they come, each followed by those of its subagents that have not come already."""
    followed: set[str] = set()
    seen_ids: set[str] = set()
    for run in runs:
        if run.run_id in followed:
            continue
        yield run
        if run.parent_run_id is not None:
            seen_ids.add(run.run_id)
        for child in descendants(run):
            if child.run_id not in seen_ids:
                followed.add(child.run_id)
                yield child


def tool_calls(*runs: Run) -> Iterator[ToolCall]:
    """The calls of the steps of runs, in order."""
    for run in runs:
        for step in run.steps:
            yield from step.response.tool_calls


def descendants(run: Run) -> Iterator[Run]:
    """The runs of a run's subagents, each followed by those of its own. Without recursion: a chain has any length."""
    waiting = [*reversed(run.subagents)]
    while waiting:
        child = waiting.pop()
        yield child
        waiting += reversed(child.subagents)


def rebuild(run: Run, make: Callable[[Run], Run]) -> Run:
    """A run made anew with its subagents: `make` is called for a run before it is for its subagents."""
    if not run.subagents:
        return make(run)
    tree = [(original, make(original)) for original in (run, *descendants(run))]
    rebuilt_runs: list[Run] = []
    for original, copy in reversed(tree):  # its subagents are the last that were done
        rebuilt_runs.append(replace(copy, subagents=tuple([rebuilt_runs.pop() for _ in original.subagents])))
    return rebuilt_runs[0]


class Start(NamedTuple):
    """That a call started a subagent.

    `step` is the number of the step that made the call, None where the record does not have it; `run_id` is the
    subagent's run, None where it is not named; `agent` is "" where it is not named.
    """

    step: int | None
    run_id: str | None
    agent: str = ""


def starts_of(run: Run) -> list[Start]:
    """The subagents that a run has started by its record, each once, in the order of its events."""
    starts: dict[object, Start] = {}
    for number, event in enumerate(run.events):
        if event.kind != "subagent":
            continue
        facts = event.payload
        run_id, agent, step = facts.get("run_id"), facts.get("agent"), facts.get("after_step")
        has_id = isinstance(run_id, str) and run_id
        valid_step = type(step) is int and 1 <= step <= len(run.steps)
        start = Start(step if valid_step else None, run_id if has_id else None, agent if isinstance(agent, str) else "")
        starts.setdefault(run_id if has_id else number, start)
    return list(starts.values())


def parent_steps(runs: Iterable[Run]) -> dict[str, int]:
    """The step of its parent at which each subagent was started, by run id, where it is on record."""
    steps_by_run: dict[str, int] = {}
    for run in runs:
        for step, run_id, _ in starts_of(run):
            if run_id is not None and step is not None:
                steps_by_run.setdefault(run_id, step)
    return steps_by_run


class Call(NamedTuple):
    """That a step of one run started another one: the rows of both. `step` is 0 where it is not known."""

    caller: int
    step: int
    child: int


class Missing(NamedTuple):
    """That a step of a run started one that is not on record. `step` is 0 and `agent` "" where it is not known."""

    caller: int
    step: int
    agent: str


class Kin(NamedTuple):
    """Who among some runs started whom."""

    parent: list[int]  # for each run the row of the one that started it, or -1
    # for each run the number of its parent's step that did; 0 where it has no parent, or the step is not known
    step: list[int]
    calls: list[Call]  # each call of a run that started another one of these, a branch's shared ones included
    missing: list[Missing]  # each that started a run that is not among them


def kin_of(run_ids: Sequence[str], parent_ids: Sequence[str | None], starts: Mapping[int, Sequence[Start]]) -> Kin:
    """Who among some runs started whom, from the subagents that each run, by its row, has started."""
    rows: dict[str, list[int]] = {}
    for row, run_id in enumerate(run_ids):
        rows.setdefault(run_id, []).append(row)
    calls, missing = [], []
    callers: dict[int, list[Call]] = {}
    for caller, run_starts in starts.items():
        for step, started_id, agent in run_starts:
            child = _next_copy(rows.get(started_id or "", ()), caller)
            if child < 0:
                missing.append(Missing(caller, step or 0, agent))
            elif child != caller:
                calls.append(Call(caller, step or 0, child))
                callers.setdefault(child, []).append(calls[-1])
    parent, steps = [-1] * len(run_ids), [0] * len(run_ids)
    for child, parent_id in enumerate(parent_ids):
        if parent_id is None:
            continue
        parent_row, origins = _previous_copy(rows.get(parent_id, ()), child), callers.get(child, [])
        parent_call = next((call for call in origins if call.caller == parent_row), origins[0] if origins else None)
        if parent_call is None and parent_row not in (-1, child):
            parent_call = Call(parent_row, 0, child)
            calls.append(parent_call)
        if parent_call is not None:
            parent[child], steps[child] = parent_call.caller, parent_call.step
    return Kin(parent, steps, calls, missing)


def _next_copy(copies: Sequence[int], row: int) -> int:
    """The first of some rows after this one, else the first of all; -1 if there are none."""
    return next((copy for copy in copies if copy > row), copies[0]) if copies else -1


def _previous_copy(copies: Sequence[int], row: int) -> int:
    """The last of some rows before this one, else the last of all; -1 if there are none."""
    return next((copy for copy in reversed(copies) if copy < row), copies[-1]) if copies else -1


def homes_of(links: Iterable[tuple[str, str | None]], on_record: Collection[str]) -> dict[str, tuple[str, int]]:
    """The family of each run that has kin among the ids on record: an id that all share, and how many they are."""
    above: dict[str, str] = {}

    def head(run_id: str) -> str:
        while above.setdefault(run_id, run_id) != run_id:
            above[run_id] = run_id = above[above[run_id]]
        return run_id

    for run, other in links:
        if other is not None and other != run and run in on_record and other in on_record:
            above[head(run)] = head(other)
    heads = {run_id: head(run_id) for run_id in sorted(above, key=lambda run_id: head(run_id) != run_id)}
    sizes = Counter(heads.values())
    return {run_id: (first, sizes[first]) for run_id, first in heads.items()}


def roots_of(parent: Sequence[int]) -> list[int]:
    """For each run the row of the run that its family began with: itself, where it has no parent."""
    roots: list[int] = []
    for row in range(len(parent)):
        index, visited = row, {row}
        while parent[index] >= 0 and parent[index] not in visited:
            index = parent[index]
            visited.add(index)
        roots.append(index)
    return roots


def roots_in(runs: Sequence[Run]) -> list[int]:
    """For each of some runs the place of the run that its family began with: see `roots_of`."""
    ids, parents = [run.run_id for run in runs], [run.parent_run_id for run in runs]
    return roots_of(kin_of(ids, parents, {index: starts_of(run) for index, run in enumerate(runs)}).parent)


_Key = TypeVar("_Key", bound=Hashable)


def order_agents(keys: Sequence[_Key], is_main: Sequence[bool]) -> list[_Key]:
    """The groups of runs, each once: main agents before subagents, then by the number of runs, then by name."""
    mains = {key for key, main in zip(keys, is_main, strict=True) if main}
    sizes = Counter(keys)
    return sorted(sizes, key=lambda key: (key not in mains, -sizes[key], str(key)))


def flag_labelled_groups(groups: Sequence[Hashable], roots: Sequence[int], labelled: Sequence[bool]) -> list[bool]:
    """For each run whether successes of its group are labels: the root of one of its runs has one.

    A label of a root is that of its whole family, so that groups that share a family have labels together.
    """
    pairs = list(zip(groups, roots, strict=True))
    having = {group for group, root in pairs if labelled[root]}
    while True:
        families = {root for group, root in pairs if group in having}
        reachable = {group for group, root in pairs if root in families}
        if reachable == having:
            return [group in having for group in groups]
        having = reachable
