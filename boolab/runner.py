"""Running an agent: `run`, `run_sync`, `start`, `resume`. They prepare a turn and drive the loop."""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections.abc import Callable, Container, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from boolab.abort import Abort
from boolab.agents import Agent
from boolab.clock import Clock
from boolab.compaction import Compaction
from boolab.errors import BoolabError, SettingError
from boolab.inbox import Inbox
from boolab.loop import loop
from boolab.models.base import Model
from boolab.policy import Policy
from boolab.presets import get_policy
from boolab.setup import Ask, OnEvent, Score, Setup, Synthesis, Task, offered_tools
from boolab.stop import Progress, StopRule
from boolab.tools import ToolSpec
from boolab.turn import Turn, times_continued
from boolab.types import Message, Run, Step, Text

T = TypeVar("T")
Tools = Sequence[ToolSpec | Callable[..., Any]]


async def run(
    agent: Agent | None,
    task: Task,
    *,
    model: Model | None = None,
    tools: Tools | None = None,
    root: str | Path | None = None,
    policy: Policy | str | None = None,
    stop: StopRule | None = None,
    score: Score | None = None,
    synthesis: Synthesis | None = None,
    abort: Abort | None = None,
    on_event: OnEvent | None = None,
    clock: Clock | None = None,
    seed: int | None = None,
    shadow: Sequence[StopRule] = (),
    ask: Ask | None = None,
    inbox: Inbox | None = None,
    compaction: Compaction | None = None,
) -> Run:
    """Run an agent on a task until something stops it.

    Args:
        agent: Who runs; None for a bare model.
        task: The user's message, or a list of messages (`{"role": ..., "content": ...}`).
        model: What answers; wins over the agent's own.
        tools: Tools, or plain functions, that the agent's tool names may mean; an agent that lists none gets them all.
        root: The folder of the built-in read-only tools `list_files`, `read_file` and `search_text`.
        policy: A policy or the name of a preset; wins over the agent's own.
        stop: A stop rule in place of the policy's cap, budget, detector and ceiling.
        score: Called with the record; what it returns becomes `success`.
        synthesis: Called with the calls and results of each step; a text that it returns ends the turn.
        abort: A switch to stop the run from outside.
        on_event: Called with each event as it happens, deltas included. A failing one is not called again.
        clock: The time of the run; by default virtual for scripted models, else real.
        seed: Passed to the model and kept in the record.
        shadow: Stop rules that are only watched: `Step.would_stop` names those that were true at its boundary, and an
            event tells where each first was. They change nothing.
        ask: Called with a `Question` where a guard asks the user whether a call may be executed: True or False. Without
            it the answer is no.
        inbox: Where the user's messages wait that arrive meanwhile; those that were not let in are there afterwards.
        compaction: When the history is summarised; wins over the policy's.

    Returns:
        The record. A failure of the model, of a tool or of a rule is part of it, not an exception.

    Raises:
        SettingError: if something is missing or not accepted, before the model is asked.
        asyncio.CancelledError: if the task is cancelled; its attribute `run` is the record up to then. Where a timeout
            makes a `TimeoutError` of it, it is that one's `__context__`, on every release of Python (`__cause__` is not
            always set). Task groups and cancel scopes of anyio keep it to themselves: there, `start` has the record.
        KeyboardInterrupt, SystemExit: if a tool or the model raises it.

    Example:
        >>> from boolab.models.scripted import ScriptedModel
        >>> asyncio.run(run(Agent("greeter"), "Hello", model=ScriptedModel(["Hi."]))).stop_reason
        'finished'
        >>> async def briefly():
        ...     slow = ScriptedModel([{"text": "Hi.", "latency_ms": 60_000}], realtime=True)
        ...     try:
        ...         async with asyncio.timeout(0.01):
        ...             return await run(None, "Hello", model=slow)
        ...     except TimeoutError as error:
        ...         return error.__context__.run
        >>> asyncio.run(briefly()).stop_reason
        'aborted'
    """
    options = (score, synthesis, abort, on_event, clock, seed, shadow, ask, inbox, compaction)
    return await drive(Turn(Setup(agent, model, tools or (), root, policy, stop, *options), task))


def run_sync(agent: Agent | None, task: Task, **options: Any) -> Run:  # noqa: ANN401 - the options of `run`
    """`run` for scripts and for cells without `await`; works inside a running event loop too.

    It runs in one background thread that is started when it is first needed. An interrupt from the keyboard stops the
    run and returns its record, with stop reason `aborted`; a second one leaves without it.

    Args:
        agent: Who runs.
        task: The user's message, or a list of messages.
        **options: As for `run`.

    Returns:
        The record.

    Example:
        >>> from boolab.models.scripted import ScriptedModel
        >>> run_sync(Agent("greeter"), "Hello", model=ScriptedModel(["Hi."])).n_steps
        1
    """
    abort = options.setdefault("abort", None) or Abort()
    return wait_for(run(agent, task, **options | {"abort": abort}), abort)


def start(agent: Agent | None, task: Task, **options: Any) -> Live:  # noqa: ANN401 - the options of `run`
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
        >>> from boolab.models.scripted import ScriptedModel
        >>> async def watch():
        ...     async with start(None, "Hello", model=ScriptedModel(["Hi."])) as live:
        ...         async for step in live:
        ...             print(step.index, step.response.text)
        ...     return live.run.stop_reason
        >>> asyncio.run(watch())
        1 Hi.
        'finished'
    """
    setup = setup_of(agent, options)
    return Live(Turn(setup if setup.inbox is not None else setup._replace(inbox=Inbox()), task))


async def resume(
    run: Run,
    answer: str | Mapping[str, str],
    *,
    agent: Agent | None = None,
    **options: Any,  # noqa: ANN401 - the options of `run`
) -> Run:
    """Go on with a paused run from where it stood: steps, budget and recent calls are remembered.

    A run that its cap stopped can be let go on as well, as often as its policy says (`continues`); the cap then grows,
    or everything is counted anew, as the policy says.

    Args:
        run: The paused run, or one with stop reason `step_cap`.
        answer: What the pausing call was waiting for; a mapping from call id to answer where several were. For a run
            that its cap stopped: what the user says, such as "continue".
        agent: Who runs, and
        **options: as for `run`: needed for a run that was paused in another process, else they replace what it was
            started with.

    Returns:
        A record of its own that begins with the steps of the paused one. Its event `resumed` names that run
        (`run_id`, the column `resumed_from` of `runs_df`) and the `step` after which it went on; its totals include
        the earlier steps, and its subagents those of the paused run.

    Raises:
        SettingError: if the run is not paused, an answer is missing, its policy lets it go on no more, or nothing says
            how to go on.

    Example:
        >>> from boolab.models.scripted import ScriptedModel
        >>> from boolab.workspace import ask_user_input
        >>> ask = {"tool_calls": [{"name": "ask_user_input", "arguments": {"question": "Which?"}}]}
        >>> paused = run_sync(None, "Go", model=ScriptedModel([ask, "Done."]), tools=[ask_user_input])
        >>> asyncio.run(resume(paused, "The first.")).n_steps
        2
    """
    given: object = run
    if not isinstance(given, Run):
        msg = f"run={run!r} is no Run"
        raise SettingError(msg)
    if run.stop_reason not in ("paused", "step_cap"):
        msg = f"only a paused run, or one that its cap stopped, can be resumed; this one ended with {run.stop_reason!r}"
        raise SettingError(msg)
    before = run.continuation
    if before is None and "model" not in options:
        msg = "this run was made elsewhere: pass agent= and model= (and tools= or root=) to go on with it"
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
    turn = Turn(setup, run.task, paused=replace(paused, run_id=uuid.uuid4().hex), answer=message)
    turn.note("resumed", run_id=run.run_id, step=run.n_steps)
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
        return self._turn.progress

    @property
    def limits(self) -> dict[str, int]:
        """The limits that are in force, by counter, as the record has them."""
        return self._turn.bounds.on_record()

    def send(self, text: str) -> None:
        """Leave a message of the user, from any thread; when it is let in is for the policy to say (see `Inbox`).

        Args:
            text: What the user says.

        Raises:
            SettingError: if it is no text.

        Example:
            >>> from boolab.models.scripted import ScriptedModel
            >>> async def steer():
            ...     model = ScriptedModel([{"tool_calls": [{"name": "ls"}]}, "In French, then."])
            ...     async with start(None, "Translate it.", model=model) as live:
            ...         async for step in live:
            ...             if step.index == 1:
            ...                 live.send("Into French.")
            ...     return live.run.inputs[0].message.text
            >>> asyncio.run(steer())
            'Into French.'
        """
        assert self._turn.setup.inbox is not None  # noqa: S101 - start made one
        self._turn.setup.inbox.send(text)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._steps.aclose()
        if self._turn.run is None:
            self._turn.close(self._turn.interrupt())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Step:
        abort = self._turn.setup.abort
        if abort is None:
            return await anext(self._steps)
        abort.attach()
        try:
            return await anext(self._steps)
        finally:
            abort.detach()


async def drive(turn: Turn, after_step: Callable[[Turn], object] | None = None) -> Run:
    """Run a prepared turn to its end.

    Args:
        turn: The turn.
        after_step: Called with it after each step.

    Returns:
        The record.
    """
    abort = turn.setup.abort
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


def wait_for(work: Coroutine[Any, Any, T], abort: Abort) -> T:
    """Wait for a coroutine in the background thread; an interrupt from the keyboard fires `abort`."""
    if not isinstance(threading.current_thread(), _Portal):
        return _portal().wait(work, abort)
    # A tool of a run_sync runs an agent itself: that one gets a loop of its own, in a thread that ends with it.
    portal = _Portal()
    portal.start()
    try:
        return portal.wait(work, abort)
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
            # A task that raises one of these ends the event loop with it, before whoever waits for the task is told;
            # and any code in there may stop the event loop.
            with suppress(KeyboardInterrupt, SystemExit):
                self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())  # with them, the connections of real models close
        self.loop.close()

    def close(self) -> None:
        self._closing = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join()

    def wait(self, work: Coroutine[Any, Any, T], abort: Abort) -> T:
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
            return outcome.result()


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
        msg = f"unknown option {unknown[0]!r}; accepted: {', '.join(sorted(known))}"
        raise SettingError(msg)
    return {name: () if name == "tools" and value is None else value for name, value in options.items()}


def setup_of(agent: Agent | None, options: Mapping[str, Any]) -> Setup:
    """What a turn is run with, from the options of `run` by name.

    Raises:
        SettingError: if there is no option of that name.
    """
    return Setup(agent)._replace(**_options(options))


def _continued(run: Run, answer: object, setup: Setup) -> Message:
    """The user's message to a run that its cap stopped, if the policy lets it go on."""
    policy = get_policy((setup.agent.policy if setup.agent else "boocode") if setup.policy is None else setup.policy)
    used = times_continued(run.events)
    if policy.continues_by == "loop" or policy.continues == 0:
        msg = f"under {policy} a run that its cap stopped is over: its user cannot let it go on"
        raise SettingError(msg)
    if policy.continues is not None and used >= policy.continues:
        msg = f"under {policy} a run may go on {_times(policy.continues)} after its cap; this one has {_times(used)}"
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
