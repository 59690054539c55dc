"""How much longer failures are than successes, group by group, and what a step cap saves there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from boolab.core.text import count
from boolab.core.types import Scope
from boolab.display.numbers import level, percent
from boolab.frames.dtypes import FLOAT, INT, TEXT
from boolab.stats.compare_rules.judged import FIGURES, Judged, Sums, data_notes, judge_ledger, ledger_for
from boolab.stats.compare_rules.settings import label_of, smallest_cap
from boolab.stats.finding import Finding, frame_of
from boolab.stats.intervals import check_confidence
from boolab.stats.units import cluster_notes, group_name, keys_of, split_groups
from boolab.whatif.recordings import Recorded

_COLUMNS: Final[Mapping[str, str]] = {
    "rule": TEXT,
    "failures": INT,
    **dict.fromkeys(("success_steps", "failure_steps", "length_ratio"), FLOAT),
    **FIGURES,
    **dict.fromkeys(("keep", "confidence"), FLOAT),
    "success_by": TEXT,
}
_TABLE: Final = ("rule", "success_steps", "failure_steps", "length_ratio", "kept_share", "saved_share")
_FEWEST: Final = 5  # groups that a correlation is given of


def length_ratio(
    runs: Recorded,
    by: str | Sequence[str] | None = None,
    *,
    keep: float = 0.95,
    scope: Scope = "auto",
    confidence: float = 0.95,
    seed: int = 0,
) -> Finding:
    """How much longer failures are than successes, and what the smallest step cap saves that keeps enough successes.

    A cap stops the long runs. Where these are failures it saves much and loses little; where successes are as long, no
    cap does. So the ratio of the mean lengths shows where a cap can save.

    Args:
        runs: Runs, a frame with a row per step, or the path of such a file or of a store: see `counterfactual`.
        by: Columns of the runs that separate the groups, such as "set" or "model".
        keep: The share of successes that the cap keeps of each group, on these runs; of others it may keep less.
        scope: Where counters start anew: see `counterfactual`.
        confidence: Of the two-sided intervals, which take the cap as given.
        seed: Of the bootstrap.

    Returns:
        A finding whose frame has a row for each group. Columns:

        - the columns of `by`; `rule`, the smallest cap that keeps `keep`; "no limit" where nothing succeeded.
        - `failures`; `success_steps` and `failure_steps`, the mean lengths; `length_ratio`, of failures to successes. A
          run that its harness stopped counts with the steps that it took.
        - what the cap keeps, saves and costs, as `bl.stats.crossval` has it: n_runs to n_unknown.
        - `keep`, `confidence`, `success_by`.

    Raises:
        SettingError: if an argument is not one of those above.

    Example:
        >>> import boolab as bl
        >>> from benchmarks.study.length_ratios import length_ratio
        >>> from dataclasses import replace
        >>> looks = [{"tool_calls": [{"name": "ls", "arguments": {"page": n}}]} for n in range(20)]
        >>> models = [bl.ScriptedModel([*looks[:n], "Done."]) for n in range(20)]
        >>> runs = [replace(bl.run_sync(None, f"Look {n}", model=model), success=n < 10)
        ...         for n, model in enumerate(models)]
        >>> found = length_ratio(runs)
        >>> found[["rule", "success_steps", "failure_steps"]].values.tolist()
        [['max_steps(10)', 5.5, 15.5]]
    """
    check_confidence(confidence)
    chooser = smallest_cap(keep)
    keys = keys_of(by, _COLUMNS)
    ledger = ledger_for(runs, [None], keys=keys, scope=scope)
    whole = judge_ledger(ledger, [None], keys)
    groups = [(names, part.index.to_numpy()) for names, part in split_groups(whole.units, keys)]
    caps = [chooser.pick(whole.rows(places)) for _, places in groups]
    under = judge_ledger(ledger, [*dict.fromkeys(caps)], keys)
    more = {"keep": keep, "confidence": confidence, "success_by": whole.success_by}
    rows, words = [], []
    for (_, places), cap in zip(groups, caps, strict=True):
        part = under.rows(places)
        sums = Sums(part, keys, confidence, seed)
        found = sums.rows()[under.rules.index(cap)]
        rows.append({"rule": label_of(cap), **_lengths(part), **found, **more})
        words.append((sums.word, sums.bootstrap.n_clusters))
    frame = frame_of(keys, [names for names, _ in groups], _COLUMNS, rows)
    return Finding(
        title="How much longer failures are than successes, and what a step cap saves",
        frame=frame,
        sentences=tuple(_sentences(frame, [group_name(names) for names, _ in groups], keep)),
        notes=(*data_notes(whole), *cluster_notes(words, whole.units)),
        table=frame[[*keys, *_TABLE]],
    )


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's rank correlation; NaN where it has no meaning.

    Example:
        >>> round(rank_correlation([1.0, 2.0, 4.0, 3.0], [0.1, 0.2, 0.3, 0.4]), 2)
        0.8
    """
    ranks = [pd.Series(values).rank() for values in (one, other)]
    return float(ranks[0].corr(ranks[1])) if all(len({*rank}) > 1 for rank in ranks) else float("nan")


def _lengths(judged: Judged) -> dict[str, Any]:
    succeeded, failed = (judged.steps[judged.success == label] for label in (1, 0))
    means = [float(part.mean()) if len(part) else None for part in (succeeded, failed)]
    ratio = means[1] / means[0] if means[0] and means[1] is not None else None
    return {"failures": len(failed), "success_steps": means[0], "failure_steps": means[1], "length_ratio": ratio}


def _sentences(frame: pd.DataFrame, names: Sequence[str], keep: float) -> Iterator[str]:
    known = frame[frame["length_ratio"].notna()]
    if known.empty:
        yield "No group has both successes and failures."
        return
    ratios, saved = known["length_ratio"].astype(float), known["saved_share"].astype(float)
    ends = []
    for place in dict.fromkeys((int(ratios.to_numpy().argmin()), int(ratios.to_numpy().argmax()))):
        row = known.iloc[place]
        name = f"In {names[known.index[place]]}, failures" if names[known.index[place]] else "Failures"
        ends.append(
            f"{name} take {row['failure_steps']:.1f} steps on average and successes {row['success_steps']:.1f}, a "
            f"ratio of {row['length_ratio']:.2f}; {row['rule']} keeps {percent(row['kept_share'])} and saves "
            f"{percent(row['saved_share'])} of the steps."
        )
    yield from ends
    rho = rank_correlation(ratios.tolist(), saved.tolist())
    if len(known) >= _FEWEST and not np.isnan(rho):
        yield (
            f"Over {count(len(known), 'group')}, the rank correlation (Spearman) of that ratio with what the smallest "
            f"cap saves that keeps {level(keep)} is {rho:.2f}."
        )
