"""Turns that continue an earlier run: paused, stopped by its cap, or branched off.

The steps on record are replayed by the same functions that the live loop uses, so that the turn stands where it stood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from boolab.core.events import compactions_of
from boolab.core.messages import Message, Text
from boolab.core.run import Run
from boolab.core.run_tree import descendants
from boolab.core.types import Event, Step, Usage
from boolab.frames.runs import known_sum
from boolab.harnesses.compaction import cut_text
from boolab.runtime.engine.decide import handle_idle, is_final
from boolab.runtime.engine.plan import TurnPlan
from boolab.runtime.engine.turn import ORDINARY, Turn

_CONTINUES: Final = ("continued", "extension")
"""The kinds of event by which a turn continues after its cap."""


def resume_turn(plan: TurnPlan, run: Run, answer: Message | None = None) -> Turn:
    """A turn that stands where a run ended: at a boundary; `answer` is the user's message there."""
    turn = Turn(plan, run.prompt, run_id=run.run_id, start_ms=run.duration_ms or 0)
    record, history, ladder = turn.record, turn.history, turn.ladder
    record.parent_run_id, record.task = run.parent_run_id, run.task
    record.started_at = run.started_at
    record.events = list(run.events)
    record.earlier_subagents = tuple(replace(child, parent_run_id=run.run_id) for child in run.subagents)
    record.earlier_wrap_ups = (*run.earlier_wrap_ups, *(() if run.wrap_up is None else (run.wrap_up,)))
    _note_shadow(turn, run)
    history.compactions += run.compactions
    history.inputs += run.inputs
    history.next_message += len(run.inputs)
    _restore_results(turn, run)
    charges = [event for event in run.events if "charged" in event.payload]
    _restore_outside_cost(turn, run, charges)
    last_counts = not _ends_beyond_cap(plan, run)
    turn.times_continued = count_continuations(run.events)
    compacted = compactions_of(run)
    changes = _changes_of_limits(plan, run.events)
    for recorded in run.steps:
        step = recorded if last_counts or recorded is not run.steps[-1] else recorded._replace(counted=False)
        history.add(step, any(step.results))
        while changes and changes[0].payload["after_step"] < step.index:
            _change_limits(turn, changes.pop(0))
        ladder.add_recorded_compactions(step, compacted)
        if not step.counted:
            continue
        ladder.enter(step)
        ladder.messages.clear()
        ladder.replay_calls(step.response, _evaluated_calls(turn, step))
        unanswered = answer is None and recorded is run.steps[-1] and not any(step.results) and not step.broke_off
        if unanswered and not step_ends_turn(turn, step):
            handle_idle(turn)
        ladder.apply(step)
        for event in charges:
            if event.payload["after_step"] == step.index:
                ladder.charge(*_charged_usage(event.payload["charged"]))
    for change in changes:
        _change_limits(turn, change)
    _restore_sent(turn)
    if answer is not None and run.stop.reason == "step_cap":
        _continue(turn, run, answer)
    elif answer is not None:
        _answer(turn, answer)
    ladder.add_compaction((compacted or {}).get(len(run.steps) + 1, 0))
    return turn


def without_changes(run: Run) -> Run:
    """The run as if its limits had not been changed on the way: for a turn that has limits of its own."""
    return replace(run, events=tuple(event for event in run.events if event.kind != "limits"))


def _changes_of_limits(plan: TurnPlan, events: Sequence[Event]) -> list[Event]:
    """The events at which a cap grew, as often as the plan lets it, or limits were changed."""
    if not plan.own:
        return []
    growths = [event for event in events if event.kind in _CONTINUES][: plan.policy.continues.times]
    return [event for event in events if event.kind == "limits" or event in growths]


def _change_limits(turn: Turn, event: Event) -> None:
    plan, limits = turn.plan, turn.limits
    if event.kind == "limits":
        values = {name: value for name, value in event.payload.items() if name in limits.settings}
        turn.limits = plan.change_limits(limits, values)
    else:
        turn.limits, _ = plan.grow_limits(limits)


def step_ends_turn(turn: Turn, step: Step) -> bool:
    """Whether a step on record ends a turn, by the policy's finish guard or as the last one that was granted."""
    if step.broke_off:
        return False
    was_last = any(e.kind == "grace" and e.payload["after_step"] == step.index - 1 for e in turn.record.events)
    plan = turn.plan
    is_done = plan.ends_by_calls and plan.policy.finish.is_done(step.response.tool_calls, step.results)
    return was_last or is_done or is_final(turn, step.response)


def count_continuations(events: Sequence[Event]) -> int:
    """How often a run continued after its cap: by the user's answer, or by the loop itself."""
    return sum(event.kind in _CONTINUES for event in events)


def _evaluated_calls(turn: Turn, step: Step) -> Sequence[int]:
    """The places of the calls of a step for which the live loop evaluated the guards at calls.

    It does so for none in a closing step, for those that were executed or refused, and only for the first one where a
    message may hold only one.
    """
    mode, _ = turn.next_mode() if turn.plan.rewrites_requests else (ORDINARY, False)
    if mode != ORDINARY:
        return ()
    indices = [index for index, result in enumerate(step.results) if result is not None]
    return indices[:1] if turn.plan.policy.execution.calls == "one_per_message" else indices


def _ends_beyond_cap(plan: TurnPlan, run: Run) -> bool:
    """Whether the last step came after the cap had stopped the run: in a grace step, or as a dropped response."""
    if run.stop.reason != "step_cap" or not run.steps:
        return False
    if any(event.kind == "grace" and event.payload["after_step"] + 1 == len(run.steps) for event in run.events):
        return True
    drops = plan.policy.cap.check == "response" or plan.policy.cap.counts in ("tool_steps", "supersteps")
    return drops and not any(run.steps[-1].results)


def _restore_outside_cost(turn: Turn, run: Run, charges: Sequence[Event]) -> None:
    """Count for hard limits what summaries and compactions cost, of the run and of the subagents that it pays for."""
    if not turn.cost_limits:
        return
    charged = {event.payload["run_id"] for event in charges}
    children = chain.from_iterable((child, *descendants(child)) for child in run.subagents if child.run_id in charged)
    usages = chain.from_iterable(member.outside for member in (run, *children))
    turn.add_outside_cost(known_sum(usage.cost for usage in usages))


def _charged_usage(charged: Mapping[str, Any]) -> tuple[Usage, int]:
    """What a subagent spent for its caller, from the event at its end."""
    names = ("input_tokens", "output_tokens", "cached_tokens", "cost", "cache_write_tokens")
    usage = Usage(**{name: charged.get(name) for name in names})
    return usage, charged["tool_calls"]


def _restore_results(turn: Turn, run: Run) -> None:
    """Cut and clear the results that the run sent so."""
    history = turn.history
    history.changed_requests.update(compacted.before for compacted in run.compactions if not compacted.fault)
    for event in run.events:
        facts, step = event.payload, event.payload.get("after_step", 0)
        if event.kind == "cut":
            result = run.steps[step - 1].results[facts["call"] - 1]
            if result is not None:
                history.cut_texts[step, facts["call"] - 1] = cut_text(result.content, facts["sent"])
        elif event.kind == "clearing":
            history.cleared_results.update((number, call_index) for number, call_index in facts["results"])
            history.changed_requests.add(step + 1)


def _restore_sent(turn: Turn) -> None:
    """Send the latest summary in place of what it sums up, and no result that was cleared, as the run did."""
    history = turn.history
    worked = [compacted for compacted in history.compactions if not compacted.fault]
    if worked:
        history.send_summary(worked[-1])
    elif history.cleared_results:
        history.update_sent()
    if len(worked) < len(history.compactions):
        last = history.compactions[-1]
        number = history.steps[last.before - 1].turn if last.before <= len(history.steps) else turn.ladder.turn
        if last.fault and number == turn.ladder.turn:
            turn.context_limit = None


def _continue(turn: Turn, run: Run, answer: Message) -> None:
    """Go on after the cap. What stood at the end of the run stays where it was, before the user's answer."""
    if turn.plan.policy.continues.counters == "fresh":
        turn.open_turn()
        turn.ladder.messages.clear()
    turn.limits, _ = turn.plan.grow_limits(turn.limits)
    if run.wrap_up is not None:
        turn.history.put(Message("assistant", (Text(run.wrap_up.text),)))
    if run.sentinel is not None:
        turn.history.put(Message("sentinel", (run.sentinel,)))
    turn.times_continued += 1
    turn.add_message("continued", answer)


def _answer(turn: Turn, message: Message) -> None:
    """Deliver the user's message at the boundary. After a final answer a new turn begins."""
    steps = turn.history.steps
    ended = bool(steps) and step_ends_turn(turn, steps[-1])
    if ended:
        turn.ladder.messages.clear()
    if ended or (steps and turn.plan.policy.inputs.reset_cap):
        turn.open_turn()
    turn.ladder.messages.append(("input", message.text))


def _note_shadow(turn: Turn, run: Run) -> None:
    """Note which rules in shadow are on record as true."""
    if turn.shadow is not None:
        turn.shadow.noted.update(event.payload["rule"] for event in run.events if event.kind == "shadow")
