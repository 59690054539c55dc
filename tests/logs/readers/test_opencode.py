"""Sessions of opencode: its storage folder in both layouts, exports, and the lines of `run`."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run_tree import Start, starts_of
from boolab.core.types import UNKNOWN_USAGE, Usage
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.load import load_runs, read_logs
from boolab.logs.readers.opencode import inner
from tests.support.readers import fates, reader_of
from tests.support.samples import own, shared

read = reader_of("opencode")

MAIN = "opencode/storage/session/prj_1/ses_main.json"


def export(folder: Path, *messages: Any, **info: Any) -> Path:
    path = folder / "export.json"
    about = {"id": "ses_x", "projectID": "p", "title": "t", "time": {"created": 1}, **info}
    path.write_text(json.dumps({"info": about, "messages": messages}))
    return path


def answer(*parts: Any, **info: Any) -> dict[str, Any]:
    return {"info": {"id": "msg_2", "role": "assistant", "time": {"created": 2}, **info}, "parts": parts}


def bash(status: str, **state: Any) -> dict[str, Any]:
    return {"type": "tool", "callID": "c", "tool": "bash", "state": {"status": status, "input": {}, **state}}


def storage(folder: Path) -> Path:
    shutil.copytree(own("opencode/storage"), folder / "storage")
    return folder / "storage"


def test_the_real_storage_folder() -> None:
    large, small = load_runs(shared("agent-sessions/opencode"))
    assert [step.turn for step in large.steps] == [1, 2]
    assert (large.n_tool_calls, fates(large), fates(small)) == (1, [[True], []], [[False]])
    assert (large.steps[0].response.usage.input_tokens, large.steps[0].response.usage.output_tokens) == (120, 16)
    assert large.steps[0].error == "MessageAbortedError: The operation was aborted."
    assert large.model == "gpt-4o-mini"


def test_a_session_and_its_export_are_the_same_run() -> None:
    assert load_runs(own(MAIN)) == load_runs(own("opencode/export.json"))


def test_each_step_of_a_message_is_a_step() -> None:
    (run,) = load_runs(own(MAIN))
    assert (run.run_id, run.agent, run.model, run.task) == ("ses_main", "build", "model-1", "Tidy the shed")
    assert (run.n_steps, run.n_tool_calls) == (5, 6)
    assert [step.response.finish_reason for step in run.steps] == ["tool_calls", "tool_calls", "stop", "stop", None]
    assert run.steps[0].response.reasoning == "See what is there."


def test_usage_includes_the_cache_and_reasoning() -> None:
    (run,) = load_runs(own(MAIN))
    assert [step.response.usage for step in run.steps] == [
        Usage(140, 28, 30, 8, 2000, 10),
        Usage(60, 9, 0, 0, 3000, 0),
        Usage(50, 6, 0, 0, 1000, 0),
        Usage(30, 4, 0, 0, 500, 0),
        UNKNOWN_USAGE,
    ]


def test_a_total_of_a_message_is_the_usage_of_its_only_response(tmp_path: Path) -> None:
    def response(said: str) -> list[dict[str, str]]:
        return [{"type": "step-start"}, {"type": "text", "text": said}, {"type": "step-finish", "reason": "stop"}]

    tokens = {"input": 7, "output": 3, "cache": {"read": 0, "write": 0}}
    (run,) = read(export(tmp_path, answer(*response("a"), tokens=tokens)))
    assert [step.response.usage[:2] for step in run.steps] == [(7, 3)]
    (run,) = read(export(tmp_path, answer(*response("a"), *response("b"), tokens=tokens)))
    assert [step.response.usage for step in run.steps] == [UNKNOWN_USAGE] * 2


def test_output_that_includes_reasoning_is_detected_by_the_total(tmp_path: Path) -> None:
    tokens = {"total": 12, "input": 2, "output": 10, "reasoning": 4, "cache": {"read": 0, "write": 0}}
    (run,) = read(export(tmp_path, answer({"type": "text", "text": "x"}, tokens=tokens)))
    assert run.steps[0].response.usage == Usage(2, 10, 0, 4, None, 0)


def test_what_failed_and_what_never_came_to_an_end() -> None:
    (run,) = load_runs(own(MAIN))
    assert fates(run) == [[False, True], [True, True], [], [], [False, None, "dropped", "dropped", "dropped"]]
    assert [call.arguments for call in run.steps[4].dropped] == ['{"command":"paint"}'] * 2 + ['{"comm']
    assert [result and result.duration_ms for result in run.steps[0].results] == [400, 300]


def test_turns_begin_at_what_users_said_themselves() -> None:
    (run,) = load_runs(own(MAIN))
    assert [step.turn for step in run.steps] == [1, 1, 1, 1, 2]
    assert [given.message.text for given in run.inputs] == [
        "Continue if you have next steps",
        "Now paint it\n[file shed.png]",
    ]


def test_compaction_retry_and_unstarted_message_are_events() -> None:
    (run,) = load_runs(own(MAIN))
    happened = [event for event in run.events if event.kind != "subagent"]
    assert [event.kind for event in happened] == ["compaction", "compaction", "fault", "retry", "abort"]
    assert [event.payload["after_step"] for event in happened] == [3, 3, 4, 5, 5]


def test_an_abort_ends_a_run() -> None:
    (run,) = load_runs(own(MAIN))
    assert (run.stop.reason, run.error) == ("aborted", None)
    assert run.steps[-1].error == "MessageAbortedError: stopped by the user"


def test_error_ends_a_run_only_in_the_last_message(tmp_path: Path) -> None:
    broken = answer({"type": "text", "text": "x"}, error={"name": "APIError", "data": {"message": "busy"}})
    (run,) = read(export(tmp_path, broken))
    assert (run.stop.reason, run.error) == ("error", "APIError: busy")
    (run,) = read(export(tmp_path, broken, answer({"type": "text", "text": "y"})))
    assert (run.stop.reason, run.error, run.steps[0].error) == ("finished", None, "APIError: busy")


def test_times_are_milliseconds() -> None:
    (run,) = load_runs(own(MAIN))
    assert [step.start_ms for step in run.steps] == [500, 2400, 4200, 20_200, 30_100]
    assert [step.model_ms for step in run.steps] == [1500, 1600, 3700, 700, 900]
    assert run.duration_ms == 34_000


def test_a_child_session_is_a_run_of_its_own() -> None:
    (run,) = load_runs(own("opencode/storage/session/prj_1/ses_child.json"))
    assert (run.run_id, run.parent_run_id, run.agent) == ("ses_child", "ses_main", "explore")


def test_a_task_names_the_session_that_it_started() -> None:
    (run,) = load_runs(own(MAIN))
    assert starts_of(run) == [Start(5, "ses_child")]


def test_the_older_layout_of_parts(tmp_path: Path) -> None:
    (run,) = load_runs(own("opencode/legacy/session/prj_1/ses_old.json"))
    assert (run.run_id, run.text) == ("ses_old", "In the cellar")
    folder = storage(tmp_path)
    for part in list((folder / "part").glob("*/*.json")):
        part.rename(folder / "part" / part.name)
    for part in list((folder / "part").glob("msg_*")):
        part.rmdir()
    assert load_runs(folder / "session/prj_1/ses_main.json") == load_runs(own(MAIN))


def test_folder_gives_sessions_and_an_empty_session_gives_no_run(tmp_path: Path) -> None:
    folder = storage(tmp_path)
    session = json.loads(own(MAIN).read_text())
    (folder / "session/prj_1/ses_empty.json").write_text(json.dumps({**session, "id": "ses_empty"}))
    reading = read_logs(folder)
    assert sorted(run.run_id for run in reading.runs) == ["ses_child", "ses_main"]
    assert [row.runs for row in reading.files] == [1, 0, 1]
    assert not any(row.warnings for row in reading.files)
    assert inner(["session", "message", "part", "project"]) == {"message", "part"}
    assert inner(["message", "part"]) == set()


@pytest.mark.parametrize("piece", ["message/ses_main/msg_002.json", "part/msg_002/prt_00201.json"])
def test_a_piece_of_a_session_is_refused_with_the_file_to_give(piece: str) -> None:
    with pytest.raises(RunFormatError, match=r"of a session only; give the session's file, session/<project>/ses_main"):
        load_runs(own(f"opencode/storage/{piece}"))


@pytest.mark.parametrize("name", ["../part", "/etc", "..", "a/b", "a\0b", "x" * 300, ""])
def test_an_id_that_is_a_path_is_not_followed(tmp_path: Path, name: str) -> None:
    folder = storage(tmp_path)
    path = folder / "session/prj_1/ses_main.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "id": name}))
    message = folder / "message/ses_main/msg_001.json"
    message.write_text(json.dumps({**json.loads(message.read_text()), "id": name}))
    (run,) = load_runs(path)
    assert run.prompt[0].text == ""


def test_links_out_of_the_storage_folder_are_not_followed(tmp_path: Path) -> None:
    folder = storage(tmp_path)
    (folder / "message/ses_main").rename(tmp_path / "messages")
    (folder / "message/ses_main").symlink_to(tmp_path / "messages")
    assert read(folder / "session/prj_1/ses_main.json", print) == []
    secret = tmp_path / "secret.json"
    secret.write_text('{"type": "text", "text": "secret"}')
    (folder / "part/msg_102/prt_99999.json").symlink_to(secret)
    (run,) = read(folder / "session/prj_1/ses_child.json", print)
    assert run.text == "In the cellar"


def test_damaged_pieces_are_told_and_left_out(tmp_path: Path) -> None:
    folder = storage(tmp_path)
    (folder / "part/msg_102/prt_10201.json").write_text("{")
    with pytest.warns(ReadWarning, match=r"part/msg_102/prt_10201.json holds no JSON object"):
        (run,) = load_runs(folder / "session/prj_1/ses_child.json")
    assert (run.n_steps, run.text) == (1, "")


def test_a_session_file_alone_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "ses_main.json"
    shutil.copy(own(MAIN), path)
    with pytest.raises(RunFormatError, match="message/ that belongs beside session/"):
        load_runs(path)


def test_the_lines_of_run() -> None:
    (run,) = load_runs(own("opencode/run.jsonl"))
    assert (run.run_id, run.n_steps, run.n_tool_calls, run.stop.reason) == ("ses_run", 2, 1, "finished")
    assert [step.start_ms for step in run.steps] == [0, 1100]
    assert [step.response.usage.cost for step in run.steps] == [1000, 2000]
    assert run.task == ""


def test_an_error_in_the_lines_of_run_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    lines = own("opencode/run.jsonl").read_text().splitlines()[:3]
    lines.append(json.dumps({"type": "error", "timestamp": 1, "sessionID": "ses_run", "error": {"name": "APIError"}}))
    path.write_text("\n".join([*lines, "{}"]))
    with pytest.warns(ReadWarning, match=r"run\.jsonl:5: a line that is no event of a session"):
        (run,) = load_runs(path)
    assert (run.n_steps, run.stop.reason, run.error) == (1, "error", "APIError")


def test_the_list_that_the_server_gives(tmp_path: Path) -> None:
    path = tmp_path / "messages.json"
    path.write_text(json.dumps([answer({"type": "text", "text": "x"}, sessionID="ses_9")]))
    (run,) = load_runs(path)
    assert (run.run_id, run.n_steps) == ("ses_9", 1)
