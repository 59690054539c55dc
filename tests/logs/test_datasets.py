"""Public data sets through agentpile: its real readers, on files that are here already."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.errors import SettingError


def row(number: int, *talk: dict[str, Any], match: bool | None = True) -> str:
    opening = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": f"Task {number}"}]
    meta = {"id": f"retail_{number}", "task_description": {"instruction": "x", "actions": []}}
    return json.dumps(
        {"task_name": "retail", "messages": [*opening, *talk], "meta": meta, "eval_result": {"db_match": match}}
    )


def asks(call: str, arguments: str) -> dict[str, Any]:
    function = {"name": "look", "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call, "type": "function", "function": function}],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    result = {"role": "tool", "tool_call_id": "c1", "content": "found"}
    lines = [
        row(1, asks("c1", '{"at": 1}'), result, {"role": "assistant", "content": "Done."}, match=True),
        row(2, asks("c1", "{broken"), match=False),
        row(3, {"role": "assistant", "content": "No."}, match=None),
    ]
    (tmp_path / "some-model.jsonl").write_text("\n".join(lines))
    return tmp_path


def test_data_set_is_read_with_labels_and_unknown_fields(folder: Path) -> None:
    runs = bl.load_dataset("tau_bench", root=str(folder), progress=False)
    assert [(run.n_steps, run.n_tool_calls, run.success, run.stop_reason) for run in runs] == [
        (2, 1, True, "finished"),
        (1, 0, False, "aborted"),
        (1, 0, None, "finished"),
    ]
    assert {run.source for run in runs} == {"tau_bench"}
    assert [run.task for run in runs] == ["retail/1", "retail/2", "retail/3"]
    assert runs[0].model == "some-model"
    assert bl.calls_df(runs)["is_error"].isna().all()
    assert bl.steps_df(runs)[["input_tokens", "finish_reason", "start_ms"]].isna().all(axis=None)
    assert bl.calls_df(runs)["arguments"].tolist() == ['{"at":1}', "{broken"]


def test_a_limit_is_kept(folder: Path) -> None:
    assert len(bl.load_dataset("tau_bench", limit=2, root=str(folder), progress=False)) == 2


def test_a_name_that_is_none_is_answered_with_those_that_are() -> None:
    with pytest.raises(SettingError, match=r"data set 'tau' is not known; accepted: .*swe_smith.*tau_bench"):
        bl.load_dataset("tau")


def test_an_option_that_the_data_set_has_not_is_refused(folder: Path) -> None:
    with pytest.raises(SettingError, match="cannot be had: tau_bench takes model= and task_name= only"):
        bl.load_dataset("tau_bench", root=str(folder), colour="red", progress=False)


def test_files_that_are_damaged_are_refused(folder: Path) -> None:
    (folder / "some-model.jsonl").write_text('{"messages": ')
    with pytest.raises(SettingError, match="data set 'tau_bench' cannot be had"):
        bl.load_dataset("tau_bench", root=str(folder), progress=False)


def test_without_agentpile_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "agentpile", None)
    with pytest.raises(SettingError, match=r"pip install 'boolab\[datasets\]'"):
        bl.load_dataset("tau_bench")
