"""Compaction: when a conversation grows too long for a model, a summary replaces its first part.

The record keeps every message; only the request is shortened. A call and its result are always kept or summarised
together. Two lighter ways leave each call and its result in place: old results are cleared, which puts a line in place
of their text, and long results are cut when they come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from boolab.core.messages import Message
from boolab.core.text import count
from boolab.errors import SettingError
from boolab.io.checks import repr_of

COMPACTION_PROMPT: Final = (
    "The conversation is about to be shortened. Summarise it for yourself, so that you can continue from the summary "
    "alone: the task, what was done, what was found, what is left, and every name, path and number still needed."
)

CLEARED: Final = "This result was cleared to shorten the conversation."
"""What stands in place of a result that was cleared."""
_CUT: Final = "\n[{:,} characters were cut]\n"

Summariser: TypeAlias = Callable[[Sequence[Message]], str | Awaitable[str]]


_MINIMA: Final = {
    "at_tokens": 1, "reserve": 0, "small_window": 0, "keep_steps": 0, "clear_at": 1, "clear_keep": 0,
    "clear_at_least": 0, "cut_results": 0,
}  # fmt: skip
_OPTIONAL: Final = frozenset({"at_tokens", "clear_at", "cut_results"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """When the history is summarised, cleared or cut, and how.

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
        clear_at: Old results of tools are cleared when the context has more tokens than this: a line takes the place of
            their text, and stays there. None is never. Anthropic's `clear_tool_uses_20250919` has 100,000.
        clear_keep: The number of latest results that are not cleared; 3 there too.
        clear_at_least: The least number of tokens that a clearing removes, by estimate; else it waits. What is cleared
            changes the prompt, so that a cache misses all after it.
        clear_exclude: The names of tools whose results are never cleared.
        cut_results: The most characters of a result that are sent, from its beginning and its end. None is all.

    Raises:
        SettingError: if a value is not valid.

    Example:
        >>> import boolab as bl
        >>> bl.Compaction(reserve=20_000).limit(200_000)
        180000
        >>> print(bl.Compaction(at_tokens=150_000, clear_at=100_000, clear_exclude=("todo",)))
        at 150,000 tokens, keeps 1 step; clears results at 100,000 tokens, keeps 3 and those of todo
    """

    at_tokens: int | None = None
    reserve: int = 20_000
    small_window: int = 0
    small_share: float = 0.2
    keep_steps: int = 1
    by: Literal["model"] | Summariser = "model"
    prompt: str = COMPACTION_PROMPT
    clear_at: int | None = None
    clear_keep: int = 3
    clear_at_least: int = 0
    clear_exclude: tuple[str, ...] = ()
    cut_results: int | None = None

    def __post_init__(self) -> None:
        for name, minimum in _MINIMA.items():
            value = getattr(self, name)
            unset = value is None and name in _OPTIONAL
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
        tools: object = self.clear_exclude
        if not isinstance(tools, tuple | list) or not all(isinstance(name, str) for name in tools):
            raise SettingError(f"compaction: clear_exclude={repr_of(tools)}: expected names of tools in a tuple")
        object.__setattr__(self, "clear_exclude", tuple(tools))

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

    def cut_result(self, content: str) -> str | None:
        """The text that is sent of a long result; None where all of it is.

        Args:
            content: The result.

        Returns:
            Its beginning and its end with a note in between.
        """
        return (
            None
            if self.cut_results is None or len(content) <= self.cut_results
            else cut_text(content, self.cut_results)
        )

    def __str__(self) -> str:
        ending = f"keeps {count(self.keep_steps, 'step')}"
        if self.at_tokens is not None:
            when = f"at {self.at_tokens:,} tokens"
        else:
            small = f" ({self.small_share:.0%} of windows up to {self.small_window:,})" if self.small_window else ""
            when = f"{self.reserve:,} tokens before the window is full{small}"
        parts = [f"{when}, {ending}"]
        if self.clear_at is not None:
            tools = f" and those of {', '.join(self.clear_exclude)}" if self.clear_exclude else ""
            parts.append(f"clears results at {self.clear_at:,} tokens, keeps {self.clear_keep:,}{tools}")
        if self.cut_results is not None:
            parts.append(f"cuts results to {count(self.cut_results, 'character')}")
        return "; ".join(parts)


def cut_text(content: str, chars: int) -> str:
    """The beginning and the end of a text, so many characters of it, with a note in between."""
    end = chars // 2
    return content[: chars - end] + _CUT.format(len(content) - chars) + content[len(content) - end :]
