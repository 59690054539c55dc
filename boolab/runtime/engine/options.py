"""The options of a turn, checked before the first request."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict

from boolab.core.clock import Clock
from boolab.core.surrogates import whole_message, whole_text
from boolab.core.types import Event, Message, Run, Text, ToolCall, ToolResult
from boolab.errors import SettingError
from boolab.harnesses.compaction import Compaction
from boolab.harnesses.policy import Policy
from boolab.io.checks import MAX_COUNT, is_whole, repr_of
from boolab.limits.function_rule import AnyRule, as_rules, is_function
from boolab.limits.stop import StopRule
from boolab.runtime.agents.agent import NO_AGENT, Agent
from boolab.runtime.engine.abort import Abort
from boolab.runtime.engine.inbox import Inbox
from boolab.runtime.models.base import Model, traits_of
from boolab.runtime.tools.tool import ToolSpec, as_tool, as_tools, open_tool
from boolab.runtime.tools.workspace import BUILT_IN, pause_tools, workspace_tools
from boolab.runtime.worlds.protocol import World

Synthesis: TypeAlias = Callable[[Sequence[ToolCall], Sequence[ToolResult]], Awaitable[str | None]]
Score: TypeAlias = Callable[[Run], bool | None]
OnEvent: TypeAlias = Callable[[Event], object]
Tools: TypeAlias = Sequence[ToolSpec | Callable[..., Any]]
Task: TypeAlias = str | Sequence[Message | Mapping[str, str]]


class Question(NamedTuple):
    """A question to the user: whether to continue although a rule is true; at a call, whether to execute that call.

    Attributes:
        rule: The rule that asks.
        value: What it has counted.
        call: The call that waits for the answer; None at a boundary.

    Example:
        >>> import boolab as bl
        >>> str(bl.Question("doom_loop(3, ordered)", 3).value)
        '3'
    """

    rule: str
    value: int
    call: ToolCall | None = None


Ask: TypeAlias = Callable[[Question], bool | Awaitable[bool]]


class BranchOptions(TypedDict, total=False):
    """The options of `run` that `branch` passes on."""

    tools: Tools | None
    root: str | Path | None
    policy: Policy | str | None
    stop: AnyRule | None
    score: Score | None
    synthesis: Synthesis | None
    abort: Abort | None
    on_event: OnEvent | None
    clock: Clock | None
    seed: int | None
    shadow: Sequence[AnyRule]
    ask: Ask | None
    inbox: Inbox | None
    compaction: Compaction | None
    world: World | None


class RunOptions(BranchOptions, total=False):
    """The options of `run`: `run_sync`, `start` and `resume` have the same."""

    model: Model | None


class Setup(NamedTuple):
    """The options of a turn, as the user gave them. `resume` continues with the same."""

    agent: Agent | None
    model: Model | None = None
    tools: Sequence[ToolSpec | Callable[..., Any]] = ()
    root: str | Path | None = None
    policy: Policy | str | None = None
    stop: AnyRule | None = None
    score: Score | None = None
    synthesis: Synthesis | None = None
    abort: Abort | None = None
    on_event: OnEvent | None = None
    clock: Clock | None = None
    seed: int | None = None
    shadow: Sequence[AnyRule] = ()
    ask: Ask | None = None
    inbox: Inbox | None = None
    compaction: Compaction | None = None
    world: World | None = None
    settings: Mapping[str, Any] = {}
    model_name: str | None = None
    run_id: str | None = None

    @property
    def folder(self) -> str | Path | None:
        """The folder that the tools work in: that of the world, or else `root`."""
        return self.root if self.world is None else self.world.root


def _is_rules(value: object) -> bool:
    rules = value if isinstance(value, Sequence) and not isinstance(value, str) else (None,)
    return all(map(_is_rule, rules))


def _is_rule(value: object) -> bool:
    return isinstance(value, StopRule) or is_function(value)


def _is_seed(value: object) -> bool:
    return is_whole(value) and -MAX_COUNT <= value <= MAX_COUNT


def _is_plain_function(value: object) -> bool:
    return callable(value) and not inspect.iscoroutinefunction(value)


_ACCEPTED: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "agent": (lambda value: isinstance(value, Agent), "a bl.Agent, such as load_agents(path)['explorer']"),
    "abort": (lambda value: isinstance(value, Abort), "a bl.Abort"),
    "stop": (_is_rule, "a stop rule, such as bl.max_steps(20), or a function of the run so far"),
    "shadow": (_is_rules, "a list of stop rules, such as [bl.max_steps(20)]"),
    "inbox": (lambda value: isinstance(value, Inbox), "a bl.Inbox"),
    "compaction": (lambda value: isinstance(value, Compaction), "a bl.Compaction"),
    "world": (lambda value: callable(getattr(value, "keep", None)), "a world, such as bl.GitWorld('.')"),
    "clock": (lambda value: callable(getattr(value, "now", None)), "a clock, such as boolab.core.clock.VirtualClock()"),
    "ask": (callable, "a function from a Question to True or False"),
    "synthesis": (callable, "an async function from calls and results to a text"),
    "score": (_is_plain_function, "a plain function from a run to True, False or None"),
    "on_event": (_is_plain_function, "a plain function from an event"),
    "seed": (_is_seed, f"an integer of at most {MAX_COUNT:,}"),
}
"""For each option that could only fail later: what it accepts beside None, and what the message expects."""


def check_event_loop() -> None:
    """Raise `SettingError` where no event loop of asyncio runs, as under trio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        msg = (
            "no event loop of asyncio is running: boolab runs agents with asyncio. Elsewhere, as under trio, call "
            "bl.run_sync in a thread: await trio.to_thread.run_sync(lambda: bl.run_sync(...))"
        )
        raise SettingError(msg) from None


def check_setup(setup: Setup) -> None:
    """Raise `SettingError` for options that could only fail later."""
    for name, (accepts, expected) in _ACCEPTED.items():
        value = getattr(setup, name)
        if value is not None and not accepts(value):
            raise SettingError(f"{name}={repr_of(value)} is not accepted: expected {expected}")
    if setup.world is not None and setup.root is not None:
        msg = "root= and world= both name the folder that the tools work in: leave root out"
        raise SettingError(msg)


def rules_of(setup: Setup) -> tuple[StopRule | None, list[StopRule]]:
    """The rule that stops the run, and those in shadow, also of functions; `SettingError` if two have one name."""
    if not setup.shadow and (setup.stop is None or (isinstance(setup.stop, StopRule) and not setup.stop.detectors())):
        return setup.stop, []  # no function is among them
    stop = [] if setup.stop is None else [setup.stop]
    rules = as_rules([*stop, *setup.shadow], "stop and shadow")
    return (rules[0] if stop else None), rules[len(stop) :]


def model_of(setup: Setup, agent: Agent) -> Model:
    """The model that answers: the one given, else the agent's own.

    Raises:
        SettingError: if there is none, or it is no model.
    """
    model = agent.model if setup.model is None else setup.model
    if model is None or isinstance(model, str):
        if setup.model is not None:
            msg = f"model={model!r} is a name: pass the model itself, such as bl.OpenAIModel({model!r})"
            raise SettingError(msg)
        named = f" names the model {model!r}, but" if model else " has no model and"
        msg = f"agent {agent.name!r}{named} none was given: pass model=..., such as bl.ScriptedModel([...])"
        raise SettingError(msg)
    given: object = model
    if isinstance(given, type):
        msg = f"model={model!r} is a class: expected one of its instances, such as {given.__name__}(...)"
        raise SettingError(msg)
    if not callable(getattr(model, "respond", None)) or not isinstance(getattr(model, "name", None), str):
        msg = f"model={model!r} is no model: expected a `name` and `async def respond(request, emit=None)`"
        raise SettingError(msg)
    return model


def offered_tools(setup: Setup) -> dict[str, ToolSpec]:
    """The tools of a turn by name: the agent's own, and those that its names stand for.

    Where neither the agent nor the run has any, those that the model brings itself are offered (`own_tools`).

    Raises:
        SettingError: if a name stands for nothing, or for two tools.
    """
    agent = setup.agent if setup.agent is not None else NO_AGENT
    given: dict[str, ToolSpec] = {}
    for spec in as_tools(setup.tools):
        if given.setdefault(spec.name, spec) is not spec:
            msg = f"tools: two tools are called {spec.name!r}"
            raise SettingError(msg)
    if not agent.tools:
        model = agent.model if setup.model is None else setup.model
        return given or {name: open_tool(name) for name in traits_of(model).own_tools or ()}
    built_in = pause_tools() if setup.folder is None else pause_tools() | workspace_tools(setup.folder)
    offered: dict[str, ToolSpec] = {}
    for tool in agent.tools:
        if isinstance(tool, ToolSpec):
            spec = tool
        elif isinstance(tool, str):
            found = given.get(tool) or built_in.get(tool)
            if found is None and traits_of(model_of(setup, agent)).replies_to(tool):
                found = open_tool(tool)
            if found is None:
                need = " (which needs root=... or world=...)" if tool in BUILT_IN else ""
                msg = (
                    f"agent {agent.name!r} lists the tool {tool!r}{need}, which nothing provides; "
                    f"given: {', '.join(given) or 'none'}; built in: {', '.join(built_in)}"
                )
                raise SettingError(msg)
            spec = found
        else:
            spec = as_tool(tool)
        if spec.name in offered:
            msg = f"agent {agent.name!r} lists the tool {spec.name!r} twice"
            raise SettingError(msg)
        offered[spec.name] = spec
    return offered


def prompt_of(agent: Agent, task: Task) -> tuple[Message, ...]:
    """The messages before the first step: the agent's prompt, and the task.

    Raises:
        SettingError: if the task is neither a text nor a list of messages.
    """
    messages = [Message("system", (Text(agent.prompt),))] if agent.prompt else []
    if isinstance(task, str):
        return (*messages, Message("user", (Text(task if task.isascii() else whole_text(task)),)))
    given: Any = task
    if not isinstance(given, Sequence) or isinstance(given, bytes):
        msg = f"task={task!r} is not accepted: expected a text, or a list of messages"
        raise SettingError(msg)
    for item in given:
        if isinstance(item, Message):
            messages.append(whole_message(item))
        elif (
            isinstance(item, Mapping)
            and item.get("role") in ("system", "user", "assistant")
            and isinstance(item.get("content"), str)
        ):
            messages.append(Message(item["role"], (Text(whole_text(item["content"])),)))
        else:
            msg = f"task: {item!r} is no message; expected a text, or a list of {{'role': ..., 'content': ...}}"
            raise SettingError(msg)
    return tuple(messages)
