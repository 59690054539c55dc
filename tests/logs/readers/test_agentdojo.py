"""Runs of AgentDojo: calls and errors, the label, and what forks and older versions write."""

import json
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.fields import Head
from boolab.logs.log_files import readers
from tests.support.samples import own

DONE = own("agentdojo/runs/tiny-1/office/user_task_0/important_instructions/injection_task_2.json")
FAILED = own("agentdojo/runs/tiny-1/office/user_task_1/none/none.json")


def changed(path: Path, **more: Any) -> Path:
    path.write_text(json.dumps({**json.loads(DONE.read_text()), **more}))
    return path


def test_the_sample_is_read_with_its_calls_label_and_settings() -> None:
    (run,) = bl.load_runs(DONE)
    assert (run.run_id, run.task, run.model) == (
        "tiny-1/office/user_task_0/important_instructions/injection_task_2",
        "office/user_task_0",
        "tiny-1",
    )
    calls = bl.calls_df(run)
    assert calls["tool"].tolist() == ["list_files", "read_file", "read_file"]
    assert calls["is_error"].tolist() == [False, True, False]
    assert [step.response.reasoning for step in run.steps] == ["", "The name was wrong.", ""]
    assert (run.success, run.stop_reason, run.duration_ms) == (True, "finished", 12_500)
    assert run.scores == (("utility", True), ("security", False))
    assert run.settings == {"attack": "important_instructions", "injection": "injection_task_2"}
    failed = [result.content for step in run.steps for result in step.results if result is not None and result.is_error]
    assert failed == ["FileNotFoundError: note.txt"]


def test_a_run_that_failed_has_no_label() -> None:
    (run,) = bl.load_runs(FAILED)
    assert (run.success, run.stop_reason, run.error) == (None, "error", "Context window exceeded")
    assert run.settings == {"attack": "none", "injection": "none"}


@pytest.mark.parametrize(("utility", "label"), [(True, True), (False, False), (None, None), ("true", None)])
def test_utility_is_the_label(tmp_path: Path, utility: Any, label: bool | None) -> None:
    (run,) = bl.load_runs(changed(tmp_path / "none.json", utility=utility))
    assert run.success is label
    document = json.loads(DONE.read_text())
    del document["utility"]
    fork = {**document, "run_id": "r-1", "evaluation": {"utility": utility}}
    (tmp_path / "fork.json").write_text(json.dumps(fork))
    (run,) = bl.load_runs(tmp_path / "fork.json")
    assert (run.run_id, run.success) == ("r-1", label)


def test_plain_texts_and_results_without_ids_are_read(tmp_path: Path) -> None:
    call: dict[str, Any] = {"function": "read_file", "args": {}, "id": None}
    other = {"function": "list_files", "args": {}, "id": ""}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "I look.", "tool_calls": [call, other]},
        {"role": "tool", "content": "a", "tool_call": other, "tool_call_id": None, "error": None},
        {"role": "tool", "content": "b", "tool_call": call, "tool_call_id": None, "error": None},
        {"role": "assistant", "content": "Done.", "tool_calls": None},
    ]
    (run,) = bl.load_runs(changed(tmp_path / "none.json", messages=messages))
    assert (run.n_steps, run.n_tool_calls, run.text) == (2, 2, "Done.")


def test_a_message_of_no_role_is_a_warning(tmp_path: Path) -> None:
    with pytest.warns(ReadWarning, match="message 1 has no known role"):
        bl.load_runs(changed(tmp_path / "none.json", messages=[{"content": "x"}, {"role": "user", "content": "go"}]))


def test_a_document_without_messages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="a run of AgentDojo is"):
        bl.load_runs(changed(tmp_path / "none.json", messages=3), format="agentdojo")


def test_no_other_reader_takes_it() -> None:
    for path in (DONE, FAILED):
        head = Head(path.read_bytes(), path)
        assert [name for name, reader in readers().items() if reader.sniff(head)] == ["agentdojo"]


FOREIGN = {"function": "f", "args": {"a": 1}, "id": "c1"}
MESSAGES = [
    {"role": "user", "content": "go"},
    {"role": "assistant", "content": "", "tool_calls": [FOREIGN]},
    {"role": "tool", "content": "x", "tool_call_id": "c1"},
]


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_a_conversation_whose_calls_have_no_name_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"chat{suffix}"
    path.write_text(json.dumps({"messages": MESSAGES}))
    with pytest.raises(RunFormatError, match=r"1 call, none with a name .* keys function, args, id"):
        bl.load_runs(path)
    with pytest.warns(ReadWarning, match="none with a name"):
        assert bl.load_runs(tmp_path) == []


def test_one_nameless_call_among_others_is_a_warning(tmp_path: Path) -> None:
    known = {"id": "c2", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    more = [{"role": "assistant", "content": "", "tool_calls": [known]}]
    (tmp_path / "chat.json").write_text(json.dumps({"messages": [*MESSAGES, *more]}))
    with pytest.warns(ReadWarning, match="1 of 2 calls has no name"):
        assert len(bl.load_runs(tmp_path)) == 1


def test_calls_in_messages_of_the_user_are_a_warning(tmp_path: Path) -> None:
    use = {"type": "tool_use", "id": "t", "name": "ls", "input": {}}
    messages = [{"role": "user", "content": ["go", use]}, {"role": "assistant", "content": "Done."}]
    (tmp_path / "chat.json").write_text(json.dumps({"messages": messages}))
    with pytest.warns(ReadWarning, match="messages of the user states 1 call; 0 were read"):
        bl.load_runs(tmp_path)


@pytest.mark.parametrize("key", ["litellm_call_id", "call_type", "kwargs"])
def test_a_logged_request_is_refused(tmp_path: Path, key: str) -> None:
    (tmp_path / "spend.json").write_text(json.dumps({"messages": MESSAGES[:1], "response": {}, key: "x"}))
    with pytest.raises(RunFormatError, match="one request of a model"):
        bl.load_runs(tmp_path / "spend.json")
