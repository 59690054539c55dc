"""Running an agent: `run`, `run_sync`, `start`, `resume`. They prepare a turn and drive the loop."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from secrets import token_hex
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack

from boolab.core.messages import Message, Text
from boolab.core.run import Run
from boolab.core.surrogates import whole_message, whole_text
from boolab.core.types import Step, ToolCall
from boolab.errors import BoolabError, SettingError, forgot_await
from boolab.harnesses.presets import get_policy
from boolab.limits.context_size import is_handoff
from boolab.limits.ladder import Progress
from boolab.limits.stop import Threshold
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.abort import Abort
from boolab.runtime.engine.inbox import Inbox
from boolab.runtime.engine.loop import check_event_loop, close, drive, loop, run_of
from boolab.runtime.engine.plan import (
    BranchOptions,
    RunOptions,
    Task,
    TurnOptions,
    offered_tools,
    options_of,
    plan_of,
    with_changeable_limits,
)
from boolab.runtime.engine.portal import wait_for
from boolab.runtime.engine.record import SUMMARY, from_user
from boolab.runtime.engine.resume import count_continuations, resume_turn, without_changes
from boolab.runtime.engine.turn import ASKED, CLOSED, EXECUTING, STOPPED, Turn

KEYWORD_ONLY: Final = inspect.Parameter.KEYWORD_ONLY
F = TypeVar("F", bound=Callable[..., Any])


def _with_options(function: F) -> F:
    """Let `help` and notebooks show each option in place of `**options`."""
    signature = inspect.signature(function)
    parameters = [entry for entry in signature.parameters.values() if entry.kind is not entry.VAR_KEYWORD]
    for name in ("model", *BranchOptions.__annotations__):
        default, annotation = () if name == "shadow" else None, RunOptions.__annotations__[name].__forward_arg__
        parameters.append(inspect.Parameter(name, KEYWORD_ONLY, default=default, annotation=annotation))
    vars(function)["__signature__"] = signature.replace(parameters=parameters)
    return function


@_with_options
async def run(agent: Agent | None, task: Task, **options: Unpack[RunOptions]) -> Run:
    """Run an agent on a task until something stops it.

    Args:
        agent: Who runs; None for a bare model.
        task: The user's message, or a list of messages (`{"role": ..., "content": ...}`).
        model: What answers; wins over the agent's own.
        tools: Tools, or plain functions, that the agent's tool names may mean; an agent that lists none gets them all.
        root: The folder of the built-in read-only tools `list_files`, `read_file` and `search_text`.
        policy: A policy or the name of a preset; wins over the agent's own.
        stop: A stop rule in place of the policy's cap, budget, detector and ceiling; or a function, as `boolab bench`
            takes it: of `prefix.steps`, the steps of the turn, to True (stop) or False.
        score: Called with the record; what it returns becomes `success`.
        synthesis: Called with the calls and results of each step; a text that it returns ends the turn.
        abort: A switch to stop the run from outside.
        on_event: Called with each event as it happens, deltas included. A failing one is not called again.
        clock: The time of the run; by default virtual for scripted models, else real.
        seed: Kept in the record. Each request has a seed that is made from it, and so has each subagent.
        shadow: Stop rules that are only watched: `Step.shadow_stops` names those that were true at its boundary, and an
            event records where each first was. They change nothing.
        ask: Called with a `Question` where a guard asks the user whether a call may be executed: True or False. Without
            it the answer is no.
        inbox: Where the user's messages wait that arrive meanwhile; those that were not delivered are there afterwards.
        compaction: When the history is summarised; wins over the policy's.
        world: Where the tools work, kept after each step, such as `GitWorld(root)`: a branch can begin with what was
            kept. It is the run's `root` too.

    Returns:
        The record. A failure of the model, of a tool or of a rule is part of it, not an exception.

    Raises:
        SettingError: if something is missing or not accepted, before the first request.
        WorldError: if the world cannot be kept at all, before the first request.
        asyncio.CancelledError: if the task is cancelled; its attribute `run` is the record up to then. Where a timeout
            makes a `TimeoutError` of it, it is that one's `__context__`, on every release of Python (`__cause__` is not
            always set). Task groups and cancel scopes of anyio keep it to themselves: there, `start` has the record.
        KeyboardInterrupt, SystemExit: if a tool or the model raises it.

    Example:
        >>> import asyncio
        >>> import boolab as bl
        >>> asyncio.run(bl.run(bl.Agent("greeter"), "Hello", model=bl.ScriptedModel(["Hi."]))).stop_reason
        'finished'
        >>> async def briefly():
        ...     slow = bl.ScriptedModel([{"text": "Hi.", "latency_ms": 60_000}], realtime=True)
        ...     try:
        ...         async with asyncio.timeout(0.01):
        ...             return await bl.run(None, "Hello", model=slow)
        ...     except TimeoutError as error:
        ...         return error.__context__.run
        >>> asyncio.run(briefly()).stop_reason
        'aborted'
    """
    return await drive(turn_of(options_of(agent, options), task))


@_with_options
def run_sync(agent: Agent | None, task: Task, **options: Unpack[RunOptions]) -> Run:
    """`run` for scripts and for cells without `await`; works inside a running event loop too.

    It runs in one background thread that is started when it is first needed. An interrupt from the keyboard stops the
    run and returns its record, with stop reason `aborted`; a second one leaves without it. A plain tool cannot be
    stopped: it is left to itself after a second, its call has no result, and later runs have a new thread.

    Args:
        agent: Who runs.
        task: The user's message, or a list of messages.
        **options: As for `run`.

    Returns:
        The record.

    Example:
        >>> import boolab as bl
        >>> bl.run_sync(bl.Agent("greeter"), "Hello", model=bl.ScriptedModel(["Hi."])).n_steps
        1
    """
    prepared = options_of(agent, options)
    abort = prepared["abort"] = prepared.get("abort") or Abort()
    turn = turn_of(prepared, task)
    return wait_for(drive(turn), abort, lambda: close(turn, turn.interrupt()))


@_with_options
def start(agent: Agent | None, task: Task, **options: Unpack[RunOptions]) -> StartedRun:
    """Run an agent step by step: `async with start(...) as live: async for step in live: ...`.

    Each pass runs one step, in your task; between steps nothing happens. Leave whenever you like: the run then ends
    with `aborted`, and `live.run` is the record.

    Args:
        agent: Who runs.
        task: The user's message, or a list of messages.
        **options: As for `run`.

    Returns:
        The run under way: iterate over it for its steps; its `run` is the record.

    Example:
        >>> import asyncio
        >>> import boolab as bl
        >>> async def watch():
        ...     async with bl.start(None, "Hello", model=bl.ScriptedModel(["Hi."])) as live:
        ...         async for step in live:
        ...             print(step.index, step.response.text)
        ...     return live.run.stop_reason
        >>> asyncio.run(watch())
        1 Hi.
        'finished'
    """
    prepared = options_of(agent, options)
    if prepared.get("inbox") is None:
        prepared["inbox"] = Inbox()
    return StartedRun(turn_of(prepared, task, changeable=True))


@_with_options
async def resume(
    run: Run,
    answer: str | Mapping[str, str],
    *,
    agent: Agent | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Continue a paused run from where it stood, with its steps, budget and recent calls.

    A run that its cap stopped can continue as well, as often as its policy allows (`continues`); the cap then grows,
    or all counters start anew, by the policy. A run that `bl.max_context(n, then="handoff")` stopped is continued by a
    new run, which has the same prompt and the summary in place of its steps.

    Args:
        run: The paused run, one with stop reason `step_cap`, or one that is handed off.
        answer: What the pausing call was waiting for; a mapping from call id to answer where several were. For a run
            that its cap stopped: the user's message, such as "continue".
        agent: Who runs, and
        **options: as for `run`: needed for a run that was paused in another process, else they replace what it was
            started with.

    Returns:
        A record of its own that begins with the steps of the paused one. Its event `resumed` names that run
        (`run_id`, the column `resumed_from` of `runs_df`) and the `step` after which it continued; its totals include
        the earlier steps, and its subagents those of the paused run.

    Raises:
        SettingError: if the run is not paused, an answer is missing, its policy allows no further continuation, or the
            agent and the model are missing.

    Example:
        >>> import asyncio
        >>> import boolab as bl
        >>> ask = {"tool_calls": [{"name": "ask_user_input", "arguments": {"question": "Which?"}}]}
        >>> paused = bl.run_sync(bl.Agent("a", tools=["ask_user_input"]), "Go", model=bl.ScriptedModel([ask, "Done."]))
        >>> asyncio.run(bl.resume(paused, "The first.")).n_steps
        2
    """
    if not isinstance(run, Run):
        raise SettingError(f"run={run!r} is no Run{forgot_await(run)}")
    if run.stop_reason not in ("paused", "step_cap") and not is_handoff(run.stop):
        msg = f"only a paused run, or one that its cap stopped, can be resumed; this one ended with {run.stop_reason!r}"
        raise SettingError(msg)
    earlier_options: TurnOptions | None = run.continuation
    if earlier_options is None and "model" not in options:
        msg = "this run was made elsewhere: pass agent= and model= (and tools= or root=) to continue it"
        raise SettingError(msg)
    changes = options_of(agent, options)
    if earlier_options is not None and agent is None:
        changes["agent"] = earlier_options.get("agent")
    prepared: TurnOptions = {**(earlier_options or {}), **changes}
    if is_handoff(run.stop):
        return await drive(_handoff_turn(run, answer, prepared))
    paused, message = run, None
    if run.stop_reason == "step_cap":
        message = _check_continuation(run, answer, prepared)
    else:
        pausing = {name for name, spec in offered_tools(earlier_options or prepared).items() if spec.pauses}
        paused = _insert_answer(run, answer, pausing)
    if not changes.keys().isdisjoint(("policy", "stop")) or agent is not None:
        paused = without_changes(paused)  # the new limits hold
    turn = resume_turn(plan_of(prepared), replace(paused, run_id=token_hex(16)), message)
    turn.record.note("resumed", run_id=run.run_id, step=run.n_steps)
    return await drive(turn)


class StartedRun:
    """A run under way; see `start`."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._steps = loop(turn)
        self._changes: deque[Mapping[str, int | None]] = deque()

    @property
    def run(self) -> Run:
        """The record, once the run has ended or been left."""
        if self._turn.run is None:
            msg = "the run has not ended; its record is there after the `async with` block, or after the last step"
            raise BoolabError(msg)
        return self._turn.run

    @property
    def progress(self) -> Progress:
        """The counters at the latest boundary, by name."""
        return self._turn.ladder.counters

    @property
    def limits(self) -> dict[str, int]:
        """The limits that are in force, by counter, as the record has them."""
        return self._turn.plan.recorded_limits(self._turn.limits)

    @property
    def changeable_limits(self) -> dict[str, int | None]:
        """The limits that `set_limits` can change, with their values in force; None is no limit."""
        return dict(self._turn.limits.settings) if self._turn.plan.changeable else {}

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """All thresholds that hold: of the rules at boundaries and at responses, then of the levels of guards."""
        plan, limits = self._turn.plan, self._turn.limits
        rules = [rule for rule in (limits.rule, limits.response_rule) if rule is not None]
        guards = dict.fromkeys((*plan.call_guards, *plan.response_guards, *plan.boundary_guards, *plan.asking))
        for guard in guards:
            rules += [guard.at(threshold) for threshold, _ in guard.ladder]
        return tuple({str(leaf): leaf for leaf in chain.from_iterable(rule.leaves() for rule in rules)}.values())

    @property
    def stopped(self) -> bool:
        """Whether something has stopped the run, so that no further step follows."""
        return self._turn.step.state in (STOPPED, CLOSED)

    @property
    def awaits_answer(self) -> bool:
        """Whether a request is out, and its response has not come."""
        return self._turn.step.state == ASKED

    @property
    def running_call(self) -> ToolCall | None:
        """The call that is executed now, the first one where there are several; None while none is."""
        step = self._turn.step
        calls = () if step.state != EXECUTING or step.response is None else step.response.tool_calls
        return next((call for call, result in zip(calls, step.results, strict=False) if result is None), None)

    def snapshot(self) -> Run:
        """The record so far, as of a run that is paused here; the whole record once the run has ended."""
        run = self._turn.run
        return replace(run_of(self._turn, self._turn.end("paused")), continuation=None) if run is None else run

    def set_limits(self, **changes: int | None) -> None:
        """Change limits of the policy, from any thread: `max_steps`, `tool_budget`, `doom_loop`.

        They hold from the next step boundary on, and an event `limits` records which do. A run that is resumed keeps
        them; a branch begins with the limits of its own agent.

        Args:
            **changes: The new values, by name; None is no limit.

        Raises:
            SettingError: if the policy does not have such a limit or does not accept the value, or if the limits of
                the run cannot be changed: with `stop=`, or a cap of 0.

        Example:
            >>> import asyncio
            >>> import boolab as bl
            >>> async def tighten():
            ...     stuck = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": "forever"}])
            ...     async with bl.start(bl.Agent("a", max_steps=50, doom_loop=None), "Look", model=stuck) as started:
            ...         async for step in started:
            ...             if step.index == 2:
            ...                 started.set_limits(max_steps=4)
            ...     return started.run
            >>> run = asyncio.run(tighten())
            >>> run.n_steps, run.stop.rule, run.events[0].payload["after_step"]
            (4, 'max_steps(4)', 2)
        """
        self.check_limits(changes)
        self._changes.append(changes)

    def check_limits(self, changes: Mapping[str, int | None]) -> None:
        """Raise `SettingError` where `set_limits` would, and change nothing."""
        self._turn.plan.change_limits(self._turn.limits, changes)

    def abandon(self) -> Run:
        """Close the record as it stands, with `aborted`, from another thread: where a plain tool does not return."""
        if self._turn.run is None:
            close(self._turn, self._turn.interrupt())
        return self.run

    def send(self, text: str) -> None:
        """Leave a message of the user, from any thread; the policy decides when it is delivered (see `Inbox`).

        Args:
            text: The text of the message.

        Raises:
            SettingError: if it is no text.

        Example:
            >>> import asyncio
            >>> import boolab as bl
            >>> async def steer():
            ...     model = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}]}, "In French, then."])
            ...     async with bl.start(None, "Translate it.", model=model) as started:
            ...         async for step in started:
            ...             if step.index == 1:
            ...                 started.send("Into French.")
            ...     return started.run.inputs[0].message.text
            >>> asyncio.run(steer())
            'Into French.'
        """
        inbox = self._turn.plan.options.get("inbox")
        assert inbox is not None  # noqa: S101 - start made one
        inbox.send(text)

    async def __aenter__(self) -> Self:
        check_event_loop()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._steps.aclose()
        if self._turn.run is None:
            close(self._turn, self._turn.interrupt())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Step:
        if self._changes and not self.stopped:
            changes: dict[str, int | None] = {}
            while self._changes:  # a slider sends many, of which the last one counts
                changes |= self._changes.popleft()
            self._turn.change_limits(changes)
        abort = self._turn.abort
        if abort is None:
            return await anext(self._steps)
        abort.attach()
        try:
            return await anext(self._steps)
        finally:
            abort.detach()


def turn_of(
    options: TurnOptions,
    task: Task,
    *,
    parent: Turn | None = None,
    charged: bool = False,
    changeable: bool = False,
) -> Turn:
    """A turn that is ready to run; the budgets of the `parent` that starts a subagent pay for it if `charged`."""
    plan = with_changeable_limits(plan_of(options)) if changeable else plan_of(options)
    return Turn(plan, _prompt_of(plan.agent, task), parent=parent, charged=charged)


def _prompt_of(agent: Agent, task: Task) -> tuple[Message, ...]:
    """The messages before the first step: the agent's prompt, and the task."""
    messages = [Message("system", (Text(agent.prompt),))] if agent.prompt else []
    if isinstance(task, str):
        return (*messages, Message("user", (Text(task if task.isascii() else whole_text(task)),)))
    entries: Any = task
    if not isinstance(entries, Sequence) or isinstance(entries, bytes):
        msg = f"task={task!r} is not accepted: expected a text, or a list of messages"
        raise SettingError(msg)
    for item in entries:
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


def _check_continuation(run: Run, answer: object, options: TurnOptions) -> Message:
    """The user's message to a run that its cap stopped, if the policy lets it continue."""
    agent, policy_or_name = options.get("agent"), options.get("policy")
    if policy_or_name is None:
        policy_or_name = agent.policy if agent else "boocode"
    policy = get_policy(policy_or_name)
    n_continued = count_continuations(run.events)
    if policy.continues.by == "loop" or policy.continues.times == 0:
        msg = f"under {policy} a run that its cap stopped is over: its user cannot let it continue"
        raise SettingError(msg)
    if policy.continues.times is not None and n_continued >= policy.continues.times:
        times = _times(policy.continues.times)
        msg = f"under {policy} a run may continue {times} after its cap; this one has {_times(n_continued)}"
        raise SettingError(msg)
    if not isinstance(answer, str):
        msg = f"answer={answer!r}: expected a text, such as 'continue'"
        raise SettingError(msg)
    return Message("user", (Text(answer),))


def _handoff_turn(run: Run, answer: str | Mapping[str, str], options: TurnOptions) -> Turn:
    """The turn of the new run that continues one with a summary of it."""
    summary = run.wrap_up
    if summary is None or summary.fault or summary.response is None:
        fault = "has no summary" if summary is None or not summary.fault else f"its summary failed: {summary.fault}"
        msg = f"this run cannot be handed off: {fault}"
        raise SettingError(msg)
    if not isinstance(answer, str) or not answer:
        raise SettingError(f"answer={answer!r}: expected the text of your message, such as 'Continue.'")
    plan = plan_of({name: value for name, value in options.items() if name != "run_id"})  # type: ignore[arg-type] # of it
    # the summary of a run that was handed off before is part of this one
    prompt = run.prompt[:-2] if any(event.kind == "handoff" for event in run.events) else run.prompt
    turn = Turn(plan, (*prompt, from_user(SUMMARY.format(summary.text)), from_user(whole_text(answer))))
    turn.record.task, turn.record.parent_run_id = run.task, run.parent_run_id
    turn.record.note("handoff", run_id=run.run_id, step=run.n_steps)
    return turn


def _times(n: int) -> str:
    return f"{n} time{'' if n == 1 else 's'}"


def _insert_answer(run: Run, answer: str | Mapping[str, str], pausing: Container[str]) -> Run:
    """The run with the answer in place of what the pausing calls gave."""
    *earlier_steps, last = run.steps
    indices = [
        index
        for index, (call, result) in enumerate(zip(last.response.tool_calls, last.results, strict=True))
        if call.name in pausing and result is not None and not result.is_error
    ]
    waiting = [last.response.tool_calls[index].id for index in indices]
    answers = dict.fromkeys(waiting, answer) if isinstance(answer, str) else answer
    if not waiting or not isinstance(answers, Mapping) or set(answers) != set(waiting):
        msg = f"answer={answer!r}: expected a text, or a mapping with a text for each call that waits: {waiting}"
        raise SettingError(msg)
    results = list(last.results)
    for index, call_id in zip(indices, waiting, strict=True):
        text, result = answers[call_id], results[index]
        if not isinstance(text, str) or result is None:
            msg = f"the answer to {call_id} is {text!r}; expected a text"
            raise SettingError(msg)
        results[index] = result._replace(content=text)
    return replace(run, steps=(*earlier_steps, last._replace(results=tuple(results))))
