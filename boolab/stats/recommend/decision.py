"""The decision on limits: what `bl.recommend` returns, and what every surface shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pandas as pd

from boolab.core.run_labels import LabelCounts
from boolab.core.types import MICRO
from boolab.display.document import Document
from boolab.display.numbers import span
from boolab.errors import SettingError, near
from boolab.frames.dtypes import FLAG, FLOAT, INT, TEXT, axis_dtype, cells, is_missing, well_formed_cell
from boolab.harnesses.exports.values import Export, Limits
from boolab.limits.table import LIMITS
from boolab.stats.finding import Finding, pairs
from boolab.stats.recommend.budget import BudgetFinding
from boolab.stats.recommend.choice import PathFinding
from boolab.stats.recommend.decide import GroupDecision
from boolab.stats.recommend.evidence import OneForAll
from boolab.stats.recommend.question import Budget
from boolab.stats.recommend.show import as_document
from boolab.stats.recommend.words import format_saved, limits_in_words, verdict_of, words_of
from boolab.stats.units import group_name

_SMALLER_SHARES: Final = (0.9, 0.8, 0.7)
"""Shares of successes to keep that an error proposes."""

_ANSWERS: Final[Mapping[str, str]] = {"set": "Set", "leave": "Leave off", "not_yet": "Not yet"}
_PathRow = tuple[GroupDecision, PathFinding]
GROUP_COLUMNS: Final[Mapping[str, tuple[str, Callable[[GroupDecision], Any]]]] = {
    "action": (TEXT, lambda g: g.action),
    "reason": (TEXT, lambda g: g.reason),
    "candidate": (TEXT, lambda g: None if g.candidate is None else limits_in_words(g.candidate.setting)),
    "unit": (TEXT, lambda g: g.noun),
    "n_units": (INT, lambda g: g.units.n_units),
    "success_by": (TEXT, lambda g: g.units.success_by),
    "successes": (INT, lambda g: g.choice.successes),
    "tasks": (INT, lambda g: g.choice.tasks),
    "largest_task": (INT, lambda g: g.choice.largest),
    "cluster": (TEXT, lambda g: g.choice.cluster),
    "keep": (FLOAT, lambda g: g.question.keep),
    "confidence": (FLOAT, lambda g: g.question.confidence),
    "error": (FLOAT, lambda g: g.question.error),
    "dependence": (TEXT, lambda g: g.question.dependence),
    "kept_lower": (INT, lambda g: g.sums["kept_lower"]),
    "kept_upper": (INT, lambda g: g.sums["kept_upper"]),
    "kept_share": (FLOAT, lambda g: g.sums["kept_lower"] / g.choice.successes if g.choice.successes else None),
    "kept_share_lower": (FLOAT, lambda g: None if g.kept_shares is None else g.kept_shares.low),
    "kept_share_upper": (FLOAT, lambda g: None if g.kept_shares is None else g.kept_shares.high),
    "kept_bound": (FLOAT, lambda g: None if g.candidate is None else g.candidate.bound),
    "keep_possible": (FLOAT, lambda g: g.choice.keep_possible),
    "rarest_kind": (FLOAT, lambda g: g.rarest_kind),
    "objective": (TEXT, lambda g: g.question.measure),
    "spent": (FLOAT, lambda g: _amount(g.sums[g.question.measure], g)),
    "saved": (FLOAT, lambda g: _amount(g.saved, g)),
    "saved_share": (FLOAT, lambda g: g.saving.share),
    "saved_share_low": (FLOAT, lambda g: g.saving.low),
    "saved_share_high": (FLOAT, lambda g: g.saving.high),
    "heldout_kept": (INT, lambda g: None if g.folds is None else g.folds["kept_lower"]),
    "heldout_successes": (INT, lambda g: None if g.folds is None else g.choice.successes),
    "heldout_saved_share": (FLOAT, lambda g: g.heldout_saved_share),
    "stopped": (INT, lambda g: g.stopped.n),
    "stopped_failures": (INT, lambda g: g.stopped.failures),
    "stopped_successes": (INT, lambda g: g.stopped.successes),
    "stopped_unknown": (INT, lambda g: g.stopped.unknown),
    "expected_failures": (FLOAT, lambda g: None if g.null is None else g.null.expected),
    "p_value": (FLOAT, lambda g: None if g.null is None else g.null.p_value),
    "margin_lost": (INT, lambda g: None if g.choice.last_step is None else g.choice.last_step.lost),
    "margin_saved": (FLOAT, lambda g: None if g.choice.last_step is None else _amount(g.choice.last_step.saved, g)),
    "next_lost": (INT, lambda g: None if g.choice.next_step is None else g.choice.next_step.lost),
    "next_saved": (FLOAT, lambda g: None if g.choice.next_step is None else _amount(g.choice.next_step.saved, g)),
    "largest_run": (TEXT, lambda g: g.saving.run or None),
    "largest_run_share": (FLOAT, lambda g: g.saving.run_share if g.saving.run else None),
    "largest_task_share": (FLOAT, lambda g: g.saving.task_share if g.saving.run else None),
    "n_broken": (INT, lambda g: len(g.broken)),
    "newest_kept": (INT, lambda g: None if g.recency is None else g.recency.kept),
    "newest_successes": (INT, lambda g: None if g.recency is None else g.recency.successes),
    "older_setting_kept": (INT, lambda g: None if g.recency is None else g.recency.older_kept),
    "more_needed": (INT, lambda g: g.choice.missing),
}
"""The columns of the frame of a decision, after those of the groups and the limits."""
_BUDGET_COLUMNS: Final[Mapping[str, tuple[str, Callable[[Budget, BudgetFinding], Any]]]] = {
    "budget": (FLOAT, lambda budget, _: budget.amount / MICRO),
    "budget_share": (FLOAT, lambda budget, _: budget.share),
    "over": (INT, lambda _, finding: finding.n_over),
    "over_without": (INT, lambda _, finding: finding.n_over_without),
    "n_unknown_cost": (INT, lambda _, finding: finding.n_unknown),
    "over_bound": (FLOAT, lambda _, finding: finding.bound),
}
"""Those after them, where a budget is asked for."""
PATH_COLUMNS: Final[Mapping[str, tuple[str, Callable[[GroupDecision, PathFinding], Any]]]] = {
    "lost": (INT, lambda _, path: path.lost),
    "kept_bound": (FLOAT, lambda _, path: path.bound if path.tests.accepted else None),
    "saved": (FLOAT, lambda group, path: _amount(path.saved, group)),
    "saved_share": (FLOAT, lambda group, path: group.share_of(path)),
    "recommended": (FLAG, lambda group, path: group.action == "set" and path.setting == group.setting_on),
}
RESERVED: Final = frozenset({*GROUP_COLUMNS, *_BUDGET_COLUMNS, *PATH_COLUMNS, *LIMITS, "path", "accepted"})
"""Columns that a group cannot have."""


@dataclass(frozen=True, eq=False, repr=False)
class Decision(Finding):
    """Which limits to set, to leave off, or not yet; a row for each group in `frame`, and for each path in `paths`.

    Args:
        title: What it is about, in a few words.
        frame: The decision on each group and its evidence: see `recommend`.
        sentences: What it rests on, in plain words.
        notes: The quality of the data and what limits the answer.
        table: What is shown of the numbers, where the whole frame would be too much.
        tests: Comparisons between groups, a row for each; empty where there are none.
        groups: The decision on each group, as values.
        keys: The columns that keep the groups apart.
        counted: How the limits are counted: identity, scope and policy, with all limits off.
        verdict: The answer in at most three texts: what to set, whom that stops and for what, and what to know first.
        one_for_all: What one limit for all groups saves and keeps, held out, beside a limit for each; None where there
            are no groups, or where one limit for all of them means nothing.
        labels: How many units are labelled, by the source of their labels, and how many are not.

    Example:
        >>> import boolab as bl
        >>> decision = bl.recommend(bl.load_dataset("atlas/intercode-python"), keep=0.9)
        >>> decision.setting["max_steps"], decision.evidence["stopped"], decision.evidence["stopped_failures"]
        (3, 100, 97)
    """

    groups: tuple[GroupDecision, ...] = ()
    keys: tuple[str, ...] = ()
    counted: Limits = field(default_factory=Limits)
    verdict: tuple[str, ...] = ()
    one_for_all: OneForAll | None = None
    labels: LabelCounts = field(default_factory=LabelCounts)
    _within: dict[tuple[int, tuple[str, ...]], GroupDecision] = field(default_factory=dict)

    def _document_(self) -> Document:
        if not self.verdict:
            return super()._document_()
        return as_document(self, self.verdict, self.limits_by_group(), self.known)

    @property
    def paths(self) -> pd.DataFrame:
        """A row for each path of each group.

        Its columns are those of the groups; path ("joint" tightens several limits together); error (its part of the
        allowed error; 0 if there were too few successes to test it); accepted (whether any value was); the value of
        each limit that gains most along the path (NA is off); lost (how many successes it loses), kept_bound (the
        lower bound of the share that it keeps, by itself); saved, saved_share; recommended (whether it is the answer).
        """
        return paths_frame(self.groups, self.keys)

    @property
    def known(self) -> str:
        """What is known of the outcomes, as a sentence; "" where no unit has a label."""
        return f"{self.labels}." if self.labels.labelled else ""

    @property
    def setting(self) -> dict[str, Any]:
        """The value to set of each limit, by its name in a grid; None is off.

        Raises:
            SettingError: if there are several groups, each with a setting of its own: see `frame`.
        """
        self._check_one()
        return dict(self.groups[0].setting)

    @property
    def action(self) -> str:
        """What to do: "set", "leave" (limits off) or "not_yet".

        Raises:
            SettingError: if there are several groups: see `frame`.
        """
        self._check_one()
        return self.groups[0].action

    @property
    def evidence(self) -> dict[str, Any]:
        """The row of `frame` as a dict: all numbers that the decision rests on; None where one is not known.

        Raises:
            SettingError: if there are several groups: see `frame`.
        """
        self._check_one()
        row = self.frame.iloc[0].to_dict()
        return {str(name): None if is_missing(value) else value for name, value in row.items()}

    def limits(self, agent: str | None = None, group: str | None = None) -> Limits:
        """The limits to set for one group, with how they are counted.

        Args:
            agent: Which agent's, where each has a setting of its own; else the name of the agent that they are for.
            group: Which group's, by its name in the sentences: the values of `keys`, with commas.

        Returns:
            The limits.

        Raises:
            SettingError: if no limit is to be set, with the reason; if there are several groups and none is chosen.

        Example:
            >>> import boolab as bl
            >>> bl.recommend(bl.load_dataset("atlas/intercode-python"), keep=0.9).limits("coder").max_steps
            3
        """
        decision = self._group(agent, group)
        if decision.action != "set":
            raise SettingError(f"nothing can be exported. {self._why(decision)} {self._try}")
        return self._limits(decision, agent)

    def limits_by_group(self) -> dict[str, Limits]:
        """The limits to set for each group that has some, by the name of the group; "" if there is one group only."""
        return {self._name(group): self._limits(group) for group in self.groups if group.action == "set"}

    def export(self, target: str, agent: str | None = None, group: str | None = None) -> Export:
        """The limits to set as the settings of a harness: what to paste where.

        Where the harness lacks one of the limits, the best decision among those that it has is exported, and a note
        names what is lost by that.

        Args:
            target: The harness, such as "claude-code": one of `boolab.harnesses.exports.export.TARGETS`.
            agent: Which agent's, where each has a setting of its own; else the name of the agent that it is for.
            group: Which group's, by its name in the sentences: the values of `keys`, with commas.

        Returns:
            The texts; `print` shows them, and their `write` sets them in files.

        Raises:
            SettingError: if no limit is to be set, with the reason; if there is no such target; if there are several
                groups and none is chosen.

        Example:
            >>> import boolab as bl
            >>> decision = bl.recommend(bl.load_dataset("atlas/intercode-python"), keep=0.9)
            >>> decision.export("boolab", agent="coder").parts[0].path
            'agents/coder.md'
        """
        from boolab.harnesses.exports.export import export

        self.limits(agent, group)  # or the reason why there are none
        limits, note = self.limits_for(target, self._group(agent, group), agent)
        return replace(export(target, limits), lost=note)

    def limits_for(self, target: str, group: GroupDecision, agent: str | None = None) -> tuple[Limits, str]:
        """The limits of a group as a harness can hold them, and what is lost by that; "" if nothing is.

        Where the harness lacks one of the limits to set, they are the best among those that it has, if any is good.

        Args:
            target: The harness.
            group: The group, whose action is "set".
            agent: The name of the agent that they are for, where groups do not name it.

        Returns:
            The limits, and the sentence.
        """
        from boolab.harnesses.exports.export import target_of

        lacks = target_of(target).lacks
        missing = [name for name in group.setting_on if name in lacks]
        if not missing:
            return self._limits(group, agent), ""
        has = tuple(name for name in group.question.order if name not in lacks)
        within = self._within.get((id(group), has))
        if within is None:
            within = self._within[id(group), has] = group.restricted(has)
        title = target_of(target).title
        without = f"{title} has no {' and no '.join(LIMITS[name].label for name in missing)}"
        if within.action != "set":
            return self._limits(group, agent), f"{without}, and of the limits that it has none is good by itself."
        note = (
            f"{without}: of the limits that it has, {limits_in_words(within.setting)} gains most. It saves "
            f"{_saved_in_words(within)}; {limits_in_words(group.setting)} would save {_saved_in_words(group)}."
        )
        return self._limits(within, agent), note

    def _check_one(self) -> None:
        if len(self.groups) != 1:
            raise SettingError(f"there are {len(self.groups)} groups, each with a setting of its own: see .frame")

    def _name(self, group: GroupDecision) -> str:
        return group_name(group.names) if self.keys else ""

    def _group(self, agent: str | None, name: str | None = None) -> GroupDecision:
        """The group that is meant."""
        groups = list(self.groups)
        if name is not None:
            groups = [group for group in groups if name in (self._name(group), ", ".join(map(str, group.names)))]
            if not groups:
                names = [self._name(group) for group in self.groups]
                raise SettingError(f"group={name!r}: there is no such group{near(name, names, 'groups')}")
        if agent is not None and "agent" in self.keys:
            index = self.keys.index("agent")
            groups = [group for group in groups if group.names[index] == agent]
            if not groups:
                agents = list(dict.fromkeys(str(group.names[index]) for group in self.groups))
                raise SettingError(f"agent={agent!r}: there is no group of that agent{near(agent, agents, 'agents')}")
        if len(groups) == 1:
            return groups[0]
        if not groups:
            raise SettingError(f"nothing can be exported. {' '.join(self.sentences)} {self._try}")
        names = [group_name(group.names) for group in groups]
        option = "agent" if self.keys == ("agent",) else "group"
        advice = f"pass {option}= (--{option} in a terminal), one of them"
        msg = f"there are {len(groups)} groups, each with a setting of its own ({'; '.join(names)}): {advice}"
        raise SettingError(msg)

    def _limits(self, group: GroupDecision, agent: str | None = None) -> Limits:
        agent_name = group.names[self.keys.index("agent")] if "agent" in self.keys else agent
        return replace(self.counted, **group.setting, agent=str(agent_name) if agent_name else None)

    @property
    def _try(self) -> str:
        """What to do where nothing is to be set; a smaller share to keep if the successes can show it."""
        smaller_share = None
        if self.groups:
            keep = min(group.question.keep for group in self.groups)
            possible = min(group.choice.keep_possible for group in self.groups)
            smaller = (share for share in _SMALLER_SHARES if share < keep)
            smaller_share = next((share for share in smaller if share <= possible), None)
        less = (
            "" if smaller_share is None else f"keep less (keep={smaller_share}, in a terminal --keep {smaller_share}), "
        )
        return (
            f"You can {less}add runs, or export limits of your own (boolab.harnesses.exports.export.export(target, "
            "Limits(max_steps=56)), in a terminal --max-steps 56)."
        )

    def _why(self, group: GroupDecision) -> str:
        """The answer for one group."""
        return verdict_of([group], [words_of(group)])[0]


def groups_frame(groups: Sequence[GroupDecision], keys: Sequence[str], order: Sequence[str]) -> pd.DataFrame:
    """A row for each group: its names, its limits, and the evidence."""
    data = _names(groups, keys)
    data |= {name: cells([group.setting.get(name) for group in groups], axis_dtype(name)) for name in order}
    data |= {name: cells([get(group) for group in groups], kind) for name, (kind, get) in GROUP_COLUMNS.items()}
    questions = [(group.question.budget, group.budget) for group in groups]
    answers = [(budget, finding) for budget, finding in questions if budget is not None and finding is not None]
    if answers:
        data |= {name: cells([get(*row) for row in answers], kind) for name, (kind, get) in _BUDGET_COLUMNS.items()}
    return pd.DataFrame(data)


def paths_frame(groups: Sequence[GroupDecision], keys: Sequence[str]) -> pd.DataFrame:
    """A row for each path of each group."""
    rows: list[_PathRow] = list(pairs(groups, lambda group: group.choice.paths))
    data = _names([group for group, _ in rows], keys)
    data["path"] = cells([path.tests.path.name for _, path in rows], TEXT)
    data["error"] = cells([path.tests.error for _, path in rows], FLOAT)
    data["accepted"] = cells([path.tests.accepted > 0 for _, path in rows], FLAG)
    for name in groups[0].question.order if groups else ():
        data[name] = cells([(path.setting or {}).get(name) for _, path in rows], axis_dtype(name))
    data |= {name: cells([get(*row) for row in rows], kind) for name, (kind, get) in PATH_COLUMNS.items()}
    return pd.DataFrame(data)


def table_of_groups(frame: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """What is shown: what to do with which limits, what they keep and save."""
    table = frame[[*keys]].astype("object")
    table["answer"] = [_ANSWERS[action] for action in frame["action"]]
    table["limits"] = frame["candidate"].fillna("none").to_list()
    table["kept"] = [
        f"{span(low, high)} of {base:,}"
        for low, high, base in zip(frame["kept_lower"], frame["kept_upper"], frame["successes"], strict=True)
    ]
    if "over" in frame:
        table["cost more"] = [f"{n_over:,} of {n:,}" for n_over, n in zip(frame["over"], frame["n_units"], strict=True)]
    objective = str(frame["objective"].iloc[0]) if len(frame) else "steps"
    table[f"{objective} saved"] = ["none" if is_missing(value) else f"{value:.1%}" for value in frame["saved_share"]]
    return table


def _names(groups: Sequence[GroupDecision], keys: Sequence[str]) -> dict[str, Any]:
    return {key: [well_formed_cell(group.names[n]) for group in groups] for n, key in enumerate(keys)}


def _amount(amount: int, group: GroupDecision) -> float:
    return amount / group.question.per_unit


def _saved_in_words(group: GroupDecision) -> str:
    return format_saved(group.question, group.saved, group.spent)
