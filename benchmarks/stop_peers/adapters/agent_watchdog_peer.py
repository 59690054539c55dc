"""agent-watchdog, with its defaults: three equal calls in a row, a pattern over eight calls, or a dollar.

Its limit of 300 seconds is off: it is on the clock of this process, which has nothing to do with a recorded run.
"""

from __future__ import annotations

from typing import Any

from agent_watchdog import AgentWatchdog, WatchdogHalt
from exchange import Guard, serve


class Watch:
    """The watch over one run."""

    def __init__(self) -> None:
        self._own = AgentWatchdog(timeout_seconds=None)
        self._watching = self._own.watch()  # kept: it ends where it is collected
        self._watching.__enter__()

    def __call__(self, step: dict[str, Any]) -> bool:
        """Whether the run is stopped after the step."""
        try:
            for call in step["calls"]:
                self._own.record_tool_call(call["tool"], args=call["arguments"], output=call["result"])
            self._own.record_tokens(step["input_tokens"] or 0, step["output_tokens"] or 0)
        except WatchdogHalt:
            return True
        return False


def prepare(_training: list[dict[str, Any]]) -> Any:  # noqa: ANN401
    """It learns nothing."""

    def new_guard(_group: str) -> Guard:
        return Watch()

    return new_guard


if __name__ == "__main__":
    serve("agent-watchdog", prepare)
