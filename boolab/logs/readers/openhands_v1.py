"""OpenHands' agent SDK (V1): events of a conversation; see github.com/OpenHands/software-agent-sdk (`sdk/event`).

Events with a `kind`: as lines (`events.jsonl`), as a JSON list, in `history` of the rows of an evaluation
(`output.jsonl` of github.com/OpenHands/benchmarks), or as a conversation's folder: `events/event-00000-<id>.json` and
so on, one event each, beside `base_state.json`. Such a folder is read by the file of its first event; its other files
hold no runs. Sub-conversations have their own folders, which do not name the parent.

- Steps: `ActionEvent`s with the same `llm_response_id` are the calls of one response. A `MessageEvent` of the agent is
  a response without calls. Arguments are the model's (`tool_call.arguments`), with the `summary` and `security_risk`
  that the SDK makes it add. The user's messages open turns.
- A response whose call could not be read is on record only by the message that answers it, in the name of the user: a
  step without calls and usage, as the harness counts it.
- Results are `ObservationEvent`, `AgentErrorEvent` or `UserRejectObservation`, by the id of the call. The second is
  an error; a call with the third was never executed, and has no result. An observation is an error if it has
  `is_error` or an exit code other than 0; unknown if its command still runs (-1).
- Tokens are those that the metrics list for the response's id (in `base_state.json`, or in the row), else what the last
  `stats` before the response's first event added. A cost of 0 is unknown, because the model's price is. Times have no
  zone and are taken as UTC. There are no finish reasons.
- The end is the `execution_status`: `finished`, `stuck`, `error` (in the `ConversationErrorEvent`,
  `MaxIterationsReached` is a step cap and `MaxBudgetReached` a cost budget), `paused` or `waiting_for_confirmation`.
  Without it, the call `finish` or a response without calls is the end. The limit of iterations is in the state or the
  row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from boolab.core.run import Run
from boolab.core.types import REDACTED, UNKNOWN_USAGE, Image, Stop
from boolab.io.json_input import Damage, items, mapping, parse, text, whole, whole_file
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import Head, LineLog, content_text, effort_of, epoch_ms, one_line, read_followed, stem_of
from boolab.logs.images import images_of
from boolab.logs.readers._openhands import (
    Meter,
    Row,
    begins_with_events,
    ending,
    is_rejection,
    row_of,
    totals_of,
    usages_of,
)
from boolab.logs.step_builder import StepBuilder, openai_arguments

NAME: Final = "openhands_sdk"
SCOPE: Final = "turn"
SUFFIXES: Final = (".jsonl", ".json")
PLACES: Final = ("~/.openhands/conversations/*/events/event-*.json",)
LOOKED_FOR: Final = (
    'JSON lines or a list of events with a "kind" (ActionEvent, ...), rows with a "history" of such, or the '
    "event-00000-<id>.json of a conversation's folder"
)

_KINDS: Final = frozenset((
    "ActionEvent", "AgentErrorEvent", "Condensation", "CondensationRequest", "CondensationSummaryEvent",
    "ConversationErrorEvent", "ConversationIterationLimitEvent", "ConversationStateUpdateEvent", "HookExecutionEvent",
    "InterruptEvent", "LLMCompletionLogEvent", "MessageEvent", "NonExecutableActionEvent", "ObservationEvent",
    "PauseEvent", "StreamingDeltaEvent", "SystemPromptEvent", "TokenEvent", "UserRejectObservation",
))  # fmt: skip
_FILE: Final = re.compile(r"event-(\d{5,12})-[0-9a-fA-F-]{8,}\.json")
_STATE: Final = "base_state.json"
_RESULTS: Final = ("AgentErrorEvent", "ObservationEvent", "UserRejectObservation")
_AGENTS: Final = ("agent", "default")
_UNRECOGNISED: Final = f"no conversation of OpenHands' SDK in it: looked for {LOOKED_FOR}"


def sniff(head: Head) -> bool:
    """Whether this is a conversation's events, one of its event files, or rows that hold such."""
    if _is_event(head.first) or (head.path.name == _STATE and {"id", "agent"} <= head.first.keys()):
        return True
    return begins_with_events(head, _is_event, _is_row)


def _is_row(row: Mapping[str, Any]) -> bool:
    return "test_result" in row and {"llm", "max_iterations"} <= mapping(row.get("metadata")).keys()


def _is_event(value: object) -> bool:
    event = mapping(value)
    return text(event.get("kind")) in _KINDS and "id" in event and ("source" in event or "timestamp" in event)


def read(path: Path, damage: Damage) -> list[Run]:
    """The runs of one file, or of the conversation whose first event it is; none for its other files."""
    file = _FILE.fullmatch(path.name)
    if path.name == _STATE or (file is not None and int(file[1])):
        return []
    if file is None:
        return read_followed(path, damage, follow)
    talk, run_id = _conversation(path, damage)
    run = talk.run(run_id)
    damage.unrecognised = _UNRECOGNISED
    return [] if run is None else [run]


def follow(path: Path, damage: Damage) -> LineLog:
    """The events of a conversation, or the rows of an evaluation, as they are written."""
    conversations = _Conversations(path, damage)
    return LineLog(damage, conversations.take, conversations.runs)


class _Conversations:
    """The conversations of a file of lines, of rows, or of one list."""

    def __init__(self, path: Path, damage: Damage) -> None:
        self._path = path
        self._damage = damage
        self._rows: list[tuple[_Conversation, str]] = []
        self._seen: Counter[str] = Counter()
        self._single: _Conversation | None = None

    def take(self, number: int, value: object) -> None:
        if isinstance(value, dict) and ("history" in value or "instance_id" in value):
            row = row_of(value, self._path, self._seen)
            talk = _Conversation(row, self._damage)
            for event in items(value.get("history")):
                talk.take(mapping(event))
            self._rows.append((talk, row.run_id))
            return
        events = value if isinstance(value, list) else [value]
        if not any("kind" in mapping(event) for event in events):
            self._damage.note(number, "no event with a kind")
            return
        self._single = self._single or _Conversation(Row(), self._damage)
        for event in events:
            self._single.take(mapping(event))

    def runs(self) -> list[Run]:
        path, rows = self._path, [*self._rows]
        if self._single is not None:
            name = path.parent.absolute().name if stem_of(path) == "events" else stem_of(path)
            rows.append((self._single, name or stem_of(path)))
        self._damage.unrecognised = _UNRECOGNISED
        return [run for talk, run_id in rows if (run := talk.run(run_id)) is not None]


def _conversation(path: Path, damage: Damage) -> tuple[_Conversation, str]:
    """The conversation of a folder, from the files of its events."""
    talk = _Conversation(Row(), damage)
    names = (_FILE.fullmatch(file.name) for file in path.parent.iterdir())
    files = sorted((int(name[1]), name[0]) for name in names if name is not None)
    try:
        state = mapping(parse(whole_file(path.parent.parent / _STATE)))
    except (OSError, ValueError):
        state = {}
    talk.add_state(state)
    expected = 0
    for number, name in files:
        if number > expected:
            damage.note(1, f"events {expected} to {number - 1} are missing")
        expected = number + 1
        try:
            talk.take(mapping(parse(whole_file(path.parent / name))))
        except (OSError, ValueError) as error:
            damage.note(1, f"{name} cannot be read ({error})")
            damage.truncated = number == files[-1][0]
    talk.set_status(state.get("execution_status", state.get("agent_status")))
    return talk, text(state.get("id")) or path.parent.parent.absolute().name or stem_of(path)


class _Conversation:
    """Builds the run of one conversation from its events."""

    def __init__(self, row: Row, damage: Damage) -> None:
        self.builder = RunBuilder(NAME, damage)
        self._damage = damage
        self._row = row
        self.builder.version, self.builder.effort = row.version, row.effort
        self._usages = row.usages
        self._meter = Meter()
        self._added = UNKNOWN_USAGE
        self._counted = False
        self._cap = row.cap
        self._model = row.model
        self._status = ""
        self._error = ""
        self._stats: Mapping[str, Any] = {}
        """The latest accumulated metrics of the agent's model."""

    def add_state(self, state: Mapping[str, Any]) -> None:
        cap = whole(state.get("max_iterations"))
        self._cap = self._cap if cap is None else cap
        model = mapping(mapping(state.get("agent")).get("llm"))
        self._model = text(model.get("model")) or self._model
        self.builder.effort = effort_of(model.get("reasoning_effort"), self.builder.effort)
        self.builder.note_origin(cwd=mapping(state.get("workspace")).get("working_dir"))
        self._stats = _metrics(mapping(state.get("stats"))) or self._stats
        usages = usages_of(self._stats)
        if usages:
            self._usages = usages

    def take(self, event: Mapping[str, Any]) -> None:
        kind, time = text(event.get("kind")), epoch_ms(event.get("timestamp"))
        self._damage.note_kind(kind, _KINDS)
        if kind == "ConversationStateUpdateEvent":
            self._update(event)
            return
        self.builder.note_time(time)
        if kind in ("ActionEvent", "NonExecutableActionEvent"):
            step = self._reply(event, event, event.get("thought"), time)
            calls = items(event.get("tool_calls")) or [event.get("tool_call")]
            for call in calls:
                self._call(step, event, mapping(call))
        elif kind == "MessageEvent":
            self._message(event, time)
        elif kind in _RESULTS:
            content, failed = _result(kind, event)
            rejected = kind == "UserRejectObservation"
            call_id = text(event.get("tool_call_id"))
            images = _images(mapping(event.get("observation")))
            self.builder.add_result(call_id, content, is_error=failed, time=time, rejected=rejected, images=images)
        elif kind == "SystemPromptEvent" and not self.builder.steps:
            prompt = text(mapping(event.get("system_prompt")).get("text"))
            self.builder.add_message("system", prompt, opens_turn=False, time=time)
        elif kind == "Condensation":
            self.builder.add_event("compaction", time)
        elif kind in ("PauseEvent", "InterruptEvent"):
            self._status = "paused"
        elif kind in ("ConversationErrorEvent", "ConversationIterationLimitEvent"):
            self._fail(kind, event, time)

    def _message(self, event: Mapping[str, Any], time: int | None) -> None:
        message = mapping(event.get("llm_message"))
        if event.get("source") == "agent":
            self._reply(event, message, message.get("content"), time)
            return
        content = content_text(message.get("content"))
        if self.builder.has_prompt and is_rejection(content):
            self.builder.add_response(time)
            self._meter.miss()
            self.builder.add_message("user", content, opens_turn=False, time=time)
            return
        by_user = event.get("source") == "user"
        if by_user:
            self._status = self._error = ""
        images = images_of(message.get("content"))
        self.builder.add_message("user", content, opens_turn=by_user, time=time, images=images)

    def _reply(
        self, event: Mapping[str, Any], holder: Mapping[str, Any], content: object, time: int | None
    ) -> StepBuilder:
        """The step of a response; `holder` has its reasoning."""
        name = text(event.get("llm_response_id"))
        previous = self.builder.response(name)
        if previous is not None:
            previous.begin_record()
            previous.extend_to(time)
            return previous
        step = self.builder.add_response(time, key=name)
        step.add_text(content_text(content))
        step.add_reasoning(text(holder.get("reasoning_content")))
        for block in () if step.reasoning else items(holder.get("thinking_blocks")):
            step.add_reasoning(text(mapping(block).get("thinking")))
        usage = self._usages.get(name)
        step.usage = self._added if usage is None else usage._replace(cost=self._added.cost)
        if not self._counted:
            self._meter.miss()
        self._added, self._counted = UNKNOWN_USAGE, False
        return step

    def _call(self, step: StepBuilder, event: Mapping[str, Any], call: Mapping[str, Any]) -> None:
        function = mapping(call.get("function")) or call
        name = text(function.get("name")) or text(event.get("tool_name"))
        arguments, action = openai_arguments(function.get("arguments", REDACTED)), event.get("action")
        if arguments in (None, REDACTED) and isinstance(action, dict):
            arguments = {key: value for key, value in action.items() if key != "kind"}
        self.builder.add_call(step, text(event.get("tool_call_id")) or text(call.get("id")), name, arguments)

    def _update(self, event: Mapping[str, Any]) -> None:
        key, value = event.get("key"), event.get("value")
        if key == "full_state":
            state = mapping(value)
            self.add_state(state)
            self.set_status(state.get("execution_status", state.get("agent_status")))
            self._count(_metrics(mapping(state.get("stats"))))
        elif key == "stats":
            self._count(_metrics(mapping(value)))
        elif key in ("execution_status", "agent_status"):
            self.set_status(value)

    def set_status(self, status: object) -> None:
        self._status = text(status).lower() or self._status
        if self._status == "running":
            self._error = ""

    def _count(self, metrics: Mapping[str, Any]) -> None:
        if not metrics:
            return
        self._stats = metrics
        self._model = self._model or text(metrics.get("model_name"))
        added = self._meter.read(metrics)
        if self._meter.moved:
            self._added, self._counted = added, True

    def _fail(self, kind: str, event: Mapping[str, Any], time: int | None) -> None:
        detail = text(event.get("detail"))
        code = "MaxIterationsReached" if kind == "ConversationIterationLimitEvent" else text(event.get("code"))
        cap = whole(event.get("max_iterations"))
        self._cap = self._cap if cap is None else cap
        self._error = ": ".join(filter(None, (code, detail)))
        self.builder.add_event("fault", time, what=one_line(self._error))

    def run(self, run_id: str) -> Run | None:
        row = self._row
        if not row.run_id and self.builder.is_empty:
            return None
        error = self._error or row.error
        stop, limits = self._end(error)
        self.builder.state("metrics", **row.totals)
        self.builder.state("stats", **totals_of(self._stats))
        return self.builder.build(
            run_id,
            stop,
            agent=row.agent or NAME,
            model=self._model,
            task=row.task,
            success=row.success,
            error=one_line(error) or None,
            limits={"steps": self._cap, **limits},
        )

    def _end(self, error: str) -> tuple[Stop, dict[str, int]]:
        builder, steps = self.builder, self.builder.steps
        if self._status == "finished":
            return builder.stop("finished"), {}
        if error or self._status == "error":
            return ending(builder, error, self._cap)
        if self._status == "stuck":
            return builder.stop("stuck"), {}
        if self._status in ("paused", "waiting_for_confirmation"):
            return builder.stop("paused"), {}
        if not builder.truncated and steps and any(call.name == "finish" for call in steps[-1].calls):
            return builder.stop("finished"), {}
        return builder.stop(builder.stop_reason()), {}


def _metrics(stats: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metrics of the agent's model, among those of a condenser and others."""
    uses = mapping(stats.get("usage_to_metrics"))
    for name in (*_AGENTS, *uses):
        if name in uses and "condenser" not in name:
            return mapping(uses[name])
    return {}


def _result(kind: str, event: Mapping[str, Any]) -> tuple[str, bool | None]:
    """What a call gave, and whether it is an error; None if that is not known."""
    if kind == "AgentErrorEvent":
        return text(event.get("error")), True
    if kind == "UserRejectObservation":
        return text(event.get("rejection_reason")), True
    observation = mapping(event.get("observation"))
    return _content(observation), _is_failure(observation)


def _content(observation: Mapping[str, Any]) -> str:
    for name in ("content", "output", "message", "text"):
        if observation.get(name):
            return content_text(observation[name])
    return text(observation.get("error"))


def _images(observation: Mapping[str, Any]) -> tuple[Image, ...]:
    """Those of the content, and the picture of a browser's window."""
    screenshot = text(observation.get("screenshot_data"))
    blocks = [*items(observation.get("content")), *([{"type": "image", "data": screenshot}] if screenshot else [])]
    return images_of(blocks)


def _is_failure(observation: Mapping[str, Any]) -> bool | None:
    code = observation.get("exit_code")
    if code is None:
        code = mapping(observation.get("metadata")).get("exit_code")
    if observation.get("is_error") is True or text(observation.get("error")):
        return True
    if isinstance(code, int) and not isinstance(code, bool):
        return None if code == -1 else code != 0
    return False if "is_error" in observation or "error" in observation else None
