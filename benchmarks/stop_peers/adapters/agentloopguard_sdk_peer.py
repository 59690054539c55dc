"""agentloopguard-sdk, with its defaults: equal calls, similar outputs, and oscillation.

Its detector of cost per minute is silent: it takes the time between two records from the clock of this process, and
tokens without a time would let it see a run as if it took milliseconds. So no tokens are reported.
"""

from __future__ import annotations

from typing import Any

from agentloopguard import LoopGuard
from agentloopguard.exceptions import LoopDetectedError
from exchange import Guard, serve


def prepare(_training: list[dict[str, Any]]) -> Any:  # noqa: ANN401
    """It learns nothing."""

    def new_guard(_group: str) -> Guard:
        session = LoopGuard().session()

        def guard(step: dict[str, Any]) -> bool:
            try:
                for call in step["calls"]:
                    known = {} if call["result"] is None else {"output": call["result"]}
                    session.record({"tool_name": call["tool"], "tool_args": call["arguments"], **known})
            except LoopDetectedError:
                return True
            return False

        return guard

    return new_guard


if __name__ == "__main__":
    serve("agentloopguard-sdk", prepare)
