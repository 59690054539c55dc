"""The requests of a run as another context policy needs them: what each added to the prompt, and what a token costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from statistics import median_low
from typing import Final, NamedTuple

from boolab.core.allocation import UNITS, RequestBill, Zones, price_of
from boolab.core.messages import Message
from boolab.core.prices import Rates, RatesByLength, window_of
from boolab.core.prompt_parts import Segment, message_parts, tokens_of_images
from boolab.core.redacted import chars_of
from boolab.core.run import Run
from boolab.core.types import Step, results_in
from boolab.frames.runs import kept_steps
from boolab.logs.list_prices import request_of, step_rates_by_length
from boolab.stats.cost.allocated import AllocatedRun
from boolab.stats.cost.files import arguments_known, named_files
from boolab.stats.cost.misses import lifetimes_of

CLEARED_TOKENS: Final = 20
"""What stands for a cleared result."""
SUMMARY_TOKENS: Final = 6_000
"""The tokens of a summary where none is on record."""
_LEAST_SUMMARY: Final = 500
"""The least that a prompt after a compaction has beside the base."""
_NO_PRICE: Final = RatesByLength((), (Rates(0, 0, 0, 0, 0),))
FRESH, READ, WRITE_5M, WRITE_1H, OUTPUT = range(5)
"""The places of the rates in `Rates`."""


class AddedResult(NamedTuple):
    """A result among what a request added: where it begins there, and the files that it has.

    `image_tokens` of its width are those of its images, where the log has their sizes.
    """

    start: int
    width: int
    chars: int
    tool: str
    files: tuple[str, ...]
    image_tokens: int = 0


class Addition(NamedTuple):
    """What one request added to the prompt, as wide as it was first sent."""

    width: int
    results: tuple[AddedResult, ...] = ()


class RecordedRequest(NamedTuple):
    """A request on record.

    `lost_tokens` is how many tokens left the prompt without a compaction, `summary` what was not the base after one.
    Of the last prompt, `missed_tokens` of `readable` tokens were not read. `write` is the rate of what is written: a
    place in `Rates`. `rates` are in units, scaled to what the log has as the cost. Its calls read the files in `reads`,
    and only name those in `uses`.
    """

    step: int
    length: int
    added: Addition
    lost_tokens: int
    summary: int | None
    zones: Zones
    output: int
    missed_tokens: int
    readable: int
    idle_ms: int | None
    lifetime_ms: int
    write: int
    rates: RatesByLength
    units: int
    reads: tuple[str, ...]
    uses: tuple[str, ...]
    is_cut: bool = False


class RequestRecord(NamedTuple):
    """The requests of a run; `refusal` is why there are none to compute with."""

    run: Run
    requests: tuple[RecordedRequest, ...]
    base: int
    refusal: str
    units: int
    """What the requests cost, with those that wrote a summary and are on record."""
    unlogged_units: int
    """About what those cost that wrote a summary and are on no line."""
    arguments_known: bool
    has_times: bool
    charges_writes: bool
    window: int | None
    has_unsized_images: bool
    """Whether results have images whose sizes the log does not show."""

    @property
    def longest(self) -> int:
        """The tokens of its longest prompt."""
        return max((request.length for request in self.requests), default=0)

    @property
    def compacted_lengths(self) -> list[int]:
        """The lengths of the last prompts before recorded compactions."""
        return [last.length for last, request in pairwise(self.requests) if request.summary is not None]

    @property
    def compacted_at(self) -> int | None:
        """About where the record compacts: the median of its lengths before it; None without any."""
        return median_low(lengths) if (lengths := self.compacted_lengths) else None


def record_of(allocated: AllocatedRun) -> RequestRecord:
    """The requests of a run whose charges are known."""
    run, bills = allocated.run, allocated.allocation.requests
    calls = chain.from_iterable(step.response.tool_calls for step in run.steps)
    charges_writes = any(bill.zones.write_5m or bill.zones.write_1h for bill in bills)
    base = _base_of(bills)
    requests, refusal = (*_requests(run, bills, base, charges_writes=charges_writes),), _refusal(allocated)
    summary_costs = [
        compacted.response.usage.cost or 0 for compacted in run.compactions if compacted.response is not None
    ]
    return RequestRecord(
        run,
        () if refusal else requests,
        base,
        refusal,
        sum(request.units for request in requests) + sum(summary_costs) * UNITS,
        sum(bill.unlogged_units for bill in bills),
        all(map(arguments_known, calls)),
        all(bill.idle_ms is not None for bill in bills[1:]),
        charges_writes,
        run.context_window or (window_of(request_of(bills[0].step, run)) if bills else None),
        any(None in image for result in results_in(run.steps) for image in result.images),
    )


def _base_of(bills: Sequence[RequestBill]) -> int:
    """The tokens of the system prompt and the tools: less than a prompt after a compaction has.

    A log may begin in the middle of a conversation, so that its first prompt is not the base alone.
    """
    if not bills:
        return 0
    compacted_lengths = [sum(bill.zones) for bill in bills if bill.change.event == "compaction"]
    base = bills[0].change.added[0].first_width
    shortest = min(compacted_lengths, default=None)
    return base if shortest is None or shortest - base >= _LEAST_SUMMARY else max(0, shortest - SUMMARY_TOKENS)


def _refusal(allocated: AllocatedRun) -> str:
    allocation = allocated.allocation
    if not allocation.requests:
        return "the tokens of its requests are not on record"
    if allocation.unpriced or any(
        step_rates_by_length(bill.step, allocated.run) is None for bill in allocation.requests
    ):
        return "the price of a token is not known"
    return ""


def _requests(run: Run, bills: Sequence[RequestBill], base: int, *, charges_writes: bool) -> Iterator[RecordedRequest]:
    n_kept, write = kept_steps(run), WRITE_5M if charges_writes else FRESH
    messages: dict[int, list[Message]] = {}
    for step_index, message in run.inputs:
        messages.setdefault(step_index, []).append(message)
    last: RequestBill | None = None
    for bill, lifetime in zip(bills, lifetimes_of(bills), strict=True):
        zones, length, change = bill.zones, sum(bill.zones), bill.change
        if zones.write_5m or zones.write_1h:
            write = WRITE_1H if zones.write_1h >= zones.write_5m else WRITE_5M
        has_cache = zones.read or zones.write_5m or zones.write_1h
        is_charged = bill.step.index > n_kept and bill.step.response.usage.cost is not None
        if last is not None and change.event == "compaction":
            inputs = chain.from_iterable(
                messages.get(index, ()) for index in range(last.step.index + 1, bill.step.index + 1)
            )
            added = _estimated(run.steps[last.step.index - 1], run, [*inputs])
        elif change.event == "shrunk":
            added = Addition(0)
        else:
            added = _addition(run, change.added)
            if last is None:
                added = _without_base(added, base)
        readable = min(sum(last.zones), length) if last is not None and change.event != "compaction" else 0
        yield RecordedRequest(
            bill.step.index,
            length,
            added,
            change.left_tokens if change.event == "shrunk" else 0,
            max(0, length - base) if change.event == "compaction" else None,
            zones,
            (bill.step.response.usage.output_tokens or 0) if is_charged else 0,
            min(bill.missed_tokens or 0, readable),
            max(1, readable),
            bill.idle_ms,
            lifetime,
            write if has_cache else FRESH,
            _scaled(bill, run) if is_charged else _NO_PRICE,
            (bill.step.response.usage.cost or 0) * UNITS if is_charged else 0,
            *_files(bill.step, run),
        )
        last = bill


def _files(step: Step, run: Run) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files that the calls of a step read, and the others that they name."""
    calls = [named_files(call, run.cwd) for call in step.response.tool_calls]
    reads = dict.fromkeys(chain.from_iterable(files.reads for files in calls))
    uses = dict.fromkeys(chain.from_iterable(files.uses for files in calls))
    return (*reads,), tuple([file for file in uses if file not in reads])


def _scaled(bill: RequestBill, run: Run) -> RatesByLength:
    """The rates of a request at each length, in units, in the proportion of its cost to its list price."""
    list_rates = step_rates_by_length(bill.step, run)
    if list_rates is None:
        return _NO_PRICE
    usage = bill.step.response.usage
    list_price = price_of(list_rates.at(sum(bill.zones)), bill.zones, usage.output_tokens or 0)
    cost = (usage.cost or 0) * UNITS
    tiers = [
        Rates(*(rate * cost // list_price for rate in rates)) if list_price else rates for rates in list_rates.tiers
    ]
    return RatesByLength(list_rates.starts, tuple(tiers))


def _addition(run: Run, segments: Sequence[Segment]) -> Addition:
    start, results = 0, []
    for segment in segments:
        part = segment.part
        if part.kind == "result" and part.call is not None and segment.first_width:
            results.append(_result(run, run.steps[part.step - 1], part.call, start, segment.first_width))
        start += segment.first_width
    return Addition(start, tuple(results))


def _without_base(first: Addition, base: int) -> Addition:
    """What the first prompt has beside the base."""
    results = [result._replace(start=result.start - base) for result in first.results]
    return Addition(first.width - base, tuple(results))


def _estimated(step: Step, run: Run, inputs: Sequence[Message]) -> Addition:
    """What a step added, and the messages after it, by their characters: a compaction has hidden it."""
    start, results = step.response.usage.output_tokens or 0, []
    for call, result in enumerate(step.results):
        if result is not None:
            width = chars_of(result.content) // 3 + 15 + tokens_of_images(result.images)
            results.append(_result(run, step, call, start, width))
            start += results[-1].width
    parts = chain.from_iterable(message_parts(message, step.index, step.turn) for message in inputs)
    return Addition(start + sum(part.chars // 3 + part.image_tokens for part in parts), tuple(results))


def _result(run: Run, step: Step, index: int, start: int, width: int) -> AddedResult:
    call, result = step.response.tool_calls[index], step.results[index]
    chars = 0 if result is None else chars_of(result.content)
    images = 0 if result is None else min(width, tokens_of_images(result.images))
    return AddedResult(start, width, chars, call.name, named_files(call, run.cwd).reads, images)


def cut_request(request: RecordedRequest, chars: int, share: float = 0.0) -> RecordedRequest:
    """The same request had results been cut to so many characters, and a share of the rest been read all the same."""

    def width_of(result: AddedResult) -> int:
        if result.chars <= chars:
            return result.width
        width = min(result.width, -(-result.width * chars // max(1, result.chars)))
        return width + int((result.width - width) * share)

    return _narrow(request, width_of)


def without_images(request: RecordedRequest) -> RecordedRequest:
    """The same request had the images of results not been sent."""
    return _narrow(request, lambda result: result.width - result.image_tokens)


def _narrow(request: RecordedRequest, width_of: Callable[[AddedResult], int]) -> RecordedRequest:
    results, removed = [], 0
    for result in request.added.results:
        width = width_of(result)
        results.append(result._replace(start=result.start - removed, width=width, image_tokens=0))
        removed += result.width - width
    if not removed:
        return request
    return request._replace(added=Addition(request.added.width - removed, tuple(results)), is_cut=True)
