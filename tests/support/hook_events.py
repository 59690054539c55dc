"""The events that Claude Code 2.1.330 gives its hooks in a session, in the order seen in the released package."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from boolab.live.hooks import entry
from boolab.live.hooks.claude_code import respond
from boolab.live.hooks.options import Options


class Did(NamedTuple):
    """A call of a scripted agent, and what becomes of it.

    Attributes:
        tool: Its tool.
        arguments: Its arguments.
        result: What it gives.
        end: `ran`, `failed`, `denied` (by somebody else), or `refused` (by Claude Code, before any hook sees it). Of
            calls that ran or failed, records can be lost: `ran-asked` lacks the one before it, `ran-result` the one
            after it, and `ran-both` both.
    """

    tool: str = "Bash"
    arguments: Any = None
    result: str = "ok"
    end: str = "ran"

    @property
    def given(self) -> str:
        """What the response to the call says."""
        if self.end == "denied":
            return f"Permission to use {self.tool} has been denied."
        return f"<tool_use_error>{self.result}</tool_use_error>" if self.end == "refused" else self.result


class Session:
    """A session of one agent under the hook, without processes.

    Args:
        options: What the hook is started with.
        session: The id of the session.
        agent: The id of the subagent; None for the main agent.

    Attributes:
        calls: The calls of the latest step, as its event has them.
    """

    _ids: Iterator[int] = itertools.count(1)

    def __init__(self, options: str, session: str = "s-1", agent: str | None = None) -> None:
        self.options = Options.parse(options.split())
        self.about: dict[str, object] = {"session_id": session, "transcript_path": "/none", "cwd": "/"}
        self.calls: list[dict[str, object]] = []
        if agent is not None:
            self.about |= {"agent_id": agent, "agent_type": "explorer"}

    def event(self, name: str, **more: object) -> dict[str, Any] | None:
        """Give the hook an event; its answer."""
        return respond({**self.about, "hook_event_name": name, **more}, self.options)

    def prompt(self, text: str = "Go on.") -> None:
        """A message of the user."""
        assert self.event("UserPromptSubmit", prompt=text) is None

    def step(self, *calls: Did) -> str:
        """A response with these calls; what the agent is told after it: "" for nothing."""
        made = [(f"toolu_{next(self._ids)}", call) for call in calls]
        results = {}
        ran = []
        for call_id, call in made:
            about = {"tool_name": call.tool, "tool_input": call.arguments, "tool_use_id": call_id}
            results[call_id] = call.given
            end, _, lost = call.end.partition("-")
            if end == "refused":
                continue
            answer = None if lost in ("asked", "both") else self.event("PreToolUse", **about)
            if answer is not None:
                assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
                results[call_id] = answer["hookSpecificOutput"]["permissionDecisionReason"]
            elif end != "denied" and lost not in ("result", "both"):
                ran.append((end, call, about))
        for end, call, about in reversed(ran):  # parallel calls end in any order
            if end == "failed":
                assert self.event("PostToolUseFailure", **about, error=call.result) is None
            else:
                assert self.event("PostToolUse", **about, tool_response={"stdout": call.result}) is None
        self.calls = [
            {
                "tool_name": call.tool,
                "tool_input": call.arguments,
                "tool_use_id": call_id,
                "tool_response": results[call_id],
            }
            for call_id, call in made
        ]
        answer = self.event("PostToolBatch", tool_calls=self.calls)
        if answer is None:
            return ""
        if answer.get("continue") is False:
            return f"ended: {answer['stopReason']}"
        return str(answer["hookSpecificOutput"]["additionalContext"])

    def steps(self, calls: Iterable[Did]) -> int:
        """One call a step, until the agent is told something; the number of that step, 0 for none."""
        return next((number for number, call in enumerate(calls, 1) if self.step(call)), 0)


def answered(given: str | bytes, options: list[str], folder: Path) -> bytes:
    """What the process of the hook answers, in this process; it ends with 0.

    Args:
        given: What is on its standard input.
        options: Its options.
        folder: A folder for its input and its output.
    """
    source, sink = folder / "event", folder / "answer"
    source.write_bytes(given.encode() if isinstance(given, str) else given)
    with source.open("rb") as event, sink.open("wb") as answer:
        assert entry.main(options, event.fileno(), answer.fileno()) == 0
    return sink.read_bytes()
