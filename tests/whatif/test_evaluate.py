"""Counterfactuals: one recording scored under every setting, as if it had been run again."""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import MICRO, Response, Step, Stop, ToolCall, ToolResult, Usage
from boolab.errors import SettingError
from boolab.frames.recording import recording_df
from boolab.frames.tables import boundaries_df, runs_df, steps_df
from boolab.limits.catalog import doom_loop, error_streak, max_cost, max_steps, max_tokens, tool_budget
from boolab.limits.stop import AnyOf, StopRule
from boolab.runtime.models.recorded import RecordedModel
from boolab.store.writer import Store
from boolab.whatif.evaluate import counterfactual
from tests.support.cases import cases, first
from tests.support.helpers import distinct, play, steps
from tests.support.project import ROOT
from tests.support.walk import REASONS, UNITS, USED, total_of, walk
from tests.whatif.test_properties import FREE, MANY, NEVER, rules, scripts

# --- Against the live loop --------------------------------------------------------------------------------------------


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table, unknown values as None."""
    rows = table.to_dict("records")
    return [{str(name): None if value is pd.NA else value for name, value in row.items()} for row in rows]


def row_of(table: pd.DataFrame) -> dict[str, Any]:
    (row,) = rows_of(table)
    return row


def rows_by(table: pd.DataFrame, keys: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows of a table by the values of the columns that tell them apart."""
    rows = {tuple(row[name] for name in keys): row for row in rows_of(table)}
    assert len(rows) == len(table)
    return rows


def assert_equals_replay(row: dict[str, Any], recording: Run, rule: StopRule) -> None:
    """The row of one setting against the recording, run again by the live loop under that rule."""
    again = play(RecordedModel(recording), policy=FREE, stop=rule)
    undecided = (again.error or "").startswith("UnknownCounter")
    ran_out = again.stop_reason == "error" and not undecided
    assert (row["outcome"] == "censored") == ran_out
    assert (row["outcome"] == "unknown") == undecided
    if ran_out:
        assert (row["stop_reason"], row["kept_lower"], row["kept_upper"]) == (None, None, None)
        return
    found = (row["stop_reason"], row["stop_step"], tuple(filter(None, row["also_fired"].split(","))))
    assert found == (again.stop_reason, again.stop_step, again.stop.also_fired)
    assert (row["outcome"] == "unchanged") == (again.stop_reason == "finished")
    assert_spent(row, recording, again)


def assert_spent(row: dict[str, Any], recording: Run, again: Run) -> None:
    """What a row says was used, and saved, against all that the run that was played again asked for."""
    assert again.outside == ()
    assert (row["steps"], row["tool_calls"]) == (again.n_steps, again.n_tool_calls)
    assert (row["steps"] + row["saved_steps"], row["tool_calls"] + row["saved_tool_calls"]) == (
        recording.n_steps,
        recording.n_tool_calls,
    )
    for name, per_dollar in (("tokens", 1), ("cost_usd", MICRO)):
        if row[name] is not None:
            assert round(row[name] * per_dollar) == total_of(again, again.steps, USED[name.removesuffix("_usd")])


@st.composite
def grids(draw: st.DrawFn, recording: Run) -> dict[str, list[Any]]:
    """Grids with limits drawn from the values that the recording's own counters take, and around them."""
    frame = boundaries_df(recording, doom_loop(2) | error_streak(1))
    columns = ("steps", "repeat_streak:canonical", "tool_calls", "error_streak", "tokens", "cost", "elapsed")
    counters = dict(zip(REASONS, columns, strict=True))
    least = {"doom_loop": 2, "error_streak": 1, "max_steps": 1}
    grid: dict[str, list[Any]] = {}
    for name in draw(st.lists(st.sampled_from(sorted(counters)), min_size=1, max_size=4, unique=True)):
        values = [int(v) for v in frame[counters[name]].dropna()] or [0]
        limit = st.builds(
            lambda v, more, n=name: max(least.get(n, 0), v + more), st.sampled_from(values), st.integers(0, 1)
        )
        chosen = draw(st.lists(limit | st.none(), min_size=1, max_size=3, unique=True))
        grid[name] = [None if v is None else v / UNITS[name] if name in UNITS else v for v in chosen]
    return grid


QUICK: dict[str, Any] = {
    "phases": [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    "suppress_health_check": list(HealthCheck),
}
MAKE: dict[str, Any] = {"max_steps": max_steps, "tool_budget": tool_budget, "doom_loop": doom_loop,
                        "max_cost": max_cost, "error_streak": error_streak, "max_tokens": max_tokens,
                        "max_time": bl.max_time}  # fmt: skip


def rule_of(setting: dict[str, Any]) -> StopRule:
    """A setting as a rule of the live loop, in the default order of precedence."""
    members = [MAKE[name](setting[name]) for name in REASONS if setting.get(name) is not None]
    return AnyOf(tuple(members)) if members else NEVER


@MANY
@given(st.data())
def test_every_grid_setting_equals_the_live_loop(data: Any) -> None:
    recording = play(data.draw(scripts()), policy=FREE, stop=NEVER)
    grid = data.draw(grids(recording))
    rows = rows_by(counterfactual(recording, grid=grid, own_limits="lifted"), [*grid])
    settings = [*itertools.product(*grid.values())]
    assert len(rows) == len(settings)
    for values in settings:
        assert_equals_replay(rows[values], recording, rule_of(dict(zip(grid, values, strict=True))))


@MANY
@given(st.data())
def test_every_rule_equals_the_live_loop_on_the_recording(data: Any) -> None:
    recording = play(data.draw(scripts()), policy=FREE, stop=NEVER)
    rule = data.draw(rules(recording))
    assert_equals_replay(row_of(counterfactual(recording, rules=[rule], own_limits="lifted")), recording, rule)


# --- Against a plain walk over the steps, for sessions of many turns --------------------------------------------------


KINDS = ("A", "A", "AA", "AB", "AAB", "B", "x", "xB", "xxA", "?", "?x")
"""The calls of a step, a letter each: `x` fails, and the status of `?` is not known."""


@st.composite
def sessions(draw: st.DrawFn, number: int = 0) -> Run:
    """A session of some turns: calls that repeat, fail or tell nothing; turns that end by a text or are interrupted."""
    made: list[Step] = []
    clock = 0
    for turn in range(1, draw(st.integers(1, 4)) + 1):
        kinds = draw(st.lists(st.sampled_from(KINDS), max_size=5))
        kinds += draw(st.sampled_from([["text"], ["text"], []])) or ([] if kinds else ["text"])
        for kind in kinds:
            letters = "" if kind == "text" else kind
            calls = tuple(ToolCall(f"c{i}", letter, "{}") for i, letter in enumerate(letters))
            results = tuple(
                ToolResult(c.id, "out", {"x": True, "?": None}.get(c.name, False)) if draw(st.integers(0, 9)) else None
                for c in calls
            )
            tokens = draw(st.integers(0, 3))
            usage = Usage(tokens, 1, cost=tokens * 1000) if draw(st.integers(0, 7)) else Usage()
            took = draw(st.integers(0, 5))
            made.append(Step(len(made) + 1, turn, clock, took, took, Response(kind, calls, None, usage), results))
            clock += took
    last = [step for step in made if step.turn == made[-1].turn]
    if last[-1].response.tool_calls:
        cut: list[Stop] = [Stop("aborted", len(last)), Stop("error", len(last) - 1), Stop("finished", len(last))]
        stop = draw(st.sampled_from(cut))
    else:
        stop = Stop("finished", len(last) - 1)
    success = draw(st.sampled_from([True, True, False, None]))
    agent = draw(st.sampled_from(["one", "two"]))
    return Run(run_id=f"s{number}", agent=agent, model="m", policy="", task=f"t{number % 3}", stop=stop,
               steps=tuple(made), success=success)  # fmt: skip


LIMITS: dict[str, Any] = {
    "max_steps": st.integers(1, 6),
    "doom_loop": st.integers(2, 4),
    "tool_budget": st.integers(0, 6),
    "error_streak": st.integers(1, 3),
    "max_tokens": st.integers(0, 9),
    "max_cost": st.sampled_from([0, 0.001, 0.004]),
    "max_time": st.sampled_from([0.001, 0.005, 0.01]),
}


@st.composite
def any_grid(draw: st.DrawFn) -> dict[str, list[Any]]:
    names = draw(st.lists(st.sampled_from(sorted(LIMITS)), min_size=1, max_size=3, unique=True))
    return {name: draw(st.lists(LIMITS[name] | st.none(), min_size=1, max_size=3, unique=True)) for name in names}


@pytest.mark.slow
@MANY
@given(st.data())
def test_sessions_of_many_turns_equal_a_walk_over_their_steps(data: Any) -> None:
    run = data.draw(sessions().filter(lambda run: run.success is not None))
    grid, scope = data.draw(any_grid()), data.draw(st.sampled_from(["turn", "run"]))
    own: Any = data.draw(st.sampled_from(["kept", "lifted"]))
    table = counterfactual(run, grid=grid, scope=scope, own_limits=own)
    rows = rows_by(table, [*grid])
    for values in itertools.product(*grid.values()):
        setting = dict(zip(grid, values, strict=True))
        row = rows[values]
        expected = walk(run, setting, scope, own)
        for name, value in expected.items():
            found = row[f"{name}_usd"] if name.endswith("cost") else row[name]
            if name.endswith("cost") and found is not None:
                found = round(found * MICRO)
            assert found == value, (name, found, value, setting)


@cases(250, **QUICK)
@given(st.data())
def test_aggregate_is_the_sum_of_rows_over_any_partition(data: Any) -> None:
    runs = [data.draw(sessions(number)) for number in range(data.draw(st.integers(0, 4)))]
    grid, scope = data.draw(any_grid()), data.draw(st.sampled_from(["turn", "run"]))
    by = data.draw(st.sampled_from([None, "agent"])) if runs else None
    beside = data.draw(st.sampled_from([False, False, False, True]))
    extra: dict[str, Any] = {"rules": [max_steps(2) | tool_budget(3)]} if beside else {}
    extra["own_limits"] = data.draw(st.sampled_from(["kept", "lifted"]))
    whole = counterfactual(runs, grid=grid, scope=scope, by=by, aggregate=True, **extra)
    keys = [name for name in ("agent", *grid, "rule") if name in whole]
    sums = [str(name) for name in whole.columns if name not in (*keys, *BOUNDS, "scope", "unit", "success_by")]
    aggregates = {key: amounts(row, sums) for key, row in rows_by(whole, keys).items()}
    # by the table
    if runs:
        added: dict[tuple[Any, ...], Counter[str]] = {}
        for row in rows_of(counterfactual(runs, grid=grid, scope=scope, by=by, **extra)):
            added.setdefault(tuple(row[name] for name in keys), Counter()).update(counts(row) | amounts(row, sums))
        assert aggregates == {key: {name: total[name] for name in sums} for key, total in added.items()}
    # by a partition
    side = [data.draw(st.booleans()) for _ in runs]
    parts = [[run for run, left in zip(runs, side, strict=True) if left is which] for which in (True, False)]
    if by is None and all(parts) and len({any(r.success is not None for r in part) for part in parts}) == 1:
        both: dict[tuple[Any, ...], Counter[str]] = {key: Counter() for key in aggregates}
        for part in parts:
            tally = counterfactual(part, grid=grid, scope=scope, aggregate=True, **extra)
            for key, row in rows_by(tally, keys).items():
                both[key].update(amounts(row, sums))
        assert aggregates == {key: {name: total[name] for name in sums} for key, total in both.items()}


MEASURES = ("steps", "tool_calls", "tokens", "cost_usd")
BOUNDS = [f"saved_{name}_{end}" for name in MEASURES for end in ("lower", "upper")]


@cases(100, **QUICK)
@given(st.data())
def test_savings_lie_within_bounds_that_are_open_if_unknown(data: Any) -> None:
    runs = [data.draw(sessions(number)) for number in range(data.draw(st.integers(1, 4)))]
    asked: Any = {"grid": data.draw(any_grid()), "scope": data.draw(st.sampled_from(["turn", "run"]))}
    asked["own_limits"] = data.draw(st.sampled_from(["kept", "lifted"]))
    keys = [*asked["grid"]]
    rows = rows_of(counterfactual(runs, **asked))
    for key, sums in rows_by(counterfactual(runs, **asked, aggregate=True), keys).items():
        mine = [row for row in rows if tuple(row[name] for name in keys) == key]
        for name in MEASURES:
            known = [row for row in mine if row[name] is not None]
            lower, upper = sums[f"saved_{name}_lower"], sums[f"saved_{name}_upper"]
            if not known:
                assert (lower, upper) == (None, None)
                continue
            certain = sum(row[f"saved_{name}"] for row in known if row["saved_is"] != "at most")
            cut = any(row["outcome"] == "censored" for row in mine)
            assert lower is None if cut else lower == pytest.approx(certain)
            untold = any(row[name] is None and row["saved_steps"] for row in mine)
            assert upper is None if untold else upper == pytest.approx(sums[f"saved_{name}"])


@cases(100, **QUICK)
@given(st.data())
def test_spent_plus_saved_is_constant_and_tight_limits_save_more(data: Any) -> None:
    runs = [data.draw(sessions(number)) for number in range(data.draw(st.integers(1, 3)))]
    name = data.draw(st.sampled_from(sorted(set(LIMITS) - {"error_streak"})))
    values = sorted(data.draw(st.lists(LIMITS[name], min_size=1, max_size=5, unique=True)))
    scope: Any = data.draw(st.sampled_from(["turn", "run"]))
    asked: Any = {"grid": {name: [*values, None]}, "scope": scope, "aggregate": True}
    table = counterfactual(runs, **asked)
    for measure in MEASURES:
        spent, saved = table[measure], table[f"saved_{measure}"]
        if spent.notna().all():
            whole = (spent + saved).tolist()
            assert whole == pytest.approx([whole[0]] * len(whole))
            assert saved.is_monotonic_decreasing


def amounts(row: dict[str, Any], names: Sequence[str]) -> dict[str, int]:
    """Those of a row's numbers as integers: cost in micro-dollars, 0 where it is unknown."""
    unit = {name: MICRO if "_usd" in name else 1 for name in names if name in row}
    return {name: round((row[name] or 0) * of) for name, of in unit.items()}


def counts(row: dict[str, Any]) -> dict[str, int]:
    """What the row of a run and a setting counts for in an aggregate."""
    of = {"n_runs": 1, f"n_{row['outcome']}": 1, "successes": int(row["success"] or 0)}
    if row["stop_reason"] is not None and row["outcome"] != "unknown":
        of[f"n_{row['stop_reason']}"] = 1
    of["n_unknown_tokens"], of["n_unknown_cost"] = int(row["tokens"] is None), int(row["cost_usd"] is None)
    of["successes_censored"] = of["successes"] * (row["outcome"] == "censored")
    return of


@cases(25, **QUICK)
@given(st.data())
def test_a_frame_of_the_recordings_says_the_same_as_the_runs(data: Any) -> None:
    runs = [data.draw(sessions(number)) for number in range(data.draw(st.integers(1, 4)))]
    grid, scope = data.draw(any_grid()), data.draw(st.sampled_from(["turn", "run"]))
    asked: Any = {"grid": grid, "scope": scope, "own_limits": data.draw(st.sampled_from(["kept", "lifted"]))}
    pd.testing.assert_frame_equal(counterfactual(recording_df(runs), **asked), counterfactual(runs, **asked))


# --- Cases ------------------------------------------------------------------------------------------------------------


def stop_of(pattern: str, **setting: Any) -> tuple[str, int]:
    row = row_of(
        counterfactual(play(steps(pattern), policy=FREE, stop=NEVER), grid={n: [v] for n, v in setting.items()})
    )
    return row["stop_reason"], row["stop_step"]


@pytest.mark.parametrize("variant", ["last_call", "capped", "reset"])
def test_the_wrong_ways_to_count_are_told_from_the_right_one(variant: str) -> None:
    """What each wrong variant says differs from ours on a pattern of its own, and ours is the live loop's answer."""
    pattern, threshold = {"last_call": ("AAB C", 2), "capped": ("AAA AA", 5), "reset": ("A A B", 2)}[variant]
    recording = play(steps(pattern), policy=FREE, stop=NEVER)
    live = play(RecordedModel(recording), policy=FREE, stop=doom_loop(threshold))
    assert stop_of(pattern, doom_loop=threshold) == (live.stop_reason, live.stop_step)
    assert wrong(recording, threshold, variant) != (live.stop_reason, live.stop_step)


def wrong(run: Run, threshold: int, variant: str) -> tuple[str, int]:
    streak, last = 0, ""
    for boundary, step in enumerate(run.steps[:-1], 1):
        streak = 0 if variant == "reset" else streak
        peak = 0
        for call in step.response.tool_calls:
            streak = streak + 1 if call.arguments == last and streak else 1
            streak = min(streak, 3) if variant == "capped" else streak
            last, peak = call.arguments, max(peak, streak)
        if (streak if variant == "last_call" else peak) >= threshold:
            return "doom_loop", boundary
    return "finished", len(run.steps) - 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda data: counterfactual(data, grid={"doom_loop": [3]}, exempt=["lok"]),
        lambda data: counterfactual(data, rules=[doom_loop(3, {"lok": None}) | max_steps(9)]),
        lambda data: bl.recommend(data, grid={"doom_loop": [3]}, exempt=["lok"]),
        lambda data: bl.scorecard(data, [doom_loop(3, {"lok": None})]),
    ],
)
def test_unrecorded_exempt_tool_raises_with_near_matches(tmp_path: Path, ask: Any) -> None:
    run = play([{"tool_calls": [{"name": "look", "arguments": {}}], "repeat": 5}, "done"], policy=FREE, stop=NEVER)
    with Store(tmp_path / "runs.db") as store:
        store.add(run)
    recording_df(run, {"lok": None}).to_parquet(tmp_path / "runs.parquet")
    for data in ([run], recording_df(run, {"lok": None}), tmp_path / "runs.db", tmp_path / "runs.parquet"):
        with pytest.raises(SettingError, match="no call of the tool 'lok' is on record; did you mean 'look'"):
            ask(data)


def test_a_tool_that_polls_can_be_exempt() -> None:
    other = {"tool_calls": [{"name": "other", "arguments": {}}]}
    items = [other, {"tool_calls": [{"name": "look", "arguments": {}}], "repeat": 5}, "done"]
    run = play(items, policy=FREE, stop=NEVER)
    for identity, reason in (("canonical", "doom_loop"), ({"look": None}, "finished"), ({"other": None}, "doom_loop")):
        assert row_of(counterfactual(run, grid={"doom_loop": [3]}, identity=identity))["stop_reason"] == reason
        rule = doom_loop(3, identity)
        assert play(RecordedModel(run), policy=FREE, stop=rule).stop_reason == reason
        assert row_of(counterfactual(run, rules=[rule]))["stop_reason"] == reason
        frame = recording_df(run, identity)
        assert row_of(counterfactual(frame, grid={"doom_loop": [3]}, identity=identity))["stop_reason"] == reason


def test_the_frame_of_steps_joined_with_runs_is_enough() -> None:
    runs = [play(steps(p), policy=FREE, stop=NEVER) for p in ("A A B", "AB B B", "")] + [play(steps("A A A", None))]
    frame = steps_df(runs).merge(runs_df(runs)[["run_id", "censored", "success", "stop_reason"]], on="run_id")
    grid = {"max_steps": [1, 2, None], "doom_loop": [2, None], "tool_budget": [2, 3, None]}
    found, expected = counterfactual(frame, grid=grid), counterfactual(runs, grid=grid)
    pd.testing.assert_frame_equal(found, expected)


def test_a_parquet_file_is_read_in_batches_of_whole_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = ["A A A B", "AB A", "", "A B A B A B", "CC CC C"]
    runs = [play(steps(p), policy=FREE, stop=NEVER) for p in patterns if p]
    recording_df(runs).to_parquet(tmp_path / "runs.parquet")
    monkeypatch.setattr("boolab.whatif.recordings.PARQUET_ROWS", 3)
    grid: dict[str, list[Any]] = {"max_steps": [1, 2, 4], "doom_loop": [2, 3, None]}
    beside = [max_steps(3) & tool_budget(4)]
    for tally, keys in (
        (True, ["max_steps", "doom_loop", "rule"]),
        (False, ["run_id", "max_steps", "doom_loop", "rule"]),
    ):
        found, expected = (
            counterfactual(source, grid=grid, rules=beside, aggregate=tally).sort_values(keys, ignore_index=True)
            for source in (tmp_path / "runs.parquet", runs)
        )
        pd.testing.assert_frame_equal(found, expected)
    parts = list(counterfactual(tmp_path / "runs.parquet", grid=grid, batches=True))
    assert len(parts) > 1
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), counterfactual(runs, grid=grid))


def test_runs_are_evaluated_in_batches_without_omission(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [play(steps("A B C"), policy=FREE, stop=NEVER) for _ in range(5)]
    question: dict[str, Any] = {"grid": {"max_steps": [1, 2], "doom_loop": [2, None]}}
    policy = bl.policies["opencode_v1"].vary(compaction=None)
    beside: dict[str, Any] = {
        "policy": policy,
        "aggregate": True,
    }  # its cap changes a request: the sums come from the rows
    rows, sums = counterfactual(runs, **question), counterfactual(runs, **question, **beside)
    assert len(list(counterfactual(runs, **question, batches=True))) == 1
    for limit, batches in ((9, [8, 8, 4]), (1, [4] * 5)):
        for module in ("evaluate", "tables"):
            monkeypatch.setattr(f"boolab.whatif.{module}.BATCH_ROWS", limit)
        parts = list(counterfactual(runs, **question, batches=True))
        assert [len(part) for part in parts] == batches
        pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), rows)
        pd.testing.assert_frame_equal(counterfactual(runs, **question, **beside), sums)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "there is no setting"),
        ({"grid": {"caps": [1]}}, "there is no axis 'caps'; accepted: max_steps"),
        ({"grid": {"max_steps": []}}, "max_steps has no values"),
        ({"grid": {"max_steps": 5}}, "expected a list of values"),
        ({"grid": {"max_steps": [1.5]}}, "max_steps(1.5): expected an integer"),
        ({"grid": {"doom_loop": [1]}}, "expected an integer >= 2"),
        ({"grid": {"max_steps": [5]}, "scope": "session"}, "scope='session' is not known"),
        ({"grid": {"max_steps": [5]}, "by": "team"}, "by='team': there is no such column"),
        ({"grid": {"max_steps": [5]}, "by": "steps"}, "by='steps': the table has a column of this name"),
        ({"grid": {"doom_loop": [5]}, "by": "doom_loop"}, "by='doom_loop': the table has a column of this name"),
        ({"grid": {}}, "it has no axes"),
        ({"grid": {"max_cost": [1e15]}}, "is too large"),
        ({"grid": {"doom_loop": [5]}, "identity": "same"}, "identity 'same' is not known"),
        ({"grid": {"doom_loop": [5]}, "identity": {"*": None}}, "exempts every tool"),
        ({"grid": {"max_steps": [5]}, "policy": "cursor"}, "there is no policy 'cursor'"),
        ({"rules": [5]}, "5 is not a stop rule"),
        ({"grid": {"max_steps": range(3000), "tool_budget": range(3000)}}, "9,000,000 settings are too many"),
        ({"grid": {"max_steps": range(1, 3000), "tool_budget": range(1500)}}, "aggregate=True"),
        ({"grid": {"max_steps": [5]}, "aggregate": True, "batches": True}, "batches=True goes with a row per run"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_said(asked: dict[str, Any], message: str) -> None:
    run = play(steps("A B"), policy=FREE, stop=NEVER)
    with pytest.raises(SettingError) as error:
        counterfactual([run, run], **asked)
    assert message in str(error.value)


def test_incomplete_frame_is_refused_with_the_right_call() -> None:
    run = play(steps("A A B"), policy=FREE, stop=NEVER)
    with pytest.raises(SettingError, match=r"no column 'censored'.*recording_df"):
        counterfactual(steps_df(run), grid={"max_steps": [2]})
    frame = recording_df(run).drop(columns="call_keys")
    with pytest.raises(SettingError, match="repeat_streak:canonical cannot be computed from this frame"):
        counterfactual(frame, grid={"doom_loop": [2]})
    mixed = pd.concat([recording_df(run).iloc[:1].assign(run_id="x"), recording_df(run).iloc[:1].assign(run_id="y"),
                       recording_df(run).iloc[1:2].assign(run_id="x")])  # fmt: skip
    with pytest.raises(SettingError, match="rows of run 'x' are not together"):
        counterfactual(mixed, grid={"max_steps": [2]})


def test_frame_without_a_row_per_step_is_refused_with_a_hint(tmp_path: Path) -> None:
    runs = [replace(play(distinct(n), policy=FREE, stop=NEVER), success=True) for n in (6, 8, 30)]
    of_runs = runs_df(runs)
    of_runs.to_parquet(tmp_path / "runs.parquet")
    asks: list[Any] = [
        lambda frame: counterfactual(frame, grid={"max_steps": [5]}),
        lambda frame: bl.recommend(frame, grid={"max_steps": [5, 7]}),
        lambda frame: bl.scorecard(frame, max_steps(5)),
    ]
    for ask, frame in itertools.product(asks, (of_runs, tmp_path / "runs.parquet")):
        with pytest.raises(SettingError, match=r"no column 'step'.*rows are runs.*bl\.recording_df\(runs\)"):
            ask(frame)
    joined = steps_df(runs).merge(runs_df(runs)[["run_id", "n_steps", "censored", "success"]], on="run_id")
    assert counterfactual(joined, grid={"max_steps": [5]}, aggregate=True)["n_truncated"].tolist() == [3]
    for frame in (of_runs.assign(step=1), joined[joined["step"] < 7]):
        with pytest.raises(SettingError, match=r"by the column n_steps, and \d rows? in the frame.*recording_df"):
            counterfactual(frame, grid={"max_steps": [5]})


@pytest.mark.parametrize("by", first(1, ["team", "max_steps", "strict"]))
def test_a_frame_tells_tools_and_settings_apart_as_the_runs_do(tmp_path: Path, by: str) -> None:
    names = {"L": "look", "W": "write"}
    runs = [
        replace(
            play(
                [*({"tool_calls": [{"name": names[letter], "arguments": {}}]} for letter in letters), "done"],
                policy=FREE,
                stop=NEVER,
            ),
            settings={"max_steps": cap, "team": team, "strict": cap == 5},
        )
        for letters, cap, team in (("LLLW", 5, "red"), ("WWL", None, "blue"), ("LWWW", 9, None))
    ]
    bl.save_runs(runs, tmp_path / "runs.parquet")
    recording_df(runs).to_json(tmp_path / "steps.jsonl", orient="records", lines=True)
    with Store(tmp_path / "runs.db") as store:
        for run in runs:
            store.add(run)
    assert bl.load_runs(tmp_path / "runs.parquet") == runs
    sources: list[Any] = [recording_df(runs), *(tmp_path / name for name in ("runs.parquet", "steps.jsonl", "runs.db"))]
    identities: list[Any] = ["canonical", "tool", {"look": None}, {"look": "tool", "write": None}]
    for identity, tally in itertools.product(identities, (True, False)):
        asked: dict[str, Any] = {
            "grid": {"doom_loop": [2, 3, None]},
            "identity": identity,
            "by": by,
            "aggregate": tally,
        }
        expected = counterfactual(runs, **asked)
        for source in sources if by == "team" else sources[:1]:
            pd.testing.assert_frame_equal(counterfactual(source, **asked), expected)
    with pytest.raises(SettingError, match="compared by canonical, not by raw"):
        counterfactual(sources[0], grid={"doom_loop": [2]}, identity={"look": "raw"})


def test_parquet_files_with_and_without_labels_are_one_data_set(tmp_path: Path) -> None:
    runs = [
        replace(play(steps("A B"), policy=FREE, stop=NEVER), success=None if i < 3 else i % 2 == 0) for i in range(6)
    ]
    recording_df(runs[:3]).drop(columns="success").to_parquet(tmp_path / "a.parquet")
    recording_df(runs[3:]).to_parquet(tmp_path / "b.parquet")
    (tmp_path / "notes.md").write_text("not a table")
    for tally in (True, False):
        found = counterfactual(tmp_path, grid={"max_steps": [1, None]}, aggregate=tally)
        pd.testing.assert_frame_equal(found, counterfactual(runs, grid={"max_steps": [1, None]}, aggregate=tally))


def test_a_run_in_two_places_of_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [play(steps("A A B"), policy=FREE, stop=NEVER) for _ in range(4)]
    frame = recording_df(runs)
    pd.concat([frame.iloc[2:], frame.iloc[:2]]).to_parquet(tmp_path / "runs.parquet")
    monkeypatch.setattr("boolab.whatif.recordings.PARQUET_ROWS", 3)
    with pytest.raises(SettingError, match="are not together"):
        counterfactual(tmp_path / "runs.parquet", grid={"max_steps": [1]}, aggregate=True)


def test_what_is_no_parquet_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"no table")
    with pytest.raises(bl.errors.RunFormatError, match=r"x\.parquet: it cannot be read as Parquet"):
        counterfactual(tmp_path / "x.parquet", grid={"max_steps": [1]})
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(bl.errors.RunFormatError, match="there is no column run_id"):
        counterfactual(tmp_path / "x.parquet", grid={"max_steps": [1]})
    (tmp_path / "empty").mkdir()
    with pytest.warns(bl.errors.ReadWarning, match="no log was found"):
        assert counterfactual(tmp_path / "empty", grid={"max_steps": [1]}).empty
    with pytest.raises(bl.errors.RunFormatError, match="no such file or folder"):
        counterfactual(tmp_path / "nowhere", grid={"max_steps": [1]})


def test_a_frame_is_asked_under_its_own_identity() -> None:
    items = [{"tool_calls": [{"name": "look", "arguments": text}]} for text in (ONE, OTHER)]
    run = play([*items, "done"], policy=FREE, stop=NEVER)
    for identity, reason in (("canonical", "doom_loop"), ("ordered", "finished")):
        frame = recording_df(run, identity)
        row = row_of(counterfactual(frame, grid={"doom_loop": [2]}, identity=identity))
        assert row["stop_reason"] == reason
    with pytest.raises(SettingError, match="compared by ordered, not by canonical"):
        counterfactual(recording_df(run, "ordered"), grid={"doom_loop": [2]})
    row = row_of(counterfactual(run, grid={"doom_loop": [2]}, policy="boocode"))
    assert row["stop_reason"] == "finished"  # its identity is ordered


ONE, OTHER = '{"a": 1, "b": 2}', '{"b": 2, "a": 1}'


def test_two_runs_of_one_id_do_not_become_one() -> None:
    run = play(steps("A B"), policy=FREE, stop=NEVER)
    with pytest.raises(SettingError, match="occur more than once"):
        recording_df([run, run])


def test_a_rule_that_fires_before_a_changed_request_comes_first() -> None:
    run = play(distinct(6), policy=FREE, stop=NEVER)
    policy = FREE.vary(order=("max_steps", "tool_budget"), last_step={"action": "no_tools"})
    row = row_of(counterfactual(run, grid={"max_steps": [4], "tool_budget": [3]}, policy=policy))
    live = play(RecordedModel(run), policy=policy, max_steps=4, tool_budget=3)
    assert (row["stop_reason"], row["stop_step"], row["also_fired"]) == (live.stop_reason, live.stop_step, "")
    with pytest.raises(SettingError, match="max_steps=0 is not valid under opencode_3631"):
        counterfactual(run, grid={"max_steps": [0]}, policy="opencode_3631")


def test_rules_that_differ_in_unknowns_alone_are_kept_apart() -> None:
    run = play(steps("A B"), policy=FREE, stop=NEVER)
    bare = replace(run, steps=tuple(s._replace(response=s.response._replace(usage=Usage())) for s in run.steps))
    rules_ = [max_tokens(5), max_tokens(5, on_unknown="ignore")]
    tally = counterfactual(bare, rules=rules_, aggregate=True)
    assert tally[["rule", "n_runs", "n_unknown"]].values.tolist() == [
        ["max_tokens(5)", 1, 1],
        ["max_tokens(5, on_unknown=ignore)", 1, 0],
    ]


def test_values_may_come_from_a_column() -> None:
    run = play(steps("A B C"), policy=FREE, stop=NEVER)
    for values in (pd.array([2, None], dtype="Int64"), pd.Series([2.0, None]), np.array([2, 2])):
        assert counterfactual(run, grid={"max_steps": values})["max_steps"].iloc[0] == 2


def test_a_long_run_does_not_overflow_its_key() -> None:
    usage = Usage(1, 1, cost=1)
    made = tuple(Step(i, 1, None, None, None, Response("", (ToolCall("c", str(i), "{}"),), None, usage),
                      (ToolResult("c", ""),)) for i in range(1, 8200))  # fmt: skip
    run = Run(run_id="long", agent="", model="", policy="", task="", stop=Stop("aborted", 8199), steps=made)
    caps = [4094, 4095, 4096, 8190, 8191, 8192, 8199]
    rows = counterfactual(run, grid={"max_steps": caps})
    assert rows["stop_step"].tolist() == caps
    tally = counterfactual(run, grid={"max_steps": caps}, aggregate=True)
    assert tally["steps"].tolist() == caps


def test_a_tally_is_the_same_in_parts_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [
        replace(play(steps(p), policy=FREE, stop=NEVER), agent=str(i % 3))
        for i, p in enumerate(["A A A B", "AB A", "CC C"] * 4)
    ]
    asked: dict[str, Any] = {"grid": {"max_steps": [1, 2, None], "doom_loop": [2, 3]}, "by": "agent", "aggregate": True}
    whole = counterfactual(runs, **asked)
    monkeypatch.setattr("boolab.whatif.aggregate.BLOCK", 5)
    pd.testing.assert_frame_equal(counterfactual(runs, **asked), whole)


def test_labels_and_the_proxy_are_never_mixed() -> None:
    done, cut = play(steps("A B")), play(steps("A B", None))
    assert counterfactual([done, cut], grid={"max_steps": [9]})["success"].tolist() == [True, False]
    assert set(counterfactual([done, cut], grid={"max_steps": [9]})["success_by"]) == {"run ended by itself"}
    labelled = counterfactual([replace(done, success=False), done], grid={"max_steps": [9]})
    assert labelled["success"].tolist() == [False, pd.NA]
    assert set(labelled["success_by"]) == {"label"}


DATA = ROOT.parent / "shared" / "data" / "tau-bench" / "gpt-4o-airline.trial0.json"


@pytest.mark.skipif(not DATA.exists(), reason="the tau-bench sample (shared/data) is not beside this checkout")
def test_the_reference_figures_of_tau_bench_hold() -> None:
    """Published with the specification: an evaluation by others, over the same 50 runs."""
    runs = bl.load_runs(DATA)
    assert (len(runs), sum(bool(r.success) for r in runs)) == (50, 21)
    assert (sum(r.n_steps for r in runs), sum(r.n_tool_calls for r in runs)) == (642, 282)
    caps = counterfactual(runs, grid={"max_steps": [5, 10, 15, 20]}, scope="run", aggregate=True)
    assert caps[["kept_lower", "kept_upper", "saved_steps"]].values.tolist() == [
        [3, 10, 392], [12, 16, 198], [17, 18, 81], [21, 21, 36]
    ]  # fmt: skip
    budgets = counterfactual(runs, grid={"tool_budget": [1, 3, 5, 8, 10, 13]}, scope="run", aggregate=True)
    assert budgets[["kept_lower", "kept_upper", "saved_tool_calls", "saved_steps"]].values.tolist() == [
        [1, 5, 237, 475], [12, 13, 163, 292], [14, 14, 109, 193], [17, 19, 51, 89], [19, 20, 33, 57], [21, 21, 18, 29]
    ]  # fmt: skip


def test_big_sums_are_exact() -> None:
    """Costs near 2**52 micro-dollars, as integers."""
    big = (1 << 50) + 1
    steps_ = tuple(Step(i, 1, 0, 0, 0, Response("", (ToolCall("c", "t", "{}"),), None, Usage(1, 1, cost=big)),
                        (ToolResult("c", ""),)) for i in range(1, 4))  # fmt: skip
    run = Run(run_id="r", agent="", model="", policy="", task="", stop=Stop("aborted", 3), steps=steps_)
    tally = counterfactual(run, grid={"max_steps": [2, None]}, aggregate=True)
    assert (tally["cost_usd"] * MICRO).tolist() == [2 * big, 3 * big]
    assert np.array_equal(tally["saved_steps"], [1, 0])


@pytest.mark.parametrize("rules", [bl.max_steps(5) | bl.doom_loop(3), [bl.max_steps(5)], lambda prefix: True])
def test_a_rule_in_the_place_of_a_grid_names_the_argument(rules: Any) -> None:
    with pytest.raises(SettingError, match=r"for rules pass rules=\[\.\.\.\]"):
        bl.counterfactual(bl.run_sync(None, "x", model=bl.ScriptedModel(["Hi."])), rules)
