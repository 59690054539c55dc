"""A counterfactual is the same from runs, from their frame, from a Parquet file and from a store."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import REDACTED, Event, Response, Step, Stop, ToolCall, ToolResult, Usage
from boolab.limits.ladder import response_counter
from boolab.limits.learned.models import LinearModel
from boolab.limits.learned.rule import LearnedRisk
from boolab.whatif.from_runs import ledger_of
from tests.support.cases import cases

GRID = {"max_steps": [1, 2, 4], "tool_budget": [2], "doom_loop": [2, 3], "error_streak": [2]}
ARGUMENTS = st.sampled_from(['{"a": 1}', '{"a": 1}', '{"a": 2}', REDACTED])


@st.composite
def steps(draw: Any) -> tuple[Step, ...]:
    """Steps of one or two turns; some do not count, some calls have no arguments or no verdict on record."""
    made: list[Step] = []
    for turn in range(1, draw(st.integers(1, 2)) + 1):
        for _ in range(draw(st.integers(0, 4))):
            arguments = draw(st.lists(ARGUMENTS, max_size=4))
            calls = tuple(ToolCall(str(n), "look", text) for n, text in enumerate(arguments))
            results = tuple(
                draw(st.sampled_from([None, *(ToolResult(call.id, "ok", error) for error in (True, False, None))]))
                for call in calls
            )
            usage = Usage(
                10, draw(st.sampled_from([1, None])), draw(st.sampled_from([4, 4, None])),
                cost=draw(st.sampled_from([5, None])), cache_write_tokens=draw(st.sampled_from([3, None])),
            )  # fmt: skip
            counted = draw(st.sampled_from([True, True, False]))
            made.append(Step(len(made) + 1, turn, 0, 5, 5, Response("", calls, None, usage), results, counted=counted))
    return tuple(made)


@st.composite
def families(draw: Any) -> list[Run]:
    """A lead with up to two scouts, which it started at a step that is known, or not; any of them may be empty."""
    reasons = st.sampled_from(["finished", "step_cap", "aborted", "error"])
    runs: list[Run] = []
    for number in range(draw(st.integers(1, 3))):
        made = draw(steps())
        stop = Stop(draw(reasons), draw(st.integers(0, len(made))))
        source = draw(st.sampled_from(["claude_code", "tau_bench"])) if not number else runs[0].source
        success = draw(st.sampled_from([True, False, None])) if not number else None
        runs.append(
            Run(
                run_id=str(number), agent="scout" if number else "lead", model="m", policy="p", task="t", stop=stop,
                steps=made, source=source, parent_run_id="0" if number else None, success=success,
            )
        )  # fmt: skip
    starts = [
        Event(0, "subagent", {"run_id": run.run_id, "agent": "scout", "after_step": draw(st.integers(0, 4)) or None})
        for run in runs[1:]
        if draw(st.booleans())
    ]
    runs[0] = replace(runs[0], events=tuple(starts))
    return runs


def asked(data: Any, **how: Any) -> pd.DataFrame:
    """The rows of a counterfactual, in the order of the runs."""
    frame: pd.DataFrame = bl.counterfactual(data, **how)
    by = ["run_id"] if "run_id" in frame else [*frame.columns[:1]]
    return frame.sort_values(by, kind="stable").reset_index(drop=True)


@cases(40)
@given(families(), st.sampled_from(["auto", "turn", "run"]), st.booleans(), st.booleans())
def test_counterfactual_is_the_same_from_all_inputs(
    runs: list[Run], scope: Any, by_agent: bool, aggregate: bool
) -> None:
    grid = {"max_steps@lead": [1, 3]} if by_agent and any(run.steps for run in runs) else GRID
    weights = {"cached": 0.1, "output": 5, "written": 1.25}
    rules = [bl.max_tokens(14, of="fresh"), bl.max_tokens(30, of="weighted", weights=weights)]
    how: dict[str, Any] = {"grid": grid, "rules": rules, "scope": scope, "aggregate": aggregate}
    expected = asked(runs, **how)
    with tempfile.TemporaryDirectory() as folder:
        parquet, store = Path(folder, "runs.parquet"), Path(folder, "runs.db")
        bl.save_runs(runs, parquet)
        with bl.Store(store) as open_store:
            open_store.add(runs)
        for data in (bl.recording_df(runs), str(parquet), str(store)):
            found = asked(data, **how)
            pd.testing.assert_frame_equal(found[expected.columns], expected, check_dtype=False)


@pytest.mark.parametrize("axis", ["doom_loop"])
def test_doom_loop_gives_bounds_where_arguments_are_unknown(axis: str) -> None:
    call, result = ToolCall("1", "look", REDACTED), ToolResult("1", "ok")
    made = tuple(Step(n, 1, 0, 0, 0, Response("", (call,)), (result,)) for n in range(1, 6))
    runs = [
        Run(
            run_id="r", agent="", model="", policy="", task="", stop=Stop("finished", 5), success=True,
            steps=(*made, Step(6, 1, 0, 0, 0, Response("Done."))),
        )
    ]  # fmt: skip
    (row,) = bl.counterfactual(runs, grid={axis: [2]}, aggregate=True).to_dict("records")
    assert (row["kept_lower"], row["kept_upper"]) == (0, 1)
    (outcome,) = bl.counterfactual(runs, grid={axis: [2]})["outcome"]
    assert outcome == "unknown"
    assert bl.counterfactual(runs, grid={axis: [6]})["outcome"].tolist() != ["truncated"]
    assert bl.steps_df(runs)["repeat_streak"].tolist() == [0, 1, pd.NA, pd.NA, pd.NA, pd.NA]
    assert bl.recommend(runs).frame["action"].tolist() == ["not_yet"]


def test_scores_of_learned_rules_are_known_without_arguments() -> None:
    """Before each response too: their features are missing there, as where the rule was fitted."""
    call, result = ToolCall("1", "look", REDACTED), ToolResult("1", "ok")
    made = tuple(Step(n, 1, 0, 0, 0, Response("", (call,)), (result,)) for n in range(1, 4))
    run = Run(run_id="r", agent="", model="", policy="", task="", stop=Stop("aborted", 3), steps=made)
    risk = LearnedRisk(LinearModel(("calls_streak",), (2.0,), -2.0, (0.7,)))
    ledger = ledger_of([run], [risk], responses=True)
    assert (ledger.counters[risk.name] >= 0).all()
    assert (ledger.counters[response_counter(risk.name)] >= 0).all()
