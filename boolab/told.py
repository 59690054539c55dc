"""What a policy says to the model before the stop, held against what a recording holds.

A recording under which the model was told the same at the same places says as much about a policy as one that is
never told anything. Where the policy would have said something else, nobody knows what would have followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from boolab.frames import has_boundary, turns_of
from boolab.policy import Guard, LadderState, Policy
from boolab.stop import Progress
from boolab.types import Run, Step

AS_RECORDED, AT_RESPONSE, AFTERWARDS = 0, 1, 2
"""What a policy would have done at a step: nothing else than the recording holds; acted on its calls before they were
executed; said something, or asked in another way, before the next step."""
_HELD_BACK: Final = ("exactly_one", "rejected")


def speaks(policy: Policy) -> bool:
    """Whether the policy may tell the model something in the course of a turn, or act on its calls.

    Example:
        >>> from boolab.presets import policies
        >>> speaks(policies["boocode"]), speaks(policies["openhands"])
        (False, True)
    """
    return "idle" in policy.seen or any(_acts(guard) for guard in policy.guards)


def departures(policy: Policy, run: Run, *, turns: bool = True) -> list[int]:
    """For each step of a run, whether the policy would have done or said something that the recording does not hold.

    Where a run ends by itself is the recording's, and so is how its calls were executed.

    Args:
        policy: The policy.
        run: The recording.
        turns: Whether counters start anew in each turn.

    Returns:
        For each step `AS_RECORDED`, `AT_RESPONSE` or `AFTERWARDS`.
    """
    parts = [steps for _, steps in turns_of(run)] if turns else [list(run.steps)]
    held: dict[int, list[str]] = {}
    for before, message in run.inputs:
        held.setdefault(before, []).append(message.text)
    return [code for steps in parts for code in _of_turn(policy, run, steps, held)]


def _of_turn(policy: Policy, run: Run, steps: Sequence[Step], held: dict[int, list[str]]) -> list[int]:
    guards = [guard for guard in policy.guards if _acts(guard)]
    progress = Progress(tuple(dict.fromkeys(guard.watch for guard in guards)))
    ladders = LadderState()
    codes: list[int] = []
    last_tool: str | None = None
    for step in steps:
        acts = any(_acts_at_call(guard, step, progress, last_tool) for guard in guards if guard.check == "call")
        progress.complete(step.response, step.results, None)
        last_tool = next((call.name for call in reversed(step.response.tool_calls)), None)
        follows = step is not steps[-1] or has_boundary(run, step)
        says: list[str | None] = []
        if follows and _is_idle(policy, step):
            says.append(policy.idle_prompt if policy.idle == "prompt" else None)
        nudging = (guard for guard in guards if guard.check == "boundary")
        says += [guard.nudge for guard in nudging if ladders.speaks(guard, progress[guard.watch.name])]
        there = held.get(step.index + 1, [])
        differs = follows and any(text not in there for text in says)
        codes.append(AT_RESPONSE if acts else AFTERWARDS if differs else AS_RECORDED)
    return codes


def _acts(guard: Guard) -> bool:
    return guard.check == "call" or any(action == "nudge" for _, action in guard.ladder)


def _acts_at_call(guard: Guard, step: Step, progress: Progress, last_tool: str | None) -> bool:
    """Whether a guard would have held back, refused or asked about a call of the step, or spoken of it."""
    calls = step.response.tool_calls
    if step.broke_off:
        return False  # the response never came
    for call, ahead in zip(calls, progress.ahead(step.response, calls), strict=True):
        count = ahead.get(guard.watch.name)
        if count is None and call.name == last_tool:
            count = progress[guard.watch.name]
        rung = guard.rung(count)
        if rung is not None and rung[1] != "shadow":
            return True
    return False


def _is_idle(policy: Policy, step: Step) -> bool:
    """Whether the policy takes the step for one that called nothing."""
    if "idle" not in policy.seen or step.error:
        return False
    held_back = policy.execution in _HELD_BACK or policy.unknown_tools in _HELD_BACK
    return not step.response.tool_calls or (held_back and not any(step.results))
