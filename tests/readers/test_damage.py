"""Damaged logs, cut or changed at any byte: what comes of it is runs and warnings, or a `RunFormatError`."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from boolab.errors import ReadWarning, RunFormatError
from boolab.reading import load_runs
from boolab.saving import save_runs
from boolab.types import Run
from tests.helpers import distinct, play
from tests.readers.claude import Session, call, text, usage

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

LOGS = ["claude.jsonl", "tau-airline.json", "own.jsonl"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    RICH.write(folder / "claude.jsonl")
    tiny = Path(__file__).resolve().parents[1] / "data" / "tau_bench" / "tau-bench-tiny-airline.json"
    (folder / "tau-airline.json").write_bytes(tiny.read_bytes())
    save_runs([play(distinct(3)), play(distinct(2, end=None))], folder / "own.jsonl")
    return {name: (folder / name).read_bytes() for name in LOGS}


def outcome(path: Path, data: bytes) -> list[Run] | None:
    """The runs, or None for a `RunFormatError`; anything else fails the test."""
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ReadWarning)
        try:
            runs: list[Run] | None = load_runs(path)
        except RunFormatError as error:
            refused = error
            runs = None
    if runs is None:
        assert refused.path == str(path)
        assert "failed (" not in refused.message, "a reader's own fault"
        return None
    for run in runs:
        assert isinstance(str(run), str)
        assert [step.index for step in run.steps] == list(range(1, run.n_steps + 1))
        assert all(len(step.results) == len(step.response.tool_calls) for step in run.steps)
    return runs


@pytest.mark.parametrize("name", LOGS)
def test_a_log_cut_at_any_byte(name: str, whole: dict[str, bytes], tmp_path: Path) -> None:
    complete = outcome(tmp_path / name, whole[name])
    assert complete
    for size in range(0, len(whole[name]), 7):
        runs = outcome(tmp_path / name, whole[name][:size])
        assert runs is None or sum(run.n_steps for run in runs) <= sum(run.n_steps for run in complete)


@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=6)), max_size=8))
def test_a_log_with_any_bytes_changed(
    name: str, whole: dict[str, bytes], tmp_path: Path, changes: list[tuple[float, bytes]]
) -> None:
    data = bytearray(whole[name])
    for where, put in changes:
        start = int(where * len(data))
        data[start : start + len(put)] = put
    outcome(tmp_path / name, bytes(data))


@pytest.mark.parametrize("name", LOGS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_log_with_values_of_other_kinds(
    name: str, whole: dict[str, bytes], tmp_path: Path, data: st.DataObject
) -> None:
    text_ = whole[name].decode()
    quoted = [i for i, char in enumerate(text_) if char == ":"]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(quoted))
        value = data.draw(st.sampled_from(["null", "[]", "{}", "1e400", "-1", '""', "true", "[[1]]", '{"a":{"b":[]}}']))
        end = place + 1
        depth = 0
        while end < len(text_) and (depth or text_[end] not in ",}]\n"):
            depth += (text_[end] in "[{") - (text_[end] in "]}")
            end += 1
        text_ = text_[: place + 1] + value + text_[end:]
        quoted = [i for i, char in enumerate(text_) if char == ":"]
    outcome(tmp_path / name, text_.encode())
