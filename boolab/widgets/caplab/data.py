"""Runs, and what settings of three limits would have done to them: counted when it is needed, and kept."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np
import pandas as pd

from boolab.core.run import Run
from boolab.core.run_tree import flag_labelled_groups, order_agents, roots_in
from boolab.core.text import clean, count, shorten
from boolab.core.types import Identities
from boolab.errors import SettingError
from boolab.frames.runs import Runs, as_runs
from boolab.frames.tables import tools_called
from boolab.harnesses.setting import ALL_AGENTS, Setting, identity_words
from boolab.io.checks import is_whole
from boolab.limits.table import AGENT_LIMITS, LIMITS
from boolab.stats.recommend.recommend import recommend
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.grid import settings_of
from boolab.whatif.step_table import LABEL, PROXY, TURN_PROXY, Ledger, UnitNoun, check_scope, unit_of
from boolab.widgets.caplab.controls import values_of
from boolab.widgets.caplab.question import Question, RunGroup, groups_of
from boolab.widgets.caplab.table import CapTable

_Value = TypeVar("_Value")

MAX_LEDGERS: Final = 4
MAX_TABLES: Final = 3


class CapTables:
    """Runs, and what settings would have done to them, counted when it is needed.

    One thread uses it. Another one may only `search`.
    """

    def __init__(self, runs: Runs, question: Question) -> None:
        run_list = as_runs(runs)
        if question.success == "label" and run_list and all(run.success is None for run in run_list):
            msg = "success='label': no run has a label; see bl.label, or success='ended' for the proxy"
            raise SettingError(msg)
        self._as_given = run_list
        if question.success == "ended":
            run_list = [dataclasses.replace(run, success=None) for run in run_list]
        self.runs: list[Run] = run_list
        self.question = question
        self.roots = _agents_of_roots(run_list)
        """The agents that families began with, the most frequent first; empty where no run is of a subagent."""
        self.groups = {group.name: group for group in groups_of(run_list, families=bool(self.roots))}
        """By name, the groups of runs that there are limits for."""
        self._ledgers: OrderedDict[Hashable, Ledger] = OrderedDict()
        self._tables: OrderedDict[Hashable, CapTable] = OrderedDict()
        self._found: dict[Hashable, dict[Question, dict[str, Any]]] = {}
        """What is recommended, by the place of a table, then by the options of the study."""
        self._set_by_code: dict[str, set[int]] = {name: set() for name in AGENT_LIMITS}
        """By axis, the values that code has set, beside those that make a difference in these runs."""

    @property
    def first_agent(self) -> str:
        """The group that is shown at first: of most families, or of most runs; all, where there is one only."""
        if self.roots:
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
        if setting.agent == ALL_AGENTS and self.roots:
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
        table.found = self.find_recommendation(setting)
        return table

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
        mask = np.zeros(of_all.n_runs, dtype=bool)
        mask[[] if group is None else [*group.runs]] = True
        group_ledger = of_all if group is None else of_all.take(mask)
        if group is not None and self.question.success is None and not self._has_labels(group):
            group_ledger = dataclasses.replace(group_ledger, success_by=PROXY)
        noun = self._unit_noun(of_all, group_ledger)
        return CapTable(group_ledger, noun, values, self.name_agent(setting), self.question)

    def _unit_noun(self, of_all: Ledger, group_ledger: Ledger) -> UnitNoun:
        """What is counted: the agents of families that have no labels count the same, as `recommend` decides it."""
        if group_ledger.success_by != PROXY:
            return "run"
        if not self.roots:
            return unit_of(group_ledger.span)
        by_proxy = [run.agent not in self._labelled_agents for run in self.runs]
        return unit_of(of_all.take(np.array(by_proxy)).span)

    def _has_labels(self, group: RunGroup) -> bool:
        """Whether successes of a group are labels, as `recommend` decides it."""
        if not self.roots:
            return any(self.runs[index].success is not None for index in group.runs)
        return group.agent in self._labelled_agents

    @cached_property
    def _labelled_agents(self) -> set[str]:
        """The agents whose runs have labels, or that are in a family of one that has."""
        agents = [run.agent for run in self.runs]
        labelled = [run.success is not None for run in self.runs]
        flags = flag_labelled_groups(agents, roots_in(self.runs), labelled)
        return {agent for agent, has_label in zip(agents, flags, strict=True) if has_label}

    def ledger(self, setting: Setting) -> Ledger:
        """All runs as columns, as recorded, under a setting's identity and scope."""
        watched = settings_of({name: [2] for name in AGENT_LIMITS}, self.question.policy, setting.identity).detectors()
        key = (identity_words(setting.identity), setting.scope)
        return _get_cached(self._ledgers, key, MAX_LEDGERS, lambda: ledger_of(self.runs, watched, setting.scope))

    def _counters(self, setting: Setting) -> dict[str, str]:
        axes = settings_of({name: [2] for name in AGENT_LIMITS}, self.question.policy, setting.identity).axes
        return {name: next(axis.counter for axis in axes if axis.name == name) for name in AGENT_LIMITS}

    def _advised_values(self, setting: Setting, name: str) -> set[int]:
        """The values of an axis that are recommended for some share to keep, so that they stay on its slider."""
        limits = [
            recommendation["setting"] or {} for recommendation in self._found.get(_table_key(setting), {}).values()
        ]
        return {limit_values[name] for limit_values in limits if limit_values.get(name) is not None}

    def find_recommendation(self, setting: Setting) -> dict[str, Any] | None:
        """The recommendation for a setting's identity, scope and agent; None if it has not been computed."""
        return self._found.get(_table_key(setting), {}).get(self.question)

    def get_recommendation(self, setting: Setting) -> dict[str, Any]:
        """The result of `recommend` for a setting's identity, scope and agent; the first time takes a while."""
        result = self.find_recommendation(setting)
        if result is None:
            result = self.search(setting, self.question)
            self.add(setting, self.question, result)
        return result

    def add(self, setting: Setting, question: Question, result: dict[str, Any]) -> None:
        """Keep the result of a search, and put its values on the sliders."""
        key = _table_key(setting)
        self._found.setdefault(key, {})[question] = result
        table, limits = self._tables.get(key), result["setting"] or {}
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

    def search(self, setting: Setting, question: Question) -> dict[str, Any]:
        """The result of `recommend`, as `get_recommendation` has it. Another thread may call it: it keeps nothing."""
        group = None if self.roots else self.group(setting)
        runs = self._as_given if group is None else [self._as_given[index] for index in group.runs]
        empty_result: dict[str, Any] = {
            "keep": question.keep, "confidence": question.confidence, "setting": None, "tasks": 0, "notes": [],
        }  # fmt: skip
        if question.success == "label" and all(run.success is None for run in runs):
            reason = "no run of this agent has a label"
            return empty_result | {"reason": reason, "sentences": [f"N{reason[1:]}: nothing is recommended."]}
        try:
            advice = recommend(
                runs, question.keep, question.confidence, question.objective, success=question.success,
                scope=setting.scope,
                policy=question.policy, identity=_drop_uncalled_tools(runs, setting.identity),
                by="agent" if self.roots else None,
            )  # fmt: skip
        except SettingError as error:
            if question.policy is None:
                raise
            return {**empty_result, "reason": "not under this policy", "sentences": [f"No recommendation. {error}."]}
        row = advice.frame.iloc[[*advice.frame["agent"]].index(setting.agent) if self.roots else 0]
        row_limits = {name: row.get(name, pd.NA) for name in AGENT_LIMITS}
        limits = {name: None if value is pd.NA else int(value) for name, value in row_limits.items()}
        return empty_result | {
            "setting": limits if row["qualifies"] else None,
            "reason": None if row["qualifies"] else _missing_reason(row),
            "tasks": int(row["tasks"]),
            "more_needed": int(row["more_needed"]),
            "sentences": [
                clean(sentence)
                for sentence in advice.sentences
                if not self.roots or sentence.startswith(f"{shorten(setting.agent)}: ")
            ],
            "notes": [*map(clean, advice.notes)],
        }


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


def _missing_reason(row: pd.Series[Any]) -> str:
    """Why nothing is recommended, in a few words."""
    n = int(row["more_needed"])
    if not n:
        return "no limit qualifies"
    if row["largest_task"] > 1:
        cluster = row["cluster"]
        return f"needs {count(n, f'more {cluster}')} like these"
    if row["success_by"] == LABEL:
        return f"needs {count(n, 'more success', 'more successes')}"
    noun = "turn" if row["success_by"] == TURN_PROXY else "run"
    return f"needs {count(n, f'more {noun}')} that {'ends by itself' if n == 1 else 'end by themselves'}"


def _drop_uncalled_tools(runs: Iterable[Run], identity: Identities) -> Identities:
    """An identity without the tools that these runs do not call, because only another agent does."""
    if isinstance(identity, str):
        return identity
    called_tools = tools_called(runs)
    return {tool: tool_identity for tool, tool_identity in identity.items() if tool == "*" or tool in called_tools}


def _peak(ledger: Ledger, counter: str) -> int:
    """The largest value that a counter takes at a boundary."""
    return int(ledger.counters[counter][ledger.boundary].max(initial=0))
