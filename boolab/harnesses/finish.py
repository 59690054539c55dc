"""Finish guards: whether a response, or the results of its calls, end a turn."""

from __future__ import annotations

from collections.abc import Sequence

from boolab.core.types import Response, ToolCall, ToolResult
from boolab.harnesses.policy import Policy


def ends_turn(policy: Policy, response: Response, *, input_waits: bool) -> bool:
    """Whether a response ends the turn; `input_waits`: whether a message of the user waits for delivery."""
    if response.finish_reason in policy.finish.final_reasons:
        return True
    if policy.finish.conditions == ("no_calls",):
        return not response.tool_calls
    return bool(policy.finish.conditions) and all(
        _holds(condition, response, input_waits=input_waits) for condition in policy.finish.conditions
    )


def _holds(condition: str, response: Response, *, input_waits: bool) -> bool:
    reason = response.finish_reason
    return {
        "no_calls": not response.tool_calls,
        "has_text": bool(response.text),
        "reason_given": reason is not None,
        "reason_not_tool_calls": reason != "tool_calls",
        "reason_stop": reason == "stop",
        "no_new_input": not input_waits,
    }[condition]


def is_done(policy: Policy, calls: Sequence[ToolCall], results: Sequence[ToolResult | None]) -> bool:
    """Whether a response's calls ended the turn: by a finishing tool, or because no call failed."""
    if policy.finish.asks_again == "after_errors" and calls:
        return not any(result is not None and result.is_error for result in results)
    if policy.finish.batch == "alone" and len(calls) > 1:
        return False
    return any(finishes(policy, call, result) for call, result in zip(calls, results, strict=True))


def finishes(policy: Policy, call: ToolCall, result: ToolResult | None) -> bool:
    """Whether a call of a finishing tool succeeded."""
    return call.name in policy.finish.tools and result is not None and not result.is_error
