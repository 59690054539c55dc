"""The units that labels are about: the turns of a session that have ended, or the run.

A unit is what limits count for. Where the limits of a harness start anew with each message of the user it is a turn,
else the run. The scope of a source is `boolab.logs.log_files.scope_of`. The run of a subagent has no unit: the outcome
is that of its root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from boolab.core.run import Run
from boolab.frames.runs import turns_of
from boolab.logs.fingerprint import prints_of, responses_in

_OPEN_REASONS: Final = ("aborted", "paused")
"""How a record ends that may still grow: it breaks off, or it waits for the user."""


class LabelUnit(NamedTuple):
    """What an outcome is about, and the fingerprints by which it is recognised.

    `print` is that of the session up to the end of the unit, so later turns do not change it. `steps` is the number of
    responses in it. `beginnings` are the fingerprints after each response of the unit but the last, by which one that
    has grown is recognised.
    """

    run_id: str
    turn: int | None  # None: the whole run
    print: str
    steps: int
    beginnings: Mapping[str, int]  # by fingerprint the number of responses in it
    last_step: int  # the number of its last step in the run; 0 for a run without steps


def units_of_run(run: Run, scope: Literal["turn", "run"]) -> list[LabelUnit]:
    """The units of a run: its turns, or itself. A last turn that may still grow is none, nor is a subagent's run.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> [(unit.turn, unit.print, unit.steps) for unit in units_of_run(run, "turn")]
        [(1, '517ec73874cfab9eaceb', 1)]
    """
    if run.parent_run_id is not None:
        return []
    prints, history = prints_of(run), responses_in(run.prompt)
    if scope == "run":
        return [_unit(run.run_id, None, prints, history, 0, len(run.steps))]
    units: list[LabelUnit] = []
    for turn, steps in turns_of(run):
        if steps:
            first, last = steps[0].index, steps[-1].index
            if last < len(run.steps) or has_ended(run):
                units.append(_unit(run.run_id, turn, prints, history, first - 1, last))
    return units


def has_ended(run: Run) -> bool:
    """Whether the last turn of a run has ended: by itself, by a limit or an error, or because the user stopped it."""
    if run.stop_reason not in _OPEN_REASONS:
        return True
    return any(event.kind == "abort" and event.payload.get("after_step") == len(run.steps) for event in run.events)


def _unit(run_id: str, turn: int | None, prints: tuple[str, ...], history: int, start: int, end: int) -> LabelUnit:
    """The unit of the steps after `start` up to `end`."""
    beginnings = {prints[step]: history + step for step in range(start + 1, end)}
    return LabelUnit(run_id, turn, prints[end], history + end, beginnings, end)
