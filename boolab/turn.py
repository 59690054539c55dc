"""One turn in the making: prepared from an agent, a model and a policy, moved on by the loop, at last a `Run`.

Everything that belongs to one run lives here and nowhere else: no counter can survive a retry, leak between concurrent
runs, or reach a tool that itself runs an agent.
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from boolab.agents import Agent, policy_of
from boolab.bounds import Bounds
from boolab.clock import VirtualClock, WallClock
from boolab.conversation import Conversation, from_user
from boolab.errors import INTERRUPTS, ModelError, UnknownCounter, describe
from boolab.events import TOLD_AT_ONCE, start_event, step_events, stop_event
from boolab.finish import ends_turn, finishes, is_done
from boolab.models.base import Emit, Request, partial_of, what_is_wrong
from boolab.setup import Setup, Task, check_setup, model_of, offered_tools, prompt_of
from boolab.steering import Shadow, Steering, last_words
from boolab.stop import AnyOf, Progress
from boolab.surrogates import whole_response
from boolab.tools import Execution, ToolContext, ToolSpec
from boolab.transcript import flat
from boolab.types import (
    Compacted,
    Event,
    Message,
    Response,
    Run,
    Sentinel,
    Step,
    Stop,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    WrapUp,
)

log = logging.getLogger("boolab.loop")
log.addHandler(logging.NullHandler())


class Turn:
    """The state of one turn.

    Args:
        setup: What it is run with.
        task: The user's message, or a list of messages.
        paused: A run to go on with: a paused one with its last results answered, or one that a cap stopped.
        answer: What the user says to a run that a cap stopped, or where another is taken up.
        parent: The turn whose tool starts this one.
        charged: Whether the parent's budgets pay for it too.

    Raises:
        SettingError: if something is missing or not accepted; nothing has been asked of the model then.
    """

    def __init__(  # noqa: PLR0915 - all of a turn's state, in one place
        self,
        setup: Setup,
        task: Task,
        paused: Run | None = None,
        answer: Message | None = None,
        parent: Turn | None = None,
        *,
        charged: bool = False,
    ) -> None:
        check_setup(setup)
        agent = setup.agent if setup.agent is not None else Agent("")
        self.setup = setup
        self.agent = agent
        self.model = model_of(setup, agent)
        self.policy = policy_of(agent, setup.policy)
        self.tools = offered_tools(setup)
        self.pausing = frozenset(name for name, spec in self.tools.items() if spec.pauses)
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.payer = parent if charged else None
        self.passed_on = Progress() if charged else None
        """What was charged to the payer."""
        self.bounds = Bounds(setup, agent, self.policy, self.tools)
        self.steering = Steering(self.policy, setup.inbox)
        told = () if paused is None else (event.payload["rule"] for event in paused.events if event.kind == "shadow")
        self.shadow = Shadow(self.bounds.shadow, told)
        self._thresholds = self.bounds.thresholds
        self.offered = () if self.bounds.text_only else tuple(self.tools.values())
        self.compaction = setup.compaction or self.policy.compaction
        self.context_window: int | None = getattr(self.model, "context_window", None)
        self._set_context_limit()
        plain = self.policy.finish == ("no_calls",) and not self.policy.final_reasons
        self._ends_plainly = plain and not self.bounds.text_only
        self.breaks_batches = self.policy.finish_batch == "until" or self.policy.tool_failures != "told"
        self.ends_by_calls = bool(self.policy.finish_tools) or self.policy.goes_on == "after_errors"
        rewords = self.policy.reminder != "none" or self.policy.last_step != "tools"
        self.rewording = rewords or self.policy.idle == "grace"
        self.minding = bool(self.bounds.nudging or self.bounds.shadow or setup.inbox is not None)

        self.run_id = (setup.run_id or uuid.uuid4().hex) if paused is None else paused.run_id
        self.parent_run_id = None if paused is None else paused.parent_run_id
        if parent is not None:
            self.parent_run_id = parent.run_id
        self.talk = Conversation(prompt_of(agent, task) if paused is None else paused.prompt)
        before = 0 if paused is None else paused.duration_ms or 0
        self.clock = setup.clock or (
            VirtualClock(before) if getattr(self.model, "virtual", False) else WallClock(before)
        )
        ahead, clock = self.clock.now() - before, self.clock
        self.ahead_ms = ahead
        """How much later the clock stood when the turn began than the turn's own time."""
        self.now: Callable[[], int] = (lambda: clock.now() - ahead) if ahead else clock.now
        self._notes: list[Event] = []
        self.started_at = None if self.clock.virtual else datetime.now(UTC)
        self.number = 1
        self.turn_ms = 0
        self.progress = Progress(self.bounds.detectors)
        self.earlier_subagents: tuple[Run, ...] = ()
        self.subagents: list[Turn] = []
        reply = getattr(self.model, "reply", None)
        fatal = FATAL[self.policy.tool_failures]
        self.execution = Execution(self.tools, self.run_id, self.clock, self.talk.history, reply, self, fatal, [])
        self.events: list[Event] = []
        self.boundary_ms = self.now()
        self.heard_ms = self.boundary_ms
        self.in_step = False
        self._chatty = log.isEnabledFor(logging.INFO)
        self.closing = False
        self.grace: Stop | None = None
        self.response: Response | None = None
        self.results: list[ToolResult | None] = []
        self.partial: dict[str, list[str]] = {}
        self.on_event = setup.on_event
        self.error: str | None = None
        self.wrap_up: WrapUp | None = None
        self.earlier_wrap_ups: tuple[WrapUp, ...] = ()
        self.sentinel: Sentinel | None = None
        self.synthesis: str | None = None
        self.run: Run | None = None
        if paused is not None:
            self._go_on_from(paused, answer)

    def _set_context_limit(self) -> None:
        self.context_limit = None if self.compaction is None else self.compaction.limit(self.context_window)

    def _go_on_from(self, run: Run, answer: Message | None) -> None:
        """Take up a run that ended: its steps are counted again, by the same counters."""
        self.started_at = run.started_at
        self.events = list(run.events)
        self.talk.compactions += run.compactions
        self.earlier_subagents = tuple(replace(child, parent_run_id=self.run_id) for child in run.subagents)
        self.earlier_wrap_ups = (*run.earlier_wrap_ups, *(() if run.wrap_up is None else (run.wrap_up,)))
        self.talk.inputs += run.inputs
        charged = [event for event in run.events if "charged" in event.payload]
        beyond = self._beyond_the_cap(run)
        for step in run.steps:
            if step.index in beyond:
                self.talk.add(step)
                continue
            elapsed = None if step.start_ms is None or step.duration_ms is None else step.start_ms + step.duration_ms
            if step.turn != self.number:
                self._open_turn(step.turn, step.start_ms or 0)
            self.steering.says.clear()
            self.steering.retrace(self.bounds.call_guards, step.response, self.progress, self.talk.steps)
            self.talk.add(step)
            unanswered = answer is None and step is run.steps[-1] and not any(step.results) and not step.broke_off
            if unanswered and not self.ended_with(step):
                self.idle()
            if self.grace is None:
                self.progress.complete(step.response, step.results, None if elapsed is None else elapsed - self.turn_ms)
            self._charge_again([event for event in charged if event.payload["after_step"] == step.index])
            self.steering.nudge(self.bounds.nudging, self.progress)
        self.talk.next_message += len(run.inputs)
        self._send_what_was_sent()
        most = self.policy.continues if self.bounds.own else 0
        times = times_continued(run.events)
        for _ in range(times if most is None else min(times, most)):
            self._extend()
        if answer is not None and run.stop.reason == "step_cap":
            self._continue(run, answer)
        elif answer is not None:
            self._hear(answer)

    def _beyond_the_cap(self, run: Run) -> set[int]:
        """The steps that came after a cap and before the run went on: nothing of them counted."""
        ends = {event.payload["after_step"] for event in run.events if event.kind == "continued"}
        if run.stop.reason == "step_cap":
            ends.add(len(run.steps))
        grace = {event.payload["after_step"] + 1 for event in run.events if event.kind == "grace"}
        drops = self.policy.cap_check == "response" or self.policy.cap_counts in ("tool_steps", "supersteps")
        return {n for n in ends if n in grace or (n and drops and not any(run.steps[n - 1].results))}

    def _continue(self, run: Run, answer: Message) -> None:
        """Go on after the cap. What stood at the end of the run stays where it was, before the user's answer."""
        if self.policy.continue_counters == "fresh":
            self._open_turn(self.number + 1, self.boundary_ms)
            self.steering.says.clear()
        self._extend()
        if run.wrap_up is not None:
            self.talk.put(Message("assistant", (Text(run.wrap_up.text),)))
        if run.sentinel is not None:
            self.talk.put(Message("sentinel", (run.sentinel,)))
        self.say("continued", answer)

    def _hear(self, message: Message) -> None:
        """Let the user speak at the boundary: after a final answer in a new turn, and where the policy has it so."""
        steps = self.talk.steps
        ended = bool(steps) and self.ended_with(steps[-1])
        if ended:
            self.steering.says.clear()
        if ended or (steps and self.policy.input_resets_cap):
            self._open_turn(self.number + 1, self.boundary_ms)
        self.steering.says.append(("input", message.text))

    def _send_what_was_sent(self) -> None:
        """Take up the compactions of a run that ended: the latest summary stands for what it sums up."""
        talk = self.talk
        worked = [compacted for compacted in talk.compactions if not compacted.fault]
        if worked:
            talk.send_summary(worked[-1])
        if len(worked) < len(talk.compactions):
            before = talk.compactions[-1].before
            turn = talk.steps[before - 1].turn if before <= len(talk.steps) else self.number
            if talk.compactions[-1].fault and turn == self.number:
                self.context_limit = None

    def _open_turn(self, number: int, start_ms: int) -> None:
        """Count anew from here on."""
        self.number = number
        self.turn_ms = start_ms
        self.progress = Progress(self.bounds.detectors)
        self.steering.forget()
        self._set_context_limit()

    def at_boundary(self) -> Stop | None:
        """Ask whether to go on: None, or the stop."""
        if self.setup.abort is not None and self.setup.abort.fired:
            return self.interrupt()
        if self.minding:
            self._between_steps()
        stop = self._stop_here()
        if stop is None and (self.steering.says or self.setup.inbox is not None):
            self._let_in()
        return stop

    def _stop_here(self) -> Stop | None:
        if self.payer is not None:
            stop = self.payer.refuses(self)
            if stop is not None:
                return self._and_its_own(stop)
        # Rules have no negation: while no threshold in it is reached or unknown, the whole rule is false.
        for counter, threshold in self._thresholds:
            value = self.progress[counter]
            if value is None or value >= threshold:
                stop = self.bounds.verdict(self.progress)
                return None if stop is None or self._goes_on(stop) else stop
        return None

    def asks_about(self, stop: Stop) -> bool:
        """Whether the policy has the user asked about such a stop."""
        if stop.reason == "step_cap" and self.policy.continues_by == "ask" and self._may_continue():
            return True
        return self.bounds.asks_about(stop)

    def _may_continue(self) -> bool:
        most = self.policy.continues if self.bounds.own else 0
        return most is None or times_continued(self.events) < most

    def overrule(self, stop: Stop) -> bool:
        """Go on in spite of a stop.

        Returns:
            Whether nothing else stops the turn there.
        """
        goes_on = self._extend_and_tell(stop) if stop.reason == "step_cap" else not self._others_hold(stop)
        if goes_on:
            self._let_in()
        return goes_on

    def _others_hold(self, stop: Stop) -> bool:
        """Whether another rule than that of a stop is true at the boundary."""
        rules = () if self.bounds.rule is None else self.bounds.rule.alternatives
        return any(str(rule) != stop.rule and rule(self.progress) for rule in rules)

    def _extend_and_tell(self, stop: Stop) -> bool:
        fresh = self.policy.continue_counters == "fresh"
        if not fresh and self._others_hold(stop):
            return False
        if fresh:
            self._open_turn(self.number + 1, self.boundary_ms)
        added = self._extend()
        if self.bounds.rule is not None and self.bounds.rule.verdict(self.progress) is not None:
            return False
        more = "as long again" if fresh else f"for {added} more step{'' if added == 1 else 's'}"
        self.say("extension", from_user(f"You may go on {more}."))
        return True

    def _goes_on(self, stop: Stop) -> bool:
        """Whether a limit that was reached is not the end yet."""
        if stop.reason == "step_cap" and self.policy.continues_by == "loop" and self._may_continue():
            return self._extend_and_tell(stop)
        if self.bounds.closes_beyond and self.grace is None:
            self.grace = stop
            self.note("grace", what=f"one more request after {stop.rule}")
            return True
        return False

    def _extend(self) -> int:
        """Let the cap grow, and say by how many steps."""
        added = self.bounds.extend()
        self._thresholds = self.bounds.thresholds
        return added

    def refuses(self, child: Turn) -> Stop | None:
        """The stop of a subagent that this turn pays for, once this turn's budgets, or its payer's, are used up.

        The root's come first (as in Inspect: if the child's were named, an outer agent might start the next child for
        ever). A limit that this turn's policy asks at the response is asked here of what has been spent so far.

        Args:
            child: The subagent's turn, at a boundary.
        """
        refused = None if self.payer is None else self.payer.refuses(child)
        if refused is not None:
            return refused
        elapsed = child.clock.now() - self.ahead_ms - self.turn_ms
        spent = {**self.progress, "elapsed": elapsed}
        used_up = [rule for rule in self.bounds.budgets() if rule(spent) is not False]
        verdict = AnyOf(tuple(used_up)).verdict(spent) if used_up else None
        if verdict is None:
            return None
        payer = repr(self.agent.name) if self.agent.name else "the caller"
        return verdict._replace(step=child.steps_completed, rule=f"{verdict.rule} of {payer}")

    def _and_its_own(self, stop: Stop) -> Stop:
        """The stop with the turn's own rules that are true at the same boundary."""
        rules = () if self.bounds.rule is None else self.bounds.rule.alternatives
        own = [rule for rule in rules if rule(self.progress)]
        return stop._replace(also_true=(*stop.also_true, *(rule.decisive(self.progress).reason for rule in own)))

    def _between_steps(self) -> None:
        """What happens at a boundary besides the question whether to go on."""
        self.steering.nudge(self.bounds.nudging, self.progress)
        if self.shadow.rules:
            self.shadow.look(self.progress, self.note)
        if self.policy.input_resets_cap and self.steering.input_waits():
            if self.talk.steps:
                self._open_turn(self.number + 1, self.boundary_ms)
            self._let_in()

    def _let_in(self) -> None:
        self.steering.let_in(self.say, self.steps_completed)

    def say(self, kind: str, message: Message) -> None:
        """Put a message before the next step: the user's, or the policy's."""
        self.talk.put(message)
        self.note(kind, what=message.text)

    def begin_step(self) -> tuple[Request, Emit | None]:
        """Announce the next step and make its request."""
        self.in_step = True
        self.response = None
        self.results = []
        self.partial = {}
        index = len(self.talk.steps)
        if self._chatty:
            self._log_step_start(index + 1)
        if self.on_event is not None:
            self.tell(start_event(self.talk.next_message, index + 1, self.boundary_ms))
        messages, tools, choice = self.talk.sent, self.offered, "auto"
        if self.rewording:
            messages, tools, choice = self._reworded()
        request = Request(
            index,
            messages,
            tools,
            self.clock,
            "step",
            self.agent.temperature,
            self.setup.seed,
            choice,  # type: ignore[arg-type] # one of its two values
            self.note,
            self.run_id,
        )
        listens = self.on_event is not None or not self.clock.virtual
        return request, self._hear_delta if listens else None

    def _log_step_start(self, step: int) -> None:
        """Log `step_start 3/5`: the third step under a cap of five; where a cap counts anew, so does this."""
        cap, counted = self.bounds.on_record().get("steps"), self.steps_completed + 1
        where = str(step) if cap is None else f"{counted}/{cap}"
        facts = {"run_id": self.run_id, "turn": self.number, "step": step, "cap": cap, "agent": self.agent.name}
        log.info("run %s: step_start %s", flat(self.run_id), where, extra={"event": "step_start", **facts})

    def _reworded(self) -> tuple[Sequence[Message], tuple[ToolSpec, ...], str]:
        """The request as the policy changes it under a cap: the messages, the tools, and whether they are free."""
        policy, completed, closing_step = self.policy, self.steps_completed, self.bounds.closing_step
        last = self.grace is not None
        if closing_step is not None:
            soft = policy.cap == "soft" and completed + 1 > closing_step
            last = last or soft or completed + 1 == closing_step
        self.closing = last and policy.last_step != "prompt"
        cap = self.bounds.settings.get("steps")
        messages = last_words(policy, self.talk.sent, completed=completed, cap=cap, last=last)
        tools = () if self.closing and policy.last_step == "no_tools" else self.offered
        return messages, tools, "none" if self.closing and policy.last_step == "tool_choice_none" else "auto"

    def _hear_delta(self, of: str, delta: str) -> None:
        """Pass a delta on, and keep it in case the response breaks."""
        self.partial.setdefault(of, []).append(delta)
        if self.on_event is not None:
            self.tell(Event(self.now(), "delta", {"message": self.talk.next_message, "of": of, "text": delta}))

    def hear(self, response: Response) -> Response:
        """Take in the response of the step that was begun, and give it as it is on record: without lone surrogates."""
        fault = what_is_wrong(response)
        if fault:
            msg = f"the response of the model {self.model.name} is malformed: {fault}"
            raise ModelError(msg)
        self.response = response = whole_response(response)
        self.heard_ms = self.now()
        self.results = [None] * len(response.tool_calls)
        self.talk.history.under_way = (len(self.talk.steps) + 1, self.boundary_ms, response)
        return response

    def end_step(self, *, counts: bool = True, error: str = "") -> Step:
        """Put the step on record and, unless it ended the turn from within, count it: this is the next boundary."""
        now, start = self.now(), self.boundary_ms
        if self.execution.failures and not error:
            counts, error = False, self.execution.failures[0]
        response = self.response or Response()
        results = tuple(self.results)
        step = Step(
            len(self.talk.steps) + 1,
            self.number,
            start,
            now - start,
            self.heard_ms - start,
            response,
            results,
            error,
            self.shadow.true,
        )
        if counts:
            self.progress.complete(response, results, now - self.turn_ms)
        if self.payer is not None:
            self._pass_on(response.usage, len(results) - results.count(None))
        message = self.talk.next_message
        self.talk.add(step)
        self.boundary_ms = now
        self.in_step = False
        if None in results:
            names = ", ".join(call.name for call in step.dropped)
            facts = {"run_id": self.run_id, "step": step.index, "tools": [call.name for call in step.dropped]}
            log.warning(
                "run %s: step %d: tool calls dropped: %s",
                flat(self.run_id),
                step.index,
                flat(names),
                extra={"event": "dropped", **facts},
            )
        if self.on_event is not None:
            for event in step_events(message, step):
                self.tell(event)
        self.response = None
        if self._notes:
            self._tell_notes()
        return step

    def charge(self, usage: Usage, calls: int) -> None:
        """Pay for what a subagent spent, and let whoever pays for this turn pay as well.

        Args:
            usage: What a response consumed.
            calls: How many calls received a result.
        """
        self.progress.charge(usage, calls)
        self._pass_on(usage, calls)

    def _pass_on(self, usage: Usage, calls: int) -> None:
        if self.payer is not None and self.passed_on is not None:
            self.passed_on.charge(usage, calls)
            self.payer.charge(usage, calls)

    def _charge_again(self, events: Sequence[Event]) -> None:
        """Pay anew for the subagents of a step of a run that is gone on with."""
        for event in events:
            spent = event.payload["charged"]
            usage = Usage(spent["input_tokens"], spent["output_tokens"], cost=spent["cost"])
            self.progress.charge(usage, spent["tool_calls"])

    def tell_of_subagent(self, child: Turn, context: ToolContext) -> None:
        """Record that a subagent began, or how it ended; unlike other notes, those who watch are told at once.

        Args:
            child: The subagent's turn.
            context: What the call that started it was given.
        """
        calls = () if self.response is None else self.response.tool_calls
        facts: dict[str, Any] = {"run_id": child.run_id, "agent": child.agent.name, "reason": None}
        facts["call_id"] = calls[context.call - 1].id
        run = child.run
        if run is not None:
            facts |= {"reason": run.stop_reason, "steps": run.n_steps, "calls": run.n_tool_calls}
            if child.passed_on is not None:
                facts["charged"] = {name: child.passed_on[name] for name in CHARGED}
        event = Event(
            context.clock.now() - self.ahead_ms, "subagent", {"after_step": len(self.talk.steps) + 1, **facts}
        )
        self.events.append(event)
        self.tell(event)

    def end(self, reason: StopReason) -> Stop:
        """A stop that no rule gave."""
        return Stop(reason, self.steps_completed)

    def after(self, action: str, stop: Stop | None) -> Stop | None:
        """The stop that follows a tool phase; None to go on.

        Args:
            action: What the tool phase said.
            stop: What a verdict before it had said.
        """
        if self.execution.failures:
            self.error = self.execution.failures[0]
            return self.end("error")
        if action != "continue":
            return self.end(ENDS[action])
        return None if stop is None else stop._replace(step=self.steps_completed)

    @property
    def steps_completed(self) -> int:
        """How many tool steps are complete: the number of the boundary."""
        return self.progress["steps"] or 0

    def is_final(self, response: Response) -> bool:
        """Whether this response ends the turn, by the policy's finish guard."""
        if self.closing:
            return self.policy.last_text_finishes and not response.tool_calls
        if self._ends_plainly:
            return not response.tool_calls
        if self.bounds.text_only:
            return True
        return ends_turn(self.policy, response, input_waits=self.steering.input_waits())

    def ended_with(self, step: Step) -> bool:
        """Whether a step on record is one that ends a turn, by the policy's finish guard or as the last one granted."""
        if step.broke_off:
            return False
        was_last = any(event.kind == "grace" and event.payload["after_step"] == step.index - 1 for event in self.events)
        done = self.ends_by_calls and is_done(self.policy, step.response.tool_calls, step.results)
        return was_last or done or self.is_final(step.response)

    def unknown_tools(self, calls: Sequence[ToolCall]) -> list[str]:
        """The names among calls that stand for no tool, and to which the model brings no results of its own."""
        model = self.model
        knows = getattr(model, "has_result_of", None) or getattr(model, "replies_to", None) or (lambda _name: False)
        return [call.name for call in calls if call.name not in self.tools and not knows(call.name)]

    def projected(self, response: Response) -> Progress:
        """The counters as they would be, were this response counted and its calls executed."""
        n, calls = self.steps_completed, len(response.tool_calls)
        counters = Progress(
            (), **self.progress, responses=n + 1, tool_steps=n + (calls > 0), supersteps=2 * n + 2 + (calls > 0)
        )
        counters.charge(response.usage, calls)
        return counters

    def idle(self) -> None:
        """What follows a response without calls that did not end the turn."""
        if self.grace is not None or self.steering.input_waits():
            return
        if self.policy.idle == "prompt":
            self.steering.says.append(("continuation", self.policy.idle_prompt))
        elif self.policy.idle == "grace":
            self.grace = Stop("error_streak", self.steps_completed + 1, "no call of a finishing tool")
            self.note("grace", what="one more request after a response without a call")

    def ends_batch(self, call: ToolCall, result: ToolResult | None) -> bool:
        """Whether the calls after this one are not executed: the run failed with it, or it ended the turn."""
        if self.execution.failures:
            return True
        return self.policy.finish_batch == "until" and finishes(self.policy, call, result)

    def break_off(self, error: ModelError) -> Step:
        """Put a step on record whose response broke off, if the policy has the model asked again after it.

        Raises:
            ModelError: the failure itself, if it has not.
        """
        if not self._asks_again_after(error):
            raise error
        return self._break_step(describe(error), partial_of(error), counts=True)

    def _asks_again_after(self, error: ModelError) -> bool:
        heard = partial_of(error)
        most = 0 if self.closing or not error.retryable else self.policy.broken_retries
        aborted = self.setup.abort is not None and self.setup.abort.fired
        if heard is None or aborted or not most or not (heard.text or heard.tool_calls or heard.reasoning):
            return False
        in_a_row = itertools.takewhile(lambda step: step.broke_off, reversed(self.talk.steps))
        return sum(1 for _ in in_a_row) < most

    def interrupt(self, partial: Response | None = None) -> Stop:
        """The stop of an abort: a step that is under way is put on record as it stands."""
        if self.in_step:
            self._break_step("aborted", partial)
        self.note("abort", what="aborted from outside")
        return self.end("aborted")

    def fail(self, error: BaseException) -> Stop:
        """The stop of a failure. In a closing step it is the limit all the same that ends the turn.

        Raises:
            KeyboardInterrupt, SystemExit: if that is what it was: it is the caller's.
        """
        if isinstance(error, INTERRUPTS):
            raise error
        if self.setup.abort is not None and self.setup.abort.fired:
            return self.interrupt(partial_of(error))  # the failure is how the model took the abort
        self.error = describe(error)
        log.debug("run %s: where the failure came from", flat(self.run_id), exc_info=error)
        if self.in_step:
            self._break_step(self.error, partial_of(error), counts=self.closing and self.grace is None)
        return self.grace or (self._limit_here() if self.closing else None) or self.end("error")

    def _limit_here(self) -> Stop | None:
        """The limit that is reached at this boundary, as far as anybody can tell."""
        try:
            return None if self.bounds.rule is None else self.bounds.rule.verdict(self.progress)
        except UnknownCounter:
            return None

    def _break_step(self, why: str, partial: Response | None, *, counts: bool = False) -> Step:
        """Put a step on record that broke off: what had arrived is kept, calls without a result get an error result."""
        if self.response is None:
            heard = Response(
                "".join(self.partial.get("text", ())), reasoning="".join(self.partial.get("reasoning", ()))
            )
            self.hear(partial or heard)
        else:
            calls = self.response.tool_calls
            self.results = [
                result or ToolResult(call.id, "aborted", is_error=True)
                for call, result in zip(calls, self.results, strict=True)
            ]
        self.talk.history.under_way = None
        return self.end_step(counts=counts, error=why)

    def compact(self, compacted: Compacted) -> None:
        """Take down what a compaction did, and send its summary from now on in place of what it sums up."""
        self.talk.compactions.append(compacted)
        self.boundary_ms = self.now()
        if self.number > 1 and not self.steps_completed:
            self.turn_ms = self.boundary_ms  # a later turn begins with its first step, in every record
        if compacted.fault:
            self.context_limit = None
            if compacted.fault != "aborted":
                self.note("fault", what=f"the compaction failed: {compacted.fault}")
            return
        facts = {"kept_from": compacted.kept_from, "tokens": compacted.tokens, "what": compacted.summary}
        self.note("compaction", **facts)
        self.talk.send_summary(compacted)

    def note(self, kind: str, **payload: Any) -> None:  # noqa: ANN401 - facts of every kind
        """Record something exceptional. What happens inside a step is told after the step; waiting is told at once."""
        if kind == "fault":
            facts = {"event": "fault", "run_id": self.run_id, "step": len(self.talk.steps) + self.in_step}
            log.warning("run %s: %s", flat(self.run_id), flat(payload["what"]), extra=facts)
        if self.in_step and kind in TOLD_AT_ONCE:
            number = len(self.talk.steps) + 1
            self.events.append(Event(self.now(), kind, {"after_step": number, "step_number": number, **payload}))
            self.tell(self.events[-1])
            return
        self._notes.append(Event(self.now(), kind, payload))
        if not self.in_step:
            self._tell_notes()

    def _tell_notes(self) -> None:
        while self._notes:
            t_ms, kind, payload = self._notes.pop(0)
            event = Event(t_ms, kind, {"after_step": len(self.talk.steps), **payload})
            self.events.append(event)
            self.tell(event)

    def write_sentinel(self, kind: str, text: str) -> None:
        """End the run's messages with a visible sentinel."""
        self.sentinel = Sentinel(kind, text)
        self.note("sentinel", sentinel=kind, text=text)

    def tell(self, event: Event) -> None:
        """Pass an event to whoever watches. A watcher that fails is not told again; the run goes on."""
        if self.on_event is None:
            return
        try:
            self.on_event(event)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.on_event = None
            log.exception("run %s: on_event failed and is not called again", self.run_id)
            self.note("fault", what=f"on_event failed: {describe(error)}")

    def close(self, stop: Stop) -> Run:
        """The record of the turn."""
        run = self._record(stop)
        score = self.setup.score or getattr(self.model, "score", None)
        if score is not None:
            try:
                run = replace(run, success=as_success(score(run)))
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - a score's failure must not lose the run
                self.note("fault", what=f"the score failed: {describe(error)}")
                run = replace(run, events=tuple(self.events))
        self.run = run
        self.execution = self.execution._replace(caller=None)  # or turn and tools would hold each other until collected
        if self.on_event is not None:
            self.tell(stop_event(run))
        return run

    def so_far(self) -> Run:
        """The record as it stands, of a turn that is under way."""
        return self._record(self.end("aborted"))

    def _record(self, stop: Stop) -> Run:
        return Run(
            run_id=self.run_id,
            agent=self.agent.name,
            model=self.setup.model_name or self.model.name,
            policy=self.policy.name,
            task=next((m.text for m in reversed(self.talk.prompt) if m.role == "user"), ""),
            stop=stop,
            steps=tuple(self.talk.steps),
            prompt=tuple(self.talk.prompt),
            inputs=tuple(self.talk.inputs),
            parent_run_id=self.parent_run_id,
            seed=self.setup.seed,
            started_at=self.started_at,
            duration_ms=self.now(),
            identity=self.bounds.identity,
            context_window=self.context_window,
            limits=self.bounds.on_record(),
            settings=dict(self.setup.settings),
            compactions=tuple(self.talk.compactions),
            earlier_wrap_ups=self.earlier_wrap_ups,
            wrap_up=self.wrap_up,
            sentinel=self.sentinel,
            synthesis=self.synthesis,
            events=tuple(self.events),
            error=self.error,
            subagents=(*self.earlier_subagents, *(child.run for child in self.subagents if child.run is not None)),
            continuation=self.setup if stop.reason in ("paused", "step_cap") else None,
        )


ENDS: Final[dict[str, StopReason]] = {"paused": "paused", "synthesis_done": "synthesis", "finished": "finished"}
"""The stop reasons that the tool phase gives."""
FATAL: Final[dict[str, Literal["none", "unexpected", "all"]]] = {
    "told": "none",
    "unexpected_fatal": "unexpected",
    "fatal": "all",
}
CHARGED: Final = ("tool_calls", "input_tokens", "output_tokens", "cost")


def times_continued(events: Sequence[Event]) -> int:
    """How often a run went on after its cap: because the user said so, or because the loop did."""
    return sum(event.kind in ("continued", "extension") for event in events)


def as_success(value: object) -> bool | None:
    """What a score returned, as a record holds it.

    Raises:
        TypeError: if it is none of True, False and None.
    """
    if value is None or isinstance(value, bool):
        return value
    plain = value.item() if hasattr(value, "item") else value  # numpy has a bool of its own
    if not isinstance(plain, bool):
        msg = f"it returned {value!r}, not True, False or None"
        raise TypeError(msg)
    return plain
