"""`cost_by`: the bill of runs by what caused it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from boolab.core.allocation import PIECES, CauseCharge, round_amounts
from boolab.core.prompt_parts import PromptPart, message_parts, response_parts, result_part
from boolab.core.redacted import redacted_arguments
from boolab.core.run import Run
from boolab.core.run_tree import roots_in
from boolab.core.types import MICRO
from boolab.errors import SettingError
from boolab.frames.dtypes import FLOAT, INT, TEXT, Column, frame_of_columns, replace_surrogates
from boolab.frames.runs import Runs, list_columns, no_group_column
from boolab.stats.cost.allocated import AllocatedRun, allocate_runs, facts_of_bill
from boolab.stats.cost.files import PATHS, arguments_of

if TYPE_CHECKING:
    import pandas as pd


class _Cause(NamedTuple):
    """A part of a prompt, or of a response, of a run; and the model and effort of the requests that pay for it."""

    run: Run
    root: str
    part: PromptPart
    model: str
    effort: str | None


def _path(cause: _Cause) -> str | None:
    """The file that a call names, or of the call of a result; in facts a number that stands for its arguments."""
    step, position = cause.part.step, cause.part.call
    if position is None:
        return None
    call = cause.run.steps[step - 1].response.tool_calls[position]
    digest = redacted_arguments(call.arguments)
    if digest is not None:
        return f"arguments {digest.canonical}"
    arguments = arguments_of(call)
    return next((arguments[name] for name in PATHS if isinstance(arguments.get(name), str)), None)


KEYS: Final[Mapping[str, tuple[str, Callable[[_Cause], Any]]]] = {
    "kind": (TEXT, lambda cause: cause.part.kind),
    "tool": (TEXT, lambda cause: cause.part.tool or f"({cause.part.kind})"),
    "step": (INT, lambda cause: cause.part.step),
    "turn": (INT, lambda cause: cause.part.turn),
    "model": (TEXT, lambda cause: cause.model or None),
    "effort": (TEXT, lambda cause: cause.effort),
    "harness_version": (TEXT, lambda cause: cause.run.harness_version),
    "agent": (TEXT, lambda cause: cause.run.agent),
    "tree": (TEXT, lambda cause: cause.root),
    "task": (TEXT, lambda cause: cause.run.task),
    "path": (TEXT, _path),
    "run_id": (TEXT, lambda cause: cause.run.run_id),
}


def cost_by(runs: Runs, by: str | Sequence[str] = ("tool",)) -> pd.DataFrame:
    """The bill of runs by cause: each token of a request is charged to what put it there.

    Caches are prefixes, so what each part of a prompt costs depends on its place in it (`boolab.core.allocation`). The
    sum of the rows is the bill to the micro-dollar, whatever the widths of the parts are; these are what may be wrong,
    where a log does not have them.

    Args:
        runs: A run, runs, or the path of a store or of logs; runs of subagents are counted where they are among them
            (`bl.with_subagents`).
        by: One or several of `kind` (base: the system prompt and the tools; user, result, call, text, reasoning,
            summary, unseen: what no line of the log has, such as reminders; unallocated), `tool` (of a call and its
            result, else the kind in brackets), `step` and `turn` (that put it there; step 0 is the prompt), `model` and
            `effort` (of the requests that pay for it), `harness_version`, `agent`, `tree` (the root of a family of
            runs), `task`, `path` (the file that a call names), `run_id`.

    Returns:
        A row for each cause, the dearest first: `by`; rank; requests (that had it); output_tokens, first_tokens,
        reread_tokens (sent again, from the cache) and rewrite_tokens (sent again, and not read from the cache);
        output_usd, first_usd, reread_usd, rewrite_usd, total_usd; share of the bill; share_measured, the share of its
        dollars whose width one part took all of (the rest is shared by characters, or estimated). `attrs["bill"]` has
        bill_usd and what is not in it, `attrs["notes"]` the same as sentences. Dollars are NA where no request of a row
        has a known cost. Runs with totals only have no dollars; where all are such, rank is by characters.

    Raises:
        SettingError: if `by` has another name.

    Example:
        >>> import boolab as bl
        >>> run = bl.run_sync(None, "Hello", model=bl.ScriptedModel(["Hi."]))
        >>> bl.cost_by(run, by=["kind"])["kind"].tolist()
        ['user', 'text']
    """
    return causes_frame(allocate_runs(runs), by)


def causes_frame(allocated: Sequence[AllocatedRun], by: str | Sequence[str]) -> pd.DataFrame:
    """The frame of `cost_by`, of runs whose charges are known."""
    names = list_columns(by)
    for name in names:
        if name not in KEYS:
            raise no_group_column(name, KEYS)
    if not names:
        raise SettingError(f"by=[]: there are no causes without a column; accepted: {', '.join(KEYS)}")
    groups: defaultdict[tuple[Hashable, ...], list[tuple[int, CauseCharge]]] = defaultdict(list)
    roots = [allocated[root].run.run_id for root in roots_in([row.run for row in allocated])]
    for index, row in enumerate(allocated):
        for charge in row.allocation.charges:
            cause = _Cause(row.run, roots[index], charge.part, *charge.served)
            groups[tuple(KEYS[name][1](cause) for name in names)].append((index, charge))
    weights: Counter[tuple[Hashable, ...]] = Counter()
    if allocated and not groups:
        for index, row in enumerate(allocated):
            for part, weight in _character_weights(row.run):
                cause = _Cause(row.run, roots[index], part, row.run.model, row.run.effort)
                weights[tuple(KEYS[name][1](cause) for name in names)] += weight
    rows = _ranked_rows(weights) if weights else _dollar_rows(groups, _RequestCounts(allocated))
    facts = facts_of_bill(allocated)
    columns = [
        *(Column(name, KEYS[name][0], _key(position, KEYS[name][0])) for position, name in enumerate(names)),
        *(Column(name, dtype, _value(name)) for name, dtype in _COLUMNS.items()),
    ]
    frame = frame_of_columns(columns, rows)
    frame.attrs["bill"] = facts._asdict()
    frame.attrs["notes"] = facts.notes()
    return frame


_COLUMNS: Final[Mapping[str, str]] = {
    "rank": INT,
    "requests": INT,
    **{f"{piece}_tokens": INT for piece in PIECES},
    **{f"{piece}_usd": FLOAT for piece in PIECES},
    "total_usd": FLOAT,
    "share": FLOAT,
    "share_measured": FLOAT,
}


class _CauseRow(NamedTuple):
    key: tuple[Any, ...]
    columns: Mapping[str, Any]


def _key(position: int, dtype: str) -> Callable[[_CauseRow], Any]:
    if dtype == INT:
        return lambda row: row.key[position]
    return lambda row: None if row.key[position] is None else replace_surrogates(row.key[position])


def _value(name: str) -> Callable[[_CauseRow], Any]:
    return lambda row: row.columns.get(name)


def _dollar_rows(
    groups: Mapping[tuple[Hashable, ...], list[tuple[int, CauseCharge]]], served: _RequestCounts
) -> list[_CauseRow]:
    """The rows with dollars, the dearest first, in whole micro-dollars by largest remainder over all of the table."""
    units = [_sum_pieces(charge.units for _, charge in charges) for charges in groups.values()]
    amounts = round_amounts([*chain.from_iterable(units)])
    bill = sum(amounts)
    rows = []
    for position, (key, charges) in enumerate(groups.items()):
        micro = amounts[4 * position : 4 * position + 4]
        tokens = _sum_pieces(charge.tokens for _, charge in charges)
        total = sum(units[position])
        measured = sum(sum(charge.units) for _, charge in charges if charge.width_is == "measured")
        values: dict[str, float | None] = {
            "requests": served.count_requests(charges),
            **{f"{piece}_tokens": number for piece, number in zip(PIECES, tokens, strict=True)},
        }
        if total or served.has_price(charges):
            values |= {f"{piece}_usd": number / MICRO for piece, number in zip(PIECES, micro, strict=True)}
            values["total_usd"] = sum(micro) / MICRO
            values["share"] = sum(micro) / bill if bill else None
            values["share_measured"] = measured / total if total else None
        rows.append(_CauseRow(key, values))
    rows.sort(key=lambda row: (-row.columns.get("total_usd", -1), -row.columns["requests"]))
    return [row._replace(columns={"rank": rank, **row.columns}) for rank, row in enumerate(rows, 1)]


def _ranked_rows(weights: Counter[tuple[Hashable, ...]]) -> list[_CauseRow]:
    """The rows of runs with totals only: their order alone."""
    return [_CauseRow(key, {"rank": rank}) for rank, (key, _) in enumerate(weights.most_common(), 1)]


def _sum_pieces(amounts: Iterable[Sequence[int]]) -> list[int]:
    return [sum(of_piece) for of_piece in zip(*amounts, strict=True)]


class _RequestCounts:
    """The requests of runs, to count those that had one of some parts in their prompt, or wrote it."""

    def __init__(self, allocated: Sequence[AllocatedRun]) -> None:
        self._numbers: dict[tuple[int, Hashable], list[int]] = {}
        self._priced: set[tuple[int, Hashable]] = set()
        for index, row in enumerate(allocated):
            for number, request in enumerate(row.allocation.requests):
                self._numbers.setdefault((index, request.served), []).append(number)
                if request.units is not None:
                    self._priced.add((index, request.served))

    def has_price(self, charges: Sequence[tuple[int, CauseCharge]]) -> bool:
        """Whether the cost of any request that paid for these parts may be known: else nothing is not $0."""
        return any((index, charge.served) in self._priced for index, charge in charges)

    def count_requests(self, charges: Sequence[tuple[int, CauseCharge]]) -> int:
        spans: dict[tuple[int, Hashable], list[tuple[int, int]]] = {}
        for index, charge in charges:
            spans.setdefault((index, charge.served), []).append((charge.first_request, charge.last_request))
        n_requests = 0
        for key, of_key in spans.items():
            numbers, last_counted = self._numbers.get(key, []), -1
            for first, last in sorted(of_key):
                start = max(first, last_counted + 1)
                if start <= last:
                    n_requests += bisect_right(numbers, last) - bisect_left(numbers, start)
                    last_counted = last
        return n_requests


def _character_weights(run: Run) -> Iterable[tuple[PromptPart, int]]:
    """The parts of a run with totals only: their characters, once for each request that is sent them."""
    n_steps = len(run.steps)
    for message in run.prompt:
        for sized in message_parts(message, 0, 1):
            yield sized.part, sized.weight * n_steps
    for step in run.steps:
        later = n_steps - step.index
        for sized in response_parts(step):
            yield sized.part, sized.weight * (later + 1)
        for position, (call, result) in enumerate(zip(step.response.tool_calls, step.results, strict=True)):
            if result is not None:
                sized = result_part(step, position, call, result)
                yield sized.part, sized.weight * later
