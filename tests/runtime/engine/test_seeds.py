"""Each request of a run has a seed of its own, and a branch goes on with those of the run that was not disturbed."""

import asyncio
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.runtime.engine.seeds import request_seed
from boolab.runtime.models.base import Request
from tests.support.cases import cases
from tests.support.helpers import TOOLS, Listening, distinct, letter, play

Seeds = dict[tuple[str, int], int | None]


def seeds_of(model: Listening) -> Seeds:
    """The seeds of the requests of one run."""
    seeds: Seeds = {(request.purpose, request.index): request.seed for request in model.requests}
    assert len(seeds) == len(model.requests)
    return seeds


@cases(50)
@given(st.integers(), st.integers(0, 10_000))
def test_a_seed_of_any_size_gives_seeds_of_31_bits(seed: int, index: int) -> None:
    found = request_seed(seed, "step", index)
    assert found is not None
    assert 0 <= found < 2**31
    assert found == request_seed(seed, "step", index)
    assert found not in (request_seed(seed, "step", index + 1), request_seed(seed, "summary", index))


def test_no_two_requests_of_a_run_have_one_seed() -> None:
    model = Listening(distinct(30), summary="so far")
    compaction = bl.Compaction(at_tokens=20, keep_steps=1)
    run = play(model, policy="boocode", max_steps=20, compaction=compaction, seed=7)
    seeds = seeds_of(model)
    assert {purpose for purpose, _ in seeds} == {"step", "summary", "compaction"}
    assert len(set(seeds.values())) == len(seeds)
    assert {request.run_seed for request in model.requests} == {run.seed} == {7}


def test_without_a_seed_no_request_has_one() -> None:
    model = Listening(distinct(3), summary="so far")
    play(model, policy="boocode", max_steps=2)
    assert set(seeds_of(model).values()) == {None}


@pytest.mark.parametrize("name", sorted(bl.policies))
def test_a_branch_goes_on_with_the_seeds_of_the_run(name: str) -> None:
    items = [*distinct(3, end=None), {"tool_calls": [letter("A")]}, {"tool_calls": [letter("x")]}, *distinct(3)]
    whole = Listening(items, summary="so far")
    agent = bl.Agent("tester", tools=TOOLS, policy=name)
    run = bl.run_sync(agent, "go", model=whole, seed=11)
    expected = seeds_of(whole)
    for at in range(1, min(run.n_steps, 4)):
        branch = Listening(items[at:], summary="so far")
        asyncio.run(bl.branch(run, at, model=branch, agent=agent, seed=11))
        found = seeds_of(branch)
        assert found
        assert found.items() <= expected.items()


class Drawing:
    """A model that draws its calls from the request's seed, as a server does that honours it."""

    name = "drawing"

    async def respond(self, request: Request, emit: Any = None) -> bl.models.Response:
        draw = Random(request.seed).randrange(4)  # noqa: S311 - a draw, no secret
        return bl.models.Response("", (bl.models.ToolCall("c", "look", f'{{"what": "{draw}"}}'),))


def test_a_server_that_honours_the_seed_makes_no_doom_loop() -> None:
    calls = [
        [step.response.tool_calls[0].arguments for step in play(Drawing(), max_steps=40, seed=seed).steps]
        for seed in range(5)
    ]
    equal = sum(one == other for run in calls for one, other in pairwise(run))
    assert 0.1 < equal / sum(len(run) - 1 for run in calls) < 0.4  # by chance a quarter


def test_settings_of_a_sweep_share_seeds_and_repeats_do_not() -> None:
    model = Listening(distinct(9))
    runs = asyncio.run(
        bl.sweep(
            bl.Agent("a", tools=TOOLS), ["one", "two"], lambda _cell: model, grid={"max_steps": [2, 3]}, repeats=2,
            progress=False, concurrency=1,
        )
    )  # fmt: skip
    assert len({run.seed for run in runs}) == 4
    first = {request.seed for request in model.requests if request.index == 0}
    assert len(first) == 4
    assert len({request.seed for request in model.requests if request.purpose == "step"}) == 4 * max(
        run.n_steps for run in runs
    )


def test_a_recording_holds_the_runs_seed_and_answers_by_request(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    run = play(bl.record(bl.ScriptedModel(distinct(3)), path), seed=7)
    assert '"seed":7' in path.read_text().replace(" ", "")
    assert play(bl.RecordedModel(path, match="request"), seed=7).steps == run.steps
    other = play(bl.RecordedModel(path, match="request"), seed=8)
    assert other.stop_reason == "error"
