"""Logs that grow: lines of several formats, and what a fresh read of a file says."""

import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boolab as bl
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.load import read_file
from boolab.logs.log_files import reader_for


def fresh(path: Path) -> list[bl.Run] | None:
    """The runs of a file as it is now; None if nothing of it can be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        reader = reader_for(path)
        try:
            return [] if reader is None else read_file(reader, path, lambda _: None)
        except RunFormatError:
            return None


def claude_lines(
    steps: int,
    *,
    session: str = "s1",
    same: bool = False,
    failing: bool = False,
    final: bool = False,
    minute: int = 0,
    agent: str = "",
) -> Iterator[dict[str, Any]]:
    """The lines of a session of Claude Code: a prompt, steps of one call each, and perhaps a final text."""
    about = {"sessionId": session, "isSidechain": bool(agent), **({"agentId": agent} if agent else {})}
    at = f"2026-01-01T00:{minute:02d}:00Z"
    tag = f"{session}{agent}{minute}"
    prompt = {"role": "user", "content": f"Fix the test {tag}"}
    yield {"type": "user", "uuid": f"{tag}p", "parentUuid": None, "timestamp": at, **about, "message": prompt}
    before = f"{tag}p"
    for n in range(steps):
        call = {"type": "tool_use", "id": f"{tag}t{n}", "name": "Bash", "input": {"command": f"ls {0 if same else n}"}}
        yield _reply(f"{tag}a{n}", before, at, about, [call])
        result = {"type": "tool_result", "tool_use_id": f"{tag}t{n}", "content": "a.py", "is_error": failing}
        message = {"role": "user", "content": [result]}
        yield {
            "type": "user",
            "uuid": f"{tag}r{n}",
            "parentUuid": f"{tag}a{n}",
            "timestamp": at,
            **about,
            "message": message,
        }
        before = f"{tag}r{n}"
    if final:
        yield _reply(f"{tag}end", before, at, about, [{"type": "text", "text": "Done."}])


def _reply(uuid: str, parent: str, at: str, about: dict[str, Any], content: list[Any]) -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": 20}
    message = {"id": f"m{uuid}", "role": "assistant", "model": "claude-sonnet-4-5", "content": content, "usage": usage}
    return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "timestamp": at, **about, "message": message}


def codex_lines(steps: int) -> Iterator[dict[str, Any]]:
    """The lines of a rollout of Codex."""
    at = {"timestamp": "2026-01-01T00:00:00Z"}
    yield {**at, "type": "session_meta", "payload": {"id": "c1", "cwd": "/x"}}
    ask = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it"}]}
    yield {**at, "type": "response_item", "payload": ask}
    for n in range(steps):
        call = {"type": "function_call", "name": "exec", "arguments": json.dumps({"cmd": n}), "call_id": f"c{n}"}
        yield {**at, "type": "response_item", "payload": call}
        output = {"type": "function_call_output", "call_id": f"c{n}", "output": "Process exited with code 0"}
        yield {**at, "type": "response_item", "payload": output}


def pi_lines(steps: int) -> Iterator[dict[str, Any]]:
    """The lines of a session of pi."""
    at = "2026-01-01T00:00:00Z"
    yield {"type": "session", "version": 3, "id": "p1", "timestamp": at, "cwd": "/x"}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix it"}]
    for n in range(steps):
        call = {"type": "toolCall", "id": f"t{n}", "name": "bash", "arguments": {"n": n}}
        messages.append({"role": "assistant", "content": [call], "stopReason": "toolUse", "usage": {"input": 1}})
        messages.append({"role": "toolResult", "toolCallId": f"t{n}", "content": [], "isError": False})
    for name, parent, message in _branches(messages):
        yield {"type": "message", "id": name, "parentId": parent, "timestamp": at, "message": message}


def _branches(messages: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """Messages with their names and those of the ones before them: in the middle, a branch begins at the third."""
    last = None
    for place, message in enumerate(messages, 1):
        parent = "e3" if place == len(messages) // 2 + 2 and place > 5 else last
        last = f"e{place}"
        yield last, parent, message


def droid_lines(steps: int) -> Iterator[dict[str, Any]]:
    """The lines of a session of Droid."""
    yield {"type": "session_start", "id": "d1", "title": "Fix"}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Fix it"}]
    for n in range(steps):
        call = {"type": "tool_use", "id": f"t{n}", "name": "Execute", "input": {"n": n}}
        messages.append({"role": "assistant", "content": [call]})
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "x"}]})
    for name, parent, message in _branches(messages):
        yield {"type": "message", "id": name, "parentId": parent, "message": message}
        yield {"type": "todo_state", "id": f"s{name}"}


def qwen_lines(steps: int) -> Iterator[dict[str, Any]]:
    """The records of a session of Qwen Code."""
    records: list[dict[str, Any]] = [{"type": "user", "message": {"parts": [{"text": "Fix it"}]}}]
    for n in range(steps):
        call = {"id": f"t{n}", "name": "read_file", "args": {"n": n}}
        records.append({"type": "assistant", "message": {"parts": [{"functionCall": call}]}})
        response = {"functionResponse": {"id": f"t{n}", "response": {"output": "x"}}}
        records.append({"type": "tool_result", "message": {"parts": [response]}})
    for name, parent, record in _branches(records):
        yield {"uuid": name, "parentUuid": parent, "sessionId": "q1", **record}


def gemini_lines(steps: int) -> Iterator[dict[str, Any]]:
    """The records of a session of Gemini CLI; one message is written twice, and one is rewound."""
    at = "2026-01-01T00:00:00Z"
    yield {"sessionId": "g1", "projectHash": "h", "startTime": at, "lastUpdated": at, "kind": "main"}
    yield {"id": "u1", "type": "user", "content": "Fix it", "timestamp": at}
    for n in range(steps):
        call = {"id": f"t{n}", "name": "read_file", "args": {"n": n}, "status": "executing", "timestamp": at}
        message = {"id": f"g{n}", "type": "gemini", "content": "", "timestamp": at, "toolCalls": [call]}
        yield message
        yield {**message, "toolCalls": [{**call, "status": "success", "result": "x"}]}
    yield {"$rewindTo": f"g{max(steps - 1, 0)}"}


def openhands_lines(steps: int) -> Iterator[dict[str, Any]]:
    """The events of a conversation of OpenHands' SDK."""
    at = "2026-01-01T00:00:00"
    said = {"role": "user", "content": [{"type": "text", "text": "Fix it"}]}
    yield {"kind": "MessageEvent", "id": "e0", "timestamp": at, "source": "user", "llm_message": said}
    for n in range(steps):
        call = {"id": f"t{n}", "name": "bash", "arguments": json.dumps({"n": n})}
        about = {"timestamp": at, "tool_call_id": f"t{n}", "tool_name": "bash"}
        yield {
            "kind": "ActionEvent",
            "id": f"a{n}",
            "source": "agent",
            "llm_response_id": f"r{n}",
            "tool_call": call,
            **about,
        }
        observed = {"kind": "BashObservation", "output": "x", "exit_code": 0}
        yield {"kind": "ObservationEvent", "id": f"o{n}", "source": "environment", "observation": observed, **about}


def chat_lines(steps: int) -> Iterator[dict[str, Any]]:
    """The messages of one conversation in OpenAI's form."""
    yield {"role": "user", "content": "Fix it"}
    for n in range(steps):
        function = {"name": "bash", "arguments": json.dumps({"n": n})}
        yield {"role": "assistant", "content": None, "tool_calls": [{"id": f"t{n}", "function": function}]}
        yield {"role": "tool", "tool_call_id": f"t{n}", "content": "x"}


LOGS = {
    "claude_code": claude_lines,
    "codex": codex_lines,
    "droid": droid_lines,
    "gemini": gemini_lines,
    "openai_chat": chat_lines,
    "openhands_sdk": openhands_lines,
    "pi": pi_lines,
    "qwen": qwen_lines,
}
"""The lines of a log of so many steps, by format."""
BRANCHED = ("droid", "pi", "qwen")
"""The formats of these in which a branch begins in the middle, so that a log is read again."""


def encoded(line: dict[str, Any]) -> bytes:
    """A line of a log."""
    return json.dumps(line).encode() + b"\n"
