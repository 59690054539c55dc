"""OpenHands before its SDK (V0): evaluations (`output.jsonl`), the resolver's output, and single trajectories.

A line of an evaluation has the events of its instance in `history`: a list, or in old files pairs of an action and its
observation. A trajectory is a JSON list of events. See github.com/OpenHands/OpenHands (`openhands/events`) and
`boolab.logs.readers._openhands`.

- Steps: actions of the agent with the same `tool_call_metadata.model_response.id` are the calls of one response. An
  action without metadata (agents that do not call functions) is a response, and so is a message. The actions `system`,
  `recall`, `change_agent_state` and those of users are no steps; a `condensation` is an event.
- Calls have the name and the raw arguments from the model. If only the action is known, they are its kind and its
  `args` without `thought`. The call `finish` has no result, because it has no observation.
- An observation is the result of the action that its `cause` names, else of its `tool_call_id`.
- A response whose call could not be read is on record only by the `error` that answers it, which has no cause: a step
  without calls and usage, as the harness counts it.
- A call that is answered by `user_rejected` was never executed, and has no result.
- Errors: `error`. A command with an exit code other than 0; unknown if it still runs (-1). The
  editor (`edit`, `read`, `write`) with `error`, or, if it is OpenHands' own (`oh_aci`), with a text that begins with
  `ERROR:`. Browsers and MCP tools have a flag. For Python cells, delegates and others it is unknown.
- Tokens and finish reasons are those of the model response, else those that the row's metrics list for its id, else the
  difference between the accumulated metrics of two actions (`llm_metrics`), as is the cost. Times have no zone and are
  taken as UTC.
- A delegate's events are between the action `delegate` and its observation. It is a run of its own.
- The end is the call `finish`, or the row's `error`, or the last state (`agent_state_changed`) with its reason: maximum
  iterations (each action is one), maximum budget, stuck in a loop, timeout. The limit of iterations is in the row's
  `metadata`. `success` is the resolver's, or that of the report in the row, else of one of SWE-bench beside the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from boolab.core.finish_reasons import finish_reason
from boolab.core.run import Run
from boolab.core.types import REDACTED, UNKNOWN_USAGE, Image, Stop, Usage
from boolab.errors import RunFormatError
from boolab.io.json_input import Damage, flag, items, json_object, json_text, json_values, mapping, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head, all_input, content_text, epoch_ms, first_choice, name_or_none, one_line, stem_of
from boolab.logs.images import images_of
from boolab.logs.readers._openhands import Meter, Row, begins_with_events, ending, is_rejection, row_of
from boolab.logs.step_builder import StepBuilder, openai_arguments

NAME: Final = "openhands"
SCOPE: Final = "run"
SUFFIXES: Final = (".jsonl", ".json")
PLACES: Final = ()
LOOKED_FOR: Final = (
    'JSON lines with "instance_id" (or "issue") and a "history" of events, or a list of events with "action" or '
    '"observation"'
)

_NO_STEPS: Final = ("", "change_agent_state", "condensation_request", "null", "pause", "recall", "resume", "system")
_NO_RESULTS: Final = ("", "agent_state_changed", "condense", "null", "recall", "loop_detection")
_EDITOR: Final = ("edit", "read", "write")
_BROWSER: Final = ("browse", "browse_interactive")
_FAILED: Final = ("error", "user_rejected")
_ENDINGS: Final = ("finish", "reject")


def sniff(head: Head) -> bool:
    """Whether this is an evaluation, a resolver's output, or a trajectory."""
    return begins_with_events(
        head, _is_event, lambda row: "issue_type" in row or "agent_class" in mapping(row.get("metadata"))
    )


def _is_event(value: object) -> bool:
    event = mapping(value)
    if isinstance(event.get("action"), str):
        return (
            "kind" not in event and isinstance(event.get("args", {}), dict) and ("args" in event or "source" in event)
        )
    return isinstance(event.get("observation"), str) and ("extras" in event or "content" in event)


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of one file: one for each instance or trajectory, and those of its delegates."""
    id_counts: Counter[str] = Counter()
    runs: list[Run] = []
    for number, value in json_values(path, damage):
        if isinstance(value, list):
            if not any(_is_event(event) for event in value[:20]):
                raise RunFormatError(f"a trajectory of OpenHands is {LOOKED_FOR}", path=path, line=number)
            runs += _Instance(value, Row(), damage).runs(stem_of(path))
        elif isinstance(value, dict) and ("history" in value or "instance_id" in value):
            row = row_of(value, path, id_counts)
            runs += _Instance(items(value.get("history")), row, damage).runs(row.run_id)
        else:
            damage.note(number, "no instance with a history")
    damage.unrecognised = f"nothing of OpenHands in it: looked for {LOOKED_FOR}"
    return runs


class _Agent:
    """Builds the run of one agent: the main one, or a delegate."""

    def __init__(self, agent: str, damage: Damage, caller: tuple[StepBuilder, int] | None = None) -> None:
        self.builder = RunBuilder(NAME, damage)
        self.agent = agent
        self.caller = caller
        """The parent's call that started it: its step, and its position there."""
        self.done = ""
        """The action that ended it."""
        self.state = ""
        self.reason = ""


_Position: TypeAlias = tuple[_Agent, StepBuilder, int]
"""The position of a call."""


class _Instance:
    """Builds the runs of one instance from its events."""

    def __init__(self, history: Sequence[Any], row: Row, damage: Damage) -> None:
        self._row = row
        self._meter = Meter()
        self._places: dict[int | str, _Position] = {}
        self._seen: dict[int, Mapping[str, Any]] = {}
        self._early: dict[int, tuple[Mapping[str, Any], int | None]] = {}
        """The observations of actions that were not written so far, each with its line."""
        self._stack = [_Agent(row.agent, damage)]
        self._chains = list(self._stack)
        self._stack[0].builder.version, self._stack[0].builder.effort = row.version, row.effort
        self._damage = damage
        for item in history:
            position: _Position | None = None
            for event in map(mapping, item if isinstance(item, list) else [item]):  # old files have pairs
                if self._is_copy(event):
                    continue
                if "observation" in event:
                    self._observe(event, position)
                elif "action" in event or isinstance(item, list):
                    position = self._act(event)

    def _is_copy(self, event: Mapping[str, Any]) -> bool:
        """Whether an event was there before, under its id."""
        number = event.get("id")
        if not isinstance(number, int):
            return False
        return self._seen.setdefault(number, event) is not event and self._seen[number] == event

    def _act(self, event: Mapping[str, Any]) -> _Position | None:
        """Take an action. Returns the position of its call, if it is one."""
        kind, time = text(event.get("action")), epoch_ms(event.get("timestamp"))
        arguments = mapping(event.get("args"))
        source, chain = event.get("source"), self._stack[-1]
        chain.builder.note_time(time)
        if kind == "condensation":
            chain.builder.add_event("compaction", time)
        elif kind == "message" and source == "user":
            chain.done = ""
            images = images_of({"type": "image", "image_urls": arguments.get("image_urls")})
            chain.builder.add_message("user", text(arguments.get("content")), opens_turn=True, time=time, images=images)
        elif kind == "system" and not chain.builder.steps:
            chain.builder.version = name_or_none(arguments.get("openhands_version")) or chain.builder.version
            chain.builder.add_message("system", text(arguments.get("content")), opens_turn=False, time=time)
        elif source not in ("user", "environment") and kind not in _NO_STEPS:
            return self._work(chain, kind, event, time)
        return None

    def _work(self, chain: _Agent, kind: str, event: Mapping[str, Any], time: int | None) -> _Position | None:
        """Take an action of a response. Returns the position of its call, if it is one."""
        arguments = mapping(event.get("args"))
        metadata = mapping(event.get("tool_call_metadata"))
        response = mapping(metadata.get("model_response"))
        key = text(response.get("id"))
        step = chain.builder.response(key)
        if step is not None:
            step.begin_record()
            step.extend_to(time)
        else:
            step = chain.builder.add_response(time, model=text(response.get("model")), key=key)
            self._fill(step, response, event)
            content = text(arguments.get("content" if kind == "message" else "thought"))
            if not step.text and content and kind != "think":
                step.text.append(content)
        chain.done = kind if kind in _ENDINGS else ""
        if kind == "message":
            return None
        name, call_arguments = _call_of(event, kind, metadata, response)
        position = (chain, step, len(step.calls))
        call_id = text(metadata.get("tool_call_id"))
        chain.builder.add_call(step, call_id, name, call_arguments)
        number = event.get("id")
        if isinstance(number, int):
            self._places[number] = position
        if call_id:
            self._places[call_id] = position
        if kind == "delegate":
            self._delegate(arguments, position, time)
        early = self._early.pop(number, None) if isinstance(number, int) else None
        if early is not None:
            self._damage.answers_later_call(early[1])
            self._observe(early[0], position)
        return position

    def _fill(self, step: StepBuilder, response: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        choice = first_choice(response)
        message = mapping(choice.get("message"))
        step.add_text(content_text(message.get("content")))
        step.add_reasoning(text(message.get("reasoning_content")))
        step.finish_reason = finish_reason(choice.get("finish_reason"))
        usage = _usage(mapping(response.get("usage")))
        if usage == UNKNOWN_USAGE:
            usage = self._row.usages.get(text(response.get("id")), usage)
        metrics = mapping(event.get("llm_metrics"))
        if metrics:
            added = self._meter.read(metrics)
            usage = added if usage == UNKNOWN_USAGE else usage._replace(cost=added.cost)
        else:
            self._meter.miss()
        step.usage = usage

    def _delegate(self, arguments: Mapping[str, Any], position: _Position, time: int | None) -> None:
        _, step, number = position
        child = _Agent(text(arguments.get("agent")) or "delegate", self._damage, (step, number))
        child.builder.version, child.builder.effort = position[0].builder.version, position[0].builder.effort
        inputs = mapping(arguments.get("inputs"))
        task = text(inputs.get("task")) or json_text(dict(inputs))
        child.builder.add_message("user", task, opens_turn=True, time=time)
        self._stack.append(child)
        self._chains.append(child)

    def _observe(self, event: Mapping[str, Any], position: _Position | None) -> None:
        kind, time = text(event.get("observation")), epoch_ms(event.get("timestamp"))
        chain = self._stack[-1]
        if kind == "agent_state_changed":
            extras = mapping(event.get("extras"))
            chain.state = text(extras.get("agent_state"))
            chain.reason = text(extras.get("reason")) or (chain.reason if chain.state == "error" else "")
        if kind in _NO_RESULTS:
            return
        if kind == "delegate" and len(self._stack) > 1:
            delegate = self._stack.pop()
            if delegate.caller is not None:
                position = (self._stack[-1], *delegate.caller)
        target = position or self._cause(event)
        if target is None:
            content = text(event.get("content"))
            if kind == "error" and event.get("cause") is None and is_rejection(content):
                chain.builder.add_response(time)
                self._meter.miss()
                chain.builder.add_message("user", content, opens_turn=False, time=time)
            elif kind == "error" and event.get("cause") is None:
                chain.reason = chain.reason or text(event.get("content"))
                chain.builder.add_event("fault", time, what=one_line(text(event.get("content"))))
            else:
                self._hold(event)
            return
        owner, step, number = target
        if step.results[number] is None:
            content = content_text(event.get("content"))
            owner.builder.set_result(
                step,
                number,
                content,
                is_error=_is_failure(kind, event),
                time=time,
                rejected=kind == "user_rejected",
                images=_screenshot(mapping(event.get("extras"))),
            )

    def _hold(self, event: Mapping[str, Any]) -> None:
        """Keep an observation until the action that it answers is written. Until then it is damage."""
        cause = event.get("cause")
        if cause not in self._early:
            line = self._damage.answers_no_call()
            if isinstance(cause, int):
                self._early[cause] = event, line

    def _cause(self, event: Mapping[str, Any]) -> _Position | None:
        cause = event.get("cause")
        position = self._places.get(cause) if isinstance(cause, int) else None
        return position or self._places.get(text(mapping(event.get("tool_call_metadata")).get("tool_call_id")))

    def runs(self, run_id: str) -> list[Run]:
        ids = [f"{run_id}/delegate-{index}" if index else run_id for index in range(len(self._chains))]
        all_runs = []
        for child, child_id in zip(self._chains, ids, strict=True):
            for chain in self._chains:
                if child.caller is not None and any(step is child.caller[0] for step in chain.builder.steps):
                    step, number = child.caller
                    chain.builder.add_subagent(step, step.calls[number].id, child_id, child.agent)
        for chain, own_id in zip(self._chains, ids, strict=True):
            row = self._row if own_id == run_id else Row()
            if own_id == run_id and not row.run_id and chain.builder.is_empty:
                continue
            if own_id == run_id:
                chain.builder.state("metrics", **row.totals)
            error = row.error or chain.reason
            stop, limits = self._end(chain, error, row.cap)
            all_runs.append(
                chain.builder.build(
                    own_id,
                    stop,
                    agent=chain.agent,
                    model="" if chain.builder.models else self._row.model,
                    task=row.task,
                    parent_run_id=None if own_id == run_id else run_id,
                    success=row.success,
                    error=one_line(error) or None,
                    limits={"steps": row.cap, **limits},
                )
            )
        return all_runs

    def _end(self, chain: _Agent, error: str, cap: int | None) -> tuple[Stop, dict[str, int]]:
        if chain.done == "finish":
            return chain.builder.stop("finished"), {}
        if chain.done == "reject" or chain.state in ("stopped", "rejected"):
            return chain.builder.stop("aborted"), {}
        if error or chain.state == "error":
            return ending(chain.builder, error, cap)
        if chain.state == "paused":
            return chain.builder.stop("paused"), {}
        return chain.builder.stop(chain.builder.stop_reason()), {}


def _call_of(
    event: Mapping[str, Any], kind: str, metadata: Mapping[str, Any], response: Mapping[str, Any]
) -> tuple[str, object]:
    """The name and the arguments of an action's call: the model's own if the log has them."""
    name = text(metadata.get("function_name")) or kind
    call_id = text(metadata.get("tool_call_id"))
    choice = first_choice(response)
    for item in items(mapping(choice.get("message")).get("tool_calls")):
        call = mapping(item)
        function = mapping(call.get("function"))
        if call_id and call.get("id") == call_id and function.get("arguments") is not None:
            return name, openai_arguments(function["arguments"])
    args = event.get("args")
    if not isinstance(args, dict):
        return name, REDACTED
    return name, {key: value for key, value in args.items() if key != "thought" or kind == "think"}


def _screenshot(extras: Mapping[str, Any]) -> tuple[Image, ...]:
    """The picture of a browser's window; with the elements marked, if there is such a one."""
    url = text(extras.get("set_of_marks")) or text(extras.get("screenshot"))
    return images_of({"type": "image", "data": url}) if url else ()


def _is_failure(kind: str, event: Mapping[str, Any]) -> bool | None:
    if kind in _FAILED:
        return True
    extras = mapping(event.get("extras"))
    if kind == "run":
        code = mapping(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
        return None if isinstance(code, bool) or not isinstance(code, int) or code == -1 else code != 0
    if kind in _EDITOR:
        return extras.get("impl_source") == "oh_aci" and text(event.get("content")).startswith("ERROR:")
    if kind == "mcp":
        return flag(json_object(text(event.get("content"))).get("isError"))
    if kind in _BROWSER:
        return flag(extras.get("error"))
    return False if kind == "think" else None


def _usage(usage: Mapping[str, Any]) -> Usage:
    entered, output = whole(usage.get("prompt_tokens")), whole(usage.get("completion_tokens"))
    if not entered and not output:
        return UNKNOWN_USAGE
    cached = whole(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    if cached is None:
        cached = whole(usage.get("cache_read_input_tokens"))
    reasoned = whole(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    cache_write = whole(usage.get("cache_creation_input_tokens"))
    return Usage(all_input(entered, cached, cache_write), output, cached, reasoned, None, cache_write)
