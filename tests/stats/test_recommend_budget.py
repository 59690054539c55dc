"""`recommend(budget=)`: the loosest limit under which runs are shown to stay within a budget."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.run import Run
from boolab.core.types import Usage
from boolab.errors import SettingError
from boolab.stats.kept_share import keeps_enough
from tests.support.billed_runs import billed_run, billed_step


def run_of(steps: int, run_id: str, task: str, *, cents: int = 1, success: bool | None = None) -> Run:
    """A run of steps that each cost so many cents."""
    usage = Usage(100, 10, 0, cost=cents * 10_000)
    calls = [("read", "x")] if steps else []
    listed = [billed_step(index, usage, *calls) for index in range(1, steps + 1)]
    return billed_run(*listed, run_id=run_id, task=task, success=success)


def runs_of(lengths: Sequence[int], runs: int = 1, **options: bool | None) -> list[Run]:
    """Tasks with runs of these lengths."""
    return [
        run_of(steps, f"{task}.{number}", f"t{task}", **options)  # type: ignore[arg-type]
        for task, steps in enumerate(lengths)
        for number in range(runs)
    ]


def test_the_loosest_cap_within_a_budget_is_set() -> None:
    decision = bl.recommend(runs_of([*range(1, 61)]), budget=0.20)
    assert (decision.action, decision.setting) == ("set", {"max_steps": 20})
    assert decision.evidence["reason"] == "within_budget"
    assert (decision.evidence["over"], decision.evidence["over_without"]) == (0, 40)
    assert decision.evidence["over_bound"] == pytest.approx(1 - 0.05 ** (1 / 60), abs=1e-5)
    assert "Set a step cap of 20: at most 5% of runs to come cost more than $0.20" in decision.verdict[0]


def test_some_runs_may_cost_more_where_there_are_many() -> None:
    lengths = [5] * 200 + [50] * 4
    decision = bl.recommend(runs_of(lengths), budget=0.20)
    assert (decision.action, decision.evidence["over"]) == ("leave", 4)
    assert decision.setting == {"max_steps": None}
    decision = bl.recommend(runs_of([*lengths, *[50] * 4]), budget=0.20)
    assert decision.setting == {"max_steps": 20}


def test_fewer_than_59_tasks_show_nothing_at_95_percent() -> None:
    decision = bl.recommend(runs_of([3] * 58), budget=0.20)
    assert (decision.action, decision.evidence["reason"], decision.evidence["more_needed"]) == ("not_yet", "too_few", 1)
    assert "It takes 1 more task like these, of which no run costs more." in decision.verdict[0]
    assert bl.recommend(runs_of([3] * 59), budget=0.20).action == "leave"
    assert bl.recommend(runs_of([3] * 20), budget=0.20, share=0.8).action == "leave"


@pytest.mark.parametrize("tasks", [15, 25, 40])
def test_many_runs_of_few_tasks_show_nothing(tasks: int) -> None:
    decision = bl.recommend(runs_of([3] * tasks, runs=10), budget=0.20)
    assert (decision.action, decision.evidence["more_needed"]) == ("not_yet", 67 - tasks)
    assert decision.evidence["tasks"] == tasks


def test_a_budget_that_the_first_step_exceeds_is_not_shown() -> None:
    decision = bl.recommend(runs_of([3] * 100), budget=0.005)
    assert (decision.action, decision.evidence["reason"]) == ("not_yet", "costs_more")
    assert "a step cap of 1, 100 of 100 runs cost more than $0.0050" in decision.verdict[0]


def test_an_unknown_cost_counts_as_more() -> None:
    unknown = [replace(run, run_id=f"u{n}", task=f"u{n}") for n, run in enumerate(runs_of([3] * 10))]
    unknown = [
        replace(
            run,
            model="unlisted",
            steps=tuple(
                step._replace(response=step.response._replace(usage=Usage(100, 10), model="unlisted"))
                for step in run.steps
            ),
        )
        for run in unknown
    ]
    decision = bl.recommend([*runs_of([3] * 100), *unknown], budget=1)
    assert (decision.action, decision.evidence["n_unknown_cost"]) == ("not_yet", 10)
    assert any("The cost of 10 runs is not known" in sentence for sentence in decision.sentences)
    none = bl.recommend(unknown, budget=1)
    assert none.evidence["reason"] == "no_cost"


def test_labels_show_what_the_cap_keeps() -> None:
    decision = bl.recommend(runs_of([3] * 60 + [30] * 60, success=True), budget=0.20)
    assert "a step cap of 20 keeps 60 of 120 successes (at least" in " ".join(decision.verdict)
    assert "successes on record" not in " ".join(bl.recommend(runs_of([3] * 60 + [30] * 60), budget=0.20).verdict)


def test_another_limit_may_be_asked_about() -> None:
    runs = runs_of([*range(1, 61)])
    decision = bl.recommend(runs, budget=0.20, grid={"max_cost": [0.05, 0.1, 0.15, 0.3]})
    assert decision.setting == {"max_cost": 0.15}
    with pytest.raises(SettingError, match="values of one limit"):
        bl.recommend(runs, budget=0.20, grid={"max_steps": [5], "tool_budget": [5]})


def test_a_budget_is_shown_for_tasks_and_by_tests_alone() -> None:
    with pytest.raises(SettingError, match="leave dependence out"):
        bl.recommend(runs_of([3]), budget=1, dependence="same_tasks")
    with pytest.raises(SettingError, match="labels='desk': the question is that of its file: leave budget out"):
        bl.recommend(runs_of([3]), budget=1, labels="desk")


@pytest.mark.parametrize("budget", [0, -1, float("inf"), True])
def test_a_budget_is_a_number_of_dollars(budget: float) -> None:
    with pytest.raises(SettingError, match="expected dollars above 0"):
        bl.recommend(runs_of([3]), budget=budget)


def test_groups_share_the_error_of_a_budget() -> None:
    runs = [replace(run, agent=f"a{n % 2}") for n, run in enumerate(runs_of([*range(1, 181)]))]
    decision = bl.recommend(runs, budget=0.20)
    assert decision.frame["error"].tolist() == pytest.approx([0.025, 0.025])
    assert decision.frame["max_steps"].tolist() == [20, 20]
    assert decision.verdict[0].startswith("Set limits for 2 of 2 agents")
    assert "At most 5% of their runs to come cost more than $0.20" in decision.verdict[0]


@pytest.mark.parametrize("seed", range(6))
def test_the_cap_is_that_of_a_search_over_all_caps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 110)
    runs = [
        run_of(int(steps), f"{task}.{number}", f"t{task}", cents=int(rng.integers(1, 4)))
        for task, size in enumerate(sizes)
        for number, steps in enumerate(rng.geometric(0.25, size))
    ]
    cents = np.array([(run.steps[0].response.usage.cost or 0) // 10_000 for run in runs])
    lengths = np.array([run.n_steps for run in runs])
    tasks = np.repeat(np.arange(len(sizes)), sizes)
    shown = [
        cap
        for cap in range(1, int(lengths.max()) + 1)
        if keeps_enough(np.bincount(tasks[np.minimum(lengths, cap) * cents > 12], minlength=110), sizes, 0.9, 0.05)
    ]
    decision = bl.recommend(runs, budget=0.12, share=0.9)
    assert shown == list(range(1, len(shown) + 1))
    assert decision.setting["max_steps"] == (shown[-1] if shown[-1] < lengths.max() else None)


def test_turns_stay_within_a_budget_where_a_cap_counts_turns() -> None:
    sessions = []
    for number, run in enumerate(runs_of([10] * 80)):
        steps = tuple(step._replace(turn=1 if step.index <= 8 else 2) for step in run.steps)
        sessions.append(replace(run, steps=steps, source="claude_code", run_id=f"s{number}"))
    decision = bl.recommend(sessions, budget=0.05, share=0.9)
    assert (decision.evidence["unit"], decision.evidence["n_units"], decision.setting["max_steps"]) == ("turn", 160, 5)
    by_run = bl.recommend(sessions, budget=0.05, share=0.9, scope="run")
    assert (by_run.evidence["unit"], by_run.evidence["n_units"], by_run.setting["max_steps"]) == ("run", 80, 5)


def test_the_command_asks_about_a_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.jsonl"
    bl.save_runs(runs_of([*range(1, 61)]), path)
    assert main(["whatif", str(path), "--budget", "0.20", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["question"]["budget"] == 0.2
    (group,) = data["recommendation"]["groups"]
    assert (group["max_steps"], group["budget"], group["over"], group["action"]) == (20, 0.2, 0, "set")
    assert main(["whatif", str(path), "--budget", "0.20"]) == 0
    text = capsys.readouterr().out
    assert "Set a step cap of 20: at most 5% of runs to come cost more than $0.20" in " ".join(text.split())


@pytest.mark.slow
def test_the_report_has_the_question_about_a_budget(tmp_path: Path) -> None:
    logs, page = tmp_path / "runs.jsonl", tmp_path / "report.html"
    bl.save_runs(runs_of([*range(1, 61)]), logs)
    assert main(["report", str(logs), "--budget", "0.20", "-o", str(page)]) == 0
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert "To cost at most $0.20: 95% of future ones, with 95% confidence" in text
    assert "actually lets more than 5% of runs cost more than $0.20." in text
    assert "--budget 0.2 --share 0.95" in text


@pytest.mark.slow
def test_a_budget_is_rarely_wrong_where_a_dear_kind_is_rare() -> None:
    from benchmarks.tails import LONGEST, SHARE, WORLDS, cap_of, records, truth

    for world in WORLDS:
        population = truth(world)
        budget = float(np.quantile(population.costs(), 0.8))
        over = [0.0, *(float((population.costs(cap) > budget).mean()) for cap in range(1, LONGEST + 1))]
        caps = [cap_of(record, budget) for record in records(world, 40)]
        assert sum(cap is not None and over[cap] > 1 - SHARE for cap in caps) <= 4, world.name
