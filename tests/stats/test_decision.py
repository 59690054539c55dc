"""Which setting is decided on, against brute force; and the evidence beside it."""

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.errors import SettingError
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.stats.recommend.candidates import Candidates
from boolab.stats.recommend.choice import Choice
from boolab.stats.recommend.decide import choose_tested
from boolab.stats.recommend.decision import Decision
from boolab.stats.recommend.fixed_sequence import JOINT_AXES, paths_of
from boolab.stats.recommend.null_test import null_tests
from boolab.stats.recommend.question import Question
from boolab.stats.recommend.units import clusters_of_ledger, units_of_ledger
from boolab.whatif.from_runs import ledger_of
from tests.stats.test_recommend import LOOPS, plain, run_of
from tests.support.cases import first
from tests.support.samples import atlas


def random_runs(seed: int) -> list[Run]:
    """Runs of tasks, some repeated; failures are longer in some records, and repeat more."""
    rng = np.random.default_rng(seed)
    runs: list[Run] = []
    repeats = 1 + int(rng.integers(0, 3)) * (seed % 2)
    for task in range(int(rng.integers(80, 140))):
        for _ in range(repeats):
            success = bool(rng.random() < 0.7)
            n = int(rng.geometric(0.12 if success or seed % 3 else 0.06))
            streak = int(min(n, rng.geometric(0.6 if success else 0.3)))
            calls = "".join(chr(97 + i % 26) for i in range(n - streak)) + "z" * streak
            label = None if rng.random() < 0.05 else success
            runs.append(run_of(len(runs), calls, success=label, task=f"t{task}"))
    return runs


def choice_of(runs: list[Run], keep: float = 0.9, **how: Any) -> tuple[Candidates, Choice]:
    units = units_of_ledger(ledger_of(runs, [RepeatStreak()]), None)
    question = Question(keep, 0.95, "steps", JOINT_AXES, None, None, 0, **how)
    candidates = Candidates(units, clusters_of_ledger(units), question)
    return candidates, candidates.choose()


def accepted_points(runs: list[Run], choice: Choice) -> list[tuple[int, int]]:
    """What each accepted setting loses and saves, with plain loops over the runs."""
    points = [(0, 0)]
    counted = [(run, _streaks(run)) for run in runs]
    for path in choice.paths:
        name, tests = path.tests.path.name, path.tests
        settings: list[dict[str, int]] = []
        if name == "joint":
            levels = _joint_levels(runs)[: tests.accepted]
            settings = [dict(zip(JOINT_AXES, level, strict=True)) for level in levels]
        else:
            top = max(len(run.steps) for run in runs)
            least = 2 if name == "doom_loop" else 1
            loosest = least + tests.path.size - 1
            settings = [{name: value} for value in range(loosest, loosest - tests.accepted, -1) if value <= 2 * top]
        points += [_point(counted, setting) for setting in settings]
    return points


def _joint_levels(runs: list[Run]) -> list[list[int]]:
    peaks = {name: np.array([_peaks(run)[name] for run in runs]) for name in JOINT_AXES}
    values = {name: np.arange(2 if name == "doom_loop" else 1, int(some.max()) + 2) for name, some in peaks.items()}
    levels: list[list[int]] = paths_of(values, peaks, all_integers=True)[1].tolist()
    return levels


def _streaks(run: Run) -> list[int]:
    """For each call, how many times its tool was called in a row."""
    streaks: list[int] = []
    before = None
    for step in run.steps[:-1]:
        name = step.response.tool_calls[0].name
        streaks.append(streaks[-1] + 1 if name == before else 1)
        before = name
    return streaks


def _peaks(run: Run) -> dict[str, int]:
    streaks = _streaks(run)
    return {"max_steps": len(streaks), "doom_loop": max(streaks, default=0), "tool_budget": len(streaks)}


def _point(counted: list[tuple[Run, list[int]]], setting: dict[str, int]) -> tuple[int, int]:
    """How many successes a setting loses, and how many steps it saves, of runs and the streaks of their calls."""
    most = min(setting.get("max_steps", sys.maxsize), setting.get("tool_budget", sys.maxsize))
    repeats = setting.get("doom_loop", sys.maxsize)
    lost = saved = 0
    for run, streaks in counted:
        for index, streak in enumerate(streaks, 1):
            if index >= most or streak >= repeats:
                lost += run.success is True
                saved += len(run.steps) - index
                break
    return lost, saved


def upper_hull(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """No limit, and the settings that are the best at some price of a success, by trying all prices."""
    slopes = {Fraction(b[1] - a[1], b[0] - a[0]) for a in points for b in points if b[0] > a[0] and b[1] > a[1]}
    ordered = sorted(slopes)
    prices = [Fraction(0), *ordered, (ordered[-1] if ordered else Fraction(1)) * 2]
    prices = sorted({*prices, *((a + b) / 2 for a, b in pairwise(prices))})
    corners = set()
    for price in prices:
        if price in slopes:
            continue  # there two corners are as good
        best = max(saved - price * lost for lost, saved in points)
        corners |= {point for point in points if point[1] - price * point[0] == best}
    least_lost = {saved: min(lost for lost, other in corners if other == saved) for _, saved in corners}
    return sorted({(0, 0), *((lost, saved) for saved, lost in least_lost.items())})


@pytest.mark.parametrize("seed", first(6, range(24)))
@pytest.mark.parametrize("value", [None, 2.0, 40.0])
def test_choice_gains_most_of_the_accepted_settings(seed: int, value: float | None) -> None:
    runs = random_runs(seed)
    _, choice = choice_of(runs, success_value=value)
    if not choice.qualifies:
        assert choice.best is None
        return
    points = accepted_points(runs, choice)
    price = Fraction(choice.spent, choice.successes) if value is None else Fraction(value)
    gains = [saved - price * lost for lost, saved in points]
    if choice.best is None:
        assert max(gains) <= 0
        return
    best = max(gains)
    assert choice.best.saved - price * choice.best.lost == best
    assert choice.best.lost == min(point[0] for point, gain in zip(points, gains, strict=True) if gain == best)
    assert _point([(run, _streaks(run)) for run in runs], choice.best.setting) == (choice.best.lost, choice.best.saved)


@pytest.mark.parametrize("seed", first(6, range(24)))
def test_steps_of_the_frontier_are_those_of_the_upper_hull(seed: int) -> None:
    runs = random_runs(seed)
    _, choice = choice_of(runs)
    if not choice.qualifies:
        pytest.skip("nothing is accepted")
    hull = upper_hull(accepted_points(runs, choice))
    at = 0 if choice.best is None else hull.index((choice.best.lost, choice.best.saved))
    assert (choice.tightest is None) == (len(hull) == 1)
    if choice.tightest is not None:
        assert (choice.tightest.lost, choice.tightest.saved) == hull[-1]
    for step, ends in ((choice.last_step, hull[at - 1 : at + 1] if at else []), (choice.next_step, hull[at : at + 2])):
        if len(ends) < 2:
            assert step is None
            continue
        assert step is not None
        assert [(one.lost, one.saved) for one in (step.looser, step.tighter)] == ends
        assert (step.lost, step.saved) == (ends[1][0] - ends[0][0], ends[1][1] - ends[0][1])


@pytest.mark.slow
def test_frontier_of_intercode_sql_stops_before_its_poor_step() -> None:
    """The example of the even trade: cap 7 beside doom loop 3 saves 1,361 steps more, for 97 successes."""
    found = bl.recommend(atlas("intercode-sql"), by=[])
    row = found.frame.iloc[0]
    assert found.setting == {"max_steps": None, "doom_loop": 2, "tool_budget": None}
    assert (row["successes"], row["kept_lower"], row["saved"]) == (4401, 4355, 26270)
    assert (row["next_lost"], row["next_saved"]) == (97, 1361)
    step = found.groups[0].choice.next_step
    assert step is not None
    assert step.tighter.setting == {"max_steps": 7, "doom_loop": 3}
    assert any("14 steps for each, and a success costs 17 steps" in sentence for sentence in found.sentences)


# --- The best setting fails the test of whom it stops, and another passes ---------------------------------------------


def loops_of_both_outcomes() -> list[Run]:
    """Loops that fail as often as the other runs, and save much; and long runs, which fail."""
    loops = [run_of(2000 + i, "ab" + "z" * 26, success=i >= 5) for i in range(35)]
    long = [run_of(3000 + i, "abcdefghijklmnopqrstuvwxyz" * 2, success=False) for i in range(20)]
    failed = [run_of(4000 + i, "abcd", success=False) for i in range(35)]
    return [*plain(370), *loops, *long, *failed]


def test_a_setting_that_passes_is_found_behind_one_that_fails() -> None:
    asked: dict[str, Any] = {"keep": 0.85, "objective": "steps"}
    found = bl.recommend(loops_of_both_outcomes(), grid={"doom_loop": [3], "tool_budget": [30]}, **asked)
    group = found.groups[0]
    assert (found.action, group.setting_on) == ("set", {"tool_budget": 30})
    assert group.passed_over is not None
    assert group.passed_over.setting == {"doom_loop": 3}
    assert group.passed_over.saved > group.saved
    assert any(
        sentence.startswith("A doom-loop threshold of 3 would gain more, but the runs that it stops are not shown to")
        for sentence in found.sentences
    )
    alone = bl.recommend(loops_of_both_outcomes(), grid={"doom_loop": [3]}, **asked)
    assert (alone.action, alone["reason"][0]) == ("leave", "stops_as_many_successes")
    assert alone.groups[0].passed_over is None


@pytest.mark.parametrize("seed", first(6, range(24)))
def test_of_settings_that_pass_the_one_that_gains_most_is_set(seed: int) -> None:
    candidates, best = choice_of(random_runs(seed))
    chosen = choose_tested(candidates)
    errors = [path.tests.error for path in best.paths]
    units = candidates.units
    tests = null_tests(candidates.levels, errors, candidates.question, units.success, candidates.clusters, None)
    settings = [candidates.choose(paths=[name]).best for name in tests]
    of_length = {
        path.tests.path.name: null_tests(
            [levels], [path.tests.error], candidates.question, units.success, candidates.clusters, np.diff(units.first)
        )
        for levels, path in zip(candidates.levels, best.paths, strict=True)
    }
    price = Fraction(best.spent, best.successes) if best.successes else Fraction(1)
    ordered = sorted((one for one in settings if one), key=lambda one: -(one.saved - price * one.lost))
    passing = []
    loops: list[bool] = []
    for one in ordered:
        passes = tests[one.path].is_shown
        if passes and one.setting.keys() == {"doom_loop"}:
            loops = loops or [of_length[one.path][one.path].is_shown]
            passes = loops[0]
        passing += [one] if passes else []
    if chosen.null is None or not chosen.null.is_shown:
        assert chosen.choice.best == best.best
        assert chosen.passed_over is None
        return
    assert chosen.choice.best in passing
    gains = [one.saved - price * one.lost for one in passing]
    assert chosen.choice.best is not None
    assert chosen.choice.best.saved - price * chosen.choice.best.lost == max(gains)
    assert (chosen.passed_over is None) == (chosen.choice.best == best.best)


# --- One value, a range, and the full axis ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", first(2, ["plain", "intercode-python", "intercode-bash"]))
def test_bound_of_a_value_is_the_same_in_any_grid(name: str) -> None:
    runs = plain(150) + LOOPS if name == "plain" else atlas(name)
    full = choice_of(runs)[1].paths[0]
    assert full.setting is not None
    cap = full.setting["max_steps"]

    def path(values: list[int]) -> Any:
        return bl.recommend(runs, 0.9, objective="steps", by=[], grid={"max_steps": values}).groups[0].choice.paths[0]

    alone, span = path([cap]), path([cap, cap + 5, 400])
    assert alone.setting == {"max_steps": cap}
    assert alone.tests.error == span.tests.error == pytest.approx(0.05)
    assert full.tests.error <= alone.tests.error
    assert full.bound <= alone.bound
    assert span.setting == {"max_steps": cap}
    assert (span.bound, span.lost, span.saved) == (alone.bound, alone.lost, alone.saved)


def test_a_value_that_a_range_accepts_is_accepted_alone() -> None:
    runs = atlas("intercode-bash")
    found = bl.recommend(runs, 0.9, by=[], grid={"max_steps": range(1, 40)}).groups[0].choice.paths[0]
    values = list(range(39, 39 - found.tests.accepted, -1))
    for cap in (values[0], values[len(values) // 2], values[-1]):
        assert bl.recommend(runs, 0.9, by=[], grid={"max_steps": [cap]}).groups[0].choice.qualifies
    too_tight = values[-1] - 1
    assert not bl.recommend(runs, 0.9, by=[], grid={"max_steps": [too_tight]}).groups[0].choice.qualifies


# --- Evidence ---------------------------------------------------------------------------------------------------------


def test_a_run_that_makes_most_of_the_saving_is_named() -> None:
    runs = [*plain(150), *LOOPS[:3], run_of(3000, "abc" + "d" * 300, success=False)]
    found = bl.recommend(runs, objective="steps", grid={"max_steps": [5]})
    row = found.frame.iloc[0]
    assert (row["action"], row["largest_run"]) == ("set", "r3000")
    assert row["largest_run_share"] == row["largest_task_share"] == pytest.approx(299 / (3 * 19 + 299))
    assert "84% of the saving is one run, r3000." in found.verdict[2]
    assert row["saved_share_low"] <= row["saved_share"] <= row["saved_share_high"]
    spread = bl.recommend(plain(150) + LOOPS, objective="steps", grid={"max_steps": [5]})
    assert "of the saving is one" not in " ".join(spread.verdict)


def test_a_task_that_makes_most_of_the_saving_is_named() -> None:
    runs = [*plain(150), *(run_of(3000 + i, "abc" + "d" * 20, success=False, task="hard") for i in range(9))]
    found = bl.recommend(runs, objective="steps", grid={"max_steps": [5]})
    assert "100% of the saving is one task, hard." in " ".join(found.verdict)


def test_groups_that_keep_less_than_promised_are_named() -> None:
    """One model in twenty is long; a cap for all loses nearly all of its successes."""
    runs = [*plain(400), *LOOPS, *(replace(run_of(2000 + i, "abcdefgh"), model="long") for i in range(12))]
    found = bl.recommend(runs, keep=0.9, objective="steps", by=[], grid={"max_steps": [5]}, success_value=1.0)
    (broken,) = found.groups[0].broken
    assert broken == ("model", "long", 0, 12)
    assert found["n_broken"][0] == 1
    assert found.verdict[0].startswith("Set a step cap of 5, but not for model long: on record")
    assert "On record it keeps less than 90% for model long (0 of 12, 0%). To decide on each model: by='model'" in (
        " ".join(found.verdict)
    )
    few = [run for run in runs if run.run_id != "r2011"][:-2]
    assert bl.recommend(few, keep=0.9, by=[], grid={"max_steps": [5]})["n_broken"][0] == 0


def dated(runs: list[Run], days: int = 1) -> list[Run]:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [replace(run, started_at=start + timedelta(days=days * n)) for n, run in enumerate(runs)]


def test_newest_third_is_compared_with_the_older_runs() -> None:
    """The newest runs are longer, and of another model: the cap keeps fewer of theirs."""
    longer = [replace(run_of(5000 + i, "abcdefg"), model="next") for i in range(60)]
    runs = dated([*plain(130), *LOOPS, *plain(0), *longer, *(run_of(7000 + i, "abcd") for i in range(7))])
    found = bl.recommend(runs, keep=0.6, objective="steps", by=[], grid={"max_steps": [5, 30]}, success_value=0.1)
    group = found.groups[0]
    assert group.recency is not None
    assert (group.recency.n_newest, group.recency.steps_older, group.recency.steps_newest) == (67, 5, 8)
    assert (group.recency.kept, group.recency.successes, group.recency.older_kept) == (7, 67, 7)
    assert group.recency.changes == (("model", "next"),)
    assert "The record may be outdated: of the newest third it keeps 7 of 67 successes" in " ".join(found.verdict)
    assert any("New in it: model next." in sentence for sentence in found.sentences)


def test_without_dates_the_newest_runs_are_not_known() -> None:
    runs = plain(150) + LOOPS
    some = [*dated(runs[:-1]), runs[-1]]
    for record in (runs, some):
        found = bl.recommend(record, grid={"max_steps": [5]})
        assert found.groups[0].recency is None
        assert any("whether the record still holds is not known" in sentence for sentence in found.sentences)
    with_dates = bl.recommend(dated(runs), grid={"max_steps": [5]})
    assert not any("have no start time" in sentence for sentence in with_dates.sentences)
    same_day = bl.recommend(dated(runs, days=0), grid={"max_steps": [5]})
    assert same_day.groups[0].recency is None


# --- Among fewer limits -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_restricted_decision_uses_only_the_limits_that_there_are() -> None:
    group = bl.recommend(atlas("intercode-sql"), by=[]).groups[0]
    assert group.setting_on == {"doom_loop": 2}
    within = group.restricted(["max_steps", "tool_budget"])
    assert within.action == "set"
    assert within.setting_on == {"max_steps": 7}
    assert within.saved < group.saved
    assert within.lost <= group.choice.successes * 0.05
    assert group.restricted(["max_steps", "doom_loop", "tool_budget"]).setting == group.setting
    nothing = group.restricted([])
    assert (nothing.action, nothing.candidate) == ("leave", None)


@pytest.mark.slow
def test_export_chooses_what_its_target_can_hold() -> None:
    found = bl.recommend(atlas("intercode-sql"), by=[])
    made = found.export("langgraph", agent="coder")
    text = " ".join(part.text for part in made.parts)
    assert "recursion_limit" in text
    assert "LangGraph has no doom-loop threshold: of the limits that it has, a step cap of 7" in made.lost


def test_nothing_to_set_is_an_error_with_the_reason_and_a_way_on() -> None:
    few = bl.recommend(plain(40) + LOOPS)
    with pytest.raises(SettingError, match=r"nothing can be exported. Set no limit yet: 40 successes are too few"):
        few.limits()
    with pytest.raises(SettingError, match=r"keep less \(keep=0.9, in a terminal --keep 0.9\)"):
        few.export("claude-code")
    two = bl.recommend([*plain(100), *LOOPS, *(replace(run, agent="b", run_id=f"b{run.run_id}") for run in plain(9))])
    with pytest.raises(SettingError, match=r"there are 2 groups, each with a setting of its own"):
        two.limits()
    with pytest.raises(SettingError, match="agent='c': there is no group of that agent"):
        two.limits("c")
    assert two.limits("a").max_steps == 5
    with pytest.raises(SettingError, match="nothing can be exported. Set no limit yet: 9 successes"):
        two.limits("b")


@pytest.fixture(scope="module")
def two_models() -> Decision:
    """One agent with two models, which differ in length, and another agent."""
    short = [replace(run, model="m1") for run in plain(120) + LOOPS]
    long = [
        replace(run, model="m2", run_id=f"long-{run.run_id}", task=f"long-{run.task}")
        for run in [*plain(120, "abcdefghijkl"), *(run_of(2000 + i, "ab" + "c" * 40, success=False) for i in range(6))]
    ]
    other = [replace(run, agent="b", run_id=f"b-{run.run_id}", task=f"b-{run.task}") for run in plain(120) + LOOPS]
    return bl.recommend([*short, *long, *other], keep=0.9, objective="steps", by=["agent", "model"])


def test_groups_of_one_agent_are_exported_by_their_names(two_models: Decision) -> None:
    names = [", ".join(group.names) for group in two_models.groups]
    assert names == ["a, m1", "a, m2", "b, m"]
    caps = {name: two_models.limits(group=name).max_steps for name in names}
    assert caps == {"a, m1": 5, "a, m2": 13, "b, m": 5}
    assert "A step cap of 13" in two_models.export("claude-code", group="a, m2").text
    assert two_models.limits("b") == two_models.limits(group="b, m")
    assert two_models.limits("a", "a, m2").agent == "a"
    message = (
        r"there are 2 groups, each with a setting of its own \(a, m1; a, m2\): pass group= \(--group in a terminal\)"
    )
    with pytest.raises(SettingError, match=message):
        two_models.limits("a")
    with pytest.raises(SettingError, match="group='a, m3': there is no such group; did you mean 'a, m"):
        two_models.limits(group="a, m3")
    with pytest.raises(SettingError, match="agent='b': there is no group of that agent"):
        two_models.limits("b", "a, m1")


def test_an_agent_with_two_settings_is_named(two_models: Decision) -> None:
    (note,) = [note for note in two_models.notes if "holds one at a time" in note]
    assert note.startswith("a has a setting in 2 groups (a, m1; a, m2), and holds one at a time")
