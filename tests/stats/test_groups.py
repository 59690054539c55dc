"""Which columns separate runs, and how their groups share the error."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import kruskal  # type: ignore[import-untyped] # scipy has no types

import boolab as bl
from benchmarks import recommendations as bench
from boolab.core.run import Run
from boolab.limits.detectors.streaks import RepeatStreak
from boolab.stats.kept_share import tasks_missing
from boolab.stats.recommend.groups import (
    agent_columns,
    chance_of_equal_lengths,
    shared_errors,
    split_columns,
    task_sizes,
)
from boolab.stats.recommend.units import grouped_units, units_of_ledger
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.step_table import Ledger
from tests.stats.test_recommend import LOOPS, plain, run_of
from tests.support.cases import first
from tests.support.samples import atlas


def units_of(runs: list[Run]) -> Ledger:
    return units_of_ledger(ledger_of(runs, [RepeatStreak()]), None)


def of_model(model: str, n: int, length: int, *, n_failed: int = 0) -> list[Run]:
    """Runs of one model, whose lengths vary a little."""
    return [
        replace(run_of(0, "abcdefghijklmnopqrstuvwxyz"[: length + i % 3], success=i >= n_failed), model=model,
                run_id=f"{model}-{i}", task=f"{model}-{i}")
        for i in range(n)
    ]  # fmt: skip


def parts_of(groups: list[Ledger], keep: float) -> list[float]:
    """The part of the error of each group, at 95% confidence."""
    return shared_errors([sizes for units in groups for sizes in task_sizes(units, [])], keep, 0.05)


# --- The error --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", first(10, range(40)))
@pytest.mark.parametrize("keep", [0.9, 0.95])
def test_parts_of_the_error_that_are_tested_add_up_to_it_at_most(seed: int, keep: float) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.choice([0, 5, 30, 45, 60, 80, 120, 300], int(rng.integers(1, 7)))
    groups = [units_of([*plain(int(n)), run_of(9000, "ab", success=False)]) for n in sizes]
    errors = parts_of(groups, keep)
    could_pass = [n >= tasks_missing([], [], keep, error) for n, error in zip(sizes, errors, strict=True)]
    assert sum(error for error, passes in zip(errors, could_pass, strict=True) if passes) <= 0.05 + 1e-12
    assert all(0 < error <= 0.05 for error in errors)
    if len(set(sizes.tolist())) == len(sizes) and len(sizes) < 6:
        by_size = dict(zip(sizes.tolist(), errors, strict=True))
        for order in list(permutations(range(len(groups))))[:12]:
            again = parts_of([groups[index] for index in order], keep)
            assert again == [by_size[int(sizes[index])] for index in order]


def test_groups_that_cannot_pass_take_nothing_from_the_others() -> None:
    groups = [units_of(plain(n)) for n in (150, 20, 40)]
    large, small, other = parts_of(groups, 0.95)
    assert large == 0.05
    assert small == other == 0.025  # what it would have with enough runs
    assert parts_of([groups[0], groups[0]], 0.95) == [0.025, 0.025]


def test_decisions_of_groups_do_not_depend_on_the_order_of_runs() -> None:
    runs = [*of_model("a", 120, 4, n_failed=9), *of_model("b", 90, 14, n_failed=9), *of_model("c", 30, 4)]
    found = [bl.recommend(some, keep=0.9, objective="steps").frame for some in (runs, runs[::-1])]
    there, back = (frame.set_index("model").sort_index() for frame in found)
    chosen = ["action", "reason", "candidate", "error", "kept_lower", "kept_bound", "saved", "p_value", "next_lost"]
    pd.testing.assert_frame_equal(there[chosen], back[chosen])


@given(st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=40), min_size=2, max_size=6))
def test_chance_of_equal_lengths_is_that_of_scipy(parts: list[list[int]]) -> None:
    assume(len({length for part in parts for length in part}) > 1)
    ours = chance_of_equal_lengths([np.array(part) for part in parts])
    assert ours == pytest.approx(kruskal(*parts).pvalue, abs=1e-12)


# --- The columns ------------------------------------------------------------------------------------------------------


def test_models_whose_runs_differ_in_length_are_kept_apart() -> None:
    runs = [*of_model("a", 80, 4, n_failed=5), *of_model("b", 80, 14, n_failed=5)]
    found = bl.recommend(runs, keep=0.9, objective="steps")
    assert found.keys == ("model",)
    assert [group.names for group in found.groups] == [("a",), ("b",)]
    assert found["error"].tolist() == [pytest.approx(0.025)] * 2
    together = bl.recommend(runs, keep=0.9, objective="steps", by=[])
    assert (together.keys, len(together.groups)) == ((), 1)
    assert together["error"][0] == pytest.approx(0.05)


def test_models_of_like_length_and_small_ones_are_kept_together() -> None:
    alike = [*of_model("a", 80, 4), *of_model("b", 80, 4)]
    assert bl.recommend(alike, keep=0.9).keys == ()
    little_longer = [*of_model("a", 400, 14), *of_model("b", 400, 15)]
    assert split_columns(units_of(little_longer), 0.9, 0.05) == []
    small = [*of_model("a", 200, 4), *of_model("b", 19, 20)]
    assert split_columns(units_of(small), 0.9, 0.05) == []
    too_few = [*of_model("a", 25, 4), *of_model("b", 25, 20)]
    assert split_columns(units_of(too_few), 0.9, 0.05) == []
    assert split_columns(units_of(too_few), 0.8, 0.05) == ["model"]
    many = [run for n in range(13) for run in of_model(f"m{n}", 30, 4 + n)]
    assert split_columns(units_of(many), 0.8, 0.05) == []


@pytest.mark.parametrize("seed", first(2, range(20)))
def test_outcomes_do_not_decide_which_runs_are_kept_apart(seed: int) -> None:
    """As long as each model has as many successes: what counts of them is whether a group could pass at all."""
    rng = np.random.default_rng(seed)
    longer = float(rng.choice([1.0, 1.2, 1.4, 2.0]))
    runs = []
    for model, factor in (("a", 1.0), ("b", longer), ("c", 1.0)):
        for i in range(60):
            n = max(1, int(rng.geometric(0.1) * factor))
            calls = "".join(chr(97 + k % 26) for k in range(min(n, 60)))
            runs.append(
                replace(run_of(i, calls, success=i < 45), model=model, run_id=f"{model}{i}", task=f"{model}{i}")
            )
    keys = bl.recommend(runs, keep=0.9, objective="steps").keys
    for _ in range(3):
        labels: dict[str, list[bool | None]] = {
            model: rng.permutation([bool(run.success) for run in runs if run.model == model]).tolist()
            for model in "abc"
        }
        permuted = [replace(run, success=labels[run.model].pop()) for run in runs]
        assert bl.recommend(permuted, keep=0.9, objective="steps").keys == keys


def test_agents_and_sets_are_always_kept_apart() -> None:
    runs = [*plain(5), *(replace(run, agent="b", run_id=f"b{run.run_id}") for run in plain(5))]
    assert bl.recommend(runs).keys == ("agent",)
    assert bl.recommend(plain(5)).keys == ()
    frame = pd.DataFrame({"agent": ["x", "x"], "source": ["codex", "cline"]})
    assert agent_columns(frame) == ["source"]
    assert agent_columns(frame.assign(agent=["x", "y"])) == ["agent"]
    assert agent_columns(pd.DataFrame({"agent": list("xyxy"), "source": list("ccdd")})) == ["source", "agent"]


@pytest.mark.slow
def test_groups_of_intercode_sql_save_more_than_one_for_all() -> None:
    """The example of pooled models: one limit for all keeps 92.5% of the successes of gpt-4."""
    runs = atlas("intercode-sql")
    found, pooled = bl.recommend(runs), bl.recommend(runs, by=[])
    assert found.keys == ("model",)
    assert len(found.groups) == 7
    kept, saved = (sum(found.frame[name].astype(int)) for name in ("kept_lower", "saved"))
    assert kept >= pooled["kept_lower"][0] - 0.05 * 4401
    assert saved > pooled["saved"][0]
    tight = bl.recommend(runs, by=[], grid={"max_steps": [7], "doom_loop": [3]}, success_value=1.0)
    assert ("model", "gpt-4", 705, 762) in tight.groups[0].broken


# --- The promise of all groups together -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["2 models, 3 times as long", "4 models, all small"])
def test_promises_to_groups_are_broken_in_few_records(name: str) -> None:
    """Of 100 records, 12 or more have a chance of 0.4%, at 5%."""
    world = next(world for world in bench.WORLDS if world.name == name)
    whole = world.draw(np.random.default_rng(0), 20_000)
    (verdict, *_) = bench.judge(name, world.draw, world.tasks, whole, 100, keeps=(0.9,))
    assert verdict.answers > 50
    assert verdict.broken < 12


def test_each_group_is_decided_on_at_its_part_of_the_error() -> None:
    runs = [*of_model("a", 120, 4, n_failed=9), *of_model("b", 120, 14, n_failed=9), *LOOPS]
    found = bl.recommend(runs, keep=0.9, objective="steps", by="model").frame.set_index("model")
    for (model,), part in grouped_units(units_of(runs), ["model"]):
        own = [run for run in runs if run.model == model]
        assert part.n_runs == len(own)
        error = float(found.loc[model, "error"])
        alone = bl.recommend(own, keep=0.9, confidence=1 - error, objective="steps", by=[]).frame.iloc[0]
        for column in ("action", "candidate", "kept_lower", "kept_bound", "saved", "p_value", "more_needed"):
            assert str(found.loc[model, column]) == str(alone[column])
