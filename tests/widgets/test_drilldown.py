"""Runs that are opened below a view: which are open, what is left of those before, and what a page holds of them."""

from dataclasses import replace
from typing import Any

import pytest

import boolab as bl
from boolab.widgets.replay.data import replay_data, replays_data
from boolab.widgets.replay.widget import replay_parts
from tests.support.helpers import TOOLS, distinct, play, steps


def runs() -> list[bl.Run]:
    """Three runs, each of which other policies would have stopped elsewhere; the last one has a subagent."""
    asks = {"tool_calls": [{"name": "task", "arguments": {"agent": "scout", "prompt": "look"}}]}
    scout = bl.Agent("scout", tools=TOOLS, policy="opencode_3631", model=bl.ScriptedModel(steps("b b b b")))
    lead = bl.Agent("lead", tools=(*TOOLS, bl.task_tool([scout])), policy="naive")
    made = [
        play(steps("a a a a a a"), policy="opencode_3631"),
        play(distinct(3), policy="boocode"),
        bl.run_sync(lead, "go", model=bl.ScriptedModel([*steps("a", None), asks, "done"])),
    ]
    return [replace(run, run_id=f"run {n}") for n, run in enumerate(made)]


def opened(heatmap: bl.Heatmap, chosen: Any) -> bl.Replay | None:
    """What is open below after a run was chosen."""
    heatmap.opened = chosen
    return heatmap.replay


def test_runs_that_are_prepared_together_are_what_each_is_alone() -> None:
    made = runs()
    rules = [bl.max_steps(2)]
    assert replays_data(made, rules=rules) == [replay_data(run, rules=rules) for run in made]
    assert replays_data(made, ["roo"]) == [replay_data(run, ["roo"]) for run in made]
    assert replays_data([made[0], made[0]]) == [replay_data(made[0])] * 2
    (child,) = replays_data(made)[2]["children"]
    assert child["run"]["marks"] == replay_data(made[2].subagents[0])["marks"]
    assert [mark["step"] for mark in child["run"]["marks"] if mark["policy"] == "boocode"] == [3]
    assert {run_id: part.data for run_id, part in replay_parts(made).items()} == {
        run.run_id: replay_data(run) for run in made
    }


def test_a_page_holds_the_first_runs_and_at_least_one() -> None:
    one = play(distinct(2))
    many = [replace(one, run_id=str(n)) for n in range(20)]
    assert list(replay_parts(many)) == [str(n) for n in range(12)]
    endless = replace(one, steps=one.steps * 5_000)
    long = [replace(one, run_id="a"), replace(endless, run_id="b"), replace(one, run_id="c")]
    assert list(replay_parts(long)) == ["a"]


def test_replaced_or_closed_replay_leaves_no_widget_open() -> None:
    made = runs()
    heatmap = bl.Heatmap(
        bl.counterfactual(made, grid={"max_steps": [2, None], "tool_budget": [2, None]}, aggregate=True), made
    )
    first = opened(heatmap, {"run": "run 0", "step": 2})
    assert first is not None
    assert first.comm is not None
    assert opened(heatmap, {"run": "run 0", "step": 3}) is first
    assert first.step == 3
    second = opened(heatmap, {"run": "run 1", "step": 99})
    assert second is not None
    assert (second.run.run_id, second.step) == ("run 1", made[1].n_steps)
    assert first.comm is None
    first.step = 1
    assert heatmap.opened == {"run": "run 1", "step": made[1].n_steps}
    assert opened(heatmap, None) is None
    assert second.comm is None


@pytest.mark.parametrize(
    "chosen",
    [{"run": "nowhere", "step": 1}, {"run": "run 0"}, {"run": "run 0", "step": "2"}, {"run": [], "step": 1}, {}],
)
def test_what_cannot_be_opened_is_refused(chosen: dict[str, Any]) -> None:
    made = runs()[:1]
    heatmap = bl.Heatmap(
        bl.counterfactual(made, grid={"max_steps": [2, None], "tool_budget": [2, None]}, aggregate=True), made
    )
    with pytest.raises(bl.SettingError, match=r"expected \{'run': run_id, 'step': n\} with the one run here"):
        heatmap.opened = chosen
