"""The database of opencode: both generations of its tables, and sessions that are in both."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.run_tree import Start, starts_of
from boolab.core.types import UNKNOWN_USAGE, Usage
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.load import load_runs, read_logs
from tests.support.readers import fates, only, reader_of
from tests.support.samples import own
from tests.support.session_databases import NEWER, OLDER, create, message, newer_rows, response, rows_of_storage, said

read = reader_of("opencode")
SAMPLE = "opencode/opencode.db"


def newer(folder: Path, *messages: dict[str, Any], **about: Any) -> Run:
    session = {**newer_rows()["session_v2"][1], "id": "ses_new", "parent_id": None, **about}
    return only(read(create(folder / "opencode.db", NEWER, {"session_v2": [session], "session_message": messages})))


def without_path(run: Run) -> Run:
    return replace(run, path=None)


@pytest.mark.parametrize("folder", ["storage", "legacy"])
def test_a_database_has_the_runs_of_the_storage_folder(folder: str, tmp_path: Path) -> None:
    path = create(tmp_path / "opencode.db", OLDER, rows_of_storage(own(f"opencode/{folder}")))
    stored = {run.run_id: without_path(run) for run in load_runs(own(f"opencode/{folder}"))}
    assert {run.run_id: without_path(run) for run in load_runs(path)} == stored


def test_a_storage_folder_and_its_database_are_counted_once(tmp_path: Path) -> None:
    create(tmp_path / "opencode.db", OLDER, rows_of_storage(own("opencode/storage")))
    with pytest.warns(ReadWarning, match="1 run is a copy of a run in") as told:
        reading = read_logs([tmp_path, own("opencode/storage")])
    assert len(told) == 2
    assert sorted(run.run_id for run in reading.runs) == ["ses_child", "ses_main"]


def test_a_response_of_2_x_is_a_step() -> None:
    _, run, sub = load_runs(own(SAMPLE))
    assert (run.run_id, run.agent, run.model, run.task) == ("ses_new", "build", "model-2", "Paint the shed")
    assert (run.harness_version, run.effort, run.cwd) == ("2.0.14", "high", "/shed")
    assert [step.turn for step in run.steps] == [1, 1, 1, 2]
    assert [step.response.finish_reason for step in run.steps] == ["tool_calls", "tool_calls", "stop", None]
    assert [step.response.usage for step in run.steps] == [Usage(100, 25, 10, 5, 2000, 0)] * 3 + [UNKNOWN_USAGE]
    assert fates(run) == [[False], [True, True, False], [], ["dropped", "dropped"]]
    assert (sub.run_id, sub.parent_run_id, sub.stop.reason) == ("ses_sub", "ses_new", "finished")
    assert starts_of(run) == [Start(2, "ses_sub", "explore")]


def test_times_of_2_x_are_those_of_responses_and_calls() -> None:
    _, run, _ = load_runs(own(SAMPLE))
    assert [step.start_ms for step in run.steps] == [2000, 3000, 6000, 9000]
    assert [step.model_ms for step in run.steps[:3]] == [100, 100, 100]
    assert [step.duration_ms for step in run.steps[:3]] == [800, 800, 800]
    assert [result and result.duration_ms for result in run.steps[1].results] == [300, 300, 300]


def test_events_and_the_end_of_a_turn_of_2_x() -> None:
    _, run, _ = load_runs(own(SAMPLE))
    happened = [(event.kind, event.payload["after_step"]) for event in run.events if event.kind != "subagent"]
    assert happened == [("compaction", 2), ("retry", 3), ("fault", 4), ("abort", 4)]
    assert (run.stop.reason, run.error) == ("aborted", None)
    assert [before for before, said in run.inputs if said.text == "A task ended."] == [3]


def test_a_failed_turn_of_2_x_ends_in_an_error(tmp_path: Path) -> None:
    run = newer(tmp_path, message(1, "user", text="go"), response(2, said("x")), message(3, "idle", outcome="failed"))
    assert (run.stop.reason, run.error) == ("error", "failed")
    error = {"type": "provider", "message": "no"}
    run = newer(tmp_path / "b", message(1, "user", text="go"), response(2, said("x"), error=error, finish="error"))
    assert (run.stop.reason, run.error) == ("error", "provider: no")


def test_the_origin_of_a_fork_is_known(tmp_path: Path) -> None:
    run = newer(tmp_path, message(1, "user", text="go"), response(2, said("x")), fork_session_id="ses_old")
    assert [event.payload["run_id"] for event in run.events if event.kind == "branch"] == ["ses_old"]


def test_a_command_of_the_users_own_is_no_call(tmp_path: Path) -> None:
    shell = message(2, "shell", command="ls", status="exited", exit=0, output={"output": "a.txt"})
    run = newer(tmp_path, message(1, "user", text="go"), shell, response(3, said("x")))
    assert [text.text for text in run.prompt] == ["go", "$ ls\na.txt"]
    assert (run.n_tool_calls, run.steps[0].turn) == (0, 1)


@pytest.mark.parametrize(("more", "steps"), [(0, 2), (1, 3)])
def test_of_a_migrated_session_the_longer_state_counts(tmp_path: Path, more: int, steps: int) -> None:
    """Both were written on: the older tables by an older version, the newer ones by a newer one."""
    old = rows_of_storage(own("opencode/legacy"))
    info = {**old["session"][0], "id": "ses_new"}
    parts = [
        {"id": f"p{n}", "message_id": f"m{n}", "session_id": "ses_new", "data": said("old")} for n in range(2 + more)
    ]
    messages = [
        {
            "id": f"m{n}",
            "session_id": "ses_new",
            "time_created": n,
            "data": {"role": "assistant", "time": {"created": n}},
        }
        for n in range(1, 2 + more * 2)
    ]
    new = [message(1, "user", text="go"), response(2, said("new")), response(3, said("new"))]
    rows = {
        "session": [info], "message": messages, "part": [*parts, {**parts[0], "id": "p9", "message_id": "m3"}],
        "session_v2": [{"id": "ses_new", "directory": "/shed", "time_created": 5}], "session_message": new,
    }  # fmt: skip
    run = only(read(create(tmp_path / "a.db", OLDER + NEWER, rows)))
    assert (run.n_steps, run.steps[0].response.text) == (steps, "old" if more else "new")


def test_a_projection_of_a_session_does_not_hide_its_messages(tmp_path: Path) -> None:
    """Versions of 1.x have a table session_message with a few rows, beside the messages."""
    rows = rows_of_storage(own("opencode/storage"))
    rows["session_message"] = [message(1, "agent-switched", session="ses_main", agent="build")]
    schema = (
        OLDER + NEWER.partition("CREATE TABLE session_message")[1] + NEWER.partition("CREATE TABLE session_message")[2]
    )
    runs = read(create(tmp_path / "a.db", schema, rows))
    assert [(run.run_id, run.n_steps) for run in runs] == [("ses_child", 1), ("ses_main", 5)]


def test_rows_that_are_no_json_are_told_and_left_out(tmp_path: Path) -> None:
    bad = {**response(2), "data": "{"}
    rows = {"session_v2": newer_rows()["session_v2"][:1], "session_message": [message(1, "user", text="go"), bad]}
    with pytest.warns(ReadWarning, match="a message in the database is no JSON object that can be read"):
        assert only(read(create(tmp_path / "a.db", NEWER, rows))).n_steps == 0


def test_messages_of_unknown_types_are_told(tmp_path: Path) -> None:
    unknown = [message(n, "hologram", text="x") for n in range(2, 6)]
    with pytest.warns(ReadWarning, match="4 of 6 lines are of a type that this reader does not know"):
        newer(tmp_path, message(1, "user", text="go"), *unknown, response(7, said("x")))


def test_sessions_beside_the_damage_are_read(tmp_path: Path) -> None:
    rows = rows_of_storage(own("opencode/storage"))
    rows["part"] += [
        {**rows["part"][-1], "id": f"x{n}", "message_id": "none", "data": json.dumps("x" * 900)} for n in range(90)
    ]
    path = create(tmp_path / "a.db", OLDER, rows)
    data = bytearray(path.read_bytes())
    where = data.rindex(b'"xxx')
    page = where - where % 1024
    data[page : page + 1024] = b"\xff" * 1024
    path.write_bytes(bytes(data))
    with pytest.warns(ReadWarning, match="a session that cannot be read: the database is damaged"):
        assert [run.run_id for run in read(path)] == ["ses_main"]


def test_another_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE session (id TEXT, directory TEXT)")
    with pytest.raises(RunFormatError, match="not a log of a known format"):
        load_runs(path)
    with pytest.raises(RunFormatError, match="a log of opencode is"):
        read(path)
    path.write_bytes(b"x" * 100)
    with pytest.raises(RunFormatError):
        read(path)


def test_totals_of_a_session_are_compared_with_what_was_read(tmp_path: Path) -> None:
    messages = [message(1, "user", text="go"), response(2, said("x"))]
    newer(tmp_path, *messages, tokens_input=90, tokens_cache_read=10, tokens_output=20, tokens_reasoning=5)
    with pytest.warns(ReadWarning, match="the session states 40 output tokens?; 25 were read|states 24 output"):
        newer(tmp_path / "b", *messages, tokens_output=24)


def test_the_sample_is_what_is_made_of_it() -> None:
    """The file in the repository: python -m tests.support.session_databases."""
    with closing(sqlite3.connect(f"file:{own(SAMPLE)}?mode=ro", uri=True)) as connection:
        found = [json.loads(data) for (data,) in connection.execute("SELECT data FROM session_message ORDER BY rowid")]
    assert found == [row["data"] for row in newer_rows()["session_message"]]
