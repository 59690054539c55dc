from __future__ import annotations

from dataclasses import replace
from typing import Any

import boolab as bl
from boolab.widgets.replay.cards import is_refused, remove_commands
from boolab.widgets.replay.events import rows_between
from boolab.widgets.replay.gauges import counts_by_turn
from boolab.widgets.replay.header import header_of, limit_name
from boolab.widgets.replay.steps import outline_of, requests_of
from boolab.widgets.replay.what_if_marks import describe_acting, limits_of


def test_refusal_of_the_user_is_recognised() -> None:
    assert is_refused("The user doesn't want to proceed with this tool use. STOP.")
    assert not is_refused("a.py")


def test_code_that_repeats_a_call_is_left_out() -> None:
    text = "I list the files.\n```\nls -F\n```"
    assert remove_commands(text, [("", {"command": "ls -F\n"})]) == "I list the files."
    assert remove_commands(text, []) == text


def test_finished_run_has_no_row_between_its_steps() -> None:
    run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
    assert [(row["after"], row["kind"], row["title"]) for row in rows_between(run, [])] == [
        (1, "stop", "The run ended here: finished after 1 step.")
    ]


def test_benchmarks_count_through_all_turns() -> None:
    run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
    assert counts_by_turn(run)
    assert not counts_by_turn(replace(run, source="tau_bench"))


def test_header_has_title_outcome_and_what_happened() -> None:
    head = header_of(bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."])), [], 1)
    assert head["title"] == "Hello"
    assert head["outcome"]["label"] == "finished"
    assert head["verdict"]["happened"] == "Finished after 1 step."


def test_limit_is_named_by_policy_and_rule() -> None:
    assert limit_name({"policy": "boocode", "limit": "doom loop 3"}) == "boocode, doom loop 3"
    assert limit_name({"policy": None, "limit": "steps 2"}) == "steps 2"


def test_request_in_words_has_messages_and_steps() -> None:
    script = bl.ScriptedModel([{"tool_calls": [{"name": "ls"}], "repeat": 2}, "Done."], tools={"ls": "a.py"})
    assert requests_of(bl.run_sync(None, "Look", model=script))[2] == "1 message, steps 1-2 with results"


def test_outline_ends_with_the_final_answer() -> None:
    call = {"label": "ls src", "tool": "ls", "kind": "read", "error": False, "streak": 1}
    steps: list[dict[str, Any]] = [
        {"calls": [call], "text": "", "error": ""},
        {"calls": [], "text": "Done.", "error": ""},
    ]
    turn = outline_of([{"title": "Look", "first": 1, "last": 2}], steps)[0]
    assert [item["label"] for item in turn["items"]] == ["ls src", "final answer"]


def test_limits_of_policies_and_rules_have_names() -> None:
    assert limits_of(["boocode"], [bl.max_steps(20)])[-2:] == [
        ("tool_calls", 50, "boocode"),
        ("steps", 20, "max_steps(20)"),
    ]


def test_acting_policies_are_counted_by_what_they_do() -> None:
    mine = {"own": True, "acts": "stops", "policy": "boocode", "step": 9}
    others = [{"own": False, "acts": acts, "policy": "p", "step": 3} for acts in ("stops", "steps in", None)]
    assert describe_acting([mine, *others]) == "1 of 3 policies would have stopped it earlier, 1 would have stepped in"
