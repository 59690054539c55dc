"""Anthropic's messages API, what servers send: the same response in any chunks, and what is wrong with any fault."""

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boolab.core.types import Response, ToolCall, Usage
from boolab.runtime.models.base import validate_response
from boolab.runtime.models.remote.anthropic_request import Messages
from boolab.runtime.models.remote.anthropic_stream import MessageDecoder
from boolab.runtime.models.remote.protocol import Fault
from tests.support.cases import first
from tests.support.sse_cases import body, cut_everywhere, heard, in_bytes, sse, with_crlf

PING = {"type": "ping"}
LAST = {"type": "message_stop"}


def begin(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"type": "message", "content": [], "usage": usage}}


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **said: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": said}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: str | None = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    said = [delta(index, type="text_delta", text=piece) for piece in pieces]
    return [start(index, type="text", text=""), *said, stop(index)]


def call(index: int, name: str, *pieces: str, **more: Any) -> list[dict[str, Any]]:
    given = {"id": f"toolu_{index}", "input": {}, **more}
    said = [delta(index, type="input_json_delta", partial_json=piece) for piece in pieces]
    return [start(index, type="tool_use", name=name, **given), *said, stop(index)]


def fed(events: Iterable[Any], emit: Any = None) -> MessageDecoder:
    """A decoder that was fed with these events."""
    decoder = MessageDecoder(emit)
    for event in events:
        decoder.feed("message", event if isinstance(event, str) else json.dumps(event))
    return decoder


def response(events: Iterable[Any]) -> Response:
    closed = fed(events).close()
    assert isinstance(closed, Response), closed
    return closed


def fault(events: Iterable[Any]) -> Fault:
    closed = fed(events).close()
    assert isinstance(closed, Fault), closed
    return closed


# --- streams -------------------------------------------------------------------------------------


def test_text_comes_with_usage_and_the_reason_for_its_end() -> None:
    closed = heard(MessageDecoder(), [body("anthropic_text.txt")]).close()
    assert closed == Response(
        "Grüße, 世界 😀! 🚀\n\nTwo lines.", (), "stop", Usage(12, 17, 0), native_finish_reason="end_turn"
    )


def test_parallel_calls_reasoning_and_figures_of_the_cache() -> None:
    closed = heard(MessageDecoder(), [body("anthropic_calls.txt")]).close()
    assert isinstance(closed, Response)
    assert closed.text == "I look at both."
    assert closed.reasoning == "Two places, so two calls."
    assert [(c.id, c.name) for c in closed.tool_calls] == [
        ("toolu_01First", "look"), ("toolu_02Second", "look"), ("toolu_03Third", "now"),
    ]  # fmt: skip
    assert [json.loads(c.arguments) for c in closed.tool_calls] == [
        {"what": "München 😀"}, {"what": "Wien", "more": [1, {}]}, {},
    ]  # fmt: skip
    assert closed.usage == Usage(
        input_tokens=30 + 200 + 1000, output_tokens=97, cached_tokens=1000, reasoning_tokens=11
    )
    assert (closed.finish_reason, closed.native_finish_reason) == ("tool_calls", "tool_use")
    assert json.loads(closed.opaque) == {
        "messages": [
            {"type": "thinking", "thinking": "Two places, so two calls.", "signature": "c2lnbmVkIGJ5IG5vYm9keQ=="},
            {"type": "redacted_thinking", "data": "bm90aGluZyB0byBzZWU="},
        ]
    }


def test_arguments_cut_by_max_tokens_are_kept_as_they_stand() -> None:
    closed = heard(MessageDecoder(), [body("anthropic_cut_arguments.txt")]).close()
    assert isinstance(closed, Response)
    assert closed.tool_calls == (ToolCall("toolu_01Long", "write", '{"text": "Once upon a ti'),)
    assert (closed.finish_reason, closed.native_finish_reason) == ("length", "max_tokens")


def test_an_overload_after_output_is_a_fault_with_all_that_came() -> None:
    decoder = heard(MessageDecoder(), [body("anthropic_overloaded.txt")])
    assert decoder.close() == Fault("overloaded_error: Overloaded", retryable=True, status=529)
    assert decoder.has_output
    # What message_start says of the output is preliminary.
    assert decoder.partial_response() == Response("I was about", usage=Usage(input_tokens=20))


def test_what_runs_on_the_providers_side_is_no_call() -> None:
    closed = heard(MessageDecoder(), [body("anthropic_server_tool.txt")]).close()
    assert closed == Response(
        "It rains, they say. I look on.", (), "pause_turn", Usage(40, 33), native_finish_reason="pause_turn"
    )


STREAMS = (
    "anthropic_text.txt",
    "anthropic_cut_arguments.txt",
    "anthropic_overloaded.txt",
    "anthropic_server_tool.txt",
    "anthropic_calls.txt",  # the longest
)


def all_of(decoder: MessageDecoder) -> tuple[Any, ...]:
    return decoder.close(), decoder.partial_response(), decoder.has_output, decoder.ended, decoder.cache_write_tokens


@pytest.mark.parametrize("name", first(4, STREAMS))
def test_a_stream_cut_anywhere_gives_the_same_response(name: str) -> None:
    stream = body(name)
    whole = all_of(heard(MessageDecoder(), [stream]))
    for chunks in cut_everywhere(stream):
        assert all_of(heard(MessageDecoder(), chunks)) == whole


@pytest.mark.parametrize("name", STREAMS)
def test_anthropic_stream_in_any_chunks_gives_the_same_response(name: str) -> None:
    stream = body(name)
    whole = all_of(heard(MessageDecoder(), [stream]))
    assert all_of(heard(MessageDecoder(), in_bytes(stream))) == whole
    assert all_of(heard(MessageDecoder(), [with_crlf(stream)])) == whole
    assert all_of(heard(MessageDecoder(), in_bytes(with_crlf(stream)))) == whole


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_ends_early_is_never_taken_for_a_whole_one(name: str) -> None:
    stream = body(name)
    whole = heard(MessageDecoder(), [stream]).close()
    # The event with the stop reason and the usage is the last that counts.
    last = stream.rfind(b"\n\nevent: message_stop")
    for length in range(0, len(stream), 7):
        closed = heard(MessageDecoder(), [stream[:length]] if length else []).close()
        if isinstance(whole, Response) and length >= last + 2:
            assert closed == whole
        elif isinstance(whole, Response):
            assert isinstance(closed, Fault)
            assert closed.retryable


def test_anthropic_stream_emits_text_at_once_and_whole_calls() -> None:
    told: list[tuple[str, str]] = []
    closed = heard(MessageDecoder(lambda *what: told.append(what)), [body("anthropic_calls.txt")]).close()
    assert isinstance(closed, Response)
    assert "".join(said for of, said in told if of == "text") == closed.text
    assert [said for of, said in told if of == "reasoning"] == ["Two places, ", "so two calls."]
    assert [said for of, said in told if of == "tool_call"] == [f"{c.name} {c.arguments}" for c in closed.tool_calls]
    assert [of for of, _ in told] == ["reasoning"] * 2 + ["text"] + ["tool_call"] * 3


def test_nothing_shown_holds_half_a_surrogate() -> None:
    told: list[str] = []
    fed([*text(0, "a\ud83d", "\ude00", "\ud83d", "b"), end()], lambda of, said: told.append(said))
    assert told == ["a", "😀", "\ufffdb"]


def test_two_calls_of_one_id_get_two() -> None:
    """Found by fuzzing: results name their call by its id."""
    made = response([*call(0, "look", id="x"), *call(1, "look", id="x"), *call(2, "now", id=""), end("tool_use")])
    assert [(said.id, said.name) for said in made.tool_calls] == [("x", "look"), ("x_2", "look"), ("call_3", "now")]


def test_anthropic_stream_is_complete_with_a_stop_reason() -> None:
    decoder = fed([*text(0, "Hi."), end()])
    assert not decoder.ended
    assert decoder.close() == Response("Hi.", (), "stop", native_finish_reason="end_turn")


def test_anthropic_stream_without_a_stop_reason_is_retryable() -> None:
    assert fault([begin(input_tokens=3), *text(0, "Hi.")]).retryable
    assert fault([begin(input_tokens=3), *text(0, "Hi."), end(None)]).retryable


@pytest.mark.parametrize("events", [[], [PING, PING], ["", "\n"]])
def test_an_empty_stream_is_no_empty_answer(events: list[Any]) -> None:
    assert fault(events) == Fault("the stream was empty", retryable=True)


def test_an_empty_answer_is_one() -> None:
    assert response([begin(input_tokens=3), end(output_tokens=1), LAST]).text == ""


def test_nothing_is_read_after_the_end() -> None:
    decoder = fed(
        [*text(0, "Hi."), end(output_tokens=1), LAST, *text(1, "More."), end("refusal", output_tokens=9), "{"]
    )
    assert decoder.ended
    assert decoder.close() == Response("Hi.", (), "stop", Usage(None, 1), native_finish_reason="end_turn")


def test_the_last_word_of_the_other_protocol_ends_this_one_too() -> None:
    decoder = fed([*text(0, "Hi."), end(), "[DONE]"])
    assert decoder.ended
    assert isinstance(decoder.close(), Response)


def test_anthropic_stream_orders_blocks_by_index() -> None:
    one, two = text(1, "B"), text(0, "A")
    assert response([one[0], two[0], two[1], one[1], one[2], two[2], end()]).text == "AB"


def test_an_index_that_comes_again_opens_another_block() -> None:
    closed = response(
        [*text(0, "Look: "), *call(0, "look", "{}", id="a"), *call(0, "look", '{"what": 1}', id="b"), end()]
    )
    assert closed.text == "Look: "
    assert closed.tool_calls == (ToolCall("a", "look", "{}"), ToolCall("b", "look", '{"what": 1}'))


def test_a_block_ends_where_another_of_its_index_begins() -> None:
    told: list[str] = []
    closed = fed(
        [*call(0, "look")[:-1], *text(0, "Hi."), end("max_tokens")], lambda of, said: told.append(said)
    ).close()
    assert isinstance(closed, Response)
    assert closed.tool_calls == (ToolCall("toolu_0", "look", "{}"),)
    assert told == ["look {}", "Hi."]


def test_a_delta_of_another_type_than_its_block_is_passed_over() -> None:
    stray = [delta(0, type="text_delta", text="stray"), delta(0, type="thinking_delta", thinking="stray")]
    closed = response([call(0, "look")[0], *stray, stop(0), end("tool_use")])
    assert closed == Response("", (ToolCall("toolu_0", "look", "{}"),), "tool_calls", native_finish_reason="tool_use")


def test_the_first_fault_is_the_one_that_is_told() -> None:
    overload = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    assert fault([overload, "{"]).status == 529


def test_anthropic_stream_accepts_missing_indices_and_starts() -> None:
    said: Any = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi."}}
    assert response([said, said, end()]).text == "Hi.Hi."
    told: list[str] = []
    decoder = fed([*call(0, "look")[:-1], end("tool_use")], lambda of, what: told.append(what))
    closed = decoder.close()
    assert isinstance(closed, Response)
    assert closed.tool_calls == (ToolCall("toolu_0", "look", "{}"),)
    assert told == ["look {}"]


def test_anthropic_stream_reads_the_type_from_the_event_name() -> None:
    decoder = MessageDecoder()
    decoder.feed("content_block_delta", '{"index": 0, "delta": {"type": "text_delta", "text": "Hi."}}')
    decoder.feed("message_delta", '{"delta": {"stop_reason": "end_turn"}}')
    decoder.feed("message_stop", "{}")
    assert decoder.close() == Response("Hi.", (), "stop", native_finish_reason="end_turn")


@pytest.mark.parametrize(
    ("events", "arguments"),
    [
        (call(0, "now"), "{}"),
        (call(0, "now", ""), "{}"),
        (call(0, "now", input={"zone": "ü"}), '{"zone":"ü"}'),
        (call(0, "now", input='{"zone": 1}'), '{"zone": 1}'),
        (call(0, "now", '{"zone": 2}', input={"zone": 1}), '{"zone": 2}'),
        (call(0, "now", '{"zone": ', input=None), '{"zone": '),
    ],
)
def test_anthropic_stream_takes_arguments_from_pieces_or_start(events: list[dict[str, Any]], arguments: str) -> None:
    assert response([*events, end("tool_use")]).tool_calls == (ToolCall("toolu_0", "now", arguments),)


def test_anthropic_stream_keeps_a_cut_call_incomplete() -> None:
    closed = response([*call(0, "remove_all")[:-1], end("max_tokens")])
    assert closed.tool_calls == (ToolCall("toolu_0", "remove_all", ""),)


def test_anthropic_stream_refuses_a_call_without_a_name() -> None:
    decoder = fed([*call(0, ""), *call(1, "look"), end("tool_use")])
    assert isinstance(decoder.close(), Fault)
    assert [c.name for c in decoder.partial_response().tool_calls] == ["look"]


def test_calls_without_ids_get_some_of_their_own() -> None:
    decoder = MessageDecoder(None, "call_7")
    for event in (*call(0, "look", id=None), *call(1, "look", id=""), end("tool_use")):
        decoder.feed("message", json.dumps(event))
    assert [c.id for c in decoder.partial_response().tool_calls] == ["call_7_1", "call_7_2"]


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
        ("a_word_of_tomorrow", "a_word_of_tomorrow"),
    ],
)
def test_stop_reasons_are_translated_and_kept(word: str, meaning: str) -> None:
    closed = response([*text(0, "Hi."), end(word)])
    assert (closed.finish_reason, closed.native_finish_reason) == (meaning, word)


@pytest.mark.parametrize(
    ("kind", "status", "retryable"),
    [
        ("invalid_request_error", 400, False),
        ("authentication_error", 401, False),
        ("billing_error", 402, False),
        ("permission_error", 403, False),
        ("not_found_error", 404, False),
        ("request_too_large", 413, False),
        ("rate_limit_error", 429, True),
        ("api_error", 500, True),
        ("timeout_error", 504, True),
        ("overloaded_error", 529, True),
        ("an_error_of_tomorrow", None, False),
    ],
)
def test_anthropic_stream_error_has_its_http_status(kind: str, status: int | None, retryable: bool) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "No."}}
    assert fault([begin(), error]) == Fault(f"{kind}: No.", retryable, status)
    decoder = MessageDecoder()
    decoder.feed_whole(json.dumps(error).encode())
    assert decoder.close() == Fault(f"{kind}: No.", retryable, status)


def test_errors_of_other_forms_are_errors_too() -> None:
    assert fault([{"error": {"message": "No.", "code": 503}}]) == Fault("No.", retryable=True, status=503)
    assert fault([{"error": "No."}]) == Fault("No.")
    assert fault([{"type": "error"}]).message


def test_a_damaged_event_is_a_fault_and_later_usage_counts() -> None:
    decoder = fed([begin(input_tokens=5), *text(0, "Hi."), "<html>" * 100, end(output_tokens=7), LAST])
    closed = decoder.close()
    assert isinstance(closed, Fault)
    assert not closed.retryable
    assert "<html>" in closed.message
    assert len(closed.message) < 200
    assert decoder.partial_response() == Response("Hi.", (), "stop", Usage(5, 7), native_finish_reason="end_turn")


def test_usage_is_taken_from_events_that_are_malformed_otherwise() -> None:
    broken = {"type": "message_delta", "delta": ["?"], "usage": {"input_tokens": 5, "output_tokens": 7}}
    decoder = fed([broken, {"type": 7, "usage": {"output_tokens": 8}}])
    assert isinstance(decoder.close(), Fault)
    assert decoder.partial_response().usage == Usage(5, 8)


def test_later_figures_win_and_missing_ones_leave_what_is_known() -> None:
    first = begin(input_tokens=10, cache_creation_input_tokens=20, cache_read_input_tokens=30, output_tokens=4)
    later = end(input_tokens=11, cache_creation_input_tokens=None, output_tokens=40)
    decoder = fed([first, *text(0, "Hi."), later, end(output_tokens=41)])
    assert decoder.partial_response().usage == Usage(11 + 20 + 30, 41, 30)
    assert decoder.cache_write_tokens == 20


@pytest.mark.parametrize("value", [-1, True, 1.0, "7", 2**63, [7], {}])
def test_a_figure_that_is_none_is_not_known(value: Any) -> None:
    assert fed([end(input_tokens=value, output_tokens=value)]).partial_response().usage == Usage()
    unknown = fed([begin(input_tokens=1, cache_creation_input_tokens=value), end(output_tokens=2)])
    assert unknown.partial_response().usage == Usage(None, 2)
    assert unknown.cache_write_tokens is None


def test_a_sum_that_no_table_can_hold_is_not_known() -> None:
    assert fed([begin(input_tokens=2**62, cache_read_input_tokens=2**62)]).partial_response().usage.input_tokens is None


def test_a_cost_that_the_server_tells_is_kept() -> None:
    assert response([*text(0, "Hi."), end(output_tokens=1, cost=0.0125)]).usage.cost == 12_500


def test_reasoning_that_is_not_signed_is_told_and_not_sent_again() -> None:
    thought = [start(0, type="thinking", thinking="", signature=""), delta(0, type="thinking_delta", thinking="Hm.")]
    closed = response([*thought, stop(0), *text(1, "Hi."), end()])
    assert (closed.reasoning, closed.opaque) == ("Hm.", "")


# --- whole bodies --------------------------------------------------------------------------------


def whole(answer: bytes) -> MessageDecoder:
    decoder = MessageDecoder()
    decoder.feed_whole(answer)
    return decoder


def test_json_in_place_of_a_stream_is_a_response() -> None:
    decoder = whole(body("anthropic_message.txt"))
    closed = decoder.close()
    assert isinstance(closed, Response)
    assert (closed.text, closed.reasoning) == ("I look.", "Easy.")
    assert closed.tool_calls == (ToolCall("toolu_09", "look", '{"what":"Köln"}'),)
    assert closed.usage == Usage(12, 21, 3)
    assert closed.finish_reason == "tool_calls"
    assert json.loads(closed.opaque)["messages"][0]["signature"] == "c2ln"
    assert decoder.has_output
    assert decoder.ended


def test_an_error_in_place_of_a_stream_is_a_fault() -> None:
    closed = whole(body("anthropic_error.txt")).close()
    assert closed == Fault("rate_limit_error: This would exceed your rate limit.", retryable=True, status=429)


@pytest.mark.parametrize("answer", [b"<html>Bad gateway</html>", b"[]", b'{"object": "list"}', b"{", b"\xff\xfe", b"7"])
def test_anthropic_body_without_a_message_is_a_fault(answer: bytes) -> None:
    closed = whole(answer).close()
    assert isinstance(closed, Fault)
    assert answer.decode(errors="replace")[:5] in closed.message


def test_an_empty_body_is_an_empty_stream() -> None:
    assert whole(b"").close() == Fault("the stream was empty", retryable=True)


def test_the_words_of_an_error_are_found_in_any_form() -> None:
    wire = Messages("m", {})
    assert wire.error_text(body("anthropic_error.txt")) == "rate_limit_error: This would exceed your rate limit."
    assert wire.error_text(b'{"error": "No."}') == wire.error_text(b'{"detail": "No."}') == "No."
    assert wire.error_text(b'{"message": "No."}') == "No."
    assert wire.error_text(b'{"error": {"type": "a\\ud83d", "message": "b"}}') == "a\ufffd: b"  # found by make fuzz
    assert wire.error_text(b"<html>") == wire.error_text(b"") == wire.error_text(b'{"error": {"message": [1]}}') == ""


# --- any response, in any pieces -----------------------------------------------------------------


def pieces_of(whole_text: str, cuts: Sequence[int]) -> list[str]:
    """A text cut into pieces, between the halves of surrogates too."""
    units = whole_text.encode("utf-16-le")
    places = [0, *sorted(2 * (cut % (len(units) // 2 + 1)) for cut in cuts), len(units)]
    return [units[a:b].decode("utf-16-le", "surrogatepass") for a, b in itertools.pairwise(places)]


sound_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
cuts = st.lists(st.integers(0, 60), max_size=5)
json_objects = st.dictionaries(
    sound_text, st.none() | st.integers() | sound_text | st.lists(sound_text, max_size=2), max_size=3
)
blocks = st.one_of(
    st.tuples(st.just("text"), sound_text),
    st.tuples(st.just("thinking"), sound_text),
    st.tuples(st.just("redacted_thinking"), sound_text),
    st.tuples(st.just("tool_use"), json_objects.map(json.dumps)),
    st.tuples(st.just("server_tool_use"), st.just("{}")),
)


@given(st.data(), st.lists(blocks, max_size=6), st.booleans())
@settings(deadline=None)
def test_anthropic_stream_of_mixed_pieces_is_the_same_response(
    data: st.DataObject, told: list[tuple[str, str]], last: bool
) -> None:
    queues = []
    for index, (kind, said) in enumerate(told):
        pieces = pieces_of(said, data.draw(cuts))
        if kind == "text":
            queues.append(text(index, *pieces))
        elif kind == "thinking":
            thought = [delta(index, type="thinking_delta", thinking=piece) for piece in pieces]
            signed = delta(index, type="signature_delta", signature=f"sig{index}")
            queues.append([start(index, type=kind, thinking="", signature=""), *thought, signed, stop(index)])
        elif kind == "redacted_thinking":
            queues.append([start(index, type=kind, data=said), stop(index)])
        else:
            queues.append([{**event, **_of_kind(event, kind)} for event in call(index, "tool", *pieces)])
    mixed: list[dict[str, Any]] = []
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        mixed.append(queue.pop(0))
        mixed += [PING] * data.draw(st.integers(0, 1))
    stream = sse([begin(input_tokens=3), *mixed, end(output_tokens=2), *([LAST] if last else [])])
    places = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    chunks = [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True)]
    closed = heard(MessageDecoder(), chunks).close()

    def kept(index: int, kind: str, said: str) -> dict[str, str]:
        if kind == "redacted_thinking":
            return {"type": kind, "data": said}
        return {"type": kind, "thinking": said, "signature": f"sig{index}"}

    opaque = [kept(index, kind, said) for index, (kind, said) in enumerate(told) if "thinking" in kind]
    assert isinstance(closed, Response)
    assert closed._replace(opaque="") == Response(
        "".join(said for kind, said in told if kind == "text"),
        tuple(ToolCall(f"toolu_{i}", "tool", said) for i, (kind, said) in enumerate(told) if kind == "tool_use"),
        "stop",
        Usage(3, 2),
        "".join(said for kind, said in told if kind == "thinking"),
        native_finish_reason="end_turn",
    )
    assert json.loads(closed.opaque or '{"messages": []}') == {"messages": opaque}


def _of_kind(event: dict[str, Any], kind: str) -> dict[str, Any]:
    """The start of a call, of another kind of block."""
    return {"content_block": {**event["content_block"], "type": kind}} if "content_block" in event else {}


WORDS = (
    "message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta",
    "content_block_stop", "ping", "error", "text", "thinking", "redacted_thinking", "tool_use", "server_tool_use",
    "text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta", "overloaded_error",
    "end_turn",
)  # fmt: skip
KEYS = (
    "type", "index", "message", "usage", "delta", "content_block", "content", "error", "text", "thinking", "signature",
    "partial_json", "name", "id", "input", "stop_reason", "input_tokens", "output_tokens", "cache_read_input_tokens",
    "cache_creation_input_tokens", "output_tokens_details", "thinking_tokens", "cost", "code", "data",
)  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=20,
)


@given(st.lists(st.tuples(st.sampled_from(WORDS), st.text(max_size=20) | anything.map(json.dumps)), max_size=12))
def test_nothing_that_a_server_sends_raises(events: list[tuple[str, str]]) -> None:
    decoder = MessageDecoder(lambda of, said: said.encode())
    for event, data in events:
        decoder.feed(event, data)
    closed = decoder.close()
    assert isinstance(closed, Fault) or validate_response(closed) == ""
    assert validate_response(decoder.partial_response()) == ""


@given(st.binary(max_size=40) | anything.map(lambda value: json.dumps(value).encode()))
def test_no_body_in_place_of_a_stream_raises(answer: bytes) -> None:
    decoder = whole(answer)
    closed = decoder.close()
    assert isinstance(closed, Fault) or validate_response(closed) == ""
    Messages("m", {}).error_text(answer)


def test_deep_nesting_is_no_danger() -> None:
    for depth in (100, *range(150, 1050, 10), *range(900, 1000), 100_000):  # around all limits of parsers and of Python
        deep = '{"a":' * depth + "1" + "}" * depth
        decoder, call_of_it = MessageDecoder(), f'{{"type":"tool_use","name":"f","input":{deep}}}'
        decoder.feed("content_block_start", f'{{"content_block":{call_of_it}}}')
        decoder.feed_whole(deep.encode())
        assert validate_response(decoder.partial_response()) == ""
