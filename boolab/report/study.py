"""A question about logs, and its result as data; other modules write it as text."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, SupportsInt

import numpy as np
import pandas as pd

from boolab.core.run import Run
from boolab.core.run_labels import is_labelled
from boolab.core.run_tree import flag_labelled_groups, order_agents, roots_in
from boolab.core.text import clean, count
from boolab.errors import ReadWarning, SettingError
from boolab.frames.dtypes import is_missing, well_formed_cell
from boolab.frames.tables import runs_df, tools_called
from boolab.limits.call_identity import check_tools
from boolab.limits.table import LIMITS, MEASURES
from boolab.logs.load import Reading, label_row, no_log_message, path_names, read_logs
from boolab.logs.outcomes.frame import evidence_lines
from boolab.logs.outcomes.label_file import LabelFile
from boolab.logs.outcomes.labels import JoinedLabels, label_by_file
from boolab.report.limit_rows import LimitRow, Mark, informative_rows
from boolab.report.progress import parts_bar
from boolab.report.question import Question, searched_grid, usual_grid
from boolab.report.units import (
    Unit,
    group_keys,
    key_of,
    remove_label,
    sum_groups,
    sum_units,
    unit_noun,
    units_of_runs,
    with_settings,
)
from boolab.stats.recommend.decide import GroupDecision
from boolab.stats.recommend.decision import Decision
from boolab.stats.recommend.groups import agent_columns
from boolab.stats.recommend.recommend import recommend
from boolab.stats.units import INTERRUPTED, SET, group_noun
from boolab.whatif.evaluate import counterfactual
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.grid import settings_of
from boolab.whatif.step_table import UnitNoun, scopes_of

MAX_GROUPS: Final = 6
"""So many groups are shown in full on a terminal, and in a figure with a curve for each."""
UNITS: Final[Mapping[str, str]] = {measure.column: measure.label for measure in MEASURES.values()}
"""By what is to be saved, what it is called."""
_STOP_OUTCOMES: Final = ("truncated", "not_identified")


MAX_COMBINATIONS: Final = 20_000
"""How many combinations of settings a table has where none were asked for."""


class AgentCounts(NamedTuple):
    """An agent of these runs: where its logs come from, how many runs there are, and how many units are labelled."""

    source: str
    agent: str
    runs: int
    steps: int
    successes: int
    labelled: int


class CountedUnits(NamedTuple):
    """What the successes of a group are, and what is counted."""

    proxy: bool  # whether a proxy stands in for success, as no run of the group has a label
    noun: UnitNoun  # what a unit is called

    def successes(self, n: int) -> str:
        """What so many successes are called."""
        if self.proxy:
            return f"{self.noun}{'' if n == 1 else 's'} that ended by {'itself' if n == 1 else 'themselves'}"
        return "success" if n == 1 else "successes"


class Cut(NamedTuple):
    """A unit that a setting stops: where, and the smallest value that would not stop it (None: not known).

    `because` is what the setting stops first: the unit itself, its subagent, whose answer it then lacks, or the parent
    that would have started it.
    """

    unit: int
    turn: int | None
    step: int | None
    success: bool | None
    maybe: bool
    needed: int | None
    because: Literal["itself", "subagent", "parent"] = "itself"


@dataclass(frozen=True)
class Study:
    """The data, the question, and the results."""

    question: Question  # what was asked; its scope is resolved
    keys: tuple[str, ...]  # the columns that separate groups
    loaded_logs: Reading  # the files
    runs: list[Run]  # their runs
    homes: list[str]  # the file of each run
    by_label: Sequence[bool]  # of each run, whether the successes of its group are labels, not the proxy
    units: list[Unit]  # what is counted
    found: Decision  # the recommendation
    margins: Mapping[str, pd.DataFrame] = field(repr=False)  # by axis, the sums of each of its values, the others off

    @property
    def success_by(self) -> str:
        """What a success is: "label", the proxy, or "mixed" where some groups have labels and others do not."""
        values = next(iter(self.margins.values()))["success_by"].unique()
        return str(values[0]) if len(values) == 1 else "mixed"

    @cached_property
    def agent_counts(self) -> list[AgentCounts]:
        """The agents of these runs, in the order of `order_agents`."""
        counts_by_agent: dict[tuple[str, str], list[int]] = {}
        for run in self.runs:
            sums = counts_by_agent.setdefault((clean(run.source), clean(run.agent)), [0, 0, 0, 0])
            sums[0] += 1
            sums[1] += run.n_steps
        for run, _, _ in self.units:
            sums = counts_by_agent[clean(run.source), clean(run.agent)]
            sums[2] += run.success is True
            sums[3] += run.success is not None
        keys = [(clean(run.source), clean(run.agent)) for run in self.runs]
        main = [run.parent_run_id is None for run in self.runs]
        return [AgentCounts(*key, *counts_by_agent[key]) for key in order_agents(keys, main)]

    @cached_property
    def counted_units(self) -> list[CountedUnits]:
        """What the successes of the groups are: of those with labels first, then of those without."""
        nouns = {
            kind: unit_noun([unit for unit in self.units if self.by_label[unit.of] is kind]) for kind in (True, False)
        }
        by_proxy = CountedUnits(proxy=True, noun=nouns[False])
        units_by_kind = {True: CountedUnits(proxy=False, noun=nouns[True]), False: by_proxy}
        return [units_by_kind[kind] for kind in (True, False) if kind in {*self.by_label}] or [by_proxy]

    @cached_property
    def kinds(self) -> list[tuple[list[str], list[Run]]]:
        """The groups with labels, then those without: their names and runs, without labels that do not count."""
        pairs = []
        for kind in [flag for flag in (True, False) if flag in {*self.by_label}]:
            indices = [index for index, labelled in enumerate(self.by_label) if labelled is kind]
            runs = [self.runs[index] if kind else remove_label(self.runs[index]) for index in indices]
            keys = list(dict.fromkeys(self.run_keys[index] for index in indices))
            pairs.append((keys, with_settings(runs, self.keys, self.runs)))
        return pairs or [([], [])]

    def counted_units_of(self, key: str) -> CountedUnits:
        """What the successes of a group are: see `key_of`; "" where there is one group only."""
        return self._counted_by_key.get(key, self.counted_units[0])

    @cached_property
    def _counted_by_key(self) -> dict[str, CountedUnits]:
        return {
            key: self.counted_units[0 if kind else -1] for key, kind in zip(self.run_keys, self.by_label, strict=True)
        }

    @property
    def searched_values(self) -> Mapping[str, Sequence[Any]] | None:
        """What the recommendation was chosen from; None for all values."""
        return searched_grid(self.question)

    @property
    def noun(self) -> str:
        """What a unit is called, in all groups together."""
        return " or ".join(dict.fromkeys(unit_kind.noun for unit_kind in self.counted_units))

    @property
    def nouns(self) -> str:
        """The same in the plural."""
        return " or ".join(dict.fromkeys(f"{unit_kind.noun}s" for unit_kind in self.counted_units))

    @cached_property
    def group_noun(self) -> str:
        """What a group is called."""
        return group_noun(self.keys)

    def data_of(self, key: str) -> str:
        """The data set of a group's runs where they name it, else the format of their logs; "" if there are several."""
        runs = [run for run, run_key in zip(self.runs, self.run_keys, strict=True) if run_key == key]
        for names in ({run.settings.get(SET) for run in runs}, {run.source for run in runs}):
            if len(names) == 1 and (name := names.pop()):
                return clean(name)
        return ""

    def success_noun(self, n: int) -> str:
        """What a success is called, for so many, in all groups together."""
        return " or ".join(unit_kind.successes(n) for unit_kind in self.counted_units)

    @cached_property
    def _roots(self) -> list[int]:
        """Of each run, the run that its family began with."""
        return roots_in(self.runs)

    @cached_property
    def is_root(self) -> list[bool]:
        """Of each run, whether its family began with it."""
        return [root == index for index, root in enumerate(self._roots)]

    @cached_property
    def root_successes(self) -> tuple[int, int]:
        """The successes of the units that families began with, and the number of these units: those that count."""
        axis = next(iter(self.margins))
        off_rows = sum_units(self.units, self.by_label, {axis: [None]}, self.question, self.keys)
        counted = sorted({unit.of for unit in self.units})
        roots = roots_in([self.runs[index] for index in counted])  # one that has no unit counts as not on record
        is_root = {index for position, index in enumerate(counted) if roots[position] == position}
        return int(off_rows["successes"].sum()), sum(unit.of in is_root for unit in self.units)

    @property
    def has_families(self) -> bool:
        """Whether some of the runs are of subagents that others of them started."""
        return not all(self.is_root)

    @cached_property
    def tasks(self) -> list[str]:
        """Of each run, its task: of a subagent, that of its family."""
        return [self.runs[root].task for root in self._roots]

    def end_reason(self, unit: int) -> str:
        """The reason that ended a unit; `INTERRUPTED` for a turn before the last that did not end by itself."""
        run, index, turn = self.units[unit]
        return INTERRUPTED if turn and run.stop is not self.runs[index].stop and run.censored else run.stop_reason

    @cached_property
    def measure(self) -> str:
        """The column of what is to be saved: the objective, or else what the source records."""
        objective = str(self.found.frame["objective"].iloc[0]) if len(self.found.frame) else "steps"
        return "cost_usd" if objective == "cost" else objective

    def table(self) -> pd.DataFrame:
        """All combinations of the settings, a row for each and each group; see `table_grid`."""
        table = self.aggregate(self.table_grid())
        for name in self.keys:  # neither CSV nor Parquet can hold a lone surrogate
            table[name] = table[name].map(well_formed_cell)
        return table

    def table_grid(self) -> dict[str, list[Any]]:
        """The values of each axis in `table`: those that were asked for.

        Where none were, every second value of the longest axis is left out until there are at most `MAX_COMBINATIONS`.
        """
        grid = self._all_values()
        while self.question.grid is None and math.prod(map(len, grid.values())) > MAX_COMBINATIONS:
            longest = max(grid, key=lambda axis: len(grid[axis]))
            values = [value for value in grid[longest] if value is not None]
            off_values = [None] * (len(values) < len(grid[longest]))
            grid[longest] = [*dict.fromkeys([*values[::2], values[-1]]), *off_values]
        return grid

    def left_out_of_table(self) -> dict[str, tuple[int, int]]:
        """Of each axis that `table` has not all values of: how many it has, and how many there are."""
        grid, values = self.table_grid(), self._all_values()
        return {axis: (len(grid[axis]), len(values[axis])) for axis in grid if len(grid[axis]) < len(values[axis])}

    def _all_values(self) -> dict[str, list[Any]]:
        values = {axis: dict.fromkeys(frame[axis].tolist()) for axis, frame in self.margins.items()}
        return {axis: [None if is_missing(value) else value for value in column] for axis, column in values.items()}

    def aggregate(self, grid: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
        """The sums of all combinations of some settings over the units, a row for each and each group."""
        return _sums(self.units, self.by_label, grid, self.question, self.found)

    def units_frame(self) -> pd.DataFrame:
        """A row for each unit, like one of `runs_df` for a run; `end_reason` is its stop reason."""
        frame = runs_df([unit.run for unit in self.units])
        reasons = [self.end_reason(unit) for unit in range(len(self.units))]
        return frame.assign(stop_reason=reasons, task=[self.tasks[unit.of] for unit in self.units])

    @cached_property
    def decisions(self) -> Mapping[str, GroupDecision]:
        """The decision on each group, by its key: see `key_of`."""
        return {key_of(group.names): group for group in self.found.groups}

    def groups(self, axis: str) -> Iterator[tuple[str, pd.DataFrame]]:
        """Of each group, in the order of the decision: its key, and the rows of an axis."""
        frame, keys = self.margins[axis], list(self.keys)
        if not keys:
            yield "", frame
            return
        part_by_key = {
            key_of(values if isinstance(values, tuple) else (values,)): part
            for values, part in frame.groupby(keys, sort=False, dropna=False)
        }
        order = {key: index for index, key in enumerate(self.decisions)}
        for key in sorted(part_by_key, key=lambda key: order.get(key, len(order))):
            yield key, part_by_key[key]

    @cached_property
    def run_keys(self) -> list[str]:
        """Of each run, which group it is in: see `key_of`."""
        return group_keys(self.runs, self.keys)

    @cached_property
    def unit_keys(self) -> list[str]:
        """Of each unit, which group it is in."""
        return [self.run_keys[unit.of] for unit in self.units]

    def limit_rows(self, axis: str, key: str, part: pd.DataFrame) -> list[LimitRow]:
        """A dozen informative rows of an axis: from tight to loose, off last."""
        group = self.decisions.get(key)
        if group is None:
            return informative_rows(part, axis)
        on = {} if group.candidate is None else group.candidate.setting
        best = [value for path in group.choice.paths if (value := (path.setting or {}).get(axis)) is not None]
        mark: Mark = "set" if group.action == "set" else "left"
        return informative_rows(part, axis, {on[axis]: mark} if on.get(axis) is not None else {}, best)

    def cuts(self, axis: str, values: Sequence[Any]) -> dict[Any, list[Cut]]:
        """The units that each value stops, successes first; those that need most first."""
        limits = sorted({value for value in values if value is not None})
        if not limits or not self.units:
            return {}
        needs = self._needed_limits(axis)
        out: dict[Any, list[Cut]] = {value: [] for value in limits}
        for row in self._stops(range(len(self.units)), {axis: limits}):
            need = needs[int(row["_unit"])]
            is_direct = need is None or need > row[axis]
            stop = self._make_cut(row, need)
            out[row[axis]].append(stop if is_direct else stop._replace(because="subagent" if stop.step else "parent"))
        for cuts in out.values():
            cuts.sort(key=lambda stop: (stop.success is not True, -(stop.needed or 0)))
        return out

    def find_stopped(self, limits: Mapping[str, Any], key: str = "") -> list[Cut]:
        """The units of a group that several limits together stop, successes first; "" for all groups."""
        indices = [index for index in range(len(self.units)) if not key or self.unit_keys[index] == key]
        if not limits or not indices:
            return []
        grid = {axis: [value] for axis, value in limits.items()}
        cuts = [self._make_cut(row, None) for row in self._stops(indices, grid)]
        return sorted(cuts, key=lambda stop: stop.success is not True)

    def _stops(self, indices: Sequence[int], grid: Mapping[str, Sequence[Any]]) -> Iterator[dict[Any, Any]]:
        """The rows of `counterfactual` in which some units are stopped; `_unit` is the unit of each."""
        for kind in (True, False):
            kind_indices = [index for index in indices if self.by_label[self.units[index].of] is kind]
            if not kind_indices:
                continue
            runs = [self.units[index].run for index in kind_indices]
            if self.question.policy is None:  # a limit is that of one agent of a family alone
                runs = [run if run.parent_run_id is None else replace(run, parent_run_id=None) for run in runs]
            table = counterfactual(runs, grid=grid, **self.question.counting_arguments)
            table["_unit"] = np.repeat(kind_indices, len(table) // len(kind_indices))
            yield from table[table["outcome"].isin(_STOP_OUTCOMES)].to_dict("records")

    def _make_cut(self, row: Mapping[Any, Any], need: int | None) -> Cut:
        unit = int(row["_unit"])
        turn = self.units[unit].turn or _int_or_none(row["stop_turn"])
        success = None if is_missing(row["success"]) else bool(row["success"])
        maybe = not is_missing(row["kept_upper"]) and bool(row["kept_upper"] == 1)
        return Cut(unit, turn, _int_or_none(row["stop_step"]), success, maybe, need)

    def _needed_limits(self, axis: str) -> list[int | None]:
        """Of each unit, the smallest value of an axis that does not stop it; None where it is not known."""
        question = self.question
        plain = settings_of({axis: [2]}, identity=question.call_identity).axes[0].rules[0]
        policy_settings = settings_of({axis: [2]}, question.policy, question.identity)
        limit = next(grid_axis for grid_axis in policy_settings.axes if grid_axis.name == axis)
        watched = [rule.detector for rule in (*limit.rules, *limit.responses) if rule.detector is not None]
        ledger = ledger_of([unit.run for unit in self.units], watched, question.scope).apply_own_limits()
        rules = [(rule, ledger) for rule in limit.rules] + [
            (rule, ledger.response_ledger()) for rule in limit.responses
        ]
        unknown = np.iinfo(np.int64).max
        # A run goes past a value while the counter stays below its threshold, which may lie beyond the value itself.
        needs = np.zeros(ledger.n_runs, dtype=np.int64)
        for rule, rule_ledger in rules:
            peak = rule_ledger.peak(rule.counter)
            offset = rule.threshold - plain.threshold
            needs = np.maximum(needs, np.where(peak == unknown, unknown, np.minimum(peak, unknown - 1) + 1 - offset))
        return [None if need == unknown else need for need in needs.tolist()]


def column_name(column: str) -> str:
    """What a column that separates groups is called in texts."""
    return "data set" if column == SET else column


def study_of(
    logs: Sequence[str],
    question: Question,
    *,
    format: str | None = None,  # noqa: A002 - as in load_runs
    since: datetime | None = None,
    limit: int | None = None,
    progress: bool = False,
) -> Study:
    """Read logs, and compute the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadWarning)  # the account of the files has them
        options: dict[str, Any] = {"format": format, "since": since, "limit": limit, "progress": progress}
        loaded_logs = read_logs(
            list(logs),
            **options,
            prices=question.prices,
            trust=question.trust,
            success_threshold=question.success_threshold,
        )
    if not loaded_logs.runs:
        raise SettingError(_no_run_message(loaded_logs, logs, since))
    runs = list(loaded_logs.runs)
    if question.labels is not None:
        labelled = label_by_file(runs, question.labels, question.trust)
        row = label_row(question.labels, labelled.notes)
        unit_lines = (*loaded_logs.unit_lines, *labelled.unit_lines)
        runs, loaded_logs = labelled.runs, replace(loaded_logs, files=(*loaded_logs.files, row), unit_lines=unit_lines)
    if question.evidence:
        lines = evidence_lines(runs, question.evidence, question.git)
        labels_of_evidence = JoinedLabels([LabelFile(Path(), tuple(lines))], question.trust)
        runs = labels_of_evidence.apply(runs)
        loaded_logs = replace(loaded_logs, unit_lines=(*loaded_logs.unit_lines, *labels_of_evidence.unit_lines))
    elif question.git is not None:
        raise SettingError(f"git={question.git!r}: no evidence is asked for: add --evidence git")
    if question.success == "ended":
        runs = [*map(remove_label, runs)]
    return study_of_runs(runs, question, loaded_logs, progress=progress)


def study_of_runs(runs: list[Run], question: Question, loaded_logs: Reading, *, progress: bool = False) -> Study:
    """The result for runs that were read."""
    check_tools(question.identity, tools_called(runs))
    homes = [*chain.from_iterable([row.path] * row.runs for row in loaded_logs.files)]
    scopes = scopes_of([run.source for run in runs], question.scope)
    if len(set(scopes)) == 1:
        question = replace(question, scope="run" if scopes[0] == "run" else "turn")
    elif question.by is not None and "source" not in question.by:  # two meanings of a limit are never mixed
        question = replace(question, by=("source", *question.by))
    grid = question.grid or usual_grid(runs, question)
    on_values = {axis: [value for value in grid[axis] if value is not None] for axis in LIMITS if axis in grid}
    margins = {}
    with parts_bar("comparing limits", 1 + len(on_values), show=progress) as move:
        found = _decision(runs, question)
        by_label = _label_flags(runs, scopes, question, found)
        if question.unlabelled == "proxy":  # labels of groups with the proxy count nowhere
            runs = [run if kind else remove_label(run) for run, kind in zip(runs, by_label, strict=True)]
        units = list(units_of_runs(runs, scopes, by_label))
        move()
        for axis, values in on_values.items():
            margins[axis] = _sums(units, by_label, {axis: [*values, None]}, question, found)
            move()
    return Study(question, found.keys, loaded_logs, runs, homes, by_label, units, found, margins)


def _sums(
    units: Sequence[Unit],
    by_label: Sequence[bool],
    grid: Mapping[str, Sequence[Any]],
    question: Question,
    found: Decision,
) -> pd.DataFrame:
    """The sums of settings, by group; those of the decision's own units, except under a policy."""
    if question.policy is None and found.groups:
        return sum_groups(found.groups, grid, question, found.keys)
    return sum_units(units, by_label, grid, question, found.keys)


def _label_flags(runs: Sequence[Run], scopes: Sequence[str], question: Question, found: Decision) -> list[bool]:
    """Of each run, whether the successes of its group are labels: as `recommend` decides it."""
    keys = found.keys
    if question.unlabelled == "proxy" and found.groups:
        is_label = {key_of(group.names): group.labelled for group in found.groups}
        return [is_label.get(key, False) for key in group_keys(runs, keys)]
    labelled = [is_labelled(run, by_turn=scope == "turn") for run, scope in zip(runs, scopes, strict=True)]
    if question.success is None and keys:
        return flag_labelled_groups(group_keys(runs, keys), roots_in(runs), labelled)
    return [any(labelled)] * len(runs)


def _decision(runs: list[Run], question: Question) -> Decision:
    """The decision; if a policy cannot be evaluated, the reason stands in its place."""
    try:
        return recommend(
            runs,
            question.keep,
            question.confidence,
            question.objective,
            by=question.by,
            success=question.success,
            unlabelled=question.unlabelled,
            grid=searched_grid(question),
            budget=question.budget,
            share=question.share,
            **question.counting_arguments,
        )
    except SettingError as error:
        if question.policy is None:
            raise
        reasons = (f"No recommendation. {error}.",)
        keys = agent_columns(runs_df(runs), question.scope) if question.by is None else question.by
        return Decision("No recommendation", pd.DataFrame(), reasons, verdict=reasons, keys=tuple(keys))


def _no_run_message(loaded_logs: Reading, logs: Sequence[str], since: datetime | None) -> str:
    if not loaded_logs.files:
        return no_log_message(logs, since)
    reason = next((f": {row.skipped}" for row in loaded_logs.files if row.skipped), "")
    return f"{path_names(logs)}: there is no run in {count(len(loaded_logs.files), 'file')}{reason}"


def _int_or_none(value: SupportsInt) -> int | None:
    return None if is_missing(value) else int(value)
