"""How real servers fail, and what becomes of it: retries, breaks, timeouts, aborts, redirects. Over a real socket.

Time that is waited on purpose passes on a virtual clock; the network's own timeouts are real, and short.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from email.utils import formatdate
from typing import Any

import pytest

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.run import Run
from boolab.core.types import Event
from boolab.runtime.engine.abort import Abort
from boolab.runtime.models.base import Model
from tests.support.helpers import QUIET, look
from tests.support.model_protocols import CHAT, Said, Speaks, both, go, going, sse
from tests.support.model_server import (
    CLOSE,
    RESET,
    Act,
    Answer,
    Forever,
    Gate,
    ModelServer,
    closed_port,
    deaf_port,
    head,
    stream,
    whole,
)

DONE = Said("All done.")
LOOK = Said("I look. ", [("call_1", "look", '{"what": "the sea"}')], usage=(20, 7))
RETRIED = (408, 409, 429, 500, 502, 503, 504, 529)
SHORT = 0.08
"""Seconds of a timeout that is meant to run out, whatever the server does."""
LONG = 5.0
"""Seconds of a timeout that runs out when the test says so; see `HurriedLoop`."""


def said(speaks: Speaks, one: Said = DONE) -> list[Act]:
    return stream(*speaks.events(one))


def failing(speaks: Speaks, status: int, message: str = "Try later.", **headers: str) -> list[Act]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return whole(speaks.error(message), status, named)


def retries(run: Run) -> list[Event]:
    return [event for event in run.events if event.kind == "retry"]


def once(**options: Any) -> dict[str, Any]:
    """Options of a model that asks only once."""
    return {"retry": bl.models.Retry(attempts=1), **options}


class HurriedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock a test can move on, so that a timeout runs out at a known point of the exchange."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead = 0.0

    def time(self) -> float:
        return super().time() + self._ahead

    def move_on(self, seconds: float) -> None:
        """Let that much time pass at once; callable from any thread."""

        def pass_time() -> None:
            self._ahead += seconds

        self.call_soon_threadsafe(pass_time)


def go_until(model: Model, moment: Callable[[], object], **options: Any) -> Run:
    """Run the tests' agent on a model; as soon as `moment` returns, `LONG` seconds pass at once."""
    with asyncio.Runner(loop_factory=HurriedLoop) as runner, ThreadPoolExecutor(1) as pool:
        loop = runner.get_loop()
        assert isinstance(loop, HurriedLoop)
        came = pool.submit(moment)
        came.add_done_callback(lambda _: loop.move_on(LONG))
        run = runner.run(going(model, clock=VirtualClock(), **options))
        came.result()
        return run


# Asked again


@both
@pytest.mark.parametrize("status", RETRIED)
def test_temporary_failure_is_retried_with_the_same_body(speaks: Speaks, status: int) -> None:
    clock = VirtualClock()
    with ModelServer(failing(speaks, status), failing(speaks, status), said(speaks)) as server:
        run = go(speaks.model(server.url), clock=clock)
    assert (run.stop_reason, run.n_steps, run.text) == ("finished", 1, "All done.")
    assert len({asked.body for asked in server.asked}) == 1
    events = retries(run)
    assert [event.payload["attempt"] for event in events] == [1, 2]
    assert [event.payload["status"] for event in events] == [status, status]
    assert all("Try later." in event.payload["what"] for event in events)
    assert all(event.payload["wait_ms"] > 0 for event in events)
    assert clock.now() >= sum(event.payload["wait_ms"] for event in events)
    assert run.steps[0].error == ""


BEFORE_OUTPUT: dict[str, list[Act]] = {
    "reset before the first byte": [RESET],
    "closed before the first byte": [CLOSE],
    "reset in the headers": [b"HTTP/1.1 200 OK\r\nContent-", RESET],
    "reset after the headers": [*stream(end=()), RESET],
    "reset in the first chunk": [*stream(end=(b"40\r\ndata: {",)), RESET],
    "closed in the first chunk": [*stream(end=(b"40\r\ndata: {",)), CLOSE],
    "empty stream": stream(),
    "empty body": whole(b"", headers={"Content-Type": "text/event-stream"}),
    "comments alone": stream(b": wait\n\n: wait\n\n"),
    "no HTTP": [b"SSH-2.0-OpenSSH_9.9\r\n\r\n", CLOSE],
}


@both
@pytest.mark.parametrize("failure", BEFORE_OUTPUT)
def test_what_breaks_before_any_output_is_asked_again(speaks: Speaks, failure: str) -> None:
    with ModelServer(BEFORE_OUTPUT[failure], said(speaks)) as server:
        run = go(speaks.model(server.url), clock=VirtualClock())
    assert (run.stop_reason, run.text) == ("finished", "All done."), run.error
    (event,) = retries(run)
    assert event.payload["attempt"] == 1
    assert event.payload["what"]
    first, second = server.asked
    assert first.body == second.body


@both
def test_refused_connection_is_retried_and_names_the_address(speaks: Speaks) -> None:
    with closed_port() as port:
        model = speaks.model(f"http://127.0.0.1:{port}", retry=bl.models.Retry(attempts=3))
        run = go(model, clock=VirtualClock())
    assert run.stop_reason == "error"
    assert [event.payload["attempt"] for event in retries(run)][:2] == [1, 2]
    assert f"127.0.0.1:{port}" in (run.error or "")
    (step,) = run.steps
    assert step.error == run.error


@both
def test_dead_connection_does_not_fail_the_next_step(speaks: Speaks) -> None:
    with ModelServer([*said(speaks, LOOK), CLOSE], [*said(speaks, LOOK), RESET], said(speaks)) as server:
        run = go(speaks.model(server.url), clock=VirtualClock())
    assert (run.stop_reason, run.n_steps) == ("finished", 3), run.error
    assert server.connections == 3


# How long is waited


def wait_of(speaks: Speaks, **headers: str) -> int:
    """How long the model waits after a 429 with these headers, by a clock of ours, in ms."""
    clock = VirtualClock()
    with ModelServer(failing(speaks, 429, **headers), said(speaks), now=clock.now) as server:
        run = go(speaks.model(server.url, retry=bl.models.Retry(first=0.001, most=0.002)), clock=clock)
    assert run.stop_reason == "finished", run.error
    first, second = (asked.at for asked in server.asked)
    assert first is not None
    assert second is not None
    return second - first


@both
@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"Retry_After": "7"}, 7_000, 8_000),
        ({"Retry_After": "1.5"}, 1_500, 2_500),
        ({"retry_after_ms": "1500"}, 1_500, 2_500),
        ({"retry_after_ms": "1500", "Retry_After": "2"}, 1_500, 3_000),
        ({"Retry_After": "0"}, 0, 10),
        ({"Retry_After": "-5"}, 0, 10),
        ({"Retry_After": "soon"}, 0, 10),
        ({"Retry_After": "nan"}, 0, 10),
        ({"Retry_After": "Fri, 31 Dec 1999 23:59:59 GMT"}, 0, 10),
    ],
    ids=str,
)
def test_a_server_says_how_long_to_wait(speaks: Speaks, headers: dict[str, str], least: int, most: int) -> None:
    assert least <= wait_of(speaks, **headers) <= most


@both
def test_a_server_says_until_when_to_wait(speaks: Speaks) -> None:
    """RFC 9110, 10.2.3: an HTTP date, in whole seconds."""
    waited = wait_of(speaks, Retry_After=formatdate(time.time() + 40, usegmt=True))
    assert 35_000 <= waited <= 41_500


@both
@pytest.mark.parametrize("header", ["100000", "1e300", "1e400", "inf", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_a_wait_beyond_the_total_time_is_not_begun(speaks: Speaks, header: str) -> None:
    clock = VirtualClock()
    with ModelServer(failing(speaks, 429, Retry_After=header), said(speaks)) as server:
        run = go(speaks.model(server.url, retry=bl.models.Retry(seconds=60)), clock=clock)
    assert clock.now() <= 60_000
    if header != "inf":
        assert run.stop_reason == "error"
        assert "Try later." in (run.error or "")
        assert len(server.asked) == 1


@both
def test_attempts_are_limited(speaks: Speaks) -> None:
    with ModelServer(*[failing(speaks, 503, "Down for today.")] * 3) as server:
        run = go(speaks.model(server.url, retry=bl.models.Retry(attempts=3)), clock=VirtualClock())
    assert len(server.asked) == 3
    assert run.stop_reason == "error"
    assert "Down for today." in (run.error or "")
    assert "503" in (run.error or "")


@both
def test_the_total_time_is_limited(speaks: Speaks) -> None:
    clock = VirtualClock()
    with ModelServer(reply=lambda _: failing(speaks, 503)) as server:
        run = go(speaks.model(server.url, retry=bl.models.Retry(attempts=10_000, seconds=20)), clock=clock)
    assert run.stop_reason == "error"
    assert 5_000 <= clock.now() <= 20_000
    assert 2 < len(server.asked) < 1_000


@both
def test_each_step_has_attempts_of_its_own(speaks: Speaks) -> None:
    once_each = [answer for one in (LOOK, LOOK, DONE) for answer in (failing(speaks, 500), said(speaks, one))]
    with ModelServer(*once_each) as server:
        run = go(speaks.model(server.url, retry=bl.models.Retry(attempts=2)), clock=VirtualClock())
    assert (run.stop_reason, run.n_steps, len(retries(run))) == ("finished", 3, 3)


# Not asked again


@both
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_what_another_attempt_would_not_mend_is_not_asked_again(speaks: Speaks, status: int) -> None:
    with ModelServer(failing(speaks, status, "You may not do that.")) as server:
        run = go(speaks.model(server.url), clock=VirtualClock())
    assert run.stop_reason == "error"
    assert "You may not do that." in (run.error or "")
    assert str(status) in (run.error or "")
    assert len(server.asked) == 1
    assert len(run.steps) == 1


@both
@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize(
    "body",
    [
        b"<html><title>Bad gateway</title></html>",
        b"",
        b"{",
        b"null",
        b'"no"',
        b"[]",
        b'{"error": "it broke"}',
        b"\xff\xfe",
    ],
    ids=repr,
)
def test_an_error_in_any_form_is_an_error_with_its_status(speaks: Speaks, status: int, body: bytes) -> None:
    """Proxies answer in HTML; Ollama and others give a plain text as `error`."""
    with ModelServer(whole(body, status)) as server:
        run = go(speaks.model(server.url, **once()), clock=VirtualClock())
    assert run.stop_reason == "error"
    assert str(status) in (run.error or "")
    if b"it broke" in body:
        assert "it broke" in (run.error or "")
    assert len(server.asked) == 1


# Broken after output


def paid(speaks: Speaks) -> bl.models.Usage:
    """What a response that began with `opening((30, 4))` and broke is known to have cost.

    The output that a `message_start` tells is what was there as the stream began: of the whole it says nothing.
    """
    return bl.models.Usage(30, 4 if speaks is CHAT else None)


def breaks(speaks: Speaks, heard: Gate) -> dict[str, list[Act]]:
    """Ways in which a stream ends too early, each once the text has been heard."""
    begun: list[Act] = [speaks.opening((30, 4)), speaks.text("Half of "), speaks.text("it"), heard]
    return {
        "reset": stream(*begun, end=(RESET,)),
        "closed": stream(*begun, end=(CLOSE,)),
        "half a chunk": stream(*begun, end=(b"ff\r\ndata: {", CLOSE)),
        "reset in a chunk": stream(*begun, end=(b"ff\r\ndata: {", RESET)),
        "no finish reason": stream(*begun),
        "error event": stream(*begun, speaks.error_event("Worker died.")),
        "garbage event": stream(*begun, b"data: {garbage\n\n"),
    }


BREAKS = list(breaks(CHAT, Gate()))


def watching() -> tuple[Gate, Any]:
    """A gate that opens as the second piece of text is heard, and the listener that opens it."""
    heard = Gate()

    def watch(event: Event) -> None:
        if event.kind == "delta" and event.payload["text"].endswith("it"):
            heard.open()

    return heard, watch


@both
@pytest.mark.parametrize("kind", BREAKS)
def test_stream_broken_after_output_is_kept_and_not_retried(speaks: Speaks, kind: str) -> None:
    heard, watch = watching()
    with ModelServer(breaks(speaks, heard)[kind]) as server:
        run = go(speaks.model(server.url), clock=VirtualClock(), on_event=watch)
    assert run.stop_reason == "error"
    (step,) = run.steps
    assert step.error == run.error
    assert "ModelError" in step.error
    assert step.response.text == "Half of it"
    assert step.response.usage == paid(speaks)
    assert len(server.asked) == 1
    assert retries(run) == []


@pytest.mark.parametrize(("reason", "stop"), [(None, "error"), ("stop", "finished")])
def test_done_without_a_reason_on_a_broken_connection_is_a_fault(reason: str | None, stop: str) -> None:
    """So llama.cpp ends a response when it is told to stop: with [DONE], and a reset."""
    chunk = {"choices": [{"index": 0, "delta": {"content": "I was about to"}, "finish_reason": reason}]}
    with ModelServer([*stream(sse(chunk), b"data: [DONE]\n\n", end=()), RESET]) as server:
        run = go(CHAT.model(server.url), clock=VirtualClock())
    assert (run.stop_reason, run.steps[0].response.text) == (stop, "I was about to")


def broken(speaks: Speaks) -> list[Act]:
    return stream(speaks.opening((30, 4)), speaks.text("Half of it"), speaks.error_event("Worker died."))


ASKS_AGAIN = QUIET.vary(execution={"broken_retries": 2})


@both
def test_policy_retries_a_broken_stream_without_its_part(speaks: Speaks) -> None:
    with ModelServer(broken(speaks), broken(speaks), said(speaks)) as server:
        run = go(speaks.model(server.url), policy=ASKS_AGAIN, clock=VirtualClock())
    assert (run.stop_reason, run.n_steps, run.text) == ("finished", 3, "All done."), run.error
    *cut, last = run.steps
    assert [(step.response.text, step.response.usage) for step in cut] == [("Half of it", paid(speaks))] * 2
    assert all("Worker died." in step.error for step in cut)
    assert last.error == ""
    assert run.error is None
    assert len({asked.body for asked in server.asked}) == 1


# Timeouts


def test_a_server_that_does_not_take_the_connection_times_out() -> None:
    with deaf_port() as port:
        model = CHAT.model(
            f"http://127.0.0.1:{port}", retry=bl.models.Retry(attempts=2), timeouts=bl.models.Timeouts(connect=SHORT)
        )
        run = go(model, clock=VirtualClock())
    assert run.stop_reason == "error"
    assert len(retries(run)) >= 1
    assert f"127.0.0.1:{port}" in (run.error or "")


SILENCES: dict[str, list[Act]] = {
    "no answer": [],
    "half the headers": [b"HTTP/1.1 200 OK\r\nContent-"],
    "headers alone": stream(end=()),
    "half an event": stream(b'data: {"choices"', end=()),
}


@both
@pytest.mark.parametrize("kind", SILENCES)
def test_the_first_token_is_awaited_only_so_long(speaks: Speaks, kind: str) -> None:
    never = Gate()
    with ModelServer([*SILENCES[kind], never], said(speaks)) as server:
        model = speaks.model(server.url, timeouts=bl.models.Timeouts(first_token=LONG))
        run = go_until(model, lambda: server.wait_for(1))
        server.asked[0].gone.wait()
    assert run.stop_reason == "finished"
    (event,) = retries(run)
    assert "5.0 s" in event.payload["what"]


CHATTER: dict[str, bytes] = {
    "comments": b": still here\n\n",
    "one endless line": b"data: " + b"x" * 1000,
    "empty lines": b"\n\n",
    "events without data": b"event: ping\n\n",
}


@both
@pytest.mark.parametrize("kind", [*CHATTER, "pings"])
def test_what_is_no_output_does_not_put_off_the_end_of_patience(speaks: Speaks, kind: str) -> None:
    piece = CHATTER.get(kind) or speaks.nothing()
    with ModelServer(stream(Forever(piece), end=())) as server:
        model = speaks.model(server.url, **once(timeouts=bl.models.Timeouts(first_token=LONG)))
        run = go_until(model, lambda: server.wait_for(1))
        server.asked[0].gone.wait()
    assert run.stop_reason == "error"


@both
@pytest.mark.parametrize("kind", ["nothing", "pings", "comments", "one endless line"])
def test_timeout_between_outputs_keeps_the_partial_response(speaks: Speaks, kind: str) -> None:
    last: Act = Gate() if kind == "nothing" else Forever(CHATTER.get(kind) or speaks.nothing())
    answer = stream(speaks.opening((30, 4)), speaks.text("Half of it"), last, end=())
    came = Gate()

    def watch(event: Event) -> None:
        if event.kind == "delta" and event.payload["text"] == "Half of it":
            came.open()

    with ModelServer(answer) as server:
        model = speaks.model(server.url, timeouts=bl.models.Timeouts(between=LONG))
        run = go_until(model, came.wait, on_event=watch)
        server.asked[0].gone.wait()
    assert run.stop_reason == "error"
    (step,) = run.steps
    assert (step.response.text, step.response.usage) == ("Half of it", paid(speaks))
    assert len(server.asked) == 1


@both
def test_timeout_of_the_whole_response_ends_it(speaks: Speaks) -> None:
    answer = stream(speaks.opening((30, 4)), Forever(speaks.text("and on ")), end=())
    came = Gate()

    def watch(event: Event) -> None:
        if event.kind == "delta":
            came.open()

    with ModelServer(answer) as server:
        run = go_until(speaks.model(server.url, timeouts=bl.models.Timeouts(whole=LONG)), came.wait, on_event=watch)
        server.asked[0].gone.wait()
    assert run.stop_reason == "error"
    (step,) = run.steps
    assert step.response.text.startswith("and on ")
    assert step.response.usage == paid(speaks)
    assert len(server.asked) == 1


@both
def test_a_whole_body_that_never_ends_is_given_up(speaks: Speaks) -> None:
    endless: Answer = [head(200, {"Content-Type": "application/json"}), b"[", Forever(b"0," * 500)]
    with ModelServer(endless) as server:
        timeouts = bl.models.Timeouts(first_token=LONG, between=LONG, whole=LONG)
        run = go_until(speaks.model(server.url, **once(timeouts=timeouts)), lambda: server.wait_for(1))
        server.asked[0].gone.wait()
    assert run.stop_reason == "error"


# Aborted


@both
def test_abort_in_mid_stream_keeps_the_partial_response(speaks: Speaks) -> None:
    abort, never = Abort(), Gate()

    def watch(event: Event) -> None:
        if event.kind == "delta" and event.payload["text"] == "Half of it":
            abort.abort()

    with ModelServer(stream(speaks.opening((30, 4)), speaks.text("Half of it"), never)) as server:
        run = go(speaks.model(server.url), abort=abort, on_event=watch)
        server.asked[0].gone.wait()
    assert run.stop_reason == "aborted"
    assert run.steps[0].response.text == "Half of it"
    assert len(server.asked) == 1


def test_an_abort_in_a_wait_between_attempts_ends_it() -> None:
    abort = Abort()

    async def stop_when_it_waits(model: Model) -> Run:
        def watch(event: Event) -> None:
            if event.kind == "step_start":
                asyncio.get_running_loop().call_later(0.05, abort.abort)

        return await going(model, abort=abort, on_event=watch)

    with ModelServer(*[failing(CHAT, 503, Retry_After="60")] * 2) as server:
        run = asyncio.run(stop_when_it_waits(CHAT.model(server.url)))
    assert run.stop_reason == "aborted"
    assert len(server.asked) == 1


@both
def test_the_connection_is_whole_after_an_abort(speaks: Speaks) -> None:
    """The next run of the same model, in the same event loop, is not given the rest of an aborted answer."""
    never = Gate()

    async def abort_then_ask(server: ModelServer) -> Run:
        abort = Abort()
        model = speaks.model(server.url)

        def watch(event: Event) -> None:
            if event.kind == "delta":
                abort.abort()

        assert (await going(model, abort=abort, on_event=watch)).stop_reason == "aborted"
        return await going(model)

    with ModelServer(stream(speaks.opening((30, 4)), speaks.text("Half of it"), never), said(speaks)) as server:
        assert asyncio.run(abort_then_ask(server)).text == "All done."


# Redirects


@both
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_an_error_and_is_not_followed(speaks: Speaks, status: int) -> None:
    with ExitStack() as servers:
        other = servers.enter_context(ModelServer())
        server = servers.enter_context(
            ModelServer(whole(b"", status, {"Location": f"{other.url}{speaks.root}/elsewhere"}))
        )
        run = go(speaks.model(server.url, api_key="sk-not-for-others"), clock=VirtualClock())
    assert run.stop_reason == "error"
    assert str(status) in (run.error or "")
    assert (len(server.asked), other.connections) == (1, 0)


# Others


@both
def test_a_summary_at_the_cap_is_retried_like_a_step(speaks: Speaks) -> None:
    agent = bl.Agent("a", max_steps=1, tools=("look",))
    answers = [said(speaks, LOOK), failing(speaks, 500), said(speaks, Said("In short."))]
    with ModelServer(*answers) as server:
        run = asyncio.run(
            bl.run(agent, "go", model=speaks.model(server.url), tools=[look], policy="boocode", clock=VirtualClock())
        )
    assert (run.stop_reason, run.text) == ("step_cap", "In short."), run.error
    assert len(retries(run)) == 1
    assert run.wrap_up is not None
    assert run.wrap_up.response is not None
    assert run.wrap_up.response.usage[:2] == (10, 5)
