"""boolab's own records: what is read is what was written."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boolab.detectors import IDENTITIES
from boolab.errors import ReadWarning, RunFormatError, SettingError
from boolab.reading import load_runs
from boolab.records import decode_run, encode_run, save_runs
from boolab.types import (
    Event,
    Input,
    Message,
    Reasoning,
    Response,
    Run,
    Sentinel,
    Step,
    StepStart,
    Stop,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    WrapUp,
)
from tests.helpers import call, distinct, play, steps

count = st.none() | st.integers(0, 10**12)
text = st.text(st.characters(), max_size=20)
free: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(text | st.sampled_from(["$tuple", "$pairs"]) | st.integers(), inner, max_size=3)
    ),
    max_leaves=6,
)
usages = st.builds(Usage, count, count, count, count, count)
calls = st.builds(ToolCall, text, text, text)
results = st.builds(ToolResult, text, text, st.none() | st.booleans(), st.booleans(), count)
sentinels = st.builds(Sentinel, text, text)
responses = st.builds(
    Response, text, st.lists(calls, max_size=3).map(tuple), st.none() | text, usages, text, count
)  # fmt: skip
parts = st.builds(StepStart, st.integers(1, 99), count) | st.builds(Text, text) | st.builds(Reasoning, text)
messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool", "sentinel"]),
    st.lists(parts | calls | results | sentinels, max_size=3).map(tuple),
)
zones = st.just(UTC) | st.integers(-14, 14).map(lambda hours: timezone(timedelta(hours=hours)))
times = st.datetimes() | st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=zones)  # noqa: DTZ001


@st.composite
def step(draw: st.DrawFn, index: int) -> Step:
    response = draw(responses)
    answers = tuple(draw(st.none() | results) for _ in response.tool_calls)
    would = tuple(draw(st.lists(text, max_size=2)))
    return Step(
        index, draw(st.integers(1, 9)), draw(count), draw(count), draw(count), response, answers, draw(text), would
    )  # fmt: skip


@st.composite
def runs(draw: st.DrawFn) -> Run:
    also = tuple(draw(st.lists(text, max_size=2)))
    stop = Stop(
        draw(st.sampled_from(get_args(StopReason))), draw(st.integers(0, 9)), draw(st.none() | text),
        draw(count), draw(count), also,
    )  # fmt: skip
    return Run(
        run_id=draw(text),
        agent=draw(text),
        model=draw(text),
        policy=draw(text),
        task=draw(text),
        stop=stop,
        steps=tuple(draw(step(i)) for i in range(1, draw(st.integers(0, 3)) + 1)),
        prompt=tuple(draw(st.lists(messages, max_size=2))),
        inputs=tuple(draw(st.lists(st.builds(Input, st.integers(2, 9), messages), max_size=2))),
        source=draw(text),
        parent_run_id=draw(st.none() | text),
        seed=draw(count),
        started_at=draw(st.none() | times),
        duration_ms=draw(count),
        identity=draw(st.sampled_from(IDENTITIES)),
        limits=draw(st.dictionaries(text, st.integers(0, 99), max_size=2)),
        settings=draw(st.dictionaries(text, free, max_size=2)),
        wrap_up=draw(st.none() | st.builds(WrapUp, text, st.none() | responses, text, st.booleans())),
        sentinel=draw(st.none() | sentinels),
        synthesis=draw(st.none() | text),
        events=tuple(
            draw(st.lists(st.builds(Event, count, text, st.dictionaries(text, free, max_size=2)), max_size=2))
        ),
        success=draw(st.none() | st.booleans()),
        error=draw(st.none() | text),
    )


def kinds(value: object) -> object:
    """The types of all values within a value: equality alone takes 1 for True, and a list for nothing it is not."""
    if isinstance(value, tuple | list):
        return type(value), [kinds(item) for item in value]
    if isinstance(value, dict):
        return dict, [(kinds(key), kinds(item)) for key, item in value.items()]
    return type(value)


@given(run=runs())
def test_a_run_is_read_exactly_as_it_was_written(run: Run) -> None:
    read = decode_run(json.loads(encode_run(run)))
    assert read == run
    fields = [name for name in Run.__slots__ if name != "continuation"]
    assert [kinds(getattr(read, name)) for name in fields] == [kinds(getattr(run, name)) for name in fields]
    if run.started_at is not None and read.started_at is not None:
        assert read.started_at.utcoffset() == run.started_at.utcoffset()


def test_live_runs_survive_the_disk(tmp_path: Path) -> None:
    written = [
        play(distinct(3)),
        play(steps("A A A A"), doom_loop=3),
        play([{"tool_calls": [call("fail", what="x"), {"name": "look", "arguments": "{broken"}]}, "done"]),
        play([{"text": "half a \ud83d surrogate"}]),
    ]
    save_runs(written, tmp_path / "runs.jsonl")
    assert load_runs(tmp_path / "runs.jsonl") == written
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs.jsonl"]


def test_one_run_and_no_run_can_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    run = play(distinct(1))
    save_runs(run, path)
    assert load_runs(path) == [run]
    save_runs([], path)
    assert path.read_bytes() == b""


def test_other_suffixes_are_refused_by_name(tmp_path: Path) -> None:
    for name in ("runs.parquet", "runs", "runs.json"):
        with pytest.raises(SettingError, match=r"saved as \.jsonl"):
            save_runs([], tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), float("inf"), b"x"])
def test_what_json_cannot_hold_is_refused_and_an_old_file_stays(tmp_path: Path, value: object) -> None:
    path = tmp_path / "runs.jsonl"
    save_runs([], path)
    run = replace(play(distinct(1)), settings={"deep": [value]})
    with pytest.raises(SettingError, match=f"settings of run {run.run_id} holds"):
        save_runs(run, path)
    assert [one.name for one in tmp_path.iterdir()] == ["runs.jsonl"]


ROW = json.loads(encode_run(play(distinct(1))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"boolab_run": 2}, "a record of version 2; version 1 can be read"),
        ({"boolab_run": True}, "a record of version True"),
        ({"extra": 1}, "extra: not fields of a run"),
        ({"run_id": 7}, "run_id: 7 is not a str"),
        ({"seed": True}, "seed: True is not a whole number"),
        ({"stop": {"reason": "tired", "step": 1}}, "stop: reason: 'tired' is not one of finished"),
        ({"stop": {"step": 1}}, "is not a Stop"),
        ({"started_at": "soon"}, "started_at: Invalid isoformat"),
        ({"prompt": [{"role": "user", "parts": [{"part": "song"}]}]}, "is not a part of a message"),
        ({"steps": {}}, "steps: {} is not a list"),
        ({"steps": ROW["steps"][1:]}, "step 1 is numbered 2"),
        ({"identity": "mine"}, "identity: 'mine' is not one of raw"),
        ({"limits": {"steps": "many"}}, "limits: 'many' is not a whole number"),
    ],
)
def test_a_line_that_is_no_record_is_told_with_what_is_wrong(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + json.dumps(ROW | change) + "\n")
    with pytest.warns(ReadWarning) as caught:
        assert len(load_runs(path)) == 1
    assert message in str(caught[0].message)
    assert str(caught[0].message).startswith(f"{path}:2: ")
    path.write_text(json.dumps(ROW | change) + "\n")
    with pytest.raises(RunFormatError):
        load_runs(path)


def test_a_field_that_a_run_needs_is_missed_by_name() -> None:
    with pytest.raises(ValueError, match="stop: missing"):
        decode_run({key: value for key, value in ROW.items() if key != "stop"})
    with pytest.raises(ValueError, match="is not a record"):
        decode_run([])
