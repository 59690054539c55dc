"""What is counted as one, a run or a turn of a run, and the sums over them for a question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, get_args

import numpy as np
import pandas as pd

from boolab.core.run import Run
from boolab.core.run_labels import has_turn_labels
from boolab.core.types import StopReason
from boolab.display.text import NO_NAME
from boolab.frames.dtypes import TEXT, axis_dtype, cells, is_missing
from boolab.frames.runs import no_group_column
from boolab.frames.tables import runs_df
from boolab.frames.turn_runs import turns_as_runs
from boolab.report.question import Question
from boolab.stats.recommend.candidates import aggregate_of_units
from boolab.stats.recommend.decide import GroupDecision
from boolab.whatif.aggregate import SPENT_MEASURES
from boolab.whatif.evaluate import counterfactual
from boolab.whatif.grid import settings_of
from boolab.whatif.step_table import PROXY, TURN_PROXY, UnitNoun, unit_of
from boolab.whatif.tables import SUCCESS_BY, finish_sums

_AMOUNTS: Final = ("tokens", "cost_usd")


class Unit(NamedTuple):
    """What is counted as one: a run, or a turn of a run as a run of its own. `of` is its place in the runs."""

    run: Run
    of: int
    turn: int | None


def turns_as_units(run: Run, run_index: int) -> Iterator[Unit]:
    """Each turn of a run as a run of its own: see `turns_as_runs`."""
    yield from (Unit(turn_run, run_index, turn) for turn, turn_run in turns_as_runs(run))


def key_of(values: Sequence[Any]) -> str:
    """The key of a group: its values of `by`, in full."""
    return ", ".join(NO_NAME if is_missing(value) or value == "" else str(value) for value in values)


def units_of_runs(runs: Sequence[Run], scopes: Sequence[str], by_label: Sequence[bool]) -> Iterator[Unit]:
    """What is counted: each run; each turn where turns have labels, or nothing has one, and the scope is the turn.

    A run without steps has no turn, and is not counted, unless runs are labelled.
    """
    rows = list(zip(runs, scopes, by_label, strict=True))
    turns_judged = any(kind and scope == "turn" and has_turn_labels(run) for run, scope, kind in rows)
    by_turn = [scope == "turn" and (turns_judged or not kind) for _, scope, kind in rows]
    split = any(turns and run.steps and run.steps[-1].turn > 1 for run, turns in zip(runs, by_turn, strict=True))
    for index, run in enumerate(runs):
        if not run.steps and (turns_judged or not by_label[index]):
            continue
        counted_run = run if by_label[index] else remove_label(run)
        if split and by_turn[index]:
            yield from turns_as_units(counted_run, index)
        else:
            yield Unit(counted_run, index, None)


def unit_noun(units: Sequence[Unit]) -> UnitNoun:
    """What such units are called: see `unit_of`."""
    return unit_of([unit.turn or 1 for unit in units])


def remove_label(run: Run) -> Run:
    """A run of which no label is known."""
    return run if run.success is None and not run.labels else replace(run, success=None, labels=())


def with_settings(runs: Sequence[Run], columns: Sequence[str], all_runs: Sequence[Run]) -> list[Run]:
    """Some runs with the settings that separate groups, where others have them and these do not: then None."""
    absent = {name: None for name in columns if any(name in run.settings for run in all_runs)}
    return [run if {*absent} <= {*run.settings} else replace(run, settings={**absent, **run.settings}) for run in runs]


def group_keys(runs: Sequence[Run], columns: Sequence[str]) -> list[str]:
    """Of each run, which group it is in: see `key_of`."""
    frame = runs_df(list(runs))
    for name in columns:
        if name not in frame:
            raise no_group_column(name, frame.columns)
    return [key_of(row) for row in frame[list(columns)].itertuples(index=False, name=None)]


def sum_units(
    units: Sequence[Unit],
    by_label: Sequence[bool],
    grid: Mapping[str, Sequence[Any]],
    question: Question,
    keys: Sequence[str],
) -> pd.DataFrame:
    """The sums over the units, a row for each setting and group; of a group they are of labels, or of the proxy."""
    all_runs = [unit.run for unit in units]
    kinds = [[unit for unit in units if by_label[unit.of] is kind] for kind in (True, False)]
    parts = []
    for kind_units in filter(None, kinds) if units else [[]]:
        unit = unit_noun(kind_units)
        kind_runs = with_settings([unit.run for unit in kind_units], keys, all_runs)
        table = counterfactual(kind_runs, grid=grid, by=list(keys), aggregate=True, **question.counting_arguments)
        by_turn = table["success_by"].eq(PROXY) & (unit == "turn")
        kinds_of_success = table["success_by"].mask(by_turn, TURN_PROXY)
        parts.append(_mask_unknown_amounts(table.assign(unit=unit, success_by=kinds_of_success)))
    if len(parts) == 1:
        return parts[0]
    table = pd.concat(parts, ignore_index=True)
    counts = [str(name) for name in table if str(name).startswith("n_")]
    table[counts] = table[counts].fillna(0)
    names = [key_of(row) for row in table[list(keys)].itertuples(index=False, name=None)]
    order = {key: index for index, key in enumerate(dict.fromkeys(group_keys(all_runs, keys)))}
    positions = np.argsort([order.get(name, len(order)) for name in names], kind="stable")
    return table.iloc[positions].reset_index(drop=True)


def sum_groups(
    groups: Sequence[GroupDecision], grid: Mapping[str, Sequence[Any]], question: Question, keys: Sequence[str]
) -> pd.DataFrame:
    """The sums over the groups of a decision, a row for each setting and group, counted as the decision does.

    A setting is of one group alone. In families no other agent is limited, and each run of the group is begun.
    """
    settings = settings_of(grid, None, question.identity)
    values = pd.MultiIndex.from_product([axis.values for axis in settings.axes])  # noqa: PD011 - no frame
    axes = {
        axis.name: cells([*values.get_level_values(place)], axis_dtype(axis.name))
        for place, axis in enumerate(settings.axes)
    }
    present: tuple[Any, ...] = (0, *(slice(len(axis.values)) for axis in settings.axes))
    parts = []
    for group in groups:
        names = {key: cells([name] * len(values), TEXT) for key, name in zip(keys, group.names, strict=True)}
        sums = dict.fromkeys((f"n_{reason}" for reason in get_args(StopReason)), np.zeros(len(values), dtype=np.int64))
        sums |= {name: table[present].ravel() for name, table in aggregate_of_units(group.units, settings).items()}
        sums |= {f"saved_{name}_lower": sums[f"saved_{name}"] for name in SPENT_MEASURES}
        scope = next(iter(group.units.runs["scope"]), question.scope)
        texts = {"scope": scope, SUCCESS_BY: group.units.success_by}
        ends = {name: cells([text] * len(values), TEXT) for name, text in texts.items()}
        frame = finish_sums(pd.DataFrame(names | axes | sums | ends), [*keys, *axes, "scope"])
        parts.append(_mask_unknown_amounts(frame.assign(unit=group.noun)))
    return pd.concat(parts, ignore_index=True)


def _mask_unknown_amounts(table: pd.DataFrame) -> pd.DataFrame:
    """The sums, without tokens and costs where no step is on record: what such runs took is not known."""
    no_steps = table["steps"] + table["saved_steps"] == 0
    names = [str(name) for name in table if str(name).removeprefix("saved_").startswith(_AMOUNTS)]
    return table.assign(**{name: table[name].mask(no_steps) for name in names}) if no_steps.any() else table
