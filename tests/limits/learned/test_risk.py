"""The models of a learned rule, and its detector."""

import pickle
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.types import Response, ToolCall, ToolResult
from boolab.limits.ladder import Watch
from boolab.limits.learned.features import DEFAULT
from boolab.limits.learned.models import BILLION, LinearModel, Tree, TreeModel, score_of
from boolab.limits.learned.rule import LearnedRisk
from tests.limits.test_detector_folds import STEPS, Steps
from tests.support.cases import cases

RANDOM = random.Random(1)  # noqa: S311 - chance is no secret here
LINEAR = LinearModel(
    DEFAULT, tuple(RANDOM.gauss(0, 0.5) for _ in DEFAULT), 0.1, tuple(RANDOM.random() for _ in DEFAULT)
)


def random_tree(depth: int) -> Tree:
    if not depth:
        return RANDOM.gauss(0, 1)
    return RANDOM.randrange(len(DEFAULT)), RANDOM.random(), random_tree(depth - 1), random_tree(depth - 1)


TREES = TreeModel(DEFAULT, tuple(random_tree(3) for _ in range(20)), -0.2, LINEAR.unknown)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_score_rises_with_log_odds_within_its_range(a: float, b: float) -> None:
    low, high = score_of(min(a, b)), score_of(max(a, b))
    assert 0 <= low <= high <= BILLION


def test_a_value_that_is_not_known_counts_as_its_mean() -> None:
    for model in (LINEAR, TREES):
        values: list[float | None] = [*model.unknown]
        expected = model.log_odds(values)
        assert model.log_odds([None] * len(values)) == expected


@pytest.mark.parametrize("model", [LINEAR, TREES], ids=["linear", "trees"])
@cases(40)
@given(STEPS)
def test_the_score_does_not_depend_on_what_comes_later(model: LinearModel | TreeModel, steps: Steps) -> None:
    risk = LearnedRisk(model)

    def scores(until: int) -> list[int | None]:
        watch, counts, out = Watch([risk]), dict[str, int | None](), list[int | None]()
        for response, results in steps[:until]:
            watch.complete(response, results, counts)
            out.append(counts[risk.name])
        return out

    whole = scores(len(steps))
    assert all(scores(n) == whole[:n] for n in range(len(steps)))
    assert all(score is not None and 0 <= score <= BILLION for score in whole)


def test_looking_ahead_does_not_change_the_score() -> None:
    watch, counts, risk = Watch([LearnedRisk(LINEAR)]), dict[str, int | None](), LearnedRisk(LINEAR)
    response = Response("", (ToolCall("1", "ls", "{}"),))
    watch.complete(response, [ToolResult("1", "x")], counts)
    before = dict(counts)
    watch.counts_after(response)
    watch.counts_ahead(response, response.tool_calls)
    watch.complete(Response("?"), [], counts)
    again, others = Watch([risk]), dict[str, int | None]()
    again.complete(response, [ToolResult("1", "x")], others)
    assert before == others
    again.complete(Response("?"), [], others)
    assert counts == others


def test_equal_models_are_equal_detectors_and_have_one_name() -> None:
    risk, again = LearnedRisk(TREES), LearnedRisk(TREES)
    assert risk == again
    assert hash(risk) == hash(again)
    assert risk.name == again.name != LearnedRisk(LINEAR).name
    copied = pickle.loads(pickle.dumps(risk))  # noqa: S301 - our own
    assert copied == risk
    assert copied.name == risk.name


def test_a_fitted_rule_imports_neither_numpy_nor_pydantic_models() -> None:
    code = (
        "import sys, boolab.limits.learned.rule; "
        "print([name for name in ('numpy', 'pandas', 'pydantic', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_learned_rule_stops_where_its_score_reaches_threshold() -> None:
    model = LinearModel(("calls_streak",), (2.0,), -2.0, (0.7,))
    rule = bl.detectors.stop_when(LearnedRisk(model), 600_000_000)
    look = {"tool_calls": [{"name": "ls"}]}
    run = bl.run_sync(None, "Look", model=bl.ScriptedModel([{**look, "repeat": 9}, "Done."]), stop=rule)
    assert (run.stop_reason, run.stop_step) == ("stuck", 3)
    assert run.stop.value == score_of(-2 + 2 * 1.3862943611198906)
