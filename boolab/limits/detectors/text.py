"""Detectors of text: text that repeats itself, and text that contains a phrase.

Source of the first: Gemini CLI, packages/core/src/services/loopDetectionService.ts, with the same numbers and resets.
Gemini CLI reads a stream in pieces, which recordings do not keep; lines take their place here.

Where a recording has a placeholder instead of a text (`boolab.core.redacted`), a count is unknown from then on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final, TypeAlias

from boolab.core.redacted import is_redacted
from boolab.core.types import Response, StopReason
from boolab.errors import SettingError
from boolab.limits.call_identity import ObservedCall
from boolab.limits.stop import StopRule, detector_rule, stop_when

CHUNK: Final = 50
TIMES: Final = 10
MEAN_GAP: Final = 250
PERIODS: Final = 5
HISTORY: Final = 5000

_FENCE: Final = "```"
_ELEMENT: Final = re.compile(r"\s*(\|.*\||[|+-]{3,}|[*+]\s|\d+\.\s)|#+\s|>\s")
"""A line that begins a table, a list item, a heading or a quotation."""
_DIVIDER: Final = re.compile(r"[+-_*\u2500-\u257f]+")
"""The range of the source: from + to _, so digits and capitals match too."""

_State: TypeAlias = tuple[str, int, bool, int | None]


@dataclass(frozen=True, slots=True)
class RepeatedText:
    """In how many responses so far the text began to repeat itself.

    It does when a chunk of 50 characters occurs for the 10th time, the last 10 are at most 250 characters apart on
    average, and there are at most 5 different texts between them. Only the last 5000 characters count, without code
    blocks. Tables, lists, headings, quotations, dividers, tool calls and a detection reset it.
    """

    meaning: ClassVar[str] = "the same text again and again"
    name: ClassVar[str] = "repeated_text"
    reason: ClassVar[StopReason] = "stuck"
    least: ClassVar[int] = 1
    start: ClassVar[_State] = ("", 0, False, 0)

    def fold(self, state: _State, call: ObservedCall) -> tuple[_State, int | None]:
        return state, state[3]

    def close(self, state: _State, response: Response) -> tuple[_State, int | None]:
        history, n_indexed, fenced, count = state
        if count is None or is_redacted(response.text):
            return ("", 0, False, None), None
        if response.text:
            window = _Window(history, n_indexed)
            for line in response.text.splitlines(keepends=True):
                fences = line.count(_FENCE)
                divider = _DIVIDER.fullmatch(line.rstrip("\r\n")) is not None
                if fences or divider or _ELEMENT.match(line):
                    window = _Window()
                skipped = fenced or fences % 2 == 1 or divider
                fenced ^= fences % 2 == 1
                if not skipped and window.repeats_with(line):
                    window, count = _Window(), count + 1
                    break
            history, n_indexed = window.text, window.n_indexed
        if response.tool_calls:
            history, n_indexed = "", 0
        return (history, n_indexed, fenced, count), count


class _Window:
    """The last text, and where each chunk in it begins."""

    def __init__(self, text: str = "", n_indexed: int = 0) -> None:
        self.text = text
        self.n_indexed = n_indexed
        self._positions: dict[str, list[int]] = {}
        for index in range(n_indexed):
            self._positions.setdefault(text[index : index + CHUNK], []).append(index)

    def repeats_with(self, line: str) -> bool:
        """Append a line, and return whether the text repeats itself now."""
        self.text += line
        excess = len(self.text) - HISTORY
        if excess > 0:
            self.text = self.text[excess:]
            self.n_indexed = max(0, self.n_indexed - excess)
            shifted_positions = (
                (chunk, [p - excess for p in positions if p >= excess]) for chunk, positions in self._positions.items()
            )
            self._positions = {chunk: positions for chunk, positions in shifted_positions if positions}
        for index in range(self.n_indexed, len(self.text) - CHUNK + 1):
            positions = self._positions.setdefault(self.text[index : index + CHUNK], [])
            positions.append(index)
            if len(positions) >= TIMES and self._repeats(positions[-TIMES:]):
                return True
        self.n_indexed = max(self.n_indexed, len(self.text) - CHUNK + 1)
        return False

    def _repeats(self, positions: list[int]) -> bool:
        if positions[-1] - positions[0] > MEAN_GAP * (TIMES - 1):
            return False
        gap_texts = {self.text[a:b] for a, b in pairwise(positions)}
        return len(gap_texts) <= PERIODS


@dataclass(frozen=True, slots=True)
class TextContains:
    """How many responses so far contained a text. The count never falls.

    Attributes:
        text: The text to look for; upper and lower case are not the same.

    Example:
        >>> import boolab as bl
        >>> bl.detectors.TextContains("APPROVE").name
        'text_contains:APPROVE'
    """

    meaning: ClassVar[str] = "text contains"
    reason: ClassVar[StopReason] = "finished"
    least: ClassVar[int] = 1
    start: ClassVar[int | None] = 0

    text: str

    @property
    def name(self) -> str:
        return f"text_contains:{self.text}"

    def fold(self, state: int | None, call: ObservedCall) -> tuple[int | None, int | None]:
        return state, state

    def close(self, state: int | None, response: Response) -> tuple[int | None, int | None]:
        if state is not None:
            state = None if is_redacted(response.text) else state + (self.text in response.text)
        return state, state


def repeated_text(n: int = 1) -> StopRule:
    """Stop with `stuck` when the text of n responses so far repeated itself: see `boolab.limits.detectors.text`.

    Args:
        n: How many responses, 1 or more.

    Raises:
        SettingError: if n is not an integer >= 1.

    Source: Gemini CLI, loopDetectionService.ts.

    Example:
        >>> import boolab as bl
        >>> str(bl.detectors.repeated_text())
        'repeated_text(1)'
    """
    return detector_rule("repeated_text", RepeatedText(), n)


def text_contains(text: str) -> StopRule:
    """Stop with `finished` once a response has contained a text. Combined with `&` it stays true, as in AutoGen.

    Args:
        text: The text to look for; upper and lower case are not the same.

    Raises:
        SettingError: if it is not a string, or an empty one.

    Source: AutoGen's TextMentionTermination.

    Example:
        >>> import boolab as bl
        >>> str(bl.max_steps(3) & bl.detectors.text_contains("APPROVE"))
        "max_steps(3) & text_contains('APPROVE')"
    """
    value: object = text
    if not isinstance(value, str) or not value:
        raise SettingError(f"text_contains({text!r}): expected a text that is not empty")
    return stop_when(TextContains(text), 1, label=f"text_contains({text!r})")
