"""The shipped profiles: each loads, says where its figures come from, and does what it cites."""

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from boolab.core.run import Run
from boolab.frames.tables import runs_df
from boolab.runtime.models.profile import Profile, shipped_profiles
from boolab.stats.profile_fit.result import continuation_shares, play

NAMES = sorted(shipped_profiles())
README = (next(iter(shipped_profiles().values())).parent / "README.md").read_text(encoding="utf-8")


@cache
def played(name: str) -> Sequence[Run]:
    return play(Profile.load(name), 150 if name.startswith("coder") else 500)


def steps_of(name: str) -> np.ndarray:
    return np.array([run.n_steps for run in played(name)])


def within(share: float, expected: float, n: int) -> bool:
    """Whether a share of n runs is within four standard errors of what is expected."""
    return abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / n)


def same_call(run: Run) -> int:
    """The most calls in a row that were the same and did not fail, steps of one call each."""
    longest = streak = 1
    for old, new in pairwise(run.steps):
        calls = [[call[1:] for call in step.response.tool_calls] for step in (old, new)]
        failed = any(result is not None and result.is_error for result in old.results)
        streak = streak + 1 if calls[0] and calls[0] == calls[1] and not failed else 1
        longest = max(longest, streak)
    return longest


@pytest.mark.parametrize("name", NAMES)
def test_each_shipped_profile_is_described_and_sourced(name: str) -> None:
    profile = Profile.load(name)
    assert profile.name == name
    assert profile.description.endswith(".")
    assert {"tools", "finish.hazard"} <= profile.sources.keys()
    assert f"`{name}`" in README


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_profile_plays_runs_that_end_by_themselves(name: str) -> None:
    assert {run.stop_reason for run in played(name)} == {"finished"}


@pytest.mark.slow
def test_unknown_figures_are_unknown_in_what_is_played() -> None:
    runs = runs_df(played("airline"))
    assert runs["input_tokens"].isna().all()
    assert runs_df(played("session"))["success"].isna().all()
    assert runs_df(played("coder"))["cost_usd"].notna().all()


@pytest.mark.parametrize(
    ("name", "quartiles", "solved", "dollars"),
    [
        ("coder", (44, 52, 63.75), 0.75, 5.85),
        ("coder_gemini", (19, 28.5, 44.5), 0.63, 4.08),
        ("coder_gpt", (38.75, 49.5, 66.25), 0.62, 3.22),
    ],
)
@pytest.mark.slow
def test_coder_profiles_match_published_figures(
    name: str, quartiles: tuple[float, ...], solved: float, dollars: float
) -> None:
    steps, runs = steps_of(name), runs_df(played(name))
    for quartile, gone in zip(quartiles, (0.25, 0.5, 0.75), strict=True):
        assert within(float((steps <= int(quartile)).mean()), gone, len(steps))
    assert within(float(runs["success"].mean()), solved, len(steps))
    assert float(runs["cost_usd"].mean()) == pytest.approx(dollars, rel=0.12)


def test_the_airline_agent_is_that_of_its_50_runs() -> None:
    steps, runs = steps_of("airline"), runs_df(played("airline"))
    # 12.84 steps on average, of which each run was cut at 30; 21 of 50 successes; 282 calls and 311 answers.
    assert float(np.minimum(steps, 30).mean()) == pytest.approx(12.84, rel=0.08)
    assert within(float(runs["success"].mean()), 21 / 49, len(runs))
    calls = [call.name for run in played("airline") for step in run.steps for call in step.response.tool_calls]
    assert calls.count("respond") / len(calls) == pytest.approx(0.53, abs=0.04)
    assert calls.count("get_reservation_details") / calls.count("respond") == pytest.approx(93 / 310, rel=0.15)


def test_turns_of_the_session_are_as_long_as_recorded() -> None:
    # Of 79 turns a quarter had 3 steps or fewer, half 4, three quarters 6.
    steps = steps_of("session")
    for most, share in ((3, 32), (4, 44), (6, 60)):
        assert float((steps <= most).mean()) == pytest.approx(share / 79, abs=0.13)


def test_swe_agent_fails_and_mends_edits_as_published() -> None:
    some = mended = 0
    for run in played("swe_agent"):
        edits = [
            (call.name == "edit", bool(result and result.is_error))
            for step in run.steps
            for call, result in zip(step.response.tool_calls, step.results, strict=True)
        ]
        if (True, True) in edits:
            rest = edits[edits.index((True, True)) :]
            some += 1
            mended += next((one for one in rest if one != (True, True)), (False, False)) == (True, False)
    assert within(some / 500, 0.517, 500)
    assert within(mended / some, 0.572, some)
    assert continuation_shares(steps_of("swe_agent"), np.ones(500, dtype=bool), 12)[-1] == pytest.approx(0.5, abs=0.07)


def test_the_looper_is_stuck_as_often_and_as_long_as_counted() -> None:
    streaks = np.array([same_call(run) for run in played("looper")])
    stuck = streaks > 1
    assert within(float(stuck.mean()), 138 / 371, len(stuck))
    assert within(float((streaks >= 20).sum() / stuck.sum()), 17 / 138, int(stuck.sum()))
