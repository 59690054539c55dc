"""Pydantic AI: `UsageLimits` of a run, and boolab's capability for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from boolab.harnesses.exports.python_code import (
    default_note,
    monitor_notes,
    monitor_rows,
    python_part,
    rule_lines,
    spending_notes,
)
from boolab.harnesses.exports.step_cap import limited_steps
from boolab.harnesses.exports.values import Limits, Part, Sets, Target
from boolab.harnesses.groups import About, Budgets, Cap, Detectors, Execution, Finish, Inputs
from boolab.harnesses.harness import STEPS, Harness, Native
from boolab.harnesses.policy import Policy
from boolab.limits.detectors.streaks import IdleStreak, ToolErrors
from boolab.limits.detectors.wrappers import Detections
from boolab.limits.guard import Guard
from boolab.limits.table import LIMITS

_MONITORED: Final = ("doom_loop", "error_streak", "max_time")
_PRESET: Final = "pydantic_ai"
_VERIFIED: Final = "run with pydantic-ai-slim 2.68.0"


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The limits of a run, and the agent where boolab's capability is added."""
    rule = rule_lines(limits, _MONITORED)
    remarks: list[str] = []
    arguments = []
    if (cap := limited_steps(limits, _PRESET, remarks, "requests")) is not None:
        arguments.append(f"request_limit={cap}")
    if limits.tool_budget is not None:
        arguments.append(f"tool_calls_limit={limits.tool_budget}")
        remarks.append("Only successful calls count towards tool_calls_limit: not those that raise ModelRetry.")
    if limits.max_tokens is not None:
        arguments.append(f"total_tokens_limit={limits.max_tokens}")
    if limits.max_cost is not None:
        arguments.append(f'cost_limit=Decimal("{limits.max_cost}")')
    remarks += default_note(limits, _PRESET, "UsageLimits(request_limit=None) lifts it")
    remarks += spending_notes(limits, _PRESET)
    remarks += monitor_notes(limits, _MONITORED, "Pydantic AI")
    imports = [
        *(["from decimal import Decimal", ""] if limits.max_cost is not None else []),
        *(["import boolab as bl", "from boolab.integrations.pydantic_ai import capability"] if rule else []),
        *([f"from pydantic_ai import {'Agent, ' if rule else ''}UsageLimits"] if arguments else []),
        *(["from pydantic_ai import Agent"] if rule and not arguments else []),
    ]
    code = [*rule, "agent = Agent(model, tools=tools, capabilities=[capability(rule)])"] if rule else []
    if arguments:
        code += ["limits = UsageLimits(", *(f"    {argument}," for argument in arguments), ")"]
    code.append(f"result = agent.run_sync(prompt{', usage_limits=limits' if arguments else ''})")
    names = "`model`, `tools` and `prompt`" if rule else "`agent` and `prompt`"
    how = f"where the agent is run; {names} are yours, and `await agent.run` takes the same."
    return (python_part(limits, LIMITS, [*imports, "", *code], [*remarks, *notes], how),), tuple(remarks)


_TARGET: Final = Target(
    name="pydantic-ai",
    title="Pydantic AI",
    preset=_PRESET,
    source="pydantic-ai-slim 2.68.0, pydantic_ai/usage.py, and run (docs/exports.md); "
    "https://ai.pydantic.dev/agents/#usage-limits",
    sets=(
        Sets(
            "max_steps", "`UsageLimits(request_limit=N)`", "requests, evaluated before each; 50 by default", _VERIFIED
        ),
        Sets(
            "tool_budget",
            "`UsageLimits(tool_calls_limit=N)`",
            "successful calls, evaluated at the response; a batch that would exceed it is not run",
            _VERIFIED,
        ),
        Sets("max_tokens", "`UsageLimits(total_tokens_limit=N)`", "tokens; a response above it is dropped", _VERIFIED),
        Sets("max_cost", "`UsageLimits(cost_limit=Decimal(N))`", "dollars; a response above it is dropped", _VERIFIED),
        *monitor_rows(_MONITORED, "boolab.integrations.pydantic_ai.capability({})"),
    ),
    lacks={},
    build=build,
)


_PYDANTIC_AI: Final = Policy(
    name="pydantic_ai",
    order=("guards", "max_steps", "tool_budget", "token_budget", "cost_budget"),
    about=About(
        source="pydantic-ai, pydantic_ai/usage.py: UsageLimits (request_limit = 50)",
        loop_style="graph: request, handle response, tools, again",
        finish_guard="a text that is a valid output",
        weakness="raises at the limit, and the caller loses what was paid for",
        own_words=(
            ("step_cap", "UsageLimitExceeded"),
            ("tool_budget", "UsageLimitExceeded"),
            ("token_budget", "UsageLimitExceeded"),
            ("cost_budget", "UsageLimitExceeded"),
            ("error_streak", "UnexpectedModelBehavior"),
            ("error, ModelError", "OutputTokenLimitExceeded"),
        ),
    ),
    cap=Cap(max_steps=50, zero="plain"),
    budgets=Budgets(batch="reject", before="exceeded", after="exceeded"),
    detectors=Detectors(
        guards=(
            Guard(detector=Detections(IdleStreak(), 1), ladder=((2, "stop"),), reason="error_streak"),
            Guard(detector=ToolErrors(), ladder=((2, "stop"),)),
        )
    ),
    finish=Finish(conditions=("no_calls", "has_text"), fatal_reasons=("length",), fatal_if="empty", idle="again"),
    execution=Execution(tool_failures="unexpected_fatal"),
    inputs=Inputs(queued="kept"),
)

HARNESS: Final = Harness(
    presets=(_PYDANTIC_AI,),
    limits={
        # The names of its arguments, as in docs/harnesses.md.
        "pydantic_ai": {
            "request_limit": STEPS,
            "tool_calls_limit": Native("tool_budget"),
            "total_tokens_limit": Native("max_tokens"),
            "cost_limit": Native("max_cost"),
        }
    },
    target=_TARGET,
    adapter="pydantic_ai",
)
