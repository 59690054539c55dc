"""Short ways to write scripts and agents in tests."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import boolab as bl
from boolab.core.messages import Message
from boolab.runtime.models.base import Emit


def grouped(values: Mapping[str, Any]) -> Any:
    """What `Policy.vary` takes, from paths of fields: `{"cap.zero": "plain"}` gives `{"cap": {"zero": "plain"}}`."""
    changes: dict[str, Any] = {}
    for path, value in values.items():
        group, _, name = path.partition(".")
        if name:
            changes.setdefault(group, {})[name] = value
        else:
            changes[path] = value
    return changes


QUIET = bl.policies["boocode"].vary(wrap_up={"summary": "none"})
"""The default policy without a summary: for tests that are not about the wrap-up."""


@bl.tool(read_only=True)
def look(what: str = "") -> str:
    """Look at something."""
    return f"seen {what}"


@bl.tool
def write(what: str = "") -> str:
    """Write something."""
    return f"wrote {what}"


@bl.tool(read_only=True)
def fail(what: str = "") -> str:
    """Fail."""
    raise RuntimeError(what)


@bl.tool(read_only=True, pauses=True)
def ask(question: str = "") -> str:
    """Ask the user."""
    return f"asked {question}"


TOOLS = (look, write, fail, ask)


class Listening(bl.ScriptedModel):
    """A scripted model that keeps each request, with its messages as they stood."""

    def __init__(self, items: Any, **options: Any) -> None:
        super().__init__(items, **options)
        self.requests: list[bl.models.Request] = []

    async def respond(self, request: bl.models.Request, emit: Emit | None = None) -> bl.models.Response:
        self.requests.append(request._replace(messages=list(request.messages)))
        return await super().respond(request, emit)

    def of(self, purpose: str = "step") -> list[Sequence[Message]]:
        """The messages of each request for a purpose."""
        return [request.messages for request in self.requests if request.purpose == purpose]


def call(name: str = "look", **arguments: Any) -> dict[str, Any]:
    """One call of a script item."""
    return {"name": name, "arguments": arguments}


def letter(name: str) -> dict[str, Any]:
    """The call that a capital letter stands for: the same letter, the same call."""
    return call("look", what=name)


def steps(pattern: str, end: str | None = "done") -> list[Any]:
    """A script from a pattern: each word is one step, each letter in it one call; then a text, unless `end` is None."""
    items: list[Any] = [{"tool_calls": [letter(name) for name in word]} for word in pattern.split()]
    return items if end is None else [*items, end]


def distinct(n: int, end: str | None = "done") -> list[Any]:
    """N steps, each with one call that no other step has."""
    items: list[Any] = [{"tool_calls": [call("look", what=str(i))]} for i in range(n)]
    return items if end is None else [*items, end]


def play(items: Any, *, policy: bl.Policy | str = QUIET, agent: bl.Agent | None = None, **options: Any) -> bl.Run:
    """Run a script under an agent with the tools above; settings of the agent may be given as options."""
    settings = {name: options.pop(name) for name in ("max_steps", "tool_budget", "doom_loop") if name in options}
    model = items if hasattr(items, "respond") else bl.ScriptedModel(items)
    agent = agent or bl.Agent("tester", tools=TOOLS, policy=policy, **settings)
    return bl.run_sync(agent, "go", model=model, **options)


def without_ids(run: bl.Run) -> bl.Run:
    """A run without its own id, and those of the runs that it went on from."""
    events = [
        event._replace(payload={**event.payload, "run_id": ""}) if event.kind == "resumed" else event
        for event in run.events
    ]
    return replace(run, run_id="", events=tuple(events))


class Counting(bl.ScriptedModel):
    """A model that counts how many requests it has at once."""

    concurrency: int | None = None
    under_way = most = 0

    async def respond(self, request: Any, emit: Any = None) -> bl.models.Response:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return await super().respond(request, emit)
