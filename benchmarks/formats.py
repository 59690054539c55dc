"""Synthetic logs of every format, of about a wanted size: what `benchmarks/ingest.py` reads.

They have the shape of real ones. A session (`Agent`) has turns of several steps; half of the responses begin with
reasoning, some ask for up to three calls at once, and some calls fail. Lengths of texts are lognormal: results have
3.5 kB on average. Texts have lines, quotation marks, and once in a while a character beyond Latin-1. Each format writes
this down with what real files of it have besides: ids, times, usage, repetitions. The same seed gives the same files.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeAlias

from pydantic_core import to_json

from boolab.logs.load import load_runs
from boolab.logs.save import save_runs

Json: TypeAlias = dict[str, Any]

START = 1_770_000_000_000
SECRET = "x" * 400
"""What stands where providers put signatures and encrypted texts."""
WORDS = ("the", "of", "a", "to", "test", "module", "error", "file", "line", "value", "import", '"path"', "name")


@cache
def book() -> str:
    """A long text, from which all others are cut."""
    random = Random(0)  # noqa: S311 - no secret
    lines = (" ".join(random.choices(WORDS, k=random.randint(1, 20))) for _ in range(40_000))
    return "\n".join(f"    {line} →" if number % 500 == 0 else f"    {line}" for number, line in enumerate(lines))


class Said(NamedTuple):
    """What a user says: it opens a turn."""

    id: str
    time: int
    text: str


class Call(NamedTuple):
    """A call with its result."""

    id: str
    name: str
    given: Json
    output: str
    failed: bool
    start: int
    end: int

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end - self.start) / 1000

    @property
    def code(self) -> int:
        """What the command returned."""
        return int(self.failed)

    @property
    def raw(self) -> str:
        """The arguments as a text."""
        return dumps(self.given)


class Reply(NamedTuple):
    """A response of the model, with its calls and their results."""

    id: str
    start: int
    end: int
    thinking: str
    text: str
    calls: tuple[Call, ...]
    fresh: int
    cached: int
    left: int

    @property
    def entered(self) -> int:
        """All tokens that went to the model."""
        return self.fresh + self.cached

    @property
    def cost(self) -> float:
        """Dollars."""
        return round(self.fresh * 3e-6 + self.cached * 3e-7 + self.left * 15e-6, 6)


class Agent:
    """An agent that never stops, its user, and their clock.

    Args:
        seed: The same one gives the same session.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311 - no secret
        self.time = START

    def prose(self, chars: float) -> str:
        """Words, about so many characters of them."""
        size = int(self.random.lognormvariate(0, 0.8) * chars) + 1
        start = self.random.randrange(max(1, len(book()) - size))
        return book()[start : start + size]

    def name(self, prefix: str = "", bits: int = 96) -> str:
        """An id."""
        return f"{prefix}{self.random.getrandbits(bits):0{bits // 4}x}"

    def passes(self, most: int = 900) -> int:
        """The time, after some has passed."""
        self.time += self.random.randint(5, most)
        return self.time

    def session(self) -> Iterator[Said | Reply]:
        """Turns without end."""
        while True:
            yield from self.turn()

    def run(self) -> list[Said | Reply]:
        """A run of a few turns."""
        return [event for _ in range(self.random.randint(1, 3)) for event in self.turn()]

    def turn(self) -> Iterator[Said | Reply]:
        """What a user wants, steps with calls, and an answer."""
        yield Said(self.name("msg_"), self.passes(60_000), self.prose(300))
        for _ in range(self.random.randint(3, 40)):
            yield self.reply(self.random.choice((1, 1, 1, 1, 2, 3)), 200)
        yield self.reply(0, 900)

    def reply(self, calls: int, chars: int) -> Reply:
        """A response."""
        start, end = self.time, self.passes(9_000)
        thinking = self.prose(400) if self.random.random() < 0.5 else ""
        fresh, cached, left = (self.random.randint(1, most) for most in (900, 90_000, 700))
        said, made = self.prose(chars), tuple(self.call() for _ in range(calls))
        return Reply(self.name("msg_"), start, end, thinking, said, made, fresh, cached, left)

    def call(self) -> Call:
        """A call; one of ten fails."""
        given = {"command": self.prose(120), "description": self.prose(40)}
        failed = self.random.random() < 0.1
        output = self.prose(2_500)
        return Call(self.name("call_"), "bash", given, output, failed, self.time, self.passes(3_000))


def dumps(value: object) -> str:
    """JSON as a text."""
    return to_json(value).decode()


def iso(time: int) -> str:
    """A time with a zone."""
    return naive(time) + "Z"


def naive(time: int) -> str:
    """A time without one."""
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds")[:23]


def up_to(size: int, records: Iterable[Any]) -> Iterator[Any]:
    """Records of about so many bytes."""
    for record in records:
        size -= len(to_json(record))
        yield record
        if size <= 0:
            return


def runs(form: Callable[[Agent, list[Said | Reply]], Json], seed: int = 2) -> Iterator[Json]:
    """Runs without end, in this form."""
    agent = Agent(seed)
    while True:
        yield form(agent, agent.run())


def write_lines(records: Callable[[], Iterable[Any]], path: Path, size: int) -> None:
    """A file of JSON Lines."""
    with path.open("wb") as file:
        file.writelines(to_json(record) + b"\n" for record in up_to(size, records()))


def write_document(form: Callable[[int], Any], path: Path, size: int) -> None:
    """A file of one JSON document."""
    path.write_bytes(to_json(form(size)))


# What formats of several systems have in common: the messages of the two large APIs.


def anthropic_blocks(reply: Reply) -> list[Json]:
    """The content of a response."""
    thinking = [{"type": "thinking", "thinking": reply.thinking, "signature": SECRET}] if reply.thinking else []
    calls = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.given} for call in reply.calls]
    return [*thinking, {"type": "text", "text": reply.text}, *calls]


def anthropic_result(call: Call) -> Json:
    """The block of a result."""
    return {"type": "tool_result", "tool_use_id": call.id, "content": call.output, "is_error": call.failed}


def anthropic_usage(reply: Reply) -> Json:
    """The usage of a response."""
    return {
        "input_tokens": 3,
        "cache_creation_input_tokens": reply.fresh,
        "cache_read_input_tokens": reply.cached,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": reply.fresh},
        "output_tokens": reply.left,
        "service_tier": "standard",
    }


def openai_message(reply: Reply) -> Json:
    """The message of a response."""
    calls = [openai_call(call) for call in reply.calls]
    return {"role": "assistant", "content": reply.text} | ({"tool_calls": calls} if calls else {})


def openai_call(call: Call) -> Json:
    """A call in it."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.raw}}


def openai_result(call: Call) -> Json:
    """The message of a result."""
    return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": call.output}


def openai_usage(reply: Reply) -> Json:
    """The usage of a response."""
    return {
        "prompt_tokens": reply.entered,
        "completion_tokens": reply.left,
        "total_tokens": reply.entered + reply.left,
        "prompt_tokens_details": {"cached_tokens": reply.cached, "audio_tokens": None},
        "completion_tokens_details": {"reasoning_tokens": reply.left // 2, "audio_tokens": None},
    }


def openai_response(reply: Reply) -> Json:
    """A whole response of the API."""
    reason = "tool_calls" if reply.calls else "stop"
    choice = {"index": 0, "finish_reason": reason, "message": openai_message(reply) | {"function_call": None}}
    about = {"id": reply.id, "created": reply.end // 1000, "model": "gpt-x", "object": "chat.completion"}
    return about | {"system_fingerprint": None, "choices": [choice], "usage": openai_usage(reply)}


# Sessions of coding agents: JSON Lines, written as they go on.


def claude_code() -> Iterator[Json]:
    """A line for each block, usage on each of them, progress in between, and results twice."""
    agent = Agent(1)
    about = {"isSidechain": False, "userType": "external", "cwd": "/home/someone/projects/something"}
    about |= {"sessionId": "11111111-2222-4333-8444-555555555555", "version": "2.1.39", "gitBranch": "main"}
    parent = None

    def line(kind: str, time: int, **more: object) -> Json:
        nonlocal parent
        above, parent = parent, agent.name(bits=128)
        return {"parentUuid": above, **about, "type": kind, **more, "uuid": parent, "timestamp": iso(time)}

    for event in agent.session():
        if isinstance(event, Said):
            yield {"type": "file-history-snapshot", "snapshot": {"files": agent.prose(600)}}
            yield line("user", event.time, message={"role": "user", "content": event.text})
            continue
        about_reply: Json = {"model": "claude-x", "id": event.id, "type": "message", "role": "assistant"}
        for block in anthropic_blocks(event):
            message = about_reply | {"content": [block], "stop_reason": None, "usage": anthropic_usage(event)}
            yield line("assistant", event.end, message=message, requestId=f"req_{event.id}")
        for call in event.calls:
            for _ in range(agent.random.randint(0, 3)):
                data = {"type": "bash_progress", "output": agent.prose(500)}
                yield line("progress", call.start, data=data, toolUseID=call.id)
            told = {"stdout": call.output, "stderr": "", "interrupted": False, "isImage": False}
            message = {"role": "user", "content": [anthropic_result(call)]}
            yield line("user", call.end, message=message, toolUseResult=told)


def codex() -> Iterator[Json]:
    """Items, most of them once more as events, and each usage report twice."""

    def line(kind: str, time: int, **payload: object) -> Json:
        return {"timestamp": iso(time), "type": kind, "payload": payload}

    agent = Agent(3)
    yield line("session_meta", START, id=agent.name(), cwd="/x", cli_version="0.104", instructions=agent.prose(4_000))
    total = 0
    for event in agent.session():
        if isinstance(event, Said):
            content = [{"type": "input_text", "text": event.text}]
            yield line("response_item", event.time, type="message", role="user", content=content)
            yield line("event_msg", event.time, type="user_message", message=event.text, images=[])
            yield line("turn_context", event.time, model="gpt-x", cwd="/x", approval_policy="on-request")
            continue
        if event.thinking:
            yield line("event_msg", event.end, type="agent_reasoning", text=event.thinking)
            summary = [{"type": "summary_text", "text": event.thinking}]
            yield line("response_item", event.end, type="reasoning", summary=summary, encrypted_content=SECRET * 2)
        yield line("event_msg", event.end, type="agent_message", message=event.text)
        content = [{"type": "output_text", "text": event.text}]
        yield line("response_item", event.end, type="message", role="assistant", content=content)
        for call in event.calls:
            item = {"type": "function_call", "name": call.name, "arguments": call.raw, "call_id": call.id}
            yield line("response_item", event.end, **item)
        last = {"input_tokens": event.entered, "cached_input_tokens": event.cached, "output_tokens": event.left}
        total += event.entered + event.left
        info = {"total_token_usage": {"total_tokens": total}, "last_token_usage": last, "model_context_window": 258_400}
        yield line("event_msg", event.end, type="token_count", info=info)
        for call in event.calls:
            head = f"Exit code: {call.code}\nWall time: {call.seconds} seconds\nOutput:\n"
            output = head + call.output
            yield line("response_item", call.end, type="function_call_output", call_id=call.id, output=output)
        yield line("event_msg", agent.time, type="token_count", info=info)


def gemini_header() -> Json:
    """What stands before the messages."""
    head = {"sessionId": "22222222-0000-7000-8000-000000000002", "projectHash": "ab" * 32, "kind": "main"}
    return head | {"startTime": iso(START), "lastUpdated": iso(START)}


def gemini_messages() -> Iterator[Json]:
    """Messages with their calls and results, whose text they hold twice."""
    for event in Agent(4).session():
        if isinstance(event, Said):
            yield {"id": event.id, "timestamp": iso(event.time), "type": "user", "content": [{"text": event.text}]}
            continue
        thoughts = [{"subject": "Looking", "description": event.thinking, "timestamp": iso(event.end)}]
        tokens = {"input": event.entered, "output": event.left, "cached": event.cached, "thoughts": 9, "tool": 0}
        message: Json = {"id": event.id, "timestamp": iso(event.end), "type": "gemini", "content": event.text}
        message |= {"thoughts": thoughts if event.thinking else [], "tokens": tokens, "model": "gemini-x"}
        yield message | {"toolCalls": [_gemini_call(call) for call in event.calls]}


def _gemini_call(call: Call) -> Json:
    response = {"id": call.id, "name": call.name, "response": {"output": call.output}}
    status = "error" if call.failed else "success"
    made = {"id": call.id, "name": call.name, "args": call.given, "status": status, "timestamp": iso(call.end)}
    shown = {"resultDisplay": call.output, "displayName": "Shell", "description": "This tool runs a command. " * 40}
    return made | {"result": [{"functionResponse": response}]} | shown


def gemini_lines() -> Iterator[Json]:
    """A message that is there already is written again with what is new: first its tokens, then its calls."""
    yield gemini_header()
    for message in gemini_messages():
        if message["type"] == "gemini":
            early = {name: value for name, value in message.items() if name != "toolCalls"}
            yield from (early | {"tokens": None}, early)
        yield message
        yield {"$set": {"lastUpdated": message["timestamp"]}}


def pi() -> Iterator[Json]:
    """A tree without branches."""
    agent = Agent(5)
    parent = None

    def line(time: int, message: Json) -> Json:
        nonlocal parent
        above, parent = parent, agent.name(bits=32)
        about = {"type": "message", "id": parent, "parentId": above, "timestamp": iso(time)}
        return about | {"message": message | {"timestamp": time}}

    yield {"type": "session", "version": 3, "id": agent.name(), "timestamp": iso(START), "cwd": "/x"}
    about: Json = {"role": "assistant", "api": "anthropic-messages", "provider": "anthropic", "model": "claude-x"}
    for event in agent.session():
        if isinstance(event, Said):
            yield line(event.time, {"role": "user", "content": [{"type": "text", "text": event.text}]})
            continue
        content: list[Json] = [{"type": "thinking", "thinking": event.thinking, "thinkingSignature": SECRET}]
        content = [*(content if event.thinking else []), {"type": "text", "text": event.text}]
        content += [{"type": "toolCall", "id": c.id, "name": c.name, "arguments": c.given} for c in event.calls]
        usage: Json = {"input": 3, "output": event.left, "cacheRead": event.cached, "cacheWrite": event.fresh}
        usage["cost"] = dict.fromkeys(usage, 0.001) | {"total": event.cost}
        yield line(
            event.end, about | {"content": content, "usage": usage, "stopReason": "toolUse" if event.calls else "stop"}
        )
        for call in event.calls:
            given = {"content": [{"type": "text", "text": call.output}], "isError": call.failed}
            yield line(call.end, {"role": "toolResult", "toolCallId": call.id, "toolName": call.name} | given)


def openhands_sdk() -> Iterator[Json]:
    """An event for each call and each result; usage accumulates in events of the conversation's state."""
    agent = Agent(6)

    def line(kind: str, time: int, source: str, **more: object) -> Json:
        return {"id": agent.name(bits=128), "timestamp": naive(time), "source": source, **more, "kind": kind}

    def texts(text: str) -> list[Json]:
        return [{"cache_prompt": False, "type": "text", "text": text}]

    def message(event: Said | Reply, role: str) -> Json:
        return {"llm_message": {"role": role, "content": texts(event.text), "tool_calls": None}}

    yield line("SystemPromptEvent", START, "agent", system_prompt=texts(agent.prose(6_000))[0], tools=[])
    spent = {"prompt_tokens": 0, "completion_tokens": 0, "cache_read_tokens": 0}
    cost = 0.0
    for event in agent.session():
        if isinstance(event, Said):
            yield line("MessageEvent", event.time, "user", **message(event, "user"), activated_skills=[])
            continue
        spent = dict(zip(spent, map(sum, zip(spent.values(), event[6:], strict=True)), strict=True))
        cost += event.cost
        metrics = {"model_name": "x", "accumulated_cost": cost, "accumulated_token_usage": spent | {"model": "x"}}
        yield line(
            "ConversationStateUpdateEvent", event.end, "environment", key="stats",
            value={"usage_to_metrics": {"default": metrics, "condenser": metrics}},
        )  # fmt: skip
        if not event.calls:
            yield line("MessageEvent", event.end, "agent", **message(event, "assistant"), llm_response_id=event.id)
        actions = {}
        for number, call in enumerate(event.calls):
            first = number == 0
            said = {"thought": texts(event.text) * first, "reasoning_content": event.thinking * first}
            tool = {"tool_name": "terminal", "tool_call_id": call.id}
            asked = {"id": call.id, "name": "terminal", "arguments": call.raw, "origin": "completion"}
            action = {"command": call.given["command"], "is_input": False, "kind": "TerminalAction"}
            made = line(
                "ActionEvent", event.end, "agent", **said, thinking_blocks=[], action=action, **tool, tool_call=asked,
                llm_response_id=event.id, security_risk="UNKNOWN", summary=call.given["description"],
            )  # fmt: skip
            actions[call.id] = made["id"]
            yield made
        for call in event.calls:
            observation = {
                "content": texts(call.output), "is_error": call.failed, "command": call.given["command"],
                "exit_code": call.code, "timeout": False, "metadata": {"exit_code": call.code, "pid": -1},
                "kind": "TerminalObservation",
            }  # fmt: skip
            tool = {"tool_name": "terminal", "tool_call_id": call.id, "action_id": actions[call.id]}
            yield line("ObservationEvent", call.end, "environment", observation=observation, **tool)


# Sessions in one document.


def gemini(size: int) -> Json:
    """A session as it was written before version 0.40."""
    return gemini_header() | {"messages": list(up_to(size, gemini_messages()))}


def cline(size: int) -> Json:
    """Anthropic's messages with times, models and metrics."""

    def messages() -> Iterator[Json]:
        for event in Agent(7).session():
            if isinstance(event, Said):
                content = [{"type": "text", "text": event.text}]
                yield {"id": event.id, "role": "user", "content": content, "ts": event.time}
                continue
            metrics = {"inputTokens": event.entered, "outputTokens": event.left, "cacheReadTokens": event.cached}
            about = {"ts": event.end, "modelInfo": {"id": "claude-x", "provider": "cline", "family": "claude"}}
            about |= {"metrics": metrics | {"cacheWriteTokens": 0, "cost": event.cost}}
            yield {"id": event.id, "role": "assistant", "content": anthropic_blocks(event)} | about
            if event.calls:
                results = [anthropic_result(call) for call in event.calls]
                yield {"id": f"{event.id}_", "role": "user", "content": results, "ts": event.calls[-1].end}

    about = {"version": 1, "updated_at": iso(START), "agent": "lead", "sessionId": "1784094124598_x"}
    return about | {"messages": list(up_to(size, messages())), "system_prompt": book()[:4_000]}


def opencode_info() -> Json:
    """What is said of a session."""
    about = {"id": "ses_1", "version": "1.1.0", "projectID": "p", "directory": "/x", "title": "Something"}
    return about | {"time": {"created": START, "updated": START}}


def opencode_messages() -> Iterator[Json]:
    """Messages with their parts."""
    agent = Agent(8)
    for number, event in enumerate(agent.session()):
        named = {"sessionID": "ses_1", "messageID": f"msg_{number:08d}"}
        info: Json = {"id": named["messageID"], "sessionID": "ses_1"}
        parts: list[Json] = [{"type": "text", "text": event.text}]
        if isinstance(event, Said):
            info |= {"role": "user", "time": {"created": event.time}, "model": {"providerID": "p", "modelID": "m"}}
        else:
            time, reason = {"start": event.start, "end": event.end}, "tool-calls" if event.calls else "stop"
            tokens = {"input": event.fresh, "output": event.left, "reasoning": 0}
            spent = {"cost": event.cost, "tokens": tokens | {"cache": {"read": event.cached, "write": 0}}}
            info |= {"role": "assistant", "modelID": "m", "providerID": "p", "mode": "build", "finish": reason, **spent}
            info |= {"time": {"created": event.start, "completed": event.end}, "path": {"cwd": "/x", "root": "/x"}}
            thought: list[Json] = [{"type": "reasoning", "text": event.thinking, "time": time}]
            parts = [{"type": "step-start", "snapshot": SECRET[:40]}, *(thought if event.thinking else []), *parts]
            parts += [_opencode_tool(call) for call in event.calls]
            parts.append({"type": "step-finish", "reason": reason, **spent})
        yield {"info": info, "parts": [{"id": agent.name("prt_"), **named, **part} for part in parts]}


def _opencode_tool(call: Call) -> Json:
    time = {"start": call.start, "end": call.end}
    metadata = {"output": call.output, "exit": call.code, "description": call.given["description"]}
    state = {"status": "completed", "input": call.given, "output": call.output, "title": "x", "metadata": metadata}
    return {"type": "tool", "callID": call.id, "tool": call.name, "state": state | {"time": time}}


def opencode(size: int) -> Json:
    """An export."""
    return {"info": opencode_info(), "messages": list(up_to(size, opencode_messages()))}


def write_opencode(folder: Path, size: int) -> None:
    """A storage folder: a file for each message, and one for each of its parts."""

    def write(place: str, value: object) -> None:
        path = folder / f"{place}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(to_json(value))

    write("session/p/ses_1", opencode_info())
    for message in up_to(size, opencode_messages()):
        write(f"message/ses_1/{message['info']['id']}", message["info"])
        for number, part in enumerate(message["parts"]):
            write(f"part/{message['info']['id']}/prt_{number:04d}", part)


def swe_agent(size: int) -> Json:
    """What was done, and once more what was said; one call a step."""

    def entries() -> Iterator[tuple[Json, list[Json]]]:
        for event in Agent(9).session():
            if isinstance(event, Said) or not event.calls:
                continue
            call, about = event.calls[0], {"agent": "main"}
            action = f"bash {call.given['command']}"
            entry: Json = {"action": action, "observation": call.output, "response": event.text, "thought": event.text}
            entry |= {
                "execution_time": call.seconds,
                "state": {"working_dir": "/x", "open_file": "n/a"},
                "extra_info": {},
            }
            said = about | openai_message(event._replace(calls=(call,)))
            said |= {"thought": event.text, "action": action, "message_type": "action"}
            heard = about | {"role": "tool", "content": call.output, "message_type": "observation"}
            yield entry, [said, heard | {"tool_call_ids": [call.id]}]

    steps = list(up_to(size, entries()))
    prompt = [{"role": role, "content": book()[:4_000], "agent": "main"} for role in ("system", "user")]
    stats = {"instance_cost": 0.34, "tokens_sent": 256_978, "tokens_received": 952, "api_calls": len(steps)}
    info = {"exit_status": "submitted", "submission": book()[:2_000], "model_stats": stats}
    history = [*prompt, *(message for _, messages in steps for message in messages)]
    return {"environment": "main", "trajectory": [entry for entry, _ in steps], "history": history, "info": info}


def mini_swe_agent(size: int) -> Json:
    """Messages, with the provider's whole response beside each of the model's."""

    def messages() -> Iterator[Json]:
        yield {"role": "system", "content": book()[:4_000]}
        yield {"role": "user", "content": book()[:4_000]}
        for event in Agent(10).session():
            if isinstance(event, Reply) and event.calls:
                actions = [{"command": call.given["command"], "tool_call_id": call.id} for call in event.calls]
                extra = {"actions": actions, "response": openai_response(event), "cost": event.cost}
                yield openai_message(event) | {"extra": extra | {"timestamp": event.end / 1000}}
                for call in event.calls:
                    output = f"<returncode>{call.code}</returncode>\n<output>\n{call.output}</output>"
                    extra = {"returncode": call.code, "raw_output": call.output, "timestamp": call.end / 1000}
                    yield openai_result(call) | {"content": output, "extra": extra}

    config = {"agent": {"step_limit": 0, "cost_limit": 3.0}, "model": {"model_name": "gpt-x"}}
    info = {"exit_status": "Submitted", "submission": "", "config": config, "mini_version": "2.0.0"}
    said = list(up_to(size, messages()))
    costs = [message["extra"]["cost"] for message in said if "cost" in message.get("extra", {})]
    info |= {"model_stats": {"instance_cost": sum(costs), "api_calls": len(costs)}}
    return {"info": info, "messages": said, "trajectory_format": "mini-swe-agent-1.1", "instance_id": "x__y-1"}


# Many runs in one file.


def conversation(events: Iterable[Said | Reply], most: int = 9) -> Iterator[Json]:
    """A run as messages of OpenAI's API, with at most so many calls at once."""
    for event in events:
        if isinstance(event, Said):
            yield {"role": "user", "content": event.text}
            continue
        calls = event.calls[:most]
        yield openai_message(event._replace(calls=calls))
        yield from map(openai_result, calls)


def tau_bench(size: int) -> list[Json]:
    """A list of runs of one call at a time."""

    def form(agent: Agent, events: list[Said | Reply]) -> Json:
        talk = [{"role": "system", "content": agent.prose(6_000)}, *conversation(events, most=1)]
        end = {"role": "user", "content": "###STOP###"}
        return {"task_id": agent.time, "reward": 1.0, "info": {"source": "x"}, "traj": [*talk, end], "trial": 0}

    return list(up_to(size, runs(form)))


def tau2_bench(size: int) -> Json:
    """Simulations, with usage and the provider's message beside each of the agent's."""

    def messages(events: list[Said | Reply]) -> Iterator[Json]:
        yield {"role": "assistant", "content": "Hi! How can I help you?", "tool_calls": None, "usage": None}
        for event in events:
            if isinstance(event, Said):
                yield {"role": "user", "content": event.text, "tool_calls": None, "timestamp": naive(event.time)}
                continue
            asked = [{"id": c.id, "name": c.name, "arguments": c.given, "requestor": "assistant"} for c in event.calls]
            about = {"timestamp": naive(event.end), "cost": event.cost, "usage": openai_usage(event)}
            raw = openai_response(event)["choices"][0]
            yield {"role": "assistant", "content": event.text, "tool_calls": asked, **about, "raw_data": raw}
            for call in event.calls:
                given = {"id": call.id, "role": "tool", "content": call.output, "requestor": "assistant"}
                yield given | {"error": call.failed, "timestamp": naive(call.end)}

    def form(agent: Agent, events: list[Said | Reply]) -> Json:
        about = {"id": agent.name(), "task_id": "7", "trial": 0, "seed": 1, "duration": 9.5}
        about["agent_cost"] = sum(event.cost for event in events if isinstance(event, Reply))
        end = {"termination_reason": "user_stop", "reward_info": {"reward": 1.0, "db_check": {"db_match": True}}}
        return about | end | {"start_time": naive(events[0][1]), "messages": list(messages(events))}

    info = {"num_trials": 1, "max_steps": 200, "max_errors": 10, "agent_info": {"implementation": "x", "llm": "m"}}
    return {"timestamp": naive(START), "info": info, "tasks": [], "simulations": list(up_to(size, runs(form)))}


def inspect_log() -> Json:
    """The header of an evaluation."""
    evaluation = {"eval_id": "e", "run_id": "r", "task": "t", "model": "openai/gpt-x", "config": {"message_limit": 999}}
    return {"version": 2, "status": "success", "eval": evaluation, "plan": {"steps": [{"solver": "react"}]}}


def inspect_sample(agent: Agent, events: list[Said | Reply]) -> Json:
    """A conversation, and events whose texts stand apart as attachments."""
    messages: list[Json] = []
    told: list[Json] = []
    attached = {}

    def event(kind: str, time: int, **more: object) -> None:
        told.append({"uuid": agent.name(), "span_id": "s", "timestamp": iso(time), "event": kind, **more})

    def apart(text: str) -> str:
        name = agent.name(bits=128)
        attached[name] = text
        return f"attachment://{name}"

    for said in events:
        if isinstance(said, Said):
            messages.append({"id": said.id, "role": "user", "source": "input", "content": said.text})
            continue
        calls = [{"id": call.id, "function": call.name, "arguments": call.given} for call in said.calls]
        message: Json = {"id": said.id, "role": "assistant", "source": "generate", "tool_calls": calls}
        thought = [{"type": "reasoning", "reasoning": said.thinking}] if said.thinking else []
        messages.append(message | {"content": [*thought, {"type": "text", "text": said.text}]})
        usage = {"input_tokens": said.entered, "input_tokens_cache_read": said.cached, "output_tokens": said.left}
        choice = {"message": message | {"content": apart(said.text)}, "stop_reason": "tool_calls" if calls else "stop"}
        output = {"model": "gpt-x", "choices": [choice], "usage": usage, "time": 1.5}
        about = {"role": "agent", "input": [], "input_refs": [[0, len(messages)]], "config": {}, "model": "gpt-x"}
        event("model", said.start, completed=iso(said.end), output=output, **about)
        for call in said.calls:
            error = {"type": "timeout", "message": "too late"} if call.failed else None
            given = {"tool_call_id": call.id, "function": call.name, "content": call.output, "error": error}
            messages.append({"id": f"{call.id}_", "role": "tool", **given})
            result = {"arguments": call.given, "result": apart(call.output), "completed": iso(call.end)}
            event("tool", call.start, id=call.id, function=call.name, **result)
    sample = {"id": agent.name(), "epoch": 1, "input": messages[0]["content"], "target": "", "messages": messages}
    return sample | {"scores": {"includes": {"value": "C"}}, "events": told, "attachments": attached}


def inspect(size: int) -> Json:
    """An evaluation in one document."""
    return inspect_log() | {"samples": list(up_to(size, runs(inspect_sample)))}


def write_inspect(path: Path, size: int) -> None:
    """An evaluation as an archive, of this size when it is unpacked."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for sample in up_to(size, runs(inspect_sample)):
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", to_json(sample))
        archive.writestr("header.json", to_json(inspect_log()))


def openhands() -> Iterator[Json]:
    """Instances: the model's whole response beside each action and each observation of it."""

    def history(agent: Agent, events: list[Said | Reply]) -> Iterator[Json]:
        spent = 0.0
        for event in events:
            about = {"id": agent.passes(), "timestamp": naive(event[1])}
            if isinstance(event, Said):
                yield about | {"source": "user", "action": "message", "args": {"content": event.text}}
                continue
            spent += event.cost
            metrics = {"accumulated_cost": spent, "accumulated_token_usage": {}, "costs": [], "response_latencies": []}
            own = about | {"source": "agent", "message": "", "llm_metrics": metrics}
            response = openai_response(event)
            if not event.calls:
                yield own | {"action": "message", "args": {"content": event.text, "wait_for_response": True}}
            for number, call in enumerate(event.calls):
                made = {"function_name": "execute_bash", "tool_call_id": call.id, "model_response": response}
                asked = {"id": agent.passes(), "action": "run", "tool_call_metadata": made}
                asked["args"] = {"command": call.given["command"], "thought": "" if number else event.text}
                yield own | asked
                extras = {"command": call.given["command"], "metadata": {"exit_code": call.code}, "hidden": False}
                given = {"id": agent.passes(), "cause": asked["id"], "observation": "run", "content": call.output}
                yield about | given | {"source": "agent", "tool_call_metadata": made, "extras": extras}

    def form(agent: Agent, events: list[Said | Reply]) -> Json:
        metadata = {"agent_class": "CodeActAgent", "llm_config": {"model": "gpt-x"}, "max_iterations": 999}
        about = {"instance_id": agent.name(), "test_result": {"git_patch": agent.prose(3_000)}, "metadata": metadata}
        return about | {"instruction": events[0][2], "history": list(history(agent, events)), "error": None}

    return runs(form)


def openai_chat() -> Iterator[Json]:
    """Conversations without usage or times."""

    def form(agent: Agent, events: list[Said | Reply]) -> Json:
        talk = [{"role": "system", "content": agent.prose(4_000)}, *conversation(events)]
        return {"id": agent.name(), "model": "gpt-x", "messages": talk, "reward": 1}

    return runs(form)


def anthropic_messages() -> Iterator[Json]:
    """Conversations of whole responses, with usage and times."""

    def messages(events: list[Said | Reply]) -> Iterator[Json]:
        for event in events:
            if isinstance(event, Said):
                yield {"role": "user", "content": event.text, "timestamp": iso(event.time)}
                continue
            message = {"id": event.id, "type": "message", "role": "assistant", "content": anthropic_blocks(event)}
            message |= {"model": "claude-x", "stop_reason": "tool_use" if event.calls else "end_turn"}
            yield message | {"usage": anthropic_usage(event), "timestamp": iso(event.end)}
            if event.calls:
                results = [anthropic_result(call) for call in event.calls]
                yield {"role": "user", "content": results, "timestamp": iso(event.calls[-1].end)}

    def form(agent: Agent, events: list[Said | Reply]) -> Json:
        about = {"id": agent.name(), "model": "claude-x", "system": agent.prose(4_000), "reward": 1}
        return about | {"messages": list(messages(events))}

    return runs(form)


def otel() -> Iterator[Json]:
    """Exports of a collector: a span for each response, with all that was said in its turn, and for each call."""

    def span(agent: Agent, trace: str, names: tuple[str, str], times: tuple[int, int], told: Json) -> Json:
        given = {"operation.name": names[0], "conversation.id": trace, **told}
        ids: Json = {"traceId": trace, "spanId": agent.name(bits=64), "parentSpanId": trace[:16], "kind": 3}
        start, end = (f"{time}000000" for time in times)
        ids |= {"name": " ".join(names), "startTimeUnixNano": start, "endTimeUnixNano": end}
        return ids | {
            "attributes": [{"key": f"gen_ai.{key}", "value": _otel_value(value)} for key, value in given.items()]
        }

    def spans(agent: Agent, events: list[Said | Reply]) -> Iterator[Json]:
        trace = agent.name(bits=128)
        heard: list[Json] = []
        for event in events:
            if isinstance(event, Said):
                heard = [{"role": "user", "parts": [{"type": "text", "content": event.text}]}]
                continue
            parts: list[Json] = [{"type": "text", "content": event.text}]
            parts += [{"type": "tool_call", "id": c.id, "name": c.name, "arguments": c.given} for c in event.calls]
            reason = "tool_call" if event.calls else "stop"
            said = {"role": "assistant", "parts": parts, "finish_reason": reason}
            used = {"usage.input_tokens": event.entered, "usage.output_tokens": event.left}
            about = {"request.model": "gpt-x", "response.id": event.id, "response.finish_reasons": [reason], **used}
            told = {"input.messages": dumps(heard), "output.messages": dumps([said])}
            yield span(agent, trace, ("chat", "gpt-x"), (event.start, event.end), about | told)
            heard.append(said)
            for call in event.calls:
                about = {"tool.name": call.name, "tool.call.id": call.id}
                told = {"tool.call.arguments": call.raw, "tool.call.result": call.output}
                made = span(agent, trace, ("execute_tool", call.name), (call.start, call.end), about | told)
                yield made | {"status": {"code": 2 if call.failed else 0}}
                given = {"type": "tool_call_response", "id": call.id, "response": call.output}
                heard.append({"role": "tool", "parts": [given]})

    def form(agent: Agent, events: list[Said | Reply]) -> Json:
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "agent"}}]}
        scope = {"scope": {"name": "opentelemetry.instrumentation.openai"}, "spans": list(spans(agent, events))}
        return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}

    return runs(form)


def _otel_value(value: object) -> Json:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_otel_value(item) for item in value]}}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def atif() -> Iterator[Json]:
    """Trajectories of another system."""

    def steps(events: list[Said | Reply]) -> Iterator[Json]:
        for number, event in enumerate(events, 1):
            about = {"step_id": number, "timestamp": iso(event[1]), "message": event.text}
            if isinstance(event, Said):
                yield about | {"source": "user"}
                continue
            asked = [{"tool_call_id": c.id, "function_name": c.name, "arguments": c.given} for c in event.calls]
            results = [{"source_call_id": call.id, "content": call.output} for call in event.calls]
            metrics = {"prompt_tokens": event.entered, "completion_tokens": event.left, "cached_tokens": event.cached}
            about |= {"source": "agent", "model_name": "m", "reasoning_content": event.thinking or None}
            about |= {"tool_calls": asked or None, "metrics": metrics | {"cost_usd": event.cost}}
            yield about | ({"observation": {"results": results}} if results else {})

    def form(agent: Agent, events: list[Said | Reply]) -> Json:
        about = {"schema_version": "ATIF-v1.7", "session_id": agent.name(), "final_metrics": {}}
        return about | {"agent": {"name": "x", "version": "1", "model_name": "m"}, "steps": list(steps(events))}

    return runs(form)


def write_own(path: Path, size: int) -> None:
    """Runs as boolab saves them, in the format that the suffix names."""
    beside = path.with_suffix(".chats")
    write_lines(anthropic_messages, beside, size)
    save_runs(load_runs(beside, format="anthropic_messages"), path)
    beside.unlink()


class Format(NamedTuple):
    """A format in one of its forms.

    Attributes:
        reader: The name of its reader.
        file: The name of a file of it, or of a folder.
        write: Writes about so many bytes of it.
        is_session: Whether its files hold one session that grows line by line, so that memory is limited.
    """

    reader: str
    file: str
    write: Callable[[Path, int], None]
    is_session: bool = False


def _lines(records: Callable[[], Iterable[Any]]) -> Callable[[Path, int], None]:
    return partial(write_lines, records)


def _document(form: Callable[[int], Any]) -> Callable[[Path, int], None]:
    return partial(write_document, form)


FORMATS: Mapping[str, Format] = {
    "claude_code": Format("claude_code", "session.jsonl", _lines(claude_code), is_session=True),
    "codex": Format("codex", "rollout-x.jsonl", _lines(codex), is_session=True),
    "gemini_jsonl": Format("gemini", "session-x.jsonl", _lines(gemini_lines), is_session=True),
    "pi": Format("pi", "session.jsonl", _lines(pi), is_session=True),
    "openhands_sdk": Format("openhands_sdk", "events.jsonl", _lines(openhands_sdk), is_session=True),
    "gemini_json": Format("gemini", "session-x.json", _document(gemini)),
    "cline": Format("cline", "x.messages.json", _document(cline)),
    "opencode_export": Format("opencode", "export.json", _document(opencode)),
    "opencode_storage": Format("opencode", "storage", write_opencode),
    "swe_agent": Format("swe_agent", "x.traj", _document(swe_agent)),
    "mini_swe_agent": Format("mini_swe_agent", "x.traj.json", _document(mini_swe_agent)),
    "tau_bench": Format("tau_bench", "results.json", _document(tau_bench)),
    "tau2_bench": Format("tau2_bench", "results.json", _document(tau2_bench)),
    "inspect_json": Format("inspect", "log.json", _document(inspect)),
    "inspect_eval": Format("inspect", "log.eval", write_inspect),
    "openhands": Format("openhands", "output.jsonl", _lines(openhands)),
    "openai_chat": Format("openai_chat", "chats.jsonl", _lines(openai_chat)),
    "anthropic_messages": Format("anthropic_messages", "chats.jsonl", _lines(anthropic_messages)),
    "otel": Format("otel", "traces.jsonl", _lines(otel)),
    "atif": Format("atif", "trajectories.jsonl", _lines(atif)),
    "atif_own": Format("atif", "runs.jsonl", write_own),
    "parquet_own": Format("parquet", "runs.parquet", write_own),
}
"""All formats, by the names of their rows: sessions that grow line by line, sessions in a document, many runs."""
