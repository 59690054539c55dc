"""Who pays for what: the cost of each request of a run, charged to the parts of its prompt and of its response.

Caches are prefixes. Of a request, the first tokens were read from the cache, the next were written to it, and the rest
is fresh; a segment pays for its overlap with each at that rate. The first request that has a segment is its `first`;
later ones are its `reread` where they read it, and its `rewrite` where they send it in full again.

All is done in integers, of 1e-14 dollars: the rates of a request are scaled so that its charges add up to its cost,
whatever the widths of the segments are, and whether the cost is from a price table or from the log. Whole micro-dollars
are for tables (`round_amounts`): rounded at each request, a small segment would pay nothing in a thousand requests.

A request charges a range of segments by two marks, at the ends of the range; their running sum is taken when a width
changes. So the time does not depend on how many segments each request has.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final, Literal, NamedTuple, TypeAlias

from boolab.core.prices import Rates
from boolab.core.prompt_parts import (
    UNALLOCATED,
    Prompt,
    PromptChange,
    PromptPart,
    Segment,
    WidthKind,
    edges_of,
    has_prompt,
    is_cut,
    response_parts,
    split_output,
)
from boolab.core.run import Compacted, Run, WrapUp
from boolab.core.types import Response, Step, Usage

UNITS: Final = 10**8
"""Units of money, 1e-14 dollars, to the micro-dollar."""
Piece: TypeAlias = Literal["output", "first", "reread", "rewrite"]
PIECES: Final[tuple[Piece, ...]] = ("output", "first", "reread", "rewrite")
"""What is paid for: text that the model wrote, text that was sent the first time, and text that was sent again, read
from the cache or not."""
_NO_RATES: Final = Rates(0, 0, 0, 0, 0)


class Amounts(NamedTuple):
    """Tokens, or units of money, by piece."""

    output: int = 0
    first: int = 0
    reread: int = 0
    rewrite: int = 0


class ServedBy(NamedTuple):
    """How a request was served: the model, and the effort."""

    model: str
    effort: str | None


class CauseCharge(NamedTuple):
    """What one part cost over all requests of a run that were served alike.

    `first_request` and `last_request` are the numbers of the requests that had it in the prompt, or wrote it.
    """

    part: PromptPart
    served: ServedBy
    width_is: WidthKind
    tokens: Amounts
    units: Amounts
    first_request: int
    last_request: int


class Zones(NamedTuple):
    """The tokens of a prompt in the order of a cache: read, written for an hour, written for five minutes, fresh."""

    read: int
    write_1h: int
    write_5m: int
    fresh: int


class RequestBill(NamedTuple):
    """What one request had in its prompt, and what it cost; `units` is None where that is unknown.

    `missed_tokens` are those of the last prompt that were not read again though they were still there; None if the log
    lacks what was read. `extra_units` is what they cost more than if they had been read. `unlogged_units` is about what
    the request cost that wrote the summary in this prompt, where no line of the log has it; `output_estimated` about
    how many tokens the response had of which the log has a part, and `lacking_units` what the others cost.
    """

    step: Step
    served: ServedBy
    zones: Zones
    change: PromptChange
    missed_tokens: int | None
    extra_units: int | None
    idle_ms: int | None
    tokens: Amounts
    units: Amounts | None
    unlogged_units: int = 0
    output_estimated: int | None = None
    lacking_units: int = 0


class Allocation(NamedTuple):
    """The charges of a run, and its requests in order."""

    charges: list[CauseCharge]
    requests: list[RequestBill]
    unpriced: int
    """How many requests have tokens and no cost: their tokens are charged, and no money is."""
    unknown: int
    """How many requests have no tokens on record."""


StepRates: TypeAlias = Callable[[Step], Rates | None]


def allocate(run: Run, rates_of: StepRates, *, kept_steps: int = 0, logs_summaries: bool = True) -> Allocation:
    """Charge each request of a run to the parts of its prompt.

    `rates_of` has the rates of a step. `kept_steps`: so many first steps are another run's: they are walked through,
    and not charged. `logs_summaries`: whether the log has the requests that write a compaction's summary.
    """
    walk = _Walk(run, rates_of, logs_summaries=logs_summaries)
    for step in run.steps:
        walk.take(step, charged=step.index > kept_steps)
    walk.take_outside(kept_steps)
    return walk.finish()


def zones_of(usage: Usage) -> Zones:
    """The zones of a prompt, as long as its input: figures that contradict it are cut."""
    total = usage.input_tokens or 0
    read = min(usage.cached_tokens or 0, total)
    writes = min(usage.cache_write_tokens or 0, total - read)
    hour = min(usage.cache_write_1h_tokens or 0, writes)
    return Zones(read, hour, writes - hour, total - read - writes)


def scaled_rates(rates: Rates, zones: Zones, output: int, cost: int) -> Rates:
    """Rates in units, in the same proportion, at which such a request costs at most `cost` micro-dollars."""
    listed_cost = price_of(rates, zones, output)
    return Rates(*(rate * cost * UNITS // listed_cost for rate in rates)) if listed_cost else _NO_RATES


def price_of(rates: Rates, zones: Zones, output: int) -> int:
    """What a request costs at such rates."""
    by_zone = (rates.read, rates.write_1h, rates.write_5m, rates.fresh)
    return sum(tokens * rate for tokens, rate in zip(zones, by_zone, strict=True)) + output * rates.output


class _Marks:
    """The charges of ranges of segments, for one piece and served alike: marks stand for whole segments."""

    def __init__(self, served: ServedBy, piece: int) -> None:
        self._key = (served, piece)
        self._counts: list[int] = []
        self._rates: list[int] = []

    def add(self, segments: Sequence[Segment], edges: Sequence[int], start: int, stop: int, rate: int) -> None:
        """Charge the tokens from `start` to `stop` of the prompt."""
        first, last = bisect_right(edges, start) - 1, bisect_left(edges, stop) - 1
        if first == last:
            self._charge(segments[first], stop - start, rate)
            return
        self._charge(segments[first], edges[first + 1] - start, rate)
        self._charge(segments[last], stop - edges[last], rate)
        if first + 1 < last:
            n_missing = last + 1 - len(self._counts)
            if n_missing > 0:
                self._counts += [0] * n_missing
                self._rates += [0] * n_missing
            self._counts[first + 1] += 1
            self._counts[last] -= 1
            self._rates[first + 1] += rate
            self._rates[last] -= rate

    def settle(self, segments: Sequence[Segment], positions: Sequence[int]) -> None:
        """Charge whole segments by their widths, and forget their marks; the positions are in order."""
        n_marked = len(self._counts)
        counts, rates = [*accumulate(self._counts)], [*accumulate(self._rates)]
        for position in positions:
            if position >= n_marked:
                break
            count, rate = counts[position], rates[position]
            if count:
                width = segments[position].width
                amounts = segments[position].amounts_of(*self._key)
                amounts[0] += width * count
                amounts[1] += width * rate
                # The marks add up to zero, so there is one after each segment with a count.
                self._counts[position] -= count
                self._counts[position + 1] += count
                self._rates[position] -= rate
                self._rates[position + 1] += rate

    def _charge(self, segment: Segment, tokens: int, rate: int) -> None:
        amounts = segment.amounts_of(*self._key)
        amounts[0] += tokens
        amounts[1] += tokens * rate


class _Walk:
    """The requests of a run, one after the other."""

    def __init__(self, run: Run, rates_of: StepRates, *, logs_summaries: bool) -> None:
        self._run = run
        self._rates_of = rates_of
        self._logs_summaries = logs_summaries
        self._prompt = Prompt(run)
        self._edges = [0]
        self._marks: dict[tuple[ServedBy, int], _Marks] = {}
        self._charges: list[CauseCharge] = []
        self._requests: list[RequestBill] = []
        self._unpriced = self._unknown = 0
        self._last_rates = _NO_RATES
        self._ended_ms: int | None = None

    def take(self, step: Step, *, charged: bool) -> None:
        """Charge the request of a step."""
        self._prompt.begin(step)
        if not has_prompt(step.response.usage):
            self._unknown += charged and step.response.usage.input_tokens is None
            if charged:
                self._pay_unallocated(step)
        else:
            self._take_known(step, charged=charged)
        self._prompt.end(step)

    def _take_known(self, step: Step, *, charged: bool) -> None:
        usage, number = step.response.usage, len(self._requests)
        length, n_segments = self._prompt.length, len(self._prompt.segments)
        change = self._prompt.advance(step, number, self._settle)
        n_kept = len(self._prompt.segments) - len(change.added)
        position = n_kept if change.first_changed is None else change.first_changed
        self._edges[position:] = edges_of(self._prompt.widths[position:], self._edges[position])
        for segment in change.removed:
            self._emit(segment, number - 1)
        served = ServedBy(step.response.model or self._run.model, step.response.effort)
        zones, rates, output = zones_of(usage), self._rates_of(step), usage.output_tokens or 0
        is_allocated = rates is not None and usage.cost is not None
        scaled = scaled_rates(rates, zones, output, usage.cost or 0) if rates is not None else _NO_RATES
        tokens, units = [output, 0, 0, 0], [output * scaled.output, 0, 0, 0]
        for piece, start, stop, rate in _ranges(zones, scaled, self._edges[n_kept], usage.cached_tokens is not None):
            tokens[piece] += stop - start
            units[piece] += (stop - start) * rate
            if charged:
                marks = self._marks.setdefault((served, piece), _Marks(served, piece))
                marks.add(self._prompt.segments, self._edges, start, stop, rate)
        # What is left is less than a unit a token, or all of the cost where the listed price is zero.
        rest = (usage.cost or 0) * UNITS - sum(units)
        units[0] += rest
        if charged:
            self._charge_output(step, served, number, scaled.output, rest if is_allocated else 0)
            self._unpriced += usage.cost is None
            if not is_allocated:
                self._pay_unallocated(step)
        if change.output_estimated is not None and self._requests:
            self._note_cut(change.output_estimated)
        missed_tokens = None if usage.cached_tokens is None else _missed_tokens(zones, change, length)
        dear_rate = scaled.write_1h if zones.write_1h else scaled.write_5m if zones.write_5m else scaled.fresh
        self._requests.append(
            RequestBill(
                step,
                served,
                zones,
                change,
                missed_tokens,
                missed_tokens * max(0, dear_rate - scaled.read) if is_allocated and missed_tokens is not None else None,
                None if step.start_ms is None or self._ended_ms is None else max(0, step.start_ms - self._ended_ms),
                Amounts(*tokens),
                None if usage.cost is None else Amounts(*units),
                self._summary_units(change, length) if n_segments and charged else 0,
            )
        )
        self._last_rates = scaled
        self._ended_ms = None if step.start_ms is None or step.model_ms is None else step.start_ms + step.model_ms

    def _settle(self, positions: Sequence[int]) -> None:
        """Charge the segments whose widths change."""
        for marks in self._marks.values():
            marks.settle(self._prompt.segments, positions)

    def _emit(self, segment: Segment, last_request: int) -> None:
        """The charges of a segment that no further request has."""
        for served in dict.fromkeys(served for served, _ in segment.amounts if isinstance(served, ServedBy)):
            tokens, units = zip(*(segment.amounts.get((served, piece), (0, 0)) for piece in range(4)), strict=True)
            first = segment.first_request
            self._charges.append(
                CauseCharge(
                    segment.part, served, segment.width_is, Amounts(*tokens), Amounts(*units), first, last_request
                )
            )

    def _charge_output(self, step: Step, served: ServedBy, number: int, rate: int, rest: int) -> None:
        parts = response_parts(step)
        width_kind: WidthKind = "estimated" if is_cut(step) else "measured" if len(parts) == 1 else "shared"
        for index, (part, tokens) in enumerate(zip(parts, split_output(step, parts), strict=True)):
            paid_units = tokens * rate + (rest if index == len(parts) - 1 else 0)
            if tokens or paid_units:
                amounts = Amounts(output=tokens), Amounts(output=paid_units)
                self._charges.append(CauseCharge(part.part, served, width_kind, *amounts, number, number))

    def _pay_unallocated(self, step: Step) -> None:
        """The cost of a request whose tokens or rates are not known: it has no other cause."""
        cost, number = step.response.usage.cost, len(self._requests)
        if cost:
            served = ServedBy(step.response.model or self._run.model, step.response.effort)
            part = UNALLOCATED._replace(step=step.index, turn=step.turn)
            self._charges.append(
                CauseCharge(part, served, "estimated", Amounts(), Amounts(output=cost * UNITS), number, number)
            )

    def _note_cut(self, estimate: int) -> None:
        last = self._requests[-1]
        lacking = max(0, estimate - last.tokens.output) * self._last_rates.output
        self._requests[-1] = last._replace(output_estimated=estimate, lacking_units=lacking)

    def _summary_units(self, change: PromptChange, length: int) -> int:
        """About what a request for a summary cost: it read the last prompt and wrote at most so much."""
        if self._logs_summaries or change.event != "compaction":
            return 0
        summary = min(_MAX_SUMMARY, change.added[0].width)
        return length * self._last_rates.read + summary * self._last_rates.output

    def take_outside(self, kept_steps: int) -> None:
        """Charge requests outside of the steps, which write summaries: they send again what stood in the prompt."""
        requests: list[tuple[int, Compacted | WrapUp]] = [(made.before - 1, made) for made in self._run.compactions]
        wrap_ups = [*self._run.earlier_wrap_ups, *([] if self._run.wrap_up is None else [self._run.wrap_up])]
        requests += [(len(self._run.steps), wrap_up) for wrap_up in wrap_ups]
        for after, request in requests:
            if not request.asked or after < kept_steps:
                continue
            response = request.response or Response()
            turn = self._run.steps[min(after, len(self._run.steps)) - 1].turn if self._run.steps and after else 1
            self._charge_summary(Step(after, turn, None, None, None, response))

    def _charge_summary(self, step: Step) -> None:
        usage, rates = step.response.usage, self._rates_of(step)
        if usage.input_tokens is None or rates is None or usage.cost is None:
            self._unknown += usage.input_tokens is None
            self._unpriced += usage.input_tokens is not None and usage.cost is None
            self._pay_unallocated(step)
            return
        zones, output, number = zones_of(usage), usage.output_tokens or 0, len(self._requests)
        scaled = scaled_rates(rates, zones, output, usage.cost)
        tokens = Amounts(output, 0, zones.read, usage.input_tokens - zones.read)
        read, whole_units = zones.read * scaled.read, price_of(scaled, zones, 0)
        units = Amounts(usage.cost * UNITS - whole_units, 0, read, whole_units - read)
        part = PromptPart("summary", step.index, step.turn)
        served = ServedBy(step.response.model or self._run.model, step.response.effort)
        self._charges.append(CauseCharge(part, served, "measured", tokens, units, number, number))

    def finish(self) -> Allocation:
        """Settle what is left."""
        self._settle(range(len(self._prompt.segments)))
        for segment in self._prompt.segments:
            self._emit(segment, len(self._requests) - 1)
        return Allocation(self._charges, self._requests, self._unpriced, self._unknown)


_MAX_SUMMARY: Final = 9_000
"""The most tokens that a summary is taken to have: what else is in the next prompt was kept."""


def _ranges(zones: Zones, rates: Rates, kept_tokens: int, cache_known: bool) -> Iterator[tuple[int, int, int, int]]:
    """The ranges of a prompt of one rate and one piece: the piece, where it starts and stops, and the rate.

    `kept_tokens` is where the first new segment begins. Where the log lacks what was read, all that was sent again is a
    `reread`: nothing shows that the cache missed.
    """
    first, reread, rewrite = (PIECES.index(piece) for piece in PIECES[1:])
    start = 0
    for zone, rate in zip(zones._fields, (rates.read, rates.write_1h, rates.write_5m, rates.fresh), strict=True):
        stop = start + getattr(zones, zone)
        again_piece = reread if zone == "read" or not cache_known else rewrite
        if start < min(stop, kept_tokens):
            yield again_piece, start, min(stop, kept_tokens), rate
        if max(start, kept_tokens) < stop:
            yield first, max(start, kept_tokens), stop, rate
        start = stop


def _missed_tokens(zones: Zones, change: PromptChange, length: int) -> int:
    """How many tokens of the last prompt, `length` long, were not read. After a compaction nothing could be."""
    return 0 if change.event == "compaction" else max(0, min(length, sum(zones)) - zones.read)


def round_amounts(units: Sequence[int]) -> list[int]:
    """Whole micro-dollars with the sum of the units, by largest remainder; the sum is whole, as each request's is."""
    whole_units = [amount // UNITS for amount in units]
    n_missing = sum(units) // UNITS - sum(whole_units)
    for position in sorted(range(len(units)), key=lambda position: -(units[position] % UNITS))[:n_missing]:
        whole_units[position] += 1
    return whole_units
