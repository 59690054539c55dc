"""A step cap in the unit of a harness.

What a cap keeps is fixed by the longest run that still finishes under it: one with n responses, the last of them its
answer. Two caps in different units are the same cap if that n is the same, so a cap is translated by way of n. Where a
harness evaluates its cap at the response, it may pay for one response more or drop the calls of the last one; it stops
the same runs.
"""

from __future__ import annotations

from typing import NamedTuple

from boolab.core.text import count
from boolab.harnesses.exports.values import Limits
from boolab.harnesses.groups import Cap
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy


class StepCap(NamedTuple):
    """A step cap in a harness's own unit, and a sentence on how it was translated; "" where it is the same number."""

    value: int
    note: str


def longest_finish(cap: Cap, value: int) -> int:
    """How many responses the longest run has that finishes under a cap of this value; the last is its answer."""
    if cap.counts == "supersteps":
        return value // 2  # a response, its calls; the end needs one more: n responses and n-1 rounds of calls, plus 1
    return value + 1 if cap.counts in ("tool_steps", "actions") else value


def cap_of(cap: Cap, longest: int) -> int:
    """The value of a cap under which no longer run finishes than one of so many responses; see `longest_finish`.

    Supersteps that are evaluated at the response need one more: with an even number, the calls of the last of these
    responses are dropped; with the odd one they are run, and the same runs finish.
    """
    if cap.counts == "supersteps":
        return 2 * longest + (cap.check == "response")
    return longest - 1 if cap.counts in ("tool_steps", "actions") else longest


def limited_steps(limits: Limits, harness: str | Policy, remarks: list[str], unit: str = "") -> int | None:
    """The step cap in the unit of a harness, whose note is added to the remarks; None if there is none."""
    if limits.max_steps is None:
        return None
    cap = step_cap(limits.max_steps, harness, limits.policy, unit)
    remarks += [cap.note] if cap.note else []
    return cap.value


def step_cap(value: int, harness: str | Policy, value_policy: str | Policy | None = None, unit: str = "") -> StepCap:
    """A step cap in the unit of a harness, from the unit of a preset; None: steps, evaluated after each step."""
    cap = get_policy(harness).cap
    value_cap = None if value_policy is None else get_policy(value_policy).cap
    if value_cap is not None and (value_cap.counts, value_cap.check) == (cap.counts, cap.check):
        return StepCap(value, "")
    longest = value if value_cap is None else longest_finish(value_cap, value)
    exact_value = cap_of(cap, longest)
    number = max(1, exact_value)  # 0 is off, or refused, in most harnesses
    noun = unit or {"tool_steps": "rounds of tool calls", "actions": "actions"}.get(cap.counts, cap.counts)
    if number == value and cap.check == "boundary":
        return StepCap(number, "")
    begin = (
        f"A step cap of {value} is {number} here, counted in {noun}: the longest run that finishes has "
        f"{count(longest, 'response')}, the last without calls."
    )
    if number != exact_value:
        begin = (
            f"A step cap of {value} cannot be set exactly: {number}, counted in {noun}, is the smallest, and lets a "
            f"run finish with {count(longest_finish(cap, number), 'response')}."
        )
    elif number == value:
        begin = f"A step cap of {value} is {number} here too."
    end = " The response that breaks the cap is paid for, and its calls are not run." if cap.check == "response" else ""
    return StepCap(number, begin + end)
