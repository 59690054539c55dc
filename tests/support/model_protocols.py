"""What servers of the two protocols say, written out from their documentation, for tests that go through a real server.

Chat completions: platform.openai.com/docs/api-reference/chat-streaming, with what OpenRouter, vLLM and llama.cpp add.
Messages: docs.claude.com/en/docs/build-with-claude/streaming and docs.claude.com/en/api/errors.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.runtime.models.base import Model
from tests.support.helpers import QUIET, TOOLS
from tests.support.model_server import PATIENCE_S, Asked


class Said(NamedTuple):
    """What a model says in one response; `calls` are (id, name, arguments), `usage` is (input, output) tokens."""

    text: str = ""
    calls: Sequence[tuple[str, str, str]] = ()
    reasoning: str = ""
    usage: tuple[int, int] | None = (10, 5)
    finish: str | None = None
    """The finish reason in boolab's vocabulary; by default what fits."""

    @property
    def reason(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")


class Speaks(Protocol):
    """One protocol, from the server's side."""

    name: str
    root: str
    """Where the API stands below a server's address."""

    def model(self, url: str, **options: Any) -> Model:
        """The model under test, at a server's address."""
        ...

    def key_in(self, asked: Asked) -> str | None:
        """The key that came with a request."""
        ...

    def events(self, said: Said) -> list[bytes]:
        """The server-sent events of a whole response."""
        ...

    def opening(self, usage: tuple[int, int]) -> bytes:
        """An event that tells the usage so far and holds no output."""
        ...

    def text(self, delta: str) -> bytes:
        """An event with a piece of text; after `opening` it is well-formed."""
        ...

    def closing(self, usage: tuple[int, int]) -> list[bytes]:
        """The events that end what `opening` began."""
        ...

    def nothing(self) -> bytes:
        """An event that means nothing: what keeps a connection alive."""
        ...

    def whole(self, said: Said) -> dict[str, Any]:
        """The response as one JSON object."""
        ...

    def error(self, message: str, kind: str = "api_error") -> dict[str, Any]:
        """An error as one JSON object."""
        ...

    def error_event(self, message: str, kind: str = "api_error", status: int = 500) -> bytes:
        """An error in the middle of a stream."""
        ...


def sse(data: object, event: str | None = None) -> bytes:
    """One server-sent event."""
    name = "" if event is None else f"event: {event}\n"
    return f"{name}data: {data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _thirds(text: str) -> list[str]:
    third = len(text) // 3 + 1
    return [text[start : start + third] for start in range(0, len(text), third)]


class ChatCompletions:
    """Chat completions."""

    name = "openai"
    root = "/v1"
    _finish: Final[Mapping[str, str]] = {}

    def __repr__(self) -> str:
        return self.name

    def model(self, url: str, **options: Any) -> Model:
        options = {"api_key": "sk-test"} | options
        return bl.OpenAIModel("test-model", base_url=url + self.root, **options)

    def key_in(self, asked: Asked) -> str | None:
        given = asked.headers.get("authorization")
        return None if given is None else given.removeprefix("Bearer ")

    def delta(self, **delta: Any) -> bytes:
        """An event with one delta."""
        return self._event([{"index": 0, "delta": delta, "finish_reason": None}])

    def end(self, reason: str | None) -> bytes:
        """The event with the finish reason."""
        return self._event([{"index": 0, "delta": {}, "finish_reason": reason}])

    def usage(self, usage: tuple[int, int], **more: Any) -> bytes:
        """The last event, with the usage and without a choice."""
        return self._event([], usage={"prompt_tokens": usage[0], "completion_tokens": usage[1], **more})

    def _event(self, choices: list[Any], **more: Any) -> bytes:
        return sse({"id": "c", "object": "chat.completion.chunk", "model": "test-model", "choices": choices, **more})

    def events(self, said: Said) -> list[bytes]:
        events = [self.delta(role="assistant", content="")]
        events += [self.delta(reasoning_content=piece) for piece in _thirds(said.reasoning)]
        events += [self.delta(content=piece) for piece in _thirds(said.text)]
        for index, (id_, name, arguments) in enumerate(said.calls):
            opening = {"index": index, "id": id_, "type": "function", "function": {"name": name, "arguments": ""}}
            events.append(self.delta(tool_calls=[opening]))
            for piece in _thirds(arguments):
                events.append(self.delta(tool_calls=[{"index": index, "function": {"arguments": piece}}]))
        events.append(self.end(said.reason))
        if said.usage is not None:
            events.append(self.usage(said.usage))
        return [*events, sse("[DONE]")]

    def opening(self, usage: tuple[int, int]) -> bytes:
        told = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
        return self._event([{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}], usage=told)

    def text(self, delta: str) -> bytes:
        return self.delta(content=delta)

    def closing(self, usage: tuple[int, int]) -> list[bytes]:
        return [self.end("stop"), self.usage(usage), sse("[DONE]")]

    def nothing(self) -> bytes:
        return b": OPENROUTER PROCESSING\n\n"

    def whole(self, said: Said) -> dict[str, Any]:
        calls = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id_, name, arguments in said.calls
        ]
        message = {"role": "assistant", "content": said.text or None, "tool_calls": calls or None}
        usage = {} if said.usage is None else {"prompt_tokens": said.usage[0], "completion_tokens": said.usage[1]}
        choice = {"index": 0, "message": message, "finish_reason": said.reason}
        return {"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage or None}

    def error(self, message: str, kind: str = "api_error") -> dict[str, Any]:
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def error_event(self, message: str, kind: str = "api_error", status: int = 500) -> bytes:
        return sse({"error": {"message": message, "type": kind, "code": status}})


class Messages:
    """Anthropic's messages."""

    name = "anthropic"
    root = "/v1"
    _words: Final = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}

    def __repr__(self) -> str:
        return self.name

    def model(self, url: str, **options: Any) -> Model:
        options = {"api_key": "sk-test"} | options
        return bl.AnthropicModel("test-model", base_url=url + self.root, **options)

    def key_in(self, asked: Asked) -> str | None:
        return asked.headers.get("x-api-key")

    def start(self, usage: Mapping[str, int]) -> bytes:
        """`message_start`."""
        message = {"id": "m", "type": "message", "role": "assistant", "content": [], "usage": dict(usage)}
        return self._event("message_start", message=message)

    def block(self, index: int, block: Mapping[str, Any], *deltas: Mapping[str, Any]) -> list[bytes]:
        """A content block with its deltas."""
        start = self._event("content_block_start", index=index, content_block=dict(block))
        pieces = [self._event("content_block_delta", index=index, delta=dict(delta)) for delta in deltas]
        return [start, *pieces, self._event("content_block_stop", index=index)]

    def end(self, reason: str | None, output: int | None) -> bytes:
        """`message_delta`, with the stop reason and the output's tokens."""
        usage = {} if output is None else {"output_tokens": output}
        return self._event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage)

    def stop(self) -> bytes:
        """`message_stop`."""
        return self._event("message_stop")

    def _event(self, kind: str, **facts: Any) -> bytes:
        return sse({"type": kind, **facts}, kind)

    def events(self, said: Said) -> list[bytes]:
        usage = {} if said.usage is None else {"input_tokens": said.usage[0], "output_tokens": 1}
        events = [self.start(usage), self.nothing()]
        blocks: list[tuple[Mapping[str, Any], list[Mapping[str, Any]]]] = []
        if said.reasoning:
            deltas: list[Mapping[str, Any]] = [
                {"type": "thinking_delta", "thinking": piece} for piece in _thirds(said.reasoning)
            ]
            sign = {"type": "signature_delta", "signature": "c2ln"}
            blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, sign]))
        if said.text:
            blocks.append(
                ({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in _thirds(said.text)])
            )
        for id_, name, arguments in said.calls:
            pieces: list[Mapping[str, Any]] = [
                {"type": "input_json_delta", "partial_json": piece} for piece in ["", *_thirds(arguments)]
            ]
            blocks.append(({"type": "tool_use", "id": id_, "name": name, "input": {}}, pieces))
        for index, (block, parts) in enumerate(blocks):
            events += self.block(index, block, *parts)
        events.append(self.end(self._words.get(said.reason, said.reason), said.usage and said.usage[1]))
        return [*events, self.stop()]

    def opening(self, usage: tuple[int, int]) -> bytes:
        text = self._event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        return self.start({"input_tokens": usage[0], "output_tokens": usage[1]}) + text

    def text(self, delta: str) -> bytes:
        return self._event("content_block_delta", index=0, delta={"type": "text_delta", "text": delta})

    def closing(self, usage: tuple[int, int]) -> list[bytes]:
        return [self._event("content_block_stop", index=0), self.end("end_turn", usage[1]), self.stop()]

    def nothing(self) -> bytes:
        return self._event("ping")

    def whole(self, said: Said) -> dict[str, Any]:
        content: list[Any] = [{"type": "text", "text": said.text}] if said.text else []
        content += [
            {"type": "tool_use", "id": id_, "name": name, "input": json.loads(arguments)}
            for id_, name, arguments in said.calls
        ]
        usage = {} if said.usage is None else {"input_tokens": said.usage[0], "output_tokens": said.usage[1]}
        message = {"id": "m", "type": "message", "role": "assistant", "content": content, "usage": usage}
        return message | {"stop_reason": self._words.get(said.reason, said.reason)}

    def error(self, message: str, kind: str = "api_error") -> dict[str, Any]:
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"}

    def error_event(self, message: str, kind: str = "api_error", status: int = 500) -> bytes:
        return sse(self.error(message, kind), "error")


CHAT: Final = ChatCompletions()
MESSAGES: Final = Messages()
PROTOCOLS: Final[tuple[Speaks, ...]] = (CHAT, MESSAGES)
both = pytest.mark.parametrize("speaks", PROTOCOLS, ids=repr)
"""The test holds for both protocols."""


async def going(model: Model, *, policy: bl.Policy | str = QUIET, **options: Any) -> Run:
    """Run the tests' agent on a model; a run that hangs is a failure."""
    agent = bl.Agent("tester", tools=TOOLS, policy=policy, tool_budget=None, doom_loop=None)
    async with asyncio.timeout(PATIENCE_S):
        return await bl.run(agent, "go", model=model, **options)


def go(model: Model, *, policy: bl.Policy | str = QUIET, **options: Any) -> Run:
    """`going`, in an event loop of its own."""
    return asyncio.run(going(model, policy=policy, **options))
