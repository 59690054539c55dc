"""`deadline`: a stop early enough that the step in progress and the wrap-up still fit, and what margin that takes.

A rule is evaluated at boundaries, so it cannot stop a step that has begun. The step in progress at a given moment is
longer than most: a long step is in progress more often. With recorded durations d, the chance that it needs more than a
margin m longer is E[max(d - m, 0)] / E[d] (the residual life of renewal theory: Feller, An Introduction to Probability
Theory and Its Applications II, XI.4).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from boolab.core.run import steps_in
from boolab.core.text import count
from boolab.core.types import Step
from boolab.errors import SettingError
from boolab.frames.dtypes import FLOAT, INT, Column, frame_of_columns
from boolab.frames.runs import Runs, as_runs
from boolab.io.checks import is_amount, repr_of
from boolab.limits.catalog import max_time
from boolab.limits.stop import OnUnknown, StopRule, Threshold, unknown_option

if TYPE_CHECKING:
    import pandas as pd

    from boolab.whatif.step_table import Ints

LATE_SHARE: Final = 0.01
"""The chance that a step is still in progress at the deadline, with the margin `auto`."""
_SHARES: Final = (0.5, 0.2, 0.1, 0.05, 0.02, LATE_SHARE)


def deadline(
    seconds: float | None = None,
    *,
    margin: float | Literal["auto"],
    at: datetime | None = None,
    runs: Runs | None = None,
    on_unknown: OnUnknown = "error",
) -> StopRule:
    """Stop with `time_budget` when less than a margin is left, so that the work can be wrapped up before a deadline.

    The wrap-up is that of the policy: the default, `boocode`, then asks the model for a summary; a `Monitor` has a
    message for it. A step that has begun is completed, so the margin has to be as long as it may take, and the summary.

    Args:
        seconds: The time from the start of the turn to the deadline.
        margin: How many seconds before the deadline no step begins any more. `auto`: the least for which the step in
            progress has a chance of at most 1% of taking longer, by the steps of `runs`: see `bl.deadline_margins`.
        at: The deadline as a time of day, in place of `seconds`: the seconds count from now, so make the rule right
            before the run. It needs a time zone.
        runs: Recorded runs of the same agent, for the margin `auto`.
        on_unknown: As for `bl.max_time`.

    Raises:
        SettingError: if there is not one deadline, the margin leaves no time before it, or an option is not one of
            those above.

    Source: Terminal-Bench and Harbor end a trial at `max_timeout_sec`, whatever it is doing.

    Example:
        >>> import boolab as bl
        >>> str(bl.deadline(600, margin=60)), bl.deadline(600, margin=60).threshold
        ('deadline(600, margin=60)', 540000)
    """
    if (seconds is None) == (at is None):
        msg = "deadline: expected either seconds, such as bl.deadline(600, margin=60), or at=, a time"
        raise SettingError(msg)
    if at is not None:
        if not isinstance(at, datetime) or at.tzinfo is None:
            msg = f"deadline: at={repr_of(at)}: expected a datetime with a time zone"
            raise SettingError(msg)
        seconds = round((at - datetime.now(UTC)).total_seconds(), 3)
    if (margin == "auto") != (runs is not None):
        msg = "deadline: margin='auto' needs runs=, recorded runs of the agent; another margin takes none"
        raise SettingError(msg)
    margin_s = _least_margin(_durations([*steps_in(as_runs(runs))]), LATE_SHARE) / 1000 if runs is not None else margin
    if not is_amount(margin_s):
        raise SettingError(
            f"deadline: margin={repr_of(margin)}: expected a number >= 0, in seconds, or 'auto' with runs="
        )
    total, early = (_leaf(value).threshold for value in (seconds, margin_s))
    label = f"deadline({seconds:.12g}, margin={margin_s:.12g}{unknown_option(on_unknown)})"
    if early >= total:
        raise SettingError(f"{label}: the margin leaves no time for a step: expected one that is shorter")
    return Threshold("time_budget", "elapsed", total - early, label, on_unknown)


def deadline_margins(runs: Runs, *, shares: Sequence[float] = _SHARES, margins: Sequence[float] = ()) -> pd.DataFrame:
    """How long before a deadline the last step has to begin: the margins of `bl.deadline`, by recorded durations.

    Where steps wait for a person or for a slow tool, a margin that covers them leaves little time: then limit the time
    of a tool.

    Args:
        runs: A run, runs, or the path of a store or of logs.
        shares: Chances that the step in progress is late, for each of which the least margin is given.
        margins: Margins in seconds, for each of which the chance is given.

    Returns:
        A row for each share and margin, the shortest margin first: margin_s, late_share (the chance that the step in
        progress at a given moment takes longer than the margin), n_longer (how many steps do), n_steps (whose duration
        is known), n_unknown (whose is not), longest_s.

    Raises:
        SettingError: if no step has a duration on record, or a share or a margin is not accepted.

    Example:
        >>> import boolab as bl
        >>> steps = [{"tool_calls": [{"name": f"look_{n}"}], "latency_ms": 1000 * n} for n in (1, 2, 3, 60)]
        >>> run = bl.run_sync(None, "go", model=bl.ScriptedModel([*steps, "Done."]))
        >>> frame = bl.deadline_margins(run, shares=[0.1], margins=[30])
        >>> frame["margin_s"].tolist(), frame["late_share"].round(3).tolist()
        ([30.0, 53.4], [0.455, 0.1])
    """
    for share in shares:
        if not 0 < share < 1:
            raise SettingError(f"deadline_margins: the share {repr_of(share)}: expected one between 0 and 1")
    steps = [*steps_in(as_runs(runs))]
    durations = _durations(steps)
    lengths = {*(_least_margin(durations, share) for share in shares), *(_leaf(margin).threshold for margin in margins)}
    rows = [
        _Margin(
            length / 1000,
            float(np.maximum(durations - length, 0).sum() / durations.sum()),
            int((durations > length).sum()),
            len(durations),
            len(steps) - len(durations),
            int(durations.max()) / 1000,
        )
        for length in sorted(lengths)
    ]
    return frame_of_columns(_COLUMNS, rows)


class _Margin(NamedTuple):
    """A row of `deadline_margins`."""

    margin_s: float
    late_share: float
    n_longer: int
    n_steps: int
    n_unknown: int
    longest_s: float


def _leaf(seconds: Any) -> Threshold:  # noqa: ANN401 - it is checked here
    """A number of seconds as `max_time` takes it, in whole milliseconds."""
    return next(max_time(seconds).leaves())


def _durations(steps: Collection[Step]) -> Ints:
    """The durations of all steps that have one, in milliseconds; a `SettingError` if they add up to nothing."""
    durations = np.array([step.duration_ms for step in steps if step.duration_ms is not None], dtype=np.int64)
    if not durations.sum():
        msg = f"a margin needs the durations of steps: of {count(len(steps), 'step')} none has one on record"
        raise SettingError(msg)
    return durations


def _least_margin(durations: Ints, share: float) -> int:
    """The least margin, in milliseconds, for which the step in progress is late with at most this chance.

    The mean excess falls in the margin, so it is found by halving.
    """
    allowed, low, high = share * float(durations.sum()), 0, int(durations.max())
    while low < high:
        middle = (low + high) // 2
        if float(np.maximum(durations - middle, 0).sum()) <= allowed:
            high = middle
        else:
            low = middle + 1
    return low


_COLUMNS: Final = (
    Column("margin_s", FLOAT, lambda row: row.margin_s),
    Column("late_share", FLOAT, lambda row: row.late_share),
    Column("n_longer", INT, lambda row: row.n_longer),
    Column("n_steps", INT, lambda row: row.n_steps),
    Column("n_unknown", INT, lambda row: row.n_unknown),
    Column("longest_s", FLOAT, lambda row: row.longest_s),
)
