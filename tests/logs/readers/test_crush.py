"""The database of Crush, and of opencode's version in Go."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.run_tree import Start, starts_of
from boolab.core.types import UNKNOWN_USAGE
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.load import load_runs
from tests.support.readers import fates, only, reader_of
from tests.support.samples import own
from tests.support.session_databases import CRUSH, create, crush_message, crush_rows, finish, part

read = reader_of("crush")
SAMPLE = "crush/crush.db"


def one(folder: Path, *messages: dict[str, Any]) -> Run:
    rows = {"sessions": crush_rows()["sessions"][:1], "messages": messages}
    return only(read(create(folder / "crush.db", CRUSH, rows)))


def user(seq: int = 1) -> dict[str, Any]:
    return crush_message(seq, "user", part("text", text="go"), finish("stop"))


def test_a_message_of_the_assistant_is_a_step() -> None:
    run, sub, mute = load_runs(own(SAMPLE))
    assert (run.source, run.run_id, run.agent, run.model, run.task) == (
        "crush",
        "s-main",
        "crush",
        "model-3",
        "Sow the beans",
    )
    assert [step.turn for step in run.steps] == [1, 1, 1, 2]
    assert [step.response.finish_reason for step in run.steps] == ["tool_calls", "tool_calls", "stop", None]
    assert run.steps[0].response.reasoning == "Where?"
    assert {step.response.usage for step in run.steps} == {UNKNOWN_USAGE}
    assert (sub.run_id, sub.log_id) == ("3f2a0004-s-main#call_3", "3f2a0004-s-main$$call_3")
    assert (sub.parent_run_id, sub.agent) == ("s-main", "subagent")
    assert (mute.n_steps, mute.stop.reason) == (0, "aborted")


def test_a_flag_decides_whether_a_call_failed_and_no_exit_code() -> None:
    run = load_runs(own(SAMPLE))[0]
    assert fates(run) == [[False, True], [False], [], ["dropped", "dropped"]]
    assert [result and result.duration_ms for result in run.steps[0].results] == [250, None]


def test_a_call_starts_the_session_that_its_id_names() -> None:
    assert starts_of(load_runs(own(SAMPLE))[0]) == [Start(2, "3f2a0004-s-main#call_3", "subagent")]


def test_a_session_of_a_call_of_opencode_has_its_id(tmp_path: Path) -> None:
    call = part("tool_call", id="toolu_1", name="agent", input="{}", finished=True)
    rows = {
        "sessions": [{"id": "s-main", "title": ""}, {"id": "toolu_1", "parent_session_id": "s-main", "title": ""}],
        "messages": [user(), crush_message(2, "assistant", call, finish("tool_use"))],
    }
    assert starts_of(only(read(create(tmp_path / "opencode.db", CRUSH, rows)))) == [Start(1, "toolu_1", "subagent")]


def test_compaction_failed_and_rejected_are_events() -> None:
    run = load_runs(own(SAMPLE))[0]
    happened = [(event.kind, event.payload["after_step"]) for event in run.events if event.kind != "subagent"]
    assert happened == [("compaction", 2), ("fault", 3), ("abort", 4), ("totals", 4), ("rejected", 4)]
    assert [event.payload["cost"] for event in run.events if event.kind == "totals"] == [12_000]
    assert (run.stop.reason, run.error) == ("aborted", None)


def test_times_are_seconds_and_those_of_older_versions_too(tmp_path: Path) -> None:
    run = load_runs(own(SAMPLE))[0]
    assert [(step.start_ms, step.model_ms) for step in run.steps] == [
        (2000, 1000),
        (6000, 1000),
        (12_000, 1000),
        (20_000, 1000),
    ]
    row = crush_message(2, "assistant", part("text", text="x"), finish("end_turn"))
    run = one(
        tmp_path, user(), {**row, "created_at": row["created_at"] * 1000, "finished_at": row["finished_at"] * 1000}
    )
    assert (run.steps[0].start_ms, run.steps[0].model_ms) == (2000, 1000)


@pytest.mark.parametrize(
    ("parts", "end"),
    [
        ([part("text", text="x"), finish("end_turn")], ("finished", None)),
        ([part("text", text="x"), finish("max_tokens")], ("finished", None)),
        ([part("text", text="x")], ("aborted", None)),
        ([part("text", text="x"), finish("canceled")], ("aborted", None)),
        (
            [part("text", text="x"), finish("error", message="Provider Error", details="busy")],
            ("error", "Provider Error: busy"),
        ),
        ([finish("error", message="no")], ("error", "no")),
        ([], ("aborted", None)),
    ],
)
def test_the_last_finish_says_how_a_run_ended(tmp_path: Path, parts: list[Any], end: tuple[str, str | None]) -> None:
    run = one(tmp_path, user(), crush_message(2, "assistant", *parts))
    assert (run.stop.reason, run.error) == end


def test_a_summary_that_only_the_session_names_is_no_step(tmp_path: Path) -> None:
    rows = {
        "sessions": [{"id": "s-main", "title": "", "summary_message_id": "3f2a0002-s-main"}],
        "messages": [user(), crush_message(2, "assistant", part("text", text="so far"), finish("end_turn"))],
    }
    run = only(read(create(tmp_path / "crush.db", CRUSH, rows)))
    assert (run.n_steps, [event.kind for event in run.events]) == (0, ["compaction"])


def test_a_command_of_the_users_own_is_no_call(tmp_path: Path) -> None:
    shell = crush_message(1, "user", part("shell_command", command="ls", output="bed", exit_code=0))
    run = one(tmp_path, shell, crush_message(2, "assistant", part("text", text="x"), finish("end_turn")))
    assert (run.prompt[0].text, run.n_tool_calls) == ("$ ls\nbed", 0)


def test_parts_that_are_no_json_are_told_and_left_out(tmp_path: Path) -> None:
    with pytest.warns(ReadWarning, match="the parts of a message in the database are no JSON list"):
        run = one(tmp_path, user(), {**crush_message(2, "assistant"), "parts": "["})
    assert run.n_steps == 0


def test_columns_that_older_versions_lack_are_unknown(tmp_path: Path) -> None:
    schema = CRUSH.replace("model TEXT, provider TEXT, is_summary_message INTEGER DEFAULT 0,", "")
    rows = {
        "sessions": crush_rows()["sessions"][:1],
        "messages": [{key: row[key] for key in row if key != "model"}
                     for row in (user(), crush_message(2, "assistant", part("text", text="x"), finish("end_turn")))],
    }  # fmt: skip
    run = only(read(create(tmp_path / "crush.db", schema, rows)))
    assert (run.n_steps, run.model) == (1, "")


def test_another_database_is_refused() -> None:
    with pytest.raises(RunFormatError, match="a log of Crush is a SQLite database with the tables"):
        read(own("opencode/opencode.db"))


def test_the_sample_is_what_is_made_of_it() -> None:
    """The file in the repository: python -m tests.support.session_databases."""
    with closing(sqlite3.connect(f"file:{own(SAMPLE)}?mode=ro", uri=True)) as connection:
        found = [json.loads(parts) for (parts,) in connection.execute("SELECT parts FROM messages ORDER BY rowid")]
    assert found == [row["parts"] for row in crush_rows()["messages"]]
