"""The demo: what it counts is what its runs say, and it writes what it names."""

import asyncio

import pandas as pd
import pytest

from boolab.cli.demo.demo import (
    POLICIES,
    QUICK_GRID,
    RULES,
    Measured,
    Report,
    _early_exit,
    load_material,
    measure,
    report,
    stop_reasons,
)
from boolab.core.text import MAX_WIDTH
from boolab.errors import SettingError
from boolab.frames.tables import runs_df
from boolab.runtime.models.scripted import ScriptedModel
from tests.support.helpers import call, play, steps


@pytest.fixture(scope="module")
def measured() -> Measured:
    return asyncio.run(measure(grid=QUICK_GRID, progress=False))


@pytest.fixture(scope="module")
def written(measured: Measured, tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report(measured, tmp_path_factory.mktemp("demo"))


@pytest.mark.slow
def test_every_agent_runs_on_every_script_under_its_own_limits(measured: Measured) -> None:
    material = measured.material
    pairs = {(run.agent, run.model) for run in measured.own}
    assert pairs == {(agent, script) for agent in material.agents for script in material.scripts}
    assert len(measured.own) == len(pairs)


@pytest.mark.slow
def test_the_grid_leaves_out_only_the_agent_that_may_call_no_tools(measured: Measured) -> None:
    assert set(measured.material.agents) - {run.agent for run in measured.grid} == {"answerer"}
    cells = len(measured.material.scripts) * (len(measured.material.agents) - 1)
    assert len(measured.grid) == cells * 4
    assert {run.policy for run in measured.policies} == set(POLICIES) - {"boocode"}


@pytest.mark.parametrize(
    "grid", [{"max_steps": (3, None)}, {**QUICK_GRID, "max_steps": (3, 5)}, {**QUICK_GRID, "speed": (None,)}]
)
def test_a_grid_needs_the_three_limits_and_the_absence_of_each(grid: dict[str, tuple[int | None, ...]]) -> None:
    with pytest.raises(SettingError, match="expected values for max_steps, tool_budget, doom_loop, None among each"):
        asyncio.run(measure(grid=grid, progress=False))


@pytest.mark.slow
def test_the_figures_and_tables_that_it_names_are_there(written: Report) -> None:
    names = {path.name for path in written.files}
    assert {"runs.csv", "stop_reasons_by_setting.csv", "steps_by_agent.png", "tools.png"} <= names
    for path in written.files:
        assert str(path) in written.text
        head = path.read_bytes()[:8]
        assert (
            head == b"\x89PNG\r\n\x1a\n" if path.suffix == ".png" else head.startswith((b"run_id", b"policy", b"agent"))
        )


@pytest.mark.slow
def test_the_tables_hold_every_run_once(written: Report, measured: Measured) -> None:
    folder = written.files[0].parent
    runs = pd.read_csv(folder / "runs.csv")
    assert runs["run_id"].is_unique
    assert set(runs["run_id"]) == set(written.runs["run_id"])
    by_setting = pd.read_csv(folder / "stop_reasons_by_setting.csv")
    assert by_setting["n_runs"].sum() == len(measured.grid) + len(measured.policies)
    assert (
        by_setting["n_runs"].sum()
        == by_setting.filter(regex="^n_(finished|paused|.*_cap|doom_loop|error)$").sum().sum()
    )


@pytest.mark.slow
def test_the_text_fits_the_terminal_and_counts_all_its_runs(written: Report) -> None:
    assert max(map(len, written.text.splitlines())) <= MAX_WIDTH  # its tables do not fit 80
    assert f"{len(written.runs):,} runs" in written.text.splitlines()[0]
    assert str(written) == written.text


@pytest.mark.slow
def test_the_report_names_the_numbers_of_its_own_runs(written: Report) -> None:
    material = load_material()
    naive, stuck = (material.play(script, policy="naive") for script in ("early_exit", "stuck"))
    used = runs_df(stuck)[["input_tokens", "output_tokens"]].sum(axis=1)[0]
    assert f"It dropped {len(naive.steps[-1].dropped)} calls" in written.text
    assert f"{stuck.n_steps:,}  {used:,}" in written.text
    for rule, script in RULES:
        run = material.play(script, stop=rule)
        lines = [line for line in written.text.splitlines() if line.startswith(f"{rule} ") and script in line]
        assert any(f" {run.stop_reason} " in line for line in lines)


def test_another_script_makes_another_report() -> None:
    material = load_material()
    pending = {"tool_calls": [call("search_text", pattern=str(n)) for n in range(5)], "finish_reason": "stop"}
    scripts = {**material.scripts, "early_exit": ScriptedModel([pending, "Late."])}
    body = " ".join(_early_exit(material._replace(scripts=scripts)).body.split())
    assert "Response 1 of the script early_exit has the finish reason 'stop' while 5 tool calls are in it." in body
    assert "It dropped 5 calls" in body


def test_stop_reasons_add_up_and_leave_unknown_tokens_out() -> None:
    known = [{"text": "a", "usage": {"input_tokens": 7, "output_tokens": 1}}]
    frame = runs_df([play(known), play(["b"]), play(steps("A A A A"), doom_loop=3)])
    table = stop_reasons(frame, ["agent"])
    (row,) = table.to_dict("records")
    assert (row["n_runs"], row["n_finished"], row["n_doom_loop"], row["n_steps"]) == (3, 2, 1, 5)
    assert (row["tokens"], row["n_unknown"]) == (8, 2)


def test_stop_reasons_keep_runs_without_a_setting() -> None:
    frame = runs_df([play(["a"]), play(["b"])]).assign(max_steps=pd.Series([3, None], dtype="Int64"))
    assert stop_reasons(frame, ["max_steps"])["n_runs"].tolist() == [1, 1]


@pytest.mark.slow
def test_the_trial_of_the_demo_shows_its_own_numbers(written: Report, measured: Measured) -> None:
    found = measured.trial
    assert str(found) in written.text
    assert found.n_branches >= 20
    assert found.outcomes["open"] == found.n_open > 0
