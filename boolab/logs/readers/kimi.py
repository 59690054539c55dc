"""Kimi Code and Kimi CLI: `wire.jsonl` of a session, or of one of its agents.

Two generations, each with a first line of the type `metadata` and a `protocol_version`:

- Kimi Code (github.com/MoonshotAI/kimi-code, `packages/agent-core/src/loop/events.ts`), `agents/<agent>/wire.jsonl`:
  an event of the loop has the `uuid` of its step. `step.begin` is a request; a step without content, calls and an end
  was never answered, and is none. `step.end` has its usage and finish reason; `usage.record` repeats it, and has that
  of compactions. The agent `main` is the session, any other a subagent, whose parent `state.json` names.
- Kimi CLI (github.com/MoonshotAI/kimi-cli, `docs/en/customization/wire-mode.md`): a line is `{timestamp, message:
  {type, payload}}`. `StepBegin` begins a response, pieces of arguments follow their call, and `SubagentEvent` holds an
  event of a subagent, which is a run of its own.

Prompts and messages of the origin `user` open turns. A result is an error by its flag, which a failed command has too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from boolab.core.finish_reasons import finish_reason
from boolab.core.run import Run
from boolab.core.types import REDACTED, Stop, StopReason, Usage
from boolab.io.json_input import Damage, flag, mapping, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import (
    Head,
    LineLog,
    content_text,
    follow_objects,
    name_or_none,
    one_line,
    read_followed,
    sidecar,
    stem_of,
    time_ms,
)
from boolab.logs.images import images_of
from boolab.logs.step_builder import StepBuilder

NAME: Final = "kimi"
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl",)
PLACES: Final = (
    "~/.kimi-code/sessions/*/*/agents/*/wire.jsonl",
    "~/.kimi-code/sessions/*/*/wire.jsonl",
    "~/.kimi/sessions/*/*/agents/*/wire.jsonl",
    "~/.kimi/sessions/*/*/wire.jsonl",
)
LOOKED_FOR: Final = 'lines that begin with "type": "metadata" and "protocol_version"'

_FILE: Final = "wire.jsonl"
_MAIN: Final = "main"
_LOOP: Final = "context.append_loop_event"
_SECONDS: Final = 0.001
_NEW: Final = frozenset(
    (
        "turn.prompt",
        "turn.steer",
        "turn.cancel",
        "turn.ended",
        _LOOP,
        "context.apply_compaction",
        "config.update",
        "metadata",
    )
)
_OLD: Final = frozenset((
    "ApprovalRequest", "ApprovalRequestResolved", "ApprovalResponse", "BtwBegin", "BtwEnd", "CompactionBegin",
    "CompactionEnd", "ContentPart", "HookRequest", "HookResolved", "HookTriggered", "PlanDisplay", "QuestionRequest",
    "StatusUpdate", "SteerInput", "StepBegin", "StepInterrupted", "SubagentEvent", "ToolCall", "ToolCallPart",
    "ToolCallRequest", "ToolResult", "TurnBegin", "TurnEnd",
))  # fmt: skip
_LAUNCHED: Final = re.compile(r"^agent_id: (\S+)$", re.MULTILINE)
_CANCELLED: Final = ("aborted", "cancelled", "canceled", "user_cancelled")
_CAPPED: Final = ("max_steps", "max_steps_reached", "max_steps_exceeded")


def sniff(head: Head) -> bool:
    """Whether this is a log of Kimi."""
    return any(map(_is_known, head.values))


def _is_known(value: object) -> bool:
    line = mapping(value)
    if line.get("type") == "metadata" and "protocol_version" in line:
        return True
    event = mapping(line.get("event") if line.get("type") == _LOOP else line.get("message"))
    return "stepUuid" in event or (text(event.get("type")) in _OLD and "payload" in event and "timestamp" in line)


def read(path: Path, damage: Damage) -> list[Run]:
    """The run of one session or agent; of Kimi CLI also those of its subagents."""
    return read_followed(path, damage, follow)


def follow(path: Path, damage: Damage) -> LineLog:
    """The lines of a log, as they are written."""
    log = _Wire(path, damage)
    return follow_objects(damage, log.take, log.runs)


class _Wire:
    """Builds the runs of one file."""

    def __init__(self, path: Path, damage: Damage) -> None:
        self._damage = damage
        self._known = False
        folder = path.absolute().parent
        is_of_agent = folder.parent.name == "agents"
        self._folder = folder.parent.parent if is_of_agent else folder
        self._agent_name = folder.name if is_of_agent else _MAIN
        self._session = self._folder.name if path.name.startswith(_FILE) else stem_of(path)
        self._main = self._new_agent()
        self._subagents: dict[str, _WireAgent] = {}

    def _new_agent(self) -> _WireAgent:
        return _WireAgent(RunBuilder(NAME, self._damage), self._run_id)

    def take(self, line: Mapping[str, Any]) -> None:
        """Take the next line."""
        kind = text(line.get("type"))
        if kind == "metadata":
            self._known = True
            if version := name_or_none(line.get("protocol_version")):
                self._damage.versions.add(version)
        elif isinstance(line.get("message"), dict) and not kind:
            self._known = True
            message, time = mapping(line["message"]), time_ms(line.get("timestamp"), _SECONDS)
            self._damage.note_kind(text(message.get("type")), _OLD)
            self._take_message(self._main, message, time)
        else:
            self._known = self._known or kind in _NEW
            self._main.take_record(kind, line, time_ms(line.get("time")))

    def _take_message(self, agent: _WireAgent, message: Mapping[str, Any], time: int | None) -> None:
        payload = mapping(message.get("payload"))
        if message.get("type") != "SubagentEvent":
            agent.take_message(text(message.get("type")), payload, time)
            return
        call_id = text(payload.get("parent_tool_call_id")) or text(payload.get("task_tool_call_id"))
        subagent = self._subagents.get(call_id)
        if subagent is None:
            subagent = self._subagents[call_id] = self._new_agent()
            subagent.name = text(payload.get("subagent_type"))
            step = agent.step_of(call_id)
            if step is not None:
                agent.builder.add_subagent(step, call_id, self._run_id(call_id), subagent.name, time)
        self._take_message(subagent, mapping(payload.get("event")), time)

    def _run_id(self, name: str) -> str:
        return self._session if name == _MAIN else f"{self._session}#{name}"

    def runs(self) -> list[Run]:
        """The runs by the lines so far."""
        self._damage.unrecognised = "" if self._known else f"a log of Kimi is {LOOKED_FOR}"
        parent = None
        if self._agent_name != _MAIN:
            state = mapping(mapping(sidecar(self._folder / "state.json")).get("agents"))
            parent_agent = text(mapping(state.get(self._agent_name)).get("parentAgentId"))
            parent = self._run_id(parent_agent or _MAIN)
        name = self._agent_name
        runs = [self._main.build(self._run_id(name), NAME if name == _MAIN else "subagent", parent)]
        runs += [
            agent.build(self._run_id(call_id), agent.name or "subagent", self._run_id(name))
            for call_id, agent in self._subagents.items()
        ]
        return [run for run in runs if run is not None]


class _WireAgent:
    """Builds the run of one agent."""

    def __init__(self, builder: RunBuilder, run_id: Callable[[str], str]) -> None:
        self.builder = builder
        self.name = ""
        self._run_id = run_id
        self._model = ""
        self._begun: dict[str, int | None] = {}
        """When the requests began that nothing answered so far, by the uuid of their step."""
        self._end: StopReason | Stop | None = None
        self._error: str | None = None

    def step_of(self, call_id: str) -> StepBuilder | None:
        """The last response with a call of this id."""
        steps = reversed(self.builder.steps)
        return next((step for step in steps if any(call.id == call_id for call in step.calls)), None)

    # --- Kimi Code ----------------------------------------------------------------------------------------------------

    def take_record(self, kind: str, line: Mapping[str, Any], time: int | None) -> None:
        """Take a line of Kimi Code."""
        if kind in ("turn.prompt", "turn.steer"):
            self._end = self._error = None
            origin = text(mapping(line.get("origin")).get("kind"))
            subagent = origin == "system_trigger" and not self.builder.has_prompt
            opens_turn = origin in ("", "user") or subagent
            content = line.get("input")
            images = images_of(content)
            self.builder.add_message("user", content_text(content), opens_turn=opens_turn, time=time, images=images)
        elif kind == "turn.cancel":
            self.builder.add_event("abort", time)
            self._end = "aborted"
        elif kind == "turn.ended":
            self._end_turn(line, time)
        elif kind in ("config.update", "profile.bind"):
            self._model = text(line.get("modelAlias")) or self._model
            self.builder.effort = name_or_none(line.get("thinkingEffort")) or self.builder.effort
            self.builder.note_origin(cwd=line.get("cwd"))
        elif kind == "context.apply_compaction":
            self.builder.add_event("compaction", time, tokens=whole(line.get("tokensBefore")))
        elif kind == _LOOP:
            self._take_event(mapping(line.get("event")), time)

    def _end_turn(self, line: Mapping[str, Any], time: int | None) -> None:
        reason = text(line.get("reason"))
        self.builder.note_time(time)
        if reason in _CAPPED:
            self._end = self.builder.stop("step_cap", "max_steps_per_turn")
        elif reason in _CANCELLED and self._end is None:
            self._end = "aborted"
        elif reason in ("error", "failed"):
            self._error = one_line(text(mapping(line.get("error")).get("message"))) or reason
            self._end = "error"

    def _take_event(self, event: Mapping[str, Any], time: int | None) -> None:
        kind = text(event.get("type"))
        if kind == "step.begin":
            self._begun[text(event.get("uuid"))] = time
        elif kind == "content.part":
            _add_part(self._step(text(event.get("stepUuid")), time), mapping(event.get("part")))
        elif kind == "tool.call":
            step = self._step(text(event.get("stepUuid")), time)
            arguments = event.get("args", REDACTED)
            self.builder.add_call(step, text(event.get("toolCallId")), text(event.get("name")), arguments)
        elif kind == "tool.result":
            self._add_result(text(event.get("toolCallId")), mapping(event.get("result")), time)
        elif kind == "step.end":
            step = self._step(text(event.get("uuid")), None)
            step.finish_reason = finish_reason(event.get("finishReason"))
            usage = mapping(event.get("usage"))
            step.usage = _usage(usage, "inputOther", "inputCacheRead", "inputCacheCreation", step.usage)
            step.extend_to(time)
            self.builder.note_time(time)

    def _step(self, uuid: str, time: int | None) -> StepBuilder:
        """The response of a step, which begins with its first part."""
        step = self.builder.response(uuid) if uuid else None
        if step is None:
            self._end = self._error = None
            step = self.builder.add_response(time, self._begun.pop(uuid, None), self._model, key=uuid)
        elif time is not None:
            self.builder.extend_response(step, time)
        return step

    def _add_result(self, call_id: str, result: Mapping[str, Any], time: int | None) -> None:
        content = content_text(result.get("output")) or text(result.get("message"))
        step = self.step_of(call_id) if content.startswith("agent_id: ") else None
        if step is not None:
            for name in _LAUNCHED.findall(content):
                self.builder.add_subagent(step, call_id, self._run_id(name), "", time)
        # Kimi Code writes the flag only where it is true.
        failed = result.get("isError") is True if "is_error" not in result else flag(result["is_error"])
        images = images_of(result.get("output"))
        self.builder.add_result(call_id, content, is_error=failed, time=time, images=images)

    # --- Kimi CLI -----------------------------------------------------------------------------------------------------

    def take_message(self, kind: str, payload: Mapping[str, Any], time: int | None) -> None:
        """Take a message of Kimi CLI."""
        if kind in ("TurnBegin", "SteerInput"):
            self._end = self._error = None
            content = payload.get("user_input")
            images = images_of(content)
            self.builder.add_message("user", content_text(content), opens_turn=True, time=time, images=images)
        elif kind == "StepBegin":
            self._begun = {"": time}
        elif kind == "ContentPart":
            _add_part(self._current(time), payload)
        elif kind == "ToolCall":
            function = mapping(payload.get("function"))
            arguments = function.get("arguments", REDACTED)
            self.builder.add_call(self._current(time), text(payload.get("id")), text(function.get("name")), arguments)
        elif kind == "ToolCallPart" and self.builder.steps and self.builder.steps[-1].calls:
            calls = self.builder.steps[-1].calls
            beginning = "" if calls[-1].arguments == REDACTED else calls[-1].arguments
            calls[-1] = calls[-1]._replace(arguments=beginning + text(payload.get("arguments_part")) or REDACTED)
        elif kind == "ToolResult":
            self._add_result(text(payload.get("tool_call_id")), mapping(payload.get("return_value")), time)
        elif kind == "StatusUpdate" and self.builder.steps:
            step, usage = self.builder.steps[-1], mapping(payload.get("token_usage"))
            step.usage = _usage(usage, "input_other", "input_cache_read", "input_cache_creation", step.usage)
        elif kind == "CompactionEnd":
            self.builder.add_event("compaction", time)
        elif kind == "StepInterrupted":
            self.builder.add_event("abort", time)
            self._end = "aborted"

    def _current(self, time: int | None) -> StepBuilder:
        """The response that a step began with, and that continues until the next one begins."""
        if self._begun or not self.builder.steps:
            self._end = self._error = None
            start = self._begun.get("")
            self._begun = {}
            return self.builder.add_response(time, start, self._model)
        step = self.builder.steps[-1]
        self.builder.extend_response(step, time)
        return step

    def build(self, run_id: str, agent: str, parent: str | None) -> Run | None:
        """The run by the lines so far; None if there is neither a prompt nor a response."""
        if self.builder.is_empty:
            return None
        end = None if self.builder.truncated else self._end
        return self.builder.build(
            run_id, end, agent=agent, parent_run_id=parent, log_id=run_id, error=None if end is None else self._error
        )


def _add_part(step: StepBuilder, part: Mapping[str, Any]) -> None:
    if part.get("type") == "think":
        step.reasoning += filter(None, [text(part.get("think")) or text(part.get("text"))])
    else:
        step.text += filter(None, [content_text([part])])


def _usage(usage: Mapping[str, Any], other: str, read: str, write: str, previous: Usage) -> Usage:
    """The usage of a response; what was known of it, if there is none. The input is apart from what was cached."""
    parts = [whole(usage.get(name)) for name in (other, read, write)]
    output = whole(usage.get("output"))
    if output is None and not any(part is not None for part in parts):
        return previous
    entered = None if parts[0] is None else sum(part or 0 for part in parts)
    return Usage(entered, output, parts[1], None, None, parts[2])
