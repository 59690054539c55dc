"""What all protocols of models share: JSON, the ids of calls, and calls that come in pieces."""

import boolab as bl
from boolab.core.types import ToolCall
from boolab.runtime.models.base import traits_of
from boolab.runtime.models.profile_parts import Piece, probability_at
from boolab.runtime.models.remote.openai_tool_calls import CallBuilder
from boolab.runtime.models.remote.protocol import assign_ids, dump_json, parse_object


def test_json_of_requests_has_no_lone_surrogates() -> None:
    assert dump_json({"text": "\u00e9\ud83d"}) == '{"text":"\u00e9\ufffd"}'.encode()


def test_parse_object_gives_none_for_other_json() -> None:
    objects = [parse_object(text) for text in ('{"a": 1}', "[1]", "{", '{"a": "\\ud83d"}')]
    assert objects == [{"a": 1}, None, None, {"a": "\ud83d"}]


def test_assign_ids_gives_each_call_its_own() -> None:
    calls = assign_ids([ToolCall(call_id, "look", "{}") for call_id in ("a", "", "a")], "call_1")
    assert [call.id for call in calls] == ["a", "call_1_2", "a_3"]


def test_calls_are_built_of_their_pieces() -> None:
    calls = CallBuilder("call_3")
    calls.add({"index": 0, "function": {"name": "look", "arguments": '{"at":'}})
    calls.add({"index": 0, "function": {"arguments": '"it"}'}})
    assert calls.named_calls() == [(ToolCall("call_3_1", "look", '{"at":"it"}'), None)]


def test_traits_of_a_model_without_attributes_are_defaults() -> None:
    assert traits_of(bl.ScriptedModel(["Done."])).virtual
    assert not traits_of(object()).virtual


def test_a_piece_holds_from_its_step_on() -> None:
    assert probability_at([Piece(from_step=1, probability=0.5), Piece(from_step=4, probability=0.2)], 4) == 0.2
