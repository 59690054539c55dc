"""Tokens that were written to the cache: of each response, as its log has them."""

import json
from pathlib import Path

import pytest

import boolab as bl
from tests.support.project import ROOT

Figures = list[tuple[int | None, int | None]]


def figures(path: Path) -> list[Figures]:
    """The input and the written tokens of the steps of each run."""
    runs = bl.read_logs(path, progress=False, prices=False).runs
    usages = [[step.response.usage for step in run.steps] for run in runs]
    return [[(usage.input_tokens, usage.cache_write_tokens) for usage in of_run] for of_run in usages]


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        ("pi/branches.jsonl", [(1205, 1200), (1298, 90), (1334, 40), (1354, 60), (300, 0)]),
        ("opencode/export.json", [(140, 10), (60, 0), (50, 0), (30, 0), (None, None)]),
        ("inspect/stocktake.json", [(110, 30), (200, None), (220, None), (240, None)]),
        ("anthropic_messages/conversation.json", [(120, 100), (159, 0), (5, None), (5, None)]),
    ],
)
def test_cache_writes_of_a_sample_are_read(sample: str, expected: Figures) -> None:
    assert figures(ROOT / "tests/data" / sample)[0] == expected


@pytest.mark.parametrize(
    "name", ["gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens"]
)
def test_cache_writes_of_a_span_are_read(name: str, tmp_path: Path) -> None:
    usage = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 5, name: 400}
    attributes = [{"key": key, "value": {"intValue": str(value)}} for key, value in usage.items()]
    attributes.append({"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}})
    span = {"traceId": "t", "spanId": "b", "name": "chat", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{**span, "attributes": attributes}]}]}]}))
    assert figures(path) == [[(410, 400)]]


def test_cache_writes_survive_a_file_of_boolab(tmp_path: Path) -> None:
    runs = bl.load_runs(ROOT / "tests/data/pi/branches.jsonl", prices=False)
    path = tmp_path / "runs.jsonl"
    bl.save_runs(runs, path)
    assert bl.load_runs(path)[0].steps == runs[0].steps
