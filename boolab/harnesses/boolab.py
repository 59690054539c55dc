"""boolab's own agent file, which `load_agents` reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

from boolab.display.text import wrap_text
from boolab.harnesses.exports.values import Change, Limits, Part, Sets, Target, agent_file
from boolab.harnesses.harness import Harness
from boolab.harnesses.setting import ALL_AGENTS, Setting, as_front_matter
from boolab.limits.call_identity import exclude_tools, split_identity
from boolab.limits.table import AGENT_LIMITS

_VERIFIED: Final = "boolab itself: the live loop and the offline evaluation stop at the same step (tests/whatif)"


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The front matter of an agent file."""
    identity = exclude_tools(limits.identity, limits.exempt) if limits.exempt else limits.identity
    setting = Setting(
        **{name: getattr(limits, name) for name in AGENT_LIMITS},
        identity=identity,
        scope=limits.scope,
        agent=limits.agent or ALL_AGENTS,
    )
    default, by_tool, exempt = split_identity(identity)
    changes = [Change((name,), value) for name in AGENT_LIMITS if (value := getattr(limits, name)) is not None]
    if limits.doom_loop is not None and not by_tool:
        changes.append(Change(("identity",), default))
        changes += [Change(("exempt",), exempt)] if exempt else []
    lines = [*chain.from_iterable(wrap_text(note, rest="  ").splitlines() for note in notes)]
    part = Part(
        path=f"agents/{agent_file(limits)}.md",
        language="markdown",
        text=as_front_matter(setting, limits.policy, lines),
        how="an agent file; the prompt goes below it, and bl.load_agents reads it.",
        sets=frozenset(name for name in AGENT_LIMITS if name in limits.given),
        changes=tuple(changes),
    )
    return (part,), ()


def _rule(rule: str) -> str:
    return f"An agent file has none; bl.{rule} as part of stop= of bl.run has it."


_TARGET: Final = Target(
    name="boolab",
    title="a boolab agent file",
    preset="",
    source="boolab/runtime/agents/agent.py of this version",
    sets=(
        Sets(
            "max_steps", "`max_steps` in an agent file", "steps, evaluated after each; a final answer counts", _VERIFIED
        ),
        Sets("tool_budget", "`tool_budget` in an agent file", "executed calls, evaluated after each step", _VERIFIED),
        Sets("doom_loop", "`doom_loop`, `identity`, `exempt` in an agent file", "identical calls in a row", _VERIFIED),
    ),
    lacks={
        "error_streak": _rule("error_streak(N)"),
        "max_tokens": _rule("max_tokens(N)"),
        "max_cost": _rule("max_cost(DOLLARS)"),
        "max_time": _rule("max_time(SECONDS)"),
    },
    build=build,
)


HARNESS: Final = Harness(target=_TARGET)
