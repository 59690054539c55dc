"""Tokens that were written to the cache: of each response, as its log has them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.types import Usage
from boolab.logs.readers import _opencode_session, atif, cline, inspect_ai, pi
from boolab.logs.readers._chat import usage_of
from boolab.logs.readers._claude_run import Reply
from boolab.logs.readers._openhands import Meter, usages_of
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


def _claude(fresh: int, read: int, written: int) -> Usage:
    reply = Reply(1, None)
    counted = {"input_tokens": fresh, "cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    reply.count(counted | {"output_tokens": 1})
    return reply.usage


def _openhands_sums(fresh: int, read: int, written: int) -> Usage:
    meter = Meter()
    for times in (1, 2):
        tokens = {"prompt_tokens": fresh + read + written, "completion_tokens": 1, "cache_read_tokens": read}
        sums = {name: times * number for name, number in {**tokens, "cache_write_tokens": written}.items()}
        usage = meter.read({"accumulated_token_usage": sums})
    return usage


def _openhands_list(fresh: int, read: int, written: int) -> Usage:
    tokens = {"prompt_tokens": fresh + read + written, "cache_read_tokens": read, "cache_write_tokens": written}
    return usages_of({"token_usages": [{"response_id": "r", "completion_tokens": 1, **tokens}]})["r"]


READERS: dict[str, Callable[[int, int, int], Usage]] = {
    "pi": lambda fresh, read, written: pi._usage(
        {"input": fresh, "cacheRead": read, "cacheWrite": written, "output": 1}
    ),
    "opencode": lambda fresh, read, written: _opencode_session._usage(
        {"input": fresh, "output": 1, "cache": {"read": read, "write": written}}, None
    ),
    "claude_code": _claude,
    "inspect": lambda fresh, read, written: inspect_ai._usage({
        "input_tokens": fresh, "output_tokens": 1, "total_tokens": fresh + read + written + 1,
        "input_tokens_cache_read": read, "input_tokens_cache_write": written,
    }),
    "atif 1.2": lambda fresh, read, written: atif._usage(
        {
            "prompt_tokens": fresh + read,
            "completion_tokens": 1,
            "cached_tokens": read,
            "extra": {"cache_creation_input_tokens": written},
        },
        excludes_written=True,
    ),
    "anthropic": lambda fresh, read, written: usage_of({
        "input_tokens": fresh, "output_tokens": 1, "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }),
    "gateway": lambda fresh, read, written: usage_of({
        "prompt_tokens": fresh + read + written, "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
    }),
    "cline": lambda fresh, read, written: cline._usage({
        "inputTokens": fresh + read + written, "outputTokens": 1, "cacheReadTokens": read, "cacheWriteTokens": written,
    }),
    "openhands, by sums": _openhands_sums,
    "openhands, by response": _openhands_list,
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
@given(fresh=st.integers(0, 10**6), read=st.integers(0, 10**6), written=st.integers(0, 10**6))
def test_input_is_what_is_fresh_read_and_written(name: str, fresh: int, read: int, written: int) -> None:
    assume(fresh + read + written > 0)
    usage = READERS[name](fresh, read, written)
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (
        fresh + read + written,
        read,
        written,
    )


@given(read=st.integers(1, 10**6), written=st.integers(0, 10**6))
def test_input_below_its_cached_tokens_excludes_them(read: int, written: int) -> None:
    tokens = {"prompt_tokens": read + written - 1, "completion_tokens": 1}
    usage = usage_of({**tokens, "cache_read_input_tokens": read, "cache_creation_input_tokens": written})
    assert usage.input_tokens == 2 * (read + written) - 1
