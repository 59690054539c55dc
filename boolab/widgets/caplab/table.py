"""What every setting would have done to some runs, counted once: a setting is then a place in arrays.

They are the sums that `counterfactual(..., aggregate=True)` gives, for all settings of a grid, and the first step at
which each threshold is reached in each run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pandas as pd

from boolab.agents.setting import Limits, Setting, as_code, counted_by
from boolab.core.axes import AXES, SETTINGS
from boolab.core.text import count
from boolab.core.types import MICRO
from boolab.counterfactuals.aggregate import Sums, aggregate_of
from boolab.counterfactuals.first_crossing import RANKS, UNDECIDED, Places, fires_of, first_fires, keys_of
from boolab.counterfactuals.grid import Settings, settings_of
from boolab.counterfactuals.step_table import LABEL, Ints, Ledger
from boolab.errors import SettingError
from boolab.harness.policy import Policy
from boolab.harness.presets import get_policy
from boolab.stats.intervals import Array, check_confidence
from boolab.stats.recommend.recommend import OBJECTIVES, Objective
from boolab.widgets.caplab.how_to_set import how_to_set
from boolab.widgets.caplab.verdict import bounds_of, independent_successes, trade_in_numbers, verdict_of

ROWS: Final = 12
"""How many of the runs that a setting stops are listed at first."""

_MAX_VALUES: Final = {"max_steps": 120, "tool_budget": 120, "doom_loop": 16}
"""How many values an axis has at most: with all three, 250,000 settings, 50 MB."""
_MEASURES: Final = {"cost": "cost", "tokens": "tokens", "tool_calls": "tool calls", "steps": "steps"}
MAX_BARS: Final = 60  # of the distribution
_LOG: Final = 0.2  # an axis is logarithmic if the lower half of its values takes a smaller share of it


@dataclass(frozen=True, slots=True)
class Question:
    """The options of the study, besides the setting.

    Args:
        policy: Whose order of precedence and further limits hold; None for none.
        keep: The share of successes that a recommended setting keeps.
        confidence: The confidence that it does.
        objective: What to save.
        success: What a success is: "label", "ended", or None for labels where there are any.

    Raises:
        SettingError: if one of them is not accepted.
    """

    policy: str | Policy | None = None
    keep: float = 0.95
    confidence: float = 0.95
    objective: Objective = "cost"
    success: Literal["label", "ended"] | None = None

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        check_confidence(self.keep, "keep")
        if self.objective not in OBJECTIVES:
            raise SettingError(f"objective={self.objective!r}: expected one of {', '.join(OBJECTIVES)}")
        if self.success not in (None, "label", "ended"):
            msg = (
                f"success={self.success!r}: expected 'label', 'ended' (the proxy), or None (labels where there are any)"
            )
            raise SettingError(msg)
        settings = settings_of({name: [2, None] for name in SETTINGS}, self.policy)
        if not settings.plain:
            msg = (
                f"policy {get_policy(self.policy or '').name}: it sends messages to the model, or evaluates limits at "
                "the response, so that sums are not enough: expected a policy that evaluates limits only after steps, "
                "or None. bl.counterfactual(runs, policy=...) gives a row for each run"
            )
            raise SettingError(msg)


class CapTable:
    """What settings would have done to runs, for one identity, scope and agent.

    Attributes:
        ledger: The runs.
        options: By axis, the values of its slider, from tight to loose; None, which is off, comes last.
        whole: By axis, whether these are all whole numbers up to the largest that makes a difference.
    """

    def __init__(self, ledger: Ledger, values: Mapping[str, Values], where: Setting, question: Question) -> None:
        self.ledger = ledger
        self.options: dict[str, list[int | None]] = {name: [*one.listed, None] for name, one in values.items()}
        self.whole = {name: one.whole for name, one in values.items()}
        self._question = question
        self._where = where
        self._settings = settings_of(self.options, question.policy, where.identity)
        self._places = Places(ledger)
        self._sums = _by_axes(aggregate_of(ledger, self._settings), self._settings)
        self._fires = [
            first_fires(ledger, fires_of(ledger, axis, self._places), self._places, rank)
            for rank, axis in enumerate(self._settings.axes)
        ]
        self._lengths: Ints = np.diff(ledger.first)
        self._names = {name: [*map(str, ledger.runs[name])] for name in ("run_id", "task", "agent")}
        self._extent = _extent(ledger, self._places)
        self._edges = _edges(int(self._extent.max(initial=1)))
        self.measure = _measure(ledger, question.objective)
        self._successes = int((ledger.success == 1).sum())
        self._independent = independent_successes(ledger)

    # --- One setting --------------------------------------------------------------------------------------------------

    def sums(self, limits: Limits) -> dict[str, int]:
        """The sums of a setting, as `counterfactual(..., aggregate=True)` names them; cost in micro-dollars.

        Raises:
            SettingError: if a limit is not one of the values.
        """
        place = tuple(self._at(name, limits[name]) for name in SETTINGS)
        return {name: int(values[place]) for name, values in self._sums.items()}

    def answer(self, setting: Setting, rows: int = ROWS) -> dict[str, Any]:
        """All that is shown of one setting, as plain data: what it keeps, saves and stops, its curve, its code.

        Args:
            setting: The setting; of this table's identity, scope and agent.
            rows: How many of the runs that it stops to list.
        """
        sums = self.sums(setting.limits)
        kept = {"lower": sums["kept_lower"], "upper": sums["kept_upper"], "of": sums["successes"]}
        saved = [self._saved(name, sums) for name in dict.fromkeys((self.measure, "steps"))]
        trade = trade_in_numbers(kept, saved[0])
        stops = self._stops(setting.limits)
        cut = np.flatnonzero(stops.stopped)
        success = self.ledger.success[cut]
        listed = cut[np.lexsort((~stops.lost[cut], -success))].tolist()
        return {
            "setting": {**setting.limits, "agent": setting.agent},
            "verdict": verdict_of(setting, kept, saved[0], self.base["success"]),
            "kept": kept,
            "at_least": round(float(self._at_least(kept["lower"])), 4),
            "saved": saved,
            "trade": {"each": trade.each, "costs": trade.costs, "poor": trade.is_poor},
            "cut": {
                "n": len(cut),
                "failed": int((success == 0).sum()),
                "succeeded": int((success == 1).sum()),
                "lost": int(stops.lost[cut].sum()),
            },
            "ends": self._ends(sums),
            "open": {name: sums[f"n_{name}"] for name in ("not_identified", "unknown")},
            "curve": self._curve(setting.limits),
            "cut_by_length": np.histogram(self._extent[cut], self._edges)[0].tolist(),
            "rows": [self._row(run, stops) for run in listed[:rows]],
            "code": as_code(setting, self._question.policy),
            "how": how_to_set(setting, self._question.policy),
        }

    def _at(self, name: str, value: int | None) -> int:
        values = self.options[name]
        if value not in values or isinstance(value, bool):
            known = [one for one in values if one is not None]
            near = sorted(known, key=lambda one: abs(one - value))[:2] if isinstance(value, int | float) else known[:2]
            msg = (
                f"{name}={value!r} is not on its slider: expected such as {', '.join(map(str, sorted(near)))}, or None"
            )
            raise SettingError(msg)
        return values.index(value)

    def _stops(self, limits: Limits) -> _Stops:
        """Where a setting stops each run."""
        columns = []
        for axis, table in zip(self._settings.axes, self._fires, strict=True):
            place = self._at(axis.name, limits[axis.name]) if axis.name in SETTINGS else 0
            columns.append(table[:, place : place + 1])
        keys = keys_of(columns).reshape(-1)
        stopped = keys != np.iinfo(keys.dtype).max
        at = np.where(stopped, keys // RANKS, 0).astype(np.int64)
        rank = np.where(stopped, keys % RANKS, 0).astype(np.int64)
        places = self._places
        last_turn = (at > places.last_turn) | (places.last_turn == 0)
        lost = (self.ledger.success == 1) & stopped & (rank != UNDECIDED) & last_turn & (at < places.last_call)
        return _Stops(stopped, at, rank, lost, {axis.name: limits.get(axis.name) for axis in self._settings.axes})

    def _row(self, run: int, stops: _Stops) -> dict[str, Any]:
        """A run that the setting stops."""
        names, success = self._names, int(self.ledger.success[run])
        undecided = stops.rank[run] == UNDECIDED
        axis = None if undecided else self._settings.axes[stops.rank[run]]
        return {
            "run": names["run_id"][run],
            "task": names["task"][run],
            "agent": names["agent"][run],
            "reason": "unknown" if axis is None else axis.reason,
            "limit": None if axis is None else stops.limits[axis.name],
            "at": int(stops.boundary[run]),
            "needed": int(self._lengths[run]),
            "ended": bool(self.ledger.terminated[run]),
            "success": None if success < 0 else bool(success),
            "lost": bool(stops.lost[run]),
        }

    def _saved(self, name: str, sums: Mapping[str, int]) -> dict[str, Any]:
        scale = MICRO if name == "cost" else 1
        saved, whole = sums[f"saved_{name}"], sums[name] + sums[f"saved_{name}"]
        missing = sums.get(f"n_unknown_{name}", 0)
        return {
            "measure": name,
            "label": _MEASURES[name],
            "saved": saved / scale,
            "of": whole / scale,
            "share": saved / whole if whole else None,
            "left_out": missing,
        }

    def _ends(self, sums: Mapping[str, int]) -> list[dict[str, Any]]:
        """How many runs end for each reason; those that the recording stopped, and undecided ones, apart."""
        reasons = {name.removeprefix("n_"): sums[name] for name in sums if name.startswith("n_")}
        for name in ("runs", "unchanged", "truncated", "not_identified", "unknown_tokens", "unknown_cost"):
            reasons.pop(name)
        return [{"reason": name, "n": n} for name, n in reasons.items() if n]

    def _curve(self, limits: Limits) -> dict[str, Any]:
        """What is kept and saved over all caps, the other limits as they are; off is the last."""
        budget, doom = (self._at(name, limits[name]) for name in SETTINGS[1:])
        names = ("kept_lower", "kept_upper", self.measure, f"saved_{self.measure}")
        lower, upper, spent, saved = (self._sums[name][:, budget, doom] for name in names)
        whole = spent + saved  # all that is on record, for each cap
        return {
            "lower": lower.tolist(),
            "upper": upper.tolist(),
            "at_least": self._at_least(lower).round(4).tolist(),
            "saved": [
                round(part / of, 4) if of else None for part, of in zip(saved.tolist(), whole.tolist(), strict=True)
            ],
        }

    def _at_least(self, kept: Any) -> Array:  # noqa: ANN401 - an array or a number
        return bounds_of(kept, self._successes, self._independent, self._question.confidence)

    def over_caps(self, limits: Limits) -> pd.DataFrame:
        """A frame with a row for each cap, the other limits as they are, for `plot_caps`."""
        budget, doom = (self._at(name, limits[name]) for name in SETTINGS[1:])
        frame = pd.DataFrame({name: values[:, budget, doom] for name, values in self._sums.items()})
        for name in ("cost", "saved_cost"):
            frame[f"{name}_usd"] = frame.pop(name) / MICRO
        frame["max_steps"] = pd.array(self.options["max_steps"], dtype="Int64")
        return frame.assign(success_by=self.ledger.success_by)

    # --- What is the same for all settings ----------------------------------------------------------------------------

    @cached_property
    def base(self) -> dict[str, Any]:
        """What the figure shows whatever the limits are, as plain data."""
        ledger = self.ledger
        sums = self.sums(dict.fromkeys(SETTINGS))
        tasks = ledger.runs["task"].replace("", None).nunique()
        lengths = {
            name: np.histogram(self._extent[ledger.success == code], self._edges)[0].tolist()
            for name, code in (("success", 1), ("failure", 0), ("unknown", -1))
        }
        caps = [value for value in self.options["max_steps"] if value is not None]
        proxy = ledger.success_by != LABEL
        return {
            "runs": ledger.n_runs,
            "tasks": int(tasks),
            "proxy": proxy,
            "success": "runs that ended by themselves" if proxy else "successes",
            "axes": [
                {"key": name, "label": AXES[name].label, "unit": AXES[name].unit, "values": self.options[name]}
                for name in SETTINGS
            ],
            "log": _is_log(caps),
            "lengths": {"edges": self._edges.tolist(), "turns": self._turns(), **lengths},
            "measure": _MEASURES[self.measure],
            "keep": self._question.keep,
            "confidence": self._question.confidence,
            "counted_by": counted_by(self._where),
            "notes": list(self._notes(sums)),
        }

    def _turns(self) -> bool:
        """Whether a run has several turns, so that a cap is about the longest of them."""
        return self._where.scope == "turn" and bool((self._places.last_turn > 0).any())

    def _notes(self, sums: Mapping[str, int]) -> Iterable[str]:
        """The sample, and what is missing in it."""
        ledger, n = self.ledger, self.ledger.n_runs
        tasks = ledger.runs["task"].replace("", None).nunique()
        yield f"{count(n, 'run')}, {count(int(tasks), 'task') if tasks else 'tasks not named'}."
        if not n:
            return
        if ledger.success_by != LABEL:
            yield (
                "No run has a label. A proxy stands in for success: the run ended by itself. The proxy does not show "
                "whether the work was good."
            )
        elif unlabelled := int((ledger.success < 0).sum()):
            yield f"{count(unlabelled, 'run')} without a label: counted in what is saved, not in what is kept."
        if cut := int((~ledger.terminated).sum()):
            were = "was" if cut == 1 else "were"
            yield (
                f"{count(cut, 'run')} {were} stopped by a limit of the recording, or failed: these limits stay in "
                "force, and a looser one changes nothing here."
            )
        if self.measure != self._question.objective:
            wanted = _MEASURES[self._question.objective]
            yield f"The source does not record {wanted}: what is saved is counted in {_MEASURES[self.measure]}."
        elif left := sums.get(f"n_unknown_{self.measure}", 0):
            yield f"{count(left, 'run')} of unknown {_MEASURES[self.measure]} left out of what is saved."
        if self._turns():
            yield (
                "Each turn is limited by itself, and later turns stand as recorded: what is saved of tokens and cost "
                "is an estimate where a turn is stopped that others follow."
            )
        some = [
            f"{len(values) - 1:,} up to {values[-2]:,} ({AXES[name].label})"
            for name, values in self.options.items()
            if not self.whole[name]
        ]
        if some:
            yield f"The sliders skip values of a long range: {', '.join(some)}."
        own = [axis for axis in self._settings.axes if axis.name not in SETTINGS]
        if own:
            yield f"Further limits of the policy hold too: {', '.join(str(axis.rules[0]) for axis in own)}."
        yield "These numbers hold for limits that the model cannot see."


def _is_log(caps: Sequence[int]) -> bool:
    """Whether the axis of the caps is logarithmic: half of them are close to its beginning."""
    lowest, highest = caps[0], caps[-1]
    return highest > lowest + 1 and bool((np.median(caps) - lowest) / (highest - lowest) < _LOG)


class _Stops(NamedTuple):
    """By run: whether it is stopped, after how many steps, by which axis, and whether a success is lost for certain."""

    stopped: Any
    boundary: Ints
    rank: Ints
    lost: Any
    limits: Limits


class Values(NamedTuple):
    """The values of an axis, ascending, and whether they are all that make a difference."""

    listed: list[int]
    whole: bool


def _by_axes(sums: Sums, settings: Settings) -> Sums:
    """Sums with one dimension for each of `SETTINGS`, in their order; the policy's further limits hold."""
    named = [next(n for n, axis in enumerate(settings.axes) if axis.name == name) for name in SETTINGS]
    own = [n for n in range(len(settings.axes)) if n not in named]
    return {name: values[0].transpose(*named, *own)[(..., *(0 for _ in own))].copy() for name, values in sums.items()}


def values_of(name: str, peak: int, also: int | None = None) -> Values:
    """The values of an axis up to the largest count: all whole numbers, or, of a long range, ever fewer; and `also`."""
    least, most = AXES[name].min_useful, _MAX_VALUES[name]
    top = max(peak, least)
    if top - least < most:
        return Values(list(range(least, max(top, also or 0) + 1)), whole=True)
    head = most // 2
    tail = np.geomspace(least + head, top, most - head).round().astype(int)
    wanted = () if also is None else (also,)
    return Values(sorted({*range(least, least + head), *tail.tolist(), *wanted}), whole=False)


def _extent(ledger: Ledger, places: Places) -> Ints:
    """How many steps each run took in the longest of its scopes, which is what a cap limits."""
    extent = np.zeros(ledger.n_runs, dtype=np.int64)
    np.maximum.at(extent, places.run, ledger.counters["steps"])
    return extent


def _edges(longest: int) -> Ints:
    """The edges of the bars of a distribution of lengths: whole numbers."""
    width = -(-max(longest, 1) // MAX_BARS)
    return np.arange(0, longest + width + 1, width, dtype=np.int64)


def _measure(ledger: Ledger, objective: Objective) -> str:
    """What savings are counted in: the objective, where the source records it; else the same as `recommend`."""
    return next(
        name
        for name in (objective, "tokens", "steps")
        if name == "steps" or not ledger.n_steps or bool((ledger.used[name] >= 0).any())
    )
