"""Session traces in the simple format of the Hugging Face Hub."""

import json
from pathlib import Path

import pytest

from boolab.core.types import UNKNOWN_USAGE, Usage
from boolab.errors import RunFormatError
from boolab.logs.load import load_runs, read_logs
from tests.support.readers import fates, only, reader_of, write_lines
from tests.support.samples import own

read = reader_of("sts")
SAMPLE = "sts/session.jsonl"
# The example of huggingface.co/docs/hub/session-traces-format.
EXAMPLE = [
    {"type": "session", "harness": "my-agent", "id": "abc123", "name": "what time is it"},
    {"type": "message", "message": {"role": "user", "content": "what time is it?"}},
    {
        "type": "message",
        "message": {
            "role": "assistant",
            "content": "",
            "toolCalls": [{"id": "t1", "function": {"name": "get_time", "arguments": "{}"}}],
        },
    },
    {"type": "message", "message": {"role": "tool", "toolCallId": "t1", "content": "2026-07-01T15:00:00Z"}},
    {"type": "message", "message": {"role": "assistant", "content": "it is 15:00 UTC"}},
]


def test_a_message_of_the_assistant_is_a_step() -> None:
    (run,) = load_runs(own(SAMPLE))
    assert (run.run_id, run.agent, run.model, run.task) == (
        "88880000-0000-4000-8000-000000000001", "gardener", "acme-1", "Prune the rose",
    )  # fmt: skip
    assert [step.turn for step in run.steps] == [1, 1, 2]
    assert run.steps[0].response.reasoning == "Which rose?"
    assert fates(run) == [[None, None], [], ["dropped"]]
    assert [step.start_ms for step in run.steps] == [1000, 5000, 10_000]
    assert run.stop.reason == "aborted"


def test_usage_is_read_where_a_writer_added_it() -> None:
    (run,) = load_runs(own(SAMPLE))
    assert [step.response.usage for step in run.steps] == [UNKNOWN_USAGE, Usage(40, 5), UNKNOWN_USAGE]


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    (row,) = read_logs(write_lines(tmp_path / "a.jsonl", *EXAMPLE)).files
    assert (row.format, row.runs) == ("sts", 1)
    run = only(load_runs(tmp_path / "a.jsonl"))
    assert (run.run_id, run.agent, run.n_steps, run.n_tool_calls, run.stop.reason) == (
        "abc123",
        "my-agent",
        2,
        1,
        "finished",
    )


def test_a_session_of_pi_that_names_its_harness_stays_one_of_pi(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in own("pi/branches.jsonl").read_text().splitlines()]
    write_lines(tmp_path / "a.jsonl", {**lines[0], "harness": "mine"}, *lines[1:])
    assert [row.format for row in read_logs(tmp_path / "a.jsonl").files] == ["pi"]


def test_other_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="a session trace of the Hub is"):
        read(write_lines(tmp_path / "a.jsonl", {"type": "session", "id": "x"}))
