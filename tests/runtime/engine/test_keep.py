"""Runs in a world: what the engine keeps when, and what a branch begins with."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.io.state import state_folder
from boolab.widgets.replay.events import moments_of
from tests.support.git_worlds import (
    branched,
    edit,
    edit_tool,
    edited,
    editor,
    files_after,
    files_of,
    git,
    kept,
    repository,
    write,
)

EDITS = [
    write("x", "1"),
    write("y/z", b"\r\n\xff", 0o755),
    lambda root: (root / "a.txt").rename(root / "y/a.txt"),
    lambda root: shutil.rmtree(root / "sub"),
    write("x", "2"),
]


def without_worlds(run: bl.Run) -> bl.Run:
    """A run as if it had been recorded without a world, and had never been another's."""
    events = tuple(event for event in run.events if event.kind not in ("world", "branch"))
    return replace(run, run_id="", started_at=None, continuation=None, events=events)


def test_a_branch_at_each_step_is_the_run_that_was_not_disturbed(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root), EDITS)
    for at in range(len(EDITS) + 1):
        branch = branched(run, at, bl.GitWorld(root), EDITS)
        folder = bl.GitWorld.folder_of(branch)
        assert folder is not None
        assert files_of(folder) == files_of(root)
        assert without_worlds(branch) == without_worlds(run)
        assert sorted(kept(branch)) == list(range(len(EDITS) + 1))
        again = branched(branch, 1, bl.GitWorld(root), EDITS)  # a branch of a branch
        other = bl.GitWorld.folder_of(again)
        assert other not in (None, folder)
        assert files_of(other or root) == files_of(root)
        for made in (folder, other or folder):
            shutil.rmtree(made)


def test_a_world_changes_nothing_of_a_run_in_virtual_time(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    bare = bl.run_sync(
        None, "Edit.", model=editor(EDITS), tools=[edit_tool([lambda _: None] * 5)], root=root, policy="naive"
    )
    run = edited(bl.GitWorld(root), EDITS)
    assert without_worlds(run) == without_worlds(bare)
    assert {event.t_ms for event in run.events} == {0}


def test_step_without_calls_or_changes_makes_no_commit(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root), [write("x", "1"), lambda _: None])
    assert list(kept(run)) == [0, 1, 2]
    assert kept(run)[1]["commit"] == kept(run)[2]["commit"]
    assert len(git(root, "rev-list", f"refs/boolab/{run.run_id}").split()) == 2


def test_the_commits_of_a_run_and_of_its_branch_are_one_chain(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root), EDITS)
    branch = branched(run, 2, bl.GitWorld(root, into=tmp_path / "branch"), EDITS)
    bl.GitWorld(root).forget(run)
    listed = git(root, "rev-list", f"refs/boolab/{branch.run_id}").decode().split()
    assert set(listed) == {facts["commit"] for facts in kept(branch).values()} | {kept(run)[2]["commit"]}


def test_tools_and_subagents_work_in_the_folder_of_the_branch(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    read = {"tool_calls": [{"name": "read_file", "arguments": {"path": "x"}}]}
    scout = bl.Agent("scout", tools=("read_file",), model=bl.ScriptedModel([read, "Read."]))
    asks = {"tool_calls": [{"name": "task", "arguments": {"agent": "scout", "prompt": "Read x"}}]}
    script = bl.ScriptedModel([{"tool_calls": [edit(0)]}, read, asks, "Done."])
    agent = bl.Agent("lead", tools=("edit", "read_file", "task"), policy="naive")

    def tools(text: str) -> list[Any]:
        return [edit_tool([write("x", text)]), bl.task_tool(scout, root=root)]

    run = bl.run_sync(agent, "go", model=script, tools=tools("first"), world=bl.GitWorld(root))
    (root / "x").write_text("changed later")
    world = bl.GitWorld(root, into=tmp_path / "branch")
    branch = asyncio.run(bl.branch(run, 1, model=script, agent=agent, tools=tools("second"), world=world))
    assert [result.content for step in branch.steps for result in step.results if result][1] == "first"
    (child,) = branch.subagents
    assert child.steps[0].results[0] is not None
    assert child.steps[0].results[0].content == "first"


def test_a_resumed_run_continues_in_its_world(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    ask = {"tool_calls": [{"name": "ask_user_input", "arguments": {"question": "Which?"}}]}
    edits = [write("x", "1"), write("x", "2")]
    model = bl.ScriptedModel([{"tool_calls": [edit(0)]}, ask, {"tool_calls": [edit(1)]}, "Done."])
    agent = bl.Agent("a", tools=("ask_user_input", "edit"), policy="naive")
    paused = bl.run_sync(agent, "go", model=model, tools=[edit_tool(edits)], world=bl.GitWorld(root))
    assert paused.stop_reason == "paused"
    write("x", "by the user")(root)
    run = asyncio.run(bl.resume(paused, "This."))
    assert (run.stop_reason, list(kept(run))) == ("finished", [0, 1, 2, 3])
    for at, text in ((1, "1"), (2, "by the user"), (3, "2")):
        assert files_after(bl.GitWorld(root), run, at)[b"x"] == ("file", text.encode())


def test_a_branch_after_an_answer_has_the_files_before_it(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root), EDITS)
    assert max(kept(run)) == run.n_steps - 1
    model, world = bl.ScriptedModel(["Fine."]), bl.GitWorld(root, into=tmp_path / "branch")
    branch = asyncio.run(bl.branch(run, run.n_steps, model=model, message="And?", world=world))
    assert files_of(bl.GitWorld.folder_of(branch) or root.parent) == files_of(root)


def test_a_run_that_is_left_keeps_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = repository(tmp_path / "r")

    async def left() -> bl.Run:
        given: dict[str, Any] = {"model": editor(EDITS), "tools": [edit_tool(EDITS)], "policy": "naive"}
        async with bl.start(None, "Edit.", world=bl.GitWorld(root), **given) as live:
            async for step in live:
                if step.index == 2:
                    break
        return live.run

    run = asyncio.run(left())
    assert (run.stop_reason, list(kept(run))) == ("aborted", [0, 1, 2])
    assert list(Path(state_folder("git")).iterdir()) == []


def test_branch_without_a_world_keeps_only_known_snapshots(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root), EDITS)
    tools = [edit_tool([lambda _: None] * 5)]
    plain = asyncio.run(bl.branch(run, 2, model=editor(EDITS), tools=tools, policy="naive", root=root))
    assert list(kept(plain)) == [0, 1, 2]
    assert bl.GitWorld.folder_of(plain) is None
    branched(plain, 2, bl.GitWorld(root, into=tmp_path / "branch"), EDITS)
    with pytest.raises(bl.SettingError, match="after step 3 were not kept: .* that step ran without a world"):
        branched(plain, 3, bl.GitWorld(root), EDITS)


def test_a_world_is_not_accepted_in_place_of_another_value(tmp_path: Path) -> None:
    wrong: Any = str(tmp_path)
    with pytest.raises(bl.SettingError, match=r"expected a world, such as bl\.GitWorld"):
        bl.run_sync(None, "go", model=bl.ScriptedModel(["Hi."]), world=wrong)


def test_texts_and_replay_show_only_files_that_were_not_kept(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    run = edited(bl.GitWorld(root), [write("x", "1"), lambda root: git(root / "sub", "init", "--quiet")])
    assert "world:" not in str(run)
    assert "** fault: the files after step 2 were not kept" in str(run)
    shown = [event["kind"] for event in moments_of(run, {})[2]]
    assert shown == ["fault"]
