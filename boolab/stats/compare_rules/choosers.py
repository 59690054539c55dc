"""Functions that choose a rule by recorded runs: ready-made ones for `crossval`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from boolab.core.types import Scope
from boolab.limits.catalog import max_steps
from boolab.stats.compare_rules.judged import Judged, judged_of, recorded_once
from boolab.stats.compare_rules.settings import Choice, Rules, listed_settings
from boolab.stats.intervals import check_confidence
from boolab.whatif.recordings import Recorded
from boolab.whatif.rule_matrix import Rule

Chooser: TypeAlias = Callable[[Any], Choice]
"""A function that takes recorded runs, as they were given (runs, or a frame), and returns a rule or a setting."""

_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class ReadyChooser:
    """A chooser that needs only what rules make of each run, so that it is evaluated once for all parts of the data.

    Attributes:
        name: What it does, in a few words.
        candidates: The rules that it chooses from, if they do not depend on the runs.
        pick: The choice, from runs under the candidates.
        keep: The share of successes that it is to keep; None if it promises none.
    """

    name: str
    candidates: tuple[Rule, ...]
    pick: Callable[[Judged], Rule]
    keep: float | None = None

    def __call__(self, runs: Recorded, scope: Scope = "auto") -> Rule:
        """The choice by these runs."""
        return self.pick(judged_of(recorded_once(runs), self.candidates, scope=scope))


def smallest_cap(keep: float = 0.95) -> ReadyChooser:
    """A chooser of the smallest step cap that keeps a share of the successes.

    The cap is that of the runs that it is given: on other runs it may keep less. `bl.recommend` gives a cap that keeps
    so much of future successes at a confidence.

    Args:
        keep: The share of successes to keep, between 0 and 1.

    Returns:
        A function of recorded runs that returns `max_steps(n)`; None, no limit, where no run succeeded.

    Raises:
        SettingError: if keep is not between 0 and 1.

    Example:
        >>> import boolab as bl
        >>> looks = [{"tool_calls": [{"name": "ls", "arguments": {"page": n}}]} for n in range(20)]
        >>> models = [bl.ScriptedModel([*looks[:n], "Done."]) for n in range(1, 11)]
        >>> runs = [bl.run_sync(None, "Look", model=model) for model in models]
        >>> [str(bl.stats.smallest_cap(keep)(runs)) for keep in (0.8, 0.95)]
        ['max_steps(9)', 'max_steps(11)']
    """
    check_confidence(keep, "keep")

    def pick(judged: Judged) -> Rule:
        needed = np.sort(judged.peak[judged.success == 1]) + 1
        if not len(needed):
            return None
        return max_steps(max(1, int(needed[math.ceil(keep * len(needed) - _ROUNDING) - 1])))

    return ReadyChooser(f"the smallest cap that keeps {keep:.0%}", (), pick, keep)


def percentile_cap(share: float = 0.75) -> ReadyChooser:
    """A chooser of the step cap at a percentile of the steps of all runs, whether they succeed or not.

    At 0.75 it is the blind truncation of arXiv 2510.16786: the whole number at or below the linear 75th percentile.

    Args:
        share: The share of the runs, between 0 and 1.

    Returns:
        A function of recorded runs that returns `max_steps(n)`; None, no limit, where there is no run.

    Raises:
        SettingError: if share is not between 0 and 1.

    Example:
        >>> import boolab as bl
        >>> looks = [{"tool_calls": [{"name": "ls", "arguments": {"page": n}}]} for n in range(20)]
        >>> models = [bl.ScriptedModel([*looks[:n], "Done."]) for n in range(1, 11)]
        >>> runs = [bl.run_sync(None, "Look", model=model) for model in models]
        >>> str(bl.stats.percentile_cap()(runs))
        'max_steps(8)'
    """
    check_confidence(share, "share")

    def pick(judged: Judged) -> Rule:
        return max_steps(max(1, math.floor(np.quantile(judged.steps, share)))) if judged.n_runs else None

    return ReadyChooser(f"the cap at the {100 * share:g}th percentile of the steps", (), pick)


def best_rule(rules: Rules, keep: float = 0.95) -> ReadyChooser:
    """A chooser of the setting that saves most steps of those that keep a share of the successes.

    No limit is always one of the settings. Of settings that save the same, it takes the one that keeps more; of those,
    the first.

    Args:
        rules: Rules; a grid such as `{"max_steps": range(5, 50), "doom_loop": [3, None]}`; or thresholds by the
            function of a rule: see `frontier`.
        keep: The share of successes to keep, between 0 and 1.

    Returns:
        A function of recorded runs that returns one of the rules; None, no limit, where no run succeeded, or no rule
        keeps so much and saves a step.

    Raises:
        SettingError: if keep is not between 0 and 1, or there is no rule.

    Example:
        >>> import boolab as bl
        >>> looks = [{"tool_calls": [{"name": "ls", "arguments": {"page": n}}]} for n in range(20)]
        >>> models = [bl.ScriptedModel([*looks[:n], "Done."]) for n in range(1, 11)]
        >>> runs = [bl.run_sync(None, "Look", model=model) for model in models]
        >>> str(bl.stats.best_rule({bl.max_steps: range(5, 12), bl.doom_loop: [3, 4, 5]}, keep=0.8)(runs))
        'max_steps(9)'
    """
    check_confidence(keep, "keep")
    listed = (None, *(rule for rule in listed_settings(rules).rules if rule is not None))

    def pick(judged: Judged) -> Rule:
        kept = judged.matrix.kept_lower.sum(axis=0)
        saved = judged.matrix.saved_steps.sum(axis=0, dtype=np.int64)
        successes = int((judged.success == 1).sum())
        fine = np.flatnonzero(kept >= keep * successes - _ROUNDING) if successes else np.array([0])
        return judged.rules[int(min(fine, key=lambda place: (-saved[place], -kept[place], place)))]

    return ReadyChooser(f"the best of {len(listed):,} settings that keep {keep:.0%}", listed, pick, keep)
