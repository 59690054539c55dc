"""Chat JSON Lines, and which of the formats that hold messages a file belongs to."""

import json
from pathlib import Path
from typing import Any

import pytest

from boolab.core.types import REDACTED, UNKNOWN_USAGE, Usage
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.fields import Head
from boolab.logs.load import load_runs
from boolab.logs.readers._chat import dialect, label
from tests.support.readers import reader_of
from tests.support.samples import own

read = reader_of("openai_chat")

USER = {"role": "user", "content": "Hello"}
SAYS = {"role": "assistant", "content": "Hi."}


def head(*values: object, name: str = "a.jsonl") -> Head:
    return Head("\n".join(json.dumps(value) for value in values).encode(), Path(name))


def write(folder: Path, *values: object, name: str = "a.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(json.dumps(value) for value in values))
    return path


def asks(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def test_each_line_is_a_run_with_turns_at_users_messages() -> None:
    first, second, third = read(own("openai_chat/conversations.jsonl"))
    assert [run.run_id for run in (first, second, third)] == [f"conversations/{n}" for n in (1, 2, 3)]
    assert [step.turn for step in first.steps] == [1, 1, 2, 2]
    assert (first.task, first.stop.reason, first.stop.step) == ("Which books are late?", "finished", 1)
    assert [message.role for message in first.prompt] == ["system", "user"]
    assert second.prompt[0].text == "Be short."


def test_parallel_results_pair_by_id_and_equal_ids_by_position() -> None:
    first = read(own("openai_chat/conversations.jsonl"))[0]
    assert [result and result.content for result in first.steps[0].results] == ["2 loans", "bad arguments"]
    assert [result and result.parse_error for result in first.steps[0].results] == [False, True]
    assert first.steps[2].response.tool_calls[0].arguments == '{"to":"both"}'
    assert first.steps[2].results[0] is not None


def test_errors_times_usage_and_reasons_are_unknown_if_missing() -> None:
    for run in read(own("openai_chat/conversations.jsonl")):
        assert (run.started_at, run.duration_ms, run.model) == (None, None, "")
        for step in run.steps:
            assert step.response.usage == UNKNOWN_USAGE
            assert step.response.finish_reason is None
            assert {result.is_error for result in step.results if result} <= {None}


def test_labels() -> None:
    assert [run.success for run in read(own("openai_chat/conversations.jsonl"))] == [True, False, None]
    assert label({"reward": 0, "success": None}) is False
    assert label({"score": "1", "reward": float("nan")}) is None


def test_function_call_without_id_pairs_with_next_message() -> None:
    second = read(own("openai_chat/conversations.jsonl"))[1]
    assert second.steps[0].response.tool_calls[0][:2] == ("", "opening_hours")
    assert second.steps[0].results[0] is not None
    assert second.text == "I cannot open it."


def test_result_without_id_answers_the_first_open_call() -> None:
    third = read(own("openai_chat/conversations.jsonl"))[2]
    assert [result and result.content for result in third.steps[0].results] == ["done", None]
    assert (third.stop.reason, [call.id for call in third.steps[0].dropped]) == ("aborted", ["call_8"])


def test_one_message_a_line_with_a_whole_response_among_them() -> None:
    (run,) = read(own("openai_chat/messages.jsonl"))
    assert (run.run_id, run.model, run.n_steps, run.n_tool_calls) == ("messages", "gpt-example", 2, 1)
    first, last = run.steps
    assert first.response.usage == Usage(40, 12, 16, 5, None)
    assert last.response.usage == Usage(60, 3, None, None, 400)
    assert (first.response.finish_reason, last.response.finish_reason) == ("tool_calls", "length")
    assert first.response.reasoning == "A map helps."
    assert (first.start_ms, first.model_ms) == (0, 3000)


def test_flat_list_is_one_conversation_and_nested_list_several(tmp_path: Path) -> None:
    (run,) = load_runs(own("openai_chat/list.json"))
    assert (run.run_id, run.source, run.text) == ("list", "openai_chat", "Hello!")
    path = write(tmp_path, [[USER, SAYS], [USER]], name="a.json")
    assert [run.n_steps for run in load_runs(path)] == [1, 0]
    path = write(tmp_path, [USER, SAYS], [USER, SAYS, SAYS])
    assert [run.n_steps for run in load_runs(path)] == [1, 2]


def test_ids_are_taken_from_the_file_and_made_unique(tmp_path: Path) -> None:
    path = write(tmp_path, *({"id": given, "messages": [USER]} for given in ("a", "a", 7, None)))
    assert [run.run_id for run in read(path)] == ["a", "a#2", "7", "a/4"]


def test_missing_arguments_are_unknown_and_null_ones_are_empty(tmp_path: Path) -> None:
    calls = [{"id": "a", "function": {"name": "f"}}, {"id": "b", "function": {"name": "f", "arguments": None}}]
    custom = {"id": "c", "type": "custom", "custom": {"name": "g", "input": "print(1)"}}
    (run,) = read(
        write(tmp_path, {"messages": [USER, asks(*calls, custom, {"id": "d", "name": "h", "arguments": {}})]})
    )
    asked = run.steps[0].response.tool_calls
    assert [(call.name, call.arguments) for call in asked] == [
        ("f", REDACTED),
        ("f", "{}"),
        ("g", "print(1)"),
        ("h", "{}"),
    ]


def test_what_is_no_message_is_told_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, USER, SAYS, {"role": "narrator", "content": "x"}, 7, "text")
    with pytest.warns(ReadWarning, match=r"a\.jsonl:[345]: a message without a known role"):
        (run,) = load_runs(path, format="openai_chat")
    assert run.n_steps == 1


@pytest.mark.parametrize(
    ("whose", "values"),
    [
        ("openai", [{"messages": [USER, SAYS], "reward": 1}]),
        ("openai", [USER, asks()]),
        ("anthropic", [{"system": "s", "messages": [USER]}]),
        ("anthropic", [USER, {**SAYS, "stop_reason": "end_turn"}]),
        ("anthropic", [USER, {**SAYS, "content": [{"type": "tool_use"}]}]),
        ("cline", [[{"role": "user", "content": [{"type": "text", "text": "<task>\nx\n</task>"}]}]]),
        ("cline", [{"version": 1, "sessionId": "s", "messages": [USER]}]),
        (None, [{"sessionId": "s", "messages": [USER]}]),
        (None, [{"messages": [USER], "trajectory_format": "mini-swe-agent-1.1"}]),
        (None, [{"messages": [USER], "info": {"exit_status": "Submitted"}}]),
        (None, [{"messages": [{"info": {}, "parts": []}], "info": {}}]),
        ("openai", [{"messages": [USER], "session_start": "2026", "platform": "cli"}]),
        (None, [{"simulations": [{"messages": [USER]}]}]),
        (None, [{"role": "user", "message": {"content": []}}]),
        (None, [USER, {**SAYS, "content": [{"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}]}]),
        (None, [USER, {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "output": {}}]}]),
        (None, [{"system": [{"text": "s"}], "messages": [{**SAYS, "content": [{"toolUse": {"name": "f"}}]}]}]),
        (None, [{"role": "user", "parts": [{"text": "x"}]}]),
        (None, [[USER, {"role": "assistant", "content": "ls\n```mswea_bash_command\nls\n```"}]]),
    ],
)
def test_each_file_belongs_to_one_format_or_none(whose: str | None, values: list[object]) -> None:
    assert dialect(head(*values)) == whose


def test_a_head_that_ends_in_the_middle_of_a_message_is_enough() -> None:
    data = json.dumps({"messages": [USER, SAYS, USER]}, indent=1).encode()
    assert all(dialect(Head(data[:size], Path("a.json"))) == "openai" for size in range(60, len(data)))


def test_a_log_of_one_request_is_refused_with_what_holds_the_run(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"messages": [USER], "kwargs": {}, "response": {"choices": [{"message": SAYS}]}}))
    with pytest.raises(RunFormatError, match=r"request\.json:1: one request of a model, .* the events of"):
        load_runs(path)


@pytest.mark.parametrize(
    ("answer", "stop", "limits"),
    [
        ("Sorry, need more steps to process this request.", ("step_cap", "recursion_limit", None), {}),
        ("Model call limits exceeded: run limit (3/3)", ("step_cap", "run_limit(3)", 3), {"steps": 3}),
        (
            "Model call limits exceeded: thread limit (9/9), run limit (3/3)",
            ("step_cap", "run_limit(3)", 3),
            {"steps": 3},
        ),
        (
            "Tool call limit reached: run limit exceeded (4/3 calls).",
            ("tool_budget", "run_limit(3)", 3),
            {"tool_calls": 3},
        ),
        ("'ls' tool call limit reached: run limit exceeded (4/3 calls).", ("tool_budget", "run_limit(3)", 3), {}),
        ("Sorry, need more steps to process this request. So I go on.", ("finished", None, None), {}),
    ],
)
def test_framework_answer_at_a_limit_is_no_finish(
    tmp_path: Path, answer: str, stop: tuple[Any, ...], limits: dict[str, int]
) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    messages = [USER, asks(call), {"role": "tool", "tool_call_id": "a", "content": "x"}, {**SAYS, "content": answer}]
    (run,) = read(write(tmp_path, {"messages": messages}))
    assert (run.stop.reason, run.stop.rule, run.stop.threshold) == stop
    assert (dict(run.limits), run.censored) == (limits, stop[0] != "finished")
