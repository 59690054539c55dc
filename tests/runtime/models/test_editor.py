"""The simulated agent that reads a file again only if it no longer sees it in its prompt."""

from __future__ import annotations

import asyncio
import json
import pickle
from itertools import pairwise

import pytest

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import ToolResult
from boolab.runtime.models.base import validate_response

AGENT = bl.Agent("editor", max_steps=400, tool_budget=None, doom_loop=None)


def edit_files(seed: int = 0, at_tokens: int | None = None, keep_steps: int = 1, run_seed: int | None = None) -> Run:
    compaction = None if at_tokens is None else bl.Compaction(at_tokens=at_tokens, keep_steps=keep_steps)
    return bl.run_sync(AGENT, "Rename", model=bl.EditorModel(seed), compaction=compaction, seed=run_seed)


def calls_of(run: Run) -> list[tuple[str, str]]:
    calls = [call for step in run.steps for call in step.response.tool_calls]
    return [(call.name, json.loads(call.arguments)["file_path"]) for call in calls]


def test_it_reads_each_file_once_where_nothing_is_removed() -> None:
    run = edit_files()
    reads = [path for tool, path in calls_of(run) if tool == "Read"]
    assert len(reads) == len(set(reads))
    assert run.success is True
    assert run.n_steps == 60 + len(reads) + 1


@pytest.mark.parametrize("keep_steps", [1, 5])
def test_it_reads_again_exactly_what_it_no_longer_sees(keep_steps: int) -> None:
    run = edit_files(1, 40_000, keep_steps)
    kept_from = {compacted.before: compacted.kept_from for compacted in run.compactions}
    seen: dict[str, int] = {}
    for step, (tool, path) in zip(run.steps, calls_of(run), strict=False):
        first = kept_from.get(step.index, 1)
        seen = {name: number for name, number in seen.items() if number >= first}
        assert (tool == "Read") == (path not in seen)
        if tool == "Read":
            seen[path] = step.index
    assert len(kept_from) >= 3


def test_a_compaction_changes_none_of_its_edits() -> None:
    runs = [edit_files(2, at_tokens) for at_tokens in (None, 40_000, 60_000, 100_000)]
    edits = [[path for tool, path in calls_of(run) if tool == "Edit"] for run in runs]
    assert edits.count(edits[0]) == len(edits)
    assert [run.success for run in runs] == [True] * 4
    assert runs[1].n_steps > runs[2].n_steps > runs[0].n_steps


def test_its_cache_holds_the_exact_prefix_of_the_last_prompt() -> None:
    run = edit_files(3, 50_000)
    compacted = {compacted.before for compacted in run.compactions}
    assert compacted
    assert run.steps[0].response.usage.cached_tokens == 0
    for last, step in pairwise(run.steps):
        usage, last_input = step.response.usage, last.response.usage.input_tokens
        cached = 15_002 if step.index in compacted else last_input
        assert usage.cached_tokens == cached
        assert usage.cache_write_tokens == (usage.input_tokens or 0) - (cached or 0)
    for compaction in run.compactions:
        assert compaction.response is not None
        assert compaction.response.usage.output_tokens == 2_000
        before = run.steps[compaction.before - 3].response.usage
        assert (compaction.response.usage.cached_tokens or 0) >= (before.input_tokens or 0)


def test_the_same_seeds_give_the_same_run_beside_others() -> None:
    model = bl.EditorModel(4)
    alone = edit_files(4, 40_000, run_seed=7)
    first = bl.run_sync(AGENT, "Rename", model=model, seed=8)
    again = bl.run_sync(AGENT, "Rename", model=model, compaction=bl.Compaction(at_tokens=40_000), seed=7)
    assert (alone.steps, alone.compactions) == (again.steps, again.compactions)
    assert calls_of(first) != calls_of(again)
    assert calls_of(edit_files(5)) != calls_of(edit_files(4))


def test_a_branch_continues_with_the_plan_of_its_run() -> None:
    run = edit_files(6, 50_000, run_seed=1)
    cap = bl.Agent("editor", max_steps=30, tool_budget=None, doom_loop=None)
    start = bl.run_sync(cap, "Rename", model=bl.EditorModel(6), compaction=bl.Compaction(at_tokens=50_000), seed=1)
    options = {"model": bl.EditorModel(6), "agent": AGENT, "compaction": bl.Compaction(at_tokens=50_000), "seed": 1}
    branch = asyncio.run(bl.branch(start, 30, **options))  # type: ignore[arg-type] # by name
    assert branch.steps == run.steps


def test_without_tools_it_answers_in_text() -> None:
    run = bl.run_sync(bl.Agent("editor", max_steps=0), "Rename", model=bl.EditorModel())
    assert run.text == "0 edits of 60 are made."
    assert run.success is False


def test_a_call_of_another_path_fails() -> None:
    model, call = bl.EditorModel(0), bl.models.ToolCall("1", "Read", '{"file_path": "/etc/passwd"}')
    result = asyncio.run(model.reply(call, None))  # type: ignore[arg-type] # it does not read the context
    assert result == ToolResult("1", "There is no such file.", is_error=True)


def test_it_survives_pickling_with_its_fingerprint() -> None:
    model = bl.EditorModel(3, edits=5, name="other")
    copy = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own
    assert copy.fingerprint == model.fingerprint
    assert copy.name == "other"


@pytest.mark.parametrize("option", [{"seed": "1"}, {"edits": -1}, {"files": 0}, {"summary_tokens": 0}])
def test_it_refuses_numbers_that_are_not_valid(option: dict[str, object]) -> None:
    with pytest.raises(bl.errors.SettingError):
        bl.EditorModel(**option)  # type: ignore[arg-type] # the point


def test_its_responses_are_valid() -> None:
    run = edit_files(0, 40_000)
    assert {validate_response(step.response) for step in run.steps} == {""}
