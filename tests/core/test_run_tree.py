"""Families: who started whom, at which step, and what of it is on record."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.messages import Message
from boolab.core.run import Run
from boolab.core.run_tree import (
    Call,
    Kin,
    Missing,
    Start,
    flag_labelled_groups,
    homes_of,
    kin_of,
    order_agents,
    parent_steps,
    roots_of,
    starts_of,
)
from boolab.core.types import Step
from boolab.stats.recommend.units import family_units
from boolab.stats.units import units_of
from boolab.whatif.from_runs import ledger_of

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


def test_live_run_records_the_start_step_of_each_subagent() -> None:
    run = lead_with_scouts()
    assert [(start.step, start.agent) for start in starts_of(run)] == [(2, "scout"), (3, "scout"), (3, "scout")]
    assert [start.run_id for start in starts_of(run)] == [child.run_id for child in run.subagents]
    frame = bl.runs_df(bl.with_subagents(run))
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


def test_branch_has_no_parent_and_shares_the_kept_subagents() -> None:
    run = lead_with_scouts()
    other = asyncio.run(bl.branch(run, 2, model=bl.ScriptedModel(["Enough."])))
    assert other.parent_run_id is None
    assert starts_of(other) == starts_of(run)[:1]
    assert bl.runs_df([run, other])["parent_step"].isna().all()
    listed = [*bl.with_subagents(run), other]
    kin = kin_of([r.run_id for r in listed], [r.parent_run_id for r in listed], dict(enumerate(map(starts_of, listed))))
    assert kin.parent == [-1, 0, 0, 0, -1]
    assert kin.step == [0, 2, 3, 3, 0]
    assert [call for call in kin.calls if call.caller == 4] == [Call(4, 2, 1)]
    assert kin.missing == []


def test_a_subagent_that_is_not_on_record_is_missing() -> None:
    lead, first, *_ = bl.with_subagents(lead_with_scouts())
    kin = kin_of([lead.run_id, first.run_id], [None, lead.run_id], {0: starts_of(lead)})
    assert kin == Kin([-1, 0], [0, 2], [Call(0, 2, 1)], [Missing(0, 3, "scout"), Missing(0, 3, "scout")])


def test_child_that_its_parent_does_not_name_has_no_start_step() -> None:
    kin = kin_of(["lead", "scout", "orphan"], [None, "lead", "elsewhere"], {0: [Start(None, None)]})
    assert kin == Kin([-1, 0, -1], [0, 0, 0], [Call(0, 0, 1)], [Missing(0, 0, "")])


def test_child_of_a_copied_family_belongs_to_the_preceding_copy() -> None:
    started = [Start(1, "scout")]
    kin = kin_of(["lead", "scout", "lead", "scout"], [None, "lead", None, "lead"], {0: started, 2: started})
    assert (kin.parent, kin.missing) == ([-1, 0, -1, 2], [])


def test_run_that_names_its_child_is_the_parent_despite_root_id() -> None:
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


def test_a_family_is_one_cluster_the_roots_task() -> None:
    runs = bl.with_subagents(lead_with_scouts())
    assert units_of(runs)["cluster"].tolist() == ["Find it"] * 4
    assert units_of(bl.runs_df(runs), scope="run")["cluster"].tolist() == ["Find it"] * 4
    nameless = [replace(run, task="") if run.parent_run_id is None else run for run in runs]
    assert units_of(nameless)["cluster"].tolist() == [runs[0].run_id] * 4
    assert units_of(runs[1:])["cluster"].tolist() == [runs[0].run_id] * 3, "siblings without their parent"


def test_agent_runs_in_a_family_share_the_success_of_the_family() -> None:
    first, second = (lead_with_scouts() for _ in range(2))
    labelled = bl.label(bl.with_subagents([first, second]), {first.run_id: True, second.run_id: False})
    ledger = ledger_of(labelled, scope="run").apply_own_limits()
    kin = ledger.kin()
    assert kin is not None
    units = family_units(ledger, kin, ["agent"], by_turn=False)
    assert units.success.tolist() == [1, 1, -1, -1, 0, 0, -1, -1]
    assert units.runs["task"].tolist() == ["Find it"] * 8
    assert units.runs["run_id"].tolist() == [first.run_id] * 4 + [second.run_id] * 4
    assert units.peak("steps").tolist() == [3, 2, 2, 2] * 2


def test_a_units_peak_is_that_of_its_longest_run() -> None:
    script = bl.ScriptedModel([ask("short"), ask("long"), "Done."])
    scout = bl.Agent("scout", tools=(look,), model=bl.ScriptedModel(_as_long_as_asked))
    run = bl.run_sync(bl.Agent("lead", tools=(bl.task_tool(scout),)), "Find it", model=script)
    ledger = ledger_of(bl.with_subagents(run)).apply_own_limits()
    kin = ledger.kin()
    assert kin is not None
    units = family_units(ledger, kin, ["agent"], by_turn=True)
    assert units.success.tolist() == [1, 1, -1]
    assert units.peak("steps").tolist() == [2, 4, 4]


def test_subagent_in_a_session_belongs_to_the_turn_that_calls_it() -> None:
    run = lead_with_scouts()
    turns = [replace_turn(step, 1 if step.index <= 2 else 2) for step in run.steps]
    members = bl.with_subagents(replace(run, steps=tuple(turns)))
    ledger = ledger_of(members, scope="turn").apply_own_limits()
    kin = ledger.kin()
    assert kin is not None
    units = family_units(ledger, kin, ["agent"], by_turn=True)
    assert units.runs["agent"].tolist() == ["lead", "lead", "scout", "scout", "scout"]
    assert units.success.tolist() == [0, 1, 0, 1, -1], "the first turn ends in a call, as if it had been interrupted"


def replace_turn(step: Step, turn: int) -> Step:
    return step._replace(turn=turn)


def _as_long_as_asked(messages: Sequence[Message]) -> dict[str, Any] | str:
    said = sum(message.role == "assistant" for message in messages)
    wanted = 1 if any(message.text == "short" for message in messages) else 4
    return {"tool_calls": [{"name": "look", "arguments": {"at": str(said)}}]} if said < wanted else "Nothing."


def test_runs_share_the_home_and_the_labels_of_their_root() -> None:
    assert roots_of([-1, 0, 1, -1]) == [0, 0, 0, 3]
    names = {"lead", "scout", "clerk", "orphan"}
    homes = homes_of([("scout", "lead"), ("clerk", "scout"), ("orphan", "gone")], names)
    assert homes == {"lead": ("lead", 3), "scout": ("lead", 3), "clerk": ("lead", 3)}
    labelled = flag_labelled_groups(["lead", "scout", "other", "lead"], [0, 0, 2, 3], [False, False, False, True])
    assert labelled == [True, True, False, True]


def test_agents_that_start_others_come_first() -> None:
    agents = ["scout", "lead", "scout", "clerk", "lead", "boss"]
    assert order_agents(agents, [False, True, False, False, True, True]) == ["lead", "boss", "scout", "clerk"]
