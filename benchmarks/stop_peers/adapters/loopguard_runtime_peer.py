"""loopguard-runtime, with its defaults: repeated calls whose results do not change, and repeated failures.

Its detector by embeddings is off by default, and would need a network. It is fed by its callbacks, as LangChain does.
"""

from __future__ import annotations

from typing import Any

from exchange import Guard, serve
from loopguard import LoopGuardCallbackHandler, LoopGuardInterrupt


class ToolException(Exception):
    """The error of a tool, with the name that it has in LangChain: the package reads the name."""


def prepare(_training: list[dict[str, Any]]) -> Any:  # noqa: ANN401
    """It learns nothing."""

    def new_guard(_group: str) -> Guard:
        handler = LoopGuardCallbackHandler()

        def guard(step: dict[str, Any]) -> bool:
            try:
                for call in step["calls"]:
                    handler.on_tool_start({"name": call["tool"]}, inputs=call["arguments"])
                    if call["error"]:
                        handler.on_tool_error(ToolException(call["result"]))
                    elif call["result"] is not None:
                        handler.on_tool_end(call["result"])
            except LoopGuardInterrupt:
                return True
            return False

        return guard

    return new_guard


if __name__ == "__main__":
    serve("loopguard-runtime", prepare)
