"""Sessions that a file holds twice, as resumed sessions do: nothing is counted twice, and real repeats stay."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import boolab as bl

JSON = dict[str, Any]


def line(number: int, role: str, content: object, parent: str | None, *, at: int = 0, **message: object) -> JSON:
    stamp = f"2026-05-04T09:00:{at or number:02}.000Z"
    inner = {"role": role, "content": content, **message}
    return {"type": role, "uuid": f"u{number}", "parentUuid": parent, "sessionId": "s", "timestamp": stamp} | {
        "isSidechain": False, "message": inner,
    }  # fmt: skip


def call(name: str, **arguments: object) -> list[JSON]:
    return [{"type": "tool_use", "id": name, "name": "Read", "input": arguments}]


def result(name: str, content: str = "ok", **more: object) -> list[JSON]:
    return [{"type": "tool_result", "tool_use_id": name, "content": content, **more}]


SESSION = [
    line(1, "user", [{"type": "text", "text": "Look at a"}, {"type": "text", "text": "and b"}], None),
    line(2, "assistant", call("t1", p="a"), "u1", id="m1"),
    line(3, "user", result("t1", "no such file", is_error=True), "u2"),
    line(4, "assistant", [{"type": "text", "text": "a is missing"}], "u3", id="m2"),
    line(5, "user", "Then b", "u4"),
    line(6, "assistant", call("t2", p="b"), "u5", id="m3"),
    line(7, "user", result("t2"), "u6"),
    line(8, "assistant", [{"type": "text", "text": "Done"}], "u7", id="m4"),
]


def again(lines: Iterable[Mapping[str, Any]], name: str = "n", seconds: int = 0) -> list[JSON]:
    """The lines under new uuids, later by so many seconds."""
    out = []
    for one in lines:
        parent = one["parentUuid"]
        stamp = datetime.fromisoformat(one["timestamp"]) + timedelta(seconds=seconds)
        out.append({**one, "uuid": name + one["uuid"], "parentUuid": parent and name + parent} | {
            "timestamp": stamp.isoformat().replace("+00:00", "Z"),
        })  # fmt: skip
    return out


def in_parts(lines: Iterable[JSON]) -> list[JSON]:
    """The lines with one block each, as resumed sessions write prompts."""
    out: list[JSON] = []
    for one in lines:
        content = one["message"]["content"]
        blocks = content if isinstance(content, list) else [content]
        parent = one["parentUuid"]
        for place, block in enumerate(blocks):
            uuid = one["uuid"] if place == len(blocks) - 1 else f"{one['uuid']}.{place}"
            message = {**one["message"], "content": [block] if isinstance(block, dict) else block}
            out.append({**one, "uuid": uuid, "parentUuid": parent, "message": message})
            parent = uuid
    return out


def counts(path: Path, lines: Iterable[JSON]) -> list[Any]:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    (run,) = bl.load_runs(path)
    texts = [message.text for _, message in run.inputs]
    results = [[(r and r.content) for r in step.results] for step in run.steps]
    return [[step.turn for step in run.steps], run.n_tool_calls, results, texts, run.stop, [e.kind for e in run.events]]


@pytest.mark.parametrize("seconds", [0, 3_600], ids=["with the old times", "with new times"])
@pytest.mark.parametrize("write", [again, lambda lines, **how: in_parts(again(lines, **how))], ids=["whole", "parts"])
def test_claude_code_counts_copied_history_once(tmp_path: Path, seconds: int, write: Callable[..., list[JSON]]) -> None:
    path = tmp_path / "s.jsonl"
    once = counts(path, SESSION)
    assert counts(path, [*SESSION, *write(SESSION, seconds=seconds)]) == once
    more = [line(31, "user", "Go on", "u8", at=31), line(32, "assistant", call("t9"), "u31", at=32, id="m9")]
    resumed = [{**more[0], "parentUuid": "nu8"}, more[1]]
    assert counts(path, [*SESSION, *write(SESSION, seconds=seconds), *resumed]) == counts(path, [*SESSION, *more])


def test_claude_code_rewinds_within_a_copy_of_the_history(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    other = [line(41, "user", "No, c", "u4", at=41), line(42, "assistant", call("t8"), "u41", at=42, id="m8")]
    copied = [{**other[0], "parentUuid": "nu4"}, other[1]]
    assert counts(path, [*SESSION, *again(SESSION), *copied]) == counts(path, [*SESSION, *other])


def test_claude_code_keeps_a_response_repeated_after_a_rewind(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    left = [line(41, "user", "No, c", "u4", at=41), line(42, "assistant", call("t8"), "u41", at=42, id="m8")]
    back = again(SESSION[4:], seconds=100)
    back[0]["parentUuid"] = "u4"
    turns, calls, *_ = counts(path, [*SESSION, *left, *back])
    assert (turns, calls) == ([1, 1, 2, 2], 2)


def test_a_call_written_again_in_its_response_is_one_call(tmp_path: Path) -> None:
    lines = [SESSION[0], *(line(n, "assistant", call("t1", p="a"), f"u{n - 1}", id="m1") for n in (2, 3, 4))]
    lines.append(line(5, "user", result("t1"), "u4"))
    _, calls, results, *_ = counts(tmp_path / "s.jsonl", lines)
    assert (calls, results) == (1, [["ok"]])


def chat(*messages: JSON) -> list[JSON]:
    return [{"role": "user", "content": "Go", "timestamp": "2026-05-04T09:00:00.125Z"}, *messages]


def says(second: int, content: str = "Still running", **more: object) -> JSON:
    return {"role": "assistant", "content": content, "timestamp": f"2026-05-04T09:00:{second:02}.250Z", **more}


def load(path: Path, messages: object) -> bl.Run:
    path.write_text(json.dumps(messages))
    (run,) = bl.load_runs(path)
    return run


def test_messages_that_go_back_in_time_are_a_copy(tmp_path: Path) -> None:
    once = chat(says(1), says(2, "Done"))
    run = load(tmp_path / "c.json", [*once, *once, says(3, "More")])
    assert [(step.turn, step.response.text) for step in run.steps] == [(1, "Still running"), (1, "Done"), (1, "More")]


@pytest.mark.parametrize(
    "messages",
    [
        chat(says(1), says(2)),  # equal texts at different times
        [{"role": "user", "content": "Go"}, *({"role": "assistant", "content": "Still running"},) * 2],  # no times
        chat(*({**says(1), "timestamp": "2026-05-04T09:00:01Z"},) * 2),  # times in seconds
    ],
)
def test_real_repeats_stay(tmp_path: Path, messages: list[JSON]) -> None:
    assert load(tmp_path / "c.json", messages).n_steps == 2
