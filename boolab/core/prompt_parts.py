"""The prompt of a request as a row of segments: what each part of it is, which step put it there, and how wide it is.

A log has the length of each prompt, not of its parts. Between two requests the prompt grows, and what grew is shared
between what the model wrote and what came in; `WidthKind` is how sure that is. A prompt that became shorter lost
something; after a compaction only its base is still what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, compress
from typing import Final, Literal, NamedTuple, TypeAlias

from boolab.core.context import CHARS_PER_TOKEN
from boolab.core.events import compactions_of
from boolab.core.messages import Message, Reasoning, Text
from boolab.core.redacted import chars_of
from boolab.core.run import Run
from boolab.core.types import REDACTED, Image, Step, ToolCall, ToolResult, Usage

PartKind: TypeAlias = Literal[
    "base", "user", "result", "call", "text", "reasoning", "summary", "unseen", "unallocated"
]  # fmt: skip
"""What a part of a prompt is. `base` is the system prompt with the list of tools; `unseen` is what no line of the log
has, such as reminders, and images of unknown size; `unallocated` is no part: it has the cost of requests that cannot be
divided."""

WidthKind: TypeAlias = Literal["measured", "shared", "estimated"]
"""How the width of a segment is known: one part took all that was added, several shared it by their characters, or it
rests on an assumption."""

_ORDER: Final[Mapping[WidthKind, int]] = {"measured": 0, "shared": 1, "estimated": 2}
COMPACTED: Final = 0.6
"""A prompt below this share of the last one was compacted, whether the log reports it or not."""
_CHARS_OF_PART: Final = 40
"""What surrounds the text of each part, in characters: names of fields, brackets and tags."""
_TOKENS_OF_PART: Final = 40
"""The same in tokens, as the most that it may be beyond one token for each character."""
_CHARS_PER_CUT_TOKEN: Final = 8
"""A response with fewer tokens for its characters is the beginning of a stream: Claude Code 2.1 writes such lines."""
_PIXELS_PER_TOKEN: Final = 750
_ROLES: Final[Mapping[str, PartKind]] = {"system": "base", "user": "user", "assistant": "text", "tool": "result"}


class PromptPart(NamedTuple):
    """What put tokens into prompts, and when: after `step`, 0 for what stood there before the first.

    `tool` is the tool of a call or a result, and `call` its place among the calls of the step.
    """

    kind: PartKind
    step: int
    turn: int
    tool: str = ""
    call: int | None = None


UNALLOCATED: Final = PromptPart("unallocated", 0, 1)


class SizedPart(NamedTuple):
    """A part with the characters of its text, by which it shares what was added beside images."""

    part: PromptPart
    chars: int
    image_tokens: int = 0
    """About how many tokens its images have."""

    @property
    def weight(self) -> int:
        """Its characters, with those that its images stand for."""
        return self.chars + CHARS_PER_TOKEN * self.image_tokens


@dataclass(slots=True, eq=False)
class Segment:
    """A part of the prompt, as wide as it is now.

    `first_request` is the number of the first request that had it, and `first_width` its width there. `amounts` is what
    it was charged, by how the requests were served and by the piece.
    """

    part: PromptPart
    width: int
    width_is: WidthKind
    first_request: int = 0
    first_width: int = 0
    amounts: dict[tuple[Hashable, int], list[int]] = field(default_factory=dict)

    def amounts_of(self, served: Hashable, piece: int) -> list[int]:
        """Its tokens and money of one piece, in requests that were served alike: to be added to."""
        return self.amounts.setdefault((served, piece), [0, 0])


class PromptChange(NamedTuple):
    """How a prompt differs from the one before it.

    `added` are the segments that are new, at its end; `removed` those that are no longer there; `left_tokens` is how
    many tokens went, and `first_changed` the place of the first segment with another width. `output_estimated` is about
    how many tokens the last response had, where the log has the beginning of its count.
    """

    event: str  # "", "compaction" or "shrunk"
    added: Sequence[Segment]
    width_is: WidthKind
    removed: Sequence[Segment] = ()
    left_tokens: int = 0
    first_changed: int | None = None
    output_estimated: int | None = None


def split_by_weight(total: int, weights: Sequence[int]) -> list[int]:
    """Integers in proportion to the weights that add up to the total, by largest remainder; equal without weights."""
    weight_sum = sum(weights)
    if not weight_sum:
        weights, weight_sum = [1] * len(weights), len(weights)
    shares = [total * weight // weight_sum for weight in weights]
    n_missing = total - sum(shares)
    if n_missing:
        less_remainders = [-(total * weight % weight_sum) for weight in weights]
        for index in sorted(range(len(weights)), key=less_remainders.__getitem__)[:n_missing]:
            shares[index] += 1
    return shares


def response_parts(step: Step) -> list[SizedPart]:
    """The parts of what the model wrote in a step. There is at least one: without any text on record it is text."""
    response = step.response
    parts = []
    if response.reasoning or response.usage.reasoning_tokens:
        parts.append(SizedPart(PromptPart("reasoning", step.index, step.turn), chars_of(response.reasoning)))
    if response.text:
        parts.append(SizedPart(PromptPart("text", step.index, step.turn), chars_of(response.text)))
    for index, call in enumerate(response.tool_calls):
        part = PromptPart("call", step.index, step.turn, call.name, index)
        parts.append(SizedPart(part, _call_chars(call) + _CHARS_OF_PART))
    return parts or [SizedPart(PromptPart("text", step.index, step.turn), 0)]


def split_output(step: Step, parts: Sequence[SizedPart]) -> list[int]:
    """The output tokens of a step by part: reasoning as the log counts it, the rest by characters."""
    output = step.response.usage.output_tokens or 0
    reasoning = step.response.usage.reasoning_tokens
    if reasoning is None or parts[0].part.kind != "reasoning":
        return split_by_weight(output, [part.chars for part in parts])
    if len(parts) == 1:
        return [output]
    reasoning = min(reasoning, output)
    return [reasoning, *split_by_weight(output - reasoning, [part.chars for part in parts[1:]])]


def has_prompt(usage: Usage) -> bool:
    """Whether the length of a prompt is on record: Codex counts no tokens of a response that was aborted early."""
    return usage.input_tokens is not None and bool(usage.input_tokens or usage.output_tokens)


def is_cut(step: Step) -> bool:
    """Whether the log has the beginning of a response's count of tokens only: far too few for its characters."""
    output = step.response.usage.output_tokens
    chars = chars_of(step.response.text) + sum(map(_call_chars, step.response.tool_calls))
    return output is not None and output * _CHARS_PER_CUT_TOKEN < chars


def _call_chars(call: ToolCall) -> int:
    return len(call.name) + (0 if call.arguments == REDACTED else chars_of(call.arguments))


def result_part(step: Step, index: int, call: ToolCall, result: ToolResult) -> SizedPart:
    """The part of the result of a step's call, which stands at `index` among them."""
    part = PromptPart("result", step.index, step.turn, call.name, index)
    return SizedPart(part, chars_of(result.content), tokens_of_images(result.images))


def message_parts(message: Message, step: int, turn: int) -> Iterator[SizedPart]:
    """The parts of a message that the model was sent. A sentinel is for people."""
    kind = _ROLES.get(message.role)
    if kind is None:
        return
    image_tokens = tokens_of_images(part for part in message.parts if isinstance(part, Image))
    for part in message.parts:
        if isinstance(part, Text):
            yield SizedPart(PromptPart(kind, step, turn), chars_of(part.text), image_tokens)
            image_tokens = 0
        elif isinstance(part, Reasoning):
            yield SizedPart(PromptPart("reasoning", step, turn), chars_of(part.text))
        elif isinstance(part, ToolCall):
            yield SizedPart(PromptPart("call", step, turn, part.name), _call_chars(part))
        elif isinstance(part, ToolResult):
            yield SizedPart(PromptPart("result", step, turn), chars_of(part.content), tokens_of_images(part.images))
    if image_tokens:
        yield SizedPart(PromptPart(kind, step, turn), 0, image_tokens)


def tokens_of_images(images: Iterable[Image]) -> int:
    """About how many tokens images have, as Anthropic counts them; none where the size is unknown.

    A provider may make an image smaller before: what a prompt grew by is the most that its images are given.
    """
    return sum(round((image.width or 0) * (image.height or 0) / _PIXELS_PER_TOKEN) for image in images)


class Prompt:
    """The segments of a run's prompt, request by request. Call `advance` with each step whose input is known.

    Args:
        run: The run. Its steps without a known input still add their parts to the next prompt.
    """

    def __init__(self, run: Run) -> None:
        self.segments: list[Segment] = []
        self.widths: list[int] = []
        """Those of the segments: to share what is lost among thousands of them, a list of numbers is quicker."""
        self.length = 0
        self._reasoning: list[int] = []
        """The places of segments with reasoning, and below of unseen ones: what a prompt loses first."""
        self._unseen: list[int] = []
        self._run = run
        self._compactions = compactions_of(run) or {}
        self._inputs: dict[int, list[Message]] = {}
        for step_index, message in run.inputs:
            self._inputs.setdefault(step_index, []).append(message)
        self._last: Step | None = None
        """The last step whose response has a count of tokens and is sent again."""
        self._others: list[SizedPart] = []
        """What came in since then, in order."""
        self._compacted = False

    def begin(self, step: Step) -> None:
        """Take what stands before a step: messages that came in, and a compaction."""
        for message in self._inputs.get(step.index, ()):
            self._others += message_parts(message, step.index - 1, step.turn)
        self._compacted |= step.index in self._compactions

    def advance(self, step: Step, number: int, settle: Callable[[Sequence[int]], None]) -> PromptChange:
        """Change the segments to those of the request of a step; it is the run's request `number`.

        `settle` is called with the places of segments, in order, before their widths change.
        """
        length = step.response.usage.input_tokens or 0
        growth = length - self.length
        if not self.segments:
            change = self._open(length)
        elif self._compacted or length < COMPACTED * self.length:
            change = self._compact(length, step, settle)
        elif growth < 0:
            change = self._shrink(-growth, settle)
        else:
            change = self._grow(growth)
        for position, segment in enumerate(change.added, len(self.segments)):
            segment.first_request, segment.first_width = number, segment.width
            if segment.part.kind == "reasoning" and segment.width:
                self._reasoning.append(position)
            elif segment.part.kind == "unseen" and segment.width:
                self._unseen.append(position)
        self.segments += change.added
        self.widths += [segment.width for segment in change.added]
        self.length = length
        self._last, self._others, self._compacted = None, [], False
        return change

    def end(self, step: Step) -> None:
        """Take what a step adds to the next prompt: its response, and the results of its calls."""
        if not step.broke_off:
            if not has_prompt(step.response.usage):
                self._others += response_parts(step)
            else:
                self._last = step
        for index, (call, result) in enumerate(zip(step.response.tool_calls, step.results, strict=True)):
            if result is not None:
                self._others.append(result_part(step, index, call, result))

    def _open(self, length: int) -> PromptChange:
        """The first request: what its messages may be by their characters, and the base before them."""
        prompt = chain.from_iterable(message_parts(message, 0, 1) for message in self._run.prompt)
        parts = [part for part in (*prompt, *self._others) if part.part.kind != "base" and part.weight]
        tokens = min(length, sum(-(-part.chars // CHARS_PER_TOKEN) + part.image_tokens for part in parts))
        widths = split_by_weight(tokens, [part.weight for part in parts])
        added = [Segment(PromptPart("base", 0, 1), length - tokens, "estimated")]
        added += [Segment(part.part, width, "estimated") for part, width in zip(parts, widths, strict=True)]
        return PromptChange("", added, "estimated")

    def _compact(self, length: int, step: Step, settle: Callable[[Sequence[int]], None]) -> PromptChange:
        settle(range(len(self.segments)))
        base, *removed = self.segments
        left_tokens = max(0, self.length - base.width)
        base.width = min(base.width, length)
        summary = Segment(PromptPart("summary", step.index - 1, step.turn), length - base.width, "estimated")
        self.segments, self.widths = [base], [base.width]
        self._reasoning, self._unseen = [], []
        return PromptChange("compaction", [summary], "estimated", removed, left_tokens, 0)

    def _shrink(self, missing: int, settle: Callable[[Sequence[int]], None]) -> PromptChange:
        """Take what is missing from reasoning, the latest first, then from what is unseen, then from all else."""
        taken_tokens: dict[int, int] = {}
        left_tokens = missing
        for positions in (self._reasoning, self._unseen):
            while left_tokens and positions:
                width = self.segments[positions[-1]].width
                taken_tokens[positions[-1]] = min(left_tokens, width)
                left_tokens -= taken_tokens[positions[-1]]
                if taken_tokens[positions[-1]] < width:
                    break
                positions.pop()
        if left_tokens:
            widths = self.widths[1:]
            for position, tokens in taken_tokens.items():
                widths[position - 1] -= tokens
            tokens = min(left_tokens, sum(widths))
            shares = split_by_weight(tokens, widths)
            for position in compress(range(len(shares)), shares):
                taken_tokens[position + 1] = taken_tokens.get(position + 1, 0) + shares[position]
            if tokens < left_tokens:
                taken_tokens[0] = left_tokens - tokens
        settle(sorted(taken_tokens))
        for position, tokens in taken_tokens.items():
            segment = self.segments[position]
            segment.width, segment.width_is = segment.width - tokens, "estimated"
            self.widths[position] = segment.width
        parts = [part.part for part in (*self._written(), *self._others)]
        added = [Segment(part, 0, "estimated") for part in parts]
        return PromptChange("shrunk", added, "estimated", (), missing, min(taken_tokens))

    def _written(self) -> list[SizedPart]:
        return [] if self._last is None else response_parts(self._last)

    def _grow(self, growth: int) -> PromptChange:
        """Share what was added: as many tokens as the model wrote are its response, the rest came in.

        Images have their estimate of what text leaves over; what remains is shared by characters.
        """
        other_parts, written_parts = self._others, self._written()
        text_tokens = sum(part.chars // 3 + 15 for part in other_parts)
        estimate, cut_short, shares = None, False, []
        if self._last is not None:
            shares = split_output(self._last, written_parts)
            cut_short = is_cut(self._last)
            if cut_short:
                image_tokens = sum(part.image_tokens for part in other_parts)
                estimate = max(sum(shares), growth - text_tokens - image_tokens)
        output = min(growth, max(sum(shares), 7 * (estimate or 0) // 10))
        if output != sum(shares):
            shares = split_by_weight(output, shares if sum(shares) else [part.chars for part in written_parts])
        rest = growth - output
        images = _image_widths(other_parts, max(0, rest - text_tokens))
        rest -= sum(images)
        unseen = max(0, rest - sum(part.chars + _TOKENS_OF_PART for part in other_parts))
        widths = split_by_weight(rest - unseen, [part.chars + _CHARS_OF_PART for part in other_parts])
        widths = [width + image for width, image in zip(widths, images, strict=True)]
        guess = bool(unseen) or any(images) or cut_short
        width_kind: WidthKind = "estimated" if guess else "measured" if len(other_parts) <= 1 else "shared"
        written_kind: WidthKind = "estimated" if cut_short else "measured" if len(written_parts) <= 1 else "shared"
        added = [Segment(part.part, width, written_kind) for part, width in zip(written_parts, shares, strict=True)]
        added += [Segment(part.part, width, width_kind) for part, width in zip(other_parts, widths, strict=True)]
        if unseen:
            last_step = self._last or self._run.steps[0]
            added.append(Segment(PromptPart("unseen", last_step.index, last_step.turn), unseen, "estimated"))
        return PromptChange("", added, worst_width([s.width_is for s in added if s.width]), output_estimated=estimate)


def _image_widths(parts: Sequence[SizedPart], most: int) -> list[int]:
    """The tokens of the images of each part: as estimated, in sum at most `most`."""
    tokens = [part.image_tokens for part in parts]
    return split_by_weight(min(most, sum(tokens)), tokens)


def worst_width(kinds: Iterable[WidthKind]) -> WidthKind:
    """The least certain of some kinds of width; measured without any."""
    return max(kinds, key=lambda kind: _ORDER[kind], default="measured")


def edges_of(widths: Iterable[int], start: int = 0) -> list[int]:
    """Where each segment begins, and where the last one ends."""
    return [*accumulate(widths, initial=start)]
