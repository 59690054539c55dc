"""Running an agent: `run`, `run_sync`, `start`, `resume`. They prepare a turn and drive the loop."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Container, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack

from boolab.core.clock import Clock
from boolab.core.types import Message, Run, Step, Text
from boolab.errors import BoolabError, SettingError, forgot_await, near
from boolab.harnesses.compaction import Compaction
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy
from boolab.limits.counters import Progress
from boolab.limits.function_rule import AnyRule
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.abort import Abort
from boolab.runtime.engine.inbox import Inbox
from boolab.runtime.engine.loop import loop
from boolab.runtime.engine.options import (
    Ask,
    OnEvent,
    RunOptions,
    Score,
    Setup,
    Synthesis,
    Task,
    Tools,
    check_event_loop,
    offered_tools,
    prompt_of,
)
from boolab.runtime.engine.plan import plan_of
from boolab.runtime.engine.record import close, limits_on_record
from boolab.runtime.engine.resume import resumed, times_continued
from boolab.runtime.engine.turn import Turn
from boolab.runtime.models.base import Model
from boolab.runtime.worlds.protocol import World

BLOCKED_S: Final = 1.0
"""How long the background thread may take to answer an interrupt before it is left to what runs in it."""

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def _with_options_of_run(function: F) -> F:
    """Let `help` and notebooks show each option of `run` in place of `**options`."""
    own = inspect.signature(function)
    options = [one for one in inspect.signature(run).parameters.values() if one.kind is one.KEYWORD_ONLY]
    named = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
    vars(function)["__signature__"] = own.replace(parameters=[*named, *options])
    return function


async def run(
    agent: Agent | None,
    task: Task,
    *,
    model: Model | None = None,
    tools: Tools | None = None,
    root: str | Path | None = None,
    policy: Policy | str | None = None,
    stop: AnyRule | None = None,
    score: Score | None = None,
    synthesis: Synthesis | None = None,
    abort: Abort | None = None,
    on_event: OnEvent | None = None,
    clock: Clock | None = None,
    seed: int | None = None,
    shadow: Sequence[AnyRule] = (),
    ask: Ask | None = None,
    inbox: Inbox | None = None,
    compaction: Compaction | None = None,
    world: World | None = None,
) -> Run:
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
    setup = Setup(
        agent=agent,
        model=model,
        tools=tools or (),
        root=root,
        policy=policy,
        stop=stop,
        score=score,
        synthesis=synthesis,
        abort=abort,
        on_event=on_event,
        clock=clock,
        seed=seed,
        shadow=shadow,
        ask=ask,
        inbox=inbox,
        compaction=compaction,
        world=world,
    )
    return await drive(turn_of(setup, task))


@_with_options_of_run
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
    _options(options)
    abort = options["abort"] = options.get("abort") or Abort()
    turn = turn_of(setup_of(agent, options), task)
    return wait_for(drive(turn), abort, lambda: close(turn, turn.interrupt()))


@_with_options_of_run
def start(agent: Agent | None, task: Task, **options: Unpack[RunOptions]) -> Live:
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
    setup = setup_of(agent, options)
    return Live(turn_of(setup if setup.inbox is not None else setup._replace(inbox=Inbox()), task))


@_with_options_of_run
async def resume(
    run: Run,
    answer: str | Mapping[str, str],
    *,
    agent: Agent | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Continue a paused run from where it stood, with its steps, budget and recent calls.

    A run that its cap stopped can continue as well, as often as its policy allows (`continues`); the cap then grows,
    or all counters start anew, by the policy.

    Args:
        run: The paused run, or one with stop reason `step_cap`.
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
        >>> import boolab as bl
        >>> ask = {"tool_calls": [{"name": "ask_user_input", "arguments": {"question": "Which?"}}]}
        >>> paused = bl.run_sync(bl.Agent("a", tools=["ask_user_input"]), "Go", model=bl.ScriptedModel([ask, "Done."]))
        >>> asyncio.run(bl.resume(paused, "The first.")).n_steps
        2
    """
    given: object = run
    if not isinstance(given, Run):
        raise SettingError(f"run={run!r} is no Run{forgot_await(run)}")
    if run.stop_reason not in ("paused", "step_cap"):
        msg = f"only a paused run, or one that its cap stopped, can be resumed; this one ended with {run.stop_reason!r}"
        raise SettingError(msg)
    before = run.continuation
    if before is None and "model" not in options:
        msg = "this run was made elsewhere: pass agent= and model= (and tools= or root=) to continue it"
        raise SettingError(msg)
    setup = (before or Setup(agent))._replace(**_options(options))
    if agent is not None:
        setup = setup._replace(agent=agent)
    paused, message = run, None
    if run.stop_reason == "step_cap":
        message = _continued(run, answer, setup)
    else:
        pausing = {name for name, spec in offered_tools(before or setup).items() if spec.pauses}
        paused = _answered(run, answer, pausing)
    turn = resumed(plan_of(setup), replace(paused, run_id=token_hex(16)), message)
    turn.record.note("resumed", run_id=run.run_id, step=run.n_steps)
    return await drive(turn)


class Live:
    """A run under way; see `start`."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._steps = loop(turn)

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
        return limits_on_record(self._turn.plan, self._turn.limits)

    def send(self, text: str) -> None:
        """Leave a message of the user, from any thread; the policy decides when it is delivered (see `Inbox`).

        Args:
            text: The text of the message.

        Raises:
            SettingError: if it is no text.

        Example:
            >>> import boolab as bl
            >>> async def steer():
            ...     model = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}]}, "In French, then."])
            ...     async with bl.start(None, "Translate it.", model=model) as live:
            ...         async for step in live:
            ...             if step.index == 1:
            ...                 live.send("Into French.")
            ...     return live.run.inputs[0].message.text
            >>> asyncio.run(steer())
            'Into French.'
        """
        assert self._turn.plan.options.inbox is not None  # noqa: S101 - start made one
        self._turn.plan.options.inbox.send(text)

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
        abort = self._turn.plan.options.abort
        if abort is None:
            return await anext(self._steps)
        abort.attach()
        try:
            return await anext(self._steps)
        finally:
            abort.detach()


def turn_of(options: Setup, task: Task, *, parent: Turn | None = None, charged: bool = False) -> Turn:
    """A turn that is ready to run.

    Args:
        options: What it is run with.
        task: The user's message, or a list of messages.
        parent: The turn whose tool starts this one.
        charged: Whether the parent's budgets pay for it too.

    Raises:
        SettingError: if something is missing or not accepted; no request has been made then.
    """
    plan = plan_of(options)
    return Turn(plan, prompt_of(plan.agent, task), parent=parent, charged=charged)


async def drive(turn: Turn, after_step: Callable[[Turn], object] | None = None) -> Run:
    """Run a prepared turn to its end.

    Args:
        turn: The turn.
        after_step: Called with it after each step.

    Returns:
        The record.
    """
    check_event_loop()
    abort = turn.plan.options.abort
    if abort is not None:
        abort.attach()
    try:
        async with aclosing(loop(turn)) as steps:
            async for _ in steps:
                if after_step is not None:
                    after_step(turn)
    finally:
        if abort is not None:
            abort.detach()
    assert turn.run is not None  # noqa: S101 - the loop closes its turn
    return turn.run


def wait_for(work: Coroutine[Any, Any, T], abort: Abort, abandoned: Callable[[], T] | None = None) -> T:
    """Wait for a coroutine in the background thread; an interrupt from the keyboard fires `abort`.

    Args:
        work: The coroutine.
        abort: Its switch.
        abandoned: Makes the result where foreign code blocks the thread then; without it, that is waited for.
    """
    if not isinstance(threading.current_thread(), _Portal):
        return _portal().wait(work, abort, abandoned)
    # A tool of a run_sync runs an agent itself: that one gets a loop of its own, in a thread that ends with it.
    portal = _Portal()
    portal.start()
    try:
        return portal.wait(work, abort, abandoned)
    finally:
        portal.close()


class _Portal(threading.Thread):
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        super().__init__(name="boolab", daemon=True)
        self.loop = asyncio.new_event_loop()
        self._closing = False

    def run(self) -> None:
        while not self._closing:
            # A task that raises one of these ends the event loop with it, before the waiting caller is notified;
            # and any code in there may stop the event loop.
            with suppress(KeyboardInterrupt, SystemExit):
                self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())  # with them, the connections of real models close
        self.loop.close()

    def close(self) -> None:
        self._closing = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join()

    def wait(self, work: Coroutine[Any, Any, T], abort: Abort, abandoned: Callable[[], T] | None) -> T:
        outcome: Future[T] = Future()

        async def report() -> None:
            # Nothing may escape into the loop: an interrupt or an exit raised in there would end its thread.
            try:
                outcome.set_result(await work)
            except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                outcome.set_exception(error)

        try:
            asyncio.run_coroutine_threadsafe(report(), self.loop)
            return outcome.result()
        except KeyboardInterrupt:
            if outcome.done():
                raise
            abort.abort()
            if abandoned is None or outcome.done() or not self._is_blocked():
                return outcome.result()
            with _portal_lock:  # later work gets another thread; this one ends its tool, and then waits
                if _portals.get(os.getpid()) is self:
                    del _portals[os.getpid()]
            return abandoned()

    def _is_blocked(self) -> bool:
        """Whether the event loop does nothing for a while: a plain function runs in it."""
        answered = threading.Event()
        self.loop.call_soon_threadsafe(answered.set)
        return not answered.wait(BLOCKED_S)


def _portal() -> _Portal:
    """The process's one background thread, started when it is first needed, or when the one before has died."""
    with _portal_lock:
        portal = _portals.get(os.getpid())
        if portal is None or not portal.is_alive():
            portal = _portals[os.getpid()] = _Portal()
            portal.start()
        return portal


_portals: dict[int, _Portal] = {}
"""By process: threads do not survive a fork, and the event loop of the process before is not to be closed here."""
_portal_lock = threading.Lock()


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    known = set(Setup._fields) - {"agent", "settings", "model_name", "run_id"}
    unknown = sorted(set(options) - known)
    if unknown:
        msg = f"unknown option {unknown[0]!r}{near(unknown[0], sorted(known), 'accepted')}"
        raise SettingError(msg)
    return {name: () if name == "tools" and value is None else value for name, value in options.items()}


def setup_of(agent: Agent | None, options: Mapping[str, Any]) -> Setup:
    """What a turn is run with, from the options of `run` by name.

    Raises:
        SettingError: if there is no option of that name.
    """
    return Setup(agent)._replace(**_options(options))


def _continued(run: Run, answer: object, setup: Setup) -> Message:
    """The user's message to a run that its cap stopped, if the policy lets it continue."""
    policy = get_policy((setup.agent.policy if setup.agent else "boocode") if setup.policy is None else setup.policy)
    used = times_continued(run.events)
    if policy.continues.by == "loop" or policy.continues.times == 0:
        msg = f"under {policy} a run that its cap stopped is over: its user cannot let it continue"
        raise SettingError(msg)
    if policy.continues.times is not None and used >= policy.continues.times:
        allowed = _times(policy.continues.times)
        msg = f"under {policy} a run may continue {allowed} after its cap; this one has {_times(used)}"
        raise SettingError(msg)
    if not isinstance(answer, str):
        msg = f"answer={answer!r}: expected a text, such as 'continue'"
        raise SettingError(msg)
    return Message("user", (Text(answer),))


def _times(n: int) -> str:
    return f"{n} time{'' if n == 1 else 's'}"


def _answered(run: Run, answer: str | Mapping[str, str], pausing: Container[str]) -> Run:
    """The run with the answer in place of what the pausing calls gave."""
    *before, last = run.steps
    places = [
        place
        for place, (call, result) in enumerate(zip(last.response.tool_calls, last.results, strict=True))
        if call.name in pausing and result is not None and not result.is_error
    ]
    waiting = [last.response.tool_calls[place].id for place in places]
    answers = dict.fromkeys(waiting, answer) if isinstance(answer, str) else answer
    if not waiting or not isinstance(answers, Mapping) or set(answers) != set(waiting):
        msg = f"answer={answer!r}: expected a text, or a mapping with a text for each call that waits: {waiting}"
        raise SettingError(msg)
    results = list(last.results)
    for place, call_id in zip(places, waiting, strict=True):
        text, result = answers[call_id], results[place]
        if not isinstance(text, str) or result is None:
            msg = f"the answer to {call_id} is {text!r}; expected a text"
            raise SettingError(msg)
        results[place] = result._replace(content=text)
    return replace(run, steps=(*before, last._replace(results=tuple(results))))
