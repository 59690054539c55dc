"""Scripts and the model that plays them."""

import asyncio
import pickle
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.types import Event
from boolab.runtime.engine.runner import run as run_async
from boolab.runtime.models.script import FOREVER
from tests.support.helpers import TOOLS, call, letter, look, play, steps


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "a script.yaml"
    path.write_text(text)
    return path


FULL = """\
name: full
description: Everything an item can have.
items:
  - text: Let me look.
    reasoning: I should look.
    tool_calls:
      - {name: look, arguments: {what: A}}
      - {id: mine, name: look, arguments: '{"what": "B"'}
    finish_reason: length
    usage: {input_tokens: 10, output_tokens: 2, cached_tokens: 4, reasoning_tokens: 1, cost_usd: 0.0123}
    latency_ms: 800
    ttft_ms: 100
  - Done.
summary: {text: In short.}
tools:
  look: {text: scripted, latency_ms: 50}
"""


def test_a_file_gives_every_field_to_the_record(tmp_path: Path) -> None:
    model = bl.ScriptedModel.load(write(tmp_path, FULL))
    assert (model.name, model.description, len(model), model.summarises) == (
        "full",
        "Everything an item can have.",
        2,
        True,
    )
    assert isinstance(model, bl.models.Model)
    run = play(model)
    response = run.steps[0].response
    assert (response.text, response.reasoning, response.finish_reason) == ("Let me look.", "I should look.", "length")
    assert response.usage == bl.models.Usage(10, 2, 4, 1, 12_300)
    assert response.ttft_ms == 100
    assert [c.id for c in response.tool_calls] == ["call_1_1", "mine"]
    assert response.tool_calls[1].arguments == '{"what": "B"'
    assert [r and (r.content, r.duration_ms) for r in run.steps[0].results] == [("scripted", 50)] * 2
    assert run.steps[0].duration_ms == 850
    assert run.steps[1].response == bl.models.Response("Done.", (), "stop")


def test_script_file_may_be_a_list(tmp_path: Path) -> None:
    model = bl.ScriptedModel.load(write(tmp_path, "- text: Hi.\n"))
    assert (model.name, play(model).text) == ("a script", "Hi.")


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("- text: a\n- txt: b\n", 2, "1.txt: Extra inputs are not permitted; accepted here: error, finish_reason"),
        ("items:\n  - text: a\n    repeat: 0\n", 3, "repeat"),
        ("- text: a\n  usage:\n    input_tokens: -1\n", 3, "usage.input_tokens: Input should be greater than or equal"),
        ("- tool_calls:\n    - {nam: ls}\n", 2, "tool_calls.0.name: Field required"),
        ("- error: {status: 500, reset: true}\n", 1, "give exactly one of status, reset and garbage"),
        ("- error: {status: 200}\n", 1, "greater than or equal to 400"),
        ("- when: {last_result: '('}\n", 1, "not a regular expression"),
        ("- when: {last_result: '(?=a)'}\n", 1, "not a regular expression: invalid perl operator: (?="),
        ("- when: {last_result: '((a{99}){99}){9}'}\n", 1, "not a regular expression: "),
        ("- text: [\n", 2, "not valid YAML"),
        ("items: 3\n", 1, "items: Input should be a valid list"),
        ("", 1, "expected a list of items, or a mapping with 'items'"),
        ("- text: a\n  text: b\n", 2, "the key 'text' is here twice"),
        ("- tool_calls: [{name: ls, arguments: {day: 2020-01-01}}]\n", 1, "cannot be written as JSON"),
        ("items: []\ntools:\n  ls: []\n", 3, "tools.ls: Value should have at least 1 item"),
        ("- usage: {cost_usd: 1.0e308}\n", 1, "less than or equal to 9007199254"),
        ("- latency_ms: 9007199254740993\n", 1, "less than or equal to 9007199254740992"),
        (
            "- text: !!python/object/apply:os.system [ls]\n",
            1,
            "the tag !!python/object/apply:os.system is not accepted",
        ),
    ],
)
def test_errors_name_file_and_line_and_what_is_accepted(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(bl.errors.ScriptError) as caught:
        bl.ScriptedModel.load(path)
    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)


def test_a_missing_or_binary_file_is_a_script_error(tmp_path: Path) -> None:
    with pytest.raises(bl.errors.ScriptError, match="cannot be read: No such file"):
        bl.ScriptedModel.load(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(bl.errors.ScriptError, match="is not UTF-8 text"):
        bl.ScriptedModel.load(tmp_path / "b.yaml")


def test_a_bad_item_of_a_list_is_an_error_that_names_it() -> None:
    with pytest.raises(bl.errors.ScriptError, match=r"1\.latency_ms"):
        bl.ScriptedModel(["ok", {"latency_ms": -5}])


def test_repeat_gives_the_same_response_with_fresh_ids() -> None:
    model = bl.ScriptedModel([{"tool_calls": [letter("A")], "repeat": 2}, {"tool_calls": [letter("B")]}, "end"])
    run = play(model)
    assert [c.id for s in run.steps for c in s.response.tool_calls] == ["call_1_1", "call_2_1", "call_3_1"]
    assert [c.arguments for s in run.steps for c in s.response.tool_calls][1:] == ['{"what": "A"}', '{"what": "B"}']
    assert (len(model), len(bl.ScriptedModel([{"repeat": "forever"}]))) == (4, FOREVER)


def test_a_function_of_the_history_is_a_script() -> None:
    def script(messages: Any) -> Any:
        n = sum(m.role == "assistant" for m in messages)
        return {"tool_calls": [letter(str(n))]} if n < 3 else "end" if n == 3 else None

    assert play(bl.ScriptedModel(script)).n_tool_calls == 3
    run = play(bl.ScriptedModel(lambda messages: None))
    assert run.error == "ScriptExhausted: the function of script scripted gave no response 1"


def test_a_ready_response_is_an_item_too() -> None:
    assert play(bl.ScriptedModel([bl.models.Response("ready")], summary=bl.models.Response("sum"))).text == "ready"


def conditional() -> bl.ScriptedModel:
    return bl.ScriptedModel(
        [
            {"tool_calls": [call("tests")]},
            {"when": {"last_result": "FAILED"}, "tool_calls": [call("tests")], "repeat": "forever"},
            {"when": {"last_result": "never"}, "text": "skipped"},
            {"text": "All pass."},
        ],
        tools={"tests": ["2 FAILED", {"text": "1 FAILED", "error": True}, {"error": "broken FAILED"}, "ok"]},
    )


def test_script_condition_skips_an_item_with_its_repetitions() -> None:
    run = play(conditional(), tools=None, agent=None, doom_loop=None)
    contents = [r.content for s in run.steps for r in s.results if r]
    assert contents == ["2 FAILED", "1 FAILED", "broken FAILED", "ok"]
    assert [r.is_error for s in run.steps for r in s.results if r] == [False, True, True, False]
    assert run.text == "All pass."


def test_script_with_conditions_serves_concurrent_runs() -> None:
    model = conditional()

    async def many() -> list[bl.Run]:
        return await asyncio.gather(*(run_async(None, "go", model=model, policy="naive") for _ in range(20)))

    assert {(r.n_steps, r.text) for r in asyncio.run(many())} == {(5, "All pass.")}
    run = play([{"tool_calls": [letter("A")]}, {"when": {"last_result": "x"}, "text": "no"}])
    assert run.error == "ScriptExhausted: no item of script scripted is left for response 2"


def test_script_condition_can_be_pickled() -> None:
    items = [{"tool_calls": [call("t")]}, {"when": {"last_result": "^é+\ufffd\\.$"}, "text": "yes"}, "no"]
    model = bl.ScriptedModel(items, tools={"t": "éé\ud800."})
    assert play(model).text == "yes"
    assert play(pickle.loads(pickle.dumps(model))).text == "yes"  # noqa: S301 - its own


def test_results_by_tool_are_counted_within_a_step_too() -> None:
    items = [{"tool_calls": [call("t"), call("t"), call("look", what="z"), call("t")]}, "end"]
    run = play(bl.ScriptedModel(items, tools={"t": ["one", "two", "three"]}))
    assert [r.content for r in run.steps[0].results if r] == ["one", "two", "seen z", "three"]


def test_script_result_replaces_a_real_tool() -> None:
    run = play(bl.ScriptedModel(steps("A"), tools={"look": "scripted"}))
    assert run.steps[0].results[0] is not None
    assert run.steps[0].results[0].content == "scripted"


def test_an_agent_may_list_a_tool_that_only_the_script_has() -> None:
    model = bl.ScriptedModel([{"tool_calls": [call("deploy")]}, "end"], tools={"deploy": "deployed"})
    assert play(model, agent=bl.Agent("a", tools=("deploy", look))).n_tool_calls == 1


def test_latency_moves_virtual_time_and_nothing_sleeps() -> None:
    run = play([{"text": "slow", "latency_ms": 3_600_000}])
    assert run.duration_ms == 3_600_000
    assert run.started_at is None


def test_realtime_lets_latencies_pass() -> None:
    run = play(bl.ScriptedModel([{"text": "slow", "latency_ms": 30}], realtime=True))
    assert run.duration_ms is not None
    assert run.duration_ms >= 30
    assert run.started_at is not None


def test_a_run_takes_as_long_whether_it_is_watched_or_not() -> None:
    items = [{"text": "one two three", "tool_calls": [letter("A")], "latency_ms": 1000, "ttft_ms": 301}, "end"]
    told: list[Event] = []
    watched = play(items, on_event=told.append)
    assert watched.duration_ms == play(items).duration_ms == 1000
    deltas = [(e.t_ms, e.payload["text"]) for e in told if e.kind == "delta" and e.payload["of"] == "text"]
    assert deltas[:3] == [(301, "one "), (534, "two "), (767, "three")]


def test_text_is_streamed_whole() -> None:
    text = "  two  spaces\n\nand lines\t"
    told: list[Event] = []
    play([{"text": text}], on_event=told.append)
    assert "".join(e.payload["text"] for e in told if e.kind == "delta") == text


@pytest.mark.parametrize(
    ("error", "message", "kept"),
    [
        ({"status": 429}, "ModelError: HTTP 429", ""),
        ({"status": 500, "after": 4}, "ModelError: HTTP 500 after 4 characters", "some"),
        ({"reset": True, "after": 99}, "ModelError: the connection was reset after 9 characters", "some text"),
        ({"garbage": True}, "ModelError: the response cannot be parsed: '\\x00\\x00'", ""),
    ],
)
def test_faults_are_recorded_with_what_came_before_them(error: Any, message: str, kept: str) -> None:
    watched: dict[str, Any] = {"on_event": [].append}
    for options in ({}, watched):
        run = play([{"text": "some text", "tool_calls": [letter("A")], "error": error}], **options)
        assert (run.stop_reason, run.error, run.steps[0].response.text) == ("error", message, kept)
        assert run.n_tool_calls == 0


def test_a_script_is_compiled_once_and_serves_any_number_of_runs() -> None:
    model = bl.ScriptedModel(steps("A B C"))
    first, second = play(model), play(model)
    assert first.steps[0].response is second.steps[0].response


def test_script_does_not_count_responses_of_the_prompt() -> None:
    task = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "go"},
    ]
    for prompt in ("go", task):
        run = bl.run_sync(None, prompt, model=conditional(), policy="naive")
        assert (run.text, run.n_steps) == ("All pass.", 5)


@pytest.mark.parametrize("items", ["abc", {"items": ["hi"]}, b"x"])
def test_what_is_no_list_of_items_is_refused(items: Any) -> None:
    with pytest.raises(bl.errors.ScriptError, match="a script is a list of items or a function"):
        bl.ScriptedModel(items)
    assert len(bl.ScriptedModel(str(i) for i in range(3))) == 3  # type: ignore[arg-type] # a generator does no harm


def test_a_summary_is_not_an_item() -> None:
    request = bl.models.Request(0, [], (), None, "summary")  # type: ignore[arg-type] # the clock is not needed
    with pytest.raises(bl.errors.ScriptExhausted, match="holds no summary"):
        asyncio.run(bl.ScriptedModel(["x"]).respond(request))


def test_the_repr_is_short() -> None:
    assert repr(bl.ScriptedModel(["x"])) == "<ScriptedModel scripted: 1 response>"
    assert repr(bl.ScriptedModel([{"repeat": "forever"}])) == "<ScriptedModel scripted: forever>"
    assert bl.run_sync(None, "go", model=bl.ScriptedModel(["x"]), tools=TOOLS).n_steps == 1


def test_script_text_calls_the_finish_tool() -> None:
    policy = bl.policies["smolagents"]
    assert policy.finish.conditions == ()
    (name,) = policy.finish.tools
    script = [{"tool_calls": [{"name": "look"}]}, "Done."]
    tools = [*TOOLS, bl.tool(name=name)(lambda: "handed in")]
    plain, finishing = (bl.ScriptedModel(script, finish_tool=tool) for tool in (None, name))
    run = bl.run_sync(None, "go", model=finishing, tools=tools, policy=policy)
    assert (run.stop_reason, run.n_steps, run.steps[-1].response.text) == ("finished", 2, "Done.")
    assert [call.name for step in run.steps for call in step.response.tool_calls] == ["look", name]
    assert bl.run_sync(None, "go", model=plain, tools=tools, policy=policy).stop_reason == "error"
    assert plain.fingerprint != finishing.fingerprint
