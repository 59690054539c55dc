"""The harnesses by name, and by what else leads to each. A harness's module is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import chain, product
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from boolab.harnesses.harness import Harness


class HarnessNames(NamedTuple):
    """The names that lead to a harness."""

    presets: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # the sources of its logs
    target: str = ""  # the name of its export target; "" for none
    provider: str = ""  # the provider of the models of all its runs, as the price table has it; "" if that is unknown


HARNESSES: Final[Mapping[str, HarnessNames]] = {
    "boocode": HarnessNames(("boocode",)),
    "opencode": HarnessNames(("opencode_3631", "opencode_v1", "opencode_v2"), ("opencode",), "opencode"),
    "finish_aware": HarnessNames(("finish_aware",)),
    "claude_code": HarnessNames(("claude_code",), ("claude_code",), "claude-code", "anthropic"),
    "aider": HarnessNames(("aider",)),
    "cline": HarnessNames(("cline",), ("cline",)),
    "roo": HarnessNames(("roo",)),
    "autogpt": HarnessNames(("autogpt",)),
    "inspect_ai": HarnessNames(("inspect_react",), ("inspect",), "inspect"),
    "pydantic_ai": HarnessNames(("pydantic_ai",), target="pydantic-ai"),
    "mini_swe_agent": HarnessNames(("mini_swe_agent",), ("mini_swe_agent",), "mini-swe-agent"),
    "swe_agent": HarnessNames(("swe_agent",), ("swe_agent",)),
    "openhands": HarnessNames(("openhands", "openhands_classic"), ("openhands", "openhands_sdk")),
    "gemini_cli": HarnessNames(("gemini_cli", "gemini_subagent"), ("gemini",), "gemini-cli"),
    "autogen": HarnessNames(("autogen",)),
    "smolagents": HarnessNames(("smolagents",), target="smolagents"),
    "ai_sdk": HarnessNames(("ai_sdk",)),
    "langgraph": HarnessNames(("langgraph_react",), target="langgraph"),
    "langchain": HarnessNames(("langchain_agent", "langchain_middleware"), target="langchain"),
    "openai_agents": HarnessNames(("openai_agents",), target="openai-agents"),
    "goose": HarnessNames(("goose",)),
    "crush": HarnessNames(("crush",), ("crush",)),
    "openrouter": HarnessNames(("openrouter",)),
    "naive": HarnessNames(("naive",)),
    "codex": HarnessNames((), ("codex",), "codex", "openai"),
    "boolab": HarnessNames(target="boolab"),
    "tau_bench": HarnessNames((), ("tau_bench",)),
    "intercode": HarnessNames((), ("intercode",)),
}
"""By module of `boolab.harnesses`, which has a `HARNESS`. The presets have this order."""

PRESETS: Final[Mapping[str, str]] = dict(
    chain.from_iterable(product(names.presets, (name,)) for name, names in HARNESSES.items())
)
"""By preset, the harness."""
SOURCES: Final[Mapping[str, str]] = dict(
    chain.from_iterable(product(names.sources, (name,)) for name, names in HARNESSES.items())
)
"""By source, the harness. A source that is not here names none."""
_FIRST: Final = ("claude-code", "codex", "opencode", "gemini-cli", "boolab")
_TARGETS: Final = {names.target: name for name, names in HARNESSES.items() if names.target}
TARGETS: Final[Mapping[str, str]] = {target: _TARGETS[target] for target in (*_FIRST, *sorted({*_TARGETS} - {*_FIRST}))}
"""By export target, the harness: programs of their own first, then packages."""


def harness(name: str) -> Harness:
    """A harness by its name in `HARNESSES`."""
    value: Harness = import_module(f"boolab.harnesses.{name}").HARNESS
    return value


def harness_of_source(source: str | None) -> Harness | None:
    """The harness that writes the logs of a source; None if the source names none."""
    name = SOURCES.get(source or "")
    return None if name is None else harness(name)


def target_of_source(source: str | None) -> str | None:
    """The export target that is the harness of logs; None if they name none, or limits are not exported to it."""
    return HARNESSES.get(SOURCES.get(source or "", ""), HarnessNames()).target or None


def provider_of_source(source: str | None) -> str:
    """The provider of the models behind logs of a source; "" if that is unknown."""
    return HARNESSES.get(SOURCES.get(source or "", ""), HarnessNames()).provider


def all_harnesses() -> Iterator[Harness]:
    """Every harness; this imports all their modules."""
    return map(harness, HARNESSES)
