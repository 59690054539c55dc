"""Conversations as Anthropic's Messages API has them."""

import json
from pathlib import Path

from boolab.core.types import Usage
from boolab.logs.load import load_runs
from tests.support.readers import reader_of
from tests.support.samples import own

read = reader_of("anthropic_messages")


def test_a_conversation_with_parallel_calls_errors_and_turns() -> None:
    (run,) = load_runs(own("anthropic_messages/conversation.json"))
    assert (run.source, run.run_id, run.model) == ("anthropic_messages", "conversation", "claude-example-1")
    assert (run.n_steps, run.n_tool_calls, run.success) == (4, 4, True)
    assert [step.turn for step in run.steps] == [1, 1, 1, 2]
    assert run.task == "Is the greenhouse warm enough?"
    assert run.prompt[0].text == "You look after a greenhouse."
    first = run.steps[0]
    assert first.response.reasoning == "Two readings at once."
    assert [result and (result.content, result.is_error) for result in first.results] == [
        ("sensor north is offline", True),
        ("18 degrees", False),
    ]


def test_repeated_id_is_paired_with_the_latest_open_call() -> None:
    (run,) = read(own("anthropic_messages/conversation.json"))
    again = run.steps[1].results[0]
    assert again is not None
    assert again.content == "21 degrees\n[image]"


def test_input_tokens_include_what_the_cache_gave_and_took() -> None:
    (run,) = read(own("anthropic_messages/conversation.json"))
    assert [step.response.usage for step in run.steps] == [
        Usage(120, 30, 0, cache_write_tokens=100),
        Usage(159, 12, 150, cache_write_tokens=0),
        Usage(5, 7, None),
        Usage(5, 8, None),
    ]


def test_provider_tool_has_its_result_in_the_same_message() -> None:
    (run,) = read(own("anthropic_messages/conversation.json"))
    last = run.steps[3]
    assert [call.name for call in last.response.tool_calls] == ["web_search", "ask_station"]
    assert last.results[0] is not None
    assert (last.results[0].is_error, last.results[1]) == (True, None)


def test_a_run_that_ends_in_a_call_was_cut() -> None:
    (run,) = read(own("anthropic_messages/conversation.json"))
    assert [step.response.finish_reason for step in run.steps] == ["tool_calls", "tool_calls", "stop", "length"]
    assert (run.stop.reason, run.stop.step) == ("aborted", 0)


def test_what_stands_beside_results_opens_no_turn_but_is_heard() -> None:
    (run,) = read(own("anthropic_messages/conversation.json"))
    assert "<system-reminder>" in run.inputs[0].message.text
    assert run.inputs[0].before == 2


def test_a_reminder_that_stands_alone_opens_no_turn(tmp_path: Path) -> None:
    said = ["Hello", "<system-reminder>The list is empty.</system-reminder>", "On"]
    messages = [
        one for words in said for one in ({"role": "user", "content": words}, {"role": "assistant", "content": "x"})
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"system": "s", "messages": messages}))
    (run,) = read(path)
    assert [step.turn for step in run.steps] == [1, 1, 2]


def test_one_conversation_a_line() -> None:
    runs = load_runs(own("anthropic_messages/conversations.jsonl"))
    assert [run.run_id for run in runs] == ["soup-1", "soup-1#2", "conversations/3"]
    assert [run.success for run in runs] == [True, False, None]
    assert [run.stop.reason for run in runs] == ["finished", "aborted", "finished"]
    assert [run.model for run in runs] == ["claude-example-2", "", ""]


def test_messages_of_one_id_are_one_step() -> None:
    (run,) = load_runs(own("anthropic_messages/messages.jsonl"))
    assert (run.source, run.n_steps, run.n_tool_calls) == ("anthropic_messages", 2, 1)
    first = run.steps[0]
    assert (first.response.text, first.response.finish_reason) == ("Counting.", "tool_calls")
    assert (first.response.usage, first.start_ms, first.model_ms, first.duration_ms) == (Usage(4, 9), 0, 3000, 4000)
    assert run.duration_ms == 6000
