"""Sessions of Claude Code in the making: each function gives lines as the harness writes them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from boolab.core.run import Run
from tests.support.readers import reader_of

read = reader_of("claude_code")

SESSION = "0f0f0f0f-1111-4222-8333-444444444444"


class Session:
    """Lines with a clock (a second each) and a chain of uuids."""

    def __init__(self, **always: Any) -> None:
        self.lines: list[dict[str, Any]] = []
        self.always = {"sessionId": SESSION, "isSidechain": False, **always}
        self.parent: str | None = None

    def line(self, kind: str, **more: Any) -> str:
        """Add a line, and give its uuid."""
        number = len(self.lines)
        uuid = f"u{number}"
        stamp = f"2026-02-01T10:{number // 60:02}:{number % 60:02}.000Z"
        row = {"type": kind, "uuid": uuid, "parentUuid": self.parent, "timestamp": stamp, **self.always, **more}
        self.lines.append(row)
        self.parent = uuid
        return uuid

    def user(self, content: Any = "do it", **more: Any) -> str:
        """What the user typed, or what the harness wrote in the user's name."""
        return self.line("user", message={"role": "user", "content": content}, **more)

    def say(self, name: str, *blocks: dict[str, Any], usage: Any = None, stop: str | None = None, **more: Any) -> str:
        """A response, one line for each block."""
        uuid = ""
        for block in blocks:
            message = {"id": name, "role": "assistant", "model": "claude-x", "content": [block], "stop_reason": stop}
            uuid = self.line("assistant", message=message if usage is None else {**message, "usage": usage}, **more)
        return uuid

    def answer(self, call: str, content: Any = "ok", **more: Any) -> str:
        """The result of a call."""
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        block |= {"is_error": more.pop("is_error")} if "is_error" in more else {}
        return self.user([block], **more)

    def write(self, path: Path) -> Path:
        """Write the lines."""
        return write(path, self.lines)

    def run(self, folder: Path) -> Run:
        """The one run that they are."""
        (run,) = read(self.write(folder / f"{SESSION}.jsonl"))
        return run


def write(path: Path, lines: Iterable[object]) -> Path:
    """Write values as JSON Lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def text(said: str = "done") -> dict[str, Any]:
    """A block of text."""
    return {"type": "text", "text": said}


def call(name: str, tool: str = "Bash", **given: Any) -> dict[str, Any]:
    """A block that asks for a tool; `name` is the call's id."""
    return {"type": "tool_use", "id": name, "name": tool, "input": given or {"command": "ls"}}


def usage(given: int, out: int, written: int = 0, cached: int = 0) -> dict[str, int]:
    """Usage, as the provider tells it."""
    return {
        "input_tokens": given,
        "output_tokens": out,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
    }
