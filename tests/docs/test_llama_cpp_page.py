"""docs/llama_cpp.md: its code and its commands, on what a real llama.cpp server once said."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.cli.main import main
from boolab.core.types import UNKNOWN_USAGE
from tests.support.model_server import Answer, Asked, ModelServer, stream
from tests.support.pages import evaluate
from tests.support.project import ROOT
from tests.support.sse_cases import body

PAGE = (ROOT / "docs" / "llama_cpp.md").read_text(encoding="utf-8")
URL = "http://127.0.0.1:8000"
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"```sh\n(?:mkdir (\w+)\n)?(boolab .*?)```", PAGE, re.DOTALL)


def said(asked: Asked) -> Answer:
    """A call where the request forces one, with the name of its tool; else text."""
    forced = asked.json.get("tool_choice")
    if not isinstance(forced, dict):
        return stream(body("llama_cpp_text_stop.txt"))
    name = forced["function"]["name"]
    return stream(body("llama_cpp_call.txt").replace(b'"name": "add"', b'"name": "%b"' % name.encode()))


def said_anew(asked: Asked) -> Answer:
    """The same, with other numbers at each step."""
    digit = len(asked.json["messages"]) % 10
    return [
        act.replace(b'"arguments": "9"', b'"arguments": "%d"' % digit) if isinstance(act, bytes) else act
        for act in said(asked)
    ]


@pytest.fixture
def names() -> Iterator[dict[str, Any]]:
    """The names of a notebook; its model is let go of here, so that its connections are closed and not collected."""
    kept: dict[str, Any] = {}
    yield kept
    kept.clear()


def last_line(output: str) -> str:
    """How a run ended, as it is printed."""
    return str(re.findall(r"^━━ (\w+ by .*? of \d+) ━", output, re.MULTILINE)[-1])


def test_the_code_of_the_page_runs_and_ends_as_it_says(
    names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with ModelServer(reply=said_anew) as server:
        frames = [evaluate(source.replace(URL, server.url), names) for source in CODE]
    assert last_line(capsys.readouterr().out) == "step_cap by max_steps(3) after 3 steps, 3 of 3"
    assert "━━ step_cap by max_steps(3) after 3 steps, 3 of 3 ━" in PAGE
    assert str(frames[-1]) in PAGE
    assert [step.response.usage for step in names["run"].steps] == [UNKNOWN_USAGE] * 3


def test_what_the_page_forces_reaches_the_server_until_the_wrap_up(names: dict[str, Any]) -> None:
    with ModelServer(reply=said_anew) as server:
        evaluate(CODE[0].replace(URL, server.url), names)
    *steps, wrap_up = [asked.json for asked in server.asked]
    assert [request["tool_choice"] for request in steps] == [{"type": "function", "function": {"name": "add"}}] * 3
    assert not isinstance(wrap_up.get("tool_choice"), dict)
    assert {(request["max_tokens"], request["seed"]) for request in (*steps, wrap_up)} == {(64, 1)}
    told = [message for message in wrap_up["messages"] if message["role"] == "assistant" and message.get("tool_calls")]
    assert [message["content"] for message in told] == [""] * 3  # this server refuses null


def test_the_commands_of_the_page_run_and_end_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with ModelServer(reply=said) as server:
        for folder, command in COMMANDS:
            (tmp_path / folder).mkdir()
            main(shlex.split(command.replace("\\\n", " ").replace(URL, server.url))[1:])
            assert last_line(capsys.readouterr().out) == "doom_loop by doom_loop(3, ordered) after 3 steps, 3 of 3"
    assert len(COMMANDS) == 1
    assert "━━ doom_loop by doom_loop(3, ordered) after 3 steps, 3 of 3 ━" in PAGE
    assert [run.stop_reason for run in bl.load_runs(tmp_path / "runs")] == ["doom_loop"]


def test_the_files_that_the_page_links_are_there() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
