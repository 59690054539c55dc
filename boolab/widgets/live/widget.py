"""A run in a notebook while it happens: its cards, limits to move, and buttons to pause it, stop it and speak to it.

The run has a thread and an event loop of its own, as `run_sync` has, so that a tool that blocks does not block the
notebook. The kernel's own event loop looks a few times a second at what has changed, and draws that.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Unpack

import traitlets

from boolab.core.run import Run, stop_place
from boolab.core.text import clean, count
from boolab.core.types import Event, Step
from boolab.errors import BoolabError, describe
from boolab.limits.ladder import Progress
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.abort import Abort
from boolab.runtime.engine.inbox import Inbox
from boolab.runtime.engine.plan import BranchOptions, OnEvent, Task, options_of
from boolab.runtime.engine.portal import BLOCKED_S
from boolab.runtime.engine.runner import start
from boolab.runtime.models.base import Model
from boolab.widgets._base.standalone_html import PagePart
from boolab.widgets.live.data import (
    LatestCards,
    counts_of,
    end_of,
    head_of,
    limits_of,
    lines_of,
    now_of,
    reach_of,
    why_fixed,
)
from boolab.widgets.live.notebook import NotebookCell, add_run, keep_handler, remove_run
from boolab.widgets.replay.widget import OpeningView, OpensRuns, picture_of, replay_parts

TICK_S: Final = 0.2
"""How often the kernel looks for news."""
BEAT_S: Final = 2.0
"""How often the kernel gives a sign while nothing happens, so that the view can report when none comes."""
GATE_S: Final = 0.05
"""How often a paused run looks whether it may continue."""
MAX_PARTIAL: Final = 400
"""How many of the last characters are shown of an answer that is on its way."""


class _LiveView(OpeningView, module="live"):
    """The run. The browser sends what its buttons and fields ask for as messages."""

    _beat = traitlets.Int(0).tag(sync=True)


class Live(OpensRuns):
    """A run that is shown while it happens, step by step, and that can be paused, stopped, spoken to and limited.

    It starts at once, in a thread of its own; the kernel stays free. Its controls act at the next step boundary: a
    pause, a message, and other values of the step cap, the tool budget and the doom-loop threshold. Each change of a
    limit is an event of the run, whose record is else that of `bl.run`. An interrupt of the kernel ends it, as do
    `stop`, `close` and running its cell again.

    Args:
        agent: Who runs; None for a bare model.
        task: The user's message, or a list of messages.
        model: What answers; wins over the agent's own.
        paused: Whether it waits before the first step, so that limits can be set first.
        **options: The others of `bl.run`, such as `tools`, `policy` and `seed`.

    Attributes:
        opened: `{"run": run_id, "step": n}`, where Replay below is; None for nothing.

    Raises:
        SettingError: if something is missing or not accepted, before the first request.

    Example:
        >>> import asyncio
        >>> import boolab as bl
        >>> stuck = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": "forever"}])
        >>> live = bl.Live(bl.Agent("walker", doom_loop=None), "Look around.", model=stuck, paused=True)
        >>> live.state
        'paused'
        >>> live.set_limits(max_steps=40, doom_loop=4)
        >>> live.play()
        >>> asyncio.run(live.wait()).stop.rule
        'doom_loop(4, ordered)'
        >>> live
        Live(doom loop after 4 steps, by doom_loop(4, ordered))
    """

    _thread: threading.Thread | None = None  # a widget is closed when it is collected, also one that was not made

    def __init__(
        self,
        agent: Agent | None,
        task: Task,
        *,
        model: Model | None = None,
        paused: bool = False,
        **options: Unpack[BranchOptions],
    ) -> None:
        prepared: Any = options_of(agent, {**options, "model": model})
        self._abort: Abort = prepared.get("abort") or Abort()
        self._inbox: Inbox = prepared.get("inbox") or Inbox()
        self._listener: OnEvent | None = prepared.get("on_event")
        prepared |= {"abort": self._abort, "inbox": self._inbox, "on_event": self._on_event}
        del prepared["agent"]
        self._live_run = start(agent, task, **prepared)
        plan = self._live_run.snapshot()
        self._run_id = plan.run_id
        self._cards = LatestCards(plan.identity)
        self._ended: Future[Run] = Future()
        self._ending = threading.Lock()
        self._paused, self._granted, self._at_gate = paused, 0, paused
        self._wanted: dict[str, int | None] = {}
        self._reach = reach_of(self._live_run.changeable_limits)
        self._partial, self._since = "", time.time()
        self._fault, self._failed = "", ""
        self._thread_loop: asyncio.AbstractEventLoop | None = None
        self._stopping: threading.Timer | None = None
        self._is_over = False  # ended, with what a saved notebook keeps
        self._saved: list[dict[str, Any]] = []
        self._outputs: list[Any] = []
        self._drawn: object = None
        self._next_beat = 0.0
        super().__init__(_LiveView(self.data), {})
        self._by_id = {self._run_id: plan}
        self._view.on_msg(self._on_message)
        self._cell = NotebookCell(self.stop)
        with suppress(RuntimeError):  # no event loop: `data` and `wait` have the news
            asyncio.get_running_loop().call_later(TICK_S, self._tick)
            add_run(self._run_id, self.stop)
            keep_handler()
        self._thread = threading.Thread(target=self._work, name=f"boolab live {self._run_id[:8]}", daemon=True)
        self._thread.start()

    # --- What Python can do, and the page asks for

    @property
    def state(self) -> str:
        """`running`, `pausing` (a step is under way), `paused`, `stopping` or `ended`."""
        if self._ended.done():
            return "ended"
        if self._abort.fired:
            return "stopping"
        if self._paused and not self._granted:
            return "paused" if self._at_gate else "pausing"
        return "running"

    def pause(self) -> None:
        """Wait before the next step; a step under way is completed. Time limits count the wait."""
        self._paused, self._granted = True, 0

    def play(self) -> None:
        """Continue after a pause."""
        self._paused = False

    def step(self) -> None:
        """Run one step, then wait."""
        self._paused = True
        self._granted += 1

    def stop(self) -> None:
        """End the run with `aborted`, in mid-request and in mid-tool, from any thread.

        A plain function that does not return cannot be stopped: after a second the run ends without it.
        """
        if self._ended.done() or self._stopping is not None:
            return
        self._stopping = threading.Timer(BLOCKED_S, self._leave_what_blocks)
        self._stopping.daemon = True
        self._stopping.start()
        self._abort.abort()

    def send(self, text: str) -> None:
        """Leave a message of the user; the policy decides when it is delivered (see `bl.Inbox`).

        Args:
            text: The text of the message.

        Raises:
            SettingError: if it is no text.
        """
        self._inbox.send(text)

    def set_limits(self, **changes: int | None) -> None:
        """Change limits from the next step boundary on; an event of the run records which hold from there.

        Args:
            **changes: `max_steps`, `tool_budget` or `doom_loop`; None is no limit.

        Raises:
            SettingError: if the policy does not have such a limit, or does not accept the value.
        """
        self._live_run.set_limits(**changes)
        self._wanted |= changes

    async def wait(self) -> Run:
        """Wait for the end of the run; an interrupt or a cancellation ends it.

        Returns:
            The record.
        """
        try:
            await asyncio.shield(asyncio.wrap_future(self._ended))
        except asyncio.CancelledError:
            self.stop()
            raise
        self._draw_news()
        return self.run

    def close(self) -> None:
        """End the run, and remove the widget."""
        if self._thread is not None:
            self.stop()
        super().close()

    @property
    def run(self) -> Run:
        """The record, as `bl.run` returns it; a `BoolabError` before the run has ended."""
        if not self._ended.done():
            msg = (
                f"the run has not ended: it is {self.state} {stop_place(self._live_run.snapshot())}; await live.wait()"
            )
            raise BoolabError(msg)
        return self._ended.result()

    @property
    def progress(self) -> Progress:
        """The counters at the latest boundary, by name."""
        return self._live_run.progress

    @property
    def limits(self) -> dict[str, int]:
        """The limits that are in force, by counter, as the record has them."""
        return self._live_run.limits

    # --- The thread of the run

    def _work(self) -> None:
        asyncio.run(self._drive())

    async def _drive(self) -> None:
        self._thread_loop = asyncio.get_running_loop()
        try:
            async with self._live_run as live_run:
                while not live_run.stopped:
                    await self._gate()
                    step = await anext(live_run, None)
                    if step is None:
                        break
                    self._take(step)
                async for _ in live_run:  # a stopped run has its end to write
                    pass
        except BaseException as error:  # noqa: BLE001 - an interrupt that a tool raises, or a world that cannot be kept
            self._failed = describe(error)
        self._end()

    async def _gate(self) -> None:
        """Wait while the run is paused. The abort switch may be the user's own, so this looks instead of waiting."""
        while self._paused and not self._granted and not self._abort.fired:
            self._at_gate = True
            await asyncio.sleep(GATE_S)
        self._at_gate = False
        self._granted = max(0, self._granted - 1)

    def _take(self, step: Step) -> None:
        try:
            self._cards.add(step, self._live_run.snapshot())
        except Exception as error:  # noqa: BLE001 - the run is not to end because its card cannot be shown
            self._fault = f"step {step.index} cannot be shown ({describe(error)}); it is on record"

    def _end(self) -> None:
        """Close the record, once, by whichever thread comes first."""
        with self._ending:
            if self._ended.done():
                return
            run = self._live_run.abandon()
            self._by_id = {run.run_id: run}
            self._ended.set_result(run)
        remove_run(self._run_id)
        if self._stopping is not None:
            self._stopping.cancel()
        with suppress(Exception):  # what stands in for the view in a saved notebook; the record is there anyway
            if self._outputs:
                self._saved = list(self._bundles())
        self._is_over = True

    def _leave_what_blocks(self) -> None:
        """End the run without a plain function that blocks its thread."""
        answered = threading.Event()
        with suppress(RuntimeError):  # the loop has closed
            if self._thread_loop is not None:
                self._thread_loop.call_soon_threadsafe(answered.set)
        if not answered.wait(BLOCKED_S) and not self._ended.done():
            call = self._live_run.running_call
            tool = "its tool" if call is None else f"the tool {call.name!r}"
            self._failed = f"{tool} did not return, and cannot be stopped: it was left to itself"
            self._end()

    def _on_event(self, event: Event) -> None:
        if event.kind == "delta":
            self._partial = (self._partial + event.payload["text"])[-MAX_PARTIAL:]
        elif event.kind == "step_start":
            self._partial, self._since = "", time.time()
        if self._listener is not None:
            self._listener(event)

    # --- The view

    @property
    def data(self) -> dict[str, Any]:
        """What is shown, as plain data."""
        live_run, rows = self._live_run, list(self._cards.rows)
        run = self._ended.result() if self._ended.done() else live_run.snapshot()
        for name, value in live_run.changeable_limits.items():
            if self._wanted.get(name, value) == value:
                self._wanted.pop(name, None)
        state = self.state
        return {
            "state": state,
            "still": False,
            "run_id": self._run_id,
            **head_of(run),
            "n_steps": run.n_steps,
            "first": rows[0][0] if rows else 1,
            "rows": [row for _, row in rows],
            "now": now_of(live_run, self._partial) if state != "ended" else None,
            "since": self._since,
            "limits": limits_of(live_run, self._wanted, self._reach),
            "fixed": why_fixed(live_run),
            "counts": counts_of(live_run),
            "waiting": len(self._inbox),
            "end": end_of(run if state == "ended" else None, self._failed),
            "fault": self._fault,
        }

    def _tick(self) -> None:
        """Look for news, in the kernel's own event loop, until the run has ended and is drawn."""
        is_over = self._is_over
        if not is_over:
            asyncio.get_running_loop().call_later(TICK_S, self._tick)
        keep_handler()
        try:
            self._draw_news()
        except Exception as error:  # noqa: BLE001 - the next news may be shown
            self._fault = f"the view cannot be drawn ({describe(error)}); the run is on record"
        if time.monotonic() >= self._next_beat:
            self._next_beat = time.monotonic() + BEAT_S
            self._view._beat += 1  # noqa: SLF001 - its own view
        if is_over:
            self._cell.leave()
            self._update_outputs()

    def _draw_news(self) -> None:
        live_run = self._live_run
        call = live_run.running_call
        news = (
            self.state, live_run.progress["steps"], live_run.snapshot().n_steps, live_run.awaits_answer,
            call and call.id, len(self._partial), self._partial[-20:], len(self._inbox), self._fault,
            tuple(self._wanted.items()), tuple(live_run.changeable_limits.items()),
        )  # fmt: skip
        if news != self._drawn:
            self._drawn = news
            self._view.show(self.data)

    def _on_message(self, _: object, content: Mapping[str, Any], __: object) -> None:
        self._fault = ""
        try:
            self._do(str(content.get("do")), content.get("value"))
        except BoolabError as error:
            self._fault = str(error)
        self._drawn = None
        self._draw_news()

    def _do(self, action: str, value: Any) -> None:  # noqa: ANN401 - what a page sends
        actions = {"pause": self.pause, "play": self.play, "step": self.step, "stop": self.stop}
        if action in actions:
            actions[action]()
        elif action == "send":
            self.send(value)
        elif action == "limits":
            self.set_limits(**value)

    def _family(self, run_id: str) -> tuple[Run, ...]:
        if run_id != self._run_id:
            return ()
        return (self._ended.result() if self._ended.done() else self._live_run.snapshot(),)

    def _open(self, change: dict[str, Any]) -> None:
        replay = self._replay
        if (
            change["new"] is not None
            and replay is not None
            and replay.run.n_steps != self._family(self._run_id)[0].n_steps
        ):
            self._replay, self._below.children = None, ()  # that one has the steps of then
            replay.close()
        super()._open(change)

    def _title(self) -> str:
        data = self.data
        run = self._family(self._run_id)[0]
        return str(data["end"]["text"]) if data["end"] else f"{data['state']} {stop_place(run)}"

    def _text(self) -> str:
        data = self.data
        error = (data["end"] or {}).get("error", "")
        hidden_count = data["first"] - 1
        lines = [f"{clean(data['title'])}", *([clean(error)] if error else [])]
        lines += [f"      {count(hidden_count, 'step')} before"] if hidden_count else []
        return "\n".join([*lines, *lines_of(list(self._cards.rows))])

    def _picture(self) -> bytes:
        run = self._family(self._run_id)[0]
        return picture_of(run) if run.steps else b""

    def _parts(self) -> list[PagePart]:
        return [PagePart("live", {**self.data, "still": True}, {"opened": None})]  # a page has no kernel

    def _runs(self) -> dict[str, PagePart]:
        run = self._family(self._run_id)[0]
        return replay_parts([run]) if run.steps else {}

    def _ipython_display_(self, **_: object) -> None:
        """Display it such that the end of the run can replace the output that a notebook keeps."""
        from IPython.display import display

        running = not self._ended.done()
        outputs = [
            display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call] # IPython has no types
            for bundle in self._bundles()
        ]
        if None not in outputs and running:  # None where there is no IPython
            self._outputs.append(outputs)

    def _update_outputs(self) -> None:
        saved = self._saved or (list(self._bundles()) if self._outputs else [])
        for outputs in self._outputs:
            for output, bundle in zip(outputs, saved, strict=True):
                output.update(bundle, raw=True)
