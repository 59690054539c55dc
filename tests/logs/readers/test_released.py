"""Logs that released programs wrote under a limit of 3, made by `benchmarks.conformance.clis` and shortened."""

from pathlib import Path
from typing import Final

from boolab.logs.load import load_runs

RELEASED: Final = Path(__file__).parents[1] / "released"


def test_claude_code_2_1_330_under_max_turns_3_was_stopped_by_it() -> None:
    (run,) = load_runs(RELEASED / "claude_code" / "max_turns_3")
    assert (run.n_steps, run.stop[:2], run.stop.rule, dict(run.limits)) == (
        3,
        ("step_cap", 3),
        "maxTurns(3)",
        {"steps": 3},
    )
    assert [len(step.response.tool_calls) for step in run.steps] == [1, 1, 1]


def test_claude_code_subagent_stops_and_its_parent_finishes() -> None:
    parent, child = load_runs(RELEASED / "claude_code" / "subagent_max_turns_3")
    assert (parent.n_steps, parent.stop_reason) == (2, "finished")
    assert (child.n_steps, child.stop_reason, child.stop.rule) == (3, "step_cap", "maxTurns(3)")
    assert child.parent_run_id == parent.run_id
