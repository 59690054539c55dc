"""The limits of each harness by its own names: what each counts, in which unit, and where it is declared.

How a limit is counted and where it is evaluated is in the harness's preset (`boolab.harnesses.presets`); this table
only has which of the preset's limits a name stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from boolab.core.types import Scope
from boolab.harnesses.front_matter import ALIASES
from boolab.harnesses.policy import Policy
from boolab.harnesses.presets import get_policy
from boolab.limits.table import LIMITS


class Native(NamedTuple):
    """A limit as a harness names it.

    Attributes:
        axis: The axis of boolab that it is; or `messages`, `working` or `rollout_tokens`, which boolab has no axis for.
        unit: What it counts, in words; empty for those of the axis.
        factor: How many of the axis's own units (tokens, dollars, seconds) one of its units is.
        scope: Whether it holds for a turn or for the whole run; `auto` is as the harness's other limits.
        policy: The preset that counts it, where it is not that of the harness.
    """

    axis: str
    unit: str = ""
    factor: float = 1
    scope: Scope = "auto"
    policy: str = ""
    weights: tuple[float, float] = (1.0, 1.0)
    """Of Codex's budget: what a token of output, and one of input that is not cached, counts."""


STEPS: Final = Native("max_steps")

HARNESSES: Final[Mapping[str, str]] = {
    "claude_code": "claude_code",
    "cline": "cline",
    "gemini": "gemini_cli",
    "inspect": "inspect_react",
    "mini_swe_agent": "mini_swe_agent",
    "opencode": "opencode_v1",
    "openhands": "openhands_classic",
    "openhands_sdk": "openhands",
    "swe_agent": "swe_agent",
}
"""The preset of each source whose logs come from one harness."""

_SUBAGENT_TURNS: Final = Native("max_steps", policy="gemini_subagent")
_SUBAGENT_MINUTES: Final = Native("max_time", "minutes", 60, policy="gemini_subagent")

NATIVE: Final[Mapping[str, Mapping[str, Native]]] = {
    # @anthropic-ai/claude-code 2.1.330, run (docs/cli_conformance.md): maxTurns in agent files, --max-turns,
    # --max-budget-usd, and CLAUDE_CODE_MAX_TURNS, also from `env` in its settings. max_turns is that of the agent SDK.
    "claude_code": {
        "maxTurns": STEPS,
        "max_turns": STEPS,
        "CLAUDE_CODE_MAX_TURNS": STEPS,
        "max_budget_usd": Native("max_cost"),
    },
    # github.com/google-gemini/gemini-cli, docs/core/subagents.md and docs/reference/configuration.md. In its client.ts
    # every request counts as a session turn, those with results of tools too.
    "gemini_cli": {
        "maxSessionTurns": Native("max_steps", scope="run"),
        "max_turns": _SUBAGENT_TURNS,
        "maxTurns": _SUBAGENT_TURNS,
        "timeout_mins": _SUBAGENT_MINUTES,
        "maxTimeMinutes": _SUBAGENT_MINUTES,
    },
    # inspect.aisi.org.uk, Setting Limits.
    "inspect_react": {
        "turn_limit": STEPS,
        "message_limit": Native("messages", "messages"),
        "token_limit": Native("max_tokens"),
        "cost_limit": Native("max_cost"),
        "time_limit": Native("max_time"),
        "working_limit": Native("working", "seconds of work"),
    },
    # opencode-ai 1.18.33, run (docs/cli_conformance.md): steps, and its old name, maxSteps.
    "opencode_v1": {"steps": STEPS, "maxSteps": STEPS},
    "opencode_v2": {"steps": STEPS, "maxSteps": STEPS},
    # mini-swe-agent 2, minisweagent/agents/default.py.
    "mini_swe_agent": {
        "step_limit": STEPS,
        "cost_limit": Native("max_cost"),
        "wall_time_limit_seconds": Native("max_time"),
    },
    # SWE-agent, sweagent/agent/models.py.
    "swe_agent": {"per_instance_call_limit": STEPS, "per_instance_cost_limit": Native("max_cost")},
    # OpenHands, config.template.toml; software-agent-sdk, local_conversation.py.
    "openhands_classic": {"max_iterations": STEPS, "max_budget_per_task": Native("max_cost")},
    "openhands": {"max_iteration_per_run": STEPS, "max_iterations": STEPS, "max_budget_per_run": Native("max_cost")},
    # The others: the names of their arguments, as in docs/harnesses.md.
    "langgraph_react": {"recursion_limit": STEPS},
    "langchain_agent": {"recursion_limit": STEPS},
    "langchain_middleware": {"run_limit": STEPS},
    "pydantic_ai": {
        "request_limit": STEPS,
        "tool_calls_limit": Native("tool_budget"),
        "total_tokens_limit": Native("max_tokens"),
        "cost_limit": Native("max_cost"),
    },
    "openai_agents": {"max_turns": STEPS},
    "autogen": {"max_tool_iterations": STEPS},
}
"""The names of limits, by preset."""

_OF_SOURCES: Final[Mapping[str, Mapping[str, Native]]] = {
    # Codex, [features.rollout_budget]: output, and input that is not cached, each with a weight.
    "codex": {"features.rollout_budget.limit_tokens": Native("rollout_tokens", "weighted tokens", scope="run")},
    "tau_bench": {"max_num_steps": STEPS},
    "intercode": {"max_turns": STEPS},
}
"""The same, for sources whose harness has no preset."""

_LOGGED: Final[Mapping[str, Mapping[str, str]]] = {
    "claude_code": {"steps": "maxTurns"},
    "inspect": {
        "steps": "turn_limit",
        "messages": "message_limit",
        "tokens": "token_limit",
        "cost": "cost_limit",
        "elapsed": "time_limit",
        "working": "working_limit",
    },
    "mini_swe_agent": {"steps": "step_limit", "cost": "cost_limit", "elapsed": "wall_time_limit_seconds"},
    "swe_agent": {"steps": "per_instance_call_limit", "cost": "per_instance_cost_limit"},
    "openhands": {"steps": "max_iterations", "cost": "max_budget_per_task"},
    "openhands_sdk": {"steps": "max_iteration_per_run", "cost": "max_budget_per_run"},
    "tau_bench": {"steps": "max_num_steps"},
    "intercode": {"steps": "max_turns"},
}
"""The harness's name for a limit of `Run.limits`, by source and counter."""

_COUNTED: Final[Mapping[str, tuple[str, float]]] = {
    limit.counter: (limit.name, limit.per_unit) for limit in LIMITS.values()
} | {"messages": ("message_limit", 1), "working": ("working_limit", 1000)}
"""The axis of a counter of `Run.limits`, and how many of the counter's units one of the axis's is."""


def harness_of(source: str, policy: str) -> Policy | None:
    """The preset by which the limits of a run are counted; None where the harness is not known.

    Args:
        source: The run's source.
        policy: The run's policy, which is a preset's name in boolab's own runs.
    """
    if source == "boolab":
        from boolab.harnesses.presets import policies

        return policies.get(policy)
    name = HARNESSES.get(source)
    return None if name is None else get_policy(name)


def names_of(source: str, policy: Policy | None) -> dict[str, Native]:
    """The limits that the runs of a source can have, by name: the harness's own names, then boolab's axes."""
    own = _OF_SOURCES.get(source, {})
    known = dict(NATIVE.get(policy.name, {}) if policy is not None else own)
    if policy is None:
        known |= {alias: STEPS for alias in ALIASES if alias not in known}
    return known | {axis: Native(axis) for axis in LIMITS if axis not in known}


def find(name: str, known: Mapping[str, Native]) -> str | None:
    """The limit that is meant by a name: in any case, with hyphens or underscores, with or without `--`.

    Example:
        >>> find("--max-turns", NATIVE["claude_code"]), find("steps", NATIVE["claude_code"])
        ('max_turns', None)
    """
    plain = name.removeprefix("--").replace("-", "_").lower()
    return name if name in known else next((one for one in known if one.lower() == plain), None)


def logged(source: str, limits: Mapping[str, int]) -> Iterator[tuple[str, float]]:
    """The limits on record, by the harness's name, in its unit."""
    for counter, threshold in limits.items():
        plain = counter.partition(":")[0]
        if plain in _COUNTED:
            axis, per = _COUNTED[plain]
            value = threshold / per
            yield _LOGGED.get(source, {}).get(plain, axis), int(value) if value.is_integer() else value


def every_name() -> dict[str, list[str]]:
    """All names of limits, each with the harnesses that have it."""
    found: dict[str, list[str]] = {axis: [] for axis in LIMITS}
    for harness, names in (*NATIVE.items(), *_OF_SOURCES.items()):
        for name in names:
            found.setdefault(name, []).append(harness)
    return found
