"""A harness as one value: its policies, limits, configuration files and export. Each has a module beside this one.

A harness is its module, with a `HARNESS`, and a line in `boolab.harnesses.registry`, which has what is looked up
without the module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

from boolab.core.types import Scope
from boolab.harnesses.policy import Policy
from boolab.limits.token_count import FRESH, TokenCount

if TYPE_CHECKING:
    from boolab.core.run import Run
    from boolab.harnesses.exports.values import Target

_MAX_DIGITS: Final = 20


class Native(NamedTuple):
    """A limit as a harness names it.

    How it is counted and where it is evaluated is in the harness's preset.
    """

    # the axis of boolab that it is; or `messages`, `working`, `rollout_tokens` or `compact_at`, which boolab has no
    # axis for
    axis: str
    unit: str = ""  # what it counts, in words; empty for those of the axis
    factor: float = 1  # how many of the axis's own units (tokens, dollars, seconds) one of its units is
    scope: Scope = "auto"  # whether it holds for a turn or for the whole run; `auto` is as the harness's other limits
    policy: str = ""  # the preset that counts it, where it is not that of the harness
    tokens: TokenCount = FRESH  # how Codex's budget counts the tokens of a session and its subagents
    # of a compaction threshold: how many tokens a value is in a run; None where the run does not show it
    tokens_in: Callable[[float, Run], int | None] | None = None


STEPS: Final = Native("max_steps")


def native_threshold(tokens_in: Callable[[float, Run], int | None]) -> Native:
    """A compaction threshold, by how many tokens a value of it is in a run."""
    return Native("compact_at", "tokens", scope="run", tokens_in=tokens_in)


class ConfigLimit(NamedTuple):
    """A limit in a configuration file."""

    name: str  # its name there
    value: object  # its value there: any JSON. What is no number above 0 is no limit
    agent: str | None = None  # the agent that it is for; None for every run that no other run started
    tokens: TokenCount = FRESH  # see `Native`


class ConfigFile(NamedTuple):
    """A configuration file of a harness."""

    paths: tuple[str, ...]  # where it is in a project, first to last; none if it is read only where it is named
    suffix: str  # its format: ".json" (with comments, too), ".toml" or ".yaml"
    source: str  # the source of the runs that its limits are for
    limits: Callable[[Mapping[str, Any]], Iterator[ConfigLimit]]  # the limits in its content
    has_hook: bool = False  # whether it has the hooks of Claude Code, among which may be boolab's


class AgentFiles(NamedTuple):
    """A folder of agent files: Markdown with front matter."""

    folder: str  # where it is in a project
    source: str  # the source of the runs that the limits are for
    keys: tuple[str, ...]  # the keys in the front matter that are limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """A harness."""

    presets: tuple[Policy, ...] = ()  # its policies
    # the sources of its logs, each with the preset that counts their limits; "" for none
    sources: Mapping[str, str] = field(default_factory=dict)
    # its own names of limits, by preset; by source where no preset counts them. The first name of a limit is that of
    # the limit in a log
    limits: Mapping[str, Mapping[str, Native]] = field(default_factory=dict)
    agent_files: tuple[AgentFiles, ...] = ()  # its folders of agent files
    config_files: tuple[ConfigFile, ...] = ()  # its configuration files
    default_agent: str = ""  # the agent of a run whose log names none
    target: Target | None = None  # how limits are exported to it; None if they are not
    adapter: str = ""  # the module of `boolab.integrations` for it


def number_of(value: object) -> object:
    """The number that a text of digits writes; any other value as it is."""
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < _MAX_DIGITS else value


def is_amount(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number that a limit or a weight can be."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53
