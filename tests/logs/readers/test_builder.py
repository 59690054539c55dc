"""Runs in the making: what most readers build theirs with."""

import time

from boolab.core.types import REDACTED
from boolab.logs.builder import RunBuilder


def test_turn_opens_with_first_response_after_a_user_message() -> None:
    builder = RunBuilder("x")
    builder.add_message("system", "rules", opens_turn=False)
    builder.add_message("user", "one", opens_turn=True)
    builder.add_response()
    builder.add_message("user", "a reminder", opens_turn=False)
    builder.add_response()
    builder.add_message("user", "two", opens_turn=True)
    builder.add_message("user", "and three", opens_turn=True)
    builder.add_response()
    run = builder.build("r")
    assert [step.turn for step in run.steps] == [1, 1, 2]
    assert [message.text for message in run.prompt] == ["rules", "one"]
    assert [(given.before, given.message.text) for given in run.inputs] == [
        (2, "a reminder"),
        (3, "two"),
        (3, "and three"),
    ]
    assert run.task == "one"


def test_response_begins_at_the_last_event_before_it() -> None:
    builder = RunBuilder("x")
    builder.add_message("user", "go", opens_turn=True, time=1_000)
    reply = builder.add_response(4_000)
    builder.add_call(reply, "c", "look", {})
    builder.add_result("c", "seen", is_error=False, time=9_000)
    builder.add_response(9_500)
    run = builder.build("r")
    assert [(step.start_ms, step.model_ms, step.duration_ms) for step in run.steps] == [
        (0, 3_000, 8_000),
        (8_000, 500, 500),
    ]
    assert run.duration_ms == 8_500
    assert run.started_at is not None
    assert run.started_at.timestamp() == 1


def test_without_times_everything_about_time_is_unknown() -> None:
    builder = RunBuilder("x")
    builder.add_response()
    run = builder.build("r")
    assert (run.started_at, run.duration_ms, run.steps[0].start_ms, run.steps[0].duration_ms) == (
        None,
        None,
        None,
        None,
    )


def test_ids_that_come_again_are_answered_by_place() -> None:
    builder = RunBuilder("x")
    first = builder.add_response()
    builder.add_call(first, "c", "look", {"at": 1})
    builder.add_call(first, "c", "look", {"at": 2})
    assert builder.add_result("c", "one", is_error=None)
    assert builder.add_result("c", "two", is_error=True)
    second = builder.add_response()
    builder.add_call(second, "c", "look", {"at": 3})
    assert builder.add_result("c", "three", is_error=None)
    assert not builder.add_result("c", "four", is_error=None)
    run = builder.build("r")
    assert [[result and result.content for result in step.results] for step in run.steps] == [["one", "two"], ["three"]]


def test_builder_marks_unparsable_but_not_redacted_arguments() -> None:
    builder = RunBuilder("x")
    reply = builder.add_response()
    for number, arguments in enumerate(('{"a": ', {"a": "[REDACTED]"}, None, {"a": 1}, '{"a": "<redacted>"}')):
        builder.add_call(reply, str(number), "look", arguments)
        builder.add_result(str(number), "", is_error=None)
    step = builder.build("r").steps[0]
    assert [call.arguments for call in step.response.tool_calls] == ['{"a": ', REDACTED, "{}", '{"a":1}', REDACTED]
    assert [result and result.parse_error for result in step.results] == [True, False, False, False, False]


def test_run_is_finished_if_whole_and_last_response_has_no_calls() -> None:
    builder = RunBuilder("x")
    assert builder.stop_reason() == "aborted"
    reply = builder.add_response()
    assert builder.stop_reason() == "finished"
    truncated = RunBuilder("x", truncated=True)
    truncated.add_response()
    assert truncated.stop_reason() == "aborted"
    builder.add_call(reply, "c", "look", {})
    assert builder.stop_reason() == "aborted"
    builder.add_response().error = "reset"
    assert builder.stop_reason() == "aborted"


def test_nobody_asked_and_nothing_said_is_no_run() -> None:
    builder = RunBuilder("x")
    builder.add_message("system", "rules", opens_turn=False)
    assert builder.is_empty
    builder.add_message("user", "go", opens_turn=True)
    assert not builder.is_empty


def test_what_was_rewound_over_stands_where_the_rewinding_led_to() -> None:
    builder = RunBuilder("x")
    builder.add_response()
    builder.add_event("retry")
    builder.add_response()
    builder.add_response()
    builder.add_event("compaction")
    builder.rewind_to(2)
    builder.rewind_to(1)
    builder.add_response()
    builder.add_event("abort")
    events = [(event.kind, event.payload["after_step"]) for event in builder.build("r").events]
    assert events == [("retry", 1), ("compaction", 1), ("rewind", 1), ("rewind", 1), ("abort", 2)]


def test_many_rewinds_and_calls_of_one_id_take_no_longer_each() -> None:
    builder = RunBuilder("x")
    start = time.process_time()
    for _ in range(20_000):
        builder.add_message("user", "go", opens_turn=True)
        builder.add_call(builder.add_response(), "c", "look", {})
    for _ in range(10_000):
        assert builder.add_result("c", "seen", is_error=None)
    for kept in range(20_000, 0, -1):
        builder.rewind_to(kept)
    assert [step.results for step in builder.build("r").steps] == [(None,)]
    assert time.process_time() - start < 10
