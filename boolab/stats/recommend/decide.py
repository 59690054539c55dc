"""The decision on one group of units: set limits, set none, or not yet; and all that it rests on.

Limits are set only if three things are shown: they keep enough of the successes of tasks to come (`fixed_sequence`),
each step along the frontier saves more than it loses (`Question.net_gain`), and the units that they stop fail more
often than the others (`null_test`).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from boolab.core.text import count
from boolab.stats.recommend.budget import BudgetFinding, fit_budget
from boolab.stats.recommend.candidates import Candidates, sums_of
from boolab.stats.recommend.choice import Candidate, Choice, PathFinding
from boolab.stats.recommend.evidence import (
    Broken,
    KeptShares,
    Recency,
    Saving,
    Stopped,
    broken_groups,
    kept_shares,
    newest_third,
    recency_of,
    saving_of,
    stopped_by,
    stops_and_savings,
)
from boolab.stats.recommend.fixed_sequence import PathResult
from boolab.stats.recommend.null_test import NullTest, null_tests
from boolab.stats.recommend.question import Question
from boolab.stats.recommend.units import assume_success, base_of, clusters_of_ledger, open_units
from boolab.stats.trade import Trade
from boolab.stats.units import SET
from boolab.whatif.step_table import LABEL, Ints, Ledger

Action: TypeAlias = Literal["set", "leave", "not_yet"]
Reason: TypeAlias = Literal[
    "good", "saves_nothing", "poor_trade", "stops_as_many_successes", "no_run", "no_success", "too_few",
    "loses_too_many", "within_budget", "needs_no_limit", "no_cost", "costs_more",
]  # fmt: skip
"""Why: "good" is that of "set"; the next three are those of "leave"; the others are those of "not_yet". With a budget
"within_budget" is that of "set", "needs_no_limit" that of "leave"; "no_run", "no_cost", "too_few" and "costs_more" are
those of "not_yet"."""
BROKEN_COLUMNS: Final = ("agent", "model", "effort", "harness_version", SET)
"""Columns by which a limit for all may treat runs unequally."""
_RARE: Final = 3.0
"""With 95% confidence, a kind of task that is not among n is rarer than 3/n."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupDecision:
    """What to do for one group of units, and the evidence.

    Attributes:
        names: The values of the columns that separate it from other groups.
        noun: What a unit is called: "run" or "turn".
        units: The units.
        question: What was asked; its `error` is the group's part.
        candidates: The settings that were tested.
        choice: The setting that gains most of those that keep enough, and the results along all paths.
        action: "set" limits, "leave" them off, or "not_yet": there are too few data.
        reason: Why.
        candidate: The setting that the evidence is about: the one to set, else the one that comes closest to it; None
            if nothing that keeps enough saves anything.
        passed_over: The setting that gains more than the one to set, and stops units that are not shown to fail more
            often; None if there is none.
        sums: The aggregate of that setting.
        saving: What it saves, and of what that is made.
        stopped: The units that it stops.
        kept_shares: The share that it keeps, whatever the outcomes of units without a label are; None if all have one.
        null: Whether those fail more often than the others; None if nothing was tested.
        folds: The sums of settings on units that were not used to choose them; None if there are too few to split.
        broken: Groups whose share of kept successes is below the promise.
        recency: Whether the record still holds; None if there are no dates, or too few units.
        has_dates: Whether the start of each unit is on record.
        budget: What it shows about a budget; None where none is asked for.
    """

    names: tuple[Any, ...]
    noun: str
    units: Ledger
    question: Question
    candidates: Candidates
    choice: Choice
    action: Action
    reason: Reason
    candidate: Candidate | None
    passed_over: Candidate | None
    sums: Mapping[str, int]
    saving: Saving
    stopped: Stopped
    kept_shares: KeptShares | None
    null: NullTest | None
    folds: Mapping[str, int] | None
    broken: tuple[Broken, ...]
    recency: Recency | None
    has_dates: bool
    budget: BudgetFinding | None = None

    @property
    def setting(self) -> dict[str, Any]:
        """The limits to set by axis, in the order of the question; None is off."""
        chosen = self.candidate.setting if self.action == "set" and self.candidate is not None else {}
        return dict.fromkeys(self.question.order) | chosen

    @property
    def setting_on(self) -> dict[str, Any]:
        """The limits to set that are on."""
        return {name: value for name, value in self.setting.items() if value is not None}

    @property
    def labelled(self) -> bool:
        """Whether its successes are labels, not the proxy that a unit ended by itself."""
        return self.units.success_by == LABEL

    def successes(self, n: int) -> str:
        """A number of its successes; by a proxy, what is counted as such."""
        if self.labelled:
            return count(n, "success", "successes")
        return f"{count(n, self.noun)} that ended by {'itself' if n == 1 else 'themselves'}"

    @property
    def lost(self) -> int:
        """How many successes on record the candidate may lose."""
        return self.choice.successes - self.sums["kept_lower"]

    @property
    def trade(self) -> Trade:
        """What the candidate saves for the successes that it may lose."""
        unit, plural = self.question.per_unit, self.question.plural
        return Trade(self.saved / unit, self.lost, self.spent / unit, self.choice.successes, plural, self.noun)

    @property
    def saved(self) -> int:
        """What the candidate saves on record, in whole units."""
        return self.sums[f"saved_{self.question.measure}"]

    @property
    def spent(self) -> int:
        """What all units use without a limit, in whole units."""
        return self.saved + self.sums[self.question.measure]

    @property
    def heldout_saved_share(self) -> float | None:
        """What is saved, as a share of what is spent, on units that were not used to choose."""
        if self.folds is None:
            return None
        measure = self.question.measure
        total = self.folds[measure] + self.folds[f"saved_{measure}"]
        return self.folds[f"saved_{measure}"] / total if total else None

    @property
    def rarest_kind(self) -> float | None:
        """The largest share of tasks that a kind may have of which the record holds none, at 95% confidence."""
        return min(1.0, _RARE / self.choice.tasks) if self.choice.tasks else None

    def share_of(self, path: PathFinding) -> float | None:
        """What the best setting of a path saves, as a share of what is spent on record."""
        return path.saved / self.choice.spent if self.choice.spent else None

    def restricted(self, axes: Collection[str]) -> GroupDecision:
        """The decision among the settings that use only some limits, such as those that a harness has."""
        if self.budget is not None:  # it has one limit
            return replace(self, action="not_yet")
        return _decide(self.names, self.noun, self.candidates, axes, has_dates=self.has_dates)


def decide(
    names: tuple[Any, ...],
    noun: str,
    units: Ledger,
    question: Question,
    dates: Mapping[Hashable, datetime | None],
) -> GroupDecision:
    """The decision on one group.

    Args:
        names: The values of the columns that separate it from other groups.
        noun: What a unit is called.
        units: The units.
        question: What is asked of them.
        dates: When each run started, by its id.

    Returns:
        The decision.
    """
    newest = None if question.desk is not None or question.budget is not None else newest_third(units, dates)
    candidates = Candidates(units, clusters_of_ledger(units), question, newest)
    has_dates = bool(dates) and all(dates.get(run_id) is not None for run_id in units.runs["run_id"].tolist())
    return _decide(names, noun, candidates, None, has_dates=has_dates)


def _decide(
    names: tuple[Any, ...], noun: str, candidates: Candidates, axes: Collection[str] | None, *, has_dates: bool
) -> GroupDecision:
    """The decision among the settings that use only some limits; None for all."""
    units, question, newest = candidates.units, candidates.question, candidates.newest
    budget = None
    if question.budget is None:
        choice, null, paths, passed_over = choose_tested(candidates, axes)
        action, reason = _action(units, choice, null)
    else:
        (choice, budget), null, paths, passed_over = fit_budget(candidates, question.budget), None, (), None
        action, reason = _action_for_budget(choice, budget)
    candidate = choice.best or choice.tightest
    setting = {} if candidate is None else candidate.setting
    is_stopped, saved, used = stops_and_savings(units, setting, question)
    sums = sums_of(units, setting, question)
    return GroupDecision(
        names=names,
        noun=noun,
        units=units,
        question=question,
        candidates=candidates,
        choice=choice,
        action=action,
        reason=reason,
        candidate=candidate,
        passed_over=passed_over,
        sums=sums,
        saving=saving_of(units, candidates.clusters, saved, used, question.seed),
        stopped=stopped_by(units, is_stopped),
        kept_shares=_kept_shares(units, sums, setting, question),
        null=null,
        folds=candidates.held_out(paths) if choice.qualifies and question.desk is None and budget is None else None,
        broken=()
        if candidate is None or budget is not None
        else tuple(broken_groups(units, is_stopped, question.keep, BROKEN_COLUMNS)),
        recency=(
            None
            if newest is None or candidate is None
            else recency_of(units, newest, candidates, is_stopped, question, paths)
        ),
        has_dates=has_dates,
        budget=budget,
    )


def _action_for_budget(choice: Choice, budget: BudgetFinding) -> tuple[Action, Reason]:
    """What to do for a budget, and why."""
    if choice.qualifies:
        return ("leave", "needs_no_limit") if choice.best is None else ("set", "within_budget")
    if not budget.n_units:
        return "not_yet", "no_run"
    if budget.n_unknown == budget.n_units:
        return "not_yet", "no_cost"
    return "not_yet", "costs_more" if budget.n_over else "too_few"


def _kept_shares(
    units: Ledger, sums: Mapping[str, int], setting: dict[str, Any], question: Question
) -> KeptShares | None:
    """The share of the successes that a setting keeps, whatever unknown outcomes are; None where all are known."""
    if not open_units(units).any():
        return None
    complete_units = assume_success(units)
    if_success = sums_of(complete_units, setting, question)
    counts = [int(base_of(ledger).sum()) for ledger in (units, complete_units)]
    return kept_shares({**sums, "successes": counts[0]}, {**if_success, "successes": counts[1]})


def _action(units: Ledger, choice: Choice, null: NullTest | None) -> tuple[Action, Reason]:
    """What to do, and why."""
    if choice.qualifies:
        if choice.tightest is None:
            return "leave", "saves_nothing"
        if choice.best is None or null is None:
            return "leave", "poor_trade"
        return ("set", "good") if null.is_shown else ("leave", "stops_as_many_successes")
    if not units.n_steps:
        return "not_yet", "no_run"
    if not choice.successes:
        return "not_yet", "no_success"
    tested = [path.lost for path in choice.paths if path.tests.error]
    return ("not_yet", "too_few") if not tested or not min(tested) else ("not_yet", "loses_too_many")


class Tested(NamedTuple):
    """The setting that is chosen, with the test of whom it stops.

    Attributes:
        choice: The choice.
        null: The test; None if no setting gains anything.
        paths: The names of the paths that the choice is from.
        passed_over: The setting that gains most, if it failed and this one passes.
    """

    choice: Choice
    null: NullTest | None
    paths: tuple[str, ...]
    passed_over: Candidate | None


def choose_tested(candidates: Candidates, axes: Collection[str] | None = None) -> Tested:
    """The setting that gains most of those that stop units that fail more often; if none does, that gains most.

    The paths are tested once, all together: see `null_test`. So the best setting may fail and the next one pass, and
    where outcomes show nothing, one of them passes in at most 5% of records. A setting that is a doom loop alone has to
    stop more failures among units of like length too. That is tested of the first of them alone.

    Args:
        candidates: The settings.
        axes: The limits that may be on; None for all.

    Returns:
        The choice; the one that gains most, with its test, if no setting passes.
    """
    paths = tuple(candidates.path_names(axes))
    choice = gains_most = candidates.choose(paths=paths)
    if gains_most.best is None:
        return Tested(gains_most, None, paths, None)
    results = {path.tests.path.name: path.tests for path in gains_most.paths}
    tests = _tests_of(candidates, {name: results[name] for name in paths}, None)
    loop: NullTest | None = None
    tried: list[Tested] = []
    while choice.best is not None:
        name = choice.best.path
        null = tests[name]
        if choice.setting.keys() == {"doom_loop"} and null.is_shown:
            if loop is None:
                lengths = np.diff(candidates.units.first)
                loop = _tests_of(candidates, {name: results[name]}, lengths)[name]
            null = max(null, loop, key=lambda test: test.p_value)
        tried.append(Tested(choice, null, paths, gains_most.best if tried else None))
        if null.is_shown:
            return tried[-1]
        paths = tuple(other for other in paths if other != name)
        choice = candidates.choose(paths=paths)
    return tried[0]


def _tests_of(candidates: Candidates, results: Mapping[str, PathResult], lengths: Ints | None) -> dict[str, NullTest]:
    """The test of whom the best setting of each path stops; `results` are those of the paths."""
    levels = [levels for levels in candidates.levels if levels.path.name in results]
    units, question = candidates.units, candidates.question
    return null_tests(
        levels,
        [results[path_levels.path.name].error for path_levels in levels],
        question,
        units.success,
        candidates.clusters,
        lengths,
        candidates.always_lost,
        [results[path_levels.path.name].accepted for path_levels in levels],
    )
