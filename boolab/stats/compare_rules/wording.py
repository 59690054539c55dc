"""Sentences and notes that the comparisons of rules share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from boolab.core.text import count
from boolab.display.numbers import level
from boolab.stats.compare_rules.judged import Judged

_ROUNDING: Final = 1e-9


def holds(figures: Mapping[str, Any], keep: float | None) -> bool | None:
    """Whether a rule keeps as much as is promised; None if nothing is, or it is not known."""
    if keep is None or not figures["successes"] or figures["kept_lower"] is None:
        return None
    return bool(figures["kept_lower"] >= keep * figures["successes"] - _ROUNDING)


def promise(rows: Sequence[Mapping[str, Any]], keep: float) -> str:
    """In how many of some rows a promise holds."""
    known = [row["holds"] for row in rows if row["holds"] is not None]
    return f"at least {level(keep)} of successes is kept in {sum(known):,} of {count(len(known), 'group')}"


def data_notes(judged: Judged) -> Iterator[str]:
    """The quality of the data."""
    if not judged.n_runs:
        yield "There are no runs."
        return
    if not judged.labelled:
        yield (
            "No run has a label. A success is a run that ended by itself, which is a proxy: one that ended may have "
            "failed."
        )
    unlabelled = int((judged.success < 0).sum())
    if unlabelled:
        yield (
            f"{unlabelled:,} of {count(judged.n_runs, 'run')} have no label: they count in what is saved, and not in "
            "what is kept."
        )
    unknown = int(judged.matrix.unknown.any(axis=1).sum())
    if unknown:
        yield (
            f"In {count(unknown, 'run')} a counter that some rule needs is unknown: the run counts as stopped there, "
            "and a success as not kept."
        )
    unpriced = int(np.isnan(judged.cost).sum())
    if 0 < unpriced < judged.n_runs:
        yield f"{unpriced:,} of {count(judged.n_runs, 'run')} do not report their cost: money is that of the others."
