"""Runs in the making: what most readers build theirs with."""

from __future__ import annotations

import time

from boolab.readers.talk import Talk
from boolab.types import REDACTED


def test_a_turn_opens_with_the_first_response_after_a_message_that_wants_an_answer() -> None:
    talk = Talk("x")
    talk.says("system", "rules", opens=False)
    talk.says("user", "one", opens=True)
    talk.replies()
    talk.says("user", "a reminder", opens=False)
    talk.replies()
    talk.says("user", "two", opens=True)
    talk.says("user", "and three", opens=True)
    talk.replies()
    run = talk.run("r")
    assert [step.turn for step in run.steps] == [1, 1, 2]
    assert [message.text for message in run.prompt] == ["rules", "one"]
    assert [(given.before, given.message.text) for given in run.inputs] == [
        (2, "a reminder"),
        (3, "two"),
        (3, "and three"),
    ]
    assert run.task == "one"


def test_a_response_begins_when_the_last_thing_before_it_was_heard() -> None:
    talk = Talk("x")
    talk.says("user", "go", opens=True, time=1_000)
    reply = talk.replies(4_000)
    talk.asks(reply, "c", "look", {})
    talk.gives("c", "seen", is_error=False, time=9_000)
    talk.replies(9_500)
    run = talk.run("r")
    assert [(step.start_ms, step.model_ms, step.duration_ms) for step in run.steps] == [
        (0, 3_000, 8_000),
        (8_000, 500, 500),
    ]
    assert run.duration_ms == 8_500
    assert run.started_at is not None
    assert run.started_at.timestamp() == 1


def test_without_times_everything_about_time_is_unknown() -> None:
    talk = Talk("x")
    talk.replies()
    run = talk.run("r")
    assert (run.started_at, run.duration_ms, run.steps[0].start_ms, run.steps[0].duration_ms) == (
        None,
        None,
        None,
        None,
    )


def test_ids_that_come_again_are_answered_by_place() -> None:
    talk = Talk("x")
    first = talk.replies()
    talk.asks(first, "c", "look", {"at": 1})
    talk.asks(first, "c", "look", {"at": 2})
    assert talk.gives("c", "one", is_error=None)
    assert talk.gives("c", "two", is_error=True)
    second = talk.replies()
    talk.asks(second, "c", "look", {"at": 3})
    assert talk.gives("c", "three", is_error=None)
    assert not talk.gives("c", "four", is_error=None)
    run = talk.run("r")
    assert [[result and result.content for result in step.results] for step in run.steps] == [["one", "two"], ["three"]]


def test_arguments_that_do_not_parse_keep_their_text_and_are_marked_unless_they_were_kept_back() -> None:
    talk = Talk("x")
    reply = talk.replies()
    for number, arguments in enumerate(('{"a": ', {"a": "[REDACTED]"}, None, {"a": 1})):
        talk.asks(reply, str(number), "look", arguments)
        talk.gives(str(number), "", is_error=None)
    step = talk.run("r").steps[0]
    assert [call.arguments for call in step.response.tool_calls] == ['{"a": ', REDACTED, "{}", '{"a":1}']
    assert [result and result.parse_error for result in step.results] == [True, False, False, False]


def test_a_run_ended_if_its_last_response_asked_for_nothing_and_the_log_is_whole() -> None:
    talk = Talk("x")
    assert talk.ending() == "aborted"
    reply = talk.replies()
    assert talk.ending() == "finished"
    assert talk.ending(cut=True) == "aborted"
    talk.asks(reply, "c", "look", {})
    assert talk.ending() == "aborted"
    talk.replies().error = "reset"
    assert talk.ending() == "aborted"


def test_nobody_asked_and_nothing_said_is_no_run() -> None:
    talk = Talk("x")
    talk.says("system", "rules", opens=False)
    assert talk.empty
    talk.says("user", "go", opens=True)
    assert not talk.empty


def test_what_was_rewound_over_stands_where_the_rewinding_led_to() -> None:
    talk = Talk("x")
    talk.replies()
    talk.happened("retry")
    talk.replies()
    talk.replies()
    talk.happened("compaction")
    talk.rewinds(2)
    talk.rewinds(1)
    talk.replies()
    talk.happened("abort")
    events = [(event.kind, event.payload["after_step"]) for event in talk.run("r").events]
    assert events == [("retry", 1), ("compaction", 1), ("rewind", 1), ("rewind", 1), ("abort", 2)]


def test_many_rewinds_and_calls_of_one_id_take_no_longer_each() -> None:
    talk = Talk("x")
    start = time.perf_counter()
    for _ in range(20_000):
        talk.says("user", "go", opens=True)
        talk.asks(talk.replies(), "c", "look", {})
    for _ in range(10_000):
        assert talk.gives("c", "seen", is_error=None)
    for kept in range(20_000, 0, -1):
        talk.rewinds(kept)
    assert [step.results for step in talk.run("r").steps] == [(None,)]
    assert time.perf_counter() - start < 10
