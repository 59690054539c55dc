"""The scripted model that released command-line harnesses are run with; `make conformance-clis` runs the programs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.conformance.clis.harness import Harness
from benchmarks.conformance.clis.harnesses import HARNESSES
from benchmarks.conformance.clis.packages import NPM, wanted
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
def test_an_endless_script_is_ended_by_a_text_where_no_limit_stopped_it(name: str) -> None:
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


def test_claude_code_s_server_counts_responses_and_no_side_requests() -> None:
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
