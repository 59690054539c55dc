"""A turn that is resumed at any boundary stands where the live one stood: counters, levels of guards and limits."""

import asyncio
import contextlib
from typing import Any

import pytest

import boolab as bl
from boolab.runtime.engine.loop import drive, run_of
from boolab.runtime.engine.plan import options_of
from boolab.runtime.engine.resume import resume_turn
from boolab.runtime.engine.runner import turn_of
from boolab.runtime.engine.turn import BOUNDARY, Turn
from tests.runtime.engine.test_same_records import SETTINGS, Case, Watched


def standing(turn: Turn) -> dict[str, Any]:
    """Where a turn stands."""
    levels = {str(guard): level for guard, level in turn.ladder._levels.items()}
    facts = {"turn": turn.ladder.turn, "settings": dict(turn.limits.settings), "levels": levels}
    return {**turn.ladder.counters, **facts}


async def compared(number: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Where the turn of a random case stands after each step, live and by replay."""
    case, found = Case(number), []
    policy = case.policy()
    items = [case.item() for _ in range(10)]
    options = case.options(policy, bl.Inbox(), None)
    own = {name: case.one(*values) for name, values in SETTINGS.items() if case.some(0.3)}
    try:
        agent = bl.Agent("worker", policy=policy, **own)
        options["tools"] = tuple(options["tools"])
        turn = turn_of(options_of(agent, {**options, "model": Watched(case, items, None, None)}), "go")
    except bl.SettingError:
        return []

    def after_step(turn: Turn) -> None:
        if turn.step.state == BOUNDARY:
            again = resume_turn(turn.plan, run_of(turn, turn.end("paused")))
            found.append((standing(turn), standing(again)))

    with contextlib.suppress(asyncio.CancelledError):
        await drive(turn, after_step)
    return found


@pytest.mark.parametrize("first", range(0, 100, 50))
def test_replayed_turn_state_equals_the_live_turn_state(first: int) -> None:
    async def some() -> list[tuple[int, dict[str, Any], dict[str, Any]]]:
        return [(n, *pair) for n in range(first, first + 50) for pair in await compared(n)]

    compared_steps = asyncio.run(some())
    assert len(compared_steps) > 50
    assert [(n, live, again) for n, live, again in compared_steps if live != again] == []
