"""Spans of OpenInference, of OpenTelemetry's console exporter, and of the OpenAI Agents SDK."""

import json
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.types import UNKNOWN_USAGE, Usage
from boolab.logs.load import load_runs, read_logs
from tests.support.readers import fates, only, reader_of, write_lines
from tests.support.samples import own

read = reader_of("otel")
OPENINFERENCE, AGENTS_SDK = "otel/openinference.json", "otel/agents-sdk.jsonl"


def spans_of(sample: str) -> list[dict[str, Any]]:
    content = own(sample).read_text()
    return json.loads(content)["spans"] if sample.endswith(".json") else [*map(json.loads, content.splitlines())]


def essence(run: Run) -> object:
    return (run.run_id, run.agent, run.stop, run.steps, [message.text for message in run.prompt])


def test_spans_of_openinference_are_steps_calls_and_agents() -> None:
    (run,) = load_runs(own(OPENINFERENCE))
    assert (run.run_id, run.agent, run.model, run.harness_version) == ("s-99aa0001", "clerk", "acme-1", "3.2")
    assert [message.text for message in run.prompt] == ["You file.", "File the letter"]
    assert [step.response.text for step in run.steps] == ["I look.", "Filed."]
    assert [step.response.finish_reason for step in run.steps] == ["tool_calls", "stop"]
    assert [step.response.usage for step in run.steps] == [Usage(100, 20, 40, 5, 2000), Usage(130, 6)]
    assert [call.arguments for call in run.steps[0].response.tool_calls] == ['{"what":"letter"}', '{"drawer":3}']
    assert fates(run) == [[False, True], []]
    assert [(step.start_ms, step.model_ms) for step in run.steps] == [(200, 1800), (3000, 2000)]
    assert run.stop.reason == "finished"


def test_spans_of_a_chain_are_no_steps_and_may_lie_between() -> None:
    kinds = [span["attributes"]["openinference.span.kind"] for span in spans_of(OPENINFERENCE)]
    assert kinds == ["AGENT", "CHAIN", "LLM", "TOOL", "TOOL", "LLM"]
    (run,) = load_runs(own(OPENINFERENCE))
    assert run.n_steps == 2


@pytest.mark.parametrize("sample", [OPENINFERENCE, AGENTS_SDK])
@pytest.mark.parametrize("form", ["lines", "list", "spans", "traces"])
def test_spans_are_read_in_every_form_of_their_file(tmp_path: Path, sample: str, form: str) -> None:
    (expected,) = load_runs(own(sample))
    spans, path = spans_of(sample), tmp_path / "a.json"
    if form == "lines":
        path = write_lines(tmp_path / "a.jsonl", *spans)
    else:
        inner: Any = [{**spans[0], "spans": spans[1:]}] if form == "traces" else spans
        path.write_text(json.dumps(inner if form == "list" else {form: inner}))
    assert [row.format for row in read_logs(path).files] == ["otel"]
    assert essence(only(read(path))) == essence(expected)


def test_spans_of_openinference_are_the_same_in_otlp(tmp_path: Path) -> None:
    def value(item: object) -> dict[str, Any]:
        kind = "stringValue" if isinstance(item, str) else "intValue" if isinstance(item, int) else "doubleValue"
        return {kind: str(item) if kind == "intValue" else item}

    spans = [
        {
            "traceId": span["context"]["trace_id"],
            "spanId": span["context"]["span_id"],
            "parentSpanId": span["parent_id"] or "",
            "startTimeUnixNano": str(1_780_650_000_000_000_000 + number * 10**9),
            "endTimeUnixNano": str(1_780_650_000_500_000_000 + number * 10**9),
            "attributes": [{"key": name, "value": value(item)} for name, item in span["attributes"].items()],
        }
        for number, span in enumerate(spans_of(OPENINFERENCE))
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    run = only(read(path))
    assert [step.response.usage for step in run.steps] == [Usage(100, 20, 40, 5, 2000), Usage(130, 6)]
    assert run.n_tool_calls == 2


def test_arguments_that_no_span_has_are_unknown(tmp_path: Path) -> None:
    spans = spans_of(OPENINFERENCE)
    for span in spans:
        names = [name for name in span["attributes"] if "message" in name or name.startswith(("input", "tool_call"))]
        for name in names:
            del span["attributes"][name]
    run = only(read(write_lines(tmp_path / "a.jsonl", *spans)))
    assert [call.arguments for call in run.steps[0].response.tool_calls] == ["<redacted>", "<redacted>"]


def test_the_agents_sdk_has_responses_functions_and_agents() -> None:
    (run,) = load_runs(own(AGENTS_SDK))
    assert (run.run_id, run.agent, run.model) == ("thread_99bb", "sorter", "acme-2")
    assert [message.text for message in run.prompt] == ["You sort.", "Sort the pens"]
    assert [step.response.usage for step in run.steps] == [Usage(50, 10), UNKNOWN_USAGE]
    assert fates(run) == [[False], []]
    result = run.steps[0].results[0]
    assert result is not None
    assert (result.content, result.duration_ms) == ("7", 300)


def test_the_limit_on_turns_of_the_agents_sdk_is_a_step_cap() -> None:
    (run,) = load_runs(own(AGENTS_SDK))
    assert run.stop.reason == "step_cap"


def test_a_trace_without_a_group_is_the_conversation(tmp_path: Path) -> None:
    trace, *spans = spans_of(AGENTS_SDK)
    run = only(read(write_lines(tmp_path / "a.jsonl", {**trace, "group_id": None}, *spans)))
    assert run.run_id == "trace_99bb0001"


def test_a_failed_function_is_an_error(tmp_path: Path) -> None:
    spans = spans_of(AGENTS_SDK)
    spans[2]["error"] = {"message": "Error running tool", "data": {"error": "no pens"}}
    assert fates(only(read(write_lines(tmp_path / "a.jsonl", *spans)))) == [[True], []]


def test_details_of_usage_are_cache_and_reasoning(tmp_path: Path) -> None:
    spans = spans_of(AGENTS_SDK)
    spans[1]["span_data"]["usage"] |= {
        "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    run = only(read(write_lines(tmp_path / "a.jsonl", *spans)))
    assert run.steps[0].response.usage == Usage(50, 10, 40, 3, None, 0)


def test_a_handoff_is_its_calls_result_and_finishes_the_run(tmp_path: Path) -> None:
    trace, reply, function, *_, agent = spans_of(AGENTS_SDK)
    call = reply["span_data"]["output"][0]["tool_calls"][0]
    call["function"] = {"name": "transfer_to_tall_writer", "arguments": "{}"}
    function["span_data"] = {"type": "handoff", "from_agent": "sorter", "to_agent": "Tall Writer"}
    run = only(read(write_lines(tmp_path / "a.jsonl", trace, reply, function, {**agent, "error": None})))
    assert [call.name for call in run.steps[0].response.tool_calls] == ["transfer_to_tall_writer"]
    assert (fates(run), run.stop.reason) == ([[False]], "finished")


def test_a_handoff_of_openinference_is_the_same(tmp_path: Path) -> None:
    spans = spans_of(OPENINFERENCE)[:4]
    made, tool = spans[2]["attributes"], spans[3]
    call = "llm.output_messages.0.message.tool_calls.0.tool_call"
    kept = {name: value for name, value in made.items() if ".tool_calls." not in name}
    spans[2]["attributes"] = {**kept, f"{call}.id": "call_1", f"{call}.function.name": "transfer_to_writer"}
    tool["name"], tool["status"] = "handoff to Writer", {"status_code": "OK"}
    tool["attributes"] = {"openinference.span.kind": "TOOL", "input.value": "Clerk", "output.value": "Writer"}
    run = only(read(write_lines(tmp_path / "a.jsonl", *spans)))
    assert [call.name for call in run.steps[0].response.tool_calls] == ["transfer_to_writer"]
    assert (fates(run), run.stop.reason) == ([[False]], "finished")


def test_an_agent_without_a_name_around_agents_is_no_run(tmp_path: Path) -> None:
    spans = spans_of(OPENINFERENCE)
    wrapper = json.loads(json.dumps(spans[0])) | {"name": "Workflow", "parent_id": None}
    wrapper["context"]["span_id"] = spans[0]["parent_id"] = "0x99aa0000000000ff"
    wrapper["attributes"] = {"openinference.span.kind": "AGENT"}
    run = only(read(write_lines(tmp_path / "a.jsonl", wrapper, *spans)))
    assert (run.agent, run.parent_run_id, run.n_steps) == ("clerk", None, 2)


def test_results_in_the_history_before_a_run_answer_its_calls(tmp_path: Path) -> None:
    trace, reply, function, *_ = spans_of(AGENTS_SDK)
    asked = {"role": "assistant", "tool_calls": [{"id": "call_0", "function": {"name": "transfer_to_sorter"}}]}
    reply["span_data"]["input"] += [asked, {"role": "tool", "tool_call_id": "call_0", "content": "sorter"}]
    path = write_lines(tmp_path / "a.jsonl", trace, reply, function)
    assert [row.warnings for row in read_logs(path).files] == [()]
