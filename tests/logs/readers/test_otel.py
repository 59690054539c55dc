"""OpenTelemetry's GenAI spans: agents, subagents, tools, and content that is kept back."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run_tree import Start, starts_of
from boolab.core.types import REDACTED, UNKNOWN_USAGE, Usage
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.load import load_runs
from tests.support.readers import fates, reader_of
from tests.support.samples import own

read = reader_of("otel")

TRACE = "0" * 32


def span(sid: str, parent: str, operation: str, start: int, *, trace: str = TRACE, **more: Any) -> dict[str, Any]:
    """A span; keywords with `__` for dots are attributes under `gen_ai`, `status` is its code."""
    status = {"code": more.pop("status")} if "status" in more else {}
    named = {"operation.name": operation, **{name.replace("__", "."): value for name, value in more.items()}}
    return {
        "traceId": trace,
        "spanId": sid,
        "parentSpanId": parent,
        "startTimeUnixNano": str((start + 1) * 10**9),
        "endTimeUnixNano": str((start + 1) * 10**9 + 5 * 10**8),
        "attributes": [{"key": f"gen_ai.{name}", "value": {"stringValue": value}} for name, value in named.items()],
        "status": status,
    }


def write(folder: Path, *spans: Any) -> Path:
    path = folder / "a.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    return path


def says(*said: str, role: str = "user") -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": one}]} for one in said])


def test_agents_sharing_a_conversation_are_one_run_of_many_turns() -> None:
    run = load_runs(own("otel/agents.jsonl"))[0]
    assert (run.source, run.run_id, run.agent, run.model) == ("otel", "conv-1", "gardener", "model-1-2026")
    assert [step.turn for step in run.steps] == [1, 1, 1, 2]
    assert (run.task, [given.message.text for given in run.inputs]) == ("Plant the beans", ["Water them"])
    assert run.prompt[0].text == "You keep a garden."


def test_steps_are_ordered_by_start_and_times_are_milliseconds() -> None:
    run = load_runs(own("otel/agents.jsonl"))[0]
    assert [step.start_ms for step in run.steps] == [100, 2600, 3800, 60_100]
    assert [step.model_ms for step in run.steps] == [1400, 400, 200, 900]
    assert [step.duration_ms for step in run.steps] == [2400, 1100, 200, 900]
    assert run.duration_ms == 61_500


def test_tools_are_paired_by_id_and_fail_by_their_status() -> None:
    run = load_runs(own("otel/agents.jsonl"))[0]
    assert fates(run) == [[False, True], [False], [], ["dropped"]]
    first, second = run.steps[:2]
    assert [result and result.content for result in first.results] == ["dug", "StoneError"]
    assert [result and result.duration_ms for result in first.results] == [300, 500]
    assert second.results[0] is not None
    assert second.results[0].content == '{"said":"sun"}'


def test_usage_and_reasons() -> None:
    run = load_runs(own("otel/agents.jsonl"))[0]
    assert run.steps[0].response.usage == Usage(100, 30, 40, 8, None)
    assert [step.response.finish_reason for step in run.steps] == ["tool_calls", "tool_calls", "stop", "tool_calls"]
    assert run.steps[0].response.reasoning == "Two beds."


def test_an_agent_within_another_is_a_run_of_its_own() -> None:
    parent, child = load_runs(own("otel/agents.jsonl"))
    assert (child.run_id, child.parent_run_id, child.agent) == (f"{'a' * 32}/a7", parent.run_id, "expert")
    assert (child.task, child.text, child.stop.reason) == ("Tell of beans", "Beans like sun.", "finished")
    assert starts_of(parent) == [Start(2, child.run_id, "expert")]


def test_an_agent_that_ran_out_of_turns_was_cut_by_a_cap() -> None:
    run = load_runs(own("otel/agents.jsonl"))[0]
    assert (run.stop.reason, run.censored, run.error) == ("step_cap", True, None)


@pytest.mark.parametrize(
    ("error", "reason"),
    [("ValueError", "error"), ("asyncio.CancelledError", "aborted"), ("GraphRecursionError", "step_cap")],
)
def test_how_an_agents_error_ends_its_run(tmp_path: Path, error: str, reason: str) -> None:
    agent = span("a", "", "invoke_agent", 0)
    agent["attributes"].append({"key": "error.type", "value": {"stringValue": error}})
    (run,) = load_runs(write(tmp_path, agent, span("b", "a", "chat", 1)))
    assert (run.stop.reason, run.error) == (reason, error if reason == "error" else None)


def test_redacted_content_is_unknown_and_creates_no_repeats() -> None:
    (run,) = load_runs(own("otel/quiet.json"))
    assert {call.arguments for step in run.steps for call in step.response.tool_calls} == {REDACTED}
    assert fates(run) == [[False, True], [False], []]
    assert [result and result.parse_error for step in run.steps for result in step.results] == [False] * 3
    assert (run.stop.reason, run.task, run.prompt) == ("finished", "", ())


def test_older_spans_are_read_from_events_and_numbered_fields() -> None:
    first, second = load_runs(own("otel/older.jsonl"))
    assert (first.task, first.prompt[0].text, first.text) == ("How late is it?", "Be kind.", "It is noon.")
    assert first.steps[0].response.tool_calls[0] == ("k1", "clock", '{"zone": 1}')
    assert first.steps[0].response.usage == Usage(12, 4)
    assert second.steps[0].response.usage == UNKNOWN_USAGE
    assert [call.name for call in second.steps[0].dropped] == ["greet"]
    assert (second.task, second.stop.reason) == ("Hello", "aborted")


def test_failure_of_a_result_known_only_from_messages_is_unknown() -> None:
    first = load_runs(own("otel/older.jsonl"))[0]
    assert fates(first) == [[None], []]
    assert first.steps[0].results[0] is not None
    assert first.steps[0].results[0].content == "noon"


def test_a_response_that_two_instrumentations_tell_is_one_step(tmp_path: Path) -> None:
    outer = span("a", "", "chat", 1)
    inner = span("b", "a", "chat", 1, output__messages=says("Hi", role="assistant"))
    (run,) = load_runs(write(tmp_path, inner, outer))
    assert (run.n_steps, run.text) == (1, "Hi")


def test_outer_of_two_spans_for_one_response_is_used(tmp_path: Path) -> None:
    spans = [span("a", "", "chat", 0, request__model="outer"), span("b", "a", "chat", 1, request__model="inner")]
    (run,) = read(write(tmp_path, *spans))
    assert (run.n_steps, run.model) == (1, "outer")


def test_response_that_ends_for_unrecorded_tools_is_aborted(tmp_path: Path) -> None:
    asked = span("a", "", "chat", 0, response__finish_reasons="tool_calls")
    (run,) = read(write(tmp_path, asked))
    assert (run.stop.reason, run.n_tool_calls) == ("aborted", 0)


def test_a_span_around_several_responses_is_none(tmp_path: Path) -> None:
    spans = [
        span("a", "", "chat", 0),
        span("b", "a", "chat", 1),
        span("t", "a", "execute_tool", 2, tool__name="sum_up"),
        span("c", "a", "chat", 3),
    ]
    (run,) = load_runs(write(tmp_path, *spans))
    assert (run.n_steps, run.n_tool_calls) == (2, 1)


def test_a_model_that_a_tool_asks_is_no_step_of_the_agent(tmp_path: Path) -> None:
    spans = [
        span("a", "", "invoke_agent", 0),
        span("b", "a", "chat", 1),
        span("t", "a", "execute_tool", 2, tool__name="sum_up"),
        span("x", "t", "execute_tool", 2, tool__name="sum_up"),
        span("c", "t", "chat", 3),
    ]
    outer, inner = load_runs(write(tmp_path, *spans))
    assert [(run.n_steps, run.agent, run.parent_run_id) for run in (outer, inner)] == [
        (1, "", None),
        (1, "sum_up", outer.run_id),
    ]
    assert outer.n_tool_calls == 1
    assert starts_of(outer) == [Start(1, inner.run_id, "sum_up")]


def test_spans_without_agent_are_one_run_per_conversation(tmp_path: Path) -> None:
    asked = says("One")
    more = json.dumps([*json.loads(asked), {"role": "assistant", "parts": []}, *json.loads(says("Two"))])
    spans = [
        span("a", "", "chat", 1, trace="1" * 32, conversation__id="c", input__messages=asked),
        span("b", "", "chat", 2, trace="2" * 32, conversation__id="c", input__messages=more),
        span("c", "", "chat", 3, trace="3" * 32, conversation__id="d"),
    ]
    first, second = load_runs(write(tmp_path, *spans))
    assert (first.run_id, [step.turn for step in first.steps]) == ("c", [1, 2])
    assert second.run_id == "d"


def test_a_tool_without_an_id_is_paired_by_name(tmp_path: Path) -> None:
    calls = [{"type": "tool_call", "name": name, "arguments": {"n": name}} for name in ("f", "g")]
    made = json.dumps([{"role": "assistant", "parts": calls}])
    spans = [
        span("a", "", "chat", 1, output__messages=made),
        span("b", "", "execute_tool", 2, tool__name="g", tool__call__result="of g"),
        span("c", "", "execute_tool", 3, tool__name="f", tool__call__result="of f"),
    ]
    (run,) = load_runs(write(tmp_path, *spans))
    assert [result and result.content for result in run.steps[0].results] == ["of f", "of g"]


def test_an_error_of_the_model_breaks_its_step(tmp_path: Path) -> None:
    (run,) = load_runs(write(tmp_path, span("a", "", "chat", 1, status=2)))
    assert (run.steps[0].error, run.stop.reason, run.error) == ("error", "error", "error")


def test_tools_before_any_response_are_told(tmp_path: Path) -> None:
    path = write(tmp_path, span("a", "", "execute_tool", 1), span("b", "", "chat", 2))
    with pytest.warns(ReadWarning, match=r"a\.json: 1 tool result answers no call that is in the file; left out"):
        (run,) = load_runs(path)
    assert run.n_tool_calls == 0


def test_spans_that_tell_nothing_of_models_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, span("a", "", "embeddings", 1), span("b", "a", "GET", 1))
    with pytest.raises(RunFormatError, match="no span in it is a model's response"):
        load_runs(path)


def test_what_is_no_span_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, 7, {"spanId": "x"}, span("b", "", "chat", 2))
    with pytest.warns(ReadWarning, match="a span without traceId or spanId"):
        (run,) = load_runs(path)
    assert run.n_steps == 1


@pytest.mark.slow
def test_spans_in_a_circle_and_in_a_long_chain_come_to_an_end(tmp_path: Path) -> None:
    chain = [span(str(i), str(i - 1), "GET", i) for i in range(20_000)]
    spans = [span("a", "b", "chat", 1), span("b", "a", "chat", 2), *chain]
    spans += [span(f"t{i}", "19999", "execute_tool", i) for i in range(20_000)]
    start = time.process_time()
    assert read(write(tmp_path, *spans), lambda _: None)
    assert time.process_time() - start < 60
