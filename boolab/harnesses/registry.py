"""The harnesses by name, and by what else leads to each. A harness's module is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from boolab.harnesses.harness import Harness


class Names(NamedTuple):
    """The names that lead to a harness.

    Attributes:
        presets: Its presets.
        sources: The sources of its logs.
        target: The name of its export target; "" for none.
        provider: The provider of the models of all its runs, as the price table has it; "" if that is unknown.
    """

    presets: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    target: str = ""
    provider: str = ""


HARNESSES: Final[Mapping[str, Names]] = {
    "boocode": Names(("boocode",)),
    "opencode": Names(("opencode_3631", "opencode_v1", "opencode_v2"), ("opencode",), "opencode"),
    "finish_aware": Names(("finish_aware",)),
    "claude_code": Names(("claude_code",), ("claude_code",), "claude-code", "anthropic"),
    "aider": Names(("aider",)),
    "cline": Names(("cline",), ("cline",)),
    "roo": Names(("roo",)),
    "autogpt": Names(("autogpt",)),
    "inspect_ai": Names(("inspect_react",), ("inspect",), "inspect"),
    "pydantic_ai": Names(("pydantic_ai",), target="pydantic-ai"),
    "mini_swe_agent": Names(("mini_swe_agent",), ("mini_swe_agent",), "mini-swe-agent"),
    "swe_agent": Names(("swe_agent",), ("swe_agent",)),
    "openhands": Names(("openhands", "openhands_classic"), ("openhands", "openhands_sdk")),
    "gemini_cli": Names(("gemini_cli", "gemini_subagent"), ("gemini",), "gemini-cli"),
    "autogen": Names(("autogen",)),
    "smolagents": Names(("smolagents",), target="smolagents"),
    "ai_sdk": Names(("ai_sdk",)),
    "langgraph": Names(("langgraph_react",), target="langgraph"),
    "langchain": Names(("langchain_agent", "langchain_middleware"), target="langchain"),
    "openai_agents": Names(("openai_agents",), target="openai-agents"),
    "goose": Names(("goose",)),
    "crush": Names(("crush",)),
    "openrouter": Names(("openrouter",)),
    "naive": Names(("naive",)),
    "codex": Names((), ("codex",), "codex", "openai"),
    "boolab": Names(target="boolab"),
    "tau_bench": Names((), ("tau_bench",)),
    "intercode": Names((), ("intercode",)),
}
"""By module of `boolab.harnesses`, which has a `HARNESS`. The presets have this order."""

PRESETS: Final[Mapping[str, str]] = {preset: name for name, names in HARNESSES.items() for preset in names.presets}
"""By preset, the harness."""
SOURCES: Final[Mapping[str, str]] = {source: name for name, names in HARNESSES.items() for source in names.sources}
"""By source, the harness. A source that is not here names none."""
_FIRST: Final = ("claude-code", "codex", "opencode", "gemini-cli", "boolab")
_TARGETS: Final = {names.target: name for name, names in HARNESSES.items() if names.target}
TARGETS: Final[Mapping[str, str]] = {target: _TARGETS[target] for target in (*_FIRST, *sorted({*_TARGETS} - {*_FIRST}))}
"""By export target, the harness: programs of their own first, then packages."""


def harness(name: str) -> Harness:
    """A harness by its name in `HARNESSES`.

    Example:
        >>> [*harness("codex").sources]
        ['codex']
    """
    found: Harness = import_module(f"boolab.harnesses.{name}").HARNESS
    return found


def harness_of_source(source: str | None) -> Harness | None:
    """The harness that writes the logs of a source; None if the source names none."""
    name = SOURCES.get(source or "")
    return None if name is None else harness(name)


def target_of_source(source: str | None) -> str | None:
    """The export target that is the harness of logs; None if they name none, or limits are not exported to it."""
    return HARNESSES.get(SOURCES.get(source or "", ""), Names()).target or None


def provider_of_source(source: str | None) -> str:
    """The provider of the models behind logs of a source; "" if that is unknown."""
    return HARNESSES.get(SOURCES.get(source or "", ""), Names()).provider


def all_harnesses() -> Iterator[Harness]:
    """Every harness; this imports all their modules."""
    return map(harness, HARNESSES)
