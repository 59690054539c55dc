"""Compaction: when a conversation grows too long for a model, what came first is replaced by a summary.

The record keeps every message; only what is sent to the model is shortened. A step's calls and their results are kept
or summarised together, so that none is ever sent without the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from boolab.core.types import Message
from boolab.errors import SettingError

COMPACTION_PROMPT: Final = (
    "The conversation is about to be shortened. Summarise it for yourself, so that you can go on from the summary "
    "alone: the task, what was done, what was found, what is left, and every name, path and number still needed."
)

Summariser: TypeAlias = Callable[[Sequence[Message]], str | Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """When the history is summarised, and how.

    Attributes:
        at_tokens: The size of the context, in tokens, beyond which it is. None: where the model's `context_window` is
            full up to the reserve (a model without one is never compacted then).
        reserve: How many tokens of the window are kept free.
        small_window: In windows up to this size a share is kept free instead.
        small_share: That share.
        keep_steps: How many of the latest steps are kept whole.
        by: Who writes the summary: the `model`, or a function (plain or async) from the messages to a text.
        prompt: The message that asks the model for a summary.

    Raises:
        SettingError: if a value is not one that makes sense.

    Example:
        >>> import boolab as bl
        >>> bl.Compaction(reserve=20_000).limit(200_000)
        180000
    """

    at_tokens: int | None = None
    reserve: int = 20_000
    small_window: int = 0
    small_share: float = 0.2
    keep_steps: int = 1
    by: Literal["model"] | Summariser = "model"
    prompt: str = COMPACTION_PROMPT

    def __post_init__(self) -> None:
        for name, least in (("at_tokens", 1), ("reserve", 0), ("small_window", 0), ("keep_steps", 0)):
            value = getattr(self, name)
            if value is None and name == "at_tokens":
                continue
            if type(value) is not int or value < least:
                msg = f"compaction: {name}={value!r}: expected an integer >= {least}"
                raise SettingError(msg)
        share: object = self.small_share
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            msg = f"compaction: small_share={share!r}: expected a share of the window, from 0 to less than 1"
            raise SettingError(msg)
        prompt: object = self.prompt
        if not isinstance(prompt, str) or not prompt.strip():
            msg = f"compaction: prompt={prompt!r}: expected a text that asks for a summary"
            raise SettingError(msg)
        given: object = self.by
        if given != "model" and not callable(given):
            msg = f"compaction: by={self.by!r}: expected 'model', or a function from messages to a text"
            raise SettingError(msg)

    def limit(self, window: int | None) -> int | None:
        """The size in tokens beyond which the history is summarised; None for never.

        Args:
            window: The model's context window, in tokens; None where it is not known.

        Returns:
            The limit, in tokens.
        """
        if self.at_tokens is not None or window is None:
            return self.at_tokens
        reserve = round(window * self.small_share) if window <= self.small_window else self.reserve
        return max(window - reserve, 1)

    def __str__(self) -> str:
        kept = f"keeps {self.keep_steps} step{'' if self.keep_steps == 1 else 's'}"
        if self.at_tokens is not None:
            return f"at {self.at_tokens:,} tokens, {kept}"
        small = f" ({self.small_share:.0%} of windows up to {self.small_window:,})" if self.small_window else ""
        return f"{self.reserve:,} tokens before the window is full{small}, {kept}"
