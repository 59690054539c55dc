"""A recommendation in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from boolab.ledger import LABEL, TURN_PROXY, Ledger
from boolab.stats.choose import Choice, Question, base_of, level_of
from boolab.stats.finding import count, percent, shorten
from boolab.stats.intervals import lower_bound, more_needed, runs_needed
from boolab.types import MICRO

_NAMES: Final = {
    "steps": "a step cap of {}",
    "tool_budget": "a tool budget of {}",
    "doom_loop": "a doom-loop threshold of {}",
    "error_streak": "an error-streak threshold of {}",
    "max_tokens": "a token budget of {:,}",
    "max_cost": "a cost budget of ${:,}",
    "max_time": "a time budget of {:,} s",
}
_AXES: Final = {
    "steps": "step cap",
    "tool_budget": "tool budget",
    "doom_loop": "doom-loop threshold",
    "error_streak": "error-streak threshold",
    "max_tokens": "token budget",
    "max_cost": "cost budget",
    "max_time": "time budget",
}
_OWN_CAP: Final = 3
"""So many runs that were cut at the same step, the last of all: they had a cap of their own."""
_UNKNOWN: Final = np.iinfo(np.int64).max
"""The peak of a counter that is not known: see `Ledger.peak`."""
_NOUNS: Final = {"steps": "step", "tool_calls": "tool call", "tokens": "token"}


@dataclass(frozen=True, slots=True)
class Group:
    """What was found for one group of units.

    Attributes:
        names: The values of the columns that tell it from other groups.
        units: Its runs or turns.
        choice: What was chosen.
        sums: The tally of the chosen setting.
        folds: The tally on units that were not used to choose; None if there are too few to split.
    """

    names: tuple[Any, ...]
    units: Ledger
    choice: Choice
    sums: dict[str, int]
    folds: dict[str, int] | None

    def saved_share(self, measure: str) -> float | None:
        """What is saved of what was used."""
        return _share(self.sums, measure)

    @property
    def heldout_successes(self) -> int | None:
        """How many successes there are among units that were not used to choose."""
        return None if self.folds is None else int(base_of(self.units).sum())

    def heldout_saved_share(self, measure: str) -> float | None:
        """What is saved of what was used, on units that were not used to choose."""
        return None if self.folds is None else _share(self.folds, measure)


def _share(sums: dict[str, int], measure: str) -> float | None:
    whole = sums[measure] + sums[f"saved_{measure}"]
    return sums[f"saved_{measure}"] / whole if whole else None


class Advice:
    """Notes on the data, and sentences for each group."""

    def __init__(self, runs: Ledger, units: Ledger, question: Question, objective: str, scope: str) -> None:
        self._runs = runs
        self._units = units
        self._question = question
        self._objective = objective
        self._noun = "turn" if units.success_by == TURN_PROXY else "run"
        self._scope = scope

    # --- The data, first ----------------------------------------------------------------------------------------------

    def notes(self, groups: Sequence[Group]) -> Iterator[str]:
        """The quality of the data, and what limits the answer."""
        runs, units = self._runs, self._units
        calls = int(runs.used["tool_calls"].sum())
        tasks = runs.runs["task"].replace("", pd.NA).nunique() if "task" in runs.runs else 0
        of = f" of {count(tasks, 'task')}" if tasks else ", tasks not named"
        turns = f" ({count(units.n_runs, 'turn')})" if self._noun == "turn" and units.n_runs != runs.n_runs else ""
        size = f"{count(runs.n_steps, 'step')}, {count(calls, 'tool call')}"
        yield f"Data: {count(runs.n_runs, 'run')}{turns}{of}; {size}."
        yield self._what_a_success_is()
        yield from self._left_out()
        if self._objective != self._question.measure:
            missing = {"cost": "what a run costs", "tokens": "how many tokens a run uses"}.get(self._objective, "that")
            yield f"The source does not tell {missing}: what is saved is counted in {_plural(self._question.measure)}."
        elif (partly := self._unknown()) > 0:
            yield f"{count(partly, self._noun)} do not tell their {self._objective} and are left out of what is saved."
        if any(group.choice.tasks < int(base_of(group.units).sum()) for group in groups):
            what = self._noun.capitalize()
            yield f"{what}s of one task are not independent: bounds rest on tasks, and resample them."
        yield "Valid for limits that the model cannot see: nothing is said about limits that it is told of."

    def _what_a_success_is(self) -> str:
        base = int(base_of(self._units).sum())
        if self._units.success_by == LABEL:
            return (
                f"A success is a run labelled so: {base:,} of {int((self._units.success >= 0).sum()):,} labelled runs."
            )
        why = "No label is used" if self._runs.success_by == LABEL else "No label says what succeeded"
        return (
            f"{why}: a proxy stands in for success, that the {self._noun} ended by itself. {base:,} of "
            f"{count(self._units.n_runs, self._noun)} did. Whether the work was any good, the proxy does not know."
        )

    def _left_out(self) -> Iterator[str]:
        units = self._units
        cut = int((~units.terminated).sum())
        if cut:
            verb = "was cut before it was done" if cut == 1 else "were cut before they were done"
            counted = int((~units.terminated & (units.success == 1)).sum())
            labelled = f" ({counted:,} of them labelled a success)" if counted else ""
            yield (
                f"{count(cut, self._noun)} {verb}{labelled}: the recorded limits stay in force, and a looser one "
                "changes nothing on record."
            )
            yield from self._own_cap()
        unlabelled = int((units.success < 0).sum())
        if unlabelled:
            yield f"{count(unlabelled, 'run')} without a label count for what is spent, not for what is kept."

    def _own_cap(self) -> Iterator[str]:
        """That the runs were recorded under a cap, if it looks so: it hides what a looser one would have given."""
        steps = np.diff(self._units.first)
        longest = int(steps.max())
        there = int((~self._units.terminated & (steps == longest)).sum())
        if there >= _OWN_CAP:
            yield (
                f"{there:,} of these stopped at {count(longest, 'step')}, which none exceeds, as under a step cap of "
                f"{longest:,}. What a looser cap would have kept is not on record: that takes runs without it."
            )

    def _unknown(self) -> int:
        if self._question.measure == "steps":
            return 0
        used = self._units.used[self._question.measure]
        run = np.searchsorted(self._units.first, np.flatnonzero(used < 0), side="right") - 1
        return len(np.unique(run))

    # --- What to do ---------------------------------------------------------------------------------------------------

    def group(self, group: Group) -> Iterator[str]:
        """What to ship for one group, and how sure that is."""
        name = ", ".join("none" if value is None or value is pd.NA else shorten(value) for value in group.names)
        said = f"{name}: " if name else ""
        if not group.choice.qualifies:
            yield said + self._nothing_qualifies(group)
            tight = self._loses_nothing(group)
            if tight:
                yield f"{said}{tight}"
            return
        yield said + self._setting(group)
        yield said + self._held_out(group)
        more = self._more_axes(group)
        if more:
            yield said + more

    def _setting(self, group: Group) -> str:
        question, choice, sums = self._question, group.choice, group.sums
        limits = [_NAMES[name].format(value) for name, value in choice.setting.items() if value is not None]
        base = int(base_of(group.units).sum())
        if not limits:
            return (
                f"Ship no limit: none of the values that keep {_level(question.keep)} of the successes would have "
                f"saved anything in {count(group.units.n_runs, self._noun)}."
            )
        kept = f"{sums['kept_lower']:,}" + (
            f" to {sums['kept_upper']:,}" if sums["kept_upper"] != sums["kept_lower"] else ""
        )
        return (
            f"Ship {_and(limits)}. On record this leaves {kept} of {_successes(base)} as they were, and saves "
            f"{self._saved(sums)}. At {_level(question.confidence)} confidence it keeps at least "
            f"{_floor(choice.low)} of the successes to come, if they come from the same "
            f"source{self._of_those(group)}; that rests on {self._rests(choice, base)}."
        )

    def _of_those(self, group: Group) -> str:
        """Runs that were cut are not among the successes: what they would have needed is not known."""
        return "" if group.units.terminated.all() else " and its own limits stay as they are"

    def _rests(self, choice: Choice, base: int) -> str:
        if choice.tasks < base:
            even = "" if choice.effective > choice.tasks - 0.5 else f", worth {choice.effective:.0f} of equal size"
            return f"{count(choice.tasks, 'task')} with successes{even}"
        return _successes(base)

    def _saved(self, sums: dict[str, int]) -> str:
        measure = self._question.measure
        saved, whole = sums[f"saved_{measure}"], sums[measure] + sums[f"saved_{measure}"]
        share = f" ({percent(saved / whole)})" if whole else ""
        if measure == "cost":
            return f"${saved / MICRO:,.2f} of ${whole / MICRO:,.2f}{share}"
        return f"{saved:,} of {count(whole, _NOUNS[measure])}{share}"

    def _held_out(self, group: Group) -> str:
        folds, question = group.folds, self._question
        if folds is None:
            return "Too few tasks to try it on others than those that chose it."
        base = group.heldout_successes or 0
        share = group.heldout_saved_share(question.measure)
        saved = "" if share is None else f", and saved {percent(share)} of the {_plural(question.measure)}"
        if not folds["chosen"]:
            return "Four fifths of the data are too few to choose anything, so it was not tried on the other fifth."
        some = f" ({folds['chosen']} of 5 parts were enough to choose anything)" if folds["chosen"] < 5 else ""  # noqa: PLR2004
        return (
            f"Chosen on four fifths of the tasks and tried on the other fifth, five times over{some}, such "
            f"settings kept {folds['kept_lower']:,} of {_successes(base)} that had no part in the choice{saved}."
        )

    def _more_axes(self, group: Group) -> str:
        choice, question = group.choice, self._question
        left = question.order[choice.axes :]
        if not left:
            return ""
        level = level_of(choice.axes + 1, question)
        more = more_needed(choice.axes, choice.effective, question.keep, level)
        return (
            f"The data carry {count(choice.axes, 'limit')}, no more: each further one has to be paid for with "
            f"successes. To set a {_AXES[left[0]]} too, it takes {more:,} more{self._of_what(choice, more)}."
        )

    def _of_what(self, choice: Choice, n: int) -> str:
        if choice.tasks < choice.successes:
            return f" {'task' if n == 1 else 'tasks'} with a success"
        return " success" if n == 1 else " successes"

    def _nothing_qualifies(self, group: Group) -> str:
        choice, question = group.choice, self._question
        base = int(base_of(group.units).sum())
        goal = f"{_level(question.keep)} kept at {_level(question.confidence)} confidence"
        whole = runs_needed(question.keep, question.confidence)
        if not base:
            return (
                f"Nothing can be recommended: there is no success on record to keep. {goal.capitalize()} takes "
                f"{whole:,} successes without a loss."
            )
        if choice.tests:
            return (
                f"None of the values that were tried qualifies: the best of them loses {choice.lost:,} of "
                f"{_successes(base)}, and is shown to keep {_floor(choice.low)} of successes to come, less than "
                f"{_level(question.keep)}; that rests on {self._rests(choice, base)}. Try looser values."
            )
        more = more_needed(0, choice.effective, question.keep, question.confidence)
        best = float(lower_bound(choice.effective, choice.effective, question.confidence))
        return (
            f"No setting qualifies yet. Even one that loses none of {_successes(base)} is only shown to keep "
            f"{_floor(best)} of successes to come, because that rests on {self._rests(choice, base)}. For {goal} it "
            f"takes {more:,} more{self._of_what(choice, more)}, without a loss ({whole:,} in all)."
        )

    def _loses_nothing(self, group: Group) -> str:
        """The tightest values that lose nothing on record: a description, no promise."""
        good = base_of(group.units)
        if not good.any():
            return ""
        parts = []
        for name in self._question.order:
            least = {"doom_loop": 2}.get(name, 1)
            if name in ("max_cost", "max_time"):
                continue
            counter = self._question.settings({name: [least]}).axes[0].counter
            peaks = group.units.peak(counter)
            if (peak := int(peaks[good].max())) == _UNKNOWN:
                continue
            tight = self._above(name, max(least, peak + 1))
            if tight is None:
                continue
            stopped = peaks >= tight
            if stopped[peaks < _UNKNOWN].any():  # else it would have done nothing, which says nothing for it
                parts.append(_NAMES[name].format(tight))
        if not parts:
            return ""
        each = ", each by itself," if len(parts) > 1 else ""
        return f"What can be said: on this record {_and(parts)}{each} would have lost none, and stopped others."

    def _above(self, name: str, least: int) -> int | None:
        """The tightest value of an axis, of those that were asked for if any were, that is no less."""
        if self._question.grid is None:
            return least
        asked = [value for value in self._question.grid.get(name, ()) if value is not None and value >= least]
        return min(asked, default=None)


def _floor(share: float) -> str:
    """A bound in percent, rounded down."""
    return f"{np.floor(share * 1000 + 1e-9) / 10:.10g}%"


def _level(share: float) -> str:
    return f"{100 * share:.10g}%"


def _successes(n: int) -> str:
    return "1 success" if n == 1 else f"{n:,} successes"


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _plural(measure: str) -> str:
    return "cost" if measure == "cost" else f"{_NOUNS[measure]}s"
