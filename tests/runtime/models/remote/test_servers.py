"""What real servers say, understood: whole runs through a loopback server. Failures: test_failures.py."""

import asyncio
import json
from collections.abc import Sequence

import pytest

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.messages import Message, Text
from boolab.core.types import Event, Response
from boolab.runtime.models.base import Model, Request
from tests.support.cases import first
from tests.support.helpers import QUIET, look
from tests.support.model_protocols import MESSAGES, Said, Speaks, both, go
from tests.support.model_server import Act, Answer, Gate, ModelServer, stream

DONE = Said("All done.")
LOOK = Said("I look. ", [("call_1", "look", '{"what": "the sea"}')], usage=(20, 7))
RICH = Said(
    "Grüße, 世界 🌊!",
    [("call_1", "look", '{"what": "naïve \\"quotes\\" \\u00e9 🐚"}'), ("call_2", "write", '{"what": "日本"}')],
    reasoning="Hm… ça va.",
    usage=(1234, 56),
)


def replies(speaks: Speaks, *said: Said) -> list[list[Act]]:
    return [stream(*speaks.events(one)) for one in said]


def hear(speaks: Speaks, answer: Answer) -> Response:
    """The response of a run whose only answer this is."""
    with ModelServer(answer) as server:
        run = go(speaks.model(server.url))
    assert run.stop_reason == "finished", run.error
    (step,) = run.steps
    return step.response


def hear_events(speaks: Speaks, *events: bytes) -> Response:
    return hear(speaks, stream(*events))


# A whole tool loop


@both
def test_remote_run_executes_calls_and_sends_results(speaks: Speaks) -> None:
    with ModelServer(*replies(speaks, LOOK, DONE)) as server:
        run = go(speaks.model(server.url))
    assert (run.stop_reason, run.n_steps, run.text) == ("finished", 2, "All done.")
    first, last = run.steps
    assert first.response.text == "I look. "
    assert [(call.name, json.loads(call.arguments)) for call in first.response.tool_calls] == [
        ("look", {"what": "the sea"})
    ]
    assert [result.content for result in first.results if result] == ["seen the sea"]
    assert first.response.usage[:2] == (20, 7)
    assert last.response.usage[:2] == (10, 5)
    assert (first.response.finish_reason, last.response.finish_reason) == ("tool_calls", "stop")
    second = server.asked[1].json["messages"]
    assert "seen the sea" in json.dumps(second)
    assert second[: len(server.asked[0].json["messages"])] == server.asked[0].json["messages"]


@both
def test_remote_request_offers_tools_with_schemas(speaks: Speaks) -> None:
    with ModelServer(*replies(speaks, DONE)) as server:
        go(speaks.model(server.url))
    (asked,) = server.asked
    assert asked.method == "POST"
    assert asked.target == speaks.root + {"openai": "/chat/completions", "anthropic": "/messages"}[speaks.name]
    assert asked.headers["content-type"].partition(";")[0] == "application/json"
    assert speaks.key_in(asked) == "sk-test"
    body = asked.json
    assert body["stream"] is True
    assert body["model"] == "test-model"
    tools = {tool["name"]: tool for tool in (tool.get("function", tool) for tool in body["tools"])}
    assert set(tools) == {"look", "write", "fail", "ask"}
    schema = tools["look"].get("parameters") or tools["look"]["input_schema"]
    assert schema["properties"]["what"]["type"] == "string"
    if speaks is MESSAGES:
        assert isinstance(body["max_tokens"], int)
        assert asked.headers["anthropic-version"] == "2023-06-01"
    else:
        assert body["stream_options"] == {"include_usage": True}


@both
def test_deltas_are_told_as_they_come_and_add_up_to_the_response(speaks: Speaks) -> None:
    heard: list[Event] = []
    with ModelServer(*replies(speaks, RICH, DONE)) as server:
        run = go(speaks.model(server.url), on_event=heard.append)
    first = run.steps[0].response
    deltas = [event.payload for event in heard if event.kind == "delta" and event.payload["message"] == 1]
    assert len([delta for delta in deltas if delta["of"] == "text"]) > 1
    assert "".join(delta["text"] for delta in deltas if delta["of"] == "text") == first.text == RICH.text
    assert "".join(delta["text"] for delta in deltas if delta["of"] == "reasoning") == first.reasoning
    assert [delta["text"] for delta in deltas if delta["of"] == "tool_call"] == [
        f"{call.name} {call.arguments}" for call in first.tool_calls
    ]


@both
def test_the_first_delta_is_told_before_the_last_was_sent(speaks: Speaks) -> None:
    first = Gate()

    def watch(event: Event) -> None:
        if event.kind == "delta":
            first.open()

    answer = stream(speaks.opening((10, 5)), speaks.text("one"), first, *speaks.closing((10, 5)))
    with ModelServer(answer) as server:
        run = go(speaks.model(server.url), on_event=watch)
    assert first.is_open
    assert run.text == "one"


@both
def test_the_time_to_the_first_token_is_measured(speaks: Speaks) -> None:
    response = hear_events(speaks, *speaks.events(DONE))
    assert response.ttft_ms is not None
    assert 0 <= response.ttft_ms < 20_000


@both
def test_the_steps_of_a_run_share_a_connection(speaks: Speaks) -> None:
    with ModelServer(*replies(speaks, LOOK, LOOK, LOOK, DONE)) as server:
        assert go(speaks.model(server.url)).n_steps == 4
    assert server.connections == 1


@both
def test_remote_request_at_the_cap_follows_the_policy(speaks: Speaks) -> None:
    """Inspect's and others' last step: the tools are shown and may not be called."""
    policy = QUIET.vary(last_step={"action": "tool_choice_none"})
    with ModelServer(*replies(speaks, LOOK, DONE)) as server:
        agent = bl.Agent("a", tools=(look,), policy=policy, max_steps=2)
        asyncio.run(bl.run(agent, "go", model=speaks.model(server.url)))
    choices = [asked.json.get("tool_choice") for asked in server.asked]
    assert choices[0] in (None, "auto", {"type": "auto"})
    assert choices[1] in ("none", {"type": "none"})
    assert server.asked[1].json["tools"] == server.asked[0].json["tools"]


# Bytes: however a body is cut, the response is the same


def respond_to(speaks: Speaks, answers: Sequence[Answer]) -> list[Response]:
    """The responses to a series of requests, through one client."""
    task = (Message("user", (Text("go"),)),)

    async def ask_all(model: Model) -> list[Response]:
        requests = [Request(0, task, (look,), VirtualClock()) for _ in answers]
        return [(await model.respond(request))._replace(ttft_ms=None) for request in requests]

    with ModelServer(*answers) as server:
        return asyncio.run(ask_all(speaks.model(server.url)))


def bodies(speaks: Speaks) -> dict[str, bytes]:
    events = b"".join(speaks.events(RICH))
    return {"LF": events, "CRLF": events.replace(b"\n", b"\r\n"), "CR": events.replace(b"\n", b"\r")}


@both
@pytest.mark.parametrize("ending", first(1, ["LF", "CRLF", "CR"]))
def test_a_body_split_at_any_byte_gives_the_same_response(speaks: Speaks, ending: str) -> None:
    """Some places here, through a socket; no two events are as long, so that all their parts are hit."""
    body = bodies(speaks)[ending]
    step = 23 if ending == "LF" else 5
    cuts = range(1, len(body), step)
    (expected,) = respond_to(speaks, [stream(*speaks.events(RICH))])
    assert (expected.text, expected.reasoning, len(expected.tool_calls)) == (RICH.text, RICH.reasoning, 2)
    heard = respond_to(speaks, [stream(body[:cut], body[cut:]) for cut in cuts])
    assert [cut for cut, response in zip(cuts, heard, strict=True) if response != expected] == []


# What servers taught


@both
def test_what_keeps_a_connection_alive_says_nothing(speaks: Speaks) -> None:
    events = [part for event in speaks.events(RICH) for part in (b": still here\n\n", speaks.nothing(), event)]
    assert respond_to(speaks, [stream(*events)]) == respond_to(speaks, [stream(*speaks.events(RICH))])


@both
def test_every_body_is_small_json_in_utf_8(speaks: Speaks) -> None:
    with ModelServer(*replies(speaks, Said("", [("c1", "look", '{"what": "日本"}')]), DONE)) as server:
        go(speaks.model(server.url))
    assert "日本".encode() in server.asked[1].body
