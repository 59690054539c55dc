"""What a real model's client costs, as ratios to a bare httpx-sse loop measured in the same process.

The server is another process and plays prepared bytes, so that the figures are the client's CPU time alone. The bare
loop posts with httpx, reads events with httpx-sse, parses each with `json.loads` and joins the text.

- *Per chunk*: one response of many deltas of text, of reasoning, or of a call's arguments.
- *Per step*: a run of one call a step; the CPU time of the steps about history length 50, and about 800. The bare loop
  keeps a list of messages and has httpx serialise all of it at each step, as most harnesses do.

    python -m benchmarks.stream [--quick] [--write]
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
from httpx_sse import aconnect_sse

from benchmarks.results import Row, argument_parser, publish, ratio
from boolab.core.clock import WallClock
from boolab.core.messages import Message, Text
from boolab.limits.catalog import max_steps
from boolab.runtime.engine.runner import start
from boolab.runtime.models.base import Request
from boolab.runtime.models.remote.model import AnthropicModel, OpenAIModel, RemoteModel
from boolab.runtime.tools.tool import tool

QUESTION = [Message("user", (Text("Go."),))]
WINDOW = 20
"""How many steps are measured together."""
TARGETS = (50, 800)
MODELS: dict[str, type[OpenAIModel | AnthropicModel]] = {"OpenAIModel": OpenAIModel, "AnthropicModel": AnthropicModel}

SERVER = r"""
import asyncio, json, sys

def event(data, name=""):
    return (f"event: {name}\n" if name else "") + "data: " + json.dumps(data, separators=(",", ":")) + "\n\n"

def chat(*deltas, reason):
    chunks = [{"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
               "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    chunks.append({"id": "c", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9}})
    return "".join(map(event, chunks)) + "data: [DONE]\n\n"

def messages(block, *deltas, reason):
    start = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 9, "output_tokens": 1}}}
    events = [start, {"type": "content_block_start", "index": 0, "content_block": block}]
    events += [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    events += [{"type": "content_block_stop", "index": 0},
               {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}},
               {"type": "message_stop"}]
    return "".join(event(one, one["type"]) for one in events)

def call(path, n):
    arguments = json.dumps({"a": n, "b": 1})
    if path.endswith("messages"):
        block = {"type": "tool_use", "id": f"call_{n}", "name": "add", "input": {}}
        return messages(block, {"type": "input_json_delta", "partial_json": arguments}, reason="tool_use")
    function = {"name": "add", "arguments": arguments}
    return chat({"role": "assistant", "tool_calls": [{"index": 0, "id": f"call_{n}", "function": function}]},
                reason="tool_calls")

def long(path, kind, n):
    if path.endswith("messages"):
        if kind == "text":
            return messages({"type": "text", "text": ""}, *[{"type": "text_delta", "text": f" w{i}"} for i in range(n)],
                            reason="end_turn")
        if kind == "reasoning":
            deltas = [{"type": "thinking_delta", "thinking": f" w{i}"} for i in range(n)]
            return messages({"type": "thinking", "thinking": ""}, *deltas, reason="end_turn")
        deltas = [{"type": "input_json_delta", "partial_json": f"{i},"} for i in range(n)]
        return messages({"type": "tool_use", "id": "c", "name": "add", "input": {}}, *deltas, reason="tool_use")
    if kind == "text":
        return chat(*[{"content": f" w{i}"} for i in range(n)], reason="stop")
    if kind == "reasoning":
        return chat(*[{"reasoning_content": f" w{i}"} for i in range(n)], reason="stop")
    first = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "add", "arguments": ""}}]}
    deltas = [{"tool_calls": [{"index": 0, "function": {"arguments": f"{i},"}}]} for i in range(n)]
    return chat(first, *deltas, reason="tool_calls")

async def serve(reader, writer):
    asked = 0
    while True:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:
            break
        path = head.split(" ", 2)[1]
        length = next(int(x.split(":")[1]) for x in head.lower().split("\r\n") if x.startswith("content-length"))
        await reader.readexactly(length)
        asked += 1
        kind, _, n = path.split("/")[1].partition("-")
        body = (call(path, asked) if kind == "steps" else PREPARED(path, kind, int(n))).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for at in range(0, len(body), 4096):
            piece = body[at : at + 4096]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    writer.close()

known = {}
def PREPARED(*what):
    if what not in known:
        known[what] = long(*what)
    return known[what]

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Bare:
    """The loop that everybody writes: httpx, httpx-sse, json."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = httpx.AsyncClient(timeout=None)  # noqa: S113 - a benchmark

    async def ask(self, messages: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
        text = ""
        calls: list[dict[str, Any]] = []
        body = {"model": "m", "stream": True, "messages": messages}
        async with aconnect_sse(self.client, "POST", self.url, json=body) as source:
            async for event in source.aiter_sse():
                if event.data == "[DONE]":
                    continue
                chunk = json.loads(event.data)
                if "choices" in chunk:
                    for choice in chunk["choices"]:
                        text += choice["delta"].get("content") or choice["delta"].get("reasoning_content") or ""
                        calls += choice["delta"].get("tool_calls") or []
                elif chunk["type"] == "content_block_delta":
                    text += chunk["delta"].get("text") or chunk["delta"].get("thinking") or ""
                    calls += [chunk["delta"]] if "partial_json" in chunk["delta"] else []
        return text, calls

    async def steps(self, n: int, cpu: Callable[[int], object]) -> None:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
        for step in range(1, n + 1):
            _, calls = await self.ask(messages)
            given = json.loads(calls[0]["function"]["arguments"])
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            answer = {"role": "tool", "tool_call_id": calls[0]["id"], "content": str(given["a"] + given["b"])}
            messages.append(answer)
            cpu(step)


async def per_chunk(work: Callable[[], Awaitable[object]]) -> float:
    """The CPU seconds of some work."""
    begin = time.process_time()
    await work()
    return time.process_time() - begin


async def chunks(base: str, name: str, kind: str, n: int, pairs: int) -> list[tuple[float, float]]:
    """CPU microseconds per chunk of ours, and of the bare loop."""
    url = f"{base}/{kind}-{n}"
    model: RemoteModel = MODELS[name]("m", base_url=url, prices=False)
    bare = Bare(f"{url}/{'chat/completions' if name == 'OpenAIModel' else 'messages'}")
    request = Request(0, QUESTION, (), WallClock())
    heard: list[str] = []

    async def ours() -> None:
        heard.clear()
        response = await model.respond(request, lambda _, delta: heard.append(delta))
        said = response.text or response.reasoning or response.tool_calls[0].arguments
        assert len(said) > n

    async def theirs() -> None:
        text, calls = await bare.ask([{"role": "user", "content": "Go."}])
        assert len(text) > n or len(calls) >= n

    await ours()
    await theirs()
    costs = [(await per_chunk(ours) / n * 1e6, await per_chunk(theirs) / n * 1e6) for _ in range(pairs)]
    await model.aclose()
    await bare.client.aclose()
    return costs


class Cpu:
    """The CPU time about some steps."""

    def __init__(self) -> None:
        self.at: dict[int, float] = {}

    def __call__(self, step: int) -> None:
        self.at[step] = time.process_time()

    def per_step(self, target: int) -> float:
        """Microseconds per step about a history length, in messages: two for each step."""
        middle = target // 2
        begin, end = middle - WINDOW // 2, middle + WINDOW // 2
        return (self.at[end] - self.at[begin]) / WINDOW * 1e6


async def run_ours(base: str, name: str, steps: int) -> Cpu:
    """A run of so many steps, with a real model."""
    url = f"{base}/steps-0"
    model: RemoteModel = MODELS[name]("m", base_url=url, prices=False)
    cpu = Cpu()
    async with start(None, "Go.", model=model, tools=[add], stop=max_steps(steps)) as live:
        async for step in live:
            cpu(step.index)
    assert (live.run.stop_reason, live.run.n_tool_calls) == ("step_cap", steps)
    await model.aclose()
    return cpu


async def run_bare(base: str) -> Cpu:
    """The same work by the bare loop."""
    cpu = Cpu()
    bare = Bare(f"{base}/steps-0/chat/completions")
    await bare.steps(TARGETS[-1] // 2 + WINDOW, cpu)
    await bare.client.aclose()
    return cpu


def per_chunk_rows(base: str, n: int, pairs: int) -> Iterator[Row]:
    """What a chunk costs."""
    for name, api in (("OpenAIModel", "chat completions"), ("AnthropicModel", "messages")):
        for kind in ("text", "reasoning", "arguments"):
            yield ratio(f"{api}, {kind}: ours / bare", asyncio.run(chunks(base, name, kind, n, pairs)), "us")


def per_step_rows(base: str, rounds: int) -> Iterator[Row]:
    """What a step costs late in a run, beside one early in it."""
    steps = TARGETS[-1] // 2 + WINDOW
    ways: dict[str, list[Cpu]] = {name: [] for name in (*MODELS, "bare loop")}
    for _ in range(rounds):
        for name, known in ways.items():
            known.append(asyncio.run(run_bare(base) if name == "bare loop" else run_ours(base, name, steps)))
    for name, known in ways.items():
        pairs = [(cpu.per_step(TARGETS[1]), cpu.per_step(TARGETS[0])) for cpu in known]
        yield ratio(f"{name}: a step at {TARGETS[1]} messages / at {TARGETS[0]}", pairs, "us")


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    options = parser.parse_args()
    n, pairs, rounds = (2_000, 3, 1) if options.quick else (20_000, 9, 5)
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        base = f"http://127.0.0.1:{int(server.stdout.readline())}"
        tables = {"CPU per chunk": per_chunk_rows(base, n, pairs), "CPU per step": per_step_rows(base, rounds)}
        try:
            publish(__doc__, tables, options, f"httpx {httpx.__version__}")
        finally:
            server.kill()


if __name__ == "__main__":
    main()
