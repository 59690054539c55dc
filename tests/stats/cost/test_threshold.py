"""At what length of the context compaction costs least."""

from math import sqrt

import numpy as np
import pytest

import boolab as bl
from boolab.core.prices import Rates, RatesByLength
from boolab.core.run import Run
from boolab.core.types import REDACTED
from boolab.errors import SettingError
from boolab.stats.cost.allocated import allocate_runs
from boolab.stats.cost.policy_walk import walk_policy
from boolab.stats.cost.request_record import RequestRecord, record_of
from tests.support.billed_runs import RATES, billed_run, billed_step, priced_usage

LISTED = "claude-sonnet-4-5"
DOLLARS = 10_000 * 1e6
"""Rates to the dollar a token."""


def steady(n_steps: int = 40, growth: int = 2000, start: int = 10_000, run_id: str = "r") -> Run:
    """A run that grows by so many tokens a step, and never misses."""
    lengths = [start + growth * index for index in range(n_steps)]
    usages = [
        priced_usage(length, 100, read=0 if index == 0 else length - growth, five=length if index == 0 else growth)
        for index, length in enumerate(lengths)
    ]
    steps = [billed_step(index, usage, ("f", "y" * 6000), model=LISTED) for index, usage in enumerate(usages, 1)]
    return billed_run(*steps, run_id=run_id)


def quantities(found: bl.stats.Finding) -> dict[str, float]:
    return dict(zip(found["quantity"], found["value"], strict=True))


def test_the_threshold_is_that_of_the_law() -> None:
    found = bl.compaction_threshold(steady())
    read, write, output = (rate / DOLLARS for rate in (RATES.read, RATES.write_5m, RATES.output))
    start = 9990 + 6000
    compaction = 6000 * (output + write)
    expected = start + sqrt(2 * 2000 * (compaction + start * read) / read)
    assert found.threshold == pytest.approx(expected, rel=1e-3)
    values = quantities(found)
    assert values["growth"] == 2000
    assert values["compaction_usd"] == pytest.approx(compaction, rel=1e-3)
    assert values["resend_usd"] == pytest.approx(0.3, rel=1e-2)
    length = found.threshold
    pays = (compaction + length * read) / (read * (length - start))
    assert found.break_even_steps == int(pays) + 1


def first_steps(record: RequestRecord, n_steps: int) -> RequestRecord:
    """A record that goes on as its last request does, with constant rates."""
    rates = RatesByLength((), (Rates(*(rate * 10_000 for rate in RATES)),))
    requests = [request._replace(rates=rates) for request in record.requests]
    more = [requests[-1]._replace(step=step) for step in range(len(requests) + 1, n_steps + 1)]
    return record._replace(requests=(*requests, *more))


@pytest.mark.parametrize("growth", [500, 1500, 3000])
def test_a_walk_with_steady_growth_costs_what_the_law_says(growth: int) -> None:
    summary, base = 4000, 9990
    record = record_of(allocate_runs(steady(3, growth))[0])
    read, write, output = (rate * 10_000 for rate in (RATES.read, RATES.write_5m, RATES.output))
    start, compaction = base + summary, summary * (output + write)
    best = start + sqrt(2 * growth * (compaction + start * read) / read)
    thresholds = np.arange(20_000, 100_000, 5000)
    walked = []
    for threshold in map(int, thresholds):
        policy = bl.ContextPolicy(compact_at=threshold)
        n_cycle = (threshold - start) // growth + 1  # the requests between two compactions
        few, many = (walk_policy(first_steps(record, n), policy, summary).units for n in (200, 200 + 4 * n_cycle))
        walked.append((many - few) / (4 * n_cycle))
        highest = start + (n_cycle - 1) * growth
        resent = base + (n_cycle - 1) * (start + highest - growth) / 2 + highest
        law = (read * resent + compaction) / n_cycle
        assert walked[-1] == pytest.approx(law + growth * write + 100 * output, rel=1e-6)
    assert abs(thresholds[int(np.argmin(walked))] - best) <= 5000


def test_the_flat_range_costs_five_percent_more_at_its_ends() -> None:
    found = bl.compaction_threshold(steady())
    values = quantities(found)
    resend = values["resend_usd"] / 1e6

    def cost(length: float) -> float:
        order = values["growth"] * (values["compaction_usd"] + length * resend) / (length - values["start"])
        return resend * (values["start"] + length) / 2 + order

    least = cost(values["threshold"])
    assert [cost(values[end]) / least for end in ("range_low", "range_high")] == pytest.approx([1.05, 1.05])


def test_kept_steps_raise_the_threshold() -> None:
    assert bl.compaction_threshold(steady(), keep_steps=5).threshold > bl.compaction_threshold(steady()).threshold


def test_the_share_counts_runs_with_enough_further_steps() -> None:
    found = bl.compaction_threshold([steady(60), steady(5, run_id="short")])
    assert found.share_with_steps == 0.5
    assert "1 of 2 runs has so many" in str(found)
    interval = found.frame.set_index("quantity").loc["growth"]
    assert interval["low"] <= interval["value"] <= interval["high"]
    alone = bl.compaction_threshold(steady()).frame.set_index("quantity")
    assert alone.loc["threshold", ["low", "high"]].isna().all()


def test_arguments_are_not_needed() -> None:
    steps = []
    for step in steady().steps:
        call = step.response.tool_calls[0]._replace(arguments=REDACTED)
        steps.append(step._replace(response=step.response._replace(tool_calls=(call,))))
    assert bl.compaction_threshold(billed_run(*steps)).threshold == bl.compaction_threshold(steady()).threshold


def test_without_anything_to_compute_with_the_reason_is_named() -> None:
    with pytest.raises(SettingError, match="there are no runs"):
        bl.compaction_threshold([])
    step = billed_step(1, priced_usage(500, 5)._replace(cost=None))
    with pytest.raises(SettingError, match="price of a token is not known"):
        bl.compaction_threshold(billed_run(step))
    with pytest.raises(SettingError, match="do not grow"):
        bl.compaction_threshold(steady(4, 0))
