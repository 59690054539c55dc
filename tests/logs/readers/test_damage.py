"""Damaged logs, cut or changed at any byte: what comes of it is runs and warnings, or a `RunFormatError`."""

import random
import warnings
from pathlib import Path

import pytest

import boolab as bl
from tests.fuzz.log_targets import samples
from tests.logs.readers.expected import EXPECTED
from tests.support.cases import first
from tests.support.growing import BRANCHED, LOGS, encoded
from tests.support.readers import only, reader_of
from tests.support.samples import FOLDER

BINARY = (".eval", ".parquet")
_EVERY = 40
"""How many bytes lie between two places at which a log is cut."""

REAL = [row.path for row in EXPECTED if row.format is not None and (FOLDER / row.path).exists()]


def outcome(path: Path, data: bytes) -> list[bl.Run] | None:
    """The runs, or None for a `RunFormatError`; anything else fails the test."""
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", bl.errors.ReadWarning)
        try:
            runs: list[bl.Run] | None = list(bl.read_logs(path).runs)
        except bl.errors.RunFormatError as error:
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


@pytest.mark.parametrize("name", first(20, REAL))
def test_a_real_log_cut_or_changed_anywhere(name: str, tmp_path: Path) -> None:
    """Twice each, at places that depend on its name alone; samples of our own are what is fuzzed."""
    path, data, chance = tmp_path / Path(name).name, (FOLDER / name).read_bytes(), random.Random(name)  # noqa: S311
    for _ in range(2):
        outcome(path, data[: chance.randrange(len(data))])
        changed = bytearray(data)
        for _ in range(chance.randint(1, 8)):
            changed[chance.randrange(len(data))] = chance.randrange(256)
        outcome(path, bytes(changed))


@pytest.mark.parametrize(
    ("form", "name"),
    [("claude_code", "rich.jsonl"), ("tau_bench", "tau-bench-tiny-airline.json"), ("atif", "own.jsonl")],
)
@pytest.mark.parametrize("begin", first(1, range(0, 3 * _EVERY, _EVERY)))
def test_a_log_cut_at_any_byte_has_no_more_steps(form: str, name: str, begin: int, tmp_path: Path) -> None:
    whole, path = samples(form)[name], tmp_path / name
    complete = outcome(path, whole)
    assert complete
    for size in range(begin, len(whole), 3 * _EVERY):
        runs = outcome(path, whole[:size])
        assert runs is None or sum(run.n_steps for run in runs) <= sum(run.n_steps for run in complete)


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    for opened, closed in (("[", "]"), ('{"messages":', "}")):
        text = opened * 100_000 + closed * 100_000
        for name in ("deep.json", "deep.jsonl"):
            assert outcome(tmp_path / name, text.encode()) is None


def test_a_document_of_a_gigabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.write(b'[{"task_id": 1, "traj": [')
        file.seek(2**30)
        file.write(b"]}]")
    with pytest.raises(bl.errors.RunFormatError, match=r"1,073,741,827 bytes, more than the 536,870,912 that are read"):
        bl.read_logs(path)
    path.unlink()  # the canary would read all of it


@pytest.mark.parametrize("name", BRANCHED)
def test_damage_in_a_log_that_is_read_twice_is_told_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    first, *lines = map(encoded, LOGS[name](20))
    path.write_bytes(b"".join([first, b"{damaged\n", *lines, b"[]\n"]))
    found: list[str] = []
    run = only(reader_of(name)(path, found.append))
    assert [warning.partition(": ")[0] for warning in found] == [f"{path}:2", f"{path}:{len(lines) + 3}"]
    assert 1 < run.n_steps < 20
