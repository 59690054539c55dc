"""What `gemini --output-format stream-json` prints."""

import json
from pathlib import Path
from typing import Any

import pytest

from boolab.core.run import Run
from boolab.core.types import UNKNOWN_USAGE, Stop
from boolab.errors import ReadWarning
from boolab.logs.load import load_runs
from tests.support.readers import fates, only, reader_of, write_lines
from tests.support.samples import own

read = reader_of("gemini")
SAMPLE = "gemini/stream.jsonl"
INIT = {"type": "init", "timestamp": "2026-05-06T08:00:00Z", "session_id": "s", "model": "m"}
USER = {"type": "message", "role": "user", "content": "go", "timestamp": "2026-05-06T08:00:01Z"}
USE = {"type": "tool_use", "tool_name": "ls", "tool_id": "c1", "parameters": {}}
RESULT = {"type": "tool_result", "tool_id": "c1", "status": "success", "output": "a"}
DONE = {"type": "result", "status": "success", "stats": {"tool_calls": 1}}


def says(words: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": words, "delta": True}


def runs(folder: Path, *lines: dict[str, Any]) -> list[Run]:
    return read(write_lines(folder / "a.jsonl", *lines))


def test_a_response_ends_where_results_follow() -> None:
    (run,) = load_runs(own(SAMPLE))
    assert (run.run_id, run.agent, run.model) == ("22220000-0000-7000-8000-000000000009", "gemini", "acme-pro")
    assert [step.response.text for step in run.steps] == ["I look.", "", "Twelve."]
    assert fates(run) == [[True, False], [False], []]
    assert (run.task, run.stop.reason, [step.turn for step in run.steps]) == ("Count the seeds", "finished", [1, 1, 1])
    assert [(step.start_ms, step.duration_ms) for step in run.steps] == [(100, 2400), (2500, 1800), (4300, 1600)]


def test_figures_of_the_run_are_an_event_and_of_no_response() -> None:
    (run,) = load_runs(own(SAMPLE))
    assert {step.response.usage for step in run.steps} == {UNKNOWN_USAGE}
    assert [dict(event.payload) for event in run.events] == [
        {"after_step": 3, "input_tokens": 300, "output_tokens": 30}
    ]


def test_what_stands_before_the_stream_is_left_out(tmp_path: Path) -> None:
    wrapper = {"type": "message", "role": "user", "content": "of the program that called it"}
    run = only(runs(tmp_path, wrapper, INIT, USER, USE, RESULT, says("x"), DONE))
    assert (run.task, run.n_steps) == ("go", 2)


def test_a_file_may_hold_several_runs(tmp_path: Path) -> None:
    first, second = runs(tmp_path, INIT, USER, says("x"), DONE, {**INIT, "session_id": "t"}, USER, USE)
    assert (first.run_id, first.stop.reason) == ("s", "finished")
    assert (second.run_id, second.stop.reason, fates(second)) == ("t", "aborted", [["dropped"]])


@pytest.mark.parametrize(
    ("lines", "end"),
    [
        ([{"type": "error", "severity": "warning", "message": "Loop detected, stopping execution"}, DONE],
         (Stop("doom_loop", 1, "loop detection"), None)),
        ([{"type": "error", "severity": "error", "message": "Maximum session turns exceeded"}, DONE],
         (Stop("step_cap", 1, "maxSessionTurns"), None)),
        ([{**DONE, "status": "error", "error": {"type": "FatalTurnLimitedError",
                                                "message": "Reached max session turns for this session."}}],
         (Stop("step_cap", 1, "maxSessionTurns"), None)),
        ([{**DONE, "status": "error", "error": {"type": "FatalCancellationError", "message": "Operation cancelled."}}],
         (Stop("aborted", 1), None)),
        ([{**DONE, "status": "error", "error": {"type": "Error", "message": "[API Error: no]"}}],
         (Stop("error", 1), "[API Error: no]")),
        ([says("x"), DONE], (Stop("finished", 1), None)),
        ([{"type": "error", "severity": "warning", "message": "Agent execution blocked"}, says("x"), DONE],
         (Stop("finished", 1), None)),
    ],
)  # fmt: skip
def test_the_result_says_how_a_run_ended(tmp_path: Path, lines: list[Any], end: tuple[Stop, str | None]) -> None:
    run = only(runs(tmp_path, INIT, USER, USE, RESULT, *lines))
    assert (run.stop, run.error) == end


def test_more_results_than_calls_that_it_states_are_told(tmp_path: Path) -> None:
    with pytest.warns(ReadWarning, match="stats.tool_calls states 0 results; 1 was read"):
        runs(tmp_path, INIT, USER, USE, RESULT, says("x"), {**DONE, "stats": {"tool_calls": 0}})


def test_a_stream_may_be_read_as_it_grows(tmp_path: Path) -> None:
    from boolab.io.json_input import Damage
    from boolab.logs.readers.gemini import follow

    log = follow(tmp_path / "a.jsonl", Damage(tmp_path / "a.jsonl"))
    texts = []
    for number, line in enumerate(json.loads(line) for line in own(SAMPLE).read_text().splitlines()):
        log.take(number, line)
        texts.append([step.response.text for run in log.runs() for step in run.steps])
    assert texts[3] == ["I look."]
    assert texts[-1] == ["I look.", "", "Twelve."]
