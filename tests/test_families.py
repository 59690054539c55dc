"""Families: who started whom, at which step, and what of it is on record."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

import boolab as bl
from boolab.families import Call, Kin, Missing, Start, kin_of, parent_steps, starts_of
from boolab.types import Run

LOOK = {"tool_calls": [{"name": "look", "arguments": {"at": "a"}}]}


@bl.tool(read_only=True)
def look(at: str) -> str:
    """Look."""
    return f"nothing at {at}"


def ask(*prompts: str) -> dict[str, object]:
    return {"tool_calls": [{"name": "task", "arguments": {"agent": "scout", "prompt": one}} for one in prompts]}


def lead_with_scouts() -> Run:
    scout = bl.Agent("scout", tools=(look,), model=bl.ScriptedModel([LOOK, LOOK, "Nothing."]))
    script = bl.ScriptedModel([LOOK, ask("one"), ask("two", "three"), "It is not there."])
    return bl.run_sync(bl.Agent("lead", tools=(look, bl.task_tool(scout))), "Find it", model=script)


def test_a_live_run_says_at_which_of_its_steps_each_subagent_was_started() -> None:
    run = lead_with_scouts()
    assert [(start.step, start.agent) for start in starts_of(run)] == [(2, "scout"), (3, "scout"), (3, "scout")]
    assert [start.run_id for start in starts_of(run)] == [child.run_id for child in run.subagents]
    frame = bl.runs_df(bl.family(run))
    assert frame["parent_step"].astype(object).where(frame["parent_step"].notna(), None).tolist() == [None, 2, 3, 3]


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.parquet"])
def test_what_is_saved_still_says_it(tmp_path: Path, name: str) -> None:
    bl.save_runs(lead_with_scouts(), tmp_path / name)
    lead, *scouts = bl.load_runs(tmp_path / name)
    assert parent_steps([lead]) == {child.run_id: step for child, step in zip(scouts, (2, 3, 3), strict=True)}


def test_a_store_still_says_it(tmp_path: Path) -> None:
    with bl.Store(tmp_path / "runs.db") as store:
        store.add(lead_with_scouts())
    lead, *scouts = bl.stored_runs(tmp_path / "runs.db")
    assert parent_steps([lead]) == {child.run_id: step for child, step in zip(scouts, (2, 3, 3), strict=True)}


def test_a_branch_has_no_parent_and_shares_the_subagents_of_the_steps_that_it_keeps() -> None:
    run = lead_with_scouts()
    other = asyncio.run(bl.branch(run, 2, model=bl.ScriptedModel(["Enough."])))
    assert other.parent_run_id is None
    assert starts_of(other) == starts_of(run)[:1]
    assert bl.runs_df([run, other])["parent_step"].isna().all()
    listed = [*bl.family(run), other]
    kin = kin_of([r.run_id for r in listed], [r.parent_run_id for r in listed], dict(enumerate(map(starts_of, listed))))
    assert kin.parent == [-1, 0, 0, 0, -1]
    assert kin.step == [0, 2, 3, 3, 0]
    assert [call for call in kin.calls if call.caller == 4] == [Call(4, 2, 1)]
    assert kin.missing == []


def test_a_subagent_that_is_not_on_record_is_missing() -> None:
    lead, first, *_ = bl.family(lead_with_scouts())
    kin = kin_of([lead.run_id, first.run_id], [None, lead.run_id], {0: starts_of(lead)})
    assert kin == Kin([-1, 0], [0, 2], [Call(0, 2, 1)], [Missing(0, 3, "scout"), Missing(0, 3, "scout")])


def test_a_child_that_its_parent_does_not_name_was_started_at_a_step_that_is_not_known() -> None:
    kin = kin_of(["lead", "scout", "orphan"], [None, "lead", "elsewhere"], {0: [Start(None, None)]})
    assert kin == Kin([-1, 0, -1], [0, 0, 0], [Call(0, 0, 1)], [Missing(0, 0, "")])


def test_of_copies_of_a_family_each_child_belongs_to_the_copy_that_it_follows() -> None:
    started = [Start(1, "scout")]
    kin = kin_of(["lead", "scout", "lead", "scout"], [None, "lead", None, "lead"], {0: started, 2: started})
    assert (kin.parent, kin.missing) == ([-1, 0, -1, 2], [])


def test_the_one_that_says_it_started_a_run_is_its_parent_even_if_the_run_names_the_root() -> None:
    ids, parents = ["root", "middle", "leaf"], [None, "root", "root"]
    kin = kin_of(ids, parents, {0: [Start(1, "middle")], 1: [Start(2, "leaf")]})
    assert (kin.parent, kin.step) == ([-1, 0, 1], [0, 1, 2])


def test_events_that_tell_nonsense_tell_nothing() -> None:
    run = lead_with_scouts()
    odd = tuple(
        event._replace(payload={"run_id": run_id, "after_step": step, "agent": 3})
        for run_id, step in ((None, 99), (7, "x"), ("", True), ("a", 2))
        for event in [run.events[0]]
    )
    unknown = [Start(None, None)] * 3
    assert starts_of(replace(run, events=odd)) == [*unknown, Start(2, "a")]
