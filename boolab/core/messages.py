"""The messages of a run.

They are not stored beside its steps: `History` makes them from the steps, for the live loop and for the record alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias, overload

from boolab.core.text import count
from boolab.core.types import Image, Response, Step, ToolCall, ToolResult


class StepStart(NamedTuple):
    """The part that opens each assistant message: the step's number and when it started (ms)."""

    step_number: int
    started_at: int | None


class Text(NamedTuple):
    """A part of plain text."""

    text: str


class Reasoning(NamedTuple):
    """The model's reasoning, and the JSON text that its provider needs back with it (see `Response.opaque`)."""

    text: str
    opaque: str = ""


class Sentinel(NamedTuple):
    """The visible end of a run that a limit stopped. `kind` is `cap_hit`, `doom_loop` or `error_streak`."""

    kind: str
    text: str


Part: TypeAlias = StepStart | Text | Reasoning | ToolCall | ToolResult | Sentinel | Image
Role: TypeAlias = Literal["system", "user", "assistant", "tool", "sentinel"]


class Message(NamedTuple):
    """One message. Its parts are numbered by their place, so that no two can share a number."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The text of all text parts and sentinels, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text | Sentinel))


class Input(NamedTuple):
    """A message that came during the run: it stands before step `before`."""

    before: int
    message: Message


def response_message(step_number: int, started_at: int | None, response: Response) -> Message:
    """The assistant message of one step: part 0 is its `StepStart`, then reasoning, text and calls."""
    parts: list[Part] = [StepStart(step_number, started_at)]
    if response.reasoning or response.opaque:
        parts.append(Reasoning(response.reasoning, response.opaque))
    if response.text:
        parts.append(Text(response.text))
    parts += response.tool_calls
    return Message("assistant", tuple(parts))


def results_message(results: Sequence[ToolResult | None]) -> Message | None:
    """The message with the results of one step's calls, in call order; None if there are no results."""
    executed_results = tuple(r for r in results if r is not None)
    return Message("tool", executed_results) if executed_results else None


class History(Sequence[Message]):
    """The messages of a run: its prompt, then responses and results by step. Made when it is read.

    A model that does not read the history pays nothing for it; one that does finds each message built once, and the
    same object ever after.

    `steps`: the steps; the list may grow. `inputs`: the messages that came in between steps, in order; the list may
    grow. `missing`: what stands for the result of a call that was dropped; by default nothing does. It is given where
    the messages are for a model: no sentinels are among them then, and no responses that broke off. `cut_texts`: what
    is sent to a model in place of a result, by the number of its step and its place among the results.
    """

    def __init__(
        self,
        prompt: Sequence[Message],
        steps: Sequence[Step],
        inputs: Sequence[Input] = (),
        missing: str | None = None,
        cut_texts: Mapping[tuple[int, int], str] | None = None,
    ) -> None:
        self._messages = list(prompt)
        self._steps = steps
        self._inputs = inputs
        self._missing = missing
        self._cut_texts = cut_texts
        self._taken = 0
        self._seen = 0
        self._shown = False
        self.under_way: tuple[int, int | None, Response] | None = None
        """Number, start and response of a step that is not on record yet."""

    def _look(self) -> list[Message]:
        for step in self._steps[self._seen :] if self._seen < len(self._steps) else ():
            if not self._shown:
                self._take(step.index)
            if self._missing is None or not step.broke_off:
                if not self._shown:
                    self._messages.append(response_message(step.index, step.start_ms, step.response))
                answers = results_message(step.results if self._missing is None else self._all_results(step))
                if answers is not None:
                    self._messages.append(answers)
            self._seen += 1
            self._shown = False
        if self.under_way is not None and self.under_way[0] > self._seen and not self._shown:
            self._take(self.under_way[0])
            self._messages.append(response_message(*self.under_way))
            self._shown = True
        if not self._shown:
            self._take(self._seen + 1)
        return self._messages

    def _take(self, step: int) -> None:
        """Let in what came in before that step."""
        while self._taken < len(self._inputs) and self._inputs[self._taken].before <= step:
            message = self._inputs[self._taken].message
            if self._missing is None or message.role != "sentinel":
                self._messages.append(message)
            self._taken += 1

    def _all_results(self, step: Step) -> list[ToolResult]:
        results = [
            result or ToolResult(call.id, self._missing or "", is_error=True)
            for call, result in zip(step.response.tool_calls, step.results, strict=True)
        ]
        if self._cut_texts:
            texts = [
                self._cut_texts.get((step.index, call_index), result.content)
                for call_index, result in enumerate(results)
            ]
            return [result._replace(content=text) for result, text in zip(results, texts, strict=True)]
        return results

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        return self._look()[index]

    def __len__(self) -> int:
        return len(self._look())

    def __repr__(self) -> str:
        return f"<History of {count(len(self), 'message')}>"
