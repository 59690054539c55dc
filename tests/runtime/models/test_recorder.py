"""Recordings: what a model was asked and what it said, written down and played again."""

import asyncio
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.messages import Message, Text
from boolab.core.run import Run
from boolab.core.types import Event, Response, ToolCall, ToolResult, Usage
from boolab.errors import ModelError, ReadWarning, RunFormatError, ScriptExhausted, SettingError
from boolab.harnesses.compaction import Compaction
from boolab.runtime.agents.agent import Agent
from boolab.runtime.engine.abort import Abort
from boolab.runtime.engine.runner import resume, run, run_sync
from boolab.runtime.models.base import Emit, Model, Request
from boolab.runtime.models.recorded import RecordedModel
from boolab.runtime.models.recorder import record
from boolab.runtime.models.recording import Chain, read_recording
from boolab.runtime.models.scripted import ScriptedModel
from tests.support.cases import cases, first
from tests.support.helpers import TOOLS, call, distinct, play, steps
from tests.support.model_protocols import Said, Speaks, both, go
from tests.support.model_server import CLOSE, ModelServer, stream
from tests.whatif.test_properties import FREE, NEVER, scripts

MATCHES: tuple[Literal["order"], Literal["request"]] = ("order", "request")


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a recording."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def of_kind(path: Path, kind: str) -> list[dict[str, Any]]:
    return [row for row in rows(path) if row["kind"] == kind]


def recorded(path: Path, items: Any, **options: Any) -> Run:
    """A run of a script under record."""
    return play(record(items if hasattr(items, "respond") else ScriptedModel(items), path), **options)


def alike(run: Run) -> Run:
    """A run without what differs between two runs of the same thing."""
    return replace(run, run_id="", started_at=None, continuation=None)


class Answering:
    """A model whose answers a function gives."""

    def __init__(self, answer: Any) -> None:
        self.name = "answering"
        self._answer = answer

    async def respond(self, request: Request, emit: Emit | None = None) -> Any:
        return self._answer(request, emit)


# What is written.


def test_recording_writes_each_message_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recorded(path, distinct(3))
    kinds = [row["kind"] for row in rows(path)]
    assert kinds[:4] == ["recording", "tools", "message", "exchange"]
    assert (kinds.count("message"), kinds.count("tools"), kinds.count("exchange")) == (1 + 3 * 2, 1, 4)
    messages = of_kind(path, "message")
    assert [row.get("after", "") for row in messages] == ["", *(row["id"] for row in messages[:-1])]
    assert [row["after"] for row in of_kind(path, "exchange")] == [row["id"] for row in messages[::2]]


def test_recording_header_has_the_traits_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    record(ScriptedModel([], name="small", context_window=9000, summary="So."), path)
    assert rows(path) == [
        {"kind": "recording", "version": 1, "boolab": rows(path)[0]["boolab"], "model": "small", "context_window": 9000}
    ]
    again = RecordedModel(path)
    assert (again.name, again.context_window, again.summarises, again.compacts) == ("small", 9000, True, True)
    assert isinstance(again, Model)


def test_recording_shares_messages_of_similar_runs(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    model = record(ScriptedModel(distinct(5)), path)
    once = path.stat().st_size
    play(model)
    first = path.stat().st_size - once
    play(model)
    assert len(of_kind(path, "message")) == 11
    assert [row["conversation"] for row in of_kind(path, "exchange")] == [1] * 6 + [2] * 6
    assert path.stat().st_size - once < 2 * first


def test_recording_grows_linearly(tmp_path: Path) -> None:
    sizes = []
    for n in (100, 200, 400):
        path = tmp_path / f"{n}.jsonl"
        recorded(path, [{"tool_calls": [call("look", what=f"{i:04}")]} for i in range(n)], policy=FREE, stop=NEVER)
        sizes.append(path.stat().st_size)
    assert sizes[2] - sizes[1] < 2.1 * (sizes[1] - sizes[0])


def test_what_the_loop_asks_of_a_model_it_asks_of_the_one_inside(tmp_path: Path) -> None:
    tools = {"look": {"text": "from the script"}}
    script = ScriptedModel(steps("A B"), summary="So far.", tools=tools, context_window=70)
    seen: Any = record(script, tmp_path / "a.jsonl")
    assert (seen.name, seen.virtual, seen.summarises, seen.compacts) == ("scripted", True, True, True)
    assert (seen.context_window, seen.replies_to("look"), seen.replies_to("write")) == (70, True, False)
    assert not hasattr(seen, "own_tools")
    assert play(seen).steps == play(script).steps
    assert play(seen).messages[2].parts == play(script).messages[2].parts


def test_recording_has_failures_with_partial_responses(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recorded(path, [{"text": "one two three", "error": {"status": 503, "after": 7}, "latency_ms": 40}])
    (row,) = of_kind(path, "exchange")
    assert row["ms"] == 40
    assert row["failure"] == {
        "message": "HTTP 503 after 7 characters", "recorded": "ModelError: HTTP 503 after 7 characters", "status": 503,
        "retryable": True, "partial": {"text": "one two"},
    }  # fmt: skip


def test_a_request_that_was_cancelled_is_written_as_such(tmp_path: Path) -> None:
    path, abort = tmp_path / "a.jsonl", Abort()

    def watcher(event: Event) -> None:
        if event.payload.get("text") == "two ":
            abort.abort()

    live = recorded(path, [*steps("A", None), "one two three"], on_event=watcher, abort=abort)
    assert live.stop_reason == "aborted"
    assert [row.get("cancelled", False) for row in of_kind(path, "exchange")] == [False, True]
    assert "was cancelled" in str(play(RecordedModel(path)).error)
    assert "it was cancelled" in str(play(RecordedModel(path, match="request")).error)


def test_recording_has_a_malformed_response_as_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    live = recorded(path, Answering(lambda *_: "no response"))
    again = play(RecordedModel(path), clock=VirtualClock())
    assert (
        live.error
        == again.error
        == "ModelError: the response of the model answering is malformed: it is a str, not a Response"
    )


@pytest.mark.parametrize("match", MATCHES)
def test_opaque_parts_and_native_words_come_back(tmp_path: Path, match: Any) -> None:
    path = tmp_path / "a.jsonl"
    said = Response("Hi.", (), "stop", Usage(3, 2, 1, 1, 9), "Hm.", 5, "end_turn", '[{"signature":"xyz"}]')
    call_first = said._replace(tool_calls=(ToolCall("c1", "look", "{}"),), finish_reason="tool_calls")
    live = recorded(path, [call_first, said])
    again = play(RecordedModel(path, match=match))
    assert again.steps == live.steps
    assert again.steps[0].response == call_first
    assert any(
        part.get("opaque") == said.opaque for row in of_kind(path, "message") for part in row["message"]["parts"]
    )


def test_half_surrogates_and_all_kinds_of_line_ends_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    text = "\ud83d \u2028 \r\n \x85 \0 é"
    live = recorded(path, [text])
    assert play(RecordedModel(path)).steps == live.steps


# Where it cannot be written.


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("mine")
    with pytest.raises(SettingError, match=r"a\.jsonl exists already and is not overwritten: give another name"):
        record(ScriptedModel([]), path)
    assert path.read_text() == "mine"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"nowhere/a\.jsonl cannot be written: No such file or directory; give"):
        record(ScriptedModel([]), tmp_path / "nowhere" / "a.jsonl")


@pytest.mark.parametrize("model", ["gpt", None, ScriptedModel, object()])
def test_only_a_model_can_be_recorded(tmp_path: Path, model: Any) -> None:
    with pytest.raises(SettingError, match="is no model: expected a `name`"):
        record(model, tmp_path / "a.jsonl")
    assert not (tmp_path / "a.jsonl").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is always full")
def test_recorder_reports_a_full_disk_once_per_run(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    model = record(ScriptedModel(distinct(3)), path)
    first = play(model)
    size = path.stat().st_size
    mine = next(
        int(fd.name) for fd in Path("/proc/self/fd").iterdir() if fd.exists() and fd.resolve() == path.resolve()
    )
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123 - a descriptor is needed
        os.dup2(full.fileno(), mine)
    runs = [run_sync(Agent("tester", tools=TOOLS), "another", model=model) for _ in range(2)]
    for late in runs:
        assert (late.stop_reason, late.n_steps) == ("finished", 4)
        faults = [event.payload["what"] for event in late.events if event.kind == "fault"]
        assert faults == [f"the recording {path} ends early: No space left on device"]
    assert path.stat().st_size == size
    assert play(RecordedModel(path)).steps == first.steps


# Played again.


@cases(60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_run_played_from_its_recording_is_the_same_run(data: Any) -> None:
    script = data.draw(scripts(pauses=True))
    summary = data.draw(st.sampled_from([None, "So far.", {"error": {"reset": True}}, {"tool_calls": [call("x")]}]))
    options: dict[str, Any] = {
        "max_steps": data.draw(st.sampled_from([None, 1, 2, 3, 5])),
        "tool_budget": data.draw(st.sampled_from([None, 1, 3, 6])),
        "doom_loop": data.draw(st.sampled_from([None, 2, 3])),
        "policy": data.draw(st.sampled_from(["boocode", "naive", "opencode_3631", "claude_code", "swe_agent"])),
        "seed": data.draw(st.sampled_from([None, 7])),
    }
    if data.draw(st.booleans()):
        options["compaction"] = Compaction(at_tokens=data.draw(st.integers(1, 60)), keep_steps=1)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        first = recorded(path, ScriptedModel(script, summary=summary), **options)
        for match in MATCHES:
            again = play(RecordedModel(path, match=match), **options)
            assert alike(again) == alike(first)


@pytest.mark.parametrize("match", MATCHES)
def test_a_paused_run_is_resumed_from_its_recording(tmp_path: Path, match: Any) -> None:
    path = tmp_path / "a.jsonl"
    script = [*distinct(2, None), {"tool_calls": [call("ask", question="?")]}, *distinct(2)]
    first = asyncio.run(resume(recorded(path, script), "the left one"))
    assert {row["conversation"] for row in of_kind(path, "exchange")} == {1, 2}
    again = asyncio.run(resume(play(RecordedModel(path, match=match)), "the left one"))
    assert (again.steps, again.stop) == (first.steps, first.stop)


@pytest.mark.parametrize("match", MATCHES)
def test_recording_replays_concurrent_runs_separately(tmp_path: Path, match: Any) -> None:
    path = tmp_path / "a.jsonl"

    def answer(request: Request, _emit: object) -> Response:
        task = request.messages[0].text
        more = request.index < int(task)
        return Response(f"{task}/{request.index}", (ToolCall("c", "look", "{}"),) if more else ())

    async def together(model: Any) -> list[Run]:
        agent = Agent("a", tools=TOOLS)
        return await asyncio.gather(*(run(agent, str(n), model=model, stop=NEVER) for n in range(9)))

    first = asyncio.run(together(record(Answering(answer), path)))
    again = asyncio.run(together(RecordedModel(path, match=match)))
    said = [[step.response for step in one.steps] for one in first]
    assert [len(texts) for texts in said] == list(range(1, 10))
    assert [[step.response for step in one.steps] for one in again] == said
    assert [one.stop for one in again] == [one.stop for one in first]


def test_recording_replays_similar_runs_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    given_ = iter("abc")
    model = record(Answering(lambda *_: Response(next(given_))), path)
    for task in ("same", "other", "same"):
        run_sync(None, task, model=model)
    tasks = ("other", "same", "same", "same", "other")
    for match in MATCHES:
        player = RecordedModel(path, match=match)
        assert [run_sync(None, task, model=player).text for task in tasks] == ["b", "a", "c", "a", "b"]


def test_recording_replays_times_and_executes_tools(tmp_path: Path) -> None:
    path, executed = tmp_path / "a.jsonl", []

    def note(what: str) -> str:
        """Note."""
        executed.append(what)
        return f"noted {what}"

    agent = Agent("a", tools=(note,))
    first = recorded(path, [{"tool_calls": [call("note", what="x")], "latency_ms": 1500}, "end"], agent=agent)
    again = play(RecordedModel(path), agent=agent)
    assert executed == ["x", "x"]
    assert again.steps == first.steps
    assert again.duration_ms == 1500


def test_recording_replay_emits_its_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recorded(path, [{"text": "Look.", "reasoning": "Hm.", "tool_calls": [call("look", what="A")]}, "end"])
    deltas: list[tuple[str, str]] = []

    def hear(event: Event) -> None:
        if event.kind == "delta":
            deltas.append((event.payload["of"], event.payload["text"]))

    play(RecordedModel(path), on_event=hear)
    assert deltas == [("reasoning", "Hm."), ("text", "Look."), ("tool_call", 'look {"what": "A"}'), ("text", "end")]


# Where a conversation leaves the recording.


def other_tools() -> Agent:
    """An agent whose tool gives other results than that of the same name in the helpers."""

    def look(what: str = "") -> str:
        """Look at something."""
        return f"seen {what}" if what != "1" else "nothing there"

    return Agent("tester", tools=(bl.tool(read_only=True)(look), *TOOLS[1:]))


def test_by_order_a_run_goes_on_and_notes_once_where_it_departed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    first = recorded(path, distinct(4))
    again = play(RecordedModel(path), agent=other_tools())
    assert [step.response for step in again.steps] == [step.response for step in first.steps]
    (event,) = (event for event in again.events if event.kind == "departed")
    facts = {"message": 5, "role": "tool", "recorded": "seen 1", "came": "nothing there"}
    assert event.payload == {"after_step": 3, **facts}
    assert "departed" in str(again)


def test_recording_by_order_notes_another_task(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    run_sync(None, "The date is 1 May. Go.", model=record(ScriptedModel(["Gone."]), path))
    late = run_sync(None, "The date is 2 May. Go.", model=RecordedModel(path))
    assert late.text == "Gone."
    assert [(event.kind, event.payload["came"]) for event in late.events] == [("departed", "The date is 2 May. Go.")]


def test_recording_by_order_refuses_an_unknown_task(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    model = record(ScriptedModel(["Yes."]), path)
    for task in ("one", "two"):
        run_sync(None, task, model=model)
    error = run_sync(None, "three", model=RecordedModel(path)).error
    assert error == (
        f"ScriptExhausted: {path}: no conversation begins with this request: its first message is not known; "
        "message 1 (user): recorded 'one', came 'three'"
    )


def test_by_order_other_settings_are_noted_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recorded(path, ["Hi."], seed=1)
    again = play(RecordedModel(path), seed=2)
    assert [event.payload["what"] for event in again.events] == ["differs from the recording: seed"]


def test_by_order_answers_that_run_out_say_where(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recorded(path, distinct(9), max_steps=2)
    again = play(RecordedModel(path), max_steps=5)
    assert (again.stop_reason, again.n_steps) == ("error", 3)
    assert again.error == (
        f"ScriptExhausted: {path}: conversation 1 has 2 responses of purpose step; one more was requested"
    )


def test_recording_by_request_names_the_first_difference(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.jsonl"
    recorded(path, distinct(4))
    offered = other_tools()
    again = play(RecordedModel(path, match="request"), agent=offered)
    assert again.error == (
        f"ScriptExhausted: {path}: this request is not in it: its first 4 messages are known; "
        "message 5 (tool): recorded 'seen 1', came 'nothing there'"
    )
    assert again.n_steps == 3


def test_by_request_settings_that_differ_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recorded(path, ["Hi."], seed=1)
    again = play(RecordedModel(path, match="request"), seed=2, agent=Agent("a", temperature=0.5))
    expected = "after the same messages the recorded request has other tools, temperature None, not 0.5, seed 1, not 2"
    assert again.error == f"ScriptExhausted: {path}: this request is not in it: {expected}"


def test_excerpts_begin_shortly_before_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    run_sync(None, f"{'x' * 500} the left one", model=record(ScriptedModel(["Hi."]), path))
    (event,) = run_sync(None, f"{'x' * 500} the right one", model=RecordedModel(path)).events
    assert (event.payload["recorded"], event.payload["came"]) == (
        "…" + "x" * 10 + " the left one",
        "…" + "x" * 10 + " the right one",
    )


# Files that are no whole recordings.


@pytest.mark.parametrize("begin", first(1, range(3)))
def test_a_recording_that_is_cut_anywhere_plays_what_is_whole(tmp_path: Path, begin: int) -> None:
    path, cut = tmp_path / "a.jsonl", tmp_path / "cut.jsonl"
    first = recorded(path, [{"text": "é", "tool_calls": [call("look", what="é")]}, "ende"])
    data = path.read_bytes()
    header = data.index(b"\n") + 1
    for end in [*range(header + begin, len(data), 3), len(data)]:
        cut.write_bytes(data[:end])
        whole = data[:end].endswith(b"\n") or data[end : end + 1] == b"\n"
        if whole:
            recording = read_recording(cut)
        else:
            line = data[:end].count(b"\n") + 1
            message = f"{cut}:{line}: the last line is incomplete; the rest is replayed"
            with pytest.warns(ReadWarning, match=re.escape(message)):
                recording = read_recording(cut)
        answers = [one.response for one in recording.exchanges]
        assert answers == [step.response for step in first.steps][: len(answers)]
    assert len(answers) == 2


def test_a_header_that_is_cut_is_no_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    record(ScriptedModel([]), path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(RunFormatError, match=r"a\.jsonl:1: no recording: its first line is no JSON"):
        RecordedModel(path)


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (lambda lines: [], 1, "no recording: its first line is not the one that bl.record writes"),
        (lambda lines: ['{"schema_version": "ATIF-v1.7"}'], 1, "no recording: its first line is not the one"),
        (lambda lines: ["[1]"], 1, "no recording: its first line is not the one"),
        (lambda lines: [lines[0].replace('"version":1', '"version":2')], 1, "a recording of version 2, by boolab "),
        (lambda lines: [lines[0].replace('"model"', '"modell"')], 1, "is not a Header"),
        (lambda lines: [lines[0], lines[1][:20], *lines[2:]], 2, "not JSON: "),
        (lambda lines: [lines[0], "{}"], 2, "kind None is not one of message, tools, exchange"),
        (lambda lines: [lines[0], *lines[2:]], 3, "the tools '"),
        (lambda lines: [*lines[:2], *lines[3:]], 3, "the exchange follows message '"),
        (lambda lines: [*lines[:3], lines[3].replace('"response"', '"reply"')], 4, "is not a Exchange"),
        (lambda lines: [*lines[:3], re.sub(r',"response":.*', "}", lines[3])], 4, "an exchange without response"),
        (lambda lines: [*lines[:3], "[" * 100_000], 4, "not JSON: "),
        (lambda lines: [*lines[:2], '{"kind": []}'], 3, "kind [] is not one of message, tools, exchange"),
        (lambda lines: [*lines[:3], following_itself(lines[2])], 4, "exists already"),
        (lambda lines: [*lines[:3], '{"kind":"message","id":"","message":{"role":"user","parts":[]}}'], 4, "''"),
        (lambda lines: [*lines[:3], lines[3].replace('"ms":0', '"ms":-1')], 4, "ms: -1 is no time of a request"),
        (lambda lines: [*lines[:3], lines[3].replace('"ms":0', f'"ms":{10**400}')], 4, "ms: 1000"),
    ],
)  # fmt: skip
def test_a_damaged_recording_is_refused_with_path_and_line(
    tmp_path: Path, change: Any, line: int, message: str
) -> None:
    path = tmp_path / "a.jsonl"
    recorded(path, steps("A"))
    lines = change(path.read_text().splitlines())
    path.write_text("".join(f"{text}\n" for text in lines))
    with pytest.raises(RunFormatError) as caught:
        RecordedModel(path)
    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert message in caught.value.message


def following_itself(line: str) -> str:
    row = json.loads(line)
    return json.dumps(row | {"after": row["id"]})


WRONG: tuple[Any, ...] = (
    None, True, 0, -1, 10**30, 10**400, 0.5, "", "x", "\ud800", [], {}, [[1]], {"a": 1},
    {"$pairs": 1}, {"$pairs": [1]}, {"$pairs": [[[1], 2]]}, {"$tuple": 1},
)  # fmt: skip


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All places in a JSON value."""
    yield place
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*place, key))


def put(value: Any, place: tuple[Any, ...], other: Any) -> Any:
    """A JSON value with another in that place."""
    if not place:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = put(copy[place[0]], place[1:], other)
    return copy


@cases(100, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_whatever_stands_in_a_recording_it_is_refused_or_played(data: Any) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        first = {"tool_calls": [call()], "reasoning": "Hm.", "latency_ms": 5, "usage": {"input_tokens": 1}}
        recorded(path, [first, {"text": "one two", "error": {"status": 503, "after": 3}}], seed=3)
        lines = rows(path)
        number = data.draw(st.integers(0, len(lines) - 1))
        place = data.draw(st.sampled_from([*places(lines[number])]))
        lines[number] = put(lines[number], place, data.draw(st.sampled_from(WRONG)))
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        try:
            model = RecordedModel(path, match=data.draw(st.sampled_from(MATCHES)))
        except RunFormatError:
            return
        for seed in (3, None):
            ended = play(model, seed=seed)
            assert ended.stop_reason in ("error", "finished", "step_cap")
            failure = (ended.error or "").partition(":")[0]
            assert failure in ("", "ScriptExhausted", "ModelError") or failure in map(str, WRONG), ended.error


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match=r"a\.jsonl: cannot be read: No such file or directory"):
        RecordedModel(tmp_path / "a.jsonl")


def test_recorded_model_refuses_other_arguments() -> None:
    one = play(["x"])
    nothing: Any = 3
    with pytest.raises(SettingError, match="3 is neither a Run nor the path of a recording"):
        RecordedModel(nothing)
    with pytest.raises(SettingError, match="match='best' is not accepted: expected 'order' or 'request'"):
        RecordedModel(one, match="best")  # type: ignore[arg-type] # on purpose
    with pytest.raises(SettingError, match="a run is replayed in order"):
        RecordedModel(one, match="request")


def test_a_model_can_be_recorded_and_played_outside_of_any_run(tmp_path: Path) -> None:
    def request(text: str) -> Request:
        return Request(0, [Message("user", (Text(text),))], (), VirtualClock())

    async def ask(model: Any, *texts: str) -> list[str]:
        return [(await model.respond(request(text))).text for text in texts]

    path = tmp_path / "a.jsonl"
    echo = Answering(lambda request, _: Response(request.messages[0].text.upper()))
    assert asyncio.run(ask(record(echo, path), "a", "b", "a")) == ["A", "B", "A"]
    assert [row["conversation"] for row in of_kind(path, "exchange")] == [1, 2, 3]
    for match in MATCHES:
        player = RecordedModel(path, match=match)
        assert asyncio.run(ask(player, "b", "a")) == ["B", "A"]
        with pytest.raises(ScriptExhausted, match="recorded 'a', came 'c'"):
            asyncio.run(ask(player, "c"))


def test_recording_replays_any_exception_as_a_model_error(tmp_path: Path) -> None:
    def fail(*_: object) -> Response:
        raise KeyError("x")

    path = tmp_path / "a.jsonl"
    first = recorded(path, Answering(fail))
    again = play(RecordedModel(path))
    assert first.error == again.error == "KeyError: 'x'"
    with pytest.raises(ModelError, match="KeyError: 'x'"):
        asyncio.run(RecordedModel(path).respond(Request(0, first.prompt, (), VirtualClock())))


@both
def test_a_real_model_is_recorded_and_played_without_its_server(tmp_path: Path, speaks: Speaks) -> None:
    path = tmp_path / "a.jsonl"
    looking = Said("I look. ", [("call_1", "look", '{"what": "the sea"}')], reasoning="Hm.", usage=(20, 7))
    events = [list(speaks.events(said)) for said in (looking, looking, Said("Done."))]
    with ModelServer(stream(*events[0]), [*stream(*events[1])[:-4], CLOSE]) as server:
        first = go(record(speaks.model(server.url), path))
    assert [step.broke_off for step in first.steps] == [False, True]
    for match in MATCHES:
        again = go(RecordedModel(path, match=match))
        assert [step.response for step in again.steps] == [step.response for step in first.steps]
        assert (again.stop, again.error) == (first.stop, first.error)


def test_runs_of_several_threads_leave_a_whole_recording(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    model = record(ScriptedModel(distinct(6)), path)
    together = threading.Barrier(8)

    def work() -> None:
        together.wait()
        for n in range(10):
            asyncio.run(run(None, f"Task {n}", model=model, tools=TOOLS))

    threads = [threading.Thread(target=work) for _ in range(8)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # the threads change places as often as they can
    try:
        for thread in threads:
            thread.start()
    finally:
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    recording = read_recording(path)
    assert len(recording.exchanges) == 8 * 10 * 7
    assert len({exchange.conversation for exchange in recording.exchanges}) == 8 * 10


@pytest.mark.parametrize("path", [5, None, b"a.jsonl"])
def test_what_is_no_path_cannot_be_recorded_to(path: Any) -> None:
    with pytest.raises(SettingError, match="expected the path of the new file"):
        record(ScriptedModel([]), path)


def test_what_a_cancelled_request_brought_is_written(tmp_path: Path) -> None:
    def answer(request: Request, emit: Emit | None) -> Response:
        error = asyncio.CancelledError()
        error.partial = Response("One")  # type: ignore[attr-defined] # as real models do
        raise error

    path = tmp_path / "a.jsonl"
    recorded(path, Answering(answer))
    (exchange,) = read_recording(path).exchanges
    assert (exchange.cancelled, exchange.response) == (True, Response("One"))


def test_how_long_a_tool_took_changes_no_conversation() -> None:
    chain = Chain()
    slow, fast = (Message("tool", (ToolResult("1", "seen", duration_ms=ms),)) for ms in (900, 1))
    assert chain([slow]) == chain([fast])


def test_recording_replays_conversations_in_order_of_start(tmp_path: Path) -> None:
    async def both_runs() -> None:
        gate = asyncio.Event()

        async def late(request: Request, emit: Emit | None = None) -> Response:
            await gate.wait()
            return Response("began first")

        async def early(request: Request, emit: Emit | None = None) -> Response:
            gate.set()
            return Response("ended first")

        answers = iter((late, early))
        inner = Answering(None)
        inner.respond = lambda request, emit=None: next(answers)(request, emit)  # type: ignore[method-assign]
        both = record(inner, tmp_path / "c.jsonl")
        await asyncio.gather(run(None, "Go", model=both), run(None, "Go", model=both))

    asyncio.run(both_runs())
    player = RecordedModel(tmp_path / "c.jsonl")
    assert [play(player).text for _ in "12"] == ["began first", "ended first"]


def test_calls_of_a_response_that_broke_are_not_told_as_complete(tmp_path: Path) -> None:
    def answer(request: Request, emit: Emit | None) -> Response:
        raise ModelError("cut", partial=Response("I", (ToolCall("1", "look", '{"wh'),)))

    path, told = tmp_path / "a.jsonl", []
    recorded(path, Answering(answer))
    play(RecordedModel(path), on_event=lambda event: told.append((event.kind, event.payload.get("of"))))
    assert ("delta", "text") in told
    assert ("delta", "tool_call") not in told
