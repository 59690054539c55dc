"""Audits of logs that released packages made under limits, with a model that never finishes.

`python -m benchmarks.conformance.audits --keep FOLDER` makes them anew.
"""

from pathlib import Path
from typing import Any, Final

import pytest

import boolab as bl

LOGS: Final = Path(__file__).parent / "released"


@pytest.mark.filterwarnings("ignore::boolab.errors.ReadWarning")
@pytest.mark.parametrize(
    ("log", "limits", "policy", "counted", "unit", "verdict", "note"),
    [
        ("langgraph-3.json", {"recursion_limit": 3}, None, 3, "supersteps", "hit", "2 model calls by its rule"),
        ("langgraph-10.json", {"recursion_limit": 10}, None, 9, "supersteps", "hit", "reported as finished"),
        ("openai-agents-3.json", {"max_turns": 3}, "openai_agents", 3, "model responses", "at limit", "not name what"),
        ("pydantic-ai-request-3.json", {"request_limit": 3}, None, 3, "model responses", "at limit", "not name what"),
        ("pydantic-ai-tool-calls-3.json", {"tool_calls_limit": 3}, None, 3, "tool calls", "at limit", "one response"),
        ("smolagents-3.json", {"max_steps": 3}, "smolagents", 3, "model responses", "at limit", "4 model calls"),
        ("mini-swe-agent-3.traj.json", "auto", None, 3, "model responses", "hit", ""),
    ],
)
def test_limit_enforced_by_the_package_is_hit_or_at_limit(
    log: str, limits: Any, policy: str | None, counted: int, unit: str, verdict: str, note: str
) -> None:
    audit = bl.audit(LOGS / log, limits, policy=policy)
    (row,) = audit.frame.to_dict("records")
    assert (row["verdict"], row["counted"], row["unit"]) == (verdict, counted, unit)
    assert note in row["note"]
    assert len(audit.exceeded) == 0


@pytest.mark.parametrize(
    ("log", "limits", "policy"),
    [
        ("langgraph-10.json", {"recursion_limit": 8}, None),
        ("openai-agents-3.json", {"max_turns": 2}, "openai_agents"),
        ("pydantic-ai-request-3.json", {"request_limit": 2}, None),
        ("pydantic-ai-tool-calls-3.json", {"tool_calls_limit": 2}, None),
        ("smolagents-3.json", {"max_steps": 2}, "smolagents"),
        ("mini-swe-agent-3.traj.json", {"step_limit": 2}, None),
    ],
)
@pytest.mark.filterwarnings("ignore::boolab.errors.ReadWarning")
def test_the_same_log_is_beyond_a_lower_limit(log: str, limits: Any, policy: str | None) -> None:
    assert len(bl.audit(LOGS / log, limits, policy=policy).exceeded) == 1
