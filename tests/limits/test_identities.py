"""Identities by tool, the interface of a detector, and the rules that are made of one."""

import pytest

import boolab as bl
from boolab.core.types import Stop
from boolab.errors import SettingError
from boolab.limits.call_identity import check_tools, identity_for, identity_of, split_identity, uncalled_note
from boolab.limits.detector import check_detector, named_tools
from boolab.limits.monitor import verdict_at
from boolab.limits.monitor_input import response_of, results_of
from boolab.limits.stop import detector_rule
from boolab.limits.table import LIMITS

BY_TOOL = {"*": "ordered", "bash": "call+result", "poll": None}


def test_identity_for_a_tool_that_no_mapping_names() -> None:
    assert [identity_for("poll", {"poll": None}), identity_for("grep", {"poll": None})] == [None, "canonical"]


def test_identities_by_tool_are_split() -> None:
    assert identity_of({"*": "ordered", "poll": None}) == ("ordered", (("poll", None),))
    assert split_identity(BY_TOOL) == ("ordered", {"bash": "call+result"}, ["poll"])


def test_check_tools_refuses_a_misspelt_tool() -> None:
    assert check_tools({"*": "canonical", "poll": None}, ["Bash", "Read"]) == ("poll",)
    with pytest.raises(SettingError, match="no call of the tool 'Bsh' is on record; did you mean 'Bash'"):
        check_tools({"*": "canonical", "Bsh": None}, ["Bash", "Read"])


def test_uncalled_note_names_tools_without_calls() -> None:
    note = "No call of the tool 'poll' is on record: to name it changes nothing here."
    assert uncalled_note({"*": "canonical", "poll": None}, ["Bash", "Read"]) == (note,)


def test_check_detector_names_what_is_missing() -> None:
    with pytest.raises(SettingError, match="detector 'AAA' has no attribute `name`: expected the name of its counter"):
        check_detector("AAA")


def test_named_tools_are_those_of_inner_detectors_too() -> None:
    streak = bl.detectors.RepeatStreak.of({"*": "ordered", "poll": None})
    assert named_tools([bl.detectors.Detections(streak, 2)]) == {"poll": None}


def test_detector_rule_has_the_name_of_its_function() -> None:
    assert str(detector_rule("twice", bl.detectors.RepeatStreak("ordered"), 2, "ordered")) == "twice(2, ordered)"


def test_nudge_names_the_rule() -> None:
    stop = Stop("step_cap", 2, "max_steps(2)", 2, 2)
    message = "A limit is reached: max_steps(2). Finish, or try another way."
    assert verdict_at(stop, "nudge", was_true=False).message == message


def test_monitor_takes_calls_as_pairs_and_mappings() -> None:
    response = response_of([("ls", {"path": "."}), {"name": "rm", "arguments": "{}"}])
    assert [call.arguments for call in response.tool_calls] == ['{"path":"."}', "{}"]
    assert results_of(["a.py", None], response)[1] is None


def test_limits_have_labels_for_options_and_sentences() -> None:
    assert [LIMITS[name].short_label for name in ("doom_loop", "max_steps")] == ["doom loop", "step cap"]
    assert LIMITS["max_steps"].option == "--max-steps"
