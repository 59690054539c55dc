"""LangGraph: `recursion_limit`, for `create_agent` and for the older `create_react_agent`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from boolab.harnesses.exports.step_cap import step_cap
from boolab.harnesses.exports.values import Limits, Part, Sets, Target, comment
from boolab.harnesses.groups import About, Cap, Execution, Inputs, WrapUp
from boolab.harnesses.harness import STEPS, Harness
from boolab.harnesses.policy import Policy

_MIDDLEWARE: Final = "LangGraph has none; the export target langchain has it, as middleware of create_agent."


def build(limits: Limits, notes: Sequence[str]) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The limit of an agent without middleware, and that of one made by `create_react_agent`."""
    if limits.max_steps is None:
        return (Part(text=comment("python", notes), language="python", how="LangGraph has no such limit."),), ()
    agent, react = (
        step_cap(limits.max_steps, preset, limits.policy, "supersteps")
        for preset in ("langchain_agent", "langgraph_react")
    )
    remarks = (
        "Each middleware node is a superstep more in every round: with middleware, use the export target langchain.",
    )
    parts = (
        Part(
            text=comment("python", (agent.note, *remarks, *notes)) + _call(agent.value),
            language="python",
            how="an agent made by langchain.agents.create_agent, without middleware; `agent` and `prompt` are yours.",
            sets=frozenset({"max_steps"}),
        ),
        Part(
            text=comment("python", (react.note,)) + _call(react.value),
            language="python",
            how="instead, an agent made by the older langgraph.prebuilt.create_react_agent.",
            sets=frozenset({"max_steps"}),
        ),
    )
    return parts, (agent.note, react.note, *remarks)


def _call(limit: int) -> str:
    return f'result = agent.invoke({{"messages": [("user", prompt)]}}, {{"recursion_limit": {limit}}})\n'


_TARGET: Final = Target(
    name="langgraph",
    title="LangGraph",
    preset="langchain_agent",
    source="langgraph 1.2.22 and langchain 1.4.7, the released packages, run (docs/exports.md); "
    "https://docs.langchain.com/oss/python/langgraph/graph-api",
    sets=(
        Sets(
            "max_steps",
            "`recursion_limit` of `invoke`",
            "supersteps: twice the steps for `create_agent`, twice and one for `create_react_agent`",
            "run with langgraph 1.2.22 and langchain 1.4.7",
        ),
    ),
    lacks=dict.fromkeys(("tool_budget", "doom_loop", "error_streak", "max_tokens", "max_time"), _MIDDLEWARE)
    | {"max_cost": "LangGraph reports no costs; a token budget of the export target langchain comes nearest."},
    build=build,
)


_LANGGRAPH_REACT: Final = Policy(
    name="langgraph_react",
    about=About(
        source="LangGraph, prebuilt/chat_agent_executor.py (create_react_agent): recursion_limit 10007",
        loop_style="graph: model and tools in turn, each a superstep",
        finish_guard="a response without tool calls",
        weakness="an apology counts as a success (issue 5548)",
        own_words=(
            ("step_cap, even cap", "success"),
            ("step_cap, odd cap", "GraphRecursionError"),
            ("error, ToolError", "ToolException"),
            ("finished", "success"),
        ),
    ),
    cap=Cap(max_steps=10_007, counts="supersteps", check="response", zero="invalid"),
    execution=Execution(tool_failures="fatal"),
    inputs=Inputs(queued="kept"),
    wrap_up=WrapUp(summary="static", static_summary="An answer would need more steps."),
)

HARNESS: Final = Harness(
    presets=(_LANGGRAPH_REACT,), limits={"langgraph_react": {"recursion_limit": STEPS}}, target=_TARGET
)
