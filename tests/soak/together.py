"""Any number of scripted runs in one event loop, all of them under way at once, again and again."""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

import boolab as bl
from boolab.runtime.models.scripted import ScriptedModel
from tests.soak.vitals import Vitals, settled, vitals
from tests.support.helpers import QUIET, call, distinct, look

STEPS: Final = 4


class Round(NamedTuple):
    """What the process held before all runs, while all of them were in mid-call, and when they were over."""

    before: Vitals
    amid: Vitals
    after: Vitals


async def one_round(n: int) -> Round:
    """N runs; none of them goes on before all have come to the same call."""
    here, everybody, amid = 0, asyncio.Event(), []

    @bl.tool
    async def meet() -> str:
        """Wait for all others."""
        nonlocal here
        here += 1
        if here == n:
            amid.append(vitals())
            everybody.set()
        await everybody.wait()
        return "all are here"

    async def one() -> tuple[str, int]:
        run = await bl.run(agent, "go", model=model)
        return run.stop_reason, run.n_steps

    agent = bl.Agent("tester", tools=(look, meet), policy=QUIET)
    model = ScriptedModel([*distinct(STEPS - 2, end=None), {"tool_calls": [call("meet")]}, "All done."])
    before = settled()
    ends = await asyncio.gather(*(one() for _ in range(n)))
    assert ends == [("finished", STEPS)] * n
    del ends
    return Round(before, amid[0], settled())


def play(n: int, rounds: int, tell: Callable[[int, Round], object] = lambda *_: None) -> list[Round]:
    """So many rounds in one event loop."""

    async def all_rounds() -> list[Round]:
        done = []
        for number in range(1, rounds + 1):
            done.append(await one_round(n))
            tell(number, done[-1])
        return done

    return asyncio.run(all_rounds())
