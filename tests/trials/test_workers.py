"""Branches on other processes: with a server, with a world, and what cannot be sent there."""

import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.errors import SettingError
from boolab.trials.trial import Trial
from tests.support.git_worlds import edit_tool, editor, files_of, repository, write
from tests.support.served_trials import ByTask, facts, go, plan_of, recorded, script

ELSEWHERE: list[Any] = [
    pytest.param({"concurrency": 8}, id="many at once"),
    pytest.param({"executor": "processes"}, id="processes", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("options", ELSEWHERE)
@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "in a store"])
def test_a_trial_finds_the_same_wherever_and_however_many_at_once_its_branches_run(
    tmp_path: Path, options: dict[str, Any], stored: bool
) -> None:
    book = tmp_path / "book"
    runs = recorded(book, 8)
    found = []
    with bl.models.MockServer(script(book, 5, "Done.")) as one, bl.models.MockServer(script(book, 6, "Done.")) as two:
        for number, given in enumerate(({"concurrency": 1}, options)):
            store = tmp_path / f"{number}.db" if stored else None
            plan = plan_of(runs, ByTask([one.url, two.url], "openai", {}), store=store, cost_limit=1.0)
            go(plan, **given)
            found.append((facts(plan), round(plan.result.spent, 9), plan.result.extra_cost))
    assert found[0] == found[1]
    assert found[0][1] > 0


def in_a_world(folder: Path, tools: Any = None, score: Any = None) -> tuple[Trial, bl.GitWorld]:
    """A trial of a run that edited files, and its world."""
    world, edits = bl.GitWorld(repository(folder)), [write(f"file {n}.txt", f"content {n}") for n in range(5)]
    two = bl.Agent("a", max_steps=2, policy="naive")
    given: dict[str, Any] = {"model": editor(edits), "tools": [edit_tool(edits)], "world": world}
    run = replace(bl.run_sync(two, "Edit.", **given), success=False)
    write("file 0.txt", "somebody else wrote this")(folder)
    given["tools"] = tools or given["tools"]

    def has_all(branch: bl.Run) -> bool:
        place = world.folder_of(branch)
        assert place is not None
        return all((place / f"file {n}.txt").read_text() == f"content {n}" for n in range(5))

    return bl.trial([run], {"max_steps": 9}, score=score or has_all, agent=two, **given), world


def test_a_branch_on_another_process_has_the_files_of_its_step(tmp_path: Path) -> None:
    plan, _ = in_a_world(tmp_path / "work")
    before = files_of(tmp_path / "work")
    found = go(plan, executor="processes")
    assert (found.gain.low, found.gain.high) == (1, 1), plan.branches[0].error
    assert files_of(tmp_path / "work") == before


class Locked(bl.GitWorld):
    """A world that cannot be sent."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.lock = threading.Lock()


def test_what_cannot_be_sent_is_named(tmp_path: Path) -> None:
    lock = threading.Lock()

    @bl.tool(name="edit")
    def locked(number: int) -> str:
        """Make an edit."""
        with lock:
            return f"{number}"

    plan, world = in_a_world(tmp_path / "work", tools=[locked])
    with pytest.raises(SettingError, match=re.escape("the tool 'edit' cannot be sent to a worker")):
        go(plan, executor="processes")
    plan, _ = in_a_world(tmp_path / "other", score=lambda _run: lock.locked())
    with pytest.raises(SettingError, match="^score cannot be sent to a worker"):
        go(plan, executor="processes")
    runs = [cell.run for cell in plan._cells]
    bare: dict[str, Any] = {"agent": bl.Agent("a", max_steps=2, policy="naive"), "model": bl.ScriptedModel(["Done."])}
    plan = bl.trial(runs, {"max_steps": 9}, world=Locked(tmp_path / "other"), **bare)
    with pytest.raises(SettingError, match="^world cannot be sent to a worker"):
        go(plan, executor="processes")
    keyed = bl.OpenAIModel("mock", base_url="http://127.0.0.1:9/v1", api_key="sk-secret")
    plan = bl.trial(runs, {"max_steps": 9}, agent=bare["agent"], model=keyed)
    with pytest.raises(SettingError, match="has a secret.*a function, which makes the model in the worker") as refused:
        go(plan, executor="processes")
    assert "sk-secret" not in str(refused.value)
    assert world.root.exists()
