"""Many rules at once, as arrays: the same as `counterfactual` gives row by row."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import MICRO
from boolab.errors import SettingError
from boolab.whatif import rule_matrix as module
from boolab.whatif.evaluate import counterfactual
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.rule_matrix import rule_matrix, run_costs
from tests.stats.test_scorecard import run_of
from tests.support.cases import cases
from tests.whatif.test_evaluate import LIMITS, MAKE, sessions
from tests.whatif.test_families import Family, Script, scripts_of

MANY = cases(250, suppress_health_check=list(HealthCheck))


@st.composite
def any_rules(draw: st.DrawFn) -> list[bl.StopRule]:
    """Some rules: thresholds, some of them joined by `|`, and now and then by `&`."""

    def leaf() -> bl.StopRule:
        name = draw(st.sampled_from(sorted(LIMITS)))
        made: bl.StopRule = MAKE[name](draw(LIMITS[name]))
        return made

    def rule() -> bl.StopRule:
        kind = draw(st.sampled_from(["leaf", "leaf", "or", "and", "both"]))
        if kind == "leaf":
            return leaf()
        if kind == "or":
            return leaf() | leaf()
        return leaf() & leaf() if kind == "and" else leaf() | (leaf() & leaf())

    rules = [rule() for _ in range(draw(st.integers(1, 6)))]
    return [*{str(one): one for one in rules}.values()]


def assert_as_rows(runs: list[Run], rules: list[bl.StopRule], scope: Any) -> None:
    detectors = [detector for rule in rules for detector in rule.detectors()]
    ledger = ledger_of(runs, detectors, scope).apply_own_limits()
    found = rule_matrix(ledger, [*rules, None])
    table = counterfactual(runs, rules=rules, scope=scope)
    for place, rule in enumerate(rules):
        rows = table[table["rule"] == str(rule)]
        success = rows["success"].fillna(value=False).to_numpy(dtype=bool)
        for name in ("kept_lower", "kept_upper"):
            assert getattr(found, name)[:, place][success].tolist() == (rows[name][success] == 1).tolist(), name
            assert not getattr(found, name)[:, place][~success].any()
        assert found.saved_steps[:, place].tolist() == rows["saved_steps"].tolist()
        assert found.unknown[:, place].tolist() == (rows["outcome"] == "unknown").tolist()
        expected = rows["saved_cost_usd"].to_numpy(np.float64, na_value=np.nan)
        np.testing.assert_allclose(found.saved_cost[:, place], expected)
    assert not found.saved_steps[:, -1].any()
    assert (found.kept_lower[:, -1] == (ledger.success == 1)).all()


@MANY
@given(st.data())
def test_rule_matrix_equals_counterfactual_for_sessions(data: Any) -> None:
    runs = [data.draw(sessions(number)) for number in range(data.draw(st.integers(1, 4)))]
    assert_as_rows(runs, data.draw(any_rules()), data.draw(st.sampled_from(["turn", "run"])))


def test_rule_matrix_equals_counterfactual_at_turn_ends() -> None:
    """A stop at the end of the first of two turns, and one after the last call of the last turn."""
    runs = [run_of("A B | C", True, task="two"), run_of("A B C", True, task="one")]
    rules = [bl.max_steps(n) for n in range(1, 5)] + [bl.tool_budget(n) for n in range(1, 4)]
    for scope in ("turn", "run"):
        assert_as_rows(runs, rules, scope)


@cases(20, suppress_health_check=list(HealthCheck))
@given(script=scripts_of(2), rules=any_rules())
def test_rule_matrix_equals_counterfactual_for_families(script: Script, rules: list[bl.StopRule]) -> None:
    assert_as_rows(Family(script).run({}), rules, "auto")


@MANY
@given(st.data())
def test_the_cost_of_a_run_is_known_if_that_of_all_its_steps_is(data: Any) -> None:
    run = data.draw(sessions())
    costs = [step.response.usage.cost for step in run.steps]
    [found] = run_costs(ledger_of([run]))
    assert np.isnan(found) == (None in costs)
    if not np.isnan(found):
        assert round(found * MICRO) == sum(filter(None, costs))


def test_too_many_runs_and_rules_are_refused_with_what_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = [bl.run_sync(None, "x", model=bl.ScriptedModel(["y"])) for _ in range(2)]
    monkeypatch.setattr(module, "MAX_CELLS", 10)
    with pytest.raises(SettingError, match="2 runs under 6 settings are too many at once: .* so 5 settings"):
        rule_matrix(ledger_of(runs).apply_own_limits(), [bl.max_steps(n) for n in range(1, 7)])
