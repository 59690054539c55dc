"""Chat completions: what is sent, and what is made of what servers stream."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

import httpx
import pytest
from httpx_sse import EventSource
from hypothesis import given
from hypothesis import strategies as st

from boolab.core.clock import VirtualClock
from boolab.core.context import Context
from boolab.core.messages import Message, Reasoning, Sentinel, Text, response_message
from boolab.core.run import Compacted
from boolab.core.types import UNKNOWN_USAGE, Response, Step, ToolCall, ToolResult, Usage
from boolab.errors import SettingError
from boolab.runtime.engine.record import NOT_EXECUTED, TurnHistory, from_user
from boolab.runtime.models.base import Request, validate_response
from boolab.runtime.models.remote.openai_request import ChatCompletions
from boolab.runtime.models.remote.openai_stream import ChatDecoder
from boolab.runtime.models.remote.protocol import Decoder, Fault, Wire
from boolab.runtime.tools.tool import ToolSpec
from tests.support.cases import cases, first
from tests.support.helpers import TOOLS
from tests.support.project import ROOT

BODIES = ROOT / "tests" / "runtime" / "models" / "remote" / "sse"
WIRE: Wire = ChatCompletions("m", {})


# ---------------------------------------------------------------- bodies of whole streams


class Pieces(httpx.AsyncByteStream):
    """A body that comes in these pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


async def read_events(pieces: Iterable[bytes]) -> list[tuple[str, str]]:
    """The events that a body holds, as httpx-sse reads them."""
    answer = httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces(pieces))
    return [(event.event, event.data) async for event in EventSource(answer).aiter_sse()]


def events_in(pieces: Iterable[bytes]) -> list[tuple[str, str]]:
    return asyncio.run(read_events(pieces))


def cuts_that_matter(body: bytes) -> list[int]:
    """The places at which a body, cut in two, holds other events than whole."""

    async def compare() -> list[int]:
        whole = await read_events([body])
        assert whole
        return [at for at in range(1, len(body)) if await read_events([body[:at], body[at:]]) != whole]

    return asyncio.run(compare())


def fed(events: Iterable[tuple[str, str]], decoder: Decoder | None = None) -> Decoder:
    decoder = decoder or WIRE.decoder()
    for event, data in events:
        decoder.feed(event, data)
    return decoder


def opaque(**own: Any) -> str:
    return json.dumps({"chat_completions": {"model": "m", **own}}, separators=(",", ":"))


THOUGHT = {"type": "reasoning.text", "text": "Let me see.", "format": "anthropic-claude-v1", "index": 0}
SIGNATURE = {"google": {"thought_signature": "c2ln"}}
EXPECTED: dict[str, Response | Fault] = {
    "openai_text": Response("Größe: 3 € 😀\r\n\u2028", (), "stop", Usage(20, 9, 16, 0), "", None, "stop"),
    "openai_parallel_calls": Response(
        "",
        (ToolCall("call_a", "look", '{"what": "a"}'), ToolCall("call_b", "write", '{"to": "ét\\u00e9"}')),
        "tool_calls",
        Usage(50, 30),
        native_finish_reason="tool_calls",
    ),
    "openai_deepseek": Response(
        "",
        (ToolCall("call_00", "look", "{}"),),
        "tool_calls",
        Usage(100, 12, 64, 6),
        "I must look.",
        native_finish_reason="tool_calls",
        opaque=opaque(reasoning_field="reasoning_content"),
    ),
    "openai_openrouter": Response(
        "Seen.",
        (),
        "stop",
        Usage(10, 7, 0, 4, 1230),
        "Let me see.",
        native_finish_reason="stop",
        opaque=opaque(reasoning_details=[{**THOUGHT, "signature": "c2ln"}]),
    ),
    "openai_openrouter_broken": Fault("Provider returned error: upstream reset", retryable=True, status=502),
    "openai_gemini": Response(
        "",
        (ToolCall("function-call-1", "look", '{"what":"a"}'), ToolCall("call_2", "look", '{"what":"b"}')),
        "stop",
        Usage(8, 5),
        native_finish_reason="stop",
        opaque=opaque(calls={"function-call-1": SIGNATURE}),
    ),
    "openai_mistral": Response("Yes.", (), "length", Usage(5, 6), "Hm, yes.", native_finish_reason="model_length"),
    "openai_groq": Response(
        "Ok.",
        (),
        "stop",
        Usage(7, 3),
        "Quick.",
        native_finish_reason="stop",
        opaque=opaque(reasoning_field="reasoning"),
    ),
    "openai_vllm": Response(
        "😀",
        (ToolCall("chatcmpl-tool-1", "look", '{"what": 1}'), ToolCall("chatcmpl-tool-2", "look", '{"what": 2}')),
        "tool_calls",
        Usage(30, 15),
        native_finish_reason="tool_calls",
    ),
    "openai_ollama": Response(
        "",
        (ToolCall("call_x", "look", '{"what":"x"}'),),
        "tool_calls",
        Usage(3, 2),
        "Short.",
        native_finish_reason="tool_calls",
        opaque=opaque(reasoning_field="reasoning"),
    ),
}
STREAMS = sorted(path.stem for path in BODIES.glob("*.txt") if path.read_bytes().startswith((b"data:", b":")))


def body_of(name: str) -> bytes:
    return (BODIES / f"{name}.txt").read_bytes()


@pytest.mark.parametrize("name", EXPECTED)
def test_the_stream_of_each_kind_of_server_gives_its_response(name: str) -> None:
    closed = fed(events_in([body_of(name)])).close()
    if isinstance(closed, Fault):
        assert closed == EXPECTED[name]
    else:
        assert closed._asdict() == EXPECTED[name]._asdict()


def test_every_imitated_stream_is_expected_to_give_something() -> None:
    assert {name for name in STREAMS if name.startswith("openai_")} == EXPECTED.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_cut_in_two_at_any_byte_holds_the_same_events(name: str) -> None:
    """And a decoder is fed events, nothing else."""
    assert cuts_that_matter(body_of(name)) == []


@pytest.mark.parametrize("name", first(3, sorted(EXPECTED)))
def test_chat_stream_cut_at_any_byte_has_the_same_events(name: str) -> None:
    body = body_of(name)
    crlf = body.replace(b"\n", b"\r\n")
    assert cuts_that_matter(crlf) == []
    assert events_in([crlf]) == events_in([body])


@pytest.mark.parametrize("newline", first(1, [b"\r\n", b"\n", b"\r"]))
@pytest.mark.parametrize("name", STREAMS)
def test_chat_stream_in_single_bytes_gives_the_same_response(name: str, newline: bytes) -> None:
    body = body_of(name)
    bytewise = (bytes([byte]) for byte in body.replace(b"\n", newline))
    assert fed(events_in(bytewise)).close() == fed(events_in([body])).close()


# ---------------------------------------------------------------- one event after another


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **top: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **top})


def call(index: int | None, id: str | None = None, name: str | None = None, arguments: Any = None) -> str:  # noqa: A002
    entry: dict[str, Any] = {"function": {"name": name, "arguments": arguments}, "id": id}
    return chunk({"tool_calls": [entry if index is None else {"index": index, **entry}]})


DONE = "[DONE]"
STOP = chunk(finish="stop")
HI = chunk({"content": "Hi."})


def decode(*data: str, emit: Any = None, prefix: str = "call") -> Response | Fault:
    return fed([("message", datum) for datum in data], ChatDecoder("m", emit, prefix)).close()


def heard(*data: str, **options: Any) -> Response:
    closed = decode(*data, **options)
    assert isinstance(closed, Response), closed
    return closed


def fault(*data: str) -> Fault:
    closed = decode(*data)
    assert isinstance(closed, Fault), closed
    return closed


def calls(*data: str) -> list[tuple[str, str, str]]:
    return [made[:3] for made in heard(*data, chunk(finish="tool_calls")).tool_calls]


def test_null_content_and_null_tool_calls_are_nothing() -> None:
    assert heard(chunk({"content": None, "tool_calls": None, "function_call": None}), HI, STOP).text == "Hi."


def test_a_refusal_is_text() -> None:
    assert heard(chunk({"refusal": "I can"}), chunk({"refusal": "not."}), STOP).text == "I cannot."


LOOK = ("a", "look", "{}")
ONE_LOOK = [{"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}}]
TWO_NAMES = [{"function": {"name": name, "arguments": {"x": 1}}} for name in ("look", "write")]
PIECES: dict[str, tuple[list[str], list[tuple[str, str, str]]]] = {
    "id and name in each delta": (
        [call(0, "a", "look", '{"x"'), call(0, "a", "look", ": 1}")],
        [("a", "look", '{"x": 1}')],
    ),
    "a legacy call beside it": ([chunk({"function_call": ONE_LOOK[0]["function"], "tool_calls": ONE_LOOK})], [LOOK]),
    "a legacy call alone": (
        [chunk({"function_call": {"name": "look", "arguments": "{"}}), chunk({"function_call": {"arguments": "}"}})],
        [("call_1", "look", "{}")],
    ),
    "no index: a new id": (
        [call(None, "a", "look", "{"), call(None, None, None, "}"), call(None, "b", "look", "{}")],
        [LOOK, ("b", "look", "{}")],
    ),
    "no index: a name": (
        [call(None, None, "look", "{}"), call(None, "", "look", "{}")],
        [("call_1", "look", "{}"), ("call_2", "look", "{}")],
    ),
    "no index: a name after no arguments": (
        [call(None, None, "look", ""), call(None, None, "look", "{}")],
        [("call_1", "look", ""), ("call_2", "look", "{}")],
    ),
    "no index: two in one delta": (
        [chunk({"tool_calls": TWO_NAMES})],
        [("call_1", "look", '{"x":1}'), ("call_2", "write", '{"x":1}')],
    ),
    "one index: another name after arguments": (
        [call(0, None, "look", '{"cut'), call(0, None, "write", "{}")],
        [("call_1", "look", '{"cut'), ("call_2", "write", "{}")],
    ),
    "one index: another id with a name": (
        [call(0, "a", "look", ""), call(0, None, None, "{}"), call(0, "b", "look", ""), call(0, None, None, "{}")],
        [LOOK, ("b", "look", "{}")],
    ),
    "one index: another id without a name": ([call(0, "a", "look", "{"), call(0, "a2", None, "}")], [LOOK]),
    "one index: a name after whole arguments": (
        [call(0, "a", "look", "{}"), call(0, None, "look", '{"x": 2}')],
        [LOOK, ("call_2", "look", '{"x": 2}')],
    ),
    "one index: a name amid the arguments": (
        [call(0, None, "look", '{"x"'), call(0, None, "look", ": 1}"), call(0, None, "look", "")],
        [("call_1", "look", '{"x": 1}')],
    ),
    "indices out of order": ([call(1, "b", "write", "{}"), call(0, *LOOK)], [LOOK, ("b", "write", "{}")]),
}


@pytest.mark.parametrize("pieces", PIECES)
def test_pieces_become_the_calls_that_were_meant(pieces: str) -> None:
    deltas, expected = PIECES[pieces]
    assert calls(*deltas) == expected


def test_ids_of_calls_that_have_none_begin_as_the_request_says() -> None:
    response = heard(call(0, "", "look", "{}"), STOP, prefix="call_7")
    assert response.tool_calls == (ToolCall("call_7_1", "look", "{}"),)


def test_two_calls_of_one_id_get_two() -> None:
    ids = [
        given for given, _, _ in calls(call(0, "x", "look", "{}"), call(1, "x", "look", "{}"), call(2, "x", "look", ""))
    ]
    assert ids[0] == "x"
    assert len(set(ids)) == 3


def test_an_id_that_a_call_was_given_is_not_that_of_another() -> None:
    ids = [given for given, _, _ in calls(call(0, "call_2", "look", "{}"), call(1, "", "look", "{}"))]
    assert len(set(ids)) == 2


def test_chat_call_without_a_name_is_a_fault() -> None:
    told = fault(call(0, "a", None, '{"x": 1}'), STOP)
    assert "without a name" in told.message
    assert '{"x": 1}' in told.message


def test_arguments_that_a_limit_cut_are_kept_as_they_stand() -> None:
    response = heard(call(0, "a", "look", '{"what": "lo'), chunk(finish="length"))
    assert (response.tool_calls[0].arguments, response.finish_reason) == ('{"what": "lo', "length")


@pytest.mark.parametrize(
    ("pieces", "n_calls"), [([call(0, "a", "look", "{}"), STOP], 1), ([HI, chunk({"tool_calls": []}, "tool_calls")], 0)]
)
def test_the_finish_reason_stays_as_it_is_with_and_without_calls(pieces: list[str], n_calls: int) -> None:
    response = heard(*pieces)
    assert len(response.tool_calls) == n_calls
    assert (
        response.finish_reason == response.native_finish_reason == json.loads(pieces[-1])["choices"][0]["finish_reason"]
    )


def test_only_the_first_choice_is_read() -> None:
    other = json.dumps({"choices": [{"index": 1, "delta": {"content": "No."}, "finish_reason": "length"}]})
    response = heard(other, HI, STOP, other)
    assert (response.text, response.finish_reason) == ("Hi.", "stop")


@pytest.mark.parametrize(("content", "other"), [("Hm.", "Hm."), ("Hm.", ""), ("", "Hm.")])
def test_reasoning_under_two_names_is_heard_once(content: str, other: str) -> None:
    assert heard(chunk({"reasoning": other, "reasoning_content": content}), HI, STOP).reasoning == "Hm."


def test_chat_stream_joins_surrogates_of_two_deltas() -> None:
    said: list[tuple[str, str]] = []
    halves = [
        chunk({"content": "a\ud83d", "reasoning": "\ud83d"}),
        chunk({"content": "\ude00b", "reasoning": "\ude00"}),
    ]
    pieces = [call(0, "a", "look", '"\ud83d'), call(0, None, None, '\ude00"')]
    response = heard(*halves, *pieces, STOP, emit=lambda of, delta: said.append((of, delta)))
    assert (response.text, response.reasoning, response.tool_calls[0].arguments) == ("a😀b", "😀", '"😀"')
    assert said == [("text", "a"), ("reasoning", "😀"), ("text", "😀b"), ("tool_call", 'look "😀"')]


def test_chat_stream_emits_text_at_once_and_whole_calls() -> None:
    said: list[tuple[str, str]] = []
    stream = ChatDecoder("m", lambda of, delta: said.append((of, delta)))
    for datum, of in [(chunk({"reasoning": "Hm."}), "reasoning"), (HI, "text")]:
        stream.feed("message", datum)
        assert said[-1][0] == of
    stream.feed("message", call(0, "a", "look", "{"))
    stream.feed("message", call(0, None, None, "}"))
    stream.feed("message", STOP)
    stream.close()
    assert said == [("reasoning", "Hm."), ("text", "Hi."), ("tool_call", "look {}")]


# ---------------------------------------------------------------- ends and faults


@pytest.mark.parametrize(
    "data", [(), (DONE,), (chunk({"role": "assistant", "content": ""}), DONE), ('{"choices": []}',)]
)
def test_an_empty_stream_is_a_fault_that_may_pass(data: tuple[str, ...]) -> None:
    assert fault(*data).retryable
    assert "empty" in fault(*data).message


def test_an_empty_answer_that_the_model_gave_is_an_answer() -> None:
    assert heard(STOP).text == ""


def test_a_stream_without_done_is_whole_if_a_finish_reason_came() -> None:
    assert heard(HI, STOP).text == "Hi."


def test_a_stream_without_a_finish_reason_is_whole_if_done_came() -> None:
    response = heard(HI, DONE)
    assert (response.text, response.finish_reason, response.native_finish_reason) == ("Hi.", None, None)


def test_chat_stream_without_an_end_has_a_partial_response() -> None:
    stream = fed([("message", HI), ("message", call(0, "a", "look", '{"x'))])
    closed = stream.close()
    assert isinstance(closed, Fault)
    assert closed.retryable
    assert stream.partial_response() == Response("Hi.", (ToolCall("a", "look", '{"x'),))


def test_a_call_whose_name_has_not_come_is_in_no_partial() -> None:
    assert fed([("message", call(0, "a", None, "{"))]).partial_response().tool_calls == ()


def test_what_follows_done_is_not_read() -> None:
    stream = fed([("message", datum) for datum in (HI, STOP, DONE, HI, "garbage")])
    assert stream.ended
    assert stream.close() == heard(HI, STOP)


@pytest.mark.parametrize("data", ["{", "[1]", '"text"', "null", '{"a": ' + "[" * 5000])
def test_chat_event_without_json_is_a_fault_and_usage_counts(data: str) -> None:
    usage = json.dumps({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    stream = fed([("message", datum) for datum in (HI, data, usage)])
    closed = stream.close()
    assert isinstance(closed, Fault)
    assert "cannot be parsed" in closed.message
    assert data[:40] in closed.message
    assert len(closed.message) < 200
    assert stream.partial_response() == Response("Hi.", usage=Usage(3, 4))


@pytest.mark.parametrize(
    "delta",
    [
        {"content": 3},
        {"tool_calls": "look"},
        {"tool_calls": [{"index": 0, "function": "look"}]},
        {"function_call": []},
        "x",
    ],
)
def test_an_event_of_another_form_is_a_fault_and_not_dropped(delta: Any) -> None:
    told = fault(json.dumps({"choices": [{"delta": delta}]}), HI, STOP)
    assert "form of a chat completion" in told.message
    assert str(json.dumps(delta))[:10] in told.message


@pytest.mark.parametrize(
    ("error", "message", "retryable", "status"),
    [
        ({"message": "Slow down.", "code": 429}, "Slow down.", True, 429),
        ({"message": "Slow down.", "code": "429"}, "Slow down.", True, 429),
        ({"message": "No.", "code": 400, "type": "BadRequestError"}, "No.", False, 400),
        ({"message": "Rate limit in the prompt", "code": 400}, "Rate limit in the prompt", False, 400),
        ({"message": "The server is overloaded", "type": "x"}, "The server is overloaded", True, None),
        ({"message": "m", "type": "rate_limit_error"}, "m", True, None),
        ({"message": "m", "code": "server_error"}, "m", True, None),
        ({"message": "m", "type": "insufficient_quota", "code": 429}, "m", False, 429),
        ({"message": "m", "type": "invalid_request_error"}, "m", False, None),
        ("plain words", "plain words", False, None),
        (
            {"message": "Provider returned error", "metadata": {"raw": "busy"}},
            "Provider returned error: busy",
            False,
            None,
        ),
    ],
)
def test_an_error_in_the_stream_is_a_fault(error: Any, message: str, retryable: bool, status: int | None) -> None:
    expected = Fault(message, retryable, status)
    assert fault(HI, json.dumps({"error": error})) == expected
    assert fault(json.dumps({"choices": [], "x_groq": {"error": error}})) == expected
    assert fault(json.dumps({"choices": [{"delta": {}, "error": error, "finish_reason": "error"}]})) == expected


def test_chat_event_and_object_named_error_are_errors() -> None:
    assert fed([("error", '{"message": "Broken."}')]).close() == Fault("Broken.")
    assert fault('{"object": "error", "message": "Too long.", "code": 400}') == Fault("Too long.", status=400)


def test_no_error_and_an_empty_error_are_none() -> None:
    assert heard(chunk({"content": "Hi."}, error=None), chunk({}, "stop", error={})).text == "Hi."


@pytest.mark.parametrize("word", ["error", "insufficient_system_resource", "network_error"])
def test_chat_finish_reason_of_a_break_is_retryable(word: str) -> None:
    told = fault(HI, chunk(finish=word))
    assert told.retryable
    assert word in told.message


def test_chat_decoder_keeps_the_first_fault() -> None:
    stream = fed([("message", "garbage"), ("message", '{"error": "second"}')])
    assert stream.fault is not None
    assert "garbage" in stream.fault.message
    assert stream.close() == stream.fault


# ---------------------------------------------------------------- a body in place of a stream


def whole(body: Any) -> Decoder:
    decoder = WIRE.decoder()
    decoder.feed_whole(body if isinstance(body, bytes) else json.dumps(body).encode())
    return decoder


def test_a_whole_response_in_place_of_a_stream_is_the_response() -> None:
    expected = Response(
        "",
        (ToolCall("call__0_add_cmpl-87830d68-b055-4850-8013-f70e18623376", "add", '{"a" :29 , "b":-7808593702331 } '),),
        "tool_calls",
        Usage(180, 32),
        native_finish_reason="tool_calls",
    )
    assert whole(body_of("llama_cpp_call_whole")).close() == expected


def test_chat_stream_of_one_whole_event_is_a_response() -> None:
    message = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]}
    assert heard(json.dumps(message), DONE).text == "Hi."


def test_chat_message_that_repeats_deltas_is_ignored() -> None:
    again = {"choices": [{"index": 0, "message": {"content": "Hi."}, "delta": None, "finish_reason": "stop"}]}
    assert heard(HI, json.dumps(again)).text == "Hi."


def test_chat_error_body_has_the_providers_message() -> None:
    assert "maximum context length" in str(whole(body_of("llama_cpp_error")).close())
    assert whole([{"error": {"code": 503, "message": "Busy."}}]).close() == Fault("Busy.", retryable=True, status=503)
    assert whole({"detail": "Not Found"}).close() == Fault("Not Found")


@pytest.mark.parametrize(
    "body", [b"", b"<html>Welcome</html>", b"[]", b"[1", b'{"id": 1}', b'{"choices": []}', b"\xff"]
)
def test_a_body_that_is_no_response_is_a_fault_and_no_answer(body: bytes) -> None:
    assert isinstance(whole(body).close(), Fault)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "No such model.", "type": "x"}}', "No such model."),
        (b'{"error": "model not found"}', "model not found"),
        (b'{"error": "model \\ud83d"}', "model \ufffd"),
        (b'{"error": {"message": "No \\ud83d"}}', "No \ufffd"),
        (b'[{"error": {"code": 400, "message": "Missing thought_signature"}}]', "Missing thought_signature"),
        (b'{"detail": [{"loc": ["body"], "msg": "field required"}]}', '[{"loc":["body"],"msg":"field required"}]'),
        (b'{"object": "error", "message": "Too long."}', "Too long."),
        (b"Internal Server Error", ""),
        (b"<html>", ""),
        (b"{}", ""),
        (b"", ""),
    ],
)
def test_chat_error_message_is_read_from_any_field(body: bytes, words: str) -> None:
    assert WIRE.error_text(body) == words


# ---------------------------------------------------------------- usage


def used(usage: Any, **more: Any) -> Usage:
    return heard(HI, STOP, json.dumps({"choices": [], "usage": usage, **more})).usage


def test_missing_and_null_usage_is_unknown() -> None:
    assert heard(HI, STOP).usage == UNKNOWN_USAGE
    assert used(None) == UNKNOWN_USAGE


def test_chat_usage_takes_the_latest_values() -> None:
    first = chunk({"content": "Hi."}, usage={"prompt_tokens": 9, "completion_tokens": 1, "cost": 0.5})
    assert heard(first, chunk({}, "stop", usage={"completion_tokens": 2})).usage == Usage(9, 2, cost=500_000)


@pytest.mark.parametrize("value", [True, 3.0, "3", -1, 2**63, None, [3]])
def test_a_figure_that_is_no_count_is_unknown(value: Any) -> None:
    names = ("prompt_tokens", "completion_tokens", "prompt_cache_hit_tokens", "reasoning_tokens", "cost_in_usd_ticks")
    assert used(dict.fromkeys(names, value)) == UNKNOWN_USAGE


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 4}}, Usage(cached_tokens=4)),
        ({"prompt_cache_hit_tokens": 4}, Usage(cached_tokens=4)),
        ({"cached_tokens": 4}, Usage(cached_tokens=4)),
        (
            {"prompt_tokens_details": None, "completion_tokens_details": {"reasoning_tokens": 2}},
            Usage(reasoning_tokens=2),
        ),
        ({"cost": 0.00012}, Usage(cost=120)),
        ({"cost": 0}, Usage(cost=0)),
        ({"cost": {"total_cost": 0.006}}, Usage(cost=6000)),
        ({"estimated_cost": 2.5e-05}, Usage(cost=25)),
        ({"cost_in_usd_ticks": 37_756_000}, Usage(cost=3776)),
        ({"cost": "0.1"}, UNKNOWN_USAGE),
        ({"cost": True}, UNKNOWN_USAGE),
        ({"cost": -1}, UNKNOWN_USAGE),
    ],
)
def test_chat_usage_reads_the_fields_of_each_provider(usage: Any, expected: Usage) -> None:
    assert used(usage) == expected


def test_chat_usage_adds_reasoning_if_the_total_has_it() -> None:
    """Figures of a response of grok-3-mini, vercel/ai#12425."""
    xai = {"prompt_tokens": 12, "completion_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 386}}
    assert used({**xai, "total_tokens": 399}) == Usage(12, 387, reasoning_tokens=386)
    others = {**xai, "completion_tokens": 400, "total_tokens": 412}
    assert used(others) == Usage(12, 400, reasoning_tokens=386)


def test_chat_usage_has_the_latest_cache_writes() -> None:
    written = {"prompt_tokens": 9, "prompt_tokens_details": {"cache_write_tokens": 7}}
    assert fed([("message", HI)]).cache_write_tokens == 0
    assert fed([("message", chunk(usage=written)), ("message", chunk(usage={}))]).cache_write_tokens == 7


def test_usage_in_the_choice_counts() -> None:
    choice = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": {"prompt_tokens": 5, "completion_tokens": 6}}
    assert heard(HI, json.dumps({"choices": [choice]})).usage == Usage(5, 6)


def test_chat_usage_counts_in_a_malformed_event() -> None:
    stream = fed([("message", chunk({"content": 3}, usage={"prompt_tokens": 5, "completion_tokens": 6}))])
    assert isinstance(stream.close(), Fault)
    assert stream.partial_response().usage == Usage(5, 6)


# ---------------------------------------------------------------- much


def test_10_mb_of_text_in_small_deltas_are_whole() -> None:
    piece = "0123456789abcdé" * 14
    stream = ChatDecoder("m")
    datum = chunk({"content": piece})
    for _ in range(50_000):
        stream.feed("message", datum)
    stream.feed("message", STOP)
    response = stream.close()
    assert isinstance(response, Response)
    assert len(response.text.encode()) > 10_000_000
    assert response.text == piece * 50_000


# ---------------------------------------------------------------- any response, any garbage

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["\ud83d", "error"])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FUNCTIONS = st.fixed_dictionaries({}, optional={"name": JSON, "arguments": JSON, "id": JSON})
CALLS = st.fixed_dictionaries(
    {}, optional={"index": st.integers(-1, 2) | JSON, "id": JSON, "function": FUNCTIONS | JSON, "extra_content": JSON}
)
DETAILS = st.fixed_dictionaries({}, optional={"type": JSON | st.just("reasoning.text"), "text": JSON, "index": JSON})
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": JSON
        | st.lists(st.fixed_dictionaries({"type": st.sampled_from(["text", "thinking"]), "text": JSON})),
        "refusal": JSON,
        "reasoning": JSON,
        "reasoning_details": st.lists(DETAILS, max_size=3) | JSON,
        "tool_calls": st.lists(CALLS, max_size=3) | JSON,
        "function_call": FUNCTIONS | JSON,
        "extra_content": JSON | st.just(SIGNATURE),
    },
)
CHOICES = st.fixed_dictionaries(
    {}, optional={"index": st.just(0) | JSON, "delta": DELTAS | JSON, "message": DELTAS | JSON, "finish_reason": JSON}
)
CHUNKS = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(CHOICES, max_size=3) | JSON,
        "usage": st.dictionaries(st.sampled_from(["prompt_tokens", "cost", "prompt_tokens_details"]), JSON) | JSON,
        "x_groq": JSON,
        "error": JSON,
        "object": JSON | st.just("error"),
    },
)
EVENTS = st.tuples(
    st.sampled_from(["message", "error", "ping"]),
    CHUNKS.map(json.dumps) | JSON.map(json.dumps) | st.text(st.characters(), max_size=12) | st.just("[DONE]"),
)


@cases(100)
@given(st.lists(EVENTS, max_size=6), st.booleans())
def test_chat_decoder_raises_nothing_for_any_input(events: list[tuple[str, str]], as_a_whole: bool) -> None:
    said: list[tuple[str, str]] = []
    decoder = ChatDecoder("m", lambda of, delta: said.append((of, delta)))
    for event, data in events:
        if as_a_whole:
            decoder.feed_whole(data.encode("utf-8", "replace"))
        else:
            decoder.feed(event, data)
        assert validate_response(decoder.partial_response()) == ""
    closed = decoder.close()
    partial = decoder.partial_response()
    assert isinstance(closed, Fault) or closed == partial
    assert "".join(delta for of, delta in said if of == "text").rstrip("\ufffd") == partial.text.rstrip("\ufffd")
    ids = [made.id for made in partial.tool_calls]
    assert len(set(ids)) == len(ids)
    assert json.loads(WIRE.body(request([response_message(1, None, partial)])))["messages"] is not None


def units(text: str, cuts: Sequence[int]) -> list[str]:
    """A text cut anywhere, in the middle of a surrogate pair too, as servers that escape their JSON may do."""
    raw = text.encode("utf-16-le", "surrogatepass")
    places = sorted({0, len(raw), *(2 * (cut % (len(raw) // 2 + 1)) for cut in cuts)})
    return [raw[a:b].decode("utf-16-le", "surrogatepass") for a, b in pairwise(places)]


PROSE = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.text("a😀é", max_size=9)
NAMES = st.text("abc_", min_size=1, max_size=6)


@cases(70)
@given(st.data())
def test_any_response_streamed_in_any_pieces_is_that_response(data: st.DataObject) -> None:
    draw = data.draw
    cuts = st.lists(st.integers(0, 60), max_size=4)
    text, reasoning = draw(PROSE), draw(PROSE)
    made = [
        ToolCall(f"id_{n}", name, arguments)
        for n, (name, arguments) in enumerate(draw(st.lists(st.tuples(NAMES, PROSE), max_size=4)))
    ]
    pending = [[chunk({"reasoning_content": piece}) for piece in units(reasoning, draw(cuts))]]
    pending.append([chunk({"content": piece}) for piece in units(text, draw(cuts))])
    for n, (given_id, name, arguments) in enumerate(made):
        pieces = [call(n, None, None, piece) for piece in units(arguments, draw(cuts))]
        pending.append([call(n, given_id, name, ""), *pieces])
    stream = []
    while any(pending):
        stream.append(draw(st.sampled_from([queue for queue in pending if queue])).pop(0))
    finish = draw(st.sampled_from(["stop", "length", "tool_calls", "odd"]))
    usage = Usage(*(draw(st.none() | st.integers(0, 10**6)) for _ in range(2)))
    told = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens}
    response = heard(*stream, chunk(finish=finish), json.dumps({"choices": [], "usage": told}), DONE)
    expected = Response(text, tuple(made), finish, usage, reasoning, native_finish_reason=finish)
    assert response._replace(opaque="") == expected


# ---------------------------------------------------------------- what is sent


def request(messages: Sequence[Message], tools: tuple[ToolSpec, ...] = (), **options: Any) -> Request:
    return Request(0, messages, tools, VirtualClock(), **options)


def sent(messages: Sequence[Message], tools: tuple[ToolSpec, ...] = (), **options: Any) -> Any:
    parameters = options.pop("parameters", {})
    return json.loads(ChatCompletions("m", parameters).body(request(messages, tools, **options)))


USER = from_user("Hello")


def test_chat_body_requests_a_stream_with_usage_alone() -> None:
    assert sent([USER]) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize("name", ["max_completion_tokens", "max_tokens"])
def test_a_request_lowers_the_limit_on_output_by_its_own_name(name: str) -> None:
    wire = ChatCompletions("m", {name: 4000})
    assert (wire.output_range, ChatCompletions("m", {}).output_range) == ((1024, 4000), None)
    assert sent([USER], parameters={name: 4000}, max_output=1500)[name] == 1500
    assert sent([USER], parameters={name: 4000}, max_output=9000)[name] == 4000
    assert "max_tokens" not in sent([USER], parameters={"max_completion_tokens": 4000})
    assert ChatCompletions("m", {name: 100}).output_range == (100, 100)


def test_tools_are_sent_as_functions() -> None:
    assert sent([USER], TOOLS)["tools"] == [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
        for t in TOOLS
    ]


def test_chat_body_has_parameters_and_none_removes_a_default() -> None:
    body = sent([USER], parameters={"max_tokens": 5, "stop": ["x"], "stream_options": None, "top_p": None})
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "max_tokens": 5,
        "stop": ["x"],
    }


@pytest.mark.parametrize("name", ["messages", "model", "stream", "tools"])
def test_a_parameter_that_boolab_sets_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match=name):
        ChatCompletions("m", {name: None})


def test_a_parameter_that_is_no_json_is_refused() -> None:
    with pytest.raises(SettingError, match="stop"):
        ChatCompletions("m", {"stop": {1, 2}})


def test_chat_body_ignores_later_changes_of_parameters() -> None:
    stop = ["x"]
    wire = ChatCompletions("m", {"stop": stop})
    stop.append("y")
    assert json.loads(wire.body(request([USER])))["stop"] == ["x"]


def test_chat_body_prefers_the_temperature_of_the_request() -> None:
    assert sent([USER], temperature=0.5, parameters={"temperature": 1})["temperature"] == 0.5
    assert sent([USER], temperature=0.0, parameters={"temperature": 1})["temperature"] == 0
    assert sent([USER], parameters={"temperature": 1})["temperature"] == 1
    assert "temperature" not in sent([USER])


@pytest.mark.parametrize(("parameters", "seed"), [({}, 5), ({"seed": 9}, 9), ({"seed": None}, None)])
def test_chat_body_prefers_the_seed_of_the_parameters(parameters: dict[str, Any], seed: int | None) -> None:
    assert sent([USER], seed=5 + 2**31, parameters=parameters).get("seed") == seed


def test_chat_body_has_tool_choice_only_with_tools() -> None:
    parameters = {"tool_choice": "required", "parallel_tool_calls": False}
    body = sent([USER], TOOLS, parameters=parameters)
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("required", False)
    assert sent([USER], TOOLS, tool_choice="none", parameters=parameters)["tool_choice"] == "none"
    assert "tool_choice" not in sent([USER], TOOLS)
    without = sent([USER], tool_choice="none", parameters=parameters)
    assert not {"tool_choice", "parallel_tool_calls", "tools"} & without.keys()


def test_chat_body_sends_calls_with_raw_arguments() -> None:
    made = (ToolCall("a", "look", '{"x": 1}'), ToolCall("b", "look", ""), ToolCall("c", "look", '{"cut'))
    responses = [Response("", made), Response("Hi.", made[:1])]
    told = sent([response_message(n, 0, response) for n, response in enumerate(responses, 1)])["messages"]
    assert [one["content"] for one in told] == ["", "Hi."]  # null is refused by servers of local models
    assert [c["function"]["arguments"] for c in told[0]["tool_calls"]] == ['{"x": 1}', "{}", '{"cut']
    assert told[1]["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}
    ]


def test_results_are_one_message_each_in_the_order_of_the_calls() -> None:
    results = Message("tool", (ToolResult("b", "2", is_error=True), ToolResult("a", "")))
    assert sent([results])["messages"] == [
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "tool", "tool_call_id": "a", "content": ""},
    ]


def test_what_servers_refuse_and_what_is_for_people_is_not_sent() -> None:
    messages = [
        Message("system", (Text(""),)),
        response_message(1, 0, Response(reasoning="Only thought.", opaque=opaque(reasoning_field="reasoning"))),
        Message("sentinel", (Sentinel("cap_hit", "Stopped."),)),
        Message("user", (Text(""),)),
        Message("user", (Text("a"), Sentinel("cap_hit", "Stopped."), Text("b"))),
    ]
    assert sent(messages)["messages"] == [{"role": "user", "content": ""}, {"role": "user", "content": "ab"}]
    assert sent([messages[0], messages[3]])["messages"] == [{"role": "user", "content": ""}]


def test_chat_body_replaces_lone_surrogates() -> None:
    body = WIRE.body(request([from_user("a\ud83d"), Message("tool", (ToolResult("\udc00", "\ud83d" + "\ude00"),))]))
    first, second = json.loads(body.decode())["messages"]
    assert (first["content"], second["content"], second["tool_call_id"]) == ("a\ufffd", "😀", "\ufffd")


# ---------------------------------------------------------------- what providers want to see again


def echoed(*data: str, model: str = "m") -> Any:
    """The message that a streamed response becomes in the next request."""
    response = heard(*data, STOP)
    return json.loads(ChatCompletions(model, {}).body(request([response_message(1, 0, response)])))["messages"][0]


CALL = call(0, *LOOK)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back_under_the_name_under_which_it_came(name: str) -> None:
    assert echoed(chunk({name: "Hm."}), CALL)[name] == "Hm."


def test_chat_body_returns_empty_reasoning_to_deepseek() -> None:
    assert echoed(chunk({"reasoning_content": ""}), CALL)["reasoning_content"] == ""
    assert "reasoning_content" not in echoed(chunk({"reasoning_content": ""}), HI)
    assert "reasoning_content" not in echoed(chunk({"reasoning_content": None}), CALL)


def test_chat_body_returns_joined_reasoning_details() -> None:
    def block(index: int, **more: Any) -> dict[str, Any]:
        return {"type": "reasoning.text", "index": index, **more}

    secret = {"type": "reasoning.encrypted", "data": "x", "index": 2}
    pieces = [
        chunk({"reasoning": "a", "reasoning_details": [block(0, text="a", signature=None)]}),
        chunk({"reasoning": "b", "reasoning_details": [block(0, text="b")]}),
        chunk({"reasoning_details": [block(0, text="", signature="s"), block(0, text="", signature=None)]}),
        chunk({"reasoning_details": [block(1, text="c", signature="t")]}),
        chunk({"reasoning_details": [secret, secret]}),
    ]
    message = echoed(*pieces, CALL)
    assert message["reasoning_details"] == [
        block(0, text="ab", signature="s"),
        block(1, text="c", signature="t"),
        secret,
        secret,
    ]
    assert "reasoning" not in message
    assert heard(*pieces, STOP).reasoning == "abc"


def test_the_signature_of_a_call_goes_back_with_that_call() -> None:
    entry = {"index": 0, "id": "a", "function": {"name": "look", "arguments": "{}"}, "extra_content": SIGNATURE}
    first, second = echoed(chunk({"tool_calls": [entry]}), call(1, "b", "look", "{}"))["tool_calls"]
    assert first["extra_content"] == SIGNATURE
    assert "extra_content" not in second


def test_chat_body_returns_the_signature_of_a_message() -> None:
    assert echoed(HI, chunk({"extra_content": SIGNATURE}))["extra_content"] == SIGNATURE
    assert "extra_content" not in echoed(HI, chunk({"extra_content": {"google": {"thought": True}}}))


def test_chat_body_keeps_opaque_content_from_other_models() -> None:
    assert echoed(chunk({"reasoning_content": "Hm."}), HI, model="other") == {"role": "assistant", "content": "Hi."}


@pytest.mark.parametrize(
    "told",
    ["", "no JSON", "[]", '{"anthropic": []}', '{"chat_completions": 3}', opaque(reasoning_field="role", calls=[1])],
)
def test_what_another_wire_or_nobody_wrote_is_not_sent(told: str) -> None:
    message = Message("assistant", (Reasoning("Hm.", told), Text("Hi.")))
    assert sent([message])["messages"] == [{"role": "assistant", "content": "Hi."}]


# ---------------------------------------------------------------- assembled from pieces


def plain(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    """Messages as the protocol has them, written down a second time."""
    for role, parts in messages:
        text = "".join(part.text for part in parts if type(part) is Text)
        made = [
            {"id": p.id, "type": "function", "function": {"name": p.name, "arguments": p.arguments or "{}"}}
            for p in parts
            if type(p) is ToolCall
        ]
        if role == "tool":
            yield from (
                {"role": "tool", "tool_call_id": p.call_id, "content": p.content}
                for p in parts
                if type(p) is ToolResult
            )
        elif role == "assistant" and made:
            yield {"role": role, "content": text, "tool_calls": made}
        elif role == "user" or (role in ("system", "assistant") and text):
            yield {"role": role, "content": text}


RESPONSES = st.builds(
    lambda text, reasoning, made: Response(
        text, tuple(ToolCall(f"c{n}", *one) for n, one in enumerate(made)), reasoning=reasoning
    ),
    PROSE,
    PROSE,
    st.lists(st.tuples(NAMES, PROSE), max_size=3),
)
ACTIONS = st.one_of(
    st.tuples(st.just("step"), RESPONSES, st.integers(0, 3)),
    st.tuples(st.just("put"), PROSE, st.sampled_from(["user", "sentinel", "system"])),
    st.tuples(st.just("compact"), PROSE, st.integers(0, 3)),
)
TAILS = st.lists(PROSE.map(from_user), max_size=2)


def act(talk: TurnHistory, action: Any) -> None:
    """Let a conversation grow, or be compacted."""
    kind, what, more = action
    number = len(talk.steps) + 1
    if kind == "step":
        results = tuple(ToolResult(c.id, what.text) if n < more else None for n, c in enumerate(what.tool_calls))
        talk.add(Step(number, 1, 0, 0, 0, what, results), any(results))
    elif kind == "put":
        talk.put(Message(more, (Sentinel("cap_hit", what) if more == "sentinel" else Text(what),)))
    else:
        kept_from = max(number - more, talk.summary_end)
        compacted = Compacted(number, kept_from, what, 9)
        talk.compactions.append(compacted)
        talk.send_summary(compacted)


@cases(50)
@given(st.lists(st.tuples(ACTIONS, TAILS, st.booleans()), max_size=12))
def test_chat_body_is_the_same_without_a_cache(
    course: list[tuple[Any, list[Message], bool]],
) -> None:
    wire = ChatCompletions("m", {"top_p": 0.5})
    talk = TurnHistory((Message("system", (Text("Be brief."),)), from_user("go")))
    for action, tail, with_tools in course:
        act(talk, action)
        tools = TOOLS if with_tools else ()
        messages = Context((), talk.sent, 0, tail) if tail else talk.sent
        body = wire.body(request(messages, tools))
        told = json.loads(body)
        assert told["messages"] == list(plain(messages))
        assert len(told.get("tools", ())) == len(tools)
        assert body == ChatCompletions("m", {"top_p": 0.5}).body(request(list(messages), tools))


def test_messages_behind_an_empty_history_are_sent_alone() -> None:
    assert sent(Context((), Watched(), 0, [USER]))["messages"] == [{"role": "user", "content": "Hello"}]


class Watched(Sequence[Message]):
    """A run's own growing list, which counts how often a message of it is read."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.reads = 0

    def __len__(self) -> int:
        return len(self.messages)

    @overload
    def __getitem__(self, place: int) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> list[Message]: ...
    def __getitem__(self, place: int | slice) -> Message | list[Message]:
        got = self.messages[place]
        self.reads += len(got) if isinstance(got, list) else 1
        return got


def test_chat_body_serialises_only_new_messages() -> None:
    class Parts(tuple[Any, ...]):  # noqa: SLOT001 - they count how often somebody goes through them
        walks = 0

        def __iter__(self) -> Iterator[Any]:
            Parts.walks += 1
            return super().__iter__()

    wire, history = ChatCompletions("m", {}), Watched()
    for step in range(50):
        history.messages += [Message("user", Parts((Text(f"{step}-{n}"),))) for n in range(3)]
        history.reads = Parts.walks = 0
        body = wire.body(request(Context((), history, 0, [from_user("tail")]), TOOLS))
        assert (history.reads, Parts.walks) == (3, 3)
        assert len(json.loads(body)["messages"]) == 3 * (step + 1) + 1


def test_chat_body_serialises_tools_once() -> None:
    history, wire = Watched(), ChatCompletions("m", {})
    history.messages.append(USER)
    state, _ = wire._requests(history)
    assert state.tools_json(TOOLS) is state.tools_json(TOOLS)
    bodies = [json.loads(wire.body(request(history, tools))) for tools in (TOOLS, TOOLS, TOOLS[:1], (), TOOLS)]
    assert [len(body.get("tools", ())) for body in bodies] == [4, 4, 1, 0, 4]


def test_a_dropped_call_is_sent_with_a_result_that_says_so() -> None:
    talk = TurnHistory((USER,))
    talk.add(Step(1, 1, 0, 0, 0, Response("", (ToolCall("a", "look", "{}"),)), (None,)), answered=False)
    assert sent(talk.sent)["messages"][-1] == {"role": "tool", "tool_call_id": "a", "content": NOT_EXECUTED}
