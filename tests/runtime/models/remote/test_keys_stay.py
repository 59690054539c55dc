"""Keys: they go to the configured host, and nowhere else; no record, text, log or recording of ours holds one.

The key of these tests is the session's canary (see canary.py), so that what they write is searched for it once more.
"""

import asyncio
import contextlib
import copy
import functools
import json
import logging
import pickle
import pprint
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

import boolab as bl
from boolab.core.clock import VirtualClock
from boolab.core.messages import Message, Text
from boolab.core.process_pool import ProcessPool
from boolab.core.types import Event
from boolab.runtime.models.remote.model import RemoteModel
from tests.support.canary import CANARY
from tests.support.cases import first
from tests.support.helpers import QUIET
from tests.support.model_protocols import CHAT, Said, Speaks, both, go, sse
from tests.support.model_server import CLOSE, Act, Asked, Gate, ModelServer, closed_port, stream, whole

LOOK = Said("I look. ", [("call_1", "look", '{"what": "the sea"}')], usage=(20, 7))
DONE = Said("All done.")

GIVEN: dict[str, Callable[[Speaks, str], bl.models.Model]] = {
    "api_key": lambda speaks, url: speaks.model(url, api_key=CANARY),
    "header": lambda speaks, url: speaks.model(url, api_key=None, headers={"Authorization": f"Bearer {CANARY}"}),
    "other header": lambda speaks, url: speaks.model(url, api_key=None, headers={"X-Goog-Api-Key": CANARY}),
}
given = pytest.mark.parametrize("how", first(1, GIVEN))


def said(speaks: Speaks, one: Said = DONE) -> list[Act]:
    return stream(*speaks.events(one))


def echo(asked: Asked) -> str:
    """What a server that echoes its request's headers would say."""
    return " ".join(f"{name}: {value}" for name, value in asked.headers.items())


def endings(speaks: Speaks) -> dict[str, Callable[[Asked], list[Act]]]:
    """Ways to answer, each with the key in it where a server has a place for it."""
    return {
        "answered": lambda _: said(speaks),
        "refused": lambda asked: whole(speaks.error(f"Incorrect API key provided: {echo(asked)}"), 401),
        "refused in HTML": lambda asked: whole(f"<pre>{echo(asked)}</pre>".encode(), 403),
        "failed again and again": lambda asked: whole(speaks.error(echo(asked)), 500),
        "failed in the stream": lambda asked: stream(speaks.error_event(echo(asked))),
        "failed after output": lambda asked: stream(
            speaks.opening((3, 1)), speaks.text("Half"), speaks.error_event(echo(asked))
        ),
        "garbage": lambda asked: stream(speaks.opening((3, 1)), speaks.text("Half"), sse(f"{{{echo(asked)}")),
        "cut": lambda _: stream(speaks.opening((3, 1)), speaks.text("Half"), end=(CLOSE,)),
        "hung up": lambda _: [CLOSE],
        "no HTTP": lambda asked: [f"SSH-2.0 {echo(asked)}\r\n\r\n".encode(), CLOSE],
        "no JSON": lambda asked: whole(f"{{{echo(asked)}".encode()),
        "said": lambda asked: said(speaks, Said(f"You sent me {echo(asked)}.", reasoning=f"They sent {echo(asked)}.")),
        "said in a call": lambda asked: said(speaks, Said("", [("c1", "look", json.dumps({"what": echo(asked)}))])),
        "said as a name": lambda asked: said(speaks, Said("", [(CANARY, CANARY, "{}")])),
        "said in whole": lambda asked: whole(speaks.whole(Said(f"You sent me {echo(asked)}."))),
        "said as a finish reason": lambda _: said(speaks, Said("Hi.", finish=CANARY)),
    }


ENDINGS = list(endings(CHAT))


@dataclass
class Everything:
    """All that there is to see of a run."""

    run: bl.Run
    events: list[Event] = field(default_factory=list)
    log: str = ""


def see(speaks: Speaks, how: str, ending: str, caplog: pytest.LogCaptureFixture) -> Everything:
    """A run on such a server, watched as closely as can be."""
    answers = endings(speaks)[ending]

    def reply(asked: Asked) -> list[Act]:
        return said(speaks) if ending.startswith("said") and len(server.asked) > 1 else answers(asked)

    events: list[Event] = []
    with caplog.at_level(logging.NOTSET), ModelServer(reply=reply) as server:
        if ending == "no HTTP":  # at DEBUG, httpcore shows the bytes that it could not understand
            caplog.set_level(logging.INFO, "httpcore")
        run = go(GIVEN[how](speaks, server.url), clock=VirtualClock(), on_event=events.append)
    assert CANARY in echo(server.asked[0])  # else nothing of this is a test
    return Everything(run, events, caplog.text)


@both
@given
@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_that_is_kept_of_a_run_holds_the_key(
    speaks: Speaks, how: str, ending: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    seen = see(speaks, how, ending, caplog)
    run = seen.run
    bl.save_runs(run, tmp_path / "run.jsonl")
    bl.save_runs(run, tmp_path / "run.parquet")
    told = {
        "repr": repr(run),
        "str": str(run),
        "error": run.error or "",
        "steps": "".join(repr(tuple(step)) + repr(tuple(step.response)) for step in run.steps),
        "events of the record": repr(run.events),
        "events that were heard": repr(seen.events),
        "deltas": "".join(event.payload["text"] for event in seen.events if event.kind == "delta"),
        "log": seen.log,
        "file": (tmp_path / "run.jsonl").read_text(),
        "columns": repr(bl.load_runs(tmp_path / "run.parquet")),
        "pickle": pickle.dumps(run).decode("latin-1"),
        "pprint": pprint.pformat(run),
    }
    assert [name for name, text in told.items() if CANARY in text] == []
    assert "boolab" in seen.log


@both
def test_key_repeated_in_many_pieces_is_removed(speaks: Speaks) -> None:
    pieces = [speaks.text(letter) for letter in f"Your key is {CANARY}, is it not?"]
    with ModelServer(stream(speaks.opening((3, 1)), *pieces, *speaks.closing((3, 9)))) as server:
        run = go(speaks.model(server.url, api_key=CANARY))
    assert run.stop_reason == "finished"
    assert CANARY not in run.text
    assert run.text.startswith("Your key is ")
    assert run.text.endswith(", is it not?")


@both
@pytest.mark.parametrize("end", ["aborted", "cut"])
def test_nor_is_one_of_a_response_that_was_broken_off(speaks: Speaks, end: str) -> None:
    """What is kept of it are the pieces that were heard."""
    abort = bl.Abort()
    pieces = [speaks.text(letter) for letter in f"Your key is {CANARY}, is it not?"]

    def watch(event: Event) -> None:
        if event.kind == "delta" and event.payload["text"].endswith("?") and end == "aborted":
            abort.abort()

    last: Act = Gate() if end == "aborted" else CLOSE
    with ModelServer(stream(speaks.opening((3, 1)), *pieces, last)) as server:
        run = go(speaks.model(server.url, api_key=CANARY), on_event=watch, abort=abort)
    assert run.stop_reason in ("aborted", "error")
    assert run.text.startswith("Your key is ")
    assert CANARY not in run.text


@both
def test_a_text_that_holds_no_key_is_left_as_it_is(speaks: Speaks) -> None:
    text = f"A key looks like {CANARY[:-1]} or sk-abc; mine is Bearer x. {CANARY[:9]}"
    with ModelServer(said(speaks, Said(text))) as server:
        assert go(speaks.model(server.url, api_key=CANARY)).text == text


@both
@given
def test_a_model_shows_no_key(speaks: Speaks, how: str) -> None:
    model = GIVEN[how](speaks, "http://127.0.0.1:9")
    inside = [vars(part) for part in (model, *vars(model).values()) if hasattr(part, "__dict__")]
    shown = [repr(model), str(model), f"{model}", repr(inside), pprint.pformat(inside), model.name]
    assert [text for text in shown if CANARY in text] == []


@both
@given
def test_model_with_a_given_key_is_not_pickled(speaks: Speaks, how: str) -> None:
    model = GIVEN[how](speaks, "http://127.0.0.1:9")
    for dumps in (pickle.dumps, cloudpickle.dumps, copy.deepcopy):
        with pytest.raises(bl.SettingError, match="has a secret.*pass model= as a function, which") as caught:
            dumps([model])
        assert CANARY not in everything_below(caught.value)
    assert CANARY not in json.dumps(model, default=repr)


@pytest.mark.parametrize("kind", [bl.OpenAIModel, bl.AnthropicModel])
def test_unpickled_model_reads_the_key_of_its_environment(
    kind: type[RemoteModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    rate_limit = bl.models.RateLimit(3, 50)
    settings: dict[str, Any] = {
        "headers": {"X-Title": "mine"},
        "retry": bl.models.Retry(attempts=2),
        "timeouts": bl.models.Timeouts(whole=9),
    }
    model = kind("m", rate_limit=rate_limit, context_window=9, name="mine", prices=False, temperature=0.5, **settings)
    data = pickle.dumps(model)
    assert CANARY.encode() not in data
    variable = f"{kind.__name__.removesuffix('Model').upper()}_API_KEY"
    monkeypatch.setenv(variable, "sk-of-the-worker")
    there = pickle.loads(data)  # noqa: S301 - our own
    carried = [secret.get_secret_value() for secret in there._endpoint._auth._secrets.values()]
    assert [word.rpartition(" ")[2] for word in carried] == ["sk-of-the-worker"]
    assert there._settings | {"rate_limit": None} == model._settings | {"rate_limit": None}
    assert (repr(there), there.name, there.context_window) == (repr(model), "mine", 9)
    monkeypatch.delenv(variable)
    with pytest.raises(bl.SettingError, match=f"set the environment variable {variable}"):
        pickle.loads(data)  # noqa: S301 - our own


def test_a_model_works_in_another_process() -> None:
    with ModelServer(said(CHAT)) as server, contextlib.closing(ProcessPool(1)) as pool:
        model = CHAT.model(server.url, api_key=None)
        assert pool.submit(functools.partial(bl.run_sync, None, "go", model=model)).result().text == DONE.text


WRONG: dict[str, dict[str, Any]] = {
    "another setting": {"api_key": CANARY, "messages": []},
    "a list": {"api_key": [CANARY]},
    "bytes": {"api_key": CANARY.encode()},
    "not ASCII": {"api_key": f"{CANARY}\u2028x"},
    "two lines": {"api_key": f"{CANARY}\r\nX: y"},
    "a header of two lines": {"headers": {"Authorization": f"{CANARY}\r\nX: y"}},
    "a header's name of two lines": {"headers": {"X-Key": CANARY, "Bad\nName": "x"}},
    "a header that is no text": {"headers": {"X-Key": [CANARY]}},
}


@both
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_setting_is_named_without_the_key(speaks: Speaks, what: str) -> None:
    with pytest.raises(bl.SettingError) as caught:
        speaks.model("http://127.0.0.1:9", **WRONG[what])
    shown = "".join(traceback.TracebackException.from_exception(caught.value).format())
    assert CANARY not in shown + everything_below(caught.value)


def asked_directly(model: bl.models.Model) -> str:
    """The traceback of a failing request with all locals: what IPython's verbose mode, rich or Sentry show."""
    request = bl.models.Request(0, (Message("user", (Text("go"),)),), (), VirtualClock())
    try:
        asyncio.run(model.respond(request, lambda _of, _delta: None))
    except bl.errors.ModelError as error:
        shown = traceback.TracebackException.from_exception(error, capture_locals=True, max_group_depth=100)
        return "".join(shown.format(chain=True)) + everything_below(error)
    return "it did not fail"


def everything_below(error: BaseException) -> str:
    """The causes and contexts that `from None` hides from a printed traceback, with their locals."""
    text, seen, waiting = "", set(), [error.__cause__, error.__context__]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__]
        text += repr(one) + "".join(traceback.TracebackException.from_exception(one, capture_locals=True).format())
    return text


@both
@given
@pytest.mark.parametrize("ending", [name for name in ENDINGS if not name.startswith(("said", "answered"))])
def test_no_traceback_with_locals_shows_the_key(speaks: Speaks, how: str, ending: str) -> None:
    with ModelServer(reply=endings(speaks)[ending]) as server:
        model = GIVEN[how](speaks, server.url)
        shown = asked_directly(model)
    assert "ModelError" in shown
    assert CANARY not in shown


@both
@given
def test_no_traceback_of_a_connection_that_failed_shows_the_key(speaks: Speaks, how: str) -> None:
    with closed_port() as port:
        shown = asked_directly(GIVEN[how](speaks, f"http://127.0.0.1:{port}"))
    assert "ModelError" in shown
    assert CANARY not in shown


# Recordings


@both
@given
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_recording_holds_no_key(speaks: Speaks, how: str, ending: str, tmp_path: Path) -> None:
    def reply(asked: Asked) -> list[Act]:
        return said(speaks) if ending.startswith("said") and len(server.asked) > 1 else endings(speaks)[ending](asked)

    path = tmp_path / "recording.jsonl"
    with ModelServer(reply=reply) as server:
        model = bl.record(GIVEN[how](speaks, server.url), path)
        run = go(model, clock=VirtualClock())
    written = path.read_text()
    assert run.steps[0].response.text in written
    assert CANARY not in written
    assert CANARY not in repr(model)
    if ending == "answered":
        assert "authorization" not in written.lower()
        assert "api-key" not in written.lower()


# Keys of the environment


NAMES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}


@both
def test_an_argument_wins_over_the_environment(speaks: Speaks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAMES[speaks.name], CANARY)
    with ModelServer(said(speaks)) as server:
        go(speaks.model(server.url, api_key="sk-mine"))
    assert speaks.key_in(server.asked[0]) == "sk-mine"


@both
def test_credentials_of_the_machine_are_not_sent(
    speaks: Speaks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Httpx takes logins from ~/.netrc where it trusts the environment."""
    login = tmp_path / "netrc"
    login.write_text("machine 127.0.0.1 login me password netrc-secret\n")
    monkeypatch.setenv("NETRC", str(login))
    with ModelServer(said(speaks)) as server:
        go(speaks.model(server.url))
    assert speaks.key_in(server.asked[0]) == "sk-test"
    assert "basic" not in echo(server.asked[0]).lower()


@both
@pytest.mark.parametrize("where", ["same host", "other port"])
def test_no_key_goes_along_a_redirect(speaks: Speaks, where: str) -> None:
    with ExitStack() as servers:
        other = servers.enter_context(ModelServer(reply=lambda _: said(speaks)))

        def reply(_asked: Asked) -> list[Act]:
            target = server.url if where == "same host" else other.url
            return whole(b"", 307, {"Location": f"{target}/elsewhere"})

        server = servers.enter_context(ModelServer(reply=reply))
        run = go(speaks.model(server.url, api_key=CANARY), clock=VirtualClock())
    assert run.stop_reason == "error"
    assert other.connections == 0
    assert [asked.target for asked in server.asked if "elsewhere" in asked.target] == []


# What a terminal or a notebook shows


@both
def test_printing_a_run_and_its_tables_shows_no_key(speaks: Speaks, capsys: pytest.CaptureFixture[str]) -> None:
    def reply(asked: Asked) -> list[Act]:
        return said(speaks) if len(server.asked) > 1 else endings(speaks)["said in a call"](asked)

    with ModelServer(reply=reply) as server:
        model = speaks.model(server.url, api_key=CANARY)
        run = go(model, policy=QUIET.vary())
        print(run, run.messages, model, bl.runs_df([run]).to_string(), bl.steps_df([run]).to_string())  # noqa: T201
        print([asked.json["messages"] for asked in server.asked])  # noqa: T201
    shown = capsys.readouterr().out
    assert "look" in shown
    assert CANARY not in shown
