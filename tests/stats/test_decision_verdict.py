"""The answer of a decision in at most three texts, for every outcome."""

import re
from dataclasses import replace
from typing import Any

import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.display.numbers import percent
from boolab.errors import SettingError
from boolab.stats.recommend.notes import notes_by_kind
from tests.stats.test_recommend import LOOPS, plain
from tests.stats.test_scorecard import numbered, run_of
from tests.support.samples import atlas


@pytest.fixture(scope="module")
def swebench() -> list[Run]:
    return atlas("swebench-verified")


@pytest.fixture(scope="module")
def python() -> list[Run]:
    return atlas("intercode-python")


def test_says_what_to_set_with_base_bound_and_saving(python: list[Run]) -> None:
    found = bl.recommend(python, keep=0.9, by=[])
    row = found.frame.iloc[0]
    assert (row["action"], row["max_steps"], row["kept_lower"], row["saved"]) == ("set", 3, 136, 396)
    assert found.verdict[0] == (
        "Set a step cap of 3: on record it keeps 136 of 139 successes (at least 90% of future ones, with 95% "
        "confidence) and saves 396 of 861 steps (46%)."
    )
    assert found.verdict[1].startswith(
        "Of the runs that it stops, 97 of 100 fail, 87 expected if they fail as often as comparable ones (p ≤ 0.005)."
    )
    assert "The trade is good, in steps of runs: it saves 132 steps for each lost success" in found.verdict[1]
    assert found.limits_by_group()[""].max_steps == 3
    assert "--max-steps 3" in str(found)


def test_the_answer_has_the_saving_on_other_tasks_if_far_less(python: list[Run]) -> None:
    found = bl.recommend(python, keep=0.9, by=[])
    saving = found.evidence
    assert saving["heldout_saved_share"] < saving["saved_share_low"]
    share = f"{100 * saving['heldout_saved_share']:.0f}%"
    said = f"Limits chosen on four fifths of the tasks saved {share} of the steps on the other fifth."
    assert found.verdict[2] == said
    loops = bl.recommend([*plain(150), *LOOPS], grid={"max_steps": [5]}, by=[])
    assert loops.evidence["heldout_saved_share"] >= loops.evidence["saved_share_low"]
    assert "four fifths" not in " ".join(loops.verdict)


def test_what_is_missing_is_given_in_runs_too(swebench: list[Run]) -> None:
    few = swebench[:15]
    found = bl.recommend(few)
    assert "It takes 57 more successes (about 430 runs at the rate on record)" in found.verdict[0]
    assert abs(57 * len(few) / found.evidence["successes"] - 430) < 5


def test_notes_say_whose_runs_these_are_and_what_was_asked_for(python: list[Run], swebench: list[Run]) -> None:
    found = bl.recommend(python, keep=0.9, by=[])
    assert f"(agent {python[0].agent}, 2 models)" in found.notes[0]
    assert "The share to keep, 90%, is what was asked for: keep=, in a terminal --keep." in found.notes
    unnamed = bl.recommend([replace(run, agent="", model="") for run in swebench[:5]])
    assert "(" not in unnamed.notes[0]


def test_few_stopped_runs_are_named_as_few() -> None:
    found = bl.recommend([*plain(150), *LOOPS[:1]], grid={"max_steps": [5]}, by=[])
    assert (found.action, found.evidence["stopped"]) == ("set", 1)
    assert "That rests on 1 run alone: one more run may change it." in found.verdict[1]
    more = bl.recommend([*plain(150), *LOOPS], grid={"max_steps": [5]}, by=[])
    assert more.evidence["stopped"] == 5
    assert "That rests on" not in more.verdict[1]


def test_what_is_left_off_is_named_and_never_to_be_set(swebench: list[Run]) -> None:
    found = bl.recommend(swebench, keep=0.9)
    row = found.frame.iloc[0]
    assert (row["action"], row["reason"], row["stopped"]) == ("leave", "stops_as_many_successes", 2)
    assert found.verdict[0] == (
        "Set no limit: a doom-loop threshold of 4 would keep 168 of 168 successes and save 32 of 16,707 steps (0.2%), "
        "but the runs that it stops are not shown to fail more often than the others (2 of 2 fail, "
        "1.3 expected, p = 0.65). That rests on 2 runs alone."
    )
    assert found.verdict[1].startswith("81% of the saving is one run, ")
    assert set(found.setting.values()) == {None}
    assert found.limits_by_group() == {}
    assert "--doom-loop" not in str(found)
    assert not found.paths["recommended"].any()
    with pytest.raises(SettingError, match="nothing can be exported. Set no limit: a doom-loop threshold of 4"):
        found.export("langgraph")


def test_a_poor_trade_names_the_setting_that_saves_most(swebench: list[Run]) -> None:
    found = bl.recommend(swebench, keep=0.9, grid={"max_steps": range(60, 80)})
    row = found.frame.iloc[0]
    assert (row["action"], row["reason"], row["candidate"]) == ("leave", "poor_trade", "a step cap of 60")
    assert found.verdict[0] == (
        "Set no limit: each one that is shown to keep 90%, with 95% confidence, loses a larger share of the successes "
        "than it saves of the steps. The one that saves most, a step cap of 60, would keep 158 of 168 successes and "
        "save 909 of 16,707 steps (5.4%)."
    )


def test_a_policy_is_named(swebench: list[Run]) -> None:
    assert bl.recommend(swebench, keep=0.9, policy="boocode").verdict[0].startswith("Under boocode: Set no limit")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keep": 0.999}, "Set no limit yet: 168 successes are too few"),
        ({"keep": 0.9, "grid": {"max_steps": [3, 4]}}, "a step cap of 4, loses 168 of 168 successes, too many"),
        ({"keep": 0.9, "grid": {"max_steps": [4000]}}, "none would have saved any steps in 499 runs"),
    ],
)
def test_says_that_nothing_should_be_set_and_what_is_missing(
    options: dict[str, Any], words: str, swebench: list[Run]
) -> None:
    found = bl.recommend(swebench, **options)
    assert words in found.verdict[0]
    assert len(found.verdict) <= 3
    if more := found.frame["more_needed"][0]:
        assert f"{more:,} more successes" in found.verdict[0]


def test_too_few_successes_show_what_can_be_kept_today(swebench: list[Run]) -> None:
    found = bl.recommend(swebench, keep=0.999)
    assert found.evidence["keep_possible"] == pytest.approx(0.05 ** (1 / 168), abs=1e-5)
    assert "What they show today: a limit that loses none of them keeps at least 98.2% of future ones." in found.verdict


def test_says_that_no_group_has_a_limit(swebench: list[Run]) -> None:
    assert bl.recommend(swebench[:6], by="task").verdict[0].startswith("Set no limit yet for any of 6 groups")


def test_groups_with_too_few_successes_are_named_with_the_lack(swebench: list[Run]) -> None:
    few = [replace(run, agent="few") for run in swebench[:40]]
    found = bl.recommend([*swebench, *few], keep=0.9, by="agent")
    lacks = found.frame.set_index("agent").to_dict("index")["few"]
    n, more = int(lacks["successes"]), int(lacks["more_needed"])
    assert (
        f"Set no limit yet for 1 of 2 agents: few ({n} successes, {more} more successes needed)." in found.verdict[-1]
    )


def test_a_proxy_is_named(swebench: list[Run]) -> None:
    verdict = bl.recommend(swebench, success="ended").verdict
    assert "of 407 runs that ended by themselves" in verdict[0]
    assert "No success label is used: a run that ended by itself counts as a success" in verdict[-1]


def test_groups_have_an_answer_each(swebench: list[Run], python: list[Run]) -> None:
    other = [replace(run, agent="") for run in python]
    found = bl.recommend([*swebench, *other], keep=0.9, by="agent")
    to_set, left_off, compared = found.verdict
    row = found.frame.set_index("agent").to_dict("index")[""]
    assert to_set == (
        f"Set limits for 1 of 2 agents: no name (a step cap of {row['max_steps']}). That saves "
        f"{percent(row['saved_share'])} of the steps and keeps at least 90% of future successes, with 95% confidence."
    )
    assert compared.startswith("Held out, a limit for each agent saves less than one for all: ")
    assert left_off.startswith(
        "Set no limit for 1 of 2 agents: swe_agent (a doom-loop threshold of 4 would keep enough, but"
    )
    assert not any("none:" in sentence for sentence in (*found.verdict, *found.sentences))


def test_without_runs_and_without_successes_it_says_so() -> None:
    assert bl.recommend([]).verdict == ("Nothing can be recommended: there is no run with a step on record.",)
    failed = numbered(*[run_of("a b", False)] * 3)
    assert (
        "there is no success on record. To show, with 95% confidence, that a limit keeps"
        in bl.recommend(failed).verdict[0]
    )


def test_the_numbers_of_a_verdict_are_those_of_the_frame() -> None:
    found = bl.recommend(atlas("tau2-retail"), keep=0.8, by=[])
    row = found.frame.iloc[0]
    kept, base, saved = re.findall(r"keeps? ([\d-]+) of (\d+) successes .* saves? ([\d,]+) of", found.verdict[0])[0]
    assert kept == f"{row['kept_lower']}-{row['kept_upper']}" or kept == str(row["kept_lower"])
    assert (int(base), int(saved.replace(",", ""))) == (row["successes"], row["saved"])


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
