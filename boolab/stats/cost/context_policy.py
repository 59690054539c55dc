"""`ContextPolicy`: when a context is compacted or cleared, and for how long its cache lives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from boolab.errors import SettingError, near
from boolab.harnesses.presets import Presets
from boolab.io.checks import MAX_COUNT, is_whole, repr_of

CacheLifetime: TypeAlias = Literal["recorded", "5m", "1h"]
_LIFETIMES: Final = ("recorded", "5m", "1h")
_MINIMUMS: Final[Mapping[str, int]] = {
    "compact_at": 1,
    "keep_steps": 0,
    "summary_tokens": 1,
    "clear_at": 1,
    "clear_keep": 0,
    "clear_at_least": 0,
    "cut_results": 0,
    "cold_at": 1,
}
_OPTIONAL: Final = frozenset({"compact_at", "summary_tokens", "clear_at", "cut_results", "cold_at"})
_CLEAR: Final[Mapping[str, Any]] = MappingProxyType({"clear_at": 100_000, "clear_keep": 3})
"""`clear_tool_uses_20250919` of Anthropic's context editing, with its defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPolicy:
    """When a context is compacted or cleared, and for how long its cache lives. See `bl.context_costs`.

    Attributes:
        compact_at: Before a request with more tokens, a summary replaces the history. None is as recorded: the
            compactions on record stay; once anything else has changed, compaction is where the record's own was
            (the median of its lengths), or never without any.
        keep_steps: The number of latest steps that a compaction leaves as they are.
        summary_tokens: The tokens of a summary; None for the median of the recorded ones of the same harness, 6,000
            without any, and at most 9,000.
        clear_at: Before a request with more tokens, old results of tools are cleared, each to a line of 20 tokens.
        clear_keep: The number of latest results that are not cleared.
        clear_at_least: The least number of tokens that a clearing removes; else it waits.
        clear_exclude: The tools whose results are never cleared.
        cut_results: The most characters of a result that are sent.
        cold_at: Before a request with more tokens whose cache is lost anyway, the context is compacted.
        fresh_at: The steps before which the context is compacted in any case, and no step is kept.
        images: Whether the images of results are sent; without them, those of unknown size stay.
        cache: The lifetime of what is written to the cache: as `recorded`, `5m` or `1h`.

    Raises:
        SettingError: if a value is not valid.

    Example:
        >>> import boolab as bl
        >>> str(bl.ContextPolicy(compact_at=70_000, keep_steps=1))
        'compact_at=70,000, keep_steps=1'
    """

    compact_at: int | None = None
    keep_steps: int = 0
    summary_tokens: int | None = None
    clear_at: int | None = None
    clear_keep: int = 3
    clear_at_least: int = 0
    clear_exclude: tuple[str, ...] = ()
    cut_results: int | None = None
    cold_at: int | None = None
    fresh_at: tuple[int, ...] = ()
    images: bool = True
    cache: CacheLifetime = "recorded"

    def __post_init__(self) -> None:
        for name, minimum in _MINIMUMS.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            if not is_whole(value) or not minimum <= value <= MAX_COUNT:
                or_none = ", or None" if name in _OPTIONAL else ""
                raise SettingError(f"{name}={repr_of(value)}: expected an integer >= {minimum}{or_none}")
        for name, kind in (("clear_exclude", str), ("fresh_at", int)):
            values: object = getattr(self, name)
            if isinstance(values, str) or not _are_all(values, kind):
                noun = "names of tools" if kind is str else "numbers of steps"
                raise SettingError(f"{name}={repr_of(values)}: expected {noun} in a list or a tuple")
            object.__setattr__(self, name, tuple(values))  # type: ignore[arg-type] # checked in the line above
        if not isinstance(self.images, bool):
            raise SettingError(f"images={repr_of(self.images)}: expected True or False")
        if self.cache not in _LIFETIMES:
            raise SettingError(f"cache={repr_of(self.cache)}: expected one of {', '.join(map(repr, _LIFETIMES))}")

    @staticmethod
    def preset(name: str, window: int | None = None) -> ContextPolicy:
        """A known policy by its name.

        Args:
            name: `anthropic_clear`: the clearing of old results by Anthropic's API, with its defaults; or the preset of
                a harness, for its own compaction.
            window: The model's context window, in tokens, which the compaction of a harness needs.

        Returns:
            The policy.

        Raises:
            SettingError: if there is no such policy, or it needs a window.

        Example:
            >>> import boolab as bl
            >>> bl.ContextPolicy.preset("opencode_v1", window=200_000).compact_at
            180000
        """
        if name == "anthropic_clear":
            return ContextPolicy(**_CLEAR)
        presets = Presets()
        compaction = presets[name].compaction if name in presets else None
        if compaction is None:
            names = [
                "anthropic_clear",
                *(preset for preset, policy in presets.items() if policy.compaction is not None),
            ]
            raise SettingError(f"no context policy is known as {name!r}{near(name, names, 'known', every=True)}")
        limit = compaction.limit(window)
        if limit is None:
            raise SettingError(f"the compaction of {name} depends on the window: preset({name!r}, window=200_000)")
        return ContextPolicy(
            compact_at=limit,
            keep_steps=compaction.keep_steps,
            clear_at=compaction.clear_at,
            clear_keep=compaction.clear_keep,
            clear_at_least=compaction.clear_at_least,
            clear_exclude=compaction.clear_exclude,
            cut_results=compaction.cut_results,
        )

    def __str__(self) -> str:
        words = [
            f"{field.name}={value:,}" if type(value) is int else f"{field.name}={value}"
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        ]
        return ", ".join(words) or "as recorded"


def _are_all(values: object, kind: type) -> bool:
    if not isinstance(values, list | tuple | set | frozenset):
        return False
    return all(is_whole(value) if kind is int else isinstance(value, kind) for value in values)
