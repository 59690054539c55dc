"""The answer of a recommendation in at most three sentences, for every outcome."""

import re
from dataclasses import replace
from typing import Any

import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.display.numbers import percent
from boolab.stats.recommend.recommend import POOR, Recommendation
from boolab.stats.recommend.wording import notes_by_kind
from tests.stats.test_scorecard import numbered, run_of
from tests.support.samples import atlas


@pytest.fixture(scope="module")
def swebench() -> list[Run]:
    return atlas("swebench-verified")


def test_says_what_to_set_with_base_bound_and_trade(swebench: list[Run]) -> None:
    found = bl.recommend(swebench, keep=0.9)
    row = found.frame.iloc[0]
    what, trade, more = found.verdict
    assert what == (
        "Leave the step cap off: the tightest that is safe, a step cap of 65, keeps 159 of 168 successes (at least 90% "
        "of future ones, with 95% confidence) and saves 528 of 16,707 steps (3.2%)."
    )
    assert (row["max_steps"], row["kept_lower"], row["saved"]) == (65, 159, 528)
    assert row["poor_trade"]
    assert found.better_off() == {""}
    assert POOR in found.export("langgraph").notes
    assert "--max-steps 65 --scope run  # better left off" in str(found)
    assert trade == (
        "The trade is poor, in steps: it saves 59 steps for each lost success, and a success costs 99 steps on record."
    )
    assert "a doom-loop threshold of 3 keeps 165 of 168 and saves 257 of 16,707 steps (1.5%)" in more


def test_a_policy_is_named(swebench: list[Run]) -> None:
    assert (
        bl.recommend(swebench, keep=0.9, policy="boocode")
        .verdict[0]
        .startswith("Under boocode, leave the step cap off")
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keep": 0.999}, "Set no limit yet: 168 successes are too few"),
        ({"keep": 0.9, "grid": {"max_steps": [3, 4]}}, "Set no limit yet. None of the values that were tried"),
        ({"keep": 0.9, "grid": {"max_steps": [4000]}}, "none would have saved any steps in 499 runs"),
    ],
)
def test_says_that_nothing_should_be_set_and_what_is_missing(
    options: dict[str, Any], words: str, swebench: list[Run]
) -> None:
    found = bl.recommend(swebench, **options)
    assert words in found.verdict[0]
    assert len(found.verdict) <= 3
    if found.frame["more_needed"][0] and "more are needed" in found.verdict[0]:
        assert f"{found.frame['more_needed'][0]:,} more" in found.verdict[0]


def test_says_that_no_group_has_a_limit(swebench: list[Run]) -> None:
    assert bl.recommend(swebench[:6], by="task").verdict[0].startswith("Set no limit yet for any of 6 groups")


def test_groups_with_too_few_successes_are_named_with_the_lack(swebench: list[Run]) -> None:
    few = [replace(run, agent="few") for run in swebench[:40]]
    found = bl.recommend([*swebench, *few], keep=0.9, by="agent")
    lacks = found.frame.set_index("agent").to_dict("index")["few"]
    n, more = int(lacks["successes"]), int(lacks["more_needed"])
    assert (
        found.verdict[-1] == f"Set no limit yet for 1 of 2 agents: few ({n} successes, {more} more successes needed)."
    )


def test_a_proxy_is_named(swebench: list[Run]) -> None:
    verdict = bl.recommend(swebench, success="ended").verdict
    assert "of 407 runs that ended by themselves" in verdict[0]
    assert verdict[-1].startswith("No success label is used: a run that ended by itself counts as a success")


def test_groups_have_an_answer_each(swebench: list[Run]) -> None:
    other = [replace(run, agent="") for run in atlas("intercode-python")]
    found = bl.recommend([*swebench, *other], keep=0.9, by="agent")
    good, poor = found.verdict
    one, two = (found.frame.set_index("agent").to_dict("index")[agent] for agent in ("", "swe_agent"))
    assert good == (
        f"Set limits for 1 of 2 agents: no name (step cap {one['max_steps']}). They save "
        f"{percent(one['saved_share'])} of the steps and keep at least 90% of future successes, with 95% confidence."
    )
    assert poor == (
        f"Leave limits off for 1 of 2 agents: swe_agent (tightest safe: step cap {two['max_steps']}). The trade is "
        f"poor: a limit saves {percent(two['saved_share'])} of the steps, and that is a smaller share of "
        "the steps than it may lose of the successes."
    )
    assert not any("none:" in sentence for sentence in (*found.verdict, *found.sentences))


def test_without_runs_and_without_successes_it_says_so() -> None:
    assert bl.recommend([]).verdict == ("Nothing can be recommended: there is no run with a step on record.",)
    failed = numbered(*[run_of("a b", False)] * 3)
    assert "there is no success on record. To show that a limit is sure" in bl.recommend(failed).verdict[0]


def test_the_numbers_of_a_verdict_are_those_of_the_frame() -> None:
    found: Recommendation = bl.recommend(atlas("tau2-retail"), keep=0.9)
    row = found.frame.iloc[0]
    kept, base, saved = re.findall(r"keeps ([\d-]+) of (\d+) successes .* saves ([\d,]+) of", found.verdict[0])[0]
    assert kept == f"{row['kept_lower']}-{row['kept_upper']}"
    assert (int(base), int(saved)) == (row["successes"], row["saved"])


def test_missing_successes_are_counted_by_proxy_without_labels(swebench: list[Run]) -> None:
    few = [replace(run, success=None, agent=f"agent {number % 2}") for number, run in enumerate(swebench[:21])]
    found = bl.recommend(few, by="agent")
    counts = found.frame.set_index("agent")["successes"]
    for agent, n in counts.items():
        assert f"{agent} ({n} runs that ended by themselves, " in found.verdict[0]


def test_notes_on_all_groups_come_last() -> None:
    assert list(notes_by_kind([(["a", "b"], ["8 labels.", "So be it."]), (["c"], ["No label.", "So be it."])])) == [
        "a, b: 8 labels.",
        "c: No label.",
        "So be it.",
    ]
    assert list(notes_by_kind([(["a"], ["8 labels."])])) == ["8 labels."]
