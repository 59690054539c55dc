"""What a policy does to the model before the stop, compared with what a recording holds.

If the model got the same messages at the same places, a recording is as informative about a policy as about one that
sends none. Where the policy would have sent something else, what would have followed is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from boolab.core.compactions import compactions_of
from boolab.core.types import Run, Step
from boolab.frames.runs import has_boundary, turns_of
from boolab.harnesses.policy import Policy
from boolab.limits.ladder import LadderState

AS_RECORDED, AT_RESPONSE, AFTERWARDS = 0, 1, 2
"""What a policy would have done at a step: nothing else than the recording holds; acted on its calls before they were
executed; sent a message, or changed the request, before the next step."""
_HELD_BACK: Final = ("exactly_one", "rejected")


def intervenes(policy: Policy) -> bool:
    """Whether the policy may send the model messages during a turn, or act on its calls.

    Example:
        >>> import boolab as bl
        >>> intervenes(bl.policies["boocode"]), intervenes(bl.policies["openhands"])
        (False, True)
    """
    return "idle" in policy.seen or any(guard.check == "call" or guard.intervenes for guard in policy.detectors.guards)


def divergences(policy: Policy, run: Run, *, turns: bool = True) -> list[int]:
    """For each step of a run, whether the policy would have intervened in a way that the recording does not hold.

    Where a run ends by itself is the recording's, and so is how its calls were executed. Counters start again in each
    turn with `turns`. Each value is `AS_RECORDED`, `AT_RESPONSE` or `AFTERWARDS`.
    """
    parts = [steps for _, steps in turns_of(run)] if turns else [list(run.steps)]
    held: dict[int, list[str]] = {}
    for before, message in run.inputs:
        held.setdefault(before, []).append(message.text)
    return [code for steps in parts for code in _of_turn(policy, run, steps, held)]


def _of_turn(policy: Policy, run: Run, steps: Sequence[Step], held: dict[int, list[str]]) -> list[int]:
    guards = [guard for guard in policy.detectors.guards if guard.check == "call" or guard.intervenes]
    at_call = [guard for guard in guards if guard.check == "call"]
    at_boundary = [guard for guard in guards if guard.check == "boundary"]
    ladder = LadderState(tuple(dict.fromkeys(guard.watch for guard in guards)), at_call, at_boundary, per_turn=False)
    compacted = compactions_of(run)
    codes: list[int] = []
    for step in steps:
        ladder.compacted_before(step, compacted)
        calls = () if step.broke_off else step.response.tool_calls  # what broke off was never evaluated
        acts = any(level.action != "shadow" for level in ladder.replay_calls(step.response, range(len(calls))))
        ladder.messages.clear()
        if step.counted:
            ladder.apply(step)
        follows = step is not steps[-1] or has_boundary(run, step)
        sent: list[str | None] = [text for _, text in ladder.messages]
        if follows and _is_idle(policy, step):
            sent.append(policy.finish.idle_prompt if policy.finish.idle == "prompt" else None)
        there = held.get(step.index + 1, [])
        differs = follows and any(text not in there for text in sent)
        codes.append(AT_RESPONSE if acts else AFTERWARDS if differs else AS_RECORDED)
    return codes


def _is_idle(policy: Policy, step: Step) -> bool:
    """Whether the policy counts the step as one without calls."""
    if "idle" not in policy.seen or step.error:
        return False
    held_back = policy.execution.calls in _HELD_BACK or policy.execution.unknown_tools in _HELD_BACK
    return not step.response.tool_calls or (held_back and not any(step.results))
