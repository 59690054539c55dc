"""After which step rules stop recorded runs: each rule once for all runs, all thresholds on a counter in one pass.

A stop after step k is known from steps 1 to k. It changes something only if a step follows, so a stop after the last
step is none. A rule that needs a counter which a recording lacks does not stop it. Stops are whole numbers: `NEVER`, or
the number of the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from boolab.core.run import Run
from boolab.limits.detector import Detector
from boolab.limits.stop import AllOf, AnyOf, StopRule, Threshold
from boolab.whatif.first_crossing import Places
from boolab.whatif.from_runs import ledger_of
from boolab.whatif.rule_matrix import stops_of_rules
from boolab.whatif.step_table import Ledger

Stops: TypeAlias = npt.NDArray[np.int32]
RuleScope: TypeAlias = Literal["turn", "run"]

NEVER: Final = 0
_LATE: Final = np.iinfo(np.int32).max
_AT_A_TIME: Final = 500  # settings: some 100 MB of arrays for 20,000 runs


@dataclass(frozen=True, slots=True)
class Scoped:
    """A rule, and where its counters start anew: with each user message (`turn`), or never (`run`)."""

    rule: StopRule
    scope: RuleScope = "run"


Setting: TypeAlias = tuple[Scoped, ...]
"""Rules of which the first that fires stops the run; none for no rule."""


class RuleTables:
    """The counters of runs, and where rules on them stop.

    Args:
        runs: The runs.
        settings: The settings that will be asked for: their detectors are counted in one pass over the runs.
    """

    def __init__(self, runs: Sequence[Run], settings: Iterable[Setting] = ()) -> None:
        self._runs = runs
        self._detectors: dict[RuleScope, dict[Detector, None]] = {"turn": {}, "run": {}}
        self._ledgers: dict[RuleScope, tuple[Ledger, Places]] = {}
        self._note(settings)

    def _note(self, settings: Iterable[Setting]) -> None:
        """Count the detectors of these settings, unless they are counted already."""
        for setting in settings:
            for each in setting:
                known = self._detectors[each.scope]
                new = [detector for detector in each.rule.detectors() if detector not in known]
                known.update(dict.fromkeys(new))
                if new:
                    self._ledgers.pop(each.scope, None)

    def ledger(self, scope: RuleScope) -> tuple[Ledger, Places]:
        """The ledger of one scope, and the positions of its steps."""
        if scope not in self._ledgers:
            ledger = ledger_of(self._runs, self._detectors[scope], scope)
            self._ledgers[scope] = ledger, Places(ledger)
        return self._ledgers[scope]

    def stops(self, settings: Sequence[Setting]) -> Stops:
        """After which step each setting stops each run: R x settings.

        Args:
            settings: The settings.
        """
        self._note(settings)
        out = np.empty((len(self._runs), len(settings)), dtype=np.int32)
        for start in range(0, len(settings), _AT_A_TIME):
            some = settings[start : start + _AT_A_TIME]
            scopes = list(dict.fromkeys(each.scope for setting in some for each in setting))
            found = [self._of_scope([_rule_of(setting, scope) for setting in some], scope) for scope in scopes]
            out[:, start : start + _AT_A_TIME] = np.min(found, axis=0) if found else _LATE
        lengths = np.array([len(run.steps) for run in self._runs])
        out[out >= lengths[:, None]] = NEVER
        return out

    def _of_scope(self, rules: Sequence[StopRule | None], scope: RuleScope) -> Stops:
        ledger, places = self.ledger(scope)
        at, stopped, _ = stops_of_rules(ledger, places, rules)
        # What is true before the first step stops a run after it: no run ends before it began.
        return np.where(stopped, np.maximum(at, 1), _LATE).astype(np.int32)


def _rule_of(setting: Setting, scope: RuleScope) -> StopRule | None:
    """The rules of one scope as one rule; None if there are none."""
    rules = [unless_unknown(each.rule) for each in setting if each.scope == scope]
    return reduce(or_, rules) if rules else None


def unless_unknown(rule: StopRule) -> StopRule:
    """The rule, with each unknown counter taken as one that has not reached its threshold.

    Example:
        >>> import boolab as bl
        >>> str(unless_unknown(bl.max_cost(1.0) | bl.max_steps(3)).leaves().__next__().on_unknown)
        'ignore'
    """
    if isinstance(rule, Threshold):
        return replace(rule, on_unknown="ignore")
    if isinstance(rule, AnyOf | AllOf):
        return type(rule)(tuple(map(unless_unknown, rule.rules)))
    return rule
