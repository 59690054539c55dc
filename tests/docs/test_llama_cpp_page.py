"""docs/llama_cpp.md: its code and its commands, on what a real llama.cpp server once said."""

import json
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
CELLS, TRIAL = CODE[:2], CODE[2:]
SHOWN = re.findall(r"\n\n```\n(.*?)```", PAGE.partition("## 6.")[2], re.DOTALL)
GAMES: list[list[str]] = json.loads(body("llama_cpp_games.json"))
COMMANDS = re.findall(r"```sh\n(?:mkdir (\w+)\n)?(boolab .*?)```", PAGE, re.DOTALL)


def said(asked: Asked) -> Answer:
    """A call where the request forces one, with the name of its tool; else text."""
    forced = asked.json.get("tool_choice")
    if not isinstance(forced, dict):
        return stream(body("llama_cpp_text_stop.txt"))
    name = forced["function"]["name"]
    return stream(body("llama_cpp_call.txt").replace(b'"name": "add"', b'"name": "%b"' % name.encode()))


def played(asked: Asked) -> Answer:
    """The guess that the server made at this step of this game; else text. The pieces of a call are joined."""
    if not isinstance(asked.json.get("tool_choice"), dict):
        return said(asked)
    messages = asked.json["messages"]
    (game,) = {int(n) for message in messages for n in re.findall(r"Game (\d+)", message["content"] or "")}
    arguments = GAMES[game][sum(message["role"] == "tool" for message in messages)]
    first, name, *_, finish, done, end = body("llama_cpp_call.txt").split(b"\n\n")
    piece = b'"arguments": %b' % json.dumps(arguments).encode()
    call = name.replace(b'"arguments": "{"', piece).replace(b'"name": "add"', b'"name": "guess"')
    return stream(b"\n\n".join([first, call, finish, done, end]))


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
        frames = [evaluate(source.replace(URL, server.url), names) for source in CELLS]
    assert last_line(capsys.readouterr().out) == "step_cap by max_steps(3) after 3 steps, 3 of 3"
    assert "━━ step_cap by max_steps(3) after 3 steps, 3 of 3 ━" in PAGE
    assert str(frames[-1]) in PAGE
    assert [step.response.usage for step in names["run"].steps] == [UNKNOWN_USAGE] * 3


def test_forced_tool_choice_reaches_the_server_until_the_wrap_up(names: dict[str, Any]) -> None:
    with ModelServer(reply=said_anew) as server:
        evaluate(CELLS[0].replace(URL, server.url), names)
    *steps, wrap_up = [asked.json for asked in server.asked]
    assert [request["tool_choice"] for request in steps] == [{"type": "function", "function": {"name": "add"}}] * 3
    assert not isinstance(wrap_up.get("tool_choice"), dict)
    assert {(request["max_tokens"], request["seed"]) for request in (*steps, wrap_up)} == {(64, 1)}
    told = [message for message in wrap_up["messages"] if message["role"] == "assistant" and message.get("tool_calls")]
    assert [message["content"] for message in told] == [""] * 3  # this server refuses null


@pytest.mark.slow
def test_trial_of_the_page_reproduces_its_printed_results(
    names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names["bl"] = bl
    with ModelServer(reply=played) as server:
        first, everything, equal = [evaluate(source.replace(URL, server.url), names) for source in TRIAL]
    assert (first, everything) == (None, None)
    assert capsys.readouterr().out == SHOWN[0] + SHOWN[1]
    assert f"{equal}\n" == SHOWN[2]


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
