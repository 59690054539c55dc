"""What is counted as one: a run, or a turn of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from boolab.core.types import Run, Step, Stop
from boolab.frames.recording import is_final
from boolab.frames.runs import turns_of


class Unit(NamedTuple):
    """What is counted as one: a run, or a turn of a run as a run of its own. `of` is its place in the runs."""

    run: Run
    of: int
    turn: int | None


def turns_as_units(run: Run, of: int) -> Iterator[Unit]:
    """Each turn of a run as a run of its own, numbered from its own first step; see `Ledger.by_span`."""
    if not run.steps:
        return
    turns = list(turns_of(run))
    for place, (turn, steps) in enumerate(turns):
        start = (steps[0].start_ms or 0) if place else 0
        mine = tuple(_moved(step, number, start) for number, step in enumerate(steps, 1))
        stop = run.stop if place == len(turns) - 1 else _end(mine)
        yield Unit(replace(run, steps=mine, stop=stop, inputs=(), prompt=(), events=()), of, turn)


def _moved(step: Step, number: int, start: int) -> Step:
    return step._replace(index=number, start_ms=None if step.start_ms is None else step.start_ms - start)


def _end(steps: Sequence[Step]) -> Stop:
    """How a turn ended that another follows: by itself, if its last step called no tool."""
    last = steps[-1]
    if is_final(last):
        return Stop("finished", len(steps) - 1)
    return Stop("aborted", len(steps) - (not any(result is not None for result in last.results)))
