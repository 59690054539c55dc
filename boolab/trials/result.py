"""What a trial has found so far: three kinds of evidence, each with its name, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import pandas as pd

from boolab.core.displayable import Displayable
from boolab.core.text import count
from boolab.display.document import Document, Table
from boolab.display.numbers import money, percent
from boolab.display.text import capitalize
from boolab.errors import SettingError
from boolab.stats.intervals import Interval
from boolab.trials.estimates import Forecast
from boolab.trials.hazards import HazardEstimate

WIDTH: Final = 0.05
"""How wide the interval of the gain may be, as a share of all runs, by default."""


def check_width(width: object) -> float:
    """Return a share of all runs; `SettingError` if it is no number above 0."""
    if not isinstance(width, int | float) or isinstance(width, bool) or not 0 < width < math.inf:
        raise SettingError(f"width={width!r}: expected a share of all runs above 0, such as 0.05")
    return float(width)


class TrialEstimate(NamedTuple):
    """An estimate with its interval; `value` is None before the first branch."""

    value: float | None
    low: float
    high: float

    @property
    def width(self) -> float:
        """How wide the interval is."""
        return self.high - self.low


class Effects(NamedTuple):
    """What the change did to the runs that were branched.

    Attributes:
        failures: How many failures on record were branched.
        recovered: How many of them became successes.
        successes: How many successes on record were branched.
        lost: How many of them became failures.
    """

    failures: int
    recovered: int
    successes: int
    lost: int

    @property
    def threshold(self) -> float | None:
        """The share of failures above which the change gains more than it loses: d / (r + d); None if unknown.

        Source: Vasudev et al., Accurate Failure Prediction in Agents Does Not Imply Effective Failure Prevention (arXiv
        2602.03338).

        Example:
            >>> Effects(failures=40, recovered=12, successes=10, lost=2).threshold
            0.4
        """
        if not self.failures or (not self.recovered and not self.lost):
            return None
        r = self.recovered / self.failures
        d = self.lost / self.successes if self.successes else 0.0
        return d / (r + d)


@dataclass(frozen=True, eq=False, repr=False)
class TrialResult(Displayable):
    """What a trial has found so far. Shown by itself in a notebook; `print` gives the same as text.

    Attributes:
        change: What is tried, in words.
        success: What counts as a success, in words.
        n_runs: The runs on record.
        successes: How many of them are successes.
        outcomes: How many runs the record leaves `unchanged`, `truncated`, `open` and `unknown`.
        bounds: The gain in successes at least and at most, by the record alone.
        other: The part of the bounds that no branch can narrow: of runs that are truncated or unknown.
        hazards: What longer runs on record suggest.
        gain: By branches, the successes that the change adds to these runs, with an interval that holds at every look.
        extra_steps: The steps that it adds, likewise; None where they have no bound.
        extra_cost: The dollars that branches add under `cost_limit`, likewise; None without it, or where costs are not
            known. The most that a branch may cost is taken to be `cost_limit`, and twice the dearest step and summary
            so far. If one cost more, or no cost is known, there is no upper end before all are branched.
        per_success: The dollars (else the steps) of an additional success; infinite above where the gain may be 0.
        recorded_per_success: What a success on record costs, in its steps and the same unit; None if unknown.
        n_branches: How many branches count.
        n_open: How many there can be.
        n_unknown: How many of those that count have an outcome that is not known.
        n_beyond: How many values went beyond their stated maximum. They count as they are.
        spent: The dollars of all branches; one whose cost is not known counts as `cost_limit`.
        effects: The results of the change, for successes and for failures on record.
        forecast: How many branches an interval of some width, in successes, is likely to take in all.
        confidence: Of each interval.
        simulated: Whether a simulated model answers in branches, so that they are a rehearsal.
        looks: A row after each task: the gain and the extra use so far, with their intervals.
        runs: A row for each run: what the record knows, its branch, and why its outcome is `unknown`.
        notes: What limits the answer.
        budget_stopped: Whether what is left of the maximum cost does not cover one more branch.
        settings: The values that are tried, by axis; empty if a policy or a stop rule is tried.
    """

    change: str
    success: str
    n_runs: int
    successes: int
    outcomes: dict[str, int]
    bounds: Interval
    other: Interval
    hazards: HazardEstimate
    gain: TrialEstimate
    extra_steps: TrialEstimate | None
    extra_cost: TrialEstimate | None
    per_success: TrialEstimate | None
    recorded_per_success: float | None
    n_branches: int
    n_open: int
    n_unknown: int
    n_beyond: int
    spent: float
    effects: Effects
    forecast: Callable[[float], Forecast]
    confidence: float
    simulated: bool
    looks: pd.DataFrame
    runs: pd.DataFrame
    notes: tuple[str, ...]
    budget_stopped: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def to_width(self) -> Forecast | None:
        """How many branches an interval of 5% of the runs is likely to take; None if no run is open."""
        return self.forecast(WIDTH * self.n_runs) if self.n_open else None

    @cached_property
    def to_half(self) -> Forecast | None:
        """How many branches half of the present width is likely to take; None before the first branch."""
        return self.forecast(self.gain.width / 2) if self.n_branches else None

    @property
    def unit(self) -> str:
        """What `per_success` counts: `dollars` or `steps`."""
        return "steps" if self.extra_cost is None else "dollars"

    @property
    def decided(self) -> bool:
        """Whether the interval of the gain lies on one side of 0."""
        return self.gain.low > 0 or self.gain.high <= 0

    def enough(self, width: float = WIDTH) -> bool:
        """Whether the interval of the gain is narrow enough.

        Args:
            width: How wide it may be, as a share of all runs.

        Raises:
            SettingError: if the width is no number above 0.
        """
        return self.gain.width <= check_width(width) * self.n_runs + 1e-9

    @property
    def evidence(self) -> pd.DataFrame:
        """The three kinds of evidence for the gain in successes over all runs; they are never mixed."""
        rows: list[tuple[str, float | None, float | None, float | None, str]] = [
            ("bounds", None, *self.bounds, "nothing is assumed")
        ]
        h = self.hazards
        if h.gain is not None and h.interval is not None:
            low, high = h.interval.low + self.other.low, h.interval.high + self.other.high
            middle = h.gain + (self.other.low + self.other.high) / 2
            longer = "run" if h.longer == 1 else f"{h.longer:,}"
            basis = (
                f"{h.covered:,} of {count(self.n_open, 'open run')} would continue like the {longer} that went further"
            )
            rows.append(("hazards", middle, low, high, basis))
        else:
            rows.append(("hazards", None, None, None, h.why))
        if self.n_branches:
            basis = f"{self.n_branches:,} of {count(self.n_open, 'open run')} continued"
            rows.append(("branches", *self.gain, basis))
        else:
            rows.append(("branches", None, None, None, "none has been run"))
        return pd.DataFrame(rows, columns=["evidence", "gain", "low", "high", "rests_on"]).astype(
            {"gain": "Float64", "low": "Float64", "high": "Float64"}
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answer in a few sentences."""
        return tuple(filter(None, (self._verdict(), self._price(), self._next_sentence(), self._rule())))

    @property
    def claim(self) -> str:
        """The answer without what it rests on."""
        change, successes = self.change, self.success
        _, low, high = self.gain
        if not self.n_open:
            if self.bounds.low == self.bounds.high == 0:
                return f"The record answers this: {change} changes no outcome"
            if self.bounds.high > 0:
                span = _signed_span(*self.bounds)
                effect = f"{change} changes the number of {successes} by {span}"
                return f"The record does not answer this, and no branch can: {effect}"
            losses = self.counted(-self.bounds.high, -self.bounds.low)
            return f"The record answers this, and no branch can add to it: {change} loses {losses}"
        if not self.n_branches:
            return (
                f"The record does not answer this: under {change} the outcome of {count(self.n_open, 'run')} is open, "
                f"and the number of {successes} changes by {_signed_span(*self.bounds)}"
            )
        if low > 0:
            return f"{capitalize(change)} adds {self.counted(low, high)}"
        if high < 0:
            return f"{capitalize(change)} loses {self.counted(-high, -low)}"
        if low == 0 == high:
            return f"{capitalize(change)} leaves the number of {successes} as it is"
        if high == 0:
            return f"{capitalize(change)} adds no {successes}, and may lose up to {-low:,.0f}"
        return f"Not yet decided: {change} changes the number of {successes} by {_signed_span(low, high)}"

    def _verdict(self) -> str:
        base = f"(on record: {self.successes:,} of {count(self.n_runs, 'run')})"
        if not self.n_branches or not self.n_open:
            return f"{self.claim} {base}."
        low, high = self.gain.low, self.gain.high
        sure = "" if low == high else f", at {100 * self.confidence:.4g}% confidence"
        sure += ", if the agent is like the simulated one" if self.simulated else ""
        return f"{self.claim} {base}{sure}."

    def counted(self, low: float, high: float) -> str:
        """A number of successes, or from one to another, in words.

        Args:
            low: The number.
            high: The other, or the same.
        """
        span, singular = _span(low, high), "success" if self.success == "successes" else "run that ends by itself"
        return f"{span} {singular if span == '1' else self.success}"

    def _price(self) -> str:
        span = self.price
        if not span:
            return ""
        if span == _FREE:
            return f"Additional successes cost nothing: the change also saves {self.unit}."
        recorded_price = self.recorded_per_success
        recorded = "" if recorded_price is None else f"; on record a success costs {self._amount(recorded_price)}"
        scope = " in the open runs" if self.other != (0, 0) else ""
        return f"An additional success{scope} costs {span}{recorded}."

    def _amount(self, amount: float) -> str:
        return money(amount) if self.unit == "dollars" else count(round(amount), "step")

    @property
    def price(self) -> str:
        """What an additional success costs, in words; "" if it is not known."""
        per_success = self.per_success
        if not self.n_branches or per_success is None or math.isnan(per_success.low):
            return ""
        say = self._amount
        low, high = max(0.0, per_success.low), per_success.high
        if high <= 0:
            return _FREE
        if math.isinf(high):
            reason = "because the gain may be 0"
            if self.extra_cost is not None and math.isinf(self.extra_cost.high):
                reason = "because branches cost more than cost_limit with a step and a summary"
            if low <= 0:
                return f"between nothing and any amount, {reason}"
            return f"at least {say(low)}, without an upper bound, {reason}"
        if per_success.value is not None and per_success.value <= 0:
            return f"at most {say(high)}, and may cost nothing"
        if say(low) == say(high):
            return say(low)
        ends = f"{say(low).removesuffix(' steps').removesuffix(' step')} to {say(high)}"
        return ends if per_success.value is None else f"about {say(per_success.value)} ({ends})"

    def _next_sentence(self) -> str:
        if not self.n_open:
            return ""
        if self.n_branches >= self.n_open:
            return "All open runs have been continued."
        forecast = self.to_half if self.n_branches else self.to_width
        if forecast is None:
            return ""
        stop = " max_cost does not cover one more branch." if self.budget_stopped else ""
        width_in_successes = math.floor(forecast.width + 1e-9)  # an interval ends at whole numbers
        share = "" if self.n_branches else f" ({100 * width_in_successes / self.n_runs:.3g}% of the runs)"
        width = f"{self.counted(width_in_successes, width_in_successes)}{share}"
        if forecast.branches == 0:
            return f"The interval is at most {width} wide before any branch.{stop}"
        narrow = f"likely to narrow the interval to a width of {width}"
        if forecast.branches is None:
            all_branches = "the only branch is" if self.n_open == 1 else f"all {self.n_open:,} branches are"
            return f"Even {all_branches} not {narrow}.{stop}"
        n_more = forecast.branches - self.n_branches
        price_per_branch = self.spent / self.n_branches if self.n_branches and self.spent else None
        price = "" if price_per_branch is None else f", for about {money(price_per_branch * n_more)},"
        branches = count(
            n_more, "more branch" if self.n_branches else "branch", "more branches" if self.n_branches else "branches"
        )
        return f"About {branches}{price} {'is' if n_more == 1 else 'are'} {narrow}.{stop}"

    def _rule(self) -> str:
        effects = self.effects
        threshold = effects.threshold
        if threshold is None or not effects.successes:
            return ""
        failing = effects.failures / (effects.failures + effects.successes)
        r, d = effects.recovered / effects.failures, effects.lost / effects.successes
        failures, successes = count(effects.failures, "failure"), count(effects.successes, "success", "successes")
        became = {0: "none", 1: "1"}.get(effects.recovered, f"{effects.recovered:,}")
        became += " became a success" if effects.recovered <= 1 else " became successes"
        losses = {0: "none was", 1: "1 was"}.get(effects.lost, f"{effects.lost:,} were")
        branches = (
            f"Of {failures} that {'was' if effects.failures == 1 else 'were'} continued, {became} (r = {r:.2f}); "
            f"of {successes}, {losses} lost (d = {d:.2f})."
        )
        if not effects.lost:
            return f"{branches} So the change lost nothing here, however many of the runs that it reaches fail."
        if not effects.recovered:
            return f"{branches} So the change gained nothing here, however many of the runs that it reaches fail."
        return (
            f"{branches} So the change gains more than it loses if more than {percent(threshold)} of the runs that it "
            f"reaches fail, which is d / (r + d); on record {percent(failing)} of them failed."
        )

    @property
    def table(self) -> tuple[list[str], list[list[str]]]:
        """The evidence as texts: the names of its columns, and its rows."""
        return _COLUMNS, self._rows()

    def _rows(self) -> list[list[str]]:
        """The evidence as texts."""
        names = ("gain", "low", "high")
        return [
            [str(row["evidence"]), *(_number(row[name]) for name in names), str(row["rests_on"])]
            for row in self.evidence.to_dict("records")
        ]

    def __repr__(self) -> str:
        return f"<TrialResult {self.change}: {self.n_branches:,} of {count(self.n_open, 'branch', 'branches')}>"

    def __str__(self) -> str:
        """The answer, the evidence and the notes as plain text."""
        return self._document_().text()

    def _document_(self) -> Document:
        return Document(
            title=f"Trial of {self.change}",
            lead=self.sentences,
            table=Table(*self.table, left=(0, 4), wide=True),
            notes=self.notes,
            fold="Notes",
        )


_FREE: Final = "nothing"
_COLUMNS: Final = ["evidence", "gain", "at least", "at most", "rests on"]


def _number(value: object) -> str:
    if value is None or value is pd.NA or not isinstance(value, int | float) or math.isnan(value):
        return "-"
    if not value:
        return "0"
    return f"{value:+,.0f}" if float(value).is_integer() else f"{value:+,.1f}"


def _span(low: float, high: float) -> str:
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def _signed_span(low: float, high: float) -> str:
    ends = [_number(round(end)) for end in (low, high)]
    return " to ".join(dict.fromkeys(ends))
