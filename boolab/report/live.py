"""A run as it goes: as a story on a terminal or in a pipe, as JSON lines, or its last word alone.

All three are told the same: how it begins, each event, each step as it completes, and the end. See `boolab.events` for
the events. What models and tools say goes through `boolab.report.sheet`, which lets no control character pass.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TextIO

from boolab.events import TOLD_AT_ONCE
from boolab.report.sheet import Sheet, is_terminal
from boolab.transcript import (
    count,
    duration,
    ending,
    flat,
    folded,
    happenings,
    limit_in_words,
    printable,
    result_in_words,
    usage,
)
from boolab.types import Event, Run, Step, Usage

_INDENT: Final = " " * 5
_EVENT_CHARS: Final = 500
_AT_ONCE: Final = TOLD_AT_ONCE | {"subagent"}
"""What is told in the middle of a step; all else that is exceptional is told after the step."""
_ELSEWHERE: Final = frozenset(
    {"reasoning", "text", "tool_call", "tool_result", "dropped", "broken", "abort", "sentinel", "synthesis", "stop"}
)
"""Events that the step, or the end, tells."""
_DOING: Final = {"text": "answering", "reasoning": "thinking"}


class Opening(NamedTuple):
    """What is known of a run before it begins."""

    agent: str
    model: str
    policy: str
    root: str
    task: str
    limits: Mapping[str, int]
    record: Path


class View(Protocol):
    """Somebody who is told of a run."""

    def begin(self, opening: Opening) -> None:
        """The run begins."""

    def event(self, event: Event) -> None:
        """Something happened."""

    def step(self, step: Step, progress: Mapping[str, int | None]) -> None:
        """A step is complete; `progress` are the counters after it."""

    def tick(self) -> None:
        """Time has passed."""

    def interrupt(self) -> None:
        """The user wants the run to end."""

    def end(self, run: Run, exit_code: int) -> None:
        """The run has ended, and its record is written."""


def view_of(stream: TextIO, errors: TextIO, *, quiet: bool = False, as_json: bool = False) -> View:
    """The view for a stream.

    Args:
        stream: Where the run is told.
        errors: Where a quiet view, and the one of JSON lines, say why a run did not finish.
        quiet: Tell the last word alone.
        as_json: Tell the events as JSON, one a line.
    """
    if as_json:
        return Lines(stream, errors)
    return LastWord(stream, errors) if quiet else Story(Sheet(stream, terminal=is_terminal(stream)))


class Guarded:
    """A view on a stream whose reader may leave, by closing a pipe or a terminal: the run ends then, told to nobody.

    Args:
        view: The view.
        leave: Called once, when the reader has left.
    """

    def __init__(self, view: View, leave: Callable[[], object]) -> None:
        self._view = view
        self._leave = leave
        self.left = False

    def begin(self, opening: Opening) -> None:
        """See `View`."""
        self._tell(self._view.begin, opening)

    def event(self, event: Event) -> None:
        """See `View`."""
        self._tell(self._view.event, event)

    def step(self, step: Step, progress: Mapping[str, int | None]) -> None:
        """See `View`."""
        self._tell(self._view.step, step, progress)

    def tick(self) -> None:
        """See `View`."""
        self._tell(self._view.tick)

    def interrupt(self) -> None:
        """See `View`."""
        self._tell(self._view.interrupt)

    def end(self, run: Run, exit_code: int) -> None:
        """See `View`."""
        self._tell(self._view.end, run, exit_code)

    def _tell(self, tell: Callable[..., None], *what: object) -> None:
        if self.left:
            return
        try:
            tell(*what)
        except OSError:  # a pipe that was closed, or a terminal
            self.left = True
            self._leave()


class Story:
    """A run as its transcript tells it, as it happens, with a status line below on a terminal.

    Args:
        sheet: Where to write.
        now: Seconds; only differences count.
    """

    def __init__(self, sheet: Sheet, now: Callable[[], float] = time.monotonic) -> None:
        self._sheet = sheet
        self._now = now
        self._began = self._since = now()
        self._limits: Mapping[str, int] = {}
        self._progress: Mapping[str, int | None] = {}
        self._record = Path()
        self._steps = 0
        """How many steps were told."""
        self._number = 0
        self._doing = ""
        self._open = ""
        """What is being said: text or reasoning."""
        self._heard: set[str] = set()
        self._calls = 0
        self._numbered = False
        self._held: list[Event] = []

    def begin(self, opening: Opening) -> None:
        """See `View`."""
        sheet, room = self._sheet, self._sheet.room
        self._began, self._limits, self._record = self._now(), opening.limits, opening.record
        sheet.line(f"━━ {flat(opening.agent) or 'no agent'} ".ljust(room, "━"), "bold")
        facts = [f"{name} {flat(str(getattr(opening, name)))}" for name in ("model", "policy", "root")]
        limits = ", ".join(limit_in_words(name, value) for name, value in opening.limits.items())
        for said in ("   ".join(facts), f"limits {limits or 'none'}", f"record {opening.record}"):
            for line in folded(said, 3, "   ", width=room):
                sheet.line(line, "dim")
        sheet.line("")
        for line in folded(opening.task, 4, "  user │ ", "       │ ", room):
            sheet.line(line)

    def event(self, event: Event) -> None:
        """See `View`."""
        if event.kind == "step_start":
            self._start(event.payload["step_number"])
        elif event.kind == "delta":
            self._hear(event.payload["of"], event.payload["text"])
        elif event.kind in _ELSEWHERE:
            return
        elif event.kind in _AT_ONCE or not self._number:
            self._happen(event)
        else:
            self._held.append(event)
        self.tick()

    def _start(self, number: int) -> None:
        self._number, self._open, self._calls, self._numbered = number, "", 0, False
        self._heard = set()
        self._do("waiting for the model")
        self._sheet.line("")

    def _do(self, what: str) -> None:
        if what != self._doing:
            self._doing, self._since = what, self._now()

    def _hear(self, of: str, delta: str) -> None:
        self._heard.add(of)
        if of == "tool_call":
            self._call(delta)
            return
        if of != self._open:
            self._open = of
            mark, style = ("~ ", "dim") if of == "reasoning" else ("", "")
            head = self._head()
            self._sheet.begin(f"{head}{mark}", " " * len(head + mark), style)
        self._sheet.write(delta)
        self._do(_DOING.get(of, of))

    def _head(self) -> str:
        """What a line of the step begins with: the first one with its number."""
        head = _INDENT if self._numbered else f"{self._number:>3}. "
        self._numbered = True
        return head

    def _call(self, call: str) -> None:
        self._open = ""
        self._calls += 1
        self._sheet.line(f"{self._head()}-> {flat(call)}")
        self._do(flat(call).partition(" ")[0])

    def _happen(self, event: Event) -> None:
        self._open = ""
        for line in happenings([event], _EVENT_CHARS):
            for part in folded(line.removeprefix(_INDENT), 3, _INDENT, f"{_INDENT}   ", self._sheet.room):
                self._sheet.line(part, "yellow")
        if event.kind == "retry":
            self._do("waiting for another attempt")

    def step(self, step: Step, progress: Mapping[str, int | None]) -> None:
        """See `View`."""
        self._progress = progress
        self._tell(step)
        if step.error:
            self._sheet.line(f"{_INDENT}!! {flat(step.error)}", "red")

    def _tell(self, step: Step) -> None:
        """Tell what of a step was not heard as it came, what its calls gave, and what it took."""
        response = step.response
        for of, said in (("reasoning", response.reasoning), ("text", response.text)):
            if said and of not in self._heard:
                self._hear(of, said)
        for call in response.tool_calls[self._calls :]:
            self._call(f"{call.name} {call.arguments}")
        many = len(step.results) > 1
        for call, result in zip(response.tool_calls, step.results, strict=True):
            whose = f"{flat(call.name)} " if many else ""
            style = "dim" if result is not None and not result.is_error else "red"
            self._sheet.line(f"{_INDENT}<- {whose}{result_in_words(result)}", style)
        took = "" if step.duration_ms is None else f"{duration(step.duration_ms)}, "
        self._sheet.line(f"{self._head()}{took}{usage(response.usage)}", "dim")
        self._steps += 1
        self._number = 0
        held, self._held = self._held, []
        for event in held:
            self._happen(event)

    def tick(self) -> None:
        """See `View`."""
        if self._sheet.terminal:
            now = self._now()
            doing = f"{self._doing} {duration(int((now - self._since) * 10) * 100)}" if self._doing else ""
            self._sheet.say(status_line(self._steps + 1, self._progress, self._limits, now - self._began, doing))

    def interrupt(self) -> None:
        """See `View`."""
        self._open = ""
        self._sheet.line(
            f"{_INDENT}** interrupted: the run ends here; Ctrl-C again leaves without its record", "yellow"
        )

    def end(self, run: Run, exit_code: int) -> None:  # noqa: ARG002 - the end says it in words
        """See `View`."""
        sheet = self._sheet
        sheet.end()
        for step in run.steps[self._steps :]:
            self._tell(step)
        held, self._held = self._held, []
        for event in held:
            self._happen(event)
        sheet.line("")
        style = ""
        for line in ending(run, sheet.room):
            if not (style == "red" and line.startswith("      ")):  # a failure in more than one line
                style = "bold" if line.startswith("━") else "red" if line.startswith("   !!") else ""
            sheet.line(line, style)
        if run.stop_reason == "paused":
            sheet.line("   It waits for an answer: bl.resume(run, answer, ...) goes on with it.")
        name = shlex.quote(str(self._record))
        sheet.whole(f"   record {self._record}")
        sheet.whole(f"   to look at it: boolab report {name}", "dim")


def status_line(
    step: int, progress: Mapping[str, int | None], limits: Mapping[str, int], seconds: float, doing: str = ""
) -> str:
    """Where a run stands, against its limits.

    Args:
        step: The number of the step under way.
        progress: Its counters; those that it does not know are 0, those that are None are not known.
        limits: Its limits, by counter.
        seconds: How long it has been going.
        doing: What it does now.

    Example:
        >>> status_line(3, {"tool_calls": 4, "cost": 4_000}, {"steps": 20, "cost": 500_000}, 12.3, "thinking 2 s")
        'step 3 of 20 · thinking 2 s · $0.0040 of $0.50 · 4 calls · tokens 0 in, 0 out · 12 s'
    """
    cost, tokens = progress.get("cost", 0), Usage(progress.get("input_tokens", 0), progress.get("output_tokens", 0))
    spent = ("$?" if cost is None else f"${cost / 1_000_000:.4f}") if cost != 0 or "cost" in limits else ""
    time_limit = f" of {duration(limits['elapsed'])}" if "elapsed" in limits else ""
    parts = [
        f"step {step}{_of(limits, 'steps')}",
        doing,
        f"{spent} of ${limits['cost'] / 1_000_000:,.2f}" if "cost" in limits else spent,
        f"{progress.get('tool_calls') or 0}{_of(limits, 'tool_calls')} calls",
        usage(tokens) + _of(limits, "tokens"),
        f"{int(seconds)} s{time_limit}",
    ]
    return " · ".join(part for part in parts if part)


def _of(limits: Mapping[str, int], counter: str) -> str:
    return f" of {limits[counter]:,}" if counter in limits else ""


class _Machine:
    """What the views for other programs share: why a run did not finish is one line on another stream."""

    def __init__(self, stream: TextIO, errors: TextIO) -> None:
        self._stream = stream
        self._errors = errors
        self._record = Path()

    def begin(self, opening: Opening) -> None:
        """See `View`."""
        self._record = opening.record

    def event(self, event: Event) -> None:
        """See `View`."""

    def step(self, step: Step, progress: Mapping[str, int | None]) -> None:
        """See `View`."""

    def tick(self) -> None:
        """See `View`."""

    def interrupt(self) -> None:
        """See `View`."""

    def _say_why(self, run: Run) -> None:
        if run.censored:
            why = f": {run.error}" if run.error else f" by {run.stop.rule}" if run.stop.rule else ""
            steps = count(run.n_steps, "step")
            said = flat(f"boolab: the run ended with {run.stop_reason} after {steps}{why}")
            print(f"{said}; its record is {self._record}", file=self._errors)


class Lines(_Machine):
    """The events as JSON, one a line; the last line names the record and the exit code.

    Args:
        stream: Where to write.
        errors: Where to say why a run did not finish.
    """

    def event(self, event: Event) -> None:
        """See `View`."""
        self._write({"t_ms": event.t_ms, "kind": event.kind, **event.payload})

    def end(self, run: Run, exit_code: int) -> None:
        """See `View`."""
        self._write({"kind": "record", "path": str(self._record), "exit_code": exit_code})
        self._say_why(run)

    def _write(self, row: Mapping[str, object]) -> None:
        # Escaped to ASCII: what a model says may hold what no terminal, and no UTF-8, takes.
        self._stream.write(json.dumps(row, default=str) + "\n")
        self._stream.flush()


class LastWord(_Machine):
    """The last word alone.

    Args:
        stream: Where to write.
        errors: Where to say why a run did not finish.
    """

    def end(self, run: Run, exit_code: int) -> None:  # noqa: ARG002 - the exit code says it itself
        """See `View`."""
        if run.text:
            print(printable(run.text), file=self._stream, flush=True)
        self._say_why(run)
