"""Who pays for what: the charges of a run add up to its bill, whatever the widths are."""

from collections import Counter
from dataclasses import replace
from functools import partial
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import boolab as bl
from boolab.core.allocation import PIECES, UNITS, Allocation, allocate, round_amounts, scaled_rates, zones_of
from boolab.core.messages import Input, Message, Text
from boolab.core.prompt_parts import Prompt, PromptPart, has_prompt, split_by_weight
from boolab.core.run import Compacted, Run, WrapUp
from boolab.core.types import Image, Response, Usage
from boolab.logs.list_prices import step_rates
from tests.support.billed_runs import (
    LONG,
    LONG_FROM,
    RATES,
    billed_run,
    billed_runs,
    billed_step,
    list_cost,
    priced_usage,
    rates_of,
)
from tests.support.cases import cases
from tests.support.samples import OWN, shared


def charged(allocation: Allocation) -> int:
    """What all causes pay together, in units."""
    return sum(sum(charge.units) for charge in allocation.charges)


class PaidPiece(NamedTuple):
    """Who pays: a part, the model of the requests, and the piece."""

    part: PromptPart
    model: str
    piece: str


def by_part(allocation: Allocation) -> Counter[PaidPiece]:
    """The units of each part, model and piece."""
    amounts: Counter[PaidPiece] = Counter()
    for charge in allocation.charges:
        for piece, units in zip(PIECES, charge.units, strict=True):
            amounts[PaidPiece(charge.part, charge.served.model, piece)] += units
    return amounts


def check_sums(run: Run, allocation: Allocation) -> None:
    """The sum over causes is the bill, in all and by request; no tokens and no money are negative."""
    costs = [step.response.usage.cost for step in run.steps]
    assert charged(allocation) == UNITS * sum(cost for cost in costs if cost is not None)
    for request in allocation.requests:
        cost = request.step.response.usage.cost
        assert (request.units is None) == (cost is None)
        assert request.units is None or (sum(request.units) == UNITS * (cost or 0) and min(request.units) >= 0)
        assert sum(request.tokens[1:]) == sum(request.zones) == request.step.response.usage.input_tokens
        assert min(request.tokens) >= 0
        assert (request.missed_tokens or 0) >= 0
        assert min((s.first_width for s in request.change.added), default=0) >= 0
    for charge in allocation.charges:
        assert min(charge.units) >= 0
        assert min(charge.tokens) >= 0
    for piece in range(4):
        in_requests = sum(request.tokens[piece] for request in allocation.requests)
        assert sum(charge.tokens[piece] for charge in allocation.charges) == in_requests


@cases(60)
@given(billed_runs())
def test_the_sum_over_causes_is_the_bill(run: Run) -> None:
    check_sums(run, allocate(run, rates_of))


@pytest.mark.filterwarnings("ignore::boolab.errors.ReadWarning")
@pytest.mark.parametrize("name", sorted(path.name for path in OWN.iterdir() if path.is_dir()))
def test_the_sum_over_causes_of_a_sample_is_its_bill(name: str) -> None:
    for run in bl.load_runs(OWN / name):
        check_sums(run, allocate(run, partial(step_rates, run=run)))


def walk_by_token(run: Run) -> Counter[PaidPiece]:
    """The same from a list with an owner for each token: what each pays in requests with known rates."""
    prompt, paid, number = Prompt(run), Counter[PaidPiece](), 0
    for step in run.steps:
        usage, rates = step.response.usage, rates_of(step)
        prompt.begin(step)
        if has_prompt(usage):
            prompt.advance(step, number, lambda _: None)
            owners = [segment for segment in prompt.segments for _ in range(segment.width)]
            zones, output = zones_of(usage), usage.output_tokens or 0
            assert len(owners) == usage.input_tokens
            if rates is not None and usage.cost is not None:
                scaled = scaled_rates(rates, zones, output, usage.cost)
                for place, owner in enumerate(owners):
                    if place < zones.read:
                        rate, again = scaled.read, "reread"
                    elif place < zones.read + zones.write_1h:
                        rate, again = scaled.write_1h, "rewrite"
                    elif place < zones.read + zones.write_1h + zones.write_5m:
                        rate, again = scaled.write_5m, "rewrite"
                    else:
                        rate, again = scaled.fresh, "rewrite"
                    if usage.cached_tokens is None:
                        again = "reread"
                    piece = "first" if owner.first_request == number else again
                    paid[PaidPiece(owner.part, step.response.model, piece)] += rate
            number += 1
        prompt.end(step)
    return paid


@cases(60)
@given(billed_runs())
def test_each_token_pays_by_its_place_in_the_prompt(run: Run) -> None:
    amounts = by_part(allocate(run, rates_of))
    of_prompt = {key: units for key, units in amounts.items() if units and key.piece != "output"}
    assert of_prompt == {key: units for key, units in walk_by_token(run).items() if units}


def test_an_aborted_response_without_tokens_is_no_compaction() -> None:
    usages = [priced_usage(20_000, 100, five=20_000), priced_usage(0, 0), priced_usage(21_000, 100, read=20_000)]
    allocation = allocate(billed_run(*(billed_step(n, usage) for n, usage in enumerate(usages, 1))), rates_of)
    assert [(request.step.index, request.change.event) for request in allocation.requests] == [(1, ""), (3, "")]
    assert allocation.unknown == 0


@cases(40)
@given(billed_runs(), st.randoms(use_true_random=False))
def test_permuting_results_within_a_step_changes_no_total(run: Run, chance: Random) -> None:
    steps = []
    for step in run.steps:
        order = list(range(len(step.results)))
        chance.shuffle(order)
        calls = tuple(step.response.tool_calls[place] for place in order)
        response = step.response._replace(tool_calls=calls)
        steps.append(step._replace(response=response, results=tuple(step.results[place] for place in order)))
    before, after = (allocate(of, rates_of) for of in (run, replace(run, steps=tuple(steps))))
    assert charged(before) == charged(after)
    assert [request.units for request in before.requests] == [request.units for request in after.requests]
    assert [request.tokens for request in before.requests] == [request.tokens for request in after.requests]


def test_a_read_head_pays_less_than_a_fresh_tail() -> None:
    first = billed_step(1, priced_usage(1000, 10, five=1000), ("read", "y" * 2000))
    second = billed_step(2, priced_usage(1500, 10, read=1000, five=500), ("bash", "z" * 2000))
    third = billed_step(3, priced_usage(2000, 10, read=1000, five=1000))
    amounts = by_part(allocate(billed_run(first, second, third), lambda _: RATES))
    reread = {key.part.kind for key, units in amounts.items() if units and key.piece == "reread"}
    rewritten = {
        (key.part.kind, key.part.tool): units for key, units in amounts.items() if units and key.piece == "rewrite"
    }
    assert reread == {"base", "user"}
    assert set(rewritten) == {("call", "read"), ("result", "read")}
    assert sum(rewritten.values()) == 500 * 37_500 * 10_000


def test_writes_of_an_hour_come_before_those_of_five_minutes() -> None:
    step = billed_step(1, priced_usage(900, read=100, hour=300, five=400))
    (request,) = allocate(billed_run(step), lambda _: RATES).requests
    assert request.zones == (100, 300, 400, 100)
    assert request.units is not None
    assert sum(request.units) == (100 * 3_000 + 300 * 60_000 + 400 * 37_500 + 100 * 30_000) * 10_000


def test_a_long_request_pays_its_rate_for_all_tokens() -> None:
    short, long = (priced_usage(context, read=context) for context in (LONG_FROM, LONG_FROM + 1))
    long = long._replace(cost=list_cost(long, LONG))
    allocation = allocate(billed_run(billed_step(1, short), billed_step(2, long)), rates_of)
    head = by_part(allocation)
    base = next(key.part for key in head if key.part.kind == "base")
    # The same tokens, at twice the rate: a head is not below the tier.
    first, again = head[PaidPiece(base, "m", "first")], head[PaidPiece(base, "m", "reread")]
    assert again / first == pytest.approx(2, rel=1e-3)


def test_a_bill_of_the_log_scales_all_causes_alike() -> None:
    usage = priced_usage(1000, 100, read=600)
    dear = usage._replace(cost=(usage.cost or 0) * 3)
    listed, stated = (allocate(billed_run(billed_step(1, u)), lambda _: RATES) for u in (usage, dear))
    for key, units in by_part(listed).items():
        assert by_part(stated)[key] == pytest.approx(3 * units, rel=1e-6)


def test_the_output_is_charged_once_as_output() -> None:
    first = billed_step(1, priced_usage(500, 100, five=500), text="t" * 400)
    second = billed_step(2, priced_usage(600, 0, read=500, five=100))
    amounts = by_part(allocate(billed_run(first, second), lambda _: RATES))
    text = {key.piece: units for key, units in amounts.items() if key.part.kind == "text" and units}
    assert text == {"output": 100 * 150_000 * 10_000, "first": 100 * 37_500 * 10_000}


def test_a_miss_is_what_could_have_been_read() -> None:
    first = billed_step(1, priced_usage(5000, five=5000), ("read", "y" * 900))
    second = billed_step(2, priced_usage(5400, read=1000, five=4400))
    _, request = allocate(billed_run(first, second), lambda _: RATES).requests
    assert request.missed_tokens == 4000
    assert request.extra_units == 4000 * (37_500 - 3_000) * 10_000


@pytest.mark.parametrize("compacted_before", [(2,), ()])
def test_a_compaction_is_no_miss(compacted_before: tuple[int, ...]) -> None:
    steps = billed_step(1, priced_usage(9000, five=9000)), billed_step(2, priced_usage(4000, five=4000))
    _, request = allocate(billed_run(*steps, compacted_before=compacted_before), lambda _: RATES).requests
    assert (request.change.event, request.missed_tokens, request.change.left_tokens) == ("compaction", 0, 10)
    assert [segment.part.kind for segment in request.change.added] == ["summary"]


def test_a_compaction_keeps_the_base_alone() -> None:
    first = billed_step(1, priced_usage(1000, 200, five=1000), ("read", "y" * 9000))
    second = billed_step(2, priced_usage(5000, 10, read=1000, five=4000), text="t" * 40)
    third = billed_step(3, priced_usage(1500, 10, read=990, five=510))
    amounts = by_part(allocate(billed_run(first, second, third, compacted_before=[3]), lambda _: RATES))
    paid = Counter[str]()
    for key, units in amounts.items():
        paid[f"{key.part.kind} {key.piece}"] += units
    assert paid["base reread"] == pytest.approx(2 * 990 * 3_000 * 10_000, rel=1e-3)  # the bill is whole micro-dollars
    assert paid["summary first"] == pytest.approx(510 * 37_500 * 10_000, rel=1e-3)
    assert paid["result reread"] == paid["result rewrite"] == 0


def test_where_reads_are_unknown_nothing_is_a_miss() -> None:
    steps = [billed_step(i, Usage(5000 * i, 10, cost=100 * i), ("read", "y" * 9000)) for i in (1, 2)]
    allocation = allocate(billed_run(*steps), lambda _: RATES)
    assert [request.missed_tokens for request in allocation.requests] == [None, None]
    assert [request.tokens.rewrite for request in allocation.requests] == [0, 0]


def test_a_cost_without_rates_is_not_divided() -> None:
    allocation = allocate(billed_run(billed_step(1, priced_usage(500, 10), ("read", "y"))), lambda _: None)
    assert {charge.part.kind for charge in allocation.charges if sum(charge.units)} == {"unallocated"}


def test_tokens_without_a_cost_pay_nothing_and_are_counted() -> None:
    step = billed_step(1, priced_usage(500, 10)._replace(cost=None))
    allocation = allocate(billed_run(step), lambda _: RATES)
    assert (charged(allocation), allocation.unpriced) == (0, 1)
    assert allocation.requests[0].tokens == (10, 500, 0, 0)


def test_requests_for_summaries_are_in_the_bill() -> None:
    usage = priced_usage(800, 100, read=600)
    summary = Compacted(2, 2, "s", 800, Response("s", usage=usage))
    run = billed_run(billed_step(1, priced_usage(800, five=800)), compactions=(summary,), source="boolab")
    run = replace(run, wrap_up=WrapUp("w", Response("w", usage=usage)))
    allocation = allocate(run, lambda _: RATES)
    paid = [charge for charge in allocation.charges if charge.part.kind == "summary"]
    assert sum(sum(charge.units) for charge in paid) == 2 * UNITS * (usage.cost or 0)
    assert paid[0].tokens == (100, 0, 600, 200)
    assert charged(allocation) == UNITS * sum(u.cost or 0 for u in (run.steps[0].response.usage, usage, usage))


def test_a_request_that_no_log_has_is_estimated_beside_the_bill() -> None:
    first = billed_step(1, priced_usage(10_000, 9, five=10_000), ("read", "y" * 300_000))
    second = billed_step(2, priced_usage(100_000, 9, read=10_000, five=90_000), ("read", "y"))
    run = billed_run(first, second, billed_step(3, priced_usage(16_000, read=16_000)), compacted_before=[3])
    unlogged = allocate(run, lambda _: RATES, logs_summaries=False)
    summary = 16_000 - 9_990
    # The prompt of the request before was read, and the summary written.
    assert unlogged.requests[2].unlogged_units == (100_000 * 3_000 + summary * 150_000) * 10_000
    assert charged(unlogged) == charged(allocate(run, lambda _: RATES))


def test_a_branch_does_not_pay_for_the_steps_that_it_kept() -> None:
    first = billed_step(1, priced_usage(1000, 10, five=1000), ("read", "y" * 900))
    second = billed_step(2, priced_usage(1300, 10, read=1000, five=300))
    allocation = allocate(billed_run(first, second), lambda _: RATES, kept_steps=1)
    assert charged(allocation) == UNITS * (second.response.usage.cost or 0)
    amounts = by_part(allocation)
    base = next(key.part for key in amounts if key.part.kind == "base")
    assert amounts[PaidPiece(base, "m", "first")] == 0 < amounts[PaidPiece(base, "m", "reread")]


def test_a_fall_takes_from_reasoning_first() -> None:
    first = billed_step(1, priced_usage(1000, 300, five=1000, reasoning_tokens=200), ("read", "y" * 900), reasoning="r")
    second = billed_step(2, priced_usage(1600, 10, read=1000, five=600))
    third = billed_step(3, priced_usage(1450, 10, read=1000, five=450))
    prompt, widths = Prompt(billed_run(first, second, third)), []
    for number, step in enumerate((first, second, third)):
        prompt.begin(step)
        prompt.advance(step, number, lambda _: None)
        prompt.end(step)
        widths.append({s.part.kind: s.width for s in prompt.segments if s.part.step <= 1})
    assert widths[1] == {"base": 990, "user": 10, "reasoning": 200, "call": 100, "result": 300}
    assert widths[2] == {**widths[1], "reasoning": 50}


def test_what_exceeds_its_characters_is_unseen() -> None:
    first = billed_step(1, priced_usage(1000, 5, five=1000), ("screenshot", "y" * 60))
    second = billed_step(2, priced_usage(2700, 10, read=1000, five=1700))
    _, request = allocate(billed_run(first, second), lambda _: RATES).requests
    added = {segment.part.kind: segment.width for segment in request.change.added}
    assert added == {"call": 5, "result": 100, "unseen": 1595}
    assert request.change.width_is == "estimated"


SCREENSHOT = Image(1369, 880)


def images_added(context: int, *images: Image, text: str = "y" * 60, by_user: bool = False) -> dict[str, int]:
    """The widths by kind of what a result with images, or a message of the user, adds to the prompt of 1000 tokens."""
    first = billed_step(1, priced_usage(1000, 5, five=1000), ("screenshot", "" if by_user else text))
    if not by_user:
        (result,) = first.results
        assert result is not None
        first = first._replace(results=(result._replace(images=images),))
    second = billed_step(2, priced_usage(context, 10, read=1000, five=context - 1000))
    inputs = (Input(2, Message("user", (Text(text), *images))),) if by_user else ()
    _, request = allocate(billed_run(first, second, inputs=inputs), lambda _: RATES).requests
    assert {s.width_is for s in request.change.added if s.part.kind in ("result", "user")} == {"estimated"}
    return {segment.part.kind: segment.width for segment in request.change.added}


def test_an_image_of_a_result_is_charged_to_its_tool() -> None:
    assert images_added(1000 + 5 + 1606 + 35, SCREENSHOT) == {"call": 5, "result": 1641}


def test_an_image_in_a_message_is_charged_to_the_user() -> None:
    widths = images_added(1000 + 5 + 1606 + 35 + 15, SCREENSHOT, by_user=True)
    assert widths["user"] >= 1606
    assert sum(widths.values()) == 5 + 1606 + 50


def test_an_image_takes_at_most_what_the_prompt_grew_by() -> None:
    assert images_added(1705, SCREENSHOT) == {"call": 5, "result": 700}


def test_an_image_leaves_the_text_beside_it_its_tokens() -> None:
    first = billed_step(1, priced_usage(1000, 5, five=1000), ("read", "y" * 900), ("screenshot", "y" * 60))
    read, shot = first.results
    assert read is not None
    assert shot is not None
    first = first._replace(results=(read, shot._replace(images=(SCREENSHOT,))))
    second = billed_step(2, priced_usage(1405, 10, read=1000, five=405))
    _, request = allocate(billed_run(first, second), lambda _: RATES).requests
    widths = {segment.part.tool: segment.width for segment in request.change.added if segment.part.kind == "result"}
    assert widths == {"read": 316, "screenshot": 84}  # 50 are left by the text's 350


def test_what_exceeds_the_estimate_of_an_image_is_unseen() -> None:
    assert images_added(1000 + 5 + 1606 + 100 + 900, SCREENSHOT) == {"call": 5, "result": 1706, "unseen": 900}


def test_an_image_of_unknown_size_is_unseen() -> None:
    assert images_added(2700, Image()) == {"call": 5, "result": 100, "unseen": 1595}


def test_the_first_prompt_has_the_images_of_its_messages() -> None:
    prompt = (Message("user", (Text("x" * 40), SCREENSHOT)),)
    (request,) = allocate(billed_run(billed_step(1, priced_usage(5000, 5)), prompt=prompt), rates_of).requests
    assert [segment.width for segment in request.change.added] == [5000 - 1616, 1616]


@pytest.mark.parametrize(
    ("n_calls", "expected"), [(1, "measured"), (2, "shared")], ids=["one part took it all", "by characters"]
)
def test_a_width_says_how_it_is_known(n_calls: int, expected: str) -> None:
    calls = [("read", "y" * 900)] * n_calls
    first = billed_step(1, priced_usage(1000, 20, five=1000), *calls)
    second = billed_step(2, priced_usage(1400, 10, read=1000, five=400))
    _, request = allocate(billed_run(first, second), lambda _: RATES).requests
    assert {s.width_is for s in request.change.added if s.part.kind == "result"} == {expected}


def test_a_cut_response_is_estimated_from_the_growth() -> None:
    first = billed_step(1, priced_usage(1000, 2, five=1000), ("read", "y" * 300), text="t" * 4000)
    second = billed_step(2, priced_usage(2200, 10, read=1000, five=1200))
    before, request = allocate(billed_run(first, second), lambda _: RATES).requests
    assert before.output_estimated == 1200 - (300 // 3 + 15)
    assert before.lacking_units == (1085 - 2) * 150_000 * 10_000
    written = sum(s.width for s in request.change.added if s.part.kind in ("text", "call"))
    assert written == 7 * 1085 // 10


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=30), st.integers(0, 10**6))
def test_a_split_adds_up_and_keeps_the_proportion(weights: list[int], total: int) -> None:
    shares = split_by_weight(total, weights)
    assert sum(shares) == total
    whole = sum(weights)
    assert not whole or all(abs(s * whole - total * w) < whole for s, w in zip(shares, weights, strict=True))


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=30))
def test_rounded_amounts_keep_their_sum(units: list[int]) -> None:
    units = [*units, -sum(units) % UNITS]
    assert sum(round_amounts(units)) * UNITS == sum(units)


def test_the_list_price_of_the_pi_session_is_its_bill() -> None:
    (run,) = bl.load_runs(shared("pi"))
    allocation = allocate(run, lambda step: step_rates(step, run))
    check_sums(run, allocation)
    assert sum((request.missed_tokens or 0) > 2000 for request in allocation.requests) == 37
    whole = 0
    for request in allocation.requests:
        read, hour, five, fresh = request.zones
        listed = read * 3_000 + hour * 60_000 + five * 37_500 + fresh * 30_000 + request.tokens.output * 150_000
        assert abs(listed - (request.step.response.usage.cost or 0) * 10_000) <= 5_000  # half a micro-dollar
        whole += listed
    assert round(whole / 10_000) == 30_330_198
