"""`context_df`: what each request had in its prompt, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from boolab.core.allocation import PIECES, RequestBill, round_amounts
from boolab.core.prompt_parts import PartKind, is_cut
from boolab.core.run import Run
from boolab.core.types import MICRO, Step
from boolab.frames.dtypes import FLOAT, INT, TEXT, Column, frame_of_columns
from boolab.frames.runs import Runs
from boolab.frames.tables import dollars
from boolab.stats.cost.allocated import AllocatedRun, allocate_runs, facts_of_bill

if TYPE_CHECKING:
    import pandas as pd


class _ContextRow(NamedTuple):
    run: Run
    step: Step
    request: RequestBill | None  # None where its tokens are not on record


def context_df(runs: Runs) -> pd.DataFrame:
    """One row for each step: the tokens of its prompt, what was added and what went, and what it cost.

    Args:
        runs: A run, runs, or the path of a store or of logs.

    Returns:
        run_id, step, turn, model; context (the tokens of its prompt); added, of which added_by_results,
        added_by_output, added_by_user and added_unseen; cached, written_5m, written_1h and fresh, which add up to the
        context; missed (tokens of the last prompt that were not read from the cache); left (tokens that went); event
        (`compaction`, `shrunk`, or NA); idle_s (seconds from the last response to this request); cost_usd, of which
        output_usd, first_usd, reread_usd and rewrite_usd; output_is (`recorded`, or `cut` where the log has the
        beginning of a response's count); output_estimated, for these; width_is (`measured`, `shared` or `estimated`:
        how sure the division of what was added is). What a log lacks is NA. `attrs` as of `bl.cost_by`.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> bl.context_df(run)[["step", "event"]].isna().values.tolist()
        [[False, True]]
    """
    return context_frame(allocate_runs(runs))


def context_frame(allocated: Sequence[AllocatedRun]) -> pd.DataFrame:
    """The frame of `context_df`, of runs whose charges are known."""
    rows = []
    for run, allocation in allocated:
        requests = {request.step.index: request for request in allocation.requests}
        rows += [_ContextRow(run, step, requests.get(step.index)) for step in run.steps]
    frame = frame_of_columns(_COLUMNS, rows)
    facts = facts_of_bill(allocated)
    frame.attrs["bill"], frame.attrs["notes"] = facts._asdict(), facts.notes()
    return frame


def _of_request(get: Callable[[RequestBill], Any]) -> Callable[[_ContextRow], Any]:
    return lambda row: None if row.request is None else get(row.request)


def _of_cache(get: Callable[[RequestBill], Any]) -> Callable[[_ContextRow], Any]:
    return _of_request(lambda request: None if request.missed_tokens is None else get(request))


def _added(*kinds: PartKind) -> Callable[[_ContextRow], Any]:
    return _of_request(lambda request: sum(s.first_width for s in request.change.added if s.part.kind in kinds))


def _piece(position: int) -> Callable[[_ContextRow], Any]:
    return _of_request(
        lambda request: None if request.units is None else round_amounts(request.units)[position] / MICRO
    )


_COLUMNS: Final = (
    Column("run_id", TEXT, lambda row: row.run.run_id),
    Column("step", INT, lambda row: row.step.index),
    Column("turn", INT, lambda row: row.step.turn),
    Column("model", TEXT, lambda row: row.step.response.model or row.run.model or None),
    Column("context", INT, _of_request(lambda request: sum(request.zones))),
    Column("added", INT, _of_request(lambda request: sum(s.first_width for s in request.change.added))),
    Column("added_by_results", INT, _added("result")),
    Column("added_by_output", INT, _added("reasoning", "text", "call")),
    Column("added_by_user", INT, _added("user")),
    Column("added_unseen", INT, _added("unseen")),
    Column("cached", INT, _of_cache(lambda request: request.zones.read)),
    Column("written_5m", INT, _of_cache(lambda request: request.zones.write_5m)),
    Column("written_1h", INT, _of_cache(lambda request: request.zones.write_1h)),
    Column("fresh", INT, _of_cache(lambda request: request.zones.fresh)),
    Column("missed", INT, _of_request(lambda request: request.missed_tokens)),
    Column("left", INT, _of_request(lambda request: request.change.left_tokens)),
    Column("event", TEXT, _of_request(lambda request: request.change.event or None)),
    Column("idle_s", FLOAT, _of_request(lambda r: None if r.idle_ms is None else r.idle_ms / 1000)),
    Column("cost_usd", FLOAT, lambda row: dollars(row.step.response.usage.cost)),
    *(Column(f"{piece}_usd", FLOAT, _piece(position)) for position, piece in enumerate(PIECES)),
    Column("output_is", TEXT, lambda row: _output_is(row.step)),
    Column("output_estimated", INT, _of_request(lambda request: request.output_estimated)),
    Column("width_is", TEXT, _of_request(lambda request: request.change.width_is)),
)


def _output_is(step: Step) -> str | None:
    if step.response.usage.output_tokens is None:
        return None
    return "cut" if is_cut(step) else "recorded"
