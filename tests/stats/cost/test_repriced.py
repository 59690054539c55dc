"""`repriced` and `worst_case`: recorded tokens at other prices, and what a setting bounds."""

from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.run import Run
from boolab.core.types import Event, Usage
from boolab.errors import SettingError
from tests.support.billed_runs import billed_run, billed_step, priced_usage

SONNET, HAIKU, OPUS = "claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-5"
COUNTS = st.integers(0, 300_000)


def run_of(*models: str, usage: Usage | None = None) -> Run:
    """A run with a step for each model."""
    used = priced_usage(20_000, 500, read=8_000, hour=2_000, five=4_000) if usage is None else usage
    return billed_run(*(billed_step(index, used, model=model) for index, model in enumerate(models, 1)))


@given(
    st.lists(st.tuples(st.sampled_from((SONNET, HAIKU, "gpt-5-mini", "unlisted")), COUNTS, COUNTS, COUNTS), max_size=4)
)
def test_its_own_model_gives_the_computed_bill(steps: list[tuple[str, int, int, int]]) -> None:
    listed = [
        billed_step(
            n, Usage(max(context, read), output, read, cache_write_tokens=max(context, read) - read), model=name
        )
        for n, (name, context, output, read) in enumerate(steps, 1)
    ]
    run = billed_run(*listed)
    bill = bl.bills_df(run)["computed_usd"][0]
    for frame in (bl.repriced(run), bl.repriced(run, model={name: name for name, *_ in steps})):
        known = frame["repriced_usd"].notna().all() and len(frame) > 0
        assert known == (not pd.isna(bill))
        assert not known or frame["repriced_usd"].sum() == pytest.approx(bill, abs=1e-9)
        pd.testing.assert_series_equal(frame["list_usd"], frame["repriced_usd"], check_names=False)


def test_another_model_prices_each_request() -> None:
    frame = bl.repriced(run_of(HAIKU, OPUS, usage=Usage(10_000, 1_000, 0)), model=SONNET)
    assert frame["priced_as"].tolist() == [SONNET, SONNET]
    assert frame["list_usd"].tolist() == pytest.approx([0.015, 0.075])
    assert frame["repriced_usd"].tolist() == pytest.approx([0.045, 0.045])
    assert "arithmetic" in frame.attrs["caveat"]


def test_the_steps_that_a_branch_kept_are_priced_once() -> None:
    run = run_of(SONNET, SONNET)
    branch = replace(run, run_id="branch", events=(Event(None, "branch", {"step": 1, "kept": 1}),))
    assert len(bl.repriced([run, branch])) == 3
    assert bl.repriced([run, branch])["list_usd"].sum() == pytest.approx(bl.cost_by([run, branch])["total_usd"].sum())


def test_models_are_replaced_by_step() -> None:
    frame = bl.repriced(run_of(HAIKU, OPUS, HAIKU), model={OPUS: HAIKU})
    assert frame["priced_as"].tolist() == [HAIKU] * 3
    assert frame["model"].tolist() == [HAIKU, OPUS, HAIKU]
    assert len(frame["repriced_usd"].unique()) == 1


def test_the_speed_of_a_model_is_not_that_of_another() -> None:
    run = run_of(OPUS, SONNET)
    fast = run.steps[0]._replace(response=run.steps[0].response._replace(speed="fast"))
    frame = bl.repriced(replace(run, steps=(fast, run.steps[1])), model=SONNET)
    assert len(frame["repriced_usd"].unique()) == 1


@pytest.mark.parametrize(
    ("cache", "dollars"),
    [
        (None, (8_000 * 0.3 + 2_000 * 6 + 4_000 * 3.75 + 6_000 * 3 + 500 * 15) / 1e6),
        ("none", (20_000 * 3 + 500 * 15) / 1e6),
        ("5m", (8_000 * 0.3 + 6_000 * 3.75 + 6_000 * 3 + 500 * 15) / 1e6),
        ("1h", (8_000 * 0.3 + 6_000 * 6 + 6_000 * 3 + 500 * 15) / 1e6),
    ],
)
def test_the_cache_may_be_priced_in_another_way(cache: str | None, dollars: float) -> None:
    frame = bl.repriced(run_of(SONNET), cache=cache)  # type: ignore[arg-type]
    assert frame["repriced_usd"].tolist() == pytest.approx([dollars])


def test_a_model_without_a_price_has_a_reason() -> None:
    frame = bl.repriced(run_of(SONNET), model="unlisted")
    assert frame["repriced_usd"].isna().all()
    assert frame["why"].tolist() == ["no list price is known of the model"]
    assert frame["list_usd"].notna().all()


def test_repriced_refuses_other_arguments() -> None:
    with pytest.raises(SettingError, match="cache='2h': expected 'none', '5m', '1h', or None"):
        bl.repriced(run_of(SONNET), cache="2h")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="expected model= too"):
        bl.repriced(run_of(SONNET), provider="openai")


def test_recommend_refuses_repriced_tokens() -> None:
    with pytest.raises(SettingError, match="arithmetic on recorded tokens, and no cost of any run"):
        bl.recommend(bl.repriced(run_of(SONNET), model=HAIKU))


def test_a_cap_bounds_as_many_of_the_dearest_requests() -> None:
    for setting in ({"max_steps": 40, "tool_budget": 5, "max_cost": None}, bl.max_steps(40) | bl.tool_budget(5)):
        dollars = bl.worst_case(setting, SONNET, window=100_000, max_output=8_000)
        assert dollars == pytest.approx(40 * (100_000 * 6 + 8_000 * 15) / 1e6)
    less = bl.worst_case({"max_steps": 40}, SONNET, window=100_000, compact_at=50_000, max_output=8_000)
    assert less == pytest.approx(40 * (50_000 * 6 + 8_000 * 15) / 1e6)


def test_window_and_response_are_those_of_the_price_table() -> None:
    assert bl.worst_case({"max_steps": 1}, SONNET) == bl.worst_case(
        {"max_steps": 1}, SONNET, window=200_000, max_output=200_000
    )
    with pytest.raises(SettingError, match="no list price is known of unlisted"):
        bl.worst_case({"max_steps": 1}, "unlisted")


def test_long_requests_have_the_dearest_rate_below_their_length() -> None:
    short, long = (bl.worst_case({"max_steps": 1}, SONNET, window=n, max_output=0) / n for n in (200_000, 200_001))
    assert long == pytest.approx(2 * short, rel=1e-4)


def test_a_limit_on_cost_bounds_itself_and_one_request() -> None:
    request = bl.worst_case({"max_steps": 1}, SONNET, window=10_000, max_output=1_000)
    assert bl.worst_case({"max_cost": 0.15}, SONNET, window=10_000, max_output=1_000) == pytest.approx(0.15 + request)
    both = bl.worst_case({"max_cost": 5, "max_steps": 2}, SONNET, window=10_000, max_output=1_000)
    assert both == pytest.approx(2 * request)


def test_a_hard_limit_on_cost_bounds_itself_for_any_model() -> None:
    hard = bl.max_cost(0.15, hard=True)
    assert bl.worst_case(hard, "unlisted") == 0.15
    assert bl.worst_case(hard | bl.max_steps(40), SONNET, window=10_000, max_output=1_000) == 0.15
    assert bl.worst_case(hard | bl.max_steps(1), SONNET, window=10_000, max_output=1_000) == pytest.approx(0.075)


@pytest.mark.parametrize(
    "setting", [{}, {"tool_budget": 5}, {"max_steps": None}, bl.doom_loop(3), bl.max_steps(5) & bl.error_streak(3)]
)
def test_other_settings_bound_no_cost(setting: dict[str, float | None] | bl.StopRule) -> None:
    with pytest.raises(SettingError, match="the setting bounds no cost"):
        bl.worst_case(setting, SONNET)
