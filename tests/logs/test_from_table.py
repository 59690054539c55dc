"""Runs of tables that others made."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import boolab as bl
from boolab.core.types import REDACTED
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.from_table import plain_json


def table(n_runs: int = 40) -> pd.DataFrame:
    """Runs of one call a step, and a last step without any."""
    rng = np.random.default_rng(1)
    rows = []
    for run in range(n_runs):
        n_steps, success = int(rng.integers(1, 12)), bool(rng.random() < 0.7)
        for step in range(n_steps):
            last = step == n_steps - 1
            rows.append({
                "run_id": run,
                "step": step,
                "tool": None if last else "bash",
                "arguments": None if last else f'{{"n": {rng.integers(0, 2)}}}',
                "success": success,
                "input_tokens": 10 * (step + 1),
                "output_tokens": 5,
                "cost_usd": 0.01,
                "task": f"task {run % 7}",
            })  # fmt: skip
    return pd.DataFrame(rows)


def steps(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"run_id": ["a"] * len(next(iter(columns.values()))), "tool": "ls", **columns})


def test_table_counts_are_those_of_its_rows() -> None:
    frame = table()
    runs = bl.runs_df(bl.runs_from_table(frame)).set_index("run_id")
    by_run = frame.groupby(frame["run_id"].astype(str), sort=False)
    assert runs["n_steps"].to_dict() == by_run.size().to_dict()
    assert runs["n_tool_calls"].to_dict() == by_run["tool"].count().to_dict()
    assert runs["success"].to_dict() == by_run["success"].first().to_dict()
    assert runs["input_tokens"].to_dict() == by_run["input_tokens"].sum().to_dict()
    assert runs["cost_usd"].to_dict() == pytest.approx(by_run["cost_usd"].sum().to_dict())
    assert not runs["censored"].any()


def test_table_step_cap_keeps_what_its_rows_show() -> None:
    frame = table()
    length = frame.groupby("run_id").size()
    success = frame.groupby("run_id")["success"].first()
    caps = bl.counterfactual(bl.runs_from_table(frame), grid={"max_steps": [4, 7]})
    finished = caps[caps["outcome"] == "unchanged"].groupby("max_steps").size()
    assert finished.to_dict() == {cap: int((length <= cap).sum()) for cap in (4, 7)}
    assert 0 < finished[4] < finished[7] < len(success)


def test_table_order_and_file_make_no_difference(tmp_path: Path) -> None:
    frame = table(12)
    runs = bl.runs_from_table(frame)
    shuffled = bl.runs_from_table(frame.sample(frac=1, random_state=2))
    assert {run.run_id: run for run in shuffled} == {run.run_id: run for run in runs}
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_csv(tmp_path / "x.tsv.gz", index=False, sep="\t")
    frame.to_parquet(tmp_path / "x.parquet")
    for name in ("x.csv", "x.tsv.gz", "x.parquet"):
        assert bl.runs_from_table(tmp_path / name) == runs
    assert bl.runs_from_table(str(tmp_path / "x.csv"), run="run_id", success="success") == runs


def test_rows_of_one_step_are_its_calls() -> None:
    (run,) = bl.runs_from_table(steps(step=[1, 1, 2], tokens=[7, None, 3], error=[True, None, "no"]))
    assert [len(step.response.tool_calls) for step in run.steps] == [2, 1]
    assert [result.is_error for step in run.steps for result in step.results if result] == [True, None, False]
    assert [step.response.usage[:2] for step in run.steps] == [(7, 0), (3, 0)]
    (run,) = bl.runs_from_table(steps(n=[1, 1, 2]))
    assert run.n_steps == 3


def test_table_unknown_values_stay_unknown() -> None:
    (run,) = bl.runs_from_table(steps(step=[1, 2], success=[None, pd.NA], cost=[0.5, None]))
    assert [call.arguments for step in run.steps for call in step.response.tool_calls] == [REDACTED] * 2
    assert run.success is None
    assert run.duration_ms is None
    assert run.started_at is None
    assert bl.runs_df(run)[["n_errors", "cost_usd", "input_tokens"]].isna().all(axis=None)
    assert run.steps[0].response.usage.input_tokens is None


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ({"a": 1}, '{"a":1}'),
        ("ls -la", '{"arguments":"ls -la"}'),
        (["x", 2], '{"arguments":["x",2]}'),
        (np.int64(3), '{"arguments":3}'),
        (float("nan"), REDACTED),
    ],
)
def test_table_arguments_are_an_object(value: Any, arguments: str) -> None:
    (run,) = bl.runs_from_table(pd.DataFrame({"run_id": ["a"], "tool": ["ls"], "arguments": [value]}))
    assert run.steps[0].response.tool_calls[0].arguments == arguments
    assert all(result is not None and not result.parse_error for result in run.steps[0].results)


@pytest.mark.parametrize(
    ("value", "success"),
    [(True, True), (0, False), (1.0, True), ("Yes", True), ("fail", False), ("pass", True), ("0", False),
     (np.bool_(True), True), (pd.NA, None), ("", None), ("NA", None)],
)  # fmt: skip
def test_table_success_words(value: Any, success: bool | None) -> None:
    assert bl.runs_from_table(steps(success=[value]))[0].success is success


def test_table_success_may_stand_in_one_row() -> None:
    assert bl.runs_from_table(steps(success=[None, None, 1.0]))[0].success is True


@pytest.mark.parametrize(
    ("columns", "stop", "censored"),
    [
        ({}, "aborted", True),
        ({"tool": ["ls", None]}, "finished", False),
        ({"success": True}, "finished", False),
        ({"success": True, "censored": "yes"}, "aborted", True),
        ({"censored": False}, "finished", False),
    ],
)
def test_table_run_ends_as_known(columns: dict[str, Any], stop: str, censored: bool) -> None:
    (run,) = bl.runs_from_table(steps(step=[1, 2]).assign(**columns))
    assert (run.stop_reason, run.censored) == (stop, censored)


def test_table_times() -> None:
    begin = datetime(2026, 3, 1, tzinfo=UTC)
    ends = [begin + timedelta(seconds=s) for s in (2, 5)]
    for column in (ends, pd.to_datetime(ends), [end.isoformat() for end in ends], [end.timestamp() for end in ends]):
        (run,) = bl.runs_from_table(steps(time=column, duration=[2, 3]))
        assert (run.duration_ms, run.started_at) == (5000, begin)
    (run,) = bl.runs_from_table(steps(duration=[2, 3]))
    assert (run.duration_ms, run.started_at) == (5000, None)
    (run,) = bl.runs_from_table(steps(time=[1.5, 4.0]))
    assert (run.duration_ms, run.started_at) == (2500, None)


def test_table_settings_group_runs() -> None:
    frame = steps(prompt=["v1", "v1"]).assign(agent="coder")
    (run,) = bl.runs_from_table(frame, settings=["prompt"])
    assert (run.settings, run.agent) == ({"prompt": "v1"}, "coder")
    assert bl.runs_df(run)["prompt"].tolist() == ["v1"]


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (steps(step=[1]), {"success": "sucess"}, "success='sucess': the table has no such column"),
        (steps(succes=[1]), {"success": "success"}, "did you mean 'succes'?"),
        (steps(step=[1]), {"settings": ["prompt"]}, "settings (prompt)='prompt'"),
        (pd.DataFrame({"episode": [1]}), {}, "run='run_id': the table has no such column; columns: episode"),
        (pd.DataFrame({"run_id": ["a", None]}), {}, "row 1: the column 'run_id' has no value"),
        (steps(success=["yes", "maybe"]), {}, "run 'a', row 1: the column 'success' is 'maybe'; expected True, False"),
        (steps(success=[0.5]), {}, "row 0: the column 'success' is 0.5"),
        (steps(success=[False, True]), {}, "the column 'success' is False in row 0 and True in row 1: expected one"),
        (steps(step=[1.5]), {}, "the column 'step' is 1.5; expected a whole number from 0 on"),
        (steps(step=[1, None]), {}, "row 1: the column 'step' is"),
        (steps(step=[-1]), {}, "the column 'step' is -1"),
        (steps(step=[1, 2, 1]), {}, "run 'a' has step 1 in the rows 0 and 2, with other steps between them"),
        (steps(step=[1, 1], cost=[0.1, 0.2]), {}, "the column 'cost' is 0.1 in row 0 and 0.2 in row 1"),
        (steps(cost_usd=["free"]), {"cost": "cost_usd"}, "the column 'cost_usd' is 'free'; expected a number"),
        (steps(tokens=[-3]), {}, "the column 'tokens' is -3"),
        (steps(tokens=[True]), {}, "the column 'tokens' is True"),
        (steps(tokens=[3], input_tokens=[4]), {}, "3 tokens are not the input and the output"),
        (steps(time=["soon"]), {}, "the column 'time' is 'soon'; expected a time"),
        (steps(error=["Traceback"]), {}, "the column 'error' is 'Traceback'; expected True, False"),
        (steps(arguments=[object()]), {}, "expected a text or a value of JSON"),
        (steps(agent=["x", "y"]), {}, "the column 'agent' is 'x' in row 0 and 'y' in row 1"),
    ],
)  # fmt: skip
def test_table_error_names_row_and_value(frame: pd.DataFrame, options: dict[str, Any], message: str) -> None:
    with pytest.raises(bl.SettingError) as error:
        bl.runs_from_table(frame, **{"tool": "tool", **options} if "tool" in frame else options)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"run_id": ["a"]}), "no column of tools"),
        (steps(step=[1, 4]), "run 'a' lacks 2 steps up to step 4"),
        (steps(step=[3]), "run 'a' lacks 2 steps"),
    ],
)
def test_table_warns_of_what_it_lacks(frame: pd.DataFrame, message: str) -> None:
    with pytest.warns(ReadWarning, match=message):
        assert len(bl.runs_from_table(frame)) == 1


def test_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no")
    (tmp_path / "empty.csv").write_text("")
    for name, error in (("x.parquet", RunFormatError), ("empty.csv", RunFormatError), ("none.csv", RunFormatError)):
        with pytest.raises(error, match=name):
            bl.runs_from_table(tmp_path / name)
    with pytest.raises(bl.SettingError, match="expected a table with the suffix"):
        bl.runs_from_table(tmp_path / "x.xlsx")
    other: Any = 3
    with pytest.raises(TypeError, match="expected a DataFrame or the path"):
        bl.runs_from_table(other)
    assert bl.runs_from_table(pd.DataFrame({"run_id": []})) == []


def test_errors_about_tables_name_the_function(tmp_path: Path) -> None:
    table(3).to_csv(tmp_path / "x.csv", index=False)
    table(3).to_parquet(tmp_path / "x.parquet")
    uses: list[Any] = [
        lambda: bl.load_runs(tmp_path / "x.csv"),
        lambda: bl.load_runs(tmp_path / "x.parquet"),
        lambda: bl.read_steps(tmp_path / "x.csv"),
        lambda: bl.counterfactual(table(3), grid={"max_steps": [2]}),
        lambda: bl.load_runs(table(3)),
    ]
    for use in uses:
        with pytest.raises((bl.SettingError, RunFormatError, TypeError), match="bl.runs_from_table"):
            use()


def test_turns_of_a_table_are_those_of_its_sessions() -> None:
    frame = steps(turn=[0, 0, None, 2, 2])
    (run,) = bl.runs_from_table(frame, turn="turn")
    assert [step.turn for step in run.steps] == [1, 1, 1, 2, 2]
    assert bl.runs_df(run)["n_turns"].tolist() == [2]
    caps = bl.counterfactual(run, grid={"max_steps": [2]}, scope="turn")
    assert caps["saved_steps"].tolist() == [1]
    (other,) = bl.runs_from_table(frame)  # a table may call its steps turns
    assert {step.turn for step in other.steps} == {1}
    for turns, words in (([2, 1], "column 'turn' is 1; expected 2 or more"), ([1, 1.5], "a whole number from 0 on")):
        with pytest.raises(bl.SettingError, match=words):
            bl.runs_from_table(steps(turn=turns), turn="turn")
    with pytest.raises(bl.SettingError, match="is 1 in row 0 and 2 in row 1.*one value for a step"):
        bl.runs_from_table(steps(step=[1, 1], turn=[1, 2]), turn="turn")


def test_plain_json_has_lists_for_tuples() -> None:
    assert plain_json({"role": "user", "content": ("a", None)}) == {"role": "user", "content": ["a", None]}
