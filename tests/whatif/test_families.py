"""Families under settings: what the stop of one run does to its parent and to the runs that it would have started.

The recording of a family without limits is asked about every setting, and held against what the live loop makes of the
same scripts under these limits. A scripted agent says the same whatever a subagent answers, which a model would not; so
what is compared ends where an answer first differs.
"""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.tables import pieces, sum_rows
from tests.support.cases import cases

FREE = bl.Policy(name="free", order=("max_steps", "doom_loop", "tool_budget"))
AGENTS = ("lead", "scout", "clerk")

Script = list[list[Any]]
"""What one agent does: its steps, each a list of calls: a letter for a look, or the agent and the script of a task."""


def scripts_of(depth: int) -> st.SearchStrategy[Script]:
    """Scripts of agents that may start others, so many generations deep."""
    looks = st.sampled_from("ab")
    tasks = st.tuples(st.sampled_from(AGENTS[1:]), st.deferred(lambda: scripts_of(depth - 1)))
    call = st.one_of(looks, tasks) if depth else looks
    return st.lists(st.lists(call, min_size=1, max_size=2), max_size=5)


class Family:
    """An agent's script with those of all that it starts, to be run under any limits."""

    def __init__(self, script: Script) -> None:
        self.scripts: dict[str, list[Any]] = {}
        self._add("0", script)

    def _add(self, name: str, script: Script) -> None:
        items = self.scripts[name] = []
        for number, step in enumerate(script):
            calls = []
            for place, call in enumerate(step):
                if isinstance(call, str):
                    calls.append({"name": "look", "arguments": {"at": call}})
                else:
                    task = f"{name}.{number}.{place}"
                    self._add(task, call[1])
                    calls.append({"name": "task", "arguments": {"agent": call[0], "prompt": task}})
            items.append({"tool_calls": calls})
        items.append("Done.")

    def run(self, limits: Mapping[str, Mapping[str, int | None]]) -> list[bl.Run]:
        """The runs, each agent under its own limits."""

        def answer(messages: Any) -> Any:
            name = next(message.text for message in messages if message.role == "user")
            return self.scripts[name][sum(message.role == "assistant" for message in messages)]

        model = bl.ScriptedModel(answer)
        agents = {
            name: bl.Agent(name, tools=("look", "task"), policy=FREE, **limits.get(name, {}))  # type: ignore[arg-type]
            for name in AGENTS
        }
        task = bl.task_tool([agents["scout"], agents["clerk"]], max_depth=4, tools=[look])
        lead = bl.Agent("lead", tools=(look, task), policy=FREE, **limits.get("lead", {}))  # type: ignore[arg-type] # so
        return bl.with_subagents(bl.run_sync(lead, "0", model=model))


@bl.tool(read_only=True)
def look(at: str) -> str:
    """Look."""
    return f"nothing at {at}"


def ask(recorded: Any, **question: Any) -> Any:
    """`counterfactual`, whose frames are taken apart here cell by cell."""
    return bl.counterfactual(recorded, **question)


def chain(*names: str) -> Iterator[str]:
    """The tasks above each of these, and itself."""
    for name in names:
        parts = name.split(".")
        for end in range(1, len(parts) + 1, 2):
            yield ".".join(parts[:end])


@cases(150)
@given(script=scripts_of(2), data=st.data())
def test_family_counterfactual_equals_the_live_loop(script: Script, data: st.DataObject) -> None:
    family = Family(script)
    recorded = family.run({})
    limit = st.none() | st.integers(1, 4)
    grid: dict[str, list[int | None]] = {"max_steps": [data.draw(limit)], "tool_budget": [data.draw(limit)]}
    for agent in sorted({run.agent for run in recorded}):
        if data.draw(st.booleans()):
            grid[f"max_steps@{agent}"] = [data.draw(limit)]
    limits = {
        agent: {
            "max_steps": grid.get(f"max_steps@{agent}", grid["max_steps"])[0],
            "tool_budget": grid["tool_budget"][0],
        }
        for agent in AGENTS
    }
    lived = {run.task: run for run in family.run(limits)}
    table = ask(recorded, grid=grid, by=["agent", "task"])
    assert len(table) == len(recorded)
    by_task = {run.task: run for run in recorded}
    for row in table.itertuples(index=False):
        live, on_record = lived.get(row.task), by_task[row.task]
        total = (on_record.n_steps, on_record.n_tool_calls)
        assert (row.steps + row.saved_steps, row.tool_calls + row.saved_tool_calls) == total
        if row.outcome == "not_identified":
            assert row.saved_is == "at most"
            if live is not None:
                assert live.steps[: row.steps] == on_record.steps[: row.steps] or row.steps <= live.n_steps
                assert row.steps <= live.n_steps
            continue
        assert row.saved_is == "exact"
        if row.outcome == "truncated" and live is None:
            assert (row.stop_step, row.steps, row.tool_calls) == (0, 0, 0)
            continue
        assert live is not None
        assert (row.stop_reason, row.stop_step) == (live.stop_reason, live.stop_step)
        assert (row.steps, row.tool_calls) == (live.n_steps, live.n_tool_calls)
    never = set(by_task) - set(lived)
    truncated = set(table["task"][(table["outcome"] == "truncated") & (table["steps"] == 0)])
    doubtful = set(table["task"][table["outcome"] == "not_identified"])
    assert never <= truncated | doubtful


@cases(100)
@given(script=scripts_of(2), data=st.data())
def test_a_parent_is_identified_unless_a_run_below_it_is_stopped(script: Script, data: st.DataObject) -> None:
    recorded = Family(script).run({})
    cap = data.draw(st.integers(1, 4))
    table = ask(recorded, grid={"max_steps": [cap]}, by="task").set_index("task")
    began = {task: not (row.outcome == "truncated" and row.steps == 0) for task, row in table.iterrows()}
    for run in recorded:
        below = [other.task for other in recorded if other.task.startswith(f"{run.task}.")]
        changed = [task for task in below if began[task] and table.loc[task, "outcome"] != "unchanged"]
        if table.loc[run.task, "outcome"] == "not_identified":
            above = table.loc[[task for task in chain(run.task) if task != run.task], "outcome"]
            assert changed or "not_identified" in set(above)
        if table.loc[run.task, "outcome"] == "unchanged":
            assert not changed


@cases(50)
@given(scripts=st.lists(scripts_of(2), min_size=1, max_size=4), data=st.data())
def test_family_sums_equal_their_rows_in_any_batches(scripts: list[Script], data: st.DataObject) -> None:
    runs = [run for script in scripts for run in Family(script).run({})]
    runs = data.draw(st.permutations(runs))
    grid = {"max_steps": [1, 2, 3, None], "tool_budget": [2, None]}
    rows = ask(runs, grid=grid)
    sums = ask(runs, grid=grid, aggregate=True)
    pd.testing.assert_frame_equal(sum_rows(rows)[sums.columns], sums)
    batches = pd.concat(list(bl.counterfactual(runs, grid=grid, batches=True)), ignore_index=True)
    keys = ["run_id", "max_steps", "tool_budget"]
    pd.testing.assert_frame_equal(
        batches.sort_values(keys, ignore_index=True), rows.sort_values(keys, ignore_index=True), check_dtype=True
    )
    ledger = ledger_of(runs)
    kin = ledger.kin()
    if kin is not None:
        for part in pieces(ledger, kin, 1):
            below = part.kin()
            assert below is None or (below.missing == [] and below.parent.count(-1) == 1)


def test_an_axis_of_one_agent_takes_the_place_of_the_one_for_all() -> None:
    family = Family([[("scout", [["a"]] * 4)], ["a"], ["a"]]).run({})
    table = ask(family, grid={"max_steps": [2, None], "max_steps@scout": [3, None]}, by="agent")
    assert list(table.columns[1:4]) == ["agent", "max_steps", "max_steps@scout"]
    found = table.set_index(["agent", "max_steps", "max_steps@scout"])["outcome"].astype(str)
    assert found.tolist() == [
        "not_identified", "truncated", "not_identified", "unchanged",
        "truncated", "unchanged", "truncated", "unchanged",
    ]  # fmt: skip


def test_an_agent_that_occurs_nowhere_is_refused_by_name() -> None:
    family = Family([[("scout", [["a"]])]]).run({})
    with pytest.raises(bl.SettingError, match=r"max_steps@scuot: .* no agent 'scuot'.*scout"):
        ask(family, grid={"max_steps@scuot": [3]})
    with pytest.raises(bl.SettingError, match="no agent 'scuot'"):
        ask(family, grid={"max_steps@scuot": [3]}, aggregate=True)
    with pytest.raises(bl.SettingError, match="name@agent"):
        ask(family, grid={"step@scout": [3]})


def test_missing_subagent_with_a_limit_makes_its_parent_unknown() -> None:
    lead, first, _ = Family([["a"], [("scout", [["a"]])], [("clerk", [["a"]])], ["a"]]).run({})
    grid = {"max_steps": [1, 2, 3, 9, None], "max_steps@lead": [None]}
    rows = ask([lead, first], grid=grid).set_index(["run_id", "max_steps"])
    assert rows.loc[lead.run_id, "outcome"].astype(str).tolist() == ["not_identified", *["unknown"] * 3, "unchanged"]
    assert rows.loc[lead.run_id, "steps"].tolist() == [2, 3, 3, 3, 5]
    assert rows.loc[lead.run_id, "kept_lower"].tolist() == [0, 0, 0, 0, 1]
    assert rows.loc[lead.run_id, "kept_upper"].tolist() == [1] * 5
    sums = ask([lead, first], grid=grid, aggregate=True)
    assert (sums["n_unknown"].tolist(), sums["n_error"].tolist()) == ([0, 1, 1, 1, 0], [0] * 5)
    own = ask([lead, first], grid={"max_steps@lead": [3, 4]}, by="agent").set_index("agent")
    assert own.loc["lead", "outcome"].tolist() == ["truncated", "truncated"]


def test_subagent_of_unknown_start_obeys_its_own_limit() -> None:
    lead, scout = (replace(run, events=()) for run in Family([[("scout", [["a"]] * 3)], ["a"]]).run({}))
    grid = {"max_steps@scout": [1, 2, 4]}
    rows = ask([lead, scout], grid=grid).set_index(["run_id"])
    assert rows.loc[scout.run_id, "outcome"].tolist() == ["truncated", "truncated", "unchanged"]
    assert rows.loc[scout.run_id, "steps"].tolist() == [1, 2, 4]
    assert rows.loc[lead.run_id, "outcome"].tolist() == ["not_identified", "not_identified", "unchanged"]
    assert rows.loc[lead.run_id, "stop_step"].tolist()[:2] == [1, 1]  # it has made a step, or could not have called
    own = ask([lead, scout], grid={"max_steps@lead": [1]}).set_index("run_id")
    assert own["outcome"].to_dict() == {lead.run_id: "truncated", scout.run_id: "not_identified"}


def test_stopped_subagents_of_unknown_start_are_not_identified() -> None:
    family = Family([[("scout", [["a"]] * 3)], [("scout", [["a"]] * 3)]]).run({})
    bare = [replace(run, events=()) for run in family]
    assert ask(bare, grid={"max_steps@scout": [2]})["outcome"].tolist() == ["not_identified"] * 3


def test_the_success_of_a_family_is_its_roots() -> None:
    family = Family([[("scout", [["a"]])]]).run({})
    assert ask(family, grid={"max_steps": [9]}, aggregate=True)["successes"].tolist() == [1]
    assert ask(family[1:], grid={"max_steps": [9]}, aggregate=True)["successes"].tolist() == [1]
    labelled = bl.label(family, lambda run: run.agent == "scout")
    assert ask(labelled, grid={"max_steps": [9]}, aggregate=True)["kept_lower"].tolist() == [1]


def test_limits_on_results_are_unknown_at_a_stopped_subagent() -> None:
    lead, scout = Family([["a"], [("scout", [["a"]] * 3)], ["a"]]).run({})
    asked = lead.steps[1]._replace(results=tuple(one._replace(is_error=True) for one in lead.steps[1].results if one))
    family = [replace(lead, steps=(lead.steps[0], asked, *lead.steps[2:])), scout]
    for grid, found in (({"error_streak": [1]}, "not_identified"), ({"tool_budget": [2]}, "truncated")):
        rows = ask(family, grid={**grid, "max_steps@scout": [2, None]}, by="agent").query("agent == 'lead'")
        assert rows["outcome"].tolist() == [found, "truncated"]
        assert rows["steps"].tolist() == [2, 2]


def test_a_branch_shares_the_subagents_of_its_steps() -> None:
    family = Family([["a"], [("scout", [["a"]] * 4)], ["a"]]).run({})
    other = asyncio.run(bl.branch(family[0], 2, model=bl.ScriptedModel(["Enough."])))
    table = ask([*family, other], grid={"max_steps@scout": [2]})
    assert table["outcome"].tolist() == ["not_identified", "truncated", "not_identified"]
    assert table["steps"].tolist() == [2, 2, 2]


def test_runs_that_are_each_others_parents_are_taken_as_they_are() -> None:
    one, other = (run for run in Family([["a"]]).run({}) for _ in range(2))
    circle = [replace(one, run_id="1", parent_run_id="2"), replace(other, run_id="2", parent_run_id="1")]
    assert len(ask(circle, grid={"max_steps": [1, None]})) == 4


@pytest.mark.parametrize("kind", ["frame", "file", "lines", "store"])
def test_families_are_the_same_in_frames_files_and_stores(tmp_path: Path, kind: str) -> None:
    runs = [run for script in FAMILIES for run in Family(script).run({})]
    if kind == "store":
        with bl.Store(tmp_path / "runs.db") as store:
            store.add(runs)
    elif kind == "file":
        bl.save_runs(runs, tmp_path / "runs.parquet")
    elif kind == "lines":
        bl.recording_df(runs).to_json(tmp_path / "runs.jsonl", orient="records", lines=True)
    recorded: Any = {
        "frame": bl.recording_df(runs) if kind == "frame" else None,
        "file": tmp_path / "runs.parquet",
        "lines": tmp_path / "runs.jsonl",
        "store": tmp_path / "runs.db",
    }[kind]
    grid = {"max_steps": [1, 2, 3, None], "max_steps@scout": [2, None]}
    expected = ask(runs, grid=grid, by="agent")
    found = ask(recorded, grid=grid, by="agent")
    keys = ["run_id", "max_steps", "max_steps@scout"]
    pd.testing.assert_frame_equal(
        found.sort_values(keys, ignore_index=True), expected.sort_values(keys, ignore_index=True)
    )


def test_joined_table_of_runs_and_steps_keeps_families() -> None:
    runs = [run for script in FAMILIES for run in Family(script).run({})]
    columns = ["run_id", "agent", "parent_run_id", "parent_step", "censored", "success", "stop_reason", "n_steps"]
    frame = bl.steps_df(runs).merge(bl.runs_df(runs)[columns], on="run_id", sort=False)
    grid = {"max_steps": [1, 2, 3, None]}
    found = ask(frame, grid=grid)["outcome"].tolist()
    assert found == ask(runs, grid=grid)["outcome"].tolist()


FAMILIES: list[Script] = [
    [["a"], [("scout", [["a"]] * 4), ("clerk", [])], ["a"]],
    [["a"]] * 3,
    [[("clerk", [[("scout", [["b"]] * 3)], ["a"]])], ["a"], ["b"]],
]


def test_workers_read_whole_families_and_refuse_divided_ones(tmp_path: Path) -> None:
    runs = [run for script in FAMILIES for run in Family(script).run({})]
    grid = {"max_steps": [1, 2, None]}
    expected = ask(runs, grid=grid, aggregate=True)
    bl.save_runs(runs, tmp_path / "runs.parquet")
    with ThreadPoolExecutor(2) as pool:
        found = ask(tmp_path / "runs.parquet", grid=grid, aggregate=True, client=pool, progress=False)
        pd.testing.assert_frame_equal(found, expected)
        apart = tmp_path / "apart"
        apart.mkdir()
        alone = [replace(run, subagents=()) for run in runs]
        bl.save_runs([run for run in alone if run.agent == "lead"], apart / "leads.parquet")
        bl.save_runs([run for run in alone if run.agent != "lead"], apart / "others.parquet")
        pd.testing.assert_frame_equal(ask(apart, grid=grid, aggregate=True), expected)
        with pytest.raises(bl.SettingError, match="are in several parts of the data.*leave client out"):
            ask(apart, grid=grid, aggregate=True, client=pool, progress=False)
