"""One request over a real socket: what of it is read, what is told, and what is left behind."""

import asyncio
import gc
import gzip
import json
import math
import subprocess
import sys
import warnings
import weakref
from collections.abc import Iterator
from types import TracebackType

import httpx
import pytest
from pydantic import SecretStr

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.messages import Message, Text
from boolab.core.types import Event, Response, Usage
from boolab.errors import SettingError
from boolab.runtime.engine.abort import Abort
from boolab.runtime.models.base import Emit, Model, Request
from boolab.runtime.models.remote import transport
from boolab.runtime.models.remote.options import Deadline
from boolab.runtime.models.remote.transport import Answer, Endpoint, check_base_url
from tests.support.cases import first
from tests.support.helpers import look
from tests.support.model_protocols import CHAT, MESSAGES, Said, Speaks, both, sse
from tests.support.model_server import (
    END,
    PATIENCE_S,
    Act,
    Forever,
    Gate,
    Latency,
    ModelServer,
    chunk,
    closed_port,
    head,
    stream,
    whole,
)

KEY = "sk-canary-0123456789-abcdefghijklmnopqrstuvwxyz"
DONE = Said("All done.")
EVENTS = {"Content-Type": "text/event-stream"}
ONCE = bl.models.Retry(attempts=1)


def asking() -> Request:
    return Request(0, (Message("user", (Text("go"),)),), (), VirtualClock())


def ask(model: Model) -> Response:
    """One request, in an event loop of its own."""
    return asyncio.run(asyncio.wait_for(model.respond(asking()), PATIENCE_S))


def fault(model: Model) -> str:
    """What a request that fails is said to have failed of."""
    with pytest.raises(bl.errors.ModelError) as caught:
        ask(model)
    return str(caught.value)


def post(answer: list[Act], most_bytes: int) -> tuple[Answer, int]:
    """An answer, and how many characters of it were heard."""
    heard: list[str] = []
    with ModelServer(answer) as server:
        endpoint = Endpoint(server.url, {}, {}, 5, most_bytes)
        got = asyncio.run(endpoint.post(b"{}", lambda _event, data: heard.append(data)))
    return got, sum(map(len, heard))


# Lengths


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_what_is_packed_is_measured_as_it_is_unpacked(kind: str) -> None:
    """A hundred kilobytes may be a hundred megabytes."""
    bomb = gzip.compress(b"data: " + b"x" * 10_000_000)
    assert len(bomb) < 100_000
    got, heard = post(whole(bomb, headers={"Content-Type": kind, "Content-Encoding": "gzip"}), 100_000)
    assert "longer than 100,000 bytes" in got.fault
    assert not got.retryable
    assert heard == 0


def test_a_packed_error_is_not_unpacked_for_ever() -> None:
    bomb = gzip.compress(b"x" * 10_000_000)
    got, _ = post(whole(bomb, 500, {"Content-Encoding": "gzip"}), 100_000)
    assert got.status == 500
    assert 0 < len(got.body) <= 2**16


@pytest.mark.parametrize(("length", "fits"), [(93, True), (94, False)])
def test_transport_reads_the_longest_response_to_its_end(length: int, fits: bool) -> None:
    event = sse("x" * length)  # with "data: " and its end
    assert len(event) == length + 8
    got, heard = post(whole(event, headers=EVENTS), 101)
    assert (got.fault == "", heard == length) == (fits, fits)


@both
def test_packing_is_not_asked_for(speaks: Speaks) -> None:
    with ModelServer(stream(*speaks.events(DONE))) as server:
        ask(speaks.model(server.url))
    assert server.asked[0].headers["accept-encoding"] == "identity"


@both
def test_what_is_packed_all_the_same_is_understood(speaks: Speaks) -> None:
    packed = gzip.compress(b"".join(speaks.events(DONE)))
    with ModelServer(whole(packed, headers={**EVENTS, "Content-Encoding": "gzip"})) as server:
        assert ask(speaks.model(server.url)).text == "All done."


# Kinds of answers


@both
@pytest.mark.parametrize("kind", ["", "Content-Type: text/event-stream\r\n"])
@pytest.mark.parametrize("space", [b"", b"\n\n  \n"])
def test_transport_detects_json_by_its_first_character(speaks: Speaks, kind: str, space: bytes) -> None:
    body = space + json.dumps(speaks.whole(DONE)).encode()
    status = f"HTTP/1.1 200 OK\r\n{kind}Content-Length: {len(body)}\r\n\r\n".encode()
    with ModelServer([status, *(bytes([letter]) for letter in body)]) as server:
        response = ask(speaks.model(server.url, retry=ONCE))
    assert (response.text, response.usage) == ("All done.", Usage(10, 5))


@both
def test_an_error_that_is_sent_as_a_stream_keeps_its_words(speaks: Speaks) -> None:
    with ModelServer(whole(speaks.error("The prompt is too long."), headers=EVENTS)) as server:
        assert "The prompt is too long." in fault(speaks.model(server.url, retry=ONCE))


@both
@pytest.mark.parametrize("space", [b"", b"\n\r\n", b": hello\n\n"])
def test_a_stream_may_begin_with_anything_that_is_no_event(speaks: Speaks, space: bytes) -> None:
    with ModelServer(stream(*([space] if space else []), *speaks.events(DONE))) as server:
        response = ask(speaks.model(server.url, retry=ONCE))
    assert (response.text, response.usage) == ("All done.", Usage(10, 5))


@both
def test_transport_skips_leading_white_space(speaks: Speaks) -> None:
    """DeepSeek sends blank lines until it has the answer."""
    body = json.dumps(speaks.whole(DONE)).encode()
    with ModelServer(stream(b"\n", Latency(0.03), b"\n\n", Latency(0.03), body)) as server:
        assert ask(speaks.model(server.url, retry=ONCE)).text == "All done."


@both
def test_transport_does_not_wait_after_the_last_event(speaks: Speaks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deadline, "SHUTDOWN_TIMEOUT_S", 0.1)
    answer = stream(*speaks.events(DONE), Forever(speaks.text("and on "), 0.01), end=())
    with ModelServer(answer) as server:
        assert ask(speaks.model(server.url, retry=ONCE)).text == "All done."


def test_a_byte_order_mark_is_no_part_of_the_first_event() -> None:
    """https://html.spec.whatwg.org/multipage/server-sent-events.html: one leading mark is ignored."""
    first = MESSAGES.start({"input_tokens": 30}).split(b"\n")[1]  # a name of its own would be lost without harm
    rest = [*MESSAGES.block(0, {"type": "text", "text": "Hi."}), MESSAGES.end("end_turn", 5), MESSAGES.stop()]
    with ModelServer(stream(b"\xef\xbb\xbf" + first + b"\n\n", *rest)) as server:
        assert ask(MESSAGES.model(server.url, retry=ONCE)).usage == Usage(30, 5)


# Deadline


@pytest.mark.slow
@both
@pytest.mark.parametrize("end", ["ended", "goes on"])
def test_one_may_wait_for_ever(speaks: Speaks, end: str) -> None:
    patient = bl.models.Timeouts(connect=math.inf, first_token=math.inf, between=math.inf, whole=math.inf)
    answer = stream(*speaks.events(DONE)) if end == "ended" else stream(*speaks.events(DONE), Gate(), end=())
    with ModelServer(answer) as server:
        assert ask(speaks.model(server.url, timeouts=patient)).text == "All done."


def test_a_server_that_takes_no_body_is_given_up() -> None:
    """One that accepts the connection, and then never reads."""

    async def deaf() -> str:
        gone, connected = asyncio.Event(), asyncio.Event()

        async def listen(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()  # type: ignore[attr-defined] # of a socket
            connected.set()
            await gone.wait()
            writer.transport.abort()

        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        long = Request(0, (Message("user", (Text("x" * 20_000_000),)),), (), VirtualClock())
        try:
            with pytest.raises(bl.errors.ModelError) as caught:
                await CHAT.model(url, retry=ONCE, timeouts=bl.models.Timeouts(first_token=0.1)).respond(long)
        finally:
            gone.set()
            server.close()
            await server.wait_closed()
        assert connected.is_set()
        return str(caught.value)

    assert asyncio.run(asyncio.wait_for(deaf(), PATIENCE_S)) == "no output within 100 ms"


def test_a_handshake_that_is_never_answered_is_given_up() -> None:
    with ModelServer() as server:  # it reads what is no HTTP to it, and waits for more
        model = bl.OpenAIModel(
            "m", base_url=server.url.replace("http:", "https:"), retry=ONCE, timeouts=bl.models.Timeouts(connect=0.1)
        )
        assert "cannot connect to https://127.0.0.1" in fault(model)


@pytest.mark.parametrize("acts", [[Forever(b"HTTP/1.1 100 Continue\r\n\r\n", 0.001)]], ids=["continue"])
def test_preliminary_answers_are_no_output(acts: list[Act]) -> None:
    with ModelServer(acts) as server:
        model = CHAT.model(server.url, retry=ONCE, timeouts=bl.models.Timeouts(first_token=0.1))
        assert fault(model) == "no output within 100 ms"


def test_endless_headers_are_not_read_to_their_end() -> None:
    with ModelServer([b"HTTP/1.1 200 OK\r\n", Forever(b"x: y\r\n")]) as server:
        assert "broke" in fault(CHAT.model(server.url, retry=ONCE))


# Addresses and headers


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/v1", "http://xn--/v1", "http://[::1/v1", "http:///v1", "a.b"])
def test_an_address_that_cannot_be_one_is_refused_at_once(url: str) -> None:
    with pytest.raises(SettingError, match="expected the address of an API"):
        check_base_url(url)


@pytest.mark.parametrize("url", ["http://[::1]:8000/v1", "https://bücher.example/v1/", "http://127.0.0.1:65535"])
def test_other_addresses_are_taken(url: str) -> None:
    assert check_base_url(url).host in ("::1", "bücher.example", "127.0.0.1")


def test_transport_prefers_headers_of_the_user() -> None:
    sent: list[bytes] = []

    async def listen() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            sent.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(head(400, {"Content-Length": "0"}))
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        mine = {"User-Agent": "mine", "Anthropic-Version": "2099-01-01"}
        with pytest.raises(bl.errors.ModelError):
            await MESSAGES.model(url, headers=mine, retry=ONCE).respond(asking())
        server.close()
        await server.wait_closed()

    asyncio.run(listen())
    lines = [line.partition(b":") for line in sent[0].lower().splitlines()]
    told = [(name, value.strip()) for name, _, value in lines if name in (b"user-agent", b"anthropic-version")]
    assert sorted(told) == [(b"anthropic-version", b"2099-01-01"), (b"user-agent", b"mine")]


# Keys


@both
@pytest.mark.parametrize("place", first(3, range(-len(KEY), 1, 5)))
def test_key_is_removed_before_an_error_is_shortened(speaks: Speaks, place: int) -> None:
    """Of a page that is no JSON, of an event that is none, of an error's own words: wherever the cut falls."""
    answers: list[list[Act]] = [
        whole(b"x" * (200 + place) + KEY.encode(), 401),
        whole(b"x" * (200 + place) + KEY.encode(), 200, {"Content-Type": "text/plain"}),
        whole(b"{" + b"x" * (79 + place) + KEY.encode(), 200),
        stream(b"data: " + b"x" * (80 + place) + KEY.encode() + b"\n\n"),
        stream(speaks.error_event("x" * (500 + place) + KEY)),
        whole(speaks.error("x" * (500 + place) + KEY), 401),
        whole(speaks.error("x" * (1000 + place) + KEY), 401),
    ]
    for answer in answers:
        with ModelServer(answer) as server:
            told = fault(speaks.model(server.url, api_key=KEY, retry=ONCE))
        assert KEY[:8] not in told
        assert "xxx" in told


@both
def test_a_key_in_the_escapes_of_json_is_not_emitted(speaks: Speaks) -> None:
    heard: list[str] = []
    event = speaks.text(KEY).replace(KEY.encode(), "".join(f"\\u{ord(letter):04x}" for letter in KEY).encode())
    assert KEY.encode() not in event
    with ModelServer(stream(speaks.opening((3, 1)), event, *speaks.closing((3, 1)))) as server:
        model = speaks.model(server.url, api_key=KEY)
        response = asyncio.run(model.respond(asking(), lambda _of, delta: heard.append(delta)))
    assert (response.text, "".join(heard)) == ("<key>", "<key>")


@both
def test_the_words_of_an_error_are_not_repeated_without_end(speaks: Speaks) -> None:
    with ModelServer(whole(speaks.error("x" * 50_000), 400)) as server:
        assert len(fault(speaks.model(server.url))) < 2_000


def frames_with(text: str, error: BaseException) -> list[str]:
    """The frames below an exception, and what came before it, that hold a text: what shows locals would show it."""
    found, seen = [], set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        place: TracebackType | None = one.__traceback__
        while place is not None:
            values = place.tb_frame.f_locals.items()
            found += [f"{place.tb_frame.f_code.co_name}: {name}" for name, value in values if text in repr(value)]
            place = place.tb_next
        one = one.__cause__ or one.__context__
    return [frame for frame in found if not frame.startswith("cancel_after")]


@both
def test_cancellation_shows_no_key_in_local_variables(speaks: Speaks) -> None:
    """As the headers are written, for one: the client's own frames hold them then."""

    async def cancel_after(turns: int, url: str) -> tuple[bool, list[str]]:
        task = asyncio.ensure_future(speaks.model(url, api_key=KEY).respond(asking()))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            return True, frames_with(KEY, error)
        return False, []

    all_cancelled = Gate()
    with ModelServer(reply=lambda _: [all_cancelled, *stream(*speaks.events(DONE))]) as server:
        results = [asyncio.run(cancel_after(turns, server.url)) for turns in range(1, 30)]
        all_cancelled.open()
        ask(speaks.model(server.url))  # the server has then taken those connections too that were cancelled at once
    assert all(cancelled for cancelled, _ in results)
    assert [frames for _, frames in results if frames] == []


def test_what_nobody_expects_shows_no_key_either(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("httpcore._async.http11.AsyncHTTP11Connection._send_event", fail)
    with ModelServer(stream(*CHAT.events(DONE))) as server:
        endpoint = Endpoint(server.url, {}, {"x-api-key": SecretStr(KEY)}, 5)
        with pytest.raises(ZeroDivisionError) as caught:
            asyncio.run(endpoint.post(b"{}", lambda *_: None))
        monkeypatch.undo()
        ask(CHAT.model(server.url))  # the server has then taken the connection before, too
    assert frames_with(KEY, caught.value) == []


# Event loops


def test_event_loops_that_have_ended_are_not_kept() -> None:
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def ask_twice(model: Model) -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await asyncio.gather(model.respond(asking()), model.respond(asking()))

    with ModelServer(reply=lambda _: stream(*CHAT.events(DONE))) as server:
        model = CHAT.model(server.url, rate_limit=bl.models.RateLimit(concurrency=1))
        for _ in range(4):
            asyncio.run(ask_twice(model))
    gc.collect()
    alive = [loop for loop in loops if loop() is not None]
    assert len(alive) <= 1  # the latest may still be known


@pytest.mark.slow
@pytest.mark.parametrize("circle", [False, True])
def test_a_model_that_is_gone_leaves_no_connection_open(circle: bool) -> None:
    """Nor does one that is collected together with all that it holds: tracebacks and notebooks make such circles."""

    async def forget(server: ModelServer) -> None:
        holder: list[object] = [CHAT.model(server.url)]
        model = holder[0]
        assert isinstance(model, bl.OpenAIModel)
        await model.respond(asking())
        if circle:
            holder.append(holder)
        del model, holder
        gc.collect()
        while server._open:  # noqa: ASYNC110 - it is in another thread
            await asyncio.sleep(0)

    with warnings.catch_warnings(record=True) as warned, ModelServer(stream(*CHAT.events(DONE))) as server:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(asyncio.wait_for(forget(server), PATIENCE_S))
    assert [str(warning.message) for warning in warned] == []


NESTED = """
import gc, sys
import boolab as bl

model = bl.OpenAIModel("m", base_url=sys.argv[1])

def sub() -> str:
    '''Ask another agent.'''
    return bl.run_sync(bl.Agent("b"), "go", model=model).text

calls = [{"tool_calls": [{"name": "sub", "arguments": {}}]}, "end"]
run = bl.run_sync(bl.Agent("a", tools=(sub,)), "go", model=bl.ScriptedModel(calls))
print(run.steps[0].results[0].content)
gc.collect()
"""


def test_agent_in_a_tool_leaves_no_connection_open() -> None:
    """Its event loop ends with it."""
    with ModelServer(stream(*CHAT.events(DONE))) as server:
        command = [sys.executable, "-W", "always::ResourceWarning", "-c", NESTED, server.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("All done.\n", "")


# What was paid for


@both
def test_what_a_failed_attempt_cost_is_on_record(speaks: Speaks) -> None:
    events: list[Event] = []

    def note(kind: str, **facts: object) -> None:
        events.append(Event(0, kind, facts))

    usage = sse({"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 500}})
    if speaks is MESSAGES:
        usage = MESSAGES.start({"input_tokens": 30}) + MESSAGES.end(None, 500)
    with ModelServer(stream(usage), stream(*speaks.events(DONE))) as server:
        request = asking()._replace(note=note)
        response = asyncio.run(speaks.model(server.url, retry=bl.models.Retry(attempts=2)).respond(request))
    assert response.text == "All done."
    assert [event.payload["input_tokens"] for event in events] == [30]
    assert [event.payload["output_tokens"] for event in events] == [500]


@both
def test_aborted_summary_keeps_its_partial_response(speaks: Speaks) -> None:
    abort = Abort()
    call = Said("", [("call_1", "look", '{"what": "the sea"}')])
    half = stream(speaks.opening((77, 3)), speaks.text("Half of it"), Gate())

    async def abort_the_summary(url: str) -> bl.Run:
        agent = bl.Agent("a", tools=(look,), max_steps=1, policy="boocode")
        heard = asyncio.Event()
        model = speaks.model(url)
        whole_response = model.respond

        async def respond(request: Request, emit: Emit | None = None) -> Response:
            listener = emit if request.purpose == "step" else lambda _of, _delta: heard.set()
            return await whole_response(request, listener)

        model.respond = respond  # type: ignore[method-assign]
        task = asyncio.ensure_future(bl.run(agent, "go", model=model, abort=abort))
        await heard.wait()
        abort.abort()
        return await task

    with ModelServer(stream(*speaks.events(call)), half) as server:
        run = asyncio.run(asyncio.wait_for(abort_the_summary(server.url), PATIENCE_S))
    assert run.wrap_up is not None
    assert (run.wrap_up.fault, run.wrap_up.broken) == ("aborted", True)
    assert run.wrap_up.response is not None
    assert (run.wrap_up.response.text, run.wrap_up.response.usage.input_tokens) == ("Half of it", 77)


def test_the_beginning_of_an_error_is_enough() -> None:
    """A page of an error that never ends is not read for as long as one is patient."""
    endless: list[Act] = [head(500, {"Content-Type": "text/html"}), Forever(b"x" * 1000)]
    got, _ = post(endless, 100_000)
    assert (got.status, len(got.body), got.fault) == (500, 2**16, "")


@pytest.mark.parametrize("url", ["http://a@127.0.0.1/v1", "http://127.0.0.1/v1?key=k", "http://127.0.0.1/v1#k"])
def test_an_address_holds_nothing_but_the_place(url: str) -> None:
    with pytest.raises(SettingError, match="has a user, a query or a fragment"):
        check_base_url(url)


@both
def test_a_server_may_say_that_another_attempt_is_of_no_use(speaks: Speaks) -> None:
    with ModelServer(whole(speaks.error("No."), 500, {"x-should-retry": "false"})) as server:
        assert "No." in fault(speaks.model(server.url))


@both
def test_the_first_token_is_the_first_output_not_the_first_event(speaks: Speaks) -> None:
    clock = VirtualClock()

    def reply(_asked: object) -> Iterator[Act]:
        yield from stream(speaks.opening((30, 4)), end=())
        yield opened
        yield chunk(speaks.text("Hi."))
        yield from [chunk(event) for event in speaks.closing((30, 4))]
        yield END

    opened = Gate()

    async def ask_slowly(url: str) -> Response:
        await clock.sleep(3)  # a later step of a run
        request = asking()._replace(clock=clock)
        task = asyncio.ensure_future(speaks.model(url).respond(request))
        await asyncio.to_thread(server.wait_for, 1)
        await asyncio.sleep(0.05)  # the opening has come
        await clock.sleep(7)
        opened.open()
        return await task

    with ModelServer(reply=reply) as server:
        response = asyncio.run(asyncio.wait_for(ask_slowly(server.url), PATIENCE_S))
    assert (response.text, response.ttft_ms) == ("Hi.", 7000)


def test_a_certificate_that_nobody_trusts_is_not_tried_again() -> None:
    error = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)"
    assert not transport._is_temporary(httpx.ConnectError(error))
    assert transport._is_temporary(httpx.ConnectError("[SSL] record layer failure"))


def test_as_many_connections_as_are_asked_for_are_open_at_once() -> None:
    """Httpx's own limit is 100."""
    everyone = Gate()

    def reply(_asked: object) -> list[Act]:
        if server.under_way == 150:
            everyone.open()
        return [everyone, *stream(*CHAT.events(DONE))]

    async def ask_together(model: Model) -> list[Response]:
        return await asyncio.gather(*(model.respond(asking()) for _ in range(150)))

    with ModelServer(reply=reply) as server:
        model = CHAT.model(server.url)
        responses = asyncio.run(asyncio.wait_for(ask_together(model), PATIENCE_S))
    assert {response.text for response in responses} == {"All done."}


def test_a_refused_connection_is_no_answer() -> None:
    with closed_port() as port:
        endpoint = Endpoint(f"http://127.0.0.1:{port}", {}, {}, 5)
        answer = asyncio.run(endpoint.post(b"{}", lambda *_: None))
    assert (answer.status, answer.streamed, answer.retryable) == (None, False, True)
    assert "cannot connect" in answer.fault


@pytest.mark.parametrize(
    ("url", "given"),
    [
        ("https://api.example/v1/chat", True),
        ("https://api.example.evil/v1", False),
        ("http://api.example/v1", False),
        ("https://api.example:8443/v1", False),
    ],
)
def test_a_key_is_put_on_requests_to_its_own_origin_alone(url: str, given: bool) -> None:
    auth = transport._Auth(httpx.URL("https://api.example/v1"), {"Authorization": SecretStr("Bearer KEY")})
    request = next(auth.auth_flow(httpx.Request("POST", url)))
    assert ("Authorization" in request.headers) == given
