"""`recommend(labels="desk")`: the verdict of the desk is taken, and all else is computed as ever."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import boolab as bl
from boolab.errors import SettingError
from boolab.logs.outcomes.label_file import NAME, append_lines, make_header
from boolab.stats.recommend.desk_session import Desk

CALL = {"tool_calls": [{"name": "look", "arguments": {}}]}


def logs(folder: Path, agents: tuple[str, ...] = ("a",)) -> list[bl.Run]:
    """Runs without labels that were read from a file: short ones, and long ones."""
    lengths = np.random.default_rng(0).choice([1, 1, 1, 2, 3, 8], 120).tolist()
    runs = []
    for n, length in enumerate(lengths):
        agent = bl.Agent(agents[n % len(agents)], max_steps=50, doom_loop=None)
        model = bl.ScriptedModel([CALL] * length + ["Done."], tools={"look": "seen"})
        runs.append(bl.run_sync(agent, f"Task {n}", model=model))
    bl.save_runs(runs, folder / "runs.jsonl")
    return bl.load_runs(str(folder / "runs.jsonl"))


def answer_all(runs: list[bl.Run], folder: Path, lost: bool = False) -> Desk:
    """Answer at the desk until nothing is open: long runs fail, or with `lost` all succeed."""
    path, values = folder / NAME, {"max_steps": [6, 3]}
    question = Desk(runs, path, values, pi=0.5).question
    append_lines(path, [{**make_header("tests pass", question), "seed": "0"}])
    desk = Desk(runs, path)
    desk.start()
    while (asked := desk.next_unit) is not None:
        desk.answer(asked, "success" if lost or len(asked.run.steps) < 7 else "failure")
    return desk


def test_desk_answer_sets_what_it_shows_to_keep_enough(tmp_path: Path) -> None:
    runs = logs(tmp_path)
    desk = answer_all(runs, tmp_path)
    assert desk.state.setting == {"max_steps": 6}
    found = bl.recommend(runs, labels="desk", objective="steps")
    assert (found.action, found.setting) == ("set", {"max_steps": 6})
    assert found.evidence["kept_bound"] == 0.95
    assert found.evidence["successes"] == [*desk.answers.values()].count("success")
    assert found.evidence["stopped_failures"] == found.evidence["stopped"] - found.evidence["stopped_unknown"]
    assert any("at the desk, in " in note for note in found.notes)
    assert any("A step cap of 6 keeps at least 95%" in note for note in found.notes)


def test_desk_needs_no_test_on_other_tasks(tmp_path: Path) -> None:
    runs = logs(tmp_path)
    answer_all(runs, tmp_path)
    found = " ".join(str(bl.recommend(runs, labels="desk", objective="steps")).split())
    assert "too few tasks" not in found
    assert "the desk tests each of them: the choice needs no test on other tasks." in found


@pytest.mark.parametrize("n_successes", [0, 20])
def test_runs_without_labels_are_to_be_labelled_first(n_successes: int, tmp_path: Path) -> None:
    runs = logs(tmp_path)
    labels = {run.run_id: number < n_successes for number, run in enumerate(runs[:30])}
    found = bl.recommend(bl.label(runs, labels), objective="steps")
    text = found.verdict[0]
    assert "90 runs have no label" in text
    assert "boolab label LOGS asks about few of them." in text
    full = bl.recommend(bl.label(runs[:30], labels), objective="steps").verdict[0]
    assert "boolab label" not in full


@pytest.mark.slow
def test_same_labels_without_the_desk_show_nothing(tmp_path: Path) -> None:
    runs = logs(tmp_path)
    answer_all(runs, tmp_path)
    labelled = bl.load_runs(str(tmp_path / "runs.jsonl"))
    assert bl.recommend(labelled, objective="steps", grid={"max_steps": [6, 3]}).action == "not_yet"


def test_desk_without_a_yes_says_what_is_shown(tmp_path: Path) -> None:
    runs = logs(tmp_path)
    answer_all(runs, tmp_path, lost=True)
    found = bl.recommend(runs, labels="desk")
    assert len(found.frame) == 0
    assert "A step cap of 6 keeps less than 95%" in found.verdict[0]


def test_desk_refuses_what_its_question_does_not_have(tmp_path: Path) -> None:
    runs = logs(tmp_path)
    with pytest.raises(SettingError, match="boolab label LOGS asks"):
        bl.recommend(runs, labels="desk")
    answer_all(runs, tmp_path)
    with pytest.raises(SettingError, match="leave grid out"):
        bl.recommend(runs, labels="desk", grid={"max_steps": [2]})
    with pytest.raises(SettingError, match="give the runs"):
        bl.recommend(bl.recording_df(runs), labels="desk")
    with pytest.raises(SettingError, match="labels="):
        bl.recommend(runs, labels="all")  # type: ignore[arg-type]


@pytest.mark.slow
def test_desk_answer_is_not_pooled_over_agents(tmp_path: Path) -> None:
    runs = logs(tmp_path)
    answer_all(runs, tmp_path)
    mixed = [replace(run, agent="b") if n % 2 else run for n, run in enumerate(runs)]
    with pytest.raises(SettingError, match="differ in agent"):
        bl.recommend(mixed, labels="desk")
    with pytest.raises(SettingError, match="differ in agent"):
        Desk(mixed, tmp_path / "new.jsonl", {"max_steps": [6]}).start()
    assert not (tmp_path / "new.jsonl").exists()


def test_subagents_belong_to_the_unit_of_their_root(tmp_path: Path) -> None:
    runs = logs(tmp_path)
    roots, scouts = runs[:100], runs[100:]
    family = [*roots, *(replace(run, agent="scout", parent_run_id=roots[n].run_id) for n, run in enumerate(scouts))]
    desk = Desk(family, tmp_path / "labels.jsonl", {"max_steps": [6]}, pi=1)
    desk.start("tests pass")
    assert len(desk.units.prints) == 100
    stopped = {root.run_id for root in roots if len(root.steps) > 6}
    stopped |= {roots[n].run_id for n, run in enumerate(scouts) if len(run.steps) > 6}
    is_long = desk.recorded.is_long({"max_steps": [6]})["max_steps"][:, 0].tolist()
    assert {unit.run_id for unit, long in zip(desk.recorded.units, is_long, strict=True) if long} == stopped
