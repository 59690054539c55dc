"""Branches on other processes: with a server, with a world, and what cannot be sent there."""

import os
import re
import signal
import tempfile
import threading
from dataclasses import replace
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.errors import SettingError
from boolab.io.git.scratch import scratch_folder
from boolab.trials.job import branch_ids
from boolab.trials.trial import Trial
from tests.support.cases import first
from tests.support.git_worlds import edit_tool, editor, files_of, repository, write
from tests.support.helpers import look
from tests.support.served_trials import ByTask, facts, go, plan_of, recorded, script
from tests.support.sweeping import forks

ELSEWHERE: list[Any] = [
    pytest.param({"concurrency": 8}, id="many at once"),
    pytest.param({"executor": "processes"}, id="processes", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("options", ELSEWHERE)
@pytest.mark.parametrize("stored", first(1, [True, False]), ids=["in a store", "in memory"])
def test_trial_result_is_the_same_on_workers(tmp_path: Path, options: dict[str, Any], stored: bool) -> None:
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


@pytest.mark.slow
def test_a_branch_on_another_process_has_the_files_of_its_step(tmp_path: Path) -> None:
    plan, _ = in_a_world(tmp_path / "work")
    before = files_of(tmp_path / "work")
    found = go(plan, executor="processes")
    assert (found.gain.low, found.gain.high) == (1, 1), plan.branches[0].error
    assert files_of(tmp_path / "work") == before


def test_trial_removes_the_folder_of_a_killed_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forkserver.ensure_running()  # its socket is in the temporary folder of that time, and cannot have a long path
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    plan, _ = in_a_world(tmp_path / "work")
    (run_id,) = branch_ids(plan.design.cells, plan.design.job)
    dead = forks.Process(target=killed_in, args=(run_id, str(place)))
    dead.start()
    dead.join()
    assert [path.suffix for path in sorted(place.glob("boolab-branch-*"))] == ["", ".lock"]
    go(plan)
    assert plan.result.n_unknown == 0
    assert list(place.glob("boolab-*")) == []


def killed_in(run_id: str, place: str) -> None:
    """What a process does that is killed while it makes a branch."""
    tempfile.tempdir = place
    with scratch_folder(run_id):
        os.kill(os.getpid(), signal.SIGKILL)


def test_the_world_is_a_part_of_what_a_branch_is(tmp_path: Path) -> None:
    plan, world = in_a_world(tmp_path / "work")
    other = bl.GitWorld(repository(tmp_path / "other"))
    ids = [
        branch_ids(plan.design.cells, replace(plan.design.job, world=one))
        for one in (world, bl.GitWorld(tmp_path / "work"), other, bl.GitWorld(tmp_path / "work", max_file_mb=1), None)
    ]
    assert ids[0] == ids[1]
    assert len({one for (one,) in ids}) == 4


def test_trial_run_with_lost_files_is_unknown(tmp_path: Path) -> None:
    plan, world = in_a_world(tmp_path / "work")
    (run,) = (cell.run for cell in plan.design.cells)
    gone = {"commit": "0" * 40}
    events = tuple(
        event._replace(payload={**event.payload, **gone}) if event.kind == "world" else event for event in run.events
    )
    lost = replace(run, run_id="lost", events=events)
    job = plan.design.job
    options: dict[str, Any] = {"tools": job.tools, "score": job.score, "model": job.model, "world": world}
    both = bl.trial([run, lost], {"max_steps": 9}, agent=bl.Agent("a", max_steps=2, policy="naive"), **options)
    found = go(both)
    assert (found.n_branches, found.n_unknown, found.effects.recovered) == (2, 1, 1)
    assert dict(found.runs.set_index("run_id")["unknown"].dropna()) == {"lost": "broke off"}
    assert any("1 broke off (the first: " in note and "0000 is not in" in note for note in found.notes)


def test_a_world_with_one_folder_for_all_branches_is_refused(tmp_path: Path) -> None:
    plan, _ = in_a_world(tmp_path / "work")
    runs = [cell.run for cell in plan.design.cells]
    with pytest.raises(SettingError, match="into= names one folder, and each branch gets one of its own"):
        bl.trial(runs, {"max_steps": 9}, world=bl.GitWorld(tmp_path / "work", into=tmp_path / "one"))


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
    runs = [cell.run for cell in plan.design.cells]
    bare: dict[str, Any] = {"agent": bl.Agent("a", max_steps=2, policy="naive"), "tools": [look], "score": bool}
    plan = bl.trial(runs, {"max_steps": 9}, world=Locked(tmp_path / "other"), model=bl.ScriptedModel(["Done."]), **bare)
    with pytest.raises(SettingError, match="^world cannot be sent to a worker"):
        go(plan, executor="processes")
    keyed = bl.OpenAIModel("mock", base_url="http://127.0.0.1:9/v1", api_key="sk-secret")
    plan = bl.trial(runs, {"max_steps": 9}, model=keyed, **bare)
    with pytest.raises(SettingError, match="has a secret.*a function, which makes the model in the worker") as refused:
        go(plan, executor="processes")
    assert "sk-secret" not in str(refused.value)
    assert world.root.exists()
