"""What every setting would have done to some runs, counted once: a setting is then a place in arrays.

They are the sums that `counterfactual(..., aggregate=True)` gives, for all settings of a grid, and the first step at
which each threshold is reached in each run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from boolab.core.types import MICRO
from boolab.errors import SettingError
from boolab.harnesses.setting import Limits, Setting, describe_counting
from boolab.limits.table import AGENT_LIMITS, LIMITS, MEASURES
from boolab.stats.intervals import Array
from boolab.stats.recommend.candidates import aggregate_of_units
from boolab.stats.recommend.evidence import KeptShares, kept_shares
from boolab.stats.recommend.question import measure_of
from boolab.stats.recommend.units import assume_success, success_of_units, unit_of_ledger
from boolab.stats.recommend.words import shares_in_words
from boolab.whatif.aggregate import Sums
from boolab.whatif.first_crossing import RANKS, UNDECIDED, Places
from boolab.whatif.grid import Settings, settings_of
from boolab.whatif.step_table import LABEL, Ints, Ledger, UnitNoun
from boolab.widgets.caplab.controls import Values, edges_of, end_of, is_log, ticks_of
from boolab.widgets.caplab.figures import (
    CapCurve,
    figures_of,
    find_tightest,
    frontier_title,
    note_of,
    notes_of,
    position_verdict,
    skipped_values,
    tips_of,
    title_of,
    trade_in_numbers,
)
from boolab.widgets.caplab.how_to_set import how_to_set, short_of
from boolab.widgets.caplab.question import Question
from boolab.widgets.caplab.stops import FirstStops, KeptByTask, SavedByTask, chosen_columns, weights_of

ROWS: Final = 12
"""How many of the runs that a setting stops are listed at first."""

LABELS: Final = {"success": 1, "failure": 0, "unknown": -1}
"""How runs turned out, and the code of it in a ledger."""


_LIST_ORDER: Final = np.array([2, 0, 1])
"""The place of a stopped run in the list by its outcome: successes, those of unknown outcome (-1), failures."""


class CapTable:
    """What settings would have done to runs, for one identity, scope and agent.

    Attributes:
        ledger: What is counted, as `recommend` counts it: runs, their turns, or families (see `units_of_ledger`).
        noun: What a row of it is called: "run" or "turn".
        options: By axis, the values of its slider, from tight to loose; None, which is off, comes last.
        question: The options of the study. The title of the figure is of the share of successes to keep.
        error: The error that the lower bound of a setting has: that of the whole group, as if it was asked by itself.
        found: The decision, as `CapTables.get_recommendation` returns it; None until it has been computed. The title
            is of its limits where they are those of the figure.
        complete: By axis, whether these are all whole numbers up to the largest that makes a difference.
    """

    def __init__(
        self,
        ledger: Ledger,
        names: pd.DataFrame,
        values: Mapping[str, Values],
        base_setting: Setting,
        question: Question,
        measure: str | None = None,
    ) -> None:
        self._n_runs = names["run_id"].nunique()
        self.ledger = ledger
        self.noun: UnitNoun = unit_of_ledger(ledger)
        self.options: dict[str, list[int | None]] = {
            name: [*axis_values.numbers, None] for name, axis_values in values.items()
        }
        self.complete = {name: axis_values.complete for name, axis_values in values.items()}
        self.question = question
        self._where = base_setting
        self._settings = settings_of(self.options, question.policy, base_setting.identity)
        self._places = Places(ledger)
        self._sums = _arrange_by_axes(aggregate_of_units(ledger, self._settings), self._settings)
        complete_ledger = assume_success(ledger)
        n_complete = int((complete_ledger.success == 1).sum())
        self._if_success = (
            None
            if n_complete == int((ledger.success == 1).sum())
            else _kept_counts(_arrange_by_axes(aggregate_of_units(complete_ledger, self._settings), self._settings))
        )
        """What is kept if each unit without a label were a success; None where all have one."""
        self._first_stops = FirstStops(ledger, self._settings, self._places)
        self._lengths: Ints = np.diff(ledger.first)
        self._success_of_row = success_of_units(ledger)
        self._family = None if ledger.unit is None or len(np.unique(ledger.unit)) == ledger.n_runs else ledger.unit
        self._names = {name: [*map(str, names[name])] for name in ("run_id", "task", "agent")}
        self._short_names = _short_names(self._names["task"], self._names["run_id"])
        self._turn = [*map(int, ledger.runs["turn"])] if self.noun == "turn" else None
        no_steps = np.zeros(ledger.n_runs, dtype=np.int64)
        self._begins = _begins(ledger, names["run_id"]) if self.noun == "turn" else no_steps
        self._extent = _extent(ledger, self._places)
        self.found: Mapping[str, Any] | None = None
        self.error = 1 - question.confidence
        self.measure = measure or measure_of([ledger], question.objective)
        weights = weights_of(ledger, self._places, self.measure)
        self._by_task = SavedByTask(ledger, self._settings, weights, self._first_stops)
        self._successes = int((ledger.success == 1).sum())
        self._kept_by_task = KeptByTask(ledger, self._first_stops)
        self._last_curve: tuple[Hashable, CapCurve] | None = None
        on_record = find_tightest(self._curve_over("max_steps", dict.fromkeys(AGENT_LIMITS)), question.keep)
        end = end_of(self._extent, on_record or 1)
        self._edges, self._end = edges_of(end, self.longest_run)

    @property
    def longest_run(self) -> int:
        """The most steps of a run, in the longest of its scopes."""
        return int(self._extent.max(initial=1))

    @property
    def successes(self) -> int:
        """How many runs are successes."""
        return self._successes

    @property
    def opening(self) -> dict[str, Any]:
        """The limits that are shown at first: those to set; none, where or until there are none."""
        no_limits: Limits = dict.fromkeys(AGENT_LIMITS)
        return {**no_limits, **((self.found and self.found["setting"]) or {})}

    # --- One setting --------------------------------------------------------------------------------------------------

    def sums(self, limits: Limits) -> dict[str, int]:
        """The sums of a setting, as `counterfactual(..., aggregate=True)` names them; cost in micro-dollars."""
        indices = tuple(self._index_of(name, limits[name]) for name in AGENT_LIMITS)
        return {name: int(values[indices]) for name, values in self._sums.items()}

    def _kept_shares(self, limits: Limits, sums: Mapping[str, int]) -> KeptShares | None:
        """The share that a setting keeps whatever unknown outcomes are, as a decision has it; None if all are known."""
        if self._if_success is None:
            return None
        indices = tuple(self._index_of(name, limits[name]) for name in AGENT_LIMITS)
        return kept_shares(sums, {name: int(values[indices]) for name, values in self._if_success.items()})

    def answer(self, setting: Setting, rows: int = ROWS) -> dict[str, Any]:
        """All that is shown of one setting, as plain data: what it keeps, saves and stops, its curve, its code."""
        return {**self.answer_at(setting, rows), "curve": self.curve(setting.limits)}

    def answer_at(self, setting: Setting, rows: int = ROWS) -> dict[str, Any]:
        """The same without the curve, which all caps have in common."""
        sums = self.sums(setting.limits)
        kept_counts = {"lower": sums["kept_lower"], "upper": sums["kept_upper"], "of": sums["successes"]}
        saved = [self._saved_amount(name, sums) for name in self._shown_measures(sums)]
        trade = trade_in_numbers(kept_counts, saved[0], self.noun)
        stops = self._stops(setting.limits)
        stopped_runs = np.flatnonzero(stops.stopped)
        success = self._success_of_row[stopped_runs]
        run_order = stopped_runs[
            np.lexsort((-self._lengths[stopped_runs], ~stops.is_lost[stopped_runs], _LIST_ORDER[success]))
        ].tolist()
        shares = self._kept_shares(setting.limits, sums)
        counts = {
            "kept": kept_counts,
            "kept_shares": "" if shares is None else shares_in_words(shares),
            "at_least": round(self._curve(setting.limits).at_least[self._index_of("max_steps", setting.max_steps)], 4),
            "saved": saved,
            "saved_interval": self._saved_interval(setting.limits),
            "cut": {**_count_outcomes(success), "lost": int(stops.is_lost[stopped_runs].sum())},
            "families": self._stopped_families(stopped_runs),
        }
        proxy = self.ledger.success_by != LABEL
        return {
            "setting": {**setting.limits, "agent": setting.agent},
            "verdict": self._verdict(setting, counts),
            **counts,
            "trade": {"each": trade.each, "costs": trade.costs, "poor": trade.is_poor},
            "numbers": figures_of(
                counts, trade, self.ledger.n_runs, self.question.confidence, proxy=proxy, noun=self.noun
            ),
            "ends": self._ends(sums),
            "open": {name: sums[f"n_{name}"] for name in ("not_identified", "unknown")},
            "cut_by_length": self._count_by_length(stops.stopped),
            "rows": [self._row(run, stops) for run in run_order[:rows]],
            "short": short_of(setting.limits),
            "how": how_to_set(setting._replace(agent=self._where.agent), self.question.policy),
        }

    def _stopped_families(self, stopped_runs: Ints) -> dict[str, int] | None:
        """How many families a setting stops a run of, by outcome, of how many; None where each run is by itself."""
        if self._family is None:
            return None
        first = np.unique(self._family[stopped_runs], return_index=True)[1]
        outcomes = _count_outcomes(self._success_of_row[stopped_runs][first])
        return {**outcomes, "of": len(np.unique(self._family))}

    def _verdict(self, setting: Setting, counts: Mapping[str, Any]) -> list[str]:
        """The verdict on a setting: the decision's where it is about it, else what the record shows of it."""
        found = self.found
        if found is not None:
            decided = [found["setting"]] if found["setting"] else [dict.fromkeys(AGENT_LIMITS), found["candidate"]]
            if setting.limits in decided:
                return [*found["verdict"]]
        is_set = found is not None and found["action"] == "set"
        return position_verdict(
            setting, counts["kept"], counts["saved"][0], self._success, self.noun,
            keep=self.question.keep, at_least=counts["at_least"], is_set=is_set,
        )  # fmt: skip

    def _index_of(self, name: str, value: int | None) -> int:
        values = self.options[name]
        if value not in values or isinstance(value, bool):
            options = [option for option in values if option is not None]
            near = (
                sorted(options, key=lambda option: abs(option - value))[:2]
                if isinstance(value, int | float)
                else options[:2]
            )
            raise SettingError(
                f"{name}={value!r} is not on its slider: expected such as {', '.join(map(str, sorted(near)))}, or None"
            )
        return values.index(value)

    def _stops(self, limits: Limits) -> _RunStops:
        """Where a setting stops each run."""
        keys = self._first_stops.keys(chosen_columns(self._settings, self.options, limits))[:, 0]
        stopped = keys != np.iinfo(keys.dtype).max
        boundaries = np.where(stopped, keys // RANKS, 0).astype(np.int64)
        rank = np.where(stopped, keys % RANKS, 0).astype(np.int64)
        run_places = self._places
        last_turn = (boundaries > run_places.last_turn) | (run_places.last_turn == 0)
        is_lost = (
            (self.ledger.success == 1) & stopped & (rank != UNDECIDED) & last_turn & (boundaries < run_places.last_call)
        )
        return _RunStops(
            stopped, boundaries, rank, is_lost, {axis.name: limits.get(axis.name) for axis in self._settings.axes}
        )

    def _row(self, run: int, stops: _RunStops) -> dict[str, Any]:
        """A run that the setting stops, or a turn of one; `begins` is how many steps of the run are before it."""
        names, success = self._names, int(self._success_of_row[run])
        name = self._short_names[run]
        reason = self.ledger.reason[run]
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
            "ended_by": "interrupted" if reason is None and self._turn else describe_end(reason),
            "name": name if self._turn is None else f"{name}, turn {self._turn[run]:,}",
            "begins": int(self._begins[run]),
            "ended": bool(self.ledger.terminated[run]),
            "success": None if success < 0 else bool(success),
            "lost": bool(stops.is_lost[run]),
        }

    def _shown_measures(self, sums: Mapping[str, int]) -> list[str]:
        """What is to be saved, the steps, and the cost where there is one on record."""
        costs = ["cost"] if sums["cost"] or sums["saved_cost"] else []
        return [*dict.fromkeys([self.measure, "steps", *costs])]

    def _saved_amount(self, name: str, sums: Mapping[str, int]) -> dict[str, Any]:
        scale = MICRO if name == "cost" else 1
        saved, total = sums[f"saved_{name}"], sums[name] + sums[f"saved_{name}"]
        missing = sums.get(f"n_unknown_{name}", 0)
        return {
            "measure": name,
            "label": MEASURES[name].label,
            "saved": saved / scale,
            "of": total / scale,
            "share": saved / total if total else None,
            "left_out": missing,
        }

    def _ends(self, sums: Mapping[str, int]) -> list[dict[str, Any]]:
        """How many runs end for each reason; those that the recording stopped, and undecided ones, apart."""
        reasons = {name.removeprefix("n_"): sums[name] for name in sums if name.startswith("n_")}
        for name in ("runs", "unchanged", "truncated", "not_identified", "unknown_tokens", "unknown_cost"):
            reasons.pop(name)
        other_count = sums["n_runs"] - sum(reasons.values())
        reasons["interrupted" if self._turn else "not_on_record"] = other_count
        return [{"reason": name, "n": n} for name, n in reasons.items() if n]

    def _saved_interval(self, limits: Limits) -> list[float] | None:
        """The 95% interval of the share that a setting saves."""
        interval = self._by_task.interval(chosen_columns(self._settings, self.options, limits))
        return None if interval is None else [round(end, 4) for end in interval]

    def curve(self, limits: Limits) -> dict[str, Any]:
        """What is kept and saved over all caps, the other limits as they are, and the titles that this gives."""
        curve, confidence = self._curve(limits), self.question.confidence
        cap = find_tightest(curve, self.question.keep)
        other_limits = {name: limits[name] for name in AGENT_LIMITS[1:] if limits[name] is not None}
        loops = self._curve_over("doom_loop", {**limits, "max_steps": None})
        shares = [
            {"value": value, "saved": share, "kept": kept_count / curve.total}
            for value, share, kept_count in zip(loops.caps, loops.shares, loops.kept_lower, strict=True)
            if value is not None and share and curve.total
        ]
        return {
            "lower": [*curve.kept_lower],
            "upper": [*curve.upper],
            "at_least": np.round(curve.at_least, 4).tolist(),
            "saved": [None if share is None else round(share, 4) for share in curve.shares],
            "title": title_of(
                curve, self.question.keep, self._advised_cap(limits), confidence, is_alone=not other_limits
            ),
            "note": note_of(curve, confidence, short_of(other_limits) if other_limits else "", turns=self._turns()),
            "on_record": (
                f"On record: {f'no cap that stops a {self.noun}' if cap is None else short_of({'max_steps': cap})}."
            ),
            "tightest": cap,
            "tips": tips_of(curve),
            "frontier_title": frontier_title(curve) if curve.total else "",
            "doom_loops": shares,
        }

    def _curve(self, limits: Limits) -> CapCurve:
        """What each cap keeps, saves and stops, the other limits as they are.

        The last one stays, because bounds take most of the time of a move, and a move of the cap changes none of them.
        """
        other_limits = [limits[name] for name in AGENT_LIMITS[1:]]
        key = (*other_limits, self.error)
        if self._last_curve is None or self._last_curve[0] != key:
            curve, bounds = self._curve_over("max_steps", limits), self._lower_bounds(limits).tolist()
            is_unlimited = other_limits == [None] * len(other_limits) and curve.kept_lower[-1] == self._successes
            off_bound = 1.0 if is_unlimited else round(bounds[-1], 4)
            self._last_curve = key, dataclasses.replace(curve, at_least=[*bounds[:-1], off_bound])
        return self._last_curve[1]

    def _lower_bounds(self, limits: Limits) -> Array:
        """The lower bound of what each cap keeps, the other limits as they are."""
        columns = chosen_columns(self._settings, self.options, limits)
        for index, own in enumerate(self._settings.axes):
            if own.name == "max_steps":
                columns[index] = list(range(len(self.options["max_steps"])))
        return self._kept_by_task.least(columns, self.error)

    def _advised_cap(self, limits: Limits) -> int | None:
        """The recommended cap, if the other recommended limits are these."""
        recommended_limits = None if self.found is None else self.found["setting"]
        if recommended_limits is None or any(recommended_limits[name] != limits[name] for name in AGENT_LIMITS[1:]):
            return None
        cap: int | None = recommended_limits["max_steps"]
        return cap

    def _curve_over(self, axis: str, limits: Limits) -> CapCurve:
        """What is kept, saved and stopped by each value of an axis, the other limits as they are. It has no bounds."""
        index = tuple(slice(None) if name == axis else self._index_of(name, limits[name]) for name in AGENT_LIMITS)
        values = self.options[axis]
        sums = {name: array[index] for name, array in self._sums.items()}
        scale = MICRO if self.measure == "cost" else 1
        saved = sums[f"saved_{self.measure}"]
        return CapCurve(
            caps=values,
            kept_lower=sums["kept_lower"].tolist(),
            upper=sums["kept_upper"].tolist(),
            at_least=(),
            saved=(saved / scale).tolist(),
            totals=((saved + sums[self.measure]) / scale).tolist(),
            stopped=(sums["n_truncated"] + sums["n_not_identified"] + sums["n_unknown"]).tolist(),
            total=self._successes,
            measure=MEASURES[self.measure].label,
            success=self._success,
            noun=self.noun,
        )

    def _count_by_length(self, mask: Any) -> dict[str, list[int]]:  # noqa: ANN401 - an array of flags
        """How many of some runs are of each length, by how they turned out."""
        return {
            name: np.histogram(self._extent[mask & (self._success_of_row == code)], self._edges)[0].tolist()
            for name, code in LABELS.items()
        }

    def caps_frame(self, limits: Limits) -> pd.DataFrame:
        """A frame with a row for each cap, the other limits as they are, for `plot_caps`."""
        budget, doom = (self._index_of(name, limits[name]) for name in AGENT_LIMITS[1:])
        frame = pd.DataFrame({name: values[:, budget, doom] for name, values in self._sums.items()})
        for name in ("cost", "saved_cost"):
            frame[f"{name}_usd"] = frame.pop(name) / MICRO
        frame["max_steps"] = pd.array(self.options["max_steps"], dtype="Int64")
        return frame.assign(unit=self.noun, success_by=self.ledger.success_by)

    # --- What is the same for all settings ----------------------------------------------------------------------------

    @cached_property
    def base(self) -> dict[str, Any]:
        """What the figure shows whatever the limits are, as plain data."""
        ledger = self.ledger
        lengths = self._count_by_length(np.ones(ledger.n_runs, dtype=bool))
        caps = [value for value in self.options["max_steps"] if value is not None]
        proxy = ledger.success_by != LABEL
        return {
            "units": ledger.n_runs,
            "noun": self.noun,
            "proxy": proxy,
            "success": self._success,
            "families": self._family is not None,
            "axes": [
                {
                    "key": name,
                    "label": LIMITS[name].label,
                    "unit": LIMITS[name].unit,
                    "values": self.options[name],
                    "ticks": ticks_of(name, max(value or 0 for value in self.options[name])),
                }
                for name in AGENT_LIMITS
            ],
            "end": self._end,
            "longer": int((self._extent >= self._end).sum()),
            "log": is_log([cap for cap in caps if cap <= self._end] or caps),
            "lengths": {"edges": self._edges.tolist(), "turns": self._turns(), **lengths},
            "measure": MEASURES[self.measure].label,
            "counted_by": describe_counting(self._where),
            "notes": self._notes(),
        }

    @cached_property
    def _success(self) -> str:
        """What a success is, in the plural."""
        return "successes" if self.ledger.success_by == LABEL else f"{self.noun}s that ended by themselves"

    def _turns(self) -> bool:
        """Whether a run has several turns, each of which a cap limits."""
        return self._where.scope == "turn" and (self.noun == "turn" or bool((self._places.last_turn > 0).any()))

    def _notes(self) -> list[str]:
        """What is to be known of the runs, of the sliders and of the policy."""
        sums = self.sums(dict.fromkeys(AGENT_LIMITS))
        notes = [
            *notes_of(
                self.ledger, sums, self.measure, self.question.objective,
                n_runs=self._n_runs, noun=self.noun, turns=self._turns(),
            )
        ]  # fmt: skip
        if not self.ledger.n_runs:
            return notes
        notes += skipped_values(self.options, self.complete)
        policy_axes = [axis for axis in self._settings.axes if axis.name not in AGENT_LIMITS]
        if policy_axes:
            notes.append(
                f"Further limits of the policy hold too: {', '.join(str(axis.rules[0]) for axis in policy_axes)}."
            )
        return [*notes, "These numbers hold for limits that the model cannot see."]


class _RunStops(NamedTuple):
    """By run: whether it is stopped, after how many steps, by which axis, and whether a success is lost for certain."""

    stopped: Any
    boundary: Ints
    rank: Ints
    is_lost: Any
    limits: Limits


def _arrange_by_axes(sums: Sums, settings: Settings) -> Sums:
    """Sums with one dimension for each of `AGENT_LIMITS`, in their order; the policy's further limits hold."""
    limit_axes = [next(n for n, axis in enumerate(settings.axes) if axis.name == name) for name in AGENT_LIMITS]
    policy_axes = [n for n in range(len(settings.axes)) if n not in limit_axes]
    return {
        name: values[0].transpose(*limit_axes, *policy_axes)[(..., *(0 for _ in policy_axes))].copy()
        for name, values in sums.items()
    }


def _kept_counts(sums: Sums) -> Sums:
    """The sums that count successes."""
    return {name: sums[name] for name in ("kept_lower", "kept_upper", "successes")}


def _short_names(tasks: Sequence[str], ids: Sequence[str]) -> list[str]:
    """What runs are called in a list: their tasks; their ids where several are of one task, and each id names it."""
    ofs, begins = _shared_prefix(tasks), _shared_prefix(ids)
    short = [task.removeprefix(ofs) or run_id for task, run_id in zip(tasks, ids, strict=True)]
    ends = [run_id.removeprefix(begins) for run_id in ids]
    ids_name_tasks = begins and all(end.startswith(f"{task}/") for task, end in zip(short, ends, strict=True))
    return ends if ids_name_tasks and len(set(short)) < len(short) else short


def _shared_prefix(tasks: Sequence[str]) -> str:
    """What the names of all tasks begin with, up to a slash: that of their data set."""
    begins = {task[: task.find("/") + 1] for task in tasks}
    return begins.pop() if len(begins) == 1 else ""


def describe_end(reason: str | None) -> str:
    """How a run ended on record, in plain words."""
    plain = {None: "not on record", "finished": "by itself", "aborted": "aborted", "error": "an error"}
    return plain[reason] if reason in plain else f"its own {str(reason).replace('_', ' ')}"


def _count_outcomes(success: Ints) -> dict[str, int]:
    """How many there are, and how many of them are failures, successes and of unknown outcome."""
    failed, succeeded, unknown = (int((success == LABELS[name]).sum()) for name in ("failure", "success", "unknown"))
    return {"n": len(success), "failed": failed, "succeeded": succeeded, "unknown": unknown}


def _begins(turns: Ledger, run_ids: pd.Series[str]) -> Ints:
    """How many steps of its run are before each turn."""
    first = turns.first[:-1]
    opens = ~run_ids.duplicated().to_numpy()
    return first - np.maximum.accumulate(np.where(opens, first, 0))


def _extent(ledger: Ledger, run_places: Places) -> Ints:
    """How many steps each run took in the longest of its scopes, which is what a cap limits."""
    extent = np.zeros(ledger.n_runs, dtype=np.int64)
    np.maximum.at(extent, run_places.run, ledger.counters["steps"])
    return extent
