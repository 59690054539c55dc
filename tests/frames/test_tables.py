"""Runs as DataFrames."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

import boolab as bl
from boolab import calls_df, events_df, runs_df, steps_df
from boolab.core.events import run_events
from boolab.core.types import Response, Step, ToolCall, ToolResult, Usage
from boolab.frames.dtypes import axis_value
from boolab.frames.runs import as_runs, taken_name
from boolab.frames.tables import CALL_COLUMNS, EVENT_COLUMNS, FINISH_COLUMNS, RUN_COLUMNS, STEP_COLUMNS, boundaries_df
from boolab.limits.call_identity import arguments_hash
from boolab.limits.catalog import doom_loop, max_steps
from boolab.runtime.models.scripted import ScriptedModel
from tests.support.helpers import call, distinct, letter, play, steps

DESIGNED = {
    "runs": "run_id agent model policy task source harness_version effort parent_run_id parent_step branched_from "
    "branched_at resumed_from seed started_at n_turns stop_reason stop_step stop_rule stop_threshold stop_value "
    "also_fired n_steps n_tool_calls n_errors n_dropped overshoot summary_calls summary_tokens input_tokens "
    "output_tokens cost_usd duration_ms success success_source success_why censored error n_errors_at_least "
    "n_results_unknown input_tokens_at_least output_tokens_at_least cost_usd_at_least",
    "steps": "run_id turn step start_ms duration_ms ttft_ms finish_reason native_finish_reason n_tool_calls n_errors "
    "input_tokens output_tokens cached_tokens cost_usd text_chars tool_calls_so_far steps_left budget_left "
    "repeat_streak cycle_period error_streak shadow_stops",
    "calls": "run_id turn step call tool arguments_hash arguments result is_error parse_error result_chars duration_ms "
    "dropped",
    "events": "run_id seq t_ms kind payload",
}
MAKERS: dict[str, tuple[Any, Any]] = {
    "runs": (runs_df, RUN_COLUMNS),
    "steps": (steps_df, STEP_COLUMNS),
    "calls": (calls_df, CALL_COLUMNS),
    "events": (events_df, EVENT_COLUMNS),
}
SOME = play([{"tool_calls": [letter("A")], "usage": {"input_tokens": 1, "output_tokens": 1, "cost_usd": 0.5}}, "end"])


@pytest.mark.parametrize("table", DESIGNED)
@pytest.mark.parametrize("runs", [[], [SOME], [play([])]], ids=["none", "one", "empty"])
def test_columns_and_dtypes_are_the_same_for_any_number_of_runs(table: str, runs: list[Any]) -> None:
    make, columns = MAKERS[table]
    frame = make(runs)
    assert list(frame.columns) == DESIGNED[table].split()
    assert {str(dtype) for dtype in frame.dtypes} <= {"Int64", "boolean", "string", "Float64", "datetime64[ms, UTC]"}
    assert [str(d) for d in frame.dtypes] == [c.dtype.replace("string[python]", "string") for c in columns]


def test_tables_accept_a_run_or_iterable_and_nothing_else() -> None:
    assert len(runs_df(SOME)) == len(runs_df([SOME])) == len(runs_df(r for r in [SOME])) == 1
    assert len(steps_df([SOME, SOME])) == 4
    with pytest.raises(TypeError, match="expected a Run or runs, not int"):
        as_runs([3])  # type: ignore[list-item] # on purpose


def test_a_row_of_runs_tells_the_whole_stop() -> None:
    run = play(steps("AA AA AA"), tool_budget=4, doom_loop=4)
    row = runs_df(run).iloc[0]
    assert (row["stop_reason"], row["stop_step"], row["stop_rule"]) == ("doom_loop", 2, "doom_loop(4, ordered)")
    assert (row["stop_threshold"], row["stop_value"], row["overshoot"], row["also_fired"]) == (4, 4, 0, "tool_budget")
    assert (row["n_steps"], row["n_tool_calls"], row["censored"]) == (2, 4, True)
    assert pd.isna(row["started_at"])


def test_what_is_not_known_is_na_and_never_zero() -> None:
    run = play(["end"])
    row = runs_df(run).iloc[0]
    unknown = ["stop_rule", "stop_threshold", "stop_value", "overshoot", "input_tokens", "cost_usd", "success", "error"]
    assert all(row[name] is pd.NA for name in unknown)
    step = steps_df(run).iloc[0]
    assert all(step[name] is pd.NA for name in ("input_tokens", "cost_usd", "ttft_ms", "cycle_period"))


def test_one_unknown_amount_makes_a_total_unknown() -> None:
    known = {"tool_calls": [letter("A")], "usage": {"input_tokens": 5, "output_tokens": 1}}
    half = {"text": "end", "usage": {"input_tokens": 5}}
    row = runs_df(play([known, half])).iloc[0]
    assert (row["input_tokens"], row["output_tokens"]) == (10, pd.NA)


def test_unknown_error_status_makes_the_error_count_unknown() -> None:
    response = Response("", (ToolCall("1", "t", "{}"), ToolCall("2", "t", "{}")))
    results = (ToolResult("1", "x", None), ToolResult("2", "x", is_error=True))
    run = replace(SOME, steps=(Step(1, 1, None, None, None, response, results),))
    assert runs_df(run)["n_errors"].iloc[0] is pd.NA
    assert steps_df(run)["n_errors"].iloc[0] is pd.NA
    assert calls_df(run)["is_error"].tolist() == [pd.NA, True]
    assert steps_df(run)["start_ms"].iloc[0] is pd.NA


def test_totals_include_the_wrap_up_and_steps_do_not() -> None:
    usage = {"input_tokens": 100, "output_tokens": 10, "cost_usd": 0.01}
    model = ScriptedModel(
        [{"tool_calls": [letter("A")], "usage": usage, "repeat": 9}], summary={"text": "s", "usage": usage}
    )
    row = runs_df(play(model, max_steps=2, policy="boocode")).iloc[0]
    assert (row["n_steps"], row["summary_calls"], row["summary_tokens"]) == (2, 1, 110)
    assert (row["input_tokens"], row["output_tokens"], row["cost_usd"]) == (300, 30, 0.03)
    static = runs_df(play(distinct(9), max_steps=2, policy="boocode")).iloc[0]
    assert (static["summary_calls"], static["summary_tokens"]) == (0, 0)


def test_a_failed_summary_counts_and_its_tokens_are_unknown() -> None:
    model = ScriptedModel(distinct(9), summary={"error": {"status": 500}})
    row = runs_df(play(model, max_steps=2, policy="boocode")).iloc[0]
    assert row["summary_calls"] == 1
    assert row["summary_tokens"] is pd.NA


def test_counters_are_those_at_the_boundary_before_the_step() -> None:
    bad = {"tool_calls": [call("fail"), call("fail", what="x")]}
    run = play([*steps("A A", None), bad, *steps("B")], max_steps=9, tool_budget=20)
    frame = steps_df(run)
    assert frame["tool_calls_so_far"].tolist() == [0, 1, 2, 4, 5]
    assert frame["steps_left"].tolist() == [9, 8, 7, 6, 5]
    assert frame["budget_left"].tolist() == [20, 19, 18, 16, 15]
    assert frame["repeat_streak"].tolist() == [0, 1, 2, 1, 1]
    assert frame["error_streak"].tolist() == [0, 0, 0, 2, 0]
    assert frame["cycle_period"].tolist() == [pd.NA, pd.NA, 1, pd.NA, pd.NA]
    assert frame["shadow_stops"].tolist() == [""] * 5


def test_cycles_are_found_up_to_period_five() -> None:
    frame = steps_df(play(steps("A B A B C"), doom_loop=None))
    assert frame["cycle_period"].tolist() == [pd.NA, pd.NA, pd.NA, pd.NA, 2, pd.NA]


def test_what_nothing_limits_has_nothing_left_to_tell() -> None:
    frame = steps_df(play(steps("A B"), stop=doom_loop(3)))
    assert frame["steps_left"].isna().all()
    assert frame["budget_left"].isna().all()
    assert steps_df(play(["x"], max_steps=0))["steps_left"].tolist() == [0]


def test_repeat_streak_uses_the_identity_of_the_detector() -> None:
    flip = [{"tool_calls": [{"name": "look", "arguments": a}]} for a in ('{"a":1,"b":2}', '{"b":2,"a":1}')]
    assert steps_df(play([*flip, "end"]))["repeat_streak"].tolist() == [0, 1, 1]
    assert steps_df(play([*flip, "end"], stop=doom_loop(9)))["repeat_streak"].tolist() == [0, 1, 2]


def test_counters_start_anew_at_each_turn() -> None:
    def step(index: int, turn: int, *names: str) -> Step:
        calls = tuple(ToolCall(f"{index}{n}", name, "{}") for n, name in enumerate(names))
        return Step(index, turn, None, None, None, Response("", calls), tuple(ToolResult(c.id, "") for c in calls))

    run = replace(SOME, steps=(step(1, 1, "a"), step(2, 1, "a"), step(3, 1), step(4, 2, "a"), step(5, 2)))
    frame = steps_df(run)
    assert frame["repeat_streak"].tolist() == [0, 1, 2, 0, 1]
    assert frame["tool_calls_so_far"].tolist() == [0, 1, 2, 0, 1]
    assert runs_df(run)["n_turns"].tolist() == [2]
    boundaries = boundaries_df(replace(run, stop=run.stop._replace(step=4)))
    assert list(zip(boundaries["turn"], boundaries["boundary"], strict=True)) == [
        (1, 0),
        (1, 1),
        (1, 2),
        (2, 0),
        (2, 1),
    ]


def test_calls_have_a_row_each_with_dropped_ones_marked() -> None:
    items = [
        {"tool_calls": [letter("A"), {"name": "look", "arguments": "{"}]},
        {"tool_calls": [letter("B")], "finish_reason": "stop"},
    ]
    frame = calls_df(play(items, policy="naive"))
    assert list(zip(frame["step"], frame["call"], strict=True)) == [(1, 1), (1, 2), (2, 1)]
    assert frame["dropped"].tolist() == [False, False, True]
    assert frame["is_error"].tolist() == [False, True, pd.NA]
    assert frame["parse_error"].tolist() == [False, True, pd.NA]
    assert frame["result"].tolist()[0] == "seen A"
    assert frame["result_chars"].tolist()[0] == 6
    assert frame["arguments_hash"].tolist() == [arguments_hash(a) for a in frame["arguments"]]


def test_events_are_numbered_and_their_payload_is_json() -> None:
    run = play(steps("A"))
    frame = events_df([run, run])
    assert frame["seq"].tolist() == [*range(len(run_events(run)))] * 2
    assert json.loads(frame["payload"].iloc[-1])["reason"] == "finished"
    assert frame["kind"].iloc[0] == "step_start"


def test_boundaries_run_from_0_to_the_last_step_with_calls() -> None:
    assert boundaries_df(play(steps("A BC D")))["tool_calls"].tolist() == [0, 1, 3, 4]
    assert boundaries_df(play(distinct(9), max_steps=3))["boundary"].tolist() == [0, 1, 2, 3]
    assert boundaries_df(play([*steps("A", None), {"tool_calls": [call("ask")]}]))["boundary"].tolist() == [0, 1]
    assert boundaries_df(play([*steps("A", None), {"error": {"reset": True}}]))["boundary"].tolist() == [0, 1]
    frame = boundaries_df(play(steps("A A B")), doom_loop(2) | max_steps(3))
    assert frame["repeat_streak:canonical"].tolist() == [0, 1, 2, 1]


def test_swept_settings_become_columns() -> None:
    runs = [replace(SOME, settings={"max_steps": 5, "policy": "x"}), replace(SOME, settings={"max_steps": None})]
    frame = runs_df(runs)
    assert list(frame.columns)[-1] == "max_steps"
    assert frame["max_steps"].tolist() == [5, pd.NA]
    assert str(frame["max_steps"].dtype) == "Int64"
    assert frame["policy"].tolist() == [SOME.policy] * 2
    assert str(runs_df([replace(SOME, settings={"temperature": 0.5})])["temperature"].dtype) == "Float64"


def test_frames_survive_a_concat_with_an_empty_one() -> None:
    for make, _ in MAKERS.values():
        both = pd.concat([make([]), make([SOME])])
        assert both.dtypes.tolist() == make([SOME]).dtypes.tolist()


def test_unnamed_agent_model_and_task_are_unknown() -> None:
    run = replace(play(distinct(1)), agent="", model="", task="")
    assert runs_df(run)[["agent", "model", "task"]].isna().all(axis=None)


def test_the_providers_own_finish_word_stands_beside_boolabs() -> None:
    frame = steps_df(play([Response("x", finish_reason="stop", native_finish_reason="end_turn"), "y"]))
    assert frame[["finish_reason", "native_finish_reason"]].values.tolist() == [["stop", "end_turn"]]
    assert steps_df(play(["y"]))["native_finish_reason"].isna().all()


@pytest.mark.parametrize(
    "settings", [{"x": "a\ud800"}, {"k\ud800": 1}, {"k\udfff": "v\ud800"}, {"x": 1, "y": "\udfff"}]
)
def test_settings_with_half_a_surrogate_are_evaluated(settings: Mapping[str, Any]) -> None:
    runs = [replace(play(distinct(3)), run_id=f"{n}", settings=settings, success=True) for n in range(3)]
    assert [name.encode() for name in runs_df(runs).columns][-1] in (b"x", b"k?", b"y")
    assert bl.counterfactual(runs, grid={"max_steps": [2, None]}, progress=False)["stop_reason"].notna().sum() == 6
    assert bl.recommend(runs).setting is not None


def test_integer_beyond_int64_is_na_as_seed_and_text_as_setting() -> None:
    """Found by fuzzing: a seed may have any number of digits, and so may a setting."""
    runs = [replace(play(distinct(1)), seed=2**70), replace(play(distinct(1), seed=3), settings={"a": 2**70, "b": 7})]
    rows = runs_df(runs)
    assert rows["seed"].isna().tolist() == [True, False]
    assert rows["a"].tolist()[1] == str(2**70)
    assert rows.dtypes[["a", "b"]].astype(str).tolist() == ["string", "Int64"]
    assert rows["b"].tolist()[1] == 7


def answered(model: str, reason: str | None, *results: bool, source: str = "boolab") -> Any:
    """A run of one step with so many calls, and whether each was executed."""
    calls = tuple(ToolCall(str(n), "look", "{}") for n in range(len(results)))
    given = tuple(ToolResult(call.id, "ok") if ran else None for call, ran in zip(calls, results, strict=True))
    step = Step(1, 1, None, None, None, Response("", calls, reason), given)
    name = f"{model}-{reason}-{len(results)}-{source}"
    return replace(play(["x"]), run_id=name, model=model, source=source, steps=(step,))


def test_finish_reasons_are_held_against_calls_both_ways() -> None:
    frame = bl.finish_reasons_df(
        [
            answered("acme/big", "stop"),
            answered("acme/big", "stop", True, False),
            answered("acme/big", "end_turn", False),
            answered("acme/big", "tool_calls"),
            answered("small", None, True),
            answered("small", "tool_calls", True, source="codex"),
        ]
    )
    assert frame.astype(object).where(frame.notna(), None).values.tolist() == [
        ["acme/big", "acme", "boolab", "stop", 3, 3, 2, 1, 3, 1, 2],
        ["acme/big", "acme", "boolab", "tool_calls", 1, 1, 0, 1, 0, 0, 0],
        ["small", None, "boolab", None, 1, 1, 1, 0, 1, 1, 0],
        ["small", None, "codex", "tool_calls", 1, 1, 1, 0, 1, 1, 0],
    ]
    assert list(frame) == [column.name for column in FINISH_COLUMNS]
    assert [str(kind) for kind in frame.dtypes] == ["string"] * 4 + ["Int64"] * 7


def test_finish_reasons_of_no_runs_are_an_empty_typed_table() -> None:
    frame = bl.finish_reasons_df([])
    assert frame.empty
    assert [str(kind) for kind in frame.dtypes] == [
        "string" if column.dtype == "string[python]" else column.dtype for column in FINISH_COLUMNS
    ]
    assert bl.finish_reasons_df(replace(play(["x"]), steps=())).empty


def test_sums_with_an_unknown_part_have_a_lower_bound() -> None:
    verdicts = (True, None, False, True, None)
    calls = tuple(ToolCall(str(n), "look", "{}") for n in range(len(verdicts)))
    results = tuple(ToolResult(call.id, "", verdict) for call, verdict in zip(calls, verdicts, strict=True))
    first = Step(1, 1, None, None, None, Response("", calls, None, Usage(7, None, cost=500_000)), results)
    second = Step(2, 1, None, None, None, Response("Done.", usage=Usage(None, 4)))
    (row,) = runs_df(replace(SOME, steps=(first, second))).to_dict("records")
    assert (row["n_errors"], row["input_tokens"], row["cost_usd"]) == (None, None, None)
    assert (row["n_errors_at_least"], row["n_results_unknown"]) == (2, 2)
    assert (row["input_tokens_at_least"], row["output_tokens_at_least"], row["cost_usd_at_least"]) == (7, 4, 0.5)
    nothing = first._replace(results=tuple(result._replace(is_error=None) for result in results))
    (row,) = runs_df(replace(SOME, steps=(nothing,))).to_dict("records")
    assert (row["n_errors_at_least"], row["n_results_unknown"], row["output_tokens_at_least"]) == (None, 5, None)


def test_axis_value_has_units_and_no_limit() -> None:
    assert axis_value("max_steps", 1200) == "1,200"
    assert axis_value("max_cost", 0.5) == "$0.5"
    assert axis_value("max_steps", None) == "No limit"


def test_taken_name_says_that_the_result_has_it() -> None:
    assert taken_name("kept").partition(":")[0] == "the result has a column of this name"
