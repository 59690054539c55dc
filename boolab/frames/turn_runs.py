"""Each turn of a run as a run of its own, with the label of the turn: for what judges units and not sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from boolab.core.run import Run
from boolab.core.run_labels import unit_label
from boolab.core.types import Step, Stop
from boolab.frames.recording import is_final
from boolab.frames.runs import turns_of


def turns_as_runs(run: Run) -> Iterator[tuple[int, Run]]:
    """Each turn of a run as a run of its own, numbered from its own first step; see `Ledger.split_spans`.

    Its label is that of the turn, or of the run if it has no other turn. A run without steps has none.
    """
    turns = list(turns_of(run)) if run.steps else []
    for index, (turn, steps) in enumerate(turns):
        start = (steps[0].start_ms or 0) if index else 0
        turn_steps = tuple(
            step._replace(index=number, start_ms=None if step.start_ms is None else step.start_ms - start)
            for number, step in enumerate(steps, 1)
        )
        label = unit_label(run, turn)
        turn_run = replace(
            run,
            steps=turn_steps,
            stop=run.stop if index == len(turns) - 1 else _end(turn_steps),
            inputs=(),
            prompt=(),
            events=(),
            success=None if label is None else label.success,
            labels=() if label is None else (label._replace(turn=None),),
        )
        yield turn, turn_run


def _end(steps: Sequence[Step]) -> Stop:
    """How a turn ended that another follows: by itself, if its last step called no tool."""
    last = steps[-1]
    if is_final(last):
        return Stop("finished", len(steps) - 1)
    return Stop("aborted", len(steps) - (not any(result is not None for result in last.results)))
