"""Databases as opencode and Crush write them. `python -m tests.support.session_databases` makes those in tests/data."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from tests.support.samples import OWN

_PAGE: Final = 1024
_TOTALS: Final = (
    "cost REAL, tokens_input INTEGER, tokens_output INTEGER, tokens_reasoning INTEGER, tokens_cache_read INTEGER, "
    "tokens_cache_write INTEGER"
)
_ABOUT: Final = (
    f"id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT, title TEXT, version TEXT, {_TOTALS}"
)
OLDER: Final = f"""
CREATE TABLE session ({_ABOUT}, time_created INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
CREATE INDEX part_session_idx ON part (session_id);
"""
NEWER: Final = f"""
CREATE TABLE session_v2 ({_ABOUT}, fork_session_id TEXT, idle_outcome TEXT, time_created INTEGER);
CREATE TABLE session_message
    (id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, time_created INTEGER, data TEXT);
"""
CRUSH: Final = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, parent_session_id TEXT, title TEXT NOT NULL, cost REAL DEFAULT 0,
    prompt_tokens INTEGER, completion_tokens INTEGER, summary_message_id TEXT, created_at INTEGER);
CREATE TABLE messages (id TEXT PRIMARY KEY, session_id TEXT NOT NULL, role TEXT NOT NULL, parts TEXT NOT NULL,
    model TEXT, provider TEXT, is_summary_message INTEGER DEFAULT 0, created_at INTEGER, finished_at INTEGER);
CREATE TRIGGER touch AFTER INSERT ON messages BEGIN
    UPDATE sessions SET prompt_tokens = 1 WHERE id = new.session_id; END;
"""
_START: Final = 1_780_000_000_000
_SECOND: Final = 1_780_000_000


def create(path: Path, schema: str, rows: Mapping[str, Iterable[Mapping[str, Any]]]) -> Path:
    """A database of this schema with these rows. Values that SQLite has no type for are written as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA page_size = {_PAGE}")
        connection.executescript(schema)
        for table, entries in rows.items():
            for row in entries:
                marks = ", ".join("?" * len(row))
                values = [json.dumps(value) if isinstance(value, dict | list) else value for value in row.values()]
                connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", values)  # noqa: S608
    return path


def rows_of_storage(storage: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows that hold the sessions of a storage folder, as opencode moved them into its database."""
    rows: dict[str, list[dict[str, Any]]] = {"session": [], "message": [], "part": []}
    for path in sorted(storage.glob("session/*/*.json")):
        info = json.loads(path.read_text())
        rows["session"].append({
            "id": info["id"], "project_id": info["projectID"], "parent_id": info.get("parentID"),
            "directory": info.get("directory"), "title": info["title"], "version": info.get("version"),
            "time_created": info["time"]["created"],
        })  # fmt: skip
    for path in sorted(storage.glob("message/*/*.json")):
        info = json.loads(path.read_text())
        name, session = info.pop("id"), info.pop("sessionID")
        created = info["time"]["created"]
        rows["message"].append({"id": name, "session_id": session, "time_created": created, "data": info})
    for path in sorted(storage.glob("part/**/*.json")):
        part = json.loads(path.read_text())
        keys = {key: part.pop(key, None) for key in ("id", "messageID", "sessionID")}
        rows["part"].append(
            {"id": keys["id"], "message_id": keys["messageID"], "session_id": keys["sessionID"], "data": part}
        )
    return rows


def message(seq: int, kind: str, *, session: str = "ses_new", **data: Any) -> dict[str, Any]:
    """A row of `session_message`, made a second after the one before."""
    created = _START + 1000 * seq
    times = {"time": {"created": created, **data.pop("time", {})}}
    name = f"msg_{session}_{seq:03}"
    return {
        "id": name,
        "session_id": session,
        "type": kind,
        "seq": seq,
        "time_created": created,
        "data": {**data, **times},
    }


def tool(number: int, name: str, status: str, at: int = 0, **state: Any) -> dict[str, Any]:
    """A call in the content of a response."""
    start = _START + 1000 * at
    times = {"created": start, "ran": start + 100, **({"completed": start + 400} if status != "running" else {})}
    return {"type": "tool", "id": f"call_{number}", "name": name, "state": {"status": status, **state}, "time": times}


def said(words: str) -> dict[str, Any]:
    """A text in the content of a response."""
    return {"type": "text", "text": words}


TOKENS: Final = {"input": 90, "output": 20, "reasoning": 5, "cache": {"read": 10, "write": 0}}
MODEL: Final = {"id": "model-2", "providerID": "acme", "variant": "high"}


def response(seq: int, *content: Any, **data: Any) -> dict[str, Any]:
    """A response of 2.x that took 800 ms."""
    end = _START + 1000 * seq + 800
    given = {"agent": "build", "model": MODEL, "cost": 0.002, "tokens": TOKENS, "finish": "stop", **data}
    return message(seq, "assistant", content=[*content], time={"streamed": end - 700, "completed": end}, **given)


def newer_rows() -> dict[str, list[dict[str, Any]]]:
    """A session of 2.x with a subagent, a failed command, a compaction and an interruption."""
    about = {"project_id": "prj_1", "directory": "/shed", "title": "Paint", "version": "2.0.14", "time_created": _START}
    done = {"content": [said("a.txt")], "metadata": {"exit": 0}}
    failed = {"content": [said("no brush")], "metadata": {"exit": 2}}
    child = {"subagent_type": "explore", "prompt": "Look"}
    return {
        "session_v2": [
            {"id": "ses_new", **about, "cost": 0.008, "tokens_input": 450, "tokens_output": 100},
            {"id": "ses_sub", **about, "parent_id": "ses_new", "time_created": _START + 9},
        ],
        "session_message": [
            message(1, "user", text="Paint the shed", files=[{"name": "shed.png"}]),
            message(2, "model-switched", model=MODEL),
            response(3, said("I look."), tool(1, "bash", "completed", 3, input={"command": "ls"}, **done),
                     finish="tool-calls"),
            response(
                4,
                tool(2, "bash", "completed", 4, input={"command": "paint"}, **failed),
                tool(3, "edit", "error", 4, input={"path": "a"}, error={"type": "unknown", "message": "no file"}),
                tool(4, "task", "completed", 4, input=child, content=[said("Nothing")],
                     metadata={"sessionId": "ses_sub"}),
                finish="tool-calls",
            ),
            message(5, "compaction", status="completed", reason="auto", summary="So far", recent=""),
            message(6, "synthetic", text="A task ended."),
            response(7, said("Painted."),
                     retry={"attempt": 1, "at": _START + 7000, "error": {"type": "rate", "message": "slow"}}),
            message(8, "idle", outcome="succeeded"),
            message(9, "user", text="Now the door"),
            response(10, tool(5, "bash", "streaming", 10, input='{"comm'), tool(6, "bash", "running", 10, input={}),
                     finish=None, error={"type": "aborted", "message": "stopped"}, tokens=None, cost=None),
            message(11, "idle", outcome="interrupted"),
            message(1, "user", session="ses_sub", text="Look"),
            message(2, "assistant", session="ses_sub", agent="explore", model=MODEL, content=[said("Nothing")],
                    finish="stop", cost=0.001, tokens=TOKENS, time={"completed": _START + 2500}),
        ],
    }  # fmt: skip


def finish(reason: str, **data: Any) -> dict[str, Any]:
    """The part that ends a message of Crush."""
    return {"type": "finish", "data": {"reason": reason, "time": 0, **data}}


def part(kind: str, **data: Any) -> dict[str, Any]:
    """A part of a message of Crush."""
    return {"type": kind, "data": data}


def crush_message(seq: int, role: str, *parts: Any, session: str = "s-main", **more: Any) -> dict[str, Any]:
    """A row of Crush's `messages`, made two seconds after the one before."""
    created = _SECOND + 2 * seq
    ended = {"finished_at": created + 1, "model": "model-3"} if role == "assistant" else {}
    name = f"3f2a{seq:04}-{session}"
    return {"id": name, "session_id": session, "role": role, "parts": [*parts], "created_at": created, **ended, **more}


def crush_rows() -> dict[str, list[dict[str, Any]]]:
    """A session of Crush with a subagent, a failed call, a compaction and a cancelled response; and another one."""

    def call(number: int, name: str, **given: Any) -> dict[str, Any]:
        return part("tool_call", id=f"call_{number}", name=name, input=json.dumps(given), finished=True)

    def result(number: int, content: str, *, is_error: bool = False, **metadata: Any) -> dict[str, Any]:
        words = json.dumps(metadata) if metadata else ""
        return part("tool_result", tool_call_id=f"call_{number}", content=content, is_error=is_error, metadata=words)

    return {
        "sessions": [
            {"id": "s-main", "title": "Sow", "cost": 0.012, "created_at": _SECOND},
            {"id": "3f2a0004-s-main$$call_3", "parent_session_id": "s-main", "title": "A", "created_at": _SECOND + 7},
            {"id": "title-s-main", "parent_session_id": "s-main", "title": "Title", "created_at": _SECOND},
            {"id": "s-mute", "title": "Mute", "created_at": _SECOND + 90},
        ],
        "messages": [
            crush_message(1, "user", part("text", text="Sow the beans"), finish("stop")),
            crush_message(2, "assistant", part("reasoning", thinking="Where?"), part("text", text="I look."),
                          call(1, "bash", command="ls"), call(2, "view", path="bed"), finish("tool_use")),
            crush_message(3, "tool", result(1, "bed\nExit code 1", start_time=_START + 4000, end_time=_START + 4250),
                          result(2, "no such bed", is_error=True)),
            crush_message(4, "assistant", call(3, "agent", prompt="Find the bed"), finish("tool_use")),
            crush_message(5, "tool", result(3, "It is outside")),
            crush_message(6, "assistant", part("text", text="All so far"), finish("end_turn"), is_summary_message=1),
            crush_message(7, "assistant", part("text", text="Sown."), finish("end_turn")),
            crush_message(8, "user", part("text", text="Water them"), part("binary"), finish("stop")),
            crush_message(9, "assistant", finish("error", message="Provider Error", details="busy")),
            crush_message(10, "user", part("text", text="Again"), finish("stop")),
            crush_message(11, "assistant", call(4, "bash", command="pour"), call(5, "bash", command="rm"),
                          finish("canceled", message="User canceled request")),
            crush_message(12, "tool", result(4, "Error: user cancelled assistant tool calling", is_error=True),
                          result(5, "User denied permission", is_error=True)),
            crush_message(3, "user", part("text", text="Find the bed"), session="3f2a0004-s-main$$call_3"),
            crush_message(4, "assistant", part("text", text="It is outside"), finish("end_turn"),
                          session="3f2a0004-s-main$$call_3"),
            crush_message(1, "user", part("text", text="Hello?"), session="s-mute"),
            crush_message(2, "assistant", session="s-mute", finished_at=None),
        ],
    }  # fmt: skip


SAMPLES: Final[Mapping[str, tuple[str, Any]]] = {
    "opencode/opencode.db": (
        OLDER + NEWER,
        lambda: {**rows_of_storage(OWN / "opencode/legacy"), **newer_rows()},
    ),
    "crush/crush.db": (CRUSH, crush_rows),
}

if __name__ == "__main__":
    for name, (schema, rows) in SAMPLES.items():
        (OWN / name).unlink(missing_ok=True)
        create(OWN / name, schema, rows())
