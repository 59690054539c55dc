"""What a rule that was chosen by some tasks keeps and saves on others: tasks are divided into folds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from boolab.core.text import count
from boolab.core.types import Scope
from boolab.display.numbers import level, percent
from boolab.errors import SettingError
from boolab.frames.dtypes import FLAG, FLOAT, INT, TEXT
from boolab.io.checks import repr_of
from boolab.stats.compare_rules.judged import (
    FIGURES,
    Judged,
    Sums,
    data_notes,
    holds,
    judge_ledger,
    ledger_for,
    load_recordings,
    promise,
    runs_at,
)
from boolab.stats.compare_rules.settings import Chooser, ReadyChooser, label_of, rule_of
from boolab.stats.finding import Finding, frame_of, pairs
from boolab.stats.intervals import check_confidence
from boolab.stats.units import cluster_notes, clusters_of, group_name, keys_of, split_groups
from boolab.whatif.grid import detectors_of
from boolab.whatif.recordings import Recorded, as_recorded
from boolab.whatif.rule_matrix import Rule
from boolab.whatif.step_table import Ints, Ledger

POOLED, SAME_TASKS = "held out", "same tasks"
"""The parts over all folds: judged on held-out tasks, and on the tasks that the rule was chosen by."""

_COLUMNS: Final[Mapping[str, str]] = {
    "part": TEXT,
    "rule": TEXT,
    **FIGURES,
    **dict.fromkeys(("chosen_kept_share", "chosen_saved_share", "keep"), FLOAT),
    "holds": FLAG,
    **dict.fromkeys(("folds", "seed"), INT),
    "confidence": FLOAT,
    **dict.fromkeys(("unit", "success_by"), TEXT),
}
_TABLE: Final = ("part", "rule", "n_tasks", "successes", "kept_share", "saved_share", "chosen_kept_share", "holds")
_MAX_SENTENCES: Final = 20  # groups that get sentences


def crossval(
    runs: Recorded,
    choose: Chooser,
    folds: int | Mapping[str, int] = 5,
    *,
    by: str | Sequence[str] | None = None,
    keep: float | None = None,
    scope: Scope = "auto",
    confidence: float = 0.95,
    seed: int = 0,
    progress: bool = True,
) -> Finding:
    """What a way to choose a rule keeps and saves on tasks that it has not seen.

    The tasks are divided into folds. For each fold, `choose` is called on the runs of all other tasks, and the rule
    that it returns is judged on the tasks of the fold. Beside it stands what the same choice shows on the very tasks
    that it was made by (resubstitution): the best of many rules there is always partly luck, and keeps less elsewhere.

    Args:
        runs: Runs, a frame with a row per step, or the path of such a file or of a store: see `counterfactual`.
        choose: A function that takes the runs of the other tasks, as they were given (a list of runs, or a frame; what
            a file or a store holds is read into memory first), and returns a stop rule, a setting such as
            `{"max_steps": 20}`, or None for no limit. `bl.stats.smallest_cap`, `bl.stats.best_rule` and
            `bl.stats.percentile_cap` make such functions, which are evaluated once for all folds.
        folds: The number of folds. The names of the tasks (of the runs, where no task is named) are sorted, shuffled by
            `numpy.random.default_rng(seed)` and dealt out in turn, so that the folds depend on names and seed alone;
            with fewer tasks there are fewer folds. Or the fold of each task, by its name.
        by: Columns of the runs; each group is cross-validated by itself.
        keep: The share of successes that is to be kept, for the column `holds`; by default that of a ready-made
            `choose`.
        scope: Where counters start anew: see `counterfactual`.
        confidence: Of the two-sided intervals.
        seed: Of the folds, and of the bootstrap.
        progress: Whether to show a progress bar, if there is more than a second of work.

    Returns:
        A finding whose frame has a row for each group and part: "fold 1" and so on, "held out" (all folds together),
        and "same tasks" (chosen by all tasks, and judged on them). Columns:

        - the columns of `by`, `part`, and `rule`; of "held out", the rule if all folds have the same, else NA.
        - `n_runs`, `n_tasks` (runs where no task is named) and `successes` that it is judged on.
        - `kept_lower` successes that it does not stop, and `kept_upper` that it may keep; `kept_share` is that of
          `kept_lower`, with the interval `kept_low` to `kept_high`; `kept_share_upper`.
        - `steps` of all runs, `saved_steps`, `saved_share` with the interval `saved_low` to `saved_high`; `cost_usd`,
          `saved_cost_usd` and `saved_cost_share` over the runs that report the cost of each step.
        - `steps_per_success` on record, and `steps_per_kept_success`: the steps under the rule for each success that
          it keeps; `saved_steps_per_lost_success`; `even_trade`, which is that over `steps_per_success`: above 1 the
          steps saved would buy more successes than are lost. `cost_per_success_usd` and `cost_per_kept_success_usd`,
          where all runs report their cost.
        - `n_unknown`: runs where a counter that the rule needs is unknown.
        - `chosen_kept_share` and `chosen_saved_share`: the same on the tasks that the rule was chosen by.
        - `keep`, and `holds`: whether `kept_share` is at least that. `folds`, `seed`, `confidence`, `unit`
          ("run"), `success_by`.

        Intervals resample the tasks that a rule is judged on. They take the rules as they are: that other tasks would
        have led to other rules shows in the differences between the folds.

    Raises:
        SettingError: if an argument is not one of those above, or `choose` returns something else.

    Example:
        >>> import boolab as bl
        >>> from dataclasses import replace
        >>> looks = [{"tool_calls": [{"name": "ls", "arguments": {"page": n}}]} for n in range(20)]
        >>> models = [bl.ScriptedModel([*looks[:n], "Done."]) for n in range(1, 11)]
        >>> runs = [replace(bl.run_sync(None, "Look", model=model), task=f"t{n}") for n, model in enumerate(models)]
        >>> found = bl.stats.crossval(runs, bl.stats.smallest_cap(0.8), folds=2)
        >>> found[["part", "rule", "kept_lower", "successes"]].iloc[2:].values.tolist()
        [['held out', <NA>, 8, 10], ['same tasks', 'max_steps(9)', 8, 10]]
    """
    check_confidence(confidence)
    check_folds(folds)
    if keep is not None:
        check_confidence(keep, "keep")
    candidates = candidates_of(choose)
    promised = keep if keep is not None or not isinstance(choose, ReadyChooser) else choose.keep
    keys = keys_of(by, _COLUMNS)
    recorded = as_recorded(runs) if isinstance(choose, ReadyChooser) else load_recordings(as_recorded(runs))
    ledger = ledger_for(recorded, candidates, keys=keys, scope=scope)
    judged_runs = judge_ledger(ledger, candidates, keys)
    choices, rules = Choices(recorded, judged_runs, choose), RuleIndex()
    groups = list(divide_groups(judged_runs, keys, folds, seed))
    with tqdm(total=sum(group.n_folds + 1 for group in groups), unit="fit", disable=not progress, delay=1) as bar:
        group_choices = [choose_rules(group, choices, rules, bar.update) for group in groups]
    final = rejudge(recorded, ledger, rules.rules, keys, scope)
    rows = [
        [*_rows(group, of_group, final, keys, promised, confidence, seed)]
        for group, of_group in zip(groups, group_choices, strict=True)
    ]
    names = [group.names for (group, _), _ in pairs(zip(groups, rows, strict=True), lambda group_rows: group_rows[1])]
    frame = frame_of(keys, names, _COLUMNS, [*itertools.chain.from_iterable(rows)])
    return Finding(
        title=f"What {name_of(choose)} keeps and saves on tasks that it has not seen",
        frame=frame,
        sentences=tuple(_sentences(groups, rows, promised, confidence)),
        notes=(*data_notes(final), *_notes(groups, judged_runs)),
        table=frame.loc[frame["part"].isin([POOLED, SAME_TASKS]), [*keys, *_TABLE]].reset_index(drop=True),
    )


class Divided(NamedTuple):
    """The runs of a group: their places, the fold of each, and the name and the number of its clusters."""

    names: tuple[Any, ...]
    runs: Ints
    fold: Ints
    word: str

    @property
    def n_folds(self) -> int:
        """The number of folds; 0 if there are too few tasks."""
        top = int(self.fold.max(initial=0))
        return top if top >= MIN_FOLDS else 0


class Chosen(NamedTuple):
    """The place of the rule of each fold, and of that chosen by all runs of the group."""

    of_folds: list[int]
    of_all: int


def divide_groups(
    judged_runs: Judged, keys: Sequence[str], folds: int | Mapping[str, int], seed: int
) -> Iterator[Divided]:
    """The groups of runs by their columns, each with its tasks divided into folds."""
    for values, part in split_groups(judged_runs.units, list(keys)):
        # Never by run where a task is named: runs of one task on both sides would not be held out.
        fold = folds_of(part["cluster"], folds, seed)
        yield Divided(values, part.index.to_numpy(), fold, clusters_of(part, keys)[1])


def choose_rules(group: Divided, choices: Choices, rules: RuleIndex, tick: Callable[[], object]) -> Chosen:
    """Choose by all but each fold of a group, and by all of it; `tick` is called after each choice."""
    fold_rules = []
    for fold in range(1, group.n_folds + 1):
        fold_rules.append(rules.place_of(choices.choose(group.runs[group.fold != fold])))
        tick()
    of_all = rules.place_of(choices.choose(group.runs))
    tick()
    return Chosen(fold_rules, of_all)


def rejudge(recorded: Recorded, ledger: Ledger, rules: Sequence[Rule], keys: Sequence[str], scope: Scope) -> Judged:
    """The runs under rules that have been chosen; they are read again if a rule needs a further detector."""
    if any(detector.name not in ledger.counters for detector in detectors_of(rules)):
        ledger = ledger_for(recorded, rules, keys=keys, scope=scope)
    return judge_ledger(ledger, rules, keys)


def _rows(
    group: Divided,
    choice: Chosen,
    final: Judged,
    keys: Sequence[str],
    keep: float | None,
    confidence: float,
    seed: int,
) -> Iterator[dict[str, Any]]:
    """The rows of a group: each fold, held out, same tasks."""
    group_runs = final.rows(group.runs)
    shared_columns: dict[str, Any] = {"folds": group.n_folds, "keep": keep, "seed": seed, "confidence": confidence}
    shared_columns |= {"unit": "run", "success_by": group_runs.success_by}

    def row(
        part: str, part_runs: Judged, rule: Rule | str, kept_share: float | None, saved: float | None
    ) -> dict[str, Any]:
        [figures] = Sums(part_runs, keys, confidence, seed).rows()
        return {
            "part": part,
            "rule": rule if isinstance(rule, str) else label_of(rule),
            **figures,
            "chosen_kept_share": kept_share,
            "chosen_saved_share": saved,
            "holds": holds(figures, keep),
            **shared_columns,
        }

    totals = []
    for fold, rule_index in enumerate(choice.of_folds, 1):
        held_out, other_runs = np.flatnonzero(group.fold == fold), np.flatnonzero(group.fold != fold)
        totals.append(_totals(group_runs.rows(other_runs), rule_index))
        fold_runs = group_runs.rows(held_out).select_rule(np.full(len(held_out), rule_index))
        yield row(f"fold {fold}", fold_runs, final.rules[rule_index], *_shares(totals[-1:]))
    if choice.of_folds:
        same_rule = len(set(choice.of_folds)) == 1
        its_own = group_runs.select_rule(np.array(choice.of_folds)[group.fold - 1])
        pooled = row(POOLED, its_own, final.rules[choice.of_folds[0]] if same_rule else "", *_shares(totals))
        yield pooled | ({} if same_rule else {"rule": None})
    everywhere = np.full(group_runs.n_runs, choice.of_all)
    yield row(
        SAME_TASKS,
        group_runs.select_rule(everywhere),
        final.rules[choice.of_all],
        *_shares([_totals(group_runs, choice.of_all)]),
    )


def _totals(judged_runs: Judged, rule_index: int) -> tuple[int, int, int, int]:
    """Kept of successes, and saved of steps, under a rule."""
    matrix = judged_runs.matrix
    n_kept, saved = int(matrix.kept_lower[:, rule_index].sum()), int(matrix.saved_steps[:, rule_index].sum())
    return n_kept, int((judged_runs.success == 1).sum()), saved, int(judged_runs.steps.sum())


def _shares(totals: Sequence[tuple[int, int, int, int]]) -> tuple[float | None, float | None]:
    n_kept, successes, saved, steps = (sum(column) for column in zip(*totals, strict=True))
    return n_kept / successes if successes else None, saved / steps if steps else None


def name_of(choose: Chooser) -> str:
    """What a chooser does, in a few words."""
    return choose.name if isinstance(choose, ReadyChooser) else str(getattr(choose, "__name__", "a choice"))


def _sentences(
    groups: Sequence[Divided], rows: Sequence[Sequence[Mapping[str, Any]]], keep: float | None, confidence: float
) -> Iterator[str]:
    pairs = [(group, of_group[-2], of_group[-1]) for group, of_group in zip(groups, rows, strict=True) if group.n_folds]
    if keep is not None and len(pairs) > 1:
        yield (
            f"On held-out tasks {promise([held_out for _, held_out, _ in pairs], keep)}; on the tasks that it was "
            f"chosen by, {promise([same_tasks for _, _, same_tasks in pairs], keep)}."
        )
    for group, held_out, same_tasks in pairs[:_MAX_SENTENCES]:
        name = f"{group_name(group.names)}: on" if group.names else "On"
        if not held_out["successes"]:
            saved = percent(held_out["saved_share"])
            yield f"{name} held-out tasks there is no success to keep; {saved} of steps are saved."
            continue
        rules = "" if held_out["rule"] is None else f" ({held_out['rule']} in every fold)"
        kept_text = f"{held_out['kept_lower']:,} of {count(held_out['successes'], 'success', 'successes')}"
        interval = f"{level(confidence)} interval {percent(held_out['kept_low'])} to {percent(held_out['kept_high'])}"
        yield (
            f"{name} held-out tasks{rules} it keeps {kept_text} ({percent(held_out['kept_share'])}, {interval}) and "
            f"saves {percent(held_out['saved_share'])} of steps; on the tasks that it was chosen by, "
            f"{same_tasks['rule']} keeps {percent(same_tasks['kept_share'])} and saves "
            f"{percent(same_tasks['saved_share'])}."
        )
    if len(pairs) > _MAX_SENTENCES:
        yield f"{count(len(pairs) - _MAX_SENTENCES, 'further group')} in the table."


def _notes(groups: Sequence[Divided], judged_runs: Judged) -> Iterator[str]:
    without_folds = [group_name(group.names) or "the runs" for group in groups if not group.n_folds]
    if without_folds:
        yield f"Too few tasks to hold some out: {', '.join(without_folds)}."
    sizes = [(group.word, judged_runs.units["cluster"].iloc[group.runs].nunique()) for group in groups]
    yield from cluster_notes(sizes, judged_runs.units)
    if any(group.n_folds for group in groups):
        yield (
            "The intervals take the chosen rules as they are; that other tasks would have led to other rules shows in "
            "the differences between the folds."
        )


MIN_FOLDS = 2


def check_folds(folds: int | Mapping[str, int]) -> None:
    """Raise `SettingError` unless there are two folds at least."""
    if isinstance(folds, Mapping):
        if len(set(folds.values())) >= MIN_FOLDS:
            return
    elif not isinstance(folds, bool) and isinstance(folds, int) and folds >= MIN_FOLDS:
        return
    msg = f"folds={repr_of(folds)}: expected a whole number of at least 2, or the fold of each task by its name"
    raise SettingError(msg)


def folds_of(clusters: pd.Series[Any], folds: int | Mapping[str, int], seed: int) -> Ints:
    """The fold of each run, from 1: all runs of a task are in one.

    The names of the tasks are sorted, then shuffled by `numpy.random.default_rng(seed)`, then dealt out to the folds in
    turn. So the folds depend on the names and the seed alone, and their numbers of tasks differ by one at most. With
    fewer tasks than folds there is a fold for each task.
    """
    names = clusters.astype(str)
    if isinstance(folds, Mapping):
        missing = sorted(set(names) - set(map(str, folds)))
        if missing:
            msg = f"folds: task {missing[0]!r} has no fold; {len(missing):,} of the runs' tasks are not in the mapping"
            raise SettingError(msg)
        fold_by_task = {str(name): fold for name, fold in folds.items()}
        ranks = {fold: position for position, fold in enumerate(sorted({fold_by_task[name] for name in names}), 1)}
        return np.array([ranks[fold_by_task[name]] for name in names], dtype=np.int64)
    tasks = sorted(set(names))
    order = np.random.default_rng(seed).permutation(len(tasks))
    fold = {tasks[task]: position % folds + 1 for position, task in enumerate(order.tolist())}
    return np.array([fold[name] for name in names], dtype=np.int64)


class Choices:
    """The rules that a chooser returns for parts of the runs."""

    def __init__(self, recorded: Recorded, judged_runs: Judged, choose: Chooser) -> None:
        self._recorded = recorded
        self._judged = judged_runs
        self._choose = choose

    def choose(self, indices: Ints) -> Rule:
        """The choice by some of the runs."""
        if isinstance(self._choose, ReadyChooser):
            return self._choose.pick(self._judged.rows(indices))
        return rule_of(self._choose(runs_at(self._recorded, self._judged, indices)))


def candidates_of(choose: object) -> tuple[Rule, ...]:
    """The rules that a chooser needs to be evaluated before it chooses; `SettingError` if it cannot be called."""
    if not callable(choose):
        raise SettingError(
            f"choose={choose!r}: expected a function that takes runs and returns a rule, such as "
            "bl.stats.smallest_cap(0.95)"
        )
    return choose.candidates if isinstance(choose, ReadyChooser) else ()


class RuleIndex:
    """Rules, each once, and their places."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self._at: dict[str, int] = {}

    def place_of(self, rule: Rule) -> int:
        """The place of a rule, which is added if it is new."""
        key = str(rule)
        if key not in self._at:
            self._at[key] = len(self.rules)
            self.rules.append(rule)
        return self._at[key]
