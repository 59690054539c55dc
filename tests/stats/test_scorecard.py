"""Scorecards: what is an alarm, which alarms are true, what they would have saved and lost, and what is said of it."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import MICRO, Response, Step, Stop, ToolCall, ToolResult, Usage
from boolab.errors import SettingError
from boolab.frames.recording import recording_df
from boolab.limits.catalog import doom_loop, error_streak, max_cost, max_steps, max_tokens, tool_budget
from boolab.limits.stop import StopRule
from boolab.plots.scorecard import plot_scorecard
from boolab.stats.finding import Finding
from boolab.stats.intervals import clopper_pearson
from boolab.stats.scorecard.metrics import FAILED, NOT_ENDED
from boolab.stats.scorecard.scorecard import scorecard
from boolab.store.writer import Store
from tests.support.cases import cases
from tests.support.labelled_runs import labelled_runs
from tests.support.project import ROOT
from tests.support.walk import walk
from tests.whatif.test_evaluate import LIMITS, MAKE, sessions

MANY = cases(40, suppress_health_check=list(HealthCheck))


def run_of(calls: str, success: bool | None = None, **fields: Any) -> Run:
    """A run of one call a step, then a text.

    Each word is a call: its tool, and after a colon what it gave ("!" before it for an error, "?" for unknown status).
    A "|" begins a new turn.
    """
    made: list[Step] = []
    turn = 1
    for word in calls.split():
        if word == "|":
            turn += 1
            continue
        name, _, content = word.partition(":")
        status = {"!": True, "?": None}.get(content[:1], False)
        step = Response("", (ToolCall("c", name, "{}"),), None, Usage(10, 5, cost=MICRO))
        made.append(Step(len(made) + 1, turn, 0, 0, 0, step, (ToolResult("c", content, status),)))
    stop = fields.pop("stop", Stop("finished", sum(step.turn == turn for step in made)))
    if stop.reason == "finished":
        made.append(Step(len(made) + 1, turn, 0, 0, 0, Response("Done.", (), "stop", Usage(10, 5, cost=MICRO))))
    known: dict[str, Any] = {"run_id": f"r{calls}", "agent": "", "model": "m", "policy": "", "task": ""}
    return Run(**(known | fields), stop=stop, steps=tuple(made), success=success)


def numbered(*runs: Run) -> list[Run]:
    return [replace(run, run_id=f"r{i}") for i, run in enumerate(runs)]


def only(found: Finding) -> dict[str, Any]:
    assert len(found.frame) == 1
    return {str(name): None if value is pd.NA else value for name, value in found.frame.iloc[0].items()}


CUT = Stop("aborted", 99)


# --- Against a plain evaluation ---------------------------------------------------------------------------------------


def naive(runs: list[Run], positive: list[bool | None], setting: dict[str, Any], scope: str) -> dict[str, Any]:
    """The counts of one rule by the text, run by run."""
    out = dict.fromkeys(("n_runs", "n_positive", "alarms", "true_alarms", "false_alarms", "missed"), 0)
    out |= dict.fromkeys(("n_unknown", "successes", "successes_lost_lower", "successes_lost_upper"), 0)
    saved: dict[str, list[int | None]] = {"steps": [], "tool_calls": [], "tokens": [], "cost": []}
    for run, is_positive in zip(runs, positive, strict=True):
        if is_positive is None:
            continue
        row = walk(run, setting, scope)
        if row["outcome"] == "unknown":
            out["n_unknown"] += 1
            continue
        alarm = row["outcome"] in ("truncated", "not_identified")
        out["n_runs"] += 1
        out["n_positive"] += is_positive
        out["alarms"] += alarm
        out["true_alarms"] += alarm and is_positive
        out["false_alarms"] += alarm and not is_positive
        out["missed"] += is_positive and not alarm
        out["successes"] += bool(run.success)
        out["successes_lost_upper"] += bool(run.success) and alarm
        out["successes_lost_lower"] += bool(run.success) and alarm and row["kept_upper"] == 0
        for name, amounts in saved.items():
            amounts.extend([row[f"saved_{name}"]] if alarm else [])
    result: dict[str, Any] = dict(out)
    for name, amounts in saved.items():
        told = [amount for amount in amounts if amount is not None]
        result[f"saved_{name}"] = sum(told) if told or not amounts else None
    if not out["n_runs"] and out["n_unknown"]:
        for name in result:
            if name.startswith(("saved_", "successes_lost", "alarms", "true", "false", "missed")):
                result[name] = None
    return result


def ratio(above: int | None, below: int) -> float | None:
    return None if not below or above is None else above / below


@MANY
@given(st.data())
def test_scorecard_of_random_sessions_equals_a_walk_over_steps(data: Any) -> None:
    n = data.draw(st.integers(1, 7))
    runs = [replace(data.draw(sessions(i)), task=f"task {i}") for i in range(n)]
    way = data.draw(st.sampled_from(["labels", "proxy", "mapping"]))
    scope = data.draw(st.sampled_from(["turn", "run"]))
    names = data.draw(st.lists(st.sampled_from(sorted(LIMITS)), min_size=1, max_size=2, unique=True))
    setting = {name: data.draw(LIMITS[name]) for name in names}
    members = [MAKE[name](setting[name]) for name in LIMITS if name in setting]
    rule = members[0] if len(members) == 1 else members[0] | members[1]
    asked: Any = None
    seen = runs
    if way == "proxy":
        runs = [replace(run, success=None) for run in runs]
        good = [run.stop_reason == "finished" and None not in run.steps[-1].results for run in runs]
        seen = [replace(run, success=one) for run, one in zip(runs, good, strict=True)]
        positive: list[bool | None] = [not one for one in good]
    elif way == "labels":
        runs = seen = [*runs[:-1], replace(runs[-1], success=data.draw(st.booleans()))]
        positive = [None if run.success is None else not run.success for run in runs]
    else:
        runs = seen = [*runs[:-1], replace(runs[-1], success=True)]
        asked = {run.run_id: data.draw(st.sampled_from([True, False, None])) for run in runs}
        positive = [asked[run.run_id] for run in runs]
    # The walk leaves bounds open without a label; a run without one is no success.
    seen = [run if run.success is not None else replace(run, success=False) for run in seen]
    found = only(scorecard(runs, rule, scope=scope, positive=asked))
    expected = naive(seen, positive, setting, scope)
    expected["saved_cost_usd"] = (
        expected["saved_cost"] if expected["saved_cost"] is None else expected["saved_cost"] / MICRO
    )
    del expected["saved_cost"]
    assert {name: found[name] for name in expected} == expected
    others = expected["n_runs"] - expected["n_positive"]
    for name, above, below in (
        ("precision", expected["true_alarms"], expected["alarms"] or 0),
        ("recall", expected["true_alarms"], expected["n_positive"]),
        ("false_alarm_rate", expected["false_alarms"], others),
    ):
        assert found[name] == ratio(above, below)
        ends = (found[f"{name}_low"], found[f"{name}_high"])
        assert ends == (None, None) if found[name] is None else ends == pytest.approx(clopper_pearson(above, below))


@MANY
@given(st.lists(sessions(), min_size=1, max_size=5), st.sampled_from(["turn", "run"]), st.data())
def test_clean_threshold_is_the_least_without_a_false_alarm(drawn: list[Run], scope: Any, data: Any) -> None:
    runs = [replace(run, run_id=str(i), success=bool(run.success)) for i, run in enumerate(drawn)]
    name, least = data.draw(st.sampled_from([("max_steps", 1), ("doom_loop", 2), ("tool_budget", 1)]))
    clean = only(scorecard(runs, MAKE[name](3), scope=scope))["clean_threshold"]
    good = [run for run in runs if run.success]
    if not good:
        assert clean is None
        return
    quiet = (t for t in range(least, 99) if not any("stop_turn" in walk(run, {name: t}, scope) for run in good))
    assert clean == next(quiet)


# --- Work, and loops --------------------------------------------------------------------------------------------------


def test_poll_with_changing_results_is_work_and_no_loop() -> None:
    poll = run_of("wait:no wait:no wait:no wait:yes", success=False)
    loop = run_of("grep:no grep:no grep:no grep:no", success=False)
    fine = run_of("a b", success=True)
    runs = numbered(poll, loop, fine)
    plain = only(scorecard(runs, doom_loop(3)))
    assert (plain["alarms"], plain["true_alarms"], plain["false_alarms"], plain["converged"]) == (2, 2, 0, 1)
    asked = only(scorecard(runs, doom_loop(3), converged=True))
    assert [asked[name] for name in ("alarms", "true_alarms", "false_alarms", "missed", "converged")] == [2, 1, 1, 1, 1]
    assert (asked["precision"], asked["recall"], asked["false_alarm_rate"]) == (0.5, 0.5, 0)
    assert (plain["clean_threshold"], asked["clean_threshold"]) == (2, 4)
    assert asked["saved_steps_on_true_alarms"] == 2


@pytest.mark.parametrize(
    ("calls", "scope", "converged"),
    [
        ("a:1 a:1 a:2", "turn", True),
        ("a:1 a:1 a:!2", "turn", False),  # an error
        ("a:1 a:1 a:?2", "turn", False),  # nobody knows whether it is one
        ("a:1 a:1 a:1", "turn", False),  # nothing new
        ("a:1 a:1 b:2", "turn", False),  # another call
        ("a:1 a:2 a:2", "turn", False),  # it differs from the first, not from the one at the alarm
        ("a:1 a:2 b:3 a:1", "turn", True),
        ("a:!1 a:!1 a:2", "turn", True),
        ("a:1 a:1 b:1 | a:2", "turn", False),  # another turn
        ("a:1 a:1 b:1 | a:2", "run", True),
    ],
)
def test_alarm_converges_if_the_same_call_gives_a_new_result(calls: str, scope: Any, converged: bool) -> None:
    card = scorecard([run_of(calls, success=False)], doom_loop(2), scope=scope, converged=True)
    assert only(card)["converged"] == int(converged)
    assert only(card)["true_alarms"] == int(not converged)
    said = "1 alarm was work and not a loop: the same call gave a new result later; it counts as false."
    assert (said in card.sentences[0]) is converged


def test_only_rules_that_watch_repeats_can_converge() -> None:
    run = run_of("a:1 a:1 a:1 a:2", success=False)
    rules = [max_steps(2), error_streak(2), doom_loop(2) | max_steps(1), doom_loop(2) & max_steps(2), doom_loop(9)]
    assert scorecard([run], rules, converged=True)["converged"].tolist() == [pd.NA, pd.NA, 0, 1, 0]
    assert scorecard([run], rules, converged=True)["true_alarms"].tolist() == [1, 0, 1, 0, 0]


def test_convergence_is_judged_by_the_call_without_its_result() -> None:
    run = run_of("wait:no wait:no wait:no wait:yes", success=False)
    assert only(scorecard([run], doom_loop(3, "call+result")))["converged"] == 1
    assert only(scorecard([run], doom_loop(3, "raw")))["converged"] == 1


def naive_converged(run: Run, n: int) -> bool | None:
    """Whether the alarm of doom_loop(n) in a run of one turn and one call a step converged; None without an alarm."""
    calls = [(s.response.tool_calls[0].name, s.results[0]) for s in run.steps if s.results]
    for at in range(n, len(calls) + 1):
        name, last = calls[at - 1]
        if all(other == name for other, _ in calls[at - n : at]):
            assert last is not None
            later = [r for other, r in calls[at:] if other == name and r is not None]
            return any(r.is_error is False and r.content != last.content for r in later)
    return None


words = st.lists(st.sampled_from(["a:1", "a:1", "a:1", "a:2", "a:!2", "a:?", "b:1", "b:2"]), min_size=1, max_size=9)


@MANY
@given(st.lists(st.tuples(words, st.booleans()), min_size=1, max_size=5), st.integers(2, 4))
def test_converged_alarms_are_false_at_every_threshold(drawn: Any, n: int) -> None:
    runs = numbered(*(run_of(" ".join(calls), success=won) for calls, won in drawn))

    def false(threshold: int) -> int:
        found = [naive_converged(run, threshold) for run in runs]
        return sum(c is not None and (c or bool(run.success)) for c, run in zip(found, runs, strict=True))

    card = only(scorecard(runs, doom_loop(n), converged=True))
    work = [naive_converged(run, n) for run in runs]
    assert card["converged"] == sum(w is True for w in work)
    assert card["alarms"] == sum(w is not None for w in work)
    assert card["false_alarms"] == false(n)
    assert card["true_alarms"] + card["missed"] == card["n_positive"]
    clean = next((t for t in range(11, 1, -1) if false(t)), 1) + 1
    could = any(run.success for run in runs) or clean > 2
    assert card["clean_threshold"] == (clean if could else None)


# --- What is to be found ----------------------------------------------------------------------------------------------


def test_labels_and_the_proxy_are_never_mixed() -> None:
    runs = numbered(run_of("a a a", stop=CUT), run_of("a b"), run_of("b b b"))
    proxy = scorecard(runs, doom_loop(3))
    assert (only(proxy)["positive_is"], only(proxy)["n_positive"], only(proxy)["n_runs"]) == (NOT_ENDED, 1, 3)
    assert "proxy" in proxy.notes[0]
    for rules in (doom_loop(3), doom_loop(9), max_tokens(1), max_steps(1)):
        for some in (runs, runs[:1], runs[1:], [], [replace(runs[0], steps=runs[0].steps[:1])]):
            assert all(NOT_ENDED in sentence for sentence in scorecard(some, rules).sentences)
    labelled = scorecard([replace(runs[0], success=True), *runs[1:]], doom_loop(3))
    assert (only(labelled)["positive_is"], only(labelled)["n_positive"], only(labelled)["n_runs"]) == (FAILED, 0, 1)
    assert "2 of 3 runs are left out: without a label their class is not known." in labelled.notes
    assert not any(NOT_ENDED in text for text in (*labelled.notes, *labelled.sentences))


def test_sentence_without_right_alarms_has_no_double_negation() -> None:
    runs = numbered(run_of("a a a b"), run_of("a a a c"), run_of("b", stop=CUT))
    (said, *_) = scorecard(runs, doom_loop(3)).sentences
    assert "in all of them the agent ended by itself" in said
    assert "none of them" not in said


def test_the_user_may_look_for_something_else_than_failure() -> None:
    runs = numbered(run_of("a a a", success=True), run_of("a b", success=False), run_of("b b b"))
    told = {"r0": True, "r1": False, "r2": np.True_}
    settings = [replace(run, settings={"stuck": told[run.run_id]}) for run in runs]
    ways: dict[str, tuple[list[Run], Any]] = {
        "stuck": (settings, "stuck"),
        "positive": (runs, told),
        "repeats": (runs, repeats),
    }
    for name, (given_runs, positive) in ways.items():
        card = scorecard(given_runs, doom_loop(3), positive=positive)
        row = only(card)
        assert (row["n_runs"], row["n_positive"], row["true_alarms"], row["positive_is"]) == (3, 2, 2, name)
        assert (row["successes"], row["successes_lost_lower"], row["successes_lost_upper"]) == (1, 0, 1)
        assert "by the user's definition" in card.notes[0]
        assert (f"({name})" in card.sentences[0]) is (name != "positive")
    assert only(scorecard(runs, doom_loop(3), positive=pd.Series(told)))["true_alarms"] == 2
    assert only(scorecard(runs, doom_loop(3), positive=lambda run: run.success is False))["n_positive"] == 1


def repeats(run: Run) -> bool:
    return len({step.response.tool_calls for step in run.steps[:-1]}) == 1


def test_label_left_open_by_the_user_is_not_taken_from_elsewhere() -> None:
    runs = numbered(run_of("a a a", success=False), run_of("a b", success=False))
    row = only(scorecard(runs, doom_loop(3), positive={"r0": True}))
    assert (row["n_runs"], row["n_positive"]) == (1, 1)
    unlabelled = [replace(run, success=None) for run in runs]
    card = scorecard(unlabelled, doom_loop(3), positive={"r0": True, "r1": None})
    row = only(card)
    assert (row["successes"], row["successes_lost_lower"], row["successes_lost_upper"]) == (None, None, None)
    assert "no run has a success label" in card.sentences[0]


# --- Undefined, unknown -----------------------------------------------------------------------------------------------


def test_undefined_ratios_are_not_zero() -> None:
    failed, fine = run_of("a b c", success=False), run_of("a b", success=True)
    none = only(scorecard([failed, fine], doom_loop(3)))
    assert (none["alarms"], none["precision"], none["precision_low"], none["recall"]) == (0, None, None, 0)
    assert none["saved_steps"] == 0
    assert none["saved_steps_high"] is None
    only_good = only(scorecard([fine], max_steps(1)))
    assert (only_good["recall"], only_good["recall_high"], only_good["precision"]) == (None, None, 0)
    only_bad = only(scorecard([failed], max_steps(1)))
    assert (only_bad["false_alarm_rate"], only_bad["clean_threshold"], only_bad["precision"]) == (None, None, 1)
    nothing = only(scorecard([], doom_loop(3)))
    assert (nothing["n_runs"], nothing["alarms"], nothing["precision"], nothing["clean_threshold"]) == (
        0,
        0,
        None,
        None,
    )


def test_unknown_counter_gives_no_alarm_and_is_counted() -> None:
    known = run_of("a:!x a:!x", success=False)
    hangs = run_of("a:? a:!x a:!x", success=False)
    card = scorecard(numbered(known, hangs), [error_streak(2), error_streak(2, on_unknown="ignore"), doom_loop(2)])
    assert card["n_unknown"].tolist() == [1, 0, 0]
    assert card["n_runs"].tolist() == [1, 2, 2]
    assert card["alarms"].tolist() == [1, 1, 2]
    assert any("error_streak(2) in 1 run." in note for note in card.notes)
    nobody = scorecard([hangs], error_streak(2))
    row = only(nobody)
    assert (row["alarms"], row["missed"], row["saved_steps"], row["n_runs"]) == (None, None, None, 0)
    assert nobody.sentences[0].startswith("error_streak(2) cannot be judged")


def test_a_clean_threshold_is_not_known_where_the_counter_is_not() -> None:
    good = numbered(run_of("a:!x b", success=True), run_of("a:? b:ok", success=True))
    assert only(scorecard(good, error_streak(9)))["clean_threshold"] is None
    assert only(scorecard(good[:1], error_streak(9)))["clean_threshold"] == 2
    assert only(scorecard([good[0], replace(good[1], success=False)], error_streak(9)))["clean_threshold"] == 2
    assert only(scorecard(good, error_streak(9, on_unknown="ignore")))["clean_threshold"] == 2
    assert only(scorecard(good, doom_loop(9) | error_streak(9)))["clean_threshold"] is None
    cost = scorecard(good, max_cost(9))
    assert only(cost)["clean_threshold"] == 2 * MICRO + 1
    assert "2,000,001 micro-dollars" in cost.sentences[0]


def test_tokens_that_nobody_tells_are_not_saved_tokens() -> None:
    run = run_of("a a a a", success=False)
    silent = replace(run, steps=tuple(s._replace(response=s.response._replace(usage=Usage())) for s in run.steps))
    both = scorecard(numbered(run, silent), doom_loop(2))
    assert (only(both)["saved_tokens"], only(both)["saved_cost_usd"], only(both)["saved_steps"]) == (45, 3.0, 6)
    assert "What 1 of 2 alarms would have saved in tokens is not known: the total is without them." in both.notes
    alone = scorecard([silent], doom_loop(2))
    assert (only(alone)["saved_tokens"], only(alone)["saved_cost_usd"]) == (None, None)
    assert "What any alarm would have saved in cost is not known: the total is NA." in alone.notes


# --- Rules, groups, clusters ------------------------------------------------------------------------------------------


def test_identity_by_tool_and_exempt_tools_hold_through_the_rule() -> None:
    poll = run_of("poll:a poll:b poll:c", success=True)
    loop = run_of("grep:x grep:x grep:x", success=False)
    rules = [
        doom_loop(3),
        doom_loop(3, "call+result"),
        doom_loop(3, {"poll": None}),
        doom_loop(3, {"*": "tool", "poll": "call+result"}),
        doom_loop(3, {"*": "canonical", "grep": None}),
    ]
    card = scorecard(numbered(poll, loop), rules)
    assert card["alarms"].tolist() == [2, 1, 1, 1, 1]
    assert card["true_alarms"].tolist() == [1, 1, 1, 1, 0]
    assert card["clean_threshold"].tolist() == [4, 2, 2, 2, 4]
    assert card["rule"].tolist() == [str(rule) for rule in rules]


def test_groups_are_kept_apart() -> None:
    runs = numbered(
        run_of("a a a", success=False, agent="x", settings={"size": 1}),
        run_of("a b", success=True, agent="x", settings={"size": 2}),
        run_of("b b b", success=True, agent="y", settings={"size": 1}),
    )
    rules = [doom_loop(3), max_steps(1)]
    card = scorecard(runs, rules, by="agent")
    assert card.frame.columns[0] == "agent"
    assert card["agent"].tolist() == ["x", "x", "y", "y"]
    for agent, rows in card.frame.groupby("agent"):
        alone = scorecard([run for run in runs if run.agent == agent], rules).frame
        pd.testing.assert_frame_equal(rows.drop(columns="agent").reset_index(drop=True), alone)
    assert card.sentences[0].startswith("x: doom_loop(3, canonical) alarms in 1 of 2 runs; it failed")
    assert scorecard(runs, rules, by=["size", "agent"])["n_runs"].tolist() == [1] * 6
    assert scorecard(runs[1:], rules, by="size")["size"].tolist() == [1, 1, 2, 2]


def test_runs_that_share_tasks_make_wider_intervals() -> None:
    alone, shared = [], []
    for task in range(12):
        run = run_of("a a a a" if task % 3 else "a b c", success=task % 4 == 0)
        for copy in range(5):
            alone.append(replace(run, run_id=f"{task}/{copy}", task=f"{task}/{copy}"))
            shared.append(replace(run, run_id=f"{task}/{copy}", task=f"{task}"))
    one, many = scorecard(alone, doom_loop(3)), scorecard(shared, doom_loop(3))
    narrow, wide = only(one), only(many)
    for name in ("precision", "recall", "false_alarm_rate", "saved_steps"):
        assert narrow[name] == wide[name]
        assert wide[f"{name}_low"] < narrow[f"{name}_low"] < narrow[f"{name}_high"] < wide[f"{name}_high"]
    assert "Intervals resample 12 tasks, because runs of a task are not independent." in many.notes
    assert not any("resample 12" in note for note in one.notes)
    assert "All runs are of one task" in " ".join(scorecard(shared[:5], doom_loop(3)).notes)
    assert "With so few tasks the intervals are rough." in scorecard(shared[:20], doom_loop(3)).notes


def test_saved_steps_have_an_interval_around_them() -> None:
    runs = numbered(*(run_of("a " * (3 + i % 4), success=bool(i % 3)) for i in range(30)))
    row = only(scorecard(runs, doom_loop(3)))
    assert row["saved_steps_low"] < row["saved_steps"] < row["saved_steps_high"]
    wider = only(scorecard(runs, doom_loop(3), confidence=0.99))
    assert wider["saved_steps_high"] > row["saved_steps_high"]
    assert wider["precision_high"] > row["precision_high"]
    assert row == only(scorecard(runs, doom_loop(3)))


def test_clean_threshold_interval_stays_within_the_record() -> None:
    runs = numbered(*(run_of("a " * n, success=True) for n in (1, 1, 1, 2, 2, 3, 7)), run_of("a a", success=False))
    row = only(card := scorecard(runs, doom_loop(3)))
    assert (row["clean_threshold"], row["clean_threshold_high"]) == (8, 8)
    assert 2 <= row["clean_threshold_low"] < 8
    assert any("cannot exceed them" in note for note in card.notes)
    # Wilks: 1 - 0.05 ** (1 / 7)
    assert "in the 7 runs that did not fail; with 95% confidence at most 35% of such runs" in card.sentences[0]


# --- In words ---------------------------------------------------------------------------------------------------------


def test_the_sentences_say_what_a_rule_catches_at_which_cost() -> None:
    loops = [run_of("a a a a b", success=False)] * 9
    work = [run_of("a a a", success=True)] * 3
    rest = [run_of("a b", success=False)] * 20 + [run_of("a b", success=True)] * 18
    card = scorecard(numbered(*loops, *work, *rest), doom_loop(3))
    assert card.sentences[0].startswith(
        "doom_loop(3, canonical) alarms in 12 of 50 runs; 9 of them failed (precision 9 of 12, 95% interval 43% to "
        "94.5%); it would have saved 30 steps and stopped at most 3 of 21 successes. It finds 9 of 29 runs that failed "
        "(recall 9 of 29, 95% interval 15% to 51%) and alarms in 3 of 21 others (95% interval 3.0% to 36%). The data "
        "do not show that its alarms are right more often than random alarms, of which 58% would be in runs that "
        "failed."
    )
    assert card.notes[0] == "A run is positive if it failed, by its label: 29 of 50 runs."
    axes = plot_scorecard(card)
    assert "9 of 12 alarms" in " ".join(axes.get_title(loc="left").split())


def test_notes_count_censored_runs_and_detector_stops() -> None:
    runs = numbered(
        run_of("a a a", success=False, stop=Stop("doom_loop", 3)),
        run_of("a b", success=False, stop=Stop("step_cap", 2)),
        run_of("a b", success=True),
    )
    notes = scorecard(runs, [doom_loop(3), doom_loop(4)]).notes
    assert any(note.startswith("2 of 3 runs are censored (doom_loop 1, step_cap 1)") for note in notes)
    assert any(note.startswith("1 run had been stopped by a detector when recorded (doom_loop 1)") for note in notes)
    assert any("the best of 2 looks better here" in note for note in notes)
    assert not any("detector" in note or "censored" in note for note in scorecard(runs[2:], doom_loop(3)).notes)


def test_alarms_in_early_turns_are_told() -> None:
    run = run_of("a a b | c", success=True)
    card = scorecard([run], doom_loop(2))
    assert any(note.startswith("1 alarm in a turn that others follow") for note in card.notes)
    row = only(card)
    assert (row["saved_steps"], row["successes_lost_lower"], row["successes_lost_upper"]) == (1, 0, 1)
    whole = only(scorecard([run], doom_loop(2), scope="run"))
    assert (whole["saved_steps"], whole["successes_lost_lower"], whole["successes_lost_upper"]) == (3, 1, 1)


def test_many_rows_do_not_make_many_sentences() -> None:
    card = scorecard([run_of("a b", success=True)], [max_steps(n) for n in range(1, 21)])
    assert len(card.sentences) == 13
    assert card.sentences[-1] == "8 further rows in the table."


# --- What is refused --------------------------------------------------------------------------------------------------

RUN = run_of("a b", success=True)


@pytest.mark.parametrize(
    ("rules", "options", "message"),
    [
        ([], {}, "expected stop rules"),
        (None, {}, "expected stop rules"),
        ([3], {}, "3 is not a stop rule"),
        ("doom_loop", {}, "'doom_loop' is not a stop rule"),
        (doom_loop(3), {"by": "nonsense"}, "by='nonsense': there is no such column"),
        (doom_loop(3), {"by": "alarms"}, "by='alarms': the result has a column of this name"),
        (doom_loop(3), {"by": "n_steps"}, "known only after a run"),
        (doom_loop(3), {"positive": "nonsense"}, "positive: no run has the setting 'nonsense'"),
        (doom_loop(3), {"positive": {"ra b": "yep"}}, "'yep'; accepted: True, False"),
        (doom_loop(3), {"positive": lambda run: run.n_steps}, "is 3; accepted: True, False"),
        (doom_loop(3), {"positive": {"other": True}}, "labels for a run_id that no run has: 'other'"),
        (doom_loop(3), {"positive": 3}, "positive: labels are a mapping"),
        (doom_loop(3), {"scope": "session"}, "scope='session'"),
        (doom_loop(3), {"confidence": 1.0}, "confidence=1.0"),
    ],
)
def test_what_is_not_accepted_is_said(rules: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        scorecard([RUN], rules, **options)
    assert message in str(caught.value)


def test_something_else_than_a_run_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="expected a Run"):
        scorecard(["run"], doom_loop(3))  # type: ignore[list-item]


# --- Real logs --------------------------------------------------------------------------------------------------------

DATA = ROOT.parent / "shared" / "data" / "tau-bench" / "gpt-4o-airline.trial0.json"


@pytest.mark.skipif(not DATA.exists(), reason="the tau-bench sample (shared/data) is not beside this checkout")
def test_real_runs_are_scored_as_their_counterfactuals_say() -> None:
    runs = bl.load_runs(DATA)
    rules: list[StopRule] = [doom_loop(2), doom_loop(2, "tool"), error_streak(1), tool_budget(8), max_steps(20)]
    card = scorecard(runs, rules, scope="run").frame.set_index("rule")
    table = bl.counterfactual(runs, rules=rules, scope="run")
    for rule in rules:
        rows, row = table[table["rule"] == str(rule)], card.loc[str(rule)]
        alarms = rows[rows["stop_reason"].notna() & ~rows["outcome"].isin(["unchanged", "unknown", "censored"])]
        assert (row["n_runs"], row["n_positive"], row["successes"]) == (50, 29, 21)
        assert row["alarms"] == len(alarms) > 0
        assert row["true_alarms"] == (~alarms["success"]).sum()
        assert row["saved_steps"] == alarms["saved_steps"].sum()
        assert row["saved_tool_calls"] == alarms["saved_tool_calls"].sum()
        assert row["successes_lost_upper"] == alarms["success"].sum()
        assert row["successes_lost_lower"] == (alarms["success"] & (alarms["kept_upper"] == 0)).sum()
        assert row["saved_tokens"] is pd.NA
    # The reference figures: 8 calls keep 17 to 19 of 21 successes and save 89 steps; 20 steps keep all and save 36.
    budget, cap = card.loc["tool_budget(8)"], card.loc["max_steps(20)"]
    assert (budget["successes_lost_lower"], budget["successes_lost_upper"], budget["saved_steps"]) == (2, 4, 89)
    assert (cap["successes_lost_upper"], cap["saved_steps"], cap["clean_threshold"]) == (0, 36, 19)


# --- From tables ------------------------------------------------------------------------------------------------------


def without_work(found: Finding) -> tuple[list[str], pd.DataFrame]:
    """What a finding says, but for what a table cannot tell: whether alarms converged."""
    sentences = [re.sub(r" \d+ alarms? (was|were) work and not a loop.*? as false\.", "", s) for s in found.sentences]
    notes = [note for note in found.notes if not note.startswith("Whether an alarm converged is not known")]
    return sentences + notes, found.frame.drop(columns="converged")


@MANY
@given(st.data())
def test_a_table_of_the_steps_is_scored_as_the_runs_are(data: Any) -> None:
    teams = st.sampled_from(["red", "blue", None])
    runs = [
        replace(
            data.draw(sessions(i)),
            run_id=f"r{i}",
            task=data.draw(st.sampled_from(["", "one", "two"])),
            agent=data.draw(st.sampled_from(["", "scout"])),
            settings={
                "max_steps": data.draw(st.sampled_from([5, 10, None])),
                "team": data.draw(teams),
                "ok": i % 2 == 0,
            },
        )
        for i in range(data.draw(st.integers(1, 6)))
    ]
    labels = {run.run_id: data.draw(st.sampled_from([True, False, None])) for run in runs}
    pairs = [pair for run in runs for s in run.steps for pair in zip(s.response.tool_calls, s.results, strict=True)]
    called = sorted({call.name for call, result in pairs if result is not None})  # a table holds these alone
    by_tool = [{called[0]: None}, {called[-1]: "tool", called[0]: None}] if called else []
    identity = data.draw(st.sampled_from(["canonical", "tool", *by_tool]))
    asked: dict[str, Any] = {
        "rules": [doom_loop(2, identity), error_streak(1) | max_steps(4), max_tokens(5), tool_budget(2)],
        "by": data.draw(st.sampled_from([None, "max_steps", "team", ["agent", "task"], "run_id"])),
        "positive": data.draw(st.sampled_from([None, "ok", labels])),
        "scope": data.draw(st.sampled_from(["turn", "run"])),
    }
    of_runs, of_table = without_work(scorecard(runs, **asked)), without_work(scorecard(recording_df(runs), **asked))
    assert of_table[0] == of_runs[0]
    pd.testing.assert_frame_equal(of_table[1], of_runs[1])


@pytest.mark.parametrize("name", ["steps.parquet", "steps.jsonl", "runs.parquet", "runs.db"])
def test_a_file_of_the_steps_is_scored_as_the_runs_are(tmp_path: Path, name: str) -> None:
    words = ["a a a b", "a b c", "a a a a a", "b b b b", "c"]
    runs = numbered(*(run_of(word, i % 2 == 0, settings={"max_steps": [5, 9, None][i % 3]}) for i, word in
                      enumerate(words)))  # fmt: skip
    path = tmp_path / name
    if name == "runs.parquet":
        bl.save_runs(runs, path)
    elif name == "runs.db":
        with Store(path) as store:
            for run in runs:
                store.add(run)
    elif name == "steps.parquet":
        recording_df(runs).to_parquet(path)
    else:
        recording_df(runs).to_json(path, orient="records", lines=True)
    rules = [doom_loop(3), doom_loop(3, {"a": None})]
    found, expected = (scorecard(source, rules, by="max_steps") for source in (path, runs))
    assert without_work(found)[0] == without_work(expected)[0]
    pd.testing.assert_frame_equal(without_work(found)[1], without_work(expected)[1])


def test_what_a_table_cannot_tell_is_refused_or_not_known() -> None:
    runs = numbered(run_of("a:1 a:1 a:2", success=False), run_of("a b", success=True))
    table = recording_df(runs)
    found = scorecard(table, doom_loop(2))
    assert found["converged"].tolist() == [pd.NA]
    assert "Whether an alarm converged is not known, because a table with a row per step has no results." in found.notes
    for asked, message in (
        ({"converged": True}, "does not have: pass runs"),
        ({"positive": lambda run: run.n_steps > 2}, "positive: a callable takes runs.*labels by run id"),
        ({"positive": "hurt"}, "positive='hurt': there is no such column"),
        ({"positive": {"nobody": True}}, "positive: labels for a run_id that no run has: 'nobody'"),
        ({"by": "team"}, "by='team': there is no such column"),
        ({"by": "n_steps"}, "by='n_steps': there is no such column"),
    ):
        with pytest.raises(SettingError, match=message):
            scorecard(table, doom_loop(2), **asked)
    with pytest.raises(SettingError, match="compared by canonical, not by call.result"):
        scorecard(table, doom_loop(2, {"a": "call+result"}))
    with pytest.raises(SettingError, match="no call of the tool 'ab' is on record; did you mean 'b'"):
        scorecard(table, doom_loop(2, {"ab": None}))
    with pytest.raises(SettingError, match="cycle.*cannot be computed from a frame"):
        scorecard(table, bl.cycle(2, 2))
    cut = scorecard(table.drop(columns="stop_reason").assign(censored=True), max_steps(9))
    assert any(note.startswith("2 of 2 runs are censored: a rule may have fired") for note in cut.notes)


def test_scorecard_shows_clean_threshold_as_probability() -> None:
    runs = labelled_runs(100)
    rule = bl.learn_stop(runs, confidence=None, folds=0)
    card = scorecard(runs, [rule])
    shown = f"A threshold of {only(card)['clean_threshold'] / 1e7:.4g}% is the least without a false alarm in the "
    assert any(shown in sentence for sentence in card.sentences)


def test_few_runs_are_counted_in_words() -> None:
    failed = replace(bl.run_sync(None, "x", model=bl.ScriptedModel(["Done."])), success=False)
    (two,) = scorecard([failed, replace(failed, run_id="2")], doom_loop(3)).sentences[:1]
    assert "alarms in none of 2 runs" in two
    assert "it misses both runs that failed" in two
    (one,) = scorecard([failed], doom_loop(3)).sentences[:1]
    assert "does not alarm in the one run, so" in one
    assert "it misses the one run that failed" in one
