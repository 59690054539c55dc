"""Trials as users run them: plan, branches, store, budget, result."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.types import UNKNOWN_USAGE
from boolab.errors import SettingError, WorldError
from boolab.frames.runs import micro_cost
from boolab.trials.result import TrialResult
from boolab.trials.trial import Trial
from tests.support.cases import first
from tests.support.git_worlds import edit_tool, editor, files_of, repository, write
from tests.support.helpers import Counting, call, look
from tests.support.samples import atlas
from tests.support.trial_cases import LOOSE, agent, profile, recorded, undisturbed

MODEL = bl.SimulatedModel(profile())
RUNS = recorded(40, MODEL, tasks=25)
CHANGE = {"max_steps": LOOSE}


def plan(runs: list[bl.Run] = RUNS, change: Any = CHANGE, **options: Any) -> Trial:
    return bl.trial(runs, change, **{"model": MODEL, "cost_limit": 1.0, **options})


def go(trial: Trial, n: int | None = None, **options: Any) -> TrialResult:
    return asyncio.run(trial.run(n, **{"progress": False, **options}))


def numbers(found: TrialResult) -> Any:
    return found.looks.to_dict("list"), found.gain, found.extra_cost, found.per_success


def test_all_branches_together_give_exactly_what_the_change_adds() -> None:
    found = go(plan())
    whole = undisturbed(RUNS, MODEL, agent(LOOSE))
    gain = sum(bool(run.success) for run in whole) - sum(bool(run.success) for run in RUNS)
    assert found.n_branches == found.n_open == found.outcomes["open"]
    assert [*found.gain] == [gain] * 3
    assert "All open runs have been continued." in found.sentences


def test_branches_come_in_whole_tasks_and_are_not_run_twice() -> None:
    trial = plan()
    first = go(trial, 5)
    ids = [run.run_id for run in trial.branches]
    tasks = {run.task for run in trial.branches}
    assert 5 <= first.n_branches <= 7
    assert sum(one.outcome == "open" and one.cluster in tasks for one in trial.design.openings) == first.n_branches
    again = go(trial, 5)
    assert numbers(again) == numbers(first)
    more = go(trial, 12)
    assert [run.run_id for run in trial.branches][: len(ids)] == ids
    assert numbers(more) == numbers(go(plan(), 12))


@pytest.mark.parametrize("executor", first(1, [None, "processes"]))
def test_a_store_holds_the_branches_for_the_next_time(tmp_path: Path, executor: Any) -> None:
    store = tmp_path / "trial.db"
    first = go(plan(store=store), 6, executor=executor)
    written = bl.runs_df(bl.stored_runs(store))
    assert len(written) == first.n_branches
    found = go(plan(store=store), 6)
    assert numbers(found) == numbers(first)
    assert numbers(go(plan(store=store), 14)) == numbers(go(plan(), 14))
    assert numbers(found) == numbers(go(plan(), 6))
    assert bl.runs_df(bl.stored_runs(store)).iloc[: len(written)].equals(written)  # none was run again


def test_trial_interval_only_narrows() -> None:
    trial = plan()
    widths = [trial.result.gain.width, *[go(trial, n).gain.width for n in (4, 9, 15, 40)]]
    assert widths == sorted(widths, reverse=True)
    assert not plan().enough(0.05)
    assert trial.enough(0.05)


def test_a_store_keeps_the_branches_of_several_trials(tmp_path: Path) -> None:
    """Of another cap, of another model: none replaces those of another, which were paid for."""
    store = tmp_path / "trial.db"
    other = bl.SimulatedModel(profile(hazard=0.2))
    variants: list[dict[str, Any]] = [{}, {"change": {"max_steps": 12}}, {"model": other}]
    first = [go(plan(RUNS[:20], store=store, **options)) for options in variants]
    written = bl.runs_df(bl.stored_runs(store))["run_id"].tolist()
    assert len(written) == sum(found.n_branches for found in first)
    for options, before in zip(variants, first, strict=True):
        again = go(plan(RUNS[:20], store=store, **options), 1)
        assert (again.looks.to_dict("list"), again.gain) == (before.looks.to_dict("list"), before.gain)
        assert again.spent == pytest.approx(before.spent)
        assert again.to_half == before.to_half
    assert sorted(bl.runs_df(bl.stored_runs(store))["run_id"]) == sorted(written)


def test_the_estimate_lies_within_its_interval() -> None:
    """The first task has many open runs, so that its mean is more than all tasks can have."""
    stopped = [run for run in RUNS if run.stop.reason == "step_cap" and not run.success]
    runs = [replace(run, task="many" if place < 8 else run.run_id) for place, run in enumerate(stopped)]
    trials = (plan(runs, seed=seed, score=lambda _run: True) for seed in range(99))
    trial = next(one for one in trials if one.design.tasks[0].task == "many")
    for n in (1, 9, len(runs)):
        found = go(trial, n)
        assert found.gain.value is not None
        assert found.gain.low <= found.gain.value <= found.gain.high == len(runs)
        looks = found.looks.iloc[1:]
        assert (looks["gain_low"] <= looks["gain"]).all()
        assert (looks["gain"] <= looks["gain_high"]).all()
        assert looks["gain"].iloc[-1] == found.gain.value


def test_the_maximum_cost_is_never_exceeded_and_is_named() -> None:
    whole = go(plan())
    for share in (0.3, 0.6):
        found = go(plan(cost_limit=whole.spent / 4), max_cost=share * whole.spent)
        assert 0 < found.spent <= share * whole.spent
        assert found.budget_stopped
        assert found.n_branches < whole.n_branches
        assert "max_cost does not cover one more branch." in re.sub(r"\s+", " ", str(found))


def test_what_was_spent_before_counts_towards_the_maximum(tmp_path: Path) -> None:
    whole = go(plan())
    store = tmp_path / "trial.db"
    go(plan(store=store, cost_limit=0.02), 8)
    found = go(plan(store=store, cost_limit=0.02), max_cost=0.6 * whole.spent)
    assert found.spent <= 0.6 * whole.spent


def test_trial_branch_at_the_cost_limit_is_unknown() -> None:
    found = go(plan(cost_limit=0.001))
    stopped = found.runs[(found.runs["branch_stop_reason"] == "cost_budget").fillna(value=False)]
    assert len(stopped)
    assert found.n_unknown == int((~stopped["branch_success"]).sum())
    assert found.gain.width >= found.n_unknown


def test_every_count_leads_to_its_runs() -> None:
    trial = plan()
    found = go(trial, 9)
    table = found.runs
    assert table["outcome"].value_counts().to_dict() == {k: v for k, v in found.outcomes.items() if v}
    assert table["branch_id"].dropna().tolist() == [
        run.run_id for run in sorted(trial.branches, key=lambda run: run_of(table, run.run_id))
    ]
    assert int(table["success"].sum()) == found.successes


def run_of(table: Any, branch_id: str) -> int:
    return int(table.index[table["branch_id"] == branch_id][0])


def test_the_verdict_says_what_the_numbers_beside_it_are() -> None:
    for trial, n in ((plan(), 0), (plan(), 6), (plan(), 40), (plan(change={"max_steps": 4}), 0)):
        found = go(trial, n) if n else trial.result
        low, high = found.gain.low, found.gain.high
        text = found.sentences[0]
        if not found.n_open:
            assert text.startswith("The record answers this")
        elif not found.n_branches:
            assert f"changes by {found.bounds.low:+,.0f} to {found.bounds.high:+,.0f}" in text
        else:
            assert ("Not yet decided" in text) == (low <= 0 < high or low < 0 <= high)
            assert re.search(rf"(?<!\d){abs(low):,.0f}(?!\d)", text)
            assert re.search(rf"(?<!\d){abs(high):,.0f}(?!\d)", text)
        assert f"{found.successes:,} of {found.n_runs:,} runs" in text


def test_a_tighter_limit_is_answered_by_the_record_alone() -> None:
    found = plan(change={"max_steps": 4}).result
    table = bl.counterfactual(RUNS, grid={"max_steps": [4]}, policy="boocode", aggregate=True)
    lost = int(table["successes"].iloc[0] - table["kept_lower"].iloc[0])
    assert found.n_open == 0
    assert found.gain.low == -lost
    assert found.gain == go(plan(change={"max_steps": 4})).gain


def test_text_and_html_have_the_same_answer() -> None:
    found = go(plan(), 9)
    html = found._repr_html_()
    plain = re.sub(r"\s+", " ", str(found))
    for sentence in found.sentences:
        assert sentence in plain
        assert sentence.replace("'", "&#x27;") in html
    assert "<script" not in html


def test_names_of_a_policy_are_never_markup() -> None:
    hostile = bl.policies["naive"].vary(name="<script>alert(1)</script>$x$")
    assert "<script" not in plan(change=hostile)._repr_html_()


def test_runs_of_subagents_are_left_out_and_counted() -> None:
    child = replace(RUNS[0], run_id="child", parent_run_id=RUNS[0].run_id)
    found = plan([*RUNS, child]).result
    assert found.n_runs == len(RUNS)
    assert "Runs of subagents are not tried by themselves: 1 is left out." in found.notes


class CountedScore:
    """A score that counts how often its digest is asked for; a real one may hold all runs on record."""

    def __init__(self) -> None:
        self.asked = 0

    @property
    def fingerprint(self) -> str:
        self.asked += 1
        return "counted"

    def __call__(self, run: bl.Run) -> bool:
        return run.n_steps > 10


def test_the_digest_of_a_score_is_made_once_for_all_branches() -> None:
    score = CountedScore()
    assert go(plan(score=score)).n_branches > 3
    assert score.asked == 1


def test_a_function_gives_each_branch_its_model() -> None:
    found = go(plan(model=lambda run: bl.SimulatedModel(profile(), seed=0 * run.n_steps)), 9)
    assert numbers(found) == numbers(go(plan(), 9))


def test_a_score_judges_branches() -> None:
    found = go(plan(score=lambda run: run.n_steps > 10))
    judged = found.runs[found.runs["outcome"] == "open"]
    assert (judged["branch_success"] == (judged["branch_steps"] > 10)).all()


def looks(*names: str) -> bl.ScriptedModel:
    """A model that calls these tools, one a step, and ends."""
    return bl.ScriptedModel([*({"tool_calls": [call(name, n=n)]} for n, name in enumerate(names)), "Done."],
                            tools=dict.fromkeys(names, "found"))  # fmt: skip


def test_calls_are_answered_from_the_record_until_they_differ() -> None:
    """Each request tells the model how many turns are left, so that a branch begins at the first step."""
    four = bl.Agent("a", policy=bl.fixed_turns(4))
    runs = [
        replace(bl.run_sync(four, f"task {n}", model=looks(*["grep"] * 6)), run_id=f"run {n}", success=False)
        for n in range(3)
    ]  # fmt: skip
    options: dict[str, Any] = {"replay_tools": True, "cost_limit": None, "agent": four, "score": lambda _run: True}
    same = go(plan(runs, {"max_steps": 3}, model=looks(*["grep"] * 6), **options))
    assert same.n_unknown == 0
    assert same.runs["branch_steps"].tolist() == [3, 3, 3]
    trial = plan(runs, {"max_steps": 9}, model=looks("grep", "find", "grep"), **options)
    other = go(trial)
    assert (other.n_unknown, other.n_branches) == (3, 3)
    assert (other.gain.low, other.gain.high) == (0, 3)
    assert all("no result of the call of find in step 2" in str(run.error) for run in trial.branches)


def test_trial_branch_has_its_files_in_its_own_folder(tmp_path: Path) -> None:
    folder = repository(tmp_path / "work")
    world, edits = bl.GitWorld(folder), [write(f"file {n}.txt", f"content {n}") for n in range(5)]
    two = bl.Agent("a", max_steps=2, policy="naive")
    given: dict[str, Any] = {"model": editor(edits), "tools": [edit_tool(edits)], "world": world}
    run = replace(bl.run_sync(two, "Edit.", **given), success=False)
    write("file 0.txt", "somebody else wrote this")(folder)
    before = files_of(folder)
    seen: list[Any] = []

    def score(branch: bl.Run) -> bool:
        place = world.folder_of(branch)
        assert place is not None
        seen.append((place, {name: (place / name).read_text() for name in (f"file {n}.txt" for n in range(5))}))
        return True

    found = go(bl.trial([run], {"max_steps": 9}, score=score, agent=two, **given))
    assert (found.gain.low, found.gain.high) == (1, 1)
    ((place, files),) = seen
    assert files == {f"file {n}.txt": f"content {n}" for n in range(5)}
    assert not place.exists()
    assert files_of(folder) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n": 0}, "n=0: expected how many branches"),
        ({"cost_limit": 0}, "cost_limit=0: expected dollars"),
        ({"cost_limit": float("inf")}, "expected dollars"),
        ({"max_cost": 5, "cost_limit": None}, "max_cost= needs cost_limit="),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"agent": "coder"}, "expected a bl.Agent"),
        ({"agent": {"b": agent()}}, "the record names an agent 'a'"),
        ({"change": {"max_turns": 5}}, "there is no setting 'max_turns'"),
        ({"runs": []}, "there are no runs"),
        ({"runs": [RUNS[0], replace(RUNS[1], run_id="")]}, "1 of 2 runs have no run_id"),
        ({"runs": [*RUNS, RUNS[3]]}, "2 runs have the run_id 'run 003': pass each run once"),
        ({"max_cost": 0.5, "cost_limit": 1.0}, "max_cost=0.5 is less than cost_limit=1.0"),
        ({"pool": "modle"}, "runs have no column 'modle'; did you mean 'model'?"),
        ({"seed": "first"}, "seed='first': expected an integer"),
    ],
)
def test_what_is_not_accepted_is_named_before_anything_runs(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=re.escape(words)):
        plan(**options)


def test_what_is_not_accepted_of_a_run_or_a_width_is_named() -> None:
    for options, words in (({"concurrency": 0}, "concurrency=0"), ({"max_cost": 0.5}, "is less than cost_limit=1.0")):
        with pytest.raises(SettingError, match=words):
            go(plan(), 3, **options)
    for width in (0, "wide", float("nan")):
        with pytest.raises(SettingError, match="expected a share of all runs"):
            plan().enough(width)  # type: ignore[arg-type]
        with pytest.raises(SettingError, match="expected a share of all runs"):
            plan().forecast(width)  # type: ignore[arg-type]


def test_trial_refuses_branches_without_tools_first() -> None:
    runs = [replace(bl.run_sync(agent(2), f"t{n}", model=looks("grep", "find", "ls")), success=False) for n in range(2)]
    bare = bl.ScriptedModel(["Done."])
    with pytest.raises(SettingError, match="the run called grep, find, and the branch has no tools: pass tools="):
        go(plan(runs, {"max_steps": 9}, model=bare))
    for options in ({"tools": [look]}, {"replay_tools": True}, {"agent": agent(2, tools=(look,))}):
        assert go(plan(runs, {"max_steps": 9}, **{"model": bare, "score": bool, **options})).n_branches == 2


def test_trial_refuses_branches_without_a_score_first() -> None:
    runs = [replace(bl.run_sync(agent(2), f"t{n}", model=looks("grep", "find", "ls")), success=False) for n in range(2)]
    with pytest.raises(SettingError, match="runs on record have labels, and the branch would have none"):
        go(plan(runs, {"max_steps": 9}, model=looks("grep")))
    unlabelled = [replace(run, success=None) for run in runs]
    found = go(plan(unlabelled, {"max_steps": 9}, model=looks("grep", "find", "ls"), score=lambda _run: False))
    assert (found.gain.low, found.gain.high) == (2, 2)  # both end by themselves
    assert "No run has a label: a success is a run that ended by itself. So score= is not used: label the runs" in (
        " ".join(found.notes)
    )


def test_branches_are_never_among_the_runs_on_record(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    with bl.Store(store) as opened:
        opened.add(RUNS)
    for given in (store, str(store), bl.stored_runs(store)):
        with pytest.raises(SettingError, match="holds the runs on record, and branches would be among them"):
            bl.trial(given, CHANGE, model=MODEL, store=store)
    trial = plan()
    go(trial, 3)
    with pytest.raises(SettingError, match=f"of {40 + len(trial.branches)} runs are branches of others among them"):
        plan([*RUNS, *trial.branches])
    assert plan(trial.branches, {"max_steps": 30}).result.n_runs == len(trial.branches)


def test_trial_without_a_model_plans_but_does_not_run() -> None:
    trial = plan(model=None)
    assert trial.outcomes["open"] > 0
    with pytest.raises(SettingError, match="branches need a model"):
        go(trial, 3)


def test_trial_refuses_a_world_that_was_not_recorded(tmp_path: Path) -> None:
    world = bl.GitWorld(repository(tmp_path / "work"))
    with pytest.raises((SettingError, WorldError), match="world"):
        go(plan(world=world), 3)


def without_costs(run: bl.Run) -> bl.Run:
    """The same run, as a log without tokens has it."""
    steps = tuple(step._replace(response=step.response._replace(usage=UNKNOWN_USAGE)) for step in run.steps)
    return replace(run, steps=steps, wrap_up=None)


@pytest.mark.parametrize("kept", first(2, ["in memory", "in a store", "by processes"]))
def test_trial_knows_branch_costs_without_recorded_costs(tmp_path: Path, kept: str) -> None:
    options: dict[str, Any] = {} if kept == "in memory" else {"store": tmp_path / "trial.db"}
    trial = plan([without_costs(run) for run in RUNS], cost_limit=0.02, **options)
    found = go(trial, 12, executor="processes" if kept == "by processes" else None)
    at = dict(zip(found.runs["branch_id"], found.runs["branch_at"], strict=True))
    costs = [micro_cost(replace(run, steps=run.steps[at[run.run_id] :])) for run in trial.branches]
    assert None not in costs
    assert found.spent == pytest.approx(sum(cost or 0 for cost in costs) / 1e6)
    assert found.extra_cost is not None
    assert found.spent < found.extra_cost.high
    assert not any("report no cost" in note for note in found.notes)
    before_the_last = [micro_cost(replace(run, steps=run.steps[at[run.run_id] : -1], wrap_up=None)) or 0
                       for run in trial.branches]  # fmt: skip
    assert max(before_the_last) < 0.02e6
    assert any(run.stop.reason == "cost_budget" for run in trial.branches)
    whole = go(trial)
    assert whole.extra_cost is not None
    assert [*whole.extra_cost] == pytest.approx([whole.spent] * 3)


def test_trial_counts_runs_that_wait_for_a_user() -> None:
    """A conversation with a simulated user: a text of the agent is not its end."""
    runs = atlas("tau-airline")
    trial = plan(runs, {"max_steps": 60}, cost_limit=None)
    waiting = [one for one in trial.design.openings if one.why == "user"]
    assert waiting
    assert all(not one.run.steps[one.n_kept - 1].response.tool_calls for one in waiting)
    assert len(waiting) == 1
    assert "; 1 waits for a message of its user, which a branch does not have." in trial.result.notes[0]
    found = go(trial)
    assert found.n_branches == found.n_open == trial.outcomes["open"]
    assert found.gain.width == sum(one.high - one.low for one in waiting)


def test_trial_refuses_a_profile_without_success() -> None:
    trial = plan(model=bl.SimulatedModel(profile(success=None)))
    with pytest.raises(SettingError, match=r"the profile of the simulated model has no success.*pass score="):
        go(trial)
    assert trial.branches == []


def fails(_run: bl.Run) -> bool:
    """A score that raises."""
    raise ZeroDivisionError("no divisor")


def good(run: bl.Run) -> bool:
    """A score that decides."""
    return run.n_steps > 12


@pytest.mark.parametrize(
    ("score", "why"),
    first(
        3,
        [
            [fails, "ZeroDivisionError: no divisor"],
            [lambda _run: None, "it returned None"],
            *([lambda _run, value=value: value, f"it returned {value!r}, not True"] for value in (1, 0.6, 1.5, "yes")),
        ],
    ),
)
@pytest.mark.parametrize("kept", first(1, ["in a store", "in memory"]))
def test_trial_stops_after_a_failed_score(tmp_path: Path, score: Any, why: str, kept: str) -> None:
    options: dict[str, Any] = {} if kept == "in memory" else {"store": tmp_path / "trial.db"}
    trial = plan(score=score, **options)
    for _ in range(2):  # a second try pays for nothing
        with pytest.raises(SettingError, match=f"score= failed on branch .*{re.escape(why)}") as raised:
            go(trial, 9)
        assert "True or False" in str(raised.value)
        assert len(trial.branches) == 1
    (paid,) = trial.branches
    assert paid.success is None
    assert trial.result.spent > 0
    if kept == "in a store":
        found = go(again := plan(score=good, **options), 9)
        assert paid.run_id in {run.run_id for run in again.branches}
        assert found.n_unknown == 0
        assert found.effects == go(plan(score=good), 9).effects
        assert len(bl.stored_runs(tmp_path / "trial.db")) == len(again.branches)


def test_another_score_labels_the_branches_of_a_store_again(tmp_path: Path) -> None:
    options: dict[str, Any] = {"store": tmp_path / "trial.db"}
    go(plan(score=lambda _run: True, **options), 9)
    found = go(plan(score=good, **options), 9)
    assert found.effects == go(plan(score=good), 9).effects
    assert len(bl.stored_runs(tmp_path / "trial.db")) == found.n_branches


def test_a_trial_waits_for_a_label_before_it_branches_at_once() -> None:
    """A branch that broke off shows nothing about the score."""
    broken = bl.ScriptedModel([{"error": {"status": 400}}])
    model = iter([broken])
    trial = plan(model=lambda run: next(model, MODEL), score=lambda _run: None)
    with pytest.raises(SettingError, match="score= failed"):
        go(trial, 9, concurrency=4)
    assert len([run for run in trial.branches if run.stop.reason != "error"]) == 1


def test_trial_keeps_to_the_concurrency_that_its_model_states() -> None:
    scripted = Counting([{"tool_calls": [call("look")], "repeat": 30}, "Done."], tools={"look": "x"}, realtime=True)
    scripted.concurrency = 2
    assert go(plan(model=scripted, score=lambda run: run.n_steps % 2 == 0), 4).n_branches >= 4
    assert scripted.most == 2


def test_trial_answer_says_if_the_model_is_simulated() -> None:
    assert "if the agent is like the simulated one" in go(plan(), 6).sentences[0]
    assert "if the agent is like the simulated one" in go(plan(model=lambda _run: MODEL), 6).sentences[0]
    scripted = bl.ScriptedModel([{"tool_calls": [call("look")], "repeat": 30}, "Done."], tools={"look": "x"})
    assert "simulated" not in str(go(plan(model=scripted, score=lambda run: run.n_steps % 2 == 0), 6))


def test_a_success_costs_what_recommend_counts() -> None:
    runs = recorded(12, MODEL)
    found = bl.trial(runs, {"max_steps": LOOSE}, model=MODEL, cost_limit=1.0).result
    row = bl.recommend(runs).frame.iloc[0]
    assert any(run.outside for run in runs)  # such as summaries
    assert found.recorded_per_success == pytest.approx(row["spent"] / row["successes"])
