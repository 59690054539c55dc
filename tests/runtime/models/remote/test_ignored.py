"""A server that ignores tools or tool_choice is on record, once a run, with a warning; others are not accused."""

import logging
from typing import Any

import pytest

import boolab as bl
from tests.support.model_protocols import CHAT, Said, go
from tests.support.model_server import ModelServer, stream

LOOK = Said(calls=[("call_1", "look", '{"what": "the sea"}')], usage=(400, 7))


def events_of(*said: Said, **options: Any) -> list[tuple[str, str]]:
    with ModelServer(*(stream(*CHAT.events(one)) for one in said)) as server:
        run = go(CHAT.model(server.url, **options))
    return [
        (str(event.payload["parameter"]), str(event.payload["what"])) for event in run.events if event.kind == "ignored"
    ]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "look"}}])
def test_a_required_call_that_did_not_come_is_on_record(choice: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ((parameter, what),) = events_of(Said("Hi.", usage=(400, 5)), tool_choice=choice)
    assert parameter == "tool_choice"
    assert "WrittenCalls forces calls" in what
    assert what in caplog.text


def test_a_prompt_too_short_for_the_tools_is_on_record() -> None:
    ((parameter, _),) = events_of(Said("Hi.", usage=(5, 5)))
    assert parameter == "tools"


@pytest.mark.parametrize(
    ("said", "options"),
    [
        (Said("Hi.", usage=(400, 5)), {}),
        (Said("Hi.", usage=None), {}),
        (Said("Hi.", usage=(400, 5), finish="length"), {"tool_choice": "required"}),
        (Said("Hi.", usage=(400, 5)), {"tool_choice": "auto"}),
    ],
)
def test_a_server_that_may_have_obeyed_is_not_accused(said: Said, options: dict[str, Any]) -> None:
    assert events_of(said, **options) == []


def test_only_the_first_request_is_looked_at() -> None:
    assert events_of(LOOK, Said("Done.", usage=(400, 5)), tool_choice="required") == []


def test_a_run_without_tools_has_nothing_to_ignore() -> None:
    with ModelServer(stream(*CHAT.events(Said("Hi.", usage=(1, 1))))) as server:
        run = bl.run_sync(None, "Hello", model=CHAT.model(server.url))
    assert [event.kind for event in run.events] == []
