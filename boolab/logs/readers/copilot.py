"""GitHub Copilot CLI: `~/.copilot/session-state/<session>/events.jsonl`, a line for each event of a session.

`copilot --output-format json` prints the same events, with parts of messages among them, and at the end a `result` with
the id of the session and the exit code. There is no `session.start`, and the model is in `session.tools_updated`.

The kinds of events are those of the Copilot SDK (github.com/github/copilot-sdk, the generated session events).

- A response is the `assistant.message` events of one `apiCallId`; older versions have none, and an event is a response.
  A turn of the model whose message is not in the log is a response with the calls that it started.
- `toolRequests` are the calls. `tool.execution_complete` has the result and `success`; an `error` with the code
  `denied` or `rejected` answers a call that the user did not allow.
- `user.message` opens a turn, unless its `source` is another than the user.
- Only the output tokens are there, and `assistant.usage` with all tokens where it was kept. What `session.shutdown`
  adds up also counts subagents and compactions.
- An event with a `parentToolCallId` is of a subagent, which is a run of its own: the call of that id started it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from boolab.core.run import Run
from boolab.core.types import REDACTED, StopReason, Usage
from boolab.io.json_input import Damage, flag, items, mapping, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import (
    Head,
    LineLog,
    content_text,
    epoch_ms,
    follow_objects,
    name_or_none,
    one_line,
    read_followed,
    stem_of,
)
from boolab.logs.images import images_of
from boolab.logs.step_builder import StepBuilder

NAME: Final = "copilot"
SCOPE: Final = "turn"
TESTED: Final = "1.0"
SUFFIXES: Final = (".jsonl",)
_FILE: Final = "events.jsonl"
PLACES: Final = (f"~/.copilot/session-state/*/{_FILE}", "~/.copilot/session-state/*.jsonl")
LOOKED_FOR: Final = (
    'lines with "type": "session.start", and "copilotVersion" in their "data"; or lines with "type": '
    '"assistant.turn_start", "data", "id" and "parentId"'
)

_QUIET: Final = (
    "assistant.intent", "assistant.message_delta", "assistant.message_start", "assistant.reasoning_delta",
    "assistant.turn_start", "hook.end", "hook.start", "session.auto_mode_resolved",
    "session.background_tasks_changed", "session.compaction_start", "session.context_changed", "session.handoff",
    "session.idle", "session.info", "session.mcp_server_status_changed", "session.mcp_servers_loaded",
    "session.mode_changed", "session.plan_changed", "session.resume", "session.skills_loaded",
    "session.snapshot_rewind", "session.task_complete", "session.title_changed", "session.todos_changed",
    "session.truncation", "session.usage_checkpoint", "session.usage_info", "session.warning",
    "session.workspace_file_changed", "skill.invoked", "subagent.completed", "subagent.deselected", "subagent.failed",
    "subagent.selected", "system.notification", "tool.execution_partial_result", "tool.execution_progress",
    "tool.user_requested",
)  # fmt: skip
_KINDS: Final = (
    *_QUIET, "abort", "assistant.message", "assistant.reasoning", "assistant.turn_end", "assistant.usage", "result",
    "session.compaction_complete", "session.error", "session.model_change", "session.shutdown", "session.start",
    "session.tools_updated", "subagent.started", "system.message", "tool.execution_complete", "tool.execution_start",
    "user.message",
)  # fmt: skip
_STREAM: Final = ("assistant.message_delta", "assistant.turn_start", "session.tools_updated")
_ENVELOPE: Final = frozenset({"data", "id", "parentId", "timestamp"})
_REJECTED: Final = ("denied", "rejected")


def sniff(head: Head) -> bool:
    """Whether this is a session of Copilot CLI."""
    return any(map(_is_start, head.values))


def _is_start(line: object) -> bool:
    event = mapping(line)
    if event.get("type") == "session.start":
        return "copilotVersion" in mapping(event.get("data"))
    if event.get("type") == "assistant.message":
        return "toolRequests" in mapping(event.get("data"))
    return event.get("type") in _STREAM and event.keys() >= _ENVELOPE


def read(path: Path, damage: Damage) -> list[Run]:
    """The run of one session, and those of its subagents."""
    return read_followed(path, damage, follow)


def follow(path: Path, damage: Damage) -> LineLog:
    """The events of a session, as they are written."""
    return _follow(path, damage, "")


def _follow(path: Path, damage: Damage, session_id: str) -> LineLog:
    """The events of a session, whose id may be known from the last of them."""
    session = _Session(path, damage, session_id)

    def again() -> LineLog | None:
        return _follow(path, Damage(path), session.late_id) if session.late_id else None

    return replace(follow_objects(damage, session.take, session.runs), again=again)


class _AgentEvents:
    """The agent of a session, or a subagent: what its events so far give."""

    def __init__(self, builder: RunBuilder) -> None:
        self.builder = builder
        self.name = ""
        self.end: StopReason | None = None
        self.error: str | None = None
        self.requested: set[str] = set()
        """The ids of the calls that messages hold."""
        self.started: dict[str, tuple[str, object, int | None]] = {}
        """Calls that were started, and that no message holds so far."""

    def is_empty(self) -> bool:
        return self.builder.is_empty


class _Session:
    """Builds the runs of one session."""

    def __init__(self, path: Path, damage: Damage, session_id: str) -> None:
        self._damage = damage
        self._path = path
        self._id = session_id
        self.late_id = ""
        """The id of the session, if subagents were named without it."""
        self._model = ""
        self._agents: dict[str, _AgentEvents] = {"": _AgentEvents(RunBuilder(NAME, damage))}
        self._prompts: dict[str, str] = {}
        """The prompts of calls by their ids: the task of a subagent that one of them starts."""

    def take(self, event: Mapping[str, Any]) -> None:
        """Take the next event."""
        kind, data, time = text(event.get("type")), mapping(event.get("data")), epoch_ms(event.get("timestamp"))
        self._damage.note_kind(kind, _KINDS)
        parent = text(data.get("parentToolCallId"))
        agent = self._agents.get(parent) or self._open_subagent(parent, time)
        if kind == "session.start":
            self._open(data)
        elif kind == "session.model_change":
            self._model = text(data.get("newModel")) or self._model
            agent.builder.effort = name_or_none(data.get("reasoningEffort"))
        elif kind == "session.tools_updated":
            self._model = text(data.get("model")) or self._model
        elif kind == "subagent.started":
            self._start_subagent(data, time)
        elif kind == "session.shutdown":
            self._shut_down(data)
        elif kind == "result":
            self._finish(event, time)
        else:
            self._take_of(agent, kind, data, time)

    def _open(self, data: Mapping[str, Any]) -> None:
        builder, context = self._agents[""].builder, mapping(data.get("context"))
        self._id = self._id or text(data.get("sessionId"))
        self._model = text(data.get("selectedModel")) or self._model
        builder.version = name_or_none(data.get("copilotVersion"))
        builder.effort = name_or_none(data.get("reasoningEffort"))
        if builder.version:
            self._damage.versions.add(builder.version)
        commit = context.get("headCommit")
        builder.note_origin(cwd=context.get("cwd"), git_branch=context.get("branch"), git_commit=commit)

    def _start_subagent(self, data: Mapping[str, Any], time: int | None) -> None:
        call_id, name = text(data.get("toolCallId")), text(data.get("agentName"))
        for agent in self._agents.values():
            step = next((step for step in reversed(agent.builder.steps) if _has_call(step, call_id)), None)
            if step is not None and call_id:
                agent.builder.add_subagent(step, call_id, self._run_id(call_id), name, time)
                subagent = self._agents.get(call_id) or self._open_subagent(call_id, time)
                subagent.name = name
                return

    def _open_subagent(self, call_id: str, time: int | None) -> _AgentEvents:
        agent = self._agents[call_id] = _AgentEvents(RunBuilder(NAME, self._damage))
        agent.builder.version = self._agents[""].builder.version
        if prompt := self._prompts.get(call_id):
            agent.builder.add_message("user", prompt, opens_turn=True, time=time)
        return agent

    def _run_id(self, call_id: str) -> str:
        session = self._id or (self._path.parent.name if self._path.name == _FILE else stem_of(self._path))
        return f"{session}#{call_id}" if call_id else session

    def _shut_down(self, data: Mapping[str, Any]) -> None:
        """Compare what the session adds up, of which the agent's own responses are a part."""
        metrics = [mapping(entry) for entry in mapping(data.get("modelMetrics")).values()]
        output = [whole(mapping(entry.get("usage")).get("outputTokens")) for entry in metrics]
        figures = [figure for figure in output if figure is not None]
        if metrics and len(figures) == len(metrics):
            self._agents[""].builder.state("session.shutdown", output_tokens=(0, sum(figures)))

    def _finish(self, event: Mapping[str, Any], time: int | None) -> None:
        """Take what a stream ends with."""
        main, code = self._agents[""], whole(event.get("exitCode"))
        main.builder.note_time(time)
        if code:
            main.end, main.error = "error", main.error or f"exit code {code}"
        if not self._id:
            self._id = text(event.get("sessionId"))
            self.late_id = self._id if len(self._agents) > 1 else ""

    def _take_of(self, agent: _AgentEvents, kind: str, data: Mapping[str, Any], time: int | None) -> None:
        if kind == "user.message":
            self._settle(agent)
            agent.end = agent.error = None
            by_user = text(data.get("source")) in ("", "user")
            content = data.get("content")
            images = (*images_of(content), *images_of(data.get("attachments")))
            agent.builder.add_message("user", content_text(content), opens_turn=by_user, time=time, images=images)
        elif kind == "system.message":
            agent.builder.add_message("system", content_text(data.get("content")), opens_turn=False, time=time)
        elif kind == "assistant.message":
            self._add_message(agent, data, time)
        elif kind == "assistant.usage":
            self._add_usage(agent, data)
        elif kind == "assistant.reasoning" and agent.builder.steps:
            agent.builder.steps[-1].add_reasoning(text(data.get("content")))
        elif kind == "assistant.turn_end":
            self._settle(agent)
        elif kind == "tool.execution_start":
            call_id = text(data.get("toolCallId"))
            if call_id not in agent.requested:
                agent.started[call_id] = (text(data.get("toolName")), data.get("arguments", REDACTED), time)
        elif kind == "tool.execution_complete":
            self._add_result(agent, data, time)
        else:
            self._note(agent, kind, data, time)

    def _note(self, agent: _AgentEvents, kind: str, data: Mapping[str, Any], time: int | None) -> None:
        """Add an event that is of no response."""
        if kind == "session.compaction_complete":
            agent.builder.add_event("compaction", time, tokens=whole(data.get("preCompactionTokens")))
        elif kind == "session.error":
            agent.error = one_line(text(data.get("message"))) or text(data.get("errorType")) or "error"
            agent.end = "error"
            agent.builder.add_event("fault", time, what=agent.error)
        elif kind == "abort":
            agent.end, agent.error = "aborted", None
            agent.builder.add_event("abort", time, what=text(data.get("reason")))

    def _add_message(self, agent: _AgentEvents, data: Mapping[str, Any], time: int | None) -> None:
        builder = agent.builder
        agent.end = agent.error = None
        key = text(data.get("apiCallId")) or text(data.get("messageId"))
        step = builder.response(key) if key else None
        if step is None:
            step = builder.add_response(time, model=text(data.get("model")) or self._model, key=key)
        else:
            builder.extend_response(step, time)
        step.add_text(content_text(data.get("content")))
        step.add_reasoning(text(data.get("reasoningText")))
        output = whole(data.get("outputTokens"))
        if output is not None and step.usage.input_tokens is None:
            step.usage = Usage(None, max(output, step.usage.output_tokens or 0))
        for request in map(mapping, items(data.get("toolRequests"))):
            call_id = text(request.get("toolCallId"))
            agent.requested.add(call_id)
            agent.started.pop(call_id, None)
            self._add_call(agent, step, call_id, text(request.get("name")), request.get("arguments", REDACTED))

    def _add_call(self, agent: _AgentEvents, step: StepBuilder, call_id: str, name: str, arguments: object) -> None:
        agent.builder.add_call(step, call_id, name, arguments)
        prompt = mapping(arguments).get("prompt")
        if call_id and isinstance(prompt, str):
            self._prompts[call_id] = prompt

    def _settle(self, agent: _AgentEvents) -> None:
        """Add the response of calls that were started in a turn of the model, and that no message holds."""
        if agent.started:
            times = [time for *_, time in agent.started.values() if time is not None]
            step = agent.builder.add_response(min(times, default=None), model=self._model)
            for call_id, (name, arguments, _) in agent.started.items():
                agent.requested.add(call_id)
                self._add_call(agent, step, call_id, name, arguments)
            agent.started = {}

    def _add_usage(self, agent: _AgentEvents, data: Mapping[str, Any]) -> None:
        key = text(data.get("apiCallId"))
        step = agent.builder.response(key) if key else next(reversed(agent.builder.steps), None)
        entered, output = whole(data.get("inputTokens")), whole(data.get("outputTokens"))
        if step is not None and (entered is not None or output is not None):
            cached, cache_write = whole(data.get("cacheReadTokens")), whole(data.get("cacheWriteTokens"))
            step.usage = Usage(entered, output, cached, None, None, cache_write)

    def _add_result(self, agent: _AgentEvents, data: Mapping[str, Any], time: int | None) -> None:
        result, error = mapping(data.get("result")), mapping(data.get("error"))
        content = content_text(result.get("content")) or text(error.get("message"))
        success = flag(data.get("success"))
        agent.builder.add_result(
            text(data.get("toolCallId")),
            content,
            is_error=None if success is None else not success,
            time=time,
            rejected=success is False and text(error.get("code")) in _REJECTED,
            images=images_of(result.get("content")) or images_of(result.get("contents")),
        )

    def runs(self) -> list[Run]:
        """The runs by the events so far."""
        first = self._agents[""].builder
        self._damage.unrecognised = "" if first.version or not first.is_empty else f"a log of Copilot is {LOOKED_FOR}"
        return [self._build(call_id, agent) for call_id, agent in self._agents.items() if not agent.is_empty()]

    def _build(self, call_id: str, agent: _AgentEvents) -> Run:
        return agent.builder.build(
            self._run_id(call_id),
            None if agent.builder.truncated else agent.end,
            agent=agent.name or ("subagent" if call_id else NAME),
            parent_run_id=self._run_id("") if call_id else None,
            log_id=self._run_id(call_id) if self._id else "",
            error=agent.error if agent.end == "error" and not agent.builder.truncated else None,
        )


def _has_call(step: StepBuilder, call_id: str) -> bool:
    return any(call.id == call_id for call in step.calls)
