"""The record of a turn while it is made: its messages, its events, and what the logger `boolab.loop` gets.

Nothing here decides anything, and nothing that decides reads the events.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from typing import Any, Final

from boolab.core.context import MIN_RESULT_CHARS, Context, chars_per_token, estimated_tokens
from boolab.core.events import DURING_STEP, FaultKind
from boolab.core.messages import History, Input, Message, Part, Sentinel, StepStart, Text
from boolab.core.run import Compacted, Run, WrapUp
from boolab.core.text import flatten
from boolab.core.types import Event, Step, ToolResult
from boolab.errors import describe
from boolab.harnesses.compaction import CLEARED, Compaction

log = logging.getLogger("boolab.loop")
log.addHandler(logging.NullHandler())

NOT_EXECUTED: Final = "This call was not executed."
"""What stands for the result of a dropped call, if there is another request."""
_WARNED: Final = frozenset({"compaction_thrash", "fault", "ignored"})
"""The kinds of event that are logged as warnings."""
SUMMARY: Final = "The conversation so far was shortened. This is a summary of it:\n\n{}"


def from_user(text: str) -> Message:
    """A message that the model takes for the user's."""
    return Message("user", (Text(text),))


class TurnHistory:
    """The messages of a turn. `compaction` is what shortens them for the model, if anything does."""

    def __init__(self, prompt: tuple[Message, ...], compaction: Compaction | None = None) -> None:
        self.prompt = prompt
        self.steps: list[Step] = []  # the steps on record
        self.inputs: list[Input] = []  # what came in between them
        self.compactions: list[Compacted] = []  # what was summarised, or tried to
        self.cut_texts: dict[tuple[int, int], str] = {}  # what is sent of long results, by step and place
        self.cleared_results: set[tuple[int, int]] = set()  # the results that were cleared, likewise
        self.messages = History(prompt, self.steps, self.inputs, NOT_EXECUTED, self.cut_texts)  # all messages
        # what is sent to the model: all messages, or what a compaction left of them
        self.sent: Sequence[Message] = self.messages
        self.next_message = len(prompt)  # the place of the message to come
        self.changed_requests: set[int] = (
            set()
        )  # the steps before whose requests something of the last one was taken away
        self._compaction = compaction
        self._summary: tuple[Message, int] | None = None  # the latest summary, and the first step that it leaves
        self._seen_chars = self._seen_tokens = 0  # of results and messages, where usage shows what they were

    def add(self, step: Step, answered: bool) -> None:
        """Put a step on record; `answered`: whether one of its calls has a result."""
        self.steps.append(step)
        self.next_message += 2 if answered else 1
        if self._compaction is not None:
            self._calibrate()

    def cut_results(self) -> Iterator[dict[str, Any]]:
        """Cut the long results of the latest step, before they are sent: for each the facts of an event."""
        compaction, step = self._compaction, self.steps[-1]
        if compaction is None or compaction.cut_results is None:
            return
        for call_index, result in enumerate(step.results):
            text = None if result is None else compaction.cut_result(result.content)
            if result is not None and text is not None:
                self.cut_texts[step.index, call_index] = text
                facts = {
                    "call_id": result.call_id,
                    "tool": step.response.tool_calls[call_index].name,
                    "call": call_index + 1,
                }
                yield {**facts, "chars": len(result.content), "sent": compaction.cut_results}

    def _calibrate(self) -> None:
        """Learn from the input of the latest request how many tokens the results before it were."""
        if len(self.steps) < 2 or self.steps[-1].index in self.changed_requests:  # noqa: PLR2004 - a request and the next
            return
        previous, usage = self.steps[-2], self.steps[-1].response.usage
        previous_usage = previous.response.usage
        if usage.input_tokens is None or previous_usage.input_tokens is None or previous_usage.output_tokens is None:
            return
        tokens = usage.input_tokens - previous_usage.input_tokens - previous_usage.output_tokens
        chars = sum(len(content) for _, content in self._sent_results(previous))
        if tokens > 0 and chars >= MIN_RESULT_CHARS:
            chars += sum(len(message.text) for index, message in self.inputs if index == previous.index + 1)
            self._seen_tokens += tokens
            self._seen_chars += chars

    @property
    def chars_per_token(self) -> float:
        """The characters of a token in this turn."""
        return chars_per_token(self._seen_chars, self._seen_tokens)

    def _sent_results(self, step: Step) -> Iterator[tuple[int, str]]:
        """The results of a step that were executed, as they are sent before they are cleared: place and text."""
        for call_index, result in enumerate(step.results):
            if result is not None:
                yield call_index, self.cut_texts.get((step.index, call_index), result.content)

    def put(self, message: Message) -> None:
        """Put a message before the next step."""
        self.inputs.append(Input(len(self.steps) + 1, message))
        self.next_message += 1

    def tokens(self) -> int:
        """How many tokens the next request may have: what the last one is known to have had, and what came after."""
        if self.steps and (not self.compactions or self.compactions[-1].before <= len(self.steps)):
            last = self.steps[-1]
            usage = last.response.usage
            tokens_in, tokens_out = usage.input_tokens, usage.output_tokens
            if tokens_in is not None and tokens_out is not None:
                chars = sum(len(content) for _, content in self._sent_results(last))
                chars += sum(len(message.text) for index, message in self.inputs if index > last.index)
                return tokens_in + tokens_out + ceil(chars / self.chars_per_token)
        return estimated_tokens(self.sent, self.chars_per_token)

    @property
    def summary_end(self) -> int:
        """The first step that no compaction has summed up."""
        return max((compacted.kept_from for compacted in self.compactions if not compacted.fault), default=1)

    def messages_up_to(self, number: int) -> Sequence[Message]:
        """What is sent of all that comes before a step."""
        return self.sent[: len(self.sent) - (len(self.messages) - self._place_of(number))]

    def send_summary(self, compacted: Compacted) -> None:
        """Send a summary from now on in place of what it sums up."""
        self._summary = (from_user(SUMMARY.format(compacted.summary)), compacted.kept_from)
        self.changed_requests.add(compacted.before)
        self.update_sent()

    def results_to_clear(self) -> list[tuple[int, int]]:
        """The steps and places of the results that a clearing would clear now: the oldest come first."""
        compaction = self._compaction
        if compaction is None:
            return []
        candidates = []
        for step in self.steps[self.summary_end - 1 :]:
            for call_index, content in self._sent_results(step):
                is_excluded = step.response.tool_calls[call_index].name in compaction.clear_exclude
                is_cleared = (step.index, call_index) in self.cleared_results
                if len(content) > len(CLEARED) and not is_cleared and not is_excluded:
                    candidates.append((step.index, call_index))
        return candidates[: max(0, len(candidates) - compaction.clear_keep)]

    def tokens_of(self, results: Iterable[tuple[int, int]]) -> int:
        """About how many tokens the prompt has less once these results are cleared."""
        contents = [dict(self._sent_results(self.steps[number - 1]))[call_index] for number, call_index in results]
        return int(sum(len(content) - len(CLEARED) for content in contents) / self.chars_per_token)

    def clear(self, results: Iterable[tuple[int, int]], before: int) -> None:
        """Send a line in place of these results from now on: from the request of step `before`."""
        self.cleared_results.update(results)
        self.changed_requests.add(before)
        self.update_sent()

    def update_sent(self) -> None:
        """Make the list that is sent: the prompt or the summary, messages without what was cleared, then the rest."""
        start = 0
        head: tuple[Message, ...] = ()
        if self._summary is not None:
            summary, kept_from = self._summary
            start, head = self._place_of(kept_from), (*self.prompt, summary)
        end = self._place_of(max(self.cleared_results)[0] + 1) if self.cleared_results else 0
        if end > start:
            start, head = end, (*head, *self._without_cleared(self.messages[start:end]))
        self.sent = Context(head, self.messages, start)

    def _without_cleared(self, messages: Iterable[Message]) -> Iterator[Message]:
        number = 0
        for message in messages:
            if message.parts and isinstance(message.parts[0], StepStart):
                number = message.parts[0].step_number
            is_cleared = [
                message.role == "tool" and (number, call_index) in self.cleared_results
                for call_index, _ in enumerate(message.parts)
            ]
            if any(is_cleared):
                parts = zip(message.parts, is_cleared, strict=True)
                yield Message("tool", tuple(_clear_part(part) if clears else part for part, clears in parts))
            else:
                yield message

    def _place_of(self, number: int) -> int:
        """The place in the history where a step begins, with the messages that came in before it."""
        read = [index for index, message in self.inputs if message.role != "sentinel"]
        if number > len(self.steps):
            return len(self.messages) - sum(index >= number for index in read)
        position = len(self.prompt) + sum(index < number for index in read)
        return position + sum(1 + (len(step.results) > 0) for step in self.steps[: number - 1] if not step.broke_off)


def _clear_part(part: Part) -> Part:
    return part._replace(content=CLEARED) if isinstance(part, ToolResult) else part


@dataclass(slots=True, eq=False)
class TurnRecord:
    """What a turn has recorded besides its history."""

    run_id: str
    parent_run_id: str | None  # that of the run that started it
    started_at: datetime | None  # when it began; None under a virtual clock
    on_event: Callable[[Event], object] | None  # called with each event
    _now: Callable[[], int]
    _history: TurnHistory
    _in_step: Callable[[], bool]
    events: list[Event] = field(default_factory=list)  # the exceptional events
    pending: list[Event] = field(default_factory=list)  # those of the step under way
    error: str | None = None  # what ended the turn, if that was an error
    wrap_up: WrapUp | None = None  # the summary after a limit
    earlier_wrap_ups: tuple[WrapUp, ...] = ()  # those of limits after which the turn was resumed
    sentinel: Sentinel | None = None  # the visible end after a limit
    synthesis: str | None = None  # the text that ended the turn in place of the model's
    task: str | None = None  # the task's name, where a log has another one than the prompt
    earlier_subagents: tuple[Run, ...] = ()  # the runs that an earlier run of the same turn started

    def note(self, kind: str, **payload: Any) -> None:  # noqa: ANN401 - facts of every kind
        """Record something exceptional. What happens within a step is reported after it, candidates at once."""
        in_step, n_steps = self._in_step(), len(self._history.steps)
        if kind in _WARNED:
            facts = {"event": kind, "run_id": self.run_id, "step": n_steps + in_step}
            log.warning("run %s: %s", flatten(self.run_id), flatten(payload["what"]), extra=facts)
        if in_step and kind in DURING_STEP:
            facts = {"after_step": n_steps + 1, "step_number": n_steps + 1, **payload}
            self.report(Event(self._now(), kind, facts))
            return
        self.pending.append(Event(self._now(), kind, payload))
        if not in_step:
            self.report_pending()

    def fault(self, code: FaultKind, what: str) -> None:
        """Record that something failed, which does not end the run."""
        self.note("fault", code=code, what=what)

    def report_pending(self) -> None:
        """Put on record, and report, what happened within the step that has just ended."""
        while self.pending:
            t_ms, kind, payload = self.pending.pop(0)
            self.report(Event(t_ms, kind, {"after_step": len(self._history.steps), **payload}))

    def report(self, event: Event) -> None:
        """Put an exceptional event on record, and pass it on."""
        self.events.append(event)
        self.emit(event)

    def emit(self, event: Event) -> None:
        """Pass an event to `on_event`. If that fails, it is not called again, and the run continues."""
        if self.on_event is None:
            return
        try:
            self.on_event(event)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self.on_event = None
            log.exception("run %s: on_event failed and is not called again", self.run_id)
            self.fault("on_event", f"on_event failed: {describe(error)}")

    def write_sentinel(self, kind: str, text: str) -> None:
        """End the run's messages with a visible sentinel."""
        self.sentinel = Sentinel(kind, text)
        self.note("sentinel", sentinel=kind, text=text)


def log_dropped(run_id: str, step: Step) -> None:
    """Warn of the calls of a step that were paid for and not executed."""
    dropped = [call.name for call in step.dropped]
    facts = {"event": "dropped", "run_id": run_id, "step": step.index, "tools": dropped}
    names = flatten(", ".join(dropped))
    log.warning("run %s: step %d: tool calls dropped: %s", flatten(run_id), step.index, names, extra=facts)


def log_end(run: Run) -> None:
    """Log why the loop was left, and by which rule if one stopped it."""
    if not log.isEnabledFor(logging.INFO):
        return
    stop = run.stop
    facts = {
        "run_id": run.run_id,
        "step": stop.step,
        "stop_reason": stop.reason,
        "stop_rule": stop.rule,
        "stop_threshold": stop.threshold,
        "stop_value": stop.value,
    }
    if stop.rule is not None:
        log.info(
            "run %s: stopped by %s at step %d: %s, value %s",
            flatten(run.run_id),
            stop.reason,
            stop.step,
            flatten(stop.rule),
            stop.value,
            extra={"event": "stop", **facts},
        )
    log.info(
        "run %s: left the loop: %s after %d steps, %d tool calls",
        flatten(run.run_id),
        stop.reason,
        run.n_steps,
        run.n_tool_calls,
        extra={"event": "end", **facts, "n_steps": run.n_steps, "n_tool_calls": run.n_tool_calls},
    )
