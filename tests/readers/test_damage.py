"""Damaged logs, cut or changed at any byte: what comes of it is runs and warnings, or a `RunFormatError`."""

from __future__ import annotations

import random
import shutil
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.errors import ReadWarning, RunFormatError
from boolab.reading import read_logs
from boolab.saving import save_runs
from boolab.types import Run
from tests.cases import cases
from tests.helpers import distinct, play
from tests.readers.claude import Session, call, text, usage
from tests.readers.expected import EXPECTED
from tests.readers.samples import FOLDER, OWN

RICH = Session()
RICH.user("the task")
RICH.say("m1", {"type": "thinking", "thinking": "hm"}, text(), call("t1"), call("t2"), usage=usage(3, 5, 7, 9))
RICH.answer("t1", [{"type": "text", "text": "ok"}], is_error=False)
RICH.answer("t2", toolUseResult={"durationMs": 7})
RICH.user("look", isSidechain=True, agentId="a1")
RICH.say("s1", text(), isSidechain=True, agentId="a1")
RICH.line("system", subtype="compact_boundary", compactMetadata={"trigger": "auto"})
RICH.user("next")
RICH.say("m2", text())

MADE = ["claude_code/claude.jsonl", "atif/own.jsonl", "parquet/own.parquet"]
BINARY = (".eval", ".parquet")

SAMPLES = [path.relative_to(OWN).as_posix() for path in sorted(OWN.rglob("*")) if path.is_file()]
TEXTS = [name for name in (*MADE, *SAMPLES) if not name.endswith(BINARY)]
REAL = [row.path for row in EXPECTED if row.format is not None and (FOLDER / row.path).exists()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples, and those that are written by code."""
    folder = tmp_path_factory.mktemp("whole")
    shutil.copytree(OWN, folder, dirs_exist_ok=True)
    runs = [play(distinct(3)), play(distinct(2, end=None))]
    for name in MADE:
        (folder / name).parent.mkdir(exist_ok=True)
    RICH.write(folder / MADE[0])
    for name in MADE[1:]:
        save_runs(runs, folder / name)
    return folder


def outcome(path: Path, data: bytes) -> list[Run] | None:
    """The runs, or None for a `RunFormatError`; anything else fails the test."""
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ReadWarning)
        try:
            runs: list[Run] | None = list(read_logs(path).runs)
        except RunFormatError as error:
            refused = error
            runs = None
    if runs is None:
        assert refused.path == str(path)
        assert refused.line is not None or path.suffix in BINARY
        assert "failed (" not in refused.message, "a reader's own fault"
        return None
    for run in runs:
        assert isinstance(str(run), str)
        assert [step.index for step in run.steps] == list(range(1, run.n_steps + 1))
        assert all(len(step.results) == len(step.response.tool_calls) for step in run.steps)
    assert len({run.run_id for run in runs}) == len(runs)
    for frame in (bl.runs_df, bl.steps_df, bl.calls_df, bl.events_df, bl.recording_df):
        assert frame(runs) is not None
    return runs


def damage(path: Path, data: bytes, times: int) -> None:
    """Cut the file, and change bytes of it, so many times, at places that depend on its name alone."""
    chance = random.Random(path.name)  # noqa: S311 - no secret
    for _ in range(times):
        outcome(path, data[: chance.randrange(len(data))])
        changed = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            changed[chance.randrange(len(data))] = chance.randrange(256)
        outcome(path, bytes(changed))


@pytest.mark.parametrize("name", [*MADE, *SAMPLES])
def test_a_sample_cut_or_changed_anywhere(name: str, made: Path, request: pytest.FixtureRequest) -> None:
    path = made / name
    whole = path.read_bytes()
    try:
        damage(path, whole, request.config.getoption("--damage"))
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize("name", REAL)
def test_a_real_log_cut_or_changed_anywhere(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    damage(tmp_path / Path(name).name, (FOLDER / name).read_bytes(), request.config.getoption("--damage"))


@pytest.mark.parametrize("name", [MADE[0], "tau_bench/tau-bench-tiny-airline.json", MADE[1]])
def test_a_log_cut_at_any_byte_has_no_more_steps(
    name: str, made: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole, path = (made / name).read_bytes(), tmp_path / Path(name).name
    complete = outcome(path, whole)
    assert complete
    for size in range(0, len(whole), max(1, 400 // request.config.getoption("--damage"))):
        runs = outcome(path, whole[:size])
        assert runs is None or sum(run.n_steps for run in runs) <= sum(run.n_steps for run in complete)


@pytest.mark.parametrize("name", TEXTS)
@cases(8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_sample_with_values_of_other_kinds(name: str, made: Path, tmp_path: Path, data: st.DataObject) -> None:
    changed = (made / name).read_text()
    places = [place for place, char in enumerate(changed) if char == ":"]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places))
        value = data.draw(st.sampled_from(["null", "[]", "{}", "1e400", "-1", '""', "true", "[[1]]", '{"a":{"b":[]}}']))
        end = place + 1
        depth = 0
        while end < len(changed) and (depth or changed[end] not in ",}]\n"):
            depth += (changed[end] in "[{") - (changed[end] in "]}")
            end += 1
        changed = changed[: place + 1] + value + changed[end:]
        places = [place for place, char in enumerate(changed) if char == ":"]
    outcome(tmp_path / Path(name).name, changed.encode())


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    for opened, closed in (("[", "]"), ('{"messages":', "}")):
        text_ = opened * 100_000 + closed * 100_000
        for name in ("deep.json", "deep.jsonl"):
            assert outcome(tmp_path / name, text_.encode()) is None


def test_a_line_of_a_gigabyte_is_passed_over_without_holding_it(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    RICH.write(path)
    lines = path.read_bytes().splitlines(keepends=True)
    with path.open("wb") as file:
        file.writelines(lines[:2])
        file.write(b'{"type":"user","sessionId":"')
        file.seek(2**30, 1)  # a hole, which takes no room on the disk
        file.write(b'"}\n')
        file.writelines(lines[2:])
    with pytest.warns(ReadWarning, match=r"long\.jsonl:3: a line of more than 67,108,864 bytes; skipped"):
        assert [run.n_steps for run in read_logs(path).runs] == [2, 1]


def test_a_document_of_a_gigabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.write(b'[{"task_id": 1, "traj": [')
        file.seek(2**30)
        file.write(b"]}]")
    with pytest.raises(RunFormatError, match=r"1,073,741,827 bytes, more than the 536,870,912 that are read"):
        read_logs(path)
