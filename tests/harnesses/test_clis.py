"""The scripted model that released command-line harnesses are run with; `make conformance-clis` runs the programs."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.conformance.clis import run
from benchmarks.conformance.clis.cases import CASES, Case
from benchmarks.conformance.clis.harness import Harness, Start, Way
from benchmarks.conformance.clis.harnesses import HARNESSES
from benchmarks.conformance.clis.known import KNOWN
from benchmarks.conformance.clis.packages import NPM, wanted
from benchmarks.conformance.clis.report import PAGE, compare, keep, page, read_kept
from benchmarks.conformance.clis.scripts import DONE, ENOUGH, PROMPT, SUBAGENT_PROMPT, Reply, Shell, script_named
from benchmarks.conformance.clis.server import ModelServer
from benchmarks.environments import REQUIREMENTS


def post(url: str, body: object) -> str:
    return httpx.post(url, json=body, trust_env=False).raise_for_status().text


def events(text: str) -> Iterator[Any]:
    return (json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: {"))


def served(harness: Harness, script: str) -> ModelServer:
    return ModelServer(script_named(script), harness.wire(), harness.sorter)


@pytest.mark.parametrize("path", sorted((REQUIREMENTS / NPM).glob("*.json")), ids=lambda path: path.stem)
def test_each_harness_is_one_package_of_one_version(path: Path) -> None:
    package, version = wanted(path.stem)
    assert re.fullmatch(r"(@[a-z-]+/)?[a-z-]+", package)
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)


def test_each_harness_has_its_requirements() -> None:
    assert set(HARNESSES) <= {path.stem for path in (REQUIREMENTS / NPM).glob("*.json")}


@pytest.mark.parametrize("name", ["same", "different", "batch", "delegate"])
def test_endless_script_ends_with_a_text_if_no_limit_stops_it(name: str) -> None:
    script = script_named(name)
    assert all(script("subagent", n).calls for n in range(ENOUGH))
    assert script("subagent", ENOUGH) == Reply(text=DONE["subagent"])


def test_the_scripts_are_what_their_names_say() -> None:
    commands = [script_named("same")("main", n).calls for n in range(ENOUGH)]
    assert len(set(commands)) == 1
    assert len({script_named("different")("main", n).calls for n in range(ENOUGH)}) == ENOUGH
    assert all(len(script_named("batch")("main", n).calls) == 2 for n in range(ENOUGH))
    assert [bool(script_named("finish-3")("main", n).calls) for n in range(3)] == [True, True, False]
    for unknown in ("finish-0", "finish-", "endless"):
        with pytest.raises(ValueError, match="there is no script"):
            script_named(unknown)


def test_claude_code_server_counts_responses_not_side_requests() -> None:
    harness = HARNESSES["claude-code"]
    asked = {"model": "m", "stream": True, "tools": [{"name": "Bash"}], "messages": [{"role": "user", "content": ""}]}
    with served(harness, "different") as server:
        url = f"{server.url}/v1/messages?beta=true"
        asked["messages"] = [{"role": "user", "content": PROMPT}]
        first = list(events(post(url, asked)))
        post(url, asked | {"tools": []})
        post(f"{server.url}/v1/messages/count_tokens", asked)
        asked["messages"] = [{"role": "user", "content": SUBAGENT_PROMPT}]
        post(url, asked | {"stream": False})
        assert (server.requests_of("main"), server.requests_of("subagent")) == (1, 1)
    assert [event["type"] for event in first][::5] == ["message_start", "message_stop"]
    (delta,) = [event["delta"] for event in first if event["type"] == "content_block_delta"]
    expected = script_named("different")("main", 0).calls[0]
    assert isinstance(expected, Shell)
    assert json.loads(delta["partial_json"])["command"] == expected.command


def test_the_server_lets_no_request_out() -> None:
    with served(HARNESSES["claude-code"], "same") as server:
        with httpx.Client(proxy=server.url, trust_env=False) as client:
            assert client.get("http://elsewhere.invalid/").status_code == 403
        assert server.refused == ["http://elsewhere.invalid/"]
        assert server.asked == []


OBSERVED = read_kept()


@pytest.mark.parametrize("case", CASES, ids=lambda one: f"{one.harness}: {one.name}")
def test_a_preset_does_what_the_released_program_did(case: Case) -> None:
    (row,) = compare({case.harness: {case.name: OBSERVED[case.harness][case.name]}})
    expected = ("agrees", "not compared") if (case.harness, case.name) not in KNOWN else ("known",)
    assert row.verdict in expected, f"{row.ours}; the program: {row.theirs}"


def test_every_case_was_run_and_none_is_kept_that_is_gone() -> None:
    ran = [(harness, name) for harness, rows in OBSERVED.items() for name in rows]
    assert sorted(ran) == sorted((one.harness, one.name) for one in CASES)
    assert set(KNOWN) <= set(ran)
    assert all(outcome.code is not None for rows in OBSERVED.values() for outcome in rows.values())


def test_the_page_shows_what_was_observed() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(compare(OBSERVED)), (
        "run: python -m benchmarks.conformance.clis.make --kept"
    )
    assert "Never run" in page([])


def test_what_is_kept_reads_back_the_same(tmp_path: Path) -> None:
    keep(OBSERVED, tmp_path / "observed.json")
    assert read_kept(tmp_path / "observed.json") == OBSERVED
    assert read_kept(tmp_path / "missing.json") == {}


def test_what_the_page_says_in_words_is_what_was_observed() -> None:
    claude, opencode = OBSERVED["claude-code"], OBSERVED["opencode"]
    gemini, codex = OBSERVED["gemini-cli"], OBSERVED["codex"]
    for n in (1, 3, 10):
        assert claude[f"different flag {n}"][:3:2] == claude[f"delegate subagent {n}"][1:4:2] == (n, n)
        assert (claude[f"delegate subagent {n}"].code, claude[f"different flag {n}"].code) == (0, 1)
        assert opencode[f"different steps {n}"].ran == opencode[f"delegate subagent {n}"].subagent_ran == ENOUGH
        assert gemini[f"different session {n}"][:3:2] == (n, n)
        assert gemini[f"different session {n}"].code == 53
        assert gemini[f"delegate subagent {n}"][1:4:2] == (n + 1, n + 1)
    assert claude["different agent 3"].ran == claude["different settings 3"].ran == ENOUGH
    assert (gemini["same"].code, gemini["same"].end) == (0, "response")
    assert codex["finish-3 budget 360"].code == 1


def chat(server: ModelServer, prompt: str, **more: Any) -> str:
    messages = [{"role": "user", "content": prompt}]
    return post(f"{server.url}/v1/chat/completions", {"messages": messages, "tools": [{}], **more})


def test_each_wire_format_gives_the_calls_and_then_the_text() -> None:
    with served(HARNESSES["opencode"], "finish-2") as server:
        (first, _, _) = events(chat(server, PROMPT, stream=True))
        assert first["choices"][0]["delta"]["tool_calls"][0]["function"]["name"] == "bash"
        assert json.loads(chat(server, PROMPT))["choices"][0]["message"]["content"] == DONE["main"]
    with served(HARNESSES["gemini-cli"], "finish-2") as server:
        asked = {"contents": [{"role": "user", "parts": [{"text": PROMPT}]}], "tools": [{}]}
        url = f"{server.url}/v1beta/models/m"
        (first,) = events(post(f"{url}:streamGenerateContent?alt=sse", asked))
        assert first["candidates"][0]["content"]["parts"][0]["functionCall"]["name"] == "run_shell_command"
        last = json.loads(post(f"{url}:generateContent", asked))
        assert last["candidates"][0]["content"]["parts"] == [{"text": DONE["main"]}]
        assert json.loads(post(f"{url}:countTokens", asked))["totalTokens"] > 0
        assert server.requests_of("main") == 2
    with served(HARNESSES["codex"], "finish-2") as server:
        url, asked = f"{server.url}/v1/responses", {"input": [{"role": "user", "content": PROMPT}], "tools": [{}]}
        *_, done, completed = events(post(url, asked | {"stream": True}))
        assert json.loads(done["item"]["arguments"])["cmd"].startswith("echo 1 ")
        assert completed["type"] == "response.completed"
        assert json.loads(post(url, asked))["output"][0]["content"][0]["text"] == DONE["main"]


def test_a_run_counts_what_the_program_did_and_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\ncat "$HOME/note"\necho 1 >> ran-main.txt\nprintf "$EXTRA"\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setattr(run, "program", lambda *_: program)
    (tmp_path / "files" / "home").mkdir(parents=True)
    (tmp_path / "files" / "home" / "note").write_text("noted ")
    way = Way(shown="", loop="main", start=lambda n: Start(environment={"EXTRA": f"{n:g}"}))
    harness = replace(HARNESSES["codex"], ways={"way": way}, end=lambda finished: finished.out)
    folder = tmp_path / "kept"
    for _ in range(2):
        played = run.play(harness, "same", "way", 3, keep=folder, files=tmp_path / "files")
        assert played.outcome == run.Outcome(0, 0, 1, 0, 3, "noted 3", "")
    assert (folder / "stdout").read_text() == "noted 3"
    assert (folder / "requests.jsonl").read_text() == ""
    monkeypatch.setattr(run, "RUN_S", 0.2)
    program.write_text("#!/bin/sh\nsleep 60\n")
    assert run.play(harness, "same").outcome.end == "no end in time"
