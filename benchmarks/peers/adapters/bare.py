"""The least that an agent loop can do; what everything else is held against.

It awaits a model, parses the arguments of each call, calls the function and appends the messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


class BareModel:
    """Makes a response of plain dictionaries: `steps - 1` calls of `add`, each with fresh arguments, then text."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    async def __call__(self, messages: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: ARG002 - as a model would get
        """The next message."""
        self.left -= 1
        if self.left < 1:
            return {"role": "assistant", "content": "done"}
        function = {"name": "add", "arguments": f'{{"a":{self.left},"b":1}}'}
        return {"role": "assistant", "tool_calls": [{"id": f"call_{self.left}", "function": function}]}


def plain_add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def bare(steps: int, add: Callable[[int, int], int] = plain_add) -> str:
    """Run the loop until the model says text, and return that.

    Args:
        steps: Calls of the model, the last without a call of the tool.
        add: The tool.
    """
    model = BareModel(steps)
    functions: dict[str, Callable[..., Any]] = {"add": add}
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Add."}, {"role": "user", "content": "go"}]
    while True:
        answer = await model(messages)
        messages.append(answer)
        if "tool_calls" not in answer:
            return str(answer["content"])
        for call in answer["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"])
            result = functions[call["function"]["name"]](**arguments)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
