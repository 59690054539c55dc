"""Runs with those of their subagents: a family in one stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from boolab.types import Run


def with_subagents(runs: Iterable[Run]) -> Iterator[Run]:
    """The runs as they come, each followed by those of its subagents that have not come already.

    Args:
        runs: Runs, from a generator too: of those that are not subagents nothing is remembered.
    """
    followed: set[str] = set()
    came: set[str] = set()
    for run in runs:
        if run.run_id in followed:
            continue
        yield run
        if run.parent_run_id is not None:
            came.add(run.run_id)
        for child in descendants(run):
            if child.run_id not in came:
                followed.add(child.run_id)
                yield child


def descendants(run: Run) -> Iterator[Run]:
    """The runs of a run's subagents, each followed by those of its own."""
    for child in run.subagents:
        yield child
        yield from descendants(child)
