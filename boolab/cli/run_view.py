"""A run while it runs: its transcript on a terminal or in a pipe, JSON lines, or its final answer alone.

All three get the same calls: the beginning, each event, each step when it is complete, and the end.
`boolab.core.events` lists the events. Texts of models and tools go through `boolab.cli.terminal`, which removes control
characters.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from boolab.cli.terminal import Sheet, is_terminal
from boolab.core.events import DURING_STEP
from boolab.core.run import Run, stop_place
from boolab.core.text import count, flatten, replace_controls
from boolab.core.types import Event, Step, Usage
from boolab.display.numbers import duration
from boolab.display.transcript import ending, fold_lines, format_limit, format_result, happenings, usage
from boolab.errors import program

_INDENT: Final = " " * 5
_EVENT_CHARS: Final = 500
_AT_ONCE: Final = DURING_STEP | {"subagent"}
"""Events that are shown in the middle of a step; all other exceptional ones are shown after the step."""
_ELSEWHERE: Final = frozenset(
    {"reasoning", "text", "tool_call", "tool_result", "dropped", "broken", "abort", "sentinel", "synthesis", "stop"}
)
"""Events that the step, or the end, shows."""
_DOING: Final = {"text": "answering", "reasoning": "thinking"}


class RunHeader(NamedTuple):
    """What is known of a run before it begins."""

    agent: str
    model: str
    policy: str
    root: str
    task: str
    limits: Mapping[str, int]
    record: Path


class RunView:
    """Shows a run: each method is called when its part of the run is there. This one shows nothing."""

    def begin(self, opening: RunHeader) -> None:
        """The run begins."""

    def event(self, event: Event) -> None:
        """Something happened."""

    def step(self, step: Step, progress: Mapping[str, int | None]) -> None:
        """A step is complete; `progress` are the counters after it."""

    def tick(self) -> None:
        """Time has passed."""

    def interrupt(self) -> None:
        """The user interrupts the run."""

    def end(self, run: Run, exit_code: int) -> None:
        """The run has ended, and its record is written."""


def view_of(stream: TextIO, errors: TextIO, *, quiet: bool = False, as_json: bool = False) -> RunView:
    """The view for a stream. From quiet views and JSON lines, `errors` gets the reason of a run that did not finish."""
    if as_json:
        return Lines(stream, errors)
    return FinalAnswer(stream, errors) if quiet else Transcript(Sheet(stream, terminal=is_terminal(stream)))


class Guarded(RunView):
    """A view on a stream that may be closed, such as a pipe: it then calls `leave` once, and shows nothing more."""

    def __init__(self, view: RunView, leave: Callable[[], object]) -> None:
        self._leave = leave
        self.left = False
        for name in ("begin", "event", "step", "tick", "interrupt", "end"):
            setattr(self, name, self._guard(getattr(view, name)))

    def _guard(self, show: Callable[..., None]) -> Callable[..., None]:
        def call_guarded(*arguments: object) -> None:
            if self.left:
                return
            try:
                show(*arguments)
            except OSError:
                self.left = True
                self._leave()

        return call_guarded


class Transcript(RunView):
    """A run as its transcript shows it, while it runs, with a status line below on a terminal; `now` gives seconds."""

    def __init__(self, sheet: Sheet, now: Callable[[], float] = time.monotonic) -> None:
        self._sheet = sheet
        self._now = now
        self._began = self._since = now()
        self._limits: Mapping[str, int] = {}
        self._progress: Mapping[str, int | None] = {}
        self._record = Path()
        self._steps = 0
        """How many steps were shown."""
        self._number = 0
        self._doing = ""
        self._open = ""
        """What is being written: text or reasoning."""
        self._streamed: set[str] = set()
        self._calls = 0
        self._numbered = False
        self._held: list[Event] = []

    def begin(self, opening: RunHeader) -> None:
        sheet, room = self._sheet, self._sheet.room
        self._began, self._limits, self._record = self._now(), opening.limits, opening.record
        sheet.line(f"━━ {flatten(opening.agent) or 'no agent'} ".ljust(room, "━"), "bold")
        facts = [f"{name} {flatten(str(getattr(opening, name)))}" for name in ("model", "policy", "root")]
        limits = ", ".join(format_limit(name, value) for name, value in opening.limits.items())
        for text in ("   ".join(facts), f"limits {limits or 'none'}", f"record {opening.record}"):
            for line in fold_lines(text, 3, "   ", width=room):
                sheet.line(line, "dim")
        sheet.line("")
        for line in fold_lines(opening.task, 4, "  user │ ", "       │ ", room):
            sheet.line(line)

    def event(self, event: Event) -> None:
        if event.kind == "step_start":
            self._start(event.payload["step_number"])
        elif event.kind == "delta":
            self._show_delta(event.payload["of"], event.payload["text"])
        elif event.kind in _ELSEWHERE:
            return
        elif event.kind in _AT_ONCE or not self._number:
            self._show_event(event)
        else:
            self._held.append(event)
        self.tick()

    def _start(self, number: int) -> None:
        self._number, self._open, self._calls, self._numbered = number, "", 0, False
        self._streamed = set()
        self._do("waiting for the model")
        self._sheet.line("")

    def _do(self, activity: str) -> None:
        if activity != self._doing:
            self._doing, self._since = activity, self._now()

    def _show_delta(self, kind: str, delta: str) -> None:
        self._streamed.add(kind)
        if kind == "tool_call":
            self._call(delta)
            return
        if kind != self._open:
            self._open = kind
            mark, style = ("~ ", "dim") if kind == "reasoning" else ("", "")
            head = self._head()
            self._sheet.begin(f"{head}{mark}", " " * len(head + mark), style)
        self._sheet.write(delta)
        self._do(_DOING.get(kind, kind))

    def _head(self) -> str:
        """What a line of the step begins with: the first one with its number."""
        head = _INDENT if self._numbered else f"{self._number:>3}. "
        self._numbered = True
        return head

    def _call(self, call: str) -> None:
        self._open = ""
        self._calls += 1
        self._sheet.line(f"{self._head()}-> {flatten(call)}")
        self._do(flatten(call).partition(" ")[0])

    def _show_event(self, event: Event) -> None:
        self._open = ""
        for line in happenings([event], _EVENT_CHARS):
            for part in fold_lines(line.removeprefix(_INDENT), 3, _INDENT, f"{_INDENT}   ", self._sheet.room):
                self._sheet.line(part, "yellow")
        if event.kind == "retry":
            self._do("waiting for another attempt")

    def _show_held(self) -> None:
        events, self._held = self._held, []
        for event in events:
            self._show_event(event)

    def step(self, step: Step, progress: Mapping[str, int | None]) -> None:
        self._progress = progress
        self._show_rest(step)
        if step.error:
            self._sheet.line(f"{_INDENT}!! {flatten(step.error)}", "red")

    def _show_rest(self, step: Step) -> None:
        """Show what of a step was not streamed, the results of its calls, and what it took."""
        response = step.response
        for kind, text in (("reasoning", response.reasoning), ("text", response.text)):
            if text and kind not in self._streamed:
                self._show_delta(kind, text)
        for call in response.tool_calls[self._calls :]:
            self._call(f"{call.name} {call.arguments}")
        has_several = len(step.results) > 1
        for call, result in zip(response.tool_calls, step.results, strict=True):
            tool_name = f"{flatten(call.name)} " if has_several else ""
            style = "dim" if result is not None and not result.is_error else "red"
            self._sheet.line(f"{_INDENT}<- {tool_name}{format_result(result)}", style)
        duration_text = "" if step.duration_ms is None else f"{duration(step.duration_ms)}, "
        self._sheet.line(f"{self._head()}{duration_text}{usage(response.usage)}", "dim")
        self._steps += 1
        self._number = 0
        self._show_held()

    def tick(self) -> None:
        if self._sheet.terminal:
            current_time = self._now()
            doing = f"{self._doing} {duration(int((current_time - self._since) * 10) * 100)}" if self._doing else ""
            self._sheet.status(
                status_line(self._steps + 1, self._progress, self._limits, current_time - self._began, doing)
            )

    def interrupt(self) -> None:
        self._open = ""
        self._sheet.line(
            f"{_INDENT}** interrupted: the run ends here; Ctrl-C again ends it without its record", "yellow"
        )

    def end(self, run: Run, exit_code: int) -> None:  # noqa: ARG002 - the ending shows it in words
        sheet = self._sheet
        sheet.end()
        for step in run.steps[self._steps :]:
            self._show_rest(step)
        self._show_held()
        sheet.line("")
        style = ""
        for line in ending(run, sheet.room):
            if not (style == "red" and line.startswith("      ")):  # a failure in more than one line
                style = "bold" if line.startswith("━") else "red" if line.startswith("   !!") else ""
            sheet.line(line, style)
        if run.stop_reason == "paused":
            sheet.line("   It waits for an answer: bl.resume(run, answer, ...) continues it.")
        name = shlex.quote(str(self._record))
        sheet.copyable_line(f"   record {self._record}")
        sheet.copyable_line(f"   to view it: {program()} report {name}", "dim")


def status_line(
    step: int, progress: Mapping[str, int | None], limits: Mapping[str, int], seconds: float, doing: str = ""
) -> str:
    """The state of a run, against its limits; counters that are missing are 0, None is not known."""
    cost, tokens = progress.get("cost", 0), Usage(progress.get("input_tokens", 0), progress.get("output_tokens", 0))
    cost_text = ("$?" if cost is None else f"${cost / 1_000_000:.4f}") if cost != 0 or "cost" in limits else ""
    time_limit = f" of {duration(limits['elapsed'])}" if "elapsed" in limits else ""
    parts = [
        f"step {step}{_format_limit(limits, 'steps')}",
        doing,
        f"{cost_text} of ${limits['cost'] / 1_000_000:,.2f}" if "cost" in limits else cost_text,
        _calls(progress.get("tool_calls") or 0, limits),
        usage(tokens) + _format_limit(limits, "tokens"),
        f"{int(seconds)} s{time_limit}",
    ]
    return " · ".join(part for part in parts if part)


def _calls(n: int, limits: Mapping[str, int]) -> str:
    return f"{n} of {count(limits['tool_calls'], 'call')}" if "tool_calls" in limits else count(n, "call")


def _format_limit(limits: Mapping[str, int], counter: str) -> str:
    return f" of {limits[counter]:,}" if counter in limits else ""


class _Machine(RunView):
    """The views for other programs: the reason of a run that did not finish is one line on `errors`."""

    def __init__(self, stream: TextIO, errors: TextIO) -> None:
        self._stream = stream
        self._errors = errors
        self._record = Path()

    def begin(self, opening: RunHeader) -> None:
        self._record = opening.record

    def _report_why(self, run: Run) -> None:
        if run.censored:
            reason = f": {run.error}" if run.error else f" by {run.stop.rule}" if run.stop.rule else ""
            line = flatten(f"boolab: the run ended with {run.stop_reason} {stop_place(run)}{reason}")
            print(f"{line}; its record is {self._record}", file=self._errors)


class Lines(_Machine):
    """The events as JSON, one a line; the last line names the record and the exit code."""

    def event(self, event: Event) -> None:
        self._write({"t_ms": event.t_ms, "kind": event.kind, **event.payload})

    def end(self, run: Run, exit_code: int) -> None:
        self._write({"kind": "record", "path": str(self._record), "exit_code": exit_code})
        self._report_why(run)

    def _write(self, row: Mapping[str, object]) -> None:
        # Escaped to ASCII: texts of models may hold what terminals and UTF-8 do not accept.
        self._stream.write(json.dumps(row, default=str) + "\n")
        self._stream.flush()


class FinalAnswer(_Machine):
    """The final answer alone."""

    def end(self, run: Run, exit_code: int) -> None:  # noqa: ARG002 - the exit code is the process's own
        if run.text:
            print(replace_controls(run.text), file=self._stream, flush=True)
        self._report_why(run)
