"""Sample logs for the command line and the report: files like those of tau-bench, written on the spot."""

import json
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

HOSTILE = '<script>alert(\'x\')</script></details><img src="http://evil.example/x.png"> & "quoted" \x1b[31m \u202e'


def draw_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the figures out of pages whose texts are tested: they take two thirds of the time of a page."""
    monkeypatch.setattr("boolab.report.figures.PageFigures.draw", lambda *_, **__: Markup("<figure></figure>"))


def conversation(calls: int, *, tool: str = "search", said: str = "Done.") -> list[dict[str, Any]]:
    """A task, so many steps with a call each, and a last answer; then the user is content."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Please help. {said}"}]
    for number in range(calls):
        function = {"name": tool, "arguments": json.dumps({"query": f"{number} {said}"})}
        asked = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [asked]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "name": tool, "content": f"Result {said}"})
    messages.append({"role": "assistant", "content": said})
    return [*messages, {"role": "user", "content": "###STOP###"}]


def write_log(path: Path, lengths: list[int], *, rewards: list[float] | None = None, **how: str) -> Path:
    """A log of conversations with so many calls each."""
    given = rewards or [1.0] * len(lengths)
    entries = [
        {"task_id": number, "trial": 0, "reward": reward, "info": {}, "traj": conversation(calls, **how)}
        for number, (calls, reward) in enumerate(zip(lengths, given, strict=True))
    ]
    path.write_text(json.dumps(entries))
    return path


def write_sessions(path: Path) -> Path:
    """A log without labels, of two turns each: Claude Code's."""
    lines: list[dict[str, Any]] = []
    for number in range(3):
        lines += _turn(number, 0, calls=2)
        lines += _turn(number, 1, calls=number)
        folder = path / f"session{number}.jsonl"
        folder.write_text("\n".join(map(json.dumps, lines)))
        lines = []
    return path


def _turn(session: int, turn: int, calls: int) -> list[dict[str, Any]]:
    base = {
        "sessionId": f"s{session}",
        "version": "1.0.0",
        "cwd": "/project",
        "isSidechain": False,
        "userType": "external",
    }
    stamp = f"2026-11-01T10:{turn:02d}:"
    lines: list[dict[str, Any]] = [
        {**base, "type": "user", "uuid": f"u{session}{turn}", "parentUuid": None, "timestamp": f"{stamp}00.000Z",
         "message": {"role": "user", "content": f"Question {turn}"}}
    ]  # fmt: skip
    for number in range(calls + 1):
        name = f"{session}{turn}{number}"
        content: list[dict[str, Any]] = [{"type": "text", "text": "All done."}]
        if number < calls:
            content = [{"type": "tool_use", "id": f"t{name}", "name": "Read", "input": {"file": name}}]
        message = {"id": f"m{name}", "type": "message", "role": "assistant", "model": "claude", "content": content,
                   "stop_reason": "tool_use" if number < calls else "end_turn",
                   "usage": {"input_tokens": 100, "output_tokens": 10}}  # fmt: skip
        lines.append({**base, "type": "assistant", "uuid": f"a{name}", "timestamp": f"{stamp}{2 * number + 1:02d}.000Z",
                      "message": message, "requestId": f"r{name}"})  # fmt: skip
        if number < calls:
            result = {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": f"t{name}", "content": "text"}],
            }
            lines.append({**base, "type": "user", "uuid": f"b{name}", "timestamp": f"{stamp}{2 * number + 2:02d}.000Z",
                          "message": result})  # fmt: skip
    return lines
