"""`cache_misses_df`: where the provider's cache missed, what it cost, and why."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from boolab.core.allocation import RequestBill
from boolab.core.run import Run
from boolab.display.numbers import duration, money, short_number
from boolab.frames.dtypes import FLOAT, INT, TEXT, Column, frame_of_columns
from boolab.frames.runs import Runs
from boolab.stats.cost.allocated import AllocatedRun, allocate_runs, dollars_of, facts_of_bill

if TYPE_CHECKING:
    import pandas as pd

MissCause: TypeAlias = Literal[
    "stated", "model switched", "expired", "history changed", "new turn, within the lifetime", "after a notification",
    "unexplained",
]  # fmt: skip

LEAST_MISSED: Final = 2_000
"""A miss has more tokens: providers read their caches in blocks, and not below a least length."""
HOUR_MS: Final = 3_600_000
WRITTEN_5M_MS: Final = 300_000
_UNWRITTEN_MS: Final = 600_000
"""Where a provider charges no writes, such as OpenAI: entries are evicted after 5 to 10 idle minutes."""


class CacheMiss(NamedTuple):
    """A request that sent again in full what stood in the last prompt."""

    run: Run
    request: RequestBill
    cause: MissCause

    @property
    def extra_usd(self) -> float | None:
        """What it cost more than a read; None if that is unknown."""
        return None if self.request.extra_units is None else dollars_of(self.request.extra_units)

    def describe(self) -> str:
        """What it cost, why, and the pause before it, in words."""
        usd = "" if self.extra_usd is None else f"{money(self.extra_usd)} extra"
        idle = "" if self.request.idle_ms is None else f"{duration(self.request.idle_ms)} after the last response"
        tokens = f"{short_number(self.request.missed_tokens or 0)} tokens"
        return ", ".join(filter(None, (usd, tokens, self.cause, idle)))


def cache_misses_df(runs: Runs) -> pd.DataFrame:
    """One row for each miss of the provider's cache: more than 2,000 tokens of the last prompt were not read from it.

    A prompt after a compaction is another one, so it misses nothing.

    Args:
        runs: A run, runs, or the path of a store or of logs.

    Returns:
        run_id, step, turn, model, missed (tokens), extra_usd (what they cost more than if they had been read), idle_s,
        and cause, the first that applies: `stated` (the log has the provider's reason: an event `cache_miss`); `model
        switched`; `expired` (idle for longer than the lifetime that was written: an hour, 5 minutes, or 10 where a
        provider charges no writes); `history changed` (the prompt became shorter, or was rewound); `new turn, within
        the lifetime`; `after a notification` (a message came in within the turn); `unexplained`. Without times, nothing
        is known of lifetimes. `attrs` as of `bl.cost_by`.

    Example:
        >>> import boolab as bl
        >>> bl.cache_misses_df([]).columns.tolist()
        ['run_id', 'step', 'turn', 'model', 'missed', 'extra_usd', 'idle_s', 'cause']
    """
    return misses_frame(allocate_runs(runs))


def misses_frame(allocated: Sequence[AllocatedRun]) -> pd.DataFrame:
    """The frame of `cache_misses_df`, of runs whose charges are known."""
    frame = frame_of_columns(_COLUMNS, [*chain.from_iterable(map(cache_misses, allocated))])
    facts = facts_of_bill(allocated)
    frame.attrs["bill"], frame.attrs["notes"] = facts._asdict(), facts.notes()
    return frame


def cache_misses(allocated: AllocatedRun) -> list[CacheMiss]:
    """The misses of a run."""
    run, requests = allocated.run, allocated.allocation.requests
    rewound = {event.payload.get("after_step") for event in run.events if event.kind == "rewind"}
    stated = {event.payload.get("after_step") for event in run.events if event.kind == "cache_miss"}
    came_in = {step_index for step_index, message in run.inputs if message.role == "user"}
    misses = []
    for (last, request), lifetime in zip(pairwise(requests), lifetimes_of(requests)[1:], strict=False):
        if request.missed_tokens is not None and request.missed_tokens > LEAST_MISSED:
            step_range = range(last.step.index, request.step.index)
            has_input = any(step + 1 in came_in for step in step_range)
            cause = _cause(last, request, lifetime, rewound=not rewound.isdisjoint(step_range), has_input=has_input)
            misses.append(CacheMiss(run, request, "stated" if request.step.index in stated else cause))
    return misses


def lifetimes_of(requests: Sequence[RequestBill]) -> list[int]:
    """For how many milliseconds what was written before each request lives in the cache."""
    lifetimes, lifetime = [], _UNWRITTEN_MS
    for request in requests:
        lifetimes.append(lifetime)
        if request.zones.write_1h or request.zones.write_5m:
            lifetime = HOUR_MS if request.zones.write_1h else WRITTEN_5M_MS
    return lifetimes


def _cause(last: RequestBill, request: RequestBill, lifetime: int, *, rewound: bool, has_input: bool) -> MissCause:
    idle = request.idle_ms
    if request.served.model != last.served.model:
        return "model switched"
    if idle is not None and idle > lifetime:
        return "expired"
    if request.change.event or rewound:
        return "history changed"
    if request.step.turn != last.step.turn:
        return "unexplained" if idle is None else "new turn, within the lifetime"
    return "after a notification" if has_input else "unexplained"


_COLUMNS: Final = (
    Column("run_id", TEXT, lambda miss: miss.run.run_id),
    Column("step", INT, lambda miss: miss.request.step.index),
    Column("turn", INT, lambda miss: miss.request.step.turn),
    Column("model", TEXT, lambda miss: miss.request.served.model or None),
    Column("missed", INT, lambda miss: miss.request.missed_tokens),
    Column("extra_usd", FLOAT, lambda miss: miss.extra_usd),
    Column("idle_s", FLOAT, lambda m: None if m.request.idle_ms is None else m.request.idle_ms / 1000),
    Column("cause", TEXT, lambda miss: miss.cause),
)
