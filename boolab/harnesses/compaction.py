"""Compaction: when a conversation grows too long for a model, a summary replaces its first part.

The record keeps every message; only the request is shortened. A call and its result are always kept or summarised
together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from boolab.core.messages import Message
from boolab.errors import SettingError
from boolab.io.checks import repr_of

COMPACTION_PROMPT: Final = (
    "The conversation is about to be shortened. Summarise it for yourself, so that you can continue from the summary "
    "alone: the task, what was done, what was found, what is left, and every name, path and number still needed."
)

Summariser: TypeAlias = Callable[[Sequence[Message]], str | Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """When the history is summarised, and how.

    Attributes:
        at_tokens: The history is summarised when the context has more tokens than this. None: when the model's
            `context_window` is full up to the reserve; the history of a model without a known window is never
            summarised then.
        reserve: The number of tokens of the window that are kept free.
        small_window: In a window up to this size, in tokens, a share of it is kept free instead.
        small_share: That share.
        keep_steps: The number of latest steps that are not summarised.
        by: Who writes the summary: the `model`, or a function (plain or async) from the messages to a text.
        prompt: The message that requests a summary from the model.

    Raises:
        SettingError: if a value is not valid.

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
        for name, minimum in (("at_tokens", 1), ("reserve", 0), ("small_window", 0), ("keep_steps", 0)):
            value = getattr(self, name)
            unset = value is None and name == "at_tokens"
            if not unset and (type(value) is not int or value < minimum):
                raise SettingError(f"compaction: {name}={repr_of(value)}: expected an integer >= {minimum}")
        share: object = self.small_share
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            msg = f"compaction: small_share={repr_of(share)}: expected a share of the window, from 0 to less than 1"
            raise SettingError(msg)
        prompt: object = self.prompt
        if not isinstance(prompt, str) or not prompt.strip():
            raise SettingError(f"compaction: prompt={prompt!r}: expected a text that requests a summary")
        summariser: object = self.by
        if summariser != "model" and not callable(summariser):
            raise SettingError(f"compaction: by={self.by!r}: expected 'model', or a function from messages to a text")

    def limit(self, window: int | None) -> int | None:
        """The number of tokens above which the history is summarised.

        Args:
            window: The model's context window, in tokens; None if it is not known.

        Returns:
            The limit; None for never.
        """
        if self.at_tokens is not None or window is None:
            return self.at_tokens
        reserve = round(window * self.small_share) if window <= self.small_window else self.reserve
        return max(window - reserve, 1)

    def __str__(self) -> str:
        ending = f"keeps {self.keep_steps} step{'' if self.keep_steps == 1 else 's'}"
        if self.at_tokens is not None:
            return f"at {self.at_tokens:,} tokens, {ending}"
        small = f" ({self.small_share:.0%} of windows up to {self.small_window:,})" if self.small_window else ""
        return f"{self.reserve:,} tokens before the window is full{small}, {ending}"
