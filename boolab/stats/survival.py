"""How long runs take, with success and failure as competing events.

A *censored* run was stopped by a limit before it ended: it counts as longer than it was observed. A failed run is not
censored: it can no longer succeed. So the share of success is a cumulative incidence; one minus a survival curve that
censors failures would overstate it. The formulas are in `boolab.stats.survival_curves`.

Sources: Brookmeyer and Crowley, Biometrics 38 (1982) 29-41 (the median's interval); Holm, Scand. J. Stat. 6 (1979)
65-70 (many comparisons).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from boolab.core.run import Run
from boolab.core.text import count
from boolab.core.types import Scope
from boolab.display.numbers import format_all, level, percent
from boolab.errors import SettingError
from boolab.frames.data_set import attach_set
from boolab.frames.dtypes import FLOAT, INT, TEXT, is_missing
from boolab.frames.runs import as_runs, list_columns
from boolab.limits.table import MEASURES
from boolab.stats.finding import Finding, frame_of, pairs
from boolab.stats.intervals import Array, ClusterBootstrap, check_confidence, interval_columns
from boolab.stats.survival_curves import Share, curve, logrank
from boolab.stats.units import INTERRUPTED, Data, cluster_notes, clusters_of, group_name, split_groups, units_of
from boolab.whatif.step_table import unit_of

Measure: TypeAlias = Literal["steps", "tool_calls", "tokens"]

_LENGTHS: Final[tuple[Measure, ...]] = get_args(Measure)

_HALF = 0.5 + 1e-9  # a product of fractions that should be one half may be a little above
_MAX_SENTENCES = 6  # groups, or comparisons, that get a sentence
_MAX_COMPARED = 20  # groups: 190 pairs
_INFORMATIVE = ("doom_loop", "error_streak", "stuck", "error", "aborted", "paused", INTERRUPTED)
"""Stop reasons of censored runs that may depend on how long the run would have taken."""

_ENDS = interval_columns("success", "failure")
_COLUMNS: dict[str, str] = {
    "of": TEXT,
    **dict.fromkeys(("time", "at_risk", "ended", "censored"), INT),
    **dict.fromkeys(("survival", "low", "high", *_ENDS, "confidence"), FLOAT),
    **dict.fromkeys(("unit", "success_by"), TEXT),
}
_TABLE: dict[str, str] = {
    **dict.fromkeys(("n", "ended", "censored", "median", "median_low", "median_high"), INT),
    **dict.fromkeys(("success", "failure"), FLOAT),
}
SUCCESS_COLUMN: Final = "success"
"""The column by which groups can be compared, though it is known only after a run."""
_TESTS: dict[str, str] = {
    **dict.fromkeys(("first", "second"), TEXT),
    **dict.fromkeys(("n_first", "n_second"), INT),
    **dict.fromkeys(("statistic", "p", "p_holm"), FLOAT),
    "clustered_by": TEXT,
}


def survival(
    runs: Data,
    of: Measure = "steps",
    *,
    by: str | Sequence[str] | None = None,
    scope: Scope = "auto",
    confidence: float = 0.95,
) -> Finding:
    """How many steps, tool calls or tokens an agent takes until it ends, and how often that is a success.

    Args:
        runs: Runs, or a frame: with a row for each run, as `runs_df` makes it, or for each step, as `recording_df`.
        of: What is counted: "steps", "tool_calls" or "tokens" (input and output, without a wrap-up).
        by: A column of `runs_df`, or several, to compare: an agent, a model, a swept setting, or `success`: how much
            longer failures are. A column that the result has itself is called `by_success` and so on there.
        scope: "turn" counts each turn of a session by itself, "run" whole sessions, "auto" as the harness of each
            run's source counts.
        confidence: Of the pointwise intervals.

    Returns:
        A finding. Its frame has one row for each group and each time at which a unit ended or was censored: the columns
        of `by`, `of`, `time` (in units of `of`), `at_risk` (neither ended nor censored before), `ended`, `censored`,
        `survival` (the share that continues beyond it), `success` and `failure` (the share with such a label by then,
        under the limits of the recording, however the run ended; NA without labels), each with `_low` and `_high`
        (`low` and `high` for survival), `confidence`, `unit` ("turn" or "run", which is what is counted as one: see
        docs/terms.md), and `success_by` ("label", or NA). Its table has a row for each group, with the median number;
        its `tests` have a row for each pair of groups.

        Intervals are log-log (Kaplan-Meier by scipy, Aalen-Johansen by the delta method); where no unit has ended, or
        all have, Clopper-Pearson. Where several runs share a task, they resample whole tasks and one more, as large as
        the largest, so that runs of a task may depend on each other in any way; a note reports it. Groups
        are compared by the logrank test, corrected by Holm.

    Raises:
        SettingError: if an argument is not one of those above.

    Example:
        >>> import boolab as bl
        >>> runs = [bl.run_sync(None, f"Task {i}", model=bl.ScriptedModel(["Hi."])) for i in range(20)]
        >>> bl.survival(runs).sentences[0]
        'Half of 20 runs had ended after 1 step (95% interval 1 to 1).'
    """
    check_confidence(confidence)
    if of not in _LENGTHS:
        raise SettingError(f"of={of!r}: expected one of {', '.join(_LENGTHS)}")
    keys = list_columns(by)
    column_names = [f"by_{key}" if key in _COLUMNS or key in _TABLE else key for key in keys]
    data = runs if isinstance(runs, pd.DataFrame) else as_runs(runs)
    column, noun = f"n_{of}", MEASURES[of].singular
    units = units_of(data, scope=scope, by=[key for key in keys if key != SUCCESS_COLUMN], measures=[column])
    known_units = units[units[column].notna() & units["ended"].notna()].reset_index(drop=True)
    groups = [
        _Group(values, rows, keys, column, confidence) for values, rows in split_groups(known_units, keys) if len(rows)
    ]
    tests = _compare_groups(groups, known_units, keys, column)
    unit = unit_of(units["turn"].to_numpy(np.int64))
    rows = list(pairs(groups, lambda group: group.rows(of, unit, confidence)))
    words = _SurvivalText(unit, noun, confidence)
    return Finding(
        title=f"How many {noun}s a {words.noun} takes",
        frame=attach_set(
            frame_of(column_names, [group.keys for group, _ in rows], _COLUMNS, [row for _, row in rows]), data
        ),
        sentences=(*words.ends(groups, len(units)), *words.differences(tests)),
        notes=(
            *words.omission_notes(known_units, units),
            *words.labels(known_units, sessions=_labelled_sessions(data, units)),
            *words.limits(groups, known_units),
        ),
        table=frame_of(column_names, [group.keys for group in groups], _TABLE, [group.summary() for group in groups]),
        tests=tests,
    )


class _Group:
    """The units of one group, and their curve."""

    def __init__(
        self, values: tuple[Any, ...], units: pd.DataFrame, keys: Sequence[str], column: str, confidence: float
    ) -> None:
        self.keys = values
        self.name = group_name(map(_label_name, keys, values))
        self.index = units.index
        self.over = units["ended"].to_numpy(bool)
        self.n, self.censored = len(self.over), int((~self.over).sum())
        self.clusters, self.word = clusters_of(units, keys)
        success = units["success"]
        self.labelled = bool(success.notna().any())
        times = units[column].to_numpy(np.int64)
        clusters = ClusterBootstrap(self.clusters.to_numpy()) if self.word else None
        # A label applies to a censored run too: it judges the run under the limits of the recording.
        has_event = self.over | success.notna().to_numpy(bool)
        kinds = {"success": success.fillna(value=False), "failure": ~success.fillna(value=True)}
        flags = {name: values.to_numpy(bool) for name, values in kinds.items()} if self.labelled else None
        by_label = curve(times, has_event, flags, clusters=clusters, confidence=confidence)
        same_events = np.array_equal(has_event, self.over)
        self.curve = by_label if same_events else curve(times, self.over, clusters=clusters, confidence=confidence)
        self.labels: Mapping[str, Share] = by_label.incidence
        self.longest = int(self.curve.time[-1])

    def share(self, kind: str) -> Share:
        """An incidence; all NaN without labels."""
        unknown = np.full(len(self.curve.time), np.nan)
        return self.labels.get(kind, Share(unknown, unknown, unknown))

    def half_time(self, share: Array) -> int | None:
        """The first time at which no more than half continue; None if that is not reached."""
        reached_half = np.flatnonzero(share <= _HALF)
        return int(self.curve.time[reached_half[0]]) if len(reached_half) else None

    def rows(self, measure: str, unit: str, confidence: float) -> list[dict[str, Any]]:
        """One row for each time."""
        shared_columns = {"of": measure, "confidence": confidence, "unit": unit}
        shared_columns |= {"success_by": "label" if self.labelled else None}
        names = ("time", "at_risk", "ended", "censored", "survival", "low", "high", *_ENDS)
        arrays = (*self.curve[:4], *self.curve.survival, *self.share("success"), *self.share("failure"))
        lists = (array.tolist() for array in arrays)
        return [shared_columns | dict(zip(names, values, strict=True)) for values in zip(*lists, strict=True)]

    def summary(self) -> dict[str, Any]:
        medians = [self.half_time(part) for part in self.curve.survival]
        out: dict[str, Any] = {"n": self.n, "ended": self.n - self.censored, "censored": self.censored}
        out |= dict(zip(("median", "median_low", "median_high"), medians, strict=True))
        return out | {kind: self.share(kind).value[-1] for kind in ("success", "failure")}


def _label_name(key: str, value: object) -> object:
    """A value of a group; a label as a word."""
    if key != SUCCESS_COLUMN:
        return value
    return "no label" if is_missing(value) else "success" if value else "failure"


def _compare_groups(groups: list[_Group], units: pd.DataFrame, keys: list[str], column: str) -> pd.DataFrame:
    """The logrank test of each pair of groups, with Holm's correction over all that could be tested."""
    rows: list[dict[str, Any]] = []
    for first_group, second_group in combinations(groups, 2) if len(groups) <= _MAX_COMPARED else ():
        pair_units = units.loc[first_group.index.union(second_group.index)]
        clusters, word = clusters_of(pair_units, keys)
        statistic, p = logrank(
            pair_units[column].to_numpy(float),
            pair_units["ended"].to_numpy(bool),
            pair_units.index.isin(first_group.index),
            clusters if first_group.word or second_group.word else None,
        )
        clustered = word if first_group.word or second_group.word else None
        sizes = {"n_first": first_group.n, "n_second": second_group.n, "statistic": statistic, "p": p}
        rows.append({"first": first_group.name, "second": second_group.name, **sizes, "clustered_by": clustered})
    p_values = np.array([row["p"] for row in rows], dtype=float)
    for row, p in zip(rows, holm(p_values), strict=True):
        row["p_holm"] = p
    return frame_of((), (), _TESTS, rows)


def holm(p: Array) -> Array:
    """P-values corrected by Holm's method: p(i) times the number of those not below it, ascending.

    NaN, where nothing could be tested, does not count. No corrected value is above 1.
    """
    out = np.full(p.shape, np.nan)
    order = np.argsort(p, kind="stable")[: int((~np.isnan(p)).sum())]
    out[order] = np.minimum(1, np.maximum.accumulate(p[order] * (len(order) - np.arange(len(order)))))
    return out


class _SurvivalText:
    """The sentences and notes of the finding."""

    def __init__(self, noun: str, unit_noun: str, confidence: float) -> None:
        self.noun = noun
        self.thing = unit_noun
        self.alpha = 1 - confidence
        self.level = level(confidence)

    def ends(self, groups: list[_Group], n: int) -> Iterator[str]:
        """When runs of each group end, and how."""
        if not groups:
            unknown = f"How many {self.thing}s it took is not known of any of {count(n, self.noun)}."
            yield unknown if n else f"There are no {self.noun}s."
        for group in groups[:_MAX_SENTENCES]:
            prefix = f"{group.name}: " if group.name else ""
            yield prefix + self._end(group)
            if group.labelled and group.n > 1:
                yield prefix + self._success(group)
        if len(groups) > _MAX_SENTENCES:
            yield f"{count(len(groups) - _MAX_SENTENCES, 'further group')} in the table."

    def _end(self, group: _Group) -> str:
        n, longest = count(group.n, self.noun), count(group.longest, self.thing)
        if group.n == 1:
            end_text = "is censored" if group.censored else "ended"
            return (
                f"One {self.noun} is not enough to estimate how long {self.noun}s take; it {end_text} after {longest}."
            )
        if group.censored == group.n:
            all_units = format_all(group.n, self.noun)
            return f"{all_units} are censored, the longest after {longest}: when they would have ended is not known."
        censored = ""
        if group.censored:
            verb = "is censored: it counts" if group.censored == 1 else "are censored: they count"
            censored = f"; {group.censored:,} {verb} as lasting longer than observed"
        median, low, high = (group.half_time(part) for part in group.curve.survival)
        if median is None:
            share = self._interval(*(part[-1] for part in group.curve.survival))
            return (
                f"The median is not reached: {share} of {n} continue beyond {longest}, the longest that was "
                f"observed{censored}."
            )
        interval = f"{low:,} to {high:,}" if high is not None else f"{low:,} or more"
        return f"Half of {n} had ended after {count(median, self.thing)} ({self.level} interval {interval}){censored}."

    def _success(self, group: _Group) -> str:
        success_share, failed_share = (
            self._interval(*(part[-1] for part in group.share(kind))) for kind in ("success", "failure")
        )
        limits = ", under the recorded limits" if group.censored else ""
        prefix = f"Within {count(group.longest, self.thing)}{limits}"
        return f"{prefix}, {success_share} had succeeded and {failed_share} failed, by label."

    def _interval(self, value: float, low: float, high: float) -> str:
        return f"{percent(value)} ({self.level} interval {percent(low)} to {percent(high)})"

    def differences(self, tests: pd.DataFrame) -> Iterator[str]:
        """What the tests show; a test without a difference does not show equality."""
        tested = tests[tests["p_holm"].notna()]
        if not len(tested):
            return
        significant = tested[tested["p_holm"] <= self.alpha]
        after = "" if len(tested) == 1 else f" after Holm's correction for {len(tested)} comparisons"
        for row in significant.head(_MAX_SENTENCES).to_dict("records"):
            sooner, later = (row["first"], row["second"]) if row["statistic"] > 0 else (row["second"], row["first"])
            noun, p = self.noun.capitalize(), _p(row["p_holm"])
            yield f"{noun}s of {sooner} end sooner than those of {later} (logrank p{p}{after})."
        if len(significant) > _MAX_SENTENCES:
            yield f"The same holds for {count(len(significant) - _MAX_SENTENCES, 'further pair')}: see .tests."
        if not len(significant):
            groups_text = "these two groups" if len(tested) == 1 else f"any of {len(tested)} pairs of groups"
            smallest_p = float(tested["p_holm"].min())
            yield (
                f"The test shows no difference between {groups_text} (logrank p{_p(smallest_p)}{after}). "
                "That does not show that they are equal."
            )

    def omission_notes(self, known_units: pd.DataFrame, units: pd.DataFrame) -> Iterator[str]:
        """How many units have no known length or end."""
        n_left_out = len(units) - len(known_units)
        if n_left_out:
            verb = "is" if n_left_out == 1 else "are"
            reason = f"how many {self.thing}s they took, or whether they ended, is not known"
            yield f"{n_left_out:,} of {count(len(units), self.noun)} {verb} left out: {reason}."

    def labels(self, known_units: pd.DataFrame, *, sessions: bool) -> Iterator[str]:
        """Which labels there are."""
        if not len(known_units):
            return
        ended = known_units["ended"].astype(bool)
        if not known_units["success"].notna().any():
            yield f"No {self.noun} has a success label: success and failure are NA."
        elif unlabelled := int((ended & known_units["success"].isna()).sum()):
            missing = f"{unlabelled:,} of {count(int(ended.sum()), self.noun)} that ended"
            yield f"{missing} have no label and count as neither success nor failure: both are at least as shown."
        if sessions:
            yield 'A label judges a whole session, so that turns of longer sessions have none: scope="run" uses it.'

    def limits(self, groups: list[_Group], known_units: pd.DataFrame) -> Iterator[str]:
        """What limits the intervals and the curve."""
        suspect = known_units.loc[
            ~known_units["ended"].astype(bool) & known_units["stop_reason"].isin(_INFORMATIVE), "stop_reason"
        ]
        if len(suspect):
            reasons = ", ".join(f"{reason} {n:,}" for reason, n in suspect.value_counts().items())
            yield (
                f"{count(len(suspect), self.noun)} censored for reasons that may depend on how long they would have "
                f"taken ({reasons}): the curve assumes that they would have continued like others that came as far."
            )
        yield from cluster_notes([(group.word, group.clusters.nunique()) for group in groups], known_units, self.noun)
        if len(groups) > _MAX_COMPARED:
            yield f"{len(groups):,} groups are too many to compare in pairs: expected {_MAX_COMPARED} at most."


def _labelled_sessions(data: pd.DataFrame | list[Run], units: pd.DataFrame) -> bool:
    """Whether labels were left out, because a session's label does not judge its turns."""
    sessions = set(units.loc[units["turn"] > 1, "run_id"])
    return not isinstance(data, pd.DataFrame) and any(
        run.success is not None and run.run_id in sessions for run in data
    )


def _p(value: float) -> str:
    return " < 0.001" if value < 0.001 else f" = {value:.2g}"  # noqa: PLR2004 - as papers write it
