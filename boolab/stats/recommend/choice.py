"""What is chosen along the paths: candidates, the steps between them, and the choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from boolab.core.text import count
from boolab.stats.kept_share import tasks_missing
from boolab.stats.recommend.fixed_sequence import PathResult


class Candidate(NamedTuple):
    """A setting that was tested, or no limit at all.

    Attributes:
        path: The name of its path.
        setting: The value of each limit that is on.
        lost: How many successes it loses on record.
        saved: What it saves on record, in whole units of the measure.
        bound: The lower bound of the share of future successes that it keeps, by itself, at the path's part of the
            error.
    """

    path: str
    setting: dict[str, Any]
    lost: int
    saved: int
    bound: float = 0.0


class PathFinding(NamedTuple):
    """The result along a path: of its tests, and of the accepted value that gains most, by axis.

    Of those that gain as much it is the loosest; None is off. If no value was accepted, `setting` is None, and `lost`
    is how many successes the loosest value loses. `bound` is the lower bound of the share that the setting keeps, by
    itself, at the path's part of the error.
    """

    tests: PathResult
    setting: dict[str, Any] | None
    lost: int
    saved: int
    bound: float = 0.0


class Margin(NamedTuple):
    """A step along the frontier of the accepted settings, from one to the next tighter one.

    Attributes:
        looser: The setting that is tightened.
        tighter: The next one.
    """

    looser: Candidate
    tighter: Candidate

    @property
    def lost(self) -> int:
        """How many more successes the step loses."""
        return self.tighter.lost - self.looser.lost

    @property
    def saved(self) -> int:
        """What the step saves more, in whole units of the measure."""
        return self.tighter.saved - self.looser.saved


@dataclass(frozen=True, slots=True)
class Choice:
    """The accepted setting that gains most, and the reasons for it.

    Attributes:
        best: That setting; None if none gains anything, or none was accepted.
        tightest: The accepted setting that saves most; None if none saves anything.
        last_step: The step along the frontier that ends at `best`.
        next_step: The step that follows: it loses more than it saves.
        paths: The result along each path.
        missing: How many more tasks like these, without a further loss, are needed until there is a setting.
        successes: How many there are.
        tasks: The number of their clusters.
        largest: The most successes of one cluster.
        keep_possible: The share that these clusters would show to be kept, if nothing was lost.
        cluster: What a cluster is called.
        spent: What the units use without a limit.
    """

    best: Candidate | None
    tightest: Candidate | None
    last_step: Margin | None
    next_step: Margin | None
    paths: tuple[PathFinding, ...]
    missing: int
    successes: int
    tasks: int
    largest: int
    keep_possible: float
    cluster: str
    spent: int

    @property
    def setting(self) -> dict[str, Any]:
        """The value of each limit of `best`."""
        return {} if self.best is None else self.best.setting

    @property
    def counts_tasks(self) -> bool:
        """Whether the unit of the promise is the cluster; else each success is one by itself."""
        return self.largest > 1

    @property
    def missing_in_words(self) -> str:
        """What is missing, such as "20 more tasks with a success"."""
        if self.counts_tasks:
            return count(self.missing, f"more {self.cluster} with a success", f"more {self.cluster}s with a success")
        return count(self.missing, "more success", "more successes")

    def needed_in_words(self, keep: float, error: float) -> str:
        """What it takes to show that a share is kept, such as "59 successes without a loss"."""
        needed = tasks_missing([], [], keep, error, largest=self.largest)
        what = (
            count(needed, f"{self.cluster} of one size", f"{self.cluster}s of one size")
            if self.counts_tasks
            else count(needed, "success", "successes")
        )
        return f"{what} without a loss"

    @property
    def qualifies(self) -> bool:
        """Whether any value was accepted: then no limit at all is an answer too."""
        return any(path.tests.accepted for path in self.paths)
