"""Policies as data."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from boolab.errors import SettingError
from boolab.harnesses.policy import DEFAULT, check_setting
from boolab.harnesses.presets import get_policy, policies
from boolab.harnesses.setting import Setting, as_code, as_front_matter
from tests.support.helpers import grouped

BOOCODE = policies["boocode"]


def test_the_presets_have_the_defaults_of_their_sources() -> None:
    assert BOOCODE.order == ("max_steps", "doom_loop", "tool_budget")
    assert (BOOCODE.cap.ceiling, BOOCODE.detectors.doom_loop, BOOCODE.detectors.identity) == (200, 3, "ordered")
    assert (BOOCODE.budgets.read_only, BOOCODE.budgets.writing, BOOCODE.budgets.no_agent) == (50, 10, 50)
    assert {p.cap.ceiling for name, p in policies.items() if name != "boocode"} == {1000}
    assert policies["opencode_3631"].order == policies["naive"].order == ("max_steps",)
    assert all(policy.about.source and policy.about.loop_style for policy in policies.values())


def test_default_none_and_a_number_are_three_different_things() -> None:
    assert BOOCODE.effective({"doom_loop": DEFAULT}, read_only=True) == {
        "max_steps": None,
        "doom_loop": 3,
        "tool_budget": 50,
    }
    assert BOOCODE.effective({"doom_loop": None, "max_steps": 7, "tool_budget": 0}) == {
        "max_steps": 7,
        "doom_loop": None,
        "tool_budget": 0,
    }
    assert repr(DEFAULT) == "DEFAULT"


def test_the_rule_stands_in_the_order_of_precedence() -> None:
    assert str(BOOCODE.rule(BOOCODE.effective({}))) == "ceiling(200) | doom_loop(3, ordered) | tool_budget(10)"
    assert (
        str(BOOCODE.rule(BOOCODE.effective({"max_steps": 5, "doom_loop": None, "tool_budget": None}))) == "max_steps(5)"
    )


@pytest.mark.parametrize(("cap", "is_beyond"), [(199, False), (200, False), (201, True), (None, True)])
def test_only_a_setting_beyond_the_ceiling_is_written_without_it(cap: int | None, is_beyond: bool) -> None:
    names: dict[str, Any] = {}
    exec(as_code(Setting(max_steps=cap)), names)  # noqa: S102 - what it makes is what is tested
    assert get_policy(names["agent"].policy).cap.ceiling == (None if is_beyond else BOOCODE.cap.ceiling)
    assert ("ends a run at 200 steps too" in as_front_matter(Setting(max_steps=cap))) == is_beyond


def test_policy_without_ceiling_and_limits_has_no_rule() -> None:
    free = BOOCODE.vary(cap={"ceiling": None})
    assert free.rule({"max_steps": None, "doom_loop": None, "tool_budget": None}) is None
    assert str(free.rule({"max_steps": 5000, "doom_loop": None, "tool_budget": None})) == "max_steps(5000)"


def test_a_policy_is_frozen_and_printed_by_its_name() -> None:
    with pytest.raises(FrozenInstanceError):
        BOOCODE.cap.max_steps = 3  # type: ignore[misc] # on purpose
    assert str(BOOCODE) == "boocode"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": ("max_steps", "tokens")}, "expected some of max_steps, tool_budget, doom_loop, each once"),
        (
            {"order": ("doom_loop",), "last_step.action": "no_tools"},
            "last_step.action='no_tools' needs 'max_steps' in order",
        ),
        ({"detectors.identity": "object"}, "identity 'object' is not known"),
    ],
)
def test_a_policy_that_contradicts_itself_is_refused(change: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        BOOCODE.vary(**grouped(change))


def test_an_unknown_preset_is_an_error_that_lists_them() -> None:
    with pytest.raises(SettingError, match="there is no policy 'x'; presets: ai_sdk, aider, autogen, .*, swe_agent"):
        get_policy("x")
    assert get_policy(BOOCODE) is BOOCODE


def test_setting_below_zero_is_refused() -> None:
    with pytest.raises(SettingError, match="max_steps: -1 is not accepted; expected an integer >= 0"):
        check_setting("max_steps", -1)
