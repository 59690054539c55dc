"""Notes on the data of a decision: how much there is, what a success is, and what limits the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pandas as pd

from boolab.core.run_labels import LabelCounts
from boolab.core.text import count, first_of, shorten
from boolab.display.numbers import format_runs, level
from boolab.limits.table import LIMITS
from boolab.stats.recommend.decide import GroupDecision
from boolab.stats.recommend.question import MOSTLY, Question
from boolab.stats.recommend.units import base_of, is_root, open_units, unit_of_ledger
from boolab.stats.units import group_name
from boolab.whatif.step_table import LABEL, Ledger

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


def shared_agent_notes(groups: Sequence[GroupDecision], keys: Sequence[str]) -> Iterator[str]:
    """The agents that have a setting in several groups: the commands that set them name the same agent."""
    if "agent" not in keys:
        return
    index = keys.index("agent")
    by_agent: dict[object, list[str]] = {}
    for group in groups:
        if group.action == "set":
            by_agent.setdefault(group.names[index], []).append(group_name(group.names))
    for agent, names in by_agent.items():
        if len(names) > 1:
            groups_in_words = f"{count(len(names), 'group')} ({'; '.join(names[:_NAMED])})"
            yield (
                f"{group_name([agent])} has a setting in {groups_in_words}, and holds one at a time: "
                "set that of the group of its next runs (group=, in a terminal --group)."
            )


class DataNotes:
    """Notes on the data of some groups.

    `units`: what is counted of them. Their successes are all labels, or all the proxy. `proxy`: whether it stands in
    where some labels are missing.
    """

    def __init__(
        self,
        runs: Ledger,
        units: Ledger,
        question: Question,
        objective: str,
        every: Sequence[Ledger],
        labels: LabelCounts,
        *,
        proxy: bool = False,
    ) -> None:
        self._runs = runs
        self._units = units
        self.question = question
        self._objective = objective
        self._every = every
        self._labels = labels
        self._by_proxy = proxy
        self.noun = unit_of_ledger(units)

    def notes(self, groups: Sequence[GroupDecision]) -> Iterator[str]:
        """The quality of the data, and what limits the answer."""
        runs, units = self._runs, self._units
        calls = int(runs.used["tool_calls"].sum())
        tasks = units.runs["task"].replace("", pd.NA).nunique() if "task" in units.runs else 0
        of = f" of {count(tasks, 'task')}" if tasks else ", tasks not named"
        kin = runs.kin()
        below = 0 if kin is None or not kin.calls else sum(parent >= 0 for parent in kin.parent)
        size_of_runs = format_runs(runs.n_runs, units.n_runs if self.noun == "turn" else None, below)
        of = f",{of}" if below and tasks else of
        of += self._whose()
        size = f"{count(runs.n_steps, 'step')}, {count(calls, 'tool call')}"
        yield f"Data: {size_of_runs}{of}; {size}."
        yield self._what_a_success_is()
        if self.question.desk is None and self.question.budget is None:
            yield f"The share to keep, {level(self.question.keep)}, is what was asked for: keep=, in a terminal --keep."
        yield from self._without_labels(groups)
        yield from self._families(groups)
        yield from self._left_out(groups)
        if self._objective != self.question.measure:
            yield f"{self._not_known()}: savings are counted in {self.question.plural}."
        elif (partly := self._unknown()) > 0:
            verb = "does" if partly == 1 else "do"
            yield f"{count(partly, self.noun)} {verb} not report the {self._objective}: savings leave them out."
        if any(group.choice.tasks < group.choice.successes for group in groups):
            yield self._dependence(groups)
        yield from self._policy()
        yield "Valid for limits that the model cannot see, not for limits that it is informed of."

    def _whose(self) -> str:
        """The agent and the model, or how many there are: " (agent nano, 3 models)"; "" where none is named."""
        named = []
        for column in ("agent", "model"):
            if column not in self._runs.runs:
                continue
            values = self._runs.runs[column].replace("", pd.NA).dropna().unique()
            if len(values):
                named.append(f"{column} {shorten(values[0])}" if len(values) == 1 else count(len(values), column))
        return f" ({', '.join(named)})" if named else ""

    def _not_known(self) -> str:
        """Of which steps it is not known how much they use of what is to be saved."""
        used = {"cost": "cost", "tokens": "number of tokens"}.get(self._objective, self._objective)
        known = np.concatenate([units.used[self._objective] >= 0 for units in self._every])
        if not known.any():
            return f"The {used} of the steps is not known"
        if known.mean() < MOSTLY:
            return f"The {used} of only {known.sum():,} of {count(len(known), 'step')} is known"
        return f"The {used} of some steps of a group is not known"

    def _families(self, groups: Sequence[GroupDecision]) -> Iterator[str]:
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

    def _dependence(self, groups: Sequence[GroupDecision]) -> str:
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
            noun = self.noun
            label = f"A success is a {noun} with a success label: {base:,} of {count(labelled, f'labelled {noun}')}."
            return f"{self._labels}. {label}" if labelled else label
        unused = self._by_proxy or self._runs.success_by == LABEL
        why = "No label is used" if unused else "No run has a success label"
        return (
            f"{why}: by a proxy, a {self.noun} that ended by itself counts as a success, {base:,} of "
            f"{count(int(roots.sum()), self.noun)}. The proxy does not show whether the work was good."
        )

    def _without_labels(self, groups: Sequence[GroupDecision]) -> Iterator[str]:
        """Which groups have no label where others have, if labels are asked for: nothing of theirs is a success."""
        lacking = [group_name(group.names) for group in groups if not (group.units.success >= 0).any()]
        if self._units.success_by == LABEL and lacking and len(lacking) < len(groups):
            it = "it" if len(lacking) == 1 else "them"
            yield f"{first_of(lacking, _NAMED)}: no run of {it} has a label, so none counts as a success."

    def _left_out(self, groups: Sequence[GroupDecision]) -> Iterator[str]:
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
        unlabelled = int(open_units(units).sum())
        if self.question.desk is not None:
            yield from self.question.desk.sentences
        elif unlabelled:
            stopped = sum(group.stopped.unknown for group in groups)
            here = f" ({stopped:,} under the setting here)" if stopped else ""
            yield (
                f"{count(unlabelled, self.noun)} {'has' if unlabelled == 1 else 'have'} no label: the promise holds "
                f"whatever their outcomes are, so each that a limit stops{here} counts as a lost success. Labels of "
                "these help first, then of the others: boolab label LOGS asks for few of them."
            )

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
