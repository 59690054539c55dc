"""Every real sample, against numbers that were counted apart from the readers."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from boolab.core.run import Run
from boolab.errors import ReadWarning, RunFormatError
from boolab.logs.fields import Head
from boolab.logs.load import read_logs
from boolab.logs.log_files import HEAD, head_of, readers, recognise
from boolab.logs.near_misses import is_companion
from tests.logs.readers.expected import EXPECTED, Expected
from tests.support.samples import FOLDER, OWN, shared

DECIDED: Final[Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "agent-sessions/claude/small.jsonl": (
        {"turns": 3},
        (
            "a collection of kinds of lines, no session: two have an agentId and are no side chain, as no real log "
            "has; the third run is that of the lines whose session's id is trimmed"
        ),
    ),
    "agent-sessions/codex/small.jsonl": (
        {"turns": 2},
        "a prompt that stands only in an event opens a turn as well, as newer rollouts tell of some prompts",
    ),
    "openhands-sdk/sdk/conversation/goal/fixtures/events.jsonl": (
        {"input_tokens": 71_283, "output_tokens": 377},
        "the statistics grow by what each response took; the log's own per_turn_token says the same",
    ),
    "openhands/tests/runtime/trajs/basic.json": (
        {"errors": 0},
        "OpenHands tells of an edit that failed by another kind of observation, or by a text that begins with ERROR:",
    ),
    "openhands/tests/runtime/trajs/wrong_initial_state.json": ({"errors": 0}, "the same of a read"),
}
"""Where the reader and the count apart from it differed, and the reader was right: what it says, and why."""

CASES: Final = "wild"
"""A folder of small cases that are expected to be read otherwise: they have a check of their own."""

REFUSED: Final = "openhands-sdk/fixtures/llm_data/llm-logs/"
"""Logs of single requests, each of which repeats the ones before: a folder of them would count steps many times."""


def total(values: list[int | None]) -> int | None:
    """The sum; None if one of them is unknown."""
    return None if None in values else sum(value or 0 for value in values)


def counted(path: str, format_: str | None, runs: tuple[Run, ...]) -> Expected:
    """What the reader found, in the table's terms."""
    steps = [step for run in runs for step in run.steps]
    results = [result for step in steps for result in step.results]
    given = [result for result in results if result is not None]
    labels = [run.success for run in runs]
    return Expected(
        path,
        format_,
        len(runs),
        len(steps),
        len(given),
        total([None if result.is_error is None else int(result.is_error) for result in given]),
        results.count(None),
        sum(len({step.turn for step in run.steps}) for run in runs),
        total([step.response.usage.input_tokens for step in steps]),
        total([step.response.usage.output_tokens for step in steps]),
        None if all(label is None for label in labels) else labels.count(True),
    )


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: row.path)
def test_a_sample_is_read_as_it_was_counted(row: Expected) -> None:
    path = shared(row.path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        if row.note.startswith("belongs to") and row.path.endswith(".compaction.json"):
            assert read_logs(path).runs == ()
            return
        if row.format is None or row.path.startswith(REFUSED):
            with pytest.raises(RunFormatError) as caught:
                read_logs(path)
            assert caught.value.path == str(path)
            assert "failed (" not in caught.value.message
            return
        reading = read_logs(path)
    decided, _ = DECIDED.get(row.path, ({}, ""))
    assert counted(row.path, reading.files[0].format, reading.runs) == row._replace(note="", **decided)


TAKEN: Final = {
    "agent-sessions/opencode/storage_v2/": "opencode",  # parts of a session, which its reader tells apart
    "cline/": "cline",  # a copy of a session
    "inspect/": "inspect",  # a pointer of Git LFS
    "tau-bench/": "tau_bench",  # few-shot texts
}
"""Whose reader takes what is no log of its own, to say what it is."""


def takers(path: Path) -> set[str]:
    """The formats that take a file for theirs by its beginning."""
    with path.open("rb") as file:
        head = Head(file.read(HEAD), path)
    names = {name for name, reader in readers().items() if reader.sniff(head)}
    assert {reader.NAME for reader in recognise(head)} == names  # its signs rule none of them out
    return names


@pytest.mark.parametrize("row", EXPECTED, ids=lambda row: row.path)
def test_a_sample_is_taken_by_its_own_format_alone(row: Expected) -> None:
    found = takers(shared(row.path))
    if row.format is None:
        assert found <= {format_ for place, format_ in TAKEN.items() if row.path.startswith(place)}
    else:
        assert found == {row.format}


@pytest.mark.parametrize("name", sorted({path.name for path in OWN.iterdir()} & {*readers()}))
def test_so_are_the_small_ones(name: str) -> None:
    for path in (OWN / name).rglob("*"):
        if path.is_file() and not is_companion(str(path), head_of(path)):
            assert takers(path) == {name}, path


def test_every_sample_is_in_the_table() -> None:
    if not FOLDER.exists():
        pytest.skip("the sample logs are not here")
    there = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    assert {name for name in there if not name.startswith(f"{CASES}/")} == {row.path for row in EXPECTED}


COPY = "inspect/tests/log/test_eval_log/log_formats.json"
"""The evaluation of the archive beside it, as JSON."""


def test_reading_all_samples_equals_the_sum_of_readable_files() -> None:
    """One call for a folder of many formats: what is refused stops nothing."""
    folder = shared("")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)
        reading = read_logs([place for place in sorted(folder.iterdir()) if place.is_dir() and place.name != CASES])
    read = {Path(row.path).relative_to(folder).as_posix(): row.runs for row in reading.files if row.skipped is None}
    wanted = {row.path: row for row in EXPECTED if row.format is not None and not row.path.startswith(REFUSED)}
    runs = {path: DECIDED.get(path, ({}, ""))[0].get("runs", row.runs) for path, row in wanted.items()}
    assert runs[COPY] == 1
    runs[COPY] = 0
    assert {path: n for path, n in read.items() if n or path in runs} == runs
    counted = (row.steps or 0 for row in wanted.values() if row.path != COPY)
    assert sum(run.n_steps for run in reading.runs) == sum(counted)
