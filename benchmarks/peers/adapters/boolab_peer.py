"""boolab itself: a model of one's own, as for the peers, unless the variant says otherwise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from work import End, Turns

import boolab as bl
from boolab.core.types import Response, ToolCall
from boolab.runtime.engine.runner import run
from boolab.runtime.models.base import Emit, Request

VARIANTS = ("limits", "no limits", "boocode", "scripted", "frame")
DONE = Response("done", (), "stop")
BOOCODE = bl.policies["boocode"].vary(cap={"ceiling": None})
PLAIN = bl.Policy(name="plain", order=("max_steps", "doom_loop", "tool_budget")).vary(cap={"ceiling": None})


class Fresh:
    """Makes a response for each request."""

    name = "fresh"
    virtual = False
    summarises = False

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    async def respond(self, request: Request, emit: Emit | None = None) -> Response:  # noqa: ARG002 - nobody listens
        """One response."""
        a = self.turns.next()
        if a is None:
            return DONE
        return Response("", (ToolCall(f"c{a}", "add", f'{{"a":{a},"b":1}}'),), "tool_calls")


def agent_of(variant: str, add: Callable[[int, int], int]) -> bl.Agent:
    """An agent with limits that the work does not meet, or with none."""
    agent = bl.Agent("adder", prompt="Add.", tools=(bl.tool(name="add")(add),))
    if variant == "no limits":
        return replace(agent, policy=PLAIN, max_steps=None, tool_budget=None, doom_loop=None)
    limits = replace(agent, max_steps=1_000, tool_budget=1_000, doom_loop=3)
    return replace(limits, policy=BOOCODE if variant == "boocode" else PLAIN)


def prepare(variant: str, runs: int, steps: int, add: Callable[[int, int], int]) -> Callable[[], Awaitable[list[str]]]:
    """The agent and the model."""
    agent = agent_of(variant, add)
    model: bl.Model = Fresh(Turns(steps))
    if variant == "scripted":
        calls = ({"name": "add", "arguments": {"a": a, "b": 1}} for a in range(steps - 1, 0, -1))
        model = bl.ScriptedModel([*({"tool_calls": [call]} for call in calls), "done"])

    async def go() -> list[str]:
        made = [await run(agent, "go", model=model) for _ in range(runs)]
        if variant == "frame":
            assert len(bl.steps_df(made)) == runs * steps
        return [done.steps[-1].response.text for done in made]

    return go


LIMITS = {"max_steps": f"none, up to {bl.policies['boocode'].cap.ceiling}"}


async def limited(name: str, limit: int, turns: Turns, add: Callable[[int, int], int]) -> End:
    """`Agent(max_steps=...)` under the default policy; its tool budget, which this tool would meet at 10, is off."""
    agent = bl.Agent("adder", prompt="Add.", tools=(bl.tool(name="add")(add),), tool_budget=None, **{name: limit})
    done = await run(agent, "go", model=Fresh(turns))
    results = sum(result is not None for step in done.steps for result in step.results)
    said = (
        done.steps[-1].response.text if done.stop_reason == "finished" else f"{done.stop.rule} at step {done.stop.step}"
    )
    return End(f"returns, stop_reason {done.stop_reason}", said, [("the run", len(done.steps), results)])
