"""Subagents: a tool by which a model lets another agent run.

A subagent is a turn of its own: its own steps, its own policy, its own record, linked by `parent_run_id`. What it
shares with its caller is the abort switch, the user who can be asked, the time and, if so wanted, the budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from boolab.core.run import Run
from boolab.core.types import Event, Usage
from boolab.errors import SettingError, ToolError, near
from boolab.frames.runs import known_sum
from boolab.io.checks import check_whole
from boolab.limits.ladder import Progress
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.loop import drive
from boolab.runtime.engine.plan import TurnOptions, model_of, offered_tools
from boolab.runtime.engine.runner import turn_of
from boolab.runtime.engine.seeds import subagent_seed
from boolab.runtime.engine.turn import Turn
from boolab.runtime.models.base import Model
from boolab.runtime.tools.tool import ToolContext, ToolSpec, as_tools, tool

Agents: TypeAlias = Agent | Iterable[Agent] | Mapping[str, Agent]

CHARGED: Final = ("tool_calls", "input_tokens", "output_tokens", "cost")
"""The counters that a subagent's spending adds to for its caller."""


def task_tool(
    agents: Agents,
    *,
    model: Model | None = None,
    tools: Sequence[ToolSpec | Callable[..., Any]] | None = None,
    root: str | Path | None = None,
    budget: Literal["own", "root"] = "own",
    max_depth: int = 1,
    name: str = "task",
) -> ToolSpec:
    """A tool `task(agent, prompt)` by which a model lets another agent run and gets its answer.

    The subagent has a step counter of its own (opencode issue 3631), and its own policy and limits. If it finishes, its
    text is the result. If a limit stops it, or it fails, is aborted or pauses, the result is an error that names it,
    after how many steps and calls, with its last words: its caller is never left with "running" (opencode issues 28074,
    45442). Several calls in one step run side by side.

    It counts as a tool that writes, because what a subagent will do is not known; `dataclasses.replace(task,
    read_only=True)` changes that.

    Args:
        agents: Who may be called: an agent, agents, or what `load_agents` gives.
        model: What answers the agents that have no model of their own; the caller's by default.
        tools: As for `run`. Below the depth limit this tool is among them, and at it for agents that name it.
        root: As for `run`.
        budget: Who pays. `own`: each subagent for itself. `root`: the caller as well, and the callers above it, up to
            the root: each step counts against their limits on calls, tokens, cost and time, never on steps. Each limit
            is evaluated before each step of the subagent, the root's first (as in Inspect's `util/_limit.py`).
        max_depth: How many generations there may be below the root.
        name: What the model calls the tool.

    Returns:
        The tool; give it to `run(..., tools=[...])` or to an agent.

    Raises:
        SettingError: if there is no agent, two have one name, or a value is not one that is accepted.

    Example:
        >>> import boolab as bl
        >>> scout = bl.Agent("scout", model=bl.ScriptedModel(["It is in a.py."]))
        >>> asks = {"tool_calls": [{"name": "task", "arguments": {"agent": "scout", "prompt": "Where is it?"}}]}
        >>> model = bl.ScriptedModel([asks, "Found."])
        >>> run = bl.run_sync(bl.Agent("lead"), "Find it", model=model, tools=[bl.task_tool(scout)])
        >>> run.steps[0].results[0].content, [member.agent for member in bl.with_subagents(run)]
        ('It is in a.py.', ['lead', 'scout'])
    """
    agents_by_name = _index_agents(agents)
    deepest = check_whole(max_depth, "max_depth", 1)
    if budget not in ("own", "root"):
        msg = f"budget={budget!r} is not accepted; expected 'own' or 'root'"
        raise SettingError(msg)
    named: object = name
    if not isinstance(named, str) or not named:
        msg = f"name={name!r} cannot be a tool's name: expected a text such as 'task'"
        raise SettingError(msg)
    tool_specs = tuple(as_tools(tools or ()))

    def prepare(agent: Agent, depth: int, fallback: Model | None) -> TurnOptions:
        names_task = any(getattr(t, "name", t) == name for t in agent.tools)
        inherits = (names_task or depth < deepest) and all(t.name != name for t in tool_specs)
        chosen_model = agent.model if agent.model is not None and not isinstance(agent.model, str) else model
        specs = (*tool_specs, spec) if inherits else tool_specs
        return {
            "agent": agent,
            "model": fallback if chosen_model is None else chosen_model,
            "tools": specs,
            "root": root,
        }

    async def task(agent: str, prompt: str, context: ToolContext) -> str:
        """Let another agent work on a task by itself, and get its answer. It knows nothing but the prompt.

        Args:
            agent: Who works on it.
            prompt: The task, with all that the agent needs to know.
            context: The call's own.
        """
        caller = context.caller
        if not isinstance(caller, Turn) or caller.step.response is None:
            msg = f"{name} can only be called by an agent that runs"
            raise ToolError(msg)
        if agent not in agents_by_name:
            msg = f"there is no agent {agent!r}{near(agent, agents_by_name, 'known')}"
            raise ToolError(msg)
        if caller.depth >= deepest:
            msg = f"a subagent {deepest} deep cannot start another one: do the work here, or hand it back"
            raise ToolError(msg)
        options = prepare(agents_by_name[agent], caller.depth + 1, caller.plan.model)
        return await _run(caller, options, prompt, context, budget)

    spec = tool(name=name)(task)
    summaries = "; ".join(
        f"{key}: {entry.description}" if entry.description else key for key, entry in agents_by_name.items()
    )
    spec = replace(spec, description=f"{spec.description} Agents: {summaries}.")
    offered_tools({"model": model, "tools": tool_specs})
    for agent in agents_by_name.values():
        prepared = prepare(agent, 1, None)
        if prepared["model"] is not None:
            model_of(prepared)
            offered_tools(prepared)
    return spec


def _index_agents(agents: Agents) -> dict[str, Agent]:
    """The agents by name, checked."""
    value: Any = agents
    if isinstance(value, str) or not isinstance(value, Iterable | Agent):
        msg = f"agents: {value!r} is no agent; expected a bl.Agent, a list of them, or what load_agents gives"
        raise SettingError(msg)
    if isinstance(value, Mapping):
        pairs = [*value.items()]
    else:
        pairs = [(getattr(agent, "name", None), agent) for agent in ([value] if isinstance(value, Agent) else value)]
    agents_by_name: dict[str, Agent] = {}
    for key, agent in pairs:
        if not isinstance(agent, Agent):
            msg = f"agents: {agent!r} is no agent; expected a bl.Agent, a list of them, or what load_agents gives"
            raise SettingError(msg)
        if not isinstance(key, str) or not key or key in agents_by_name:
            count = "two agents" if key in agents_by_name else "no agent"
            msg = f"agents: {key!r} names {count}; each needs a name of its own"
            raise SettingError(msg)
        agents_by_name[key] = agent
    if not agents_by_name:
        msg = "agents: there are none; a task needs at least one agent that can be called"
        raise SettingError(msg)
    return agents_by_name


async def _run(caller: Turn, options: TurnOptions, prompt: str, context: ToolContext, budget: str) -> str:
    """Run a subagent to its end, keep its record with its caller, and give its answer."""
    shared, world = caller.plan.options, caller.plan.options.get("world")
    options = {
        **options,
        "root": options.get("root") if world is None else world.root,
        "abort": shared.get("abort"),
        "ask": shared.get("ask"),
        "clock": context.clock,
        "seed": subagent_seed(shared.get("seed"), context.step, context.call),
        "settings": shared.get("settings", {}),
        "model_name": shared.get("model_name") if options.get("model") is caller.plan.model else None,
        "run_id": None if shared.get("run_id") is None else _child_id(caller.record.run_id, context),
    }
    agent = options.get("agent")
    label = repr("" if agent is None else agent.name)
    try:
        child = turn_of(options, prompt, parent=caller, charged=budget == "root")
    except SettingError as error:
        msg = f"The subagent {label} could not be started: {error}"
        raise ToolError(msg) from error
    caller.subagents.append(child)
    _report(caller, child, context)
    try:
        run = await drive(child)
    finally:
        if child.run is not None:
            _report(caller, child, context)
    if run.stop_reason not in ("finished", "synthesis"):
        raise ToolError(_unfinished_result(label, run))
    return _answer(run, child.plan.policy.finish.tools) or f"The subagent {label} finished without a word."


def _report(caller: Turn, child: Turn, context: ToolContext) -> None:
    """Record that a subagent began, or how it ended; unlike other events of a step, it is reported at once."""
    calls = () if caller.step.response is None else caller.step.response.tool_calls
    facts: dict[str, Any] = {"run_id": child.record.run_id, "agent": child.plan.agent.name, "reason": None}
    facts["call_id"] = calls[context.call - 1].id
    run = child.run
    if run is not None:
        facts |= {"reason": run.stop_reason, "steps": run.n_steps, "calls": run.n_tool_calls}
        if child.budget_parent is not None:
            facts["charged"] = _sum_charges(child.passed_on)
    t_ms, after_step = context.clock.now() - caller.ahead_ms, len(caller.history.steps) + 1
    caller.record.report(Event(t_ms, "subagent", {"after_step": after_step, **facts}))


def _sum_charges(charges: Sequence[tuple[Usage, int]]) -> dict[str, int | None]:
    """What was charged to a caller, in sum: as an event has it, from which `resume` charges it again."""
    amounts = Progress()
    for usage, calls in charges:
        amounts.charge(usage, calls)
    writes = [usage.cache_write_tokens for usage, _ in charges if usage.cache_write_tokens is not None]
    cached = {
        "cached_tokens": known_sum(usage.cached_tokens for usage, _ in charges),
        "cache_write_tokens": sum(writes) if writes else None,  # a provider that reports none may charge none
    }
    amounts_of_cache = {name: amount for name, amount in cached.items() if amount is not None}
    return {name: amounts[name] for name in CHARGED} | amounts_of_cache


def _child_id(run_id: str, context: ToolContext) -> str:
    """The id of the run that a call starts, where its caller's was given: the same wherever and whenever it runs."""
    return blake2b(f"{run_id} {context.step} {context.call}".encode(), digest_size=16).hexdigest()


def _answer(run: Run, finish_tools: Sequence[str]) -> str:
    """What a finished run gives: the result of the tool that finished it, else its text."""
    last = run.steps[-1]
    for call, result in zip(last.response.tool_calls, last.results, strict=True):
        if call.name in finish_tools and result is not None and not result.is_error and result.content:
            return result.content
    return run.text


def _unfinished_result(label: str, run: Run) -> str:
    """The result for the caller of a subagent that did not finish."""
    stop = run.stop
    rule = f" by {stop.rule}" if stop.rule else ""
    outcome = {
        "aborted": "was aborted",
        "error": f"failed ({run.error})",
        "paused": "paused to ask the user, who cannot answer it here,",
    }.get(stop.reason, f"was stopped ({stop.reason}{rule})")
    cause = f" ({run.error})" if run.error and stop.reason != "error" else ""
    steps = f"{run.n_steps} step{'' if run.n_steps == 1 else 's'}"
    calls = f"{run.n_tool_calls} call{'' if run.n_tool_calls == 1 else 's'}"
    text = run.text or next((step.response.text for step in reversed(run.steps) if step.response.text), "")
    last = f"Its last text:\n{text}" if text else "It returned no text."
    return f"The subagent {label} {outcome} after {steps} and {calls}{cause}. {last}"
