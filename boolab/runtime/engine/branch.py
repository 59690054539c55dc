"""`branch`: continue a recorded run from one of its steps, live, under other conditions.

A counterfactual computes what another limit would have done to the recorded steps. Where the run would have continued,
it cannot know the next responses. A branch gets them from a model. What the tools changed is not part of a record. If
the run was kept in a world, `world=` begins with the files as they were; all else (servers, and files without a world)
must be as it was after the step that the branch continues from.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Final, Unpack

from boolab.core.endings import missing_reason
from boolab.core.events import FaultKind
from boolab.core.run import Run
from boolab.core.types import Event, Stop
from boolab.errors import SettingError, forgot_await
from boolab.io.checks import repr_of
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.keep import kept_state, restore_world
from boolab.runtime.engine.loop import drive
from boolab.runtime.engine.plan import BranchOptions, TurnOptions, options_of, plan_of
from boolab.runtime.engine.record import from_user
from boolab.runtime.engine.resume import resume_turn, step_ends_turn, without_changes
from boolab.runtime.engine.turn import Turn
from boolab.runtime.models.base import Model
from boolab.runtime.worlds.protocol import World

_IN_STEPS: Final = frozenset({"block", "branch", "cut", "departed", "stop_before_call", "subagent", "synthesis"})
"""Events of a step, or of what led to it; others come at the boundary after it, where a branch begins."""
_AFTER_STEPS: Final[frozenset[FaultKind]] = frozenset({"compaction", "summary", "score"})
"""The codes of the faults that belong to no step."""


class TurnEndedError(SettingError):
    """A branch would begin after a step that ended its turn, so that it needs the user's next message."""


async def branch(
    run: Run,
    at: int,
    *,
    model: Model,
    message: str | None = None,
    agent: Agent | None = None,
    **options: Unpack[BranchOptions],
) -> Run:
    """Keep the first steps of a run, and continue live from there: with another model, policy, cap, tools or agent.

    The kept steps and the messages between them stay as they are, the prompt too; they are counted again under the
    rules of the branch, so that a cap that they have reached stops it at once and a streak continues. Nothing else of
    what the run was made with is kept: what is not given here has its default.

    Args:
        run: A run, live or loaded from any log.
        at: How many of its steps are kept; 0 begins anew with the same prompt.
        model: What answers from there on.
        message: The user's message there. After a final answer it is needed, and everything counts anew, as in a new
            turn.
        agent: The agent that continues; its prompt is not used.
        **options: As for `run`. With `world=`, the tools work in a folder of the branch's own, which holds the files as
            they were after step `at` and stays afterwards: `GitWorld.folder_of` finds it.

    Returns:
        A record of its own that begins with the kept steps. Its event `branch` names the run (`run_id`) and the `step`
        after which it continued; its totals include the kept steps. Subagents of kept steps are those of the old run.

    Raises:
        SettingError: if `at` is no number of steps of the run, or the run cannot continue from there: after a final
            answer without a `message`, or from a last step that broke off, has no results, or waits for an answer.
            With `world=`, also if the files after that step were not kept.
        WorldError: if they were kept, and cannot be restored.
        asyncio.CancelledError: as `run` does.

    Example:
        >>> import boolab as bl
        >>> import asyncio
        >>> look = {"tool_calls": [{"name": "look"}]}
        >>> first = bl.run_sync(None, "Look around.", model=bl.ScriptedModel([look, look, "A door."]))
        >>> other = bl.ScriptedModel(lambda messages: "A window.")
        >>> [step.response.text for step in asyncio.run(bl.branch(first, 2, model=other)).steps]
        ['', '', 'A window.']
    """
    turn = branch_turn(run, at, options_of(agent, {**options, "model": model}), message)
    world = options.get("world")
    return await drive(turn if world is None else await turn_in_folder(turn, run, at, world, message))


async def turn_in_folder(
    turn: Turn, run: Run, n_steps: int, world: World, message: str | None = None, *, folder: Path | None = None
) -> Turn:
    """The turn of a branch in a folder of its own, with the files that were kept after its first steps."""
    branch_world = await restore_world(world, kept_state(run, n_steps), folder)
    try:
        turn = branch_turn(run, n_steps, {**turn.plan.options, "world": branch_world}, message)
    except BaseException:
        branch_world.discard()
        raise
    if branch_world.incomplete:
        turn.record.fault("world", branch_world.incomplete)
    return turn


def branch_turn(run: Run, n_steps: int, options: TurnOptions, message: str | None = None) -> Turn:
    """The turn of a branch, at the boundary from which it continues."""
    _check(run, n_steps, message)
    answer = None if message is None else from_user(message)
    kept = without_changes(_first_steps(run, n_steps, options.get("run_id") or token_hex(16)))
    turn = resume_turn(plan_of(options), kept, answer)
    if message is None and turn.history.steps and step_ends_turn(turn, turn.history.steps[-1]):
        msg = f"step {n_steps} ended its turn: pass message=..., the user's next message, or branch at an earlier step"
        raise TurnEndedError(msg)
    turn.record.note("branch", run_id=run.run_id, step=n_steps)
    return turn


def _check(run: object, at: object, message: object) -> None:
    if not isinstance(run, Run):
        raise SettingError(f"run={run!r} is no Run{forgot_await(run)}")
    if type(at) is not int or not 0 <= at <= run.n_steps:
        msg = f"at={repr_of(at)}: expected a number of steps to keep, from 0 to the {run.n_steps} of the run"
        raise SettingError(msg)
    if message is not None and (not isinstance(message, str) or not message):
        msg = f"message={message!r}: expected the text of the user's message"
        raise SettingError(msg)
    if at and at == run.n_steps:
        fault = missing_reason(run, run.steps[-1])
        if fault:
            msg = f"step {at} {fault}"
            raise SettingError(msg)


def _first_steps(run: Run, n_steps: int, run_id: str) -> Run:
    """A record of the first steps, as it was when the last of them was complete, under another id.

    What came at the boundary after them comes again, as far as the new rules have it so.
    """
    steps = run.steps[:n_steps]
    events = tuple(event for event in run.events if _is_of(event, n_steps))
    ends = [s.start_ms + s.duration_ms for s in steps if s.start_ms is not None and s.duration_ms is not None]
    return replace(
        run,
        run_id=run_id,
        parent_run_id=None,
        stop=Stop("paused", n_steps),
        steps=steps,
        inputs=tuple(entry for entry in run.inputs if entry.before <= n_steps),
        events=events,
        compactions=tuple(compacted for compacted in run.compactions if compacted.before <= n_steps),
        earlier_wrap_ups=run.earlier_wrap_ups[: sum(event.kind == "continued" for event in events)],
        duration_ms=max(ends, default=0),
        wrap_up=None,
        sentinel=None,
        synthesis=None,
        error=None,
        subagents=(),
        continuation=None,
    )


def _is_of(event: Event, n_steps: int) -> bool:
    """Whether an event belongs to the first steps."""
    _, kind, facts = event
    after = facts.get("after_step")
    if kind == "world":
        return after is not None and after <= n_steps
    if after is None or after >= n_steps:
        return after == n_steps > 0 and (
            kind in _IN_STEPS
            or "step_number" in facts
            or (kind == "ask" and "call_id" in facts)
            or (kind == "fault" and facts.get("code") not in _AFTER_STEPS)
        )
    return True
