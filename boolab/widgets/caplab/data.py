"""Runs, and what settings of three limits would have done to them: counted when it is needed, and kept."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeVar, cast

import numpy as np

from boolab.core.run import Run
from boolab.core.run_labels import is_labelled
from boolab.core.run_tree import order_agents
from boolab.core.text import clean
from boolab.core.types import Identities, Scope
from boolab.display.numbers import level
from boolab.display.text import capitalize
from boolab.errors import SettingError
from boolab.frames.runs import Runs, as_runs
from boolab.frames.tables import tools_called
from boolab.harnesses.setting import ALL_AGENTS, Setting, identity_words
from boolab.io.checks import is_whole
from boolab.limits.detector import Detector
from boolab.limits.table import AGENT_LIMITS, LIMITS
from boolab.stats.recommend.decide import GroupDecision
from boolab.stats.recommend.decision import Decision
from boolab.stats.recommend.groups import Kind, default_keys, kinds_of, name_of, shared_errors, task_sizes
from boolab.stats.recommend.question import measure_of
from boolab.stats.recommend.recommend import recommend
from boolab.stats.recommend.words import reason_in_words, sentences_of, verdict_of, words_of
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.grid import settings_of
from boolab.whatif.step_table import Ledger, check_scope
from boolab.widgets.caplab.controls import values_of
from boolab.widgets.caplab.how_to_set import short_of
from boolab.widgets.caplab.question import Question, RunGroup, groups_of
from boolab.widgets.caplab.table import CapTable

_Value = TypeVar("_Value")

_START: Final = Setting()
MAX_LEDGERS: Final = 4
MAX_TABLES: Final = 3
_ROW: Final = "\0row"
"""A column that no run has: its place among the runs. Units of a family have the id of its root."""


class CapTables:
    """Runs, and what settings would have done to them, counted when it is needed.

    One thread uses it. Another one may only `search`.
    """

    def __init__(
        self, runs: Runs, question: Question, start: Setting = _START, decision: Decision | None = None
    ) -> None:
        run_list = as_runs(runs)
        if question.success == "label" and run_list and not any(is_labelled(run, by_turn=True) for run in run_list):
            msg = "success='label': no run has a label; see bl.label, or success='ended' for the proxy"
            raise SettingError(msg)
        self._as_given = run_list
        if question.success == "ended":
            run_list = [dataclasses.replace(run, success=None, labels=()) for run in run_list]
        self.runs: list[Run] = run_list
        self.question = question
        self.roots = _agents_of_roots(run_list)
        """The agents that families began with, the most frequent first; empty where no run is of a subagent."""
        self._ledgers: OrderedDict[Hashable, Ledger] = OrderedDict()
        self._cached_kinds: OrderedDict[Hashable, list[Kind]] = OrderedDict()
        ledger = self.ledger(start)
        self.keys = (
            default_keys(ledger, start.scope, question.success, question.keep, 1 - question.confidence)
            if decision is None
            else [*decision.keys]
        )
        """The columns that separate groups: those of the decision, by default as `recommend` separates them."""
        columns = ledger.runs[self.keys].itertuples(index=False, name=None)
        values: list[tuple[object, ...]] = [*map(name_of, columns)] if self.keys else [()] * len(run_list)
        for kind in self._kinds(start):
            for names, units in kind.groups:  # the task of a family is its root's
                for row in units.runs[_ROW].tolist():
                    values[row] = name_of(names)
        families = bool(self.roots)
        self.groups = {group.name: group for group in groups_of(run_list, self.keys, values, families=families)}
        """By name, the groups of runs that there are limits for."""
        self._shared: dict[Hashable, tuple[str, dict[tuple[object, ...], float]]] = {}
        self._tables: OrderedDict[Hashable, CapTable] = OrderedDict()
        self._found: dict[Hashable, dict[Question, dict[str, Any]]] = {}
        """What is recommended, by the place of a table, then by the options of the study."""
        if decision is not None:
            asked = {(group.question.keep, group.question.confidence) for group in decision.groups}
            if asked - {(question.keep, question.confidence)}:
                msg = f"decision: keep={question.keep}, confidence={question.confidence}: expected its own"
                raise SettingError(msg)
            self.add(start, question, self._plain_decision(decision, question, self._names(start)))
        self._set_by_code: dict[str, set[int]] = {name: set() for name in AGENT_LIMITS}
        """By axis, the values that code has set, beside those that make a difference in these runs."""

    @property
    def first_agent(self) -> str:
        """The group that is shown at first: of most families, or of most runs; all, where there is one only."""
        if self.roots and self.roots[0] in self.groups:
            return self.roots[0]
        return next(iter(self.groups)) if len(self.groups) > 1 else ALL_AGENTS

    def group(self, setting: Setting) -> RunGroup | None:
        """The group of a setting; None for all runs."""
        return None if setting.agent == ALL_AGENTS else self.groups[setting.agent]

    def name_agent(self, setting: Setting) -> Setting:
        """The setting with the agent that its limits are for, in place of the name of a group."""
        group = self.group(setting)
        return setting if group is None else setting._replace(agent=group.limits_of)

    def get_table(self, setting: Setting) -> CapTable:
        """The table for a setting's identity, scope and agent; its limits do not matter."""
        if setting.agent != ALL_AGENTS and setting.agent not in self.groups:
            agent_names = ", ".join(map(repr, dict.fromkeys([ALL_AGENTS, *self.groups])))
            raise SettingError(f"agent={setting.agent!r}: no run is of this agent: {agent_names}")
        if setting.agent == ALL_AGENTS and self.roots and len(self.groups) > 1:
            names = ", ".join(map(repr, self.groups))
            raise SettingError(
                f"agent={ALL_AGENTS!r}: subagents have limits of their own, so that one agent has to be chosen: {names}"
            )
        check_scope(setting.scope)
        return self._apply_question(
            _get_cached(self._tables, _table_key(setting), MAX_TABLES, lambda: self._count_table(setting)), setting
        )

    def get_table_once(self, setting: Setting) -> CapTable:
        """The same table, not kept if it is not: for what needs it once, so that those in use stay."""
        return self._apply_question(self._tables.get(_table_key(setting)) or self._count_table(setting), setting)

    def _apply_question(self, table: CapTable, setting: Setting) -> CapTable:
        """The table with what is asked of it now."""
        table.question = self.question
        table.error = self._error(setting)
        table.found = self.find_recommendation(setting)
        return table

    def _error(self, setting: Setting) -> float:
        """The error that a group may have: its part, as the groups that are separated share it."""
        group = self.group(setting)
        if group is None or group.key is None:
            return 1 - self.question.confidence
        return self._parts(setting)[1].get(group.key, 1 - self.question.confidence)

    def _parts(self, setting: Setting) -> tuple[str, dict[tuple[object, ...], float]]:
        """What is saved in the groups that are separated, and the error of each, as `recommend` has them."""
        question = self.question
        key = (setting.scope, question.keep, question.confidence)
        if key not in self._shared:
            kinds = self._kinds(setting)
            groups = [*chain.from_iterable(kind.groups for kind in kinds)]
            sizes = [*chain(*(task_sizes(kind.units, self.keys) for kind in kinds))]
            errors = shared_errors(sizes, question.keep, 1 - question.confidence)
            by_name = {name_of(names): error for (names, _), error in zip(groups, errors, strict=True)}
            self._shared[key] = measure_of((units for _, units in groups), question.objective), by_name
        return self._shared[key]

    def _count_table(self, setting: Setting) -> CapTable:
        of_all = self.ledger(setting)
        kept_ledger = of_all.apply_own_limits()
        values = {
            name: values_of(
                name, _peak(kept_ledger, counter), self._advised_values(setting, name) | self._set_by_code[name]
            )
            for name, counter in self._counters(setting).items()
        }
        group = self.group(setting)
        measure = None if group is None or group.key is None else self._parts(setting)[0]
        units = self._units(setting)
        names = of_all.runs.iloc[units.runs[_ROW].to_numpy()]
        return CapTable(units, names, values, self.name_agent(setting), self.question, measure)

    def _units(self, setting: Setting) -> Ledger:
        """What is counted of a setting's group, as `recommend` counts it."""
        group, of_all, success = self.group(setting), self.ledger(setting), self.question.success
        if group is None and len(self.groups) > 1:
            return kinds_of(of_all, [], success)[0].units
        if group is not None and group.key is None:
            return kinds_of(of_all.take(np.array(group.runs)), [], success)[0].units
        parts = [*chain.from_iterable(kind.groups for kind in self._kinds(setting))]
        empty = parts[0][1].take(slice(0))  # by the proxy, runs without a step are no unit
        return next((units for names, units in parts if group is None or name_of(names) == group.key), empty)

    def _kinds(self, setting: Setting) -> list[Kind]:
        """The units of all groups that are separated."""
        key = (identity_words(setting.identity), setting.scope)
        return _get_cached(
            self._cached_kinds, key, 1, lambda: kinds_of(self.ledger(setting), self.keys, self.question.success)
        )

    def ledger(self, setting: Setting) -> Ledger:
        """All runs as columns, as recorded, under a setting's identity and scope."""
        watched = settings_of({name: [2] for name in AGENT_LIMITS}, self.question.policy, setting.identity).detectors()
        key = (identity_words(setting.identity), setting.scope)
        return _get_cached(self._ledgers, key, MAX_LEDGERS, lambda: self._make_ledger(watched, setting.scope))

    def _make_ledger(self, watched: Sequence[Detector], scope: Scope) -> Ledger:
        ledger = ledger_of(self.runs, watched, scope)
        return dataclasses.replace(ledger, runs=ledger.runs.assign(**{_ROW: range(ledger.n_runs)}))

    def _counters(self, setting: Setting) -> dict[str, str]:
        axes = settings_of({name: [2] for name in AGENT_LIMITS}, self.question.policy, setting.identity).axes
        return {name: next(axis.counter for axis in axes if axis.name == name) for name in AGENT_LIMITS}

    def _advised_values(self, setting: Setting, name: str) -> set[int]:
        """The values of an axis that a decision is about for some share to keep, so that they stay on its slider."""
        limits = [found["candidate"] or {} for found in self._found.get(_table_key(setting), {}).values()]
        return {limit_values[name] for limit_values in limits if limit_values.get(name) is not None}

    def find_recommendation(self, setting: Setting) -> dict[str, Any] | None:
        """The decision for a setting's identity, scope and group, as `search` returns it; None if not yet computed."""
        return self._found.get(_table_key(setting), {}).get(self.question)

    def get_recommendation(self, setting: Setting) -> dict[str, Any]:
        """The decision of `recommend` for a setting's identity, scope and group; the first time takes a while."""
        result = self.find_recommendation(setting)
        if result is None:
            self.add(setting, self.question, self.search(setting, self.question))
            result = self.find_recommendation(setting)
        return cast("dict[str, Any]", result)

    def add(self, setting: Setting, question: Question, results: Mapping[str, dict[str, Any]]) -> None:
        """Keep the results of a search, and put their values on the sliders."""
        for name, result in results.items():
            key = _table_key(setting._replace(agent=name))
            self._found.setdefault(key, {})[question] = result
            table, limits = self._tables.get(key), result["candidate"] or {}
            if table is not None and any(value not in table.options[name] for name, value in limits.items()):
                del self._tables[key]  # the next one has them

    def put_on_sliders(self, limits: Mapping[str, object]) -> None:
        """Give the sliders values that code sets, so that one setting can be tried on any runs."""
        for name, value in limits.items():
            min_value = LIMITS[name].min_useful
            if value is not None and not (is_whole(value) and value >= min_value):
                msg = f"{name}={value!r}: expected a whole number, {min_value} or more, or None for no limit"
                raise SettingError(msg)
        for name, value in limits.items():
            values = self._set_by_code[name]
            if isinstance(value, int) and value not in values:
                values.add(value)
                for key in [key for key, table in self._tables.items() if value not in table.options[name]]:
                    del self._tables[key]  # the next one has it

    def search(self, setting: Setting, question: Question) -> dict[str, dict[str, Any]]:
        """The decision of `recommend`, by the name of the group: of all that are separated at once, or of a union.

        Each is plain data: action, setting (None unless it is to be set), candidate (the setting that the evidence is
        about), verdict, sentences, notes and reason are those of the decision; `words` is the answer in a few words,
        and `overview` that for all groups. Another thread may call it, as it keeps nothing.
        """
        union = self.groups.get(setting.agent)
        is_apart = bool(self.roots) or union is None or union.key is not None
        runs = self._as_given
        names = self._names(setting)
        if not is_apart and union is not None:
            runs, names = [runs[index] for index in union.runs], {(): setting.agent}
        try:
            decision = recommend(
                runs, question.keep, question.confidence, question.objective, by=self.keys if is_apart else [],
                success=question.success, scope=setting.scope, policy=question.policy,
                identity=_drop_uncalled_tools(runs, setting.identity),
            )  # fmt: skip
        except SettingError as error:
            if question.policy is None and question.success is None:
                raise
            empty = _plain(question, verdict=[f"There is no recommendation: {clean(str(error))}."], words="None.")
            return dict.fromkeys(names.values(), empty)
        return self._plain_decision(decision, question, names)

    def _names(self, setting: Setting) -> dict[tuple[object, ...], str]:
        """The names of the groups that are separated, by their values."""
        names = {group.key: group.name for group in self.groups.values() if group.key is not None}
        return names if len(names) > 1 else dict.fromkeys(names, setting.agent)  # one group is shown as all runs

    @staticmethod
    def _plain_decision(
        decision: Decision, question: Question, names: Mapping[tuple[object, ...], str]
    ) -> dict[str, dict[str, Any]]:
        """A decision as plain data, by the name of the group."""
        overview = [*map(clean, decision.verdict)] if len(decision.groups) > 1 else []
        found = {names[name_of(one.names)]: _of_group(question, one, decision, overview) for one in decision.groups}
        rest = _plain(question, verdict=[*decision.verdict], words="None.", overview=overview)
        return dict.fromkeys(names.values(), rest) | found


def _plain(question: Question, **facts: Any) -> dict[str, Any]:  # noqa: ANN401 - of a decision
    """A decision as plain data; without facts, one that sets nothing."""
    return {
        "keep": question.keep, "confidence": question.confidence, "action": "not_yet", "reason": "no_run",
        "setting": None, "candidate": None, "verdict": [], "words": "", "overview": [], "sentences": [], "notes": [],
        "tasks": 0, "more_needed": 0,
    } | facts  # fmt: skip


def _of_group(
    question: Question, group: GroupDecision, decision: Decision, overview: Sequence[str]
) -> dict[str, Any]:  # fmt: skip
    """The decision on one group as plain data."""
    no_limits = dict.fromkeys(AGENT_LIMITS)
    candidate = None if group.candidate is None else no_limits | group.candidate.setting
    is_set = group.action == "set"
    level_text, texts = level(question.confidence), words_of(group)
    words = f"With {level_text} confidence: {short_of(candidate or {})}" if is_set else reason_in_words(group)
    return _plain(
        question,
        action=group.action,
        reason=group.reason,
        setting=candidate if is_set else None,
        candidate=candidate,
        verdict=[*map(clean, verdict_of([group], [texts]))],
        words=f"{clean(capitalize(words))}.",
        overview=[*overview],
        sentences=[*map(clean, sentences_of(group, texts))],
        notes=[*map(clean, decision.notes)],
        tasks=group.choice.tasks,
        more_needed=group.choice.missing,
    )


def _get_cached(
    cache: OrderedDict[Hashable, _Value], key: Hashable, max_items: int, make: Callable[[], _Value]
) -> _Value:
    """The value of a key, made if it is missing; the value that was not used for the longest time is dropped."""
    if key not in cache:
        cache[key] = make()
        if len(cache) > max_items:
            cache.popitem(last=False)
    cache.move_to_end(key)
    return cache[key]


def _agents_of_roots(runs: Sequence[Run]) -> list[str]:
    """The agents of the runs that families began with, in order, if any of these runs is a subagent of another one."""
    ids = {run.run_id for run in runs}
    if not any(run.parent_run_id in ids for run in runs):
        return []
    roots = [run for run in runs if run.parent_run_id not in ids]
    return order_agents([run.agent for run in roots], [run.parent_run_id is None for run in roots])


def _table_key(setting: Setting) -> Hashable:
    return identity_words(setting.identity), setting.scope, setting.agent


def _drop_uncalled_tools(runs: Iterable[Run], identity: Identities) -> Identities:
    """An identity without the tools that these runs do not call, because only another agent does."""
    if isinstance(identity, str):
        return identity
    called_tools = tools_called(runs)
    return {tool: tool_identity for tool, tool_identity in identity.items() if tool == "*" or tool in called_tools}


def _peak(ledger: Ledger, counter: str) -> int:
    """The largest value that a counter takes at a boundary."""
    return int(ledger.counters[counter][ledger.boundary].max(initial=0))
