from __future__ import annotations

import boolab as bl
from boolab.harnesses.describe import guard_words
from boolab.harnesses.presets import identity_under
from boolab.harnesses.setting import (
    Setting,
    _describe_identity,
    describe_counting,
    format_kept,
    format_saved,
    format_setting,
    identity_arguments,
)
from boolab.limits.table import describe_limits


def test_guard_in_words_has_window_and_threshold() -> None:
    assert guard_words(bl.policies["crush"].detectors.guards[0]) == "the same step in a window (10): stop at 6"


def test_describe_limits_name_the_ceiling() -> None:
    assert describe_limits({"max_steps": None, "doom_loop": 3}, 1000) == [
        "step cap: no limit up to 1,000",
        "doom-loop threshold 3",
    ]


def test_identity_of_a_policy_gets_exempt_tools() -> None:
    assert identity_under("boocode", None, ["poll"]) == {"*": "ordered", "poll": None}


def test_identity_arguments_are_python() -> None:
    assert identity_arguments({"*": "ordered", "poll": None}) == "'ordered', exempt=['poll']"


def test_setting_in_words_names_absent_limits() -> None:
    assert format_setting(Setting(max_steps=18)).split(". ")[0] == "step cap 18, no tool budget, no doom-loop threshold"


def test_counting_in_words_has_identity_scope_and_agent() -> None:
    assert (
        describe_counting(Setting(identity="tool", scope="run", agent="a"))
        == "Calls are repeats if they have the same tool. Limits hold for the whole run. The runs are those of agent a."
    )


def test_identity_in_words_has_tools_that_differ() -> None:
    assert (
        _describe_identity({"*": "tool", "ls": "call+result"})
        == "Calls are repeats if they have the same tool (ls: same tool, arguments and result)."
    )


def test_kept_runs_have_bounds_and_shares() -> None:
    assert format_kept({"lower": 81, "upper": 83, "of": 84}) == "81-83 of 84 (96.4% to 98.8%)"


def test_saved_amount_has_its_share() -> None:
    assert (
        format_saved({"measure": "steps", "label": "steps", "saved": 370, "of": 2454, "share": 0.1508})
        == "370 of 2,454 steps (15%)"
    )
