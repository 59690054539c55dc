"""Calls whose arguments are not on record: unknown in every format, so that they neither repeat nor differ."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from boolab.core.types import REDACTED
from tests.support.project import ROOT

SAMPLES = {
    "claude_code": ("claude_code/3a3a3a3a-1111-4222-8333-555555555555.jsonl", "input"),
    "codex": ("codex/rollout-commands.jsonl", "arguments input action"),
    "pi": ("pi/branches.jsonl", "arguments"),
    "tau2_bench": ("tau2_bench/results.json", "arguments"),
    "tau_bench": ("tau_bench/tau-bench-tiny-airline.json", "arguments"),
    "agentdojo": ("agentdojo/runs/tiny-1/office/user_task_0/important_instructions/injection_task_2.json", "args"),
    "mini_swe_agent": ("mini_swe_agent/tool-calls.traj.json", "arguments"),
    "atif": ("atif/harbor.json", "arguments"),
    "inspect": ("inspect/old.json", "arguments"),
    "copilot": ("copilot/session-state/44440000-0000-4000-8000-000000000001/events.jsonl", "arguments"),
    "droid": ("droid/stream.jsonl", "parameters"),
    "kimi": ("kimi/sessions/wd_shed/session_5555aa01/agents/main/wire.jsonl", "args"),
    "qwen": ("qwen/chats/66660000-0000-4000-8000-000000000001.jsonl", "args"),
    "sts": ("sts/session.jsonl", "arguments"),
    "gemini": ("gemini/chats/session-2026-05-06T07-00-22220000.json", "args"),
    "openhands_sdk": ("openhands_sdk/clerk.jsonl", "arguments action"),
}


def without(value: Any, names: Collection[str]) -> Any:
    """The value without the fields of these names, at any depth."""
    if isinstance(value, list):
        return [without(one, names) for one in value]
    if isinstance(value, dict):
        return {key: without(one, names) for key, one in value.items() if key not in names}
    return value


@pytest.mark.parametrize("source", SAMPLES)
def test_calls_without_arguments_are_unknown(source: str, tmp_path: Path) -> None:
    place, names = SAMPLES[source]
    sample = (ROOT / "tests" / "data" / place).read_text()
    documents = [json.loads(line) for line in sample.splitlines()] if place.endswith("l") else [json.loads(sample)]
    path = tmp_path / Path(place).name
    path.write_text("\n".join(json.dumps(without(document, names.split())) for document in documents))
    runs = bl.read_logs(path, format=source, progress=False).runs
    calls = [call for run in runs for step in run.steps for call in step.response.tool_calls]
    assert calls
    assert {call.arguments for call in calls} == {REDACTED}


TEXTS = {"codex", "tau_bench", "mini_swe_agent", "openhands_sdk", "sts"}
"""The formats of the samples whose arguments are a text of JSON, as in OpenAI's API."""


def blank(value: Any, names: Collection[str], empty: str) -> Any:
    """The value with an empty text in the fields of these names, at any depth."""
    if isinstance(value, list):
        return [blank(one, names, empty) for one in value]
    if isinstance(value, dict):
        return {key: empty if key in names else blank(one, names, empty) for key, one in value.items()}
    return value


@pytest.mark.parametrize("source", SAMPLES)
def test_empty_arguments_are_none_only_as_a_text_of_json(source: str, tmp_path: Path) -> None:
    place, names = SAMPLES[source]
    sample = (ROOT / "tests" / "data" / place).read_text()
    documents = [json.loads(line) for line in sample.splitlines()] if place.endswith("l") else [json.loads(sample)]
    path = tmp_path / Path(place).name
    for empty in ("", " \n"):
        path.write_text("\n".join(json.dumps(blank(document, names.split(), empty)) for document in documents))
        runs = bl.read_logs(path, format=source, progress=False).runs
        pairs = [
            pair
            for run in runs
            for step in run.steps
            for pair in zip(step.response.tool_calls, step.results, strict=True)
        ]
        assert pairs
        if source in TEXTS:  # other calls of Codex have an input or an action
            assert {call.arguments for call, _ in pairs} - {REDACTED} == {"{}"}
            assert source == "codex" or {call.arguments for call, _ in pairs} == {"{}"}
        else:
            assert {call.arguments for call, _ in pairs} == {REDACTED}
        assert not any(result is not None and result.parse_error for _, result in pairs)


@pytest.mark.parametrize("arguments", [{}, {"arguments": ""}, {"arguments": None}])
def test_swe_agent_has_the_arguments_in_its_action(arguments: dict[str, Any], tmp_path: Path) -> None:
    sample = ROOT / "tests/data/swe_agent/function-calling.traj"
    document = json.loads(sample.read_text())
    for message in document["history"]:
        for call in message.get("tool_calls") or ():
            call["function"].pop("arguments")
            call["function"] |= arguments
    path = tmp_path / "a.traj"
    path.write_text(json.dumps(document))
    (plain,), (run,) = (bl.load_runs(one) for one in (sample, path))
    calls = [[call for step in one.steps for call in step.response.tool_calls] for one in (plain, run)]
    assert [(call.id, call.name) for call in calls[0]] == [(call.id, call.name) for call in calls[1]]
    actions = [entry["action"] for entry in document["trajectory"] if entry["action"]]
    assert {json.loads(call.arguments)["command"] for call in calls[1]} <= set(actions)
    assert plain.n_tool_calls == run.n_tool_calls
