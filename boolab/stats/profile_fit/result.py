"""A fitted profile: its figures with intervals, how well it fits, and notes on the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from boolab.core.text import count
from boolab.core.types import Run
from boolab.errors import SettingError
from boolab.frames.data_set import of_set
from boolab.frames.dtypes import FLOAT, INT, TEXT, cells
from boolab.limits.catalog import max_steps
from boolab.runtime.engine.abort import Abort
from boolab.runtime.engine.portal import wait_for
from boolab.runtime.engine.runner import run
from boolab.runtime.models.profile import Profile
from boolab.runtime.models.simulated import SimulatedModel
from boolab.stats.estimates import Estimated
from boolab.stats.finding import Finding
from boolab.stats.profile_fit.goodness_of_fit import compared
from boolab.stats.profile_fit.parameters import Figures
from boolab.stats.profile_fit.step_kinds import Turn, turns


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A fitted profile, with the intervals of its figures and how well it fits. Shown by itself in a notebook.

    Args:
        profile: The profile.
        intervals: A row for each figure: `parameter` (its place in the profile; shares add up to 1), `estimate`, `low`,
            `high`, `n` (observations), `clusters` (tasks, runs or turns).
        goodness: A row for each comparison with simulated runs, which are cut at the longest recorded length:
            `measure`, `recorded`, `simulated` (medians for steps, the steps of successes and streaks), the `distance`
            between the distributions (Kolmogorov-Smirnov; total variation for tools; the difference of ratios),
            `by_chance` (which the share
            `confidence` of samples from the profile itself does not exceed), `fits`.
        bands: What `plot_fit` draws: `of`, `x`, `recorded`, `simulated`, and the band of samples from the profile.
        notes: What the record lacks, and what was left out.
        turns: The number of recorded turns.
        confidence: Of intervals and bands.

    Example:
        >>> import boolab as bl
        >>> coder = bl.models.Profile.of({"name": "tiny", "tools": {"look": {}}, "finish": {"hazard": 0.25}})
        >>> fit = bl.fit_profile(play(coder, 40, ["Look."], 20), simulated=20)
        >>> fit.estimate("finish.hazard.0.probability").n > 40
        True
    """

    profile: Profile
    intervals: pd.DataFrame
    goodness: pd.DataFrame
    bands: pd.DataFrame
    notes: tuple[str, ...] = ()
    turns: int = 0
    confidence: float = 0.95
    _rows: Mapping[str, Estimated] = field(default_factory=dict)

    def estimate(self, parameter: str) -> Estimated:
        """One figure with its interval.

        Args:
            parameter: Its place in the profile, such as `finish.hazard`: one of the column `parameter` of `intervals`.

        Returns:
            The estimate, its interval, and the numbers of observations and clusters.

        Raises:
            SettingError: if it was not estimated.
        """
        if parameter not in self._rows:
            near = [name for name in self._rows if name.partition(".")[0] == parameter.partition(".")[0]]
            msg = f"{parameter!r} was not estimated; estimated: {', '.join(near or self._rows)}"
            raise SettingError(msg)
        return self._rows[parameter]

    @property
    def finding(self) -> Finding:
        """The same as a `Finding`."""
        off = self.goodness.loc[~self.goodness["fits"].fillna(value=True), "measure"].tolist()
        known = int(self.goodness["fits"].notna().sum())
        sentence = (
            f"In {known - len(off)} of {known} comparisons it is no further from the record than chance would put it"
            f"{'' if not off else '; not in ' + ', '.join(off)}."
        )
        title = f"Profile {self.profile.name}, fitted to {count(self.turns, 'turn')}"
        return Finding(title, self.intervals, (sentence,), self.notes, self.goodness)

    def __repr__(self) -> str:
        return f"<Fit of {self.profile.name}: {count(len(self._rows), 'figure')} from {count(self.turns, 'turn')}>"

    def __str__(self) -> str:
        return str(self.finding)

    def _repr_html_(self) -> str:
        return self.finding._repr_html_()


def fit_of(
    profile: Profile, figures: Figures, recorded: Sequence[Turn], finish_tool: str | None, simulated: int = 1000
) -> Fit:
    """The fit of a profile to turns: it is played `simulated` times, and compared with them."""
    if simulated < 2:  # noqa: PLR2004 - one run has no distribution
        msg = f"simulated={simulated!r}: expected at least 2"
        raise SettingError(msg)
    longest = max(len(turn.moves) for turn in recorded)  # beyond it there is nothing to compare with
    played = turns(play(profile, simulated, [turn.run.task for turn in recorded], longest), finish_tool)
    goodness, bands = compared(recorded, played, figures.confidence)
    bands = of_set(bands, [turn.run for turn in recorded])
    rows = figures.rows
    intervals = {
        "parameter": cells([*rows], TEXT),
        "estimate": cells([row.value for row in rows.values()], FLOAT),
    }
    for column, dtype in (("low", FLOAT), ("high", FLOAT), ("n", INT), ("clusters", INT)):
        intervals[column] = cells([getattr(row, column) for row in rows.values()], dtype)
    return Fit(
        profile, pd.DataFrame(intervals), goodness, bands, tuple(figures.notes), len(recorded), figures.confidence, rows
    )


def play(profile: Profile, n: int, tasks: Sequence[str] = (), most: int = 1000) -> list[Run]:
    """Runs of a profile under no limit but one of steps; `tasks` are taken in turn, and decide the difficulty."""
    some = [*dict.fromkeys(task for task in tasks if task)] or ["Go"]
    abort = Abort()
    options: dict[str, Any] = {"model": SimulatedModel(profile), "policy": "naive", "stop": max_steps(most)}

    async def every() -> list[Run]:
        return [await run(None, some[i % len(some)], seed=i, abort=abort, **options) for i in range(n)]

    return wait_for(every(), abort)
