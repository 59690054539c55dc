"""Calls as text: what a grammar allows can be read, what was called can be written, and requests hold texts alone."""

import copy
import json
import re
import string
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import ToolCall
from boolab.errors import SettingError
from boolab.runtime.models import written_calls
from boolab.runtime.models.written_calls import WrittenCalls
from boolab.runtime.tools.tool import ToolSpec
from tests.support.helpers import QUIET
from tests.support.model_protocols import CHAT, Said
from tests.support.model_server import ModelServer, stream

SCHEMAS: dict[str, tuple[dict[str, Any], st.SearchStrategy[Any]]] = {
    "text": ({"type": "string"}, st.text(string.printable.replace("\x0b", "").replace("\x0c", ""), max_size=20)),
    "whole": ({"type": "integer"}, st.integers(-999, 999)),
    "flag": ({"type": "boolean"}, st.booleans()),
    "choice": ({"enum": ["up", "down now", 3, True]}, st.sampled_from(["up", "down now", 3, True])),
    "fixed": ({"const": "only"}, st.just("only")),
    "maybe": ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, st.none() | st.integers(0, 9)),
}


def spec(name: str, properties: dict[str, Any], required: list[str]) -> ToolSpec:
    parameters = {"type": "object", "properties": properties, "required": required}
    return ToolSpec(name=name, description="", parameters=parameters, function=print, validate=json.loads)


@st.composite
def calls(draw: st.DrawFn) -> tuple[ToolSpec, dict[str, Any]]:
    names = draw(st.lists(st.sampled_from([*SCHEMAS]), unique=True, max_size=4))
    required = [name for name in names if draw(st.booleans())]
    given_names = [name for name in names if name in required or draw(st.booleans())]
    values = {name: draw(SCHEMAS[name][1]) for name in draw(st.permutations(given_names))}
    return spec("act", {name: SCHEMAS[name][0] for name in names}, required), values


def pattern_of(grammar: str) -> re.Pattern[str]:
    """A grammar of one rule as a regular expression: an own reading of GBNF, of what is used here."""
    rule = grammar.removeprefix("root ::= ")
    piece = r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{[0-9]+,[0-9]+\}|[()|?]'
    assert re.fullmatch(f"(?:{piece}| )*", rule)
    tokens = re.findall(piece, rule)
    parts = [re.escape(json.loads(token)) if token.startswith('"') else token for token in tokens]
    return re.compile("".join(parts))


@given(calls())
def test_a_call_reads_back_as_it_was_written(case: tuple[ToolSpec, dict[str, Any]]) -> None:
    tool, values = case
    model = WrittenCalls(bl.OpenAIModel("m", base_url="http://127.0.0.1:9/v1"))
    line = model._write_call(ToolCall("1", tool.name, json.dumps(values)), [tool])
    read = written_calls._read_command(line, [tool])
    assert read.call is not None
    assert (read.call[0], json.loads(read.call[1])) == ("act", values)


@given(calls())
def test_the_grammar_allows_what_is_written(case: tuple[ToolSpec, dict[str, Any]]) -> None:
    tool, values = case
    ordered = {name: values[name] for name in tool.parameters["properties"] if name in values}
    model = WrittenCalls(bl.OpenAIModel("m", base_url="http://127.0.0.1:9/v1"))
    line = model._write_call(ToolCall("1", tool.name, json.dumps(ordered)), [tool])
    grammar = written_calls._grammar_of([written_calls._Tool(tool.name, tool.parameters)], {"type": "string"})
    assert pattern_of(grammar).fullmatch(line), (grammar, line)


@given(st.data())
def test_what_the_grammar_allows_can_be_read(data: st.DataObject) -> None:
    tool, _ = data.draw(calls())
    grammar = written_calls._grammar_of([written_calls._Tool(tool.name, tool.parameters)], {"enum": ["yes", "no"]})
    line = data.draw(st.from_regex(pattern_of(grammar), fullmatch=True))
    read = written_calls._read_command(line, [tool])
    assert (read.answer in ("yes", "no")) != (read.call is not None)


@pytest.mark.parametrize("line", ["jump", "act", "act sideways", "act up more=1", "act up extra", ""])
def test_a_line_that_is_no_call_is_refused(line: str) -> None:
    tool = spec("act", {"how": {"enum": ["up"]}}, ["how"])
    with pytest.raises(ValueError, match="."):
        written_calls._read_command(line, [tool])


@pytest.mark.parametrize("text", ["[]", '{"tool": "jump"}', "{", '"answer"'])
def test_json_that_is_no_call_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="."):
        written_calls._read_json(text, [spec("act", {}, [])])


def test_a_schema_that_no_word_can_be_names_the_argument() -> None:
    tool = written_calls._Tool("act", {"properties": {"rows": {"type": "array"}}, "required": ["rows"]})
    with pytest.raises(SettingError, match=r"the argument 'rows' of the tool 'act' .* form='json' writes any schema"):
        written_calls._grammar_of([tool], {"type": "string"})


def test_a_tool_called_answer_needs_the_other_form() -> None:
    with pytest.raises(SettingError, match="the name of the final answer"):
        written_calls._grammar_of([written_calls._Tool("answer", {})], {"type": "string"})


@pytest.mark.parametrize("wrong", [bl.ScriptedModel(["x"]), None])
def test_a_model_without_a_grammar_is_refused(wrong: Any) -> None:
    with pytest.raises(SettingError, match="expected a bl.OpenAIModel"):
        WrittenCalls(wrong)


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(SettingError, match="form='xml': expected one of command, json"):
        WrittenCalls(bl.OpenAIModel("m", base_url="http://127.0.0.1:9/v1"), form="xml")  # type: ignore[arg-type]


@bl.tool
def edit(how: Literal["up", "down"]) -> str:
    """Change the number."""
    return f"went {how}"


def run_against(
    *said: str, form: written_calls.Form = "command", reason: str = "stop", **limits: Any
) -> tuple[Run, list[Any]]:
    """A run of an agent with one tool on a server that says this; and the bodies of its requests."""
    answers = [stream(*CHAT.events(Said(text, finish=reason))) for text in said]
    with ModelServer(*answers) as server:
        model = WrittenCalls(bl.OpenAIModel("small", base_url=f"{server.url}{CHAT.root}"), form=form)
        policy = limits.pop("policy", QUIET)
        agent = bl.Agent("a", prompt="Edit.", **limits)
        run = bl.run_sync(agent, "Go", model=model, tools=[edit], policy=policy)
        return run, [asked.json for asked in server.asked]


def roles(body: Any) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in body["messages"]]


def test_commands_are_calls_and_requests_hold_texts_alone() -> None:
    run, (first, second) = run_against("edit up", "answer done")
    assert (run.stop_reason, run.n_steps, run.text) == ("finished", 2, "done")
    (call,) = run.steps[0].response.tool_calls
    assert (call.name, call.arguments) == ("edit", '{"how": "up"}')
    assert (
        first["grammar"]
        == second["grammar"]
        == ('root ::= ( "edit" " " ( "up" | "down" ) ) | ( "answer " [^\\n\\x00-\\x1f]{1,400} )')
    )
    assert "tools" not in first
    assert roles(second) == [("system", "Edit."), ("user", "Go"), ("assistant", "edit up"), ("user", "went up")]


def test_a_summary_has_the_calls_as_they_were_written_before() -> None:
    run, (*_, asked) = run_against("edit up", "edit down", "Edited twice.", max_steps=2, policy="boocode")
    assert run.stop_reason == "step_cap"
    before = [("assistant", "edit up"), ("user", "went up"), ("assistant", "edit down")]
    assert roles(asked)[2:5] == before


def test_json_goes_by_the_schema_of_the_response() -> None:
    run, (first, second) = run_against(
        '{"tool": "edit", "arguments": {"how": "down"}}', '{"answer": "done"}', form="json"
    )
    assert (run.stop_reason, run.text) == ("finished", "done")
    schema = first["response_format"]["json_schema"]["schema"]
    assert [sorted(one["properties"]) for one in schema["anyOf"]] == [["arguments", "tool"], ["answer"]]
    assert roles(second)[2] == ("assistant", '{"tool": "edit", "arguments": {"how": "down"}}')


def test_a_server_that_ignores_the_grammar_is_on_record() -> None:
    run, _ = run_against("I would rather talk.")
    assert run.text == "I would rather talk."
    (event,) = [event for event in run.events if event.kind == "ignored"]
    assert event.payload["parameter"] == "grammar"


def test_a_call_that_was_cut_off_is_no_ignored_grammar() -> None:
    run, _ = run_against("edit", reason="length")
    assert [event.kind for event in run.events if event.kind == "ignored"] == []
    assert run.steps[0].response.finish_reason == "length"


def test_a_copy_for_another_process_asks_the_same() -> None:
    model = WrittenCalls(bl.OpenAIModel("m", base_url="http://127.0.0.1:9/v1"), answer={"enum": ["a"]})
    again = copy.copy(model)
    assert (again.name, again.form, again.answer) == (model.name, model.form, model.answer)
