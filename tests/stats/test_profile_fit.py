"""What `fit_profile` recovers from simulated runs, what it says of recorded ones, and each of its rules alone."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from boolab import fit_profile
from boolab.core.run import Run
from boolab.core.types import UNKNOWN_USAGE, Step, Stop
from boolab.errors import SettingError
from boolab.limits.catalog import max_steps
from boolab.plots import plot_fit
from boolab.runtime.engine.runner import run_sync
from boolab.runtime.models.profile import Profile, shipped_profiles
from boolab.runtime.models.profile_parts import Distribution, normalise
from boolab.runtime.models.scripted import ScriptedModel
from boolab.runtime.models.simulated import SimulatedModel
from boolab.stats.intervals import Estimated, mean, share, spread
from boolab.stats.profile_fit.parameters import Chances, Figures, hazards, pieces
from boolab.stats.profile_fit.result import Fit, compare_turns, continuation_shares, success_within
from boolab.stats.profile_fit.result import play as play_profile
from boolab.stats.profile_fit.step_kinds import closing_tool, turns
from tests.support.cases import first
from tests.support.helpers import QUIET, call, play, steps
from tests.support.samples import atlas

RICH = Profile.of(
    {
        "start": {"list": 3, "search": 1},
        "tools": {
            "list": {"next": {"read": 1}},
            "search": {"next": {"read": 4, "search": 1}, "result_chars": {"median": 800, "sigma": 1}},
            "read": {"next": {"read": 2, "edit": 1}, "calls": {1: 8, 3: 2}},
            "edit": {
                "next": {"read": 1},
                "error_rate": 0.2,
                "finish_factor": 2,
                "latency_ms": {"median": 90, "sigma": 1},
            },
        },
        "finish": {"hazard": [{"from_step": 1, "probability": 0}, {"from_step": 4, "probability": 0.12}]},
        "loop": {"rate": 0.03, "period": {1: 3, 2: 1}, "again": 0.7},
        "after_error": {"retry": 0.3, "vary": 0.4, "switch": 0.2, "give_up": 0.1, "fails_again": 0.6},
        "revisit": {"rate": 0.05, "same_result": 0.8},
        "tokens": {"prompt": {"median": 4000, "sigma": 0.3}, "output": {"median": 180, "sigma": 0.8}},
        "latency": {"response_ms": {"median": 2000, "sigma": 0.5}},
        "success": {"finished": 0.7},
    }
)


def simulate(profile: Profile, n: int, seed: int = 0, **options: Any) -> list[Run]:
    model = SimulatedModel(profile, seed)
    return [run_sync(None, f"Task {i}", model=model, seed=i, **{"policy": "naive", **options}) for i in range(n)]


def truth(profile: Profile, parameter: str) -> float | None:
    """What a profile says at a place; shares add up to 1. None for what it leaves open, or says of other tools too."""
    part, *rest = parameter.split(".")
    if part == "start":
        return profile.shares_after(None).get(rest[0], 0.0)
    if part == "tools" and rest[1] == "next":
        return profile.shares_after(rest[0]).get(rest[2], 0.0)
    if part == "tools" and rest[1] == "calls":
        return profile.calls_of(rest[0]).get(int(rest[2]), 0.0)
    if part == "finish" and rest[0] == "hazard":
        return profile.finish.hazard[int(rest[1])].probability
    if part == "success" and len(rest) == 1:
        return profile.success_at(1, finished=rest[0] == "finished")
    if part == "loop" and rest[0] == "period":
        return normalise(profile.loop.period).get(int(rest[1]), 0.0)
    if part == "after_error" and rest[0] != "fails_again":
        return normalise(profile.after_error.shares)[rest[0]]
    if part == "calls" or "argument_chars" in rest:  # several tools at once; arguments are as long as makes them unique
        return None
    value: Any = profile
    for name in (part, *rest):
        value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return None if value is None else float(value)


def held(profile: Profile, fit: Fit) -> Counter[bool]:
    """How many of a fit's intervals hold the truth, and how many do not."""
    out = Counter[bool]()
    for row in fit.intervals.itertuples():
        true = truth(profile, str(row.parameter))
        if true is not None and not math.isnan(float(row.low)):  # type: ignore[arg-type]
            out[bool(row.low - 1e-6 <= true <= row.high + 1e-6)] += 1  # type: ignore[operator]
    return out


# Recovery.


@pytest.mark.slow
def test_a_profile_is_recovered_within_the_stated_intervals() -> None:
    starts = [piece.from_step for piece in RICH.finish.hazard]
    counts = Counter[bool]()
    for seed in range(6):
        counts += held(RICH, fit_profile(simulate(RICH, 60, seed), hazard_from=starts, simulated=2))
    # 95% intervals, a few hundred of them; many are conservative, hence no upper limit.
    assert counts.total() > 200
    assert counts[True] / counts.total() > 0.94


def test_narrow_intervals_fail_to_cover_the_profile() -> None:
    fit = fit_profile(simulate(RICH, 80), hazard_from=[1, 4], simulated=2, confidence=0.2)
    counts = held(RICH, fit)
    assert counts[True] / counts.total() < 0.8


@pytest.mark.parametrize("name", first(1, sorted(shipped_profiles())))
def test_shipped_profiles_are_recovered(name: str) -> None:
    profile = Profile.load(name)
    runs = simulate(profile, 60)
    starts = [piece.from_step for piece in profile.finish.hazard]
    counts = held(profile, fit_profile(runs, hazard_from=starts, finish_tool=profile.finish.tool, simulated=2))
    assert counts.total() > 10
    assert counts[True] / counts.total() > 0.85


def random_profile(seed: int) -> Profile:
    rng = np.random.default_rng(seed)
    tools = [f"tool_{i}" for i in range(rng.integers(1, 5))]

    def weights(names: Sequence[str]) -> dict[str, float]:
        return {name: float(rng.uniform(0.2, 1)) for name in names}

    return Profile.of(
        {
            "start": weights(tools),
            "tools": {
                tool: {
                    "next": weights(tools),
                    "error_rate": float(rng.choice([0, 0.1, 0.4])),
                    "result_chars": {"median": float(rng.uniform(200, 2000)), "sigma": float(rng.uniform(0.2, 1.2))},
                }
                for tool in tools
            },
            "calls": {1: 1.0, 2: float(rng.choice([0, 0.5]))},
            "finish": {"hazard": float(rng.uniform(0.05, 0.3))},
            "loop": {
                "rate": float(rng.choice([0, 0.05])),
                "period": {1: 1, 2: 1, 3: 1},
                "again": float(rng.uniform(0, 0.8)),
            },
            "after_error": {**weights(["retry", "vary", "switch"]), "fails_again": 0.5},
            "revisit": {"rate": float(rng.choice([0, 0.1]))},
            "tokens": {"prompt": 3000, "output": {"median": 200, "sigma": float(rng.uniform(0.3, 1))}},
        }
    )


@pytest.mark.slow
def test_random_profiles_are_recovered_within_their_intervals() -> None:
    counts = Counter[bool]()
    for seed in range(6):
        profile = random_profile(seed)
        counts += held(profile, fit_profile(simulate(profile, 60), hazard_from=[1], simulated=2))
    assert counts.total() > 90
    assert counts[True] / counts.total() > 0.93


@pytest.mark.slow
def test_runs_that_a_cap_cuts_give_the_same_hazard() -> None:
    profile = Profile.of({"tools": {"look": {}}, "finish": {"hazard": 0.08}})
    runs = simulate(profile, 300, stop=None)
    cut = simulate(profile, 300, stop=max_steps(5))
    whole = fit_profile(runs, simulated=2).estimate("finish.hazard.0.probability")
    seen = fit_profile(cut, simulated=2).estimate("finish.hazard.0.probability")
    assert whole.low < 0.08 < whole.high
    assert seen.low < 0.08 < seen.high
    finished_only = [run for run in cut if run.stop_reason == "finished"]
    assert fit_profile(finished_only, simulated=2).estimate("finish.hazard.0.probability").low > 0.08


def test_a_fitted_profile_can_be_saved_and_fitted_again(tmp_path: Any) -> None:
    fit = fit_profile(simulate(RICH, 40), simulated=2, source="a test")
    fit.profile.save(tmp_path / "again.yaml")
    assert Profile.load(tmp_path / "again.yaml") == fit.profile
    assert fit.profile.sources["tools"].startswith("a test: ")


# Goodness of fit.


@pytest.mark.slow
def test_simulated_runs_fit_their_own_profile_and_no_other() -> None:
    fit = fit_profile(simulate(RICH, 150), simulated=300)
    assert fit.goodness["fits"].fillna(value=True).sum() >= 7
    assert "no further from the record than chance" in str(fit)
    # Loops that are left after just ten calls, every time: with one chance to go on after each pass, some are shorter.
    stuck = [play(steps("A " * 10), doom_loop=None, tool_budget=None) for _ in range(40)]
    other = fit_profile(stuck, simulated=300).goodness.set_index("measure")["fits"]
    assert not other["repeat_streak"]


LONG_RUNS_FAIL = Profile.of(
    {
        "tools": {"look": {}},
        "finish": {"hazard": 0.1},
        "success": {"finished": [{"from_step": 1, "probability": 0.9}, {"from_step": 8, "probability": 0.3}]},
    }
)


@pytest.mark.slow
def test_success_of_long_runs_is_recovered_by_ending_step() -> None:
    fit = fit_profile(simulate(LONG_RUNS_FAIL, 400), simulated=300)
    assert fit.profile.success is not None
    early, late = (fit.estimate(f"success.finished.{place}.probability") for place in (0, 1))
    assert (early.low < 0.9 < early.high, late.low < 0.3 < late.high) == (True, True)
    assert abs(fit.profile.success.finished[1].from_step - 8) <= 1
    assert fit.goodness.set_index("measure")["fits"][["success_steps", "success"]].all()


def test_success_of_runs_cut_by_a_cap_is_fitted_by_step() -> None:
    cut = [{"from_step": 1, "probability": 0.05}, {"from_step": 6, "probability": 0.6}]
    profile = Profile.of({**LONG_RUNS_FAIL.model_dump(), "success": {"finished": 0.8, "cut": cut}})
    runs = [run for cap in (3, 9) for run in simulate(profile, 250, cap, stop=max_steps(cap))]
    fit = fit_profile(runs, simulated=2)
    assert fit.profile.success is not None
    assert [piece.probability for piece in fit.profile.success.cut or ()] == pytest.approx([0.05, 0.6], abs=0.1)
    assert fit.estimate("success.finished").low < 0.8 < fit.estimate("success.finished").high, "a plain number"


def test_success_that_depends_on_length_differs_from_constant() -> None:
    recorded = simulate(LONG_RUNS_FAIL, 300)
    flat = Profile.of({**LONG_RUNS_FAIL.model_dump(), "success": {"finished": 0.6}})
    goodness = compare_turns(turns(recorded), turns(simulate(flat, 300, 1)))[0].set_index("measure")
    assert goodness["fits"]["steps"]
    assert not goodness["fits"]["success_steps"]


def test_fit_notes_how_many_labels_have_several_turns() -> None:
    runs = atlas("tau2-retail")
    notes = " ".join(fit_profile(runs, simulated=2).notes)
    assert "Success is that of 2 runs of a single turn: 192 runs with a label and several turns" in notes


def test_what_a_fit_says_of_limits_that_help_is_in_its_notes() -> None:
    profile = Profile.of({**LONG_RUNS_FAIL.model_dump(), "success": {"finished": 0.2, "cut": 0.7}})
    notes = fit_profile(simulate(profile, 200, stop=max_steps(6)), simulated=2).notes
    assert any("a success which it would not be later" in note for note in notes)


def test_success_within_a_length_is_the_aalen_johansen_estimate() -> None:
    rng = np.random.default_rng(1)
    length, won, limit = rng.geometric(0.2, 300), rng.random(300) < 0.4, rng.integers(2, 12, 300)
    seen, ended = np.minimum(length, limit), length <= limit
    last, going, within = int(seen.max()), 1.0, [0.0]
    for step in range(1, last + 1):
        at_risk = int((seen >= step).sum())
        within.append(within[-1] + going * int((ended & won & (seen == step)).sum()) / at_risk)
        going *= 1 - int((ended & (seen == step)).sum()) / at_risk
    assert success_within(seen, ended, won & ended, last) == pytest.approx(np.array(within) / within[-1])
    assert np.isnan(success_within(seen, ended, np.zeros(300, dtype=bool), last)).all()


def test_the_share_still_running_is_that_of_kaplan_and_meier() -> None:
    from scipy import stats  # type: ignore[import-untyped]

    rng = np.random.default_rng(0)
    length, limit = rng.geometric(0.2, 200), rng.integers(1, 12, 200)
    seen, ended = np.minimum(length, limit), length <= limit
    other = stats.ecdf(stats.CensoredData(uncensored=seen[ended], right=seen[~ended])).sf
    last = int(seen.max())
    assert continuation_shares(seen, ended, last) == pytest.approx([float(other.evaluate(x)) for x in range(last + 1)])


# What a step was.


def kinds(items: Any, **options: Any) -> list[str]:
    return [move.kind for move in turns([play(items, policy=QUIET, **options)])[0].moves]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("A B C", "go_on go_on go_on finish"),
        ("A A B", "go_on loop go_on finish"),
        ("A B A B C", "go_on go_on loop loop go_on finish"),
        ("A B A C", "go_on go_on go_on go_on finish"),
        ("A B C A B C D", "go_on go_on go_on loop loop loop go_on finish"),
        ("AB AB C", "go_on loop go_on finish"),
    ],
)
def test_a_loop_is_a_whole_pass_over_the_latest_steps(pattern: str, expected: str) -> None:
    assert kinds(steps(pattern), doom_loop=None) == expected.split()


def test_the_shortest_period_is_taken_and_passes_are_counted() -> None:
    turn = turns([play(steps("X A B A B A B C"), doom_loop=None)])[0]
    loop = turn.loops[0]
    assert (loop.step, loop.period, loop.length, loop.again, loop.left) == (4, 2, 4, 1, 1)


def test_of_a_loop_that_a_limit_cut_nobody_knows_its_end() -> None:
    loop = turns([play(steps("A A A A", end=None), max_steps=4, doom_loop=None)])[0].loops[0]
    assert (loop.again, loop.left) == (2, 0)


def failing(*texts: str) -> list[Any]:
    return [*({"text": text, "tool_calls": [call("fail", what="x")]} for text in texts), "done"]


def test_failed_call_again_is_a_retry_unless_response_repeats() -> None:
    assert kinds(failing("Let me try", "Once more"), doom_loop=None)[:2] == ["go_on", "retry"]
    assert kinds(failing("Let me try", "Let me try"), doom_loop=None)[:2] == ["go_on", "loop"]
    assert kinds(failing("", ""), doom_loop=None)[:2] == ["go_on", "retry"]


def test_after_a_failure_a_step_varies_switches_or_gives_up() -> None:
    first = {"tool_calls": [call("fail", what="x")]}
    assert kinds([first, {"tool_calls": [call("fail", what="y")]}, "done"]) == ["go_on", "vary", "give_up"]
    assert kinds([first, {"tool_calls": [call("look", what="y")]}, "done"]) == ["go_on", "switch", "finish"]


def test_repeated_call_is_a_revisit_unless_it_follows_itself() -> None:
    moves = turns([play(steps("A B A"))])[0].moves
    again = [(made.open, made.again, made.same_result) for move in moves for made in move.calls]
    assert again == [(False, False, None), (False, False, None), (True, True, True)]


def test_a_tool_that_ends_most_runs_is_the_finishing_tool() -> None:
    model = SimulatedModel(Profile.of({"tools": {"look": {}}, "finish": {"hazard": 0.3, "tool": "submit"}}))
    runs = [run_sync(None, f"Task {i}", model=model, policy="swe_agent", seed=i) for i in range(20)]
    assert closing_tool(runs) == "submit"
    fit = fit_profile(runs, simulated=50)
    assert fit.profile.finish.tool == "submit"
    assert set(fit.profile.tools) == {"look"}


def test_fit_ignores_a_tool_called_throughout_as_finishing_tool() -> None:
    runs = [replace(play(steps("A B C", end=None), max_steps=3), stop=Stop("finished", 3)) for _ in range(5)]
    assert closing_tool(runs) is None
    fit = fit_profile(runs, simulated=20)
    assert set(fit.profile.tools) == {"look"}
    assert any("ended with a call" in note for note in fit.notes)


# Unknown is not zero.


def without(run: Run, **unknown: bool) -> Run:
    """A run as a log gives it that lacks errors, tokens or times."""

    def told(step: Step) -> Step:
        results = tuple(
            None if one is None else one._replace(is_error=None if unknown.get("errors") else one.is_error)
            for one in step.results
        )
        response = step.response._replace(usage=UNKNOWN_USAGE) if unknown.get("tokens") else step.response
        timeless = step._replace(start_ms=None, duration_ms=None, model_ms=None) if unknown.get("times") else step
        return timeless._replace(results=results, response=response)

    return replace(run, steps=tuple(told(step) for step in run.steps), success=None)


def test_log_without_errors_tokens_or_times_is_noted_in_the_fit() -> None:
    runs = [without(run, errors=True, tokens=True, times=True) for run in simulate(RICH, 60)]
    fit = fit_profile(runs, simulated=50)
    said = " ".join(fit.notes)
    assert fit.profile.tokens is None
    assert fit.profile.success is None
    assert "which calls failed" in fit.profile.assumptions["after_error"]
    assert "no times" in fit.profile.assumptions["latency"]
    assert "no tokens" in said
    assert not [place for place in fit.intervals["parameter"] if "error" in place or "latency.response" in place]


def test_texts_and_tools_with_half_surrogates_are_no_obstacle() -> None:
    some = [
        replace(play([{"tool_calls": [call("\ud800")]}, "done"]), run_id=f"{k}", task=f"\udcff{k}") for k in range(3)
    ]
    fit = fit_profile(some, simulated=20)
    assert [*fit.profile.tools] == ["_"]
    assert "\ufffd" in {*fit.bands["x"]}  # replaced where it came in


def test_runs_without_a_call_are_refused() -> None:
    hello = run_sync(None, "Hello", model=ScriptedModel(["Hi."]))
    with pytest.raises(SettingError, match="none holds a step with a call"):
        fit_profile(hello)


@pytest.mark.parametrize("starts", [[], [2], [1, 1], [1, 5, 3]])
def test_pieces_that_do_not_ascend_from_1_are_refused(starts: list[int]) -> None:
    with pytest.raises(SettingError, match="begin with 1 and ascend"):
        fit_profile(play(steps("A B")), hazard_from=starts)


def test_figure_not_estimated_is_refused_with_the_estimated_ones() -> None:
    fit = fit_profile(play(steps("A B")), simulated=2)
    with pytest.raises(SettingError, match=r"'loop.again' was not estimated; estimated: loop.rate"):
        fit.estimate("loop.again")


# Each estimator alone.


def coverage(draw: Callable[[np.random.Generator], tuple[Estimated, float]], times: int = 400) -> float:
    rng = np.random.default_rng(0)
    pairs = [draw(rng) for _ in range(times)]
    return sum(one.low <= true <= one.high for one, true in pairs) / times


@pytest.mark.parametrize("alike", [0.0, 4.0])
def test_share_intervals_cover_the_truth_where_runs_differ(alike: float) -> None:
    def draw(rng: np.random.Generator) -> tuple[Estimated, float]:
        sizes = rng.integers(1, 11, 30)
        chance = rng.beta(0.2 * alike, 0.8 * alike, 30) if alike else np.full(30, 0.2)
        return share(rng.binomial(sizes, chance), sizes), 0.2

    assert coverage(draw) > 0.925


@pytest.mark.parametrize("apart", [0.0, 1.0])
def test_mean_intervals_cover_the_truth_where_runs_differ(apart: float) -> None:
    def draw(rng: np.random.Generator) -> tuple[Estimated, float]:
        codes = np.repeat(np.arange(20), rng.integers(1, 11, 20))
        return mean(rng.normal(0, apart, 20)[codes] + rng.normal(size=len(codes)), codes), 0.0

    assert coverage(draw) > 0.915


def test_intervals_of_spreads_hold_the_truth() -> None:
    def draw(rng: np.random.Generator) -> tuple[Estimated, float]:
        codes = np.repeat(np.arange(20), 8)
        return spread(rng.normal(0, 2, len(codes)), codes), 2.0

    assert coverage(draw) > 0.925


def test_share_of_independent_observations_is_clopper_pearson() -> None:
    from scipy import stats

    ours = share([7], [20])
    theirs = stats.binomtest(7, 20).proportion_ci(0.95, "exact")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))


def test_hazard_pieces_are_found_only_where_the_hazard_changes() -> None:
    rng = np.random.default_rng(3)

    def drawn(hazard: Callable[[int], float]) -> tuple[list[int], list[bool]]:
        at, ended = list[int](), list[bool]()
        for _ in range(400):
            for step in range(1, 60):
                at.append(step)
                ended.append(bool(rng.random() < hazard(step)))
                if ended[-1]:
                    break
        return at, ended

    assert pieces(*drawn(lambda _: 0.15)) == [1]
    found = pieces(*drawn(lambda step: 0.02 if step < 10 else 0.4))
    assert found[0] == 1
    assert len(found) == 2
    assert abs(found[1] - 10) <= 1


def test_a_factor_is_what_the_hazard_is_multiplied_by() -> None:
    def draw(rng: np.random.Generator) -> tuple[Estimated, float]:
        edits = rng.random(1500) < 0.3
        chances = Chances(
            np.ones(1500, dtype=np.int64), rng.random(1500) < np.where(edits, 0.3, 0.1), np.arange(1500) // 10
        )
        groups = [("edit",) if edit else ("read",) for edit in edits]
        return hazards(chances, [1], [groups]).factors["edit",], 3.0

    assert coverage(draw, 60) > 0.9


def test_group_without_a_finish_has_factor_zero_and_upper_bound() -> None:
    chances = Chances(np.ones(400, dtype=np.int64), np.arange(400) % 4 == 0, np.arange(400))
    groups = [("b",) if i % 4 == 1 else ("a",) for i in range(400)]
    factor = hazards(chances, [1], [groups]).factors["b",]
    assert (factor.value, factor.low) == (0, 0)
    # Of 100 chances at a third each, none taken: the bound is exp(-h E) = 2.5%.
    assert factor.high == pytest.approx(-math.log(0.025) / (100 / 3), rel=1e-6)


def test_amounts_that_are_not_lognormal_keep_quantiles_and_mean() -> None:
    rng = np.random.default_rng(5)
    values = np.where(rng.random(2000) < 0.5, rng.integers(10, 20, 2000), rng.integers(900, 1100, 2000))
    values[:20] = 20_000
    distribution, rows = Figures(0.95).distribution(enumerate(values.tolist()))
    assert rows == {}
    drawn = Distribution(**distribution).table(4096)
    assert float(np.mean(drawn)) == pytest.approx(float(values.mean()), rel=0.01)
    assert float(np.quantile(drawn, 0.3)) == pytest.approx(float(np.quantile(values, 0.3)), abs=1)


# The picture.


@pytest.fixture(scope="module")
def rich() -> Fit:
    return fit_profile(simulate(RICH, 60), simulated=100)


@pytest.mark.parametrize("of", ["steps", "success_steps", "repeat_streak", "tools"])
def test_the_picture_draws_the_bands_it_is_given(of: Any, rich: Fit) -> None:
    ax = plot_fit(rich, of, ax=Figure(figsize=(7, 4)).subplots())
    rows = rich.bands[rich.bands["of"] == of]
    drawn = {str(line.get_label()): line for line in ax.get_lines()}
    values = np.asarray(drawn["recorded"].get_xdata() if of == "tools" else drawn["recorded"].get_ydata(), dtype=float)
    assert set(np.round(values, 9)) == set(np.round(rows["recorded"].to_numpy(dtype=float), 9))
    assert ax.get_title(loc="left")


def test_the_picture_refuses_what_it_cannot_draw() -> None:
    fit = fit_profile(simulate(RICH, 20), simulated=20)
    with pytest.raises(SettingError, match="expected one of steps, success_steps, repeat_streak, tools"):
        plot_fit(fit, "tokens")  # type: ignore[arg-type]
    silent = fit_profile(simulate(LONG_RUNS_FAIL.model_copy(update={"success": None}), 20), simulated=20)
    assert silent.goodness.set_index("measure")["fits"].isna()["success_steps"]
    with pytest.raises(SettingError, match="no recorded turn ended as a success"):
        plot_fit(silent, "success_steps")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["swebench-verified", "intercode-bash"])
def test_success_by_step_fits_success_lengths_better_than_flat(name: str) -> None:
    recorded = atlas(name)
    tool = closing_tool(recorded)
    fit = fit_profile(recorded, simulated=2)
    seen = turns(recorded, tool)
    won = [turn.won for turn in seen if turn.finished and turn.won is not None]
    flat = fit.profile.vary(success={"finished": sum(won) / len(won)})
    longest, tasks = max(len(turn.moves) for turn in seen), [turn.run.task for turn in seen]
    by_step, constant = (
        compare_turns(seen, turns(play_profile(profile, 600, tasks, longest), tool))[0].set_index("measure")
        for profile in (fit.profile, flat)
    )
    assert not constant["fits"]["success_steps"]
    assert by_step["distance"]["success_steps"] < constant["distance"]["success_steps"] * 0.65
