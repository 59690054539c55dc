"""LangChain: middleware of `create_agent` that limits calls, and boolab's for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from boolab.harnesses.exports.python_code import (
    monitor_notes,
    monitor_rows,
    options_code,
    python_part,
    rule_lines,
    spending_notes,
)
from boolab.harnesses.exports.step_cap import limited_steps
from boolab.harnesses.exports.values import Limits, Part, Sets, Target, any_weights
from boolab.harnesses.groups import About, Budgets, Cap, Execution, Inputs, WrapUp
from boolab.harnesses.harness import STEPS, Harness
from boolab.harnesses.policy import Policy

_MONITORED: Final = ("doom_loop", "error_streak", "max_tokens", "max_time")
_PRESET: Final = "langchain_middleware"
_VERIFIED: Final = "run with langchain 1.4.7"


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """An agent with its middleware."""
    rule = rule_lines(limits, _MONITORED)
    argument = "thread_limit" if limits.scope == "run" else "run_limit"
    remarks: list[str] = []
    classes, entries = [], []
    if (cap := limited_steps(limits, _PRESET, remarks, "model calls")) is not None:
        classes.append("ModelCallLimitMiddleware")
        entries.append(f'ModelCallLimitMiddleware({argument}={cap}, exit_behavior="end")')
    if limits.tool_budget is not None:
        classes.append("ToolCallLimitMiddleware")
        entries.append(f'ToolCallLimitMiddleware({argument}={limits.tool_budget}, exit_behavior="end")')
    if classes:
        remarks.append(
            'At a limit the agent returns, and its last message names the limit; exit_behavior="error" raises an '
            "exception at the same step instead."
        )
    remarks += spending_notes(limits, _PRESET)
    if limits.scope == "run" and classes:
        remarks.append("A thread_limit counts over several messages of the user; it needs a checkpointer.")
    remarks += monitor_notes(limits, _MONITORED, "LangChain")
    if rule:
        entries.append(f"middleware(rule{options_code(limits)})")
    lines = [
        *(["import boolab as bl", "from boolab.integrations.langchain import middleware"] if rule else []),
        "from langchain.agents import create_agent",
        *([f"from langchain.agents.middleware import {', '.join(classes)}"] if classes else []),
        "",
        *rule,
        "agent = create_agent(",
        "    model,",
        "    tools,",
        "    middleware=[",
        *(f"        {entry}," for entry in entries),
        "    ],",
        ")",
    ]
    names, how = {"max_steps", "tool_budget", *_MONITORED}, "where the agent is made; `model` and `tools` are yours."
    return (python_part(limits, names, lines, [*remarks, *notes], how),), tuple(remarks)


_TARGET: Final = Target(
    name="langchain",
    title="LangChain",
    preset=_PRESET,
    source="langchain 1.4.7, the released package, run (docs/exports.md); "
    "https://docs.langchain.com/oss/python/langchain/middleware/built-in",
    sets=(
        Sets(
            "max_steps",
            "`ModelCallLimitMiddleware(run_limit=N)`",
            "model calls, evaluated before each; a final answer counts",
            _VERIFIED,
        ),
        Sets(
            "tool_budget",
            "`ToolCallLimitMiddleware(run_limit=N)`",
            "tool calls, evaluated at the response; a batch that would exceed it is not run",
            _VERIFIED,
        ),
        *monitor_rows(_MONITORED, "boolab.integrations.langchain.middleware({})"),
    ),
    lacks={"max_cost": "LangChain reports no costs; a token budget comes nearest."},
    build=build,
    lacks_weights=any_weights,
)


_LANGCHAIN_AGENT: Final = Policy(
    name="langchain_agent",
    about=About(
        source="LangChain 1.4, langchain/agents/factory.py (create_agent): recursion_limit 9999",
        loop_style="graph: model and tools in turn, each a superstep",
        finish_guard="a response without tool calls",
        weakness="raises at the limit, and the state is lost without a checkpointer",
        own_words=(("step_cap", "GraphRecursionError"), ("error, ToolError", "ToolException"), ("finished", "success")),
    ),
    cap=Cap(max_steps=9_999, counts="supersteps", check="boundary", zero="invalid"),
    execution=Execution(tool_failures="fatal"),
    inputs=Inputs(queued="kept"),
)
_LANGCHAIN_MIDDLEWARE: Final = Policy(
    name="langchain_middleware",
    order=("max_steps", "tool_budget"),
    about=About(
        source="LangChain 1.4, langchain/agents/middleware: create_agent with ModelCallLimitMiddleware and "
        "ToolCallLimitMiddleware, both with run_limit and exit_behavior='end'",
        loop_style="graph: limit, model, limit and tools in turn",
        finish_guard="a response without tool calls",
        weakness="a limit returns like a success, with a text in the name of the model",
        own_words=(
            ("step_cap", "success"),
            ("tool_budget", "success"),
            ("error, ToolError", "ToolException"),
            ("finished", "success"),
        ),
    ),
    cap=Cap(zero="plain"),
    budgets=Budgets(batch="reject"),
    execution=Execution(tool_failures="fatal"),
    inputs=Inputs(queued="kept"),
    wrap_up=WrapUp(summary="static", static_summary="Model call limits exceeded."),
)

HARNESS: Final = Harness(
    presets=(_LANGCHAIN_AGENT, _LANGCHAIN_MIDDLEWARE),
    limits={"langchain_agent": {"recursion_limit": STEPS}, "langchain_middleware": {"run_limit": STEPS}},
    target=_TARGET,
    adapter="langchain",
)
