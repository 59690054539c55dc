"""The gate: what is to become of a response before any of its calls is executed.

Only policies that hold something back come here: with limits that are asked at the response, guards that are asked at a
call, one call per message, a last step without calls. All others execute everything.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from boolab.errors import describe
from boolab.policy import Action, Guard
from boolab.setup import Question
from boolab.steering import count_at
from boolab.types import Response, Stop, ToolCall, ToolResult

if TYPE_CHECKING:
    from boolab.turn import Turn

ONE_PER_MESSAGE: Final = "Only one tool may be called per message; this call was not executed."
BLOCKED: Final = "This call repeats what was called before, and was not executed. Try another way."
DENIED: Final = "The user did not allow this call; it was not executed."


class Verdict(NamedTuple):
    """What is to become of a response.

    Attributes:
        places: The calls to execute, by their places; None for all.
        stop: The stop that follows, at the boundary before this step; None to go on.
        drops: Whether the response is dropped whole: it has been paid for, and nothing of it counts.
    """

    places: Sequence[int] | None
    stop: Stop | None = None
    drops: bool = False


EXECUTE_ALL: Final = Verdict(None)
"""The verdict of policies that hold nothing back."""


async def judge(turn: Turn, response: Response) -> Verdict:
    """Judge a response. Calls that are refused get their error results at once.

    Args:
        turn: The turn; `turn.results` has a slot for each call.
        response: What the model said.

    Raises:
        UnknownCounter: if a limit hangs on a counter that is not known.
    """
    return _of_the_whole(turn, response) or await _of_the_calls(turn, response)


def _of_the_whole(turn: Turn, response: Response) -> Verdict | None:
    """What is to become of a response whatever its single calls are; None if nothing speaks against it."""
    policy, calls = turn.policy, response.tool_calls
    empty = not response.text or policy.fatal_if == "no_calls"
    if response.finish_reason in policy.fatal_reasons and not calls and empty:
        return _fails(turn, f"the response ended with {response.finish_reason}")
    unknown = turn.unknown_tools(calls) if policy.unknown_tools != "told" else ()
    if unknown and policy.unknown_tools == "fatal":
        return _fails(turn, f"there is no tool {unknown[0]!r}")
    if turn.bounds.response_rule is not None:
        stop = turn.bounds.response_rule.verdict(turn.projected(response))
        if stop is not None:
            return Verdict((), stop, drops=True)
    counts = turn.progress.after(response) if turn.bounds.response_guards else {}
    for guard in turn.bounds.response_guards:
        count = counts[guard.watch.name]
        rung = guard.rung(count)
        if rung is not None and rung[1] == "stop":
            stop = Stop(guard.why, turn.steps_completed, str(guard.at(rung[0])), rung[0], count)
            return Verdict((), stop, drops=True)
    if unknown or (policy.execution == "exactly_one" and len(calls) > 1):
        turn.idle()
        return Verdict((), turn.grace if turn.closing else None)
    return None


async def _of_the_calls(turn: Turn, response: Response) -> Verdict:
    """Which of the calls are executed, refused or dropped."""
    policy, calls = turn.policy, response.tool_calls
    places = range(len(calls))
    if turn.bounds.text_only:
        return EXECUTE_ALL  # and the finish guard drops them
    if turn.closing:
        grace = turn.grace is not None and "grace" in (policy.last_step, policy.idle)
        kept = [i for i in places if grace and calls[i].name in policy.finish_tools]
        _refuse(turn, calls, set(places) - set(kept), policy.refusal)
        return Verdict(kept, turn.grace)
    if policy.execution == "one_per_message" and len(calls) > 1:
        _refuse(turn, calls, places[1:], ONE_PER_MESSAGE)
        places = places[:1]
    budget = turn.bounds.settings.get("tool_budget")
    if policy.budget_batch == "cut" and budget is not None:
        used = turn.progress["tool_calls"] or 0
        room = max(budget - used, 0)
        if len(places) > room:
            wanted = used + len(places)
            stop = Stop("tool_budget", turn.steps_completed, f"tool_budget({budget}, cut)", budget, wanted)
            if room == 0:
                return Verdict((), stop, drops=True)
            verdict = await _of_the_guards(turn, response, places[:room])
            return verdict if verdict.stop else verdict._replace(stop=stop)
    return await _of_the_guards(turn, response, places)


def _fails(turn: Turn, why: str) -> Verdict:
    turn.error = f"ModelError: {why}"
    return Verdict((), turn.end("error"), drops=True)


async def overruled(turn: Turn, stop: Stop) -> bool:
    """Whether the user lets a turn go on that a limit would stop, where the policy has the user asked.

    Args:
        turn: The turn, at a boundary.
        stop: The stop that would follow.
    """
    asks = turn.asks_about(stop)
    if not asks or turn.setup.ask is None:
        return False
    allowed = await _ask(turn, Question(stop.rule or stop.reason, stop.value or 0))
    turn.note("ask", rule=stop.rule, value=stop.value, allowed=allowed)
    return allowed and turn.overrule(stop)


async def _of_the_guards(turn: Turn, response: Response, places: Sequence[int]) -> Verdict:
    """Ask the guards about each call in turn, as if those before it had been executed."""
    if not turn.bounds.call_guards:
        return Verdict(places)
    executed: list[int] = []
    calls = response.tool_calls
    counts = turn.progress.ahead(response, [calls[place] for place in places])
    for place, ahead in zip(places, counts, strict=True):
        call, refusal = calls[place], ""
        for guard in turn.bounds.call_guards:
            count = count_at(guard, call, ahead, turn.progress, turn.talk.steps)
            rung = guard.rung(count)
            speaks = turn.steering.reach(guard, count)
            if rung is None or count is None:
                continue
            why, ends = await _act(turn, guard, rung, count, call, speaks=speaks)
            refusal = refusal or why
            if ends:
                if refusal:
                    _refuse(turn, calls, [place], refusal)
                stop = Stop(guard.why, turn.steps_completed, str(guard.at(rung[0])), rung[0], count)
                return Verdict(executed, stop, drops=not executed and not refusal)
        if refusal:
            _refuse(turn, calls, [place], refusal)
        else:
            executed.append(place)
    return Verdict(executed)


async def _act(
    turn: Turn, guard: Guard, rung: tuple[int, Action], count: int, call: ToolCall, *, speaks: bool
) -> tuple[str, bool]:
    """What a guard does at a rung: why the call is refused, or "", and whether the turn ends."""
    threshold, action = rung
    rule = str(guard.at(threshold))
    facts = {"rule": rule, "call_id": call.id, "tool": call.name, "value": count}
    if action == "stop":
        turn.note("stop_before_call", **facts)
        return "", True
    if speaks:
        return "" if guard.nudge_executes else guard.nudge, False
    if action == "block":
        turn.note("block", **facts)
    if action == "ask" or (action == "block" and guard.block_asks):
        allowed = await _ask(turn, Question(rule, count, call))
        turn.note("ask", **facts, allowed=allowed)
        if not allowed:
            return BLOCKED if action == "block" else DENIED, guard.deny == "stop"
    if action == "block":
        return BLOCKED, False
    return "", False


async def _ask(turn: Turn, question: Question) -> bool:
    """The user's answer; without anybody to ask, or if asking fails, it is no."""
    if turn.setup.ask is None:
        return False
    try:
        answer: object = turn.setup.ask(question)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:  # noqa: BLE001 - a failure is data
        turn.note("fault", what=f"asking failed: {describe(error)}")
        return False
    if not isinstance(answer, bool):
        turn.note("fault", what=f"asking failed: the answer was {answer!r}, not True or False")
        return False
    return answer


def _refuse(turn: Turn, calls: Sequence[ToolCall], places: Sequence[int] | set[int], why: str) -> None:
    for place in places:
        turn.results[place] = ToolResult(calls[place].id, why, is_error=True, duration_ms=0)
