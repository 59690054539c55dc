"""`MockServer`: a script behind both protocols, for real clients over the loopback interface."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

import boolab as bl

SCRIPT = [
    {"text": "Let me look.", "tool_calls": [{"name": "ls", "arguments": {"path": "é"}}, {"name": "ls"}],
     "usage": {"input_tokens": 30, "output_tokens": 7}},
    {"tool_calls": [{"name": "ls", "arguments": {"path": "b"}}], "usage": {"input_tokens": 50, "output_tokens": 3}},
    {"text": "Two files.", "usage": {"input_tokens": 60, "output_tokens": 4}},
]  # fmt: skip
KINDS: dict[str, Callable[..., Any]] = {
    "chat completions": lambda server, **options: bl.OpenAIModel("mock", base_url=server.url, **options),
    "messages": lambda server, **options: bl.AnthropicModel("mock", base_url=server.url, **options),
}
both = pytest.mark.parametrize("model_on", KINDS.values(), ids=KINDS)


@bl.tool(name="ls", read_only=True)
def ls(path: str = "") -> str:
    return f"{path}.py"


def run(model: Any, prompt: str = "Look", **options: Any) -> bl.Run:
    return bl.run_sync(None, prompt, model=model, tools=[ls], **options)


def said(run: bl.Run) -> list[Any]:
    """What the model said in each step, and what it consumed."""
    steps = [step.response for step in run.steps]
    calls = [[(call.name, json.loads(call.arguments or "{}")) for call in one.tool_calls] for one in steps]
    return [(one.text, some, one.usage[:2], one.finish_reason) for one, some in zip(steps, calls, strict=True)]


def post(url: str, body: bytes) -> tuple[int, Any]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - it is a local one
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@both
def test_a_run_over_the_server_is_the_run_of_its_script(model_on: Callable[..., Any]) -> None:
    here = run(bl.ScriptedModel(SCRIPT))
    with bl.models.MockServer(SCRIPT) as server:
        there = run(model_on(server))
    assert said(there) == said(here)
    assert [result.content for result in there.steps[0].results if result is not None] == ["é.py", ".py"]
    assert there.stop_reason == "finished"


def test_a_cost_of_the_script_is_reported_with_the_tokens() -> None:
    usage = {"input_tokens": 30, "output_tokens": 7, "cost_usd": 0.0125}
    with bl.models.MockServer([{"text": "Done.", "usage": usage}]) as server:
        found = run(bl.OpenAIModel("mock", base_url=server.url))
    assert bl.runs_df([found])["cost_usd"].tolist() == [0.0125]


@both
def test_many_runs_at_once_each_get_the_script_from_its_start(model_on: Callable[..., Any]) -> None:
    async def all_at_once(model: Any) -> list[bl.Run]:
        return await asyncio.gather(*(bl.run(None, "Look", model=model, tools=[ls]) for _ in range(8)))

    with bl.models.MockServer(SCRIPT) as server:
        runs = asyncio.run(all_at_once(model_on(server)))
    assert {one.text for one in runs} == {"Two files."}
    assert {one.n_steps for one in runs} == {3}


@both
def test_mock_server_answers_a_continued_run(model_on: Callable[..., Any]) -> None:
    with bl.models.MockServer(SCRIPT) as server:
        first = run(model_on(server))
        branch = asyncio.run(bl.branch(first, 1, model=model_on(server), tools=[ls]))
    assert said(branch) == said(first)


@both
def test_a_script_that_is_used_up_ends_the_run_with_its_reason(model_on: Callable[..., Any]) -> None:
    with bl.models.MockServer(SCRIPT[:1]) as server:
        ended = run(model_on(server))
    assert ended.stop_reason == "error"
    assert "the script mock holds 1 response; response 2 was asked for" in str(ended.error)


@both
def test_an_error_of_the_script_is_an_http_status(model_on: Callable[..., Any]) -> None:
    with bl.models.MockServer([{"text": "", "error": {"status": 401}}]) as server:
        ended = run(model_on(server))
    assert (ended.stop_reason, ended.n_steps) == ("error", 1)
    assert "401" in str(ended.error)


@both
def test_a_reset_breaks_the_stream_off_after_its_text(model_on: Callable[..., Any]) -> None:
    broken = {"text": "Half of a sentence", "error": {"reset": True, "after": 4}}
    with bl.models.MockServer([broken]) as server:
        ended = run(model_on(server))
    assert ended.stop_reason == "error"
    assert ended.steps[0].response.text == "Half"


@both
def test_latencies_pass_in_real_time(model_on: Callable[..., Any]) -> None:
    with bl.models.MockServer([{"text": "Done at last.", "latency_ms": 60, "ttft_ms": 30}]) as server:
        step = run(model_on(server)).steps[0]
    assert step.response.ttft_ms is not None
    assert step.response.ttft_ms >= 30
    assert (step.model_ms or 0) >= 60


def test_a_client_without_streams_gets_one_object() -> None:
    with bl.models.MockServer(SCRIPT) as server:
        start = json.dumps({"messages": [{"role": "user", "content": "Look"}]}).encode()
        status, chat = post(f"{server.url}/chat/completions", start)
        _, message = post(f"{server.url}/messages", start)
    choice = chat["choices"][0]
    assert (status, choice["finish_reason"], chat["usage"]["prompt_tokens"]) == (200, "tool_calls", 30)
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"path": "é"}
    assert (message["stop_reason"], message["usage"]) == ("tool_use", {"input_tokens": 30, "output_tokens": 7})
    assert [block.get("input") for block in message["content"]] == [None, {"path": "é"}, {}]


def test_what_is_no_request_to_a_model_is_refused() -> None:
    with bl.models.MockServer(["Done."]) as server:
        assert post(f"{server.url}/embeddings", b"{}")[0] == 404
        for body in (b"", b"[]", b"{", b'{"messages": 1}', b"[" * 100_000):
            status, error = post(f"{server.url}/messages", body)
            assert (status, error["error"]["message"]) == (400, "expected a JSON object with a list of messages")
        assert run(KINDS["messages"](server)).text == "Done."


def test_a_condition_is_refused() -> None:
    with pytest.raises(bl.SettingError, match="must not have a condition"):
        bl.models.MockServer([{"text": "Found it.", "when": {"last_result": "a"}}])


def test_a_closed_server_does_not_answer() -> None:
    with bl.models.MockServer(["Done."]) as server:
        assert repr(server) == f"<MockServer {server.url}>"
    with pytest.raises(urllib.error.URLError):
        post(f"{server.url}/messages", b"{}")
