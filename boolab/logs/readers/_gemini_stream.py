"""What `gemini --output-format stream-json` prints: a line for each event, without ids of responses.

See `packages/core/src/output/types.ts` and `cli/src/nonInteractiveCli.ts` in github.com/google-gemini/gemini-cli.

- `init` begins a run, with its session and model. What stands before it is of the program that called Gemini.
- `message` lines of the assistant are pieces of a text; `tool_use` lines are calls. All calls of a response end before
  the next request, so that a response ends where results follow, and the next piece or call begins another one.
- `tool_result` has the status `success` or `error`. A shell command's exit code is no error, as in the sessions.
- `error` lines are faults, but for two: a loop that was detected, and the limit on turns, each of which ends the run.
- `result` has the figures of the whole run, which are an event `totals`: no line has those of one response.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from boolab.core.run import Run
from boolab.core.types import REDACTED, Stop, StopReason
from boolab.io.json_input import Damage, mapping, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import content_text, epoch_ms, make_unique, one_line
from boolab.logs.images import images_of
from boolab.logs.step_builder import StepBuilder

_KINDS: Final = ("init", "message", "tool_use", "tool_result", "error", "result")
_LOOP: Final = "Loop detected"
_TURNS: Final = ("Maximum session turns exceeded", "Reached max session turns")
_CANCELLED: Final = "FatalCancellationError"


def is_stream_line(line: Mapping[str, Any]) -> bool:
    """Whether this is a line of the stream: the one that opens it, a call, or a result of one."""
    kind = line.get("type")
    if kind == "init":
        return {"session_id", "model", "timestamp"} <= line.keys()
    return (kind == "tool_use" and {"tool_name", "tool_id", "parameters"} <= line.keys()) or (
        kind == "tool_result" and {"tool_id", "status"} <= line.keys()
    )


class Stream:
    """The runs that one file of such lines holds."""

    def __init__(self, source: str, damage: Damage) -> None:
        self._source = source
        self._damage = damage
        self._runs: list[_StreamRun] = []

    def take(self, line: Mapping[str, Any]) -> None:
        """Take the next line."""
        kind = text(line.get("type"))
        self._damage.note_kind(kind, _KINDS)
        if kind == "init" or not self._runs:
            self._runs.append(_StreamRun(RunBuilder(self._source, self._damage)))
        self._runs[-1].take(kind, line, epoch_ms(line.get("timestamp")))

    def runs(self) -> list[Run]:
        """The runs by the lines so far: those whose `init` is there, or all that have a response."""
        counts: Counter[str] = Counter()
        return [run.build(counts) for run in self._runs if run.session or run.builder.steps]


class _StreamRun:
    def __init__(self, builder: RunBuilder) -> None:
        self.builder = builder
        self.session = ""
        self._model = ""
        self._step: StepBuilder | None = None
        """The response whose pieces are being read; None once a result followed it."""
        self._stop: StopReason | Stop | None = None
        self._error: str | None = None
        self._has_result = False

    def take(self, kind: str, line: Mapping[str, Any], time: int | None) -> None:
        if kind == "init":
            self.session, self._model = text(line.get("session_id")), text(line.get("model"))
            self.builder.note_time(time)
        elif kind == "message" and line.get("role") == "user":
            self._step = None
            content = line.get("content")
            images = images_of(content)
            self.builder.add_message("user", content_text(content), opens_turn=True, time=time, images=images)
        elif kind == "message":
            if content := content_text(line.get("content")):
                self._response(time).text.append(content)
        elif kind == "tool_use":
            step = self._response(time)
            arguments = line.get("parameters", REDACTED)
            self.builder.add_call(step, text(line.get("tool_id")), text(line.get("tool_name")), arguments)
        elif kind == "tool_result":
            self._step = None
            self._add_result(line, time)
        elif kind == "error":
            self._note_error(text(line.get("message")), time)
        elif kind == "result":
            self._finish(line, time)

    def _response(self, time: int | None) -> StepBuilder:
        if self._step is None:
            self._stop = self._error = None
            self._step = self.builder.add_response(time, model=self._model)
        else:
            self.builder.extend_response(self._step, time)
        return self._step

    def _add_result(self, line: Mapping[str, Any], time: int | None) -> None:
        status = line.get("status")
        content = content_text(line.get("output")) or text(mapping(line.get("error")).get("message"))
        failed = status == "error" if status in ("success", "error") else None
        images = images_of(line.get("output"))
        self.builder.add_result(text(line.get("tool_id")), content, is_error=failed, time=time, images=images)

    def _note_error(self, message: str, time: int | None) -> None:
        self._step = None
        self.builder.add_event("fault", time, what=one_line(message))
        if message.startswith(_LOOP):
            self._stop = self.builder.stop("doom_loop", "loop detection")
        elif message.startswith(_TURNS):
            self._stop = self.builder.stop("step_cap", "maxSessionTurns")

    def _finish(self, line: Mapping[str, Any], time: int | None) -> None:
        self._step = None
        self._has_result = True
        self.builder.note_time(time)
        error, stats = mapping(line.get("error")), mapping(line.get("stats"))
        if line.get("status") == "error" and not isinstance(self._stop, Stop):
            message = text(error.get("message"))
            self._error = one_line(message) or text(error.get("type")) or "error"
            self._stop = "error"
            if message.startswith(_TURNS):
                self._stop, self._error = self.builder.stop("step_cap", "maxSessionTurns"), None
            elif error.get("type") == _CANCELLED:
                self._stop, self._error = "aborted", None
        figures = {name: whole(stats.get(name)) for name in ("input_tokens", "output_tokens")}
        self.builder.add_totals(**figures)
        # Those of subagents count, too, and a rejected call has no result.
        if (calls := whole(stats.get("tool_calls"))) is not None:
            self.builder.state("stats.tool_calls", results=(0, calls))

    def build(self, counts: Counter[str]) -> Run:
        for step in self.builder.steps:
            step.text = ["".join(step.text)]  # of its pieces
        stop = "aborted" if self._stop is None and self.builder.truncated and not self._has_result else self._stop
        run_id = make_unique(self.session or "stream", counts)
        return self.builder.build(run_id, stop, agent=self.builder.source, log_id=self.session, error=self._error)
