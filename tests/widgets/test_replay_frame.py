"""What stands around the steps of Replay: the head with its verdict, the rows between steps, the code of a step."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.messages import Input, Message, Text
from boolab.core.run import Compacted, Score
from boolab.core.types import Event, Response, Usage
from boolab.widgets.replay.data import code_of, replay_data
from tests.support.helpers import play, steps
from tests.support.project import ROOT


def looping(**facts: Any) -> bl.Run:
    """Six identical calls, then an answer."""
    return replace(play(steps("a a a a a a"), policy="opencode_3631"), **facts)


@pytest.mark.parametrize(
    ("success", "happened", "loss"),
    [
        (True, "Resolved after 7 steps, with 6 identical calls in a row.", "and lost a success to save 4 steps."),
        (False, "Failed after 7 steps, with 6 identical calls in a row.", "and saved 4 steps."),
        (None, "Finished after 7 steps, with 6 identical calls in a row.", "and saved 4 steps."),
    ],
)
def test_replay_verdict_says_what_happened_and_what_is_lost(success: bool | None, happened: str, loss: str) -> None:
    head = replay_data(looping(success=success), ["boocode"])["header"]
    assert head["verdict"] == {
        "happened": happened,
        "limit": "boocode (doom loop 3) would have stopped it after step 3,",
        "loss": loss,
    }


@pytest.mark.parametrize(
    ("success", "scores", "outcome"),
    [
        (None, (), ("○", "finished", "", "not labelled")),
        (True, (), ("✓", "resolved", "", "label, finished")),
        (False, (Score("reward", 0.6),), ("✕", "failed", "reward 0.6", "finished")),
        (None, (Score("match", "C"), Score("style", "I"), Score("length", 3)),
         ("○", "finished", "match C, style I, 1 more", "")),
    ],
)  # fmt: skip
def test_the_head_has_the_score_and_what_judged_the_run(
    success: bool | None, scores: tuple[Score, ...], outcome: tuple[str, ...]
) -> None:
    head = replay_data(looping(success=success, scores=scores), [])["header"]
    assert tuple(head["outcome"].values()) == outcome


def test_the_verdict_names_the_first_limit_and_counts_the_others() -> None:
    verdict = replay_data(looping(), [], [bl.max_steps(5), bl.max_steps(2), bl.max_steps(90)])["header"]["verdict"]
    assert verdict["limit"] == "max_steps(2) would have stopped it after step 2,"
    assert verdict["loss"] == "and saved 5 steps. 1 more of the 3 would have stopped it too."
    for caps, loss in (
        ([90], "max_steps(90) would not have stopped it earlier."),
        ([90, 91], "None of the 2 compared policies and rules would have stopped it earlier."),
        ([], ""),
    ):
        verdict = replay_data(looping(), [], [bl.max_steps(cap) for cap in caps])["header"]["verdict"]
        assert (verdict["limit"], verdict["loss"]) == ("", loss)


def test_limit_with_unrecorded_counter_has_an_unknown_verdict() -> None:
    cost = bl.max_cost(1)
    for rules, loss in (
        ([cost], "Whether compared policies and rules would have stopped it is not known: a counter is not on record."),
        (
            [cost, bl.max_steps(90)],
            "None of the 2 compared policies and rules is known to stop it; for 1 a counter is not on record.",
        ),
    ):
        data = replay_data(looping(), [], rules)
        assert data["header"]["verdict"]["loss"] == loss
        assert not any("limit" in step["flags"] for step in data["steps"])


def test_savings_of_a_limit_include_dollars_if_costs_are_known() -> None:
    run = looping()
    priced = Usage(1000, 100, cost=250_000)
    steps_ = tuple(step._replace(response=step.response._replace(usage=priced)) for step in run.steps)
    loss = replay_data(replace(run, steps=steps_), ["boocode"])["header"]["verdict"]["loss"]
    assert loss == "and saved 4 steps and $1.00."


def test_the_loss_of_a_run_of_several_turns_is_not_known() -> None:
    run = looping(success=True)
    run = replace(run, steps=tuple(step._replace(turn=1 + (step.index > 5)) for step in run.steps))
    verdict = replay_data(run, ["boocode"])["header"]["verdict"]
    assert verdict["loss"] == "and what the user would have done then is not known."


def test_a_run_that_its_own_limit_stopped_says_so() -> None:
    run = play(steps("a b c d e f"), policy="boocode", max_steps=3)
    happened = replay_data(replace(run, success=True), [])["header"]["verdict"]["happened"]
    assert happened == "Resolved, though stopped by its own limit, max_steps(3), after 3 steps."


def test_header_counts_recorded_usage_and_omits_the_unknown() -> None:
    usage = Usage(1000, 100, 750, None, 2_500_000)
    (one, *_) = looping().steps
    run = looping(steps=(one._replace(response=Response("Done.", usage=usage), results=(), model_ms=1_000),),
                  limits={"cost": 4_000_000}, duration_ms=2_000)  # fmt: skip
    kpis = [(one["value"], one["label"]) for one in replay_data(run, [])["header"]["kpis"]]
    assert kpis == [
        ("1", "step, 0 calls"),
        ("1,100", "tokens, 75% cached"),
        ("$2.50", "of $4.00, its limit"),
        ("2.0 s", "model 1.0 s"),
    ]
    unknown = replay_data(
        replace(run, steps=(one._replace(response=Response("Done."), results=()),), duration_ms=None), []
    )
    assert [one["label"] for one in unknown["header"]["kpis"]] == ["step, 0 calls"]


def test_header_has_the_whole_task_system_prompt_and_tools() -> None:
    prompt = (Message("system", (Text("Be brief."),)), Message("user", (Text("Fix it.\nAll of it."),)))
    head = replay_data(looping(prompt=prompt, task="Fix it."), [])["header"]
    assert (head["title"], head["task"], head["system"]) == ("Fix it.", "Fix it.\nAll of it.", "Be brief.")
    assert head["tools"] == [{"name": "look", "calls": 6}]


def test_a_command_to_the_harness_is_no_title() -> None:
    prompt = (Message("user", (Text("/mode"),)), Message("user", (Text("Read this.\nAll."),)))
    assert replay_data(looping(prompt=prompt, task="/mode"), [])["header"]["title"] == "Read this."


def test_limit_row_follows_its_stop_step_and_stop_row_is_last() -> None:
    rows = replay_data(looping(success=True), ["boocode"], [bl.max_steps(3)])["between"]
    assert [(row["after"], row["kind"], row["title"], row["text"]) for row in rows] == [
        (
            3,
            "limit",
            "Would have stopped here: boocode, doom loop 3; max_steps(3).",
            "The run continued for 4 steps, and was resolved.",
        ),
        (7, "stop", "The run ended here: finished after 7 steps.", ""),
    ]


def test_stop_message_of_a_limit_is_only_in_the_last_row() -> None:
    run = play(steps("a b c d e f"), policy="boocode", max_steps=2)
    data = replay_data(run, [])
    assert run.sentinel is not None
    assert [row["details"] for row in data["between"]] == ["\n\n".join({run.sentinel.text: None, run.text: None})]
    assert not any(event["kind"] == "sentinel" for step in data["steps"] for event in step["events"])


def test_compaction_row_precedes_first_request_without_history() -> None:
    live = looping(compactions=(Compacted(3, 2, "It looked once.", 120_000),))
    logged = looping(events=(Event(None, "compaction", {"after_step": 2, "tokens": 120_000}),))
    told = replace(logged, inputs=(Input(3, Message("user", (Text("So far: it looked."),))),))
    for run, summary in ((live, "It looked once."), (logged, ""), (told, "So far: it looked.")):
        (row,) = [row for row in replay_data(run, [])["between"] if row["kind"] == "compaction"]
        assert (row["after"], row["details"]) == (2, summary)
        assert "120.0k tokens" in row["text"]
    assert not any(step["events"] for step in replay_data(logged, [])["steps"])


def test_request_names_the_summary_and_later_user_messages() -> None:
    prompt = (Message("system", (Text("Be brief."),)), Message("user", (Text("Look."),)))
    inputs = (Input(4, Message("user", (Text("Once more."),))),)
    run = looping(prompt=prompt, inputs=inputs, compactions=(Compacted(5, 3, "It looked.", 9_000),))
    assert replay_data(run, [])["requests"][:6] == [
        "system prompt, 1 message",
        "system prompt, 1 message, step 1 with results",
        "system prompt, 1 message, steps 1-2 with results",
        "system prompt, 2 messages, steps 1-3 with results",
        "system prompt, 2 messages, summary of steps 1-2, steps 3-4 with results",
        "system prompt, 2 messages, summary of steps 1-2, steps 3-5 with results",
    ]


def test_an_outlines_item_ends_where_a_limit_would_have_stopped() -> None:
    (turn,) = replay_data(looping(), ["boocode"])["outline"]
    assert [(item["first"], item["last"], item["repeats"]) for item in turn["items"]] == [
        (1, 3, 2),
        (4, 6, 3),
        (7, 7, 0),
    ]


def test_gauge_uses_tightest_compared_limit_when_run_has_none() -> None:
    run = looping(limits={"steps": 90})
    found = {
        one["key"]: (one["limit"], one["by"]) for one in replay_data(run, ["boocode"], [bl.tool_budget(7)])["gauges"]
    }
    assert found["steps"] == (90, "")
    assert found["tool_calls"] == (7, "tool_budget(7)")
    own = {one["key"]: one["by"] for one in replay_data(replace(run, policy="boocode"), ["boocode"])["gauges"]}
    assert own["tool_calls"] == ""


def test_gauges_count_context_and_model_time_if_recorded() -> None:
    usage = Usage(1000, 100)
    run = looping(context_window=8_000)
    timed = tuple(step._replace(model_ms=10, response=step.response._replace(usage=usage)) for step in run.steps)
    found = {one["key"]: one for one in replay_data(replace(run, steps=timed), [])["gauges"]}
    assert (found["context"]["limit"], found["context"]["values"]) == (8_000, [0] + [1000] * 7)
    assert found["model_time"]["values"] == [0, 10, 20, 30, 40, 50, 60, 70]
    two = tuple(step._replace(turn=1 + (step.index > 5)) for step in timed)
    found = {one["key"]: one for one in replay_data(replace(run, steps=two), [])["gauges"]}
    assert found["model_time"]["values"] == [0, 10, 20, 30, 40, 50, 10, 20]


def test_the_code_opens_the_run_at_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = looping(run_id="odd 'id\" \u202e\nof a run")
    scope: dict[str, Any] = {"runs": [looping(), run]}
    exec("4".join(code_of(run)).replace("bl.Replay(", "replay = bl.Replay("), scope)  # noqa: S102 - our own code
    assert (scope["replay"].run.run_id, scope["replay"].step) == (run.run_id, 4)
    for logged in bl.with_subagents(bl.load_runs(ROOT / "tests/data/claude_code")):
        scope = {}  # all that it needs is the log
        exec("1".join(code_of(logged)).replace("bl.Replay(", "replay = bl.Replay("), scope)  # noqa: S102 - our own code
        assert (scope["replay"].run.run_id, scope["replay"].step) == (logged.run_id, 1)
    path = tmp_path / "runs.db"
    with bl.Store(path) as store:
        store.add([looping(run_id="r")])
    monkeypatch.chdir(tmp_path)  # the code has paths relative to the folder in which it was made
    code = bl.Replay(path)._replay_data["code"]
    exec("2".join(code).replace("bl.Replay(", "replay = bl.Replay("), scope)  # noqa: S102 - our own code
    assert (scope["replay"].run.run_id, scope["replay"].step) == ("r", 2)
