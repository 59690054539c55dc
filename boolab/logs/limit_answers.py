"""Answers that a framework writes in the name of the model when a limit stops the run.

In the messages of the run they look like a last answer, so that a run that a limit stopped would look finished.

- LangGraph's prebuilt agent (langgraph-prebuilt 1.1, chat_agent_executor.py) replaces the last response, which was paid
  for. The text does not name the limit.
- LangChain's ModelCallLimitMiddleware and ToolCallLimitMiddleware with `exit_behavior="end"` (langchain 1.4,
  agents/middleware) write their text without a request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from boolab.core.types import Stop, StopReason

NEED_MORE_STEPS: Final = "Sorry, need more steps to process this request."

_COUNT: Final = r"\((\d{1,9})/(\d{1,9})"
_MODEL_CALLS: Final = re.compile(rf"Model call limits exceeded: (?:thread limit \(\d+/\d+\), )?\w+ limit {_COUNT}\)")
_TOOL_CALLS: Final = re.compile(
    rf"('[^']*' tool|Tool) call limit reached: (?:thread limit exceeded \(\d+/\d+ calls\) and )?"
    rf"\w+ limit exceeded {_COUNT} calls\)\."
)
MAX_CHARS: Final = 500


class LimitAnswer(NamedTuple):
    """What such an answer shows."""

    reason: StopReason  # the stop reason
    rule: str  # the framework's name of the limit
    threshold: int | None  # the limit; None if the text does not name it
    value: int | None  # what was counted
    limits: dict[str, int]  # the limit by counter, where it is one on all calls
    requested: bool  # whether the model was asked for this response

    def stop(self, make: Callable[[StopReason, str, int | None, int | None], Stop]) -> Stop:
        """The stop, by the `stop` of a builder."""
        return make(self.reason, self.rule, self.threshold, self.value)


def limit_answer(text: str) -> LimitAnswer | None:
    """What a text shows, if it is such an answer; else None."""
    if len(text) > MAX_CHARS:
        return None
    answer = text.strip()
    if answer == NEED_MORE_STEPS:
        return LimitAnswer("step_cap", "recursion_limit", None, None, {}, requested=True)
    if match := _MODEL_CALLS.fullmatch(answer):
        value, limit = int(match[1]), int(match[2])
        return LimitAnswer("step_cap", f"run_limit({limit})", limit, value, {"steps": limit}, requested=False)
    if match := _TOOL_CALLS.fullmatch(answer):
        value, limit = int(match[2]), int(match[3])
        limits = {"tool_calls": limit} if match[1] == "Tool" else {}
        return LimitAnswer("tool_budget", f"run_limit({limit})", limit, value, limits, requested=False)
    return None
