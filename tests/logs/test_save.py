"""Runs on disk, as ATIF and as Parquet: what is read is what was written."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import atif
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from boolab.core.codec import dumps
from boolab.core.messages import Input, Message, Reasoning, Sentinel, StepStart, Text
from boolab.core.run import Compacted, Run, WrapUp
from boolab.core.types import IDENTITIES, Event, Image, Response, Step, Stop, StopReason, ToolCall, ToolResult, Usage
from boolab.errors import ReadWarning, RunFormatError, SettingError
from boolab.frames.recording import recording_df
from boolab.io.resources import data_path
from boolab.logs.atif_format import run_of_trajectory, trajectory
from boolab.logs.load import load_runs, read_file
from boolab.logs.log_files import readers
from boolab.logs.save import save_runs
from boolab.runtime.models.scripted import ScriptedModel
from boolab.whatif.evaluate import counterfactual
from tests.support.cases import cases
from tests.support.helpers import call, distinct, play, steps

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
usages = st.builds(Usage, count, count, count, count, count, count, count)
calls = st.builds(ToolCall, text, text, text)
images = st.builds(Image, count, count)
some_images = st.lists(images, max_size=2).map(tuple)
results = st.builds(ToolResult, text, text, st.none() | st.booleans(), st.booleans(), count, some_images)
sentinels = st.builds(Sentinel, text, text)
responses = st.builds(
    Response, text, st.lists(calls, max_size=3).map(tuple), st.none() | text, usages, text, count, st.none() | text,
    text, text,
)  # fmt: skip
wrap_ups = st.builds(WrapUp, text, st.none() | responses, text, st.booleans())
compactions = st.builds(
    Compacted, st.integers(1, 9), st.integers(1, 9), text, st.integers(0, 99), st.none() | responses, text,
    st.booleans(), count,
)  # fmt: skip
parts = st.builds(StepStart, st.integers(1, 99), count) | st.builds(Text, text) | st.builds(Reasoning, text, text)
messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool", "sentinel"]),
    st.lists(parts | calls | results | sentinels | images, max_size=3).map(tuple),
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


def before(given_: Input) -> int:
    return given_.before


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
        inputs=tuple(sorted(draw(st.lists(st.builds(Input, st.integers(1, 9), messages), max_size=2)), key=before)),
        source=draw(text),
        parent_run_id=draw(st.none() | text),
        seed=draw(count),
        started_at=draw(st.none() | times),
        duration_ms=draw(count),
        identity=draw(st.sampled_from(IDENTITIES)),
        limits=draw(st.dictionaries(text, st.integers(0, 99), max_size=2)),
        settings=draw(st.dictionaries(text, free, max_size=2)),
        context_window=draw(count),
        compactions=tuple(draw(st.lists(compactions, max_size=2))),
        earlier_wrap_ups=tuple(draw(st.lists(wrap_ups, max_size=2))),
        wrap_up=draw(st.none() | wrap_ups),
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


def assert_same(read: Run, run: Run) -> None:
    """Equal, and of the same types all through."""
    assert read == run
    fields = [name for name in Run.__slots__ if name not in ("continuation", "path")]
    assert [kinds(getattr(read, name)) for name in fields] == [kinds(getattr(run, name)) for name in fields]
    if run.started_at is not None and read.started_at is not None:
        assert read.started_at.utcoffset() == run.started_at.utcoffset()


@settings(deadline=None)
@given(run=runs())
def test_a_run_comes_back_from_atif_exactly_as_it_was(run: Run) -> None:
    assert_same(run_of_trajectory(json.loads(dumps(trajectory(run)))), run)


@cases(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(several=st.lists(runs(), max_size=4, unique_by=lambda run: run.run_id))
def test_runs_come_back_from_parquet_exactly_as_they_were(several: list[Run], tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    save_runs(several, path)
    read = {run.run_id: run for run in read_file(readers()["parquet"], path, pytest.fail)}
    assert read.keys() == {run.run_id for run in several}
    for run in several:
        assert_same(read[run.run_id], run)


@given(run=runs())
def test_every_line_is_accepted_by_the_models_of_atif(run: Run) -> None:
    """Half surrogates aside, which no pydantic model takes."""
    assert isinstance(atif.Trajectory.model_validate(json.loads(dumps(trajectory(whole(run))))), atif.Trajectory)


def whole(value: Any) -> Any:
    """A value of the records with half surrogates replaced."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Run):
        return replace(value, **{f: whole(getattr(value, f)) for f in Run.__slots__ if f != "continuation"})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(whole, value))
    if isinstance(value, tuple | list):
        return type(value)(map(whole, value))
    if isinstance(value, dict):
        return {whole(key): whole(item) for key, item in value.items()}
    return value


def live() -> list[Run]:
    return [
        replace(play(distinct(1)), run_id="first", steps=()),
        play(distinct(3)),
        play(steps("A A A A"), doom_loop=3),
        play([{"tool_calls": [call("fail", what="x"), {"name": "look", "arguments": "{broken"}]}, "done"]),
        play([{"text": "half a \ud83d surrogate"}]),
        replace(play(distinct(1)), run_id="none", steps=(), success=True),
    ]


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.parquet"])
def test_live_runs_survive_the_disk(tmp_path: Path, name: str) -> None:
    written = live()
    save_runs(written, tmp_path / name)
    assert load_runs(tmp_path / name) == written
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


@pytest.mark.parametrize("arguments", ['{"x":1e400}', '{"x":"\\ud83d","y":-1e400}', '{"x":"Infinity"}', '{"x":NaN}'])
def test_numbers_beyond_floats_are_saved_as_json_and_load_again(tmp_path: Path, arguments: str) -> None:
    step = Step(1, 1, None, None, None, Response(tool_calls=(ToolCall("c", "f", arguments),)), (None,))
    run = replace(play(distinct(1)), steps=(step,), limits={"$tuple": 1})
    for name in ("runs.jsonl", "runs.parquet"):
        save_runs(run, tmp_path / name)
        assert load_runs(tmp_path / name) == [run]
    (call_,) = json.loads((tmp_path / "runs.jsonl").read_text(), parse_constant=pytest.fail)["steps"][-1]["tool_calls"]
    assert call_["arguments"] == (json.loads(arguments) if "Infinity" in arguments else {})


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("count", [2**63 - 1, -(2**63)])
def test_counters_at_both_ends_of_64_bits_come_back(count: int, suffix: str, tmp_path: Path) -> None:
    run = play(ScriptedModel(["Hi."]))
    step = run.steps[0]
    strange = step._replace(response=step.response._replace(usage=Usage(output_tokens=count)), duration_ms=count)
    kept = replace(run, steps=(strange,))
    save_runs(kept, tmp_path / f"runs.{suffix}")
    assert load_runs(tmp_path / f"runs.{suffix}") == [kept]
    dear = step._replace(response=step.response._replace(usage=Usage(cost=count)))
    save_runs(replace(run, steps=(dear,)), tmp_path / f"runs.{suffix}")
    (read,) = load_runs(tmp_path / f"runs.{suffix}")
    assert read.steps[0].response.usage.cost == pytest.approx(count)  # in ATIF a cost is in dollars, and a float


def test_the_shipped_recording_is_atif_that_others_accept() -> None:
    lines = (data_path("datasets") / "runs" / "coder.jsonl").read_text().splitlines()
    assert len([atif.Trajectory.model_validate_json(line) for line in lines]) == 132


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.parquet"])
def test_one_run_and_no_run_can_be_saved(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    run = play(distinct(1))
    save_runs(run, path)
    assert load_runs(path) == [run]
    save_runs([], path)
    if name.endswith(".parquet"):
        with pytest.warns(ReadWarning, match="no run in it"):
            assert load_runs(path) == []
    else:
        assert path.read_bytes() == b""


def test_runs_are_written_as_a_generator_makes_them(tmp_path: Path) -> None:
    made = [play(distinct(2)) for _ in range(3)]
    save_runs((run for run in made), tmp_path / "runs.parquet")
    save_runs((run for run in made), tmp_path / "runs.jsonl")
    assert load_runs(tmp_path / "runs.parquet") == load_runs(tmp_path / "runs.jsonl") == made


def test_a_table_says_to_counterfactual_what_the_runs_say(tmp_path: Path) -> None:
    made = live()
    save_runs(made, tmp_path / "runs.parquet")
    grid = {"max_steps": [1, 2, 3], "doom_loop": [2, 3]}
    from_table = counterfactual(tmp_path / "runs.parquet", grid=grid)
    pd.testing.assert_frame_equal(from_table, counterfactual(made, grid=grid), check_like=True)
    pd.testing.assert_frame_equal(
        counterfactual(pd.read_parquet(tmp_path / "runs.parquet"), grid=grid), from_table, check_like=True
    )


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.parquet"])
def test_of_calls_with_one_id_each_keeps_its_own_result(tmp_path: Path, name: str) -> None:
    calls_ = (ToolCall("c", "f", "{}"), ToolCall("c", "f", "{}"))
    for answers in ((None, ToolResult("c", "2")), (ToolResult("c", "1"), ToolResult("c", "2"))):
        run = replace(play(distinct(1)), steps=(Step(1, 1, None, None, None, Response(tool_calls=calls_), answers),))
        save_runs(run, tmp_path / name)
        assert load_runs(tmp_path / name) == [run]


def test_parquet_has_row_groups_and_a_repeated_run_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [play(distinct(3)) for _ in range(4)]
    monkeypatch.setattr("boolab.logs.save._GROUP_ROWS", 5)
    path = tmp_path / "runs.parquet"
    save_runs(made, path)
    assert parquet.ParquetFile(path).num_row_groups == 2
    table = parquet.read_table(path)
    parquet.write_table(pa.concat_tables([table, table]), path)
    with pytest.warns(ReadWarning, match=r"is there already; skipped"):
        assert load_runs(path) == made


def test_two_runs_of_one_id_cannot_be_in_one_table(tmp_path: Path) -> None:
    run = play(distinct(1))
    with pytest.raises(SettingError, match=f"run id '{run.run_id}' occurs more than once"):
        save_runs([run, run], tmp_path / "runs.parquet")
    assert list(tmp_path.iterdir()) == []


def test_other_suffixes_are_refused_by_name(tmp_path: Path) -> None:
    for name in ("runs.csv", "runs", "runs.json", "runs.bz2"):
        with pytest.raises(SettingError, match=r"saved as \.jsonl \(ATIF\), \.jsonl\.bz2 or \.parquet"):
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


ROW: dict[str, Any] = json.loads(dumps(trajectory(play(distinct(1)))))
AGENT = ROW["steps"][1]
OWN = ROW["extra"]["boolab"]


def own(**change: Any) -> dict[str, Any]:
    return {"extra": {"boolab": OWN | change}}


def agents(**change: Any) -> dict[str, Any]:
    return {"steps": [ROW["steps"][0], AGENT | change, *ROW["steps"][2:]]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (own(version=1), "a record of version 1; version 2 can be read"),
        (own(version=True), "a record of version True"),
        (own(more=1), "more: not fields of a run"),
        (own(seed=True), "seed: True is not a whole number"),
        (own(stop={"reason": "tired", "step": 1}), "stop: reason: 'tired' is not one of finished"),
        (own(stop={"step": 1}), "is not a Stop"),
        (own(started_at="soon"), "started_at: Invalid isoformat"),
        (own(identity="mine"), "identity: 'mine' is not one of raw"),
        (own(limits={"steps": "many"}), "limits: 'many' is not a whole number"),
        ({"trajectory_id": 7}, "7 is not a str"),
        ({"schema_version": "ATIF-v2.0"}, "a trajectory of 'ATIF-v2.0'; versions ATIF-v1.x can be read"),
        ({"steps": [{"source": "user", "message": 1}]}, "steps: step 1: .* is not a part of a message|1 is not a str"),
        (agents(message=None), "steps: step 2: message: None is not a text"),
        (agents(extra={"boolab": {"turn": "1"}}), "steps: step 2: turn: '1' is not a whole number"),
        (
            agents(extra={"boolab": {"turn": 2**63}}),
            "steps: step 2: turn: 9223372036854775808 is not a whole",
        ),
        (agents(extra={"boolab": {}}), "steps: step 2: turn: missing"),
        (agents(extra={"boolab": {"turn": 1, "mood": "x"}}), "steps: step 2: mood: not known here"),
        (agents(metrics={"cost_usd": "1"}), "steps: step 2: cost_usd: '1' is not a number"),
        (
            agents(metrics={"cost_usd": 1e13}),
            "steps: step 2: cost_usd: 10000000000000.0 is too large",
        ),
        (agents(observation={"results": [{"source_call_id": "x", "content": ""}]}), "a result answers call 'x'"),
    ],
)
def test_a_line_that_is_no_record_is_told_with_what_is_wrong(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(ROW) + "\n" + json.dumps(ROW | change) + "\n")
    with pytest.warns(ReadWarning) as caught:
        assert len(load_runs(path)) == 1
    assert re.search(message, str(caught[0].message))
    assert str(caught[0].message).startswith(f"{path}:2: ")
    path.write_text(json.dumps(ROW | change) + "\n")
    with pytest.raises(RunFormatError):
        load_runs(path)


def test_a_field_that_a_run_needs_is_missed_by_name() -> None:
    without = {key: value for key, value in OWN.items() if key != "stop"}
    with pytest.raises(ValueError, match="stop: missing"):
        run_of_trajectory(ROW | {"extra": {"boolab": without}})


def test_a_table_that_holds_no_runs_is_refused_with_what_would(tmp_path: Path) -> None:
    path = tmp_path / "steps.parquet"
    recording_df(play(distinct(1))).to_parquet(path)
    with pytest.raises(RunFormatError, match="without the columns run_record and step_record"):
        load_runs(path)
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(RunFormatError, match="cannot be read as Parquet"):
        load_runs(path)


@pytest.mark.parametrize("column", ["run_record", "step_record"])
@pytest.mark.parametrize("value", [b"{}", 7])
def test_a_table_whose_records_are_no_texts_is_refused(tmp_path: Path, column: str, value: Any) -> None:
    """Found by fuzzing: somebody else's table may have columns of these names, of any type."""
    path = tmp_path / "runs.parquet"
    save_runs(play(distinct(1)), path)
    table = pd.read_parquet(path)
    table[column] = [value] * len(table)
    table.to_parquet(path)
    with pytest.raises(RunFormatError, match="is no record: expected JSON as text"):
        load_runs(path)


def test_a_table_whose_footer_contradicts_itself_ends_no_process(tmp_path: Path) -> None:
    """Found by fuzzing: pyarrow aborts where it is asked of a column about which a damaged footer is wrong.

    In a process of its own, which would take the tests with it.
    """
    path = tmp_path / "runs.parquet"
    save_runs(play(distinct(1)), path)
    program = """if True:
        import sys, warnings
        from pathlib import Path
        import boolab as bl
        warnings.simplefilter("ignore")
        path = Path(sys.argv[1])
        whole = path.read_bytes()
        footer = int.from_bytes(whole[-8:-4], "little") + 8
        for place in range(len(whole) - footer, len(whole) - footer + 300, 3):
            for bit in (1, 4):
                path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
                try:
                    bl.load_runs(path)
                except bl.errors.RunFormatError:
                    pass
        print("done")
    """
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-500:]


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_runs(play(distinct(1)), tmp_path / "runs.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SettingError, match=r"pip install 'boolab\[parquet\]'"):
        save_runs([], tmp_path / "other.parquet")
    with pytest.raises(RunFormatError, match=r"runs\.parquet: reading Parquet .*: pip install 'boolab\[parquet\]'"):
        load_runs(tmp_path / "runs.parquet")
