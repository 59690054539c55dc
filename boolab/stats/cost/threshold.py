"""`compaction_threshold`: the length of a context at which compaction costs least, as a law and from a record.

A context grows by g tokens a step from B, the base with a summary. To send a token again costs p, a compaction C and
the reading of what it sums up. With compaction at T, the mean cost of a step that depends on T is

    p (B + T) / 2 + g (C + T p) / (T - B),

least at T* = B + sqrt(2 g (C + B p) / p): the order quantity of stock keeping (Harris 1913). It is a law for long runs;
one compaction pays only if enough steps follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from boolab.core.allocation import UNITS
from boolab.core.text import count
from boolab.core.types import MICRO
from boolab.errors import SettingError
from boolab.frames.dtypes import FLOAT, TEXT, cells
from boolab.frames.runs import Runs
from boolab.harnesses.exports.values import Export, Limits
from boolab.stats.cost.allocated import allocate_runs
from boolab.stats.cost.policy_costs import Basis, basis_of, refusal_notes
from boolab.stats.cost.policy_walk import MAX_SUMMARY_OUTPUT
from boolab.stats.cost.request_record import OUTPUT, READ, RequestRecord
from boolab.stats.finding import Finding
from boolab.stats.intervals import ClusterBootstrap, clopper_pearson, expand_tail, percentiles

_FLAT: Final = 0.05
"""By how much more a step may cost in the flat range."""
_TAIL: Final = 0.025
_BASIS: Final = (
    "The percent are of what depends on the threshold: text that is sent again, and compactions. What a summary "
    "forgets is not in it, nor any outcome: bl.context_costs has bounds."
)

Array = npt.NDArray[np.float64]


class ThresholdLaw(NamedTuple):
    """The quantities of the law, each a number or an array of them; costs are in dollars, lengths in tokens.

    `resend` is for a token; `base` is without the summary and the kept steps, `start` with both.
    """

    growth: Array
    base: Array
    summary: Array
    start: Array
    compaction: Array
    resend: Array

    @property
    def threshold(self) -> Array:
        """Where compaction costs least."""
        return self.start + np.sqrt(2 * self._order_cost / self.resend)

    @property
    def flat_range(self) -> tuple[Array, Array]:
        """From where to where a step costs at most 5% more than at the threshold, of what depends on it."""
        fixed = self.resend * (self.start + self.growth)
        lowest = fixed + np.sqrt(2 * self._order_cost * self.resend)
        half = ((1 + _FLAT) * lowest - fixed) / self.resend
        width = np.sqrt(half**2 - 2 * self._order_cost / self.resend)
        return self.start + half - width, self.start + half + width

    @property
    def break_even_steps(self) -> Array:
        """How many more steps one compaction at the threshold needs until it has paid."""
        length = self.threshold
        return (self.compaction + length * self.resend) / (self.resend * (length - self.start))

    @property
    def _order_cost(self) -> Array:
        return self.growth * (self.compaction + self.start * self.resend)


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdFinding(Finding):
    """The finding of `compaction_threshold`, with its main numbers in tokens and steps."""

    threshold: int = 0
    flat_range: tuple[int, int] = (0, 0)
    break_even_steps: int = 0
    share_with_steps: float = 0.0

    def export(self, target: str, *, window: int | None = None, max_output: int | None = None) -> Export:
        """The threshold as the setting of a harness, ready to paste, with the number that the harness really uses.

        Args:
            target: The harness: `codex`, `opencode` or `claude-code`.
            window: The context window of the model, in tokens: for opencode its input limit. Claude Code has 200,000
                by default.
            max_output: The most tokens of a response of the model, for Claude Code; by default 20,000 or more.

        Returns:
            What to paste where. `print` shows it, `write` sets it in the files of the harness.

        Raises:
            SettingError: if no setting of the harness for it is known.

        Example:
            >>> import boolab as bl
            >>> agent = bl.Agent("editor", max_steps=400, tool_budget=None, doom_loop=None)
            >>> found = bl.compaction_threshold(bl.run_sync(agent, "t", model=bl.EditorModel(seed=1)))
            >>> found.export("codex").parts[0].changes[0].at
            ('model_auto_compact_token_limit',)
        """
        from boolab.harnesses.exports.export import export

        return export(target, Limits(compact_at=self.threshold, window=window, max_output=max_output))


def compaction_threshold(runs: Runs, *, keep_steps: int = 0) -> ThresholdFinding:
    """At what length of the context compaction costs least, if the steps stay the same.

    The law of `boolab.stats.cost.threshold`, with quantities from the record. It assumes long runs that grow steadily;
    `bl.context_costs` computes with the recorded steps themselves, and is about money only, too.

    Args:
        runs: A run, runs, or the path of a store or of logs.
        keep_steps: The number of latest steps that a compaction leaves as they are.

    Returns:
        A finding: `threshold` (T*, in tokens), `flat_range` (where a step costs at most 5% more, of what depends on the
        threshold), `break_even_steps` (how many more steps one compaction needs to pay), and `share_with_steps` (of
        runs that had so many after they reached the threshold). Its frame has a row for each quantity, with an interval
        by run where there are two or more (bootstrap; 95%): threshold, range_low, range_high, growth (g, tokens a
        step), base, summary (S), start (B: base, summary and kept steps), compaction_usd (C), resend_usd (p, for a
        million tokens), break_even_steps, share_with_steps.

    Raises:
        SettingError: if no run can be computed with; the message has the reason.

    Example:
        >>> import boolab as bl
        >>> model = bl.EditorModel(seed=1)
        >>> run = bl.run_sync(bl.Agent("editor", max_steps=400, tool_budget=None, doom_loop=None), "t", model=model)
        >>> found = bl.compaction_threshold(run)
        >>> found.flat_range[0] < found.threshold < found.flat_range[1]
        True
    """
    return threshold_finding(basis_of(allocate_runs(runs)), keep_steps)


def threshold_finding(basis: Basis, keep_steps: int = 0) -> ThresholdFinding:
    """The finding of runs whose records are known."""
    records = [record for record, refusal in zip(basis.records, basis.refusals, strict=True) if not refusal]
    if not records:
        reasons = " ".join(refusal_notes(basis.refusals)) or "there are no runs."
        raise SettingError(f"no compaction threshold can be computed: {reasons}")
    sums = np.array([_sums_of(record, basis.summary_tokens[record.run.source]) for record in records])
    law = _law(sums.sum(axis=0), keep_steps)
    if not (law.growth > 0 and law.resend > 0):
        msg = "no compaction threshold can be computed: the prompts do not grow, or to send them again costs nothing"
        raise SettingError(msg)
    threshold, steps = int(law.threshold), ceil(law.break_even_steps)
    n_further = [_steps_beyond(record, threshold) for record in records]
    n_enough = sum(n_steps >= steps for n_steps in n_further)
    share = clopper_pearson(n_enough, len(records))
    low, high = map(int, law.flat_range)
    optimum = (
        f"Compaction costs least at {threshold:,} tokens, and at most {_FLAT:.0%} more from {low:,} to {high:,}, if "
        "the steps stay the same and go on for long."
    )
    pays = (
        f"One compaction there pays after {count(steps, 'more step')}: {n_enough} of {count(len(records), 'run')} "
        f"{'has' if n_enough == 1 else 'have'} so many."
    )
    return ThresholdFinding(
        title="Compaction threshold",
        frame=_frame(law, _resampled(sums, keep_steps), len(records), (n_enough / len(records), *share)),
        sentences=(optimum, pays),
        notes=(*refusal_notes(basis.refusals), _BASIS),
        threshold=threshold,
        flat_range=(low, high),
        break_even_steps=steps,
        share_with_steps=n_enough / len(records),
    )


class _Sums(NamedTuple):
    """Sums over the requests of a run, or of several, of which the law's quantities are ratios; costs in dollars."""

    requests: Array
    base: Array
    summary: Array
    growths: Array
    growth: Array
    resent: Array
    resent_usd: Array
    written: Array
    written_usd: Array
    output: Array
    output_usd: Array


def _sums_of(record: RequestRecord, summary_tokens: int) -> list[float]:
    requests, growths = record.requests, record.requests[1:]
    resent = resent_cost = written = written_cost = output_cost = 0
    for request in growths:
        rates = request.rates.at(request.length)
        write_rate = rates[request.write]
        written += request.added.width
        written_cost += request.added.width * write_rate
        if request.summary is None:
            resent += request.readable
            resent_cost += request.readable * rates[READ] + request.missed_tokens * (write_rate - rates[READ])
    for request in requests:
        output_cost += request.output * request.rates.at(request.length)[OUTPUT]
    output = sum(request.output for request in requests)
    growth = written - sum(request.lost_tokens for request in growths)
    costs = [cost / (UNITS * MICRO) for cost in (resent_cost, written_cost, output_cost)]
    n_requests = len(requests)
    return [
        n_requests, n_requests * record.base, n_requests * summary_tokens, len(growths), growth,
        resent, costs[0], written, costs[1], output, costs[2],
    ]  # fmt: skip


def _law(sums: Array, keep_steps: int) -> ThresholdLaw:
    """The law from sums over runs: each row of them gives one."""
    of_runs = _Sums(*np.moveaxis(np.asarray(sums, float), -1, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = of_runs.growth / of_runs.growths
        base, summary = of_runs.base / of_runs.requests, of_runs.summary / of_runs.requests
        resend, write_rate = of_runs.resent_usd / of_runs.resent, of_runs.written_usd / of_runs.written
        output_rate = of_runs.output_usd / of_runs.output
        kept_tokens = keep_steps * growth
        compaction = np.minimum(summary, MAX_SUMMARY_OUTPUT) * output_rate + (summary + kept_tokens) * write_rate
    return ThresholdLaw(growth, base, summary, base + summary + kept_tokens, compaction, resend)


def _resampled(sums: Array, keep_steps: int) -> ThresholdLaw | None:
    """The law of runs that are drawn anew; None below two runs."""
    if len(sums) < 2:  # noqa: PLR2004
        return None
    bootstrap = ClusterBootstrap(np.arange(len(sums)))
    return _law(np.concatenate([weights.astype(float) @ sums for weights in bootstrap.weights()]), keep_steps)


def _steps_beyond(record: RequestRecord, threshold: int) -> int:
    """How many requests a run had after its prompt, had it never been compacted, was longer than a threshold."""
    length = record.base
    for position, request in enumerate(record.requests):
        length += request.added.width - request.lost_tokens
        if length > threshold:
            return len(record.requests) - position
    return 0


def _quantities(law: ThresholdLaw) -> dict[str, Array]:
    low, high = law.flat_range
    return {
        "threshold": law.threshold,
        "range_low": low,
        "range_high": high,
        "growth": law.growth,
        "base": law.base,
        "summary": law.summary,
        "start": law.start,
        "compaction_usd": law.compaction,
        "resend_usd": law.resend * MICRO,
        "break_even_steps": law.break_even_steps,
    }


def _frame(law: ThresholdLaw, resampled: ThresholdLaw | None, n_runs: int, share: Sequence[float]) -> pd.DataFrame:
    values = {name: float(value) for name, value in _quantities(law).items()}
    ends = [[None] * len(values)] * 2
    if resampled is not None:
        draws = np.column_stack([*_quantities(resampled).values()])
        draws[~np.isfinite(draws)] = np.nan
        tail = float(expand_tail(_TAIL, n_runs))
        ends = percentiles(draws, [tail, 1 - tail]).tolist()
    return pd.DataFrame(
        {
            "quantity": cells([*values, "share_with_steps"], TEXT),
            "value": cells([*values.values(), share[0]], FLOAT),
            "low": cells([*ends[0], share[1]], FLOAT),
            "high": cells([*ends[1], share[2]], FLOAT),
        }
    )
