"""Builds the run of a session of Codex: its responses with their usage, which is reported apart from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from boolab.core.types import UNKNOWN_USAGE, Image, StopReason, Usage
from boolab.io.json_input import Damage, mapping, text, whole
from boolab.logs.builder import RunBuilder
from boolab.logs.fields import effort_of, name_or_none, one_line
from boolab.logs.step_builder import StepBuilder

SOURCE: Final = "codex"
_BUDGETS: Final = ("budget_limited", "session_budget_exceeded")
_TASKS: Final = ("task_started", "task_complete", "turn_started", "turn_complete")
_FIGURES: Final = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_output_tokens")


class CodexAccount:
    """Builds the run of a session, from its items or from its events."""

    def __init__(self, damage: Damage) -> None:
        self.builder = RunBuilder(SOURCE, damage)
        self.model = ""
        self.step: StepBuilder | None = None
        """The current response."""
        self.before_early: StepBuilder | None = None
        """The response before results that were written before their calls, if nothing else came since."""
        self._joined = False
        """Whether a call of the current response was written after its result."""
        self.hosted: set[str] = set()
        """The calls that the provider executes."""
        self.error = ""
        self._ahead = UNKNOWN_USAGE
        """A usage report that may belong to the next response."""
        self._ending: StopReason | None = None
        self._seen: dict[str, bool] = {}
        self._turns: list[int] = []
        self._reported: Mapping[str, Any] = {}
        self._before: tuple[int, int] | None = None
        """The input and output tokens of the thread before this rollout, which running totals of a fork include."""
        self._total: tuple[int, int] | None = (0, 0)
        """The latest running total; None if totals fell, so that they count no whole session."""
        self._partial = False
        """Whether the totals have more than the responses: those of a compaction, or of turns that were rolled back."""
        self._unreported: list[StepBuilder] = []
        """The aborted responses whose usage was not reported."""
        self._tier: str | None = None

    def open_context(self, context: Mapping[str, Any]) -> None:
        """Take the settings of the responses that follow."""
        self.model = text(context.get("model")) or self.model
        settings = mapping(mapping(context.get("collaboration_mode")).get("settings"))
        self.builder.effort = effort_of(context.get("effort"), settings.get("reasoning_effort"))
        self._tier = name_or_none(context.get("service_tier"))
        self.builder.note_origin(cwd=context.get("cwd"))

    def response_of(self, call_id: str, time: int | None) -> StepBuilder:
        """The response of a part that was written now: of the call with this id, or of "" for any other part."""
        early = bool(call_id) and self.builder.has_early_result(call_id)
        if early:
            self.step = self.step or self.before_early
        elif not call_id and self._joined and self.step is not None and self.step.complete:
            self.step = None
        step = self.part(time)
        self._joined = self._joined or early
        return step

    def part(self, time: int | None) -> StepBuilder:
        """The current response, or a new one, for a part that was written now."""
        if self.step is None:
            self.step = self.builder.add_response(time, model=self.model)
            self.step.usage, self._ahead = self._ahead, UNKNOWN_USAGE
            self.step.service_tier = self._tier
            self._ending = self.before_early = None
            self._joined = False
            self._seen = {}
        else:
            self.builder.extend_response(self.step, time)
        return self.step

    def add_message(self, content: str, time: int | None, *, opens_turn: bool, images: tuple[Image, ...] = ()) -> None:
        """Add a message of the role `user`. An item and an event with the same text are one message."""
        key = content.strip()
        if key.startswith("<turn_aborted>"):
            self._ending = "aborted"
        if not key or self._seen.get(key) in (opens_turn, True):
            return
        self._seen[key] = opens_turn
        if opens_turn:
            self._turns.append(len(self.builder.steps))
        self.builder.add_message("user", content, opens_turn=opens_turn, time=time, images=images)
        self.step = self.before_early = None

    def add_system(self, content: str, time: int | None) -> None:
        self.builder.add_message("system", content, opens_turn=False, time=time)
        self.step = self.before_early = None

    def compact(self, summary: str, time: int | None) -> None:
        self._ahead = UNKNOWN_USAGE
        self._partial = True
        self.builder.add_event("compaction", time)
        if summary:
            self.builder.add_message("user", summary, opens_turn=False, time=time)

    def count(self, info: Mapping[str, Any]) -> None:
        last = mapping(info.get("last_token_usage"))
        running = mapping(info.get("total_token_usage")) or last
        entered = whole(last.get("input_tokens"))
        self.builder.context_window = whole(info.get("model_context_window")) or self.builder.context_window
        if running == self._reported:
            self._settle(running, {})
        if running == self._reported or not entered:
            return
        self._run_on(mapping(info.get("total_token_usage")), last)
        usage = Usage(*(whole(last.get(name)) for name in _FIGURES))
        usage = usage._replace(cache_write_tokens=whole(last.get("cache_write_input_tokens")))
        steps = self.builder.steps
        if self.step is not None or (steps and steps[-1].usage is UNKNOWN_USAGE):
            steps[-1].usage = usage
        else:
            self._ahead = usage
        self._settle(running, last)
        self._reported = running
        self.step = None

    def _run_on(self, running: Mapping[str, Any], last: Mapping[str, Any]) -> None:
        """Note a running total, with the tokens of the response that it came with."""
        total, added = ((whole(row.get("input_tokens")), whole(row.get("output_tokens"))) for row in (running, last))
        entered, out = total
        if self._total is None or entered is None or out is None or entered < self._total[0] or out < self._total[1]:
            self._total = None
            return
        self._total = (entered, out)
        if self._before is None:
            self._before = (max(0, entered - (added[0] or 0)), max(0, out - (added[1] or 0)))

    def state_totals(self, *, forked: bool) -> None:
        """Pass the latest running total to the builder; that of a fork may count responses of its parent."""
        if self._total is not None and self._before is not None:
            entered, output = (after - start for after, start in zip(self._total, self._before, strict=True))
            lower = (0, 0) if self._partial or forked else (entered, output)
            self.builder.state("total_token_usage", input_tokens=(lower[0], entered), output_tokens=(lower[1], output))

    def _settle(self, running: Mapping[str, Any], last: Mapping[str, Any]) -> None:
        """Give aborted responses what the running total grew by beside the last report: often nothing."""
        waiting = [step for step in self._unreported if step.usage is UNKNOWN_USAGE]
        self._unreported = []
        if not waiting or not self._reported:
            return
        new, old, reply = ([whole(row.get(name)) for name in _FIGURES] for row in (running, self._reported, last))
        delta = [None if a is None or b is None else a - b - (c or 0) for a, b, c in zip(new, old, reply, strict=True)]
        if not any(delta) or (len(waiting) == 1 and all(figure is None or figure >= 0 for figure in delta)):
            for step in waiting:
                step.usage = Usage(*delta)

    def take(self, kind: str, event: Mapping[str, Any], time: int | None) -> None:
        if kind == "turn_aborted":
            reason = text(event.get("reason"))
            self.builder.add_event("abort", time, what=reason)
            self._end("token_budget" if reason in _BUDGETS else "aborted")
        elif kind == "error":
            self._fail(event, time)
        elif kind in _TASKS:
            self.step = None
            if isinstance(event.get("error"), dict):
                self._fail(event["error"], time)
        elif kind == "stream_error":
            self.builder.add_event("retry", time, what=one_line(text(event.get("message"))))
        elif kind == "thread_rolled_back":
            self._roll_back(whole(event.get("num_turns")) or 0, time)

    def _fail(self, event: Mapping[str, Any], time: int | None) -> None:
        self.error = one_line(text(event.get("message")))
        self.builder.add_event("fault", time, what=self.error)
        self._end("token_budget" if event.get("codex_error_info") in _BUDGETS else "error")

    def _end(self, reason: StopReason) -> None:
        self._ending = reason
        self._unreported += [step for step in self.builder.steps[-1:] if step.usage is UNKNOWN_USAGE]
        self._ahead = UNKNOWN_USAGE
        self.step = None

    def _roll_back(self, turns: int, time: int | None) -> None:
        if turns:
            self._partial = True
            length = self._turns[-turns] if turns <= len(self._turns) else 0
            del self._turns[-turns:]
            self.builder.rewind_to(length, time)
            self._ending = None
            self.step = None

    def stop(self) -> StopReason:
        if self._ending is not None:
            return self._ending
        if not self.builder.steps:
            return "aborted"
        waits = any(call.id not in self.hosted for call in self.builder.steps[-1].calls)
        return "aborted" if waits else "finished"
