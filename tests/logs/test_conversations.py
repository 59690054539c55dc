"""Messages in memory are read as the same messages in a file are."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel

import boolab as bl
from boolab.errors import ReadWarning, RunFormatError

CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": "List the files"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4},
    },
    {"role": "tool", "tool_call_id": "a", "content": "x.py"},
    {"role": "assistant", "content": "x.py"},
]
BLOCKS: list[dict[str, Any]] = [
    {"role": "user", "content": "List the files"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "b", "name": "ls", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b", "content": "x.py", "is_error": True}]},
]


class Message(BaseModel):
    """Like the messages of OpenAI's package, which users append to their own."""

    role: str
    content: str | None
    tool_calls: list[Any] | None = None


def facts(runs: list[bl.Run]) -> list[tuple[Any, ...]]:
    return [(run.source, run.success, run.task, run.steps, run.prompt, run.inputs, run.stop) for run in runs]


@pytest.mark.parametrize(
    "value",
    [
        CHAT,
        BLOCKS,
        [CHAT, BLOCKS[:2] + CHAT],
        {"messages": CHAT, "success": True, "id": "one", "model": "m"},
        [{"messages": CHAT, "success": 0, "id": 1}, {"messages": CHAT, "reward": 1.0}],
        [{"messages": BLOCKS, "system": "Be short", "resolved": False}],
    ],
)
def test_memory_reads_as_a_file_does(value: Any, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(value))
    read, loaded = bl.load_runs(value), bl.load_runs(tmp_path / "x.json")
    assert [run.source for run in read] == [run.source for run in loaded] or isinstance(value[0], list)
    assert [fact[1:] for fact in facts(read)] == [fact[1:] for fact in facts(loaded)]
    assert all(run.n_steps for run in read)
    if isinstance(value, dict):
        assert [run.run_id for run in read] == [run.run_id for run in loaded] == ["one"]


def test_one_conversation_is_a_list_or_an_object() -> None:
    forms: list[Any] = [CHAT, tuple(CHAT), [CHAT], {"messages": CHAT}, iter([CHAT]), pd.Series([CHAT])]
    assert len({str(facts(bl.load_runs(form))) for form in forms}) == 1


@pytest.mark.parametrize(
    ("label", "success"),
    [
        (True, True), (1, True), (1.0, True), ("yes", True), ("Pass", True), (np.bool_(True), True),
        (np.int64(1), True),
        (False, False), (0, False), ("no", False), ("fail", False), (np.bool_(False), False),
        (None, None), (pd.NA, None), (float("nan"), None), ("", None),
    ],
)  # fmt: skip
def test_memory_label_is_read(label: Any, success: bool | None) -> None:
    assert [run.success for run in bl.load_runs([{"messages": CHAT, "success": label}])] == [success]


def test_memory_ids_are_given_or_of_the_content() -> None:
    again = [{"messages": CHAT, "run_id": "r1"}, CHAT, CHAT, BLOCKS]
    ids = [run.run_id for run in bl.load_runs(again)]
    assert ids[0] == "r1"
    assert ids[2] == f"{ids[1]}#2"
    assert len(set(ids)) == 4
    assert bl.load_runs([BLOCKS])[0].run_id == bl.load_runs(BLOCKS)[0].run_id == ids[3]


def test_pydantic_messages_are_read() -> None:
    given = [CHAT[0], Message(role="assistant", content=None, tool_calls=CHAT[1]["tool_calls"]), *CHAT[2:]]
    assert [run.n_tool_calls for run in bl.load_runs(given)] == [1]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (3, TypeError, "expected a path, paths or messages, not int"),
        (None, TypeError, "expected a path, paths or messages, not NoneType"),
        (b"logs", TypeError, "not bytes"),
        (pd.DataFrame({"run": [1]}), TypeError, "bl.runs_from_table"),
        ([1], bl.SettingError, "item 1 of the list is 1; expected a conversation"),
        ([CHAT, "logs"], bl.SettingError, "item 2 of the list is 'logs'"),
        ([CHAT, object()], bl.SettingError, "item 2 of the list cannot be read as JSON"),
        ([{"messages": 3}], bl.SettingError, "conversation 1 is {'messages': 3}; expected"),
        ([{"messages": ["a"]}], bl.SettingError, "conversation 1 is"),
        ([CHAT, {"messages": CHAT, "success": "so-so"}], bl.SettingError, "conversation 2 (success) is 'so-so'"),
        ([{"messages": CHAT, "success": 0.6}], bl.SettingError, "is 0.6; accepted: True"),
        ([{"prompt": "a", "completion": "b"}], RunFormatError, "the first has the keys prompt, completion"),
        (bl.load_runs(CHAT), bl.SettingError, "item 1 of the list is a run, and needs no reading"),
        (bl.load_runs(CHAT)[0], bl.SettingError, "item 1 of the list is a run, and needs no reading"),
    ],
)  # fmt: skip
def test_what_is_no_conversation_is_named(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        bl.load_runs(value)
    assert message in str(raised.value)


def test_a_bad_conversation_does_not_end_the_others() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runs = bl.load_runs([[{"role": "robot", "content": "x"}], CHAT, []])
    assert len(runs) == 1
    assert [w.category for w in caught] == [ReadWarning] * 2
    assert "conversation 1" in str(caught[1].message) or "conversation 1" in str(caught[0].message)
    assert "conversation 3: it has no message" in str(caught[0].message)


def test_format_of_messages_in_memory() -> None:
    assert bl.load_runs(CHAT, format="anthropic_messages")[0].source == "anthropic_messages"
    with pytest.raises(bl.SettingError, match="messages in memory are of openai_chat and anthropic_messages"):
        bl.load_runs(CHAT, format="codex")


def test_read_logs_refuses_messages_in_memory() -> None:
    messages: Any = CHAT
    with pytest.raises(TypeError, match="bl.load_runs takes messages in memory"):
        bl.read_logs(messages)


def test_an_iterator_of_paths_is_read(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"messages": [{**CHAT[0], "content": name}, *CHAT[1:]]}))
    assert len(bl.load_runs(tmp_path / f"{name}.json" for name in ("a", "b"))) == 2
