"""One turn: how each of its steps begins, how it ends, and what follows from that.

Theory of operation. A turn is always in one of six states. At a BOUNDARY no step is open. ASKED: a request is out.
ANSWERED: a response was accepted. EXECUTING: its calls are executed. STOPPED: the reason to stop has a name. CLOSED:
the record is made. `TABLE` holds every transition: for a state and an event, the next state, whether the step counts,
which stop follows, and what calls without a result get. `Turn.end_step` and all other transitions look it up; a pair
that is not there is a KeyError.

Rules of this module:

- A step counts by its row and its mode, and nowhere else is that decided.
- A counted step is put on record and then applied (`LadderState.apply`). The live loop knows no other counting.
- Everything that belongs to one run is in its `Turn`: no counter can survive a retry, leak between concurrent runs, or
  reach a tool that itself runs an agent.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Final, Literal

from boolab.core.clock import VirtualClock, WallClock
from boolab.core.events import start_event, step_events
from boolab.core.messages import Message
from boolab.core.run import Run
from boolab.core.text import flatten
from boolab.core.types import Event, Response, Step, Stop, StopReason, ToolResult, Usage
from boolab.errors import INTERRUPTS, ModelError, UnknownCounter, WorldError, describe
from boolab.limits.ladder import LadderState
from boolab.runtime.engine.interventions import ShadowWatch, last_words
from boolab.runtime.engine.plan import TurnPlan, check_bounds, folder_of, hard_limits
from boolab.runtime.engine.record import TurnHistory, TurnRecord, log, log_dropped
from boolab.runtime.engine.seeds import request_seed
from boolab.runtime.models.base import Emit, Request, accept_response, partial_of
from boolab.runtime.tools.execution import ExecutionContext
from boolab.runtime.tools.tool import ToolSpec
from boolab.runtime.worlds.protocol import Keeper

BOUNDARY: Final = "boundary"
ASKED: Final = "asked"
ANSWERED: Final = "answered"
EXECUTING: Final = "executing"
STOPPED: Final = "stopped"
CLOSED: Final = "closed"

ORDINARY: Final = "ordinary"
CLOSING: Final = "closing"
"""The last step under the cap, where the policy has its request differ."""
GRACE: Final = "grace"
"""The one step beyond a limit, or after a response that called nothing."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One transition of `TABLE`."""

    next: str  # the next state
    counts: tuple[str, ...] = ()  # the modes in which the step counts
    # the stop that follows: a reason; `pending`, the limit that a verdict named; or `limit`, which is the limit before
    # a grace turn, else the limit that a closing step has reached, else `error`
    stop: str = ""
    unanswered: str = ""  # the result of calls that have none; "" drops them


COUNTING_MODES: Final = (ORDINARY, CLOSING)
TABLE: Final[dict[str, dict[str, Transition]]] = {
    BOUNDARY: {
        "go": Transition(ASKED),
        "limit": Transition(STOPPED, stop="pending"),
        "failed": Transition(STOPPED, stop="error"),
        "aborted": Transition(STOPPED, stop="aborted"),
    },
    ASKED: {
        "response": Transition(ANSWERED),
        "retry": Transition(BOUNDARY, counts=(ORDINARY,)),
        "failed": Transition(STOPPED, counts=(CLOSING,), stop="limit"),
        "aborted": Transition(STOPPED, stop="aborted"),
    },
    ANSWERED: {
        "dropped": Transition(STOPPED, stop="pending"),
        "final": Transition(STOPPED, stop="finished"),
        "execute": Transition(EXECUTING),
        "failed": Transition(STOPPED, counts=(CLOSING,), stop="limit"),
        "aborted": Transition(STOPPED, stop="aborted", unanswered="aborted"),
    },
    EXECUTING: {
        "tool_failed": Transition(STOPPED, stop="error"),
        "paused": Transition(STOPPED, counts=COUNTING_MODES, stop="paused"),
        "synthesis_done": Transition(STOPPED, counts=COUNTING_MODES, stop="synthesis"),
        "finished": Transition(STOPPED, counts=COUNTING_MODES, stop="finished"),
        "limit": Transition(STOPPED, counts=COUNTING_MODES, stop="pending"),
        "continue": Transition(BOUNDARY, counts=COUNTING_MODES),
        "failed": Transition(STOPPED, counts=(CLOSING,), stop="limit", unanswered="aborted"),
        "aborted": Transition(STOPPED, stop="aborted", unanswered="aborted"),
    },
    STOPPED: {
        "closed": Transition(CLOSED),
        "aborted": Transition(STOPPED, stop="aborted"),
    },
}
"""For each state and event, what follows. `loop` and `decide` raise the events."""

GO: Final = TABLE[BOUNDARY]["go"].next
RESPONSE: Final = TABLE[ASKED]["response"].next
EXECUTE: Final = TABLE[ANSWERED]["execute"].next

FATAL: Final[dict[str, Literal["none", "unexpected", "all"]]] = {
    "reported": "none",
    "unexpected_fatal": "unexpected",
    "fatal": "all",
}


class StepState:
    """The step that is under way."""

    __slots__ = ("answered_ms", "mode", "partial", "response", "results", "state")

    def __init__(self, now_ms: int) -> None:
        self.state = BOUNDARY  # where the turn stands: one of the states of `TABLE`
        self.mode = ORDINARY  # the kind of its request: ordinary, closing or grace. It stays until the next request
        self.response: Response | None = None  # the response, once it was accepted
        self.results: list[ToolResult | None] = []  # one slot for each call of the response
        self.partial: dict[str, list[str]] = {}  # what has arrived of a response that is not complete
        self.answered_ms = now_ms  # when the response was accepted

    @property
    def is_open(self) -> bool:
        """Whether a step is under way."""
        return self.state in (ASKED, ANSWERED, EXECUTING)

    def move(self, event: str) -> Transition:
        """Make a transition; a `KeyError` if that cannot happen in this state."""
        row = TABLE[self.state][event]
        self.state = row.next
        return row


class Turn:
    """The state of one turn.

    `start_ms`: what the clock shows at its start, where it takes an earlier run further. `parent`: the turn whose tool
    starts this one, and whose budgets pay for it too if it is `charged`.
    """

    __slots__ = (
        "_chatty",
        "_seed",
        "_waits",
        "abort",
        "ahead_ms",
        "boundary_ms",
        "budget_parent",
        "clock",
        "context_limit",
        "cost_limits",
        "depth",
        "execution",
        "grace",
        "history",
        "keeper",
        "ladder",
        "limits",
        "max_output",
        "now",
        "outside_cost",
        "parent",
        "passed_on",
        "plan",
        "record",
        "request_cost",
        "reserved_cost",
        "run",
        "shadow",
        "step",
        "subagents",
        "times_continued",
    )  # fmt: skip

    def __init__(
        self,
        plan: TurnPlan,
        prompt: tuple[Message, ...],
        *,
        run_id: str | None = None,
        start_ms: int = 0,
        parent: Turn | None = None,
        charged: bool = False,
    ) -> None:
        options = plan.options
        self.plan = plan
        self.abort = options.get("abort")  # the switch that stops the turn from outside
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.budget_parent = parent if charged else None  # the turn whose budgets pay for this one as well
        self.passed_on: list[tuple[Usage, int]] = []  # what was charged to it, with the calls that received a result
        clock = options.get("clock")
        if clock is None:
            clock = VirtualClock(start_ms) if plan.traits.virtual else WallClock(start_ms)
        offset = clock.now() - start_ms
        self.outside_cost: int | None = 0  # of requests that are no steps, such as summaries, where a limit is hard
        self.reserved_cost = 0  # of its request under way, and those of the subagents that it pays for
        self.request_cost = 0  # of its own request
        self.clock, self.ahead_ms = clock, offset  # and how much later it stood at the start than the turn's time
        self.now: Callable[[], int] = (lambda: clock.now() - offset) if offset else clock.now
        self.limits = plan.limits  # those in force
        self.ladder = LadderState(plan.detectors, plan.call_guards, plan.boundary_guards)
        self.history = TurnHistory(prompt, plan.compaction)
        self.boundary_ms = self.now()  # the time of the latest boundary
        step = self.step = StepState(self.boundary_ms)
        self.record: TurnRecord = TurnRecord(
            run_id or options.get("run_id") or token_hex(16),
            None if parent is None else parent.record.run_id,
            None if clock.virtual else datetime.now(UTC),
            options.get("on_event"),
            self.now,
            self.history,
            lambda: step.is_open,
        )
        self.subagents: list[Turn] = []  # the turns that its tools started
        self.shadow = ShadowWatch(plan.shadow) if plan.shadow else None
        self.grace: Stop | None = None  # the stop that follows the one further request that was granted
        self.times_continued = 0  # after its cap
        self.set_context_limit()
        fatal = FATAL[plan.policy.execution.tool_failures]
        reply = plan.traits.reply
        folder = folder_of(options)
        root = None if folder is None else Path(folder)
        run_id, messages = self.record.run_id, self.history.messages
        self.execution = ExecutionContext(plan.tools, run_id, clock, messages, reply, self, fatal, [], root)
        self.keeper: Keeper | None = None  # what keeps the world of the run, while it runs
        self._chatty = log.isEnabledFor(logging.INFO)
        self._seed, self._waits = options.get("seed"), not clock.virtual
        self.run: Run | None = None  # the record, once it is made
        self.max_output: int | None = None  # the most tokens of the next response, if a hard limit on cost leaves fewer
        self.cost_limits = self._find_cost_limits()  # the hard limits that its requests count for, with their turns

    def set_context_limit(self) -> None:
        """Let the history be summarised again, if it was given up."""
        compaction = self.plan.compaction
        self.context_limit = None if compaction is None else compaction.limit(self.plan.traits.context_window)

    def open_turn(self) -> None:
        """Count from zero from this boundary on."""
        self.ladder.open_turn(self.ladder.turn + 1, self.boundary_ms)
        self.outside_cost = 0
        self.set_context_limit()

    @property
    def steps_completed(self) -> int:
        """How many steps of the turn have counted: the number of the boundary."""
        return self.ladder.counters["steps"] or 0

    def begin_step(self) -> tuple[Request, Emit | None]:
        """Announce the next step: its request, and what takes the deltas of the response, if anything reads them."""
        step, history, record, plan = self.step, self.history, self.record, self.plan
        step.state = GO
        step.response = None
        step.results = []
        if step.partial:
            step.partial = {}
        index = len(history.steps)
        if self._chatty:
            self._log_step_start()
        if record.on_event is not None:
            record.emit(start_event(history.next_message, index + 1, self.boundary_ms))
        seed = self._seed
        messages, tools, choice = history.sent, plan.offered, "auto"
        if plan.rewrites_requests:
            messages, tools, choice = self._rewrite_request()
        request = Request(
            index,
            messages,
            tools,
            self.clock,
            "step",
            plan.agent.temperature,
            None if seed is None else request_seed(seed, "step", index),
            choice,  # type: ignore[arg-type] # one of its two values
            record.note,
            record.run_id,
            seed,
            self.max_output,
        )
        return request, self._accept_delta if self._waits or record.on_event is not None else None

    def _find_cost_limits(self) -> tuple[tuple[Turn, int], ...]:
        cost_limits: list[tuple[Turn, int]] = []
        owner: Turn | None = self
        while owner is not None:
            for leaf in hard_limits(owner.limits.rule):
                check_bounds(leaf, self.plan.traits, self.plan.model.name)
                cost_limits.append((owner, leaf.threshold - 1))
            owner = owner.budget_parent
        return tuple(cost_limits)

    def reserve(self, cost: int) -> None:
        """Reserve the cost of the request under way with all that pay for it, in place of what is reserved.

        First it is the bound; once the response is there, what it cost, which is charged when its calls have been
        executed, perhaps by subagents; then 0.
        """
        for owner, _ in self.cost_limits:
            owner.reserved_cost += cost - self.request_cost
        self.request_cost = cost

    def add_outside_cost(self, cost: int | None) -> None:
        """Count a request that is no step, where a limit on cost is hard."""
        self.outside_cost = None if cost is None or self.outside_cost is None else self.outside_cost + cost

    def _log_step_start(self) -> None:
        """Log `step_start 3/5`: the third step under a cap of five; where a cap counts anew, so does this."""
        cap, number = self.plan.recorded_limits(self.limits).get("steps"), len(self.history.steps) + 1
        position = str(number) if cap is None else f"{self.steps_completed + 1}/{cap}"
        run_id, name = self.record.run_id, self.plan.agent.name
        facts = {"run_id": run_id, "turn": self.ladder.turn, "step": number, "cap": cap, "agent": name}
        log.info("run %s: step_start %s", flatten(run_id), position, extra={"event": "step_start", **facts})

    def next_mode(self) -> tuple[str, bool]:
        """The mode of the next request, and whether it is announced as the last."""
        closing_step, completed = self.limits.closing_step, self.steps_completed
        if self.grace is not None:
            return GRACE, True
        soft = self.plan.policy.cap.kind == "soft"
        last = closing_step is not None and (completed + 1 == closing_step or (soft and completed + 1 > closing_step))
        return CLOSING if last and self.plan.policy.last_step.action != "prompt" else ORDINARY, last

    def _rewrite_request(self) -> tuple[Sequence[Message], tuple[ToolSpec, ...], str]:
        """The messages of a request as the policy changes them, the tools, and whether the model may choose them."""
        policy, cap = self.plan.policy, self.limits.settings.get("max_steps")
        self.step.mode, last = self.next_mode()
        messages = last_words(policy, self.history.sent, completed=self.steps_completed, cap=cap, last=last)
        closes = self.step.mode != ORDINARY
        tools = () if closes and policy.last_step.action == "no_tools" else self.plan.offered
        return messages, tools, "none" if closes and policy.last_step.action == "tool_choice_none" else "auto"

    def _accept_delta(self, part: str, delta: str) -> None:
        """Pass a delta on, and keep it in case the response breaks off."""
        self.step.partial.setdefault(part, []).append(delta)
        if self.record.on_event is not None:
            facts = {"message": self.history.next_message, "of": part, "text": delta}
            self.record.emit(Event(self.now(), "delta", facts))

    def accept_response(self, response: Response) -> Response:
        """Accept the response to the request; a `ModelError` if it is malformed."""
        step, history = self.step, self.history
        try:
            step.response = response = accept_response(response)
        except ValueError as fault:
            msg = f"the response of the model {self.plan.model.name} is malformed: {fault}"
            raise ModelError(msg) from None
        if self.cost_limits and response.usage.cost is not None:
            self.reserve(response.usage.cost)
        step.state = RESPONSE
        step.answered_ms = self.now()
        step.results = [None] * len(response.tool_calls)
        history.messages.under_way = (len(history.steps) + 1, self.boundary_ms, response)
        return response

    def end_step(self, event: str, pending: Stop | None = None, error: str = "") -> tuple[Step, Stop | None]:
        """End the step: put it on record, count it if its row of `TABLE` does, and name the stop that follows."""
        under_way, record, history = self.step, self.record, self.history
        end_ms, start, response = self.now(), self.boundary_ms, under_way.response or Response()
        results = tuple(under_way.results)
        executed = len(results) - results.count(None)
        if event == "tool_failed":
            error = record.error = self.execution.failures[0]
        step = Step(
            len(history.steps) + 1,
            self.ladder.turn,
            start,
            end_ms - start,
            under_way.answered_ms - start,
            response,
            results,
            error,
            () if self.shadow is None else self.shadow.true,
        )
        row = TABLE[under_way.state][event]
        if under_way.mode in row.counts:
            self.ladder.apply(step)
        if self.budget_parent is not None:
            self._charge_parent(response.usage, executed)
        if self.request_cost:
            self.reserve(0)
        message = history.next_message
        history.add(step, executed > 0)
        cuts = [*history.cut_results()] if self.plan.compaction is not None else ()
        self.boundary_ms = end_ms
        under_way.state = row.next
        if executed < len(results):
            log_dropped(record.run_id, step)
        if record.on_event is not None:
            for emitted in step_events(message, step):
                record.emit(emitted)
        under_way.response = None
        for facts in cuts:
            record.note("cut", **facts)
        if record.pending:
            record.report_pending()
        return step, self._stop_of(row, pending) if row.stop else None

    def _stop_of(self, row: Transition, pending: Stop | None) -> Stop:
        """The stop that a row names."""
        if row.stop == "pending" and pending is not None:
            return pending._replace(step=self.steps_completed)
        if row.stop == "limit":
            return self.grace or (self._limit_reached() if self.step.mode == CLOSING else None) or self.end("error")
        return self.end(row.stop)  # type: ignore[arg-type] # all others are reasons

    def end(self, reason: StopReason) -> Stop:
        """A stop at this boundary that no rule gave."""
        return Stop(reason, self.steps_completed)

    def retry(self, error: ModelError) -> Step:
        """Put a step on record whose response broke off, if the policy repeats the request; else raise the failure."""
        partial = partial_of(error)
        limit = self.plan.policy.execution.broken_retries if self.step.mode == ORDINARY and error.retryable else 0
        arrived = partial is not None and bool(partial.text or partial.tool_calls or partial.reasoning)
        if not limit or not arrived or self.is_aborted:
            raise error
        in_a_row = itertools.takewhile(lambda step: step.broke_off, reversed(self.history.steps))
        if sum(1 for _ in in_a_row) >= limit:
            raise error
        return self._break_off("retry", describe(error), partial)[0]

    @property
    def is_aborted(self) -> bool:
        """Whether the switch that stops the turn from outside has fired."""
        return self.abort is not None and self.abort.fired

    def interrupt(self, partial: Response | None = None) -> Stop:
        """Stop from outside. A step under way is put on record as it stands, with what has arrived (`partial`)."""
        stop = self._stop_after("aborted", "aborted", partial)
        self.record.note("abort", what="aborted from outside")
        return stop

    def fail(self, error: BaseException) -> Stop:
        """Stop after a failure. In a closing or a grace step, it is the limit all the same that ends the turn.

        Raises:
            KeyboardInterrupt, SystemExit: if that is what it was: it is the caller's.
            WorldError: likewise: the world cannot be kept at all, and no request was made.
        """
        if isinstance(error, (*INTERRUPTS, WorldError)):
            raise error
        if self.is_aborted:
            return self.interrupt(partial_of(error))  # the failure is how the model took the abort
        self.record.error = describe(error)
        log.debug("run %s: where the failure came from", flatten(self.record.run_id), exc_info=error)
        return self._stop_after("failed", self.record.error, partial_of(error))

    def _stop_after(self, event: str, error: str, partial: Response | None) -> Stop:
        """The stop after a failure or an abort. A step under way is put on record first."""
        if self.step.is_open:
            stop = self._break_off(event, error, partial)[1]
            return stop or self.end("error")
        return self._stop_of(self.step.move(event), None)

    def _break_off(self, event: str, error: str, partial: Response | None) -> tuple[Step, Stop | None]:
        """End the step under way before it is complete; what has arrived of it is kept."""
        step, state = self.step, self.step.state
        if state == ASKED:
            text, reasoning = ("".join(step.partial.get(part, ())) for part in ("text", "reasoning"))
            self.accept_response(partial or Response(text, reasoning=reasoning))
            step.state = ASKED
        unanswered = TABLE[state][event].unanswered
        if unanswered and step.response is not None:
            step.results = [
                result or ToolResult(call.id, unanswered, is_error=True)
                for call, result in zip(step.response.tool_calls, step.results, strict=True)
            ]
        self.history.messages.under_way = None
        return self.end_step(event, error=error)

    def _limit_reached(self) -> Stop | None:
        """The limit that is reached at this boundary; None if there is none, or if a counter is not known."""
        rule = self.limits.rule
        try:
            return None if rule is None else rule.verdict(self.ladder.counters)
        except UnknownCounter:
            return None

    def change_limits(self, changes: Mapping[str, int | None]) -> None:
        """Change limits at a boundary, and put on record which hold from here on."""
        limits = self.plan.change_limits(self.limits, changes)
        if limits.settings != self.limits.settings:
            self.limits = limits
            self.record.note("limits", **limits.settings)

    def charge(self, usage: Usage, calls: int) -> None:
        """Charge what a subagent spent to this turn, and to the turns that pay for it."""
        self.ladder.charge(usage, calls)
        self._charge_parent(usage, calls)

    def _charge_parent(self, usage: Usage, calls: int) -> None:
        if self.budget_parent is not None:
            self.passed_on.append((usage, calls))
            self.budget_parent.charge(usage, calls)

    def add_message(self, kind: str, message: Message) -> None:
        """Put a message before the next step: the user's, or the policy's."""
        self.history.put(message)
        self.record.note(kind, what=message.text)
