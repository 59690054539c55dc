"""Anthropic's messages API, what it is asked: bodies that it accepts, whatever the conversation, from cached pieces."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from boolab.core.clock import VirtualClock
from boolab.core.context import Context
from boolab.core.messages import History, Input, Message, Part, Reasoning, Sentinel, Text, response_message
from boolab.core.types import Response, Step, ToolCall, ToolResult
from boolab.errors import SettingError
from boolab.runtime.models.base import Request
from boolab.runtime.models.remote.anthropic_request import Messages
from boolab.runtime.models.remote.anthropic_stream import MessageDecoder
from boolab.runtime.tools.tool import ToolSpec
from tests.support.helpers import look, write
from tests.support.sse_cases import body, heard


def asked(messages: Sequence[Message], *tools: ToolSpec, **settings: Any) -> Request:
    return Request(0, messages, tools, VirtualClock(), **settings)


def sent(messages: Sequence[Message], *tools: ToolSpec, parameters: dict[str, Any] | None = None, **more: Any) -> Any:
    """The body of a request, parsed."""
    return json.loads(Messages("m", parameters or {}).body(asked(messages, *tools, **more)))


def user(said: str) -> Message:
    return Message("user", (Text(said),))


def system(said: str) -> Message:
    return Message("system", (Text(said),))


def assistant(*parts: Part) -> Message:
    return Message("assistant", parts)


def results(*given: ToolResult) -> Message:
    return Message("tool", given)


def test_a_request_is_a_stream_of_at_most_8192_tokens() -> None:
    assert sent([user("Hello")]) == {
        "model": "m",
        "max_tokens": 8192,
        "stream": True,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
    }


def test_anthropic_request_lowers_its_limit_on_output() -> None:
    assert json.loads(Messages("m", {}).body(asked([user("Hi")])._replace(max_output=1500)))["max_tokens"] == 1500
    assert Messages("m", {}).output_range == (1024, 8192)
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 4000}}
    assert Messages("m", {"max_tokens": 6000, **thinking}).output_range == (5024, 6000)
    assert Messages("m", {"max_tokens": None}).output_range is None


def test_anthropic_body_has_the_parameters_and_none_removes_one() -> None:
    parameters = {"max_tokens": None, "thinking": {"type": "adaptive"}, "stop_sequences": ["ü"], "temperature": 0.5}
    body = sent([user("Hello")], parameters=parameters)
    assert "max_tokens" not in body
    assert body["thinking"] == {"type": "adaptive"}
    assert body["stop_sequences"] == ["ü"]
    assert body["temperature"] == 0.5


def test_the_temperature_of_a_request_wins() -> None:
    assert sent([user("Hello")], parameters={"temperature": 0.5}, temperature=0.0)["temperature"] == 0.0
    assert "temperature" not in sent([user("Hello")], parameters={"temperature": None}, seed=7)


@pytest.mark.parametrize("name", ["messages", "model", "stream", "system", "tools"])
def test_what_boolab_sets_cannot_be_a_parameter(name: str) -> None:
    with pytest.raises(SettingError, match=name):
        Messages("m", {name: "x"})


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}, "\ud83d"[:0].encode()])
def test_a_parameter_that_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(SettingError, match="top_p"):
        Messages("m", {"top_p": value})


def test_tools_are_sent_with_their_schemas() -> None:
    assert sent([user("Hello")], look)["tools"] == [
        {"name": "look", "description": look.description, "input_schema": look.parameters}
    ]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        ("auto", {"type": "auto"}),
        ("any", {"type": "any"}),
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        ("look", {"type": "tool", "name": "look"}),
        ({"type": "any", "disable_parallel_tool_use": True}, {"type": "any", "disable_parallel_tool_use": True}),
    ],
)
def test_the_choice_of_tools_is_a_word_or_an_object(choice: Any, expected: Any) -> None:
    parameters = {"tool_choice": choice}
    assert sent([user("Hello")], look, parameters=parameters).get("tool_choice") == expected
    assert sent([user("Hello")], look, parameters=parameters, tool_choice="none")["tool_choice"] == {"type": "none"}
    assert "tool_choice" not in sent([user("Hello")], parameters=parameters, tool_choice="none")


def test_a_choice_of_tools_that_is_neither_is_refused() -> None:
    with pytest.raises(SettingError, match="tool_choice"):
        Messages("m", {"tool_choice": 3})


def test_anthropic_body_sends_later_system_messages_as_user_text() -> None:
    body = sent([system('Be "good".'), system("Be brief.\n"), user("Hello"), system("Hurry.")])
    assert body["system"] == 'Be "good".\n\nBe brief.\n'
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "Hurry."}]}
    ]


def test_anthropic_body_puts_results_before_user_text() -> None:
    calls = (ToolCall("a", "look", "{}"), ToolCall("b", "look", '{"what": "x"}'))
    body = sent(
        [
            user("Go"),
            assistant(Text("I look."), *calls),
            user("Hurry."),
            results(ToolResult("a", "seen"), ToolResult("b", "broke", is_error=True)),
        ]
    )
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "a", "name": "look", "input": {}},
                {"type": "tool_use", "id": "b", "name": "look", "input": {"what": "x"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "seen"},
                {"type": "tool_result", "tool_use_id": "b", "content": "broke", "is_error": True},
                {"type": "text", "text": "Hurry."},
            ],
        },
    ]


def test_a_call_that_got_no_result_is_told_so() -> None:
    body = sent([user("Go"), assistant(ToolCall("a", "look", "{}")), assistant(Text("Well.")), user("?")])
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    (missing,) = body["messages"][2]["content"]
    assert missing["tool_use_id"] == "a"
    assert missing["is_error"]
    assert sent([user("Go"), assistant(ToolCall("a", "look", "{}"))])["messages"][2]["content"] == [missing]


def test_a_result_of_no_call_is_sent_as_text() -> None:
    (message,) = sent([user("Go"), results(ToolResult("a", "seen"))])["messages"]
    assert [block["type"] for block in message["content"]] == ["text", "text"]
    assert "seen" in message["content"][1]["text"]


def test_anthropic_body_leaves_out_blank_content_unless_an_error() -> None:
    calls = assistant(ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}"))
    body = sent([user("Go"), calls, results(ToolResult("a", ""), ToolResult("b", " ", is_error=True))])
    empty, failed = body["messages"][2]["content"]
    assert empty == {"type": "tool_result", "tool_use_id": "a"}
    assert failed["content"].strip()


def test_anthropic_body_leaves_out_blank_texts() -> None:
    body = sent([user("Go"), assistant(Text(" \n")), user(""), assistant(), user("Well?")])
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Go"}, {"type": "text", "text": "Well?"}]}
    ]


def test_anthropic_body_strips_only_the_last_assistant_text() -> None:
    (_, first, _, last) = sent([user("Go"), assistant(Text("One. ")), user("On"), assistant(Text("Two. \n"))])[
        "messages"
    ]
    assert first["content"][0]["text"] == "One. "
    assert last["content"][0]["text"] == "Two."


def test_sentinels_are_for_people() -> None:
    body = sent([user("Go"), Message("sentinel", (Sentinel("cap_hit", "Step limit reached"),)), user("On")])
    assert "limit" not in json.dumps(body)
    assert len(body["messages"]) == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        (" ", {}),
        ('{"a": [1.5, "ü", null]}\n', {"a": [1.5, "ü", None]}),
        ('{"a": "cut', {"INVALID_JSON": '{"a": "cut'}),
        ("[1]", {"INVALID_JSON": "[1]"}),
        ('{"a": NaN}', {"INVALID_JSON": '{"a": NaN}'}),
        ("<redacted>", {"INVALID_JSON": "<redacted>"}),
        ('{"a": "\\ud83d"}', {"INVALID_JSON": '{"a": "\\ud83d"}'}),
        ('{"a": "\ud83d"}', {"INVALID_JSON": '{"a": "\ufffd"}'}),
    ],
)
def test_anthropic_body_wraps_arguments_that_are_no_object(arguments: str, expected: Any) -> None:
    body = sent([user("Go"), assistant(ToolCall("a", "look", arguments))])
    assert body["messages"][1]["content"][0]["input"] == expected


def test_anthropic_body_maps_ids_of_other_providers() -> None:
    ids = ["call_1", "call:1", "functions.look:0", "", "ü", "call_1", "call:1", "call_1-1", "\ud83d"]
    calls = [ToolCall(given, "look", "{}") for given in ids]
    body = sent([user("Go"), assistant(*calls), results(*(ToolResult(c.id, str(i)) for i, c in enumerate(calls)))])
    used = [block["id"] for block in body["messages"][1]["content"]]
    assert used[0] == "call_1"
    assert len(set(used)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]+", sendable) for sendable in used)
    found = [(block["tool_use_id"], block["content"]) for block in body["messages"][2]["content"]]
    assert found == [(sendable, str(i)) for i, sendable in enumerate(used)]


def test_anthropic_body_replaces_characters_of_tool_names() -> None:
    body = sent(
        [
            user("Go"),
            assistant(ToolCall("a", "fs.read file", "{}"), ToolCall("b", "x" * 300, "{}"), ToolCall("c", "", "{}")),
        ]
    )
    names = [block["name"] for block in body["messages"][1]["content"]]
    assert names[0] == "fs_read_file"
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", name) for name in names)


def test_anthropic_body_returns_signed_reasoning_unchanged() -> None:
    thinking = [
        {"type": "thinking", "thinking": "Hm. 😀", "signature": "c2ln", "new": None},
        {"type": "redacted_thinking", "data": "x"},
    ]
    said = Response("Hi.", (ToolCall("a", "look", "{}"),), reasoning="Hm.", opaque=json.dumps({"messages": thinking}))
    body = sent([user("Go"), response_message(1, 0, said)])
    assert body["messages"][1]["content"][:2] == thinking
    assert [block["type"] for block in body["messages"][1]["content"][2:]] == ["text", "tool_use"]


@pytest.mark.parametrize(
    "opaque",
    ["", "{", "[]", '{"chat_completions": {"a": 1}}', '{"messages": [{"type": "text"}, 3]}', '{"messages": 7}'],
)
def test_reasoning_of_others_is_not_sent(opaque: str) -> None:
    body = sent([user("Go"), assistant(Reasoning("Hm.", opaque), Text("Hi."))])
    assert body["messages"][1]["content"] == [{"type": "text", "text": "Hi."}]


def test_anthropic_body_never_ends_with_reasoning() -> None:
    signed = Reasoning("Hm.", '{"messages": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]}')
    assert len(sent([user("Go"), assistant(signed)])["messages"]) == 1
    body = sent([user("Go"), assistant(Text("Hi."), signed)])
    assert [block["type"] for block in body["messages"][1]["content"]] == ["text"]


def test_anthropic_body_replaces_lone_surrogates() -> None:
    assert sent([system("\ud83d"), user("a\ud83db")])["messages"][0]["content"][0]["text"] == "a\ufffdb"


def test_what_a_stream_gave_is_sent_back_as_the_api_wants_it() -> None:
    closed = heard(MessageDecoder(), [body("anthropic_calls.txt")]).close()
    assert isinstance(closed, Response)
    given = results(*(ToolResult(c.id, "seen") for c in closed.tool_calls))
    messages = sent([user("Go"), response_message(1, 0, closed), given])["messages"]
    kinds = ["thinking", "redacted_thinking", "text", "tool_use", "tool_use", "tool_use"]
    assert [block["type"] for block in messages[1]["content"]] == kinds
    assert refused(messages) == []


# --- any conversation ----------------------------------------------------------------------------


def refused(messages: list[dict[str, Any]]) -> list[str]:
    """The rules of the API that messages break, as its errors state them."""
    broken: list[str] = []
    waiting: list[str] = []
    for i, message in enumerate(messages):
        blocks = message["content"]
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if not blocks:
            broken.append(f"{i}: no content")
        if i and message["role"] == messages[i - 1]["role"]:
            broken.append(f"{i}: roles do not alternate")
        if sorted(answered) != sorted(waiting):
            broken.append(f"{i}: results do not match the calls before")
        if any(block["type"] == "tool_result" for block in blocks[len(answered) :]):
            broken.append(f"{i}: results do not come first")
        broken += [
            f"{i}.{j}: {fault}" for j, block in enumerate(blocks) for fault in refused_in(block, message["role"])
        ]
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
    if waiting:
        broken.append("the last calls have no results")
    ids = [block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use"]
    if len(set(ids)) < len(ids):
        broken.append("ids are not unique")
    if messages and messages[-1]["role"] == "assistant":
        last = messages[-1]["content"][-1]
        if last["type"] != "text" or last["text"] != last["text"].rstrip():
            broken.append("the last message ends in something else than text, or in white space")
    return broken


def refused_in(block: dict[str, Any], role: str) -> list[str]:
    """The rules that one block breaks."""
    kind = block["type"]
    if (kind == "tool_result") > (role == "user") or (kind in ("tool_use", "thinking")) > (role == "assistant"):
        return [f"{kind} of the {role}"]
    if kind == "text" and not block["text"].strip():
        return ["a blank text"]
    if kind == "tool_result" and block.get("is_error") and not block.get("content", "").strip():
        return ["an error without content"]
    if kind == "tool_use":
        named = re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"]) and re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"])
        return [] if named and isinstance(block["input"], dict) else ["a malformed call"]
    return []


any_text = st.sampled_from(["", " ", "Hi. ", "Well.\n"]) | st.text(max_size=8)
any_id = st.sampled_from(["a", "a-1", "a-2", "b:1", ""]) | st.text(max_size=3)
any_call = st.builds(
    ToolCall, any_id, st.sampled_from(["look", "fs.read", ""]), st.sampled_from(["{}", '{"a": 1}', "{", "[]"])
)
any_result = st.builds(ToolResult, any_id, any_text, st.sampled_from([True, False, None]))
SIGNED = '{"messages": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]}'
any_reasoning = st.builds(Reasoning, any_text, st.sampled_from(["", SIGNED, '{"chat_completions": 1}']))
any_message = st.one_of(
    st.builds(user, any_text),
    st.builds(system, any_text),
    st.builds(
        Message,
        st.just("assistant"),
        st.lists(any_reasoning | st.builds(Text, any_text) | any_call, max_size=4).map(tuple),
    ),
    st.builds(Message, st.just("tool"), st.lists(any_result, max_size=3).map(tuple)),
    st.just(Message("sentinel", (Sentinel("cap_hit", "Stopped."),))),
)


@given(st.lists(any_message, max_size=8))
def test_anthropic_body_is_valid_for_any_conversation(messages: list[Message]) -> None:
    body = sent(messages)
    assert refused(body["messages"]) == []
    told = json.dumps(body, ensure_ascii=False)
    said = [part.text for message in messages for part in message.parts if isinstance(part, Text) and part.text.strip()]
    assert all(json.dumps(a_text.strip(), ensure_ascii=False)[1:-1] in told for a_text in said)


def stepped(index: int, said: Response, *given: ToolResult | None) -> Step:
    return Step(index, 1, 0, 0, 0, said, given)


any_response = st.builds(
    lambda said, calls, opaque: Response(said, tuple(calls), opaque=opaque),
    any_text,
    st.lists(any_call, max_size=3),
    st.sampled_from(["", SIGNED]),
)


@given(st.data(), st.lists(any_response, min_size=1, max_size=6))
@settings(deadline=None)
def test_a_body_from_cached_pieces_is_the_one_that_is_made_anew(data: st.DataObject, responses: list[Response]) -> None:
    prompt = data.draw(st.lists(any_message, max_size=3))
    steps: list[Step] = []
    inputs: list[Input] = []
    history = History(prompt, steps, inputs, "Not executed.")
    cached = Messages("m", {})
    head = data.draw(st.lists(any_message, min_size=1, max_size=2))
    compacted = Context(head, history, data.draw(st.integers(0, 4)))
    for number, said in enumerate(responses, 1):
        given = [data.draw(st.none() | st.just(ToolResult(c.id, "seen"))) for c in said.tool_calls]
        steps.append(stepped(number, said, *given))
        if data.draw(st.booleans()):
            inputs.append(Input(number + 1, data.draw(any_message)))
        tools = data.draw(st.sampled_from([(), (look,), (look, write)]))
        tail = data.draw(st.lists(any_message, max_size=2))
        for growing in (history, compacted):
            for messages in (
                growing,
                Context((), growing, 0, tail),
                Context((), Context((), growing, 0, tail), 0, tail),
            ):
                body = cached.body(asked(messages, *tools))
                assert body == Messages("m", {}).body(asked(list(messages), *tools))
                assert refused(json.loads(body)["messages"]) == []


def test_a_step_serialises_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Message] = []
    steps: list[Step] = []
    history, wire = History([system("Be good."), user("Go")], steps), Messages("m", {})
    wire.body(asked(history))
    add = wire._conversations._add

    def watched(state: Any, message: Message) -> None:
        seen.append(message)
        add(state, message)

    monkeypatch.setattr(wire._conversations, "_add", watched)
    for number in range(1, 30):
        steps.append(
            stepped(number, Response("", (ToolCall(f"c{number}", "look", "{}"),)), ToolResult(f"c{number}", ""))
        )
        seen.clear()
        wire.body(asked(Context((), history, 0, (user("Hurry."),)), look))
        assert seen == history[-2:]
