"""Budgets of fresh and of weighted tokens."""

from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.types import Response, Usage
from boolab.limits.token_count import FRESH, TokenCount
from tests.support.cases import cases

WEIGHTS = {"input": 1, "cached": 0.1, "written": 1.25, "output": 5}
NUMBERS = st.integers(0, 10_000)
USAGES = st.builds(
    lambda fresh, cached, written, output: Usage(
        fresh + cached + written, output, cached, cache_write_tokens=written
    ),
    NUMBERS, NUMBERS, NUMBERS, NUMBERS,
)  # fmt: skip
SOME = st.fixed_dictionaries({name: st.sampled_from([0, 0.1, 0.5, 1, 1.25, 5, 8]) for name in WEIGHTS})


def counted(count: TokenCount, usages: list[Usage]) -> int | None:
    state: Any = count.start
    n: int | None = 0
    for usage in usages:
        state, n = count.close(state, Response(usage=usage))
    return n


@cases(100)
@given(st.lists(USAGES, max_size=6), SOME)
def test_weights_add_up_exactly_whatever_the_order(usages: list[Usage], weights: dict[str, float]) -> None:
    exact = {name: Fraction(str(weight)) for name, weight in weights.items()}
    total = Fraction(0)
    for usage in usages:
        entered, cached, written = usage.input_tokens or 0, usage.cached_tokens or 0, usage.cache_write_tokens or 0
        total += exact["input"] * (entered - cached - written) + exact["cached"] * cached
        total += exact["written"] * written + exact["output"] * (usage.output_tokens or 0)
    count = TokenCount.from_weights(weights)
    assert counted(count, usages) == counted(count, usages[::-1]) == int(total)


@cases(50)
@given(st.lists(USAGES, max_size=6))
def test_equal_weights_count_all_tokens(usages: list[Usage]) -> None:
    all_tokens = sum((u.input_tokens or 0) + (u.output_tokens or 0) for u in usages)
    assert counted(TokenCount.from_weights(dict.fromkeys(WEIGHTS, 1)), usages) == all_tokens


def test_fresh_tokens_are_codex_weights_of_one() -> None:
    """openai/codex pull request 28494: output and input that is not cached."""
    assert counted(FRESH, [Usage(1000, 50, 900), Usage(1200, 10, 1000, cache_write_tokens=150)]) == 150 + 210
    assert TokenCount.from_weights({"input": 1, "output": 1}) == FRESH


def test_unknown_cached_tokens_make_the_count_unknown() -> None:
    assert counted(FRESH, [Usage(1000, 50)]) is None
    assert counted(TokenCount.from_weights({"cached": 1, "output": 5}), [Usage(1000, 50)]) == 1250
    assert counted(FRESH, [Usage(1000, 50, 900), Usage()]) is None


def test_contradicting_numbers_count_no_less_than_zero() -> None:
    assert counted(FRESH, [Usage(10, 5, 40)]) == 5


def test_weights_are_named_in_full_and_kept_as_given() -> None:
    rule = bl.max_tokens(9, of="weighted", weights={"input": 0.1, "output": 2.5}, on_unknown="ignore")
    assert str(rule) == "max_tokens(9, weighted, input=0.1,cached=0,written=0.1,output=2.5, on_unknown=ignore)"
    (count,) = rule.detectors()
    assert count.weights == {"input": 0.1, "cached": 0, "written": 0.1, "output": 2.5}  # type: ignore[attr-defined]


def test_a_monitor_stops_where_the_live_loop_does() -> None:
    rule = bl.max_tokens(100, of="weighted", weights=WEIGHTS)
    monitor = bl.Monitor(rule)
    usage = {"input_tokens": 10, "output_tokens": 5, "cached_tokens": 4, "cache_write_tokens": 2}
    while (verdict := monitor.after([("look", {})], ["a"], usage)).action != "stop":
        pass
    script = [{"tool_calls": [{"name": "look"}], "usage": usage}] * 9
    live = bl.run_sync(None, "go", model=bl.ScriptedModel(script), stop=rule)
    assert verdict.stop == live.stop
    assert (live.stop.reason, live.stop.step, live.stop.value) == ("token_budget", 4, 127)
