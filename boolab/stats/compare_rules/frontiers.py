"""All that a choice among settings can have: what each keeps and saves, and which of them no other beats.

A setting is on the Pareto front if no other keeps as much and saves more, or saves as much and keeps more. The front as
a function gives, for a share of steps to be saved, the largest share of successes that a setting keeps which saves so
much; at 0 it is 1, which is what no limit keeps, and where no setting saves so much it is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from tqdm.auto import tqdm

from boolab.core.text import count
from boolab.core.types import Scope
from boolab.display.numbers import level, percent
from boolab.frames.data_set import attach_set
from boolab.frames.dtypes import FLAG, FLOAT, TEXT, axis_dtype, cells
from boolab.frames.runs import distinct_runs
from boolab.limits.table import LIMITS
from boolab.stats.compare_rules.judged import FIGURES, Judged, Sums, data_notes, judge_recordings
from boolab.stats.compare_rules.settings import Rules, RuleSettings, label_of, listed_settings
from boolab.stats.finding import Finding, frame_of, pairs
from boolab.stats.intervals import ClusterBootstrap, check_confidence, expand_tail, percentiles
from boolab.stats.units import cluster_notes, group_name, keys_of, split_groups
from boolab.whatif.recordings import Recorded, as_recorded
from boolab.whatif.rule_matrix import Floats
from boolab.whatif.step_table import Flags

LEVELS: Final = 201
"""At how many levels of what is saved, evenly apart, the band is given, beside those of the settings on the front."""

_COLUMNS: Final[Mapping[str, str]] = {
    "rule": TEXT,
    **FIGURES,
    "on_front": FLAG,
    "front_share": FLOAT,
    "confidence": FLOAT,
    **dict.fromkeys(("unit", "success_by"), TEXT),
}
_BAND_COLUMNS: Final[Mapping[str, str]] = dict.fromkeys(("saved_share", "kept_share", "kept_low", "kept_high"), FLOAT)
_TABLE: Final = ("rule", "successes", "kept_lower", "kept_share", "saved_share", "even_trade", "front_share")
_KEPT_SHARES: Final = (1.0, 0.95, 0.9)  # the shares of successes in sentences
_MAX_SENTENCES: Final = 20  # groups that get sentences
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Frontier(Finding):
    """The result of `bl.stats.frontier`: a row for each group and setting in `frame`, and the front in `band`.

    Args:
        title: What it is about, in a few words.
        frame: What each setting keeps and saves, and whether it is on the front.
        sentences: What they show, in plain words.
        notes: The quality of the data and what limits the answer. They are shown first.
        table: What is shown of the numbers: the settings on the front.
        tests: Empty.
        band: The front as a function: the columns of the group; `saved_share`, from 0 on; `kept_share`, the largest
            share of successes that a setting keeps which saves at least so much (1 at 0, which is no limit);
            `kept_low` and `kept_high`, the interval of that at this level.

    Example:
        >>> columns = {"rule": ["a", "b"], "kept_lower": [9, 9], "saved_steps": [5, 3], "on_front": [True, False]}
        >>> Frontier("Two caps", pd.DataFrame(columns)).front["rule"].tolist()
        ['a']
    """

    band: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def front(self) -> pd.DataFrame:
        """The rows of the settings on the front, from what saves least on; of those that are the same, the first."""
        return first_on_front(self.frame)


def first_on_front(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows on the front, in each group from what saves least on; of equal ones the first."""
    front = frame[frame["on_front"].fillna(value=False)]
    names = [str(name) for name in front.columns]
    keys = [name for name in names[: names.index("rule")] if name not in LIMITS]
    front = front[~front.duplicated([*keys, "kept_lower", "saved_steps"])]
    group = front.groupby(keys, sort=False, dropna=False).ngroup() if keys else pd.Series(0, index=front.index)
    order = np.lexsort((front["saved_steps"].to_numpy(dtype=np.int64), group.to_numpy()))
    return front.iloc[order].reset_index(drop=True)


def frontier(
    runs: Recorded,
    rules: Rules,
    *,
    by: str | Sequence[str] | None = None,
    scope: Scope = "auto",
    confidence: float = 0.95,
    seed: int = 0,
    progress: bool = True,
) -> Frontier:
    """What settings keep and save, and which of them are on the Pareto front of the two.

    A setting is on the front if no other of these settings keeps as many successes and saves more steps, or saves as
    many steps and keeps more successes. A success is kept if its run is not stopped.

    The band around the front is a bootstrap: tasks are drawn with replacement, as many as there are, and the front is
    computed anew, from all settings. At each share of steps saved, the band has the given share of these fronts within
    it (percentiles, widened for few tasks). So it shows how much this front, which picks the best settings with
    hindsight, varies with the sample of tasks, at each level by itself. It does not show what a setting that is picked
    here keeps on other tasks, which is less on average: `bl.stats.crossval` does.

    Args:
        runs: Runs, a frame with a row per step, or the path of such a file or of a store: see `counterfactual`.
        rules: The settings. A grid as that of `counterfactual` (all combinations of the values by axis), stop rules, or
            thresholds by the function of a rule: `{bl.max_steps: range(5, 50), bl.cycle: [(2, 3), (3, 2)]}`, where a
            tuple is several arguments. Each is a setting of its own. The limits of the recording stay in force.
        by: Columns of the runs, to separate groups.
        scope: Where counters start anew: see `counterfactual`.
        confidence: Of the two-sided intervals, and of the band.
        seed: Of the bootstrap.
        progress: Whether to show a progress bar, if there is more than a second of work.

    Returns:
        A finding whose frame has a row for each group and setting; its `band` is the front as a function, and its
        `front` the rows of the settings on it. Columns of the frame:

        - the columns of `by`; of a grid, one for each axis (NA is off); `rule`.
        - what the setting keeps, saves and costs, as `bl.stats.crossval` has it: n_runs to n_unknown.
        - `on_front`, and `front_share`: the share of the resampled fronts that the setting is on. Settings that keep
          and save the same are on it together. `confidence`, `unit` ("run"), `success_by`.

    Raises:
        SettingError: if there is no setting, an argument is not one of those above, or there are too many settings for
            so many runs.

    Example:
        >>> import boolab as bl
        >>> looks = [{"tool_calls": [{"name": "ls", "arguments": {"page": n}}]} for n in range(20)]
        >>> models = [bl.ScriptedModel([*looks[:n], "Done."]) for n in range(1, 11)]
        >>> runs = [bl.run_sync(None, "Look", model=model) for model in models]
        >>> found = bl.stats.frontier(runs, {"max_steps": [5, 8, None]})
        >>> found[["rule", "kept_lower", "saved_steps", "on_front"]].values.tolist()
        [['max_steps(5)', 4, 21, True], ['max_steps(8)', 7, 6, True], ['no limit', 10, 0, True]]
    """
    check_confidence(confidence)
    settings = listed_settings(rules)
    keys = keys_of(by, {*_COLUMNS, *settings.axes})
    recorded = as_recorded(runs)
    recorded, repeats = distinct_runs(recorded) if isinstance(recorded, list) else (recorded, ())
    judged_runs = judge_recordings(recorded, settings.rules, keys=keys, scope=scope)
    parts = [(names, judged_runs.rows(part.index.to_numpy())) for names, part in split_groups(judged_runs.units, keys)]
    with tqdm(parts, unit="group", disable=not progress, delay=1) as bar:
        groups = [_group(names, part, keys, confidence, seed) for names, part in bar]
    frame = attach_set(_frame(groups, keys, settings), runs)
    points = list(pairs(groups, lambda group: _band_rows(group.band)))
    front_rows = first_on_front(frame)
    return Frontier(
        title=f"What {count(len(settings.rules), 'setting')} would have kept and saved",
        frame=frame,
        sentences=tuple(_sentences(groups, judged_runs)),
        notes=(*repeats, *data_notes(judged_runs), *_notes(groups, judged_runs, confidence)),
        table=front_rows[[*keys, *_TABLE]],
        band=frame_of(keys, [group.names for group, _ in points], _BAND_COLUMNS, [row for _, row in points]),
    )


class _GroupFront(NamedTuple):
    """A group: its rows, a setting each, and its front."""

    names: tuple[Any, ...]
    rows: list[dict[str, Any]]
    band: Band
    word: str
    n_clusters: int


def _group(
    names: tuple[Any, ...], judged_runs: Judged, keys: Sequence[str], confidence: float, seed: int
) -> _GroupFront:
    sums = Sums(judged_runs, keys, confidence, seed)
    rows, matrix = sums.rows(), judged_runs.matrix
    kept_sums, saved = ([row[name] for row in rows] for name in ("kept_lower", "saved_steps"))
    front = find_undominated(kept_sums, saved) if sums.success.any() else np.zeros(len(rows), dtype=bool)
    steps = max(int(judged_runs.steps.sum()), 1)
    shares = np.array(saved)[front] / steps
    levels = np.unique(np.concatenate((np.linspace(0, float(shares.max(initial=0)), LEVELS), shares)))
    band = band_of(
        sums.bootstrap, matrix.kept_lower, sums.success, matrix.saved_steps, judged_runs.steps, levels, confidence
    )
    for row, on_front, share in zip(rows, front.tolist(), band.on_front.tolist(), strict=True):
        row |= {"on_front": on_front, "front_share": share}
        row |= {"confidence": confidence, "unit": "run", "success_by": judged_runs.success_by}
    return _GroupFront(names, rows, band, sums.word, sums.bootstrap.n_clusters)


def _frame(groups: Sequence[_GroupFront], keys: Sequence[str], settings: RuleSettings) -> pd.DataFrame:
    labels = [label_of(rule) for rule in settings.rules]
    labelled_rows = list(pairs(groups, lambda group: zip(labels, group.rows, strict=True)))
    rows = [{"rule": label, **row} for _, (label, row) in labelled_rows]
    frame = frame_of(keys, [group.names for group, _ in labelled_rows], _COLUMNS, rows)
    for axis_index, axis in enumerate(settings.axes):
        values = [of_setting[axis_index] for of_setting in settings.values] * len(groups)  # noqa: PD011 - no frame
        frame.insert(len(keys) + axis_index, axis, cells(values, axis_dtype(axis)))
    return frame


def _band_rows(band: Band) -> Iterator[dict[str, float]]:
    for values in zip(band.levels.tolist(), band.front.tolist(), band.low.tolist(), band.high.tolist(), strict=True):
        yield dict(zip(_BAND_COLUMNS, values, strict=True))


def _sentences(groups: Sequence[_GroupFront], judged_runs: Judged) -> Iterator[str]:
    labels = [label_of(rule) for rule in judged_runs.rules]
    for group in groups[:_MAX_SENTENCES]:
        name = f"{group_name(group.names)}: " if group.names else ""
        successes = group.rows[0]["successes"]
        if not successes:
            yield f"{name}there is no success to keep, so there is no front."
            continue
        n = len({(row["kept_lower"], row["saved_steps"]) for row in group.rows if row["on_front"]})
        best = []
        for keep in _KEPT_SHARES:
            fine = [
                row_index
                for row_index, row in enumerate(group.rows)
                if row["kept_lower"] >= keep * successes - _ROUNDING
            ]
            if fine:
                row_index = max(
                    fine,
                    key=lambda candidate: (
                        group.rows[candidate]["saved_steps"],
                        group.rows[candidate]["kept_lower"],
                        -candidate,
                    ),
                )
                least_text = "all" if keep == 1 else f"at least {level(keep)}"
                best.append((least_text, labels[row_index], group.rows[row_index]))
        parts = [
            f"{least_text}, {label} saves {percent(row['saved_share'])} of steps" for least_text, label, row in best
        ]
        total_text = f"Of {count(successes, 'success', 'successes')}"
        kept_text = f" {total_text}, to keep {'; '.join(parts)}." if parts else ""
        yield f"{name}the front of {count(len(group.rows), 'setting')} has {count(n, 'point')}.{kept_text}"
        yield from _trade(name, best)
    if len(groups) > _MAX_SENTENCES:
        yield f"{count(len(groups) - _MAX_SENTENCES, 'further group')} in the table."


def _trade(name: str, best: Sequence[tuple[str, str, Mapping[str, Any]]]) -> Iterator[str]:
    """Whether what the setting saves that keeps 95% is worth what it loses."""
    named_rows = [
        (label, row) for least_text, label, row in best if "95" in least_text and row["even_trade"] is not None
    ]
    for label, row in named_rows:
        n_lost = row["successes"] - row["kept_lower"]
        comparison = "more" if row["even_trade"] > 1 else "no more"
        yield (
            f"{name}{label} loses {count(n_lost, 'success', 'successes')} and saves "
            f"{row['saved_steps_per_lost_success']:,.0f} steps for each, {comparison} than the "
            f"{row['steps_per_success']:,.0f} that a success takes on record."
        )


def _notes(groups: Sequence[_GroupFront], judged_runs: Judged, confidence: float) -> Iterator[str]:
    yield from cluster_notes([(group.word, group.n_clusters) for group in groups], judged_runs.units)
    if len(judged_runs.rules) > 1:
        yield (
            f"The band holds {level(confidence)} of the fronts of resampled tasks, at each share of steps saved by "
            "itself. The front picks the best of these settings with hindsight: on other tasks the same setting keeps "
            "less on average, see crossval."
        )


class Band(NamedTuple):
    """The front at some levels of what is saved, with its bootstrap interval at each.

    `on_front` is, for each setting, the share of the samples in which it is on the front.
    """

    levels: Floats
    front: Floats
    low: Floats
    high: Floats
    on_front: Floats


def find_undominated(kept_sums: npt.ArrayLike, saved: npt.ArrayLike) -> Flags:
    """Which settings are on the front; settings that keep and save the same are on it together.

    `kept_sums`: what each setting keeps: shape (settings,), or (samples, settings). `saved`: what each saves, of the
    same shape. Both are compared exactly, so they are sums and not shares.
    """
    keep, save = np.atleast_2d(np.asarray(kept_sums, float)), np.atleast_2d(np.asarray(saved, float))
    order = np.lexsort((-keep, -save), axis=1)
    keep, save = np.take_along_axis(keep, order, 1), np.take_along_axis(save, order, 1)
    best = np.maximum.accumulate(keep, axis=1)
    indices = np.broadcast_to(np.arange(keep.shape[1]), keep.shape)
    new = np.concatenate((np.ones((len(save), 1), dtype=bool), save[:, 1:] < save[:, :-1]), axis=1)
    start = np.maximum.accumulate(np.where(new, indices, 0), axis=1)  # where those that save the same begin
    best_before = np.where(start > 0, np.take_along_axis(best, np.maximum(start - 1, 0), 1), -np.inf)
    alive = (keep == np.take_along_axis(keep, start, 1)) & (keep > best_before)
    out = np.zeros_like(alive)
    np.put_along_axis(out, order, alive, 1)
    return np.asarray(out.reshape(np.shape(kept_sums)), dtype=bool)


def front_at(kept_shares: Floats, saved: Floats, levels: Floats) -> Floats:
    """The front as a function: samples x levels.

    `kept_shares`: the share that each setting keeps: samples x settings. `saved`: the share that each saves.
    """
    order = np.argsort(-saved, axis=1)
    losing = -np.take_along_axis(saved, order, 1)
    best = np.maximum.accumulate(np.take_along_axis(kept_shares, order, 1), axis=1)
    best = np.concatenate((np.zeros((len(best), 1)), best), axis=1)
    out = np.stack([row[np.searchsorted(ends, -levels, side="right")] for row, ends in zip(best, losing, strict=True)])
    out[:, levels <= 0] = 1.0
    return out


def band_of(
    bootstrap: ClusterBootstrap,
    is_kept: npt.NDArray[np.bool_],
    successes: Flags,
    saved: npt.NDArray[np.int32],
    steps: npt.NDArray[np.int64],
    levels: Floats,
    confidence: float,
) -> Band:
    """The front of runs under settings, with the percentiles of the fronts of resampled tasks.

    `is_kept`: r x S: which successes each setting keeps. `successes`: R: which runs succeed. `saved`: r x S: the steps
    that each setting saves. `steps`: R: the steps of the runs.
    """
    sums = [bootstrap.sums(values) for values in (is_kept, successes, saved, steps)]
    point = [of_tasks.sum(axis=0, keepdims=True) for of_tasks in sums]
    front = front_at(_share(point[0], point[1]), _share(point[2], point[3]), levels)[0]
    fronts, counts, n = [], np.zeros(is_kept.shape[1]), 0
    for block in bootstrap.weights():
        weights = block.astype(float)
        kept_sums, successful, saved_sums, total_steps = (weights @ of_tasks for of_tasks in sums)
        has_success = successful > 0  # a sample without a success has no front
        kept_sums, successful, saved_sums, total_steps = (
            kept_sums[has_success],
            successful[has_success],
            saved_sums[has_success],
            total_steps[has_success],
        )
        if len(kept_sums):
            fronts.append(
                front_at(_share(kept_sums, successful[:, None]), _share(saved_sums, total_steps[:, None]), levels)
            )
            counts += find_undominated(kept_sums, saved_sums).sum(axis=0)
            n += len(kept_sums)
    unknown = np.full(len(levels), np.nan)
    if not n or bootstrap.n_clusters <= 1:
        return Band(levels, front, unknown, unknown, np.full(is_kept.shape[1], np.nan))
    level = expand_tail((1 - confidence) / 2, np.full(len(levels), bootstrap.n_clusters))
    low, high = percentiles(np.concatenate(fronts), np.stack([level, 1 - level]))
    return Band(levels, front, low, high, counts / n)


def _share(part: Floats, total: Floats) -> Floats:
    return np.asarray(np.divide(part, total, out=np.zeros(part.shape), where=total > 0), dtype=np.float64)
