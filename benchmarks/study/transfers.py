"""What a rule that was chosen on one group of runs keeps and saves on others, such as another model or set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from boolab.core.text import count, shorten
from boolab.core.types import Scope
from boolab.display.numbers import level, percent
from boolab.errors import SettingError
from boolab.frames.dtypes import FLAG, FLOAT, INT, TEXT
from boolab.stats.compare_rules.cross_validation import (
    Choices,
    Chosen,
    Divided,
    RuleIndex,
    candidates_of,
    check_folds,
    choose_rules,
    divide_groups,
    name_of,
    rejudge,
)
from boolab.stats.compare_rules.judged import (
    FIGURES,
    Judged,
    Sums,
    data_notes,
    holds,
    judge_ledger,
    ledger_for,
    load_recordings,
)
from boolab.stats.compare_rules.settings import Chooser, ReadyChooser, label_of, smallest_cap
from boolab.stats.finding import Finding, frame_of
from boolab.stats.intervals import check_confidence
from boolab.stats.units import cluster_notes, group_name, keys_of
from boolab.whatif.recordings import Recorded, as_recorded

_COLUMNS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("chosen_on", "judged_on", "rule"), TEXT),
    **FIGURES,
    "keep": FLOAT,
    **dict.fromkeys(("holds", "held_out"), FLAG),
    **dict.fromkeys(("shared_tasks", "folds", "seed"), INT),
    "confidence": FLOAT,
    "success_by": TEXT,
}
_TABLE: Final = ("chosen_on", "judged_on", "rule", "kept_share", "saved_share", "holds")
_MIN_GROUPS: Final = 2


def transfer(
    runs: Recorded,
    by: str | Sequence[str],
    choose: Chooser | None = None,
    *,
    keep: float = 0.95,
    folds: int | Mapping[str, int] = 5,
    scope: Scope = "auto",
    confidence: float = 0.95,
    seed: int = 0,
    progress: bool = True,
) -> Finding:
    """What a rule that is chosen on one group of runs keeps and saves on each other group.

    On its own group the rule is not judged on the tasks that it was chosen by, where it holds by construction, but by
    cross-validation: chosen by some tasks, judged on the others. So both are about runs that the choice has not seen.

    Args:
        runs: Runs, a frame with a row per step, or the path of such a file or of a store: see `counterfactual`.
        by: The column of the runs that separates the groups, such as "model" or "set", or several.
        choose: A function of recorded runs that returns a rule: see `bl.stats.crossval`. By default the smallest step
            cap that keeps `keep`.
        keep: The share of successes that is to be kept.
        folds: Of the cross-validation: see `bl.stats.crossval`.
        scope: Where counters start anew: see `counterfactual`.
        confidence: Of the two-sided intervals.
        seed: Of the folds, and of the bootstrap.
        progress: Whether to show a progress bar, if there is more than a second of work.

    Returns:
        A finding whose frame has a row for each pair of groups. Columns:

        - `chosen_on` and `judged_on`, by the values of `by`; `rule`, chosen by all runs of the first.
        - what it keeps, saves and costs on the second, as `bl.stats.crossval` has it: n_runs to n_unknown. Intervals
          resample the tasks of the judged group. Where both are one group, these are the figures on held-out tasks, of
          the rule of each fold; NA if there are too few tasks.
        - `keep`, and `holds`: whether `kept_share` is at least that; `held_out`: whether both are one group.
        - `shared_tasks`: how many of the judged tasks the first group has too. Two models on the same tasks share them
          all; then a rule goes to a new model, and not to new tasks. `folds`, `seed`, `confidence`, `success_by`.

    Raises:
        SettingError: if an argument is not one of those above, `choose` returns something else, or there are fewer than
            two groups.

    Example:
        >>> import boolab as bl
        >>> from benchmarks.study.transfers import transfer
        >>> from dataclasses import replace
        >>> looks = [{"tool_calls": [{"name": "ls", "arguments": {"page": n}}]} for n in range(20)]
        >>> models = {f"{who} {n}": bl.ScriptedModel([*looks[:n], "Done."]) for n, who in enumerate("abab" * 5)}
        >>> runs = [
        ...     replace(bl.run_sync(None, "Look", model=model), model=name[0], task=name)
        ...     for name, model in models.items()]
        >>> found = transfer(runs, "model", keep=0.8)
        >>> found[["chosen_on", "judged_on", "kept_lower"]].values.tolist()
        [['a', 'a', 8], ['a', 'b', 7], ['b', 'a', 8], ['b', 'b', 8]]
    """
    check_confidence(confidence)
    check_confidence(keep, "keep")
    check_folds(folds)
    chooser = smallest_cap(keep) if choose is None else choose
    candidates, keys = candidates_of(chooser), keys_of(by, _COLUMNS)
    recorded = as_recorded(runs) if isinstance(chooser, ReadyChooser) else load_recordings(as_recorded(runs))
    ledger = ledger_for(recorded, candidates, keys=keys, scope=scope)
    judged = judge_ledger(ledger, candidates, keys)
    groups = list(divide_groups(judged, keys, folds, seed))
    if len(groups) < _MIN_GROUPS:
        msg = f"by={by!r}: the runs have {count(len(groups), 'group')}: expected two at least"
        raise SettingError(msg)
    choices, rules = Choices(recorded, judged, chooser), RuleIndex()
    with tqdm(total=sum(group.n_folds + 1 for group in groups), unit="fit", disable=not progress, delay=1) as bar:
        chosen = [choose_rules(group, choices, rules, bar.update) for group in groups]
    final = rejudge(recorded, ledger, rules.rules, keys, scope)
    pairs = _Pairs(groups, chosen, final, keys)
    more = {"keep": keep, "seed": seed, "confidence": confidence, "success_by": final.success_by}
    by_judged = [pairs.judged_on(place, confidence, seed) for place in range(len(groups))]
    rows = [by_judged[on][first] | more for first in range(len(groups)) for on in range(len(groups))]
    for row in rows:
        row["holds"] = holds(row, keep)
    frame = frame_of([], [() for _ in rows], _COLUMNS, rows)
    return Finding(
        title=f"What {name_of(chooser)} of one group keeps and saves on another",
        frame=frame,
        sentences=tuple(_sentences(rows, keep)),
        notes=(*data_notes(final), *_notes(groups, final, rows)),
        table=frame[[*_TABLE]],
    )


class _Pairs(NamedTuple):
    """The groups with their rules, and all runs under all rules."""

    groups: Sequence[Divided]
    chosen: Sequence[Chosen]
    final: Judged
    keys: Sequence[str]

    def judged_on(self, place: int, confidence: float, seed: int) -> list[dict[str, Any]]:
        """A row for the rule of each group, judged on one of them."""
        group, mine = self.groups[place], self.final.rows(self.groups[place].runs)
        figures = Sums(mine, self.keys, confidence, seed).rows()
        tasks = set(mine.units["cluster"])
        rows = []
        for first, its in zip(self.groups, self.chosen, strict=True):
            own = first is group
            found = figures[its.of_all]
            if own and its.of_folds:
                held_out = mine.select_rule(np.array(its.of_folds)[group.fold - 1])
                [found] = Sums(held_out, self.keys, confidence, seed).rows()
            elif own:
                found = dict.fromkeys(FIGURES) | {name: found[name] for name in ("n_runs", "n_tasks", "successes")}
            rows.append(
                {
                    "chosen_on": group_name(first.names),
                    "judged_on": group_name(group.names),
                    "rule": label_of(self.final.rules[its.of_all]),
                    **found,
                    "held_out": own,
                    "shared_tasks": len(tasks & set(self.final.units["cluster"].iloc[first.runs])),
                    "folds": group.n_folds,
                }
            )
        return rows


def _sentences(rows: Sequence[Mapping[str, Any]], keep: float) -> Iterator[str]:
    own, others = ([row for row in rows if row["held_out"] is its] for its in (True, False))
    known, elsewhere = ([row for row in part if row["holds"] is not None] for part in (own, others))
    if not elsewhere:
        yield "In no group that is judged is there a success to keep."
        return
    held, kept = sum(row["holds"] for row in known), sum(row["holds"] for row in elsewhere)
    yield (
        f"At least {level(keep)} of successes is kept in {held:,} of {count(len(known), 'group')} where the rule was "
        f"chosen by other tasks of the same group, and in {kept:,} of {count(len(elsewhere), 'pair')} "
        f"({percent(kept / len(elsewhere))}) where it was chosen on another group."
    )
    worst = min(elsewhere, key=lambda row: row["kept_share"])
    middle = float(np.median([row["kept_share"] for row in elsewhere]))
    yield (
        f"On other groups it keeps {percent(middle)} at the median, and least where {worst['rule']} of "
        f"{shorten(worst['chosen_on'])} is used on {shorten(worst['judged_on'])}: {percent(worst['kept_share'])}."
    )
    saved_by_own = {row["judged_on"]: row["saved_share"] for row in known}
    fine = [row for row in elsewhere if row["holds"] and row["judged_on"] in saved_by_own]
    if fine:
        there = float(np.median([row["saved_share"] for row in fine]))
        its_own = float(np.median([saved_by_own[row["judged_on"]] for row in fine]))
        yield (
            f"Where another group's rule keeps enough, it saves {percent(there)} of steps at the median; over the same "
            f"pairs the judged group's own rule saves {percent(its_own)} on held-out tasks."
        )


def _notes(groups: Sequence[Divided], judged: Judged, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    few = [group_name(group.names) for group in groups if not group.n_folds]
    if few:
        yield f"Too few tasks to hold some out: {', '.join(few)}."
    sizes = [(group.word, judged.units["cluster"].iloc[group.runs].nunique()) for group in groups]
    yield from cluster_notes(sizes, judged.units)
    sharing = sum(row["shared_tasks"] > 0 for row in rows if not row["held_out"])
    if sharing:
        n = len(rows) - len(groups)
        yield (
            f"In {sharing:,} of {count(n, 'pair')} both groups have tasks in common: there a rule is new to the group "
            "and not to the tasks."
        )
