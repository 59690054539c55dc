"""Keeping the world of a run: one snapshot before its first step, and one after each step with results.

A snapshot blocks, so it runs in a thread. It takes real time, also under a virtual clock, which does not advance
meanwhile; under a real clock it belongs to no step. A snapshot that fails is a fault on record, and the run continues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from boolab.core.run import Run
from boolab.errors import SettingError, WorldError, describe
from boolab.runtime.engine.turn import Turn
from boolab.runtime.worlds.protocol import World

T = TypeVar("T")


async def open_world(turn: Turn) -> None:
    """Keep the world of a turn from before the next step on; a `WorldError` if it cannot be kept at all."""
    world = turn.plan.options.get("world")
    assert world is not None  # noqa: S101 - the caller has looked
    last_state = next(
        (e.payload for e in reversed(turn.record.events) if e.kind == "world" and "fault" not in e.payload), None
    )

    def open_keeper() -> None:
        turn.keeper = world.keep(turn.record.run_id, last_state)

    await _run_in_thread(open_keeper)
    await keep(turn)


async def keep(turn: Turn) -> None:
    """Keep the world as it is now, and put that on record, unless the task was cancelled meanwhile."""
    keeper = turn.keeper
    assert keeper is not None  # noqa: S101 - the caller has looked
    try:
        facts = await _run_in_thread(keeper.snapshot, keeper.cancel)
    except Exception as error:  # noqa: BLE001 - a failure is data
        fault = str(error) if isinstance(error, WorldError) else describe(error)
        turn.record.fault("world", f"the files after step {len(turn.history.steps)} were not kept: {fault}")
        facts = {"fault": fault}
    turn.record.note("world", **facts)
    turn.boundary_ms = turn.now()


def kept_state(run: Run, n_steps: int) -> Mapping[str, Any]:
    """What the record of a run holds of its world after a step; a `SettingError` with why, if nothing."""
    events = [event.payload for event in run.events if event.kind == "world"]
    if not events:
        msg = (
            "the run was recorded without a world, so its files are not known: run it again with "
            "world=bl.GitWorld(root), or put the files in place yourself and branch without world="
        )
        raise SettingError(msg)
    last_change = max((step.index for step in run.steps[:n_steps] if any(step.results)), default=0)
    states = [facts for facts in events if last_change <= facts["after_step"] <= n_steps]
    fault = states[-1].get("fault") if states else "the run was cancelled before, or that step ran without a world"
    if fault:
        steps = ", ".join(str(facts["after_step"]) for facts in events if "fault" not in facts) or "no step"
        msg = f"the files after step {last_change} were not kept: {fault}. They were kept after: {steps}"
        raise SettingError(msg)
    return states[-1]


async def restore_world(world: World, state: Mapping[str, Any], folder: Path | None = None) -> World:
    """A world of its own in a state that was kept; if the task is cancelled, nothing is left behind."""
    copies: list[World] = []
    try:
        await _run_in_thread(lambda: copies.append(world.restored(state, folder)))
    except asyncio.CancelledError:
        for copy in copies:
            copy.discard()
        raise
    return copies[0]


async def _run_in_thread(function: Callable[[], T], cancel: Callable[[], None] | None = None) -> T:
    """What a function that blocks returns. If the task is cancelled, the function still ends before that is raised."""
    work = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if cancel is not None:
            cancel()
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        if not work.cancelled():
            work.exception()  # it is of no interest now
        raise
