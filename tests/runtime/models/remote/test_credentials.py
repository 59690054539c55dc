"""Keys: where they come from, where they go, and what hides them."""

import json
import traceback
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from boolab.core.types import Response, ToolCall, Usage
from boolab.errors import SettingError
from boolab.runtime.models.remote.credentials import VARIABLES, Redactor, key_for, secret, split_headers
from boolab.runtime.models.remote.model import OpenAIModel

CANARY = "sk-canary-0123456789"


@pytest.mark.parametrize(("host", "variable"), VARIABLES.items())
def test_environment_key_is_sent_to_its_own_host_alone(
    host: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES.values():
        monkeypatch.setenv(name, f"{CANARY}-{name}")
    key = key_for(host, None)
    assert key is not None
    assert key.get_secret_value() == f"{CANARY}-{variable}"
    for other in (f"{host}.example.com", f"evil-{host}", "127.0.0.1", "localhost", ""):
        assert key_for(other, None) is None


def test_a_missing_key_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    with pytest.raises(SettingError, match=r"api\.openai\.com: set the environment variable OPENAI_API_KEY, or pass"):
        key_for("api.openai.com", None)


def test_environment_key_is_sent_over_https_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    with pytest.raises(SettingError, match="needs https") as caught:
        OpenAIModel("m", base_url="http://api.openai.com/v1")
    assert CANARY not in str(caught.value)


def test_key_loses_the_newline_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{CANARY}\n")
    for key in (key_for("api.openai.com", None), key_for("localhost", f" {CANARY}\r\n")):
        assert key is not None
        assert key.get_secret_value() == CANARY


@pytest.mark.parametrize("key", ["", f"{CANARY}\nx", f"{CANARY} x", f"{CANARY}\x00", f"{CANARY}é", 7, None])
def test_invalid_key_is_refused_without_showing_it(key: Any) -> None:
    with pytest.raises(SettingError) as caught:
        secret(key, "api_key")
    assert "api_key: expected a key" in str(caught.value)
    assert "canary" not in "".join(traceback.format_exception(caught.value))


def test_headers_that_hold_secrets_are_known_by_their_names() -> None:
    plain, hidden = split_headers({"X-Title": "my study", "api-key": CANARY, "Authorization": f"Basic {CANARY}"})
    assert plain == {"X-Title": "my study"}
    assert [*hidden] == ["api-key", "Authorization"]
    assert CANARY not in repr(hidden)


@pytest.mark.parametrize("headers", [{"a b": "x"}, {"": "x"}, {"a": f"{CANARY}\r\nb: c"}, {"a": 7}, {7: "a"}])
def test_invalid_header_is_refused_without_showing_it(headers: Any) -> None:
    with pytest.raises(SettingError, match="headers") as caught:
        split_headers(headers)
    assert CANARY not in str(caught.value)


def test_an_eraser_takes_a_key_out_of_every_part_of_a_response() -> None:
    said = f"my key is {CANARY}!"
    response = Response(said, (ToolCall(said, said, said),), said, Usage(1), said, 5, said, said)
    erased = Redactor([SecretStr(CANARY)])(response)
    assert CANARY not in str(tuple(erased))
    assert erased.text == "my key is <key>!"
    assert (erased.usage, erased.ttft_ms) == (response.usage, 5)


def test_redactor_keeps_placeholders_of_local_servers() -> None:
    assert Redactor([SecretStr("ollama"), None])("I run ollama.") == "I run ollama."


KEYS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=8)


@given(KEYS, st.sampled_from(["'", '"', "\\", ""]))
def test_a_key_of_any_letters_is_taken_out(key: str, beside: str) -> None:
    """Quotes and backslashes too, which stand otherwise in a representation."""
    said = f"{beside} {key} {beside}"
    erased = Redactor([SecretStr(key)])(Response(said, (ToolCall("a", "b", said),)))
    assert erased.text == erased.tool_calls[0].arguments == f"{beside} <key> {beside}"


FORMS: list[Callable[[str], str]] = [
    json.dumps,
    lambda key: json.dumps(key).replace("/", r"\/"),
    lambda key: quote(key, ""),
]


@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_taken_out_as_it_stands_in_json_and_in_a_url(form: Callable[[str], str]) -> None:
    key = 'sk-canary/0123+45="67"\\%{}'
    erase = Redactor([SecretStr(key)])
    assert "canary" not in erase(f"at {form(key)}.")
    assert b"canary" not in erase(f"at {form(key)}.".encode())


def test_nothing_is_left_of_a_key_that_begins_as_another_does() -> None:
    for keys in ([CANARY, f"{CANARY}-of-mine"], [f"{CANARY}-of-mine", CANARY]):
        assert Redactor(map(SecretStr, keys))(f"It is {CANARY}-of-mine.") == "It is <key>."


def test_space_around_a_header_is_no_part_of_it() -> None:
    plain, hidden = split_headers({"X-Title": " my study ", "X-Key": f" {CANARY} "})
    assert (plain["X-Title"], hidden["X-Key"].get_secret_value()) == ("my study", CANARY)
