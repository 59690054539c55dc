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

if TYPE_CHECKING:
    from boolab.harnesses.exports.values import Target

_MAX_DIGITS: Final = 20


class Native(NamedTuple):
    """A limit as a harness names it.

    How it is counted and where it is evaluated is in the harness's preset.

    Attributes:
        axis: The axis of boolab that it is; or `messages`, `working` or `rollout_tokens`, which boolab has no axis for.
        unit: What it counts, in words; empty for those of the axis.
        factor: How many of the axis's own units (tokens, dollars, seconds) one of its units is.
        scope: Whether it holds for a turn or for the whole run; `auto` is as the harness's other limits.
        policy: The preset that counts it, where it is not that of the harness.
        weights: Of Codex's budget: what a token of output, and one of input that is not cached, counts.
    """

    axis: str
    unit: str = ""
    factor: float = 1
    scope: Scope = "auto"
    policy: str = ""
    weights: tuple[float, float] = (1.0, 1.0)


STEPS: Final = Native("max_steps")


class ConfigLimit(NamedTuple):
    """A limit in a configuration file.

    Attributes:
        name: Its name there.
        value: Its value there: any JSON. What is no number above 0 is no limit.
        agent: The agent that it is for; None for every run that no other run started.
        weights: See `Native`.
    """

    name: str
    value: object
    agent: str | None = None
    weights: tuple[float, float] = (1.0, 1.0)


class ConfigFile(NamedTuple):
    """A configuration file of a harness.

    Attributes:
        paths: Where it is in a project, first to last; none if it is read only where it is named.
        suffix: Its format: ".json" (with comments, too), ".toml" or ".yaml".
        source: The source of the runs that its limits are for.
        limits: The limits in its content.
        has_hook: Whether it has the hooks of Claude Code, among which may be boolab's.
    """

    paths: tuple[str, ...]
    suffix: str
    source: str
    limits: Callable[[Mapping[str, Any]], Iterator[ConfigLimit]]
    has_hook: bool = False


class AgentFiles(NamedTuple):
    """A folder of agent files: Markdown with front matter.

    Attributes:
        folder: Where it is in a project.
        source: The source of the runs that the limits are for.
        keys: The keys in the front matter that are limits.
    """

    folder: str
    source: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """A harness.

    Attributes:
        presets: Its policies.
        sources: The sources of its logs, each with the preset that counts their limits; "" for none.
        limits: Its own names of limits, by preset; by source where no preset counts them. The first name of a limit is
            that of the limit in a log.
        agent_files: Its folders of agent files.
        config_files: Its configuration files.
        default_agent: The agent of a run whose log names none.
        target: How limits are exported to it; None if they are not.
        adapter: The module of `boolab.integrations` for it.
    """

    presets: tuple[Policy, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, Native]] = field(default_factory=dict)
    agent_files: tuple[AgentFiles, ...] = ()
    config_files: tuple[ConfigFile, ...] = ()
    default_agent: str = ""
    target: Target | None = None
    adapter: str = ""


def number_of(value: object) -> object:
    """The number that a text of digits writes; any other value as it is."""
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < _MAX_DIGITS else value


def is_amount(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number that a limit or a weight can be."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53
