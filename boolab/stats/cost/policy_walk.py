"""The requests of a run under another context policy: the same steps, outputs, results and pauses, other prompts.

Of each prompt, what it has in common with the last one is read from the cache, less the share that the record missed;
the rest is written or fresh. A compaction costs its own request and the writing of what stays; a clearing makes all
after the first cleared result be written anew. Up to the first change, the walk has the recorded figures.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from boolab.stats.cost.context_policy import ContextPolicy
from boolab.stats.cost.misses import HOUR_MS, WRITTEN_5M_MS
from boolab.stats.cost.request_record import (
    CLEARED_TOKENS,
    FRESH,
    OUTPUT,
    READ,
    WRITE_1H,
    WRITE_5M,
    AddedResult,
    Addition,
    RecordedRequest,
    RequestRecord,
    cut_request,
    without_images,
)

MAX_SUMMARY_OUTPUT: Final = 6_000
"""The most tokens that the request for a summary is taken to write."""
_CALL_TOKENS: Final = 100
"""The output of a request that reads a file again."""
_CROWDED: Final = 0.8
"""The share of a threshold that a compaction leaves, from which on it comes again and again."""


class WalkCost(NamedTuple):
    """What a run costs under a policy, in units, and what changed.

    `exact_until` is the last step whose cost is not estimated, 0 for none; `removed_tokens` are those of results that
    were summarised, cleared or cut.
    """

    units: int
    exact_until: int
    exact_units: int
    changes: int
    reads_again: int
    extra_units: int
    removed_tokens: int
    is_crowded: bool
    over_window_at: int | None


def walk_policy(
    record: RequestRecord,
    policy: ContextPolicy,
    summary_tokens: int,
    *,
    by_reference: bool = False,
    read_again: float = 0.0,
    estimate_all: bool = False,
) -> WalkCost:
    """Price the requests of a run under a policy.

    Args:
        record: The requests.
        policy: The policy.
        summary_tokens: The tokens of a summary, where the policy has none.
        by_reference: Read each file again that was removed and is named later.
        read_again: The share of the removed results that comes returned at once.
        estimate_all: Take no recorded figure of the cache: what the walk gives under the recorded policy is its check.

    Returns:
        The cost.
    """
    requests: Sequence[RecordedRequest] = record.requests
    if policy.cut_results is not None:
        requests = [cut_request(request, policy.cut_results, read_again) for request in requests]
    if not policy.images:
        requests = [*map(without_images, requests)]
    walk = _PolicyWalk(record, policy, policy.summary_tokens or summary_tokens, by_reference, read_again, estimate_all)
    for request in requests:
        walk.take(request)
    return walk.finish()


class _PolicyWalk:
    """The prompt under a policy: the base, a summary, and what each request added since then."""

    def __init__(
        self,
        record: RequestRecord,
        policy: ContextPolicy,
        summary_tokens: int,
        by_reference: bool,
        read_again: float,
        estimate_all: bool,
    ) -> None:
        self._record, self._policy, self._summary_tokens = record, policy, summary_tokens
        self._by_reference, self._read_again, self._estimate_all = by_reference, read_again, estimate_all
        self._lifetime_ms = {"recorded": None, "5m": WRITTEN_5M_MS, "1h": HOUR_MS}[policy.cache]
        self._write = {"recorded": None, "5m": WRITE_5M, "1h": WRITE_1H}[policy.cache]
        self._threshold = policy.compact_at
        self._length = self._summary = 0
        self._additions: list[Addition] = []
        self._steps: list[int] = []
        """The step that made each addition, doubled: what is read again before a step is a step of its own."""
        self._last_step = 0
        self._results: list[tuple[int, int]] = []
        """The results that may be cleared: the position of the addition, and theirs in it."""
        self._widths_to = (0, 0)
        """How wide the additions before some position are, as far as they were added up."""
        self._visible: dict[str, int] = {}
        """How many results with a file the prompt has."""
        self._widths: dict[str, int] = {}
        self._lost: set[str] = set()
        """The files that the prompt had, and has no more."""
        self._changed = False
        self._units = self._extra_units = self._changes = self._reads_again = self._removed = 0
        self._exact_until = self._exact_units = 0
        self._compactions = self._kept_tokens = 0
        self._over_window_at: int | None = None

    def finish(self) -> WalkCost:
        """What the requests cost."""
        limit = self._policy.compact_at
        is_crowded = (
            limit is not None and self._compactions > 0 and self._kept_tokens > _CROWDED * limit * self._compactions
        )
        if not self._changed:
            self._exact_units = self._units
        return WalkCost(
            self._units, self._exact_until, self._exact_units, self._changes, self._reads_again, self._extra_units,
            self._removed, is_crowded, self._over_window_at,
        )  # fmt: skip

    def take(self, request: RecordedRequest) -> None:
        """Send a request."""
        is_recorded = request.summary is not None and self._policy.compact_at is None and not self._changed
        if is_recorded:
            self._take_compaction(request)
            return
        last_length = self._length
        if not last_length:
            self._length = self._record.base
        elif request.lost_tokens:
            self._lose(min(request.lost_tokens, self._length - self._record.base))
            last_length = self._length
        self._add(request.added, 2 * self._last_step)
        self._last_step = request.step
        if request.summary is not None or request.is_cut:
            self._note_change()
        prefix = self._cached(request, last_length) if last_length else min(request.zones.read, self._length)
        returned = 0
        if self._must_compact(request, prefix, last_length):
            n_kept = 0 if request.step in self._policy.fresh_at else self._policy.keep_steps
            removed = self._compact(request, prefix, last_length, n_kept)
            if removed is not None:
                prefix, returned = self._record.base, int(removed * self._read_again)
        if self._policy.clear_at is not None and self._length > self._policy.clear_at:
            prefix, cleared = self._clear(prefix)
            returned += int(cleared * self._read_again)
        if returned:
            self._add(Addition(returned, (AddedResult(0, returned, 0, "", ()),)), 2 * request.step - 1)
        self._pay(request, prefix)
        if self._lost and self._changed:
            self._read_files(request)

    def _take_compaction(self, request: RecordedRequest) -> None:
        """Compact as the record did; what its request cost is no part of the walk."""
        self._restart(request.summary or 0, len(self._additions))
        self._length, self._last_step = request.length, request.step
        self._lost.clear()  # what the record needed again, it read again
        self._pay(request, min(request.zones.read, request.length))

    def _note_change(self) -> None:
        """Note that a request is another one than on record: the first is where the exact part ends."""
        if not self._changed:
            self._changed, self._exact_units = True, self._units
            if self._policy.compact_at is None:
                self._threshold = self._record.compacted_at

    def _must_compact(self, request: RecordedRequest, prefix: int, last_length: int) -> bool:
        policy = self._policy
        if self._threshold is not None and self._length > self._threshold:
            return True
        is_cold = policy.cold_at is not None and self._length > policy.cold_at and 2 * prefix < last_length
        return is_cold or request.step in policy.fresh_at

    def _cached(self, request: RecordedRequest, last_length: int) -> int:
        """How much of the last prompt is read: not what the record missed, and nothing after its lifetime."""
        if self._lifetime_ms is not None or request.summary is not None:
            idle, lifetime = request.idle_ms or 0, self._lifetime_ms or request.lifetime_ms
            was_expired = idle > request.lifetime_ms and request.summary is None
            if (idle > lifetime) != was_expired:
                return last_length if was_expired else 0
        return last_length - last_length * request.missed_tokens // request.readable

    def _pay(self, request: RecordedRequest, prefix: int) -> None:
        """Add what a request costs that reads so many tokens from the cache."""
        length, window = self._length, self._record.window
        if window is not None and length > window and self._over_window_at is None:
            self._over_window_at = request.step
        if not self._changed:
            self._exact_until = request.step
            if not self._estimate_all:
                if self._lifetime_ms is None:
                    self._units += request.units
                    return
                share = self._cached(request, request.readable)
                if share == request.readable - request.missed_tokens:
                    prefix = request.zones.read
        rates, write, rest = request.rates.at(length), self._write_of(request), length - prefix
        tail = min(request.zones.fresh, rest) if write != FRESH else rest
        self._units += (
            prefix * rates[READ] + (rest - tail) * rates[write] + tail * rates[FRESH] + request.output * rates[OUTPUT]
        )

    def _write_of(self, request: RecordedRequest) -> int:
        return request.write if self._write is None or request.write == FRESH else self._write

    def _add(self, addition: Addition, step: int) -> None:
        self._length += addition.width
        if addition.results:
            self._note_results(addition, len(self._additions))
        self._additions.append(addition)
        self._steps.append(step)

    def _note_results(self, addition: Addition, position: int) -> None:
        """Note the results that an addition has: those to clear, and their files."""
        if self._policy.clear_at is not None:
            excluded = self._policy.clear_exclude
            self._results += [(position, index) for index, result in enumerate(addition.results)
                              if result.tool not in excluded and result.width > CLEARED_TOKENS]  # fmt: skip
        if self._by_reference:
            for result in addition.results:
                for file in result.files:
                    self._visible[file] = self._visible.get(file, 0) + 1
                    self._widths[file] = max(self._widths.get(file, 0), result.width // len(result.files))
                    self._lost.discard(file)

    def _forget(self, result: AddedResult) -> None:
        """Note that the prompt no longer has a result."""
        for file in result.files if self._by_reference else ():
            self._visible[file] -= 1
            if not self._visible[file]:
                self._lost.add(file)

    def _lose(self, tokens: int) -> None:
        """Take tokens from the end of the prompt, as on record: what goes without a compaction is mostly reasoning."""
        self._length -= tokens
        position = len(self._additions)
        while tokens and position:
            position -= 1
            addition = self._additions[position]
            taken_tokens = min(tokens, addition.width)
            self._additions[position] = addition._replace(width=addition.width - taken_tokens)
            tokens -= taken_tokens
        self._summary -= tokens
        if position < self._widths_to[0]:
            self._widths_to = (0, 0)

    def _compact(self, request: RecordedRequest, prefix: int, last_length: int, n_kept: int) -> int | None:
        """Put a summary in place of all but the last steps.

        Returns:
            The tokens of the results that are removed; None if there is nothing to summarise.
        """
        first_kept = len(self._steps)
        for _ in range(n_kept if first_kept else 0):
            first_kept = bisect_left(self._steps, self._steps[first_kept - 1]) if first_kept else 0
        if not any(addition.width for addition in islice(self._additions, first_kept)):
            return None
        self._note_change()
        # What is summarised is sent, the steps that are kept are not.
        sent_tokens = self._length - sum(addition.width for addition in islice(self._additions, first_kept, None))
        rates, resent = request.rates.at(sent_tokens), min(sent_tokens, last_length)
        prefix = min(prefix, resent)
        units = (
            prefix * rates[READ] + (resent - prefix) * rates[FRESH]
            + (sent_tokens - resent) * rates[self._write_of(request)]
            + min(self._summary_tokens, MAX_SUMMARY_OUTPUT) * rates[OUTPUT]
        )  # fmt: skip
        self._units += units
        self._extra_units += units
        removed = self._restart(self._summary_tokens, first_kept)
        self._changes += 1
        self._compactions += 1
        self._kept_tokens += self._length
        self._removed += removed
        return removed

    def _restart(self, summary: int, first_kept: int) -> int:
        """Begin the prompt anew with a summary and what is kept; the tokens of the results that are removed."""
        removed = 0
        for addition in islice(self._additions, first_kept):
            for result in addition.results:
                removed += result.width
                self._forget(result)
        del self._additions[:first_kept], self._steps[:first_kept]
        self._summary = summary
        self._length = self._record.base + summary + sum(addition.width for addition in self._additions)
        self._results, self._widths_to = [], (0, 0)
        if self._policy.clear_at is not None:
            by_reference, self._by_reference = self._by_reference, False  # their files are noted already
            for position, addition in enumerate(self._additions):
                self._note_results(addition, position)
            self._by_reference = by_reference
        return removed

    def _clear(self, prefix: int) -> tuple[int, int]:
        """Clear old results; how much is then read from the cache, and the tokens that are removed."""
        n_waiting = len(self._results) - self._policy.clear_keep
        waiting = self._results[: max(0, n_waiting)]
        widths = [self._additions[position].results[index].width for position, index in waiting]
        tokens = sum(widths) - CLEARED_TOKENS * len(widths)
        if not waiting or tokens < self._policy.clear_at_least:
            return prefix, 0
        self._note_change()
        position, index = waiting[0]
        from_place, width = self._widths_to
        width += sum(addition.width for addition in islice(self._additions, from_place, position))
        self._widths_to = (position, width)
        start = self._record.base + self._summary + width + self._additions[position].results[index].start
        removed = 0
        for position, index in waiting:
            addition = self._additions[position]
            self._forget(addition.results[index])
            self._additions[position] = _without(addition, index)
            removed += addition.width - self._additions[position].width
        del self._results[:n_waiting]
        self._length -= removed
        self._changes += 1
        self._removed += removed
        return min(prefix, start), removed

    def _read_files(self, request: RecordedRequest) -> None:
        """Read again what the prompt has lost of the files that the calls of a step name, each in its own request.

        A file that the record reads here is read by the record.
        """
        self._lost.difference_update(request.reads)
        for file in request.uses:
            if file in self._lost:
                rates, width = request.rates.at(self._length), self._widths[file]
                units = self._length * rates[READ] + _CALL_TOKENS * rates[OUTPUT]
                units += width * rates[self._write_of(request)]
                self._units += units
                self._extra_units += units
                self._reads_again += 1
                self._add(Addition(width, (AddedResult(0, width, 0, "", (file,)),)), 2 * request.step - 1)


def _without(addition: Addition, index: int) -> Addition:
    """An addition with one of its results cleared."""
    result = addition.results[index]
    tokens = min(result.width - CLEARED_TOKENS, addition.width)
    cleared = result._replace(width=result.width - tokens, files=())
    later = [other._replace(start=other.start - tokens) for other in addition.results[index + 1 :]]
    return Addition(addition.width - tokens, (*addition.results[:index], cleared, *later))
