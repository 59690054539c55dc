"""The record of a turn while it is made: its events and what stands beside its steps, at last the `Run`.

Nothing here decides anything, and nothing that decides reads it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from boolab.core.events import DURING_STEP, FaultKind, stop_event
from boolab.core.text import flat
from boolab.core.types import Event, Run, Sentinel, Stop, WrapUp
from boolab.core.version import boolab_version
from boolab.errors import describe
from boolab.limits.call_identity import identity_of
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.limits.stop import Threshold
from boolab.runtime.engine.plan import Limits, TurnPlan

log = logging.getLogger("boolab.loop")

if TYPE_CHECKING:
    from boolab.runtime.engine.history import TurnHistory
    from boolab.runtime.engine.turn import StepState, Turn


SCORE_FAILED: Final = "the score failed: "
"""The beginning of the fault of a failed score."""


@dataclass(slots=True, eq=False)
class Record:
    """What a turn has recorded besides its history.

    Attributes:
        run_id: The id of the run.
        parent_run_id: That of the run that started it.
        started_at: When it began; None under a virtual clock.
        on_event: Called with each event.
        events: The exceptional events.
        pending: Those of the step under way.
        error: What ended the turn, if that was an error.
        wrap_up: The summary after a limit.
        earlier_wrap_ups: Those of limits after which the turn was resumed.
        sentinel: The visible end after a limit.
        synthesis: The text that ended the turn in place of the model's.
        task: The task's name, where a log has another one than the prompt.
        subagents: The turns that its tools started.
        earlier_subagents: The runs that an earlier run of the same turn started.
    """

    run_id: str
    parent_run_id: str | None
    started_at: datetime | None
    on_event: Callable[[Event], object] | None
    _now: Callable[[], int]
    _history: TurnHistory
    _step: StepState
    events: list[Event] = field(default_factory=list)
    pending: list[Event] = field(default_factory=list)
    error: str | None = None
    wrap_up: WrapUp | None = None
    earlier_wrap_ups: tuple[WrapUp, ...] = ()
    sentinel: Sentinel | None = None
    synthesis: str | None = None
    task: str | None = None
    subagents: list[Turn] = field(default_factory=list)
    earlier_subagents: tuple[Run, ...] = ()

    def note(self, kind: str, **payload: Any) -> None:  # noqa: ANN401 - facts of every kind
        """Record something exceptional. What happens within a step is reported after it; waiting is reported at once.

        Args:
            kind: The kind of event.
            payload: What happened.
        """
        in_step, n_steps = self._step.is_open, len(self._history.steps)
        if kind == "fault":
            facts = {"event": "fault", "run_id": self.run_id, "step": n_steps + in_step}
            log.warning("run %s: %s", flat(self.run_id), flat(payload["what"]), extra=facts)
        if in_step and kind in DURING_STEP:
            facts = {"after_step": n_steps + 1, "step_number": n_steps + 1, **payload}
            self.report(Event(self._now(), kind, facts))
            return
        self.pending.append(Event(self._now(), kind, payload))
        if not in_step:
            self.report_pending()

    def fault(self, code: FaultKind, what: str) -> None:
        """Record that something failed, which does not end the run.

        Args:
            code: What failed.
            what: The description.
        """
        self.note("fault", code=code, what=what)

    def report_pending(self) -> None:
        """Put on record, and report, what happened within the step that has just ended."""
        while self.pending:
            t_ms, kind, payload = self.pending.pop(0)
            self.report(Event(t_ms, kind, {"after_step": len(self._history.steps), **payload}))

    def report(self, event: Event) -> None:
        """Put an exceptional event on record, and pass it on.

        Args:
            event: The event.
        """
        self.events.append(event)
        self.emit(event)

    def emit(self, event: Event) -> None:
        """Pass an event to `on_event`. If that fails, it is not called again, and the run continues.

        Args:
            event: The event.
        """
        if self.on_event is None:
            return
        try:
            self.on_event(event)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.on_event = None
            log.exception("run %s: on_event failed and is not called again", self.run_id)
            self.fault("on_event", f"on_event failed: {describe(error)}")

    def write_sentinel(self, kind: str, text: str) -> None:
        """End the run's messages with a visible sentinel."""
        self.sentinel = Sentinel(kind, text)
        self.note("sentinel", sentinel=kind, text=text)


def close(turn: Turn, stop: Stop) -> Run:
    """Make the record of a turn that has stopped.

    Args:
        turn: The turn.
        stop: Why it stopped.

    Returns:
        The run; it is `turn.run` as well.
    """
    turn.step.move("closed")
    if turn.keeper is not None:
        turn.keeper.close()
        turn.keeper = None
    run, record = run_of(turn, stop), turn.record
    score = turn.plan.options.score or turn.plan.traits.score
    if score is not None:
        try:
            run = replace(run, success=as_success(score(run)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a score's failure must not lose the run
            record.fault("score", f"{SCORE_FAILED}{describe(error)}")
            run = replace(run, events=tuple(record.events))
    turn.run = run
    turn.execution = turn.execution._replace(caller=None)  # or turn and tools would hold each other until collected
    if record.on_event is not None:
        record.emit(stop_event(run))
    return run


def run_of(turn: Turn, stop: Stop) -> Run:
    """The record of a turn as it stands.

    Args:
        turn: The turn.
        stop: Why it stopped, or would stop now.

    Returns:
        The run.
    """
    plan, history, record = turn.plan, turn.history, turn.record
    options, subagents = plan.options, [child.run for child in record.subagents if child.run is not None]
    return Run(
        run_id=record.run_id,
        agent=plan.agent.name,
        model=options.model_name or plan.model.name,
        policy=plan.policy.name,
        task=record.task or next((m.text for m in reversed(history.prompt) if m.role == "user"), ""),
        stop=stop,
        steps=tuple(history.steps),
        prompt=tuple(history.prompt),
        inputs=tuple(history.inputs),
        parent_run_id=record.parent_run_id,
        seed=options.seed,
        started_at=record.started_at,
        duration_ms=turn.now(),
        identity=identity_on_record(plan),
        context_window=plan.traits.context_window,
        limits=limits_on_record(plan, turn.limits),
        settings=dict(options.settings),
        compactions=tuple(history.compactions),
        earlier_wrap_ups=record.earlier_wrap_ups,
        wrap_up=record.wrap_up,
        sentinel=record.sentinel,
        synthesis=record.synthesis,
        events=tuple(record.events),
        error=record.error,
        harness_version=boolab_version(),
        subagents=(*record.earlier_subagents, *subagents),
        continuation=options if stop.reason in ("paused", "step_cap") else None,
    )


def limits_on_record(plan: TurnPlan, limits: Limits) -> dict[str, int]:
    """The limits as a record has them: thresholds by counter.

    Args:
        plan: What holds for the turn.
        limits: The limits in force.
    """
    found: dict[str, int] = {"steps": 0} if plan.text_only else {}
    for rule in () if limits.rule is None else limits.rule.alternatives:
        if isinstance(rule, Threshold):
            counter = rule.counter.partition(":")[0]
            found[counter] = min(found.get(counter, rule.threshold), rule.threshold)
    policy, cap = plan.policy, limits.settings.get("max_steps")
    if cap is not None and policy.cap.kind == "hard" and policy.cap.counts != "actions":
        if policy.cap.counts == "supersteps":
            # A step with calls is two of them; at the response, the end needs one more.
            cap = cap // 2 if policy.cap.check == "boundary" else (cap - 1) // 2
        found["steps"] = min(found.get("steps", cap), cap)
    budget = limits.settings.get("tool_budget")
    if budget is not None:
        found["tool_calls"] = min(found.get("tool_calls", budget), budget)
    return found


def identity_on_record(plan: TurnPlan) -> str:
    """What makes two calls the same in the record's own streaks; exemptions are the rule's alone.

    Args:
        plan: What holds for the turn.
    """
    repeats = (d.identity for d in plan.detectors if isinstance(d, RepeatStreak))
    usual = plan.policy.detectors.identity
    return next(repeats, None) or (usual if isinstance(usual, str) else identity_of(usual)[0])


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
