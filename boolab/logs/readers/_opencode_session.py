"""The runs of opencode's sessions, from their messages and parts: as files, as lines, and as rows of its database.

Steps
-----
An assistant's message is one response or several: each `step-finish` ends one. A message without content, reason and
tokens is only an event. A message with `summary: true` is a compaction, and no step.

A `completed` call is an error if `metadata.exit` is not 0 (unknown if that is null), or if its tool is `invalid`, to
which opencode changes calls that it cannot read. A call with the status `error` is an error. `pending` and `running`
calls, and those with the text "Tool execution aborted", were dropped.

`tokens.input` excludes cached tokens, `tokens.output` excludes reasoning tokens; older versions count reasoning in
output, as `total` shows. Users' messages open turns, except those that are `synthetic` or only a compaction. An error
in the last message ended the run: `MessageAbortedError` is an abort. A child session is a run with its `parentID`.
There are no labels and no limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from boolab.core.finish_reasons import finish_reason
from boolab.core.run import Run
from boolab.core.types import REDACTED, UNKNOWN_USAGE, StopReason, Usage
from boolab.io.json_input import Damage, json_text, mapping, micro, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import content_text, effort_of, name_or_none, one_line, time_ms
from boolab.logs.images import images_of
from boolab.logs.step_builder import StepBuilder, elapsed_ms

SOURCE: Final = "opencode"
_CONTENT: Final = ("reasoning", "text", "tool")
_NOTICES: Final = ("compaction", "retry")
_ABORTED: Final = "MessageAbortedError"
_DROPPED: Final = ("Tool execution aborted", "Tool execution interrupted")
_TASK: Final = "task"
_INVALID: Final = "invalid"


Timed: TypeAlias = tuple[Mapping[str, Any], int | None]
"""A part of a message, and when its line was written."""


class Session:
    """Builds the run of one session from its facts, in which `key` is the name of its id."""

    def __init__(self, info: Mapping[str, Any], damage: Damage, key: str = "id") -> None:
        self.info = info
        self.run_id = text(info.get(key))
        self.builder = RunBuilder(SOURCE, damage)
        self.builder.version = name_or_none(info.get("version"))
        self.builder.note_origin(cwd=info.get("directory"))
        self._agent = ""
        self._end: StopReason | None = None
        self._error: str | None = None
        self._cost_stated = self._cost_read = 0

    def take(self, info: Mapping[str, Any], parts: Sequence[Any]) -> None:
        pieces = [(mapping(part), None) for part in parts]
        if info.get("role") == "user":
            self._add_user(info, pieces)
        elif info.get("role") == "idle":
            self._end_turn(text(info.get("outcome")), creation_time(info))
        elif info.get("summary") is True:
            self.builder.add_event("compaction", creation_time(info), reason="summary")
        else:
            self.add_responses(info, pieces)

    def _add_user(self, info: Mapping[str, Any], parts: Sequence[tuple[Mapping[str, Any], None]]) -> None:
        content: list[str] = []
        opens_turn = not parts
        time = creation_time(info)
        for part, _ in parts:
            kind = text(part.get("type"))
            if kind == "compaction":
                self.builder.add_event("compaction", time, auto=part.get("auto") is True)
                continue
            words = text(part.get("text")) or text(part.get("prompt")) or text(part.get("filename"))
            content.append(words if kind in ("text", "subtask") else f"[{kind} {words}]".replace(" ]", "]"))
            if not (part.get("synthetic") is True or part.get("ignored") is True):
                opens_turn = True
                self.builder.task = self.builder.task or one_line(content[-1])
        self._end = self._error = None
        if content or opens_turn:
            images = images_of([part for part, _ in parts])
            self.builder.add_message("user", "\n".join(content), opens_turn=opens_turn, time=time, images=images)

    def _end_turn(self, outcome: str, time: int | None) -> None:
        """Note how a turn ended, which opencode 2 has as a message of its own."""
        if outcome == "interrupted" and self._end != "aborted":
            self.fail({"name": _ABORTED}, time)
        elif outcome == "failed" and self._end is None:
            self.fail({"name": "failed"}, time)

    def add_responses(self, info: Mapping[str, Any], parts: Sequence[Timed]) -> None:
        responses = _responses(parts)
        reason = finish_reason(info.get("finish"))
        completed = time_ms(mapping(info.get("time")).get("completed"))
        if not responses and (reason is not None or _total_usage(info).output_tokens):
            responses = [[]]
        self._agent = text(info.get("agent")) or text(info.get("mode")) or self._agent
        self._end = self._error = None
        error = mapping(info.get("error"))
        start = creation_time(info)
        self.builder.effort = effort_of(info.get("variant"), mapping(info.get("model")).get("variant"))
        self.builder.note_origin(cwd=mapping(info.get("path")).get("cwd"))
        for number, response in enumerate(responses, 1):
            step = self._add_response(info, response, start)
            if number == len(responses):
                step.finish_reason = reason or step.finish_reason
                step.error = _name_of(error)
                step.extend_to(completed)
            if len(responses) == 1 and step.usage == UNKNOWN_USAGE:
                step.usage = _total_usage(info)
            start = step.ended
        self._add_cost(info, len(responses))
        self.builder.note_time(completed)
        for part, _ in parts:
            if part.get("type") in _NOTICES:
                self._notice(part)
        if error:
            self.fail(error, completed)

    def _add_response(self, info: Mapping[str, Any], parts: Sequence[Timed], start: int | None) -> StepBuilder:
        times = [time for part, line_time in parts if (time := _part_time(part, line_time)) is not None]
        if start is None:
            start = next((line_time for part, line_time in parts if part.get("type") == "step-start"), None)
        model = text(info.get("modelID")) or text(mapping(info.get("model")).get("modelID"))
        step = self.builder.add_response(max(times, default=start), start, model)
        for part, _ in parts:
            kind = part.get("type")
            if kind == "text":
                step.add_text(text(part.get("text")))
            elif kind == "reasoning":
                step.add_reasoning(text(part.get("text")))
            elif kind == "tool":
                self._add_call(step, part)
            elif kind == "step-finish":
                step.finish_reason = finish_reason(part.get("reason"))
                step.usage = _usage(mapping(part.get("tokens")), part.get("cost"))
        return step

    def _add_call(self, step: StepBuilder, part: Mapping[str, Any]) -> None:
        state = mapping(part.get("state"))
        status, raw, times = text(state.get("status")), text(state.get("raw")), mapping(state.get("time"))
        start, end = time_ms(times.get("start")), time_ms(times.get("end"))
        arguments = raw if raw and not state.get("input") else state.get("input", REDACTED)
        name = text(part.get("tool"))
        index = len(step.calls)
        self.builder.add_call(step, text(part.get("callID")), name, arguments)
        child = text(mapping(state.get("metadata")).get("sessionId")) if name == _TASK else ""
        if child:
            agent = text(mapping(state.get("input")).get("subagent_type"))
            self.builder.add_subagent(step, text(part.get("callID")), child, agent, start)
        error = content_text(state.get("error"))
        if status not in ("completed", "error") or (status == "error" and error.startswith(_DROPPED)):
            return
        duration = elapsed_ms(start, end)
        failed = True if status == "error" or name == _INVALID else _exit_failed(mapping(state.get("metadata")))
        content = error if status == "error" else content_text(state.get("output"))
        images = images_of(state.get("attachments"))
        self.builder.set_result(step, index, content, is_error=failed, time=end, duration_ms=duration, images=images)

    def _add_cost(self, info: Mapping[str, Any], responses: int) -> None:
        """Add the cost that a message states, and that of its responses, if both are known."""
        costs = [step.usage.cost for step in self.builder.steps[-responses:]] if responses else []
        stated = micro(info.get("cost"))
        if costs and stated is not None and None not in costs:
            self._cost_stated += stated
            self._cost_read += sum(cost or 0 for cost in costs)

    def _notice(self, part: Mapping[str, Any]) -> None:
        if part.get("type") == "compaction":
            self.builder.add_event("compaction", auto=part.get("auto") is True)
        elif part.get("type") == "retry":
            self.builder.add_event("retry", creation_time(part), error=_name_of(mapping(part.get("error"))))

    def fail(self, error: Mapping[str, Any], time: int | None) -> None:
        name = _name_of(error)
        aborted = error.get("name") == _ABORTED
        self.builder.add_event("abort" if aborted else "fault", time, error=name)
        self._end = "aborted" if aborted else "error"
        self._error = None if aborted else name

    def state_totals(self, row: Mapping[str, Any]) -> None:
        """Note the totals of a session that its row in the database has. They may hold calls that are no responses."""
        inputs = [whole(row.get(f"tokens_{name}")) or 0 for name in ("input", "cache_read", "cache_write")]
        outputs = [whole(row.get(f"tokens_{name}")) or 0 for name in ("output", "reasoning")]
        figures = {"input_tokens": sum(inputs), "output_tokens": sum(outputs), "cost": micro(row.get("cost"))}
        self.builder.state("the session", **{name: (0, figure) for name, figure in figures.items() if figure})

    def run(self, branched_from: str = "") -> Run | None:
        if self.builder.is_empty:
            return None
        if not self.builder.steps:
            self.builder.note_time(creation_time(self.info))
        self.builder.totals.compare("cost of its messages", "cost", self._cost_stated, self._cost_read)
        return self.builder.build(
            self.run_id or "session",
            self._end,
            agent=self._agent,
            parent_run_id=text(self.info.get("parentID")) or None,
            log_id=self.run_id,
            error=self._error,
            branched_from=branched_from,
        )


def _responses(
    parts: Sequence[Timed],
) -> list[list[Timed]]:
    """The parts of each response of a message: a `step-finish` ends one, and so does the second `step-start` in it."""
    responses: list[list[Timed]] = []
    is_open = has_start = False
    for part, line_time in parts:
        kind = part.get("type")
        if kind not in _CONTENT and kind not in ("step-start", "step-finish"):
            continue
        if not is_open or (kind == "step-start" and has_start):
            responses.append([])
            has_start = False
        is_open = kind != "step-finish"
        has_start = has_start or kind == "step-start"
        responses[-1].append((part, line_time))
    return responses


def creation_time(info: Mapping[str, Any]) -> int | None:
    return time_ms(mapping(info.get("time")).get("created"))


def _part_time(part: Mapping[str, Any], line_time: int | None) -> int | None:
    if part.get("type") == "tool":
        return time_ms(mapping(mapping(part.get("state")).get("time")).get("start"))
    if part.get("type") not in _CONTENT:
        return None
    times = mapping(part.get("time"))
    return time_ms(times.get("end")) or time_ms(times.get("start")) or line_time


def _exit_failed(metadata: Mapping[str, Any]) -> bool | None:
    """Whether a completed call failed. A command that was killed has no exit code."""
    if "exit" not in metadata:
        return False
    return None if metadata["exit"] is None else metadata["exit"] != 0


def _name_of(error: Mapping[str, Any]) -> str:
    message = text(mapping(error.get("data")).get("message")) or text(error.get("message"))
    name = text(error.get("name"))
    if not error:
        return ""
    return f"{name}: {message}" if name and message else name or message or json_text(error)[:200]


def _total_usage(info: Mapping[str, Any]) -> Usage:
    """The usage of all responses of a message. Zeros are unknown: an interrupted message has them."""
    usage = _usage(mapping(info.get("tokens")), info.get("cost"))
    return usage if usage.input_tokens or usage.output_tokens else UNKNOWN_USAGE


def _usage(tokens: Mapping[str, Any], cost: object) -> Usage:
    """The usage of a response. Output excludes reasoning, unless the total shows that it does not."""
    entered, output, reasoning = (whole(tokens.get(name)) for name in ("input", "output", "reasoning"))
    cache = mapping(tokens.get("cache"))
    cached, cache_write = whole(cache.get("read")), whole(cache.get("write"))
    if entered is not None:
        entered += (cached or 0) + (cache_write or 0)
    if output is not None and reasoning and whole(tokens.get("total")) != (entered or 0) + output:
        output += reasoning
    return Usage(entered, output, cached, reasoning, micro(cost), cache_write)
