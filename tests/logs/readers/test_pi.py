"""Sessions of pi, and of OpenClaw in the same format."""

from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.types import UNKNOWN_USAGE, Usage
from boolab.errors import ReadWarning
from boolab.logs.load import load_runs
from tests.support.readers import only, reader_of, write_lines
from tests.support.samples import own, shared

read = reader_of("pi")

HEADER = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-03-04T09:00:00.000Z", "cwd": "/srv"}


def said(role: str, content: Any = "Hello", **more: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content, **more}}


def asks(*ids: str, stop: str = "toolUse", **more: Any) -> dict[str, Any]:
    calls = [{"type": "toolCall", "id": name, "name": "bash", "arguments": {"command": "ls"}} for name in ids]
    return said("assistant", calls, stopReason=stop, **more)


def gives(name: str, **more: Any) -> dict[str, Any]:
    return said("toolResult", [{"type": "text", "text": "ok"}], toolCallId=name, **more)


def write(folder: Path, *lines: object) -> Path:
    return write_lines(folder / "session.jsonl", *lines)


def one(folder: Path, *lines: object) -> Run:
    return only(read(write(folder, HEADER, *lines)))


def test_the_real_session_is_counted_without_its_empty_aborts() -> None:
    (run,) = read(shared("pi/large-session.jsonl"))
    calls = [call for step in run.steps for call in step.response.tool_calls]
    results = [result for step in run.steps for result in step.results]
    assert (run.n_steps, len(calls), run.n_tool_calls) == (439, 391, 373)
    assert sum(result.is_error is True for result in results if result is not None) == 19
    assert results.count(None) == 18
    assert sum(event.kind == "abort" for event in run.events) == 14
    broken = [step for step in run.steps if step.error]
    assert (len(broken), sum(len(step.dropped) for step in broken)) == (8, 18)
    assert {step.response.finish_reason for step in broken} == {None}


def test_the_branch_that_the_session_went_on_with_is_the_run() -> None:
    (run,) = load_runs(own("pi/branches.jsonl"))
    assert (run.source, run.run_id, run.agent) == ("pi", "0d5f0000-aaaa-7000-8000-000000000001", "pi")
    assert (run.task, run.model) == ("Find out why the total on an invoice is wrong", "acme-large")
    assert (run.n_steps, run.n_tool_calls) == (5, 3)
    assert [step.turn for step in run.steps] == [1, 1, 2, 3, 3]
    assert [step.response.finish_reason for step in run.steps] == ["tool_calls", "stop", None, "tool_calls", "stop"]
    assert [(event.kind, dict(event.payload)) for event in run.events] == [
        ("rewind", {"after_step": 2, "steps": 2}),
        ("abort", {"after_step": 3, "what": "Request was aborted."}),
        ("fault", {"after_step": 3, "what": "529 the service is overloaded"}),
        ("compaction", {"after_step": 4, "tokens": 1400}),
    ]
    assert [(before, message.text) for before, message in run.inputs] == [
        (3, "Tried a rewrite of the module; it was not wanted."),
        (3, "Only remove the second discount"),
        (4, "Go on"),
        (4, "Go on, please"),
        (5, "The second discount was removed."),
        (6, "$ git diff --stat\ninvoice.py | 1 -"),
    ]
    assert run.stop == ("finished", 1, None, None, None, ())


def test_parallel_calls_are_paired_with_results_by_id() -> None:
    (run,) = read(own("pi/branches.jsonl"))
    first = run.steps[0]
    assert first.response.reasoning == "Two places to look."
    assert [call.arguments for call in first.response.tool_calls] == [
        '{"command":"grep -n total invoice.py"}',
        '{"path":"prices.py"}',
    ]
    assert [result and result.is_error for result in first.results] == [False, True]
    assert first.response.usage == Usage(1205, 40, 0, None, 5100, 1200)
    assert (first.start_ms, first.model_ms, first.duration_ms) == (1000, 2000, 4000)


def test_calls_of_a_response_that_was_aborted_were_dropped() -> None:
    (run,) = read(own("pi/branches.jsonl"))
    broken = run.steps[2]
    assert broken.error == "Request was aborted."
    assert [call.name for call in broken.dropped] == ["edit"]
    assert run.steps[3].dropped == ()


def test_sessions_of_version_1_are_read_line_by_line() -> None:
    with pytest.warns(ReadWarning, match="1 tool result answers no call"):
        (run,) = load_runs(own("pi/version1.jsonl"))
    assert [step.turn for step in run.steps] == [1, 2, 2]
    assert [step.response.finish_reason for step in run.steps] == ["length", "tool_calls", None]
    assert [step.response.usage.cost for step in run.steps] == [200, None, None]
    assert (run.model, run.stop[:2], run.error) == ("acme-small", ("error", 1), "terminated")


def test_openclaw_usage_is_unknown_and_its_mirror_is_no_response() -> None:
    (run,) = load_runs(own("pi/openclaw.jsonl"))
    assert (run.n_steps, run.n_tool_calls, run.stop[:2]) == (2, 1, ("finished", 1))
    assert {step.response.usage for step in run.steps} == {UNKNOWN_USAGE}
    assert {step.response.finish_reason for step in run.steps} == {None}
    assert [result and result.is_error for result in run.steps[0].results] == [None]
    assert [message.text for message in run.prompt] == ["It is Wednesday.", "What is on today?"]


def test_a_session_may_return_to_a_branch_that_it_had_left(tmp_path: Path) -> None:
    def entry(name: str, parent: str | None, line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "id": name, "parentId": parent}

    run = one(
        tmp_path,
        entry("a", None, said("user")),
        entry("b", "a", said("assistant", "first")),
        entry("c", "a", said("user", "Again")),
        entry("d", "c", said("assistant", "second")),
        entry("e", "b", said("user", "Back")),
        entry("f", "e", said("assistant", "third")),
    )
    assert [step.response.text for step in run.steps] == ["first", "third"]
    assert [dict(event.payload) for event in run.events] == [{"after_step": 1, "steps": 1}]


def test_rewritten_first_message_drops_everything_before(tmp_path: Path) -> None:
    run = one(
        tmp_path,
        {**said("user", "One"), "id": "a", "parentId": None},
        {**said("assistant", "1"), "id": "b", "parentId": "a"},
        {**said("user", "Two"), "id": "c", "parentId": None},
        {**said("assistant", "2"), "id": "d", "parentId": "c"},
    )
    assert (run.task, run.text, run.n_steps) == ("Two", "2", 1)


def test_a_run_that_asked_for_tools_last_was_aborted(tmp_path: Path) -> None:
    run = one(tmp_path, said("user"), asks("c1"), gives("c1", isError=False))
    assert run.stop[:2] == ("aborted", 1)
    assert one(tmp_path, said("user"), asks("c1", stop="aborted")).stop[:2] == ("aborted", 0)


def test_an_abort_before_anything_came_ends_the_run(tmp_path: Path) -> None:
    run = one(tmp_path, said("user"), said("assistant", "Hi"), said("user"), asks(stop="aborted"))
    assert (run.n_steps, run.stop[:2]) == (1, ("aborted", 0))


def test_an_abort_that_was_paid_for_is_a_step(tmp_path: Path) -> None:
    run = one(tmp_path, said("user"), said("assistant", [], stopReason="aborted", usage={"input": 9, "output": 0}))
    assert (run.n_steps, run.steps[0].error, run.stop.reason) == (1, "aborted", "aborted")


def test_what_is_no_step_does_not_count_as_left_behind(tmp_path: Path) -> None:
    lines = [said("user"), said("assistant", [], stopReason="aborted"), said("assistant", "a"), said("user"), asks("c")]
    tree = [{**line, "id": str(i), "parentId": str(i - 1) if i else None} for i, line in enumerate(lines)]
    tree[3]["parentId"] = "0"
    (rewind,) = one(tmp_path, *tree).events
    assert (rewind.kind, rewind.payload["steps"]) == ("rewind", 1)


def test_an_empty_response_that_was_not_broken_is_a_step(tmp_path: Path) -> None:
    run = one(tmp_path, said("user"), asks(stop="stop"))
    assert (run.n_steps, run.stop[:2]) == (1, ("finished", 0))


def test_a_header_alone_is_no_run(tmp_path: Path) -> None:
    assert read(write(tmp_path, HEADER)) == []


def test_truncated_file_names_its_line_and_is_aborted(tmp_path: Path) -> None:
    path = write(tmp_path, HEADER, said("user"), said("assistant", "Done."), said("user", "More"))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.warns(ReadWarning, match=":4: the file ends in the middle of a value"):
        (run,) = load_runs(path)
    assert (run.n_steps, run.stop.reason) == (1, "aborted")


def test_lines_that_are_no_objects_are_told(tmp_path: Path) -> None:
    with pytest.warns(ReadWarning, match=":2: a list; expected an object"):
        assert one(tmp_path, [1], said("user"), said("assistant")).n_steps == 1


def test_a_cost_of_0_for_tokens_is_unknown(tmp_path: Path) -> None:
    usage = {"input": 47000, "output": 9, "cacheRead": 0, "cacheWrite": 0, "cost": {"total": 0}}
    reply = {"role": "assistant", "content": "Done", "model": "m", "stopReason": "stop", "usage": usage}
    path = write_lines(
        tmp_path / "s.jsonl",
        {"type": "session", "id": "s", "cwd": "/", "timestamp": "2026-01-01T00:00:00Z"},
        {"type": "message", "message": {"role": "user", "content": "Hi"}},
        {"type": "message", "message": reply},
    )
    (run,) = load_runs(path, prices=False)
    assert run.steps[0].response.usage == Usage(47000, 9, 0, cache_write_tokens=0)
