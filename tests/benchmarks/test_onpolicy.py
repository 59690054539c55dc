"""The study of live runs: what is missing is recorded, and a live run that differs is found."""

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import boolab as bl
from benchmarks import onpolicy
from benchmarks.onpolicy_runs import ARMS, LOOSE, RECORDINGS, Arm, Recorder, runs_of
from boolab.core.types import Response, ToolCall
from boolab.runtime.models.base import Request
from boolab.runtime.tasks.families import FAMILIES, TaskFamily

SIZES = {"recorded": 6, "equality": 3, "informed": 2, "nudges": 2, "learned": 0, "branches": 0, "draws": 2}


class Chance:
    """A model that calls or answers by the seed of the request, as a real one does."""

    name = "chance"

    def __init__(self, family: TaskFamily) -> None:
        (self._argument,) = family.tool.parameters["required"]
        self._values = family.tool.parameters["properties"][self._argument]["enum"]
        self._tool, self._answer = family.tool.name, family.answer

    async def respond(self, request: Request, emit: object = None) -> Response:
        """One call, or at times the answer."""
        chance = random.Random(request.seed)  # noqa: S311 - no secret
        if request.purpose != "step" or chance.random() < 0.1:
            return Response(self._answer)
        arguments = json.dumps({self._argument: chance.choice(self._values[:2])})
        return Response("", (ToolCall(f"call_{request.index}", self._tool, arguments),))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(Recorder, "_model", lambda _self, arm, _stack: Chance(arm.family))
    return tmp_path


def record(folder: Path, **sizes: int) -> Recorder:
    recorder = Recorder(folder, {**SIZES, **sizes})
    asyncio.run(recorder.record())
    return recorder


def test_a_second_start_records_what_is_missing(folder: Path) -> None:
    none = dict.fromkeys(SIZES, 0)
    first = record(folder, **{**none, "recorded": 2})
    assert first.remaining()[0] == 0
    seen = {run.run_id for run in runs_of(folder, "fix")}
    more = Recorder(folder, {**none, "recorded": 4})
    assert more.remaining()[0] == 2 * len(RECORDINGS)
    asyncio.run(more.record())
    assert len(runs_of(folder, "fix")) == 4
    assert seen < {run.run_id for run in runs_of(folder, "fix")}


@pytest.mark.slow
def test_live_runs_are_what_the_recording_says_of_each_setting(folder: Path) -> None:
    record(folder)
    rows = [*onpolicy.equality(folder)]
    assert len(rows) == sum(bool(arm.question) for arm in ARMS)
    assert [(row.what, row.figure) for row in rows] == [(row.what, 3) for row in rows]


def test_a_live_run_that_differs_is_counted_and_named() -> None:
    family = FAMILIES["fix"]
    options: dict[str, Any] = {"model": Chance(family), "tools": [family.tool], "score": family.succeeded}
    runs = [bl.run_sync(family.agent(), family.task_of(n), seed=n, **options) for n in (1, 2)]
    cut = [bl.run_sync(family.agent(max_steps=3), run.task, seed=run.seed, **options) for run in runs]
    other = replace(cut[1], steps=cut[1].steps[:-1], success=True)
    outcomes = onpolicy.compare(runs, [cut[0], other], grid={"max_steps": [3]})
    assert all(outcomes[0])
    assert outcomes[1] == (False, False, True, False)


@pytest.mark.parametrize("arm", [arm for arm in ARMS if arm.size == "informed"], ids=lambda arm: arm.name)
def test_informed_runs_differ_in_words_about_the_limit_only(arm: Arm) -> None:
    policy = arm.settings.get("policy", bl.policies["boocode"])
    assert set(policy.seen) <= {"last_step", "reminder"}
    assert arm.settings["max_steps"] < LOOSE


@pytest.mark.slow
def test_all_tables_are_made_of_the_runs_that_there_are(folder: Path) -> None:
    assert [*rows_of(folder)] == []
    record(folder, informed=3, nudges=6)
    made = dict(rows_of(folder))
    assert {"recordings", "equality", "coverage", "informed", "stopped"} <= set(made)
    assert all(row.detail for rows in made.values() for row in rows)


def rows_of(folder: Path) -> Iterator[tuple[str, list[Any]]]:
    for name, part in onpolicy.tables_of(folder, draws=2).items():
        rows = [*part]
        if rows:
            yield name, rows
