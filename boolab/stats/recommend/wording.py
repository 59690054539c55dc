"""A recommendation in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pandas as pd

from boolab.core.text import count, first_of
from boolab.core.types import MICRO
from boolab.display.numbers import format_runs, level, percent
from boolab.display.text import joined
from boolab.limits.table import LIMITS, MEASURES
from boolab.stats.kept_share import tasks_missing
from boolab.stats.recommend.candidates import FOLDS, MOSTLY, Group, PathFinding, Question, used_in
from boolab.stats.recommend.fixed_sequence import JOINT
from boolab.stats.recommend.units import base_of, is_root, noun_of
from boolab.stats.units import group_name
from boolab.whatif.step_table import LABEL, UNKNOWN_PEAK, Ledger

_EXAMPLE: Final = 20
"""A value by which it is shown how a policy counts a limit."""
_NAMED: Final = 3  # groups in a note
_OWN_CAP: Final = 3
"""So many runs that were cut at the same step, the last of all: they had a cap of their own."""


def notes_by_kind(each: Sequence[tuple[Sequence[str], Sequence[str]]]) -> Iterator[str]:
    """The notes on groups with labels and on those without, with the names of the groups; those on both come last."""
    first = each[0][1]
    common = [note for note in first if all(note in notes for _, notes in each)]
    for names, notes in each:
        yield from (f"{first_of(names, _NAMED)}: {note}" for note in notes if note not in common)
    yield from common


class Advice:
    """Notes on the data, and sentences for each group.

    `units`: what is counted of them. Their successes are all labels, or all the proxy.
    """

    def __init__(
        self, runs: Ledger, units: Ledger, question: Question, objective: str, every: Sequence[Ledger]
    ) -> None:
        self._runs = runs
        self._units = units
        self.question = question
        self._objective = objective
        self._every = every
        self.noun = noun_of(runs, units)

    def notes(self, groups: Sequence[Group]) -> Iterator[str]:
        """The quality of the data, and what limits the answer."""
        runs, units = self._runs, self._units
        calls = int(runs.used["tool_calls"].sum())
        tasks = units.runs["task"].replace("", pd.NA).nunique() if "task" in units.runs else 0
        of = f" of {count(tasks, 'task')}" if tasks else ", tasks not named"
        kin = runs.kin()
        below = 0 if kin is None or not kin.calls else sum(parent >= 0 for parent in kin.parent)
        size_of_runs = format_runs(runs.n_runs, units.n_runs if self.noun == "turn" else None, below)
        of = f",{of}" if below and tasks else of
        size = f"{count(runs.n_steps, 'step')}, {count(calls, 'tool call')}"
        yield f"Data: {size_of_runs}{of}; {size}."
        yield self._what_a_success_is()
        yield from self._without_labels(groups)
        yield from self._families(groups)
        yield from self._left_out()
        if self._objective != self.question.measure:
            yield f"{self._not_known()}: savings are counted in {plural_of(self.question.measure)}."
        elif (partly := self._unknown()) > 0:
            verb = "does" if partly == 1 else "do"
            yield f"{count(partly, self.noun)} {verb} not report the {self._objective}: savings leave them out."
        if any(group.choice.tasks < group.choice.successes for group in groups):
            yield self._dependence(groups)
        yield from self._policy()
        yield "Valid for limits that the model cannot see, not for limits that it is informed of."

    def _not_known(self) -> str:
        """Of which steps it is not known how much they use of what is to be saved."""
        used = {"cost": "cost", "tokens": "number of tokens"}.get(self._objective, self._objective)
        known = np.concatenate([units.used[self._objective] >= 0 for units in self._every])
        if not known.any():
            return f"The {used} of the steps is not known"
        if known.mean() < MOSTLY:
            return f"The {used} of only {known.sum():,} of {count(len(known), 'step')} is known"
        return f"The {used} of some steps of a group is not known"

    def _families(self, groups: Sequence[Group]) -> Iterator[str]:
        """What a setting for each agent means where runs have subagents."""
        kin = self._runs.kin()
        if kin is None:
            return
        if kin.missing:
            verb = "is" if len(kin.missing) == 1 else "are"
            yield (
                f"{count(len(kin.missing), 'subagent')} that these runs started {verb} not on record, and not limited "
                "here: see bl.with_subagents, or load their files too."
            )
        if not kin.calls:
            return
        yield (
            "The success of a family is that of its root run; a limit loses it if it stops any run that it applies to."
        )
        if len(groups) > 1:
            yield (
                "Each setting is for its group alone, with no limits on the others, and its savings are those of its "
                f"own runs. Together they may lose the sum of what each may: {level(1 - self.question.keep)} each."
            )

    def _policy(self) -> Iterator[str]:
        """Which limits were tested, how they are counted, and what else is in force."""
        policy = self.question.policy
        if policy is None:
            return
        counted = []
        for name in self.question.order:
            axis = self.question.axis(name, [_EXAMPLE])
            rules = [str(rule) for rule in (*axis.rules, *axis.responses)]
            counted.append(f"a {LIMITS[name].label} of {_EXAMPLE} is {' and '.join(rules)}")
        own = [axis for axis in self.question.settings({}).axes if axis.name not in self.question.order]
        rules = [str(rule) for axis in own for rule in (*axis.rules, *axis.responses)]
        also = f" Its further limits are in force too: {', '.join(rules)}." if rules else ""
        yield f"Under {policy.name}, {'; '.join(counted)}.{also}"

    def _dependence(self, groups: Sequence[Group]) -> str:
        """What is assumed about the runs of one task."""
        noun, what = self.noun, self.noun.capitalize()
        if self.question.dependence == "same_tasks":
            return (
                f"Assumed: {noun}s are independent. So the result holds for new {noun}s of these same tasks, not for "
                "other tasks."
            )
        largest = max(groups, key=lambda group: group.choice.largest).choice
        return (
            f"{what}s of one {largest.cluster} may depend on each other in any way: the promise counts "
            f"{largest.cluster}s. Assumed: no {largest.cluster} to come has more successes than the largest on record, "
            f"{largest.largest:,}."
        )

    def _what_a_success_is(self) -> str:
        roots = is_root(self._units)
        base = int((base_of(self._units) & roots).sum())
        if self._units.success_by == LABEL:
            labelled = int(((self._units.success >= 0) & roots).sum())
            return f"A success is a run with a success label: {base:,} of {labelled:,} labelled runs."
        why = "No label is used" if self._runs.success_by == LABEL else "No run has a success label"
        return (
            f"{why}: by a proxy, a {self.noun} that ended by itself counts as a success, {base:,} of "
            f"{count(int(roots.sum()), self.noun)}. The proxy does not show whether the work was good."
        )

    def _without_labels(self, groups: Sequence[Group]) -> Iterator[str]:
        """Which groups have no label where others have, if labels are asked for: nothing of theirs is a success."""
        lacking = [group_name(group.names) for group in groups if not (group.units.success >= 0).any()]
        if self._units.success_by == LABEL and lacking and len(lacking) < len(groups):
            it = "it" if len(lacking) == 1 else "them"
            yield f"{first_of(lacking, _NAMED)}: no run of {it} has a label, so none counts as a success."

    def _left_out(self) -> Iterator[str]:
        units = self._units
        cut = int((~units.terminated).sum())
        if cut:
            verb = "is" if cut == 1 else "are"
            counted = int((~units.terminated & (units.success == 1)).sum())
            labelled = f" ({counted:,} of them labelled a success)" if counted else ""
            yield (
                f"{count(cut, self.noun)}{labelled} {verb} censored: stopped by the harness's own limit, or broken "
                "off. The recorded limits stay in force, so a looser limit changes nothing on record."
            )
            yield from self._own_cap()
        unlabelled = int(((units.success < 0) & is_root(units)).sum())
        if unlabelled:
            yield f"{count(unlabelled, 'run')} without a label count for what is spent, not for what is kept."

    def _own_cap(self) -> Iterator[str]:
        """A note if the runs seem to be recorded under a step cap: it hides what a looser cap would have kept."""
        steps = np.diff(self._units.first)
        longest = int(steps.max())
        there = int((~self._units.terminated & (steps == longest)).sum())
        if there >= _OWN_CAP:
            yield (
                f"{there:,} of these stopped at {count(longest, 'step')}, the most on record, as under a step cap of "
                f"{longest:,}. What a looser cap would have kept is not on record: record runs without this cap."
            )

    def _unknown(self) -> int:
        if self.question.measure == "steps":
            return 0
        used = self._units.used[self.question.measure]
        run = np.searchsorted(self._units.first, np.flatnonzero(used < 0), side="right") - 1
        return len(np.unique(run))

    def group(self, group: Group, *, mixed: bool = False) -> Iterator[str]:
        """What the answer for one group rests on: the sentences of `verdict` are not repeated.

        `mixed`: whether some groups have labels and others do not: then a sentence names what its successes are.
        """
        name = group_name(group.names)
        prefix = f"{name}: " if name else ""
        yield from (f"{prefix}{sentence}" for sentence in self._sentences(group) if sentence)
        if mixed:
            yield prefix + (
                "Its successes are labels."
                if group.labelled
                else f"No run of it has a success label, so a {group.noun} that ended by itself counts as a success."
            )

    def _sentences(self, group: Group) -> Iterator[str]:
        if not group.choice.qualifies:
            yield from (self.nothing_qualifies(group), self.loses_nothing(group))
        else:
            yield from (self._setting(group), self._singles(group), self._held_out(group), self.not_tested(group))

    def _setting(self, group: Group) -> str:
        question, choice, sums = self.question, group.choice, group.sums
        if choice.best is None:
            single = [found for found in choice.paths if found.tests.error and found.tests.path.name != JOINT]
            tested = joined([plain_name(found) for found in single], "or")
            return (
                f"Set no limit: no {tested} that is shown to keep {level(question.keep)} of the successes, at "
                f"{level(question.confidence)} confidence, would have saved any {plural_of(question.measure)} in "
                f"{count(group.units.n_runs, group.noun)}."
            )
        limits = [LIMITS[name].with_value(value) for name, value in choice.setting.items() if value is not None]
        lost, perhaps = choice.successes - sums["kept_lower"], sums["kept_upper"] - sums["kept_lower"]
        source = "these same tasks" if question.dependence == "same_tasks" else "the same source"
        if not group.units.terminated.all():
            source += " under the recorded limits"
        keep = "keeps" if len(limits) == 1 else "keep"
        return (
            f"At {level(question.confidence)} confidence, {joined(limits)} {keep} at least {level(question.keep)} of "
            f"future successes from {source}. On record {'it loses' if len(limits) == 1 else 'they lose'} "
            f"{f'{lost:,}' if lost else 'none'} of {self.rests(group)}"
            f"{f', {perhaps:,} of them perhaps not' if perhaps else ''}."
        )

    def rests(self, group: Group) -> str:
        """The number of successes, and of their tasks where some have several."""
        choice = group.choice
        successes = group.successes(choice.successes)
        return f"{successes} in {count(choice.tasks, choice.cluster)}" if choice.tasks < choice.successes else successes

    def _singles(self, group: Group) -> str:
        """The best limit of each kind by itself."""
        paths = group.choice.paths
        single = [found for found in paths if found.setting is not None and found.tests.path.name != JOINT]
        saving = [found for found in single if found.saved > 0]
        answered = not group.names and group.labelled  # the answer has them
        if answered or len(paths) == 1 or not saving or (len(saving) == 1 and saving[0] is group.choice.best):
            return ""
        parts = []
        for found in saving:
            name, value = next(iter((found.setting or {}).items()))
            share = group.share_of(found, self.question.measure)
            saves = f" saves {percent(share)}" if share is not None else ""
            parts.append(f"{LIMITS[name].with_value(value)}{saves} and loses {found.lost or 'none'}")
        return f"By itself, at the same confidence, {'; '.join(parts)}."

    def saved(self, sums: dict[str, int]) -> str:
        """What is saved, with its base and share."""
        measure = self.question.measure
        saved, whole = sums[f"saved_{measure}"], used_in(sums, measure)
        share = f" ({percent(saved / whole)})" if whole else ""
        if measure == "cost":
            return f"${saved / MICRO:,.2f} of ${whole / MICRO:,.2f}{share}"
        return f"{saved:,} of {count(whole, MEASURES[measure].singular)}{share}"

    def _held_out(self, group: Group) -> str:
        folds, question = group.folds, self.question
        if folds is None:
            return "There are too few tasks to test the choice on tasks that it was not made on."
        share = group.heldout_saved_share(question.measure)
        saved = "" if share is None else f" and saved {percent(share)} of the {plural_of(question.measure)}"
        if not folds["chosen"]:
            return "Four fifths of the data are not enough to choose a setting, so none was tested on the other fifth."
        some = f"; {folds['chosen']} of {FOLDS} parts were enough to choose" if folds["chosen"] < FOLDS else ""
        return (
            f"Cross-validated (chosen on four fifths of the tasks, tested on the other fifth, five times{some}), such "
            f"settings kept {folds['kept_lower']:,} of {group.successes(group.choice.successes)}{saved}."
        )

    def not_tested(self, group: Group) -> str:
        """Limits that were not tested, because there are too few successes to share the error."""
        question, choice = self.question, group.choice
        names = [
            plain_name(found) for found in choice.paths if not found.tests.error and found.tests.path.name != JOINT
        ]
        if not names:
            return ""
        error = (1 - question.confidence) * choice.paths[-1].tests.path.share
        more = max(1, tasks_missing([], [], question.keep, error, largest=choice.largest) - choice.tasks)
        one, many = (f"more {choice.cluster} with a success", f"more {choice.cluster}s with a success")
        unit = (one, many) if choice.counts_tasks else ("more success", "more successes")
        return (
            f"Enough data for one limit, the {plain_name(choice.paths[0])}: testing "
            f"{joined([f'{name}s' for name in names])} too needs {count(more, *unit)}."
        )

    def nothing_qualifies(self, group: Group) -> str:
        """Why no setting qualifies, and what it takes."""
        choice, question = group.choice, self.question
        needed = choice.needed_in_words(question.keep, question.confidence)
        goal = (
            f"To show that {level(question.keep)} of the successes are kept, at {level(question.confidence)} confidence"
        )
        if not choice.successes:
            return f"Nothing can be recommended: there is no success on record to keep. {goal}, takes {needed}."
        best = min((found for found in choice.paths if found.tests.error), key=lambda found: found.lost)
        if not best.lost:
            return (
                f"No setting qualifies yet. {goal}, takes {needed}. On record "
                f"{'is' if choice.successes == 1 else 'are'} {self.rests(group)}: it takes {choice.missing_in_words}."
            )
        if question.policy is not None and question.grid is None:
            return (
                f"No setting qualifies under {question.policy.name}: its further limits alone lose {best.lost:,} of "
                f"{self.rests(group)}, which is too many to show that {level(question.keep)} are kept, at "
                f"{level(question.confidence)} confidence."
            )
        return (
            f"None of the values that were tried qualifies: the best of them, {self._loosest(best)}, loses "
            f"{best.lost:,} of {self.rests(group)}, which is too many to show that {level(question.keep)} are kept, at "
            f"{level(question.confidence)} confidence. Try looser values, or record {choice.missing_in_words}: enough "
            "if the limit stops none of their successes."
        )

    def _loosest(self, found: PathFinding) -> str:
        """The loosest value of a path."""
        name = found.tests.path.name
        if name == JOINT:
            return "limits of several kinds together"
        axis = self.question.axis(name, list((self.question.grid or {})[name]))
        return LIMITS[name].with_value(axis.values[-1])  # noqa: PD011 - no pandas

    def loses_nothing(self, group: Group) -> str:
        """The tightest values that lose nothing on record: a description, not a guarantee."""
        good = base_of(group.units)
        if not good.any() or self.question.policy is not None:
            return ""
        parts = []
        for name in self.question.order:
            least = LIMITS[name].min_useful
            if LIMITS[name].fractions:
                continue
            counter = self.question.axis(name, [least]).counter
            peaks = group.units.peak(counter)
            if (peak := int(peaks[good].max())) == UNKNOWN_PEAK:
                continue
            tight = self._above(name, max(least, peak + 1))
            if tight is None:
                continue
            stopped = peaks >= tight
            if stopped[peaks < UNKNOWN_PEAK].any():  # a limit that stops no run is no information
                parts.append(LIMITS[name].with_value(tight))
        if not parts:
            return ""
        each = ", each by itself," if len(parts) > 1 else ""
        return f"On this record {joined(parts)}{each} would have lost no success and stopped other {group.noun}s."

    def _above(self, name: str, least: int) -> int | None:
        """The tightest value of an axis, of those in the grid if there is one, that is no less."""
        if self.question.grid is None:
            return least
        values = [value for value in self.question.grid.get(name, ()) if value is not None and value >= least]
        return min(values, default=None)


def plain_name(found: PathFinding) -> str:
    """What the limit of a path is called."""
    return LIMITS[found.tests.path.name].label


def plural_of(measure: str) -> str:
    """What is saved, in the plural."""
    return "cost" if measure == "cost" else MEASURES[measure].plural
