"""The fits against other implementations of the same."""

import numpy as np
import pytest
from scipy import optimize  # type: ignore[import-untyped] # scipy has no types

from boolab.limits.learned.models import TreeModel
from boolab.stats.intervals import Array
from boolab.stats.learn.fit import (
    PENALTIES,
    calibration_of,
    fit_logistic,
    fit_model,
    fit_trees,
    moments,
    penalty_of,
)
from boolab.stats.learn.table import feature_table, log_odds_of
from tests.limits.learned.test_risk import LINEAR, TREES
from tests.support.labelled_runs import labelled_runs

RNG = np.random.default_rng(5)
VALUES = RNG.normal(size=(600, 4)) * [1, 3, 0.1, 1] + [0, 2, 5, 1]
FAILED = (RNG.random(600) < 1 / (1 + np.exp(-VALUES[:, 0] - 0.2 * VALUES[:, 1]))).astype(float)
WEIGHTS = RNG.random(600)
TASKS = np.arange(600) // 3
NAMES = ("a", "b", "c", "d")


@pytest.mark.parametrize("penalty", PENALTIES)
def test_logistic_fit_maximises_the_penalised_likelihood(penalty: float) -> None:
    model = fit_logistic(VALUES, FAILED, WEIGHTS, NAMES, penalty)
    mean, scale = moments(VALUES, WEIGHTS)
    x = (VALUES - mean) / scale

    def loss(beta: Array, penalty: float) -> float:
        eta = beta[0] + x @ beta[1:]
        return float(WEIGHTS @ (np.logaddexp(0, eta) - FAILED * eta) + penalty * beta[1:] @ beta[1:] / 2)

    found = optimize.minimize(loss, np.zeros(5), penalty, method="BFGS").x
    assert np.array(model.weights) * scale == pytest.approx(found[1:], abs=1e-4)
    assert model.log_odds(mean.tolist()) == pytest.approx(found[0], abs=1e-4)


def test_penalty_is_weaker_when_features_are_informative() -> None:
    noise = np.random.default_rng(1).normal(size=VALUES.shape)
    assert penalty_of(VALUES, FAILED, WEIGHTS, TASKS) < penalty_of(noise, FAILED, WEIGHTS, TASKS)


def test_unknown_values_count_as_mean_and_constants_weigh_zero() -> None:
    values = VALUES.copy()
    values[:, 2] = np.nan
    values[:, 3] = 7
    values[::5, 0] = np.nan
    model = fit_logistic(values, FAILED, WEIGHTS, NAMES, 10.0)
    assert model.weights[2:] == (0, 0)
    known = ~np.isnan(values[:, 0])
    assert model.unknown[0] == pytest.approx(np.average(values[known, 0], weights=WEIGHTS[known]))


def test_calibration_makes_mean_estimate_equal_failure_share() -> None:
    log_odds = 3 * VALUES[:, 0] - 1
    slope, intercept = calibration_of(log_odds, FAILED, WEIGHTS)
    estimate = 1 / (1 + np.exp(-(slope * log_odds + intercept)))
    assert slope > 0
    assert WEIGHTS @ estimate == pytest.approx(WEIGHTS @ FAILED, rel=0.01)
    few = calibration_of(log_odds[:20], FAILED[:20], WEIGHTS[:20])[0]
    assert abs(few - 1) < abs(slope - 1)


def test_an_estimate_that_tells_nothing_keeps_its_order() -> None:
    log_odds = VALUES[:, 3] - FAILED
    slope, intercept = calibration_of(log_odds, FAILED, WEIGHTS)
    assert slope == 0.05
    estimate = 1 / (1 + np.exp(-(slope * log_odds + intercept)))
    assert WEIGHTS @ estimate == pytest.approx(WEIGHTS @ FAILED, rel=0.01)


def test_exported_trees_give_what_scikit_learn_gives() -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = fit_trees(VALUES, FAILED, WEIGHTS, NAMES, seed=3)
    fitted = ensemble.GradientBoostingClassifier(
        n_estimators=60,
        learning_rate=0.1,
        max_depth=2,
        subsample=0.5,
        max_features="sqrt",
        min_weight_fraction_leaf=0.02,
        random_state=3,
    ).fit(VALUES, FAILED, sample_weight=WEIGHTS)
    assert log_odds_of(model, VALUES) == pytest.approx(fitted.decision_function(VALUES), abs=1e-6)


def test_whole_tables_and_single_steps_have_the_same_log_odds() -> None:
    values = np.abs(RNG.normal(size=(50, len(LINEAR.features))))
    values[RNG.random(values.shape) < 0.1] = np.nan
    for model in (LINEAR, TREES):
        one_by_one = [model.log_odds([None if np.isnan(v) else v for v in row]) for row in values.tolist()]
        assert log_odds_of(model, values).tolist() == one_by_one


@pytest.mark.parametrize("estimator", ["logistic", "trees"])
def test_a_fit_ranks_runs_that_fail_above_those_that_do_not(estimator: str) -> None:
    table = feature_table(labelled_runs(80), ("steps", "calls_new_share", "error_share"), (), "auto", "task")
    half = table.task % 2 == 0
    model = fit_model(table, half, estimator, 0)
    scores = table.scores(model)[table.boundary & ~half[table.run]]
    failed = ~table.success[table.run][table.boundary & ~half[table.run]]
    pairs = scores[failed][:, None] - scores[~failed][None, :]
    assert (pairs > 0).mean() + (pairs == 0).mean() / 2 > 0.65
    assert isinstance(model, TreeModel) == (estimator == "trees")


def test_each_run_weighs_one_and_failures_weigh_by_savings() -> None:
    table = feature_table(labelled_runs(20), ("steps",), (), "auto", "task")
    everything = np.ones(table.n_runs, dtype=bool)
    weights, stakes = table.weights(everything), table.stakes(everything)
    assert np.bincount(table.run, weights) == pytest.approx(np.ones(table.n_runs))
    failed = ~table.success[table.run]
    assert stakes[~failed].tolist() == weights[~failed].tolist()
    assert stakes[failed].sum() == pytest.approx(weights[failed].sum())
    rows = np.flatnonzero(failed & table.boundary)
    rate = stakes[rows] / (weights[rows] * table.after[rows])
    assert rate == pytest.approx(rate[0])
