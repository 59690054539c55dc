"""Recommendations: what they keep, what they rest on, and what they say where the data do not carry one."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta  # type: ignore[import-untyped] # scipy has no types

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import Response, Step, Stop, ToolCall, ToolResult, Usage
from boolab.errors import SettingError
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.stats.recommend.candidates import FOLDS, Candidates, sums_of
from boolab.stats.recommend.fixed_sequence import JOINT_AXES
from boolab.stats.recommend.question import Question
from boolab.stats.recommend.recommend import recommend
from boolab.stats.recommend.units import units_of_ledger
from boolab.whatif.evaluate import counterfactual
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.step_table import LABEL, PROXY
from tests.support.cases import first
from tests.support.samples import atlas


def run_of(number: int, calls: str, *, success: bool | None = True, task: str | None = None, cut: bool = False) -> Run:
    """A run with one call per letter, a step each, and then a text, unless it was cut."""
    usage = Usage(10, 1, cost=1000)
    made = [
        Step(i, 1, None, None, None, Response("", (ToolCall("c", letter, "{}"),), None, usage), (ToolResult("c", ""),))
        for i, letter in enumerate(calls, 1)
    ]
    if not cut:
        made.append(Step(len(calls) + 1, 1, None, None, None, Response("Done.", (), "stop", usage)))
    stop = Stop("step_cap" if cut else "finished", len(calls))
    return Run(run_id=f"r{number}", agent="a", model="m", policy="", task=f"t{number}" if task is None else task,
               stop=stop, steps=tuple(made), success=success)  # fmt: skip


def plain(n: int, calls: str = "abcd", **options: Any) -> list[Run]:
    return [run_of(i, calls, **options) for i in range(n)]


LOOPS = [run_of(1000 + i, "abc" + "d" * 20, success=False) for i in range(5)]


def test_a_cap_that_loses_nothing_needs_59_successes() -> None:
    assert recommend(plain(58) + LOOPS).action == "not_yet"
    found = recommend(plain(59) + LOOPS)
    assert (found.action, found["reason"][0]) == ("set", "good")
    assert found.setting == {"max_steps": 5, "tool_budget": None, "doom_loop": None}
    assert (found["kept_share"][0], round(found["kept_bound"][0], 4)) == (1, 0.9505)
    assert recommend(plain(29) + LOOPS, keep=0.9).action == "set"
    assert recommend(plain(28) + LOOPS, keep=0.9).action == "not_yet"
    assert recommend(plain(299) + LOOPS, keep=0.99).action == "set"


def test_further_limits_are_tested_from_94_successes_on() -> None:
    few, enough = recommend(plain(93) + LOOPS), recommend(plain(94) + LOOPS)
    assert few.paths["path"].tolist() == ["max_steps", "doom_loop", "tool_budget", "joint"]
    assert few.paths["error"].tolist() == pytest.approx([0.05, 0, 0, 0])
    assert enough.paths["error"].tolist() == pytest.approx([0.05 / 2, *[0.05 / 6] * 3])
    assert few.paths["accepted"].tolist() == [True, False, False, False]
    assert enough.paths["accepted"].all()
    assert "To test doom-loop thresholds and tool budgets too takes 1 more success." in few.sentences[-1]
    assert not any("more than step caps" in sentence for sentence in enough.sentences)


def test_the_answer_is_the_accepted_setting_that_gains_most() -> None:
    """Failures that repeat from their fourth step on, and successes as long as they are: only the loop tells them."""
    runs = [*plain(120, "abcdefghijklmnopqrst"), *[run_of(900 + i, "abc" + "d" * 17, success=False) for i in range(60)]]
    found = recommend(runs, objective="steps")
    assert found.setting == {"max_steps": None, "doom_loop": 2, "tool_budget": None}
    best = found.paths.set_index("path")
    assert best["recommended"].tolist() == [False, True, False, False]
    assert best["doom_loop"]["doom_loop"] == 2
    assert best["saved"].max() == best["saved"]["doom_loop"] == found["saved"][0]
    assert best["lost"]["doom_loop"] == 0


def test_limits_that_add_nothing_to_others_are_left_off() -> None:
    found = recommend([*plain(120), *LOOPS], objective="steps", grid={"max_steps": [5, 9], "tool_budget": [500, 900]})
    assert found.setting == {"max_steps": 5, "tool_budget": None}
    assert found.paths.set_index("path").loc["joint", "tool_budget"] is pd.NA


def test_nothing_is_set_if_every_tried_value_loses_too_many() -> None:
    runs = [*plain(79), run_of(79, "a" * 12), *LOOPS]
    found = recommend(runs, grid={"max_steps": [5, 10]})
    row = found.frame.iloc[0]
    assert (row["action"], row["reason"]) == ("not_yet", "loses_too_many")
    assert found.setting == {"max_steps": None}
    assert found.verdict[0] == (
        "Set no limit yet: the loosest value that was tried, a step cap of 10, loses 1 of 80 successes, too many to "
        "show that 95% are kept, with 95% confidence. Try looser values, or record "
        f"{row['more_needed']} more successes, of which the limit stops none."
    )
    more = [*plain(79 + int(row["more_needed"])), run_of(999, "a" * 12), *LOOPS]
    assert recommend(more, grid={"max_steps": [5, 10]}).action == "set"
    assert recommend(more[1:], grid={"max_steps": [5, 10]}).action == "not_yet"


def test_off_is_a_value_like_any_other_if_it_is_asked_for() -> None:
    runs = [*plain(79), run_of(79, "a" * 12), *LOOPS]
    found = recommend(runs, grid={"max_steps": [5, 10, None]})
    assert found["reason"][0] == "saves_nothing"
    assert found.setting == {"max_steps": None}
    assert recommend(runs, grid={"max_steps": [None]})["reason"][0] == "saves_nothing"


def test_dependence_says_for_which_tasks_the_result_holds() -> None:
    runs = [run_of(i, "abcdefghij"[: 1 + i % 9], task=f"t{i // 2}") for i in range(140)]
    found = {how: recommend(runs, keep=0.9, dependence=how) for how in ("tasks", "same_tasks")}
    texts = {how: " ".join(str(one).split()) for how, one in found.items()}
    assert "the promise counts tasks" in texts["tasks"]
    assert "new runs of these same tasks" in texts["same_tasks"]
    assert found["tasks"]["keep_possible"][0] < found["same_tasks"]["keep_possible"][0]
    with pytest.raises(SettingError, match="dependence='worst': expected one of 'tasks', 'same_tasks'"):
        recommend(runs, dependence="worst")  # type: ignore[arg-type]


def test_shares_in_sentences_have_one_decimal_at_most() -> None:
    for runs in (plain(400) + LOOPS, plain(20), plain(400), [*plain(79), run_of(79, "a" * 12), *LOOPS]):
        for grid in (None, {"max_steps": [5, 10]}):
            text = str(recommend(runs, 187 / 190, 0.9876543, grid=grid))
            assert "98.4" in text
            assert not re.search(r"\d\.\d\d+%", text)


def test_what_it_keeps_and_saves_is_what_the_counterfactual_says() -> None:
    runs = [*plain(150, "abcd"), *[run_of(900 + i, "abcdefghij") for i in range(10)], *LOOPS]
    found = recommend(runs, objective="steps")
    row = found.frame.iloc[0]
    assert found.action == "set"
    grid = {name: [value] for name, value in found.setting.items()}
    sums = counterfactual(runs, grid=grid, aggregate=True).iloc[0]
    for name in ("kept_lower", "kept_upper", "successes"):
        assert row[name] == sums[name]
    assert (row["spent"], row["saved"]) == (sums["steps"], sums["saved_steps"])
    assert row["saved_share"] == pytest.approx(sums["saved_steps"] / (sums["steps"] + sums["saved_steps"]))
    assert row["heldout_successes"] == 160
    assert 0 <= row["heldout_kept"] <= 160


def test_held_out_choice_equals_the_choice_on_the_other_folds() -> None:
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 30, 150)
    runs = [
        run_of(i, "abcdefghij" * (n // 10) + "abcdefghij"[: n % 10], task=f"t{i // 2}", success=bool(i % 4))
        for i, n in enumerate(lengths)
    ]
    units = units_of_ledger(ledger_of(runs, [RepeatStreak()]), None)
    question = Question(0.9, 0.95, "steps", JOINT_AXES, None, None, 0)
    tasks = units.runs["task"].astype(str)
    total = {"kept_lower": 0, "steps": 0, "saved_steps": 0}
    codes = pd.factorize(tasks)[0]
    fold = (np.random.default_rng(0).permutation(codes.max() + 1) % FOLDS)[codes]
    whole = Candidates(units, tasks, question)
    for number in range(FOLDS):
        rest = Candidates(units.take(fold != number), tasks[fold != number], question).choose()
        cells = whole.without_fold(number)
        assert whole.choose(cells).setting == whole.setting_on(cells) == rest.setting
        sums = sums_of(units.take(fold == number), rest.setting, question)
        total = {name: total[name] + sums[name] for name in total}
    found = whole.held_out()
    assert found is not None
    assert {name: found[name] for name in total} == total


def test_runs_cut_at_one_cap_are_noted_as_no_evidence_for_it() -> None:
    """A label beats the way a run ended: what a limit of the recording cut counts as it was labelled."""
    cut = [run_of(500 + i, "abcdefgh", cut=True) for i in range(20)]
    found = recommend(plain(30) + cut, keep=0.8)
    notes = " ".join(found.notes)
    assert "20 runs (20 of them labelled a success) are censored" in notes
    assert "20 of these stopped at 8 steps, the most on record, as under a step cap of 8." in notes
    assert found["successes"][0] == 50
    assert not any("as under a step cap" in note for note in recommend(plain(30) + cut[:2]).notes)
    assert not any("as under a step cap" in note for note in recommend(plain(30) + cut + LOOPS).notes)


@pytest.mark.parametrize(
    ("runs", "grid", "said"),
    [
        (plain(9) + LOOPS, None, "a step cap of 5, a doom-loop threshold of 2 and a tool budget of 5, each by itself,"),
        (
            plain(9) + LOOPS,
            {"max_steps": [3, 9, 12]},
            "On this record a step cap of 9 would have lost no success and stopped",
        ),
        (plain(9) + LOOPS, {"max_steps": [3]}, None),
        (plain(9), None, None),
        (plain(9) + [run_of(50 + i, "abcd", cut=True) for i in range(9)], {"max_steps": [2, 4, 5]}, None),
    ],
)
def test_advice_names_only_requested_values_that_stop_something(
    runs: list[Run], grid: dict[str, Any] | None, said: str | None
) -> None:
    text = " ".join(recommend(runs, grid=grid).verdict)
    assert ("would have lost no success" in text) == (said is not None)
    assert said is None or said in text


def test_a_limit_that_saves_nothing_is_left_off() -> None:
    found = recommend(plain(200))
    assert found.setting == {"max_steps": None, "tool_budget": None, "doom_loop": None}
    assert (found.action, found["reason"][0], found["candidate"][0]) == ("leave", "saves_nothing", pd.NA)
    (text,) = found.verdict
    assert text == (
        "Set no limit: of those that are shown to keep 95% of the successes, with 95% confidence, none would have "
        "saved any cost in 200 runs."
    )


def test_of_values_that_save_as_much_the_loosest_is_taken() -> None:
    found = recommend(
        [*plain(200), run_of(900, "abcdefghij", success=False)], grid={"max_steps": [5, 6, 7]}, objective="steps"
    )
    assert found.setting["max_steps"] == 5
    alike = [*plain(200), run_of(900, "a" * 10, success=False, cut=True)]
    assert recommend(alike, grid={"doom_loop": [2, 3, 11, 12]}).frame["candidate"][0] == "a doom-loop threshold of 2"


def test_ten_runs_of_one_task_are_not_ten_successes() -> None:
    copies = [run_of(10 * t + i, "abcd", task=f"task {t}") for t in range(30) for i in range(10)]
    found = recommend(copies)
    row = found.frame.iloc[0]
    assert (row["action"], row["successes"], row["tasks"], row["more_needed"]) == ("not_yet", 300, 30, 37)
    assert "300 successes in 30 tasks are too few" in found.verdict[0]
    assert "It takes 37 more tasks with a success (about 370 runs at the rate on record), if" in found.verdict[0]
    assert "no task to come has more successes than the largest on record, 10." in " ".join(found.notes)
    apart = recommend([replace(run, task="") for run in copies])
    assert apart["reason"][0] == "saves_nothing"


def test_labels_win_and_the_proxy_is_named_everywhere() -> None:
    unlabelled = [*plain(100, success=None), run_of(500, "abcdefgh", success=None, cut=True)]
    found = recommend(unlabelled)
    assert set(found["success_by"]) == {"run ended by itself"}
    assert "proxy" in str(found)
    assert "proxy" in found._repr_html_()
    assert found["successes"][0] == 100
    others = [replace(run, run_id=f"other {run.run_id}") for run in plain(3)]
    labelled = recommend([*unlabelled, *others])
    assert set(labelled["success_by"]) == {"label"}
    assert labelled["successes"][0] == 3
    assert "proxy" not in str(labelled)
    assert recommend([*unlabelled, *others], success="ended")["successes"][0] == 103
    with pytest.raises(SettingError, match="no run has a label"):
        recommend(unlabelled, success="label")


def test_by_the_proxy_each_turn_of_a_session_is_a_unit() -> None:
    text = Response("Done.", (), "stop")
    call = Response("", (ToolCall("c", "x", "{}"),), None)
    done = (ToolResult("c", ""),)
    steps = [Step(1, 1, None, None, None, call, done), Step(2, 1, None, None, None, text),
             Step(3, 2, None, None, None, call, done), Step(4, 2, None, None, None, call, done),
             Step(5, 3, None, None, None, text)]  # fmt: skip
    run = Run(run_id="s", agent="", model="", policy="", task="", stop=Stop("finished", 0), steps=tuple(steps))
    row = recommend(run).frame.iloc[0]
    assert (row["n_units"], row["successes"]) == (3, 2)
    row = recommend(run, scope="run").frame.iloc[0]
    assert (row["n_units"], row["successes"]) == (1, 1)


def test_a_labelled_success_that_was_cut_is_a_success() -> None:
    found = recommend(plain(100) + [run_of(300 + i, "abcdefgh", cut=True) for i in range(40)])
    assert found["successes"][0] == 140
    assert "40 of them labelled a success" in str(found)


def test_recommend_saves_steps_and_says_so_if_costs_are_unknown() -> None:
    bare = [replace(run, steps=tuple(s._replace(response=s.response._replace(usage=Usage())) for s in run.steps))
            for run in plain(100) + LOOPS]  # fmt: skip
    found = recommend(bare)
    assert set(found["objective"]) == {"steps"}
    assert "The cost of the steps is not known" in str(found)


def test_recommend_counts_steps_where_one_group_has_no_costs() -> None:
    bare = [replace(run, agent="b", run_id=f"b{run.run_id}",
                    steps=tuple(s._replace(response=s.response._replace(usage=Usage())) for s in run.steps))
            for run in plain(100) + LOOPS]  # fmt: skip
    found = recommend(plain(100) + LOOPS + bare, by="agent")
    assert set(found["objective"]) == {"steps"}
    assert found["saved_share"].gt(0).all()
    assert "The cost of some steps of a group is not known: savings are counted in steps." in found.notes


def test_the_costs_of_a_few_runs_are_not_taken_for_those_of_all() -> None:
    runs = plain(100) + LOOPS
    bare = [replace(run, steps=tuple(s._replace(response=s.response._replace(usage=Usage())) for s in run.steps))
            for run in runs]  # fmt: skip
    found = recommend(runs[:20] + bare[20:])
    assert set(found["objective"]) == {"steps"}
    known = sum(len(run.steps) for run in runs[:20])
    assert f"The cost of only {known} of {sum(len(run.steps) for run in runs):,} steps is known" in str(found)
    assert set(recommend(runs[:-20] + bare[-20:])["objective"]) == {"cost"}


def test_groups_get_settings_of_their_own() -> None:
    runs = plain(100) + LOOPS + [replace(run, agent="b", run_id=f"b{run.run_id}") for run in plain(20)]
    found = recommend(runs, by="agent")
    assert found["agent"].tolist() == ["a", "b"]
    assert found["action"].tolist() == ["set", "not_yet"]
    assert found.paths.groupby("agent", sort=False)["accepted"].any().to_dict() == {"a": True, "b": False}
    with pytest.raises(SettingError, match="2 groups"):
        found.setting  # noqa: B018 - on purpose


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"keep": 1.5}, "keep=1.5"),
        ({"confidence": 0}, "confidence=0"),
        ({"objective": "money"}, "objective='money': expected one of cost"),
        ({"success": "yes"}, "success='yes'"),
        ({"by": "team"}, "by='team'"),
        ({"dependence": "none"}, "dependence='none'"),
        ({"scope": "day"}, "scope='day'"),
        ({"grid": {"caps": [1]}}, "there is no axis 'caps'"),
    ],
)
def test_what_is_not_accepted_is_said(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as error:
        recommend(plain(3), **asked)
    assert message in str(error.value)


def test_without_runs_or_successes_it_says_what_is_missing() -> None:
    for runs in ([], plain(5, success=False)):
        found = recommend(runs)
        assert found.action == "not_yet"
        assert len(found.verdict) == 1
    assert "it takes 59 successes without a loss" in found.verdict[0]


@pytest.mark.parametrize("name", first(2, ["plain", "atlas/intercode-python", "atlas/tau2-retail"]))
def test_frames_and_parquet_give_the_same_decision(name: str, tmp_path: Path) -> None:
    """All but how the newest runs compare: the start of runs is in no frame."""
    runs = plain(100) + LOOPS if name == "plain" else atlas(name.removeprefix("atlas/"))
    frame = bl.recording_df(runs)
    frame.to_parquet(tmp_path / "runs.parquet")
    dated = ["newest_kept", "newest_successes", "older_setting_kept"]
    by_runs = recommend(runs, keep=0.9)
    for source in (frame, tmp_path / "runs.parquet"):
        found = recommend(source, keep=0.9)
        assert (found.keys, found.verdict) == (by_runs.keys, by_runs.verdict)
        pd.testing.assert_frame_equal(found.frame.drop(columns=dated), by_runs.frame.drop(columns=dated))
        pd.testing.assert_frame_equal(found.paths, by_runs.paths)


def test_markup_in_names_stays_text() -> None:
    runs = [replace(run, agent="<b>x</b>") for run in plain(5)]
    assert "<b>" not in recommend(runs, by="agent")._repr_html_()


def test_one_success_is_in_the_singular() -> None:
    runs = [run for run in atlas("tau-airline") if run.success][:1]
    assert "Set no limit yet: 1 success is too few" in bl.recommend(runs, keep=0.9).verdict[0]


def test_labels_or_the_proxy_are_decided_group_by_group() -> None:
    labelled, runs = plain(3), plain(3, success=None)
    bare = [replace(run, agent=name, run_id=f"{name}{n}") for name in "bc" for n, run in enumerate(runs)]
    some = [replace(run, agent="d", run_id=f"d{n}", success=True if n else None) for n, run in enumerate(runs)]
    found = recommend([*bare[:3], *labelled, *bare[3:], *some], by="agent")
    assert found["agent"].tolist() == ["a", "b", "c", "d"]
    assert found["success_by"].tolist() == [LABEL, PROXY, PROXY, LABEL]
    assert found["successes"].tolist() == [3, 3, 3, 2]
    for agent, own in (("b", bare[:3]), ("a", labelled), ("c", bare[3:]), ("d", some)):
        alone = recommend(own, by="agent").frame.iloc[0]
        assert found.frame[found["agent"] == agent].iloc[0].equals(alone)
    assert any(note.endswith("A success is a run with a success label: 5 of 5 labelled runs.") for note in found.notes)
    assert any(note.startswith("a, d: 1 run has no label: the promise holds whatever") for note in found.notes)
    assert any(note.startswith("b, c: No run has a success label: by a proxy, a run that") for note in found.notes)
    assert recommend([*labelled, *bare], by=[])["successes"].tolist() == [3]
    assert all(group.notna().all() for group in (found["success_by"], found["successes"]))


def test_a_label_of_a_root_is_that_of_the_groups_of_its_family() -> None:
    lead, scout = run_of(1, "ab"), replace(run_of(2, "ab", success=None), agent="scout", parent_run_id="r1")
    other = replace(run_of(3, "ab", success=None), agent="other")
    found = recommend([scout, other, lead]).frame.set_index("agent")
    assert found["success_by"].to_dict() == {"scout": LABEL, "other": PROXY, "a": LABEL}
    assert found["successes"].to_dict() == {"scout": 1, "other": 1, "a": 1}
    assert recommend([replace(lead, success=None), scout])["success_by"].tolist() == [PROXY, PROXY]


def partly_labelled(n_known: int, n_long_unknown: int) -> list[bl.Run]:
    """Short successes with a label, and runs without one, some of them long."""
    known = [replace(run_of(n, "ab"), run_id=f"k{n}") for n in range(n_known)]
    short = [replace(run_of(n, "ab", success=None), run_id=f"s{n}") for n in range(40)]
    long = [replace(run_of(n, "abcdefgh", success=None), run_id=f"l{n}") for n in range(n_long_unknown)]
    failed = [replace(run_of(n, "abcdefgh", success=False), run_id=f"f{n}") for n in range(20)]
    return [replace(run, task=run.run_id) for run in [*known, *short, *long, *failed]]


@pytest.mark.parametrize(
    ("n_known", "n_long_unknown", "action"), [(59, 0, "set"), (58, 0, "not_yet"), (59, 1, "not_yet"), (93, 1, "set")]
)
def test_unlabelled_runs_that_a_cap_stops_count_as_lost(n_known: int, n_long_unknown: int, action: str) -> None:
    found = bl.recommend(partly_labelled(n_known, n_long_unknown), grid={"max_steps": [5]}, objective="steps")
    assert (found.action, found.evidence["successes"]) == (action, n_known)
    note = next(note for note in found.notes if "no label" in note)
    assert f"{40 + n_long_unknown} runs have no label: the promise holds whatever their outcomes are" in note


def test_bound_of_partly_labelled_runs_allows_for_the_unknown() -> None:
    evidence = bl.recommend(partly_labelled(93, 1), grid={"max_steps": [5]}, objective="steps").evidence
    exact = [float(beta.ppf(0.05, 93, 1 + lost)) for lost in (0, 1)]
    assert evidence["kept_bound"] == pytest.approx(exact[1], abs=2e-6)
    assert (evidence["stopped_unknown"], evidence["kept_share"]) == (1, 1.0)


@pytest.mark.parametrize("seed", first(3, range(6)))
def test_decision_with_bounds_promises_what_all_labels_promise(seed: int) -> None:
    """For each completion of the unknown labels, the accepted values of each path are accepted with all of them too."""
    rng = np.random.default_rng(seed)
    lengths = rng.choice([2, 3, 4, 8, 12], 150, p=[0.4, 0.3, 0.2, 0.05, 0.05])
    success = (rng.random(150) < np.where(lengths > 5, 0.02, 0.9)).tolist()
    runs = [replace(run_of(n, "abcdefghijkl"[:length], success=s), run_id=f"r{n}", task=f"t{n // (1 + seed % 3)}")
            for n, (length, s) in enumerate(zip(lengths.tolist(), success, strict=True))]  # fmt: skip
    hidden = rng.random(150) < rng.choice([0.1, 0.3])
    partly = [replace(run, success=None) if hide else run for run, hide in zip(runs, hidden.tolist(), strict=True)]
    options = {"keep": 0.8, "objective": "steps", "by": []}
    paths = bl.recommend(partly, **options).groups[0].choice.paths  # type: ignore[arg-type]
    for share in (0.0, 0.5, 1.0):
        full = [run if run.success is not None else replace(run, success=bool(rng.random() < share)) for run in partly]
        with_all = bl.recommend(full, **options).groups[0].choice.paths  # type: ignore[arg-type]
        for bounded, labelled in zip(paths, with_all, strict=True):
            assert bounded.tests.accepted <= labelled.tests.accepted
            assert bounded.tests.error <= labelled.tests.error


def test_unlabelled_by_proxy_says_so_and_takes_the_whole_group() -> None:
    found = bl.recommend(partly_labelled(59, 3), unlabelled="proxy", grid={"max_steps": [5]}, objective="steps", by=[])
    assert found.evidence["success_by"] == PROXY
    assert any("by a proxy" in note for note in found.notes)
    labelled = [run for run in partly_labelled(59, 3) if run.success is not None]
    assert bl.recommend(labelled, unlabelled="proxy", by=[]).evidence["success_by"] == LABEL
    with pytest.raises(SettingError, match="unlabelled="):
        bl.recommend(labelled, unlabelled="all")  # type: ignore[arg-type]
