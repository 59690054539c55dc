"""The decisions of the loop: whether to continue, which calls are executed, and whether a response ends the turn.

Each function makes one decision and changes little else: the cap may grow, a grace step may be granted,
messages are delivered. `boolab.runtime.engine.turn` has what follows from the answers.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from boolab.core.types import Response, Stop, ToolCall, ToolResult
from boolab.errors import describe
from boolab.limits.catalog import tool_budget
from boolab.limits.guard import Guard
from boolab.limits.ladder import Reached, projected
from boolab.limits.stop import AnyOf, StopRule
from boolab.limits.table import BUDGETS, LIMITS
from boolab.runtime.engine.cost_bounds import limit_request, set_cost_ahead
from boolab.runtime.engine.interventions import REMINDER
from boolab.runtime.engine.plan import Question
from boolab.runtime.engine.record import from_user
from boolab.runtime.engine.turn import BOUNDARY, GRACE, ORDINARY, Turn

ONE_PER_MESSAGE: Final = "Only one tool may be called per message; this call was not executed."
BLOCKED: Final = "This call repeats what was called before, and was not executed. Try another way."
DENIED: Final = "The user did not allow this call; it was not executed."
_BUDGET_REASONS: Final = frozenset(LIMITS[name].reason for name in ("tool_budget", *BUDGETS))
"""The stop reasons of limits that a subagent can use up for its caller."""


# --- At a boundary: continue? -----------------------------------------------------------------------------------------


def stop_at_boundary(turn: Turn) -> Stop | None:
    """The stop at a boundary; None to continue."""
    plan = turn.plan
    if turn.abort is not None and turn.abort.fired:
        return turn.interrupt()
    if plan.has_boundary_work:
        _prepare(turn)
    if turn.cost_limits:
        set_cost_ahead(turn)
    stop = None if turn.budget_parent is None else _stop_by_parent_budget(turn)
    if stop is None:
        # Rules have no negation: while no threshold in it is reached or unknown, the whole rule is false.
        counters = turn.ladder.counters
        for counter, threshold in turn.limits.thresholds:
            value = counters[counter]
            if value is None or value >= threshold:
                stop = _stop_by_rule(turn)
                break
    if stop is None and (turn.ladder.messages or plan.has_boundary_work):
        deliver(turn)
    if stop is None and turn.cost_limits:
        limit_request(turn)
    return stop


def _prepare(turn: Turn) -> None:
    """Watch the shadow rules; an input that resets the cap opens a turn, and is delivered even if that one stops."""
    if turn.shadow is not None:
        turn.shadow.evaluate(turn.ladder.counters, turn.record.note)
    if turn.plan.policy.inputs.reset_cap and input_waits(turn):
        if turn.history.steps:
            turn.open_turn()
        deliver(turn)


def _stop_by_rule(turn: Turn) -> Stop | None:
    stop = turn.plan.verdict(turn.limits, turn.ladder.counters)
    if stop is not None and turn.plan.policy.continues.by == "loop" and _may_continue(turn):
        stop = _allow_growth(turn, stop)
    return None if stop is None or _grant_step(turn, stop) else stop


def _grant_step(turn: Turn, stop: Stop) -> bool:
    """Whether the turn continues beyond a limit, because the loop grants one more request."""
    if turn.plan.closes_beyond and turn.step.mode != GRACE:
        if turn.grace is None:
            turn.grace = stop
            turn.record.note("grace", what=f"one more request after {stop.rule}")
        return True
    return False


def _may_continue(turn: Turn) -> bool:
    limit = turn.plan.policy.continues.times if turn.plan.own else 0
    return limit is None or turn.times_continued < limit


def _allow_growth(turn: Turn, stop: Stop) -> Stop | None:
    """The stop at a boundary where the loop may let the cap grow; None if it does.

    A cap that may grow stops nothing: so where another limit stops the turn all the same, the cap is not among the
    reasons.
    """
    if "step_cap" not in (stop.reason, *stop.also_fired):
        return stop
    if stop.reason != "step_cap" and turn.plan.policy.continues.counters == "fresh":
        return stop  # a limit that comes before the cap is true before its counter starts again
    condition = turn.plan.policy.continues.unless
    is_true = None if condition is None else condition(turn.ladder.counters)
    if is_true is True:
        return stop
    return _extend(turn, None if is_true is False else condition)


def _extend(turn: Turn, condition: StopRule | None = None) -> Stop | None:
    """Let the cap grow; if a limit stops the turn all the same, its stop."""
    fresh = turn.plan.policy.continues.counters == "fresh"
    if fresh:
        turn.open_turn()
    limits, added = turn.plan.grow_limits(turn.limits)
    stop = turn.plan.verdict(limits, turn.ladder.counters)
    if stop is not None:
        return stop
    if condition is not None:
        condition.verdict(turn.ladder.counters)
    turn.limits = limits
    turn.times_continued += 1
    steps = f"{added} more step{'' if added == 1 else 's'}"
    if turn.plan.policy.continues.message:
        extension = "as long again" if fresh else f"for {steps}"
        turn.add_message("extension", from_user(f"You may continue {extension}."))
    else:
        turn.record.note("extension", what=f"the cap grew by {steps}")
    return None


def _others_hold(turn: Turn, stop: Stop) -> bool:
    """Whether another rule than that of a stop is true at the boundary."""
    rules = () if turn.limits.rule is None else turn.limits.rule.alternatives
    return any(str(rule) != stop.rule and rule(turn.ladder.counters) for rule in rules)


def _stop_by_parent_budget(turn: Turn) -> Stop | None:
    """A subagent's stop, with its own true rules, once budgets that pay for it are used up; None to continue."""
    stop = None if turn.budget_parent is None else _parent_stop(turn.budget_parent, turn)
    if stop is None:
        return None
    rules = () if turn.limits.rule is None else turn.limits.rule.alternatives
    counters = turn.ladder.counters
    reasons = (rule.decisive(counters).reason for rule in rules if rule(counters))
    return stop._replace(also_fired=(*stop.also_fired, *reasons))


def _parent_stop(parent: Turn, child: Turn) -> Stop | None:
    """The stop of a subagent once the budgets of a turn that pays for it are used up.

    Those of the root come first (as in Inspect: if the child's were named, an outer agent might start the next child
    for ever). A limit that the parent's policy evaluates at the response is evaluated here on what has been spent so
    far.
    """
    refused = None if parent.budget_parent is None else _parent_stop(parent.budget_parent, child)
    if refused is not None:
        return refused
    elapsed = child.clock.now() - parent.ahead_ms - (parent.ladder.opened_ms or 0)
    totals = {**parent.ladder.counters, "elapsed": elapsed}
    used_up = [rule for rule in _budgets(parent) if rule(totals) is not False]
    verdict = AnyOf(tuple(used_up)).verdict(totals) if used_up else None
    if verdict is None:
        return None
    name = parent.plan.agent.name
    return verdict._replace(
        step=child.steps_completed, rule=f"{verdict.rule} of {repr(name) if name else 'the caller'}"
    )


def _budgets(turn: Turn) -> Iterator[StopRule]:
    """The rules of a turn that limit what is spent, and not how many steps are made."""
    limits = turn.limits
    for rules in (limits.rule, limits.response_rule):
        for rule in () if rules is None else rules.alternatives:
            if any(leaf.reason in _BUDGET_REASONS for leaf in rule.leaves()):
                yield rule
    budget = limits.settings.get("tool_budget")
    if turn.plan.policy.budgets.batch == "cut" and budget is not None:
        yield tool_budget(budget)


async def continue_after_ask(turn: Turn, stop: Stop) -> bool:
    """Ask the user, where the policy does so, whether the turn continues beyond a limit; if not, it has stopped."""
    if turn.step.state != BOUNDARY:
        return False
    if _asks_about(turn, stop) and turn.plan.options.get("ask") is not None:
        answer = await _ask(turn, Question(stop.rule or stop.reason, stop.value or 0))
        turn.record.note("ask", rule=stop.rule, value=stop.value, allowed=answer)
        if answer and (_extend(turn) is None if stop.reason == "step_cap" else not _others_hold(turn, stop)):
            deliver(turn)
            return True
    turn.step.move("limit")
    return False


def _asks_about(turn: Turn, stop: Stop) -> bool:
    """Whether the policy asks the user about such a stop."""
    if stop.reason == "step_cap" and turn.plan.policy.continues.by == "ask" and _may_continue(turn):
        return True
    return any(str(guard.rule) == stop.rule for guard in turn.plan.asking)


async def _ask(turn: Turn, question: Question) -> bool:
    """The user's answer; no if the options have no `ask`, or if it fails."""
    ask = turn.plan.options.get("ask")
    if ask is None:
        return False
    try:
        answer: object = ask(question)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:  # noqa: BLE001 - a failure is data
        turn.record.fault("ask", f"asking failed: {describe(error)}")
        return False
    if not isinstance(answer, bool):
        turn.record.fault("ask", f"asking failed: the answer was {answer!r}, not True or False")
        return False
    return answer


def input_waits(turn: Turn) -> bool:
    """Whether a message of the user waits that the policy delivers within a turn."""
    return turn.plan.policy.inputs.queued != "kept" and bool(turn.plan.options.get("inbox"))


def deliver(turn: Turn) -> None:
    """Put before the next step the messages of the policy, and then the user's that wait.

    At a boundary at which a turn stops nothing is delivered: no request would contain it, and the user's messages wait.
    """
    messages, inbox = turn.ladder.messages, turn.plan.options.get("inbox")
    for kind, text in messages:
        turn.add_message(kind, from_user(text))
    messages.clear()
    if inbox is None or not input_waits(turn):
        return
    late = turn.plan.policy.inputs.queued == "reminder" and turn.steps_completed > 0
    for message in inbox.take():
        if late:
            turn.add_message("reminder", from_user(REMINDER.format(message.text)))
        else:
            turn.add_message("input", message)


# --- At a response: which calls are executed? -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallVerdict:
    """What becomes of a response."""

    places: Sequence[int] | None  # the calls to execute, by their places; None for all
    stop: Stop | None = None  # the stop that follows the step; None to continue
    drops: bool = False  # whether the response is dropped whole: it has been paid for, and nothing of it counts


EXECUTE_ALL: Final = CallVerdict(None)
"""The verdict of policies that hold nothing back."""


async def judge(turn: Turn, response: Response) -> CallVerdict:
    """Decide which calls of a response are executed. Calls that are refused get their error results at once."""
    return _judge_response(turn, response) or await _judge_calls(turn, response)


def _judge_response(turn: Turn, response: Response) -> CallVerdict | None:
    """What becomes of a response whatever its single calls are; None if that depends on them."""
    plan, policy, calls, ladder = turn.plan, turn.plan.policy, response.tool_calls, turn.ladder
    empty = not response.text or policy.finish.fatal_if == "no_calls"
    if response.finish_reason in policy.finish.fatal_reasons and not calls and empty:
        return _fail(turn, f"the response ended with {response.finish_reason}")
    unknown = _unknown_tools(turn, calls) if policy.execution.unknown_tools != "reported" else ()
    if unknown and policy.execution.unknown_tools == "fatal":
        return _fail(turn, f"there is no tool {unknown[0]!r}")
    if turn.limits.response_rule is not None:
        stop = turn.limits.response_rule.verdict(projected(turn.ladder.counters, response))
        if stop is not None:
            return CallVerdict((), stop, drops=True)
    counts = ladder.counters_after(response) if plan.response_guards else {}
    for guard in plan.response_guards:
        count = counts[guard.watch.name]
        level = guard.level(count)
        if level is not None and level[1] == "stop":
            return CallVerdict((), _guard_stop(turn, guard, level[0], count), drops=True)
    if unknown or (policy.execution.calls == "exactly_one" and len(calls) > 1):
        handle_idle(turn)
        return CallVerdict((), turn.grace if turn.step.mode != ORDINARY else None)
    return None


async def _judge_calls(turn: Turn, response: Response) -> CallVerdict:
    """Which of the calls are executed, refused or dropped."""
    policy, calls, step = turn.plan.policy, response.tool_calls, turn.step
    indices = range(len(calls))
    if turn.plan.text_only:
        return EXECUTE_ALL  # and the finish guard drops them
    if step.mode != ORDINARY:
        grace = turn.grace is not None and "grace" in (policy.last_step.action, policy.finish.idle)
        ending = {name for name in policy.finish.tools if grace and name not in turn.plan.pausing}
        ending_calls = [index for index in indices if calls[index].name in ending]
        _refuse(turn, calls, set(indices) - set(ending_calls), policy.last_step.refusal)
        return CallVerdict(ending_calls, turn.grace)
    if policy.execution.calls == "one_per_message" and len(calls) > 1:
        _refuse(turn, calls, indices[1:], ONE_PER_MESSAGE)
        indices = indices[:1]
    budget = turn.limits.settings.get("tool_budget")
    if policy.budgets.batch == "cut" and budget is not None:
        executed = turn.ladder.counters["tool_calls"] or 0
        room = max(budget - executed, 0)
        if len(indices) > room:
            total = executed + len(indices)
            stop = Stop("tool_budget", turn.steps_completed, f"tool_budget({budget}, cut)", budget, total)
            if room == 0:
                return CallVerdict((), stop, drops=True)
            verdict = await _evaluate_guards(turn, response, indices[:room])
            return verdict if verdict.stop else replace(verdict, stop=stop)
    return await _evaluate_guards(turn, response, indices)


async def _evaluate_guards(turn: Turn, response: Response, indices: Sequence[int]) -> CallVerdict:
    """Evaluate the guards at calls for each call in turn, as if those before it had been executed."""
    if not turn.plan.call_guards:
        return CallVerdict(indices)
    executed: list[int] = []
    calls = response.tool_calls
    for index, levels in turn.ladder.evaluate_calls(response, indices):
        call, refusal = calls[index], ""
        for guard, level in levels:
            reason, ends = await _act(turn, guard, level, call)
            refusal = refusal or reason
            if ends:
                if refusal:
                    _refuse(turn, calls, [index], refusal)
                stop = _guard_stop(turn, guard, level.threshold, level.value)
                return CallVerdict(executed, stop, drops=not executed and not refusal)
        if refusal:
            _refuse(turn, calls, [index], refusal)
        else:
            executed.append(index)
    return CallVerdict(executed)


async def _act(turn: Turn, guard: Guard, level: Reached, call: ToolCall) -> tuple[str, bool]:
    """What a guard does at a level: why the call is refused, or "", and whether the turn ends."""
    action, rule = level.action, str(guard.at(level.threshold))
    facts = {"rule": rule, "call_id": call.id, "tool": call.name, "value": level.value}
    if action == "stop":
        turn.record.note("stop_before_call", **facts)
        return "", True
    if level.nudges:
        return "" if guard.nudge_executes else guard.nudge, False
    if action == "block":
        turn.record.note("block", **facts)
    if action == "ask" or (action == "block" and guard.block_asks):
        answer = await _ask(turn, Question(rule, level.value, call))
        turn.record.note("ask", **facts, allowed=answer)
        if not answer:
            return BLOCKED if action == "block" else DENIED, guard.deny == "stop"
    return BLOCKED if action == "block" else "", False


def _guard_stop(turn: Turn, guard: Guard, threshold: int, count: int | None) -> Stop:
    return Stop(guard.why, turn.steps_completed, str(guard.at(threshold)), threshold, count)


def _fail(turn: Turn, reason: str) -> CallVerdict:
    turn.record.error = f"ModelError: {reason}"
    return CallVerdict((), turn.end("error"), drops=True)


def _refuse(turn: Turn, calls: Sequence[ToolCall], indices: Sequence[int] | set[int], reason: str) -> None:
    for index in indices:
        turn.step.results[index] = ToolResult(calls[index].id, reason, is_error=True, duration_ms=0)


def _unknown_tools(turn: Turn, calls: Sequence[ToolCall]) -> list[str]:
    """The names among calls that stand for no tool, and to which the model brings no results of its own."""
    tools, has_result_of = turn.plan.tools, turn.plan.traits.has_result_of
    return [call.name for call in calls if call.name not in tools and not has_result_of(call.name)]


# --- After a response: final? -----------------------------------------------------------------------------------------


def is_final(turn: Turn, response: Response) -> bool:
    """Whether a response ends the turn, by the policy's finish guard."""
    plan = turn.plan
    if turn.step.mode != ORDINARY:
        return plan.policy.last_step.text_finishes and not response.tool_calls
    if plan.ends_plainly:
        return not response.tool_calls
    return plan.text_only or plan.policy.finish.ends_turn(response, input_waits=input_waits(turn))


def handle_idle(turn: Turn) -> None:
    """Do what the policy does after a response that called nothing and did not end the turn."""
    policy = turn.plan.policy
    if turn.grace is not None or input_waits(turn):
        return
    if policy.finish.idle == "prompt":
        turn.ladder.messages.append(("continuation", policy.finish.idle_prompt))
    elif policy.finish.idle == "grace":
        turn.grace = Stop("error_streak", turn.steps_completed + 1, "no call of a finishing tool")
        turn.record.note("grace", what="one more request after a response without a call")


def ends_batch(turn: Turn, call: ToolCall, result: ToolResult | None) -> bool:
    """Whether the calls after this one are not executed: the run failed with it, or it ended the turn."""
    finish = turn.plan.policy.finish
    return bool(turn.execution.failures) or (finish.batch == "until" and finish.succeeds(call, result))
